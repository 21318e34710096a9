"""The circuit breaker: opens, fails fast, lets one through, closes."""

import asyncio
import threading

import pytest

import weft
from tests.models.answers import whole
from tests.models.server import Server, Turn, says
from weft import Agent, Result
from weft.errors import ModelError
from weft.models import Breaker, OpenAI
from weft.models.retry import Circuit

FINE = says(whole("openai-chat"))
DOWN = says({"error": {"message": "down"}}, 503)


class Clock:
    """Time that is told what it is."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def bot(server: Server, breaker: Breaker, name: str = "x") -> Agent:
    model = OpenAI(name, base_url=server.url, api_key="k", retries=0, breaker=breaker)
    return Agent("bot", model=model)


def code(result: Result) -> str | None:
    return result.events[-1].error_code


async def test_a_server_that_keeps_failing_is_left_alone_and_tried_again() -> None:
    clock = Clock()
    breaker = Breaker(failures=3, pause=30, clock=clock)
    with Server(DOWN, DOWN, DOWN, DOWN, FINE) as server:
        first = await weft.run(bot(server, breaker), "hi")
        for _ in range(2):
            assert code(await weft.run(bot(server, breaker), "hi")) == "overloaded"
        refused = await weft.run(bot(server, breaker), "hi")
        assert code(refused) == "unavailable"
        assert "in 30 s" in (refused.events[-1].error_message or "")
        assert len(server.received) == 3
        clock.now = 31
        assert code(await weft.run(bot(server, breaker), "hi")) == "overloaded"
        assert code(await weft.run(bot(server, breaker), "hi")) == "unavailable"
        assert len(server.received) == 4
        clock.now = 62
        again = await weft.run(bot(server, breaker), "go on", session=first.session)
        assert again.text == "Hello there"
        assert (await weft.run(bot(server, breaker), "hi")).text == "Hello there"


async def test_other_models_and_addresses_have_circuits_of_their_own() -> None:
    breaker = Breaker(failures=1, clock=Clock())
    with Server(DOWN) as server, Server(FINE) as other:
        await weft.run(bot(server, breaker), "hi")
        assert code(await weft.run(bot(server, breaker), "hi")) == "unavailable"
        assert code(await weft.run(bot(server, breaker, "y"), "hi")) == "overloaded"
        assert (await weft.run(bot(other, breaker), "hi")).text == "Hello there"


@pytest.mark.parametrize("turn", [says({}, 400), says({}, 401), says({}, 429)])
async def test_answers_of_a_server_that_is_well_open_nothing(turn: Turn) -> None:
    breaker = Breaker(failures=1, clock=Clock())
    with Server(turn) as server:
        for _ in range(3):
            assert code(await weft.run(bot(server, breaker), "hi")) != "unavailable"
        assert len(server.received) == 3


async def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = Breaker(failures=2, clock=Clock())
    with Server(DOWN, FINE, DOWN, FINE) as server:
        for _ in range(4):
            await weft.run(bot(server, breaker), "hi")
        assert len(server.received) == 4


async def test_only_one_call_is_let_through_to_try() -> None:
    clock = Clock()
    breaker = Breaker(failures=1, pause=10, clock=clock)
    refused = threading.Event()
    with Server(DOWN, FINE._replace(after=refused)) as server:
        await weft.run(bot(server, breaker), "hi")
        clock.now = 11
        runs = [asyncio.ensure_future(weft.run(bot(server, breaker), "hi")) for _ in range(4)]
        while sum(run.done() for run in runs) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        refused.set()
        results = await asyncio.gather(*runs)
        assert sorted(result.text for result in results) == ["", "", "", "Hello there"]
        assert len(server.received) == 2


async def test_a_try_that_is_cancelled_leaves_room_for_another() -> None:
    clock = Clock()
    breaker = Breaker(failures=1, pause=10, clock=clock)
    with Server(DOWN, Turn(wait=30), FINE) as server:
        await weft.run(bot(server, breaker), "hi")
        clock.now = 11
        task = asyncio.ensure_future(weft.run(bot(server, breaker), "hi"))
        while len(server.received) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await weft.run(bot(server, breaker), "hi")).text == "Hello there"


def test_a_circuit_says_in_what_state_it_is() -> None:
    clock = Clock()
    circuit = Circuit(Breaker(failures=1, pause=10, clock=clock))
    assert circuit.state == "closed"
    circuit.leave("timeout", trial=circuit.enter())
    assert circuit.state == "open"
    with pytest.raises(ModelError, match="timeout") as caught:
        circuit.enter()
    assert caught.value.retry_after == 10
    clock.now = 10
    assert circuit.state == "half-open"
    assert circuit.enter() is True
    circuit.leave("ok", trial=True)
    assert circuit.state == "closed"
