"""What a model is: it carries a request to somebody and brings the answer back."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from weft.content import Content, Value
from weft.ir import Prompt
from weft.session import Usage
from weft.values import Json, JsonObject


class ModelResponse(Value, frozen=True, kw_only=True, gc=True):
    """What a model said: the content, how it ended, what it cost.

    A partial response carries a delta for display. The last response of an answer is complete
    and holds all of it. One with an `error_code` says why there is no answer.
    """

    content: Content | None = None
    partial: bool | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage | None = None
    model_version: str | None = None
    custom_metadata: JsonObject | None = None
    grounding_metadata: JsonObject | None = None
    citation_metadata: JsonObject | None = None
    logprobs_result: JsonObject | None = None
    avg_logprobs: float | None = None

    @property
    def text(self) -> str:
        """What was said, without thoughts."""
        return self.content.text if self.content is not None else ""


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
