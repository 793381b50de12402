"""EAA from PyPI (eaa-core 1.0.0) drives the program through its own `MCPTool` and `MCPRPCWrapper`."""

import base64
import inspect
from pathlib import Path

import numpy as np
import pytest
from eaa_core.message_proc import generate_openai_message
from eaa_core.tool.mcp_adapter import MCPRPCWrapper
from eaa_core.tool.mcp_client import MCPTool
from fastmcp.exceptions import ToolError

from support.bench import Bench
from support.web import Web

SYNC = ["image_0", "image_km1", "image_k", "psize_k", "image_acquisition_call_history"]
REGION = {"x_center": 37500.0, "y_center": 25000.0, "size_x": 260.0, "size_y": 130.0}


@pytest.fixture(scope="module")
def bench():
    made = Bench()
    yield made
    made.close()


@pytest.fixture(scope="module", params=["stdio", "http"])
def entry(request, bench):
    """The server's entry in EAA's configuration."""
    rig = bench.rig(("[eaa]\n", "[eaa]\nlegacy_arrays = true\n"))
    if request.param == "http":
        with Web(bench, rig) as web:
            yield {"type": "http", "url": web.url}
    else:
        command = [str(part) for part in bench.command(rig)]
        yield {"command": command[0], "args": command[1:], "keep_alive": False}


@pytest.fixture(scope="module")
def tool(bench, entry):
    made = MCPTool({"mcpServers": {"steadyhand": entry}})
    bench.until(lambda: all(d["identity"] for d in made.diagnose()["devices"]), 10, "the devices are there")
    assert made.home(wait_s=60)["status"] == "ok"
    assert made.move_to(stage="scope", targets={"z": 2000}, unit="um")["status"] == "ok"
    yield made
    made._run_coroutine(made.disconnect())


@pytest.fixture
def wrapper(tool):
    return MCPRPCWrapper(
        tool,
        {
            "acquire_image": {
                "remote": "acquire_image",
                "arguments": {"x": "x_center", "y": "y_center", "width": "size_x", "height": "size_y"},
                "sync": SYNC,
            },
            "set_parameters": {"remote": "set_parameters"},
            "get_current_image_info": "get_current_image_info",
        },
        initial_attributes={"image_k": None, "parameter_names": ["z"]},
    )


def test_every_tool_becomes_a_method_with_its_signature(tool):
    specs = {spec.name: spec for spec in tool.exposed_tools}
    assert {"acquire_image", "set_parameters", "get_attribute_payload", "get_current_image_info", "stop"} <= set(specs)
    assert not specs["get_attribute_payload"].model_visible, "EAA hides it from models by its exact name"
    for name, spec in specs.items():
        signature = inspect.signature(getattr(tool, name))
        assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in signature.parameters.values())
        assert spec.schema["function"]["parameters"]["type"] == "object"
    # MCPTool's own methods keep working: no tool has one of their names.
    assert callable(tool.connect) and tool.exposed_tools and not hasattr(tool.disconnect, "__signature__")


def test_acquire_and_sync_image_k_as_a_numpy_array(wrapper, bench):
    shot = wrapper.acquire_image(x=37500.0, y=25000.0, width=260.0, height=130.0)
    assert isinstance(shot, dict) and shot["status"] == "ok"
    assert isinstance(wrapper.image_k, np.ndarray)
    assert wrapper.image_k.shape == (200, 400) and wrapper.image_k.dtype == np.uint16
    assert np.array_equal(wrapper.image_k, np.load(shot["raw_data_path"]))
    assert wrapper.psize_k == 0.65
    assert abs(bench.position("x") - 37.5) < 0.02 and abs(bench.position("y") - 25) < 0.02

    first = wrapper.image_k
    again = wrapper.acquire_image(x=37000.0, y=25000.0, width=130.0, height=130.0)
    assert np.array_equal(wrapper.image_km1, first) and wrapper.image_k.shape == (200, 200)
    assert np.array_equal(wrapper.image_k, np.load(again["raw_data_path"]))
    last = wrapper.image_acquisition_call_history[-1]
    assert (last["x_center"], last["y_center"], last["size_x"], last["size_y"]) == (37000, 25000, 130, 130)
    assert wrapper.get_current_image_info()["psize"] == 0.65


def test_both_forms_of_an_array_decode_to_the_same(tool):
    tool.acquire_image(**REGION)
    payload = tool.get_attribute_payload(name="image_k")
    old = MCPRPCWrapper.decode_payload(payload)
    assert isinstance(old, np.ndarray)
    # As EAA's main branch reads it since July 2026.
    encoded = payload["encoded_data"]
    assert encoded["type"] == "array"
    data = base64.b64decode(encoded["data"], validate=True)
    new = np.frombuffer(data, dtype=np.dtype(encoded["dtype"])).reshape(encoded["shape"])
    assert np.array_equal(old, new) and old.dtype == new.dtype


def test_img_path_is_followed_and_is_the_png_that_eaa_sends_on(tool):
    shot = tool.acquire_image(**REGION)
    path = Path(shot["img_path"])
    assert path.is_absolute() and path.read_bytes()[:8] == bytes([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
    message = generate_openai_message("look", image_path=shot["img_path"])
    url = message["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True) == path.read_bytes()
    assert "result" not in shot and not {"messages", "image_path", "image_paths"} & set(shot)


def test_set_parameters_moves_and_is_judged(wrapper, tool, bench):
    done = wrapper.set_parameters(parameters=[1900.0])
    assert done["parameters"] == [1900] and done["moved"] == "yes"
    assert abs(bench.position("z") - 1.9) < 0.01
    assert tool.get_parameters() == [1900]
    since = bench.now()
    with pytest.raises(ToolError) as refused:
        wrapper.set_parameters(parameters=[9000.0])
    text = str(refused.value)
    assert "[out_of_travel]" in text and "Moved: no" in text and "Next: " in text
    # A NaN arrives as null: refused, never "keep".
    with pytest.raises(ToolError, match="invalid_argument"):
        wrapper.set_parameters(parameters=[float("nan")])
    with pytest.raises(ToolError, match="invalid_argument"):
        wrapper.set_parameters(parameters=[1.0, 2.0])
    assert bench.orders(since) == []


def test_errors_are_tool_errors_that_say_everything(tool):
    for call, code in (
        (lambda: tool.acquire_image(x_center=1e9, y_center=0.0, size_x=10.0, size_y=10.0), "out_of_travel"),
        (lambda: tool.move_to(targets={"x": 5, "y": 5}, unit="mm"), "keep_out"),
        (lambda: tool.get_attribute_payload(name="nonsense"), "not_found"),
        (lambda: tool.acquire_image(x_center=1.0), "invalid_argument"),
    ):
        with pytest.raises(ToolError) as refused:
            call()
        text = str(refused.value)
        assert f"[{code}]" in text and "Moved: no" in text and "Next: " in text
    assert tool.get_state()["stages"][0]["activity"] == "idle"


def test_unset_buffers_are_none_and_scalars_scalars(tool):
    assert tool.get_attribute_payload(name="psize_k") == 0.65
    assert tool.get_attribute_payload(name="line_scan_call_history") == []
    fresh = tool.get_initial_image_info()
    assert fresh["psize"] == 0.65


def test_optional_arguments_that_eaa_fills_with_none_are_absent(tool):
    shot = tool.acquire_image(label=None, preview=None, command_id=None, wait_s=None)
    assert shot["status"] == "ok" and shot["moved"] == "no"
