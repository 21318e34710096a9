"""Files as other versions of the programs write them, and as people save them: all is read.

`variants/variants.jsonl` has a file a line, with what is in it: counted by whoever wrote the file.
"""

import io
import json
import random
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from weft.errors import SessionError, WeftError
from weft.recordings import Recording, read_file
from weft.recordings.containers import split_large, split_values
from weft.recordings.read import read_recordings

VARIANTS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "variants" / "variants.jsonl").read_text().splitlines()
]


def count(recordings: list[Recording]) -> dict[str, int]:
    events = [event for one in recordings for event in one.session.events]
    return {
        "recordings": len(recordings),
        "calls": sum(len(event.calls) for event in events),
        "results": sum(len(event.results) for event in events),
        "tokens": sum(event.usage.prompt_token_count or 0 for event in events if event.usage),
    }


@pytest.mark.parametrize("variant", VARIANTS, ids=[one["name"] for one in VARIANTS])
def test_what_is_in_a_file_of_another_version_is_read(variant: dict[str, Any]) -> None:
    read = list(read_recordings(variant["file"].encode(), name="file.json"))
    assert count(read) == {name: variant[name] for name in count(read)}
    assert read[0].format == variant["format"]
    said = [event.text or "" for one in read for event in one.session.events]
    said += [text for one in read for text in one.instructions.values()]
    assert not [text for text in variant["texts"] if not any(text in one for one in said)]


def archive(members: dict[str, object]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for name, value in members.items():
            packed.writestr(name, json.dumps(value))
    return data.getvalue()


def find(name: str) -> dict[str, Any]:
    return next(one for one in VARIANTS if one["name"] == name)


def test_an_archive_of_an_evaluation_has_its_samples() -> None:
    run = json.loads(find("inspect json")["file"])
    (sample,) = run.pop("samples")
    members = {"header.json": run, "summaries.json": [], "samples/1_epoch_1.json": sample}
    read = list(read_recordings(archive(members), name="log.eval"))
    assert [one.format for one in read] == ["inspect-ai"]
    assert count(read)["calls"] == 1


def test_a_broken_archive_says_so() -> None:
    with pytest.raises(SessionError, match="the archive cannot be read"):
        list(read_recordings(b"PK\x03\x04 and then nothing", name="log.eval"))


@pytest.mark.parametrize("shape", ["a list", "an object", "a list on many lines"])
def test_a_large_value_is_read_element_by_element(tmp_path: Path, shape: str) -> None:
    row = json.loads(find("helicone camel")["file"])
    row["requestBody"]["messages"][1]["content"] += " x" * 20_000
    rows = [{**row, "requestId": f"r{number}"} for number in range(500)]
    whole: object = rows if "list" in shape else {"meta": {"page": 1}, "data": rows}
    path = tmp_path / "large.json"
    path.write_text(json.dumps(whole, indent=1 if "many" in shape else None))
    assert path.stat().st_size > 16_000_000
    with path.open("rb") as file:
        lines = split_large(file, "large.json")
        assert lines is not None
        with lines:
            assert sum(1 for _ in lines) == 500
    read = list(read_file(path))
    assert count(read)["tokens"] == 500 * 100
    assert read[0].source.startswith("large.json: recording 1")


def test_values_one_after_the_other_are_taken_apart() -> None:
    assert split_values(b'{"a": 1}\n{\n"b": 2}\n') == [{"a": 1}, {"b": 2}]
    assert split_values(b'{"a": 1}') == []
    assert split_values(b'{"a": 1} {"b"') == []


def damage(value: Any, rng: random.Random) -> Any:
    """The value with something else in one place of it."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice([None, "x", 5, [], {}, True, [1], "{"])
    copy: Any = {**value} if isinstance(value, dict) else [*value]
    at = rng.choice([*value] if isinstance(value, dict) else range(len(value)))
    copy[at] = damage(copy[at], rng)
    return copy


@pytest.mark.parametrize("variant", VARIANTS, ids=[one["name"] for one in VARIANTS])
def test_a_damaged_file_is_read_or_refused(variant: dict[str, Any]) -> None:
    rng = random.Random(variant["name"])
    for attempt in range(12):
        lines = variant["file"].split("\n")
        at = rng.randrange(len(lines))
        try:
            lines[at] = json.dumps(damage(json.loads(lines[at]), rng))
        except ValueError:  # YAML, or a value over many lines
            lines[at] = lines[at][: len(lines[at]) // 2]
        data = "\n".join(lines).encode()
        with suppress(WeftError):  # anything else is a fault of the reader
            list(read_recordings(data, name="file.json", lenient=attempt % 2 == 0))
