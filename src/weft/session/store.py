"""What a store is: where sessions are kept, one writer at a time.

A store hands out sessions as values. `append` is the only way a log grows; it commits the
events with their deltas, all or nothing, and refuses a session value that is not the newest.

Of a large file an event has only an address, `artifact:media-DIGEST.png`, and the bytes there can
only be those of the digest: the same log gives the same request, wherever it is compiled.
Compiling reads no store, so whoever compiles a stored session loads the files first (`attach`), and
keeps them as long as it compiles.
"""

import base64
import binascii
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, NamedTuple, Protocol, cast, runtime_checkable

import msgspec

from weft.content import Blob, Part
from weft.errors import Conflict, SessionError, StoreError
from weft.media import SCHEME, LoadedMedia, extension_of, loaded_media
from weft.session.event import Event
from weft.session.log import Session
from weft.session.lookback import addresses_in
from weft.session.strand import Strand
from weft.values import Json, JsonObject, digest

Busy = Literal["queue", "reject", "interrupt"]
"""What a second run of one session does: wait, be refused, or stop the first."""


class SessionKey(NamedTuple):
    """What identifies a session."""

    app_name: str
    user_id: str
    id: str

    def __str__(self) -> str:
        return f"session {self.id} of {self.user_id} in {self.app_name}"


class InSession:
    """What belongs to one session, which its key names."""

    __slots__ = ()

    key: SessionKey

    @property
    def session_id(self) -> str:
        """The session it is in."""
        return self.key.id

    @property
    def user_id(self) -> str:
        """Whose session that is."""
        return self.key.user_id


class SessionInfo(NamedTuple):
    """A session in a list: how long it is, and when it last changed."""

    key: SessionKey
    events: int
    last_update_time: float


class Holder(NamedTuple):
    """Who has a session: the name of a worker, and since when, as far as that is known."""

    worker: str
    since: float | None = None


class Lease(Protocol):
    """The right to run one session; `release` may be called more than once."""

    async def release(self) -> None:
        """Let the next run have the session."""
        ...


class Transaction(Protocol):
    """One atomic change of the store that a tool shares: its writes and the event, or neither."""

    @property
    def connection(self) -> object:
        """The store's own connection, inside the transaction: what the tool writes with."""
        ...

    async def append(self, *events: Event) -> Session:
        """Add the events in this transaction; they are stored when it ends without an error."""
        ...


class Store(Protocol):
    """Where sessions are kept."""

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        ...

    async def get(
        self,
        key: SessionKey,
        *,
        recent: int | None = None,
        after: float | None = None,
        skip_unreadable: bool = False,
    ) -> Session | None:
        """The session, or None.

        `recent` reads the newest events only, `after` those newer than a timestamp; the state is
        whole either way. Such a part is for reading: appending to it is a Conflict. So is what is
        left of a session with damaged events under `skip_unreadable`; else they are an error.
        """
        ...

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored: atomically, durably, each id once.

        A session value that is not the newest is refused with a Conflict, unless the store has
        these very events already. Partial events are not stored.
        """
        ...

    async def events(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[Event] | None:
        """The events after the first `after`, with their sequence numbers; None: no session.

        The first event of a session has the sequence number 1, so `after` is the number of the
        last event that the caller has. `limit` is how many to read at most.
        """
        ...

    async def lengths(self, keys: Sequence[SessionKey]) -> dict[SessionKey, int]:
        """How many events the sessions have; one that does not exist is not in it."""
        ...

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""
        ...

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        ...

    async def delete(self, key: SessionKey) -> None:
        """Forget a session and its queued turns; what it wrote to `app:` and `user:` stays."""
        ...

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        """The right to run the session, across processes; a dead holder's is free at once.

        `interrupt` is called, in the holder's event loop, when a later run asks for the session
        with `busy="interrupt"`; the holder then stops and releases.
        """
        ...

    async def holder(self, key: SessionKey) -> Holder | None:
        """Who has the session now, in whichever process; None where nobody has."""
        ...

    async def changed(self, keys: Sequence[SessionKey], *, seconds: float) -> None:
        """Wait until one of the sessions may have grown in another process, or the time is up.

        A store that is not told of that waits for all of the time.
        """
        ...

    def transaction(self, session: Session) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in which a tool and its result commit together, or not at all."""
        ...

    async def close(self) -> None:
        """Close files and connections; the store can be opened again."""
        ...


