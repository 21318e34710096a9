"""What Gemini refuses of requests that are well formed: turns, pairs, signatures, tools, settings.

The messages are in the provider's manner, and name the place as it does.
"""

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tests.standins.gemini.errors import Refused, refused_field
from tests.standins.gemini.models import GeminiModel
from tests.standins.gemini.signatures import genuine
from tests.support.late import late

if TYPE_CHECKING:
    from google.genai import types

    from tests.standins.gemini.shapes import CacheRequest, GenerateRequest
else:
    types = late("google.genai.types")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_MOST_TOOLS = 512
_LONGEST_PARAMETER = 64
_MOST_STOPS = 5
_JSON = "application/json"
_DATA = (
    "text", "inline_data", "file_data", "function_call", "function_response", "executable_code",
    "code_execution_result", "tool_call", "tool_response",
)  # fmt: skip


def check_request(
    request: "GenerateRequest", model: GeminiModel, *, given: Container[bytes] = ()
) -> None:
    """Refuse what this model would refuse; `given` are signatures that a script brought along."""
    check_contents(request.contents or [], "contents")
    if request.system_instruction is not None:
        _check_system(request.system_instruction)
    if request.cached_content is not None:
        resent = (request.system_instruction, request.tools, request.tool_config)
        if any(field is not None for field in resent):
            raise Refused(
                "CachedContent can not be used with GenerateContent request setting"
                " system_instruction, tools or tool_config."
            )
    declared = check_tools(request.tools or [])
    _check_choice(request.tool_config, declared, cached=request.cached_content is not None)
    if request.generation_config is not None:
        _check_settings(request.generation_config, model)
        if declared and not model.schema_with_tools:
            mime_type = request.generation_config.response_mime_type
            if mime_type is not None and mime_type != "text/plain":
                raise Refused(
                    f"Function calling with a response mime type: '{mime_type}' is unsupported"
                )
    _check_signatures(request.contents or [], model, given)


def check_cached(request: "CacheRequest") -> None:
    """Refuse what cannot be kept as the beginning of a request."""
    if request.contents:
        _check_turns(request.contents, "contents", complete=False)
    if request.system_instruction is not None:
        _check_system(request.system_instruction)
    if request.ttl is not None and request.expire_time is not None:
        raise refused_field("expiration", "oneof field 'expiration' is already set.")
    _check_choice(request.tool_config, check_tools(request.tools or []), cached=False)


def check_contents(contents: "Sequence[types.Content]", place: str) -> None:
    """There is something to answer; roles are known; calls are answered where they stand."""
    if not contents:
        raise refused_field(place, f"* GenerateContentRequest.{place}: contents is not specified\n")
    _check_turns(contents, place, complete=True)


def _check_turns(contents: "Sequence[types.Content]", place: str, *, complete: bool) -> None:
    for index, content in enumerate(contents):
        at = f"{place}[{index}]"
        if (content.role or "user") not in ("user", "model"):
            raise refused_field(f"{at}.role", "Please use a valid role: user, model.")
        if index == 0 and content.role == "model":
            raise Refused("Please ensure that the first turn is of the user role.")
        if not content.parts:
            raise refused_field(
                f"{at}.parts", f"* GenerateContentRequest.{at}.parts: must not be empty.\n"
            )
        for number, part in enumerate(content.parts):
            _check_part(part, f"{at}.parts[{number}]")
    waiting: list[types.FunctionCall] = []
    for turn in _turns(contents):
        calls = [part.function_call for part in turn.parts if part.function_call is not None]
        results = [
            part.function_response for part in turn.parts if part.function_response is not None
        ]
        at = f"{place}[{turn.start}]"
        if calls and turn.role != "model":
            raise refused_field(at, "Please ensure that function calls are of the model role.")
        if results and turn.role != "user":
            raise refused_field(at, "Please ensure that function responses are of the user role.")
        _check_pairs(waiting, results, at)
        waiting = calls
    if waiting and complete:
        _check_pairs(waiting, [], f"{place}[{len(contents)}]")


class _Turn(NamedTuple):
    """Contents of one role in a row, which are read as one; `start` is the first of them."""

    role: str
    start: int
    parts: "list[types.Part]"


