"""Anthropic Messages, whole: content blocks in alternating turns, results first in the user's.

In this order: options, the dialect itself, and then its parts below: lowering, answers, streams,
requests read back, counting, refusing.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal

from weft.content import Content, FunctionCall, Part, opaque_part
from weft.declare.provider_tools import (
    CodeExecution,
    HostedTool,
    WebFetch,
    WebSearch,
    name_of_hosted,
)
from weft.dialects.base import Dialect, Exchange, SpelledTool, Traits, result_text, set_options
from weft.dialects.caching import mark_end, mark_head, place_of_note
from weft.dialects.facts import facts_for, wire_name
from weft.dialects.legality import (
    ANYTHING_BUT,
    IMAGES,
    MEDIA,
    OPTION,
    PDF,
    REQUEST,
    DeclaredTool,
    Finding,
    Findings,
    SeenIds,
    Spelling,
    TurnRules,
    is_plain,
    missing_media,
    no_role,
    only_block,
    refuse_complexity,
    refuse_effort,
    refuse_mistaken_type,
    refuse_result,
    refuse_schema,
    refuse_tools,
    refuse_unanswered,
    refuse_undeclared,
    refuse_unsupported,
    two_calls,
    unread_media,
)
from weft.dialects.measure import (
    LATER,
    OWN_TOOLS,
    SERVED,
    STORED,
    Quantity,
    WeighedHead,
    WeighedTool,
    WeighedTurn,
)
from weft.dialects.openai_common import read_arguments
from weft.dialects.options import Option, fit_option, is_forced, read_options
from weft.dialects.schema_subset import (
    COMMON_KEYWORDS,
    STRICT_FORMATS,
    SchemaRules,
    fit_schema,
)
from weft.dialects.stream import AnswerErrors, Stream, partial_text, partial_thought, tells_error
from weft.dialects.strict import (
    Misshapen,
    Outline,
    PairedPart,
    RequestForm,
    Side,
    outline_of,
    require_object,
    require_parts,
    require_text,
)
from weft.dialects.track import Entry, LoweringReport, Placed, Track, Wire, letters
from weft.dialects.wire import (
    ReadOutput,
    ReadPart,
    ReadRequest,
    ReadTool,
    ReadTurn,
    address_of,
    as_json,
    as_list,
    as_text,
    at_path,
    count_in,
    document_text,
    drop_fields,
    has_messages,
    illegible,
    inline_part,
    joined_text,
    lifted_call,
    linked_part,
    mime_of,
    number,
    object_at,
    object_in,
    objects_in,
    placed_objects,
    present,
    provider_metadata,
    put,
    readable,
    require_objects,
    result_part,
    text_at,
    text_document_part,
    text_in,
    text_response,
    without,
)
from weft.errors import ModelError
from weft.ir import (
    Block,
    CallBlock,
    MediaBlock,
    ModelResponse,
    Prompt,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.session import Usage
from weft.session.provenance import Provenance
from weft.tokens import own_tool_tokens, served_tool_tokens
from weft.values import Json, JsonObject, compact

NAME = "anthropic"
ERRORS = AnswerErrors(NAME, key="ANTHROPIC_API_KEY")

MAX_TOKENS = 8192
"""How long an answer may be where nobody said; the provider wants a number."""

BLANK = "[blank]"
"""Placeholder text for a user turn without text. Anthropic rejects an empty turn."""

_OWN_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image")
"""Blocks of a message that only this provider has."""

_EFFORTS = ("low", "medium", "high", "xhigh", "max")

_SAMPLING = ("temperature", "top_p", "top_k")


def _write_thinking(wire: Wire, value: Json) -> list[str]:
    """A budget or none, an effort, and whether thoughts are shown."""
    missed: list[str] = []
    for name, setting in value.items() if isinstance(value, dict) else ():
        if name == "budget" and isinstance(setting, int):
            wire["thinking"] = {"type": "disabled" if setting == 0 else "adaptive"}
            if setting > 0:
                wire["thinking"] = {"type": "enabled", "budget_tokens": setting}
        elif name == "effort" and setting in _EFFORTS:
            put(wire, "output_config.effort", setting)
        elif name != "include":
            missed.append(f"thinking.{name}={setting}" if name == "effort" else f"thinking.{name}")
    if isinstance(value, dict) and "include" in value:
        thinking = wire.setdefault("thinking", {"type": "adaptive"})
        if isinstance(thinking, dict) and thinking["type"] != "disabled":
            thinking["display"] = "summarized" if value["include"] else "omitted"
    return missed


def _write_adaptive_thinking(wire: Wire, value: Json) -> list[str]:
    """For models that set their own budget: they only take how hard to try."""
    missed = _write_thinking(wire, value)
    thinking = wire.get("thinking")
    if isinstance(thinking, dict) and thinking.pop("budget_tokens", None) is not None:
        thinking["type"] = "adaptive"
        missed.append("thinking.budget")
    return missed


def _write_thinking_between_tools(wire: Wire, value: Json) -> list[str]:
    """For models that can be kept from thinking ahead, and no more."""
    missed = _write_adaptive_thinking(wire, value)
    thinking = wire.get("thinking")
    if isinstance(thinking, dict) and thinking["type"] == "disabled":
        thinking["type"] = "between_tools"
    return missed


def _write_tool_choice(wire: Wire, value: Json) -> None:
    if isinstance(value, dict):
        wire["tool_choice"] = {"type": "tool", "name": value.get("name")}
    else:
        names = {"any": "any", "required": "any", "none": "none"}
        wire["tool_choice"] = {"type": names.get(str(value), "auto")}


def _write_unforced_choice(wire: Wire, value: Json) -> list[str]:
    """For requests that give a budget for thinking: with it no call can be forced."""
    wire["tool_choice"] = {"type": "auto"}
    return ["tool_choice that forces a call while thinking"]


def _write_parallel(wire: Wire, value: Json) -> None:
    put(wire, "tool_choice.disable_parallel_tool_use", not value)


_CHOICES = {"auto": "auto", "any": "any", "none": "none"}

_DISPLAYS = {"summarized": True, "omitted": False}


def _read_thinking(wire: JsonObject) -> Json:
    thinking = object_in(wire.get("thinking"))
    kind = text_at(thinking, "type")
    budget: Json = {"disabled": 0, "adaptive": -1}.get(kind)
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
    include = _DISPLAYS.get(text_at(thinking, "display"))
    return present(budget=budget, effort=at_path(wire, "output_config.effort"), include=include)


def _read_tool_choice(wire: JsonObject) -> Json:
    choice = object_in(wire.get("tool_choice"))
    kind = text_at(choice, "type")
    return {"name": choice.get("name")} if kind == "tool" else _CHOICES.get(kind)


def _read_parallel(wire: JsonObject) -> Json:
    alone = at_path(wire, "tool_choice.disable_parallel_tool_use")
    return not alone if isinstance(alone, bool) else None


_THINKING = Option(write=_write_thinking, read=_read_thinking)
_TOOL_CHOICE = Option(write=_write_tool_choice, read=_read_tool_choice)


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

SCHEMAS = SchemaRules(
    provider="anthropic",
    open_root=("anyOf", "oneOf", "allOf"),
    keeps=COMMON_KEYWORDS | {"const", "minItems"},
    formats=STRICT_FORMATS | {"uri"},
    type_lists=False,
    enum_types=frozenset(("string", "integer", "number", "boolean", "null")),
    most_min_items=1,
    cycles="none",
    refused_of_type={
        "string": ("minLength", "maxLength"),
        "integer": _BOUNDS,
        "number": _BOUNDS,
        "array": ("maxItems", "uniqueItems"),
    },
    most_strict_tools=20,
    most_optional=24,
    most_unions=16,
)
"""Of a tool's input all of 2020-12 below an object; of strict tools and answers a subset."""


