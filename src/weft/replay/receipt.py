"""The receipt of a session: each model call with what was expected, what was billed, and why.

The requests are compiled again from the log, so a receipt needs no note that was taken while the
session ran. Calls that a policy made for itself, and answers of agents that are not in the
program, are billed too: they have no expectation, and say so.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count

import msgspec

from weft.compiler.costs import Rates
from weft.compiler.receipt import CauseKind, Comparison, compare_bill, expect
from weft.compiler.report import align_rows
from weft.declare import Node, RunConfig
from weft.diagnostics import safe
from weft.ir.block import RECALL
from weft.markup import text_line, titled_fragment
from weft.replay.steps import AnsweredStep, Speaker, StepWalk, ends_call, is_unanswered, speaker_of
from weft.session import Event, Session
from weft.values import Json, JsonObject

CAUSES: dict[CauseKind, str] = {
    "cache": "cache lost",
    "estimate": "estimate off",
    "provider tools": "the provider's own tools",
    "model": "another model answered",
    "tier": "another price step",
    "writing": "kept otherwise",
}
"""The kinds of causes in the order in which a receipt lists them, in words."""

FOUND = "more was cached"
"""What `cache` is called where it made a request cheaper."""


class ReceiptLine(msgspec.Struct, frozen=True):
    """One model call: who asked, when, and its two prices.

    `number` counts the session's answers from 1; a call that a policy made for itself has 0.
    `is_recall` says that the call was made only to read on after a recall, `recalls` how often its
    answer asks for something that was left out.
    """

    number: int
    event: str
    invocation: str
    agent: str
    time: float
    call: Comparison
    is_recall: bool = False
    recalls: int = 0

    def to_json(self) -> JsonObject:
        """The line as JSON."""
        return {
            "number": self.number,
            "event": self.event,
            "invocation": self.invocation,
            "agent": self.agent,
            "time": self.time,
            "is_recall": self.is_recall,
            "recalls": self.recalls,
            **self.call.to_json(),
        }


class CauseTotal(msgspec.Struct, frozen=True):
    """What one kind of cause comes to: calls, tokens, cost, and its dearest reason."""

    kind: CauseKind
    calls: int
    tokens: int
    cost: float
    words: str

    def to_json(self) -> JsonObject:
        """The total as JSON."""
        return msgspec.structs.asdict(self)


class Receipt(msgspec.Struct, frozen=True):
    """What a session was expected to cost, and what it cost.

    Sums are in US dollars where `money`, else in fresh tokens, and take in the calls whose model
    has a price, or if none has, all. The two sides compare the calls that have both.
    """

    session: str
    lines: tuple[ReceiptLine, ...]
    notice: str = ""
    """What a reader has to know of how the requests were rebuilt."""

    @property
    def money(self) -> bool:
        """Whether sums are in US dollars."""
        return any(line.call.money for line in self.lines)

    @property
    def counted_lines(self) -> list[ReceiptLine]:
        """The lines that the sums take in."""
        return [line for line in self.lines if line.call.money == self.money]

    @property
    def comparable_lines(self) -> list[ReceiptLine]:
        """Those of them with an expectation and a bill."""
        return [
            line
            for line in self.counted_lines
            if line.call.expected is not None and line.call.billed is not None
        ]

    @property
    def expected(self) -> float:
        """What the requests were expected to cost."""
        return sum(line.call.expected_cost for line in self.comparable_lines)

    @property
    def billed(self) -> float:
        """What the same requests cost, without their answers."""
        return sum(line.call.billed_cost for line in self.comparable_lines)

    @property
    def difference(self) -> float:
        """What they cost more than expected."""
        return self.billed - self.expected

    @property
    def answers(self) -> float:
        """What all answers cost."""
        return sum(line.call.answer for line in self.counted_lines)

    @property
    def unexpected(self) -> float:
        """What requests cost that have no expectation."""
        return sum(
            line.call.billed_cost for line in self.counted_lines if line.call.expected is None
        )

    @property
    def total(self) -> float:
        """The whole bill: all requests that were billed, and their answers."""
        return self.billed + self.unexpected + self.answers

    @property
    def causes(self) -> list[CauseTotal]:
        """Why the bill differs, by kind; the costs add up to `difference`."""
        totals: list[CauseTotal] = []
        for kind in CAUSES:
            some = [cause for line in self.comparable_lines for cause in line.call.causes]
            some = [cause for cause in some if cause.kind == kind]
            if some:
                tokens, cost = sum(one.tokens for one in some), sum(one.cost for one in some)
                # a reason for what it comes to: some calls may have been cheaper, others dearer
                dearest = (max if cost > 0 else min)(some, key=lambda cause: cause.cost)
                words = dearest.words if kind in ("cache", "model") else ""
                totals.append(CauseTotal(kind, len(some), tokens, cost, words))
        return totals

    @property
    def recalls(self) -> list[ReceiptLine]:
        """The calls that were made only to read what had been left out."""
        return [line for line in self.counted_lines if line.is_recall]

    def to_json(self) -> JsonObject:
        """The receipt as JSON."""
        lost = [line.call for line in self.counted_lines if line.call.lost]
        return {
            "session": self.session,
            "notice": self.notice,
            "money": self.money,
            "expected": self.expected,
            "billed": self.billed,
            "difference": self.difference,
            "answers": self.answers,
            "unexpected": self.unexpected,
            "total": self.total,
            "causes": [cause.to_json() for cause in self.causes],
            "recalls": {
                "calls": len(self.recalls),
                "cost": sum(_whole_cost(line) for line in self.recalls),
            },
            "changed_prefix": {
                "calls": len(lost),
                "tokens": sum(call.lost for call in lost),
                "cost": sum(call.lost_cost for call in lost),
            },
            "remarks": list[Json](self.remarks()),
            "calls": [line.to_json() for line in self.lines],
        }

    def remarks(self) -> list[str]:
        """What the sums leave out, in words."""
        remarks = [self.notice] if self.notice else []
        calls = [line.call for line in self.lines]
        unpriced = [call for call in calls if call.money != self.money and not call.problem]
        if unpriced:
            names = ", ".join(sorted({f"`{call.model}`" for call in unpriced}))
            remarks.append(f"{_count_calls(unpriced)} to {names} without a price: not in the sums")
        elif calls and not self.money:
            remarks.append("no price is known: costs are in fresh input tokens")
        for problem, times in Counter(call.problem for call in calls if call.problem).items():
            remarks.append(f"{_count_calls(range(times))} without a bill: {problem}")
        alone = [call for call in calls if call.expected is None and call.billed is not None]
        if alone:
            remarks.append(f"{_count_calls(alone)} without an expectation: only the bill is known")
        return remarks

    def to_text(self) -> str:
        """The receipt as a table, with the sums below it."""
        return "\n".join(_receipt_lines(self))

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        title = f"receipt of {self.session}"
        return titled_fragment(title, *(text_line(line) for line in _receipt_lines(self)))


def receipt_of(
    session: Session,
    steps: Iterable[AnsweredStep],
    *,
    model: str = "",
    notice: str = "",
) -> Receipt:
    """The receipt of a session, from its steps; `model` is who answered where nothing says so."""
    return Receipt(session.id, tuple(_lines_of(session, steps, model)), notice)


def receipt_of_run(
    root: Node,
    session: Session,
    invocation: str,
    *,
    config: RunConfig,
    artifacts: Mapping[str, str] | None = None,
) -> Receipt:
    """The receipt of one run: of earlier runs only the requests that its own follow are rebuilt."""
    wanted: dict[str, None] = {}
    before: dict[Speaker, str] = {}
    for event in session.events:
        if ends_call(event):
            speaker = speaker_of(event)
            if event.invocation_id == invocation:
                wanted |= dict.fromkeys((before.get(speaker, event.id), event.id))
            if not is_unanswered(event):
                before[speaker] = event.id
    walk = StepWalk(root, session, config=config, artifacts=artifacts, answers=frozenset(wanted))
    whole = receipt_of(session, walk.take(session.events))
    mine = [line for line in whole.lines if line.invocation == invocation]
    answers = count(1)
    numbered = (
        msgspec.structs.replace(line, number=next(answers)) if line.number else line
        for line in mine
    )
    return Receipt(session.id, tuple(numbered))


def _lines_of(session: Session, steps: Iterable[AnsweredStep], model: str) -> Iterator[ReceiptLine]:
    """The calls in the order of the log."""
    by_place = {step.place: step for step in steps}
    asking: dict[Speaker, bool] = {}
    for place, event in enumerate(session.events):
        step = by_place.get(place)
        if step is None:
            if _is_billed(event):
                yield _line(event, compare_bill_of(event, None, model))
            continue
        speaker, recalls = speaker_of(event), _count_recalls(event)
        call = compare_bill_of(event, step, model)
        yield _line(
            event,
            call,
            number=step.number,
            is_recall=asking.get(speaker, False),
            recalls=recalls,
        )
        asking[speaker] = bool(recalls) and recalls == len(event.calls)


def compare_bill_of(event: Event, step: AnsweredStep | None, model: str) -> Comparison:
    """An answer's usage against what its request was expected to cost."""
    notes = event.provenance
    effect = notes.effect or {}
    asked = notes.spent.model if notes.spent is not None else None
    answered = str(effect.get("model") or notes.model or event.model_version or asked or "")
    request = step.request if step is not None else None
    expected = expect(request) if request is not None else None
    call = compare_bill(
        expected,
        event.usage,
        written=notes.cache_write or 0,
        lifetime=notes.cache_lifetime or "",
        answered_by=answered or (model if expected is None else ""),
    )
    if step is not None and request is None and not call.problem:
        return msgspec.structs.replace(call, blame=f"no request to compare with: {step.problem}")
    if step is None and effect:
        return msgspec.structs.replace(call, blame=f"asked for the policy: {_kind_of(effect)}")
    return call


