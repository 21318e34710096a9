"""Random programs and logs keep the laws of compiling: `bench/fuzz.py` tries many more of them."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fuzz_laws import draw, faults_in, faults_of, reduce_case, show_program
from weft.compiler import explain
from weft.ir import Item

SEEDS_EACH = 25


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Instructions that cannot be written are logged: many of these programs have one."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


LONG_SEEDS = (*range(262, 268), 270)
"""Seeds of sessions that fold; the last is one whose request was refused before it folded."""


@pytest.mark.parametrize("part", [*range(6), "long"])
def test_random_programs_and_logs_keep_the_laws(part: int | str) -> None:
    long = isinstance(part, str)
    seeds = LONG_SEEDS if long else range(part * SEEDS_EACH, (part + 1) * SEEDS_EACH)
    for seed in seeds:
        case = draw(seed, long=long)
        for fault in faults_of(case):
            program = show_program(reduce_case(case, faults_of, fault.kind, tries=300))
            pytest.fail(f"seed {seed}: {fault.kind}\n{fault.seen}\n\n{program}", pytrace=False)


def test_a_fault_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(item: Item, sent_events: object) -> list[Item]:
        return [item]

    monkeypatch.setattr(explain, "_by_event", whole)  # results of dropped calls are forgotten
    seed, fault = next((s, one) for s in range(60) for one in faults_of(draw(s)))
    assert fault.kind == "an event is in no list"
    small = reduce_case(draw(seed), faults_of, fault.kind)
    program = show_program(small)
    assert len(program) < 700
    assert program.count("Event(") <= 3
    monkeypatch.undo()
    assert faults_of(small) == []


FOUND: dict[str, str] = dict(
    re.findall(
        r"^## ([^\n]+)\n```case\n(.+?)\n```$",
        Path(__file__).with_name("fuzz_found.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)
"""By a sentence that says what holds now: the case for which it did not."""


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND)
def test_what_was_found_stays_mended(source: str) -> None:
    assert faults_in(source) == []


HUGE_PLACES = (
    "content=Content(parts=(call_part('look', {'n': 10**5000}, id='c'),))",
    "content=Content(parts=(result_part('look', {'n': [10**5000]}, id='c'),))",
    "actions=Actions(state_delta={'n': -(10**5000)})",
    "actions=Actions(agent_state={'n': 10**5000})",
    "custom_metadata={'n': 10**5000}",
    "grounding_metadata={'n': 10**5000}",
    "output=10**5000",
    "timestamp=float('nan')",
    "avg_logprobs=float('inf')",
)


@pytest.mark.parametrize("place", HUGE_PLACES)
def test_a_number_that_is_not_json_is_refused_where_it_comes_in(place: str) -> None:
    clock = "" if place.startswith("timestamp") else ", timestamp=1.0"
    for begins in (0, 1):
        source = f"Case(Agent('b'), events=[Event(id='e1'{clock}, {place})], begins={begins})"
        assert faults_in(source) == []


@pytest.mark.parametrize("key", ["\\ud83d", "", "\\x00", "weft"])
def test_any_key_in_metadata_is_carried(key: str) -> None:
    for field in ("custom_metadata", "node_info", "grounding_metadata"):
        source = f"Case(Agent('b'), events=[Event(id='e1', timestamp=1.0, {field}={{'{key}': 1}})])"
        assert faults_in(source) == []