class AnthropicDialect(Dialect):
    """System is a field, thinking goes back signed, an answer's length must be given."""

    traits = Traits(
        name=NAME,
        turns="messages",
        merges_turns=True,
        model_role="assistant",
        calls=("assistant", "/content/"),
        results=("user", "/content/"),
        schemas=SCHEMAS,
        sealed=frozenset(("redacted_thinking",)),
        names=Spelling(ANYTHING_BUT, 128),
        calls_need_tools=True,
        places_system=True,
        marks_requests=True,
        compared=("model", "tool_choice", "thinking", "speed"),
    )
    form = RequestForm(
        system="system",
        needs=("model", "max_tokens"),
        schemas=("input_schema",),
        describes=(
            "name", "description", "type", "strict", "cache_control", "input_examples",
            "defer_loading", "allowed_callers", "eager_input_streaming",
        ),
        answer=("output_config", "format", "schema"),
        beside=("type",),
    )  # fmt: skip
    errors = ERRORS
    options: ClassVar = {
        "temperature": Option("temperature", range=(0.0, 1.0)),
        "top_p": Option("top_p", range=(0.0, 1.0)),
        "top_k": Option("top_k"),
        "max_output_tokens": Option("max_tokens"),
        "stop_sequences": Option("stop_sequences"),
        "service_tier": Option("service_tier", values=("auto", "standard_only")),
        "user": Option("metadata.user_id"),
        "thinking": _THINKING,
        "tool_choice": _TOOL_CHOICE,
        "parallel_tool_calls": Option(write=_write_parallel, read=_read_parallel),
    }

    def option(self, name: str, prompt: Prompt) -> Option | None:
        """The newer models refuse sampling options and thinking budgets."""
        facts = facts_for(prompt.model)
        if not facts.sampling:
            # models that set their own sampling answer 400 to any of these
            if name in _SAMPLING:
                return None
            if name == "thinking":
                between = facts.rests == "between_tools"
                write = _write_thinking_between_tools if between else _write_adaptive_thinking
                return _THINKING._replace(write=write)
        elif name in _SAMPLING and facts.thinks and _budget_of_effort(prompt):
            return None  # a thinking model samples in its own way
        elif name == "tool_choice" and facts.thinks and _has_budget(prompt):
            forced = is_forced(prompt.config[name])
            return _TOOL_CHOICE._replace(write=_write_unforced_choice) if forced else _TOOL_CHOICE
        return super().option(name, prompt)

    def head(self, prompt: Prompt, report: LoweringReport) -> tuple[Wire, tuple[Placed, ...]]:
        """Options, then what the provider hashes in its order: tools, system, turns."""
        most = facts_for(prompt.model).output_limit or math.inf
        wire: Wire = {"model": wire_name(prompt.model), "max_tokens": min(MAX_TOKENS, most)}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, report)
        _settle(wire, None if "max_output_tokens" in prompt.config else most)
        system = prompt.system
        if prompt.output is not None and prompt.output.how == "native":
            output = prompt.output
            fit = fit_schema(SCHEMAS, output.schema, strict=True)
            form: Wire = {"type": "json_schema", "schema": fit.schema}
            ours = output.provider == self.traits.name
            if ours:
                form |= {"schema": output.schema, **(output.kept or {})}
            else:
                report.schema_losses(fit.losses, output.origin)
            if ours or fit.possible:
                put(wire, "output_config.format", form)
                placed.append(Placed("/output_config/format", output.origin))
            else:
                text = f"Reply with valid JSON matching this schema: {compact(output.schema)}"
                system = (*system, TextBlock(role="system", origin=output.origin, text=text))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, report)
        if any(self.has_kept(block) for block in system):
            wire["system"] = [self.part(block, report) for block in system]
            placed += [Placed(f"/system/{at}/text", (block,)) for at, block in enumerate(system)]
        elif system:
            wire["system"] = "\n\n".join(block.text for block in system)
            placed.append(Placed("/system", system))
        mark_head(wire, placed, system, prompt, self.meter)
        return wire, tuple(placed)

    def drops_thoughts(self, config: Mapping[str, Json]) -> bool:
        """Whether a thought that is bound to other bytes is dropped; the default is a 400."""
        extra = object_in(object_in(config.get("extra")).get(self.traits.name))
        binding = object_in(object_in(extra.get("thinking")).get("block_binding"))
        return binding.get("prefix_mismatch_behavior") == "drop_block"

    def keep(self, prompt: Prompt, wire: Wire, track: Track, lasting: list[Entry]) -> Wire:
        """Marks at the end of what the next request begins with."""
        # below its minimum the provider caches nothing, and ignores a mark: without one it caches
        # nothing either, so only what is surely too short has none, at two tokens a letter
        least = facts_for(prompt.model).cache.minimum // 2
        read = sum(letters(entry.wire) for entry in lasting)
        if not track.has_letters(least - read):
            return wire
        end = len(track.wires) + len(lasting) - 1
        note = place_of_note(prompt, track, lasting)
        return mark_end(prompt, wire, self.traits.turns, lasting, end, note)

    def declaration(self, tool: ToolDecl, report: LoweringReport) -> Wire:
        """Name, description and the schema of its input."""
        # one that the log alone tells of may have any name
        name = self.traits.names.legal(tool.name)
        named: Wire = {"name": name, "description": tool.description}
        return {**named, "input_schema": self.parameters(tool, report)}

    def hosted(self, tool: HostedTool, report: LoweringReport) -> SpelledTool | None:
        """Search, pages and code, in the versions that every model takes."""
        match tool:
            case WebSearch() | WebFetch():
                name = name_of_hosted(tool)
                kind = "web_search_20250305" if name == "web_search" else "web_fetch_20250910"
                wire: Wire = {"type": kind, "name": name}
                if tool.max_uses is not None:
                    wire["max_uses"] = tool.max_uses
                for field in set_options(tool, "allowed_domains", "blocked_domains"):
                    wire[field] = list[Json](getattr(tool, field))
                if isinstance(tool, WebSearch) and tool.location:
                    wire["user_location"] = {"type": "approximate", **tool.location}
                return SpelledTool(wire)
            case CodeExecution():
                code: Wire = {"type": "code_execution_20250825", "name": "code_execution"}
                return SpelledTool(code, set_options(tool, "files"))
            case _:
                return None

    def takes_schema(self, schema: JsonObject) -> bool:
        """Recursion, for one, is refused."""
        return fit_schema(SCHEMAS, schema, strict=True).possible

    def turn(self, role: Role, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        """One message; results come first, and blank text not at all.

        But for blank text that the model itself put among words: it goes back where it stood.
        """
        if role == "user":
            # the provider wants results before anything else in a turn
            blocks = sorted(blocks, key=lambda block: not isinstance(block, ResultBlock))
        content: list[Json] = []
        sources: list[tuple[str, Block]] = []
        worded = any(isinstance(block, TextBlock) and block.text.strip() for block in blocks)
        for block in blocks:
            blank = isinstance(block, TextBlock) and not block.text.strip()
            if blank and not (worded and self.has_kept(block)):
                continue
            part = self.part(block, report)
            if part is not None:
                sources.append((f"/content/{len(content)}", block))
                content.append(part)
        if not content and role == "user" and blocks and isinstance(blocks[0], TextBlock):
            report.add("WEFT204", blocks[0].origin, f"a blank turn reads `{BLANK}`")
            content.append({"type": "text", "text": BLANK})
            sources.append(("/content/0", blocks[0]))
        if not content:
            return []
        name = self.traits.model_role if role == "model" else role
        return [Entry({"role": name, "content": content}, name, tuple(sources))]

    def spell_plain_turn(self, block: TextBlock) -> Entry:
        """A message with one block."""
        role = "assistant" if block.role == "model" else "user"
        wire: Wire = {"role": role, "content": [{"type": "text", "text": block.text}]}
        return Entry(wire, role, (("/content/0", block),))

    def spell_plain_wire(self, role: Literal["user", "model"], text: str) -> Wire:
        """The same message."""
        name = "assistant" if role == "model" else "user"
        return {"role": name, "content": [{"type": "text", "text": text}]}

    def turns_of_pairs(self, asked: list[Json], answered: list[Json]) -> Exchange:
        """A message of the model's, and one of the user's."""
        return ({"role": "assistant", "content": asked},), ({"role": "user", "content": answered},)

    def text(self, block: TextBlock, report: LoweringReport) -> Wire:
        """A text block."""
        self.drop_signature(block, report)
        return {"type": "text", "text": block.text}

    def thought(self, block: ThoughtBlock, report: LoweringReport) -> Wire | None:
        """Only a thought of its own: with the signature that proves it, or as it was answered."""
        if not self.own(block, report):
            self.drop_foreign(block, report, what="signature" if block.signature else "thought")
            return None
        if not block.signature:  # servers that imitate the provider sign nothing
            own = block.kept is not None and not _signs(report.model)
            return {"type": "thinking", "thinking": block.text} if own else None
        return {"type": "thinking", "thinking": block.text, "signature": block.signature}

    def call(self, block: CallBlock, report: LoweringReport) -> Wire:
        """A tool_use block."""
        if block.signature:
            self.drop_signature(block, report)
        return {
            "type": "tool_use",
            "id": self.id_of(block.id, report),
            "name": self.name_of(block, report),
            "input": block.args,
        }

    def result(self, block: ResultBlock, report: LoweringReport) -> Wire:
        """A tool_result block: text, or text and media."""
        text = result_text(block)
        wire: Wire = {
            "type": "tool_result",
            "tool_use_id": self.id_of(block.call_id, report),
            "content": text,
        }
        if block.media:
            # a blank text block is refused
            texts: list[Json] = [{"type": "text", "text": text}] if text.strip() else []
            wire["content"] = texts + [self.media(media, report) for media in block.media]
        if block.is_error:
            wire["is_error"] = True
        return wire

    def media(self, block: MediaBlock, report: LoweringReport) -> Wire:
        """An image or a document; the model's own turn takes text only."""
        kind, url = mime_of(block), address_of(block)
        text = document_text(block)
        # the provider takes no media in its own turns
        if block.role == "model":
            return {"type": "text", "text": text or missing_media(block, report)}
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
        return {"type": "text", "text": missing_media(block, report)}

    # Answers, whole and streamed.

    def lift(self, body: JsonObject) -> ModelResponse:
        """What a whole message says."""
        if tells_error(body):
            raise ERRORS.failure(None, body)
        content = body.get("content")
        if not isinstance(content, list):
            raise ERRORS.unreadable("the answer has no list of content blocks")
        role = body.get("role", "assistant")
        if role != "assistant":
            raise ERRORS.unreadable(f"the answer has the role {role!r} instead of 'assistant'")
        parts = tuple(_lift_block(block) for block in content)
        stop = text_in(body.get("stop_reason"))
        finish = _STOPS.get(stop, "OTHER") if stop else None
        usage = object_in(body.get("usage"))
        rest = without(body, *_LIFTED)
        spent = without(usage, *_COUNTS)
        details = without(object_in(usage.get("output_tokens_details")), "thinking_tokens")
        if details:
            spent["output_tokens_details"] = details
        if spent:
            rest["usage"] = spent
        metadata = Provenance(rest=rest).onto(None) if rest else None
        if written := count_in(usage.get("cache_creation_input_tokens")):
            notes = Provenance(cache_write=written, cache_lifetime=lifetime_of_writes(usage))
            metadata = notes.onto(metadata)
        code, message = _lift_error(
            stop, finish, body, has_content=any(part.kind != "empty" for part in parts)
        )
        return ModelResponse(
            content=Content(parts, "model") if parts else None,
            finish_reason=finish,
            error_code=code,
            error_message=message,
            usage=_lift_usage(usage) if usage else None,
            model_version=text_in(body.get("model")) or None,
            custom_metadata=metadata,
        )

    def stream(self) -> Stream:
        """A reader for one streamed answer."""
        return AnthropicStream()

    # Requests, read back.

    def is_request(self, wire: JsonObject) -> bool:
        """Messages that only this provider has, or a field that others do not know."""
        if not has_messages(wire):
            return False
        messages, tools = objects_in(wire.get("messages")), objects_in(wire.get("tools"))
        blocks = [block for message in messages for block in objects_in(message.get("content"))]
        return (
            "system" in wire
            or any(block.get("type") in _OWN_BLOCKS for block in blocks)
            or any("input_schema" in tool for tool in tools)
        )

    def read(self, wire: JsonObject) -> ReadRequest:
        """System, turns, tools, schema and options of a request."""
        calls: dict[str, str] = {}
        turns = [
            _read_turn(message, f"messages/{index}", calls)
            for index, message in enumerate(require_objects(wire.get("messages"), "messages"))
        ]
        return ReadRequest(
            system=_read_system(wire.get("system")),
            turns=tuple(turns),
            tools=tuple(_read_tool(tool) for tool in require_objects(wire.get("tools"), "tools")),
            output=_read_output(at_path(wire, "output_config.format")),
            config=read_options(self.options, wire),
            places=("messages", "system", "tools", "output_config.format"),
        )

    # What is counted of a request.

    def weigh_head(self, wire: JsonObject) -> WeighedHead:
        """System text, tools, schema, choice and thinking."""
        tools: list[WeighedTool] = []
        others: list[str] = []
        uncounted: dict[str, None] = {}
        own = 0
        for tool in map(object_in, as_list(wire.get("tools"))):
            kind = as_text(tool.get("type")) or "custom"
            if kind != "custom":
                size = own_tool_tokens(kind)
                if not size:  # the provider runs it, and what it gives is not in the request
                    uncounted[OWN_TOOLS] = None
                    size = served_tool_tokens(NAME, kind)
                own += size
                if not size:
                    others.append(as_json(tool))
            elif tool.get("defer_loading"):
                uncounted[LATER] = None
            else:
                named = as_text(tool.get("name")), as_text(tool.get("description"))
                tools.append(WeighedTool(*named, object_in(tool.get("input_schema"))))
        if wire.get("mcp_servers"):
            uncounted["the tools of its MCP servers"] = None
        if "clear_tool_uses_20250919" in _list_edits(wire):
            uncounted[STORED] = None  # how much it has cleared before
        form = object_in(object_in(wire.get("output_config")).get("format"))
        return WeighedHead(
            system=tuple(_block_text(block) for block in as_list(wire.get("system"))),
            tools=tuple(tools),
            others=tuple(others),
            schema=form.get("schema"),
            forced=object_in(wire.get("tool_choice")).get("type") in ("any", "tool"),
            later=LATER in uncounted,
            thinking=object_in(wire.get("thinking")).get("type") in ("enabled", "adaptive"),
            adaptive=object_in(wire.get("thinking")).get("type") == "adaptive",
            stateful=any(wire.get(key) for key in _STATEFUL) or bool(_list_edits(wire) - _CLEARS),
            own=own,
            uncounted=tuple(uncounted),
        )

    def weigh_turn(self, turn: Json) -> WeighedTurn:
        """One turn; results alone are not the user speaking."""
        if not isinstance(turn, dict):
            return WeighedTurn("user", [Quantity("", "text", as_text(turn))], asks=True)
        role, content = as_text(turn.get("role")) or "user", turn.get("content")
        if isinstance(content, str):
            return WeighedTurn(role, [Quantity("/content", "text", content)], asks=role == "user")
        parts: list[Quantity] = []
        asks = False
        for index, block in enumerate(as_list(content)):
            quantities = _weigh_block(f"/content/{index}", block)
            asks = asks or quantities[0].kind != "result"
            parts += quantities
        return WeighedTurn(role, parts, asks=asks and role == "user")

    # What the provider refuses.

    def refuse_head(self, wire: JsonObject, model: str) -> Findings:
        """Everything but the turns that the provider would answer with a 400."""
        yield from self.refuse_ranges(wire)
        yield from _refuse_sampling(wire, model)
        yield from _refuse_thinking(wire, model)
        yield from _refuse_effort(wire, model)
        yield from _refuse_limit(wire, model)
        yield from _refuse_tools(wire, model, self.traits.names)
        yield from _refuse_format(wire, model)

    def turn_rules(self, model: str, *, strict: bool = False) -> TurnRules:
        """Every message, item or content, and how they follow each other."""
        return AnthropicTurnRules(model)

    def outline(self, turn: JsonObject, at: str) -> Outline:
        """Blocks with what they need; results come first."""
        role, content = turn.get("role"), turn.get("content")
        side: Side = "user" if role == "user" else "model" if role == "assistant" else "system"
        if isinstance(content, str) and content.strip():
            return Outline(side)
        blocks = require_parts(turn, "content", at)
        worded = any(str(block.get("text", "")).strip() for block in blocks)
        calls: list[PairedPart] = []
        results: list[PairedPart] = []
        for index, block in enumerate(blocks):
            place = f"/content/{index}"
            match require_text(block, "type", at + place):
                case "text":
                    require_text(block, "text", at + place)
                    if not worded:
                        raise Misshapen(f"{at}{place}/text", "this text is blank", "leave it out")
                case "tool_use":
                    require_object(block.get("input"), f"{at}{place}/input")
                    call_id = require_text(block, "id", at + place)
                    calls.append(
                        PairedPart(call_id, require_text(block, "name", at + place), place)
                    )
                case "tool_result":
                    if len(results) < index:
                        message = "this result comes after other blocks"
                        raise Misshapen(at + place, message, "put results first")
                    results.append(
                        PairedPart(require_text(block, "tool_use_id", at + place), "", place)
                    )
                case "thinking" if side == "user":
                    message = "this thought stands in the user's turn"
                    raise Misshapen(at + place, message, "leave it out")
                case _:
                    pass
        outline = outline_of(side, calls, results, at)
        own = side == "model" and blocks[-1].get("type") not in _SPOKEN
        return outline._replace(paused=True) if own else outline


# --- lowering


def _document(source: Wire, name: str) -> Wire:
    wire: Wire = {"type": "document", "source": source}
    return {**wire, "title": name} if name else wire


def _has_budget(prompt: Prompt) -> bool:
    thinking = fit_option("thinking", prompt.config.get("thinking"), prompt.model).value
    return isinstance(thinking, dict) and bool(thinking.get("budget"))


def _budget_of_effort(prompt: Prompt) -> bool:
    """Whether an effort is sent as a number of tokens: its author did not ask for the number."""
    thinking = prompt.config.get("thinking")
    return isinstance(thinking, dict) and "effort" in thinking and _has_budget(prompt)


def _settle(wire: Wire, most: float | None) -> None:
    """What options ask of one another: a choice has a type, an answer outlasts its thinking.

    `most` is how long an answer may be, None where the author said how long.
    """
    choice = wire.get("tool_choice")
    if isinstance(choice, dict):
        choice.setdefault("type", "auto")
        # the provider refuses the flag together with "none"
        if choice["type"] == "none":
            choice.pop("disable_parallel_tool_use", None)
    thinking = wire.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    # the budget counts towards max_tokens, so the answer gets its own on top
    if isinstance(budget, int) and most is not None:
        wire["max_tokens"] = min(MAX_TOKENS + budget, most)


# --- answers


_STOPS = {
    "end_turn": "STOP",
    "stop_sequence": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "pause_turn": "CONTINUATION",
    "compaction": "CONTINUATION",
    "refusal": "SAFETY",
}

_LIFTED = ("type", "role", "content", "model", "usage")


def lifetime_of_writes(usage: JsonObject) -> str | None:
    """How long most of what was written to the cache is kept, where not the shortest time."""
    written = object_in(usage.get("cache_creation"))
    hour = count_in(written.get("ephemeral_1h_input_tokens")) or 0
    return "1h" if hour > (count_in(written.get("ephemeral_5m_input_tokens")) or 0) else None


_COUNTS = (
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
    "output_tokens_details",
)  # fmt: skip


def _lift_block(block: Json) -> Part:
    """One content block as a part of the log."""
    if not isinstance(block, dict):
        raise ERRORS.unreadable("a content block of the answer is not an object")
    match block:
        case {"type": "text", "text": str(text)}:
            other_fields = drop_fields(block, "type", "text")
            blank = text.isspace()  # which only goes back where it came from
            return Part(
                text,
                part_metadata=provider_metadata(
                    NAME, other_fields if other_fields or blank else None
                ),
            )
        case {"type": "thinking", "thinking": str(text)}:
            signature = text_in(block.get("signature")) or None
            other_fields = drop_fields(block, "type", "thinking", "signature" if signature else "")
            return Part(
                text,
                thought=True,
                thought_signature=signature,
                part_metadata=provider_metadata(
                    NAME, other_fields if other_fields or signature is None else None
                ),
            )
        case {"type": "tool_use"}:
            # a call without a name is still a call: whoever answers it says what is wrong
            name, call_id = text_in(block.get("name")), text_in(block.get("id")) or None
            other_fields = drop_fields(block, "type", "id", "name", "input")
            call = FunctionCall(name=name, id=call_id)
            return lifted_call(NAME, call, block.get("input"), other_fields or None)
        case _:
            return opaque_part(NAME, block)


def _lift_error(
    stop: str, finish: str | None, body: JsonObject, *, has_content: bool
) -> tuple[str | None, str | None]:
    """Why there is no answer, or not the one that was asked for."""
    if stop == "refusal":
        details = object_in(body.get("stop_details"))
        category, why = text_in(details.get("category")), text_in(details.get("explanation"))
        about = f"the model refused to answer ({category})" if category else ""
        return "refusal", why or about or "the model refused to answer"
    if finish == "MAX_TOKENS" and not has_content:
        return "max_tokens", f"the model said nothing before it ran out of tokens ({stop})"
    return None, None


def _lift_usage(usage: JsonObject) -> Usage:
    """The counts, with what was cached among the prompt's, and thoughts apart from the rest."""
    read = count_in(usage.get("cache_read_input_tokens")) or 0
    written = count_in(usage.get("cache_creation_input_tokens")) or 0
    # Anthropic counts cached tokens apart; the log counts them as part of the prompt
    asked = (count_in(usage.get("input_tokens")) or 0) + read + written
    output = count_in(usage.get("output_tokens")) or 0
    details = object_in(usage.get("output_tokens_details"))
    thoughts = min(count_in(details.get("thinking_tokens")) or 0, output)
    return Usage(
        prompt_token_count=asked,
        candidates_token_count=output - thoughts,
        total_token_count=asked + output,
        cached_content_token_count=read if "cache_read_input_tokens" in usage else None,
        thoughts_token_count=thoughts if details else None,
    )


# --- streams


class _GrowingBlock:
    """A content block that is still coming in; texts are joined once it is whole."""

    __slots__ = ("block", "pieces")

    def __init__(self, block: JsonObject) -> None:
        self.block = block
        self.pieces: dict[str, list[str]] = {}

    def add(self, field: str, piece: str) -> None:
        """More of a field that is a text."""
        self.pieces.setdefault(field, []).append(piece)

    def extend(self, field: str, value: Json) -> None:
        """More of a field of any kind: texts and lists grow, all else takes the place of it."""
        before = self.block.get(field)
        if isinstance(value, str):
            self.add(field, value)
        elif isinstance(value, list) and isinstance(before, list):
            self.block = {**self.block, field: before + value}
        else:
            self.block = {**self.block, field: value}

    def whole(self) -> JsonObject:
        """The block as it would have come whole."""
        block = dict(self.block)
        for field, pieces in self.pieces.items():
            text = "".join(pieces)
            if field == "partial_json":
                if text:
                    # arguments that are not JSON stay a text: who answers the call says so
                    arguments = read_arguments(text)
                    block["input"] = text if arguments is None else arguments
            else:
                block[field] = text_in(block.get(field)) + text
        return block


class AnthropicStream:
    """One streamed message."""

    __slots__ = ("_blocks", "_message", "_over")

    def __init__(self) -> None:
        self._message: JsonObject | None = None
        self._blocks: dict[int, _GrowingBlock] = {}
        self._over = False

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one event; those that nobody knows say nothing."""
        kind = data.get("type") or name
        if kind == "content_block_delta":
            return self._grow(data)
        if kind == "content_block_start":
            return self._start(data)
        if kind == "message_delta":
            self._settle(data)
        elif kind == "message_start":
            self._message = dict(object_in(data.get("message")))
        elif kind == "message_stop":
            self._over = True
        elif kind == "error" or tells_error(data):
            raise ERRORS.failure(None, data)
        return None

    def note_end(self) -> None:
        """The word of a server that imitates the provider, for the event it should have sent."""
        self._over = True

    def body(self) -> JsonObject:
        """The message as it would have come whole."""
        message = self._message
        if message is None or not (self._over or message.get("stop_reason")):
            raise ERRORS.cut_off()
        content = message.get("content")
        began: list[Json] = list(content) if isinstance(content, list) else []
        grown: list[Json] = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return {**message, "content": began + grown}

    def _start(self, data: JsonObject) -> ModelResponse | None:
        index, block = data.get("index"), data.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            raise ERRORS.unreadable("the stream has a content_block_start without a block")
        if self._message is None:  # some servers that imitate the provider leave its start out
            self._message = {"type": "message", "role": "assistant"}
        self._blocks[index] = _GrowingBlock(block)
        if block.get("type") == "text" and (text := text_in(block.get("text"))):
            return partial_text(text)
        if block.get("type") == "fallback":  # another model goes on from here
            model = object_in(block.get("to")).get("model")
            self._message["model"] = model or self._message.get("model")
        return None

    def _grow(self, data: JsonObject) -> ModelResponse | None:
        index, delta = data.get("index"), data.get("delta")
        growing = self._blocks.get(index) if isinstance(index, int) else None
        if growing is None or not isinstance(delta, dict):
            raise _out_of_order("content_block_delta")
        kind, words = delta.get("type"), delta.get("text")
        if kind == "text_delta" and isinstance(words, str):  # as nearly all of them are
            growing.add("text", words)
            return partial_text(words) if words else None
        match delta:
            case {"type": "input_json_delta", "partial_json": str(text)}:
                growing.add("partial_json", text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                growing.add("thinking", text)
                return partial_thought(text) if text else None
            case {"type": "citations_delta", "citation": citation}:
                if not isinstance(growing.block.get("citations"), list):
                    growing.block = {**growing.block, "citations": []}
                growing.extend("citations", [citation])
            case {"type": "signature_delta" | "compaction_delta"}:  # these come in one piece
                growing.block = {**growing.block, **drop_fields(delta, "type")}
            case _:
                for field, value in drop_fields(delta, "type").items():
                    growing.extend(field, value)
        return None

    def _settle(self, data: JsonObject) -> None:
        """How the message ended, and the counts so far; what is left out stays as it was."""
        if self._message is None:
            raise _out_of_order("message_delta")
        # the counts are totals, not differences: the later ones win
        usage = {**object_in(self._message.get("usage")), **without(object_in(data.get("usage")))}
        self._message.update(without(data, "type", "delta", "usage"))
        self._message.update(without(object_in(data.get("delta"))))
        if usage:
            self._message["usage"] = usage


def _out_of_order(event: str) -> ModelError:
    return ERRORS.unreadable(f"the stream has a {event} that nothing came before")


# --- requests read back


_ROLES: dict[str, Role] = {"user": "user", "assistant": "model", "system": "system"}


def _read_system(value: Json) -> tuple[ReadPart, ...]:
    if isinstance(value, str):
        return (ReadPart(Part(text=value), {"type": "text", "text": value}),) if value else ()
    blocks = require_objects(value, "system")
    apart = len(blocks) > 1
    return tuple(ReadPart(Part(text=text_at(block, "text")), block, apart) for block in blocks)


def _read_turn(message: JsonObject, where: str, calls: dict[str, str]) -> ReadTurn:
    role = _ROLES.get(text_at(message, "role"))
    if role is None:
        raise illegible(f"{message.get('role')!r} is not a role", f"{where}/role")
    content = message.get("content")
    listed: Json = {"type": "text", "text": content} if isinstance(content, str) else content
    blocks = require_objects(listed, f"{where}/content")
    if role != "model":
        return ReadTurn(role, tuple(ReadPart(_read_part(block, calls), block) for block in blocks))
    calls |= {text_at(block, "id"): text_at(block, "name") for block in blocks if "id" in block}
    return ReadTurn(role, tuple(ReadPart(_lift_block(block), block) for block in blocks))


def _read_part(block: JsonObject, calls: dict[str, str]) -> Part:
    match block.get("type"):
        case "text":
            return Part(text=text_at(block, "text"))
        case "tool_result":
            return _read_result(block, calls)
        case _:
            return _read_media(block) or Part()


def _read_result(block: JsonObject, calls: dict[str, str]) -> Part:
    content = block.get("content")
    answer = text_response(joined_text(content, "text"), failed=block.get("is_error") is True)
    parts = content if isinstance(content, list) else []
    media = [_read_media(part) for part in parts if isinstance(part, dict)]
    call_id = text_at(block, "tool_use_id")
    name = calls.get(call_id, "")
    return result_part(call_id, name, answer, [part for part in media if part is not None])


def _read_media(block: JsonObject) -> Part | None:
    """An image or a document, but for one that only the provider's store holds."""
    kind, source = block.get("type"), block.get("source")
    if kind not in ("image", "document") or not isinstance(source, dict):
        return None
    name, data = text_at(block, "title"), text_at(source, "data")
    match source.get("type"):
        case "base64":
            return inline_part(text_at(source, "media_type"), data, name)
        case "url":
            otherwise = "image/jpeg" if kind == "image" else "application/pdf"
            return linked_part(text_at(source, "url"), otherwise, name)
        case "text":
            return text_document_part(data, name)
        case _:
            return None


def _read_tool(tool: JsonObject) -> ReadTool:
    name, schema = text_at(tool, "name"), tool.get("input_schema")
    if tool.get("type", "custom") == "custom" and isinstance(schema, dict):
        return ReadTool(tool, name, text_at(tool, "description"), schema)
    return ReadTool(tool, name or text_at(tool, "type"), own=True)


def _read_output(form: Json) -> ReadOutput | None:
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return None
    schema = form.get("schema")
    beside = drop_fields(form, "type", "schema")
    return ReadOutput(schema, "answer", beside) if isinstance(schema, dict) else None


# --- counting


_STATEFUL = ("container", "thread")

_CLEARS = {"clear_thinking_20251015", "clear_tool_uses_20250919"}
"""What a provider leaves out of a request when it reads it; the request itself has all of it."""


def _list_edits(wire: JsonObject) -> set[str]:
    """What the provider is told to do with a conversation that grows too long."""
    edits = as_list(object_in(wire.get("context_management")).get("edits"))
    return {as_text(object_in(edit).get("type")) for edit in edits}


def _weigh_block(pointer: str, block: Json) -> list[Quantity]:
    """A block as its parts, of which there is always one."""
    if not isinstance(block, dict):
        return [Quantity(pointer, "text", as_text(block))]
    match block.get("type"):
        case "text":
            return [Quantity(pointer, "text", as_text(block.get("text")))]
        case "thinking":
            sealed = len(as_text(block.get("signature")))
            return [Quantity(pointer, "thought", as_text(block.get("thinking")), sealed=sealed)]
        case "redacted_thinking":
            return [Quantity(pointer, "thought", "", sealed=len(as_text(block.get("data"))))]
        case "tool_use":
            name = as_text(block.get("name"))
            return [Quantity(pointer, "call", as_json(block.get("input", {})), name)]
        case "tool_result":
            inner = as_list(block.get("content"))
            media = [one for one in inner if not _is_text(one)]
            text = "".join(_block_text(one) for one in inner if _is_text(one))
            below = [part for one in media for part in _weigh_block(pointer, one)]
            return [Quantity(pointer, "result", text), *below]
        case "image":
            return [_weigh_media(pointer, object_in(block.get("source")), "image/png")]
        case "document":
            return [_weigh_media(pointer, object_in(block.get("source")), "application/pdf")]
        case "tool_reference" | "tool_addition" | "tool_removal":
            return [Quantity(pointer, "other", as_json(block), uncounted=LATER)]
        case "search_result":
            text = "".join(_block_text(one) for one in as_list(block.get("content")))
            heading = as_text(block.get("title")) + as_text(block.get("source"))
            return [Quantity(pointer, "document", heading + text)]
        case _:
            return [Quantity(pointer, "other", as_json(readable(block)), uncounted=SERVED)]


def _weigh_media(pointer: str, source: JsonObject, fallback: str) -> Quantity:
    match source.get("type"):
        case "text":
            return Quantity(pointer, "document", as_text(source.get("data")))
        case "content":
            text = "".join(_block_text(one) for one in as_list(source.get("content")))
            return Quantity(pointer, "document", text)
        case _:
            kind = as_text(source.get("media_type")) or fallback
            return Quantity(pointer, "media", as_text(source.get("data")), kind)


def _is_text(block: Json) -> bool:
    return not isinstance(block, dict) or block.get("type") == "text"


def _block_text(block: Json) -> str:
    return as_text(block.get("text") if isinstance(block, dict) else block)


# --- refusing: the head


_SAMPLING_DEFAULTS = {"temperature": 1, "top_p": 1, "top_k": None}

_LEAST_BUDGET = 1024

_BUDGETED = r"claude-(3-7|(opus|sonnet)-4(-[01])?(-2025\d+)?$|(opus|sonnet|haiku)-4-5)"
"""Models that think for as long as they are told, and not as long as they like."""

_ONE_OF_TWO = r"claude-(opus-4-1|[a-z]+-4-5)"

_RESTS_AT_HIGH = r"claude-opus-5($|-20)"
"""Models that do not try harder than `high` unless they think."""


def _refuse_sampling(wire: JsonObject, model: str) -> Findings:
    if not facts_for(model).sampling:
        yield from refuse_unsupported(wire, _SAMPLING_DEFAULTS, model)
    elif re.match(_ONE_OF_TWO, model) and {"temperature", "top_p"} <= wire.keys():
        message = f"{model} takes either `temperature` or `top_p`"
        yield Finding(OPTION, "/top_p", message, "leave out one of them")
    stops = wire.get("stop_sequences")
    for at, stop in enumerate(stops if isinstance(stops, list) else ()):
        if isinstance(stop, str) and not stop.strip():
            message = "a stop sequence is blank"
            yield Finding(OPTION, f"/stop_sequences/{at}", message, "give it a letter")


def _refuse_thinking(wire: JsonObject, model: str) -> Findings:
    thinking, facts = object_at(wire, "thinking"), facts_for(model)
    kind, budget = thinking.get("type"), number(thinking.get("budget_tokens"))
    if kind == "disabled" and kind != facts.rests:
        hint = f'set its type to "{facts.rests}"' if facts.rests else "leave it out"
        yield Finding(OPTION, "/thinking", f"{model} cannot be kept from thinking", hint)
    if kind not in ("enabled", "adaptive"):
        return
    if not facts.thinks:
        yield Finding(OPTION, "/thinking", f"{model} does not think", "leave out `thinking`")
        return
    if kind == "adaptive":
        if re.match(_BUDGETED, model):
            hint = 'give it a budget: {"thinking": {"budget": 1024}}'
            yield Finding(OPTION, "/thinking", f"{model} sets no budget by itself", hint)
        return
    if not facts.sampling:
        hint = 'say how hard to try instead: {"thinking": {"effort": "high"}}'
        yield Finding(OPTION, "/thinking", f"{model} sets its own budget for thinking", hint)
    limit = number(wire.get("max_tokens"))
    if budget is not None and budget < _LEAST_BUDGET:
        message = f"a budget of {budget:g} is below {_LEAST_BUDGET}"
        yield Finding(OPTION, "/thinking/budget_tokens", message, f"give {_LEAST_BUDGET} or more")
    interleaved = bool(wire.get("tools"))  # then a budget may be one for several answers
    if budget is not None and limit is not None and budget >= limit and not interleaved:
        message = f"the budget of {budget:g} is not below max_tokens, {limit:g}"
        hint = "raise max_output_tokens above it"
        yield Finding(OPTION, "/thinking/budget_tokens", message, hint)
    yield from refuse_unsupported(wire, {"temperature": 1, "top_k": None}, "a thinking model")
    share = number(wire.get("top_p"))
    if share is not None and share < 0.95:
        yield Finding(OPTION, "/top_p", "`top_p` is below 0.95 while thinking", "leave it out")
    if object_at(wire, "tool_choice").get("type") in ("any", "tool"):
        message = "a tool call cannot be forced while thinking"
        yield Finding(OPTION, "/tool_choice", message, 'set tool_choice to "auto"')


def _refuse_effort(wire: JsonObject, model: str) -> Findings:
    effort = object_at(wire, "output_config").get("effort")
    yield from refuse_effort(effort, "/output_config/effort", model)
    idle = object_at(wire, "thinking").get("type") == "disabled"
    if idle and effort in ("xhigh", "max") and re.match(_RESTS_AT_HIGH, model):
        message = f"{model} has no effort `{effort}` without thinking"
        yield Finding(OPTION, "/output_config/effort", message, 'use "high", or let it think')


def _refuse_limit(wire: JsonObject, model: str) -> Findings:
    limit = number(wire.get("max_tokens"))
    most = facts_for(model).output_limit
    if limit is not None and most and limit > most:
        message = f"an answer of {limit:g} tokens is more than {model} gives"
        yield Finding(OPTION, "/max_tokens", message, f"give {most} or less")
    if limit is not None and limit < 0:
        yield Finding(OPTION, "/max_tokens", f"max_tokens is {limit:g}", "give 1 or more")


def _refuse_tools(wire: JsonObject, model: str, names: Spelling) -> Findings:
    listed = placed_objects(wire.get("tools"), "/tools")
    functions = [
        DeclaredTool(at, str(tool.get("name", "")), tool.get("input_schema"), f"{at}/input_schema")
        for at, tool in listed
        if tool.get("type", "custom") == "custom"
    ]
    yield from refuse_tools(functions, names)
    strict = [
        (at, tool)
        for at, tool in listed
        if tool.get("strict") is True and not tool.get("defer_loading")
    ]
    if len(strict) > SCHEMAS.most_strict_tools:
        message = f"{len(strict)} tools are strict, and {SCHEMAS.most_strict_tools} may be"
        yield Finding(REQUEST, "/tools", message, "let some be without strict")
    schemas = [(f"{at}/input_schema", tool.get("input_schema")) for at, tool in strict]
    for at, schema in schemas:
        yield from refuse_schema(schema, at, SCHEMAS, strict=True)
    yield from refuse_complexity([schema for _, schema in schemas], "/tools", SCHEMAS)
    for at, tool in listed:
        if tool.get("defer_loading") is True and tool.get("cache_control") is not None:
            message = "a tool that is loaded later cannot be marked for the cache"
            yield Finding(REQUEST, f"{at}/cache_control", message, "mark another one")
    choice = object_at(wire, "tool_choice")
    if choice and not listed:
        message = "a tool must be chosen, and there are none"
        yield Finding(OPTION, "/tool_choice", message, "leave out tool_choice")
    if choice.get("type") in ("any", "tool") and not facts_for(model).forced_choice:
        message = f"{model} cannot be made to call a tool"
        yield Finding(OPTION, "/tool_choice", message, 'set tool_choice to "auto"')
    if choice.get("type") == "tool":
        known = {str(tool.get("name")) for _, tool in listed}
        yield from refuse_undeclared([choice.get("name")], known, "/tool_choice/name")


def _refuse_format(wire: JsonObject, model: str) -> Findings:
    form = object_at(wire, "output_config", "format")
    if not form:
        return
    if not facts_for(model).native_schema:
        message = f"{model} cannot be held to a schema"
        yield Finding(OPTION, "/output_config/format", message, "ask for the answer by a tool")
    pointer = "/output_config/format/schema"
    yield from refuse_schema(form.get("schema"), pointer, SCHEMAS, strict=True)


# --- refusing: the turns


_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")

_FOREIGN = frozenset(
    ("image_url", "input_audio", "input_text", "input_image", "input_file", "output_text", "file",
     "audio", "video")
)  # fmt: skip

_MOST_MARKS = 4

_UNFILLED = r"claude-((opus|sonnet|haiku)-4-[6-9]|[a-z]+-[5-9])"

_NO_LATE_SYSTEM = r"claude-(instant|2|3|(opus|sonnet|haiku)-4(-[0-7])?(-2025\d+)?$)"

_ANSWERED = frozenset(("text", "thinking", "redacted_thinking"))

_CALL = frozenset(("type", "id", "name", "input"))

_RESULT = frozenset(("type", "tool_use_id", "content", "is_error"))

_NAMES_TOOLS = frozenset(("tool_addition", "tool_reference", "tool_search_tool_result"))
"""Blocks that load a tool which was declared to be loaded later."""

_PAIR = "answer every call in the very next turn, and nothing else"


_SPOKEN = frozenset(("text", "thinking", "redacted_thinking", "tool_use"))
"""Blocks after which the user speaks; after one of the provider's own the model can go on."""


class AnthropicTurnRules:
    """Empty turns, broken pairs, media it cannot read, a last word that is put in its mouth."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._waiting: dict[str, str] = {}
        self._seen = SeenIds()
        self._marks: list[tuple[str, bool]] = []
        self._last: tuple[str, JsonObject] | None = None
        self._blank: tuple[Finding, ...] = ()
        """What is wrong with a blank answer, unless it is the last turn: a beginning may be."""
        self._names_tools = False
        self._called = False
        self._system = ""
        """Where a system text stands after which only the model may speak."""

    def fork(self) -> "AnthropicTurnRules":
        """A copy to read on with."""
        copy = AnthropicTurnRules(self._model)
        copy._waiting, copy._seen = dict(self._waiting), self._seen.fork()
        copy._marks, copy._last = list(self._marks), self._last
        copy._blank, copy._names_tools = self._blank, self._names_tools
        copy._called, copy._system = self._called, self._system
        return copy

    def read(self, turn: JsonObject, at: str) -> Iterable[Finding]:
        """One more message."""
        blank, self._blank = self._blank, ()
        role, content = turn.get("role"), turn.get("content")
        if self._system:
            at_system, self._system = self._system, ""
            # of several in a row the last one is before an answer
            if role not in ("assistant", "system"):
                text = "the model does not speak after this system text"
                blank = (*blank, Finding(REQUEST, at_system, text, "put it before an answer"))
        if (
            self._is_sound_answer(content, at)
            if role == "assistant"
            else role == "user" and self._is_sound_message(content)
        ):
            self._last = (at, turn)
            return blank
        return (*blank, *self._judge(turn, at, role))

    def _judge(self, turn: JsonObject, at: str, role: Json) -> Findings:
        """A message with more to it than words, a call, or the result that is waited for."""
        if role not in ("user", "assistant", "system"):
            yield no_role(role, at)
        elif role == "system" and re.match(_NO_LATE_SYSTEM, self._model):
            text = f"{self._model} takes no system text in mid-conversation"
            yield Finding(REQUEST, f"{at}/role", text, "put it before the conversation")
        elif role == "system" and turn.get("content") != []:  # which is nothing but a setting
            self._system = at
            if self._waiting or not self._follows_user():
                text = "this system text does not follow what the user says"
                yield Finding(REQUEST, at, text, "put it after a user's turn")
        yield from _refuse_blocks(turn, at, signs=_signs(self._model))
        yield from self._pairs(turn, at)
        self._last = (at, turn)
        if role == "assistant":
            self._blank = tuple(_refuse_blank(turn, at))
        for where, block in placed_objects(turn.get("content"), f"{at}/content"):
            inside = placed_objects(block.get("content"), f"{where}/content")
            if block.get("type") == "tool_result":
                self._marks += _marks_at(inside)
            self._marks += _marks_at([(where, block)])
            kinds = {str(part.get("type")) for _, part in (*inside, (where, block))}
            self._names_tools = self._names_tools or bool(kinds & _NAMES_TOOLS)

    def _follows_user(self) -> bool:
        """Whether it is after the user's turn, another one, or what the provider runs itself."""
        if self._last is None:
            return False
        _, turn = self._last
        blocks = as_list(turn.get("content"))
        own = bool(blocks) and object_in(blocks[-1]).get("type", "text") not in _SPOKEN
        role = turn.get("role")
        return role in ("user", "system") or (role == "assistant" and own)

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        if self._last is None:
            yield Finding(REQUEST, "/messages", "there are no turns", "say something")
        else:
            # calls in the last turn of all are still to be answered
            if self._waiting and self._last[1].get("role") != "assistant":
                yield from refuse_unanswered(dict(self._waiting), _PAIR)
            yield from _refuse_last_word(wire, *self._last, self._model)
        yield from self._bad_marks(wire)
        listed = placed_objects(wire.get("tools"), "/tools")
        if self._called and not listed and not wire.get("mcp_servers"):
            message = "the conversation has calls, and no tools are declared"
            yield Finding(REQUEST, "/tools", message, "declare the tools that were called")
        later = [tool for _, tool in listed if tool.get("defer_loading") is True]
        if listed and len(later) == len(listed) and not self._names_tools:
            message = "every tool is loaded later"
            yield Finding(REQUEST, "/tools", message, "load one of them at once")

    def _is_sound_answer(self, content: Json, at: str) -> bool:
        """Whether a turn is plain words, or just a call with nothing wrong; note the call."""
        if self._waiting:
            return False
        if is_plain(content):
            return True
        block = only_block(content)
        if block is None or block.get("type") != "tool_use" or not block.keys() <= _CALL:
            return False
        call = block.get("id")
        if not isinstance(call, str) or not _LEGAL_ID.fullmatch(call) or not self._seen.add(call):
            return False
        self._waiting[call] = f"{at}/content/0"
        self._called = True
        return True

    def _is_sound_message(self, content: Json) -> bool:
        """Whether a turn is plain words, or just the result that is waited for; note it."""
        if not self._waiting:
            return is_plain(content)
        block = only_block(content) if len(self._waiting) == 1 else None
        if block is None or block.get("type") != "tool_result" or not block.keys() <= _RESULT:
            return False
        call, words = block.get("tool_use_id"), block.get("content")
        if not isinstance(call, str) or call not in self._waiting:
            return False
        if not isinstance(words, str) and not is_plain(words):
            return False
        self._waiting.clear()
        return True

    def _pairs(self, turn: JsonObject, at: str) -> Findings:
        """Every call is answered in the next turn of the user, which may come in pieces."""
        role, waiting = turn.get("role"), self._waiting
        blocks = placed_objects(turn.get("content"), f"{at}/content")
        if role == "system":
            return
        if role == "assistant":
            if waiting:
                yield from refuse_unanswered(waiting, _PAIR)
            for where, block in blocks:
                if block.get("type") == "tool_use":
                    self._called = True
                    call = str(block.get("id"))
                    if call in self._seen:
                        yield two_calls(call, f"{where}/id", _PAIR)
                    self._seen.add(call)
                    waiting[call] = where
            return
        results = [(where, one) for where, one in blocks if one.get("type") == "tool_result"]
        for where, block in results:
            yield from refuse_result(waiting, str(block.get("tool_use_id")), where, _PAIR)
        if waiting and not results:
            yield from refuse_unanswered(waiting, _PAIR)

    def _bad_marks(self, wire: JsonObject) -> Findings:
        """At most four marks for the cache, those that last longer first."""
        system = wire.get("system")
        head = placed_objects(wire.get("tools"), "/tools")
        if not isinstance(system, str):
            head += placed_objects(system, "/system")
        marks = [*_marks_at(head), *self._marks, *_marks_at([("", wire)])]
        if len(marks) > _MOST_MARKS:
            message = f"there are {len(marks)} cache marks, and {_MOST_MARKS} may be"
            yield Finding(REQUEST, marks[_MOST_MARKS][0], message, "leave some out")
        short = False
        for where, long in marks:
            if long and short:
                message = "a cache mark for an hour comes after one for five minutes"
                yield Finding(REQUEST, where, message, "put those that last longer first")
            short = short or not long


def _marks_at(places: list[tuple[str, JsonObject]]) -> list[tuple[str, bool]]:
    """The marks for the cache at these places, each with whether it is for an hour."""
    return [
        (f"{where}/cache_control", mark.get("ttl") == "1h")
        for where, block in places
        if isinstance(mark := block.get("cache_control"), dict)
    ]


def _refuse_blank(message: JsonObject, at: str) -> Findings:
    """A turn that says nothing."""
    content = message.get("content")
    if isinstance(content, str):
        if not content.strip():
            yield Finding(REQUEST, f"{at}/content", "this turn is blank", "say something")
    elif not placed_objects(content, ""):
        yield Finding(REQUEST, f"{at}/content", "this turn is empty", "say something")


def _signs(model: str) -> bool:
    """Whether the model signs what it thinks, and takes nothing else back."""
    return wire_name(model).startswith("claude-")


def _refuse_blocks(message: JsonObject, at: str, *, signs: bool) -> Findings:
    if message.get("role") != "assistant":
        yield from _refuse_blank(message, at)
    blocks = placed_objects(message.get("content"), f"{at}/content")
    for where, block in blocks:
        kind = block.get("type")
        text = str(block.get("text") or "")
        if kind == "text" and (not text or (len(blocks) == 1 and not text.strip())):
            yield Finding(REQUEST, f"{where}/text", "this text is blank", "leave it out")
        elif kind == "thinking" and not block.get("signature") and signs:
            message_ = "this thinking has no signature, so it was not the model's own"
            yield Finding(REQUEST, f"{where}/signature", message_, "send it as it came, or as text")
        elif kind == "tool_use" and not _LEGAL_ID.fullmatch(str(block.get("id"))):
            message_ = f"{block.get('id')!r} is not an id for a call"
            yield Finding(REQUEST, f"{where}/id", message_, "use letters, digits, _ and -")
        elif kind in ("image", "document"):
            yield from _refuse_media(block, where)
        elif kind == "tool_result":
            for inside, part in placed_objects(block.get("content"), f"{where}/content"):
                if part.get("type") in ("image", "document"):
                    yield from _refuse_media(part, inside)
                elif str(part.get("type")) in _FOREIGN:
                    yield unread_media(str(part.get("type")), inside, "anthropic")
        elif isinstance(kind, str) and kind in _FOREIGN:
            yield unread_media(kind, where, "anthropic")


def _refuse_media(block: JsonObject, where: str) -> Findings:
    source = object_at(block, "source")
    kind, data = str(source.get("media_type", "")), source.get("data")
    pointer = f"{where}/source/media_type"
    if source.get("type") == "base64":
        takes = IMAGES if block.get("type") == "image" else {PDF}
        if kind not in takes:
            yield unread_media(kind, pointer, f"an {block.get('type')} block of anthropic")
        yield from refuse_mistaken_type(kind, data, pointer)
    elif source.get("type") == "text" and kind != "text/plain":
        yield unread_media(kind, pointer, "a text document of anthropic")
    elif source.get("type") == "url" and not str(source.get("url", "")).startswith("http"):
        hint = "give an https address, or the data itself"
        yield Finding(MEDIA, f"{where}/source/url", "this is not an address on the web", hint)


def _refuse_last_word(wire: JsonObject, at: str, message: JsonObject, model: str) -> Findings:
    """A beginning of the answer that is written for the model."""
    if message.get("role") != "assistant":
        return
    content = message.get("content")
    blocks = placed_objects(content, f"{at}/content")
    begun = isinstance(content, str) or (bool(blocks) and blocks[-1][1].get("type") == "text")
    kinds = {str(block.get("type")) for _, block in blocks}
    if not begun or kinds - _ANSWERED:  # an answer of its own that it was to go on with
        return
    if re.match(_UNFILLED, model):
        hint = "end with a turn of the user"
        yield Finding(REQUEST, at, f"{model} does not go on with words put in its mouth", hint)
    elif object_at(wire, "thinking").get("type") == "enabled":
        hint = "end with a turn of the user, or leave out thinking"
        yield Finding(OPTION, at, "an answer that is begun cannot be thought about", hint)
    text = content if isinstance(content, str) else str(blocks[-1][1].get("text"))
    if text != text.rstrip():
        message_ = "the beginning of the answer ends in white space"
        yield Finding(REQUEST, f"{at}/content", message_, "strip it")


DIALECT = AnthropicDialect()
