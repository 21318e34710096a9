"""Choose the tool for a model that is too small to choose itself."""

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.diagnostics import Origin
from weft.ir import Item, Note, Prompt, ResultBlock, TextBlock, ToolDecl
from weft.meaning import is_installed, likeness
from weft.passes.env import Env
from weft.values import Json, JsonObject

_SATURATION = 1.2
_LENGTH = 0.75
"""The usual constants of BM25: how soon a repeated word counts less, and a long text."""
_NEAR = 0.5
"""What a word counts that only begins like one of the query's."""
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "er", "ed", "es", "s", "y", "e")
_COMMON = (
    "a about am an and any are as at be been but by bye can could d did do does evening for"
    " from get give good goodbye got great had has have he hello her hey hi him his how i if"
    " in into is it its just later like ll m make many may me more morning much my need nice"
    " night no not now of ok okay on one or our out please re s see she should so some such t"
    " tell than thank thanks that the their them then there these they this to up us use used"
    " using ve want was we well were what when where which who why will with would write yes"
    " you your"
)
"""Words that say nothing about what is wanted, greetings among them."""
_SHARED = 0.1
"""What the words in common count beside the likeness in meaning, which is at most 1."""
_LEAST = 0.09
"""The likeness from which on a tool has something to do with what was said."""


class Ranked(NamedTuple):
    """A tool and how well it fits; 0 where it has nothing in common with what was said."""

    tool: ToolDecl
    score: float


def prune_tools(prompt: Prompt, env: Env) -> Prompt:
    """Say which tool is to be called, or that none is, where the model cannot tell.

    A small model that may choose among tools calls the wrong one, or any. The tools stay as they
    are, so that what was read of them is not read again; only the choice is narrowed: to the one
    whose name, description and parameters have most in common with what the user said, to none
    where nothing has, and to none once a call of this turn was answered.

    Before:  tools get_weather, pay | user "Will it rain in Oslo?"
    After:   tools get_weather, pay | user "Will it rain in Oslo?" | choice get_weather
    """
    if env.picks_tools or not prompt.tools or "tool_choice" in prompt.config:
        return prompt
    said = _said(prompt)
    if said is None:
        return prompt
    item, text = said
    choice: Json = "none"
    if _is_answered(prompt, env):
        reason = "a call of this turn was answered, so it is the model's turn to speak"
    else:
        best, *others = rank(text, prompt.tools)
        reason = "no tool has anything in common with what was said"
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


def rank(query: str, tools: Sequence[ToolDecl]) -> list[Ranked]:
    """The tools by how well they fit the query, the best first.

    That is how near they are to it in meaning, where there are vectors to tell, and what words
    they have in common with it.
    """
    scores = _shared(query, tools)
    if is_installed() and _words(query):
        short = likeness(query, [_spoken(tool) for tool in tools])
        whole = likeness(query, [_described(tool) for tool in tools])
        fits = [
            (one + other) / 2 + _SHARED * shared
            for one, other, shared in zip(short, whole, scores, strict=True)
        ]
        scores = [fit if fit > _LEAST else 0.0 for fit in fits]
    ranked = [Ranked(tool, score) for tool, score in zip(tools, scores, strict=True)]
    return sorted(ranked, key=lambda one: -one.score)


def _shared(query: str, tools: Sequence[ToolDecl]) -> list[float]:
    """What each tool has in common with the query, word by word (BM25)."""
    asked = dict.fromkeys(_words(query))
    texts = [Counter(_words(_described(tool)) + _words(tool.name)) for tool in tools]
    usual = sum(text.total() for text in texts) / max(1, len(texts)) or 1.0
    scores = [0.0] * len(tools)
    for word in asked:
        found = [_times(word, text) for text in texts]
        holders = sum(times > 0 for times in found)
        rarity = math.log(1 + (len(tools) - holders + 0.5) / (holders + 0.5))
        for index, times in enumerate(found):
            if times:
                size = 1 - _LENGTH + _LENGTH * texts[index].total() / usual
                scores[index] += rarity * times * (1 + _SATURATION) / (times + _SATURATION * size)
    return scores


def _times(word: str, text: Counter[str]) -> float:
    """How often a text has the word; less often where it only has one that begins like it."""
    if word in text:
        return text[word]
    return _NEAR * sum(count for other, count in text.items() if _alike(word, other))


def _alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 3 and len(long) - len(short) <= 3 and long.startswith(short)


def _spoken(tool: ToolDecl) -> str:
    """A tool's name in words, and its description."""
    return f"{_HUMP.sub(' ', tool.name).replace('_', ' ')}: {tool.description}"


def _described(tool: ToolDecl) -> str:
    """A tool's name and description, and what its parameters say."""
    return " ".join((_spoken(tool), *_parameters(tool.parameters)))


def _parameters(schema: JsonObject) -> Iterator[str]:
    properties = schema.get("properties")
    for name, held in properties.items() if isinstance(properties, dict) else ():
        yield _HUMP.sub(" ", name).replace("_", " ")
        if isinstance(held, dict):
            choices = held.get("enum")
            for text in (held.get("description"), *(choices if isinstance(choices, list) else ())):
                if isinstance(text, str):
                    yield text
            yield from _parameters(held)


def _words(text: str) -> list[str]:
    """The words that say something, without their endings."""
    spoken = _WORD.findall(_HUMP.sub(" ", text).lower())
    return [_stem(word) for word in spoken if word not in _common()]


@functools.cache
def _common() -> frozenset[str]:
    return frozenset(_COMMON.split())


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def _said(prompt: Prompt) -> tuple[Item, str] | None:
    """What the user said last; where it answers a question, with what he had wanted before."""
    spoken = [item for item in prompt.items if item.kind in ("user", "model") and _text(item)]
    asked = [index for index, item in enumerate(spoken) if item.author == "user"]
    if not asked:
        return None
    last = asked[-1]
    text = _text(spoken[last])
    if len(asked) > 1 and last and _text(spoken[last - 1]).rstrip().endswith("?"):
        text = f"{_text(spoken[asked[-2]])}\n{text}"
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
