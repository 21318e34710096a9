"""The arguments of a call, narrowed to what the user's message mentions.

One mention fills one argument. A number goes where the word beside it says, a date where a date
is asked for, a choice where it is named. What may be left out is left out unless something is
said of it. What remains open, the model chooses.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, permutations, product
from typing import NamedTuple, cast

import msgspec

from weft.models.local_mentions import (
    Mention,
    Number,
    joined,
    listed,
    mentions,
    numbers,
    spelled,
    stems,
    variants,
)
from weft.values import Json, JsonObject

_MOST_WAYS = 160
_MOST_SPANS = 300
_MOST_WORDS = 8
_PHRASE = re.compile(r"[.,;:!?()\[\]{}\"]+(?=\s|$)|[\n()\[\]{}\"]")
_EXAMPLE = re.compile(r"(?:\be\.g\.|\bi\.e\.|\b(?:such as|for example|like)\b)[^.;\n]*|\"[^\"]*\"")
_DENIED = re.compile(
    r"\b(?:off|not|no|never|without|disable|stop|false|cannot)\b|n['’]t\b", re.IGNORECASE
)
_ENDING = r"[^\W_]{0,4}"
_WHEN = stems("when date day time hour moment week month deadline due until start end")
_VAGUE = stems("number num count amount value max min maximum minimum total is has include the of")

Way = dict[str, Json | None]
"""What some properties are held to; None where one is left out."""


class _Property(NamedTuple):
    name: str
    schema: JsonObject
    kinds: frozenset[str]
    about: frozenset[str]
    """The stems of its description, without examples."""
    required: bool


class _Read(NamedTuple):
    """A message as it is read for one tool."""

    said: str
    framing: frozenset[str]
    before: Mapping[str, Sequence[Json]]
    taken: list[tuple[int, int]]


def narrowed(
    tool: JsonObject, arguments: JsonObject, said: str, before: Mapping[str, list[Json]]
) -> JsonObject:
    """The schema of a tool's arguments, each property narrowed to what was said of it.

    `arguments` is that schema as it is enforced, `before` are the arguments of earlier calls.
    """
    properties = _properties(tool, arguments)
    if not properties:
        return arguments
    read = _Read(said, _framing(tool), before, [])
    fixed: list[list[Way]] = [
        _choices([each for each in properties if "enum" in each.schema], read),
        [_flags([each for each in properties if each.kinds == {"boolean"}], read)],
    ]
    counted = [each for each in properties if each.kinds & {"number", "integer"}]
    texts = [each for each in properties if _is_text(each)]
    lists = [each for each in properties if each.kinds == {"array"}]
    fixed.append(_figures(counted, texts, read))
    fixed += _texts(texts, lists, read)
    return _schema(arguments, fixed)


def _schema(arguments: JsonObject, fixed: list[list[Way]]) -> JsonObject:
    """The schema that allows one way of each group."""
    held = arguments.get("properties")
    properties = held if isinstance(held, dict) else {}
    ways = [
        {name: schema for way in one for name, schema in way.items()}
        for one in islice(product(*fixed), _MOST_WAYS)
    ]
    listed_names = arguments.get("required")
    required = listed_names if isinstance(listed_names, list) else []
    schemas: list[Json] = []
    for way in ways:
        kept = {name: way.get(name, each) for name, each in properties.items()}
        given = [name for name, each in way.items() if isinstance(each, dict) and "const" in each]
        schemas.append(
            {
                **arguments,
                "properties": {name: each for name, each in kept.items() if each is not None},
                "required": [name for name in properties if name in required or name in given],
            }
        )
    distinct = list({msgspec.json.encode(each): each for each in schemas}.values())
    only = distinct[0]
    return only if len(distinct) == 1 and isinstance(only, dict) else {"anyOf": distinct}


def _properties(tool: JsonObject, arguments: JsonObject) -> list[_Property]:
    held, declared = arguments.get("properties"), tool.get("parameters")
    described = declared.get("properties") if isinstance(declared, dict) else None
    required = arguments.get("required")
    found: list[_Property] = []
    for name, each in held.items() if isinstance(held, dict) else ():
        own = described.get(name) if isinstance(described, dict) else None
        about = own.get("description") if isinstance(own, dict) else None
        schema = _without_null(each)
        if schema is not None:
            text = _EXAMPLE.sub(" ", about) if isinstance(about, str) else ""
            is_required = isinstance(required, list) and name in required
            found.append(_Property(name, schema, _kinds(schema), stems(text), is_required))
    return found


def _without_null(schema: Json) -> JsonObject | None:
    """The schema of a value that may be missing, without saying so."""
    if not isinstance(schema, dict) or "const" in schema:
        return None
    options = schema.get("anyOf")
    if isinstance(options, list):
        real = [each for each in options if isinstance(each, dict) and each.get("type") != "null"]
        return real[0] if len(real) == 1 else None
    return schema


def _framing(tool: JsonObject) -> frozenset[str]:
    """The stems of the words a tool is described with, but for examples."""
    texts = [tool.get("name"), tool.get("description")]
    declared = tool.get("parameters")
    properties = declared.get("properties") if isinstance(declared, dict) else None
    for name, each in properties.items() if isinstance(properties, dict) else ():
        texts += [name, each.get("description") if isinstance(each, dict) else None]
    return stems(_EXAMPLE.sub(" ", "\n".join(text for text in texts if isinstance(text, str))))


def _choices(properties: list[_Property], read: _Read) -> list[Way]:
    """The choices that are named; where several properties have the same, each gets another."""
    way: Way = {}
    alike: dict[bytes, list[str]] = {}
    for each in properties:
        choices = each.schema.get("enum")
        named: list[Json] = []
        for choice in choices if isinstance(choices, list) else ():
            places = _places(read.said, choice) if isinstance(choice, str) else []
            read.taken.extend(places)
            named += [choice] if places else []
        if named:
            way[each.name] = {"const": named[0]} if len(named) == 1 else {"enum": named}
            alike.setdefault(msgspec.json.encode(named), []).append(each.name)
        elif not each.required:
            way[each.name] = None
    ways = [way]
    for held, names in alike.items():
        values: list[Json] = msgspec.json.decode(held)
        if 1 < len(names) <= len(values):
            orders = list(permutations(values, len(names)))
            ways = [{**one, **_given(names, order)} for one in ways for order in orders]
    return ways


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


def _flags(properties: list[_Property], read: _Read) -> Way:
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


def _figures(properties: list[_Property], texts: list[_Property], read: _Read) -> list[Way]:
    """The numbers: where the words beside them say, and the others in every order."""
    said = [each for each in numbers(read.said) if not _is_taken(each, read.taken)]
    way: Way = {}
    used: list[Number] = []
    for known in (lambda one: stems(one.name) - _VAGUE, lambda one: one.about - _VAGUE):
        for each in properties:
            near = [one for one in said if one not in used and one.beside & known(each)]
            if each.name not in way and near and _fits(near[0], each):
                way[each.name] = {"const": spelled(near[0].value)}
                used.append(near[0])
    left = [one for one in said if one not in used]
    needed = [each for each in properties if each.name not in way and each.required]
    spare = [each for each in properties if each.name not in way and not each.required]
    wanted = sum(each.required for each in texts)
    if len(mentions(read.said, read.framing, [*read.taken, *map(_place, said)])) < wanted:
        spare_for_texts = wanted
    else:
        spare_for_texts = 0
    ways: list[Way] = [{**way, **{each.name: None for each in spare}}]
    if needed and left:
        fitting = [one for one in left if any(_fits(one, each) for each in needed)]
        if len(fitting) >= len(needed):
            ways = [
                {**ways[0], **_given([each.name for each in needed], _values(order))}
                for order in permutations(fitting, len(needed))
            ]
            used += fitting
    elif len(spare) == 1 and len(left) == 1 and not spare_for_texts and _fits(left[0], spare[0]):
        ways[0][spare[0].name] = {"const": spelled(left[0].value)}
        used += left
    read.taken.extend(map(_place, used))
    return ways


def _values(order: Sequence[Number]) -> list[Json]:
    return [spelled(one.value) for one in order]


def _fits(number: Number, wanted: _Property) -> bool:
    return "number" in wanted.kinds or float(number.value).is_integer()


def _place(number: Number) -> tuple[int, int]:
    return number.start, number.end


def _is_taken(number: Number, taken: list[tuple[int, int]]) -> bool:
    return any(number.start < end and start < number.end for start, end in taken)


def _texts(properties: list[_Property], lists: list[_Property], read: _Read) -> Iterator[list[Way]]:
    """The texts: dates where they are asked for, then the other mentions, each only once."""
    pieces = mentions(read.said, read.framing, read.taken)
    times = [each for each in pieces if each.kind == "time"]
    others = [each for each in pieces if each.kind != "time"]
    dated = [each for each in properties if times and (stems(each.name) | each.about) & _WHEN]
    plain = [each for each in properties if each not in dated]
    if dated:
        yield _spread(dated, times, read)
    for each in lists:
        items = each.schema.get("items")
        if not isinstance(items, dict) or _kinds(items) != {"string"} or "enum" in items:
            continue
        groups = listed(read.said, others)
        longest = max(map(len, groups), default=0)
        chosen = [group for group in groups if len(group) == longest]
        if chosen:
            yield [{each.name: {"const": [one.text for one in group]}} for group in chosen]
            if longest > 1:
                others = [one for one in others if one not in chosen[0]]
        elif not each.required:
            yield [{each.name: None}]
    yield _spread(plain, others or times, read)


def _spread(properties: list[_Property], pieces: list[Mention], read: _Read) -> list[Way]:
    """The ways to give each property that needs one a mention of its own."""
    needed = [each for each in properties if each.required]
    spare = [each for each in properties if not each.required]
    strong = [each for each in pieces if each.kind in ("quote", "odd", "sum")]
    first = strong if len(strong) >= len(needed) > 0 else pieces
    if len(first) < len(needed) or not pieces:
        return [_anyhow(properties, pieces, read)]
    if len(pieces) > len(properties) and first is pieces:
        first = [*pieces, *joined(read.said, pieces)]
    ways: list[Way] = []
    for order in permutations(first, len(needed)):
        if not all(a.is_clear_of(b) for at, a in enumerate(order) for b in order[:at]):
            continue
        left = [each for each in pieces if all(each.is_clear_of(one) for one in order)]
        clear = [each for each in left if each in strong] or left
        rest: Way = {
            each.name: _among([text for one in clear for text in variants(one)], each, read)
            for each in spare
        }
        for texts in product(*(variants(one) for one in order)):
            ways.append({**rest, **_given([each.name for each in needed], list(texts))})
    return ways[:_MOST_WAYS] or [_anyhow(properties, pieces, read)]


def _anyhow(properties: list[_Property], pieces: list[Mention], read: _Read) -> Way:
    """Too little was mentioned: what there is, what was given before, or any of the words."""
    known = [text for one in pieces for text in variants(one)]
    way: Way = {}
    for each in properties:
        held = _among(known, each, read)
        spans: list[Json] = list(spans_of(read.said))
        if held is None and each.required:
            held = {"enum": spans} if spans else each.schema
        way[each.name] = held
    return way


def _among(texts: list[str], wanted: _Property, read: _Read) -> Json | None:
    earlier = [each for each in read.before.get(wanted.name, ()) if isinstance(each, str)]
    found: list[Json] = list(dict.fromkeys([*texts, *earlier]))
    return {"enum": found} if found else None


def _given(names: Sequence[str], values: Sequence[Json]) -> Way:
    return {name: {"const": value} for name, value in zip(names, values, strict=True)}


def spans_of(said: str) -> list[str]:
    """The stretches of words in a text, none across punctuation, short ones first to stay."""
    phrases = [phrase.split() for phrase in _PHRASE.split(said)]
    found: list[str] = []
    for length in range(1, _MOST_WORDS + 1):
        for words in phrases:
            found += [" ".join(words[at : at + length]) for at in range(len(words) - length + 1)]
        if len(found) > _MOST_SPANS:
            break
    unique = list(dict.fromkeys(found))
    return unique[-_MOST_SPANS:] if len(found) > 2 * _MOST_SPANS else unique


def _kinds(schema: JsonObject) -> frozenset[str]:
    held = schema.get("type")
    named = cast("list[Json]", held if isinstance(held, list) else [held])
    return frozenset(each for each in named if isinstance(each, str) and each != "null")


def _is_text(each: _Property) -> bool:
    """Whether it is any text, and not one of a given form."""
    bound = any(key in each.schema for key in ("enum", "const", "format", "pattern"))
    return each.kinds == {"string"} and not bound
