"""Gemini generateContent, whole: parts in contents, roles user and model, JSON Schema fields.

In this order: options, the dialect itself, and then its parts below: lowering, answers, streams,
requests read back, counting, refusing.
"""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from weft.content import (
    Blob,
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
    opaque_part,
)
from weft.declare.provider_tools import (
    CodeExecution,
    FileSearch,
    HostedTool,
    WebFetch,
    WebSearch,
)
from weft.diagnostics import Origin, Severity
from weft.dialects.base import Dialect, Exchange, SpelledTool, Traits, set_options
from weft.dialects.facts import facts_for, same_model, wire_name
from weft.dialects.legality import (
    MEDIA,
    OPTION,
    REQUEST,
    SCHEMA,
    DeclaredTool,
    Finding,
    Findings,
    Spelling,
    TurnRules,
    missing_media,
    no_role,
    refuse_effort,
    refuse_tools,
    refuse_undeclared,
    unread_media,
)
from weft.dialects.measure import (
    OWN_TOOLS,
    SERVED,
    Quantity,
    WeighedHead,
    WeighedTool,
    WeighedTurn,
)
from weft.dialects.options import Option, read_options
from weft.dialects.schema_subset import COMMON_KEYWORDS, SchemaRules, fit_schema
from weft.dialects.stream import AnswerErrors, Stream, tells_error
from weft.dialects.strict import (
    Misshapen,
    Outline,
    PairedPart,
    RequestForm,
    outline_of,
    require_object,
    require_parts,
    require_text,
)
from weft.dialects.track import Entry, LoweringReport, Placed, Wire
from weft.dialects.wire import (
    ReadOutput,
    ReadPart,
    ReadRequest,
    ReadTool,
    ReadTurn,
    as_json,
    as_list,
    as_text,
    deep_update,
    difference,
    drop_fields,
    either_case,
    illegible,
    lifted_call,
    mime_of,
    number,
    object_at,
    object_in,
    objects_in,
    placed_objects,
    present,
    provider_metadata,
    put,
    require_objects,
    text_at,
    text_in,
    without,
)
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
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
from weft.media import SCHEME
from weft.session import Usage
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject

NAME = "gemini"
ERRORS = AnswerErrors(NAME, key="GEMINI_API_KEY")

_CONFIG = "generationConfig"


FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What the provider documents for calls that another model made."""

UNREAD = re.compile(
    r"application/(vnd|msword|zip|octet-stream|gzip|x-tar|epub)|image/(gif|svg)|font/"
)
"""Types of media that the provider refuses, among those that are likely to come."""

CACHED = ("systemInstruction", "tools", "toolConfig")
"""What a cached content holds in addition to its turns."""

_EFFORTS = ("minimal", "low", "medium", "high")


def _write_thinking(wire: Wire, value: Json) -> list[str]:
    if not isinstance(value, dict):
        return ["thinking"]
    names = {"budget": "thinkingBudget", "effort": "thinkingLevel", "include": "includeThoughts"}
    missed: list[str] = []
    for name, setting in value.items():
        if name == "effort" and setting not in _EFFORTS:
            missed.append(f"thinking.effort={setting}")
        elif name == "budget" and setting == -1 and value.get("effort") in _EFFORTS:
            continue  # the effort says how much: the provider refuses the two together
        elif name in names:
            put(wire, f"generationConfig.thinkingConfig.{names[name]}", setting)
        else:
            missed.append(f"thinking.{name}")
    return missed


def _write_tool_choice(wire: Wire, value: Json) -> None:
    config: Wire = {"mode": "ANY"}
    if isinstance(value, dict):
        config["allowedFunctionNames"] = [value.get("name")]
    else:
        config["mode"] = {"any": "ANY", "required": "ANY", "none": "NONE"}.get(str(value), "AUTO")
    wire["toolConfig"] = {"functionCallingConfig": config}


def _write_logprobs(wire: Wire, value: Json) -> None:
    put(wire, "generationConfig.responseLogprobs", bool(value))
    if isinstance(value, int) and not isinstance(value, bool):
        put(wire, "generationConfig.logprobs", value)


_MODES = {"AUTO": "auto", "ANY": "any", "NONE": "none"}


def _read_thinking(wire: JsonObject) -> Json:
    thinking = object_at(wire, _CONFIG, "thinkingConfig")
    level = thinking.get("thinkingLevel")
    return present(
        budget=thinking.get("thinkingBudget"),
        effort=level.lower() if isinstance(level, str) else None,
        include=thinking.get("includeThoughts"),
    )


def _read_logprobs(wire: JsonObject) -> Json:
    config = object_at(wire, _CONFIG)
    if config.get("responseLogprobs") is not True:
        return None
    count = config.get("logprobs")
    return count if isinstance(count, int) else True


def _read_tool_choice(wire: JsonObject) -> Json:
    calling = object_at(wire, "toolConfig", "functionCallingConfig")
    mode, names = calling.get("mode"), calling.get("allowedFunctionNames")
    if mode == "ANY" and isinstance(names, list) and len(names) == 1:
        return {"name": names[0]}
    return _MODES.get(mode) if isinstance(mode, str) else None


_SITES = ("max_uses", "allowed_domains", "blocked_domains")
"""Options of search and pages that the provider does not take."""


SCHEMAS = SchemaRules(
    provider="gemini",
    open_root=None,
    keeps=COMMON_KEYWORDS
    | {"prefixItems", "minItems", "maxItems", "minimum", "maximum", "default"},
    strict=False,
    enum_types=frozenset(("string", "integer", "number")),
    cycles="optional",
)
"""What it reads in `parametersJsonSchema` and `responseJsonSchema`."""


class GeminiDialect(Dialect):
    """System is a field, results ride in user turns, calls carry signatures."""

    traits = Traits(
        name=NAME,
        turns="contents",
        merges_turns=True,
        model_role="model",
        parts="parts",
        calls=("model", "/parts/"),
        results=("user", "/parts/"),
        schemas=SCHEMAS,
        names=Spelling(re.compile(r"[^a-zA-Z0-9_.:-]"), 128, re.compile(r"[a-zA-Z_]")),
        ids=None,
        compared=("cachedContent",),
    )
    form = RequestForm(
        system="systemInstruction",
        tool="functionDeclarations",
        schemas=("parametersJsonSchema", "parameters"),
        describes=("name", "description", "behavior", "response", "responseJsonSchema"),
        answer=(_CONFIG, "responseJsonSchema"),
        beside=("responseMimeType",),
    )
    errors = ERRORS
    options: ClassVar = {
        "temperature": Option(f"{_CONFIG}.temperature", range=(0.0, 2.0)),
        "top_p": Option(f"{_CONFIG}.topP", range=(0.0, 1.0)),
        "top_k": Option(f"{_CONFIG}.topK"),
        "max_output_tokens": Option(f"{_CONFIG}.maxOutputTokens"),
        "stop_sequences": Option(f"{_CONFIG}.stopSequences"),
        "seed": Option(f"{_CONFIG}.seed"),
        "presence_penalty": Option(f"{_CONFIG}.presencePenalty", range=(-2.0, 2.0)),
        "frequency_penalty": Option(f"{_CONFIG}.frequencyPenalty", range=(-2.0, 2.0)),
        "service_tier": Option("serviceTier", values=("standard", "flex", "priority")),
        "thinking": Option(write=_write_thinking, read=_read_thinking),
        "logprobs": Option(write=_write_logprobs, read=_read_logprobs),
        "tool_choice": Option(write=_write_tool_choice, read=_read_tool_choice),
    }
    other_ranges: ClassVar = {f"{_CONFIG}.candidateCount": (1.0, 8.0)}

    def head(self, prompt: Prompt, report: LoweringReport) -> tuple[Wire, tuple[Placed, ...]]:
        """The model stands in the address, not in the body."""
        wire: Wire = {}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, report)
        if prompt.output is not None and prompt.output.how == "native":
            output = prompt.output
            schema = output.schema
            if output.provider != self.traits.name:
                fit = fit_schema(SCHEMAS, schema)
                report.schema_losses(fit.losses, output.origin)
                schema = fit.schema
            put(wire, "generationConfig.responseMimeType", "application/json")
            put(wire, "generationConfig.responseJsonSchema", schema)
            if output.kept and output.provider == self.traits.name:
                deep_update(wire, {"generationConfig": output.kept})
            placed.append(Placed("/generationConfig/responseMimeType", prompt.output.origin))
            placed.append(Placed("/generationConfig/responseJsonSchema", prompt.output.origin))
        if any(self.has_kept(block) for block in prompt.system):
            beside = object_in(wire.get("systemInstruction"))  # the author's own word, a role
            parts: list[Json] = [self.part(one, report) for one in prompt.system]
            wire["systemInstruction"] = {**beside, "parts": parts}
            spot = "/systemInstruction/parts/{}/text"
            placed += [Placed(spot.format(at), (one,)) for at, one in enumerate(prompt.system)]
        elif prompt.system:
            beside = object_in(wire.get("systemInstruction"))
            wire["systemInstruction"] = {**beside, "parts": [{"text": prompt.system_text}]}
            placed.append(Placed("/systemInstruction/parts/0/text", prompt.system))
        if prompt.tools:
            self.put_tools(prompt, wire, placed, report)
        # last: everything that the cached content holds is taken out again
        if "cachedContent" in wire:
            placed = self._without_cached(wire, placed, report)
        return wire, tuple(placed)

    def _without_cached(
        self, wire: Wire, placed: list[Placed], report: LoweringReport
    ) -> list[Placed]:
        """Leave out what the cached content holds: the provider refuses to be told twice."""
        cached = [key for key in CACHED if wire.pop(key, None) is not None]
        if cached:
            report.add(
                "WEFT702",
                Origin("config", "extra"),
                f"{', '.join(cached)} are left out: the cached content has them",
                "create the cached content with them",
                severity=Severity.INFO,
            )
        return [one for one in placed if one.pointer.split("/")[1] not in cached]

    def declaration(self, tool: ToolDecl, report: LoweringReport) -> Wire:
        """Name, description and, where there are any, parameters."""
        declaration: Wire = {"name": tool.name, "description": tool.description}
        if tool.parameters.get("properties"):
            declaration["parametersJsonSchema"] = self.parameters(tool, report)
        return declaration

    def hosted(self, tool: HostedTool, report: LoweringReport) -> SpelledTool | None:
        """Search, pages, code and files, each a tool of its own."""
        match tool:
            case WebSearch():
                dropped = set_options(tool, *_SITES, "location")
                return SpelledTool({"googleSearch": {}}, dropped)
            case WebFetch():
                return SpelledTool({"urlContext": {}}, set_options(tool, *_SITES))
            case CodeExecution():
                return SpelledTool({"codeExecution": {}}, set_options(tool, "files"))
            case FileSearch():
                search: Wire = {"fileSearchStoreNames": list[Json](tool.stores)}
                if tool.max_results is not None:
                    search["topK"] = tool.max_results
                return SpelledTool({"fileSearch": search})
            case _:
                return None

    def put_tools(
        self, prompt: Prompt, wire: Wire, placed: list[Placed], report: LoweringReport
    ) -> None:
        """The tools. A flag asks for functions together with the provider's own tools.

        Models before Gemini 3 take one or the other, and the functions count for more.
        """
        hosted = [tool for tool in prompt.tools if tool.hosted is not None]
        if not hosted or len(hosted) == len(prompt.tools):
            super().put_tools(prompt, wire, placed, report)
            return
        if re.match(r"gemini-[12](\.|-|$)", wire_name(report.model or prompt.model)):
            for tool in hosted:
                report.lose(
                    "WEFT709",
                    tool.origin,
                    f"{wire_name(prompt.model)} takes no functions beside tools of its own:"
                    f" {tool.name.replace('_', ' ')} is left out",
                    "ask a newer Gemini, or give the tool to an agent of its own:"
                    " tools=[Agent(..., tools=[...])]",
                )
            ours = tuple(tool for tool in prompt.tools if tool.hosted is None)
            super().put_tools(replace(prompt, tools=ours), wire, placed, report)
            return
        super().put_tools(prompt, wire, placed, report)
        put(wire, "toolConfig.includeServerSideToolInvocations", True)
        pointer = "/toolConfig/includeServerSideToolInvocations"
        placed.append(Placed(pointer, hosted[0].origin))

    def add_tool(self, tools: list[Json], tool: ToolDecl, declared: Wire) -> str:
        """Functions that stand together are declared together."""
        if tool.own is not None or tool.hosted is not None:
            return super().add_tool(tools, tool, declared)
        last = tools[-1] if tools else None
        functions = last.get("functionDeclarations") if isinstance(last, dict) else None
        if not isinstance(functions, list):
            functions = list[Json]()
            tools.append({"functionDeclarations": functions})
        functions.append(declared)
        return f"/tools/{len(tools) - 1}/functionDeclarations/{len(functions) - 1}"

    def with_function(self, tools: Sequence[Json], declared: Wire) -> list[Json]:
        """It joins the functions that are there: Vertex AI refuses a second group of them."""
        for at, tool in reversed([*enumerate(tools)]):
            if not isinstance(tool, dict):
                continue
            for key in _DECLARATIONS:
                functions = tool.get(key)
                if isinstance(functions, list):
                    grown: Wire = {**tool, key: [*functions, declared]}
                    return [*tools[:at], grown, *tools[at + 1 :]]
        return [*tools, {"functionDeclarations": [declared]}]

    def turn(self, role: Role, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        """One content; the first call of a turn that another model signed says so."""
        parts: list[Json] = []
        sources: list[tuple[str, Block]] = []
        beside: list[tuple[Wire, Block]] = []
        for block in blocks:
            part = self.part(block, report)
            if part is not None:
                sources.append((f"/parts/{len(parts)}", block))
                parts.append(part)
            if isinstance(block, ResultBlock) and block.media:
                beside += self._media_beside(block, report)
        if not parts:
            return []
        for part, block in beside:
            sources.append((f"/parts/{len(parts)}", block))
            parts.append(part)
        if role == "model" and _needs_signatures(report.model):
            _sign_first_call(parts)
        if role == "system":
            role = self._fence_author(blocks[0], parts, report)
        return [Entry({"role": role, "parts": parts}, role, tuple(sources))]

    def _fence_author(self, block: Block, parts: list[Json], report: LoweringReport) -> Role:
        """A word of the author's in mid-conversation: there is no role for it but the user's."""
        report.add("WEFT708", block.origin, f"{report.dialect} gets a system turn as the user's")
        for at, part in enumerate(parts):
            if isinstance(part, dict) and "text" in part:
                parts[at] = {**part, "text": f"[system]: {part['text']}"}
        return "user"

    def spell_plain_turn(self, block: TextBlock) -> Entry:
        """A content with one part."""
        wire: Wire = {"role": block.role, "parts": [{"text": block.text}]}
        return Entry(wire, block.role, (("/parts/0", block),))

    def spell_plain_wire(self, role: Literal["user", "model"], text: str) -> Wire:
        """The same content."""
        return {"role": role, "parts": [{"text": text}]}

    def exchange(
        self, calls: Sequence[CallBlock], results: Sequence[ResultBlock], report: LoweringReport
    ) -> Exchange:
        """The contents of plain calls and their results; nobody has signed these calls."""
        asked, answered = super().exchange(calls, results, report)
        if _needs_signatures(report.model):
            _sign_first_call(as_list(asked[0]["parts"]))
        return asked, answered

    def turns_of_pairs(self, asked: list[Json], answered: list[Json]) -> Exchange:
        """A content of the model's, and one of the user's."""
        return ({"role": "model", "parts": asked},), ({"role": "user", "parts": answered},)

    def text(self, block: TextBlock, report: LoweringReport) -> Wire:
        """A text part."""
        return self._sign_part({"text": block.text}, block, report)

    def thought(self, block: ThoughtBlock, report: LoweringReport) -> Wire | None:
        """A thought of its own goes back: if it is signed, or stands here as it was answered."""
        if not self.own(block, report):
            self.drop_foreign(block, report)
            return None
        if not block.signature and block.kept is None:
            return None
        part: Wire = {"text": block.text, "thought": True} if block.text else {"text": ""}
        return self._sign_part(part, block, report)

    def call(self, block: CallBlock, report: LoweringReport) -> Wire:
        """A functionCall part, with its signature where it has one."""
        call: Wire = {"name": self.name_of(block, report), "args": block.args}
        if block.given:
            call["id"] = block.id
        if not self.own(block, report):
            if block.signature:
                self.drop_signature(block, report)
            return {"functionCall": call, "thoughtSignature": FOREIGN_SIGNATURE}
        return self._sign_part({"functionCall": call}, block, report)

    def result(self, block: ResultBlock, report: LoweringReport) -> Wire:
        """A functionResponse part; its response is an object already."""
        response: Wire = {"name": self.name_of(block, report), "response": block.response}
        if block.given:
            response["id"] = block.call_id
        inside = [media for media in block.media if _takes_inside(media, report.model)]
        if inside:
            response["parts"] = [self.media(media, report) for media in inside]
        return {"functionResponse": response}

    def _media_beside(self, block: ResultBlock, report: LoweringReport) -> list[tuple[Wire, Block]]:
        """What a result shows that cannot stand in it, after a line that says whose it is."""
        outside = [media for media in block.media if not _takes_inside(media, report.model)]
        if not outside:
            return []
        message = f"the media of {block.name} follows its result"
        report.add("WEFT703", block.origin, message, severity=Severity.INFO)
        label: Wire = {"text": f"[shown by {block.name}]:"}
        return [(label, block), *((self.media(media, report), media) for media in outside)]

    def media(self, block: MediaBlock, report: LoweringReport) -> Wire:
        """Inline data, or an address."""
        if UNREAD.match(mime_of(block)) or (block.uri or "").startswith(SCHEME):
            return {"text": missing_media(block, report)}
        source: Wire = {"mimeType": block.mime_type}
        if block.uri is not None:
            source["fileUri"] = block.uri
            part: Wire = {"fileData": source}
        else:
            source["data"] = block.data
            part = {"inlineData": source}
        return self._sign_part(part, block, report)

    def code(self, block: CodeBlock, report: LoweringReport) -> Wire:
        """Its own part."""
        part: Wire = {"executableCode": {"language": block.language, "code": block.code}}
        return self._sign_part(part, block, report)

    def code_result(self, block: CodeResultBlock, report: LoweringReport) -> Wire:
        """Its own part."""
        part: Wire = {"codeExecutionResult": {"outcome": block.outcome, "output": block.output}}
        return self._sign_part(part, block, report)

    def own(self, block: Block, report: LoweringReport) -> bool:
        """A signature that does not say whose it is comes from the log's own provider, this."""
        # the log has ADK's format, which is Gemini's: what names no maker came from there
        return not block.provider or super().own(block, report)

    def opaque(self, block: OpaqueBlock, report: LoweringReport) -> Wire | None:
        """The log's own format is this provider's; what another model signed says so."""
        part = block.payload if not block.provider else super().opaque(block, report)
        if part is None or "thoughtSignature" not in part or same_model(block.model, report.model):
            return part
        self.drop_foreign(block, report, what="signature")
        return {**part, "thoughtSignature": FOREIGN_SIGNATURE}

    def _sign_part(
        self,
        part: Wire,
        block: TextBlock | ThoughtBlock | CallBlock | MediaBlock | CodeBlock | CodeResultBlock,
        report: LoweringReport,
    ) -> Wire:
        """The part with its signature, if the model that is asked gave it."""
        if not block.signature:
            return part
        if not self.own(block, report):
            self.drop_foreign(block, report, what="signature")
            return part
        return {**part, "thoughtSignature": block.signature}

    # Answers, whole and streamed.

    def lift(self, body: JsonObject) -> ModelResponse:
        """What a whole answer says; the first candidate is the answer."""
        if tells_error(body):
            raise ERRORS.failure(None, body)
        candidates = objects_in(body.get("candidates"))
        if not candidates and not ("promptFeedback" in body or "usageMetadata" in body):
            raise ERRORS.unreadable("the answer has no candidates")
        first = candidates[0] if candidates else {}
        parts = _lift_parts(first)
        rest = without(body, *_LIFTED)
        reason = text_in(first.get("finishReason"))
        finish = (reason if reason in _REASONS else "OTHER") if reason else None
        if reason and finish != reason:
            rest["finishReason"] = reason
        average = first.get("avgLogprobs")
        beside = without(first, *_METADATA)
        if isinstance(average, (int, float)):
            beside.pop("avgLogprobs", None)
        if beside:
            rest["candidate"] = beside
        if len(candidates) > 1:
            others: list[Json] = [*candidates[1:]]
            rest["candidates"] = others
        usage, spent = _lift_usage(object_in(body.get("usageMetadata")))
        if spent:
            rest["usageMetadata"] = spent
        blocked = text_in(object_in(body.get("promptFeedback")).get("blockReason"))
        # the prompt itself was refused: there is no candidate to say why
        if blocked and not candidates:
            finish = blocked if blocked in _REASONS else "OTHER"
        code, message = _lift_error(
            first, finish, body, has_content=any(part.kind != "empty" for part in parts)
        )
        return ModelResponse(
            content=Content(parts, "model") if parts else None,
            finish_reason=finish,
            error_code=code,
            error_message=message,
            usage=usage,
            model_version=text_in(body.get("modelVersion")) or None,
            custom_metadata=Provenance(rest=rest).onto(None) if rest else None,
            grounding_metadata=object_in(first.get("groundingMetadata")) or None,
            citation_metadata=object_in(first.get("citationMetadata")) or None,
            logprobs_result=object_in(first.get("logprobsResult")) or None,
            avg_logprobs=float(average) if isinstance(average, (int, float)) else None,
        )

    def stream(self) -> Stream:
        """A reader for one streamed answer."""
        return GeminiStream()

    # Requests, read back.

    def spell(self, wire: JsonObject) -> JsonObject:
        """The request with every name of the provider's in camelCase."""
        return {_camel(key): _spell_value(value, _camel(key)) for key, value in wire.items()}

    def read(self, wire: JsonObject) -> ReadRequest:
        """System, turns, tools, schema and options of a request."""
        system = _content_parts(wire.get("systemInstruction"))
        output = _read_output(wire)
        places = ["contents", "systemInstruction", "tools"]
        if output is not None:
            places += [f"{_CONFIG}.{name}" for name in ("responseMimeType", "responseJsonSchema")]
            places.append(f"{_CONFIG}.responseSchema")
        apart = len(system) > 1
        tools = require_objects(wire.get("tools"), "tools")
        return ReadRequest(
            system=tuple(ReadPart(_read_part(part), part, apart) for part in system),
            turns=tuple(
                _read_turn(content, f"contents/{index}")
                for index, content in enumerate(require_objects(wire.get("contents"), "contents"))
            ),
            tools=tuple(each for tool in tools for each in _read_tools(tool)),
            output=output,
            config=read_options(self.options, wire),
            places=tuple(places),
        )

    # What is counted of a request.

    def weigh_head(self, wire: JsonObject) -> WeighedHead:
        """System text, tools, schema and choice."""
        tools: list[WeighedTool] = []
        uncounted: dict[str, None] = {}
        for tool in map(object_in, as_list(wire.get("tools"))):
            tools += map(_weigh_tool, map(object_in, as_list(either_case(tool, _DECLARATIONS[0]))))
            if any(key not in _DECLARATIONS for key in tool):
                uncounted[OWN_TOOLS] = None
        if any(_is_recursive(tool.schema) for tool in tools):
            uncounted["how often a schema that contains itself is written out"] = None
        calling = object_in(
            either_case(object_in(either_case(wire, "toolConfig")), "functionCallingConfig")
        )
        mode = as_text(calling.get("mode")).upper()
        generation = object_in(either_case(wire, "generationConfig"))
        return WeighedHead(
            system=tuple(_system_texts(either_case(wire, "systemInstruction"))),
            tools=tuple(tools),
            schema=either_case(generation, "responseJsonSchema")
            or either_case(generation, "responseSchema"),
            forced=mode == "ANY",
            stateful=bool(either_case(wire, "cachedContent")),
            uncounted=tuple(uncounted),
        )

    def weigh_turn(self, turn: Json) -> WeighedTurn:
        """One turn; functions that answer are not the user speaking."""
        if not isinstance(turn, dict):
            return WeighedTurn("user", [Quantity("", "text", as_text(turn))], asks=True)
        role = as_text(turn.get("role")) or "user"
        parts: list[Quantity] = []
        asks = False
        for index, part in enumerate(as_list(turn.get("parts"))):
            quantities = _weigh_part(f"/parts/{index}", part)
            asks = asks or not any(one.kind == "result" for one in quantities)
            parts += quantities
        return WeighedTurn(role, parts, asks=asks and role == "user")

    # What the provider refuses.

    def refuse_head(self, wire: JsonObject, model: str) -> Findings:
        """Everything but the turns that the provider would answer with a 400."""
        config = object_at(wire, "generationConfig")
        yield from self.refuse_ranges(wire)
        yield from _refuse_limits(config, model)
        yield from _refuse_tools(wire, model, self.traits.names)
        if not _makes_images(
            model
        ):  # what these take with a picture is their own, and documented nowhere
            yield from _refuse_thinking(object_at(config, "thinkingConfig"), model)
            yield from _refuse_combinations(wire, config, model)
        yield from _refuse_schema(config)
        yield from _refuse_abilities(wire, config, model)

    def turn_rules(self, model: str, *, strict: bool = False) -> TurnRules:
        """Every message, item or content, and how they follow each other."""
        return GeminiTurnRules(model)

    def outline(self, turn: JsonObject, at: str) -> Outline:
        """Every part holds one thing, and what it needs."""
        role = turn.get("role")
        if role not in ("user", "model"):
            raise Misshapen(*no_role(role, at, "use user or model")[1:])
        calls: list[PairedPart] = []
        results: list[PairedPart] = []
        for index, part in enumerate(require_parts(turn, "parts", at)):
            text = part.get("text")
            if text and isinstance(text, str) and len(part) == 1:
                continue
            place = f"/parts/{index}"
            _require_one_thing(part, at + place)
            if "functionCall" in part:
                calls.append(_outline_pair(part, "functionCall", "args", at, place))
            elif "functionResponse" in part:
                results.append(_outline_pair(part, "functionResponse", "response", at, place))
        return outline_of("user" if role == "user" else "model", calls, results, at)


