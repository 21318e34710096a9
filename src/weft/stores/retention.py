"""Delete what must not be kept, a user with everything or sessions that are old; archive the rest.

The log, the state, turns in queues, memories and artifacts go. Then the store writes what is left
anew, because a database only marks deleted rows as free. What is archived stays, in less room.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from weft.errors import UsageError, describe_kind
from weft.session import ArtifactStore, SessionKey, Store
from weft.session.store import ArchivingStore, ErasingArtifacts, ErasingStore

MEMORY_APP = "memory:"
"""What the name of an app begins with whose sessions are the memories of another."""


class Erased(NamedTuple):
    """How much was deleted."""

    sessions: int
    memories: int
    artifacts: int


async def erase_user(
    store: Store, artifacts: ArtifactStore, app_name: str, user_id: str, *, compact: bool = True
) -> Erased:
    """Delete all that is kept of a user of an app; runs of the user are stopped first.

    State under `app:` belongs to all users and stays. Without `compact`, deleted rows stay on the
    disk until the database uses their place again.
    """
    erasing, files = _able(store), _able_artifacts(artifacts)
    apps = (app_name, f"{MEMORY_APP}{app_name}")
    keys = [info.key for app in apps for info in await store.sessions(app, user_id)]
    # first: else a worker whose run is stopped takes the next turn, and has the session made anew
    await erasing.erase_turns(app_name, user_id)
    async with AsyncExitStack() as stack:
        await _take(store, keys, stack)
        sessions, memories = [await erasing.erase_user(app, user_id) for app in apps]
        erased = Erased(sessions, memories, await files.erase(app_name, user_id))
    if compact:
        await erasing.compact()
    return erased


async def erase_sessions(
    store: Store, artifacts: ArtifactStore, keys: Sequence[SessionKey]
) -> Erased:
    """Delete sessions with their artifacts and queued turns.

    What they wrote to `user:` and `app:` stays.
    """
    erasing, files = _able(store), _able_artifacts(artifacts)
    count = 0
    for key in keys:
        # first, for the same reason
        await erasing.erase_turns(*key)
        async with AsyncExitStack() as stack:
            await _take(store, [key], stack)
            await store.delete(key)
            count += await files.erase(*key)
    if keys:
        await erasing.compact()
    return Erased(len(keys), 0, count)


async def archive_sessions(
    store: Store, keys: Sequence[SessionKey], *, keep_recent: int, before: float | None = None
) -> int:
    """Pack the older events of sessions, while they run; gives how many events were packed."""
    if not isinstance(store, ArchivingStore):
        raise UsageError(
            f"{describe_kind(store)} keeps no archive",
            where="store",
            hint="use sqlite:///FILE or postgresql://..., or give it `archive(key, keep_recent=,"
            " before=)`",
        )
    return sum([await store.archive(key, keep_recent=keep_recent, before=before) for key in keys])


async def _take(store: Store, keys: Sequence[SessionKey], stack: AsyncExitStack) -> None:
    """Stop the runs of the sessions, in whichever process, and keep others from beginning."""
    for key in keys:
        lease = await store.lease(key, busy="interrupt", interrupt=lambda: None)
        stack.push_async_callback(lease.release)


def _able(store: Store) -> ErasingStore:
    if isinstance(store, ErasingStore):
        return store
    raise UsageError(
        f"{describe_kind(store)} cannot forget a user",
        where="store",
        hint="give it `erase_user(app_name, user_id)`, `erase_turns(app_name, user_id,"
        " session_id)`, `apps_of_turns(user_id)` and `compact()`",
    )


def _able_artifacts(artifacts: ArtifactStore) -> ErasingArtifacts:
    if isinstance(artifacts, ErasingArtifacts):
        return artifacts
    raise UsageError(
        f"{describe_kind(artifacts)} cannot forget a user",
        where="artifacts",
        hint="give it `erase(app_name, user_id, session_id)`",
    )
