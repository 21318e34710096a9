"""Choose the tool for a model that is too small to choose itself; declare those that are gone."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from weft.declare import Tool
from weft.diagnostics import Origin
from weft.ir import Item, Note, Prompt, ResultBlock, ToolDecl, declare_called
from weft.ir.prompt import called_tools, is_declared_for_calls
from weft.late import late_pattern
from weft.meaning import is_installed, likeness
from weft.passes.env import Env, text_in
from weft.relevance.index import WEIGHTS, Index, all_of, match, words, words_of
from weft.values import Json, JsonObject


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
    # a choice that the author made stands
    if env.model.picks_tools or not prompt.tools or "tool_choice" in prompt.config:
        return prompt
    asked = _current_question(prompt)
    if asked is None:
        return prompt
    item, text = asked
    choice: Json = "none"
    if _is_answered(prompt, env):
        reason = "a call of this turn was answered, so it is the model's turn to speak"
    else:
        best, *others = rank(text, prompt.tools)
        reason = "no tool is surely meant, so the model answers without one"
        if best.score > 0:
            choice = {"name": best.tool.name}
            rest = ", ".join(other.tool.name for other in others)
            reason = f"{best.tool.name} fits what was said"
            reason += f"; left out: {rest}" if rest else ""
    return msgspec.structs.replace(
        prompt,
        config={**prompt.config, "tool_choice": choice},
        config_origins={**prompt.config_origins, "tool_choice": Origin("pass", "prune_tools")},
        notes=prompt.notes.plus((Note("prune_tools", reason, item, item),)),
    )


def declare_tools(prompt: Prompt, env: Env) -> Prompt:
    """Declare the tools that the conversation calls, where the provider wants some and none is.

    An agent may have lost its tools since it called them. They cannot be called again. Once a
    budget has dropped the calls, they are not needed any more.

    Before:  user "Rain?" | model calls look + result
    After:   tool look | user "Rain?" | model calls look + result | choice none
    """
    if not env.model.calls_need_tools:
        return prompt
    if not prompt.tools:
        return declare_called(prompt, "declare_tools")
    if called_tools(prompt) or not all(map(is_declared_for_calls, prompt.tools)):
        return prompt
    config, origins = dict(prompt.config), dict(prompt.config_origins)
    for options in (config, origins):
        options.pop("tool_choice", None)
    return msgspec.structs.replace(prompt, tools=(), config=config, config_origins=origins)


def _current_question(prompt: Prompt) -> tuple[Item, str] | None:
    """What the user said last; where it answers a question, with what he had wanted before."""
    spoken = (
        item for item in reversed(prompt.items) if item.kind in ("user", "model") and text_in(item)
    )
    last = next((item for item in spoken if item.author == "user"), None)
    if last is None:
        return None
    text, before = text_in(last), next(spoken, None)
    # "tomorrow" alone fits no tool; with what it answers it does
    if before is not None and text_in(before).rstrip().endswith("?"):
        users = (item for item in chain((before,), spoken) if item.author == "user")
        earlier = next(users, None)
        text = f"{text_in(earlier)}\n{text}" if earlier is not None else text
    return last, text


def _is_answered(prompt: Prompt, env: Env) -> bool:
    """Whether a call was answered since the user last spoke."""
    for item in reversed(prompt.items):
        if any(isinstance(block, ResultBlock) for block in item.blocks):
            return item.invocation == env.invocation
        if item.kind == "user" and item.author == "user":
            return False
    return False


_SHARED = 0.05
"""What the words in common count besides the likeness in meaning, which is at most 1.

This number and those below were chosen on half of the requests in tests/passes/tool_requests.py.
"""

_LEAST = 0.1
"""Minimum score for a tool to count as relevant."""

_SURE = 0.35
"""Minimum score of a tool for a general question. A tool with this score needs no lead."""

_LEAD = 0.3
"""How far ahead of the next tool an unsure one must be, as a share of its score."""

_GENERAL = late_pattern(
    r"""\W*(
    who|whose|why|which|explain|define|describe|summari[sz]e|compare
    |what\ (is|are|was|were|does|do)\ (an?|the)\b|what\ does|what('s|\ is)\ \w+\ ?\?
    |how\ (does|do|did|is|are)\ (an?|the|\w+s)\b|how\ (many|tall|far|old|long|big|fast)\b
    |is\ \w+\ (an?|bad|good|better)\b|tell\ me\ (an?|about|something)\b|write\ an?\b|should\ i\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How questions about the world begin, and requests for a text: any model answers these itself."""

_PERSONAL = late_pattern(r"\b(my|mine|me|i|our|we|us)\b", re.IGNORECASE)


class RankedTool(NamedTuple):
    """A tool and how well it fits; 0 where it has nothing in common with what was said."""

    tool: ToolDecl
    score: float


def rank(query: str, tools: Sequence[ToolDecl]) -> list[RankedTool]:
    """The tools by how well they fit the query, the best first.

    That is how near they are to it in meaning, where there are vectors to tell, and what words
    they have in common with it. Where none is worth a call, so that the model is to answer by
    itself, no tool has a score: none is near, several are and none is ahead, or the question is
    one about the world and no tool is surely meant.
    """
    scores = score_by_words(query, tools)
    if is_installed() and words(query):
        short = likeness(query, [_spell_tool(tool) for tool in tools])
        whole = likeness(query, [_describe_tool(tool) for tool in tools])
        fits = [
            (one + other) / 2 + _SHARED * shared
            for one, other, shared in zip(short, whole, scores, strict=True)
        ]
        scores = [fit if fit > _LEAST else 0.0 for fit in fits]
        # of two tools that are near each other, the one that is forced may be the wrong one
        best, *others = sorted(scores, reverse=True)
        rival = others[0] if others else 0.0
        if best < _SURE and best - rival < _LEAD * best:
            scores = [0.0] * len(tools)
    sure = is_installed() and max(scores) >= _SURE  # words in common alone are never sure
    if not sure and _is_general(query):
        scores = [0.0] * len(tools)
    ranked = [RankedTool(tool, score) for tool, score in zip(tools, scores, strict=True)]
    return sorted(ranked, key=lambda one: -one.score)


def _is_general(query: str) -> bool:
    """Whether the question is about the world, and not about somebody's own things."""
    # what the user said last, without the question before it
    last = query.rpartition("\n")[2]
    return _GENERAL.match(last) is not None and _PERSONAL.search(last) is None


def score_by_words(query: str, tools: Sequence[ToolDecl | Tool]) -> list[float]:
    """What each tool has in common with the query, word by word; its name counts twice."""
    scope = all_of(Index(f"{_describe_tool(tool)}\n{tool.name}" for tool in tools))
    asked = dict.fromkeys(words(query))
    return match(scope, (scope.nearly(word, WEIGHTS.alike) for word in asked))


def _spell_tool(tool: ToolDecl | Tool) -> str:
    """A tool's name in words, and its description."""
    return f"{words_of(tool.name)}: {tool.description}"


def _describe_tool(tool: ToolDecl | Tool) -> str:
    """A tool's name and description, and what its parameters say."""
    return " ".join((_spell_tool(tool), *_parameters(tool.parameters)))


def _parameters(schema: JsonObject) -> Iterator[str]:
    properties = schema.get("properties")
    for name, value in properties.items() if isinstance(properties, dict) else ():
        yield words_of(name)
        if isinstance(value, dict):
            choices = value.get("enum")
            for text in (value.get("description"), *(choices if isinstance(choices, list) else ())):
                if isinstance(text, str):
                    yield text
            yield from _parameters(value)
