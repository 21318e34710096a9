"""Whether a JSON value fits a type of a provider's SDK, key by key.

The SDKs describe requests as TypedDicts. pydantic would read them too, but it ignores unknown
keys and looks into an `Iterable` only when somebody iterates; a check like that cannot fail.
"""

import collections.abc
import functools
import types
import typing
from collections.abc import Iterator

import typing_extensions

_WRAPPERS = (typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated)
_LISTS = {list, collections.abc.Iterable, collections.abc.Sequence}
_PLAIN = {str: (str,), int: (int,), float: (int, float), bool: (bool,), type(None): (type(None),)}


@functools.cache
def request_type(dialect: str) -> object:
    """The type of a request in the provider's SDK; the SDK is loaded when a test first asks."""
    match dialect:
        case "anthropic":
            from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

            return MessageCreateParamsNonStreaming
        case "openai-chat":
            from openai.types.chat.completion_create_params import (
                CompletionCreateParamsNonStreaming,
            )

            return CompletionCreateParamsNonStreaming
        case "openai-responses":
            from openai.types.responses.response_create_params import (
                ResponseCreateParamsNonStreaming,
            )

            return ResponseCreateParamsNonStreaming
        case _:
            raise ValueError(dialect)


def misfits(value: object, shape: object, place: str = "") -> list[str]:
    """What does not fit, each with its place; empty when all does."""
    origin = typing.get_origin(shape)
    if origin in _WRAPPERS:
        return misfits(value, typing.get_args(shape)[0], place)
    if shape is object:
        return []
    if typing_extensions.is_typeddict(shape):
        return _object(value, typing.cast("type", shape), place)
    if origin is typing.Literal:
        return (
            [] if _among(value, typing.get_args(shape)) else [f"{place}: {value!r} is no {shape}"]
        )
    if origin in (typing.Union, types.UnionType):
        tried = [misfits(value, arm, place) for arm in typing.get_args(shape)]
        return min(tried, key=lambda found: (len(found), -_depth(found)))
    if shape in _PLAIN:
        fits = isinstance(value, _PLAIN[typing.cast("type", shape)])
        wrong_bool = isinstance(value, bool) and shape is not bool
        return [] if fits and not wrong_bool else [f"{place}: {value!r} is no {shape}"]
    if origin is dict:
        if not isinstance(value, dict):
            return [f"{place}: {value!r} is not an object"]
        inner = typing.get_args(shape)[1]
        return [m for key, held in value.items() for m in misfits(held, inner, f"{place}/{key}")]
    if origin in _LISTS or getattr(origin, "__name__", "") == "SequenceNotStr":
        if not isinstance(value, list):
            return [f"{place}: {value!r} is not a list"]
        inner = typing.get_args(shape)[0]
        return [m for i, held in enumerate(value) for m in misfits(held, inner, f"{place}/{i}")]
    return [f"{place}: {value!r} is no {shape}"]


def places(value: object, place: str = "") -> Iterator[str]:
    """Pointers to all objects in a value."""
    if isinstance(value, dict):
        yield place
        for key, held in value.items():
            yield from places(held, f"{place}/{key}")
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from places(held, f"{place}/{index}")


def _object(value: object, shape: type, place: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{place}: {value!r} is not an object"]
    hints, required = _fields(shape)
    config: dict[str, object] = getattr(shape, "__pydantic_config__", {})
    found = [f"{place}: `{key}` is missing" for key in sorted(required - value.keys())]
    for key, held in value.items():
        if key in hints:
            found += misfits(held, hints[key], f"{place}/{key}")
        elif config.get("extra") != "allow":
            found.append(f"{place}: `{key}` is unknown to {shape.__name__}")
    return found


@functools.cache
def _fields(shape: type) -> tuple[dict[str, object], frozenset[str]]:
    """The fields of a TypedDict and which it needs.

    Where annotations are strings, `__required_keys__` does not know of `Required`.
    """
    hints: dict[str, object] = typing_extensions.get_type_hints(shape, include_extras=True)
    marked = {k for k, hint in hints.items() if typing.get_origin(hint) is typing.Required}
    known: frozenset[str] = shape.__required_keys__  # type: ignore[attr-defined]
    return hints, known | marked


def _among(value: object, choices: tuple[object, ...]) -> bool:
    return any(value == choice and type(value) is type(choice) for choice in choices)


def _depth(found: list[str]) -> int:
    """How deep the first misfit is: the arm of a union that was meant fails deepest."""
    return found[0].partition(":")[0].count("/") if found else 0
