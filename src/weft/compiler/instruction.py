"""The system instruction: six parts, each text with the place of every piece kept.

What the run says to every agent, what the root says to every agent of its tree, identity, the
agent's instruction, the schema where it can be asked for no other way, and the transfer text. What
the declaration alone decides is worded once; the rest waits for state or for a provider, which may
look at a `ReadonlyContext`.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from types import MappingProxyType
from typing import Generic, Literal, TypeVar, cast

import msgspec

from weft.compiler.tools import transfer_targets, transfer_text
from weft.content import Content
from weft.declare import Agent, Raw
from weft.declare.context import DepsT, WithDeps
from weft.declare.functions import ask, misfit, name_of
from weft.declare.policy_parts import When
from weft.declare.template import (
    RenderedPiece,
    Variable,
    lookup,
    parse,
    render,
    to_text,
    value_positions,
    without_values,
)
from weft.diagnostics import Diagnostic, Origin, report
from weft.errors import CompileError, MissingVariable
from weft.ir import Feature, Output, Span, Stability, TextBlock
from weft.misuse import suggest_names
from weft.session import Event
from weft.session.flow import USER_WORDS
from weft.session.strand import Strand
from weft.values import Json, compact, has_half_character, has_lone_surrogate, require_object, scrub

_log = logging.getLogger("weft")

VALUES = ".values"
"""How the name ends under which is recorded where a provider's text has braces of values."""

PartName = Literal["run", "global", "identity", "instruction", "schema", "transfer"]

Field = Literal["global_instruction", "instruction"]

RUN = "RunConfig"
"""The name that stands for the run where a text of its own has its place."""


def _no_context() -> "ReadonlyContext":
    return ReadonlyContext()


class Scope(msgspec.Struct, frozen=True):
    """What instructions are resolved against, and how strictly.

    `context` makes what a provider is handed, `volatile` are the state keys agents and tools
    wrote in this session, `recorded` holds what providers said before, so that a request can be
    rebuilt without asking them again.
    """

    state: Mapping[str, Json]
    artifacts: Mapping[str, str] = {}
    context: "Callable[[], ReadonlyContext]" = _no_context
    on_missing: str = "keep"
    on_provider_error: str = "log"
    volatile: frozenset[str] = frozenset()
    recorded: Mapping[str, str] = {}


class SystemPart(msgspec.Struct, frozen=True):
    """One part of the system instruction."""

    name: PartName
    block: TextBlock


class Instructions(msgspec.Struct, frozen=True):
    """The parts in the order they are written, and what came of resolving them.

    `system` are their blocks, `features` says whether these are in order, `carried` are the whole
    state values that templates inserted, `provided` is what providers said.
    """

    parts: tuple[SystemPart, ...]
    system: tuple[TextBlock, ...]
    features: int
    carried: dict[str, Json]
    provided: dict[str, str]
    diagnostics: tuple[Diagnostic, ...]
    reads: frozenset[str] = frozenset()
    """What providers were seen to read."""


class Source(msgspec.Struct, frozen=True):
    """One part as the declaration gives it.

    `finished` says that nothing but the declaration decides its block; `field` is where its
    author wrote it, empty where Weft did.
    """

    name: PartName
    agent: Agent
    field: Field | None = None
    finished: bool = True
    variables: tuple[Variable, ...] = ()
    """What an unfinished text reads."""
    block: TextBlock | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


class Wording(msgspec.Struct, frozen=True):
    """The parts as the declaration gives them, and what the unfinished ones need.

    `variables` are what their templates read, `keys` the same where all of them are plain state
    keys, `asks` says whether a provider is called. `spoken` are the sources that may say something.
    """

    sources: tuple[Source, ...]
    spoken: tuple[Source, ...]
    variables: tuple[Variable, ...]
    keys: tuple[str, ...] | None
    asks: bool

    def read(
        self, state: Mapping[str, Json], artifacts: Mapping[str, str]
    ) -> "tuple[object, ...] | None":
        """What the variables stand for, to be compared; None where one must be reported missing.

        Values are taken as text, so that a list or dict changed in place is noticed.
        """
        values: list[object] = []
        for variable in self.variables:
            value = state.get(variable.key)
            if variable.path or variable.artifact:
                value = lookup(variable, state, artifacts)
            if type(value) is str or (value is None and variable.optional):
                values.append(value)
            elif value is None:
                return None
            else:
                values.append((to_text(value, where=f"state.{variable.name}"),))
        return tuple(values)


