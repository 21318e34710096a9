"""Examples of an agent: how they are written, refused and sent."""

from dataclasses import dataclass
from typing import Any

import pytest

import weft
from weft import Agent, C, Example, ExampleCall, TokenBudget, tool
from weft.errors import DeclarationError
from weft.testing import ScriptedModel, call


@tool
def rate(currency: str) -> float:
    """The rate of a currency."""
    return 1.1


@dataclass
class Price:
    amount: float
    currency: str


EXAMPLES: list[Any] = [
    ("2 euros?", "EUR 2.00"),
    Example("In dollars?", "USD 2.20", calls=(ExampleCall("rate", {"currency": "USD"}, 1.1),)),
    {"user": "And yen?", "answer": "No.", "calls": [("rate", {"currency": "JPY"}, {"error": "?"})]},
]


def test_examples_are_real_turns_before_the_conversation_and_never_change() -> None:
    model = ScriptedModel([call("rate", currency="CHF"), "CHF 5.50", "Yes."])
    agent = Agent("bank", model=model, tools=[rate], examples=EXAMPLES)
    first = weft.run_sync(agent, "5 francs?")
    weft.run_sync(agent, "Sure?", session=first.session)
    begin = "user: 2 euros?\nmodel: EUR 2.00\nuser: In dollars?\nmodel call example_1_0: rate("
    for prompt in model.prompts:
        assert begin in str(prompt)
    assert [wire["contents"][:6] for wire in model.wires[1:]] == [
        model.wires[0]["contents"][:6]
    ] * 2  # type: ignore[index]
    assert "bank.examples[1]" in str(weft.compile(agent, message="x").explain())


def test_neither_a_window_nor_a_budget_takes_them() -> None:
    model = ScriptedModel([f"answer {n} " + "word " * 60 for n in range(8)])
    agent = Agent("bank", model=model, examples=[("2 euros?", "EUR 2.00")],
                  context=C.window(2), context_compressor=TokenBudget(400))  # fmt: skip
    session = None
    for n in range(8):
        session = weft.run_sync(agent, f"q{n}", session=session).session
    assert all("user: 2 euros?\nmodel: EUR 2.00" in str(prompt) for prompt in model.prompts)


def test_an_answer_with_a_schema_is_spelled_as_the_model_would() -> None:
    agent = Agent("bank", output_schema=Price, examples=[("2 euros?", Price(2.0, "EUR"))])
    assert 'model: {"amount":2.0,"currency":"EUR"}' in str(weft.compile(agent, message="?").prompt)
    listed = Agent("bank", output_schema=list[str], examples=[("which?", ["EUR"])])
    assert 'model: {"result":["EUR"]}' in str(weft.compile(listed, message="?").prompt)


@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_every_provider_would_take_them(dialect: str) -> None:
    models = {
        "anthropic": "claude-sonnet-5", "openai-chat": "gpt-5", "openai-responses": "gpt-5",
        "gemini": "gemini-2.5-pro",
    }  # fmt: skip
    agent = Agent("bank", model=models[dialect], tools=[rate], examples=EXAMPLES)
    compiled = weft.compile(agent, message="5?")
    assert not compiled.diagnostics
    assert "2 euros?" in str(compiled.lower(dialect))


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        ("text", "is not a list"),
        (["text"], "is not an example"),
        ([("only",)], "is not an example"),
        ([("", "a")], "says nothing"),
        ([("q", 3)], "not text"),
        ([("q", ("nope", {}, 1), "a")], "not a tool of the agent"),
        ([("q", ("rate", {"currency": 3}, 1), "a")], "do not fit its parameters"),
        ([("q", ("rate", {}, 1), "a")], "do not fit its parameters"),
        ([{"input": "q", "output": "a"}], "`input` is not part of an example"),
        ([{"user": "q"}], "has `user` and `answer`"),
    ],
)
def test_what_could_not_happen_is_refused_where_it_is_written(examples: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        Agent("bank", tools=[rate], examples=examples)
    assert caught.value.hint


def test_an_answer_that_does_not_fit_the_schema_is_refused() -> None:
    with pytest.raises(DeclarationError, match="output_schema"):
        Agent("bank", output_schema=Price, examples=[("q", {"amount": "much"})])