def _turns(contents: "Sequence[types.Content]") -> list[_Turn]:
    turns: list[_Turn] = []
    for index, content in enumerate(contents):
        role = content.role or "user"
        if not turns or turns[-1].role != role:
            turns.append(_Turn(role, index, []))
        turns[-1].parts.extend(content.parts or [])
    return turns


def _check_part(part: "types.Part", at: str) -> None:
    data = [name for name in _DATA if getattr(part, name) is not None]
    if len(data) > 1:
        raise refused_field(at, f"oneof field 'data' is already set. Cannot set '{data[1]}'")
    if not data and part.thought_signature is None:
        raise refused_field(
            at,
            f"* GenerateContentRequest.{at}.data: required oneof field 'data' must have one"
            " initialized field\n",
        )
    named = part.function_call or part.function_response
    if named is not None and not named.name:
        kind = data[0]
        raise refused_field(
            f"{at}.{kind}.name",
            f"* GenerateContentRequest.{at}.{kind}.name: Name cannot be empty.\n",
        )
    if part.function_response is not None and part.function_response.response is None:
        raise refused_field(
            f"{at}.function_response.response",
            f"* GenerateContentRequest.{at}.function_response.response: required field missing\n",
        )


def _check_pairs(
    calls: "Sequence[types.FunctionCall]", results: "Sequence[types.FunctionResponse]", at: str
) -> None:
    """Results stand in the turn after their calls, as many, in order, under the same names."""
    if not calls and results:
        raise refused_field(
            at,
            "Please ensure that function response turn comes immediately after a function call"
            " turn.",
        )
    if len(calls) != len(results):
        raise refused_field(
            at,
            "Please ensure that the number of function response parts is equal to the number of"
            f" function call parts of the function call turn: {len(calls)} calls,"
            f" {len(results)} responses.",
        )
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        if call.name != result.name or (call.id or "") != (result.id or ""):
            raise refused_field(
                at,
                f"Function response {number} is for `{_called(result)}`, and the call in its"
                f" place is `{_called(call)}`.",
            )


def _called(named: "types.FunctionCall | types.FunctionResponse") -> str:
    return f"{named.name}#{named.id}" if named.id else named.name or ""


def _check_system(content: "types.Content") -> None:
    if not content.parts or any(not part.text for part in content.parts):
        raise refused_field(
            "system_instruction", "Please provide text parts in the system instruction."
        )


def _check_signatures(
    contents: "Sequence[types.Content]", model: GeminiModel, given: Container[bytes]
) -> None:
    """Signatures are as given, with the parts they were given for; calls of the turn have one.

    The current turn begins with the last thing the user said.
    """
    turns = _turns(contents)
    said = [
        number
        for number, turn in enumerate(turns)
        if turn.role == "user" and any(part.function_response is None for part in turn.parts)
    ]
    for number, turn in enumerate(turns):
        current = number > (said[-1] if said else -1)
        first = True
        for at, part in enumerate(turn.parts):
            place = f"contents[{turn.start}].parts[{at}]"
            signature = part.thought_signature
            if signature is not None and signature not in given and not genuine(part):
                raise refused_field(f"{place}.thought_signature", "Corrupted thought signature.")
            if part.function_call is None:
                continue
            if first and signature is None and current and model.signs:
                raise refused_field(
                    place,
                    "Function call is missing a thought_signature in functionCall parts. This is"
                    " required for tools to work correctly. Function call"
                    f" `default_api:{part.function_call.name}`, position {turn.start + 1}.",
                )
            first = False


def check_tools(tools: "Sequence[types.Tool]") -> tuple[str, ...]:
    """The names of all functions, once every declaration is one."""
    names: list[str] = []
    for index, tool in enumerate(tools):
        at = f"tools[{index}]"
        declarations = tool.function_declarations or []
        if not tool.model_fields_set:
            raise refused_field(at, f"* GenerateContentRequest.{at}: required field is missing\n")
        if len(declarations) > _MOST_TOOLS:
            raise refused_field(
                f"{at}.function_declarations",
                f"At most {_MOST_TOOLS} function declarations can be specified.",
            )
        for number, declaration in enumerate(declarations):
            _check_declaration(declaration, f"{at}.function_declarations[{number}]")
            if declaration.name in names:
                raise refused_field(at, f"Duplicate function declaration found: {declaration.name}")
            names.append(declaration.name or "")
    return tuple(names)


