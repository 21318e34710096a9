"""Offer the tool that gets back what handles stand for."""

import msgspec

from weft.ir import Prompt, ResultBlock, TextBlock
from weft.passes.env import Env


def offer_recall(prompt: Prompt, env: Env) -> Prompt:
    """Add `recall` to the tools of a request in which a handle stands.

    An agent with tools, whose policy makes handles, has it from its first request on, so that the
    head of the request never changes. One without tools gets it when something is hidden first,
    and so does one whose policy only refers to what stands in view.

    Before:  tools - | call read(a) -> 90 lines | call read(a) -> "[the same as ..., handle h]"
    After:   tools recall | call read(a) -> 90 lines | call read(a) -> "[the same as ..., handle h]"
    """
    tool = env.recall
    if tool is None or any(one.name == tool.name for one in prompt.tools):
        return prompt
    for item in prompt.items:
        for block in item.blocks:
            if isinstance(block, ResultBlock | TextBlock) and (block.handle or block.refers):
                return msgspec.structs.replace(prompt, tools=(*prompt.tools, tool))
    return prompt
