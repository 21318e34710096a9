"""Answers that somebody between the provider and its client changes: whole, and as they stream.

One tool's calls are taken out of an answer, several answers become one, and what was taken out is
put back into the conversation that the client sends next. All else stays as it came.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from weft.dialects.base import Dialect
from weft.dialects.facts import DIALECTS
from weft.dialects.stream import Stream
from weft.dialects.wire import drop_fields, object_in, objects_in, text_in
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.dialects.weave import AnswerWeave


class AnswerShape:
    """Where a dialect's answers and turns have what they say; a piece is a text, a call, ...

    Turns are the elements of a request's conversation. `model_role` is who says an answer in them.
    """

    model_role: ClassVar[str] = "assistant"
    list_field: ClassVar[str] = "content"
    usage_field: ClassVar[str] = "usage"
    end_types: ClassVar[tuple[str, ...]] = ()
    """The types of the events that end a stream, where it does not just end or say `[DONE]`."""

    # Answers.

    def turns_of(self, body: JsonObject) -> list[JsonObject]:
        """A whole answer as the elements of the next request."""
        return [{"role": self.model_role, "content": body.get("content")}]

    def put_turns(self, body: JsonObject, turns: Sequence[JsonObject]) -> JsonObject:
        """The answer with other turns."""
        return {**body, "content": [*self.open_turns(turns)]}

    def usage_of(self, body: JsonObject) -> JsonObject:
        """What the provider counted."""
        return object_in(body.get(self.usage_field))

    def hide_calls(self, body: JsonObject, name: str) -> JsonObject:
        """The answer without the calls of a tool."""
        if not name:
            return body
        turns = self.turns_of(body)
        pieces = [one for one in self.open_turns(turns) if self.call_name(one) != name]
        return self.put_turns(body, self.close_turns(turns, pieces))

    def join(self, first: JsonObject, then: JsonObject) -> JsonObject:
        """Two answers as one: what both say, the end of the second, and the sum of both bills."""
        turns = self.turns_of(first)
        pieces = [*self.open_turns(turns), *self.open_turns(self.turns_of(then))]
        total = add_counts(self.usage_of(first), self.usage_of(then))
        joined = self.put_turns(then, self.close_turns(turns, pieces))
        return {**joined, self.usage_field: total} if total else joined

    # Turns.

    def is_model(self, turn: Json) -> bool:
        """Whether an element of the conversation is the model's."""
        return isinstance(turn, dict) and turn.get("role") == self.model_role

    def open_turns(self, turns: Sequence[JsonObject]) -> list[JsonObject]:
        """The pieces of a run of the model's elements."""
        pieces: list[JsonObject] = []
        for turn in turns:
            inner = turn.get(self.list_field)
            if isinstance(inner, str):
                pieces.append({"type": "text", "text": inner})
            pieces += objects_in(inner)
        return pieces

    def close_turns(
        self, turns: Sequence[JsonObject], pieces: Sequence[JsonObject]
    ) -> list[JsonObject]:
        """Elements that have other pieces; none where nothing is left."""
        return [{**turns[0], self.list_field: [*pieces]}] if pieces else []

    def result_turns(self, results: Sequence[JsonObject]) -> list[JsonObject]:
        """Results, each as `weft.compact` answers a call, as elements of the conversation."""
        return [{"role": "user", self.list_field: [*results]}]

    def add_results(
        self, rest: Sequence[Json], results: Sequence[JsonObject], place: int
    ) -> list[Json]:
        """What follows an answer, with results next to those that are there."""
        first = object_in(rest[0]) if rest else {}
        pieces = first.get(self.list_field)
        if not isinstance(pieces, list) or not any(map(self.is_result, pieces)):
            return [*self.result_turns(results), *rest]
        places = [at for at, one in enumerate(pieces) if self.is_result(one)]
        at = places[place] if place < len(places) else places[-1] + 1
        mixed: JsonObject = {**first, self.list_field: [*pieces[:at], *results, *pieces[at:]]}
        return [mixed, *rest[1:]]

    def is_result(self, piece: Json) -> bool:
        """Whether a piece is the result of a call."""
        return isinstance(piece, dict) and piece.get("type") == "tool_result"

    def call_name(self, piece: JsonObject) -> str:
        """The tool that a piece calls; "" where it is not a call of the client's tools."""
        return text_in(piece.get("name")) if piece.get("type") == "tool_use" else ""

    # Streams.

    def stream(self) -> Stream:
        """A reader for one streamed answer."""
        return self.dialect.stream()

    dialect: Dialect

    def is_end(self, event: Json) -> bool:
        """Whether an event is the last one of an answer."""
        return isinstance(event, dict) and event.get("type") in self.end_types

    def edit_event(self, event: JsonObject, weave: "AnswerWeave") -> list[JsonObject]:
        """The events that go on for one that came; what ends the answer waits in `weave`."""
        raise NotImplementedError

    def close_events(self, weave: "AnswerWeave", total: JsonObject) -> list[JsonObject]:
        """The events that end the whole answer, with the sum of what was counted."""
        raise NotImplementedError

    def error_event(self, message: str) -> JsonObject:
        """An event, or a body, that says that the answer failed."""
        return {"error": {"message": message, "type": "api_error", "code": None, "param": None}}

    def limit_body(self, message: str) -> JsonObject:
        """The body of a 429, as the provider's clients read it."""
        return {
            "error": {
                "message": message,
                "type": "rate_limit_exceeded",
                "code": "rate_limit_exceeded",
                "param": None,
            }
        }

    def text_fields(self, event: JsonObject) -> Iterator["TextField"]:
        """The pieces of text in an event that go on in the next one."""
        raise NotImplementedError


