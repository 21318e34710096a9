"""Databases of sessions: google-adk, openai-agents, OpenCode, Crush, Goose, Grok CLI, LangGraph.

They are read as data. The oldest schema of google-adk stores an event's actions pickled, and a
pickle runs code when it is opened, so those are set aside by name. LangGraph packs objects by the
names of their classes: no class is loaded, and their fields are read.
"""

import base64
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec

from weft.dialects.wire import object_in, objects_in
from weft.errors import SessionError, describe_kind
from weft.recordings.frameworks import read_events
from weft.recordings.recording import Aside, Asides, Recording, raise_first, read_json, seconds
from weft.values import Json, JsonObject

ReadItems = Callable[[str], Callable[[list[Json], str, str], Iterable[Recording]]]
"""The format of a session's messages to what reads them: messages, id and place."""

SQLITE = b"SQLite format 3\x00"
"""How a database file begins."""

_HINT = (
    "google-adk's databases have the tables `sessions` and `events`, those of openai-agents"
    " `agent_sessions` and `agent_messages`, OpenCode's `message` and `part`,"
    " Crush's, Goose's and Grok CLI's `messages`, LangGraph's `checkpoints`"
)

_JSON = (
    "content", "grounding_metadata", "custom_metadata", "usage_metadata", "citation_metadata",
    "input_transcription", "output_transcription",
)  # fmt: skip
"""Columns of the oldest schema that hold JSON."""

_PLAIN = ("id", "invocation_id", "author", "branch", "error_code", "error_message")

_FLAGS = ("partial", "turn_complete", "interrupted")


def read_database(path: Path, read_items: ReadItems) -> Iterator[Recording]:
    """The sessions of a database that one of these programs made, oldest first.

    `read_items` reads the messages of a session that are of another format.
    """
    name = path.name
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            reader = _Database(database, name)
            sessions = reader.list_sessions()
            if sessions is not None:
                format, listed = sessions
                read: dict[str, Recording] = {}
                for id, items in listed:
                    for one in read_items(format)(items, id, f"{name}: session {id}"):
                        around, call = reader.parents.get(id, ("", ""))
                        if around in read:
                            one = one.started_by(read[around], call)
                        elif format in _NESTED:
                            read[id] = one
                        yield one._replace(aside=(*one.aside, *reader.mended.collect()))
                    reader.mended = Asides()
            else:
                yield from reader.recordings()
    except sqlite3.DatabaseError as error:
        raise SessionError(
            f"the database cannot be read: {error}", where=name, hint=_HINT
        ) from None


