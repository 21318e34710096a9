"""K: a fault is found wherever the agent that has it stands, and its mended twin is left alone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from tests.checker.test_corpus import serious
from weft import Agent, C, CustomAgent, Loop, Map, Route, RunContext, S, Sequence, tool
from weft.declare import Node
from weft.tools import exit_loop


@tool(labels=["medical"])
def read_chart(patient: str) -> str:
    """A patient's chart."""
    return "38.9 degrees"


class Around(CustomAgent):
    """Runs its child."""

    child: Node

    async def run(self, ctx: RunContext) -> Any:
        """Run the child."""
        async for event in ctx.run(self.child):
            yield event


def around(child: Node) -> Node:
    """The child in a custom agent."""
    return Around("around", child=child)


def other(name: str) -> Agent:
    """An agent that has nothing to do with it, but hears what was said."""
    return Agent(name, instruction="Say what you think of it.", description="another one")


SHAPES: dict[str, Callable[[Agent], Node]] = {
    "alone": lambda agent: agent,
    "a sequence": lambda agent: agent >> other("end"),
    "a router": lambda agent: Agent("router", instruction="Hand over.", sub_agents=[agent]),
    "a tool": lambda agent: Agent("boss", instruction="Ask.", tools=[agent]),
    "a flow as a tool": lambda agent: Agent(
        "boss",
        instruction="Ask.",
        tools=[Sequence(agent, other("end"), name="both", description="does both")],
    ),
    "a flow in a flow": lambda agent: Sequence(
        other("begin"), Sequence(agent, other("middle"), name="inner"), other("end")
    ),
    "a custom agent": around,
    "a loop": lambda agent: Loop(agent >> other("again"), max=2) >> other("end"),
    "branches": lambda agent: (agent | other("beside")) >> other("end"),
    "a map": lambda agent: (
        S.set(rows=["a"]) >> Map("rows", agent, into="list") >> Agent("end", instruction="{list}")
    ),
    "a route": lambda agent: (
        Route(lambda state: "long" in state["plan"], name="choice")
        .eq(True, agent)
        .otherwise(other("short"))
    ),
    "a fallback": lambda agent: agent // other("spare"),
    "a race": lambda agent: weft.race(agent, other("fast")) >> other("end"),
    "a timeout": lambda agent: weft.timeout(agent, 60) >> other("end"),
    "a router in a loop in a custom agent": lambda agent: around(
        Loop(Agent("router", instruction="Hand over.", sub_agents=[agent]) >> other("x"), max=2)
    ),
}


def worker(text: str, **fields: Any) -> Agent:
    """The agent that is right or wrong."""
    return Agent("worker", instruction=text, description="works", **fields)


BOTH = C.default().keep_duplicates()

FAULTS: dict[str, tuple[Agent, Agent, str]] = {
    name: (worker("Carry out {plan}, now."), worker(f"Carry out {text}, now."), "WEFT114")
    for name, text in {
        "a format": "{plan:>10}",
        "a kind of format": "{plan:s}",
        "a blank before the mark": "{plan ?}",
        "percent": "%(plan)s",
        "dollar": "${plan}",
        "escaped": "{{plan}}",
        "spaced twice": "{{ plan }}",
        "shell": "$plan",
        "a statement": "{% if plan %}",
        "unclosed": "{plan",
    }.items()
}
FAULTS |= {
    "blanks": (worker("Carry out {plan}."), worker("Carry out { plan }."), "WEFT114"),
    "a scope": (worker("In {user:lang?}: {plan}"), worker("In {usr:lang}: {plan}"), "WEFT114"),
    "a tool to leave": (
        worker("Carry out {plan}. When done, call exit_loop.", tools=[exit_loop]),
        worker("Carry out {plan}. When done, call exit_loop."),
        "WEFT304",
    ),
    "a label": (
        worker("Judge {plan}.", tools=[read_chart], cleared=["medical"]),
        worker("Judge {plan}.", tools=[read_chart]),
        "WEFT608",
    ),
    "a message twice": (
        worker("Carry out {plan} for {asked}.", context=C.default()),
        worker("Carry out {plan} for {asked}.", context=BOTH),
        "WEFT206",
    ),
    "nothing, on purpose": (
        worker("Give two lines about the sea, for the end of a letter.", context=C.nothing()),
        worker("Answer the question.", context=C.nothing()),
        "WEFT208",
    ),
}


def program(shape: str, agent: Agent) -> Node:
    """The agent in a shape, where the state has a plan, and what was asked."""
    return S.capture("asked") >> S.set(plan="a long plan", tone="kind") >> SHAPES[shape](agent)


def codes(node: Node) -> Iterator[str]:
    """The codes of what is found at the agent."""
    yield from (one.code for one in weft.check(node) if one.origin.agent == "worker")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fault_is_found_in_every_shape_and_its_twin_is_clean(shape: str, fault: str) -> None:
    right, wrong, code = FAULTS[fault]
    assert not serious(weft.check(program(shape, right)))
    assert code not in codes(program(shape, right))
    assert code in codes(program(shape, wrong))


DEFAULTS = {"tone": "kind", "words": 200}


def settings(state: Any) -> dict[str, object]:
    """What other steps begin with."""
    return {**DEFAULTS, "topic": state["asked"].strip()}


def put(state: Any, key: str, value: object) -> None:
    """Write a key that the caller names."""
    state[key] = value


def begin(state: Any) -> dict[str, object]:
    """A step that writes through helpers."""
    put(state, "begun", value=True)
    return {**settings(state), "round": 1}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", ["tone", "words", "topic", "begun", "round"])
def test_what_helpers_of_a_step_write_is_known_in_every_shape(shape: str, key: str) -> None:
    def flow(text: str) -> Node:
        return S.capture("asked") >> S.set(plan="x") >> begin >> SHAPES[shape](worker(text))

    assert not serious(weft.check(flow(f"Go on with {{{key}}}.")))
    assert "WEFT105" in codes(flow(f"Go on with {{{key}s}}."))


class Saying(CustomAgent):
    """Writes two keys, and says so nowhere but in its code."""

    async def run(self, ctx: RunContext) -> Any:
        """Say something, and write."""
        if ctx.state.get("plan"):
            yield ctx.say("I looked at the plan.", seen=True)
        yield ctx.say(None, **{"user:visits": 1})


class Handing(Saying):
    """Hands its context on, so that it may write anything."""

    async def run(self, ctx: RunContext) -> Any:
        """Let another function write."""
        for event in say_all(ctx):
            yield event


def say_all(ctx: RunContext) -> Iterator[Any]:
    """What a custom agent says."""
    yield ctx.say(None, anything=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_the_code_of_a_custom_agent_says_is_known(shape: str) -> None:
    def found(kind: type[CustomAgent], text: str) -> set[str]:
        flow = S.set(plan="x") >> kind() >> SHAPES[shape](worker(text))
        return {one.code for one in weft.check(flow) if one.origin.agent == "worker"}

    assert not found(Saying, "Seen: {seen}, {user:visits}.")
    assert "WEFT105" in found(Saying, "Seen: {sean}.")
    assert not found(Handing, "Seen: {sean}.")


def test_a_lost_message_that_may_be_meant_is_a_note() -> None:
    def severities(text: str) -> list[str]:
        return [str(one.severity) for one in weft.check(worker(text, context=C.nothing()))]

    assert severities("You are a helpful assistant.") == ["warning"]
    assert severities("Help.") == ["warning"]
    assert severities("Tell a joke.") == ["info"]
    assert severities("Write a haiku about the autumn.") == []
