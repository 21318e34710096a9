"""What tokens cost comes from a maintained list, and is loaded when somebody asks."""

import subprocess
import sys

import pytest

from weft.compiler.prices import cost_of, price_of, window_of
from weft.session import Usage


def test_a_price_knows_what_reading_and_writing_a_cache_cost() -> None:
    price = price_of("claude-opus-5")
    assert price is not None
    assert price.cache_read == pytest.approx(price.input * 0.10)
    assert price.cache_write == pytest.approx(price.input * 1.25)
    assert price.cache_write_long == pytest.approx(price.input * 2)
    assert price.output > price.input


def test_what_the_list_does_not_say_of_caching_comes_from_the_facts() -> None:
    price = price_of("gpt-5")
    assert price is not None
    assert price.cache_write == price.input
    assert price.cache_read == pytest.approx(price.input * 0.10)


@pytest.mark.parametrize(
    "model", ["local", "local:x.gguf", "http://localhost:8080/v1#m", "no-such"]
)
def test_where_nobody_knows_nothing_is_made_up(model: str) -> None:
    assert price_of(model) is None
    assert cost_of(model, Usage(prompt_token_count=10)) is None
    assert window_of(model) == 0


def test_an_answer_costs_what_its_tokens_cost() -> None:
    price = price_of("claude-opus-5")
    assert price is not None
    used = Usage(
        prompt_token_count=10_000,
        cached_content_token_count=8_000,
        candidates_token_count=500,
        thoughts_token_count=500,
    )
    spent = 1_000 * price.input + 8_000 * price.cache_read + 1_000 * price.cache_write
    expected = (spent + 1_000 * price.output) / 1_000_000
    assert cost_of("claude-opus-5", used, written=1_000) == pytest.approx(expected)


def test_a_window_comes_from_the_facts_or_else_from_the_list() -> None:
    assert window_of("claude-opus-5") == 1_000_000
    assert window_of("gpt-5") == 400_000


def test_compiling_and_running_load_no_prices() -> None:
    program = (
        "import sys, weft, weft.testing as t;"
        "model = t.ScriptedModel(['hi'], name='claude-opus-5', dialect='anthropic');"
        "agent = weft.Agent('bot', model=model);"
        "weft.run_sync(agent, 'hello').check(); weft.compile(agent, message='x').explain();"
        "print('genai_prices' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
