"""Python signature or type -> JSON Schema; validation of arguments and answers.

A tool, an answer type and a hand-written JSON Schema all end as one tidy schema. A value
that does not fit is answered with every problem at once, in words a model can act on.

Of docstrings, Google's, NumPy's and reST's are read alike. Only the sections a model gets elsewhere
(parameters) or does not need (returns, raises) are taken out; notes and examples stay, because they
are what the author wanted a reader to know.
"""

import contextlib
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeAlias, cast, get_args, get_origin

import msgspec
from msgspec.structs import replace

from weft.errors import DeclarationError, SchemaError
from weft.jsonschema import (
    MAX_DEPTH,
    deeper_than,
    describe_expected,
    hoist,
    plain,
    tidy,
    validator,
    without_nulls,
)
from weft.late import late_pattern
from weft.misuse import find_near
from weft.shapes import convert, generate, is_pydantic, is_union, path_of, problems_of
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    import pydantic
    from jsonschema_rs import ValidationError


Function: TypeAlias = Callable[..., object]

CONTEXT_NAME = "tool_context"
"""A parameter of this name takes the context whatever its annotation, as in ADK."""


class Param(msgspec.Struct, frozen=True):
    """One argument a model may give; `default` only where the function does not know its own."""

    name: str
    type: object
    schema: JsonObject
    required: bool
    default: object = msgspec.UNSET


class Signature(msgspec.Struct, frozen=True):
    """What a model is told about a function, and what is needed to call it.

    `reserved` are names a model can never set, even through `**kwargs`: the context
    parameter and what a `functools.partial` has bound.
    """

    name: str
    description: str
    parameters: JsonObject
    params: tuple[Param, ...] = ()
    context_parameter: str | None = None
    is_async: bool = False
    has_docstring: bool = False
    takes_any: bool = False
    reserved: frozenset[str] = frozenset()


def of_function(
    function: Function, *, context_type: type | None, name: str | None = None, where: str = ""
) -> Signature:
    """The signature of a tool: schema from the type hints, texts from the docstring."""
    core, inner, bound = _unwrap(function)
    name = name or str(getattr(core, "__name__", type(core).__name__))
    where = where or name
    if name == "<lambda>":
        raise DeclarationError("a lambda has no name", where=where, hint='name it: name="..."')
    try:
        signature = inspect.signature(function)
        # what a partial binds by position is missing from its signature
        bound |= inspect.signature(core).parameters.keys() - signature.parameters.keys()
    except (TypeError, ValueError) as error:
        raise DeclarationError(
            f"`{name}` has no signature to read", where=where, hint="wrap it in a def"
        ) from error
    docs = read_docstring(core.__doc__ if isinstance(core, type) else inner.__doc__ or core.__doc__)
    hints = _hints(inner, context_type)
    params: list[Param] = []
    context: str | None = None
    takes_any = False
    for each in signature.parameters.values():
        place = f"{where}({each.name})"
        annotation = hints.get(each.name, inspect.Parameter.empty)
        if _is_context(annotation, context_type) or each.name == CONTEXT_NAME:
            if context:
                raise DeclarationError(
                    f"`{context}` already takes the context", where=place, hint="remove one"
                )
            context = each.name
        elif each.kind is inspect.Parameter.VAR_KEYWORD:
            takes_any = True
        elif each.name not in bound:
            _refuse_kind(each, place, inner)
            params.append(_param(each, annotation, docs.parameters.get(each.name, ""), place))
    parameters: JsonObject = {
        "type": "object",
        "properties": {param.name: param.schema for param in params},
    }
    required: list[Json] = [param.name for param in params if param.required]
    if required:
        parameters["required"] = required
    if takes_any:
        parameters["additionalProperties"] = True
    tidied = [replace(each, schema=tidy(each.schema, name=each.name)) for each in params]
    return Signature(
        name=name,
        description=docs.description,
        parameters=tidy(hoist(parameters)),
        params=tuple(tidied),
        context_parameter=context,
        is_async=inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner),
        has_docstring=bool(docs.description or docs.parameters),
        takes_any=takes_any,
        reserved=bound | ({context} if context else frozenset[str]()),
    )


