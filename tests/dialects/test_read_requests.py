"""A request that is read becomes a prompt, and lowers to what it was."""

import random
from copy import deepcopy

import pytest
from bench.meaning import meaning

from tests.dialects.requests import CASES, REQUESTS
from weft.dialects import DIALECTS, dialect_named, refusals
from weft.errors import WeftError
from weft.ir import verify
from weft.replay.recordings import read_request
from weft.values import Json, JsonObject

MODEL = "gemini-2.5-flash"


@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_a_request_comes_back_with_the_same_meaning(dialect: str, name: str) -> None:
    request = REQUESTS[dialect][name]
    made = dialect_named(dialect).lower(read_request(dialect, request, MODEL)).wire
    assert meaning(dialect, made) == meaning(dialect, request)


@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_reading_changes_nothing_of_the_request(dialect: str, name: str) -> None:
    request = REQUESTS[dialect][name]
    before = deepcopy(request)
    dialect_named(dialect).lower(read_request(dialect, request, MODEL))
    assert request == before


@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_what_is_read_keeps_the_laws_of_the_prompt(dialect: str, name: str) -> None:
    verify(read_request(dialect, REQUESTS[dialect][name], MODEL), step="read")


@pytest.mark.parametrize("other", DIALECTS)
@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_what_is_read_can_be_put_to_every_other_provider(
    dialect: str, name: str, other: str
) -> None:
    lowered = dialect_named(other).lower(read_request(dialect, REQUESTS[dialect][name], MODEL))
    assert lowered.dialect == other


JUNK: tuple[Json, ...] = (None, "", [], {}, 5, "x", True, [1], {"a": 1}, [{}], [None])


def _places(value: Json, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children: list[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        children = [*value.items()]
    elif isinstance(value, list):
        children = [*enumerate(value)]
    below = [place for key, held in children for place in _places(held, (*above, key))]
    return [*([above] if above else []), *below]


def _spoiled(request: JsonObject, chance: random.Random) -> JsonObject:
    spoiled = deepcopy(request)
    *above, last = chance.choice(_places(spoiled))
    held: Json = spoiled
    for key in above:
        held = held[key]  # type: ignore[call-overload, index]
    held[last] = deepcopy(chance.choice(JUNK))  # type: ignore[call-overload, index]
    return spoiled


@pytest.mark.parametrize("seed", range(8))
def test_junk_anywhere_is_read_or_refused_with_an_error_of_wefts_own(seed: int) -> None:
    chance = random.Random(seed)
    refused: list[str] = []
    for _ in range(100):
        dialect, name = chance.choice(CASES)
        spoiled = _spoiled(REQUESTS[dialect][name], chance)
        refusals(dialect, spoiled, MODEL)
        try:
            dialect_named(dialect).lower(read_request(dialect, spoiled, MODEL))
        except WeftError as error:
            refused.append(error.message)
    assert all(refused)
    assert len(refused) < 50
