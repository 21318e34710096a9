"""Gemini generateContent: parts in contents, roles user and model, JSON Schema fields."""

from collections.abc import Sequence
from typing import ClassVar

from weft.dialects.base import Dialect, Traits, system_placed
from weft.dialects.fitted import fitted
from weft.dialects.options import one_of, put
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
)
from weft.values import Json

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What the provider documents for calls that another model made."""


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
        name="gemini", turns="contents", merges_turns=True, model_role="model", parts="parts"
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
            fit = fitted("gemini", prompt.output.schema)
            sink.schema_losses(fit.losses, prompt.output.origin)
            put(wire, "generationConfig.responseMimeType", "application/json")
            put(wire, "generationConfig.responseJsonSchema", fit.schema)
            placed.append(Placed("/generationConfig/responseMimeType", prompt.output.origin))
            placed.append(Placed("/generationConfig/responseJsonSchema", prompt.output.origin))
        if prompt.system:
            wire["systemInstruction"] = {"parts": [{"text": prompt.system_text}]}
            placed.append(system_placed(prompt, "/systemInstruction/parts/0/text"))
        if prompt.tools:
            declarations: list[Json] = []
            for tool in prompt.tools:
                declaration: Wire = {"name": tool.name, "description": tool.description}
                if tool.parameters.get("properties"):
                    fit = fitted("gemini", tool.parameters)
                    sink.schema_losses(fit.losses, tool.origin)
                    declaration["parametersJsonSchema"] = fit.schema
                declarations.append(declaration)
            self.put_tools(wire, [{"functionDeclarations": declarations}])
            placed += self.tools_placed(prompt, "/tools/0/functionDeclarations")
        return wire, tuple(placed)

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
        return [Entry({"role": role, "parts": parts}, role, tuple(sources))]

    def spoken(self, block: TextBlock) -> Entry:
        """A content with one part."""
        wire: Wire = {"role": block.role, "parts": [{"text": block.text}]}
        return Entry(wire, block.role, (("/parts/0", block),))

    def text(self, block: TextBlock, sink: Sink) -> Wire:
        """A text part."""
        if block.signature and self.own(block, sink):
            return {"text": block.text, "thoughtSignature": block.signature}
        return {"text": block.text}

    def thought(self, block: ThoughtBlock, sink: Sink) -> Wire | None:
        """Only a signed thought of its own goes back."""
        if not block.signature or not self.own(block, sink):
            if block.provider and not self.own(block, sink):
                self.drop_foreign(block, sink)
            return None
        part: Wire = {"text": block.text, "thought": True} if block.text else {"text": ""}
        part["thoughtSignature"] = block.signature
        return part

    def call(self, block: CallBlock, sink: Sink) -> Wire:
        """A functionCall part, with its signature where it has one."""
        call: Wire = {"name": block.name, "args": block.args}
        if block.given:
            call["id"] = block.id
        part: Wire = {"functionCall": call}
        if block.signature and self.own(block, sink):
            part["thoughtSignature"] = block.signature
        elif block.provider and not self.own(block, sink):
            part["thoughtSignature"] = FOREIGN_SIGNATURE
        return part

    def result(self, block: ResultBlock, sink: Sink) -> Wire:
        """A functionResponse part; its response is an object already."""
        response: Wire = {"name": block.name, "response": block.response}
        if block.given:
            response["id"] = block.call_id
        if block.media:
            response["parts"] = [self.media(media, sink) for media in block.media]
        return {"functionResponse": response}

    def media(self, block: MediaBlock, sink: Sink) -> Wire:
        """Inline data, or an address."""
        held: Wire = {"mimeType": block.mime_type}
        if block.uri is not None:
            held["fileUri"] = block.uri
            part: Wire = {"fileData": held}
        else:
            held["data"] = block.data
            part = {"inlineData": held}
        if block.signature:
            part["thoughtSignature"] = block.signature
        return part

    def code(self, block: CodeBlock, sink: Sink) -> Wire:
        """Its own part."""
        part: Wire = {"executableCode": {"language": block.language, "code": block.code}}
        return _signed(part, block.signature)

    def code_result(self, block: CodeResultBlock, sink: Sink) -> Wire:
        """Its own part."""
        part: Wire = {"codeExecutionResult": {"outcome": block.outcome, "output": block.output}}
        return _signed(part, block.signature)

    def own(self, block: Block, sink: Sink) -> bool:
        """A signature that does not say whose it is comes from the log's own provider, this."""
        return not block.provider or super().own(block, sink)

    def opaque(self, block: OpaqueBlock, sink: Sink) -> Wire | None:
        """The log's own format is this provider's."""
        return block.payload if not block.provider else super().opaque(block, sink)


def _signed(part: Wire, signature: str | None) -> Wire:
    if signature:
        part["thoughtSignature"] = signature
    return part
