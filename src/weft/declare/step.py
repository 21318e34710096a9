"""A step: a plain function of the state, run between agents."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from weft.declare import checks
from weft.declare.compose import Composable, flow_node
from weft.declare.functions import StateFunction, is_generator, misfit, name_of
from weft.declare.tool import Tool, check_names
from weft.errors import DeclarationError


@flow_node("Step(function)")
@dataclass(frozen=True, repr=False)
class Step(Composable):
    """A function of one argument, the state, that returns the changes to it, or None.

    It may be async. `reads` and `writes` name the keys it is known to use, for the checks;
    `captures` those that get what the user said, before the function is called. What `S` makes
    says more: `drops` are keys it takes away, `keeps` the only ones it leaves, `renames` old and
    new names, `fills` whether it writes only what is missing, `maybe` whether it may do nothing,
    `tags` what it calls the newest answer, `asks` the functions of the state that it calls, and
    `written` how its author wrote it.
    """

    function: StateFunction
    name: str = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)
    reads: tuple[str, ...] = field(default=(), kw_only=True)
    writes: tuple[str, ...] = field(default=(), kw_only=True)
    captures: tuple[str, ...] = field(default=(), kw_only=True)
    drops: tuple[str, ...] = field(default=(), kw_only=True)
    keeps: tuple[str, ...] | None = field(default=None, kw_only=True)
    renames: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    fills: bool = field(default=False, kw_only=True)
    maybe: bool = field(default=False, kw_only=True)
    tags: tuple[str, ...] = field(default=(), kw_only=True)
    asks: tuple[StateFunction, ...] = field(default=(), kw_only=True, compare=False)
    written: str = field(default="", kw_only=True, compare=False)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            function: StateFunction,
            *,
            name: str | None = None,
            description: str = "",
            reads: Iterable[str] = (),
            writes: Iterable[str] = (),
            captures: Iterable[str] = (),
            drops: Iterable[str] = (),
            keeps: Iterable[str] | None = None,
            renames: Iterable[tuple[str, str]] = (),
            fills: bool = False,
            maybe: bool = False,
            tags: Iterable[str] = (),
            asks: Iterable[StateFunction] = (),
            written: str = "",
        ) -> None:
            """What people may pass is wider than what the fields hold."""

    def __post_init__(self) -> None:
        """Take the function's name, and refuse what cannot be called with the state."""
        own = name_of(self.function)
        if cast("object", self.name) in (None, ""):
            object.__setattr__(self, "name", own if own.isidentifier() else "step")
        checks.check_name(self.name, kind="Step")
        checks.check_text(self.name, "description", self.description)
        check_function(self.function, f"Step {own}")
        options = {
            "reads": self.reads,
            "writes": self.writes,
            "captures": self.captures,
            "drops": self.drops,
            "tags": self.tags,
        }
        for option, keys in options.items():
            check_names(option, keys, where=f"Step {own}")
            object.__setattr__(self, option, tuple(keys))


def check_function(function: object, where: str) -> None:
    """Refuse what cannot be called with the state and be done at once."""
    if isinstance(function, Tool):
        raise DeclarationError(
            f"`{function.name}` is a tool: it takes arguments, not the state",
            where=f"Step {function.name}",
            hint=f"give it to an agent: agent.uses({function.name})",
        )
    if isinstance(function, type):
        raise DeclarationError(
            f"{function.__name__} is a class, not a function",
            where=where,
            hint=f"for a structured answer write agent @ {function.__name__}",
        )
    if not callable(function):
        raise DeclarationError(
            f"{function!r} cannot be called", where=where, hint="pass a function of the state"
        )
    if is_generator(function):
        raise DeclarationError(
            "it yields", where=where, hint="return one mapping of the changes, or None"
        )
    taken = misfit(function, 1)
    if taken is not None:
        raise DeclarationError(
            f"a step takes (state); `{name_of(function)}` takes {taken}",
            where=where,
            hint="write def step(state): return {...}",
        )
