"""Checks of declarations: each refuses what cannot be right, where it is written.

A check names the agent, the field and the fix. It takes whatever people pass, and returns what the
agent keeps.
"""

import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import is_dataclass
from types import CodeType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import msgspec

import weft.schema as schema  # the first to need it: `from weft` would ask for a public name
from weft.codes import CODES
from weft.declare.compose import Composable
from weft.declare.functions import (
    PassFunction,
    check_choice,
    check_pass,
    is_async,
    is_generator,
    is_model,
    misfit,
    name_of,
    require_arguments,
    require_state_key,
)
from weft.declare.policy import Policy, TokenBudget, Transforms
from weft.declare.tool import RESERVED, Tool, to_tools
from weft.declare.words import C
from weft.errors import DeclarationError, describe_kind
from weft.jsonschema import shorten
from weft.misuse import hint_at_call, suggest_names
from weft.values import compact, has_lone_surrogate

if TYPE_CHECKING:
    from weft.declare.agent import Agent
    from weft.declare.flow import Flow


Check: TypeAlias = Callable[[str, str, object], object]
"""A check of a field: called with the agent's name, the field and what was passed for it.

It returns what the agent keeps, or raises.
"""


def by(check: Check) -> Mapping[str, Check]:
    """The metadata of a field that this check looks at."""
    return {"check": check}


def optional(check: Check) -> Check:
    """The same check for a field that may be None."""

    def check_unless_none(agent: str, field: str, value: object) -> object:
        return None if value is None else check(agent, field, value)

    return check_unless_none


def one_of(choices: object) -> Check:
    """The check of a field that takes one of a few words."""

    def check_word(agent: str, field: str, value: object) -> object:
        check_choice(agent, field, value, choices)
        return value

    return check_word


def field_error(agent: str, field: str, message: str, hint: str) -> DeclarationError:
    """The error for a field of an agent."""
    return DeclarationError(message, where=f"{agent}.{field}", hint=hint)


def check_name(name: object, *, kind: str = "Agent") -> None:
    """A name is an identifier, and not the user's; `kind` is the class that is given it."""
    word = "an agent" if kind in ("Agent", "CustomAgent") else f"a {kind.lower()}"
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        default = f"my_{kind.lower()}"
        if kind == "Agent" and isinstance(name, str) and len(name.split()) > 3:
            raise DeclarationError(
                f"{shorten(repr(name), 60)} cannot be an agent name: it is not an identifier",
                where="Agent.name",
                hint='write Agent("assistant", instruction=...): the name comes first',
            )
        fixed = "".join(c if c.isalnum() else "_" for c in str(name)).strip("_") or default
        if not fixed.isidentifier() or keyword.iskeyword(fixed):
            fixed = f"{kind.lower()}_{fixed}"
        raise DeclarationError(
            f"{name!r} cannot be {word} name: it is not an identifier",
            where=f"{kind}.name",
            hint=f'write Agent("{fixed}")' if kind == "Agent" else f'write name="{fixed}"',
        )
    if name == "user":
        raise DeclarationError(
            f'"user" cannot be {word} name: events of the user carry it',
            where=f"{kind}.name",
            hint='choose another name, such as "assistant"',
        )


def check_model(agent: str, field: str, model: object) -> object:
    """A model is a name, or an object that has a name and speaks a dialect."""
    if model is None or is_model(model):
        return model
    raise field_error(
        agent, field, f"{shorten(repr(model), 60)} is not a model", _model_hint(model)
    )


def _model_hint(model: object) -> str:
    """The name of a model that somebody has of another library, or wrote in another way."""
    if isinstance(model, type):
        return f'pass an object of it: {model.__name__}("NAME")'
    if isinstance(model, str) and model.strip().isprintable() and model.strip():
        return f'write model="{model.strip()}"'
    if called := hint_at_call(model, "model={}"):
        return called
    names = ("model_name", "model", "model_id", "name", "deployment_name")
    fields = {one: cast("object", getattr(model, one, None)) for one in (*names, "provider")}
    if isinstance(model, list | tuple) and model:
        first = cast("Sequence[object]", model)[0]
        return f'write one name: model="{first}"' if isinstance(first, str) else _model_hint(first)
    if isinstance(model, Mapping):
        fields = dict(cast("Mapping[str, object]", model))
    provider = fields.get("provider")
    for one in names:
        name = fields.get(one)
        if isinstance(name, str) and name.isprintable() and name.strip():
            prefix = f"{provider}/" if isinstance(provider, str) and "/" not in name else ""
            return f'write the name of the model: model="{prefix}{name}"'
    return "pass a name, an object with `name` and `dialect`, or None to inherit"