def _check_declaration(declaration: "types.FunctionDeclaration", at: str) -> None:
    if not _NAME.fullmatch(declaration.name or ""):
        raise refused_field(
            f"{at}.name",
            f"* GenerateContentRequest.{at}.name: Invalid function name. Must start with a letter"
            " or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.),"
            " colons (:), or dashes (-), with a maximum length of 128.\n",
        )
    for one, other in (
        ("parameters", "parameters_json_schema"),
        ("response", "response_json_schema"),
    ):
        if getattr(declaration, one) is not None and getattr(declaration, other) is not None:
            raise refused_field(at, f"Only one of `{one}` and `{other}` can be set.")
    for name in _parameters(declaration):
        if len(name) > _LONGEST_PARAMETER:
            raise refused_field(
                f"{at}.parameters.properties", f"Property name `{name}` is longer than 64."
            )


def _parameters(declaration: "types.FunctionDeclaration") -> list[str]:
    if declaration.parameters is not None:
        return list(declaration.parameters.properties or {})
    schema: object = declaration.parameters_json_schema
    if not isinstance(schema, dict):
        return []
    properties: object = schema.get("properties")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return [str(name) for name in properties] if isinstance(properties, dict) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _check_choice(
    config: "types.ToolConfig | None", declared: Sequence[str], *, cached: bool
) -> None:
    calling = config.function_calling_config if config is not None else None
    if calling is None:
        return
    mode = calling.mode or types.FunctionCallingConfigMode.AUTO
    allowed = calling.allowed_function_names or []
    if allowed and mode != types.FunctionCallingConfigMode.ANY:
        raise refused_field(
            "tool_config.function_calling_config",
            "Function calling config is set without ANY mode while allowed_function_names is set.",
        )
    if mode == types.FunctionCallingConfigMode.ANY and not declared and not cached:
        raise refused_field(
            "tool_config.function_calling_config",
            "Function calling config is set without function_declarations.",
        )
    for name in allowed:
        if name not in declared and not cached:
            raise refused_field(
                "tool_config.function_calling_config.allowed_function_names",
                f"Allowed function name `{name}` is not a declared function.",
            )


def _check_settings(settings: "types.GenerationConfig", model: GeminiModel) -> None:
    place = "generation_config"
    if settings.response_schema is not None and settings.response_json_schema is not None:
        raise refused_field(
            place, "Only one of `response_schema` and `response_json_schema` can be set."
        )
    schema = settings.response_schema or settings.response_json_schema
    if schema is not None and settings.response_mime_type not in (_JSON, "text/x.enum"):
        raise refused_field(
            f"{place}.response_mime_type",
            "Controlled generation with a response schema needs response_mime_type"
            f" `{_JSON}` or `text/x.enum`.",
        )
    for name, least, most in (
        ("temperature", 0.0, 2.0),
        ("top_p", 0.0, 1.0),
        ("max_output_tokens", 1, model.output_limit + 1),
    ):
        value: float | None = getattr(settings, name)
        if value is not None and not least <= value <= most:
            raise refused_field(
                f"{place}.{name}",
                f"* GenerateContentRequest.{place}.{name}: {name} must be in the range"
                f" [{least:g}, {most:g}].\n",
            )
    if (settings.candidate_count or 1) > 1:
        raise refused_field(
            f"{place}.candidate_count", "Multiple candidates is not enabled for this model"
        )
    if len(settings.stop_sequences or []) > _MOST_STOPS:
        raise refused_field(
            f"{place}.stop_sequences", f"At most {_MOST_STOPS} stop sequences can be specified."
        )
    thinking = settings.thinking_config
    if thinking is not None and thinking.thinking_level is not None:
        if thinking.thinking_budget is not None:
            raise refused_field(
                f"{place}.thinking_config",
                "You can only set only one of thinking budget and thinking level.",
            )
        if not model.signs:
            raise refused_field(
                f"{place}.thinking_config", "Thinking level is not supported for this model."
            )