class _Database:
    """One open database."""

    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self.database = database
        self.name = name
        self.mended = Asides()
        self.parents: dict[str, tuple[str, str]] = {}
        """The sessions of sub-agents: whose call started each, and the call."""

    def list_sessions(self) -> tuple[str, Iterator[tuple[str, list[Json]]]] | None:
        """The format of the messages in it, and those of each session; None for google-adk's."""
        if {"session_id", "message_data"} <= {*self._columns("agent_messages")}:
            return "openai-agents", self.list_items()
        if {"session_id", "role", "content_json"} <= {*self._columns("messages")}:
            return "goose", self.list_goose()
        if {"session_id", "seq", "message_json"} <= {*self._columns("messages")}:
            return "vercel", self.list_grok()
        if {"session_id", "role", "parts", "model"} <= {*self._columns("messages")}:
            return "crush", self.list_crush()
        if {"message_id", "session_id", "data"} <= {*self._columns("part")}:
            return "opencode", self.list_opencode()
        if {"thread_id", "checkpoint_id", "checkpoint"} <= {*self._columns("checkpoints")}:
            return "langchain", self.list_checkpoints()
        return None

    def list_goose(self) -> Iterator[tuple[str, list[Json]]]:
        """The messages of each session of Goose, as its export has them."""
        rows = self.database.execute("SELECT * FROM messages ORDER BY id").fetchall()
        if not rows:
            raise SessionError("there is no session in it", where=self.name)
        sessions: dict[str, list[Json]] = {}
        for row in rows:
            where = f"{self.name}: messages {row['id']}"
            fields = dict(cast("Mapping[str, object]", row))
            metadata = fields.get("metadata_json")
            message: JsonObject = {
                "role": str(row["role"]),
                "created": _moment(row["created_timestamp"]),
                "content": read_json(str(row["content_json"]), where, self.mended.add),
                "metadata": self._json(metadata, where) if metadata else None,
            }
            sessions.setdefault(str(row["session_id"]), []).append(message)
        yield from sessions.items()

    def list_crush(self) -> Iterator[tuple[str, list[Json]]]:
        """The messages of each session of Crush, oldest first; parts without what is around them.

        What is counted is that of a whole session. A sub-agent's has the id of its call.
        """
        for one in self.database.execute("SELECT * FROM sessions ORDER BY created_at, rowid"):
            session = dict(cast("Mapping[str, Json]", one))
            id, where = str(session["id"]), f"{self.name}: session {session['id']}"
            messages: list[Json] = []
            for row in self.database.execute(
                "SELECT * FROM messages WHERE session_id = ? ORDER BY created_at, rowid", (id,)
            ):
                fields = dict(cast("Mapping[str, object]", row))
                parts = read_json(str(row["parts"]), f"{where}: {row['id']}", self.mended.add)
                is_last_summary = row["id"] == session.get("summary_message_id")
                message: JsonObject = {
                    "role": str(row["role"]),
                    "model": str(row["model"] or ""),
                    "created_at": _moment(row["created_at"]),
                    "is_summary_message": is_last_summary or bool(fields.get("is_summary_message")),
                    "parts": [*map(_plain_part, objects_in(parts))],
                }
                messages.append(message)
            sent, received, cost = (session.get(name) or 0 for name in _CRUSH_COUNTS)
            if sent or received or cost:
                why = (
                    f"of the session: {sent:,} sent and {received:,} received at the last count,"
                    f" ${cost:.4f} in all, not of each answer"
                )
                self.mended.add("token counts", why, where)
            around = session.get("parent_session_id")
            if around:
                self.parents[id] = str(around), id.rpartition("$$")[2]
            if messages:
                yield id, messages
            else:
                self.mended.add("session", "there is no message in it", where)

    def list_grok(self) -> Iterator[tuple[str, list[Json]]]:
        """The messages of each session of Grok CLI, which are those of the AI SDK."""
        rows = self.database.execute("SELECT * FROM messages ORDER BY session_id, seq").fetchall()
        named = [(f"messages {row['session_id']} {row['seq']}", row) for row in rows]
        yield from self._list_by_session(named, "message_json")

    def list_opencode(self) -> Iterator[tuple[str, list[Json]]]:
        """The messages of each session of OpenCode with their parts, as its export has them."""
        parts: dict[str, list[Json]] = {}
        for row in self.database.execute("SELECT * FROM part ORDER BY message_id, id"):
            part = self._json(row["data"], f"{self.name}: part {row['id']}")
            parts.setdefault(str(row["message_id"]), []).append(part)
        sessions: dict[str, list[Json]] = {}
        for row in self.database.execute("SELECT * FROM message ORDER BY time_created, id"):
            id, session = str(row["id"]), str(row["session_id"])
            info = self._json(row["data"], f"{self.name}: message {id}")
            message: JsonObject = {
                "info": {**info, "id": id, "sessionID": session},
                "parts": parts.get(id, []),
            }
            sessions.setdefault(session, []).append(message)
        if not sessions:
            raise SessionError("there is no session in it", where=self.name)
        yield from sessions.items()

    def list_checkpoints(self) -> Iterator[tuple[str, list[Json]]]:
        """The messages of each thread of LangGraph: those of its last checkpoint."""
        rows = self.database.execute(
            "SELECT thread_id, checkpoint_ns, checkpoint_id, type, checkpoint FROM checkpoints"
            " ORDER BY checkpoint_id"
        ).fetchall()
        last: dict[str, tuple[str, bytes]] = {}
        for row in rows:
            inner = str(row["checkpoint_ns"] or "")  # a graph within a graph
            name = str(row["thread_id"]) + (f"/{inner}" if inner else "")
            data = row["checkpoint"]
            last[name] = str(row["type"]), data.encode() if isinstance(data, str) else bytes(data)
        is_empty = True
        for name, (kind, data) in last.items():
            where = f"{self.name}: thread {name}"
            if kind == "json":
                state = self._json(data, where)
            else:
                state = object_in(read_msgpack(data, where))
            messages = object_in(state.get("channel_values")).get("messages")
            if isinstance(messages, list) and messages:
                is_empty = False
                yield name, messages
            else:
                self.mended.add("thread", "its state has no messages", where)
        if is_empty:
            raise SessionError("no thread in it has messages", where=self.name)

    def list_items(self) -> Iterator[tuple[str, list[Json]]]:
        """The items of each session of openai-agents, in the order in which it began."""
        rows = self.database.execute("SELECT * FROM agent_messages ORDER BY id").fetchall()
        named = [(f"agent_messages {row['id']}", row) for row in rows]
        yield from self._list_by_session(named, "message_data")

    def _list_by_session(
        self, rows: Sequence[tuple[str, sqlite3.Row]], column: str
    ) -> Iterator[tuple[str, list[Json]]]:
        """The JSON that a column holds, session by session; each row has its name for errors."""
        if not rows:
            raise SessionError("there is no session in it", where=self.name)
        sessions: dict[str, list[Json]] = {}
        for name, row in rows:
            value = read_json(str(row[column]), f"{self.name}: {name}", self.mended.add)
            sessions.setdefault(str(row["session_id"]), []).append(value)
        yield from sessions.items()

    def recordings(self) -> Iterator[Recording]:
        """Its sessions, in the order they were made."""
        columns = {table: self._columns(table) for table in ("sessions", "events")}
        if not columns["sessions"] and not columns["events"]:
            names = ", ".join(sorted(self._list_tables())[:6])
            raise SessionError(
                f"no program that is known made it: its tables are {names or 'none'}",
                where=self.name,
                hint=_HINT,
            )
        for table, needed in (("sessions", "app_name"), ("events", "session_id")):
            if needed not in columns[table]:
                raise SessionError(
                    f"there is no table `{table}` of google-adk's in it",
                    where=self.name,
                    hint="a Weft store is read with --store sqlite:///FILE"
                    if "number" in columns["sessions"] or not columns[table]
                    else _HINT,
                )
        whole = "event_data" in columns["events"]
        if not whole and "content" not in columns["events"]:
            raise SessionError("its events have no content", where=self.name, hint=_HINT)
        pickled = "actions" in columns["events"] and not whole
        apps = self._states("app_states", ("app_name",))
        users = self._states("user_states", ("app_name", "user_id"))
        rows = self.database.execute("SELECT * FROM sessions ORDER BY create_time, id").fetchall()
        if not rows:
            raise SessionError("there is no session in it", where=self.name)
        broken: list[SessionError] = []
        for row in rows:
            session = dict(cast("Mapping[str, object]", row))
            self.mended = Asides()
            try:
                recording = self._recording(session, apps, users, whole=whole, pickled=pickled)
            except SessionError as error:
                # the sessions that can be read are given first; the error comes at the end
                broken.append(error)
                continue
            yield recording._replace(aside=(*recording.aside, *self.mended.collect()))
        raise_first(broken)

    def _recording(
        self,
        row: Mapping[str, object],
        apps: Mapping[tuple[str, ...], JsonObject],
        users: Mapping[tuple[str, ...], JsonObject],
        *,
        whole: bool,
        pickled: bool,
    ) -> Recording:
        app, user, id = (str(row[name]) for name in ("app_name", "user_id", "id"))
        where = f"{self.name}: session {id}"
        # rowid breaks ties: events of one moment stay in the order they were written
        stored = self.database.execute(
            "SELECT * FROM events WHERE app_name = ? AND user_id = ? AND session_id = ?"
            " ORDER BY timestamp, rowid",
            (app, user, id),
        )
        rows = [dict(cast("Mapping[str, object]", one)) for one in stored]
        events: list[Json] = [
            self._event(one, f"{where}, event {index}", whole=whole)
            for index, one in enumerate(rows)
        ]
        state = {
            **self._json(row.get("state"), f"{where}: state"),
            **{f"app:{key}": value for key, value in apps.get((app,), {}).items()},
            **{f"user:{key}": value for key, value in users.get((app, user), {}).items()},
        }
        fields: JsonObject = {
            "appName": app,
            "userId": user,
            "state": state,
            "lastUpdateTime": _moment(row.get("update_time")) or 0.0,
        }
        recording = read_events(events, id, where, fields)
        lost = [f"{where}, event {at}" for at, one in enumerate(rows) if one.get("actions")]
        if not pickled or not lost:
            return recording
        aside = Aside(
            "pickled actions",
            "a pickle runs code when it is opened; state changes and transfers are not read",
            len(lost),
            tuple(lost[:3]),
        )
        return recording._replace(aside=(*recording.aside, aside))

    def _event(self, row: Mapping[str, object], where: str, *, whole: bool) -> JsonObject:
        """One event as JSON: the stored JSON, or put together from its columns."""
        stamp = _moment(row.get("timestamp"))
        if whole:
            event = self._json(row.get("event_data"), where)
            # the columns know what the JSON may leave out
            event.setdefault("id", str(row["id"]))
            event.setdefault("invocation_id", str(row.get("invocation_id") or ""))
            if stamp is not None:
                event.setdefault("timestamp", stamp)
            return event
        event = {name: cast("Json", row[name]) for name in _PLAIN if row.get(name) is not None}
        event.update({name: bool(row[name]) for name in _FLAGS if row.get(name) is not None})
        for name in _JSON:
            if row.get(name) not in (None, "", "null"):
                event[name] = self._json(row[name], f"{where}: {name}")
        waits = row.get("long_running_tool_ids_json")
        if isinstance(waits, str) and waits:
            event["long_running_tool_ids"] = read_json(waits, where, self.mended.add)
        if stamp is not None:
            event["timestamp"] = stamp
        return event

    def _json(self, text: object, where: str) -> JsonObject:
        if text is None or text == "":
            return {}
        if not isinstance(text, str | bytes):
            raise SessionError(f"{describe_kind(text)} stands there", where=where, hint=_HINT)
        value = read_json(text, where, self.mended.add)
        if not isinstance(value, dict):
            raise SessionError(f"{describe_kind(value)} stands there", where=where, hint=_HINT)
        return value

    def _states(self, table: str, keys: tuple[str, ...]) -> dict[tuple[str, ...], JsonObject]:
        """State that sessions share, by whom."""
        if "state" not in self._columns(table):
            return {}
        rows = self.database.execute(f"SELECT * FROM {table}").fetchall()
        return {
            tuple(str(row[key]) for key in keys): self._json(row["state"], f"{self.name}: {table}")
            for row in rows
        }

    def _list_tables(self) -> list[str]:
        rows = self.database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [str(row[0]) for row in rows]

    def _columns(self, table: str) -> set[str]:
        rows = self.database.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {str(row[0]) for row in rows}


