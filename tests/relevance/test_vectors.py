"""Vectors find what was said in other words."""

import random

import pytest

from weft import C
from weft.errors import DeclarationError
from weft.meaning import is_installed
from weft.relevance import Index, rank, search

pytestmark = pytest.mark.skipif(not is_installed(), reason="wordllama is not installed")

TALK = [
    "We bought a sofa and two chairs.",
    "They look good in the hall.",
    "Then the train was late again.",
    "I read on the platform.",
    "It was cold there.",
    "The doctor gave me pills for my head.",
    "They help a little.",
    "On Sunday we saw a play.",
]


def test_what_is_meant_is_found_where_no_word_is_shared() -> None:
    assert max(rank("Which medicine was prescribed?", TALK)) == 0
    scores = rank("Which medicine was prescribed?", TALK, scorer="embedding")
    assert TALK[scores.index(1.0)] == TALK[5]


def test_words_in_common_still_count() -> None:
    scores = rank("sofa", TALK, scorer="embedding")
    assert scores.index(1.0) == 0


def test_an_index_that_grows_gives_what_a_new_one_gives() -> None:
    rng = random.Random(3)
    vocabulary = " ".join(TALK).split()
    texts = [" ".join(rng.choices(vocabulary, k=8)) for _ in range(70)]
    grown = Index()
    for number, text in enumerate(texts, 1):
        grown.add(text)
        if number % 9 == 0:
            fresh = rank("the doctor was late", texts[:number], scorer="embedding")
            assert search(grown, "the doctor was late", scorer="embedding") == fresh


def test_what_is_left_out_and_what_is_more_count_as_they_should() -> None:
    whole = Index([*TALK, "Which medicine?"])
    left = search(whole, "Which medicine?", without={len(TALK)}, scorer="embedding")
    assert left == [*rank("Which medicine?", TALK, scorer="embedding"), 0.0]
    more = search(Index(TALK[:5]), "Which medicine?", more=TALK[5:], scorer="embedding")
    assert more == pytest.approx(rank("Which medicine?", TALK, scorer="embedding"), abs=1e-3)


def test_empty_texts_and_queries_are_no_trouble() -> None:
    assert rank("", ["", "a"], scorer="embedding") == [0.0, 0.0]
    assert rank("sofa", [], scorer="embedding") == []
    assert len(rank("sofa", ["", "sofa"], scorer="embedding")) == 2


def test_without_vectors_the_policy_says_which_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weft.meaning.is_installed", lambda: False)
    with pytest.raises(DeclarationError) as caught:
        C.relevant(scorer="embedding")
    assert "weft[embedding]" in (caught.value.hint or "")
    assert str(C.relevant()) == "C.relevant()"
