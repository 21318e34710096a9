"""Random programs of agents: plain data, strategies for it, and the flows it stands for.

What an agent says depends on nothing but how often it has spoken in the log. So a program has
one meaning, whatever is cancelled, lost or repeated on the way.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import strategies as st

import weft
from weft import Agent, Event, Part, ToolContext, tool
from weft.declare import Node
from weft.ir import Prompt
from weft.session.lookback import CONFIRMATION
from weft.testing import ScriptedModel, call
from weft.values import Json

MAX_STEPS = 3
WORDS = ("red", "blue")


@dataclass(frozen=True)
class Reply:
    """What a model says: text, calls beside it, or nothing that is an answer."""

    text: str = ""
    calls: tuple[str, ...] = ()
    """Names of tools; `to:name` hands over."""
    fails: str = ""
    """`model_error` or `empty_response`."""


@dataclass(frozen=True)
class Speaker:
    """An agent: its replies, again and again from the first; the agents below and behind it."""

    name: str
    replies: tuple[Reply, ...]
    writes: bool = False
    below: "tuple[Speaker, ...]" = ()
    stays: bool = False
    """Whether it may not hand over to its parent."""
    expert: "Speaker | None" = None

    @property
    def key(self) -> str:
        """Where its answers are kept."""
        return f"k_{self.name}"

    def tree(self) -> "Iterator[tuple[Speaker, Speaker | None]]":
        """Itself and all below it, each with its parent."""
        waiting: list[tuple[Speaker, Speaker | None]] = [(self, None)]
        while waiting:
            one, parent = waiting.pop()
            yield one, parent
            waiting += [(each, one) for each in one.below]

    def find(self, name: str) -> "tuple[Speaker, ...]":
        """The way down to an agent."""
        if self.name == name:
            return (self,)
        ways = (each.find(name) for each in self.below)
        return next(((self, *way) for way in ways if way), ())

    def targets(self, name: str) -> list[str]:
        """Whom an agent of this tree may hand over to."""
        way = self.find(name)
        names = [each.name for each in way[-1].below]
        if len(way) > 1:
            names += [] if way[-1].stays else [way[-2].name]
            names += [each.name for each in way[-2].below if each.name != name]
        return names


@dataclass(frozen=True)
class Row:
    """One after the other."""

    name: str
    steps: "tuple[Program, ...]"


@dataclass(frozen=True)
class Fork:
    """Side by side."""

    name: str
    branches: "tuple[Program, ...]"
    collects: bool


@dataclass(frozen=True)
class Rounds:
    """Again and again, until a key holds a word."""

    name: str
    body: "Program"
    most: int
    until: tuple[str, str] | None


@dataclass(frozen=True)
class Choices:
    """The first that does not fail."""

    name: str
    choices: "tuple[Program, ...]"


@dataclass(frozen=True)
class Switch:
    """Where the value of a key leads."""

    name: str
    key: str
    cases: "tuple[tuple[str, Program], ...]"
    default: "Program | None"


@dataclass(frozen=True)
class Task:
    """A function of the state: it counts, and fails while `trip` is set."""

    name: str


Program: TypeAlias = Speaker | Row | Fork | Rounds | Choices | Switch | Task


@dataclass
class Drawing:
    """What is known while a program is drawn: the names used, and the keys that can be read."""

    draw: st.DrawFn
    used: int = 0
    speakers: int = 0
    keys: list[str] = field(default_factory=lambda: ["mode"])

    def name(self, kind: str) -> str:
        self.used += 1
        return f"{kind}{self.used}"

    def replies(self, calls: list[str]) -> tuple[Reply, ...]:
        """Some replies; the last is an answer, so that a turn may end."""
        answer = st.sampled_from(WORDS).map(lambda text: Reply(text=text))
        several = st.lists(st.sampled_from(calls), min_size=1, max_size=3).map(dict.fromkeys)
        calling = st.builds(
            Reply, text=st.sampled_from(["", "", *WORDS]), calls=several.map(_sensible)
        )
        failing = st.sampled_from([Reply(fails="model_error"), Reply(fails="empty_response")])
        one = st.sampled_from([calling, calling, calling, answer, failing]).flatmap(lambda s: s)
        some = self.draw(st.lists(one, min_size=1, max_size=3))
        return (*some, self.draw(answer))

    def speaker(self, depth: int, *, alone: bool = False) -> Speaker:
        """An agent, perhaps with others below and behind it."""
        self.speakers += 1
        name = self.name("a")
        tools = ["ok", "put", "bad", "nope", "wait", "job", "pay"]
        below: tuple[Speaker, ...] = ()
        expert = None
        if not alone:
            if depth and self.speakers < 6 and self.draw(st.booleans()):
                count = self.draw(st.integers(1, 2))
                below = tuple(self.speaker(depth - 1) for _ in range(count))
            if self.speakers < 6 and self.draw(st.booleans()):
                expert = self.speaker(0, alone=True)
                tools += ["expert"] * 4
            tools += ["exit", "to", "to", "to"]
        return Speaker(
            name,
            self.replies(tools),
            writes=self.draw(st.integers(0, 3)) > 0,
            below=below,
            stays=self.draw(st.integers(0, 4)) == 0,
            expert=expert,
        )

    def program(self, depth: int) -> Program:
        """A program no deeper than this."""
        kinds = ["speaker"]
        if depth and self.speakers < 6:
            kinds += ["row", "row", "fork", "fork", "rounds", "rounds", "choices", "switch", "task"]
        match self.draw(st.sampled_from(kinds)):
            case "row":
                count = self.draw(st.integers(1, 3))
                return Row(self.name("row"), tuple(self.program(depth - 1) for _ in range(count)))
            case "fork":
                before, branches, after = list(self.keys), [], list(self.keys)
                for _ in range(self.draw(st.integers(2, 3))):
                    self.keys = list(before)
                    branches.append(self.program(depth - 1))
                    after += [key for key in self.keys if key not in before]
                self.keys = after
                return Fork(self.name("fork"), tuple(branches), self.draw(st.booleans()))
            case "rounds":
                before = len(self.keys)
                body = self.program(depth - 1)
                inside = self.keys[before:]
                until = None
                if inside:
                    until = self.draw(st.sampled_from(inside)), self.draw(st.sampled_from(WORDS))
                return Rounds(self.name("rounds"), body, self.draw(st.integers(1, 3)), until)
            case "choices":
                count = self.draw(st.integers(2, 3))
                made = tuple(self.program(depth - 1) for _ in range(count))
                return Choices(self.name("choices"), made)
            case "switch":
                key = self.draw(st.sampled_from(self.keys))
                values = self.draw(
                    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2, unique=True)
                )
                cases = tuple((value, self.program(depth - 1)) for value in values)
                default = self.program(depth - 1) if self.draw(st.booleans()) else None
                return Switch(self.name("switch"), key, cases, default)
            case "task":
                return Task(self.name("task"))
            case _:
                speaker = self.speaker(1)
                self.keys += [each.key for each, _ in speaker.tree() if each.writes]
                return speaker


def _sensible(calls: dict[str, None]) -> tuple[str, ...]:
    """Leaving a loop is a call of its own: it ends the turn whatever else was called."""
    return ("exit",) if "exit" in calls else tuple(calls)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any program."""
    drawing = Drawing(draw)
    return _aimed(drawing.program(draw(st.sampled_from([0, 1, 2, 2, 3]))), draw)


