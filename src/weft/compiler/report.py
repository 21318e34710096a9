"""The report of one compilation: frozen rows that can be printed, sent as JSON, or browsed.

A report is plain data. It knows nothing of how a request is compiled, only how to show what
`explain` found out about one.
"""

import json
import textwrap
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from textwrap import wrap
from typing import Literal, assert_never, cast

import msgspec

from weft.diagnostics import Diagnostic, Origin, safe
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    MediaBlock,
    OpaqueBlock,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.ir.block import FOLDED
from weft.values import Json, JsonObject, compact

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
    that the previous request had it too, in the same place, and `history` that it belongs to a
    turn before the current one.
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
    trust: str = "trusted"
    """Whose text had influence on it, as `trusted` or `untrusted read_file.result`."""


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
    trust: str = "trusted"
    """What the reply will carry: the join of the request."""

    @property
    def by_source(self) -> dict[Source, int]:
        """Tokens by where they go, in the order they are first met."""
        totals: dict[Source, int] = {}
        for row in self.sent:
            totals[row.source] = totals.get(row.source, 0) + row.tokens
        return totals

    def to_dict(self) -> JsonObject:
        """The whole report as JSON values; equal requests give equal ones."""
        # once through JSON, so that tuples are lists as in what is sent
        return cast("JsonObject", json.loads(json.dumps(msgspec.to_builtins(self))))

    def to_text(self, *, everything: bool = False) -> str:
        """Plain aligned text of at most 100 columns; `everything` shows all of a long history."""
        return report_text(self, everything=everything)

    def to_html(self) -> str:
        """One page that needs nothing but itself."""
        from weft.compiler.page import report_page

        return report_page(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from weft.compiler.page import report_fragment

        return report_fragment(self)


WIDTH = 100
"""Columns a report may take."""

HISTORY = 24
"""How many rows of settled history, and of anything else that can be long, are shown."""


def report_text(report: Report, *, everything: bool = False) -> str:
    """The whole report, section by section; empty sections are left out."""
    limit = None if everything else HISTORY
    lines = [*_header(report), "", *_passes(report.passes), "", *_write_sent_rows(report, limit)]
    if report.left_out:
        lines += ["", *_left_out(report.left_out, limit)]
    if report.options:
        lines += ["", "options"]
        lines += [option_line(row.name, row.value, str(row.origin)) for row in report.options]
    if report.inferred:
        facts = [line for fact in report.inferred for line in _wrap_text(safe(fact))]
        lines += ["", "inferred", *facts]
    if report.diagnostics:
        listed = report.diagnostics[:limit]
        lines += ["", "diagnostics"]
        lines += [line for one in listed for line in _wrap_text(safe(str(one)))]
        lines += _more(len(report.diagnostics) - len(listed))
    return "\n".join(line.rstrip() for line in lines)


def header_lines(report: Report) -> list[str]:
    """The header without its first line: tokens, hash, prefix."""
    sources = " · ".join(f"{name} {tokens:,}" for name, tokens in report.by_source.items())
    lead = " " * 11
    return [
        f"  tokens   {at_least(report)}{report.tokens:,}, {counter_words(report)}",
        *textwrap.wrap(uncounted_words(report), WIDTH, initial_indent=lead, subsequent_indent=lead),
        *textwrap.wrap(sources, WIDTH, initial_indent=lead, subsequent_indent=lead),
        f"  hash     {report.hash}",
        *(f"  {line}" for line in prefix_lines(report.prefix, report.tokens)),
        f"  {cached_line(report)}",
        *(f"  {line}" for line in cost_lines(report)),
        *trust_lines(report),
    ]


def trust_lines(report: Report) -> list[str]:
    """Whose text the reply will carry; nothing for a request of trusted text."""
    if report.trust == "trusted":
        return []
    words = f"this reply will carry: {report.trust}"
    lead = " " * 11
    lines = textwrap.wrap(words, WIDTH, initial_indent=lead, subsequent_indent=lead)
    return [f"  trust    {lines[0].strip()}", *lines[1:]]


def at_least(report: Report) -> str:
    """The words before a count that the provider adds to."""
    return "at least " if report.uncounted else ""


def uncounted_words(report: Report) -> str:
    """What the provider adds to the count; empty where it is all there is."""
    return f"unknown, what the provider adds for: {'; '.join(report.uncounted)}" * bool(
        report.uncounted
    )


def counter_words(report: Report) -> str:
    """How the tokens were counted."""
    if report.exact:
        return f"counted with {report.counter}"
    return f"estimated with {report.counter}, at most {round(report.margin * 100)}% more"


def prefix_lines(prefix: PrefixRow, tokens: int) -> list[str]:
    """What the request shares with the one before it, and what broke that."""
    if prefix.first:
        return ["prefix   first request of this agent in the session"]
    if prefix.problem:
        return [
            clip(f"prefix   unknown, the request before cannot be rebuilt: {prefix.problem}", 96)
        ]
    share = round(100 * prefix.tokens / tokens) if tokens else 0
    lines = [
        f"prefix   {prefix.tokens:,} tokens ({share}%, {prefix.turns:,} turns,"
        f" {prefix.bytes:,} bytes) as in the request before"
    ]
    if prefix.broken:
        lines.append(clip(f"         broken at {prefix.broken_at}: {prefix.broken}", 96))
        lines.append(
            clip(f"         by {prefix.broken_by}; {prefix.lost_tokens:,} tokens read again", 96)
        )
    return lines


def cached_line(report: Report) -> str:
    """What the provider is predicted to reuse, and what keeps it from more."""
    cached = report.cached
    share = round(100 * cached.tokens / cached.total) if cached.total else 0
    sure = "" if cached.exact or not cached.tokens else "about "
    line = f"cached   {sure}{cached.tokens:,} of {cached.total:,} tokens ({share}%) predicted"
    if cached.blame and not report.prefix.first:
        by = f" ({place_of(cached.origin)})" if cached.origin is not None else ""
        line += f": {cached.blame}{by}"
    return clip(safe(line), 96)


def cost_lines(report: Report) -> list[str]:
    """What the request costs, what the cache saves, and what a changed prefix costs."""
    lead = " " * 9
    return textwrap.wrap(report.cost.words, 87, initial_indent="cost     ", subsequent_indent=lead)


def option_line(name: str, value: object, origin: str) -> str:
    """One option, its value, and who set it."""
    return clip(f"  {name} = {clip(safe(compact(value)), 50)}   ({origin})", WIDTH)


def sent_cells(row: SentRow) -> tuple[str, str, str, str, str]:
    """A sent row as tokens, what, stability, origin, place."""
    what = f"{row.role} {row.kind}" if row.role else row.kind
    mark = "=" if row.shared else ""
    return f"{row.tokens:,}{mark or ' '}", what, row.stability, place_of(row.origin), row.pointer


def place_of(origin: Origin) -> str:
    """An origin as it fits a column: of a long event id, the beginning."""
    # ids of events are long, and their beginning tells them apart
    if origin.kind == "event" and len(origin.name) > 14:
        origin = msgspec.structs.replace(origin, name=f"{origin.name[:8]}…")
    return safe(str(origin))


def preview(text: str) -> str:
    """The text on one line."""
    # cut first: a text may have megabytes
    return safe(" ".join(text[:400].split()))


def clip(text: str, width: int, *, keep: str = "start") -> str:
    """The text cut to a number of columns, with an ellipsis where something is missing."""
    # the usual case: no character is wider than one column
    if len(text) <= width and text.isascii():
        return text
    if columns(text) <= width:
        return text
    characters = text if keep == "start" else text[::-1]
    taken: list[str] = []
    used = 1
    for char in characters:
        used += columns(char)
        if used > width:
            break
        taken.append(char)
    return "".join([*taken, "…"]) if keep == "start" else "".join([*taken, "…"])[::-1]


def align_rows(rows: Sequence[Sequence[str]], *, left_aligned: Collection[int]) -> Iterator[str]:
    """Rows of cells as lines; these columns stand to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if at in left_aligned else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


_CHARACTERS = 4096
"""Characters whose width is kept: the letters of a language are few."""


def columns(text: str) -> int:
    """How many columns the text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


@lru_cache(_CHARACTERS)
def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _wrap_text(text: str) -> Iterator[str]:
    """Lines that fit, two columns in, what continues a line further in."""
    # `textwrap` counts characters, and wide ones take two columns
    width = WIDTH if columns(text) == len(text) else WIDTH // 2
    for line in text.splitlines():
        lead = "  " + " " * (len(line) - len(line.lstrip()))
        yield from textwrap.wrap(
            line.strip(), width, initial_indent=lead, subsequent_indent=f"{lead}    "
        )


def _pad(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def _header(report: Report) -> Iterator[str]:
    yield clip(f"{report.agent} -> {safe(report.model)} ({report.dialect})", WIDTH)
    yield from header_lines(report)


def _passes(rows: Sequence[PassRow]) -> Iterator[str]:
    yield "passes               dropped  changed    added    moved   tokens of what it touched"
    for row in rows:
        counts = (row.dropped, row.changed, row.added, row.moved)
        cells = "".join(f"{count or '-':>9}" for count in counts)
        touched = f"{row.before:,} -> {row.after:,}" if row.acted and not row.remark else row.remark
        yield f"  {row.name:<17}{cells}   {touched}"


def _write_sent_rows(report: Report, limit: int | None) -> Iterator[str]:
    """Head rows and overheads always; of the history, the newest."""
    before, hidden, after = sent_view(report, limit)
    cells = [sent_cells(row) for row in (*before, *after)]
    widths = [
        min(most, max((columns(cell[at]) for cell in cells), default=0))
        for at, most in ((0, 12), (1, 14), (2, 9), (3, 26), (4, 24))
    ]
    shared = any(row.shared for row in report.sent)
    mark = "   (= shared with the request before)" if shared else ""
    yield f"sent, {report.tokens:,} tokens in {len(report.sent):,} rows{mark}"
    yield from (_sent_line(row, widths) for row in before)
    if hidden:
        yield f"  {hidden_words(hidden)}"
    yield from (_sent_line(row, widths) for row in after)


def sent_view(
    report: Report, limit: int | None
) -> tuple[Sequence[SentRow], Sequence[SentRow], Sequence[SentRow]]:
    """The sent rows as those before the hidden history, the hidden ones, and the rest.

    So many rows of earlier turns are shown, and as many of the current one, the newest of each.
    """
    rows = report.sent
    turns = [index for index, row in enumerate(rows) if row.source not in _APART]
    if limit is None:
        return rows, (), ()
    # rows of the current turn do not push out those of earlier ones
    newest = limit + min(limit, sum(not rows[index].history for index in turns))
    if len(turns) <= newest:
        return rows, (), ()
    first, rest = turns[0], turns[-newest]
    return rows[:first], rows[first:rest], rows[rest:]


_APART: tuple[Source, ...] = ("overhead", "tools", "schema", "system")
"""Rows that are not part of the conversation."""


def hidden_words(hidden: Sequence[SentRow]) -> str:
    """What stands for rows that are not shown."""
    tokens = sum(row.tokens for row in hidden)
    return f"...and {len(hidden):,} more of the history, {tokens:,} tokens (--all shows them)"


def _sent_line(row: SentRow, widths: Sequence[int]) -> str:
    tokens, what, stability, origin, pointer = sent_cells(row)
    line = (
        f"  {tokens:>{widths[0]}} {what:<{widths[1]}} {stability:<{widths[2]}}"
        f" {_pad(clip(origin, widths[3]), widths[3])}"
        f" {_pad(clip(pointer, widths[4], keep='end'), widths[4])} "
    )
    words = preview(row.text)
    if row.trust != "trusted":
        words = f"[{safe(row.trust)}] {words}"
    return line + clip(words, max(8, WIDTH - columns(line)))


def _left_out(rows: Sequence[LeftOutRow], limit: int | None) -> Iterator[str]:
    saved = sum(row.before - row.after for row in rows)
    yield f"left out or rewritten, {abs(saved):,} tokens {'fewer' if saved >= 0 else 'more'}"
    newest = rows if limit is None else rows[-limit:]
    folds = [row for row in rows if _is_fold(row)]
    for row in folds:  # each is said whole: what it costs, and what it saves
        yield from wrap(f"  {row.step}: {safe(row.reason)}", WIDTH, subsequent_indent="    ")
    newest = [row for row in newest if not _is_fold(row)]
    yield from _more(len(rows) - len(newest) - len(folds))
    for row in newest:
        line = f"  {row.step} {row.action} {place_of(row.origin)}: {safe(row.reason)}"
        cost = f"  {row.before:,} -> {row.after:,}"
        yield clip(line, WIDTH - len(cost)) + cost


def _is_fold(row: LeftOutRow) -> bool:
    return row.step == FOLDED.name and row.action == "added"


def _more(count: int) -> list[str]:
    return [f"  ...and {count:,} more (--all shows them)"] if count > 0 else []


def block_text(block: Block) -> str:
    """What a block says, as text a person can read."""
    match block:
        case TextBlock() | ThoughtBlock():
            return block.text
        case CallBlock():
            return f"{block.name}({compact(block.args)})"
        case ResultBlock():
            media = f" [+{len(block.media)} media]" if block.media else ""
            return f"{block.name} -> {compact(block.response)}{media}"
        case MediaBlock():
            content = (
                block.uri if block.uri is not None else f"{len(block.data or ''):,} base64 chars"
            )
            return f"{block.mime_type} {content}"
        case CodeBlock():
            return block.code
        case CodeResultBlock():
            return f"{block.outcome}: {block.output}"
        case OpaqueBlock():
            return compact(block.payload)
        case _:
            assert_never(block)


def block_kind(block: Block) -> str:
    """The kind of a block in one word."""
    if isinstance(block, ResultBlock) and block.synthetic:
        return "made-up"
    return "output" if isinstance(block, CodeResultBlock) else str(block.__struct_config__.tag)
