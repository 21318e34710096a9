"""The IR: one request as a frozen value, made of blocks that know where they came from."""

from weft.ir.block import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    MediaBlock,
    OpaqueBlock,
    Reference,
    ResultBlock,
    Role,
    Span,
    Stability,
    TextBlock,
    ThoughtBlock,
    pair_blocks,
)
from weft.ir.item import Item, ItemKind, ModelResponse, Note, Want, WantKind
from weft.ir.prompt import Feature, Output, Prompt, ToolDecl, verify

__all__ = [
    "Block",
    "CallBlock",
    "CodeBlock",
    "CodeResultBlock",
    "Feature",
    "Item",
    "ItemKind",
    "MediaBlock",
    "ModelResponse",
    "Note",
    "OpaqueBlock",
    "Output",
    "Prompt",
    "Reference",
    "ResultBlock",
    "Role",
    "Span",
    "Stability",
    "TextBlock",
    "ThoughtBlock",
    "ToolDecl",
    "Want",
    "WantKind",
    "pair_blocks",
    "verify",
]
