"""Recordings of other programs are read by their shape, and compile back to what was sent."""

import json
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

import weft
from weft import Agent, C, Session
from weft.errors import SessionError, UsageError
from weft.recordings import FORMATS, Recording, files_in, from_messages, read_file, read_recordings
from weft.recordings.read import DOCUMENTS
from weft.recordings.recording import AGENT, IMPORTED
from weft.recordings.spans import FLAVOURS
from weft.replay.replay import requests_of
from weft.values import Json, JsonObject

SAMPLES = Path(__file__).parent / "samples"

CHAT, RESPONSES = "openai-chat/gpt-4o-mini", "openai-responses/gpt-5-mini"
GEMINI = "gemini/gemini-2.5-flash"


def sample(name: str) -> list[Recording]:
    return list(read_file(SAMPLES / name))


def sent(recording: Recording, model: str = "") -> JsonObject:
    """The last request of a recording, compiled again; one to come where the user spoke last."""
    content = recording.session.events[-1].content
    if content is not None and content.role == "user" and not recording.asks:
        recording = recording._replace(asks=AGENT)
    asked = model or recording.asked_model
    requests = list(requests_of(recording, C.default(), model=asked, as_recorded=True))
    return requests[-1][2].wire


def differences(one: Json, other: Json, at: str = "") -> Iterator[str]:
    """Where two requests differ; null says no more than nothing, one text part is its text."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{at}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{at}/{index}")
    elif _plain(one) != _plain(other):
        yield at


def _plain(value: Json) -> Json:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0].get("text", value)
    if isinstance(value, str) and value.startswith("{"):
        return cast("Json", json.loads(value))
    return value


EXPECTED = [
    # sample, format, model, request, differences by name
    ("openai-chat.json", "openai-chat", "", "openai-chat.json", []),
    ("openai-responses.json", "openai-responses", "", "openai-responses.json", []),
    ("anthropic.json", "anthropic", "", "anthropic.json", []),
    ("gemini.json", "gemini", GEMINI, "gemini.json", []),
    # an empty text beside a call is no text; a result is paired by its id
    *(
        (name, "langchain", CHAT, "langchain.request.json",
         ["/messages/2/content", "/messages/3/name"])
        for name in ("langchain.json", "langchain-flat.json", "langchain-lc.json")
    ),
    ("pydantic-ai.json", "pydantic-ai", CHAT, "pydantic-ai.request.json", []),
    ("openai-agents.json", "openai-responses", RESPONSES, "openai-agents.request.json", []),
    ("openai-agents.db", "openai-responses", RESPONSES, "openai-agents.request.json", []),
    # written by @openai/agents 0.20.0, which says that a result is completed
    ("openai-agents-js.json", "openai-responses", RESPONSES, "openai-agents-js.request.json",
     ["/input/3/status", "/input/6/status", "/input/8/content/0/annotations"]),
    ("adk-events.json", "adk", GEMINI, "adk.request.json", []),
    ("adk.db", "adk", GEMINI, "adk.request.json", []),
    ("adk-v0.db", "adk", GEMINI, "adk.request.json", []),
    ("claude-code.jsonl", "claude-code", "", "claude-code.request.json", []),
    # custom calls are read as function calls, and are set aside by name
    ("codex.jsonl", "codex", "", "codex.request.json",
     ["/input/5/arguments", "/input/5/input", "/input/5/status", "/input/5/type", "/input/6/type"]),
    ("bedrock.json", "bedrock", "", "anthropic.json", []),
    *(
        (name, "vercel", CHAT, "langchain.request.json",
         ["/messages/2/content", "/messages/3/name"])
        for name in ("vercel.json", "vercel-ui.json")
    ),
    # the export has no system text
    ("opencode.json", "opencode", CHAT, "opencode.request.json", []),
    ("langfuse.jsonl", "langfuse", CHAT, "langchain.request.json",
     ["/messages/2/content", "/messages/3/name"]),
]  # fmt: skip


WITHOUT_REQUEST = {
    "plain", "weft", "openai-agents", "copilot-cli", "crush", "cursor", "droid", "gptme",
    "kimi-cli", "kimi-code", "pi", "qwen-code", "autogen", "agent-framework",
    *(one.name for one in DOCUMENTS), *(one.name for one in FLAVOURS),
}  # fmt: skip
"""Formats of no provider's request, which `shapes.py` has; the items of openai-agents are those of
openai-responses."""


def test_every_format_has_a_sample_and_is_on_the_page() -> None:
    assert {row[1] for row in EXPECTED} == set(FORMATS) - WITHOUT_REQUEST, "EXPECTED lists samples"
    page = (Path(__file__).parents[2] / "docs" / "recordings.md").read_text("utf-8")
    assert not [name for name in FORMATS if f"`{name}`" not in page]


@pytest.mark.parametrize(
    ("name", "format", "model", "request_name", "known"), EXPECTED, ids=[row[0] for row in EXPECTED]
)
def test_a_recording_compiles_back_to_the_request_that_was_sent(
    name: str, format: str, model: str, request_name: str, known: list[str]
) -> None:
    recording = sample(name)[0]
    assert recording.format == format
    expected = json.loads((SAMPLES / request_name).read_text())
    wire = sent(recording, model)
    if "model" not in expected:  # only the messages were recorded
        wire = {key: value for key, value in wire.items() if key in expected}
    assert list(differences(expected, wire)) == known


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_a_list_of_messages_and_lines_of_them_say_the_same_as_the_request(name: str) -> None:
    request = json.loads((SAMPLES / f"{name}.json").read_text())
    key = next(key for key in ("messages", "input", "contents") if key in request)
    messages = request[key]
    lined = "\n".join(map(json.dumps, messages)).encode()
    whole = from_messages(request)
    for other in (from_messages(messages), *read_recordings(lined, name="lines")):
        assert other.format == name
        texts = [event.content for event in other.session.events]
        assert texts == [event.content for event in whole.session.events]
    batch = json.dumps({"custom_id": "row-7", "method": "POST", "url": "/v1", "body": request})
    (row,) = read_recordings(batch.encode(), name="batch.jsonl")
    assert row.id == "row-7"
    assert row.session.events == whole.session.events


def test_an_answer_recorded_beside_its_request_is_the_last_event_with_its_usage() -> None:
    request = json.loads((SAMPLES / "anthropic.json").read_text())
    response = {
        "id": "msg_9", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Rain."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 90},
    }  # fmt: skip
    recording = from_messages({"request": request, "response": response})
    last = recording.session.events[-1]
    assert last.text == "Rain."
    assert last.usage is not None
    assert last.usage.cached_content_token_count == 90
    assert not recording.asks


# transcripts


def test_a_transcript_keeps_the_thread_and_names_everything_else() -> None:
    main, side = sample("claude-code.jsonl")
    assert side.id == f"{main.id}/1"
    assert [event.text for event in side.session.events] == [
        "Look for other minus signs", "There are none.",
    ]  # fmt: skip
    texts = [event.text for event in main.session.events]
    assert "No, go on" not in texts
    left = {one.what: one for one in main.aside}
    assert left["`user` message"].places == ("claude-code.jsonl:12",)
    assert left["`toolUseResult`"].count == 3
    assert "line `file-history-snapshot`" in left
    first = main.session.events[1]
    assert [call.id for call in first.calls] == ["toolu_1", "toolu_2"]
    assert first.usage is not None
    assert first.usage.prompt_token_count == 12_904
    assert first.usage.cached_content_token_count == 12_000
    assert first.provenance.cache_write == 900


def test_a_result_between_two_pieces_of_an_answer_does_not_part_them() -> None:
    rows = (SAMPLES / "claude-code.jsonl").read_text().splitlines()
    swapped = [*rows[:6], rows[7], rows[6], *rows[8:]]  # the first result comes before the call
    (main, _), (other, _) = (
        list(read_recordings("\n".join(lines).encode(), name="t.jsonl"))
        for lines in (rows, swapped)
    )
    assert sent(other) == sent(main)


def test_a_compacted_transcript_sends_the_summary_instead_of_what_it_covers() -> None:
    rows = (SAMPLES / "claude-code.jsonl").read_text()
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "c0", "parentUuid": None,
                "logicalParentUuid": "u2", "timestamp": "2026-03-01T11:00:00.000Z"}  # fmt: skip
    summary = {"type": "user", "uuid": "c1", "parentUuid": "c0", "isCompactSummary": True,
               "message": {"role": "user", "content": "So far: add() was fixed."},
               "timestamp": "2026-03-01T11:00:01.000Z"}  # fmt: skip
    asked = {"type": "user", "uuid": "c2", "parentUuid": "c1",
             "message": {"role": "user", "content": "What is next?"},
             "timestamp": "2026-03-01T11:00:02.000Z"}  # fmt: skip
    data = rows + "".join(json.dumps(row) + "\n" for row in (boundary, summary, asked))
    main = next(iter(read_recordings(data.encode(), name="t.jsonl")))
    text = json.dumps(sent(main)["messages"])
    assert "So far: add() was fixed." in text
    assert "What is next?" in text
    assert "return a - b" not in text
    assert any("return a - b" in str(event.content) for event in main.session.events)


def test_a_rollout_has_its_model_its_instructions_and_its_tokens() -> None:
    (rollout,) = sample("codex.jsonl")
    assert rollout.model == "gpt-5-codex"
    assert rollout.instructions[AGENT] == "You fix programs."
    counted = [event.usage.prompt_token_count for event in rollout.session.events if event.usage]
    assert counted == [3000, 3100, 3200]
    old = '{"id": "old", "timestamp": "2025-06-01T00:00:00Z", "instructions": "You fix."}\n'
    old += (
        '{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}\n'
    )
    old += '{"record_type": "state"}\n'
    (first_form,) = read_recordings(old.encode(), name="old.jsonl")
    assert (first_form.id, first_form.format) == ("old", "codex")
    assert [str(one.what) for one in first_form.aside] == ["record `state`"]


# google-adk's database


def test_a_database_gives_its_sessions_with_their_owners_and_state() -> None:
    (recording,) = sample("adk.db")
    session = recording.session
    assert (session.app_name, session.user_id, session.id) == ("desk", "ann", "trip")
    assert session.state == {"city": "Oslo", "user:name": "Ann", "answer": "It rains there too."}
    assert [event.author for event in session.events] == [
        "user", "weather", "weather", "weather", "user", "weather",
    ]  # fmt: skip


class Evil:
    """What runs code when a pickle of it is opened."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> object:
        return (Path.touch, (self.target,))


