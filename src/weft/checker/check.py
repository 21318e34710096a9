"""`check`: walk a flow, and let every rule look at what the walk left. Nothing is run.

`sights` says after the same walk what each agent will see.

Top to bottom: the check, keys that agents write without saying so, the start of a program, sights.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from weft.checker.agents import speakers_visible_to, writes_of
from weft.checker.rules import RULES
from weft.checker.rules.requests import count, fixed_parts
from weft.checker.walk import APPLICATION, Walk, with_input
from weft.checker.world import Read, Site, Survey, WalkRecord, World, Writer
from weft.declare import Agent, Node, Route, Sequence
from weft.declare.compose import Composable
from weft.declare.config import ANYTHING, shape_of
from weft.declare.hints import VERB_WORDS
from weft.declare.visit import every_node, rebuild
from weft.diagnostics import Diagnostic, Findings, Origin, Severity, report
from weft.errors import UsageError, describe_kind
from weft.misuse import explain_calls, find_near
from weft.session.event import scope_of
from weft.values import Json, JsonObject

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@explain_calls("weft.check(agent)", words=VERB_WORDS)
def check(
    node: Node,
    /,
    *,
    inputs: Mapping[str, object] | Iterable[str] | None = None,
    allow: Iterable[str] = (),
    infer: bool = True,
) -> list[Diagnostic]:
    """What is wrong with an agent or a flow, the worst first; nothing is run.

    `inputs` are the state keys that are there when it starts, with their types where known;
    those that the program itself declares are there too.
    `allow` are codes to leave out everywhere; an agent's own `allow` holds for its findings.
    Without `infer`, an agent writes a key only if it says so.
    """
    require_node(node)
    return diagnose(node, inputs, allow=allow, infer=infer)


def diagnose(
    node: Node,
    inputs: Mapping[str, object] | Iterable[str] | None,
    *,
    allow: Iterable[str] = (),
    infer: bool,
) -> Findings:
    """The findings of `check` for a caller that surely passes a node."""
    return diagnose_walk(*walk_program(node, inputs, infer=infer), allow=allow)


def diagnose_walk(
    record: WalkRecord, keys: Mapping[str, str], *, allow: Iterable[str] = ()
) -> Findings:
    """The findings of a flow that was walked; `keys` are the inferred ones by agent."""
    allowed = set(allow)
    findings: dict[str, Diagnostic] = {}
    agents = {agent.name: agent for agent in record.survey.members}
    own = {name: set(agent.allow) for name, agent in agents.items()}
    for name, key in keys.items():
        one = _report_inferred(agents[name], key)
        if one.code not in allowed and one.code not in own.get(name, ()):
            findings[str(one)] = one
    for rule in RULES:
        for one in rule(record):
            if one.code not in allowed and one.code not in own.get(one.origin.agent, ()):
                # a node may stand in several places: each finding is told once
                findings.setdefault(str(one), one)
    return Findings(sorted(findings.values(), key=lambda one: _ORDER[one.severity]))


def walk_program(
    node: Node, inputs: Mapping[str, object] | Iterable[str] | None, *, infer: bool
) -> tuple[WalkRecord, dict[str, str]]:
    """The record of a walk from where the program starts, and the inferred keys by agent."""
    survey, world = Survey(node), _world_of(inputs)
    if survey.takes_inputs:
        world = with_declared(world, Walk(survey).run(world).inputs)
    # first: a key that an agent writes without saying so changes what every rule finds
    return _walk_inferred(survey, world) if infer else (Walk(survey).run(world), {})


def _report_inferred(agent: Agent, key: str) -> Diagnostic:
    name, origin = agent.name, Origin("field", "output_key", agent.name)
    # a whole answer in the place of a name is a likely mistake, so it has a code of its own
    if is_short(key) and not speaks_of(agent, key):
        return report(
            "WEFT116",
            origin,
            f"all that `{name}` says is taken for `{key}`: what follows it reads that key, and"
            " nothing else writes it",
            f'declare it: inputs={{"{key}": str}}, or write {name}.writes("{key}") if the answer'
            " is just that",
        )
    return report(
        "WEFT113",
        origin,
        f"`{name}` writes `{key}` to the state: what follows it reads that key, and nothing else"
        " writes it",
        f'say so: {name}.writes("{key}"), or switch it off: infer=False',
    )


def require_node(node: Node) -> None:
    """Refuse what is not a node."""
    if not isinstance(cast("object", node), Agent | Composable):
        raise UsageError(
            f"{describe_kind(node)} cannot be checked",
            where="check",
            hint="pass an Agent, or a flow such as a >> b",
        )


# --- keys that agents write without saying so


def inferred_keys(node: Node, world: World) -> dict[str, str]:
    """By agent: the inferred key that it writes, if the flow starts in this world."""
    survey = Survey(node)
    # most flows have nobody who could write one, and a run asks this of every flow
    if not any(_pairs(survey)):
        return {}
    return _walk_inferred(survey, world)[1]


def _walk_inferred(survey: Survey, world: World) -> tuple[WalkRecord, dict[str, str]]:
    """The record of the flow with inferred keys declared, and these keys by agent."""
    node, keys = survey.root, dict[str, str]()
    record = Walk(survey).run(world)
    # one inferred key may make another certain
    while more := _more(record):
        keys.update(more)
        record = Walk(Survey(with_keys(node, keys))).run(world)
    return record, keys


def with_keys(node: Node, keys: Mapping[str, str]) -> Node:
    """The node with these keys declared as written by its agents."""
    if not keys:
        return node
    return rebuild(
        node, lambda agent: agent.writes(keys[agent.name]) if agent.name in keys else agent
    )


def _more(record: WalkRecord) -> dict[str, str]:
    """Agents that must write a key, and the key. No key twice: one writer may be enough."""
    pairs = list(_pairs(record.survey))
    if not pairs:
        return {}
    sites: dict[int, list[Site]] = {}
    for site in record.sites:
        sites.setdefault(id(site.node), []).append(site)
    keys: dict[str, str] = {}
    for first, second in pairs:
        unknown = {key for site in sites.get(id(second), ()) for key in _list_unknown_keys(site)}
        # with two unknown keys nobody can say which of them the answer is
        if len(unknown) == 1 and not unknown & {*keys.values()}:
            keys.setdefault(first.name, unknown.pop())
    return keys


def _pairs(survey: Survey) -> Iterator[tuple[Agent, Node]]:
    """Every agent that writes nothing, with the agent or route that directly follows it."""
    for flow, _ in survey.nodes:
        if not isinstance(flow, Sequence):
            continue
        for first, second in zip(flow.steps, flow.steps[1:], strict=False):
            if not isinstance(first, Agent) or not isinstance(second, Agent | Route):
                continue
            # whoever hands over may not answer, and whoever writes a key means no other
            if first.sub_agents or any(True for _ in writes_of(first)):
                continue
            yield first, second


def _list_unknown_keys(site: Site) -> Iterable[str]:
    """The keys that a site reads and nothing can have written."""
    world = site.world
    # code that cannot be seen may have written it
    if world.opaque:
        return
    for read in site.reads:
        plain = scope_of(read.key) == "session" and not read.path
        needed = not read.optional or read.how == "route"
        known = read.key in world.facts or read.key in world.gone or read.key in site.siblings
        known = known or read.how not in ("template", "route")
        if plain and needed and not known and not _is_misspelt(read.key, site):
            yield read.key


def _is_misspelt(key: str, site: Site) -> bool:
    """Whether it looks like a key that is there, and that the site does not read as well."""
    others = [
        one
        for one in site.world.facts
        # `plan1` and `plan2` are not a slip
        if one.rstrip("0123456789") != key.rstrip("0123456789")
        and all(read.key != one for read in site.reads)
    ]
    return bool(find_near(key, others, cutoff=0.8))


# --- what a key and an instruction seem to be about

_SHORT = frozenset(
    (
        "account", "address", "age", "birthday", "city", "company", "country", "currency",
        "customer", "date", "day", "email", "firstname", "gender", "id", "ids", "iban", "key",
        "lang", "language", "lastname", "locale", "location", "login", "mail", "month", "name",
        "nickname", "number", "password", "phone", "pin", "place", "postcode", "region", "role",
        "street", "surname", "tenant", "time", "timezone", "today", "token", "url", "user",
        "userid", "username", "weekday", "year", "zip", "zipcode",
    )
)  # fmt: skip
"""Last words of keys that hold a short value: who, where, when, or which one."""

_ASKING = frozenset(("extract", "only", "just", "which", "what", "where", "who", "when", "pick"))
"""Words of an instruction that asks for one thing, and not for a text."""

_PEOPLE = frozenset(("company", "customer", "tenant", "user"))
"""Whom an instruction may be about, whatever it asks for."""


def is_short(key: str) -> bool:
    """Whether a key is named like a short value: a name, an address, a number."""
    words = _words(key)
    return bool(words) and words[-1] in _SHORT


def speaks_of(agent: Agent, key: str) -> bool:
    """Whether an agent seems to answer with just that: it is asked for it, or for one thing.

    Its name, instruction or description has the last word of the key in it, or the instruction is
    a question, or asks to take something out, and names no other short value.
    """
    if agent.output_schema is not None or not isinstance(agent.instruction, str):
        return True
    text = _words(agent.instruction)
    noun = _words(key)[-1]
    words = {*_words(agent.name), *text, *_words(agent.description)}
    if any(word.startswith(noun) or (len(word) > 3 and noun.startswith(word)) for word in words):
        return True
    asks = "?" in agent.instruction or not _ASKING.isdisjoint(text)
    return asks and _SHORT.isdisjoint({*text} - _PEOPLE)


def _words(text: str) -> list[str]:
    """The words of a text or a name, `user_name` and `userName` alike."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower().replace("e-mail", "email")
    return [word for word in re.split(r"[\W_]+", parted) if word]


