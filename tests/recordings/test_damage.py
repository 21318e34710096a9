"""Laws for files that are damaged, packed, or written in another way.

Whatever stands in a file, reading it ends in recordings that can be shown and stored, or in an
error that says what is wrong and where. `WEFT_DAMAGES` sets how many places of each sample are
damaged.
"""

import bz2
import copy
import gzip
import io
import json
import lzma
import os
import random
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recordings.test_accounting import SHAPES
from weft.errors import SessionError
from weft.recordings import Recording, exchanges_of, read_file, read_files, read_recordings
from weft.recordings.accounting import count_parts

SAMPLES = Path(__file__).parent / "samples"

Value = Any
"""JSON of a stranger, which is damaged as it comes."""

DAMAGES = int(os.environ.get("WEFT_DAMAGES", "12"))

INSTEAD: tuple[Value, ...] = (
    None, "", {}, [], 0, -1, True, 1e300, 10**30, "9" * 5000, "²", "x" * 3000, [None], [[]],
    {"type": None}, [1], {"intValue": "x"}, {"doubleValue": "NaN"},
    "2020-99-99", "‮<script>\x1b[31m",
)  # fmt: skip
"""What stands where something else is expected."""


def texts_of_samples() -> dict[str, tuple[str, Value]]:
    """The samples, and the shapes of formats that have none: how each is written, and its JSON."""
    whole: dict[str, tuple[str, Value]] = {
        f"shape {name}": ("json", make()) for name, make in SHAPES.items() if name != "unknown"
    }
    for path in sorted(SAMPLES.iterdir()):
        if path.suffix == ".json":
            whole[path.name] = "json", json.loads(path.read_text("utf-8"))
        elif path.suffix == ".jsonl":
            lines = path.read_text("utf-8").splitlines()
            whole[path.name] = "jsonl", [json.loads(line) for line in lines if line.strip()]
    return whole


TEXTS = texts_of_samples()


def written(name: str, value: Value) -> bytes:
    if TEXTS[name][0] == "jsonl" and isinstance(value, list):
        return "\n".join(map(json.dumps, value)).encode()
    return json.dumps(value).encode()


def use(data: bytes, name: str) -> list[Recording] | None:
    """Read and show what some bytes hold; None where that is refused with a sentence."""
    try:
        recordings = [*read_recordings(data, name=name)]
        for one in recordings:
            exchanges_of(one)
            one.for_store().to_json()
    except SessionError as refused:
        error = refused
    else:
        return recordings
    assert error.message
    assert error.where, f"where it is: {error.message}"
    return None


