"""Agents of google-adk as declarations of Weft's; nothing of theirs is run.

What an agent sees is meant as google-adk means it, with Weft's promises: all of the conversation,
or the turn only, each value once, and the user's message always.
"""

import enum
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, cast

from weft import schema
from weft.checker.functions import uses_of
from weft.declare import Agent, C, Loop, Node, Parallel, Raw, Route, Sequence, Step
from weft.declare.config import check_generate_config
from weft.declare.functions import Foreign, name_of
from weft.declare.visit import rebuild
from weft.diagnostics import Diagnostic
from weft.errors import DeclarationError, SessionError, UsageError, describe_kind
from weft.interop.adk.objects import (
    Move,
    SpelledTemplate,
    as_list,
    field,
    fields_of,
    flag,
    is_a,
    is_adk,
    is_own,
    literal_text,
    object_name,
    overrides,
    spell_template,
    text,
)
from weft.interop.adk.running import CONTEXT, CallbackCode, RawResult, instruction_context
from weft.interop.adk.tools import AdkPlace, note_opaque, opaque_function, tools_of
from weft.values import Json, JsonObject, require_json

CALLBACKS = {
    "before_agent_callback": "before_agent",
    "after_agent_callback": "after_agent",
    "before_model_callback": "before_model",
    "after_model_callback": "after_model",
    "before_tool_callback": "before_tool",
    "after_tool_callback": "after_tool",
    "on_model_error_callback": "on_model_error",
    "on_tool_error_callback": "on_tool_error",
}
"""google-adk's names of callbacks, and Weft's."""

START = "__START__"
"""The node that every graph of google-adk begins with."""

UNBOUNDED = 1000
"""Rounds of a loop that says no number; google-adk goes on until something escalates."""

DELEGATED = ("single_turn", "task")

RUNNING = ("run_async", "run", "_run_async_impl", "_run_impl")
"""The methods that say what an agent does."""

_RENAMED = re.compile(r"dataclasses\.replace\((\w+), name=(\"[^\"]*\")\)")


class Imported(NamedTuple):
    """A tree of google-adk's as a node, and the findings of the import."""

    node: Node
    notes: tuple[Diagnostic, ...]
    spellings: dict[tuple[str, str], SpelledTemplate]
    """By agent and field: how its template was spelled anew."""
    bare: frozenset[str]
    """The agents with include_contents="none"."""
    endless: tuple[str, ...]
    """The loops that nothing in them can end."""
    unknown: frozenset[str]
    """The flows that stand for an agent whose order of work is unknown."""


def from_adk(agent: object, *, plugins: Iterable[object] = ()) -> Node:
    """An agent, workflow or app of google-adk as an Agent or a flow."""
    return imported(agent, plugins=plugins).node


def imported(agent: object, *, plugins: Iterable[object] = ()) -> Imported:
    """The same with what could not be looked into."""
    if not is_adk(agent):
        raise UsageError(
            f"{describe_kind(agent)} is not an agent of google-adk",
            where="from_adk",
            hint="pass its LlmAgent, SequentialAgent, ParallelAgent, LoopAgent or App",
        )
    all_plugins = [*plugins]
    if is_a(agent, "App"):
        all_plugins += as_list(agent, "plugins")
        agent = field(agent, "root_agent")
    reading = _Import()
    try:
        node = reading.node(agent)
        for plugin in all_plugins:
            node = reading.put_under_plugin(node, plugin)
    except RecursionError:
        raise UsageError(
            "the agents are nested too deep to be read", where="from_adk", hint="nest them less"
        ) from None
    except DeclarationError as error:  # google-adk lets two agents have one name
        where = error.where.replace(".steps", ".sub_agents")
        hint = _RENAMED.sub(r"\1.name = \2", error.hint)
        raise DeclarationError(error.message, where=where, hint=hint) from None
    return Imported(
        node,
        tuple(dict.fromkeys(reading.notes)),
        reading.spellings,
        frozenset(reading.bare),
        tuple(reading.endless),
        frozenset(reading.unknown),
    )