# --- the world that a program starts in


def with_declared(world: World, inputs: Mapping[str, object]) -> World:
    """The world where these inputs are there too."""
    for key, declared in inputs.items():
        world = with_input(world, key, declared, Origin("field", "inputs"))
    return world


def declared_inputs(node: Node) -> dict[str, object]:
    """The inputs that must be there when the program starts, by key, with their types."""
    # most flows declare none, and a run asks this of every flow
    if not any(one.inputs for one in every_node(node)):
        return {}
    return Walk(Survey(node)).run(World()).inputs


def _world_of(inputs: Mapping[str, object] | Iterable[str] | None) -> World:
    """The world with the inputs that the caller of `check` names."""
    world = World()
    named = cast("object", inputs)
    if named is None:
        return world
    if isinstance(named, str) or not isinstance(named, Iterable):
        raise UsageError(
            f"inputs={named!r} names no keys", where="check", hint='write inputs={"topic": str}'
        )
    types: Mapping[str, object] = {}
    if isinstance(named, Mapping):
        types = cast("Mapping[str, object]", named)
    for key in cast("Iterable[str]", named):
        writer = Writer(APPLICATION, Origin("config", key), "input")
        declared = types.get(key)
        shape = None if declared in ANYTHING else shape_of(declared, where=f"inputs.{key}")
        world = world.with_write(key, writer, shape, is_carried=True)
    return world


