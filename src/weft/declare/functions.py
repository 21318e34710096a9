"""Users' functions: their names, and whether they take the arguments they will get."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast, final

from weft.declare.hints import CHOICES_ELSEWHERE
from weft.errors import DeclarationError, UsageError
from weft.jsonschema import shorten
from weft.misuse import suggest_names

StateFunction: TypeAlias = Callable[[Mapping[str, Any]], object]
"""A function of the state. Any, not Json: `state["score"] > 0.8` is to need no narrowing."""

PassFunction: TypeAlias = Callable[..., object]
"""A user's pass, `fn(prompt, env) -> Prompt`: the types it is written with are above this room."""


@final
class Foreign:
    """Code that was written for another framework, and how it is called here.

    `functions` are read by the checker, each as a function of the argument named `context`; where
    `opaque`, they may do anything. `call` runs them with Weft's own arguments. Without it they are
    looked at only, and a run that would come to them is refused before it begins.
    """

    __slots__ = ("__name__", "call", "context", "functions", "opaque", "what")

    def __init__(
        self,
        name: str,
        what: str,
        *,
        functions: Iterable[Callable[..., object]] = (),
        context: str = "",
        call: Callable[..., object] | None = None,
        opaque: bool = False,
    ) -> None:
        self.__name__ = name
        self.what = what
        self.functions = tuple(functions)
        self.context = context
        self.call = call
        self.opaque = opaque

    def __call__(self, *args: object, **named: object) -> object:
        """Run it, or refuse to."""
        if self.call is None:
            raise code_refusal([self])
        return self.call(*args, **named)

    def __repr__(self) -> str:
        return f"<{self.what}>"


def code_refusal(code: Iterable[Foreign]) -> UsageError:
    """The error for code that cannot be run here, with the place of each."""
    several = [*dict.fromkeys(f"{one.what} ({one.__name__})" for one in code)]
    return UsageError(
        f"this cannot be run here: {', '.join(several)}",
        where=several[0].rpartition("(")[2].rstrip(")"),
        hint="leave it out, or run the tree with google-adk and weft.interop.adk.WeftPlugin()",
    )


def name_of(function: object) -> str:
    """The name of a function, or of the class of a callable object."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(getattr(function, "__name__", type(function).__name__))


def require_arguments(function: Callable[..., object], form: str, *, where: str, hint: str) -> None:
    """Refuse a function that cannot be called as the form says: `a step takes (state)`."""
    taken = misfit(function, form.count(",") + 1)
    if taken is not None:
        raise DeclarationError(
            f"{form}; `{name_of(function)}` takes {taken}", where=where, hint=hint
        )


def misfit(function: Callable[..., object], count: int) -> str | None:
    """What the function takes, in words, if it cannot be called with `count` arguments by place.

    None is also the answer where the signature cannot be read: some functions written in C.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    placed = [
        each
        for each in signature.parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    least = sum(each.default is each.empty for each in placed)
    more = any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())
    named = [
        each.name
        for each in signature.parameters.values()
        if each.kind is each.KEYWORD_ONLY and each.default is each.empty
    ]
    if least <= count and (more or count <= len(placed)) and not named:
        return None
    if more:
        words = f"{least} or more"
    else:
        words = str(least) if least == len(placed) else f"{least} to {len(placed)}"
    return words + "".join(f" and needs {name}=" for name in named)


def ask(function: StateFunction, state: Mapping[str, Any]) -> object:
    """What a predicate says of the state. An awaitable would count as true, so it is an error."""
    answer = function(state)
    # closed, or Python warns that it was never awaited
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("it gave something to wait for, not an answer")
    return answer


def is_async(function: object) -> bool:
    """Whether calling it gives something to wait for."""
    called = getattr(type(function), "__call__", None)  # noqa: B004  an object's own method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def is_generator(function: object) -> bool:
    """Whether calling it gives values one by one, where one is expected."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def check_choice(owner: str, name: str, value: object, choices: object) -> None:
    """Refuse a string option that is not one of its choices."""
    valid = cast("tuple[str, ...]", choices.__args__)  # type: ignore[attr-defined]
    if value not in valid:
        options = ", ".join(repr(choice) for choice in valid)
        word = re.sub(r"[\s-]+", "_", str(value).lower())
        near = suggest_names(str(value).lower(), valid, most=1, cutoff=0.4, quote="'")
        hint = CHOICES_ELSEWHERE.get(f"{name}.{word}") or near or f"pass one of {options}"
        raise DeclarationError(
            f"{name}={value!r} is not one of {options}", where=f"{owner}.{name}", hint=hint
        )


_SCOPE_SLIPS = {
    **dict.fromkeys(("user", "usr", "uesr", "usre", "users"), "user"),
    **dict.fromkeys(("app", "ap", "aap"), "app"),
    **dict.fromkeys(("temp", "tmp", "tem"), "temp"),
}


def require_state_key(key: object, *, where: str, example: str) -> str:
    """The state key, or an error for what no template could read and nobody can have meant."""
    if isinstance(key, str) and key.isidentifier():  # nearly all are
        return key
    if not isinstance(key, str) or not key.strip():
        spelling = shorten(repr(key), 60)
        raise DeclarationError(f"{spelling} is not a state key", where=where, hint=example)
    bare = key.strip().strip("${}?! ")
    scope, colon, rest = bare.partition(":")
    bare = f"{_SCOPE_SLIPS.get(scope.lower(), scope)}:{rest}" if colon else bare
    right = re.sub(r"[\s{}\"'`?!,;]+", "_", bare).strip("_") or "key"
    if right != key:
        raise DeclarationError(
            f"{key!r} is not a state key: no template could read it",
            where=where,
            hint=f'write "{right}", which a template reads as {{{right}}}',
        )
    return key


def is_model(value: object) -> bool:
    """Whether this is a model's name, or an object that has a name and speaks a dialect."""
    if isinstance(value, str):
        return bool(value) and value == value.strip() and value.isprintable()
    return all(isinstance(getattr(value, name, None), str) for name in ("name", "dialect"))


_PASS_FORM = "write def my_pass(prompt, env): ... return prompt"


def check_passes(owner: str, field: str, values: object) -> tuple[PassFunction, ...]:
    """Passes: functions of a prompt and its environment that return a prompt."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise DeclarationError(
            f"{field} is not a list", where=f"{owner}.{field}", hint=f"write {field}=[my_pass]"
        )
    return tuple(check_pass(owner, field, one) for one in cast("Iterable[object]", values))


def check_pass(owner: str, field: str, value: object) -> PassFunction:
    """A function that takes (prompt, env) and answers at once."""
    where = f"{owner}.{field}"
    if isinstance(value, type) or not callable(value):
        raise DeclarationError(f"{value!r} is not a pass", where=where, hint=_PASS_FORM)
    if is_async(value) or is_generator(value):
        raise DeclarationError(
            f"the pass `{name_of(value)}` does not answer at once: compiling waits for nothing",
            where=where,
            hint="fetch what it needs in before_agent or a tool, and read env.session.state",
        )
    require_arguments(value, "a pass takes (prompt, env)", where=where, hint=_PASS_FORM)
    return value
