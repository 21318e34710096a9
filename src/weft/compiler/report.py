"""The report of one compilation: frozen rows that can be printed, sent as JSON, or browsed.

A report is plain data. It knows nothing of how a request is compiled, only how to show what
`explain` found out about one.
"""

import json
from typing import Literal, cast

import msgspec

from weft.diagnostics import Diagnostic, Origin
from weft.values import Json, JsonObject

Source = Literal[
    "system",
    "tools",
    "schema",
    "user",
    "model",
    "results",
    "foreign",
    "summary",
    "state",
    "overhead",
]
"""Where tokens go, coarsely: what the bar of the page is divided into."""

Action = Literal["dropped", "changed", "added", "moved"]
"""What was done to something that is not sent as it stands in the log."""


class PassRow(msgspec.Struct, frozen=True):
    """What one pass did: how many items, and the tokens of those before and after it."""

    name: str
    when: Literal["fresh", "request"]
    dropped: int = 0
    changed: int = 0
    added: int = 0
    moved: int = 0
    before: int = 0
    after: int = 0
    remark: str = ""

    @property
    def acted(self) -> bool:
        """Whether it did anything."""
        return bool(self.dropped or self.changed or self.added or self.moved or self.remark)


class Piece(msgspec.Struct, frozen=True):
    """A stretch of a row's text, up to `end`, and where it came from."""

    end: int
    origin: Origin


class SentRow(msgspec.Struct, frozen=True):
    """One thing that is sent and costs tokens: a block, a tool, the schema, or an overhead.

    `pointer` is its place in the request, empty where the dialect leaves it out; `shared` says
    that the previous request had it too, in the same place.
    """

    source: Source
    kind: str
    role: str
    tokens: int
    origin: Origin
    stability: str
    pointer: str
    text: str
    shared: bool = False
    history: bool = False
    pieces: tuple[Piece, ...] = ()


class LeftOutRow(msgspec.Struct, frozen=True):
    """One thing that was left out, rewritten, moved or made up, by which pass and why."""

    step: str
    action: Action
    reason: str
    origin: Origin
    before: int
    after: int
    text: str


class OptionRow(msgspec.Struct, frozen=True):
    """One generation option: its value, who set it, and where the request carries it."""

    name: str
    value: Json
    origin: Origin
    sent: bool
    pointer: str = ""


class PrefixRow(msgspec.Struct, frozen=True):
    """What the request shares with the one before it; `problem` where that is not known."""

    first: bool = True
    tokens: int = 0
    bytes: int = 0
    turns: int = 0
    broken: str = ""
    broken_at: str = ""
    broken_by: Origin | None = None
    lost_tokens: int = 0
    problem: str = ""


class CachedRow(msgspec.Struct, frozen=True):
    """How many tokens the provider has read before, as predicted, and why not more.

    `total` is the request as the provider is expected to count it.
    """

    tokens: int = 0
    total: int = 0
    possible: int = 0
    exact: bool = False
    blame: str = ""
    origin: Origin | None = None


class CostRow(msgspec.Struct, frozen=True):
    """What the request is predicted to cost without its answer, in US dollars.

    Where nobody knows the model's price, `money` is false and a fresh token costs 1. `cached` is
    paid for what is read again, `saved` what that saves, `broken` what a changed prefix costs
    now, `cliff` the number of tokens above which all of them cost more, if it has more.
    """

    total: float = 0.0
    cached: float = 0.0
    saved: float = 0.0
    broken: float = 0.0
    money: bool = False
    cliff: int = 0
    words: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one request; the tokens of `sent` add up to `tokens`."""

    agent: str
    model: str
    dialect: str
    tokens: int
    counter: str
    exact: bool
    margin: float
    hash: str
    prefix: PrefixRow
    cached: CachedRow
    cost: CostRow
    passes: tuple[PassRow, ...]
    sent: tuple[SentRow, ...]
    left_out: tuple[LeftOutRow, ...]
    options: tuple[OptionRow, ...]
    diagnostics: tuple[Diagnostic, ...]
    inferred: tuple[str, ...]
    uncounted: tuple[str, ...] = ()
    """What the provider adds that nobody else can count; then `tokens` is the least."""

    @property
    def by_source(self) -> dict[Source, int]:
        """Tokens by where they go, in the order they are first met."""
        totals: dict[Source, int] = {}
        for row in self.sent:
            totals[row.source] = totals.get(row.source, 0) + row.tokens
        return totals

    def to_dict(self) -> JsonObject:
        """The whole report as JSON values; equal requests give equal ones."""
        return cast("JsonObject", json.loads(json.dumps(msgspec.to_builtins(self))))

    def to_text(self, *, everything: bool = False) -> str:
        """Plain aligned text of at most 100 columns; `everything` shows all of a long history."""
        from weft.compiler.text import report_text

        return report_text(self, everything=everything)

    def to_html(self) -> str:
        """One page that needs nothing beside itself."""
        from weft.compiler.page import page

        return page(self)

    def __str__(self) -> str:
        return self.to_text()