# --- answers


_GOOD = frozenset(("STOP", "MAX_TOKENS", "CONTINUATION"))

_REASONS = _GOOD | frozenset(
    ("SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
     "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
     "IMAGE_PROHIBITED_CONTENT", "NO_IMAGE", "IMAGE_RECITATION", "IMAGE_OTHER",
     "MALFORMED_RESPONSE")
)  # fmt: skip

_ANY_TYPE = "application/octet-stream"

_LIFTED = ("candidates", "usageMetadata", "modelVersion")

_METADATA = ("content", "finishReason", "groundingMetadata", "citationMetadata", "logprobsResult")

_COUNTS = {
    "promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount",
    "thoughtsTokenCount", "toolUsePromptTokenCount",
}  # fmt: skip

_DETAILS = {
    "promptTokensDetails", "candidatesTokensDetails", "cacheTokensDetails",
    "toolUsePromptTokensDetails", "trafficType",
}  # fmt: skip


def _lift_parts(candidate: JsonObject) -> tuple[Part, ...]:
    content = object_in(candidate.get("content"))
    role = content.get("role") or "model"
    if role != "model":
        raise ERRORS.unreadable(f"the answer has the role {role!r} instead of 'model'")
    parts = content.get("parts") or []
    if not isinstance(parts, list):
        raise ERRORS.unreadable("the answer's parts are no list")
    return tuple(_lift_part(part) for part in parts)