def test_pickled_actions_are_named_and_never_opened(tmp_path: Path) -> None:
    database = tmp_path / "old.db"
    database.write_bytes((SAMPLES / "adk-v0.db").read_bytes())
    target = tmp_path / "opened"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE events SET actions = ?", (pickle.dumps(Evil(target)),))
    connection.close()
    (recording,) = read_file(database)
    assert not target.exists()
    (aside,) = recording.aside
    assert (aside.what, aside.count) == ("pickled actions", 6)
    assert [event.text for event in recording.session.events][-1] == "It rains there too."


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP TABLE events", "there is no table `events`"),
        ("DELETE FROM sessions", "there is no session in it"),
        ("UPDATE events SET event_data = '{'", "this is not JSON"),
    ],
)
def test_a_database_that_is_not_adks_is_named(statement: str, message: str, tmp_path: Path) -> None:
    database = tmp_path / "some.db"
    database.write_bytes((SAMPLES / "adk.db").read_bytes())
    with sqlite3.connect(database) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(SessionError) as caught:
        list(read_file(database))
    assert message in caught.value.message
    assert "some.db" in caught.value.where
    cut = tmp_path / "cut.db"
    cut.write_bytes((SAMPLES / "adk.db").read_bytes()[:5000])
    with pytest.raises(SessionError, match="cannot be read"):
        list(read_file(cut))


