"""The MCP server, asked by the client of the official SDK: on stdin and stdout, and over HTTP."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.server.live import serving
from tests.support.late import late
from weft import Agent, Runner, tool
from weft.server import Tokens, app
from weft.testing import ScriptedModel, call

if TYPE_CHECKING:
    import mcp
    from mcp.client import streamable_http
else:
    mcp, streamable_http = late("mcp"), late("mcp.client.streamable_http")

MODES = ("2026-07-28", "legacy")

PROGRAM = '''
import asyncio
from weft import Agent, tool
from weft.testing import ScriptedModel, call

def look(city: str) -> str:
    """Look."""
    return f"rain in {city}"

@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"

model = ScriptedModel([call("look", city="Oslo"), "Rain.", call("pay", amount=3), "Paid."])
bot = Agent("weather", description="Knows the weather.", model=model, tools=[look, pay])
'''


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_its_sessions_and_the_compiler_on_stdio(tmp_path: Path, mode: str) -> None:
    (tmp_path / "agents.py").write_text(PROGRAM)
    args = ["-m", "weft", "mcp", "agents:bot", "--store", "memory://"]
    server = mcp.StdioServerParameters(command=sys.executable, args=args, cwd=tmp_path)
    told: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with mcp.Client(server, mode=mode) as client:
        listed = await client.list_tools()
        names = [one.name for one in listed.tools]
        assert names == ["weather", "answer", "compile", "explain", "diff", "check", "compact"]
        if mode == MODES[0]:
            assert listed.ttl_ms == 300_000
        asked = await client.call_tool("weather", {"message": "Rain?"}, progress_callback=note)
        assert asked.content[0].text == "Rain."  # type: ignore[union-attr]
        assert told == ["weather calls look", "look returned", "weather speaks"]
        assert asked.structured_content is not None
        session = str(asked.structured_content["session_id"])
        # sessions
        (resource,) = (await client.list_resources()).resources
        assert resource.uri == f"weft://session/weather/{session}"
        (content,) = (await client.read_resource(resource.uri)).contents
        assert json.loads(content.text)["events"][0]["author"] == "user"  # type: ignore[union-attr]
        for uri in ("weft://session/weather/none", "weft://session/other/x", "file:///etc/passwd"):
            with pytest.raises(mcp.MCPError):
                await client.read_resource(uri)

        # the compiler
        async def ask(name: str, **args: object) -> str:
            result = await client.call_tool(name, args)
            text = result.content[0].text  # type: ignore[union-attr]
            return f"error: {text}" if result.is_error else text

        assert json.loads(await ask("compile", session_id=session, step=1))["tokens"] > 0
        assert "prefix" in await ask("explain", session_id=session)
        assert "1 item unchanged" in await ask("diff", session_id=session, before=1, after=2)
        assert json.loads(await ask("check")) == {"findings": []}
        short = json.loads(await ask("compact", messages=[{"role": "user", "content": "hi"}]))
        assert short["tokens"] <= short["tokens_before"]
        assert "there is no session `x`" in await ask("compile", session_id="x")
        assert "there is no step 9" in await ask("explain", session_id=session, step=9)
        assert "`session_id` is missing" in await ask("explain", sesion="x")
        assert "error" in await ask("compact", messages=[{"odd": 1}])
        with pytest.raises(mcp.MCPError, match="there is no tool 'wether'"):
            await client.call_tool("wether", {})
        # a question, and its answer
        waits = await client.call_tool("weather", {"message": "Pay.", "session_id": session})
        assert waits.structured_content is not None
        (question,) = waits.structured_content["waiting"]
        assert question["question"] == 'May pay be called with {"amount":3}?'
        words = await ask("answer", session_id=session, call_id=question["call_id"], answer=True)
        assert words == "Paid."


@asynccontextmanager
async def connected(url: str, token: str, mode: str) -> "AsyncIterator[mcp.Client]":
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        mcp.Client(
            streamable_http.streamable_http_client(url, http_client=http), mode=mode
        ) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_each_user_has_the_own_sessions_and_cancels_the_own_runs(mode: str) -> None:
    begun, stopped = threading.Event(), threading.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()
        return "never"

    model = ScriptedModel(["Hi Ann.", call("wait"), "ok"])
    runner = Runner(Agent("bot", model=model, tools=[wait]))
    tokens = {"ann": "a-long-secret-of-ann", "bob": "a-long-secret-of-bob"}
    application = app(runner, auth=Tokens(tokens), mcp=True)
    with serving(application) as live:
        url = f"{live.url}/mcp"
        async with httpx2.AsyncClient() as stranger:
            assert (await stranger.post(url, json={})).status_code == 401
        async with connected(url, tokens["ann"], mode) as ann:
            said = await ann.call_tool("bot", {"message": "Hi."})
            assert said.content[0].text == "Hi Ann."  # type: ignore[union-attr]
            assert len((await ann.list_resources()).resources) == 1
            async with connected(url, tokens["bob"], mode) as bob:
                assert (await bob.list_resources()).resources == []
                assert said.structured_content is not None
                session = said.structured_content["session_id"]
                refused = await bob.call_tool("explain", {"session_id": session})
                assert refused.is_error
            waiting = asyncio.create_task(ann.call_tool("bot", {"message": "Wait."}))
            assert await asyncio.to_thread(begun.wait, 60)
            waiting.cancel()
            assert await asyncio.to_thread(stopped.wait, 60)
