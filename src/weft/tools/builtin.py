"""A scratchpad: notes that the model takes, keeps and reads again."""

from typing import cast

from weft.declare.context import ToolContext
from weft.declare.functions import check_choice
from weft.declare.policy_parts import Strategy
from weft.declare.tool import Tool, tool
from weft.declare.transform import noted
from weft.errors import DeclarationError
from weft.values import Json, JsonObject

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
            f"{key!r} is no state key", where="scratchpad", hint='write scratchpad("notes")'
        )
    check_choice("scratchpad", "strategy", strategy, Strategy)

    def write(ctx: ToolContext, note: str = "") -> JsonObject:
        notes: Json = ctx.state.get(key)
        if note.strip():
            value = noted(notes, note.strip(), strategy)
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
