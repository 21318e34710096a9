"""Passes: pure functions Prompt -> Prompt, grouped by what they do to a request.

Also all that the author of a pass needs: the prompt and what it is made of, and what helps to
change it.
"""

from weft.diagnostics import Origin
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    Note,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    Stability,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.passes.custom import add_system, add_turn, drop_items
from weft.passes.env import Env, SizePart, Sizes
from weft.passes.pipeline import names_of, run
from weft.passes.rewrite import PassFold, keep_since, map_blocks, map_texts, rewrite_items
from weft.passes.union import Pass, Step, Views, name_of
from weft.passes.verbs import ON_FRESH, ON_REQUEST, PLAIN, Passes, passes_of

__all__ = [
    "ON_FRESH",
    "ON_REQUEST",
    "PLAIN",
    "Block",
    "CallBlock",
    "CodeBlock",
    "CodeResultBlock",
    "Env",
    "Item",
    "MediaBlock",
    "Note",
    "OpaqueBlock",
    "Origin",
    "Pass",
    "PassFold",
    "Passes",
    "Prompt",
    "ResultBlock",
    "SizePart",
    "Sizes",
    "Stability",
    "Step",
    "TextBlock",
    "ThoughtBlock",
    "ToolDecl",
    "Views",
    "add_system",
    "add_turn",
    "drop_items",
    "keep_since",
    "map_blocks",
    "map_texts",
    "name_of",
    "names_of",
    "passes_of",
    "rewrite_items",
    "run",
]
