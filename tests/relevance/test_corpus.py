"""The best hits of a corpus are those of a search through all texts, to the last bit."""

import random

import pytest

from weft.relevance.corpus import BestHits, Corpus, best_hits
from weft.relevance.rank import found_by

LEAST = 0.1


def searched(corpus: Corpus, query: str, blanks: int, top: int | None) -> BestHits:
    """The same, told from the scores of all texts."""
    length = len(corpus)
    behind = {*range(length, length + blanks)}
    scores, steady = found_by(corpus.index, query, more=[""] * blanks, without=behind)
    hits = [number for number in range(length) if scores[number] > 0]
    if top is None:
        return BestHits({n: scores[n] for n in hits if scores[n] >= LEAST}, steady)
    hits.sort(key=lambda number: (-scores[number], -number))
    return BestHits({n: scores[n] for n in hits[:top]}, steady)


def sentences(chance: random.Random) -> tuple[list[str], list[str]]:
    """Words, and sentences made of them that a conversation repeats."""
    starts = ("wea", "tax", "pia", "oslo", "form")
    vocabulary = [
        chance.choice(starts) + "".join(chance.choices("abct", k=chance.randint(0, 3)))
        for _ in range(chance.choice((5, 30, 200)))
    ]
    repeated = [
        " ".join(chance.choices(vocabulary, k=chance.randint(0, 8)))
        for _ in range(chance.choice((2, 6, 50)))
    ]
    return vocabulary, repeated


@pytest.mark.parametrize("seed", range(40))
def test_the_best_hits_are_those_of_a_search_through_all_texts(seed: int) -> None:
    chance = random.Random(seed)
    vocabulary, repeated = sentences(chance)
    length, own_words = chance.choice((1, 3, 8, 40, 300)), chance.random()
    corpus = Corpus()
    for number in range(length):
        text = chance.choice(repeated)
        if chance.random() < own_words:
            text = " ".join(chance.choices(vocabulary, k=chance.randint(0, 8)))
        if chance.random() < 0.4:  # a number nobody said before, and one that somebody may have
            text += f" {number} n{chance.randint(0, number)}"
        corpus.add(text)
        if chance.random() > 0.02 and number < length - 1:
            continue
        query = " ".join((*chance.choices(vocabulary, k=chance.randint(0, 4)), f"{number}"))
        for top in (None, 1, 8, 40):
            blanks = chance.randint(0, 5)
            fast = best_hits(corpus, query, blanks=blanks, top=top, least=LEAST)
            assert fast == searched(corpus, query, blanks, top)


def test_texts_that_differ_in_a_number_are_of_one_shape() -> None:
    corpus = Corpus()
    for number in range(1_000):
        corpus.add(f"Question {number}: what is the weather in Oslo?")
        corpus.add("It is sunny in Oslo.")
    assert len(corpus.members) < 10
    assert len(corpus.rows) < 50
    assert best_hits(corpus, "question 7", blanks=0, top=1, least=LEAST).scores == {14: 1.0}


def test_nothing_is_found_where_nothing_was_said() -> None:
    corpus = Corpus()
    assert best_hits(corpus, "oslo", blanks=1, top=8, least=LEAST) == BestHits({}, True)
    corpus.add("")
    assert best_hits(corpus, "oslo", blanks=1, top=8, least=LEAST) == BestHits({}, True)
