"""Where the inspector finds sessions, in a store or in recordings, and what its list says of them.

The tokens of a session are those that its provider reported. Where it reported none, they are
counted, which means to compile every request: that is done while somebody looks at the list.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Protocol, TypeAlias

import msgspec

from weft.compiler.mask import Mask, MaskRules, rules_of
from weft.declare import Node, RunConfig
from weft.declare.policy_parts import Redact
from weft.dialects import wire_name
from weft.errors import SessionError
from weft.inspector.inspection import Inspection, SessionSpending
from weft.inspector.words import FIRST, MaskedTexts, title_of
from weft.recordings import Recording, recording_of
from weft.replay.steps import AnsweredStep, ends_call, homes_of, model_events, texts_at
from weft.session import ArtifactStore, Session, SessionInfo, SessionKey, Store
from weft.session.lookback import waiting_in
from weft.session.store import attach
from weft.values import Json, JsonObject, compact

_log = logging.getLogger("weft")

LISTED = 200
"""How many sessions are read for the list, the newest; of more, only names and times are shown."""

MOST_ROWS = 2_000
"""How many recordings are listed, the last ones of a file."""


class SessionSource(Protocol):
    """Sessions that can be inspected, by keys that are texts."""

    async def sessions(self, search: str = "") -> list[Json]:
        """A row for each session, the newest first; only those that hold all words of `search`."""
        ...

    async def inspection(self, key: str) -> Inspection:
        """The session of that key, whole as it is now."""
        ...

    async def length(self, key: str) -> int | None:
        """How many events it has; None where it is gone."""
        ...

    def notices(self) -> list[str]:
        """What the list does not have, and why."""
        ...


class SessionCounts:
    """What sessions took whose provider reported nothing, counted a bit at a time."""

    def __init__(self) -> None:
        self._counts: dict[str, _SessionCount] = {}
        self._lock = Lock()
        self._work: asyncio.Future[None] | None = None

    def has(self, key: str, version: "Version") -> bool:
        """Whether a session is counted as it is now, or will be."""
        count = self._counts.get(key)
        return count is not None and count.version == version

    def add(self, key: str, version: "Version", steps: Iterator[AnsweredStep]) -> None:
        """Count the steps of a session as it is now; none is looked at before its turn comes."""
        self._counts[key] = _SessionCount(version, steps)

    async def fill(self, rows: list[JsonObject]) -> list[Json]:
        """The rows with what is counted by now; short sessions are waited for."""
        listed = {str(row["key"]) for row in rows}
        self._counts = {key: count for key, count in self._counts.items() if key in listed}
        if any(count.total is None for count in self._counts.values()):
            if self._work is None or self._work.done():
                self._work = asyncio.get_running_loop().run_in_executor(None, self._count)
            await asyncio.wait([self._work], timeout=_SOON)
        filled: list[Json] = []
        for row in rows:
            count = self._counts.get(str(row["key"])) if row.get("counting") else None
            if count is not None and count.total is not None:
                row = {**row, **count.total.to_json(), "counted": True, "counting": False}
            filled.append(row)
        return filled

    def _count(self) -> None:
        end = time.monotonic() + _LONGEST
        with self._lock:
            for count in [*self._counts.values()]:
                while count.total is None and time.monotonic() < end:
                    count.go_on(time.monotonic() + _SLICE)
                    time.sleep(_SLICE)  # a server has other things to do


class _SessionCount:
    """One session that is being counted."""

    def __init__(self, version: "Version", steps: Iterator[AnsweredStep]) -> None:
        self.version = version
        self.total: SessionSpending | None = None
        """What was counted, once all of it is."""
        self._parts: list[SessionSpending] = []
        self._steps = steps

    def go_on(self, end: float) -> None:
        """Count until a time; at least one request."""
        try:
            for step in self._steps:
                if step.request is not None:
                    self._parts.append(SessionSpending.of_request(step.request))
                if time.monotonic() > end:
                    return
        except Exception:
            # the list has no number then; opening the session shows why
            _log.warning("a session cannot be counted", exc_info=True)
            self._parts = []
        self.total = SessionSpending.total(self._parts)
        self._steps = iter(())


_SOON = 0.25
"""Seconds that a list waits for counts."""

_SLICE = 0.004
"""Seconds that are counted at a time; the thread then rests as long."""

_LONGEST = 2.0
"""Seconds that sessions are counted for each time the list is asked for."""


class RecordedSessions:
    """Recordings of any kind that `weft replay` reads."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        *,
        model: str | None = None,
        redact: tuple[Redact, ...] = (),
        group: str = "",
        counts: SessionCounts | None = None,
        unreadable: Sequence[SessionError] = (),
    ) -> None:
        self._unreadable = unreadable
        self._recordings = recordings
        self._group = group
        self._model = model
        self._redact = redact
        self._rules = MaskRules(redact)
        self._open: dict[str, Inspection] = {}
        self._counts = counts or SessionCounts()
        self._rows: dict[str, tuple[Version, JsonObject]] = {}
        self._masked_texts: dict[str, MaskedTexts] = {}

    async def sessions(self, search: str = "") -> list[Json]:
        """A row for each recording, in the order of the file."""
        return await self._counts.fill(self.list_rows(search))

    def __len__(self) -> int:
        return len(self._recordings)

    def list_rows(self, search: str = "") -> list[JsonObject]:
        """The rows of the list, some of which wait to be counted."""
        rows: list[JsonObject] = []
        hits: dict[str, str] = {}
        words = search.lower().split()
        for at in reversed(range(len(self._recordings))):
            if len(rows) == MOST_ROWS:
                break
            key = self._key(at)
            if words or key not in self._rows:
                recording = self._recordings[at]
                show = self._mask_texts(key, recording.session)
                hit = find_words(recording.session, words, show, recording.id)
                if hit is None:
                    continue
                if key not in self._rows:
                    row = self._describe(key, recording, show)
                    self._rows[key] = _version(recording.session), row
                hits[key] = hit
            version, row = self._rows[key]
            row = {**row, "hit": hits.get(key, "")}
            # what arrives live may have grown since it was counted
            if row["counting"] and not self._counts.has(key, version):
                self._counts.add(key, version, self._walk(key))
            rows.append(row)
        return rows[::-1]

    def _mask_texts(self, key: str, session: Session) -> MaskedTexts:
        """How the texts of a recording may be shown."""
        if not self._rules:
            return MaskedTexts(None)
        known = self._masked_texts.pop(key, None) or MaskedTexts(Mask(self._rules, session))
        self._masked_texts[key] = known
        while len(self._masked_texts) > LISTED:
            self._masked_texts.pop(next(iter(self._masked_texts)))
        return known

    def _describe(self, key: str, recording: Recording, show: MaskedTexts) -> JsonObject:
        """The row of a recording."""
        model = self._model or recording.asked_model
        # a lone call repeats answers that others were
        calls = recording.exchanges
        answers = frozenset(one.event for one in calls) if calls else recording.answers
        row = _describe_row(key, recording.session, model, answers, show)
        times = (one.ended or one.started for one in calls)
        latest = max((time for time in times if time), default=row["updated"])
        steps = len(calls) or row["steps"]
        row = {**row, "id": recording.id, "updated": latest, "steps": steps}
        # a call that nobody answered has no event in the log
        errors = sum(bool(event.error_code) for event in recording.session.events)
        row["errors"] = errors + sum(not one.event for one in calls)
        named = [*dict.fromkeys(show.text(one.agent) for one in calls if one.agent)]
        row["agents"] = list[Json](named) or row["agents"]
        return row

    def notices(self) -> list[str]:
        """What could not be read, and how many recordings are not listed."""
        notices = [f"not all could be read: {one.where}: {one.message}" for one in self._unreadable]
        if len(self._recordings) > MOST_ROWS:
            notices.append(
                f"the last {MOST_ROWS:,} of {len(self._recordings):,} recordings are listed;"
                " the search looks into all of them"
            )
        return notices

    def _key(self, at: int) -> str:
        return f"{at + 1} {self._group}".rstrip()

    def _place(self, key: str) -> int | None:
        """Which recording a key is of."""
        number = key.partition(" ")[0]
        at = int(number) - 1 if number.isdecimal() else -1
        return at if 0 <= at < len(self._recordings) and key == self._key(at) else None

    def _inspect(self, key: str) -> Inspection:
        at = self._place(key)
        if at is None:
            raise no_session(key)
        recording = self._recordings[at]
        return Inspection.of_recording(recording, model=self._model, redact=self._redact)

    def _walk(self, key: str) -> Iterator[AnsweredStep]:
        yield from self._inspect(key).walk()

    async def inspection(self, key: str) -> Inspection:
        """The recording of that number; those that were looked at last are kept."""
        known = self._open.pop(key, None) or self._inspect(key)
        self._open[key] = known
        while len(self._open) > _KEPT:
            self._open.pop(next(iter(self._open)))
        return known

    async def length(self, key: str) -> int | None:
        """A recording never grows."""
        at = self._place(key)
        return len(self._recordings[at].session.events) if at is not None else None


