"""Explain: what a compilation did, as a report whose rows add up to the request.

Nothing is recomputed: passes left notes, blocks know their origin, the lowering knows where
each block stands. Here they are read together.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from weft.compiler.costs import cost_of, cost_words, premium_of
from weft.compiler.report import (
    Action,
    CachedRow,
    CostRow,
    LeftOutRow,
    OptionRow,
    PassRow,
    Piece,
    PrefixRow,
    Report,
    SentRow,
    Source,
    block_kind,
    block_text,
)
from weft.declare.config import shape_of
from weft.diagnostics import Origin
from weft.dialects import DIALECTS, Lowered, Placed
from weft.ir import Block, Item, Note, ResultBlock, TextBlock, ToolDecl
from weft.jsonschema import describe_expected
from weft.passes import names_of
from weft.passes.env import turn_numbers
from weft.passes.history import REPLACED
from weft.values import compact

if TYPE_CHECKING:
    from weft.compiler.caching import Ending
    from weft.compiler.compiled import Compilation

__all__ = ["Report", "explain"]

_MOVER = "pair_results"
"""The pass whose notes without an `after` mean that a result went to its call, or was replaced."""

_ASKED = {
    "native": "by the provider's own schema option",
    "tool": "through a tool that takes it",
    "text": "in the system text",
}


def explain(
    compiled: "Compilation",
    turns: "SentTurns | None" = None,
    noted_rows: "NotedRows | None" = None,
) -> Report:
    """The report of one request: a row a pass, a row a block, and why anything was left out.

    `turns` are the rows of its turns, if the caller has them already; `noted_rows` those of notes
    that other requests of the same agent and model had.
    """
    counter = compiled.scale.counter
    prefix = _prefix(compiled)
    turns = turns or SentTurns(compiled)
    sent = tuple(_list_sent_rows(compiled, prefix, turns.rows))
    sent_events = {row.origin.name for row in sent if row.origin.kind == "event"}
    known = noted_rows if noted_rows is not None else {}
    noted = [_note_rows(compiled, note, sent_events, known) for note in notes_of(compiled)]
    left_out = [row for rows in noted for row in rows]
    left_out += turns.unsaid.values()
    return Report(
        agent=compiled.prompt.agent,
        model=compiled.prompt.model,
        dialect=compiled.dialect,
        tokens=compiled.tokens,
        counter=counter.name,
        exact=counter.exact,
        margin=counter.margin,
        hash=compiled.hash,
        prefix=prefix,
        cached=_format_cached(compiled),
        cost=_cost(compiled),
        passes=tuple(_passes(compiled, noted)),
        sent=sent,
        left_out=tuple(left_out),
        options=tuple(_options(compiled)),
        diagnostics=compiled.diagnostics,
        inferred=tuple(_list_inferences(compiled)),
        uncounted=compiled.uncounted,
        trust=str(compiled.label),
    )


def _list_sent_rows(
    compiled: "Compilation", prefix: PrefixRow, turns: Sequence[SentRow]
) -> Iterator[SentRow]:
    """Rows in the order providers read a request: overheads, tools, schema, system, turns."""
    head = [*_tools(compiled, prefix), *_system(compiled, prefix)]
    fixed = list(_list_fixed_parts(compiled, prefix))
    # blocks are counted one by one: what is left over belongs to the turns around them
    rest = compiled.tokens - sum(row.tokens for row in (*fixed, *head, *turns))
    if rest:
        number = _turn_count(compiled)
        text = f"roles and limits of {number} turn{'' if number == 1 else 's'}"
        fixed.append(_overhead(compiled, rest, text))
    return iter((*head, *turns, *fixed))


def _list_fixed_parts(compiled: "Compilation", prefix: PrefixRow) -> Iterator[SentRow]:
    """What the provider adds to every request, to any tools, and to thinking."""
    shared = prefix.tokens > 0
    head = compiled.scale.head(compiled.lowered())
    for tokens, text in (
        (head.request, "the request itself"),
        (head.preamble, "the provider's preamble for tools"),
        (head.others, "the provider's own tools"),
    ):
        if tokens:
            yield _overhead(compiled, tokens, text, shared=shared)
    if head.thinking:
        yield _overhead(compiled, head.thinking, "thinking switched on")


def _overhead(compiled: "Compilation", tokens: int, text: str, *, shared: bool = False) -> SentRow:
    origin = Origin("dialect", compiled.dialect)
    return SentRow("overhead", "overhead", "", tokens, origin, "", "", text, shared)


def _tools(compiled: "Compilation", prefix: PrefixRow) -> Iterator[SentRow]:
    prompt, lowered = compiled.prompt, compiled.lowered()
    head = compiled.scale.head(lowered)
    shared = prefix.tokens > 0
    tools = weigh_tools(compiled)
    hosted = {tool.origin for tool in prompt.tools if tool.runs_at_provider}
    own = [p for p in lowered.placed if p.pointer.startswith("/tools/") and p.source in hosted]
    for placed in own:  # what they take is counted with the provider's own tools
        if isinstance(placed.source, Origin):
            name = placed.source.name
            text = f"{name}: the provider runs it"
            place = placed.pointer
            yield SentRow("tools", "tool", "", 0, placed.source, "static", place, text, shared)
    places = [
        p.pointer
        for p in lowered.placed
        if p.pointer.startswith("/tools/") and p.source not in hosted
    ]
    for index, (tool, tokens) in enumerate(tools):
        # a dialect may put all tools into one place: then none has a place of its own
        pointer = places[index] if len(places) == len(tools) else ""
        text = f"{tool.name}: {tool.description}\n{compact(tool.parameters)}"
        yield SentRow("tools", "tool", "", tokens, tool.origin, "static", pointer, text, shared)
    output = prompt.output
    if output is not None and output.how == "native":
        places = [
            placed.pointer
            for placed in lowered.placed
            if output.origin in (placed.source, *(block.origin for block in _blocks(placed)))
        ]
        yield SentRow(
            "schema",
            "schema",
            "",
            head.schema,
            output.origin,
            "static",
            places[-1] if places else "",
            f"{output.name}: {compact(output.schema)}",
            shared,
        )


def weigh_tools(compiled: "Compilation") -> list[tuple[ToolDecl, int]]:
    """The caller's tools that a request declares, each with its tokens.

    Those that the provider runs are counted together, and those that it reads only once the model
    has found them are not counted.
    """
    tools = [tool for tool in compiled.prompt.tools if not tool.runs_at_provider]
    sizes = compiled.scale.head(compiled.lowered()).tools
    read = [tool for tool in tools if not (tool.kept or {}).get("defer_loading")]
    read = read if len(read) == len(sizes) else tools[: len(sizes)]
    tokens = dict(zip((id(tool) for tool in read), sizes, strict=False))
    return [(tool, tokens.get(id(tool), 0)) for tool in tools]


def _system(compiled: "Compilation", prefix: PrefixRow) -> Iterator[SentRow]:
    """The system parts; each costs what it adds to the text before it, so that they add up."""
    prompt, scale = compiled.prompt, compiled.scale
    # the system text is shared only if the prefix covers all of the head
    shared = prefix.tokens > 0 and prefix.tokens >= scale.count_fixed(compiled.lowered())
    places = _system_places(compiled)
    text, counted = "", 0
    for block, pointer in zip(prompt.system, places, strict=True):
        text = f"{text}\n\n{block.text}" if text else block.text
        total = scale.counter.count(text)
        yield SentRow(
            "system",
            "text",
            "system",
            total - counted,
            block.origin,
            block.stability.name.lower(),
            pointer,
            block.text,
            shared,
            pieces=tuple(Piece(span.end, span.origin) for span in block.spans),
            trust=str(compiled.label_of(block)),
        )
        counted = total


class SentTurns:
    """The rows of a request's turns.

    Those of the request `before` are taken from it as far as they say the same: as far as both
    have the same first turns, `common` of them, which were shared with an earlier one then.
    """

    def __init__(
        self, compiled: "Compilation", before: "SentTurns | None" = None, common: int = 0
    ) -> None:
        items, lowered = compiled.prompt.items, compiled.lowered()
        numbers = turn_numbers(items)
        self.shared = _prefix(compiled).turns
        self.current = max(numbers, default=0)
        self.same = 0
        """How many rows are those of the request before."""
        if before is not None:
            self.same = before.first_changed(min(common, before.shared, self.shared), self.current)
        self._all = items.since(0)
        if before is not None and self.same:
            known = before._items[self.same - 1] + 1
            # equal turns need not come from equal items, and rows tell of items
            if before._all[:known] != self._all[:known]:
                self.same = 0
        same = self.same
        self.rows: list[SentRow] = before.rows[:same] if before is not None else []
        self._items: list[int] = before._items[:same] if before is not None else []
        self._turns: list[int] = before._turns[:same] if before is not None else []
        self.unsaid: dict[int, LeftOutRow] = {}
        """Blocks of the prompt that the dialect has no place for, by the place of their row."""
        if before is not None and same:
            self.unsaid = {at: row for at, row in before.unsaid.items() if at < same}
        first_item = self._items[-1] + 1 if same else 0
        # the last of these rows may have no turn
        first_turn = next((turn for turn in reversed(self._turns) if turn >= 0), 0)
        places = _places(lowered, first_turn)
        sizes = compiled.scale.blocks(self._all[first_item:], lowered, first_turn)
        for index, item in enumerate(self._all[first_item:], first_item):
            for block in item.blocks:
                turn, pointer = places.get(id(block), (-1, ""))
                row = SentRow(
                    source_of(item, block),
                    block_kind(block),
                    block.role,
                    sizes.get(id(block), 0),
                    block.origin,
                    block.stability.name.lower(),
                    pointer,
                    block_text(block),
                    0 <= turn < self.shared,
                    numbers[index] < self.current,
                    trust=str(compiled.label_of(block)),
                )
                if block.role in ("user", "model") and not pointer:
                    self.unsaid[len(self.rows)] = _unsaid_row(compiled, row)
                self.rows.append(row)
                self._items.append(index)
                self._turns.append(turn)
        self._numbers = numbers

    def first_changed(self, turns: int, current: int) -> int:
        """The first row that may differ in a request with the same first turns.

        It is the first of its item: items are told anew as a whole. A block that the dialect has
        no place for has none in that request either, if a row after it stands in those turns.
        """
        numbers, same = self._numbers, 0
        for place, (turn, item) in enumerate(zip(self._turns, self._items, strict=True)):
            if turn >= turns or (current != self.current and numbers[item] == self.current):
                break
            if turn >= 0:
                same = place + 1
        if same < len(self.rows):
            while same and self._items[same - 1] == self._items[same]:
                same -= 1
        return same


def _places(lowered: Lowered, first: int = 0) -> dict[int, tuple[int, str]]:
    """By block: the turn it stands in and its pointer. Blocks are the prompt's own objects."""
    lead = len(lowered.lead)
    places: dict[int, tuple[int, str]] = {}
    for turn, entry in enumerate(lowered.entries.since(first), first):
        above = f"/{lowered.turns}/{turn + lead}"
        for suffix, block in (*entry.blocks, *(("/content", one) for _, one in entry.joined)):
            places.setdefault(id(block), (turn, above + suffix))
    return places


