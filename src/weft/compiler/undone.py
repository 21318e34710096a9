"""What flows take out of view, or bring into it, after it was said.

A choice that failed, and the branches that lost a race, stay in the log; nobody who comes later
is to read them. The branch that won is read as if it had been no branch. The node that decides
this says so in its event, by the paths of the nodes it is about:

    {"undone": [path, ...]}                      what was said there is out of view
    {"joined": {"path": ..., "branch": ...}}     what was said there is no longer on that branch

An answer that came in pieces is said once more as a whole, and the pieces are out of view:

    {"pieces": [event id, ...]}
"""

from collections.abc import Iterable

from weft.session import Event
from weft.session.waiting import is_undone, undone_by
from weft.values import JsonObject

_UNDONE = "its flow took it back"
_JOINED = "it is a piece of an answer that was put together"


def undoes(event: Event) -> bool:
    """Whether the event changes how earlier ones are seen."""
    weft = _weft(event)
    return "undone" in weft or "joined" in weft or "pieces" in weft


def gathered_by(event: Event) -> list[str]:
    """The keys of the lists of what was said on branches, as the end of a map writes them."""
    if event.custom_metadata is None or "closed" not in _weft(event):
        return []
    return [key for key, value in event.actions.state_delta.items() if isinstance(value, list)]


def hidden_by_undoing(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes of what flows took back, with the reason."""
    log = list(events)
    hidden: dict[int, str] = {}
    for index, event in enumerate(log):
        paths = undone_by(event) if event.custom_metadata is not None else []
        if paths:
            mine = (i for i in range(index) if is_undone(log[i], event, paths))
            hidden.update(dict.fromkeys(mine, _UNDONE))
        pieces = _weft(event).get("pieces") if event.custom_metadata is not None else None
        if isinstance(pieces, list):
            joined = (i for i in range(index) if log[i].id in pieces)
            hidden.update(dict.fromkeys(joined, _JOINED))
    return hidden


def joined_branches(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes of what was said on a branch that was joined, with the branch it is on now."""
    log = list(events)
    found: dict[int, str] = {}
    for index, event in enumerate(log):
        held = _weft(event).get("joined") if event.custom_metadata is not None else None
        path, branch = (
            (held.get("path"), held.get("branch")) if isinstance(held, dict) else ("", "")
        )
        if not isinstance(path, str) or not isinstance(branch, str) or not branch:
            continue
        for other in range(index):
            on = found.get(other, log[other].branch or "")
            if is_undone(log[other], event, [path]) and f"{on}.".startswith(f"{branch}."):
                below = on[len(branch) + 1 :]
                found[other] = ".".join(name for name in (event.branch, below) if name)
    return found


def _weft(event: Event) -> JsonObject:
    weft = event.custom_metadata.get("weft") if event.custom_metadata is not None else None
    return weft if isinstance(weft, dict) else {}
