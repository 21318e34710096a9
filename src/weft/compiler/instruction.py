"""The system instruction: five parts, each text with the place of every piece kept.

Global (the root's, for every agent of the tree), identity, the agent's instruction, the
schema where it can be asked for no other way, and the transfer text.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from weft.codes import report
from weft.compiler.context import ReadonlyContext
from weft.compiler.providers import provide
from weft.compiler.transfer import transfer_targets, transfer_text
from weft.declare import Agent, Raw
from weft.declare.template import Rendered, parse, render
from weft.diagnostics import Diagnostic, Origin
from weft.errors import MissingVariable
from weft.ir import Output, Span, Stability, TextBlock
from weft.session import scope_of
from weft.values import Json, compact, has_lone_surrogate, scrub

PartName = Literal["global", "identity", "instruction", "schema", "transfer"]


class Scope(NamedTuple):
    """What instructions are resolved against, and how strictly.

    `volatile` are the state keys agents and tools wrote in this session; `recorded` holds what
    providers said before, so that a request can be rebuilt without asking them again.
    """

    context: ReadonlyContext
    on_missing: str = "keep"
    on_provider_error: str = "log"
    volatile: frozenset[str] = frozenset()
    recorded: Mapping[str, str] = {}


class SystemPart(NamedTuple):
    """One part of the system instruction."""

    name: PartName
    block: TextBlock


class Instructions(NamedTuple):
    """The parts in the order they are written, and what came of resolving them.

    `carried` are the whole state values the templates inserted, `provided` what providers said.
    """

    parts: tuple[SystemPart, ...]
    carried: dict[str, Json]
    provided: dict[str, str]
    diagnostics: tuple[Diagnostic, ...]


def resolve_instructions(
    path: tuple[Agent, ...], output: Output | None, scope: Scope
) -> Instructions:
    """The parts for the last agent of `path`, which starts at the root."""
    root, agent = path[0], path[-1]
    carried: dict[str, Json] = {}
    provided: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    blocks: list[tuple[PartName, TextBlock | None]] = [
        ("global", _templated(root, "global_instruction", scope, carried, provided, diagnostics)),
        ("identity", _identity(agent, diagnostics)),
        ("instruction", _templated(agent, "instruction", scope, carried, provided, diagnostics)),
        ("schema", _schema(output)),
        ("transfer", _transfer(path, diagnostics)),
    ]
    parts = tuple(SystemPart(name, block) for name, block in blocks if block is not None)
    return Instructions(parts, carried, provided, tuple(diagnostics))


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


def _schema(output: Output | None) -> TextBlock | None:
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


def _templated(
    agent: Agent,
    field: Literal["global_instruction", "instruction"],
    scope: Scope,
    carried: dict[str, Json],
    provided: dict[str, str],
    diagnostics: list[Diagnostic],
) -> TextBlock | None:
    whole = Origin("field", field, agent.name)
    value: object = agent.global_instruction if field == "global_instruction" else agent.instruction
    dynamic = False
    for key, again in ((field, str), (f"{field}.raw", Raw)):
        if key in scope.recorded:
            value, dynamic = again(scope.recorded[key]), True
    given = provide(value, scope.context, whole, on_error=scope.on_provider_error)
    if given.problem is not None:
        diagnostics.append(given.problem)
    dynamic = dynamic or given.dynamic
    if dynamic:
        provided[f"{field}.raw" if given.raw else field] = given.text
    if not given.text:
        return None
    if given.raw:
        text = _sendable(given.text, whole, diagnostics)
        return _system_block(text, whole, (Span(len(text), whole),), Stability.TURN)
    template = parse(given.text)
    pieces = render(
        template,
        scope.context.state,
        scope.context.artifacts,
        drop_missing=scope.on_missing == "empty",
    )
    _report_missing(pieces, agent, field, scope, diagnostics)
    for variable in template.variables:
        held = scope.context.state.get(variable.key)
        if variable.key and not variable.path and held is not None:
            carried[variable.key] = held
    stability = Stability.TURN if dynamic else _stability(pieces, scope.volatile)
    texts: list[str] = []
    spans: list[Span] = []
    end = 0
    for piece in pieces:
        text = _sendable(piece.text, whole, diagnostics)
        texts.append(text)
        end += len(text)
        if text:
            spans.append(Span(end, _origin(piece, agent, field)))
    joined = "".join(texts)
    return _system_block(joined, whole, tuple(spans), stability) if joined else None


def _system_block(
    text: str, origin: Origin, spans: tuple[Span, ...], stability: Stability
) -> TextBlock:
    return TextBlock(
        role="system", origin=origin, text=text, spans=spans, stability=stability, priority=1
    )


def _origin(piece: Rendered, agent: Agent, field: str) -> Origin:
    variable = piece.variable
    if variable is None or piece.missing:
        return Origin("field", field, agent.name, piece.start, piece.end)
    if variable.artifact:
        return Origin("artifact", variable.artifact, agent.name)
    return Origin("state", variable.name, agent.name)


def _stability(pieces: list[Rendered], volatile: frozenset[str]) -> Stability:
    """Static without variables; turn if one is written while the session runs; else session."""
    stability = Stability.STATIC
    for piece in pieces:
        variable = piece.variable
        if variable is None:
            continue
        if variable.artifact or scope_of(variable.key) == "temp" or variable.key in volatile:
            return Stability.TURN
        stability = Stability.SESSION
    return stability


def _report_missing(
    pieces: list[Rendered],
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
        held = sorted(scope.context.artifacts if artifact else scope.context.state)
        known = ", ".join(f"`{key}`" for key in held[:12]) or "none"
        what = "artifacts" if artifact else "state keys"
        give = "pass it in `artifacts`" if artifact else "put it into state"
        hint = f"{give}, or make it optional: `{{{variable.name}?}}`"
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


def _sendable(text: str, origin: Origin, diagnostics: list[Diagnostic]) -> str:
    if not has_lone_surrogate(text):
        return text
    diagnostics.append(
        report(
            "WEFT204",
            origin,
            "a lone surrogate was replaced by U+FFFD",
            "mend the text where it is made; it is often an emoji cut in half",
        )
    )
    return scrub(text)
