"""Callbacks: user code before and after agents, models and tools; the first answer wins.

Plugins stand outside agents: before anything, a plugin is asked first; after it, last. Within
each, callbacks run in the order they were given, and an answer ends the chain.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar, cast

import msgspec

from weft.declare import Agent, Callback, Node, Route, RunConfig, Step, agents_of
from weft.declare.agent import walk_nodes
from weft.declare.checks import check_callback
from weft.declare.compose import Composable
from weft.declare.functions import Foreign, PassFunction, check_passes, misfit, refused
from weft.errors import DeclarationError, WeftError, describe_kind
from weft.misuse import close

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
            answer = await _asked(self.moment, callback, kinds, args)
            if answer is not None:
                return answer
        return None

    async def added(self, kind: type[Answer], *args: object) -> Answer | None:
        """What the agent's callbacks add, or the plugins' instead; both are asked."""
        addition: Answer | None = None
        for group in (self.inner, self.outer):
            for callback in group:
                answer = await _asked(self.moment, callback, (kind,), args)
                if answer is not None:
                    addition = answer
                    break
        return addition

    async def replaced(self, kind: type[Answer], answer: Answer, *args: object) -> Answer:
        """The answer after the agent's callbacks, then the plugins', had a chance to replace it."""
        for group in (self.inner, self.outer):
            for callback in group:
                other = await _asked(self.moment, callback, (kind,), (*args, answer))
                if other is not None:
                    answer = other
                    break
        return answer


async def _asked(
    moment: str, callback: Callback, kinds: tuple[type[Answer], ...], args: Sequence[object]
) -> Answer | None:
    answer = callback(*args)
    if inspect.isawaitable(answer):
        answer = await cast("Awaitable[object]", answer)
    if answer is None or isinstance(answer, kinds):
        return answer
    wanted = " or ".join(kind.__name__ for kind in kinds)
    raise wrong_answer(moment, callback, answer, wanted)


def named(callback: Callback) -> str:
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


def require_code(root: Node) -> None:
    """Refuse a flow with code that cannot be run, before anything is spent on the rest of it."""
    closed = [code for code in _code_in(root) if isinstance(code, Foreign) and code.call is None]
    if closed:
        raise refused(closed)


def _code_in(node: Node) -> Iterator[object]:
    """The functions that a run of a node may come to."""
    for one, _ in walk_nodes(node):
        if isinstance(one, Step):
            yield one.function
        elif isinstance(one, Route):
            yield one.key
    for agent in agents_of(node):
        for moment in MOMENTS:
            own = cast("object", getattr(agent, moment))
            yield from cast("tuple[object, ...]", own if isinstance(own, tuple) else (own,))
        for tool in agent.tools:
            yield tool.function
            if isinstance(tool.agent, Composable):
                yield from _code_in(tool.agent)


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
            near = close(attribute, known, cutoff=0.6)
            raise DeclarationError(
                f"`{attribute}` is no callback",
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
            f"{moment} takes ({parameters}); `{named(method)}` takes {taken}",
            where=f"{plugin}.{moment}",
            hint=f"write def {moment}(self, {parameters})",
        )


def wrong_answer(moment: str, callback: Callback, answer: object, wanted: str) -> CallbackError:
    """The error for a callback that answered with what cannot be an answer."""
    return CallbackError(
        f"the callback `{named(callback)}` returned {describe_kind(answer)}",
        where=moment,
        hint=f"return {wanted}, or None to go on",
    )
