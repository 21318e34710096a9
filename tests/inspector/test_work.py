"""What the inspector works out once, however often it is asked for."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.linear import calls
from weft import Agent, Content, Event, Part, Session, tokens
from weft.content import FunctionCall, FunctionResponse
from weft.inspector import Inspection, Variant
from weft.inspector.export import export
from weft.inspector.inspection import RequestText, TurnText, find_difference
from weft.inspector.questions import what_if
from weft.values import Json, compact


def long_session(steps: int) -> Session:
    """A session of so many calls whose results are long, no two of them alike."""
    chance, events = random.Random(steps), [event("user", Part(text="Find it."))]
    for step in range(steps):
        rows: list[Json] = [
            {"id": chance.randrange(10**6), "name": f"user{n}-{step}", "ok": n % 3 == 0}
            for n in range(60)
        ]
        call = FunctionCall(name="look", args={"page": step}, id=f"c{step}")
        answer = FunctionResponse(name="look", response={"result": rows}, id=f"c{step}")
        events += [
            event("bot", Part(function_call=call)),
            event("bot", Part(function_response=answer)),
        ]
    return Session("s", events=[*events, event("bot", Part(text="There."))])


def event(author: str, part: Part) -> Event:
    role = "user" if author == "user" or part.function_response is not None else "model"
    return Event(author=author, content=Content(role=role, parts=(part,)))


def inspect(steps: int, model: str = "gpt-5") -> Inspection:
    return Inspection(Agent("bot", model=model), long_session(steps))


def test_a_what_if_counts_no_result_that_was_counted_when_the_session_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inspection = inspect(80)
    inspection.film()
    results = {
        compact(result.response)
        for one in inspection.session.events
        if one.content is not None
        for part in one.content.parts
        if (result := part.function_response) is not None
    }
    counted: list[str] = []
    encode = tokens._encode

    def note(vocabulary: str, text: str) -> int:
        counted.append(text)
        return encode(vocabulary, text)

    monkeypatch.setattr(tokens, "_encode", note)
    what_if(inspection, len(inspection.steps), Variant(policy="C.auto()"))
    assert len(results) == 80
    assert counted
    assert not results.intersection(counted)


def test_a_what_if_makes_a_digest_in_a_few_calls() -> None:
    def work(steps: int) -> int:
        inspection = inspect(steps)
        inspection.film()
        number = len(inspection.steps)
        return calls(lambda: what_if(inspection, number, Variant(policy="C.auto()")))

    work(10)
    few, many = work(20), work(60)
    assert many - few < 40 * MOST, f"{(many - few) / 40:,.0f} calls for each result more"


MOST = 9_000
"""Calls for a digest of 60 records and all that is said of it."""


def test_a_file_puts_no_request_together_to_compare_it(monkeypatch: pytest.MonkeyPatch) -> None:
    inspection = inspect(40)
    wholes: list[RequestText] = []
    rest = RequestText._rest

    def note(self: RequestText, turn: int) -> str:
        if turn < len(self._turns) // 2:
            wholes.append(self)
        return rest(self, turn)

    monkeypatch.setattr(RequestText, "_rest", note)
    export(inspection, key="s")
    assert len(wholes) <= 4, "only the first few requests are so short"


texts = st.lists(st.text('aé{}",:', max_size=4), max_size=5)


@given(st.data(), st.sampled_from(["{", '{"é":1,"turns":[']), texts, texts, texts)
def test_a_request_in_parts_is_the_whole_text(
    data: st.DataObject, lead: str, shared: list[str], mine: list[str], theirs: list[str]
) -> None:
    known = [TurnText.of(one) for one in shared]
    one, other = (
        RequestText(lead, [*known, *map(TurnText.of, more)], end)
        for more, end in ((mine, "]}"), (theirs, data.draw(st.sampled_from(["]}", '],"x":1}']))))
    )
    whole = lead + ",".join(map(compact, [*shared, *mine])) + "]}"
    assert one.whole == whole
    assert len(one) == len(whole)
    assert one.differs_at(other) == find_difference(whole, other.whole)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole) + 2))
    fresh = RequestText(lead, one._turns, "]}")
    assert fresh.between(start, end) == whole[start:end]
    assert fresh.count_bytes(start) == len(whole[:start].encode())
