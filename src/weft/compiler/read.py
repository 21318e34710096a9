"""Read a provider's request back: any request becomes a prompt, and lowers to the same again.

It is how a conversation that another program held goes on in Weft, and how a request can be
explained, checked, or put to another provider. What is understood becomes blocks, tools and
options. Every piece is lowered once more; what lowering would not give back is kept with it, for
that provider alone.
"""

from collections.abc import Sequence
from copy import deepcopy

import msgspec

from weft.compiler.blocks import blocks_of
from weft.content import Content, opaque_part
from weft.diagnostics import Origin
from weft.dialects import Dialect, dialect_named
from weft.dialects.read import Given, GivenOutput, GivenTool, Turn, difference, read, spelled
from weft.dialects.sink import Sink
from weft.ir import Block, Feature, Item, Output, Prompt, Role, TextBlock, ToolDecl
from weft.ir.item import ItemKind
from weft.session import Event
from weft.values import JsonObject, Strand

_AGENT = "request"
_ROUNDS = 3


def read_request(dialect: str, wire: JsonObject, model: str = "") -> Prompt:
    """The prompt that a request in this dialect is; `model` where the request does not name it."""
    target = dialect_named(dialect)
    given = spelled(dialect, wire)
    named = given.get("model")
    name = named if isinstance(named, str) else model
    reader = _Reader(target, name)
    reading = read(dialect, given)
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
    return _with_extra(prompt, target, given, reading.places)


def _with_extra(
    prompt: Prompt, dialect: Dialect, given: JsonObject, places: Sequence[str]
) -> Prompt:
    """The prompt with all the options the request has and Weft has no name for, and only those."""
    name = dialect.traits.name
    extra: JsonObject = {}
    for _ in range(_ROUNDS):  # an option may bring another with it: look again
        made, _placed = dialect.head(prompt, Sink(dialect=name, strict=False, model=prompt.model))
        missing = difference(_without(made, places), _without(given, places))
        if not missing:
            break
        extra = _merged(extra, missing)
        config = {**prompt.config, "extra": {name: extra}}
        prompt = msgspec.structs.replace(prompt, config=config)
    return prompt


def _merged(one: JsonObject, other: JsonObject) -> JsonObject:
    merged = {**one}
    for key, value in other.items():
        held = merged.get(key)
        both = isinstance(held, dict) and isinstance(value, dict)
        merged[key] = _merged(held, value) if both else value  # type: ignore[arg-type]
    return merged


def _without(wire: JsonObject, places: Sequence[str]) -> JsonObject:
    held = deepcopy({key: value for key, value in wire.items() if key not in places})
    for place in places:
        *above, last = place.split(".")
        inner = held
        for key in above:
            below = inner.get(key)
            inner = below if isinstance(below, dict) else {}
        inner.pop(last, None)
    return held


def _output(given: GivenOutput | None, dialect: str) -> Output | None:
    if given is None:
        return None
    return Output(
        schema=given.schema,
        how="native",
        name=given.name,
        origin=Origin("field", "output_schema"),
        provider=dialect,
        kept=given.kept or None,
    )


class _Reader:
    """One request on its way back: it knows whose words it reads, and for which model."""

    def __init__(self, dialect: Dialect, model: str) -> None:
        self.dialect = dialect
        self.name = dialect.traits.name
        self.model = model
        self.sink = Sink(dialect=self.name, strict=False, model=model, held=True)

    def item(self, turn: Turn, event: str, position: int) -> Item:
        """What one side said together, as an item."""
        found = [
            self.block(given, turn.role, event, part=at, position=position)
            for at, given in enumerate(turn.parts)
        ]
        return Item(
            kind=_kind(turn),
            blocks=tuple(found),
            author="user" if turn.role == "user" else turn.role,
            invocation="",
            position=position,
            last=position,
            event=event,
        )

    def block(
        self, given: Given, role: Role, event: str, *, part: int = 0, position: int = 0
    ) -> Block:
        """A part as a block that lowers to what it was read from."""
        block = self._read(given, role, event, position)
        origin = Origin("event", event, role, part=part)
        wire = given.wire
        if wire is None:
            assert block is not None
            return msgspec.structs.replace(block, origin=origin)
        made = self.dialect.part(block, self.sink) if block is not None else None
        self.sink.taken()
        if block is None or made is None:
            block = self._read(Given(opaque_part(self.name, wire), wire), role, event, position)
            assert block is not None
            made = wire
        kept = difference(made, wire)
        if kept or given.apart:
            held = _merged(block.kept or {}, kept)
            return msgspec.structs.replace(block, origin=origin, provider=self.name, kept=held)
        return msgspec.structs.replace(block, origin=origin)

    def _read(self, given: Given, role: Role, event: str, position: int) -> Block | None:
        """The block of a part, made as the parts of a session's events are."""
        maker: JsonObject = {"provider": self.name, "model": self.model}
        said = Event(
            author=_AGENT,
            id=event,
            content=Content(parts=(given.part,), role=role),
            custom_metadata={"weft": maker} if role == "model" else None,
            timestamp=0.0,
        )
        blocks = blocks_of(said, position, role, [])
        return blocks[0] if blocks else None

    def tool(self, given: GivenTool) -> ToolDecl:
        """A tool as it is declared, with what its provider said beside."""
        origin = Origin("tool", given.name)
        if given.own:
            return ToolDecl(given.name, "", {}, origin, provider=self.name, own=given.wire)
        tool = ToolDecl(
            given.name, given.description, given.parameters or {}, origin, provider=self.name
        )
        made = self.dialect.declaration(tool, self.sink)
        self.sink.taken()
        return msgspec.structs.replace(tool, kept=difference(made, given.wire) or None)


def _kind(turn: Turn) -> ItemKind:
    kinds = {given.part.kind for given in turn.parts}
    if "call" in kinds:
        return "calls"
    if "result" in kinds:
        return "results"
    return turn.role
