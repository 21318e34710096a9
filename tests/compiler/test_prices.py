"""What tokens cost comes from a maintained list, and is loaded when somebody asks."""

import subprocess
import sys

import pytest

from weft.compiler.costs import advise_price, price_of, window_of
from weft.dialects.facts import facts_for
from weft.dialects.price_list import price_list


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
    assert window_of(model) == 0


def test_a_model_that_a_newer_list_may_have_is_told_where_to_get_one() -> None:
    assert advise_price("claude-weaver-9") == "for newer prices: pip install -U genai-prices"
    for model in ("claude-opus-5", "local", "http://localhost:8080/v1#m"):
        assert advise_price(model) == ""


def test_a_window_comes_from_the_facts_or_else_from_the_list() -> None:
    assert window_of("claude-opus-5") == 1_000_000
    assert window_of("gpt-5") == 400_000


def test_compiling_and_running_load_no_prices() -> None:
    program = (
        "import sys, weft, weft.testing as t;"
        "model = t.ScriptedModel(['hi'], name='claude-opus-5', dialect='anthropic');"
        "agent = weft.Agent('bot', model=model);"
        "weft.run_sync(agent, 'hello').check(); weft.compile(agent, message='x').wire;"
        "print({'genai_prices', 'weft.dialects.price_list'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_what_decides_about_a_digest_or_a_fold_is_what_the_list_charges() -> None:
    for seller in price_list().sellers:
        for listing in seller.listings if seller.id in ("anthropic", "openai", "google") else ():
            cache, price = facts_for(listing.id).cache, price_of(listing.id)
            if cache.minimum and price is not None and price.input and "image" not in listing.id:
                read, write = price.cache_read / price.input, price.cache_write / price.input
                assert read == pytest.approx(cache.read, abs=0.03), listing.id
                assert write == pytest.approx(cache.write, abs=0.06), listing.id
