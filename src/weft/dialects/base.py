"""What all dialects share: the match over blocks, turns, the source map's raw material.

A dialect is mostly data: traits, a table of options, and one short method for each kind of
block. The base class owns the loop, so that a new kind of block is a type error here and
nowhere else.
"""

import functools
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import ClassVar, Literal, TypeAlias, assert_never, cast

import msgspec

from weft.declare.provider_tools import HostedTool, ProviderTool
from weft.diagnostics import Origin, Severity
from weft.dialects.facts import facts_for, same_model
from weft.dialects.legality import (
    ANYTHING_BUT,
    Findings,
    NoTurnRules,
    Spelling,
    TurnRules,
    refuse_range,
)
from weft.dialects.measure import Meter, WeighedHead, WeighedTurn, Weigher
from weft.dialects.options import Option, Range, fit_option
from weft.dialects.schema_subset import SchemaRules, fit_schema
from weft.dialects.stream import AnswerErrors, Stream
from weft.dialects.strict import Outline, RequestForm, StrictTurns, refuse_form
from weft.dialects.track import (
    LATER,
    Entry,
    Head,
    Lowered,
    LoweringReport,
    Placed,
    Track,
    Wire,
    track_of,
)
from weft.dialects.wire import (
    ReadRequest,
    deep_update,
    escape,
    is_encodable,
    leaves,
    put,
    scrub_surrogates,
)
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    ModelResponse,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
    declare_called,
)
from weft.ir.prompt import is_declared_for_calls
from weft.values import Json, JsonObject, compact, has_half_character, has_lone_surrogate

_ABOUT_TOOLS = frozenset(("tool_choice", "parallel_tool_calls"))

_NO_IDS: frozenset[str] = frozenset()

_OWN_WORD = "drop it for this model, or set the provider's own under `extra`"


class SpelledTool(msgspec.Struct, frozen=True):
    """A tool that the provider runs as it is declared, and the options that cannot be said."""

    wire: Wire
    lost: tuple[str, ...] = ()


def set_options(tool: HostedTool, *names: str) -> tuple[str, ...]:
    """Those of the named options of a tool that somebody set."""
    return tuple(name for name in names if getattr(tool, name))


class Traits(msgspec.Struct, frozen=True):
    """A provider's facts: where things stand in its request, and what it does with turns."""

    name: str
    turns: str
    merges_turns: bool
    model_role: str
    parts: str = "content"
    calls: tuple[str, str] | None = None
    """Of plain calls, as `exchange` spells them: whose turn it is, and where they stand in it.

    Their number follows the place; it is empty where each is an element of its own. None in a
    dialect that does not spell them apart.
    """
    results: tuple[str, str] = ("user", "")
    """The same of their results."""
    schemas: SchemaRules = SchemaRules()
    """What it takes of JSON Schema."""
    sealed: frozenset[str] = frozenset()
    """Types of opaque parts that only the very model can read that made them."""
    names: Spelling = Spelling(ANYTHING_BUT, 64)
    ids: Spelling | None = Spelling(ANYTHING_BUT, 64)
    """How calls are named; None where any text will do."""
    counts_system: bool = False
    """Whether the provider counts the system text as a turn."""
    talks_on: bool = False
    """Whether the model may say more between its calls and their results."""
    calls_need_tools: bool = False
    """Whether the provider refuses calls in the conversation of a request without tools."""
    places_system: bool = False
    """Whether system text in mid-conversation must follow the user's, and precede the model's."""
    marks_requests: bool = False
    """Whether one mark at the request itself asks the provider to keep all of it."""
    compared: tuple[str, ...] = ()
    """Fields other than tools, system and turns that must stay for anything to be reused."""


Exchange: TypeAlias = tuple[Sequence[Wire], Sequence[Wire]]
"""The elements of calls, which the model made, and of their results, which the user sends."""


