"""S1 to S3 and H5: the log, its JSON, and the state it adds up to."""

import copy
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

import weft
from tests.support.build import make_event
from tests.support.strategies import json_values, logs
from weft import Actions, Agent, Content, Event, Part, Session
from weft.compiler import compile_request
from weft.content import (
    Blob,
    CodeExecutionResult,
    ExecutableCode,
    FunctionResponse,
    call_part,
    file_part,
    media_part,
    opaque_part,
    result_part,
    thought_part,
)
from weft.errors import SessionError
from weft.session import apply_delta, read_session, scope_of
from weft.session.event import read_event, without_temp
from weft.session.flow import TRUSTED, FlowNote, TrustLabel
from weft.session.log import without_temp_delta
from weft.session.lookback import LogFacts
from weft.session.strand import Strand
from weft.values import MAX_BITS, MAX_DEPTH, Json, JsonObject, is_json, require_json

BOT = Agent("bot", model="gemini-flash-latest", instruction="Intent: {intent?}.")
DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")


def exchange(args: JsonObject, response: JsonObject) -> list[Event]:
    result = make_event("bot", result_part("look", response, id="c"), inv="i")
    return [
        make_event("user", "Hi", inv="i"),
        make_event("bot", call_part("look", args, id="c"), inv="i"),
        result,
    ]


