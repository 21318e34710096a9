"""H1-H9 through the front door: what an agent sees of a log."""

import copy
import json

import pytest

from tests.support.build import calls, returns, says, session, user
from weft import Actions, Agent, C, Content, Event, Part, Session, TokenBudget, compile
from weft.content import file_part, media_part, thought_part
from weft.session import Compaction

BOT = Agent("bot", model="gemini-flash-latest")
BOOKER = Agent("booker", model="gemini-flash-latest", instruction="Book. Intent: {intent}")


def seen(agent: Agent, given: Session, **more: object) -> list[str]:
    """The turns a request carries, a line a block."""
    shown = str(compile(agent, session=given, **more).prompt)  # type: ignore[arg-type]
    return [line for line in shown.splitlines() if line.startswith(("user", "model"))]


def test_H1_own_events_keep_their_roles() -> None:
    assert seen(BOT, session(user("Hi"), says("bot", "Hello"), user("Bye"))) == [
        "user: Hi",
        "model: Hello",
        "user: Bye",
    ]


def test_H1_another_agents_words_are_attributed_in_one_line() -> None:
    log = session(user("Hi"), says("planner", "Take the train"))
    assert seen(BOT, log) == ["user: Hi", "user: [planner]: Take the train"]


def test_H1_another_agents_thoughts_are_left_out_and_its_tool_traffic_is_told() -> None:
    thought = Event(
        author="planner",
        invocation_id="1",
        content=Content(role="model", parts=(thought_part("hm"), Part(text="So"))),
    )
    log = session(
        user("Hi"),
        thought,
        calls("planner", "look", {"q": 1}, "c1"),
        returns("planner", "look", {"n": 2}, "c1"),
    )
    assert seen(BOT, log) == [
        "user: Hi",
        "user: [planner]: So",
        'user: [planner] called look({"q":1})',
        'user: [planner] look returned {"n":2}',
    ]


def test_H2_a_branch_sees_itself_and_its_ancestors_only() -> None:
    log = session(
        user("Hi"),
        says("fan", "go", branch="fan"),
        says("left", "L", branch="fan.left"),
        says("right", "R", branch="fan.right"),
        says("leftish", "LL", branch="fan.leftish"),
    )
    left = Agent("left", model="gemini-flash-latest")
    assert seen(left, log, branch="fan.left") == [
        "user: Hi",
        "user: [fan]: go",
        "model: L",
        "user: Continue.",
    ]


def test_H2_whoever_stands_behind_branches_sees_what_was_said_on_them() -> None:
    log = session(
        user("Hi"),
        says("left", "L", branch="fan.left"),
        says("child", "deep", branch="fan.left.inner.child"),
        says("right", "R", branch="fan.right"),
        says("left", "LL", branch="fan.left"),
    )
    assert seen(BOT, log) == [
        "user: Hi",
        "user: [left]: L",
        "user: [child]: deep",
        "user: [left]: LL",
        "user: [right]: R",
    ]
    left = Agent("left", model="gemini-flash-latest")
    assert seen(left, log, branch="fan.left") == [
        "user: Hi",
        "model: L",
        "user: [child]: deep",
        "model: LL",
        "user: Continue.",
    ]
    behind = log.append(user("And?", inv="2"))
    assert seen(left, behind, branch="fan.left") == [
        "user: Hi",
        "model: L",
        "user: [child]: deep",
        "model: LL",
        "user: [right]: R",
        "user: And?",
    ]


def test_H3_a_late_result_moves_to_its_call_and_nothing_between_is_lost() -> None:
    log = session(
        user("Go"),
        calls("bot", "slow", {}, "c1", long_running_tool_ids=("c1",)),
        returns("bot", "slow", {"status": "pending"}, "c1"),
        says("bot", "Working on it"),
        user("And?", inv="2"),
        returns("user", "slow", {"done": True}, "c1", inv="2"),
    )
    assert seen(BOT, log) == [
        "user: Go",
        "model call c1: slow({})",
        'user result c1: slow -> {"done":true}',
        "model: Working on it",
        "user: And?",
    ]


