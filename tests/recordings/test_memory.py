"""Large files: what was read of them lies on disk, and memory does not grow with their texts."""

import json
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.cli.options import CommandOptions
from weft.cli.recorded import read_what_can_be_read
from weft.inspector.sources import RecordedSessions
from weft.recordings import Recording, read_file
from weft.recordings.shelf import Shelf
from weft.values import JsonObject

Value = Any
"""JSON of a stranger."""

LETTERS = 16_000
"""In each text; no text stands in a file twice."""


def texts() -> Iterator[str]:
    chance = random.Random(1)
    while True:
        yield chance.randbytes(LETTERS // 2).hex()


def calls(count: int) -> Iterator[Value]:
    """Calls that have nothing to do with each other."""
    for number, text in zip(range(count), texts(), strict=False):
        answer = {"role": "assistant", "content": f"Answer {number}."}
        yield {
            "timestamp": 1_700_000_000 + number,
            "request": {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]},
            "response": {"id": f"r{number}", "choices": [{"index": 0, "message": answer}]},
        }


def conversations(count: int) -> Iterator[Value]:
    """Conversations of four calls, all of them at the same time."""
    whole = [*calls(count)]
    for one in range(4):
        for at in range(0, count, 4):
            said: list[Value] = []
            for call in whole[at : at + one + 1]:
                said += [*call["request"]["messages"], call["response"]["choices"][0]["message"]]
            time = 1_700_000_000 + at + one * count
            request = {"model": "gpt-4o", "messages": said[:-1]}
            yield {**whole[at + one], "timestamp": time, "request": request}


def spans(count: int) -> Iterator[Value]:
    """Spans of runs with one call each, and a span of its tool."""
    for number, text in zip(range(count), texts(), strict=False):
        part = {"type": "tool_call", "id": f"c{number}", "name": "look", "arguments": {"at": text}}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-5",
            "gen_ai.input.messages": json.dumps(
                [{"role": "user", "parts": [{"type": "text", "content": f"Look at {number}."}]}]
            ),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}]),
        }
        span = {
            "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "chat gpt-5",
            "startTimeUnixNano": str((1_780_000_000 + number) * 10**9),
            "attributes": [
                {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
            ],
        }  # fmt: skip
        yield {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def transcripts(count: int) -> Iterator[Value]:
    """Sessions of Claude Code with two messages each."""
    for number, text in zip(range(count), texts(), strict=False):
        for kind, content in (("user", text), ("assistant", "Yes.")):
            yield {
                "type": kind, "sessionId": f"s{number}", "uuid": f"{kind}{number}",
                "parentUuid": f"user{number}" if kind == "assistant" else None,
                "timestamp": "2026-01-01T00:00:00Z",
                "message": {"role": kind, "model": "claude-sonnet-4-5", "content": content},
            }  # fmt: skip


SHAPES = {one.__name__: one for one in (calls, conversations, spans, transcripts)}


def write(path: Path, rows: Iterator[Value]) -> int:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.stat().st_size


@pytest.fixture
def make_large(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set from how many bytes on a file is large."""

    def set_size(size: int) -> None:
        monkeypatch.setattr("weft.recordings.read.LARGE", size)
        monkeypatch.setattr("weft.cli.recorded.LARGE", size)
        monkeypatch.setattr("weft.recordings.joining._Room.MOST", 500_000)

    return set_size


def open_file(path: Path) -> list[JsonObject]:
    options = CommandOptions(target="", id="", targets=[])
    source = RecordedSessions(read_what_can_be_read([path], options).recordings)
    return source.list_rows()


def peak_of(path: Path) -> int:
    """Bytes of memory to open a file and to list what is in it."""
    tracemalloc.start()
    try:
        assert open_file(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_does_not_grow_with_the_texts_of_a_large_file(
    shape: str, tmp_path: Path, make_large: Callable[[int], None]
) -> None:
    make = SHAPES[shape]
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    grown = write(large, make(240)) - write(small, make(80))
    texts_grown = 160 * LETTERS
    make_large(0)
    open_file(small)  # what is loaded once is not counted
    on_disk = peak_of(large) - peak_of(small)
    assert on_disk < 0.25 * texts_grown, f"{on_disk:,} bytes for {grown:,} of the file"
    # this is what would be held in memory
    make_large(10**12)
    assert peak_of(large) - peak_of(small) > 0.9 * texts_grown


@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_file_is_read_as_a_short_one_is(
    shape: str, tmp_path: Path, make_large: Callable[[int], None]
) -> None:
    path = tmp_path / "a.jsonl"
    write(path, SHAPES[shape](80))
    make_large(10**12)
    rows, short = open_file(path), [*read_file(path)]
    make_large(0)
    assert open_file(path) == rows
    assert [*map(plain, read_file(path))] == [*map(plain, short)]
    assert len(short) == (20 if shape == "conversations" else 80)


def plain(recording: Recording) -> Value:
    session = recording.session
    return recording._replace(session=None), session.to_json()  # type: ignore[arg-type]


def test_a_broken_session_in_a_large_file_stops_no_other(
    tmp_path: Path, make_large: Callable[[int], None]
) -> None:
    path = tmp_path / "a.jsonl"
    rows = [*transcripts(4)]
    rows[2]["message"] = "cut"
    write(path, iter(rows))
    with path.open("a") as file:
        file.write('{"type": "user", "sess')
    make_large(0)
    options = CommandOptions(target="", id="", targets=[])
    read = read_what_can_be_read([path], options)
    assert [one.id for one in read.recordings] == ["s0", "s2", "s3"]
    assert [one.where for one in read.failed] == ["a.jsonl:3"]
    assert [(one.what, one.places) for one in read.aside] == [("last line", ("a.jsonl:9",))]


def test_a_shelf_is_a_sequence() -> None:
    shelf = Shelf(["a", "bb", "ccc"])
    assert [*shelf, shelf[-1]] == ["a", "bb", "ccc", "ccc"]
    assert (len(shelf), shelf[1:], shelf.index("bb")) == (3, ["bb", "ccc"], 1)
    for at in (3, -4):
        with pytest.raises(IndexError):
            shelf[at]