# Session.from_messages


def test_a_session_from_messages_goes_on_in_a_run() -> None:
    from weft.testing import ScriptedModel

    messages = json.loads((SAMPLES / "openai-chat.json").read_text())["messages"]
    session = Session.from_messages(messages, agent="bot")
    note = cast("JsonObject", (session.events[0].custom_metadata or {})[IMPORTED])
    assert note["format"] == "openai-chat"
    assert note["system"] == {"bot": "You help with weather."}
    model = ScriptedModel(["It is dry."], dialect="anthropic")
    result = weft.run_sync(Agent("bot", model=model), "And Rome?", session=session)
    assert result.text == "It is dry."
    text = json.dumps(model.wires[-1])
    assert "Weather in Oslo?" in text
    assert "tool_result" in text
    assert "imported" not in text


def test_objects_that_dump_themselves_are_messages_too() -> None:
    from openai.types.chat import ChatCompletionMessage

    said = ChatCompletionMessage(role="assistant", content="It rains.")
    session = Session.from_messages([{"role": "user", "content": "Weather?"}, said])
    assert [event.text for event in session.events] == ["Weather?", "It rains."]


@pytest.mark.parametrize(
    ("messages", "where", "message"),
    [
        ([], "messages", "there is no recording in it"),
        ({"messages": []}, "messages", "there is no message in it"),
        ("", "messages", "there is no recording in it"),
        ('{"messages": [', "messages:1", "this is not JSON"),
        ([{"role": "user", "content": "a"}, "b"], "messages: messages[1]", "message is an object"),
        ([{"role": "user", "content": "a"}, {"speaker": "b"}], "messages: messages[1]", "1 of 2"),
        ([{"type": "human", "content": "a"}, {"type": "alien", "content": "b"}],
         "messages: messages[1]", "1 of 2 messages are langchain's"),
        ([{"kind": "request", "parts": []}], "messages", "there is no message in it"),
        ([object()], "messages[0]", "an object is not a message"),
        ([{"author": "bot", "content": 3}], "messages: events[0]", "this is not an event"),
        ([[{"role": "user", "content": "a"}]] * 2, "messages", "there are 2 recordings"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(messages: object, where: str, message: str) -> None:
    with pytest.raises(SessionError) as caught:
        Session.from_messages(messages)
    assert caught.value.where == where
    assert message in caught.value.message


def test_an_unknown_format_has_a_nearest_name() -> None:
    with pytest.raises(UsageError) as caught:
        Session.from_messages([{"role": "user", "content": "a"}], format="antropic")
    assert "did you mean 'anthropic'" in caught.value.hint
    named = Session.from_messages([{"role": "user", "content": "a"}], format="anthropic")
    note = cast("JsonObject", (named.events[0].custom_metadata or {})[IMPORTED])
    assert note["format"] == "anthropic"
    assert "claude-code" in FORMATS


def test_a_torn_last_line_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    for name in ("claude-code.jsonl", "codex.jsonl"):
        text = (SAMPLES / name).read_text()
        whole, torn = sample(name)[0], tmp_path / name
        torn.write_text(text + text.splitlines()[-1][:-40])
        read = next(read_file(torn))
        assert read.session.events == whole.session.events
        (last,) = [one for one in read.aside if one.what == "last line"]
        assert "it is torn" in last.why
        assert last.places == (f"{name}:{len(text.splitlines()) + 1}",)


def test_a_torn_line_within_a_conversation_is_an_error_with_its_place(tmp_path: Path) -> None:
    lines = (SAMPLES / "claude-code.jsonl").read_text().splitlines()
    torn = tmp_path / "t.jsonl"
    torn.write_text("\n".join([*lines[:2], lines[2][:-40], *lines[3:]]))
    with pytest.raises(SessionError, match="this is not JSON") as caught:
        list(read_file(torn))
    assert caught.value.where == "t.jsonl:3"


def test_a_broken_line_between_recordings_does_not_lose_the_others() -> None:
    chat = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
    read: list[str] = []
    recordings = read_recordings("\n".join([chat, '{"mess', chat]).encode(), name="f.jsonl")
    with pytest.raises(SessionError) as caught:
        read.extend(one.source for one in recordings)
    assert read == ["f.jsonl:1", "f.jsonl:3"]
    assert caught.value.where == "f.jsonl:2"


STREAMS = cast("dict[str, list[JsonObject]]", json.loads((SAMPLES / "streams.json").read_text()))
"""The chunks of one streamed answer by dialect."""


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_streamed_answer_is_put_together_in_whatever_form_it_was_recorded(
    dialect: str,
) -> None:
    chunks = STREAMS[dialect]
    request = json.loads((SAMPLES / f"{dialect}.json").read_text())
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    forms: list[tuple[str, Json]] = [
        ("response", cast("Json", chunks)),
        ("response", text),
        ("response", text.replace("\n", "\r\n")),
        ("response", [line for line in text.splitlines() if line]),
        ("response", [{"event": str(one.get("type", "")), "data": one} for one in chunks]),
        ("response", {"status": 200, "headers": {}, "body": text}),
        ("response", {"status_code": 200, "body": {"string": text + "data: [DONE]\n\n"}}),
        ("stream", text),
        ("chunks", cast("Json", chunks)),
    ]
    for field, form in forms:
        recording = from_messages({"dialect": dialect, "request": request, field: form})
        last = recording.session.events[-1]
        assert last.author == AGENT
        assert [part.text for part in (last.content or weft.Content()).parts or ()] == ["It rains."]
        assert not [one for one in recording.aside if one.what == "answer"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (STREAMS["anthropic"][:3], "the stream was cut off before its end"),
        ("no stream at all", "it is neither JSON nor a stream of events: no stream at all"),
        ([1, 2], "a chunk of its stream is not an object: 1"),
        (7, "an int is not an answer"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "busy"),
    ],
)
def test_an_answer_that_cannot_be_read_is_named(answer: Json, why: str) -> None:
    request = json.loads((SAMPLES / "anthropic.json").read_text())
    recording = from_messages({"request": request, "response": answer, "score": 0.5})
    named = {one.what: one for one in recording.aside}
    assert why in named["answer"].why
    assert named["answer"].places == ("messages: response",)
    assert "`score` next to the request" in named
    assert recording.asks == AGENT


def test_the_model_of_a_recorded_call_may_stand_in_its_address() -> None:
    request = json.loads((SAMPLES / "gemini.json").read_text())
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    assert from_messages({"request": request, "path": path}).asked_model == GEMINI


def test_media_whose_base64_is_broken_are_named_and_not_sent() -> None:
    broken, sound = "!!not base64!!", "iVBORw0KGgo="
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": sound},
    }
    bad = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": broken}}
    anthropic = [
        {"role": "user", "content": [{"type": "text", "text": "See"}, image, bad]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [bad]}],
        },
    ]
    recording = from_messages(anthropic)
    assert [(one.what, one.places) for one in recording.aside] == [
        ("media (image/png)", ("messages: messages[0]",)),
        ("media (image/png) of a result", ("messages: messages[2]",)),
    ]
    assert broken not in json.dumps(sent(recording, "anthropic/claude-sonnet-4-5"))
    assert sound in json.dumps(sent(recording, "anthropic/claude-sonnet-4-5"))
    parts = [{"text": "See"}, {"inlineData": {"mimeType": "image/png", "data": broken}}]
    adk = from_messages([{"author": "user", "content": {"role": "user", "parts": parts}}])
    assert [one.places for one in adk.aside] == [("messages: events[0]",)]


