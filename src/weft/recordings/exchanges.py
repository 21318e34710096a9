"""Calls of models as they were recorded, and where each block of their requests comes from.

A log of calls holds every request with all that was said before it. Nothing is compiled to show
one: its body, its options and its answer are what stands in the file. Where a block comes from is
found by alignment with the requests before it and with their answers. A transcript holds messages
and no requests: there a request is what was said before its answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from weft.session import Usage
from weft.values import Json, JsonObject

SourceKind = Literal["system", "tool", "user", "answer", "result", "summary"]


@dataclass(frozen=True)
class BlockSource:
    """Where a block comes from: whose words, and the number of the call that brought it.

    `call` is the call whose answer it is, whose tool returned it, or in which it stood first; 0
    where it is older than the first recorded call. A block that stood in its place with another
    text `changed` in a call, and had the text `before`.
    """

    kind: SourceKind
    call: int
    tool: str = ""
    changed: int = 0
    before: str = ""

    def __str__(self) -> str:
        if self.changed:
            return f"{_WORDS[self.kind]}, changed in call {self.changed}"
        if self.kind == "answer":
            return f"answer of call {self.call}" if self.call else "answer before this recording"
        if self.kind == "result":
            of = f" of `{self.tool}`" if self.tool else ""
            return f"result{of}, called in call {self.call}" if self.call else f"result{of}"
        return f"{_WORDS[self.kind]}, new in call {self.call}"


_WORDS: Mapping[SourceKind, str] = {
    "system": "system text",
    "tool": "tool",
    "user": "user's words",
    "answer": "answer",
    "result": "result",
    "summary": "summary of what came before",
}


@dataclass(frozen=True)
class RecordedBlock:
    """One block of a recorded request: a text, a call, a result, a medium, a tool.

    `place` is where it stands: field and numbers of a body, or the id of an event. `kind` is that
    of a part, or `tool`.
    """

    place: str
    role: str
    kind: str
    text: str
    source: BlockSource
    event: str = ""
    """The event of the session that holds it; empty for system texts and tools."""
    part: int = -1
    """Which part of that event it is."""


@dataclass(frozen=True)
class ExchangeRecord:
    """One call of a model: the request, the answer, and what was recorded of both.

    `number` counts from 1 in its conversation. `body` is the request to the byte, None where the
    file holds messages and no requests. `event` is the id of the event that its answer is, empty
    where there is none. Times are seconds, None where the file has none.
    """

    number: int = 1
    event: str = ""
    dialect: str = ""
    model: str = ""
    body: JsonObject | None = None
    options: JsonObject = field(default_factory=dict[str, Json])
    tools: tuple[JsonObject, ...] = ()
    """As they were declared, hosted ones too."""
    answer: Json = None
    usage: Usage | None = None
    started: float | None = None
    ended: float | None = None
    first_token: float | None = None
    finish: str = ""
    error: str = ""
    status: int | None = None
    follows: str = ""
    """Of a call without an answer: the id of the last event of its request."""
    retries: int = 0
    """The call that it repeats, which failed or was not answered; 0 for a first try."""
    source: str = ""
    """The file, and the line or number in it."""
    agent: str = ""
    """The agent that asked, where the recorder names it."""
    parent: str = ""
    """The id of the span that it was made in."""
    trace: str = ""
    """The id of the trace that the span is in."""
    lane: str = ""
    """The scope of its events, where a recording holds several conversations; "" for the first."""
    cost: float | None = None
    """US dollars that the file says it cost; None where it says nothing, or 0."""
    blocks: tuple[RecordedBlock, ...] = ()
