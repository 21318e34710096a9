"""Replay: compile a recording again, step by step, under another policy, and say what it costs.

Every turn of a model that was recorded is a request. What the provider would have reused is
what a request repeats of the one before it; nothing is called. The answers are the recorded
ones, so nobody knows what a model would have said to another view: `recalls` counts what it
would have had to ask for, because what it used was only behind a handle.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from weft.compiler.breaks import read_again
from weft.compiler.compile import compile
from weft.compiler.compiled import Compiled
from weft.compiler.costs import RELATIVE, Load, Rates, cost_of
from weft.compiler.evidence import Kept, Rebuilt, Texts, Uses, View, rebuilt
from weft.compiler.recordings import Recording
from weft.declare import Agent, Policy, RunConfig, Tool
from weft.declare.template import Variable, parse
from weft.declare.tool import NAME, RESERVED
from weft.dialects.facts import YARDSTICK
from weft.errors import BudgetExceeded
from weft.ir.handle import RECALL
from weft.session import Event, Session
from weft.values import Json, JsonObject

ASKING = 30
"""Tokens of a call that recalls something, beside what it brings."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What recordings cost under one policy and model.

    `cost` is in US dollars where `money`, else in fresh tokens. `broken` counts the requests
    that read again what was sent before, `announced` those of them that said so with a price.
    `used` strings were used later; `present` of them were in view in the request, `behind` more one
    handle away. Of `reduced` texts in the requests, `rebuilt` can be put together again from the
    request and its handles. `recalls` handles would have been asked for, which makes it
    `with_recalls`. `refused` requests could not be made within the policy's budget, and count in
    nothing else. `curve` holds the tokens of each step, summed over the runs, and `reached` how
    many runs had it.
    """

    policy: str
    model: str
    runs: int = 0
    requests: int = 0
    tokens: int = 0
    cached: int = 0
    cost: float = 0.0
    with_recalls: float = 0.0
    money: bool = False
    largest: int = 0
    broken: int = 0
    announced: int = 0
    used: int = 0
    present: int = 0
    behind: int = 0
    reduced: int = 0
    rebuilt: int = 0
    recalls: int = 0
    refused: int = 0
    curve: tuple[int, ...] = ()
    reached: tuple[int, ...] = ()

    @property
    def hit_ratio(self) -> float:
        """The share of the tokens that was read before."""
        return self.cached / self.tokens if self.tokens else 0.0

    @property
    def kept(self) -> float:
        """The share of the strings used later that were present or one handle away."""
        return (self.present + self.behind) / self.used if self.used else 1.0

    @property
    def lost(self) -> float:
        """The share of the strings used later that nothing in the request leads to."""
        return 1.0 - self.kept

    @property
    def restorable(self) -> float:
        """The share of the texts in short that can be put together again."""
        return self.rebuilt / self.reduced if self.reduced else 1.0

    @property
    def in_view(self) -> float:
        """The share of the strings used later that were in view."""
        return self.present / self.used if self.used else 1.0


class _Spent(NamedTuple):
    """What one request takes: all its tokens, those read again, and what that costs."""

    tokens: int
    cached: int
    cost: float
    rates: Rates


def replay(
    recording: Recording,
    policy: Policy,
    *,
    uses: Uses,
    model: str | None = None,
    agents: Mapping[str, Agent] | None = None,
) -> Trial:
    """Compile every request of a recording under a policy, for a model or by the yardstick.

    `agents` are the roots of the agents that speak in it by name; without, each is made of its
    recorded system text alone.
    """
    tally, texts, kept = _Tally(policy, model), Texts(), Kept(recording.session.events)
    requests = requests_of(recording, policy, model=model, agents=agents, refused=tally.refused)
    for index, _, compiled in requests:
        spent = _spent(compiled, by_price=model is not None)
        tally.step(compiled, spent)
        used = uses.by_event.get(index, ())
        if used:
            view = View(compiled, texts, kept)
            tally.evidence(view, used, spent, compiled)
        tally.rebuild(rebuilt(compiled, kept))
    return tally.trial()


def total(trials: Iterable[Trial]) -> Trial:
    """Several recordings under one policy and model as one."""
    first, *rest = trials
    for other in rest:
        first = Trial(
            policy=first.policy,
            model=first.model,
            runs=first.runs + other.runs,
            requests=first.requests + other.requests,
            tokens=first.tokens + other.tokens,
            cached=first.cached + other.cached,
            cost=first.cost + other.cost,
            with_recalls=first.with_recalls + other.with_recalls,
            money=first.money,
            largest=max(first.largest, other.largest),
            broken=first.broken + other.broken,
            announced=first.announced + other.announced,
            used=first.used + other.used,
            present=first.present + other.present,
            behind=first.behind + other.behind,
            reduced=first.reduced + other.reduced,
            rebuilt=first.rebuilt + other.rebuilt,
            recalls=first.recalls + other.recalls,
            refused=first.refused + other.refused,
            curve=_added(first.curve, other.curve),
            reached=_added(first.reached, other.reached),
        )
    return first


class _Tally:
    """Adds up one recording, request by request."""

    def __init__(self, policy: Policy, model: str | None) -> None:
        self.policy, self.model = policy, model
        self.sizes: list[int] = []
        self.cached = self.broken = self.announced = 0
        self.cost = self.recalling = 0.0
        self.used = self.present = self.behind = self.reduced = self.rebuilt = 0
        self.recalled: dict[str, str] = {}
        self.refused: list[BudgetExceeded] = []
        self.carried = 0
        self.money = False

    def step(self, compiled: Compiled, spent: _Spent) -> None:
        """One more request; what was recalled before is read again with it."""
        self.sizes.append(spent.tokens)
        self.cached += spent.cached
        self.cost += spent.cost
        self.recalling += self.carried * spent.rates.read
        self.money = spent.rates.money
        if read_again(compiled):
            self.broken += 1
            self.announced += any(one.code == "WEFT502" for one in compiled.diagnostics)

    def evidence(
        self, view: View, used: tuple[str, ...], spent: _Spent, compiled: Compiled
    ) -> None:
        """What the answer to a request used; what is only behind a handle is recalled, once."""
        self.used += len(used)
        for string in used:
            if view.has(string):
                self.present += 1
                continue
            handle = view.handle_of(string)
            if handle is None:
                continue
            self.behind += 1
            if any(string in text for text in self.recalled.values()):
                continue
            self.recalled[handle] = view.behind[handle]
            size = compiled.scale.counter.count(view.behind[handle]) + ASKING
            again = spent.tokens + self.carried
            self.recalling += spent.rates.cost(Load(again, size, 0))
            self.carried += size

    def rebuild(self, found: Rebuilt) -> None:
        """What of one request can be put together again."""
        self.reduced += found.reduced
        self.rebuilt += found.reduced - len(found.lost)

    def trial(self) -> Trial:
        """All of it."""
        return Trial(
            policy=str(self.policy),
            model=self.model or "",
            runs=1,
            requests=len(self.sizes),
            tokens=sum(self.sizes),
            cached=self.cached,
            cost=self.cost,
            with_recalls=self.cost + self.recalling,
            money=self.money,
            largest=max(self.sizes, default=0),
            broken=self.broken,
            announced=self.announced,
            used=self.used,
            present=self.present,
            behind=self.behind,
            reduced=self.reduced,
            rebuilt=self.rebuilt,
            recalls=len(self.recalled),
            refused=len(self.refused),
            curve=tuple(self.sizes),
            reached=(1,) * len(self.sizes),
        )


def requests_of(
    recording: Recording,
    policy: Policy,
    *,
    model: str | None = None,
    agents: Mapping[str, Agent] | None = None,
    refused: list[BudgetExceeded] | None = None,
) -> Iterator[tuple[int, Event, Compiled]]:
    """Each event that a model made, with its place and the request that led to it.

    A request that does not fit its budget is added to `refused`; without, it is an error.
    """
    known = agents if agents is not None else _made_up(recording)
    roots = {name: _seeing(root, policy) for name, root in known.items()}
    config = RunConfig(model=model or YARDSTICK)
    session = recording.session
    before: dict[tuple[str, str | None], Compiled] = {}
    grown = Session(session.id, state=session.initial)
    waiting: list[Event] = []
    for index, event in enumerate(session.events):
        if is_answer(event) and event.author in roots:
            grown = grown.append(*waiting)
            waiting = []
            asked = (event.author, event.branch)
            try:
                compiled = compile(
                    roots[event.author],
                    session=grown,
                    agent=event.author,
                    config=config,
                    branch=event.branch,
                )
            except BudgetExceeded as error:
                if refused is None:
                    raise
                refused.append(error)
            else:
                if asked in before:
                    compiled.follows(before[asked])
                yield index, event, compiled
                before[asked] = compiled
        waiting.append(event)


def is_answer(event: Event) -> bool:
    """Whether a model made the event, in a conversation that is its session's own."""
    content = event.content
    return (
        content is not None
        and content.role != "user"
        and event.author != "user"
        and not event.partial
        and not event.isolation_scope
    )


