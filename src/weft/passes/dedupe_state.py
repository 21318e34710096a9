"""Drop transcript text the instruction already carries."""

from msgspec.structs import replace

from weft.diagnostics import Origin
from weft.ir import Feature, Item, Note, Prompt, TextBlock, ThoughtBlock
from weft.passes.env import Env
from weft.values import Json, spells

GIVEN = "(My message is given above.)"
"""What a turn of the user's says whose words stand in the instruction."""


def dedupe_state(prompt: Prompt, env: Env) -> Prompt:
    """Remove an answer whose value was substituted into the instruction.

    An upstream answer stored under a key, or in the list of a map, reaches the next agent twice:
    as a turn and inside `{key}`. The instruction wins, because it is shorter and says what it is.
    The user's own words that were captured stay a turn of the user's, which only says where they
    are: a request needs one, and the next request has it in the same place.

    Before:  system "Intent: booking" | user "Fly me to Oslo" | model "booking"
    After:   system "Intent: booking" | user "Fly me to Oslo"
    """
    if env.policy.duplicates or not env.carried:
        return prompt
    if not prompt.features & Feature.WROTE and not env.captured:
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    carried = [one for value in env.carried.values() for one in _each(value)]
    texts = {value.strip() for value in carried if isinstance(value, str)}
    only_texts = all(isinstance(value, str) for value in carried)
    for item in prompt.items:
        if env.captured and item.kind == "user" and item.author == "user":
            kept.append(_referring(item, env, notes))
            continue
        said, key = _said(item) if item.wrote else None, ""
        if said is not None and (said.strip() in texts or not only_texts):
            key = _carried(item, said, env)
        if key:
            notes.append(Note("dedupe_state", f"the instruction carries it as {{{key}}}", item))
        else:
            kept.append(item)
    return prompt.with_items(kept, notes) if notes else prompt


def _referring(item: Item, env: Env, notes: list[Note]) -> Item:
    """What the user said; without the words, where the instruction carries them."""
    text = "".join(block.text for block in item.blocks if isinstance(block, TextBlock))
    key = next((key for key in sorted(env.captured) if spells(text, env.carried[key])), "")
    if not key or not text:
        return item
    others = [block for block in item.blocks if not isinstance(block, TextBlock)]
    origin = Origin("pass", "dedupe_state")
    told = replace(item, blocks=(TextBlock(role="user", origin=origin, text=GIVEN), *others))
    notes.append(Note("dedupe_state", f"the instruction carries it as {{{key}}}", item, told))
    return told


def _said(item: Item) -> str | None:
    """All that an item says, where it is an answer."""
    blocks = item.blocks
    if item.kind != "model":
        return None
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    if not all(isinstance(block, TextBlock | ThoughtBlock) for block in blocks):
        return None
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def _carried(item: Item, said: str, env: Env) -> str:
    """The key under which the instruction carries what this item says, if there is one."""
    names = dict.fromkeys((*item.wrote, *env.carried))  # it may have been renamed since
    for key in names:
        if key in env.carried and any(spells(said, one) for one in _each(env.carried[key])):
            return key
    return ""


def _each(value: Json) -> list[Json]:
    """A value, and where it is a list, as of a map, what is in it."""
    return [value, *value] if isinstance(value, list) else [value]
