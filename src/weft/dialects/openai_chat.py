"""OpenAI Chat Completions, whole, and every server that speaks it.

The system text is a turn, and results have a role of their own.
In this order: options, the dialect itself, and then its parts below: lowering, answers, streams,
requests read back, counting, refusing.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile
from typing import ClassVar, Literal, NotRequired, TypedDict, cast

import msgspec

from weft.content import Content, Part, opaque_part
from weft.diagnostics import Severity
from weft.dialects.base import Dialect, Exchange, Traits
from weft.dialects.caching import name_prefix
from weft.dialects.facts import wire_name
from weft.dialects.legality import (
    IMAGES,
    OPTION,
    PDF,
    REQUEST,
    DeclaredTool,
    Finding,
    Findings,
    Spelling,
    TurnRules,
    is_plain,
    missing_media,
    no_role,
    reads_media,
    refuse_result,
    refuse_unanswered,
    refuse_undeclared,
    refuse_unsupported,
    unread_media,
)
from weft.dialects.measure import OWN_TOOLS, Quantity, WeighedHead, WeighedTurn
from weft.dialects.openai_common import (
    EMPTY,
    GAP,
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
    join_texts,
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
    require_object,
    require_text,
    require_words,
)
from weft.dialects.track import Entry, LoweringReport, Placed, Wire
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
    deep_update,
    document_text,
    drop_fields,
    has_messages,
    inline_part,
    joined_text,
    linked_part,
    mime_of,
    object_at,
    object_in,
    objects_in,
    placed_objects,
    present,
    provider_metadata,
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
from weft.values import Json, JsonObject, compact

NAME = "openai-chat"
ERRORS = AnswerErrors(NAME, key="OPENAI_API_KEY")

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def _write_thinking(wire: Wire, value: Json) -> list[str]:
    missed: list[str] = []
    for name, setting in value.items() if isinstance(value, dict) else ():
        if name == "effort" and setting in EFFORTS:
            wire["reasoning_effort"] = setting
        elif name != "budget" or setting != -1:  # -1 leaves it to the model
            missed.append(f"thinking.{name}")
    return missed


def _write_tool_choice(wire: Wire, value: Json) -> None:
    if isinstance(value, dict):
        wire["tool_choice"] = {"type": "function", "function": {"name": value.get("name")}}
    else:
        wire["tool_choice"] = write_choice(value)


def _write_logprobs(wire: Wire, value: Json) -> None:
    wire["logprobs"] = value if isinstance(value, bool) else True
    if not isinstance(value, bool):
        wire["top_logprobs"] = value


def _read_stops(wire: JsonObject) -> Json:
    stops = wire.get("stop")
    return None if isinstance(stops, str) else stops  # ours is a list; a text stays as it is


def _read_limit(wire: JsonObject) -> Json:
    limit = wire.get("max_completion_tokens", wire.get("max_tokens"))
    return limit if isinstance(limit, int) else None


def _read_thinking(wire: JsonObject) -> Json:
    return present(effort=wire.get("reasoning_effort"))


def _read_tool_choice(wire: JsonObject) -> Json:
    return read_choice(wire.get("tool_choice"), at_path(wire, "tool_choice.function.name"))


def _read_logprobs(wire: JsonObject) -> Json:
    count = wire.get("top_logprobs")
    if wire.get("logprobs") is None:
        return None
    return count if isinstance(count, int) else wire["logprobs"]


class OpenAIChatDialect(Dialect):
    """System is a turn, tool results have their own role and are text."""

    traits = Traits(
        name=NAME,
        turns="messages",
        merges_turns=False,
        model_role="assistant",
        calls=("assistant", "/tool_calls/"),
        results=("tool", ""),
        schemas=SCHEMAS,
        names=NAMES,
        ids=Spelling(NO_TEXT, 40),
        compared=(
            "model",
            "prompt_cache_key",
            "response_format",
            "reasoning_effort",
            "verbosity",
            "service_tier",
        ),
    )
    form = RequestForm(
        needs=("model",),
        tool="function",
        describes=("name", "description", "strict"),
        answer=("response_format", "json_schema", "schema"),
        beside=("name",),
    )
    errors = ERRORS
    options: ClassVar = {
        "temperature": Option("temperature", range=(0.0, 2.0)),
        "top_p": Option("top_p", range=(0.0, 1.0)),
        "stop_sequences": Option("stop", read=_read_stops),
        "seed": Option("seed"),
        "presence_penalty": Option("presence_penalty", range=(-2.0, 2.0)),
        "frequency_penalty": Option("frequency_penalty", range=(-2.0, 2.0)),
        "parallel_tool_calls": Option("parallel_tool_calls"),
        "service_tier": Option("service_tier"),
        "user": Option("user"),
        "max_output_tokens": Option("max_tokens", read=_read_limit),
        "thinking": Option(write=_write_thinking, read=_read_thinking),
        "tool_choice": Option(write=_write_tool_choice, read=_read_tool_choice),
        "logprobs": Option(write=_write_logprobs, read=_read_logprobs),
    }
    other_ranges: ClassVar = {"top_logprobs": (0.0, 20.0), "n": (1.0, 128.0)}

    def option(self, name: str, prompt: Prompt) -> Option | None:
        """OpenAI renamed the limit; the servers that speak its format did not."""
        if is_shut_out(name, prompt):
            return None
        if name == "max_output_tokens" and is_openai(prompt.model):
            return Option("max_completion_tokens")
        return super().option(name, prompt)

    def head(self, prompt: Prompt, report: LoweringReport) -> tuple[Wire, tuple[Placed, ...]]:
        """Model, options, answer format and tools."""
        wire: Wire = {"model": wire_name(prompt.model)}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, report)
        if prompt.output is not None and prompt.output.how == "native":
            json_schema = output_format(prompt.output, report)
            wire["response_format"] = {"type": "json_schema", "json_schema": json_schema}
            placed.append(Placed("/response_format", prompt.output.origin))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, report)
        if any(map(self.has_kept, prompt.system)):
            spot = "/messages/{}/content"
            placed += [Placed(spot.format(at), (one,)) for at, one in enumerate(prompt.system)]
        elif prompt.system:
            placed.append(Placed("/messages/0/content", prompt.system))
        name_prefix(wire, prompt)
        return wire, tuple(placed)

    hosted_hint: ClassVar[str] = (
        "ask a model that is spoken to in openai-responses, anthropic or gemini, or declare a"
        " function of your own for it"
    )

    def declaration(self, tool: ToolDecl, report: LoweringReport) -> Wire:
        """A function; not strict, which would make every one of its parameters required."""
        function: Wire = {"name": tool.name, "description": tool.description}
        function["parameters"] = self.parameters(tool, report)
        return {"type": "function", "function": function}

    def lead(self, prompt: Prompt) -> list[Entry]:
        """The system text as the first turn, or as the turns it was read from."""
        if not prompt.system:
            return []
        if any(map(self.has_kept, prompt.system)):
            report = LoweringReport(dialect=self.traits.name, strict=False)
            return self.turn("system", prompt.system, report)
        return [Entry({"role": "system", "content": prompt.system_text}, "system", ())]

    def turn(self, role: Role, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        """One message of the model's; of the user's, results first and then one message."""
        if role == "model":
            return self._model_turn(blocks, report)
        entries: list[Entry] = []
        result_media: list[tuple[Wire, Block]] = []
        parts: list[tuple[Wire, Block]] = []
        fields: Wire = {}
        for block in blocks:
            part = self.part(block, report)
            if part is None:
                continue
            if isinstance(block, ResultBlock):
                entries.append(Entry(part, "tool", (("", block),)))
                result_media += self._result_media(block, report)
            elif "role" in part:
                entries.append(Entry(part, str(part["role"]), (("/content", block),)))
            elif "type" in part:
                parts.append((part, block))
            else:
                fields |= part
        if result_media or parts:
            message = self._message("user", result_media + parts)
            entries.append(Entry(message.wire | fields, "user", message.blocks, message.joined))
        return entries

    def spell_plain_turn(self, block: TextBlock) -> Entry:
        """A message whose content is the text itself."""
        role = "assistant" if block.role == "model" else "user"
        return Entry({"role": role, "content": block.text}, role, (("/content", block),))

    def spell_plain_wire(self, role: Literal["user", "model"], text: str) -> Wire:
        """The same message."""
        return {"role": "assistant" if role == "model" else "user", "content": text}

    def spell_told_wire(self, texts: Sequence[str]) -> Wire:
        """One text, as `_message` joins them."""
        return self.spell_plain_wire("user", texts[0] if len(texts) == 1 else GAP.join(texts))

    def turns_of_pairs(self, asked: list[Json], answered: list[Json]) -> Exchange:
        """A message with the calls, and one for each result."""
        return ({"role": "assistant", "content": None, "tool_calls": asked},), cast(
            "list[Wire]", answered
        )

    def _model_turn(self, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        parts: list[tuple[Wire, Block]] = []
        calls: list[Json] = []
        own: Wire = {}
        sources: list[tuple[str, Block]] = []
        for source in blocks:
            block = self._for_anyone(source, report)
            part = self.part(block, report)
            if part is None:
                continue
            if isinstance(block, CallBlock):
                sources.append((f"/tool_calls/{len(calls)}", block))
                calls.append(part)
            elif "type" in part:
                parts.append((part, block))
            else:
                sources += [(f"/{key}", block) for key in part]
                own.update(part)
        # a message of thoughts alone says nothing, and servers refuse it
        if not parts and all(isinstance(block, ThoughtBlock) for _, block in sources):
            return []
        wire: Wire = {"role": "assistant"}
        # the field must be there, even if there are only calls
        if "content" not in own:
            wire["content"] = None
        pieces: tuple[tuple[int, Block], ...] = ()
        if parts:
            text = self._message("assistant", parts)
            wire["content"] = text.wire["content"]
            sources = [*text.blocks, *sources]
            pieces = text.joined
        if calls:
            wire["tool_calls"] = calls
        return [Entry({**own, **wire}, "assistant", tuple(sources), pieces)]

    def _result_media(
        self, result: ResultBlock, report: LoweringReport
    ) -> list[tuple[Wire, Block]]:
        """What a result shows, after a line that says whose it is."""
        if not result.media:
            return []
        report.add(
            "WEFT703",
            result.origin,
            f"the media of {result.name} follows its result in a user message",
            severity=Severity.INFO,
        )
        label: Wire = {"type": "text", "text": f"[shown by {result.name}]:"}
        return [(label, result), *((self.media(media, report), media) for media in result.media)]

    def _message(self, role: str, parts: Sequence[tuple[Wire, Block]]) -> Entry:
        """A message: one text where it is only text, which every server takes, else parts."""
        texts = [(str(part["text"]), block) for part, block in parts if _is_text(part)]
        if len(texts) == len(parts) and not any(self.has_kept(block) for _, block in parts):
            if len(parts) == 1:
                text, block = texts[0]
                return Entry({"role": role, "content": text}, role, (("/content", block),))
            whole = join_texts(texts)
            ends = accumulate(len(text) + len(GAP) for text, _ in texts)
            pieces = tuple((end - len(GAP), one) for end, (_, one) in zip(ends, texts, strict=True))
            wire: Wire = {"role": role, "content": whole.text}
            return Entry(wire, role, (("/content", whole),), pieces)
        sources = tuple((f"/content/{index}", block) for index, (_, block) in enumerate(parts))
        return Entry({"role": role, "content": [part for part, _ in parts]}, role, sources)

    def text(self, block: TextBlock, report: LoweringReport) -> Wire:
        """A text part; the author's word is a turn of its own."""
        self.drop_signature(block, report)
        if block.role == "system":
            return {"role": "system", "content": block.text}
        return {"type": "text", "text": block.text}

    def thought(self, block: ThoughtBlock, report: LoweringReport) -> Wire | None:
        """Back to the model whose server gave it a field; no other thought goes back."""
        if self.has_kept(block) and self.own(block, report):
            return {}
        if block.signature and not self.has_kept(block):
            self.drop_signature(block, report)
        elif not self.own(block, report):
            self.drop_foreign(block, report, what="thought")
        return None

    def opaque(self, block: OpaqueBlock, report: LoweringReport) -> Wire | None:
        """Fields next to the content, or a part of it: the server's that made them."""
        if self.own(block, report):
            return block.payload
        self.drop_foreign(block, report)
        return None

    def _for_anyone(self, block: Block, report: LoweringReport) -> Block:
        """The block; what only its own model's server understands goes to no other model."""
        if not isinstance(block, (TextBlock, CallBlock)) or not self.has_kept(block):
            return block
        if self.own(block, report):
            return block
        fields = block.kept or {}
        anyones = {key: value for key, value in fields.items() if key in ("arguments", "type")}
        if fields.get("said_in") == ["refusal"]:
            anyones["said_in"] = ["refusal"]
        if len(anyones) < len(fields):
            self.drop_foreign(block, report, what="field")
        return msgspec.structs.replace(block, kept=anyones or None)

    def with_kept(self, wire: Wire, block: Block) -> Wire:
        """The part in its server's form: a text may stand in fields next to the content."""
        fields = block.kept or {}
        if isinstance(block, CallBlock):
            deep_update(wire, drop_fields(fields, "arguments", "type"))
            return wire
        names = fields.get("said_in")
        if not isinstance(names, list) or not isinstance(block, (TextBlock, ThoughtBlock)):
            return super().with_kept(wire, block)
        said_in: Wire = {str(name): block.text for name in names}
        return said_in | drop_fields(fields, "said_in")

    def call(self, block: CallBlock, report: LoweringReport) -> Wire:
        """An element of tool_calls; its arguments are text."""
        if block.signature:
            self.drop_signature(block, report)
        id, name = self.id_of(block.id, report), self.name_of(block, report)
        fields = block.kept if block.kept is not None and self.has_kept(block) else None
        if fields is not None and fields.get("type") == "custom":
            custom: Wire = {"name": name, "input": block.args.get("input")}
            return {"id": id, "type": "custom", "custom": custom}
        text = arguments_text(block, self.traits.name)
        return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}

    def result(self, block: ResultBlock, report: LoweringReport) -> Wire:
        """A turn of role tool."""
        call_id = self.id_of(block.call_id, report)
        return {"role": "tool", "tool_call_id": call_id, "content": output_text(block)}

    def media(self, block: MediaBlock, report: LoweringReport) -> Wire:
        """An image, a sound or a PDF; the model's own turn takes text only."""
        kind, url = mime_of(block), address_of(block)
        if (text := document_text(block)) is not None:
            return {"type": "text", "text": text}
        readable = block.role == "user" and reads_media(kind, report.model)
        if readable and kind.startswith("image/") and url:
            return {"type": "image_url", "image_url": {"url": url}}
        if readable and block.data:
            if kind in IMAGES:
                return {"type": "image_url", "image_url": {"url": data_url(block)}}
            if kind in _AUDIO_FORMATS:
                sound: Wire = {"data": block.data, "format": _AUDIO_FORMATS[kind]}
                return {"type": "input_audio", "input_audio": sound}
            if kind == PDF:
                file: Wire = {"filename": block.name or "document.pdf"}
                return {"type": "file", "file": {**file, "file_data": data_url(block)}}
        return {"type": "text", "text": missing_media(block, report)}

    # Answers, whole and streamed.

    def lift(self, body: JsonObject) -> ModelResponse:
        """What the first choice says; the others are kept with it."""
        if tells_error(body):
            raise ERRORS.failure(None, body)
        choices = objects_in(body.get("choices"))
        if not choices:
            raise ERRORS.unreadable("the answer has no choices")
        choice, *others = choices
        if tells_error(choice):
            raise ERRORS.failure(None, choice)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise ERRORS.unreadable("the answer's choice has no message")
        role = message.get("role") or "assistant"
        if role != "assistant":
            raise ERRORS.unreadable(f"the answer has the role {role!r} instead of 'assistant'")
        parts = _lift_message(message)
        reason = text_in(choice.get("finish_reason"))
        finish = _FINISHES.get(reason, "OTHER") if reason else None
        code, error = answer_error(parts, finish, text_in(message.get("refusal")))
        usage = object_in(body.get("usage"))
        counted = AnswerUsage(usage, "prompt_tokens", "completion_tokens") if usage else None
        rest = without(body, *_LIFTED_OF_BODY)
        beside: JsonObject = {
            "choices": [*others],
            "choice": without(choice, "message", "logprobs"),
            "message": _unsent_fields(message),
        }
        rest |= {key: value for key, value in beside.items() if value}
        return ModelResponse(
            content=Content(parts=tuple(parts), role="model") if parts else None,
            finish_reason=finish,
            error_code=code,
            error_message=error,
            usage=counted.usage if counted is not None else None,
            model_version=text_in(body.get("model")) or None,
            custom_metadata=answer_metadata(counted, rest),
            logprobs_result=object_in(choice.get("logprobs")) or None,
        )

    def stream(self) -> Stream:
        """A reader for one streamed answer."""
        return ChatStream()

    # Requests, read back.

    def is_request(self, wire: JsonObject) -> bool:
        """Any list of messages: everybody writes this format."""
        return has_messages(wire)

    def read(self, wire: JsonObject) -> ReadRequest:
        """System, turns, tools, schema and options of a request."""
        messages = require_objects(wire.get("messages"), "messages")
        leading = list(takewhile(_is_system, messages))
        apart = len(leading) > 1
        calls: dict[str, str] = {}
        return ReadRequest(
            system=tuple(ReadPart(_read_system(message), message, apart) for message in leading),
            turns=tuple(_read_turn(message, calls) for message in messages[len(leading) :]),
            tools=tuple(_read_tool(tool) for tool in require_objects(wire.get("tools"), "tools")),
            output=read_output(at_path(wire, "response_format.json_schema")),
            config=read_options(self.options, wire),
            places=("messages", "tools", "response_format.json_schema"),
        )

    # What is counted of a request.

    def weigh_head(self, wire: JsonObject) -> WeighedHead:
        """Tools, schema and choice; the system text is among the messages."""
        functions = [object_in(one) for one in as_list(wire.get("functions"))]
        others: list[str] = []
        for tool in map(object_in, as_list(wire.get("tools"))):
            if isinstance(function := tool.get("function"), dict):
                functions.append(function)
            else:
                others.append(as_json(tool))
        searches = wire.get("web_search_options") is not None
        form = object_in(object_in(wire.get("response_format")).get("json_schema"))
        return WeighedHead(
            tools=tuple(map(weigh_function, functions)),
            others=tuple(others),
            schema=form.get("schema"),
            forced=is_choice_forced(wire),
            uncounted=(OWN_TOOLS,) if searches else (),
        )

    def weigh_turn(self, turn: Json) -> WeighedTurn:
        """One turn; a tool's is a result."""
        if not isinstance(turn, dict):
            return WeighedTurn("user", [Quantity("", "text", as_text(turn))], asks=True)
        role = as_text(turn.get("role")) or "user"
        if role in ("tool", "function"):
            return WeighedTurn(role, weigh_result(turn.get("content")))
        parts = weigh_content(turn.get("content"))
        if isinstance(refusal := turn.get("refusal"), str):
            parts.append(Quantity("/refusal", "text", refusal))
        for index, call in enumerate(as_list(turn.get("tool_calls"))):
            parts.append(_weigh_call(f"/tool_calls/{index}", object_in(call)))
        if isinstance(call := turn.get("function_call"), dict):
            parts.append(_weigh_call("/function_call", {"function": call}))
        return WeighedTurn(role, parts, asks=role == "user")

    # What the provider refuses.

    def refuse_head(self, wire: JsonObject, model: str) -> Findings:
        """Everything but the turns that the provider would answer with a 400.

        Many servers speak the format, and each has its own idea of what it takes: what is said here
        is about OpenAI's own models.
        """
        if not is_openai(model):
            return
        yield from self.refuse_ranges(wire)
        yield from _refuse_options(wire, model)
        yield from _refuse_tools(wire, model)
        form = object_at(wire, "response_format", "json_schema")
        yield from refuse_format(form, "/response_format/json_schema", model)

    def turn_rules(self, model: str, *, strict: bool = False) -> TurnRules:
        """Every message, item or content, and how they follow each other."""
        return ChatTurnRules(model, strict=strict)

    def judges_turns(self, model: str) -> bool:
        """Servers that only speak the format take what they like."""
        return is_openai(model)

    def outline(self, turn: JsonObject, at: str) -> Outline:
        """A message that says something, calls something, or answers a call."""
        role = turn.get("role")
        if role == "tool":
            if not isinstance(turn.get("content"), (str, list)):
                raise Misshapen(
                    f"{at}/content", "this result has no content", "say what came of it"
                )
            return Outline(
                "user", results=(PairedPart(require_text(turn, "tool_call_id", at), "", ""),)
            )
        if role == "assistant":
            calls = tuple(
                _outline_call(require_object(call, f"{at}/tool_calls/{index}"), at, index)
                for index, call in enumerate(_tool_calls(turn, at))
            )
            own = any(turn[key] for key in turn if key not in ("role", "content", "tool_calls"))
            if not calls and not own:
                require_words(turn, at)
            return Outline("model", calls)
        if role not in ("system", "developer", "user"):
            raise Misshapen(*no_role(role, at)[1:])
        require_words(turn, at)
        return Outline("user" if role == "user" else "system")