def _line(
    event: Event, call: Comparison, *, number: int = 0, is_recall: bool = False, recalls: int = 0
) -> ReceiptLine:
    return ReceiptLine(
        number,
        event.id,
        event.invocation_id,
        event.author,
        event.timestamp,
        call,
        is_recall=is_recall,
        recalls=recalls,
    )


def _kind_of(effect: JsonObject) -> str:
    return str(effect.get("kind") or effect.get("key") or "a summary or a note")


def _is_billed(event: Event) -> bool:
    """Whether an event that is not an answer came from a model: a provider counted it."""
    return event.usage is not None and not event.partial


def _count_recalls(event: Event) -> int:
    return sum(call.name == RECALL for call in event.calls)


def _whole_cost(line: ReceiptLine) -> float:
    return line.call.billed_cost + line.call.answer


# --- as text


def _receipt_lines(receipt: Receipt) -> Iterator[str]:
    worth = Rates(money=receipt.money).worth
    agents = len({line.agent for line in receipt.lines})
    yield (
        f"{safe(receipt.session)}: {_count_calls(receipt.lines)} of"
        f" {agents} agent{'' if agents == 1 else 's'}"
    )
    yield ""
    yield from _call_table(receipt)
    yield ""
    yield from _sum_lines(receipt, _sign_costs(worth))
    for remark in receipt.remarks():
        yield f"note: {safe(remark)}"


