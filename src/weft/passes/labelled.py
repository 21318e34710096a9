"""Labelled values: what carries a label by its place, and by which values it is known elsewhere.

Everything follows from the declarations and the log: the state keys, tools and artifacts that a
label is on, the keys and artifacts that labelled tools wrote, and all values these ever had.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from weft.declare.policy.transforms import Label
from weft.passes.copies import Copies, values_in
from weft.passes.env import Env
from weft.session import Event
from weft.session.forks import written_by
from weft.values import Json, Strand

_NO_LABELS: tuple[str, ...] = ()

_MOST = 100_000
"""How many things are remembered as clean."""


class Labelled(NamedTuple):
    """What carries labels, as names to labels, and the values that came from there."""

    keys: Mapping[str, tuple[str, ...]]
    tools: Mapping[str, tuple[str, ...]]
    artifacts: Mapping[str, tuple[str, ...]]
    names: frozenset[str]
    copies: Copies
    clean: dict[int, object]
    """Items and turns that were looked through and carry nothing, by their identity."""

    @property
    def all(self) -> tuple[Mapping[str, tuple[str, ...]], ...]:
        """All that depends on the session: the keys, the artifacts and the values."""
        return self.keys, self.artifacts, self.copies.values

    def is_clean(self, thing: object) -> bool:
        """Whether this very thing was looked through before."""
        return self.clean.get(id(thing)) is thing

    def found_clean(self, thing: object) -> None:
        """Remember that there is nothing in it; it must never change."""
        if len(self.clean) >= _MOST:
            self.clean.clear()
        self.clean[id(thing)] = thing

    def of_state(self, name: str) -> tuple[str, ...]:
        """The labels of a state key, or of a path into its value."""
        held = self.keys.get(name)
        if held is not None:
            return held
        for at, char in enumerate(name):
            if char in ".[" and (held := self.keys.get(name[:at])) is not None:
                return held
        return _NO_LABELS

    def of_event(self, event: Event) -> tuple[str, ...]:
        """The labels that were noted down with an event when it happened."""
        weft = (event.custom_metadata or {}).get("weft")
        noted = weft.get("labels") if isinstance(weft, dict) else None
        if not isinstance(noted, list):
            return _NO_LABELS
        return tuple(name for name in noted if isinstance(name, str) and name in self.names)


def withheld_from(env: Env, labels: tuple[Label, ...]) -> Labelled | None:
    """What the labels are on that the agent's model is not cleared for; None if it is for all."""
    hidden = tuple(label for label in labels if label.name not in env.cleared)
    if not hidden:
        return None
    whole = env.whole
    return labelled_in(
        hidden,
        whole.events if whole is not None else env.log,
        state=env.state,
        initial=whole.initial if whole is not None else {},
        artifacts=env.artifacts,
    )


class _Read(NamedTuple):
    """What the first `upto` events say: labels that were passed on, and values."""

    upto: int
    keys: dict[str, tuple[str, ...]]
    artifacts: dict[str, tuple[str, ...]]
    values: dict[str, tuple[str, ...]]


def labelled_in(
    labels: tuple[Label, ...],
    log: Strand[Event],
    *,
    state: Mapping[str, Json],
    initial: Mapping[str, Json],
    artifacts: Mapping[str, str],
) -> Labelled:
    """What the labels are on in this session; what was read of the log is kept with it."""
    tools = _named(labels, lambda label: label.tools)
    declared = _named(labels, lambda label: label.keys)
    files = _named(labels, lambda label: label.artifacts)
    read = _read(labels, tools, declared, log)
    keys = {**read.keys, **declared}
    named = {**read.artifacts, **files}
    values = dict(read.values)
    for held in (initial, state):
        for key, value in held.items():
            if key in keys:
                _take(values, value, keys[key], common=True)
    for name, text in artifacts.items():
        if name in named:
            _take(values, text, named[name], common=True)
    slot = ("labelled values", labels)
    kept = log.memo.get(slot)
    if (
        isinstance(kept, Labelled)
        and kept.copies.values == values
        and kept.keys == keys
        and kept.artifacts == named
    ):
        return kept
    names = frozenset(label.name for label in labels)
    made = Labelled(keys, tools, named, names, Copies(values), {})
    log.memo[slot] = made
    return made


def _read(
    labels: tuple[Label, ...],
    tools: Mapping[str, tuple[str, ...]],
    keys: Mapping[str, tuple[str, ...]],
    log: Strand[Event],
) -> _Read:
    """What the log says, from where it was read the last time."""
    slot = ("labelled", labels)
    held = log.memo.get(slot)
    known = held if isinstance(held, _Read) and held.upto <= log.settled else _Read(0, {}, {}, {})
    if known.upto == len(log):
        return known
    made = _Read(len(log), dict(known.keys), dict(known.artifacts), dict(known.values))
    for event in log.since(known.upto):
        _note(event, tools, keys, made)
    if log.settled == len(log):
        log.memo[slot] = made
    return made


def _note(
    event: Event,
    tools: Mapping[str, tuple[str, ...]],
    keys: Mapping[str, tuple[str, ...]],
    made: _Read,
) -> None:
    passed: set[str] = set()
    for result in event.results:
        if labels := tools.get(result.name or ""):
            passed.update(labels)
            _take(made.values, result.response, labels, common=False)
            made.artifacts[f"result-{result.id}.json"] = labels  # where a large one is kept
    labels = tuple(sorted(passed))
    for key, value in written_by(event).items():
        if labels:
            made.keys[key] = labels
        elif not event.partial:
            made.keys.pop(key, None)  # somebody else wrote it since
        if carried := keys.get(key, labels):
            _take(made.values, value, carried, common=True)
    if labels:
        made.artifacts.update(dict.fromkeys(event.actions.artifact_delta, labels))


def _take(
    values: dict[str, tuple[str, ...]], value: Json, labels: tuple[str, ...], *, common: bool
) -> None:
    for text in values_in(value, common=common):
        held = values.get(text, _NO_LABELS)
        if held != labels:
            values[text] = tuple(sorted({*held, *labels}))


def _named(
    labels: Iterable[Label], names: Callable[[Label], tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for label in labels:
        for name in names(label):
            found[name] = tuple(sorted({*found.get(name, ()), label.name}))
    return found