# --- what each agent will see

_CHANNELS = {"template": "template", "policy": "state block", "tool": "tool"}


class SeenKey(NamedTuple):
    """A key that an agent is shown: through which channel, written by whom, and how sure."""

    key: str
    channel: str
    writers: tuple[str, ...]
    sure: bool


class Sight(NamedTuple):
    """What one agent will see."""

    agent: str
    user: bool
    """Whether it sees what the user said."""
    conversation: tuple[str, ...]
    """The agents whose words it sees."""
    keys: tuple[SeenKey, ...]
    writes: str
    inferred: bool
    """Whether the key that it writes was inferred."""
    tokens: int
    """What its instruction and tools take, values not counted."""
    budget: int
    """The most tokens that its policy allows; 0 where there is no such limit."""

    @property
    def headroom(self) -> int:
        """The tokens that are left for values and conversation."""
        return max(self.budget - self.tokens, 0)

    def to_dict(self) -> JsonObject:
        """The same as JSON."""
        keys: list[Json] = [
            {"key": one.key, "channel": one.channel, "writers": [*one.writers], "sure": one.sure}
            for one in self.keys
        ]
        return {
            "agent": self.agent,
            "user": self.user,
            "conversation": [*self.conversation],
            "keys": keys,
            "writes": self.writes or None,
            "inferred": self.inferred,
            "tokens": self.tokens,
            "budget": self.budget or None,
            "headroom": self.headroom if self.budget else None,
        }

    def __str__(self) -> str:
        whose = ["the user", *self.conversation] if self.user else [*self.conversation]
        lines = [self.agent, f"  conversation  {', '.join(whose) or 'nothing'}"]
        for one in self.keys:
            by = ", ".join(one.writers) or "nobody"
            lines.append(f"  {one.channel:<13} {one.key} from {by}{'' if one.sure else ', or not'}")
        if self.writes:
            lines.append(f"  writes        {self.writes}{' (inferred)' if self.inferred else ''}")
        room = f", of {self.budget}: {self.headroom} left" if self.budget else ""
        lines.append(f"  tokens        {self.tokens} fixed{room}")
        return "\n".join(lines)


