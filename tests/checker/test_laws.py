"""K: what is said of flows at random is what happens when they run."""

import asyncio
import random
from dataclasses import replace

import pytest

import weft
from weft import Agent, Loop, Map, Parallel, Result, Route, Runner, S, Sequence, race
from weft.declare import Node, agents_of
from weft.declare.visit import rebuild
from weft.testing import ScriptedModel

KEYS = ("a", "b", "c", "d")
FOUND = {"WEFT105", "WEFT106", "WEFT107", "WEFT108", "WEFT111"}


class Author:
    """Writes flows; the same seed, the same flow."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def agent(self) -> Agent:
        self.count += 1
        reads = self.random.sample(KEYS, self.random.choice((0, 1, 1, 2)))
        mark = "?" if self.random.random() < 0.15 else ""
        text = " ".join(f"{{{key}{mark}}}" for key in reads)
        agent = Agent(f"n{self.count}", instruction=f"Work. {text}")
        return agent.writes(self.random.choice(KEYS)) if self.random.random() < 0.8 else agent

    def program(self) -> Node:
        """A flow before which some keys are set, as an application would."""
        given = self.random.sample(KEYS, self.random.randint(0, 3))
        return Sequence(*(S.set(key, "x") for key in given), self.flow(3))

    def flow(self, depth: int) -> Node:
        if depth == 0:
            return self.agent()
        below = depth - 1
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3:
                steps = [self.flow(below) for _ in range(self.random.randint(2, 4))]
                return Sequence(*steps)
            case 4:
                return Parallel(self.flow(below), self.flow(below))
            case 5:
                return Loop(self.flow(below), max=2)
            case 6:
                key = self.random.choice(KEYS)
                word = self.random.choice(("x", "y"))
                return Route(key).eq(word, self.flow(below)).otherwise(self.flow(below))
            case 7:
                changes = [S.drop(self.random.choice(KEYS)), S.default({self.key(): "x"})]
                return Sequence(self.random.choice(changes), self.flow(below))
            case 8:
                return Sequence(S.set(self.key(), "y"), self.flow(below))
            case 9:
                return Map("list", self.flow(below), into=self.key(), item="item")
            case 10:
                return race(self.flow(below), self.flow(below))
            case _:
                return self.agent()

    def key(self) -> str:
        return self.random.choice(KEYS)


async def ran(flow: Node, answer: str) -> tuple[Result, ScriptedModel]:
    agents = {agent.name: [answer] * 200 for agent in agents_of(flow)}
    model = ScriptedModel(agents)
    spoken = rebuild(flow, lambda agent: replace(agent, model=model))
    async with Runner(spoken, store="memory://") as runner:
        result = await runner.run(
            session_id="s",
            message="go",
            state={"list": ["1", "2"]},
            config=weft.RunConfig(infer=False),
        )
    return result, model


def laws(seed: int) -> tuple[bool, int]:
    """Check both laws on one flow: whether it is clean, and how often a finding was confirmed."""
    flow = Author(seed).program()
    found = weft.check(flow, inputs={"list": list[str]}, infer=False)
    missing = {one.origin.agent for one in found if one.code in FOUND}
    sure = {
        one.origin.agent
        for one in found
        if one.code in ("WEFT105", "WEFT107") and one.origin.name == "instruction"
    }
    confirmed = 0
    for answer in ("x", "y", "z"):
        _, model = asyncio.run(ran(flow, answer))
        asked = {prompt.agent for prompt in model.prompts}
        lacking = {
            prompt.agent
            for prompt in model.prompts
            if any(one.code == "WEFT101" for one in prompt.diagnostics)
        }
        assert lacking <= missing, (seed, answer, lacking - missing)
        assert sure & asked <= lacking, (seed, answer, sure & asked - lacking)
        confirmed += len(sure & asked)
    return not missing, confirmed


@pytest.mark.parametrize("block", range(4))
def test_what_is_missing_is_found_and_what_is_found_is_missing(block: int) -> None:
    results = [laws(seed) for seed in range(block * 20, block * 20 + 20)]
    assert any(clean for clean, _ in results)
    assert sum(confirmed for _, confirmed in results) >= 20
