"""What real requests have besides texts and calls, put into random ones by chance.

Each kind is what its provider takes: `test_laws.py` holds every one of them to that.
"""

import json
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

Wire = dict[str, Any]

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_ODD_TEXT = "e\u0301\u202e\u0663 \u200d👩\u200d👧 \x7f\x00\t\r\n \u2028 {x} </tool> \ufeff"
_HALF = "half a character: \ud83d"
_FACT = {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"],
         "additionalProperties": False}  # fmt: skip


class Spice(NamedTuple):
    """One kind of thing: whose requests may have it, and how it is put in."""

    name: str
    dialects: tuple[str, ...]
    put: Callable[[Wire, list[Wire], random.Random], None]


def _results(messages: list[Wire]) -> list[tuple[Wire, str]]:
    """Every result of a tool, as the object that has it and the key of it there."""
    found: list[tuple[Wire, str]] = []
    for message in messages:
        if message.get("role") == "tool":
            found.append((message, "content"))
        if message.get("type") == "function_call_output":
            found.append((message, "output"))
        pieces = message.get("content")
        for piece in pieces if isinstance(pieces, list) else ():
            if piece.get("type") == "tool_result":
                found.append((piece, "content"))
        for part in message.get("parts", ()):
            if "functionResponse" in part:
                found.append((part["functionResponse"], "response"))
    return found


def _set_result(messages: list[Wire], chance: random.Random, value: object) -> None:
    results = _results(messages)
    if results:
        holder, key = chance.choice(results)
        holder[key] = {"output": value} if key == "response" else value