def _blocks(placed: Placed) -> tuple[TextBlock, ...]:
    """The system blocks at a place; a dialect may put a schema among them."""
    return () if isinstance(placed.source, Origin) else placed.source


def _system_places(compiled: "Compilation") -> list[str]:
    """The pointer of each system block; empty where the dialect leaves it out.

    Requests with equal heads share one lowered head. It was made of the blocks of the first of
    them, and a template is filled in anew for each request: so blocks are found by their number.
    """
    lowered = compiled.lowered()
    places = {id(block): place.pointer for place in lowered.placed for block in _blocks(place)}
    return [places.get(id(block), "") for block in lowered.head.of.system]


def source_of(item: Item, block: Block) -> Source:
    """Where the tokens of a block go, coarsely."""
    if isinstance(block, ResultBlock):
        return "results"
    if item.kind == "system":
        return "system"
    if item.kind == "foreign":
        return "foreign"
    if item.kind in ("summary", "state"):
        return item.kind
    return "model" if block.role == "model" else "user"


def _turn_count(compiled: "Compilation") -> int:
    turns = compiled.lowered().wire[compiled.lowered().turns]
    return len(turns) if isinstance(turns, list) else 0


def notes_of(compiled: "Compilation") -> Iterator[Note]:
    """All notes: those on the log in its order, however often it was compiled on the way."""
    yield from compiled.log_notes
    for step in compiled.steps:
        yield from step.notes


