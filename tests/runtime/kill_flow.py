"""What the kill tests run: one long flow that uses everything, and small agents, one per effect.

Nothing here depends on when it runs. The model's answer is a function of the request it gets, and
carries a digest of it, so that a request that differs after a crash changes all that follows.
"""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias, cast

from tests.runtime.journal import Journal
from weft import (
    Agent,
    C,
    Content,
    CustomAgent,
    Event,
    Fallback,
    Loop,
    ModelResponse,
    Parallel,
    Part,
    ReadonlyContext,
    Route,
    RunContext,
    Sequence,
    Step,
    Tool,
    ToolContext,
    Toolset,
    tool,
)
from weft.content import call_part
from weft.declare import Node
from weft.errors import RunError
from weft.ir import Prompt
from weft.tools import PythonTool, load_memory, remember
from weft.values import Json, JsonObject, compact

Call: TypeAlias = tuple[str, JsonObject]
Turn: TypeAlias = str | JsonObject | list[Call] | Exception
"""What an agent does in one turn: says a text or JSON, calls tools, or fails."""

PAUSE = 0.001

_FOLDED_CALL = re.compile(r"^\s*#\d+ page ", re.MULTILINE)


@dataclass
class Plan:
    """What the planner answers with."""

    kind: str
    digest: str


def digest_of(prompt: Prompt) -> str:
    """What tells requests apart; lines are sorted, as branches may come in any order."""
    return sha256("\n".join(sorted(str(prompt).split("\n"))).encode()).hexdigest()[:8]


