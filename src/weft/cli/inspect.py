"""`weft inspect`: the inspector alone, on stored or recorded sessions."""

import glob
import shlex
from dataclasses import replace
from pathlib import Path

from weft.cli.inputs import require_existing, require_folder, without_password
from weft.cli.load import app_of, load_node
from weft.cli.options import DEFAULT_STORE, CommandOptions
from weft.cli.serve import run_application
from weft.declare import Node
from weft.errors import UsageError
from weft.inspector import Inspection
from weft.inspector.export import export
from weft.inspector.sources import RecordedSessions, SessionSource, StoredSessions
from weft.recordings.read import read_files
from weft.stores import beside_store, open_artifacts, open_store

_ENDINGS = (".json", ".jsonl", ".gz", ".db", ".txt")


def inspect_command(options: CommandOptions) -> int:
    """Show the inspector, or with --html write one session as a page."""
    options = _with_store(options)
    if options.html is not None:
        require_folder(options.html, "--html")
        return _write(options)
    try:
        from weft.server.access import LOOPBACK, Limits
        from weft.server.application import Application
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the inspector needs {error.name}", where="inspect", hint='pip install "weft[serve]"'
        ) from None
    source, what = _source(options)
    application = Application(
        [],
        auth=None,
        hosts=LOOPBACK,
        origins=(),
        limits=Limits(),
        recover=0.0,
        grace=1.0,
        source=lambda request: source,
    )
    run_application(application, options, what=what)
    return 0


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


def _source(options: CommandOptions) -> tuple[SessionSource, str]:
    """The sessions that are asked for, and how they are called."""
    recordings = [Path(one) for one in options.listed or () if _is_recording(one)]
    if recordings:
        if len(recordings) < len(options.listed or ()):
            raise UsageError(
                "recordings and programs are named together",
                where="inspect",
                hint="name recordings, or programs with the --store of their sessions",
            )
        read = list(read_files(recordings, format=options.recorded_format))
        return RecordedSessions(read, model=options.model), f"{len(read)} recordings"
    require_existing(options.address)
    programs: dict[str, Node] = {}
    files: list[str] = []
    for target in options.listed or ():
        root = load_node(target)
        programs[app_of(root, target)] = root
        files += _files_of(target)
    store = open_store(options.address)
    artifacts = open_artifacts(beside_store(store))
    source = StoredSessions(
        store, programs, artifacts=artifacts, files=tuple(files), model=options.model
    )
    return source, f"the sessions of {without_password(options.address)}"


def _write(options: CommandOptions) -> int:
    """One recording as a page of its own."""
    recordings = [Path(one) for one in options.listed or () if _is_recording(one)]
    read = list(read_files(recordings, format=options.recorded_format))
    if len(read) != 1 or options.html is None:
        raise UsageError(
            f"a page holds one session, and {len(read)} recordings are named",
            where="--html",
            hint="name one recording; `weft sessions export` writes a stored session as one",
        )
    inspection = Inspection.of_recording(read[0], model=options.model)
    again = ["weft", "inspect", *map(str, recordings)]
    if options.recorded_format:
        again += ["--format", options.recorded_format]
    if options.model:
        again += ["--model", options.model]
    page = export(inspection, key="1", command=shlex.join(again))
    options.html.write_text(page, "utf-8", errors="backslashreplace")
    print(f"wrote {options.html}")
    return 0


def _is_recording(text: str) -> bool:
    """Whether a name is of a file, and not of a module; one that is missing is said to be."""
    return Path(text).exists() or glob.has_magic(text) or text.endswith(_ENDINGS)


def _files_of(target: str) -> list[str]:
    """The source of the module that a target names."""
    import sys

    name = target.partition(":")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    return [file] if isinstance(file, str) else [name] if Path(name).is_file() else []