@runtime_checkable
class WaitingList(Protocol):
    """A store that knows in which sessions calls wait, without reading all of them."""

    async def waiting(self, app_name: str, user_id: str | None = None) -> list[SessionKey]:
        """The sessions of an app, or of one user of it, in which calls may wait."""
        ...


@runtime_checkable
class FillingStore(Protocol):
    """A store that makes a session together with its first events, all of it or nothing.

    Of another store a session is made first and filled then: a process that is killed between
    the two leaves it empty.
    """

    async def create_filled(
        self, key: SessionKey, events: Sequence[Event], *, state: Mapping[str, Json] | None = None
    ) -> Session:
        """A new session with these events; one that exists is refused with a Conflict."""
        ...


@runtime_checkable
class ArchivingStore(Protocol):
    """A store that can pack the older events of a session, unnoticed by whoever reads it."""

    async def archive(
        self, key: SessionKey, *, keep_recent: int = 1_000, before: float | None = None
    ) -> int:
        """Pack the events before the newest `keep_recent` and before a time; gives how many."""
        ...


@runtime_checkable
class ErasingStore(Protocol):
    """A store that can forget a user, and leave nothing of what was deleted."""

    async def erase_user(self, app_name: str, user_id: str) -> int:
        """Delete a user's sessions, state and queued turns; gives how many sessions there were."""
        ...

    async def erase_turns(self, app_name: str, user_id: str, session_id: str | None = None) -> None:
        """Delete the turns of a user, or of a session, from all queues: none is taken any more."""
        ...

    async def apps_of_turns(self, user_id: str) -> list[str]:
        """The apps for which a user has turns in a queue, sorted."""
        ...

    async def compact(self) -> None:
        """Write what is left anew, so that nothing deleted can be read from the disk."""
        ...


class Tally(NamedTuple):
    """What processes count together under one name, and until when it means something."""

    value: JsonObject
    until: float


Count = Callable[[Mapping[str, JsonObject], float], Mapping[str, Tally]]
"""Given what is counted under some names and the time, what is to be kept from now on."""


@runtime_checkable
class CountingStore(Protocol):
    """A store in which several processes count together: each sees what the others have counted."""

    async def tally(self, names: Sequence[str], count: Count, *, beside: str = "") -> None:
        """Change what is counted under these names, while no other process does.

        `count` gets what there is under them, and all whose names begin with `beside`, which
        may only be read. It may be called more than once; only what it gives last is kept. The
        time is the store's own, the same for all processes.
        """
        ...


@runtime_checkable
class ErasingArtifacts(Protocol):
    """An artifact store that can forget a user, or a session."""

    async def erase(self, app_name: str, user_id: str, session_id: str | None = None) -> int:
        """Delete the artifacts of a session, or all of a user; gives how many there were."""
        ...


class ArtifactStore(Protocol):
    """Where artifacts are kept."""

    async def save(
        self, app_name: str, user_id: str, session_id: str, name: str, part: Part
    ) -> int:
        """Keep the part as the next version of the artifact; the first version is 0."""
        ...

    async def load(
        self, app_name: str, user_id: str, session_id: str, name: str, version: int | None = None
    ) -> Part | None:
        """That version of the artifact, or the newest, or None."""
        ...

    async def names(self, app_name: str, user_id: str, session_id: str) -> list[str]:
        """The names of the session's artifacts and of the user's, sorted."""
        ...

    async def versions(self, app_name: str, user_id: str, session_id: str, name: str) -> list[int]:
        """The versions there are, oldest first."""
        ...

    async def delete(self, app_name: str, user_id: str, session_id: str, name: str) -> None:
        """Forget the artifact with all its versions."""
        ...


# --- what stores share: a part of a session, and what they refuse


