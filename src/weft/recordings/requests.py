"""A provider's request read back into the prompt that lowers to it.

What Weft has no name for is kept with the block, tool or option it stood at, so that lowering the
prompt gives the request again.
"""

from collections.abc import Sequence
from copy import deepcopy

import msgspec

from weft.compiler.parts import blocks_of
from weft.content import Content, opaque_part
from weft.diagnostics import Origin
from weft.dialects import Dialect, dialect_named
from weft.dialects.track import LoweringReport
from weft.dialects.wire import ReadOutput, ReadPart, ReadTool, ReadTurn, difference
from weft.ir import Block, Feature, Item, Output, Prompt, Role, TextBlock, ToolDecl
from weft.ir.block import ItemKind
from weft.session import Event
from weft.session.provenance import Provenance
from weft.session.strand import Strand
from weft.values import JsonObject

_AGENT = "request"

_ROUNDS = 3


def read_request(dialect: str, wire: JsonObject, model: str = "") -> Prompt:
    """The prompt that a request in this dialect is; `model` where the request does not name it."""
    target = dialect_named(dialect)
    spelled = target.spell(wire)
    named = spelled.get("model")
    name = named if isinstance(named, str) else model
    reader = RequestReader(target, name)
    reading = target.read(spelled)
    turns = target.traits.turns
    items = [reader.item(turn, f"{turns}/{at}", at) for at, turn in enumerate(reading.turns)]
    system = [reader.block(one, "system", f"system/{at}") for at, one in enumerate(reading.system)]
    prompt = Prompt(
        model=name,
        agent=_AGENT,
        system=tuple(block for block in system if isinstance(block, TextBlock)),
        items=Strand(item for item in items if item.blocks),
        tools=tuple(map(reader.tool, reading.tools)),
        config={**reading.config},
        output=_output(reading.output, dialect),
        features=Feature.CALLS if any(item.kind == "calls" for item in items) else Feature.NONE,
    )
    return _with_extra(prompt, target, spelled, reading.places)


def _with_extra(
    prompt: Prompt, dialect: Dialect, wire: JsonObject, places: Sequence[str]
) -> Prompt:
    """The prompt with all the options the request has and Weft has no name for, and only those."""
    name = dialect.traits.name
    extra: JsonObject = {}
    for _ in range(_ROUNDS):  # an option may bring another with it: look again
        head, _placed = dialect.head(
            prompt, LoweringReport(dialect=name, strict=False, model=prompt.model)
        )
        missing = difference(_without(head, places), _without(wire, places))
        if not missing:
            break
        extra = _merge_objects(extra, missing)
        config = {**prompt.config, "extra": {name: extra}}
        prompt = msgspec.structs.replace(prompt, config=config)
    return prompt


def _merge_objects(one: JsonObject, other: JsonObject) -> JsonObject:
    merged = {**one}
    for key, value in other.items():
        below = merged.get(key)
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = _merge_objects(below, value) if both else value  # type: ignore[arg-type]
    return merged


def _without(wire: JsonObject, places: Sequence[str]) -> JsonObject:
    rest = deepcopy({key: value for key, value in wire.items() if key not in places})
    for place in places:
        *above, last = place.split(".")
        inner = rest
        for key in above:
            below = inner.get(key)
            inner = below if isinstance(below, dict) else {}
        inner.pop(last, None)
    return rest


def _output(output: ReadOutput | None, dialect: str) -> Output | None:
    if output is None:
        return None
    return Output(
        schema=output.schema,
        how="native",
        name=output.name,
        origin=Origin("field", "output_schema"),
        provider=dialect,
        kept=output.beside or None,
    )


class RequestReader:
    """One request on its way back: it knows whose words it reads, and for which model."""

    def __init__(self, dialect: Dialect, model: str) -> None:
        self.dialect = dialect
        self.name = dialect.traits.name
        self.model = model
        self.sink = LoweringReport(dialect=self.name, strict=False, model=model, stores=True)

    def item(self, turn: ReadTurn, event: str, position: int) -> Item:
        """What one side said together, as an item."""
        blocks = [
            self.block(read_part, turn.role, event, part=at, position=position)
            for at, read_part in enumerate(turn.parts)
        ]
        return Item(
            kind=_kind(turn),
            blocks=tuple(blocks),
            author="user" if turn.role == "user" else turn.role,
            invocation="",
            position=position,
            last=position,
            event=event,
        )

    def block(
        self, read_part: ReadPart, role: Role, event: str, *, part: int = 0, position: int = 0
    ) -> Block:
        """A part as a block that lowers to what it was read from."""
        block = self._read(read_part, role, event, position)
        origin = Origin("event", event, role, part=part)
        wire = read_part.wire
        if wire is None:
            assert block is not None
            return msgspec.structs.replace(block, origin=origin)
        # lowered at once, to see what of the wire form the block does not hold
        spelled = self.dialect.part(block, self.sink) if block is not None else None
        self.sink.take()
        if block is None or spelled is None:
            block = self._read(ReadPart(opaque_part(self.name, wire), wire), role, event, position)
            assert block is not None
            spelled = wire
        extra = difference(spelled, wire)
        if extra or read_part.apart:
            fields = _merge_objects(block.kept or {}, extra)
            return msgspec.structs.replace(block, origin=origin, provider=self.name, kept=fields)
        return msgspec.structs.replace(block, origin=origin)

    def _read(self, read_part: ReadPart, role: Role, event: str, position: int) -> Block | None:
        """The block of a part, made as the parts of a session's events are."""
        maker = Provenance(provider=self.name, model=self.model)
        event_read = Event(
            author=_AGENT,
            id=event,
            content=Content(parts=(read_part.part,), role=role),
            custom_metadata=maker.onto(None) if role == "model" else None,
            timestamp=0.0,
        )
        blocks = blocks_of(event_read, position, role, [])
        return blocks[0] if blocks else None

    def beside(self, read_part: ReadPart, role: Role) -> JsonObject:
        """What the request says next to a part, and a part has no field for."""
        return self.block(read_part, role, "read").kept or {}

    def tool(self, read_tool: ReadTool) -> ToolDecl:
        """A tool as it is declared, with what its provider said of it."""
        origin = Origin("tool", read_tool.name)
        if read_tool.own:
            return ToolDecl(read_tool.name, "", {}, origin, provider=self.name, own=read_tool.wire)
        tool = ToolDecl(
            read_tool.name,
            read_tool.description,
            read_tool.parameters or {},
            origin,
            provider=self.name,
        )
        spelled = self.dialect.declaration(tool, self.sink)
        self.sink.take()
        return msgspec.structs.replace(tool, kept=difference(spelled, read_tool.wire) or None)


def _kind(turn: ReadTurn) -> ItemKind:
    kinds = {read_part.part.kind for read_part in turn.parts}
    if "call" in kinds:
        return "calls"
    if "result" in kinds:
        return "results"
    return turn.role
