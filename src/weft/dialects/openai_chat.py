"""OpenAI Chat Completions, and every server that speaks it: system is a turn, results a role."""

from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

import msgspec

from weft.diagnostics import Severity
from weft.dialects.abilities import EFFORTS
from weft.dialects.base import Dialect, Spelling, Traits, system_placed
from weft.dialects.caching import name_prefix
from weft.dialects.facts import wire_name
from weft.dialects.media import IMAGES, PDF, address, data_url, mime, missing, takes, text_of
from weft.dialects.openai import (
    GAP,
    NO_TEXT,
    arguments,
    choice,
    is_openai,
    is_shut_out,
    joined,
    output_format,
    output_text,
)
from weft.dialects.options import Option, deep_update
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
    ToolDecl,
)
from weft.values import Json

_AUDIO = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def _thinking(wire: Wire, value: Json) -> list[str]:
    missed: list[str] = []
    for name, given in value.items() if isinstance(value, dict) else ():
        if name == "effort" and given in EFFORTS:
            wire["reasoning_effort"] = given
        else:
            missed.append(f"thinking.{name}")
    return missed


def _tool_choice(wire: Wire, value: Json) -> None:
    if isinstance(value, dict):
        wire["tool_choice"] = {"type": "function", "function": {"name": value.get("name")}}
    else:
        wire["tool_choice"] = choice(value)


def _logprobs(wire: Wire, value: Json) -> None:
    wire["logprobs"] = value if isinstance(value, bool) else True
    if not isinstance(value, bool):
        wire["top_logprobs"] = value


