"""The list of prices in the package says what genai-prices says, and steps back for a newer one."""

import importlib.metadata
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from genai_prices import UpdatePrices, types
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dialects.make_prices import TABLE, installed, text_of
from weft.compiler.costs import cliffs_of, price_of, window_of
from weft.dialects import price_list as module
from weft.dialects.facts import near_names
from weft.dialects.price_list import Listing, newer_prices, price_list, read_providers

KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_long": "cache_write_1h_mtok",
}
SNAPSHOT = get_snapshot()
PROVIDERS = {provider.id: provider for provider in SNAPSHOT.providers}


def test_the_list_in_the_package_is_the_one_that_the_command_makes() -> None:
    made = text_of(installed())
    assert TABLE.read_text("utf-8") == made, "genai-prices has changed: run `make prices`"
    assert price_list().version == importlib.metadata.version("genai-prices")


def test_the_list_is_small_and_names_its_licence() -> None:
    assert TABLE.stat().st_size < 160_000
    name = price_list().licence.rpartition(" ")[2]
    assert "Permission is hereby granted" in (TABLE.parent / name).read_text("utf-8")


# --- the same answers


def clauses_of(clause: object) -> Iterator[object]:
    parts = getattr(clause, "or_", None) or getattr(clause, "and_", None)
    if parts is None:
        yield clause
    for part in parts or ():
        yield from clauses_of(part)


def names_for(clause: object) -> Iterator[str]:
    """Names that a clause takes, and some that it just does not."""
    match clause:
        case types.ClauseEquals(text):
            # Thousands of them are lists of plain names: some of these are tried harder.
            yield from (text, text.upper(), f"{text}-x", text[:-1])[: 4 if "5" in text else 1]
        case types.ClauseStartsWith(text) | types.ClauseEndsWith(text) | types.ClauseContains(text):
            yield from (text, f"{text}-20260229", f"{text}-20260228", f"x{text}", f"x-{text}@y")
        case types.ClauseRegex(text):
            bare = re.sub(r"^\^|\$$|\(\?[:!=][^)]*\)\??", "", text).replace("\\d{8}", "20261117")
            yield from (bare, re.sub(r"\\(.)", r"\1", bare), f"{bare}-pro")


def same_amounts(listing: Listing, model: types.ModelInfo, moment: datetime) -> None:
    ours, theirs = listing.amounts_at(moment), vars(model.get_prices(moment))
    starts = {
        tier.start
        for price in theirs.values()
        if isinstance(price, types.TieredPrices)
        for tier in price.tiers
    }
    assert [start for start, _ in ours.above] == sorted(starts)
    for tokens in (0, 1, *(start + more for start in starts for more in (0, 1))):
        for ours_called, theirs_called in KINDS.items():
            # What one million tokens of a kind cost in a request of so many, by its own account.
            price = theirs.get(theirs_called)
            paid = types.calc_unit_price(price, 1_000_000, tokens, 1_000_000)
            expected = None if price is None else float(paid)
            assert getattr(ours.of_request(tokens), ours_called) == expected


def moments_of(model: types.ModelInfo) -> Iterator[datetime]:
    """Now, and just before and at each moment when a price changes."""
    yield datetime.now(UTC)
    for price in model.prices if isinstance(model.prices, list) else ():
        match price.constraint:
            case types.StartDateConstraint(day):
                start = datetime.combine(day, time(), UTC)
                yield from (start, start - timedelta(microseconds=1), start + timedelta(days=400))
            case types.TimeOfDateConstraint(begin, end):
                for each in (begin, end):
                    moment = datetime.combine(date(2026, 11, 17), each)
                    yield from (moment, moment - timedelta(seconds=1))
            case None:
                pass


def theirs(name: str, seller: str) -> tuple[str, types.ModelInfo] | None:
    try:
        provider, model = SNAPSHOT.find_provider_model(name, None, seller, None)
    except LookupError:
        return None
    return provider.id, model


def same_lookup(name: str, seller: str) -> None:
    ours, expected = price_list().find(name, seller), theirs(name, seller)
    if expected is None:
        assert ours is None, (name, seller)
        return
    assert ours is not None, (name, seller)
    model = expected[1]
    assert (ours[0].id, ours[1].id) == (expected[0], model.id), (name, seller)
    assert ours[1].window == (model.context_window or 0)