def of_type(tp: object, *, where: str) -> JsonObject:
    """The JSON Schema of a type, or a hand-written one once it is known to be a schema."""
    if not isinstance(tp, Mapping):
        return tidy(generate(tp, where), name=getattr(tp, "__name__", ""))
    schema = plain(cast("Mapping[object, object]", tp), where=where)
    try:
        validator(schema)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise DeclarationError(
            f"this is not a JSON Schema: {reason}", where=where, hint="see json-schema.org"
        ) from error
    return tidy(schema)


def validate_arguments(signature: Signature | Function, args: JsonObject) -> dict[str, object]:
    """The arguments as the function wants them, or a `SchemaError` that names each problem.

    `null` for an argument that has a default and takes no null means the default:
    strict provider schemas leave a model no other way to say it.
    """
    if not isinstance(signature, Signature):
        signature = of_function(signature, context_type=None)
    _refuse_unreadable(args, where=signature.name)
    args = cast("JsonObject", without_nulls(signature.parameters, args))
    names = [param.name for param in signature.params]
    problems: list[str] = []
    result: dict[str, object] = {}
    for param in signature.params:
        if param.name in args:
            try:
                result[param.name] = convert(param.type, args[param.name])
            except SchemaError:
                problems += problems_of(param.type, args[param.name], param.name)
        elif param.required:
            problems.append(
                f"`{param.name}` is missing, expected {describe_expected(param.schema)}"
            )
        elif param.default is not msgspec.UNSET:
            result[param.name] = param.default
    for name in (name for name in args if name not in names):
        if signature.takes_any and name not in signature.reserved:
            result[name] = args[name]
            continue
        near = find_near(name, names, cutoff=0.6)
        problems.append(f"`{name}` is unknown" + (f", did you mean `{near[0]}`?" if near else ""))
    if problems:
        listed = [
            _describe_field(one.name, one.schema, required=one.required) for one in signature.params
        ]
        _refuse(problems, where=signature.name, hint=f"arguments: {', '.join(listed) or 'none'}")
    return result


def validate_declared(parameters: JsonObject, args: JsonObject, *, where: str) -> JsonObject:
    """The arguments of a tool that declares a JSON Schema and no signature, as an agent does."""
    _refuse_unreadable(args, where=where)
    checked = without_nulls(parameters, args)
    problems = [_problem(error) for error in validator(parameters).iter_errors(checked)]
    if not isinstance(checked, dict):
        problems = ["the arguments are not an object"]
    if problems:
        required = parameters.get("required")
        needed = required if isinstance(required, list) else []
        properties = parameters.get("properties")
        listed = [
            _describe_field(name, one if isinstance(one, dict) else {}, required=name in needed)
            for name, one in (properties.items() if isinstance(properties, dict) else ())
        ]
        _refuse(problems, where=where, hint=f"arguments: {', '.join(listed) or 'none'}")
    return cast("JsonObject", checked)


def _problem(error: "ValidationError") -> str:
    """What is wrong with an argument, in the words that signatures use."""
    names = [part for part in error.message.split('"')[1:2] if part]
    place = list(error.instance_path)
    if names and list(error.schema_path)[-1:] == ["required"]:
        return f"`{path_of([*place, *names])}` is missing"
    if not place:
        return error.message[:1].lower() + error.message[1:]
    return f"`{path_of(place)}`: {error.message}"


def _describe_field(name: str, declared: JsonObject, *, required: bool) -> str:
    return f"{name} ({describe_expected(declared)}{', required' if required else ''})"


def validate_value(tp: object, value: Json, *, where: str) -> object:
    """A model's answer as the type asks: an instance, or the JSON itself for a JSON Schema."""
    _refuse_unreadable(value, where=where)
    schema = of_type(tp, where=where)
    value = without_nulls(schema, value)
    if isinstance(tp, Mapping):
        problems = [
            f"`{path_of(error.instance_path)}`: {error.message}"
            for error in validator(schema).iter_errors(value)
        ]
        if problems:
            _refuse(problems, where=where)
        return value
    try:
        return convert(tp, value)
    except SchemaError:
        _refuse(
            problems_of(tp, value, ""), where=where, hint=f"expected {describe_expected(schema)}"
        )


def _refuse_unreadable(value: Json, *, where: str) -> None:
    if deeper_than(value, MAX_DEPTH):
        _refuse([f"the value nests deeper than {MAX_DEPTH} levels"], where=where)
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:  # no validator reads it
        _refuse(["a text holds half of a character, a lone surrogate"], where=where)


