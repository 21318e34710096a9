"""Claude models over Anthropic's Messages API, and every server that speaks it."""

from typing import ClassVar

from weft.dialects.wire import at_path
from weft.models.remote import Remote
from weft.models.services import ANTHROPIC
from weft.values import JsonObject

# The version of the API: sent with every request, unless the caller's headers name another.
VERSION = "2026-10-21"

_FIELDS: dict[str, str] = {
    "compaction": "compact-2026-09-04",
    "context_management": "context-management-2025-06-27",
    "fallbacks": "server-side-fallback-2026-07-01",
    "fallback_credit_token": "fallback-credit-2026-07-01",
    "mcp_servers": "mcp-client-2026-09-15",
    "output_config.task_budget": "task-budgets-2026-03-13",
    "thinking.block_binding": "thinking-binding-controls-2026-08-01",
    "thread": "message-threads-2026-08-12",
}
"""Fields of a request that are still in beta, and the name of each beta."""

_TOOLS: dict[str, str] = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "code_execution_20250522": "code-execution-2025-05-22",
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "mcp_toolset": "mcp-client-2026-09-15",
}
"""Types of the provider's own tools that are still in beta."""

_MARKS: dict[bytes, str] = {
    b'"source":{"type":"file"': "files-api-2025-04-14",
    b'"clear_at":"next_user_message"': "mid-conversation-system-clear-at-2026-08-21",
    b'{"type":"tool_addition"': "mid-conversation-tool-changes-2026-07-01",
    b'{"type":"tool_removal"': "mid-conversation-tool-changes-2026-07-01",
    b'"type":"compact_20260112"': "compact-2026-01-12",
}
"""What stands in the turns; inside a text the quotes would be escaped."""


class Anthropic(Remote):
    """A Claude model: `Anthropic("claude-sonnet-5")`.

    The key is read from ANTHROPIC_API_KEY, or a token from ANTHROPIC_AUTH_TOKEN, unless it is
    given. For Bedrock and Vertex pass their client: `client=anthropic.AsyncAnthropicBedrock()`.
    """

    vendor: ClassVar = "anthropic"
    service = ANTHROPIC
    dialect = "anthropic"

    def _path(self, model: str, *, stream: bool) -> str:
        # some servers are named with the version in their address, as OpenAI's are
        return "/messages" if self.address.endswith("/v1") else "/v1/messages"

    def _own_headers(self, wire: JsonObject, body: bytes) -> dict[str, str]:
        names = betas(wire, body)
        if asked_for := self._headers.get("anthropic-beta"):
            names += [each.strip() for each in asked_for.split(",")]
        headers = {"anthropic-version": self._headers.get("anthropic-version", VERSION)}
        if names:
            headers["anthropic-beta"] = ",".join(dict.fromkeys(names))
        return headers


def betas(wire: JsonObject, body: bytes) -> list[str]:
    """The betas that a request asks for by what it holds."""
    names = [name for field, name in _FIELDS.items() if at_path(wire, field) is not None]
    tools = wire.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind in _TOOLS:
            names.append(_TOOLS[kind])
    # the body is searched as bytes: to walk through all turns would take longer
    names += [name for mark, name in _MARKS.items() if mark in body]
    return names