def speakers(session: Session) -> list[str]:
    """The agents whose answers a session holds, in the order they first spoke."""
    return list(dict.fromkeys(event.author for event in session.events if is_answer(event)))


def _made_up(recording: Recording) -> dict[str, Agent]:
    """Agents that have nothing but their recorded system text and their tools."""
    told = recording.instructions
    return {
        name: Agent(
            name,
            instruction=_literal(told.get(name, "")),
            tools=_tools(recording, name),
        )
        for name in speakers(recording.session)
    }


def _tools(recording: Recording, agent: str) -> list[Tool]:
    """The tools that were declared, and those that were called without, as providers want it."""
    declared = {tool.name for tool in recording.tools}
    called = _called(recording.session, agent)
    return [*recording.tools, *(tool for tool in called if tool.name not in declared)]


def _called(session: Session, agent: str) -> list[Tool]:
    """The tools that an agent called, as far as its calls tell."""
    found: dict[str, JsonObject] = {}
    for event in session.events:
        for call in event.calls if event.author == agent else ():
            name = call.name or ""
            if NAME.fullmatch(name) and name not in (*RESERVED, RECALL):
                held = found.setdefault(name, {})
                held.update({key: {"type": _type(one)} for key, one in (call.args or {}).items()})
    return [
        Tool(name=name, description="", parameters={"type": "object", "properties": held})
        for name, held in found.items()
    ]