class _Import:
    """One import: an object that is used in two places becomes one value."""

    def __init__(self) -> None:
        self.notes: list[Diagnostic] = []
        self.spellings: dict[tuple[str, str], SpelledTemplate] = {}
        self.bare: set[str] = set()
        self.endless: list[str] = []
        self.unknown: set[str] = set()
        self._open: set[int] = set()
        self._nodes: dict[int, tuple[object, Node]] = {}
        self._exits: dict[int, bool] = {}
        self._results: dict[str, RawResult] = {}

    def node(self, agent: object, model: str = "") -> Node:
        """The agent as a node; `model` is what the nearest agent above it talks to."""
        entry = self._nodes.get(id(agent))
        if entry is None:
            self._open.add(id(agent))
            # the object is kept with the node: its id must not be given to another
            entry = (agent, self._node(agent, model))
            self._nodes[id(agent)] = entry
            self._open.remove(id(agent))
        return entry[1]

    def _read_called_agent(self, agent: object, model: str) -> Node | None:
        """An agent that is a tool; None where it is being read: it calls itself in the end."""
        return None if id(agent) in self._open else self.node(agent, model)

    def put_under_plugin(self, node: Node, plugin: object) -> Node:
        """The node under a plugin of the app: a global instruction, or something unknown."""
        name = object_name(plugin)
        if is_a(plugin, "GlobalInstructionPlugin"):
            return rebuild(node, lambda agent: self._with_global_instruction(agent, plugin))
        if not is_a(plugin, "BasePlugin") or type(plugin).__name__ == "WeftPlugin":
            return node
        foreign = not is_own(plugin)
        self.notes.append(
            note_opaque(AdkPlace(name, "plugins"), f"the plugin `{name}`", silent=foreign)
        )
        if not foreign:
            return node
        # code that nobody looked into may end any loop
        self.endless.clear()
        code = opaque_function(AdkPlace(name, "plugins"), f"the plugin `{name}`")
        return rebuild(node, lambda agent: replace(agent, before_agent=_more(agent, code)))

    def _with_global_instruction(self, agent: Agent, plugin: object) -> Agent:
        instruction = self._instruction(plugin, agent.name, "global_instruction")
        return replace(agent, global_instruction=instruction) if instruction else agent

    def _node(self, agent: object, model: str) -> Node:
        custom = any(overrides(agent, method) for method in RUNNING)
        if is_a(agent, "LlmAgent") and not custom:
            return self._agent(agent, model)
        if not custom:
            for kind, convert in (
                ("SequentialAgent", partial(self._flow, Sequence)),
                ("ParallelAgent", partial(self._flow, Parallel)),
                ("LoopAgent", self._loop),
            ):
                if is_a(agent, kind):
                    return self._wrap_callbacks(agent, convert(agent, model))
        return self._unknown(agent, model)

    def _agent(self, agent: object, above: str) -> Agent:
        name = text(agent, "name")
        model = _model(agent) or above or _usual(agent)
        bare = field(agent, "include_contents") == "none"
        if bare:
            self.bare.add(name)
        policy = C.none() if bare else C.default()
        below = [(self.node(child, model), child) for child in as_list(agent, "sub_agents")]
        own_tools = tools_of(
            agent,
            as_list(agent, "tools"),
            lambda one: self._read_called_agent(one, model),
            self._results,
        )
        known = {tool.name for tool in own_tools.tools}  # google-adk lists them there itself
        called = [
            child
            for child, theirs in below
            if field(theirs, "mode") in DELEGATED and child.name not in known
        ]
        self._exits[id(agent)] = own_tools.escalates
        options = options_of(agent, name)
        output, output_notes = schema_of(agent, name, "output_schema")
        taken, input_notes = schema_of(agent, name, "input_schema")
        self.notes += [*own_tools.notes, *options.notes, *output_notes, *input_notes]
        converted = Agent(
            name,
            model=model or None,
            instruction=self._instruction(agent, name, "instruction"),
            global_instruction=self._instruction(agent, name, "global_instruction") or None,
            description=text(agent, "description"),
            tools=(*own_tools.tools, *own_tools.servers, *called),
            sub_agents=[child for child, theirs in below if field(theirs, "mode") not in DELEGATED],
            output_key=text(agent, "output_key") or None,
            output_schema=output,
            input_schema=taken,
            context=policy,
            generate_config=options.config,
            disallow_transfer_to_parent=flag(agent, "disallow_transfer_to_parent"),
            disallow_transfer_to_peers=flag(agent, "disallow_transfer_to_peers"),
        )
        callbacks: dict[str, tuple[Foreign, ...]] = {
            ours: (code,) for ours, code in self._callbacks(agent, name, runs=True).items()
        }
        first = [*own_tools.closed, *options.closed]
        for kind in ("planner", "code_executor"):
            if field(agent, kind) is not None:
                what = f"the {kind} {type(field(agent, kind)).__name__}"
                self.notes.append(note_opaque(AdkPlace(name, kind), what, silent=False))
                first.append(opaque_function(AdkPlace(name, kind), what, opaque=False))
        silent = [code for code in first if code.opaque]
        if silent:  # what a tool writes is there after the agent, not before it
            callbacks["after_tool"] = (*callbacks.get("after_tool", ()), *silent)
        plain = [code for code in first if not code.opaque]
        if plain:
            callbacks["before_agent"] = (*callbacks.get("before_agent", ()), *plain)
        return _with_callbacks(converted, callbacks)

    def _callbacks(self, agent: object, name: str, *, runs: bool) -> dict[str, Foreign]:
        """The callbacks that are set, each moment's as one; `runs` where Weft can call them."""
        callbacks: dict[str, Foreign] = {}
        code = CallbackCode(agent, self._results)
        for theirs, ours in CALLBACKS.items():
            functions = [one for one in as_list(agent, theirs) if callable(one)]
            if not functions:
                continue
            callback = Foreign(
                f"{name}.{theirs}",
                f"`{theirs}` of {describe_kind(agent)}",
                functions=functions,
                context=CONTEXT[ours],
                call=code.at(ours, functions) if runs else None,
            )
            callbacks[ours] = callback
            for one in functions:
                uses = uses_of(one, CONTEXT[ours])
                self._exits[id(agent)] = self._exits.get(id(agent), False) or uses.escalates
                if not uses.known:
                    what = f"what `{name_of(one)}` does with its context"
                    self.notes.append(note_opaque(AdkPlace(name, theirs), what, silent=True))
        return callbacks

    def _instruction(self, agent: object, name: str, kind: str) -> str | Callable[..., object]:
        """The text, spelled for Weft, or what makes it; with what stands before it literally."""
        written = field(agent, kind)
        before = literal_text(self._static(agent, name)) if kind == "instruction" else ""
        if callable(written):
            return Provider(written, before, agent)
        if not isinstance(written, str):
            return before
        spelling = spell_template(written)
        if before and written:
            before += "\n\n"
        if spelling.text != written or before:
            self.spellings[name, kind] = _shift_spelling(spelling, len(before))
        return before + spelling.text

    def _static(self, agent: object, name: str) -> str:
        written = field(agent, "static_instruction")
        if written is None or isinstance(written, str):
            return written or ""
        texts = [text(part, "text") for part in as_list(written, "parts") or [written]]
        if not all(texts):
            place = AdkPlace(name, "static_instruction")
            self.notes.append(note_opaque(place, "what is not text in it", silent=False))
        return "\n\n".join(one for one in texts if one)

    def _flow(self, kind: type[Sequence | Parallel], agent: object, model: str) -> Node:
        children = self._children(agent, model)
        if not children:
            return self._make_idle(agent)
        return kind(*children, name=text(agent, "name"), description=text(agent, "description"))

    def _loop(self, agent: object, model: str) -> Node:
        name = text(agent, "name")
        body = self._children(agent, model)
        rounds = field(agent, "max_iterations")
        if not body or (isinstance(rounds, int) and rounds < 1):
            return self._make_idle(agent)
        if rounds is None and not any(self._ends(child) for child in as_list(agent, "sub_agents")):
            self.endless.append(name)
        one = body[0] if len(body) == 1 else Sequence(*body)
        most = rounds if isinstance(rounds, int) else UNBOUNDED
        return Loop(one, max=most, name=name, description=text(agent, "description"))

    def _ends(self, agent: object) -> bool:
        """Whether something in the agent may escalate."""
        own = self._exits.get(id(agent), False)
        return own or any(self._ends(child) for child in as_list(agent, "sub_agents"))

    def _wrap_callbacks(self, agent: object, node: Node) -> Node:
        """A workflow with the code that runs before and after it."""
        name = text(agent, "name")
        callbacks = self._callbacks(agent, name, runs=False)
        if not callbacks:
            return node
        before = [Step(code, name=f"{name}_{at}") for at, code in callbacks.items() if at[0] == "b"]
        after = [Step(code, name=f"{name}_{at}") for at, code in callbacks.items() if at[0] == "a"]
        return Sequence(*before, node, *after)

    def _unknown(self, agent: object, model: str) -> Node:
        """An unknown class: it may do anything, and run what is below it at any time."""
        name, kind = text(agent, "name"), type(agent).__name__
        self.notes.append(
            note_opaque(
                AdkPlace(name, "name"), f"the agent `{name}` of the class {kind}", silent=True
            )
        )
        code = opaque_function(AdkPlace(name, "name"), f"an agent of the class {kind}")
        step = Step(code, name=name, description=text(agent, "description"))
        below: list[Node] = []
        if is_a(agent, "LlmAgent"):
            step = replace(step, name=f"{name}_code")
            below.append(self._agent(agent, model))
        else:
            below += [self.node(child, model) for child in self._within(agent)]
        self._exits[id(agent)] = True
        if not below:
            return step
        chooses = Foreign(f"{name}_chooses", f"an agent of the class {kind}", opaque=True)
        way = Route(chooses, name=f"{name}_next")
        for index, child in enumerate(below):
            way = way.eq(index, child)
        self.unknown.add(f"{name}_runs")
        return Loop(Sequence(step, way.otherwise(_idle)), max=UNBOUNDED, name=f"{name}_runs")

    def _within(self, agent: object) -> list[object]:
        """The agents that it may run: sub-agents, nodes of its graph, agents in its fields."""
        members = [*as_list(agent, "sub_agents"), *as_list(field(agent, "graph"), "nodes")]
        for name in fields_of(agent):
            if name != "parent_agent":
                members += as_list(agent, name)
        distinct = {id(one): one for one in members if is_adk(one) and object_name(one) != START}
        return [one for key, one in distinct.items() if key not in self._open]

    def _make_idle(self, agent: object) -> Node:
        return Step(_idle, name=text(agent, "name"), description=text(agent, "description"))

    def _children(self, agent: object, model: str) -> list[Node]:
        return [self.node(child, model) for child in as_list(agent, "sub_agents")]


