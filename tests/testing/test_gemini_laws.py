"""What the stand-in refuses, and how it says so: the body must name the field."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.standins.gemini import GeminiServer

MODEL = "gemini-3-flash-preview"
OLDER = "gemini-2.5-flash"


@pytest.fixture(scope="module")
def server() -> Iterator[GeminiServer]:
    with GeminiServer(lambda request: "Hello.") as running:
        yield running


def post(server: GeminiServer, body: object, model: str = MODEL) -> httpx2.Response:
    address = f"{server.url}/v1beta/models/{model}:generateContent"
    return httpx2.post(address, json=body, headers={"x-goog-api-key": "any"})


def text(said: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": said}]}


def called(*names: str) -> dict[str, Any]:
    first, *others = [{"functionCall": {"name": name, "args": {}}} for name in names]
    signed = {**first, "thoughtSignature": "skip_thought_signature_validator"}
    return {"role": "model", "parts": [signed, *others]}


def answered(*names: str, **more: str) -> dict[str, Any]:
    parts = [{"functionResponse": {"name": name, "response": {}, **more}} for name in names]
    return {"role": "user", "parts": parts}


def asking(*turns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"contents": list(turns) or [text("Hi")], **fields}


def declared(**fields: Any) -> list[dict[str, Any]]:
    return [{"functionDeclarations": [{"name": "look", "description": "Look.", **fields}]}]


OBJECT = {"type": "object", "properties": {"city": {"type": "string"}}}

LEGAL = {
    "text": asking(),
    "no words": asking(text("")),
    "no role is the user's": asking({"parts": [{"text": "Hi"}]}),
    "snake case": {
        "contents": [text("Hi")],
        "system_instruction": {"parts": [{"text": "Be kind."}]},
        "generation_config": {
            "max_output_tokens": 9, "thinking_config": {"include_thoughts": True}
        },
    },
    "pairs": asking(
        text("?"), called("a", "b"), answered("a", "b"), text("ok", "model"), text("?")
    ),
    "turns of one role in a row": asking(text("?"), text("and?"), text("ok", "model"), text("?")),
    "media": asking(
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "YWI="}}]}
    ),
    "tools": asking(tools=declared(parametersJsonSchema=OBJECT)),
    "tools in the other form": asking(tools=declared(parameters={"type": "OBJECT"})),
    "a tool of the provider": asking(tools=[{"googleSearch": {}}, {"urlContext": {}}]),
    "a choice": asking(
        tools=declared(),
        toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    ),
    "an enumeration in lower case": asking(
        generationConfig={"thinkingConfig": {"thinkingLevel": "low"}}
    ),
    "a schema": asking(
        generationConfig={"responseMimeType": "application/json", "responseJsonSchema": OBJECT}
    ),
    "a schema beside tools": asking(
        tools=declared(), generationConfig={"responseMimeType": "application/json"}
    ),
    "safety settings": asking(
        safetySettings=[{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}]
    ),
}  # fmt: skip

ILLEGAL: dict[str, tuple[object, str]] = {
    "an unknown field": (asking(messages=[]), 'Unknown name "messages": Cannot find field'),
    "an unknown field of a part": (
        asking({"role": "user", "parts": [{"text": "Hi", "cache": True}]}),
        "Unknown name \"cache\" at 'contents[0].parts[0]'",
    ),
    "an unknown setting": (
        asking(generationConfig={"maxTokens": 5}),
        "Unknown name \"maxTokens\" at 'generation_config'",
    ),
    "a field of the other service": (
        asking(generationConfig={"routingConfig": {}}),
        'Unknown name "routingConfig"',
    ),
    "a keyword the Schema form has not": (
        asking(tools=declared(parameters={"type": "OBJECT", "additionalProperties": False})),
        'Unknown name "additionalProperties"',
    ),
    "a definition in the Schema form": (
        asking(generationConfig={"responseMimeType": "application/json",
                                 "responseSchema": {"type": "OBJECT", "$defs": {}}}),
        'Unknown name "$defs"',
    ),
    "a word no enumeration has": (
        asking(tools=declared(), toolConfig={"functionCallingConfig": {"mode": "SOMETIMES"}}),
        "Invalid value at 'tool_config.function_calling_config.mode'",
    ),
    "a number that is text": (
        asking(generationConfig={"temperature": "hot"}),
        "Invalid value at 'generation_config.temperature'",
    ),
    "no object": ([], "Root element must be a message"),
    "no contents": ({"contents": []}, "contents is not specified"),
    "a role of somebody else": (asking(text("Hi", "assistant")), "valid role: user, model"),
    "a system turn": (asking(text("Be kind.", "system"), text("Hi")), "valid role: user, model"),
    "a model that begins": (asking(text("Hi", "model"), text("Hi")), "first turn is of the user"),
    "no parts": (asking({"role": "user", "parts": []}), "contents[0].parts: must not be empty"),
    "an empty part": (asking({"role": "user", "parts": [{}]}), "required oneof field 'data'"),
    "a part with two things": (
        asking({"role": "user", "parts": [{"text": "Hi", "fileData": {"fileUri": "gs://a"}}]}),
        "oneof field 'data' is already set",
    ),
    "a call without a result": (
        asking(text("?"), called("a"), text("And?")),
        "number of function response parts",
    ),
    "a call at the end": (asking(text("?"), called("a")), "number of function response parts"),
    "a result without a call": (
        asking(text("?"), answered("a")), "immediately after a function call turn",
    ),
    "results in another order": (
        asking(text("?"), called("a", "b"), answered("b", "a")),
        "Function response 0 is for `b`, and the call in its place is `a`",
    ),
    "a result under another id": (
        asking(text("?"), called("a"), answered("a", id="c1")), "is for `a#c1`",
    ),
    "a result without a response": (
        asking(text("?"), called("a"),
               {"role": "user", "parts": [{"functionResponse": {"name": "a"}}]}),
        "function_response.response: required field missing",
    ),
    "a call of the user": (
        asking({**called("a"), "role": "user"}), "function calls are of the model role",
    ),
    "a call without a signature": (
        asking(text("?"), {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}}]},
               answered("a")),
        "missing a thought_signature",
    ),
    "a forged signature": (
        asking(text("?"), {"role": "model", "parts": [{"text": "ok", "thoughtSignature": "YWJj"}]},
               text("?")),
        "Corrupted thought signature",
    ),
    "an empty system text": (
        asking(systemInstruction={"parts": []}), "text parts in the system instruction",
    ),
    "a tool's name": (
        asking(tools=[{"functionDeclarations": [{"name": "a b"}]}]), "Invalid function name",
    ),
    "a long name": (
        asking(tools=[{"functionDeclarations": [{"name": "a" * 129}]}]), "Invalid function name",
    ),
    "a tool twice": (
        asking(tools=[*declared(), *declared()]), "Duplicate function declaration found: look",
    ),
    "no tool": (asking(tools=[{}]), "GenerateContentRequest.tools[0]: required field"),
    "too many tools": (
        asking(tools=[{"functionDeclarations": [{"name": f"t{n}"} for n in range(513)]}]),
        "At most 512 function declarations",
    ),
    "both forms of a schema": (
        asking(tools=declared(parameters={"type": "OBJECT"}, parametersJsonSchema=OBJECT)),
        "Only one of `parameters` and `parameters_json_schema`",
    ),
    "both forms of the answer's schema": (
        asking(generationConfig={"responseMimeType": "application/json",
                                 "responseSchema": {"type": "OBJECT"},
                                 "responseJsonSchema": OBJECT}),
        "Only one of `response_schema` and `response_json_schema`",
    ),
    "a schema without its type": (
        asking(generationConfig={"responseJsonSchema": OBJECT}), "needs response_mime_type",
    ),
    "a long parameter": (
        asking(tools=declared(
            parametersJsonSchema={"type": "object", "properties": {"p" * 65: {}}})),
        "is longer than 64",
    ),
    "allowed names without ANY": (
        asking(tools=declared(), toolConfig={"functionCallingConfig": {
            "mode": "AUTO", "allowedFunctionNames": ["look"]}}),
        "without ANY mode",
    ),
    "an allowed name that is none": (
        asking(tools=declared(), toolConfig={"functionCallingConfig": {
            "mode": "ANY", "allowedFunctionNames": ["see"]}}),
        "`see` is not a declared function",
    ),
    "ANY without tools": (
        asking(toolConfig={"functionCallingConfig": {"mode": "ANY"}}),
        "without function_declarations",
    ),
    "a hot temperature": (asking(generationConfig={"temperature": 3}), "range [0, 2]"),
    "no output": (asking(generationConfig={"maxOutputTokens": 0}), "max_output_tokens must be"),
    "two candidates": (asking(generationConfig={"candidateCount": 2}), "Multiple candidates"),
    "six stops": (
        asking(generationConfig={"stopSequences": list("abcdef")}), "At most 5 stop sequences",
    ),
    "a level and a budget": (
        asking(generationConfig={"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}}),
        "only one of thinking budget and thinking level",
    ),
    "a cached content that is none": (
        asking(cachedContent="cachedContents/none"), "CachedContent not found",
    ),
}  # fmt: skip


@pytest.mark.parametrize("body", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_answered(server: GeminiServer, body: object) -> None:
    answer = post(server, body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(("body", "message"), ILLEGAL.values(), ids=ILLEGAL)
def test_what_is_not_is_refused_by_name(server: GeminiServer, body: object, message: str) -> None:
    answer = post(server, body)
    error = answer.json()["error"]
    assert message in error["message"]
    assert answer.status_code == error["code"]
    assert error["status"] in ("INVALID_ARGUMENT", "PERMISSION_DENIED")
    assert server.refusals[-1] == error["message"]


def test_what_is_no_json_is_refused(server: GeminiServer) -> None:
    address = f"{server.url}/v1beta/models/{MODEL}:generateContent"
    answer = httpx2.post(address, content=b'{"contents": [', headers={"x-goog-api-key": "any"})
    assert answer.status_code == 400
    assert "Invalid JSON payload received" in answer.json()["error"]["message"]
    assert server.requests[-1].body is None
    assert server.requests[-1].raw == b'{"contents": ['


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"tools": declared(), "generationConfig": {"responseMimeType": "application/json"}},
            "Function calling with a response mime type: 'application/json' is unsupported",
        ),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}},
            "Thinking level is not supported for this model",
        ),
    ],
)
def test_older_models_refuse_more(
    server: GeminiServer, fields: dict[str, Any], message: str
) -> None:
    assert post(server, asking(**fields)).status_code == 200
    refused = post(server, asking(**fields), OLDER)
    assert refused.status_code == 400
    assert message in refused.json()["error"]["message"]
