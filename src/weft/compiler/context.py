"""What an instruction provider is handed: the state, the log and who is asked, read-only."""

from collections.abc import Mapping
from types import MappingProxyType

from weft.content import Content
from weft.session import Event
from weft.values import Json, Strand, require_object


class ReadonlyContext:
    """What an instruction provider may look at: who is asked, the state, the log."""

    __slots__ = ("agent_name", "artifacts", "events", "invocation_id", "state", "user_content")

    def __init__(
        self,
        *,
        agent_name: str = "",
        state: Mapping[str, Json] | None = None,
        events: Strand[Event] | None = None,
        invocation_id: str = "",
        user_content: Content | None = None,
        artifacts: Mapping[str, str] | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.state: Mapping[str, Json] = MappingProxyType(dict(state or {}))
        self.events: Strand[Event] = events if events is not None else Strand()
        self.invocation_id = invocation_id
        self.user_content = user_content
        self.artifacts: Mapping[str, str] = MappingProxyType(dict(artifacts or {}))

    def apart(self) -> "ReadonlyContext":
        """A copy whose state shares nothing with the session's, however deep one reaches in."""
        return ReadonlyContext(
            agent_name=self.agent_name,
            state=require_object(self.state, where="state"),
            events=self.events,
            invocation_id=self.invocation_id,
            user_content=self.user_content,
            artifacts=self.artifacts,
        )
