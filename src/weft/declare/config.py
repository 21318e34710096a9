"""Options of generation and of a run, and the inputs that it needs.

Options have one name each and are merged deeply; unknown ones are refused. Inputs are the state
keys that an agent or a flow needs when it starts, with their types. They are declared in the
program: `Agent(..., inputs={"topic": str})`, or `flow.takes(topic=str)`. The check counts on them,
a compilation reports those that lack, a run does not start without them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Literal, TypeAlias, cast

import msgspec

from weft import schema
from weft.declare import template
from weft.declare.checks import check_schema, field_error
from weft.declare.functions import (
    PassFunction,
    check_choice,
    check_passes,
    is_model,
    require_state_key,
)
from weft.declare.hints import CONFIG_WORDS
from weft.declare.policy import Policy
from weft.errors import DeclarationError, describe_kind
from weft.jsonschema import describe_expected, validator
from weft.misuse import DeclaredStruct, explain_mistakes, find_near
from weft.session.store import Busy
from weft.values import Json, JsonObject, compact, has_lone_surrogate, require_json

OnMissing = Literal["keep", "error", "empty"]

OnProviderError = Literal["log", "raise"]

OnTruncated = Literal["keep", "continue", "error"]

Unfinished = Literal["leave", "resume", "reject"]
"""Leave a run that was cut off as it is, finish it first, or refuse the message."""

OnUntrusted = Literal["ask", "refuse", "note"]
"""Ask the user, refuse the call, or make it and say so."""

UserTrust = Literal["trusted", "untrusted"]

_NUMBER = (int, float)

OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    "temperature": (_NUMBER, "a number"),
    "top_p": (_NUMBER, "a number"),
    "top_k": ((int,), "a whole number"),
    "max_output_tokens": ((int,), "a whole number"),
    "stop_sequences": ((list, tuple), "a list of strings"),
    "seed": ((int,), "a whole number"),
    "presence_penalty": (_NUMBER, "a number"),
    "frequency_penalty": (_NUMBER, "a number"),
    "logprobs": ((bool, int), "True, False or how many"),
    "thinking": ((dict,), 'Thinking(effort="low"), Thinking(budget=2048), or the same as a dict'),
    "tool_choice": ((str, dict), '"auto", "any", "none" or {"name": "tool"}'),
    "parallel_tool_calls": ((bool,), "True or False"),
    "service_tier": ((str,), "a string"),
    "user": ((str,), "a string"),
    "cache": ((bool, str), 'True, False, or how long: "5m", "30m", "1h" or "12h"'),
    "instruction_changes": ((str,), '"rewrite" or "append"'),
    "extra": ((dict,), 'a dict by dialect, such as {"gemini": {"safetySettings": []}}'),
}
"""Generation options by canonical name: the types they take, and that in words."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How hard a model may be told to think, the least first."""

TOOL_CHOICES = ("auto", "any", "required", "none")

TTLS = ("5m", "30m", "1h", "12h")

CHANGES = ("rewrite", "append")

ALIASES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "stop": "stop_sequences",
}


def check_options(agent: str, field: str, config: object) -> JsonObject:
    """The generation options of an agent."""
    return check_generate_config(
        cast("Mapping[str, Json] | None", config), where=f"{agent}.{field}"
    )


