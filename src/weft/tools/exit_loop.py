"""The tool with which a model ends the loop it runs in."""

from weft.declare.context import ToolContext
from weft.declare.tool import tool


@tool(effect="pure")
def exit_loop(ctx: ToolContext) -> dict[str, str]:
    """End the loop. Call this only when the work is done and no further round is needed."""
    ctx.actions.escalate = True
    ctx.actions.skip_summarization = True
    return {"result": "the loop ends"}
