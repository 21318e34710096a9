"""Answers as the four providers spell them: whole, and as events."""

import json

DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini")


def whole(dialect: str, text: str = "Hello there") -> dict:
    """A complete answer that says this."""
    if dialect == "openai-chat":
        message = {"role": "assistant", "content": text}
        return {
            "id": "c1", "object": "chat.completion", "model": "x",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        }  # fmt: skip
    if dialect == "openai-responses":
        return _response(text)
    if dialect == "anthropic":
        return {
            "id": "m1", "type": "message", "role": "assistant", "model": "x",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 3},
        }  # fmt: skip
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {
            "promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12
        },
        "modelVersion": "x",
    }  # fmt: skip


def chat_message(**message: object) -> dict:
    """A chat answer with this message."""
    body = whole("openai-chat")
    body["choices"][0]["message"] = {"role": "assistant", "content": None, **message}
    return body


def events(dialect: str, *words: str) -> list[bytes]:
    """The same answer as the events of a stream, one chunk each."""
    words = words or ("Hello", " there")
    text = "".join(words)
    if dialect == "openai-chat":
        return _chat(words)
    if dialect == "openai-responses":
        return _responses(words, text)
    if dialect == "anthropic":
        return _anthropic(words)
    body = whole("gemini", text)
    told = []
    for at, word in enumerate(words):
        parts = [{"text": word}]
        candidate = {"content": {"role": "model", "parts": parts}}
        chunk = {"candidates": [candidate], "modelVersion": "x"}
        if at == len(words) - 1:
            candidate["finishReason"] = "STOP"
            chunk["usageMetadata"] = body["usageMetadata"]
        told.append(_event(chunk))
    return told


def _event(data: dict, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _chat(words: tuple[str, ...]) -> list[bytes]:
    base = {"id": "c1", "object": "chat.completion.chunk", "model": "x"}
    told = [
        _event({**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": word}}]})
        for word in words
    ]
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return [
        *told,
        _event({**base, "choices": [last]}),
        _event({**base, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _response(text: str) -> dict:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {
        "type": "message", "id": "i1", "role": "assistant", "status": "completed",
        "content": [part],
    }  # fmt: skip
    return {
        "id": "r1", "object": "response", "model": "x", "status": "completed", "output": [item],
        "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
    }  # fmt: skip


def _responses(words: tuple[str, ...], text: str) -> list[bytes]:
    body = _response(text)
    item = body["output"][0]
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    told = [("response.created", {"response": begun})]
    told.append(
        ("response.output_item.added", {"output_index": 0, "item": {**item, "content": []}})
    )
    told += [
        ("response.output_text.delta",
         {"output_index": 0, "content_index": 0, "item_id": "i1", "delta": word})
        for word in words
    ]  # fmt: skip
    told.append(("response.output_item.done", {"output_index": 0, "item": item}))
    told.append(("response.completed", {"response": body}))
    return [
        _event({"type": name, "sequence_number": at, **data}, name)
        for at, (name, data) in enumerate(told)
    ]


def _anthropic(words: tuple[str, ...]) -> list[bytes]:
    message = {**whole("anthropic"), "content": [], "stop_reason": None}
    told = [("message_start", {"message": message})]
    told.append(
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    )
    told += [
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": word}})
        for word in words
    ]
    told.append(("content_block_stop", {"index": 0}))
    stop = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    told.append(("message_delta", {**stop, "usage": {"output_tokens": 3}}))
    told.append(("message_stop", {}))
    return [_event({"type": name, **data}, name) for name, data in told]
