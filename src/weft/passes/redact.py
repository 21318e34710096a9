"""Replace personal data and secrets by placeholders."""

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import msgspec

from weft.declare.policy_parts import Redact
from weft.detect import PLACEHOLDER, Redaction, resolve_targets
from weft.detect.redaction import TextCut, move_positions, replace_cuts
from weft.diagnostics import Diagnostic, Origin, report
from weft.ir import (
    Block,
    Item,
    Note,
    Output,
    Prompt,
    TextBlock,
    ToolDecl,
    Want,
)
from weft.ir.block import Span
from weft.passes.env import Env
from weft.passes.rewrite import PassFold, Rewritten, fold_items, map_fields
from weft.session import Event
from weft.session.strand import Strand
from weft.values import Json, JsonObject

_PROSE = frozenset(
    {"description", "title", "default", "example", "examples", "enum", "const", "$comment"}
)


def redact_values(prompt: Prompt, env: Env, options: Redact) -> Prompt:
    """Replace what the policy looks for in all that is sent, each value by its own placeholder.

    It looks at the system text, every item, calls and results, the tools and the output schema.
    Media, signatures and a provider's own payloads are not text. A text whose pattern does not
    come to an end is withheld as a whole: what cannot be looked through is not sent.

    Before:  system "Mail to ops@example.com." | user "I am at jane@example.org"
    After:   system "Mail to <EMAIL_51ad1c0b3f>." | user "I am at <EMAIL_6ba1e0c1d2>"
    """
    what = resolve_targets(options.kinds, options.patterns, options.fields)
    placeholders = env.log.memo[_Placeholders, env.session.id]
    # what a notebook shows of a run is masked by the same rules
    placeholders.rules.setdefault(options)
    known = placeholders.values
    put_back = restored_values(env.log)
    literals = [(value, placeholder) for value, placeholder, _ in put_back]
    redaction = Redaction(what, env.session.id, known, literals)
    system = _system(prompt.system, redaction)
    rewritten = _items(prompt, env, redaction, put_back)
    redaction.timeouts += rewritten.state.timeouts
    same = rewritten.prompt is prompt
    tools = _same(prompt.tools, tuple(_tool(tool, redaction) for tool in prompt.tools))
    output = _output(prompt.output, redaction) if prompt.output is not None else None
    wants = _same(prompt.wants, tuple(_want(want, redaction) for want in prompt.wants))
    if (
        system is prompt.system
        and same
        and tools is prompt.tools
        and output is prompt.output
        and wants is prompt.wants
        and not redaction.timeouts
    ):
        return prompt
    return msgspec.structs.replace(
        rewritten.prompt,
        system=system,
        tools=tools,
        output=output,
        wants=wants,
        diagnostics=(*prompt.diagnostics, *_report(redaction, rewritten.state.kinds, env)),
    )


def known_placeholders(log: Strand[Event], session: str) -> dict[str, Json]:
    """What the placeholders of a log's session stand for, as far as this process has made them."""
    return log.memo[_Placeholders, session].values


def applied_rules(log: Strand[Event], session: str) -> tuple[Redact, ...]:
    """What was redacted in requests of a log's session, as far as this process compiled them."""
    return tuple(log.memo[_Placeholders, session].rules)


class _Placeholders:
    """What the placeholders of one session stand for, and the rules that made them."""

    def __init__(self) -> None:
        self.values: dict[str, Json] = {}
        self.rules: dict[Redact, None] = {}


class _RestoredValues:
    """How much of a log was read, and the values that were put back in it.

    Each has its placeholder and since when. They are replaced in one piece, as threads may look.
    """

    def __init__(self) -> None:
        self.known: tuple[int, dict[str, tuple[str, int]]] = (0, {})


