"""An editor: the client side of `weft acp`, written with the official SDK."""

from typing import Any

import acp
from acp import schema


class Editor(acp.Client):
    """An editor that keeps what it is shown, and answers as it is told."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.asked: list[schema.ToolCallUpdate] = []
        self.answer = "allow"

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.shown.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        assert [one.option_id for one in options] == ["allow", "reject"]
        outcome: Any = schema.DeniedOutcome(outcome="cancelled")
        if self.answer != "cancelled":
            outcome = schema.AllowedOutcome(option_id=self.answer, outcome="selected")
        return schema.RequestPermissionResponse(outcome=outcome)

    def take(self) -> list[tuple[str, str]]:
        """What was shown since the last look: kinds, with texts and states."""
        shown, self.shown = self.shown, []
        return [
            (one.session_update, one.content.text if hasattr(one.content, "text") else one.status)
            for one in shown
        ]
