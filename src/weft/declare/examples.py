"""Examples: short conversations that show a model how its agent answers.

They are checked where they are written: a call must name a tool of the agent and fit its
parameters, an answer must fit the agent's schema. An example that could not happen teaches a model
to do what is refused.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from weft import schema
from weft.errors import DeclarationError, SchemaError, SessionError
from weft.jsonschema import shorten, validator
from weft.misuse import DeclaredStruct, explain_mistakes
from weft.values import Json, JsonObject, has_lone_surrogate, require_json, require_object

if TYPE_CHECKING:
    from weft.declare.agent import Agent

_FORM = 'write ("question", "answer"), or Example("question", "answer", calls=[...])'

_CALL_FORM = 'write ExampleCall("tool", {"argument": 1}, "what it returns")'


@explain_mistakes(
    'ExampleCall("tool", {"argument": 1}, "what it returns")', words={"arguments": "args"}
)
class ExampleCall(DeclaredStruct, frozen=True):
    """A tool call in an example, and what it returned."""

    name: str
    args: JsonObject = {}
    result: Json = ""

    @property
    def response(self) -> JsonObject:
        """The result as a tool's is: an object."""
        return self.result if isinstance(self.result, dict) else {"result": self.result}


@explain_mistakes(
    'Example("question", "answer")',
    words={"input": "user", "question": "user", "output": "answer", "tool_calls": "calls"},
)
class Example(DeclaredStruct, frozen=True):
    """What a user may say, which tools are called then, and what is answered.

    With an `output_schema` the answer is a value of it.
    """

    user: str
    answer: object
    calls: tuple[ExampleCall, ...] = ()


def check_examples(agent: str, field: str, values: object) -> tuple[Example, ...]:
    """Examples, pairs and dicts as examples; what they say is checked with the whole agent."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise DeclarationError(
            f"{field} is not a list",
            where=f"{agent}.{field}",
            hint=f'write {field}=[("question", "answer")]',
        )
    listed = list(cast("Iterable[object]", values))
    return tuple(_example(one, f"{agent}.{field}[{at}]") for at, one in enumerate(listed))


def _example(value: object, where: str) -> Example:
    if isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, object]", value))
        unknown = next((name for name in fields if name not in Example.__struct_fields__), None)
        if unknown is not None or not {"user", "answer"} <= fields.keys():
            raise DeclarationError(
                f"`{unknown}` is not part of an example"
                if unknown is not None
                else "an example has `user` and `answer`",
                where=where,
                hint='write {"user": "...", "answer": "...", "calls": [...]}',
            )
        value = Example(**fields)  # type: ignore[arg-type]
    elif isinstance(value, (tuple, list)):
        pieces = tuple(cast("Iterable[object]", value))
        if len(pieces) < 2:
            raise DeclarationError(f"{value!r} is not an example", where=where, hint=_FORM)
        value = Example(
            cast("str", pieces[0]), pieces[-1], cast("tuple[ExampleCall]", pieces[1:-1])
        )
    if not isinstance(value, Example):
        raise DeclarationError(
            f"{shorten(repr(value), 60)} is not an example", where=where, hint=_FORM
        )
    if not isinstance(cast("object", value.user), str) or not value.user.strip():
        raise DeclarationError("the user says nothing", where=where, hint=_FORM)
    listed = cast("object", value.calls)
    if isinstance(listed, (str, Mapping)) or not isinstance(listed, Iterable):
        raise DeclarationError("calls is not a list", where=f"{where}.calls", hint=_CALL_FORM)
    calls = tuple(_call(one, f"{where}.calls") for one in cast("Iterable[object]", listed))
    return msgspec.structs.replace(value, calls=calls)


def _call(value: object, where: str) -> ExampleCall:
    if isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, object]", value))
        if "name" not in fields or not fields.keys() <= {*ExampleCall.__struct_fields__}:
            raise DeclarationError(f"{value!r} is not a call", where=where, hint=_CALL_FORM)
        value = ExampleCall(**fields)  # type: ignore[arg-type]
    elif isinstance(value, (tuple, list)):
        pieces = tuple(cast("Iterable[object]", value))
        if not 1 <= len(pieces) <= 3:
            raise DeclarationError(f"{value!r} is not a call", where=where, hint=_CALL_FORM)
        value = ExampleCall(*pieces)  # type: ignore[arg-type]
    if not isinstance(value, ExampleCall) or not isinstance(cast("object", value.name), str):
        raise DeclarationError(f"{value!r} is not a call", where=where, hint=_CALL_FORM)
    args = require_object(value.args, where=f"{where}.args", refuse=DeclarationError)
    result = require_json(value.result, where=f"{where}.result", refuse=DeclarationError)
    return ExampleCall(value.name, args, result)


def fit_examples(agent: "Agent") -> tuple[Example, ...]:
    """The examples of an agent, each answer as text or JSON, or an error for one that cannot be."""
    tools = {tool.name: tool for tool in agent.tools}
    fitted: list[Example] = []
    for at, example in enumerate(agent.examples):
        where = f"{agent.name}.examples[{at}]"
        for call in example.calls:
            tool = tools.get(call.name)
            if tool is None:
                raise DeclarationError(
                    f"it calls `{call.name}`, which is not a tool of the agent",
                    where=where,
                    hint=f"the agent has: {', '.join(tools) or 'none'}",
                )
            problem = next(iter(validator(tool.parameters).iter_errors(call.args)), None)
            if problem is not None:
                raise DeclarationError(
                    f"the arguments of `{call.name}` do not fit its parameters: {problem.message}",
                    where=where,
                    hint="give the arguments that a model would give",
                )
        answer = _answer(agent, example.answer, where)
        if has_lone_surrogate(example.user + str(answer)):
            raise DeclarationError("the text holds a lone surrogate", where=where, hint="mend it")
        fitted.append(msgspec.structs.replace(example, answer=answer))
    return tuple(fitted)


def _answer(agent: "Agent", answer: object, where: str) -> Json:
    if agent.output_schema is None:
        if not isinstance(answer, str) or not answer.strip():
            raise DeclarationError(
                f"the answer is {shorten(repr(answer), 60)}, not text",
                where=where,
                hint="pass text, or give the agent an output_schema",
            )
        return answer
    try:
        value = require_json(_plain(answer), where=where)
        schema.validate_value(agent.output_schema, value, where=where)
    except (SessionError, SchemaError) as error:
        raise DeclarationError(
            f"the answer does not fit the agent's output_schema: {error.message}",
            where=where,
            hint=error.hint or "pass a value of the schema",
        ) from None
    return value


def _plain(value: object) -> object:
    """A value of a user's type as JSON has it."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    return msgspec.to_builtins(value)
