"""Requests that providers refuse are told before they are sent, and others are not."""

from copy import deepcopy

import pytest

from tests.dialects.requests import REQUESTS
from weft import Agent, compile
from weft.models.check_request import check_request
from weft.values import Json, JsonObject

_TOOL: JsonObject = {"name": "weather", "input_schema": {"type": "object", "properties": {}}}
_USER: JsonObject = {"role": "user", "content": "Hi."}
_BLOCK: JsonObject = {"type": "text", "text": "Hi."}


def _claude(model: str = "claude-sonnet-4-5", **fields: Json) -> JsonObject:
    return {"model": model, "max_tokens": 4096, "messages": [_USER], **fields}


def _thinks(budget: int = 2048, **fields: Json) -> JsonObject:
    return _claude(thinking={"type": "enabled", "budget_tokens": budget}, **fields)


def _image(kind: str, data: str) -> JsonObject:
    source: JsonObject = {"type": "base64", "media_type": kind, "data": data}
    return {"role": "user", "content": [{"type": "image", "source": source}]}


def _called(*results: str) -> list[Json]:
    call: JsonObject = {"type": "tool_use", "id": "a", "name": "weather", "input": {}}
    given: list[Json] = [
        {"type": "tool_result", "tool_use_id": each, "content": "1"} for each in results
    ]
    return [_USER, {"role": "assistant", "content": [call]}, {"role": "user", "content": given}]