def check_generate_config(config: Mapping[str, Json] | None, *, where: str) -> JsonObject:
    """The options under their canonical names, or an error that names the nearest valid one."""
    checked: JsonObject = {}
    if config is None:
        return checked
    if not isinstance(cast("object", config), Mapping):
        raise DeclarationError(
            f"generate_config is {describe_kind(config)}, not a dict",
            where=where,
            hint='write generate_config={"temperature": 0.3}',
        )
    for name, value in config.items():
        if isinstance(cast("object", value), Thinking):
            value = cast("Json", cast("Thinking", value).to_option())
        canonical = ALIASES.get(name, name)
        if canonical not in OPTIONS:
            # `maxOutputTokens`, as some providers write it, is near to our name for it
            spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower()
            near = find_near(spelled, [*OPTIONS, *ALIASES], cutoff=0.5)
            hint = f"valid: {', '.join(OPTIONS)}"
            if name in ("max_steps", "tools", "model", "instruction", "output_schema"):
                hint = f'write Agent("name", {name}=...): it belongs to the agent'
            elif near:
                hint = f"did you mean `{ALIASES.get(near[0], near[0])}`?"
            raise DeclarationError(f"`{name}` is not a generation option", where=where, hint=hint)
        if canonical in checked:
            other = next(alias for alias in config if ALIASES.get(alias, alias) == canonical)
            raise DeclarationError(
                f"`{canonical}` is given twice, as `{other}` and as `{name}`",
                where=where,
                hint=f"keep `{canonical}` only",
            )
        types, words = OPTIONS[canonical]
        # a bool is an int in Python
        wrong_bool = isinstance(value, bool) and bool not in types
        if value is not None and (wrong_bool or not isinstance(value, types)):
            raise DeclarationError(
                f"`{name}` is {value!r}, not {words}", where=where, hint=f"pass {words}"
            )
        checked[canonical] = _plain(canonical, value, where=f"{where}.{canonical}")
    return checked


def _plain(name: str, value: object, *, where: str) -> Json:
    """The option as JSON that can be sent, apart from what its author does with it later."""
    plain = require_json(value, where=where, refuse=DeclarationError)
    if has_lone_surrogate(compact(plain)):
        raise DeclarationError("the text holds a lone surrogate", where=where, hint="mend the text")
    wrong = None if plain is None else _nonsense(name, plain)
    if wrong is not None:
        raise DeclarationError(wrong, where=where, hint=f"pass {OPTIONS[name][1]}")
    return plain


def _nonsense(name: str, value: Json) -> str | None:
    """Why no provider could take this value, of the right type as it is."""
    match name, value:
        case "stop_sequences", list():
            return next((f"{one!r} is not a string" for one in value if type(one) is not str), None)
        case "max_output_tokens", int() if value < 1:
            return f"{value} is not above 0"
        case "tool_choice", str() if value not in TOOL_CHOICES:
            return f"{value!r} is not a choice"
        case "tool_choice", dict() if not (len(value) == 1 and isinstance(value.get("name"), str)):
            return f"{value!r} names no tool"
        case "thinking", dict():
            return _wrong_thinking(value)
        case "cache", str() if value not in TTLS:
            return f"{value!r} is not a time to keep things for"
        case "instruction_changes", str() if value not in CHANGES:
            return f"{value!r} is not a way to tell of a change"
        case "extra", dict():
            flat = (key for key, inner in value.items() if not isinstance(inner, dict))
            return next((f"`{key}` holds no dict" for key in flat), None)
        case _:
            return None


def _wrong_thinking(value: JsonObject) -> str | None:
    """What no model could be told about thinking."""
    for name, setting in value.items():
        if setting is None:  # it takes away what a layer below says
            continue
        if name not in Thinking.__struct_fields__:
            near = find_near(name, Thinking.__struct_fields__, cutoff=0.6)
            meant = f"; did you mean `{near[0]}`?" if near else ""
            return f"`{name}` says nothing about thinking{meant}"
        if name == "effort" and setting not in EFFORTS:
            return f"effort={setting!r} is not one of {', '.join(EFFORTS)}"
        whole = isinstance(setting, int) and not isinstance(setting, bool)
        if name == "budget" and not (whole and cast("int", setting) >= -1):
            return f"budget={setting!r} is not a number of tokens"
        if name == "include" and not isinstance(setting, bool):
            return f"include={setting!r} is not True or False"
    return None