def nested(levels: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(levels):
        value = {"a": value}
    return value


EVERY_PART = (
    Part(text="said"),
    thought_part("thought", signature="c2ln", provider="gemini"),
    call_part("look", {"city": "Oslo", "n": [1, None, {"x": 1.5}]}, id="c1"),
    result_part("look", {"result": "sunny"}, id="c1"),
    media_part("image/png", b"\x89PNG"),
    Part(inline_data=Blob(mime_type="text/plain", data="aGk=", display_name="a.txt")),
    file_part("gs://bucket/film.mp4", "video/mp4"),
    Part(executable_code=ExecutableCode(code="1+1", language="PYTHON")),
    Part(code_execution_result=CodeExecutionResult(outcome="OUTCOME_OK", output="2")),
    opaque_part("anthropic", {"type": "redacted_thinking", "data": "x"}),
    Part(
        function_response=FunctionResponse(
            name="shot",
            response={},
            id="c2",
            parts=[{"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}],
        )
    ),
)


# ADK's JSON, both ways.


def test_an_event_is_adks_json_in_camel_case_with_nulls_left_out() -> None:
    event = Event(
        author="bot",
        content=Content(role="model", parts=(call_part("look", {"q": None}, id="c1"),)),
        invocation_id="i1",
        id="e1",
        timestamp=12.5,
        long_running_tool_ids=("c1",),
        actions=Actions(state_delta={"k": None}, transfer_to_agent="other"),
    )
    assert json.loads(event.to_json()) == snapshot(
        {
            "author": "bot",
            "content": {
                "parts": [{"functionCall": {"name": "look", "args": {"q": None}, "id": "c1"}}],
                "role": "model",
            },
            "invocationId": "i1",
            "id": "e1",
            "timestamp": 12.5,
            "longRunningToolIds": ["c1"],
            "actions": {"stateDelta": {"k": None}, "transferToAgent": "other"},
        }
    )


def test_an_event_as_adk_writes_it_is_read() -> None:
    data = """{"id": "s", "appName": "app", "userId": "u", "state": {"k": 1}, "events": [{
        "modelVersion": "m", "content": {"parts": [{"text": "Hi"}], "role": "model"},
        "finishReason": "STOP", "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 4},
        "invocationId": "i", "author": "bot", "actions": {"stateDelta": {"k": 1},
        "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}},
        "longRunningToolIds": [], "id": "e", "timestamp": 1762000000.5}],
        "lastUpdateTime": 1762000000.5}"""
    session = Session.from_json(data)
    (event,) = session.events
    assert (session.id, session.app_name, session.user_id) == ("s", "app", "u")
    assert (event.text, event.finish_reason, event.timestamp) == ("Hi", "STOP", 1762000000.5)
    assert event.usage is not None
    assert event.usage.prompt_token_count == 3
    assert session.state == {"k": 1}


@pytest.mark.parametrize("part", EVERY_PART, ids=lambda part: part.kind)
def test_the_official_sdk_reads_our_content(part: Part) -> None:
    event = make_event("bot", part, inv="i")
    content = json.loads(event.to_json())["content"]
    from google.genai import types as genai

    read = genai.Content.model_validate(content)
    assert read.parts is not None
    back = read.model_dump(mode="json", by_alias=True, exclude_none=True)
    again = Session.from_json(json.dumps({"events": [{"content": back}]}), trusted=True)
    assert again.events[0].content == event.content


@given(logs(), st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_S3_a_session_read_back_equals_the_one_written(
    events: list[Event], state: JsonObject
) -> None:
    kept = {k: v for k, v in state.items() if v is not None and not k.startswith("temp:")}
    session = Session("s", app_name="a", user_id="u", state=kept, events=events)
    again = Session.from_json(session.to_json(), trusted=True)
    assert again == session
    assert again.to_json() == session.to_json()


_KEYS = st.sampled_from(["a", "b", "app:c", "user:d", "temp:e"])
_STARTS = st.dictionaries(_KEYS, json_values.filter(lambda value: value is not None), max_size=4)


@given(_STARTS, st.lists(st.dictionaries(_KEYS, json_values, max_size=3), max_size=5))
def test_S3_earlier_states_are_the_same_once_it_is_read_back(
    start: JsonObject, changes: list[JsonObject]
) -> None:
    events = [make_event("bot", inv=str(n // 2), writes=delta) for n, delta in enumerate(changes)]
    session = Session("s", state=start, events=events)
    again = Session.from_json(session.to_json())
    for at in range(len(events) + 1):
        assert again.before(at).state == without_temp(session.before(at).state)
    assert again.state == without_temp(session.state)
    assert again.events == [without_temp_delta(event) for event in events]
    assert again.to_json() == session.to_json()


def test_S3_what_a_session_started_with_is_written_where_an_event_wrote_over_it() -> None:
    session = Session(
        "s",
        state={"a": 1, "b": 1},
        events=[
            make_event("bot", inv="i", writes={"a": 2}),
            make_event("bot", inv="i", writes={"c": 3}),
        ],
    )
    first, last = json.loads(session.to_json())["events"]
    assert "sessionStart" not in first
    assert last["sessionStart"] == {"a": 1}
    again = Session.from_json(session.to_json())
    assert [again.before(at).state["a"] for at in (0, 1, 2)] == [1, 2, 2]
    assert not any(event.unread for event in again.events)
    # a Weft that did not know the field kept it on the event, and went on
    older = json.loads(session.append(make_event("bot", inv="i", writes={"a": 4})).to_json())
    for event in older["events"]:
        event.pop("checksum")
        event.pop("sessionChecksum", None)
    older["events"][1]["sessionStart"] = older["events"][2].pop("sessionStart")
    assert Session.from_json(json.dumps(older)).before(0).state == {"a": 1, "b": 1}
    # nothing overwritten, nothing more to say
    plain = Session("s", state={"b": 1}, events=[make_event("bot", inv="i", writes={"a": 2})])
    assert b"sessionStart" not in plain.to_json()


def test_a_start_that_is_no_object_is_refused() -> None:
    with pytest.raises(SessionError, match=r"sessionStart") as caught:
        Session.from_json('{"events": [{"author": "bot", "sessionStart": 1}]}', name="log.json")
    assert caught.value.where == "log.json: events[0]"


def test_a_shared_key_that_another_session_deleted_stays_deleted() -> None:
    session = Session("s", events=[make_event("bot", inv="i", writes={"user:k": 1})])
    session.state = {}  # as a store reads it, once another session has deleted the key
    again = Session.from_json(session.to_json())
    assert again.state == {}
    assert again.before(1).state == {"user:k": 1}


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_S3_any_text_survives_the_json_lone_surrogates_and_nul_included(text: str) -> None:
    session = Session(
        "s",
        state={"k": text},
        events=[make_event("user", text, inv="i"), *exchange({"q": text}, {})],
    )
    again = Session.from_json(session.to_json())
    assert again == session
    assert json.loads(session.to_json())["state"]["k"] == text or not text.isprintable()


@pytest.mark.parametrize("rest", ["", " and \ud83d"])
def test_S3_two_halves_side_by_side_are_read_back_as_the_character_they_are(rest: str) -> None:
    """They are no damage: JSON writes both alike, and so do its checksums."""
    halves, whole = "\ud83d\ude00" + rest, "😀" + rest
    session = Session(
        "s",
        state={"k": halves},
        events=[make_event("user", halves, inv="i"), *exchange({"q": halves}, {})],
    )
    again = Session.from_json(session.to_json())
    assert (again.state, again.events[0].text) == ({"k": whole}, whole)
    assert again.to_json() == session.to_json()
    assert Session.from_json(again.to_json()) == again


def test_S3_unknown_fields_and_half_characters_are_read_together() -> None:
    half = "half \ud83d"
    event = replace(make_event("bot", half, inv="i"), unread={"/mood": {"x": half}})
    assert read_event(event.to_json()) == event
    session = Session("s", events=[event])
    assert Session.from_json(session.to_json()) == session
    data = {"user_id": "ann", "app_name": half, "events": [{"author": "bot", "mood": half}]}
    read = Session.from_json(json.dumps(data))
    assert (read.user_id, read.app_name, read.events[0].unread) == ("ann", half, {"/mood": half})


def test_S3_whole_numbers_of_any_size_survive() -> None:
    session = Session("s", state={"n": 2**80, "m": -(2**80), "f": 0.1})
    assert Session.from_json(session.to_json()).state == session.state


# What bad JSON gets.


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        ("", "log.json", "truncated"),
        ("{", "log.json", "truncated"),
        ("[]", "log.json", "Expected `object`, got `array`"),
        ('{"event": []}', "log.json", "unknown field `event`"),
        ('{"events": {}}', "log.json", "Expected `array`, got `object` - at `$.events`"),
        ('{"state": []}', "log.json", "Expected `object`, got `array` - at `$.state`"),
        ('{"state": {"n": NaN}}', "log.json", "malformed"),
        ('{"state": {"half": "\\ud83d", "n": NaN}}', "log.json", "NaN is not JSON"),
        ('{"events": [{}, 5]}', "log.json: events[1]", "Expected `object`, got `int`"),
        (
            '{"events": [{}, {"content": {"parts": [{"text": 5}]}}]}',
            "log.json: events[1]",
            "Expected `str | null`, got `int` - at `$.content.parts[0].text`",
        ),
        (
            '{"events": [{"content": {"parts": [{"functionResponse": {"parts": [{"x": 1}]}}]}}]}',
            "log.json: events[0].content.parts[0].functionResponse.parts[0]",
            "unknown field `x`",
        ),
        (
            '{"events": [{"id": "e", "author": "a"}, {"id": "e", "author": "b"}]}',
            "log.json: events[1].id",
            "two different events have the id `e`",
        ),
        ('{"state": {"d": ' + "[" * 1000 + "]" * 1000 + "}}", "log.json", "nests too deep"),
        ('{"events": [' + "[" * 9000 + "]" * 9000 + "]}", "log.json", "nests too deep"),
        (
            '{"state": {"d": ' + "[" * 300 + "]" * 300 + "}}",
            "log.json: state.d",
            f"nests deeper than {MAX_DEPTH} levels",
        ),
    ],
)
def test_bad_json_is_refused_by_file_index_and_field(
    data: str, where: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.json").write_text(data)
    with pytest.raises(SessionError) as caught:
        read_session(Path("log.json"))
    assert caught.value.where.startswith(where)
    assert message in caught.value.message


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SessionError, match="this is not a session"):
        Session.from_json(b'{"id": "\xff"}')


def test_a_file_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(SessionError, match=r"^no/such\.json: the session cannot be read"):
        read_session(Path("no/such.json"))


# What bad values get.


@pytest.mark.parametrize(
    ("build", "where"),
    [
        (lambda bad: Session(state={"k": [bad]}), "session.state.k[0]"),
        (lambda bad: compile_request(BOT, state={"k": bad}), "state.k"),
        (
            lambda bad: Session(
                events=[
                    make_event("user", "Hi", inv="i"),
                    make_event("bot", inv="i", writes={"k": bad}),
                ]
            ),
            "session.events[1].actions.stateDelta.k",
        ),
        (
            lambda bad: Session().append(make_event("bot", inv="i", writes={"k": bad})),
            "append[0].actions.stateDelta.k",
        ),
        (
            lambda bad: Session(events=exchange({"q": {"x": bad}}, {})),
            "session.events[1].content.parts[0].functionCall.args.q.x",
        ),
        (
            lambda bad: Session().append(*exchange({}, {"r": bad})),
            "append[2].content.parts[0].functionResponse.response.r",
        ),
        (
            lambda bad: compile_request(BOT, message=[call_part("look", {"q": bad})]),
            "message.parts[0].functionCall.args.q",
        ),
    ],
)
@pytest.mark.parametrize("bad", [object(), math.nan, math.inf, {1: 2}, b"x", {"s"}, nested(1000)])
def test_a_value_that_is_not_json_is_refused_where_it_enters(
    build: Callable[[object], object], where: str, bad: object
) -> None:
    with pytest.raises(SessionError) as caught:
        build(bad)
    assert caught.value.where.startswith(where)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Session(state=5), "an int is not a mapping"),  # type: ignore[arg-type]
        (lambda: Session(events=["Hi"]), "a str is not an event"),  # type: ignore[list-item]
        (lambda: Session().append({}), "a dict is not an event"),  # type: ignore[arg-type]
        (lambda: Session().before(1), "there is no event 1"),
        (lambda: Session().before(-1), "there is no event -1"),
        (lambda: compile_request(BOT, message=5), "an int is not a message"),  # type: ignore[arg-type]
        (lambda: compile_request(BOT, message=[5]), "is not part of a message"),  # type: ignore[list-item]
        (
            lambda: Session(events=[Event(content=Content(parts=("Hi",)))]),  # type: ignore[arg-type]
            "a str is not a part",
        ),
    ],
)
def test_what_is_no_event_or_message_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SessionError, match=message) as caught:
        build()
    assert caught.value.where
    assert caught.value.hint


def test_plain_json_is_made_of_what_is_nearly_json() -> None:
    session = Session(state={"t": (1, (2,))})  # type: ignore[dict-item]
    assert session.state == {"t": [1, [2]]}
    assert compile_request(BOT.instruct("{t[1][0]}"), session=session).system.endswith("2")


# S1: state.


def test_S1_state_is_the_fold_of_the_deltas() -> None:
    session = Session(state={"a": 1, "b": 1}).append(
        make_event("bot", inv="i", writes={"a": 2}),
        make_event("bot", inv="i", writes={"c": [1]}),
        make_event("bot", inv="i", writes={"b": None, "absent": None}),
    )
    assert session.state == {"a": 2, "c": [1]}
    assert session.before(2).state == {"a": 2, "b": 1, "c": [1]}
    assert session.before(0).state == {"a": 1, "b": 1}


def test_S1_a_tombstone_deletes_and_survives_the_json() -> None:
    session = Session(state={"a": 1}).append(make_event("bot", inv="i", writes={"a": None}))
    assert session.state == {}
    assert Session.from_json(session.to_json()).state == {}


@pytest.mark.parametrize(
    ("key", "scope"),
    [
        ("k", "session"),
        ("app:k", "app"),
        ("user:k", "user"),
        ("temp:k", "temp"),
        ("apple", "session"),
        ("other:k", "session"),
        ("", "session"),
    ],
)
def test_S1_a_prefix_is_a_scope(key: str, scope: str) -> None:
    assert scope_of(key) == scope


def test_S1_temp_lasts_as_long_as_its_invocation() -> None:
    first = Session(state={"k": "v"}).append(
        make_event("user", "Hi", inv="one"),
        make_event("bot", "Hello", inv="one", writes={"temp:t": 1, "user:u": 2}),
    )
    assert first.state == {"k": "v", "temp:t": 1, "user:u": 2}
    assert first.state_for("one") == first.state
    assert first.state_for("two") == {"k": "v", "user:u": 2}
    second = first.append(make_event("user", "And?", inv="two"))
    assert second.state == {"k": "v", "user:u": 2}
    assert second.before(2).state == first.state


def test_S1_temp_given_to_start_with_stays() -> None:
    session = Session(state={"temp:t": 1}).append(
        make_event("user", "Hi", inv="one", writes={"temp:t": 2}),
        make_event("user", "Hi", inv="two"),
    )
    assert session.state == {"temp:t": 1}


def test_S1_temp_is_never_stored() -> None:
    session = Session(state={"temp:a": 1, "k": 1}).append(
        make_event("bot", inv="i", writes={"temp:b": 1, "k": 2})
    )
    assert b"temp:" not in session.to_json()
    assert Session.from_json(session.to_json()).state == {"k": 2}


deltas = st.dictionaries(st.sampled_from(["a", "b", "app:c", "user:d"]), json_values, max_size=3)


@given(st.lists(deltas, max_size=6))
def test_S1_folding_step_by_step_equals_folding_at_once(changes: list[JsonObject]) -> None:
    session = Session("s", state={"a": 0})
    expected: JsonObject = {"a": 0}
    for change in changes:
        expected = apply_delta(expected, change)
        session = session.append(make_event("bot", inv="i", writes=change))
        assert session.state == expected
    assert None not in session.state.values()
    assert Session("s", state={"a": 0}, events=session.events).state == expected


# S2: append.


def test_S2_the_same_event_twice_is_stored_once() -> None:
    event = make_event("bot", "Hello", inv="i", writes={"k": 1})
    session = Session("s").append(event, event).append(event)
    assert len(session.events) == 1
    assert len(Session("s", events=[event, event]).events) == 1
    assert Session.from_json(session.to_json()).append(event) == session
    empty = Event(id="")
    assert len(Session("s").append(empty, empty).events) == 2


def test_S2_an_event_is_known_only_to_the_sessions_that_have_it() -> None:
    start = Session("s").append(make_event("user", "Hi", inv="i"))
    event = make_event("bot", "Hello", inv="i")
    one, other = start.append(event), start.append(make_event("bot", "Hey", inv="i"))
    assert list(start.append(event).events) == list(one.events)
    assert len(other.append(event).events) == 3
    assert len(one.before(1).append(event).events) == 2


def test_S2_partial_events_are_neither_stored_nor_applied() -> None:
    partial = Event(author="bot", partial=True, actions=Actions(state_delta={"k": 1}))
    session = Session("s")
    assert session.append(partial) is session
    assert Session("s", events=[partial]).state == {}
    streamed = Event(id="e", author="bot", partial=True)
    assert len(session.append(streamed, Event(id="e", author="bot")).events) == 1


def test_H4_partial_events_never_reach_the_model() -> None:
    partial = Event(
        author="bot", partial=True, content=Content(role="model", parts=(Part(text="par"),))
    )
    session = Session("s", events=[make_event("user", "Hi", inv="i"), partial])
    assert compile_request(BOT, session=session).wire["contents"] == [
        {"role": "user", "parts": [{"text": "Hi"}]}
    ]


@given(logs())
def test_S3_append_returns_a_new_session_and_leaves_the_old_one(events: list[Event]) -> None:
    complete = [event for event in events if not event.partial]
    sessions = [Session("s")]
    for event in events:
        sessions.append(sessions[-1].append(event))
    for count, session in enumerate(sessions):
        expected = [event for event in events[:count] if not event.partial]
        assert list(session.events) == expected
        assert session == Session("s", events=expected)
    for index in range(len(complete) + 1):
        assert sessions[-1].before(index) == Session("s", events=complete[:index])


def test_S3_a_session_is_apart_from_what_its_maker_does_later() -> None:
    items: list[Json] = [1]
    inner: dict[str, Json] = {"x": 1}
    delta = Actions(state_delta={"other": inner})
    session = Session(state={"list": items}).append(Event(author="bot", actions=delta))
    items.append(2)
    inner["x"] = 2
    assert session.state == {"list": [1], "other": {"x": 1}}


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(), max_size=3)), max_size=12))
def test_a_strand_grows_like_a_tuple_whatever_it_is_grown_from(
    steps: list[tuple[int, list[int]]],
) -> None:
    strands: list[Strand[int]] = [Strand([0, 1])]
    models: list[tuple[int, ...]] = [(0, 1)]
    for which, items in steps:
        at = which % len(strands)
        strand, model = strands[at], models[at]
        if which % 3 == 0:
            strands.append(strand.first(len(items)))
            models.append(model[: len(items)])
        elif which % 3 == 1:
            strands.append(strand.with_tail(items))
            models.append((*model, *items))
        else:
            strands.append(strand.extend(items))
            models.append((*model, *items))
        for made, expected in zip(strands, models, strict=True):
            assert tuple(made) == expected
            assert len(made) == len(expected)
            assert made == list(expected)
            assert list(made[1:]) == list(expected[1:])
            assert made.since(1) == list(expected[1:])
            if expected:
                assert (made[0], made[-1]) == (expected[0], expected[-1])


