"""The log: events, the session they make, and the state that is their fold."""

from weft.session.event import Actions, Compaction, Event, Scope, Usage, apply_delta, scope_of
from weft.session.flow import TrustLabel
from weft.session.log import Session, read_session
from weft.session.memory import MemoryStore
from weft.session.store import (
    ArtifactStore,
    Busy,
    Holder,
    Lease,
    SessionInfo,
    SessionKey,
    Store,
    Transaction,
)

__all__ = [
    "Actions",
    "ArtifactStore",
    "Busy",
    "Compaction",
    "Event",
    "Holder",
    "Lease",
    "MemoryStore",
    "Scope",
    "Session",
    "SessionInfo",
    "SessionKey",
    "Store",
    "Transaction",
    "TrustLabel",
    "Usage",
    "apply_delta",
    "read_session",
    "scope_of",
]
