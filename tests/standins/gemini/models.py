"""Models a stand-in server has, and what it says of them."""

from typing import NamedTuple

from weft.values import JsonObject

_METHODS = ("generateContent", "countTokens", "createCachedContent")


class GeminiModel(NamedTuple):
    """What the server must know of a model.

    `signs`: its calls carry signatures and ids, and need the former back. `minimum` is the number
    of tokens from which on a beginning is cached.
    """

    name: str
    input_limit: int = 1_048_576
    output_limit: int = 65_536
    minimum: int = 4_096
    signs: bool = True
    schema_with_tools: bool = True

    def body(self) -> JsonObject:
        """What the server says when it is asked about the model."""
        version = self.name.removeprefix("gemini-").partition("-")[0]
        return {
            "name": f"models/{self.name}",
            "version": version,
            "displayName": self.name.replace("-", " ").title(),
            "description": "A stand-in that answers from a script.",
            "inputTokenLimit": self.input_limit,
            "outputTokenLimit": self.output_limit,
            "supportedGenerationMethods": list(_METHODS),
            "temperature": 1,
            "maxTemperature": 2,
            "topP": 0.95,
            "topK": 64,
            "thinking": True,
        }


def _older(name: str) -> GeminiModel:
    return GeminiModel(name, minimum=2_048, signs=False, schema_with_tools=False)


MODELS = (
    GeminiModel("gemini-3-pro-preview"),
    GeminiModel("gemini-3-flash-preview"),
    GeminiModel("gemini-3.1-pro-preview"),
    GeminiModel("gemini-3.5-flash"),
    GeminiModel("gemini-3.6-flash"),
    GeminiModel("gemini-pro-latest"),
    GeminiModel("gemini-flash-latest"),
    GeminiModel("gemini-flash-lite-latest"),
    _older("gemini-2.5-pro"),
    _older("gemini-2.5-flash"),
    _older("gemini-2.5-flash-lite"),
)
"""Those a server has if nobody says; a test may bring its own."""
