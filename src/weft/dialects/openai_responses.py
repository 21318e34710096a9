"""OpenAI Responses, whole: a flat list of items, with reasoning taken along in sealed form.

In this order: options, the dialect itself, and then its parts below: lowering, answers, streams,
requests read back, counting, refusing.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import msgspec

from weft.content import Content, Part, opaque_part
from weft.declare.provider_tools import CodeExecution, FileSearch, HostedTool, WebSearch
from weft.dialects.base import Dialect, SpelledTool, Traits, set_options
from weft.dialects.caching import mark_item, name_prefix, place_of_note
from weft.dialects.facts import facts_for, wire_name
from weft.dialects.legality import (
    IMAGES,
    OPTION,
    PDF,
    REQUEST,
    DeclaredTool,
    Finding,
    Findings,
    SeenIds,
    Spelling,
    TurnRules,
    missing_media,
    no_role,
    reads_media,
    refuse_undeclared,
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
from weft.dialects.openai_common import (
    NAMES,
    NO_TEXT,
    SCHEMAS,
    AnswerUsage,
    answer_error,
    answer_metadata,
    arguments_text,
    is_choice_forced,
    is_openai,
    is_shut_out,
    lift_call,
    lift_text_call,
    loads_later,
    output_format,
    output_text,
    read_choice,
    read_output,
    reasons,
    refuse_audio,
    refuse_file,
    refuse_format,
    refuse_functions,
    refuse_image,
    refuse_options,
    refuse_short_limit,
    refuse_unsaid_json,
    weigh_content,
    weigh_function,
    weigh_result,
    write_choice,
)
from weft.dialects.options import EFFORTS, Option, read_options
from weft.dialects.stream import AnswerErrors, Stream, partial_text, partial_thought, tells_error
from weft.dialects.strict import (
    Misshapen,
    Outline,
    PairedPart,
    RequestForm,
    require_arguments,
    require_text,
    require_words,
)
from weft.dialects.track import Entry, LoweringReport, Placed, Track, Wire
from weft.dialects.wire import (
    ReadPart,
    ReadRequest,
    ReadTool,
    ReadTurn,
    address_of,
    arguments_json,
    as_json,
    as_list,
    as_text,
    at_path,
    data_url,
    document_text,
    drop_fields,
    joined_text,
    linked_part,
    mime_of,
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
    text_in,
    text_response,
    without,
)
from weft.ir import (
    Block,
    CallBlock,
    MediaBlock,
    ModelResponse,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.tokens import served_tool_tokens
from weft.values import Json, JsonObject

NAME = "openai-responses"
ERRORS = AnswerErrors(NAME, key="OPENAI_API_KEY")

_OFFICE = "application/vnd.openxmlformats-officedocument."

_FILE_NAMES = {
    PDF: "pdf",
    f"{_OFFICE}wordprocessingml.document": "docx",
    f"{_OFFICE}presentationml.presentation": "pptx",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
}


def _write_thinking(wire: Wire, value: Json) -> list[str]:
    missed: list[str] = []
    for name, setting in value.items() if isinstance(value, dict) else ():
        if name == "effort" and setting in EFFORTS:
            put(wire, "reasoning.effort", setting)
        elif name == "include":
            if setting:
                put(wire, "reasoning.summary", "auto")
        elif name != "budget" or setting != -1:  # -1 leaves it to the model
            missed.append(f"thinking.{name}")
    return missed


def _write_tool_choice(wire: Wire, value: Json) -> None:
    if isinstance(value, dict):
        wire["tool_choice"] = {"type": "function", "name": value.get("name")}
    else:
        wire["tool_choice"] = write_choice(value)


def _write_logprobs(wire: Wire, value: Json) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        wire["top_logprobs"] = value


_SEALED = frozenset(("reasoning", "compaction"))
"""Items that only the very model can read that made them."""


_LOGPROBS = "message.output_text.logprobs"


def _read_thinking(wire: JsonObject) -> Json:
    reasoning = object_at(wire, "reasoning")
    include = True if reasoning.get("summary") is not None else None
    return present(effort=reasoning.get("effort"), include=include)


def _read_tool_choice(wire: JsonObject) -> Json:
    """The function that must be called; `allowed_tools` and the like are options of their own."""
    choice = wire.get("tool_choice")
    function = isinstance(choice, dict) and choice.get("type") == "function"
    return read_choice(choice, at_path(wire, "tool_choice.name") if function else None)


def _read_logprobs(wire: JsonObject) -> Json:
    include, count = wire.get("include"), wire.get("top_logprobs")
    if not isinstance(include, list) or _LOGPROBS not in include:
        return None
    return count if isinstance(count, int) else True


class OpenAIResponsesDialect(Dialect):
    """System is a field, calls and results are items of their own, nothing is stored."""

    traits = Traits(
        name=NAME,
        turns="input",
        merges_turns=False,
        model_role="assistant",
        calls=("", ""),
        results=("", ""),
        schemas=SCHEMAS,
        names=NAMES,
        sealed=_SEALED,
        ids=Spelling(NO_TEXT, 64),
        compared=("model", "prompt_cache_key", "text", "reasoning", "service_tier"),
        counts_system=True,
        talks_on=True,
    )
    form = RequestForm(
        system="instructions",
        needs=("model",),
        describes=(
            "name", "description", "type", "strict", "defer_loading", "allowed_callers",
            "output_schema", "async",
        ),
        answer=("text", "format", "schema"),
        beside=("type", "name"),
    )  # fmt: skip
    errors = ERRORS
    options: ClassVar = {
        "temperature": Option("temperature", range=(0.0, 2.0)),
        "top_p": Option("top_p", range=(0.0, 1.0)),
        "max_output_tokens": Option("max_output_tokens"),
        "parallel_tool_calls": Option("parallel_tool_calls"),
        "service_tier": Option("service_tier"),
        "user": Option("user"),
        "thinking": Option(write=_write_thinking, read=_read_thinking),
        "tool_choice": Option(write=_write_tool_choice, read=_read_tool_choice),
        "logprobs": Option(write=_write_logprobs, read=_read_logprobs),
    }
    other_ranges: ClassVar = {
        "presence_penalty": (-2.0, 2.0),
        "frequency_penalty": (-2.0, 2.0),
        "top_logprobs": (0.0, 20.0),
        "n": (1.0, 128.0),
    }

    def option(self, name: str, prompt: Prompt) -> Option | None:
        """Models that think take no temperature and its kin."""
        return None if is_shut_out(name, prompt) else super().option(name, prompt)

    def head(self, prompt: Prompt, report: LoweringReport) -> tuple[Wire, tuple[Placed, ...]]:
        """Model, options, answer format, tools and instructions."""
        wire: Wire = {"model": wire_name(prompt.model), "store": False}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, report)
        wanted: list[Json] = []
        kept_nowhere = wire.get("store") is False
        thinks = "thinking" in prompt.config and facts_for(prompt.model).thinks
        # with `store: false` reasoning comes back sealed, and only if it is asked for
        if kept_nowhere and (thinks or reasons(prompt.model)):
            wanted.append("reasoning.encrypted_content")
        if prompt.config.get("logprobs"):
            wanted.append(_LOGPROBS)
        if wanted and wire.get("include", ()) is not None:
            included = wire.get("include")
            asked = included if isinstance(included, list) else []
            wire["include"] = [*asked, *(name for name in wanted if name not in asked)]
        if prompt.output is not None and prompt.output.how == "native":
            form = output_format(prompt.output, report)
            put(wire, "text.format", {"type": "json_schema", **form})
            placed.append(Placed("/text/format", prompt.output.origin))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, report)
        if prompt.system:
            wire["instructions"] = prompt.system_text
            placed.append(Placed("/instructions", prompt.system))
        name_prefix(wire, prompt)
        return wire, tuple(placed)

    def keep(self, prompt: Prompt, wire: Wire, track: Track, lasting: list[Entry]) -> Wire:
        """A mark after notes, and before what is said once; the provider's own is at the end."""
        last, cache = prompt.items.tip, facts_for(prompt.model).cache
        if last is None or not (cache.keyed and cache.breakpoints):
            return wire
        note = place_of_note(prompt, track, lasting)
        if note is not None:
            wire = mark_item(wire, self.traits.turns, note.turn)
        if last.kind != "system":
            return wire
        return mark_item(wire, self.traits.turns, len(track.wires) + len(lasting) - 1)

    def declaration(self, tool: ToolDecl, report: LoweringReport) -> Wire:
        """A function; not strict, which would make every one of its parameters required."""
        wire: Wire = {"type": "function", "name": tool.name, "description": tool.description}
        return {**wire, "parameters": self.parameters(tool, report), "strict": False}

    def hosted(self, tool: HostedTool, report: LoweringReport) -> SpelledTool | None:
        """Search, code and files; it fetches pages only while it searches."""
        match tool:
            case WebSearch():
                search: Wire = {"type": "web_search"}
                if tool.allowed_domains:
                    search["filters"] = {"allowed_domains": list[Json](tool.allowed_domains)}
                if tool.location:
                    search["user_location"] = {"type": "approximate", **tool.location}
                return SpelledTool(search, set_options(tool, "max_uses", "blocked_domains"))
            case CodeExecution():
                container: Wire = {"type": "auto"}
                if tool.files:
                    container["file_ids"] = list[Json](tool.files)
                return SpelledTool({"type": "code_interpreter", "container": container})
            case FileSearch():
                files: Wire = {"type": "file_search", "vector_store_ids": list[Json](tool.stores)}
                if tool.max_results is not None:
                    files["max_num_results"] = tool.max_results
                return SpelledTool(files)
            case _:
                return None

    def turn(self, role: Role, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        """Results and calls are items; what the user says together is one message."""
        if role == "model":
            return self._model_turn(blocks, report)
        if role == "user":
            blocks = sorted(blocks, key=lambda block: not isinstance(block, ResultBlock))
        entries: list[Entry] = []
        for block in blocks:
            part = self.part(block, report)
            if part is None:
                continue
            if isinstance(block, (CallBlock, ResultBlock)) or _stands_alone(block):
                entries.append(Entry(part, "", (("", block),)))
            elif "role" in part:
                entries.append(Entry(part, str(part["role"]), (("/content", block),)))
            elif entries and entries[-1].role == "user":
                entries[-1] = _with_part(entries[-1], part, block)
            else:
                entries.append(
                    _with_part(Entry({"role": "user", "content": []}, "user", ()), part, block)
                )
        return entries

    def _model_turn(self, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        """An answer's items as they came, or loosened where their reasoning cannot go along."""
        # an item whose id points to reasoning that is not sent is refused
        loose = any(_is_reasoning(block) and not self._returns(block, report) for block in blocks)
        entries: list[Entry] = []
        for block in blocks:
            sendable: Block | None = block
            if block.provider == self.traits.name and not _is_reasoning(block):
                foreign = not self.own(block, report) and not isinstance(block, OpaqueBlock)
                sendable = _without_id(block) if loose or foreign else block
            if sendable is None:
                self.drop_foreign(block, report, what="part without its reasoning")
                continue
            part = self.part(sendable, report)
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
        # the provider refuses reasoning without the very item that it led to
        sent: list[Entry] = []
        for entry in reversed(entries):
            last = sent[-1].wire if sent else {}
            if entry.wire.get("type") != "reasoning" or _leads_to(entry.wire, last):
                sent.append(entry)
            else:
                what = "reasoning that led to nothing cannot go back"
                report.add("WEFT704", entry.blocks[0][1].origin, what)
        entries = sent[::-1]
        return _gather_messages(entries)

    def _item(self, blocks: tuple[Block, ...], report: LoweringReport) -> list[Entry]:
        return _results_by_kind(super()._item(blocks, report))

    def _returns(self, block: Block, report: LoweringReport) -> bool:
        """Whether reasoning goes back: to the model it is sealed for, with all that was thought."""
        return self.own(block, report) and (report.stores or _is_readable(block))

    def holds(self, prompt: Prompt) -> bool:
        """Only where `extra` takes back that nothing is stored."""
        extra = prompt.config.get("extra")
        own = extra.get(self.traits.name) if isinstance(extra, dict) else None
        return isinstance(own, dict) and own.get("store", False) is not False

    def spell_plain_turn(self, block: TextBlock) -> Entry:
        """A message: the model's is plain text, the user's a list of parts."""
        if block.role == "model":
            wire: Wire = {"role": "assistant", "content": block.text}
            return Entry(wire, "assistant", (("/content", block),))
        wire_in: Wire = {"role": "user", "content": [{"type": "input_text", "text": block.text}]}
        return Entry(wire_in, "user", (("/content/0", block),))

    def spell_plain_wire(self, role: Literal["user", "model"], text: str) -> Wire:
        """The same message."""
        if role == "model":
            return {"role": "assistant", "content": text}
        return {"role": "user", "content": [{"type": "input_text", "text": text}]}

    def text(self, block: TextBlock, report: LoweringReport) -> Wire:
        """A text part; the author's word is an item of its own."""
        self.drop_signature(block, report)
        if block.role == "system":
            return {"role": "system", "content": block.text}
        return {"type": "input_text", "text": block.text}

    def thought(self, block: ThoughtBlock, report: LoweringReport) -> Wire | None:
        """Reasoning goes back as the sealed item it came as, not as text."""
        if self._returns(block, report):
            return _reasoning_item(block)
        if block.signature or self.has_kept(block) or not self.own(block, report):
            self._drop_reasoning(block, report)
        return None

    def opaque(self, block: OpaqueBlock, report: LoweringReport) -> Wire | None:
        """An item of the provider's own; it does not take back who caused it."""
        if _is_reasoning(block) and not self._returns(block, report):
            self._drop_reasoning(block, report)
            return None
        payload = super().opaque(block, report)
        # the provider sends this field and does not take it back
        if payload is None or "created_by" not in payload:
            return payload
        return drop_fields(payload, "created_by")

    def _drop_reasoning(self, block: Block, report: LoweringReport) -> None:
        if self.own(block, report):
            report.add("WEFT704", block.origin, "reasoning cannot go back without its seal")
        else:
            signed = isinstance(block, ThoughtBlock) and block.signature
            thought = isinstance(block, ThoughtBlock)
            what = "signature" if signed else "thought" if thought or block.kept else "part"
            self.drop_foreign(block, report, what=what)

    def with_kept(self, wire: Wire, block: Block) -> Wire:
        """The item with its provider's own fields; a text stands in the message it came in."""
        fields = block.kept or {}
        if isinstance(block, CallBlock):
            return {**wire, **{key: fields[key] for key in fields if key != "arguments"}}
        if isinstance(block, TextBlock) and block.role == "model" and "message" in fields:
            return _message_item(block.text, fields)
        return super().with_kept(wire, block)

    def call(self, block: CallBlock, report: LoweringReport) -> Wire:
        """A function_call item; its arguments are text."""
        if block.signature:
            self.drop_signature(block, report)
        wire: Wire = {
            "type": "function_call",
            "call_id": self.id_of(block.id, report),
            "name": self.name_of(block, report),
        }
        fields = block.kept if block.kept is not None and self.has_kept(block) else None
        if fields is not None and fields.get("type") == "custom_tool_call":
            return {**wire, "type": "custom_tool_call", "input": block.args.get("input")}
        wire["arguments"] = arguments_text(block, self.traits.name)
        return wire

    def result(self, block: ResultBlock, report: LoweringReport) -> Wire:
        """A function_call_output item: text, or text and media."""
        text = output_text(block)
        wire: Wire = {
            "type": "function_call_output",
            "call_id": self.id_of(block.call_id, report),
            "output": text,
        }
        if block.media:
            texts: list[Json] = [{"type": "input_text", "text": text}] if text.strip() else []
            wire["output"] = texts + [self.media(media, report) for media in block.media]
        return wire

    def media(self, block: MediaBlock, report: LoweringReport) -> Wire:
        """An image or a file; the model's own turn takes text only."""
        kind, url = mime_of(block), address_of(block)
        if (text := document_text(block)) is not None:
            return {"type": "input_text", "text": text}
        if block.role == "user" and reads_media(kind, report.model):
            if kind in IMAGES and block.data:
                return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
            if kind.startswith("image/") and url:
                return {"type": "input_image", "image_url": url, "detail": "auto"}
            if kind in _FILE_NAMES and block.data:
                name = block.name or f"document.{_FILE_NAMES[kind]}"
                return {"type": "input_file", "filename": name, "file_data": data_url(block)}
            if url and (kind in _FILE_NAMES or kind.startswith("text/")):
                return {"type": "input_file", "file_url": url}
        return {"type": "input_text", "text": missing_media(block, report)}

    # Answers, whole and streamed.

    def lift(self, body: JsonObject) -> ModelResponse:
        """What a whole answer says."""
        if tells_error(body) or body.get("status") == "failed":
            raise ERRORS.failure(None, body)
        output, status = body.get("output"), body.get("status")
        if not isinstance(output, list):
            raise ERRORS.unreadable("the answer has no list of output items")
        if status in ("queued", "in_progress"):
            return _lift_unfinished(body, str(status))
        items = objects_in(output)
        parts = [part for item in items for part in _lift_item(item)]
        finish = "STOP"
        if status == "incomplete":
            why = text_in(object_in(body.get("incomplete_details")).get("reason"))
            finish = _FINISHES.get(why, "OTHER") if why else "MAX_TOKENS"
        elif status == "cancelled":
            finish = "OTHER"
        code, message = answer_error(parts, finish, _refusal_text(items))
        usage = object_in(body.get("usage"))
        counted = AnswerUsage(usage, "input_tokens", "output_tokens") if usage else None
        return ModelResponse(
            content=Content(tuple(parts), "model") if parts else None,
            finish_reason=finish,
            error_code=code,
            error_message=message,
            usage=counted.usage if counted is not None else None,
            model_version=text_in(body.get("model")) or None,
            custom_metadata=answer_metadata(counted, without(body, *_LIFTED, *_ECHOED)),
        )

    def stream(self) -> Stream:
        """A reader for one streamed answer."""
        return ResponsesStream()

    # Requests, read back.

    def read(self, wire: JsonObject) -> ReadRequest:
        """System, turns, tools, schema and options of a request."""
        listed = wire.get("input")
        items: Json = {"role": "user", "content": listed} if isinstance(listed, str) else listed
        calls: dict[str, str] = {}
        turns = _join_answers([_read_turn(item, calls) for item in require_objects(items, "input")])
        instructions = text_at(wire, "instructions")
        text: JsonObject = {"role": "system", "content": instructions}
        system = (ReadPart(Part(text=instructions), text),) if instructions else ()
        return ReadRequest(
            system=system,
            turns=tuple(turns),
            tools=tuple(_read_tool(tool) for tool in require_objects(wire.get("tools"), "tools")),
            output=read_output(at_path(wire, "text.format")),
            config=read_options(self.options, wire),
            places=("input", "tools", *(["text.format"] if _has_schema(wire) else []))
            + (("instructions",) if instructions else ()),
        )

    # What is counted of a request.

    def weigh_head(self, wire: JsonObject) -> WeighedHead:
        """Instructions, tools, schema and choice."""
        tools: list[WeighedTool] = []
        others: list[str] = []
        uncounted: dict[str, None] = {}
        own = 0
        for tool in map(object_in, as_list(wire.get("tools"))):
            kind = as_text(tool.get("type"))
            if tool.get("defer_loading") or (
                kind == "namespace" and "defer_loading" in as_json(tool)
            ):
                uncounted[LATER] = None
            elif kind == "function":
                tools.append(weigh_function(tool))
            else:
                runs_here = kind in _ASKED_BACK or tool.get("execution") == "client"
                size = 0 if runs_here else served_tool_tokens(NAME, kind)
                own += size
                if not size:
                    others.append(as_json(tool))
                if kind == "mcp":
                    uncounted["the tools of its MCP servers"] = None
                elif not runs_here:
                    uncounted[OWN_TOOLS] = None
        return WeighedHead(
            system=tuple(as_text(one) for one in as_list(wire.get("instructions")) if one),
            tools=tuple(tools),
            others=tuple(others),
            schema=object_in(object_in(wire.get("text")).get("format")).get("schema"),
            forced=is_choice_forced(wire),
            stateful=any(wire.get(key) for key in _STATEFUL),
            own=own,
            uncounted=tuple(uncounted),
        )

    def weigh_turn(self, turn: Json) -> WeighedTurn:
        """One turn; reasoning is not a turn of its own."""
        if not isinstance(turn, dict):
            return WeighedTurn("user", [Quantity("", "text", as_text(turn))], asks=True)
        match turn.get("type") or "message":
            case "message":
                role = as_text(turn.get("role")) or "user"
                return WeighedTurn(role, weigh_content(turn.get("content")), asks=role == "user")
            case "function_call":
                name = as_text(turn.get("name"))
                return WeighedTurn(
                    "", [Quantity("", "call", arguments_json(turn.get("arguments")), name)]
                )
            case "function_call_output":
                return WeighedTurn("", weigh_result(turn.get("output")))
            case "reasoning":
                sealed = len(as_text(turn.get("encrypted_content")))
                return WeighedTurn("", [Quantity("", "thought", "", sealed=sealed)], counts=False)
            case "additional_tools" | "tool_search_output":
                listed = [object_in(tool) for tool in as_list(turn.get("tools"))]
                parts = [
                    Quantity("", "tool", as_json(weigh_function(tool)), uncounted=LATER)
                    for tool in listed
                ]
                return WeighedTurn("", parts)
            case "tool_search_call" | "custom_tool_call" | "custom_tool_call_output":
                return WeighedTurn("", [Quantity("", "other", as_json(readable(turn)))])
            case "item_reference":
                return WeighedTurn("", [Quantity("", "other", "", uncounted=STORED)])
            case "compaction" | "compaction_summary":
                return WeighedTurn("", [Quantity("", "other", "", uncounted="what was compacted")])
            case _:
                return WeighedTurn(
                    "", [Quantity("", "other", as_json(readable(turn)), uncounted=SERVED)]
                )

    # What the provider refuses.

    def refuse_head(self, wire: JsonObject, model: str) -> Findings:
        """Everything but the items that the provider would answer with a 400."""
        yield from self.refuse_ranges(wire)
        yield from _refuse_options(wire, model)
        yield from _refuse_tools(wire, model)
        form = object_at(wire, "text", "format")
        if form.get("type") == "json_schema":
            yield from refuse_format(form, "/text/format", model)

    def turn_rules(self, model: str, *, strict: bool = False) -> TurnRules:
        """Every message, item or content, and how they follow each other."""
        return ResponsesTurnRules(model)

    def outline(self, turn: JsonObject, at: str) -> Outline:
        """An item that says something, calls something, or answers a call."""
        kind = turn.get("type", "message")
        if kind == "function_call":
            require_arguments(turn, at)
            call = PairedPart(require_text(turn, "call_id", at), require_text(turn, "name", at), "")
            return Outline("model", calls=(call,))
        if kind == "function_call_output":
            if not isinstance(turn.get("output"), (str, list)):
                raise Misshapen(f"{at}/output", "this result has no output", "say what it gave")
            return Outline("user", results=(PairedPart(require_text(turn, "call_id", at), "", ""),))
        if kind != "message":  # the provider's own item, which only it can read
            answers = require_text(turn, "type", at).endswith("_output")
            return Outline("user" if answers else "model", paused=kind != "reasoning")
        role = turn.get("role")
        require_words(turn, at)
        return Outline("model" if role == "assistant" else "user" if role == "user" else "system")


# --- lowering


def _stands_alone(block: Block) -> bool:
    """Whether this is an item of the provider's own, and not a part of what the user says."""
    return isinstance(block, OpaqueBlock) and not str(block.payload.get("type")).startswith(
        "input_"
    )


def _with_part(entry: Entry, part: Wire, block: Block) -> Entry:
    """The message with one more part."""
    content = entry.wire["content"]
    assert isinstance(content, list)
    wire: Wire = {**entry.wire, "content": [*content, part]}
    return Entry(wire, entry.role, (*entry.blocks, (f"/content/{len(content)}", block)))


_NAMELESS = frozenset(
    ("tool_search_call", "tool_search_output", "shell_call", "shell_call_output",
     "apply_patch_call", "apply_patch_call_output", "additional_tools")
)  # fmt: skip
"""Items of the provider's own that it takes without an id."""


def _is_reasoning(block: Block) -> bool:
    """Whether what follows may be tied to this block."""
    if isinstance(block, OpaqueBlock):
        return block.payload.get("type") == "reasoning"
    return isinstance(block, ThoughtBlock)


def _is_readable(block: Block) -> bool:
    """Whether reasoning carries what was thought; an id alone means nothing where none is kept."""
    if isinstance(block, OpaqueBlock):
        return bool(block.payload.get("encrypted_content") or block.payload.get("content"))
    if not isinstance(block, ThoughtBlock) or block.kept is None:
        return False
    return bool(block.signature or block.kept.get("content"))


def _without_id(block: Block) -> Block | None:
    """The block without the id that ties it to reasoning; None where it cannot be without."""
    fields = block.kept or {}
    if isinstance(block, TextBlock) and isinstance(envelope := fields.get("message"), dict):
        phase: JsonObject = {"phase": envelope["phase"]} if envelope.get("phase") else {}
        return msgspec.structs.replace(block, kept=phase or None)
    if isinstance(block, CallBlock) and "id" in fields:
        rest = drop_fields(fields, "id")
        return msgspec.structs.replace(block, kept=rest)
    if isinstance(block, OpaqueBlock):
        kind = block.payload.get("type")
        if not isinstance(kind, str) or kind not in _NAMELESS:
            return None
        payload = drop_fields(block.payload, "id")
        return msgspec.structs.replace(block, payload=payload)
    return block


def _reasoning_item(block: ThoughtBlock) -> Wire:
    """A reasoning item of a thought; fields it keeps of its own are not here."""
    wire: Wire = {"type": "reasoning", "summary": _summary(block.text)}
    return {**wire, "encrypted_content": block.signature} if block.signature else wire


def _summary(text: str) -> list[Json]:
    """A summary as the provider writes it, of one piece or of none."""
    return [{"type": "summary_text", "text": text}] if text else []


def _message_item(text: str, fields: JsonObject) -> Wire:
    """The message that a text came in, with this text alone; `fields` is what stood next to it."""
    envelope = fields["message"]
    assert isinstance(envelope, dict)
    piece: Wire = {"type": "output_text", "text": text}
    if fields.get("type") == "refusal":
        piece = {"type": "refusal", "refusal": text}
    piece |= drop_fields(fields, "message")
    return {"type": "message", "role": "assistant", **envelope, "content": [piece]}


def _gather_messages(entries: Sequence[Entry]) -> list[Entry]:
    """The items, the texts of one message in one."""
    gathered: list[Entry] = []
    for entry in entries:
        if gathered and (whole := _join_messages(gathered[-1], entry)) is not None:
            gathered[-1] = whole
        else:
            gathered.append(entry)
    return gathered


def _join_messages(first: Entry, second: Entry) -> Entry | None:
    """Two pieces of one message as one; None where they are not of one."""
    before, after = first.wire.get("content"), second.wire.get("content")
    if second.wire.get("type") != "message" or not (
        isinstance(before, list) and isinstance(after, list)
    ):
        return None
    if {**first.wire, "content": None} != {**second.wire, "content": None}:
        return None
    moved = tuple((f"/content/{len(before)}", block) for _, block in second.blocks)
    return Entry({**first.wire, "content": before + after}, first.role, first.blocks + moved)


def _results_by_kind(entries: list[Entry]) -> list[Entry]:
    """The items with each result in the form that its call asks for."""
    custom = [
        entry.wire["call_id"] for entry in entries if entry.wire.get("type") == "custom_tool_call"
    ]
    if not custom:
        return entries
    answered: list[Entry] = []
    for entry in entries:
        wire = entry.wire
        if wire.get("type") == "function_call_output" and wire["call_id"] in custom:
            wire = {**wire, "type": "custom_tool_call_output"}
            entry = msgspec.structs.replace(entry, wire=wire)
        answered.append(entry)
    return answered


# --- answers


_FINISHES = {"max_output_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}

_GAP = "\n\n"

_LIFTED = ("output", "model", "usage", "error")

_ECHOED = ("instructions", "tools", "text", "prompt")
"""What the answer repeats of the request, and may be as large as it."""


def _lift_unfinished(body: JsonObject, status: str) -> ModelResponse:
    """Work that the provider has only begun: no answer, with the id to fetch it by."""
    return ModelResponse(
        error_code="unfinished",
        error_message=f"the answer {text_in(body.get('id'))} is not there yet: its status is"
        f" {status!r}; leave out `background` to wait for it, or fetch it by its id",
        model_version=text_in(body.get("model")) or None,
        custom_metadata=answer_metadata(None, without(body, *_LIFTED, *_ECHOED)),
    )


def _lift_item(item: JsonObject) -> list[Part]:
    """One item as parts of the log; a message is as many as its content has."""
    match item:
        case {"type": "message", "role": "assistant", "content": content}:
            envelope, pieces = drop_fields(item, "type", "role", "content"), objects_in(content)
            return [_lift_piece(piece, envelope) for piece in pieces] or [opaque_part(NAME, item)]
        case {"type": "message", "role": str(role)} if role != "assistant":
            raise ERRORS.unreadable(f"the answer has the role {role!r} instead of 'assistant'")
        case {"type": "reasoning"}:
            return [_lift_thought(item)]
        case {"type": "function_call"}:
            name = text_in(item.get("name"))
            call_id, arguments = text_in(item.get("call_id")), item.get("arguments")
            fields = drop_fields(item, "type", "call_id", "name", "arguments")
            return [lift_call(NAME, call_id, name, arguments, fields)]
        case {"type": "custom_tool_call", "name": str(name), "input": text}:
            call_id = text_in(item.get("call_id"))
            fields = drop_fields(item, "type", "call_id", "name", "input")
            return [lift_text_call(NAME, call_id, name, text, "custom_tool_call", fields)]
        case _:
            return [opaque_part(NAME, item)]


def _lift_piece(piece: JsonObject, envelope: JsonObject) -> Part:
    """One part of a message's content, with the message's own fields."""
    beside: JsonObject = {"message": envelope}
    match piece:
        case {"type": "output_text", "text": str(text)} if text:
            return Part(
                text,
                part_metadata=provider_metadata(NAME, drop_fields(piece, "type", "text") | beside),
            )
        case {"type": "refusal", "refusal": str(text)} if text:
            return Part(
                text, part_metadata=provider_metadata(NAME, drop_fields(piece, "refusal") | beside)
            )
        case _:
            whole: JsonObject = {"type": "message", "role": "assistant", **envelope}
            return opaque_part(NAME, {**whole, "content": [piece]})


def _lift_thought(item: JsonObject) -> Part:
    """Reasoning: its words are the summary's, or its own where they are shown."""
    summary = [text_in(piece.get("text")) for piece in objects_in(item.get("summary"))]
    shown_whole = [text_in(piece.get("text")) for piece in objects_in(item.get("content"))]
    text = _GAP.join(summary or shown_whole)
    fields = drop_fields(item, "type", "encrypted_content")
    if fields.get("summary") == _summary(text):
        del fields["summary"]
    sealed = text_in(item.get("encrypted_content")) or None
    return Part(
        text, thought=True, thought_signature=sealed, part_metadata=provider_metadata(NAME, fields)
    )


def _refusal_text(items: list[JsonObject]) -> str:
    pieces = [piece for item in items for piece in objects_in(item.get("content"))]
    return "".join(text_in(piece.get("refusal")) for piece in pieces)


# --- streams


class ResponsesStream:
    """One streamed answer.

    Its last event carries the body. Items are taken from the events that finish them: some
    servers leave them out of the body, or give other seals there.
    """

    __slots__ = ("_body", "_done")

    def __init__(self) -> None:
        self._body: JsonObject | None = None
        self._done: dict[int, JsonObject] = {}

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one event; a piece of text or of a thought where it has one."""
        kind = data.get("type") or name
        if kind == "response.output_text.delta":
            text = data.get("delta")
            return partial_text(text) if isinstance(text, str) and text else None
        match kind:
            case "response.refusal.delta":
                text = text_in(data.get("delta"))
                return partial_text(text) if text else None
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                text = text_in(data.get("delta"))
                return partial_thought(text) if text else None
            case "response.reasoning_summary_part.added":
                return partial_thought(_GAP) if data.get("summary_index") else None
            case "response.output_item.done":
                index, item = data.get("output_index"), data.get("item")
                if isinstance(item, dict):
                    at = index if isinstance(index, int) else len(self._done)
                    self._done[at] = item
            case "response.completed" | "response.incomplete" | "response.cancelled":
                self._body = object_in(data.get("response"))
            case "response.failed":
                raise ERRORS.failure(None, object_in(data.get("response")) or data)
            case _ if tells_error(data):
                raise ERRORS.failure(None, data)
            case _:
                pass
        return None

    def note_end(self) -> None:
        """Nothing: the last event carries the answer, and no word stands for it."""

    def body(self) -> JsonObject:
        """The answer as it would have come whole."""
        if self._body is None:
            raise ERRORS.cut_off()
        done = self._done
        output = objects_in(self._body.get("output"))
        if not output:
            output = [done[at] for at in sorted(done)]
        by_id = {item_id: item for item in done.values() if (item_id := text_in(item.get("id")))}
        items: list[Json] = []
        for at, item in enumerate(output):
            same = done.get(at, item)
            finished = by_id.get(text_in(item.get("id")), same)
            items.append(finished if finished.get("type") == item.get("type") else item)
        return {**self._body, "output": items}


# --- requests read back


def _has_schema(wire: JsonObject) -> bool:
    return at_path(wire, "text.format.type") == "json_schema"


def _read_turn(item: JsonObject, calls: dict[str, str]) -> ReadTurn:
    match item.get("type", "message"):
        case "message":
            return _read_message(item)
        case "function_call":
            call_id = text_at(item, "call_id")
            calls[call_id] = name = text_at(item, "name")
            part = lift_call(NAME, call_id, name, item.get("arguments"), {})
            return ReadTurn("model", (ReadPart(part, item),))
        case "function_call_output":
            call_id = text_at(item, "call_id")
            return ReadTurn("user", (ReadPart(_read_result(item, call_id, calls), item),))
        case "reasoning":
            return ReadTurn("model", tuple(ReadPart(part, item) for part in _lift_item(item)))
        case _:
            side: Role = "user" if "role" in item else "model"
            return ReadTurn(side, (ReadPart(opaque_part(NAME, item), item),))


def _join_answers(turns: list[ReadTurn]) -> list[ReadTurn]:
    """The turns, those of one answer in one: its reasoning stands with what it led to."""
    joined: list[ReadTurn] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role == "model":
            joined[-1] = ReadTurn("model", joined[-1].parts + turn.parts)
        else:
            joined.append(turn)
    return joined


def _read_message(item: JsonObject) -> ReadTurn:
    role, content = item.get("role"), item.get("content")
    plain = item.keys() <= {"type", "role", "content"}
    if role in ("system", "developer") and joined_text(content, "input_text"):
        return ReadTurn("system", (ReadPart(Part(text=joined_text(content, "input_text")), item),))
    if role == "assistant" and isinstance(content, str) and content:
        if plain:
            return ReadTurn("model", (ReadPart(Part(text=content), None),))
    elif role == "assistant":
        lifted = _lift_item({"type": "message", **item})
        return ReadTurn("model", tuple(ReadPart(part, None) for part in lifted))
    if role == "user" and plain and content:
        text: Json = {"type": "input_text", "text": content}
        parts = require_objects(text if isinstance(content, str) else content, "content")
        return ReadTurn("user", tuple(ReadPart(_read_part(part), part) for part in parts))
    side: Role = "model" if role == "assistant" else "user"
    return ReadTurn(side, (ReadPart(opaque_part(NAME, item), item),))


def _read_result(item: JsonObject, call_id: str, calls: dict[str, str]) -> Part:
    output = item.get("output")
    parts = output if isinstance(output, list) else []
    parts_read = [_read_part(part) for part in parts if isinstance(part, dict)]
    media = [part for part in parts_read if part.kind == "media"]
    return result_part(
        call_id, calls.get(call_id, ""), text_response(joined_text(output, "input_text")), media
    )


def _read_part(part: JsonObject) -> Part:
    match part.get("type"):
        case "input_text":
            return Part(text=text_at(part, "text"))
        case "input_image" if part.get("image_url"):
            return linked_part(text_at(part, "image_url"), "image/jpeg")
        case "input_file" if part.get("file_data"):
            name = text_at(part, "filename")
            return linked_part(text_at(part, "file_data"), "application/pdf", name)
        case "input_file" if part.get("file_url"):
            return linked_part(text_at(part, "file_url"), "application/pdf")
        case _:
            return Part()


def _read_tool(tool: JsonObject) -> ReadTool:
    name = text_at(tool, "name")
    if tool.get("type") != "function":
        return ReadTool(tool, name or text_at(tool, "type"), own=True)
    schema = tool.get("parameters")
    parameters: JsonObject = (
        schema if isinstance(schema, dict) else {"type": "object", "properties": {}}
    )
    return ReadTool(tool, name, text_at(tool, "description"), parameters)


# --- counting


_ASKED_BACK = ("custom", "local_shell", "namespace")
"""Tools that whoever asks runs: what is declared is all there is of them."""

_STATEFUL = ("previous_response_id", "conversation", "prompt")


# --- refusing


_ROLES = ("user", "assistant", "system", "developer")

_PART_TYPES = {"input_text", "input_image", "input_file", "input_audio", "refusal", "output_text"}

_LEAST_TOKENS = 16

_NOT_MINIMAL = {"web_search", "web_search_preview", "image_generation", "code_interpreter"}

_SEALED_REASONING = "reasoning.encrypted_content"

_ANSWERED_HERE = ("function_call", "custom_tool_call")
"""Calls that whoever asks must answer; the provider answers the others."""

_PAIR = "answer every call, and send a call with its result"


def _refuse_options(wire: JsonObject, model: str) -> Findings:
    reasoning = object_at(wire, "reasoning")
    yield from refuse_options(wire, reasoning.get("effort"), "/reasoning/effort", model)
    yield from refuse_short_limit(wire, "max_output_tokens", _LEAST_TOKENS)
    if reasoning.get("context") == "all_turns" and not loads_later(model):
        message = f"{model} cannot be told how much reasoning to keep"
        yield Finding(OPTION, "/reasoning/context", message, "leave it out")
    plain = is_openai(model) and not reasons(model)
    include = wire.get("include")
    if plain and isinstance(include, list) and _SEALED_REASONING in include:
        message = f"{model} does not think, so there is no reasoning to give"
        yield Finding(OPTION, "/include", message, f"leave out {_SEALED_REASONING}")
    if plain and object_at(wire, "text").get("verbosity") not in (None, "medium"):
        message = f"{model} has one verbosity only"
        yield Finding(OPTION, "/text/verbosity", message, "leave it out")
    if wire.get("background") is True and wire.get("store") is False:
        message = "what runs in the background must be stored"
        yield Finding(OPTION, "/background", message, "leave out background, or store it")
    if wire.get("previous_response_id") and wire.get("conversation"):
        message = "the request goes on from an answer and from a conversation"
        yield Finding(OPTION, "/conversation", message, "leave out one of them")


def _refuse_tools(wire: JsonObject, model: str) -> Findings:
    listed = placed_objects(wire.get("tools"), "/tools")
    functions = [
        DeclaredTool(
            at,
            str(tool.get("name", "")),
            tool.get("parameters"),
            f"{at}/parameters",
            tool.get("strict") is True,
        )
        for at, tool in listed
        if tool.get("type") == "function" and not tool.get("defer_loading")
    ]
    yield from refuse_functions(functions)
    minimal = object_at(wire, "reasoning").get("effort") == "minimal"
    for at, tool in listed:
        kind = str(tool.get("type"))
        later = kind == "tool_search" or tool.get("defer_loading") is True
        if later and not loads_later(model):
            message = f"{model} cannot look for tools that are loaded later"
            yield Finding(REQUEST, at, message, "send the tools at once, or use another model")
        if minimal and kind in _NOT_MINIMAL:
            message = f"`{kind}` cannot be used with minimal effort"
            yield Finding(OPTION, at, message, "use low effort or more")
        if kind == "computer_use_preview" and wire.get("truncation") != "auto":
            message = "using a computer needs truncation"
            hint = 'set extra={"openai-responses": {"truncation": "auto"}}'
            yield Finding(OPTION, "/truncation", message, hint)


class ResponsesTurnRules:
    """Items that are empty, sent twice, without their other half, or without what they led to."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._own = is_openai(model)
        self._ids = SeenIds()
        self._calls = SeenIds()
        self._waiting: dict[str, str] = {}
        self._early: dict[str, str] = {}
        """Results that no call stands before."""
        self._reasoning = ""
        """Where reasoning stands that the next item must have led to."""
        self._any = self._adds_tools = False

    def fork(self) -> "ResponsesTurnRules":
        """A copy to read on with."""
        copy = ResponsesTurnRules(self._model)
        copy._ids, copy._calls = self._ids.fork(), self._calls.fork()
        copy._waiting, copy._early = dict(self._waiting), dict(self._early)
        copy._reasoning = self._reasoning
        copy._any, copy._adds_tools = self._any, self._adds_tools
        return copy

    def read(self, turn: JsonObject, at: str) -> Iterable[Finding]:
        """One more item."""
        self._any = True
        kind = str(turn.get("type") or "message")
        if not self._reasoning and "id" not in turn and _is_sound(turn, kind):
            if kind != "message":
                self._pair(turn, kind, at)
            return ()
        return self._judge(turn, kind, at)

    def _judge(self, turn: JsonObject, kind: str, at: str) -> Findings:
        """An item with more to it than words, a call or a result that nobody has given an id."""
        self._adds_tools = self._adds_tools or kind == "additional_tools"
        if kind == "message":
            yield from _refuse_message(turn, at, self._model)
        elif kind == "function_call_output":
            for where, part in placed_objects(turn.get("output"), f"{at}/output"):
                yield from _refuse_part(part, where, self._model)
        yield from self._follows(turn, kind)
        if kind == "reasoning" and turn.get("id") and self._own:
            self._reasoning = at
        item = turn.get("id")
        if isinstance(item, str) and kind != "item_reference":
            named = f"{kind} {item}"
            if named in self._ids:
                message = f"two items have the id {item}"
                yield Finding(REQUEST, f"{at}/id", message, "send each item once")
            self._ids.add(named)
        self._pair(turn, kind, at)

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        goes_on = _is_continued(wire)
        if not self._any and not wire.get("input") and not goes_on:
            yield Finding(REQUEST, "/input", "there is nothing to answer", "say something")
        if self._reasoning:
            yield _led_nowhere(self._reasoning)
        for call, at in self._waiting.items():
            yield Finding(REQUEST, at, f"the call {call} has no result", _PAIR)
        for call, at in () if goes_on else self._early.items():
            yield Finding(REQUEST, at, f"the result of {call} answers no call", _PAIR)
        yield from self._choice(wire)
        if object_at(wire, "text", "format").get("type") == "json_object" and not goes_on:
            yield from refuse_unsaid_json(wire.get("input"), "/text/format")

    def _follows(self, turn: JsonObject, kind: str) -> Findings:
        """Reasoning goes back with the very item it led to, which has an id as it has one."""
        at, self._reasoning = self._reasoning, ""
        own = kind == "reasoning" or (turn.get("id") and turn.get("role") in (None, "assistant"))
        if at and not own:
            yield _led_nowhere(at)

    def _pair(self, turn: JsonObject, kind: str, at: str) -> None:
        """Calls and results belong together; the other half may be held by the provider."""
        call = str(turn.get("call_id"))
        if kind.endswith("_call"):
            self._calls.add(call)
            if self._early.pop(call, None) is None and kind in _ANSWERED_HERE:
                self._waiting[call] = at
        elif kind.endswith("_output"):
            known = self._waiting.pop(call, None) is not None or call in self._calls
            if not known and kind.removesuffix("_output") in _ANSWERED_HERE:
                self._early[call] = at

    def _choice(self, wire: JsonObject) -> Findings:
        """A tool that must be called, and is not there."""
        if self._adds_tools:
            return
        listed = placed_objects(wire.get("tools"), "/tools")
        choice = object_at(wire, "tool_choice")
        if wire.get("tool_choice") == "required" and not listed:
            message = "a tool must be called, and there are none"
            yield Finding(OPTION, "/tool_choice", message, "leave out tool_choice")
        grouped = any(tool.get("type") in ("namespace", "tool_search") for _, tool in listed)
        if choice.get("type") == "function" and not grouped:
            known = {str(tool.get("name")) for _, tool in listed}
            yield from refuse_undeclared([choice.get("name")], known, "/tool_choice/name")


def _is_sound(turn: JsonObject, kind: str) -> bool:
    """Whether nothing can be wrong with an item by itself: words, a call, or a result in words."""
    if kind == "message":
        role, content = turn.get("role"), turn.get("content")
        if role == "assistant":
            return type(content) is str
        return role == "user" and (type(content) is str or _is_only_text(content))
    return kind == "function_call" or (
        kind == "function_call_output" and type(turn.get("output")) is str
    )


def _is_only_text(content: Json) -> bool:
    """Whether a list has texts in it and nothing else."""
    if type(content) is not list:
        return False
    for part in content:  # no generator: this is asked of every turn of a long log
        if type(part) is not dict:
            return False
        if part.get("type") != "input_text":
            return False
    return True


def _leads_to(reasoning: JsonObject, item: JsonObject) -> bool:
    """Whether an item may be what reasoning led to: each has an id, if the reasoning has one."""
    return bool(
        item.get("id") or item.get("type") == "reasoning" or (item and not reasoning.get("id"))
    )


def _led_nowhere(at: str) -> Finding:
    message = "reasoning stands here without what it led to"
    return Finding(REQUEST, at, message, "send the item that followed it as it came, or neither")


def _is_continued(wire: JsonObject) -> bool:
    """Whether the provider holds a part of what is said."""
    return any(wire.get(key) for key in ("previous_response_id", "conversation", "prompt"))


def _refuse_message(item: JsonObject, at: str, model: str) -> Findings:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        yield no_role(role, at)
    if content is None:
        yield Finding(REQUEST, f"{at}/content", "this turn says nothing", "say something")
    for where, part in placed_objects(content, f"{at}/content"):
        kind = str(part.get("type"))
        is_answer = kind in ("output_text", "refusal")
        if kind not in _PART_TYPES or is_answer != (role == "assistant"):
            yield unread_media(kind, where, f"the role {role}")
        else:
            yield from _refuse_part(part, where, model)


def _refuse_part(part: JsonObject, where: str, model: str) -> Findings:
    match part.get("type"):
        case "input_image":
            yield from refuse_image(part.get("image_url"), f"{where}/image_url")
        case "input_file":
            yield from refuse_file(part, where)
        case "input_audio":
            yield from refuse_audio(where, model)
        case _:
            return


DIALECT = OpenAIResponsesDialect()
