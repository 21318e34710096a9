"""`weft sessions` and `weft store`: what is in a store, and the tables that it is in.

Top to bottom: look into a store, take a session out of it, take an invocation back; what must not
be kept, and what takes room; the version of the tables, one version on or back, a backup,
and whether every row is what was stored.
"""

import shutil
import sys
import time

from weft.cli.inputs import (
    find_session,
    list_sessions,
    open_existing_store,
    open_queue,
    require_existing,
)
from weft.cli.load import require_folder
from weft.cli.options import CommandOptions
from weft.cli.printing import print_json, print_table
from weft.cli.screen import find_invocation, marks_for, moment, session_lines
from weft.compiler.report import clip
from weft.diagnostics import safe
from weft.errors import UsageError
from weft.runtime.approvals import Pending, pending_in_store
from weft.runtime.earlier import rewind_event
from weft.session import Session, SessionInfo, SessionKey, Store
from weft.session.store import ErasingStore, key_of, lease_session
from weft.stores import beside_store, open_artifacts
from weft.stores.upkeep import (
    MEMORY_APP,
    StoreVersion,
    archive_sessions,
    backup_store,
    downgrade_store,
    erase_sessions,
    erase_user,
    migrate_store,
    store_version,
    verify_store,
)
from weft.values import JsonObject


async def list_command(options: CommandOptions) -> int:
    """List the sessions of a store, the latest first: a table, or JSON."""
    async with open_existing_store(options.address) as store:
        infos = await list_sessions(store, app=options.app, user=options.only_user)
    if options.as_json:
        print_json([_as_json(info) for info in infos])
        return 0
    several = len({info.key.app_name for info in infos}) > 1
    titles = ["id", "user", "events", "last change"] + (["app"] if several else [])
    rows = [_cells(info)[: len(titles)] for info in infos]
    print_table(titles, rows, right=("events",))
    if not infos:
        print("no sessions", file=sys.stderr)
    return 0


async def pending_command(options: CommandOptions) -> int:
    """List the questions that the sessions of a store wait on, the oldest first."""
    async with open_existing_store(options.address) as store:
        apps = [options.app] if options.app is not None else await store.apps()
        by_app = [await pending_in_store(store, app, options.only_user) for app in apps]
    questions = sorted((one for each in by_app for one in each), key=lambda one: one.asked_at)
    if options.as_json:
        print_json([_question_json(one) for one in questions])
        return 0
    titles = ["session", "user", "asked", "call", "question", "app"]
    columns = 6 if len({one.key.app_name for one in questions}) > 1 else 5
    print_table(titles[:columns], [_question_cells(one)[:columns] for one in questions])
    if not questions:
        print("nothing waits", file=sys.stderr)
    return 0


async def show_command(options: CommandOptions) -> int:
    """Show a conversation in short lines, and the state at its end."""
    session = await _find_readable(options)
    width = shutil.get_terminal_size((100, 24)).columns
    for line in session_lines(session, marks_for(sys.stdout), width):
        print(line)
    return 0


async def export_command(options: CommandOptions) -> int:
    """Write a session as ADK's JSON, into a file or to stdout."""
    if options.output is not None:
        require_folder(options.output, "--output")
    data = (await _find_readable(options)).to_json() + b"\n"
    if options.output is not None:
        options.output.write_bytes(data)
        print(f"wrote {options.output}", file=sys.stderr)
        return 0
    # bytes go past the text layer: what it holds must come first
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return 0


async def rewind_command(options: CommandOptions) -> int:
    """Take a session back to before an invocation; nothing is deleted from its log."""
    if (options.before is None) != options.last:
        raise UsageError(
            "how far back?" if options.before is None else "--before and --last say two things",
            where="rewind",
            hint="--last, or --before INVOCATION; `weft sessions show ID` lists them",
        )
    async with open_existing_store(options.address) as store:
        session = await find_session(store, options.id, app=options.app, user=options.only_user)
        print(await _rewind_session(store, key_of(session), options.before))
    return 0


async def _rewind_session(store: Store, key: SessionKey, before: str | None) -> str:
    # a run of the session must end first, or its events would follow the rewind
    async with lease_session(store, key, busy="queue"):
        session = await find_session(store, key.id, app=key.app_name, user=key.user_id)
        invocation = find_invocation(session, before)
        artifacts = open_artifacts(beside_store(store))
        event = await rewind_event(session, invocation.id, artifacts)
        await store.append(session, event)
    return taken_back(invocation.events[0].text, invocation.id)


def taken_back(text: str, id: str) -> str:
    """A line that says what a rewind took back."""
    return clip(safe(f'taken back from invocation {id}: "{" ".join(text.split())}"'), 100)


async def _find_readable(options: CommandOptions) -> Session:
    """The session, without events that are damaged: a warning names each of them."""
    async with open_existing_store(options.address) as store:
        return await find_session(
            store, options.id, app=options.app, user=options.only_user, skip_unreadable=True
        )


def _question_json(one: Pending) -> JsonObject:
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


def _as_json(info: SessionInfo) -> JsonObject:
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


# --- sessions that must not be kept, and those that take room


async def delete_command(options: CommandOptions) -> int:
    """Delete a session, or all data of a user; or say what there is."""
    user = options.only_user
    if options.session is None and user is None:
        raise UsageError("whose data?", where="delete", hint="name a session, or --user ID")
    async with open_existing_store(options.address) as store:
        if options.session is not None:
            await _delete_session(store, options, options.session)
        elif user is not None:
            await _delete_user(store, options, user)
    return 0


