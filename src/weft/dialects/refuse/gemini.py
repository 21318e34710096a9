"""What Gemini refuses in the head of a request: options, tools and schemas."""

import re
from typing import NamedTuple

from weft.dialects.facts import facts_for
from weft.dialects.gemini import CACHED
from weft.dialects.refuse.finding import (
    OPTION,
    REQUEST,
    SCHEMA,
    Finding,
    Findings,
    inner,
    no_effort,
    number,
    objects,
    out_of_range,
)
from weft.dialects.refuse.tools import Declared, bad_tools, undeclared
from weft.values import JsonObject

_RANGES = {
    "temperature": (0.0, 2.0),
    "topP": (0.0, 1.0),
    "presencePenalty": (-2.0, 2.0),
    "frequencyPenalty": (-2.0, 2.0),
    "candidateCount": (1.0, 8.0),
}
_NAME, _MOST_TOOLS, _MOST_STOPS = r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", 512, 5
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


def refused_head(wire: JsonObject, model: str) -> Findings:
    """Everything but the turns that the provider would answer with a 400."""
    config = inner(wire, "generationConfig")
    yield from out_of_range(config, "/generationConfig", _RANGES)
    yield from _limits(config, model)
    yield from _tools(wire, model)
    if not _paints(model):  # what these take beside a picture is their own, and documented nowhere
        yield from _thinking(inner(config, "thinkingConfig"), model)
        yield from _combined(wire, config, model)
    yield from _schema(config)
    yield from _abilities(wire, config, model)


def _paints(model: str) -> bool:
    """Whether the model is one that answers with images."""
    return "image" in model


def _limits(config: JsonObject, model: str) -> Findings:
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


def _thinking(thinking: JsonObject, model: str) -> Findings:
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
        yield from no_effort(level, f"{above}/thinkingLevel", model)
    limits = next((known for name, known in _BUDGETS if re.match(name, model)), None)
    if budget is None or limits is None or budget == -1:
        return
    if not (budget == 0 and limits.off) and not limits.least <= budget <= limits.most:
        message = f"{model} takes no thinking budget of {budget:g}"
        hint = f"give {limits.least} to {limits.most}"
        yield Finding(OPTION, f"{above}/thinkingBudget", message, hint)


def _tools(wire: JsonObject, model: str) -> Findings:
    functions: list[Declared] = []
    for at, tool in objects(wire.get("tools"), "/tools"):
        declared = objects(tool.get("functionDeclarations"), f"{at}/functionDeclarations")
        for where, function in declared:
            schema, typed = function.get("parametersJsonSchema"), function.get("parameters")
            if schema is not None and typed is not None:
                message = "`parameters` and `parametersJsonSchema` stand together"
                yield Finding(SCHEMA, where, message, "leave out one of them")
            name = str(function.get("name", ""))
            shown = schema if isinstance(schema, dict) and "type" in schema else typed
            functions.append(Declared(where, name, shown, where))
        if "googleSearchRetrieval" in tool and not model.startswith("gemini-1"):
            message = f"{model} searches by `googleSearch`"
            yield Finding(REQUEST, at, message, "use googleSearch")
    yield from bad_tools(functions, _NAME, _MOST_TOOLS)
    calling = inner(wire, "toolConfig", "functionCallingConfig")
    names, pointer = calling.get("allowedFunctionNames"), "/toolConfig/functionCallingConfig"
    if isinstance(names, list) and names:
        if calling.get("mode") in (None, "AUTO", "NONE", "MODE_UNSPECIFIED"):
            message = "functions are allowed by name, and none must be called"
            yield Finding(OPTION, pointer, message, 'set tool_choice to {"name": ...}')
        known = {tool.name for tool in functions}
        yield from undeclared(names, known, f"{pointer}/allowedFunctionNames")
    if calling.get("mode") in ("ANY", "VALIDATED") and not functions:
        message = "a function must be called, and there are none"
        yield Finding(OPTION, pointer, message, "leave out tool_choice")


def _combined(wire: JsonObject, config: JsonObject, model: str) -> Findings:
    """Functions, the provider's own tools, and answers in JSON do not go together everywhere."""
    tools = [tool for _, tool in objects(wire.get("tools"), "/tools")]
    functions = any(tool.get("functionDeclarations") for tool in tools)
    own = sorted({key for tool in tools for key in tool if key not in _BESIDE})
    old = re.match(_OLD, model) is not None
    served = inner(wire, "toolConfig").get("includeServerSideToolInvocations") is True
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


def _schema(config: JsonObject) -> Findings:
    held = [key for key in ("responseSchema", "responseJsonSchema") if config.get(key)]
    if len(held) > 1:
        message = "the answer has two schemas"
        yield Finding(SCHEMA, f"/generationConfig/{held[0]}", message, "leave out one of them")
    kind = config.get("responseMimeType")
    if held and kind not in ("application/json", "text/x.enum"):
        hint = 'set responseMimeType to "application/json"'
        message = "the answer has a schema, and need not be JSON"
        yield Finding(OPTION, f"/generationConfig/{held[0]}", message, hint)


def _abilities(wire: JsonObject, config: JsonObject, model: str) -> Findings:
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
        if any(tool.get("functionDeclarations") for _, tool in objects(wire.get("tools"), "")):
            yield Finding(REQUEST, "/tools", f"{model} calls no functions", "use another model")
        if config.get("responseMimeType") == "application/json":
            pointer = "/generationConfig/responseMimeType"
            yield Finding(OPTION, pointer, f"{model} gives no JSON", "use another model")
    if wire.get("cachedContent"):
        for key in CACHED:
            if wire.get(key):
                message = f"`{key}` stands beside a cached prefix, which has its own"
                yield Finding(REQUEST, f"/{key}", message, "leave it out")
