"""Tools with which a model uses the memory of its user: `load_memory` and `remember`.

Both reach only the memory of the user whose session it is; the model cannot name another.
"""

from datetime import UTC, datetime

from weft.declare.context import Recollection, ToolContext
from weft.declare.tool import tool
from weft.values import Json, JsonObject


@tool(effect="pure")
async def load_memory(query: str, ctx: ToolContext) -> JsonObject:
    """Search what is known of this user from earlier conversations.

    Args:
        query: What to look for, in a few words.
    """
    memories = await ctx.find_memories(query)
    listed: list[Json] = [_listed(one) for one in memories]
    return {"memories": listed} if listed else {"memories": [], "note": "nothing fits the query"}


@tool(effect="idempotent")
async def remember(fact: str, ctx: ToolContext) -> JsonObject:
    """Keep a fact about this user for later conversations.

    Args:
        fact: One sentence that can be understood by itself.
    """
    return {"remembered": await ctx.remember(fact)}


def _listed(one: Recollection) -> JsonObject:
    listed: JsonObject = {"text": one.text, "by": one.author}
    if one.at > 0:
        listed["on"] = f"{datetime.fromtimestamp(one.at, UTC):%Y-%m-%d}"
    return listed
