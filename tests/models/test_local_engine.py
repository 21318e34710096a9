"""What is predicted is what the engine reports, and official clients get what they expect."""

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest

import weft
from tests.cli.run import weft as command
from tests.models.local_weights import fetched, overheard
from tests.support.build import calls, returns, user
from tests.support.late import late
from weft import Agent, Event, Runner, Session
from weft.compiler.caching import EVICTED
from weft.models import Anthropic, Model, OpenAI
from weft.models.local import LocalModel, LocalServer, serve
from weft.models.local import engine as local_engine
from weft.values import JsonObject

if TYPE_CHECKING:
    import anthropic
    import openai
else:
    anthropic, openai = late("anthropic"), late("openai")

WINDOW = 768
OTHER = 512
"""A window for an engine in which nothing was said yet."""
SMALL = 256
"""A window that is soon full."""
LONG = "Words fill the page. " * 26
GREEDY = {"temperature": 0}
"""The newest client of one vendor has no argument for it."""
SHORT = {"max_output_tokens": 3, "temperature": 0}


def local(window: int = WINDOW, slots: int = 4) -> LocalModel:
    """The model in the box on an engine that no other file uses."""
    fetched()
    return LocalModel("local", window=window, slots=slots)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serve(local()) as running:
        yield running


def get_weather(city: str) -> dict[str, object]:
    """Current weather for a city."""
    return {"sky": "rain", "celsius": 8}


# What is predicted


class Row(NamedTuple):
    """One request: what was predicted, and what the engine reports."""

    predicted: int
    explained: int
    exact: bool
    reported: int
    total: int
    known: int
    miss: JsonObject | None

    @property
    def fresh(self) -> int:
        return self.total - self.reported


def noted(event: Event) -> JsonObject:
    return cast("JsonObject", (event.custom_metadata or {}).get("weft", {}))


def rows(bot: Agent, session: Session) -> list[Row]:
    """Every request of a session, predicted from what the log held before it."""
    found: list[Row] = []
    for index, event in enumerate(session.events):
        if event.usage is None:
            continue
        compiled = weft.compile(bot, session=session.before(index), agent=event.author)
        predicted, usage = compiled.cached, event.usage
        explained = compiled.explain().cached.tokens
        miss = cast("JsonObject | None", noted(event).get("cacheMiss"))
        reported, total = usage.cached_content_token_count or 0, usage.prompt_token_count or 0
        known = cast("int", noted(event)["known"])
        found.append(
            Row(predicted.cached, explained, predicted.exact, reported, total, known, miss)
        )
    return found


async def ran(bot: Agent, *messages: str, **state: list[str]) -> list[Row]:
    """The rows of a session with these messages; each is predicted before it is sent, too."""
    runner = Runner(bot)
    session: Session | None = None
    before: list[int] = []
    for turn, message in enumerate(messages):
        now = {key: values[turn] for key, values in state.items()}
        at = len(session.events) if session is not None else 0
        compiled = weft.compile(bot, session=session, message=message, state=now or None)
        before.append(compiled.cached.cached)
        _ = [e async for e in runner.run(session_id="s", message=message, state=now or None)]
        session = await runner.session(session_id="s")
        first = next(event for event in session.events[at:] if event.usage is not None)
        assert first.usage is not None
        assert first.error_code is None
        if first.author == bot.name:
            assert before[-1] == first.usage.cached_content_token_count, message
    assert session is not None
    return rows(bot, session)


def require_predicted(found: list[Row]) -> None:
    """Each prediction is what the engine reports, to the token, and nothing was missed."""
    assert [row.predicted for row in found] == [row.reported for row in found]
    assert [row.explained for row in found] == [row.reported for row in found]
    assert [row.miss for row in found] == [None] * len(found)