def _idle(state: object) -> None:
    """Do nothing."""


def _shift_spelling(spelling: SpelledTemplate, length: int) -> SpelledTemplate:
    """The spelling after `length` characters that are in another field."""
    if not length:
        return spelling

    def shift_moves(moves: tuple[Move, ...]) -> tuple[Move, ...]:
        return tuple(m._replace(start=m.start + length, end=m.end + length) for m in moves)

    return SpelledTemplate(
        spelling.text,
        (Move(0, length, 0, 0), *shift_moves(spelling.moves)),
        shift_moves(spelling.doubled),
        shift_moves(spelling.paths),
        spelling.source,
    )


def _more(agent: Agent, code: Foreign) -> tuple[Callable[..., object], ...]:
    """The callbacks before an agent, with one more at the end."""
    before = agent.before_agent
    if before is None:
        return (code,)
    return (before, code) if callable(before) else (*before, code)


def _with_callbacks(agent: Agent, code: dict[str, tuple[Foreign, ...]]) -> Agent:
    return replace(
        agent,
        before_agent=code.get("before_agent"),
        after_agent=code.get("after_agent"),
        before_model=code.get("before_model"),
        after_model=code.get("after_model"),
        before_tool=code.get("before_tool"),
        after_tool=code.get("after_tool"),
        on_model_error=code.get("on_model_error"),
        on_tool_error=code.get("on_tool_error"),
    )


