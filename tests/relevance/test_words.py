"""Words are compared in one form, whatever the script and the spelling."""

import pytest

from weft.relevance import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getWeather", ["weath"]),
        ("get_weather", ["weath"]),
        ("parseHTTPResponse", ["pars", "http", "respons"]),
        ("painted paints painting", ["paint", "paint", "paint"]),
        ("What did you do with it?", []),
        ("order A-77 of 2023", ["ord", "77", "2023"]),
        ("Café CAFE", ["caf", "caf"]),
        ("東京都", ["東京", "京都"]),
        ("水", ["水"]),
        ("서울시", ["서울", "울시"]),
        ("用Python写", ["用", "python", "写"]),
        ("हिन्दी", ["हिन्दी"]),
        ("Kyiv's Київ", ["kyiv", "київ"]),
        ("", []),
        ("😀 --- ...", []),
    ],
)
def test_words_in_one_form(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_full_width_letters_are_letters() -> None:
    assert words("\uff21\uff22\uff23 order") == words("abc order")


def test_a_long_text_takes_linear_time() -> None:
    assert len(words("word42 " * 50_000)) == 50_000
    assert len(words("字" * 50_000)) == 49_999
