"""`weft sessions`: look into a store, take a session out of it, take an invocation back."""

import asyncio
import shutil
import sys

import msgspec

from weft.cli.inputs import find_session, listed, opened
from weft.cli.load import require_folder
from weft.cli.options import CommandOptions
from weft.cli.screen import find_invocation, marks_for, moment, session_lines, table_lines
from weft.compiler.report import clip
from weft.diagnostics import safe
from weft.errors import UsageError
from weft.runtime.approvals import Pending, pending_in_store
from weft.runtime.earlier import rewind_event
from weft.session import Session, SessionInfo, SessionKey, Store
from weft.stores import beside_store, open_artifacts


def list_command(options: CommandOptions) -> int:
    """List the sessions of a store, the latest first: a table, or JSON."""

    async def work() -> list[SessionInfo]:
        async with opened(options.address) as store:
            return await listed(store, app=options.app, user=options.only_user)

    infos = asyncio.run(work())
    if options.as_json:
        print(msgspec.json.format(msgspec.json.encode([_as_json(info) for info in infos])).decode())
        return 0
    several = len({info.key.app_name for info in infos}) > 1
    titles = ["id", "user", "events", "last change"] + (["app"] if several else [])
    rows = [_cells(info)[: len(titles)] for info in infos]
    for line in table_lines(titles, rows):
        print(line)
    if not infos:
        print("no sessions", file=sys.stderr)
    return 0


def pending_command(options: CommandOptions) -> int:
    """List the questions that the sessions of a store wait on, the oldest first."""

    async def work() -> list[Pending]:
        async with opened(options.address) as store:
            apps = [options.app] if options.app is not None else await store.apps()
            by_app = [await pending_in_store(store, app, options.only_user) for app in apps]
            return sorted((one for each in by_app for one in each), key=_asked_at)

    questions = asyncio.run(work())
    if options.as_json:
        rows = [_question_json(one) for one in questions]
        print(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return 0
    titles = ["session", "user", "asked", "call", "question", "app"]
    columns = 6 if len({one.key.app_name for one in questions}) > 1 else 5
    for line in table_lines(
        titles[:columns], [_question_cells(one)[:columns] for one in questions]
    ):
        print(line)
    if not questions:
        print("nothing waits", file=sys.stderr)
    return 0


def show_command(options: CommandOptions) -> int:
    """Show a conversation in short lines, and the state at its end."""
    session = asyncio.run(_readable(options))
    width = shutil.get_terminal_size((100, 24)).columns
    for line in session_lines(session, marks_for(sys.stdout), width):
        print(line)
    return 0


def export_command(options: CommandOptions) -> int:
    """Write a session as ADK's JSON, into a file or to stdout."""
    if options.output is not None:
        require_folder(options.output, "--output")
    data = asyncio.run(_readable(options)).to_json() + b"\n"
    if options.output is not None:
        options.output.write_bytes(data)
        print(f"wrote {options.output}", file=sys.stderr)
        return 0
    # bytes go past the text layer: what it holds must come first
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return 0


def rewind_command(options: CommandOptions) -> int:
    """Take a session back to before an invocation; nothing is deleted from its log."""
    if (options.before is None) != options.last:
        raise UsageError(
            "how far back?" if options.before is None else "--before and --last say two things",
            where="rewind",
            hint="--last, or --before INVOCATION; `weft sessions show ID` lists them",
        )

    async def work() -> str:
        async with opened(options.address) as store:
            session = await find_session(store, options.id, app=options.app, user=options.only_user)
            key = SessionKey(session.app_name, session.user_id, session.id)
            return await _rewound(store, key, options.before)

    print(asyncio.run(work()))
    return 0


async def _rewound(store: Store, key: SessionKey, before: str | None) -> str:
    # a run of the session must end first, or its events would follow the rewind
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


def taken_back(text: str, id: str) -> str:
    """A line that says what a rewind took back."""
    return clip(safe(f'taken back from invocation {id}: "{" ".join(text.split())}"'), 100)


async def _readable(options: CommandOptions) -> Session:
    """The session, without events that are damaged: a warning names each of them."""
    async with opened(options.address) as store:
        return await find_session(
            store, options.id, app=options.app, user=options.only_user, skip_unreadable=True
        )


def _asked_at(question: Pending) -> float:
    return question.asked_at


def _question_json(one: Pending) -> dict[str, object]:
    return {
        "appName": one.key.app_name,
        "userId": one.key.user_id,
        "sessionId": one.key.id,
        "callId": one.call_id,
        "name": one.name,
        "kind": one.kind,
        "args": one.args,
        "question": one.question,
        "askedAt": one.asked_at,
        "expires": one.expires,
    }


def _question_cells(one: Pending) -> list[str]:
    late = " (expired)" if one.is_expired else ""
    cells = [one.key.id, one.key.user_id, moment(one.asked_at), one.call_id, one.question + late]
    return [clip(safe(cell), 80) for cell in [*cells, one.key.app_name]]


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
