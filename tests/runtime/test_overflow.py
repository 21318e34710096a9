"""A request the provider finds too long is sent again, shorter, and only once."""

import logging

import pytest

import weft
from weft import Agent, RunConfig, Runner
from weft.compiler import compile_request
from weft.errors import ModelError
from weft.runtime.model_call import tighter
from weft.testing import ScriptedModel


def _too_long(message: str = "the prompt has 4000 tokens, the limit is 2000") -> ModelError:
    return ModelError(message, code="context_overflow", provider="p", model="m")


async def _talk(runner: Runner, *messages: str) -> list[weft.Event]:
    events: list[weft.Event] = []
    for message in messages:
        async for event in runner.run(user_id="u", session_id="s", message=message):
            events.append(event)
    return events


LONG = "word " * 400


async def test_a_request_that_is_too_long_is_sent_again_with_less(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel(["one", "two", _too_long(), "three"])
    runner = Runner(Agent("a", model=model))
    with caplog.at_level(logging.WARNING, "weft"):
        events = await _talk(runner, f"first {LONG}", f"second {LONG}", "third")
    assert events[-1].text == "three"
    assert events[-1].error_code is None
    sizes = [len(prompt.items) for prompt in model.prompts]
    assert sizes[3] < sizes[2]
    assert "third" in str(model.prompts[3])
    assert "too long" in caplog.text
    held = (events[-1].custom_metadata or {})["weft"]
    assert isinstance(held, dict)
    assert isinstance(held["within"], int)


async def test_what_was_learned_holds_for_the_next_request() -> None:
    model = ScriptedModel(["one", "two", _too_long(), "three", "four"])
    runner = Runner(Agent("a", model=model))
    events = await _talk(runner, f"first {LONG}", f"second {LONG}", "third", "fourth")
    assert events[-1].text == "four"
    assert "first" not in str(model.prompts[-1])


async def test_a_second_refusal_is_an_error_event_and_the_session_goes_on() -> None:
    model = ScriptedModel(["one", "two", _too_long(), _too_long(), "fine"])
    runner = Runner(Agent("a", model=model))
    events = await _talk(runner, f"first {LONG}", f"second {LONG}", "third")
    assert events[-1].error_code == "context_overflow"
    more = await _talk(runner, "fourth")
    assert more[-1].text == "fine"


async def test_a_request_with_nothing_to_leave_out_is_an_error_event() -> None:
    model = ScriptedModel([_too_long(), "fine"])
    runner = Runner(Agent("a", model=model))
    events = await _talk(runner, LONG)
    assert events[-1].error_code == "context_overflow"
    more = await _talk(runner, "hi")
    assert more[-1].text == "fine"


async def test_the_shortened_request_can_be_rebuilt_from_the_log() -> None:
    model = ScriptedModel(["one", "two", _too_long(), "three"])
    agent = Agent("a", model=model)
    runner = Runner(agent)
    await _talk(runner, f"first {LONG}", f"second {LONG}", "third")
    session = await runner.session(user_id="u", session_id="s")
    again = compile_request(agent, session=session)
    assert again.previous is not None
    assert again.previous.wire == model.wires[-1]


@pytest.mark.parametrize(
    ("message", "share"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200000 / 210000 * 0.9),
        ("input and max_tokens exceed: 188240 + 21333 > 200000", (200000 - 21333) / 188240 * 0.9),
        ("it exceeds the maximum number of tokens allowed (1,000,000), 2,000,000", 0.45),
        ("too long", 0.5),
    ],
)
def test_the_limit_a_provider_names_is_scaled_to_how_weft_counts(
    message: str, share: float
) -> None:
    compiled = compile_request(Agent("a", model="gpt-5"), message=LONG, config=RunConfig())
    assert tighter(compiled, _too_long(message)) == int(compiled.tokens * share)
