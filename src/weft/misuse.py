"""What somebody who typed it wrong may have meant: near names, wrong calls, frozen fields.

Python's own errors name the mistake, not the fix. A call with an unknown keyword, with too many
or too few arguments, and an assignment to a frozen field are caught here and say what to type.
Nothing is looked at unless the call fails, so a right call costs one more frame.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import FrozenInstanceError, dataclass, fields, make_dataclass
from types import MethodType
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import msgspec

from weft.errors import CallError, FrozenError, UnknownName, with_article

if TYPE_CHECKING:
    from dataclasses import Field

    from _typeshed import DataclassInstance

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Words = Mapping[str, str]
"""Words that others have, and ours: the name of an option, or a whole hint."""

__all__ = [
    "ByFields",
    "DeclaredStruct",
    "explain_calls",
    "explain_mistakes",
    "find_near",
    "hint_at_call",
    "is_slip",
    "join_few",
    "late_dataclass",
    "suggest_names",
    "unknown_name",
    "wrong_call",
]

MOST = 20
"""How many names are listed."""

_NO_WORDS: Words = {}


# --- near names


def suggest_names(
    name: str, names: Iterable[str], *, most: int = 2, cutoff: float = 0.6, quote: str = "`"
) -> str:
    """A hint with the nearest name, or with two that are nearly as near; empty if none is near."""
    near = find_near(name, names, most=most, cutoff=cutoff)
    if len(near) == 2 and _likeness(name, near[0]) - _likeness(name, near[1]) > 0.1:
        near = near[:1]
    words = " or ".join(f"{quote}{one}{quote}" for one in near)
    return f"did you mean {words}?" if words else ""


def find_near(name: str, names: Iterable[str], *, most: int = 1, cutoff: float) -> list[str]:
    """The names most like this one, best first."""
    size, letters = len(name), _letters(name)
    near = [
        one
        for one in names
        if (letters ^ _letters(one)).bit_count() <= (1 - cutoff) * (size + len(one))
    ]  # a letter that only one of the two has is in no match: most names need no closer look
    from difflib import get_close_matches  # slow to load, and only mistakes need it

    return get_close_matches(name, near, n=most, cutoff=cutoff)


def join_few(names: Iterable[str]) -> str:
    """The first of many names, and how many more there are."""
    known = sorted(names)
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return ", ".join(known[:MOST]) + more


@functools.lru_cache(maxsize=4096)
def _letters(name: str) -> int:
    """The letters of a name, as bits."""
    bits = 0
    for letter in name:
        bits |= 1 << (ord(letter) & 63)
    return bits


def _likeness(one: str, other: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other).ratio()


def is_slip(name: str, other: str) -> bool:
    """Whether one name is the other with a slip of the finger: a letter more, less or swapped.

    Names that differ in a number, a plural or a short word are meant to differ.
    """
    if name == other or min(len(name), len(other)) < 4 or abs(len(name) - len(other)) > 1:
        return False
    shorter, longer = sorted((name, other), key=len)
    if longer in (f"{shorter}s", f"{shorter}_"):
        return False
    ours, theirs = name.split("_"), other.split("_")
    if len(ours) == len(theirs):
        differ = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
        if any(min(len(one), len(two)) < 3 for one, two in differ):
            return False
        plural = any(f"{one}s" == two or one == f"{two}s" for one, two in differ)
        if plural and len(differ) == 1:
            return False
    if any(letter.isdigit() for letter in {*name} ^ {*other}):
        return False
    return _one_slip(shorter, longer)


def _one_slip(shorter: str, longer: str) -> bool:
    start = 0
    while start < len(shorter) and shorter[start] == longer[start]:
        start += 1
    rest, other = shorter[start:], longer[start:]
    if len(shorter) < len(longer):
        return rest == other[1:]
    swapped = rest[:2] == other[1::-1] and rest[2:] == other[2:]
    return rest[1:] == other[1:] or swapped


def hint_at_call(value: object, form: str) -> str:
    """The hint for what a call gave where the function itself is wanted; "" for other values.

    `form` is how it is written, with `{}` for the function: `tools=[{}]`.
    """
    if inspect.iscoroutine(value):
        value.close()  # nobody will wait for it
        name = value.__name__
        return f"pass the function itself: {form.format(name)}, without calling it"
    return ""


def unknown_name(message: str, name: str, kind: type, words: Words) -> UnknownName:
    """The error for an unknown attribute: our word for another library's, or a near name."""
    known = (one for one in dir(kind) if not one.startswith("_"))
    hint = f"write {words[name]}" if name in words else suggest_names(name, known)
    return UnknownName(message, where=kind.__name__, hint=hint)


