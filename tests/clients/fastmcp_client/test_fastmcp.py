"""fastmcp's client: 4.2.3, which pip installs today, and 2.13.3, which EAA's lock file names.

Over stdio, or with WAY=http over HTTP.
"""

import asyncio
import importlib.metadata
import json
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path

import jsonschema
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError

from support.raw import Shared
from support.web import Web

OVER_HTTP = os.environ.get("WAY") == "http"


@asynccontextmanager
async def connected(bench, *options):
    Shared.end()
    if OVER_HTTP:
        with Web(bench, None, *options) as web:
            async with Client(web.url) as client:
                client.schemas = {t.name: schema(t, "output") for t in await client.list_tools()}
                yield client
        return
    command = bench.command(None, *options)
    transport = StdioTransport(command[0], [str(part) for part in command[1:]], keep_alive=False)
    async with Client(transport) as client:
        client.schemas = {t.name: schema(t, "output") for t in await client.list_tools()}
        yield client


def schema(tool, which):
    found = getattr(tool, f"{which}Schema", None)
    return found if found is not None else getattr(tool, f"{which}_schema")


async def call(client, tool, /, **arguments):
    """Calls and checks the answer against the tool's own schema, as the library has done already."""
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    jsonschema.validate(result.structured_content, client.schemas[tool])
    return result.structured_content


async def homed(client):
    end = time.monotonic() + 10
    while not all(d["open"] and d["identity"] for d in (await call(client, "diagnose"))["devices"]):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    await call(client, "home", wait_s=60)
    return client


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


def test_the_version_is_the_one_this_run_is_about():
    here = importlib.metadata.version("fastmcp")
    assert here == os.environ.get("FASTMCP_VERSION", here)


def test_every_tool_that_only_reads_answers_as_its_schema_says(bench):
    async def session():
        async with connected(bench) as client:
            tools = await client.list_tools()
            assert len(tools) >= 25
            for tool in tools:
                jsonschema.Draft202012Validator.check_schema(schema(tool, "input"))
                jsonschema.Draft202012Validator.check_schema(schema(tool, "output"))
                if schema(tool, "input").get("required") or not tool.annotations.readOnlyHint:
                    continue
                await call(client, tool.name)

    run(session())


def test_home_move_refusal_stop_and_picture(bench):
    async def session():
        async with connected(bench) as client:
            await homed(client)
            moved = await call(client, "move_to", targets={"x": 60, "y": 40}, unit="mm", wait_s=30)
            assert moved["moved"] == "yes" and abs(bench.position("x") - 60) < 0.02
            since = bench.now()
            with pytest.raises(ToolError) as refused:
                await client.call_tool("move_to", {"targets": {"x": 80}, "unit": "mm"})
            text = str(refused.value)
            assert "[out_of_travel]" in text and "Moved: no" in text and "Next: call check_move" in text
            assert bench.orders(since) == []

            moving = asyncio.create_task(client.call_tool("move_to", {"targets": {"x": 10}, "unit": "mm"}))
            end = time.monotonic() + 5
            while bench.position("x") > 55:
                assert time.monotonic() < end
                await asyncio.sleep(0.01)
            stopped = await call(client, "stop")
            assert stopped["standstill"] is True
            bench.stands()
            assert bench.position("x") > 20
            with pytest.raises(ToolError):
                await moving
            await call(client, "clear_fault", device="scope")

            shot = await client.call_tool("acquire_image", {"preview": True})
            jsonschema.validate(shot.structured_content, client.schemas["acquire_image"])
            assert [block.type for block in shot.content] == ["text", "image"]
            assert Path(shot.structured_content["img_path"]).read_bytes()[:4] == b"\x89PNG"
            array = await call(client, "get_attribute_payload", name="image_k")
            assert array["result"]["encoded_data"]["shape"] == [768, 1024]
            assert (await call(client, "get_attribute_payload", name="image_0"))["result"] is not None
            assert (await call(client, "get_parameters"))["result"] == [round(bench.position("z") * 1000)]

    run(session())


def test_from_a_configuration_as_people_paste_it(bench):
    async def session(entry):
        config = {"mcpServers": {"steadyhand": entry}}
        async with Client(json.loads(json.dumps(config))) as client:
            names = [t.name for t in await client.list_tools()]
            assert "acquire_image" in names and "stop" in names
            assert (await client.call_tool("whoami", {})).structured_content["status"] == "ok"

    Shared.end()
    if OVER_HTTP:
        with Web(bench) as web:
            run(session({"type": "http", "url": web.url}))
    else:
        command = [str(part) for part in bench.command()]
        run(session({"command": command[0], "args": command[1:]}))
    end = time.monotonic() + 5
    while bench.holders():
        assert time.monotonic() < end, "the server outlives its client"
        time.sleep(0.05)