class NotedRow(NamedTuple):
    """The rows of a note, with its events, and those of them that were sent.

    The note is kept: its id is not given to another.
    """

    note: Note
    events: AbstractSet[str]
    sent: AbstractSet[str]
    rows: list[LeftOutRow]


NotedRows = dict[int, NotedRow]
"""The rows of notes by the id of the note."""


def _note_rows(
    compiled: "Compilation", note: Note, sent_events: AbstractSet[str], known: NotedRows
) -> list[LeftOutRow]:
    """The rows of a note: the same in every request that sends the same of its events."""
    entry = known.get(id(note))
    if entry is not None and entry.events & sent_events == entry.sent:
        return entry.rows
    events = {one.origin.name for one in note.before.blocks if one.origin.kind == "event"}
    rows = _left_out(compiled, note, sent_events)
    known[id(note)] = NotedRow(note, events, events & sent_events, rows)
    return rows


def _left_out(
    compiled: "Compilation", note: Note, sent_events: AbstractSet[str]
) -> list[LeftOutRow]:
    """The row of a note, and one for each further event of its item that is not sent.

    A call and its results are one item, and each is an event of its own.
    """
    before, after = _weight(compiled, note.before), _weight(compiled, note.after)
    action: Action = "dropped"
    item = note.before
    if note.after is not None and (_made_up(note.after) or note.after.kind == "system"):
        action, item, before = "added", note.after, 0
    elif note.after is not None:
        action = "changed"
    elif note.step == _MOVER and note.reason != REPLACED:
        # a late result stands at its call now: nothing is lost
        action, after = "moved", before
    rows: list[LeftOutRow] = []
    pieces = [item] if action == "added" else _by_event(item, sent_events)
    for piece in reversed(pieces):
        # the first one has what is not the others' alone
        size = before - sum(row.before for row in rows)
        if piece is not pieces[0]:
            size = min(size, _weight(compiled, piece))
        presented = compiled.presentable(piece) if compiled.presentable is not None else piece
        text, origin = _item_text(presented), piece.origin
        remains = after if piece is pieces[0] else 0
        rows.append(LeftOutRow(note.step, action, note.reason, origin, size, remains, text))
    return rows[::-1]


