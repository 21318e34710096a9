"""What a queue of turns is: turns are put, taken one at a time in each session, and never lost.

A turn is a message to a session that somebody is to answer, in whichever process. The log and
the lease of the session make it exactly once; a queue only says who runs which turn when. So a
queue may hand out a turn twice, after a worker died or seemed to, and nothing is said twice.

Top to bottom: the queue, a turn, what came of it, how a turn is listed, how it is written down.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, cast

import msgspec

from weft.content import Content
from weft.declare.tool import Tool
from weft.errors import RequestTaken, SessionFull, UsageError, WeftError
from weft.session import SessionKey
from weft.values import Json, JsonObject

TurnStatus = Literal["waiting", "running", "done", "failed", "cancelled"]
"""Where a turn is. `failed` is the list of dead letters: nobody takes it unless it is retried."""

NEEDS_PERSON = "needs a person"
"""How the reason of a dead letter begins whose run waits for somebody to say what a call did."""

MOST_KILLS = 3
"""How many workers a turn may take with it until nobody takes it any more."""

SUSPECT_KILLS = MOST_KILLS - 1
"""After how many of them it is a suspect: it runs alone, so that one more death is its own."""

MOST_WAITING = 100
"""How many turns of one session wait at most: more are refused with `SessionFull`."""

NO_LIMIT = 2**31 - 1
"""As many turns as stand for no limit in a statement."""

Living = Callable[[], Awaitable[frozenset[str]]]
"""Asks for the names of the workers that live now."""


class Turns(Protocol):
    """A queue of turns. Each is run by one worker, those of one session one after the other."""

    @property
    def engine(self) -> str:
        """What the queue is made of: `inbox`, `procrastinate`, `dbos`."""
        ...

    async def open(self) -> None:
        """Make the tables, or bring them up to date, or refuse those of a newer version."""
        ...

    async def put(
        self,
        turn: "QueuedTurn",
        *,
        delay: float = 0.0,
        priority: int = 0,
        limit: int | None = MOST_WAITING,
        connection: object = None,
    ) -> bool:
        """Put a turn after the others of its session; False where it is known already.

        Where `limit` turns of the session wait already it is refused: `SessionFull`.

        It is known by its session and request id, also while it runs and when it is done, until
        it is pruned. With
        the `connection` of a transaction it is put when that commits: `connection` is what
        `store.transaction(session)` gives, or one of the caller's own to the same database.
        A turn with a delay of some seconds waits for them outside of its session's line, where
        the others pass it.
        Sessions whose turns have a higher priority come first; it changes no order in a session.
        """
        ...

    async def work(
        self, run: "RunTurn", *, apps: Sequence[str], worker: str, slots: int, stop: "StopSignal"
    ) -> None:
        """Take turns of these apps and run up to `slots` at once, until `stop` is set.

        It returns when none of them runs any more: `run` ends soon after the signal. What `run`
        returns is written down until the database has it. A turn that this worker owns and does
        not run, because an answer of the database was lost, is found and handed on. A suspect
        is run when nothing else runs here, and nothing else is run until it has ended.
        """
        ...

    async def recover(self, living: Living) -> int:
        """Hand on every turn whose owner does not live; gives how many there were.

        It asks who lives after it has looked who owns what, so a worker that has just begun
        loses nothing. A turn that was handed on `MOST_KILLS` times in this way has failed. Where
        a suspect ran alone, the death is counted for it only; where it waited for others to end,
        for the others only.
        One process at a time calls it, and again and again: a worker that was declared dead may
        take a turn before it notices.
        """
        ...

    async def find(self, key: SessionKey, request_id: str) -> "TurnInfo | None":
        """The turn of a request, or None."""
        ...

    async def list(
        self,
        *,
        app_name: str | None = None,
        status: TurnStatus | None = None,
        id: str | None = None,
        limit: int = 100,
    ) -> "list[TurnInfo]":
        """Turns in the order they were put: all that are kept, or those asked for."""
        ...

    async def retry(self, id: str) -> bool:
        """Have a turn that failed or was cancelled taken again; False where it did neither.

        If its run has ended in the log, it is said once more, after what came since.
        """
        ...

    async def cancel(self, id: str) -> bool:
        """Take a waiting turn out of the queue; False where it does not wait.

        A turn that runs is stopped with the run of its session: `runner.cancel`.
        """
        ...

    async def prune(self, *, keep: float, most: int) -> int:
        """Delete turns that were done `keep` seconds ago or earlier; gives how many.

        It looks at the `most` done turns that were put first, so call it again and again. A turn
        that failed or was cancelled stays, for somebody may retry it. A request that is put after
        its turn was pruned makes a turn again, and the session's log answers that.
        """
        ...

    async def counts(self) -> "dict[tuple[str, TurnStatus], int]":
        """How many turns there are, by the name of their app and by status."""
        ...

    async def waits(self) -> "dict[str, float]":
        """For how many seconds the oldest turn of each app waits that a worker could take.

        A turn does not count while another of its session runs, or before it is due.
        """
        ...

    async def close(self) -> None:
        """Close the connections; the next use opens them again."""
        ...


def require_same(known: "TurnInfo | None", turn: "QueuedTurn") -> None:
    """Refuse a turn whose request id came with another message before: it would not be said."""
    if known is not None and known.turn.message != turn.message and not is_answer(turn):
        raise RequestTaken(turn.request_id, where=str(turn.key))


def is_answer(turn: "QueuedTurn") -> bool:
    """Whether it goes on with a run that has begun, with an answer or without."""
    if turn.message is None:
        return True
    return any(part.function_response is not None for part in turn.message.parts or ())


class StopSignal(Protocol):
    """The part of `asyncio.Event` that only waits."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...

    async def wait(self) -> object:
        """Wait until it is set."""
        ...


