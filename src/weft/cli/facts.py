"""`weft models NAME`: what Weft knows of one model: its limits, abilities, caching and price."""

from collections.abc import Iterator

from weft.dialects import Facts, facts_for
from weft.values import Json, JsonObject


def facts_json(model: str) -> JsonObject:
    """What is known of a model, for machines; null where nobody knows."""
    from weft.compiler.prices import price_of, window_of

    facts, price = facts_for(model), price_of(model)
    cost: JsonObject | None = {**price._asdict()} if price is not None else None
    efforts: list[Json] | None = list(facts.efforts) if facts.efforts is not None else None
    media: list[Json] | None = list(facts.media) if facts.media is not None else None
    return {
        "model": model,
        "known": facts.known,
        "dialect": facts.dialect,
        "window": window_of(model) or None,
        "output_limit": facts.output_limit or None,
        "schema": _schema(facts),
        "parallel_calls": facts.parallel_calls,
        "efforts": efforts,
        "media": media,
        "cache_minimum": facts.cache.minimum or None,
        "price": cost,
    }


def facts_lines(model: str) -> Iterator[str]:
    """What is known of a model, for people."""
    told, facts = facts_json(model), facts_for(model)
    known = "" if facts.known else ", not in any table: safe defaults are used"
    yield f"{model} is spoken to in {facts.dialect}{known}"
    window, longest = told["window"], facts.output_limit
    size = f"{window:,} tokens" if isinstance(window, int) else "not known"
    yield _line("window", size + (f", answers of up to {longest:,}" if longest else ""))
    yield _line("schema", _schema(facts))
    yield _line("calls", "several at once" if facts.parallel_calls else "one at a time")
    if facts.efforts:
        yield _line("efforts", ", ".join(facts.efforts))
    if facts.media is not None:
        yield _line("media", ", ".join(facts.media) or "text only")
    yield _line("caching", _caching(facts))
    yield _line("price", _price(told["price"]))


def _line(name: str, text: str) -> str:
    return f"  {name:<8} {text}"


def _schema(facts: Facts) -> str:
    if not facts.native_schema:
        return "as a tool" if facts.tools else "in words"
    return "native" if facts.schema_with_tools else "native, but not beside tools"


def _caching(facts: Facts) -> str:
    cache = facts.cache
    if cache.exact:
        return "whatever two requests begin with in common"
    if cache.read == 1.0:
        return "not known"
    kept = f", kept for {' or '.join(cache.ttls)}" if cache.ttls else ""
    shares = f"read for {cache.read:g} of the price, written for {cache.write:g}"
    return f"from {cache.minimum:,} tokens on{kept}; {shares}"


def _price(price: Json) -> str:
    if not isinstance(price, dict):
        return "not known"
    return (
        f"${price['input']:g} in, ${price['output']:g} out,"
        f" ${price['cache_read']:g} from the cache, for a million tokens"
    )
