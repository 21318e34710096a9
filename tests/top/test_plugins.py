"""The plugins that come with Weft, in real runs."""

import asyncio
import io
import logging
from typing import Any

import pytest

import weft
from weft import Agent, Content, ModelResponse, Part, RunConfig, Runner, tool
from weft.content import media_part
from weft.errors import DeclarationError, RunError
from weft.plugins import GlobalInstruction, Guardrail, Logging, ReflectAndRetry, SaveMedia
from weft.session import Usage
from weft.testing import ScriptedModel, call

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40


@tool
def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


async def test_a_global_instruction_stands_before_that_of_every_agent() -> None:
    first, second = ScriptedModel(["one"]), ScriptedModel(["two"])
    flow = Agent("a", model=first, instruction="Begin.") >> Agent(
        "b", model=second, instruction="End."
    )
    runner = Runner(
        flow, app_name="t", plugins=[GlobalInstruction("Speak {language}.")],
        global_instruction="Be short.",
    )  # fmt: skip
    await runner.run("hi", state={"language": "Dutch"})
    for model, own in ((first, "Begin."), (second, "End.")):
        texts = [block.text for block in model.prompts[0].system]
        assert "Speak Dutch.\n\nBe short." in texts
        assert own in texts
    spelled = weft.compile(
        Agent("a", instruction="Begin."),
        message="hi",
        config=RunConfig(global_instruction="Short."),
    )
    assert [block.text for block in spelled.prompt.system] == ["Short.", "You are a.", "Begin."]
    assert str(spelled.prompt.system[0].origin) == "RunConfig.global_instruction"


async def test_a_run_with_a_config_of_its_own_keeps_the_global_instruction() -> None:
    model = ScriptedModel(["one"])
    runner = Runner(Agent("a", model=model), global_instruction="Be short.")
    await runner.run("hi", config=RunConfig(max_llm_calls=3))
    assert "Be short." in model.prompts[0].system_text


async def test_a_plugin_may_have_passes() -> None:
    from weft.passes import Env, Prompt, add_turn

    def remind(prompt: Prompt, env: Env) -> Prompt:
        return add_turn(prompt, "Remember the milk.", step="remind")

    class Reminder(weft.Plugin):
        passes = (remind,)

    model = ScriptedModel(["one"])
    await Runner(Agent("a", model=model), plugins=[Reminder()]).run("hi")
    assert "Remember the milk." in str(model.prompts[0])


async def test_logging_writes_a_line_for_each_thing_that_happens() -> None:
    stream = io.StringIO()
    model = ScriptedModel([call("divide", a=1, b=0), call("divide", a=4, b=2), "It is 2."])
    agent = Agent("calc", model=model, tools=[divide])
    await Runner(agent, plugins=[Logging(stream)]).run(
        "4/2? My key is sk-proj-Abc123Def456Ghi789Jkl012Mno345"
    )
    log = stream.getvalue()
    for words in (
        "begins: \"4/2?", "calc asks scripted: 1 items, 1 tools", "calc calls divide",
        'divide({"a":1,"b":0}) is called', "divide failed: ZeroDivisionError",
        'divide returned', 'calc says: "It is 2."', "done,",
    ):  # fmt: skip
        assert words in log, (words, log)
    assert "Abc123Def456" not in log


async def test_logging_goes_to_a_logger_and_can_leave_texts_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent("calc", model=ScriptedModel([RuntimeError("no network")]))
    with caplog.at_level(logging.INFO, "weft.audit"):
        await Runner(agent, plugins=[Logging("weft.audit", texts=0)]).run("a secret question")
    assert "secret question" not in caplog.text
    assert "got no answer from scripted: RuntimeError: no network" in caplog.text
    assert "run" in caplog.text
    assert "error" in caplog.text