class StoredSessions:
    """Sessions in a store, with the programs that ran them by the name of their app.

    `configs` are what all runs of an app share. `user` limits it to one user's sessions. `redact`
    hides values in addition to what the agents hide.
    """

    def __init__(
        self,
        store: Store,
        programs: Mapping[str, Node],
        *,
        artifacts: ArtifactStore | None = None,
        files: tuple[str, ...] = (),
        configs: Mapping[str, RunConfig] | None = None,
        user: str | None = None,
        model: str | None = None,
        redact: tuple[Redact, ...] = (),
    ) -> None:
        self.store = store
        self.programs = dict(programs)
        self._configs = configs or {}
        self._artifacts = artifacts
        self._files = files
        self._user = user
        self._model = model
        self._redact = redact
        self._open: dict[SessionKey, Inspection] = {}
        self._counts = SessionCounts()
        self._rows = _SessionRows()
        self._rules: dict[str, MaskRules] = {}

    async def sessions(self, search: str = "") -> list[Json]:
        """A row for each session, the newest first."""
        words = search.lower().split()
        infos: list[SessionInfo] = []
        for app in await self.store.apps():
            infos += await self.store.sessions(app, self._user)
        infos.sort(key=lambda info: info.last_update_time, reverse=True)
        rows: list[JsonObject] = []
        for number, info in enumerate(infos):
            session = await self.store.get(info.key) if number < LISTED else None
            if session is None:
                if not words:
                    rows.append(_describe_session(info.key, info.last_update_time))
                continue
            key, recorded = key_text(info.key), recording_of(session).answers
            show = self._rows.mask_texts(key, session, self._rules_of(info.key.app_name))
            hit = find_words(session, words, show, info.key.id)
            if hit is None:
                continue
            row = self._rows.row(key, session, self._model_of(info.key), recorded, show)
            rows.append(row | {"hit": hit})
            version = _version(session)
            if rows[-1]["counting"] and not self._counts.has(key, version):
                self._counts.add(key, version, (await self._inspect(session)).walk())
        return await self._counts.fill(rows)

    async def inspection(self, key: str) -> Inspection:
        """The session of that key; what was rebuilt of it before is kept."""
        place = self.key_of(key)
        session = await self.store.get(place)
        if session is None:
            self._open.pop(place, None)
            raise no_session(place.id)
        known = self._open.get(place)
        if known is None:
            known = await self._inspect(session)
        # in a thread: many requests may have to be compiled
        elif _version(known.session) != _version(session):
            if self._artifacts is not None:
                await attach(session, self._artifacts)
            known = await asyncio.to_thread(known.grown, session)
        self._open[place] = known
        while len(self._open) > _KEPT:
            self._open.pop(next(iter(self._open)))
        return known

    async def length(self, key: str) -> int | None:
        """How many events are stored."""
        place = self.key_of(key)
        return (await self.store.lengths([place])).get(place)

    def notices(self) -> list[str]:
        """Nothing: all sessions are listed."""
        return []

    def key_of(self, key: str) -> SessionKey:
        """The session that a key names, if this may be seen."""
        try:
            app, user, id = msgspec.json.decode(key, type=tuple[str, str, str])
        except (msgspec.DecodeError, UnicodeError):
            raise no_session(key) from None
        # another user's session looks like one that does not exist
        if self._user is not None and user != self._user:
            raise no_session(id)
        return SessionKey(app, user, id)

    async def _inspect(self, session: Session) -> Inspection:
        if self._artifacts is not None:
            await attach(session, self._artifacts)
        root = self.programs.get(session.app_name)
        # another program may have the app's name by now
        if root is None or not _speaks(root, session):
            recording = recording_of(session)
            inspection = Inspection.of_recording(recording, model=self._model, redact=self._redact)
            inspection.notice = (
                "The program that ran this session is not here. Instructions and tools are made up"
                " from the log; name the program to see them."
                if recording.format == "weft"
                else f"This session was imported from a recording of the format {recording.format}."
                " Each request is what was said before its answer."
            )
            return inspection
        texts: dict[str, str] = {}
        if self._artifacts is not None:
            texts = await texts_at(self._artifacts, session, len(session.events))
        return Inspection(
            root,
            session,
            config=self._configs.get(session.app_name),
            artifacts=texts,
            files=self._files,
            redact=self._redact,
        )

    def _rules_of(self, app: str) -> MaskRules:
        """What the list of an app's sessions does not show."""
        if app not in self._rules:
            root, rules = self.programs.get(app), MaskRules(self._redact)
            if root is not None:
                rules = rules_of(root, self._configs.get(app) or RunConfig()) + rules
            self._rules[app] = rules
        return self._rules[app]

    def _model_of(self, key: SessionKey) -> str:
        root = self.programs.get(key.app_name)
        if root is None:
            return self._model or ""
        return Inspection(root, Session(), config=self._configs.get(key.app_name)).model


