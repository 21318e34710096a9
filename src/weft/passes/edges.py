"""Passes at the edges of a request: its opening, its close, the order of its system parts."""

import msgspec

from weft.diagnostics import Origin
from weft.ir import Feature, Item, Note, OpaqueBlock, Prompt, TextBlock
from weft.passes.env import Env, opening_of
from weft.session.strand import Strand


def open_turn(prompt: Prompt, env: Env) -> Prompt:
    """Put a user turn before a first item that speaks as the model.

    Providers want the user to begin. An agent that greets first would otherwise be refused.

    Before:  model "Welcome!" | user "Hi"
    After:   user "(The conversation begins.)" | model "Welcome!" | user "Hi"
    """
    # something is final before these items, so the request has begun already
    if not env.thread.opening or not prompt.items.length:
        return prompt
    first = prompt.items[0]
    if not first.blocks or first.blocks[0].role != "model":
        return prompt
    opening = opening_of(first)
    note = Note("open_turn", "the first turn must be the user's", first, opening)
    items = prompt.items
    # all of it may still change, so nothing is kept
    if not items.settled:
        return prompt.with_strand(Strand[Item]().with_tail([opening, *items.tail]), (note,))
    with items.lock:
        opened = items.memo[_OpenedTurn]
        if opened.read > items.settled:  # an older snapshot is worked out by itself
            opened = _OpenedTurn()
        if not opened.read:
            opened.items = opened.items.grown([opening])
        opened.items = opened.items.grown(items.between(opened.read, items.settled))
        opened.read = items.settled
        return prompt.with_strand(opened.items.with_tail(items.tail), (note,))


class _OpenedTurn:
    """The settled items of a strand behind an opening turn."""

    def __init__(self) -> None:
        self.read = 0
        self.items: Strand[Item] = Strand()


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
        paused = (
            last.paused and isinstance(block, OpaqueBlock) and block.provider == env.model.dialect
        )
        # a paused answer goes back as it is: the provider goes on where it broke off
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
    return prompt.with_strand(prompt.items.with_tail([closing]), (note,))


def append_changes(prompt: Prompt, env: Env) -> Prompt:
    """Put what changed in the instruction behind the conversation, where nothing follows it.

    Providers reuse a request up to its first changed byte. So the system text stays as it was
    first sent, and a change costs its own words instead of everything behind it. An answer that
    was paused goes on from its own last words; there the change waits for the next request.

    Before:  system "It is ten." | user "Hi" | model "Hello" | user "And now?"
    After:   system "It is ten." | user "Hi" | ... | user "And now?" | system "Now: It is eleven."
    """
    last = prompt.items.tip
    if (
        not env.instruction.changes
        or last is None
        or last.kind == "system"
        or last.blocks[-1].role == "model"
    ):
        return prompt
    change = Item(
        kind="system",
        blocks=env.instruction.changes,
        author="",
        invocation=env.invocation,
        position=last.last,
        last=last.last,
        event="",
    )
    reason = "the instruction changed; what was sent of it before stays as it was"
    note = Note("append_changes", reason, change, change)
    return prompt.with_strand(prompt.items.with_tail([change]), (note,))


def order_system(prompt: Prompt, env: Env) -> Prompt:
    """Order the system parts by how often they change, the given order within each class.

    Providers reuse a request up to its first changed byte. A part is volatile because it
    contains a variable or a provider, not because of its name; so an instruction without
    variables keeps the order it was written in.

    Before:  system "It is {time}."  | system "You are bot."
    After:   system "You are bot."   | system "It is {time}."
    """
    if not prompt.features & Feature.UNORDERED:
        return prompt
    ordered = tuple(sorted(prompt.system, key=lambda block: block.stability))
    if ordered == prompt.system:
        return prompt
    return msgspec.structs.replace(prompt, system=ordered)
