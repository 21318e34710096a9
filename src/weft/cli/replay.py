"""`weft replay`: recorded sessions under other policies and models, and what that costs."""

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import islice

from weft.cli.inputs import find_session, listed, opened
from weft.cli.load import load_node
from weft.cli.options import CommandOptions
from weft.cli.render import print_json
from weft.declare import Agent, C, Policy
from weft.errors import SessionError, UsageError
from weft.replay.page import as_json, lines, replay_page
from weft.replay.recordings import Recording, read_recordings, recording_of
from weft.replay.replay import Trial, policy_from, replay, speakers, total, uses_of
from weft.replay.steps import homes_of


def replay_command(options: CommandOptions) -> int:
    """Compile recorded sessions again under several policies and models, and compare."""
    file, html = options.file, options.html
    if (file is None) == (options.store is None):
        raise UsageError(
            "what is to be replayed?" if file is None else "FILE and --store name two sources",
            where="replay",
            hint="weft replay FILE, or weft replay --store ADDRESS",
        )
    trials = replayed(options)
    source = file.name if file is not None else "stored sessions"
    if html is not None:
        html.write_text(replay_page(trials, source=source), "utf-8")
    if options.as_json:
        print_json({"source": source, "rows": [*as_json(trials)]})
        return 0
    for line in lines(trials):
        print(line)
    if html is not None:
        print(f"wrote {html}")
    return 0


Tell = Callable[[int], None]
"""Called with the number of recordings that are done."""


def replayed(options: CommandOptions) -> list[Trial]:
    """A trial for each model and policy, append-only first."""
    chosen = [policy_from(text) for text in options.policies or ()] or [C.auto()]
    policies = list(dict.fromkeys((str(one), one) for one in (C.default(), *chosen)))
    agents = (
        homes_of(load_node(options.recorded_target))
        if options.recorded_target is not None
        else None
    )
    recordings = _recordings(options)
    if not any(speakers(one.session) for one in recordings):
        raise SessionError(
            "no model answers in it", where=str(options.file or options.store), hint="nothing to do"
        )
    models: list[str | None] = [*(options.models or ())] or [None]
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
    for trial, (model, policy) in zip(trials, pairs, strict=True):
        trial.append(replay(recording, policy, uses=uses, model=model, agents=known))


def _recordings(options: CommandOptions) -> list[Recording]:
    if options.file is not None:
        return list(
            islice(
                read_recordings(options.file.read_bytes(), name=options.file.name), options.limit
            )
        )
    return asyncio.run(_stored(options, options.store or ""))


async def _stored(options: CommandOptions, address: str) -> list[Recording]:
    """The session that is named, or all that the store has."""
    async with opened(address) as store:
        if options.session is not None:
            session = await find_session(
                store, options.session, app=options.app, user=options.only_user
            )
            return [recording_of(session)]
        infos = await listed(store, app=options.app, user=options.only_user)
        sessions = [await store.get(info.key) for info in infos[: options.limit]]
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