@explain_mistakes('Thinking(effort="low")', words={"budget_tokens": "budget", "level": "effort"})
class Thinking(DeclaredStruct, frozen=True, kw_only=True):
    """How a model is to think before it answers, in one spelling for all providers.

    `effort` says how hard, from "none" to "max". `budget` is the most tokens, 0 for not at all and
    -1 to leave it to the model. `include` asks for the thoughts, or a summary of them. What a model
    cannot be told is reported, and the nearest that it can be told is asked for.
    """

    effort: str | None = None
    budget: int | None = None
    include: bool | None = None

    def __post_init__(self) -> None:
        option = self.to_option()
        wrong = _wrong_thinking(option) if option else "it says nothing"
        if wrong is not None:
            hint = 'write Thinking(effort="low"), Thinking(budget=2048) or Thinking(include=True)'
            raise DeclarationError(wrong, where="Thinking", hint=hint)

    def to_option(self) -> JsonObject:
        """The same as a generation option."""
        settings: JsonObject = {
            "effort": self.effort,
            "budget": self.budget,
            "include": self.include,
        }
        return {name: value for name, value in settings.items() if value is not None}


def merge(*layers: Mapping[str, Json]) -> JsonObject:
    """Later layers win, dicts merge key by key, and None takes an option away."""
    merged: JsonObject = {}
    for layer in layers:
        for name, value in layer.items():
            base = merged.get(name)
            if value is None:
                merged.pop(name, None)
            elif isinstance(value, dict) and isinstance(base, dict):
                merged[name] = merge(base, value)
            else:
                merged[name] = value
    return merged


def overlay(base: Mapping[str, Json], over: Mapping[str, Json]) -> JsonObject:
    """`over` above `base` as one layer: None stays, to take away what lies below both."""
    layer: JsonObject = dict(base)
    for name, value in over.items():
        below = layer.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            layer[name] = overlay(below, value)
        else:
            layer[name] = value
    return layer


_HINT = "write RunBudget(tokens=200_000, steps=40, seconds=120, money=0.50), or some of these"


