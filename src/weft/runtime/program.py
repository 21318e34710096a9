"""What declarations decide for every run: worked out once, by the runner.

Top to bottom: a root as it is run; an agent's tools, callbacks and model; callbacks, which are user
code before and after agents, models and tools, where the first answer wins. Plugins stand outside
agents: before anything, a plugin is asked first; after it, last. Within each, callbacks run in the
order they were given, and an answer ends the chain.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import msgspec

from weft import schema
from weft.content import FunctionCall
from weft.declare import Agent, Callback, CustomAgent, Node, Route, RunConfig, Step, Tool, agents_of
from weft.declare.agent import labels_of, nodes_of
from weft.declare.checks import check_callback, fits_type
from weft.declare.compose import Composable
from weft.declare.context import ToolContext
from weft.declare.functions import Foreign, PassFunction, check_passes, code_refusal, misfit
from weft.declare.policy_parts import Label
from weft.declare.visit import inner_agents
from weft.diagnostics import Origin
from weft.errors import DeclarationError, UsageError, WeftError, describe_kind
from weft.misuse import find_near
from weft.models import Model
from weft.session import Session
from weft.session.lookback import supplied_keys
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.checker.world import World


class Program:
    """A root as it is run: its labels, its inputs, and which of its agents speak to the user."""

    __slots__ = (
        "_inferred", "_inner", "_inputs", "_keys", "_labels", "deps_types", "root", "with_schema",
    )  # fmt: skip

    def __init__(self, root: Node) -> None:
        nodes, labels = (*nodes_of(root),), labels_of(root)
        agents = {node.name: node for node in nodes if isinstance(node, Agent)}
        _require_code(nodes, agents.values())
        self.root = root
        self.with_schema = {
            name: agent for name, agent in agents.items() if agent.output_schema is not None
        }
        """The agents that answer in a schema, by name."""
        self.deps_types = dict(_deps_types(nodes))
        """By the agents that declare one: the type of the dependencies that they need."""
        self._labels = labels
        self._inner: frozenset[str] | None = None
        self._inputs: Mapping[str, object] | None = None
        self._keys: dict[str, str] | None = None
        self._inferred: dict[frozenset[tuple[str, str]], Program] = {}

    def require_deps(self, deps: object) -> None:
        """Refuse a run without the dependencies that its agents declare; no error shows them."""
        for name, kind in self.deps_types.items():
            spelled = kind.__name__ if isinstance(kind, type) else str(kind)
            if deps is not None and fits_type(kind, deps):
                continue
            raise UsageError(
                f"`{name}` needs deps of type {spelled}, and the run has none"
                if deps is None
                else f"`{name}` needs deps of type {spelled}, and got {describe_kind(deps)}",
                where="deps",
                hint=f'pass them: weft.run(agent, "message", deps={spelled}(...)); a run that is'
                " resumed needs them again, as they are never stored",
            )

    def labels(self, config: RunConfig) -> tuple[Label, ...]:
        """The labels that are declared anywhere in the root, or by the configuration of a run."""
        return self._labels if config.context is None else labels_of(self.root, config)

    @property
    def inner(self) -> frozenset[str]:
        """The agents whose text is data for others, not for the user."""
        if self._inner is None:
            alone = isinstance(self.root, Agent)  # nobody comes after it
            self._inner = frozenset() if alone else inner_agents(self.root)
        return self._inner

    @property
    def inputs(self) -> Mapping[str, object]:
        """The inputs that must be there when the root starts, with their types."""
        if self._inputs is None:
            self._inputs = {} if _is_plain(self.root) else _declared_inputs(self.root)
        return self._inputs

    def infer_writers(
        self, session: Session, config: RunConfig, state: Mapping[str, Json]
    ) -> "Program":
        """The program as it runs in this session, when the application writes `state` now.

        Agents of a flow may write a key that nobody declared, because another one reads it. What
        the application wrote itself needs no such writer.
        """
        if isinstance(self.root, Agent) or not config.infer:
            return self
        from weft.checker.check import inferred_keys, with_keys
        from weft.checker.world import Writer

        if self._keys is None:
            self._keys = inferred_keys(self.root, self._start())
        keys = self._keys
        if not keys:
            return self
        # to begin with, or with a message
        supplied = {*state, *session.initial, *supplied_keys(session.events)}
        # a key that the application wrote has its writer: no agent is to write it as well
        known = {key for key in keys.values() if key in supplied}
        if known:
            world = self._start()
            for key in known:
                writer = Writer("the application", Origin("config", "state"), "input")
                world = world.with_write(key, writer)
            keys = inferred_keys(self.root, world)
        if not keys:
            return self
        wanted = frozenset(keys.items())
        program = self._inferred.get(wanted)
        if program is None:
            program = self._inferred[wanted] = Program(with_keys(self.root, keys))
        return program

    def _start(self) -> "World":
        """What is known when the root starts."""
        from weft.checker.check import with_declared
        from weft.checker.world import World

        return with_declared(World(), self.inputs)


def _require_code(nodes: Iterable[Node], agents: Iterable[Agent]) -> None:
    """Refuse a flow with code that cannot be run, before anything is spent on the rest of it."""
    code = _code_in(nodes, agents)
    closed = [one for one in code if isinstance(one, Foreign) and one.call is None]
    if closed:
        raise code_refusal(closed)


def _code_in(nodes: Iterable[Node], agents: Iterable[Agent]) -> Iterator[object]:
    """The functions that a run of these nodes may come to."""
    for one in nodes:
        if isinstance(one, Step):
            yield one.function
        elif isinstance(one, Route):
            yield one.key
    for agent in agents:
        for moment in MOMENTS:
            own = cast("object", getattr(agent, moment))
            yield from cast("tuple[object, ...]", own if isinstance(own, tuple) else (own,))
        for tool in agent.tools:
            yield tool.function
            if isinstance(tool.agent, Composable):
                yield from _code_in(nodes_of(tool.agent), agents_of(tool.agent))


def _deps_types(nodes: Iterable[Node]) -> Iterator[tuple[str, object]]:
    """The agents among nodes that declare the type of their dependencies, tools' included."""
    for one in nodes:
        if isinstance(one, Agent | CustomAgent) and one.deps_type is not None:
            yield one.name, one.deps_type
        for tool in one.tools if isinstance(one, Agent) else ():
            if isinstance(tool.agent, Composable):
                yield from _deps_types(nodes_of(tool.agent))


