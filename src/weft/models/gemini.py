"""Gemini models: the Developer API with a key, or Vertex with a token."""

import asyncio
import inspect
import logging
import math
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from threading import Lock
from time import monotonic as now
from typing import ClassVar, NamedTuple, cast
from urllib.parse import quote

from weft.dialects import count_request, facts_for, wire_name
from weft.dialects.gemini import CACHED
from weft.dialects.wire import drop_fields
from weft.errors import DeclarationError, ModelError
from weft.ir import ModelResponse, Prompt, Stability
from weft.models.clients import vertex_place
from weft.models.http import Sending, Timeouts
from weft.models.remote import Remote, with_notes
from weft.models.retry import PASSING, Breaker, Retry
from weft.models.services import GEMINI, Service
from weft.session.provenance import Provenance
from weft.values import JsonObject, canonical, digest

_VERSION = "/v1beta"

_PUBLISHER = "/publishers/google"

TokenProvider = Callable[[], str | Awaitable[str]]


class Gemini(Remote):
    """A Gemini model: `Gemini("gemini-3-pro")`.

    The key is read from GEMINI_API_KEY or GOOGLE_API_KEY unless it is given. For Vertex pass
    `project`, `location` and a `token` function, or `client=google.genai.Client(...)`.

    `explicit_cache="1h"` lets the provider keep instruction and tools under a name for so long,
    which it takes money for, and sends the name instead of them.
    """

    vendor: ClassVar = "google"
    dialect = "gemini"

    def __init__(
        self,
        name: str,
        *,
        project: str | None = None,
        location: str = "global",
        token: TokenProvider | None = None,
        explicit_cache: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | Timeouts | None = None,
        retries: int | Retry | None = None,
        breaker: Breaker | None = None,
        client: object = None,
    ) -> None:
        self.service, place = GEMINI, vertex_place(client)
        if project is not None:
            place = f"projects/{project}/locations/{location}"
            self.service = _vertex(place, location)
            if token is None and client is None:
                raise DeclarationError(
                    "a project needs a token",
                    where="Gemini.token",
                    hint="pass token=a function that gives one, or client=google.genai.Client(...)",
                )
        super().__init__(
            name,
            api_key=api_key,
            base_url=base_url,
            headers=headers,
            timeout=timeout,
            retries=retries,
            breaker=breaker,
            client=client,
        )
        self._token = token
        self._place = place
        self._keeps = seconds_of(explicit_cache, "Gemini.explicit_cache")

    def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Send the request, in full or after a head that the provider keeps."""
        # no cache is wanted, or the caller names one of their own
        if self._keeps is None or NAMED in wire:
            return super().generate(prompt, wire, stream=stream)
        return self._generate_after(self._keeps, prompt, wire, stream=stream)

    async def _generate_after(
        self, seconds: int, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Name the head where it is kept; a request whose name is refused is sent in full."""
        model = wire_name(prompt.model)
        head = head_of(prompt, wire, self._asks_as(), model)
        name = await HEADS.name_of(head, seconds, lambda fields: self._create_head(model, fields))
        if name:
            has_answered = False
            named = Provenance(cached_content=name)
            try:
                short = super().generate(prompt, without_head(wire, name), stream=stream)
                async with _closing(short) as answers:
                    async for response in answers:
                        has_answered = True
                        yield response if response.partial else with_notes(response, named)
            except ModelError as error:
                # words were shown, or the request itself is wrong: in full it fares no better
                if has_answered or not is_lost(error, name):
                    raise
                HEADS.lose(head, name)
            else:
                HEADS.note_answered(head, name)
                return
        async with _closing(super().generate(prompt, wire, stream=stream)) as answers:
            async for response in answers:
                yield response

    def _asks_as(self) -> str:
        """The address and the caller. A cache of one caller is not visible to another."""
        # whose credentials a client has, nobody can tell: each is a caller of its own
        if self._client is not None:
            return f"client {id(self._client)}"
        return f"{self.address} {digest(' '.join(self._secrets()).encode())}"

    async def _create_head(self, model: str, fields: JsonObject) -> JsonObject:
        """Ask the provider to keep a head; what it says of it."""
        named = model if "/" in model else f"models/{model}"
        path = f"{self._version()}/cachedContents"
        if self._place:
            named = f"{self._place}{_PUBLISHER}/{named}"

        def change_address(sending: Sending) -> Sending:
            return sending._replace(url=self.address.removesuffix(_PUBLISHER) + path, path=path)

        return await self._ask_once(model, {"model": named, **fields}, change_address)

    async def _credentials(self) -> dict[str, str]:
        if self._token is None:
            return await super()._credentials()
        try:
            token = self._token()
            text = await token if inspect.isawaitable(token) else token
        except Exception as error:
            raise ModelError(
                f"the token function raised {type(error).__name__}: {error}",
                code="auth",
                hint="check what you passed as token=",
            ) from error
        return {"authorization": f"Bearer {text}"}

    def _path(self, model: str, *, stream: bool) -> str:
        """The model stands in the address."""
        kind = "streamGenerateContent?alt=sse" if stream else "generateContent"
        named = quote(model, safe="/:@")
        where = named if "/" in model else f"models/{named}"
        return f"{self._version()}/{where}:{kind}"

    def _version(self) -> str:
        """The version, where the address does not say it."""
        has_version = self.address.endswith(("/v1", "/v1beta", "/v1alpha"))
        return "" if has_version or self.service is not GEMINI else _VERSION

    def _body(self, wire: JsonObject, *, stream: bool) -> JsonObject:
        """The address says whether it streams."""
        return wire