def _type(value: Json) -> str:
    """The JSON type of a value; of one that is null, text."""
    kinds = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))
    named = next((name for kind, name in kinds if isinstance(value, kind)), "")
    return named or ("array" if isinstance(value, list) else "object" if value else "string")


def _seeing(root: Agent, policy: Policy) -> Agent:
    """The whole tree under one policy."""
    below = [
        _seeing(child, policy) if isinstance(child, Agent) else child for child in root.sub_agents
    ]
    return dataclasses.replace(root.sees(policy), sub_agents=tuple(below))


def _literal(text: str) -> str:
    """A text as an instruction that says just this: its braces are no variables."""
    written: list[str] = []
    for piece in parse(text).pieces:
        source = text[piece.start : piece.end]
        braces = isinstance(piece, Variable) or piece.text != source
        written.append(f"{{{source}}}" if braces and " " not in source else source)
    return "".join(written)


def _spent(compiled: Compiled, *, by_price: bool) -> _Spent:
    """What a request takes: by its provider's rules and prices, or by the yardstick.

    The yardstick reads again all that two requests begin with in common, and keeps the rest.
    """
    if by_price:
        cost, read = cost_of(compiled), compiled.cached
        return _Spent(read.total, read.cached, cost.total, cost.rates)
    tokens, cached = compiled.tokens, compiled.stable_prefix.tokens
    return _Spent(tokens, cached, RELATIVE.cost(Load(cached, tokens - cached, 0)), RELATIVE)


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    longest = max(len(one), len(other))
    padded = [held + (0,) * (longest - len(held)) for held in (one, other)]
    return tuple(a + b for a, b in zip(*padded, strict=True))
