"""How a run leaves a node other than by finishing it. None of these reaches the user."""

from weft.session import Event


class NodeFailed(Exception):
    """A node ended with an error event, which the log has; `cause` is what user code raised."""

    def __init__(self, event: Event, cause: Exception | None = None) -> None:
        super().__init__(event.error_message)
        self.event = event
        self.cause = cause


class Suspended(Exception):
    """The invocation waits for an answer from outside; it goes on when that is in the log."""


class Interrupted(Exception):
    """A later run of the session asked for it."""