# --- lowering


def _is_text(part: Wire) -> bool:
    return part.get("type") == "text" and "text" in part


# --- answers


_FINISHES = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "function_call": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}

_THOUGHTS = ("reasoning_content", "reasoning")

_LIFTED = frozenset(
    ("role", "content", "refusal", "tool_calls", "function_call", "audio", "annotations",
     "reasoning_details", *_THOUGHTS)
)  # fmt: skip

_LIFTED_OF_BODY = frozenset(("choices", "usage", "model", "error"))


def _lift_message(message: JsonObject) -> list[Part]:
    """The parts of an assistant's message, and last what only its server understands."""
    parts = [*_lift_thoughts(message), *_lift_content(message.get("content"))]
    if refusal := text_in(message.get("refusal")):
        parts.append(
            Part(text=refusal, part_metadata=provider_metadata(NAME, {"said_in": ["refusal"]}))
        )
    if audio := object_in(message.get("audio")):
        parts.append(_lift_audio(audio))
    parts += [_lift_tool_call(call) for call in objects_in(message.get("tool_calls"))]
    if old := object_in(message.get("function_call")):
        parts.append(lift_call(NAME, "", text_in(old.get("name")), old.get("arguments"), EMPTY))
    unknown: JsonObject = {
        key: value for key, value in message.items() if key not in _LIFTED and not _is_blank(value)
    }
    if unknown:
        parts.append(opaque_part(NAME, unknown))
    return parts


