"""The texts among the arguments of a call: dates, names, titles, lists of them.

Each gets a mention of its own. Which one, the words around it may tell, or its likeness to what
the argument is said to be; where neither does, the model chooses.
"""

import math
import re
from collections.abc import Iterator
from itertools import permutations, product

from weft.meaning import is_installed, likeness
from weft.models.local_mentions import Mention, joined, listed, mentions, stems, variants
from weft.models.local_property import Property, Read, Way, given, kinds_of
from weft.values import Json

_WORSE = 0.12
"""By how much less a text must be like a property's description to be no choice for it."""
MOST_WAYS = 160
_MOST_SPANS = 300
_MOST_WORDS = 8
_PHRASE = re.compile(r"[.,;:!?()\[\]{}\"]+(?=\s|$)|[\n()\[\]{}\"]")
_WHEN = stems("when date day time hour moment week month deadline due until start end")
_SOURCE = stems("from source origin start departure base")
_TARGET = stems("to target destination end arrival into")
_FROM = r"from|[\d.,]*\d"
_TO = r"to|into|in|as"


def texts_of(properties: list[Property], lists: list[Property], read: Read) -> Iterator[list[Way]]:
    """The texts: dates where they are asked for, then the other mentions, each only once."""
    pieces = mentions(read.said, read.framing, read.taken)
    times = [each for each in pieces if each.kind == "time"]
    others = [each for each in pieces if each.kind != "time"]
    dated = [each for each in properties if times and (stems(each.name) | each.about) & _WHEN]
    plain = [each for each in properties if each not in dated]
    if dated:
        yield _in_order(dated, times, read)
    for each in lists:
        items = each.schema.get("items")
        if (
            not isinstance(items, dict)
            or kinds_of(items) != frozenset(("string",))
            or "enum" in items
        ):
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
    if not others and not any(read.before.get(each.name) for each in plain):
        others = times
    yield _spread(plain, others, read)


def _in_order(properties: list[Property], pieces: list[Mention], read: Read) -> list[Way]:
    """The dates in the order they are mentioned in, first where they are needed."""
    ordered = sorted(properties, key=lambda each: not each.required)
    if len(pieces) < sum(each.required for each in properties):
        return [_anyhow(properties, pieces, read)]
    texts = [one.text for one in pieces[: len(ordered)]]
    way = given([each.name for each in ordered[: len(texts)]], texts)
    return [{**{each.name: None for each in ordered}, **way}]


def _spread(properties: list[Property], pieces: list[Mention], read: Read) -> list[Way]:
    """The ways to give each property that needs one a mention of its own."""
    needed = [each for each in properties if each.required]
    spare = [each for each in properties if not each.required]
    strong = [each for each in pieces if each.kind in ("quote", "odd", "sum")]
    first = strong if len(strong) >= len(needed) > 0 else pieces
    if len(pieces) > len(properties) and first is pieces:
        first = [*pieces, *joined(read.said, pieces)]
    if not pieces or not 0 < math.perm(len(first), len(needed)) <= MOST_WAYS:
        return [_anyhow(properties, first, read)]
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
            ways.append({**rest, **given([each.name for each in needed], list(texts))})
    fitting = _fitting(directed(ways, needed, read), needed)
    return fitting[:MOST_WAYS] or [_anyhow(properties, pieces, read)]


def directed(ways: list[Way], properties: list[Property], read: Read) -> list[Way]:
    """The ways that go least against the direction that was said: from one, to another."""
    sources = [each.name for each in properties if stems(each.name) & _SOURCE]
    targets = [each.name for each in properties if stems(each.name) & _TARGET]
    if not sources or not targets or len(ways) < 2:
        return ways
    against = [
        sum(_is_said(_FROM, way.get(name), read.said) for name in targets)
        + sum(_is_said(_TO, way.get(name), read.said) for name in sources)
        for way in ways
    ]
    return [way for way, count in zip(ways, against, strict=True) if count == min(against)]


def _is_said(cue: str, held: Json | None, said: str) -> bool:
    """Whether a value stands behind such a word."""
    text = held.get("const") if isinstance(held, dict) else None
    if not isinstance(text, str):
        return False
    words = rf"(?<!\w)(?:{cue})\s+(?:the\s+)?{re.escape(text)}(?!\w)"
    return re.search(words, said, re.IGNORECASE) is not None


def _fitting(ways: list[Way], needed: list[Property]) -> list[Way]:
    """The ways without those that give the same texts to properties they fit much worse."""
    if len(needed) < 2 or not is_installed():
        return ways
    fits = [
        (sorted(map(str, texts)), sum(map(_fit, needed, texts)), way)
        for way in ways
        if (texts := [way[each.name] for each in needed])
    ]
    return [
        way
        for texts, fit, way in fits
        if fit >= max(other for alike, other, _ in fits if alike == texts) - _WORSE
    ]


def _fit(wanted: Property, held: Json) -> float:
    """How near a text is in meaning to the property it is given to."""
    text = held.get("const") if isinstance(held, dict) else None
    return likeness(text, [wanted.text])[0] if isinstance(text, str) else 0.0


def _anyhow(properties: list[Property], pieces: list[Mention], read: Read) -> Way:
    """Too little was mentioned: what there is, what was given before, or any of the words."""
    known = [text for one in pieces for text in variants(one)]
    spans: list[Json] = list(spans_of(read.said))
    way: Way = {}
    for each in properties:
        way[each.name] = _among(known, each, read)
        if way[each.name] is None and each.required:
            way[each.name] = {"enum": spans} if spans else each.schema
    return way


def _among(texts: list[str], wanted: Property, read: Read) -> Json | None:
    earlier = [each for each in read.before.get(wanted.name, ()) if isinstance(each, str)]
    found: list[Json] = list(dict.fromkeys([*texts, *earlier]))
    return {"enum": found} if found else None


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
