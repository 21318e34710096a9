"""Gemini generateContent: what only it asks for."""

import pytest

from tests.dialects.prompts import OPAQUE, SIGNATURE, Scene, body, bot_with, compiled, said
from weft.values import Json

NAME = "gemini"


def test_the_model_is_not_in_the_body() -> None:
    assert body("plain text", NAME) == {
        "systemInstruction": {"parts": [{"text": "You are bot.\n\nBe brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    }
    held = compiled("plain text", NAME)
    assert str(held.origin("/systemInstruction/parts/0/text", 16)) == "bot.instruction:0"


def test_parallel_calls_are_answered_in_one_content() -> None:
    assert body("parallel calls", NAME)["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Looking."},
                {
                    "functionCall": {"name": "lookup", "args": {"key": "a"}, "id": "c1"},
                    "thoughtSignature": "skip_thought_signature_validator",
                },
                {"functionCall": {"name": "ping", "args": {}, "id": "c2"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "lookup", "response": {"result": "1"}, "id": "c1"}},
                {"functionResponse": {"name": "ping", "response": {"output": "pong"}, "id": "c2"}},
            ],
        },
    ]


def test_an_id_nobody_gave_is_not_sent() -> None:
    contents = body("call without an id", NAME)["contents"]
    assert "id" not in contents[1]["parts"][0]["functionCall"]
    assert "id" not in contents[2]["parts"][0]["functionResponse"]


def test_a_tool_without_parameters_has_no_schema() -> None:
    tools = body("tool loop", NAME)["tools"][0]["functionDeclarations"]
    assert tools[1] == {"name": "ping", "description": "Answer."}
    assert tools[0]["parametersJsonSchema"]["required"] == ["key"]


def test_signatures_return_in_their_own_parts() -> None:
    parts = body("thought signed by gemini", NAME)["contents"][1]["parts"]
    assert parts == [
        {"text": "Let me look.", "thought": True, "thoughtSignature": SIGNATURE},
        {
            "functionCall": {"name": "lookup", "args": {"key": "a"}, "id": "c1"},
            "thoughtSignature": SIGNATURE,
        },
    ]
    text = body("signed text", NAME)["contents"][1]["parts"][0]
    assert text == {"text": "Hello.", "thoughtSignature": SIGNATURE}


def test_a_signature_that_nobody_claims_is_its_own() -> None:
    part = body("signature of nobody", NAME)["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == SIGNATURE


def test_a_call_another_model_signed_says_so() -> None:
    parts = body("thought signed by anthropic", NAME)["contents"][1]["parts"]
    assert [part["thoughtSignature"] for part in parts] == ["skip_thought_signature_validator"]


def test_opaque_parts_return_as_they_came() -> None:
    assert body("opaque part of gemini", NAME)["contents"][1]["parts"][0] == OPAQUE[NAME]
    held = compiled("opaque part of anthropic", NAME)
    assert said(held, NAME) == ["info[WEFT704] a part of anthropic cannot go to gemini"]


def test_media_in_a_result_stays_in_it() -> None:
    result = body("image in a result", NAME)["contents"][-1]["parts"][0]["functionResponse"]
    assert result["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgowMDAw"}}
    ]


def test_executed_code_has_its_own_parts() -> None:
    parts = body("executed code", NAME)["contents"][1]["parts"]
    assert parts[1] == {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    assert parts[2] == {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}


def test_turns_of_one_role_are_one_content() -> None:
    contents = body("foreign agent", NAME)["contents"]
    assert [part["text"] for part in contents[0]["parts"]] == [
        "Hi",
        "[other]: I am other.",
        "Go on",
    ]
    held = compiled("foreign agent", NAME)
    assert str(held.origin("/contents/0/parts/1/text")) == "event e1#0"


def test_an_answer_schema() -> None:
    config = body("answer as a record", NAME)["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["required"] == ["name", "age"]


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("option tool_choice = any", {"mode": "ANY"}),
        ("option tool_choice = none", {"mode": "NONE"}),
        ("option tool_choice = auto", {"mode": "AUTO"}),
        (
            "option tool_choice = {'name': 'lookup'}",
            {"mode": "ANY", "allowedFunctionNames": ["lookup"]},
        ),
    ],
)
def test_tool_choice(name: str, config: dict[str, object]) -> None:
    assert body(name, NAME)["toolConfig"] == {"functionCallingConfig": config}


def test_thinking() -> None:
    held = body("option thinking = {'effort': 'low', 'include': True}", NAME)
    assert held["generationConfig"]["thinkingConfig"] == {
        "thinkingLevel": "low",
        "includeThoughts": True,
    }
    lost = compiled("option thinking = {'effort': 'max'}", NAME)
    words = "gemini-3-flash has no effort `max`: `high` is asked for"
    assert said(lost, NAME) == [f"warning[WEFT702] {words}"]


def test_a_tier_it_has_not_is_reported() -> None:
    held = compiled("option service_tier = auto", NAME)
    assert said(held, NAME) == ["warning[WEFT702] gemini has no option `serviceTier=auto`"]
    flex = Scene("x", bot_with(service_tier="flex"), message="Hi").compile(NAME)
    assert flex.lower(NAME)["serviceTier"] == "flex"


def test_extra_reaches_deep_beside_what_is_there() -> None:
    deep: dict[str, Json] = {"generationConfig": {"thinkingConfig": {"includeThoughts": False}}}
    agent = bot_with(thinking={"budget": 9}, temperature=0.5, extra={NAME: deep})
    held = Scene("x", agent, message="Hi").compile(NAME)
    assert held.lower(NAME)["generationConfig"] == {
        "thinkingConfig": {"thinkingBudget": 9, "includeThoughts": False},
        "temperature": 0.5,
    }
    assert agent.generate_config["extra"] == {NAME: deep}


def test_tools_of_the_providers_own_follow_the_agents() -> None:
    agent = bot_with(extra={NAME: {"tools": [{"googleSearch": {}}]}})
    held = Scene("x", agent, message="Hi").compile(NAME)
    tools = held.lower(NAME)["tools"]
    assert isinstance(tools, list)
    assert [list(tool) for tool in tools] == [["functionDeclarations"], ["googleSearch"]]  # type: ignore[arg-type]
    assert str(held.origin("/tools/0/functionDeclarations/0/name")) == "bot.tools.lookup"
    assert str(held.origin("/tools/1")) == "bot.generate_config"
