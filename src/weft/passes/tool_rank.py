"""How well tools fit what was said, and whether any does."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.ir import ToolDecl
from weft.meaning import is_installed, likeness
from weft.relevance.index import Index, all_of, match
from weft.relevance.words import said, words
from weft.values import JsonObject

_SHARED = 0.05
"""What the words in common count beside the likeness in meaning, which is at most 1."""
_LEAST = 0.1
"""Minimum score for a tool to count as relevant."""
_SURE = 0.35
"""Minimum score for a general question, and the score from which on no rival is feared."""
_LEAD = 0.3
"""How far ahead of the next tool an unsure one must be, as a share of its score."""

_GENERAL = re.compile(
    r"""\W*(
    who|whose|why|which|explain|define|describe|summari[sz]e|compare
    |what\ (is|are|was|were|does|do)\ (an?|the)\b|what\ does|what('s|\ is)\ \w+\ ?\?
    |how\ (does|do|did|is|are)\ (an?|the|\w+s)\b|how\ (many|tall|far|old|long|big|fast)\b
    |is\ \w+\ (an?|bad|good|better)\b|tell\ me\ (an?|about|something)\b|write\ an?\b|should\ i\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How questions about the world begin, and requests for a text: any model answers these itself."""
_PERSONAL = re.compile(r"\b(my|mine|me|i|our|we|us)\b", re.IGNORECASE)


class Ranked(NamedTuple):
    """A tool and how well it fits; 0 where it has nothing in common with what was said."""

    tool: ToolDecl
    score: float


def rank(query: str, tools: Sequence[ToolDecl]) -> list[Ranked]:
    """The tools by how well they fit the query, the best first.

    That is how near they are to it in meaning, where there are vectors to tell, and what words
    they have in common with it. Where none is worth a call, so that the model is to answer by
    itself, no tool has a score: none is near, several are and none is ahead, or the question is
    one about the world and no tool is surely meant.
    """
    scores = _shared(query, tools)
    if is_installed() and words(query):
        short = likeness(query, [_spoken(tool) for tool in tools])
        whole = likeness(query, [_described(tool) for tool in tools])
        fits = [
            (one + other) / 2 + _SHARED * shared
            for one, other, shared in zip(short, whole, scores, strict=True)
        ]
        scores = [fit if fit > _LEAST else 0.0 for fit in fits]
        best, *others = sorted(scores, reverse=True)
        rival = others[0] if others else 0.0
        if best < _SURE and best - rival < _LEAD * best:
            scores = [0.0] * len(tools)
    sure = is_installed() and max(scores) >= _SURE  # words in common alone are never sure
    if not sure and _is_general(query):
        scores = [0.0] * len(tools)
    ranked = [Ranked(tool, score) for tool, score in zip(tools, scores, strict=True)]
    return sorted(ranked, key=lambda one: -one.score)


def _is_general(query: str) -> bool:
    """Whether the question is about the world, and not about somebody's own things."""
    last = query.rpartition("\n")[2]
    return _GENERAL.match(last) is not None and _PERSONAL.search(last) is None


def _shared(query: str, tools: Sequence[ToolDecl]) -> list[float]:
    """What each tool has in common with the query, word by word; its name counts twice."""
    scope = all_of(Index(f"{_described(tool)}\n{tool.name}" for tool in tools))
    return match(scope, {word: scope.nearly(word) for word in dict.fromkeys(words(query))})


def _spoken(tool: ToolDecl) -> str:
    """A tool's name in words, and its description."""
    return f"{said(tool.name)}: {tool.description}"


def _described(tool: ToolDecl) -> str:
    """A tool's name and description, and what its parameters say."""
    return " ".join((_spoken(tool), *_parameters(tool.parameters)))


def _parameters(schema: JsonObject) -> Iterator[str]:
    properties = schema.get("properties")
    for name, held in properties.items() if isinstance(properties, dict) else ():
        yield said(name)
        if isinstance(held, dict):
            choices = held.get("enum")
            for text in (held.get("description"), *(choices if isinstance(choices, list) else ())):
                if isinstance(text, str):
                    yield text
            yield from _parameters(held)