class QueuedTurn(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"request_id": "request", "invocation_id": "invocation"},
):
    """A message to a session, to be answered by a worker.

    `request_id` is the id of the message, by which it is known: in the queue and in the log.
    Queues keep it as JSON that any worker reads: see `encode_turn`.
    """

    key: SessionKey
    request_id: str
    message: Content | None = None
    """What is said: None to go on with the session's last run."""
    state: dict[str, Json] = {}
    """Written with the message."""
    retry: tuple[str, ...] = ()
    """Calls to run again that may have run already; for a turn without a message."""
    invocation_id: str | None = None
    """The run to go on with, for a turn without a message: the last one if left out."""
    requires_session: bool = False
    """Whether the session must exist: a turn of one that was deleted fails and makes no new one."""
    every: float | None = None
    """Seconds after which the turn is put again, under the next request id."""
    options: dict[str, Json] = {}
    """Options of the model for this turn: what `RunConfig(generate_config=)` takes."""
    tools: tuple["ClientTool", ...] = ()
    """Tools for this turn that the client runs: its session waits for their results."""
    output_schema: JsonObject | None = None
    """The JSON Schema of the answer, where the client asks for one."""
    stream: bool = False
    """Whether the model is asked to stream, for those who follow the session."""
    follower: str | None = None
    """Who follows the session from the beginning: the name of a reader, from `runner.join`."""
    trace: str = ""
    """The trace that the turn belongs to, as a `traceparent`."""
    retries: int = 0
    """How often somebody had it taken again after it had failed or was cancelled."""
    attempts: int = 0
    """How often it was run and failed."""
    kills: int = 0
    """How many workers died while they ran it."""
    id: str = ""
    """The queue's own name for it, once it is in one."""

    @property
    def is_suspect(self) -> bool:
        """Whether it may be what kills its workers: then it runs alone."""
        return self.kills >= SUSPECT_KILLS


