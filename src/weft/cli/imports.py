"""`weft sessions import`: sessions of other programs into a store."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from weft.cli.inputs import without_password
from weft.cli.options import CommandOptions
from weft.cli.printing import print_json
from weft.cli.recorded import aside_lines, read_recorded_files, tell_failures
from weft.diagnostics import safe
from weft.errors import SessionError
from weft.recordings import Recording, count_parts, files_in
from weft.recordings.read import require_format
from weft.recordings.recording import AGENT
from weft.session import SessionKey, Store
from weft.session.flow import mark_imported
from weft.stores import create_filled, open_store
from weft.values import Json, JsonObject


@dataclass
class ImportOutcome:
    """What became of the files."""

    stored: list[tuple[SessionKey, Recording]] = field(
        default_factory=list[tuple[SessionKey, Recording]]
    )
    failed: list[SessionError] = field(default_factory=list[SessionError])


async def import_command(options: CommandOptions) -> int:
    """Read sessions of other programs into a store: 1 if something could not be read."""
    require_format(options.recorded_format)
    files = files_in(options.files or ())
    outcome = ImportOutcome()
    await _store_recordings(options, files, outcome)
    if options.as_json:
        print_json(_as_json(outcome))
    else:
        _print(outcome, options)
    return tell_failures(outcome.failed)


async def _store_recordings(
    options: CommandOptions, files: list[Path], outcome: ImportOutcome
) -> None:
    """Store each recording; a file that cannot be read is named, and the others are taken."""
    store = open_store(options.address)
    try:
        recordings = read_recorded_files(files, options, outcome.failed)
        for recording in recordings:
            if options.limit is not None and len(outcome.stored) >= options.limit:
                break
            try:
                await _take(store, recording, options, outcome)
            except SessionError as error:
                outcome.failed.append(error)
    finally:
        await store.close()


async def _take(
    store: Store, recording: Recording, options: CommandOptions, outcome: ImportOutcome
) -> None:
    """Create the session and append its events; a session that exists is not changed.

    A session without events is what a store that cannot do both at once has left of an import
    that was killed: it is filled.
    """
    session = recording.spoken_by(options.agent or AGENT).for_store()
    # the options win over the user that a session names
    app = options.app or session.app_name or "imported"
    key = SessionKey(app, options.only_user or session.user_id or options.user, session.id)
    existing = await store.get(key)
    # a second import would say everything twice
    if existing is not None and len(existing.events):
        outcome.failed.append(
            SessionError(
                f"a session `{key.id}` is in the store already",
                where=recording.source,
                hint="name another --app, --user or --store",
            )
        )
        return
    # whatever label they claim: nobody here knows who wrote them
    events = [
        msgspec.structs.replace(one, custom_metadata=mark_imported(one.custom_metadata))
        for one in session.events
    ]
    if existing is not None:
        await store.append(existing, *events)
    else:
        await create_filled(store, key, events, state=session.initial)
    outcome.stored.append((key, recording))


def _print(outcome: ImportOutcome, options: CommandOptions) -> None:
    for key, recording in outcome.stored:
        model = f", {recording.model}" if recording.model else ""
        print(
            safe(
                f"{key.id}: {len(recording.session.events):,} events from {recording.source}"
                f" ({recording.format}{model}; {_counts_in_words(recording)})"
            )
        )
    for line in aside_lines(one for _, recording in outcome.stored for one in recording.aside):
        print(safe(line))
    apps = {key.app_name for key, _ in outcome.stored}
    print(
        f"{len(outcome.stored):,} sessions in {without_password(options.address)}"
        f"{', app ' + ', '.join(sorted(apps)) if apps else ''}"
    )


def _counts_in_words(recording: Recording) -> str:
    one = {"messages": "message", "calls": "call", "results": "result", "media": "medium"}
    return ", ".join(
        f"{count:,} {one[kind] if count == 1 else kind}"
        for kind, count in count_parts(recording).items()
        if count
    )


def _as_json(outcome: ImportOutcome) -> JsonObject:
    sessions: list[Json] = []
    for key, recording in outcome.stored:
        sessions.append(
            {
                "appName": key.app_name,
                "userId": key.user_id,
                "id": key.id,
                "events": len(recording.session.events),
                "format": recording.format,
                "model": recording.model,
                "source": recording.source,
                "counts": {**count_parts(recording)},
                "parent": recording.parent,
                "relation": recording.relation,
                "aside": [one.as_json() for one in recording.aside],
            }
        )
    return {"sessions": sessions, "unreadable": [str(error) for error in outcome.failed]}
