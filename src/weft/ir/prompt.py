"""A prompt: one request as a frozen value, before it is spelled for a provider."""

from typing import Literal

import msgspec

from weft.diagnostics import Diagnostic, Origin
from weft.ir.block import Block, TextBlock
from weft.ir.item import Item, Note, Want
from weft.values import JsonObject, Strand


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
    """What stood beside the schema there and only this provider understands."""


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
    notes: tuple[Note, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    cache: str = ""
    """Whether to ask the provider to keep what it reads: empty, `on`, or for how long."""
    wants: tuple[Want, ...] = ()
    """What a model is to be asked before this is as it should be; until then passes do without."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks in the order they are sent."""
        return (*self.system, *(block for item in self.items for block in item.blocks))

    @property
    def system_text(self) -> str:
        """The system instruction as one string."""
        return "\n\n".join(block.text for block in self.system)

    def with_items(
        self,
        items: list[Item],
        notes: list[Note] | tuple[Note, ...] = (),
        diagnostics: list[Diagnostic] | tuple[Diagnostic, ...] = (),
    ) -> "Prompt":
        """A copy with these items, and what there is to say about the change."""
        return msgspec.structs.replace(
            self,
            items=Strand(items),
            notes=(*self.notes, *notes),
            diagnostics=(*self.diagnostics, *diagnostics),
        )

    def __str__(self) -> str:
        from weft.ir.show import show

        return show(self)
