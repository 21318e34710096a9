"""Answers in a form that the client asks for: OpenAI's own client against served agents."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic
import pytest

from tests.server.live import Live, openai_client, serving
from tests.support.late import late
from weft import (
    Agent,
    CustomAgent,
    Event,
    Fallback,
    Loop,
    Map,
    Parallel,
    Part,
    Route,
    RunContext,
    Runner,
    Step,
    race,
    timeout,
    tool,
)  # fmt: skip
from weft.declare import Node
from weft.server import app
from weft.stores import open_store
from weft.testing import ScriptedModel, call, chunks, usage
from weft.turns import Worker, open_turns

if TYPE_CHECKING:
    import openai
else:
    openai = late("openai")


class Trip(pydantic.BaseModel):
    """Where to, and how long."""

    city: str
    days: int


OSLO = '{"city":"Oslo","days":3}'
TRIP = {"city": "Oslo", "days": 3}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "name": "Trip", "schema": SCHEMA, "strict": True}
CHAT_FORMAT = {
    "type": "json_schema",
    "json_schema": {key: value for key, value in FORMAT.items() if key != "type"},
}


@contextmanager
def client_of(**programs: Node) -> "Iterator[openai.OpenAI]":
    runners = [Runner(node, app_name=name) for name, node in programs.items()]
    with serving(app(*runners)) as live, openai_client(live) as client:
        yield client


def ask(client: "openai.OpenAI", how: str, model: str, **options: object) -> str:
    """The text of an answer in the form, however it is asked for."""
    if how == "chat":
        got = client.chat.completions.parse(
            model=model,
            messages=[{"role": "user", "content": "Where?"}],
            response_format=Trip,
            **options,  # type: ignore[arg-type]
        )
        assert isinstance(got.choices[0].message.parsed, Trip)
        return got.choices[0].message.content or ""
    if how == "chat, streamed":
        with client.chat.completions.stream(
            model=model,
            messages=[{"role": "user", "content": "Where?"}],
            response_format=Trip,
            **options,  # type: ignore[arg-type]
        ) as stream:
            stream.until_done()
            message = stream.get_final_completion().choices[0].message
            assert isinstance(message.parsed, Trip)
            return message.content or ""
    if how == "response":
        response = client.responses.parse(model=model, input="Where?", text_format=Trip, **options)  # type: ignore[arg-type]
    else:
        with client.responses.stream(
            model=model,
            input="Where?",
            text_format=Trip,
            **options,  # type: ignore[arg-type]
        ) as events:
            events.until_done()
            response = events.get_final_response()
    assert isinstance(response.output_parsed, Trip)
    assert client.responses.retrieve(response.id).output_text == response.output_text
    return response.output_text


WAYS = ("chat", "chat, streamed", "response", "response, streamed")


# --- the law: whoever gives the answer gives it in the form, or nothing runs


def agent(name: str, *script: object, **options: object) -> Agent:
    model = ScriptedModel([*script] or [f"Words of {name}."] * 8)  # type: ignore[list-item]
    return Agent(name, model=model, **options)  # type: ignore[arg-type]


def answerer(name: str = "writer", **options: object) -> Agent:
    return agent(name, *[OSLO] * 8, **options)


@tool
def look_up(q: str) -> str:
    """Look something up."""
    return f"found {q}"


class Decides(CustomAgent):
    """Code that speaks for itself."""

    async def run(self, ctx: RunContext) -> AsyncGenerator[Event, None]:
        """Say something."""
        yield ctx.say("I decide.")


def trees() -> dict[str, Node]:
    """Programs whose answer comes from an agent that can be asked for a form."""
    talks = [[Part(text="Let me see."), call("look_up", q="x")], OSLO]
    fails = agent("fails", *[RuntimeError("no")] * 8)
    kinds = Step(lambda state: {"kind": "b"}, name="decide", writes=("kind",))
    return {
        "agent": answerer(),
        "with_tools": agent("talker", *talks * 4, tools=[look_up]),
        "mends": Agent(
            "mends",
            model=ScriptedModel(
                ["Oslo, I think.", '{"city":"Oslo"}', OSLO], name="gpt-4", dialect="openai-chat"
            ),
        ),
        "router": agent(
            "router",
            *[call("transfer_to_agent", agent_name="booker")] * 4,
            sub_agents=[answerer("booker"), answerer("other")],
        ),
        "calls_agent": agent(
            "caller", *[call("expert", request="?"), OSLO] * 4, tools=[agent("expert")]
        ),
        "sequence": agent("first").writes("notes") >> answerer("last"),
        "step_last": answerer("writes") >> Step(lambda state: {"seen": 1}, name="note"),
        "nested": agent("n1") >> (Parallel(agent("n2"), agent("n3")) >> answerer("n4")),
        "route": kinds
        >> Route("kind").eq("a", agent("ra")).eq("b", answerer("rb")).otherwise(agent("rc")),
        "loop": Loop(agent("drafts") >> answerer("judges"), max=2),
        "fallback": Fallback(fails, answerer("second")),
        "race": race(answerer("fast")),
        "timeout": timeout(answerer("timely"), 60),
        "typed": answerer("typed").returns(Trip),
    }


def refused() -> dict[str, Node]:
    """Programs that nobody can ask for a form, with what they are told."""
    items = Step(lambda state: {"xs": [1]}, name="xs", writes=("xs",))
    return {
        "several agents answer at once": Parallel(agent("pa"), agent("pb")),
        "answers once for each element": items >> Map("xs", agent("each"), into="ys"),
        "decides what it answers": Decides("decides"),
        "declares another form": agent("other", *["[]"] * 8).returns(list[str]),
    }


@pytest.mark.parametrize("how", WAYS)
def test_whoever_answers_answers_in_the_form(how: str) -> None:
    programs = trees()
    with client_of(**programs) as client:
        for name in programs:
            assert json.loads(ask(client, how, name)) == TRIP, name


@pytest.mark.parametrize("how", WAYS)
def test_what_cannot_be_asked_for_a_form_is_refused_before_anything_runs(how: str) -> None:
    programs = refused()
    with client_of(**{f"p{at}": node for at, node in enumerate(programs.values())}) as client:
        for at, words in enumerate(programs):
            with pytest.raises(openai.UnprocessableEntityError, match=words):
                ask(client, how, f"p{at}")
            # the same program answers in its own words
            client.responses.create(model=f"p{at}", input="Where?")


MODELS = (
    ("gemini", "gemini-2.5-flash"),
    ("openai-chat", "gpt-4"),
    ("openai-chat", "llama3"),
    ("openai-responses", "gpt-5"),
    ("anthropic", "claude-3-opus"),
    ("anthropic", "claude-sonnet-4-5"),
)


@pytest.mark.parametrize(("dialect", "name"), MODELS)
@pytest.mark.parametrize("how", WAYS)
def test_every_model_is_asked_in_its_own_way(dialect: str, name: str, how: str) -> None:
    model = ScriptedModel([OSLO], name=name, dialect=dialect)
    with client_of(bot=Agent("bot", model=model, tools=[look_up])) as client:
        assert json.loads(ask(client, how, "bot")) == TRIP
    assert "days" in json.dumps(model.wires[0])


def test_any_object(tmp_path: Path) -> None:
    with client_of(bot=agent("bot", "Hm.", '{"a": [1]}', "[]", '{"b": 2}')) as client:
        chat = client.chat.completions.create(
            model="bot",
            messages=[{"role": "user", "content": "JSON, please."}],
            response_format={"type": "json_object"},
        )
        assert chat.choices[0].message.content == '{"a": [1]}'
        response = client.responses.create(
            model="bot", input="JSON", text={"format": {"type": "json_object"}}
        )
        assert response.output_text == '{"b": 2}'
        assert response.text is not None
        assert response.text.to_dict() == {"format": {"type": "json_object"}}
        again = client.responses.retrieve(response.id)
        assert (again.output_text, again.text) == (response.output_text, response.text)


def test_a_form_comes_in_pieces_where_its_provider_keeps_to_it() -> None:
    pieces = ("{", '"city":"Os', 'lo","days', '":3}')
    with client_of(bot=agent("bot", chunks(*pieces), chunks(*pieces))) as client:
        stream = client.chat.completions.create(
            model="bot",
            messages=[{"role": "user", "content": "Where?"}],
            response_format=CHAT_FORMAT,  # type: ignore[arg-type]
            stream=True,
        )
        deltas = [chunk.choices[0].delta.content for chunk in stream]
        assert [delta for delta in deltas if delta] == [*pieces]
        events = client.responses.create(
            model="bot",
            input="Where?",
            text={"format": FORMAT},  # type: ignore[typeddict-item]
            stream=True,
        )
        told = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert told == [*pieces]


def test_what_was_streamed_and_does_not_fit_is_an_error() -> None:
    with client_of(bot=agent("bot", '{"city":"Oslo"}', OSLO)) as client:
        stream = client.chat.completions.create(
            model="bot",
            messages=[{"role": "user", "content": "Where?"}],
            response_format=CHAT_FORMAT,  # type: ignore[arg-type]
            stream=True,
        )
        with pytest.raises(openai.APIError, match="first answer did not fit the form"):
            list(stream)


def test_an_answer_that_never_fits_is_an_error() -> None:
    with client_of(bot=agent("bot", *["Oslo."] * 8)) as client:
        for how in ("chat", "response"):
            with pytest.raises(openai.InternalServerError, match="not JSON"):
                ask(client, how, "bot")


def test_tools_of_the_client_and_a_form() -> None:
    add = {"name": "add", "parameters": {"type": "object", "properties": {}}, "strict": True}
    model = ScriptedModel([[Part(text="One moment."), call("add")], OSLO])
    with client_of(bot=Agent("bot", model=model)) as client:
        first = client.responses.create(
            model="bot",
            input="Where?",
            tools=[{"type": "function", **add}],  # type: ignore[list-item]
            text={"format": FORMAT},  # type: ignore[typeddict-item]
        )
        (made,) = first.output
        assert made.type == "function_call"
        then = client.responses.parse(
            model="bot",
            input=[{"type": "function_call_output", "call_id": made.call_id, "output": "5"}],
            previous_response_id=first.id,
            tools=[{"type": "function", **add}],  # type: ignore[list-item]
            text_format=Trip,
        )
        assert then.output_parsed == Trip(city="Oslo", days=3)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_question_to_a_person_is_a_refusal_and_not_json(streamed: bool) -> None:
    @tool(confirm=True)
    def book(city: str) -> str:
        """Book."""
        return "booked"

    model = ScriptedModel([call("book", city="Oslo"), OSLO] * 2)
    with client_of(bot=Agent("bot", model=model, tools=[book])) as client:
        messages: list[object] = [{"role": "user", "content": "Book."}]
        if streamed:
            with client.chat.completions.stream(
                model="bot",
                messages=messages,  # type: ignore[arg-type]
                response_format=Trip,
            ) as stream:
                stream.until_done()
                asked = stream.get_final_completion().choices[0].message
        else:
            asked = (
                client.chat.completions.parse(
                    model="bot",
                    messages=messages,  # type: ignore[arg-type]
                    response_format=Trip,
                )
                .choices[0]
                .message
            )
        assert asked.parsed is None
        assert not asked.content
        assert "Waiting for approval: `book`" in (asked.refusal or "")
        messages += [asked.model_dump(), {"role": "user", "content": "approve"}]
        got = client.chat.completions.parse(
            model="bot",
            messages=messages,  # type: ignore[arg-type]
            response_format=Trip,
        )
        assert got.choices[0].message.parsed == Trip(city="Oslo", days=3)
        response = client.responses.create(
            model="bot",
            input="Book.",
            text={"format": FORMAT},  # type: ignore[typeddict-item]
            stream=streamed,
        )
        if streamed:
            kinds = [(event.type, event) for event in response]
            assert [kind for kind, _ in kinds] == [
                "response.created", "response.in_progress", "response.output_item.added",
                "response.content_part.added", "response.refusal.delta", "response.refusal.done",
                "response.content_part.done", "response.output_item.done", "response.completed",
            ]  # fmt: skip
            response = kinds[-1][1].response
        assert client.responses.retrieve(response.id).output == response.output
        then = client.responses.parse(
            model="bot", input="approve", previous_response_id=response.id, text_format=Trip
        )
        assert then.output_parsed == Trip(city="Oslo", days=3)


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ({"schema": {"type": "array", "items": {"type": "string"}}}, "one of an object"),
        ({"schema": {"type": "objekt"}}, "not a JSON Schema"),
        ({"schema": {"type": "object", "properties": {"a": {"$ref": "http://x.test/y"}}}}, "not a"),
        ({"schema": {"type": "object", "description": "x" * 300_000}}, "more than"),
        ({"schema": "object"}, "there is no JSON Schema"),
        ({"schema": None}, "there is no JSON Schema"),
        ({"name": "a b"}, "an odd one"),
        ({"name": 5}, "an odd one"),
        ({"strict": "yes"}, "strict"),
        ({"grammar": "x"}, "`grammar` is not known"),
    ],
)
def test_a_form_that_cannot_be_meant_is_refused(inner: dict[str, object], words: str) -> None:
    with client_of(bot=agent("bot", "Hello.")) as client:
        form = {**CHAT_FORMAT, "json_schema": {**CHAT_FORMAT["json_schema"], **inner}}  # type: ignore[dict-item]
        with pytest.raises(openai.UnprocessableEntityError, match=words) as told:
            client.chat.completions.create(
                model="bot",
                messages=[{"role": "user", "content": "Where?"}],
                response_format=form,  # type: ignore[call-overload]
            )
        assert told.value.param.startswith("response_format")
        with pytest.raises(openai.UnprocessableEntityError, match=words) as told:
            client.responses.create(model="bot", input="x", text={"format": {**FORMAT, **inner}})  # type: ignore[typeddict-item]
        assert told.value.param.startswith("text.format")
        # nothing was made for them
        sessions = client.get("../api/apps/bot/sessions", cast_to=object)
        assert sessions == {"sessions": [], "total": 0}


# --- workers, and tokens


@contextmanager
def working(address: str, *script: object) -> Iterator[Live]:
    """A server over a queue, and a worker for it."""

    def runner() -> Runner:
        return Runner(agent("bot", *script), app_name="bot", store=open_store(address))

    loop = asyncio.new_event_loop()
    worker = Worker(runner(), slots=2)
    ready = threading.Event()

    def work() -> None:
        loop.run_until_complete(worker.run(ready=lambda _: ready.set()))

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(60)
    served = runner()
    try:
        with serving(app(served, turns=open_turns(served.store))) as live:
            yield live
    finally:
        loop.call_soon_threadsafe(worker.stop)
        thread.join(60)
        loop.close()


@pytest.mark.parametrize("how", WAYS)
def test_a_worker_gives_the_form(tmp_path: Path, how: str) -> None:
    with (
        working(f"sqlite:///{tmp_path}/weft.db", "Oslo.", OSLO) as live,
        openai_client(live) as client,
    ):
        assert json.loads(ask(client, how, "bot")) == TRIP


def test_tokens_are_counted_where_a_model_reports_none(tmp_path: Path) -> None:
    script = ["Hello there.", "Hello there.", "Hello there.", usage("Hi.", prompt=7, output=2)]
    asked = "How is the weather in Oslo today? " * 20
    with (
        working(f"sqlite:///{tmp_path}/weft.db", *script) as queued,
        serving(app(agent("bot", *script))) as live,
    ):
        for one in (live, queued):
            with openai_client(one) as client:
                chat = client.chat.completions.create(
                    model="bot", messages=[{"role": "user", "content": asked}]
                )
                assert chat.usage is not None
                counts = chat.usage.prompt_tokens, chat.usage.completion_tokens
                assert 100 < counts[0] < 400
                assert 1 < counts[1] < 10
                *_, last = client.chat.completions.create(
                    model="bot",
                    messages=[{"role": "user", "content": asked}],
                    stream=True,
                    stream_options={"include_usage": True},
                )
                assert last.usage is not None
                assert (last.usage.prompt_tokens, last.usage.completion_tokens) == counts
                response = client.responses.create(model="bot", input=asked)
                assert response.usage is not None
                assert (response.usage.input_tokens, response.usage.output_tokens) == counts
                assert client.responses.retrieve(response.id).usage == response.usage
                # what is reported is passed on as it is
                told = client.responses.create(model="bot", input=asked)
                assert told.usage is not None
                assert (told.usage.input_tokens, told.usage.output_tokens) == (7, 2)
