"""Recordings from files and values: the format is found by its shape.

A file holds one recording, a list of them, or one a line; or the lines of one: messages, events, a
transcript. It may be packed with gzip, or be google-adk's session database. An error names the file
and the line, or the index in it.
"""

import bz2
import glob
import gzip
import io
import itertools
import logging
import lzma
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol, cast
from urllib.parse import unquote

import msgspec

from weft.dialects import CHAT, DIALECTS, dialect_named, dialect_of
from weft.dialects.stream import AnswerErrors
from weft.dialects.wire import object_in, objects_in, text_at
from weft.errors import SessionError, UsageError, describe_kind
from weft.misuse import find_near
from weft.recordings.accounting import find_names, require_accounted, require_tools_called
from weft.recordings.alignment import exchange_of_request
from weft.recordings.apps import (
    are_turns,
    is_aider,
    is_aider_chat,
    is_chatgpt,
    is_claude_ai,
    is_continue,
    is_gptme,
    is_kimi,
    is_kimi_code,
    is_kimi_wire,
    is_sharegpt,
    read_aider_chat,
    read_aider_text,
    read_chatgpt,
    read_claude_ai,
    read_continue,
    read_gptme,
    read_kimi,
    read_kimi_code,
    read_kimi_wire,
    read_sharegpt,
    read_turns,
)
from weft.recordings.chats import (
    is_cline,
    is_cline_session,
    is_crush,
    is_cursor,
    is_droid,
    is_goose,
    is_goose_session,
    read_cline,
    read_cline_session,
    read_crush,
    read_cursor,
    read_droid,
    read_goose,
    read_goose_session,
)
from weft.recordings.coding import (
    SESSION_KEYS,
    TranscriptLine,
    is_claude_code,
    is_codex,
    is_codex_stream,
    is_opencode,
    is_opencode_stream,
    read_claude_code,
    read_codex,
    read_codex_stream,
    read_opencode,
    read_opencode_stream,
    split_sessions,
)
from weft.recordings.containers import (
    ZIP,
    is_tar,
    list_members,
    read_yaml,
    split_large,
    split_values,
)
from weft.recordings.databases import SQLITE, read_database
from weft.recordings.envelopes import open_envelope, open_fields, open_page, open_states
from weft.recordings.exchanges import ExchangeRecord
from weft.recordings.frameworks import (
    is_langgraph_update,
    read_events,
    read_langchain,
    read_langgraph_updates,
    read_pydantic_ai,
)
from weft.recordings.joining import count_growths, join_calls
from weft.recordings.lanes import join_agents
from weft.recordings.providers import (
    LISTS,
    bedrock_model,
    dialect_of_answer,
    is_agents_items,
    is_bedrock,
    is_converse,
    read_agents_items,
    read_bedrock,
    read_messages,
    read_plain,
    read_provider,
    unwrap_answer,
)
from weft.recordings.recording import (
    AGENT,
    FORMS,
    Aside,
    Asides,
    Recording,
    find_other_fields,
    parse_json,
    raise_first,
    read_cost,
    read_json,
    recording_of,
    replace_surrogates,
    seconds,
    tools_of,
    with_events,
)
from weft.recordings.runs import (
    RUNS,
    Document,
    is_agent_framework,
    is_autogen,
    is_copilot,
    is_gemini_lines,
    is_gemini_stream,
    is_openhands,
    is_pi,
    is_qwen,
    is_vibe_about,
    openhands_run,
    read_agent_framework,
    read_autogen,
    read_copilot,
    read_gemini_lines,
    read_gemini_stream,
    read_openhands,
    read_pi,
    read_qwen,
)
from weft.recordings.shelf import LARGE, Shelf
from weft.recordings.spans import (
    FLAVOURS,
    NOT_CAPTURED,
    GraphSpan,
    agent_of_span,
    expand_span,
    graph_of_span,
    has_words,
    is_spans,
    kind_of_span,
    list_spans,
    row_of_span,
)
from weft.recordings.traces import (
    asks_model,
    find_wrappers,
    is_observation,
    is_trace,
    is_trace_head,
    read_observation,
    request_of_row,
    runs_tool,
    tools_of_observation,
    with_row,
)
from weft.recordings.vercel import is_vercel, read_vercel
from weft.session import Session
from weft.values import Json, JsonObject, compact, has_lone_surrogate

_log = logging.getLogger("weft")

DOCUMENTS: tuple[Document, ...] = (
    Document("cline", is_cline_session, read_cline_session, "a session of Cline"),
    Document("aider", is_aider_chat, read_aider_chat, "a chat of Aider's"),
    Document("chatgpt", is_chatgpt, read_chatgpt, "a conversation of ChatGPT's export"),
    Document("claude-ai", is_claude_ai, read_claude_ai, "a conversation of claude.ai's export"),
    Document("continue", is_continue, read_continue, "a session of Continue"),
    Document("sharegpt", is_sharegpt, read_sharegpt, "turns with `from` and `value`"),
    Document("goose", is_goose_session, read_goose_session, "a session that Goose exported"),
    *RUNS,
)
"""Objects that tell what they are; the first that fits is taken."""


class Format(NamedTuple):
    """A form that a list of messages may have."""

    name: str
    fits: Callable[[list[JsonObject]], bool]
    """Whether a list is in this form; the first format that fits is taken."""
    read: Callable[[list[Json], str, str], Recording]
    """Messages, id and place to a recording."""
    about: str


Progress = Callable[[str, int, int], None]
"""Told the name of a file, how many of its bytes were read, and how many it has."""


def read_files(
    files: Iterable[Path],
    *,
    format: str | None = None,
    lenient: bool = False,
    failed: list[SessionError] | None = None,
    progress: Progress | None = None,
) -> Iterator[Recording]:
    """The recordings in files, in order; calls that have a file each come last, and are joined.

    The error of a file is added to `failed`, if it is given, and stops no other file.
    """
    calls: list[Recording] = []
    for unit in _join_folders(files):
        try:
            for recording in (
                _read_folder(*unit, format=format, lenient=lenient)
                if isinstance(unit, tuple)
                else read_file(unit, format=format, lenient=lenient, progress=progress)
            ):
                if recording.call is None:
                    yield recording
                else:
                    calls.append(recording)
        except SessionError as error:
            if failed is None:
                raise
            failed.append(error)
    yield from join_calls(calls, of_files=True)


class _RecordingFolder(NamedTuple):
    """A recording that is several files of a folder."""

    read: Callable[[Path, Sequence[Path], Asides, bool], Json]
    """The folder, its files, what is set aside, and whether to read on where one is broken."""
    home: Path
    """The folder of the recording."""


def _folder_of(path: Path) -> _RecordingFolder | None:
    """The folder that a file is a part of; None for a file that is a recording by itself."""
    if path.name == _STATE or _EVENT.fullmatch(path.name):
        events = path.parent / "events" if path.name == _STATE else path.parent
        home = path.parent.parent if path.parent.name == "events" else path.parent
        is_one = path.name != _STATE or any(map(_is_event, _list_folder(events)))
        is_one = is_one or any(map(_is_event, _list_folder(path.parent)))
        return _RecordingFolder(_read_openhands_folder, home) if is_one else None
    if path.name in (_MESSAGES, _ABOUT):
        about = path.with_name(_ABOUT)
        if path.with_name(_MESSAGES).exists() and about.exists():
            value = parse_json(about.read_bytes())
            if isinstance(value, dict) and is_vibe_about(cast("JsonObject", value)):
                return _RecordingFolder(_read_vibe_folder, path.parent)
        return None
    if path.suffix != ".json":
        return None
    store = next((one for one in [*path.parents][1:4] if _is_opencode_store(one)), None)
    return None if store is None else _RecordingFolder(_read_opencode_store, store)


_EVENT = re.compile(r"event-\d{5,}-[0-9a-f-]{36}\.json")
"""What OpenHands calls the files of a conversation, which has one for each event."""

_STATE = "base_state.json"

_MESSAGES, _ABOUT = "messages.jsonl", "meta.json"
"""The files of a session of Mistral Vibe."""


def _is_event(path: Path) -> bool:
    return _EVENT.fullmatch(path.name) is not None


