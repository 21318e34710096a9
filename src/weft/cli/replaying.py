"""What `weft replay` does: find the recordings, and compile them under each policy and model."""

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from weft.cli.homes import homes_of
from weft.cli.load import load_node
from weft.cli.stored import find_session, listed, opened
from weft.compiler.evidence import uses_of
from weft.compiler.policies import policy_from
from weft.compiler.recordings import Recording, read_recordings, recording_of
from weft.compiler.replay import Trial, replay, speakers, total
from weft.declare import Agent, C, Policy
from weft.errors import SessionError, UsageError

Tell = Callable[[int], None]
"""Told how many recordings are done."""


class Wanted(NamedTuple):
    """The arguments of the command."""

    file: Path | None
    policies: Sequence[str]
    models: Sequence[str]
    target: str | None
    limit: int | None
    store: str | None
    session: str | None
    app: str | None
    user: str | None


def replayed(wanted: Wanted) -> list[Trial]:
    """A trial for each model and policy, append-only first."""
    given = [policy_from(text) for text in wanted.policies] or [C.auto()]
    policies = list(dict.fromkeys((str(one), one) for one in (C.default(), *given)))
    agents = homes_of(load_node(wanted.target)) if wanted.target is not None else None
    recordings = _recordings(wanted)
    if not any(speakers(one.session) for one in recordings):
        raise SessionError(
            "no model answers in it", where=str(wanted.file or wanted.store), hint="nothing to do"
        )
    models: list[str | None] = [*wanted.models] or [None]
    trials: list[list[Trial]] = [[] for _ in range(len(models) * len(policies))]
    with _progress(len(recordings)) as tell:
        for done, recording in enumerate(recordings, 1):
            _one(recording, [policy for _, policy in policies], models, agents, trials)
            tell(done)
    return [total(each) for each in trials]


def _one(
    recording: Recording,
    policies: Sequence[Policy],
    models: Sequence[str | None],
    agents: dict[str, Agent] | None,
    trials: list[list[Trial]],
) -> None:
    """Add what one recording gives under every model and policy."""
    known = agents
    if agents is not None:
        spoke = speakers(recording.session)
        missing = [name for name in spoke if name not in agents]
        if missing:
            raise UsageError(
                f"`{missing[0]}` speaks in session {recording.id}, and is not here",
                where="--target",
                hint=f"this target has: {', '.join(agents)}",
            )
        known = {name: agents[name] for name in spoke}
    uses = uses_of(recording.session.events, "\n".join(recording.instructions.values()))
    pairs = [(model, policy) for model in models for policy in policies]
    for held, (model, policy) in zip(trials, pairs, strict=True):
        held.append(replay(recording, policy, uses=uses, model=model, agents=known))


def _recordings(wanted: Wanted) -> list[Recording]:
    if wanted.file is not None:
        return list(
            islice(read_recordings(wanted.file.read_bytes(), name=wanted.file.name), wanted.limit)
        )
    return asyncio.run(_stored(wanted, wanted.store or ""))


async def _stored(wanted: Wanted, address: str) -> list[Recording]:
    """The session that is named, or all that the store has."""
    async with opened(address) as store:
        if wanted.session is not None:
            found = await find_session(store, wanted.session, app=wanted.app, user=wanted.user)
            return [recording_of(found)]
        infos = await listed(store, app=wanted.app, user=wanted.user)
        sessions = [await store.get(info.key) for info in infos[: wanted.limit]]
    return [recording_of(session) for session in sessions if session is not None]


@contextmanager
def _progress(runs: int) -> Generator[Tell]:
    """A bar for a person; nothing where stderr is a file."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("replaying", total=runs)
        yield lambda done: bars.update(task, completed=done)
