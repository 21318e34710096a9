"""The model in the box answers, calls, reuses what it read, and stops when nobody listens."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

import weft
from tests.models.local_weights import WINDOW, fetched, overheard, small_model
from tests.support.late import late
from weft import Agent, RunConfig, Runner
from weft.errors import DeclarationError, ModelError, UsageError
from weft.ir import ModelResponse
from weft.models import Anthropic, Model, OpenAI
from weft.models.local import LocalModel, LocalServer, serve

if TYPE_CHECKING:
    import anthropic
    import openai
else:
    anthropic, openai = late("anthropic"), late("openai")

SHORT = {"max_output_tokens": 8}


def get_weather(city: str) -> dict[str, object]:
    """Current weather for a city."""
    return {"sky": "rain", "celsius": 8}


def convert_currency(
    amount: float, from_currency: Literal["EUR", "NOK"], to_currency: Literal["EUR", "NOK"]
) -> dict[str, object]:
    """Convert an amount of money to another currency."""
    return {"amount": amount * 11.5, "currency": to_currency}


def agent(model: Model, **given: object) -> Agent:
    settings = {"instruction": "You are kind.", "generate_config": SHORT, **given}
    return Agent("bot", model=model, **settings)  # type: ignore[arg-type]


async def answers(
    model: Model, bot: Agent, question: str, *, stream: bool = False
) -> list[ModelResponse]:
    compiled = weft.compile(bot, message=question)
    return [one async for one in model.generate(compiled.prompt, compiled.wire, stream=stream)]


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return small_model()


@pytest.fixture(scope="module")
def server(model: LocalModel) -> Iterator[LocalServer]:
    with serve(model) as running:
        yield running


async def test_it_answers_and_says_what_that_took(model: LocalModel) -> None:
    (answer,) = await answers(model, agent(model), "What is the capital of France?")
    assert answer.text
    assert answer.finish_reason in ("STOP", "MAX_TOKENS")
    assert answer.usage is not None
    assert answer.usage.prompt_token_count
    assert 0 < (answer.usage.candidates_token_count or 0) <= 8
    prompt, output = answer.usage.prompt_token_count, answer.usage.candidates_token_count
    assert answer.usage.total_token_count == prompt + (output or 0)


async def test_a_stream_adds_up_to_the_whole(model: LocalModel) -> None:
    question = "What is the capital of Italy?"
    *parts, last = await answers(model, agent(model), question, stream=True)
    assert len(parts) > 1
    assert all(part.partial for part in parts)
    assert "".join(part.text for part in parts) == last.text
    (whole,) = await answers(model, agent(model), question)
    assert whole.text == last.text  # greedy: the same question has the same answer


async def test_a_tool_is_called_and_its_result_is_told(model: LocalModel) -> None:
    bot = agent(model, tools=[get_weather, convert_currency], generate_config={})
    runner = Runner(bot)
    events = [e async for e in runner.run(session_id="s", message="Will it rain in Oslo?")]
    calls = [(call.name, call.args) for event in events for call in event.calls]
    assert calls == [("get_weather", {"city": "Oslo"})]
    assert events[-1].text.endswith((".", "!"))
    assert "{" not in events[-1].text
    assert not any(event.error_code for event in events)


async def test_arguments_are_taken_from_what_was_said(model: LocalModel) -> None:
    bot = agent(model, tools=[get_weather, convert_currency], generate_config={})
    (answer,) = await answers(model, bot, "Convert 50 EUR to NOK.")
    assert answer.content is not None
    assert answer.content.parts is not None
    call = answer.content.parts[0].function_call
    assert call is not None
    assert call.name == "convert_currency"
    assert call.args is not None
    assert call.args["amount"] == 50
    assert {call.args["from_currency"], call.args["to_currency"]} == {"EUR", "NOK"}


async def test_what_has_no_tool_is_answered_in_words(model: LocalModel) -> None:
    bot = agent(model, tools=[get_weather])
    (answer,) = await answers(model, bot, "Say hello to Ann.")
    assert answer.text
    assert not answer.text.startswith("{")


async def test_an_output_schema_is_kept_to(model: LocalModel) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "sunny": {"type": "boolean"}},
        "required": ["city", "sunny"],
    }
    bot = agent(model, output_schema=schema, generate_config={"max_output_tokens": 120})
    (answer,) = await answers(model, bot, "It is sunny in Rome.")
    held = json.loads(answer.text)
    assert set(held) == {"city", "sunny"}
    assert isinstance(held["sunny"], bool)


async def test_ten_turns_read_only_what_is_new(model: LocalModel) -> None:
    runner = Runner(agent(model, instruction="You count."))
    known = 0
    for turn in range(10):
        message = f"Say the number {turn}."
        events = [e async for e in runner.run(session_id="ten", message=message)]
        usage = events[-1].usage
        assert usage is not None
        if turn:
            assert usage.cached_content_token_count == known, turn
        # the last token that was said is not in the cache yet: nobody asked what follows it
        known = (usage.prompt_token_count or 0) + (usage.candidates_token_count or 0) - 1


async def test_four_sessions_run_side_by_side(model: LocalModel) -> None:
    runner = Runner(agent(model))

    async def one(name: str) -> str:
        message = f"My name is {name}. What is my name?"
        return [e async for e in runner.run(session_id=name, message=message)][-1].text

    said = await asyncio.gather(*(one(name) for name in ("Ann", "Bob", "Eve", "Max")))
    assert all(said)


async def test_too_long_a_request_is_an_overflow(model: LocalModel) -> None:
    with pytest.raises(ModelError) as caught:
        await answers(model, agent(model), "word " * (WINDOW + 200))
    assert caught.value.code == "context_overflow"
    assert str(WINDOW) in caught.value.hint
    assert caught.value.where == "local/local"


async def test_whoever_stops_listening_stops_the_engine(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, engine = model.start()
    heard = overheard(engine, monkeypatch)
    bot = agent(model, generate_config={"max_output_tokens": 400})
    compiled = weft.compile(bot, message="Count to one hundred.")
    pieces = model.generate(compiled.prompt, compiled.wire, stream=True)
    task = asyncio.ensure_future(anext(pieces))  # type: ignore[arg-type]
    await task
    await pieces.aclose()  # type: ignore[attr-defined]
    while engine.busy:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert 0 < len(heard) < 300


async def test_a_cancelled_run_leaves_the_model_usable(model: LocalModel) -> None:
    _, engine = model.start()
    bot = agent(model, generate_config={"max_output_tokens": 400})
    task = asyncio.create_task(answers(model, bot, "Count to one hundred."))
    while not engine.busy:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (answer,) = await answers(model, agent(model), "What is the capital of France?")
    assert answer.text


async def test_the_official_openai_client_talks_to_the_engine(client: "openai.AsyncOpenAI") -> None:
    told = await client.chat.completions.create(
        model="local",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=8,
        temperature=0,
    )
    assert told.choices[0].message.content
    assert told.usage is not None
    assert told.usage.prompt_tokens > 0


async def test_the_official_openai_client_streams(client: "openai.AsyncOpenAI") -> None:
    stream = await client.chat.completions.create(
        model="local",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=8,
        temperature=0,
        stream=True,
    )
    said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert "".join(said)


async def test_the_official_openai_client_is_told_of_an_overflow(
    client: "openai.AsyncOpenAI",
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(
            model="local", messages=[{"role": "user", "content": "word " * (WINDOW + 200)}]
        )
    assert "context size" in str(caught.value)


async def test_the_official_anthropic_client_talks_to_the_engine(
    claude: "anthropic.AsyncAnthropic",
) -> None:
    told = await claude.messages.create(
        model="local",
        max_tokens=8,
        messages=[{"role": "user", "content": "What is the capital of France?"}],
    )
    assert told.content[0].type == "text"
    assert told.usage.input_tokens + (told.usage.cache_read_input_tokens or 0) > 0


async def test_the_official_anthropic_client_streams(claude: "anthropic.AsyncAnthropic") -> None:
    async with claude.messages.stream(
        model="local", max_tokens=8, messages=[{"role": "user", "content": "Say hello."}]
    ) as stream:
        said = [text async for text in stream.text_stream]
    assert "".join(said)


async def test_turns_through_the_official_clients_are_read_once(
    client: "openai.AsyncOpenAI", claude: "anthropic.AsyncAnthropic"
) -> None:
    turns = [{"role": "user", "content": "Name a red fruit."}]
    known = 0
    for question in ("Name a green fruit.", "Name a blue fruit.", ""):
        told = await client.chat.completions.create(
            model="local",
            messages=turns,
            max_tokens=6,
            temperature=0,  # type: ignore[arg-type]
        )
        assert told.usage is not None
        assert told.usage.prompt_tokens_details is not None
        assert (told.usage.prompt_tokens_details.cached_tokens or 0) >= known
        said = told.choices[0].message.content or ""
        known = told.usage.total_tokens - 1
        turns += [{"role": "assistant", "content": said}, {"role": "user", "content": question}]
    again = await claude.messages.create(
        model="local",
        max_tokens=4,
        messages=turns[:-2],  # type: ignore[arg-type]
    )
    assert (again.usage.cache_read_input_tokens or 0) > 0


async def test_the_official_openai_client_gets_what_its_schema_says(
    client: "openai.AsyncOpenAI",
) -> None:
    schema = {
        "type": "object",
        "properties": {"fruit": {"type": "string", "maxLength": 12}},
        "required": ["fruit"],
        "additionalProperties": False,
    }
    told = await client.chat.completions.create(
        model="local",
        messages=[{"role": "user", "content": "Name a red fruit."}],
        response_format={"type": "json_schema", "json_schema": {"name": "f", "schema": schema}},
        max_tokens=60,
        temperature=0,
    )
    assert set(json.loads(told.choices[0].message.content or "")) == {"fruit"}


async def test_four_requests_over_http_are_answered_side_by_side(
    client: "openai.AsyncOpenAI",
) -> None:
    async def one(name: str) -> str | None:
        told = await client.chat.completions.create(
            model="local",
            messages=[{"role": "user", "content": f"Say hello to {name}."}],
            max_tokens=5,
            temperature=0,
        )
        return told.choices[0].message.content

    assert all(await asyncio.gather(*(one(name) for name in ("Ann", "Bob", "Eve", "Max"))))


async def test_tools_in_the_history_go_through_the_official_client(
    client: "openai.AsyncOpenAI", model: LocalModel
) -> None:
    """The engine's own template cannot spell them: what the local model makes of them can be."""
    from weft.models.local.model import request_for

    bot = agent(model, tools=[get_weather])
    runner = Runner(bot)
    _ = [e async for e in runner.run(session_id="h", message="Will it rain in Oslo?")]
    session = await runner.session(session_id="h")
    wire = weft.compile(bot, session=session, message="Thanks.").wire
    body = request_for(wire, takes_tools=False, limit=4).body
    told = await client.chat.completions.create(
        model="local",
        messages=body["messages"],  # type: ignore[arg-type]
        max_tokens=4,
        temperature=0,
    )
    assert told.usage is not None
    assert told.usage.prompt_tokens_details is not None
    assert (told.usage.prompt_tokens_details.cached_tokens or 0) > 60


