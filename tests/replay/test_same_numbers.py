"""The page of a recording and `weft replay` give the same numbers: calls, tokens, costs."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.cli.run import weft
from tests.inspector.counts import counted_row, require_one_count
from tests.recordings.test_accounting import SHAPES
from weft.declare.words import policy_from
from weft.inspector import Inspection, Variant
from weft.inspector.inspection import SessionSpending
from weft.inspector.sources import RecordedSessions
from weft.recordings import Recording, read_file, read_recordings, recording_of
from weft.replay.page import recorded_facts
from weft.replay.replay import replay, speakers, total, uses_of

SAMPLES = Path(__file__).parents[1] / "recordings" / "samples"
POLICIES = ("C.default()", "C.auto()", "C.default().truncate(50)")
FILES = [
    path.name
    for path in sorted(SAMPLES.iterdir())
    if not path.name.endswith(".request.json") and path.name != "streams.json"
]


def read(name: str) -> Iterator[Recording]:
    """The recordings of a sample, or of a shape that readers are tried on, with a model's words."""
    found = (
        read_file(SAMPLES / name)
        if name in FILES
        else read_recordings(json.dumps(SHAPES[name]()).encode(), name=f"{name}.json")
    )
    return (one for one in found if speakers(one))


def spent(inspection: Inspection) -> SessionSpending:
    """What a page adds up."""
    requests = (step.request for step in inspection.steps if step.request is not None)
    return SessionSpending.total(map(SessionSpending.of_request, requests))


@pytest.mark.parametrize("name", [*FILES, *sorted({*SHAPES} - {"unknown"})])
async def test_the_page_and_the_terminal_give_the_same_numbers(name: str) -> None:
    for recording in read(name):
        inspection = Inspection.of_recording(recording)
        require_one_count(inspection, await counted_row(RecordedSessions([recording])))
        uses = uses_of(recording.session.events, "\n".join(recording.instructions.values()))
        facts = recorded_facts([recording])
        reported = inspection.summary()["reported"]
        assert len(inspection.steps) >= facts.answers  # the page has calls without an answer too
        if isinstance(reported, dict):
            assert reported["tokens"] == sum(one.prompt for one in facts.usage)
            assert reported["cached"] == sum(one.cached for one in facts.usage)
            if all(one.cost is not None for one in facts.usage):
                assert reported["cost"] == pytest.approx(sum(one.cost or 0 for one in facts.usage))
        for policy in POLICIES:
            trial = replay(recording, policy_from(policy), uses=uses)
            page = spent(inspection.under(Variant(policy=policy)))
            assert trial.requests + trial.refused == len(inspection.steps)
            assert (trial.tokens, trial.money) == (page.tokens, page.money)
            assert trial.cost == pytest.approx(page.cost)
            assert trial.cached == pytest.approx(page.cached, abs=1)


def test_no_tool_is_made_up_in_the_terminal_either(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(SHAPES["chat"]()))
    (recording,) = read_file(path)
    whole = spent(Inspection.of_recording(recording))
    replayed = weft(tmp_path, "replay", "chat.json", "--json")
    (plain, _) = json.loads(replayed.stdout)["rows"]
    assert (plain["requests"], plain["tokens"]) == (9, whole.tokens), replayed.stderr
    stored = weft(tmp_path, "sessions", "import", "chat.json", "--store", "sqlite:///a.sqlite")
    assert stored.returncode == 0, stored.stderr
    again = weft(tmp_path, "replay", "--store", "sqlite:///a.sqlite", "--json")
    (imported, _) = json.loads(again.stdout)["rows"]
    assert (imported["requests"], imported["tokens"]) == (9, whole.tokens), again.stderr


@pytest.mark.parametrize("name", [*FILES, *sorted({*SHAPES} - {"unknown"})])
def test_an_import_keeps_what_was_said_and_called(name: str) -> None:
    for recording in read(name):
        stored = recording_of(type(recording.session).from_json(recording.for_store().to_json()))
        assert said_in(recording) == said_in(stored)
        assert dict(stored.instructions) == {
            name: text for name, text in recording.instructions.items() if text
        }
        assert [tool.name for tool in stored.tools] == [tool.name for tool in recording.tools]
        exported, page = Inspection.of_recording(stored), Inspection.of_recording(recording)
        if facts_of(page):
            assert facts_of(page) == facts_of(exported)


