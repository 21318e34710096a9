"""What tools of servers and services share: names that every provider takes, searched listings."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from weft.declare.tool import NAME, Effect, Tool
from weft.errors import DeclarationError, describe_kind
from weft.misuse import suggest_names
from weft.tokens import counter_for
from weft.values import JsonObject, compact

if TYPE_CHECKING:
    from weft.compiler import ReadonlyContext

DEFER_FROM = 10_000
"""How many tokens the tools of a server may take before they are found by searching."""

LARGEST_TOOL = 100_000
"""How many characters the declaration of one tool may have."""

LARGEST_RESULT = 5_000_000
"""How many characters of a result are taken."""

LARGEST_MEDIA = 30_000_000
"""How many characters of base64 the media of a result may have."""

CONTEXT_PARAMETER = "weft_context"
"""The parameter under which a call is given its context: no server has such an argument."""


def make_name(name: str) -> str:
    """A name that every provider takes; one that had to be changed ends with a hash of itself."""
    if NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name)
    plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"
    mark = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=3).hexdigest()
    return f"{plain[:57]}_{mark}"


def tools_known_from(server: str, context: "ReadonlyContext[object] | None") -> list[Tool]:
    """The tools of a server that the session was last offered, while it cannot be asked."""
    if context is None:
        return []
    from weft.compiler.tools import offered_in, tools_in  # it loads much

    offered = offered_in(context.events, context.agent_name)
    known = tools_in(offered) if offered is not None else ()
    return [one for one in known if one.source[:1] == (server,)]


def drop_repeated(tools: Iterable[Tool]) -> list[Tool]:
    """The tools, the first of each name."""
    by_name: dict[str, Tool] = {}
    for tool in tools:
        by_name.setdefault(tool.name, tool)
    return [*by_name.values()]


def defer_large(tools: Sequence[Tool], defer: bool | None) -> list[Tool]:
    """The tools, to be searched where that was asked for, or where they take many tokens."""
    if defer is None and len(tools) > 1:
        texts = (compact([one.name, one.description, one.parameters]) for one in tools)
        defer = sum(map(counter_for("").count, texts)) > DEFER_FROM
    return [msgspec.structs.replace(one, deferred=True) for one in tools] if defer else [*tools]


# --- who may decide on calls, and whose word results are

Guards: TypeAlias = Mapping[str, Mapping[str, object]]
"""By the name of a tool at its server: `requires`, `consequential` and `trust`, as for `@tool`."""

_GUARDS = ("requires", "consequential", "trust")


def check_guards(guards: Guards, effect: Effect | None, where: str) -> None:
    """Refuse guards that say nothing, where they are written; what they name, the listing tells."""
    hint = 'write guards={"send_money": {"requires": {"recipient": ["user"]}}}'
    if not isinstance(cast("object", guards), Mapping):
        raise DeclarationError(f"guards is {describe_kind(guards)}", where=where, hint=hint)
    for name, guard in guards.items():
        at = f"{where}.guards[{name!r}]"
        if not isinstance(cast("object", guard), Mapping) or not guard:
            words = f"is {describe_kind(guard)}" if guard else "says nothing"
            raise DeclarationError(f"the guard of {name!r} {words}", where=at, hint=hint)
        for word in guard:
            if word not in _GUARDS:
                near = suggest_names(str(word), _GUARDS, most=1)
                raise DeclarationError(
                    f"`{word}` is not a guard", where=at, hint=near or f"write {', '.join(_GUARDS)}"
                )
        if effect == "pure" and _is_sink(guard):
            raise DeclarationError(
                'effect="pure" changes nothing, and consequential or requires says that it does',
                where=at,
                hint="leave one of them out",
            )


def named_tools(only: Iterable[str] | None, guards: Guards) -> list[tuple[str, str]]:
    """The tools that the options of a server name, each after its option."""
    return [*(("only", one) for one in only or ()), *(("guards", one) for one in guards)]


def guard_tool(tool: Tool, guards: Guards) -> Tool:
    """The tool with what its guard says; a server's word that it only reads does not count then."""
    guard = guards.get(tool.source[1] if len(tool.source) > 1 else tool.name)
    if guard is None:
        return tool
    effect = "unsafe" if tool.effect == "pure" and _is_sink(guard) else tool.effect
    return msgspec.structs.replace(tool, effect=effect, **cast("dict[str, Any]", {**guard}))


def _is_sink(guard: Mapping[str, object]) -> bool:
    return bool(guard.get("requires")) or guard.get("consequential") is True


# --- operations of services

Credential: TypeAlias = str | tuple[str, str] | Callable[[], str]
"""A key or token, a user with a password, or a function that gives a token."""


class HttpCallError(Exception):
    """A call that was not made, or was not answered."""


class ArgumentPlace(msgspec.Struct, frozen=True):
    """Where an argument of a tool goes in a request."""

    argument: str
    name: str
    place: str
    style: str = ""
    explode: bool | None = None
    is_json: bool = False


class Operation(msgspec.Struct, frozen=True):
    """One operation of a service."""

    id: str
    method: str
    path: str
    about: str
    parameters: JsonObject
    placed: tuple[ArgumentPlace, ...] = ()
    body: str = ""
    """The type of the argument `body`; empty where it has none."""
    security: tuple[tuple[str, ...], ...] = ()

    @property
    def effect(self) -> Effect:
        """What its method promises about a call that is made twice."""
        if self.method in ("GET", "HEAD", "OPTIONS"):
            return "pure"
        return "idempotent" if self.method in ("PUT", "DELETE") else "unsafe"
