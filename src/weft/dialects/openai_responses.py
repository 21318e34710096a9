"""OpenAI Responses: a flat list of items, with reasoning taken along in sealed form."""

from collections.abc import Sequence
from typing import ClassVar

from weft.dialects.abilities import EFFORTS
from weft.dialects.base import Dialect, Spelling, Traits, system_placed
from weft.dialects.caching import mark_item, name_prefix
from weft.dialects.facts import facts_for, wire_name
from weft.dialects.media import IMAGES, PDF, address, data_url, mime, missing, takes, text_of
from weft.dialects.openai import (
    NO_TEXT,
    arguments,
    choice,
    is_shut_out,
    output_format,
    output_text,
    reasons,
)
from weft.dialects.openai_items import (
    SEALED,
    answered_by_kind,
    gathered,
    is_readable,
    is_reasoning,
    loosened,
    message,
    reasoning,
)
from weft.dialects.options import Option, put
from weft.dialects.sink import Sink
from weft.dialects.track import Entry, Placed, Track, Wire
from weft.ir import (
    Block,
    CallBlock,
    MediaBlock,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.values import Json

_OFFICE = "application/vnd.openxmlformats-officedocument."
_FILES = {
    PDF: "pdf",
    f"{_OFFICE}wordprocessingml.document": "docx",
    f"{_OFFICE}presentationml.presentation": "pptx",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
}


def _thinking(wire: Wire, value: Json) -> list[str]:
    missed: list[str] = []
    for name, given in value.items() if isinstance(value, dict) else ():
        if name == "effort" and given in EFFORTS:
            put(wire, "reasoning.effort", given)
        elif name == "include":
            if given:
                put(wire, "reasoning.summary", "auto")
        else:
            missed.append(f"thinking.{name}")
    return missed


def _tool_choice(wire: Wire, value: Json) -> None:
    if isinstance(value, dict):
        wire["tool_choice"] = {"type": "function", "name": value.get("name")}
    else:
        wire["tool_choice"] = choice(value)


def _logprobs(wire: Wire, value: Json) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        wire["top_logprobs"] = value


class OpenAIResponses(Dialect):
    """System is a field, calls and results are items of their own, nothing is stored."""

    traits = Traits(
        name="openai-responses",
        turns="input",
        merges_turns=False,
        model_role="assistant",
        schemas="openai",
        sealed=SEALED,
        ids=Spelling(NO_TEXT, 64),
    )
    options: ClassVar = {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_output_tokens": "max_output_tokens",
        "logprobs": _logprobs,
        "thinking": _thinking,
        "tool_choice": _tool_choice,
        "parallel_tool_calls": "parallel_tool_calls",
        "service_tier": "service_tier",
        "user": "user",
    }

    def option(self, name: str, prompt: Prompt) -> "Option | None":
        """Models that think take no temperature and its kin."""
        return None if is_shut_out(name, prompt) else super().option(name, prompt)

    def head(self, prompt: Prompt, sink: Sink) -> tuple[Wire, tuple[Placed, ...]]:
        """Model, options, answer format, tools and instructions."""
        wire: Wire = {"model": wire_name(prompt.model), "store": False}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, sink)
        wanted: list[Json] = []
        kept_nowhere = wire.get("store") is False
        told = "thinking" in prompt.config and facts_for(prompt.model).thinks
        if kept_nowhere and (told or reasons(prompt.model)):
            wanted.append("reasoning.encrypted_content")
        if prompt.config.get("logprobs"):
            wanted.append("message.output_text.logprobs")
        if wanted and wire.get("include", ()) is not None:
            held = wire.get("include")
            asked = held if isinstance(held, list) else []
            wire["include"] = [*asked, *(name for name in wanted if name not in asked)]
        if prompt.output is not None and prompt.output.how == "native":
            form = output_format(prompt.output, sink)
            put(wire, "text.format", {"type": "json_schema", **form})
            placed.append(Placed("/text/format", prompt.output.origin))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, sink)
        if prompt.system:
            wire["instructions"] = prompt.system_text
            placed.append(system_placed(prompt, "/instructions"))
        name_prefix(wire, prompt)
        return wire, tuple(placed)

    def keep(self, prompt: Prompt, wire: Wire, track: Track, lasting: list[Entry]) -> Wire:
        """A mark before what is said once; else the provider's own mark stands at the end."""
        last, cache = prompt.items.tip, facts_for(prompt.model).cache
        if last is None or last.kind != "system" or not (cache.keyed and cache.breakpoints):
            return wire
        return mark_item(wire, self.traits.turns, len(track.final) + len(lasting) - 1)

    def declaration(self, tool: ToolDecl, sink: Sink) -> Wire:
        """A function; not strict, which would make every one of its parameters required."""
        wire: Wire = {"type": "function", "name": tool.name, "description": tool.description}
        return {**wire, "parameters": self.parameters(tool, sink), "strict": False}

    def turn(self, role: Role, blocks: Sequence[Block], sink: Sink) -> list[Entry]:
        """Results and calls are items; what the user says together is one message."""
        if role == "model":
            return self._model_turn(blocks, sink)
        if role == "user":
            blocks = sorted(blocks, key=lambda block: not isinstance(block, ResultBlock))
        entries: list[Entry] = []
        for block in blocks:
            part = self.part(block, sink)
            if part is None:
                continue
            if isinstance(block, (CallBlock, ResultBlock)) or _stands_alone(block):
                entries.append(Entry(part, "", (("", block),)))
            elif "role" in part:
                entries.append(Entry(part, str(part["role"]), (("/content", block),)))
            elif entries and entries[-1].role == "user":
                entries[-1] = _with(entries[-1], part, block)
            else:
                entries.append(
                    _with(Entry({"role": "user", "content": []}, "user", ()), part, block)
                )
        return entries

    def _model_turn(self, blocks: Sequence[Block], sink: Sink) -> list[Entry]:
        """An answer's items as they came, or loosened where their reasoning cannot go along."""
        loose = any(is_reasoning(block) and not self._returns(block, sink) for block in blocks)
        entries: list[Entry] = []
        for block in blocks:
            held: Block | None = block
            if block.provider == self.traits.name and not is_reasoning(block):
                foreign = not self.own(block, sink) and not isinstance(block, OpaqueBlock)
                held = loosened(block) if loose or foreign else block
            if held is None:
                self.drop_foreign(block, sink, what="part without its reasoning")
                continue
            part = self.part(held, sink)
            if part is None:
                continue
            if isinstance(block, (CallBlock, ThoughtBlock, OpaqueBlock)):
                entries.append(Entry(part, "", (("", block),)))
            elif "role" in part:
                entries.append(Entry(part, "assistant", (("/content/0", block),)))
            else:
                wire: Wire = {"role": "assistant", "content": part.pop("text")}
                if "phase" in part:
                    wire["phase"] = part["phase"]
                entries.append(Entry(wire, "assistant", (("/content", block),)))
        while entries and entries[-1].wire.get("type") == "reasoning":
            what = "reasoning that led to nothing cannot go back"
            sink.said("WEFT704", entries.pop().blocks[0][1].origin, what)
        return gathered(entries)

    def _item(self, blocks: tuple[Block, ...], sink: Sink) -> list[Entry]:
        return answered_by_kind(super()._item(blocks, sink))

    def _returns(self, block: Block, sink: Sink) -> bool:
        """Whether reasoning goes back: to the model it is sealed for, with all that was thought."""
        return self.own(block, sink) and (sink.held or is_readable(block))

    def holds(self, prompt: Prompt) -> bool:
        """Only where `extra` takes back that nothing is stored."""
        extra = prompt.config.get("extra")
        own = extra.get(self.traits.name) if isinstance(extra, dict) else None
        return isinstance(own, dict) and own.get("store", False) is not False

    def spoken(self, block: TextBlock) -> Entry:
        """A message: the model's is plain text, the user's a list of parts."""
        if block.role == "model":
            wire: Wire = {"role": "assistant", "content": block.text}
            return Entry(wire, "assistant", (("/content", block),))
        said: Wire = {"role": "user", "content": [{"type": "input_text", "text": block.text}]}
        return Entry(said, "user", (("/content/0", block),))

    def text(self, block: TextBlock, sink: Sink) -> Wire:
        """A text part; the author's word is an item of its own."""
        self.drop_signature(block, sink)
        if block.role == "system":
            return {"role": "system", "content": block.text}
        return {"type": "input_text", "text": block.text}

    def thought(self, block: ThoughtBlock, sink: Sink) -> Wire | None:
        """Reasoning goes back as the sealed item it came as, not as text."""
        if self._returns(block, sink):
            return reasoning(block)
        if block.signature or self.has_kept(block) or not self.own(block, sink):
            self._drop_reasoning(block, sink)
        return None

    def opaque(self, block: OpaqueBlock, sink: Sink) -> Wire | None:
        """An item of the provider's own; it does not take back who caused it."""
        if is_reasoning(block) and not self._returns(block, sink):
            self._drop_reasoning(block, sink)
            return None
        payload = super().opaque(block, sink)
        if payload is None or "created_by" not in payload:
            return payload
        return {key: value for key, value in payload.items() if key != "created_by"}

    def _drop_reasoning(self, block: Block, sink: Sink) -> None:
        if self.own(block, sink):
            sink.said("WEFT704", block.origin, "reasoning cannot go back without its seal")
        else:
            signed = isinstance(block, ThoughtBlock) and block.signature
            thought = isinstance(block, ThoughtBlock)
            what = "signature" if signed else "thought" if thought or block.kept else "part"
            self.drop_foreign(block, sink, what=what)

    def with_kept(self, wire: Wire, block: Block) -> Wire:
        """The item with its provider's own fields; a text stands in the message it came in."""
        kept = block.kept or {}
        if isinstance(block, CallBlock):
            return {**wire, **{key: kept[key] for key in kept if key != "arguments"}}
        if isinstance(block, TextBlock) and block.role == "model" and "message" in kept:
            return message(block.text, kept)
        return super().with_kept(wire, block)

    def call(self, block: CallBlock, sink: Sink) -> Wire:
        """A function_call item; its arguments are text."""
        self.drop_signature(block, sink)
        kind = (block.kept or {}).get("type", "function_call")
        called: Wire = {"type": "function_call", "call_id": self.id_of(block.id, sink)}
        wire: Wire = {**called, "name": self.name_of(block, sink)}
        if self.has_kept(block) and kind == "custom_tool_call":
            return {**wire, "type": kind, "input": block.args.get("input")}
        return {**wire, "arguments": arguments(block, self.traits.name)}

    def result(self, block: ResultBlock, sink: Sink) -> Wire:
        """A function_call_output item: text, or text and media."""
        wire: Wire = {"type": "function_call_output", "call_id": self.id_of(block.call_id, sink)}
        text = output_text(block)
        if not block.media:
            return {**wire, "output": text}
        said: list[Json] = [{"type": "input_text", "text": text}] if text.strip() else []
        return {**wire, "output": said + [self.media(media, sink) for media in block.media]}

    def media(self, block: MediaBlock, sink: Sink) -> Wire:
        """An image or a file; the model's own turn takes text only."""
        kind, url = mime(block), address(block)
        if (text := text_of(block)) is not None:
            return {"type": "input_text", "text": text}
        if block.role == "user" and takes(kind, sink.model):
            if kind in IMAGES and block.data:
                return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
            if kind.startswith("image/") and url:
                return {"type": "input_image", "image_url": url, "detail": "auto"}
            if kind in _FILES and block.data:
                name = block.name or f"document.{_FILES[kind]}"
                return {"type": "input_file", "filename": name, "file_data": data_url(block)}
            if url and (kind in _FILES or kind.startswith("text/")):
                return {"type": "input_file", "file_url": url}
        return {"type": "input_text", "text": missing(block, sink)}


def _stands_alone(block: Block) -> bool:
    """Whether this is an item of the provider's own, and not a part of what the user says."""
    return isinstance(block, OpaqueBlock) and not str(block.payload.get("type")).startswith(
        "input_"
    )


def _with(entry: Entry, part: Wire, block: Block) -> Entry:
    """The message with one more part."""
    content = entry.wire["content"]
    assert isinstance(content, list)
    wire: Wire = {**entry.wire, "content": [*content, part]}
    return Entry(wire, entry.role, (*entry.blocks, (f"/content/{len(content)}", block)))
