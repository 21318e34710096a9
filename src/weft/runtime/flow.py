"""Labels in a run: what an event is labelled with when it is stored, and who may still call what.

An event gets the label of what it was made from: a reply that of the request that was sent, a
result that of its call and of what its tool says about its fields, what a function of the author's
wrote that of what the function was seen to read. A branch that was chosen by a tainted value taints
all that is made in it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from weft.declare import Agent
from weft.runtime.place import ROOT, Place, path_of, paths_around
from weft.runtime.run_log import RunLog
from weft.schema import of_type
from weft.session import Event
from weft.session.flow import (
    NO_FLOW,
    TRUSTED,
    USER_WORDS,
    FlowNote,
    TrustLabel,
    flow_in,
    join_labels,
    note_of,
    read_leaves,
)
from weft.session.log_labels import key_labels, label_of_log
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.declare import CallbackContext


ANYBODY = TrustLabel(("user",))
"""The label of a user whom nobody vouches for."""


class RunFlow:
    """The labels of a run that its log does not say: of branches, and of `temp:` keys."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._control: dict[str, TrustLabel] = {}
        """By path: what decided that the nodes below it run."""
        self._temp: dict[str, TrustLabel] = {}

    def of_names(self, names: Iterable[str]) -> TrustLabel:
        """The label of what was made from keys, artifacts (`artifact:NAME`), or the `session`."""
        listed = names if isinstance(names, tuple) else (*names,)
        if not listed:
            return TRUSTED
        events = self._log.session.events
        label = key_labels(events, listed).of(listed)
        if "session" in listed:
            label |= label_of_log(events)
        if self._temp:
            label |= join_labels(self._temp.get(name, TRUSTED) for name in listed)
        return label

    def of_context(self, context: "CallbackContext | None") -> TrustLabel:
        """The label of what a callback or a tool was seen to read."""
        if context is None:
            return TRUSTED
        label = self.of_names(context.state.reads)
        return label | self.of_user(ROOT) if USER_WORDS in context.state.reads else label

    def of_user(self, place: Place) -> TrustLabel:
        """The label of what the user said at a place, or whoever called the agent there."""
        asked = self._log.user_event(place)
        return asked.label if asked is not None else TRUSTED

    def decide(self, path: str, label: TrustLabel) -> None:
        """Say that what runs at a path, and below it, was chosen by what has a label."""
        if label is not TRUSTED:
            self._control[path] = self._control.get(path, TRUSTED) | label

    def join(self, path: str) -> None:
        """Say that the flow at a path has come together again: what follows is not of a branch."""
        self._control.pop(path, None)

    def of_failure(self, event: Event, place: Place) -> TrustLabel:
        """The label of a failure at a place: of its event, and of what was said there."""
        return event.label | self.below([place.path])

    def below(self, paths: Sequence[str]) -> TrustLabel:
        """The label of all that was said and done at some paths, and below them."""
        starts = tuple(f"{path}/" for path in paths)
        events = self._log.events()
        return join_labels(one.label for one in events if f"{path_of(one)}/".startswith(starts))

    def label_around(self, path: str) -> TrustLabel:
        """The label of all decisions that a path leads through."""
        if not self._control:
            return TRUSTED
        whole = self._control.get("", TRUSTED) if path else TRUSTED
        return whole | join_labels(self._control.get(one, TRUSTED) for one in paths_around(path))

    def recall(self, place: Place, path: str, *marks: str) -> None:
        """Take up the decisions that the log has of a place, for what runs at a path.

        Those of a flow stand under `marks`; a turn is handed over.
        """
        if not self._log.resumed:
            return
        for event in self._log.past.at(place):
            state = event.actions.agent_state or {}
            if event.actions.transfer_to_agent or any(mark in state for mark in marks):
                self.decide(path, event.label)

    def as_stored(self, event: Event) -> Event:
        """The event with the label of the branch it was made in; its `temp:` keys are kept here."""
        if self._control:  # few runs decide on untrusted text
            event = add_label(event, self.label_around(path_of(event)))
        for key in event.actions.state_delta:
            if key.startswith("temp:"):
                note = flow_in(event.custom_metadata)
                self._temp[key] = note.of_key(key) if note is not None else TRUSTED
        return event