class OpenAIChat(Dialect):
    """System is a turn, tool results have their own role and are text."""

    traits = Traits(
        name="openai-chat",
        turns="messages",
        merges_turns=False,
        model_role="assistant",
        schemas="openai",
        ids=Spelling(NO_TEXT, 40),
    )
    options: ClassVar = {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_output_tokens": "max_tokens",
        "stop_sequences": "stop",
        "seed": "seed",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "logprobs": _logprobs,
        "thinking": _thinking,
        "tool_choice": _tool_choice,
        "parallel_tool_calls": "parallel_tool_calls",
        "service_tier": "service_tier",
        "user": "user",
    }

    def option(self, name: str, prompt: Prompt) -> "Option | None":
        """OpenAI renamed the limit; the servers that speak its format did not."""
        if is_shut_out(name, prompt):
            return None
        if name == "max_output_tokens" and is_openai(prompt.model):
            return "max_completion_tokens"
        return super().option(name, prompt)

    def head(self, prompt: Prompt, sink: Sink) -> tuple[Wire, tuple[Placed, ...]]:
        """Model, options, answer format and tools."""
        wire: Wire = {"model": wire_name(prompt.model)}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, sink)
        if prompt.output is not None and prompt.output.how == "native":
            held = output_format(prompt.output, sink)
            wire["response_format"] = {"type": "json_schema", "json_schema": held}
            placed.append(Placed("/response_format", prompt.output.origin))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, sink)
        if any(map(self.has_kept, prompt.system)):
            spot = "/messages/{}/content"
            placed += [Placed(spot.format(at), (one,)) for at, one in enumerate(prompt.system)]
        elif prompt.system:
            placed.append(system_placed(prompt, "/messages/0/content"))
        name_prefix(wire, prompt)
        return wire, tuple(placed)

    def declaration(self, tool: ToolDecl, sink: Sink) -> Wire:
        """A function; not strict, which would make every one of its parameters required."""
        function: Wire = {"name": tool.name, "description": tool.description}
        function["parameters"] = self.parameters(tool, sink)
        return {"type": "function", "function": function}

    def lead(self, prompt: Prompt) -> list[Entry]:
        """The system text as the first turn, or as the turns it was read from."""
        if not prompt.system:
            return []
        if any(map(self.has_kept, prompt.system)):
            sink = Sink(dialect=self.traits.name, strict=False)
            return self.turn("system", prompt.system, sink)
        return [Entry({"role": "system", "content": prompt.system_text}, "system", ())]

    def turn(self, role: Role, blocks: Sequence[Block], sink: Sink) -> list[Entry]:
        """One message of the model's; of the user's, results first and then one message."""
        if role == "model":
            return self._model_turn(blocks, sink)
        entries: list[Entry] = []
        shown: list[tuple[Wire, Block]] = []
        said: list[tuple[Wire, Block]] = []
        fields: Wire = {}
        for block in blocks:
            part = self.part(block, sink)
            if part is None:
                continue
            if isinstance(block, ResultBlock):
                entries.append(Entry(part, "tool", (("", block),)))
                shown += self._shown(block, sink)
            elif "role" in part:
                entries.append(Entry(part, str(part["role"]), (("/content", block),)))
            elif "type" in part:
                said.append((part, block))
            else:
                fields |= part
        if shown or said:
            message = self._message("user", shown + said)
            entries.append(Entry(message.wire | fields, "user", message.blocks, message.joined))
        return entries

    def spoken(self, block: TextBlock) -> Entry:
        """A message whose content is the text itself."""
        role = self.traits.model_role if block.role == "model" else "user"
        return Entry({"role": role, "content": block.text}, role, (("/content", block),))

    def _model_turn(self, blocks: Sequence[Block], sink: Sink) -> list[Entry]:
        said: list[tuple[Wire, Block]] = []
        calls: list[Json] = []
        own: Wire = {}
        sources: list[tuple[str, Block]] = []
        for made in blocks:
            block = self._for_anyone(made, sink)
            part = self.part(block, sink)
            if part is None:
                continue
            if isinstance(block, CallBlock):
                sources.append((f"/tool_calls/{len(calls)}", block))
                calls.append(part)
            elif "type" in part:
                said.append((part, block))
            else:
                sources += [(f"/{key}", block) for key in part]
                own.update(part)
        if not said and all(isinstance(block, ThoughtBlock) for _, block in sources):
            return []
        wire: Wire = {"role": "assistant"}
        if "content" not in own:
            wire["content"] = None
        pieces: tuple[tuple[int, Block], ...] = ()
        if said:
            text = self._message("assistant", said)
            wire["content"] = text.wire["content"]
            sources = [*text.blocks, *sources]
            pieces = text.joined
        if calls:
            wire["tool_calls"] = calls
        return [Entry({**own, **wire}, "assistant", tuple(sources), pieces)]

    def _shown(self, result: ResultBlock, sink: Sink) -> list[tuple[Wire, Block]]:
        """What a result shows, after a line that says whose it is."""
        if not result.media:
            return []
        sink.said(
            "WEFT703",
            result.origin,
            f"the media of {result.name} follows its result in a user message",
            severity=Severity.INFO,
        )
        label: Wire = {"type": "text", "text": f"[shown by {result.name}]:"}
        return [(label, result), *((self.media(media, sink), media) for media in result.media)]

    def _message(self, role: str, said: Sequence[tuple[Wire, Block]]) -> Entry:
        """A message: one text where it is only text, which every server takes, else parts."""
        texts = [(str(part["text"]), block) for part, block in said if _is_text(part)]
        if len(texts) == len(said) and not any(self.has_kept(block) for _, block in said):
            if len(said) == 1:
                text, block = texts[0]
                return Entry({"role": role, "content": text}, role, (("/content", block),))
            whole = joined(texts)
            ends = accumulate(len(text) + len(GAP) for text, _ in texts)
            pieces = tuple((end - len(GAP), one) for end, (_, one) in zip(ends, texts, strict=True))
            wire: Wire = {"role": role, "content": whole.text}
            return Entry(wire, role, (("/content", whole),), pieces)
        sources = tuple((f"/content/{index}", block) for index, (_, block) in enumerate(said))
        return Entry({"role": role, "content": [part for part, _ in said]}, role, sources)

    def text(self, block: TextBlock, sink: Sink) -> Wire:
        """A text part; the author's word is a turn of its own."""
        self.drop_signature(block, sink)
        if block.role == "system":
            return {"role": "system", "content": block.text}
        return {"type": "text", "text": block.text}

    def thought(self, block: ThoughtBlock, sink: Sink) -> Wire | None:
        """Back to the model whose server gave it a field; no other thought goes back."""
        if self.has_kept(block) and self.own(block, sink):
            return {}
        if block.signature and not self.has_kept(block):
            self.drop_signature(block, sink)
        elif not self.own(block, sink):
            self.drop_foreign(block, sink, what="thought")
        return None

    def opaque(self, block: OpaqueBlock, sink: Sink) -> Wire | None:
        """Fields beside the content, or a part of it: the server's that made them."""
        if self.own(block, sink):
            return block.payload
        self.drop_foreign(block, sink)
        return None

    def _for_anyone(self, block: Block, sink: Sink) -> Block:
        """The block; what only its own model's server understands goes to no other model."""
        if not isinstance(block, (TextBlock, CallBlock)) or not self.has_kept(block):
            return block
        if self.own(block, sink):
            return block
        kept = block.kept or {}
        anyones = {key: value for key, value in kept.items() if key in ("arguments", "type")}
        if kept.get("said_in") == ["refusal"]:
            anyones["said_in"] = ["refusal"]
        if len(anyones) < len(kept):
            self.drop_foreign(block, sink, what="field")
        return msgspec.structs.replace(block, kept=anyones or None)

    def with_kept(self, wire: Wire, block: Block) -> Wire:
        """The part in its server's form: a text may stand in fields beside the content."""
        held = block.kept or {}
        if isinstance(block, CallBlock):
            held = {key: value for key, value in held.items() if key not in ("arguments", "type")}
            deep_update(wire, held)
            return wire
        names = held.get("said_in")
        if not isinstance(names, list) or not isinstance(block, (TextBlock, ThoughtBlock)):
            return super().with_kept(wire, block)
        fields: Wire = {str(name): block.text for name in names}
        return {**fields, **{key: value for key, value in held.items() if key != "said_in"}}

    def call(self, block: CallBlock, sink: Sink) -> Wire:
        """An element of tool_calls; its arguments are text."""
        self.drop_signature(block, sink)
        if self.has_kept(block) and (block.kept or {}).get("type") == "custom":
            custom: Wire = {"name": self.name_of(block, sink), "input": block.args.get("input")}
            return {"id": self.id_of(block.id, sink), "type": "custom", "custom": custom}
        text = arguments(block, self.traits.name)
        function: Wire = {"name": self.name_of(block, sink), "arguments": text}
        return {"id": self.id_of(block.id, sink), "type": "function", "function": function}

    def result(self, block: ResultBlock, sink: Sink) -> Wire:
        """A turn of role tool."""
        call_id = self.id_of(block.call_id, sink)
        return {"role": "tool", "tool_call_id": call_id, "content": output_text(block)}

    def media(self, block: MediaBlock, sink: Sink) -> Wire:
        """An image, a sound or a PDF; the model's own turn takes text only."""
        kind, url = mime(block), address(block)
        if (text := text_of(block)) is not None:
            return {"type": "text", "text": text}
        readable = block.role == "user" and takes(kind, sink.model)
        if readable and kind.startswith("image/") and url:
            return {"type": "image_url", "image_url": {"url": url}}
        if readable and block.data:
            if kind in IMAGES:
                return {"type": "image_url", "image_url": {"url": data_url(block)}}
            if kind in _AUDIO:
                sound: Wire = {"data": block.data, "format": _AUDIO[kind]}
                return {"type": "input_audio", "input_audio": sound}
            if kind == PDF:
                file: Wire = {"filename": block.name or "document.pdf"}
                return {"type": "file", "file": {**file, "file_data": data_url(block)}}
        return {"type": "text", "text": missing(block, sink)}


def _is_text(part: Wire) -> bool:
    return part.get("type") == "text" and "text" in part
