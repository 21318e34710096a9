"""`weft store`: the version of the tables, one version on or back, a backup.

`weft sessions delete`, `prune` and `archive` are here too: what must not be kept, and what takes
room.
"""

import asyncio
import sys
import time

from weft.cli.inputs import find_session, listed, opened, require_existing
from weft.cli.load import require_folder
from weft.cli.options import CommandOptions
from weft.cli.screen import moment, table_lines
from weft.diagnostics import safe
from weft.errors import UsageError
from weft.session import SessionInfo, Store
from weft.session.store import ErasingStore, key_of
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
)


def status_command(options: CommandOptions) -> int:
    """Say which version the tables have; 1 where something is to be done."""
    require_existing(options.address)
    version = asyncio.run(store_version(options.address))
    _say(version)
    return int(version.version < version.known)


def migrate_command(options: CommandOptions) -> int:
    """Make the tables, or bring them up to date."""
    _say(asyncio.run(migrate_store(options.address)))
    return 0


def downgrade_command(options: CommandOptions) -> int:
    """Take the tables back by one version, or say so."""
    require_existing(options.address)
    if not options.yes:
        _say(asyncio.run(store_version(options.address)))
        print("nothing was changed: end the processes of this version, add --yes", file=sys.stderr)
        return 0
    _say(asyncio.run(downgrade_store(options.address)))
    return 0


def backup_command(options: CommandOptions) -> int:
    """Copy a file of sessions while it is in use."""
    require_existing(options.address)
    if options.output is None:
        raise UsageError("where to?", where="store backup", hint="-o FILE")
    require_folder(options.output, "--output")
    size = asyncio.run(backup_store(options.address, options.output))
    print(f"wrote {options.output}: {size:,} bytes")
    return 0


def _say(version: StoreVersion) -> None:
    print(f"version {version.version} of {version.known}: {version.advice}")


_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def delete_command(options: CommandOptions) -> int:
    """Delete a session, or all data of a user; or say what there is."""
    user = options.only_user
    if options.session is not None:
        asyncio.run(_delete_session(options, options.session))
        return 0
    if user is None:
        raise UsageError("whose data?", where="delete", hint="name a session, or --user ID")

    async def work() -> None:
        async with opened(options.address) as store:
            queued = await store.apps_of_turns(user) if isinstance(store, ErasingStore) else []
            infos = await listed(store, app=options.app, user=user, queued=queued)
            queued = [app for app in queued if options.app in (None, app)]
            apps = sorted(
                {info.key.app_name.removeprefix(MEMORY_APP) for info in infos} | {*queued}
            )
            if not options.yes:
                _show(infos)
                rest = "state, artifacts and queued turns"
                _say_yes(f"{len(infos)} sessions of `{user}`, and the user's {rest}")
                return
            artifacts = open_artifacts(beside_store(store))
            for at, app in enumerate(apps):
                # a file of sessions is made smaller once, behind the last app
                last = at == len(apps) - 1
                erased = await erase_user(store, artifacts, app, user, compact=last)
                print(
                    f"deleted from {safe(app)}: {erased.sessions} sessions,"
                    f" {erased.memories} memories, {erased.artifacts} artifacts"
                )

    asyncio.run(work())
    return 0


async def _delete_session(options: CommandOptions, id: str) -> None:
    """Delete one session with its artifacts, or show it."""
    async with opened(options.address) as store:
        session = await find_session(
            store, id, app=options.app, user=options.only_user, skip_unreadable=True, recent=0
        )
        key = key_of(session)
        if not options.yes:
            infos = await listed(store, app=key.app_name, user=key.user_id)
            _show([info for info in infos if info.key == key])
            _say_yes("this session and its artifacts")
            return
        erased = await erase_sessions(store, open_artifacts(beside_store(store)), [key])
        print(f"deleted {erased.sessions} session, {erased.artifacts} artifacts")


def prune_command(options: CommandOptions) -> int:
    """Delete the sessions that have not changed for a while, or list them."""
    before = time.time() - seconds_in(options.older_than)

    async def work() -> None:
        async with opened(options.address) as store:
            infos = await _old(store, options, before)
            if not infos:
                print("no session is that old", file=sys.stderr)
            elif not options.yes:
                _show(infos)
                _say_yes(f"{len(infos)} sessions, unchanged for {options.older_than}")
            else:
                artifacts = open_artifacts(beside_store(store))
                erased = await erase_sessions(store, artifacts, [info.key for info in infos])
                print(f"deleted {erased.sessions} sessions, {erased.artifacts} artifacts")

    asyncio.run(work())
    return 0


def archive_command(options: CommandOptions) -> int:
    """Pack the older events of a session, or of all that are long; they read as before."""
    keep = options.keep_recent
    before = time.time() - seconds_in(options.older_than) if options.older_than else None

    async def work() -> None:
        async with opened(options.address) as store:
            infos = await listed(store, app=options.app, user=options.only_user)
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

    asyncio.run(work())
    return 0


def seconds_in(text: str | None) -> float:
    """How long a text such as 90d says, in seconds."""
    number, unit = (text or "")[:-1], (text or "")[-1:]
    if number.isdecimal() and int(number) and unit in _UNITS:
        return int(number) * _UNITS[unit]
    raise UsageError(
        "how old?" if text is None else f"`{text}` is no time",
        where="--older-than",
        hint="write a number and m, h, d or w: --older-than 90d",
    )


async def _old(store: Store, options: CommandOptions, before: float) -> list[SessionInfo]:
    infos = await listed(store, app=options.app, user=options.only_user)
    return [
        info
        for info in infos
        if info.last_update_time < before and not info.key.app_name.startswith(MEMORY_APP)
    ]


def _show(infos: list[SessionInfo]) -> None:
    rows = [
        [safe(info.key.id), safe(info.key.user_id), f"{info.events:,}",
         moment(info.last_update_time), safe(info.key.app_name)]
        for info in infos
    ]  # fmt: skip
    for line in table_lines(["id", "user", "events", "last change", "app"], rows):
        print(line)


def _say_yes(what: str) -> None:
    print(f"would delete {what}; nothing was deleted, add --yes", file=sys.stderr)
