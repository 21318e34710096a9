"""Answers of OpenAI Responses: nothing of them is lost, and they go back as they came."""

from typing import cast

import pytest

from tests.dialects.answers import Sent, sent_back, weft_of
from tests.dialects.test_conformance import misfits_of
from tests.dialects.test_lift_openai_chat import parts_of
from weft.dialects import lift
from weft.errors import ModelError
from weft.values import Json, JsonObject

NAME = "openai-responses"
MODEL = "gpt-5.4"
SEAL = "gAAAAABsZWQ="

THOUGHT: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Let me look."}],
    "encrypted_content": SEAL,
}
BARE: JsonObject = {**THOUGHT, "id": "rs_2", "summary": [], "content": [], "status": "completed"}
SEARCH: JsonObject = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "key", "queries": ["key"]},
}
FOUND: JsonObject = {
    "type": "tool_search_output",
    "id": "tso_1",
    "call_id": None,
    "execution": "server",
    "status": "completed",
    "tools": [],
}
CODE: JsonObject = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "code": "1+1",
    "container_id": "cntr_1",
    "outputs": None,
    "status": "completed",
}
COMPACTED: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": SEAL}
IMAGE: JsonObject = {
    "type": "image_generation_call",
    "id": "ig_1",
    "status": "completed",
    "result": "iVBORw==",
}
MCP: JsonObject = {
    "type": "mcp_call",
    "id": "mcp_1",
    "name": "ask",
    "arguments": "{}",
    "server_label": "deep",
    "output": "42",
    "error": None,
    "approval_request_id": None,
    "status": "completed",
}


def text(words: str, **more: Json) -> JsonObject:
    """A text part of a message."""
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": [], **more}


def message(*content: JsonObject, **more: Json) -> JsonObject:
    """A message item."""
    held: JsonObject = {"type": "message", "id": "msg_1", "role": "assistant"}
    return {**held, "status": "completed", "content": [*content], **more}


def call(arguments: str = '{"key":"a"}', **more: Json) -> JsonObject:
    """A call of the tool that every run here has."""
    held: JsonObject = {"type": "function_call", "id": "fc_1", "call_id": "call_1"}
    return {**held, "name": "lookup", "arguments": arguments, "status": "completed", **more}


def body(*output: JsonObject, **more: Json) -> JsonObject:
    """A whole answer with these items."""
    from openai.types.responses import Response

    held: JsonObject = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1763000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": "Be brief.",
        "model": "gpt-5.4-2026-03-05",
        "output": [*output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 20},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 30},
            "total_tokens": 150,
        },
    }
    Response.model_validate({**held, **more})
    return {**held, **more}


def items(sent: Sent) -> list[JsonObject]:
    """What the request says the model said first: its items up to the next result or message."""
    found: list[JsonObject] = []
    for item in cast("list[JsonObject]", sent.wire["input"])[1:]:
        if item.get("role") == "user" or str(item.get("type", "")).endswith("call_output"):
            break
        found.append(item)
    return found[:-1] if found[-1:] == [{"role": "assistant", "content": "done"}] else found


def back(*output: JsonObject, to: tuple[str, str] | None = None) -> Sent:
    """The request after an answer with these items."""
    return sent_back(NAME, MODEL, body(*output), to=to)


def test_text_and_what_the_answer_says_of_itself() -> None:
    response = lift(NAME, body(message(text("Hi."))))
    assert response.text == "Hi."
    assert response.finish_reason == "STOP"
    assert response.error_code is None
    assert response.model_version == "gpt-5.4-2026-03-05"
    rest = cast("JsonObject", weft_of(response)["rest"])
    assert rest["id"] == "resp_1"
    assert "instructions" not in rest
    assert weft_of(response)["cacheWrite"] == 20
    assert response.usage is not None
    assert response.usage.prompt_token_count == 100
    assert response.usage.cached_content_token_count == 64
    assert response.usage.candidates_token_count == 20
    assert response.usage.thoughts_token_count == 30
    assert response.usage.total_token_count == 150


CITED = text("Hi.", annotations=[{"type": "file_path", "file_id": "f", "index": 0}])