def _model(agent: object) -> str:
    """The name of the agent's own model, whether it is a name or an object."""
    model = field(agent, "model")
    name = model if isinstance(model, str) else text(model, "model")
    return name.strip()


def _usual(agent: object) -> str:
    default = field(agent, "_default_model")
    return default if isinstance(default, str) else text(default, "model")


SAME = (
    "temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "seed",
    "presence_penalty", "frequency_penalty",
)  # fmt: skip

_THINKING = {"thinking_budget": "budget", "thinking_level": "effort", "include_thoughts": "include"}


class Options(NamedTuple):
    """The agent's options as Weft's, and a list of those that could not be carried over."""

    config: JsonObject = {}
    notes: tuple[Diagnostic, ...] = ()
    closed: tuple[Foreign, ...] = ()
    """What a run of Weft's cannot do."""


def options_of(agent: object, name: str) -> Options:
    """The generation options of an agent, under Weft's names."""
    options = field(agent, "generate_content_config")
    if options is None:
        return Options()
    config: JsonObject = {}
    for option in SAME:
        value = field(options, option)
        # google-genai has it as a float, and other providers take a whole number
        if isinstance(value, float) and option == "top_k":
            value = int(value)
        if value is not None:
            config[option] = cast(
                "Json", list(as_list(options, option)) if isinstance(value, list | tuple) else value
            )
    thinking = _read_thinking(field(options, "thinking_config"))
    if thinking:
        config["thinking"] = thinking
    place = AdkPlace(name, "generate_content_config")
    carried = {*SAME, "thinking_config"}
    rest = {key: value for key, value in _set_options(options).items() if key not in carried}
    extra, unsent = _extra(rest)
    if extra:
        config["extra"] = {"gemini": extra}
    notes: list[Diagnostic] = []
    cannot = [opaque_function(place, f"the option `{key}`", opaque=False) for key in unsent]
    for option in [*config]:
        try:
            check_generate_config({option: config[option]}, where=name)
        except DeclarationError as error:
            del config[option]
            what = f"the option `{option}` ({error.message})"
            notes.append(note_opaque(place, what, silent=False))
            cannot.append(opaque_function(place, what, opaque=False))
    return Options(config, tuple(notes), tuple(cannot))