# --- wrong calls


def explain_calls(
    example: str, *, words: Words = _NO_WORDS
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose wrong calls say what to type; `example` is a right call."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                signature = inspect.signature(function)
                wrong = wrong_call(signature, args, kwargs, example, words)
                if wrong is None:  # the call is right: the error is from inside
                    raise
                raise wrong from None

        return call

    return decorate


def wrong_call(
    signature: inspect.Signature,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    example: str,
    words: Words = _NO_WORDS,
) -> CallError | None:
    """What is wrong with a call, and what to type; None if nothing is."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as reason:
        label = example.partition("(")[0].removeprefix("await ")
        kinds = signature.parameters.values()
        options = [
            one.name
            for one in kinds
            if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name != "self"
        ]
        unknown = next((word for word in kwargs if word not in options), None)
        right = f"write {example}"
        if unknown is not None:
            return CallError(
                f"`{unknown}` is not an option of {label}",
                where=_owner(label, args, kwargs),
                hint=_option(unknown, options, words, right),
            )
        return CallError(_explain_count(str(reason)), where=label, hint=right)
    return None


def _option(word: str, options: list[str], words: Words, right: str) -> str:
    """What to write instead of an unknown option."""
    ours = words.get(word)
    if ours is not None:
        return f"write {ours}=..." if ours in options else ours
    near = suggest_names(word, options)
    return near or (f"the options are: {', '.join(options)}" if options else right)


def _owner(label: str, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """What a declaration is called, if it says so: there may be many of them in a file."""
    name = kwargs.get("name")
    if name is None and label == "Agent":
        name = next((one for one in args if isinstance(one, str)), None)
    return f"{label} {name}" if isinstance(name, str) and name else label


def _explain_count(reason: str) -> str:
    """Python's message about too many or too few arguments, in our words."""
    missing = reason.removeprefix("missing a required argument: ")
    if missing != reason:
        return f"`{missing.strip(chr(39))}` is missing"
    if reason == "too many positional arguments":
        return "there are too many arguments without a name"
    return reason


# --- declarations: classes whose values are frozen


class ByFields:
    """Equality and hash by fields, as `@dataclass` makes them, for `@dataclass(eq=False)`.

    Python compiles both for each dataclass when it is imported. These are written once.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = [field.name for field in _fields_of(self) if field.compare]
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def __hash__(self) -> int:
        hashed = [field for field in _fields_of(self) if field.hash is not False and field.compare]
        return hash(tuple([getattr(self, field.name) for field in hashed]))


if TYPE_CHECKING:
    from dataclasses import dataclass as late_dataclass
else:

    def late_dataclass(
        *, frozen: bool, repr: bool, eq: bool, init: bool = True
    ) -> Callable[[type[T]], type[T]]:
        """`dataclass(frozen=True, repr=False, eq=False)`, of which an import compiles nothing.

        Python compiles `__init__` and two refusals for each frozen dataclass when it is imported.
        The refusals are written once here, and `__init__` is compiled for the first value.
        """
        if not frozen or repr or eq:
            raise TypeError("write @late_dataclass(frozen=True, repr=False, eq=False)")

        def decorate(kind: type[T]) -> type[T]:
            dataclass(init=False, repr=False, eq=False)(kind)
            kind.__dataclass_params__.init, kind.__dataclass_params__.frozen = init, True
            names = frozenset(one.name for one in fields(kind))

            def set_field(self: object, name: str, value: object) -> None:
                if type(self) is kind or name in names:
                    raise FrozenInstanceError(f"cannot assign to field {name!r}")
                super(kind, self).__setattr__(name, value)

            def delete_field(self: object, name: str) -> None:
                if type(self) is kind or name in names:
                    raise FrozenInstanceError(f"cannot delete field {name!r}")
                super(kind, self).__delattr__(name)

            kind.__setattr__, kind.__delattr__ = set_field, delete_field
            if init:
                kind.__init__ = _LateInit(kind)
            return kind

        return decorate


class _LateInit:
    """Stands for the `__init__` of a dataclass until somebody wants it."""

    __slots__ = ("explain", "kind")

    def __init__(self, kind: type[object]) -> None:
        self.kind = kind
        self.explain: Callable[[Callable[..., None]], Callable[..., None]] | None = None
        """What says of a wrong call what to type."""

    def __get__(self, value: object, owner: type[object]) -> Callable[..., None]:
        kind = self.kind
        finish = vars(kind).get("__post_init__")
        own = {"__module__": kind.__module__, **({"__post_init__": finish} if finish else {})}
        listed = [
            (one.name, one.type, copy(one)) for one in fields(cast("type[DataclassInstance]", kind))
        ]
        twin = make_dataclass(
            kind.__name__, listed, namespace=own, frozen=True, repr=False, eq=False
        )
        initialise = cast("Callable[..., None]", vars(twin)["__init__"])
        initialise.__qualname__ = f"{kind.__qualname__}.__init__"
        if self.explain is not None:
            initialise = self.explain(initialise)
        type.__setattr__(kind, "__init__", initialise)
        return (
            initialise
            if value is None
            else cast("Callable[..., None]", MethodType(initialise, value))
        )


def _fields_of(value: object) -> "tuple[Field[object], ...]":
    return fields(cast("DataclassInstance", value))


def explain_mistakes(
    example: str, *, words: Words = _NO_WORDS, verbs: Words = _NO_WORDS, change: str = ""
) -> Callable[[type[T]], type[T]]:
    """A frozen class whose wrong calls and assignments say what to type.

    It stands above `@dataclass`, or on a `DeclaredStruct`. `verbs` are the fields that a method
    changes in a copy; `change` is how every other one is changed.
    """
    otherwise = change or f"make another one: {example}"

    def decorate(kind: type[T]) -> type[T]:
        if isinstance(cast("object", kind), _ExplainedMeta):
            type.__setattr__(kind, "_right_call", (example, words))
        elif isinstance(late := vars(kind).get("__init__"), _LateInit):
            late.explain = explain_calls(example, words=words)
        elif example:
            initialise = cast("Callable[..., None]", kind.__init__)
            type.__setattr__(kind, "__init__", explain_calls(example, words=words)(initialise))
        assign = cast("Callable[..., None]", kind.__setattr__)
        delete = cast("Callable[..., None]", kind.__delattr__)
        # A struct's own refusal is in C, and calling `__setattr__` by name would go past it.
        is_struct = issubclass(kind, msgspec.Struct)

        def set_field(self: object, name: str, value: object) -> None:
            if not is_struct:
                try:
                    return assign(self, name, value)
                except FrozenInstanceError:  # not in a subclass that has fields of its own
                    pass
            raise _frozen(self, name, words, verbs, otherwise)

        def delete_field(self: object, name: str) -> None:
            if not is_struct:
                try:
                    return delete(self, name)
                except FrozenInstanceError:
                    pass
            raise _frozen(self, name, words, verbs, otherwise)

        type.__setattr__(kind, "__setattr__", set_field)
        type.__setattr__(kind, "__delattr__", delete_field)
        return kind

    return decorate


def _frozen(value: object, name: str, words: Words, verbs: Words, change: str) -> FrozenError:
    """The error for an assignment, with the way to a changed copy."""
    kind = type(value).__name__
    ours = words.get(name, name)
    fields = _fields(value)
    if ours not in fields:
        near = find_near(name, fields, cutoff=0.6)
        ours = near[0] if near else name
    hint = verbs.get(ours) or (change.replace("{field}", ours) if ours in fields else "")
    return FrozenError(
        f"`{name}` cannot be changed: {with_article(kind)} is frozen",
        where=kind,
        hint=hint or f"the fields are: {', '.join(fields)}; a copy is made to change one",
    )


def _fields(value: object) -> list[str]:
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    return [name for name in cast("dict[str, object]", _dataclass_fields(value)) if name != "memo"]


def _dataclass_fields(value: object) -> object:
    return getattr(value, "__dataclass_fields__", {})


if TYPE_CHECKING:
    _StructMeta = type
    from msgspec import Struct as DeclaredStruct
else:
    _StructMeta = type(msgspec.Struct)


class _ExplainedMeta(_StructMeta):
    """A struct is called in C, which only its own class can come before."""

    _right_call: tuple[str, Words]

    def __call__(cls, *args: object, **kwargs: object) -> object:
        try:
            return super().__call__(*args, **kwargs)
        except TypeError:
            wrong = wrong_call(inspect.signature(cls), args, kwargs, *cls._right_call)
            if wrong is None:
                raise
            raise wrong from None


if not TYPE_CHECKING:

    class DeclaredStruct(msgspec.Struct, metaclass=_ExplainedMeta):
        """The base of structs that people construct."""

        _right_call = ("", _NO_WORDS)
