"""Rules on types: what is read as a list or a number and is none, or compared in vain."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from weft.checker.keys import Compared
from weft.checker.near import meant
from weft.checker.schemas import follow, items_of, kind_of, values_of
from weft.checker.sites import Record
from weft.codes import report
from weft.declare import Map
from weft.declare.compare import quoted
from weft.declare.template import Variable
from weft.diagnostics import Diagnostic
from weft.values import JsonObject

_WORDS = {"string": "text", "array": "a list", "object": "an object", "boolean": "a truth value"}


def wrong_type(record: Record) -> Iterator[Diagnostic]:
    """A map over what is no list, and a predicate that compares text with a number."""
    for site in record.sites:
        for read in site.reads:
            fact = site.world.facts.get(read.key)
            if fact is None:
                continue
            shape, problem = follow(fact.schema, read.path)
            kind = kind_of(shape)
            if problem or not kind:
                continue
            who = f"`{fact.writers[-1].name}` writes {_WORDS.get(kind, f'a {kind}')} there"
            if read.how == "map" and isinstance(site.node, Map) and kind != "array":
                yield report(
                    "WEFT109",
                    read.origin,
                    f"`{site.node.items}` is no list: {who}",
                    f"give `{fact.writers[-1].name}` an output_schema that is a list, such as"
                    " list[str], or make one with a step",
                )
            wanted = kind_of(read.shape)
            if wanted and wanted != kind and {wanted, kind} != {"integer", "number"}:
                yield report(
                    "WEFT109",
                    read.origin,
                    f"the input `{read.key}` is {_WORDS.get(wanted, f'a {wanted}')}: {who}",
                    f"let `{fact.writers[-1].name}` write that, or declare the type that it writes",
                )
            if read.number and kind in ("string", "array", "object"):
                name = Variable(read.key, read.path, "", read.optional, 0, 0).name
                spelled = "".join(f"[{json.dumps(step)}]" for step in (read.key, *read.path))
                yield report(
                    "WEFT109",
                    read.origin,
                    f"`{name}` is compared with a number: {who}",
                    f"let `{fact.writers[-1].name}` return a number: agent @ Schema, or write"
                    f" float(state{spelled})",
                )


def vain_comparison(record: Record) -> Iterator[Diagnostic]:
    """A function that compares a value with one that whoever writes it never writes."""
    for site in record.sites:
        if site.world.opaque:
            continue  # other code may write other values
        for read in site.reads:
            fact = site.world.facts.get(read.key) if read.compared else None
            shape, problem = follow(fact.schema, read.path) if fact is not None else (None, "x")
            if fact is None or problem:
                continue
            for one in read.compared:
                found = _in_vain(one, shape)
                if found is not None:
                    who = f"`{fact.writers[-1].name}` writes {found.known}"
                    named = str(one.values[0])
                    yield report(
                        "WEFT403",
                        read.origin,
                        f"{_spelled(one)} {found.outcome} holds: {who}",
                        meant(named, found.names, quote='"') or "compare with what it writes",
                    )


class _Vain(NamedTuple):
    """A comparison that tells nothing apart: how it comes out, and what is really there."""

    outcome: str
    known: str
    names: list[str]


def _in_vain(one: Compared, shape: JsonObject | None) -> _Vain | None:
    """What is wrong with a comparison, by the values or the type that are written."""
    outcome = "always" if one.operator in ("ne", "not in") else "never"
    listed = items_of(shape) if one.operator == "contains" else values_of(shape)
    if listed is not None:
        there = [*listed, *one.spare]
        if any(_equal(value, other) for value in one.values for other in there):
            return None
        kind = "a list of" if one.operator == "contains" else "one of"
        named = ", ".join(quoted(value) for value in listed)
        return _Vain(outcome, f"{kind} {named}", [str(value) for value in listed])
    if one.operator == "contains":
        words = values_of(shape)
        texts = [word for word in words or () if isinstance(word, str)]
        if words is None or len(texts) < len(words):
            return None
        if any(
            str(value) in text for value in one.values for text in (*texts, *map(str, one.spare))
        ):
            return None
        return _Vain(outcome, f"one of {', '.join(map(quoted, texts))}", texts)
    kind = kind_of(shape)
    wanted = {_json_kind(value) for value in (*one.values, *one.spare)}
    plain = "number" if kind == "integer" else kind
    if plain not in ("string", "number", "boolean") or plain in wanted:
        return None
    if plain == "number" and "boolean" in wanted:
        return None  # True == 1
    return _Vain(outcome, _WORDS.get(plain, f"a {plain}"), [])


def _equal(one: object, other: object) -> bool:
    """Whether Python calls two values equal; letter case counts there."""
    return one == other


def _json_kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _spelled(one: Compared) -> str:
    """The comparison as its author wrote it, or nearly so."""
    name = Variable(one.key, one.path, "", optional=False, start=0, end=0).name
    values = ", ".join(quoted(value) for value in one.values)
    match one.operator:
        case "eq":
            return f"`{name} == {values}`"
        case "ne":
            return f"`{name} != {values}`"
        case "contains":
            return f"`{values} in {name}`"
        case _:
            return f"`{name} {one.operator} ({values})`"
