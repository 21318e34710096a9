"""google-adk's events, and the database its session service keeps.

The JSON of events is Weft's own. The database is read as data: the oldest schema stores an event's
actions pickled, and a pickle runs code when it is opened, so those are set aside by name.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec

from weft.errors import SessionError, describe_kind
from weft.recordings.recording import (
    Aside,
    Asides,
    Recording,
    raise_first,
    read_json,
    readable_media,
    recording_of,
    seconds,
)
from weft.session import Event, Session
from weft.values import Json, JsonObject

SQLITE = b"SQLite format 3\x00"
"""How a database file begins."""

_HINT = "google-adk's databases have the tables `sessions` and `events`"

_JSON = (
    "content", "grounding_metadata", "custom_metadata", "usage_metadata", "citation_metadata",
    "input_transcription", "output_transcription",
)  # fmt: skip
"""Columns of the oldest schema that hold JSON."""

_PLAIN = ("id", "invocation_id", "author", "branch", "error_code", "error_message")

_FLAGS = ("partial", "turn_complete", "interrupted")


def read_events(
    events: list[Json], id: str, where: str, fields: JsonObject | None = None
) -> Recording:
    """A list of events in ADK's JSON, camelCase or snake_case."""
    around: JsonObject = {"id": id, **(fields or {}), "events": events}
    session = Session.from_json(msgspec.json.encode(around), name=where)
    asides = Asides()
    read: list[Event] = []
    for index, event in enumerate(session.events):
        content = event.content
        if content is not None and content.parts:
            # the place is bound here: the loop goes on
            def report(what: str, why: str, place: str = f"{where}: events[{index}]") -> None:
                asides.add(what, why, place)

            parts = [readable_media(part, report) for part in content.parts]
            if any(one is not part for one, part in zip(parts, content.parts, strict=True)):
                whole = tuple(part for part in parts if part is not None)
                content = msgspec.structs.replace(content, parts=whole)
                event = msgspec.structs.replace(event, content=content)
        read.append(event)
    if asides.listed():
        session = Session(
            session.id,
            app_name=session.app_name,
            user_id=session.user_id,
            state=session.initial,
            events=read,
            last_update_time=session.last_update_time,
        )
    return recording_of(session)._replace(format="adk", source=where, aside=asides.listed())


def read_database(path: Path) -> Iterator[Recording]:
    """The sessions of a database that google-adk made, oldest first."""
    name = path.name
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            yield from _Database(database, name).recordings()
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

    def recordings(self) -> Iterator[Recording]:
        """Its sessions, in the order they were made."""
        columns = {table: self._columns(table) for table in ("sessions", "events")}
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
            yield recording._replace(aside=(*recording.aside, *self.mended.listed()))
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

    def _columns(self, table: str) -> set[str]:
        rows = self.database.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {str(row[0]) for row in rows}


def _moment(value: object) -> float | None:
    """A time as a database has it: ISO text in UTC without its zone, or a number."""
    if isinstance(value, str) and "+" not in value and not value.endswith("Z"):
        value = f"{value}+00:00"
    return seconds(cast("Json", value))
