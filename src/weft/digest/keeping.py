"""What a shorter version of a text must still say: names, numbers, dates, and what is open.

A model that sums up a conversation leaves things out and makes things up. What can be checked
without understanding is checked here: that what is used again is still there, and that no
number, address or identifier is there that was not said. An extract, the telling sentences of a
conversation as they were said, is made by the same marks.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from weft.digest.cut import Count, cut_text
from weft.late import late_pattern

MOST_MARKS = 24
MOST_OPEN = 6
"""How many marks, and how many open questions, a summary must keep at most."""
_LONGEST = 80
_LONGEST_LINE = 240
"""How many letters a mark may have, and how many of an open line are kept."""
_SHARE = 0.5
"""The share of a sentence's words that a summary must have to say it."""

_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_TOKEN = late_pattern(
    rf"\b(?:{_MONTHS})\.? \d{{1,2}}\b|\b\d{{1,2}}\.? (?:{_MONTHS})\b"
    r"|[$€£]?\d{1,3}(?:,\d{3})+(?:\.\d+)?%?"
    r"|[$€£]?\d+\.\d+%?"
    r"|[A-Za-z0-9_@$€£%./\\:+~#&=?-]+"
)
_GROUPED = late_pattern(r"(?<=\d),(?=\d{3})")
_BLANKS = late_pattern(r"\s+")
_DIGIT = late_pattern(r"\d")
_DECIMAL = late_pattern(r"\d+\.\d+")
_LETTER = late_pattern(r"[A-Za-z]")
_CAMEL = late_pattern(r"[a-z0-9][A-Z]")
_OPEN = late_pattern(
    r"\bTODO\b|\bFIXME\b|\bTBD\b|[-*] \[ \]|\bto be (?:decided|done|confirmed)\b"
    r"|\b(?:still|yet) (?:need|needs|have|has|must|open|missing)\b|\bnot yet\b|\bopen question"
    r"|\bnext steps?\b|\bwaiting (?:for|on)\b|\bfollow up\b|\bremind me\b",
    re.IGNORECASE,
)
_SENTENCE = late_pattern(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")
_WORD = late_pattern(r"[A-Za-z]{4,}|\d{2,}")
_WIDE = late_pattern(r"[^\x00-\u02ff\W]+")


def marks_in(text: str) -> list[str]:
    """Addresses, paths, identifiers, dates and telling numbers, each once, in their order."""
    return list(_marks(text))


@lru_cache(maxsize=2048)
def _marks(text: str) -> tuple[str, ...]:
    tokens = (one.rstrip(".:?/-&=\\").lstrip("-:=&?") for one in _TOKEN.findall(text))
    return tuple(dict.fromkeys(one for one in tokens if _is_mark(one)))


def _is_mark(token: str) -> bool:
    if not 3 <= len(token) <= _LONGEST:
        return False
    if "://" in token or ("@" in token[1:-1] and "." in token):
        return True
    digits = len(_DIGIT.findall(token))
    if digits:
        if digits >= 3 or " " in token or token[0] in "$€£" or token[-1] == "%":
            return True
        decimal = _DECIMAL.fullmatch(token) is not None
        return decimal or (len(token) >= 4 and _LETTER.search(token) is not None)
    if "/" in token or "\\" in token:
        parts = [part for part in re.split(r"[/\\]", token) if part]
        return len(parts) >= 2 and (len(parts) > 2 or any(c in token for c in "._-~"))
    plain = token.strip("_")
    return len(plain) >= 6 and ("_" in plain or _CAMEL.search(plain) is not None)


def open_lines(text: str) -> list[str]:
    """Lines and sentences that say something is still to be done."""
    lines = (line.strip() for line in _SENTENCE.split(text))
    return [line[:_LONGEST_LINE] for line in lines if line and _OPEN.search(line)]


def must_keep(
    entries: Sequence[str],
    later: Sequence[str] = (),
    *,
    pinned: Iterable[str] = (),
    questions: Iterable[str] = (),
) -> tuple[str, ...]:
    """What a summary of the entries has to say: what is used again, is pinned, or is open.

    What comes up in a second entry, or `later`, is used again. `questions` are those that nobody
    has answered.
    """
    seen: dict[str, int] = {}
    for entry in entries:
        for mark in marks_in(entry):
            seen[mark] = seen.get(mark, 0) + 1
    behind = {normal(mark) for entry in later for mark in marks_in(entry)}
    ahead = [mark for mark in seen if normal(mark) in behind]
    again = [mark for mark, times in seen.items() if times > 1]
    pinned_marks = [mark for text in pinned for mark in marks_in(text) if mark in seen]
    asked = [one.strip()[:_LONGEST_LINE] for one in questions if one.strip()]
    open_entries = [line for entry in entries for line in open_lines(entry)]
    # what `_widest` compares pair by pair is bounded first
    marks = list(dict.fromkeys([*pinned_marks, *ahead, *again]))[: 4 * MOST_MARKS]
    return (
        *_widest(marks)[:MOST_MARKS],
        *list(dict.fromkeys([*asked, *open_entries]))[-MOST_OPEN:],
    )


def _widest(marks: list[str]) -> list[str]:
    """The marks without those that are part of another mark."""
    return [one for one in marks if not any(one != other and one in other for other in marks)]


def holds(text: str, what: str) -> bool:
    """Whether a text still says it: a mark letter for letter, a sentence in about its words."""
    return _holds(normal(text), what)


def missing(text: str, wanted: Iterable[str]) -> list[str]:
    """What is wanted and the text does not say."""
    spoken = normal(text)
    return [one for one in wanted if not _holds(spoken, one)]


def _holds(spoken: str, what: str) -> bool:
    sought = normal(what)
    if _stands(sought, spoken):
        return True
    # a mark must stand letter for letter; only a sentence may be said in other words
    if sought.count(" ") < 2 and not _WIDE.search(sought):
        return False
    if not all(_stands(normal(mark), spoken) for mark in marks_in(what)):
        return False
    # the beginning of a word is enough: endings differ
    words = {word[:5] for word in _WORD.findall(sought)}
    # scripts without blanks are compared by pairs of letters
    for run in _WIDE.findall(sought):
        words |= {run[at : at + 2] for at in range(max(1, len(run) - 1))}
    if not words:
        return False
    return sum(word in spoken for word in words) >= _SHARE * len(words)


def find_invented(summary: str, source: str) -> list[str]:
    """Find addresses and long numbers of a summary that its source does not have."""
    spoken = normal(source)
    new_marks: list[str] = []
    for mark in marks_in(summary):
        if "://" in mark or "@" in mark:
            if not _stands(normal(mark), spoken):
                new_marks.append(mark)
            continue
        groups = re.findall(r"\d{3,}", normal(mark))
        if any(group not in spoken for group in groups):
            new_marks.append(mark)
    return new_marks


def normal(text: str) -> str:
    """A text as it is compared: one case, single blanks, numbers without separators."""
    return _BLANKS.sub(" ", _GROUPED.sub("", text)).casefold().strip()


def _stands(mark: str, spoken: str) -> bool:
    """Whether a mark is in a text, and not as a part of a longer number or word."""
    at = spoken.find(mark)
    while at >= 0:
        before = spoken[at - 1] if at else " "
        after = spoken[at + len(mark)] if at + len(mark) < len(spoken) else " "
        if not _joins(before, mark[0]) and not _joins(after, mark[-1]):
            return True
        at = spoken.find(mark, at + 1)
    return False


def _joins(neighbour: str, edge: str) -> bool:
    if neighbour.isdigit() and edge.isdigit():
        return True
    ascii_word = neighbour.isascii() and edge.isascii()
    return ascii_word and neighbour.isalnum() and edge.isalnum()


# --- an extract

_LONGEST_SENTENCE = 60
"""How many tokens of one sentence stay."""


class ExtractEntry(NamedTuple):
    """Who said something, and what."""

    speaker: str
    text: str

    def __str__(self) -> str:
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


class _Sentence(NamedTuple):
    entry: int
    text: str
    weight: float
    size: int


def extract(
    entries: Sequence[ExtractEntry], *, wanted: Sequence[str], limit: int, count: Count
) -> str:
    """The sentences that open an entry, say what is open, or hold marks, within `limit` tokens.

    What is `wanted` and in none of them is listed at the end, as far as there is room.
    """
    sentences = _sentences(entries, frozenset(wanted), count)
    ranked = sorted(
        range(len(sentences)), key=lambda i: (-sentences[i].weight / (8 + sentences[i].size), i)
    )
    chosen: list[int] = []
    remaining = limit
    for index in ranked:
        cost = sentences[index].size + 4
        if cost <= remaining:
            chosen.append(index)
            remaining -= cost
    text = _join_sentences(entries, sentences, chosen, wanted)
    # speakers and what is still wanted are added at the end: the least worthy goes
    while len(chosen) > 1 and count(text) > limit:
        chosen.pop()
        text = _join_sentences(entries, sentences, chosen, wanted)
    return cut_text(text, limit=limit, count=count, keep="bookend")


def _join_sentences(
    entries: Sequence[ExtractEntry],
    sentences: Sequence[_Sentence],
    chosen: Sequence[int],
    wanted: Sequence[str],
) -> str:
    by_entry: dict[int, list[str]] = {}
    for index in sorted(chosen):
        by_entry.setdefault(sentences[index].entry, []).append(sentences[index].text)
    text = "\n".join(
        str(ExtractEntry(entries[number].speaker, " ".join(texts)))
        for number, texts in by_entry.items()
    )
    rest = missing(text, wanted)
    return f"{text}\nAlso: {'; '.join(rest)}".strip() if rest else text


def _sentences(
    entries: Sequence[ExtractEntry], wanted: frozenset[str], count: Count
) -> list[_Sentence]:
    sentences: list[_Sentence] = []
    for number, entry in enumerate(entries):
        pieces = [piece.strip() for piece in _SENTENCE.split(entry.text)]
        pieces = [piece for piece in pieces if piece]
        for place, piece in enumerate(pieces):
            text = cut_text(piece, limit=_LONGEST_SENTENCE, count=count)
            weight = 2.0 if place == 0 else 0.5 if place == len(pieces) - 1 else 0.1
            marks = marks_in(piece)
            weight += 0.4 * min(len(marks), 5)
            weight += sum(2.0 for mark in marks if mark in wanted)
            weight += 6.0 if open_lines(piece) or piece in wanted else 0.0
            sentences.append(_Sentence(number, text, weight, count(text)))
    return sentences
