"""`weft turns`: look into the queue of a store, and help what got stuck in it."""

import sys
from typing import cast, get_args

from weft.cli.inputs import open_queue
from weft.cli.options import CommandOptions
from weft.cli.printing import print_json, print_table
from weft.cli.screen import moment
from weft.compiler.report import clip
from weft.diagnostics import safe
from weft.errors import UsageError
from weft.misuse import suggest_names
from weft.runtime.background import interrupt_session
from weft.turns import TurnInfo, Turns, TurnStatus
from weft.turns.turn import NEEDS_PERSON, poison_reason
from weft.turns.worker import count_unserved, queue_database, worker_name
from weft.values import JsonObject

_HOW_TO_ANSWER = (
    "hint: find out whether the call ran; say what it returned (POST .../answers, or weft run"
    " TARGET --resume --session SESSION --answer CALL=RESULT), or run it again (--retry CALL);"
    " where no worker takes the answer, weft turns retry ID then"
)

_LISTED = 100
"""How many turns are listed, unless somebody asks for more."""


async def list_command(options: CommandOptions) -> int:
    """List the turns of a queue, the oldest first: a table, or JSON."""
    status = _status(options.turn_status)
    async with open_queue(options) as (store, turns):
        database = queue_database(store, worker_name(store))
        try:
            await database.open()
            waiting = await count_unserved(turns, database)
        finally:
            await database.close()
        infos = await turns.list(
            app_name=options.app, status=status, limit=options.limit or _LISTED
        )
    if options.as_json:
        print_json([_as_json(one) for one in infos])
        return 0
    titles = ["id", "session", "user", "app", "status", "request", "reason"]
    print_table(titles, [_cells(info) for info in infos])
    if not infos:
        print("no turns", file=sys.stderr)
    for app, count in waiting.items():
        print(f"{count} wait for the app `{app}`, which no worker has", file=sys.stderr)
    if any(info.needs_person for info in infos):
        print(_HOW_TO_ANSWER, file=sys.stderr)
    return 0


async def show_command(options: CommandOptions) -> int:
    """Show a turn: its message, and what became of it."""
    async with open_queue(options) as (_, turns):
        info = await _find(turns, options.turn)
    for name, value in _as_json(info).items():
        if value not in (None, "", 0, False):
            print(f"{name}: {safe(str(value))}")
    return 0


async def retry_command(options: CommandOptions) -> int:
    """Have a turn that failed or was cancelled taken again."""
    async with open_queue(options) as (_, turns):
        info = await _find(turns, options.turn)
        if not await turns.retry(info.turn.id):
            raise UsageError(
                f"turn {info.turn.id} is {info.status}",
                where="retry",
                hint="only a turn that failed or was cancelled is taken again",
            )
    print(f"turn {options.turn} waits again")
    return 0


async def cancel_command(options: CommandOptions) -> int:
    """Take a turn out of the queue, or stop its run."""
    async with open_queue(options) as (store, turns):
        info = await _find(turns, options.turn)
        if await turns.cancel(info.turn.id):
            words = "is taken out of the queue"
        elif info.status == "running" and await interrupt_session(store, info.turn.key):
            words = "was stopped"
        else:
            raise UsageError(
                f"turn {info.turn.id} is {info.status}",
                where="cancel",
                hint="only a turn that waits or runs can be stopped",
            )
    print(f"turn {options.turn} {words}")
    return 0


async def _find(turns: Turns, id: str) -> TurnInfo:
    infos = await turns.list(id=id)
    if not infos:
        raise UsageError(
            f"there is no turn `{id}`",
            where="turns",
            hint="`weft turns list` lists them; --engine says of which queue",
        )
    return infos[0]


def _status(name: str | None) -> TurnStatus | None:
    known = cast("tuple[TurnStatus, ...]", get_args(TurnStatus))
    if name is None or name in known:
        return name
    raise UsageError(
        f"no turn is `{name}`",
        where="--status",
        hint=f"{suggest_names(name, known)}; one of {', '.join(known)}".removeprefix("; "),
    )


def _cells(info: TurnInfo) -> list[str]:
    turn = info.turn
    return [
        turn.id,
        safe(turn.key.id),
        safe(turn.key.user_id),
        safe(turn.key.app_name),
        NEEDS_PERSON if info.needs_person else info.status,
        safe(turn.request_id),
        clip(safe(info.reason or _suspicion(info)), 60),
    ]


def _suspicion(info: TurnInfo) -> str:
    """Why a turn that waits or runs is alone in its worker, if it is."""
    if info.status not in ("waiting", "running") or not info.turn.is_suspect:
        return ""
    return f"{poison_reason(info.kills)}: it runs alone"


def _as_json(info: TurnInfo) -> JsonObject:
    turn = info.turn
    return {
        "id": turn.id,
        "app": turn.key.app_name,
        "user": turn.key.user_id,
        "session": turn.key.id,
        "request": turn.request_id,
        "message": "".join(part.text or "" for part in turn.message.parts or ())
        if turn.message is not None
        else None,
        "status": info.status,
        "needs_person": info.needs_person,
        "priority": info.priority,
        "attempts": turn.attempts,
        "kills": info.kills,
        "every": turn.every,
        "worker": info.worker,
        "reason": info.reason,
        "put": moment(info.put_at) if info.put_at is not None else None,
        "due": moment(info.due) if info.due is not None else None,
        "ended": moment(info.ended_at) if info.ended_at is not None else None,
    }
