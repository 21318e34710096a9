"""What has to do with a query is ranked first, with what was said beside it."""

import random
import time
from itertools import accumulate

import pytest

from tests.support.linear import calls
from weft.relevance import Index, rank, search
from weft.relevance import index as reading
from weft.relevance.index import all_of
from weft.relevance.rank import tell_apart

TALK = [
    "I moved to Oslo in spring.",
    "How do you like it there?",
    "The harbour is lovely.",
    "My sister sells old pianos.",
    "Where is her shop?",
    "In Bergen, by the fish market.",
    "The tax form is blue.",
    "I will send it on Monday.",
    "A cake needs four eggs.",
    "And a lot of butter.",
]


def best(query: str, texts: list[str] = TALK) -> str:
    scores = rank(query, texts)
    return texts[max(range(len(texts)), key=lambda number: scores[number])]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Which colour has the tax form?", "The tax form is blue."),
        ("who sold a piano", "My sister sells old pianos."),
        ("eggs for cakes", "A cake needs four eggs."),
    ],
)
def test_the_best_has_the_words_of_the_query(query: str, expected: str) -> None:
    assert best(query) == expected


def test_scores_are_between_0_and_1_and_the_best_has_1() -> None:
    scores = rank("tax form", TALK)
    assert max(scores) == 1
    assert min(scores) >= 0


def test_a_hit_lifts_what_was_said_beside_it() -> None:
    scores = rank("piano", TALK)
    assert scores[4] > 0
    assert scores[5] > 0
    assert scores[4] > scores[5]


def test_the_words_of_the_best_lead_to_texts_that_share_none_with_the_query() -> None:
    texts = [
        "Melanie paints sunsets with acrylic colours.",
        *(f"Filler number {number} about nothing." for number in range(8)),
        "The acrylic sunsets hang in the hall.",
        *(f"Other filler {number} about nothing." for number in range(8)),
    ]
    scores = rank("What does Melanie do?", texts)
    assert scores[9] > max(scores[12:])


def test_of_two_neighbours_the_one_that_tells_more_is_better() -> None:
    thanks = [f"Thanks, that helps, number {number}." for number in range(8)]
    told = ["Thanks, that helps a lot.", "The harbour?", "Copper kettles whistle softly."]
    said = ["The blue harbour.", *thanks, "Cold.", *told, *thanks]
    turned = [*said]
    turned[10], turned[12] = said[12], said[10]
    # after a hit counts more than before it, so each place is held against itself
    assert rank("harbour", said)[12] > 1.1 * rank("harbour", turned)[12]
    assert rank("harbour", turned)[10] > 1.1 * rank("harbour", said)[10]


def test_what_is_said_again_tells_as_much_as_before() -> None:
    texts = ["A copper kettle.", "Other talk.", "More talk.", "A copper kettle."]
    first, again = tell_apart(all_of(Index(texts)), (0, 3), 0.3)
    assert first == again


def test_how_much_a_very_long_text_tells_is_seen_from_its_first_words() -> None:
    def work(length: int) -> int:
        long = [f"kettle {' '.join(f'w{n}q{m}' for m in range(length))}" for n in range(20)]
        index = Index(long)
        return calls(lambda: list(tell_apart(all_of(index), range(20), 0.3)))

    assert work(4_000) < 1.1 * work(400)


def test_nothing_in_common_is_0() -> None:
    assert rank("volcano", TALK) == [0.0] * len(TALK)
    assert rank("", TALK) == [0.0] * len(TALK)
    assert rank("tax", []) == []


def test_texts_in_chinese_are_found() -> None:
    texts = ["我住在东京都。", "税表是蓝色的。", "蛋糕需要四个鸡蛋。"]
    assert best("税表是什么颜色", texts) == "税表是蓝色的。"


def test_what_is_left_out_is_as_if_it_were_not_there() -> None:
    index = Index([*TALK, "What colour is the tax form?"])
    with_it = search(index, "What colour is the tax form?", without={len(TALK)})
    assert with_it == [*rank("What colour is the tax form?", TALK), 0.0]


def test_a_few_more_texts_are_as_if_they_were_added() -> None:
    index = Index(TALK[:7])
    assert search(index, "cake tax", more=TALK[7:]) == rank("cake tax", TALK)


def test_an_older_snapshot_is_not_changed_by_what_was_added_since() -> None:
    index = Index(TALK)
    assert search(index, "cake tax", first=7) == rank("cake tax", TALK[:7])


def test_what_was_added_before_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(TALK)
    read: list[str] = []
    real = reading.words

    def counted(text: str) -> list[str]:
        read.append(text)
        return real(text)

    monkeypatch.setattr(reading, "words", counted)
    index.add("A new text.")
    search(index, "tax form")
    assert read == ["A new text."]


def test_the_same_texts_rank_the_same() -> None:
    rng = random.Random(5)
    vocabulary = [f"word{number}" for number in range(300)]
    for _ in range(50):
        texts = [" ".join(rng.choices(vocabulary, k=12)) for _ in range(60)]
        query = " ".join(rng.choices(vocabulary, k=5))
        grown = Index()
        for text in texts:
            grown.add(text)
        assert search(grown, query) == rank(query, texts)


def test_ten_thousand_texts_are_ranked_in_a_fraction_of_the_time_they_are_read_in() -> None:
    rng = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(8000)]
    common = list(accumulate(1 / (number + 10) for number in range(8000)))
    texts = [" ".join(rng.choices(vocabulary, cum_weights=common, k=25)) for _ in range(10_000)]
    begun = time.thread_time()
    index = Index(texts)
    built = time.thread_time() - begun
    spent: list[float] = []
    for _ in range(5):
        query = " ".join(rng.choices(vocabulary[50:], k=8))
        begun = time.thread_time()
        search(index, query)
        spent.append(time.thread_time() - begun)
    assert min(spent) * 5 < built
