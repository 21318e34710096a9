"""The final answer: what it must be, and what is kept of it."""

from collections.abc import Iterable
from typing import cast

import msgspec

from weft import schema
from weft.compiler.plan import SET_RESPONSE
from weft.content import Content, Part
from weft.declare import Agent
from weft.errors import SchemaError
from weft.ir import Output
from weft.session import Event
from weft.values import Json, JsonObject, compact

RETRIES = 2
"""How often a bad answer is returned to the model with what is wrong with it."""


CUT = "MAX_TOKENS"
"""The finish reason of an answer that has as many tokens as it may have."""

GO_ON = Content(
    parts=(
        Part(
            text="Your answer was cut off at the token limit. Go on exactly where it stopped:"
            " repeat nothing, and say nothing else."
        ),
    ),
    role="user",
)


class FinalAnswer(msgspec.Struct, frozen=True):
    """A checked answer: the state it writes, the value it stands for, or what is wrong with it.

    `stored` is the answer as it can be stored: its text, or JSON where it has a schema.
    """

    delta: JsonObject
    value: object = None
    problem: str = ""
    stored: Json = None


def spoken(content: Content, output: Output | None) -> Content:
    """The answer with a lone `set_model_response` call spelled out as the text it stands for.

    The tool is only the way a model without native schemas gives its answer: as text it is in
    the log once, and every other model can read it.
    """
    if output is None or output.how != "tool":
        return content
    calls = [part for part in content.parts or () if part.function_call is not None]
    if len(calls) != 1:
        return content
    call = calls[0].function_call
    if call is None or call.name != SET_RESPONSE or call.args is None:
        return content
    spelled = msgspec.structs.replace(calls[0], function_call=None, text=compact(call.args))
    parts = tuple(spelled if part is calls[0] else part for part in content.parts or ())
    # words beside the call are no part of the answer: they would spoil its JSON
    parts_kept = tuple(part for part in parts if part is spelled or not part.text or part.thought)
    return Content(parts=parts_kept, role=content.role)


def check_answer(agent: Agent, content: Content, output: Output | None) -> FinalAnswer:
    """The answer against the agent's schema, and the state it is kept under."""
    text = content.text
    key = agent.output_key
    if agent.output_schema is None or output is None:
        return FinalAnswer({key: text} if key is not None and text else {}, stored=text or None)
    try:
        json_value, value = parse(agent, text, wrapped=output.wrapped)
    except SchemaError as error:
        return FinalAnswer(
            {}, problem=f"{error.message}; {error.hint}" if error.hint else error.message
        )
    return FinalAnswer({key: json_value} if key is not None else {}, value, stored=json_value)


def parse(agent: Agent, text: str, *, wrapped: bool | None) -> tuple[Json, object]:
    """The answer as JSON and as the schema's own type, or a SchemaError.

    `wrapped` says whether it was asked for under `result`; None: nobody knows any more.
    """
    where = f"{agent.name}.output_schema"
    try:
        json_value = cast("Json", msgspec.json.decode(_bare(text)))
    except msgspec.DecodeError as error:
        raise SchemaError(f"the answer is not JSON: {error}", where=where) from None
    if wrapped is not False and isinstance(json_value, dict) and set(json_value) == {"result"}:
        if wrapped is None:  # the schema may have one field of that name
            try:
                return json_value, schema.validate_value(
                    agent.output_schema, json_value, where=where
                )
            except SchemaError:
                pass
        # a schema that is no object was asked for under this name
        json_value = json_value["result"]
    value = schema.validate_value(agent.output_schema, json_value, where=where)
    return json_value, value


def is_cut(event: Event) -> bool:
    """Whether the event is an answer that was cut off and is kept as it is."""
    if event.finish_reason != CUT or event.calls or event.void:
        return False
    return not is_piece(event)


def is_piece(event: Event) -> bool:
    """Whether the event belongs to an answer that comes in pieces, and is not all of it."""
    return event.provenance.piece is not None


def put_together(pieces: Iterable[Content], last: Content) -> Content:
    """The pieces of an answer and the last of them as one.

    Thoughts of the earlier ones are left out: they stand in the log where they were thought.
    """
    text = ""
    parts: list[Part] = []
    for piece in pieces:
        text += piece.text
        parts += [part for part in piece.parts or () if part.kind not in ("text", "thought")]
    rest = list(last.parts or ())
    for at, part in enumerate(rest):
        if part.kind == "text":
            rest[at] = Part(text=f"{text}{part.text}")
            break
    else:
        at = next((i for i, part in enumerate(rest) if part.function_call), len(rest))
        rest.insert(at, Part(text=text))
    return Content(parts=(*parts, *rest), role="model")


def _bare(text: str) -> str:
    """JSON without the code fence some models put around it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3].strip()
    return text


def correction(problem: str) -> Content:
    """What the model is told about a bad answer."""
    text = f"This answer does not fit the schema: {problem}. Answer again with JSON that does."
    return Content(parts=(Part(text=text),), role="user")


def is_empty(content: Content | None) -> bool:
    """Whether a model said nothing, whatever it thought."""
    for part in (content.parts or ()) if content is not None else ():
        if (part.text and not part.thought) or part.kind not in ("empty", "thought"):
            return False
    return True