def _lift_part(wire: Json) -> Part:
    """One part of an answer as a part of the log."""
    if not isinstance(wire, dict):
        raise ERRORS.unreadable("a part of the answer is not an object")
    for field, read in _LIFTERS.items():
        value = wire.get(field)
        if isinstance(value, dict):
            part = read(wire, value)
            if part is not None:
                return part
    text, signature = wire.get("text"), _signature(wire)
    if isinstance(text, str) and wire.get("thought") is True:
        return _lift_thought(wire, text, signature)
    if isinstance(text, str) and text:
        return _with_fields(Part(text), {"text": text}, wire)
    # an empty part that only carries a signature must go back as it came
    if signature and wire.keys() <= {"text", "thought", "thoughtSignature"}:
        return _lift_thought(wire, "", signature)
    return Part("") if wire == {"text": ""} else opaque_part(NAME, wire)


def _signature(wire: JsonObject) -> str | None:
    return text_in(wire.get("thoughtSignature")) or None


def _with_fields(part: Part, spelled: JsonObject, wire: JsonObject) -> Part:
    """The part, signed, with the fields of `wire` that `spelled` would not send back."""
    signature = _signature(wire)
    if signature:
        spelled = {**spelled, "thoughtSignature": signature}
    metadata = provider_metadata(NAME, difference(spelled, wire) or None)
    if signature is None and metadata is None:
        return part
    return replace(part, thought_signature=signature, part_metadata=metadata)


def _lift_thought(wire: JsonObject, text: str, signature: str | None) -> Part:
    """A thought, or nothing but a signature; one that is unsigned goes back as well."""
    spelled: JsonObject = {"text": text, "thought": True} if text else {"text": ""}
    if signature:
        spelled["thoughtSignature"] = signature
    missing = difference(spelled, wire)
    return Part(
        text if "text" in wire else None,
        thought=True if wire.get("thought") else None,
        thought_signature=signature,
        part_metadata=provider_metadata(NAME, missing if missing or signature is None else None),
    )


def _lift_call(wire: JsonObject, call: JsonObject) -> Part | None:
    name = text_in(call.get("name"))
    arguments = call.get("args", {})
    call_id = text_in(call.get("id")) or None
    spelled: JsonObject = {"name": name, "args": arguments}
    # ids that we made up are not sent back to the provider
    if call_id and not call_id.startswith("adk-"):
        spelled["id"] = call_id
    whole: JsonObject = {"functionCall": spelled}
    signature = _signature(wire)
    if signature:
        whole["thoughtSignature"] = signature
    missing = difference(whole, wire) if name else None
    return lifted_call(
        NAME, FunctionCall(name=name, id=call_id), arguments, missing or None, signature
    )


def _lift_tool_call(wire: JsonObject, asked: JsonObject) -> Part | None:
    """A call of the provider's own tool, which stands in the log as it is."""
    if not wire.keys() <= {"toolCall", "thoughtSignature"}:
        return None
    return Part(tool_call=asked, thought_signature=_signature(wire))


def _lift_tool_response(wire: JsonObject, came: JsonObject) -> Part | None:
    if not wire.keys() <= {"toolResponse", "thoughtSignature"}:
        return None
    return Part(tool_response=came, thought_signature=_signature(wire))


def _lift_inline(wire: JsonObject, blob: JsonObject) -> Part | None:
    data, mime_type = blob.get("data"), text_in(blob.get("mimeType"))
    if not isinstance(data, str):
        return None
    spelled: JsonObject = {"inlineData": {"mimeType": mime_type or _ANY_TYPE, "data": data}}
    data_part = Blob(mime_type or None, data, text_in(blob.get("displayName")) or None)
    return _with_fields(Part(inline_data=data_part), spelled, wire)


def _lift_file(wire: JsonObject, file: JsonObject) -> Part | None:
    uri, mime_type = file.get("fileUri"), text_in(file.get("mimeType"))
    if not isinstance(uri, str):
        return None
    spelled: JsonObject = {"fileData": {"mimeType": mime_type or _ANY_TYPE, "fileUri": uri}}
    file_part = FileData(uri, mime_type or None, text_in(file.get("displayName")) or None)
    return _with_fields(Part(file_data=file_part), spelled, wire)


def _lift_code(wire: JsonObject, code: JsonObject) -> Part | None:
    source, language = text_in(code.get("code")), text_in(code.get("language"))
    spelled: JsonObject = {"executableCode": {"language": language or "PYTHON", "code": source}}
    written = ExecutableCode(source, language or None, text_in(code.get("id")) or None)
    return _with_fields(Part(executable_code=written), spelled, wire)


def _lift_code_result(wire: JsonObject, ran: JsonObject) -> Part | None:
    outcome, output = text_in(ran.get("outcome")), text_in(ran.get("output"))
    spelled: JsonObject = {
        "codeExecutionResult": {"outcome": outcome or "OUTCOME_OK", "output": output}
    }
    gave = CodeExecutionResult(outcome or None, output or None, text_in(ran.get("id")) or None)
    return _with_fields(Part(code_execution_result=gave), spelled, wire)