def test_halves_of_characters_and_numbers_that_are_none_are_mended_by_name() -> None:
    text = b'[{"role": "user", "content": "a \\ud83d b", "score": NaN}]'
    (recording,) = read_recordings(text, name="x.json")
    assert {(one.what, one.places) for one in recording.aside} == {
        ("half a character", ("x.json:1[0].content",)),
        ("number NaN", ("x.json:1",)),
    }
    said = (recording.session.events[0].content or weft.Content()).parts or ()
    assert [part.text for part in said] == ["a \ufffd b"]
    (wide,) = read_recordings('[{"role": "user", "content": "ø"}]'.encode("utf-16"), name="x")
    assert wide.session.events
    with pytest.raises(SessionError, match="this is not UTF-8"):
        list(read_recordings(b'[{"role": "user", "content": "\xff"}]', name="x"))


def test_a_database_of_openai_agents_has_a_session_for_each_id(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    path.write_bytes((SAMPLES / "openai-agents.db").read_bytes())
    with closing(sqlite3.connect(path)) as database:
        items = "SELECT 'other', message_data FROM agent_messages WHERE id < 3"
        database.execute(f"INSERT INTO agent_messages (session_id, message_data) {items}")
        database.commit()
        trip, other = read_file(path)
        assert (trip.id, other.id) == ("trip", "other")
        assert len(other.session.events) == 2 < len(trip.session.events)
        database.execute("UPDATE agent_messages SET message_data = '{torn' WHERE id = 2")
        database.commit()
    with pytest.raises(SessionError) as caught:
        list(read_file(path))
    assert "agent_messages 2" in caught.value.where


def test_a_broken_session_of_a_database_does_not_lose_the_others(tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    path.write_bytes((SAMPLES / "adk.db").read_bytes())
    with closing(sqlite3.connect(path)) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(sessions)")]
        ids = ", ".join("'torn'" if name == "id" else name for name in columns)
        database.execute(f"INSERT INTO sessions SELECT {ids} FROM sessions LIMIT 1")
        columns = [row[1] for row in database.execute("PRAGMA table_info(events)")]
        ids = ", ".join(
            {"id": "'e'", "session_id": "'torn'", "event_data": "'{'"}.get(name, name)
            for name in columns
        )
        database.execute(f"INSERT INTO events SELECT {ids} FROM events LIMIT 1")
        database.commit()
    read: list[str] = []
    with pytest.raises(SessionError, match="this is not JSON") as caught:
        read.extend(one.id for one in read_file(path))
    assert read == [one.id for one in sample("adk.db")]
    assert "session torn, event 0" in caught.value.where


def test_fields_that_no_event_has_are_named() -> None:
    for messages in (
        [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}], "rating": 5}],
        [{"role": "user", "parts": [{"text": "a"}], "rating": 5}],
        [{"type": "human", "data": {"content": "a", "rating": 5}}],
        [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "a"}], "rating": 5}],
    ):  # fmt: skip
        assert "`rating` of a message" in [one.what for one in from_messages(messages).aside]