_BESIDE = ("safety_settings", "labels", "cached_content", "tool_config")

_NOT_SENT = ("http_options", "automatic_function_calling", "should_return_http_response")


def _extra(rest: Mapping[str, object]) -> tuple[JsonObject, list[str]]:
    """Options that only Gemini has, by its names, and fields that are not request options."""
    beside: JsonObject = {}
    options: JsonObject = {}
    unsent: list[str] = []
    for key, value in sorted(rest.items()):
        if key in _NOT_SENT:
            unsent.append(key)
            continue
        try:
            written = require_json(_plain(value), where=key)
        except (SessionError, TypeError):
            unsent.append(key)
            continue
        first, *others = key.split("_")
        name = first + "".join(word.capitalize() for word in others)
        (beside if key in _BESIDE else options)[name] = written
    return ({**beside, "generationConfig": options} if options else beside), unsent


def _plain(value: object) -> object:
    """A value of google-genai as JSON."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("list[object]", value)]
    dump = field(value, "model_dump")
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    return field(value, "value") if isinstance(value, enum.Enum) else value


def schema_of(agent: object, name: str, kind: str) -> tuple[object, tuple[Diagnostic, ...]]:
    """A schema of the agent's, None with a note where it is of no kind that Weft reads."""
    declared = field(agent, kind)
    if declared is None:
        return None, ()
    try:
        schema.of_type(declared, where=f"{name}.{kind}")
    except (DeclarationError, TypeError) as error:
        reason = error.message if isinstance(error, DeclarationError) else str(error)
        return None, (note_opaque(AdkPlace(name, kind), f"the schema ({reason})", silent=False),)
    return declared, ()


def _read_thinking(settings: object) -> JsonObject:
    thinking: JsonObject = {}
    for theirs, ours in _THINKING.items():
        value = field(settings, theirs)
        level = field(value, "value")
        if ours == "effort" and isinstance(level, str):
            value = level.lower()
        if isinstance(value, (bool, int, str)):
            thinking[ours] = value
    return thinking


def _set_options(config: object) -> Mapping[str, object]:
    """The options that are set at all."""
    names = field(config, "model_fields_set")
    if not isinstance(names, set):
        return {}
    fields = cast("set[str]", names)
    return {name: value for name in fields if (value := field(config, name)) is not None}


class Provider:
    """An instruction that google-adk's user makes by a function: its text is not a template."""

    def __init__(self, function: Callable[..., object], before: str, agent: object) -> None:
        self.function = function
        self.agent = agent
        self.before = before
        self.__name__ = str(getattr(function, "__name__", "instruction"))

    def __call__(self, context: object) -> object:
        """The function's current text."""
        answer = self.function(instruction_context(context, self.agent))
        if hasattr(answer, "__await__"):
            return _later(answer, self.before)
        return Raw(_join_texts(self.before, str(answer)))


async def _later(answer: object, before: str) -> Raw:
    return Raw(_join_texts(before, str(await cast("Awaitable[object]", answer))))


def _join_texts(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


def load_config(path: Path) -> object:
    """The agent that a YAML file declares."""
    try:
        module = import_module("google.adk.agents.config_agent_utils")
    except ImportError as error:
        raise UsageError(
            "google-adk is not installed", where=str(path), hint="pip install 'weft[adk]'"
        ) from error
    try:
        return cast("Callable[[str], object]", module.from_config)(str(path))
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UsageError(
            f"google-adk makes no agent of it: {type(error).__name__}: {reason}",
            where=str(path),
            hint="mend what it names",
        ) from error