_LIFTERS: dict[str, Callable[[JsonObject, JsonObject], Part | None]] = {
    "functionCall": _lift_call,
    "toolCall": _lift_tool_call,
    "toolResponse": _lift_tool_response,
    "inlineData": _lift_inline,
    "fileData": _lift_file,
    "executableCode": _lift_code,
    "codeExecutionResult": _lift_code_result,
}
"""How each kind of part is read; what gives None is kept as it came."""


def _lift_error(
    first: JsonObject, finish: str | None, body: JsonObject, *, has_content: bool
) -> tuple[str | None, str | None]:
    """Why there is no answer, or not the one that was asked for."""
    feedback = object_in(body.get("promptFeedback"))
    if not first:
        blocked = text_in(feedback.get("blockReason"))
        if not blocked:
            return "empty_response", "the model gave no candidate"
        why = text_in(feedback.get("blockReasonMessage"))
        return blocked.lower(), why or f"the prompt was blocked ({blocked})"
    if finish is None or finish in ("STOP", "CONTINUATION"):
        return None, None
    why = text_in(first.get("finishMessage"))
    if finish == "MAX_TOKENS":
        words = why or "the model said nothing before it ran out of tokens"
        return (None, None) if has_content else ("max_tokens", words)
    reason = text_in(first.get("finishReason"))
    return finish.lower(), why or f"the model stopped before it was done ({reason})"


def _lift_usage(counts: JsonObject) -> tuple[Usage | None, JsonObject]:
    """The counts, and what else is said of them."""
    if not counts:
        return None, {}
    taken: JsonObject = {}
    spent: JsonObject = {}
    for key, value in without(counts).items():
        known = key in _DETAILS or (key in _COUNTS and type(value) is int)
        (taken if known else spent)[key] = value
    try:
        return msgspec.convert(taken, Usage), spent
    except msgspec.ValidationError:  # a detail of another kind than it was
        return None, without(counts)


# --- streams


_GROWING = frozenset(("citationMetadata", "logprobsResult"))
"""What each chunk says about its own part of the answer only."""


class _GrowingCandidate:
    """One candidate that is still coming in."""

    __slots__ = ("_arguments", "_texts", "fields", "parts", "role")

    def __init__(self) -> None:
        self.fields: JsonObject = {}
        self.parts: list[JsonObject] = []
        self.role: Json = None
        self._texts: list[str] = []
        self._arguments: _GrowingArguments | None = None

    def add(self, chunk: JsonObject) -> None:
        """More of this candidate."""
        for key, value in chunk.items():
            if key == "content" and isinstance(value, dict):
                self.role = value.get("role") or self.role
                parts = value.get("parts")
                for part in parts if isinstance(parts, list) else ():
                    if isinstance(part, dict):
                        self._add_part(part)
            elif value is not None:
                before = self.fields.get(key)
                if isinstance(before, dict) and isinstance(value, dict):
                    value = _merge_chunks(before, value) if key in _GROWING else {**before, **value}
                self.fields[key] = value

    def whole(self) -> JsonObject:
        """The candidate as it would have come whole."""
        self._join()
        parts: list[Json] = [*self.parts]
        content: JsonObject = {"parts": parts} if parts else {}
        if self.role is not None:
            content["role"] = self.role
        return {"content": content, **self.fields} if content else self.fields

    def _add_part(self, part: JsonObject) -> None:
        text = part.get("text")
        if isinstance(text, str) and len(part) == 1 + ("thought" in part):
            self._arguments = None
            # a signature or a change to thinking begins a part of its own
            if self._texts and part.get("thought") == self.parts[-1].get("thought"):
                self._texts.append(text)
            else:
                self._join()
                if text:
                    self.parts.append(part)
                    self._texts = [text]
            return
        self._join()
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._add_call(part, call)
        else:
            self._arguments = None
            self.parts.append(part)

    def _join(self) -> None:
        """Close the text that was growing."""
        if len(self._texts) > 1:
            self.parts[-1] = {**self.parts[-1], "text": "".join(self._texts)}
        self._texts = []

    def _add_call(self, part: JsonObject, call: JsonObject) -> None:
        """A call, or more of the one before, whose arguments are still coming in."""
        pieces = call.get("partialArgs")
        goes_on = call.get("willContinue") is True
        if self._arguments is None or text_in(call.get("name")):
            self.parts.append(part)
            if not goes_on and pieces is None:
                self._arguments = None
                return
            self._arguments = _GrowingArguments(dict(object_in(call.get("args"))))
            self.parts[-1] = {**part, "functionCall": without(call, "partialArgs", "willContinue")}
        for piece in objects_in(pieces):
            self._arguments.add(piece)
        growing = self.parts[-1]
        more = without(call, "partialArgs", "willContinue", "args")
        whole = {**object_in(growing["functionCall"]), **more}
        whole["args"] = self._arguments.values
        growing = {**growing, **without(part, "functionCall")}
        growing["functionCall"] = whole
        self.parts[-1] = growing
        if not goes_on:
            self._arguments = None


def _merge_chunks(before: JsonObject, more: JsonObject) -> JsonObject:
    """Both: lists one after the other, all else as it was said last."""
    grown = {**before, **more}
    for key, value in more.items():
        old = before.get(key)
        if isinstance(old, list) and isinstance(value, list):
            grown[key] = old + value
    return grown


class GeminiStream:
    """One streamed answer."""

    __slots__ = ("_candidates", "_fields", "_over")

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._candidates: dict[int, _GrowingCandidate] = {}
        self._over = False

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one chunk; what its first candidate says is to be shown."""
        candidates = data.get("candidates")
        if candidates is None and (name == "error" or tells_error(data)):
            raise ERRORS.failure(None, data)
        self._fields.update(data)
        pieces: tuple[Part, ...] = ()
        for chunk in candidates if isinstance(candidates, list) else ():
            if isinstance(chunk, dict):
                index = chunk.get("index", 0)
                candidate = self._candidate(index)
                candidate.add(chunk)
                if index == 0:
                    pieces += _partial_parts(chunk.get("content"))
        return ModelResponse(content=Content(pieces, "model"), partial=True) if pieces else None

    def note_end(self) -> None:
        """The word of a server that imitates the provider, for the reason it should have given."""
        self._over = True

    def body(self) -> JsonObject:
        """The answer as it would have come whole."""
        candidates = [self._candidates[index].whole() for index in sorted(self._candidates)]
        ended = any(self._over or "finishReason" in candidate for candidate in candidates)
        if not ended and not object_in(self._fields.get("promptFeedback")).get("blockReason"):
            raise ERRORS.cut_off()
        whole: list[Json] = [*candidates]
        fields = without(self._fields, "candidates")
        return {"candidates": whole, **fields} if whole else fields

    def _candidate(self, index: Json) -> _GrowingCandidate:
        at = index if isinstance(index, int) else 0
        candidate = self._candidates.get(at)
        if candidate is None:
            candidate = self._candidates[at] = _GrowingCandidate()
        return candidate


def _partial_parts(content: Json) -> tuple[Part, ...]:
    """What a chunk has to show; several parts of one kind are one."""
    pieces: list[Part] = []
    parts = content.get("parts") if isinstance(content, dict) else None
    for part in parts if isinstance(parts, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(text, str) and text:
            pieces.append(Part(text, thought=True if part.get("thought") else None))
    if len(pieces) > 1 and all(part.thought == pieces[0].thought for part in pieces):
        return (Part("".join(part.text or "" for part in pieces), thought=pieces[0].thought),)
    return tuple(pieces)


_STEP = re.compile(r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<quoted>'.*?'|".*?")\]""")

_MOST_ITEMS = 10_000


class _GrowingArguments:
    """The arguments of a call, put together from pieces as they stream."""

    __slots__ = ("_open", "values")

    def __init__(self, values: JsonObject) -> None:
        self.values = values
        self._open = ""

    def add(self, piece: JsonObject) -> None:
        """One piece: a whole value, or more of the text that the piece before left open."""
        path = piece.get("jsonPath")
        steps = _steps(path) if isinstance(path, str) else []
        if not steps:
            return
        value = _piece_value(piece)
        before = _value_at(self.values, steps)
        if path == self._open and isinstance(value, str) and isinstance(before, str):
            value = before + value
        _set_at(self.values, steps, value)
        self._open = str(path) if piece.get("willContinue") else ""


