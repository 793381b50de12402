"""`packaging/eaa/steadyhand_eaa.py` with EAA from PyPI (eaa-core 1.0.0), over stdio and over HTTP."""

import base64
import math
import sys

import numpy as np
import pytest

from support.bench import REPOSITORY, Bench
from support.web import Web

sys.path.insert(0, str(REPOSITORY / "packaging/eaa"))

import steadyhand_eaa  # noqa: E402

REGION = {"x_center": 37500.0, "y_center": 25000.0, "size_x": 260.0, "size_y": 130.0}


@pytest.fixture(scope="module")
def bench():
    made = Bench()
    yield made
    made.close()


@pytest.fixture(scope="module", params=["stdio", "http"])
def tool(request, bench):
    def ready(made):
        bench.until(lambda: all(d["identity"] for d in made.diagnose()["devices"]), 10, "the devices are there")
        assert made.home(wait_s=60)["status"] == "ok"
        return made

    if request.param == "http":
        with Web(bench) as web:
            made = ready(steadyhand_eaa.connect(url=web.url))
            yield made
            made._run_coroutine(made.disconnect())
    else:
        program, _, _, rig, *options = [str(part) for part in bench.command()]
        made = ready(steadyhand_eaa.connect(rig=rig, program=program, options=tuple(options)))
        yield made
        made._run_coroutine(made.disconnect())
        bench.until(lambda: not bench.holders(), 5, "the server ends with its client")


def test_images_and_their_attributes_come_over_as_arrays(tool, bench):
    scope = steadyhand_eaa.acquisition(tool)
    assert scope.image_k is None and scope.counter_acquire_image == 0 and scope.line_scan_return_gaussian_fit
    shot = scope.acquire_image(**REGION)
    assert isinstance(scope.image_k, np.ndarray) and scope.image_k.dtype == np.uint16
    assert scope.image_k.shape == (200, 400) and np.array_equal(scope.image_k, np.load(shot["raw_data_path"]))
    assert abs(bench.position("x") - 37.5) < 0.02
    first, count = scope.image_k, scope.counter_acquire_image
    again = scope.acquire_image(**{**REGION, "size_x": 130.0})
    assert np.array_equal(scope.image_km1, first) and scope.counter_acquire_image == count + 1
    assert np.array_equal(scope.image_k, np.load(again["raw_data_path"])) and scope.psize_k == 0.65
    assert scope.image_acquisition_call_history[-1]["size_x"] == 130
    assert scope.get_current_image_info()["psize"] == 0.65
    scope.image_k[0, 0] = 0  # EAA's managers write into it.


def test_a_workflows_own_names_of_arguments_are_mapped(tool):
    scope = steadyhand_eaa.acquisition(tool, {"x": "x_center", "y": "y_center", "w": "size_x", "h": "size_y"})
    assert scope.acquire_image(x=37500.0, y=25000.0, w=130.0, h=130.0)["status"] == "ok"
    assert scope.image_k.shape == (200, 200)


def test_a_refusal_is_the_runtime_error_that_eaa_hands_to_its_operator(tool, bench):
    scope, optics = steadyhand_eaa.acquisition(tool), steadyhand_eaa.parameters(tool)
    since = bench.now()
    for refused in (
        lambda: scope.acquire_image(**{**REGION, "x_center": 1e9}),
        lambda: optics.set_parameters([9000.0]),
    ):
        with pytest.raises(RuntimeError) as told:
            refused()
        text = str(told.value)
        assert "[out_of_travel]" in text and "Moved: no" in text and "Next: " in text
    assert bench.orders(since) == []
    assert optics.parameter_history == {"scope.z": []}, "what was refused is no history"


def test_parameters_have_the_rigs_names_and_a_history(tool, bench):
    optics = steadyhand_eaa.parameters(tool)
    assert optics.parameter_names == ["scope.z"]
    optics.set_parameters([1900.0])
    optics.set_parameters(np.array([1950.0]))
    assert abs(bench.position("z") - 1.95) < 0.01 and optics.get_parameters() == [1950]
    assert optics.get_parameter_at_iteration(-1) == [1950.0] and optics.len_parameter_history == 2


def test_a_fit_that_failed_is_nan_and_formats_as_eaa_formats_it():
    class Remote:
        exposed_tools = [type("Spec", (), {"name": name})() for name in ("acquire_line_scan", "get_attribute_payload")]

        @staticmethod
        def acquire_line_scan(**_):
            return {"status": "ok", "fwhm": None, "sigma": None, "a": 2.0, "fit_ok": False}

        @staticmethod
        def get_attribute_payload(name):
            return [{"length": 5.0}]

    scope = steadyhand_eaa.acquisition(Remote())
    result = scope.acquire_line_scan(x_center=1.0, y_center=1.0, length=5.0, scan_step=0.1)
    assert math.isnan(result["fwhm"]) and math.isnan(result["sigma"]) and result["a"] == 2.0
    assert f"{result['fwhm']:.4f}" == "nan" and scope.line_scan_call_history == [{"length": 5.0}]


def test_both_encodings_of_an_array_are_read():
    array = np.arange(6, dtype=">u2").reshape(2, 3)
    plain = {"dtype": ">u2", "shape": [2, 3], "data": base64.b64encode(array.tobytes()).decode()}
    decode = steadyhand_eaa.Steadyhand.decode_payload
    for payload in ({"encoded_data": {"type": "array", **plain}}, {"encoding": "numpy_base64", **plain}):
        assert np.array_equal(decode(payload), array)
    for value in (None, 1.5, [1, 2], {"psize": 0.65}):
        assert decode(value) == value