def _lift_thoughts(message: JsonObject) -> list[Part]:
    """Thoughts by the name of the field that carries them; the same text in two fields is one."""
    named: dict[str, list[Json]] = {}
    for name in _THOUGHTS:
        if text := text_in(message.get(name)):
            named.setdefault(text, []).append(name)
    details = message.get("reasoning_details")
    if not named and details:
        named[_details_text(details)] = []
    parts: list[Part] = []
    for text, names in named.items():
        fields: JsonObject = {"said_in": names}
        if details and not parts:
            fields["reasoning_details"] = details
        parts.append(Part(text=text, thought=True, part_metadata=provider_metadata(NAME, fields)))
    return parts


def _details_text(details: Json) -> str:
    """What the details of a thought say in words."""
    texts = (text_in(one.get("text")) or text_in(one.get("summary")) for one in objects_in(details))
    return "".join(texts)


def _lift_content(content: Json) -> list[Part]:
    """The content, which is a text, or a list of parts."""
    if isinstance(content, str):
        return [Part(text=content)] if content else []
    parts: list[Part] = []
    for part in objects_in(content):
        kind, text = part.get("type"), text_in(part.get("text"))
        if kind == "text" and text:
            parts.append(
                Part(text=text, part_metadata=provider_metadata(NAME, without(part, "text")))
            )
        elif kind == "thinking":
            thinking = part.get("thinking")
            text = thinking if isinstance(thinking, str) else _details_text(thinking)
            parts.append(Part(text=text, thought=True, part_metadata=provider_metadata(NAME, part)))
        elif kind is not None:
            parts.append(opaque_part(NAME, part))
    return parts


