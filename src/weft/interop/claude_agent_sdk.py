"""Claude Agent SDK: `ClaudeAgentOptions(**WeftHooks().options)` shortens what tools return.

The SDK has no hook on requests, so a result is shortened when it is new, before the model reads it.
`recall` is a tool of the SDK. To have whole requests compacted, let them go through a proxy.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from weft.compaction.compact import protects, recall_decl
from weft.declare.policy import Policy
from weft.errors import DeclarationError
from weft.interop.hosts import (
    Host,
    HostCall,
    HostCompactor,
    spell_answer,
    spell_result,
    spell_user,
    text_of,
)
from weft.ir.block import RECALL
from weft.values import Json, JsonObject

_HOST = Host("claude-agent-sdk", "WeftHooks")

_SERVER = "weft"

_MOST_SESSIONS = 64

_Path: TypeAlias = tuple[str | int, ...]


class WeftHooks:
    """Hooks and a tool for `ClaudeAgentOptions`; `options` has all of it.

    `compactor` has the numbers: what was compacted, and what was left as it is.
    """

    def __init__(self, context: Policy | None = None, *, model: str = "") -> None:
        if context is not None and protects(context):
            raise DeclarationError(
                "hooks see results alone, so what the policy keeps away would be sent elsewhere",
                where=_HOST.adapter,
                hint="let the requests go through `weft proxy --redact email`, and leave it out",
            )
        self.compactor = HostCompactor(context, where=_HOST.adapter)
        self.model = model
        self._sessions: OrderedDict[str, list[JsonObject]] = OrderedDict()

    @property
    def options(self) -> dict[str, object]:
        """What goes into `ClaudeAgentOptions`; merge it with hooks and servers of your own."""
        matcher = _HOST.find("claude_agent_sdk", "HookMatcher")
        return {
            "hooks": {
                "UserPromptSubmit": [matcher(hooks=[self.note_prompt])],
                "PostToolUse": [matcher(hooks=[self.shorten_result])],
            },
            "mcp_servers": {_SERVER: self._make_server()},
            "allowed_tools": [f"mcp__{_SERVER}__{RECALL}"],
        }

    def _make_server(self) -> object:
        tool = _HOST.find("claude_agent_sdk", "tool")
        declared = recall_decl()
        declare = tool(RECALL, declared.description, declared.parameters)

        async def answer(arguments: Mapping[str, Json]) -> dict[str, object]:
            return {"content": [{"type": "text", "text": self.compactor.recall(**arguments)}]}

        make = _HOST.find("claude_agent_sdk", "create_sdk_mcp_server")
        return make(_SERVER, tools=[cast("Callable[[object], object]", declare)(answer)])

    async def note_prompt(
        self, hook_input: Mapping[str, object], tool_use_id: str | None, context: object
    ) -> dict[str, object]:
        """Remember what the user asks for: a digest keeps what fits it."""
        self._messages(hook_input).append(spell_user(str(hook_input.get("prompt") or "")))
        return {}

    async def shorten_result(
        self, hook_input: Mapping[str, object], tool_use_id: str | None, context: object
    ) -> dict[str, object]:
        """Replace the text of a new result in the shape that its tool gave it."""
        name = str(hook_input.get("tool_name"))
        response = cast("Json", hook_input.get("tool_response"))
        path = _longest_text(response)
        if path is None or name.endswith(f"__{RECALL}"):
            return {}
        messages = self._messages(hook_input)
        id = str(hook_input.get("tool_use_id") or tool_use_id or len(messages))
        messages.append(spell_answer("", [HostCall(id, name, hook_input.get("tool_input"))]))
        messages.append(spell_result(id, str(_text_at(response, path))))
        outcome = self.compactor.compact([*messages], model=self.model, recalls=True)
        if outcome is None:
            return {}
        now = cast("dict[str, list[Json]]", outcome.request)["messages"][-1]
        if now is messages[-1]:
            return {}
        updated = _with_text(response, path, text_of(now))
        output: JsonObject = {"hookEventName": "PostToolUse", "updatedToolOutput": updated}
        return {"hookSpecificOutput": output}

    def _messages(self, hook_input: Mapping[str, object]) -> list[JsonObject]:
        """What was said and returned in a session so far; that of the oldest is forgotten."""
        id = str(hook_input.get("session_id"))
        messages = self._sessions.setdefault(id, [])
        self._sessions.move_to_end(id)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return messages


def _longest_text(value: Json, path: _Path = ()) -> _Path | None:
    """The way to the longest text in a result; None where there is none."""
    longest: tuple[int, _Path] = (0, ())
    waiting: list[tuple[_Path, Json]] = [((), value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, str):
            longest = max(longest, (len(one), path), key=lambda pair: pair[0])
        elif isinstance(one, dict):
            waiting += [((*path, key), inner) for key, inner in one.items()]
        elif isinstance(one, list):
            waiting += [((*path, at), inner) for at, inner in enumerate(one)]
    return longest[1] if longest[0] else None


def _text_at(value: Json, path: _Path) -> Json:
    for key in path:
        value = cast("dict[str | int, Json]", value)[key]
    return value


def _with_text(value: Json, path: _Path, words: str) -> Json:
    """A copy of a result with another text at a place."""
    if not path:
        return words
    if isinstance(value, dict):
        return {**value, str(path[0]): _with_text(value[str(path[0])], path[1:], words)}
    listed = cast("list[Json]", value)
    return [
        _with_text(one, path[1:], words) if at == path[0] else one for at, one in enumerate(listed)
    ]
