"""Agents for worker processes: one streams a sentence, one says what it was asked with."""

from collections.abc import AsyncIterator

from weft import Agent
from weft.ir import ModelResponse, Prompt
from weft.testing import ScriptedModel, call
from weft.values import Json

teller = Agent("teller", model=ScriptedModel(["Once upon a time there was a loom."] * 100))


class EchoModel(ScriptedModel):
    """Says with which options and tools it was asked, or calls the first tool."""

    def __init__(self) -> None:
        super().__init__([self._answer] * 1000)
        self._wire: dict[str, Json] = {}

    async def generate(
        self, prompt: Prompt, wire: dict[str, Json], *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """The answer, about this request."""
        self._wire = wire
        async for response in super().generate(prompt, wire, stream=stream):
            yield response

    def _answer(self, prompt: Prompt) -> object:
        names = [tool.name for tool in prompt.tools]
        if names and "rain" not in str(prompt):
            return call(names[0], city="Oslo")
        text = str(self._wire)
        at = text.find("'temperature': ")
        value = text[at:].split(": ", 1)[1].split(",")[0].split("}")[0] if at >= 0 else "None"
        return f"temperature {value}, tools {names}"


echo = Agent("echo", model=EchoModel())
