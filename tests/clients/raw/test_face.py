"""The tools as a client sees them: schemas that every client takes, typed numbers, refusals whose next step exists."""

import re

import pytest

from support.raw import serve

KEYWORDS = {"from", "in", "is", "class", "def", "for", "if", "lambda", "not", "or", "and", "with", "import", "pass"}
COMBINATORS = {"$ref", "$defs", "definitions", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"}


def walk(value, path=""):
    """Every object within a JSON value, with its path."""
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            yield from walk(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from walk(inner, f"{path}[{n}]")


def test_x19_every_schema_is_one_flat_object(homed):
    tools = homed.tools()
    assert len(tools) >= 25
    for tool in tools:
        for key in ("inputSchema", "outputSchema"):
            schema = tool[key]
            assert schema["type"] == "object" and isinstance(schema["properties"], dict), (tool["name"], key)
            for path, inner in walk(schema, f"{tool['name']}.{key}"):
                if not path.endswith(".properties"):
                    assert not COMBINATORS & set(inner), path
                    assert not isinstance(inner.get("type", ""), list), path
                    assert not str(inner.get("format", "")).startswith("uint"), path
                assert "$schema" not in inner, path
        assert tool["inputSchema"]["additionalProperties"] is False, tool["name"]


def test_e16_every_argument_has_a_plain_type_and_says_what_it_is(homed):
    for tool in homed.tools():
        assert re.fullmatch(r"[a-z_]{1,30}", tool["name"])
        assert tool["description"]
        for name, schema in tool["inputSchema"]["properties"].items():
            where = f"{tool['name']}({name})"
            assert name.isidentifier() and name not in KEYWORDS, where
            assert schema["type"] in ("string", "number", "integer", "boolean", "array", "object"), where
            assert schema["description"], where
        assert set(tool["inputSchema"].get("required", [])) <= set(tool["inputSchema"]["properties"])


def test_e16_null_for_an_optional_argument_is_as_if_it_were_absent(homed, bench):
    homed.to(x=60, y=40)
    assert homed.call("get_state", stage=None)["status"] == "ok"
    assert homed.call("list_events", kind=None, limit=None)["status"] == "ok"
    homed.call("move_to", stage=None, targets={"x": 59}, unit="mm", command_id=None, wait_s=None, saved_position=None)
    assert abs(bench.position("x") - 59) < 0.02
    assert homed.call("acquire_image", label=None, preview=None)["status"] == "ok"


def test_a_null_where_a_number_steers_hardware_is_refused(homed, bench):
    """A workflow's NaN arrives as null: to keep the present value would move what nobody asked for."""
    since = bench.now()
    for tool, arguments in (
        ("move_to", {"targets": {"x": None}, "unit": "mm"}),
        ("set_camera", {"exposure_ms": None}),
        ("acquire_image", {"x_center": None, "y_center": 1, "size_x": 1, "size_y": 1}),
        ("set_parameters", {"parameters": [None]}),
    ):
        text, facts = homed.refused(tool, **arguments)
        assert facts["code"] == "invalid_argument" and facts["moved"] == "no", text
    assert bench.orders(since) == []


NO_NUMBER = ["30", "1,5", "0x10", "1e3mm", "", "NaN", "inf", "10 Y999 M3 S1000", "10\nG0X0", True, None, [1], {"v": 1}]


@pytest.mark.parametrize("value", NO_NUMBER, ids=repr)
def test_e15_what_is_no_number_is_refused_by_name_and_nothing_is_sent(homed, bench, value):
    since, epoch = bench.now(), homed.epoch()
    calls = [
        ("move_to", {"targets": {"x": value}, "unit": "mm"}, "targets"),
        ("move_by", {"offsets": {"x": value}, "unit": "mm", "from_epoch": epoch}, "offsets"),
        ("check_move", {"targets": {"x": value}, "unit": "mm"}, "targets"),
        ("set_camera", {"exposure_ms": value}, "exposure_ms"),
        ("set_parameters", {"parameters": [value]}, "parameters"),
    ]
    if value is not None:
        calls.append(("move_to", {"targets": {"x": 50}, "unit": "mm", "wait_s": value}, "wait_s"))
    for tool, arguments, name in calls:
        text, facts = homed.refused(tool, **arguments)
        assert facts["code"] == "invalid_argument" and name in text, text
        assert "Moved: no" in text
    assert bench.orders(since) == []


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_numbers_beyond_a_float_are_refused(homed, bench, number):
    since, first = bench.now(), len(homed.messages)
    homed.write(
        b'{"jsonrpc":"2.0","id":"far","method":"tools/call","params":{"name":"move_to",'
        b'"arguments":{"targets":{"x":%s},"unit":"mm"}}}\n' % number.encode()
    )
    homed.wait_for(lambda m: m in homed.messages[first:], 5)
    assert [m["error"]["code"] for m in homed.messages[first:]] == [-32700]
    assert bench.orders(since) == []


def test_e02_result_is_a_key_alone_or_no_key_at_all(homed):
    homed.to(x=60, y=40)
    for tool in homed.tools():
        properties = tool["outputSchema"]["properties"]
        assert "result" not in properties or set(properties) == {"result"}, tool["name"]
    homed.call("acquire_image")
    homed.call("get_attribute_payload", name="psize_k")
    homed.call("get_parameters")
    homed.call("stop")
    homed.call("clear_fault", device="scope")
    homed.call("list_images")
    homed.refused("get_attribute_payload", name="nonsense")
    seen = 0
    for message in homed.messages:
        content = message.get("result", {}).get("structuredContent") or {}
        if "result" in content:
            assert set(content) == {"result"}, content
            seen += 1
        assert not {"messages", "image_path", "image_paths"} & set(content)
    assert seen >= 2


def test_hole_07_no_tool_writes_limits_or_code(homed, bench):
    before, since = homed.call("describe_rig"), bench.now()
    before.pop("saved_positions")
    words = re.compile(r"limit$|limits|travel|max_speed|keep_out|tolerance|origin|script|gcode|code|driver|raw|command$")
    for tool in homed.tools():
        wrong = [n for n in tool["inputSchema"]["properties"] if words.search(n) and n != "limit"]
        assert not wrong, (tool["name"], wrong)
        assert not re.search(r"write|exec|eval|script|config|send|flash", tool["name"]), tool["name"]
    for tool, more in (
        ("move_to", {"limits": {"x": [0, 1e9]}}),
        ("move_to", {"travel": [0, 1e9]}),
        ("move_to", {"max_speed_per_s": 1e9}),
        ("set_parameters", {"parameter_ranges": [[-1e9], [1e9]]}),
    ):
        arguments = {"targets": {"x": 500}, "unit": "mm"} if tool == "move_to" else {"parameters": [5e8]}
        _, facts = homed.refused(tool, **arguments, **more)
        assert facts["code"] == "invalid_argument"
    _, facts = homed.refused("set_parameters", parameters=[5e8])
    assert facts["code"] == "out_of_travel"
    _, facts = homed.refused("move_to", targets={"x": 500}, unit="mm")
    assert facts["code"] == "out_of_travel"
    assert homed.ask("tools/call", name="set_config", arguments={"name": "travel"})["error"]["code"] == -32602
    after = homed.call("describe_rig")
    after.pop("saved_positions")
    assert after == before and bench.orders(since) == []


@pytest.mark.parametrize("word", ["confirm", "confirmed", "force", "override", "approve", "approved", "yes", "unsafe"])
def test_hole_12_no_argument_grants(homed, bench, word):
    since = bench.now()
    for tool in homed.tools():
        assert word not in tool["inputSchema"]["properties"], tool["name"]
    for x in (50, 500):
        text, facts = homed.refused("move_to", targets={"x": x}, unit="mm", **{word: True})
        assert facts["code"] == "invalid_argument" and word in text
    homed.call("stop")
    text, facts = homed.refused("clear_fault", device="scope", **{word: True})
    assert facts["code"] == "invalid_argument", text
    assert bench.orders(since) == []


def next_steps(text):
    """The tools that the sentence after `Next:` tells to call."""
    return re.findall(r"\b([a-z]+(?:_[a-z]+)*) \{", text.split("Next: ", 1)[1]) + re.findall(
        r"call ([a-z]+(?:_[a-z]+)*)\b", text.split("Next: ", 1)[1]
    )


REFUSED = [
    ("move_to", {"targets": {"x": 80}, "unit": "mm"}),
    ("move_to", {"targets": {"x": 5, "y": 5}, "unit": "mm"}),
    ("move_to", {"targets": {"x": "80"}, "unit": "mm"}),
    ("move_to", {"targets": {"q": 1}, "unit": "mm"}),
    ("move_to", {"targets": {"x": 1}, "unit": "parsec"}),
    ("move_to", {"saved_position": "nowhere"}),
    ("move_by", {"offsets": {"x": 1}, "unit": "mm", "from_epoch": 1}),
    ("get_job", {"job_id": "job-99999"}),
    ("cancel_job", {"job_id": "job-99999"}),
    ("get_attribute_payload", {"name": "limits"}),
    ("export_array", {"name": "a", "image_id": "20000101-000000-0001"}),
    ("export_array", {"name": "../../etc/passwd", "buffer": "image_k"}),
    ("clear_fault", {"device": "nobody"}),
    ("acquire_image", {"x_center": 1}),
    ("acquire_image", {"x_center": 30000, "y_center": 20000, "size_x": 9e6, "size_y": 9e6}),
    ("acquire_image", {"x_center": 9e6, "y_center": 20000, "size_x": 100, "size_y": 100}),
    ("set_camera", {"exposure_ms": -1}),
    ("set_parameters", {"parameters": [1e9]}),
]


@pytest.mark.parametrize("options", [[], ["--read-only"]], ids=["full", "read-only"])
@pytest.mark.parametrize("state", ["fresh", "homed", "stopped"])
def test_hole_16_each_next_step_is_a_tool_of_this_caller_and_stays_within_the_limits(bench, options, state):
    client = serve(bench, options=options).ready()
    if state == "homed" and not options:
        client.homed()
    if state == "stopped":
        client.call("stop")
    mine = client.call("whoami")["tools"]
    assert mine == [t["name"] for t in client.tools()]
    for tool, arguments in REFUSED:
        text, facts = client.refused(tool, **arguments)
        assert re.match(r"\[[a-z_]+\] .* Moved: (no|yes|unknown)\. Next: \S", text, re.S), text
        steps = next_steps(text)
        assert all(step in mine for step in steps), (text, steps)
        assert steps or "person" in text, text
        assert not re.search(r"(widen|raise|increase|edit|change|lower)[^.]*(limit|travel|rig file|keep-out)", text), text
        assert facts["status"] == "error" and facts["moved"] == "no"
    client.end()
    client.pure()


def test_hole_15_an_absent_stage_at_start_leaves_the_camera_and_says_why(bench):
    port = str(bench.links / "scope")
    client = serve(bench, rig=bench.rig((port, "/dev/serial/by-id/usb-nothing"), name="absent.toml"))
    devices = {d["device"]: d for d in client.call("diagnose")["devices"]}
    assert devices["scope"]["open"] is False
    bench.until(lambda: client.call("diagnose")["devices"][1]["open"], 5, "the camera is there")
    # Each link opens on its own thread, so the camera may be there before the port was found missing.
    bench.until(lambda: client.call("diagnose")["devices"][0]["last_error"], 5, "the port was tried")
    why = {d["device"]: d for d in client.call("diagnose")["devices"]}["scope"]
    assert "/dev/serial/by-id/usb-nothing" in why["last_error"] and "person" in why["to_do"]
    bench.until(lambda: "move_to" not in [t["name"] for t in client.tools()], 5, "the stage's tools leave the list")
    names = [t["name"] for t in client.tools()]
    assert not {"move_to", "move_by", "home", "go_back"} & set(names)
    assert {"acquire_image", "diagnose", "stop", "get_state"} <= set(names)
    text, facts = client.refused("move_to", targets={"x": 1}, unit="mm")
    assert facts["code"] == "not_connected" and facts["moved"] == "no" and "diagnose" in text
    assert client.call("acquire_image")["status"] == "ok"
    assert client.end() == 0
    client.pure()


def test_hole_15_an_absent_camera_at_start_leaves_the_stage(bench):
    address = bench.paths["cam"].removeprefix("tcp://")
    client = serve(bench, rig=bench.rig((address, "127.0.0.1:9"), name="blind.toml"))
    bench.until(lambda: client.call("diagnose")["devices"][0]["open"], 5, "the stage is there")
    bench.until(lambda: "acquire_image" not in [t["name"] for t in client.tools()], 5, "the camera's tools leave")
    text, facts = client.refused("acquire_image")
    assert facts["code"] == "not_connected" and "diagnose" in text
    stage = client.call("get_state")["stages"][0]
    assert stage["activity"] == "idle"
    assert client.call("home")["status"] == "ok"
    assert client.end() == 0
    client.pure()


def test_a_bad_rig_file_is_served_with_diagnose_alone_and_opens_nothing(bench):
    client = serve(bench, rig=bench.rig(("travel = [0.0, 75.0]", "travel = [75.0, 0.0]"), name="bad.toml"))
    assert [t["name"] for t in client.tools()] == ["diagnose"]
    said = client.result("diagnose")
    assert "travel" in said["content"][0]["text"] and "bad.toml" in said["content"][0]["text"]
    _, facts = client.refused("move_to", targets={"x": 1}, unit="mm")
    assert facts["code"] == "bad_rig_file" and facts["moved"] == "no"
    assert bench.holders() == []
    assert client.end() == 0
    client.pure()


def test_read_only_lists_and_does_nothing_that_moves(bench):
    client = serve(bench, options=["--read-only"]).ready()
    since = bench.now()
    names = [t["name"] for t in client.tools()]
    assert "stop" in names and "move_to" not in names and "home" not in names and "set_camera" not in names
    for tool, arguments in (("home", {}), ("move_to", {"targets": {"x": 1}, "unit": "mm"}), ("acquire_image", {})):
        _, facts = client.refused(tool, **arguments)
        assert facts["code"] == "not_permitted" and facts["moved"] == "no"
    assert bench.orders(since) == []
    client.end()
