"""A google-adk program with an MCP toolset, and the same program in Weft: the same calls."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")
pytest.importorskip("mcp")

from google.adk.tools.mcp_tool import (  # type: ignore[import-not-found]
    McpToolset,
    SseConnectionParams,
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
)
from mcp import StdioServerParameters

import weft
from tests.interop.shapes import llm
from tests.interop.test_adk_plugin import call as adk_call
from tests.interop.test_adk_plugin import ran
from weft.declare.visit import rebuild
from weft.errors import UsageError
from weft.interop.adk import check_adk, from_adk
from weft.testing import ScriptedModel, call

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
GIT = ROOT / ".venv-mcp" / "bin" / "mcp-server-git"
TOOLS = ["git_status", "git_create_branch", "git_log", "git_show"]


def command(journal: Path) -> StdioServerParameters:
    tee = str(ROOT / "tests" / "standins" / "mcp_tee.py")
    return StdioServerParameters(command=sys.executable, args=[tee, str(journal), str(GIT)])


def make_repository(folder: Path) -> str:
    folder.mkdir()
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run([*git, "init", "-q", "-b", "main"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "-qm", "First.", "--allow-empty"], cwd=folder, check=True)
    return str(folder)


@pytest.mark.skipif(not GIT.exists(), reason="make .venv-mcp/.made-servers builds the server")
def test_a_program_with_a_toolset_makes_the_same_calls_in_weft(tmp_path: Path) -> None:
    def program(journal: Path) -> Callable[[Any], Any]:
        parameters = StdioConnectionParams(server_params=command(journal), timeout=120)
        tools = [McpToolset(connection_params=parameters, tool_filter=TOOLS, tool_name_prefix="my")]
        return lambda model: llm("keeper", "Keep the repository.", model=model, tools=tools)

    def script(path: str, call: Callable[..., Any]) -> list[Any]:
        return [
            call("my_git_status", repo_path=path),
            call("my_git_create_branch", repo_path=path, branch_name="next"),
            call("my_git_log", repo_path=path, max_count=1),
            call("my_git_show", repo_path=path, revision="nowhere"),
            "Done.",
        ]

    theirs, ours = (make_repository(tmp_path / name) for name in ("theirs", "ours"))
    run = ran(program(tmp_path / "theirs.log"), {"keeper": script(theirs, adk_call)})
    model = ScriptedModel(script(ours, call))
    agent = program(tmp_path / "ours.log")("gemini-2.5-flash")
    assert check_adk(agent) == []
    flow = rebuild(from_adk(agent), lambda one: replace(one, model=model))
    done = weft.run_sync(flow, "Fly me to Oslo")

    # the same calls reach the server, and do the same
    calls = [(tmp_path / f"{name}.log").read_text() for name in ("theirs", "ours")]
    assert calls[0].replace(theirs, "") == calls[1].replace(ours, "")
    assert [json.loads(line)["name"] for line in calls[1].splitlines()] == TOOLS
    for path in (theirs, ours):
        listed = subprocess.run(["git", "branch"], cwd=path, check=True, capture_output=True)
        assert b"next" in listed.stdout
    # the model has the same tools, and reads the same
    declared = run.asked("keeper").config.tools[0].function_declarations
    assert {one.name for one in declared} == {one.name for one in model.prompts[0].tools}
    responses = [
        part.function_response.response
        for event in run.events
        for part in event.content.parts
        if part.function_response
    ]
    results = [one.response for event in done.session.events for one in event.results]
    for response, result in zip(responses, results, strict=True):
        words = response["content"][0]["text"].replace(theirs, "")
        (read,) = (result or {}).values()
        assert words == str(read).replace(ours, "") or "commit" in words
        assert ("error" in (result or {})) is response["isError"]
    assert done.text == run.text == "Done."


def ported(**options: Any) -> Any:
    """The server that a toolset becomes."""
    (source,) = from_adk(llm("a", tools=[McpToolset(**options)])).tool_sources  # type: ignore[union-attr]
    return source.restore.__self__  # type: ignore[union-attr]


def test_what_a_toolset_says_is_carried_over_or_refused() -> None:
    local = StdioServerParameters(command="x", args=["-v"], env={"A": "b"}, cwd="/")
    server = ported(connection_params=local, require_confirmation=True)
    assert (server.server, server.args, server.env) == ("x", ["-v"], {"A": "b"})
    assert (str(server.cwd), server.confirm, server.only) == ("/", True, None)
    far = StreamableHTTPConnectionParams(url="https://h/mcp", headers={"A": "b"}, timeout=7)
    server = ported(connection_params=far, tool_list_cache_ttl_seconds=9)
    assert (server.server, server.headers) == ("https://h/mcp", {"A": "b"})
    assert (server.start_seconds, server.lifetime) == (7, 9)
    two = from_adk(llm("a", tools=[McpToolset(connection_params=local) for _ in "ab"]))
    assert [one.name for one in two.tool_sources] == ["x", "x_2"]  # type: ignore[union-attr]
    refused: list[dict[str, Any]] = [
        {"connection_params": SseConnectionParams(url="https://h/sse")},
        {"connection_params": local, "tool_filter": lambda tool, context: True},
        {"connection_params": far, "header_provider": lambda context: {}},
        {"connection_params": local, "use_mcp_resources": True},
    ]
    for options in refused:
        agent = llm("a", tools=[McpToolset(**options)])
        assert "the toolset McpToolset" in str(check_adk(agent))
        with pytest.raises(UsageError, match="McpToolset"):
            weft.run_sync(replace(from_adk(agent), model=ScriptedModel(["x"])), "hi")  # type: ignore[type-var]
