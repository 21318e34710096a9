"""What holds for every receipt."""

import pytest

from weft.replay.receipt import Receipt


def require_sums(receipt: Receipt) -> None:
    """The causes are the difference, and the parts are the total."""
    causes = sum(cause.cost for cause in receipt.causes)
    assert causes == pytest.approx(receipt.difference, abs=1e-9)
    lines = receipt.counted_lines
    whole = sum(line.call.billed_cost + line.call.answer for line in lines)
    assert receipt.total == pytest.approx(whole)
    shown = receipt.to_json()
    assert shown["total"] == receipt.total
    assert len(receipt.to_text().splitlines()) > len(receipt.lines)