def wording_of(path: tuple[Agent, ...], output: Output | None, run_text: str = "") -> Wording:
    """The wording for the last agent of `path`, which starts at the root.

    `run_text` is what the run says to every agent.
    """
    root, agent = path[0], path[-1]
    diagnostics: list[Diagnostic] = []
    identity = _identity(agent, diagnostics) if agent.identity else None
    # the transfer text has problems of its own: each source reports what is its
    unread_diagnostics: list[Diagnostic] = []
    transfer = _transfer(path, unread_diagnostics)
    sources = (
        *(
            [_read_source(Agent(RUN, global_instruction=run_text), "run", "global_instruction")]
            if run_text
            else []
        ),
        _read_source(root, "global", "global_instruction"),
        Source("identity", agent, block=identity, diagnostics=tuple(diagnostics)),
        _read_source(agent, "instruction", "instruction"),
        Source("schema", agent, block=schema_reminder(output)),
        Source("transfer", agent, block=transfer, diagnostics=tuple(unread_diagnostics)),
    )
    variables = [variable for source in sources for variable in source.variables]
    plain = not any(variable.path or variable.artifact for variable in variables)
    keys = tuple(variable.key for variable in variables) if plain else None
    asks = any(not source.finished and not source.variables for source in sources)
    spoken = tuple(
        [one for one in sources if not one.finished or one.block is not None or one.diagnostics]
    )
    return Wording(sources, spoken, tuple(variables), keys, asks)


def resolve_instructions(wording: Wording, scope: Scope) -> Instructions:
    """The parts in this scope: finished ones as they are, the others made now."""
    carried: dict[str, Json] = {}
    provided: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    reads: set[str] = set()
    parts: list[SystemPart] = []
    # a recorded text may be that of a provider which the declaration no longer has
    for source in wording.sources if scope.recorded else wording.spoken:
        block = source.block
        if source.field is not None and (scope.recorded or not source.finished):
            block = _fill_template(
                source.agent, source.field, scope, carried, provided, diagnostics, reads
            )
        else:
            diagnostics += source.diagnostics
        if block is not None:
            parts.append(SystemPart(source.name, block))
    system = tuple([part.block for part in parts])
    features = Feature.NONE
    for one, other in pairwise(system):
        if one.stability > other.stability:
            features = Feature.UNORDERED
            break
    return Instructions(
        tuple(parts), system, features, carried, provided, tuple(diagnostics), frozenset(reads)
    )


def _read_source(agent: Agent, name: PartName, field: Field) -> Source:
    """What an author wrote: finished if it is text in which no variable stands."""
    text = _text_of(agent, field)
    if text == "":
        return Source(name, agent, field)
    variables = parse(text).variables if isinstance(text, str) else ()
    if variables or not isinstance(text, str):
        return Source(name, agent, field, finished=False, variables=variables)
    diagnostics: list[Diagnostic] = []
    block = _fill_template(agent, field, Scope({}), {}, {}, diagnostics, set())
    return Source(name, agent, field, block=block, diagnostics=tuple(diagnostics))


def _text_of(agent: Agent, field: Field) -> object:
    """The text, or what makes it."""
    if field == "instruction":
        return agent.instruction
    return agent.global_instruction if agent.global_instruction is not None else ""


def _identity(agent: Agent, diagnostics: list[Diagnostic]) -> TextBlock:
    name = f"You are {agent.name}."
    about = _sendable(agent.description, Origin("field", "description", agent.name), diagnostics)
    text = f"{name} {about}" if about else name
    spans = [Span(len(name), Origin("field", "name", agent.name))]
    if agent.description:
        spans.append(Span(len(text), Origin("field", "description", agent.name)))
    return TextBlock(
        role="system",
        origin=spans[0].origin,
        text=text,
        spans=tuple(spans),
        stability=Stability.STATIC,
        priority=1,
    )