def test_H3_a_call_without_result_is_repaired_and_reported() -> None:
    log = session(user("Go"), calls("bot", "look", {}, "c1"), user("Hello?", inv="2"))
    compiled = compile(BOT, session=log)
    assert '"error":"no result was recorded for this call"' in str(compiled.prompt)
    assert [d.code for d in compiled.diagnostics] == ["WEFT201"]


def test_H3_a_long_running_call_stays_open_without_complaint() -> None:
    call = calls("bot", "slow", {}, "c1", long_running_tool_ids=("c1",))
    compiled = compile(BOT, session=session(user("Go"), call, user("And?", inv="2")))
    assert "still running" in str(compiled.prompt)
    assert compiled.diagnostics == ()


def test_H3_a_result_without_call_becomes_text_and_is_reported() -> None:
    compiled = compile(BOT, session=session(user("Go"), returns("bot", "look", {"n": 1}, "c9")))
    assert 'user: [look returned] {"n":1}' in str(compiled.prompt)
    assert [d.code for d in compiled.diagnostics] == ["WEFT202"]


def test_H4_partial_empty_state_only_and_rewound_events_are_dropped() -> None:
    log = session(
        user("One"),
        says("bot", "Par", partial=True),
        Event(author="bot", invocation_id="1"),
        Event(author="bot", invocation_id="1", content=Content(role="model", parts=())),
        Event(author="bot", invocation_id="1", actions=Actions(state_delta={"k": 1})),
        calls("bot", "adk_request_confirmation", {}, "a1"),
        says("bot", "Partly"),
        user("Two", inv="2"),
        says("bot", "Wrong", inv="2"),
        Event(
            author="user",
            invocation_id="3",
            actions=Actions(rewind_before_invocation_id="2"),
        ),
        user("Two again", inv="4"),
    )
    assert seen(BOT, log) == ["user: One", "model: Partly", "user: Two again"]


def test_H4_media_code_and_signatures_are_kept() -> None:
    given = Event(
        author="user",
        invocation_id="1",
        content=Content(
            role="user",
            parts=(
                media_part("image/png", b"\x89PNG"),
                file_part("gs://b/f.pdf", "application/pdf"),
            ),
        ),
    )
    answer = Event(
        author="bot",
        invocation_id="1",
        content=Content(
            role="model", parts=(Part(text="A cat", thought_signature="c2ln"), Part(text="!"))
        ),
    )
    wire = compile(BOT, session=session(given, answer, user("Sure?", inv="2"))).wire
    assert wire["contents"][:2] == [  # type: ignore[index]
        {
            "role": "user",
            "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
                {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/f.pdf"}},
            ],
        },
        {"role": "model", "parts": [{"text": "A cat", "thoughtSignature": "c2ln"}, {"text": "!"}]},
    ]


def test_H5_building_a_request_changes_no_stored_event() -> None:
    log = session(
        user("Go"),
        calls("bot", "look", {"deep": {"list": [1, {"x": 2}]}}, None),
        returns("bot", "look", {"n": 1}, None),
        says("planner", "p", writes="intent"),
        calls("bot", "look", {}, "same"),
        calls("bot", "look", {}, "same"),
    )
    before = copy.deepcopy(log.to_json())
    for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
        compile(BOOKER, session=log).lower(dialect)
        compile(BOT, session=log).lower(dialect)
    assert log.to_json() == before


@pytest.mark.parametrize("policy", [C.default(), C.none()])
def test_H6_the_message_that_started_the_invocation_is_in_view(policy: object) -> None:
    log = session(user("Fly me to Oslo"), says("classifier", "booking", writes="intent"))
    agent = BOOKER.sees(policy)  # type: ignore[arg-type]
    assert "user: Fly me to Oslo" in seen(agent, log)