def _piece_value(piece: JsonObject) -> Json:
    for name in ("stringValue", "numberValue", "boolValue"):
        if name in piece:
            return piece[name]
    return "" if piece.get("willContinue") else None


def _steps(path: str) -> list[str | int]:
    """The keys and indexes of a path such as `$.stops[0].city`."""
    steps: list[str | int] = []
    for step in _STEP.finditer(path):
        if step["index"] is not None:
            # a model may name any index, and a list is filled up to it
            steps.append(min(int(step["index"]), _MOST_ITEMS))
        else:
            steps.append(step["name"] or step["quoted"][1:-1])
    return steps


def _value_at(value: Json, steps: Sequence[str | int]) -> Json:
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _set_at(holder: Json, steps: Sequence[str | int], value: Json) -> None:
    """Put a value at its path, making the objects and lists on the way."""
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        fresh: Json = value if last else [] if isinstance(steps[at + 1], int) else {}
        if isinstance(holder, dict) and isinstance(step, str):
            if last or not isinstance(holder.get(step), (dict, list)):
                holder[step] = fresh
            holder = holder[step]
        elif isinstance(holder, list) and isinstance(step, int):
            holder.extend([None] * (step + 1 - len(holder)))
            if last or not isinstance(holder[step], (dict, list)):
                holder[step] = fresh
            holder = holder[step]
        else:
            return


# --- requests read back


_PARTS = {
    "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData",
    "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse",
}  # fmt: skip

_FOREIGN_WORDS = {
    "args", "response", "labels", "parameters", "parametersJsonSchema", "responseJsonSchema",
    "responseSchema",
}  # fmt: skip
"""Fields whose keys are the caller's own."""

_KINDS = {
    "OBJECT": "object", "ARRAY": "array", "STRING": "string", "NUMBER": "number",
    "INTEGER": "integer", "BOOLEAN": "boolean", "NULL": "null",
}  # fmt: skip


def _spell_value(value: Json, key: str) -> Json:
    # their keys are the author's own, and are not ours to respell
    if key in _FOREIGN_WORDS:
        return value
    if isinstance(value, dict):
        return {_camel(key): _spell_value(item, _camel(key)) for key, item in value.items()}
    return [_spell_value(each, "") for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])_([a-z0-9])", lambda match: match[1].upper(), name)


def _content_parts(content: Json) -> list[JsonObject]:
    """The parts of a content, which may be only its text."""
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict) and "parts" in content:
        return require_objects(content["parts"], "parts")
    return require_objects(content, "parts")


def _read_turn(content: JsonObject, where: str) -> ReadTurn:
    role = str(content.get("role") or "user")
    sides: dict[str, Role] = {"user": "user", "model": "model", "function": "user"}
    if role not in sides:
        raise illegible(f"{role!r} is not a role", f"{where}/role")
    parts = require_objects(content.get("parts"), f"{where}/parts")
    read_one = _lift_part if role == "model" else _read_part
    return ReadTurn(sides[role], tuple(ReadPart(read_one(part), part) for part in parts))


def _read_part(part: JsonObject) -> Part:
    known = {key: value for key, value in part.items() if key in _PARTS}
    try:
        read_one = msgspec.convert(known, Part)
        for media in (read_one.function_response or FunctionResponse()).parts or ():
            msgspec.convert(media, Part)
    except msgspec.ValidationError:
        return Part()
    return read_one


def _read_tools(tool: JsonObject) -> list[ReadTool]:
    """The functions of an entry, and what else stands in it: a tool of the provider's own."""
    tools: list[ReadTool] = []
    for declared in require_objects(tool.get("functionDeclarations"), "functionDeclarations"):
        schema = declared.get("parametersJsonSchema", _plain_schema(declared.get("parameters")))
        parameters: JsonObject = schema if isinstance(schema, dict) else {}
        parameters = parameters or {"type": "object", "properties": {}}
        name, about = text_at(declared, "name"), text_at(declared, "description")
        tools.append(ReadTool(declared, name, about, parameters))
    own = drop_fields(tool, "functionDeclarations")
    if own or not tools:
        tools.append(ReadTool(own, next(iter(own), ""), own=True))
    return tools


def _read_output(wire: JsonObject) -> ReadOutput | None:
    config = wire.get(_CONFIG)
    if not isinstance(config, dict) or config.get("responseMimeType") != "application/json":
        return None
    schema = config.get("responseJsonSchema")
    if isinstance(schema, dict):
        return ReadOutput(schema, "answer", {})
    typed = config.get("responseSchema")
    plain = _plain_schema(typed)
    if not isinstance(plain, dict):
        return None
    fields: JsonObject = {"responseJsonSchema": None, "responseSchema": typed}
    return ReadOutput(plain, "answer", fields)