def restored_values(log: Strand[Event]) -> list[tuple[str, str, int]]:
    """Values that were put back, with their placeholders and since when, the longest first.

    Nothing says that a detector finds a value where it was put back; so these are replaced by
    the letter, in all that came later.
    """
    restored_so_far = log.memo[_RestoredValues]
    done, values = restored_so_far.known
    if len(log) > done:
        values = dict(values)
        for index, event in enumerate(log.since(done), done):
            for placeholder, value in (event.provenance.restored or {}).items():
                # a log may come from outside, and any other text would be put into ours
                if isinstance(value, str | int) and PLACEHOLDER.fullmatch(placeholder):
                    values.setdefault(str(value), (placeholder, index))
        # events of a tail may still change
        if not log.tail:
            restored_so_far.known = (len(log), values)
    listed = [(value, placeholder, index) for value, (placeholder, index) in values.items()]
    return sorted(listed, key=lambda one: -len(one[0]))


class _ReportedKinds:
    """The kinds of values that were reported for the items of a thread."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()


def _report(redaction: Redaction, in_items: set[str], env: Env) -> list[Diagnostic]:
    """What was replaced, by kind, and what had to be withheld."""
    origin = Origin("pass", "redact_values", env.agent)
    kinds = in_items.union(redaction.kinds)
    if (
        env.tokens.measure is None
    ):  # new items: their thread remembers what was said of earlier ones
        reported = env.thread.before.memo[_ReportedKinds, redaction.wanted]
        # each kind is reported once a thread, not in every step
        kinds, reported.kinds = kinds - reported.kinds, reported.kinds | kinds
    diagnostics = [
        report("WEFT602", origin, f"{kind} values are replaced") for kind in sorted(kinds)
    ]
    diagnostics += [
        report("WEFT607", origin, f"{words}; the text is withheld", "write a simpler pattern")
        for words in dict.fromkeys(redaction.timeouts)
    ]
    return diagnostics


One = TypeVar("One")


def _same(before: tuple[One, ...], after: tuple[One, ...]) -> tuple[One, ...]:
    """The tuple as it was, if none of its elements changed."""
    return before if all(one is two for one, two in zip(before, after, strict=True)) else after


def _system(blocks: tuple[TextBlock, ...], redaction: Redaction) -> tuple[TextBlock, ...]:
    return _same(blocks, tuple(_text(block, redaction.rounds(block.text)) for block in blocks))


class _FoundKinds:
    """The kinds of values that were replaced in the items so far, and patterns that did not end."""

    __slots__ = ("_changes", "_items", "kinds", "timeouts")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.timeouts: list[str] = []
        self._items = 0
        self._changes: list[tuple[int, Redaction]] = []
        """What was replaced, and in which item."""

    def over(self) -> "_FoundKinds":
        """A passing copy, for items that may still change."""
        copy = _FoundKinds()
        copy.kinds, copy.timeouts = {*self.kinds}, [*self.timeouts]
        return copy

    def back(self, length: int) -> "_FoundKinds":
        """What was replaced in the first items."""
        earlier = _FoundKinds()
        for item, redaction in self._changes:
            if item < length:
                earlier._items = item
                earlier.add(redaction)
        earlier._items = length
        return earlier

    def add(self, redaction: Redaction | None) -> None:
        """Take in what was replaced in one item more."""
        self._items += 1
        if redaction is None:
            return
        self._changes.append((self._items - 1, redaction))
        self.kinds.update(redaction.kinds)
        self.timeouts += (one for one in redaction.timeouts if one not in self.timeouts)


_FOUND = PassFold(_FoundKinds, _FoundKinds.over, _FoundKinds.back)


def _items(
    prompt: Prompt, env: Env, redaction: Redaction, put_back: Sequence[tuple[str, str, int]]
) -> Rewritten[_FoundKinds]:
    """The items as they are sent, and what was replaced in them."""

    def change(item: Item, replaced: _FoundKinds) -> Item | Note:
        # a value that was put back later says nothing about an item before it, which was sent
        literals = [
            (value, placeholder) for value, placeholder, since in put_back if since <= item.last
        ]
        one = Redaction(redaction.wanted, redaction.session, redaction.known, literals)
        after = _item(item, one)
        replaced.add(one if after is not item else None)
        if after is item:
            return item
        return Note("redact_values", f"replaced: {', '.join(sorted(one.kinds))}", item, after)

    key = (redaction.wanted, redaction.session, len(put_back))
    return fold_items(prompt, "redact_values", change, key=key, fold=_FOUND)


def _item(item: Item, redaction: Redaction) -> Item:
    """The item with every block redacted, and what stands across two of its texts."""
    joined = _across(item.blocks, redaction)
    blocks = tuple(_block(block, redaction) for block in joined)
    if len(blocks) == len(item.blocks) and all(map(_is, blocks, item.blocks)):
        return item
    return msgspec.structs.replace(item, blocks=blocks)


def _is(one: object, other: object) -> bool:
    return one is other


def _across(blocks: tuple[Block, ...], redaction: Redaction) -> tuple[Block, ...]:
    """A value that begins in one text and ends in the next becomes one placeholder in the first."""
    if len(blocks) < 2:
        return blocks
    joined = list(blocks)
    for at in range(len(joined) - 1):
        first, second = joined[at], joined[at + 1]
        if not isinstance(first, TextBlock) or not isinstance(second, TextBlock):
            continue
        # texts of two roles are two turns: no value goes across
        if first.role != second.role:
            continue
        # neither half of such a value is found by itself
        edge = len(first.text)
        for cut in redaction.cuts(first.text + second.text):
            if cut.start < edge < cut.end:
                joined[at] = _text(first, [[TextCut(cut.start, edge, cut.placeholder)]])
                joined[at + 1] = _text(second, [[TextCut(0, cut.end - edge, "")]])
    not_empty = tuple(one for one in joined if not isinstance(one, TextBlock) or one.text)
    # an item without blocks cannot be sent
    return not_empty or blocks


def _block(block: Block, redaction: Redaction) -> Block:
    if isinstance(block, TextBlock):
        return _text(block, redaction.rounds(block.text))
    return map_fields(block, redaction.text, redaction.value)


def _text(block: TextBlock, rounds: Iterable[Sequence[TextCut]]) -> TextBlock:
    """The block with its cuts made, and its spans moved along."""
    text, spans = block.text, block.spans
    for cuts in rounds:
        text = replace_cuts(text, cuts)
        ends = move_positions([span.end for span in spans], cuts)
        spans = tuple(
            Span(end, span.origin)
            for before, end, span in zip([0, *ends], ends, spans, strict=False)
            if end > before
        )
    return block if text == block.text else msgspec.structs.replace(block, text=text, spans=spans)


def _tool(tool: ToolDecl, redaction: Redaction) -> ToolDecl:
    # a provider's own tool is declared in the provider's words
    if tool.own is not None:
        return tool
    description = redaction.text(tool.description)
    parameters = _schema(tool.parameters, redaction)
    if description == tool.description and parameters is tool.parameters:
        return tool
    return msgspec.structs.replace(tool, description=description, parameters=parameters)


def _output(output: Output, redaction: Redaction) -> Output:
    schema = _schema(output.schema, redaction)
    return output if schema is output.schema else msgspec.structs.replace(output, schema=schema)


def _schema(schema: JsonObject, redaction: Redaction) -> JsonObject:
    return cast("JsonObject", _redact_schema(schema, redaction, prose=False))


def _redact_schema(value: Json, redaction: Redaction, *, prose: bool) -> Json:
    """A schema with what it says in words redacted; its keywords and names stay."""
    match value:
        case str():
            if not prose:
                return value
            after = redaction.text(value)
            return value if after == value else after
        case dict():
            # a property may be called `title`: then it is an object, and no prose
            fields = {
                name: _redact_schema(
                    each, redaction, prose=name in _PROSE and not isinstance(each, dict)
                )
                for name, each in value.items()
            }
            return value if all(fields[name] is value[name] for name in value) else fields
        case list():
            listed = [_redact_schema(each, redaction, prose=prose) for each in value]
            return value if all(map(_is, listed, value)) else listed
        case _:
            return value


def _want(want: Want, redaction: Redaction) -> Want:
    """A question for another model, without what that model may not see either."""
    after = msgspec.structs.replace(
        want,
        instruction=redaction.text(want.instruction),
        text=redaction.text(want.text),
        must_keep=tuple(redaction.text(each) for each in want.must_keep),
        sources=tuple((event, redaction.text(text)) for event, text in want.sources),
    )
    return want if after == want else after
