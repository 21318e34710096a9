"""Who speaks counts where the query says who is meant, and long conversations cost little more."""

import random

import pytest

import weft
from tests.support.linear import calls
from weft import Agent, C
from weft.relevance import Index, rank, search
from weft.relevance.index import MOST, speakers_of
from weft.testing import make_session


@pytest.mark.parametrize(
    ("text", "names", "speech"),
    [
        ("Maria: I moved.", ("maria",), " I moved."),
        ("bot:\nMaria: I moved.", ("bot", "maria"), " I moved."),
        ("Dr. Anna O'Neil: Sit.", ("dr anna o neil",), " Sit."),
        ("http://weft.example is down", (), "http://weft.example is down"),
        ("At 10:30 we met", (), "At 10:30 we met"),
        ("I think that she said: no", (), "I think that she said: no"),
        ("", (), ""),
    ],
)
def test_the_names_before_a_speech_are_read(text: str, names: tuple[str, ...], speech: str) -> None:
    found, end = speakers_of(text)
    assert found == names
    assert text[end:] == speech


TALK = [
    "They met in a cafe.",
    *(f"Somebody else talks of {thing}." for thing in ("tea", "rain", "hats")),
    "Maria: I bought a boat in spring.",
    *(f"Somebody else talks of {thing}." for thing in ("milk", "snow", "socks")),
    "John: I bought a boat in spring.",
    *(f"Somebody else talks of {thing}." for thing in ("ice", "hail", "shoes")),
]
MARIA, JOHN = 4, 8


@pytest.mark.parametrize(("name", "one", "other"), [("Maria", MARIA, JOHN), ("John", JOHN, MARIA)])
def test_a_query_about_a_speaker_ranks_what_they_said_first(
    name: str, one: int, other: int
) -> None:
    scores = rank(f"When did {name}'s boat come?", TALK)
    assert scores[one] == 1
    assert 0 < scores[other] < 0.7


def test_a_query_about_both_speakers_prefers_neither() -> None:
    scores = rank("Did Maria and John buy boats?", TALK)
    assert scores[MARIA] == pytest.approx(scores[JOHN], abs=0.1)


def test_what_i_said_is_mine_and_what_you_said_is_the_agents() -> None:
    session = make_session(
        ("user", "The train to Oslo leaves at nine."),
        ("bot", "The train to Oslo leaves at ten."),
    )
    bot = Agent("bot", model="gpt-5", context=C.relevant(top_k=1))
    mine = weft.compile(bot, session=session, message="What did I say about the Oslo train?")
    yours = weft.compile(bot, session=session, message="What did you tell me of the Oslo train?")
    assert "leaves at nine" in str(mine.prompt)
    assert "leaves at ten" not in str(mine.prompt)
    assert "leaves at ten" in str(yours.prompt)
    assert "leaves at nine" not in str(yours.prompt)


def test_a_long_neighbour_takes_less_than_a_short_one() -> None:
    short = ["Where is the harbour?", "Down there.", "Fine."]
    long = ["Where is the harbour?", "Down there. " + "Then a lot of other talk. " * 30, "Fine."]
    filler = [f"Filler {number}." for number in range(6)]
    assert rank("harbour", [*short, *filler])[1] > 1.5 * rank("harbour", [*long, *filler])[1]


def test_numbers_are_found_only_whole() -> None:
    between = ["Tea.", "Rain.", "Hats.", "Milk.", "Snow.", "Socks.", "Ice."]
    texts = ["We paid 10023.", *between, "It is 1002."]
    scores = rank("1002", texts)
    assert scores[-1] == 1
    assert scores[0] == 0


def test_of_a_word_that_very_many_have_the_newest_count() -> None:
    texts = [f"Common talk {number}." for number in range(2 * MOST)]
    scores = rank("common", texts)
    assert not any(scores[: MOST - 3])
    assert all(scores[MOST:])


def test_searching_texts_that_never_repeat_costs_little_more_in_a_long_conversation() -> None:
    chance = random.Random(3)
    vocabulary = [f"w{'abcdefgh'[n % 8]}{n // 8:x}q" for n in range(4_000)]
    weights = [1 / (place + 10) for place in range(len(vocabulary))]

    def work(length: int) -> int:
        index = Index(" ".join(chance.choices(vocabulary, weights, k=25)) for _ in range(length))
        query = " ".join(vocabulary[::60][:8])
        search(index, query)
        return calls(lambda: search(index, query))

    assert work(10_000) < 4 * work(1_000)
