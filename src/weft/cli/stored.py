"""Sessions in a store: find the one a command names, or say what is there instead."""

import difflib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from weft.cli.options import DEFAULT_STORE
from weft.errors import SessionError, UsageError
from weft.session import Session, SessionInfo, Store
from weft.stores import open_store


@asynccontextmanager
async def opened(address: str) -> AsyncGenerator[Store]:
    """A store that is there already, closed at the end; none is made by looking for it."""
    require_existing(address)
    store = open_store(address)
    try:
        yield store
    finally:
        await store.close()


def require_existing(address: str) -> None:
    """Refuse a store that would be empty: one in memory, or a file that is not there."""
    if address.startswith("memory:"):
        raise UsageError(
            "a store in memory has no sessions when a command starts",
            where="--store",
            hint=f"name a file or a server: --store {DEFAULT_STORE}",
        )
    path = Path(address.removeprefix("sqlite:///"))
    if address.startswith("sqlite:///") and not path.exists():
        near = sorted(file.name for file in path.parent.glob("*.db"))[:6]
        raise UsageError(
            "there is no such file",
            where=str(path),
            hint=f"files there: {', '.join(near)}"
            if near
            else "`weft chat TARGET` makes one; --store sqlite:///FILE names another",
        )


def shown(address: str) -> str:
    """The address without the password it may have."""
    parts = urlsplit(address)
    if parts.password is None:
        return address
    return address.replace(f":{parts.password}@", ":***@", 1)


async def listed(store: Store, *, app: str | None, user: str | None) -> list[SessionInfo]:
    """The sessions of one app or of all, the latest first; an error if that is nobody's."""
    apps = await store.apps()
    if app is not None and app not in apps:
        raise SessionError(
            f"there is no app `{app}` in this store", where="--app", hint=nearest("apps", app, apps)
        )
    found = [info for name in ([app] if app else apps) for info in await store.sessions(name)]
    found.sort(key=lambda info: info.last_update_time, reverse=True)
    if user is None:
        return found
    users = sorted({info.key.user_id for info in found})
    if user not in users:
        raise SessionError(
            f"the user `{user}` has no session here",
            where="--user",
            hint=nearest("users", user, users),
        )
    return [info for info in found if info.key.user_id == user]


async def find_session(
    store: Store, id: str, *, app: str | None, user: str | None, skip_unreadable: bool = False
) -> Session:
    """The session of that id, whoever's it is, or an error that says what there is."""
    infos = await listed(store, app=app, user=user)
    found = [info.key for info in infos if info.key.id == id]
    if len(found) > 1:
        choices = " or ".join(f"--app {key.app_name} --user {key.user_id}" for key in found[:6])
        raise SessionError(
            f"{len(found)} sessions are named `{id}`", where="--session", hint=f"add {choices}"
        )
    session = None
    if found:
        session = await store.get(found[0], skip_unreadable=skip_unreadable)
    if session is None:
        ids = [info.key.id for info in infos]
        raise SessionError(
            f"there is no session `{id}`",
            where=" ".join(filter(None, (app, user))) or "store",
            hint=nearest("sessions", id, ids),
        )
    return session


def nearest(what: str, name: str, names: list[str]) -> str:
    """What there is, and what was perhaps meant."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    found = f"{what} there: {some}" if names else f"there are no {what} in it"
    return f"did you mean `{near[0]}`? {found}" if near else found
