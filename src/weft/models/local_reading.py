"""One request to the engine in tokens: what it read, what it said, and what it will know again.

The engine reuses what a request has in common with what it read or said before, token by token.
What it said can be cut into tokens differently when it is read: a grammar makes it take
unusual ones, and a call or a reply in JSON stands in the history as something else.
"""

from weft.compiler.caching import common
from weft.models.local_engine import Engine
from weft.values import Json, JsonObject

_ALSO: JsonObject = {"logprobs": True, "top_logprobs": 1}
"""What makes the engine name its tokens."""


class Reading:
    """The tokens of one request and its answer, noted as the answer comes."""

    def __init__(self, engine: Engine, body: JsonObject) -> None:
        self._engine = engine
        self._named = "tools" not in body
        """Whether tokens are named: the engine does not where it looks for calls itself."""
        self._hidden = self._named and not body.get("logprobs")
        self.body: JsonObject = {**body, **_ALSO} if self._hidden else body
        self._said: list[int] = []
        self._count = 0

    def note(self, piece: JsonObject) -> JsonObject:
        """Note the tokens that a piece names; the piece without what nobody asked for."""
        usage = piece.get("usage")
        count = usage.get("completion_tokens") if isinstance(usage, dict) else None
        self._count = count if isinstance(count, int) else self._count
        choices = piece.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or "logprobs" not in choice:
            return piece
        for token in _listed(choice["logprobs"]):
            self._said += self._whole(token.get("id"), _text(choice.get("delta")))
        if not self._hidden:
            return piece
        bare: JsonObject = {key: held for key, held in choice.items() if key != "logprobs"}
        return {**piece, "choices": [bare]}

    def _whole(self, token: Json, text: str) -> tuple[int, ...]:
        """A token with those before it that were held back, as they made no whole letter."""
        if not isinstance(token, int):
            return ()
        if text.isascii():
            return (token,)
        cut = self._engine.cut(text)
        return cut if cut[-1:] == (token,) else (token,)

    def known(self, repeated: JsonObject) -> int | None:
        """How many tokens the engine knows again when `repeated` has the answer behind the request.

        None where it cannot be told. The last token it said is never among them: nobody asked
        yet what follows it.
        """
        kept = self._count - 1
        if not self._named or len(self._said) < kept:
            return None
        held = (*self._engine.tokens(self.body), *self._said[: max(0, kept)])
        return common(held, self._engine.tokens(repeated))


def _listed(held: Json) -> list[JsonObject]:
    listed = held.get("content") if isinstance(held, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _text(delta: Json) -> str:
    text = delta.get("content") if isinstance(delta, dict) else None
    return text if isinstance(text, str) else ""
