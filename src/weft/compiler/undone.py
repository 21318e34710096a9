"""What flows take out of view, or bring into it, after it was said.

A choice that failed, and the branches that lost a race, stay in the log; nobody who comes later
is to read them. The branch that won is read as if it had been no branch. The node that decides
this says so in its event, by the paths of the nodes it is about:

    {"undone": [path, ...]}                      what was said there is out of view
    {"joined": {"path": ..., "branch": ...}}     what was said there is no longer on that branch
"""

from collections.abc import Iterable

from weft.session import Event
from weft.values import JsonObject

_UNDONE = "its flow took it back"


def undoes(event: Event) -> bool:
    """Whether the event changes how earlier ones are seen."""
    weft = _weft(event)
    return "undone" in weft or "joined" in weft


def undone_by(event: Event) -> list[str]:
    """The paths of the nodes whose words the event takes back."""
    listed = _weft(event).get("undone")
    return [path for path in listed if isinstance(path, str)] if isinstance(listed, list) else []


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
            mine = (i for i in range(index) if _is_below(log[i], event, paths))
            hidden.update(dict.fromkeys(mine, _UNDONE))
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
            if _is_below(log[other], event, [path]) and f"{on}.".startswith(f"{branch}."):
                below = on[len(branch) + 1 :]
                found[other] = ".".join(name for name in (event.branch, below) if name)
    return found


def _is_below(event: Event, marker: Event, paths: list[str]) -> bool:
    """Whether the event was made in the marker's invocation and task, at or below a path."""
    if event.invocation_id != marker.invocation_id:
        return False
    path = event.node_info.get("path") if event.node_info is not None else None
    return isinstance(path, str) and any(
        path == above or path.startswith(f"{above}/") for above in paths
    )


def _weft(event: Event) -> JsonObject:
    weft = event.custom_metadata.get("weft") if event.custom_metadata is not None else None
    return weft if isinstance(weft, dict) else {}
