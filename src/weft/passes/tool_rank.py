"""How well tools fit what was said."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.ir import ToolDecl
from weft.meaning import is_installed, likeness
from weft.relevance.index import Index, all_of, match
from weft.relevance.words import said, words
from weft.values import JsonObject

_SHARED = 0.1
"""What the words in common count beside the likeness in meaning, which is at most 1."""
_LEAST = 0.09
"""The likeness from which on a tool has something to do with what was said."""


class Ranked(NamedTuple):
    """A tool and how well it fits; 0 where it has nothing in common with what was said."""

    tool: ToolDecl
    score: float


def rank(query: str, tools: Sequence[ToolDecl]) -> list[Ranked]:
    """The tools by how well they fit the query, the best first.

    That is how near they are to it in meaning, where there are vectors to tell, and what words
    they have in common with it.
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
    ranked = [Ranked(tool, score) for tool, score in zip(tools, scores, strict=True)]
    return sorted(ranked, key=lambda one: -one.score)


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
