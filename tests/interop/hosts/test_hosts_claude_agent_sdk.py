"""The Claude Agent SDK: its hooks are called as its program calls them, by a scripted transport."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ResultMessage, query
from claude_agent_sdk._internal.transport import Transport

from tests.interop.hosts.checks import DIGESTS, GAUGES, ROUND, WEIRS, look, reread
from weft import C, Policy
from weft.errors import DeclarationError
from weft.interop.claude_agent_sdk import WeftHooks

SESSION = "s1"


class Program(Transport):
    """The program that the SDK runs: it calls the hooks, and the tools of the SDK's own servers.

    `tools` are what it does, one after the other: a tool with its response, or a function
    that makes one of what was returned so far, or the answer. `shown` is what the model got to
    read of each.
    """

    def __init__(self, prompt: str, *tools: Any) -> None:
        self.prompt, self.tools = prompt, tools
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.shown: list[Any] = []
        self.hooks: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.written: list[dict[str, Any]] = []

    async def connect(self) -> None: ...

    async def close(self) -> None: ...

    async def end_input(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            self.written.append(json.loads(line))

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        return self._read()

    async def _next(self, fits: Any) -> dict[str, Any]:
        import anyio

        while True:
            for one in self.written:
                if fits(one):
                    self.written.remove(one)
                    return one
            await anyio.sleep(0.001)

    async def _read(self) -> AsyncIterator[dict[str, Any]]:
        first = await self._next(lambda one: one.get("type") == "control_request")
        self.hooks = first["request"].get("hooks") or {}
        yield _success(first["request_id"], {"commands": []})
        number = 0
        for event, given in [("UserPromptSubmit", {"prompt": self.prompt})]:
            for ask in self._ask(event, given, f"h{number}"):
                yield ask
                await self._answer(ask)
        words = ""
        for at, step in enumerate(self.tools):
            step = step(self) if callable(step) else step
            if isinstance(step, str):
                words = step
                break
            name, arguments, response = step
            self.calls.append((name, arguments))
            if name.startswith("mcp__weft__"):
                for ask in self._greet(at):
                    yield ask
                    await self._answer(ask)
                call = {"name": name.split("__")[2], "arguments": arguments}
                ask = _request(
                    f"m{at}", _message({"id": 1, "method": "tools/call", "params": call})
                )
                yield ask
                answer = (await self._answer(ask))["mcp_response"]
                assert "result" in answer, answer
                answer = answer["result"]
                self.shown.append(answer["content"][0]["text"])
                continue
            given = {
                "tool_name": name, "tool_input": arguments, "tool_response": response,
                "tool_use_id": f"toolu_{at}",
            }  # fmt: skip
            for ask in self._ask("PostToolUse", given, f"p{at}"):
                yield ask
                output = (await self._answer(ask)).get("hookSpecificOutput") or {}
                response = output.get("updatedToolOutput", response)
            self.shown.append(response)
        text = {"type": "text", "text": words or f"I saw {len(self.shown)} results."}
        message = {"role": "assistant", "model": "claude-sonnet-5", "content": [text]}
        yield {"type": "assistant", "message": message, "session_id": SESSION}
        yield {
            "type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1,
            "is_error": False, "num_turns": 1, "session_id": SESSION, "result": text["text"],
        }  # fmt: skip

    def _ask(self, event: str, given: dict[str, Any], id: str) -> list[dict[str, Any]]:
        """The requests to the hooks of an event."""
        body = {"hook_event_name": event, "session_id": SESSION, "cwd": "/", **given}
        callbacks = [
            one for matcher in self.hooks.get(event, ()) for one in matcher["hookCallbackIds"]
        ]
        return [
            _request(
                f"{id}_{at}",
                {
                    "subtype": "hook_callback", "callback_id": callback, "input": body,
                    "tool_use_id": given.get("tool_use_id"),
                },
            )
            for at, callback in enumerate(callbacks)
        ]  # fmt: skip

    def _greet(self, at: int) -> list[dict[str, Any]]:
        """What a client says to a server first."""
        client = {"name": "program", "version": "1"}
        first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        return [
            _request(f"i{at}", _message({"id": 0, "method": "initialize", "params": first})),
            _request(f"n{at}", _message({"method": "notifications/initialized"})),
        ]

    async def _answer(self, ask: dict[str, Any]) -> dict[str, Any]:
        id = ask["request_id"]
        answer = await self._next(
            lambda one: (
                one.get("type") == "control_response" and one["response"]["request_id"] == id
            )
        )
        assert answer["response"]["subtype"] == "success", answer
        return answer["response"]["response"]


def _message(fields: dict[str, Any]) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", **fields}
    return {"subtype": "mcp_message", "server_name": "weft", "message": message}


def _request(id: str, request: dict[str, Any]) -> dict[str, Any]:
    return {"type": "control_request", "request_id": id, "request": request}


def _success(id: str, response: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": id, "response": response},
    }


async def _run(program: Program, options: dict[str, Any]) -> str:
    """The program as the SDK's documentation has it."""
    answers: list[str] = []
    async for message in query(
        prompt=program.prompt, options=ClaudeAgentOptions(**options), transport=program
    ):
        if isinstance(message, AssistantMessage):
            answers += [block.text for block in message.content if hasattr(block, "text")]
        elif isinstance(message, ResultMessage):
            answers.append(message.result or "")
    return "\n".join(answers)


