"""Open a queue by the store it belongs to, and put messages to it as a runner takes them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from weft.content import ContentLike, require_posted, to_content
from weft.errors import Conflict, UsageError, describe_kind
from weft.misuse import suggest_names
from weft.session import MemoryStore, SessionKey, Store
from weft.session.event import new_id
from weft.stores import open_store
from weft.turns.databases import FileDatabase, ServerDatabase
from weft.turns.inbox import InboxTurns
from weft.turns.turn import MOST_WAITING, QueuedTurn, Turns, require_same, seconds_of
from weft.values import Json, require_object

if TYPE_CHECKING:
    from weft.stores.postgres_server import DatabaseAddress


def _open_inbox(address: "DatabaseAddress", worker: str) -> Turns:
    return InboxTurns(ServerDatabase(address, worker))


def _open_procrastinate(address: "DatabaseAddress", worker: str) -> Turns:
    from weft.turns.procrastinate_queue import ProcrastinateTurns

    return ProcrastinateTurns(address, worker)


def _open_dbos(address: "DatabaseAddress", worker: str) -> Turns:
    from weft.turns.dbos_queue import DbosTurns

    return DbosTurns(address, worker)


SERVER_QUEUES: "Mapping[str, Callable[[DatabaseAddress, str], Turns]]" = {
    "inbox": _open_inbox,
    "procrastinate": _open_procrastinate,
    "dbos": _open_dbos,
}
"""What opens a queue in PostgreSQL, by the name of its engine."""

ENGINES = (*SERVER_QUEUES,)
"""What a queue can be made of. Those after the first are extras, and need PostgreSQL."""


def open_turns(store: str | Store, engine: str = "inbox") -> Turns:
    """The queue that belongs to a store: its turns are in the same database.

    Nothing is opened before the queue is first used.
    """
    if engine not in ENGINES:
        raise UsageError(
            f"there is no engine `{engine}`",
            where="open_turns",
            hint=f"{suggest_names(engine, ENGINES)}; engines: {', '.join(ENGINES)}".removeprefix(
                "; "
            ),
        )
    opened = open_store(store)
    if isinstance(opened, MemoryStore):
        raise UsageError(
            "a queue is for several processes, and memory:// is of one",
            where="open_turns",
            hint="keep sessions in sqlite:///weft.db or in postgresql://host/database",
        )
    from weft.stores.sqlite import SqliteStore

    if isinstance(opened, SqliteStore):
        if engine != "inbox":
            raise UsageError(
                f"{engine} needs PostgreSQL",
                where="open_turns",
                hint='use engine="inbox" with SQLite, or a store at postgresql://host/database',
            )
        return InboxTurns(FileDatabase(opened.path))
    return _server_turns(opened, engine)


def _server_turns(store: Store, engine: str) -> Turns:
    """The queue in the database of a PostgreSQL store."""
    from weft.stores.postgres import PostgresStore

    if not isinstance(store, PostgresStore):
        raise UsageError(
            f"there is no queue for {describe_kind(store)}",
            where="open_turns",
            hint="write one that has the methods of weft.turns.Turns, or open a store by address",
        )
    return SERVER_QUEUES[engine](store.address, store.worker)


async def put_message(
    turns: Turns,
    store: Store,
    key: SessionKey,
    message: ContentLike,
    *,
    request_id: str | None = None,
    state: Mapping[str, Json] | None = None,
    delay: float = 0.0,
    every: str | float | None = None,
    priority: int = 0,
    limit: int | None = MOST_WAITING,
) -> tuple[QueuedTurn, bool]:
    """Put a message to a session, which is made if there is none; and whether it is new.

    Where `limit` turns of the session wait already it is refused: `SessionFull`. A request id that
    came with another message before is an error.
    If the session is deleted before the turn is taken, the turn fails and makes no new one.
    """
    content = require_posted(to_content(message), where="message")
    turn = QueuedTurn(
        key=key,
        request_id=request_id if request_id is not None else new_id(),
        message=content,
        state=dict(require_object(state, where="state")) if state is not None else {},
        requires_session=True,
        every=seconds_of(every, where="every") if every is not None else None,
    )
    # made now, so that a turn of a session which is deleted later can tell, and fails
    if not await store.lengths([key]):
        with suppress(Conflict):  # another process was faster
            await store.create(key)
    is_new = await turns.put(turn, delay=delay, priority=priority, limit=limit)
    if not is_new:
        require_same(await turns.find(key, turn.request_id), turn)
    return turn, is_new
