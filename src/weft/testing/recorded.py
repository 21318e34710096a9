"""A model whose exchanges are recorded once and replayed for ever.

The first run asks the real model and writes each request with its answer to a file. Later runs
read the file and ask nobody. A request that is not in it is an error that shows how it differs from
the nearest recorded one. Keys and other secrets are replaced before anything is written; headers
are never part of it.
"""

import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, cast, get_args

import msgspec

from weft.content import Content, Part
from weft.detect.find import replace_found
from weft.detect.kinds import Detection, check_kinds, kinds_named
from weft.dialects import facts_for, wire_name
from weft.errors import DeclarationError, SessionError, UnrecordedRequest, describe_kind
from weft.ir import ModelResponse, Prompt
from weft.late import late_pattern
from weft.misuse import explain_calls, suggest_names
from weft.models import Model
from weft.models.registry import model_for
from weft.models.services import environment_keys
from weft.values import Json, JsonObject, compact

RecordMode = Literal["once", "replay", "new"]
"""once: record if there is no file, else replay. replay: never ask. new: record what is missing."""

VERSION = 1

MOST_DIFFERENCES = 12
"""How many differences to the nearest request an error lists."""

_MODES: tuple[str, ...] = get_args(RecordMode)

_OPAQUE = frozenset(
    ("signature", "thoughtSignature", "thought_signature", "encrypted_content", "data",
     "file_data", "image_url", "id", "tool_use_id", "tool_call_id", "call_id")
)  # fmt: skip
"""Fields with random letters that are not secret, and must come back unchanged."""

_RANDOM_ID = late_pattern("adk-[0-9a-f]{32}")
"""Ids that the runtime gives to calls whose provider gives none."""


class RecordedExchange(NamedTuple):
    """A request as it is kept, and the responses it got: partial ones first, then the whole."""

    model: str
    request: JsonObject
    responses: tuple[ModelResponse, ...]

    @property
    def key(self) -> str:
        """What a request is found by."""
        return _key(self.model, self.request)