def places(value: Value, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from places(one, (*path, key))


def replaced(value: Value, path: tuple[str | int, ...], other: Value) -> Value:
    if not path:
        return other
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    return value


@pytest.mark.parametrize("name", TEXTS)
def test_a_damaged_place_is_read_or_refused_with_a_sentence(name: str) -> None:
    value = TEXTS[name][1]
    chance = random.Random(name)
    listed = [*places(value)]
    for _ in range(DAMAGES):
        path, other = chance.choice(listed), chance.choice(INSTEAD)
        use(written(name, replaced(value, path, other)), f"{name} at {path}")


@pytest.mark.parametrize("name", TEXTS)
def test_a_torn_file_is_read_as_far_as_it_goes_or_refused(name: str) -> None:
    data = written(name, TEXTS[name][1])
    whole = use(data, name)
    for part in range(1, 20):
        torn = use(data[: len(data) * part // 20], name)
        if torn and whole:  # there is no more in a part than in the whole
            assert sum_parts(torn)["calls"] <= sum_parts(whole)["calls"]


def sum_parts(recordings: list[Recording]) -> Counter[str]:
    return sum((Counter(count_parts(one)) for one in recordings), Counter[str]())


def in_zip(name: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"inside/{name}", data)
    return file.getvalue()


def in_tar(name: str, data: bytes, mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo(f"inside/{name}")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def rows(text: str, name: str) -> list[Value]:
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return [json.loads(text)]


SPELLINGS: dict[str, tuple[str, Callable[[str, str], bytes]]] = {
    "mark of UTF-8": ("", lambda text, name: b"\xef\xbb\xbf" + text.encode()),
    "UTF-16": ("", lambda text, name: text.encode("utf-16")),
    "UTF-16, big end first": ("", lambda text, name: text.encode("utf-16-be")),
    "UTF-16 without a mark": ("", lambda text, name: text.encode("utf-16-le")),
    "line ends of Windows": ("", lambda text, name: text.replace("\n", "\r\n").encode()),
    "blank lines": (
        "", lambda text, name: b"\n \n" + (
            text.replace("\n", "\n\n") if name.endswith("l") else text
        ).encode() + b"\n\n",
    ),
    "values over many lines": (
        "", lambda text, name: "\n".join(
            json.dumps(one, indent=2) for one in rows(text, name)
        ).encode(),
    ),
    "values without a space between": (
        "", lambda text, name: "".join(
            json.dumps(one, indent=1) for one in rows(text, name)
        ).encode(),
    ),
    "gzip": (".gz", lambda text, name: gzip.compress(text.encode())),
    "xz": (".xz", lambda text, name: lzma.compress(text.encode())),
    "bzip2": (".bz2", lambda text, name: bz2.compress(text.encode())),
    "zip": (".zip", lambda text, name: in_zip(name, text.encode())),
    "tar": (".tar", lambda text, name: in_tar(name, text.encode(), "w")),
    "tar with gzip": (".tar.gz", lambda text, name: in_tar(name, text.encode(), "w:gz")),
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_however_a_file_is_written_the_same_is_read(spelling: str, tmp_path: Path) -> None:
    ending, write = SPELLINGS[spelling]
    for path in sorted(SAMPLES.iterdir()):
        if path.suffix not in (".json", ".jsonl"):
            continue
        expected = use(path.read_bytes(), path.name)
        if expected is None:
            continue
        other = tmp_path / f"{path.name}{ending}"
        other.write_bytes(write(path.read_text("utf-8"), path.name))
        read = [*read_file(other)]
        assert sum_parts(read) == sum_parts(expected), path.name
        assert len(read) == len(expected), path.name


@pytest.mark.parametrize(
    ("start", "name"),
    [(b"\x28\xb5\x2f\xfd\x04", "zstd"), (b"\x04\x22\x4d\x18", "lz4"), (b"Rar!\x1a", "RAR")],
)
def test_a_form_that_is_not_unpacked_here_says_what_to_type(
    start: bytes, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "chat.json.zst"
    path.write_bytes(start + b"anything")
    with pytest.raises(SessionError, match=f"packed with {name}") as error:
        [*read_file(path)]
    assert "FILE" in (error.value.hint or "")


def test_zeros_at_the_end_of_a_file_say_nothing(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    whole = json.dumps({"messages": chat})
    for name, data in (("a.json", whole), ("b.jsonl", f"{whole}\n{whole}\n")):
        path = tmp_path / name
        path.write_bytes(data.encode() + b"\0" * 64)
        assert [len(one.session.events) for one in read_file(path)] == [2] * len(data.splitlines())


def a_log(count: int = 6) -> list[Value]:
    """The calls of one conversation, as a recorder writes them: each with all before it."""
    said: list[Value] = [{"role": "user", "content": "Hello."}]
    log: list[Value] = []
    for number in range(count):
        answer = {"role": "assistant", "content": f"Answer {number}."}
        choice = {"index": 0, "message": answer, "finish_reason": "stop"}
        request = {"model": "gpt-4o", "messages": [*said]}
        log.append(
            {
                "timestamp": 1_700_000_000 + 10 * number,
                "request": request,
                "response": {"id": f"r{number}", "model": "gpt-4o", "choices": [choice]},
            }
        )
        said += [answer, {"role": "user", "content": f"Question {number}?"}]
    return log


def lines(*values: Value) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in values).encode()


def read_bytes(tmp_path: Path, data: bytes, name: str = "a.jsonl") -> list[Recording]:
    path = tmp_path / name
    path.write_bytes(data)
    return [*read_file(path)]


def test_a_packed_file_that_is_torn_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    chance = random.Random(1)
    answer = {"role": "assistant", "content": "Yes."}
    asked = [{"role": "user", "content": chance.randbytes(2000).hex()} for _ in range(200)]
    data = gzip.compress(lines(*({"messages": [one, answer]} for one in asked)))
    torn = read_bytes(tmp_path, data[: len(data) // 2], "a.jsonl.gz")
    assert 80 < len(torn) < 120
    asides = {one.what for recording in torn for one in recording.aside}
    assert asides == {"end of the packed file", "last line"}
    with pytest.raises(SessionError, match="cannot be unpacked"):
        read_bytes(tmp_path, data[:12], "b.jsonl.gz")


def test_a_call_that_a_log_has_twice_is_counted_once(tmp_path: Path) -> None:
    log = a_log()
    once = read_bytes(tmp_path, lines(*log))
    twice = read_bytes(tmp_path, lines(*log, *log[1:4]))
    (recording,) = twice
    assert [len(one.exchanges) for one in twice] == [len(one.exchanges) for one in once] == [6]
    (aside,) = recording.aside
    assert (aside.what, aside.count) == ("call that was recorded before", 3)
    # the same words at another time are another call
    later = {**log[0], "timestamp": 1_700_009_999, "response": {**log[0]["response"], "id": "x"}}
    assert sum(len(one.exchanges) for one in read_bytes(tmp_path, lines(*log, later))) == 7


def test_files_of_one_program_that_were_put_together_are_a_session_each(tmp_path: Path) -> None:
    claude = (SAMPLES / "claude-code.jsonl").read_text("utf-8")
    codex = (SAMPLES / "codex.jsonl").read_text("utf-8")
    for name, text in (("claude-code", claude), ("codex", codex)):
        alone = read_bytes(tmp_path, text.encode())
        key = "sessionId" if name == "claude-code" else "id"
        other = text.replace(alone[0].id, "another-session")
        assert f'"{key}"' in text.replace(" ", "")
        for field in ('"parentUuid": "', '"uuid": "'):
            other = other.replace(field, f"{field}z")
        both = read_bytes(tmp_path, (text + other).encode())
        assert [one.id for one in both][:1] == [alone[0].id]
        assert len(both) == 2 * len(alone), name
        assert sum_parts(both) == sum_parts(alone) + sum_parts(alone), name


def test_files_of_several_programs_that_were_put_together_are_all_read(tmp_path: Path) -> None:
    claude = (SAMPLES / "claude-code.jsonl").read_bytes()
    codex = (SAMPLES / "codex.jsonl").read_bytes()
    log = lines(*a_log())
    parts = [sum_parts(read_bytes(tmp_path, one)) for one in (claude, codex, log)]
    for order in ((claude, codex, log), (log, claude, codex), (codex, log, claude)):
        read = read_bytes(tmp_path, b"".join(order))
        assert sum_parts(read) == sum(parts, Counter[str]())
        assert {one.format for one in read} == {"claude-code", "codex", "openai-chat"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<!doctype html><html>403", "it begins with '<!doctype html>"),
        (bytes(range(128, 250)) * 4, "this is not text"),
        (b"[" * 100_000, "it nests too deep"),
        (b'{"messages": [', "truncated"),
    ],
)
def test_what_is_not_json_is_called_what_it_is(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=words):
        read_bytes(tmp_path, data, "a.json")


def torn(line: bytes) -> bytes:
    return line[: len(line) // 2] + b"\n"


def chats(count: int = 4) -> list[Value]:
    answer = {"role": "assistant", "content": "Ho."}
    return [
        {"id": f"c{number}", "messages": [{"role": "user", "content": f"Hi {number}."}, answer]}
        for number in range(count)
    ]


DAMAGED: dict[str, list[bytes]] = {
    "log": lines(*a_log()).splitlines(keepends=True),
    "chats": lines(*chats()).splitlines(keepends=True),
    "claude-code": (SAMPLES / "claude-code.jsonl").read_bytes().splitlines(keepends=True),
    "codex": (SAMPLES / "codex.jsonl").read_bytes().splitlines(keepends=True),
}


@pytest.mark.parametrize("at", [0, 1, -2])
@pytest.mark.parametrize("name", DAMAGED)
def test_of_a_file_with_a_broken_line_the_rest_is_read(name: str, at: int, tmp_path: Path) -> None:
    """A conversation with a hole is refused, and so is nothing else; `lenient` reads it too."""
    whole = DAMAGED[name]
    place = at % len(whole)
    without = [*whole[:place], *whole[place + 1 :]]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(without))
    expected = [*read_file(path, lenient=True)]
    path.write_bytes(b"".join([*whole[:place], torn(whole[place]), *whole[place + 1 :]]))
    where = f"a.jsonl:{place + 1}"
    failed: list[SessionError] = []
    read = [*read_files([path], failed=failed)]
    (error,) = failed
    assert error.where == where
    assert error.hint == "mend this line, or read the rest with --lenient"
    is_one = name in ("claude-code", "codex")
    assert sum_parts(read) == (Counter() if is_one else sum_parts(expected))
    lenient = [*read_file(path, lenient=True)]
    assert sum_parts(lenient) == sum_parts(expected)
    (aside,) = [one for one in lenient[-1].aside if one.what == "place that cannot be read"]
    assert (aside.count, aside.places) == (1, (where,))


@pytest.mark.parametrize("name", DAMAGED)
def test_zeros_that_a_crash_left_are_named_and_the_rest_is_read(name: str, tmp_path: Path) -> None:
    whole = DAMAGED[name]
    expected = sum_parts(read_bytes(tmp_path, b"".join(whole)))
    zeros = b"\0" * 64
    for place in (0, 1):
        before, after = b"".join(whole[:place]), b"".join(whole[place:])
        for data in (before + zeros + after, before + zeros + b"\n" + after):
            read = read_bytes(tmp_path, data)
            assert sum_parts(read) == expected
            (aside,) = [x for one in read for x in one.aside if x.what == "zeros"]
            assert aside.places in (("a.jsonl:1",), ("a.jsonl:2",), ("a.jsonl:3",))


def test_a_long_log_is_read_line_by_line_whatever_its_first_line_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> Iterator[Recording]:
        raise AssertionError("it is read at once")

    log = lines(*a_log())
    expected = sum_parts(read_bytes(tmp_path, log))
    monkeypatch.setattr("weft.recordings.read.read_recordings", refuse)
    for start in (b"\xef\xbb\xbf", b"\0" * 9 + b"\n", b'{"torn": "li\n'):
        path = tmp_path / "b.jsonl"
        path.write_bytes(start + log)
        assert sum_parts([*read_file(path, lenient=True)]) == expected


@pytest.mark.parametrize("damage", ["broken", "torn within"])
def test_a_broken_file_in_an_archive_stops_no_other(damage: str, tmp_path: Path) -> None:
    good = b"".join(DAMAGED["chats"])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in (("a.jsonl", good), ("b.jsonl", b'{"nope\n{"bad'), ("c.jsonl", good)):
            archive.writestr(name, data)
    data = file.getvalue()
    if damage == "torn within":  # the checksum tells
        data = data.replace(b'{"nope', b'{"nOpe')
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    failed: list[SessionError] = []
    assert len([*read_files([path], failed=failed)]) == 8
    (error,) = failed
    assert error.where.startswith("a.zip: b.jsonl")
    lenient = [*read_file(path, lenient=True)]
    assert len(lenient) == 8
    (aside,) = [one for one in lenient[-1].aside if one.what == "place that cannot be read"]
    assert aside.places == (error.where,)


def test_a_file_of_broken_lines_alone_says_how_many(tmp_path: Path) -> None:
    for lenient in (False, True):
        path = tmp_path / "a.jsonl"
        path.write_bytes(b'{"a\n{"b\n{"c\n')
        with pytest.raises(SessionError, match="2 more could not be read") as error:
            [*read_file(path, lenient=lenient)]
        assert error.value.where == "a.jsonl:1"