class Dialect:
    """How a provider spells a prompt."""

    traits: ClassVar[Traits]
    options: ClassVar[Mapping[str, Option]]
    """In the order they are read back and refused."""
    other_ranges: ClassVar[Mapping[str, Range]] = {}
    """Limits of fields that are not options of ours, by their path."""
    form: ClassVar[RequestForm] = RequestForm()
    errors: ClassVar[AnswerErrors]

    def lower(self, prompt: Prompt, *, strict: bool = False, track: Track | None = None) -> Lowered:
        """The request for this prompt; `track` keeps what earlier requests lowered already."""
        traits = self.traits
        if traits.calls_need_tools and not any(map(self._declares, prompt.tools)):
            prompt = declare_called(prompt)
        stores = self.holds(prompt)
        report = LoweringReport(
            dialect=traits.name, strict=strict, model=prompt.model, stores=stores
        )
        if track is None:
            return self._lower(prompt, report, Track())
        with track.lock:
            return self._lower(prompt, report, track if track.fits(prompt.items) else Track())

    def lower_on(self, prompt: Prompt, *, strict: bool, head: Head | None) -> Lowered:
        """As `lower`, for a prompt of a session: what is lowered is kept with its items.

        `head` is that of the plan's request before. Agents that share a thread share its turns, and
        each has a head of its own. Its blocks must be this prompt's own, since the report finds
        their places by identity.
        """
        track = track_of(prompt.items, self.traits.name, prompt.model, strict=strict)
        if head is not None and head.of.system is prompt.system:
            track.head = head
        return self.lower(prompt, strict=strict, track=track)

    def _lower(self, prompt: Prompt, report: LoweringReport, track: Track) -> Lowered:
        """The request: head and settled turns as they were, and the new items on top of them."""
        traits, items = self.traits, prompt.items
        head = track.head
        # the head changes seldom: it is lowered once, and reused as long as it fits
        if head is None or not head.fits(prompt):
            wire_head, placed = self.head(prompt, report)
            lead = tuple([self._encodable(entry, report) for entry in self.lead(prompt)])
            if not is_encodable(wire_head):
                wire_head = cast("Wire", scrub_surrogates(wire_head))
            head = Head(
                prompt, wire_head, placed, lead, report.take() if report.diagnostics else ()
            )
            track.head = head
        settled = items.settled
        if track.items < settled:
            fresh = items.between(track.items, settled)
            done = len(track.wires)
            begins: list[int] = []  # kept only if all of them can be lowered
            ready, last = self.extend(track.open, fresh, report, begins=begins, done=done)
            track.settle(settled, ready, last, report.take() if report.diagnostics else ())
            track.begins += begins
        tail = items.tail
        # the author's last word is for this request only: the cache mark stands before it
        once = tail[-1:] if tail and tail[-1].kind == "system" else ()
        lasting_items = tail[: len(tail) - len(once)]
        rest, last = (
            self.extend(track.open, lasting_items, report) if lasting_items else ([], track.open)
        )
        lasting = [*rest, last] if last is not None else rest
        if once:
            more, last = self.extend(last, once, report)
            rest += more if last is None else [*more, last]
        else:
            rest = lasting
        if lasting and not once and _is_passing(prompt):
            lasting = [*lasting]
            while lasting and all(isinstance(one, ResultBlock) for _, one in lasting[-1].blocks):
                lasting.pop()
        wire: Wire = {**head.wire, traits.turns: track.turns(head.first, rest)}  # type: ignore[dict-item]
        if prompt.cache and lasting and prompt.keeps != "head":
            wire = self.keep(prompt, wire, track, lasting)
        return Lowered(
            traits.name,
            wire,
            head,
            traits.turns,
            head.diagnostics + track.diagnostics + (report.take() if report.diagnostics else ()),
            track,
            len(track.wires),
            rest,
            lasting,
        )

    def turns_of(self, item: Item, model: str) -> list[Entry]:
        """The turns of one item by itself, as a request to the model has them."""
        report = LoweringReport(dialect=self.traits.name, strict=False, model=model)
        ready, last = self.extend(None, (item,), report)
        return ready if last is None else [*ready, last]

    def head(self, prompt: Prompt, report: LoweringReport) -> tuple[Wire, tuple[Placed, ...]]:
        """Everything but the turns: model, system, tools, schema and options."""
        raise NotImplementedError

    def holds(self, prompt: Prompt) -> bool:
        """Whether the provider is asked to hold the conversation itself."""
        return False

    def takes_schema(self, schema: JsonObject) -> bool:
        """Whether an answer of this schema can be asked for natively."""
        return True

    def keep(self, prompt: Prompt, wire: Wire, track: Track, lasting: list[Entry]) -> Wire:
        """The request, with a word to the provider on what to keep of its turns."""
        return wire

    def lead(self, prompt: Prompt) -> list[Entry]:
        """Elements before the turns, for a dialect where the system text is one of them."""
        return []

    def turn(self, role: Role, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        """The elements for blocks of one role that stand together."""
        raise NotImplementedError

    def spell_plain_turn(self, block: TextBlock) -> Entry:
        """The element for a turn that is one plain text, as nearly every turn is."""
        raise NotImplementedError

    def spell_plain_wire(self, role: Literal["user", "model"], text: str) -> Wire:
        """As `spell_plain_turn`, for who does not ask where the text came from."""
        return self.spell_plain_turn(TextBlock(role=role, origin=LATER, text=text)).wire

    def spell_told_wire(self, texts: Sequence[str]) -> Wire:
        """The user's turn that tells what another agent did: a part for each text."""
        wire, key = self.spell_plain_wire("user", texts[0]), self.traits.parts
        for text in texts[1:]:
            cast("list[Json]", wire[key]).extend(
                cast("list[Json]", self.spell_plain_wire("user", text)[key])
            )
        return wire

    def exchange(
        self, calls: Sequence[CallBlock], results: Sequence[ResultBlock], report: LoweringReport
    ) -> Exchange:
        """The elements for plain calls and their results: no provider keeps anything with them."""
        if self.traits.calls is None:
            turn = self.turn("model", calls, report)
            turns = self.turn("user", results, report)
            return [entry.wire for entry in turn], [entry.wire for entry in turns]
        if len(calls) == len(results) == 1:  # as nearly always
            asked: list[Json] = [self.call(calls[0], report)]
            answered: list[Json] = [self.result(results[0], report)]
        else:
            asked = [self.call(call, report) for call in calls]
            answered = [self.result(result, report) for result in results]
        return self.turns_of_pairs(asked, answered)

    def turns_of_pairs(self, asked: list[Json], answered: list[Json]) -> Exchange:
        """Plain calls and their results as turns: those of the model, and those that follow."""
        return cast("Exchange", (asked, answered))

    def merge(self, first: Entry, second: Entry) -> Entry:
        """Two elements of one role as one, with the parts of both."""
        key = self.traits.parts
        before = first.wire[key]
        assert isinstance(before, list)
        shift = len(before)
        moved = tuple(
            [
                (f"/{key}/{shift + int(pointer.split('/')[2])}", block)
                for pointer, block in second.blocks
            ]
        )
        after = second.wire[key]
        assert isinstance(after, list)
        return Entry({**first.wire, key: before + after}, first.role, first.blocks + moved)

    def extend(
        self,
        last: Entry | None,
        items: Sequence[Item],
        report: LoweringReport,
        *,
        begins: list[int] | None = None,
        done: int = 0,
    ) -> tuple[list[Entry], Entry | None]:
        """The turns that are final once these items follow `last`, and the new last one.

        `begins` gets, for each item, the turn it begins, counted after the `done` ones; -1 where it
        continues the turn before.
        """
        ready: list[Entry] = []
        merging = self.traits.merges_turns
        for item in items:
            entries = self.item_turns(item.blocks, report)
            begun = -1
            for number, entry in enumerate(entries):
                if last is None:
                    last = entry
                elif merging and entry.role == last.role:
                    last = self.merge(last, entry)
                    continue
                else:
                    ready.append(last)
                    last = entry
                # where the item's first turn begins, for who cuts the request at an item
                if not number:
                    begun = done + len(ready)
            if begins is not None:
                begins.append(begun)
        return ready, last

    def item_turns(self, blocks: tuple[Block, ...], report: LoweringReport) -> Sequence[Entry]:
        """The elements for the blocks of one item, before any of them is merged."""
        block = blocks[0]
        if (
            len(blocks) == 1
            and type(block) is TextBlock
            and not block.signature
            and not block.kept
            and block.role != "system"
            and not block.text.isspace()
        ):
            entry = self.spell_plain_turn(block)
            if not block.text.isascii() and has_lone_surrogate(block.text):
                entry = self._encodable(entry, report)
            return (entry,)
        entries = self._exchange(blocks, report)
        if entries is None:
            entries = self._item(blocks, report)
            if not is_encodable([entry.wire for entry in entries]):
                entries = [self._encodable(entry, report) for entry in entries]
        return entries

    def _exchange(self, blocks: tuple[Block, ...], report: LoweringReport) -> list[Entry] | None:
        """The elements for plain calls and their results, as `_item` makes them; else None."""
        traits = self.traits
        if traits.calls is None:
            return None
        calls: list[CallBlock] = []
        results: list[ResultBlock] = []
        for block in blocks:
            if block.provider or block.kept is not None:
                return None
            if type(block) is CallBlock:
                if results or block.signature or block.role != "model":
                    return None
                calls.append(block)
            elif type(block) is ResultBlock and not block.media and block.role == "user":
                results.append(block)
            else:
                return None
        if not (calls and results):
            return None
        report.own_ids = _NO_IDS
        asked, answered = self.exchange(calls, results, report)
        entries = _entries(asked, calls, *traits.calls)
        entries += _entries(answered, results, *traits.results)
        if not is_encodable((asked, answered)):
            entries = [self._encodable(entry, report) for entry in entries]
        return entries

    def _encodable(self, entry: Entry, report: LoweringReport) -> Entry:
        """The element as UTF-8 can carry it: this is the last place before it is sent.

        What comes from texts was mended where it was read; a name, an id or what a provider kept
        may hold half a character too.
        """
        if is_encodable(entry.wire):
            return entry
        if entry.blocks and has_half_character(compact(entry.wire)):
            words = "a lone surrogate was replaced by U+FFFD"
            report.add("WEFT204", entry.blocks[0][1].origin, words, "mend it where it is made")
        return msgspec.structs.replace(entry, wire=cast("Wire", scrub_surrogates(entry.wire)))

    def _item(self, blocks: tuple[Block, ...], report: LoweringReport) -> list[Entry]:
        """The elements for an item: one turn for each stretch of one role."""
        report.own_ids = _NO_IDS
        for block in blocks:
            if (
                block.provider or block.kept is not None
            ):  # of some provider: else nothing is its own
                report.foreign_fields(blocks)
                report.own_ids = frozenset(
                    block.id
                    for block in blocks
                    if isinstance(block, CallBlock) and self.own(block, report)
                )
                break
        entries: list[Entry] = []
        start = 0
        for index in range(1, len(blocks) + 1):
            if index == len(blocks) or blocks[index].role != blocks[start].role:
                entries += self.turn(blocks[start].role, blocks[start:index], report)
                start = index
        return entries

    def part(self, block: Block, report: LoweringReport) -> Wire | None:
        """One block as a part of a turn, or None where there is nothing to say."""
        wire = self._spell_part(block, report)
        # fields of another provider mean nothing to this one
        if block.kept is None or wire is None or block.provider != self.traits.name:
            return wire
        return self.with_kept(wire, block)

    def has_kept(self, block: Block) -> bool:
        """Whether the block stands in this provider's own form, and so as a part of its own."""
        return block.kept is not None and block.provider == self.traits.name

    def with_kept(self, wire: Wire, block: Block) -> Wire:
        """The part with the fields its provider gave it and nobody else understands."""
        merged = {**wire}
        deep_update(merged, block.kept or {})
        return merged

    def _spell_part(self, block: Block, report: LoweringReport) -> Wire | None:
        """What a block is in this dialect; None where nothing of it can be sent."""
        match block:
            case TextBlock():
                return self.text(block, report)
            case ThoughtBlock():
                return self.thought(block, report)
            case CallBlock():
                return self.call(block, report)
            case ResultBlock():
                return self.result(block, report)
            case MediaBlock():
                return self.media(block, report)
            case CodeBlock():
                return self.code(block, report)
            case CodeResultBlock():
                return self.code_result(block, report)
            case OpaqueBlock():
                return self.opaque(block, report)
            case _:
                assert_never(block)

    def name_of(self, block: CallBlock | ResultBlock, report: LoweringReport) -> str:
        """The tool's name as the provider takes it; in a log it may be anything."""
        name = report.legal_names.get(block.name)
        if name is None:
            name = report.legal_names[block.name] = self.traits.names.legal(block.name)
        if name != block.name:
            words = f"{report.dialect} takes no tool called {block.name[:80]!r}, and reads `{name}`"
            report.add("WEFT611", block.origin, words)
        return name

    def id_of(self, call_id: str, report: LoweringReport) -> str:
        """The id of a call as the provider takes it; one that it gave itself goes back as it is."""
        ids = self.traits.ids
        if ids is None or call_id in report.own_ids:
            return call_id
        last, spelled = report.last_id
        if call_id != last:  # a result mostly follows its call
            spelled = ids.legal(call_id)
            report.last_id = (call_id, spelled)
        return spelled

    def text(self, block: TextBlock, report: LoweringReport) -> Wire:
        """Text."""
        raise NotImplementedError

    def thought(self, block: ThoughtBlock, report: LoweringReport) -> Wire | None:
        """A thought the provider takes back."""
        raise NotImplementedError

    def call(self, block: CallBlock, report: LoweringReport) -> Wire:
        """A tool call."""
        raise NotImplementedError

    def result(self, block: ResultBlock, report: LoweringReport) -> Wire:
        """A tool result."""
        raise NotImplementedError

    def media(self, block: MediaBlock, report: LoweringReport) -> Wire:
        """Media, or a text that says what could not be carried."""
        raise NotImplementedError

    def code(self, block: CodeBlock, report: LoweringReport) -> Wire:
        """Executed code; as text unless the provider has a part for it."""
        return self.text(_as_text(block, f"[code]\n{block.code}", report), report)

    def code_result(self, block: CodeResultBlock, report: LoweringReport) -> Wire:
        """What code gave; as text unless the provider has a part for it."""
        text = f"[code gave {block.outcome}]\n{block.output}"
        return self.text(_as_text(block, text, report), report)

    def opaque(self, block: OpaqueBlock, report: LoweringReport) -> Wire | None:
        """A provider's own part: back to it unchanged, to nobody else."""
        sealed = str(block.payload.get("type")) in self.traits.sealed
        if self.own(block, report) or (block.provider == self.traits.name and not sealed):
            return block.payload
        self.drop_foreign(block, report)
        return None

    def drop_foreign(self, block: Block, report: LoweringReport, *, what: str = "part") -> None:
        """Say that something of another provider's, or another model's, was left out."""
        maker, reader = block.provider or "an unknown provider", report.dialect
        if block.provider == self.traits.name:
            maker, reader = block.model, report.model
        report.add("WEFT704", block.origin, f"a {what} of {maker} cannot go to {reader}")

    def own(self, block: Block, report: LoweringReport) -> bool:
        """Whether the model that is asked made this: what is sealed is its alone to read."""
        return block.provider == self.traits.name and same_model(block.model, report.model)

    def place_options(
        self, prompt: Prompt, wire: Wire, placed: list[Placed], report: LoweringReport
    ) -> None:
        """Put every option where the provider wants it, and report the ones it does not know."""
        for name, value in prompt.config.items():
            origin = prompt.config_origins.get(name, Origin("config", name))
            if name == "extra":
                extra = value.get(self.traits.name) if isinstance(value, dict) else None
                if isinstance(extra, dict):
                    deep_update(wire, extra)
                    placed += [Placed(f"/{escape(key)}", origin) for key in extra]
                continue
            # providers refuse a choice among no tools
            if name in _ABOUT_TOOLS and not any(map(self._declares, prompt.tools)):
                report.add(
                    "WEFT702",
                    origin,
                    f"`{name}` is left out: the request has no tools",
                    severity=Severity.INFO,
                )
                continue
            fitted = fit_option(name, value, prompt.model)
            value = fitted.value
            for message in fitted.lost:
                report.lose("WEFT702", origin, message, _OWN_WORD)
            for message in fitted.changes:
                report.add("WEFT702", origin, message, severity=Severity.INFO)
            if value is None:
                continue
            option = self.option(name, prompt)
            if option is None:
                self._refuse_option(name, origin, report)
            elif option.pointer:
                put(wire, option.path, deepcopy(value))  # what the author wrote stays his
                placed.append(Placed(option.pointer, origin))
            else:
                own: Wire = {}
                for missed in option.place(own, value):
                    self._refuse_option(missed, origin, report)
                deep_update(wire, own)
                placed += [Placed(pointer, origin) for pointer in leaves(own)]

    def option(self, name: str, prompt: Prompt) -> Option | None:
        """Where an option goes, for this model."""
        return self.options.get(name)

    def _refuse_option(self, name: str, origin: Origin, report: LoweringReport) -> None:
        """Report an option that the provider does not have."""
        report.lose(
            "WEFT702",
            origin,
            f"{report.dialect} has no option `{name}`",
            _OWN_WORD,
        )

    def drop_signature(
        self, block: TextBlock | ThoughtBlock | CallBlock, report: LoweringReport
    ) -> None:
        """Say that a signature another provider gave is left out."""
        if block.signature and not self.own(block, report):
            self.drop_foreign(block, report, what="signature")

    def drops_thoughts(self, config: Mapping[str, Json]) -> bool:
        """Whether the settings ask the provider to drop thoughts that it would refuse."""
        return False

    def declaration(self, tool: ToolDecl, report: LoweringReport) -> Wire:
        """A function the model may call."""
        raise NotImplementedError

    def declare_tool(self, tool: ToolDecl, report: LoweringReport) -> Wire | None:
        """A tool in full; one of another provider's own is left out, and reported."""
        if tool.own is not None:
            if tool.provider == self.traits.name:
                return tool.own
            hint = "declare a tool of your own for it, or ask the model it was made for"
            report.lose("WEFT702", tool.origin, f"{report.dialect} has no tool `{tool.name}`", hint)
            return None
        if tool.hosted is not None:
            return self._declared_hosted(tool, tool.hosted, report)
        wire = self.declaration(tool, report)
        if tool.kept and tool.provider == self.traits.name:
            deep_update(wire, tool.kept)
        return wire

    def _declares(self, tool: ToolDecl) -> bool:
        """Whether the request will have this tool: one of another provider's own is left out."""
        if tool.own is not None:
            return tool.provider == self.traits.name
        silent = LoweringReport(dialect=self.traits.name, strict=False)
        return tool.hosted is None or self._spell_hosted(tool.hosted, silent) is not None

    def _spell_hosted(self, hosted: HostedTool, report: LoweringReport) -> SpelledTool | None:
        """A tool that the provider runs, as it is declared; None where it does not have it."""
        if isinstance(hosted, ProviderTool):
            wire = hosted.spelled.get(self.traits.name)
            return SpelledTool(wire) if wire is not None else None
        return self.hosted(hosted, report)

    def _declared_hosted(
        self, tool: ToolDecl, hosted: HostedTool, report: LoweringReport
    ) -> Wire | None:
        """A tool that the provider runs; one that it does not have is left out, and reported."""
        spelled = self._spell_hosted(hosted, report)
        if spelled is None:
            hint = self.hosted_hint or (
                "declare a tool of your own for it, or ask a model of another provider"
            )
            message = f"{report.dialect} has no {tool.name.replace('_', ' ')}: it is left out"
            report.lose("WEFT709", tool.origin, message, hint)
            return None
        for option in spelled.lost:
            report.lose(
                "WEFT702",
                tool.origin,
                f"{report.dialect} has no `{option}` of {type(hosted).__name__}: it is left out",
                f"leave out `{option}` for this model",
            )
        return spelled.wire

    hosted_hint: ClassVar[str] = ""
    """What to do instead where the provider runs no tools."""

    def hosted(self, tool: HostedTool, report: LoweringReport) -> "SpelledTool | None":
        """A tool that the provider runs, as it is declared; None where it has none such."""
        return None

    def parameters(self, tool: ToolDecl, report: LoweringReport) -> JsonObject:
        """A tool's parameters as the provider takes them."""
        if tool.provider == self.traits.name:
            return tool.parameters
        fit = fit_schema(self.traits.schemas, tool.parameters)
        report.schema_losses(fit.losses, tool.origin)
        return fit.schema

    def put_tools(
        self, prompt: Prompt, wire: Wire, placed: list[Placed], report: LoweringReport
    ) -> None:
        """The tools, followed by those of the provider's own that `extra` asked for."""
        tools: list[Json] = []
        for tool in prompt.tools:
            declared = self.declare_tool(tool, report)
            if declared is not None:
                placed.append(Placed(self.add_tool(tools, tool, declared), tool.origin))
            if is_declared_for_calls(tool):
                message = (
                    f"`{tool.name}` is declared, as {report.dialect} wants, and cannot be called"
                )
                report.add("WEFT710", tool.origin, message)
        own_tools = wire.get("tools")
        if tools:
            wire["tools"] = [*tools, *own_tools] if isinstance(own_tools, list) else tools

    def add_tool(self, tools: list[Json], tool: ToolDecl, declared: Wire) -> str:
        """Put one more tool into the list; the place where it stands."""
        tools.append(declared)
        return f"/tools/{len(tools) - 1}"

    def with_function(self, tools: Sequence[Json], declared: Wire) -> list[Json]:
        """The tools of somebody's request and one function more; those that came stay as they are.

        It stands where a provider takes it that would not take another group of functions.
        """
        return [*tools, declared]

    def lift(self, body: JsonObject) -> ModelResponse:
        """What a whole answer says; a ModelError where it is none."""
        raise NotImplementedError

    def stream(self) -> Stream:
        """A reader for one streamed answer."""
        raise NotImplementedError

    def is_request(self, wire: JsonObject) -> bool:
        """Whether a request is one of this dialect's, by its shape."""
        return isinstance(wire.get(self.traits.turns), list | str)

    def spell(self, wire: JsonObject) -> JsonObject:
        """The request in the one spelling that is read, where the provider takes several."""
        return wire

    def read(self, wire: JsonObject) -> ReadRequest:
        """A request taken apart; a UsageError where it cannot be one of this dialect."""
        raise NotImplementedError

    def weigh_head(self, wire: JsonObject) -> WeighedHead:
        """Everything but the turns, as it is counted."""
        raise NotImplementedError

    def weigh_turn(self, turn: Json) -> WeighedTurn:
        """One turn, as it is counted."""
        raise NotImplementedError

    def meter(self, model: str) -> Meter:
        """What counts requests of this dialect as the model does."""
        return _meter(self, model)

    def refuse_head(self, wire: JsonObject, model: str) -> Findings:
        """What the provider would refuse of everything but the turns."""
        yield from self.refuse_ranges(wire)

    def refuse_ranges(self, wire: JsonObject) -> Findings:
        """Numbers outside of what the provider takes."""
        for option in self.options.values():
            if option.range is not None:
                yield from refuse_range(wire, option.path, option.range)
        for path, limits in self.other_ranges.items():
            yield from refuse_range(wire, path, limits)

    def turn_rules(self, model: str, *, strict: bool = False) -> TurnRules:
        """What the provider refuses in the turns of a request.

        Under `strict` this is also said of models of which it is not known.
        """
        return NoTurnRules()

    def judges_turns(self, model: str) -> bool:
        """Whether `turn_rules` may find anything wrong with turns, once there are some."""
        return True

    def outline(self, turn: JsonObject, at: str) -> Outline:
        """Who speaks in a turn, and its calls and results; Misshapen where that cannot be told."""
        raise NotImplementedError

    def refuse_form(self, wire: JsonObject) -> Findings:
        """What stands where this provider does not look for it."""
        return refuse_form(wire, self.form, self.own_fields())

    def own_fields(self) -> tuple[str, ...]:
        """The fields of the system text, of the turns and of the answer's schema."""
        fields = (self.form.system, self.traits.turns, *self.form.answer[:1])
        return tuple(field for field in fields if field)

    def strict_turns(self, model: str) -> StrictTurns:
        """The rules for turns of our own making."""
        traits = self.traits
        return StrictTurns(
            self.turn_rules(model, strict=True),
            self.outline,
            alternates=traits.merges_turns,
            talks_on=traits.talks_on,
        )


def _is_passing(prompt: Prompt) -> bool:
    """Whether the last results change in the next request, so that the mark stands before them."""
    tip = prompt.items.tip
    passing = bool(prompt.cache) and tip is not None and tip.passing
    return passing and bool(facts_for(prompt.model).cache.lookback)


@functools.lru_cache(maxsize=256)
def _meter(dialect: Dialect, model: str) -> Meter:
    """What counts for a model in a dialect; made once."""
    traits = dialect.traits
    weigher = Weigher(
        traits.name,
        traits.turns,
        dialect.weigh_head,
        dialect.weigh_turn,
        merges=traits.merges_turns,
        counts_system=traits.counts_system,
    )
    return Meter(weigher, model)


def _as_text(block: CodeBlock | CodeResultBlock, text: str, report: LoweringReport) -> TextBlock:
    report.add("WEFT705", block.origin, f"{report.dialect} gets executed code as text")
    return TextBlock(role=block.role, origin=block.origin, text=text)


def _entries(
    wires: Sequence[Wire], blocks: Sequence[CallBlock | ResultBlock], role: str, place: str
) -> list[Entry]:
    """The elements of plain calls or results: one for each, or one with all of them at a place."""
    if len(blocks) == 1:  # as nearly always
        return [Entry(wires[0], role, ((f"{place}0" if place else "", blocks[0]),))]
    if not place:
        return [Entry(wire, role, (("", blocks[at]),)) for at, wire in enumerate(wires)]
    sources = tuple([(f"{place}{at}", block) for at, block in enumerate(blocks)])
    return [Entry(wires[0], role, sources)]


def result_text(block: ResultBlock) -> str:
    """A result as text: its one value where it has only one, else compact JSON."""
    response = block.response
    # a tool that returns plain text has it under one of these names
    if len(response) == 1:
        for key in ("result", "output", "error"):
            if isinstance(value := response.get(key), str):
                return value
    return compact(response)