def test_H6_a_summary_does_not_hide_what_started_the_invocation() -> None:
    summary = Compaction(
        start_timestamp=0.5,
        end_timestamp=2.5,
        compacted_content=Content(role="model", parts=(Part(text="They spoke."),)),
    )
    log = session(
        user("Old", timestamp=1.0),
        user("Now", inv="2", timestamp=2.0),
        Event(author="bot", invocation_id="2", timestamp=3.0, actions=Actions(compaction=summary)),
    )
    assert seen(BOT, log) == ["user: [summary of earlier turns]: They spoke.", "user: Now"]
    later = log.append(says("bot", "Fine", inv="2"), user("Next", inv="3", timestamp=5.0))
    assert seen(BOT, later) == [
        "user: [summary of earlier turns]: They spoke.",
        "model: Fine",
        "user: Next",
    ]


def test_H7_none_is_the_current_turn_with_the_agents_own_traffic() -> None:
    log = session(
        user("Old"),
        says("bot", "Old answer"),
        user("New", inv="2"),
        says("planner", "aside", inv="2"),
        calls("bot", "look", {}, "c1", inv="2"),
        returns("bot", "look", {"n": 1}, "c1", inv="2"),
    )
    sugar = Agent("bot", model="gemini-flash-latest", include_contents="none")
    for agent in (sugar, BOT.sees(C.none())):
        assert seen(agent, log) == [
            "user: New",
            "model call c1: look({})",
            'user result c1: look -> {"n":1}',
        ]


def test_H7_the_report_says_what_the_policy_skipped() -> None:
    log = session(user("Old"), says("bot", "Old answer"), user("New", inv="2"))
    report = compile(BOT.sees(C.none()), session=log).explain()
    assert "the policy leaves out 2 events before the current turn" in report.inferred


def test_H7_nothing_has_not_even_the_message() -> None:
    assert seen(BOT.sees(C.nothing()), session(user("Hi"))) == ["user: Continue."]


def test_H8_a_value_the_template_carries_is_said_once_in_every_dialect() -> None:
    log = session(user("Fly me to Oslo"), says("classifier", "booking", writes="intent"))
    compiled = compile(BOOKER, session=log)
    for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
        text = str(compiled.lower(dialect))
        assert text.count("booking") == 1
        assert text.count("Fly me to Oslo") == 1


def test_H8_both_channels_on_request() -> None:
    log = session(user("Fly me to Oslo"), says("classifier", "booking", writes="intent"))
    both = BOOKER.sees(C.default().keep_duplicates())
    assert str(compile(both, session=log).wire).count("booking") == 2


def test_H8_a_structured_answer_is_recognised_too() -> None:
    said = says("classifier", '{"kind": "booking", "n": 2}')
    written = Event(
        author=said.author,
        content=said.content,
        invocation_id="1",
        actions=Actions(state_delta={"intent": {"kind": "booking", "n": 2}}),
    )
    assert seen(BOOKER, session(user("Fly"), written)) == ["user: Fly"]


def test_H8_an_overwritten_value_stays_in_the_conversation() -> None:
    log = session(
        user("Fly"),
        says("classifier", "booking", writes="intent"),
        Event(author="fixer", invocation_id="1", actions=Actions(state_delta={"intent": "cancel"})),
    )
    assert seen(BOOKER, log) == ["user: Fly", "user: [classifier]: booking"]


def test_H9_a_tool_result_is_in_the_very_next_request() -> None:
    log = session(user("Go"), calls("bot", "look", {}, "c1"))
    compile(BOT, session=log)
    after = log.append(returns("bot", "look", {"n": 42}, "c1"))
    assert 'user result c1: look -> {"n":42}' in seen(BOT, after)