# H5 and sizes.


@given(logs())
def test_H5_compiling_never_changes_a_stored_event(events: list[Event]) -> None:
    session = Session("s", events=events)
    before = session.to_json()
    for agent in (BOT, Agent("helper", model="claude-sonnet-4-5")):
        compiled = compile_request(agent, session=session, message="And now?")
        for dialect in DIALECTS:
            compiled.lower(dialect)
        assert compiled.hash
        assert compiled.tokens
    assert session.to_json() == before


@pytest.mark.parametrize(
    "text", ["NUL \0 here", "half \ud83d", "\ude00 other half", "\ufeff\u200b"]
)
def test_odd_text_compiles_to_json_that_can_be_sent(text: str) -> None:
    events = [*exchange({"q": text}, {"r": text}), make_event("user", text, inv="i")]
    compiled = compile_request(BOT, session=Session("s", events=events), state={"intent": text})
    mended = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    for dialect in DIALECTS:
        body = json.dumps(compiled.lower(dialect), ensure_ascii=False)
        body.encode()
        assert json.dumps(mended, ensure_ascii=False) in body
    codes = {found.code for found in compiled.diagnostics}
    assert codes == ({"WEFT204"} if mended != text else set())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_deepest_value_a_session_takes_also_compiles(dialect: str) -> None:
    value = nested(MAX_DEPTH - 1)
    session = Session("s", events=exchange(value, value), state={"intent": value})
    assert Session.from_json(session.to_json()) == session
    compiled = compile_request(BOT, session=session)
    assert json.dumps(compiled.lower(dialect)).count("a") > 3 * MAX_DEPTH - 9
    assert sum(1 for _ in compiled.source_map(dialect).segments())
    assert compiled.hash
    assert compiled.tokens
    assert str(compiled.prompt)


