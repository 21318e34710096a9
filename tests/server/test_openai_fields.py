"""Every field that OpenAI's client can send is read, listed as without effect, or refused.

The fields are those of the installed client's own request types, so a new version of it that
knows more fails here.
"""

import collections.abc
import json
import re
import types
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import httpx2
import pytest
import typing_extensions
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from tests.server.live import Live, serving
from weft import Agent, tool
from weft.server import app
from weft.server.openai_options import FIELDS, NO_EFFECT, OPTIONS
from weft.testing import ScriptedModel
from weft.values import Json, JsonObject

DOCS = Path(__file__).parents[2] / "docs" / "serving.md"

TYPES: dict[str, type] = {"chat": CompletionCreateParamsBase, "responses": ResponseCreateParamsBase}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
LEAST: dict[str, JsonObject] = {
    "chat": {"model": "bot", "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"model": "bot", "input": "Hi"},
}

SCHEMA: JsonObject = {"type": "object"}
SUMS: JsonObject = {"name": "sum_up", "parameters": {"type": "object", "properties": {}}}


class Seen(NamedTuple):
    """A value of a field that is read, and where it shows."""

    value: Json
    shows: Callable[[JsonObject, JsonObject], object]
    """Whether the answer and the request that was sent to the model show it."""


def generates(name: str, value: Json) -> Callable[[JsonObject, JsonObject], object]:
    return lambda answer, wire: wire["generationConfig"] == {name: value}  # type: ignore[index]


def says(text: str) -> Callable[[JsonObject, JsonObject], object]:
    return lambda answer, wire: text in json.dumps(wire)


def answers(text: str) -> Callable[[JsonObject, JsonObject], object]:
    return lambda answer, wire: text in json.dumps(answer)


READ: dict[str, dict[str, Seen]] = {
    "both": {
        "model": Seen("bot", answers('"model": "bot"')),
        "temperature": Seen(0.5, generates("temperature", 0.5)),
        "top_p": Seen(0.5, generates("topP", 0.5)),
        "tool_choice": Seen("none", says('"mode": "NONE"')),
    },
    "chat": {
        "messages": Seen([{"role": "user", "content": "Where?"}], says("Where?")),
        "max_tokens": Seen(5, generates("maxOutputTokens", 5)),
        "max_completion_tokens": Seen(5, generates("maxOutputTokens", 5)),
        "stop": Seen("x", generates("stopSequences", ["x"])),
        "seed": Seen(5, generates("seed", 5)),
        "presence_penalty": Seen(0.5, generates("presencePenalty", 0.5)),
        "frequency_penalty": Seen(0.5, generates("frequencyPenalty", 0.5)),
        "reasoning_effort": Seen("low", says('"thinkingLevel": "low"')),
        "response_format": Seen({"type": "json_object"}, says("application/json")),
        "response_format.type": Seen({"type": "json_object"}, says("application/json")),
        "response_format.json_schema": Seen(
            {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA}},
            says("application/json"),
        ),
        "tools": Seen([{"type": "function", "function": SUMS}], says("sum_up")),
    },
    "responses": {
        "input": Seen("Where?", says("Where?")),
        "instructions": Seen("Be kind.", says("Be kind.")),
        "max_output_tokens": Seen(5, generates("maxOutputTokens", 5)),
        "metadata": Seen({"a": "b"}, answers('"metadata": {"a": "b"}')),
        "tools": Seen([{"type": "function", **SUMS}], says("sum_up")),
        "reasoning.effort": Seen({"effort": "low"}, says('"thinkingLevel": "low"')),
        "text.format": Seen({"format": {"type": "json_object"}}, says("application/json")),
    },
}
"""The fields that are read, and how it shows that they are."""

ELSEWHERE = {
    "store": "test_openai_stored.py",
    "conversation": "test_openai_stored.py",
    "previous_response_id": "test_openai.py",
    "include_usage": "test_openai.py",
    "parallel_tool_calls": "../dialects/prompts.py",
}
"""Fields that are read, and the tests in which that shows."""

NOTHING: dict[str, list[Json]] = {
    "n": [1],
    "logprobs": [False],
    "top_logprobs": [0],
    "logit_bias": [{}],
    "modalities": [["text"]],
    "background": [False],
    "image": [{}, {"context_compression": "auto"}],
    "reasoning": [{}, {"mode": "standard"}],
    "text": [{}],
    "stream_options": [{}],
}
"""Values that ask for what happens anyway; all others of these fields are refused."""


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture(scope="module")
def live() -> Iterator[tuple[Live, ScriptedModel]]:
    model = ScriptedModel(["{}"] * 20_000)
    with serving(app(Agent("bot", model=model, tools=[add]))) as live:
        yield live, model


def is_read(endpoint: str, place: str) -> bool:
    """Whether a field, or one that it stands in, is read."""
    known = {**READ["both"], **READ[endpoint], **ELSEWHERE, "stream_options.include_usage": None}
    parts = place.split(".")
    return any(".".join(parts[:count]) in known for count in range(1, len(parts) + 1))


# --- values of a type, one optional part at a time


class Sample(NamedTuple):
    """A value, and the dotted place of what it has beside what must be there."""

    place: str
    value: Json


