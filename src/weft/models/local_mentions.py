"""What a user's message mentions: the pieces of it that can be arguments of a call.

A small model that may copy any stretch of words copies the wrong one, or half of it. English
itself says where most values begin and end: at a preposition, at punctuation, at the words the
tool is described with. Quotes, dates, times, sums, numbers and names such as `A1007` or
`src/main.py` are one piece. In other languages a piece is merely longer.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from weft.values import Json


def _list(words: str) -> list[str]:
    return words.split()


def _set(words: str) -> frozenset[str]:
    return frozenset(_list(words))


_FUNCTION = _set(
    "a about above according after again against all along already also am among an and any are"
    " around as at be because been before being below beneath beside between beyond but by can"
    " cannot could currently did do does done during each either else every everything for from"
    " give given gives had has have having he hello hey hi her here hers him his how however i if"
    " in inside instead into is it its just kindly let like may maybe me might mine more most much"
    " many must my myself near nearby need next no nor not now of okay on once one only onto or"
    " other our ours over per please regarding right same shall she should since so some somewhere"
    " something soon still such tell than thank thanks that the their theirs them then there these"
    " they this those through till to today too toward towards under until upon us using via want"
    " was we were what when where whether which while who whom whose why will with within without"
    " would yes yet you your yours"
)
_ARTICLES = _set("a an the my your our his her their")
_PARTICLES = _set("away back down off out up")
_LEADING = _set("number no nr id code name named called titled entitled labelled labeled")
"""Words that say that a value follows."""
_SUBJECTS = _set("i you we they")
_UNITS = _list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
)
_TENS = _list("twenty thirty forty fifty sixty seventy eighty ninety")
_COUNTS = {
    **{word: number for number, word in enumerate(_UNITS)},
    **{word: 20 + 10 * number for number, word in enumerate(_TENS)},
    "dozen": 12,
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}

_DAY = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:jan|febr)uary|march|april|june|july|august"
    r"|(?:septem|octo|novem|decem)ber|may(?=\s+\d)"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?(?=\s+\d)"
)
_CLOCK = (
    r"\d{1,2}:\d\d(?::\d\d)?(?:\s?(?:[ap]m\b|[ap]\.m\.))?|\d{1,2}\s?(?:[ap]m\b|[ap]\.m\.)"
    r"|\d{1,2}\s?o'clock|noon|midnight"
)
_SPAN = r"(?:second|minute|hour|day|week|weekend|month|quarter|year)s?"
_PART = r"morning|afternoon|evening|night"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_MOMENT = (
    rf"(?:next|this|last|coming)\s+(?:{_DAY}|{_SPAN}|{_PART})"
    r"|the\s+day\s+after\s+tomorrow|tomorrow|today|tonight|yesterday"
    rf"|(?:{_NTH}\s+(?:of\s+)?)?(?:{_DAY})(?:\s+{_NTH}\b)?(?:,?\s+\d{{4}}\b)?"
    r"|\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}"
    rf"|in\s+(?:\d+|an?|{'|'.join(_UNITS[1:])})\s+{_SPAN}"
    rf"|{_CLOCK}"
)
_TIME = (
    rf"(?<!\w)(?:{_MOMENT})"
    rf"(?:\s+(?:at\s+|around\s+|in\s+the\s+)?(?:{_MOMENT}|{_PART}))*(?!\w)"
)
_SIGNS = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "multiplied by": "*",
    "divided by": "/",
    "x": "*",
}
_SUM = (
    r"(?<!\w)[-(]*\d[\d.,]*\)*"
    rf"(?:\s*(?:[-+*/^%\u00d7÷]|\*\*|(?<=\s)(?:{'|'.join(_SIGNS)})(?=\s))\s*[-(]*\d[\d.]*\)*)+(?!\w)"
)
_QUOTE = (
    r"\"[^\"\n]+\"|\u201c[^\u201d\n]+\u201d|\u00ab[^\u00bb\n]+\u00bb|`[^`\n]+`"
    r"|(?<!\w)['\u2018][^'\u2019\n]+(?:['\u2019]\w[^'\u2019\n]*)*['\u2019](?!\w)"
)
_PIECE = re.compile(
    rf"(?P<quote>{_QUOTE})|(?P<time>{_TIME})|(?P<sum>{_SUM})|(?P<word>\S+)", re.IGNORECASE
)
_NUMBER = re.compile(r"[$€£¥]?(-?\d+(?:,\d{3})*(?:\.\d+)?)[%€£¥°]?(?:-\w+)?")
_ODD = re.compile(r"(?=.*\d)(?=.*[^\W\d])|.+[@/\\_=].*|/.+|.*\w\.\w+|#.+|https?:.*")
_AND = re.compile(r"\s*(?:,|&|,?\s+(?:and|or))\s*")
_SELF = re.compile(r"I(?:['\u2019]|$)")
_OPENING, _CLOSING = "([{<", ".,;:!?)]}>"


class Mention(NamedTuple):
    """A piece of a message: where it stands, and what it is.

    A `kind` is a `quote`, a `time`, a `sum`, `odd` (a code, a path, an address) or just `words`.
    """

    start: int
    end: int
    kind: str
    text: str
    longer: str = ""
    """It with the word of the tool's own that follows: `team meeting` where a tool makes those."""

    def is_clear_of(self, other: "Mention") -> bool:
        """Whether it has no word in common with the other."""
        return self.end <= other.start or other.end <= self.start


