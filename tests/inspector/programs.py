"""Programs of every shape, nested in each other, and the sessions that they run."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st

from weft import (
    Agent,
    C,
    CustomAgent,
    Event,
    Fallback,
    Gate,
    Loop,
    Map,
    Parallel,
    Policy,
    Route,
    RunContext,
    Runner,
    Sequence,
    Step,
    race,
    tap,
    timeout,
    tool,
)
from weft.content import Part
from weft.declare import Node
from weft.ir import Prompt
from weft.models.scripted import prepare
from weft.session import Session
from weft.testing import ScriptedModel, call
from weft.values import JsonObject

Shape = tuple[object, ...]
"""The kind of a node, and the shapes below it."""

ONE = ("loop", "timeout", "map", "gate", "step", "tap")
MANY = ("router", "caller", "both", "custom", "sequence", "parallel", "route", "fallback", "race")
KINDS = (*ONE, *MANY)

shapes: st.SearchStrategy[Shape] = st.recursive(
    st.just(("agent",)),
    lambda inner: (
        st.tuples(st.sampled_from(ONE), inner) | st.tuples(st.sampled_from(MANY), inner, inner)
    ),
    max_leaves=5,
)

OWN = (
    None,
    C.window(1),
    C.none().redact("email"),
    C.default(),
    C.auto(),
    C.window(2).label("secret", "pin"),
)
"""The policies that agents have before anybody asks what if."""


@tool
def look_up(city: str) -> str:
    """Look a city up."""
    return f"{city}: mail desk@{city.lower()}.example, " + "lines of a long report, " * 60


class Chooser(CustomAgent):
    """Code that runs its first child, and the others from a list."""

    first: Node
    others: list[Node]

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        """Say something, and run all of them."""
        yield ctx.say("Code speaks.")
        for node in (self.first, *self.others):
            async for event in ctx.run(node):
                yield event


class Everybody(ScriptedModel):
    """A model that calls each tool once a turn, hands over where it may go down, and answers."""

    def __init__(self, below: dict[str, list[str]], dialect: str) -> None:
        super().__init__([], name="claude-opus-5", dialect=dialect)
        self._below = below
        self._asked: dict[tuple[str, str], int] = {}

    def _next(self, prompt: Prompt):
        return prepare(self._answer(prompt), where="program")

    def _answer(self, prompt: Prompt) -> Part | str:
        turn = (prompt.agent, prompt.items[-1].invocation if len(prompt.items) else "")
        asked = self._asked[turn] = self._asked.get(turn, 0) + 1
        names = [one.name for one in prompt.tools if one.name not in ("recall",)]
        tools = [name for name in names if name != "transfer_to_agent"]
        if asked <= len(tools):
            name = tools[asked - 1]
            return call(name, **({"city": "Oslo"} if name == "look_up" else {"request": "do it"}))
        below = self._below.get(prompt.agent, [])
        if below and asked == len(tools) + 1 and "transfer_to_agent" in names:
            return call("transfer_to_agent", agent_name=below[0])
        return f"{prompt.agent} has answered {asked} times. " + "It takes some words. " * 12


@dataclass
class Programmer:
    """Writes a program of a shape, with its own policies or with one that is written in."""

    policy: Policy | None = None
    dialect: str = "anthropic"
    below: dict[str, list[str]] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.model = Everybody(self.below, self.dialect)

    def program(self, shape: Shape) -> Node:
        """The program; its model is asked by the first agents, and handed down."""
        return self._node(shape)

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def _agent(self, kind: str, **options: object) -> Agent:
        name = self._name(kind)
        own = OWN[self.count % len(OWN)]
        policy = self.policy if self.policy is not None else own
        if self.policy is not None and own is not None:
            # what an agent hides stays hidden under any policy
            policy = self.policy.redact("email") if "redact" in str(own) else policy
            policy = self.policy.label("secret", "pin") if "label" in str(own) else policy
        agent = Agent(
            name,
            model=self.model,
            description=f"Does {name}.",
            instruction=f"You are {name}. The user is {{who?}}.",
            **options,  # type: ignore[arg-type]
        )
        return agent if policy is None else agent.sees(policy)

    def _node(self, shape: Shape) -> Node:
        kind, *inner = shape
        nodes = [self._node(one) for one in inner]  # type: ignore[arg-type]
        name = self._name(str(kind))
        match kind:
            case "agent":
                return self._agent("agent", tools=[look_up])
            case "router":
                return self._over(self._agent("router", sub_agents=nodes))
            case "caller":
                return self._agent("caller", tools=nodes)
            case "both":
                return self._over(self._agent("both", tools=nodes[:1], sub_agents=nodes[1:]))
            case "custom":
                return Chooser(name, description=name, first=nodes[0], others=nodes[1:])
            case "sequence":
                return Sequence(*nodes, name=name, description=name)
            case "parallel":
                return Parallel(*nodes, name=name, description=name)
            case "fallback":
                return Fallback(*nodes, name=name, description=name)
            case "race":
                return race(*nodes, name=name, description=name)
            case "route":
                route = Route("who", name=name, description=name)
                return route.eq("nobody", nodes[0]).otherwise(nodes[1])
            case "loop":
                return Loop(nodes[0], max=2, name=name, description=name)
            case "timeout":
                return timeout(nodes[0], 600, name=name, description=name)
            case "map":
                return Map("cities", nodes[0], into=f"into_{name}", name=name, description=name)
            case "gate":
                return Sequence(Gate(f"ask_{name}"), nodes[0], name=name, description=name)
            case "step":
                step = Step(lambda state: {"step": 1}, name=f"step_of_{name}")
                return Sequence(step, nodes[0], name=name, description=name)
            case "tap":
                return Sequence(nodes[0], tap(print_nothing), name=name, description=name)
            case _:
                raise AssertionError(kind)

    def _over(self, agent: Agent) -> Agent:
        self.below[agent.name] = [one.name for one in agent.sub_agents]
        return agent


def print_nothing(state: object) -> None:
    """Only look."""


async def ran(
    shape: Shape, *, dialect: str = "anthropic"
) -> tuple[Node, Session, list[JsonObject]]:
    """A program of a shape, two turns of a session that it ran, and the requests it sent."""
    programmer = Programmer(dialect=dialect)
    root = programmer.program(shape)
    runner = Runner(root, app_name="app")
    state = {"who": "Ann", "cities": ["Oslo", "Rome"], "pin": "pin 4711 of Ann"}
    for turn in range(2):
        text = f"Turn {turn}: write to ann@home.example. " + "The user has much to say. " * 20
        result = await runner.run(text, session_id="s", state=state if not turn else None)
        while result.waiting:
            answers = dict.fromkeys(result.waiting, "yes")
            result = await runner.resume(session_id="s", answers=answers)
    return root, await runner.session(session_id="s"), programmer.model.wires


def every_shape() -> Iterator[Shape]:
    """Each kind with agents inside, and with what holds agents that no flow names."""
    for kind in KINDS:
        for inner in ("agent", "router", "caller", "custom"):
            below: Shape = ("agent",) if inner == "agent" else (inner, ("agent",), ("agent",))
            yield (kind, below) if kind in ONE else (kind, below, ("agent",))