def _is_plain(root: Node) -> bool:
    """Whether the root is an agent alone without inputs.

    Such an agent needs no checker, which takes long to load.
    """
    return (
        isinstance(root, Agent)
        and not root.inputs
        and not root.sub_agents
        and all(tool.agent is None for tool in root.tools)
    )


def _declared_inputs(root: Node) -> Mapping[str, object]:
    from weft.checker.check import declared_inputs

    return declared_inputs(root)


# --- an agent's tools and its model

FAST = 100e-6
"""A function that always returns within this time, in seconds, is not worth a thread."""


class BoundTool:
    """A tool that can be called: its signature is read once, and how long it takes is known."""

    __slots__ = (
        "_fits_declaration", "_plain", "_quick", "function", "is_async", "signature",
        "takes_context", "tool",
    )  # fmt: skip

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.takes_context = (
            tool.context_parameter is not None
            or tool.confirm is not False
            or tool.effect == "transactional"
        )
        """Whether a call needs a context, even where nobody is told of calls."""
        function = tool.function
        self.function = function
        self.signature: schema.Signature | None = None
        self.is_async = False
        self._fits_declaration = False
        self._quick = 0
        if isinstance(function, Foreign):
            self.is_async = True
        elif function is not None:
            signature = schema.of_function(
                function, context_type=ToolContext, name=tool.name, where=f"tool {tool.name}"
            )
            self.signature = signature
            self.is_async = signature.is_async
            self._fits_declaration = signature.parameters == tool.parameters
        self._plain = _plain_arguments(self.signature) if self._fits_declaration else None

    def arguments(self, args: JsonObject) -> dict[str, object]:
        """The arguments as the function wants them, or a SchemaError that names each problem."""
        if self._plain is not None:
            try:
                msgspec.convert(args, self._plain)
            except (msgspec.ValidationError, UnicodeEncodeError):
                pass  # the slow way knows what is wrong, and what a null means
            else:
                return dict(args)
        if self.signature is not None and self._fits_declaration:
            return schema.validate_arguments(self.signature, args)
        checked = schema.validate_declared(self.tool.parameters, args, where=self.tool.name)
        return cast("dict[str, object]", checked)

    @property
    def quick(self) -> bool:
        """Whether the function may be called on the event loop: it has never taken long.

        A thread costs more than a small function does. One that was slow once, or has a time
        limit, always gets a thread, so it holds up nobody.
        """
        return self._quick >= 3 and self.tool.timeout is None

    def call_timed(self, *args: object, **kwargs: object) -> object:
        """Call the function, and learn from how long it took."""
        assert self.function is not None
        begun = time.perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            took = time.perf_counter() - begun
            # -1 for ever: a function that was slow once may be so again
            self._quick = self._quick + 1 if took < FAST and self._quick >= 0 else -1


