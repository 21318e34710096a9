"""The state of branches: which have one of their own, and what lasts as long as the run."""

from collections.abc import Mapping

import msgspec

from weft.runtime.place import Place, path_of, paths_around
from weft.runtime.run_log import RunLog
from weft.session import Event, Session, apply_delta
from weft.session.event import hold
from weft.session.lookback import facts_of
from weft.values import Json, JsonObject


class Forks:
    """Which branches have a state of their own, and the state that passes with the invocation."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._forks: dict[str, str] = {}
        """By path: the name of the fork that begins there."""
        self._temp: JsonObject = {}
        self._temps: dict[str, JsonObject] = {}

    def begin(self, place: Place) -> None:
        """Say that the branch of a place has a state of its own, below that path."""
        self._forks[place.path] = place.fork

    def as_stored(self, event: Event) -> Event:
        """The event as the log keeps it: without `temp:` state, and held on its branch."""
        delta = event.actions.state_delta
        if not delta:
            return event
        forks = self._forks_around(path_of(event)) if self._forks else ()
        passing: JsonObject = {}
        for key, value in delta.items():
            if key.startswith("temp:"):
                passing[key] = value
        if passing:
            # on a branch, None must stay: it hides the value of the branch around it
            if forks:
                self._temps[forks[-1]] = {**self._temps.get(forks[-1], {}), **passing}
            else:
                self._temp = {k: v for k, v in {**self._temp, **passing}.items() if v is not None}
            delta = {key: value for key, value in delta.items() if key not in passing}
            actions = msgspec.structs.replace(event.actions, state_delta=delta)
            event = msgspec.structs.replace(event, actions=actions)
        return hold(event, forks[-1], delta) if forks and delta else event

    def own_state(self, place: Place) -> JsonObject:
        """What was written on the branch of a place; None stands for a key that was deleted."""
        written = facts_of(self._log.session.events).forks.get(place.fork, {})
        return {**written, **self._temps.get(place.fork, {})}

    def state_at(self, place: Place) -> Mapping[str, Json]:
        """The state as it is seen from a place."""
        return self._state_in(self._log.session, place)

    def state_before(self, index: int, place: Place) -> Mapping[str, Json]:
        """The state as it was seen from a place before the event at `index` of the log."""
        return self._state_in(self._log.session.before(index), place)

    def _state_in(self, session: Session, place: Place) -> Mapping[str, Json]:
        names = self._forks_around(place.path) if self._forks else ()
        if not names:
            return {**session.state, **self._temp} if self._temp else session.state
        seen: Mapping[str, Json] = session.state
        forks = facts_of(session.events).forks
        for name in names:
            seen = apply_delta(seen, forks.get(name, {}))
        return apply_delta(seen, self.temp_at(place))

    def temp_at(self, place: Place) -> JsonObject:
        """The state that lasts as long as the invocation, as it is seen from a place."""
        seen = self._temp
        for name in self._forks_around(place.path) if self._forks else ():
            seen = apply_delta(seen, self._temps.get(name, {}))
        return seen

    def _forks_around(self, path: str) -> list[str]:
        """The branches with a state of their own that a path leads through, the outermost first."""
        return [self._forks[one] for one in paths_around(path) if one in self._forks][::-1]
