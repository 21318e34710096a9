"""OpenAI Responses: a flat list of items, with reasoning taken along in sealed form."""

from collections.abc import Sequence
from typing import ClassVar

from weft.dialects.base import Dialect, Traits, system_placed
from weft.dialects.facts import wire_name
from weft.dialects.media import IMAGES, PDF, address, data_url, mime, missing, text_of
from weft.dialects.openai import (
    EFFORTS,
    choice,
    output_format,
    output_text,
    parameters,
    reasons,
)
from weft.dialects.options import put
from weft.dialects.sink import Sink
from weft.dialects.track import Entry, Placed, Wire
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
)
from weft.values import Json, compact

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
        name="openai-responses", turns="input", merges_turns=False, model_role="assistant"
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

    def head(self, prompt: Prompt, sink: Sink) -> tuple[Wire, tuple[Placed, ...]]:
        """Model, options, answer format, tools and instructions."""
        wire: Wire = {"model": wire_name(prompt.model), "store": False}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, sink)
        wanted: list[Json] = []
        if "thinking" in prompt.config or reasons(prompt.model):
            wanted.append("reasoning.encrypted_content")
        if prompt.config.get("logprobs"):
            wanted.append("message.output_text.logprobs")
        if wanted:
            held = wire.get("include")
            asked = held if isinstance(held, list) else []
            wire["include"] = [*asked, *(name for name in wanted if name not in asked)]
        if prompt.output is not None and prompt.output.how == "native":
            form = output_format(prompt.output, sink)
            put(wire, "text.format", {"type": "json_schema", **form})
            placed.append(Placed("/text/format", prompt.output.origin))
        if prompt.tools:
            tools: list[Json] = []
            for tool in prompt.tools:
                held_tool: Wire = {"type": "function", "name": tool.name}
                held_tool["description"] = tool.description
                held_tool["parameters"] = parameters(tool, sink)
                held_tool["strict"] = False
                tools.append(held_tool)
            self.put_tools(wire, tools)
            placed += self.tools_placed(prompt, "/tools")
        if prompt.system:
            wire["instructions"] = prompt.system_text
            placed.append(system_placed(prompt, "/instructions"))
        return wire, tuple(placed)

    def turn(self, role: Role, blocks: Sequence[Block], sink: Sink) -> list[Entry]:
        """Results and calls are items; what the user says together is one message."""
        if role == "user":
            blocks = sorted(blocks, key=lambda block: not isinstance(block, ResultBlock))
        entries: list[Entry] = []
        for block in blocks:
            part = self.part(block, sink)
            if part is None:
                continue
            if isinstance(block, (CallBlock, ResultBlock, OpaqueBlock)):
                entries.append(Entry(part, "", (("", block),)))
            elif role == "model":
                wire: Wire = {"role": "assistant", "content": part["text"]}
                entries.append(Entry(wire, "assistant", (("/content", block),)))
            elif entries and entries[-1].role == "user":
                entries[-1] = _with(entries[-1], part, block)
            else:
                entries.append(
                    _with(Entry({"role": "user", "content": []}, "user", ()), part, block)
                )
        return entries

    def spoken(self, block: TextBlock) -> Entry:
        """A message: the model's is plain text, the user's a list of parts."""
        if block.role == "model":
            wire: Wire = {"role": "assistant", "content": block.text}
            return Entry(wire, "assistant", (("/content", block),))
        said: Wire = {"role": "user", "content": [{"type": "input_text", "text": block.text}]}
        return Entry(said, "user", (("/content/0", block),))

    def text(self, block: TextBlock, sink: Sink) -> Wire:
        """A text part."""
        self.drop_signature(block, sink)
        return {"type": "input_text", "text": block.text}

    def thought(self, block: ThoughtBlock, sink: Sink) -> Wire | None:
        """Reasoning goes back as the sealed item it came as, not as text."""
        self.drop_signature(block, sink)
        return None

    def call(self, block: CallBlock, sink: Sink) -> Wire:
        """A function_call item; its arguments are text."""
        self.drop_signature(block, sink)
        wire: Wire = {"type": "function_call", "call_id": block.id, "name": block.name}
        return {**wire, "arguments": compact(block.args)}

    def result(self, block: ResultBlock, sink: Sink) -> Wire:
        """A function_call_output item: text, or text and media."""
        wire: Wire = {"type": "function_call_output", "call_id": block.call_id}
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
        if block.role == "user":
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


def _with(entry: Entry, part: Wire, block: Block) -> Entry:
    """The message with one more part."""
    content = entry.wire["content"]
    assert isinstance(content, list)
    wire: Wire = {**entry.wire, "content": [*content, part]}
    return Entry(wire, entry.role, (*entry.blocks, (f"/content/{len(content)}", block)))