def _lift_audio(audio: JsonObject) -> Part:
    """What was spoken, in words; it goes back by its id alone."""
    text, audio_id = text_in(audio.get("transcript")), audio.get("id")
    if not text:
        return opaque_part(NAME, {"audio": {"id": audio_id}})
    return Part(
        text=text, part_metadata=provider_metadata(NAME, {"said_in": [], "audio": {"id": audio_id}})
    )


def _lift_tool_call(call: JsonObject) -> Part:
    call_id = text_in(call.get("id"))
    if call.get("type") == "custom" or "custom" in call:
        custom = object_in(call.get("custom"))
        fields = without(call, "id", "type", "custom")
        if more := without(custom, "name", "input"):
            fields["custom"] = more
        name, text = text_in(custom.get("name")), custom.get("input")
        return lift_text_call(NAME, call_id, name, text, "custom", fields)
    function = object_in(call.get("function"))
    fields = without(call, "id", "type", "function")
    if more := without(function, "name", "arguments"):
        fields["function"] = more
    return lift_call(
        NAME, call_id, text_in(function.get("name")), function.get("arguments"), fields
    )


def _unsent_fields(message: JsonObject) -> JsonObject:
    """Fields of the message that the provider does not take back, or that say nothing."""
    rest = without(message, *_LIFTED)
    unsent: JsonObject = {key: value for key, value in rest.items() if _is_blank(value)}
    if (annotations := message.get("annotations")) is not None:
        unsent["annotations"] = annotations
    if audio := without(object_in(message.get("audio")), "id", "transcript"):
        unsent["audio"] = audio
    return unsent