def _call_table(receipt: Receipt) -> Iterator[str]:
    """A row a call; what is to say of it stands below."""
    title = ("call", "agent", "expected", "cached", "billed", "cached", "answer", "cost", "more")
    head, *rows = align_rows([title, *map(_row_of, receipt.lines)], left_aligned=(1,))
    yield head
    for line, row in zip(receipt.lines, rows, strict=True):
        yield row
        for words in _words_of(line):
            yield f"      {safe(words)}"


def _row_of(line: ReceiptLine) -> tuple[str, ...]:
    call = line.call
    worth = Rates(money=call.money).worth
    more, signed = "", _sign_costs(worth)
    if call.expected is not None and call.billed is not None:
        more = signed(call.difference)
    return (
        str(line.number) if line.number else "-",
        safe(line.agent),
        f"{call.expected.total:,}" if call.expected is not None else "?",
        f"{call.expected.cached:,}" if call.expected is not None else "?",
        f"{call.billed.total:,}" if call.billed is not None else "?",
        f"{call.billed.cached:,}" if call.billed is not None else "?",
        f"{call.billed.answer:,}" if call.billed is not None else "?",
        worth(_whole_cost(line)) if call.billed is not None else "?",
        more,
    )


def _words_of(line: ReceiptLine) -> Iterator[str]:
    """What there is to say of one call."""
    call, signed = line.call, _sign_costs(Rates(money=line.call.money).worth)
    if line.is_recall:
        yield "made to read on after a recall"
    if call.problem:
        yield call.problem
    if call.lost:
        yield f"{call.lost:,} tokens read again, as expected: {call.blame}"
    elif call.expected is None and call.blame:
        yield call.blame
    for cause in call.causes:
        if abs(cause.cost) >= _WORTH_SAYING * max(call.expected_cost, call.billed_cost):
            yield f"{signed(cause.cost)} {_name_cause(cause.kind, cause.cost)}: {cause.words}"