class TextField(NamedTuple):
    """A growing text in an event: what it belongs to, the object that has it, and its key there."""

    channel: str
    holder: JsonObject
    key: str


def add_counts(one: JsonObject, other: JsonObject) -> JsonObject:
    """The sum of two reports of usage; what is not a number is as the later one has it."""
    total: JsonObject = {**one}
    for key, value in other.items():
        before = total.get(key)
        if isinstance(value, dict):
            total[key] = add_counts(object_in(before), value)
        elif _is_count(value) and _is_count(before):
            total[key] = before + value  # type: ignore[operator]
        elif value is not None or key not in total:
            total[key] = value
    return total


def _is_count(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class AnthropicShape(AnswerShape):
    """Blocks of content, each with its index in a stream."""

    end_types: ClassVar[tuple[str, ...]] = ("message_stop",)

    def edit_event(self, event: JsonObject, weave: "AnswerWeave") -> list[JsonObject]:
        """Blocks are counted through all answers; only the first begins the message."""
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start" and weave.leg:
            return []
        if kind in ("message_delta", "message_stop"):
            weave.closing.append(event)
            return []
        if not isinstance(index, int):
            return [event]
        block = object_in(event.get("content_block"))
        if block and weave.hides(self.call_name(block)):
            weave.hidden.add(index)
        return [] if index in weave.hidden else [{**event, "index": weave.place(index)}]

    def close_events(self, weave: "AnswerWeave", total: JsonObject) -> list[JsonObject]:
        """The last word on usage is the sum."""
        return [
            {**one, "usage": total} if total and one.get("type") == "message_delta" else one
            for one in weave.closing
        ]

    def error_event(self, message: str) -> JsonObject:
        """An error is an event of its own."""
        return {"type": "error", "error": {"type": "api_error", "message": message}}

    def limit_body(self, message: str) -> JsonObject:
        """Too many requests."""
        return {"type": "error", "error": {"type": "rate_limit_error", "message": message}}

    def text_fields(self, event: JsonObject) -> Iterator[TextField]:
        """Texts and the JSON of arguments; thinking is signed, and stays as it is."""
        delta = object_in(event.get("delta"))
        for key in ("text", "partial_json"):
            if isinstance(delta.get(key), str):
                yield TextField(str(event.get("index")), delta, key)


class _LooseResults(AnswerShape):
    """What answers share whose results are elements of the conversation: messages, or items."""

    def result_turns(self, results: Sequence[JsonObject]) -> list[JsonObject]:
        """An element each."""
        return [*results]

    def add_results(
        self, rest: Sequence[Json], results: Sequence[JsonObject], place: int
    ) -> list[Json]:
        """Before those of the client's tools: their order says nothing."""
        return [*results, *rest]


class ChatShape(_LooseResults):
    """A message with a text and a list of calls."""

    def turns_of(self, body: JsonObject) -> list[JsonObject]:
        """The message, without fields that only answers have."""
        message = object_in(object_in(_first(body.get("choices"))).get("message"))
        message = {
            key: value
            for key, value in message.items()
            if value is not None and key not in ("annotations", "audio", "refusal")
        }
        return [{**message, "role": "assistant", "content": message.get("content")}]

    def put_turns(self, body: JsonObject, turns: Sequence[JsonObject]) -> JsonObject:
        """The first choice says something else."""
        choice = object_in(_first(body.get("choices")))
        message = object_in(choice.get("message"))
        turn: JsonObject = turns[0] if turns else {"content": None}
        now: JsonObject = {**message, **turn}
        if "tool_calls" not in turn:
            now.pop("tool_calls", None)
        rest = objects_in(body.get("choices"))[1:]
        return {**body, "choices": [{**choice, "message": now}, *rest]}

    def open_turns(self, turns: Sequence[JsonObject]) -> list[JsonObject]:
        """Each text of a message, then its calls."""
        pieces: list[JsonObject] = []
        for turn in turns:
            for field in _THOUGHTS:
                if text := text_in(turn.get(field)):
                    pieces.append({LOOSE_TEXT: text, "field": field})
            for one in super().open_turns([turn]):
                if text := text_in(one.get("text")):
                    pieces.append({LOOSE_TEXT: text})
            pieces += objects_in(turn.get("tool_calls"))
        return pieces

    def close_turns(
        self, turns: Sequence[JsonObject], pieces: Sequence[JsonObject]
    ) -> list[JsonObject]:
        """The message with these texts and calls."""
        if not pieces:
            return []
        turn: JsonObject = {
            key: value
            for key, value in turns[0].items()
            if key not in ("tool_calls", "content", *_THOUGHTS)
        }
        for field in _THOUGHTS:
            if text := _texts_of(one for one in pieces if one.get("field") == field):
                turn[field] = text
        text = _texts_of(one for one in pieces if LOOSE_TEXT in one and "field" not in one)
        calls: list[Json] = [one for one in pieces if LOOSE_TEXT not in one]
        turn["content"] = text or None
        return [{**turn, "tool_calls": calls} if calls else turn]

    def call_name(self, piece: JsonObject) -> str:
        """The function's name."""
        return text_in(object_in(piece.get("function")).get("name"))

    def edit_event(self, event: JsonObject, weave: "AnswerWeave") -> list[JsonObject]:
        """The chunk that says why it ended waits, and so does the bill."""
        choice = object_in(_first(event.get("choices")))
        if weave.leg:
            event = {**event, **weave.identity}
        if not choice:
            if object_in(event.get("usage")):
                weave.closing.append(event)
                return []
            return [event]
        delta: JsonObject = {**object_in(choice.get("delta"))}
        if weave.leg:
            delta.pop("role", None)
        calls: list[Json] = []
        for one in objects_in(delta.pop("tool_calls", None)):
            index = one.get("index")
            at = index if isinstance(index, int) else 0
            if weave.hides(self.call_name(one)):
                weave.hidden.add(at)
            if at not in weave.hidden:
                calls.append({**one, "index": weave.place(at)})
        if calls:
            delta["tool_calls"] = calls
        says = any(value not in (None, "", []) for value in delta.values())
        spoken: JsonObject = {
            **event,
            "choices": [{**choice, "delta": delta, "finish_reason": None}],
        }
        if choice.get("finish_reason") is not None:
            weave.closing.append({**event, "choices": [{**choice, "delta": {}}]})
            spoken.pop("usage", None)
            return [spoken] if says else []
        return [spoken] if says else []

    def close_events(self, weave: "AnswerWeave", total: JsonObject) -> list[JsonObject]:
        """The usage is the sum."""
        return [
            {**one, "usage": total} if object_in(one.get("usage")) else one for one in weave.closing
        ]

    def text_fields(self, event: JsonObject) -> Iterator[TextField]:
        """Texts and arguments of each choice."""
        for choice in objects_in(event.get("choices")):
            delta = object_in(choice.get("delta"))
            for key in ("content", "refusal"):
                if isinstance(delta.get(key), str):
                    yield TextField(f"{choice.get('index')} {key}", delta, key)
            for call in objects_in(delta.get("tool_calls")):
                function = object_in(call.get("function"))
                if isinstance(function.get("arguments"), str):
                    channel = f"{choice.get('index')} call {call.get('index')}"
                    yield TextField(channel, function, "arguments")


LOOSE_TEXT = "weft text"
"""The key of a text of a message, which is not an object there."""

_THOUGHTS = ("reasoning_content", "reasoning")


def _texts_of(pieces: Iterator[JsonObject]) -> str:
    return "".join(text_in(one.get(LOOSE_TEXT)) for one in pieces)


def _first(value: Json) -> Json:
    return value[0] if isinstance(value, list) and value else None


class ResponsesShape(_LooseResults):
    """Items, of which each is an element of the conversation."""

    end_types: ClassVar[tuple[str, ...]] = (
        *("response.completed", "response.incomplete", "response.failed", "response.cancelled"),
    )

    def turns_of(self, body: JsonObject) -> list[JsonObject]:
        """The items, without thoughts that are not sealed where the provider kept none."""
        lost = body.get("store") is False
        return [
            one
            for one in objects_in(body.get("output"))
            if not (lost and one.get("type") == "reasoning" and not one.get("encrypted_content"))
        ]

    def put_turns(self, body: JsonObject, turns: Sequence[JsonObject]) -> JsonObject:
        """Other items."""
        return {**body, "output": [*turns]}

    def hide_calls(self, body: JsonObject, name: str) -> JsonObject:
        """All items but the calls of a tool."""
        if not name:
            return body
        output = objects_in(body.get("output"))
        return self.put_turns(body, [one for one in output if self.call_name(one) != name])

    def is_model(self, turn: Json) -> bool:
        """Whether an item is the model's: it has no role, and is not an output of a tool."""
        if not isinstance(turn, dict):
            return False
        if "role" in turn:
            return turn.get("role") == self.model_role
        return not text_in(turn.get("type")).endswith("_output")

    def open_turns(self, turns: Sequence[JsonObject]) -> list[JsonObject]:
        """The items themselves."""
        return [*turns]

    def close_turns(
        self, turns: Sequence[JsonObject], pieces: Sequence[JsonObject]
    ) -> list[JsonObject]:
        """The items themselves."""
        return [*pieces]

    def call_name(self, piece: JsonObject) -> str:
        """The function's name."""
        return text_in(piece.get("name")) if piece.get("type") == "function_call" else ""

    def edit_event(self, event: JsonObject, weave: "AnswerWeave") -> list[JsonObject]:
        """Items and events are counted through all answers; only the first begins the response."""
        kind, index = text_in(event.get("type")), event.get("output_index")
        number = event.get("sequence_number")
        if weave.number is None and isinstance(number, int):
            weave.number = number
        if kind in _BEGINNINGS and weave.leg:
            return []
        if kind in self.end_types:
            weave.closing.append(event)
            return []
        if isinstance(index, int):
            if weave.hides(self.call_name(object_in(event.get("item")))):
                weave.hidden.add(index)
            if index in weave.hidden:
                return []
            event = {**event, "output_index": weave.place(index)}
        return [self._number_event(event, weave)]

    def _number_event(self, event: JsonObject, weave: "AnswerWeave") -> JsonObject:
        if weave.number is None or "sequence_number" not in event:
            return event
        weave.number += 1
        return {**event, "sequence_number": weave.number - 1}

    def close_events(self, weave: "AnswerWeave", total: JsonObject) -> list[JsonObject]:
        """The last event has all items and the sum."""
        events: list[JsonObject] = []
        for one in weave.closing:
            response = object_in(one.get("response"))
            output: list[Json] = [
                item for body in weave.bodies for item in objects_in(body.get("output"))
            ]
            whole: JsonObject = {**response, "output": output} if weave.bodies else response
            if total:
                whole["usage"] = total
            events.append(self._number_event({**one, "response": whole}, weave))
        return events

    def error_event(self, message: str) -> JsonObject:
        """An error is an event of its own."""
        return {"type": "error", "code": "server_error", "message": message, "param": None}

    def text_fields(self, event: JsonObject) -> Iterator[TextField]:
        """Texts and arguments as they grow."""
        if text_in(event.get("type")) in _DELTAS and isinstance(event.get("delta"), str):
            channel = f"{event.get('output_index')} {event.get('content_index')}"
            yield TextField(channel, event, "delta")


_BEGINNINGS = ("response.created", "response.in_progress", "response.queued")
_DELTAS = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
)


