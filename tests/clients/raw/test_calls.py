"""One server that stands referenced, and what a client without a library can send it: calls that cross, cancels, ids."""

import random
import time

import pytest


def test_x02_a_cancelled_move_stops_and_is_not_answered(homed, bench):
    homed.to(x=60, y=40)
    before = bench.now()
    id = homed.begin_call("move_to", targets={"x": 20}, unit="mm")
    bench.until(bench.moving, 2, "the move begins")
    cancelled = bench.now()
    homed.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "no"}})
    bench.until(lambda: bench.stops(cancelled), 1, "stop bytes")
    assert bench.stops(cancelled)[0] - cancelled < 200
    bench.stands()
    assert 20.5 < bench.position("x") < 60, "it went to its end"
    assert len([line for line in bench.lines(before) if "X" in line]) == 1
    state = homed.call("get_state")
    assert state["stages"][0]["activity"] == "idle"
    time.sleep(0.5)
    assert not [m for m in homed.messages if m.get("id") == id], "a cancelled id was answered"


def test_x03_cancels_at_random_moments_crash_nothing_and_no_id_is_answered_twice(homed):
    rng, first = random.Random(3), len(homed.messages)
    ids = []
    for _ in range(2500):
        ids.append(homed.begin_call("get_state"))
        if rng.random() < 0.5:
            victim = rng.choice(ids[-5:])
            homed.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": victim}})
    assert homed.call("whoami")["status"] == "ok"
    time.sleep(0.3)
    answered = [m["id"] for m in homed.messages[first:] if "method" not in m]
    assert len(answered) == len(set(answered))
    assert len(set(answered) & set(ids)) >= len(ids) / 4


def test_a_batch_is_refused_and_none_of_its_members_runs(homed, bench):
    homed.to(x=60, y=40)
    since = bench.now()
    move = {"name": "move_to", "arguments": {"targets": {"x": 50}, "unit": "mm"}}
    batch = [{"jsonrpc": "2.0", "id": f"b{n}", "method": "tools/call", "params": move} for n in range(2)]
    first = len(homed.messages)
    homed.send(batch)
    homed.refusals(first, [(None, -32600)])
    assert bench.orders(since) == []


def test_an_unknown_method_is_minus_32601_and_an_unknown_tool_minus_32602(homed):
    assert homed.ask("tools/frobnicate")["error"]["code"] == -32601
    unknown = homed.ask("tools/call", name="move_too", arguments={})
    assert unknown["error"]["code"] == -32602
    assert homed.call("whoami")["status"] == "ok"


def test_null_params_are_absent_ones(homed):
    homed.send({"jsonrpc": "2.0", "id": "p", "method": "tools/list", "params": None})
    assert homed.answer("p")["result"]["tools"]
    homed.send({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": None})
    assert homed.answer("q")["error"]["code"] == -32602


@pytest.mark.parametrize("id", [7, "7", 9007199254740993, -1, "", 0, "ü☃"], ids=repr)
def test_x34_an_id_comes_back_with_its_type_and_value(homed, id):
    homed.begin("tools/call", id=id, name="whoami", arguments={})
    assert homed.answer(id, 5)["result"]["structuredContent"]["status"] == "ok"


@pytest.mark.parametrize("id", [1.5, None, [1], {"a": 1}, True], ids=repr)
def test_x34_what_can_be_no_id_is_refused(homed, id):
    first = len(homed.messages)
    homed.send({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}})
    homed.refusals(first, [(None, -32600)])


def test_x34_seven_as_number_and_as_text_are_different_requests(homed, bench):
    homed.to(x=60, y=40)
    homed.begin("tools/call", id=1000007, name="move_to", arguments={"targets": {"x": 40}, "unit": "mm"})
    homed.begin("tools/call", id="1000007", name="get_state", arguments={})
    bench.until(bench.moving, 2, "the move begins")
    homed.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1000007"}})
    assert homed.answer(1000007)["result"]["structuredContent"]["status"] == "ok"
    assert abs(bench.position("x") - 40) < 0.02


def test_two_calls_at_once_are_both_answered_and_stop_overtakes_the_move(homed, bench):
    homed.to(x=60, y=40)
    move = homed.begin_call("move_to", targets={"x": 20}, unit="mm")
    bench.until(bench.moving, 2, "the move begins")
    state = homed.begin_call("get_state")
    assert homed.answer(state, 2)["result"]["structuredContent"]["stages"][0]["activity"] == "moving"
    at = bench.now()
    stop = homed.begin_call("stop")
    said = homed.answer(stop, 5)["result"]["structuredContent"]
    assert said["standstill"] is True and said["stopped"] == ["scope"]
    assert bench.stops(at)[0] - at < 100
    ended = homed.answer(move, 5)["result"]
    assert ended["isError"] is True and ended["structuredContent"]["moved"] == "yes"
    bench.stands()
    told = said["stages"][0]["positions"]["x"]["position"]
    assert abs(told - bench.position("x")) < 0.02


def test_a_line_of_ten_megabytes_is_refused_and_the_next_is_served(homed):
    first = len(homed.messages)
    homed.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (10 << 20) + b'"}\n')
    homed.refusals(first, [(None, -32600)])