@pytest.mark.parametrize("seller", PROVIDERS)
def test_every_name_of_a_seller_finds_the_same_model(seller: str) -> None:
    for model in PROVIDERS[seller].models:
        names = [name for clause in clauses_of(model.match) for name in names_for(clause)]
        for name in dict.fromkeys((model.id, *names)):
            same_lookup(name, seller)


@pytest.mark.parametrize("seller", PROVIDERS)
def test_every_model_costs_the_same_at_every_moment(seller: str) -> None:
    ours = price_list().seller(seller)
    assert ours is not None
    for listing, model in zip(ours.listings, PROVIDERS[seller].models, strict=True):
        for moment in moments_of(model):
            same_amounts(listing, model, moment)


ELSEWHERE = ["litellm", "azure", "google", "Vertex_AI", " together_ai ", "huggingface-novita", "no"]


@pytest.mark.parametrize("asked", ELSEWHERE)
def test_others_who_pass_models_on_find_the_same(asked: str) -> None:
    for seller, provider in PROVIDERS.items():
        for model in provider.models[::9]:
            for name in (model.id, f"{seller}/{model.id}", f"{model.id}-20260704"):
                same_lookup(name, asked)


PIECES = st.sampled_from(
    ("claude", "opus", "4", "5", ".", "-", "-5", "gpt", "gpt-5", "o3", "mini", "gemini", "@", ":",
     "/", "anthropic", "-20251211", "-20261399", "-2025-12-11", "latest", "Grok", "mistral", "^",
     "*", "~", "+", "x")
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.lists(PIECES, max_size=6).map("".join) | st.text(max_size=8),
    st.sampled_from((*PROVIDERS, *ELSEWHERE)) | st.text(max_size=5),
)
def test_any_name_finds_the_same_model(name: str, seller: str) -> None:
    same_lookup(name, seller)