_WORTH_SAYING = 0.01
"""The share of a call's price from which on a cause is told at the call."""


def _sum_lines(receipt: Receipt, signed: Callable[[float], str]) -> Iterator[str]:
    worth = Rates(money=receipt.money).worth
    share = f" ({100 * receipt.difference / receipt.expected:+.1f}%)" if receipt.expected else ""
    if receipt.comparable_lines:
        yield (
            f"requests: expected {worth(receipt.expected)}, billed {worth(receipt.billed)},"
            f" {signed(receipt.difference)}{share}"
        )
    else:
        yield "requests: none has both an expectation and a bill"
    for cause in receipt.causes:
        words = f": {cause.words}" if cause.words else ""
        yield (
            f"  {signed(cause.cost)} {_name_cause(cause.kind, cause.cost)},"
            f" {cause.tokens:+,} tokens in {_count_calls(range(cause.calls))}{safe(words)}"
        )
    lost = [line.call for line in receipt.counted_lines if line.call.lost]
    if lost:
        why, _ = Counter(call.blame for call in lost).most_common(1)[0]
        yield (
            f"in it: {worth(sum(call.lost_cost for call in lost))} for tokens read again, as"
            f" expected, in {_count_calls(lost)}: {safe(why)}"
        )
    if receipt.recalls:
        cost = worth(sum(map(_whole_cost, receipt.recalls)))
        yield f"in it: {cost} for {_count_calls(receipt.recalls)} made to read on after a recall"
    if receipt.unexpected:
        yield f"requests without an expectation: {worth(receipt.unexpected)}"
    if any(line.call.billed is not None for line in receipt.counted_lines):
        yield f"answers: {worth(receipt.answers)}, which nobody predicts"
        yield f"total: {worth(receipt.total)}"


def _name_cause(kind: CauseKind, cost: float) -> str:
    return FOUND if kind == "cache" and cost < 0 else CAUSES[kind]


def _sign_costs(worth: Callable[[float], str]) -> Callable[[float], str]:
    """A difference in words, with its sign."""

    def sign(cost: float) -> str:
        if not cost or abs(cost) < 1e-9:
            return "no more"
        return f"{'+' if cost > 0 else '-'}{worth(abs(cost))}"

    return sign


def _count_calls(calls: Sequence[object]) -> str:
    return f"{len(calls):,} call{'' if len(calls) == 1 else 's'}"
