"""Recordings that are a folder: OpenHands keeps a conversation as a file for each event.

`folders/openhands` was written by openhands-sdk 1.58.0, whose model was scripted, and
`folders/openhands.request.json` is the last request that it sent; paths were changed in both.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.recordings.test_recordings import CHAT, differences, sent
from weft.errors import SessionError
from weft.recordings import Recording, exchanges_of, files_in, read_files

FOLDER = Path(__file__).parent / "folders" / "openhands"


def read(*folders: Path, lenient: bool = False) -> list[Recording]:
    return [*read_files(files_in(folders), lenient=lenient)]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "openhands"))


def test_the_events_of_a_conversation_are_one_recording() -> None:
    (recording,) = read(FOLDER)
    assert recording.format == "openhands"
    assert recording.id == "f321d755-1415-43ee-8ee8-ef834cfb9ba6"
    assert recording.model == "openai/gpt-4o-mini"
    assert [tool.name for tool in recording.tools] == ["terminal"]
    assert [one.what for one in recording.aside] == ["parameters of tools"]


def test_it_compiles_back_to_the_request_that_was_sent() -> None:
    (recording,) = read(FOLDER)
    expected = json.loads(FOLDER.with_suffix(".request.json").read_text())
    wire = sent(recording, CHAT)
    known = ["/3/name", "/5/name", "/7/name"]  # a result is paired by its id
    assert [*differences(expected["messages"], wire["messages"])] == known


def test_each_answer_has_the_tokens_and_the_cost_that_the_state_holds() -> None:
    (recording,) = read(FOLDER)
    state = json.loads((FOLDER / "base_state.json").read_text())
    metrics = state["stats"]["usage_to_metrics"]["agent"]
    usages = [call.usage for call in exchanges_of(recording)]
    assert [one and one.prompt_token_count for one in usages] == [
        one["prompt_tokens"] for one in metrics["token_usages"]
    ]
    costs = [event.provenance.stated_cost for event in recording.session.events if event.usage]
    assert costs == [one["cost"] for one in metrics["costs"]]


def test_its_events_are_read_without_its_state(copied: Path) -> None:
    whole = exchanges_of(read(copied / "events")[0])
    (copied / "base_state.json").unlink()
    (recording,) = read(copied)
    assert len(exchanges_of(recording)) == len(whole)
    assert recording.id == "openhands"


def test_two_conversations_in_a_folder_stay_apart(copied: Path) -> None:
    second = shutil.copytree(copied, copied.parent / "other")
    state = json.loads((copied / "base_state.json").read_text())
    (Path(second) / "base_state.json").write_text(json.dumps({**state, "id": "other"}))
    assert {one.id for one in read(copied.parent)} == {state["id"], "other"}


def test_the_rest_of_the_system_text_is_read(copied: Path) -> None:
    path = next((copied / "events").glob("event-00000-*"))
    event = json.loads(path.read_text())
    context = {"type": "text", "text": "The repository is weft."}
    path.write_text(json.dumps({**event, "dynamic_context": context}))
    (recording,) = read(copied)
    assert "The repository is weft." in "\n".join(recording.instructions.values())


def test_a_torn_last_event_is_named_and_another_is_an_error(copied: Path) -> None:
    events = sorted((copied / "events").iterdir())
    events[-1].write_bytes(events[-1].read_bytes()[:40])
    (recording,) = read(copied)
    assert "event that cannot be read" in [one.what for one in recording.aside]
    events[2].write_bytes(b'{"id": ')
    with pytest.raises(SessionError, match=events[2].name):
        read(copied)
