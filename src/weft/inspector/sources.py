"""Where the inspector finds sessions: in a store, or in recordings."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from weft.compiler.costs import Load, rates_for
from weft.declare import Node
from weft.declare.policy_parts import Redact
from weft.errors import SessionError
from weft.inspector.inspection import Inspection
from weft.passes.summaries import name_of_model
from weft.recordings import Recording, recording_of
from weft.replay.steps import homes_of, model_events, texts_at
from weft.session import ArtifactStore, Session, SessionInfo, SessionKey, Store
from weft.session.lookback import waiting_in
from weft.session.store import attach
from weft.values import Json, JsonObject, compact

LISTED = 200
"""How many sessions are read for the list, the newest; of more, only names and times are shown."""


class SessionSource(Protocol):
    """Sessions that can be inspected, by keys that are texts."""

    async def sessions(self) -> list[Json]:
        """A row for each session, the newest first."""
        ...

    async def inspection(self, key: str) -> Inspection:
        """The session of that key, whole as it is now."""
        ...

    async def length(self, key: str) -> int | None:
        """How many events it has; None where it is gone."""
        ...


class RecordedSessions:
    """Recordings of any kind that `weft replay` reads."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        *,
        model: str | None = None,
        redact: tuple[Redact, ...] = (),
    ) -> None:
        self._recordings = {str(number): one for number, one in enumerate(recordings, 1)}
        self._model = model
        self._redact = redact
        self._open: dict[str, Inspection] = {}

    async def sessions(self) -> list[Json]:
        """A row for each recording, in the order of the file."""
        return [
            _row(key, recording.session, name=recording.id, model=self._model or "")
            for key, recording in self._recordings.items()
        ]

    async def inspection(self, key: str) -> Inspection:
        """The recording of that number."""
        if key not in self._recordings:
            raise _no_session(key)
        if key not in self._open:
            self._open[key] = Inspection.of_recording(
                self._recordings[key], model=self._model, redact=self._redact
            )
        return self._open[key]

    async def length(self, key: str) -> int | None:
        """A recording never grows."""
        one = self._recordings.get(key)
        return len(one.session.events) if one is not None else None


class StoredSessions:
    """Sessions in a store, with the programs that ran them by the name of their app.

    `user` limits it to one user's sessions. `redact` hides values beside what the agents hide.
    """

    def __init__(
        self,
        store: Store,
        programs: Mapping[str, Node],
        *,
        artifacts: ArtifactStore | None = None,
        files: tuple[str, ...] = (),
        user: str | None = None,
        model: str | None = None,
        redact: tuple[Redact, ...] = (),
    ) -> None:
        self.store = store
        self.programs = dict(programs)
        self._artifacts = artifacts
        self._files = files
        self._user = user
        self._model = model
        self._redact = redact
        self._open: dict[SessionKey, Inspection] = {}

    async def sessions(self) -> list[Json]:
        """A row for each session; its tokens are what the provider said it counted."""
        infos: list[SessionInfo] = []
        for app in await self.store.apps():
            infos += await self.store.sessions(app, self._user)
        infos.sort(key=lambda info: info.last_update_time, reverse=True)
        rows: list[Json] = []
        for number, info in enumerate(infos):
            session = await self.store.get(info.key) if number < LISTED else None
            if session is None:
                rows.append(_named(info.key, info.last_update_time))
            else:
                rows.append(_row(key_text(info.key), session, model=self._model_of(info.key)))
        return rows

    async def inspection(self, key: str) -> Inspection:
        """The session of that key; what was rebuilt of it before is kept."""
        place = self.key_of(key)
        session = await self.store.get(place)
        if session is None:
            self._open.pop(place, None)
            raise _no_session(place.id)
        if self._artifacts is not None:
            await attach(session, self._artifacts)
        known = self._open.get(place)
        if known is None:
            known = await self._inspect(session)
        # in a thread: many requests may have to be compiled
        elif not _is_same(known.session, session):
            known = await asyncio.to_thread(known.grown, session)
        self._open[place] = known
        while len(self._open) > _KEPT:
            self._open.pop(next(iter(self._open)))
        return known

    async def length(self, key: str) -> int | None:
        """How many events are stored."""
        place = self.key_of(key)
        return (await self.store.lengths([place])).get(place)

    def key_of(self, key: str) -> SessionKey:
        """The session that a key names, if this may be seen."""
        try:
            app, user, id = msgspec.json.decode(key, type=tuple[str, str, str])
        except (msgspec.DecodeError, UnicodeError):
            raise _no_session(key) from None
        # another user's session is told like one that is not there
        if self._user is not None and user != self._user:
            raise _no_session(id)
        return SessionKey(app, user, id)

    async def _inspect(self, session: Session) -> Inspection:
        root = self.programs.get(session.app_name)
        # another program may have the app's name by now
        if root is None or not _speaks(root, session):
            inspection = Inspection.of_recording(
                recording_of(session), model=self._model, redact=self._redact
            )
            inspection.notice = (
                "The program that ran this session is not here. Instructions and tools are made up"
                " from the log; name the program to see them."
            )
            return inspection
        texts: dict[str, str] = {}
        if self._artifacts is not None:
            texts = await texts_at(self._artifacts, session, len(session.events))
        return Inspection(root, session, artifacts=texts, files=self._files, redact=self._redact)

    def _model_of(self, key: SessionKey) -> str:
        root = self.programs.get(key.app_name)
        if root is None:
            return self._model or ""
        models = [home.model for home in homes_of(root).values() if home.model is not None]
        return next(map(name_of_model, models), "")