def check_tools(agent: str, field: str, values: object) -> tuple[Tool, ...]:
    """Tools, functions and toolsets as tools; their names are unique, and none is Weft's own."""
    tools = to_tools(cast("Iterable[object]", values), where=f"{agent}.{field}")
    seen: set[str] = set()
    for tool in tools:
        if tool.name in RESERVED:
            raise field_error(
                agent, field, f"the tool name `{tool.name}` is Weft's own", "rename the tool"
            )
        if tool.name in seen:
            rename = "@tool(name=...), or give its toolset a prefix"
            if tool.agent is not None:
                rename = f'{type(tool.agent).__name__}("{tool.name}_2", ...)'
            raise field_error(
                agent, field, f"two tools are named `{tool.name}`", f"rename one: {rename}"
            )
        seen.add(tool.name)
    return tools


def check_children(agent: str, field: str, values: object) -> "tuple[Agent | Flow, ...]":
    """Agents and flows that may be handed over to."""
    kind = describe_kind(values)
    # one agent without a list around it is a common slip
    if isinstance(values, Composable | str | Set | Mapping) or not isinstance(values, Iterable):
        hint = "leave it out" if values is None else f"write {field}=[a, b], with the agents"
        raise field_error(agent, field, f"{field} is {kind}, not a list", hint)
    children = tuple(cast("Iterable[object]", values))
    for child in children:
        if not isinstance(child, Composable):
            raise field_error(
                agent,
                field,
                f"{shorten(repr(child), 60)} is not an Agent or a flow",
                _child_hint(child, field),
            )
    return cast("tuple[Agent | Flow, ...]", children)


def _child_hint(child: object, field: str) -> str:
    """What to pass instead of something that is not an agent."""
    if isinstance(child, str) and child.isidentifier():
        return f"pass the agent itself, not its name: {field}=[{child}]"
    if isinstance(child, type):
        return f'pass an object of it: {field}=[{child.__name__}("name", ...)]'
    if called := hint_at_call(child, f"{field}=[{{}}]"):
        return called
    return "pass them one by one: weft.Agent values, or flows such as Sequence(a, b)"


def check_instruction(agent: str, field: str, value: object) -> object:
    """An instruction is text, or something that makes it."""
    if isinstance(value, str) or callable(value) or _names_function(value):
        return value
    message = f"{shorten(repr(value), 60)} is not an instruction"
    raise field_error(agent, field, message, _text_hint(field, value))


def _names_function(value: object) -> bool:
    """Whether it is (module, "function"), with extra arguments or without."""
    if not isinstance(value, tuple):
        return False
    pieces = cast("tuple[object, ...]", value)
    known = len(pieces) in (2, 3) and isinstance(pieces[1], str)
    return known and callable(getattr(pieces[0], cast("str", pieces[1]), None))


def _text_hint(field: str, value: object) -> str:
    """How to write an instruction that is not a text yet."""
    if value is None:
        return "leave it out"
    if called := hint_at_call(value, f"{field}={{}}"):
        return called
    if isinstance(value, list | tuple):
        pieces = cast("Sequence[object]", value)
        if all(isinstance(one, str) for one in pieces):
            return f'write one text: {field}="\\n".join([...])'
    elif isinstance(value, Mapping):
        content = cast("Mapping[str, object]", value).get("content")
        if isinstance(content, str):
            return f'write the text alone: {field}=message["content"]'
    return 'pass text, a callable of one argument, or (module, "function"[, [extra]])'


def check_policy(agent: str, field: str, context: object) -> Policy | None:
    """A policy."""
    if isinstance(context, Transforms):
        raise field_error(
            agent,
            field,
            f"{context} selects nothing: it is a transform",
            f"write C.default(){str(context).removeprefix('C')}",
        )
    if context is not None and not isinstance(context, Policy):
        raise field_error(
            agent, field, f"{shorten(repr(context), 60)} is not a policy", _policy_hint(context)
        )
    return context


def check_contents(agent: str, field: str, value: object) -> object:
    """ADK's words for what an agent sees."""
    if value not in (None, "default", "none"):
        raise field_error(
            agent,
            field,
            f"{value!r} is not a view",
            'pass "default" or "none", or a policy: context=C.none()',
        )
    return value


def merge_view(agent: str, context: Policy | None, include_contents: str | None) -> Policy | None:
    """What the agent sees: its policy, or the one that ADK's word for it means."""
    if include_contents is None:
        return context
    if include_contents == "default":
        return C.default() if context is None else context
    if context is not None and context.facts.view != "none":
        raise field_error(
            agent,
            "context",
            f'include_contents="none" and context={context} say different things',
            "keep `context` only",
        )
    return context if context is not None else C.none()


