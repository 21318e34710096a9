"""Anthropic Messages: content blocks in alternating turns, results first in the user's."""

import math
from collections.abc import Sequence
from typing import ClassVar

from weft.dialects.abilities import is_forced
from weft.dialects.base import ANYTHING_BUT, Dialect, Spelling, Traits, result_text
from weft.dialects.caching import LETTERS, mark_end, mark_head
from weft.dialects.facts import facts_for, wire_name
from weft.dialects.fitted import fitted
from weft.dialects.media import IMAGES, PDF, address, mime, missing, text_of
from weft.dialects.options import Option, one_of, put
from weft.dialects.sink import Sink
from weft.dialects.track import Entry, Placed, Track, Wire, letters
from weft.ir import (
    Block,
    CallBlock,
    MediaBlock,
    Prompt,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.values import Json, JsonObject, compact

MAX_TOKENS = 8192
"""How long an answer may be where nobody said; the provider wants a number."""

BLANK = "[blank]"
"""What a user's turn says that has no words in it; the provider refuses it without."""

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_SAMPLING = ("temperature", "top_p", "top_k")


def _thinking(wire: Wire, value: Json) -> list[str]:
    """A budget or none, an effort, and whether thoughts are shown."""
    missed: list[str] = []
    for name, given in value.items() if isinstance(value, dict) else ():
        if name == "budget" and isinstance(given, int):
            wire["thinking"] = {"type": "disabled" if given == 0 else "adaptive"}
            if given > 0:
                wire["thinking"] = {"type": "enabled", "budget_tokens": given}
        elif name == "effort" and given in _EFFORTS:
            put(wire, "output_config.effort", given)
        elif name != "include":
            missed.append(f"thinking.{name}={given}" if name == "effort" else f"thinking.{name}")
    if isinstance(value, dict) and "include" in value:
        thinking = wire.setdefault("thinking", {"type": "adaptive"})
        if isinstance(thinking, dict) and thinking["type"] != "disabled":
            thinking["display"] = "summarized" if value["include"] else "omitted"
    return missed


def _adaptive_thinking(wire: Wire, value: Json) -> list[str]:
    """For models that set their own budget: they only take how hard to try."""
    missed = _thinking(wire, value)
    thinking = wire.get("thinking")
    if isinstance(thinking, dict) and thinking.pop("budget_tokens", None) is not None:
        thinking["type"] = "adaptive"
        missed.append("thinking.budget")
    return missed


def _between_tools(wire: Wire, value: Json) -> list[str]:
    """For models that can be kept from thinking ahead, and no more."""
    missed = _adaptive_thinking(wire, value)
    thinking = wire.get("thinking")
    if isinstance(thinking, dict) and thinking["type"] == "disabled":
        thinking["type"] = "between_tools"
    return missed


def _tool_choice(wire: Wire, value: Json) -> None:
    if isinstance(value, dict):
        wire["tool_choice"] = {"type": "tool", "name": value.get("name")}
    else:
        names = {"any": "any", "required": "any", "none": "none"}
        wire["tool_choice"] = {"type": names.get(str(value), "auto")}


def _unforced(wire: Wire, value: Json) -> list[str]:
    """For requests that give a budget for thinking: no call can be forced beside it."""
    wire["tool_choice"] = {"type": "auto"}
    return ["tool_choice that forces a call while thinking"]


def _parallel(wire: Wire, value: Json) -> None:
    put(wire, "tool_choice.disable_parallel_tool_use", not value)


class Anthropic(Dialect):
    """System is a field, thinking goes back signed, an answer's length must be given."""

    traits = Traits(
        name="anthropic",
        turns="messages",
        merges_turns=True,
        model_role="assistant",
        schemas="anthropic",
        sealed=frozenset(("redacted_thinking",)),
        names=Spelling(ANYTHING_BUT, 128),
    )
    options: ClassVar = {
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "max_output_tokens": "max_tokens",
        "stop_sequences": "stop_sequences",
        "thinking": _thinking,
        "tool_choice": _tool_choice,
        "parallel_tool_calls": _parallel,
        "service_tier": one_of("service_tier", "auto", "standard_only"),
        "user": "metadata.user_id",
    }

    def option(self, name: str, prompt: Prompt) -> "Option | None":
        """The newer models refuse sampling options and thinking budgets."""
        facts = facts_for(prompt.model)
        if not facts.sampling:
            if name in _SAMPLING:
                return None
            if name == "thinking":
                return _between_tools if facts.rests == "between_tools" else _adaptive_thinking
        elif name == "tool_choice" and facts.thinks and _has_budget(prompt):
            return _unforced if is_forced(prompt.config[name]) else _tool_choice
        return super().option(name, prompt)

    def head(self, prompt: Prompt, sink: Sink) -> tuple[Wire, tuple[Placed, ...]]:
        """Options, then what the provider hashes in its order: tools, system, turns."""
        most = facts_for(prompt.model).output_limit or math.inf
        wire: Wire = {"model": wire_name(prompt.model), "max_tokens": min(MAX_TOKENS, most)}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, sink)
        _settle(wire, None if "max_output_tokens" in prompt.config else most)
        system = prompt.system
        if prompt.output is not None and prompt.output.how == "native":
            output = prompt.output
            fit = fitted("anthropic", output.schema, strict=True)
            form: Wire = {"type": "json_schema", "schema": fit.schema}
            ours = output.provider == self.traits.name
            if ours:
                form |= {"schema": output.schema, **(output.kept or {})}
            else:
                sink.schema_losses(fit.losses, output.origin)
            if ours or fit.possible:
                put(wire, "output_config.format", form)
                placed.append(Placed("/output_config/format", output.origin))
            else:
                text = f"Reply with valid JSON matching this schema: {compact(output.schema)}"
                system = (*system, TextBlock(role="system", origin=output.origin, text=text))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, sink)
        if any(self.has_kept(block) for block in system):
            wire["system"] = [self.part(block, sink) for block in system]
            placed += [Placed(f"/system/{at}/text", (block,)) for at, block in enumerate(system)]
        elif system:
            wire["system"] = "\n\n".join(block.text for block in system)
            placed.append(Placed("/system", system))
        mark_head(wire, placed, system, prompt)
        return wire, tuple(placed)

    def keep(self, prompt: Prompt, wire: Wire, track: Track, lasting: list[Entry]) -> Wire:
        """Marks at the end of what the next request begins with."""
        least = facts_for(prompt.model).cache.minimum * LETTERS
        read = sum(letters(entry.wire) for entry in lasting)
        if not track.has_letters(least - read):
            return wire
        end = len(track.final) + len(lasting) - 1
        return mark_end(prompt, wire, self.traits.turns, lasting, end)

    def declaration(self, tool: ToolDecl, sink: Sink) -> Wire:
        """Name, description and the schema of its input."""
        named: Wire = {"name": tool.name, "description": tool.description}
        return {**named, "input_schema": self.parameters(tool, sink)}

    def takes_schema(self, schema: JsonObject) -> bool:
        """Recursion, for one, is refused."""
        return fitted("anthropic", schema, strict=True).possible

    def turn(self, role: Role, blocks: Sequence[Block], sink: Sink) -> list[Entry]:
        """One message; results come first, and blank text not at all.

        But for blank text that the model itself put among words: it goes back where it stood.
        """
        if role == "user":
            blocks = sorted(blocks, key=lambda block: not isinstance(block, ResultBlock))
        content: list[Json] = []
        sources: list[tuple[str, Block]] = []
        worded = any(isinstance(block, TextBlock) and block.text.strip() for block in blocks)
        for block in blocks:
            blank = isinstance(block, TextBlock) and not block.text.strip()
            if blank and not (worded and self.has_kept(block)):
                continue
            part = self.part(block, sink)
            if part is not None:
                sources.append((f"/content/{len(content)}", block))
                content.append(part)
        if not content and role == "user" and blocks and isinstance(blocks[0], TextBlock):
            sink.said("WEFT204", blocks[0].origin, f"a blank turn reads `{BLANK}`")
            content.append({"type": "text", "text": BLANK})
            sources.append(("/content/0", blocks[0]))
        if not content:
            return []
        name = self.traits.model_role if role == "model" else role
        return [Entry({"role": name, "content": content}, name, tuple(sources))]

    def spoken(self, block: TextBlock) -> Entry:
        """A message with one block."""
        role = self.traits.model_role if block.role == "model" else "user"
        wire: Wire = {"role": role, "content": [{"type": "text", "text": block.text}]}
        return Entry(wire, role, (("/content/0", block),))

    def text(self, block: TextBlock, sink: Sink) -> Wire:
        """A text block."""
        self.drop_signature(block, sink)
        return {"type": "text", "text": block.text}

    def thought(self, block: ThoughtBlock, sink: Sink) -> Wire | None:
        """Only a thought of its own: with the signature that proves it, or as it was answered."""
        if not self.own(block, sink):
            self.drop_foreign(block, sink, what="signature" if block.signature else "thought")
            return None
        if not block.signature:  # servers that imitate the provider sign nothing
            own = block.kept is not None
            return {"type": "thinking", "thinking": block.text} if own else None
        return {"type": "thinking", "thinking": block.text, "signature": block.signature}

    def call(self, block: CallBlock, sink: Sink) -> Wire:
        """A tool_use block."""
        self.drop_signature(block, sink)
        call: Wire = {"type": "tool_use", "id": self.id_of(block.id, sink)}
        return {**call, "name": self.name_of(block, sink), "input": block.args}

    def result(self, block: ResultBlock, sink: Sink) -> Wire:
        """A tool_result block: text, or text and media."""
        wire: Wire = {"type": "tool_result", "tool_use_id": self.id_of(block.call_id, sink)}
        text = result_text(block)
        if block.media:
            said: list[Json] = [{"type": "text", "text": text}] if text.strip() else []
            wire["content"] = said + [self.media(media, sink) for media in block.media]
        else:
            wire["content"] = text
        if block.is_error:
            wire["is_error"] = True
        return wire

    def media(self, block: MediaBlock, sink: Sink) -> Wire:
        """An image or a document; the model's own turn takes text only."""
        kind, url = mime(block), address(block)
        text = text_of(block)
        if block.role == "model":
            return {"type": "text", "text": text or missing(block, sink)}
        if text is not None:
            source: Wire = {"type": "text", "media_type": "text/plain", "data": text}
            return _document(source, block.name)
        source = {"type": "url", "url": url}
        if block.data is not None:
            source = {"type": "base64", "media_type": kind, "data": block.data}
        if kind == PDF and (block.data or url):
            return _document(source, block.name)
        if (kind in IMAGES and block.data) or (kind.startswith("image/") and url):
            return {"type": "image", "source": source}
        return {"type": "text", "text": missing(block, sink)}


def _document(source: Wire, name: str) -> Wire:
    wire: Wire = {"type": "document", "source": source}
    return {**wire, "title": name} if name else wire


def _has_budget(prompt: Prompt) -> bool:
    thinking = prompt.config.get("thinking")
    return isinstance(thinking, dict) and bool(thinking.get("budget"))


def _settle(wire: Wire, most: float | None) -> None:
    """What options ask of one another: a choice has a type, an answer outlasts its thinking.

    `most` is how long an answer may be, None where the author said how long.
    """
    choice = wire.get("tool_choice")
    if isinstance(choice, dict):
        choice.setdefault("type", "auto")
        if choice["type"] == "none":
            choice.pop("disable_parallel_tool_use", None)
    thinking = wire.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int) and most is not None:
        wire["max_tokens"] = min(MAX_TOKENS + budget, most)
