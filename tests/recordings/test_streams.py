"""Long logs: read line by line, in the order of time, whatever is torn or said twice in them."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from tests.recordings.test_exchanges import chat, says
from weft.errors import SessionError
from weft.inspector import Inspection
from weft.recordings import Recording, exchanges_of, files_in, read_file
from weft.values import JsonObject


def talk(length: int, *, name: str = "a") -> list[JsonObject]:
    """The calls of a conversation."""
    said: list[JsonObject] = []
    lines: list[JsonObject] = []
    for number in range(length):
        said = [*said, says("user", f"question {number} of {name}")]
        answer = says("assistant", f"answer {number} of {name}")
        time = f"2026-01-01T10:{number:02}:00Z"
        lines.append({**chat(*said, answer=answer), "timestamp": time, "latency_ms": 1500})
        said = [*said, answer]
    return lines


def read(path: Path, lines: list[JsonObject], end: str = "") -> list[Recording]:
    data = ("\n".join(map(json.dumps, lines)) + "\n" + end).encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return [*read_file(path)]


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.jsonl.xz"])
def test_interleaved_calls_are_split_and_the_newest_may_come_first(
    name: str, tmp_path: Path
) -> None:
    both = [line for pair in zip(talk(4), talk(4, name="b"), strict=True) for line in pair]
    assert files_in([tmp_path]) if (tmp_path / name).write_bytes(b"") == 0 else False
    for lines in (both, both[::-1]):
        recordings = read(tmp_path / name, lines)
        assert [len(exchanges_of(one)) for one in recordings] == [4, 4]
        calls = exchanges_of(recordings[0])
        assert [call.ended - call.started for call in calls] == [1.5] * 4


def test_a_torn_last_line_is_named_and_a_broken_one_between_is_an_error(tmp_path: Path) -> None:
    (recording,) = read(tmp_path / "log.jsonl", talk(3), end='{"request": {"mod')
    assert len(recording.exchanges) == 3
    assert [one.what for one in recording.aside] == ["last line"]
    first, *rest = talk(3)
    path = tmp_path / "broken.jsonl"
    lines = [json.dumps(one) for one in rest]
    path.write_text("\n".join([json.dumps(first), lines[0], '{"request": {"mod', lines[1]]))
    with pytest.raises(SessionError) as error:
        list(read_file(path))
    assert error.value.where == "broken.jsonl:3"


def test_formats_may_be_mixed_and_ids_said_twice(tmp_path: Path) -> None:
    run = {"id": "twice", "steps": 1, "model": "m",
           "messages": [says("user", "One?"), says("assistant", "One.")]}  # fmt: skip
    other = {**run, "messages": [says("user", "Two?"), says("assistant", "Two.")]}
    first, second, log = read(tmp_path / "mixed.jsonl", [run, other, *talk(2)])
    assert [first.id, second.id, log.format] == ["twice", "twice-2", "openai-chat"]
    assert second.session.id == "twice-2"
    assert [one.what for one in second.aside if one.what == "id"] == ["id"]


def test_a_reader_is_warned_where_the_tokens_are_not_those_that_were_billed(
    tmp_path: Path,
) -> None:
    lines = talk(2)
    billed = 40_000
    for line in lines:
        line["response"]["usage"]["prompt_tokens"] = billed  # type: ignore[index,call-overload]
    (recording,) = read(tmp_path / "log.jsonl", lines)
    notice = Inspection.of_recording(recording).film()["notice"]
    assert "fewer tokens than were billed" in str(notice)
    assert "the file does not hold the system text and the tools, about 39," in str(notice)
    counted = [step.request.tokens for step in Inspection.of_recording(recording).steps]  # type: ignore[union-attr]
    for line, tokens in zip(lines, counted, strict=True):
        line["response"]["usage"]["prompt_tokens"] = tokens  # type: ignore[index,call-overload]
    (recording,) = read(tmp_path / "log.jsonl", lines)
    assert not Inspection.of_recording(recording).film()["notice"]
