"""Tell an agent what other agents said, in words it cannot mistake for its own."""

import msgspec

from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Feature,
    Item,
    MediaBlock,
    Note,
    Prompt,
    ResultBlock,
    Stability,
    TextBlock,
)
from weft.passes.env import Env
from weft.values import compact

_ELIDED = ("transfer_to_agent",)


def attribute_foreign(prompt: Prompt, env: Env) -> Prompt:
    """Turn another agent's items into user-side text under its name.

    Roles belong to the agent that is asked: a peer's turn sent as `model` would be taken for its
    own words. Calls and results are narrated; thoughts, and the hand-over itself, are left out.

    Before:  model(planner) thought "hm" | model(planner) "Take the train"
    After:   user "[planner]: Take the train"
    """
    if not prompt.features & Feature.FOREIGN:
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if item.author in ("user", env.agent) or item.kind in ("summary", "results", "state"):
            kept.append(item)
            continue
        blocks = _narrated(item)
        if blocks:
            told = msgspec.structs.replace(item, kind="foreign", blocks=blocks)
            notes.append(Note("attribute_foreign", f"it is {item.author}'s", item, told))
            kept.append(told)
        else:
            reason = f"{item.author} only thought or handed over"
            notes.append(Note("attribute_foreign", reason, item))
    return prompt.with_items(kept, notes) if notes else prompt


def _narrated(item: Item) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for block in item.blocks:
        if isinstance(block, MediaBlock):
            blocks.append(msgspec.structs.replace(block, role="user"))
            continue
        line = _line(item.author, block)
        if line:
            blocks.append(
                TextBlock(
                    role="user",
                    origin=block.origin,
                    text=line,
                    stability=Stability.TURN,
                    priority=block.priority,
                    labels=block.labels,
                    refers=block.refers if isinstance(block, TextBlock | ResultBlock) else (),
                    handle=block.handle if isinstance(block, TextBlock | ResultBlock) else "",
                )
            )
            if isinstance(block, ResultBlock):
                blocks.extend(block.media)
    return tuple(blocks)


def _line(author: str, block: Block) -> str:
    match block:
        case TextBlock():
            return f"[{author}]: {block.text}"
        case CallBlock() if block.name not in _ELIDED:
            return f"[{author}] called {block.name}({compact(block.args)})"
        case ResultBlock() if block.name not in _ELIDED and not block.synthetic:
            return f"[{author}] {block.name} returned {compact(block.response)}"
        case CodeBlock():
            return f"[{author}] ran code:\n{block.code}"
        case CodeResultBlock():
            return f"[{author}] code gave {block.outcome}:\n{block.output}"
        case _:
            return ""