def _huge(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    lines = (f"{n:05} {chance.random()} src/part_{n % 71}.py: done" for n in range(1500))
    _set_result(messages, chance, "\n".join(lines))


def _long_line(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    _set_result(messages, chance, f"{chance.choice('ab0 é')}{chance.random()}" * 900)


def _empty(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    _set_result(messages, chance, "")


def _empty_list(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    _set_result(messages, chance, [])


def _odd(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    _set_result(messages, chance, _ODD_TEXT * chance.choice([1, 400]))


def _half(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    _set_result(messages, chance, _HALF * chance.choice([1, 300]))


def _half_head(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    match request["tools"][0]:
        case {"functionDeclarations": [tool]} | {"function": tool} | tool:
            tool["description"] += _HALF


def _missing(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    results = [one for one, key in _results(messages) if key == "content" and "tool_use_id" in one]
    if results:
        chance.choice(results).pop("content")


def _add_to_user(messages: list[Wire], chance: random.Random, key: str, piece: Wire) -> None:
    users = [one for one in messages if one.get("role") == "user" and key in one]
    if users:
        user = chance.choice(users)
        text = user[key]
        kind = "input_text" if piece.get("type", "").startswith("input_") else "text"
        pieces = [{"type": kind, "text": text}] if isinstance(text, str) else text
        user[key] = [*pieces, piece]


def _chat_picture(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    url = f"data:image/png;base64,{PIXEL}"
    _add_to_user(messages, chance, "content", {"type": "image_url", "image_url": {"url": url}})


def _claude_picture(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    _add_to_user(messages, chance, "content", {"type": "image", "source": source})


def _claude_document(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "A page.\n" * 400}
    document = {"type": "document", "source": source, "title": "Page"}
    _add_to_user(messages, chance, "content", document)


def _gemini_picture(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    data = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    users = [one for one in messages if one["role"] == "user" and "text" in one["parts"][0]]
    chance.choice(users)["parts"].append(data)


def _responses_picture(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    url = f"data:image/png;base64,{PIXEL}"
    _add_to_user(messages, chance, "content", {"type": "input_image", "image_url": url})


def _responses_pieces(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    text = "\n".join(f"{n} {chance.random()}" for n in range(300))
    pieces: list[Wire] = [{"type": "input_text", "text": text}]
    if chance.random() < 0.5:
        pieces.append({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"})
    _set_result(messages, chance, pieces)


def _responses_messages(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    for at, message in enumerate(messages):
        if message.get("role") == "assistant" and isinstance(message["content"], str):
            text = {"type": "output_text", "text": message["content"], "annotations": []}
            done = {"id": f"msg_{at}", "status": "completed", "content": [text]}
            message |= {"type": "message", **done}


def _responses_hosted(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    request["tools"].append({"type": "web_search"})
    action = {"type": "search", "query": "gauges"}
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    said = {"role": "assistant", "content": "Searched."}
    messages[1:1] = [call, said, {"role": "user", "content": "Go on."}]


def _claude_hosted(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    request["tools"].append({"type": "web_search_20250305", "name": "web_search"})
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
           "input": {"query": "gauges"}}  # fmt: skip
    page = {"type": "web_search_result", "url": "https://a.example/", "title": "Gauges",
            "encrypted_content": "Zm9v" * 900, "page_age": None}  # fmt: skip
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    said = {"role": "assistant", "content": [use, found, {"type": "text", "text": "Found."}]}
    messages[1:1] = [said, {"role": "user", "content": "Go on."}]


def _gemini_hosted(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n" * 900}}
    said = {"role": "model", "parts": [code, ran, {"text": "Ran."}]}
    messages[1:1] = [said, {"role": "user", "parts": [{"text": "Go on."}]}]


def _sealed_thought(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    answers = [one for one in messages if one["role"] == "assistant"]
    for answer in answers:
        if isinstance(answer["content"], list) and chance.random() < 0.5:
            answer["content"].insert(0, {"type": "redacted_thinking", "data": "c2VhbGVk"})


def _gemini_thoughts(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    for message in messages:
        if message["role"] == "model":
            thought = {"text": "I think.", "thought": True, "thoughtSignature": "c2ln"}
            message["parts"].insert(0, thought)


def _claude_mark(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    held = [one for one in messages if isinstance(one["content"], list)]
    if held and json.dumps(messages).count("cache_control") < 2:
        block = chance.choice(held)["content"][-1]
        if block["type"] in ("text", "tool_result", "tool_use"):
            block["cache_control"] = {"type": "ephemeral"}


def _claude_output(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    request["output_config"] = {"format": {"type": "json_schema", "schema": _FACT}}


def _chat_output(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    schema = {"name": "fact", "schema": _FACT, "strict": True}
    request["response_format"] = {"type": "json_schema", "json_schema": schema}


def _responses_output(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    named = {"type": "json_schema", "name": "fact", "schema": _FACT, "strict": True}
    request["text"] = {"format": named}


def _gemini_output(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    options = {"responseMimeType": "application/json", "responseJsonSchema": _FACT}
    request["generationConfig"] = options


def _choice(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    match request:
        case {"contents": _}:
            request["toolConfig"] = {"functionCallingConfig": {"mode": "AUTO"}}
        case {"max_tokens": _}:
            request["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        case _:
            request["tool_choice"] = "none"


def _late_system(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    ends = [at for at, one in enumerate(messages) if one.get("role") == "user"]
    messages.insert(chance.choice(ends), {"role": "developer", "content": "Be brief. é"})


def _named(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    for message in messages:
        if message["role"] in ("user", "assistant") and isinstance(message["content"], str):
            message["name"] = "mona"


def _refusal(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    asked = next(at for at, one in enumerate(messages) if one["role"] == "user")
    said = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]}
    messages[asked + 1 : asked + 1] = [said, {"role": "user", "content": "Why?"}]


def _swapped(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """Results of calls made together, in another order than the calls."""
    for at, (one, other) in enumerate(pairwise(messages)):
        kinds = one.get("role") or one.get("type"), other.get("role") or other.get("type")
        if kinds in (("tool", "tool"), ("function_call_output", "function_call_output")):
            messages[at], messages[at + 1] = other, one
            return
        pieces: list[Wire] | str | None = one.get("content")
        kinds = [piece["type"] for piece in pieces] if isinstance(pieces, list) else []
        if len(kinds) > 1 and {*kinds} == {"tool_result"}:
            pieces.reverse()
            return


def _stored(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    request["store"] = False
    request["include"] = ["reasoning.encrypted_content"]


_ALL = ("openai-chat", "anthropic", "gemini", "openai-responses")
_CHAT, _CLAUDE, _GEMINI, _RESPONSES = ((name,) for name in _ALL)

SPICES = (
    Spice("one huge result", _ALL, _huge),
    Spice("one long line", _ALL, _long_line),
    Spice("an empty result", _ALL, _empty),
    Spice("a result of no pieces", _CLAUDE, _empty_list),
    Spice("half characters in a tool", _ALL, _half_head),
    Spice("a result without content", _CLAUDE, _missing),
    Spice("unusual characters", _ALL, _odd),
    Spice("half characters", _ALL, _half),
    Spice("a picture for chat", _CHAT, _chat_picture),
    Spice("a picture for Claude", _CLAUDE, _claude_picture),
    Spice("a document", _CLAUDE, _claude_document),
    Spice("a picture for Gemini", _GEMINI, _gemini_picture),
    Spice("a picture for responses", _RESPONSES, _responses_picture),
    Spice("a result in pieces", _RESPONSES, _responses_pieces),
    Spice("answers as they came", _RESPONSES, _responses_messages),
    Spice("a search by OpenAI", _RESPONSES, _responses_hosted),
    Spice("a search by Anthropic", _CLAUDE, _claude_hosted),
    Spice("code run by Gemini", _GEMINI, _gemini_hosted),
    Spice("sealed thoughts", _CLAUDE, _sealed_thought),
    Spice("thoughts of Gemini", _GEMINI, _gemini_thoughts),
    Spice("marks for the cache", _CLAUDE, _claude_mark),
    Spice("an answer by a schema, Claude", _CLAUDE, _claude_output),
    Spice("an answer by a schema, chat", _CHAT, _chat_output),
    Spice("an answer by a schema, responses", _RESPONSES, _responses_output),
    Spice("an answer by a schema, Gemini", _GEMINI, _gemini_output),
    Spice("a choice of tools", _ALL, _choice),
    Spice("a developer in between", ("openai-chat", "openai-responses"), _late_system),
    Spice("names of speakers", _CHAT, _named),
    Spice("a refusal", _CHAT, _refusal),
    Spice("results in another order", ("openai-chat", "anthropic", "openai-responses"), _swapped),
    Spice("nothing stored", _RESPONSES, _stored),
)