def test_a_summary_stands_for_the_events_it_covers() -> None:
    summary = Content(role="model", parts=(Part(text="They greeted."),))
    log = session(
        user("Hi", timestamp=1.0),
        says("bot", "Hello", timestamp=2.0),
        Event(
            author="bot",
            invocation_id="1",
            timestamp=3.0,
            actions=Actions(
                compaction=Compaction(
                    start_timestamp=1.0, end_timestamp=2.0, compacted_content=summary
                )
            ),
        ),
        user("Oslo?", inv="2", timestamp=4.0),
    )
    assert seen(BOT, log) == ["user: [summary of earlier turns]: They greeted.", "user: Oslo?"]


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
def test_lone_surrogates_anywhere_in_an_event_are_mended_and_reported(dialect: str) -> None:
    bad = "x\ud83d"
    log = Session(
        "s",
        events=[
            user(bad),
            calls("bot", f"f{bad}", {bad: [bad]}, bad),
            returns("bot", f"f{bad}", {"a": {bad: bad}}, bad),
            Event(
                author="bot",
                invocation_id="1",
                content=Content(role="model", parts=(thought_part(bad), file_part(bad, "a/b"))),
            ),
            user("Go", inv="2"),
        ],
    )
    compiled = compile(BOT, session=log)
    json.dumps(compiled.lower(dialect), ensure_ascii=False).encode()
    assert [d.code for d in compiled.prompt.diagnostics] == ["WEFT204"] * 4
    assert len(str(compiled.hash)) == 32


def test_H2_a_summary_of_another_branch_is_not_seen() -> None:
    said = Content(role="model", parts=(Part(text="gist"),))
    summed = Event(
        author="bot", branch="fan.right", actions=Actions(compaction=Compaction(5.0, 6.0, said))
    )
    log = session(user("Hi"), summed)
    assert seen(BOT, log, branch="fan.left") == ["user: Hi"]


def test_H3_a_result_bears_the_name_of_its_call() -> None:
    log = session(
        user("Go"), calls("bot", "look", {}, "c1"), returns("bot", "other", {"a": 1}, "c1")
    )
    assert seen(BOT, log)[-1] == 'user result c1: look -> {"a":1}'


def test_H3_an_id_that_begins_like_another_is_another() -> None:
    log = session(
        user("Go"),
        calls("bot", "one", {}, "c"),
        calls("bot", "two", {}, "c_1"),
        returns("bot", "one", {"a": 1}, "c"),
    )
    assert 'user result c: one -> {"a":1}' in seen(BOT, log)


def test_H6_a_summary_never_hides_what_is_said_now() -> None:
    said = Content(role="model", parts=(Part(text="gist"),))
    summed = Event(author="bot", actions=Actions(compaction=Compaction(0.0, 6.0, said)))
    log = session(user("Hi", timestamp=1.0), summed)
    assert seen(BOT, log, message="Now?")[-1] == "user: Now?"


@pytest.mark.parametrize("keep_recent", [0, 1, 2])
def test_H9_a_budget_cuts_a_long_turn_where_it_must_and_keeps_the_last_result(
    keep_recent: int,
) -> None:
    steps = [
        each
        for n in range(12)
        for each in (
            calls("bot", "look", {"n": n, "why": "because " * 8}, f"c{n}"),
            returns("bot", "look", {"found": "something " * 8}, f"c{n}"),
        )
    ]
    log = session(user("Go"), *steps)
    budget = TokenBudget(token_budget=500, keep_recent=keep_recent)
    agent = Agent("bot", model="gemini-flash-latest", context_compressor=budget)
    compiled = compile(agent, session=log)
    shown = seen(agent, log)
    assert compiled.tokens <= 500
    assert compiled.tokens > 250
    assert shown[0] == "user: Go"
    assert shown[-1].startswith("user result c11")


def test_H2_a_summary_of_another_branch_hides_nothing() -> None:
    said = Content(role="model", parts=(Part(text="gist"),))
    held = Compaction(0.0, 6.0, said)
    log = session(
        user("Hi", timestamp=1.0),
        Event(author="bot", branch="fan.right", actions=Actions(compaction=held)),
    )
    assert seen(BOT, log, branch="fan.left") == ["user: Hi"]
    assert seen(BOT, log, branch="fan.right") == ["user: [summary of earlier turns]: gist"]
