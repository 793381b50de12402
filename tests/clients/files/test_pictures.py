"""Pictures and arrays, read back by the libraries that laboratories use: numpy, tifffile, Pillow."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from support.bench import Bench
from support.raw import Client, serve

PNG = bytes([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
DTYPES = {"uint8", "uint16", "uint32", "int16", "int32", "float32", "float64"}
STANDARD = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def decoded(payload):
    """An array of `get_attribute_payload` as EAA reads it since July 2026."""
    assert set(payload) == {"encoded_data"}, set(payload)
    encoded = payload["encoded_data"]
    assert set(encoded) == {"type", "dtype", "shape", "data"} and encoded["type"] == "array"
    return array(encoded)


def array(encoded):
    assert encoded["dtype"] in DTYPES
    assert all(type(n) is int for n in encoded["shape"])
    assert len(encoded["data"]) % 4 == 0 and STANDARD.fullmatch(encoded["data"])
    data = base64.b64decode(encoded["data"], validate=True)
    dtype = np.dtype(encoded["dtype"])
    assert len(data) == np.prod(encoded["shape"]) * dtype.itemsize
    return np.frombuffer(data, dtype.newbyteorder("<")).reshape(encoded["shape"])


def images(result):
    return [c for c in result["content"] if c["type"] == "image"]


def texts(result):
    return [c["text"] for c in result["content"] if c["type"] == "text"]


@pytest.fixture
def scope(homed):
    """The shared server with the specimen's middle in view and in focus."""
    homed.call("move_to", targets={"x": 37500, "y": 25000, "z": 2000}, unit="um", wait_s=60)
    homed.call("set_camera", exposure_ms=10, gain=1, binning=1, bits=12, roi=[0, 0, 1024, 768])
    return homed


def test_e01_an_array_comes_as_encoded_data_and_is_the_picture_to_the_last_count(scope):
    shot = scope.call("acquire_image")
    value = scope.call("get_attribute_payload", name="image_k")["result"]
    pixels = decoded(value)
    assert "encoding" not in value
    assert pixels.shape == tuple(shot["shape"]) and str(pixels.dtype) == shot["dtype"] == "uint16"
    assert np.array_equal(pixels, np.load(shot["raw_data_path"]))
    stats = shot["stats"]
    assert (int(pixels.min()), int(pixels.max())) == (stats["min"], stats["max"])
    assert abs(float(pixels.mean()) - stats["mean"]) < 1e-3


def test_e01_scalars_lists_and_what_is_unset_are_plain_json(bench):
    client = serve(bench).ready()
    for name in ("image_0", "image_km1", "image_k", "psize_k"):
        assert client.call("get_attribute_payload", name=name) == {"result": None}
    assert client.call("get_attribute_payload", name="image_acquisition_call_history") == {"result": []}
    client.call("acquire_image")
    assert client.call("get_attribute_payload", name="psize_k") == {"result": 0.65}
    history = client.call("get_attribute_payload", name="image_acquisition_call_history")["result"]
    assert len(history) == 1 and history[0]["psize_x"] == 0.65
    text, facts = client.refused("get_attribute_payload", name="no_such_thing")
    assert facts["code"] == "not_found" and "image_k" in text


@pytest.mark.parametrize(("bits", "dtype"), [(8, "uint8"), (10, "uint16"), (12, "uint16"), (16, "uint16")])
def test_e06_the_dtype_is_one_that_numpy_writes_and_fits_the_bytes(scope, bits, dtype):
    said = scope.result("set_camera", bits=bits)
    if said["isError"]:
        # The camera has no such depth, and says so: nothing else was set.
        assert said["structuredContent"]["code"] == "invalid_argument" and bits not in (8, 12), said
        return
    shot = scope.call("acquire_image")
    assert shot["significant_bits"] == bits
    pixels = decoded(scope.call("get_attribute_payload", name="image_k")["result"])
    raw = np.load(shot["raw_data_path"])
    assert shot["dtype"] == str(pixels.dtype) == str(raw.dtype)
    assert pixels.dtype.itemsize >= np.dtype(dtype).itemsize and pixels.max() < 1 << bits
    assert np.array_equal(pixels, raw)


