"""Custom agents: a class whose code decides what runs, and yields the events.

The runtime runs the code again over the log when a run is resumed, so the code must depend on
nothing but its declaration, the state, and the events of the nodes that it runs.
"""

import inspect
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, cast

from weft.content import ContentLike, Part
from weft.declare.agent import check_agents
from weft.declare.checks import (
    check_callback,
    check_children,
    check_deps_type,
    check_name,
    check_schema,
    check_steps,
    check_text,
)
from weft.declare.compose import Composable
from weft.declare.config import check_inputs
from weft.declare.context import DepsT, Recollection, Surroundings, WithDeps
from weft.declare.functions import misfit
from weft.declare.nodes import to_node
from weft.declare.tool import check_names
from weft.errors import CallError, DeclarationError, FrozenError
from weft.misuse import suggest_names
from weft.session.event import Event
from weft.values import Json

if TYPE_CHECKING:
    from weft.content import Content
    from weft.declare.agent import CallbackChain
    from weft.declare.flow import Node
    from weft.session.log import Session


class CodeRun(Protocol):
    """What runs the code of a custom agent, as its context sees it."""

    def state(self) -> Mapping[str, Json]:
        """The state as the code sees it now."""
        ...

    def note_read(self, name: str) -> None:
        """Note that the code was shown an artifact, the memory or the session."""
        ...

    def user_text(self) -> str:
        """What the user said."""
        ...

    def run(self, node: "Node") -> AsyncIterator[Event]:
        """Run a node below the agent."""
        ...

    def say(self, content: "ContentLike | None", delta: Mapping[str, Json]) -> Event:
        """An event of the agent."""
        ...


class RunContext(WithDeps[DepsT]):
    """What the `run` method of a custom agent is handed.

    `state` cannot be written: a change of the state is part of an event, `ctx.say("...", key=1)`.
    Nor can artifacts and memory: the code runs again when a run is resumed, and a tool does not.
    """

    __slots__ = ("_around", "_code", "_deps", "agent_name", "branch", "invocation_id")

    def __init__(
        self,
        code: CodeRun,
        around: Surroundings,
        *,
        agent_name: str,
        invocation_id: str,
        branch: str = "",
        deps: DepsT | None = None,
    ) -> None:
        self._code = code
        self._around = around
        self._deps = deps
        self.agent_name = agent_name
        self.invocation_id = invocation_id
        self.branch = branch

    @property
    def state(self) -> Mapping[str, Json]:
        """The state as it is now, to read. When a run is resumed: as it was at this point."""
        return self._code.state()

    @property
    def session(self) -> "Session":
        """The session as it is now, to read."""
        self._code.note_read("session")
        return self._around.session

    @property
    def user_text(self) -> str:
        """What the user said, or whoever called the agent as a tool."""
        return self._code.user_text()

    def run(self, node: "Node") -> AsyncIterator[Event]:
        """Run an agent or a flow below this one, and give its events as they come.

        They are in the log already. Yield those that whoever reads the run is to see. If the node
        fails, a RunError is raised here; catch it to go on with something else.
        """
        return self._code.run(node)

    def say(self, text: ContentLike | None = None, /, **state: Json) -> Event:
        """An event to yield: what the agent says, and the changes that go with it.

        A value of None deletes the key. `ctx.say(None, done=True)` changes the state and says
        nothing. Keys in a scope are passed as a dict: `ctx.say("Hi.", **{"user:name": "Ada"})`.
        """
        return self._code.say(text, state)

    async def load_artifact(self, name: str, version: int | None = None) -> Part | None:
        """A version of an artifact, the newest by default."""
        self._code.note_read(f"artifact:{name}")
        return await self._around.load_artifact(name, version)

    async def list_artifacts(self) -> list[str]:
        """The names of the artifacts of this session and its user."""
        return await self._around.artifact_names()

    async def search_memory(self, query: str) -> "Sequence[Content]":
        """What was said in the user's sessions that may answer the query."""
        self._code.note_read("memory")
        return await self._around.search_memory(query)

    async def find_memories(
        self, query: str, *, top_k: int | None = None
    ) -> Sequence[Recollection]:
        """As `search_memory`, with the author, the session and the time of each."""
        self._code.note_read("memory")
        return await self._around.find_memories(query, top_k=top_k)


class _Settling(type):
    """Checks and freezes every custom agent once its `__init__`, whatever that is, has returned."""

    if not TYPE_CHECKING:  # a type checker is to see what `__init__` takes

        def __call__(cls, *args: object, **kwargs: object) -> object:
            agent = super().__call__(*args, **kwargs)
            agent.settle()
            return agent


