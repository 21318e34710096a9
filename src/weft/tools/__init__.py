"""Tools that come with Weft, and those that a provider runs itself.

Small ones are here: notes in the state, the memory of the user, the end of a loop. `python.py` has
the one that runs code in an interpreter of its own, `cpython.py` the one that runs full Python.
`mcp.py`, `openapi.py` and `skills.py` have those of servers, of HTTP services and of folders, and
`a2a.py` agents of others.
"""

from datetime import UTC, datetime
from typing import cast

from weft.declare.context import Recollection, ToolContext
from weft.declare.functions import check_choice
from weft.declare.notes import apply_note
from weft.declare.policy_parts import Strategy
from weft.declare.provider_tools import CodeExecution, FileSearch, ProviderTool, WebFetch, WebSearch
from weft.declare.tool import Tool, tool
from weft.errors import DeclarationError
from weft.tools.a2a import A2A
from weft.tools.cpython import CPythonTool
from weft.tools.mcp import MCP
from weft.tools.openapi import OpenAPI
from weft.tools.python import PythonTool
from weft.tools.skills import AgentsFile, Skills
from weft.values import Json, JsonObject

__all__ = [
    "A2A",
    "MCP",
    "AgentsFile",
    "CPythonTool",
    "CodeExecution",
    "FileSearch",
    "OpenAPI",
    "ProviderTool",
    "PythonTool",
    "Skills",
    "WebFetch",
    "WebSearch",
    "exit_loop",
    "load_memory",
    "remember",
    "scratchpad",
]


_ABOUT = {
    "append": "Each note is added to those before.",
    "replace": "A note takes the place of the one before.",
    "merge": "A note is a JSON object or list, which is merged into those before.",
    "checklist": "A note is lines `- [ ] to do` or `- [x] done`; a line that is there is updated.",
}


def scratchpad(
    key: str = "notes", *, strategy: Strategy = "append", name: str = "scratchpad"
) -> Tool:
    """A tool with which a model takes notes under a state key; `C.notes(key)` shows them."""
    if not isinstance(cast("object", key), str) or not key.strip():
        raise DeclarationError(
            f"{key!r} is not a state key", where="scratchpad", hint='write scratchpad("notes")'
        )
    check_choice("scratchpad", "strategy", strategy, Strategy)

    def write(ctx: ToolContext, note: str = "") -> JsonObject:
        notes: Json = ctx.state.get(key)
        if note.strip():
            value = apply_note(notes, note.strip(), strategy)
            if value is None:
                return {
                    "error": "the note has no line `- [ ] text` or `- [x] text`",
                    "notes": notes,
                }
            ctx.state[key] = notes = value
        return {"notes": notes}

    about = (
        f"Take a note that you will need later, and read all notes back. {_ABOUT[strategy]}"
        " Without a note it only reads."
    )
    writer = tool(
        name=name, description=about, reads=[key], writes=[key], sequential=True, effect="pure"
    )
    return writer(write)


@tool(effect="pure")
def exit_loop(ctx: ToolContext) -> dict[str, str]:
    """End the loop. Call this only when the work is done and no further round is needed."""
    ctx.actions.escalate = True
    ctx.actions.skip_summarization = True
    return {"result": "the loop ends"}


# The memory tools reach only the user whose session it is; the model cannot name another.


@tool(effect="pure")
async def load_memory(query: str, ctx: ToolContext) -> JsonObject:
    """Search what is known of this user from earlier conversations.

    Args:
        query: What to look for, in a few words.
    """
    memories = await ctx.find_memories(query)
    listed: list[Json] = [_recollection_json(one) for one in memories]
    return {"memories": listed} if listed else {"memories": [], "note": "nothing fits the query"}


@tool(effect="idempotent")
async def remember(fact: str, ctx: ToolContext) -> JsonObject:
    """Keep a fact about this user for later conversations.

    Args:
        fact: One sentence that can be understood by itself.
    """
    return {"remembered": await ctx.remember(fact)}


def _recollection_json(one: Recollection) -> JsonObject:
    listed: JsonObject = {"text": one.text, "by": one.author}
    if one.at > 0:
        listed["on"] = f"{datetime.fromtimestamp(one.at, UTC):%Y-%m-%d}"
    return listed
