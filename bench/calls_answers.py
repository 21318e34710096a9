"""What the stub answers: one fixed answer a dialect, whole and as a stream of deltas."""

import json

WORD = "sunny "
WORDS = 200
"""Deltas of a streamed answer, and words of a whole one."""

_CALL_ID = "0123456789abcdef01234567"


def whole(dialect: str) -> bytes:
    """The body of an answer that comes at once."""
    return json.dumps(_WHOLE[dialect](WORD * WORDS)).encode()


def streamed(dialect: str, deltas: int) -> list[bytes]:
    """The events of an answer of as many deltas."""
    return _STREAMED[dialect](deltas)


def _event(data: object, *, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _gemini(text: str) -> dict:
    return {
        "candidates": [
            {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP",
             "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 1500, "candidatesTokenCount": 200,
                          "totalTokenCount": 1700,
                          "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1500}]},
        "modelVersion": "gemini-flash-latest",
        "responseId": _CALL_ID,
    }  # fmt: skip


def _gemini_stream(deltas: int) -> list[bytes]:
    pieces = [_gemini(WORD) for _ in range(deltas)]
    for piece in pieces[:-1]:
        del piece["candidates"][0]["finishReason"]
    return [_event(piece) for piece in pieces]


def _anthropic(text: str) -> dict:
    return {
        "id": f"msg_{_CALL_ID}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1500, "output_tokens": 200, "cache_read_input_tokens": 0,
                  "cache_creation_input_tokens": 0, "service_tier": "standard"},
    }  # fmt: skip


def _anthropic_stream(deltas: int) -> list[bytes]:
    start = _anthropic("") | {"content": [], "stop_reason": None}
    begins = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": WORD},
    }
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 200}}  # fmt: skip
    events = [
        {"type": "message_start", "message": start},
        begins,
        *[delta] * deltas,
        {"type": "content_block_stop", "index": 0},
        ends,
        {"type": "message_stop"},
    ]
    return [_event(event, name=event["type"]) for event in events]


_CHAT_USAGE = {"prompt_tokens": 1500, "completion_tokens": 200, "total_tokens": 1700,
               "prompt_tokens_details": {"cached_tokens": 0},
               "completion_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip


def _chat(text: str) -> dict:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {
        "id": f"chatcmpl-{_CALL_ID}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "gpt-5",
        "choices": [choice],
        "usage": _CHAT_USAGE,
    }


def _chat_stream(deltas: int) -> list[bytes]:
    head = {
        "id": f"chatcmpl-{_CALL_ID}",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": "gpt-5",
    }

    def chunk(delta: dict, finish: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice]}

    chunks = [
        chunk({"role": "assistant", "content": ""}),
        *[chunk({"content": WORD})] * deltas,
        chunk({}, "stop"),
        {**head, "choices": [], "usage": _CHAT_USAGE},
    ]
    return [*map(_event, chunks), b"data: [DONE]\n\n"]


def _responses(text: str, status: str = "completed") -> dict:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": f"msg_{_CALL_ID}", "type": "message", "status": "completed",
            "role": "assistant", "content": [part]}  # fmt: skip
    return {
        "id": f"resp_{_CALL_ID}",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5",
        "output": [item] if status == "completed" else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {"input_tokens": 1500, "input_tokens_details": {"cached_tokens": 0},
                  "output_tokens": 200, "output_tokens_details": {"reasoning_tokens": 0},
                  "total_tokens": 1700},
    }  # fmt: skip


def _responses_stream(deltas: int) -> list[bytes]:
    done = _responses(WORD * deltas)
    item = done["output"][0]
    part = item["content"][0]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    delta = {"type": "response.output_text.delta", **place, "delta": WORD, "logprobs": []}
    begun = _responses("", "in_progress")
    events: list[dict] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0,
         "item": {**item, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *[dict(delta) for _ in range(deltas)],
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]  # fmt: skip
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return [_event(event, name=event["type"]) for event in events]


_WHOLE = {
    "gemini": _gemini,
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
}
_STREAMED = {
    "gemini": _gemini_stream,
    "anthropic": _anthropic_stream,
    "openai-chat": _chat_stream,
    "openai-responses": _responses_stream,
}
