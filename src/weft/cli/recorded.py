"""Recordings as commands read them: what can be read is, and the rest is named on stderr."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from weft.cli.options import CommandOptions
from weft.cli.printing import hint_names, show_progress
from weft.diagnostics import safe
from weft.errors import SessionError, UsageError
from weft.recordings import Aside, Recording, read_files
from weft.recordings.recording import merge_asides
from weft.recordings.shelf import LARGE, Shelf


def tell_failures(failed: Iterable[SessionError]) -> int:
    """Name on stderr what could not be read. Return the exit code: 1 if there is any."""
    code = 0
    for error in failed:
        print(f"error: {safe(str(error))}", file=sys.stderr)
        code = 1
    return code


def tell_asides(aside: Iterable[Aside]) -> None:
    """Name on stderr what was set aside."""
    for line in aside_lines(aside):
        print(safe(line), file=sys.stderr)


def aside_lines(aside: Iterable[Aside]) -> list[str]:
    """What is in the files and in no session, with counts and reasons."""
    listed = merge_asides(aside)
    return ["set aside:", *(f"  {one}" for one in listed)] if listed else []


def read_recorded_files(
    files: Sequence[Path], options: CommandOptions, failed: list[SessionError]
) -> Iterator[Recording]:
    """The recordings in files, as the options want them read; a bar shows how far a long log is.

    What cannot be read is added to `failed`.
    """
    read = partial(
        read_files,
        files,
        format=options.recorded_format,
        lenient=options.lenient,
        failed=failed,
    )
    if not _are_large(files):
        yield from read()
        return
    with show_progress("reading", 100) as tell:

        def tell_share(name: str, done: int, size: int) -> None:
            percent = done * 100 // max(1, size)
            tell(percent, f"{percent}% of {name}")

        yield from read(progress=tell_share)


@dataclass
class RecordingsRead:
    """The recordings, and what could not be read."""

    recordings: Sequence[Recording] = ()
    failed: list[SessionError] = field(default_factory=list[SessionError])
    aside: Sequence[Aside] = ()
    """What was set aside in all of them, by kind; the most frequent first."""


def _are_large(files: Sequence[Path]) -> bool:
    """Whether files take long to read, and more memory than they should."""
    return sum(file.stat().st_size for file in files) > LARGE


_MERGED_AT = 1_000


def read_what_can_be_read(files: Sequence[Path], options: CommandOptions) -> RecordingsRead:
    """The recordings in files, up to --limit. What cannot be read stops nothing else.

    An error where there is nothing else.
    """
    failed: list[SessionError] = []
    recordings = Shelf[Recording]() if _are_large(files) else list[Recording]()
    aside: list[Aside] = []
    for one in islice(read_recorded_files(files, options, failed), options.limit):
        recordings.append(one)
        aside += one.aside
        if len(aside) > _MERGED_AT:
            aside = [*merge_asides(aside)]
    if not recordings:
        raise failed[0]
    return RecordingsRead(recordings, failed, merge_asides(aside))


def choose_recording(
    recordings: Sequence[Recording], id: str | None, *, where: str, flag: str
) -> Recording:
    """The recording of that id, or the only one."""
    ids = [one.id for one in recordings]
    chosen = [one for one in recordings if id in (None, one.id)]
    names = hint_names("ids", id or "", ids)
    if not chosen:
        raise UsageError(f"there is no recording `{id}` in it", where=where, hint=names)
    if len(chosen) > 1:
        raise UsageError(
            f"there are {len(chosen)} recordings in it",
            where=where,
            hint=f"name one: {flag} ID; {names}",
        )
    return chosen[0]
