"""Choose the tool for a model that is too small to choose itself."""

import msgspec

from weft.diagnostics import Origin
from weft.ir import Item, Note, Prompt, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.values import Json


def prune_tools(prompt: Prompt, env: Env) -> Prompt:
    """Say which tool is to be called, or that none is, where the model cannot tell.

    A small model that may choose among tools calls the wrong one, or any. The tools stay as they
    are, so that what was read of them is not read again; only the choice is narrowed: to the one
    whose name, description and parameters have most in common with what the user said, to none
    where the model does better to answer by itself, and to none once a call of this turn was
    answered.

    Before:  tools get_weather, pay | user "Will it rain in Oslo?"
    After:   tools get_weather, pay | user "Will it rain in Oslo?" | choice get_weather
    """
    if env.picks_tools or not prompt.tools or "tool_choice" in prompt.config:
        return prompt
    asked = _asked(prompt)
    if asked is None:
        return prompt
    item, text = asked
    choice: Json = "none"
    if _is_answered(prompt, env):
        reason = "a call of this turn was answered, so it is the model's turn to speak"
    else:
        from weft.passes.tool_rank import rank

        best, *others = rank(text, prompt.tools)
        reason = "no tool is surely meant, so the model answers without one"
        if best.score > 0:
            choice = {"name": best.tool.name}
            left = ", ".join(other.tool.name for other in others)
            reason = f"{best.tool.name} fits what was said"
            reason += f"; left out: {left}" if left else ""
    return msgspec.structs.replace(
        prompt,
        config={**prompt.config, "tool_choice": choice},
        config_origins={**prompt.config_origins, "tool_choice": Origin("pass", "prune_tools")},
        notes=(*prompt.notes, Note("prune_tools", reason, item, item)),
    )


def _asked(prompt: Prompt) -> tuple[Item, str] | None:
    """What the user said last; where it answers a question, with what he had wanted before."""
    spoken = [item for item in prompt.items if item.kind in ("user", "model") and _text(item)]
    turns = [index for index, item in enumerate(spoken) if item.author == "user"]
    if not turns:
        return None
    last = turns[-1]
    text = _text(spoken[last])
    if len(turns) > 1 and last and _text(spoken[last - 1]).rstrip().endswith("?"):
        text = f"{_text(spoken[turns[-2]])}\n{text}"
    return spoken[last], text


def _text(item: Item) -> str:
    return "\n".join(block.text for block in item.blocks if isinstance(block, TextBlock))


def _is_answered(prompt: Prompt, env: Env) -> bool:
    """Whether a call was answered since the user last spoke."""
    for item in reversed(list(prompt.items)):
        if any(isinstance(block, ResultBlock) for block in item.blocks):
            return item.invocation == env.invocation
        if item.kind == "user" and item.author == "user":
            return False
    return False