class Number(NamedTuple):
    """A number in a message, with the stems of the words beside it."""

    value: int | float
    start: int
    end: int
    beside: frozenset[str]


class _Word(NamedTuple):
    start: int
    end: int
    kind: str
    text: str
    phrase: int
    """Which stretch without punctuation it stands in."""


def stem(word: str) -> str:
    """A word without its ending, so that `nights` is `night` and `walking` is `walk`."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ers", "er", "ed", "es", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def stems(text: str) -> frozenset[str]:
    """The stems of the words in a text, or in a name."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return frozenset(map(stem, re.findall(r"[^\W_]+", spaced.lower())))


def _pieces(said: str) -> Iterator[_Word]:
    phrase = 0
    for found in _PIECE.finditer(said):
        kind, start, end = str(found.lastgroup), found.start(), found.end()
        if "\n" in said[max(0, start - 2) : start]:
            phrase += 1
        if kind == "quote":
            yield _Word(start + 1, end - 1, kind, said[start + 1 : end - 1], phrase)
            continue
        text = said[start:end]
        if kind == "word":
            ends = len(text) - len(text.rstrip(_CLOSING))
            begins = len(text) - len(text.lstrip(_OPENING + "\"'"))
            phrase += bool(begins)
            inner = text[begins : len(text) - ends]
            tail = re.search(r"(?:['\u2019]s|['\u2019\"]+)$", inner)
            held = inner[: tail.start()] if tail is not None else inner
            if held:
                kind = "odd" if _ODD.match(held) and not _NUMBER.fullmatch(held) else "word"
                yield _Word(start + begins, start + begins + len(held), kind, held, phrase)
            phrase += bool(ends) or held in ("", "-", "\u2013", "\u2014")
        elif kind == "sum":
            yield _Word(start, end, kind, _with_signs(text), phrase)
        else:
            yield _Word(start, end, kind, text, phrase)


def _with_signs(text: str) -> str:
    """A sum with signs where it has words."""
    for word, sign in _SIGNS.items():
        text = re.sub(rf"\b{word}\b", sign, text, flags=re.IGNORECASE)
    return text.rstrip(".,")


def numbers(said: str) -> list[Number]:
    """The numbers in a message, in figures or in words; not those of dates and sums."""
    words = list(_pieces(said))
    found: list[Number] = []
    at = 0
    while at < len(words):
        value, after = _counted(words, at)
        if value is None:
            at += 1
            continue
        beside = [words[i].text for i in (at - 1, after) if 0 <= i < len(words)]
        tail = re.search(r"-(\w+)$", words[after - 1].text)
        near = stems(" ".join((*beside, tail[1] if tail is not None else "")))
        found.append(Number(value, words[at].start, words[after - 1].end, near - _FUNCTION))
        at = after
    return found


def _counted(words: list[_Word], at: int) -> tuple[int | float | None, int]:
    """The number that begins at a word, and where it ends."""
    if words[at].kind not in ("word", "odd"):
        return None, at
    figures = _NUMBER.fullmatch(words[at].text)
    if figures is not None:
        plain = figures[1].replace(",", "")
        digits = plain.lstrip("-").lstrip("0")
        sign = "-" if plain.startswith("-") else ""
        text = f"{sign}{'0' if not digits or digits.startswith('.') else ''}{digits}"
        value: int | float = msgspec.json.decode(text, type=int | float)
        scale = _SCALES.get(words[at + 1].text.lower(), 1) if at + 1 < len(words) else 1
        return value * scale, at + 1 + (scale > 1)
    total: int | None = None
    after = at
    while after < len(words) and words[after].phrase == words[at].phrase:
        for part in words[after].text.lower().split("-"):
            if part in _COUNTS and not (total is None and part == "one" and after > at):
                total = (total or 0) + _COUNTS[part]
            elif part in _SCALES and total is not None:
                total *= _SCALES[part]
            else:
                return total, after
        after += 1
    return total, after


