"""What came of a run, from the stored logs and the table of effects.

Nothing here is from the memory of the one who sent the turns, except which turns there were. A
message, an answer or an effect may be lost or doubled; the turns of a session may be out of order,
or mixed with each other.

Top to bottom: the counts, one session's log, and who took over whose turns.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from weft.load.plan import PlannedTurn
from weft.load.program import ANSWER, JournalLine
from weft.session import Event


class Counts(msgspec.Struct):
    """What is wrong, in numbers; `examples` names some of the turns."""

    lost_messages: int = 0
    lost_answers: int = 0
    lost_effects: int = 0
    doubled_messages: int = 0
    doubled_answers: int = 0
    doubled_effects: int = 0
    out_of_order: int = 0
    interleaved: int = 0
    failed: int = 0
    """Turns that ended with an error of the agent."""
    examples: list[str] = []

    @property
    def total(self) -> int:
        """How many things are wrong."""
        return sum(getattr(self, name) for name in self.__struct_fields__ if name != "examples")

    def note(self, kind: str, turn: str, by: int = 1) -> None:
        """Count something that is wrong with a turn."""
        setattr(self, kind, getattr(self, kind) + by)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{kind.replace('_', ' ')}: {turn}")


_EXAMPLES = 20


def judge_session(
    turns: Sequence[PlannedTurn],
    events: Sequence[Event],
    effects: Mapping[str, int] | None,
    counts: Counts,
    *,
    failures: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Count what is wrong in one session; the times of its answers, by request id.

    `effects` are the rows of each turn in the table of effects; None where there is no such table.
    `failures` are turns whose agent raised an error, which the log does not have.
    """
    scripted = effects is not None
    messages, answers = Counter[str](), Counter[str]()
    errors = dict(failures or {})
    times: dict[str, float] = {}
    order: list[str] = []
    by_text = {turn.message: turn.request_id for turn in turns} if scripted else {}
    for event in events:
        id = event.invocation_id
        if event.author == "user":
            # a message that was stored twice has another invocation the second time
            id = by_text.get(event.text, id)
            messages[id] += 1
            order.append(id)
        elif event.error_code:
            errors[id] = f"{event.error_code}: {event.error_message}"
        elif event.is_final_response() and event.text:
            if scripted:
                id = by_text.get(event.text.removeprefix(ANSWER), id)
            answers[id] += 1
            times.setdefault(id, event.timestamp)
    for turn in turns:
        id = turn.request_id
        _compare(counts, "messages", id, messages[id])
        if id in errors and not answers[id]:
            counts.note("failed", f"{id}, {errors[id].splitlines()[0][:200]}")
        else:
            _compare(counts, "answers", id, answers[id])
        if effects is not None:
            _compare(counts, "effects", id, effects.get(id, 0))
    expected = [turn.request_id for turn in turns]
    seen = list(dict.fromkeys(id for id in order if id in set(expected)))
    if seen != [id for id in expected if id in set(seen)]:
        counts.note("out_of_order", turns[0].key.id)
    if _is_interleaved(event.invocation_id for event in events):
        counts.note("interleaved", turns[0].key.id)
    return times


def _compare(counts: Counts, what: str, turn: str, times: int) -> None:
    if times == 0:
        counts.note(f"lost_{what}", turn)
    elif times > 1:
        counts.note(f"doubled_{what}", turn, times - 1)


def _is_interleaved(invocations: Iterable[str]) -> bool:
    """Whether an invocation goes on after another one began."""
    ended: set[str] = set()
    current = ""
    for id in invocations:
        if id == current:
            continue
        ended.add(current)
        if id in ended:
            return True
        current = id
    return False


class Fault(NamedTuple):
    """What was done to whom, when, and until when."""

    kind: str
    at: float
    until: float
    pid: int | None = None


class TakeOver(NamedTuple):
    """A turn that a worker had when it was killed or stopped."""

    fault: int
    """Which of the faults."""
    request: str
    seconds: float
    """From the fault until another process went on with it, or the same one after a stop."""
    elsewhere: bool


def find_take_overs(
    faults: Sequence[Fault], journal: Sequence[JournalLine], answered: Mapping[str, float]
) -> list[TakeOver]:
    """The turns that were open when their worker was hit, and when somebody went on with them."""
    lines: dict[str, list[JournalLine]] = {}
    for line in journal:
        lines.setdefault(line.request, []).append(line)
    take_overs: list[TakeOver] = []
    for index, fault in enumerate(faults):
        if fault.pid is None:
            continue
        for request, own in lines.items():
            before = [line for line in own if line.at <= fault.at]
            if not before or before[-1].pid != fault.pid:
                continue
            end = answered.get(request)
            if end is not None and end <= fault.at:
                continue
            after = [line for line in own if line.at > fault.at]
            other = next((line for line in after if line.pid != fault.pid), None)
            if other is not None:
                take_overs.append(TakeOver(index, request, other.at - fault.at, elsewhere=True))
            elif end is not None:
                take_overs.append(TakeOver(index, request, end - fault.at, elsewhere=False))
    return take_overs
