"""`weft replay`: recorded sessions under other policies and models, and what that costs."""

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from weft.cli import options as given
from weft.cli.inputs import find_session, homes_of, listed, opened
from weft.cli.load import load_node
from weft.declare import Agent, C, Policy
from weft.errors import SessionError, UsageError
from weft.replay.recordings import Recording, read_recordings, recording_of
from weft.replay.replay import Trial, policy_from, replay, speakers, total, uses_of


def replay_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A session, or JSONL of sessions or chats; .gz too.", metavar="FILE"),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help='As in code: "C.window(5)"; several.', metavar="POLICY"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Prices and cache rules to use; several.", metavar="NAME"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="The agents that were recorded.", metavar="MODULE:OBJECT"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only the first so many.", min=1)
    ] = None,
    store: given.STORE = None,
    session: given.SESSION = None,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write tables and plots.", metavar="FILE")
    ] = None,
) -> int:
    """Compile recorded sessions again under several policies and models, and compare.

    Append-only, `C.default()`, is always the first row. Without --model costs are counted in
    fresh tokens: 0.10 for one that is read again, 1.25 for one that is kept.
    """
    from weft.cli.render import print_json

    # imported above
    from weft.replay.page import as_json as rows_json
    from weft.replay.page import lines, replay_page

    if (file is None) == (store is None):
        raise UsageError(
            "what is to be replayed?" if file is None else "FILE and --store name two sources",
            where="replay",
            hint="weft replay FILE, or weft replay --store ADDRESS",
        )
    trials = replayed(Wanted(file, policy or [], model or [], target, limit, store, session, app,
                             user))  # fmt: skip
    source = file.name if file is not None else "stored sessions"
    if html is not None:
        html.write_text(replay_page(trials, source=source), "utf-8")
    if as_json:
        print_json({"source": source, "rows": [*rows_json(trials)]})
        return 0
    for line in lines(trials):
        print(line)
    if html is not None:
        print(f"wrote {html}")
    return 0


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
