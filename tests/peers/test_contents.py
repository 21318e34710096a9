"""H1, H2, H4: who said it, who may read it, and what counts as nothing."""

import weft
from tests.peers.logs import BOT, asks, gets, turns
from tests.support.build import make_event
from weft import Actions, Content, Event, Part, Session
from weft.content import (
    CodeExecutionResult,
    ExecutableCode,
    call_part,
    file_part,
    media_part,
    result_part,
)

CODE = Part(executable_code=ExecutableCode(code="print(1)", language="PYTHON"))
RAN = Part(code_execution_result=CodeExecutionResult(outcome="OUTCOME_OK", output="1"))


def test_H4_what_says_nothing_is_left_out_and_everything_else_is_kept() -> None:
    log = (
        make_event("user", "Hello"),
        Event(author="bot", actions=Actions(state_delta={"k": 1})),
        Event(author="bot", content=Content(role="model", parts=())),
        Event(author="bot", content=Content(role="model")),
        make_event("user", ""),
        make_event("user", "", "Mixed"),
        make_event("user", media_part("image/png", b"x")),
        make_event("user", file_part("gs://b/f.png", "image/png")),
        make_event("bot", "", CODE),
        make_event("bot", RAN),
        Event(author="bot", error_code="SAFETY", error_message="refused"),
        make_event("user", "Go on"),
    )
    assert turns(BOT, *log) == [
        "user: Hello | Mixed | inlineData | fileData",
        "model: executableCode | codeExecutionResult",
        "user: Go on",
    ]


def test_H4_what_was_said_aloud_is_heard() -> None:
    log = (
        Event(author="user", input_transcription={"text": "Are you there?", "finished": True}),
        Event(author="bot", output_transcription={"text": "I am."}),
        Event(author="other", output_transcription={"text": "So am I."}),
        Event(author="bot", output_transcription={"finished": True}),
        Event(author="bot", output_transcription={"text": "not yet"}, partial=True),
        make_event("user", "Good"),
    )
    assert turns(BOT, *log) == [
        "user: Are you there?",
        "model: I am.",
        "user: [other]: So am I. | Good",
    ]


def test_H4_an_event_with_content_and_a_transcript_speaks_once() -> None:
    log = (
        make_event("user", "Hello", input_transcription={"text": "Hello"}),
        make_event("bot", "Hi"),
    )
    assert turns(BOT, *log)[:2] == ["user: Hello", "model: Hi"]


def test_H4_sign_in_and_confirmation_never_reach_a_model() -> None:
    for name in ("adk_request_credential", "adk_request_confirmation"):
        log = (
            make_event("user", "Delete it"),
            make_event("bot", call_part(name, {"token": "secret"}, id="x")),
            make_event("user", result_part(name, {"token": "secret"}, id="x")),
            make_event("user", "Well?"),
        )
        assert turns(BOT, *log) == ["user: Delete it | Well?"]


def test_H2_what_belongs_to_a_task_of_its_own_is_not_told() -> None:
    log = (
        make_event("user", "Plan a trip"),
        make_event("planner", "draft of a draft", isolation_scope="call-1"),
        make_event("user", "Well?"),
    )
    assert turns(BOT, *log) == ["user: Plan a trip | Well?"]
    planner = weft.Agent("planner", model="gemini-2.5-flash")
    assert "model: draft of a draft" in turns(planner, *log)


def test_H1_another_agents_words_calls_and_results_are_told_under_its_name() -> None:
    log = (
        make_event("user", "Hello"),
        make_event("other", Part(text="hm", thought=True), "Let me see."),
        asks("look", author="other"),
        gets("look", author="other"),
        make_event("third", Part(text="only a thought", thought=True)),
        make_event("bot", "Mine"),
        make_event("user", "World"),
    )
    assert turns(BOT, *log) == [
        "user: Hello | [other]: Let me see. | [other] called look({})"
        ' | [other] look returned {"r":1}',
        "model: Mine",
        "user: World",
    ]


def test_H1_a_result_the_user_posts_for_another_agent_is_told_as_that_agents() -> None:
    question = asks("ask", author="other", long_running_tool_ids=("ask",))
    log = make_event("user", "Hello"), question, gets("ask", author="user", value="yes", inv="2")
    assert turns(BOT, *log) == [
        'user: Hello | [other] called ask({}) | [other] ask returned {"r":"yes"}'
    ]


def test_H1_an_event_without_an_author_speaks_by_its_role() -> None:
    log = (
        make_event("", "Hello", role="user"),
        make_event("", "Hi", role="model"),
        make_event("user", "Bye"),
    )
    assert turns(BOT, *log) == ["user: Hello", "model: Hi", "user: Bye"]


def test_H4_ids_the_framework_made_up_go_only_where_ids_are_needed() -> None:
    log = (
        make_event("user", "go"),
        make_event("bot", call_part("f", {}, id="adk-1")),
        make_event("bot", result_part("f", {"r": 1}, id="adk-1"), role="user"),
    )
    compiled = weft.compile(BOT, session=Session("s", events=log))
    assert "adk-1" not in str(compiled.lower("gemini"))
    for dialect in ("anthropic", "openai-chat", "openai-responses"):
        assert str(compiled.lower(dialect)).count("adk-1") == 2


def test_H5_compiling_changes_no_event() -> None:
    log = Session("s", events=[make_event("user", "go"), asks("a", "b"), gets("b"), gets("a")])
    before = log.to_json()
    for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
        weft.compile(BOT, session=log).lower(dialect)
    assert log.to_json() == before


def test_an_event_ends_its_turn_as_in_adk() -> None:
    assert make_event("bot", "Hi").is_final_response()
    assert Event(author="bot", error_code="SAFETY").is_final_response()
    assert gets("a").is_final_response() is False
    assert asks("a").is_final_response() is False
    assert asks("a", error_code="X").is_final_response() is False
    assert asks("a", long_running_tool_ids=("a",)).is_final_response()
    assert make_event("bot", "Hi", partial=True).is_final_response() is False
    assert make_event("bot", RAN).is_final_response() is False