def _is_blank(value: Json) -> bool:
    return value is None or value in ("", [], {})


# --- streams


_CHUNK_ONLY = frozenset(("choices", "usage", "obfuscation", "object"))

_TEXTS = ("content", "refusal", *_THOUGHTS)


class _PlainChoice(TypedDict):
    """A choice as most chunks have it; what comes may be anything."""

    index: int
    delta: dict[str, str]
    finish_reason: str | None
    logprobs: NotRequired[JsonObject | None]


class _PlainChunk(TypedDict):
    """A chunk as most are; what comes may be anything."""

    choices: list[_PlainChoice]


class ChatStream:
    """One streamed answer; its first choice is shown as it comes."""

    __slots__ = ("_choices", "_content", "_first", "_head", "_usage")

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._usage: Json = None
        self._first = _GrowingChoice()
        self._content = self._first.texts["content"]
        self._choices: dict[int, _GrowingChoice] = {0: self._first}

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one chunk; what its first choice says, where it says something."""
        # after the first chunk, nearly all have one delta with one text: no loop for those
        if self._head and data.get("usage") is None:
            try:
                (choice,) = cast("_PlainChunk", data)["choices"]
                delta = choice["delta"]
                text = delta.get("content")
                if (
                    text.__class__ is str
                    and text
                    and len(delta) == 1
                    and len(choice) < 5
                    and choice["finish_reason"] is None
                    and choice.get("logprobs") is None
                    and not choice["index"]
                ):  # nearly every chunk
                    self._content.append(text)
                    return partial_text(text)
                field, text = _only_text(choice, delta)
                if text.__class__ is str and text:
                    self._first.texts[field].append(text)
                    return partial_thought(text) if field in _THOUGHTS else partial_text(text)
            except (KeyError, TypeError, ValueError, AttributeError):
                pass  # a chunk of another shape: read below with care
        return self._take(data)

    def _take(self, data: JsonObject) -> ModelResponse | None:
        if tells_error(data):
            raise ERRORS.failure(None, data)
        for key, value in data.items():
            if value is not None and key not in _CHUNK_ONLY:
                self._head[key] = value
        if data.get("usage"):
            self._usage = data["usage"]
        piece: ModelResponse | None = None
        for position, choice in enumerate(objects_in(data.get("choices"))):
            if tells_error(choice):
                raise ERRORS.failure(None, choice)
            index = choice.get("index")
            at = index if isinstance(index, int) else position
            delta = object_in(choice.get("delta")) or object_in(choice.get("message"))
            self._choices.setdefault(at, _GrowingChoice()).take(choice, delta)
            if at == 0:
                piece = _partial_delta(delta)
        return piece

    def note_end(self) -> None:
        """Some servers end without a reason: their word for the end does as well."""
        self._first.ended = True

    def body(self) -> JsonObject:
        """The answer as it would have come whole."""
        if not self._first.ended:
            raise ERRORS.cut_off()
        choices: list[Json] = [growing.whole(at) for at, growing in sorted(self._choices.items())]
        body: JsonObject = {**self._head, "object": "chat.completion", "choices": choices}
        return {**body, "usage": self._usage} if self._usage else body


def _only_text(choice: _PlainChoice, delta: dict[str, str]) -> tuple[str, str]:
    """The field whose text is all that the chunk says; "" where it says something else."""
    for key, value in choice.items():
        if value and key != "delta":
            return "", ""
    text = only = ""
    for key, value in delta.items():
        if not value or (key == "role" and value == "assistant"):
            continue
        if only or key not in _TEXTS:
            return "", ""
        text, only = value, key
    return only, text


def _partial_delta(delta: JsonObject) -> ModelResponse | None:
    for name in _THOUGHTS:
        if text := text_in(delta.get(name)):
            return partial_thought(text)
    text = text_in(delta.get("content")) or text_in(delta.get("refusal"))
    return partial_text(text) if text else None


class _GrowingChoice:
    """One choice as far as it has come."""

    __slots__ = ("calls", "ended", "fields", "keys", "last", "message", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self.message: JsonObject = {}
        self.fields: JsonObject = {}
        self.calls: list[_GrowingCall] = []
        self.keys: dict[int, _GrowingCall] = {}
        self.last: _GrowingCall | None = None
        self.ended = False

    def take(self, choice: JsonObject, delta: JsonObject) -> None:
        """Take a chunk's share of this choice."""
        for key, value in choice.items():
            if value is None or key in ("delta", "message", "index"):
                continue
            self.fields[key] = _join_values(self.fields[key], value) if key == "logprobs" and (
                key in self.fields
            ) else value  # fmt: skip
        self.ended = self.ended or bool(choice.get("finish_reason"))
        message = self.message
        for key, value in delta.items():
            if value is None:
                continue
            if key in _TEXTS and isinstance(value, str):
                self.texts[key].append(value)
            elif key == "tool_calls":
                for call in objects_in(value):
                    self._call(call)
            elif key == "role":
                message[key] = value or message.get(key)
            elif key == "reasoning_details":
                message[key] = _join_details(message.get(key), objects_in(value))
            else:
                message[key] = _join_values(message.get(key), value)

    def _call(self, piece: JsonObject) -> None:
        """Take a piece of a call: of the one it says, or else of the last one."""
        index, call_id = piece.get("index"), text_in(piece.get("id"))
        call = self.keys.get(index) if isinstance(index, int) else None
        # some servers send no index: pieces are told apart by id, or belong to the last call
        if call is None and not isinstance(index, int):
            call = next((one for one in self.calls if call_id and one.id == call_id), None)
            if call is None and not call_id:
                call = self.last
        # others give every call the index 0
        if call is None or call.is_over(piece, call_id):
            call = _GrowingCall()
            self.calls.append(call)
        if isinstance(index, int):
            self.keys[index] = call
        self.last = call
        call.take(piece)

    def whole(self, index: int) -> JsonObject:
        """The choice as a whole answer has it."""
        message: JsonObject = {"role": "assistant", "content": None, **self.message}
        for name, pieces in self.texts.items():
            listed = message.get(name)
            if pieces:
                text = "".join(pieces)
                more: list[Json] = [{"type": "text", "text": text}] if text else []
                message[name] = listed + more if isinstance(listed, list) else text
        if self.calls:
            message["tool_calls"] = [call.whole() for call in self.calls]
        return {"index": index, "message": message, **self.fields}