def test_a_tool_result_of_ten_megabytes_stays_whole_in_the_log() -> None:
    large = "0123456789" * 1_000_000
    session = Session("s", events=exchange({}, {"result": large}))
    compiled = compile_request(BOT, session=session)
    for dialect in DIALECTS:
        assert len(json.dumps(compiled.lower(dialect))) < 50_000
    assert compiled.hash
    assert Session.from_json(session.to_json()) == session


def test_a_tool_that_is_not_compacted_sends_ten_megabytes() -> None:
    large = "0123456789" * 1_000_000

    @weft.tool(compact=False)
    def look() -> str:
        """Look."""
        return large

    session = Session("s", events=exchange({}, {"result": large}))
    compiled = compile_request(weft.Agent("bot", tools=[look]), session=session)
    for dialect in DIALECTS:
        assert large in json.dumps(compiled.lower(dialect))


def test_a_hundred_thousand_events_compile_in_one_go() -> None:
    events = [
        make_event("user" if n % 2 == 0 else "bot", f"message {n}", inv=f"i{n // 2}")
        for n in range(100_000)
    ]
    session = Session("s", events=events)
    contents = compile_request(BOT, session=session).wire["contents"]
    assert isinstance(contents, list)
    assert len(contents) in (100_000, 100_001)
    grown = compile_request(BOT, session=session.append(make_event("user", "last", inv="z"))).wire
    assert isinstance(grown["contents"], list)
    assert grown["contents"][-1] == {"role": "user", "parts": [{"text": "last"}]}