def schema_reminder(output: Output | None) -> TextBlock | None:
    """The output schema in words, where it is to be sent so."""
    if output is None or output.how != "text":
        return None
    return TextBlock(
        role="system",
        origin=output.origin,
        text=f"Reply with valid JSON matching this schema: {compact(output.schema)}",
        stability=Stability.STATIC,
        priority=1,
    )


def _transfer(path: tuple[Agent, ...], diagnostics: list[Diagnostic]) -> TextBlock | None:
    text = transfer_text(transfer_targets(path))
    if not text:
        return None
    origin = Origin("field", "sub_agents", path[-1].name)
    return TextBlock(
        role="system",
        origin=origin,
        text=_sendable(text, origin, diagnostics),
        stability=Stability.STATIC,
        priority=1,
    )


def _fill_template(
    agent: Agent,
    field: Field,
    scope: Scope,
    carried: dict[str, Json],
    provided: dict[str, str],
    diagnostics: list[Diagnostic],
    reads: set[str],
) -> TextBlock | None:
    """The block of a text, its variables filled in; None where there is nothing to say."""
    whole = Origin("field", field, agent.name)
    answer = _provided_text(agent, field, whole, scope)
    values = answer.values
    reads |= answer.reads
    if answer.problem is not None:
        diagnostics.append(answer.problem)
    if answer.dynamic:
        provided[f"{field}.raw" if answer.raw else field] = answer.text
        if values:
            provided[f"{field}{VALUES}"] = " ".join(map(str, values))
    if not answer.text:
        return None
    if answer.raw:
        # `Raw` is not a template: braces in it stay as they are
        text = _sendable(answer.text, whole, diagnostics)
        return _system_block(text, whole, (Span(len(text), whole),), Stability.TURN)
    template = parse(answer.text)
    if values:
        # a value that a user wrote must not read other state through its own braces
        template = without_values(template, values)
        diagnostics.append(
            report(
                "WEFT610",
                whole,
                f"{len(values)} in braces came from values that the provider read, and stay text",
                "read a value in the template itself, `{key}`, or return Raw(text)",
            )
        )
    pieces = render(
        template, scope.state, scope.artifacts, drop_missing=scope.on_missing == "empty"
    )
    _report_missing(pieces, agent, field, scope, diagnostics)
    # what a provider makes may hold half a brace of a value
    for one in template.unclosed if not answer.dynamic else ():
        diagnostics.append(
            report(
                "WEFT114",
                Origin("field", field, agent.name, one.start, one.end),
                f"`{one.text}` has no closing brace and is sent as written",
                f"write {{{one.text[1:].strip()}}}",
            )
        )
    for variable in template.variables:
        current = scope.state.get(variable.key)
        # part of a value is not the whole answer: the transcript still has more to say
        if variable.key and not variable.path and current is not None:
            carried[variable.key] = current
    stability = Stability.TURN if answer.dynamic else _stability(pieces, scope.volatile)
    texts: list[str] = []
    spans: list[Span] = []
    end = 0
    for piece in pieces:
        text = piece.text
        if not text.isascii():
            text = _sendable(text, whole, diagnostics)
        texts.append(text)
        end += len(text)
        if text:
            spans.append(Span(end, _origin(piece, agent, field)))
    joined = "".join(texts)
    return _system_block(joined, whole, tuple(spans), stability) if joined else None