def said_in(recording: Recording) -> list[object]:
    """Who said what, with every call, result and file, and what was billed for it."""
    return [
        (
            event.author,
            event.usage,
            [
                msgspec.structs.replace(part, part_metadata=None)
                for part in (event.content.parts or () if event.content is not None else ())
            ],
        )
        for event in recording.session.events
    ]


def facts_of(inspection: Inspection) -> list[str]:
    """The answers that a page shows; none where a call has no answer, which no store keeps."""
    ids = [step.event.id for step in inspection.steps]
    return [] if any(id.startswith("call-") for id in ids) else ids


def test_costs_of_models_with_a_price_and_without_are_never_one_sum(tmp_path: Path) -> None:
    said: list[dict[str, str]] = [{"role": "user", "content": "Hello there. " * 300}]
    log: list[dict[str, object]] = []
    for number in range(7):
        model = "gpt-4o" if number % 2 else "my-own-model"
        answer = {"role": "assistant", "content": f"Answer {number}."}
        log.append(
            {
                "request": {"model": model, "messages": [*said]},
                "response": {
                    "id": f"r{number}",
                    "model": model,
                    "choices": [{"index": 0, "message": answer, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010},
                },
            }
        )
        said += [answer, {"role": "user", "content": f"Question {number}?"}]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in log))
    (recording,) = read_file(path)
    inspection = Inspection.of_recording(recording)
    # as the provider counted: three calls of gpt-4o
    reported = SessionSpending.from_reports(recording.session)
    assert reported is not None
    assert (reported.money, reported.unpriced, reported.tokens) == (True, 4, 7000)
    assert reported.cost == pytest.approx(3 * (1000 * 2.5 + 10 * 10) / 1e6)
    # as Weft counts: the same three, on the page and in the terminal
    page = spent(inspection)
    uses = uses_of(recording.session.events, "")
    trial = replay(recording, policy_from("C.default()"), uses=uses)
    assert (page.money, page.unpriced) == (trial.money, trial.unpriced) == (True, 4)
    assert trial.cost == pytest.approx(page.cost)
    priced = [frame for frame in inspection.film()["frames"] if frame["money"]]
    assert page.cost == pytest.approx(sum(frame["cost"] for frame in priced))
    assert len(priced) == 3
    done = weft(tmp_path, "replay", "log.jsonl", "--html", "page.html")
    words = "4 of 7 calls have no price"
    assert words in done.stdout
    assert words in (tmp_path / "page.html").read_text()
    assert "prices of genai-prices" in done.stdout
    # recordings of one model next to each other: dollars and tokens are not added either
    cheap = msgspec.structs.replace(trial, money=False, unpriced=0, cost=9e9)
    assert (total([trial, cheap]).cost, total([cheap, trial]).unpriced) == (trial.cost, 11)


def test_a_session_without_a_model_is_measured_by_the_yardstick_on_the_page_too() -> None:
    (recording,) = read("adk-events.json")
    inspection = Inspection.of_recording(recording)
    film = inspection.film()
    assert {frame["money"] for frame in film["frames"]} == {False}
    assert "no price of the model is known" in film["prices"]
    named = Inspection.of_recording(recording, model="gpt-4o")
    assert "prices of genai-prices" in named.film()["prices"]
    assert {frame["money"] for frame in named.film()["frames"]} == {True}
    (tried,) = inspection.under(Variant(model="gpt-4o")).steps[:1]
    assert tried.request is not None
    assert tried.request.prompt.model == "gpt-4o"


async def test_what_is_kept_for_an_hour_has_one_price_on_all_of_the_page() -> None:
    text = (SAMPLES / "claude-code.jsonl").read_text()
    written = '"cache_creation_input_tokens": 900'
    text = text.replace('"cache_read_input_tokens": 12000', '"cache_read_input_tokens": 0')
    costs: list[float] = []
    for tokens in ((900, 0), (0, 900)):
        kinds = zip(("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"), tokens, strict=True)
        kept = text.replace(written, f'{written}, "cache_creation": {json.dumps(dict(kinds))}')
        recording, *_ = read_recordings(kept.encode(), name="claude-code.jsonl")
        recording = recording._replace(instructions={"agent": "Be brief. " * 900})
        inspection = Inspection.of_recording(recording)
        require_one_count(inspection, await counted_row(RecordedSessions([recording])))
        costs.append(inspection.receipt().expected)
    assert costs[1] > costs[0] > 0
