"""Check a tree of google-adk's, and say what will happen when google-adk runs it.

There a value that is stored under a key is seen in the conversation too, a merging agent sees
what every branch said, and include_contents="none" after another agent hides the user's message.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from weft.checker import check
from weft.checker.walk import Walk
from weft.checker.world import Read, Site, Survey, WalkRecord, World, Writer
from weft.declare import Agent, Loop, Node, Parallel, agents_of
from weft.declare.agent import children
from weft.declare.visit import DefaultVisitor
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.interop.adk.agents import CALLBACKS, Imported, imported
from weft.misuse import join_few

FIELDS = {
    **{ours: theirs for theirs, ours in CALLBACKS.items()},
    "context": "include_contents",
    "generate_config": "generate_content_config",
    "max": "max_iterations",
    "steps": "sub_agents",
    "branches": "sub_agents",
    "body": "sub_agents",
}
"""Weft's names of fields, and google-adk's."""

UNLIKE = frozenset(("WEFT113", "WEFT206", "WEFT207", "WEFT208", "WEFT301", "WEFT302", "WEFT408"))
"""What is said here in another way, since google-adk shows agents something else than Weft; or
what its own programs leave out as a rule: descriptions, and ends of loops."""

HINTS = {"WEFT111": "let an agent after the ParallelAgent read it"}
"""What can be done in google-adk, where Weft's own hint is about its operators."""

ONCE = "run the tree with Weft, as from_adk(agent)"
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_READ = re.compile(r"`\{([^}?]+)\}`")
_WRITES = re.compile(r'(?:\w*)\.writes\("([^"]*)"\)')


class Seat(NamedTuple):
    """An agent's place: its branch, and whether it sees the words of agents before it."""

    branch: tuple[str, ...]
    sees_others: bool


def check_adk(
    agent: object,
    /,
    *,
    inputs: Mapping[str, object] | Iterable[str] | None = None,
    allow: Iterable[str] = (),
    plugins: Iterable[object] = (),
) -> list[Diagnostic]:
    """Check an agent, workflow or app of google-adk; the worst findings come first.

    `inputs` are the state keys that are there when it starts, `allow` codes to leave out. Nothing
    is run. Places are named by google-adk's own fields.
    """
    keys = inputs
    if inputs is not None and not isinstance(inputs, Mapping):
        keys = [*inputs]
    tree = imported(agent, plugins=plugins)
    left_out = {*allow}
    problems = [
        _as_read(one) for one in check(tree.node, inputs=keys, infer=False) if _is_like(one)
    ]
    problems += _own(tree, _record(tree.node, keys or ()))
    late = {*_late(tree.node)}
    problems = [_next_turn(one) if _find_reader(one) in late else one for one in problems]
    diagnostics = (*(_place_finding(one, tree) for one in problems), *_braces(tree), *tree.notes)
    distinct = _by_cause(one for one in diagnostics if one.code not in left_out)
    return sorted(distinct, key=lambda one: _ORDER[one.severity])