class PlannedModel:
    """A model that does, in each of an agent's turns, what the plan has for it.

    Which turn it is, it sees from how many of the agent's own turns are in the request, or in its
    notes. Plans begin again at their end, for agents that are asked in several rounds.
    """

    name, dialect = "planned", "gemini"

    def __init__(self, plans: Mapping[str, list[Turn]], note: Journal) -> None:
        self._plans = plans
        self._note = note

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Answer; the side journal has the request before, and the answer after."""
        mine = [i for i in prompt.items if i.author == prompt.agent and i.kind != "user"]
        turn, digest = len(mine) + len(_FOLDED_CALL.findall(str(prompt))), digest_of(prompt)
        key = f"{prompt.agent}-{turn}-{digest}"
        self._note("asked", key=key, agent=prompt.agent)
        await asyncio.sleep(PAUSE)
        plan = self._plans[prompt.agent]
        said = plan[turn % len(plan)]
        if isinstance(said, Exception):
            raise said
        self._note("answered", key=key)
        parts = _parts(said, key, digest)
        content = Content(parts=parts, role="model")
        yield ModelResponse(content=content, custom_metadata={"key": key})


def _parts(said: str | JsonObject | list[Call], key: str, digest: str) -> tuple[Part, ...]:
    if isinstance(said, str):
        return (Part(text=f"{said} ({key})"),)
    if isinstance(said, dict):
        return (Part(text=compact({**said, "digest": digest})),)
    return tuple(
        call_part(name, _filled(args, f"{key}-{index}"), id=f"{key}-{index}")
        for index, (name, args) in enumerate(said)
    )


def _filled(args: JsonObject, name: str) -> JsonObject:
    """The arguments, with a name of their own where one is wanted: no two calls are the same."""
    return {key: name if value == "?" else value for key, value in args.items()}


SCRIPT = """
import asyncio
seen, booked = await asyncio.gather(look("a script"), book("in a script"))
print(seen, booked, await count("in a script"))
"""

LOOK: Call = ("look", {"what": "?"})
SLOW: Call = ("slow", {"what": "?"})
COUNT: Call = ("count", {"what": "?"})
NOTE: Call = ("remember", {"what": "?"})
BOOK: Call = ("book", {"what": "?"})
SEND: Call = ("send", {"what": "?"})
FAIL: Call = ("fail", {"what": "?"})

PLANS: dict[str, list[Turn]] = {
    "planner": ["I will plan", {"kind": "deep"}],
    "left": [[LOOK, LOOK, SLOW, LOOK], [SLOW, NOTE, LOOK], "left is done"],
    "right": [[COUNT], [BOOK], [COUNT, LOOK, COUNT], [BOOK, SEND], "right is done"],
    "scout": [[LOOK, SEND], "scouted"],
    "sifter": [[SLOW, FAIL], "sifted"],
    "writer": [[LOOK, SLOW], "a draft"],
    "critic": [[("grade", {"what": "?"}), LOOK], "a grade"],
    "deep": [[LOOK, BOOK, LOOK], "deep"],
    "deeper": [[NOTE, SEND], "deeper"],
    "shallow": ["never asked"],
    "broken": [RuntimeError("503")],
    "backup": [[LOOK], "backed up"],
    "half": [[LOOK, SLOW], RuntimeError("503")],
    "spare": ["spared"],
    "unlucky": [[LOOK], RuntimeError("504")],
    "lucky": [[SLOW, LOOK], "lucky"],
    "boss": [
        [("expert", {"request": "?"}), ("expert", {"request": "?"})],
        [("expert", {"request": "?"}), LOOK],
        "the boss knows",
    ],
    "expert": [[LOOK, NOTE], [BOOK], "the expert knows"],
    "front": [[LOOK, ("transfer_to_agent", {"agent_name": "billing"})]],
    "billing": [[BOOK, COUNT], [("transfer_to_agent", {"agent_name": "tech"})]],
    "tech": [[LOOK, LOOK], "solved"],
    "digger": [[LOOK, SLOW], [BOOK], "dug"],
    "other": [[SEND], [LOOK, LOOK], "otherwise"],
    "flaky": [[LOOK], RuntimeError("505")],
    "scripter": [[("run_python", {"code": SCRIPT}), LOOK], [BOOK], "scripted"],
    "closer": [[COUNT], "the end"],
    "misled": [[LOOK], [("effect", {"what": "?"})], "all done"],
    # tools that come with Weft
    "keeper": [
        [("remember", {"fact": "?"}), LOOK, ("remember", {"fact": "The user likes tea."})],
        [("load_memory", {"query": "tea"}), LOOK],
        "kept",
    ],
    "coder": [
        [("run_python", {"code": "open('out.txt', 'w').write('42')\nprint(6 * 7)"}), LOOK],
        [LOOK],
        "coded",
    ],
    # a session that folds
    "reader": [*[[("page", {"what": "?"})]] * 26, "read"],
    # one tool each
    "solo": [[("effect", {"what": "?"})], "done"],
    "batch": [[LOOK, ("effect", {"what": "?"}), LOOK], "done"],
}


def tools(note: Journal) -> dict[str, Tool]:
    """The tools of the long flow: each says in the side journal when it begins and ends."""

    async def look(what: str, ctx: ToolContext) -> str:
        """Look at something."""
        note("began", call=ctx.call_id)
        await asyncio.sleep(PAUSE)
        note("ended", call=ctx.call_id)
        return f"{what} is there"

    @tool(timeout=30)
    def slow(what: str, ctx: ToolContext) -> JsonObject:
        """Look at something in a thread, and note it in the state."""
        note("began", call=ctx.call_id)
        ctx.state[f"slow {what}"] = True
        note("ended", call=ctx.call_id)
        return {"found": what}

    @tool(sequential=True)
    async def count(what: str, ctx: ToolContext) -> int:
        """Count one more; it reads what it wrote before."""
        note("began", call=ctx.call_id)
        ctx.state["count"] = now = cast("int", ctx.state.get("count", 0)) + 1
        await asyncio.sleep(PAUSE)
        note("ended", call=ctx.call_id)
        return now

    @tool(name="remember", sequential=True)
    def keep_in_state(what: str, ctx: ToolContext) -> str:
        """Remember something for the user and the app."""
        note("began", call=ctx.call_id)
        ctx.state[f"user:{what}"] = "remembered"
        ctx.state[f"temp:{what}"] = "not for long"
        note("ended", call=ctx.call_id)
        return "remembered"

    def fail(what: str, ctx: ToolContext) -> str:
        """Fail."""
        note("began", call=ctx.call_id)
        raise ValueError(f"no {what}")

    def grade(what: str, ctx: ToolContext) -> int:
        """Grade the draft."""
        note("began", call=ctx.call_id)
        ctx.state["score"] = score = cast("int", ctx.state.get("score", 0)) + 1
        note("ended", call=ctx.call_id)
        return score

    plain = [*map(tool, (look, fail, grade)), slow, count, keep_in_state]
    found = [*plain, booking(note), sending(note)]
    return {each.name: each for each in found}


def booking(
    note: Journal, name: str = "book", *, asks: bool = False, requires: tuple[str, ...] = ()
) -> Tool:
    """A tool that writes a row with the store's own connection; it may ask before."""

    def is_new(args: JsonObject, ctx: ToolContext) -> bool:
        note("weighed", call=ctx.call_id)
        return asks and args["what"] != "nothing"

    @tool(name=name, effect="transactional", confirm=is_new, requires=[*requires])
    async def book(what: str, ctx: ToolContext) -> str:
        """Book something."""
        note("began", call=ctx.call_id)
        statement = "INSERT INTO bookings VALUES "
        row = (f"{ctx.session_id} {ctx.call_id}", what)
        if isinstance(ctx.connection, sqlite3.Connection):
            ctx.connection.execute(f"{statement} (?, ?)", row)
        else:
            from psycopg import AsyncConnection

            assert isinstance(ctx.connection, AsyncConnection)
            await ctx.connection.execute(f"{statement} (%s, %s)".encode(), row)
        note("wrote", call=ctx.call_id)
        await asyncio.sleep(PAUSE)
        ctx.state[f"booked {ctx.call_id}"] = what
        note("ended", call=ctx.call_id)
        return f"{what} is booked"

    return book


