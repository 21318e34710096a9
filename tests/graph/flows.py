"""Flows to draw: a dozen written ones, and as many random ones as are wanted."""

import random
from collections.abc import Callable, Mapping
from functools import cache

from weft import (
    Agent,
    Fallback,
    Gate,
    Loop,
    Map,
    Parallel,
    Route,
    S,
    Sequence,
    Step,
    expect,
    race,
    tap,
    timeout,
    until,
    while_,
)
from weft.declare import Node
from weft.graph import Graph, graph_of


def agent(name: str, instruction: str = "", **more: object) -> Agent:
    return Agent(name, model="ollama/a-model", instruction=instruction, **more)  # type: ignore[arg-type]


def approved(state: Mapping[str, object]) -> bool:
    return state["verdict"] == "ok"


def unsure(state: Mapping[str, object]) -> bool:
    return state.get("verdict") != "ok"


def tidy(state: Mapping[str, object]) -> dict[str, object]:
    return {"clean": str(state["raw"]).strip()}


def look(state: Mapping[str, object]) -> None:
    print(len(state))


def one_agent() -> Node:
    return agent("helper", "Help with {topic}.")


def a_sequence() -> Node:
    triage = agent("triage", "Name the intent.").writes("intent")
    return triage >> agent("booker", "Intent: {intent}.") >> agent("editor", "Make it short.")


def lanes() -> Node:
    writer = agent("writer", "Use {news} and {facts}.")
    return (agent("web").writes("news") | agent("papers").writes("facts")) >> writer


def cases() -> Node:
    triage = agent("triage", "Name the intent.").writes("intent")
    route = Route("intent").eq("booking", agent("booker")).contains('a "quote"', agent("quoter"))
    return triage >> route.otherwise(agent("helper"))


def rounds() -> Node:
    writer = agent("writer", "Better than {draft?}.").writes("draft")
    critic = agent("critic", "Judge {draft}.").writes("verdict")
    return (writer >> critic) * until(approved, max=3)


def while_rounds() -> Node:
    return agent("judge").writes("verdict") * while_(unsure, max=4)


def choices() -> Node:
    return agent("primary", "Answer {topic}.") // agent("backup", "Answer {topic}.")


def each() -> Node:
    body = agent("reader", "Read {item}.")
    return Map("files", body, into="notes") >> agent("writer", "From {notes}.")


def decided() -> Node:
    draft = agent("writer").writes("draft")
    gate = Gate("approve", question="Send {draft}?", choices=["yes", "no"])
    send = Route("approve").eq("yes", agent("sender", "Send {draft}."))
    return draft >> gate >> send.otherwise(agent("sorry"))


def first_of() -> Node:
    quick, slow = agent("quick").writes("answer"), agent("slow").writes("answer")
    return timeout(race(quick, slow), 5) >> agent("editor", "Edit {answer}.")


def functions() -> Node:
    start = agent("fetch").writes("raw")
    steps = start >> tidy >> tap(look) >> S.rename(clean="text")
    return steps >> expect(unsure, "done") >> agent("writer", "Say {text}.")


def handed_over() -> Node:
    inner = agent("inner", description="Looks things up.")
    below = [agent("clerk", description="Knows."), agent("boss", description="Decides.")]
    return agent("desk", tools=[inner], sub_agents=below)


def named() -> Node:
    morning = Sequence(agent("wake"), agent("wash"), name="morning")
    return Parallel(morning, agent("news"), name="day")


WRITTEN: dict[str, tuple[Callable[[], Node], dict[str, object]]] = {
    "one agent": (one_agent, {"topic": str}),
    "a sequence": (a_sequence, {}),
    "lanes": (lanes, {}),
    "cases": (cases, {}),
    "rounds": (rounds, {}),
    "while rounds": (while_rounds, {}),
    "choices": (choices, {"topic": str}),
    "each": (each, {"files": list[str]}),
    "decided": (decided, {}),
    "first of": (first_of, {}),
    "functions": (functions, {}),
    "handed over": (handed_over, {}),
    "named": (named, {}),
}

KEYS = ("topic", "draft", "verdict", "raw", "clean", "intent", "a_rather_long_key_name")


class Wild:
    """Random flows of about so many nodes; some read what nobody writes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def node(self, size: int, depth: int = 0) -> Node:
        if size <= 1 or depth > 5:
            return self._leaf()
        kind = self.random.randrange(9)
        if kind in (0, 1, 2):
            return Sequence(*self._parts(size, depth), name=self._name("sequence"))
        if kind == 3:
            return Parallel(*self._parts(size, depth), name=self._name("parallel"))
        if kind == 4:
            return Fallback(*self._parts(size, depth), name=self._name("fallback"))
        if kind == 5:
            route = Route(self._key(), name=self._name("route"))
            for index, part in enumerate(self._parts(size, depth)):
                route = route.eq(f"<case & {index}>" * self.random.randint(1, 4), part)
            return route if self.random.random() < 0.5 else route.otherwise(self._leaf())
        if kind == 6:
            done = self.random.choice((None, approved))
            return Loop(self.node(size - 1, depth + 1), max=3, until=done)
        if kind == 7:
            return Map(self._key(), self.node(size - 1, depth + 1), into=self._key())
        wrapped = self.node(size - 1, depth + 1)
        return self.random.choice((timeout(wrapped, 2.5), race(wrapped, self._leaf())))

    def _parts(self, size: int, depth: int) -> list[Node]:
        parts = self.random.randint(2, 5)
        return [self.node(max(1, (size - 1) // parts), depth + 1) for _ in range(parts)]

    def _leaf(self) -> Node:
        self.count += 1
        kind = self.random.randrange(10)
        if kind == 0:
            question = "Go on with {draft?}? 漢字 <b>&amp;</b> \x1b[31m"
            return Gate(f"gate_{self.count}", question=question, choices=["yes", "no"])
        if kind == 1:
            return Step(tidy, name=f"step_{self.count}")
        if kind == 2:
            return self.random.choice((tap(look), expect(unsure, "x < y & z > 'w' \"q\"")))
        read = "".join(f" {{{key}?}}" for key in self.random.sample(KEYS, 2))
        made = agent(f"agent_{self.count}", f"Do it: {read} {{{self._key()}}}")
        if self.random.random() < 0.5:
            made = made.writes(self._key())
        if self.random.random() < 0.1:
            self.count += 1
            made = made.delegates_to(agent(f"agent_{self.count}", description="Knows."))
        return made

    def _key(self) -> str:
        return self.random.choice(KEYS)

    def _name(self, default: str) -> str:
        self.count += 1
        return default if self.random.random() < 0.7 else f"{default}_{self.count}"


@cache
def draw_wild(seed: int, size: int) -> Graph:
    """The picture of a random flow, which several tests look at."""
    return graph_of(Wild(seed).node(size))
