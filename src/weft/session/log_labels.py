"""The labels of a whole log: of all that it holds, and of keys and artifacts by last write."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec

from weft.session.event import Event, written_by
from weft.session.flow import NO_FLOW, TRUSTED, TrustLabel, flow_of, join_labels
from weft.session.strand import Strand, fold_log, skim_of


class WholeLabel(msgspec.Struct, frozen=True):
    """The label of all that a log says."""

    label: TrustLabel = TRUSTED

    def after(self, events: Sequence[Event], /) -> "WholeLabel":
        """The same once these events follow."""
        return WholeLabel(join_labels((self.label, *(flow_of(event).label for event in events))))


def label_of_log(log: Strand[Event]) -> TrustLabel:
    """The label of all that a log says."""
    return log.derive(WholeLabel).after(log.tail).label


class KeyLabels(msgspec.Struct, frozen=True):
    """The labels of state keys and artifacts, of their last write."""

    last: Mapping[str, TrustLabel] = {}
    has_fields: bool = False
    """Whether one of the keys has a dot in it, as a field of a key has."""

    def after(self, events: Sequence[Event], /) -> Self:
        """The same once these events follow."""
        last, has_fields = self.last, self.has_fields
        for event in events:
            actions = event.actions
            if not actions.state_delta and not actions.artifact_delta:
                # a branch, or the node that opens one, writes for the branch alone
                is_inside = event.branch is not None or actions.agent_state is not None
                if not is_inside or not event.is_noted:
                    continue
            written = written_by(event)
            if not written and not actions.artifact_delta:
                continue
            note = flow_of(event)
            last = {**last}
            for key in written:
                label = TRUSTED if note is NO_FLOW else note.of_key(key)
                # a branch writes for itself: who looks from elsewhere sees the value before
                joins = key not in actions.state_delta and key in last
                last[key] = last[key] | label if joins else label
                has_fields = has_fields or "." in key
                if has_fields:
                    inside = f"{key}."
                    for one in [one for one in last if one.startswith(inside)]:
                        del last[one]
            for key, label in (note.keys or {}).items():
                if key.partition(".")[0] in written:
                    has_fields = has_fields or "." in key
                    last[key] = label
            for name in actions.artifact_delta:
                has_fields = has_fields or "." in name
                last[f"artifact:{name}"] = note.of_key(f"artifact:{name}")
        return self if last is self.last else type(self)(last, has_fields)

    def of(self, names: Iterable[str]) -> TrustLabel:
        """The label of what was made from keys, `artifact:NAME`s or `memory`."""
        label = TRUSTED
        for name in names:
            one = self.of_name(name)
            if one is not TRUSTED:
                label |= one
        return label

    def of_name(self, name: str) -> TrustLabel:
        """The label of one of them, as it is now; `key.field` has one of its own or the key's."""
        while True:
            known = self.last.get(name)
            if known is not None:
                return known
            at = max(name.rfind("."), name.rfind("["))
            if at < 0 or name.startswith("artifact:"):
                break
            name = name[:at]
        if name == "memory":
            return _MEMORY
        if name.startswith("artifact:"):  # nobody in this session wrote it
            return TrustLabel((f"file:{name.removeprefix('artifact:')}",))
        if name.startswith(("user:", "app:")):
            return TrustLabel((f"state:{name}",))
        return TRUSTED


_MEMORY = TrustLabel(("memory",))


class _RecentLabels(KeyLabels, frozen=True):
    """The labels of keys that the beginning of a log, which nobody has read, did not write."""


def key_labels(log: Strand[Event], names: Iterable[str] = ()) -> KeyLabels:
    """The labels of these keys and artifacts; more of a log is not read than they need."""
    kind: type[KeyLabels] = KeyLabels
    if log.memo.get(KeyLabels) is None and (skim := skim_of(log)) is not None:
        known = skim.volatile | skim.produced | (skim.supplied or frozenset())
        keys = [one.partition(".")[0].partition("[")[0] for one in names]
        plain = bool(keys) and all(one not in known for one in keys)
        if plain and skim.supplied is not None:  # plain talk keeps no artifacts
            kind = _RecentLabels
    labels = fold_log(log, kind, lambda _: kind()) if kind is _RecentLabels else log.derive(kind)
    return labels.after(log.tail) if log.tail else labels
