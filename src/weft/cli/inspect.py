"""`weft inspect` and `weft receipt`: the inspector alone, and what a session was billed."""

import asyncio
import glob
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.inputs import (
    find_session,
    read_redactions,
    require_existing,
    without_password,
)
from weft.cli.load import app_of, load_node, require_folder
from weft.cli.options import DEFAULT_STORE, CommandOptions
from weft.cli.printing import hint_names, print_json
from weft.cli.proxy import ProxyTable, read_named_upstreams
from weft.cli.recorded import (
    RecordingsRead,
    choose_recording,
    read_what_can_be_read,
    tell_asides,
    tell_failures,
)
from weft.cli.serve import listening_hosts, require_known_callers, run_application, say
from weft.declare import Node
from weft.declare.policy_parts import Redact
from weft.errors import UsageError
from weft.inspector import Inspection
from weft.inspector.export import export_parts
from weft.inspector.inspection import PLAIN
from weft.inspector.sources import RecordedSessions, SessionSource, StoredSessions, key_text
from weft.models.routing import client_variables, read_upstreams
from weft.recordings.read import files_in
from weft.session.store import key_of
from weft.stores import beside_store, open_artifacts, open_store

if TYPE_CHECKING:
    from weft.replay.receipt import Receipt

_ENDINGS = (".json", ".jsonl", ".traj", ".gz", ".xz", ".db", ".txt")


def inspect_command(options: CommandOptions) -> int:
    """Show the inspector, or with --html write one session as a page."""
    options = _with_store(options)
    redact = read_redactions(options.redact or ())
    if redact and options.raw:
        raise UsageError(
            "--raw keeps all, and --redact does not",
            where="--redact",
            hint="leave one of the two out",
        )
    _require_use(options)
    if options.listen:
        return _listen(options, redact)
    if options.html is not None:
        require_folder(options.html, "--html")
        return _write(options, options.html, redact)
    try:
        from weft.server.application import Application
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the inspector needs {error.name}", where="inspect", hint='pip install "weft[serve]"'
        ) from None
    source, what = _source(options, redact)
    application = Application([], source=lambda request: source)
    run_application(application, options, what=what)
    return 0


def _listen(options: CommandOptions, redact: tuple[Redact, ...]) -> int:
    """Show what arrives: spans, and requests on their way to a provider."""
    try:
        from weft.server.access import Tokens
        from weft.server.proxy import PolicyRule, ProxyApplication, ProxySettings
        from weft.server.proxy_records import CallLog
        from weft.server.proxy_store import ProxyStore
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the inspector needs {error.name}", where="inspect", hint='pip install "weft[listen]"'
        ) from None
    require_known_callers(options)
    upstreams = read_upstreams(read_named_upstreams(ProxyTable(), options))
    # plain history: what is asked goes on as it comes
    application = ProxyApplication(
        ProxySettings((PolicyRule(PLAIN),), upstreams),
        CallLog(ProxyStore(), redact=redact, model=options.model),
        tokens=Tokens.read(options.tokens) if options.tokens is not None else None,
        hosts=listening_hosts(options),
    )

    def tell(url: str, stop: Callable[[], None]) -> None:
        say(f"spans: OTEL_EXPORTER_OTLP_ENDPOINT={url}", options.log_form, sys.stderr)
        say("protocol: OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", options.log_form, sys.stderr)
        for name, value in client_variables(url).items():
            say(f"requests: {name}={value}", options.log_form, sys.stderr)

    run_application(application, options, what="what arrives", ready=tell)
    return 0


def receipt_command(options: CommandOptions) -> int:
    """Print what each call of a session was expected to cost, and what was billed."""
    code = 0
    if Path(options.id).is_file() or options.id.endswith(_ENDINGS):
        bill, code = _recorded_bill(options)
        receipt = bill.receipt()
    elif (proxied := _proxied_bill(options)) is not None:
        receipt = proxied
    else:
        if options.session is not None or options.recorded_format or options.lenient:
            raise UsageError(
                "--recording, --format and --lenient are about a file of recordings",
                where="receipt",
                hint=f"leave them out: `{options.id}` is the id of a stored session",
            )
        inspection, _ = asyncio.run(_stored_session(options, options.id, ()))
        receipt = inspection.receipt()
    if options.as_json:
        print_json(receipt.to_json())
    else:
        print(receipt.to_text())
    return code