def _marked(*ttls: str) -> JsonObject:
    blocks: list[Json] = [
        {**_BLOCK, "cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in ttls
    ]
    return _claude(messages=[{"role": "user", "content": blocks}])


_OPEN: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
_CLOSED: JsonObject = {**_OPEN, "required": ["a"], "additionalProperties": False}

_LATE: JsonObject = {"role": "system", "content": "Be short."}

ANTHROPIC: list[tuple[str, JsonObject]] = [
    ("/output_config/effort", _claude("claude-opus-4-6", output_config={"effort": "xhigh"})),
    ("/output_config/effort", _claude(output_config={"effort": "low"})),
    ("/temperature", _claude(temperature=1.5)),
    ("/temperature", _claude("claude-opus-4-8", temperature=0.2)),
    ("/top_p", _claude(temperature=0.2, top_p=0.5)),
    ("/stop_sequences/0", _claude(stop_sequences=[" "])),
    ("/thinking/budget_tokens", _thinks(512)),
    ("/thinking/budget_tokens", _thinks(4096)),
    ("/temperature", _thinks(temperature=0.5)),
    ("/top_p", _thinks(top_p=0.5)),
    ("/tool_choice", _thinks(tools=[_TOOL], tool_choice={"type": "any"})),
    ("/thinking", _claude("claude-3-5-haiku-latest", thinking={"type": "enabled"})),
    ("/thinking", _claude(thinking={"type": "adaptive"})),
    ("/thinking", _claude("claude-opus-5-5", thinking={"type": "disabled"})),
    ("/thinking", _claude("claude-sonnet-5-5", thinking={"type": "disabled"})),
    ("/output_config/effort", _claude(
        "claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "max"})),
    ("/thinking", _claude("claude-opus-5", thinking={"type": "enabled", "budget_tokens": 2000})),
    ("/max_tokens", _claude("claude-3-opus-latest", max_tokens=8000)),
    ("/max_tokens", _claude(max_tokens=100_000)),
    ("/tools/1/name", _claude(tools=[_TOOL, _TOOL])),
    ("/tools/0/name", _claude(tools=[{**_TOOL, "name": "the weather"}])),
    ("/tools/0/input_schema", _claude(tools=[{**_TOOL, "input_schema": {"type": "array"}}])),
    ("/tools", _claude(tools=[{**_TOOL, "name": f"t{n}", "strict": True, "input_schema": _CLOSED}
                              for n in range(21)])),
    ("/tools/0/input_schema", _claude(tools=[{**_TOOL, "strict": True, "input_schema": _OPEN}])),
    ("/tools", _claude(tools=[{**_TOOL, "defer_loading": True}])),
    ("/tool_choice", _claude(tool_choice={"type": "auto"})),
    ("/tool_choice/name", _claude(tools=[_TOOL], tool_choice={"type": "tool", "name": "x"})),
    ("/tool_choice", _claude("claude-opus-5-5", tools=[_TOOL], tool_choice={"type": "any"})),
    ("/output_config/format", _claude(
        "claude-sonnet-4-0",
        output_config={"format": {"type": "json_schema", "schema": _CLOSED}})),
    ("/output_config/format/schema", _claude(
        output_config={"format": {"type": "json_schema", "schema": _OPEN}})),
    ("/messages", _claude(messages=[])),
    ("/messages/0/role", _claude(messages=[{"role": "tool", "content": "Hi."}])),
    ("/messages/1/role", _claude(messages=[_USER, {"role": "system", "content": "Hi."}])),
    ("/messages/1", _claude("claude-opus-4-8", messages=[_USER, _LATE, _USER])),
    ("/messages/2", _claude("claude-opus-4-8", messages=[
        _USER, {"role": "assistant", "content": "Hi."}, _LATE, _LATE])),
    ("/messages/0/content", _claude(messages=[{"role": "user", "content": " "}])),
    ("/messages/0/content", _claude(messages=[{"role": "user", "content": []}])),
    ("/messages/0/content/0/text", _claude(
        messages=[{"role": "user", "content": [{"type": "text", "text": ""}, _BLOCK]}])),
    ("/messages/1/content/0", _claude(messages=_called())),
    ("/messages/2/content/1", _claude(messages=_called("a", "b"))),
    ("/messages/1", _claude("claude-opus-4-6", messages=[
        _USER, {"role": "assistant", "content": "It"}])),
    ("/messages/1/content", _claude(messages=[_USER, {"role": "assistant", "content": "It "}])),
    ("/messages/0/content/4/cache_control", _marked(*5 * ["5m"])),
    ("/messages/0/content/1/cache_control", _marked("5m", "1h")),
    ("/messages/0/content/0/source/media_type", _claude(messages=[_image("image/bmp", "Qk0=")])),
    ("/messages/0/content/0/source/media_type", _claude(
        messages=[_image("image/jpeg", "iVBORw0KGgoAAAAN")])),
    ("/messages/0/content/0", _claude(messages=[{"role": "user", "content": [
        {"type": "input_audio", "input_audio": {}}]}])),
]  # fmt: skip


def _gemini(*contents: Json, **fields: Json) -> JsonObject:
    asked: list[Json] = [{"role": "user", "parts": [{"text": "Hi."}]}]
    return {"contents": [*(contents or asked)], **fields}


def _config(**config: Json) -> JsonObject:
    return _gemini(generationConfig=config)


_DECLARED: JsonObject = {"functionDeclarations": [{"name": "weather"}]}
_ASKED: JsonObject = {"role": "user", "parts": [{"text": "Hi."}]}
_CALLS: JsonObject = {"role": "model", "parts": [{"functionCall": {"name": "weather"}}]}
_RESULT: JsonObject = {"functionResponse": {"name": "weather", "response": {}}}
_GIVES: JsonObject = {"role": "user", "parts": [_RESULT]}
_THINKING = "/generationConfig/thinkingConfig"


def _shows(kind: str) -> JsonObject:
    media: list[Json] = [{"inlineData": {"mimeType": kind, "data": "AAAA"}}]
    given: JsonObject = {"name": "weather", "response": {}, "parts": media}
    return _gemini(_ASKED, _CALLS, {"role": "user", "parts": [{"functionResponse": given}]})


GEMINI: list[tuple[str, str, JsonObject]] = [
    ("gemini-2.5-flash", "/generationConfig/temperature", _config(temperature=3)),
    ("gemini-2.5-flash", "/generationConfig/maxOutputTokens", _config(maxOutputTokens=70_000)),
    ("gemini-2.5-flash", "/generationConfig/stopSequences", _config(stopSequences=list("abcdef"))),
    ("gemini-2.5-pro", f"{_THINKING}/thinkingBudget", _config(
        thinkingConfig={"thinkingBudget": 0})),
    ("gemini-2.5-flash", f"{_THINKING}/thinkingLevel", _config(
        thinkingConfig={"thinkingLevel": "low"})),
    ("gemini-3-pro-preview", f"{_THINKING}/thinkingLevel", _config(
        thinking_config={"thinking_level": "MINIMAL"})),
    ("gemini-3-pro-preview", _THINKING, _config(
        thinkingConfig={"thinkingLevel": "low", "thinkingBudget": 200})),
    ("gemini-2.0-flash", _THINKING, _config(thinkingConfig={"thinkingBudget": 1024})),
    ("gemini-2.5-flash", "/tools", _gemini(tools=[_DECLARED, {"googleSearch": {}}])),
    ("gemini-3-flash", "/toolConfig", _gemini(tools=[_DECLARED, {"googleSearch": {}}])),
    ("gemini-2.5-flash", "/generationConfig/responseMimeType", {
        **_config(responseMimeType="application/json"), "tools": [_DECLARED]}),
    ("gemini-2.5-flash", "/generationConfig/responseJsonSchema", _config(
        responseJsonSchema=_CLOSED)),
    ("gemini-2.5-flash", "/generationConfig/responseSchema", _config(
        responseMimeType="application/json", responseJsonSchema=_CLOSED, responseSchema=_OPEN)),
    ("gemini-2.5-flash", "/tools/0/functionDeclarations/0/name", _gemini(
        tools=[{"functionDeclarations": [{"name": "the weather"}]}])),
    ("gemini-2.5-flash", "/tools/0/functionDeclarations/1/name", _gemini(
        tools=[{"functionDeclarations": [{"name": "a"}, {"name": "a"}]}])),
    ("gemini-2.5-flash", "/tools/0/functionDeclarations/0", _gemini(
        tools=[{"functionDeclarations": [
            {"name": "a", "parameters": _OPEN, "parametersJsonSchema": _OPEN}]}])),
    ("gemini-2.5-flash", "/tools/0", _gemini(tools=[{"googleSearchRetrieval": {}}])),
    ("gemini-2.5-flash", "/toolConfig/functionCallingConfig/allowedFunctionNames", _gemini(
        tools=[_DECLARED], toolConfig={"functionCallingConfig": {
            "mode": "ANY", "allowedFunctionNames": ["x"]}})),
    ("gemini-2.5-flash", "/toolConfig/functionCallingConfig", _gemini(
        tools=[_DECLARED], toolConfig={"functionCallingConfig": {
            "mode": "AUTO", "allowedFunctionNames": ["weather"]}})),
    ("gemini-2.5-flash", "/generationConfig/responseModalities", _config(
        responseModalities=["IMAGE"])),
    ("gemini-2.5-flash-image", "/tools", _gemini(tools=[_DECLARED])),
    ("gemma-3-27b-it", "/systemInstruction", _gemini(systemInstruction={"parts": []} | _ASKED)),
    ("gemini-2.5-flash", "/tools", _gemini(tools=[_DECLARED], cachedContent="cachedContents/1")),
    ("gemini-2.5-flash", "/contents", {"contents": []}),
    ("gemini-2.5-flash", "/contents/0/role", _gemini({**_ASKED, "role": "system"})),
    ("gemini-2.5-flash", "/contents/0/parts", _gemini({"role": "user", "parts": []})),
    ("gemini-2.5-flash", "/contents/0/parts/0", _gemini({"role": "user", "parts": [{}]})),
    ("gemini-2.5-flash", "/contents/0/parts/0/inlineData/mimeType", _gemini(
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/gif", "data": "AA"}}]})),
    ("gemini-2.5-flash", "/contents/2/parts/0/functionResponse/parts", _shows("image/png")),
    ("gemini-3-flash", "/contents/2/parts/0/functionResponse/parts/0", _shows("audio/mpeg")),
    ("gemini-2.5-flash", "/contents/1", _gemini(_ASKED, _CALLS, _ASKED)),
    ("gemini-2.5-flash", "/contents/2", _gemini(
        _ASKED, {"role": "model", "parts": [{"text": "So:"}]}, _CALLS, _GIVES)),
    ("gemini-2.5-flash", "/contents/0", _gemini(_GIVES)),
    ("gemini-3-flash", "/contents/1/parts/0", _gemini(_ASKED, _CALLS, _GIVES)),
]  # fmt: skip


def _chat(model: str = "gpt-4o", **fields: Json) -> JsonObject:
    return {"model": model, "messages": [_USER], **fields}


def _function(strict: bool | None = None, **fields: Json) -> JsonObject:
    held: JsonObject = {"name": "weather", "parameters": _OPEN, "strict": strict, **fields}
    return {"type": "function", "function": held}


def _with(part: JsonObject, role: str = "user") -> list[Json]:
    return [{"role": role, "content": [part], "tool_call_id": "x"}]


_CHAT_CALL: JsonObject = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    ],
}
_SOUND: JsonObject = {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}
_PARAMETERS = "/tools/0/function/parameters"

OPENAI_CHAT: list[tuple[str, JsonObject]] = [
    ("/messages/0/content/0", _chat("gpt-5-mini", messages=_with(_SOUND))),
    ("/messages/0/content/0", _chat(messages=_with({"type": "video_url"}))),
    ("/messages/0/content/0", _chat(messages=_with({"type": "image_url"}, "assistant"))),
    ("/messages/0/content/0/image_url/url", _chat(messages=_with(
        {"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AA"}}))),
    ("/messages/0/content/0/file/file_data", _chat(messages=_with(
        {"type": "file", "file": {"file_data": "data:audio/mpeg;base64,AA"}}))),
    ("/temperature", _chat("o3-mini", temperature=0.5)),
    ("/temperature", _chat("gpt-5-mini", temperature=0.5)),
    ("/temperature", _chat("gpt-5.2", temperature=0.5, reasoning_effort="low")),
    ("/logprobs", _chat("gpt-5", logprobs=True)),
    ("/presence_penalty", _chat("o3", presence_penalty=1)),
    ("/stop", _chat("gpt-5", stop=["a"])),
    ("/temperature", _chat(temperature=2.5)),
    ("/n", _chat(n=0)),
    ("/top_logprobs", _chat(top_logprobs=3)),
    ("/stop", _chat(stop=list("abcde"))),
    ("/max_tokens", _chat("gpt-5", max_tokens=50)),
    ("/reasoning_effort", _chat(reasoning_effort="low")),
    ("/reasoning_effort", _chat("gpt-5", reasoning_effort="none")),
    ("/reasoning_effort", _chat("gpt-5.4", reasoning_effort="low", tools=[_function()])),
    ("/reasoning_effort", _chat("gpt-5.6-sol", tools=[_function()])),
    ("/reasoning_effort", _chat("gpt-5.6-sol", reasoning_effort="minimal")),
    ("/verbosity", _chat(verbosity="low")),
    ("/web_search_options", _chat(web_search_options={"search_context_size": "low"})),
    ("/stream_options", _chat(stream_options={"include_usage": True})),
    ("/tool_choice", _chat(tool_choice="auto")),
    ("/tool_choice/function/name", _chat(
        tools=[_function()], tool_choice={"type": "function", "function": {"name": "x"}})),
    ("/tools", _chat(tools=[_function(name=f"t{n}") for n in range(129)])),
    ("/tools/0/function/name", _chat(tools=[_function(name="the weather")])),
    (_PARAMETERS, _chat(tools=[_function(parameters={"type": "string"})])),
    (f"{_PARAMETERS}/properties/a", _chat(tools=[_function(parameters={
        "type": "object", "properties": {"a": {"type": "array"}}})])),
    (_PARAMETERS, _chat(tools=[_function(strict=True)])),
    (f"{_PARAMETERS}/properties/a/oneOf", _chat(tools=[_function(strict=True, parameters={
        **_CLOSED, "properties": {"a": {"oneOf": [{"type": "string"}]}}})])),
    ("/tools", _chat("o1-mini", tools=[_function()])),
    ("/messages/0/role", _chat("o1-mini", messages=[{"role": "system", "content": "a"}, _USER])),
    ("/response_format/json_schema", _chat("gpt-4-turbo", response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": _CLOSED}})),
    ("/response_format/json_schema/name", _chat(response_format={
        "type": "json_schema", "json_schema": {"name": "a b", "schema": _CLOSED}})),
    ("/response_format", _chat(response_format={"type": "json_object"})),
    ("/messages", _chat(messages=[])),
    ("/messages/0/role", _chat(messages=[{"role": "model", "content": "Hi."}])),
    ("/messages/0/content", _chat(messages=[{"role": "user", "content": None}])),
    ("/messages/0/content", _chat(messages=[{"role": "user", "content": []}])),
    ("/messages/1/tool_calls/0", _chat(messages=[_USER, _CHAT_CALL, _USER])),
    ("/messages/1", _chat(messages=[_USER, {
        "role": "tool", "tool_call_id": "a", "content": "1"}])),
]  # fmt: skip


def _new(model: str = "gpt-5", **fields: Json) -> JsonObject:
    return {"model": model, "input": [_USER], **fields}


_ITEM: JsonObject = {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"}
_REASONS: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
_SEARCH: JsonObject = {"type": "web_search"}

OPENAI_RESPONSES: list[tuple[str, JsonObject]] = [
    ("/input/0/content/0/file_data", _new(input=_with(
        {"type": "input_file", "file_data": "data:audio/mpeg;base64,AA", "filename": "a.mp3"}))),
    ("/input/0/content/0/file_url", _new(input=_with(
        {"type": "input_file", "file_url": "https://a.example/a.mp4?x=1"}))),
    ("/input/1/output/0/file_data", _new(input=[_ITEM, {
        "type": "function_call_output", "call_id": "a", "output": [
            {"type": "input_file", "file_data": "data:video/mp4;base64,AA"}]}])),
    ("/input/0/content/0/image_url", _new(input=_with(
        {"type": "input_image", "image_url": "data:image/tiff;base64,AA"}))),
    ("/input/0/content/0", _new(input=_with(_SOUND))),
    ("/input/0/content/0", _new(input=_with({"type": "input_text", "text": "a"}, "assistant"))),
    ("/temperature", _new(temperature=0.5)),
    ("/top_logprobs", _new(top_logprobs=2)),
    ("/temperature", _new("gpt-5.5", temperature=0.5)),
    ("/max_output_tokens", _new(max_output_tokens=5)),
    ("/reasoning/effort", _new("gpt-4o", reasoning={"effort": "low"})),
    ("/reasoning/effort", _new(reasoning={"effort": "xhigh"})),
    ("/reasoning/context", _new(reasoning={"context": "all_turns"})),
    ("/include", _new("gpt-4o", include=["reasoning.encrypted_content"])),
    ("/text/verbosity", _new("gpt-4o", text={"verbosity": "low"})),
    ("/background", _new(background=True, store=False)),
    ("/conversation", _new(previous_response_id="a", conversation="b")),
    ("/tools/0", _new(tools=[_SEARCH], reasoning={"effort": "minimal"})),
    ("/tools/0", _new("gpt-4o", tools=[{"type": "tool_search"}])),
    ("/truncation", _new("computer-use-preview", tools=[{"type": "computer_use_preview"}])),
    ("/tool_choice/name", _new(tools=[_SEARCH], tool_choice={"type": "function", "name": "x"})),
    ("/tool_choice", _new(tool_choice="required")),
    ("/text/format/schema", _new(text={"format": {
        "type": "json_schema", "name": "a", "schema": _OPEN, "strict": True}})),
    ("/text/format", _new(text={"format": {"type": "json_object"}})),
    ("/input", _new(input=[])),
    ("/input/0/role", _new(input=[{"role": "model", "content": "Hi."}])),
    ("/input/1", _new(input=[_USER, _ITEM])),
    ("/input/1", _new(input=[_USER, {
        "type": "function_call_output", "call_id": "a", "output": "1"}])),
    ("/input/1", _new(input=[_USER, _REASONS, _USER])),
    ("/input/2/id", _new(input=[_USER, _REASONS, _REASONS, _ITEM, {
        "type": "function_call_output", "call_id": "a", "output": "1"}])),
]  # fmt: skip

REFUSED = (
    [("anthropic", "", *case) for case in ANTHROPIC]
    + [("gemini", *case) for case in GEMINI]
    + [("openai-chat", "", *case) for case in OPENAI_CHAT]
    + [("openai-responses", "", *case) for case in OPENAI_RESPONSES]
)


@pytest.mark.parametrize(("dialect", "model", "pointer", "wire"), REFUSED)
def test_what_a_provider_refuses_is_told_with_its_place(
    dialect: str, model: str, pointer: str, wire: JsonObject
) -> None:
    before = deepcopy(wire)
    found = check_request(dialect, wire, model)
    assert pointer in {each.origin.name for each in found}, [str(each) for each in found]
    assert all(each.hint for each in found)
    assert wire == before


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("anthropic", "a text"),
        ("anthropic", "system blocks with a mark"),
        ("anthropic", "a thinking budget"),
        ("anthropic", "thinking that is shown"),
        ("anthropic", "a forced tool"),
        ("anthropic", "a count"),
        ("anthropic", "a schema for the answer"),
        ("anthropic", "a result of several parts"),
        ("anthropic", "documents of all kinds"),
        ("anthropic", "server tools in an answer"),
        ("anthropic", "a system text in mid-conversation"),
        ("anthropic", "words put in its mouth"),
        ("gemini", "a text"),
        ("gemini", "a cached prefix"),
        ("gemini", "a forced tool"),
        ("gemini", "a schema for the answer"),
        ("openai-chat", "a text"),
        ("openai-chat", "an effort"),
        ("openai-chat", "two system texts"),
        ("openai-chat", "a forced tool"),
        ("openai-chat", "a schema for the answer"),
        ("openai-responses", "a string for input"),
        ("openai-responses", "nothing stored"),
        ("openai-responses", "going on"),
        ("openai-responses", "a schema for the answer"),
        ("openai-responses", "answers in plain words"),
    ],
)
def test_what_a_provider_takes_raises_no_alarm(dialect: str, name: str) -> None:
    assert check_request(dialect, REQUESTS[dialect][name], "gemini-2.5-flash") == ()


_FREE: JsonObject = {"type": "array"}
_LONG: JsonObject = {**_CLOSED, "properties": {"a": {"type": "string", "minLength": 1}}}
_SERVED: JsonObject = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
_GROUP: JsonObject = {"type": "namespace", "name": "shop", "tools": []}

LEGAL: list[tuple[str, str, JsonObject]] = [
    ("anthropic", "", _claude("claude-mythos-preview", thinking={"type": "adaptive"},
                              output_config={"effort": "max"}, temperature=0.2)),
    ("anthropic", "", _claude("claude-opus-4-8", thinking={"type": "disabled"},
                              output_config={"effort": "max"})),
    ("anthropic", "", _claude("claude-sonnet-5-5", thinking={"type": "between_tools"})),
    ("anthropic", "", _claude("claude-sonnet-5", tools=[_TOOL], tool_choice={"type": "any"},
                              thinking={"type": "adaptive"})),
    ("anthropic", "", _thinks(8000, tools=[_TOOL])),
    ("anthropic", "", _claude("claude-opus-4-1", max_tokens=32_000, output_config={
        "format": {"type": "json_schema", "schema": _CLOSED}})),
    ("anthropic", "", _claude("claude-opus-4-8", messages=[
        _USER, {"role": "assistant", "content": [_SERVED, _BLOCK]}])),
    ("anthropic", "", _claude("claude-opus-4-8", messages=[
        _USER, _LATE, _LATE, {"role": "assistant", "content": "Hi."}, _USER, _USER, _LATE, _LATE])),
    ("gemini", "gemini-2.5-flash", _gemini(
        _ASKED, _CALLS, _CALLS, {"role": "user", "parts": [_RESULT, _RESULT]})),
    ("gemini", "gemma-4-31b-it", _gemini(tools=[_DECLARED], systemInstruction=_ASKED)),
    ("gemini", "gemini-3-pro-preview", _config(thinkingConfig={"thinkingLevel": "MEDIUM"})),
    ("gemini", "gemini-flash-latest", _config(thinkingConfig={"thinkingLevel": "minimal"})),
    ("gemini", "gemini-2.5-computer-use-preview-10-2025", _gemini(
        tools=[_DECLARED, {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}])),
    ("gemini", "gemini-2.5-flash", _gemini(tools=[{"functionDeclarations": [
        {"name": "a", "parametersJsonSchema": {"$ref": "#/$defs/A", "$defs": {"A": _OPEN}}}]}])),
    ("gemini", "gemini-2.5-flash", _gemini({"role": "user", "parts": [
        {"inlineData": {"mimeType": "image/heic", "data": "AA"}}]})),
    ("openai-chat", "", _chat("gpt-5.2", temperature=0.5)),
    ("openai-chat", "", _chat("gpt-5.6-sol", temperature=0.5, reasoning_effort="none",
                              tools=[_function()])),
    ("openai-chat", "", _chat("gpt-5.2", tools=[_function()])),
    ("openai-chat", "", _chat("gpt-5-search-api", max_tokens=50)),
    ("openai-chat", "", _chat("gpt-4.1", tool_choice="none")),
    ("openai-chat", "", _chat(prompt_cache_options={"mode": "explicit"})),
    ("openai-chat", "", _chat(tools=[_function(strict=True, parameters=_LONG)])),
    ("openai-chat", "", _chat(response_format={"type": "json_schema", "json_schema": {
        "name": "a", "schema": {"type": "object", "properties": {"a": _FREE}}}})),
    ("openai-chat", "", _chat(messages=_with(
        {"type": "file", "file": {"file_data": "data:text/plain;base64,AA", "filename": "a"}}))),
    ("openai-chat", "", _chat("llama-4", temperature=3, stop=list("abcdef"), tools=[
        _function(name="a b", parameters={"type": "object", "properties": {"a": _FREE}})])),
    ("openai-responses", "", _new("gpt-5", reasoning={"context": "current_turn"})),
    ("openai-responses", "", _new("gpt-5.1-chat-latest",
                                  include=["reasoning.encrypted_content"])),
    ("openai-responses", "", _new("ft:o4-mini:me", reasoning={"effort": "high"})),
    ("openai-responses", "", _new("gpt-6-astra", reasoning={"effort": "max"})),
    ("openai-responses", "", _new("gpt-5.4", tools=[_GROUP], tool_choice={
        "type": "function", "name": "pay"})),
    ("openai-responses", "", _new(previous_response_id="resp_1", text={
        "format": {"type": "json_object"}})),
    ("openai-responses", "", _new(input=[_USER, {"type": "reasoning", "summary": [],
                                                 "encrypted_content": "x"}, _USER])),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "model", "wire"), LEGAL)
def test_what_a_provider_may_take_raises_no_alarm(
    dialect: str, model: str, wire: JsonObject
) -> None:
    assert check_request(dialect, wire, model) == ()


def test_a_model_that_nobody_knows_gets_the_benefit_of_the_doubt() -> None:
    wire = _chat("my-own-model", temperature=0.5, reasoning_effort="extreme", max_tokens=9)
    assert check_request("openai-chat", wire) == ()


def test_whoever_compiles_such_a_request_is_told_where_it_was_written() -> None:
    agent = Agent(
        "planner",
        model="claude-sonnet-4-5",
        instruction="Plan.",
        generate_config={"thinking": {"budget": 4096}, "max_output_tokens": 2048},
    )
    found = [str(each) for each in compile(agent, message="Plan my day.").diagnostics]
    assert found == [
        "planner.generate_config: warning[WEFT702] the budget of 4096 is not below max_tokens,"
        " 2048\n  hint: raise max_output_tokens above it"
    ]


def test_an_agent_may_allow_what_is_told() -> None:
    agent = Agent(
        "planner",
        model="gpt-4.1",
        instruction="Plan.",
        generate_config={"max_output_tokens": 4},
        allow=("WEFT702",),
    )
    assert compile(agent, message="Plan my day.").diagnostics == ()
