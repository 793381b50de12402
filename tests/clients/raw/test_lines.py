"""Lines over pipes: what is malformed, what is of another era, what is cancelled; answered or let go, never fatal."""

import json
import os
import random
import subprocess
import time

import pytest

from support.bench import gone
from support.raw import LEGACY, META, MODERN, serve

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


def is_parse_error(message):
    return message.get("error", {}).get("code") == -32700


def test_x01_stdout_carries_only_the_protocol_with_rust_log_trace(bench):
    client = serve(bench, env={"RUST_LOG": "trace"}).homed()
    client.to(x=60, y=40)
    client.refused("move_to", targets={"x": 1000}, unit="mm")
    client.call("acquire_image", preview=True)
    client.write(b"not json\n")
    client.call("stop")
    errors = client.errors()
    assert client.end() == 0
    client.pure()
    assert b"TRACE" in errors, "the log went nowhere"


def test_x01_what_a_c_library_prints_goes_to_stderr(bench, tmp_path):
    source = tmp_path / "chatty.c"
    source.write_text(
        "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        "static void *chat(void *nothing) {\n"
        "  for (int i = 0; i < 20; i++) { usleep(50000); printf(\"chatty: printf %d\\n\", i); fflush(stdout);\n"
        "    if (write(1, \"chatty: write\\n\", 14) < 0) break; }\n"
        "  return nothing;\n}\n"
        "__attribute__((constructor)) static void begin(void) { pthread_t t; pthread_create(&t, 0, chat, 0); }\n"
    )
    library = tmp_path / "chatty.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-lpthread"], check=True)
    client = serve(bench, env={"LD_PRELOAD": str(library)}, hello=False)
    time.sleep(0.3)
    assert client.ask(HELLO["method"], **HELLO["params"])["result"]
    for _ in range(20):
        client.call("get_state")
        time.sleep(0.05)
    errors = client.errors()
    assert client.end() == 0
    client.pure()
    assert b"chatty: printf" in errors and b"chatty: write" in errors


@pytest.mark.parametrize(
    "before",
    [b"not json\n", b"\n", b"\r\n", b"   \n", b"{\n", b"[]\n", b"7\n", b"null\n", b"\xff\xfe\x00\n", b"{}\n"],
    ids=["text", "empty", "crlf", "blank", "cut", "batch", "number", "null", "not-utf-8", "object"],
)
def test_x07_a_bad_line_first_does_not_end_the_session(bench, before):
    client = serve(bench, hello=False)
    client.write(before)
    client.send(HELLO)
    assert client.answer(1)["result"]["serverInfo"]["name"] == "steadyhand"
    client.last = 1
    assert client.call("whoami")["status"] == "ok"
    assert client.end() == 0
    client.pure()


def test_x07_byte_order_mark_and_crlf_are_tolerated(bench):
    client = serve(bench, hello=False)
    client.write(b"\xef\xbb\xbf" + json.dumps(HELLO).encode() + b"\r\n")
    assert client.answer(1)["result"]
    client.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\r\n\r\n\n')
    client.write(b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\r\n')
    assert client.answer(2)["result"]["tools"]
    assert client.end() == 0
    client.pure()


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_x28_an_old_handshake_gets_the_version_it_asked_for(bench, version):
    client = serve(bench, hello=False)
    params = {**HELLO["params"], "protocolVersion": version}
    result = client.ask("initialize", **params)["result"]
    assert result["protocolVersion"] == version
    assert "resultType" not in result
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    listed = client.ask("tools/list")["result"]
    assert "resultType" not in listed
    called = client.ask("tools/call", name="stop", arguments={})["result"]
    assert called["isError"] is False and "resultType" not in called
    assert client.end() == 0
    client.pure()


def test_x28_a_version_of_the_future_gets_the_newest_that_shakes_hands(bench):
    client = serve(bench, hello=False)
    result = client.ask("initialize", **{**HELLO["params"], "protocolVersion": "2099-01-01"})["result"]
    assert result["protocolVersion"] == "2025-11-25"
    client.end()


def test_x28_discover_first_then_calls_without_a_handshake(bench):
    client = serve(bench, hello=False, modern=True)
    found = client.ask("server/discover")["result"]
    assert MODERN in found["supportedVersions"] and found["resultType"] == "complete"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "steadyhand"
    client.ready()
    listed = client.ask("tools/list")["result"]
    assert listed["resultType"] == "complete" and listed["cacheScope"] == "private" and listed["ttlMs"] > 0
    assert client.ask("tools/call", name="stop", arguments={})["result"]["resultType"] == "complete"
    assert client.end() == 0
    client.pure()


def test_x28_a_modern_call_may_be_the_very_first_line(bench):
    client = serve(bench, hello=False, modern=True)
    result = client.result("stop")
    assert result["resultType"] == "complete"
    client.end()
    client.pure()


def test_x28_both_eras_list_the_same_tools_in_the_same_order(bench):
    lists = []
    for modern in (False, True, False):
        client = serve(bench, modern=modern).ready()
        lists.append(client.tools())
        client.end()
    assert lists[0] == lists[1] == lists[2]


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
def test_x28_an_unknown_version_is_told_which_ones_there_are(bench, method):
    client = serve(bench, hello=False)
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "1900-01-01"}
    error = client.ask(method, name="stop", arguments={}, _meta=meta)["error"]
    assert error["code"] == -32022
    assert error["data"]["requested"] == "1900-01-01" and MODERN in error["data"]["supported"]
    # A client that falls back to the handshake is served.
    assert client.ask("initialize", **HELLO["params"])["result"]["protocolVersion"] == LEGACY
    assert client.end() == 0
    client.pure()


