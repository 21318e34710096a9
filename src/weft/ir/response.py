"""What a model answered, in the log's own terms, whoever it was."""

from weft.content import Content, Value
from weft.session import Usage
from weft.values import JsonObject


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