def _plain_arguments(signature: schema.Signature | None) -> type[msgspec.Struct] | None:
    """The arguments as a struct, for a function that takes only texts, whole numbers and flags.

    Such arguments are passed on as they come, so checking them is all there is to do.
    """
    if signature is None or signature.takes_any:
        return None
    if not all(
        param.type is str or param.type is int or param.type is bool for param in signature.params
    ):
        return None
    fields = [
        (param.name, param.type) if param.required else (param.name, param.type, None)
        for param in sorted(signature.params, key=lambda param: not param.required)
    ]
    # a default in the schema is filled in, which the plain way does not do
    if any(not param.required and param.default is not msgspec.UNSET for param in signature.params):
        return None
    return msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True)


class AgentBindings:
    """An agent's callbacks and tools, ready to be used."""

    __slots__ = (
        "agent", "callbacks", "hosted", "model", "raises", "tools", "watches_model",
        "watches_tools",
    )  # fmt: skip

    def __init__(self, agent: Agent, plugins: Sequence[object]) -> None:
        self.agent = agent
        self.callbacks: Callbacks = callbacks_of(agent, plugins)
        self.tools = _bind_tools(agent)
        self.hosted = tuple([tool.name for tool in agent.tools if tool.hosted is not None])
        """The tools that its provider runs."""
        self.watches_model = any(
            (
                self.callbacks.before_model,
                self.callbacks.after_model,
                self.callbacks.on_model_error,
            )
        )
        """Whether anybody is told of the requests and answers of the model."""
        self.watches_tools = any(
            (self.callbacks.before_tool, self.callbacks.after_tool, self.callbacks.on_tool_error)
        )
        """Whether anybody is told of the calls of tools."""
        self.raises = agent.on_tool_error == "raise"
        self.model: object = None
        """The model the agent was last asked with, for the agents it calls as tools."""

    def tool_for(self, name: str, args: JsonObject) -> BoundTool | None:
        """The tool that a call is of; where it names another one, to be called instead, that."""
        bound = self.tools.get(name)
        if bound is not None and bound.tool.dispatches:
            named = args.get("name")
            return self.tools.get(named) if isinstance(named, str) else None
        return bound

    def calls_that_wait(
        self, calls: Iterable[FunctionCall], withheld: Container[str] = ()
    ) -> tuple[str, ...] | None:
        """The calls that are not answered at once: long-running ones, and those to confirm."""
        ids: list[str] = []
        for call in calls:
            bound = self.tool_for(call.name or "", call.args or {})
            # a tool that the request did not offer is refused at once: nobody waits for it
            if bound is None or bound.tool.name in withheld:
                continue
            if bound.tool.long_running or bound.tool.confirm is True:
                ids.append(call.id or "")
        return tuple(ids) or None


def _bind_tools(agent: Agent) -> dict[str, BoundTool]:
    """The agent's tools by name, kept with it: what was learned of them outlasts a runner."""
    bound = agent.memo.of(_BoundTools)
    if bound is None:
        ours = [tool for tool in agent.tools if tool.hosted is None]  # the provider runs the others
        bound = _BoundTools({tool.name: BoundTool(tool) for tool in ours})
        agent.memo[_BoundTools] = bound
    return bound


class _BoundTools(dict[str, BoundTool]):
    """An agent's tools by name."""


async def await_value(value: object) -> object:
    """The value, waited for if it must be."""
    return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value


def chosen_model(models: dict[str, Model], agent: Agent, chosen: object) -> Model:
    """The model an agent is to be asked with."""
    if not isinstance(chosen, str):
        return _checked_model(agent, chosen)
    model = models.get(chosen)
    if model is None:
        from weft.models.registry import model_for  # a model object needs no provider's address

        model = models[chosen] = model_for(chosen, where=f"{agent.name}.model")
    return model


class _LastModel(msgspec.Struct, frozen=True):
    """The model object an agent was last asked with."""

    model: Model