async def test_ten_turns_are_predicted_and_only_what_is_new_is_read() -> None:
    bot = Agent("counter", model=local(), instruction="You count.", generate_config=SHORT)
    found = await ran(bot, *(f"Say {number}." for number in range(10)))
    require_predicted(found)
    assert [row.exact for row in found] == [False] + [True] * 9
    assert [row.reported for row in found[1:]] == [row.known for row in found[:-1]]
    assert len({row.fresh for row in found[1:]}) == 1


async def test_a_variable_that_changes_every_turn_costs_only_the_tail() -> None:
    bot = Agent(
        "clock",
        model=local(),
        instruction="You tell jokes, and you are kind.\nIt is {time}.",
        generate_config=SHORT,
    )
    times = [f"{hour} o'clock" for hour in range(10)]
    found = await ran(bot, *(f"Say {number}." for number in range(10)), time=times)
    require_predicted(found)
    assert [row.exact for row in found] == [False] + [True] * 9
    assert len({row.fresh for row in found[2:]}) == 1
    assert found[-1].fresh < found[-1].total // 2


async def test_calls_and_results_in_the_history_are_read_once() -> None:
    bot = Agent(
        "caller", model=local(), instruction="You are kind.", tools=[get_weather],
        generate_config={"max_output_tokens": 30},
    )  # fmt: skip
    found = await ran(bot, "Will it rain in Oslo?", "Thanks.")
    assert len(found) > 2
    require_predicted(found)
    assert [row.exact for row in found] == [False] + [True] * (len(found) - 1)


async def test_after_a_transfer_each_agent_goes_on_where_it_was() -> None:
    model = local(OTHER)
    booker = Agent(
        "booker", model=model, description="Books flights.", instruction="You book flights.",
        generate_config={"max_output_tokens": 24}, disallow_transfer_to_parent=True,
    )  # fmt: skip
    desk = Agent(
        "desk", model=model, instruction="You hand over.", sub_agents=[booker],
        generate_config={"max_output_tokens": 24, "tool_choice": "required"},
    )  # fmt: skip
    found = await ran(desk, "Hand me over to the booker.", "To Oslo.")
    assert len(found) == 4
    require_predicted(found)
    assert [row.exact for row in found] == [False, False, True, True]


async def test_two_sessions_of_an_agent_stand_in_two_slots() -> None:
    bot = Agent(
        "twin", model=local(), instruction="You are kind to all, day and night.",
        generate_config=SHORT,
    )  # fmt: skip
    runner = Runner(bot)
    for number in range(3):
        for name in ("one", "two"):
            message = f"{name} {number}."
            _ = [e async for e in runner.run(session_id=name, message=message)]
    for name in ("one", "two"):
        found = rows(bot, await runner.session(session_id=name))
        assert [row.predicted for row in found[1:]] == [row.reported for row in found[1:]]
        assert [row.miss for row in found] == [None] * 3
        assert all(row.exact for row in found[1:])


async def test_what_another_conversation_cut_off_is_a_miss_with_somebody_to_blame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One slot, and no room beside it: what the second session is told ends the first."""
    monkeypatch.setattr(local_engine, "_CACHE_MEGABYTES", 0)
    bot = Agent(
        "solo", model=local(OTHER, slots=1), instruction="You are kind to all, day and night.",
        generate_config=SHORT,
    )  # fmt: skip
    runner = Runner(bot)
    for name in ("one", "two", "one", "one"):
        _ = [e async for e in runner.run(session_id=name, message=f"Hi from {name}.")]
    first, cut, last = rows(bot, await runner.session(session_id="one"))
    assert first.miss is None
    assert 0 < cut.reported < first.known
    assert cut.miss == {
        "tokens": first.known - cut.reported,
        "predicted": first.known,
        "read": cut.reported,
        "blame": EVICTED,
    }
    assert last.miss is None
    assert last.predicted == last.reported


AGENT = """
from weft import Agent

clock = Agent("clock", model="local", instruction="Be kind.\\nIt is {time}.",
              generate_config={"max_output_tokens": 3})