def sights(
    node: Node,
    /,
    *,
    inputs: Mapping[str, object] | Iterable[str] | None = None,
    infer: bool = True,
) -> list[Sight]:
    """What each agent of a flow will see, in the order they are come to; nothing is run."""
    record, keys = walk_program(node, inputs, infer=infer)
    by_agent: dict[str, Sight] = {}
    for agent, site in record.agent_sites():
        sight = _make_sight(agent, site, inferred=agent.name in keys)
        # an agent may stand in several places of a flow
        first = by_agent.get(agent.name)
        by_agent[agent.name] = sight if first is None else _unite_places(first, sight)
    return list(by_agent.values())


def _make_sight(agent: Agent, site: Site, *, inferred: bool) -> Sight:
    limit = agent.policy.limit
    compressor = agent.token_budget
    budget = (limit.tokens if limit is not None else 0) or (
        compressor.token_budget if compressor is not None else 0
    )
    return Sight(
        agent=agent.name,
        user=agent.policy.facts.view != "nothing",
        conversation=tuple(sorted(speakers_visible_to(agent, site.world))),
        keys=tuple(
            dict.fromkeys(_seen_key(site, read) for read in site.reads if read.how in _CHANNELS)
        ),
        writes=agent.output_key or "",
        inferred=inferred,
        tokens=sum(count(agent, text) for _, text in fixed_parts(agent)),
        budget=budget,
    )


def _seen_key(site: Site, read: Read) -> SeenKey:
    fact = site.world.facts.get(read.key)
    writers = tuple(dict.fromkeys(map(_name_writer, fact.writers))) if fact else ()
    return SeenKey(read.key, _CHANNELS[read.how], writers, bool(fact and fact.must))


def _name_writer(writer: Writer) -> str:
    """Who writes a key; of an input, whether the program itself declares it."""
    declared = writer.kind == "input" and writer.origin.name == "inputs"
    return f"{writer.name} (declared)" if declared else writer.name


def _unite_places(one: Sight, other: Sight) -> Sight:
    """What an agent sees that stands in several places."""
    heard = tuple(sorted({*one.conversation, *other.conversation}))
    return one._replace(conversation=heard, keys=tuple(dict.fromkeys((*one.keys, *other.keys))))
