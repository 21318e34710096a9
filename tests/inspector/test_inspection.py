"""What the inspector shows is what was sent: every request, every character, every pass."""

import asyncio
import hashlib
import itertools
import json
import random
import re
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

from tests.inspector.sessions import find_flights, inspected, travelled
from weft import Actions, Agent, C, Policy, RunConfig, Runner
from weft.compiler.report import SentRow
from weft.content import (
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    call_part,
    result_part,
    to_content,
)
from weft.dialects.wire import object_in, objects_in
from weft.errors import DeclarationError, ModelError, UsageError
from weft.inspector import Inspection, Variant, questions
from weft.inspector.export import PAGE, export
from weft.inspector.inspection import REHEARSED
from weft.inspector.request import RequestView, row_json
from weft.inspector.sources import StoredSessions, key_text
from weft.inspector.trust import describe_trust
from weft.recordings import read_file, recording_of
from weft.recordings.read import read_recordings
from weft.replay.replay import replay, uses_of
from weft.replay.steps import at_step, compile_before, model_events
from weft.session import Event, MemoryStore, Session, SessionKey
from weft.testing import ScriptedModel, call, make_session, usage
from weft.values import JsonObject, compact


def test_rebuilt_requests_are_those_that_were_sent() -> None:
    inspection, sent = inspected()
    assert len(inspection.steps) == len(sent) == 12
    for step, wire in zip(inspection.steps, sent, strict=True):
        assert step.request is not None
        assert step.request.wire == wire


def test_segments_cover_the_request_and_name_the_origin_of_each_character() -> None:
    inspection, _ = inspected()
    rng = random.Random(7)
    for number in (1, 5, 12):
        request = inspection.request(number)
        view = RequestView(inspection, number).to_json()
        text, segments, origins = view["text"], view["segments"], view["origins"]
        assert text == compact(request.wire)
        ends = [end for end, _, _ in segments]
        assert ends == sorted(ends)
        assert ends[-1] == len(text)
        whole = list(request.source_map().segments())
        for at in rng.sample(range(len(text)), 100):
            shown = next(row for row in segments if at < row[0])
            known = next(segment for segment in whole if segment.start <= at < segment.end)
            assert origins[shown[1]]["words"] == str(known.origin)
            assert view["pointers"][shown[2]] == known.pointer


def test_frames_add_up_and_say_what_plain_history_would_take() -> None:
    inspection, _ = inspected()
    film, ghosts = inspection.film(), inspection.ghosts()
    for frame, ghost in zip(film["frames"], ghosts, strict=True):
        assert sum(frame["sources"].values()) == frame["tokens"]
        assert ghost["tokens"] >= frame["tokens"]
    assert ghosts[-1]["tokens"] > 1.5 * film["frames"][-1]["tokens"]
    assert film["session"]["steps"] == 12
    assert film["frames"][0]["calls"][0]["name"] == "find_flights"


@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_frames_say_what_the_report_says_of_every_source(dialect: str) -> None:
    def speaker(name: str, *script: object) -> Agent:
        model = ScriptedModel([*script], dialect=dialect)
        return Agent(name, model=model, instruction=f"You are {name}. " * 30, tools=[find_flights])

    searching = [speaker(name, call("find_flights", city=name), "Yes.") for name in ("a", "b")]
    runner = Runner((searching[0] | searching[1]) >> speaker("judge", "Go."))

    async def talk() -> Session:
        await runner.run("Where to go?", session_id="s")
        return await runner.session(session_id="s")

    inspection = Inspection(runner.root, asyncio.run(talk()))
    for frame in inspection.film()["frames"]:
        request = inspection.request(frame["number"])
        reported: dict[str, int] = {}
        for row in request.explain().sent:
            reported[row.source] = reported.get(row.source, 0) + row.tokens
        assert sum(frame["sources"].values()) == frame["tokens"] == request.tokens
        assert {*frame["sources"]} == {name for name, tokens in reported.items() if tokens}
        for source, tokens in frame["sources"].items():
            assert abs(tokens - reported[source]) <= 12, source


def test_declarations_are_found_with_file_and_line() -> None:
    inspection, _ = inspected()
    origins = RequestView(inspection, 1).to_json()["origins"]
    by_words = {origin["words"].partition(":")[0]: origin for origin in origins}
    place = by_words["traveller.tools.find_flights"]["place"]
    file, _, line = place.rpartition(":")
    with open(file) as source:
        assert "def find_flights" in "".join(source.readlines()[int(line) - 1 : int(line) + 1])
    assert re.search(r"sessions\.py:\d+$", by_words["traveller.instruction"]["place"])
    assert by_words["state seat"]["kind"] == "state"


