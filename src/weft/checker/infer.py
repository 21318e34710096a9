"""Inference: in `a >> b`, what `a` says is what `b` reads, where nothing else could be.

If `b` reads exactly one key that nothing produces, and `a` before it writes none, then `a` writes
that key (O3). It is a fact about the declaration and what is in the state to begin with.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from weft.checker.agents import writes_of
from weft.checker.near import close
from weft.checker.sites import Site
from weft.checker.walk import Walk
from weft.checker.world import World
from weft.declare import Agent, Node, Route, Sequence
from weft.declare.rebuild import rebuilt
from weft.declare.walk import walk_nodes
from weft.session.state import scope_of


def inferred_keys(node: Node, world: World) -> dict[str, str]:
    """By agent: the key that it writes though nobody said so, in this world to begin with."""
    found: dict[str, str] = {}
    while True:
        more = _more(with_keys(node, found), world)
        if not more:
            return found
        found.update(more)


def with_keys(node: Node, keys: Mapping[str, str]) -> Node:
    """The node whose agents write these keys."""
    if not keys:
        return node
    return rebuilt(
        node, lambda agent: agent.writes(keys[agent.name]) if agent.name in keys else agent
    )


def _more(node: Node, world: World) -> dict[str, str]:
    """Agents that must write a key, and the key; no key twice, as one writer may be enough."""
    pairs = list(_pairs(node))
    if not pairs:
        return {}
    walk = Walk(node)
    walk.run(world)
    sites: dict[int, list[Site]] = {}
    for site in walk.record.sites:
        sites.setdefault(id(site.node), []).append(site)
    found: dict[str, str] = {}
    for first, second in pairs:
        unknown = {key for site in sites.get(id(second), ()) for key in _unknown(site)}
        if len(unknown) == 1 and not unknown & {*found.values()}:
            found.setdefault(first.name, unknown.pop())
    return found


def _pairs(node: Node) -> Iterator[tuple[Agent, Node]]:
    """Every agent that writes nothing, with the agent or route that directly follows it."""
    for flow, _ in walk_nodes(node):
        if not isinstance(flow, Sequence):
            continue
        for first, second in zip(flow.steps, flow.steps[1:], strict=False):
            if not isinstance(first, Agent) or not isinstance(second, Agent | Route):
                continue
            if first.sub_agents or any(True for _ in writes_of(first)):
                continue
            yield first, second


def _unknown(site: Site) -> Iterable[str]:
    """The keys that a site reads and nothing can have written."""
    world = site.world
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
    """Whether it looks like a key that is there, and that the site does not read beside it."""
    others = [
        one
        for one in site.world.facts
        if one.rstrip("0123456789") != key.rstrip("0123456789")
        and all(read.key != one for read in site.reads)
    ]
    return bool(close(key, others, cutoff=0.8))


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
    """Whether a key is called like a name, an address or a number, which no whole answer is."""
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