"""


async def test_the_command_explains_a_stored_step_to_the_token(tmp_path: Path) -> None:
    (tmp_path / "clocks.py").write_text(AGENT)
    bot = Agent(
        "clock", model=local(), instruction="Be kind.\nIt is {time}.", generate_config=SHORT
    )
    async with Runner(bot, store=f"sqlite:///{tmp_path}/weft.db") as runner:
        for number in range(3):
            state = {"time": f"{number} o'clock"}
            _ = [e async for e in runner.run(session_id="s", message="Hi.", state=state)]
        found = rows(bot, await runner.session(session_id="s"))
    stored = ("--store", "sqlite:///weft.db", "--session", "s", "--step", "3", "--json")
    told = await asyncio.to_thread(
        command, tmp_path, "explain", "clocks:clock", *stored, WEFT_HOME=str(fetched().parents[1])
    )
    assert told.returncode == 0, told.stderr
    cached = json.loads(told.stdout)["cached"]
    assert (cached["tokens"], cached["exact"]) == (found[2].reported, True)
    without = await asyncio.to_thread(
        command, tmp_path, "explain", "clocks:clock", *stored[:-1], WEFT_HOME=str(tmp_path)
    )
    assert "cached   about" in without.stdout


# The official clients


HISTORY: list[JsonObject] = [
    {"role": "user", "content": "Rain in Oslo?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
]
FRUIT = {
    "type": "object",
    "properties": {"fruit": {"type": "string", "maxLength": 8}},
    "required": ["fruit"],
    "additionalProperties": False,
}

CHOICE = {**FRUIT, "properties": {"fruit": {"type": "string", "enum": ["apple", "plum"]}}}


async def test_openai_chat_is_answered_and_its_usage_adds_up(client: "openai.AsyncOpenAI") -> None:
    turns: list[JsonObject] = [{"role": "user", "content": "Name a red fruit."}]
    known = 0
    for _ in range(2):
        told = await client.chat.completions.create(
            model="local",
            messages=turns,  # type: ignore[arg-type]
            max_tokens=4,
            temperature=0,
        )
        usage = told.usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert (usage.prompt_tokens_details.cached_tokens or 0) >= known
        said = told.choices[0].message.content
        assert said
        known = usage.total_tokens - 1
        turns += [{"role": "assistant", "content": said}, {"role": "user", "content": "More."}]


async def test_openai_takes_tools_in_the_history_and_streams(client: "openai.AsyncOpenAI") -> None:
    stream = await client.chat.completions.create(
        model="local",
        messages=HISTORY,  # type: ignore[arg-type]
        max_tokens=4,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4


async def test_openai_gets_what_its_schema_says(client: "openai.AsyncOpenAI") -> None:
    told = await client.chat.completions.create(
        model="local",
        messages=[{"role": "user", "content": "Name a red fruit."}],
        response_format={"type": "json_schema", "json_schema": {"name": "f", "schema": FRUIT}},
        max_tokens=24,
        temperature=0,
    )
    assert set(json.loads(told.choices[0].message.content or "")) == {"fruit"}


async def test_anthropic_takes_tools_in_the_history(claude: "anthropic.AsyncAnthropic") -> None:
    told = await claude.messages.create(
        model="local",
        max_tokens=4,
        extra_body=GREEDY,
        messages=[
            {"role": "user", "content": "Rain in Oslo?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {
                        "type": "tool_use",
                        "id": "c1",
                        "name": "get_weather",
                        "input": {"city": "Oslo"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}],
            },
        ],
    )
    assert told.stop_reason == "max_tokens"
    assert told.usage.output_tokens == 4


async def test_anthropic_streams_and_counts_what_was_kept_apart(
    claude: "anthropic.AsyncAnthropic",
) -> None:
    told: list[anthropic.types.Message] = []
    for _ in range(2):
        async with claude.messages.stream(
            model="local",
            max_tokens=3,
            extra_body=GREEDY,
            messages=[{"role": "user", "content": "Count to ten."}],
        ) as stream:
            assert "".join([text async for text in stream.text_stream])
            told.append(await stream.get_final_message())
    first, second = (message.usage for message in told)
    assert second.cache_read_input_tokens
    assert second.input_tokens + second.cache_read_input_tokens == first.input_tokens + (
        first.cache_read_input_tokens or 0
    )


async def test_both_are_told_of_an_overflow(
    client: "openai.AsyncOpenAI", claude: "anthropic.AsyncAnthropic"
) -> None:
    much = "word " * (WINDOW + 50)
    with pytest.raises(openai.BadRequestError, match="context size"):
        await client.chat.completions.create(
            model="local", messages=[{"role": "user", "content": much}]
        )
    with pytest.raises(anthropic.BadRequestError, match="context size"):
        await claude.messages.create(
            model="local", max_tokens=4, messages=[{"role": "user", "content": much}]
        )


async def test_closed_streams_free_their_slots_at_once(
    client: "openai.AsyncOpenAI", claude: "anthropic.AsyncAnthropic"
) -> None:
    """Four answers that would take a minute fill the engine; when nobody listens, they end."""

    async def greeted() -> float:
        """How long all threads of this process worked until it had greeted."""
        begun = time.process_time()
        told = await claude.messages.create(
            model="local", max_tokens=2, messages=[{"role": "user", "content": "Hi."}]
        )
        assert told.usage.output_tokens
        return time.process_time() - begun

    alone = await greeted()
    count = "Count from one to one hundred in words."
    streams = [
        await client.chat.completions.create(
            model="local",
            messages=[{"role": "user", "content": count}],
            max_tokens=500,
            temperature=0,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        for _ in range(4)
    ]
    for stream in streams:
        await anext(aiter(stream))
        await stream.close()
    assert await greeted() < 20 * alone + 1


async def test_four_clients_are_answered_side_by_side(
    client: "openai.AsyncOpenAI", claude: "anthropic.AsyncAnthropic"
) -> None:
    async def chat(name: str) -> str | None:
        told = await client.chat.completions.create(
            model="local",
            messages=[{"role": "user", "content": f"Greet {name}."}],
            max_tokens=3,
            temperature=0,
        )
        return told.choices[0].message.content

    async def message(name: str) -> str:
        told = await claude.messages.create(
            model="local",
            max_tokens=3,
            extra_body=GREEDY,
            messages=[{"role": "user", "content": f"Greet {name}."}],
        )
        return cast("anthropic.types.TextBlock", told.content[0]).text

    assert all(await asyncio.gather(chat("Ann"), message("Bob"), chat("Eve"), message("Max")))


# Whole agents over HTTP


def remotes(server: LocalServer) -> list[Model]:
    """Our own models in all the dialects the engine speaks."""
    return [
        OpenAI("local", api="chat", base_url=server.base_url, api_key=server.api_key),
        OpenAI("local", base_url=server.base_url, api_key=server.api_key),
        Anthropic("local", base_url=server.url, api_key=server.api_key),
    ]


@pytest.mark.parametrize("which", [0, 1, 2], ids=["chat", "responses", "messages"])
async def test_an_agent_runs_over_http_streamed_and_goes_on(
    server: LocalServer, which: int
) -> None:
    model = remotes(server)[which]
    bot = Agent("remote", model=model, instruction="You are kind.", generate_config=SHORT)
    runner = Runner(bot)
    config = weft.RunConfig(stream=True)
    events = [e async for e in runner.run(session_id="s", message="Hi.", config=config)]
    assert any(event.partial for event in events)
    assert "".join(event.text for event in events if event.partial) == events[-1].text
    again = [e async for e in runner.run(session_id="s", message="More.")][-1]
    assert again.error_code is None
    first, second = events[-1].usage, again.usage
    assert first is not None
    assert second is not None
    assert (second.cached_content_token_count or 0) >= (first.prompt_token_count or 0)
    assert second.total_token_count == (second.prompt_token_count or 0) + (
        second.candidates_token_count or 0
    )


async def test_an_agent_over_http_keeps_to_its_schema(server: LocalServer) -> None:
    bot = Agent(
        "fruit", model=remotes(server)[0], output_schema=CHOICE, instruction="Name one.",
        generate_config={"max_output_tokens": 24, "temperature": 0},
    )  # fmt: skip
    result = await weft.run(bot, "A red fruit.")
    assert set(json.loads(result.text)) == {"fruit"}


async def test_an_agent_over_http_has_calls_in_its_history(server: LocalServer) -> None:
    """What the model in the box began is gone on with over HTTP, in another dialect."""
    for model in (remotes(server)[0], remotes(server)[2]):
        bot = Agent("remote", model=model, tools=[get_weather], generate_config=SHORT)
        session = Session("s", events=_called())
        result = await weft.run(bot, "Thanks.", session=session)
        assert [event.error_code for event in result.events] == [None] * len(result.events)


def _called() -> list[Event]:
    return [
        user("Rain in Oslo?"),
        calls("remote", "get_weather", {"city": "Oslo"}, "c1"),
        returns("remote", "get_weather", {"sky": "rain"}, "c1"),
    ]


# Too long, and gone


async def overflown(model: Model) -> list[Event]:
    """A session that outgrows the window, and goes on."""
    bot = Agent("talker", model=model, instruction="You are kind.", generate_config=SHORT)
    runner = Runner(bot)
    last: list[Event] = []
    for message in (f"One. {LONG}", f"Two. {LONG}", "Bye."):
        last.append([e async for e in runner.run(session_id="s", message=message)][-1])
    return last


@pytest.mark.parametrize("which", ["local", "chat", "responses", "messages"])
async def test_a_session_that_outgrows_the_window_goes_on(which: str) -> None:
    model: Model = local(SMALL, slots=1)
    with serve(cast("LocalModel", model)) as server:
        if which != "local":
            model = remotes(server)[["chat", "responses", "messages"].index(which)]
        events = await overflown(model)
    assert [event.error_code for event in events] == [None] * 3
    assert all(event.text for event in events)
    assert "within" not in noted(events[0])
    assert 0 < cast("int", noted(events[-1])["within"]) <= SMALL
    read = [event.usage.prompt_token_count or 0 for event in events if event.usage is not None]
    assert len(read) == 3
    assert max(read) < SMALL


async def test_a_cancelled_run_stops_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local()
    bot = Agent("counter", model=model, generate_config={"max_output_tokens": 400})
    runner = Runner(bot)

    async def talk() -> None:
        _ = [e async for e in runner.run(session_id="s", message="Count to one hundred.")]

    _, engine = model.start()
    heard = overheard(engine, monkeypatch)
    task = asyncio.create_task(talk())
    while not heard:
        await asyncio.sleep(0.01)
        assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while engine.busy:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert len(heard) < 300
    after = [e async for e in runner.run(session_id="s", message="Stop.", config=_brief())]
    assert after[-1].error_code is None


def _brief() -> weft.RunConfig:
    return weft.RunConfig(generate_config=cast("JsonObject", SHORT))


def _say() -> str:
    """One answer, in whatever process this is."""
    bot = Agent("bot", model=local(SMALL, slots=1), generate_config=SHORT)
    result = weft.run_sync(bot, "Hi.")
    return result.events[-1].error_message or result.text


def test_another_process_has_an_engine_of_its_own() -> None:
    here = _say()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(_say).get(600) == here


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_of_a_process_with_an_engine_says_so_and_does_not_hang() -> None:
    here = _say()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            os.write(writer, _say().encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
            raise
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        assert b"forked" in told.read()
    assert os.waitpid(child, 0)[1] == 0
    assert _say() == here