def _provided_text(agent: Agent, field: Field, whole: Origin, scope: Scope) -> "ProviderText":
    """What the author wrote, or what a provider says: now, or in the request that is rebuilt."""
    value = _text_of(agent, field)
    if type(value) is str and not scope.recorded:  # as nearly always
        return ProviderText(value, False, False)
    # what is recorded is what the tree's own providers said
    recorded: Mapping[str, str] = {} if agent.name == RUN else scope.recorded
    is_recorded = False
    for key, again in ((field, str), (f"{field}.raw", Raw)):
        if key in recorded:
            value, is_recorded = again(recorded[key]), True
    # a context costs something, and only a provider reads it
    context = None if isinstance(value, str | Raw) else scope.context()
    answer = provide(value, context, whole, on_error=scope.on_provider_error)
    if positions := recorded.get(f"{field}{VALUES}"):
        values = tuple(int(at) for at in positions.split() if at.isdecimal())
        answer = msgspec.structs.replace(answer, values=values)
    return msgspec.structs.replace(answer, dynamic=True) if is_recorded else answer


def _system_block(
    text: str, origin: Origin, spans: tuple[Span, ...], stability: Stability
) -> TextBlock:
    return TextBlock(
        role="system", origin=origin, text=text, spans=spans, stability=stability, priority=1
    )


def _origin(piece: RenderedPiece, agent: Agent, field: str) -> Origin:
    variable = piece.variable
    if variable is None or piece.missing:
        return Origin("field", field, agent.name, piece.start, piece.end)
    if variable.artifact:
        return Origin("artifact", variable.artifact, agent.name)
    return Origin("state", variable.name, agent.name)


def _stability(pieces: list[RenderedPiece], volatile: frozenset[str]) -> Stability:
    """Static without variables; turn if one is written while the session runs; else session."""
    stability = Stability.STATIC
    for piece in pieces:
        variable = piece.variable
        if variable is None:
            continue
        # it may be another in the next turn: such a block goes after what can be cached
        key = variable.key
        if variable.artifact or key.startswith("temp:") or key in volatile:
            return Stability.TURN
        stability = Stability.SESSION
    return stability


def _report_missing(
    pieces: list[RenderedPiece],
    agent: Agent,
    field: str,
    scope: Scope,
    diagnostics: list[Diagnostic],
) -> None:
    for piece in pieces:
        variable = piece.variable
        if variable is None or not piece.missing or variable.optional:
            continue
        origin = Origin("field", field, agent.name, piece.start, piece.end)
        artifact = bool(variable.artifact)
        names = sorted(scope.artifacts if artifact else scope.state)
        known = ", ".join(f"`{key}`" for key in names[:12]) or "none"
        what = "artifacts" if artifact else "state keys"
        give = "pass it in `artifacts`" if artifact else "put it into state"
        near = _meant_variable(variable, names, scope)
        hint = f"{near}{give}, or make it optional: `{{{variable.name}?}}`"
        if scope.on_missing == "error":
            raise MissingVariable(
                f"`{{{variable.name}}}` has no value; the {what} that exist: {known}",
                where=str(origin),
                hint=hint,
            )
        if scope.on_missing == "keep":
            diagnostics.append(
                report(
                    "WEFT101",
                    origin,
                    f"`{{{variable.name}}}` has no value and is sent as written;"
                    f" the {what} that exist: {known}",
                    hint,
                )
            )


def _meant_variable(variable: Variable, known: list[str], scope: Scope) -> str:
    """The placeholder that a misspelt one is near to: a key, or a field of a value."""
    names = [f"artifact.{name}" for name in known] if variable.artifact else known
    value = scope.state.get(variable.key)
    if not variable.artifact and isinstance(value, dict):
        names = [f"{variable.key}.{field}" for field in value]
    near = suggest_names(variable.name, [f"{{{name}}}" for name in names])
    return f"{near} else " if near else ""


def _sendable(text: str, origin: Origin, diagnostics: list[Diagnostic]) -> str:
    if text.isascii() or not has_lone_surrogate(text):
        return text
    if has_half_character(text):
        diagnostics.append(
            report(
                "WEFT204",
                origin,
                "a lone surrogate was replaced by U+FFFD",
                "mend the text where it is made; it is often an emoji cut in half",
            )
        )
    return scrub(text)


# --- providers of text

T = TypeVar("T")


