"""`weft models`: which models can be asked from here, what the others lack, and how to get it.

Names only: the value of a key is never read into anything that is printed.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from weft.cli.options import CommandOptions
from weft.dialects import Facts, facts_for
from weft.dialects.facts import require_model_name
from weft.errors import UsageError
from weft.values import Json, JsonObject, compact


class ModelSource(NamedTuple):
    """A place that serves models: whether it can be asked, its status, and what to type if not."""

    name: str
    model: str
    """How its models are named."""
    ready: bool
    status: str
    fix: str = ""

    def to_dict(self) -> JsonObject:
        """The row of `weft models --json`."""
        return {
            "name": self.name,
            "model": self.model,
            "ready": self.ready,
            "found": self.status,
            "fix": self.fix,
        }


def models_command(options: CommandOptions) -> int:
    """Show which models are set up, what is missing, and how to get it; or all about one."""
    if options.name is not None:
        return _one(options.name, as_json=options.as_json)
    places = [*_local(), *_services()]
    default = _default()
    if options.as_json:
        print(compact({"default": default, "models": [place.to_dict() for place in places]}))
        return 0
    source = "WEFT_MODEL" if _is_set("WEFT_MODEL") else "WEFT_MODEL is not set"
    print(f"default model: {default} ({source})")
    if lacks := _explain_default_model():
        print(f"  {lacks}")
    for place in places:
        mark = "ready  " if place.ready else "missing"
        print(f"  {mark}  {place.name:<12} {place.model:<24} {place.status}".rstrip())
        if place.fix:
            print(f"           {'':<12} {'':<24} {place.fix}")
    return 0


def _one(name: str, *, as_json: bool) -> int:
    lines = [compact(facts_json(name))] if as_json else facts_lines(name)
    for line in lines:
        print(line)
    return 0


def _default() -> str:
    """The model of an agent that names none, without what must not be printed."""
    from weft.models.services import address_of

    name = os.environ.get("WEFT_MODEL", "").strip() or "local"
    # an address may have a key in it: it is printed without
    if "://" not in name:
        return name
    address = address_of(name)
    return f"{address.base}#{address.fragment}"


def _explain_default_model() -> str:
    """Why the default model cannot be asked, or "" if it can."""
    from weft.models.registry import model_for

    try:
        model_for(os.environ.get("WEFT_MODEL", "").strip() or "local", where="WEFT_MODEL")
    except UsageError as error:
        return str(error)
    return ""


def _local() -> Iterator[ModelSource]:
    """The models that run on this machine."""
    from weft.models.local import weights
    from weft.models.local.engine import is_installed

    engine = is_installed()
    for one in weights.KNOWN.values():
        spelled = "local" if one.name == weights.DEFAULT else f"local:{one.name}"
        try:
            path = weights.find(one.name)
        except UsageError as error:
            yield ModelSource(one.name, spelled, False, error.message, error.hint)
            continue
        lacks = ([] if engine else ['pip install "weft[local]"']) + (
            [] if path is not None else [f"weft model get {one.name}"]
        )
        status = str(path) if path is not None else f"not fetched ({one.size / 1e6:,.0f} MB)"
        if not engine:
            status += ", the engine is not installed"
        yield ModelSource(one.name, spelled, not lacks, status, " && ".join(lacks))


def _services() -> Iterator[ModelSource]:
    """The places that serve models over HTTP: those that are set up first."""
    from weft.models.services import SERVICES

    places = [_service(name) for name in SERVICES]
    yield from sorted(places, key=lambda place: not place.ready)


def _service(name: str) -> ModelSource:
    from weft.models.services import SERVICES

    service = SERVICES[name]
    key = next((each for each in (*service.keys, *service.tokens) if _is_set(each)), "")
    address = service.address()
    at = next((each for each in service.url_variables if _is_set(each)), "")
    spelled = f"{name}/NAME"
    where = f"at {address}" + (f" ({at})" if at else "") if address else "no address"
    if key:
        fix = "" if address else f"export {service.url_variables[0]}=..."
        return ModelSource(name, spelled, bool(address), f"{key} is set, {where}", fix)
    if service.open:
        start = "" if at else f"start it, or export {service.url_variables[0]}=..."
        return ModelSource(name, spelled, bool(at), f"needs no key, {where}", start)
    lacks = [service.keys[0]] if service.keys else []
    if not address and service.url_variables:
        lacks.append(service.url_variables[0])
    fix = " ".join(("export", *(f"{each}=..." for each in lacks)))
    return ModelSource(name, spelled, False, f"no key, {where}", fix)


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def facts_json(model: str) -> JsonObject:
    """The facts about a model as JSON; null where a fact is unknown."""
    from weft.compiler.costs import price_of, window_of

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
    table, facts = facts_json(model), facts_for(model)
    known = "" if facts.known else ", not in any table: safe defaults are used"
    yield f"{model} is spoken to in {facts.dialect}{known}"
    if slip := _find_slip(model):
        yield _line("client", f"none answers to this name; {slip}")
    window, longest = table["window"], facts.output_limit
    size = f"{window:,} tokens" if isinstance(window, int) else "not known"
    yield _line("window", size + (f", answers of up to {longest:,}" if longest else ""))
    yield _line("schema", _schema(facts))
    yield _line("calls", "several at once" if facts.parallel_calls else "one at a time")
    if facts.efforts:
        yield _line("efforts", ", ".join(facts.efforts))
    if facts.media is not None:
        yield _line("media", ", ".join(facts.media) or "text only")
    yield _line("caching", _describe_caching(facts))
    yield _line("price", _price(model, table["price"]))


def _find_slip(model: str) -> str:
    """What to write instead of a name that no run would find a client for."""
    if model == "local" or model.startswith(("local:", "http://", "https://")):
        return ""
    try:
        require_model_name(model, where="models")
    except UsageError as error:
        return error.hint
    return ""


def _line(name: str, text: str) -> str:
    return f"  {name:<8} {text}"


def _schema(facts: Facts) -> str:
    if not facts.native_schema:
        return "as a tool" if facts.tools else "in words"
    return "native" if facts.schema_with_tools else "native, but not together with tools"


def _describe_caching(facts: Facts) -> str:
    cache = facts.cache
    if cache.exact:
        return "whatever two requests begin with in common"
    if cache.read == 1.0:
        return "not known"
    lifetime = f", kept for {' or '.join(cache.ttls)}" if cache.ttls else ""
    shares = f"read for {cache.read:g} of the price, written for {cache.write:g}"
    return f"from {cache.minimum:,} tokens on{lifetime}; {shares}"


def _price(model: str, price: Json) -> str:
    from weft.compiler.costs import advise_price

    if not isinstance(price, dict):
        return "; ".join(filter(None, ("not known", advise_price(model))))
    return (
        f"${price['input']:g} in, ${price['output']:g} out,"
        f" ${price['cache_read']:g} from the cache, for a million tokens"
    )


def get_command(options: CommandOptions) -> int:
    """Fetch weights with this machine's pip, check their hash, and say where they lie."""
    from weft.models.local import weights
    from weft.models.local.engine import is_installed
    from weft.models.local.weights import progress_bar

    wanted = weights.weights_named(options.name or weights.DEFAULT)
    with progress_bar() as progress:
        path = weights.get(wanted.name, progress)
    print(path)
    if not is_installed():
        print('to run them: pip install "weft[local]"')
    return 0


def list_command(_: CommandOptions) -> int:
    """List the weights there are by name, and where those lie that were fetched."""
    from weft.models.local import weights

    for one in weights.KNOWN.values():
        path = weights.find(one.name)
        where = str(path) if path is not None else f"weft model get {one.name}"
        print(f"{one.name:<14} {one.size / 1e6:>6,.0f} MB  {where}")
        print(f"{'':<24} {one.about} ({one.licence})")
    return 0


def remove_command(options: CommandOptions) -> int:
    """Delete weights that were fetched, and whatever an interrupted fetch left."""
    from weft.models.local import weights

    name = options.name or ""
    if not weights.remove(name):
        raise UsageError(
            f"the weights `{name}` are not on this machine",
            where="model remove",
            hint="`weft model list` shows what is",
        )
    return 0
