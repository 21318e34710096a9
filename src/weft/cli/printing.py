"""What all commands print with: JSON, aligned tables, a bar of progress, and hints at names."""

import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from weft.misuse import find_near

_MOST_NAMES = 8
"""How many names a hint lists."""


def is_terminal() -> bool:
    """Whether stdout is looked at by a person."""
    return sys.stdout.isatty()


def print_json(value: object) -> None:
    """Indented JSON; escaped where stdout cannot carry the characters themselves."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False))


def print_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[str] = ()
) -> None:
    """Print cells under their titles; the columns of `right` stand to the right."""
    from weft.compiler.report import align_rows  # few commands print a table

    numbers = frozenset(right)
    left_aligned = [at for at, title in enumerate(titles) if title not in numbers]
    for line in align_rows([titles, *rows], left_aligned=left_aligned):
        print(line)


TellProgress: TypeAlias = Callable[[int, str], None]
"""Called with how much is done, and with words to stand next to the bar in place of it."""


@contextmanager
def show_progress(what: str, total: int) -> Generator[TellProgress]:
    """Show a bar to a person; nothing where stderr is a file."""
    if not sys.stderr.isatty():
        yield lambda done, words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(what, total=total, words="")
        yield lambda done, words: bars.update(
            bar, completed=done, words=words or f"{done:,} of {total:,}"
        )


def hint_names(what: str, name: str, names: Sequence[str], *, also: Iterable[str] = ()) -> str:
    """A hint that lists the names there are, and the one that was perhaps meant."""
    near = find_near(name, [*names, *also], cutoff=0.5)
    some = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    known = f"{what} there: {some}" if names else f"there are no {what} there"
    return f"did you mean `{near[0]}`? {known}" if near else known