class _GrowingCall:
    """One call as far as it has come: of a function, or of a tool that takes text."""

    __slots__ = ("fields", "id", "inner", "kind", "name", "text")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.text: list[str] = []
        self.kind = "function"
        self.fields: JsonObject = {}
        self.inner: JsonObject = {}

    def is_over(self, piece: JsonObject, call_id: str) -> bool:
        """Whether the piece begins another call, whatever index it says."""
        if call_id and self.id:
            return call_id != self.id
        name = text_in(
            (object_in(piece.get("function")) or object_in(piece.get("custom"))).get("name")
        )
        return bool(name and self.name and self.text and name != self.name)

    def take(self, piece: JsonObject) -> None:
        """Take one piece."""
        for key, value in piece.items():
            if key == "id":
                self.id = text_in(value) or self.id
            elif key in ("function", "custom") and isinstance(value, dict):
                self.kind = key
                self._inside(value)
            elif key not in ("index", "type") and value is not None:
                self.fields[key] = _join_values(self.fields.get(key), value)

    def _inside(self, inner: JsonObject) -> None:
        for key, value in inner.items():
            if key == "name":
                name = text_in(value)
                # most servers send the name once, some in pieces, some again with every piece
                if name != self.name:
                    self.name += name
            elif key in ("arguments", "input"):
                if value is not None:
                    self.text.append(value if isinstance(value, str) else compact(value))
            elif value is not None:
                self.inner[key] = _join_values(self.inner.get(key), value)

    def whole(self) -> JsonObject:
        """The call as a whole answer has it."""
        field = "input" if self.kind == "custom" else "arguments"
        inner: JsonObject = {"name": self.name, field: "".join(self.text), **self.inner}
        call: JsonObject = {"type": self.kind, self.kind: inner, **self.fields}
        return {"id": self.id, **call} if self.id else call