def _refuse(problems: list[str], *, where: str, hint: str = "") -> NoReturn:
    # a hundred problems would only fill the request
    more = f"; and {len(problems) - 8} more" if len(problems) > 8 else ""
    raise SchemaError("; ".join(problems[:8]) + more, where=where, hint=hint)


def _unwrap(function: Function) -> tuple[Function, Function, frozenset[str]]:
    """What partials call, the def of that, and the names already bound."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= set(function.keywords)
        function = cast("Function", function.func)
    inner: object = function
    if isinstance(function, type):
        inner = cast("object", function.__init__)  # type: ignore[misc]
    elif not inspect.isroutine(function):
        inner = type(function).__call__
    return function, cast("Function", inner), frozenset(bound)


def _hints(function: Function, context_type: type | None) -> dict[str, object]:
    """Annotations by name; one that cannot be resolved stays a string."""
    inner = inspect.unwrap(function)
    scope = dict(getattr(inner, "__globals__", {}))
    with contextlib.suppress(TypeError, ValueError):
        # a type may be made in the function around this one
        scope |= inspect.getclosurevars(inner).nonlocals
    if context_type is not None:
        scope.setdefault(context_type.__name__, context_type)
    hints: dict[str, object] = {}
    for name, annotation in getattr(inner, "__annotations__", {}).items():
        # one at a time: an annotation that cannot be resolved must not spoil the others
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(holder, scope, scope, include_extras=True)
        except (NameError, SyntaxError, AttributeError, TypeError):
            hints[name] = annotation
    return hints


def _is_context(annotation: object, context_type: type | None) -> bool:
    if context_type is None:
        return False
    # a context that is imported for type checkers only cannot be resolved
    if isinstance(annotation, str):
        spelled = annotation.split("|")[0].split("[")[0].strip(" '\"")
        return spelled.split(".")[-1] == context_type.__name__
    arms = [arm for arm in get_args(annotation) if arm is not type(None)]
    if get_origin(annotation) is Annotated or (len(arms) == 1 and is_union(annotation)):
        return _is_context(arms[0], context_type)
    plain = get_origin(annotation) or annotation  # ToolContext[Db] is a ToolContext
    return isinstance(plain, type) and issubclass(plain, context_type)


def _refuse_kind(each: inspect.Parameter, where: str, inner: Function) -> None:
    if each.kind is inspect.Parameter.VAR_POSITIONAL:
        problem, hint = "a model cannot give `*args`", f"take a list: {each.name}: list[str]"
    elif each.kind is inspect.Parameter.POSITIONAL_ONLY:
        problem, hint = "a model gives arguments by name, this one has none", "remove the `/`"
    elif each.name in ("self", "cls") and "." in getattr(inner, "__qualname__", ""):
        problem, hint = "this is an unbound method", "pass the method of an instance"
    else:
        return
    raise DeclarationError(problem, where=where, hint=hint)


def _param(each: inspect.Parameter, annotation: object, text: str, where: str) -> Param:
    """One parameter: its type with everything the default and the docstring add."""
    tp = typing.Any if annotation is inspect.Parameter.empty else annotation
    default: object = each.default
    required = default is inspect.Parameter.empty
    own: object = msgspec.UNSET
    if is_pydantic(type(default)):  # a pydantic Field() in place of a default
        field = cast("pydantic.fields.FieldInfo", default)
        tp, required = Annotated[tp, field], field.is_required()
        default = own = msgspec.UNSET if required else field.get_default(call_default_factory=True)
    # `limit: int = None` takes None, whatever its annotation says
    elif default is None and tp is not typing.Any:
        tp = typing.Optional[tp]  # noqa: UP045  a type known only now
    schema = generate(tp, where)
    text = _text(tp) or text
    if text:
        schema["description"] = text
    if not required:
        # A default that is not JSON stays out: the function knows it, the model need not.
        with contextlib.suppress(TypeError, ValueError, DeclarationError):
            schema["default"] = plain(msgspec.to_builtins(default), where=where)
    return Param(each.name, tp, schema, required, own)


def _text(tp: object) -> str:
    """What `Annotated` says of a type: a plain string, a msgspec Meta or a pydantic Field."""
    arms = get_args(tp)
    if len(arms) == 2 and is_union(tp) and type(None) in arms:
        return _text(next(arm for arm in arms if arm is not type(None)))
    metadata = arms[1:] if get_origin(tp) is Annotated else ()
    texts = (
        item if isinstance(item, str) else getattr(item, "description", "") for item in metadata
    )
    return next((text for text in texts if isinstance(text, str) and text), "")


# --- what a docstring says

_PARAMETERS = frozenset(("args", "arguments", "params", "parameters", "other-parameters")) | {
    *("keyword-args", "keyword-arguments")
}
_DROPPED = frozenset(("returns", "return", "yields", "yield", "raises", "raise", "exceptions"))

_FIELD = late_pattern(r"[:@](\w+)(?:\s+([^:]*?))?:(?:\s+(.*))?$")
_PARAMETER_FIELDS = frozenset(("param", "parameter", "arg", "argument", "key", "keyword"))
_OTHER_FIELDS = _DROPPED | {"type", "rtype", "vartype", "except"}

_ENTRY = late_pattern(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_RULE = late_pattern(r"-{3,}\s*$")


class Docstring(msgspec.Struct, frozen=True):
    """A docstring taken apart."""

    description: str = ""
    parameters: dict[str, str] = {}


def read_docstring(text: str | None) -> Docstring:
    """Take a docstring apart; a text of no known style is all description."""
    lines = inspect.cleandoc(text or "").splitlines()
    body: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        title = _title(lines, at)
        field = _FIELD.match(lines[at])
        if title in _PARAMETERS or title in _DROPPED:
            underlined = not lines[at].rstrip().endswith(":")
            start = at + 2 if underlined else at + 1
            at = _end(lines, start, underlined=underlined)
            if title in _PARAMETERS:
                block = lines[start:at]
                parameters |= _numpy(block) if underlined else _google(block)
        elif field and field[1] in _PARAMETER_FIELDS | _OTHER_FIELDS:
            start = at + 1
            at = _end(lines, start, underlined=False)
            names = (field[2] or "").split()
            if field[1] in _PARAMETER_FIELDS and names:
                parameters[names[-1].lstrip("*")] = _join([field[3] or "", *lines[start:at]])
        else:
            body.append(lines[at].rstrip())
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(body)).strip()
    return Docstring(description, parameters)


def _title(lines: Sequence[str], at: int) -> str:
    """The section this line opens, lower-case, or nothing."""
    line, after = lines[at], lines[at + 1 :]
    if not line or line[0].isspace() or not after:
        return ""
    if _RULE.match(after[0]):
        return line.strip().lower().replace(" ", "-")
    following = next((text for text in after if text.strip()), "")
    if line.rstrip().endswith(":") and following[:1].isspace():
        return line.strip()[:-1].lower().replace(" ", "-")
    return ""


def _end(lines: Sequence[str], start: int, *, underlined: bool) -> int:
    """Where a section stops: the next title, or the first line that is not indented."""
    for at in range(start, len(lines)):
        if underlined:
            if at + 1 < len(lines) and lines[at].strip() and _RULE.match(lines[at + 1]):
                return at
        elif lines[at] and not lines[at][0].isspace():
            return at
    return len(lines)


def _google(block: Sequence[str]) -> dict[str, str]:
    """`name (type): text`, continued on deeper lines."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in inspect.cleandoc("\n".join(["", *block])).splitlines():
        entry = _ENTRY.match(line)
        if entry:
            current = entries.setdefault(entry[1], [])
            current.append(entry[2] or "")
        else:
            current.append(line)
    return {name: _join(lines) for name, lines in entries.items()}


def _numpy(block: Sequence[str]) -> dict[str, str]:
    """`name, other : type`, then an indented text."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in block:
        if line and not line[0].isspace():
            current = []
            for name in line.split(":")[0].split(","):
                entries[name.strip().lstrip("*")] = current
        else:
            current.append(line)
    return {name: _join(lines) for name, lines in entries.items()}


def _join(lines: Sequence[str]) -> str:
    """One paragraph a blank line; list items keep their lines."""
    text = ""
    for line in (line.strip() for line in lines):
        if not line:
            text = text.rstrip() + "\n"
        else:
            separator = "\n" if re.match(r"[-*] ", line) else " "
            text += line if not text or text.endswith("\n") else separator + line
    return text.strip()
