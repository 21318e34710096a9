"""Laws over random google-adk trees: what a check says is what happens, and Weft mends it."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.kit import REAL

if not REAL:
    pytest.skip("google-adk is not installed", allow_module_level=True)

from tests.interop.kit import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from tests.interop.test_adk_plugin import Ran, contents, ran
from weft.interop.adk import WeftPlugin, check_adk

pytestmark = pytest.mark.filterwarnings("ignore")

MESSAGE = "please plan the summer fair"


def grown(seed: int, model: Any) -> Any:
    """A random tree whose agents read only keys that are surely written before them."""
    chance = random.Random(seed)
    names = iter(f"agent_{n}" for n in range(1000))

    def agent(known: list[str]) -> tuple[Any, list[str]]:
        name = next(names)
        read = [key for key in known if chance.random() < 0.4]
        key = f"key_{name}" if chance.random() < 0.6 else None
        made = LlmAgent(
            name=name,
            model=model,
            instruction=f"You do {name}." + "".join(f" Use {{{one}}}." for one in read),
            output_key=key,
            include_contents="none" if chance.random() < 0.25 else "default",
        )
        return made, [key] if key else []

    def node(depth: int, known: list[str]) -> tuple[Any, list[str]]:
        kind = chance.choice(("agent", "sequence", "parallel", "loop")) if depth else "agent"
        if kind == "agent":
            return agent(known)
        name = f"flow_{next(names)}"
        children, wrote = [], list[str]()
        for _ in range(chance.randint(2, 3)):
            child, new = node(depth - 1, known + (wrote if kind != "parallel" else []))
            children.append(child)
            wrote += new
        if kind == "sequence":
            return SequentialAgent(name=name, sub_agents=children), wrote
        if kind == "parallel":
            return ParallelAgent(name=name, sub_agents=children), wrote
        return LoopAgent(name=name, sub_agents=children, max_iterations=2), wrote

    parts = [node(2, [])]
    parts.append(node(2, parts[0][1]))
    return SequentialAgent(name="root", sub_agents=[part for part, _ in parts])


def agents_in(tree: Any) -> Iterator[Any]:
    if isinstance(tree, LlmAgent):
        yield tree
    for child in tree.sub_agents:
        yield from agents_in(child)


def said_by(name: str) -> str:
    """What an agent always says: words of its own."""
    return f"the words of {name} are these"


def run_of(seed: int, *plugins: Any) -> Ran:
    names = [agent.name for agent in agents_in(grown(seed, "m"))]
    script = {name: [said_by(name)] * 16 for name in names}
    return ran(lambda model: grown(seed, model), script, *plugins, messages=(MESSAGE,))


def system(request: Any) -> str:
    return str(request.config.system_instruction)


SEEDS = range(16)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_found_twice_is_sent_twice(seed: int) -> None:
    found = [one for one in check_adk(grown(seed, "gemini-2.5-flash")) if one.code == "WEFT206"]
    claimed = set()
    for one in found:
        match = re.search(r"what `(\w+)` said reaches `(\w+)` twice", one.message)
        assert match is not None
        claimed.add((match[1], match[2]))
    plain = run_of(seed)
    bare = {a.name for a in agents_in(grown(seed, "m")) if a.include_contents == "none"}
    seen: set[tuple[str, str]] = set()
    for reader, request in plain.model.asked:
        for writer in {name for name, _ in plain.model.asked} - {reader}:
            words = said_by(writer)
            if words in contents(request) and words in system(request) and reader not in bare:
                seen.add((writer, reader))
    assert claimed == seen


@pytest.mark.parametrize("seed", SEEDS)
def test_a_message_is_lost_where_it_is_found_to_be_and_the_plugin_loses_nothing(seed: int) -> None:
    plain, compacted = run_of(seed), run_of(seed, WeftPlugin())
    assert [name for name, _ in plain.model.asked] == [name for name, _ in compacted.model.asked]
    lost = {
        str(one.origin).split(".")[0]
        for one in check_adk(grown(seed, "gemini-2.5-flash"))
        if one.code == "WEFT208"
    }
    for (_, before), (_, after) in zip(plain.model.asked, compacted.model.asked, strict=True):
        assert contents(after) == contents(before)
    asked = plain.model.asked
    assert lost == {name for name, request in asked if MESSAGE not in contents(request)}
