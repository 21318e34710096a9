"""The memory of users: what was noted for them and what was said to them, searched and forgotten.

A memory is kept in a store, as sessions of an app of its own: `memory:` and the name of the app.
Each entry is one session there, so that to forget it is to delete it, in every kind of store.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast, get_args

import msgspec

from weft.content import Content, Part
from weft.declare.context import Recollection
from weft.declare.policy_parts import MemoryScorer
from weft.errors import Conflict, SessionError, UsageError
from weft.relevance import rank_apart
from weft.session import Event, Session, SessionKey, Store
from weft.session.lookback import hidden_by_rewind, hidden_by_undoing
from weft.session.store import ErasingStore, lease_session
from weft.stores import open_store
from weft.stores.upkeep import MEMORY_APP
from weft.values import handle_of

_APP = MEMORY_APP

_LONGEST = 4_000
"""Letters of one memory that are kept: a memory is a sentence, not a file."""

_SHARE = 0.2
"""What a hit must have of the best one's score."""


class MemoryEntry(NamedTuple):
    """One entry of a memory: a note, or all that was kept of a session."""

    id: str
    texts: tuple[str, ...]


class Memory:
    """What is known of the users of an app, in a store.

    Everything is by app and user: no search reaches the memory of another user. With `sessions`
    the stored sessions of the user in that store are searched too, without being added first.

    >>> memory = Memory("sqlite:///weft.db")
    >>> runner = Runner(agent, memory=memory)
    """

    def __init__(
        self,
        store: str | Store = "memory://",
        *,
        sessions: bool = False,
        scorer: MemoryScorer = "bm25",
        top_k: int = 10,
    ) -> None:
        self._check(scorer, top_k)
        self._store = open_store(store)
        self._sessions = sessions
        self._scorer: MemoryScorer = scorer
        self._top_k = top_k
        self._read: dict[SessionKey, tuple[float, int, tuple[Recollection, ...]]] = {}
        """The texts of sessions, while these are as long and as old as they were."""

    @staticmethod
    def _check(scorer: str, top_k: int) -> None:
        if scorer not in get_args(MemoryScorer):
            raise UsageError(
                f"scorer is {scorer!r}", where="Memory", hint='write "bm25" or "embedding"'
            )
        if not isinstance(cast("object", top_k), int) or top_k < 1:
            raise UsageError(f"top_k is {top_k!r}", where="Memory", hint="write 1 or more")
        if scorer == "embedding":
            _require_vectors()

    async def remember(
        self, app_name: str, user_id: str, text: str, *, session: str = "", author: str = ""
    ) -> str:
        """Keep a note for a user, and give its id. The same text twice is one note."""
        text = check_note(text)
        key = _key(app_name, user_id, f"note-{handle_of(text)}")
        note = Event(
            author=author or "user",
            content=Content(parts=(Part(text=text),), role="user"),
            invocation_id=session,
        )
        await self._add(key, [note])
        return key.id

    async def add_session(self, session: Session) -> int:
        """Keep what was said in a session; gives how many texts are new."""
        if not session.id or not session.app_name or not session.user_id:
            raise SessionError(
                "a session without an id, an app and a user belongs to nobody's memory",
                where="Memory.add_session",
                hint="pass result.session of a Runner, or runner.session(...)",
            )
        key = _key(session.app_name, session.user_id, f"session-{session.id}")
        return await self._add(key, list_spoken(session))

    async def search(self, app_name: str, user_id: str, query: str) -> list[Content]:
        """What may answer the query, the best first, as contents."""
        return spell_memories(await self.find(app_name, user_id, query))

    async def find(
        self,
        app_name: str,
        user_id: str,
        query: str,
        *,
        top_k: int | None = None,
        scorer: MemoryScorer | None = None,
        without: str = "",
    ) -> list[Recollection]:
        """What may answer the query, the best first, with where it comes from.

        `without` is the id of a session whose texts are not looked at: the one that asks.
        """
        self._check(scorer or self._scorer, self._top_k if top_k is None else top_k)
        known = [
            one
            for one in await self._texts(app_name, user_id)
            # what the asking session says itself is in its request already
            if one.session != without or not without
        ]
        scores = rank_apart(query, (one.text for one in known), scorer=scorer or self._scorer)
        hits = [
            msgspec.structs.replace(one, score=score)
            for one, score in zip(known, scores, strict=True)
            if score >= _SHARE
        ]
        # the newer of two that fit alike, and the same order in every process
        hits.sort(key=lambda one: (-one.score, -one.at, one.id))
        # the same text in two sessions is told once, from where it ranks best
        distinct = {one.text: one for one in reversed(hits)}
        return [one for one in hits if distinct[one.text] is one][: top_k or self._top_k]

    async def entries(self, app_name: str, user_id: str) -> list[MemoryEntry]:
        """All that is kept for a user, the latest first."""
        infos = await self._store.sessions(_APP + app_name, user_id)
        return [
            MemoryEntry(info.key.id, tuple(one.text for one in await self._texts_of(info.key)))
            for info in infos
        ]

    async def forget(self, app_name: str, user_id: str, id: str | None = None) -> int:
        """Delete an entry, or all that is kept for the user; gives how many were there."""
        entries = await self._store.sessions(_APP + app_name, user_id)
        chosen = [info.key for info in entries if id is None or info.key.id == id]
        for key in chosen:
            await self._store.delete(key)
            self._read.pop(key, None)
        # deleted rows would stay readable in the file
        if id is None and chosen and isinstance(self._store, ErasingStore):
            await self._store.compact()
        return len(chosen)

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()

    async def _add(self, key: SessionKey, events: Sequence[Event]) -> int:
        """Store the events that the entry does not have; writers side by side take turns."""
        # the store refuses an append that another writer came before
        async with lease_session(self._store, key, busy="queue"):
            entry = await self._store.get(key)
            if entry is None:
                try:
                    entry = await self._store.create(key)
                except Conflict:
                    # a writer that takes no lease made it meanwhile
                    entry = await self._store.get(key)
            assert entry is not None
            known = {event.id for event in entry.events}
            is_note = key.id.startswith("note-")
            # a note has its text in its id: it is there already
            new = [] if is_note and known else [one for one in events if one.id not in known]
            if new:
                await self._store.append(entry, *new)
            return len(new)

    async def _texts(self, app_name: str, user_id: str) -> list[Recollection]:
        apps = [_APP + app_name, *([app_name] if self._sessions else ())]
        texts: dict[tuple[str, str], Recollection] = {}
        for app in apps:
            for info in await self._store.sessions(app, user_id):
                cached = self._read.get(info.key)
                # the list says when a session changed, so unchanged ones are not read again
                if cached is None or cached[:2] != (info.last_update_time, info.events):
                    texts_there = await self._texts_of(info.key)
                    cached = self._read[info.key] = info.last_update_time, info.events, texts_there
                for one in cached[2]:
                    # a session may have been added to the memory and be searched itself
                    texts.setdefault((one.session, one.id), one)
        return list(texts.values())

    async def _texts_of(self, key: SessionKey) -> tuple[Recollection, ...]:
        session = await self._store.get(key, skip_unreadable=True)
        if session is None:
            return ()
        if key.app_name.startswith(_APP):
            is_note = key.id.startswith("note-")
            source = "" if is_note else key.id.removeprefix("session-")
            return tuple(
                Recollection(
                    id=key.id if is_note else f"{source}/{event.id}",
                    text=event.text,
                    author=event.author,
                    session=event.invocation_id if is_note else source,
                    at=event.timestamp,
                )
                for event in session.events
            )
        return tuple(
            Recollection(
                id=f"{key.id}/{event.id}",
                text=event.text,
                author=event.author,
                session=key.id,
                at=event.timestamp,
            )
            for event in list_spoken(session)
        )


