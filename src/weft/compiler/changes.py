"""Instructions that change: what was sent first stays, what is different now is said last.

Providers reuse a request up to its first changed byte, and the system text is near its
beginning. So an agent's instruction is sent in the words of its first request in the session,
and where its variables or its provider say something else by now, the lines that differ are
said after the conversation. Both follow from the declaration and the log alone.

A request that is too short to be reused loses nothing by another beginning: as long as none was
longer, the system text is simply written anew.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from weft.compiler.instruction import Instructions, Scope, Wording, resolve_instructions
from weft.diagnostics import Origin
from weft.ir import Span, Stability, TextBlock
from weft.session import Event, Session, scope_of
from weft.session.event import seen_from
from weft.session.lookback import facts_of
from weft.session.strand import Strand, skim_of
from weft.values import Json, encode

CHANGED = "These instructions have changed. From now on:"
ENDED = "These instructions no longer hold:"
FENCE = ("[instructions]\n", "\n[end of instructions]")
"""What stands around instructions that must be said in the user's name."""

_OWN = Origin("pass", "append_changes")


class SentInstructions(msgspec.Struct, frozen=True):
    """Instructions as they are sent: the system text, and what is said after the conversation.

    `carried` are the state values that the system text inserts.
    """

    system: tuple[TextBlock, ...]
    features: int
    changes: tuple[TextBlock, ...]
    carried: dict[str, Json]


class _First(msgspec.Struct, frozen=True):
    """The instructions of an agent's first long request, and all that they were made of.

    Artifacts and a state that lies over the session's are the caller's: the log does not tell
    what they were at first, so those of now count. Else a process that has seen others would give
    another request than one that has not.
    """

    wording: Wording
    over: dict[str, Json]
    artifacts: dict[str, str]
    instructions: Instructions


def deliver(
    now: Instructions, first: Instructions | None, role: Literal["system", "user"]
) -> SentInstructions:
    """The first words as system text, and what is different by now to be said last.

    What belongs to one invocation only is different in the next, so it is always said last.
    """
    then = now if first is None else first
    first_blocks = {part.name: part.block for part in then.parts if not _is_passing(part.block)}
    current = {part.name: part.block for part in now.parts}
    pieces: list[_Piece] = []
    changed: list[_Piece] = []
    for name, block in current.items():
        if name not in first_blocks and (first is None or _is_passing(block)):
            pieces.append(_Piece(block.text, _spans(block)))
        elif name not in first_blocks or first_blocks[name].text != block.text:
            changed += _different(first_blocks.get(name), block)
    ended = [
        _Piece(block.text, _spans(block))
        for name, block in first_blocks.items()
        if name not in current
    ]
    for heading, changed_pieces in ((CHANGED, changed), (ENDED, ended)):
        if changed_pieces:
            pieces += [_Piece(heading, (Span(len(heading), _OWN),)), *changed_pieces]
    system = tuple(first_blocks.values())
    changes = (_join_pieces(pieces, role),) if pieces else ()
    return SentInstructions(system, then.features, changes, then.carried)


def first_instructions(
    wording: Wording,
    session: Session,
    agent: str,
    branch: str,
    *,
    state: Mapping[str, Json],
    artifacts: Mapping[str, str],
    on_missing: str,
    least: int,
) -> Instructions | None:
    """The instructions of the agent's first request before which a number of letters was said.

    They are kept with the log. What a provider said then is in the log with the answer. Where it
    is not, nobody knows.
    """
    log = session.events
    index = _first_answer(log, agent, branch, least)
    if index is None:
        return None
    # what the caller laid over the session's state, it had then
    over = {key: value for key, value in state.items() if key not in session.state}
    known = log.memo.of((_First, agent, branch, least))
    if (
        known is not None
        and known.wording is wording
        and known.over == over
        and known.artifacts == artifacts
    ):
        return known.instructions
    recorded = recorded_by(log[index])
    # what the provider said then is lost, and asking it now would be another text
    if wording.asks and not recorded:
        return None
    then = session.before(index)
    facts = facts_of(then.events)
    scope = Scope(
        {**seen_from(then.state, facts.forks, branch), **over},
        artifacts,
        on_missing="empty" if on_missing == "empty" else "keep",
        volatile=facts.volatile,
        recorded=recorded,
    )
    instructions = resolve_instructions(wording, scope)
    log.memo.keep(_First(wording, over, {**artifacts}, instructions), agent, branch, least)
    return instructions


def recorded_by(event: Event) -> dict[str, str]:
    """What instruction providers said for the request that led to this event.

    In a log from outside anybody may have written it, and it would be system text: nobody knows.
    """
    notes = event.provenance
    return notes.instructions or {} if notes.untrusted is None else {}


