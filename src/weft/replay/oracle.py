"""A bound: what a recording would cost if somebody had known what each result is used for.

The oracle has read the recording to its end. Of each result it shows the lines that a later step
used or changed, when the result is new, and nothing else. No policy can know that much, so no
policy that reduces results at birth costs less and keeps as much in view, except where the oracle's
requests become too short to be cached. It is a bound for that alone: what was said, the
instructions and the tools stay as they are.
"""

from collections.abc import Callable, Sequence

import msgspec

from weft.ir import Block, Item, Note, Prompt, ResultBlock
from weft.ir.item import handle_of
from weft.ir.rewrite import map_blocks, rewrite_items
from weft.passes.env import Env
from weft.replay.uses import Uses, spelled
from weft.session import Event
from weft.values import Json

ORACLE = "oracle"
"""What its row is called."""

_GAP = "…"


def knowing_pass(events: Sequence[Event], uses: Uses) -> Callable[[Prompt, Env], Prompt]:
    """A pass that leaves of each result of a log what later steps used of it."""
    short = _used_of(events, uses)

    def show_used(prompt: Prompt, env: Env) -> Prompt:
        """Leave of each result what later steps used of it."""

        def block_of(block: Block) -> Block:
            text = short.get((block.origin.name, block.origin.part))
            if text is None or not isinstance(block, ResultBlock):
                return block
            if len(text) >= len(spelled(block.response)):
                return block
            return msgspec.structs.replace(block, response={"result": text})

        def change(item: Item, _: None) -> Item | Note:
            after = map_blocks(item, block_of)
            reason = "what later steps used of it"
            return item if after is item else Note("show_used", reason, item, after)

        return rewrite_items(prompt, "show_used", change, key=env.agent)

    return show_used


def _used_of(events: Sequence[Event], uses: Uses) -> dict[tuple[str, int], str]:
    """What later steps use of each result, by its place in the log."""
    short: dict[tuple[str, int], str] = {}
    earlier: list[str] = []
    for index, event in enumerate(events):
        later = [one for at, strings in uses.by_event.items() if at > index for one in strings]
        for at, part in enumerate((event.content.parts if event.content else None) or ()):
            if part.function_response is None or not part.function_response.response:
                continue
            value: Json = part.function_response.response
            edits = [
                line
                for place, edit in uses.edits.items()
                if place > index and edit.handle == handle_of(value)
                for line in edit.lines
            ]
            text = _lines_with(spelled(value), dict.fromkeys(later), edits, earlier)
            short[event.id or "", at] = text
            earlier.append(text)
    return short


def _lines_with(text: str, strings: dict[str, None], edits: list[str], earlier: list[str]) -> str:
    """The lines of a text that have these strings, unless they were shown before, and the edits.

    Of a text in one line only the strings are left.
    """
    missing = [one for one in strings if one in text and not any(one in old for old in earlier)]
    lines = text.split("\n")
    if len(lines) == 1:
        return " ".join([*missing, _GAP])
    changed = set(edits)
    chosen = {place for place, line in enumerate(lines) if line in changed}
    for string in missing:
        holding = [place for place, line in enumerate(lines) if string in line]
        if holding and not chosen.intersection(holding):
            chosen.add(min(holding, key=lambda place: len(lines[place])))
    rows: list[str] = []
    last = -1
    for place in sorted(chosen):
        rows += [_GAP, lines[place]] if place > last + 1 else [lines[place]]
        last = place
    return "\n".join([*rows, _GAP] if last < len(lines) - 1 else rows)
