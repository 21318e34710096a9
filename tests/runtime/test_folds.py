"""Runs that fold: every request is found again in the stored log, wherever the agent stands."""

import re
from collections.abc import AsyncIterator

import pytest

from tests.support.laws import all_laws
from weft import Agent, C, CustomAgent, Event, RunContext, Runner
from weft.compiler import Compilation
from weft.declare import Node
from weft.dialects.strict import check_request
from weft.inspector.inspection import Inspection
from weft.ir import Prompt, ResultBlock, TextBlock
from weft.ir.block import FOLDED
from weft.session import SessionKey
from weft.stores import open_store
from weft.testing import ScriptedModel, call

WORDS = "wind river gauge rose over the weir and fell again"
MODELS = (
    ("claude-opus-5", "anthropic"),
    ("gpt-5", "openai-responses"),
    ("gemini-2.5-flash", "gemini"),
    ("m", "openai-chat"),
)


def notes_in(prompt: Prompt) -> list[str]:
    return [b.text for b in prompt.blocks if isinstance(b, TextBlock) and b.origin == FOLDED]


def recall_first(prompt: Prompt) -> object:
    """Get back the first step of the first note."""
    step = re.search(r"^#(\d+) look (\w+)", notes_in(prompt)[0], re.MULTILINE)
    assert step is not None
    return call("recall", handle=f"#{step[1]}", query=f"{step[2]} 7 wind")


def looker(name: str, dialect: str, *turns: int) -> tuple[ScriptedModel, Agent]:
    """An agent that looks at as many things in each turn; after the first it gets one back."""

    def look(path: str) -> str:
        """Look."""
        return "\n".join(f"{path} {k} {WORDS}" for k in range(90))

    script: list[object] = []
    for turn, count in enumerate(turns):
        script += [call("look", path=f"{'abc'[turn]}{n}") for n in range(count)]
        script += [recall_first, "Done."] if turn == 0 and count > 20 else ["So."]
    model = ScriptedModel(script, name=name, dialect=dialect)
    agent = Agent("worker", model=model, tools=[look], instruction="Look. " * 50, max_steps=40)
    return model, agent.sees(C.auto())


class Hands(CustomAgent):
    """Runs an agent, as code may."""

    inner: Agent

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        async for event in ctx.run(self.inner):
            yield event


def says(name: str, *turns: object) -> Agent:
    """Another agent, which does the same in each turn."""
    return Agent(name, model=ScriptedModel([*turns] * 4))


def place(shape: str, worker: Agent) -> Node:
    """A program in which the agent stands somewhere."""
    match shape:
        case "as a tool":
            boss = says("boss", call("worker", request="Go"), "All done.")
            return boss.uses(worker.describe("Looks."))
        case "in a nested flow":
            return says("first", "I begin.") >> (worker | says("other", "Elsewhere."))
        case "handed over to":
            hands = call("transfer_to_agent", agent_name="worker")
            return says("router", hands).delegates_to(worker)
        case "in code":
            return Hands("hands", inner=worker)
    return worker


SHAPES = ("alone", "as a tool", "in a nested flow", "handed over to", "in code")


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
async def test_every_request_of_a_run_that_folds_is_found_again_in_its_store(address: str) -> None:
    with all_laws() as laws:
        # each store has some of the shapes, so that each shape has its turn
        for at, shape in [*enumerate(SHAPES)][address.startswith("postgres") :: 2]:
            served, name = MODELS[at % len(MODELS)], shape.replace(" ", "-")
            model, worker = looker(*served, 24, 14, 2)
            root = place(shape, worker)
            runner = Runner(root, app_name="folds", store=address)
            (await runner.run("Go. " * 30, session_id=name)).check()
            assert notes_in(model.prompts[-1]), shape
            laws.check(shape, (a_step_is_recalled_by_its_number,), model)
            second = (await runner.run("And on.", session_id=name)).check()
            # the notes of the second turn lose what stood in them of it
            await runner.rewind(session_id=name, invocation_id=second.invocation_id)
            (await runner.run("Other things.", session_id=name)).check()
            await runner.fork(session_id=name, upto=40, to=f"{name}-2")
            await runner.close()
            other, forked = looker(*served, 1)
            fork = Runner(place(shape, forked), app_name="folds", store=address)
            (await fork.run("And here?", session_id=f"{name}-2")).check()
            await fork.close()
            laws.check(shape, LAWS, model, await rebuild(address, name, root))
            laws.check(shape, LAWS, other, await rebuild(address, f"{name}-2", fork.root))


async def rebuild(address: str, name: str, root: Node) -> list[Compilation]:
    """The requests of the agent, from the log as it is stored."""
    store = open_store(address)
    session = await store.get(SessionKey("folds", "user", name))
    await store.close()
    assert session is not None
    steps = [step for step in Inspection(root, session).steps if step.event.author == "worker"]
    return [step.request for step in steps if step.request is not None]


def each_is_the_one_that_was_sent(model: ScriptedModel, found: list[Compilation]) -> None:
    # a fork has the steps before it too
    assert [request.wire for request in found[-len(model.wires) :]] == model.wires


def the_provider_takes_it(model: ScriptedModel, found: list[Compilation]) -> None:
    for wire in model.wires:
        assert check_request(model.dialect, wire, model.name) == ()


def a_step_is_recalled_by_its_number(model: ScriptedModel) -> None:
    blocks = model.prompts[-1].blocks
    (answer,) = [b for b in blocks if isinstance(b, ResultBlock) and b.name == "recall"]
    assert " 7 wind" in str(answer.response["result"])


LAWS = (each_is_the_one_that_was_sent, the_provider_takes_it)
