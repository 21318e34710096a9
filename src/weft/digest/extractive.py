"""An extract of a conversation: its telling sentences as they were said."""

from collections.abc import Sequence
from typing import NamedTuple

from weft.digest.cut import Count, cut_text
from weft.digest.keeping import marks_in, missing, open_lines
from weft.late import late_pattern

_SENTENCE = late_pattern(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")
_LONGEST = 60
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
    text = _joined(entries, sentences, chosen, wanted)
    # speakers and what is still wanted are added behind: the least worthy goes
    while len(chosen) > 1 and count(text) > limit:
        chosen.pop()
        text = _joined(entries, sentences, chosen, wanted)
    return cut_text(text, limit=limit, count=count, keep="bookend")


def _joined(
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
            text = cut_text(piece, limit=_LONGEST, count=count)
            weight = 2.0 if place == 0 else 0.5 if place == len(pieces) - 1 else 0.1
            marks = marks_in(piece)
            weight += 0.4 * min(len(marks), 5)
            weight += sum(2.0 for mark in marks if mark in wanted)
            weight += 6.0 if open_lines(piece) or piece in wanted else 0.0
            sentences.append(_Sentence(number, text, weight, count(text)))
    return sentences
