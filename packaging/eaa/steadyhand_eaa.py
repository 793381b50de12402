"""steadyhand for EAA's task managers (AdvancedPhotonSource/EAA): names, arrays, and refusals as they expect them.

Copy this file beside your workflow. It needs eaa-core alone.

    import steadyhand_eaa

    tool = steadyhand_eaa.connect(url="http://127.0.0.1:8050/mcp")      # or connect(rig="rig.toml") over stdio
    manager = AnalyticalScanningMicroscopeFocusingTaskManager(
        acquisition_tool=steadyhand_eaa.acquisition(tool),
        param_setting_tool=steadyhand_eaa.parameters(tool),
        run_line_scan_checker=False,
        ...
    )

What it does, and no more:

- `acquire_image`, `acquire_line_scan`, `get_*_image_info` and `set_parameters` keep their names; a call of a tool that
  this rig doesn't offer says so.
- After an image, `image_0`, `image_km1`, `image_k`, the pixel sizes and the histories are brought over, arrays as numpy
  arrays, whichever form of encoding the server and this version of EAA speak.
- A fit that failed has `fwhm: null` on the wire, since JSON has no NaN; here it is NaN again, which EAA's managers test.
- A refusal is raised as a `RuntimeError` with the server's whole text: what was asked, whether anything moved, and what
  to do next. EAA's focusing manager catches that, and asks its operator. Nothing is ever sent again by itself.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from eaa_core.tool.mcp_adapter import MCPRPCWrapper, set_parameters_with_local_history
from eaa_core.tool.mcp_client import MCPTool
from fastmcp.exceptions import ToolError

IMAGES = ("image_0", "image_km1", "image_k")
PIXEL_SIZES = ("psize_0", "psize_km1", "psize_k")
HISTORIES = ("image_acquisition_call_history", "line_scan_call_history")
FIT = ("fwhm", "a", "mu", "sigma", "c", "normalized_residual", "x_min", "x_max")


def connect(
    url: str | None = None, rig: str | None = None, program: str = "steadyhand", options: tuple[str, ...] = ()
) -> MCPTool:
    """A client of a server that runs at `url`, or of one that is started for `rig` and ends with this client.

    Parameters
    ----------
    url : str, optional
        Where `steadyhand serve --http` says that it serves MCP.
    rig : str, optional
        A rig file. With neither, the rig file that steadyhand finds by itself.
    program : str
        The program, if it isn't on the PATH.
    options : tuple of str
        More of its options, such as `("--read-only",)`.
    """
    if url is not None:
        if rig is not None or options:
            raise ValueError("A server at a url has its rig and options already: give the one or the other.")
        entry: dict[str, Any] = {"url": url}
    else:
        named = ["--rig", str(rig)] if rig is not None else []
        # fastmcp would leave it running, and holding the ports, after a disconnect.
        entry = {"command": program, "args": ["serve", *named, *options], "keep_alive": False}
    return MCPTool({"mcpServers": {"steadyhand": entry}})


class Steadyhand(MCPRPCWrapper):
    """EAA's wrapper, with steadyhand's arrays, missing fits and refusals."""

    def call(self, local_name: str, **kwargs: Any) -> Any:
        """Calls a tool, and brings the attributes over that follow it.

        Raises
        ------
        RuntimeError
            The server refused or failed. The text says whether anything moved.
        """
        try:
            result = super().call(local_name, **kwargs)
        except ToolError as refusal:
            raise RuntimeError(str(refusal)) from refusal
        if local_name == "acquire_line_scan" and isinstance(result, dict):
            for name in FIT:
                if name in result and result[name] is None:
                    result[name] = float("nan")
        return result

    @staticmethod
    def decode_payload(payload: Any) -> Any:
        """An array in either of EAA's encodings, or the value as it is."""
        encoded = payload.get("encoded_data", payload) if isinstance(payload, dict) else None
        if not isinstance(encoded, dict) or not {"dtype", "shape", "data"} <= set(encoded):
            return payload
        data = base64.b64decode(encoded["data"], validate=True)
        return np.frombuffer(data, dtype=np.dtype(encoded["dtype"])).reshape(encoded["shape"]).copy()

    @property
    def counter_acquire_image(self) -> int:
        """How many images were acquired, as EAA's own acquisition tools count."""
        return len(self.image_acquisition_call_history or [])


def acquisition(tool: MCPTool, names: dict[str, str] | None = None) -> Steadyhand:
    """What a task manager takes as its `acquisition_tool`.

    Parameters
    ----------
    tool : MCPTool
        The client, from `connect`.
    names : dict, optional
        Names of arguments that your workflow has instead of steadyhand's, such as `{"x": "x_center"}`.
    """
    synced = [*IMAGES, *PIXEL_SIZES, *HISTORIES]
    scan = {"arguments": dict(names or {})}
    mappings: dict[str, Any] = {
        "acquire_image": {"remote": "acquire_image", "sync": synced, **scan},
        "acquire_line_scan": {"remote": "acquire_line_scan", "sync": [HISTORIES[1]], **scan},
    }
    for which in ("current", "previous", "initial"):
        mappings[f"get_{which}_image_info"] = f"get_{which}_image_info"
    attributes: dict[str, Any] = {name: None for name in (*IMAGES, *PIXEL_SIZES)}
    attributes.update({name: [] for name in HISTORIES})
    # The managers ask for the fit, and steadyhand always gives it.
    attributes["line_scan_return_gaussian_fit"] = True
    return Steadyhand(tool, mappings, initial_attributes=attributes)


def parameters(tool: MCPTool, names: list[str] | None = None) -> Steadyhand:
    """What a task manager takes as its `param_setting_tool`.

    Parameters
    ----------
    tool : MCPTool
        The client, from `connect`.
    names : list, optional
        What to call the parameters; without it, what the rig file calls them.
    """
    made = Steadyhand(
        tool,
        {"set_parameters": "set_parameters", "get_parameters": "get_parameters", "describe_rig": "describe_rig"},
        local_methods={"set_parameters": set_parameters_with_local_history},
    )
    if names is None:
        names = [p.get("axis") or p["setting"] for p in made.describe_rig()["parameters"]]
    made.parameter_names = names
    made.parameter_history = {name: [] for name in made.parameter_names}
    return made