_KEPT = 8
"""How many sessions stay rebuilt."""

Version: TypeAlias = tuple[int, str]
"""What tells a session from itself before: how many events it has, and the id of the last."""


def _version(session: Session) -> Version:
    """One that was deleted may have left its id."""
    last = session.events.tip
    return len(session.events), last.id if last is not None else ""


def key_text(key: SessionKey) -> str:
    """A session's key as one text."""
    return compact([key.app_name, key.user_id, key.id])


def _speaks(root: Node, session: Session) -> bool:
    """Whether an agent of the program has spoken in the session, or nobody has."""
    authors = {event.author for event in session.events} - {"user"}
    return not authors or bool(authors & homes_of(root).keys())


def _describe_session(key: SessionKey, updated: float) -> JsonObject:
    return {
        "key": key_text(key),
        "id": key.id,
        "app": key.app_name,
        "user": key.user_id,
        "updated": updated,
    }


class _SessionRows:
    """The rows of a list; one is made again when its session has changed."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[tuple[int, str], JsonObject]] = {}
        self._masked_texts: dict[str, tuple[tuple[int, str], MaskedTexts]] = {}

    def mask_texts(self, key: str, session: Session, rules: MaskRules) -> MaskedTexts:
        """How the texts of a session may be shown."""
        if not rules:
            return MaskedTexts(None)
        version, known = _version(session), self._masked_texts.get(key)
        if known is None or known[0] != version:
            known = self._masked_texts[key] = (version, MaskedTexts(Mask(rules, session)))
        return known[1]

    def row(
        self,
        key: str,
        session: Session,
        model: str,
        recorded: frozenset[str] | None,
        show: MaskedTexts,
    ) -> JsonObject:
        """A session in the list, with what its provider reported; else it must be counted."""
        version, known = _version(session), self._rows.get(key)
        if known is None or known[0] != version:
            row = _describe_row(key, session, model, recorded, show)
            known = self._rows[key] = (version, row)
        return {**known[1]}


def _describe_row(
    key: str,
    session: Session,
    model: str,
    recorded: frozenset[str] | None,
    show: MaskedTexts,
) -> JsonObject:
    reported = SessionSpending.from_reports(session, model, recorded)
    steps = len(model_events(session)) if recorded is None else len(recorded)
    answers = [event for event in session.events if ends_call(event)]
    models = dict.fromkeys(
        event.provenance.model
        or event.model_version
        or wire_name(event.provenance.unanswered or model)
        for event in answers
    )
    return {
        "key": key,
        "id": session.id,
        "app": session.app_name,
        "user": session.user_id,
        "first": show.text(title_of(session), FIRST),
        "agents": list[Json](dict.fromkeys(show.text(event.author) for event in answers)),
        "models": _name_models(models),
        "events": len(session.events),
        "steps": steps,
        **(reported or SessionSpending()).to_json(),
        "counted": False,
        "counting": reported is None and steps > 0,
        "errors": sum(1 for event in session.events if event.error_code),
        "waiting": len(waiting_in(session.events)),
        "updated": max((event.timestamp for event in session.events), default=0.0),
    }


def _name_models(names: Iterable[str]) -> list[Json]:
    """The models by name; one with its provider in front of it is the same one."""
    listed = [name for name in names if name]
    return [name for name in listed if not any(one.endswith(f"/{name}") for one in listed)]


_AROUND = 60
"""Characters before and after a word that was searched for."""


def find_words(session: Session, words: Sequence[str], show: MaskedTexts, name: str) -> str | None:
    """The place where a session says the first of these words; None unless it says all of them.

    Words are looked for in names, messages, arguments and results, in small letters.
    """
    authors = {event.author for event in session.events}
    missing = {*words}
    names = compact([name, session.app_name, session.user_id, *authors]).lower()
    missing -= {word for word in missing if word in names}
    hit = ""
    for event in session.events:
        if not missing:
            break
        text = "\n".join(
            (
                event.text,
                *(compact([call.name, call.args]) for call in event.calls),
                *(compact([one.name, one.response]) for one in event.results),
                event.error_message or "",
            )
        )
        low = text.lower()
        here = [word for word in missing if word in low]
        if here and not hit:
            masked = show.text(text)
            at = masked.lower().find(here[0])
            # a value that is hidden is found, and not shown
            hit = masked[max(0, at - _AROUND) : at + _AROUND].strip() if at >= 0 else ""
        missing -= {*here}
    return None if missing else hit


def no_session(id: str) -> SessionError:
    """The error for a session that there is not."""
    return SessionError(
        f"there is no session `{id}`", where="inspector", hint="the list shows those there are"
    )
