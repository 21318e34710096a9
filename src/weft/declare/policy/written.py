"""Parts of a policy as they are written: frozen data that prints as its author wrote it."""

import difflib
import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import ClassVar, ParamSpec, TypeVar, cast

import msgspec

from weft.declare.elsewhere import OPTIONS_ELSEWHERE, WORDS_ELSEWHERE
from weft.declare.functions import name_of
from weft.errors import DeclarationError
from weft.jsonschema import shorten

P = ParamSpec("P")
R = TypeVar("R")


class Written(msgspec.Struct, frozen=True):
    """One word of a policy with its options; the first `placed` are written without a name."""

    word: ClassVar[str] = ""
    placed: ClassVar[int] = 0

    def __str__(self) -> str:
        shown: list[str] = []
        names, defaults = self.__struct_fields__, self.__struct_defaults__
        required = len(names) - len(defaults)
        for index, name in enumerate(names):
            value: object = getattr(self, name)
            if index >= required and value == defaults[index - required]:
                continue
            if index < self.placed and isinstance(value, tuple):
                shown += map(_shown, cast("tuple[object, ...]", value))
            elif index < self.placed:
                shown.append(_shown(value))
            else:
                shown.append(f"{name}={_shown(value)}")
        return f"{self.word}({', '.join(shown)})"

    __repr__ = __str__


def _shown(value: object) -> str:
    if value is None or isinstance(value, str | int | float | bool | Written):
        return repr(value)
    if isinstance(value, dict):
        return repr(cast("dict[object, object]", value))
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(one) for one in cast("tuple[object, ...]", value)) + "]"
    if callable(value):
        return name_of(value)
    name = cast("object", getattr(value, "name", None))
    return repr(name) if isinstance(name, str) else repr(value)


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse an option of `C` that there is none of where it is written, and name the nearest."""
    return _hinted(function, "C")


def hinted_change(function: Callable[P, R]) -> Callable[P, R]:
    """The same for `S`."""
    return _hinted(function, "S")


def _hinted(function: Callable[P, R], letter: str) -> Callable[P, R]:
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise _misused(
                    f"{letter}.{function.__name__}", signature, list(kwargs), error
                ) from None
            raise

    return checked


def _misused(
    word: str, signature: inspect.Signature, given: list[str], error: TypeError
) -> DeclarationError:
    options = [name for name in signature.parameters if name != "self"]
    wrong = next((name for name in given if name not in options), None)
    takes = f"write {word}({_options(signature)})"
    if wrong is None:
        return DeclarationError(
            f"it is written with too many or too few options: {error}", where=word, hint=takes
        )
    near = [name for name in OPTIONS_ELSEWHERE.get(wrong, ()) if name in options]
    near = near or difflib.get_close_matches(wrong, options, n=1, cutoff=0.5)
    return DeclarationError(
        f"`{wrong}` is not one of its options",
        where=word,
        hint=f"did you mean `{near[0]}`?" if near else takes,
    )


def _options(signature: inspect.Signature) -> str:
    """What is written between the parentheses: names of places, and options with a =."""
    shown: list[str] = []
    for name, option in signature.parameters.items():
        if name == "self":
            continue
        if option.kind is option.VAR_POSITIONAL:
            shown.append(f"*{name.rstrip('_')}")
        elif option.kind is option.VAR_KEYWORD:
            shown.append("key=...")
        elif option.kind is option.KEYWORD_ONLY:
            shown.append(f"{name}=...")
        else:
            shown.append(name)
    return ", ".join(shown)


def no_such_word(letter: str, name: str, words: Iterable[str]) -> AttributeError:
    """The error for a word that there is none of: ours for it, the nearest one, or all."""
    listed = list(words)
    ours = WORDS_ELSEWHERE.get(f"{letter}.{name}")
    near = difflib.get_close_matches(name, listed, n=1, cutoff=0.5)
    if ours is not None:
        return AttributeError(f"there is no `{letter}.{name}`; write {ours}")
    if near:
        return AttributeError(f"there is no `{letter}.{name}`; did you mean `{letter}.{near[0]}`?")
    return AttributeError(f"there is no `{letter}.{name}`; there are: {', '.join(listed)}")


def count(word: str, name: str, value: object, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise DeclarationError(
            f"{name}={value!r} is not a whole number of at least {least}",
            where=f"C.{word}",
            hint=f"pass {least} or more",
        )


def amount(word: str, name: str, value: object, *, most: float = float("inf")) -> None:
    """Refuse what is no number above 0 and at most `most`."""
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 < cast("float", value) <= most:
        limit = "" if most == float("inf") else f" and at most {most:g}"
        raise DeclarationError(
            f"{name}={value!r} is not a number above 0{limit}",
            where=f"C.{word}",
            hint=f"pass a number above 0{limit}",
        )


def names(word: str, given: object, what: str, *, least: int = 1) -> tuple[str, ...]:
    """Names as a tuple: one, or several."""
    listed = (given,) if isinstance(given, str) else given
    if isinstance(listed, Iterable):
        found = tuple(cast("Iterable[object]", listed))
        if len(found) >= least and all(isinstance(one, str) and one for one in found):
            return cast("tuple[str, ...]", found)
    shown = shorten(repr(given), 60)
    within = cast("tuple[object, ...]", given)[:1] if isinstance(given, tuple) else ()
    one_by_one = " one by one" if within and isinstance(within[0], list | tuple) else ""
    raise DeclarationError(
        f"{shown} is not a list of {what}",
        where=f"C.{word}",
        hint=f'pass {what}{one_by_one}: "name"',
    )