@pytest.mark.parametrize("modern", [False, True], ids=["2025", "2026"])
def test_x31_no_log_messages_that_nobody_asked_for(bench, modern):
    client = serve(bench, modern=modern, env={"RUST_LOG": "debug"}).homed()
    client.to(x=60, y=40)
    client.call("acquire_image")
    client.refused("move_to", targets={"x": -5}, unit="mm")
    client.end()
    client.pure()
    assert not [m for m in client.messages if m.get("method") == "notifications/message"]


def test_x26_a_client_that_never_answers_blocks_nothing(bench):
    everything = {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}}
    client = serve(bench, capabilities=everything).homed()
    client.to(x=60, y=40)
    id = client.begin_call("move_to", targets={"x": 20}, unit="mm")
    bench.until(bench.moving, 2, "the move begins")
    begun = time.monotonic()
    assert client.call("get_state")["stages"][0]["activity"] == "moving"
    assert client.call("stop")["standstill"] is True
    assert time.monotonic() - begun < 2
    assert client.answer(id)["result"]["isError"] is True
    client.end()
    client.pure()
    assert not [m for m in client.messages if "method" in m and "id" in m], "the server waits for its client"


def test_x24_a_client_that_gives_up_and_calls_again_moves_once(bench):
    """Its limit is a second; the way takes more than two."""
    client = serve(bench, options=["--request-timeout-ms", "1000"]).homed()
    client.to(x=60, y=40)
    epoch = client.epoch()
    move = {"offsets": {"x": -40}, "unit": "mm", "from_epoch": epoch}
    since = bench.now()
    begun = time.monotonic()
    first = client.call("move_by", **move, command_id="once")
    assert time.monotonic() - begun < 1.0, "answered after the client has given up"
    assert first["status"] == "running" and first["job_id"]
    text, facts = client.refused("move_by", **move)
    assert facts["code"] == "moved_on" and facts["moved"] == "no", text
    assert bench.moving(), "the refusal waited for the first move"
    again = client.call("move_by", **move, command_id="once", wait_s=20)
    assert again["status"] == "ok" and again["repeated"] is True
    assert again["axes"]["x"]["start"] == 60 and again["axes"]["x"]["end"] == 20
    assert abs(bench.position("x") - 20) < 0.02
    assert len([line for line in bench.lines(since) if "X" in line]) == 1
    job = client.call("get_job", job_id=first["job_id"])
    assert job["status"] == "ok" and job["axes"] == again["axes"]
    text, facts = client.refused("move_by", **move)
    assert facts["code"] == "moved_on", text
    client.end()
    client.pure()


def test_x25_what_is_not_known_is_null_or_in_words_and_every_line_is_strict_json(bench):
    """The parser here takes no NaN and no Infinity; positions are unknown at a first start, and the frame is dark."""
    client = serve(bench, data="new").ready()
    axes = client.call("get_state")["stages"][0]["axes"]
    assert all(a["trust"] == "unknown" for a in axes.values())
    client.call("set_camera", exposure_ms=0.01)
    stats = client.call("acquire_image")["stats"]
    assert all(v is None or isinstance(v, (int, float)) for v in stats.values())
    assert client.call("get_attribute_payload", name="psize_km1") == {"result": None}
    assert client.call("get_attribute_payload", name="image_km1") == {"result": None}
    assert client.call("get_previous_image_info")["psize"] is None
    client.call("check_move", targets={"x": 5}, unit="mm")
    client.end()
    client.pure()


def test_x10_stdin_is_dev_null(bench):
    done = subprocess.run(bench.command(), stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
    assert done.returncode == 0 and done.stdout == b""
    assert bench.holders() == []


def test_an_idle_server_says_nothing_and_does_not_spin(bench):
    client = serve(bench).ready()
    lines = len(client.lines)
    with open(f"/proc/{client.process.pid}/stat") as stat:
        ticks = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
    time.sleep(2)
    with open(f"/proc/{client.process.pid}/stat") as stat:
        spent = (sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) - ticks) / os.sysconf("SC_CLK_TCK")
    assert spent < 0.4, f"{spent} s of CPU in 2 s"
    assert len(client.lines) == lines
    assert client.end() == 0 and gone(client.process.pid)


def test_x07_a_thousand_bad_lines_get_a_bounded_answer(bench):
    client = serve(bench)
    first = len(client.lines)
    client.write(b"".join(b"not json %d\n" % n for n in range(1000)))
    assert client.wait_for(is_parse_error, 5), "not one -32700"
    assert client.call("whoami")["status"] == "ok"
    answers = client.lines[first:]
    assert len(answers) < 100 and sum(map(len, answers)) < 64 * 1024
    assert client.end() == 0
    client.pure()
