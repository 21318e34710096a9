"""A scripted model says what its script says, keeps what it was asked, and is not patient."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.models.wires import EVERY, SCHEMA, lookup, ping, turns_of
from weft import Agent, Compiled, Content, Part, RunConfig, Session
from weft.content import call_part, result_part
from weft.dialects import DIALECTS
from weft.errors import DeclarationError, IllegalRequest, ScriptExhausted
from weft.ir import Prompt
from weft.models import Model, ModelResponse
from weft.models.scripted import Entry
from weft.session import Usage
from weft.testing import (
    ScriptedModel,
    call,
    chunks,
    cut,
    delayed,
    fails_after,
    make_session,
    malformed,
    thought,
    usage,
)


def ask(model: ScriptedModel, message: str = "Hi", *, agent: str = "bot") -> Compiled:
    """The request of an agent that has the model."""
    return weft.compile(Agent(agent, model=model), message=message)


async def tell(model: ScriptedModel, *, stream: bool = False, **more: Any) -> list[ModelResponse]:
    """Everything the model says to one request."""
    compiled = ask(model, **more)
    return [r async for r in model.generate(compiled.prompt, compiled.wire, stream=stream)]


async def told(entry: Entry, *, stream: bool = False) -> list[ModelResponse]:
    """Everything a model says whose script is this entry."""
    return await tell(ScriptedModel([entry]), stream=stream)


def said(*parts: Part) -> ModelResponse:
    return ModelResponse(content=Content(role="model", parts=parts))


def partial(text: str, *, thinks: bool | None = None) -> ModelResponse:
    part = Part(text=text, thought=thinks)
    return ModelResponse(content=Content(role="model", parts=(part,)), partial=True)


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        ("booking", said(Part(text="booking"))),
        (call("get_weather", city="Oslo"), said(call_part("get_weather", {"city": "Oslo"}))),
        ([call("a"), call("b", x=1)], said(call_part("a", {}), call_part("b", {"x": 1}))),
        (("so", call("a")), said(Part(text="so"), call_part("a", {}))),
        ([thought("hm"), "so"], said(Part(text="hm", thought=True), Part(text="so"))),
        ({"n": 1, "s": "ø"}, said(Part(text='{"n":1,"s":"ø"}'))),
        ({}, said(Part(text="{}"))),
        (None, ModelResponse()),
        ("", ModelResponse()),
        ([], ModelResponse()),
        (Part(text="as it is"), said(Part(text="as it is"))),
        (Content((Part("as it is"),)), ModelResponse(content=Content((Part("as it is"),)))),
        (ModelResponse(error_code="SAFETY"), ModelResponse(error_code="SAFETY")),
        (lambda prompt: f"asked as {prompt.agent}", said(Part(text="asked as bot"))),
        (lambda prompt: [call("a")], said(call_part("a", {}))),
        (lambda prompt: lambda prompt: "twice", said(Part(text="twice"))),
        (chunks("He", "llo"), said(Part(text="Hello"))),
        (delayed(0, "late"), said(Part(text="late"))),
    ],
)  # fmt: skip
async def test_an_entry_becomes_one_complete_response(entry: Entry, answer: ModelResponse) -> None:
    assert await told(entry) == [answer]
    assert (await told(entry, stream=True))[-1] == answer


async def test_an_async_callable_is_awaited() -> None:
    async def later(prompt: Prompt) -> str:
        await asyncio.sleep(0)
        return prompt.agent

    assert await told(later) == [said(Part(text="bot"))]


@pytest.mark.parametrize("error", [RuntimeError("503"), TimeoutError, asyncio.CancelledError()])
async def test_an_exception_is_raised(error: Any) -> None:
    for entry in (error, lambda prompt: error, delayed(0, error), cut(error)):
        for stream in (False, True):
            with pytest.raises(error if isinstance(error, type) else type(error)):
                await told(entry, stream=stream)


async def test_text_is_streamed_word_by_word_and_then_whole() -> None:
    text = "Oslo is\ncold  today. "
    *deltas, whole = await told(text, stream=True)
    assert [delta.text for delta in deltas] == ["Oslo", " is", "\ncold", "  today.", " "]
    assert all(delta.partial for delta in deltas)
    assert whole == said(Part(text=text))


async def test_thoughts_are_streamed_too_and_calls_come_with_the_whole() -> None:
    answer = [thought("hm hm", signature="c2ln"), "so", call("a")]
    assert await told(answer, stream=True) == [
        partial("hm", thinks=True),
        partial(" hm", thinks=True),
        partial("so"),
        said(
            Part(text="hm hm", thought=True, thought_signature="c2ln"),
            Part(text="so"),
            call_part("a", {}),
        ),
    ]


async def test_chunks_are_the_deltas_and_joined_otherwise() -> None:
    entry = chunks(thought("h"), thought("m"), "He", "", "llo", call("a"), "!")
    whole = said(Part(text="hm", thought=True), Part(text="Hello"), call_part("a", {}), Part("!"))
    assert await told(entry) == [whole]
    assert await told(entry, stream=True) == [
        partial("h", thinks=True),
        partial("m", thinks=True),
        partial("He"),
        partial(""),
        partial("llo"),
        partial("!"),
        whole,
    ]


@pytest.mark.parametrize(
    "entry", [cut("He llo"), cut(chunks("He", " llo")), cut(lambda p: "He llo")]
)
async def test_what_is_cut_never_completes(entry: Entry) -> None:
    assert await told(entry) == []
    assert await told(entry, stream=True) == [partial("He"), partial(" llo")]


async def test_a_stream_may_fail_on_the_way() -> None:
    model = ScriptedModel([fails_after("He", "llo", error=ConnectionError("gone"))] * 2)
    compiled = ask(model)
    stream = model.generate(compiled.prompt, compiled.wire, stream=True)
    assert await anext(stream) == partial("He")
    assert await anext(stream) == partial("llo")
    with pytest.raises(ConnectionError, match="gone"):
        await anext(stream)
    with pytest.raises(ConnectionError, match="gone"):
        await tell(model)


async def test_usage_is_none_unless_an_entry_asks() -> None:
    [plain] = await told("Hi")
    [counted] = await told(usage(call("a"), prompt=100, output=7, cached=80, thoughts=3))
    assert plain.usage is None
    assert counted.usage == Usage(
        prompt_token_count=100,
        candidates_token_count=7,
        total_token_count=110,
        cached_content_token_count=80,
        thoughts_token_count=3,
    )
    assert counted.content == said(call_part("a", {})).content
    [later] = await told(usage(lambda prompt: "Hi", prompt=1, output=2))
    assert later.usage is not None
    assert later.usage.total_token_count == 3


async def test_a_delay_is_waited_for_and_others_go_on() -> None:
    model = ScriptedModel([delayed(0.3, "slow"), "fast"])
    order: list[str] = []

    async def one() -> None:
        order.append((await tell(model))[0].text)

    await asyncio.gather(one(), one())
    assert order == ["fast", "slow"]


def test_every_keyword_of_a_call_is_an_argument() -> None:
    part = call("open", id=7, name="door", call_id="x", self=1)
    assert part.function_call is not None
    assert part.function_call.args == {"id": 7, "name": "door", "call_id": "x", "self": 1}
    assert part.function_call.id is None


@pytest.mark.parametrize("dialect", EVERY)
async def test_a_malformed_call_can_be_told_apart_and_answered(dialect: str) -> None:
    model = ScriptedModel([malformed("lookup", '{"key": '), "sorry"], dialect=dialect)
    agent = Agent("bot", model=model, tools=[lookup])
    session = make_session(("user", "Hi"))
    compiled = weft.compile(agent, session=session)
    [answer] = [r async for r in model.generate(compiled.prompt, compiled.wire, stream=False)]
    assert answer.content is not None
    [part] = answer.content.parts or ()
    assert part.kind == "call"
    assert part.function_call is not None
    assert part.function_call.args is None
    assert part.part_metadata == {"weft": {"malformed": '{"key": '}}
    session = make_session(
        ("user", "Hi"),
        ("bot", part),
        ("bot", result_part("lookup", {"error": "the arguments are no JSON"})),
    )
    compiled = weft.compile(agent, session=session)
    [answer] = [r async for r in model.generate(compiled.prompt, compiled.wire, stream=False)]
    assert answer.text == "sorry"


async def test_running_out_of_script_shows_the_request() -> None:
    model = ScriptedModel(["one"])
    await tell(model)
    with pytest.raises(ScriptExhausted) as caught:
        await tell(model, message="And\nthen " + "x" * 500)
    assert caught.value.where == "request 2"
    assert "agent `bot` asks once more, and all 1 entries of script are told" in str(caught.value)
    assert "user: And" in caught.value.hint
    assert len(caught.value.hint) < 300
    assert (model.calls, model.remaining) == (2, 0)


async def test_a_script_may_be_keyed_by_agent() -> None:
    model = ScriptedModel({"left": ["l1", "l2"], "right": ["r1"]})
    heard = [(await tell(model, agent=name))[0].text for name in ("left", "right", "left")]
    assert heard == ["l1", "r1", "l2"]
    with pytest.raises(ScriptExhausted, match=r"all 1 entries of script\['right'\] are told"):
        await tell(model, agent="right")
    with pytest.raises(ScriptExhausted, match="nothing for agent `middle`") as caught:
        await tell(model, agent="middle")
    assert caught.value.hint == "it has entries for: left, right"


@pytest.mark.parametrize("dialect", EVERY)
async def test_requests_are_kept_as_they_were_sent(dialect: str) -> None:
    model = ScriptedModel(["Hello", "Bye"], dialect=dialect)
    agent = Agent("bot", model=model, instruction="Be brief.")
    sent: list[str] = []
    session = Session("s")
    for turn in make_session(("user", "Hi"), ("bot", "Hello"), ("user", "Bye")).events:
        session = session.append(turn)
        if turn.author == "user":
            compiled = weft.compile(agent, session=session)
            async for _ in model.generate(compiled.prompt, compiled.wire, stream=False):
                sent.append(str(compiled.wire))
            turns_of(compiled.wire, dialect).append({"role": "planted"})
            compiled.wire["planted"] = 1
            del compiled
    assert [str(wire) for wire in model.wires] == sent
    assert [prompt.agent for prompt in model.prompts] == ["bot", "bot"]
    assert [len(prompt.items) for prompt in model.prompts] == [1, 3]
    assert (model.calls, model.remaining) == (2, 0)
    assert repr(model) == f"ScriptedModel('scripted', {dialect}, 2 asked, 0 remaining)"


async def test_an_illegal_request_is_kept_and_refused_before_an_entry_is_told() -> None:
    model = ScriptedModel(["Hello"])
    compiled = ask(model)
    wire = {**compiled.wire, "contents": []}
    with pytest.raises(IllegalRequest, match="no turns"):
        await anext(model.generate(compiled.prompt, wire, stream=False))
    assert (model.calls, model.remaining) == (1, 1)
    assert model.wires == [wire]


@pytest.mark.parametrize("dialect", EVERY)
def test_an_agent_is_compiled_for_the_models_name_and_dialect(dialect: str) -> None:
    model = ScriptedModel([], name="my-model", dialect=dialect)
    assert isinstance(model, Model)
    agent = Agent("bot", model=model, tools=[lookup, ping], output_schema=SCHEMA)
    compiled = weft.compile(agent, message="Hi")
    assert compiled.dialect == dialect
    assert compiled.prompt.model == "my-model"
    assert compiled.wire == compiled.lower(dialect)
    assert compiled.prompt.output is not None
    assert compiled.prompt.output.how == "native"
    assert compiled.tools == ["lookup", "ping"]
    assert compiled.diagnostics == ()
    other = weft.compile(agent, message="Hi", config=RunConfig(model="claude-sonnet-4-5"))
    assert other.dialect == "anthropic"


@pytest.mark.parametrize(
    ("script", "where", "message"),
    [
        (["fine", 3], "script[1]", "an int is not an entry of a script"),
        (["fine", {1, 2}], "script[1]", "a set is not an entry"),
        ({"bot": ["fine", 3.5]}, "script['bot'][1]", "a float is not an entry"),
        ([["fine", {"n": 1}]], "script[0][1]", "a dict is not a part of an answer"),
        ([chunks("fine", 3)], "script[0][1]", "an int is not a part"),  # type: ignore[arg-type]
        ([delayed(1, 3)], "script[0].entry", "an int is not an entry"),  # type: ignore[arg-type]
        ([delayed(-1, "x")], "script[0]", "-1 is not a delay"),
        ([delayed("1", "x")], "script[0]", "'1' is not a delay"),  # type: ignore[arg-type]
        ([cut(usage(3, prompt=1, output=1))], "script[0].entry.entry", "an int"),  # type: ignore[arg-type]
        ([fails_after("x", error="no")], "script[0]", "'no' is not an exception"),  # type: ignore[arg-type]
        ([int], "script[0]", "is not an exception"),
        ([{"n": object()}], "script[0].n", "an object is not a JSON value"),
        ([call("a", x={1})], "script[0].parts[0].functionCall.args.x", "a set is not a JSON"),
        ([ModelResponse(partial=True)], "script[0]", "a partial response is not an answer"),
        ("booking", "script", "a str is not a script"),
        ({"bot": "booking"}, "script['bot']", "a str is not a script"),
        (None, "script", "None is not a script"),
        (iter(["x"]), "script", "is not a script"),
    ],
)
def test_what_is_no_entry_is_refused_where_it_stands(script: Any, where: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        ScriptedModel(script)
    assert caught.value.where == where
    assert message in caught.value.message
    assert caught.value.hint


async def test_what_a_callable_gives_is_checked_too() -> None:
    given: Callable[[Prompt], object] = lambda prompt: 3  # noqa: E731
    with pytest.raises(DeclarationError, match=r"what script\[0\] gave: an int is not an entry"):
        await told(given)


def test_a_dialect_or_name_that_cannot_be_is_refused() -> None:
    with pytest.raises(DeclarationError, match="'latin' is not a dialect") as caught:
        ScriptedModel([], dialect="latin")
    assert all(name in caught.value.hint for name in DIALECTS)
    with pytest.raises(DeclarationError, match="is not a name"):
        ScriptedModel([], name=" ")


def test_entries_are_frozen_and_say_what_they_are() -> None:
    assert str(cut(chunks("He", "llo"))) == "Cut(entry=Chunks(deltas=('He', 'llo')), error=None)"
    assert str(delayed(1, call("a"))) == (
        "Delayed(seconds=1, entry=Part(function_call=FunctionCall(name='a', args={})))"
    )
    assert chunks("a") == chunks("a")
    with pytest.raises(AttributeError):
        chunks("a").deltas = ()  # type: ignore[misc]


def test_importing_weft_does_not_load_the_testing_tools() -> None:
    script = "import sys, weft; weft.Agent('bot'); print('weft.testing' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