def _by_cause(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """One finding for one cause: a key that nobody writes, or one thing that is not looked into.

    It stands at the first place, and names the others.
    """
    first: dict[tuple[str, str], Diagnostic] = {}
    others: dict[tuple[str, str], list[str]] = {}
    for one in diagnostics:
        cause = one.code, _cause(one)
        known = first.setdefault(cause, one)
        at = str(one.origin)
        if known.origin != one.origin and at not in others.setdefault(cause, []):
            others[cause].append(at)
        if _ORDER[one.severity] < _ORDER[known.severity]:
            first[cause] = one
    merged: list[Diagnostic] = []
    for cause, one in first.items():
        more = [at for at in others.get(cause, ()) if at != str(one.origin)]
        words = f"{one.message}; also at {join_few(more)}" if more else one.message
        merged.append(msgspec.structs.replace(one, message=words))
    return merged


def _cause(one: Diagnostic) -> str:
    """The subject of a finding: two with the same subject count once, wherever they are."""
    read = _READ.search(one.message)
    if one.code == "WEFT105" and read is not None:
        return read[1]
    if one.code == "WEFT490":
        return one.message
    if one.code in ("WEFT106", "WEFT107", "WEFT111"):
        return str(one.origin)
    return str(one)


def _is_like(one: Diagnostic) -> bool:
    """Whether a finding holds for google-adk too, which fills in `{{ name }}`."""
    return one.code not in UNLIKE and not (one.code == "WEFT114" and "`{{" in one.message)


def _as_read(one: Diagnostic) -> Diagnostic:
    """A key that nobody reads is a note: what the agent says stays in the conversation."""
    if one.code != "WEFT112" or one.severity is Severity.INFO:
        return one
    message = one.message.partition(";")[0]
    return msgspec.structs.replace(
        one, severity=Severity.INFO, message=message, hint="read it, or leave it out"
    )


def _late(node: Node, above: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Agents in tools, each with a key that its caller writes when it has answered."""
    for agent in agents_of(node):
        yield from ((agent.name, key) for key in above)
        keys = (*above, agent.output_key) if agent.output_key else above
        for tool in agent.tools:
            if tool.agent is not None:
                yield from _late(tool.agent, keys)


def _find_reader(one: Diagnostic) -> tuple[str, str]:
    """The agent that reads what nobody before it writes, and the key."""
    read = _READ.search(one.message) if one.code == "WEFT105" else None
    return one.origin.agent, read[1] if read is not None else ""


def _next_turn(one: Diagnostic) -> Diagnostic:
    hint = f"it is there from the next turn on; write {{{_find_reader(one)[1]}?}} if it may lack"
    return msgspec.structs.replace(one, severity=Severity.INFO, hint=hint)


def _record(node: Node, keys: Iterable[str]) -> WalkRecord:
    world = World()
    for key in keys:
        world = world.with_write(key, Writer("the application", Origin("config", key), "input"))
    return Walk(Survey(node)).run(world)


def _own(tree: Imported, record: WalkRecord) -> Iterator[Diagnostic]:
    seats = _Seats(tree.unknown).visit(tree.node)
    for site in record.sites:
        agent = site.node
        if isinstance(agent, Agent) and agent.name in seats:
            yield from _seen_twice(site, agent, tree, seats)
            yield from _lost_message(site, agent, tree, seats[agent.name])
    for name in tree.endless:
        yield report(
            "WEFT404",
            Origin("field", "max_iterations", name),
            f"nothing in the loop `{name}` can end it, and it has no max_iterations",
            "set max_iterations, or give an agent in it the tool exit_loop",
        )


def _seen_twice(
    site: Site, agent: Agent, tree: Imported, seats: Mapping[str, Seat]
) -> Iterator[Diagnostic]:
    """Words of another agent that reach the model twice: in the instruction and as a turn."""
    if agent.name in tree.bare:
        return
    for read in site.reads:
        fact = site.world.facts.get(read.key)
        if read.how != "template" or fact is None or fact.soft:
            continue
        if site.world.opaque and not fact.must:
            continue
        for writer in fact.writers:
            spoke = seats.get(writer.name) if writer.kind == "agent" else None
            if spoke is None or writer.name == agent.name:
                continue
            if _sees(seats[agent.name].branch, spoke.branch):
                yield report(
                    "WEFT206",
                    read.origin,
                    f"what `{writer.name}` said reaches `{agent.name}` twice: as"
                    f" {{{read.key}}} and in the conversation",
                    f"leave the key out of the instruction; or {ONCE}, which sends it once",
                )


def _lost_message(site: Site, agent: Agent, tree: Imported, seat: Seat) -> Iterator[Diagnostic]:
    """An agent that sees only what was said after the agent before it, not the user's message."""
    if (
        agent.name not in tree.bare
        or not seat.sees_others
        or not isinstance(agent.instruction, str)
    ):
        return
    stands_for_it = any(_is_from_outside(read, site.world) for read in site.reads)
    yield report(
        "WEFT208",
        Origin("field", "include_contents", agent.name),
        f"the user's message does not reach `{agent.name}`: with"
        ' include_contents="none" it sees what was said since the agent before it spoke',
        f"read a key that holds the request; or {ONCE}, which keeps the message",
        severity=Severity.INFO if stands_for_it else None,
    )


def _is_from_outside(read: Read, world: World) -> bool:
    """Whether a key holds something that no agent said: the request may be in it."""
    fact = world.facts.get(read.key)
    return fact is None or any(writer.kind != "agent" for writer in fact.writers)


def _sees(reader: tuple[str, ...], speaker: tuple[str, ...]) -> bool:
    """Whether google-adk shows a reader what was said in a branch."""
    return not reader or not speaker or reader[: len(speaker)] == speaker


class _Seats(DefaultVisitor[dict[str, Seat]]):
    """Every agent that speaks in the conversation, with its place; a tool's does not.

    `before` are those who have spoken, with their branches. In an `unknown` flow nobody can say
    who speaks, and when.
    """

    __slots__ = ("_before", "_branch", "_unknown")

    def __init__(
        self,
        unknown: frozenset[str],
        branch: tuple[str, ...] = (),
        before: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self._unknown = unknown
        self._branch = branch
        self._before = before

    def visit(self, node: Node) -> dict[str, Seat]:
        return {} if node.name in self._unknown else super().visit(node)

    def visit_agent(self, node: Agent) -> dict[str, Seat]:
        others = (at for name, at in self._before.items() if name != node.name)
        seats = {node.name: Seat(self._branch, any(_sees(self._branch, at) for at in others))}
        for child in node.sub_agents:
            seats.update(self.visit(child))
        return seats

    def visit_parallel(self, node: Parallel) -> dict[str, Seat]:
        seats: dict[str, Seat] = {}
        for child in node.branches:
            branch = (*self._branch, node.name, child.name)
            seats.update(_Seats(self._unknown, branch, self._before).visit(child))
        return seats

    def visit_loop(self, node: Loop) -> dict[str, Seat]:
        before = self._before
        if node.max > 1:  # in a later round everybody in it has spoken
            speakers = _Seats(self._unknown, self._branch).visit(node.body)
            before = {**before, **_branches_of(speakers)}
        return _Seats(self._unknown, self._branch, before).visit(node.body)

    def visit_other(self, node: Node) -> dict[str, Seat]:
        seats: dict[str, Seat] = {}
        for child in children(node):
            before = {**self._before, **_branches_of(seats)}
            seats.update(_Seats(self._unknown, self._branch, before).visit(child))
        return seats


def _branches_of(seats: Mapping[str, Seat]) -> dict[str, tuple[str, ...]]:
    return {name: seat.branch for name, seat in seats.items()}


def _braces(tree: Imported) -> Iterator[Diagnostic]:
    """Braces that google-adk and Weft read differently."""
    written = {agent.output_key for agent in agents_of(tree.node) if agent.output_key is not None}
    for (agent, kind), spelling in tree.spellings.items():
        for move in spelling.doubled:
            yield report(
                "WEFT190",
                Origin("field", kind, agent, move.was, move.was_end),
                "doubled braces are not an escape in google-adk: the variable is filled in",
                "write single braces, or $ before them to keep them as text",
            )
        for move in spelling.paths:
            inside = spelling.source[move.was : move.was_end].strip("{} ")
            known = re.split(r"[.\[]", inside, maxsplit=1)[0] in written
            yield report(
                "WEFT190",
                Origin("field", kind, agent, move.was, move.was_end),
                f"google-adk fills in no path into a value: {{{inside}}} is sent as it is",
                "store the part under a key of its own",
                severity=Severity.WARNING if known else None,
            )


def _place_finding(one: Diagnostic, tree: Imported) -> Diagnostic:
    """The finding where google-adk's user looks for it, with a fix that can be typed there."""
    origin = one.origin
    spelling = tree.spellings.get((origin.agent, origin.name))
    if spelling is not None and origin.start >= 0:
        start, end = spelling.place(origin.start, origin.end)
        origin = msgspec.structs.replace(origin, start=start, end=end)
    if origin.kind == "field":
        origin = msgspec.structs.replace(origin, name=FIELDS.get(origin.name, origin.name))
    hint = HINTS.get(one.code) or _WRITES.sub(r'output_key="\1"', one.hint)
    hint = hint.replace(" check(", " check_adk(")
    return msgspec.structs.replace(one, origin=origin, hint=hint)
