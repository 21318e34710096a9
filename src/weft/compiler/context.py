"""What an instruction provider is handed: the state, the log and who is asked, read-only.

What a provider takes out of it and puts into its text is a value, never a template. So the
context knows what was looked at: the braces of those values are left alone.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar, cast

import msgspec

from weft.content import Content
from weft.session import Event
from weft.values import Json, Strand, require_object

Held = TypeVar("Held")


class Looked(Mapping[str, Held], Generic[Held]):
    """A mapping to read that knows which of its values were read."""

    __slots__ = ("_held", "named", "read")

    def __init__(self, held: Mapping[str, Held]) -> None:
        self._held = dict(held)
        self.read: set[str] = set()
        self.named = False

    def __getitem__(self, key: str) -> Held:
        value = self._held[key]
        self.read.add(key)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[str]:
        self.named = True
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def copy(self) -> dict[str, Held]:
        """All of it, as a plain dict."""
        return dict(self.items())

    def __or__(self, other: Mapping[str, Held]) -> dict[str, Held]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Held]) -> dict[str, Held]:
        return {**other, **self}

    def __repr__(self) -> str:
        return repr(self.copy())

    def texts(self) -> Iterator[str]:
        """Every text in the values that were read, and the keys if they were listed."""
        if self.named:
            yield from self._held
        for key in self.read:
            yield from _texts(self._held[key])


class ReadonlyContext:
    """What an instruction provider may look at: who is asked, the state, the log."""

    __slots__ = (
        "_artifacts", "_content", "_events", "_looked", "_state", "agent_name", "invocation_id"
    )  # fmt: skip

    def __init__(
        self,
        *,
        agent_name: str = "",
        state: Mapping[str, Json] | None = None,
        events: Strand[Event] | None = None,
        invocation_id: str = "",
        user_content: Content | None = None,
        artifacts: Mapping[str, str] | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.invocation_id = invocation_id
        self._state = Looked(state or {})
        self._artifacts = Looked(artifacts or {})
        self._events: Strand[Event] = events if events is not None else Strand()
        self._content = user_content
        self._looked: set[str] = set()

    @property
    def state(self) -> Mapping[str, Json]:
        """The state, to read."""
        return self._state

    @property
    def artifacts(self) -> Mapping[str, str]:
        """The newest text of each artifact."""
        return self._artifacts

    @property
    def events(self) -> Strand[Event]:
        """The log."""
        self._looked.add("events")
        return self._events

    @property
    def user_content(self) -> Content | None:
        """What the user said to start this invocation."""
        self._looked.add("user_content")
        return self._content

    def apart(self) -> "ReadonlyContext":
        """A copy whose state shares nothing with the session's, however deep one reaches in."""
        return ReadonlyContext(
            agent_name=self.agent_name,
            state=require_object(self._state, where="state"),
            events=self._events,
            invocation_id=self.invocation_id,
            user_content=self._content,
            artifacts=self._artifacts,
        )

    def texts(self) -> Iterator[str]:
        """Every text that was looked at, wherever it stood."""
        yield from self._state.texts()
        yield from self._artifacts.texts()
        if "user_content" in self._looked and self._content is not None:
            yield from _texts(cast("object", msgspec.to_builtins(self._content)))
        if "events" in self._looked:
            for event in self._events:
                yield from _texts(cast("object", msgspec.to_builtins(event)))


def _texts(value: object) -> Iterator[str]:
    """The texts in a JSON value, keys included: a provider may print either."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, held in cast("Mapping[str, object]", value).items():
            yield key
            yield from _texts(held)
    elif isinstance(value, list | tuple):
        for held in cast("list[object]", value):
            yield from _texts(held)
