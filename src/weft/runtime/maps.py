"""A map: its body runs once for each element, on a branch with a state of its own."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from weft.compiler.undone import hidden_by_undoing, joined_branches
from weft.declare import Map, Node, agents_of
from weft.declare.lookup import looked_up
from weft.errors import SchemaError
from weft.jsonschema import shorten
from weft.runtime.answer import parse
from weft.runtime.invocation import Invocation
from weft.runtime.lanes import Lanes, Runs, broke, completed
from weft.runtime.parallel import shelter_some
from weft.runtime.place import Place, is_below, path_of
from weft.runtime.record import Record, failed
from weft.runtime.signals import Suspended
from weft.session import Actions, Event, scope_of
from weft.values import Json, JsonObject, compact


async def run_map(
    invocation: Invocation, place: Place, node: Map, record: Record, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the body for each element, and keep the outputs together with that it ended."""
    count = record.state.get("items")
    if not isinstance(count, int):
        items = looked_up(node.items, invocation.state_at(place))
        if not isinstance(items, list):
            failure = await failed(
                invocation, place, node.name, "not_a_list", _no_list(node, items)
            )
            yield failure.event
            raise failure
        count = len(items)
        begun: JsonObject = {
            inner.fork: {node.item: value}
            for (inner, _), value in zip(
                _elements(invocation, place, node, count), items, strict=True
            )
        }
        opened = Actions(agent_state={"items": count})
        await invocation.commit(
            invocation.event(node.name, place, actions=opened, weft={"forks": begun})
        )
    nodes = _elements(invocation, place, node, count)
    collect = node.on_error == "collect"
    for inner, _ in nodes:
        invocation.fork(inner)
    if collect:
        shelter_some(invocation, [inner for inner, _ in nodes])
    lanes = Lanes(invocation, nodes, run_node, width=node.concurrency)
    async with aclosing(lanes.events(lambda task: not collect and broke(task))) as events:
        async for event in events:
            yield event
    failures = lanes.failures()
    if failures and not (collect and (lanes.waits or len(failures) < count)):
        raise failures[0]
    if lanes.waits:
        raise Suspended
    done = [inner for (inner, _), task in zip(nodes, lanes.tasks, strict=True) if completed(task)]
    delta: JsonObject = {}
    for inner in done:
        shared = invocation.own_state(inner)
        delta |= {k: v for k, v in shared.items() if scope_of(k) in ("app", "user")}
    outputs = _outputs(invocation, node, done)
    delta[node.into] = [outputs.get(inner.path) for inner, _ in nodes]
    actions = Actions(state_delta=delta, end_of_agent=True)
    closed = place.branched(node.name, "").fork.removesuffix(".")
    event = invocation.event(node.name, place, actions=actions, weft={"closed": closed})
    yield await invocation.commit(event)


def _elements(
    invocation: Invocation, place: Place, node: Map, count: int
) -> list[tuple[Place, Node]]:
    """The runs of the body, each at its place.

    Their branches are new in every invocation and round: elements have nothing to do with those
    that had their number before.
    """
    made = hashlib.blake2b(f"{invocation.id} {place.path}".encode(), digest_size=3).hexdigest()
    name = node.body.name
    return [
        (place.child(name, index).branched(node.name, f"{name}_{index + 1}_{made}"), node.body)
        for index in range(count)
    ]


def _outputs(invocation: Invocation, node: Map, places: Sequence[Place]) -> dict[str, Json]:
    """What each run said last, or, where it said nothing, what it wrote; by its path.

    What was said on branches of its own is not what it said.
    """
    events = invocation.events()
    undone, joined = hidden_by_undoing(events), joined_branches(events)
    paths = {inner.branch: inner.path for inner in places}
    spoken: dict[str, Event] = {}
    for index, event in enumerate(events):
        path = paths.get(joined.get(index, event.branch or ""))
        if path is None or index in undone or not is_below(path_of(event), path):
            continue
        own = event.author != "user" and (event.isolation_scope or "") == places[0].scope
        if own and event.text and not event.error_code and event.is_final_response():
            spoken[path] = event
    return {
        inner.path: _value(node, spoken[inner.path])
        if inner.path in spoken
        else _written(invocation, node, inner)
        for inner in places
    }


def _value(node: Map, said: Event) -> Json:
    """What was said: the parsed value where the agent has a schema, else the text."""
    for agent in agents_of(node.body):
        if agent.name == said.author and agent.output_schema is not None:
            try:
                return parse(agent, said.text, wrapped=True)[0]
            except SchemaError:
                break
    return said.text


def _written(invocation: Invocation, node: Map, place: Place) -> Json:
    """What a run wrote on its branch, without the element it began with."""
    own = invocation.own_state(place)
    return {
        key: value
        for key, value in own.items()
        if key != node.item and value is not None and scope_of(key) == "session"
    }


def _no_list(node: Map, found: Json) -> str:
    if found is None:
        return f"there is no `{node.items}` in the state to map over; write it upstream"
    kind = "text" if isinstance(found, str) else type(found).__name__
    return (
        f"`{node.items}` is no list but {kind}: {shorten(compact(found), 60)};"
        " make the agent that writes it return one: agent @ list[str]"
    )
