"""A prompt: one request as a frozen value, before it is spelled for a provider.

Below it: the prompt as text, stable and readable, one line a block, the form fixtures are written
in; and the laws of the IR, checked after every pass. A request that breaks one would be refused by
a provider, or would say something nobody said; so a pass that breaks one is stopped here, by name.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Literal, TypeVar, assert_never, cast, overload

import msgspec

from weft.declare.policy_parts import HANDLE, HANDLE_FORM
from weft.declare.provider_tools import HostedTool
from weft.diagnostics import Diagnostic, Origin
from weft.errors import InvalidPrompt
from weft.ir.block import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    Note,
    OpaqueBlock,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
    Want,
)
from weft.late import late_pattern
from weft.session.flow import TRUSTED, TrustLabel
from weft.session.strand import Strand
from weft.values import JsonObject, compact

T = TypeVar("T")


class Feature:
    """What occurs in a prompt, as bits: a pass sees at once that it is not needed.

    All are about its stretch of the log, but for `UNORDERED`, which is about its system parts.
    """

    NONE = 0
    HIDDEN = 1
    BRANCHED = 2
    FOREIGN = 4
    CALLS = 8
    WROTE = 16
    UNORDERED = 32
    DATA = 64
    BOUNDED = 128
    ALL = 255


class LateSequence(Sequence[T]):
    """Values that are made when somebody reads them, as notes are: a request needs none of them.

    `count` says how many there will be; without it they are made to be counted.
    """

    __slots__ = ("_count", "_make", "_values")

    def __init__(self, make: Callable[[], Iterable[T]], count: int | None = None) -> None:
        self._make = make
        self._count = count
        self._values: tuple[T, ...] | None = None

    @property
    def may_be_empty(self) -> bool:
        """Whether only a look at them says that there are any."""
        return self._count is None and self._values is None

    def _all(self) -> tuple[T, ...]:
        if self._values is None:
            self._values = tuple(self._make())
        return self._values

    def __len__(self) -> int:
        return self._count if self._count is not None else len(self._all())

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._all()[index]


class PassNotes(Sequence[Note]):
    """Notes in parts that prompts share: to add some copies none of those before."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Sequence[Note], ...] = ()) -> None:
        self.parts = parts
        """None of them is known to be empty."""

    def plus(self, more: Sequence[Note]) -> "PassNotes":
        """These notes, and more after them."""
        return PassNotes((*self.parts, more)) if _may_hold(more) else self

    def since(self, before: "PassNotes") -> "PassNotes":
        """The notes that were added to those of an earlier prompt."""
        return PassNotes(self.parts[len(before.parts) :])

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __bool__(self) -> bool:
        return any(map(len, self.parts))

    def __iter__(self) -> Iterator[Note]:
        return chain.from_iterable(self.parts)

    def __reversed__(self) -> Iterator[Note]:
        return chain.from_iterable(map(reversed, reversed(self.parts)))

    @overload
    def __getitem__(self, index: int) -> Note: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Note]: ...
    def __getitem__(self, index: int | slice) -> Note | Sequence[Note]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (PassNotes, list, tuple)):
            return tuple(self) == tuple(cast("Sequence[Note]", other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Notes({tuple(self)!r})"


def _may_hold(part: Sequence[Note]) -> bool:
    if isinstance(part, list):
        return bool(part)
    if isinstance(part, Strand):
        return part.length > 0
    return (isinstance(part, LateSequence) and part.may_be_empty) or len(part) > 0


NO_NOTES = PassNotes()


class ToolDecl(msgspec.Struct, frozen=True):
    """A tool as the model is told of it.

    One that was read from a request says in whose words it is: `provider`. Its parameters fit
    that provider already, and `kept` are fields of its declaration that only this provider
    understands. `own` is the whole declaration of a tool that is the provider's own.
    """

    name: str
    description: str
    parameters: JsonObject
    origin: Origin
    provider: str = ""
    kept: JsonObject | None = None
    own: JsonObject | None = None
    hosted: HostedTool | None = None
    """What the provider runs itself; each dialect spells it."""
    source: str = ""
    """The server whose listing has it."""

    @property
    def runs_at_provider(self) -> bool:
        """Whether the provider runs it itself: what it takes is counted with the provider's own."""
        return self.hosted is not None or self.own is not None


class Output(msgspec.Struct, frozen=True):
    """The answer's schema, and the one way it is asked for."""

    schema: JsonObject
    how: Literal["native", "tool", "text"]
    name: str
    origin: Origin
    wrapped: bool = False
    """Whether the answer stands under `result`, because providers want an object."""
    provider: str = ""
    """Whose request it was read from: that provider takes the schema as it is."""
    kept: JsonObject | None = None
    """What stood there besides the schema and only this provider understands."""


class Prompt(msgspec.Struct, frozen=True):
    """Model, options, tools, system blocks and the items of the conversation."""

    model: str
    agent: str
    system: tuple[TextBlock, ...] = ()
    items: Strand[Item] = msgspec.field(default_factory=Strand[Item])
    tools: tuple[ToolDecl, ...] = ()
    config: JsonObject = {}
    config_origins: dict[str, Origin] = {}
    output: Output | None = None
    features: int = Feature.NONE
    notes: PassNotes = NO_NOTES
    diagnostics: tuple[Diagnostic, ...] = ()
    cache: str = ""
    """Whether to ask the provider to keep what it reads: empty, `on`, or for how long."""
    keeps: Literal["all", "before", "head"] = "all"
    """How much of it to keep where that costs more: a request that is likely the last keeps only
    what the one before it kept, or nothing after the head."""
    wants: tuple[Want, ...] = ()
    """What a model is to be asked before this is as it should be; until then passes do without."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks in the order they are sent."""
        return (*self.system, *(block for item in self.items for block in item.blocks))

    @property
    def system_text(self) -> str:
        """The system instruction as one string."""
        return "\n\n".join([block.text for block in self.system])

    def with_items(
        self,
        items: list[Item],
        notes: Sequence[Note] = (),
        diagnostics: Sequence[Diagnostic] = (),
    ) -> "Prompt":
        """A copy with these items, and what there is to say about the change.

        Nothing is known of a new strand: what follows looks at all of its items.
        """
        return msgspec.structs.replace(
            self,
            items=Strand(items),
            notes=self.notes.plus(notes),
            diagnostics=(*self.diagnostics, *diagnostics),
        )

    def with_strand(self, items: Strand[Item], notes: Sequence[Note] = ()) -> "Prompt":
        """A copy with a strand that an earlier request began, and notes that are shared."""
        return msgspec.structs.replace(self, items=items, notes=self.notes.plus(notes))

    def __str__(self) -> str:
        return show(self)


class ItemsLabel(msgspec.Struct, frozen=True):
    """Whose text had influence on items, and which keys, artifacts and memories they show."""

    label: TrustLabel = TRUSTED
    names: frozenset[str] = frozenset()

    def after(self, items: Sequence[Item], /) -> "ItemsLabel":
        """The same once these items follow."""
        return self.with_blocks([block for item in items for block in item.blocks])

    def with_blocks(self, blocks: Sequence[Block]) -> "ItemsLabel":
        """The same with these blocks."""
        label, names = self.label, self.names
        for block in blocks:
            if block.label is not label and block.label is not TRUSTED:
                label |= block.label
            if block.origin.kind != "event":
                names |= {*_sources_of(block)} - names
        if label is self.label and names is self.names:
            return self
        return ItemsLabel(label, names)


def _sources_of(block: Block) -> Iterator[str]:
    """The names of the keys, artifacts and memories that a block shows; a handle shows nothing."""
    origins = [block.origin]
    if isinstance(block, TextBlock):
        if _HIDDEN_ITEM.fullmatch(block.text):
            origins.clear()
        start = 0
        for span in block.spans:
            if not HANDLE.fullmatch(block.text, start, span.end):
                origins.append(span.origin)
            start = span.end
    for origin in origins:
        if origin.kind == "state":
            yield origin.name
        elif origin.kind == "artifact":
            yield f"artifact:{origin.name}"
        elif origin.kind == "memory":
            yield "memory"


_HIDDEN_ITEM = late_pattern(
    rf"(?:\[\w+\] [\w.:-]{{1,40}}: )?{HANDLE_FORM}|\[hidden \S{{1,80}} {HANDLE_FORM}\]"
)
"""A value that is shown by its name, or a file, where a handle stands for it."""


def label_of_items(items: Sequence[Item]) -> TrustLabel:
    """The label of what was made from items that came from a log."""
    return ItemsLabel().after(items).label


def sources_of(prompt: Prompt) -> ItemsLabel:
    """What a request was made from: the label of its blocks, and the names that it shows."""
    items = prompt.items
    made_of = items.derive(ItemsLabel)
    if items.tail:
        made_of = made_of.after(items.tail)
    head = _HEADS.get(id(prompt.system))
    if head is None or head[0] is not prompt.system:
        if len(_HEADS) >= _MOST_HEADS:
            _HEADS.clear()
        head = _HEADS[id(prompt.system)] = (
            prompt.system,
            ItemsLabel().with_blocks(prompt.system),
        )
    system = head[1]
    if system.label is TRUSTED and system.names <= made_of.names:
        return made_of
    return ItemsLabel(made_of.label | system.label, made_of.names | system.names)


_MOST_HEADS = 256

_HEADS: dict[int, tuple[tuple[TextBlock, ...], ItemsLabel]] = {}
"""What system texts were made from, by their identity: most requests share one."""


GONE = "No longer available."
"""How a tool is described that the conversation calls and its agent does not have."""


class _CalledTools(msgspec.Struct, frozen=True):
    """The tools that items call, each by the event that called it first."""

    tools: tuple[ToolDecl, ...] = ()

    def after(self, items: Sequence[Item]) -> "_CalledTools":
        """The same once these items follow."""
        known = {tool.name: tool for tool in self.tools}
        for item in items:
            for block in item.blocks:
                if isinstance(block, CallBlock) and block.name not in known:
                    schema: JsonObject = {"type": "object", "properties": {}}
                    known[block.name] = ToolDecl(block.name, GONE, schema, block.origin)
        return self if len(known) == len(self.tools) else _CalledTools((*known.values(),))


def called_tools(prompt: Prompt) -> tuple[ToolDecl, ...]:
    """The tools that the conversation calls, as they are declared where nobody has them."""
    if not prompt.features & Feature.CALLS:
        return ()
    items = prompt.items
    return items.derive(_CalledTools).after(items.tail).tools


def is_declared_for_calls(tool: ToolDecl) -> bool:
    """Whether a tool is declared only because the conversation calls it."""
    return tool.origin.kind == "event"


def declare_called(prompt: Prompt, step: str = "declare_called") -> Prompt:
    """Declare the tools that the conversation calls, none of which can be called any more.

    Some providers refuse calls in a request without tools. An agent may have lost its own since.
    What was said stays as it was; to tell the calls as text would teach the model to write them.
    """
    called = called_tools(prompt)
    if not called:
        return prompt
    return msgspec.structs.replace(
        prompt,
        tools=(*prompt.tools, *called) if prompt.tools else called,
        config={**prompt.config, "tool_choice": "none"},
        config_origins={**prompt.config_origins, "tool_choice": Origin("pass", step)},
    )


def show(prompt: Prompt) -> str:
    """The whole prompt, a line a block; text that has lines is indented below its first."""
    lines = [f"# {prompt.agent} -> {prompt.model}"]
    lines += [f"option: {name} = {compact(value)}" for name, value in sorted(prompt.config.items())]
    lines += [f"tool: {tool.name} {compact(tool.parameters)}" for tool in prompt.tools]
    if prompt.output is not None:
        lines.append(f"output: {prompt.output.how} {compact(prompt.output.schema)}")
    lines += [show_block(block) for block in prompt.blocks]
    return "\n".join(lines)


def show_block(block: Block) -> str:
    """One block: role, kind where it is not text, and what it holds."""
    match block:
        case TextBlock():
            return f"{block.role}: {_indent_text(block.text)}"
        case ThoughtBlock():
            signed = " [signed]" if block.signature else ""
            return f"{block.role} thought{signed}: {_indent_text(block.text)}"
        case CallBlock():
            return f"{block.role} call {block.id}: {block.name}({compact(block.args)})"
        case ResultBlock():
            made_up = " [synthetic]" if block.synthetic else ""
            with_media = f" [+{len(block.media)} media]" if block.media else ""
            return (
                f"{block.role} result {block.call_id}{made_up}{with_media}:"
                f" {block.name} -> {compact(block.response)}"
            )
        case MediaBlock():
            value = block.uri if block.uri is not None else f"{len(block.data or '')} base64 chars"
            return f"{block.role} media: {block.mime_type} {value}"
        case CodeBlock():
            return f"{block.role} code {block.language}: {_indent_text(block.code)}"
        case CodeResultBlock():
            return f"{block.role} code result {block.outcome}: {_indent_text(block.output)}"
        case OpaqueBlock():
            return f"{block.role} opaque {block.provider}: {compact(block.payload)}"
        case _:
            assert_never(block)


def show_plainly(block: Block) -> str:
    """As `show_block`, but the one text of a result as it is sent, not as JSON."""
    if isinstance(block, ResultBlock) and len(block.response) == 1:
        only = next(iter(block.response.values()))
        if isinstance(only, str):
            return f"{block.role} result {block.call_id}: {block.name} -> {only}"
    return show_block(block)


def _indent_text(text: str) -> str:
    return text.replace("\n", "\n    ")


def verify(prompt: Prompt, *, step: str, before: Prompt | None = None) -> None:
    """Raise if the prompt breaks a law; what it shares with `before` was verified then."""
    shared = before is not None and before.items.memo is prompt.items.memo
    if before is None or before.system is not prompt.system:
        for block in prompt.system:
            if block.role != "system" or not block.text:
                raise _broken_pass_error(
                    step, f"a system block from {block.origin} is empty or misplaced"
                )
    items = prompt.items
    # with the same memo, the settled items are the very ones that were verified
    start = items.settled if shared or not items.settled else items.memo[_VerifiedCount].items
    for item in items.tail if start >= items.settled else items.since(start):
        # most items are one text: only their role can be wrong
        if len(item.blocks) == 1 and type(item.blocks[0]) is TextBlock:
            if item.blocks[0].role == "system" and item.kind != "system":
                raise _broken_pass_error(
                    step, f"a system block stands among the turns ({item.event})"
                )
        else:
            _verify_item(item, step)
    if start < items.settled:
        items.memo[_VerifiedCount].items = items.settled
    tools = prompt.tools
    same_tools = before is not None and before.tools is tools
    if not same_tools and len(set(map(_name, tools))) != len(tools):
        raise _broken_pass_error(step, "two tools have one name")


_name = attrgetter("name")


class _VerifiedCount(msgspec.Struct):
    """How many of a strand's settled items were verified."""

    items: int = 0

    def fork(self, length: int) -> "_VerifiedCount":
        return _VerifiedCount(min(self.items, length))


def _verify_item(item: Item, step: str) -> None:
    calls: dict[str, str] = {}
    answered: set[str] = set()
    paired = item.kind == "exchange"
    for block in item.blocks:
        if block.role == "system" and item.kind != "system":
            raise _broken_pass_error(step, f"a system block stands among the turns ({item.event})")
        if not paired:
            continue
        if isinstance(block, CallBlock):
            if block.id in calls:
                raise _broken_pass_error(
                    step, f"the call id {block.id} occurs twice ({item.event})"
                )
            if block.role != "model" or answered:
                raise _broken_pass_error(step, f"the call {block.id} is not in the model's turn")
            calls[block.id] = block.name
        elif isinstance(block, ResultBlock):
            if block.call_id not in calls or block.call_id in answered:
                raise _broken_pass_error(
                    step, f"the result of {block.call_id} has no call before it"
                )
            answered.add(block.call_id)
    if answered != set(calls):
        raise _broken_pass_error(step, f"a call of {item.event} has no result")


def _broken_pass_error(step: str, what: str) -> InvalidPrompt:
    return InvalidPrompt(
        what, where=f"pass {step}", hint="this is a bug in the pass, or in a callback's prompt"
    )