def test_e23_structured_content_is_there_for_every_kind_of_value_and_text_stays_short(scope):
    scope.call("acquire_image")
    kinds = {"image_k": dict, "psize_k": float, "image_acquisition_call_history": list}
    for name, kind in kinds.items():
        result = scope.result("get_attribute_payload", name=name)
        assert set(result["structuredContent"]) == {"result"}
        assert isinstance(result["structuredContent"]["result"], kind), name
        assert len("".join(texts(result)).encode()) < 500
        assert not images(result)
    assert scope.call("get_parameters") == {"result": [2000]}


def test_e03_the_picture_is_a_finished_png_named_by_its_absolute_path(scope):
    result = scope.result("acquire_image", preview=False)
    shot = result["structuredContent"]
    path = Path(shot["img_path"])
    assert path.is_absolute() and path.read_bytes()[:8] == PNG
    assert shot["img_path"] in texts(result)[0] and shot["raw_data_path"] in texts(result)[0]
    assert not images(result), "without a preview there is no picture in the answer"
    assert not re.search(r"[A-Za-z0-9+/]{1000}", json.dumps(result))
    with Image.open(path) as picture:
        picture.load()
        assert picture.format == "PNG" and picture.mode == "L"
        assert picture.size == (shot["shape"][1], shot["shape"][0])


def test_the_png_is_the_stated_stretch_of_the_exact_data(scope):
    shot = scope.call("acquire_image")
    raw = np.load(shot["raw_data_path"]).astype(float)
    low, high, gamma = (shot["stretch"][k] for k in ("low", "high", "gamma"))
    expected = 255 * np.clip((raw - low) / (high - low), 0, 1) ** gamma
    with Image.open(shot["img_path"]) as picture:
        shown = np.asarray(picture).astype(float)
    assert np.abs(shown - expected).max() <= 1.01


def test_x15_x16_a_preview_is_an_image_block_of_plain_base64_and_never_text(scope):
    result = scope.result("acquire_image", preview=True)
    (block,) = images(result)
    assert block["mimeType"] == "image/png"
    assert STANDARD.fullmatch(block["data"]) and len(block["data"]) % 4 == 0
    data = base64.b64decode(block["data"], validate=True)
    assert data[:8] == PNG
    assert all(len(text) < 64 * 1024 for text in texts(result))
    assert not re.search(r"[A-Za-z0-9+/]{500}", "".join(texts(result)))
    assert not re.search(r"[A-Za-z0-9+/]{500}", json.dumps(result["structuredContent"]))


def test_x15_text_never_carries_base64(scope):
    """Everything that this server ever said in these tests."""
    scope.call("acquire_image", preview=True)
    scope.call("get_attribute_payload", name="image_k")
    for message in scope.messages:
        for block in message.get("result", {}).get("content", []):
            if block["type"] == "text":
                assert len(block["text"]) < 64 * 1024
                assert not re.search(r"[A-Za-z0-9+/]{500}", block["text"])


def test_x16_the_preview_decodes_to_the_stated_size(scope):
    result = scope.result("acquire_image", preview=True)
    shot = result["structuredContent"]
    data = base64.b64decode(images(result)[0]["data"])
    folder = Path(shot["img_path"]).parent
    path = folder / "preview-read-back.png"
    path.write_bytes(data)
    with Image.open(path) as picture:
        picture.load()
        assert picture.mode == "L" and max(picture.size) <= 1024
        assert picture.size == (shot["preview"]["width"], shot["preview"]["height"])
    path.unlink()


@pytest.fixture(scope="module")
def large():
    """A sensor of 4096 × 4096 with a noise that no PNG can compress, on a bench of its own."""
    made = Bench(
        ("width = 1024", "width = 4096"), ("height = 768", "height = 4096"), ("read_counts = 2.0", "read_counts = 300.0")
    )
    client = Client(made.command()).ready()
    client.call("set_camera", exposure_ms=5)
    yield client
    client.end()
    client.pure()
    made.close()


