"""AG-UI and the AI SDK's stream: with the clients of the other side, and what they do not check.

The clients are programs of npm in `.venv-clients`, which `make test` builds.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server.live import Live, read_events, serving
from tests.server.programs import HOME, PROGRAMS, checks, find_node, run
from weft import Agent, ToolContext, tool
from weft.ir import Prompt, ResultBlock
from weft.server import app
from weft.testing import ScriptedModel, call, chunks


def add(a: int, b: int, ctx: ToolContext) -> int:
    """Add."""
    ctx.state["sum"] = a + b
    return a + b


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def brain(prompt: Prompt) -> object:
    last = prompt.items[-1].blocks[-1]
    if isinstance(last, ResultBlock):
        return chunks("It ", "is done.")
    said = "".join(block.text for block in prompt.items[-1].blocks if hasattr(block, "text"))
    if "2 and 3" in said:
        return call("add", a=2, b=3)
    if "pay" in said:
        return call("pay", amount=3)
    if "color" in said:
        return call("color")
    return RuntimeError("the model is down")


@contextmanager
def start_server(folder: Path) -> Iterator[Live]:
    bot = Agent("bot", model=ScriptedModel([brain] * 50), tools=[add, pay])
    with serving(app(bot, store=f"sqlite:///{folder}/weft.db")) as live:
        yield live


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with start_server(tmp_path) as live:
        yield live


def start_client(live: Live, name: str, package: str) -> dict[str, object]:
    """What a program of the clients tells of a server."""
    node = find_node()
    if node is None or not (HOME / "node_modules" / package).exists():
        pytest.skip("needs node; make .venv-clients/.made-node installs the packages")
    program = HOME / name  # node looks for packages in the folders above a program
    program.write_text((PROGRAMS / name).read_text())
    return checks(run(node, program, live.url, live.token))


TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
CALL = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STATE_DELTA"]
ORDER = ["RUN_STARTED", "STATE_SNAPSHOT", *CALL, *TEXT, "RUN_FINISHED"]


def test_the_client_of_ag_ui(live: Live) -> None:
    told = start_client(live, "with_ag_ui.mjs", "@ag-ui/client")
    called = {"name": "add", "arguments": '{"a":2,"b":3}'}
    assert told == {
        "order": ORDER,
        "messages": [["user", "2 and 3?"], ["assistant", called], ["tool", "5"],
                     ["assistant", "It is done."]],
        "state": {"sum": 5},
        "client's tool": "color",
        "its result": "It is done.",
        "interrupt": ["confirmation", "pay", {"amount": 3}],
        "resumed": "It is done.",
        "error": ["RUN_ERROR", True],
    }  # fmt: skip


def test_the_chat_of_the_ai_sdk(live: Live) -> None:
    told = start_client(live, "with_ai_chat.mjs", "ai")
    text = ["text", "It is done."]
    assert told == {
        "header": "v1",
        "parts": [["dynamic-tool", "add", "output-available", {"a": 2, "b": 3}, 5],
                  ["data-state", {"sum": 5}], text],
        "asks": "approval-requested",
        "approved": [["dynamic-tool", "pay", "output-available", {"amount": 3}, "paid 3"], text],
        "error": "RuntimeError: the model is down",
        "refused": True,
    }  # fmt: skip


def post(live: Live, path: str, body: object) -> list[dict[str, object]]:
    with live.client() as client, client.stream("POST", path, json=body) as got:
        assert got.status_code == 200, got.read()
        datas = [one["data"] for one in read_events(got.iter_lines())]
    return [json.loads(data) for data in datas if data != "[DONE]"]


def test_the_events_of_ag_ui_come_in_order(live: Live) -> None:
    said = {"id": "m", "role": "user", "content": "2 and 3?"}
    asked = {"threadId": "t", "runId": "r", "messages": [said], "state": {"tone": "kind"}}
    # the state that the client brings is a change, too
    with_state = [*ORDER[:2], "STATE_DELTA", *ORDER[2:]]
    assert [one["type"] for one in post(live, "/ag-ui/bot", asked)] == with_state
    with live.client() as client:
        for wrong in ({}, {**asked, "messages": []}, {**asked, "threadId": "a/b"}):
            assert client.post("/ag-ui/bot", json=wrong).status_code == 422
        assert client.post("/ag-ui/nobody", json=asked).status_code == 404
        assert client.get("/api/apps/bot/sessions/t").json()["state"] == {"tone": "kind", "sum": 5}


def test_a_tool_of_the_client_is_answered_at_a_server_that_was_started_again(
    tmp_path: Path,
) -> None:
    color = {"name": "color", "description": "A color.", "parameters": {"type": "object"}}
    said = {"id": "m", "role": "user", "content": "color?"}
    asked = {"threadId": "t", "runId": "r", "messages": [said], "tools": [color]}
    with start_server(tmp_path) as live:
        (start,) = [
            one for one in post(live, "/ag-ui/bot", asked) if one["type"] == "TOOL_CALL_START"
        ]
    id = start["toolCallId"]
    function = {"name": "color", "arguments": "{}"}
    calls = [{"id": id, "type": "function", "function": function}]
    assistant = {"id": "a", "role": "assistant", "toolCalls": calls}
    result = {"id": "c", "role": "tool", "toolCallId": id, "content": "blue"}
    answered = {**asked, "runId": "r2", "messages": [said, assistant, result]}
    with start_server(tmp_path) as live:
        kinds = [one["type"] for one in post(live, "/ag-ui/bot", answered)]
        assert kinds[-len(TEXT) - 1 :] == [*TEXT, "RUN_FINISHED"]
        (prompt,) = live.application.served.runners["bot"].root.model.prompts
        assert "blue" in str(prompt)
    # an answer that comes again, after another start, reaches no model
    with start_server(tmp_path) as live:
        with live.client() as client:
            client.post("/ag-ui/bot", json=answered)
        assert live.application.served.runners["bot"].root.model.prompts == []


def test_a_chat_message_that_comes_twice_is_answered_once(live: Live) -> None:
    chat = {"id": "c", "messages": [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "2 and 3?"}]}
    ]}  # fmt: skip
    kinds = ["start", "tool-input-available", "tool-output-available", "data-state", "text-start",
             "text-delta", "text-delta", "text-end", "finish"]  # fmt: skip
    assert [one["type"] for one in post(live, "/ai/bot", chat)] == kinds
    again = [one["type"] for one in post(live, "/ai/bot", chat)]
    assert [kind for kind in again if kind != "text-delta"] == [
        kind for kind in kinds if kind != "text-delta"
    ]
    model = live.application.served.runners["bot"].root.model
    assert len(model.prompts) == 2
    with live.client() as client:
        said = chat["messages"][0]
        for wrong in (
            {}, {"id": "c", "messages": []}, {**chat, "trigger": "regenerate-message"},
            {**chat, "messages": [said, {"id": "a", "role": "assistant", "parts": []}]},
            {**chat, "messages": [{"role": "user", "parts": [{"type": "file", "url": "http://x"}]}]},
        ):  # fmt: skip
            assert client.post("/ai/bot", json=wrong).status_code == 422, wrong