_KEPT = 8
"""How many sessions stay rebuilt."""


def _is_same(known: Session, session: Session) -> bool:
    """Whether nothing was added; another session may have the id of one that was deleted."""
    last, now = known.events.tip, session.events.tip
    same_end = (last.id if last is not None else None) == (now.id if now is not None else None)
    return same_end and len(known.events) == len(session.events)


def key_text(key: SessionKey) -> str:
    """A session's key as one text."""
    return compact([key.app_name, key.user_id, key.id])


def _speaks(root: Node, session: Session) -> bool:
    """Whether an agent of the program has spoken in the session, or nobody has."""
    authors = {event.author for event in session.events} - {"user"}
    return not authors or bool(authors & homes_of(root).keys())


def _named(key: SessionKey, updated: float) -> JsonObject:
    return {
        "key": key_text(key),
        "id": key.id,
        "app": key.app_name,
        "user": key.user_id,
        "updated": updated,
    }


def _row(key: str, session: Session, *, name: str = "", model: str = "") -> JsonObject:
    """A session in the list: what its answers reported, at the price of their models."""
    tokens = cached = priced = 0
    cost, money = 0.0, True
    for event in session.events:
        usage = event.usage
        if usage is None or event.partial:
            continue
        priced += 1
        prompt, read = usage.prompt_token_count or 0, usage.cached_content_token_count or 0
        tokens, cached = tokens + prompt, cached + read
        rates = rates_for(event.provenance.model or model, tokens=prompt)
        money = money and rates.money
        answer = usage.candidates_token_count or 0
        cost += rates.cost(Load(read, 0, max(0, prompt - read), answer))
    return {
        "key": key,
        "id": name or session.id,
        "app": session.app_name,
        "user": session.user_id,
        "events": len(session.events),
        "steps": len(model_events(session)),
        "tokens": tokens,
        "cached": cached,
        "cost": cost,
        "money": money and priced > 0,
        "errors": sum(1 for event in session.events if event.error_code),
        "waiting": len(waiting_in(session.events)),
        "updated": max((event.timestamp for event in session.events), default=0.0),
    }


def _no_session(id: str) -> SessionError:
    return SessionError(
        f"there is no session `{id}`", where="inspector", hint="the list shows those there are"
    )