async def _delete_user(store: Store, options: CommandOptions, user: str) -> None:
    """Delete all data of a user, or show it."""
    queued = await store.apps_of_turns(user) if isinstance(store, ErasingStore) else []
    infos = await list_sessions(store, app=options.app, user=user, queued=queued)
    if not options.yes:
        _show(infos)
        rest = "state, artifacts and queued turns"
        _say_yes(f"{len(infos)} sessions of `{user}`, and the user's {rest}")
        return
    queued = [app for app in queued if options.app in (None, app)]
    apps = sorted({info.key.app_name.removeprefix(MEMORY_APP) for info in infos} | {*queued})
    artifacts = open_artifacts(beside_store(store))
    for at, app in enumerate(apps):
        # a file of sessions is made smaller once, after the last app
        last = at == len(apps) - 1
        erased = await erase_user(store, artifacts, app, user, compact=last)
        print(
            f"deleted from {safe(app)}: {erased.sessions} sessions,"
            f" {erased.memories} memories, {erased.artifacts} artifacts"
        )


async def _delete_session(store: Store, options: CommandOptions, id: str) -> None:
    """Delete one session with its artifacts, or show it."""
    session = await find_session(
        store, id, app=options.app, user=options.only_user, skip_unreadable=True, recent=0
    )
    key = key_of(session)
    if not options.yes:
        infos = await list_sessions(store, app=key.app_name, user=key.user_id)
        _show([info for info in infos if info.key == key])
        _say_yes("this session and its artifacts")
        return
    erased = await erase_sessions(store, open_artifacts(beside_store(store)), [key])
    print(f"deleted {erased.sessions} session, {erased.artifacts} artifacts")


async def prune_command(options: CommandOptions) -> int:
    """Delete the sessions that have not changed for a while, or list them."""
    if options.older_than is None:
        raise UsageError("how old?", where="prune", hint="write --older-than 90d")
    before = _find_moment(options.older_than)
    async with open_existing_store(options.address) as store:
        listed = await list_sessions(store, app=options.app, user=options.only_user)
        old = [info for info in listed if info.last_update_time < before]
        infos = [info for info in old if not info.key.app_name.startswith(MEMORY_APP)]
        if not infos:
            print("no session is that old", file=sys.stderr)
        elif not options.yes:
            _show(infos)
            _say_yes(f"{len(infos)} sessions, unchanged for {options.older_than}")
        else:
            artifacts = open_artifacts(beside_store(store))
            erased = await erase_sessions(store, artifacts, [info.key for info in infos])
            print(f"deleted {erased.sessions} sessions, {erased.artifacts} artifacts")
    return 0


async def archive_command(options: CommandOptions) -> int:
    """Pack the older events of a session, or of all that are long; they read as before."""
    keep = options.keep_recent
    before = _find_moment(options.older_than) if options.older_than else None
    async with open_existing_store(options.address) as store:
        infos = await list_sessions(store, app=options.app, user=options.only_user)
        if options.session is not None:
            session = await find_session(
                store, options.session, app=options.app, user=options.only_user, recent=0
            )
            infos = [info for info in infos if info.key == key_of(session)]
        count = await archive_sessions(
            store, [info.key for info in infos], keep_recent=keep, before=before
        )
        events = sum(info.events for info in infos)
        print(f"archived {count:,} of {events:,} events in {len(infos):,} sessions")
    return 0


def _find_moment(age: str) -> float:
    """Find the moment that was this long ago."""
    from weft.turns.turn import seconds_of  # few commands need the queue

    return time.time() - seconds_of(age, where="--older-than")


def _show(infos: list[SessionInfo]) -> None:
    titles = ["id", "user", "events", "last change", "app"]
    print_table(titles, [_cells(info) for info in infos], right=("events",))


def _say_yes(what: str) -> None:
    print(f"would delete {what}; nothing was deleted, add --yes", file=sys.stderr)


# --- the tables


async def status_command(options: CommandOptions) -> int:
    """Say which version the tables have; 1 where something is to be done."""
    require_existing(options.address)
    version = await store_version(options.address)
    _say(version)
    return int(version.version < version.known)


async def migrate_command(options: CommandOptions) -> int:
    """Make the tables, or bring them up to date; with an engine, those of its queue too."""
    version = await migrate_store(options.address)
    if options.engine:
        async with open_queue(options):
            pass  # to open it makes its tables
    _say(version)
    return 0


async def downgrade_command(options: CommandOptions) -> int:
    """Take the tables back by one version, or say so."""
    require_existing(options.address)
    if not options.yes:
        _say(await store_version(options.address))
        print("nothing was changed: end the processes of this version, add --yes", file=sys.stderr)
        return 0
    _say(await downgrade_store(options.address))
    return 0


async def backup_command(options: CommandOptions) -> int:
    """Copy a file of sessions while it is in use."""
    require_existing(options.address)
    if options.output is None:
        raise UsageError("where to?", where="store backup", hint="-o FILE")
    require_folder(options.output, "--output")
    size = await backup_store(options.address, options.output)
    print(f"wrote {options.output}: {size:,} bytes")
    return 0


async def verify_command(options: CommandOptions) -> int:
    """Say whether every row of a store is what was stored; 1 where one is not."""
    require_existing(options.address)
    check = await verify_store(options.address)
    for problem in check.problems:
        print(clip(safe(problem), 300))
    count = f"{check.sessions:,} sessions, {check.events:,} events"
    if check.unhashed:
        count += f"; {check.unhashed:,} rows of an older Weft have no checksum"
    print(f"{len(check.problems)} problems in {count}" if check.problems else f"whole: {count}")
    return int(bool(check.problems))


def _say(version: StoreVersion) -> None:
    print(f"version {version.version} of {version.known}: {version.advice}")
