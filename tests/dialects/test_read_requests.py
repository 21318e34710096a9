"""A request that is read becomes a prompt, and lowers to what it was."""

import random
from copy import deepcopy

import pytest
from bench.meaning import meaning

from tests.dialects.requests import CASES, REQUESTS
from tests.support.laws import all_laws
from weft.dialects import DIALECTS, dialect_named, refusals
from weft.errors import WeftError
from weft.ir import Prompt, verify
from weft.recordings.requests import read_request
from weft.values import Json, JsonObject

MODEL = "gemini-3-flash"


def a_request_comes_back_with_the_same_meaning(
    dialect: str, request: JsonObject, prompt: Prompt
) -> None:
    made = dialect_named(dialect).lower(prompt).wire
    # Anthropic refuses calls without tools, which some of these requests have
    if dialect == "anthropic" and "tools" not in request:
        made = {key: value for key, value in made.items() if key not in ("tools", "tool_choice")}
    assert meaning(dialect, made) == meaning(dialect, request)


def reading_changes_nothing_of_the_request(
    dialect: str, request: JsonObject, prompt: Prompt
) -> None:
    before = deepcopy(request)
    dialect_named(dialect).lower(read_request(dialect, request, MODEL))
    assert request == before


def what_is_read_keeps_the_laws_of_the_prompt(
    dialect: str, request: JsonObject, prompt: Prompt
) -> None:
    verify(prompt, step="read")


def what_is_read_can_be_put_to_every_other_provider(
    dialect: str, request: JsonObject, prompt: Prompt
) -> None:
    for other in DIALECTS:
        lowered = dialect_named(other).lower(prompt)
        assert lowered.dialect == other


LAWS = [
    reading_changes_nothing_of_the_request,
    a_request_comes_back_with_the_same_meaning,
    what_is_read_keeps_the_laws_of_the_prompt,
    what_is_read_can_be_put_to_every_other_provider,
]


@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_every_law_holds_for_every_request(dialect: str, name: str) -> None:
    request = REQUESTS[dialect][name]
    prompt = read_request(dialect, request, MODEL)
    with all_laws() as laws:
        laws.check(f"{dialect}: {name}", LAWS, dialect, request, prompt)


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
