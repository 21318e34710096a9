"""A Python type as JSON: its schema, and JSON values as its instances.

Two engines do the work and the type decides which: msgspec, unless the type holds something
of pydantic's, or msgspec refuses it. Nobody above needs to know.
"""

import dataclasses
import datetime
import enum
import functools
import importlib.util
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar, cast, get_args, get_origin

import msgspec

from weft.errors import DeclarationError, SchemaError
from weft.jsonschema import describe_expected, map_children, plain, shorten, tidy
from weft.late import late_pattern
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    import pydantic

T = TypeVar("T")


def _once(function: Callable[[object], T]) -> Callable[[object], T]:
    """Remember the outcome by type; one with unhashable metadata is worked out each time."""
    cached = functools.lru_cache(maxsize=512)(function)

    @functools.wraps(function)
    def call(tp: object) -> T:
        try:
            hash(tp)
        except TypeError:
            return function(tp)
        return cached(tp)

    return call


@_once
def _uses_pydantic(tp: object) -> bool:
    """Whether pydantic must read this type: it holds something of its own, or msgspec refuses."""
    if any(is_pydantic(each) for each in _types(tp)):
        return True
    try:
        _msgspec_schema(tp)
    except (TypeError, RecursionError):
        return importlib.util.find_spec("pydantic") is not None
    return False


def generate(tp: object, where: str) -> JsonObject:
    """A type's schema as its engine writes it."""
    if isinstance(tp, str):
        raise DeclarationError(
            f"the annotation `{tp}` cannot be resolved", where=where, hint="import it in the module"
        )
    try:
        if _uses_pydantic(tp):
            return _drop_discriminators(plain(_adapter(tp).json_schema(), where=where))
        return plain(_msgspec_schema(tp), where=where)
    except DeclarationError:
        raise
    except Exception as error:  # pydantic's errors share no base
        reason = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        lines = reason.splitlines()
        reason = lines[-1] if lines[0].endswith(":") else lines[0]  # a list of cures, then the type
        name = shorten(getattr(tp, "__name__", "") or str(tp), 60)
        hint = (
            "use str, numbers, bool, lists, dicts, Literal, Enum, a dataclass or a pydantic model"
        )
        if importlib.util.find_spec("pydantic") is None:
            hint += (
                "; with pydantic there are more, such as unions of dataclasses: "
                "pip install pydantic"
            )
        raise DeclarationError(
            f"`{name}` has no JSON Schema: {shorten(reason, 160)}",
            where=where,
            hint=hint,
        ) from error


@_once
def _adapter(tp: object) -> "pydantic.TypeAdapter[object]":
    import pydantic

    return pydantic.TypeAdapter(cast("type[object]", tp))


def _msgspec_schema(tp: object) -> JsonObject:
    """What msgspec writes, and what it leaves out: plain-string texts, the format of a datetime."""
    records = [each for each in _types(tp) if fields_of(each)]
    fields = [(record, field) for record in records for field in fields_of(record) or ()]
    asked = [_spell(tp), *records, *(_spell(field.type) for _, field in fields)]
    anything: list[type] = []
    hook = functools.partial(_schema_hook, anything)
    schemas, parts = msgspec.json.schema_components(asked, schema_hook=hook)
    names = [str(each.get("$ref", "")).removeprefix("#/$defs/") for each in schemas[1:]]
    for (record, field), schema in zip(fields, schemas[1 + len(records) :], strict=True):
        properties = parts.get(names[records.index(record)], {}).get("properties", {})
        if field.key in properties:
            old = properties[field.key]
            default = {"default": old["default"]} if "default" in old else {}
            properties[field.key] = {**schema, **default}
    root = {**schemas[0], "$defs": parts} if parts else schemas[0]
    if anything:
        root = _with_anything(root)
    orders = {_key(values): values for each in _types(tp) if (values := _choices(each))}
    return _order_choices(root, orders) if orders else root


def _choices(tp: object) -> list[Json]:
    """The values of a Literal or an Enum, in the order they are declared."""
    if isinstance(tp, type) and issubclass(tp, enum.Enum):
        values = [cast("object", member.value) for member in tp]
    else:
        values = list(get_args(tp)) if get_origin(tp) is typing.Literal else []
    plain_ones = all(value is None or isinstance(value, (str, int)) for value in values)
    return cast("list[Json]", values) if plain_ones else []


def _key(values: Sequence[Json]) -> frozenset[str]:
    return frozenset(map(repr, values))


def _order_choices(node: JsonObject, orders: Mapping[frozenset[str], list[Json]]) -> JsonObject:
    """The schema with its choices in the order of the source; msgspec sorts them."""
    node = map_children(node, lambda child, _: _order_choices(child, orders))
    choices = node.get("enum")
    if isinstance(choices, list) and (declared := orders.get(_key(choices))):
        node["enum"] = list(declared)
    return node