async def test_media_become_artifacts_and_the_log_has_a_reference() -> None:
    model = ScriptedModel(["Nice.", "Yes."])
    runner = Runner(Agent("a", model=model), plugins=[SaveMedia()])
    content = weft.Content(parts=(Part(text="Look:"), media_part("image/png", PNG)), role="user")
    result = await runner.run(content, session_id="s")
    assert "image/png" in str(model.prompts[0])
    assert "media" not in str(model.prompts[0])
    user = result.session.events[0]
    (name,) = user.actions.artifact_delta
    assert f"artifact `{name}`" in user.text
    assert name.endswith(".png")
    assert b"iVBOR" not in result.session.to_json()
    saved = await runner.artifacts.load("a", "user", "s", name)
    assert saved is not None
    assert saved.inline_data is not None
    await runner.run("And?", session_id="s")
    assert name in str(model.prompts[1])


async def test_small_media_stay_where_they_are() -> None:
    model = ScriptedModel(["Nice."])
    runner = Runner(Agent("a", model=model), plugins=[SaveMedia(larger_than=1000)])
    await runner.run(weft.Content(parts=(media_part("image/png", PNG),), role="user"))
    assert "user media: image/png" in str(model.prompts[0])


async def test_a_model_reflects_on_an_error_and_tries_again() -> None:
    model = ScriptedModel([call("divide", a=1, b=0), call("divide", a=4, b=2), "2"])
    agent = Agent("calc", model=model, tools=[divide])
    result = await Runner(agent, plugins=[ReflectAndRetry(2)]).run("4/2?")
    assert result.text == "2"
    assert '"attempt":1,"attempts_left":2' in str(model.prompts[1])
    assert "other arguments" in str(model.prompts[1])


async def test_after_so_many_tries_the_run_stops_clearly_and_the_log_has_it() -> None:
    model = ScriptedModel([call("divide", a=n, b=0) for n in range(9)])
    runner = Runner(Agent("calc", model=model, tools=[divide]), plugins=[ReflectAndRetry(2)])
    with pytest.raises(RunError, match="`divide` failed 3 times"):
        await runner.run("?", session_id="s")
    assert len(model.prompts) == 3
    session = await runner.session(session_id="s")
    assert "failed 3 times" in (session.events[-1].error_message or "")


