"""MCP Inspector's command line: its checks of portability find nothing, and it can call, in both protocol eras."""

import json
import os
import subprocess

import pytest

from support.raw import Shared

INSPECTOR = [os.environ.get("NODE", "node"), os.environ.get("INSPECTOR", "inspector"), "--cli"]


def inspect(bench, *arguments, era):
    Shared.end()
    command = [str(part) for part in bench.command()]
    # Its own folder for files, so that nothing of the person's is read or written.
    env = {**os.environ, "HOME": str(bench.folder), "MCP_CATALOG_PATH": str(bench.folder / "catalog.json")}
    return subprocess.run(
        [*INSPECTOR, *arguments, "--protocol-era", era, "--format", "json", "--", *command],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
    )


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_strict_finds_nothing(bench, era):
    done = inspect(bench, "--method", "tools/list", "--strict", era=era)
    assert done.returncode == 0, done.stderr
    tools = json.loads(done.stdout)["result"]["tools"]
    assert len(tools) >= 25
    findings = [line for line in done.stderr.splitlines() if "INFO steadyhand" not in line and line.strip()]
    assert findings == [], done.stderr


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_it_calls_and_reads_errors(bench, era):
    good = inspect(bench, "--method", "tools/call", "--tool-name", "whoami", era=era)
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["result"]["structuredContent"]["status"] == "ok"
    since = bench.now()
    arguments = json.dumps({"targets": {"x": 80}, "unit": "mm"})
    refused = inspect(bench, "--method", "tools/call", "--tool-name", "move_to", "--tool-args-json", arguments, era=era)
    said = refused.stdout + refused.stderr
    assert "Moved: no" in said and "Next: " in said, said
    assert bench.orders(since) == []