def is_long(log: Strand[Event], least: int) -> bool:
    """Whether as many letters were said as it looks for."""
    return not least or _has_letters(log, len(log), least)


class _Letters:
    """How many letters a log has before each of its events, as far as anybody asked."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        self.sums = [0]


def _has_letters(log: Strand[Event], upto: int, least: int) -> bool:
    """Whether a log has enough letters up to there; each event is looked at once.

    It looks no further than it must: a log that a store keeps is not in memory after that.
    """
    sums, stays = log.memo[_Letters].sums, min(upto, log.settled)
    if len(sums) <= stays and sums[-1] < least:
        with log.lock:
            while len(sums) <= stays and sums[-1] < least:
                sums.append(sums[-1] + _size(log[len(sums) - 1]))
    if len(sums) <= stays:
        return True  # it stopped where there were enough
    return sums[stays] + sum(_size(log[index]) for index in range(stays, upto)) >= least


def _size(event: Event) -> int:
    return len(encode(event.content, where="event")) if event.content is not None else 0


class _AnswerSearch(msgspec.Struct, frozen=True):
    """How far a log was looked through, and where the answer stands."""

    upto: int
    answer: int | None = None


def _first_answer(log: Strand[Event], agent: str, branch: str, least: int) -> int | None:
    """Where in the log the agent first answers a request so long; remembered, as events stay."""
    key = (agent, branch, least)
    looked = log.memo.of((_AnswerSearch, *key)) or _AnswerSearch(0)
    if looked.answer is not None:
        return looked.answer if looked.answer < len(log) else None
    first, skim = looked.upto, skim_of(log)
    if skim is not None and agent not in skim.authors:
        first = max(first, skim.length)  # it said nothing in what nobody has read
    for index in range(first, len(log)):
        event = log[index]
        if event.author != agent or event.content is None or event.content.role == "user":
            continue
        if (event.branch or "") != branch or event.partial:
            continue
        if not least or _has_letters(log, index, least):
            # an answer that is not stored yet may be another next time
            if index < log.settled:
                log.memo.keep(_AnswerSearch(index, index), *key)
            return index
    log.memo.keep(_AnswerSearch(max(looked.upto, log.settled)), *key)
    return None


def _is_passing(block: TextBlock) -> bool:
    """Whether the text holds what lives no longer than an invocation."""
    return any(
        span.origin.kind == "state" and scope_of(span.origin.name) == "temp" for span in block.spans
    )


class _Piece(msgspec.Struct, frozen=True):
    """A text that knows where its stretches came from."""

    text: str
    spans: tuple[Span, ...]


def _spans(block: TextBlock) -> tuple[Span, ...]:
    return block.spans or (Span(len(block.text), block.origin),)


def _different(then: TextBlock | None, now: TextBlock) -> Iterator[_Piece]:
    """The lines that differ, or the whole text where it has another number of lines."""
    new = now.text.split("\n")
    old = then.text.split("\n") if then is not None else []
    # lines cannot be matched: the whole text is said again
    if len(old) != len(new):
        yield _Piece(now.text, _spans(now))
        return
    start = 0
    for one, other in zip(old, new, strict=True):
        if one != other and other.strip():
            yield _cut(now, start, start + len(other))
        elif one != other:
            heading = f"No longer: {one}"
            yield _Piece(heading, (Span(len(heading), _OWN),))
        start += len(other) + 1


def _cut(block: TextBlock, start: int, end: int) -> _Piece:
    """A stretch of a block's text, with the origins of what is in it."""
    spans: list[Span] = []
    begun = 0
    for span in _spans(block):
        if span.end > start and begun < end:
            spans.append(Span(min(span.end, end) - start, span.origin))
        begun = span.end
    return _Piece(block.text[start:end], tuple(spans))


def _join_pieces(pieces: list[_Piece], role: Literal["system", "user"]) -> TextBlock:
    """The pieces a line each, fenced where they are said in the user's name."""
    opening, closing = FENCE if role == "user" else ("", "")
    text = opening
    spans = [Span(len(text), _OWN)] if text else []
    for index, piece in enumerate(pieces):
        if index:
            text += "\n"
            spans.append(Span(len(text), _OWN))
        spans += [Span(len(text) + span.end, span.origin) for span in piece.spans]
        text += piece.text
    if closing:
        text += closing
        spans.append(Span(len(text), _OWN))
    origin = next((span.origin for span in spans if span.origin != _OWN), _OWN)
    return TextBlock(
        role=role,
        origin=origin,
        text=text,
        spans=tuple(spans),
        stability=Stability.TURN,
        priority=1,
    )