def _aimed(program: Program, draw: st.DrawFn) -> Program:
    """The program with every hand-over aimed at somebody, or at nobody."""
    from dataclasses import replace

    def aim(speaker: Speaker, names: list[str]) -> Speaker:
        replies = tuple(
            replace(
                reply,
                calls=tuple(
                    f"to:{draw(st.sampled_from([*names, *names, 'nobody']))}"
                    if one == "to"
                    else one
                    for one in reply.calls
                ),
            )
            for reply in speaker.replies
        )
        return replace(
            speaker, replies=replies, below=tuple(aim(each, names) for each in speaker.below)
        )

    match program:
        case Speaker():
            return aim(program, [each.name for each, _ in program.tree()])
        case Row():
            return replace(program, steps=tuple(_aimed(each, draw) for each in program.steps))
        case Fork():
            return replace(program, branches=tuple(_aimed(e, draw) for e in program.branches))
        case Rounds():
            return replace(program, body=_aimed(program.body, draw))
        case Choices():
            return replace(program, choices=tuple(_aimed(e, draw) for e in program.choices))
        case Switch():
            cases = tuple((value, _aimed(each, draw)) for value, each in program.cases)
            default = _aimed(program.default, draw) if program.default is not None else None
            return replace(program, cases=cases, default=default)
        case Task():
            return program


# The tools every agent has. `n` and `p` say which call it is.


def ok(n: int, p: int) -> str:
    """Return something."""
    return f"ok {n}.{p}"


def put(n: int, p: int, ctx: ToolContext) -> str:
    """Write to the state."""
    ctx.state[f"t_{ctx.agent_name}"] = f"{n}.{p}"
    ctx.state["temp:last"] = n
    return f"put {n}.{p}"


async def bad(n: int, p: int) -> str:
    """Raise."""
    raise ValueError(f"bad {n}.{p}")


@tool(long_running=True)
def wait(n: int, p: int) -> None:
    """Wait for an answer, in silence."""


@tool(long_running=True)
def job(n: int, p: int) -> dict[str, str]:
    """Wait for an answer, and say so."""
    return {"status": f"started {n}.{p}"}


@tool(confirm=True)
def pay(n: int, p: int) -> str:
    """Ask before it is done."""
    return f"paid {n}.{p}"


def exit(n: int, p: int, ctx: ToolContext) -> str:
    """Leave the loop."""
    ctx.actions.escalate = True
    ctx.actions.skip_summarization = True
    return "left"


