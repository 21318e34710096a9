"""The page of a recording and `weft replay` give the same numbers: calls, tokens, costs."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.cli.run import weft
from tests.recordings.test_accounting import SHAPES
from weft.declare.words import policy_from
from weft.inspector import Inspection, Variant
from weft.inspector.inspection import SessionSpending
from weft.recordings import Recording, read_file, read_recordings, recording_of
from weft.replay.page import recorded_facts
from weft.replay.recorded import has_requests
from weft.replay.replay import replay, speakers, uses_of

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
def test_the_page_and_the_terminal_give_the_same_numbers(name: str) -> None:
    for recording in read(name):
        inspection = Inspection.of_recording(recording)
        uses = uses_of(recording.session.events, "\n".join(recording.instructions.values()))
        facts = recorded_facts([recording])
        reported = inspection.summary()["reported"]
        assert len(inspection.steps) >= facts.answers  # the page has calls without an answer too
        if isinstance(reported, dict):
            assert reported["tokens"] == sum(one.prompt for one in facts.usage)
            assert reported["cached"] == sum(one.cached for one in facts.usage)
            if all(one.cost is not None for one in facts.usage):
                assert reported["cost"] == pytest.approx(sum(one.cost or 0 for one in facts.usage))
        if not has_requests(recording) and not recording.asked_model:
            continue  # events of which nobody knows the model: the page takes the one in the box
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