def test_left_out_says_what_by_which_pass_and_at_what_price() -> None:
    inspection, _ = inspected()
    rows = RequestView(inspection, 12).to_json()["left_out"]
    assert any(row["pass"] == "select_window" and "City0" in row["text"] for row in rows)
    assert [row["tokens"] for row in rows] == sorted((row["tokens"] for row in rows), reverse=True)
    chains = RequestView(inspection, 12).chains()
    first = inspection.session.events[0].id
    assert chains[first][0]["after"] is None
    assert "City0" in chains[first][0]["before"]


def test_forcing_an_event_in_puts_it_back() -> None:
    inspection, _ = inspected()
    first = inspection.session.events[0]
    answer = questions.force_in(inspection, 12, [first.id])
    assert "Fly me to City0" not in RequestView(inspection, 12).text
    assert "Fly me to City0" in answer["view"]["text"]
    assert answer["tokens"] > answer["tokens_now"]


def test_forcing_in_rebuilds_the_step_and_the_one_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inspection, _ = inspected()
    first = inspection.session.events[0]
    inspection.request(12)
    rebuilt: list[Event] = []

    def count(event: Event, *args: object, **options: object) -> object:
        rebuilt.append(event)
        return compile_before(event, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("weft.replay.steps.compile_before", count)
    questions.force_in(inspection, 12, [first.id])
    assert rebuilt == [step.event for step in inspection.steps[-2:]]


def test_what_if_is_what_the_compiler_makes_of_it() -> None:
    agent, session, _ = _travelled()
    inspection = Inspection(agent, session)
    for variant, policy in (
        (Variant(window=1), C.window(1)),
        (Variant(policy="C.default()"), C.default()),
        (Variant(policy="C.auto()", budget=4000), C.auto().budget(4000)),
    ):
        answer = questions.what_if(inspection, 11, variant)
        own = Inspection(agent.sees(policy), session).request(11)
        assert answer["view"]["text"] == compact(own.wire)
        assert answer["tokens"] == own.tokens
        assert str(policy) in answer["code"]


@pytest.mark.parametrize("policy", [*REHEARSED, "C.default().budget(1_600)"])
def test_a_rehearsed_what_if_is_the_one_that_is_worked_out_when_asked(policy: str) -> None:
    variant = Variant(policy=policy)
    asked, rehearsed = inspected()[0], inspected()[0]
    rehearsed.session = asked.session
    assert len(list(rehearsed.rehearse(variant))) == 12
    assert list(rehearsed.rehearse(variant)) == []
    for number in (1, 2, 7, 12):
        cold = questions.what_if(asked, number, variant)
        assert questions.what_if(rehearsed, number, variant) == cold
    assert questions.compare(rehearsed, variant) == questions.compare(asked, variant)
    rehearsed.forget_rehearsed()
    assert questions.what_if(rehearsed, 12, variant) == cold


def test_a_what_if_after_a_rehearsal_weighs_no_note_again(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = Variant(policy="C.window(3)")
    inspection, asked = inspected()[0], inspected()[0]
    asked.session = inspection.session
    assert not list(inspection.explain_last(variant)), "nothing was rehearsed yet"
    assert list(inspection.rehearse(variant))
    assert list(inspection.explain_last(variant))
    expected = questions.what_if(asked, 12, variant)
    assert expected["view"]["left_out"], "there are notes to weigh"
    monkeypatch.setattr("weft.compiler.explain._left_out", None)
    assert questions.what_if(inspection, 12, variant) == expected


def test_what_if_refuses_what_is_no_policy() -> None:
    inspection, _ = inspected(1)
    with pytest.raises(UsageError, match="no step 99"):
        inspection.request(99)
    with pytest.raises(DeclarationError):
        questions.what_if(inspection, 1, Variant(policy="__import__('os')"))


def test_comparing_policies_over_the_whole_session() -> None:
    inspection, _ = inspected()
    both = questions.compare(inspection, Variant(policy="C.default()"))
    assert both["then"]["session"]["tokens"] > both["now"]["session"]["tokens"]
    assert len(both["then"]["frames"]) == 12


def test_what_a_provider_counted_of_one_request_is_not_held_of_another() -> None:
    script = [usage(f"Answer {n}. " + "text " * 400, prompt=9_000, output=9) for n in range(8)]
    model = ScriptedModel(script, name="claude-opus-5", dialect="anthropic")
    agent = Agent("a", model=model, instruction="Be brief. " * 400)
    runner = Runner(agent)

    async def talk() -> Session:
        for n in range(8):
            await runner.run(f"Question {n}?", session_id="s")
        return await runner.session(session_id="s")

    inspection = Inspection(agent, asyncio.run(talk()))
    shorter = questions.compare(inspection, Variant(window=1))["then"]
    for frame in shorter["frames"][1:]:
        scale = 9_000 / inspection.request(frame["number"] - 1).tokens
        assert frame["cached"] <= frame["tokens"] * scale * 1.01
    alone = questions.what_if(inspection, 8, Variant(window=1))
    assert alone["cached"] == shorter["frames"][-1]["cached"]
    assert alone["cost"] == shorter["frames"][-1]["cost"]


def test_bisect_finds_the_step_and_the_pass() -> None:
    inspection, _ = inspected()
    answer = questions.bisect(inspection, "SK501, DY522 to City1") | {}
    seen = [row["number"] for row in answer["steps"] if row["in_view"]]
    assert seen == [4, 5, 6]
    (vanished,) = answer["vanished"]
    assert vanished["number"] == 7
    assert vanished["because"][0]["pass"] == "select_window"
    assert questions.bisect(inspection, "nobody said this")["born"] is None


def test_dead_weight_names_the_tool_that_nobody_called() -> None:
    inspection, _ = inspected()
    rows = questions.dead_weight(inspection)["tools"]
    assert [(row["tool"], row["called"]) for row in rows] == [
        ("book_hotel", False),
        ("find_flights", True),
    ]
    assert rows[0]["requests"] == 12
    assert rows[0]["cost"] > 0


def test_state_that_no_request_shows() -> None:
    agent = Agent("a", model="gpt-5", instruction="Mind {topic}.")
    session = make_session(
        ("user", "hi"), ("a", "yes", {"topic": "cats", "secret": "x"}), ("a", "ok")
    )
    unread = questions.dead_weight(Inspection(agent, session))["state"]
    assert [row["key"] for row in unread] == ["secret"]


def test_trust_follows_words_of_results_into_calls() -> None:
    agent = Agent("a", model="gpt-5", tools=[find_flights]).sees(C.default().redact("email"))
    call = Part(function_call=FunctionCall(id="c", name="find_flights", args={"city": "Oslo"}))
    back = Part(
        function_response=FunctionResponse(
            id="c",
            name="find_flights",
            response={"mail": "eve@example.com", "to": "evil-host.example", "mail-address": "here"},
        )
    )
    again = Part(
        function_call=FunctionCall(
            id="d", name="find_flights", args={"city": "evil-host.example", "mail-address": "Oslo"}
        )
    )
    session = Session("s").append(
        Event(author="user", content=to_content("go")),
        *(
            Event(author=author, content=_content(role, part))
            for author, role, part in (
                ("a", "model", call),
                ("a", "user", back),
                ("a", "model", again),
            )
        ),
    )
    answer = describe_trust(Inspection(agent, session))
    assert answer["flows"][0]["call"] == "find_flights"
    assert answer["flows"][0]["words"] == ["evil-host.example"]
    assert "eve@example.com" not in json.dumps(answer)


def test_a_growing_session_rebuilds_only_what_is_new() -> None:
    agent, session, _ = _travelled()
    half = session.before(12)
    first = Inspection(agent, half)
    known = list(first.steps)
    later = first.grown(session)
    assert later.steps[: len(known)] == known
    whole = Inspection(agent, session)
    assert [step.request.hash for step in later.steps] == [
        step.request.hash for step in whole.steps
    ]
    assert first.grown(session) is later, "two who ask at once get one answer"
    other = make_session(("user", "another"), ("traveller", "log"))
    assert len(later.grown(other).steps) == 1


def test_a_recording_without_its_program_is_shown_with_what_it_holds() -> None:
    _, session, _ = _travelled()
    inspection = Inspection.of_recording(recording_of(session), model="gpt-5")
    assert len(inspection.film()["frames"]) == 12
    with pytest.raises(UsageError, match="no model speaks"):
        Inspection.of_recording(recording_of(make_session(("user", "hello?"))))


def test_cache_view_marks_the_first_difference() -> None:
    inspection, _ = inspected()
    same = RequestView(inspection, 2).cache()
    assert same["broken"] == ""
    moved = RequestView(inspection, 7).cache()
    assert moved["broken"]
    text, before = RequestView(inspection, 7).text, RequestView(inspection, 6).text
    assert text[: moved["at"]] == before[: moved["at"]]
    assert text[moved["at"]] != before[moved["at"]]
    assert moved["ages"][-1][0] <= len(text)
    assert max(age for _, age in moved["ages"]) == 6


def test_saved_test_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, session, _ = _travelled()
    text = questions.as_test(Inspection(agent, session), 5, Variant(window=1), target="trips:agent")
    (tmp_path / "s.json").write_bytes(session.to_json())
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("trips")
    module.agent = agent
    monkeypatch.setitem(sys.modules, "trips", module)
    scope: dict[str, object] = {}
    exec(text, scope)
    scope["test_step_5_of_s"]()


def test_export_is_one_file_that_no_text_can_break_out_of() -> None:
    agent = Agent("a", model="gpt-5")
    session = make_session(("user", "</script><script>alert(1)</script>"), ("a", "<b>no</b>"))
    page = export(Inspection(agent, session), key="s")
    data = page.partition("window.WEFT_DATA = ")[2].partition("; location.hash")[0]
    assert "<" not in data
    assert "alert(1)" in data
    assert not re.search(r"""(src|href)=["'](?!data:)[^"'$]""", page.partition("<body>")[0])


def test_an_export_has_every_request_whole_and_what_they_share_once() -> None:
    inspection, _ = inspected(turns=40)
    page = export(inspection, key="s")
    data, texts, parts = _exported(page)
    for step in inspection.steps:
        view = RequestView(inspection, step.number)
        for name, drawn in (("request", view.to_json()), ("cache", view.cache())):
            packed = data[f"{name}?session=s&step={step.number}"]
            assert _named(_unpacked(packed, texts, parts)) == _named(json.loads(json.dumps(drawn)))
    assert data["film?session=s"]["notice"] == ""
    half, _ = inspected(turns=20)
    # twice the requests, each twice as long: the file grows with what is new
    assert len(page) < 2.9 * len(export(half, key="s")), "what they share is there several times"


@pytest.mark.parametrize("policy", [C.default(), C.auto(), C.window(2), C.default().budget(4_000)])
@pytest.mark.parametrize("model", ["claude-opus-5", "gpt-5", "gemini-3-pro", "openai-chat/gpt-5"])
def test_an_export_takes_from_the_request_before_only_what_is_the_same(
    model: str, policy: Policy
) -> None:
    agent = Agent("a", model=model, instruction="You read {what?}.", tools=[find_flights])
    events: list[Event] = []
    for turn in range(5):
        events.append(Event(author="user", invocation_id=f"i{turn}", content=to_content("Go on")))
        for n in range(3):
            lines = "\n".join(f"12:{k:02} request {turn * 31 + k} took {n} ms" for k in range(90))
            called = FunctionCall(name="find_flights", args={"city": f"c{turn}"}, id=f"{turn}-{n}")
            result = FunctionResponse(
                name="find_flights", response={"result": lines}, id=f"{turn}-{n}"
            )
            for role, part in (
                ("model", Part(function_call=called)),
                ("user", Part(function_response=result)),
            ):
                content = Content(role=role, parts=(part,))
                events.append(Event(author="a", invocation_id=f"i{turn}", content=content))
        said = Content(role="model", parts=(Part(text=f"Read {turn}."),))
        events.append(Event(author="a", invocation_id=f"i{turn}", content=said))
    inspection = Inspection(agent.sees(policy), Session("s", events=events))
    data, texts, parts = _exported(export(inspection, key="s"))
    for step in inspection.steps:
        view = RequestView(inspection, step.number)
        for name, drawn in (("request", view.to_json()), ("cache", view.cache())):
            packed = data[f"{name}?session=s&step={step.number}"]
            assert _named(_unpacked(packed, texts, parts)) == _named(json.loads(json.dumps(drawn)))


@pytest.mark.parametrize("name", ["claude-code.jsonl", "pydantic-ai.json", "codex.jsonl"])
def test_an_export_of_a_recording_says_where_its_parts_come_from(name: str) -> None:
    samples = Path(__file__).parents[1] / "recordings" / "samples"
    recording, *_ = read_file(samples / name)
    inspection = Inspection.of_recording(recording)
    data, texts, parts = _exported(export(inspection, key="s"))
    for step in inspection.steps:
        drawn = RequestView(inspection, step.number).to_json()
        assert any(origin["source"] for origin in drawn["origins"])
        packed = data[f"request?session=s&step={step.number}"]
        assert _named(_unpacked(packed, texts, parts)) == _named(json.loads(json.dumps(drawn)))


def test_thoughts_that_are_not_sent_are_drawn_once() -> None:
    def thinking(calls: int) -> Inspection:
        events = [Event(author="user", invocation_id="i", content=to_content("Go on"))]
        for n in range(calls):
            asked = call_part("find_flights", {"city": f"c{n}"}, id=f"c{n}")
            thought = Part(text=f"Thought {n}: look there.", thought=True)
            result = result_part("find_flights", {"result": f"Flight {n}"}, id=f"c{n}")
            for role, *some in (("model", thought, asked), ("user", result)):
                content = Content(role=role, parts=tuple(some))
                events.append(Event(author="a", invocation_id="i", content=content))
        agent = Agent("a", model="claude-opus-5", tools=[find_flights])
        inspection = Inspection(agent, Session("s", events=events))
        inspection.film()
        return inspection

    inspection = thinking(40)
    data, texts, parts = _exported(export(inspection, key="s"))
    for number in range(1, 41):
        drawn = RequestView(inspection, number).to_json()
        assert sum(one["action"] == "dropped" for one in drawn["left_out"]) == number - 1
        packed = data[f"request?session=s&step={number}"]
        assert _named(_unpacked(packed, texts, parts)) == _named(json.loads(json.dumps(drawn)))
    with pytest.MonkeyPatch.context() as patched:
        drawn_rows: list[str] = []

        def counted(row: SentRow, *args: object) -> JsonObject:
            drawn_rows.append(row.text)
            return row_json(row, *args)

        patched.setattr("weft.inspector.export.row_json", counted)
        export(inspection, key="s")
    most = max(Counter(text for text in drawn_rows if text.startswith("Thought")).values())
    assert most <= 3, "a request draws again what the one before it had"


def test_a_text_that_is_left_out_stands_once_in_an_export() -> None:
    inspection, _ = inspected(turns=40)
    _, texts, parts = _exported(export(inspection, key="s"))
    assert len(texts) == len({*texts})
    spelled = json.dumps(parts)
    left_out = {
        row["text"]
        for number in range(1, len(inspection.steps) + 1)
        for row in RequestView(inspection, number).to_json()["left_out"]
        if len(row["text"]) > 80
    }
    assert left_out
    assert left_out <= {*texts}
    assert not [text for text in left_out if json.dumps(text) in spelled]


@pytest.mark.parametrize("name", ["claude-code.jsonl", "pydantic-ai.json", "codex.jsonl"])
def test_an_imported_session_is_shown_as_its_file_is(name: str) -> None:
    samples = Path(__file__).parents[1] / "recordings" / "samples"
    recording, *_ = read_file(samples / name)

    async def look() -> Inspection:
        store = MemoryStore()
        key = SessionKey("app", "ann", recording.id)
        session = await store.create(key)
        await store.append(session, *recording.for_store().events)
        return await StoredSessions(store, {}).inspection(key_text(key))

    stored, own = asyncio.run(look()), Inspection.of_recording(recording)
    assert f"format {recording.format}" in stored.notice
    for left, right in zip(stored.steps, own.steps, strict=True):
        assert left.request is not None
        assert right.request is not None
        assert type(left.request) is type(right.request)  # recorded, and not compiled
        assert [item.blocks for item in left.request.prompt.items] == [
            item.blocks for item in right.request.prompt.items
        ]
        assert left.request.prompt.tools == right.request.prompt.tools


def test_an_export_has_its_pictures_unless_something_is_to_be_hidden() -> None:
    picture = Part(inline_data=Blob(data="aGVsbG8gd29ybGQ=", mime_type="image/png"))
    session = Session(
        "s",
        events=[
            Event(author="user", content=Content(role="user", parts=(Part(text="See"), picture))),
            Event(author="bot", content=Content(role="model", parts=(Part(text="Seen."),))),
        ],
    )
    (event, _) = session.events
    bot = Agent("bot", model="gpt-5")
    page = export(Inspection(bot, session), key="k")
    assert f"media?session=k&event={event.id}&part=1" in page
    assert page.count("aGVsbG8gd29ybGQ=") >= 1
    small = export(Inspection(bot, session), key="k", largest=1)
    assert f"media?session=k&event={event.id}&part=1" not in small
    hides = export(Inspection(bot.sees(C.default().redact("email")), session), key="k")
    assert "media?session=k" not in hides


def test_an_export_that_would_be_too_large_says_what_it_lacks() -> None:
    inspection, _ = inspected(turns=6)
    data, _, _ = _exported(export(inspection, key="s", largest=9_000))
    held = [name for name in data if name.startswith("request?")]
    assert "request?session=s&step=12" in held
    assert 0 < len(held) < 12
    assert f"with the first {12 - len(held)} it would" in data["film?session=s"]["notice"]


def _exported(page):
    """What the page finds in its windows."""
    script = page.partition("window.WEFT_DATA = ")[2].partition("; location.hash")[0]
    data, _, rest = script.partition("; window.WEFT_TEXTS = ")
    texts, _, parts = rest.partition("; window.WEFT_PARTS = ")
    return json.loads(data), json.loads(texts), json.loads(parts)


def _unpacked(answer, texts, parts):
    """As the page puts an answer together again."""
    whole = {name: value for name, value in answer.items() if name != "packed"}
    for name in answer["packed"]:
        whole[name] = [item for number in answer[name] for item in parts[number]]
    for name in {"segments", "ages"} & {*answer["packed"]}:
        ends = itertools.accumulate(length for length, *_ in whole[name])
        whole[name] = [[end, *rest] for end, (_, *rest) in zip(ends, whole[name], strict=True)]
    if "chains" in answer["packed"]:
        whole["chains"] = {
            event: [
                {**link, "before": texts[link["before"]]}
                | ({"after": texts[link["after"]]} if link["after"] is not None else {})
                for link in links
            ]
            for event, links in whole["chains"]
        }
    for name in {"rows", "left_out"} & {*answer["packed"]}:
        whole[name] = [{**row, "text": texts[row["text"]]} for row in whole[name]]
    if "text" in answer["packed"]:
        whole["text"] = "".join(texts[number] for number in whole["text"])
    return whole


def _named(answer):
    """A request with its origins and pointers in the place of their numbers."""
    if "origins" not in answer:
        return answer
    whole = {**answer}
    origins, pointers = whole.pop("origins"), whole.pop("pointers")
    whole["segments"] = [
        [end, origins[origin], pointers[pointer]] for end, origin, pointer in whole["segments"]
    ]
    for name in ("rows", "left_out"):
        whole[name] = [{**row, "origin": origins[row["origin"]]} for row in whole[name]]
    for row in whole["rows"]:
        row["pieces"] = [[end, origins[origin]] for end, origin in row["pieces"]]
    return whole


def test_vendored_files_are_as_published() -> None:
    listed = (PAGE / "vendor" / "MANIFEST.txt").read_text()
    file, _, rest = listed.splitlines()[2].partition("  ")
    digest = hashlib.sha256((PAGE / "vendor" / file).read_bytes()).hexdigest()
    assert digest in rest


def _travelled():
    return asyncio.run(travelled())


def _content(role, part):
    return Content(role=role, parts=(part,))


def test_bisect_compares_an_agent_with_itself() -> None:
    first = Agent("first", model="gpt-5", instruction="The codeword is heather.").sees(C.none())
    second = Agent("second", model="gpt-5", instruction="Go on.").sees(C.none())
    turns = [("user", "Go."), ("first", "Yes."), ("second", "No.")]
    session = make_session(*turns, ("user", "The flower is moss."), *turns[1:], *turns)
    inspection = Inspection(first >> second, session)
    assert questions.bisect(inspection, "heather")["vanished"] == []
    gone = questions.bisect(inspection, "moss")["vanished"]
    assert [(one["agent"], one["number"]) for one in gone] == [("first", 5), ("second", 6)]


def test_the_graph_is_red_for_what_the_session_lacks_and_for_nothing_else() -> None:
    reader = Agent("reader", model="gpt-5", instruction="On {topic} and {late}.")
    writer = Agent("writer", model="gpt-5", instruction="Write.").writes("late")
    events = make_session(("user", "Go.", {"topic": "moss"}), ("reader", "Yes.")).events
    session = Session("s", events=[*events], state={"app:name": "x"})
    session = session.append(
        Event(
            author="writer",
            invocation_id="i1",
            content=to_content("No."),
            actions=Actions(state_delta={"late": "No."}),
        )
    )
    drawn = questions.picture(Inspection(reader >> writer, session))
    (error,) = [one for one in drawn["checks"] if one["severity"] == "error"]
    assert "{late}" in error["message"]
    assert error["message"] not in drawn["svg"].replace("&#x27;", "'").split("</title>")[-1]
    again = session.append(Event(author="user", invocation_id="i2", content=to_content("Again.")))
    checks = questions.picture(Inspection(reader >> writer, again))["checks"]
    assert not [one for one in checks if one["severity"] == "error"], "the run before wrote it"


def test_words_that_the_author_wrote_are_no_leak() -> None:
    desk = Agent("billing_desk", model="gpt-5", description="Bills customers.")
    agent = Agent("a", model="gpt-5", tools=[find_flights], sub_agents=[desk])
    session = make_session(
        ("user", "go"),
        ("a", call("transfer_to_agent", agent_name="billing_desk")),
        ("a", result_part("transfer_to_agent", {"result": "handed over to billing_desk, sir-x"})),
        ("a", call("find_flights", city="sir-x")),
        ("a", result_part("find_flights", {"result": "ask billing_desk about order-4711"})),
        ("a", call("transfer_to_agent", agent_name="billing_desk")),
        ("a", call("find_flights", city="order-4711")),
    )
    flows = describe_trust(Inspection(agent, session))["flows"]
    assert [one["words"] for one in flows] == [["order-4711"]]


def test_the_config_of_all_runs_holds_in_the_inspector_too() -> None:
    model = ScriptedModel(["One.", "Two.", "Three."], name="gpt-5", dialect="openai-chat")
    config = RunConfig(context=C.none(), global_instruction="Be kind.")
    runner = Runner(Agent("a", model=model), config=config)

    async def look() -> Inspection:
        for turn in range(3):
            await runner.run(f"Turn {turn}", session_id="s")
        source = StoredSessions(
            runner.store, {runner.app_name: runner.root}, configs={runner.app_name: runner.config}
        )
        return await source.inspection(key_text(SessionKey(runner.app_name, "user", "s")))

    inspection = asyncio.run(look())
    assert [step.request.wire for step in inspection.steps] == model.wires


def test_the_list_counts_sessions_whose_provider_reported_nothing() -> None:
    script = [usage("One.", prompt=900, cached=100, output=7), "Two.", "Three."]
    runner = Runner(Agent("a", model=ScriptedModel(script, name="claude-opus-5")))

    async def look() -> tuple[list[JsonObject], StoredSessions]:
        for name in ("all", "some", "some"):
            await runner.run("Go.", session_id=name)
        await runner.store.create(SessionKey(runner.app_name, "user", "none"))
        source = StoredSessions(runner.store, {runner.app_name: runner.root})
        rows = await source.sessions()
        while any(row["counting"] for row in rows):
            rows = await source.sessions()
        return rows, source

    rows, source = asyncio.run(look())
    by_id = {row["id"]: row for row in rows}
    assert by_id["all"]["tokens"] == 900
    assert by_id["all"]["cached"] == 100
    assert not by_id["all"]["counted"]
    summary = asyncio.run(source.inspection(by_id["some"]["key"])).summary()
    for name in ("tokens", "cached", "cost", "money"):
        assert by_id["some"][name] == summary[name]
    assert by_id["some"]["counted"]
    assert by_id["none"]["tokens"] == 0
    assert summary["reported"] is None


def test_a_streamed_answer_says_when_its_first_piece_came() -> None:
    agent = Agent("bot", model=ScriptedModel(["One of several pieces.", "Whole."]))

    async def talk() -> Session:
        runner = Runner(agent)
        async for _ in runner.run("Speak", session_id="s", config=RunConfig(stream=True)):
            pass
        await runner.run("Again", session_id="s")
        return await runner.session(session_id="s")

    session = asyncio.run(talk())
    inspection = Inspection(agent, session)
    streamed, whole = (inspection.timings[step.event.id] for step in inspection.steps)
    assert streamed.first is not None
    assert streamed.seconds is not None
    assert 0 <= streamed.first <= streamed.seconds + 0.001
    assert whole.first is None


def test_a_recording_with_a_call_that_was_not_counted_has_the_figures_of_the_others() -> None:
    path = Path(__file__).parents[1] / "recordings" / "variants" / "variants.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    chat = json.loads(next(row for row in rows if row["name"] == "langgraph state")["file"])
    messages = chat["values"]["messages"]
    messages += [{"type": "human", "content": "More."}, {"type": "ai", "content": "Cut off"}]
    (recording,) = read_recordings(json.dumps(chat).encode(), name="chat.json")
    summary = Inspection.of_recording(recording).summary()
    reported = object_in(summary["reported"])
    assert (reported["tokens"], reported["cached"], reported["uncounted"]) == (220, 40, 1)
    assert summary["imported"] is True


async def test_a_call_that_failed_is_a_step_wherever_steps_are_counted() -> None:
    script = ["Hello.", ModelError("slow down", code="rate_limited"), "Back again."]
    model = ScriptedModel([*script, "", ""], name="gpt-5")
    agent = Agent("bot", model=model, instruction="Be brief.")
    runner = Runner(agent)
    for text in ("Hi", "More", "Still there?", "And now?"):
        await runner.run(text, session_id="s")
    session = await runner.session(session_id="s")
    inspection = Inspection(agent, session)
    film = inspection.film()
    errors = [frame["error"] for frame in film["frames"]]
    assert errors[:3] == ["", "rate_limited: slow down", ""]
    assert errors[3].startswith("empty_response")
    assert film["session"]["steps"] == len(model.wires) == len(model_events(session)) == 4
    assert [inspection.request(n).wire for n in (1, 2, 3, 4)] == model.wires
    assert [line.number for line in inspection.receipt().lines] == [1, 2, 3, 4]
    for n, wire in enumerate(model.wires, 1):
        request = at_step(agent, session, n, agent=None, dialect=None, config=RunConfig())
        assert request.wire == wire
    # nobody keeps what was refused: the request after it finds what the first one left
    first, third = inspection.steps[0].request, inspection.steps[2].request
    assert third is not None
    assert third.previous is first
    recording = recording_of(session)
    trial = replay(recording, C.default(), uses=uses_of(session.events), model="gpt-5")
    assert trial.requests == 4


def test_a_mark_that_moved_is_not_the_first_difference() -> None:
    mark: JsonObject = {"cache_control": {"type": "ephemeral"}}
    said: list[JsonObject] = [
        {"type": "text", "text": f'Part {n}, "cache_control":{{}}.'} for n in (1, 2)
    ]

    def body(first: JsonObject, second: JsonObject, *more: JsonObject) -> JsonObject:
        turn: JsonObject = {"role": "user", "content": [first, second, *more]}
        return {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [turn]}

    def view(*bodies: JsonObject) -> JsonObject:
        answer: JsonObject = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "Yes."}],
        }
        rows = [{"request": one, "response": answer, "time": 1_790_000_000} for one in bodies]
        data = "\n".join(map(compact, rows)).encode()
        recordings = [*read_recordings(data, name="log.jsonl")]
        steps = [one for each in recordings for one in Inspection.of_recording(each).steps]
        pair = [one.request for one in steps if one.request is not None]
        assert len(pair) == len(bodies)
        (recording,) = recordings
        return RequestView(Inspection.of_recording(recording), len(bodies)).cache_facts()

    question: JsonObject = {"role": "user", "content": "Sure?"}
    answered: JsonObject = {"role": "assistant", "content": "Yes."}
    first = body({**said[0], **mark}, said[1])
    longer = body(said[0], {**said[1], **mark})
    longer["messages"] = [*objects_in(longer["messages"]), answered, question]
    facts = view(first, longer)
    assert facts["mark_moved"] is True
    # after the mark both say the same, and then there are more turns
    after, (_, cut) = str(facts["after"]), facts["lead"]
    assert after[cut:].startswith(',{"role":"assistant"')
    assert str(facts["before"])[facts["lead"][0] :].startswith("]")
    plain = view(
        body(*said), {**longer, "messages": [{"role": "user", "content": said}, answered, question]}
    )
    assert plain["mark_moved"] is False
