"""Answers that hold all a provider can say in one: thoughts, seals, its own tools, two calls."""

from tests.models.answers import chat_message, whole

MODELS = {
    "openai-chat": "openai-chat/gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-5",
    "gemini": "gemini-3-flash-preview",
}
"""A model that each dialect is spoken to."""

SEALS = ("c2VhbGVk", "c2VjcmV0", "Z2VoZWlt", "Y29kZWQ=", "b3BhcXVl")
"""What only the one who wrote it can read."""


def rich(dialect: str) -> dict:
    """Thoughts, a seal, something of the provider's own, text, and two calls at once."""
    return {
        "openai-chat": _chat,
        "openai-responses": _responses,
        "anthropic": _anthropic,
        "gemini": _gemini,
    }[dialect]()


def _chat() -> dict:
    calls = [
        {"id": id, "type": "function", "function": {"name": "lookup", "arguments": text}}
        for id, text in (("call_1", '{"key": "a"}'), ("call_2", '{"key": "b"}'))
    ]
    body = chat_message(
        content="Looking.",
        reasoning_content="They want a and b.",
        tool_calls=calls,
        annotations=[
            {
                "type": "url_citation",
                "url_citation": {"url": "https://a.example", "title": "A",
                                 "start_index": 0, "end_index": 3},
            }
        ],
    )  # fmt: skip
    body["choices"][0]["finish_reason"] = "tool_calls"
    return body


def _responses() -> dict:
    calls = [
        {"type": "function_call", "id": f"fc_{id}", "call_id": f"call_{id}", "name": "lookup",
         "arguments": f'{{"key": "{key}"}}', "status": "completed"}
        for id, key in (("1", "a"), ("2", "b"))
    ]  # fmt: skip
    reasoning = {
        "type": "reasoning", "id": "rs_1", "encrypted_content": "c2VhbGVk",
        "summary": [{"type": "summary_text", "text": "They want a and b."}],
    }  # fmt: skip
    search = {
        "type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": {"type": "search", "query": "a and b"},
    }  # fmt: skip
    body = whole("openai-responses", "Looking.")
    body["output"][0]["id"] = "msg_1"  # no two items of a conversation have one id
    body["output"] = [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VjcmV0"},
        reasoning,
        search,
        *body["output"],
        *calls,
    ]
    return body


def _anthropic() -> dict:
    body = whole("anthropic")
    body["stop_reason"] = "tool_use"
    body["content"] = [
        {"type": "thinking", "thinking": "They want a and b.", "signature": "Z2VoZWlt"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
         "input": {"query": "a"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "url": "https://a.example", "title": "A",
             "encrypted_content": "c2VhbGVk", "page_age": None}]},
        {"type": "text", "text": "Looking.", "citations": [
            {"type": "web_search_result_location", "url": "https://a.example", "title": "A",
             "encrypted_index": "c2VjcmV0", "cited_text": "A is"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"key": "a"}},
        {"type": "tool_use", "id": "toolu_2", "name": "lookup", "input": {"key": "b"}},
    ]  # fmt: skip
    return body


def _gemini() -> dict:
    body = whole("gemini")
    body["candidates"][0]["content"]["parts"] = [
        {"text": "They want a and b.", "thought": True},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"text": "Looking.", "thoughtSignature": "Y29kZWQ="},
        {"functionCall": {"name": "lookup", "args": {"key": "a"}}, "thoughtSignature": "Z2VoZWlt"},
        {"functionCall": {"name": "lookup", "args": {"key": "b"}}},
    ]
    return body
