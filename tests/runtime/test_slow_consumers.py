"""Back-pressure: a model is never far ahead of whoever reads what it says."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.runtime.logs import quietly
from weft import Agent, Content, ModelResponse, Parallel, Part, RunConfig, Runner
from weft.declare import Node
from weft.ir import Prompt
from weft.values import JsonObject


class Endless:
    """A model that speaks without end, and knows how much it said."""

    name, dialect = "endless", "gemini"

    def __init__(self) -> None:
        self.said = 0

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        while True:
            self.said += 1
            content = Content(parts=(Part(text=f"{self.said} "),), role="model")
            yield ModelResponse(content=content, partial=True)


def alone(model: Endless) -> Node:
    return Agent("a", model=model)


def side_by_side(model: Endless) -> Node:
    return Parallel(*(Agent(name, model=model) for name in "abc"))


@pytest.mark.parametrize(("root", "ahead"), [(alone, 0), (side_by_side, 3)])
def test_a_slow_consumer_holds_the_model_up(root: Callable[[Endless], Node], ahead: int) -> None:
    async def go() -> None:
        model = Endless()
        run = Runner(root(model)).run(message="Go", config=RunConfig(stream=True))
        for taken in range(1, 50):
            assert (await anext(run)).partial
            for _ in range(30):
                await asyncio.sleep(0)
            assert taken <= model.said <= taken + ahead
        await run.aclose()

    quietly(go)
