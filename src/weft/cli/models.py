"""`weft models`: which models can be asked from here, what the others lack, and how to get it.

Names only: the value of a key is never read into anything that is printed.
"""

import os
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer

from weft.errors import UsageError


class Place(NamedTuple):
    """One place that serves models: whether it can be asked, by what, and what to type if not."""

    name: str
    model: str
    """How its models are named."""
    ready: bool
    found: str
    fix: str = ""


def models_command(
    name: Annotated[
        str | None, typer.Argument(help="One model: its limits, abilities, caching and price.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False,
) -> int:
    """Show which models are set up, what is missing, and how to get it; or all about one."""
    if name is not None:
        return _one(name, as_json=as_json)
    places = [*_local(), *_services()]
    default = _default()
    if as_json:
        from weft.values import compact

        listed = [dict(place._asdict()) for place in places]
        print(compact({"default": default, "models": listed}))
        return 0
    source = "WEFT_MODEL" if _is_set("WEFT_MODEL") else "WEFT_MODEL is not set"
    print(f"default model: {default} ({source})")
    if lacks := _unknown():
        print(f"  {lacks}")
    for place in places:
        mark = "ready  " if place.ready else "missing"
        print(f"  {mark}  {place.name:<12} {place.model:<24} {place.found}".rstrip())
        if place.fix:
            print(f"           {'':<12} {'':<24} {place.fix}")
    return 0


def _one(name: str, *, as_json: bool) -> int:
    from weft.cli.facts import facts_json, facts_lines
    from weft.values import compact

    lines = [compact(facts_json(name))] if as_json else facts_lines(name)
    for line in lines:
        print(line)
    return 0


def _default() -> str:
    """The model of an agent that names none, as it may be shown."""
    from weft.models.address import address_of

    name = os.environ.get("WEFT_MODEL", "").strip() or "local"
    if "://" not in name:
        return name
    held = address_of(name)
    return f"{held.base}#{held.fragment}"


def _unknown() -> str:
    """Why nobody answers to the default's name, or "" where somebody may."""
    from weft.models.registry import model_for

    try:
        model_for(os.environ.get("WEFT_MODEL", "").strip() or "local", where="WEFT_MODEL")
    except UsageError as error:
        return str(error)
    return ""


def _local() -> Iterator[Place]:
    """The models that run on this machine."""
    from weft.models import weights
    from weft.models.local_engine import is_installed

    engine = is_installed()
    for one in weights.KNOWN.values():
        spelled = "local" if one.name == weights.DEFAULT else f"local:{one.name}"
        try:
            found = weights.find(one.name)
        except UsageError as error:
            yield Place(one.name, spelled, False, error.message, error.hint)
            continue
        lacks = ([] if engine else ['pip install "weft[local]"']) + (
            [] if found is not None else [f"weft model get {one.name}"]
        )
        held = str(found) if found is not None else f"not fetched ({one.size / 1e6:,.0f} MB)"
        if not engine:
            held += ", the engine is not installed"
        yield Place(one.name, spelled, not lacks, held, " && ".join(lacks))


def _services() -> Iterator[Place]:
    """The places that serve models over HTTP: those that are set up first."""
    from weft.models.services import SERVICES

    found = [_service(name) for name in SERVICES]
    yield from sorted(found, key=lambda place: not place.ready)


def _service(name: str) -> Place:
    from weft.models.services import SERVICES

    service = SERVICES[name]
    held = next((each for each in (*service.keys, *service.tokens) if _is_set(each)), "")
    address = service.address()
    at = next((each for each in service.url_variables if _is_set(each)), "")
    spelled = f"{name}/NAME"
    where = f"at {address}" + (f" ({at})" if at else "") if address else "no address"
    if held:
        fix = "" if address else f"export {service.url_variables[0]}=..."
        return Place(name, spelled, bool(address), f"{held} is set, {where}", fix)
    if service.open:
        start = "" if at else f"start it, or export {service.url_variables[0]}=..."
        return Place(name, spelled, bool(at), f"needs no key, {where}", start)
    lacks = [service.keys[0]] if service.keys else []
    if not address and service.url_variables:
        lacks.append(service.url_variables[0])
    fix = " ".join(("export", *(f"{each}=..." for each in lacks)))
    return Place(name, spelled, False, f"no key, {where}", fix)


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())
