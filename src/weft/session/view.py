"""State as running code sees it: reads fall through to the session, writes become a delta."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import cast

from weft.errors import SessionError
from weft.values import Json, JsonObject, require_json


class State(MutableMapping[str, Json]):
    """A writable view of the state: what is written is kept apart, as a delta for an event.

    Reading gives a copy of a list or dict. One that is changed in place counts as written, so
    `state["seen"].append(x)` does what it says. Deleting leaves a tombstone, None.
    """

    __slots__ = ("_base", "_lent", "_written")

    def __init__(self, base: Mapping[str, Json] | None = None) -> None:
        self._base: Mapping[str, Json] = base if base is not None else {}
        self._written: JsonObject = {}
        self._lent: JsonObject = {}

    @property
    def delta(self) -> JsonObject:
        """What was written so far; None stands for a key that was deleted."""
        for key, lent in self._lent.items():
            if self._written.get(key, self._base.get(key)) != lent:
                self._written[key] = require_json(lent, where=f"state[{key!r}]")
        return self._written

    def rebase(self, base: Mapping[str, Json]) -> None:
        """Read from a newer state; what was written here stays on top."""
        self._base = base

    def __getitem__(self, key: str) -> Json:
        if key in self._lent:
            return self._lent[key]
        if key in self._written:
            value = self._written[key]
        elif key in self._base:
            value = self._base[key]
        else:
            raise KeyError(key)
        if value is None:
            raise KeyError(key)
        if isinstance(value, (dict, list)):
            value = self._lent[key] = require_json(value, where=f"state[{key!r}]")
        return value

    def __setitem__(self, key: str, value: Json) -> None:
        if not isinstance(cast("object", key), str) or not key:
            raise SessionError(
                f"{key!r} is not a state key", where="state", hint="keys are non-empty strings"
            )
        self._lent.pop(key, None)
        self._written[key] = require_json(value, where=f"state[{key!r}]")

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._lent.pop(key, None)
        self._written[key] = None

    def __contains__(self, key: object) -> bool:
        held = self._written if key in self._written else self._base
        return held.get(cast("str", key)) is not None

    def __iter__(self) -> Iterator[str]:
        for key, value in {**self._base, **self._written}.items():
            if value is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def to_dict(self) -> JsonObject:
        """All of it, as a plain dict."""
        return {key: self[key] for key in self}

    def __repr__(self) -> str:
        return f"State({self.to_dict()!r})"
