"""The arguments of a call, narrowed to what the user's message mentions.

One mention fills one argument. A number goes where the word beside it says, a date where a date
is asked for, a choice where it is named. What may be left out is left out unless something is
said of it. What remains open, the model chooses.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice, permutations, product

import msgspec

from weft.models.local_mentions import Number, mentions, numbers, spelled, stems
from weft.models.local_property import Property, Read, Way, framing_of, given, properties_of
from weft.models.local_texts import MOST_WAYS, directed, texts_of
from weft.values import Json, JsonObject

_DENIED = re.compile(
    r"\b(?:off|not|no|never|without|disable|stop|false|cannot)\b|n['\u2019]t\b(?!\s+forget)",
    re.IGNORECASE,
)
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
"""Languages that write no spaces: nothing is known here of where their words end."""
_ENDING = r"[^\W_]{0,4}"
_VAGUE = stems("number num count amount value max min maximum minimum total is has include the of")


def narrowed(
    tool: JsonObject, arguments: JsonObject, said: str, before: Mapping[str, list[Json]]
) -> JsonObject:
    """The schema of a tool's arguments, each property narrowed to what was said of it.

    `arguments` is that schema as it is enforced, `before` are the arguments of earlier calls.
    """
    properties = properties_of(tool, arguments)
    if not properties or _UNSPACED.search(said):
        return arguments
    read = Read(said, framing_of(tool), before, [])
    fixed: list[list[Way]] = [
        _choices([each for each in properties if "enum" in each.schema], read),
        [_flags([each for each in properties if each.is_only("boolean")], read)],
    ]
    counted = [each for each in properties if each.kinds & {"number", "integer"}]
    texts = [each for each in properties if _is_text(each)]
    lists = [each for each in properties if each.is_only("array")]
    fixed.append([_figures(counted, texts, read)])
    fixed += texts_of(texts, lists, read)
    return _schema(arguments, fixed)


def _schema(arguments: JsonObject, fixed: list[list[Way]]) -> JsonObject:
    """The schema that allows one way of each group."""
    held = arguments.get("properties")
    properties = held if isinstance(held, dict) else {}
    ways = [
        {name: schema for way in one for name, schema in way.items()}
        for one in islice(product(*fixed), MOST_WAYS)
    ]
    listed_names = arguments.get("required")
    required = listed_names if isinstance(listed_names, list) else []
    schemas: list[Json] = []
    for way in ways:
        kept = {name: way.get(name, each) for name, each in properties.items()}
        fixed_now = [
            name for name, each in way.items() if isinstance(each, dict) and "const" in each
        ]
        schemas.append(
            {
                **arguments,
                "properties": {name: each for name, each in kept.items() if each is not None},
                "required": [name for name in properties if name in required or name in fixed_now],
            }
        )
    distinct = list({msgspec.json.encode(each): each for each in schemas}.values())
    only = distinct[0]
    return only if len(distinct) == 1 and isinstance(only, dict) else {"anyOf": distinct}


def _choices(properties: list[Property], read: Read) -> list[Way]:
    """The choices that are named; where several properties have the same, each gets another."""
    way: Way = {}
    alike: dict[bytes, list[Property]] = {}
    named: dict[str, list[Json]] = {}
    for each in properties:
        choices = _listed(each.schema)
        for choice in choices:
            places = _places(read.said, choice) if isinstance(choice, str) else []
            read.taken.extend(places)
            named.setdefault(each.name, []).extend([choice] if places else [])
        if named[each.name]:
            way[each.name] = {"enum": named[each.name]}
            alike.setdefault(msgspec.json.encode(choices), []).append(each)
        elif not each.required:
            way[each.name] = None
    ways = [way]
    for group in alike.values():
        ways = [{**one, **other} for one in ways for other in _apart(group, named[group[0].name])]
    return directed(ways, properties, read)


def _apart(group: list[Property], named: list[Json]) -> list[Way]:
    """The ways in which properties with the same choices get those that are named, each one."""
    names = [each.name for each in group]
    if len(named) >= len(group):
        return [given(names, order) for order in permutations(named, len(group))]
    others: Json = [each for each in _listed(group[0].schema) if each not in named]
    return [
        {**{name: {"enum": others} for name in names}, **given(places, named)}
        for places in permutations(names, len(named))
    ]


def _listed(schema: JsonObject) -> list[Json]:
    choices = schema.get("enum")
    return choices if isinstance(choices, list) else []


def _places(said: str, choice: str) -> list[tuple[int, int]]:
    """Where a text names a choice: its words, in whatever case, and with other endings."""
    words = re.findall(r"[^\W_]+", choice)
    if not words:
        return []
    begins = [re.escape(word[:-3] if len(word) > 5 else word) for word in words]
    between = r"[_\W]+"
    exact = rf"(?<!\w){between.join(map(re.escape, words))}(?!\w)"
    near = rf"(?<!\w){(_ENDING + between).join(begins)}{_ENDING}(?!\w)"
    for pattern in (exact, near):
        found = [match.span() for match in re.finditer(pattern, said, re.IGNORECASE)]
        if found and (pattern is exact or stems(said[slice(*found[0])]) & stems(choice)):
            return found
    return []


def _flags(properties: list[Property], read: Read) -> Way:
    """Yes or no where it is named, no where it is denied; what may be left out, otherwise is."""
    way: Way = {}
    spoken = stems(read.said)
    is_denied = _DENIED.search(read.said) is not None
    for each in properties:
        own = stems(each.name)
        if (own - _VAGUE) and (own - _VAGUE) <= spoken:
            way[each.name] = {"const": not is_denied}
        elif not each.required:
            way[each.name] = None
        elif is_denied:
            way[each.name] = {"const": False}
    return way


def _figures(properties: list[Property], texts: list[Property], read: Read) -> Way:
    """The numbers: where the words beside them say, and the others in their order."""
    said = [each for each in numbers(read.said) if not _is_taken(each, read.taken)]
    way: Way = {}
    used: list[Number] = []
    asked = [(each, stems(each.name)) for each in properties]
    asked += [(each, each.about) for each in properties]
    for each, known in asked:
        near = [one for one in said if one not in used and one.beside & (known - _VAGUE)]
        if each.name not in way and near and _fits(near[0], each):
            way[each.name] = {"const": spelled(near[0].value)}
            used.append(near[0])
    left = [one for one in said if one not in used]
    needed = [each for each in properties if each.name not in way and each.required]
    spare = [each for each in properties if each.name not in way and not each.required]
    way.update({each.name: None for each in spare})
    fitting = [one for one in left if all(_fits(one, each) for each in needed)]
    if needed and len(fitting) >= len(needed):
        way.update(given([each.name for each in needed], _values(fitting[: len(needed)])))
        used += fitting[: len(needed)]
    elif not needed and len(spare) == len(left) == 1 and _fits(left[0], spare[0]):
        others = mentions(read.said, read.framing, [*read.taken, *map(_place, said)])
        if len(others) >= sum(each.required for each in texts):
            way[spare[0].name] = {"const": spelled(left[0].value)}
            used += left
    read.taken.extend(map(_place, used))
    return way


def _values(order: Sequence[Number]) -> list[Json]:
    return [spelled(one.value) for one in order]


def _fits(number: Number, wanted: Property) -> bool:
    return "number" in wanted.kinds or float(number.value).is_integer()


def _place(number: Number) -> tuple[int, int]:
    return number.start, number.end


def _is_taken(number: Number, taken: list[tuple[int, int]]) -> bool:
    return any(number.start < end and start < number.end for start, end in taken)


def _is_text(each: Property) -> bool:
    """Whether it is any text, and not one of a given form."""
    bound = any(key in each.schema for key in ("enum", "const", "format", "pattern"))
    return each.is_only("string") and not bound
