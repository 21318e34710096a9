"""A bill is held against an expectation, without a session, and its causes add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.compiler.costs import Load, rates_for
from weft.compiler.receipt import NO_USAGE, Expectation, compare_bill
from weft.session import Usage

MODELS = (
    "claude-sonnet-5",
    "claude-opus-5",
    "gpt-5",
    "openai-chat/gpt-5",
    "gemini-2.5-pro",
    "gemini-flash-latest",
    "local",
    "http://localhost:1/nobody-knows",
)

counts = st.integers(0, 600_000)
maybe = st.none() | counts
loads = st.builds(Load, counts, counts, counts, counts)


@given(
    model=st.sampled_from(MODELS),
    load=loads,
    lost=counts,
    lifetime=st.sampled_from(("", "5m", "1h")),
    usage=st.builds(
        Usage,
        prompt_token_count=counts,
        cached_content_token_count=maybe,
        candidates_token_count=maybe,
        thoughts_token_count=maybe,
        tool_use_prompt_token_count=maybe,
    ),
    written=counts,
    answered_by=st.sampled_from(("", *MODELS, "gpt-5-2025-08-07", "unheard of")),
)
def test_the_causes_of_any_difference_add_up_to_it(
    model: str,
    load: Load,
    lost: int,
    lifetime: str,
    usage: Usage,
    written: int,
    answered_by: str,
) -> None:
    expected = Expectation(model, load, lifetime=lifetime, lost=lost, blame="x" if lost else "")
    line = compare_bill(expected, usage, written=written, answered_by=answered_by)
    assert line.billed is not None
    assert min(line.billed) >= 0
    prompt = usage.prompt_token_count or 0
    assert line.billed.total == prompt + (usage.tool_use_prompt_token_count or 0)
    causes = sum(cause.cost for cause in line.causes)
    size = max(line.expected_cost, line.billed_cost, 1e-9)
    assert causes == pytest.approx(line.difference, abs=1e-7 * size)
    assert len({cause.kind for cause in line.causes}) == len(line.causes)


@given(model=st.sampled_from(MODELS), load=loads)
def test_a_bill_as_expected_has_no_cause(model: str, load: Load) -> None:
    usage = Usage(
        prompt_token_count=load.total,
        cached_content_token_count=load.cached,
        candidates_token_count=7,
    )
    line = compare_bill(Expectation(model, load), usage, written=load.written)
    assert line.causes == ()
    assert line.difference == 0
    assert line.answer == 7 * rates_for(model, tokens=load.total).answer


def _causes(line: object) -> dict[str, str]:
    from weft.compiler.receipt import Comparison

    assert isinstance(line, Comparison)
    return {cause.kind: cause.words for cause in line.causes}


def test_a_lost_cache_is_told_with_the_pause() -> None:
    expected = Expectation("gpt-5", Load(9_000, 0, 1_000), idle=900.0)
    usage = Usage(prompt_token_count=10_000, cached_content_token_count=0)
    assert _causes(compare_bill(expected, usage)) == {
        "cache": "evicted or not yet written: the provider did not keep it;"
        " the answer before came 900 s earlier"
    }


def test_a_cache_that_holds_more_than_expected_is_told_too() -> None:
    usage = Usage(prompt_token_count=10_000, cached_content_token_count=8_000)
    first = compare_bill(Expectation("gpt-5", Load(0, 0, 10_000), blame="the first"), usage)
    assert "another session" in _causes(first)["cache"]
    assert first.difference < 0
    late = Expectation("gpt-5", Load(0, 0, 10_000), lost=9_000, blame="it was kept for 5m")
    assert "still had it: it was kept for 5m" in _causes(compare_bill(late, usage))["cache"]


def test_a_wrong_estimate_is_told_with_what_nobody_can_count() -> None:
    expected = Expectation("gpt-5", Load(0, 0, 1_000), uncounted=("the provider's search",))
    words = _causes(compare_bill(expected, Usage(prompt_token_count=1_500)))["estimate"]
    assert "1,000 tokens, the provider 1,500 (+50.0%)" in words
    assert "the provider's search" in words


def test_another_model_is_told_and_a_version_of_the_same_is_not() -> None:
    expected = Expectation("gpt-5", Load(0, 0, 1_000))
    usage = Usage(prompt_token_count=1_000)
    assert _causes(compare_bill(expected, usage, answered_by="gpt-5-2025-08-07")) == {}
    other = compare_bill(expected, usage, answered_by="gpt-5-mini-2025-08-07")
    assert _causes(other) == {} or "model" in _causes(other)
    assert _causes(compare_bill(expected, usage, answered_by="claude-opus-5")) == {
        "model": "`claude-opus-5` answered instead of `gpt-5`"
    }


def test_a_price_step_is_told() -> None:
    expected = Expectation("gemini-2.5-pro", Load(0, 0, 190_000))
    line = compare_bill(expected, Usage(prompt_token_count=210_000))
    assert set(_causes(line)) == {"estimate", "tier"}


def test_what_is_missing_is_said() -> None:
    expected = Expectation("gpt-5", Load(0, 0, 1_000))
    for usage in (None, Usage(), Usage(candidates_token_count=5)):
        line = compare_bill(expected, usage)
        assert line.problem == NO_USAGE
        assert line.billed is None
        assert line.difference == 0
        assert line.causes == ()
        assert compare_bill(None, usage).problem == NO_USAGE
    alone = compare_bill(None, Usage(prompt_token_count=1_000), answered_by="gpt-5")
    assert alone.expected is None
    assert alone.billed_cost > 0
    assert alone.difference == 0