def _by_event(item: Item, sent_events: AbstractSet[str]) -> list[Item]:
    """The item in pieces: those of its blocks that came from further events, which are not sent."""
    others: dict[str, list[Block]] = {}
    for block in item.blocks:
        origin = block.origin
        if origin.kind == "event" and origin.name != item.event and origin.name not in sent_events:
            others.setdefault(origin.name, []).append(block)
    if not others:
        return [item]
    own = tuple(block for block in item.blocks if block.origin.name not in others)
    return [
        replace(item, blocks=own),
        *(replace(item, blocks=tuple(blocks), event=name) for name, blocks in others.items()),
    ]


def _unsaid_row(compiled: "Compilation", row: SentRow) -> LeftOutRow:
    """The row of a block that the dialect has no place for."""
    reason = f"{compiled.dialect} does not take it back"
    size = compiled.scale.counter.count(row.text)
    return LeftOutRow("lower", "dropped", reason, row.origin, size, 0, row.text)


def _weight(compiled: "Compilation", item: Item | None) -> int:
    return compiled.scale.item(item) if item is not None and item.blocks else 0


def _made_up(item: Item) -> bool:
    return bool(item.blocks) and item.blocks[0].origin.kind == "pass"


def _item_text(item: Item) -> str:
    return "\n".join(block_text(block) for block in item.blocks)


_EXAMPLES = "insert_examples"
"""The pass that adds turns, and has no note on them."""


def _passes(compiled: "Compilation", rows: Sequence[list[LeftOutRow]]) -> Iterator[PassRow]:
    by_step: dict[str, list[list[LeftOutRow]]] = {}
    for one in rows:
        by_step.setdefault(one[0].step, []).append(one)
    for name in names_of(compiled.passes.fresh):
        yield _pass_row(name, "fresh", by_step.get(name, ()), changed=False)
    changed = {step.name for step in compiled.steps if step.head or step.name == _EXAMPLES}
    for name in names_of(compiled.passes.request):
        yield _pass_row(name, "request", by_step.get(name, ()), changed=name in changed)


def _pass_row(name: str, when: str, items: Sequence[list[LeftOutRow]], *, changed: bool) -> PassRow:
    """What one pass did, from the rows of its notes."""
    own = [row for one in items for row in one]
    counts = Counter([one[0].action for one in items])
    return PassRow(
        name,
        "fresh" if when == "fresh" else "request",
        dropped=counts["dropped"],
        changed=counts["changed"],
        added=counts["added"],
        moved=counts["moved"],
        before=sum(row.before for row in own),
        after=sum(row.after for row in own),
        # a pass with rows of its own needs no words
        remark=_remark(name) if changed and not own else "",
    )


