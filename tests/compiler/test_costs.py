"""What a request costs: read again, kept or read once, at the prices of its model."""

import re

import pytest

from weft import Agent, C
from weft.compiler import compile_request
from weft.compiler.costs import (
    RELATIVE,
    Load,
    cliffs_of,
    cost_of,
    cost_words,
    load_of,
    price_of,
    rates_for,
)
from weft.dialects import facts_for
from weft.testing import make_session

LONG = make_session(("user", "wind " * 6_000), ("bot", "calm"), ("user", "And now?"))


def test_the_yardstick_counts_in_fresh_tokens() -> None:
    assert RELATIVE.cost(Load(cached=1_000, written=100, fresh=10)) == pytest.approx(235)
    assert rates_for("no-such-model") == RELATIVE
    assert RELATIVE.worth(1_234.4) == "1,234 fresh tokens"


def test_a_model_with_a_price_costs_money() -> None:
    price, rates = price_of("claude-opus-5"), rates_for("claude-opus-5")
    assert price is not None
    assert rates.money
    assert rates.fresh == pytest.approx(price.input / 1e6)
    assert rates.write == pytest.approx(rates.fresh * 1.25)
    assert rates.read == pytest.approx(rates.fresh * 0.10)


def test_what_is_kept_longer_costs_more_to_keep() -> None:
    assert rates_for("claude-opus-5", lifetime="1h").write == pytest.approx(
        rates_for("claude-opus-5").fresh * 2
    )


def test_above_a_cliff_every_token_costs_more() -> None:
    (cliff,) = cliffs_of("claude-sonnet-4-5")
    below, above = (rates_for("claude-sonnet-4-5", tokens=cliff + more) for more in (0, 1))
    assert above.fresh == pytest.approx(2 * below.fresh)
    assert above.read > below.read
    assert above.answer > below.answer
    assert cliffs_of("claude-opus-5") == ()
    assert cliffs_of("no-such-model") == ()


def test_a_provider_reuses_strides_from_its_minimum_on() -> None:
    cache = facts_for("gpt-5").cache
    assert load_of(2_000, 1_023, cache) == Load(0, 2_000, 0)
    assert load_of(2_000, 1_300, cache) == Load(1_280, 720, 0)


def test_a_provider_that_is_not_asked_keeps_nothing() -> None:
    cache = facts_for("claude-opus-5").cache
    assert load_of(5_000, 0, cache, asked=True) == Load(0, 5_000, 0)
    assert load_of(5_000, 0, cache, asked=False) == Load(0, 0, 5_000)
    assert load_of(100, 0, cache) == Load(0, 0, 100)


def test_a_request_that_extends_the_one_before_costs_a_tenth() -> None:
    agent = Agent("bot", model="claude-opus-5", instruction="Be brief.")
    first = cost_of(compile_request(agent, session=LONG.before(1)))
    second = cost_of(compile_request(agent, session=LONG))
    assert second.total < first.total / 8
    assert second.saved == pytest.approx(first.total, rel=0.1)
    assert first.cached == 0
    assert second.broken == 0


def test_a_changed_prefix_has_its_price() -> None:
    agent = Agent(
        "bot",
        model="claude-opus-5",
        instruction="Be {mood}.",
        generate_config={"instruction_changes": "rewrite"},
    )
    before = make_session(
        ("user", "wind " * 6_000), ("bot", "calm"), ("user", "And now?"), state={"mood": "brief"}
    )
    cost = cost_of(compile_request(agent, session=before, state={"mood": "kind"}))
    assert cost.cached == 0
    assert cost.broken > cost.total / 2
    assert re.search(r"; the changed prefix costs \$0\.\d{4}$", cost_words(cost))


def test_explain_shows_money_in_every_form() -> None:
    agent = Agent("bot", model="claude-opus-5", instruction="Be brief.")
    report = compile_request(agent, session=LONG).explain()
    line = next(line for line in report.to_text().splitlines() if "  cost " in line)
    assert re.search(
        r"cost     \$0\.\d{4}, without the answer; \$0\.\d{4} of it cached, which saves \$", line
    )
    assert "of it cached, which saves" in report.to_html()
    told = report.to_dict()["cost"]
    assert isinstance(told, dict)
    assert told["money"] is True
    assert told["total"] == pytest.approx(report.cost.total)


def test_explain_says_where_no_price_is_known() -> None:
    report = compile_request(Agent("bot", model="openrouter/foo"), message="Hi").explain()
    assert "fresh tokens' worth, no price is known" in report.to_text()


def test_a_window_says_what_it_costs_to_move() -> None:
    turns = [
        turn
        for number in range(6)
        for turn in (("user", f"question {number} " * 200), ("bot", f"answer {number} " * 200))
    ]
    session = make_session(*turns, ("user", "Go on."))
    agent = Agent("bot", model="claude-opus-5").sees(C.window(3))
    found = [d for d in compile_request(agent, session=session).diagnostics if d.code == "WEFT502"]
    assert len(found) == 1
    assert re.search(
        r"select_window changed what was sent before: [\d,]+ tokens are read again, which costs"
        r" \$0\.\d{4} now and saves \$0\.\d{4} at each later request",
        found[0].message,
    )
    plain = compile_request(Agent("bot", model="claude-opus-5"), session=session)
    assert all(d.code != "WEFT502" for d in plain.diagnostics)
