"""A cut never goes through what a reader sees as one character, nor through an escape."""

import random

import pytest

from weft.digest import cut_text
from weft.digest.cut import boundary_after, boundary_before, is_boundary

WHOLE = [
    "👨‍👩‍👧‍👦",
    "👍🏽",
    "🇩🇪",
    "e\u0301",
    "각",
    "\u1100\u1161\u11a8",
    "क्षि",
    "\r\n",
    "\ud83d\ude00",
    "❤\ufe0f",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\n",
    "\\\\",
    "&amp;",
    "&#128512;",
    "%E2%82%AC",
    "\x1b[31m",
    "\\x41",
    "🏴\U000e0067\U000e0062\U000e0065\U000e007f",
]


@pytest.mark.parametrize("whole", WHOLE)
def test_what_belongs_together_is_not_cut(whole: str) -> None:
    text = f"a{whole}z"
    assert [at for at in range(2, 1 + len(whole)) if is_boundary(text, at)] == []
    assert is_boundary(text, 1)
    assert is_boundary(text, 1 + len(whole))


def test_flags_are_cut_between_each_other() -> None:
    text = "🇩🇪🇫🇷🇯🇵"
    assert [at for at in range(len(text) + 1) if is_boundary(text, at)] == [0, 2, 4, 6]


def test_a_boundary_is_found_on_both_sides() -> None:
    text = "ab👨‍👩‍👧cd"
    assert boundary_before(text, 4) == 2
    assert boundary_after(text, 4) == 7
    assert boundary_before(text, -3) == 0
    assert boundary_after(text, 99) == len(text)


@pytest.mark.parametrize("keep", ["head", "tail", "bookend"])
def test_a_cut_text_is_made_of_whole_characters_within_the_limit(keep: str) -> None:
    chance = random.Random(7)
    for _ in range(300):
        pieces = chance.choices([*WHOLE, "word ", "漢", ", ", "x"], k=60)
        text = "".join(pieces)
        limit = chance.randrange(1, 60)
        short = cut_text(text, limit=limit, count=len, keep=keep, mark="…")  # type: ignore[arg-type]
        assert len(short) <= limit
        head, _, tail = short.partition("…") if short != text else (text, "", "")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert is_boundary(text, len(head))
        assert is_boundary(text, len(text) - len(tail))


def test_what_fits_is_returned_as_it_is() -> None:
    assert cut_text("short", limit=10, count=len) == "short"
    assert cut_text("", limit=0, count=len) == ""


def test_where_not_even_the_mark_fits_nothing_is_left() -> None:
    assert cut_text("long enough", limit=0, count=len) == ""


def test_a_cut_stands_between_words_where_one_ends_near() -> None:
    text = "alpha beta gamma delta epsilon"
    assert cut_text(text, limit=14, count=len, mark="…") == "alpha beta…"
    assert cut_text(text, limit=14, count=len, keep="tail", mark="…") == "…delta epsilon"