def mentions(said: str, framing: frozenset[str], taken: list[tuple[int, int]]) -> list[Mention]:
    """The pieces of a message that can be values, in order.

    `framing` are the stems of the words a tool is described with: they say which tool is wanted,
    and end a piece. `taken` are the stretches that are other arguments already.
    """
    found: list[Mention] = []
    run: list[_Word] = []
    before: _Word | None = None
    begun = -1
    first: Mention | None = None
    words = list(_pieces(said))

    def end() -> None:
        while run and run[-1].text.lower() in _ARTICLES | _PARTICLES:
            run.pop()
        if run:
            start, stop = run[0].start, run[-1].end
            kind = run[0].kind if len(run) == 1 and run[0].kind != "word" else "words"
            text = run[0].text if kind == "sum" else said[start:stop]
            found.append(Mention(start, stop, kind, text))
        run.clear()

    for at, word in enumerate(words):
        lower = word.text.lower()
        new = word.phrase != begun
        if new:
            end()
        begun = word.phrase
        is_taken = any(word.start < stop and start < word.end for start, stop in taken)
        if word.kind in ("quote", "time", "sum") or (word.kind == "odd" and not is_taken):
            end()
            if not is_taken:
                run.append(word)
            end()
        elif is_taken:
            end()
        elif run and lower in _ARTICLES | _PARTICLES and not _is_proper(word):
            run.append(word)
        elif _is_function(lower) and not (_is_proper(word) and not new and before is not None):
            end()
        elif before is not None and before.text.lower() in _SUBJECTS and not _is_proper(word):
            end()  # the verb of `do you sell`
        elif (stem(lower) in framing or lower in _LEADING) and (not _is_proper(word) or new):
            is_next = bool(run) and before is run[-1] and run[-1].kind == "word"
            end()
            if is_next:
                held = found.pop()
                found.append(held._replace(longer=said[held.start : word.end]))
        elif at == 0 and len(words) > 1 and not _is_proper(words[1]) and not words[1].phrase:
            end()  # the verb of `show me`
            first = Mention(word.start, word.end, "words", word.text)
        else:
            run.append(word)
        before = word
    end()
    if first is not None and all(each.kind == "time" for each in found):
        found.insert(0, first)  # `shoes below 50` has no verb
    return found


def _is_function(word: str) -> bool:
    return word in _FUNCTION or "'" in word or "\u2019" in word


def _is_proper(word: _Word) -> bool:
    return (
        word.kind in ("word", "odd") and word.text[:1].isupper() and _SELF.match(word.text) is None
    )


def spelled(value: int | float) -> Json:
    """A number as JSON has it: whole where it is whole."""
    return int(value) if float(value).is_integer() else value


def joined(said: str, pieces: list[Mention]) -> list[Mention]:
    """The neighbours that only small words stand between, taken together: `ham and eggs`."""
    found: list[Mention] = []
    for first, one in enumerate(pieces):
        for last in range(first + 1, len(pieces)):
            gap = said[pieces[last - 1].end : pieces[last].start]
            if not all(_is_function(word) for word in gap.lower().split()):
                break
            start, end = one.start, pieces[last].end
            found.append(Mention(start, end, "words", said[start:end]))
    return found


def listed(said: str, pieces: list[Mention]) -> list[list[Mention]]:
    """The neighbours that are counted up, with commas or `and`."""
    found: list[list[Mention]] = []
    for at, piece in enumerate(pieces):
        gap = said[pieces[at - 1].end : piece.start] if at else "."
        if at and _AND.fullmatch(gap):
            found[-1].append(piece)
        else:
            found.append([piece])
    return found


def variants(mention: Mention) -> list[str]:
    """A piece as a value: whole, with the word behind it, and the name that is in it."""
    found = [mention.text]
    if mention.kind == "words":
        words = mention.text.split()
        large = [at for at, word in enumerate(words) if word[:1].isupper()]
        if large and len(large) < len(words):
            found.append(" ".join(words[large[0] : large[-1] + 1]))
    if mention.longer:
        found.append(mention.longer)
    return list(dict.fromkeys(found))
