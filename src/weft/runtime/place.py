"""Where in a flow something runs: the key under which its events are found again."""

from collections.abc import Iterator
from typing import NamedTuple

from weft.session import Event
from weft.values import JsonObject


class Place(NamedTuple):
    """A node's path in the flow, its branch, and the tool call it runs inside, if any.

    A lone agent stands at the empty path, so that its events carry no more than they need.
    """

    path: str = ""
    branch: str = ""
    scope: str = ""

    def child(self, name: str, index: int | str) -> "Place":
        """The place of a node below this one."""
        step = f"{name}@{index}"
        return self._replace(path=f"{self.path}/{step}" if self.path else step)

    def branched(self, parallel: str, name: str) -> "Place":
        """The same place on a branch of its own, which no sibling sees."""
        below = f"{parallel}.{name}"
        return self._replace(branch=f"{self.branch}.{below}" if self.branch else below)

    @property
    def fork(self) -> str:
        """The name under which the log keeps what this branch writes for itself."""
        return f"{self.scope}/{self.branch}" if self.scope else self.branch

    @property
    def node_info(self) -> JsonObject | None:
        """The path as events carry it."""
        return {"path": self.path} if self.path else None

    def holds(self, event: Event) -> bool:
        """Whether the event was made at this place."""
        return path_of(event) == self.path and (event.isolation_scope or "") == self.scope


def is_below(path: str, other: str) -> bool:
    """Whether a path is the other one, or leads on from it."""
    return path == other or path.startswith(f"{other}/")


def paths_around(path: str) -> Iterator[str]:
    """A path, and those that it leads on from; the innermost first."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def path_of(event: Event) -> str:
    """The path of the node that made the event."""
    if event.node_info is None:
        return ""
    path = event.node_info.get("path")
    return path if isinstance(path, str) else ""


def place_of(event: Event) -> Place:
    """The place an event was made at."""
    return Place(path_of(event), event.branch or "", event.isolation_scope or "")
