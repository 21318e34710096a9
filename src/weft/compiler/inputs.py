"""What instructions are made of: what a provider of text may look at, and what it gives."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar, cast

import msgspec

from weft.content import Content
from weft.declare import Raw
from weft.declare.context import DepsT, require_deps
from weft.declare.functions import ask, misfit, name_of
from weft.declare.policy_parts import When
from weft.declare.template import value_positions
from weft.diagnostics import Diagnostic, Origin, report
from weft.errors import CompileError
from weft.session import Event
from weft.session.strand import Strand
from weft.values import Json, require_object

Held = TypeVar("Held")


class Looked(Mapping[str, Held], Generic[Held]):
    """A mapping to read that knows which of its values were read."""

    __slots__ = ("_values", "named", "read")

    def __init__(self, values: Mapping[str, Held]) -> None:
        self._values = dict(values)
        self.read: set[str] = set()
        self.named = False

    def __getitem__(self, key: str) -> Held:
        value = self._values[key]
        self.read.add(key)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        # who lists the keys may print them
        self.named = True
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def copy(self) -> dict[str, Held]:
        """All of it, as a plain dict."""
        return dict(self.items())

    def __or__(self, other: Mapping[str, Held]) -> dict[str, Held]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Held]) -> dict[str, Held]:
        return {**other, **self}

    def __repr__(self) -> str:
        return repr(self.copy())

    def texts(self) -> Iterator[str]:
        """Every text in the values that were read, and the keys if they were listed."""
        if self.named:
            yield from self._values
        for key in self.read:
            yield from _texts(self._values[key])


class ReadonlyContext(Generic[DepsT]):
    """What an instruction provider may look at: who is asked, the state, the log."""

    __slots__ = (
        "_artifacts", "_content", "_deps", "_events", "_looked", "_state", "agent_name",
        "invocation_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        agent_name: str = "",
        state: Mapping[str, Json] | None = None,
        events: Strand[Event] | None = None,
        invocation_id: str = "",
        user_content: Content | None = None,
        artifacts: Mapping[str, str] | None = None,
        deps: DepsT | None = None,
    ) -> None:
        self._deps = deps
        self.agent_name = agent_name
        self.invocation_id = invocation_id
        self._state = Looked(state or {})
        self._artifacts = Looked(artifacts or {})
        self._events: Strand[Event] = events if events is not None else Strand()
        self._content = user_content
        self._looked: set[str] = set()

    @property
    def state(self) -> Mapping[str, Json]:
        """The state, to read."""
        return self._state

    @property
    def deps(self) -> DepsT:
        """The dependencies of the run, as they were passed: `run(..., deps=obj)`."""
        return require_deps(self._deps, self.agent_name)

    @property
    def artifacts(self) -> Mapping[str, str]:
        """The newest text of each artifact."""
        return self._artifacts

    @property
    def events(self) -> Strand[Event]:
        """The log."""
        self._looked.add("events")
        return self._events

    @property
    def user_content(self) -> Content | None:
        """What the user said to start this invocation."""
        self._looked.add("user_content")
        return self._content

    def apart(self) -> "ReadonlyContext[DepsT]":
        """A copy whose state shares nothing with the session's, however deep one reaches in."""
        return ReadonlyContext(
            agent_name=self.agent_name,
            state=require_object(self._state, where="state"),
            events=self._events,
            invocation_id=self.invocation_id,
            user_content=self._content,
            artifacts=self._artifacts,
            deps=self._deps,
        )

    def texts(self) -> Iterator[str]:
        """Every text that was looked at, wherever it stood."""
        yield from self._state.texts()
        yield from self._artifacts.texts()
        if "user_content" in self._looked and self._content is not None:
            yield from _texts(cast("object", msgspec.to_builtins(self._content)))
        if "events" in self._looked:
            for event in self._events:
                yield from _texts(cast("object", msgspec.to_builtins(event)))


def _texts(value: object) -> Iterator[str]:
    """The texts in a JSON value, keys included: a provider may print either."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in cast("list[object]", value):
            yield from _texts(inner)


def decided(condition: When, state: Mapping[str, Json]) -> bool:
    """Whether a condition is met; a predicate that raises is an error, not a no.

    It may look at the state, not write into it.
    """
    try:
        return bool(ask(condition.predicate, MappingProxyType(state)))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise CompileError(
            f"the predicate `{name_of(condition.predicate)}` of C.when raised {problem}",
            where="C.when",
            hint='let it answer for any state: lambda state: state.get("vip") is True',
        ) from error


_log = logging.getLogger("weft")


class Provided(msgspec.Struct, frozen=True):
    """What a provider gave: text, whether it is to be templated, and what went wrong.

    `values` are the positions of braces in it that came from what the provider read.
    """

    text: str
    raw: bool
    dynamic: bool
    problem: Diagnostic | None = None
    values: tuple[int, ...] = ()


def provide(
    provider: object, context: ReadonlyContext | None, origin: Origin, *, on_error: str = "log"
) -> Provided:
    """Call the provider, once. One that raises is logged and gives no text, unless told so."""
    if provider is None:
        return Provided("", False, False)
    if isinstance(provider, str):
        return Provided(provider, False, False)
    # a copy: a provider that changes a list must not change the session
    handed = context.apart() if context is not None else None
    try:
        value = _call(provider, handed)
    except Exception as error:
        if on_error == "raise":
            raise
        _log.warning("%s: the instruction provider raised", origin, exc_info=True)
        problem = report(
            "WEFT102",
            origin,
            f"the provider raised {type(error).__name__}: {error}",
            _provider_hint(provider),
        )
        return Provided("", False, True, problem)
    if isinstance(value, Raw):
        return Provided(str(value.text), True, True)
    text = "" if value is None else str(value)
    return Provided(text, False, True, values=values_in(text, handed))


def _provider_hint(provider: object) -> str:
    """What to do about a provider that raised; one that cannot be called at all is told so."""
    function, extra = target_of(provider)
    if misfit(function, 1 + len(extra)) is not None:
        more = "".join(f", extra_{number}" for number, _ in enumerate(extra, 1))
        return f'it is called with the context first: def instruction(context{more}): return "..."'
    return 'mend it, or set on_provider_error="raise" to stop the run'


def values_in(text: str, context: ReadonlyContext | None) -> tuple[int, ...]:
    """Where a provider's text has braces that came from what it was handed."""
    return value_positions(text, context.texts()) if context is not None and "{" in text else ()


def _call(provider: object, context: ReadonlyContext | None) -> object:
    if isinstance(provider, Raw):
        return provider
    function, extra = target_of(provider)
    value = function(context, *extra)
    return _awaited(cast("Awaitable[object]", value)) if inspect.isawaitable(value) else value


def target_of(provider: object) -> tuple[Callable[..., object], Sequence[object]]:
    """The function behind a provider, and the arguments it takes beside the context."""
    if not isinstance(provider, tuple):
        return cast("Callable[..., object]", provider), ()
    owner, name, *rest = cast("tuple[object, ...]", provider)
    extra = rest[0] if rest else ()
    if isinstance(extra, str) or not isinstance(extra, (list, tuple)):
        extra = (extra,)
    return getattr(owner, cast("str", name)), cast("Sequence[object]", extra)


def _awaited(value: Awaitable[object]) -> object:
    """The result of an async provider, also when a loop already runs in this thread."""
    import asyncio

    async def wait() -> object:
        return await value

    try:
        # inside a running loop `asyncio.run` is refused: another thread has none
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()