def model(id: str, **fields: object) -> types.ModelInfo:
    made = types.ModelInfo(
        id, types.ClauseEquals(id), prices=types.ModelPrice(input_mtok=Decimal(1))
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def test_hours_over_midnight_and_of_other_zones_are_those_of_utc() -> None:
    east = timezone(timedelta(hours=8))
    night = types.TimeOfDateConstraint(time(22, tzinfo=UTC), time(6, tzinfo=UTC))
    day = types.TimeOfDateConstraint(time(7, tzinfo=east), time(9, tzinfo=east))
    naive = types.TimeOfDateConstraint(time(22), time(22, 30))
    for constraint in (night, day, naive, None):
        prices = [
            types.ConditionalPrice(prices=types.ModelPrice(input_mtok=Decimal(1))),
            types.ConditionalPrice(constraint, prices=types.ModelPrice(input_mtok=Decimal(2))),
        ]
        one = model("m", prices=prices)
        provider = types.Provider("p", "P", "x", models=[one])
        listing = read_providers([provider], "1").sellers[0].listings[0]
        for hour in range(24):
            for zone in (UTC, east):
                same_amounts(listing, one, datetime(2026, 11, 17, hour, 15, tzinfo=zone))


def test_rules_of_any_shape_are_read() -> None:
    either = types.ClauseOr([types.ClauseStartsWith("a"), types.ClauseContains("B")])
    end = [types.ClauseEndsWith("c"), types.ClauseRegex("^.$"), types.ClauseContains("")]
    both = types.ClauseAnd([either, types.ClauseOr(end)])
    one = model(
        "M", match=types.ClauseOr([both, types.ClauseEquals("M"), types.ClauseEquals("mx")])
    )
    seller = read_providers([types.Provider("p", "P", "x", models=[one])], "1").sellers[0]
    for name in ("a", "ac", "abc", "b", "bc", "xbc", "xc", "m", "M", "mx", "my", "", "c"):
        assert (seller.find(name) is not None) == one.is_match(name), name


# --- where it comes from


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing that was worked out of what is installed is remembered."""
    caches = (module._find_installed_version, module._is_newer, module._warn_once)
    for cached in caches:
        cached.cache_clear()
    yield
    set_custom_snapshot(None)
    for cached in caches:
        cached.cache_clear()


NOVEL = model(
    "claude-weaver-9",
    context_window=7_000,
    prices=types.ModelPrice(
        input_mtok=types.TieredPrices(Decimal("1.5"), [types.Tier(100, Decimal(3))])
    ),
)
ONE = types.Provider("anthropic", "Anthropic", "x", models=[NOVEL])


def test_prices_that_the_program_sets_are_used_at_once(fresh: None) -> None:
    assert price_of("anthropic/claude-weaver-9") is None
    set_custom_snapshot(DataSnapshot([ONE], from_auto_update=False))
    price = price_of("anthropic/claude-weaver-9")
    assert price is not None
    assert price.input == 1.5
    assert cliffs_of("claude-weaver-9") == (100,)
    assert price_of("claude-weaver-9", tokens=101).input == 3  # type: ignore[union-attr]
    assert price_of("claude-opus-5") is None
    assert near_names(("anthropic",), "claude-weaver-8") == ["claude-weaver-9"]
    set_custom_snapshot(None)
    assert price_of("claude-opus-5") is not None


def test_prices_that_the_program_fetches_are_used(fresh: None) -> None:
    body = [
        {
            "id": "anthropic",
            "name": "Anthropic",
            "api_pattern": "x",
            "models": [
                {
                    "id": "gizmo-1",
                    "match": {"equals": "gizmo-1"},
                    "context_window": 123,
                    "prices": {"input_mtok": 4, "output_mtok": 8},
                }
            ],
        }
    ]

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with UpdatePrices(url=f"http://127.0.0.1:{server.server_port}/") as update:
            assert update.wait(30)
        thread.join()
    price = price_of("anthropic/gizmo-1")
    assert price is not None
    assert (price.input, price.output, window_of("anthropic/gizmo-1")) == (4, 8, 123)


def install(monkeypatch: pytest.MonkeyPatch, version: str, *providers: types.Provider) -> None:
    """As if genai-prices of that version, with this list, were installed."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    bundle = DataSnapshot(list(providers), from_auto_update=False)
    monkeypatch.setattr("genai_prices.data_snapshot._bundled_snapshot", lambda: bundle)
    monkeypatch.setattr("genai_prices.data.providers", bundle.providers)


@pytest.mark.parametrize(
    ("version", "used"), [("0.2.10", True), ("0.2.0", False), ("1.0", True), ("0.10", True)]
)
def test_an_installed_list_is_used_where_it_is_newer(
    fresh: None, monkeypatch: pytest.MonkeyPatch, version: str, used: bool
) -> None:
    install(monkeypatch, version, ONE)
    assert (price_of("claude-weaver-9") is not None) == used
    assert (price_list().version == version) == used


def test_an_installed_list_of_another_make_is_reported_and_passed_over(
    fresh: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(monkeypatch, "9.9", replace(ONE, models=[model("m", match=object())]))
    for _ in range(2):
        assert price_of("claude-opus-5") is not None
    (record,) = caplog.records
    assert (
        "genai-prices 9.9 cannot be read (TypeError: `object` is not a known rule)"
        in record.message
    )


def test_without_the_extra_and_pydantic_a_run_knows_what_it_costs() -> None:
    program = """
import sys
sys.modules["genai_prices"] = sys.modules["pydantic"] = None
import weft
from weft.dialects.price_list import newer_prices
from weft.testing import ScriptedModel, call, usage

def look(query: str, more: dict[str, object]) -> dict[str, object]:
    "Look it up."
    return more

script = [usage(call("look", query="a", more={"b": [None]}), prompt=1_000_000, output=0), "Done."]
model = ScriptedModel(script, name="claude-opus-5", dialect="anthropic")
config = weft.RunConfig(budget=weft.RunBudget(money=9))
result = weft.run_sync(weft.Agent("bot", model=model, tools=[look]), "x", config=config).check()
print(result.text, [e.provenance.spent.money for e in result.events if e.provenance.spent][0])
print(newer_prices())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Done. 5.0\npip install 'weft[prices]'\n", "")
    assert newer_prices() == "pip install -U genai-prices"
