"""The log: events, the session they make, and the state that is their fold."""

from weft.session.event import Actions, Compaction, Event, Usage
from weft.session.log import Session, read_session
from weft.session.state import Scope, apply_delta, scope_of

__all__ = [
    "Actions",
    "Compaction",
    "Event",
    "Scope",
    "Session",
    "Usage",
    "apply_delta",
    "read_session",
    "scope_of",
]
