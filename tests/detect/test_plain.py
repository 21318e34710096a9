"""Look-alikes of ASCII and invisible characters hide nothing, and places stay those of the text."""

import random

import pytest

from weft.detect import KINDS, find
from weft.detect.find import plain


def wide(text: str) -> str:
    """The text in full-width forms."""
    return "".join(each if each == " " else chr(ord(each) + 0xFEE0) for each in text)


def other_digits(text: str, zero: int) -> str:
    """The text with the digits of another script."""
    return "".join(chr(zero + int(each)) if each.isdigit() else each for each in text)


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [
        ("card", wide("4111 1111 1111 1111")),
        ("card", "4111\u00a01111\u202f1111\u20091111"),
        ("card", "4111\u20111111\u20131111\u20121111"),
        ("card", "41\u200b1111\u20601111111\ufeff111"),
        ("email", "jane\u00ad@exam\u200dple.org"),
        ("email", wide("jane@example.org")),
        ("phone", "+" + other_digits("1 415 555 0132", 0x0660)),
        ("ssn", other_digits("536-22-1234", 0x0966)),
        ("iban", "DE89\u200b3704\u200b0044\u200b0532\u200b0130\u200b00"),
    ],
)
def test_another_spelling_is_found_as_it_stands(kind: str, spelled: str) -> None:
    text = f"it is {spelled}, thanks"
    (found,) = find(text, [kind])
    assert found.value == spelled
    assert text[found.start : found.end] == spelled


def test_a_text_in_plain_characters_stays_as_it_is() -> None:
    text = "plain, and café as well"
    assert plain(text).text is text
    assert plain(text).places is None


def test_every_find_stands_where_it_says() -> None:
    chosen = random.Random(11)
    parts = [
        "4111 1111 1111 1111",
        "jane@example.org",
        "\u200b",
        wide("1"),
        "\u00a0",
        "a ",
        "\U0001f642",
    ]
    for _ in range(300):
        text = "".join(chosen.choices(parts, k=8))
        for one in find(text, KINDS):
            assert text[one.start : one.end] == one.value
