"""Show how far a fetch of weights is, on stderr: a bar for a person, lines for a log."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from weft.models.weights import Progress


@contextmanager
def progress_bar() -> Generator[Progress]:
    """What `weights.get` tells is shown until this is left."""
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    )  # fmt: skip
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, int] = {}

        def tell(what: str, done: int, total: int) -> None:
            task = tasks.get(what)
            if task is None:
                task = tasks[what] = bars.add_task(what, total=total)
            bars.update(bars.task_ids[task], completed=done, total=total)

        yield tell


class _Lines:
    """One line for each thing that begins: a log wants no bars."""

    def __init__(self) -> None:
        self._seen = ""

    def tell(self, what: str, done: int, total: int) -> None:
        """Say that something new begins."""
        if what != self._seen:
            self._seen = what
            print(f"weft: {what}: {total / 1e6:,.0f} MB", file=sys.stderr)