def sending(note: Journal, name: str = "send") -> Tool:
    """A tool with an effect out in the world, where one can look whether it happened."""

    def find(call_id: str, args: JsonObject) -> JsonObject | None:
        note("probed", call=call_id)
        happened = note.happened("happened", call_id)
        return {"result": f"{args['what']} is sent"} if happened else None

    @tool(name=name, effect="probe", probe=find)
    async def send(what: str, ctx: ToolContext) -> str:
        """Send something."""
        note("began", call=ctx.call_id)
        await asyncio.sleep(PAUSE)
        note("happened", call=ctx.call_id)
        await asyncio.sleep(PAUSE)
        note("ended", call=ctx.call_id)
        return f"{what} is sent"

    return send


class Conductor(CustomAgent):
    """Code that runs agents by the state, catches a failure, and says things of its own."""

    note: Journal
    digger: Agent
    other: Agent
    flaky: Agent
    writes = ("rounds", "events")

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        """Dig twice, fail in between, and count what was seen."""
        events = 0
        while (rounds := cast("int", ctx.state.get("rounds", 0))) < 2:
            self.note("conducted", round=rounds)
            async for event in ctx.run(self.digger):
                events += 1
                yield event
            yield ctx.say(f"round {rounds + 1} with {events}", rounds=rounds + 1)
            if rounds:
                continue
            try:
                async for event in ctx.run(self.flaky):
                    events += 1
                    yield event
            except RunError:
                yield ctx.say("it failed")
        async for event in ctx.run(self.digger | self.other):
            yield event
        yield ctx.say(None, events=events)