class RecordedModel:
    """Stands for a model, by its name or as an object, and keeps what it said in a file.

        model = RecordedModel("local", "tests/trip.jsonl")

    The file is JSON, one exchange a line, with sorted keys: it can be read, reviewed and merged.
    Commit it with the test. Errors that a model raises are not recorded.
    """

    @explain_calls('RecordedModel("local", "tests/trip.jsonl")')
    def __init__(
        self,
        model: str | Model,
        path: str | os.PathLike[str],
        *,
        mode: RecordMode = "once",
        secrets: Iterable[str] = ("secrets",),
    ) -> None:
        if mode not in _MODES:
            near = suggest_names(str(mode), _MODES, most=1, cutoff=0.3, quote="'")
            raise DeclarationError(
                f"{mode!r} is not a mode",
                where="RecordedModel.mode",
                hint=near or f"modes are {', '.join(_MODES)}",
            )
        self._model = model if isinstance(model, str) else _require_model(model)
        self.path = Path(path)
        self.mode: RecordMode = mode
        names = tuple(secrets)
        check_kinds(names, where="RecordedModel.secrets")
        self._kinds = kinds_named(names)
        self._lock = Lock()
        self._turns: dict[str, int] = {}
        self._asked: set[str] = set()
        self.exchanges: list[RecordedExchange] = []
        self.wires: list[JsonObject] = []
        """The requests that were sent, in order."""
        exists = self.path.exists()
        if mode == "replay" and not exists:
            raise SessionError(
                "there is no recording to replay",
                where=str(self.path),
                hint='record it first: leave `mode` out, or mode="new"',
            )
        self._records = mode == "new" or not exists
        if exists:
            self.exchanges = list(_read(self.path))
        self._by_key: dict[str, list[RecordedExchange]] = {}
        for exchange in self.exchanges:
            self._by_key.setdefault(exchange.key, []).append(exchange)

    @property
    def name(self) -> str:
        """The model's name, as requests carry it."""
        return wire_name(self._model) if isinstance(self._model, str) else self._model.name

    @property
    def dialect(self) -> str:
        """The dialect its requests are written in."""
        if isinstance(self._model, str):
            return facts_for(self._model).dialect
        return self._model.dialect

    @property
    def unused(self) -> list[RecordedExchange]:
        """The exchanges that nobody asked for: what the program no longer does."""
        return [one for one in self.exchanges if one.key not in self._asked]

    async def generate(
        self, prompt: Prompt, wire: dict[str, Json], *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Replay the answer to this request, or ask for it and record it."""
        self.wires.append(wire)
        cover = _Cover(self._kinds)
        request = cast("JsonObject", cover.hide_secrets(wire))
        model = wire_name(prompt.model)
        exchange = self._next_exchange(_key(model, request))
        if exchange is not None:
            for response in _replay_responses(exchange.responses, stream=stream):
                yield cover.restore_secrets(response)
            return
        if not self._records:
            raise self._unrecorded_request(model, request)
        responses: list[ModelResponse] = []
        async for response in self._real().generate(prompt, wire, stream=stream):
            responses.append(response)
            if not response.partial:  # it is in the file before the run goes on
                self._record(
                    RecordedExchange(model, request, tuple(map(cover.hide_in_response, responses)))
                )
            yield response

    def _real(self) -> Model:
        if isinstance(self._model, str):
            return model_for(self._model, where="RecordedModel")
        return self._model

    def _next_exchange(self, key: str) -> RecordedExchange | None:
        """The next answer to this request; the same request asked again goes round."""
        with self._lock:
            exchanges = self._by_key.get(key)
            if not exchanges:
                return None
            turn = self._turns.get(key, 0)
            # In a recording run what was asked twice is recorded twice.
            if self._records and turn >= len(exchanges) and self.mode == "once":
                return None
            self._turns[key] = turn + 1
            self._asked.add(key)
            return exchanges[turn % len(exchanges)]

    def _record(self, exchange: RecordedExchange) -> None:
        with self._lock:
            self.exchanges.append(exchange)
            key = exchange.key
            listed = self._by_key.setdefault(key, [])
            listed.append(exchange)
            self._turns[key] = len(listed)
            self._asked.add(key)
            # a file that is there and empty needs its head too
            new = not self.path.exists() or not self.path.stat().st_size
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                if new:
                    file.write(_line({"recorded": self.name, "version": VERSION}))
                file.write(_line(_as_json(exchange)))

    def _unrecorded_request(self, model: str, request: JsonObject) -> UnrecordedRequest:
        """The error for a request that is not in the file, with the diff to the nearest one."""
        sent = _leaves({"model of the request": model, **request})
        nearest: tuple[float, int, dict[str, str]] | None = None
        for number, exchange in enumerate(self.exchanges, 1):
            leaves = _leaves({"model of the request": exchange.model, **exchange.request})
            common = len(leaves.items() & sent.items())
            likeness = common / max(1, len(leaves.keys() | sent.keys()))
            if nearest is None or likeness > nearest[0]:
                nearest = likeness, number, leaves
        hint = f'record it: mode="new", or delete {self.path.name} and run again with a key'
        if nearest is None:
            return UnrecordedRequest("nothing is recorded yet", where=str(self.path), hint=hint)
        likeness, number, leaves = nearest
        lines = list(_differences(leaves, sent))
        more = len(lines) - MOST_DIFFERENCES
        listing = "\n".join(f"  {line}" for line in lines[:MOST_DIFFERENCES])
        rest = f"\n  ... and {more} more" if more > 0 else ""
        return UnrecordedRequest(
            f"this request is not recorded; exchange {number} of {len(self.exchanges)} is the"
            f" nearest ({likeness:.0%} alike):\n{listing}{rest}",
            where=str(self.path),
            hint=hint,
        )


def _require_model(model: object) -> Model:
    if not isinstance(model, Model):
        raise DeclarationError(
            f"{describe_kind(model)} is not a model",
            where="RecordedModel.model",
            hint='pass a name such as "local", or a weft.Model',
        )
    return model


def _replay_responses(
    responses: Iterable[ModelResponse], *, stream: bool
) -> Iterator[ModelResponse]:
    """The responses as somebody asks for them: deltas only where they are wanted."""
    partial = [one for one in responses if one.partial]
    whole = [one for one in responses if not one.partial]
    if stream and partial:
        yield from partial
    elif stream:
        for response in whole:
            for part in (response.content.parts if response.content else None) or ():
                if part.kind in ("text", "thought") and part.text:
                    delta = Part(text=part.text, thought=part.thought)
                    content = Content(parts=(delta,), role="model")
                    yield ModelResponse(content=content, partial=True)
    yield from whole


# --- the file


def _key(model: str, request: JsonObject) -> str:
    return json.dumps([model, request], sort_keys=True)


def _line(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n"


def _as_json(exchange: RecordedExchange) -> JsonObject:
    responses = cast("list[Json]", [msgspec.to_builtins(one) for one in exchange.responses])
    return {"model": exchange.model, "request": exchange.request, "responses": responses}


def _read(path: Path) -> Iterator[RecordedExchange]:
    """The exchanges of a file; an error names the line."""
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = cast("object", json.loads(line))
            if not isinstance(value, dict):
                raise ValueError(f"got {describe_kind(value)}")
            fields = cast("JsonObject", value)
            if "recorded" in fields:
                _require_version(fields, where)
                continue
            responses = msgspec.convert(fields["responses"], list[ModelResponse])
            model, request = str(fields["model"]), fields["request"]
            if not isinstance(request, dict) or not responses or responses[-1].partial:
                raise ValueError("an exchange is a request and its whole answer")
            yield RecordedExchange(model, request, tuple(responses))
        except (ValueError, KeyError, RecursionError) as error:
            missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise SessionError(
                f"this is not a recorded exchange: {missing}",
                where=where,
                hint="delete the line, or the file, and record it again",
            ) from None


def _require_version(fields: JsonObject, where: str) -> None:
    version = fields.get("version")
    if version != VERSION:
        raise SessionError(
            f"version {version} of a recording is not known here",
            where=where,
            hint="record it again, or update weft",
        )


# --- secrets


class _Cover:
    """Replaces the secrets of one exchange by placeholders, and puts them back into answers.

    A placeholder says the kind and two bytes of a hash: enough to tell two keys apart, too little
    to guess one. The value of an environment variable is called by the variable's name, so that
    another machine's key fits too.
    """

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self._kinds = kinds
        self._values: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._environment = environment_keys()

    def hide_secrets(self, value: Json, field: str = "") -> Json:
        """The value without secrets."""
        if isinstance(value, str):
            value = _RANDOM_ID.sub(self._number_id, value)
            return value if field in _OPAQUE else self._text(value)
        if isinstance(value, dict):
            return {self._text(key): self.hide_secrets(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [self.hide_secrets(one, field) for one in value]
        return value

    def hide_in_response(self, response: ModelResponse) -> ModelResponse:
        """The response as it is written."""
        return _change_response(response, self.hide_secrets)

    def restore_secrets(self, response: ModelResponse) -> ModelResponse:
        """The response with the secrets that its request had."""
        return _change_response(response, self._restore_ids) if self._values else response

    def _text(self, text: str) -> str:
        # keys of the environment first: their names fit on another machine, hashes do not
        for value, name in self._environment.items():
            if value in text:
                placeholder = f"[key:{name}]"
                self._values[placeholder] = value
                text = text.replace(value, placeholder)
        return replace_found(text, self._kinds, self._replace_secret)

    def _replace_secret(self, one: Detection) -> str:
        digest = hashlib.sha256(one.value.encode("utf-8", "surrogatepass")).hexdigest()[:4]
        placeholder = f"[{one.kind}:{digest}]"
        self._values[placeholder] = one.value
        return placeholder

    def _number_id(self, match: re.Match[str]) -> str:
        """An id that Weft made up, by its number in the request: every run makes up another."""
        return self._ids.setdefault(match[0], f"call-{len(self._ids) + 1}")

    def _restore_ids(self, value: Json) -> Json:
        if isinstance(value, str):
            for placeholder, secret in self._values.items():
                value = value.replace(placeholder, secret)
            return value
        if isinstance(value, dict):
            return {key: self._restore_ids(one) for key, one in value.items()}
        return [self._restore_ids(one) for one in value] if isinstance(value, list) else value


def _change_response(response: ModelResponse, change: Callable[[Json], Json]) -> ModelResponse:
    before = _builtins(msgspec.to_builtins(response))
    after = change(before)
    return response if after == before else msgspec.convert(after, ModelResponse)


def _builtins(value: object) -> Json:
    """The value as JSON has it: tuples are lists."""
    if isinstance(value, dict):
        return {key: _builtins(one) for key, one in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_builtins(one) for one in cast("list[object]", value)]
    return cast("Json", value)


# --- differences


def _leaves(value: Json, at: str = "") -> dict[str, str]:
    """The values of a request by their places."""
    if isinstance(value, Mapping) and value:
        return {
            place: text
            for key, one in value.items()
            for place, text in _leaves(one, f"{at}/{key}").items()
        }
    if isinstance(value, list) and value:
        return {
            place: text
            for index, one in enumerate(value)
            for place, text in _leaves(one, f"{at}/{index}").items()
        }
    return {at: compact(value)}


def _differences(recorded: Mapping[str, str], sent: Mapping[str, str]) -> Iterator[str]:
    """What is other in the request that was sent, place by place."""
    for place in sorted(recorded.keys() | sent.keys(), key=_by_place):
        one, other = recorded.get(place), sent.get(place)
        if one == other:
            continue
        if other is None:
            yield f"{place}: not sent, recorded {_near(one or '', '')}"
        elif one is None:
            yield f"{place}: not recorded, sent {_near(other, '')}"
        else:
            yield f"{place}: recorded {_near(one, other)}, sent {_near(other, one)}"


def _by_place(place: str) -> list[tuple[int, int, str]]:
    return [(0, int(step), "") if step.isdigit() else (1, 0, step) for step in place.split("/")]


def _near(text: str, other: str, room: int = 60) -> str:
    """A text around the place where it differs from another."""
    if len(text) <= room:
        return text
    pairs = zip(text, other, strict=False)
    same = next((at for at, (one, two) in enumerate(pairs) if one != two), 0)
    start = max(0, same - room // 3)
    piece = text[start : start + room]
    return f"{'...' if start else ''}{piece}{'...' if start + room < len(text) else ''}"