@pytest.mark.parametrize(
    "output",
    [
        [message(text("Hi."))],
        [message(text("Hi."), phase="final_answer")],
        [message(text("A."), CITED, text("C."))],
        [message(text("A.")), message(text("B."), id="msg_2", phase="commentary")],
        [THOUGHT, message(text("Hi."))],
        [BARE, call()],
        [THOUGHT, call('{"key": "a"}', namespace="tools", caller={"type": "direct"})],
        [THOUGHT, message(text("Looking."), phase="commentary"), BARE, call()],
        [THOUGHT, SEARCH, BARE, message(text("Hi."))],
        [THOUGHT, CODE, message(text("2"))],
        [FOUND, call()],
        [message(text("Hi.")), COMPACTED],
        [IMAGE],
        [MCP, message(text("42"))],
        [message({"type": "refusal", "refusal": "I would rather not."})],
    ],
    ids=str,
)
def test_an_answers_items_go_back_as_they_came(output: list[JsonObject]) -> None:
    sent = back(*output)
    assert items(sent) == output
    assert misfits_of(dict(sent.wire), NAME) == []
    assert not [said for said in sent.diagnostics if "WEFT704" in said]


def test_an_item_nobody_knows_goes_back_unchanged() -> None:
    strange: JsonObject = {"type": "crystal_ball_call", "id": "cb_1", "sight": {"far": [1, None]}}
    assert items(sent_back(NAME, MODEL, {**body(), "output": [strange]})) == [strange]


def test_who_caused_an_item_is_not_taken_back() -> None:
    assert items(back({**COMPACTED, "created_by": "me"}, message(text("Hi.")))) == [
        COMPACTED,
        message(text("Hi.")),
    ]


def test_a_message_without_words_goes_back_too() -> None:
    response = lift(NAME, body(message(text("")), message(id="msg_2")))
    assert response.text == ""
    assert len(parts_of(response)) == 2


def test_reasoning_is_a_thought_with_its_seal() -> None:
    thought = parts_of(lift(NAME, body(THOUGHT, message(text("Hi.")))))[0]
    assert thought.thought
    assert thought.text == "Let me look."
    assert thought.thought_signature == SEAL


def test_a_summary_in_pieces_goes_back_in_pieces() -> None:
    pieces: list[Json] = [{"type": "summary_text", "text": words} for words in ("A.", "B.")]
    thought: JsonObject = {**THOUGHT, "summary": pieces}
    assert parts_of(lift(NAME, body(thought)))[0].text == "A.\n\nB."
    assert items(back(thought, call())) == [thought, call()]


def test_reasoning_that_a_server_shows_goes_back_without_a_seal() -> None:
    shown: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
    shown["content"] = [{"type": "reasoning_text", "text": "Hm."}]
    assert parts_of(lift(NAME, body(shown)))[0].text == "Hm."
    assert items(back(shown, message(text("Hi.")))) == [shown, message(text("Hi."))]


@pytest.mark.parametrize("following", [message(text("Hi.")), call(), SEARCH, FOUND], ids=str)
def test_without_its_seal_reasoning_and_what_is_tied_to_it_stay_behind(
    following: JsonObject,
) -> None:
    thought = {key: value for key, value in THOUGHT.items() if key != "encrypted_content"}
    sent = back(thought, following, message(text("Yes."), id="msg_2"))
    assert "rs_1" not in str(sent.wire)
    assert str(following["id"]) not in str(sent.wire)
    assert "msg_2" not in str(sent.wire)
    assert {"role": "assistant", "content": "Yes."} in items(sent)
    assert any("WEFT704" in said for said in sent.diagnostics)
    assert misfits_of(dict(sent.wire), NAME) == []


@pytest.mark.parametrize(
    "to",
    [(NAME, "gpt-5.6"), ("openai-chat", "gpt-4.1"), ("anthropic", "claude-sonnet-4-6"),
     ("gemini", "gemini-3-flash")],
)  # fmt: skip
def test_another_model_gets_a_legal_request_without_seals_and_ids(to: tuple[str, str]) -> None:
    sent = back(THOUGHT, message(text("Looking."), phase="commentary"), BARE, call(), to=to)
    assert misfits_of(dict(sent.wire), to[0]) == []
    for gone in (SEAL, "rs_1", "msg_1", "fc_1"):
        assert gone not in str(sent.wire)
    assert "Looking." in str(sent.wire)
    assert sum("WEFT704" in said for said in sent.diagnostics) >= 2