class CustomAgent(Composable, metaclass=_Settling):
    """An agent that is code: derive from it, and write `async def run(self, ctx)`.

    `run` yields events: its own, made by `ctx.say`, and those of the nodes that it runs with
    `ctx.run`. The fields below may be set in the class, in its own `__init__`, or be passed when
    one is made; so may other attributes that the class annotates:

        class Escalate(CustomAgent):
            classifier: Agent
            writes = ("owner",)

        Escalate("escalate", classifier=Agent("classifier"))

    The agents and flows among its attributes are below it, as are those in `sub_agents`.
    """

    name: str = ""
    """What events carry as their author; by default the name of the class, in small letters."""
    description: str = ""
    """What it is for: agents that may hand over to it read this."""
    reads: Sequence[str] = ()
    """The state keys that the code reads; undeclared, it may read any."""
    writes: Sequence[str] = ()
    """The state keys that the code writes; undeclared, it may write any."""
    sub_agents: "Sequence[Node]" = ()
    """Agents and flows that the code runs and that are not attributes of their own."""
    input_schema: object | None = None
    """What it takes when an agent calls it as a tool."""
    deps_type: object | None = None
    """The type of the dependencies that a run of it must be given."""
    max_steps: int = 500
    """How many events it may yield and nodes it may run in one run."""
    before_agent: "CallbackChain" = None
    after_agent: "CallbackChain" = None

    _children: "tuple[Node, ...] | None" = None
    _declared: frozenset[str] = frozenset()
    _origins: "tuple[tuple[Node, Node], ...]" = ()
    """Nodes as they were declared, each with the one that took its place."""

    _OPTIONS: ClassVar = (
        "name", "description", "reads", "writes", "sub_agents", "input_schema", "deps_type",
        "max_steps", "inputs", "before_agent", "after_agent",
    )  # fmt: skip

    def __init__(self, name: str = "", **fields: object) -> None:
        annotated = _list_attributes(type(self))
        if name:
            self.name = name
        for field, value in fields.items():
            if field not in self._OPTIONS and field not in annotated:
                options = [*self._OPTIONS, *annotated]
                raise CallError(
                    f"`{field}` is not an option of {type(self).__name__}",
                    where=f"{type(self).__name__} {name}".rstrip(),
                    hint=suggest_names(field, options)
                    or f"annotate it in the class: `{field}: Agent`; the options are:"
                    f" {', '.join(options)}",
                )
            setattr(self, field, value)

    def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        """What the agent does: an async generator of events."""
        raise NotImplementedError

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "run" in vars(cls):
            _check_run(cls.__name__, vars(cls)["run"])

    @property
    def children(self) -> "tuple[Node, ...]":
        """The agents and flows below it, each once, in the order of their declaration."""
        return self._children or ()

    @property
    def declares_writes(self) -> bool:
        """Whether it says which keys it writes; that may be none."""
        return "writes" in self._declared

    @property
    def declares_reads(self) -> bool:
        """Whether it says which keys it reads."""
        return "reads" in self._declared

    def heir_of(self, node: "Node") -> "Node | None":
        """The node below this one that stands for `node`; None if it was not declared."""
        for original, heir in self._origins:
            # the code may run the node it was declared with, or an equal one
            if node is original or node is heir or node == original:
                return heir
        return None

    def adopting(self, nodes: "Sequence[Node]") -> Self:
        """A copy with these nodes in the place of its children, in their order."""
        pairs = list(zip(self.children, nodes, strict=True))
        new_by_id = {id(old): new for old, new in pairs}
        adopted = copy(self)
        for name, value in _attributes(self):
            replaced = _replace_nodes(value, new_by_id)
            if replaced is not value:
                object.__setattr__(adopted, name, replaced)
        origins = tuple((first, new_by_id[id(last)]) for first, last in self._origins)
        object.__setattr__(adopted, "_origins", origins)
        object.__setattr__(adopted, "_children", tuple(nodes))
        return adopted

    def __setattr__(self, name: str, value: object) -> None:
        # `settle` sets the children last
        if self._children is not None:
            raise FrozenError(
                f"`{name}` cannot be changed: a CustomAgent is frozen once it is made",
                where=self.name,
                hint=f"keep what changes in the state: yield ctx.say(None, {name}=...)",
            )
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomAgent):
            return NotImplemented
        return self is other or (type(self) is type(other) and vars(self) == vars(other))

    def __hash__(self) -> int:
        return hash(self.name)

    def settle(self) -> None:
        """Normalise what people set, find the nodes below, and refuse what cannot be right."""
        kind = type(self)
        if kind.run is CustomAgent.run:
            raise DeclarationError(
                "it has no `run` to say what it does",
                where=kind.__name__,
                hint="write async def run(self, ctx: RunContext) in the class, and yield events",
            )
        missing = [field for field in _annotations(kind) if not hasattr(self, field)]
        if missing:
            raise DeclarationError(
                f"{' and '.join(f'`{field}`' for field in missing)} must be set, and is not",
                where=self.name or kind.__name__,
                hint=f"pass it: {kind.__name__}({', '.join(f'{one}=...' for one in missing)}),"
                " or set it in the class",
            )
        if not self.name:
            self.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower().strip("_")
        name = self.name
        check_name(name, kind="CustomAgent")
        check_text(name, "description", self.description)
        # `reads = ()` says that it reads nothing; without it nobody knows
        declared = {field for one in (self, *_classes(kind)) for field in vars(one)}
        self._declared = frozenset(declared & {"reads", "writes"})
        for field in ("reads", "writes"):
            keys = cast("object", getattr(self, field))
            check_names(field, keys, where=f"{name}.{field}")
            setattr(self, field, tuple(cast("Iterable[str]", keys)))
        self.sub_agents = check_children(name, "sub_agents", self.sub_agents)
        self.inputs = check_inputs(name, "inputs", self.inputs)
        if self.input_schema is not None:
            self.input_schema = check_schema(name, "input_schema", self.input_schema)
        check_deps_type(name, "deps_type", self.deps_type)
        check_steps(name, "max_steps", self.max_steps)
        for moment in ("before_agent", "after_agent"):
            callbacks = check_callback(name, moment, _own(self, moment))
            setattr(self, moment, callbacks)
        below: dict[int, Node] = {}
        for field, value in (("sub_agents", self.sub_agents), *_attributes(self)):
            for node in _nodes_in(value):
                below.setdefault(id(node), to_node(node, where=f"{name}.{field}"))
        children = tuple(below.values())
        self._origins = tuple((child, child) for child in children)
        self._children = children  # from here on it is frozen
        check_agents(self, where=name)


