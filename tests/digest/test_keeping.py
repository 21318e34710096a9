"""What a shorter version must still say is found, looked for and held against what was said."""

import random

import pytest

from tests.support.linear import check_linear
from weft.digest.acts import find_action
from weft.digest.keeping import (
    ExtractEntry,
    extract,
    find_invented,
    holds,
    marks_in,
    missing,
    must_keep,
    open_lines,
)
from weft.digest.names import short_values_in, telling_names
from weft.passes.fold import find_files


def letters(text: str) -> int:
    return -(-len(text) // 4)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Write to ada.l@example.org.", ["ada.l@example.org"]),
        ("See https://example.org/a?b=1, please", ["https://example.org/a?b=1"]),
        ("in /srv/app/main.py and src/app.py", ["/srv/app/main.py", "src/app.py"]),
        ("order A-4711 and KL1204", ["A-4711", "KL1204"]),
        ("on 2026-05-12, May 12 and 3 June", ["2026-05-12", "May 12", "3 June"]),
        ("costs 1,250.00 EUR, $45 or 40%", ["1,250.00", "$45", "40%"]),
        ("call order_total and orderTotal", ["order_total", "orderTotal"]),
        ("and/or his/her 3 of 10, at 7", []),
        ("電話は0312345678です", ["0312345678"]),
        ("", []),
    ],
)
def test_marks_are_what_must_be_spelled_right(text: str, marks: list[str]) -> None:
    assert marks_in(text) == marks


def test_what_is_used_again_or_later_must_be_kept() -> None:
    entries = ["order A-4711 for 250 EUR", "A-4711 is on its way", "room B-1200"]
    assert must_keep(entries) == ("A-4711",)
    assert must_keep(entries, ["and room B-1200?"]) == ("B-1200", "A-4711")
    assert must_keep(entries, pinned=["always say 250"]) == ("250", "A-4711")


def test_what_is_open_must_be_kept() -> None:
    entries = ["Fine.\n- [ ] pay the invoice\n- [x] pack", "We still need to call the hotel."]
    assert open_lines(entries[0]) == ["- [ ] pay the invoice"]
    assert must_keep(entries, questions=["Which seat?"]) == (
        "Which seat?",
        "- [ ] pay the invoice",
        "We still need to call the hotel.",
    )


def test_a_mark_is_looked_for_letter_by_letter_and_a_sentence_in_about_its_words() -> None:
    assert holds("It costs 1250.00 euros.", "1,250.00")
    assert not holds("It costs 11250.00 euros.", "1,250.00")
    assert not holds("It is KL12045.", "KL1204")
    assert holds("The invoice is still to be paid on Friday", "TODO: pay the invoice on Friday")
    assert not holds("They talk of the weather", "TODO: pay the invoice on Friday")
    assert missing("KL1204", ["KL1204", "KL1205"]) == ["KL1205"]
    assert holds("鈴木さんが確認する予定です", "未定: 鈴木さんが確認する")


def test_numbers_and_addresses_that_nobody_said_are_found() -> None:
    source = "KL1204 costs 1,250 EUR; write to ada@example.org"
    assert find_invented("KL1204 costs 1250 and mail goes to ada@example.org", source) == []
    assert find_invented("KL1205 costs 999, see bob@example.org", source) == [
        "KL1205",
        "999",
        "bob@example.org",
    ]
    assert find_invented("In 2 turns they agree on 3 things (SUMMARY-1).", source) == []


def test_an_extract_never_exceeds_its_limit_and_holds_what_it_must() -> None:
    pick = random.Random(5)
    words = [
        "Oslo",
        "KL1204",
        "ada@example.org",
        "鈴木さん",
        "🙂",
        "pay.",
        "The room is B-1200.",
        "why?",
        "\n",
    ]
    for _ in range(120):
        entries = [
            ExtractEntry(
                pick.choice(["user", "bot", ""]),
                " ".join(pick.choices(words, k=pick.randint(1, 60))),
            )
            for _ in range(pick.randint(1, 12))
        ]
        wanted = must_keep([entry.text for entry in entries])
        limit = pick.randint(8, 200)
        made = extract(entries, wanted=wanted, limit=limit, count=letters)
        assert letters(made) <= limit
        assert made == extract(entries, wanted=wanted, limit=limit, count=letters)
        if limit > 60:
            assert missing(made, wanted) == []


@pytest.mark.parametrize("text", ["a1", "x@", "1,", "/"])
def test_a_long_text_takes_no_more_than_its_length(text: str) -> None:
    check_linear(lambda text: (marks_in(text), open_lines(text)), text * 100_000)


@pytest.mark.parametrize("piece", ["x", "a.", "1,", "a1", "a-", "/a", " ", "<a>", "'"])
def test_names_values_and_files_are_found_in_time_that_grows_with_the_text(piece: str) -> None:
    def look(text: str) -> object:
        return telling_names(text), short_values_in(text), [*find_files(text)], find_action(text)

    check_linear(look, piece * (60_000 // len(piece)))


def test_files_are_found_without_their_folders() -> None:
    text = "see src/app.py, (lib/.env.local) a.b.ts, v1.2.3 tests/x_test.py-old and end."
    assert [*find_files(text)] == ["app.py", "env.local", "a.b.ts", "x_test.py"]