def _policy_hint(value: object) -> str:
    """The policy that somebody may have meant by a word or a number."""
    number = re.search(r"\d+", str(value)) if isinstance(value, str | int) else None
    if number is not None:
        return f"write C.window({number[0]}) for the last {number[0]} turns"
    words = {"none": "C.none()", "nothing": "C.nothing()", "user": "C.user()", "auto": "C.auto()"}
    if isinstance(value, str) and value.strip().lower() in words:
        return f"write {words[value.strip().lower()]}"
    if callable(value) and (name := name_of(value)) != type(value).__name__:
        return f"call it: C.{name}(...)"
    return "write one of C: C.window(5), C.none(), C.user(), C.auto()"


def check_budget(agent: str, field: str, budget: object) -> TokenBudget | PassFunction | None:
    """A budget, its options as a dict, or a pass that shortens the conversation."""
    if budget is None or isinstance(budget, TokenBudget):
        return budget
    if callable(budget) and not isinstance(budget, type):
        return check_pass(agent, field, budget)
    reason = f"{budget!r} is not a TokenBudget"
    if isinstance(budget, Mapping):
        try:
            return msgspec.convert(dict(cast("Mapping[str, object]", budget)), TokenBudget)
        except msgspec.ValidationError as error:
            reason = f"these are not budget options: {error}"
        except DeclarationError as error:
            reason = error.message
    raise field_error(
        agent,
        field,
        reason,
        "write TokenBudget(token_budget=4096, keep_recent=3), or pass a function of (prompt, env)",
    )


def check_schema(agent: str, field: str, declared: object) -> object:
    """A schema that can be told to a model; a dict is copied, so that it stays as it is."""
    if declared is None:
        return None
    if isinstance(declared, str | int | float | bytes | list | set | tuple):
        spelling = shorten(repr(cast("object", declared)), 60)
        raise field_error(
            agent,
            field,
            f"{spelling} is not a type",
            "pass a type: a dataclass, a pydantic model, list[str]; or a JSON Schema as a dict",
        )
    if inspect.isroutine(declared):
        raise field_error(
            agent, field, f"{declared!r} is not a type", "pass a type or a JSON Schema dict"
        )
    if _is_model_object(declared):
        kind = type(declared).__name__
        raise field_error(
            agent,
            field,
            f"{shorten(repr(declared), 60)} is an object, not a type",
            f"pass the class: {field}={kind}",
        )
    if _is_dict_of_types(declared):
        raise field_error(
            agent,
            field,
            "a dict of types is not a JSON Schema",
            "declare a class with these fields: a pydantic model, a dataclass or a TypedDict",
        )
    json_schema = schema.of_type(declared, where=f"{agent}.{field}")
    # such text cannot be sent as UTF-8
    if has_lone_surrogate(compact(json_schema)):
        raise field_error(agent, field, "the schema holds a lone surrogate", "mend its texts")
    if isinstance(declared, Mapping):
        # its author may change the dict later, and an agent is frozen
        return deepcopy(cast("Mapping[str, object]", declared))
    return declared


def _is_dict_of_types(value: object) -> bool:
    """Whether it is `{"name": str}`, where a JSON Schema is wanted."""
    if not isinstance(value, Mapping):
        return False
    return any(isinstance(one, type) for one in cast("Mapping[str, object]", value).values())


def _is_model_object(value: object) -> bool:
    """Whether it is an object of a class that describes itself, where the class is wanted."""
    if isinstance(value, type):
        return False
    return is_dataclass(value) or hasattr(type(value), "model_fields")


def check_output_key(agent: str, field: str, key: object) -> object:
    """A state key."""
    if key is not None:
        require_state_key(key, where=f"{agent}.{field}", example=f'write {field}="plan"')
    return key


def check_key(flow: str, option: str, key: object) -> None:
    """A state key that a flow reads or writes."""
    require_state_key(key, where=f"{flow}.{option}", example=f'write {option}="results"')


def check_count(flow: str, option: str, value: object) -> None:
    """How many: at least one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise field_error(flow, option, f"{option}={value!r}", "pass a whole number of at least 1")


def check_text(agent: str, field: str, value: object) -> object:
    """A text."""
    if not isinstance(value, str):
        raise field_error(agent, field, f"{field} is not text", "pass a string")
    return value


def check_flag(agent: str, field: str, value: object) -> object:
    """True or False."""
    if not isinstance(value, bool):
        raise field_error(agent, field, f"{field}={value!r}", "pass True or False")
    return value


def check_steps(agent: str, field: str, value: object) -> object:
    """At least one step."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise field_error(agent, field, f"{field}={value!r}", "pass 1 or more")
    return value