def _plain_schema(schema: Json) -> Json:
    """The provider's own form of a schema as JSON Schema."""
    if isinstance(schema, list):
        return [_plain_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain: JsonObject = {}
    for key, value in schema.items():
        name = _camel(key)
        if name == "type":
            plain[name] = _KINDS.get(str(value), value)
        elif name == "properties" and isinstance(value, dict):
            plain[name] = {
                each: _plain_schema(property_schema) for each, property_schema in value.items()
            }
        elif name in ("items", "anyOf", "prefixItems", "additionalProperties"):
            plain[name] = _plain_schema(value)
        elif name not in ("nullable", "propertyOrdering"):
            plain[name] = value
    if schema.get("nullable") is True:
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


# --- counting


_REFERENCE = re.compile(r'"\$ref":"#/\$defs/([^"]*)"')

_SCHEMAS = ("parametersJsonSchema", "parameters")

_DECLARATIONS = ("functionDeclarations", "function_declarations")


def _weigh_part(pointer: str, part: Json) -> list[Quantity]:
    if not isinstance(part, dict):
        return [Quantity(pointer, "text", as_text(part))]
    seals: list[Quantity] = []
    if either_case(part, "toolCall") or either_case(part, "toolResponse"):  # not counted as input
        return [Quantity(pointer, "other", "", uncounted=SERVED)]
    signature = either_case(part, "thoughtSignature")
    if isinstance(signature, str):
        seals.append(Quantity(pointer, "thought", "", sealed=len(signature)))
    if part.get("thought"):
        return seals
    if "text" in part:
        return [*seals, Quantity(pointer, "text", as_text(part["text"]))]
    if isinstance(call := either_case(part, "functionCall"), dict):
        args = as_json(call.get("args", {}))
        return [*seals, Quantity(pointer, "call", args, as_text(call.get("name")))]
    if isinstance(result := either_case(part, "functionResponse"), dict):
        text = as_text(result.get("name")) + as_json(result.get("response"))
        media = [_weigh_media(pointer, object_in(one)) for one in as_list(result.get("parts"))]
        return [*seals, Quantity(pointer, "result", text), *media]
    if isinstance(code := either_case(part, "executableCode"), dict):
        return [*seals, Quantity(pointer, "text", as_text(code.get("code")))]
    if isinstance(output := either_case(part, "codeExecutionResult"), dict):
        return [*seals, Quantity(pointer, "text", as_text(output.get("output")))]
    return [*seals, _weigh_media(pointer, part)]


def _weigh_media(pointer: str, part: JsonObject) -> Quantity:
    for key in ("inlineData", "fileData"):
        if isinstance(source := either_case(part, key), dict):
            data = as_text(source.get("data")) if key == "inlineData" else ""
            return Quantity(pointer, "media", data, as_text(either_case(source, "mimeType")))
    return Quantity(pointer, "other", as_json(part))


def _is_recursive(schema: JsonObject | None) -> bool:
    """Whether a definition of the schema names itself, directly or through others."""
    definitions = object_in((schema or {}).get("$defs"))
    names = {
        name: set(_REFERENCE.findall(as_json(references)))
        for name, references in definitions.items()
    }
    reached = dict(names)
    for _ in names:
        for name, references in reached.items():
            reached[name] = references.union(*(names.get(each, set()) for each in references))
    return any(name in references for name, references in reached.items())


def _system_texts(value: Json) -> list[str]:
    parts = as_list(value.get("parts")) if isinstance(value, dict) else as_list(value)
    return [as_text(part.get("text") if isinstance(part, dict) else part) for part in parts]


def _weigh_tool(declaration: JsonObject) -> WeighedTool:
    schema = next(
        (candidate for key in _SCHEMAS if (candidate := either_case(declaration, key))), None
    )
    return WeighedTool(
        as_text(declaration.get("name")),
        as_text(declaration.get("description")),
        object_in(schema) or None,
    )


# --- refusing: the head


_MOST_TOOLS, _MOST_STOPS = 512, 5

_OLD = r"gemini-(1|2)(\.|-)"

_BESIDE = ("functionDeclarations", "computerUse")

_MAKES = {"IMAGE": "image|flash-exp", "AUDIO": "tts|audio|live"}


class _Budget(NamedTuple):
    least: int
    most: int
    off: bool


_BUDGETS = (
    (r"gemini-2\.5-pro", _Budget(128, 32_768, off=False)),
    (r"gemini-2\.5-flash-lite", _Budget(512, 24_576, off=True)),
    (r"gemini-2\.5-flash", _Budget(1, 24_576, off=True)),
)


def _makes_images(model: str) -> bool:
    """Whether the model is one that answers with images."""
    return "image" in model


def _refuse_limits(config: JsonObject, model: str) -> Findings:
    most = facts_for(model).output_limit
    limit = number(config.get("maxOutputTokens"))
    if limit is not None and most and not 1 <= limit <= most:
        message = f"an answer of {limit:g} tokens is not between 1 and {most}"
        pointer = "/generationConfig/maxOutputTokens"
        yield Finding(OPTION, pointer, message, f"give {most} or less")
    stops = config.get("stopSequences")
    if isinstance(stops, list) and len(stops) > _MOST_STOPS:
        message = f"there are {len(stops)} stop sequences, and {_MOST_STOPS} may be"
        yield Finding(OPTION, "/generationConfig/stopSequences", message, "leave some out")


def _refuse_thinking(thinking: JsonObject, model: str) -> Findings:
    budget, level = number(thinking.get("thinkingBudget")), thinking.get("thinkingLevel")
    above = "/generationConfig/thinkingConfig"
    if budget is not None and level is not None:
        message = "a budget and a level of thinking stand together"
        yield Finding(OPTION, above, message, "leave out one of them")
    if not facts_for(model).thinks and (budget or level is not None):
        yield Finding(OPTION, above, f"{model} does not think", "leave out `thinking`")
        return
    if level is not None and re.match(_OLD, model):
        hint = 'give a budget: {"thinking": {"budget": 1024}}'
        message = f"{model} takes a budget for thinking, and no level"
        yield Finding(OPTION, f"{above}/thinkingLevel", message, hint)
    else:
        yield from refuse_effort(level, f"{above}/thinkingLevel", model)
    limits = next((known for name, known in _BUDGETS if re.match(name, model)), None)
    if budget is None or limits is None or budget == -1:
        return
    if not (budget == 0 and limits.off) and not limits.least <= budget <= limits.most:
        message = f"{model} takes no thinking budget of {budget:g}"
        hint = f"give {limits.least} to {limits.most}"
        yield Finding(OPTION, f"{above}/thinkingBudget", message, hint)


def _refuse_tools(wire: JsonObject, model: str, spelling: Spelling) -> Findings:
    functions: list[DeclaredTool] = []
    for at, tool in placed_objects(wire.get("tools"), "/tools"):
        declared = placed_objects(tool.get("functionDeclarations"), f"{at}/functionDeclarations")
        for where, function in declared:
            schema, typed = function.get("parametersJsonSchema"), function.get("parameters")
            if schema is not None and typed is not None:
                message = "`parameters` and `parametersJsonSchema` stand together"
                yield Finding(SCHEMA, where, message, "leave out one of them")
            name = str(function.get("name", ""))
            parameters = schema if isinstance(schema, dict) and "type" in schema else typed
            functions.append(DeclaredTool(where, name, parameters, where))
        if "googleSearchRetrieval" in tool and not model.startswith("gemini-1"):
            message = f"{model} searches by `googleSearch`"
            yield Finding(REQUEST, at, message, "use googleSearch")
    yield from refuse_tools(functions, spelling, _MOST_TOOLS)
    calling = object_at(wire, "toolConfig", "functionCallingConfig")
    names, pointer = calling.get("allowedFunctionNames"), "/toolConfig/functionCallingConfig"
    if isinstance(names, list) and names:
        if calling.get("mode") in (None, "AUTO", "NONE", "MODE_UNSPECIFIED"):
            message = "functions are allowed by name, and none must be called"
            yield Finding(OPTION, pointer, message, 'set tool_choice to {"name": ...}')
        known = {tool.name for tool in functions}
        yield from refuse_undeclared(names, known, f"{pointer}/allowedFunctionNames")
    if calling.get("mode") in ("ANY", "VALIDATED") and not functions:
        message = "a function must be called, and there are none"
        yield Finding(OPTION, pointer, message, "leave out tool_choice")


def _refuse_combinations(wire: JsonObject, config: JsonObject, model: str) -> Findings:
    """Functions, the provider's own tools, and answers in JSON do not go together everywhere."""
    tools = [tool for _, tool in placed_objects(wire.get("tools"), "/tools")]
    functions = any(tool.get("functionDeclarations") for tool in tools)
    own = sorted({key for tool in tools for key in tool if key not in _BESIDE})
    old = re.match(_OLD, model) is not None
    served = object_at(wire, "toolConfig").get("includeServerSideToolInvocations") is True
    if functions and own:
        if old:
            message = f"{model} takes no functions together with {own[0]}"
            yield Finding(REQUEST, "/tools", message, "leave out one of them, or use Gemini 3")
        elif not served and model.startswith("gemini-"):
            message = f"functions and {own[0]} stand together"
            hint = (
                'set extra={"gemini": {"toolConfig": {"includeServerSideToolInvocations": True}}}'
            )
            yield Finding(OPTION, "/toolConfig", message, hint)
    if old and tools and config.get("responseMimeType") == "application/json":
        message = f"{model} gives no JSON while it has tools"
        hint = "ask for the answer by a tool"
        yield Finding(OPTION, "/generationConfig/responseMimeType", message, hint)


def _refuse_schema(config: JsonObject) -> Findings:
    schemas = [key for key in ("responseSchema", "responseJsonSchema") if config.get(key)]
    if len(schemas) > 1:
        message = "the answer has two schemas"
        yield Finding(SCHEMA, f"/generationConfig/{schemas[0]}", message, "leave out one of them")
    kind = config.get("responseMimeType")
    if schemas and kind not in ("application/json", "text/x.enum"):
        hint = 'set responseMimeType to "application/json"'
        message = "the answer has a schema, and need not be JSON"
        yield Finding(OPTION, f"/generationConfig/{schemas[0]}", message, hint)


def _refuse_abilities(wire: JsonObject, config: JsonObject, model: str) -> Findings:
    """What only some models can do, and what the cached prefix holds already."""
    wanted = config.get("responseModalities")
    for mode in wanted if isinstance(wanted, list) else ():
        maker = _MAKES.get(str(mode).upper())
        if maker and model.startswith("gemini-") and not re.search(maker, model):
            message = f"{model} answers with no {str(mode).lower()}"
            yield Finding(OPTION, "/generationConfig/responseModalities", message, "ask for text")
    if not facts_for(model).tools:
        for key in ("systemInstruction", "tools"):
            if wire.get(key):
                yield Finding(REQUEST, f"/{key}", f"{model} takes no {key}", "leave it out")
    elif re.match(r"gemini-2\.\d-flash-image", model):
        if any(
            tool.get("functionDeclarations") for _, tool in placed_objects(wire.get("tools"), "")
        ):
            yield Finding(REQUEST, "/tools", f"{model} calls no functions", "use another model")
        if config.get("responseMimeType") == "application/json":
            pointer = "/generationConfig/responseMimeType"
            yield Finding(OPTION, pointer, f"{model} gives no JSON", "use another model")
    if wire.get("cachedContent"):
        for key in CACHED:
            if wire.get(key):
                message = f"`{key}` stands beside a cached prefix, which has its own"
                yield Finding(REQUEST, f"/{key}", message, "leave it out")


# --- refusing: the turns


_RESULT_MEDIA = re.compile(r"image/(png|jpe?g|webp)|application/pdf|text/plain")
"""What a function may show with its result."""

_PAIR = "answer every call in the very next turn"


_ROLES = ("user", "model", "function")


class GeminiTurnRules:
    """Unknown roles, empty turns, media it cannot read, calls without results or signatures.

    Neighbouring contents of one role are one turn, but no call may come after one without calls.
    What stands in the turn that is open is noted in fields and not in an object of its own: a long
    log has a hundred thousand turns.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._at = ""
        """Where the open turn begins."""
        self._side = ""
        """Whose it is; empty where none is open."""
        self._calls = 0
        self._results = 0
        self._first_unsigned = ""
        """Where its first call stands, if no signature stands at it or before it."""
        self._is_signed = False
        self._before = ""
        """Where the turn before it begins."""
        self._calls_before = 0
        self._unsigned: tuple[str, ...] = ()

    def fork(self) -> "GeminiTurnRules":
        """A copy to read on with."""
        copy = GeminiTurnRules(self._model)
        copy.__dict__.update(self.__dict__)
        return copy

    def read(self, turn: JsonObject, at: str) -> Iterable[Finding]:
        """One more content."""
        role = turn.get("role", "user")
        findings = [] if role in _ROLES else [no_role(role, at, "use user or model")]
        side = "model" if role == "model" else "user"
        if side != self._side:
            if self._side:
                findings += self._refuse_unpaired()
                self._close()
            self._at, self._side, self._calls, self._results = at, side, 0, 0
            self._first_unsigned, self._is_signed = "", False
        listed = turn.get("parts")
        if type(listed) is list and listed:
            for part in listed:
                if not (type(part) is dict and len(part) == 1 and "text" in part):
                    break
            else:  # plain texts are never refused, and an agent in a loop says hundreds in a turn
                return findings
        known = self._calls
        self._read_parts(listed, f"{at}/parts", findings)
        # calls in contents of their own are parallel ones
        if self._calls > known == 0 and at != self._at:
            message = "this call follows another turn of the model"
            hint = "let it follow what the user said, or what a tool returned"
            findings.append(Finding(REQUEST, at, message, hint))
        return findings

    def _read_parts(self, listed: Json, at: str, findings: list[Finding]) -> None:
        """Parts of the open turn; one signature holds for all that follows it in the answer."""
        parts = listed if isinstance(listed, list) else [listed]
        if not listed and not isinstance(listed, dict):
            findings.append(Finding(REQUEST, at, "this turn is empty", "say something"))
        for index, part in enumerate(parts):
            if not isinstance(part, dict) or ("text" in part and len(part) == 1):
                continue
            if not _is_bare(part):
                where = f"{at}/{index}" if parts is listed else at
                findings += _refuse_part(part, where, self._model)
                self._is_signed = self._is_signed or bool(part.get("thoughtSignature"))
            if "functionCall" in part and self._side == "model":
                if not self._calls and not self._is_signed:
                    self._first_unsigned = f"{at}/{index}" if parts is listed else at
                self._calls += 1
            self._results += "functionResponse" in part

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        if not self._side:
            yield Finding(REQUEST, "/contents", "there are no turns", "say something")
            return
        yield from self._refuse_unpaired()
        if _needs_signatures(self._model):
            last = self.fork()
            last._close()
            for at in last._unsigned:
                message = "this call has no signature, and the turn is not over"
                hint = "send it as it came, or with `skip_thought_signature_validator`"
                yield Finding(REQUEST, at, message, hint)

    def _close(self) -> None:
        """The open turn is over: the user's own words begin a new turn of signatures."""
        # signatures are asked for only since the user spoke last
        if self._side == "user" and not self._results:
            self._unsigned = ()
        elif self._side == "model" and self._first_unsigned:
            self._unsigned = (*self._unsigned, self._first_unsigned)
        self._before, self._calls_before = self._at, self._calls

    def _refuse_unpaired(self) -> Iterable[Finding]:
        """As many results as calls, in the turn that follows them."""
        calls, results = self._calls_before, self._results
        if calls == results and (self._before or not self._calls):
            return ()  # as nearly everywhere
        findings: list[Finding] = []
        if calls and calls != results:
            message = f"{calls} calls stand here, and {results} results follow"
            findings.append(Finding(REQUEST, self._before, message, _PAIR))
        if self._calls and not self._before:
            message = "a call stands at the beginning, and nobody asked for it"
            findings.append(Finding(REQUEST, self._at, message, "begin with a turn of the user"))
        if results and self._side == "user" and not calls:
            message = "results stand here that answer no call"
            findings.append(Finding(REQUEST, self._at, message, _PAIR))
        return findings


def _is_bare(part: JsonObject) -> bool:
    """Whether a part is just a call or a result without media, which nobody refuses."""
    if len(part) != 1:
        return False
    if "functionCall" in part:
        return True
    result = part.get("functionResponse")
    return isinstance(result, dict) and not result.get("parts")


@functools.lru_cache(maxsize=256)
def _needs_signatures(model: str) -> bool:
    """Whether the model refuses a call of the current turn without a signature."""
    return re.match(r"gemini-[3-9]", wire_name(model)) is not None


def _sign_first_call(parts: list[Json]) -> None:
    """Sign the first call of a turn in which nothing is signed, with the word for such calls."""
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or part.get("thoughtSignature"):
            return
        if "functionCall" in part:
            parts[index] = {**part, "thoughtSignature": FOREIGN_SIGNATURE}
            return


_BARE_RESULTS = re.compile(r"gemini-(1|2)(\.|-)")
"""Models that take no media in a function's result."""


def _takes_inside(media: MediaBlock, model: str) -> bool:
    """Whether media may stand in a function's result."""
    stored = (media.uri or "").startswith(SCHEME)  # then a text stands for it
    fits = _RESULT_MEDIA.match(mime_of(media)) is not None and not stored
    return fits and not _BARE_RESULTS.match(wire_name(model))


def _refuse_part(part: JsonObject, where: str, model: str) -> Findings:
    if not part:
        yield Finding(REQUEST, where, "this part is empty", "leave it out")
    for key in ("inlineData", "fileData"):
        kind = str(object_at(part, key).get("mimeType", "")).lower()
        if key in part and UNREAD.match(kind):
            yield unread_media(kind, f"{where}/{key}/mimeType", "gemini")
    place = f"{where}/functionResponse/parts"
    media_parts = placed_objects(object_at(part, "functionResponse").get("parts"), place)
    if media_parts and _BARE_RESULTS.match(model):
        message = f"{model} takes no media in a function's result"
        yield Finding(MEDIA, place, message, "send it in the user's turn that follows")
        return
    for at, media in media_parts:
        source = object_at(media, "inlineData") or object_at(media, "fileData")
        kind = str(source.get("mimeType", "")).lower()
        if kind and not _RESULT_MEDIA.match(kind):
            yield unread_media(kind, at, "a function's result")


def _require_one_thing(part: JsonObject, at: str) -> None:
    """Refuse a part that holds nothing, two things, or media without its data."""
    kinds = [kind for kind in part if kind in _PART_KINDS]
    if len(kinds) > 1:
        raise Misshapen(at, f"this part holds {' and '.join(kinds)}", "give each a part of its own")
    if "text" in part and not part["text"] and "thoughtSignature" not in part:
        raise Misshapen(at, "this part is empty", "leave it out")
    for kind, needed in (("inlineData", "data"), ("fileData", "fileUri")):
        if kind in part:
            require_text(require_object(part[kind], f"{at}/{kind}"), needed, f"{at}/{kind}")


_PART_KINDS = frozenset(
    ("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
     "codeExecutionResult")
)  # fmt: skip


def _outline_pair(part: JsonObject, kind: str, needed: str, turn_at: str, at: str) -> PairedPart:
    """A call or a result, with its name, and its id where it has one."""
    at = f"{at}/{kind}"
    pair = require_object(part[kind], turn_at + at)
    require_object(pair.get(needed, {}), f"{turn_at}{at}/{needed}")
    call_id = require_text(pair, "id", turn_at + at) if "id" in pair else ""
    return PairedPart(call_id, require_text(pair, "name", turn_at + at), at)


DIALECT = GeminiDialect()