def flow(note: Journal) -> Node:
    """A run of more than a hundred steps."""
    model = PlannedModel(PLANS, note)
    has = tools(note)

    def agent(name: str, *names: str, **more: object) -> Agent:
        return Agent(name, model=model, tools=[has[n] for n in names], **more)  # type: ignore[arg-type]

    async def for_count(context: ReadonlyContext) -> list[Tool]:
        note("offered", agent=context.agent_name)
        await asyncio.sleep(PAUSE)
        early = cast("int", context.state.get("count", 0)) < 1000  # a tool of it changes the count
        return [has["count"], has["look"], has["send"]] if early else []

    def prepare(state: Mapping[str, Json]) -> JsonObject:
        note("stepped", name="prepare")
        return {
            "count": 0,
            "app:finished": False,
            "gone": None,
            "kind": cast("JsonObject", state["plan"])["kind"],
        }

    async def finish(state: Mapping[str, Json]) -> JsonObject:
        note("stepped", name="finish")
        await asyncio.sleep(PAUSE)
        own = [key for key in state if not key.startswith(("app:", "temp:"))]
        return {"keys": len(own), "app:finished": True}

    expert = agent("expert", "look", "remember", "book", description="Knows.")
    front = agent("front", "look").delegates_to(
        agent("billing", "book", "count", description="Bills."),
        agent("tech", "look", description="Mends."),
    )
    return Sequence(
        agent("planner").returns(Plan).writes("plan"),
        Step(prepare),
        Parallel(
            agent("left", "look", "slow", "remember").writes("left"),
            agent("right", "count", "book", "look", "send").writes("right"),
            agent("scout", "look", "send") >> agent("sifter", "slow", "fail").writes("sifted"),
            name="apart",
        ),
        Loop(
            agent("writer", "look", "slow").writes("draft") >> agent("critic", "grade", "look"),
            until=lambda state: cast("int", state.get("score", 0)) >= 3,
            max=5,
            name="polish",
        ),
        Route("kind")
        .eq("deep", Sequence(agent("deep", "look", "book"), agent("deeper", "remember", "send")))
        .otherwise(agent("shallow")),
        Fallback(agent("broken"), agent("backup", "look")),
        Fallback(
            Parallel(agent("half", "look", "slow"), name="doomed"), agent("spare"), name="again"
        ),
        Parallel(
            agent("unlucky", "look"),
            agent("lucky", "slow", "look"),
            name="luck",
            on_error="collect",
        ),
        agent("boss", "look").uses(expert),
        front,
        Conductor(
            note=note,
            digger=agent("digger", "look", "slow", "book"),
            other=agent("other").uses(for_count),
            flaky=agent("flaky", "look"),
        ),
        agent("scripter", "look", "book", "count").uses(PythonTool()),
        Step(finish),
        agent("closer")
        .uses(Toolset("late", for_count))
        .instruct("Close. Plan: {plan.kind}. Left: {left}"),
    )


def effect(kind: str, note: Journal, agent: str) -> Node:
    """An agent that calls one tool with that effect, alone or in a batch."""
    model = PlannedModel(PLANS, note)
    if kind in ("transactional", "approved"):
        made = booking(note, "effect", asks=kind == "approved")
    elif kind == "doubted":  # nobody but a reader of untrusted text named what is booked
        made = booking(note, "effect", requires=("what",))
    elif kind == "probe":
        made = sending(note, "effect")
    else:

        @tool(name="effect", effect=kind)  # type: ignore[arg-type]
        async def plain(what: str, ctx: ToolContext) -> str:
            """Do it."""
            note("began", call=ctx.call_id)
            await asyncio.sleep(PAUSE)
            note("happened", call=ctx.call_id)
            await asyncio.sleep(PAUSE)
            note("ended", call=ctx.call_id)
            return f"{what} is done"

        made = plain
    return Agent(agent, model=model, tools=[tools(note)["look"], made])


def built_in(agent: str, note: Journal) -> Node:
    """An agent with tools of Weft's own: it remembers facts, or runs code that writes a file."""
    own: list[object] = [remember, load_memory] if agent == "keeper" else [PythonTool()]
    model = PlannedModel(PLANS, note)
    return Agent(agent, model=model, tools=[tools(note)["look"], *own])


def reading(note: Journal) -> Node:
    """An agent that reads so much that its steps become notes."""

    async def page(what: str, ctx: ToolContext) -> str:
        """Read a page."""
        note("began", call=ctx.call_id)
        return "\n".join(f"{what}, line {n}: the river rose and fell again" for n in range(90))

    model = PlannedModel(PLANS, note)
    return Agent("reader", model=model, tools=[page], max_steps=40).sees(C.auto())


CODE = """
print("begun")
first = look("one")
second = effect("two")
print(first, bool(second), look("three"))
"""


def in_code(kind: str, note: Journal) -> Node:
    """An agent whose code calls one tool with that effect, between others."""
    inner = effect(kind, note, "solo")
    assert isinstance(inner, Agent)
    model = PlannedModel({"outer": [[("run_python", {"code": CODE}), LOOK], "all done"]}, note)
    return Agent("outer", model=model, tools=[*inner.tools, PythonTool()])


def inside(kind: str, note: Journal) -> Node:
    """An agent whose tool is an agent that calls one tool with that effect."""
    inner = effect(kind, note, "solo")
    assert isinstance(inner, Agent)
    model = PlannedModel({"outer": [[("solo", {"request": "?"}), LOOK], "all done"]}, note)
    helper = inner.describe("Does it.")
    return Agent("outer", model=model, tools=[helper, tools(note)["look"]])