def _proxied_bill(options: CommandOptions) -> "Receipt | None":
    """The receipt of a session that went through a proxy; None where the store is not a proxy's."""
    from weft.server.proxy_store import ProxyStore, is_proxy_store

    path = Path(options.address.removeprefix("sqlite:///"))
    if not options.address.startswith("sqlite:///") or not is_proxy_store(path):
        return None
    from weft.server.proxy_records import find_receipt

    store = ProxyStore(path)
    calls = store.list_calls()
    store.close()
    receipt = find_receipt(calls, options.id)
    if receipt is None:
        names = sorted({call.session for call in calls})
        raise UsageError(
            f"there is no session `{options.id}`",
            where=path.name,
            hint=hint_names("sessions", options.id, names),
        )
    return receipt


def _recorded_bill(options: CommandOptions) -> tuple[Inspection, int]:
    """The recording that a receipt is asked for, and the exit code."""
    if options.listed:
        raise UsageError(
            "a recording brings its agents along",
            where=options.listed[0],
            hint="name the recording alone, or the id of a stored session with its program",
        )
    read = read_what_can_be_read(files_in([Path(options.id)]), options)
    code = tell_failures(read.failed)
    name = Path(options.id).name
    chosen = choose_recording(read.recordings, options.session, where=name, flag="--recording")
    tell_asides(chosen.aside)
    return Inspection.of_recording(chosen, model=options.model), code


def _with_store(options: CommandOptions) -> CommandOptions:
    """A store's address is understood without --store in front of it too."""
    addresses = [one for one in options.listed or () if "://" in one]
    if not addresses:
        return options
    if len(addresses) > 1 or options.store not in (None, DEFAULT_STORE, addresses[0]):
        raise UsageError(
            "several stores are named",
            where="inspect",
            hint=f"name one: weft inspect --store {without_password(addresses[0])}",
        )
    others = [one for one in options.listed or () if one not in addresses]
    return replace(options, listed=others, store=addresses[0])


def _require_use(options: CommandOptions) -> None:
    """Refuse an option that would say nothing."""
    is_stored = not any(map(_is_recording, options.listed or ()))
    if options.listen and (options.listed or options.html is not None):
        raise UsageError(
            "--listen shows what arrives, and nothing else",
            where="--listen",
            hint="leave out the files, programs and --html, or --listen",
        )
    arriving = {"--tokens": options.tokens, "--allow-host": options.allow_host}
    for flag, setting in {**arriving, "--upstream": options.upstream}.items():
        if setting and not options.listen:
            raise UsageError(f"{flag} is about what arrives", where=flag, hint="add --listen")
    if options.lenient and is_stored:
        raise UsageError(
            "only a recording is read leniently", where="--lenient", hint="name a file"
        )
    needs = {
        "--raw": (options.raw, options.html, "--html FILE"),
        "--session": (options.session, options.html, "--html FILE"),
        "--app": (options.app, options.session, "--session ID --html FILE"),
        "--user": (options.only_user, options.session, "--session ID --html FILE"),
    }
    for flag, (value, other, what) in needs.items():
        if value and not other:
            raise UsageError(
                f"{flag} is about the file that is written, and there is none",
                where=flag,
                hint=f"add {what}, or leave {flag} out",
            )


def _source(options: CommandOptions, redact: tuple[Redact, ...]) -> tuple[SessionSource, str]:
    """The sessions that are asked for, and how they are called."""
    recordings = [Path(one) for one in options.listed or () if _is_recording(one)]
    if recordings:
        # recordings bring their agents along: a program next to them would be ignored
        if len(recordings) < len(options.listed or ()):
            raise UsageError(
                "recordings and programs are named together",
                where="inspect",
                hint="name recordings, or programs with the --store of their sessions",
            )
        read = read_what_can_be_read(files_in(recordings), options)
        tell_failures(read.failed)
        tell_asides(read.aside)
        source = RecordedSessions(
            read.recordings, model=options.model, redact=redact, unreadable=read.failed
        )
        count = len(read.recordings)
        return source, f"{count:,} recording{'' if count == 1 else 's'}"
    return _open_stored_sessions(
        options, redact
    ), f"the sessions of {without_password(options.address)}"