def _drop_discriminators(node: JsonObject, _: tuple[str, ...] = ()) -> JsonObject:
    """Without the OpenAPI keyword, which JSON Schema does not have and models do not need."""
    node = map_children(node, _drop_discriminators)
    node.pop("discriminator", None)
    return node


_ANYTHING: JsonObject = {"x-anything": True}
"""Stands for the schema of `object`, which is empty: msgspec takes no empty one from a hook."""


def _schema_hook(anything: list[type], tp: type) -> dict[str, object]:
    if tp is object:
        anything.append(tp)
        return {**_ANYTHING}
    raise NotImplementedError


def _with_anything(node: JsonObject, _: tuple[str, ...] = ()) -> JsonObject:
    """The schema with an empty one wherever `object` stands."""
    node = map_children(node, _with_anything)
    return {key: value for key, value in node.items() if key not in _ANYTHING}


def _spell(tp: object) -> object:
    """The type in words msgspec writes down."""
    origin, args = get_origin(tp), get_args(tp)
    if tp is object:
        return typing.Any
    if tp is datetime.datetime or tp is datetime.time:
        form = "date-time" if tp is datetime.datetime else "time"
        return Annotated[tp, msgspec.Meta(extra_json_schema={"format": form})]
    if origin is Annotated:
        metadata = [
            msgspec.Meta(description=arg) if isinstance(arg, str) else arg for arg in args[1:]
        ]
        return Annotated[(_spell(args[0]), *metadata)]
    if origin in (typing.Required, typing.NotRequired):
        return _spell(args[0])
    if is_union(tp):
        return typing.Union[tuple(_spell(arg) for arg in args)]  # noqa: UP007
    if isinstance(origin, type) and args and issubclass(origin, (list, set, dict, tuple, Mapping)):
        return origin[tuple(_spell(arg) for arg in args)]  # type: ignore[index]
    return tp


class Field(NamedTuple):
    """A field of a record: its name, its key in JSON, its type, and what it is where it has none.

    A field with a default need not come; of a TypedDict some need not come without one.
    """

    name: str
    key: str
    type: object
    default: Callable[[], object] | None
    required: bool


@_once
def fields_of(tp: object) -> tuple[Field, ...] | None:
    """The fields of a dataclass, TypedDict or msgspec Struct; None for any other type."""
    if not isinstance(tp, type):
        return None
    record = cast("type[object]", tp)
    if issubclass(tp, msgspec.Struct):
        return tuple(
            _make_field(each, each.encode_name, each.type, msgspec.NODEFAULT)
            for each in msgspec.structs.fields(tp)
        )
    if dataclasses.is_dataclass(record):
        hints = typing.get_type_hints(record, include_extras=True)
        return tuple(
            _make_field(each, each.name, hints[each.name], dataclasses.MISSING)
            for each in dataclasses.fields(record)
        )
    if typing.is_typeddict(record):
        hints = typing.get_type_hints(record, include_extras=True)
        required = cast("frozenset[str]", getattr(record, "__required_keys__", ()))
        return tuple(Field(key, key, each, None, key in required) for key, each in hints.items())
    return None


def _make_field(
    field: "msgspec.structs.FieldInfo | dataclasses.Field[object]",
    key: str,
    tp: object,
    missing: object,
) -> Field:
    """A field as its record describes it, where `missing` stands for no default."""
    default, factory = cast("object", field.default), cast("object", field.default_factory)
    if default is not missing:
        return Field(field.name, key, tp, lambda: default, required=False)
    if factory is not missing:
        return Field(field.name, key, tp, cast("Callable[[], object]", factory), required=False)
    return Field(field.name, key, tp, None, required=True)


def _types(tp: object) -> Iterator[object]:
    """Every type inside a type, and what `Annotated` says of them."""
    queue, seen = [tp], set[int]()
    while queue:
        each = queue.pop()
        # values of a Literal and the parameters of a Callable are not types
        if id(each) in seen or isinstance(each, (str, list)):
            continue
        seen.add(id(each))
        yield each
        if not is_pydantic(each):
            queue += [*get_args(each), *(field.type for field in fields_of(each) or ())]


def is_pydantic(tp: object) -> bool:
    """Whether a type, or what `Annotated` says of one, is made by pydantic."""
    owner = tp if isinstance(tp, type) else type(tp)
    module = owner.__module__.split(".")[0]
    return module in ("pydantic", "annotated_types") or hasattr(owner, "__pydantic_validator__")


def is_union(tp: object) -> bool:
    """Whether this is `A | B`, in either spelling."""
    return get_origin(tp) in (typing.Union, types.UnionType)


