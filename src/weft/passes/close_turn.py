"""Let a request end with something to answer."""

import msgspec

from weft.diagnostics import Origin
from weft.ir import Item, Note, OpaqueBlock, Prompt, TextBlock
from weft.passes.env import Env

CONTINUE = "Continue."


def close_turn(prompt: Prompt, env: Env) -> Prompt:
    """Put a user turn after a last item that speaks as the model, or where there is no item.

    A request that ends with the model's own words is a prefill: some providers refuse it, the
    others go on in mid-sentence. It happens when a loop asks an agent again with nothing new.
    A turn that was paused at a part of the provider's own goes on from there.

    Before:  user "Write" | model "A draft"
    After:   user "Write" | model "A draft" | user "Continue."
    """
    last = prompt.items.tip
    if last is not None and last.blocks:
        block = last.blocks[-1]
        paused = last.paused and isinstance(block, OpaqueBlock) and block.provider == env.dialect
        if block.role == "user" or paused:
            return prompt
    origin = Origin("pass", "close_turn")
    closing = Item(
        kind="user",
        blocks=(TextBlock(role="user", origin=origin, text=CONTINUE),),
        author="",
        invocation=env.invocation,
        position=last.last if last is not None else 0,
        last=last.last if last is not None else 0,
        event="",
    )
    note = Note("close_turn", "a request ends with the user's turn", last or closing, closing)
    return msgspec.structs.replace(
        prompt, items=prompt.items.with_tail([closing]), notes=(*prompt.notes, note)
    )