def test_nothing_of_a_framework_is_lost_without_a_word() -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "sparkles", "x": 1},
        {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"},
    ]
    ai = {"type": "ai", "content": "", "additional_kwargs": {"odd": 1},
          "invalid_tool_calls": [{"name": "f", "args": "{", "id": "c", "error": "x"}]}  # fmt: skip
    recording = from_messages([{"type": "human", "content": parts}, ai])
    assert [one.what for one in recording.aside] == [
        "content block `sparkles`", "`error` of an invalid call", "`additional_kwargs.odd`",
    ]  # fmt: skip
    kinds = [
        part.kind for part in (recording.session.events[0].content or weft.Content()).parts or ()
    ]
    assert kinds == ["text", "media"]
    assert recording.session.events[1].calls[0].args == {"arguments": "{"}


def test_folders_and_globs_are_searched(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.json", "in/b.jsonl", "notes.txt"):
        (tmp_path / name).write_text("{}")
    assert [path.name for path in files_in([tmp_path])] == ["a.json", "b.jsonl"]
    assert [path.name for path in files_in([tmp_path / "*.json"])] == ["a.json"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SessionError, match="no file in this folder"):
        files_in([tmp_path / "empty"])
    with pytest.raises(SessionError, match="there is no such file"):
        files_in([tmp_path / "none.json"])


@pytest.mark.parametrize(
    ("dialect", "tools"),
    [
        ("openai-chat", [{"type": "function", "function": {
            "name": "look", "description": "Look.", "strict": True,
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}]),
        ("openai-responses", [
            {"type": "web_search"},
            {"type": "function", "name": "look", "description": "Look.", "strict": True,
             "parameters": {"type": "object", "properties": {}}}]),
        ("anthropic", [
            {"name": "look", "description": "Look.", "defer_loading": True,
             "input_schema": {"type": "object", "properties": {}}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]),
        ("gemini", [{"functionDeclarations": [{
            "name": "look", "description": "Look.",
            "parametersJsonSchema": {"type": "object", "properties": {}}}]}]),
    ],
)  # fmt: skip
def test_tools_come_back_as_they_were_declared(dialect: str, tools: list[Json]) -> None:
    request = {**json.loads((SAMPLES / f"{dialect}.json").read_text()), "tools": tools}
    recording = from_messages({"dialect": dialect, "request": request})
    assert sent(recording, GEMINI if dialect == "gemini" else "")["tools"] == tools
    assert [tool.name for tool in recording.tools] == ["look"]  # an agent's own runs it again


def test_what_has_another_form_when_it_comes_back_is_named() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    calls = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "name": "look", "content": "rain"}
    chat = from_messages([{"role": "user", "content": "Hi"}, calls, result, calls, result])
    assert [(one.what, one.places) for one in chat.aside] == [
        ("id of a call", ("messages: messages[3]",)),
    ]
    results = [one for one in cast("list[JsonObject]", sent(chat, CHAT)["messages"])
               if one["role"] == "tool"]  # fmt: skip
    assert [one["name"] for one in results] == ["look", "look"]
    elsewhere = cast("list[JsonObject]", sent(chat, "anthropic/claude-sonnet-5")["messages"])
    assert "name" not in str([one for one in elsewhere if one["role"] == "user"])
    gemini = from_messages([
        {"role": "model", "parts": [{"text": "Hello"}]},
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "user", "parts": [{"text": "b"}]},
    ])  # fmt: skip
    assert [one.what for one in gemini.aside] == [
        "beginning without the user", "border of two turns of one side",
    ]  # fmt: skip