async def test_our_own_models_talk_to_the_engine_over_http(server: LocalServer) -> None:
    for remote in (
        OpenAI("local", base_url=server.base_url, api_key=server.api_key),
        Anthropic("local", base_url=server.url, api_key=server.api_key),
    ):
        (answer,) = await answers(remote, agent(remote), "What is the capital of France?")
        assert answer.text
        assert answer.usage is not None
        assert answer.usage.prompt_token_count


async def test_a_key_is_needed_to_talk_to_the_engine(server: LocalServer) -> None:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="wrong") as stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.chat.completions.create(
                model="local", messages=[{"role": "user", "content": "Hi"}]
            )


def test_models_with_one_setup_share_an_engine(model: LocalModel) -> None:
    assert small_model().start()[1] is model.start()[1]


def test_a_file_can_be_given_by_its_path() -> None:
    named = LocalModel(f"local:{fetched()}", window=WINDOW)
    assert named.start()[0].window == 8192


def test_a_window_beyond_the_weights_is_refused() -> None:
    fetched()
    with pytest.raises(DeclarationError, match="8192"):
        LocalModel("local", window=100_000).start()


@pytest.mark.parametrize("name", ["local:", "remote", "local:no-such-weights"])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        LocalModel(name)
    assert "smollm2-135m" in caught.value.hint


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(DeclarationError, match="window"):
        LocalModel("local", window=0)


