"""Evidence: what an agent read once and used later, and whether a request still had it.

A string counts that looks like a name, a path or a number, stood in something the agent was
told, and occurs again in what it says or calls. It is present if the request that led to that
use holds it, and one handle away if the value behind a handle in that request does.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from weft.compiler.text import block_text
from weft.content import Part
from weft.ir.handle import handle_of
from weft.session import Event
from weft.values import compact

if TYPE_CHECKING:
    from weft.compiler.compiled import Compiled
    from weft.ir import Item

SHORTEST = 6
"""How many letters a string must have to be told from chance."""

_STRING = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@\-]*[A-Za-z0-9_]")
_HANDLE = re.compile(r'handle["\s:\\]+([0-9a-f]{12})')
_TELLING = re.compile(r"[0-9_./@]|[a-z][A-Z]")
"""What tells a name, a path or a number from a plain word."""


class Uses(NamedTuple):
    """By the place of a model's event in the log: the strings it used that it was told before."""

    by_event: dict[int, tuple[str, ...]]

    @property
    def total(self) -> int:
        """How many uses there are."""
        return sum(map(len, self.by_event.values()))


def strings_in(text: str) -> list[str]:
    """The strings of a text that look like a name, a path or a number, each once."""
    found = dict.fromkeys(_STRING.findall(text))
    return [one for one in found if len(one) >= SHORTEST and _TELLING.search(one)]


def uses_of(events: Sequence[Event]) -> Uses:
    """What each model event of a log used of what was said or returned before it."""
    told: list[str] = []
    uses: dict[int, tuple[str, ...]] = {}
    for index, event in enumerate(events):
        content = event.content
        texts = [_part_text(part) for part in content.parts or ()] if content is not None else []
        if content is not None and content.role == "user":
            told += texts
            continue
        said = strings_in("\n".join(texts))
        found = tuple(one for one in said if any(one in text for text in told))
        if found:
            uses[index] = found
    return Uses(uses)


class View:
    """The texts of a request, and of the values behind its handles."""

    def __init__(self, compiled: "Compiled", texts: "Texts", kept: "Kept") -> None:
        prompt = compiled.prompt
        self.texts = [prompt.system_text, *map(texts.of, prompt.items)]
        self.behind = kept.behind(self.texts)

    def has(self, string: str) -> bool:
        """Whether the request itself holds the string."""
        return any(string in text for text in reversed(self.texts))

    def handle_of(self, string: str) -> str | None:
        """The handle of the shortest value that holds the string, or None."""
        held = [(len(text), handle) for handle, text in self.behind.items() if string in text]
        return min(held)[1] if held else None


class Texts:
    """The texts of items, each worked out once."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Item, str]] = {}

    def of(self, item: "Item") -> str:
        """All that an item says."""
        held = self._held.get(id(item))
        if held is None or held[0] is not item:
            held = item, "\n".join(block_text(block) for block in item.blocks)
            self._held[id(item)] = held
        return held[1]


class Kept:
    """The values of a log by their handles, so that what stands behind one can be looked into."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._values: dict[str, str] = {}
        for event in events:
            for part in (event.content.parts if event.content is not None else None) or ():
                result = part.function_response
                if result is not None and result.response:
                    self._values[handle_of(result.response)] = _part_text(part)
                elif part.text:
                    self._values[handle_of(part.text)] = part.text

    def behind(self, texts: Iterable[str]) -> dict[str, str]:
        """The values whose handles stand in these texts."""
        named = dict.fromkeys(handle for text in texts for handle in _HANDLE.findall(text))
        return {handle: self._values[handle] for handle in named if handle in self._values}


def _part_text(part: Part) -> str:
    call, result = part.function_call, part.function_response
    if call is not None:
        return f"{call.name} {compact(call.args or {})}"
    if result is not None:
        return compact(result.response or {})
    return part.text or ""
