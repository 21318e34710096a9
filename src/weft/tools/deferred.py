"""Tools that requests leave out: the model finds them, and calls them by name.

A large listing costs its tokens in every request. Two tools stand for all of it: `find_tools`
answers the declarations that fit a query, `call_tool` calls one of them. Neither changes while
the listing stays, so what the provider has read of a request is not read again.
"""

from collections.abc import Sequence

from weft.declare.tool import Tool
from weft.passes.tools import score_by_words
from weft.values import Json, JsonObject

FIND = "find_tools"
CALL = "call_tool"

_MOST_FOUND = 5
"""How many declarations one search answers."""

_MOST_NAMES = 200
"""How many names of tools the description lists."""


def search_tools(tools: Sequence[Tool]) -> tuple[Tool, Tool]:
    """The tool that finds those that are deferred, and the one that calls them."""
    deferred = [tool for tool in tools if tool.deferred]
    servers = ", ".join(sorted({tool.source[0] for tool in deferred if tool.source}))
    names = ", ".join(tool.name for tool in deferred[:_MOST_NAMES])
    more = f" and {len(deferred) - _MOST_NAMES} more" if len(deferred) > _MOST_NAMES else ""
    by_name = {tool.name: tool for tool in deferred}

    async def find_tools(query: str) -> JsonObject:
        wanted = query.strip()
        if wanted in by_name:
            return {"tools": [_declaration(by_name[wanted])]}
        scores = score_by_words(wanted, deferred)
        ranked = sorted(range(len(deferred)), key=lambda at: -scores[at])
        best = [deferred[at] for at in ranked[:_MOST_FOUND] if scores[at] > 0]
        if not best:
            return {"tools": [], "note": f"nothing fits; the names are: {names}{more}"}
        return {"tools": [_declaration(tool) for tool in best]}

    untrusted = any(tool.untrusted for tool in deferred)
    find = Tool(
        name=FIND,
        description=f"Find tools to call with {CALL}: what they do and which arguments they take."
        f" There are {len(deferred)} of {servers}: {names}{more}.",
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What is to be done."}},
            "required": ["query"],
        },
        function=find_tools,
        effect="pure",
        untrusted=untrusted,
        trust="untrusted" if untrusted else "trusted",
    )
    call = Tool(
        name=CALL,
        description=f"Call a tool that {FIND} answered.",
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "arguments": {"type": "object", "additionalProperties": True},
            },
            "required": ["name", "arguments"],
        },
        untrusted=untrusted,
        dispatches=True,
    )
    return find, call


def _declaration(tool: Tool) -> Json:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
