"""Choose the tool for a model that is too small to choose itself."""

import functools
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from weft.diagnostics import Origin
from weft.ir import Item, Note, Prompt, ResultBlock, TextBlock, ToolDecl
from weft.passes.env import Env
from weft.values import Json, JsonObject

_SATURATION = 1.2
_LENGTH = 0.75
"""The usual constants of BM25: how soon a repeated word counts less, and a long text."""
_NEAR = 0.5
"""What a word counts that only begins like one of the query's, or is about the same."""
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "er", "ed", "es", "s", "y", "e")
_COMMON = (
    "a about an and any are as at be been but by can could did do does for from get give got had"
    " has have he her him his how i if in into is it its just like make may me more much many my"
    " need no not now of on one or our out please s she should so some such t tell than that the"
    " their them then there these they this to up us use used using want was we were what when"
    " where which who why will with would write you your"
)
"""Words that say nothing about what is wanted."""
_TOPICS = (
    "weather forecast temperature rain snow sun sunny cloud cloudy wind windy storm humid hot cold"
    " warm umbrella coat jacket degrees celsius fahrenheit climate outside",
    "money currency exchange convert rate price cost dollar euro pound yen krona krone franc rupee"
    " usd eur gbp jpy cash worth",
    "bill invoice payment pay refund charge purchase buy transfer bank account balance",
    "order package parcel delivery deliver ship shipment shipping track arrive item product",
    "ticket support issue problem complaint complain broken damaged late missing wrong defect help",
    "calendar meeting appointment event schedule book reservation reserve remind reminder invite",
    "time clock hour minute date day today tomorrow timezone alarm timer",
    "mail email message send inbox reply letter text sms notify",
    "flight fly plane airport train bus travel trip hotel room seat journey",
    "route map direction distance drive walk navigate nearest address location",
    "calculate compute sum add subtract multiply divide plus minus times percent math number",
    "search find look web internet lookup google query",
    "news headline article press story",
    "translate translation language english french german spanish say",
    "file folder document read save open delete directory",
    "music song play album artist playlist sing",
    "stock share market ticker invest",
    "recipe cook food meal ingredient dish eat restaurant dinner lunch",
)
"""Words for one thing: people say `umbrella` where a tool says `weather`."""


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
    """The tools by how much they have in common with the query (BM25), the best first."""
    asked = dict.fromkeys(_words(query))
    texts = [Counter(_about(tool)) for tool in tools]
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
    ranked = [Ranked(tool, score) for tool, score in zip(tools, scores, strict=True)]
    return sorted(ranked, key=lambda one: -one.score)


def _times(word: str, text: Counter[str]) -> float:
    """How often a text has the word; less often where it only has one that is near it."""
    if word in text:
        return text[word]
    topics = _topics().get(word, frozenset())
    return _NEAR * sum(
        count
        for other, count in text.items()
        if _alike(word, other) or topics & _topics().get(other, frozenset())
    )


@functools.cache
def _topics() -> dict[str, frozenset[int]]:
    """The topics that each word, without its ending, belongs to."""
    found: dict[str, frozenset[int]] = {}
    for number, words in enumerate(_TOPICS):
        for word in map(_stem, words.split()):
            found[word] = found.get(word, frozenset()) | {number}
    return found


def _alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 3 and len(long) - len(short) <= 3 and long.startswith(short)


def _about(tool: ToolDecl) -> list[str]:
    """The words of a tool: its name twice, its description, and what its parameters say."""
    return [*_words(tool.name) * 2, *_words(tool.description), *_parameters(tool.parameters)]


def _parameters(schema: JsonObject) -> list[str]:
    words: list[str] = []
    properties = schema.get("properties")
    for name, held in properties.items() if isinstance(properties, dict) else ():
        words += _words(name)
        if isinstance(held, dict):
            choices = held.get("enum")
            for text in (held.get("description"), *(choices if isinstance(choices, list) else ())):
                words += _words(text) if isinstance(text, str) else ()
            words += _parameters(held)
    return words


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
