"""What the rooms of the page say of one session, held against each other."""

import pytest

from tests.support.receipts import require_sums
from weft.inspector import Inspection
from weft.inspector.answer import describe_answer
from weft.inspector.request import RequestView
from weft.inspector.sources import RecordedSessions, StoredSessions
from weft.values import JsonObject


async def counted_row(sessions: RecordedSessions | StoredSessions) -> JsonObject:
    """The first line of a list of sessions, once it is counted."""
    while True:
        row, *_ = await sessions.sessions()
        if not row["counting"]:
            return row


def require_one_count(inspection: Inspection, row: JsonObject) -> None:
    """The strip, the answers, the cache view, the totals, the list and the receipt agree."""
    film, receipt = inspection.film(), inspection.receipt()
    require_sums(receipt)
    lines = {line.event: line.call.to_json() for line in receipt.lines}
    for frame in film["frames"]:
        bill = describe_answer(inspection, frame["number"])["bill"]
        assert bill == {name: lines[frame["event"]][name] for name in bill}, "answer and receipt"
        if frame["problem"]:
            continue
        assert (bill["expected"]["total"], bill["money"]) == (frame["tokens"], frame["money"])
        assert bill["expected"]["cached"] == frame["cached"]
        assert bill["expected_cost"] == pytest.approx(frame["cost"])
        cache = RequestView(inspection, frame["number"]).cache_facts()
        assert cache["total"] == frame["tokens"]
        for name in ("cached", "possible", "fresh", "cost", "saved", "lost", "money"):
            assert cache[name] == frame[name], f"the cache view's {name}"
    summary, frames = film["session"], [one for one in film["frames"] if not one["problem"]]
    for name in ("tokens", "cached"):
        assert summary[name] == sum(frame[name] for frame in frames), f"the totals' {name}"
    priced = [frame for frame in frames if frame["money"]]
    assert summary["cost"] == pytest.approx(sum(frame["cost"] for frame in priced or frames))
    billed = summary["reported"]
    if billed is not None:
        assert billed["cost"] == pytest.approx(receipt.total)
    for name in ("tokens", "cached", "cost", "money", "unpriced"):
        shown = summary if billed is None else billed
        assert row[name] == pytest.approx(shown[name]), f"the list's {name}"
    for name in ("steps", "errors", "agents"):
        assert row[name] == summary[name], f"the list's {name}"
