"""The protocol's own conformance suite against `serve --http`: what both revisions require of a server.

Many of its scenarios call tools, prompts and resources of a fixture server that this program doesn't have; those are
listed here by name. Every other one must pass, and a scenario that is on no list fails, so that a new one is seen.
"""

import json
import os
import re
import subprocess

import pytest

from support.raw import Shared
from support.web import Web

SUITE = [os.environ.get("NODE", "node"), os.environ.get("CONFORMANCE", "conformance")]

# Run and passed whole.
MUST_PASS = {
    "2025-11-25": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"},
    "2026-07-28": {
        "tools-list",
        "server-sse-multiple-streams",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "http-header-validation",
        "input-required-result-missing-input-response",
        "input-required-result-unsupported-methods",
        "input-required-result-ignore-extra-params",
        "input-required-result-validate-input",
    },
}

# Passed but for these checks, which need a tool of the fixture, or prompts and resources.
MUST_PASS_BUT = {
    "2025-11-25": {},
    "2026-07-28": {
        "server-stateless": {
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-server-no-log-without-loglevel",
        },
        "caching": {
            "sep-2549-prompts-list-caching-hints",
            "sep-2549-resources-list-caching-hints",
            "sep-2549-resources-templates-list-caching-hints",
        },
    },
}

# Scenarios of the fixture, and of what a server may leave out: sessions, polling, tasks.
FIXTURES = re.compile(
    r"tools-call-.*|resources-.*|prompts-.*|elicitation-.*|completion-complete|logging-set-level|json-schema-2020-12"
    r"|input-required-result-.*|http-custom-header-server-validation|server-session-lifecycle|server-sse-.*|tasks-.*"
)


@pytest.fixture(scope="module")
def web(bench):
    Shared.end()
    with Web(bench) as made:
        yield made


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_what_a_revision_requires_and_no_fixture_needs(web, revision, tmp_path):
    command = [*SUITE, "server", "--url", web.url, "--requirements", revision, "--output-dir", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    seen = {}
    for file in tmp_path.glob("server-*/checks.json"):
        name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\dZ-]+", file.parent.name)[1]
        seen[name] = json.loads(file.read_text())
    assert len(seen) > 25, done.stdout + done.stderr
    assert MUST_PASS[revision] | set(MUST_PASS_BUT[revision]) <= set(seen)
    for name, checks in seen.items():
        failed = {c["id"] for c in checks if c["status"] == "FAILURE"}
        if name in MUST_PASS[revision]:
            assert any(c["status"] == "SUCCESS" for c in checks), name
            excused = set()
        elif name in MUST_PASS_BUT[revision]:
            excused = MUST_PASS_BUT[revision][name]
        else:
            assert FIXTURES.fullmatch(name), f"a scenario that is on no list: {name}"
            # Whatever is asked, an answer must be one of the protocol.
            excused = failed - {"wire-schema-valid"}
        wrong = {c["id"]: c.get("errorMessage") for c in checks if c["id"] in failed - excused}
        assert not wrong, (name, wrong)
