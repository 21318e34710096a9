"""What the engine is asked for weights whose template drops tools, and how its answer is read."""

from weft.dialects.wire import objects_in
from weft.models.local.model import bound_schema, call_schema, request_for
from weft.values import JsonObject

WEATHER: JsonObject = {
    "name": "get_weather",
    "description": "Weather for a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
TOOLS: JsonObject = {"tools": [{"type": "function", "function": WEATHER}]}
ASKED: JsonObject = {"role": "user", "content": "Rain in Oslo?"}
CALLED: JsonObject = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
        }
    ],
}
RETURNED: JsonObject = {"role": "tool", "tool_call_id": "c1", "content": '{"sky":"rain"}'}


def asked(*messages: JsonObject, **more: object) -> JsonObject:
    wire: JsonObject = {"model": "local", "messages": list(messages), **TOOLS, **more}  # type: ignore[dict-item]
    return request_for(wire, takes_tools=False, limit=50).body


def answer(text: str) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": text}
    choice: JsonObject = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "chatcmpl-abc", "choices": [choice]}


def test_tools_stand_in_the_system_text_and_never_move() -> None:
    first = objects_in(asked(ASKED, tool_choice="none")["messages"])
    later = objects_in(asked(ASKED, CALLED, RETURNED, tool_choice="none")["messages"])
    assert first == later[: len(first)]
    assert first[0] == {
        "role": "system",
        "content": "Tools:\nget_weather(city): Weather for a city.",
    }


def test_a_call_stands_in_the_history_as_it_was_made() -> None:
    turns = objects_in(asked(ASKED, CALLED, RETURNED)["messages"])
    assert turns[2]["content"] == '{"name":"get_weather","arguments":{"city":"Oslo"}}'
    assert turns[3]["role"] == "user"
    assert str(turns[3]["content"]).startswith("get_weather returned: sky: rain\n")


def test_it_is_greedy_and_bounded_unless_the_request_says_otherwise() -> None:
    body = asked(ASKED)
    assert (body["temperature"], body["max_tokens"]) == (0, 50)
    warm = asked(ASKED, temperature=0.7, max_tokens=9)
    assert (warm["temperature"], warm["max_tokens"]) == (0.7, 9)


def test_a_chosen_tool_is_the_only_one_the_grammar_allows() -> None:
    chosen = {"type": "function", "function": {"name": "get_weather"}}
    held = str(asked(ASKED, tool_choice=chosen)["grammar"])
    assert '"const":"get_weather"' in held
    assert "reply" not in held
    assert "reply" in str(asked(ASKED)["grammar"])
    assert "reply" not in str(asked(ASKED, tool_choice="required")["grammar"])


def test_a_call_in_the_text_becomes_a_call() -> None:
    wire: JsonObject = {"messages": [ASKED], **TOOLS}
    for takes_tools, text in (
        (False, '{"name":"get_weather","arguments":{"city":"Oslo"}}'),
        (True, '```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```'),
    ):
        request = request_for(wire, takes_tools=takes_tools, limit=50)
        assert not request.shows(text)
        (choice,) = objects_in(request.read(answer(text))["choices"])
        assert choice["finish_reason"] == "tool_calls"
        message = choice["message"]
        assert isinstance(message, dict)
        (call,) = objects_in(message["tool_calls"])
        assert call["function"] == {"name": "get_weather", "arguments": '{"city":"Oslo"}'}


def test_json_that_calls_no_tool_stays_text() -> None:
    request = request_for({"messages": [ASKED], **TOOLS}, takes_tools=True, limit=50)
    for text in ('{"name":"rm","arguments":{}}', '{"a":1}', "It rains."):
        assert request.read(answer(text)) == answer(text)


def test_a_reply_where_a_call_could_stand_is_text() -> None:
    request = request_for({"messages": [ASKED], **TOOLS}, takes_tools=False, limit=50)
    (choice,) = objects_in(request.read(answer('{"reply":"Hello."}'))["choices"])
    message = choice["message"]
    assert isinstance(message, dict)
    assert message["content"] == "Hello."


def test_every_text_has_an_end() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "note": {"type": "string", "description": "Such as A1001."},
            "tags": {"type": "array", "items": {"type": "string"}},
            "kind": {"type": "string", "enum": ["a", "b"]},
        },
    }
    held = bound_schema(schema)
    assert isinstance(held, dict)
    properties = held["properties"]
    assert isinstance(properties, dict)
    assert properties["note"] == {"type": "string", "maxLength": 400}
    assert properties["tags"] == {
        "type": "array",
        "items": {"type": "string", "maxLength": 400},
        "maxItems": 8,
    }
    assert properties["kind"] == {"type": "string", "enum": ["a", "b"]}


def test_a_call_is_held_to_the_schema_of_its_tool() -> None:
    assert call_schema(WEATHER) == {
        "type": "object",
        "properties": {
            "name": {"const": "get_weather"},
            "arguments": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 400}},
                "additionalProperties": False,
            },
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def test_a_result_is_told_in_one_sentence() -> None:
    told = str(asked(ASKED, CALLED, RETURNED, tool_choice="none")["grammar"])
    assert told.startswith("root ::= [A-Z]")
    assert told != asked(ASKED, tool_choice="none")["grammar"]


def test_plain_text_is_kept_from_repeating_itself_and_nothing_else_is() -> None:
    wire: JsonObject = {"model": "local", "messages": [ASKED]}
    for takes_tools in (False, True):
        body = request_for(wire, takes_tools=takes_tools, limit=50).body
        assert body["max_tokens"] == 50
        assert body["repeat_penalty"] == 1.1
        own: JsonObject = {**wire, "repeat_penalty": 1.0}
        assert request_for(own, takes_tools=takes_tools, limit=50).body["repeat_penalty"] == 1.0
        for held in (TOOLS, {"response_format": {"type": "json_object"}}):
            body = request_for({**wire, **held}, takes_tools=takes_tools, limit=50).body  # type: ignore[dict-item]
            assert "repeat_penalty" not in body
    assert "repeat_penalty" not in asked(ASKED, CALLED, RETURNED, tool_choice="none")
    assert asked(ASKED, tool_choice="none")["repeat_penalty"] == 1.1