def test_x13_a_large_noisy_frame_is_shrunk_to_what_hosts_take_and_says_so(large):
    result = large.result("acquire_image", preview=True, wait_s=60)
    shot = result["structuredContent"]
    (block,) = images(result)
    assert len(block["data"]) <= 700_000
    assert len(json.dumps(result)) < 1_048_576
    assert shot["preview"]["scale"] >= 4 and max(shot["preview"]["width"], shot["preview"]["height"]) <= 1024
    assert "smaller by a factor of" in texts(result)[0]
    assert np.load(shot["raw_data_path"]).shape == (4096, 4096)
    with Image.open(shot["img_path"]) as picture:
        assert picture.size == (4096, 4096)


def test_x33_an_array_over_the_cap_is_refused_with_the_ways_out(large):
    large.call("set_camera", roi=[0, 0, 2560, 2560])
    shot = large.call("acquire_image", wait_s=60)
    text, facts = large.refused("get_attribute_payload", name="image_k")
    assert facts["code"] == "too_large" and facts["moved"] == "no"
    for word in ("13107200", "export_array", "region", "binning"):
        assert word in text, text
    done = large.call("export_array", buffer="image_k", name="whole", format="npy")
    assert np.array_equal(np.load(done["path"]), np.load(shot["raw_data_path"]))


def test_x33_eight_mebibytes_are_delivered(large):
    large.call("set_camera", roi=[0, 0, 2048, 2048])
    shot = large.call("acquire_image", wait_s=60)
    pixels = decoded(large.call("get_attribute_payload", name="image_k")["result"])
    assert pixels.nbytes == 8 << 20
    assert np.array_equal(pixels, np.load(shot["raw_data_path"]))


def test_npy_and_tiff_exports_are_exact_and_a_name_is_never_overwritten(scope):
    shot = scope.call("acquire_image")
    raw = np.load(shot["raw_data_path"])
    name = "export-" + shot["image_id"][-4:]
    npy = scope.call("export_array", image_id=shot["image_id"], name=name, format="npy")
    tiff = scope.call("export_array", buffer="image_k", name=name, format="tiff")
    assert np.array_equal(np.load(npy["path"]), raw)
    with tifffile.TiffFile(tiff["path"]) as file:
        pixels = file.asarray()
        assert file.is_ome and pixels.dtype == raw.dtype and np.array_equal(pixels, raw)
        assert 'PhysicalSizeX="0.65"' in file.ome_metadata
    for image in ({"image_id": shot["image_id"]}, {"buffer": "image_k"}):
        text, _ = scope.refused("export_array", **image, name=name, format="tiff")
        assert name in text
    assert np.array_equal(tifffile.imread(tiff["path"]), raw)


def test_without_eaa_the_exact_data_is_a_tiff_and_the_picture_goes_along(bench):
    text = bench.rig().read_text()
    eaa = text[text.index("[eaa]") :]
    client = serve(bench, rig=bench.rig((eaa, ""), name="plain.toml")).homed()
    client.call("move_to", targets={"x": 37500, "y": 25000, "z": 2000}, unit="um", wait_s=60)
    result = client.result("acquire_image")
    shot = result["structuredContent"]
    assert shot["raw_data_path"].endswith((".tif", ".tiff"))
    with tifffile.TiffFile(shot["raw_data_path"]) as file:
        pixels, ome = file.asarray(), file.ome_metadata
    assert list(pixels.shape) == shot["shape"] and str(pixels.dtype) == shot["dtype"]
    assert (int(pixels.min()), int(pixels.max())) == (shot["stats"]["min"], shot["stats"]["max"])
    assert 'SignificantBits="12"' in ome and 'PositionX="37' in ome
    assert len(images(result)) == 1
    names = [t["name"] for t in client.tools()]
    assert not {"get_attribute_payload", "list_attributes", "set_parameters"} & set(names)
    client.end()
    client.pure()


