"""Put what stays before what changes."""

import msgspec

from weft.ir import Feature, Prompt
from weft.passes.env import Env


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
