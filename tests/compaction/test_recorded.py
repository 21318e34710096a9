"""Laws of `weft.compact` over the requests of recorded runs; see `recorded.py` for more of them."""

from itertools import pairwise
from typing import cast

import pytest

import weft
from tests.compaction.recorded import coding_runs
from tests.compaction.talks import TALKS, Wire
from weft import C
from weft.dialects import facts_for, refusals
from weft.passes.handles import SHARE

DEAREST = 1 + 1.05 * SHARE
"""How much dearer than plain history a run may be that has `recall` from its first request on.

It is declared there where it is at most that share of it; a fold may cost 3%. What decides counts
each text by itself, which comes to a few percent more or less than the request. Without this, where
`recall` always waits for the first handle, only a fold makes its own request dearer, but runs are:
0.59 of plain history with recalls instead of 0.54, in a replay of every third of 65 recorded runs.
"""


@pytest.mark.parametrize("policy", [C.auto(), C.auto(lossless=True)], ids=str)
def test_requests_of_a_recorded_run_begin_with_each_other_and_cost_less(
    policy: weft.Policy,
) -> None:
    for run in coding_runs():
        talk, before, notes, sent = TALKS[run.dialect], list[Wire](), list[Wire](), list[Wire]()
        paid, plain, edits, offered = 0.0, 0.0, 0, False
        cache = facts_for(cast("str", run.head["model"])).cache
        for number, request in enumerate(run.requests(), 1):
            place = f"{run.name}, request {number}"
            compacted = weft.compact(request, policy)
            after = talk.messages(compacted.request)
            sources = compacted.sources
            now = [one for one, at in zip(after, sources, strict=True) if at is None]
            folds = len(now) > len(notes)
            is_edited = "WEFT502" in [one.code for one in compacted.diagnostics]
            if after[: len(before)] != before:
                # only a fold writes again what was sent: it says so, and keeps earlier notes
                assert folds, place
                # between two answers in a row there was a request, as far as anybody knows
                newest = talk.messages(request)[len(sent) :]
                is_edited = is_edited or any(
                    talk.is_answer(one) and talk.is_answer(next_one)
                    for one, next_one in pairwise(newest)
                )
                assert is_edited, place
                assert now[: len(notes)] == notes, place
                assert _is_legal(run.dialect, request, compacted.request), place
            # one that is long enough to be kept only now is written, and the next one reads it
            is_kept_now = compacted.tokens_before < cache.minimum <= compacted.tokens
            cost = compacted.cost / (cache.write if is_kept_now else 1)
            paid += cost
            plain += compacted.cost_before
            # a fold costs more in its own request, and so does `recall` where it comes later
            edits += is_edited
            offered = offered or (number == 1 and compacted.tool is not None)
            most = DEAREST if offered else 1.000001
            assert is_edited or cost <= compacted.cost_before * most, place
            assert (edits and not offered) or paid <= plain * most, place
            before, notes, sent = after, now, talk.messages(request)
        assert before, run.name
        assert _is_legal(run.dialect, request, compacted.request), run.name


def _is_legal(dialect: str, request: Wire, compacted: object) -> bool:
    problems = {one.message for one in refusals(dialect, cast("Wire", compacted))}
    return problems <= {one.message for one in refusals(dialect, request)}
