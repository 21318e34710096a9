"""A bound: what a recording would cost if somebody had known what each text is used for.

The oracle has read the recording to its end. Of each result and later message it shows the lines,
or the leaves of JSON with the names of their fields, that hold what a later step used or changed,
when the text is new, and nothing else. It never changes what was sent. So no policy that shortens
in whole lines at birth, and keeps that share in view, costs less, except where the oracle's
requests become too short to be cached. Where it need not keep all, it gives up the lines that cost
most for each use. What the agent said, the task, the instructions and the tools stay as they are.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from weft.content import Content, Part
from weft.declare import Agent, C
from weft.recordings import Recording
from weft.replay.replay import Trial, is_answer, replay
from weft.replay.uses import Uses, spelled
from weft.session import Event, Session
from weft.values import Json

ORACLE = "oracle"
"""What its row is called."""

SHARES = (1.0, 0.95, 0.9)
"""What the oracle is to keep in view of what is used later."""


def oracle_trials(
    recording: Recording,
    uses: Uses,
    *,
    model: str | None = None,
    agents: Mapping[str, Agent] | None = None,
    gap: float | None = None,
    sessions_per_hour: float = 0.0,
    shares: Sequence[float] = SHARES,
) -> list[Trial]:
    """What a recording costs if only what is used later was ever said, for each of the shares."""
    return [
        msgspec.structs.replace(
            replay(
                foreseen(recording, uses, share),
                C.default(),
                uses=uses,
                model=model,
                agents=agents,
                gap=gap,
                sessions_per_hour=sessions_per_hour,
            ),
            policy=f"{ORACLE}, at least {share:.0%}",
        )
        for share in shares
    ]


def foreseen(recording: Recording, uses: Uses, share: float = 1.0) -> Recording:
    """The recording with what was told to the agents cut down to the lines that are used later.

    `share` of the uses stay in view. The task, and what the agents said themselves, stay whole.
    """
    events = recording.session.events
    lines = _needed(events, uses, share)
    changed: list[Event] = []
    spoken = False
    for index, event in enumerate(events):
        spoken = spoken or is_answer(event)
        content = event.content
        if content is not None and content.role == "user" and content.parts:
            keep = lines.get(index, frozenset[str]())
            parts = tuple(_cut(part, keep, spoken=spoken) for part in content.parts)
            content = Content(role=content.role, parts=parts)
            event = msgspec.structs.replace(event, content=content)
        changed.append(event)
    session = recording.session
    return recording._replace(session=Session(session.id, state=session.initial, events=changed))


class _Line(NamedTuple):
    """A line that some event brings: where, and how many requests read it from then on."""

    event: int
    text: str
    requests: int


def _needed(events: Sequence[Event], uses: Uses, share: float) -> dict[int, frozenset[str]]:
    """The lines to keep of each event: those where what is used stands first, the cheapest."""
    after = [0] * (len(events) + 1)
    for index in range(len(events) - 1, -1, -1):
        after[index] = after[index + 1] + is_answer(events[index])
    brought: list[_Line] = []
    spoken = False
    for index, event in enumerate(events):
        spoken = spoken or is_answer(event)
        for part in (event.content.parts or ()) if event.content is not None else ():
            is_news = part.function_response is not None or (spoken and bool(part.text))
            if is_news and event.content is not None and event.content.role == "user":
                brought += [_Line(index, line, after[index]) for line in _lines(part)]
    serves: Counter[_Line] = Counter()
    needed: set[_Line] = set()
    for index, strings in uses.by_event.items():
        for string in strings:
            line = next((one for one in brought if one.event < index and string in one.text), None)
            if line is not None:
                serves[line] += 1
    for index, edited in uses.edits.items():
        changed = [one for one in brought if one.event < index and one.text in edited.lines]
        needed.update({one.text: one for one in changed}.values())  # the newest of each
    wanted = share * serves.total()
    ranked = sorted(serves, key=lambda one: (len(one.text) * one.requests / serves[one], one))
    served = sum(serves[one] for one in needed)
    for line in ranked:
        if served >= wanted:
            break
        if line not in needed:
            needed.add(line)
            served += serves[line]
    lines: dict[int, set[str]] = {}
    for line in needed:
        lines.setdefault(line.event, set()).add(line.text)
    return {index: frozenset(texts) for index, texts in lines.items()}


def _lines(part: Part) -> Iterator[str]:
    """What a part says, line by line; names and leaves of JSON are lines too."""
    result = part.function_response
    yield from _leaves(part.text if result is None else dict(result.response or {}))


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split("\n")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None:
        yield spelled(value)


def _cut(part: Part, keep: frozenset[str], *, spoken: bool) -> Part:
    """A part with only these lines; the task stays as it is."""
    result = part.function_response
    if result is not None:
        cut = _pruned(dict(result.response or {}), keep)
        response = cut if isinstance(cut, dict) else {}
        return msgspec.structs.replace(
            part, function_response=msgspec.structs.replace(result, response=response)
        )
    # what stands before the agent's first word is the task
    if not spoken or not part.text:
        return part
    # a message has to say something, or it is none
    return msgspec.structs.replace(part, text=str(_pruned(part.text, keep) or "-"))


def _pruned(value: Json, keep: frozenset[str]) -> Json:
    """A value without the lines and leaves that are not kept; None where nothing is."""
    if isinstance(value, str):
        return "\n".join(line for line in value.split("\n") if line in keep) or None
    if isinstance(value, dict):
        fields = {name: _pruned(inner, keep) for name, inner in value.items()}
        return {
            name: inner for name, inner in fields.items() if inner is not None or name in keep
        } or None
    if isinstance(value, list):
        return [one for inner in value if (one := _pruned(inner, keep)) is not None] or None
    return value if value is not None and spelled(value) in keep else None