class GeminiShape(AnswerShape):
    """Parts of the first candidate."""

    model_role = "model"
    list_field = "parts"
    usage_field = "usageMetadata"

    def turns_of(self, body: JsonObject) -> list[JsonObject]:
        """The content of the first candidate."""
        content = object_in(object_in(_first(body.get("candidates"))).get("content"))
        return [{**content, "role": "model", "parts": content.get("parts") or []}]

    def put_turns(self, body: JsonObject, turns: Sequence[JsonObject]) -> JsonObject:
        """The first candidate says something else."""
        candidate = object_in(_first(body.get("candidates")))
        content: JsonObject = {**object_in(candidate.get("content"))}
        content["parts"] = [*self.open_turns(turns)]
        rest = objects_in(body.get("candidates"))[1:]
        return {**body, "candidates": [{**candidate, "content": content}, *rest]}

    def is_result(self, piece: Json) -> bool:
        """Whether a part is a function's response."""
        return isinstance(piece, dict) and (
            "functionResponse" in piece or "function_response" in piece
        )

    def call_name(self, piece: JsonObject) -> str:
        """The function's name."""
        call = piece.get("functionCall", piece.get("function_call"))
        return text_in(object_in(call).get("name"))

    def edit_event(self, event: JsonObject, weave: "AnswerWeave") -> list[JsonObject]:
        """The chunk that says why it ended waits."""
        candidate = object_in(_first(event.get("candidates")))
        content = object_in(candidate.get("content"))
        usage = object_in(event.get(self.usage_field))
        if usage and weave.total:
            event = {**event, self.usage_field: add_counts(weave.total, usage)}
        parts = [
            one for one in objects_in(content.get("parts")) if not weave.hides(self.call_name(one))
        ]
        ends = candidate.get("finishReason") is not None
        if not candidate or (parts and not ends):
            now: JsonObject = {**candidate, "content": {**content, "parts": [*parts]}}
            return [{**event, "candidates": [now]} if candidate else event]
        if ends:
            last = drop_fields(candidate, "content")
            empty: JsonObject = {"role": "model", "parts": [{"text": ""}]}
            weave.closing.append({**event, "candidates": [{**last, "content": empty}]})
        if not parts:
            return []
        spoken = {key: one for key, one in candidate.items() if key in ("index", "safetyRatings")}
        words: JsonObject = {**spoken, "content": {**content, "parts": [*parts]}}
        rest = drop_fields(event, self.usage_field)
        return [{**rest, "candidates": [words]}]

    def close_events(self, weave: "AnswerWeave", total: JsonObject) -> list[JsonObject]:
        """Each chunk has counted through already."""
        return weave.closing

    def error_event(self, message: str) -> JsonObject:
        """An error as the provider's clients read it."""
        return {"error": {"code": 500, "message": message, "status": "INTERNAL"}}

    def limit_body(self, message: str) -> JsonObject:
        """Too many requests."""
        return {"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}}

    def text_fields(self, event: JsonObject) -> Iterator[TextField]:
        """Texts; arguments come whole, and thoughts stay as they are."""
        for candidate in objects_in(event.get("candidates")):
            for part in objects_in(object_in(candidate.get("content")).get("parts")):
                if isinstance(part.get("text"), str) and not part.get("thought"):
                    yield TextField(str(candidate.get("index", 0)), part, "text")


_FORMS: dict[str, type[AnswerShape]] = {
    "anthropic": AnthropicShape,
    "openai-chat": ChatShape,
    "openai-responses": ResponsesShape,
    "gemini": GeminiShape,
}


def answer_form(dialect: str) -> AnswerShape:
    """How the answers of a dialect are taken apart."""
    form = _FORMS[dialect]()
    form.dialect = DIALECTS[dialect]
    return form
