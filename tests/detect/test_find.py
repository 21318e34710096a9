"""Several kinds at once: nothing twice, nothing left over, and in time with the text."""

import random
from itertools import pairwise

import pytest

from tests.support.linear import check_linear
from weft.detect import KINDS, PLACEHOLDER, Pattern, PatternTimeout, find, pattern_of
from weft.errors import DeclarationError

TEXT = (
    "The quick fox met Anna Schmidt at 12 Baker Street on 2024-05-06. Call 415-555-0132 or mail"
    " a.b@example.com.\nfor line in open('x.log'):\n    print(line.strip(), 12345, 0x1f)\n"
    '2024-01-01 12:00:00,123 INFO step=3 id=9f86d081884c7d659a2feaa0c55ad015 {"n": 17}\n'
    "Der schnelle Fuchs springt über den faulen Hund. 中文文本没有空格。 GET https://x.org/v1?id=42\n"
)


def test_finds_are_apart_and_in_order() -> None:
    found = find(TEXT * 3, KINDS)
    assert found == sorted(found, key=lambda one: one.start)
    for before, after in pairwise(found):
        assert before.end <= after.start


def test_of_two_finds_in_one_place_the_longer_gives_the_kind() -> None:
    (found,) = find("see https://example.org/?to=jane@example.org", KINDS)
    assert found.kind == "url"


def test_what_overlaps_is_taken_out_as_a_whole() -> None:
    patterns = [Pattern("left", "abcd"), Pattern("right", "cdefgh")]
    (found,) = find("xx abcdefgh xx", [], patterns)
    assert found.value == "abcdefgh"
    assert found.kind == "right"


def test_a_placeholder_is_not_looked_into() -> None:
    made = "<PHONE_4155550132>"
    assert PLACEHOLDER.fullmatch(made)
    assert find(f"phone {made} and call {made}", KINDS, [Pattern("any", "[0-9]{4}")]) == []


def test_finding_is_linear() -> None:
    check_linear(lambda text: find(text, KINDS), (TEXT * 5_000)[:400_000])


HARD = {
    "digits": "1" * 8_000,
    "digits and blanks": "1 " * 10_000,
    "digits and hyphens": "12-" * 8_000,
    "dots": "a." * 10_000,
    "at signs": "a@" * 10_000,
    "an address without end": "a." * 200 + "@" + "a." * 10_000,
    "capitals": "Ab " * 8_000,
    "capitals and digits": "A1 " * 8_000,
    "letters": "a" * 8_000,
    "colons": ":" * 8_000,
    "hex": "ab:" * 8_000,
    "numbers and words": "12 Main " * 3_000,
    "brackets": "[at] " * 4_000,
    "plus": "+1" * 10_000,
    "brackets of digits": "(1)" * 8_000,
    "keys": "key=" * 5_000,
    "secrets": "sk-" * 8_000,
    "begun keys": "-----BEGIN PRIVATE KEY-----" * 2_000,
    "schemes": "http://" * 8_000,
    "iban": "DE12 " * 4_000,
    "names": "my name is " * 6_000,
    "quotes": "password='" * 6_000,
    "blanks": " " * 8_000,
    "lines": "\n" * 8_000,
    "months": "march " * 10_000,
    "corners": "corner of a and " * 4_000,
    "full-width digits": "\uff11\uff12 " * 4_000,
    "invisible characters": "1\u200b" * 8_000,
    "units": "Apt 1 " * 3_000,
    "boxes": "P.O. Box 1 " * 2_000,
    "streets": "1 Rue " * 3_000,
    "names without capitals": "anna schmidt " * 3_000,
    "lists": "Anna, Berta and " * 2_000,
    "speakers": "Anna: hi\n" * 2_000,
    "accounts": "account number " * 3_000,
}


@pytest.mark.parametrize("name", HARD)
def test_no_text_takes_long(name: str) -> None:
    check_linear(lambda text: find(text, KINDS), HARD[name])


def test_random_texts_are_looked_through_without_a_crash() -> None:
    chosen = random.Random(7)
    letters = "aZ09 .-+@:/()'\"<>{}[]=,_#\n\té漢🙂\ud800" + "Mr Dr key is"
    for _ in range(2_000):
        text = "".join(chosen.choices(letters, k=chosen.randint(0, 60)))
        for one in find(text, KINDS):
            assert text[one.start : one.end] == one.value


def test_a_pattern_that_never_ends_is_stopped() -> None:
    with pytest.raises(PatternTimeout, match="did not finish"):
        find("a" * 200 + "!", [], [pattern_of(r"(a|aa)+$")])


@pytest.mark.parametrize(
    ("expression", "words"),
    [("a(b", "at position 1"), ("[z-a]", "at position"), ("x*", "the empty text")],
)
def test_a_bad_pattern_is_refused(expression: str, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        pattern_of(expression, where="C.redact")


def test_a_bad_name_of_a_pattern_is_refused() -> None:
    with pytest.raises(DeclarationError, match="cannot name a pattern"):
        pattern_of("x", name="Employee Id")
