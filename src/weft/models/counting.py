"""How many tokens a request takes, as the provider itself counts them."""

from typing import NamedTuple

from weft.dialects import wire_name
from weft.errors import ModelError, UsageError
from weft.ir import Prompt
from weft.models.base import Model
from weft.models.remote import Remote
from weft.values import Json, JsonObject


class CountEndpoint(NamedTuple):
    """Which fields a provider's token count takes, and where its answer holds the number."""

    takes: frozenset[str] | None
    """The fields it takes; None for a request in whole."""
    path: tuple[str, str]
    """How the path of a request ends, and how that of a count."""
    tells: str


ENDPOINTS = {
    "anthropic": CountEndpoint(
        frozenset(("model", "messages", "system", "tools", "tool_choice", "thinking",
                   "output_config", "cache_control")),
        ("/messages", "/messages/count_tokens"),
        "input_tokens",
    ),
    "openai-responses": CountEndpoint(
        frozenset(("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning",
                   "parallel_tool_calls", "truncation", "conversation", "previous_response_id")),
        ("/responses", "/responses/input_tokens"),
        "input_tokens",
    ),
    "gemini": CountEndpoint(None, (":generateContent", ":countTokens"), "totalTokens"),
}  # fmt: skip


async def count(model: Model, prompt: Prompt, wire: JsonObject) -> int:
    """The provider's own count of this request; nothing is generated."""
    endpoint = ENDPOINTS.get(model.dialect)
    if endpoint is None or not isinstance(model, Remote):
        raise UsageError(
            f"nobody counts requests for `{model.name}`",
            where="--count",
            hint=f"a provider does that speaks one of: {', '.join(ENDPOINTS)}",
        )
    name, body = wire_name(prompt.model), _body(endpoint, prompt, wire)
    answer = await model.ask_beside(name, body, path=endpoint.path)
    counted: Json = answer.get(endpoint.tells)
    if not isinstance(counted, int) or isinstance(counted, bool):
        raise ModelError(
            f"the count has no `{endpoint.tells}`",
            code="bad_response",
            provider=model.service.name,
            model=model.name,
            hint="check that the base URL is this provider's API",
        )
    return counted


def _body(endpoint: CountEndpoint, prompt: Prompt, wire: JsonObject) -> JsonObject:
    if endpoint.takes is None:
        name = wire_name(prompt.model)
        # Gemini counts a whole request only inside this field, and wants the model named again
        return {"generateContentRequest": {"model": f"models/{name}", **wire}}
    return {key: value for key, value in wire.items() if key in endpoint.takes}
