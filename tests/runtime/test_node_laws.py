"""Flows of all nodes at random: they end, and end the same from any point of their logs."""

import asyncio
import itertools
import random
from typing import Any

import pytest

from tests.runtime.laws import check_laws
from tests.runtime.logs import Measured
from weft import (
    Agent,
    Fallback,
    Gate,
    Loop,
    Map,
    Parallel,
    Route,
    Runner,
    Sequence,
    Session,
    Step,
    expect,
    race,
    tap,
    timeout,
)
from weft.declare import Node, walk_nodes
from weft.ir import Prompt
from weft.session import MemoryStore, SessionKey
from weft.testing import ScriptedModel
from weft.values import Json

KEY = SessionKey("app", "user", "s")


class Author:
    """Writes flows; the same seed, the same flow."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self.model = ScriptedModel({f"a{n}": [self._answer] * 200 for n in range(60)})

    def _answer(self, prompt: Prompt) -> str:
        """An answer that depends on all the agent was told."""
        told = prompt.system_text.rpartition("|")[2]
        return f"{prompt.agent}({len(prompt.items)} {told})"[:120]

    def flow(self, depth: int) -> Node:
        """A flow of nodes nested so deep."""
        kinds = ["agent", "step", "data"]
        if depth:
            kinds = [
                "sequence", "sequence", "parallel", "loop", "fallback", "route", "map", "map",
                "race", "race", "timeout", "tap", "expect", "gate",
            ]  # fmt: skip
        return self._made(self._random.choice(kinds), depth - 1, next(self._numbers))

    def _made(self, kind: str, below: int, number: int) -> Node:
        key = f"k{number % 7}"
        match kind:
            case "agent":
                return Agent(f"a{number}", model=self.model, instruction=f"|{{{key}?}} {{item?}}")
            case "data":
                made = Agent(f"a{number}", model=self.model, instruction=f"|{{{key}?}} {{item?}}")
                return made.writes(f"k{(number + 1) % 7}")
            case "step":
                return Step(lambda state: {key: [number, state.get("item")]}, name=f"s{number}")
            case "sequence":
                return Sequence(*[self.flow(below) for _ in range(self._random.randint(1, 3))])
            case "parallel":
                return Parallel(self.flow(below), Step(lambda s: {"p": number}, name=f"p{number}"))
            case "loop":
                return Loop(self.flow(below), max=2, while_=lambda s: s.get("tries", 0) < 5)
            case "fallback":
                doomed = self.flow(below) >> expect(lambda s: False, "never", name=f"e{number}")
                return Fallback(doomed, self.flow(below))
            case "route":
                return Route(key).eq("x", self.flow(below)).otherwise(self.flow(below))
            case "map":
                body = self.flow(below)
                items = self._random.choice(["xs", "ys", "none"])
                return Map(items, body, into=key, concurrency=self._random.randint(1, 3))
            case "race":
                first = self.flow(below)
                waits = any(isinstance(node, Gate) for node, _ in walk_nodes(first))
                return race(first, fails if waits else never, name=f"race{number}")
            case "timeout":
                return timeout(self.flow(below), 20)
            case "tap":
                return self.flow(below) >> tap(lambda s: dict(s), name=f"t{number}")
            case "gate":
                return Gate(f"g{number}", key=key, choices=["x", "y"]) >> self.flow(below)
            case _:
                return expect(lambda s: True, "always", name=f"e{number}") >> self.flow(below)


async def never(state: Any) -> None:
    await asyncio.sleep(60)


def fails(state: Any) -> None:
    raise ValueError("no")


async def finished(runner: Runner, *, fresh: bool) -> Session:
    """The log of a run, with every gate answered."""
    state: dict[str, Json] = {"xs": ["one", "two"], "ys": [1, 2, 3], "none": []}
    running = runner.resume(session_id="s")
    if fresh:
        running = runner.run(session_id="s", message="go", state=state)
    result = await running
    while result.waiting:
        answers = dict.fromkeys(sorted(result.waiting), "x")
        result = await runner.resume(session_id="s", answers=answers)
    return result.check().session


def said(session: Session) -> list[tuple[str, str]]:
    """What was said where, whatever the order."""
    paths = [str((event.node_info or {}).get("path")) for event in session.events]
    return sorted((path, e.text) for path, e in zip(paths, session.events, strict=True) if e.text)


async def check(seed: int, cuts: int) -> int:
    """Run a flow, and go on with it from some points of its log; how long that is."""
    author, store = Author(seed), Measured()
    root = author.flow(3)
    whole = await finished(Runner(root, app_name=KEY.app_name, store=store), fresh=True)
    check_laws(whole, root)
    lengths = random.Random(seed).sample(store.lengths, min(cuts, len(store.lengths)))
    for length in lengths:
        again, kept = MemoryStore(), whole.events.first(length)
        await again.append(await again.create(KEY, state=whole.initial), *kept)
        author = Author(seed)
        root = author.flow(3)
        log = await finished(Runner(root, app_name=KEY.app_name, store=again), fresh=False)
        assert log.state == whole.state, f"seed {seed}, cut after {length} events: {root}"
        assert said(log) == said(whole), f"seed {seed}, cut after {length} events: {root}"
        words = sum(bool(event.text) for event in kept if event.author != "user")
        all_words = sum(bool(event.text) for event in whole.events if event.author != "user")
        assert len(author.model.prompts) == all_words - words, "an answer was asked again"
    return len(whole.events)


@pytest.mark.parametrize("seeds", [range(15), range(15, 30)])
async def test_flows_of_all_nodes_end_the_same_from_any_point_of_their_logs(seeds: range) -> None:
    lengths = [await check(seed, cuts=2) for seed in seeds]
    assert max(lengths) > 15
