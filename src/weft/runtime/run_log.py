"""A run's log: the session as it grows, and what the log has of the invocation so far."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from weft.runtime.costs import Spending
from weft.runtime.feeds import Feed
from weft.runtime.place import (
    Past,
    Place,
    Progress,
    Record,
    finish_even_if_cancelled,
    is_below,
    path_of,
    paths_around,
)
from weft.session import Event, MemoryStore, Session, Store, Transaction
from weft.session.lookback import hidden_by_undoing, hidden_in, user_event


def _without_scope(event: Event) -> Event:
    """The event as it stands in its scope's own log."""
    return msgspec.structs.replace(event, isolation_scope=None)


class _TrackedTransaction:
    """A transaction that remembers the session it leads to, and the events that are new there."""

    def __init__(self, inner: Transaction, session: Session) -> None:
        self._inner = inner
        self.session = session
        self.stored: list[Event] = []

    @property
    def connection(self) -> object:
        return self._inner.connection

    async def append(self, *events: Event) -> Session:
        self.session = await self._inner.append(*events)
        self.stored += events
        return self.session


class RunLog:
    """The session of a run, which grows with every event that it stores.

    `enter` gives it the session, once the run has the lease.
    """

    def __init__(self, store: Store, feed: Feed) -> None:
        self._store = store
        self.feed = feed
        """Those who follow the session, while the run is under way."""
        self.session: Session
        self.resumed: bool

    def enter(self, session: Session, id: str, spending: Spending, *, resumed: bool) -> None:
        """Begin in a session, or go on there from what the log says."""
        self.session = session
        self.resumed = resumed
        self.escalated: set[tuple[str, str]] = set()
        """Where somebody escalated: the path, and the tool call it happened inside, if any."""
        self.artifact_changes = 0
        """How many of the events that this run stored have changed artifacts."""
        self._id = id
        self._spending = spending
        self._sheltered: set[str] = set()
        self._views: dict[str, Session] = {}
        self._progress: dict[Place, Progress] = {}
        self._lock = asyncio.Lock()
        # a new run has nothing in the log before this: the past need not be read
        self._first = 0 if resumed else session.events.length
        self._past = Past(id, self._first, hidden_in(session.events) if resumed else {})
        if resumed:
            events = self.events()
            for event in events:
                self._note_escalation(event)
            spending.recall(events)

    # --- what the log has

    @property
    def past(self) -> Past:
        """What the log has of this invocation, without what was rewound."""
        return self._past.read(self.session.events)

    def events(self) -> list[Event]:
        """All that the log has of this invocation."""
        return self.past.events()

    def visible_events(self) -> list[Event]:
        """All that the log has of this invocation and no flow took back."""
        mine = self.session.events.since(self._first) if not self.resumed else self.events()
        for event in mine:
            # only metadata can take something back, and most events have none
            noted = event.custom_metadata and event.is_noted
            if noted or event.invocation_id != self._id:
                break
        else:
            return mine
        mine = self.events()
        undone = hidden_by_undoing(mine)
        return [event for index, event in enumerate(mine) if index not in undone]

    def view(self, scope: str) -> Session:
        """The log as a node sees it: all of it, or what belongs to the tool call it runs inside."""
        if not scope:
            return self.session
        view = self._views.get(scope)
        if view is None:
            mine = [_without_scope(e) for e in self.events() if e.isolation_scope == scope]
            whole = self.session
            view = Session(whole.id, app_name=whole.app_name, user_id=whole.user_id, events=mine)
            self._views[scope] = view
        return view

    def user_text(self, place: Place) -> str:
        """What the user said to start the invocation, or a node to the one it calls; its text."""
        asked = self.user_event(place)
        return asked.text if asked is not None else ""

    def user_event(self, place: Place) -> Event | None:
        """The message that started the invocation, or with which a node called the one here."""
        return user_event(self.view(place.scope).events, self._id)

    def progress(self, place: Place) -> Progress:
        """What was done at a place so far."""
        progress = self._progress.get(place)
        if progress is None:
            progress = Progress.of(self.past.at(place)) if self.resumed else Progress()
            self._progress[place] = progress
        return progress

    def record(self, place: Place) -> Record:
        """What the flow at a place has left in the log."""
        return Record.of(self.past.at(place) if self.resumed else ())

    # --- failures that somebody deals with

    def shelter(self, place: Place) -> None:
        """Say that somebody deals with a failure at or below a place.

        There, a failure that the log has stays one. Anywhere else it ended the run, and a run
        that goes on after it tries again.
        """
        if self.resumed:
            self._sheltered.add(place.path)

    def unshelter(self, place: Place) -> None:
        """Say that nobody deals with a failure at a place: what failed there is tried again."""
        self._sheltered.discard(place.path)

    def is_sheltered(self, place: Place) -> bool:
        """Whether somebody deals with a failure at a place."""
        return not self._sheltered.isdisjoint(paths_around(place.path))

    # --- how it grows

    async def append(self, events: Sequence[Event]) -> None:
        """Store the events, all or none, and take up what they change."""
        # readers elsewhere get the pieces of an answer before its complete event
        if self.feed.sending is not None:
            await self.feed.sending.flush()
        waits = type(self._store) is not MemoryStore or self._lock.locked()
        if not waits:  # nothing can come between
            self._grow(await self._store.append(self.session, *events))
        else:
            async with self._lock:
                try:
                    self._grow(await self._store.append(self.session, *events))
                except asyncio.CancelledError:
                    # whether the store has them is not known: to append again is safe
                    await finish_even_if_cancelled(self._append_again(events))
                    raise
        self._note(events)

    async def _append_again(self, events: Sequence[Event]) -> None:
        """Store events of which the store may have been told before: they are stored once."""
        self._grow(await self._store.append(self.session, *events))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """The store's transaction: what is written and appended in it is stored together."""
        async with self._lock:
            # under the lock: the session must not grow between the tool's writes and its result
            scope = self._store.transaction(self.session)
            tracked = _TrackedTransaction(await scope.__aenter__(), self.session)
            try:
                yield tracked
            except BaseException as error:
                await finish_even_if_cancelled(
                    scope.__aexit__(type(error), error, error.__traceback__)
                )
                raise
            await finish_even_if_cancelled(self._commit_transaction(scope, tracked))

    async def _commit_transaction(
        self, scope: AbstractAsyncContextManager[Transaction], tracked: _TrackedTransaction
    ) -> None:
        """Commit the store's transaction, and take up what it stored."""
        await scope.__aexit__(None, None, None)
        self._grow(tracked.session)
        self._note(tracked.stored)

    def _grow(self, session: Session) -> None:
        """Go on in the session as it is now, and tell those who follow it."""
        length = self.session.events.length
        self.session = session
        feed = self.feed
        if feed.readers or feed.unfinished:
            feed.grow(session.events, length)

    def _note(self, stored: Sequence[Event]) -> None:
        """Take up what events that are stored now change."""
        for event in stored:
            scope = event.isolation_scope
            if scope and scope in self._views:
                self._views[scope] = self._views[scope].append(_without_scope(event))
            actions = event.actions
            if actions.escalate or (self.escalated and event.is_noted):
                self._note_escalation(event)
            if actions.artifact_delta:
                self.artifact_changes += 1
            if self._spending.budget is not None:
                self._spending.note(event)

    def _note_escalation(self, event: Event) -> None:
        """Keep in mind that somebody escalated, unless a flow took back what was done there."""
        if event.actions.escalate:
            self.escalated.add((path_of(event), event.isolation_scope or ""))
        undone = event.provenance.undone
        if undone and self.escalated:
            self.escalated = {
                (path, scope)
                for path, scope in self.escalated
                if not any(is_below(path, undone) for undone in undone)
            }