def _join_values(before: Json, piece: Json) -> Json:
    """A value with the piece that follows it: texts and lists grow, objects get more fields."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if isinstance(before, list) and isinstance(piece, list):
        return [*before, *piece]
    if isinstance(before, dict) and isinstance(piece, dict):
        merged = dict(before)
        for key, value in piece.items():
            if value is not None:
                # these come again with every piece, and do not grow
                same = key in ("id", "type") and key in merged
                merged[key] = value if same else _join_values(merged.get(key), value)
        return merged
    return piece


def _join_details(before: Json, pieces: list[JsonObject]) -> list[Json]:
    """Details of a thought: pieces of one detail have its type and index, and grow its text."""
    details: list[Json] = [*before] if isinstance(before, list) else []
    for piece in pieces:
        kind, index = piece.get("type"), piece.get("index")
        at = len(details)
        for position, detail in enumerate(details):
            if not isinstance(detail, dict) or detail.get("type") != kind:
                continue
            whole = index is None and (position < len(details) - 1 or "data" in piece)
            if detail.get("index") == index and not whole:
                at = position
        if at == len(details):
            details.append(dict(piece))
        else:
            details[at] = _join_detail(object_in(details[at]), piece)
    return details


def _join_detail(detail: JsonObject, piece: JsonObject) -> JsonObject:
    merged = dict(detail)
    for key, value in piece.items():
        if value is None:
            continue
        grows = key in ("text", "summary", "data") and isinstance(value, str)
        merged[key] = text_in(merged.get(key)) + text_in(value) if grows else value
    return merged


# --- requests read back


_ANSWERED = ("refusal", "audio", "reasoning_content", "reasoning", "reasoning_details")

_SYSTEM_ROLES = ("system", "developer")

_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def _is_system(message: JsonObject) -> bool:
    return message.get("role") in _SYSTEM_ROLES and bool(
        joined_text(message.get("content"), "text")
    )


def _read_system(message: JsonObject) -> Part:
    return Part(text=joined_text(message.get("content"), "text"))


def _read_turn(message: JsonObject, calls: dict[str, str]) -> ReadTurn:
    match message.get("role"):
        case "system" | "developer":
            return ReadTurn("system", (ReadPart(_read_system(message), message),))
        case "user":
            return ReadTurn(
                "user", (*_read_content(message), *_read_fields(message, "role", "content"))
            )
        case "assistant":
            return ReadTurn("model", _read_answer(message, calls))
        case "tool":
            call_id = text_at(message, "tool_call_id")
            answer = text_response(joined_text(message.get("content"), "text"))
            part = result_part(call_id, calls.get(call_id, ""), answer)
            return ReadTurn("user", (ReadPart(part, message),))
        case _:
            return ReadTurn("user", (ReadPart(opaque_part(NAME, message), message),))


def _read_content(message: JsonObject) -> tuple[ReadPart, ...]:
    content = message.get("content")
    if isinstance(content, str):
        text: JsonObject = {"type": "text", "text": content}
        return (ReadPart(Part(text=content), text),)
    parts = require_objects(content, "content")
    apart = len(parts) > 1
    return tuple(ReadPart(_read_part(part), part, apart) for part in parts)


def _read_answer(message: JsonObject, calls: dict[str, str]) -> tuple[ReadPart, ...]:
    """What the model said and called; its other fields belong to the message."""
    asked = require_objects(message.get("tool_calls"), "tool_calls")
    for each in asked:
        function = each.get("function", each.get("custom"))
        calls[text_at(each, "id")] = text_at(function, "name") if isinstance(function, dict) else ""
    own = any(message.get(key) for key in _ANSWERED)
    if own or any(not isinstance(each.get("function"), dict) for each in asked):
        blank = _read_fields({"content": ""}) if message.get("content") == "" else ()
        details = None if any(map(message.get, _THOUGHTS)) else message.get("reasoning_details")
        sources = {"call": iter(asked), "thought": iter((details,))}
        lifted = (
            ReadPart(part, None, source=next(sources.get(part.kind, iter(())), None))
            for part in _lift_message(message)
        )
        return (*lifted, *blank)
    called: list[ReadPart] = []
    for each in asked:
        call_id, function = text_at(each, "id"), each["function"]
        assert isinstance(function, dict)
        text = function.get("arguments")
        called.append(ReadPart(lift_call(NAME, call_id, calls[call_id], text, {}), each))
    known = ["role", "tool_calls"]
    spoken: tuple[ReadPart, ...] = ()
    if message.get("content"):
        spoken = _read_content(message)
        known.append("content")
    return (*spoken, *called, *_read_fields(message, *known))


def _read_fields(message: JsonObject, *known: str) -> tuple[ReadPart, ...]:
    """The fields of a message that are none of its parts."""
    own: JsonObject = {
        key: value for key, value in message.items() if key not in known and value is not None
    }
    return (ReadPart(opaque_part(NAME, own), own),) if own else ()


def _read_part(part: JsonObject) -> Part:
    match part.get("type"):
        case "text":
            return Part(text=text_at(part, "text"))
        case "image_url" if isinstance(image := part.get("image_url"), dict):
            return linked_part(text_at(image, "url"), "image/jpeg")
        case "input_audio" if isinstance(sound := part.get("input_audio"), dict):
            form = text_at(sound, "format")
            return inline_part(_AUDIO_TYPES.get(form, f"audio/{form}"), text_at(sound, "data"))
        case "file" if isinstance(file := part.get("file"), dict) and "file_data" in file:
            return linked_part(
                text_at(file, "file_data"), "application/pdf", text_at(file, "filename")
            )
        case _:
            return Part()


def _read_tool(tool: JsonObject) -> ReadTool:
    function = tool.get("function")
    if not isinstance(function, dict):
        return ReadTool(tool, text_at(tool, "type"), own=True)
    name, schema = text_at(function, "name"), function.get("parameters")
    parameters: JsonObject = (
        schema if isinstance(schema, dict) else {"type": "object", "properties": {}}
    )
    return ReadTool(tool, name, text_at(function, "description"), parameters)


# --- counting


def _weigh_call(pointer: str, call: JsonObject) -> Quantity:
    if not isinstance(function := call.get("function"), dict):
        return Quantity(pointer, "other", as_json(call))
    name = as_text(function.get("name"))
    return Quantity(pointer, "call", arguments_json(function.get("arguments")), name)


# --- refusing


_ROLE_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "system": {"text"},
    "developer": {"text"},
    "tool": {"text"},
}

_PAIR = "answer every call right after the turn it stands in"

_MOST_STOPS = 4

_THINKS_UNASKED = r"gpt-5\.6"
"""Models that think unless they are told not to, and call no functions here while they do."""


def _refuse_options(wire: JsonObject, model: str) -> Findings:
    yield from refuse_options(wire, wire.get("reasoning_effort"), "/reasoning_effort", model)
    yield from refuse_short_limit(wire, "max_completion_tokens", 1)
    renamed = reasons(model) and "search" not in model
    if renamed and wire.get("max_tokens") is not None:
        message = f"{model} calls `max_tokens` max_completion_tokens"
        yield Finding(OPTION, "/max_tokens", message, "write max_output_tokens")
    if wire.get("top_logprobs") is not None and not wire.get("logprobs"):
        message = "`top_logprobs` stands without `logprobs`"
        yield Finding(OPTION, "/top_logprobs", message, "set logprobs to how many you want")
    if wire.get("stream_options") is not None and not wire.get("stream"):
        message = "`stream_options` stands in a request that is not streamed"
        yield Finding(OPTION, "/stream_options", message, "leave it out, or stream")
    stops = wire.get("stop")
    if isinstance(stops, list) and len(stops) > _MOST_STOPS:
        message = f"there are {len(stops)} stop sequences, and {_MOST_STOPS} may be"
        yield Finding(OPTION, "/stop", message, "leave some out")
    if not reasons(model):
        yield from refuse_unsupported(wire, {"verbosity": "medium"}, model)
    if "search" not in model:
        yield from refuse_unsupported(wire, {"web_search_options": None}, model)


def _refuse_tools(wire: JsonObject, model: str) -> Findings:
    listed = placed_objects(wire.get("tools"), "/tools")
    functions: list[DeclaredTool] = []
    for at, tool in listed:
        function = object_at(tool, "function")
        if tool.get("type") == "function":
            name, where = str(function.get("name", "")), f"{at}/function"
            schema, strict = function.get("parameters"), function.get("strict") is True
            functions.append(DeclaredTool(where, name, schema, f"{where}/parameters", strict))
    yield from refuse_functions(functions)
    if not listed:
        alone: dict[str, Json] = {"tool_choice": "none", "parallel_tool_calls": None}
        yield from refuse_unsupported(wire, alone, "a request without tools")
    choice = object_at(wire, "tool_choice", "function")
    known = {tool.name for tool in functions}
    yield from refuse_undeclared([choice.get("name")], known, "/tool_choice/function/name")
    effort = wire.get("reasoning_effort")
    asked = effort not in (None, "none") or (effort is None and re.match(_THINKS_UNASKED, model))
    if functions and asked and loads_later(model):
        message = f"{model} takes no functions together with an effort here"
        hint = "ask it through the Responses format: openai-responses/NAME"
        yield Finding(OPTION, "/reasoning_effort", message, hint)
    if listed and re.match(r"o1-(mini|preview)", model):
        yield Finding(REQUEST, "/tools", f"{model} calls no tools", "use another model")


class ChatTurnRules:
    """Unknown roles, empty turns, media a role does not take, calls without results."""

    def __init__(self, model: str, *, strict: bool = False) -> None:
        self._model = model
        self._strict = strict
        self._openai = is_openai(model)
        self._checks = strict or self._openai
        self._waiting: dict[str, str] = {}
        self._any = False

    def fork(self) -> "ChatTurnRules":
        """A copy to read on with."""
        copy = ChatTurnRules(self._model, strict=self._strict)
        copy._waiting, copy._any = dict(self._waiting), self._any
        return copy

    def read(self, turn: JsonObject, at: str) -> Iterable[Finding]:
        """One more message."""
        self._any = True
        if not self._checks:
            return ()
        role, content = turn.get("role"), turn.get("content")
        if role == "tool":  # nearly every result is that of a call that waits for it
            call = str(turn.get("tool_call_id"))
            if isinstance(content, str) and self._waiting.pop(call, None) is not None:
                return ()
        elif not self._waiting and "tool_calls" not in turn:
            if role in ("user", "assistant") and is_plain(content):
                return ()
        elif not self._waiting and role == "assistant" and content is None and turn["tool_calls"]:
            self._note_calls(turn, at)
            return ()
        return self._judge(turn, at, role, content)

    def _judge(self, turn: JsonObject, at: str, role: Json, content: Json) -> Findings:
        """A message with more to it than words of one side, or a result that is waited for."""
        # nothing is wrong with calls alone, or with a result in words, as long as they are a pair
        if not (
            isinstance(content, str)
            if role == "tool"
            else role == "assistant" and content is None and turn.get("tool_calls")
        ):
            yield from _refuse_message(turn, at, self._model)
        if role == "tool":
            yield from refuse_result(self._waiting, str(turn.get("tool_call_id")), at, _PAIR)
            return
        yield from refuse_unanswered(self._waiting, _PAIR)
        self._note_calls(turn, at)

    def _note_calls(self, turn: JsonObject, at: str) -> None:
        """Wait for the results of the calls in a message."""
        for where, call in placed_objects(turn.get("tool_calls"), f"{at}/tool_calls"):
            self._waiting[str(call.get("id"))] = where

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        if not self._any:
            yield Finding(REQUEST, "/messages", "there are no turns", "say something")
        if not self._checks:
            return
        yield from refuse_unanswered(dict(self._waiting), _PAIR)
        if self._openai and object_at(wire, "response_format").get("type") == "json_object":
            yield from refuse_unsaid_json(wire.get("messages"), "/response_format")


def _refuse_message(message: JsonObject, at: str, model: str) -> Findings:
    role, content = message.get("role"), message.get("content")
    takes = _ROLE_PARTS.get(str(role))
    if takes is None and role != "function":
        yield no_role(role, at)
    if role in ("system", "developer") and re.match(r"o1-(mini|preview)", model):
        hint = "say it in the user's turn"
        yield Finding(REQUEST, f"{at}/role", f"{model} takes no system text", hint)
    has_content = any(
        message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio")
    )
    if content is None and not (role == "assistant" and has_content):
        yield Finding(REQUEST, f"{at}/content", "this turn says nothing", "say something")
    if content == []:
        yield Finding(REQUEST, f"{at}/content", "this turn is empty", "say something")
    for where, part in placed_objects(content, f"{at}/content"):
        kind = str(part.get("type"))
        if not is_openai(model):
            continue  # servers that speak the format have parts of their own
        if takes is not None and kind not in takes:
            yield unread_media(kind, where, f"the role {role}")
        elif kind == "input_audio":
            yield from refuse_audio(where, model)
        elif kind == "image_url":
            url = object_at(part, "image_url").get("url")
            yield from refuse_image(url, f"{where}/image_url/url")
        elif kind == "file":
            yield from refuse_file(object_at(part, "file"), f"{where}/file")


def _tool_calls(turn: JsonObject, at: str) -> list[Json]:
    calls = turn.get("tool_calls", [])
    if not isinstance(calls, list) or ("tool_calls" in turn and not calls):
        raise Misshapen(f"{at}/tool_calls", "this list is empty", "leave it out")
    return calls


def _outline_call(call: JsonObject, turn_at: str, index: int) -> PairedPart:
    at = f"/tool_calls/{index}"
    kind = "custom" if call.get("type") == "custom" else "function"
    place = f"{turn_at}{at}/{kind}"
    function = require_object(call.get(kind), place)
    if kind == "function":
        require_arguments(function, place)
    name = require_text(function, "name", place)
    return PairedPart(require_text(call, "id", turn_at + at), name, at)


DIALECT = OpenAIChatDialect()