def part(session: Session, *, recent: int | None, after: float | None) -> Session:
    """The session with its newest events only; its state stays whole."""
    if recent is not None and recent < 0:
        raise SessionError(
            f"{recent} events cannot be read", where="recent", hint="pass 0 or more, or None"
        )
    if recent is None and after is None:
        return session
    first = max(len(session.events) - recent, 0) if recent is not None and after is None else 0
    events = session.events.since(first)
    if after is not None:
        events = [event for event in events if event.timestamp > after]
        if recent is not None:
            events = events[max(len(events) - recent, 0) :]
    if len(events) == len(session.events):
        return session
    return Session.restored(
        session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        initial=session.initial,
        state=session.state,
        events=Strand(events),
        last_update_time=session.last_update_time,
    )


@asynccontextmanager
async def lease_session(store: "Store", key: SessionKey, *, busy: Busy) -> AsyncGenerator[None]:
    """Keep runs out of a session while the block changes it; nothing interrupts the block."""
    lease = await store.lease(key, busy=busy, interrupt=lambda: None)
    try:
        yield
    finally:
        await lease.release()


def key_of(session: Session) -> SessionKey:
    """The session's key."""
    return SessionKey(session.app_name, session.user_id, session.id)


def require_place(after: int, limit: int | None) -> None:
    """Refuse a place that no log has."""
    for name, number in (("after", after), ("limit", 0 if limit is None else limit)):
        if type(cast("object", number)) is not int or number < 0:
            raise SessionError(
                f"{name}={number!r} is not a number of events",
                where="events",
                hint="pass 0 or more",
            )


def conflict(session: Session, log: Strand[Event]) -> Conflict:
    """The error for a session value that is not the newest."""
    own_length, log_length = len(session.events), len(log)
    if own_length == log_length:
        message = "the session was deleted and created again since this value of it was read"
    else:
        message = f"the session has {log_length} events, and this value of it has {own_length}"
    return Conflict(
        message, where=str(key_of(session)), hint="read it again with get, and append to all of it"
    )


def exists_already(key: SessionKey) -> Conflict:
    """The error for creating a session twice."""
    return Conflict(
        "the session exists already", where=str(key), hint="read it with get, or use another id"
    )


def unknown_session(key: SessionKey) -> StoreError:
    """The error for writing to a session that is not there."""
    return StoreError(
        "there is no such session", where=str(key), hint="create it first: await store.create(key)"
    )


# --- large files, which a log has only the addresses of

Load = Callable[[str], Awaitable[Part | None]]
"""The newest version of an artifact by its name."""


async def load_attachments(log: Strand[Event], load: Load, media: dict[str, LoadedMedia]) -> None:
    """Have the files at hand, in `media`, that the events of a log refer to.

    One that is gone, or is not what its name says, stays an address: compiling reports it.
    """
    for address in addresses_in(log):
        if address in media:
            continue
        name = address.removeprefix(SCHEME)
        part = await load(name)
        blob = part.inline_data if part is not None else None
        # the digest is in the name: other bytes than those of the log are not taken
        if blob is not None and artifact_name(blob) == name:
            media[address] = loaded_media(address, blob.data or "")


class Attachments(msgspec.Struct, frozen=True):
    """The files that a session refers to, at hand as long as its log lives."""

    media: dict[str, LoadedMedia]


async def attach(session: Session, artifacts: ArtifactStore) -> Session:
    """The same session, whose large files are at hand for whoever compiles it."""
    owner = (session.app_name, session.user_id, session.id)
    memo = session.events.memo
    attachments = memo.of(Attachments)
    if attachments is None:
        attachments = Attachments({})

    async def load(name: str) -> Part | None:
        return await artifacts.load(*owner, name, None)

    await load_attachments(session.events, load, attachments.media)
    if attachments.media:
        memo[Attachments] = attachments
    return session


def artifact_name(blob: Blob | None) -> str | None:
    """The name of the artifact with these bytes; None where they are not base64."""
    if blob is None or not blob.data:
        return None
    try:
        # ADK writes URL-safe base64
        data = base64.b64decode(blob.data.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return None
    return f"media-{digest(data)}.{extension_of(blob.mime_type or '')}"