@explain_mistakes("RunBudget(tokens=200_000, money=0.50)")
class RunBudget(DeclaredStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that a run may spend: tokens, model calls, seconds, US dollars.

    All its agents share it. At 80% it warns once. At 100% the run stops before its next model
    call, with an error event; a call that is under way is never cut, nor is a tool.
    """

    tokens: int | None = None
    steps: int | None = None
    seconds: float | None = None
    money: float | None = None

    def __post_init__(self) -> None:
        limits: dict[str, object] = {
            "tokens": self.tokens,
            "steps": self.steps,
            "seconds": self.seconds,
            "money": self.money,
        }
        if all(value is None for value in limits.values()):
            raise DeclarationError("it limits nothing", where="RunBudget", hint=_HINT)
        for name, value in limits.items():
            whole = name in ("tokens", "steps")
            kinds = (int,) if whole else (int, float)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < inf:
                number = "whole number" if whole else "number"
                raise DeclarationError(
                    f"{name}={value!r} is not a {number} above 0",
                    where=f"RunBudget.{name}",
                    hint=_HINT,
                )


@explain_mistakes(
    "RunConfig(max_llm_calls=50)",
    words=CONFIG_WORDS,
    change="write config = msgspec.structs.replace(config, {field}=...), which returns a copy",
)
class RunConfig(DeclaredStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one run overrides. `strict` turns losses and missing variables into errors."""

    generate_config: JsonObject = {}
    model: str | object | None = None
    strict: bool = False
    on_missing: OnMissing | None = None
    on_provider_error: OnProviderError | None = None
    on_truncated: OnTruncated | None = None
    max_llm_calls: int = 500
    stall: int | None = 3
    """How often in a row a call may come to the same result until the model is told; None: ever."""
    stream: bool = False
    """Whether partial events come while the model speaks."""
    busy: Busy = "queue"
    """What a second run of one session does: wait, be refused, or stop the first."""
    queue_timeout: float | None = None
    """How many seconds it waits for the first at most; then it is refused."""
    unfinished: Unfinished = "leave"
    """What is done about a run that a crash cut off, when the next message comes."""
    context: Policy | None = None
    """What agents see that have no policy of their own."""
    infer: bool = True
    """Whether an agent of a flow writes the one key that the next reads and nobody writes."""
    effects: bool = True
    """Whether models are asked for what a policy wants of them; else it does without."""
    budget: RunBudget | None = None
    """The most that the run may spend, with all its agents."""
    count_tokens: bool = False
    """Whether the tokens of an answer are counted here where its provider reports none."""
    passes: Sequence[PassFunction] = ()
    """Passes on the requests of all agents, after their own."""
    global_instruction: str | None = None
    """A text before the instruction of every agent, with `{variables}` of the state."""
    on_untrusted: OnUntrusted = "ask"
    """What is done about a consequential call that untrusted text had influence on."""
    user: UserTrust = "trusted"
    """Whether what the user says counts as the author's word, or as anybody's text."""

    def __post_init__(self) -> None:
        checked = check_generate_config(self.generate_config, where="RunConfig.generate_config")
        msgspec.structs.force_setattr(self, "generate_config", checked)
        for name, word, words in (
            ("on_missing", self.on_missing, OnMissing),
            ("on_provider_error", self.on_provider_error, OnProviderError),
            ("on_truncated", self.on_truncated, OnTruncated),
        ):
            if word is not None:
                check_choice("RunConfig", name, word, words)
        msgspec.structs.force_setattr(
            self, "passes", check_passes("RunConfig", "passes", self.passes)
        )
        text = cast("object", self.global_instruction)
        if text is not None and not isinstance(text, str):
            raise _wrong_option(
                "global_instruction",
                f"global_instruction is {describe_kind(text)}, not text",
                "pass a string; a function goes on the root: Agent(global_instruction=...)",
            )
        if self.model is not None and not is_model(self.model):
            raise _wrong_option(
                "model",
                f"{self.model!r} is not a model",
                'write model="gpt-5", or pass an object with `name` and `dialect`',
            )
        for name, flag in (
            ("strict", self.strict),
            ("stream", self.stream),
            ("effects", self.effects),
            ("infer", self.infer),
            ("count_tokens", self.count_tokens),
        ):
            if not isinstance(cast("object", flag), bool):
                raise _wrong_option(name, f"{name}={flag!r}", "pass True or False")
        check_choice("RunConfig", "busy", self.busy, Busy)
        check_choice("RunConfig", "unfinished", self.unfinished, Unfinished)
        check_choice("RunConfig", "on_untrusted", self.on_untrusted, OnUntrusted)
        check_choice("RunConfig", "user", self.user, UserTrust)
        self._check_limits()

    def _check_limits(self) -> None:
        """Refuse a time, a policy, a budget or a number that cannot hold a run."""
        seconds = cast("object", self.queue_timeout)
        if seconds is not None and (
            not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0
        ):
            raise _wrong_option(
                "queue_timeout",
                f"queue_timeout={seconds!r}",
                "pass seconds, such as queue_timeout=30, or None to wait for ever",
            )
        if self.context is not None and not isinstance(cast("object", self.context), Policy):
            raise _wrong_option(
                "context", f"{self.context!r} is not a policy", "write context=C.auto()"
            )
        if self.budget is not None and not isinstance(cast("object", self.budget), RunBudget):
            raise _wrong_option(
                "budget",
                f"{self.budget!r} is not a run budget",
                "write budget=RunBudget(tokens=200_000, money=0.50)",
            )
        stall = cast("object", self.stall)
        if stall is not None and (not isinstance(stall, int) or stall is True or stall < 2):
            raise _wrong_option(
                "stall", f"stall={stall!r}", "pass 2 or more, or None to let calls repeat"
            )
        calls = cast("object", self.max_llm_calls)
        if not isinstance(calls, int) or isinstance(calls, bool) or calls < 1:
            raise _wrong_option("max_llm_calls", f"max_llm_calls={calls!r}", "pass 1 or more")


def _wrong_option(name: str, problem: str, hint: str) -> DeclarationError:
    return DeclarationError(problem, where=f"RunConfig.{name}", hint=hint)


_PER_RUN = ("stream", "busy")
"""Options that a run has for itself: their defaults are an answer like any other."""

_USUAL = RunConfig()


def overlay_config(shared: RunConfig, own: RunConfig) -> RunConfig:
    """The config of one run over what all runs share: its own options win, option by option.

    An option that the run leaves at its default is the shared one. The same object comes back
    where nothing is added: plans are kept by the identity of their config.
    """
    changes: dict[str, object] = {}
    for name in RunConfig.__struct_fields__:
        below: object = getattr(shared, name)
        above: object = getattr(own, name)
        if below is above or name in _PER_RUN:
            continue
        if name == "generate_config":
            options = overlay(shared.generate_config, own.generate_config)
            if options != own.generate_config:
                changes[name] = options
        # an option at its default counts as not given
        elif above == getattr(_USUAL, name) != below:
            changes[name] = below
    return msgspec.structs.replace(own, **changes) if changes else own


# --- inputs

Inputs: TypeAlias = Mapping[str, object] | Iterable[str]
"""The keys, with their types where somebody says them: `{"topic": str}`, or `["topic"]`."""

ANYTHING: tuple[object, ...] = (None, object)
"""What stands for "of any type" where a type may stand."""


class MissingInput(msgspec.Struct, frozen=True):
    """An input that is not as it was declared: its key, what is wrong, and what to give."""

    key: str
    problem: str
    wanted: str

    @property
    def hint(self) -> str:
        """What to type, in code and in a shell."""
        return (
            f'pass state={{"{self.key}": ...}} ({self.wanted}); in a shell: --state {self.key}=...'
        )


def check_inputs(owner: str, field: str, declared: object) -> dict[str, object]:
    """The inputs as a dict of their own; names alone are inputs of any type."""
    example = f'write {field}={{"topic": str}}'
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        raise field_error(owner, field, f"{declared!r} names no state keys", example)
    inputs: dict[str, object] = {}
    for key in cast("Iterable[object]", declared):
        require_state_key(key, where=f"{owner}.{field}", example=example)
        if not isinstance(key, str) or not _is_key(key):
            raise field_error(owner, field, f"{key!r} is not a state key", example)
        if isinstance(declared, Mapping):
            inputs[key] = cast("Mapping[str, object]", declared)[key]
        else:
            inputs[key] = object
        if inputs[key] not in ANYTHING:
            inputs[key] = check_schema(owner, f"{field}.{key}", inputs[key])
    return inputs


def _is_key(text: str) -> bool:
    """Whether a template could read it: a name, in a scope or not, without a path."""
    variables = template.parse(f"{{{text}}}").variables
    return len(variables) == 1 and variables[0].key == text


def shape_of(declared: object, *, where: str) -> JsonObject | None:
    """The schema of an input; None where it may be anything."""
    return None if declared in ANYTHING else schema.of_type(declared, where=where)


def may_be_absent(declared: object, *, where: str) -> bool:
    """Whether an input need not be given: its type allows null, as `str | None` does."""
    shape = shape_of(declared, where=where)
    several = (shape.get("anyOf") or shape.get("oneOf")) if shape is not None else None
    choices = several if isinstance(several, list) else []
    kind = shape.get("type") if shape is not None else None
    nullable = isinstance(kind, list) and "null" in kind
    return nullable or any(isinstance(c, dict) and c.get("type") == "null" for c in choices)


def find_missing_inputs(
    inputs: Mapping[str, object], state: Mapping[str, Json]
) -> Iterator[MissingInput]:
    """The inputs that this state does not hold, or holds in another type."""
    for key, wanted_type in inputs.items():
        value, where = state.get(key), f"inputs.{key}"
        shape = shape_of(wanted_type, where=where)
        wanted = describe_expected(shape) if shape is not None else "of any type"
        if value is None:
            if not may_be_absent(wanted_type, where=where):
                yield MissingInput(key, f"the input `{key}` is missing", wanted)
            continue
        if shape is None:
            continue
        problem = next((error.message for error in validator(shape).iter_errors(value)), "")
        if problem:
            yield MissingInput(key, f"the input `{key}` has another type: {problem}", wanted)


def spell_inputs(inputs: Mapping[str, object]) -> str:
    """Inputs as their author could write them: `{"topic": str}`."""
    pairs: list[str] = []
    for key, kind in inputs.items():
        name = kind.__name__ if isinstance(kind, type) else repr(kind)
        pairs.append(f'"{key}": {name}')
    return f"{{{', '.join(pairs)}}}"
