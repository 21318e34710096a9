"""Cached contents: heads of requests that the provider keeps by name, for a price by the hour.

What stands before the turns is the same in every request of an agent. It is sent once, and from
then on named. A head that may be another one in the next request is kept only once it came twice,
since nobody would ask for it again. What is known of heads is known to the whole process.
"""

import asyncio
import logging
import math
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from threading import Lock
from time import monotonic as now
from typing import NamedTuple

from weft.dialects import facts_for
from weft.dialects.gemini import CACHED
from weft.dialects.measure import count_request
from weft.errors import DeclarationError, ModelError
from weft.ir import Prompt, Stability
from weft.models.retry import PASSING
from weft.values import JsonObject, canonical, digest

_log = logging.getLogger("weft")

NAMED = "cachedContent"
"""The field of a request that names what was kept."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LEAST = 4_096
"""From how many tokens on a head is kept, for models of which that is not known."""
_MARGIN = 60.0
_PAUSE = 60.0
"""Seconds before something is tried again that did not work."""
_MOST = 1_024
"""How many heads are remembered."""

Make = Callable[[JsonObject], Awaitable[JsonObject]]
"""Asks the provider to keep a head; what it says of it."""


def seconds_of(ttl: object, where: str) -> int | None:
    """How long to keep a head; None where it is not to be kept."""
    if ttl is None:
        return None
    told = re.fullmatch(r"([1-9]\d{0,8})([smhd])", ttl) if isinstance(ttl, str) else None
    if told is None:
        raise DeclarationError(
            f"{ttl!r} is no time for which a head is kept",
            where=where,
            hint='write explicit_cache="1h", or "30m"',
        )
    return int(told[1]) * _UNITS[told[2]]


class Head(NamedTuple):
    """What a request says before its turns: to whom, by which agent, and whether it may change."""

    place: str
    """Where it is sent, and by whom: nobody may name what another one keeps."""
    model: str
    agent: str
    fields: JsonObject
    mark: str
    static: bool


def head_of(prompt: Prompt, wire: JsonObject, place: str, model: str) -> Head:
    """The head of a request."""
    fields: JsonObject = {key: wire[key] for key in CACHED if key in wire}
    static = all(block.stability is Stability.STATIC for block in prompt.system)
    return Head(place, model, prompt.agent, fields, digest(canonical(fields)), static)


def shortened(wire: JsonObject, name: str) -> JsonObject:
    """The request without its head, which it names."""
    return {NAMED: name, **{key: value for key, value in wire.items() if key not in CACHED}}


def is_lost(error: ModelError, name: str) -> bool:
    """Whether a request was refused because of what it names, and not for itself."""
    if error.status not in (400, 403, 404):
        return False
    words = error.message.lower().replace(" ", "").replace("_", "")
    return NAMED.lower() in words or name.lower() in words


class _Kept:
    """One head as this process knows it."""

    __slots__ = ("large", "making", "name", "rests", "seen", "until", "used")

    def __init__(self, *, large: bool) -> None:
        self.large = large
        self.seen = False
        self.name = ""
        self.until = 0.0
        self.used = False
        self.rests = 0.0
        """Until when nobody asks again to keep it."""
        self.making: asyncio.Task[str] | None = None


class Heads:
    """The heads that one process has sent, and the names of those that are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()
        self._first: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._warned: set[tuple[str, str]] = set()
        self._lock = Lock()

    async def name_of(self, head: Head, seconds: int, make: Make) -> str:
        """The name of the head, which is kept now if it is worth it; "" where it has none."""
        loop = asyncio.get_running_loop()
        with self._lock:
            kept, worth = self._known(head)
            if kept.name and now() < kept.until:
                return kept.name
            if not worth or now() < kept.rests:
                return ""
            making = kept.making
            if making is None or making.done() or making.get_loop().is_closed():
                making = kept.making = loop.create_task(self._made(head, kept, seconds, make))
            elif making.get_loop() is not loop:
                return ""
        return await asyncio.shield(making)  # others wait for it too

    def served(self, head: Head, name: str) -> None:
        """Note that a request which named the head was answered."""
        kept = self._kept.get((head.place, head.model, head.mark))
        if kept is not None and kept.name == name:
            kept.used = True

    def lose(self, head: Head, name: str) -> None:
        """Forget a name that the provider does not know, or not any more."""
        with self._lock:
            kept = self._kept.get((head.place, head.model, head.mark))
            if kept is not None and kept.name == name:
                kept.name = ""
                if not kept.used:  # it never was of use: the next may not be either
                    kept.rests = now() + _PAUSE

    def _known(self, head: Head) -> tuple[_Kept, bool]:
        """What is known of a head, and whether it is worth keeping."""
        key = (head.place, head.model, head.mark)
        kept = self._kept.get(key)
        if kept is None:
            size = count_request(head.fields, dialect="gemini", model=head.model)
            least = facts_for(head.model).cache.minimum or _LEAST
            kept = self._kept[key] = _Kept(large=size >= least)
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        first = self._first.setdefault((head.place, head.model, head.agent), head.mark)
        if len(self._first) > _MOST:
            self._first.popitem(last=False)
        again, kept.seen = kept.seen, True
        return kept, kept.large and (again or (head.static and first == head.mark))

    async def _made(self, head: Head, kept: _Kept, seconds: int, make: Make) -> str:
        began = now()
        try:
            answer = await make({**head.fields, "ttl": f"{seconds}s"})
            name = answer.get("name")
            if not isinstance(name, str) or not name:
                raise ModelError("the answer has no `name`", code="bad_response")
        except ModelError as error:
            passing = error.code in PASSING
            kept.rests = now() + (_PAUSE if passing else math.inf)
            self._warn(head, error)
            return ""
        finally:
            kept.making = None
        kept.name, kept.used = name, False
        kept.until = began + seconds - min(_MARGIN, seconds / 5)
        return name

    def _warn(self, head: Head, error: ModelError) -> None:
        if (head.place, head.model) not in self._warned:
            self._warned.add((head.place, head.model))
            words = "%s: the head of requests is not kept, so they are sent in full: %s [%s]"
            _log.warning(words, head.model, error.message, error.code)


HEADS = Heads()