def test_a_dated_name_is_the_same_model() -> None:
    sent = back(THOUGHT, message(text("Hi.")), to=(NAME, f"{MODEL}-2026-03-05"))
    assert items(sent) == [THOUGHT, message(text("Hi."))]


def test_another_model_of_the_provider_still_hears_the_phase() -> None:
    sent = back(THOUGHT, message(text("Hi."), phase="final_answer"), to=(NAME, "gpt-5.6"))
    assert items(sent) == [{"role": "assistant", "content": "Hi.", "phase": "final_answer"}]


def test_reasoning_that_led_to_nothing_stays_behind() -> None:
    details: JsonObject = {"reason": "max_output_tokens"}
    answer = body(BARE, status="incomplete", incomplete_details=details)
    assert lift(NAME, answer).error_code == "max_tokens"
    sent = sent_back(NAME, MODEL, answer)
    assert "rs_2" not in str(sent.wire)
    assert any("WEFT704" in said for said in sent.diagnostics)


def test_arguments_that_are_no_object_make_a_malformed_call() -> None:
    part = parts_of(lift(NAME, body(call('{"key": "a'))))[0]
    assert part.function_call is not None
    assert part.function_call.args is None
    assert cast("JsonObject", (part.part_metadata or {})["weft"])["malformed"] == '{"key": "a'
    assert items(back(BARE, call('{"key": "a'))) == [BARE, call("{}")]


def test_a_custom_call_is_answered_in_its_own_form() -> None:
    custom: JsonObject = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1"}
    custom |= {"name": "lookup", "input": "key a"}
    sent = back(BARE, custom)
    assert items(sent) == [BARE, custom]
    outputs = [i for i in cast("list[JsonObject]", sent.wire["input"]) if "output" in i]
    assert [one["type"] for one in outputs] == ["custom_tool_call_output"]
    assert misfits_of(dict(sent.wire), NAME) == []
    foreign = back(BARE, custom, to=("openai-chat", "gpt-4.1"))
    assert '{"input":"key a"}' in str(foreign.wire)


def test_a_refusal_is_an_error_with_its_words() -> None:
    response = lift(NAME, body(message({"type": "refusal", "refusal": "No."})))
    assert response.error_code == "refusal"
    assert response.error_message == "No."
    assert response.text == "No."


@pytest.mark.parametrize(
    ("reason", "finish", "code"),
    [
        ("max_output_tokens", "MAX_TOKENS", None),
        ("content_filter", "SAFETY", "safety"),
        ("steered", "OTHER", None),
    ],
)
def test_how_an_answer_ended(reason: str, finish: str, code: str | None) -> None:
    details: JsonObject = {"reason": reason}
    answer = body(message(text("Ha")), status="incomplete", incomplete_details=details)
    response = lift(NAME, answer)
    assert response.finish_reason == finish
    assert response.error_code == code
    assert response.text == "Ha"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            {"status": "failed", "error": {"code": "server_error", "message": "x"}},
            "overloaded",
        ),
        ({"error": {"code": "rate_limit_exceeded", "message": "x"}}, "rate_limited"),
        ({"object": "response"}, "bad_response"),
        ({"output": [{"type": "message", "role": "user", "content": []}]}, "bad_response"),
    ],
)
def test_what_is_no_answer_says_so(answer: JsonObject, code: str) -> None:
    if answer.get("status"):  # a whole answer; its types are heavy, and not for collecting
        answer = body(**answer)
    with pytest.raises(ModelError) as raised:
        lift(NAME, answer)
    assert raised.value.code == code


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_work_that_has_only_begun_is_no_answer_and_can_be_fetched(status: str) -> None:
    response = lift(NAME, body(status=status, id="resp_1", output=[], background=True))
    assert (response.error_code, response.content) == ("unfinished", None)
    assert f"resp_1 is not there yet: its status is '{status}'" in (response.error_message or "")
    assert response.custom_metadata is not None
    weft = response.custom_metadata["weft"]
    assert isinstance(weft, dict)
    rest = weft["rest"]
    assert isinstance(rest, dict)
    assert (rest["id"], rest["status"]) == ("resp_1", status)
