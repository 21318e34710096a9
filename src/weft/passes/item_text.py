"""What an item says, as one text to search in."""

from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    ResultBlock,
    TextBlock,
)
from weft.values import compact


def item_text(item: Item) -> str:
    """Who said it, where it was not the user, and all that can be read in it."""
    author = () if item.author in ("", "user") else (f"{item.author}:",)
    return "\n".join((*author, *filter(None, map(_text, item.blocks))))


def _text(block: Block) -> str:
    match block:
        case TextBlock():
            return block.text
        case CallBlock():
            return f"{block.name} {compact(block.args)}"
        case ResultBlock():
            return "\n".join((f"{block.name} {compact(block.response)}", *map(_text, block.media)))
        case MediaBlock():
            return f"{block.name} {block.mime_type}"
        case CodeBlock():
            return block.code
        case CodeResultBlock():
            return block.output
        case _:
            return ""