def _vertex(place: str, location: str) -> Service:
    host = "aiplatform" if location == "global" else f"{location}-aiplatform"
    return Service("vertex", f"https://{host}.googleapis.com/v1/{place}{_PUBLISHER}")


def _closing(
    answers: AsyncIterator[ModelResponse],
) -> "aclosing[AsyncGenerator[ModelResponse, None]]":
    """The answers, closed as soon as nobody reads on: that ends their connection."""
    return aclosing(cast("AsyncGenerator[ModelResponse, None]", answers))


_log = logging.getLogger("weft")

NAMED = "cachedContent"
"""The field of a request that names what was kept."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_LEAST = 4_096
"""From how many tokens on a head is kept, for models of which that is not known."""

# Seconds before its end from which on a kept head is not named any more.
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
    duration = re.fullmatch(r"([1-9]\d{0,8})([smhd])", ttl) if isinstance(ttl, str) else None
    if duration is None:
        raise DeclarationError(
            f"{ttl!r} is not a time for which a head is kept",
            where=where,
            hint='write explicit_cache="1h", or "30m"',
        )
    return int(duration[1]) * _UNITS[duration[2]]


class CachedHead(NamedTuple):
    """The part of a request before its turns: model, agent, and whether it may change."""

    place: str
    """Where it is sent, and by whom: nobody may name what another one keeps."""
    model: str
    agent: str
    fields: JsonObject
    mark: str
    static: bool


def head_of(prompt: Prompt, wire: JsonObject, place: str, model: str) -> CachedHead:
    """The head of a request."""
    fields: JsonObject = {key: wire[key] for key in CACHED if key in wire}
    static = all(block.stability is Stability.STATIC for block in prompt.system)
    return CachedHead(place, model, prompt.agent, fields, digest(canonical(fields)), static)


def without_head(wire: JsonObject, name: str) -> JsonObject:
    """The request without its head, which it names."""
    return {NAMED: name, **drop_fields(wire, *CACHED)}


def is_lost(error: ModelError, name: str) -> bool:
    """Whether a request was refused because of what it names, and not for itself."""
    if error.status not in (400, 403, 404):
        return False
    # the field is called `cachedContent`, `cached_content` or "cached content" in errors
    words = error.message.lower().replace(" ", "").replace("_", "")
    return NAMED.lower() in words or name.lower() in words


class _CachedHead:
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
        self._entries: OrderedDict[tuple[str, str, str], _CachedHead] = OrderedDict()
        self._first: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._warned: set[tuple[str, str]] = set()
        self._lock = Lock()

    async def name_of(self, head: CachedHead, seconds: int, make: Make) -> str:
        """The name of the cached head, cached now if that pays; "" if it is not cached."""
        loop = asyncio.get_running_loop()
        with self._lock:
            entry, worth = self._judge_head(head)
            if entry.name and now() < entry.until:
                return entry.name
            if not worth or now() < entry.rests:
                return ""
            making = entry.making
            if making is None or making.done() or making.get_loop().is_closed():
                making = entry.making = loop.create_task(self._create(head, entry, seconds, make))
            # a task of another loop cannot be awaited: this request is sent in full
            elif making.get_loop() is not loop:
                return ""
        return await asyncio.shield(making)  # others wait for it too

    def note_answered(self, head: CachedHead, name: str) -> None:
        """Note that a request which named the head was answered."""
        entry = self._entries.get((head.place, head.model, head.mark))
        if entry is not None and entry.name == name:
            entry.used = True

    def lose(self, head: CachedHead, name: str) -> None:
        """Forget a name that the provider does not know, or not any more."""
        with self._lock:
            entry = self._entries.get((head.place, head.model, head.mark))
            if entry is not None and entry.name == name:
                entry.name = ""
                if not entry.used:  # it never was of use: the next may not be either
                    entry.rests = now() + _PAUSE

    def _judge_head(self, head: CachedHead) -> tuple[_CachedHead, bool]:
        """A head's cache entry, and whether caching it pays."""
        key = (head.place, head.model, head.mark)
        entry = self._entries.get(key)
        if entry is None:
            size = count_request(head.fields, dialect="gemini", model=head.model)
            least = facts_for(head.model).cache.minimum or _LEAST
            entry = self._entries[key] = _CachedHead(large=size >= least)
        self._entries.move_to_end(key)
        if len(self._entries) > _MOST:
            self._entries.popitem(last=False)
        first = self._first.setdefault((head.place, head.model, head.agent), head.mark)
        if len(self._first) > _MOST:
            self._first.popitem(last=False)
        # a head that changes is kept only once it was sent twice: to keep it costs money
        again, entry.seen = entry.seen, True
        return entry, entry.large and (again or (head.static and first == head.mark))

    async def _create(self, head: CachedHead, entry: _CachedHead, seconds: int, make: Make) -> str:
        began = now()
        try:
            answer = await make({**head.fields, "ttl": f"{seconds}s"})
            name = answer.get("name")
            if not isinstance(name, str) or not name:
                raise ModelError("the answer has no `name`", code="bad_response")
        except ModelError as error:
            passing = error.code in PASSING
            # a head that the provider refuses for itself will be refused next time, too
            entry.rests = now() + (_PAUSE if passing else math.inf)
            self._warn(head, error)
            return ""
        finally:
            entry.making = None
        entry.name, entry.used = name, False
        # a little before its end: a request that is on its way must still find it
        entry.until = began + seconds - min(_MARGIN, seconds / 5)
        return name

    def _warn(self, head: CachedHead, error: ModelError) -> None:
        if (head.place, head.model) not in self._warned:
            self._warned.add((head.place, head.model))
            words = "%s: the head of requests is not kept, so they are sent in full: %s [%s]"
            _log.warning(words, head.model, error.message, error.code)


HEADS = Heads()
