"""Keys that agents of a flow write though nobody said so, for one session (O3).

What the application gives, to begin with or with a message, is not inferred. What agents wrote
in an earlier turn, or before a crash, does not switch it off.
"""

from collections.abc import Mapping

from weft.checker.infer import inferred_keys, with_keys
from weft.checker.world import World, Writer
from weft.declare import Agent, Node, RunConfig
from weft.diagnostics import Origin
from weft.session import Session
from weft.values import Json

_GIVEN = Writer("the application", Origin("config", "state"), "input")


def inferred_root(
    root: Node,
    session: Session,
    config: RunConfig,
    state: Mapping[str, Json],
    made: dict[tuple[int, int], tuple[Node, object, Node]],
) -> Node:
    """The root as it runs in this session, with `state` given now.

    It is the same one for the same inference, kept in `made`.
    """
    if isinstance(root, Agent) or not config.infer:
        return root
    candidates = inferred_keys(root, World())
    if not candidates:
        return root
    given = {key for key in candidates.values() if key in state or _is_given(session, key)}
    if given:
        world = World()
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


def _is_given(session: Session, key: str) -> bool:
    """Whether the application put the key into the session: to begin with, or with a message."""
    return key in session.initial or any(
        event.author == "user" and key in event.actions.state_delta for event in session.events
    )
