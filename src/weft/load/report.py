"""The verdict and the figures of a load run: as text, as JSON, and as a picture.

The verdict is from the stored logs and the table of effects; nothing is from the memory of the one
who sent the turns, except which turns there were. A message, an answer or an effect may be lost or
doubled; the turns of a session may be out of order, or mixed with each other.

Top to bottom: what is counted, one session's log, who took over whose turns; the figures, the
text, the picture, and the processor time of other processes.
"""

import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from weft.load.plan import LoadPlan, PlannedTurn
from weft.load.program import ANSWER, JournalLine
from weft.session import Event
from weft.values import JsonObject


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
    """A fault: its kind, the process it hit, when it began and when it was over."""

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


# --- the figures, and the text


class TurnTimes(NamedTuple):
    """When a turn was sent and answered, in seconds from the start of the run."""

    request: str
    sent: float
    answered: float


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What came of a run."""

    plan: LoadPlan
    counts: Counts
    """What is wrong in the stored logs."""
    times: Sequence[TurnTimes]
    seconds: float
    faults: Sequence[Fault]
    """The faults, in seconds from the start."""
    take_overs: Sequence[TakeOver]
    begun: int | None
    """How often the tool was begun; more often than there are turns where one was cut off."""
    retries: int
    starts: int
    cpu: float
    """Seconds of processor time of workers and of our own database, if nothing was hurt."""

    @property
    def missing_faults(self) -> list[str]:
        """Kinds of faults that the plan has and that did not all happen."""
        kinds = [fault.kind for fault in self.faults]
        return [one for one in self.plan.chaos if kinds.count(one) < self.plan.faults]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is lost, doubled or out of order, and all faults happened."""
        return not self.counts.total and not self.missing_faults

    @property
    def rate(self) -> float:
        """Turns a second, of the middle 80 percent: without start and end."""
        ends = sorted(one.answered for one in self.times)
        if len(ends) < 10:
            return len(ends) / self.seconds if self.seconds > 0 else 0.0
        first, last = ends[len(ends) // 10], ends[len(ends) * 9 // 10]
        count = len(ends) * 9 // 10 - len(ends) // 10
        return count / (last - first) if last > first else 0.0

    @property
    def latencies(self) -> list[float]:
        """Seconds from sending to the answer, sorted."""
        return sorted(one.answered - one.sent for one in self.times)

    @property
    def cpu_per_turn(self) -> float | None:
        """Seconds of processor time a turn; None where processes came and went."""
        if self.faults or not self.cpu or not self.times:
            return None
        return self.cpu / len(self.times)

    def figures(self) -> JsonObject:
        """All figures as JSON."""
        plan, latencies = self.plan, self.latencies
        cpu = self.cpu_per_turn
        return {
            "run": plan.run,
            "sound": self.is_sound,
            "engine": plan.engine if plan.workers else "server" if plan.is_address else "runner",
            "sessions": plan.sessions,
            "turns": plan.total,
            "workers": plan.workers,
            "answered": len(self.times),
            "seconds": round(self.seconds, 3),
            "turns_per_second": round(self.rate, 2),
            "latency": {
                name: round(percentile(latencies, share), 4)
                for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
            },
            "cpu_per_turn": round(cpu, 5) if cpu is not None else None,
            "faults": {
                kind: sum(fault.kind == kind for fault in self.faults) for kind in plan.chaos
            },
            "missing_faults": list(self.missing_faults),
            "open_at_fault": len(self.take_overs),
            "take_over": {
                kind: {
                    "open": len(self.taken_over(kind)) + len(self.taken_over(kind, itself=True)),
                    "elsewhere": len(self.taken_over(kind)),
                    "median": _round_percentile(self.taken_over(kind), 0.5),
                    "max": _round_percentile(self.taken_over(kind), 1.0),
                }
                for kind in ("kill", "stop")
                if kind in plan.chaos
            },
            "back_after_restart": [round(seconds, 3) for seconds in self.back_after("restart")],
            "back_after_hang": [round(seconds, 3) for seconds in self.back_after("hang")],
            "counts": {
                name: getattr(self.counts, name)
                for name in Counts.__struct_fields__
                if name != "examples"
            },
            "examples": list(self.counts.examples),
            "tool_begun": self.begun,
            "sent_again": self.retries,
            "workers_started": self.starts,
        }

    def taken_over(self, kind: str, *, itself: bool = False) -> list[float]:
        """Seconds until turns went on that were open at faults of a kind, sorted.

        Elsewhere, that is; with `itself`, of those that ended where they were.
        """
        return sorted(
            one.seconds
            for one in self.take_overs
            if self.faults[one.fault].kind == kind and one.elsewhere != itself
        )

    def back_after(self, kind: str) -> list[float]:
        """Seconds from the return of the database to the next answer, for each fault of a kind."""
        ends = sorted(one.answered for one in self.times)
        after = [
            next((end - fault.until for end in ends if end >= fault.until), None)
            for fault in self.faults
            if fault.kind == kind
        ]
        return [seconds for seconds in after if seconds is not None]

    def to_json(self) -> str:
        """The figures as text."""
        return msgspec.json.format(msgspec.json.encode(self.figures()), indent=2).decode()

    def __str__(self) -> str:
        return "\n".join(f"{name:<12}{text}" for name, text in self._lines())

    def _lines(self) -> Iterable[tuple[str, str]]:
        plan, counts, latencies = self.plan, self.counts, self.latencies
        where = f"{plan.workers} workers ({plan.engine})" if plan.workers else "this process"
        if plan.is_address:
            where = "the server"
        yield (
            "turns",
            f"{len(self.times)} of {plan.total} answered, {plan.sessions} sessions, {where}",
        )
        yield "rate", f"{self.rate:.1f} turns/s over {self.seconds:.1f} s"
        shares = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
        yield (
            "latency",
            "  ".join(f"{name} {in_words(percentile(latencies, at))}" for name, at in shares),
        )
        if self.cpu_per_turn is not None:
            yield "processor", f"{self.cpu_per_turn * 1e3:.1f} ms a turn"
        if plan.chaos:
            yield from self._fault_lines()
        yield (
            "lost",
            f"{counts.lost_messages} messages, {counts.lost_answers} answers"
            + self._effects(counts.lost_effects),
        )
        yield (
            "doubled",
            f"{counts.doubled_messages} messages, {counts.doubled_answers} answers"
            + self._effects(counts.doubled_effects),
        )
        yield (
            "order",
            f"{counts.out_of_order} sessions out of order, {counts.interleaved} interleaved",
        )
        if counts.failed:
            yield "failed", f"{counts.failed} turns ended with an error"
        for example in counts.examples:
            yield "", example
        if self.missing_faults:
            yield (
                "missing",
                f"not every {', '.join(self.missing_faults)} happened: the run was over",
            )

    def _effects(self, number: int) -> str:
        return f", {number} effects" if self.plan.is_scripted else ""

    def _fault_lines(self) -> Iterable[tuple[str, str]]:
        kinds = [fault.kind for fault in self.faults]
        yield "faults", ", ".join(f"{kinds.count(kind)} {kind}" for kind in self.plan.chaos)
        for kind in ("kill", "stop"):
            if kind in kinds:
                yield "take-over", f"after a {kind}: {self._taken_over_words(kind)}"
        for kind in ("restart", "hang"):
            if back := self.back_after(kind):
                yield (
                    kind,
                    f"next answer {', '.join(map(in_words, back))} after the server was back",
                )
        if self.begun is not None:
            yield "tool", f"begun {self.begun} times for {self.plan.total} turns"
        yield "workers", f"{self.starts} started; {self.retries} requests sent again"

    def _taken_over_words(self, kind: str) -> str:
        elsewhere, itself = self.taken_over(kind), self.taken_over(kind, itself=True)
        text = f"{len(elsewhere) + len(itself)} turns were open"
        if elsewhere:
            text += (
                f"; {len(elsewhere)} went on elsewhere, median"
                f" {in_words(statistics.median(elsewhere))}, max {in_words(elsewhere[-1])}"
            )
        return text + (f"; {len(itself)} ended where they were" if itself else "")

    def picture(self) -> str:
        """The run as SVG: turns a second above, the latency of each turn below, faults across."""
        return draw(self)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the sorted values that at least this share does not exceed; 0 without any."""
    if not values:
        return 0.0
    return values[max(0, math.ceil(share * len(values)) - 1)]


def _round_percentile(values: Sequence[float], share: float) -> float | None:
    return round(percentile(values, share), 3) if values else None


def in_words(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


# --- the picture

_WIDTH, _PANEL, _EDGE, _GAP = 860, 150, 56, 44
_COLOURS = {"kill": "#c0392b", "stop": "#d68910", "restart": "#7d3c98", "hang": "#2874a6"}
_BARS = 86


def draw(report: LoadReport) -> str:
    """The picture of a run."""
    span = max([report.seconds, *(fault.at for fault in report.faults), 0.001])
    height = 2 * _PANEL + _GAP + 2 * _EDGE
    upper, lower = _EDGE, _EDGE + _PANEL + _GAP
    drawn = [
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        *_faults(report, span, upper, lower + _PANEL),
        *_rates(report, span, upper),
        *_latencies(report, span, lower),
        f'<text x="{_WIDTH - _EDGE}" y="{height - 22}" text-anchor="end">{span:.1f} s</text>',
        *_legend(report, height - 22),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" role="img"'
        ' font-family="sans-serif" font-size="12" fill="#333">'
        f"<title>{len(report.times)} turns, {report.rate:.1f} a second</title>"
        f"{''.join(drawn)}</svg>\n"
    )


def _x_at(seconds: float, span: float) -> float:
    return _EDGE + seconds / span * (_WIDTH - 2 * _EDGE)


def _faults(report: LoadReport, span: float, top: int, bottom: int) -> Iterable[str]:
    for fault in report.faults:
        x, end = _x_at(fault.at, span), _x_at(min(fault.until, span), span)
        colour = _COLOURS[fault.kind]
        words = f"<title>{fault.kind} at {fault.at:.1f} s</title>"
        if end - x > 1:
            yield (
                f'<rect x="{x:.1f}" y="{top}" width="{end - x:.1f}" height="{bottom - top}"'
                f' fill="{colour}" opacity="0.12">{words}</rect>'
            )
        yield f'<path d="M{x:.1f} {top}V{bottom}" stroke="{colour}" opacity="0.8">{words}</path>'


def _legend(report: LoadReport, y: int) -> Iterable[str]:
    x = _EDGE
    for kind in dict.fromkeys(fault.kind for fault in report.faults):
        yield f'<path d="M{x} {y - 4}h14" stroke="{_COLOURS[kind]}" stroke-width="2"/>'
        yield f'<text x="{x + 20}" y="{y}">{kind}</text>'
        x += 90


def _rates(report: LoadReport, span: float, top: int) -> Iterable[str]:
    """A bar for each slice of the time, as high as turns were answered in it."""
    slices = [0] * _BARS
    for one in report.times:
        slices[min(_BARS - 1, max(0, int(one.answered / span * _BARS)))] += 1
    most = max([*slices, 1])
    width = (_WIDTH - 2 * _EDGE) / _BARS
    yield from _axes(top, "turns/s", f"{most * _BARS / span:.0f}")
    for index, count in enumerate(slices):
        tall = count / most * _PANEL
        yield (
            f'<rect x="{_EDGE + index * width:.1f}" y="{top + _PANEL - tall:.1f}"'
            f' width="{width - 1:.1f}" height="{tall:.1f}" fill="#2e86c1"/>'
        )


def _latencies(report: LoadReport, span: float, top: int) -> Iterable[str]:
    """A dot for each turn at the time it was answered; a step upwards is ten times as long."""
    latencies = report.latencies
    least = max(1e-3, latencies[0]) if latencies else 1e-3
    most = max(latencies[-1] if latencies else 1.0, least * 10)
    yield from _axes(top, f"latency, {in_words(least)} to", in_words(most))
    for one in report.times:
        seconds = max(least, one.answered - one.sent)
        up = math.log(seconds / least) / math.log(most / least) * _PANEL
        yield (
            f'<circle cx="{_x_at(one.answered, span):.1f}" cy="{top + _PANEL - up:.1f}" r="1.6"'
            ' fill="#2e86c1" opacity="0.5"/>'
        )


def _axes(top: int, what: str, most: str) -> Iterable[str]:
    bottom, right = top + _PANEL, _WIDTH - _EDGE
    yield f'<path d="M{_EDGE} {top}V{bottom}H{right}" fill="none" stroke="#999"/>'
    yield f'<text x="{_EDGE}" y="{top - 8}">{what} {most}</text>'


# --- processor time of other processes


def cpu_seconds(pids: Sequence[int], database: int | None) -> float:
    """Seconds of processor time that processes have had; 0 where the system does not say.

    Without workers it is this process that works. Of a database also what processes had that it
    has ended.
    """
    own = sum(map(_process_seconds, pids)) if pids else time.process_time()
    if database is None:
        return own
    return own + _process_seconds(database, waited=True) + sum(_children_seconds(database))


def _process_seconds(pid: int, *, waited: bool = False) -> float:
    fields = _stat(pid)
    if fields is None:
        return 0.0
    # its own time in user and kernel mode, then that of children it has waited for
    ticks = sum(map(int, fields[11 : 15 if waited else 13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _children_seconds(parent: int) -> Iterable[float]:
    for path in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields is not None and int(fields[1]) == parent:
            yield _process_seconds(int(path.name))


def _stat(pid: int) -> list[str] | None:
    """What the system says of a process, from its state on; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # a process's name, in brackets, may have spaces and brackets itself
    return text.rpartition(")")[2].split()