TOOLS = (ok, put, bad, wait, job, pay, exit)


def spoken(log: "list[Event]", name: str) -> int:
    """How often an agent's model has answered, as the log has it."""
    replies = 0
    for event in log:
        if event.author != name:
            continue
        content = event.content
        said = content is not None and content.role == "model"
        asked = any(each.name == CONFIRMATION for each in event.calls)
        replies += (said and not asked) or event.error_code in ("model_error", "empty_response")
    return replies


def built(program: Program, log: Callable[[], Awaitable[list[Event]]]) -> Node:
    """The program as Weft runs it; `log` reads the session as it is stored."""
    speakers: dict[str, Speaker] = {}
    _gather(program, speakers)

    def script(speaker: Speaker) -> Callable[[Prompt], Awaitable[object]]:
        async def reply(prompt: Prompt) -> object:
            number = spoken(await log(), speaker.name)
            return _said(speaker, number)

        return reply

    model = ScriptedModel({name: [script(each)] * 400 for name, each in speakers.items()})
    return _node(program, model)


def reply_of(speaker: Speaker, number: int) -> Reply:
    """What the agent says the so-manieth time."""
    return speaker.replies[number % len(speaker.replies)]


def call_of(speaker: Speaker, kind: str, number: int, place: int) -> tuple[str, dict[str, Json]]:
    """The name and the arguments of a call."""
    if kind.startswith("to:"):
        return "transfer_to_agent", {"agent_name": kind[3:]}
    if kind == "expert":
        assert speaker.expert is not None
        return speaker.expert.name, {"request": f"{number}.{place}"}
    return kind, {"n": number, "p": place}


def _said(speaker: Speaker, number: int) -> object:
    reply = reply_of(speaker, number)
    if reply.fails == "model_error":
        raise RuntimeError(f"503 of {speaker.name}")
    if reply.fails:
        return None
    parts: list[str | Part] = [reply.text] if reply.text else []
    for place, kind in enumerate(reply.calls):
        name, arguments = call_of(speaker, kind, number, place)
        parts.append(call(name, **arguments))
    return parts


def _gather(program: Program, found: dict[str, Speaker]) -> None:
    match program:
        case Speaker():
            for one, _ in program.tree():
                found[one.name] = one
                if one.expert is not None:
                    found[one.expert.name] = one.expert
        case _:
            for each in children(program):
                _gather(each, found)


def children(program: Program) -> "tuple[Program, ...]":
    """The programs a program is made of."""
    match program:
        case Row():
            return program.steps
        case Fork():
            return program.branches
        case Rounds():
            return (program.body,)
        case Choices():
            return program.choices
        case Switch():
            nodes = tuple(each for _, each in program.cases)
            return nodes if program.default is None else (*nodes, program.default)
        case Speaker() | Task():
            return ()


def _node(program: Program, model: ScriptedModel) -> Node:
    match program:
        case Speaker():
            return _agent(program, model)
        case Row():
            return weft.Sequence(*(_node(each, model) for each in program.steps), name=program.name)
        case Fork():
            return weft.Parallel(
                *(_node(each, model) for each in program.branches),
                name=program.name,
                on_error="collect" if program.collects else "cancel",
            )
        case Rounds():
            return weft.Loop(
                _node(program.body, model),
                max=program.most,
                until=_until(program.until) if program.until is not None else None,
                name=program.name,
            )
        case Choices():
            made = (_node(each, model) for each in program.choices)
            return weft.Fallback(*made, name=program.name)
        case Switch():
            route = weft.Route(program.key, name=program.name)
            for value, each in program.cases:
                route = route.eq(value, _node(each, model))
            default = program.default
            return route if default is None else route.otherwise(_node(default, model))
        case Task():
            return weft.Step(_task(program.name), name=program.name)


def _until(ends: tuple[str, str]) -> Callable[[object], bool]:
    key, word = ends
    return lambda state: state.get(key) == word  # type: ignore[attr-defined]


def _task(name: str) -> Callable[[dict[str, Json]], dict[str, Json]]:
    def count(state: dict[str, Json]) -> dict[str, Json]:
        if state.get("trip"):
            raise ArithmeticError(name)
        before = state.get(f"n_{name}", 0)
        assert isinstance(before, int)
        return {f"n_{name}": before + 1}

    return count


def _agent(speaker: Speaker, model: ScriptedModel) -> Agent:
    tools: list[object] = list(TOOLS)
    if speaker.expert is not None:
        tools.append(_agent(speaker.expert, model).describe("Knows."))
    return Agent(
        speaker.name,
        model=model,
        instruction=f"You said {{{speaker.key}?}}; mode {{mode?}}.",
        tools=tools,
        output_key=speaker.key if speaker.writes else None,
        sub_agents=[_agent(each, model) for each in speaker.below],
        disallow_transfer_to_parent=speaker.stays,
        max_steps=MAX_STEPS,
    )