def check_allow(agent: str, field: str, codes: object) -> tuple[str, ...]:
    """Diagnostic codes, one or several."""
    listed = (codes,) if isinstance(codes, str) else codes
    if not isinstance(listed, Iterable):
        raise field_error(
            agent, field, f"{codes!r} is not a list of codes", 'write allow=["WEFT101"]'
        )
    checked: list[str] = []
    for code in cast("Iterable[object]", listed):
        if not isinstance(code, str) or code not in CODES:
            near = suggest_names(str(code), CODES, most=1, quote='"')
            raise field_error(
                agent,
                field,
                f"{code!r} is not a diagnostic code",
                near or f"known: {', '.join(CODES)}",
            )
        checked.append(code)
    return tuple(checked)


def check_cleared(agent: str, field: str, labels: object) -> tuple[str, ...]:
    """Labels, one or several."""
    listed = (labels,) if isinstance(labels, str) else labels
    names = tuple(cast("Iterable[object]", listed)) if isinstance(listed, Iterable) else (None,)
    if not all(isinstance(label, str) and label for label in names):
        raise field_error(agent, field, f"{labels!r} is not a list of labels", 'write ["secret"]')
    return cast("tuple[str, ...]", names)


def check_deps_type(agent: str, field: str, value: object) -> object:
    """A type that dependencies can be checked against; not an object of it."""
    if value is None or fits_type(value, None) is not None:
        return value
    kind = type(value).__name__
    raise field_error(
        agent,
        field,
        f"{describe_kind(value)} is not a type",
        f"pass the class: {field}={kind}; the object goes to the run: run(..., deps=...)",
    )


def fits_type(kind: object, value: object) -> bool | None:
    """Whether a value is of a type; None if that is not a type. What cannot be checked fits."""
    if kind is Any or isinstance(kind, TypeVar):
        return True
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        fits = [fits_type(one, value) for one in get_args(kind)]
        return None if None in fits else any(fits)
    plain = get_origin(kind) or kind
    if not isinstance(plain, type):
        return None
    try:
        return isinstance(value, plain)
    except TypeError:  # a protocol that says nothing at run time
        return True


CALLBACKS: dict[str, str] = {
    "before_agent": "ctx",
    "after_agent": "ctx",
    "before_model": "ctx, prompt",
    "after_model": "ctx, response",
    "before_tool": "ctx, tool, args",
    "after_tool": "ctx, tool, args, result",
    "on_model_error": "ctx, prompt, error",
    "on_tool_error": "ctx, tool, args, error",
}
"""The callbacks of an agent, and what each is called with, by place."""


def check_callback(agent: str, field: str, value: object) -> object:
    """A function that takes what it will be given, or several; a list becomes a tuple."""
    if value is None or (field == "on_tool_error" and value in ("raise", "result")):
        return value
    several = isinstance(value, (list, tuple))
    chain = tuple(cast("Iterable[object]", value)) if several else (value,)
    for one in chain:
        if not callable(one):
            hint = hint_at_call(one, f"{field}={{}}") or "pass a function or a list"
            if isinstance(one, str) and one.isidentifier():
                hint = f"pass the function itself, without quotes: {field}={one}"
            raise field_error(agent, field, f"{shorten(repr(one), 60)} cannot be called", hint)
        parameters = CALLBACKS[field]
        if "tool" in field and _first_parameter(one) == "tool":
            raise field_error(
                agent,
                field,
                f"{field} takes ({parameters}), and `{name_of(one)}` takes the tool first",
                f"write def {field}({parameters}): the context comes first",
            )
        taken = misfit(one, parameters.count(",") + 1)
        if taken is not None:
            raise field_error(
                agent,
                field,
                f"{field} takes ({parameters}); `{name_of(one)}` takes {taken}",
                f"write def {field}({parameters})",
            )
    return chain if several else value


def _first_parameter(function: Callable[..., object]) -> str:
    """The name of the first argument of a function; "" where that cannot be said."""
    code: object = getattr(function, "__code__", None)
    return code.co_varnames[0] if isinstance(code, CodeType) and code.co_argcount else ""


def check_predicate(predicate: object, *, where: str, at_once: bool = True) -> None:
    """A function of the state; async only where somebody will wait for it.

    Elsewhere it would give something to wait for, which counts as true whatever it says.
    """
    if not callable(predicate):
        key = predicate if isinstance(predicate, str) and predicate else None
        example = f'state.get("{key}")' if key is not None else 'state["score"] > 0.8'
        raise DeclarationError(
            f"{predicate!r} cannot be called",
            where=where,
            hint=f"pass a function of the state: lambda state: {example}",
        )
    if is_generator(predicate) or (at_once and is_async(predicate)):
        raise DeclarationError(
            f"`{name_of(predicate)}` does not answer at once",
            where=where,
            hint="find the answer in a step before, and read the key it writes",
        )
    hint = 'write lambda state: state["score"] > 0.8'
    require_arguments(predicate, "a predicate takes (state)", where=where, hint=hint)
