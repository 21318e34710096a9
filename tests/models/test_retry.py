"""Asking again: when, how often, and never after something was shown."""

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest

import weft
from tests.models.answers import events, whole
from tests.models.server import Server, Turn, page, says, streams
from weft import Agent, Event, RunConfig
from weft.errors import ModelError
from weft.models import Anthropic, OpenAI, Retry
from weft.models.retry import Final, Trail, asked_to_wait

FINE = says(whole("openai-chat"))
BUSY = says({"error": {"message": "wait"}}, 429)
DOWN = says({"error": {"message": "down"}}, 503)


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        self.now += seconds

    def retry(self, **more: object) -> Retry:
        retry = Retry(clock=self, sleep=self.sleep, random=lambda: 0.0)
        return msgspec.structs.replace(retry, **more)


def bot(server: Server, retry: Retry | int | None = None, **more: object) -> Agent:
    model = OpenAI("x", base_url=server.url, api_key="k", retries=retry, **more)  # type: ignore[arg-type]
    return Agent("bot", model=model)


def attempts(event: Event) -> list[dict[str, object]]:
    held = (event.custom_metadata or {}).get("weft", {})
    return held.get("attempts", [])


@pytest.mark.parametrize(
    "turn",
    [
        BUSY,
        DOWN,
        page(502),
        says({}, 500),
        says({}, 408),
        says({}, 409),
        says({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, 529),
        says({"error": {"type": "server_error", "message": "in a 200"}}),
        Turn(reset=True),
        Turn(body=b"{", headers={"content-length": "99"}),
    ],
    ids=["429", "503", "html 502", "500", "408", "409", "529", "in a 200", "reset", "short"],
)
async def test_what_may_have_passed_is_tried_again(turn: Turn) -> None:
    clock = Clock()
    with Server(turn, turn, FINE) as server:
        result = await weft.run(bot(server, clock.retry()), "hi")
        assert result.text == "Hello there"
        assert len({received.body for received in server.received}) == 1
    assert clock.pauses == [0.5, 1.0]
    told = attempts(result.events[-1])
    assert [each["outcome"] for each in told][2] == "ok"
    assert [each["at"] for each in told] == [0.0, 0.5, 1.5]
    assert told[0]["pause"] == 0.5


@pytest.mark.parametrize(
    "turn",
    [
        says({"error": {"message": "no"}}, 400),
        says({"error": {"message": "no"}}, 401),
        says({"error": {"message": "no"}}, 404),
        says({"error": {"code": "insufficient_quota", "message": "pay"}}, 429),
        says({"error": {"message": "no"}}, 503, x_should_retry="false"),
        page(200),
    ],
    ids=["400", "401", "404", "no credit", "told not to", "html"],
)
async def test_what_will_not_pass_is_not_tried_again(turn: Turn) -> None:
    clock = Clock()
    with Server(turn, FINE) as server:
        result = await weft.run(bot(server, clock.retry()), "hi")
        assert result.events[-1].error_code
        assert len(server.received) == 1
    assert clock.pauses == []


async def test_the_last_error_says_how_often_it_was_tried(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    caplog.set_level(logging.WARNING, "weft")
    with Server(DOWN) as server:
        result = await weft.run(bot(server, clock.retry()), "hi")
        assert len(server.received) == 4
    assert result.events[-1].error_code == "overloaded"
    assert "(4 attempts in 3.5 s)" in (result.events[-1].error_message or "")
    assert sum("trying again in" in record.message for record in caplog.records) == 3


@pytest.mark.parametrize(
    ("header", "value", "pause"),
    [
        ("retry-after", "7", 7.0),
        ("retry-after", "0.25", 0.25),
        ("retry-after-ms", "1500", 1.5),
    ],
)
async def test_what_the_provider_asks_to_wait_is_waited(
    header: str, value: str, pause: float
) -> None:
    clock = Clock()
    busy = BUSY._replace(headers={**BUSY.headers, header: value})
    with Server(busy, FINE) as server:
        assert (await weft.run(bot(server, clock.retry()), "hi")).text == "Hello there"
    assert clock.pauses == [pause]


async def test_what_the_body_asks_to_wait_is_waited() -> None:
    clock = Clock()
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [info]}
    with Server(says({"error": error}, 429), FINE) as server:
        assert (await weft.run(bot(server, clock.retry()), "hi")).text == "Hello there"
    assert clock.pauses == [17.0]


def test_a_date_to_wait_for_is_understood() -> None:
    then = datetime.now(UTC) + timedelta(hours=1)
    waited = asked_to_wait({"retry-after": format_datetime(then, usegmt=True)})
    assert waited is not None
    assert 3000 < waited <= 3600
    assert asked_to_wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert asked_to_wait({"retry-after": "soon"}) is None
    assert asked_to_wait({"retry-after": "nan"}) is None
    assert asked_to_wait({}) is None


async def test_a_wait_that_is_too_long_is_told_at_once() -> None:
    clock = Clock()
    busy = BUSY._replace(headers={**BUSY.headers, "retry-after": "3600"})
    with Server(busy) as server:
        model = OpenAI("x", base_url=server.url, api_key="k", retries=clock.retry())
        compiled = weft.compile(Agent("bot", model=model), message="hi")
        with pytest.raises(ModelError) as caught:
            await anext(aiter(model.generate(compiled.prompt, compiled.wire, stream=False)))
    assert caught.value.retry_after == 3600
    assert clock.pauses == []


async def test_all_attempts_together_have_a_deadline() -> None:
    clock = Clock()
    with Server(DOWN) as server:
        retry = clock.retry(attempts=100, within=4.0)
        await weft.run(bot(server, retry), "hi")
        assert len(server.received) == 4
    assert clock.pauses == [0.5, 1.0, 2.0]


async def test_an_answer_that_never_ends_ends_at_the_deadline() -> None:
    clock = Clock()
    with Server(streams(events("openai-chat")[:1] * 4000, between=0.01)) as server:
        shown: list[Event] = []
        async for event in weft.stream(bot(server, clock.retry(within=600)), "hi"):
            shown.append(event)
            clock.now += 150
        assert shown[-1].error_code == "timeout"
        assert len(shown) == 5
        assert await asyncio.to_thread(server.wait_for_hang_up)


async def test_nothing_is_sent_again_once_a_piece_was_shown() -> None:
    clock = Clock()
    cut = streams(events("openai-chat")[:1], ends=False)
    with Server(cut, FINE) as server:
        shown = [event async for event in weft.stream(bot(server, clock.retry()), "hi")]
        assert shown[-1].error_code == "cut_stream"
        assert len(server.received) == 1


async def test_a_stream_that_broke_before_its_first_piece_is_sent_again() -> None:
    clock = Clock()
    with Server(streams([b": ping\n\n"], ends=False), streams(events("openai-chat"))) as server:
        shown = [event async for event in weft.stream(bot(server, clock.retry()), "hi")]
    assert [event.content.text for event in shown if event.partial] == ["Hello", " there"]  # type: ignore[union-attr]


async def test_who_asks_for_it_gets_a_second_attempt_after_pieces() -> None:
    clock = Clock()
    cut = streams(events("openai-chat")[:1], ends=False)
    with Server(cut, streams(events("openai-chat"))) as server:
        agent = bot(server, clock.retry(after_partial=True))
        shown = [event async for event in weft.stream(agent, "hi")]
    pieces = [event.content.text for event in shown if event.partial]  # type: ignore[union-attr]
    assert pieces == ["Hello", "Hello", " there"]
    assert shown[-1].content.text == "Hello there"  # type: ignore[union-attr]


async def test_an_answer_that_took_one_attempt_has_no_list_of_them() -> None:
    with Server(FINE) as server:
        assert attempts((await weft.run(bot(server), "hi")).events[-1]) == []


async def test_retries_can_be_a_number() -> None:
    with Server(says({}, 500, retry_after_ms="1")) as server:
        await weft.run(bot(server, 2), "hi")
        assert len(server.received) == 3
    with Server(DOWN) as server:
        await weft.run(bot(server, 0), "hi")
        assert len(server.received) == 1


async def test_the_pauses_of_a_real_run_are_real() -> None:
    with Server(says({}, 503, retry_after="0.3"), FINE) as server:
        await weft.run(bot(server), "hi")
        first, second = (received.at for received in server.received)
    assert second - first >= 0.3


def test_pauses_grow_to_a_limit_and_jitter_only_shortens_them() -> None:
    error = ModelError("x", code="overloaded")
    clock = Clock()
    trail = Trail(clock.retry(attempts=9, most=5.0))
    pauses = [trail.note_failure(error, has_streamed=False) for _ in range(5)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0]
    jittered = Trail(clock.retry(random=lambda: 1.0)).note_failure(error, has_streamed=False)
    assert jittered == 0.375
    assert (
        Trail(clock.retry()).note_failure(Final("x", code="overloaded"), has_streamed=False) is None
    )


async def test_a_wait_can_be_cancelled() -> None:
    with Server(says({}, 503, retry_after="30")) as server:
        task = asyncio.ensure_future(weft.run(bot(server), "hi"))
        assert await asyncio.to_thread(server.wait_for_request)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_error_in_the_middle_of_a_stream_is_told_with_its_code() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "o"}}
    told = [*events("anthropic")[:1], f"event: error\ndata: {json.dumps(error)}\n\n".encode()]
    clock = Clock()
    with Server(streams(told), streams(events("anthropic"))) as server:
        model = Anthropic("x", base_url=server.url, api_key="k", retries=clock.retry())
        result = await weft.run(Agent("bot", model=model), "hi", config=RunConfig(stream=True))
    assert result.text == "Hello there"
    assert attempts(result.events[-1])[0]["outcome"] == "overloaded"