def _checked_model(agent: Agent, model: object) -> Model:
    """The model object, once it is known to be one; the agent remembers that of the last."""
    last = agent.memo.of(_LastModel)
    if last is not None and last.model is model:
        return last.model
    if not isinstance(model, Model):
        raise UsageError(
            f"{describe_kind(model)} cannot be asked: it has no `generate`",
            where=f"{agent.name}.model",
            hint="pass a weft.models.Model, or weft.testing.ScriptedModel([...])",
        )
    agent.memo[_LastModel] = _LastModel(model)
    return model


# --- callbacks and plugins

Moment = Literal[
    "before_agent",
    "after_agent",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "on_model_error",
    "on_tool_error",
]
MOMENTS: tuple[Moment, ...] = Moment.__args__  # type: ignore[attr-defined]
RUN_MOMENTS = {"before_run": "ctx", "on_event": "ctx, event", "after_run": "ctx, outcome"}
"""What only plugins have, and what each is called with, by place."""

Answer = TypeVar("Answer")


class CallbackError(WeftError):
    """A callback answered with what cannot be an answer."""


class ToolsetError(WeftError):
    """A toolset that raised, or answered what cannot be tools."""

    code = "toolset_error"


class ToolsetChanged(ToolsetError):
    """A toolset that no longer has what it offered."""

    code = "toolset_changed"


class Plugin:
    """Callbacks for every agent of a tree: define the methods you need, named as on Agent.

    `before_run(ctx)` may answer for the whole invocation, `on_event(ctx, event)` may replace an
    event before it is stored, `after_run(ctx, outcome)` is told how the run ended, however it did.
    `global_instruction`, a text, and `passes`, a list of passes, go to all agents of the run.
    """

    name: str = ""


class Chain(msgspec.Struct, frozen=True):
    """The callbacks of one moment in the order they are asked; `outer` ones are plugins'."""

    moment: Moment
    inner: tuple[Callback, ...]
    outer: tuple[Callback, ...]

    def __bool__(self) -> bool:
        return bool(self.inner or self.outer)

    async def first(self, kinds: tuple[type[Answer], ...], *args: object) -> Answer | None:
        """The first answer, plugins asked first; the rest are not called."""
        for callback in (*self.outer, *self.inner):
            answer = await _ask_callback(self.moment, callback, kinds, args)
            if answer is not None:
                return answer
        return None

    async def ask_for_addition(self, kind: type[Answer], *args: object) -> Answer | None:
        """What the agent's callbacks add, or the plugins' instead; both are asked."""
        addition: Answer | None = None
        for group in (self.inner, self.outer):
            for callback in group:
                answer = await _ask_callback(self.moment, callback, (kind,), args)
                if answer is not None:
                    addition = answer
                    break
        return addition

    async def ask_for_replacement(
        self, kind: type[Answer], answer: Answer, *args: object
    ) -> Answer:
        """The answer after the agent's callbacks, then the plugins', had a chance to replace it."""
        for group in (self.inner, self.outer):
            for callback in group:
                other = await _ask_callback(self.moment, callback, (kind,), (*args, answer))
                if other is not None:
                    answer = other
                    break
        return answer


async def _ask_callback(
    moment: str, callback: Callback, kinds: tuple[type[Answer], ...], args: Sequence[object]
) -> Answer | None:
    answer = callback(*args)
    if inspect.isawaitable(answer):
        answer = await cast("Awaitable[object]", answer)
    if answer is None or isinstance(answer, kinds):
        return answer
    wanted = " or ".join(kind.__name__ for kind in kinds)
    raise wrong_answer(moment, callback, answer, wanted)


def callback_name(callback: Callback) -> str:
    """What to call a callback in an error."""
    return str(getattr(callback, "__qualname__", type(callback).__name__))


class Callbacks(msgspec.Struct, frozen=True):
    """All the callbacks of one agent, plugins' included."""

    before_agent: Chain
    after_agent: Chain
    before_model: Chain
    after_model: Chain
    before_tool: Chain
    after_tool: Chain
    on_model_error: Chain
    on_tool_error: Chain


def callbacks_of(agent: Agent, plugins: Sequence[object]) -> Callbacks:
    """The chains of an agent."""
    chains: list[Chain] = []
    for moment in MOMENTS:
        own = cast("object", getattr(agent, moment))
        if own is None or isinstance(own, str):
            inner: tuple[Callback, ...] = ()
        else:
            inner = cast("tuple[Callback, ...]", own if isinstance(own, tuple) else (own,))
        chains.append(Chain(moment, inner, plugin_methods(plugins, moment)))
    return Callbacks(*chains)


