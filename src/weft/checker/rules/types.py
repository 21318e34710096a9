"""Rules on types: what is read as a list or a number, and is none."""

import json
from collections.abc import Iterator

from weft.checker.schemas import follow, kind_of
from weft.checker.sites import Record
from weft.codes import report
from weft.declare import Map
from weft.declare.template import Variable
from weft.diagnostics import Diagnostic

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
