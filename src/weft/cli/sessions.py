"""`weft sessions`: look into a store, take a session out of it, take an invocation back."""

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from weft.cli import options as given
from weft.cli.inputs import find_session, listed, opened
from weft.cli.screen import find_invocation, marks_for, moment, session_lines
from weft.compiler.report import clip, safe
from weft.errors import UsageError
from weft.runtime.rewind import rewind_event
from weft.session import Session, SessionInfo, SessionKey, Store
from weft.stores import beside_store, open_artifacts

sessions_app = typer.Typer(
    name="sessions",
    help="List, show, export and rewind stored sessions.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@sessions_app.command("list")
def list_command(
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
    as_json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False,
) -> int:
    """List the sessions of a store, the latest first."""
    # imported above

    return print_list(store, app, user, as_json=as_json)


@sessions_app.command("show")
def show_command(
    id: given.SESSION_ID,
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
) -> int:
    """Show a conversation in short lines, and the state at its end."""
    # imported above

    return print_session(store, id, app, user)


@sessions_app.command("export")
def export_command(
    id: given.SESSION_ID,
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it here.", metavar="FILE")
    ] = None,
) -> int:
    """Write a session as ADK's JSON, as `weft explain --session FILE` reads it."""
    # imported above

    return export(store, id, app, user, output)


@sessions_app.command("rewind")
def rewind_command(
    id: given.SESSION_ID,
    before: Annotated[
        str | None,
        typer.Option("--before", help="Take back this invocation and all after it.", metavar="ID"),
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Take back the last one.")] = False,
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
) -> int:
    """Take a session back to before an invocation; nothing is deleted from its log."""
    if (before is None) != last:
        raise UsageError(
            "how far back?" if before is None else "--before and --last say two things",
            where="rewind",
            hint="--last, or --before INVOCATION; `weft sessions show ID` lists them",
        )
    # imported above

    return rewind(store, id, app, user, before)


def print_list(address: str, app: str | None, user: str | None, *, as_json: bool) -> int:
    """The sessions as a table, or as JSON."""

    async def work() -> list[SessionInfo]:
        async with opened(address) as store:
            return await listed(store, app=app, user=user)

    infos = asyncio.run(work())
    if as_json:
        print(msgspec.json.format(msgspec.json.encode([_as_json(info) for info in infos])).decode())
        return 0
    several = len({info.key.app_name for info in infos}) > 1
    titles = ["id", "user", "events", "last change"] + (["app"] if several else [])
    rows = [_cells(info)[: len(titles)] for info in infos]
    for line in _table(titles, rows):
        print(line)
    if not infos:
        print("no sessions", file=sys.stderr)
    return 0


def print_session(address: str, id: str, app: str | None, user: str | None) -> int:
    """The conversation in short lines."""
    session = asyncio.run(_found(address, id, app, user))
    width = shutil.get_terminal_size((100, 24)).columns
    for line in session_lines(session, marks_for(sys.stdout), width):
        print(line)
    return 0


def export(address: str, id: str, app: str | None, user: str | None, output: Path | None) -> int:
    """The session's JSON into a file, or to stdout."""
    data = asyncio.run(_found(address, id, app, user)).to_json() + b"\n"
    if output is not None:
        output.write_bytes(data)
        print(f"wrote {output}", file=sys.stderr)
        return 0
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return 0


def rewind(address: str, id: str, app: str | None, user: str | None, before: str | None) -> int:
    """Take the session back to before an invocation, the last one if none is named."""

    async def work() -> str:
        async with opened(address) as store:
            found = await find_session(store, id, app=app, user=user)
            key = SessionKey(found.app_name, found.user_id, found.id)
            return await _rewound(store, key, before)

    print(asyncio.run(work()))
    return 0


async def _rewound(store: Store, key: SessionKey, before: str | None) -> str:
    lease = await store.lease(key, busy="queue", interrupt=lambda: None)
    try:
        session = await find_session(store, key.id, app=key.app_name, user=key.user_id)
        invocation = find_invocation(session, before)
        artifacts = open_artifacts(beside_store(store))
        event = await rewind_event(session, invocation.id, artifacts)
        await store.append(session, event)
    finally:
        await lease.release()
    return taken_back(invocation.events[0].text, invocation.id)


def taken_back(said: str, id: str) -> str:
    """What a rewind took out of view, in a line."""
    return clip(safe(f'taken back from invocation {id}: "{" ".join(said.split())}"'), 100)


async def _found(address: str, id: str, app: str | None, user: str | None) -> Session:
    """The session, without events that are damaged: a warning names each of them."""
    async with opened(address) as store:
        return await find_session(store, id, app=app, user=user, skip_unreadable=True)


def _as_json(info: SessionInfo) -> dict[str, object]:
    return {
        "appName": info.key.app_name,
        "userId": info.key.user_id,
        "id": info.key.id,
        "events": info.events,
        "lastUpdateTime": info.last_update_time,
    }


def _cells(info: SessionInfo) -> list[str]:
    key = info.key
    cells = [key.id, key.user_id, f"{info.events:,}", moment(info.last_update_time), key.app_name]
    return [safe(cell) for cell in cells]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells under their titles; numbers to the right."""
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return [
        "  ".join(
            f"{cell:>{width}}" if title == "events" else f"{cell:<{width}}"
            for title, cell, width in zip(titles, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]
