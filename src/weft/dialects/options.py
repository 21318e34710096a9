"""Where options go in a request: a path, or a function that puts them there."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from weft.dialects.facts import Facts, facts_for, wire_name
from weft.dialects.track import Wire
from weft.dialects.wire import put
from weft.values import Json, JsonObject

Option: TypeAlias = "str | Callable[[Wire, Json], Sequence[str] | None]"
"""Where an option goes: a dotted path in the request, or a function that puts it there.

The function gets an empty request, and gives back the names of what it could not put.
"""


def one_of(path: str, *values: str) -> Option:
    """An option the provider takes only these values of."""

    def place(wire: Wire, value: Json) -> list[str]:
        if value not in values:
            return [f"{path.rpartition('.')[2]}={value}"]
        put(wire, path, value)
        return []

    return place


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How hard a model may be told to think, the least first."""


class FittedOption(NamedTuple):
    """The option as the model takes it, None where it takes none, and what it gave up."""

    value: Json
    lost: tuple[str, ...] = ()


def fit_option(name: str, value: Json, model: str) -> FittedOption:
    """An option as this model takes it."""
    facts = facts_for(model)
    if name == "thinking" and isinstance(value, dict):
        return _fit_thinking(value, facts, wire_name(model))
    if name == "tool_choice" and not facts.forced_choice and is_forced(value):
        return FittedOption(
            "auto", (f"{wire_name(model)} cannot be made to call a tool: it may call one",)
        )
    return FittedOption(value)


def is_forced(choice: Json) -> bool:
    """Whether a tool choice makes the model call one."""
    return choice in ("any", "required") or isinstance(choice, dict)


def nearest(effort: str, known: tuple[str, ...]) -> str:
    """The effort that comes nearest among those a model has: not above it, if there is one.

    Not to think at all is near to nothing but itself.
    """
    order = EFFORTS.index(effort)
    below = [one for one in known if one != "none" and EFFORTS.index(one) <= order]
    if effort in known:
        return effort
    known = tuple(one for one in known if one != "none") or known
    return max(below, key=EFFORTS.index) if below else min(known, key=EFFORTS.index)


def _fit_thinking(value: JsonObject, facts: Facts, model: str) -> FittedOption:
    effort, idle = value.get("effort"), value.get("budget") == 0
    if not facts.thinks:
        wanted = not idle and effort != "none"
        return FittedOption(
            None, (f"{model} does not think: `thinking` is left out",) if wanted else ()
        )
    made, lost = dict(value), list[str]()
    if idle and not facts.rests:
        lost.append(f"{model} always thinks: `thinking.budget` is left out")
        del made["budget"]
        if facts.efforts:
            effort = made.setdefault("effort", facts.efforts[0])
    if facts.efforts is not None and isinstance(effort, str) and effort in EFFORTS:
        if not facts.efforts:
            lost.append(f"{model} cannot be told how hard to think: `{effort}` is left out")
            del made["effort"]
        elif effort not in facts.efforts:
            made["effort"] = nearest(effort, facts.efforts)
            lost.append(f"{model} has no effort `{effort}`: `{made['effort']}` is asked for")
    return FittedOption(made or None, tuple(lost))
