"""What the declaration of a root decides for every run of it: worked out once, by its runner."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from weft.compiler.protected import labels_of
from weft.declare import Agent, CustomAgent, Node, RunConfig, agents_of
from weft.declare.agent import nodes_of
from weft.declare.checks import fits_type
from weft.declare.compose import Composable
from weft.declare.policy_parts import Label
from weft.declare.visit import inner_agents
from weft.diagnostics import Origin
from weft.errors import UsageError, describe_kind
from weft.runtime.callbacks import require_code
from weft.runtime.place import Place
from weft.session import Session
from weft.values import Json

if TYPE_CHECKING:
    from weft.checker.world import World


class Program:
    """A root as it is run: its labels, its inputs, and which of its agents speak to the user."""

    __slots__ = (
        "_inferred",
        "_inner",
        "_inputs",
        "_keys",
        "_labels",
        "deps_types",
        "root",
        "with_schema",
    )

    def __init__(self, root: Node) -> None:
        require_code(root)
        self.root = root
        self.with_schema = {
            agent.name: agent for agent in agents_of(root) if agent.output_schema is not None
        }
        """The agents that answer in a schema, by name."""
        self.deps_types = dict(_deps_types(root))
        """By the agents that declare one: the type of the dependencies that they need."""
        self._labels: tuple[Label, ...] | None = None
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
        if config.context is not None:
            return labels_of(self.root, config)
        if self._labels is None:
            self._labels = labels_of(self.root)
        return self._labels

    @property
    def inner(self) -> frozenset[str]:
        """The agents whose text is data for others, not for the user."""
        if self._inner is None:
            self._inner = inner_agents(self.root)
        return self._inner

    @property
    def inputs(self) -> Mapping[str, object]:
        """The inputs that must be there when the root starts, with their types."""
        if self._inputs is None:
            self._inputs = {} if _is_plain(self.root) else _declared_inputs(self.root)
        return self._inputs

    def inferred(self, session: Session, config: RunConfig, state: Mapping[str, Json]) -> "Program":
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
        supplied = {*state, *_supplied_keys(session)}
        # a key that the application wrote has its writer: no agent is to write it as well
        known = {key for key in keys.values() if key in supplied}
        if known:
            world = self._start()
            for key in known:
                writer = Writer("the application", Origin("config", "state"), "input")
                world = world.wrote(key, writer)
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


def _deps_types(node: Node) -> Iterator[tuple[str, object]]:
    """The agents below a node that declare the type of their dependencies, tools' included."""
    for one in nodes_of(node):
        if isinstance(one, Agent | CustomAgent) and one.deps_type is not None:
            yield one.name, one.deps_type
        for tool in one.tools if isinstance(one, Agent) else ():
            if isinstance(tool.agent, Composable):
                yield from _deps_types(tool.agent)


def root_place(root: Node) -> Place:
    """Where the root stands: an agent at the empty path, a flow under its name."""
    return Place() if isinstance(root, Agent) else Place(root.name)


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


def _supplied_keys(session: Session) -> Iterator[str]:
    """The keys that the application put into the session: to begin with, or with a message."""
    yield from session.initial
    for event in session.events:
        if event.author == "user":
            yield from event.actions.state_delta
