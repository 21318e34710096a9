"""The laws of the IR, checked after every pass.

A request that breaks one would be refused by a provider, or would say something nobody
said; so a pass that breaks one is stopped here, by name.
"""

import msgspec

from weft.errors import InvalidPrompt
from weft.ir.block import CallBlock, ResultBlock, TextBlock
from weft.ir.item import Item
from weft.ir.prompt import Prompt


def verify(prompt: Prompt, *, step: str, before: Prompt | None = None) -> None:
    """Raise if the prompt breaks a law; what it shares with `before` was verified then."""
    shared = before is not None and before.items.memo is prompt.items.memo
    if before is None or before.system is not prompt.system:
        for block in prompt.system:
            if block.role != "system" or not block.text:
                raise _broken(step, f"a system block from {block.origin} is empty or misplaced")
    items = prompt.items
    start = items.settled if shared or not items.settled else items.memo[_Verified].items
    for item in items.tail if start >= items.settled else items.since(start):
        if len(item.blocks) == 1 and type(item.blocks[0]) is TextBlock:
            if item.blocks[0].role == "system" and item.kind != "system":
                raise _broken(step, f"a system block stands among the turns ({item.event})")
        else:
            _verify_item(item, step)
    if start < items.settled:
        items.memo[_Verified].items = items.settled
    if before is None or before.tools is not prompt.tools:
        names = [tool.name for tool in prompt.tools]
        if len(set(names)) != len(names):
            raise _broken(step, "two tools have one name")


class _Verified(msgspec.Struct):
    """How many of a strand's settled items were verified."""

    items: int = 0

    def fork(self, length: int) -> "_Verified":
        return _Verified(min(self.items, length))


def _verify_item(item: Item, step: str) -> None:
    calls: dict[str, str] = {}
    answered: set[str] = set()
    paired = item.kind == "exchange"
    for block in item.blocks:
        if block.role == "system" and item.kind != "system":
            raise _broken(step, f"a system block stands among the turns ({item.event})")
        if not paired:
            continue
        if isinstance(block, CallBlock):
            if block.id in calls:
                raise _broken(step, f"the call id {block.id} occurs twice ({item.event})")
            if block.role != "model" or answered:
                raise _broken(step, f"the call {block.id} is not in the model's turn")
            calls[block.id] = block.name
        elif isinstance(block, ResultBlock):
            if block.call_id not in calls or block.call_id in answered:
                raise _broken(step, f"the result of {block.call_id} has no call before it")
            answered.add(block.call_id)
    if answered != set(calls):
        raise _broken(step, f"a call of {item.event} has no result")


def _broken(step: str, what: str) -> InvalidPrompt:
    return InvalidPrompt(
        what, where=f"pass {step}", hint="this is a bug in the pass, or in a callback's prompt"
    )