def chain_of(node: Composable, moment: Moment, plugins: Sequence[object]) -> Chain:
    """The callbacks of a flow or a custom agent for one moment."""
    own = cast("object", node.before_agent if moment == "before_agent" else node.after_agent)
    chain = cast("tuple[Callback, ...]", own if isinstance(own, tuple) else (own,))
    return Chain(moment, chain if own is not None else (), plugin_methods(plugins, moment))


def plugin_methods(plugins: Iterable[object], moment: str) -> tuple[Callback, ...]:
    """What the plugins have for a moment."""
    methods = (cast("object", getattr(plugin, moment, None)) for plugin in plugins)
    return tuple(cast("Callable[..., object]", method) for method in methods if method is not None)


def check_plugins(plugins: object) -> tuple[object, ...]:
    """The plugins, each known to have something to say; a misspelled method is refused."""
    if isinstance(plugins, (str, bytes)) or not isinstance(plugins, Iterable):
        raise DeclarationError(
            f"plugins is {describe_kind(plugins)}", where="plugins", hint="pass a list"
        )
    checked = tuple(cast("Iterable[object]", plugins))
    for plugin in checked:
        name = type(plugin).__name__
        if isinstance(plugin, type):
            raise DeclarationError(
                f"{plugin.__name__} is a class", where="plugins", hint=f"pass {plugin.__name__}()"
            )
        _check_names(plugin)
        methods = [moment for moment in MOMENTS if plugin_methods((plugin,), moment)]
        for moment in methods:
            check_callback(name, moment, getattr(plugin, moment))
        others = [other for other in RUN_MOMENTS if plugin_methods((plugin,), other)]
        for other in others:
            _check_run_moment(name, other, getattr(plugin, other))
        if not methods and not others and not _configures(plugin):
            raise DeclarationError(
                f"the plugin {name} has no callback",
                where="plugins",
                hint=f"define one of {', '.join((*MOMENTS, *RUN_MOMENTS))}",
            )
    return checked


def _configures(plugin: object) -> bool:
    """Whether a plugin adds to the configuration of its runs."""
    return any(getattr(plugin, field, None) for field in ("global_instruction", "passes"))


def with_plugins(config: RunConfig, plugins: Iterable[object]) -> RunConfig:
    """The configuration with the global instructions and the passes that plugins have."""
    texts: list[str] = []
    passes: list[PassFunction] = []
    for plugin in plugins:
        name, text = (
            type(plugin).__name__,
            cast("object", getattr(plugin, "global_instruction", "")),
        )
        if not isinstance(text, str):
            raise DeclarationError(
                f"global_instruction is {describe_kind(text)}, not text",
                where=f"{name}.global_instruction",
                hint="set it to a string",
            )
        texts.append(text)
        passes += check_passes(name, "passes", getattr(plugin, "passes", ()))
    if not passes and not any(texts):
        return config
    texts.append(config.global_instruction or "")
    return msgspec.structs.replace(
        config,
        passes=(*config.passes, *passes),
        global_instruction="\n\n".join(text for text in texts if text) or None,
    )


def _check_names(plugin: object) -> None:
    """Refuse a method that looks like a callback and would never be called."""
    known = (*MOMENTS, *RUN_MOMENTS)
    for attribute in dir(plugin):
        # a misspelled callback would be silent for ever
        if attribute.startswith(("before_", "after_", "on_")) and attribute not in known:
            near = find_near(attribute, known, cutoff=0.6)
            raise DeclarationError(
                f"`{attribute}` is not a callback",
                where=f"{type(plugin).__name__}.{attribute}",
                hint=f"did you mean `{near[0]}`?" if near else f"callbacks: {', '.join(known)}",
            )


def _check_run_moment(plugin: str, moment: str, method: Callback) -> None:
    parameters = RUN_MOMENTS[moment]
    if moment == "after_run" and callable(method) and misfit(method, 1) is None:
        return  # a plugin may leave out how the run ended
    taken = misfit(method, parameters.count(",") + 1) if callable(method) else "no call"
    if taken is not None:
        raise DeclarationError(
            f"{moment} takes ({parameters}); `{callback_name(method)}` takes {taken}",
            where=f"{plugin}.{moment}",
            hint=f"write def {moment}(self, {parameters})",
        )


def wrong_answer(moment: str, callback: Callback, answer: object, wanted: str) -> CallbackError:
    """The error for a callback that answered with what cannot be an answer."""
    return CallbackError(
        f"the callback `{callback_name(callback)}` returned {describe_kind(answer)}",
        where=moment,
        hint=f"return {wanted}, or None to go on",
    )
