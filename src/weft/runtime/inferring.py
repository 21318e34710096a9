"""Keys that agents of a flow write though nobody said so, for one session (O3).

What the application gives, to begin with or with a message, is not inferred. What agents wrote
in an earlier turn, or before a crash, does not switch it off.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from weft.checker.infer import inferred_keys, with_keys
from weft.checker.starting import declared_inputs, with_declared
from weft.checker.world import World, Writer
from weft.declare import Agent, Node, RunConfig
from weft.diagnostics import Origin
from weft.session import Session
from weft.values import Json

_ALONE = 0
"""Where it is kept what is inferred if the application gives nothing."""
_INPUTS = -1
"""Where it is kept what the root declares as its inputs."""
_GIVEN = Writer("the application", Origin("config", "state"), "input")


def inferred_root(
    root: Node,
    session: Session,
    config: RunConfig,
    state: Mapping[str, Json],
    made: dict[tuple[int, int], tuple[Node, object, Node]],
    declared: Mapping[str, object],
) -> Node:
    """The root as it runs in this session, with `state` given now and these inputs declared.

    It is the same one for the same inference, kept in `made`.
    """
    if isinstance(root, Agent) or not config.infer:
        return root
    first = made.get((id(root), _ALONE))
    if first is None or first[0] is not root:
        alone = inferred_keys(root, with_declared(World(), declared))
        first = made[id(root), _ALONE] = (root, alone, root)
    candidates = cast("dict[str, str]", first[1])
    if not candidates:
        return root
    told = {*state, *_given(session)}
    given = {key for key in candidates.values() if key in told}
    if given:
        world = with_declared(World(), declared)
        for key in given:
            world = world.wrote(key, _GIVEN)
        candidates = inferred_keys(root, world)
    if not candidates:
        return root
    wanted = frozenset(candidates.items())
    at = id(root), hash(wanted)
    held = made.get(at)
    if held is None or held[0] is not root or held[1] != wanted:
        held = made[at] = (root, wanted, with_keys(root, candidates))
    return held[2]


def inputs_of(
    root: Node, made: dict[tuple[int, int], tuple[Node, object, Node]]
) -> Mapping[str, object]:
    """The inputs that must be there when the root starts; worked out once, and kept in `made`."""
    known = made.get((id(root), _INPUTS))
    if known is None or known[0] is not root:
        known = made[id(root), _INPUTS] = (root, declared_inputs(root), root)
    return cast("Mapping[str, object]", known[1])


def _given(session: Session) -> Iterator[str]:
    """The keys that the application put into the session: to begin with, or with a message."""
    yield from session.initial
    for event in session.events:
        if event.author == "user":
            yield from event.actions.state_delta