def samples(kind: Any, place: str, depth: int = 0) -> Iterator[Sample]:
    """Values of a type, such that each part of it occurs in one of them."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (typing_extensions.Required, typing_extensions.NotRequired):
        yield from samples(arguments[0], place, depth)
    elif origin in (Union, types.UnionType):
        for each in arguments:
            if each is not types.NoneType:
                yield from samples(each, place, depth)
    elif origin is Literal:
        # the names of OpenAI's models are as good as any
        yield from (Sample(place, value) for value in arguments[: 3 if place == "model" else None])
    elif origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        yield from (Sample(p, [value]) for p, value in samples(arguments[0], place, depth))
    elif origin is dict:
        for _, value in samples(arguments[1], place, depth):
            yield Sample(place, {"type": value} if arguments[1] is object else {"a": value})
    elif typing_extensions.is_typeddict(kind):
        yield from _typed_samples(kind, place, depth)
    else:
        simple: dict[object, Json] = {
            str: "sample", int: 7, float: 0.7, bool: True, object: "object",
        }  # fmt: skip
        assert kind in simple, (kind, place)
        yield Sample(place, simple[kind])
        if kind is bool:
            yield Sample(place, False)


def _typed_samples(kind: Any, place: str, depth: int) -> Iterator[Sample]:
    hints = get_type_hints(kind, include_extras=True)
    inner = {
        name: list(islice(samples(hint, f"{place}.{name}", depth + 1), 40))
        for name, hint in hints.items()
    }
    base: JsonObject = {
        name: values[0].value
        for name, values in inner.items()
        if values and _is_required(kind, name, hints[name])
    }
    yield Sample(place, base)
    # deep in the items of a history one value for each part is enough
    many = None if depth == 0 else 1
    for name, values in inner.items():
        yield from (Sample(p, {**base, name: value}) for p, value in values[:many])


def _is_required(kind: Any, name: str, hint: object) -> bool:
    return get_origin(hint) is typing_extensions.Required or name in kind.__required_keys__


def fields_of(endpoint: str) -> dict[str, Any]:
    return {**get_type_hints(TYPES[endpoint], include_extras=True), "stream": bool}


# --- the law


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_the_server_knows_the_fields_of_the_client_and_no_others(endpoint: str) -> None:
    assert set(FIELDS[endpoint]) == set(fields_of(endpoint))  # type: ignore[index]


def item_type(value: Json) -> str:
    """The type of the first item of a list; empty where it has none."""
    first = value[0] if isinstance(value, list) and value else None
    return str(first.get("type", "")) if isinstance(first, dict) else ""


def judge(endpoint: str, place: str, value: Json, got: httpx2.Response) -> str:
    """What became of a field, in a word; what the law forbids begins with `wrong`."""
    name = place.split(".")[0]
    if 400 <= got.status_code < 500:
        error = got.json()["error"]
        # the runtime names a call that nobody waits for, not the message that brings its result
        is_named = name in (error["param"] or "") or name in ("messages", "input")
        is_clear = error["message"] and is_named
        return "refused" if is_clear else f"wrong: {got.text}"
    if got.status_code != 200:
        return f"wrong: {got.status_code} {got.text}"
    tool = re.sub(r"^tools\.(function\.)?", "tools.", place)
    listed = any(place == one or place.startswith(f"{one}.") for one in NO_EFFECT)
    if listed or tool in NO_EFFECT:
        return "without effect"
    if value in NOTHING.get(name, ()) or name == "stream" or is_read(endpoint, place):
        return "read"
    return "wrong: taken, and neither read nor listed"


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_every_field_is_read_or_listed_or_refused(
    live: tuple[Live, ScriptedModel], endpoint: str
) -> None:
    server, _ = live
    told: dict[str, list[object]] = {}
    with server.client() as client:
        for name, kind in fields_of(endpoint).items():
            unread: set[str] = set()
            for place, value in samples(kind, name):
                # an item of a type that is refused by itself is refused with more in it
                if item_type(value) in unread - {""}:
                    continue
                got = client.post(PATHS[endpoint], json={**LEAST[endpoint], name: value})
                told.setdefault(judge(endpoint, place, value, got), []).append((place, value))
                if place == name and got.status_code == 422:
                    unread.add(item_type(value))
    assert set(told) == {"read", "without effect", "refused"}, {
        name: values for name, values in told.items() if name.startswith("wrong")
    }


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_what_is_read_shows(live: tuple[Live, ScriptedModel], endpoint: str) -> None:
    server, model = live
    with server.client() as client:
        for place, (value, shows) in {**READ["both"], **READ[endpoint]}.items():
            name = place.split(".")[0]
            got = client.post(PATHS[endpoint], json={**LEAST[endpoint], name: value})
            assert got.status_code == 200, (place, got.text)
            assert shows(got.json(), model.wires[-1]), (place, got.text, model.wires[-1])
    assert set(OPTIONS) <= {*READ["both"], *READ["chat"], *READ["responses"], *ELSEWHERE}


@pytest.mark.parametrize(("name", "file"), ELSEWHERE.items())
def test_what_shows_elsewhere_is_tested_there(name: str, file: str) -> None:
    assert name in (Path(__file__).parent / file).read_text()


def test_what_has_no_effect_is_what_the_docs_list() -> None:
    section = DOCS.read_text().split("### Fields without effect")[1].split("\n## ")[0]
    listed = [
        re.findall(r"`([\w.]+)`", row.split("|")[1])
        for row in section.splitlines()
        if row.startswith("| `")
    ]
    assert sorted(name for row in listed for name in row) == sorted(NO_EFFECT)


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_a_field_of_the_other_endpoint_is_refused(
    live: tuple[Live, ScriptedModel], endpoint: str
) -> None:
    server, _ = live
    with server.client() as client:
        name = "input" if endpoint == "chat" else "messages"
        got = client.post(PATHS[endpoint], json={**LEAST[endpoint], name: "x"})
    assert got.status_code == 422
    assert "it is a field of /v1/" in got.json()["error"]["message"]
