"""Conversations with tool calls as four providers take them."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

Wire = dict[str, Any]


def long_text(step: int) -> str:
    """A result that is large enough for a digest, and has nothing in it that another has."""
    return "\n".join(
        f"{step}.{line} the reading of gauge {step * 260 + line}" for line in range(260)
    )


class Talk(NamedTuple):
    """How one provider spells a conversation."""

    turns: str
    user: Callable[[str], Wire]
    say: Callable[[str], Wire]
    call: Callable[[str, str, Wire], Wire]
    step: Callable[[str, str, Wire, str], list[Wire]]
    head: Wire
    is_answer: Callable[[Wire], bool]

    def messages(self, request: object) -> list[Wire]:
        """The messages of a request."""
        return cast("list[Wire]", cast("Wire", request)[self.turns])

    def with_messages(self, request: Wire, messages: list[Wire]) -> Wire:
        """The request with other messages."""
        return {**request, self.turns: messages}


_PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_ABOUT = "Read the gauges of a place."


def _chat_call(id: str, name: str, args: Wire) -> Wire:
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(args)},
    }


def _claude_call(id: str, name: str, args: Wire) -> Wire:
    return {"type": "tool_use", "id": id, "name": name, "input": args}


def _gemini_call(id: str, name: str, args: Wire) -> Wire:
    return {"functionCall": {"name": name, "args": args}}


def _response_call(id: str, name: str, args: Wire) -> Wire:
    return {
        "type": "function_call",
        "call_id": id,
        "name": name,
        "arguments": json.dumps(args),
    }


TALKS: dict[str, Talk] = {
    "openai-chat": Talk(
        "messages",
        lambda text: {"role": "user", "content": text},
        lambda text: {"role": "assistant", "content": text},
        _chat_call,
        lambda id, name, args, result: [
            {"role": "assistant", "content": None, "tool_calls": [_chat_call(id, name, args)]},
            {"role": "tool", "tool_call_id": id, "content": result},
        ],
        {
            "model": "gpt-5",
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "read", "description": _ABOUT, "parameters": _PARAMETERS},
                }
            ],
        },
        lambda message: message["role"] == "assistant",
    ),
    "anthropic": Talk(
        "messages",
        lambda text: {"role": "user", "content": text},
        lambda text: {"role": "assistant", "content": text},
        _claude_call,
        lambda id, name, args, result: [
            {"role": "assistant", "content": [_claude_call(id, name, args)]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": id,
                        "content": [{"type": "text", "text": result}],
                    }
                ],
            },
        ],
        {
            "model": "claude-sonnet-5",
            "max_tokens": 1000,
            "system": [
                {"type": "text", "text": "You watch.", "cache_control": {"type": "ephemeral"}}
            ],
            "tools": [{"name": "read", "description": _ABOUT, "input_schema": _PARAMETERS}],
        },
        lambda message: message["role"] == "assistant",
    ),
    "gemini": Talk(
        "contents",
        lambda text: {"role": "user", "parts": [{"text": text}]},
        lambda text: {"role": "model", "parts": [{"text": text}]},
        _gemini_call,
        lambda id, name, args, result: [
            {
                "role": "model",
                "parts": [{**_gemini_call(id, name, args), "thoughtSignature": "c2ln"}],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": name, "response": {"output": result}}}],
            },
        ],
        {
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "read",
                            "description": _ABOUT,
                            "parametersJsonSchema": _PARAMETERS,
                        }
                    ]
                }
            ]
        },
        lambda message: message["role"] == "model",
    ),
    "openai-responses": Talk(
        "input",
        lambda text: {"role": "user", "content": text},
        lambda text: {"role": "assistant", "content": text},
        _response_call,
        lambda id, name, args, result: [
            _response_call(id, name, args),
            {"type": "function_call_output", "call_id": id, "output": result},
        ],
        {
            "model": "gpt-5.6",
            "instructions": "You watch.",
            "tools": [
                {
                    "type": "function",
                    "name": "read",
                    "description": _ABOUT,
                    "parameters": _PARAMETERS,
                    "strict": False,
                }
            ],
        },
        lambda item: item.get("role") == "assistant" or item.get("type") == "function_call",
    ),
}

DIALECTS = [*TALKS]


def talk_in(dialect: str, *, steps: int = 4, turns: int = 1, same: bool = False) -> Wire:
    """A request of a conversation in which a tool was called `steps` times in each turn."""
    talk = TALKS[dialect]
    messages: list[Wire] = []
    for turn in range(turns):
        messages.append(talk.user(f"Look at the gauges of place {turn}."))
        for step in range(steps):
            number = turn * steps + step
            result = long_text(0 if same else number)
            messages += talk.step(f"call_{number}", "read", {"path": f"place/{number}"}, result)
        if turn < turns - 1:
            messages.append(talk.say(f"Place {turn} is fine."))
    return {**json.loads(json.dumps(talk.head)), talk.turns: messages}