def _check_run(kind: str, run: object) -> None:
    """Refuse a `run` that cannot be an async generator of events."""
    hint = "write async def run(self, ctx: RunContext), with `yield ctx.say(...)` in it"
    where = f"{kind}.run"
    if not callable(run):
        raise DeclarationError(f"{run!r} cannot be called", where=where, hint=hint)
    # an async function without `yield` is not a generator, and is easily written
    if inspect.iscoroutinefunction(run):
        raise DeclarationError(
            "it yields nothing: there is no `yield` in it", where=where, hint=hint
        )
    if inspect.isgeneratorfunction(run):
        raise DeclarationError("it is not async", where=where, hint=hint)
    taken = misfit(run, 2)
    if taken is not None:
        raise DeclarationError(f"run takes (self, ctx); this takes {taken}", where=where, hint=hint)


def _classes(kind: type) -> Iterator[type]:
    """The class and those that it derives from, up to CustomAgent."""
    for one in kind.__mro__:
        if one is CustomAgent:
            return
        yield one


def _list_attributes(kind: type) -> list[str]:
    """The attributes that the author of a class annotates, or gives a value."""
    names: dict[str, None] = {}
    for one in _classes(kind):
        for name in (*vars(one).get("__annotations__", ()), *vars(one)):
            if not name.startswith("_") and name != "run":
                names[name] = None
    return list(names)


def _annotations(kind: type) -> list[str]:
    """The attributes that a class and those above it annotate, without what is the class's own."""
    return [
        name
        for one in _classes(kind)
        for name, spelled in vars(one).get("__annotations__", {}).items()
        if not name.startswith("_") and "ClassVar" not in str(spelled)
    ]


def _own(agent: CustomAgent, field: str) -> object:
    """What is set under a field; in the class it may be a method, or a function without `self`."""
    if field in vars(agent):
        return cast("object", vars(agent)[field])
    plain = next((vars(one)[field] for one in _classes(type(agent)) if field in vars(one)), None)
    return (
        plain
        if not inspect.isfunction(plain) or misfit(plain, 1) is None
        else getattr(agent, field)
    )


def _attributes(agent: CustomAgent) -> Iterator[tuple[str, object]]:
    """What was set in the agent and its classes: each name once, its own value first."""
    seen: set[str] = set()
    for one in (agent, *_classes(type(agent))):
        for name, value in vars(one).items():
            if name not in seen and not name.startswith("__") and name not in _INNER:
                seen.add(name)
                yield name, value


_INNER = frozenset(("_children", "_origins", "_declared", "before_agent", "after_agent"))


def _nodes_in(value: object) -> Iterator[object]:
    """The agents and flows in a value: itself, or in its lists and dicts."""
    if isinstance(value, Composable):
        yield value
    elif isinstance(value, list | tuple):
        for one in cast("Iterable[object]", value):
            yield from _nodes_in(one)
    elif isinstance(value, dict):
        yield from _nodes_in([*cast("dict[object, object]", value).values()])


def _replace_nodes(value: object, new_by_id: "Mapping[int, Node]") -> object:
    """The value with other nodes in it; the very same value where there are none."""
    if isinstance(value, Composable):
        return new_by_id.get(id(value), value)
    if next(_nodes_in(value), None) is None:
        return value
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {key: _replace_nodes(one, new_by_id) for key, one in pairs}
    replaced = [_replace_nodes(one, new_by_id) for one in cast("Iterable[object]", value)]
    return replaced if isinstance(value, list) else tuple(replaced)
