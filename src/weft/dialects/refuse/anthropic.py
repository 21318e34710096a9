"""What Anthropic refuses in the head of a request: options, tools, schemas."""

import re

from weft.dialects.facts import facts_for
from weft.dialects.refuse.finding import (
    OPTION,
    REQUEST,
    Finding,
    Findings,
    inner,
    no_effort,
    number,
    objects,
    out_of_range,
    unsupported,
)
from weft.dialects.refuse.strict import closed_and_plain, too_complex
from weft.dialects.refuse.tools import Declared, bad_tools, undeclared
from weft.values import JsonObject

_RANGES = {"temperature": (0.0, 1.0), "top_p": (0.0, 1.0)}
_SAMPLING = {"temperature": 1, "top_p": 1, "top_k": None}
_NAME = r"[a-zA-Z0-9_-]{1,128}"
_LEAST_BUDGET, _MOST_STRICT = 1024, 20

_BUDGETED = r"claude-(3-7|(opus|sonnet)-4(-[01])?(-2025\d+)?$|(opus|sonnet|haiku)-4-5)"
"""Models that think for as long as they are told, and not as long as they like."""
_ONE_OF_TWO = r"claude-(opus-4-1|[a-z]+-4-5)"
_RESTS_AT_HIGH = r"claude-opus-5($|-20)"
"""Models that do not try harder than `high` unless they think."""


def refused_head(wire: JsonObject, model: str) -> Findings:
    """Everything but the turns that the provider would answer with a 400."""
    yield from out_of_range(wire, "", _RANGES)
    yield from _sampling(wire, model)
    yield from _thinking(wire, model)
    yield from _effort(wire, model)
    yield from _limit(wire, model)
    yield from _tools(wire, model)
    yield from _format(wire, model)


def _sampling(wire: JsonObject, model: str) -> Findings:
    if not facts_for(model).sampling:
        yield from unsupported(wire, "", _SAMPLING, model)
    elif re.match(_ONE_OF_TWO, model) and {"temperature", "top_p"} <= wire.keys():
        message = f"{model} takes either `temperature` or `top_p`"
        yield Finding(OPTION, "/top_p", message, "leave out one of them")
    stops = wire.get("stop_sequences")
    for at, stop in enumerate(stops if isinstance(stops, list) else ()):
        if isinstance(stop, str) and not stop.strip():
            message = "a stop sequence is blank"
            yield Finding(OPTION, f"/stop_sequences/{at}", message, "give it a letter")


def _thinking(wire: JsonObject, model: str) -> Findings:
    thinking, facts = inner(wire, "thinking"), facts_for(model)
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
    yield from unsupported(wire, "", {"temperature": 1, "top_k": None}, "a thinking model")
    share = number(wire.get("top_p"))
    if share is not None and share < 0.95:
        yield Finding(OPTION, "/top_p", "`top_p` is below 0.95 while thinking", "leave it out")
    if inner(wire, "tool_choice").get("type") in ("any", "tool"):
        message = "a tool call cannot be forced while thinking"
        yield Finding(OPTION, "/tool_choice", message, 'set tool_choice to "auto"')


def _effort(wire: JsonObject, model: str) -> Findings:
    effort = inner(wire, "output_config").get("effort")
    yield from no_effort(effort, "/output_config/effort", model)
    idle = inner(wire, "thinking").get("type") == "disabled"
    if idle and effort in ("xhigh", "max") and re.match(_RESTS_AT_HIGH, model):
        message = f"{model} has no effort `{effort}` without thinking"
        yield Finding(OPTION, "/output_config/effort", message, 'use "high", or let it think')


def _limit(wire: JsonObject, model: str) -> Findings:
    limit = number(wire.get("max_tokens"))
    most = facts_for(model).output_limit
    if limit is not None and most and limit > most:
        message = f"an answer of {limit:g} tokens is more than {model} gives"
        yield Finding(OPTION, "/max_tokens", message, f"give {most} or less")
    if limit is not None and limit < 0:
        yield Finding(OPTION, "/max_tokens", f"max_tokens is {limit:g}", "give 1 or more")


def _tools(wire: JsonObject, model: str) -> Findings:
    listed = objects(wire.get("tools"), "/tools")
    functions = [
        Declared(at, str(tool.get("name", "")), tool.get("input_schema"), f"{at}/input_schema")
        for at, tool in listed
        if tool.get("type", "custom") == "custom"
    ]
    yield from bad_tools(functions, _NAME)
    strict = [
        (at, tool)
        for at, tool in listed
        if tool.get("strict") is True and not tool.get("defer_loading")
    ]
    if len(strict) > _MOST_STRICT:
        message = f"{len(strict)} tools are strict, and {_MOST_STRICT} may be"
        yield Finding(REQUEST, "/tools", message, "let some be without strict")
    schemas = [(f"{at}/input_schema", tool.get("input_schema")) for at, tool in strict]
    for at, schema in schemas:
        yield from closed_and_plain(schema, at)
    yield from too_complex([schema for _, schema in schemas], "/tools")
    for at, tool in listed:
        if tool.get("defer_loading") is True and tool.get("cache_control") is not None:
            message = "a tool that is loaded later cannot be marked for the cache"
            yield Finding(REQUEST, f"{at}/cache_control", message, "mark another one")
    choice = inner(wire, "tool_choice")
    if choice and not listed:
        message = "a tool must be chosen, and there are none"
        yield Finding(OPTION, "/tool_choice", message, "leave out tool_choice")
    if choice.get("type") in ("any", "tool") and not facts_for(model).forced_choice:
        message = f"{model} cannot be made to call a tool"
        yield Finding(OPTION, "/tool_choice", message, 'set tool_choice to "auto"')
    if choice.get("type") == "tool":
        names = {str(tool.get("name")) for _, tool in listed}
        yield from undeclared([choice.get("name")], names, "/tool_choice/name")


def _format(wire: JsonObject, model: str) -> Findings:
    form = inner(wire, "output_config", "format")
    if not form:
        return
    if not facts_for(model).native_schema:
        message = f"{model} cannot be held to a schema"
        yield Finding(OPTION, "/output_config/format", message, "ask for the answer by a tool")
    yield from closed_and_plain(form.get("schema"), "/output_config/format/schema")