class ClientTool(msgspec.Struct, frozen=True):
    """A tool that is declared to the model, and left to the client to run."""

    name: str
    description: str
    parameters: JsonObject

    def tool(self) -> Tool:
        """The tool, as an agent takes it."""
        return Tool(
            name=self.name,
            description=self.description,
            function=left_to_the_client,
            parameters=self.parameters,
            long_running=True,
            effect="pure",
        )


def left_to_the_client(**arguments: object) -> None:
    """Nothing: the client that declared the tool runs it, and sends the result."""


def poison_reason(kills: int) -> str:
    """Why a turn that kills its workers is not taken any more."""
    return f"{kills} workers died while they ran it"


BLAME: Mapping[str, int | str] = {
    "suspect": SUSPECT_KILLS,
    "most": MOST_KILLS,
    "reason": poison_reason(MOST_KILLS),
}
"""What a statement needs that hands on the turns of a dead worker, and gives up one that kills."""


def session_full(key: SessionKey, limit: int | None) -> SessionFull:
    """The error for a turn of a session in whose line too many wait."""
    return SessionFull(
        f"{limit} turns of the session wait already",
        where=str(key),
        hint="put it again when some are answered, or allow more: put(turn, limit=...)",
    )


def count_statuses(
    rows: Iterable[Sequence[object]], statuses: Mapping[str, TurnStatus]
) -> dict[tuple[str, TurnStatus], int]:
    """How many turns there are, from rows of app, status in the words of a queue, and count."""
    counts: dict[tuple[str, TurnStatus], int] = {}
    for app, status, count in cast("Iterable[tuple[str, str, int]]", rows):
        at = app, statuses[status]
        counts[at] = counts.get(at, 0) + count
    return counts


def read_waits(rows: Iterable[Sequence[object]]) -> dict[str, float]:
    """How long turns wait, from rows of app and seconds; a clock that went back makes it none."""
    return {
        app: max(float(seconds), 0.0) for app, seconds in cast("Iterable[tuple[str, float]]", rows)
    }


class TurnEnd(NamedTuple):
    """What came of a turn, for the queue.

    `done`: it is over. `again`: it failed, and is tried again `after` that number of seconds; its
    session waits for it. `failed`: it is a dead letter. `cancelled`: somebody stopped it.
    `released`: this worker gives it back as it was, for the next one.
    """

    kind: Literal["done", "again", "failed", "cancelled", "released"]
    reason: str = ""
    after: float = 0.0


RunTurn = Callable[[QueuedTurn], Awaitable[TurnEnd]]
"""Runs a turn and says what came of it; it raises nothing but `asyncio.CancelledError`."""


class TurnInfo(NamedTuple):
    """A turn in a list."""

    turn: QueuedTurn
    status: TurnStatus
    priority: int = 0
    due: float | None = None
    """When it may be taken, where that is later than now: a delay, or a pause before a retry."""
    worker: str = ""
    """Who runs it, or ran it last."""
    kills: int = 0
    """How many workers died while they ran it."""
    reason: str = ""
    """Why it failed last."""
    put_at: float | None = None
    """When it was put; after a retry, or from the inbox after a delay, when it got in line."""
    ended_at: float | None = None

    @property
    def needs_person(self) -> bool:
        """Whether it is a dead letter because the outcome of a call is unknown."""
        return self.status == "failed" and self.reason.startswith(NEEDS_PERSON)


