"""What a store knows of the beginning of a long log that nobody has read yet.

A request under a policy with a window needs the end of a log, and its beginning only as far as
that is plain talk. So a store skims the rows of a long log instead of decoding them. What it
learns stands in for them: who spoke, where turns begin, which ids are taken.
"""

import gc
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple, Protocol

from weft.session.event import Event
from weft.session.strand import Folded, Strand


class Skim(NamedTuple):
    """What is known of the first `length` events of a log, all of which are plain talk.

    Plain talk is one text of the user's or of one agent's, or calls of that agent's right before
    their results. It may write state, but an agent deletes none. It reaches back to nothing, and
    leaves nothing open.
    """

    length: int
    authors: frozenset[str]
    asked: int
    """Where the user spoke last."""
    turns: Sequence[int]
    """Where turns begin."""
    calls: Mapping[str, int]
    """Where each call was made, by its id; without those in `older`."""
    invocations: Container[str]
    older: "OlderCalls | None" = None
    """The calls of chapters that are not even in memory, where there are such."""
    produced: frozenset[str] = frozenset()
    """The keys under which answers were stored."""
    volatile: frozenset[str] = frozenset()
    """All keys that the agent and its tools wrote."""

    def calls_before(self, position: int) -> "CallIds":
        """The ids of the calls that were made before a position, as a set of its own."""
        ids = CallIds(id for id, at in self.calls.items() if at < position)
        if self.older is not None:
            self.older.add_to(ids, position)
        return ids


class CallIds(set[str]):
    """Ids of calls. Those in `older` count as well, though nobody has listed them."""

    older: Container[str] = ()

    def __contains__(self, id: object) -> bool:
        return super().__contains__(id) or (isinstance(id, str) and id in self.older)

    def __bool__(self) -> bool:
        return len(self) > 0 or self.older != ()


class OlderCalls(Protocol):
    """The calls of events that a store has not read."""

    def add_to(self, ids: CallIds, position: int) -> None:
        """Add the ids of those before a position."""
        ...


def folded(log: Strand[Event], kind: type[Folded], talk: "Callable[[Skim], Folded]") -> Folded:
    """What a log adds up to; `talk` says what talk that nobody read comes to."""
    if log.memo.get(kind) is None and (skim := skim_of(log)) is not None:
        log.memo[kind] = skim.length, talk(skim)
    return log.derive(kind)


def skim_of(log: Strand[Event]) -> Skim | None:
    """What the store learned of the log's beginning, where the log has it."""
    skim = log.memo.of(Skim)
    return skim if skim is not None and skim.length <= log.settled else None


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """Keep Python from looking for garbage while a long log is read: there is none.

    It would walk over all that was read so far, again and again: a fifth of the time.
    """
    global _pauses
    with _pausing:
        _pauses += 1
        # pauses may overlap in threads: only the last one to end resumes
        was_enabled = gc.isenabled()
        gc.disable()
    try:
        yield
    finally:
        with _pausing:
            _pauses -= 1
            _resume(was_enabled)


def _resume(was_enabled: bool) -> None:
    """Let the collector work again after the last pause, if it did before the first."""
    global _was_enabled
    _was_enabled = _was_enabled or was_enabled
    if not _pauses and _was_enabled:
        _was_enabled = False
        gc.enable()


_pausing = Lock()
_pauses = 0
_was_enabled = False
