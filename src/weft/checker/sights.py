"""What each agent will see: which channels, which keys and from whom, and how many tokens."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from weft.checker.check import inferred_keys, walk_flow, with_keys, world_at_start
from weft.checker.rules.requests import count, fixed_parts
from weft.checker.visibility import heard_by
from weft.checker.world import Read, Site, Writer
from weft.declare import Agent, Node
from weft.values import Json, JsonObject

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
    world = world_at_start(node, inputs)
    keys = inferred_keys(node, world) if infer else {}
    record = walk_flow(with_keys(node, keys), world)
    by_agent: dict[str, Sight] = {}
    for site in record.sites:
        agent = site.node
        if isinstance(agent, Agent):
            sight = _sight(agent, site, inferred=agent.name in keys)
            # an agent may stand in several places of a flow
            first = by_agent.get(agent.name)
            by_agent[agent.name] = sight if first is None else _united(first, sight)
    return list(by_agent.values())


def _sight(agent: Agent, site: Site, *, inferred: bool) -> Sight:
    limit = agent.policy.limit
    compressor = agent.token_budget
    budget = (limit.tokens if limit is not None else 0) or (
        compressor.token_budget if compressor is not None else 0
    )
    return Sight(
        agent=agent.name,
        user=agent.policy.view != "nothing",
        conversation=tuple(sorted(heard_by(agent, site.world))),
        keys=tuple(
            dict.fromkeys(_seen(site, read) for read in site.reads if read.how in _CHANNELS)
        ),
        writes=agent.output_key or "",
        inferred=inferred,
        tokens=sum(count(agent, text) for _, text in fixed_parts(agent)),
        budget=budget,
    )


def _seen(site: Site, read: Read) -> SeenKey:
    fact = site.world.facts.get(read.key)
    writers = tuple(dict.fromkeys(map(_named, fact.writers))) if fact else ()
    return SeenKey(read.key, _CHANNELS[read.how], writers, bool(fact and fact.must))


def _named(writer: Writer) -> str:
    """Who writes a key; of an input, whether the program itself declares it."""
    declared = writer.kind == "input" and writer.origin.name == "inputs"
    return f"{writer.name} (declared)" if declared else writer.name


def _united(one: Sight, other: Sight) -> Sight:
    """What an agent sees that stands in several places."""
    heard = tuple(sorted({*one.conversation, *other.conversation}))
    return one._replace(conversation=heard, keys=tuple(dict.fromkeys((*one.keys, *other.keys))))