_NESTED = ("crush",)
"""The formats whose sessions may be those of sub-agents."""

_CRUSH_COUNTS = ("prompt_tokens", "completion_tokens", "cost")


def _plain_part(part: JsonObject) -> JsonObject:
    """A part of Crush's without the object around its fields; why an answer failed is apart."""
    data, kind = object_in(part.get("data")), part.get("type")
    if kind != "finish":
        return {**data, "type": kind}
    words = [str(data[name]) for name in ("message", "details") if data.get(name)]
    return {"type": kind, "reason": data.get("reason"), "error": ": ".join(words)}


_EXT_OBJECTS = {1: 2, 2: 2, 4: 2, 5: 2}
"""LangGraph's numbers for objects with fields, and where among theirs the fields stand."""


def read_msgpack(data: bytes, where: str) -> Json:
    """A value that LangGraph packed: an object is its fields, and no class is loaded for it."""

    def unpack(code: int, inner: memoryview) -> Json:
        fields = cast("object", msgspec.msgpack.decode(inner, ext_hook=unpack))
        at = _EXT_OBJECTS.get(code)
        if at is not None and isinstance(fields, list):
            parts = cast("list[Json]", fields)
            return parts[at] if len(parts) > at else None
        if code in (0, 3) and isinstance(fields, list):  # such as a time or an id
            parts = cast("list[Json]", fields)
            return parts[2] if len(parts) > 2 else None
        return cast("Json", fields)

    try:
        value = cast("object", msgspec.msgpack.decode(data, ext_hook=unpack))
    except (ValueError, RecursionError, TypeError) as error:
        raise SessionError(
            f"this checkpoint cannot be unpacked: {error}", where=where, hint=_HINT
        ) from None
    return _plain_values(value)


def _plain_values(value: object) -> Json:
    """A value with bytes as texts and keys as names."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return {str(key): _plain_values(one) for key, one in fields.items()}
    if isinstance(value, list | tuple):
        return [_plain_values(one) for one in cast("Sequence[object]", value)]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _moment(value: object) -> float | None:
    """A time as a database has it: ISO text in UTC without its zone, or a number."""
    if isinstance(value, str) and "+" not in value and not value.endswith("Z"):
        value = f"{value}+00:00"
    return seconds(cast("Json", value))