def check_note(text: str) -> str:
    """A note as it is kept, or an error if it cannot be one."""
    text = text.strip() if isinstance(cast("object", text), str) else ""
    if not text:
        raise UsageError("there is nothing to remember", where="Memory", hint="pass a text")
    if len(text) > _LONGEST:
        raise UsageError(
            f"a note of {len(text):,} letters is too long",
            where="Memory",
            hint=f"keep what matters, in at most {_LONGEST:,}; save the rest as an artifact",
        )
    return text


def spell_memories(memories: Sequence[Recollection]) -> list[Content]:
    """Memories as contents: what the user said, and what was said to them."""
    return [
        Content(parts=(Part(text=one.text),), role="user" if one.author == "user" else "model")
        for one in memories
    ]


def _key(app_name: str, user_id: str, id: str) -> SessionKey:
    for name, value in (("app_name", app_name), ("user_id", user_id)):
        if not isinstance(cast("object", value), str) or not value:
            raise UsageError(f"{name}={value!r}", where="Memory", hint="pass a non-empty string")
    return SessionKey(_APP + app_name, user_id, id)


def list_spoken(session: Session) -> list[Event]:
    """What was said to the user or by them: no draft, no call, nothing that was taken back."""
    hidden = {**hidden_by_rewind(session.events), **hidden_by_undoing(session.events)}
    return [
        Event(
            author=event.author,
            content=Content(parts=(Part(text=event.text[:_LONGEST]),), role=event.content.role),
            invocation_id=event.invocation_id,
            id=event.id,
            timestamp=event.timestamp,
        )
        for index, event in enumerate(session.events)
        if index not in hidden
        and event.content is not None
        and event.text.strip()
        and event.audience != "internal"
        and not event.isolation_scope
        and not event.error_code
    ]


def _require_vectors() -> None:
    from weft.meaning import is_installed

    if not is_installed():
        raise UsageError(
            'scorer="embedding" needs word vectors, and none are installed',
            where="Memory",
            hint="pip install 'weft[embedding]', or leave scorer out",
        )
