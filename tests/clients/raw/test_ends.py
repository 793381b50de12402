"""How a server ends in mid-move: the end of the input, a signal, a client that is killed. The bench is asked."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.bench import gone
from support.raw import serve


def in_mid_move(bench):
    """A homed server that moves x from 60 to 10 mm, for about 2.6 s."""
    client = serve(bench).homed()
    client.to(x=60, y=40)
    id = client.begin_call("move_to", targets={"x": 10}, unit="mm")
    bench.until(lambda: bench.position("x") < 55, 3, "it is under way")
    return client, id


def ended_well(bench, since, ended):
    """Stop bytes came at once, the axis stands short of its target, and another process gets the port within 3 s."""
    stops = bench.stops(since)
    assert stops and stops[0] - since < 500, f"stop bytes after {stops and stops[0] - since} ms"
    bench.stands()
    assert 11 < bench.position("x") < 55.5, "it went on to its end"
    at_rest = bench.position("x")
    assert bench.holders() == []
    other = serve(bench).ready(3)
    assert time.monotonic() - ended < 3, "the port was not free in time"
    assert abs(bench.position("x") - at_rest) < 0.001
    assert other.call("get_state")["stages"][0]["activity"] == "idle"
    other.end()


def test_x10_end_of_input_in_mid_move(bench):
    client, id = in_mid_move(bench)
    since, begun = bench.now(), time.monotonic()
    code = client.end(3)
    assert (code, gone(client.process.pid)) == (0, True)
    ended_well(bench, since, begun)
    client.pure()
    # The call in flight may still be answered, as what it is.
    answers = [m for m in client.messages if m.get("id") == id]
    assert all(m["result"]["isError"] for m in answers)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_in_mid_move(bench, name):
    client, _ = in_mid_move(bench)
    since, begun = bench.now(), time.monotonic()
    client.process.send_signal(getattr(signal, name))
    assert client.process.wait(3) == 0
    ended_well(bench, since, begun)
    client.end()
    client.pure()


def test_a_client_killed_in_mid_move_stops_its_axes(bench):
    """SIGKILL, so that only the closed pipes tell."""
    here = Path(__file__).resolve().parents[1]
    command = [sys.executable, str(here / "support/mover.py"), json.dumps([str(c) for c in bench.command()])]
    mover = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    server = int(mover.stdout.readline())
    try:
        assert mover.stdout.readline() == "moving\n"
        bench.until(lambda: bench.position("x") < 55, 3, "it is under way")
        since, begun = bench.now(), time.monotonic()
        mover.send_signal(signal.SIGKILL)
        mover.wait()
        bench.until(lambda: gone(server), 3, "the server ends with its client")
        ended_well(bench, since, begun)
    finally:
        mover.kill()
        mover.wait()
        mover.stdout.close()
        if not gone(server):
            os.kill(server, signal.SIGKILL)


def test_a_client_that_stops_reading_can_still_end_the_server(bench):
    """The pipe towards the client is full; the end of the input must get through all the same."""
    client = subprocess.Popen(bench.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}
        lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}]
        lines += [{"jsonrpc": "2.0", "id": n, "method": "tools/list"} for n in range(1, 40)]
        client.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        client.stdin.flush()
        time.sleep(0.5)
        client.stdin.close()
        assert client.wait(5) == 0
    finally:
        client.kill()
        client.wait()
        client.stdout.close()
    assert bench.holders() == []
