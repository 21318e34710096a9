"""`weft replay`: recorded sessions under other policies and models, and what that costs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from weft.cli.inputs import find_session, list_sessions, open_existing_store
from weft.cli.load import load_node, require_folder
from weft.cli.options import CommandOptions
from weft.cli.printing import print_json, show_progress
from weft.cli.recorded import (
    RecordingsRead,
    aside_lines,
    read_what_can_be_read,
    tell_failures,
)
from weft.declare import Agent, C, Policy
from weft.declare.words import policy_from
from weft.diagnostics import safe
from weft.errors import SessionError, UsageError
from weft.recordings import Recording, files_in, recording_of
from weft.recordings.read import require_format
from weft.replay.evidence import Uses
from weft.replay.frontier import (
    FRONTIER,
    ORACLE,
    SHARES,
    frontier_lines,
    frontier_svg,
    oracle_trials,
)
from weft.replay.page import (
    RecordedFacts,
    SessionTrials,
    as_json,
    by_size,
    lines,
    recorded_facts,
    replay_page,
    savings,
    shares,
    size_lines,
    ways_to_get,
)
from weft.replay.recorded import has_requests
from weft.replay.replay import Trial, priced_model, replay, speakers, total, uses_of
from weft.replay.rivals import RIVALS, replay_rival
from weft.replay.steps import homes_of
from weft.session.store import attach
from weft.stores import beside_store, open_artifacts
from weft.values import JsonObject


def replay_command(options: CommandOptions) -> int:
    """Compile recorded sessions again under several policies and models, and compare.

    1 if some files could not be read and the others were replayed.
    """
    files, html = options.files or [], options.html
    if html is not None:
        require_folder(html, "--html")
    if options.frontier is not None:
        require_folder(options.frontier, "--frontier")
    if bool(files) == (options.store is not None):
        raise UsageError(
            "FILES and --store name two sources" if files else "what is to be replayed?",
            where="replay",
            hint="weft replay FILES, or weft replay --store ADDRESS",
        )
    read = _read_recordings(options)
    trials, sessions, drawn = replay_recordings(options, read.recordings)
    facts = recorded_facts(read.recordings)
    source = _source_title(files) if files else "stored sessions"
    if html is not None:
        page = replay_page(
            trials,
            source=source,
            facts=facts,
            sessions=sessions,
            aside=read.aside,
            unreadable=[str(error) for error in read.failed],
        )
        html.write_text(page, "utf-8", errors="backslashreplace")
    if options.as_json:
        fields: JsonObject = {
            "source": source,
            "rows": [*as_json(trials)],
            "by_size": [
                {"size": one.name, "rows": [*as_json(one.trials)]} for one in by_size(sessions)
            ],
            "to_get_this": [*ways_to_get(trials, facts)],
            "recorded": facts.as_json(),
            "aside": [one.as_json() for one in read.aside],
            "unreadable": [str(error) for error in read.failed],
        }
        print_json(fields)
    else:
        _print(trials, sessions, facts, read)
        if html is not None:
            print(f"wrote {html}")
    if options.frontier is not None:
        options.frontier.write_text(frontier_svg(drawn), "utf-8")
        if not options.as_json:
            for line in frontier_lines(drawn):
                print(line)
            print(f"wrote {options.frontier}")
    return tell_failures(read.failed)


def _print(
    trials: Sequence[Trial],
    sessions: Sequence[SessionTrials],
    facts: RecordedFacts,
    read: RecordingsRead,
) -> None:
    for line in facts.lines():
        print(safe(line))
    for line in (*lines(trials), *size_lines(sessions)):
        print(line)
    for line in (*shares(trials), *savings(trials)):
        print(line)
    for line in aside_lines(read.aside):
        print(safe(line))
    for line in ways_to_get(trials, facts):
        print(line)


def _source_title(files: Sequence[Path]) -> str:
    """What a page is called after."""
    names = ", ".join(path.name or str(path) for path in files[:3])
    return names + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def replay_recordings(
    options: CommandOptions, recordings: Sequence[Recording]
) -> tuple[list[Trial], list[SessionTrials], list[Trial]]:
    """A trial for each model and policy, append-only first; and those of each recording.

    For --frontier the oracle's trials follow those of each model, in a list of their own.

    Without --model each recording is measured as the model that it names; one that names none, or
    one without a price, by the yardstick.
    """
    usual = FRONTIER if options.frontier is not None else (C.auto(),)
    chosen = [policy_from(text) for text in options.policies or ()] or usual
    policies = list(dict.fromkeys((str(one), one) for one in (C.default(), *chosen)))
    agents = (
        homes_of(load_node(options.recorded_target))
        if options.recorded_target is not None
        else None
    )
    if not any(speakers(one) for one in recordings):
        where = options.store or _source_title(options.files or [])
        raise SessionError("no model answers in it", where=where, hint="nothing to do")
    trials: dict[str, list[list[Trial]]] = {}
    foreseen: dict[str, list[list[Trial]]] = {}
    sessions: list[SessionTrials] = []
    with show_progress("replaying", len(recordings)) as tell:
        for done, recording in enumerate(recordings, 1):
            for asked in [*(options.models or ())] or [_asked_of(recording, agents)]:
                tried = _one(recording, [policy for _, policy in policies], asked, agents, options)
                model = tried[0].model
                rows = trials.setdefault(model, [[] for _ in tried])
                for row, trial in zip(rows, tried, strict=True):
                    row.append(trial)
                sessions.append(SessionTrials(recording.id, recording.source, tuple(tried)))
                if options.frontier is not None:
                    foreseen.setdefault(model, []).append(
                        _replay_with_foresight(recording, asked, agents, options)
                    )
            tell(done, "")
    drawn: list[Trial] = []
    for model, rows in trials.items():
        oracle = zip(*foreseen.get(model, ()), strict=True)
        drawn += [*map(total, rows), *map(total, oracle)]
    return [total(each) for rows in trials.values() for each in rows], sessions, drawn


def _asked_of(recording: Recording, agents: dict[str, Agent] | None) -> str | None:
    """The model to ask where none is named; of a recording with requests, each names its own."""
    is_overlaid = agents is None and has_requests(recording)
    return None if is_overlaid else priced_model(recording)


def _one(
    recording: Recording,
    policies: Sequence[Policy],
    model: str | None,
    agents: dict[str, Agent] | None,
    options: CommandOptions,
) -> list[Trial]:
    """What one recording gives under a model and every policy."""
    known, uses = _roots(recording, agents), _uses(recording)
    trials = [
        replay(
            recording,
            policy,
            uses=uses,
            model=model,
            agents=known,
            gap=options.gap,
            sessions_per_hour=options.sessions_per_hour,
        )
        for policy in policies
    ]
    if options.rivals:
        trials += [
            replay_rival(
                recording,
                rival,
                uses=uses,
                model=model,
                agents=known,
                gap=options.gap,
                sessions_per_hour=options.sessions_per_hour,
            )
            for rival in RIVALS
        ]
    if options.oracle:
        bound = _replay_with_foresight(recording, model, agents, options, shares=(1.0,))
        trials += [msgspec.structs.replace(one, policy=ORACLE) for one in bound]
    return [trial.against(trials[0]) for trial in trials]


def _replay_with_foresight(
    recording: Recording,
    model: str | None,
    agents: dict[str, Agent] | None,
    options: CommandOptions,
    shares: Sequence[float] = SHARES,
) -> list[Trial]:
    """What one recording gives if somebody had known the future."""
    return oracle_trials(
        recording,
        _uses(recording),
        model=model,
        agents=_roots(recording, agents),
        gap=options.gap,
        sessions_per_hour=options.sessions_per_hour,
        shares=shares,
    )


def _uses(recording: Recording) -> Uses:
    return uses_of(recording.session.events, "\n".join(recording.instructions.values()))


def _roots(recording: Recording, agents: dict[str, Agent] | None) -> dict[str, Agent] | None:
    """The agents that speak in a recording, where a target has them."""
    if agents is None:
        return None
    spoke = speakers(recording)
    # what a toolset gives a run to call may be in no declaration
    called = {event.author for event in recording.session.events if event.isolation_scope}
    missing = [name for name in spoke if name not in agents and name not in called]
    if missing:
        raise UsageError(
            f"`{missing[0]}` speaks in session {recording.id}, and is not here",
            where="--target",
            hint=f"this target has: {', '.join(agents)}",
        )
    return {name: agents[name] for name in spoke if name in agents}


def _read_recordings(options: CommandOptions) -> RecordingsRead:
    """What there is to replay. Of several files, one that cannot be read stops no other."""
    if options.store is not None:
        if options.recorded_format is not None:
            raise UsageError("a store has its own format", where="--format", hint="leave it out")
        if options.lenient:
            raise UsageError("a store loses nothing", where="--lenient", hint="leave it out")
        return RecordingsRead(asyncio.run(_load_stored_sessions(options, options.store)))
    require_format(options.recorded_format)
    return read_what_can_be_read(files_in(options.files or ()), options)


async def _load_stored_sessions(options: CommandOptions, address: str) -> list[Recording]:
    """The session that is named, or all that the store has."""
    async with open_existing_store(address) as store:
        if options.session is not None:
            session = await find_session(
                store, options.session, app=options.app, user=options.only_user
            )
            await attach(session, open_artifacts(beside_store(store)))
            return [recording_of(session)]
        infos = await list_sessions(store, app=options.app, user=options.only_user)
        sessions = [await store.get(info.key) for info in infos[: options.limit]]
        artifacts = open_artifacts(beside_store(store))
        for one in sessions:
            if one is not None:
                await attach(one, artifacts)
    return [recording_of(session) for session in sessions if session is not None]
