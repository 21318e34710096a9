"""The model protocol: send a request, return the answer."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from weft.ir import ModelResponse, Prompt
from weft.values import Json


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests in one dialect."""

    @property
    def name(self) -> str:
        """The model's name, as requests carry it."""
        ...

    @property
    def dialect(self) -> str:
        """The dialect its requests are written in."""
        ...

    def generate(
        self, prompt: Prompt, wire: dict[str, Json], *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Answer the request: partial responses if `stream`, then exactly one complete one.

        `wire` is what goes over the line, `prompt` what it was lowered from. What goes wrong is
        raised, or told by a response with an `error_code`.
        """
        ...