class WatchedMapping(Mapping[str, T], Generic[T]):
    """A mapping to read that knows which of its values were read."""

    __slots__ = ("_asked", "_values", "named", "read")

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = dict(values)
        self._asked: set[str] = set()
        """The keys of which somebody asked whether they are there."""
        self.read: set[str] = set()
        self.named = False

    @property
    def seen(self) -> Set[str]:
        """The keys whose values or names somebody has seen: all, where they were listed."""
        return self._values.keys() if self.named else self.read | self._asked

    def __getitem__(self, key: str) -> T:
        value = self._values[key]
        self.read.add(key)
        return value

    def __contains__(self, key: object) -> bool:
        self._asked.add(str(key))
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        # who lists the keys may print them
        self.named = True
        return iter(self._values)

    def __len__(self) -> int:
        self.named = True
        return len(self._values)

    def __reduce__(self) -> tuple[type[dict[str, T]], tuple[dict[str, T]]]:
        return dict, (self.copy(),)  # a copy is a look at all of it

    def copy(self) -> dict[str, T]:
        """All of it, as a plain dict."""
        return dict(self.items())

    def __or__(self, other: Mapping[str, T]) -> dict[str, T]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, T]) -> dict[str, T]:
        return {**other, **self}

    def __repr__(self) -> str:
        return repr(self.copy())

    def texts(self) -> Iterator[str]:
        """Every text in the values that were read, and the keys if they were listed."""
        if self.named:
            yield from self._values
        for key in self.read:
            yield from _texts(self._values[key])


class ReadonlyContext(WithDeps[DepsT]):
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
        self._state = WatchedMapping(state or {})
        self._artifacts = WatchedMapping(artifacts or {})
        self._events: Strand[Event] = events if events is not None else Strand()
        self._content = user_content
        self._looked: set[str] = set()

    @property
    def state(self) -> Mapping[str, Json]:
        """The state, to read."""
        return self._state

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

    @property
    def reads(self) -> frozenset[str]:
        """The keys and artifacts that were looked at; `session` for the log."""
        artifacts = (f"artifact:{name}" for name in self._artifacts.seen)
        log = ("session",) if "events" in self._looked else ()
        words = (USER_WORDS,) if "user_content" in self._looked else ()
        return frozenset((*self._state.seen, *artifacts, *log, *words))

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


def decide_condition(condition: When, state: Mapping[str, Json]) -> bool:
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


class ProviderText(msgspec.Struct, frozen=True):
    """What a provider gave: text, whether it is to be templated, and what went wrong.

    `values` are the positions of braces in it that came from what the provider read.
    """

    text: str
    raw: bool
    dynamic: bool
    problem: Diagnostic | None = None
    values: tuple[int, ...] = ()
    reads: frozenset[str] = frozenset()


def provide(
    provider: object, context: ReadonlyContext | None, origin: Origin, *, on_error: str = "log"
) -> ProviderText:
    """Call the provider, once. One that raises is logged and gives no text, unless told so."""
    if provider is None:
        return ProviderText("", False, False)
    if isinstance(provider, str):
        return ProviderText(provider, False, False)
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
        return ProviderText("", False, True, problem)
    reads = handed.reads if handed is not None else frozenset[str]()
    if isinstance(value, Raw):
        return ProviderText(str(value.text), True, True, reads=reads)
    text = "" if value is None else str(value)
    return ProviderText(text, False, True, values=values_in(text, handed), reads=reads)


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
    return _await_value(cast("Awaitable[object]", value)) if inspect.isawaitable(value) else value


def target_of(provider: object) -> tuple[Callable[..., object], Sequence[object]]:
    """The function of a provider, and the arguments it takes besides the context."""
    if not isinstance(provider, tuple):
        return cast("Callable[..., object]", provider), ()
    owner, name, *rest = cast("tuple[object, ...]", provider)
    extra = rest[0] if rest else ()
    if isinstance(extra, str) or not isinstance(extra, (list, tuple)):
        extra = (extra,)
    return getattr(owner, cast("str", name)), cast("Sequence[object]", extra)


def _await_value(value: Awaitable[object]) -> object:
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