def _open_stored_sessions(options: CommandOptions, redact: tuple[Redact, ...]) -> StoredSessions:
    """The sessions of a store, with the programs that are named."""
    require_existing(options.address)
    programs: dict[str, Node] = {}
    files: list[str] = []
    for target in options.listed or ():
        root = load_node(target)
        programs[app_of(root, target)] = root
        files += _files_of(target)
    store = open_store(options.address)
    artifacts = open_artifacts(beside_store(store))
    return StoredSessions(
        store,
        programs,
        artifacts=artifacts,
        files=tuple(files),
        model=options.model,
        redact=redact,
    )


def _write(options: CommandOptions, file: Path, redact: tuple[Redact, ...]) -> int:
    """One session as a page of its own. 1 if something in its file could not be read."""
    code = 0
    if options.session is not None and not any(map(_is_recording, options.listed or ())):
        inspection, key = asyncio.run(_stored_session(options, options.session, redact))
        again = ["weft", "inspect", *(options.listed or ())]
        again += ["--store", without_password(options.address)]
    else:
        read = _read_recordings(options)
        code = tell_failures(read.failed)
        recording = choose_recording(
            read.recordings, options.session, where="--html", flag="--session"
        )
        tell_asides(recording.aside)
        key = str([one.id for one in read.recordings].index(recording.id) + 1)
        inspection = Inspection.of_recording(recording, model=options.model, redact=redact)
        again = ["weft", "inspect", *(options.listed or ())]
        if options.recorded_format:
            again += ["--format", options.recorded_format]
        if options.lenient:
            again.append("--lenient")
    if options.model:
        again += ["--model", options.model]
    parts = export_parts(inspection, key=key, command=shlex.join(again), raw=options.raw)
    with file.open("w", encoding="utf-8", errors="backslashreplace") as page:
        page.writelines(parts)
    print(f"wrote {file}: {_kind_words(inspection, raw=options.raw)}")
    return code


def _kind_words(inspection: Inspection, *, raw: bool) -> str:
    """What the file holds, for the person who passes it on."""
    rules = ", ".join(inspection.rules.words)
    if not rules:
        return "all as it is stored; no agent redacts anything, and --redact names nothing"
    if raw:
        return f"all as it is stored, also what the agents hide ({rules})"
    return f"redacted by rule ({rules})"


def _read_recordings(options: CommandOptions) -> RecordingsRead:
    """The recordings in the files that are named, one of which is to be written."""
    if options.app or options.only_user:
        raise UsageError(
            "a recording has no app and no user",
            where="--app" if options.app else "--user",
            hint="name the recording by its id: --session ID",
        )
    files = files_in([Path(one) for one in options.listed or () if _is_recording(one)])
    if not files:  # a program without --session is not a recording
        raise UsageError(
            "a page holds one session, and none is named",
            where="--html",
            hint="name a recording, or a stored session: weft inspect pkg.module:agent"
            " --store sqlite:///FILE --session ID --html FILE",
        )
    return read_what_can_be_read(files, options)


async def _stored_session(
    options: CommandOptions, id: str, redact: tuple[Redact, ...]
) -> tuple[Inspection, str]:
    """A stored session with the program that ran it, and its key."""
    source = _open_stored_sessions(options, redact)
    try:
        session = await find_session(source.store, id, app=options.app, user=options.only_user)
        key = key_text(key_of(session))
        return await source.inspection(key), key
    finally:
        await source.store.close()


def _is_recording(text: str) -> bool:
    """Whether a name is of a file, and not of a module; one that is missing is said to be."""
    return Path(text).exists() or glob.has_magic(text) or text.endswith(_ENDINGS)


def _files_of(target: str) -> list[str]:
    """The source of the module that a target names."""
    name = target.partition(":")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    return [file] if isinstance(file, str) else [name] if Path(name).is_file() else []