def test_a_file_that_is_no_weights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    for held in (b"just text", b"GGUF\x03\x00\x00\x00cut", b""):
        path.write_bytes(held)
        with pytest.raises(ModelError, match="not a GGUF file") as caught:
            LocalModel(f"local:{path}").start()
        assert caught.value.code == "bad_request"
    path.unlink()
    with pytest.raises(ModelError, match="no such file"):
        LocalModel(f"local:{path}").start()


def test_weights_that_were_never_fetched_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_HOME", str(tmp_path))
    with pytest.raises(ModelError) as caught:
        LocalModel(fetch=False).start()
    assert caught.value.code == "not_found"
    assert caught.value.hint == "weft model get smollm2-135m"


async def test_without_a_model_the_run_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_HOME", str(tmp_path))
    monkeypatch.delenv("WEFT_MODEL", raising=False)
    runner = Runner(Agent("bot", instruction="Hi."))
    config = RunConfig(model=LocalModel(fetch=False))
    events = [e async for e in runner.run(session_id="s", message="Hi", config=config)]
    assert events[-1].error_code == "not_found"
    assert "weft model get" in (events[-1].error_message or "")


async def test_an_answer_ends_and_does_not_go_round_in_circles(model: LocalModel) -> None:
    bot = Agent("bot", model=model, instruction="Be helpful.")
    (answer,) = await answers(model, bot, "Write a poem about the sea.")
    text = answer.content.text if answer.content is not None else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # a poem may have a refrain, and which lines return depends on the machine's arithmetic
    assert len(set(lines)) >= len(lines) / 3, text
    assert not any(one == two for one, two in pairwise(lines)), text
    assert answer.usage is not None
    assert (answer.usage.candidates_token_count or 0) <= 256


