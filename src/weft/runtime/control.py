"""How others reach a run that is under way: they stop it, hand it over, or hear that it is open."""

import asyncio
from collections.abc import Awaitable, Callable


class RunControl:
    """Whether a run is open, and whether somebody asked it to stop."""

    task: asyncio.Task[object] | None = None
    """The task that works for the run; None while whoever iterates it has its turn."""
    asked_to_stop = False
    interrupted = False
    """Whether a later run asked this one to stop, and it could be told."""
    is_open = False
    is_handed_over = False
    """Whether the run stops here so that somebody else goes on with it."""
    has_let_go = False
    """Whether the run is over, and others can have the session."""
    earlier: "RunControl | None" = None
    """That of the run that was cut off before this one and is finished first."""
    opened: Callable[[], None] | None = None
    """Whom to tell that the session is open and has the message."""
    may_create: Callable[[], Awaitable[bool]] | None = None
    """Asked, under the lease, before a session is made that does not exist."""
    follower: str | None = None
    """A process that follows it from the beginning, as the relay of the store names it."""
    _is_cancelled = False

    def interrupt(self) -> None:
        """Stop as soon as possible: at once while a model or a tool is waited for."""
        self.asked_to_stop = True
        if self.earlier is not None:
            self.earlier.interrupt()
        # before it is open nothing is under way: the run looks at `asked_to_stop` then
        if self.is_open and not self.interrupted:
            self.interrupted = True
            # without a task the reader has its turn, and looks at `interrupted` itself
            if self.task is not None:
                self._is_cancelled = self.task.cancel()

    def hand_over(self) -> None:
        """Leave the log as a crash would, once the run is cancelled: somebody else goes on."""
        self.is_handed_over = True
        if self.earlier is not None:
            self.earlier.is_handed_over = True

    def take_back(self) -> bool:
        """Take back that the task was cancelled for a later run; False if it was for another."""
        task = asyncio.current_task()
        return self._is_cancelled and task is not None and not task.uncancel()