def _remark(name: str) -> str:
    """What a pass did that changed no item."""
    if name == _EXAMPLES:
        return "put the examples before the conversation"
    if name == "order_system":
        return "put the system parts in another order"
    return "changed the system text, the tools or the options"


def _prefix(compiled: "Compilation") -> PrefixRow:
    """What is shared with the request before; that one may be impossible to rebuild."""
    if compiled.previous is None:
        problem = compiled.previous_problem
        return PrefixRow(first=not problem, problem=problem)
    shared, broken = compiled.stable_prefix, compiled.prefix_break
    row = PrefixRow(False, shared.tokens, shared.bytes, shared.turns)
    if broken is None:
        return row
    line = f", line {broken.line}" if broken.line else ""
    return PrefixRow(
        False,
        shared.tokens,
        shared.bytes,
        shared.turns,
        broken.reason,
        f"{broken.pointer}{line}",
        broken.origin,
        broken.lost_tokens,
    )


def _format_cached(compiled: "Compilation") -> CachedRow:
    prediction = compiled.cached
    return CachedRow(
        prediction.cached,
        prediction.total,
        prediction.possible,
        prediction.exact,
        prediction.blame,
        prediction.origin,
    )


def _cost(compiled: "Compilation") -> CostRow:
    cost = cost_of(compiled)
    return CostRow(
        cost.total,
        cost.cached,
        cost.saved,
        cost.broken,
        cost.rates.money,
        cost.cliff,
        cost_words(cost),
    )


def _options(compiled: "Compilation") -> Iterator[OptionRow]:
    prompt = compiled.prompt
    dialect = DIALECTS[compiled.dialect]
    for name, value in prompt.config.items():
        place = dialect.option(name, prompt)
        sent = place is not None
        if name == "extra":
            # `extra` holds options by dialect: those of another are not sent
            sent = isinstance(value, dict) and compiled.dialect in value
        yield OptionRow(
            name,
            value,
            prompt.config_origins.get(name, Origin("config", name)),
            sent,
            place.pointer if place is not None else "",
        )


def _ending_words(compiled: "Compilation", ending: "Ending") -> str:
    """Why not all of a request is to be kept, and what that saves, or costs if it was wrong."""
    rates, premium = cost_of(compiled).rates, premium_of(compiled)
    what = "its head" if ending.keeps == "head" else "what the request before kept"
    words = f"this request is likely the last: {ending.reason}; only {what} is to be kept"
    # below the provider's minimum nothing is kept in any case
    if not premium:
        return f"{words}, and it is too short for that to save anything"
    rest = premium / (rates.write - rates.fresh) * (rates.fresh - rates.read)
    return (
        f"{words}, which saves {rates.worth(premium)},"
        f" and costs {rates.worth(rest)} if one follows in time"
    )


def _list_inferences(compiled: "Compilation") -> Iterator[str]:
    """What nobody wrote down and the compiler worked out."""
    prompt, counter = compiled.prompt, compiled.scale.counter
    yield f"the model `{prompt.model}` is spoken to in {compiled.dialect}"
    for key, declared in compiled.plan.inputs.items():
        shape = shape_of(declared, where=f"inputs.{key}")
        kind = f", {describe_expected(shape)}" if shape is not None else ""
        yield f"the state key `{key}` is declared as an input{kind}"
    if not counter.exact:
        yield (
            f"tokens are estimated with {counter.name};"
            f" count on at most {round(counter.margin * 100)}% more"
        )
    if prompt.output is not None:
        wrapped = ", under `result`" if prompt.output.wrapped else ""
        yield f"the answer's schema is asked for {_ASKED[prompt.output.how]}{wrapped}"
    if compiled.woven.skipped:
        yield f"the policy leaves out {compiled.woven.skipped} events before the current turn"
    cache = compiled.plan.target.facts.cache
    if prompt.cache:
        ttl = prompt.cache if prompt.cache != "on" else "".join(cache.ttls[:1])
        yield f"the provider is asked to keep what it reads{f' for {ttl}' if ttl else ''}"
    if compiled.ending is not None:
        yield _ending_words(compiled, compiled.ending)
    volatile = [block for block in prompt.system if block.stability.name == "TURN"]
    if volatile:
        names = ", ".join(dict.fromkeys(str(block.origin) for block in volatile))
        yield f"the system text may change every turn: {names}"