def _bash(place: str) -> tuple[str, dict[str, Any], Any]:
    response = {"stdout": GAUGES[place], "stderr": "", "interrupted": False}
    return "Bash", {"command": f"cat {place}"}, response


def _read(place: str) -> tuple[str, dict[str, Any], Any]:
    file = {"filePath": f"/{place}", "content": GAUGES[place], "numLines": 400}
    return "Read", {"file_path": f"/{place}"}, {"type": "text", "file": file}


PROGRAMS = {
    "question": (),
    "shell": tuple(map(_bash, ROUND)),
    "files": tuple(map(_read, ROUND)),
    "mcp": (("mcp__gauges__read", {}, [{"type": "text", "text": GAUGES["north"]}]),),
    "small": (("Bash", {"command": "true"}, {"stdout": "ok", "stderr": ""}),),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_stock_program_runs_the_same_and_its_model_reads_less(name: str) -> None:
    plain = Program("Read all places.", *PROGRAMS[name])
    answer = await _run(plain, {})
    for policy in (C.default(), C.default().compact(results=300), None):
        hooks = WeftHooks(policy)
        program = Program("Read all places.", *PROGRAMS[name])
        assert await _run(program, hooks.options) == answer
        if policy == C.default() or name in ("question", "small"):
            assert program.shown == plain.shown
            assert not hooks.compactor.compacted
        elif policy is not None:
            assert len(str(program.shown)) < len(str(plain.shown)) / 2
            for before, after in zip(plain.shown, program.shown, strict=True):
                assert _shape(before) == _shape(after)


def _shape(value: Any) -> Any:
    """A value with its texts blotted out: a tool's own shape must stay, or it is refused."""
    if isinstance(value, dict):
        return {key: _shape(one) for key, one in value.items()}
    return [_shape(one) for one in value] if isinstance(value, list) else type(value).__name__


def test_a_policy_that_redacts_is_refused_where_only_results_are_seen() -> None:
    with pytest.raises(DeclarationError, match="hooks see results alone") as caught:
        WeftHooks(C.default().redact("email"))
    assert "weft proxy --redact" in (caught.value.hint or "")


async def test_the_model_gets_back_what_was_left_out() -> None:
    def ask(program: Program) -> Any:
        handle = re.search(r"handle ([0-9a-f]{12})", str(program.shown))
        assert handle is not None
        return "mcp__weft__recall", {"handle": handle[1], "lines": "399-400"}, None

    policy: Policy = C.default().compact(results=300)
    program = Program("Look north.", _bash("north"), ask)
    await _run(program, WeftHooks(policy).options)
    assert "north gauge 399: " in program.shown[-1]


def _look(place: str) -> tuple[str, dict[str, Any], Any]:
    return "Bash", {"command": place}, {"stdout": look(place), "stderr": "", "interrupted": False}


def _reread(program: Program) -> Any:
    """What a model does next that needs one of the first results to the letter."""
    chat: list[Any] = []
    for at, (call, shown) in enumerate(zip(program.calls, program.shown, strict=True)):
        arguments = json.dumps(call[1])
        function = {"name": call[0], "arguments": arguments}
        chat += [
            {"role": "assistant", "tool_calls": [{"id": str(at), "function": function}]},
            {"tool_call_id": str(at), "content": shown["stdout"] if at < len(WEIRS) else shown},
        ]
    step = reread(chat)
    return step if isinstance(step, str) else ("mcp__weft__recall", step[0][1], None)


async def test_a_model_reads_again_what_was_left_out_long_ago() -> None:
    steps = (*map(_look, WEIRS), *[_reread] * 9)
    plain, program = Program("Look around.", *steps), Program("Look around.", *steps)
    answer = await _run(plain, {})
    assert answer.startswith("It says ")
    assert await _run(program, WeftHooks(DIGESTS).options) == answer
    assert len(program.shown) > len(plain.shown)
    assert len(str(program.shown)) < len(str(plain.shown)) / 2