class TurnRow(NamedTuple):
    """A turn as a queue reads it from its database; the status is in the words of the queue."""

    number: int
    text: str
    status: str
    priority: int
    attempts: int | None
    kills: int | None
    worker: str | None
    reason: str | None
    put_at: float | None
    ended_at: float | None
    due: float | None
    place: int | None = None
    """Where it stands in the line of its session, if the queue says so."""

    @classmethod
    def read(cls, cells: Sequence[object]) -> "TurnRow":
        """The row of these cells."""
        return cls(*cells)  # type: ignore[arg-type]

    def turn(self) -> QueuedTurn:
        """The turn, or an error if this version cannot read it."""
        attempts, kills = self.attempts or 0, self.kills or 0
        return decode_turn(self.text, id=str(self.number), attempts=attempts, kills=kills)

    def info(self, status: TurnStatus) -> TurnInfo:
        """The row as a list shows it."""
        return TurnInfo(
            self.turn(),
            status,
            self.priority,
            self.due,
            self.worker or "",
            self.kills or 0,
            self.reason or "",
            self.put_at,
            self.ended_at,
        )


_VERSION = 3
"""The version of a turn that is written down with a schema of its answer."""

_EQUIPPED_VERSION = 2
"""The version of one with options or tools, and without such a schema."""

_PLAIN_VERSION = 1
"""The version of one without any of these: the oldest workers run it as it is meant."""


_KEPT_APART = frozenset(("key", "attempts", "kills", "id"))
"""Fields that a queue keeps next to the JSON of a turn, or that its head has."""


class _TurnHead(msgspec.Struct):
    """What the JSON of a turn begins with."""

    version: int
    app: str
    user: str
    session: str


class UnreadableTurn(WeftError):
    """A turn in a queue that this version cannot read."""


def encode_turn(turn: QueuedTurn) -> str:
    """The turn as JSON; attempts, kills and id are for the queue to keep."""
    fields: JsonObject = msgspec.to_builtins(turn)
    written = {name: value for name, value in fields.items() if name not in _KEPT_APART}
    head: JsonObject = msgspec.to_builtins(_TurnHead(_version_of(turn), *turn.key))
    return msgspec.json.encode({**head, **written}).decode()


def _version_of(turn: QueuedTurn) -> int:
    """The lowest that means the same: workers are upgraded one after the other."""
    if turn.output_schema is not None:
        return _VERSION
    return _EQUIPPED_VERSION if turn.options or turn.tools else _PLAIN_VERSION


def decode_turn(
    text: str | bytes, *, id: str = "", attempts: int = 0, kills: int = 0
) -> QueuedTurn:
    """The turn that was written down, or an error if a newer version wrote it."""
    try:
        head = msgspec.json.decode(text, type=_TurnHead)
        if not _PLAIN_VERSION <= head.version <= _VERSION:
            raise UnreadableTurn(
                f"the turn was put by a newer Weft: it is version {head.version}",
                where=f"turn {id}",
                hint="upgrade the worker, then weft turns retry",
            )
        written = msgspec.json.decode(text, type=dict[str, object])
        key = SessionKey(head.app, head.user, head.session)
        apart = {"key": key, "attempts": attempts, "kills": kills, "id": id}
        return msgspec.convert({**written, **apart}, QueuedTurn)
    except msgspec.DecodeError as error:
        raise UnreadableTurn(
            f"the turn cannot be read: {error}",
            where=f"turn {id}",
            hint="a newer Weft put it, perhaps: upgrade the worker, then weft turns retry",
        ) from None


def mark_retried(text: str) -> str:
    """The turn as it is written down when it is to be taken once more, by whichever version."""
    # as raw JSON: fields that this version does not know stay
    written = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    retries = msgspec.json.decode(written.get("retries", b"0"), type=int)
    return msgspec.json.encode({**written, "retries": retries + 1}).decode()


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*")


def seconds_of(duration: str | float, *, where: str) -> float:
    """How many seconds a duration has: `"90s"`, `"15m"`, `"1h"`, `"1d"`, or a number of them."""
    value = cast("object", duration)
    # True is an int in Python
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9:
        return float(value)
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or not float(match[1]):
        raise UsageError(
            f"{value!r} is not a duration",
            where=where,
            hint='write a number and s, m, h, d or w: "90s", "15m", "1h", "1d"',
        )
    return float(match[1]) * _UNITS[match[2]]
