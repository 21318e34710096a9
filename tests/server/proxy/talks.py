"""Conversations of each dialect with a large result, and a provider that recalls from it."""

import json
from typing import Any, NamedTuple

from tests.server.proxy.upstream import Reply

LONG = "\n".join(f"12:{n % 60:02} worker {n} finished in {n * 7 % 90} ms" for n in range(900))


class Talk(NamedTuple):
    """How a dialect is spoken in tests."""

    name: str
    path: str
    stream_path: str

    def request(self, *more: Any, stream: bool = False) -> dict[str, Any]:
        """A request whose history has a large result, and what came after it."""
        match self.name:
            case "openai-chat":
                call = {"id": "c1", "type": "function",
                        "function": {"name": "read", "arguments": "{}"}}  # fmt: skip
                messages: list[Any] = [
                    {"role": "user", "content": "Which worker was slow?"},
                    {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c1", "content": LONG},
                ]
                request: dict[str, Any] = {"model": "gpt-5", "messages": [*messages, *more]}
                if stream:
                    request["stream_options"] = {"include_usage": True}
            case "openai-responses":
                items: list[Any] = [
                    {"role": "user", "content": "Which worker was slow?"},
                    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": LONG},
                ]
                request = {"model": "gpt-5", "input": [*items, *more]}
            case "anthropic":
                use = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
                result = {"type": "tool_result", "tool_use_id": "c1", "content": LONG}
                turns: list[Any] = [
                    {"role": "user", "content": "Which worker was slow?"},
                    {"role": "assistant", "content": [use]},
                    {"role": "user", "content": [result]},
                ]
                request = {
                    "model": "claude-sonnet-5",
                    "max_tokens": 99,
                    "messages": [*turns, *more],
                }
            case _:
                said = {"functionCall": {"name": "read", "args": {}}}
                got = {"functionResponse": {"name": "read", "response": {"result": LONG}}}
                contents: list[Any] = [
                    {"role": "user", "parts": [{"text": "Which worker was slow?"}]},
                    {"role": "model", "parts": [said]},
                    {"role": "user", "parts": [got]},
                ]
                return {"contents": [*contents, *more]}
        return {**request, "stream": True} if stream else request

    def turns(self, request: dict[str, Any]) -> list[Any]:
        """The conversation of a request."""
        field = {"openai-responses": "input", "gemini": "contents"}.get(self.name, "messages")
        turns: list[Any] = request[field]
        return turns

    def piece(self, kind: str, id: str, value: Any) -> Any:
        """A text, a call or a thought in an answer."""
        name, arguments = ("", {})
        if kind == "call":
            name, arguments = value
        match self.name, kind:
            case "openai-chat", "text":
                return value
            case "openai-chat", _:
                function = {"name": name, "arguments": json.dumps(arguments)}
                return {"id": id, "type": "function", "function": function}
            case "openai-responses", "text":
                content = [{"type": "output_text", "text": value, "annotations": []}]
                return {"type": "message", "id": id, "role": "assistant", "content": content}
            case "openai-responses", _:
                return {"type": "function_call", "id": f"fc{id}", "call_id": id, "name": name,
                        "arguments": json.dumps(arguments)}  # fmt: skip
            case "anthropic", "text":
                return {"type": "text", "text": value}
            case "anthropic", _:
                return {"type": "tool_use", "id": id, "name": name, "input": arguments}
            case _, "text":
                return {"text": value}
            case _:
                return {"functionCall": {"name": name, "args": arguments}}

    def answer(self, *pieces: Any, stream: bool = False) -> Reply:
        """An answer of these pieces, which counts 100 tokens in and 10 out."""
        whole = self._body(pieces)
        if not stream:
            headers = {"content-type": "application/json"}
            return Reply(json.dumps(whole).encode(), headers=headers)
        events = "".join(
            (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
            for name, data in self._events(whole)
        ).encode()
        cut = [events[at : at + 53] for at in range(0, len(events), 53)]
        return Reply(cut, headers={"content-type": "text/event-stream"})

    def _body(self, pieces: tuple[Any, ...]) -> dict[str, Any]:
        match self.name:
            case "openai-chat":
                calls = [one for one in pieces if not isinstance(one, str)]
                text = "".join(one for one in pieces if isinstance(one, str))
                message: dict[str, Any] = {"role": "assistant", "content": text or None}
                if calls:
                    message["tool_calls"] = calls
                reason = "tool_calls" if calls else "stop"
                choice = {"index": 0, "message": message, "finish_reason": reason}
                usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                return {"id": "a", "object": "chat.completion", "created": 1, "model": "gpt-5",
                        "choices": [choice], "usage": usage}  # fmt: skip
            case "openai-responses":
                counts = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
                          "input_tokens_details": {"cached_tokens": 0},
                          "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
                return {"id": "r1", "object": "response", "created_at": 1, "model": "gpt-5",
                        "status": "completed", "output": [*pieces], "usage": counts,
                        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
                        "error": None}  # fmt: skip
            case "anthropic":
                stop = "tool_use" if any("name" in one for one in pieces) else "end_turn"
                return {"id": "m1", "type": "message", "role": "assistant",
                        "model": "claude-sonnet-5", "content": [*pieces], "stop_reason": stop,
                        "stop_sequence": None,
                        "usage": {"input_tokens": 100, "output_tokens": 10}}  # fmt: skip
            case _:
                content = {"role": "model", "parts": [*pieces]}
                counted = {"promptTokenCount": 100, "candidatesTokenCount": 10,
                           "totalTokenCount": 110}  # fmt: skip
                return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
                        "usageMetadata": counted, "modelVersion": "gemini-2.5-flash"}  # fmt: skip

    def _events(self, whole: dict[str, Any]) -> list[tuple[str, str]]:
        match self.name:
            case "openai-chat":
                return [("", one) for one in _chat_chunks(whole)]
            case "openai-responses":
                return [(one["type"], json.dumps(one)) for one in _response_events(whole)]
            case "anthropic":
                return [(one["type"], json.dumps(one)) for one in _message_events(whole)]
            case _:
                candidate = whole["candidates"][0]
                parts = candidate["content"]["parts"]
                chunks = [
                    {
                        **whole,
                        "candidates": [{"content": {"role": "model", "parts": [one]}, "index": 0}],
                    }
                    for one in parts[:-1]
                ]
                last = {**candidate, "content": {"role": "model", "parts": parts[-1:]}}
                return [("", json.dumps(one)) for one in (*chunks, {**whole, "candidates": [last]})]


def _chat_chunks(whole: dict[str, Any]) -> list[str]:
    head = {"id": whole["id"], "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
    choice = whole["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    text = message["content"] or ""
    deltas += [{"content": text[at : at + 5]} for at in range(0, len(text), 5)]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        begun = {**call, "index": index, "function": {**function, "arguments": ""}}
        rest = {"index": index, "function": {"arguments": function["arguments"]}}
        deltas += [{"tool_calls": [begun]}, {"tool_calls": [rest]}]
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks += [{**head, "choices": [end]}, {**head, "choices": [], "usage": whole["usage"]}]
    return [*map(json.dumps, chunks), "[DONE]"]


def _message_events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    counts = {"input_tokens": 100, "output_tokens": 1}
    begun = {**whole, "content": [], "stop_reason": None, "usage": counts}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]
    return events


def _response_events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            text, part = item["content"][0]["text"], item["content"][0]
            events += [
                {"type": "response.output_item.added", **at, "item": {**item, "content": []}},
                {"type": "response.content_part.added", **at, "content_index": 0,
                 "part": {**part, "text": ""}},
                {"type": "response.output_text.delta", **at, "content_index": 0, "delta": text,
                 "logprobs": []},
            ]  # fmt: skip
        else:
            events += [
                {"type": "response.output_item.added", **at, "item": {**item, "arguments": ""}},
                {"type": "response.function_call_arguments.delta", **at,
                 "delta": item["arguments"]},
            ]  # fmt: skip
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


GEMINI = "/v1beta/models/gemini-2.5-flash"

CHAT, RESPONSES, ANTHROPIC, GEMINI_TALK = TALKS = (
    Talk("openai-chat", "/v1/chat/completions", "/v1/chat/completions"),
    Talk("openai-responses", "/v1/responses", "/v1/responses"),
    Talk("anthropic", "/v1/messages", "/v1/messages"),
    Talk("gemini", f"{GEMINI}:generateContent", f"{GEMINI}:streamGenerateContent?alt=sse"),
)