def _list_folder(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else []


def _is_opencode_store(path: Path) -> bool:
    """Whether a folder is that in which older OpenCode keeps a file for each part."""
    return (path / "message").is_dir() and (path / "part").is_dir()


def _join_folders(files: Iterable[Path]) -> Iterator[Path | tuple[_RecordingFolder, list[Path]]]:
    """The files, where those of one folder are one recording, in the place of the first."""
    units: dict[Path | _RecordingFolder, list[Path]] = {}
    for path in files:
        units.setdefault(_folder_of(path) or path, []).append(path)
    for unit, paths in units.items():
        yield (unit, paths) if isinstance(unit, _RecordingFolder) else unit


def _read_folder(
    folder: _RecordingFolder, paths: Sequence[Path], *, format: str | None, lenient: bool
) -> Iterator[Recording]:
    """The recordings of a folder."""
    asides, home = Asides(), folder.home.resolve()
    value = folder.read(home, paths, asides, lenient)
    yield from _Values(home.name, format, lenient=lenient).whole(value, asides)


def _read_openhands_folder(
    home: Path, paths: Sequence[Path], asides: Asides, lenient: bool
) -> Json:
    """A conversation of OpenHands: a file for each event, and its state next to them.

    The last file may be torn, since its writer may have been killed.
    """
    state = home / _STATE
    about = object_in(_read_value(state, asides)) if state.exists() else {}
    events: list[Json] = []
    paths = [*filter(_is_event, paths)] or [
        one for folder in (home / "events", home) for one in _list_folder(folder) if _is_event(one)
    ]
    for path in paths:
        try:
            events.append(_read_value(path, asides))
        except SessionError as error:
            if path is not paths[-1] and not lenient:
                raise _with_way_on(error) from None
            asides.add("event that cannot be read", error.message, path.name)
    return openhands_run(events, about)


def _read_vibe_folder(home: Path, paths: Sequence[Path], asides: Asides, lenient: bool) -> Json:
    """A session of Mistral Vibe: a line for each message, and what it was held with next to it."""
    messages: list[Json] = []
    lines = _list_lines((home / _MESSAGES).read_bytes())
    for number, line in lines:
        where = f"{_MESSAGES}:{number}"
        try:
            messages.append(_read_line(line, where, asides))
        except SessionError as error:
            if (number, line) != lines[-1] and not lenient:
                raise _with_way_on(error) from None
            asides.add("line that cannot be read", error.message, where)
    return {"metadata": _read_value(home / _ABOUT, asides), "messages": messages}


def _read_opencode_store(home: Path, paths: Sequence[Path], asides: Asides, lenient: bool) -> Json:
    """The sessions in the files of older OpenCode: one for each message, and for each part."""
    names = {path.parent.relative_to(home.resolve()).parts[:2]
             for one in paths if (path := one.resolve())}  # fmt: skip
    sessions = {name[1] for name in names if name[0] == "message" and len(name) > 1}
    for kind in sorted({name[0] for name in names} - {"message", "part", "session", "info"}):
        asides.add(f"folder `{kind}`", "it is not part of a conversation", home.name)
    listed: list[Json] = []
    # a file of a part or of a session stands for the whole store
    for session in sorted(sessions) or [one.name for one in _list_folder(home / "message")]:
        messages: list[Json] = []
        for path in _list_folder(home / "message" / session):
            info = object_in(_read_value(path, asides))
            id = text_at(info, "id") or path.stem
            folders = (home / "part" / id, home / "part" / session / id)
            parts = [_read_value(one, asides) for folder in folders for one in _list_folder(folder)]
            messages.append({"info": {"id": id, "sessionID": session, **info}, "parts": parts})
        if messages:
            listed.append(messages)
    return listed


def _read_value(path: Path, asides: Asides) -> Json:
    """The value of a file of JSON."""
    try:
        return read_json(path.read_bytes(), path.name, asides.add)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> SessionError:
    return SessionError(
        f"it cannot be read: {error.strerror}", where=str(path), hint="name a file or a folder"
    )


def read_file(
    path: Path,
    *,
    format: str | None = None,
    name: str = "",
    lenient: bool = False,
    progress: Progress | None = None,
) -> Iterator[Recording]:
    """The recordings in one file. One with a recording a line is not read into memory at once.

    A call, a result, media or words that would be lost are an error; if `lenient`, they are named.
    """
    require_format(format)
    label = name or path.name
    data, asides = b"", Asides()
    try:
        with path.open("rb") as file:
            start = file.read(len(SQLITE))
            if start != SQLITE:
                file.seek(0)
                with (
                    _unpack(file, start, label, asides) as packed,
                    _split(packed, label) as plain,
                ):
                    log = _LogFile.find(plain, label, progress, is_split=plain is not packed)
                    if log is not None:
                        read = _Values(label, format, lenient=lenient).stream(log)
                        yield from _with(_with_own_ids(read), asides)
                        return
                    sessions = _SessionsFile.find(plain, label, progress)
                    if sessions is not None:
                        read = _Values(label, format, lenient=lenient).sessions(sessions)
                        yield from _with(_with_own_ids(read), asides)
                        return
                    data = plain.read()
    except OSError as error:
        raise _unreadable(path, error) from None
    if start == SQLITE:
        yield from read_database(
            path,
            lambda own: partial(_Values(label, format or own, lenient=lenient).read, single=False),
        )
        return
    yield from _with(read_recordings(data, name=label, format=format, lenient=lenient), asides)


_PACKED: dict[bytes, Callable[[BinaryIO, Literal["rb"]], AbstractContextManager[object]]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
"""What packed files begin with, and what unpacks them."""

_OTHERS = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d FILE"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d FILE"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x FILE"),
    b"Rar!": ("RAR", "unrar x FILE"),
}
"""What other packed files begin with, the name of the form, and what to type."""


def _unpack(file: BinaryIO, start: bytes, where: str, asides: Asides) -> BinaryIO:
    """The file, or an unpacked copy of it that can be read in any order.

    A writer that was killed leaves a torn file: it is unpacked as far as it goes.
    """
    opener = next((one for magic, one in _PACKED.items() if start.startswith(magic)), None)
    for magic, (name, command) in _OTHERS.items():
        if start.startswith(magic):
            raise SessionError(
                f"it is packed with {name}, which is not unpacked here",
                where=where,
                hint=f"unpack it: {command}",
            )
    if opener is None:
        return file
    plain = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 (whoever reads it closes it)
    try:
        with opener(file, "rb") as packed:
            # at most one block at a time: a read that fails would lose those before it
            while block := cast("io.BufferedReader", packed).read1(1 << 16):
                plain.write(block)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if not plain.tell():
            plain.close()
            raise SessionError(
                f"it cannot be unpacked: {error}", where=where, hint="is it damaged?"
            ) from None
        asides.add("end of the packed file", f"it cannot be unpacked: {error}", where)
    plain.seek(0)
    return plain


def _split(file: BinaryIO, where: str) -> AbstractContextManager[BinaryIO]:
    """The file, or where it is a large JSON value, a copy with an element of it on each line."""
    split = split_large(file, where)
    return nullcontext(file) if split is None else split


_BLANK = b" \t\r\n\0"
"""What a line has that says nothing; a crash leaves zeros where a file was not written."""

_MARK = b"\xef\xbb\xbf"
"""What Windows' editors begin a UTF-8 file with."""

_ZEROS = ("zeros", "nothing was written there: what wrote the file was killed")

_LOOKED_AT = 5
"""How many lines may be broken before the two that tell what a file is."""


class _LogFile:
    """A file in which each line is a recording: read line by line, in the order of time."""

    def __init__(
        self, file: BinaryIO, name: str, progress: Progress | None, *, is_split: bool
    ) -> None:
        self._file = file
        self._noun = ": recording " if is_split else ":"
        self.name = name
        self._progress = progress
        self.size = file.seek(0, 2)
        file.seek(0)
        self.count = 0
        """How many lines it has that are not empty."""
        self.zeros: list[int] = []
        """The lines with nothing but zeros."""

    @classmethod
    def find(
        cls, file: BinaryIO, name: str, progress: Progress | None, *, is_split: bool
    ) -> "_LogFile | None":
        """The log that a file is, None if its first two lines are not one recording each.

        Lines that are broken are passed over.
        """
        count = 0
        for line in itertools.islice(file, 2 + _LOOKED_AT):
            text = line.strip(_BLANK).removeprefix(_MARK)
            value = parse_json(text)
            if isinstance(value, dict) and _is_document(cast("JsonObject", value)):
                count += 1
            elif value is not None or (text and not text.startswith(b"{")):
                break
            if count == 2:
                break
        file.seek(0)
        return cls(file, name, progress, is_split=is_split) if count == 2 else None

    def place(self, number: int) -> str:
        """Where a recording stands in the file."""
        return f"{self.name}{self._noun}{number}"

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines with their numbers: the earliest call first, where all say when they were."""
        places: list[tuple[float, int, int]] = []
        sizes: dict[int, int] = {}
        at = 0
        for number, line in enumerate(self._file, 1):
            if text := line.strip(_BLANK):
                value = parse_json(text if at else text.removeprefix(_MARK))
                time = _time_in(cast("JsonObject", value)) if isinstance(value, dict) else 0.0
                places.append((time, at, number))
                sizes[number] = len(line)
            elif b"\0" in line:
                self.zeros.append(number)
            at += len(line)
        # after its last line a file may have been given room that was not used
        self.zeros = [one for one in self.zeros if places and one < places[-1][2]]
        self.count = len(places)
        times = [time for time, _, _ in places]
        # a broken last line has no time, and stays the last
        if all(times[:-1]) and times[:-1] != sorted(times[:-1]):
            timed = [*sorted(places[:-1]), places[-1]] if not times[-1] else sorted(places)
            grown = [count_growths([sizes[one] for *_, one in some]) for some in (places, timed)]
            places = places if grown[0] > grown[1] else timed
        read = 0
        for _, place, number in places:
            self._file.seek(place)
            line = self._file.readline()
            read += len(line)
            if self._progress is not None:
                self._progress(self.name, read, at)
            yield number, line if place else line.removeprefix(_MARK)


class _SessionsFile:
    """A large file of transcripts that were put together: read session by session."""

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        progress: Progress | None,
        sessions: list[list[tuple[int, int]]],
    ) -> None:
        self._file = file
        self._name = name
        self._progress = progress
        self._sessions = sessions
        """The number of each line, and its place."""

    @classmethod
    def find(cls, file: BinaryIO, name: str, progress: Progress | None) -> "_SessionsFile | None":
        """The sessions that a file has, None if it is short or has only one."""
        size = file.seek(0, 2)
        file.seek(0)
        first = parse_json(file.readline().strip(_BLANK).removeprefix(_MARK))
        file.seek(0)
        if size <= LARGE or not isinstance(first, dict):
            return None
        line_format = _line_format_of([cast("JsonObject", first)], None)
        if line_format is None or line_format.read is not read_claude_code:
            return None
        rows: list[TranscriptLine] = []
        at = 0
        for number, line in enumerate(file, 1):
            if line.strip(_BLANK):
                row: JsonObject = {"number": number, "at": at, **_session_keys_in(line)}
                rows.append(TranscriptLine("", row))
            at += len(line)
        file.seek(0)
        sessions = split_sessions(rows)
        if len(sessions) < 2:
            return None
        places = [
            [(cast("int", row.value["number"]), cast("int", row.value["at"])) for row in session]
            for session in sessions
        ]
        return cls(file, name, progress, places)

    def sessions(self) -> Iterator[list[tuple[int, bytes]]]:
        """The lines of each session, with their numbers."""
        size = self._file.seek(0, 2)
        read = 0
        for session in self._sessions:
            lines: list[tuple[int, bytes]] = []
            for number, place in session:
                self._file.seek(place)
                line = self._file.readline()
                read += len(line)
                lines.append((number, line if place else line.removeprefix(_MARK)))
            if self._progress is not None:
                self._progress(self._name, read, size)
            yield lines


class _SessionKeys(msgspec.Struct):
    """What a line of Claude Code says of the session that it is of."""

    session: str = msgspec.field(default="", name="sessionId")
    printed: str = msgspec.field(default="", name="session_id")
    parent: str | None = msgspec.field(default=None, name="parentUuid")
    logical: str | None = msgspec.field(default=None, name="logicalParentUuid")
    uuid: str = ""


_SESSION_KEYS = msgspec.json.Decoder(_SessionKeys)


def _session_keys_in(line: bytes) -> JsonObject:
    """The keys that tell a line's session. Nothing else of it is read, where that is possible."""
    try:
        keys = _SESSION_KEYS.decode(line)
    except (ValueError, RecursionError):
        value = parse_json(line)
        whole = cast("JsonObject", value) if isinstance(value, dict) else {}
        return {key: whole[key] for key in SESSION_KEYS if key in whole}
    values = (keys.session, keys.printed, keys.parent, keys.logical, keys.uuid)
    return dict(zip(SESSION_KEYS, values, strict=True))


def _with_own_ids(recordings: Iterable[Recording]) -> Iterator[Recording]:
    """The recordings of a file, each under an id of its own."""
    seen: dict[str, int] = {}
    for one in recordings:
        count = seen[one.id] = seen.get(one.id, 0) + 1
        if count > 1:
            why = "another recording of this file has it; this one is read under another"
            aside = Aside("id", why, 1, (one.source,))
            id = f"{one.id}-{count}"
            session = with_events(one.session, one.session.events)
            session.id = id
            one = one._replace(id=id, session=session, aside=(*one.aside, aside))
        yield one


_PLAIN_ENDINGS = (".json", ".jsonl", ".ndjson", ".traj", ".har", ".yaml", ".yml")
_ENDINGS = (
    *_PLAIN_ENDINGS, *(f"{one}.{kind}" for one in _PLAIN_ENDINGS for kind in ("gz", "xz", "bz2")),
    ".aider.chat.history.md", ".aider.llm.history",
    ".eval", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".db", ".sqlite", ".sqlite3",
)  # fmt: skip


def files_in(paths: Iterable[Path]) -> list[Path]:
    """The files that paths name: folders are searched for recordings, globs are expanded."""
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = [one for one in sorted(path.rglob("*")) if one.name.endswith(_ENDINGS)]
            matches = [one for one in inside if one.is_file()]
            missing = f"no file in this folder ends in {', '.join(_ENDINGS[:3])} or .db"
        elif glob.has_magic(str(path)) and not path.exists():
            matches = [Path(one) for one in sorted(glob.glob(str(path), recursive=True))]
            matches = [one for one in matches if one.is_file()]
            missing = "no file has such a name"
        else:
            matches, missing = [path] if path.exists() else [], "there is no such file"
        if not matches:
            raise SessionError(missing, where=str(path), hint="name a file, a folder or a glob")
        files.update(dict.fromkeys(matches))
    return list(files)


def read_recordings(
    data: bytes, *, name: str, format: str | None = None, lenient: bool = False
) -> Iterator[Recording]:
    """The recordings in a file's bytes, one by one; an error names the line."""
    require_format(format)
    try:
        yield from _with_own_ids(_read_bytes(data, name, _Values(name, format, lenient=lenient)))
    except RecursionError:
        raise SessionError("it nests too deep", where=name, hint="is it damaged?") from None


def _read_bytes(data: bytes, name: str, values: "_Values") -> Iterator[Recording]:
    asides = Asides()
    with _unpack(io.BytesIO(data), data[:6], name, asides) as plain:
        data = plain.read()
    yield from _with(_read_plain(data, name, values), asides)


def _read_plain(data: bytes, name: str, values: "_Values") -> Iterator[Recording]:
    """The recordings in bytes that are not packed."""
    if data.startswith(ZIP) or is_tar(data):
        yield from _read_archive(data, name, values)
        return
    if name.endswith(".pb"):
        raise SessionError(
            "this is a file of Antigravity's, which nothing else can read: it is encrypted",
            where=name,
            hint="record what it sends: weft proxy, or an export of its own as JSON",
        )
    if data.startswith(b"PAR1"):
        raise SessionError(
            "this is a Parquet file",
            where=name,
            hint="write it as JSON lines: duckdb -c \"COPY 'x.parquet' TO 'x.jsonl'\"",
        )
    if data.startswith(SQLITE):
        raise SessionError(
            "this is a database, which is read from its file",
            where=name,
            hint="unpack it, and name the file",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # what some shells write
        data = data.decode("utf-16", "replace").encode()
    elif data[:2].count(b"\0") == 1:  # the same without its mark
        data = data.decode("utf-16-le" if data[1:2] == b"\0" else "utf-16-be", "replace").encode()
    # after its last line a file may have been given room that was not used
    data = data.removeprefix(_MARK).rstrip(b"\0")
    if is_aider(data):
        chats = read_aider_text(data)
        yield from values.whole(chats[0] if len(chats) == 1 else chats, Asides())
        return
    lines = _list_lines(data)
    if not lines:
        raise SessionError("there is no recording in it", where=name, hint=FORMS)
    if _is_yaml(name) or lines[0][1].startswith(_CASSETTE):
        yield from values.whole(read_yaml(data, name), Asides())
        return
    if lines[0][1].startswith((b"data:", b"event:", b"id:")):  # a stream that was saved
        lines = [(number, line[5:]) for number, line in lines if line.startswith(b"data: {")]
    if len(lines) == 1 or isinstance(parse_json(lines[0][1]), dict | list):
        yield from _read_lines(lines, values)
        return
    asides = Asides()
    try:
        value = read_json(data, name, asides.add)
    except SessionError:
        several = split_values(data)
        if several:  # objects over many lines, one after the other
            places = [(f"{name}: value {at}", one) for at, one in enumerate(several, 1)]
            rows = [TranscriptLine(place, one) for place, one in places]
            yield from values.rows(rows, {place: asides for place, _ in places}, None, ())
            return
        # a value over many lines: the error is about all of it
        if lines[0][1].strip()[:2] in (b"{", b"[") or lines[0][1].lstrip().startswith(b"["):
            raise
        # its first line is broken
        yield from _read_lines(lines, values)
        return
    yield from values.whole(value, asides)


_CASSETTE = (b"interactions:", b"http_interactions:", b"requests:", b"---\n")


def _is_yaml(name: str) -> bool:
    """Whether a file's name says that it is YAML, packed or not."""
    plain = name.removesuffix(".gz").removesuffix(".xz").removesuffix(".bz2")
    return plain.endswith((".yaml", ".yml"))


def _read_archive(data: bytes, name: str, values: "_Values") -> Iterator[Recording]:
    """The recordings in the files of an archive."""
    errors: list[SessionError] = []
    members = [*list_members(data, name, _PLAIN_ENDINGS, errors)]
    if not members and not errors:
        raise SessionError("no file in this archive is a recording", where=name, hint=FORMS)

    def read_members() -> Iterator[Recording]:
        for member in members:
            inner = _Values(f"{name}: {member.name}", values.format, lenient=values.lenient)
            try:
                yield from _read_bytes(member.data, inner.name, inner)
            except SessionError as error:
                errors.append(error)

    yield from _with_errors(read_members(), errors, lenient=values.lenient)


def _list_lines(data: bytes) -> list[tuple[int, bytes]]:
    """The lines that say something, with their numbers; each has the zeros that are before it."""
    lines: list[tuple[int, bytes]] = []
    zeros = b""
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip(_BLANK):
            lines.append((number, zeros + line))
            zeros = b""
        elif b"\0" in line:
            zeros = b"\0"
    return lines


def _read_line(line: bytes, where: str, asides: Asides) -> Json:
    """The value of a line. Zeros around it are named."""
    text = line.strip(_BLANK)
    if line.strip().startswith(b"\0") or line.strip().endswith(b"\0"):
        asides.add(*_ZEROS, where)
    return read_json(text, where, asides.add)


def _with_way_on(error: SessionError) -> SessionError:
    """The error for a broken line among others, with what to do about it."""
    if error.hint != FORMS:
        return error
    hint = "mend this line, or read the rest with --lenient"
    return SessionError(error.message, where=error.where, hint=hint)


def _read_lines(lines: Sequence[tuple[int, bytes]], values: "_Values") -> Iterator[Recording]:
    """The recordings in lines of JSON.

    The last line may be torn, since its writer may have been killed: it is set aside. Any other
    broken line is an error, raised at once where all lines are one conversation, and after the
    others were read where each line is one of its own. If `lenient`, it is set aside too.
    """
    name = values.name
    rows: list[TranscriptLine] = []
    mended: dict[str, Asides] = {}
    broken: list[SessionError] = []
    for number, line in lines:
        where = f"{name}:{number}"
        asides = mended[where] = Asides()
        try:
            rows.append(TranscriptLine(where, cast("JsonObject", _read_line(line, where, asides))))
        except SessionError as error:
            glued = split_values(line)  # two writers, and no line end between them
            rows += [TranscriptLine(where, one) for one in glued]
            if not glued:
                broken.append(error)
    torn: SessionError | None = None
    begins = lines[-1][1].lstrip().startswith((b"{", b"["))
    if rows and broken and begins and broken[-1].where == f"{name}:{lines[-1][0]}":
        torn = broken.pop()
    if not rows:
        raise_first(broken)
    yield from values.rows(rows, mended, torn, [*map(_with_way_on, broken)])


def _torn_line(error: SessionError | None) -> Asides:
    asides = Asides()
    if error is not None:
        asides.add("last line", f"it is torn: {error.message}", error.where)
    return asides


def _with(
    recordings: Iterable[Recording], asides: Asides, lost: Sequence[Aside] = ()
) -> Iterator[Recording]:
    """The recordings, the first of them with what else was set aside."""
    listed = (*lost, *asides.collect())
    for recording in recordings:
        yield recording._replace(aside=(*recording.aside, *listed)) if listed else recording
        listed = ()


def _with_errors(
    recordings: Iterable[Recording], errors: Sequence[SessionError], *, lenient: bool
) -> Iterator[Recording]:
    """The recordings, then the first of the errors that were met while they were read.

    If `lenient`, the last recording has the errors among what was set aside.
    """
    last: Recording | None = None
    for recording in recordings:
        if last is not None:
            yield last
        last = recording
    if last is None:
        raise_first(errors)
        return
    if lenient:
        asides = Asides()
        for error in errors:
            asides.add("place that cannot be read", error.message, error.where)
        yield last._replace(aside=(*last.aside, *asides.collect()))
    else:
        yield last
        raise_first(errors)


_DEEPEST = 100
"""How many spans around a call are looked at."""

_NO_MODEL = "no model was asked in it"

_REPEATS = "the last one holds all of it"


class _Values:
    """Finds the recordings in parsed JSON."""

    def __init__(self, name: str, format: str | None, *, lenient: bool = False) -> None:
        self.name = name
        self.format = format
        self.lenient = lenient
        self.is_large = False
        """Whether it holds more than memory should."""
        self.skipped = Asides()
        """Rows of a trace in which no model was asked."""
        self.ran: list[tuple[str, str]] = []
        """The tools among them, each with its place."""
        self.ran_in_spans: list[tuple[str, str]] = []
        """Tools that ran in spans; code may have called them, and then an answer has the name."""
        self.agents: dict[str, tuple[str, str]] = {}
        """The agent that a span names, if any, and the span around it."""
        self.graphs: dict[str, GraphSpan] = {}
        """Spans of LangGraph."""
        self.repeated: set[str] = set()
        """The steps of a trace that are around a call, and have its words once more."""
        self.stem = Path(name).name.partition(".")[0] or name

    def rows(
        self,
        rows: Sequence[TranscriptLine],
        mended: Mapping[str, Asides],
        torn: SessionError | None,
        broken: Sequence[SessionError],
    ) -> Iterator[Recording]:
        """Lines of a file: each a recording, or all of them one.

        `mended` is what was set aside on each line, `torn` the end of the file, `broken` the lines
        that are missing from `rows`.
        """
        groups = self._split_forms(rows)
        if len(groups) > 1:
            errors = [*broken]

            def read_groups() -> Iterator[Recording]:
                for number, group in enumerate(groups, 1):
                    last = torn if number == len(groups) else None
                    try:
                        yield from self.rows(group, mended, last, ())
                    except SessionError as error:
                        errors.append(error)

            yield from _with_errors(read_groups(), errors, lenient=self.lenient)
            return
        whole = self._conversation(rows)
        if whole is not None:
            if not self.lenient:  # a conversation with a hole in it is not a conversation
                raise_first(broken)
            whole = _with(whole, Asides.of(*mended.values(), _torn_line(torn)))
            yield from _with_errors(whole, broken, lenient=self.lenient)
            return
        errors = [*broken]
        self.repeated = find_wrappers(
            one for row in rows for one in objects_in(cast("Json", [row.value]))
        )

        def read_rows() -> Iterator[Recording]:
            for number, row in enumerate(rows, 1):
                single = len(rows) == 1
                label = self.stem if single else f"{self.stem}-{number}"
                recordings = self.read(cast("Json", row.value), label, row.where, single=single)
                last = _torn_line(torn if number == len(rows) else None)
                try:
                    yield from _with(recordings, Asides.of(mended[row.where], last))
                except SessionError as error:
                    errors.append(error)
                    if number == len(rows) and torn is not None:
                        errors.append(torn)

        yield from self.require_some(self._join(read_rows()), errors)

    def whole(self, value: Json, asides: Asides) -> Iterator[Recording]:
        """The recordings of a file that is one value; the calls in it are joined."""
        read = self.read(value, Path(self.name).stem, self.name)
        yield from self.require_some(self._join(_with(read, asides)), ())

    def stream(self, log: _LogFile) -> Iterator[Recording]:
        """The recordings of a log, line by line; what its lines share is kept once."""
        self.is_large = log.size > LARGE
        errors: list[SessionError] = []
        torn: list[SessionError] = []
        others: dict[int, TranscriptLine] = {}

        def read_rows() -> Iterator[Recording]:
            for number, line in log.lines():
                where, asides = log.place(number), Asides()
                try:
                    value = _read_line(line, where, asides)
                    if isinstance(value, dict) and self._is_transcript(value):
                        others[number] = TranscriptLine(where, value)
                        continue
                    recordings = self.read(value, f"{self.stem}-{number}", where, single=False)
                    yield from _with(recordings, asides)
                except SessionError as error:
                    text = line.strip(_BLANK)
                    is_last = number == log.count and text.startswith((b"{", b"["))
                    if parse_json(text) is not None:
                        errors.append(error)
                    else:
                        (torn if is_last else errors).append(_with_way_on(error))

        joined = self._join(read_rows(), in_order=True)
        first = next(joined, None)  # all lines are read now
        asides = _torn_line(torn[0] if torn else None)
        for number in log.zeros:
            asides.add(*_ZEROS, log.place(number))
        whole = _with(itertools.chain(() if first is None else (first,), joined), asides)
        if others:  # the file of another program was appended
            lines = [others[number] for number in sorted(others)]
            none = {line.where: Asides() for line in lines}
            whole = itertools.chain(whole, self.rows(lines, none, None, ()))
        yield from self.require_some(whole, errors)

    def sessions(self, file: _SessionsFile) -> Iterator[Recording]:
        """The recordings of transcripts that were put together, session by session."""
        errors: list[SessionError] = []

        def read_sessions() -> Iterator[Recording]:
            for lines in file.sessions():
                try:
                    yield from _read_lines(lines, self)
                except SessionError as error:
                    errors.append(error)

        yield from _with_errors(read_sessions(), errors, lenient=self.lenient)

    def _is_transcript(self, value: JsonObject) -> bool:
        """Whether a line is of a transcript, and not a recording of its own."""
        return (
            self.format is None
            and not _is_document(value)
            and _line_format_of([value], None) is not None
        )

    def _split_forms(self, rows: Sequence[TranscriptLine]) -> list[list[TranscriptLine]]:
        """The lines of each form, where files of several programs were put together.

        A line that fits no form is of the file of the line before it.
        """
        groups: dict[str, list[TranscriptLine]] = {}
        name = ""
        for row in rows:
            value = cast("Json", row.value)
            if isinstance(value, dict):
                line_format = None if _is_document(value) else _line_format_of([value], None)
                form = "document" if _is_document(value) else line_format and line_format.name
                if not name and form:
                    groups = {form: groups.pop("", [])}
                name = form or name
            groups.setdefault(name, []).append(row)
        if len(groups) < 2 or self.format is not None:
            return [[*rows]]
        strict = _Values(self.name, None)
        try:  # a line of one program may look like one of another
            is_one = strict._conversation(rows) is not None
        except SessionError:
            is_one = False
        return [[*rows]] if is_one else [*groups.values()]

    def _conversation(self, rows: Sequence[TranscriptLine]) -> Iterable[Recording] | None:
        """The recordings of lines that are messages, events or a transcript; None if not so."""
        values = cast("list[Json]", [row.value for row in rows])
        placed = [(row.where, value) for row, value in zip(rows, values, strict=True)]
        objects = [value for value in values if isinstance(value, dict)]
        if any(map(_is_document, objects)):
            return None
        lines = _line_format_of(objects, self.format)
        if len(objects) < len(values):
            if lines is not None:  # a transcript with something else in it
                odd = next(row for row in rows if not isinstance(cast("Json", row.value), dict))
                raise SessionError(
                    f"a line of {lines.name} is an object, and this is"
                    f" {describe_kind(cast('Json', odd.value))}",
                    where=odd.where,
                    hint="take this line out, or mend it",
                )
            return None
        if lines is not None:
            return self._account(placed, lines.read(rows, self.stem, self.name), self.name)
        if _format_of(objects, self.format) is not None:
            placed = [(f"{self.name}: messages[{at}]", one) for at, one in enumerate(values)]
            return self._account(placed, [self._list(values, self.stem, self.name)], self.name)
        return None

    def _join(
        self, recordings: Iterable[Recording], *, in_order: bool = False
    ) -> Iterator[Recording]:
        """The calls of a log as conversations, if no tool ran that none of them has called."""
        calls = join_calls(recordings, in_order=in_order, is_large=self.is_large)
        named_calls = map(self._name_agents, calls)
        first = next(named_calls, None)  # all recordings are read now
        joined: Iterable[Recording] = (
            () if first is None else itertools.chain((first,), named_calls)
        )
        lost: tuple[Aside, ...] = ()
        # where no words were captured, those of tools were not either
        is_silent = first is None and any(one.why == NOT_CAPTURED for one in self.skipped.collect())
        if (self.ran or self.ran_in_spans) and not is_silent:
            listed = Shelf(joined) if self.is_large else [*joined]
            called = find_names(listed, {name for name, _ in self.ran_in_spans})
            ran = [*self.ran, *(one for one in self.ran_in_spans if one[0] not in called)]
            self.ran, self.ran_in_spans = [], []
            lost = require_tools_called(ran, listed, where=self.name, lenient=self.lenient)
            joined = listed
        if self.agents:
            joined = join_agents(Shelf(joined) if self.is_large else [*joined], self.agents)
        skipped = self.skipped
        if first is not None:  # they are named with the recordings next to them, once
            self.skipped = Asides()
        yield from _with(joined, skipped, lost)

    def _name_agents(self, recording: Recording) -> Recording:
        """The calls with the agent that made them: the span around one may come after it."""
        if not self.agents or not recording.exchanges:
            return recording
        self._name_graphs()

        def name_agent(exchange: ExchangeRecord) -> ExchangeRecord:
            agent, around = exchange.agent, exchange.parent
            for _ in range(_DEEPEST):
                if agent or around not in self.agents:
                    break
                agent, around = self.agents[around]
            return replace(exchange, agent=agent)

        return recording._replace(exchanges=tuple(map(name_agent, recording.exchanges)))

    def _name_graphs(self) -> None:
        """Name the agents that are graphs: a graph is what is around a node."""
        around = {id: self.agents[id][1] for id, span in self.graphs.items() if span.node}
        named = {id for id in around.values() if id in self.graphs and self.graphs[id].agent}
        for id, graph in around.items():
            if graph in named and id not in named:
                self.agents[id] = ("", graph)
        for id in named:  # a graph may be a node of another one
            self.agents[id] = (self.graphs[id].agent, self.agents[id][1])
        self.graphs = {}

    def require_some(
        self, recordings: Iterable[Recording], errors: Sequence[SessionError]
    ) -> Iterator[Recording]:
        """The recordings, then the first error that was met; or one that nothing was there."""
        is_empty = True
        for one in _with_errors(recordings, errors, lenient=self.lenient):
            is_empty = False
            yield one
        skipped = self.skipped.collect()
        if skipped and is_empty:
            missing = [one for one in skipped if one.why == NOT_CAPTURED]
            message = "no call of a model says what was said" if missing else _NO_MODEL
            raise SessionError(message, where=self.name, hint="; ".join(map(str, skipped)))
        if is_empty:
            raise SessionError("nothing was said in it", where=self.name, hint=FORMS)

    def _account(
        self, values: Iterable[tuple[str, Json]], recordings: Iterable[Recording], where: str
    ) -> list[Recording]:
        """The recordings of some values, if they hold all that was said in these."""
        try:
            return require_accounted(values, recordings, where=where, lenient=self.lenient)
        except UsageError as error:  # a dialect's reader knows its own field, and not the file
            place = f"{where}: {error.where}" if error.where else where
            raise SessionError(error.message, where=place, hint=error.hint) from None

    def read(self, value: Json, id: str, where: str, *, single: bool = True) -> Iterator[Recording]:
        """A value of a file: a recording, a list of messages, or a list of recordings."""
        if isinstance(value, dict):
            opened = open_envelope(value) or open_page(value, _is_document)
            if opened is None:
                # what stands around a call repeats it, and its tools are counted by their names
                repeats = (
                    is_spans(value)
                    or is_trace(value)
                    or (is_observation(value) and not asks_model(value))
                    or text_at(value, "id") in self.repeated
                )
                counted: list[tuple[str, Json]] = [] if repeats else [(where, value)]
                yield from self._account(counted, self._object(value, id, where), where)
                return
            for what, place in opened.omitted:
                self.skipped.add(what, _NO_MODEL, f"{where}: {place}")
            if isinstance(opened.value, dict):
                yield from self._account(
                    [(where, value)], self.read(opened.value, id, where, single=single), where
                )
                return
            value = opened.value
            if not value:
                yield from self.require_some((), ())
        if not isinstance(value, list):
            raise SessionError("this is not a recording", where=where, hint=FORMS)
        if not value:
            raise SessionError("there is no recording in it", where=where, hint=FORMS)
        objects = [one for one in value if isinstance(one, dict)]
        documents = any(map(_is_document, objects)) or all(isinstance(one, list) for one in value)
        if documents or self._is_list_of_unknown(objects):
            states = open_states(objects) if len(objects) == len(value) else None
            if states is not None:
                for what, place in states.omitted:
                    self.skipped.add(what, _REPEATS, f"{where}{place}")
                value = cast("list[Json]", states.value)
            self.repeated |= find_wrappers(objects)
            read = (
                recording
                for number, one in enumerate(value, 1)
                for recording in self.read(
                    one,
                    f"{self.stem}-{number}",
                    f"{self.name}: recording {number}" if single else f"{where}[{number - 1}]",
                    single=False,
                )
            )
            yield from self._join(read)
            return
        lines = [TranscriptLine(f"{where}[{at}]", one) for at, one in enumerate(objects)]
        placed = [(f"{where}[{at}]", one) for at, one in enumerate(value)]
        recordings: Iterable[Recording]
        transcript = _line_format_of(objects, self.format)
        if transcript is not None:
            recordings = transcript.read(lines, id, where)
        else:
            recordings = [self._list(value, id if not single else self.stem, where)]
            placed = [(f"{where}: messages[{at}]", one) for at, one in enumerate(value)]
        yield from self._account(placed, recordings, where)

    def _is_list_of_unknown(self, objects: list[JsonObject]) -> bool:
        """Whether objects that no format knows hold recordings in their fields."""
        if self.format is not None or _line_format_of(objects, None) or _format_of(objects, None):
            return False
        return any(open_fields(one, _is_document, _is_talk) for one in objects)

    def _list(self, messages: list[Json], id: str, where: str) -> Recording:
        """A list of messages in the format it has, or in the one that was named."""
        objects = [one for one in messages if isinstance(one, dict)]
        chosen = _format_of(objects, self.format)
        if chosen is None:
            bad = next((at for at, one in enumerate(messages) if not isinstance(one, dict)), None)
            if bad is not None:
                raise SessionError(
                    "a message is an object", where=f"{where}: messages[{bad}]", hint=FORMS
                )
            raise _unknown(objects, where)
        return chosen.read(messages, id, where)

    def _object(self, raw: JsonObject, id: str, where: str) -> Iterator[Recording]:
        """An object: a session, a request with or without what was recorded around it, a chat."""
        document = self._document(raw, where)
        if document is not None:
            yield from document.read(raw, id, where)
            return
        if is_trace_head(raw):
            self.skipped.add("head of a trace", _NO_MODEL, where)
            return
        if is_spans(raw):  # a span may have events too
            yield from self._spans(raw, id, where)
            return
        if isinstance(raw.get("events"), list):
            yield _session(raw, where)
            return
        if is_trace(raw):
            yield from self.read(raw["observations"], id, f"{where}: observations", single=False)
            return
        if is_observation(raw):
            yield from self._observation(raw, id, where)
            return
        label = str(raw.get("id") or raw.get("custom_id") or id)
        inner = _request_in(raw)
        response = None if inner is None else _answer_in(raw)
        request = _with_bedrock_model(raw, raw if inner is None else inner)
        named = raw.get("dialect")
        dialect = named if isinstance(named, str) and named in DIALECTS else dialect_of(request)
        # several providers take such messages, and some have thoughts in them as Anthropic has
        if dialect in (CHAT, "anthropic") and dialect != named:
            answered = dialect_of_answer(response)
            dialect = answered or (_dialect_of_address(raw) if dialect == CHAT else "") or dialect
        if self.format in LISTS:
            dialect = self.format or ""
        messages = request.get("messages")
        listed = (
            [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
        )
        own = _format_of(listed, self.format)
        if (own is not None and own.name == "bedrock") or is_converse(request, response):
            yield read_bedrock(request, label, where, response=response)
            return
        foreign = own is not None and own.name not in LISTS
        if inner is None and _is_case(request):
            dialect = ""
        # anything with messages looks like a chat request; one that was sent names a model
        if dialect and not foreign and (dialect != CHAT or "model" in request):
            recording = read_provider(
                request, dialect, label, where, response=response, model=_model_in(raw)
            )
            if recording.call is not None:
                exchange = _exchange_in(raw, request, recording, where, answer=response)
                recording = recording._replace(
                    call=recording.call._replace(
                        time=exchange.started or 0.0,
                        failed=recording.call.failed or bool(exchange.error and recording.asks),
                        record=hash(compact(raw)),
                    ),
                    exchanges=(exchange,),
                )
            beside = () if inner is None else find_other_fields(raw, _ENVELOPE, "request", where)
            yield recording._replace(aside=(*recording.aside, *beside))
            return
        if not isinstance(messages, list):
            yield from self._fields(raw, id, where)
            return
        if not messages:
            raise SessionError("there is no message in it", where=where, hint=FORMS)
        if own is not None and own.name == CHAT:
            chat: JsonObject = {}
            for key in ("messages", "tools"):
                if key in request:
                    chat[key] = request[key]
            recording = read_provider(chat, CHAT, label, where, answered="tools" not in request)
            recording = recording._replace(config={})
        else:
            recording = _with_tools(self._list(messages, label, where), request.get("tools"))
        fields = [
            *find_other_fields(request, ("id", "messages", "tools", "model"), "messages", where)
        ]
        if inner is not None:
            fields += find_other_fields(raw, _ENVELOPE, "request", where)
        yield recording._replace(aside=(*recording.aside, *fields))

    def _fields(self, raw: JsonObject, id: str, where: str) -> Iterator[Recording]:
        """The recordings in the fields of an object that no format knows; others are named."""
        fields = open_fields(raw, _is_document, _is_talk) if self.format is None else {}
        if not fields:
            raise _unknown([raw], where)
        asides = [*find_other_fields(raw, fields, f"`{next(iter(fields))}`", where)]
        for name, value in fields.items():
            label = id if len(fields) == 1 else f"{id}/{name}"
            # a field's own messages are counted where they stand
            place = f"{where}: {name}"
            for recording in self.read(value, label, place, single=False):
                yield recording._replace(aside=(*recording.aside, *asides))
                asides = []

    def _document(self, raw: JsonObject, where: str) -> Document | None:
        """The form of an object that tells what it is, if no other was named."""
        if self.format is None:
            return next((one for one in DOCUMENTS if one.fits(raw)), None)
        wanted = next((one for one in DOCUMENTS if one.name == self.format), None)
        if wanted is not None and not wanted.fits(raw):
            keys = ", ".join(list(raw)[:6])
            raise SessionError(
                f"this is not {wanted.about}: an object with {keys or 'nothing'}",
                where=where,
                hint="leave the format out: it is found by its shape",
            )
        return wanted

    def _spans(self, raw: JsonObject, id: str, where: str) -> Iterator[Recording]:
        """The calls of models in spans; other spans are named, and tools must have been called.

        A span of a library may stand around that of the client which it calls: the call in it is
        read. It ends later, and so may come in a later part of the file.
        """
        spans = list_spans(raw)
        models = {span.id for span in spans if kind_of_span(span) == "model"}
        inner = (span for span in spans if span.id in models and span.parent in models)
        self.repeated |= {span.parent for span in inner if has_words(row_of_span(span)[2])}
        for number, span in enumerate(spans, 1):
            place = f"{where}: span {span.id or number}"
            flavour, kind, row = row_of_span(span)
            self.agents[span.id] = (agent_of_span(span), span.parent)
            graph = graph_of_span(span)
            if graph is not None:
                self.graphs[span.id] = graph
            if kind == "model" and span.id and span.id in self.repeated:
                self.skipped.add("span around a call", "the call in it is read", place)
            elif kind == "model" and not has_words(row):
                self.skipped.add("call of a model", NOT_CAPTURED, place)
            elif kind == "model":
                self.repeated.add(span.parent)
                whole = self._call_of_row(row, id, place, flavour)
                # each by itself: what is joined later has the words of only one of two requests
                yield from self._account([(place, expand_span(span))], [whole], place)
            else:
                self.skipped.add(f"span `{kind}`", _NO_MODEL, place)
                if kind == "tool":
                    self.ran_in_spans.append((text_at(row, "name"), place))

    def _observation(self, row: JsonObject, id: str, where: str) -> Iterator[Recording]:
        """A step of a trace, if a model was asked in it; another is named."""
        if not asks_model(row):
            kind = f"observation `{row.get('type')}`"
            self.skipped.add(kind, _NO_MODEL, where)
            if runs_tool(row):
                name = re.sub(r"^(?:running|execute)[ _]tool:? ", "", text_at(row, "name"))
                self.ran_in_spans.append((name, where))
            return
        if text_at(row, "id") in self.repeated:
            self.skipped.add("observation around a call", "the call in it is read", where)
            return
        if not row.get("input") and not row.get("output"):
            self.skipped.add("call of a model", NOT_CAPTURED, where)
            return
        yield self._call_of_row(row, id, where, "langfuse")

    def _call_of_row(self, row: JsonObject, id: str, where: str, format: str) -> Recording:
        """The call of a model in a trace: a provider's own request, or messages of any form."""
        asked = request_of_row(row)
        if asked is None:
            observed = read_observation(row, id, where, self._list, format=format)
            return _with_tools(observed, tools_of_observation(row))
        dialect, request, response = asked
        recording = read_provider(request, dialect, id, where, response=response)
        exchange = exchange_of_request(
            request, dialect, model=recording.model, answer=response, source=where
        )
        return with_row(recording, exchange, row, format=format)


def _is_case(row: JsonObject) -> bool:
    """Whether an object is a row of a data set: an input, and at best the answer that is wanted."""
    if "input" not in row or row.keys() & _BESIDE_INPUT:
        return False
    return isinstance(row["input"], str) or bool(row.keys() & _WANTED)


_WANTED = frozenset(("target", "ideal", "expected", "expected_output", "reference"))

_BESIDE_INPUT = frozenset(
    ("model", "instructions", "tools", "previous_response_id", "conversation", "prompt", "stream",
     "max_output_tokens", "dialect")
)  # fmt: skip
"""Fields of a request of OpenAI's Responses, next to its input."""


def _with_tools(recording: Recording, tools: Json) -> Recording:
    """The recording with the tools that were next to its messages."""
    if not isinstance(tools, list) or not tools:
        return recording
    declared = dialect_named(CHAT).read({"tools": tools, "messages": []}).tools
    return recording._replace(tools=tools_of(declared))


_TIMES = (
    ("started", "start_time", "startTime", "started_at"),
    ("first_token", "first_token_at", "completionStartTime"),
    ("ended", "end_time", "endTime", "ended_at"),
)
"""What recorders call the beginning of a call, its first token and its end."""

_MOMENTS = (
    "timestamp", "time", "created_at", "createdAt", "startTime", "start_time", "started",
    "request_created_at", "start_timestamp",
)  # fmt: skip
"""What recorders call the time of a call."""

_ENVELOPE = (
    "id", "custom_id", "dialect", "request", "body", "response", "stream", "chunks", "path",
    "status", "status_code", "error", "latency_ms", "duration_ms", *_MOMENTS,
    *(key for keys in _TIMES for key in keys),
)  # fmt: skip
"""What recorders write around a request, and is read."""


def _request_in(raw: JsonObject) -> JsonObject | None:
    """The request below what a recorder wrote around it: an object, or its JSON text."""
    for key in ("request", "body"):
        inner = raw.get(key)
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            try:
                inner = cast("Json", msgspec.json.decode(inner))
            except (ValueError, RecursionError):
                continue
        if isinstance(inner, dict):
            return _request_in(inner) or inner if "body" in inner else inner
    return None


def _answer_in(raw: JsonObject) -> Json:
    """The answer to a request; a stream where there is no whole answer."""
    return next((raw[key] for key in ("response", "stream", "chunks") if raw.get(key)), None)


def _addresses(raw: JsonObject) -> Iterator[str]:
    """Where a recorder says that a request was sent."""
    for key in ("path", "url", "uri"):
        yield str(raw.get(key) or "")


def _model_in(raw: JsonObject) -> str:
    """The model that an address names, for providers whose requests do not."""
    for address in _addresses(raw):
        match = re.search(r"models/([^:/?]+):", address)
        if match:
            return match[1]
    return ""


def _with_bedrock_model(raw: JsonObject, request: JsonObject) -> JsonObject:
    """The request with the model that Bedrock has in its address."""
    for address in _addresses(raw):
        match = re.search(r"/model/([^/]+)/(converse|invoke)", address)
        if match and "modelId" not in request:
            model = unquote(match[1])
            by_maker = {"model": bedrock_model(model)} if match[2] == "invoke" else {}
            return {**by_maker, **request, "modelId": model}
    return request


def _dialect_of_address(raw: JsonObject) -> str:
    """The dialect of the provider that a request was sent to; empty where that says nothing."""
    sent = any(re.search(r"anthropic\.com/|/v1/messages(\?|$)", one) for one in _addresses(raw))
    return "anthropic" if sent else ""


def _time_in(raw: JsonObject) -> float:
    """When a call was made, where its recorder or its answer says so; else 0."""
    answer = object_in(unwrap_answer(raw.get("response")))
    times = (raw.get(name) for name in _MOMENTS)
    moments = map(seconds, (*times, answer.get("created"), answer.get("created_at")))
    return next((time for time in moments if time), 0.0)


def _exchange_in(
    raw: JsonObject, request: JsonObject, recording: Recording, where: str, *, answer: Json
) -> ExchangeRecord:
    """The call as it was recorded: request, answer, times, status and error."""
    exchange = exchange_of_request(
        request,
        recording.format,
        model=recording.model or _model_in(raw),
        answer=unwrap_answer(answer),
        source=where,
    )
    status = next((raw[key] for key in ("status", "status_code") if key in raw), None)
    status = status if isinstance(status, int) else None
    error = raw.get("error")
    if recording.call is not None and recording.call.failed:
        error = error or object_in(exchange.answer).get("error") or "the answer is an error"
    if isinstance(error, dict) or (not error and recording.asks and (status or 0) >= 400):
        body: JsonObject = {"error": error} if error else {}
        failure = AnswerErrors(recording.format).failure(status, body)
        error = f"{failure.code}: {failure.message}"
    times = [
        next((time for key in keys if (time := seconds(raw.get(key)))), None) for keys in _TIMES
    ]
    took = next((raw[key] for key in ("latency_ms", "duration_ms") if key in raw), None)
    started, first, ended = times
    started = started or _time_in(raw) or None
    if ended is None and started is not None and isinstance(took, int | float):
        ended = started + took / 1000
    return replace(
        exchange,
        started=started,
        first_token=first,
        ended=ended,
        status=status,
        error=error if isinstance(error, str) else compact(error) if error else "",
        cost=read_cost(raw) or read_cost(object_in(exchange.answer)),
    )


def _session(raw: JsonObject, where: str) -> Recording:
    """A session as Weft and ADK write it."""
    session = Session.from_json(msgspec.json.encode(raw), name=where)
    return recording_of(session)._replace(source=where)


def _is_document(row: JsonObject) -> bool:
    """Whether an object is a recording of its own and not a message of one."""
    # lines of Codex, Claude Code and pi have such keys too, and are parts of one conversation
    is_line = "uuid" in row and "chat_messages" not in row
    if isinstance(row.get("payload"), dict) or is_line or row.get("type") == "agent_end":
        return False
    if any(one.fits(row) for one in DOCUMENTS) or is_spans(row):
        return True
    if is_observation(row) or is_trace(row) or is_trace_head(row) or "messages" in row:
        return True
    if open_envelope(row) is not None:
        return True
    if any("parts" in one for one in objects_in(row.get("contents"))):
        return True
    keys = ("events", "messages", "request", "body")
    return any(isinstance(row.get(key), list | dict) for key in keys) or (
        isinstance(row.get("input"), list | str) and "model" in row
    )


def _is_talk(value: list[Json]) -> bool:
    """Whether a list is of messages, and somebody answers in it."""
    messages = [one for one in value if isinstance(one, dict)]
    answers = any(
        one.get("role") in ("assistant", "model") or one.get("type") in ("ai", "AIMessage")
        for one in messages
    )
    return answers and len(messages) == len(value) and _format_of(messages, None) is not None


# --- shapes of lists

_LANGCHAIN = (
    "human", "ai", "system", "tool", "function", "chat", "remove",
    "AIMessageChunk", "HumanMessageChunk", "ToolMessageChunk", "SystemMessageChunk",
)  # fmt: skip

_ITEMS = ("message", "reasoning", "item_reference", "compaction", "mcp_list_tools")

_ITEM_ENDINGS = ("_call", "_call_output", "_approval_request", "_approval_response")

_BLOCKS = (
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "document",
)


def _is_pydantic_ai(messages: list[JsonObject]) -> bool:
    kinds = ("request", "response")
    return all(one.get("kind") in kinds and isinstance(one.get("parts"), list) for one in messages)


def _is_langchain(messages: list[JsonObject]) -> bool:
    def is_one(one: JsonObject) -> bool:
        if one.get("lc") == 1:
            return isinstance(one.get("id"), list)
        return one.get("type") in _LANGCHAIN and ("data" in one or "content" in one)

    return all(map(is_one, messages))


def _is_adk(messages: list[JsonObject]) -> bool:
    keys = ("content", "actions", "invocationId", "invocation_id")
    return all("author" in one and any(key in one for key in keys) for one in messages)


def _is_gemini(messages: list[JsonObject]) -> bool:
    return all(isinstance(one.get("parts"), list) for one in messages)


def _is_responses(messages: list[JsonObject]) -> bool:
    def pieces(one: JsonObject) -> Iterator[Json]:
        content = one.get("content")
        for piece in content if isinstance(content, list) else ():
            yield piece.get("type") if isinstance(piece, dict) else None

    def is_item(one: JsonObject) -> bool:
        kind = one.get("type")
        return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(_ITEM_ENDINGS))

    if not all("role" in one or is_item(one) for one in messages):
        return False
    return any(
        is_item(one)
        or any(str(kind).startswith(("input_", "output_")) and kind != "input_audio"
               for kind in pieces(one))
        for one in messages
    )  # fmt: skip


def _is_anthropic(messages: list[JsonObject]) -> bool:
    if not all(one.get("role") in ("user", "assistant") for one in messages):
        return False
    for one in messages:
        content = one.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and (block.get("type") in _BLOCKS or "source" in block):
                return True
    return False


def _is_plain(messages: list[JsonObject]) -> bool:
    return all("text" in one and "content" not in one and "role" in one for one in messages)


def _is_chat(messages: list[JsonObject]) -> bool:
    return all("role" in one for one in messages)


def _provider(dialect: str) -> Callable[[list[Json], str, str], Recording]:
    """Reads a list in the form of one dialect."""

    def read(messages: list[Json], id: str, where: str) -> Recording:
        return read_messages(messages, dialect, id, where)

    return read


def _read_converse(messages: list[Json], id: str, where: str) -> Recording:
    return read_bedrock({"messages": messages}, id, where, answered=True)


LIST_FORMATS = (
    Format("pydantic-ai", _is_pydantic_ai, read_pydantic_ai, "ModelMessagesTypeAdapter's JSON"),
    Format("langchain", _is_langchain, read_langchain, "messages as dicts, flat, or serialized"),
    Format("autogen", is_autogen, read_autogen, "messages of AutoGen's teams and agents"),
    Format("agent-framework", is_agent_framework, read_agent_framework, "messages, threads"),
    Format(
        "openai-agents",
        is_agents_items,
        read_agents_items,
        "session items, to_input_list(), a history in JavaScript, a SQLiteSession's database",
    ),
    Format("sharegpt", are_turns, read_turns, "turns with `from` and `value`"),
    Format("cline", is_cline, read_cline, "the messages of a task of Cline or Roo Code"),
    Format("adk", _is_adk, read_events, "google-adk's events, or its session database"),
    Format("opencode", is_opencode, read_opencode, "what `opencode export` writes"),
    Format("crush", is_crush, read_crush, "Crush's database"),
    Format("vercel", is_vercel, read_vercel, "model messages or UI messages of the AI SDK"),
    Format("bedrock", is_bedrock, _read_converse, "messages of Converse, or a request"),
    Format("gemini", _is_gemini, _provider("gemini"), "contents with parts, or a request"),
    Format("plain", _is_plain, read_plain, "texts with roles: a coding agent's run"),
    Format(
        "openai-responses",
        _is_responses,
        _provider("openai-responses"),
        "input items, or a request",
    ),
    Format(
        "anthropic", _is_anthropic, _provider("anthropic"), "messages with blocks, or a request"
    ),
    Format("gptme", is_gptme, read_gptme, "a conversation of gptme"),
    Format("openai-chat", _is_chat, _provider("openai-chat"), "messages with roles, or a request"),
)
"""Forms of lists, in the order in which they are tried: what says most about itself is first."""

_BY_NAME = {one.name: one for one in LIST_FORMATS}

FORMATS: Mapping[str, str] = {
    **{one.name: one.about for one in LIST_FORMATS},
    "claude-code": "a transcript of Claude Code, JSONL",
    "codex": "a rollout of Codex, JSONL",
    "copilot-cli": "a session of GitHub Copilot CLI, JSONL",
    "cursor": "a transcript of Cursor's agent, JSONL",
    "droid": "a session of Factory's Droid, JSONL",
    "kimi-cli": "the context of a session of Kimi CLI, or its wire.jsonl",
    "kimi-code": "the log of an agent of Kimi Code, wire.jsonl",
    "pi": "a session of pi, JSONL",
    "qwen-code": "a session of Qwen Code, JSONL",
    **{one.name: one.about for one in DOCUMENTS},
    **{one.name: one.about for one in FLAVOURS},
    "langfuse": "observations or traces as Langfuse exports them",
    "weft": "a session as Weft writes it",
}
"""The formats by name, and what each is."""


class LineFormat(NamedTuple):
    """A form that the lines of a transcript may have; many of its lines are not messages."""

    name: str
    fits: Callable[[JsonObject], bool]
    """Whether a line is one of them."""
    looked_at: int | None
    """How many lines are looked at to tell; None: all of them."""
    read: Callable[[Sequence[TranscriptLine], str, str], Iterable[Recording]]


LINE_FORMATS: tuple[LineFormat, ...] = (
    LineFormat("qwen-code", is_qwen, 3, read_qwen),
    LineFormat("claude-code", is_claude_code, None, read_claude_code),
    LineFormat("codex", is_codex, 3, read_codex),
    LineFormat("copilot-cli", is_copilot, 3, read_copilot),
    LineFormat("droid", is_droid, 6, read_droid),
    LineFormat("pi", is_pi, 3, read_pi),
    LineFormat("cursor", is_cursor, 3, read_cursor),
    LineFormat("goose", is_goose, 3, read_goose),
    LineFormat("kimi-cli", is_kimi, None, read_kimi),
    LineFormat("kimi-cli", is_kimi_wire, 3, read_kimi_wire),
    LineFormat("kimi-code", is_kimi_code, 6, read_kimi_code),
    LineFormat("gemini-cli", is_gemini_lines, 3, read_gemini_lines),
    LineFormat("gemini-cli", is_gemini_stream, 3, read_gemini_stream),
    LineFormat("openhands", is_openhands, 3, read_openhands),
    LineFormat("codex", is_codex_stream, 3, read_codex_stream),
    LineFormat("opencode", is_opencode_stream, 3, read_opencode_stream),
    LineFormat("langchain", is_langgraph_update, 1, read_langgraph_updates),
)
"""The first that fits is taken."""


def _line_format_of(rows: list[JsonObject], wanted: str | None) -> LineFormat | None:
    """The transcript that lines are of: the one that was named, else the first that fits."""
    candidates = [one for one in LINE_FORMATS if wanted in (None, one.name)]
    chosen = next((one for one in candidates if any(map(one.fits, rows[: one.looked_at]))), None)
    # a format that was named is read, whatever its lines look like; a list format has no lines
    return chosen or next((one for one in candidates if wanted and wanted not in _BY_NAME), None)


def _format_of(messages: list[JsonObject], named: str | None) -> Format | None:
    """The format of a list: the one that was named, else the first that fits."""
    if named is not None and named in _BY_NAME:
        return _BY_NAME[named]
    if not messages:
        return None
    return next((one for one in LIST_FORMATS if one.fits(messages)), None)


def require_format(format: str | None) -> None:
    """Refuse a format that there is not."""
    if format is None or format in FORMATS:
        return
    near = find_near(str(format), FORMATS, cutoff=0.4)
    known = ", ".join(sorted(FORMATS))
    raise UsageError(
        f"{format!r} is not a format of recordings",
        where="format",
        hint=f"did you mean {near[0]!r}? known: {known}" if near else f"known: {known}",
    )


def _unknown(messages: Sequence[JsonObject], where: str) -> SessionError:
    """The error for what fits no format; it names the first message that is odd."""
    fits = [(sum(one.fits([message]) for message in messages), one.name) for one in LIST_FORMATS]
    most, name = max(fits, key=lambda pair: pair[0])
    if most and most < len(messages):
        chosen = _BY_NAME[name]
        odd = next(at for at, one in enumerate(messages) if not chosen.fits([one]))
        keys = ", ".join(list(messages[odd])[:6])
        return SessionError(
            f"{most} of {len(messages)} messages are {name}'s, and this one is not"
            f" (it has {keys or 'nothing'})",
            where=f"{where}: messages[{odd}]",
            hint=f"mend it, or name the format: format={name!r}",
        )
    keys = ", ".join(list(messages[0])[:6]) if messages else ""
    return SessionError(
        f"this is not a recording{f': an object with {keys}' if keys else ''}",
        where=where,
        hint=f"{FORMS}; formats: {', '.join(sorted(FORMATS))}",
    )


# --- values


class _Dumps(Protocol):
    """A message that a library has as an object of its own."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> object: ...


def from_messages(
    messages: object,
    *,
    format: str | None = None,
    id: str = "",
    agent: str = AGENT,
    lenient: bool = False,
) -> Recording:
    """One recording from messages, a request, a session, or JSON text of them.

    `agent` is who speaks for the model in formats that name nobody. Something that would be lost is
    an error; if `lenient`, it is named.
    """
    require_format(format)
    name = "messages"
    if isinstance(messages, str | bytes):
        data = messages if isinstance(messages, bytes) else _escape_surrogates(messages).encode()
        recordings = list(read_recordings(data, name=name, format=format, lenient=lenient))
    else:
        asides = Asides()
        value = replace_surrogates(_plain_json(messages, name), name, asides.add)
        values = _Values(name, format, lenient=lenient)
        recordings = list(_with(values.read(value, id, name), asides))
    if len(recordings) != 1:
        raise SessionError(
            f"there are {len(recordings)} recordings in it, and a session is one",
            where=name,
            hint="`weft sessions import FILE` takes them all",
        )
    (recording,) = recordings
    for one in recording.aside:
        _log.warning("%s: set aside: %s", name, one)
    return recording.spoken_by(agent)


def _escape_surrogates(text: str) -> str:
    """JSON text with its lone surrogates written as escapes, which the reader mends and names."""
    if not has_lone_surrogate(text):
        return text
    return "".join(f"\\u{ord(one):04x}" if "\ud800" <= one <= "\udfff" else one for one in text)


def session_from(
    messages: object, *, format: str | None, id: str, agent: str, lenient: bool
) -> Session:
    """What `Session.from_messages` returns."""
    recording = from_messages(messages, format=format, id=id, agent=agent, lenient=lenient)
    session = recording.for_store()
    session.id = id or session.id
    return session


def _plain_json(value: object, where: str) -> Json:
    """The value as JSON; objects of pydantic models are written as they write themselves."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return {str(key): _plain_json(one, f"{where}.{key}") for key, one in fields.items()}
    if isinstance(value, list | tuple):
        listed = cast("Sequence[object]", value)
        return [_plain_json(one, f"{where}[{at}]") for at, one in enumerate(listed)]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode("ascii")
    if callable(getattr(value, "model_dump", None)):
        return cast("Json", cast("_Dumps", value).model_dump(mode="json", exclude_none=True))
    hint = "pass messages as dicts, or their JSON"
    if type(value).__module__.startswith("pydantic_ai"):
        hint = 'pass ModelMessagesTypeAdapter.dump_python(messages, mode="json")'
    raise SessionError(f"{describe_kind(value)} is not a message", where=where, hint=hint)