def test_the_picture_depends_on_where_the_stage_is(scope):
    """A step of 65 um to the right is 100 pixels, and the stated axes say which way."""
    first = np.load(scope.call("acquire_image")["raw_data_path"]).astype(float)
    scope.call("move_to", targets={"x": 37565}, unit="um")
    second = np.load(scope.call("acquire_image")["raw_data_path"]).astype(float)

    def likeness(shift):
        a, b = (first[:, shift:], second[:, :-shift]) if shift > 0 else (first[:, :shift], second[:, -shift:])
        return np.corrcoef(a.ravel(), b.ravel())[0, 1]

    assert likeness(100) > 0.9 > likeness(-100)
    assert likeness(100) > max(likeness(95), likeness(105))
    scope.call("move_to", targets={"z": 2300}, unit="um")
    blurred = scope.call("acquire_image")["stats"]["focus_score"]
    scope.call("move_to", targets={"z": 2000}, unit="um")
    assert scope.call("acquire_image")["stats"]["focus_score"] > 2 * blurred


def test_a_region_moves_there_and_is_cut_out(scope, bench):
    shot = scope.call("acquire_image", x_center=36000.0, y_center=24000.0, size_x=130.0, size_y=65.0)
    assert shot["shape"] == [100, 200] and shot["psize"] == 0.65 and shot["moved"] == "yes"
    assert abs(bench.position("x") - 36) < 0.02 and abs(bench.position("y") - 24) < 0.02
    pixels = decoded(scope.call("get_attribute_payload", name="image_k")["result"])
    assert np.array_equal(pixels, np.load(shot["raw_data_path"])) and pixels.shape == (100, 200)
    assert scope.call("get_current_image_info")["psize"] == 0.65


def test_e24_each_file_carries_its_own_position_also_when_one_shot_fails(scope, bench):
    taken, wanted = [], [37.0, 37.5, 38.0, 38.5, 39.0]
    for n, x in enumerate(wanted):
        scope.call("move_to", targets={"x": x}, unit="mm")
        if n == 2:
            bench.fault("unplug", device="cam")
            _, facts = scope.refused("acquire_image")
            assert facts["code"] in ("unplugged", "not_connected", "camera_failed"), facts
            bench.fault("plug", device="cam")
            scope.ready()
            continue
        taken.append((x, scope.call("acquire_image")))
    assert len(taken) == 4 and len({shot["image_id"] for _, shot in taken}) == 4
    rows = {row["image_id"]: row for row in scope.call("list_images", limit=4)["images"]}
    for x, shot in taken:
        side = json.loads(Path(shot["raw_data_path"]).with_suffix(".json").read_text())
        for told in (shot, side, rows[shot["image_id"]]):
            here = told["position_before"]["scope.x"]
            assert abs(here["position"] - x) < 0.02 and here["unit"] == "mm"
        assert side["image_id"] == shot["image_id"] == rows[shot["image_id"]]["image_id"]
        assert rows[shot["image_id"]]["raw_data_path"] == shot["raw_data_path"]
    seen = [shot["raw_data_path"] for _, shot in taken] + [shot["img_path"] for _, shot in taken]
    assert len(set(seen)) == 8 and all(Path(p).exists() for p in seen)


def test_legacy_arrays_carry_both_forms_with_the_same_bytes(bench):
    client = serve(bench, rig=bench.rig(("[eaa]\n", "[eaa]\nlegacy_arrays = true\n"), name="legacy.toml")).ready()
    shot = client.call("acquire_image")
    value = client.call("get_attribute_payload", name="image_k")["result"]
    assert value["encoding"] == "numpy_base64"
    new, old = array(value["encoded_data"]), array(value)
    assert np.array_equal(new, old) and np.array_equal(new, np.load(shot["raw_data_path"]))
    client.end()
    client.pure()