def test_a_compiled_session_is_copied_and_pickled_like_a_fresh_one() -> None:
    session = Session(
        "s",
        state={"intent": "x"},
        events=[
            make_event("user", "Hi", inv="i"),
            make_event("bot", "Yes", inv="i"),
        ],
    )
    before = compile_request(BOT, session=session)
    for again in (pickle.loads(pickle.dumps(session)), copy.deepcopy(session)):
        assert again == session
        assert compile_request(BOT, session=again).hash == before.hash


@pytest.mark.parametrize("data", [None, 5, {}, []])
def test_from_json_wants_text(data: object) -> None:
    with pytest.raises(SessionError, match="is not JSON text"):
        Session.from_json(data)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "where"),
    [
        (Event(author=None), "author"),  # type: ignore[arg-type]
        (Event(author="user", content="Hi"), "content"),  # type: ignore[arg-type]
        (Event(author="user", actions={}), "actions"),  # type: ignore[arg-type]
        (Event(author="user", actions=Actions(state_delta=None)), "actions.stateDelta"),  # type: ignore[arg-type]
        (make_event("user", Part(text=5), inv="i"), "content.parts[0].text"),  # type: ignore[arg-type]
        (
            make_event(
                "bot",
                Part(text="a", function_call=call_part("f", {}).function_call),
                inv="i",
                writes={},
            ),
            "content.parts[0]",
        ),
    ],
)
def test_an_ill_made_event_is_refused_where_it_enters(event: Event, where: str) -> None:
    with pytest.raises(SessionError) as caught:
        Session("s", events=[event])
    assert caught.value.where == f"session.events[0].{where}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("events", "unknown"),
    [
        ('[{"athor": "x"}]', "log.json: events[0] has unknown fields, which are kept: /athor"),
        ('[{}, {"content": {"parts": [{"txt": ""}]}}]', "/content/parts/0/txt"),
        ('[{"actions": {"state_deltas": {}}}]', "/actions/state_deltas"),
        ('[{"author": "\\ud83d"}, {"content": {"parts": [{"txt": ""}]}}]', "/content/parts/0/txt"),
    ],
)
def test_unknown_fields_are_kept_with_a_warning(
    events: str, unknown: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session.from_json(f'{{"events": {events}}}', name="log.json")
    assert unknown in caplog.text
    again = Session.from_json(session.to_json())
    assert again.events == session.events


# The quick check of values, held against the slow one.


class _Shout(str):
    """A text that is more than a text."""


_odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([2**MAX_BITS - 1, 2**MAX_BITS, -(2**MAX_BITS), 1.5, math.nan, -math.inf])
    | st.sampled_from(["", "a", "\ud83d", "\ud83d\ude00", _Shout("a"), b"x", {1}, object()]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from(["a", "b", 1, None, _Shout("c")]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_odd_values)
def test_what_the_quick_check_takes_for_json_is_json(value: object) -> None:
    if is_json(value):
        require_json(value, where="value")


@given(json_values)
def test_the_quick_check_takes_what_json_reads(value: Json) -> None:
    assert is_json(json.loads(json.dumps(value)))


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_the_quick_check_knows_how_deep_a_value_may_nest(wrap: Callable[[object], object]) -> None:
    value: object = 1
    for depth in range(MAX_DEPTH + 5):
        try:
            require_json(value, where="value")
        except SessionError:
            assert not is_json(value), depth
        else:
            assert is_json(value), depth
        value = wrap(value)


class _Undecided:
    """As an array is: whether it equals something has no answer."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value is ambiguous")

    __hash__ = None  # type: ignore[assignment]


_JSON_FIELDS = (
    "output", "node_info", "grounding_metadata", "citation_metadata", "cache_metadata",
    "logprobs_result", "avg_logprobs", "input_transcription", "output_transcription",
    "live_session_resumption_update", "go_away", "voice_activity",
)  # fmt: skip
_JSON_ACTIONS = ("agent_state", "route", "render_ui_widgets", "set_model_response")


@pytest.mark.parametrize("field", [*_JSON_FIELDS, *_JSON_ACTIONS])
def test_a_field_that_cannot_be_compared_is_refused_by_its_name(field: str) -> None:
    event = make_event("bot", "Hi")
    if field in _JSON_FIELDS:
        event = replace(event, **{field: _Undecided()})
    else:
        event = replace(event, actions=replace(Actions(), **{field: _Undecided()}))
    with pytest.raises(SessionError, match="is not a JSON value") as raised:
        Session("s").append(event)
    assert raised.value.where.startswith("append[0].")


def test_a_key_that_is_written_anew_has_no_label_of_a_field_any_more() -> None:
    note = FlowNote(keys={"order.note": TrustLabel(("web",))}).onto(None)
    first = replace(make_event("bot", writes={"order": {"note": "Hi"}}), custom_metadata=note)
    session = Session("s").append(first)
    assert session.label("order.note") == TrustLabel(("web",))
    assert session.append(make_event("bot", writes={"order": "Hi"})).label("order.note") is TRUSTED


_deltas = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.sampled_from([None, "yes", "no", ["yes"]]), max_size=3
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "bot"]), st.sampled_from(["yes", "no", ""]), _deltas)
    )
)
def test_the_facts_of_a_log_are_the_same_at_once_and_step_by_step(
    told: list[tuple[str, str, JsonObject]],
) -> None:
    events = [
        make_event(author, *([text] if text else []), writes=delta) for author, text, delta in told
    ]
    grown = LogFacts()
    for event in events:
        grown = grown.after([event])
    assert LogFacts().after(events) == grown