def convert(tp: object, value: Json) -> object:
    """The value as the type; exact first, then "5" for 5 where nothing else could be meant."""
    try:
        if _uses_pydantic(tp):
            # as JSON text: a strict model takes a list for a tuple, or text for a date, only there
            converted: object = _adapter(tp).validate_json(compact(value))
        else:
            try:
                converted = msgspec.convert(value, tp, dec_hook=_dec_hook)
            except msgspec.ValidationError:
                converted = msgspec.convert(value, tp, strict=False, dec_hook=_dec_hook)
    except (ValueError, RecursionError) as error:
        raise SchemaError(str(error)) from error
    # the cheap look at the text comes first: nearly no value needs the second
    if _spells_no_number(value) and _holds_no_number(tp, converted):
        raise SchemaError("a number must be finite, and `nan` or `inf` is not")
    return converted


_SIGNALLING = late_pattern(r"\s*[+-]?s?nan[0-9_]*\s*", re.IGNORECASE)
"""What only a Decimal does not take for a number."""


def _spells_no_number(value: object) -> bool:
    """Whether some text in a JSON value reads as a number that is none: JSON has no other way."""
    if isinstance(value, str):
        try:
            return not math.isfinite(float(value))
        except ValueError:
            return _SIGNALLING.fullmatch(value) is not None
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return any(map(_spells_no_number, fields)) or any(map(_spells_no_number, fields.values()))
    return isinstance(value, list) and any(map(_spells_no_number, cast("list[object]", value)))


def _holds_no_number(tp: object, converted: object) -> bool:
    """Whether such a text became a number."""
    try:
        if _uses_pydantic(tp):
            plain: object = _adapter(tp).dump_python(converted)
        else:
            plain = msgspec.to_builtins(converted, builtin_types=(Decimal,), enc_hook=repr)
    except (TypeError, ValueError):  # a type of somebody's own, which reads texts its own way
        plain = converted
    return _has_no_number(plain)


def _has_no_number(value: object) -> bool:
    if isinstance(value, Decimal):
        return not value.is_finite()
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        return any(map(_has_no_number, fields)) or any(map(_has_no_number, fields.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_no_number, cast("list[object]", value)))
    return False


def _dec_hook(tp: type, value: object) -> object:
    if tp is object:
        return value
    raise NotImplementedError


def problems_of(tp: object, value: Json, path: str) -> list[str]:
    """Everything wrong with a value, each with its path, what was expected and what was given."""
    try:
        return _problems(tp, value, path)
    except RecursionError:
        return [f"`{path or 'answer'}`: it nests too deep"]


def _problems(tp: object, value: Json, path: str) -> list[str]:
    if _uses_pydantic(tp):
        return _pydantic_problems(tp, value, path)
    arms = [arm for arm in get_args(tp) if arm is not type(None)]
    if get_origin(tp) is Annotated or (is_union(tp) and len(arms) == 1 and value is not None):
        problems = _problems(arms[0], value, path)
    elif get_origin(tp) in (list, set, frozenset) and isinstance(value, list):
        problems = [
            problem
            for index, item in enumerate(value)
            for problem in _problems(arms[0], item, f"{path}[{index}]")
        ]
    elif isinstance(value, dict) and (fields := fields_of(tp)):
        problems = list[str]()
        for field in fields:
            inner = f"{path}.{field.key}".lstrip(".")
            if field.key in value:
                problems += _problems(field.type, value[field.key], inner)
            elif field.required:
                problems.append(f"`{inner}` is missing, expected {_words(field.type)}")
    else:
        problems = list[str]()
    if problems:
        return problems
    try:
        convert(tp, value)
    except SchemaError:
        return [f"`{path or 'answer'}`: expected {_words(tp)}, got {shorten(compact(value), 60)}"]
    return []


def _pydantic_problems(tp: object, value: Json, path: str) -> list[str]:
    import pydantic

    try:
        _adapter(tp).validate_json(compact(value))
    except pydantic.ValidationError as error:
        return [
            f"`{path_of([*([path] if path else []), *each['loc']])}`: "
            + ("missing" if each["type"] == "missing" else _lower(each["msg"]))
            + ("" if each["type"] == "missing" else f", got {shorten(repr(each['input']), 60)}")
            for each in error.errors(include_url=False)
        ]
    except (ValueError, RecursionError) as error:
        return [f"`{path or 'answer'}`: {error}"]
    return []


def _words(tp: object) -> str:
    return describe_expected(tidy(generate(tp, "")))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def path_of(parts: Sequence[str | int]) -> str:
    """A path inside a value, as a reader writes it: `items[0].name`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in parts)
    return text.lstrip(".") or "answer"
