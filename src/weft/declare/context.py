"""What a tool is handed when it asks for it."""

from weft.values import Json


class ToolContext:
    """What a tool is handed when it declares a parameter of this type.

    The parameter never appears in the tool's schema.
    """

    __slots__ = ("agent_name", "call_id", "invocation_id", "state")

    def __init__(
        self,
        *,
        agent_name: str = "",
        call_id: str = "",
        invocation_id: str = "",
        state: dict[str, Json] | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.call_id = call_id
        self.invocation_id = invocation_id
        self.state: dict[str, Json] = state if state is not None else {}
