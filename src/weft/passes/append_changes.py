"""Say last what the instruction says differently by now."""

import msgspec

from weft.ir import Item, Note, Prompt
from weft.passes.env import Env


def append_changes(prompt: Prompt, env: Env) -> Prompt:
    """Put what changed in the instruction behind the conversation, where nothing follows it.

    Providers reuse a request up to its first changed byte. So the system text stays as it was
    first sent, and a change costs its own words instead of everything behind it. An answer that
    was paused goes on from its own last words; there the change waits for the next request.

    Before:  system "It is ten." | user "Hi" | model "Hello" | user "And now?"
    After:   system "It is ten." | user "Hi" | ... | user "And now?" | system "Now: It is eleven."
    """
    last = prompt.items.tip
    if not env.changes or last is None or last.kind == "system" or last.blocks[-1].role == "model":
        return prompt
    change = Item(
        kind="system",
        blocks=env.changes,
        author="",
        invocation=env.invocation,
        position=last.last,
        last=last.last,
        event="",
    )
    reason = "the instruction changed; what was sent of it before stays as it was"
    note = Note("append_changes", reason, change, change)
    return msgspec.structs.replace(
        prompt, items=prompt.items.with_tail([change]), notes=(*prompt.notes, note)
    )