def test_it_says_once_what_it_is_good_for_and_not_in_the_answer(tmp_path: Path) -> None:
    fetched()
    run = [sys.executable, "-m", "weft"]
    subprocess.run([*run, "init", "."], cwd=tmp_path, check=True, capture_output=True)
    # What it says does not matter here, so a few words do.
    program = tmp_path / "desk.py"
    brief = 'Agent(\n    generate_config={"max_output_tokens": 12},\n    name='
    program.write_text(program.read_text("utf-8").replace("Agent(\n    ", brief), "utf-8")
    asked = [*run, "run", "desk.py:root", "Where is order A-17?", "--model", "local"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("for trying the plumbing") == 1
    assert "plumbing" not in done.stdout
    assert done.stdout.strip()


def test_the_first_file_and_the_first_command_of_the_readme_answer(tmp_path: Path) -> None:
    fetched()
    page = (Path(__file__).parents[2] / "README.md").read_text()
    file = re.search(r'```python title="hello.py"\n(.*?)```', page, re.DOTALL)
    command = re.search(r"^\$ weft (run hello\.py:.*)$", page, re.MULTILINE)
    assert file is not None
    assert command is not None
    (tmp_path / "hello.py").write_text(file[1])
    keyless = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    done = subprocess.run(
        [sys.executable, "-m", "weft", *shlex.split(command[1])],
        cwd=tmp_path, env=keyless, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
