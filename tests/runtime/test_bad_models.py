"""What models do wrong: an error event or a corrective result, and a session that goes on."""

import math
from collections.abc import AsyncIterator
from typing import cast

import pytest

import weft
from tests.runtime.laws import check_laws, goes_on, responses, runs
from tests.runtime.tools import look
from weft import (
    Agent,
    Content,
    ModelResponse,
    Part,
    RunConfig,
    Runner,
    WeftError,
    tool,
)
from weft.content import FunctionCall, call_part
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, cut, malformed, thought
from weft.values import Json, JsonObject


class Says:
    """A model that answers with just these responses, however odd."""

    name = "odd"
    dialect = "gemini"

    def __init__(self, *answers: list[object]) -> None:
        self.answers = list(answers)

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Give the next answer."""
        for response in self.answers.pop(0):
            yield cast("ModelResponse", response)


def response(*parts: Part, role: str = "model", **more: str) -> ModelResponse:
    """A response of these parts."""
    return ModelResponse(content=Content(parts=parts, role=role) if parts else None, **more)  # type: ignore[arg-type]


FINE = [response(Part(text="fine"))]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([], "empty_response"),
        ([response()], "empty_response"),
        ([response(Part())], "empty_response"),
        ([response(Part(text=""))], "empty_response"),
        ([ModelResponse(content=Content())], "empty_response"),
        ([response(finish_reason="MAX_TOKENS")], "empty_response"),
        ([response(Part(text="hm", thought=True))], "empty_response"),
        ([None], "model_error"),
        (["text"], "model_error"),
        ([response(error_code="SAFETY", error_message="no")], "SAFETY"),
        ([response(Part(text="half"), error_code="SAFETY")], "SAFETY"),
    ],
)
def test_an_answer_that_is_none_is_an_error_event(answer: list[object], code: str) -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=Says(answer, FINE), output_key="said"))
        result = await runner.run(session_id="s", message="x")
        assert result.error is not None
        assert result.error.error_code == code
        assert result.text == ""
        assert result.state == {}
        await goes_on(runner)

    runs(go)


def test_an_empty_answer_keeps_what_it_cost_and_why_it_ended() -> None:
    async def go() -> None:
        used = weft.session.Usage(prompt_token_count=7, thoughts_token_count=9)
        empty = ModelResponse(
            content=Content(parts=(Part(text="hm", thought=True),), role="model"),
            finish_reason="MAX_TOKENS",
            usage=used,
        )
        runner = Runner(Agent("bot", model=Says([empty], FINE)))
        result = await runner.run(session_id="s", message="x")
        assert result.error is not None
        assert result.error.finish_reason == "MAX_TOKENS"
        assert "but thoughts" in str(result.error.error_message)
        assert result.usage.thoughts_token_count == 9
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (call("lok"), "there is no tool 'lok'; did you mean look?"),
        (call("look", city=5), "city"),
        (call("look", town="x"), "`town`"),
        (malformed("look", '{"city": '), "not a JSON object"),
        (malformed("look", "[1]"), "not a JSON object"),
        (Part(function_call=FunctionCall(args={})), "there is no tool 'unnamed'"),
        (Part(function_call=FunctionCall(name="")), "there is no tool 'unnamed'"),
        (call("we ird!\n"), "there is no tool"),
        (call("x" * 500), "there is no tool"),
    ],
)
def test_a_bad_call_gets_a_corrective_result(entry: Part, says: str) -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel([entry, "sorry", "fine"]), tools=[look]))
        result = await runner.run(session_id="s", message="x")
        assert says in str(responses(result)[0]["error"])
        assert result.text == "sorry"
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("argument", [math.nan, object()])
def test_arguments_that_are_not_json_stop_the_run(argument: object) -> None:
    async def go() -> None:
        odd = Part(function_call=FunctionCall(name="look", args={"city": cast("Json", argument)}))
        runner = Runner(Agent("bot", model=Says([response(odd)], FINE), tools=[look]))
        with pytest.raises(WeftError, match="functionCall"):
            await runner.run(session_id="s", message="x")
        await goes_on(runner)

    runs(go)


def test_duplicate_call_ids_are_two_calls() -> None:
    async def go() -> None:
        twice = [call_part("look", {"city": city}, id="c") for city in ("Oslo", "Rome")]
        again = call_part("look", {"city": "Paris"}, id="c")
        model = ScriptedModel([twice, again, "done", call_part("look", {}, id="c"), "fine"])
        runner = Runner(Agent("bot", model=model, tools=[look]))
        result = await runner.run(session_id="s", message="x")
        assert [r["result"] for r in responses(result)] == [
            "rain in Oslo", "rain in Rome", "rain in Paris",
        ]  # fmt: skip
        check_laws(result.session, runner.root)
        await goes_on(runner)

    runs(go)


def test_a_reused_call_id_is_confirmed_anew() -> None:
    paid: list[int] = []

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def go() -> None:
        script = [
            call_part("pay", {"amount": 5}, id="c1"),
            call_part("pay", {"amount": 5000}, id="c1"),
            "fine",
        ]
        runner = Runner(Agent("bot", model=ScriptedModel(script), tools=[pay]))
        first = await runner.run(session_id="s", message="x")
        assert "c1" in first.waiting
        second = await runner.resume(session_id="s", answers={"c1": True})
        assert paid == [5]
        assert second.waiting
        assert "c1" not in second.waiting
        await goes_on(runner)

    runs(go)


def test_a_reused_call_id_gives_an_agent_tool_its_new_request() -> None:
    async def go() -> None:
        asks = [call_part("expert", {"request": text}, id="call_0") for text in ("one", "two")]
        model = ScriptedModel({"boss": [asks[0], "1", asks[1], "fine"], "expert": ["a", "b"]})
        expert = Agent("expert", model=model, description="Knows.")
        runner = Runner(Agent("boss", model=model, tools=[expert]))
        await runner.run(session_id="s", message="x")
        await goes_on(runner)
        asked = str([prompt for prompt in model.prompts if prompt.agent == "expert"][1])
        assert "user: two" in asked
        assert "one" not in asked

    runs(go)


def test_calls_and_text_may_be_mixed() -> None:
    async def go() -> None:
        model = ScriptedModel([["before ", call("look"), "after"], "done", "fine"])
        runner = Runner(Agent("bot", model=model, tools=[look], output_key="said"))
        result = await runner.run(session_id="s", message="x")
        assert result.text == "done"
        assert result.state == {"said": "done"}
        assert result.events[0].text == "before after"
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_answer_is_an_error_event_and_writes_nothing(stream: bool) -> None:
    async def go() -> None:
        model = ScriptedModel([cut("half an answer"), [thought("only")], "fine"])
        runner = Runner(Agent("bot", model=model, output_key="said"))
        config = RunConfig(stream=stream)
        first = await runner.run(session_id="s", message="x", config=config)
        assert first.error is not None
        assert first.state == {}
        second = await runner.run(session_id="s", message="x", config=config)
        assert second.error is not None
        assert second.state == {}
        await goes_on(runner)

    runs(go)


def test_a_model_without_a_generator_is_an_error_event() -> None:
    class Iterates:
        """An iterator of its own kind."""

        def __init__(self) -> None:
            self.left = list(FINE)

        def __aiter__(self) -> "Iterates":
            return self

        async def __anext__(self) -> ModelResponse:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    class Returns:
        name, dialect = "returns", "gemini"

        def generate(self, prompt: Prompt, wire: JsonObject, *, stream: bool) -> Iterates:
            """Give an iterator that is no generator."""
            return Iterates()

    assert weft.run_sync(Agent("bot", model=Returns()), "x").text == "fine"


def test_a_model_that_is_no_model_says_what_to_pass() -> None:
    with pytest.raises(WeftError, match="is not a model"):
        Agent("bot", model=5)
    with pytest.raises(WeftError, match="cannot be run"):
        Runner(cast("Agent", "bot"))
    with pytest.raises(WeftError, match="cannot be run"):
        Runner(cast("Agent", [Agent("a"), Agent("b")]))


KEY = "sk-proj-" + "a1B2c3D4" * 4


class LeakyModel:
    """A client whose exceptions quote its key."""

    name, dialect = "leaky", "openai-chat"

    def __init__(self, words: str) -> None:
        self.api_key = "no-shape-at-all-1234"
        self._words = words

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        raise RuntimeError(self._words)
        yield


@pytest.mark.parametrize("secret", [KEY, "no-shape-at-all-1234", "of-the-environment-99"])
async def test_a_key_in_an_exception_reaches_neither_the_log_nor_the_session(
    secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LEAKY_API_KEY", "of-the-environment-99")
    agent = Agent("bot", model=LeakyModel(f"401 for {secret} at 10:00"))
    result = await Runner(agent).run("Hi", session_id="s")
    assert result.error is not None
    assert result.error.error_message == "RuntimeError: 401 for [key] at 10:00"
    assert secret not in result.session.to_json().decode()
    assert secret not in caplog.text
    assert "the model raised" in caplog.text
    assert "Traceback" in caplog.text
