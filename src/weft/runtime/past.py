"""What the log has of one invocation, found by place; each event of it is read once."""

from collections.abc import Container, Sequence

from weft.runtime.place import Place, paths_around, place_of
from weft.runtime.progress import Progress, is_failure
from weft.session import Event
from weft.values import Strand


class Past:
    """The events of one invocation from `first` on, without those that were rewound."""

    def __init__(self, id: str, first: int, hidden: Container[int]) -> None:
        self._id = id
        self._hidden = hidden
        self._read = first
        self._events: list[Event] = []
        self._at: dict[tuple[str, str], list[Event]] = {}
        self._last: dict[str, Event] = {}

    def read(self, log: Strand[Event]) -> "Past":
        """Read on in the log."""
        for position, event in enumerate(log.since(self._read), self._read):
            if event.invocation_id == self._id and position not in self._hidden:
                place = place_of(event)
                self._events.append(event)
                self._at.setdefault((place.path, place.scope), []).append(event)
                for path in paths_around(place.path):
                    self._last[path] = event
        self._read = len(log)
        return self

    def events(self) -> list[Event]:
        """All of them."""
        return [*self._events]

    def at(self, place: Place) -> Sequence[Event]:
        """Those that were made at a place."""
        return self._at.get((place.path, place.scope), ())

    def failed_at(self, place: Place) -> bool:
        """Whether the last of a place, and of all below it, is a failure."""
        last = self._last.get(place.path)
        return last is not None and is_failure(last)

    def places(self) -> list[tuple[Place, Progress]]:
        """Every place that left something, and what that says of it."""
        return [(place_of(events[0]), Progress.of(events)) for events in self._at.values()]