def add_label(
    event: Event, label: TrustLabel, keys: Mapping[str, TrustLabel] | None = None
) -> Event:
    """The event with a label in addition to its own; `keys` have one of their own."""
    if label is TRUSTED and not keys:
        return event
    return add_note(event, msgspec.structs.replace(note_of(label), keys=dict(keys or {}) or None))


def add_note(event: Event, more: FlowNote) -> Event:
    """The event with what another note says in addition to its own."""
    if more == NO_FLOW:
        return event
    note = flow_in(event.custom_metadata)
    if note is not None:
        label = note.base | more.base
        keys = {key: one | more.base for key, one in (note.keys or {}).items()}
        words = {**(note.own_words or {}), **(more.own_words or {})}
        more = msgspec.structs.replace(
            more if more.results is not None else note,
            own_words=words or None,
            taint=label.taint,
            typed=label.typed,
            secrets=label.secrets,
            keys={**keys, **(more.keys or {})} or None,
        )
    return msgspec.structs.replace(event, custom_metadata=more.onto(event.custom_metadata))


# --- endorsing


def may_endorse(agent: Agent) -> bool:
    """Whether an agent's answer can pass on values alone: in a schema, and without tools."""
    alone = not agent.tools and not agent.tool_sources and not agent.sub_agents
    return agent.output_schema is not None and alone


def members_of(agent: Agent) -> frozenset[str]:
    """The texts of which an agent's schema says that nothing else may stand in their place."""
    schema = of_type(agent.output_schema, where=f"{agent.name}.output_schema")
    return frozenset(_members(schema))


def _members(schema: Json) -> Iterator[str]:
    if isinstance(schema, dict):
        named = schema.get("enum")
        listed = [*named] if isinstance(named, list) else []
        yield from (one for one in (*listed, schema.get("const")) if isinstance(one, str))
        for each in schema.values():
            yield from _members(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _members(each)


def free_names(value: Json, schema: Json) -> Iterator[str]:
    """The names in a value that its schema does not fix: who wrote the value chose them."""
    waiting, fixed = [value], frozenset(_property_names(schema))
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from (name for name in one if name not in fixed)
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one


def _property_names(schema: Json) -> Iterator[str]:
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        for each in schema.values():
            yield from _property_names(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _property_names(each)


def has_free_names(agent: Agent, value: Json) -> bool:
    """Whether an agent chose names in its answer, in which an order could stand."""
    schema = of_type(agent.output_schema, where=f"{agent.name}.output_schema")
    return any(True for _ in free_names(value, schema))


def endorse_answer(
    reply: Event, agent: Agent, delta: JsonObject, value: Json, keys: Mapping[str, TrustLabel]
) -> Event:
    """The answer of an agent without tools: of fields that are values only values are left."""
    note = flow_in(reply.custom_metadata) or NO_FLOW
    label, members = note.base, members_of(agent)
    if has_free_names(agent, value):
        return add_label(reply, TRUSTED, keys)
    labels = dict(keys)
    for key, written in delta.items():
        for name, inner in (written if isinstance(written, dict) else {}).items():
            labels[f"{key}.{name}"] = _label_of_value(inner, label, members)
        labels[key] = _label_of_value(written, label, members)
    whole = _label_of_value(value, label, members)
    note = FlowNote(whole.taint, whole.typed, whole.secrets, note.results, labels or None)
    return msgspec.structs.replace(reply, custom_metadata=note.onto(reply.custom_metadata))


def _label_of_value(value: Json, label: TrustLabel, members: frozenset[str]) -> TrustLabel:
    trusts = {leaf.trust for leaf in read_leaves(value, "untrusted", members)}
    return label if "untrusted" in trusts else label.as_typed()
