"""Large flows: what a check costs grows with the agents, not with their square."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.linear import calls, check_calls
from weft import Agent, C, Fallback, Loop, Map, Parallel, Route, S, Sequence, check, race
from weft.declare import Node


def agents(count: int, text: str = "Work on {task}.") -> list[Agent]:
    return [Agent(f"n{i}", instruction=text).writes(f"k{i}") for i in range(count)]


def chain(count: int) -> Node:
    first = Agent("n0", instruction="Begin.").writes("k0")
    rest = (
        Agent(f"n{i}", instruction=f"On {{k{i - 1}}}.").writes(f"k{i}") for i in range(1, count)
    )
    return Sequence(first, *rest)


def silent_chain(count: int) -> Node:
    return Sequence(*(Agent(f"n{i}", instruction=f"On {{k{i - 1}?}}.") for i in range(count)))


def fan_out(count: int) -> Node:
    reads = " ".join(f"{{k{i}}}" for i in range(count))
    return Parallel(*agents(count)) >> Agent("end", instruction=reads)


def route(count: int) -> Node:
    made = Route("task")
    for i, agent in enumerate(agents(count)):
        made = made.eq(f"label {i}", agent)
    return made


def transfers(count: int) -> Node:
    return Agent("top", instruction="Hand over.", sub_agents=agents(count))


def deep_loops(count: int) -> Node:
    node: Node = Agent("first", instruction="Begin.").writes("k")
    for start in range(0, count, count // 8):
        node = Loop(Sequence(node, *agents(count)[start : start + count // 8]), max=3)
    return node


def blocks(count: int) -> Node:
    made = agents(count, "Work on {task} {k0?}.")
    cut = [made[i : i + 4] for i in range(0, count, 4)]
    return Sequence(
        *(Loop(a >> (Route("task").eq("x", b).otherwise(c) | d), max=3) for a, b, c, d in cut)
    )


def drops(count: int) -> Node:
    return Parallel(*(agent >> S.drop(agent.output_key or "") for agent in agents(count)))


def maps(count: int) -> Node:
    steps = [Map("task", agent, into=f"all{i}") for i, agent in enumerate(agents(count))]
    return Sequence(*steps)


def secrets(count: int) -> Node:
    return Sequence(
        *(
            replace(agent.sees(C.default().label(f"l{i}", f"k{i}")), cleared=(f"l{i}",))
            for i, agent in enumerate(agents(count))
        )
    )


def nested_trees(count: int) -> Node:
    made = [replace(agent, description="works") for agent in agents(count)]
    groups = [made[i : i + 4] for i in range(0, count, 4)]
    return Sequence(*(replace(one, sub_agents=tuple(more)) for one, *more in groups))


def collected(count: int) -> Node:
    reads = " ".join(f"{{k{i}?}}" for i in range(count))
    return Parallel(*agents(count), on_error="collect") >> Agent("end", instruction=reads)


def taking(count: int) -> Node:
    return Sequence(*(agent.takes({f"i{i}": str}) for i, agent in enumerate(agents(count))))


SHAPES: dict[str, Callable[[int], Node]] = {
    "a chain": chain,
    "a chain whose keys are inferred": silent_chain,
    "a fan-out": fan_out,
    "a route": route,
    "a tree of transfers": transfers,
    "loops in loops": deep_loops,
    "loops over routes in branches": blocks,
    "fallbacks": lambda count: Fallback(*agents(count)),
    "a race": lambda count: race(*agents(count)),
    "branches that drop keys": drops,
    "maps": maps,
    "a label on every key": secrets,
    "trees in a row": nested_trees,
    "branches that may fail": collected,
    "agents that take inputs": taking,
    "texts that look like placeholders": lambda count: Sequence(
        *agents(count, "Work on $task {task-x} {k0!}.")
    ),
    "agents that see all others": lambda count: Sequence(
        *(Agent(f"n{i}", instruction="Work.") for i in range(count))
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_agents_take_about_four_times_the_work(shape: str) -> None:
    def work(count: int) -> Callable[[], object]:
        flow = SHAPES[shape](count)
        return lambda: check(flow, inputs={"task": list[str]})

    check_calls(work, 160)


def test_looking_for_a_key_that_nobody_declared_takes_no_second_walk() -> None:
    flow = silent_chain(60)
    check(flow)  # what is done once in a process is done
    assert calls(lambda: check(flow)) < 1.2 * calls(lambda: check(flow, infer=False))


def test_the_names_that_a_message_lists_are_few() -> None:
    flow = Sequence(*agents(100), Agent("end", instruction="Read {wrong}."))
    (message,) = (one.message for one in check(flow, inputs=["task"]) if "wrong" in one.message)
    assert message.endswith("k25, k26 and 81 more")
