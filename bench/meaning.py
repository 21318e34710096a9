"""What a request or an answer means, whatever the spelling: two that are equal here mean the same.

Only what a provider documents as one and the same is made one: a null is an absent field, a
default that is written out is one that is not, a text is the one text part it stands for, two
neighbours of one role are one turn, a call's arguments are JSON, and proto JSON takes its names
in snake_case too. The order of tools, turns and parts stays, and all that is free-form is
compared as it is. Nothing of Weft is used here.
"""

import json
import re
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = dict[str, Json]

_FREE = {
    "args", "arguments", "response", "parameters", "input_schema", "schema", "labels",
    "parametersJsonSchema", "responseJsonSchema", "responseSchema",
}  # fmt: skip
"""Fields whose content is the caller's own: nothing in there is a default."""
_DEFAULTS: dict[str, Json] = {"stream": False, "is_error": False}
_PARTS = {"gemini": "parts", "anthropic": "content"}
_TURNS = {
    "gemini": "contents", "anthropic": "messages", "openai-chat": "messages",
    "openai-responses": "input",
}  # fmt: skip
_TEXTS = {"anthropic": "text", "openai-chat": "text", "openai-responses": "input_text"}


def meaning(dialect: str, wire: Object) -> Object:
    """The request in one spelling."""
    held = _camel(wire) if dialect == "gemini" else wire
    plain = _plain(held)
    assert isinstance(plain, dict)
    key = _TURNS[dialect]
    said = plain.get(key)
    if isinstance(said, str):
        said = [{"role": "user", "content": said}]
    plain[key] = _turns(dialect, [said] if isinstance(said, dict) else said or [])
    if dialect == "gemini":
        _gemini(plain)
    if dialect == "anthropic":
        plain["system"] = _as_parts(plain.get("system"), "text")
    return {key: value for key, value in plain.items() if value not in (None, [])}


def answer(dialect: str, body: Object) -> list[Json]:
    """What an answer says, as the turns that carry it back."""
    plain = _plain(_camel(body) if dialect == "gemini" else body)
    assert isinstance(plain, dict)
    turns: Json = plain.get("output")
    if dialect == "anthropic":
        turns = [{"role": "assistant", "content": plain.get("content")}]
    elif dialect == "openai-chat":
        choices = plain.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else {}
        turns = [first["message"]] if isinstance(first, dict) and "message" in first else []
    elif dialect == "gemini":
        candidates = plain.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else {}
        content = first.get("content") if isinstance(first, dict) else None
        turns = [{**content, "role": "model"}] if isinstance(content, dict) else []
    assert isinstance(turns, list)
    return [turn for turn in _turns(dialect, turns) if _says(dialect, turn)]


def leaves(value: Json, key: str = "") -> list[str]:
    """Every text and number of a value, but for the names of kinds."""
    if isinstance(value, dict):
        return [leaf for name, held in value.items() for leaf in leaves(held, name)]
    if isinstance(value, list):
        return [leaf for held in value for leaf in leaves(held, key)]
    if value is None or value == "" or key in ("type", "role", "object"):
        return []
    if key == "arguments" and isinstance(value, str):
        return leaves(_decoded(value))
    return [json.dumps(value)]


def _says(dialect: str, turn: Json) -> bool:
    if not isinstance(turn, dict) or dialect not in _PARTS:
        return bool(turn)
    return bool(turn.get(_PARTS[dialect]))


def _plain(value: Json, key: str = "") -> Json:
    """Without nulls, defaults and empty lists of parts; arguments as what they say."""
    if key == "arguments" and isinstance(value, str):
        return _decoded(value)
    if key in _FREE or (key == "input" and isinstance(value, dict)):
        return value
    if isinstance(value, dict):
        return {
            name: _plain(held, name)
            for name, held in value.items()
            if held is not None and not (name in _DEFAULTS and held is _DEFAULTS[name])
        }
    return [_plain(held) for held in value] if isinstance(value, list) else value


def _decoded(text: str) -> Json:
    try:
        held: Json = json.loads(text)
    except ValueError:
        return text
    return held


def _turns(dialect: str, turns: list[Json]) -> list[Json]:
    made: list[Json] = []
    key = _PARTS.get(dialect, "")
    for turn in turns:
        if not isinstance(turn, dict):
            made.append(turn)
            continue
        turn = _turn(dialect, turn)
        last = made[-1] if made else None
        if key and isinstance(last, dict) and last.get("role") == turn.get("role"):
            before, after = last.get(key), turn.get(key)
            if isinstance(before, list) and isinstance(after, list):
                last[key] = before + after
                continue
        made.append(turn)
    return made


def _turn(dialect: str, turn: Object) -> Object:
    turn = {**turn}
    if dialect == "gemini":
        turn.setdefault("role", "user")
        return turn
    text = _TEXTS[dialect]
    if dialect == "openai-responses":
        if "role" in turn:
            turn.setdefault("type", "message")
        if "output" in turn:
            turn["output"] = _as_parts(turn["output"], text)
    if "content" in turn and turn.get("role") is not None:
        written = "output_text" if turn.get("role") == "assistant" else text
        kind = written if dialect == "openai-responses" else text
        turn["content"] = _as_parts(turn["content"], kind)
    parts = turn.get("content")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_result" and "content" in part:
            part["content"] = _as_parts(part["content"], "text")
    return turn


def _as_parts(content: Json, kind: str) -> Json:
    """A text as the one part it stands for."""
    return [{"type": kind, "text": content}] if isinstance(content, str) else content


def _gemini(plain: Object) -> None:
    system = plain.get("systemInstruction")
    if isinstance(system, str):
        system = {"parts": [{"text": system}]}
    if isinstance(system, dict):
        plain["systemInstruction"] = {**system, "role": "user"}
    held = plain.get("tools")
    tools = [held] if isinstance(held, dict) else held if isinstance(held, list) else []
    made: list[Json] = []
    for tool in tools:
        last = made[-1] if made else None
        if isinstance(tool, dict) and set(tool) == {"functionDeclarations"} == set(last or ()):
            assert isinstance(last, dict)
            last["functionDeclarations"] += tool["functionDeclarations"]  # type: ignore[operator]
        else:
            made.append({**tool} if isinstance(tool, dict) else tool)
    plain["tools"] = made


def _camel(value: Json, key: str = "") -> Json:
    if key in _FREE:
        return value
    if isinstance(value, dict):
        named = {re.sub("_([a-z0-9])", lambda m: m[1].upper(), name): name for name in value}
        return {camel: _camel(value[name], camel) for camel, name in named.items()}
    return [_camel(held) for held in value] if isinstance(value, list) else value
