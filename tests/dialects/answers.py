"""Answers of providers: read in every way they may come in, and sent back by a real run."""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

import msgspec

import weft
from weft import Agent
from weft.dialects import lift, stream_of
from weft.dialects.stream import Events
from weft.ir import ModelResponse
from weft.models import Model
from weft.testing import ScriptedModel
from weft.values import Json, JsonObject

Told = tuple[str, JsonObject]


def stream(events: Iterable[Told], *, newline: str = "\n") -> bytes:
    """The events as a server sends them."""
    lines: list[str] = []
    for name, data in events:
        lines += [f"event: {name}"] if name else []
        lines += [f"data: {json.dumps(data, ensure_ascii=False)}", ""]
    return (newline.join(lines) + newline).encode()


class Read(NamedTuple):
    """What a stream gave: the body, what it says, and what was shown on the way."""

    body: JsonObject
    response: ModelResponse
    shown: list[ModelResponse]

    @property
    def text(self) -> str:
        """What was shown of the text."""
        return "".join(each.text for each in self.shown)

    @property
    def thoughts(self) -> str:
        """What was shown of the thoughts."""
        parts = [
            p for each in self.shown for p in (each.content.parts if each.content else ()) or ()
        ]
        return "".join(part.text or "" for part in parts if part.thought)


def read(dialect: str, chunks: Iterable[bytes]) -> Read:
    """Read a stream that comes in these pieces."""
    events, answer = Events(), stream_of(dialect)
    shown: list[ModelResponse] = []
    told = [pair for chunk in chunks for pair in events.feed(chunk)]
    for name, text in [*told, *events.end()]:
        partial = answer.feed(name, msgspec.json.decode(text))
        if partial is not None:
            shown.append(partial)
    if events.done:
        answer.note_end()
    body = answer.body()
    return Read(body, lift(dialect, body), shown)


def in_pieces(data: bytes, cuts: int, seed: int) -> list[bytes]:
    """The bytes cut at so many places, chosen by chance."""
    chance = random.Random(seed)
    places = sorted(chance.randrange(len(data) + 1) for _ in range(cuts))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def byte_by_byte(data: bytes) -> list[bytes]:
    """The bytes one by one."""
    return [data[at : at + 1] for at in range(len(data))]


def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


class Sent(NamedTuple):
    """The request after an answer, and what was said about it."""

    wire: JsonObject
    diagnostics: tuple[str, ...]

    def parts(self, dialect: str) -> list[JsonObject]:
        """What the request says the model said, in all its turns."""
        turns, parts = ("contents", "parts") if dialect == "gemini" else ("messages", "content")
        role = "model" if dialect == "gemini" else "assistant"
        return [
            part
            for turn in cast("list[JsonObject]", self.wire[turns])
            if turn["role"] == role
            for part in cast("list[JsonObject]", turn[parts])
        ]


def sent_back(
    dialect: str, model: str, *answers: JsonObject, to: tuple[str, str] | None = None
) -> Sent:
    """The last request of a run that got these answers, and was then asked something else.

    `to` is the dialect and the model that the next question goes to.
    """
    first = ScriptedModel([*(lift(dialect, body) for body in answers), "done"], name=model,
                          dialect=dialect)  # fmt: skip
    agent = _agent(first)
    result = weft.run_sync(agent, "Look it up")
    there, name = to if to is not None else (dialect, model)
    second = ScriptedModel(["fine"], name=name, dialect=there)
    agent = _agent(second)
    weft.run_sync(agent, "Thanks", session=result.session)
    compiled = weft.compile(agent, session=result.session, message="Thanks")
    return Sent(second.wires[-1], tuple(str(said) for said in compiled.diagnostics))


def _agent(model: Model) -> Agent:
    tools: Sequence[Callable[..., object]] = [lookup]
    return Agent("bot", model=model, tools=tools)


def weft_of(response: ModelResponse) -> dict[str, Json]:
    """What an answer keeps for the provider."""
    return cast("dict[str, Json]", (response.custom_metadata or {}).get("weft", {}))