async def test_a_tool_that_worked_in_between_is_counted_anew_and_one_may_go_on_without() -> None:
    script = [call("divide", a=1, b=n) for n in (0, 1, 0, 0)]
    model = ScriptedModel([*script, "I gave up."])
    agent = Agent("calc", model=model, tools=[divide])
    runner = Runner(agent, plugins=[ReflectAndRetry(1, then="tell")])
    result = await runner.run("?")
    assert result.text == "I gave up."
    assert "Do not call it again" in str(model.prompts[4])
    assert "Do not call it again" not in str(model.prompts[3])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GlobalInstruction(""), "is not a text"),
        (lambda: ReflectAndRetry(-1), "retries=-1"),
        (lambda: ReflectAndRetry(then="cry"), "then='cry'"),  # type: ignore[arg-type]
        (lambda: Logging(3), "nothing can be written"),  # type: ignore[arg-type]
        (lambda: Logging(texts=-1), "texts=-1"),
        (lambda: SaveMedia(larger_than=-1), "larger_than"),
        (lambda: RunConfig(global_instruction=3), "not text"),  # type: ignore[arg-type]
    ],
)
def test_a_plugin_that_cannot_be_is_refused_where_it_is_written(make: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        make()


def test_what_a_plugin_adds_to_a_run_is_checked_when_the_runner_is_made() -> None:
    class Wrong(weft.Plugin):
        passes = ("shout",)

    class Numbered(weft.Plugin):
        global_instruction = 3

    for plugin, words in ((Wrong(), "is not a pass"), (Numbered(), "not text")):
        with pytest.raises(DeclarationError, match=words) as caught:
            Runner(Agent("a"), plugins=[plugin])
        assert type(plugin).__name__ in caught.value.where


async def _is_rude(text: str) -> str | None:
    await asyncio.sleep(0)
    return "it is rude" if "stupid" in text else None


def _tells_prices(text: str) -> str | None:
    return "it tells a price" if "$" in text else None


def _build_shapes() -> dict[str, tuple[Any, list[ScriptedModel]]]:
    """Programs of several shapes; each would call `divide` if nobody objected."""

    def agent(name: str, **more: Any) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel([call("divide", a=4, b=2), "It is $2."])
        return Agent(name, model=model, tools=[divide], **more), model

    (one, one_model), (first, first_model), (last, last_model) = map(agent, ("bot", "a", "b"))
    (left, left_model), (right, right_model) = map(agent, ("left", "right"))
    (inner, inner_model) = agent("inner", description="Divides.")
    desk_model = ScriptedModel([call("inner", request="4 by 2"), "It is $2."])
    desk = Agent("desk", model=desk_model, tools=[inner])
    return {
        "agent": (one, [one_model]),
        "sequence": (first >> last, [first_model, last_model]),
        "parallel": (left | right, [left_model, right_model]),
        "agent as tool": (desk, [desk_model, inner_model]),
        "step": (weft.Step(lambda state: {"done": "yes"}, name="work"), []),
    }


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("shape", [*_build_shapes()])
async def test_an_input_check_that_objects_ends_the_run_before_a_tool_runs(
    shape: str, wait: bool
) -> None:
    program, models = _build_shapes()[shape]
    runner = Runner(program, plugins=[Guardrail(input=_is_rude, wait=wait)])
    with pytest.raises(RunError, match="`_is_rude` objects: it is rude"):
        (await runner.run("you stupid thing", session_id="s", user_id="u")).check()
    session = await runner.session(session_id="s", user_id="u")
    assert not any(event.results for event in session.events)
    if models:
        assert {event.error_code for event in session.events if event.error_code} == {"guardrail"}
    assert not wait or not any(model.prompts for model in models)
    polite = (await runner.run("please", session_id="t", user_id="u")).check()
    assert polite.events


@pytest.mark.parametrize("stream", [False, True])
async def test_an_output_check_reads_an_answer_before_it_is_stored(stream: bool) -> None:
    def bot() -> Agent:
        priced = ModelResponse(content=Content(parts=(Part(text="It is $2."),)), usage=paid)
        return Agent("bot", model=ScriptedModel([call("divide", a=4, b=2), priced]), tools=[divide])

    paid = Usage(prompt_token_count=9, candidates_token_count=4)
    config = RunConfig(stream=stream)
    strict = Runner(bot(), plugins=[Guardrail(output=(_is_rude, _tells_prices))])
    result = await strict.run("4 by 2", session_id="s", config=config)
    with pytest.raises(RunError, match="`_tells_prices` objects: it tells a price"):
        result.check()
    kept = (await strict.session(session_id="s")).events
    assert not any("$" in event.text for event in kept)
    assert kept[-1].usage == paid
    polite = Runner(bot(), plugins=[Guardrail(output=_tells_prices, reply="Ask the desk.")])
    answered = (await polite.run("4 by 2", session_id="s", config=config)).check()
    assert answered.text == "Ask the desk."
    assert not any("$" in event.text for event in answered.events if not event.partial)


async def test_a_reply_takes_the_place_of_a_run_that_an_input_check_objects_to() -> None:
    program, models = _build_shapes()["sequence"]
    runner = Runner(program, plugins=[Guardrail(input=_is_rude, reply="Please be polite.")])
    assert (await runner.run("stupid")).check().text == "Please be polite."
    assert not any(model.prompts for model in models)


async def test_a_check_that_fails_ends_the_run_too() -> None:
    def broken(text: str) -> str | None:
        raise ValueError("no service")

    def wrong(text: str) -> Any:
        return True

    for check, words in ((broken, "no service"), (wrong, "`.*wrong` returned a bool")):
        runner = Runner(Agent("bot", model=ScriptedModel(["hi"])), plugins=[Guardrail(input=check)])
        with pytest.raises((RunError, ValueError), match=words):
            (await runner.run("hello")).check()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Guardrail(), "nothing to check"),
        (lambda: Guardrail(input="no swearing"), "is not a check"),  # type: ignore[arg-type]
        (lambda: Guardrail(input=_is_rude, reply=3), "reply=3"),  # type: ignore[arg-type]
    ],
)
def test_a_guardrail_that_cannot_be_is_refused_where_it_is_written(make: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        make()
