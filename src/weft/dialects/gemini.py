"""Gemini generateContent: parts in contents, roles user and model, JSON Schema fields."""

import re
from collections.abc import Sequence
from typing import ClassVar

from weft.diagnostics import Origin, Severity
from weft.dialects.base import Dialect, Spelling, Traits, system_placed
from weft.dialects.facts import same_model
from weft.dialects.fitted import fitted
from weft.dialects.media import mime, missing
from weft.dialects.options import deep_update, one_of, put
from weft.dialects.sink import Sink
from weft.dialects.track import Entry, Placed, Wire
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
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

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What the provider documents for calls that another model made."""

UNREAD = re.compile(
    r"application/(vnd|msword|zip|octet-stream|gzip|x-tar|epub)|image/(gif|svg)|font/"
)
"""Types of media that the provider refuses, among those that are likely to come."""

CACHED = ("systemInstruction", "tools", "toolConfig")
"""What a cached content holds beside its turns."""

_EFFORTS = ("minimal", "low", "medium", "high")


def _thinking(wire: Wire, value: Json) -> list[str]:
    if not isinstance(value, dict):
        return ["thinking"]
    names = {"budget": "thinkingBudget", "effort": "thinkingLevel", "include": "includeThoughts"}
    missed: list[str] = []
    for name, given in value.items():
        if name == "effort" and given not in _EFFORTS:
            missed.append(f"thinking.effort={given}")
        elif name in names:
            put(wire, f"generationConfig.thinkingConfig.{names[name]}", given)
        else:
            missed.append(f"thinking.{name}")
    return missed


def _tool_choice(wire: Wire, value: Json) -> None:
    config: Wire = {"mode": "ANY"}
    if isinstance(value, dict):
        config["allowedFunctionNames"] = [value.get("name")]
    else:
        config["mode"] = {"any": "ANY", "required": "ANY", "none": "NONE"}.get(str(value), "AUTO")
    wire["toolConfig"] = {"functionCallingConfig": config}


def _logprobs(wire: Wire, value: Json) -> None:
    put(wire, "generationConfig.responseLogprobs", bool(value))
    if isinstance(value, int) and not isinstance(value, bool):
        put(wire, "generationConfig.logprobs", value)


class Gemini(Dialect):
    """System is a field, results ride in user turns, calls carry signatures."""

    traits = Traits(
        name="gemini",
        turns="contents",
        merges_turns=True,
        model_role="model",
        parts="parts",
        schemas="gemini",
        names=Spelling(re.compile(r"[^a-zA-Z0-9_.:-]"), 128, re.compile(r"[a-zA-Z_]")),
        ids=None,
    )
    options: ClassVar = {
        "temperature": "generationConfig.temperature",
        "top_p": "generationConfig.topP",
        "top_k": "generationConfig.topK",
        "max_output_tokens": "generationConfig.maxOutputTokens",
        "stop_sequences": "generationConfig.stopSequences",
        "seed": "generationConfig.seed",
        "presence_penalty": "generationConfig.presencePenalty",
        "frequency_penalty": "generationConfig.frequencyPenalty",
        "logprobs": _logprobs,
        "thinking": _thinking,
        "tool_choice": _tool_choice,
        "service_tier": one_of("serviceTier", "standard", "flex", "priority"),
    }

    def head(self, prompt: Prompt, sink: Sink) -> tuple[Wire, tuple[Placed, ...]]:
        """The model stands in the address, not in the body."""
        wire: Wire = {}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, sink)
        if prompt.output is not None and prompt.output.how == "native":
            output = prompt.output
            schema = output.schema
            if output.provider != self.traits.name:
                fit = fitted("gemini", schema)
                sink.schema_losses(fit.losses, output.origin)
                schema = fit.schema
            put(wire, "generationConfig.responseMimeType", "application/json")
            put(wire, "generationConfig.responseJsonSchema", schema)
            if output.kept and output.provider == self.traits.name:
                deep_update(wire, {"generationConfig": output.kept})
            placed.append(Placed("/generationConfig/responseMimeType", prompt.output.origin))
            placed.append(Placed("/generationConfig/responseJsonSchema", prompt.output.origin))
        if any(self.has_kept(block) for block in prompt.system):
            wire["systemInstruction"] = {"parts": [self.part(one, sink) for one in prompt.system]}
            spot = "/systemInstruction/parts/{}/text"
            placed += [Placed(spot.format(at), (one,)) for at, one in enumerate(prompt.system)]
        elif prompt.system:
            wire["systemInstruction"] = {"parts": [{"text": prompt.system_text}]}
            placed.append(system_placed(prompt, "/systemInstruction/parts/0/text"))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, sink)
        if "cachedContent" in wire:
            placed = self._without_cached(wire, placed, sink)
        return wire, tuple(placed)

    def _without_cached(self, wire: Wire, placed: list[Placed], sink: Sink) -> list[Placed]:
        """Leave out what the cached content holds: the provider refuses to be told twice."""
        held = [key for key in CACHED if wire.pop(key, None) is not None]
        if held:
            sink.said(
                "WEFT702",
                Origin("config", "extra"),
                f"{', '.join(held)} are left out: the cached content has them",
                "create the cached content with them",
                severity=Severity.INFO,
            )
        return [one for one in placed if one.pointer.split("/")[1] not in held]

    def declaration(self, tool: ToolDecl, sink: Sink) -> Wire:
        """Name, description and, where there are any, parameters."""
        declaration: Wire = {"name": tool.name, "description": tool.description}
        if tool.parameters.get("properties"):
            declaration["parametersJsonSchema"] = self.parameters(tool, sink)
        return declaration

    def add_tool(self, tools: list[Json], tool: ToolDecl, declared: Wire) -> str:
        """Functions that stand together are declared together."""
        if tool.own is not None:
            return super().add_tool(tools, tool, declared)
        last = tools[-1] if tools else None
        held = last.get("functionDeclarations") if isinstance(last, dict) else None
        if not isinstance(held, list):
            held = list[Json]()
            tools.append({"functionDeclarations": held})
        held.append(declared)
        return f"/tools/{len(tools) - 1}/functionDeclarations/{len(held) - 1}"

    def turn(self, role: Role, blocks: Sequence[Block], sink: Sink) -> list[Entry]:
        """One content; the first call of a turn that another model signed says so."""
        parts: list[Json] = []
        sources: list[tuple[str, Block]] = []
        for block in blocks:
            part = self.part(block, sink)
            if part is not None:
                sources.append((f"/parts/{len(parts)}", block))
                parts.append(part)
        if not parts:
            return []
        if role == "system":
            role = self._fenced(blocks[0], parts, sink)
        return [Entry({"role": role, "parts": parts}, role, tuple(sources))]

    def _fenced(self, block: Block, parts: list[Json], sink: Sink) -> Role:
        """A word of the author's in mid-conversation: there is no role for it but the user's."""
        sink.said("WEFT708", block.origin, f"{sink.dialect} gets a system turn as the user's")
        for at, part in enumerate(parts):
            if isinstance(part, dict) and "text" in part:
                parts[at] = {**part, "text": f"[system]: {part['text']}"}
        return "user"

    def spoken(self, block: TextBlock) -> Entry:
        """A content with one part."""
        wire: Wire = {"role": block.role, "parts": [{"text": block.text}]}
        return Entry(wire, block.role, (("/parts/0", block),))

    def text(self, block: TextBlock, sink: Sink) -> Wire:
        """A text part."""
        return self._signed({"text": block.text}, block, sink)

    def thought(self, block: ThoughtBlock, sink: Sink) -> Wire | None:
        """A thought of its own goes back: if it is signed, or stands here as it was answered."""
        if not self.own(block, sink):
            self.drop_foreign(block, sink)
            return None
        if not block.signature and block.kept is None:
            return None
        part: Wire = {"text": block.text, "thought": True} if block.text else {"text": ""}
        return self._signed(part, block, sink)

    def call(self, block: CallBlock, sink: Sink) -> Wire:
        """A functionCall part, with its signature where it has one."""
        call: Wire = {"name": self.name_of(block, sink), "args": block.args}
        if block.given:
            call["id"] = block.id
        part: Wire = {"functionCall": call}
        if not self.own(block, sink):
            self.drop_signature(block, sink)
            return {**part, "thoughtSignature": FOREIGN_SIGNATURE}
        return self._signed(part, block, sink)

    def result(self, block: ResultBlock, sink: Sink) -> Wire:
        """A functionResponse part; its response is an object already."""
        response: Wire = {"name": self.name_of(block, sink), "response": block.response}
        if block.given:
            response["id"] = block.call_id
        if block.media:
            response["parts"] = [self.media(media, sink) for media in block.media]
        return {"functionResponse": response}

    def media(self, block: MediaBlock, sink: Sink) -> Wire:
        """Inline data, or an address."""
        if UNREAD.match(mime(block)):
            return {"text": missing(block, sink)}
        held: Wire = {"mimeType": block.mime_type}
        if block.uri is not None:
            held["fileUri"] = block.uri
            part: Wire = {"fileData": held}
        else:
            held["data"] = block.data
            part = {"inlineData": held}
        return self._signed(part, block, sink)

    def code(self, block: CodeBlock, sink: Sink) -> Wire:
        """Its own part."""
        part: Wire = {"executableCode": {"language": block.language, "code": block.code}}
        return self._signed(part, block, sink)

    def code_result(self, block: CodeResultBlock, sink: Sink) -> Wire:
        """Its own part."""
        part: Wire = {"codeExecutionResult": {"outcome": block.outcome, "output": block.output}}
        return self._signed(part, block, sink)

    def own(self, block: Block, sink: Sink) -> bool:
        """A signature that does not say whose it is comes from the log's own provider, this."""
        return not block.provider or super().own(block, sink)

    def opaque(self, block: OpaqueBlock, sink: Sink) -> Wire | None:
        """The log's own format is this provider's; what another model signed says so."""
        part = block.payload if not block.provider else super().opaque(block, sink)
        if part is None or "thoughtSignature" not in part or same_model(block.model, sink.model):
            return part
        self.drop_foreign(block, sink, what="signature")
        return {**part, "thoughtSignature": FOREIGN_SIGNATURE}

    def _signed(
        self,
        part: Wire,
        block: TextBlock | ThoughtBlock | CallBlock | MediaBlock | CodeBlock | CodeResultBlock,
        sink: Sink,
    ) -> Wire:
        """The part with its signature, if the model that is asked gave it."""
        if not block.signature:
            return part
        if not self.own(block, sink):
            self.drop_foreign(block, sink, what="signature")
            return part
        return {**part, "thoughtSignature": block.signature}
