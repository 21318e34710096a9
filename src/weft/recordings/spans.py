"""Calls of models in traces: OpenTelemetry's spans and what platforms export of them.

GenAI attributes and events, OpenInference, LangSmith, Logfire, MLflow and openai-agents. Each has
its own names for the same things. A span in which a model was asked becomes a row of what was
asked, what was answered and what was counted, and `traces.py` reads that. Other spans are named.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import NamedTuple, cast

import msgspec

from weft.dialects.wire import object_in, objects_in, text_at
from weft.recordings.recording import is_count, seconds
from weft.values import Json, JsonObject, compact


class Span(NamedTuple):
    """A span of any exporter: names, times and attributes, each under its full name."""

    id: str
    parent: str
    trace: str
    name: str
    start: float | None
    end: float | None
    attributes: JsonObject
    events: tuple[JsonObject, ...] = ()
    error: str = ""


# --- the containers that exporters write


def is_spans(raw: JsonObject) -> bool:
    """Whether an object is a span, or holds spans."""
    return _is_span(raw) or any(True for _ in _containers(raw))


def _containers(raw: JsonObject) -> Iterator[list[JsonObject]]:
    """The lists of spans in an object: OTLP, MLflow, and traces with spans inside."""
    for name in ("resourceSpans", "resource_spans"):
        for resource in objects_in(raw.get(name)):
            scopes = resource.get("scopeSpans", resource.get("scope_spans"))
            for scope in objects_in(scopes):
                yield objects_in(scope.get("spans"))
    data = object_in(raw.get("data"))
    for holder in (raw, data):
        listed = objects_in(holder.get("spans"))
        if listed and all(map(_is_span, listed)):
            yield listed


def list_raw_spans(raw: JsonObject) -> Iterator[JsonObject]:
    """The spans in an object as the exporter wrote them."""
    for listed in [[raw]] if _is_span(raw) else _containers(raw):
        yield from listed


def list_records(raw: JsonObject) -> Iterator[JsonObject]:
    """The records in OTLP's logs: events that are sent without the span that they belong to."""
    for resource in objects_in(raw.get("resourceLogs")):
        for scope in objects_in(resource.get("scopeLogs")):
            yield from objects_in(scope.get("logRecords"))


_OPENINFERENCE_KINDS = (
    "LLM", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EMBEDDING", "RERANKER", "GUARDRAIL", "EVALUATOR",
    "PROMPT",
)  # fmt: skip


def _is_attributes(raw: JsonObject) -> bool:
    """Whether an object is the attributes of a span, by themselves."""
    return any(key.startswith(_ATTRIBUTES) and "." in key for key in raw)


_ATTRIBUTES = ("gen_ai.", "openinference.span.", "llm.input_messages.", "llm.model_name")


def _is_span(raw: JsonObject) -> bool:
    if _is_attributes(raw):
        return True
    if raw.get("object") == "trace.span" and isinstance(raw.get("span_data"), dict):
        return True
    if "run_type" in raw and "inputs" in raw:
        return True
    if isinstance(raw.get("op_name"), str) and isinstance(raw.get("inputs"), dict):
        return True
    has_id = any(key in raw for key in ("spanId", "span_id", "context", "spanContext"))
    attributes = raw.get("attributes", raw.get("span_attributes"))
    return has_id and isinstance(parse_value(attributes), dict | list)


def list_spans(raw: JsonObject) -> list[Span]:
    """All spans in an object, those inside of others too, in the order in which they began.

    Exporters write a span when it ends, and some arrive late.
    """
    spans = [span for one in list_raw_spans(raw) for span in _spans_below(one)]
    if all(span.start is not None for span in spans):
        spans.sort(key=lambda span: span.start or 0.0)
    return spans


def _spans_below(raw: JsonObject) -> Iterator[Span]:
    yield _read_span(raw)
    for key in ("child_spans", "child_runs"):
        for child in objects_in(raw.get(key)):
            yield from _spans_below(child)


def _first(raw: Mapping[str, Json], *names: str) -> Json:
    return next((raw[name] for name in names if raw.get(name) not in (None, "")), None)


def _read_span(raw: JsonObject) -> Span:
    # OpenTelemetry's JavaScript keeps the ids apart, in a spelling of its own
    own = object_in(raw.get("spanContext"))
    context = object_in(raw.get("context")) or {
        "span_id": own.get("spanId"), "trace_id": own.get("traceId")
    }  # fmt: skip
    around = object_in(raw.get("parentSpanContext")).get("spanId")
    attributes = read_attributes(parse_value(_first(raw, "attributes", "span_attributes")))
    kind = raw.get("span_kind")
    if isinstance(kind, str) and kind.upper() in _OPENINFERENCE_KINDS:
        attributes.setdefault("openinference.span.kind", kind)  # Phoenix keeps it apart
    if isinstance(raw.get("span_data"), dict):
        attributes = {"openai.span": raw["span_data"]}
    elif _is_attributes(raw):
        attributes = read_attributes(raw)
    elif "run_type" in raw:
        keys = ("run_type", "inputs", "outputs", "extra", "total_cost")
        attributes = {f"langsmith.{name}": parse_value(raw.get(name)) for name in keys}
    elif "op_name" in raw:
        names = ("op_name", "inputs", "output", "summary")
        attributes = {f"weave.{name}": parse_value(raw.get(name)) for name in names}
    elif "root_span_id" in raw and isinstance(raw.get("span_attributes"), dict):
        fields = ("input", "output", "metadata", "metrics", "span_attributes")
        attributes = {f"braintrust.{name}": parse_value(raw.get(name)) for name in fields}
    clock = object_in(parse_value(raw.get("metrics")))  # where Braintrust has both times
    start = _moment(clock.get("start")) or _moment(
        _first(raw, "startTimeUnixNano", "start_time_unix_nano", "start_time", "start_timestamp",
               "startTime", "started_at", "timestamp", "created")
    )  # fmt: skip
    end = _moment(clock.get("end")) or _moment(
        _first(raw, "endTimeUnixNano", "end_time_unix_nano", "end_time", "end_timestamp",
               "endTime", "ended_at")
    )  # fmt: skip
    if end is None and start is not None:
        end = _after(start, raw.get("duration"))
    status = raw.get("status")
    failure = _first(raw, "error", "status_message", "exception_message")
    code = str(object_in(status).get("code", "")).upper()
    if code in ("2", "ERROR", "STATUS_CODE_ERROR"):
        failure = object_in(status).get("message") or "error"
    events: list[JsonObject] = [
        {**one, "attributes": read_attributes(one.get("attributes"))}
        for one in objects_in(raw.get("events"))
    ]
    return Span(
        id=str(_first(raw, "spanId", "span_id", "id") or context.get("span_id") or ""),
        parent=str(
            _first(raw, "parentSpanId", "parent_span_id", "parent_id", "parent_run_id")
            or around
            or ""
        ),
        trace=str(_first(raw, "traceId", "trace_id") or context.get("trace_id") or ""),
        name=str(_first(raw, "name", "span_name") or ""),
        start=start,
        end=end,
        attributes=attributes,
        events=tuple(events),
        error=failure if isinstance(failure, str) else compact(failure) if failure else "",
    )


def _moment(value: Json) -> float | None:
    """A time in seconds, whatever unit an exporter counts in."""
    if isinstance(value, str) and is_count(value):
        value = int(value)
    if isinstance(value, list) and len(value) == 2:  # seconds, and the nanoseconds after them
        whole, rest = value
        return whole + rest / 1e9 if isinstance(whole, int) and isinstance(rest, int) else None
    time = seconds(value)
    while time is not None and time > 1e11:  # milli-, micro- or nanoseconds
        time /= 1000
    return time


def _after(start: float, duration: Json) -> float | None:
    if isinstance(duration, int | float):
        return start + duration
    match = re.fullmatch(
        r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?", duration if isinstance(duration, str) else ""
    )
    if match is None:
        return None
    hours, minutes, rest = (float(one or 0) for one in match.groups())
    return start + hours * 3600 + minutes * 60 + rest


def read_attributes(raw: Json) -> JsonObject:
    """Attributes by name: as an object, nested or flat, or as OTLP's list of keys and values."""
    if isinstance(raw, list):
        return {
            text_at(one, "key"): _otlp_value(object_in(one.get("value"))) for one in objects_in(raw)
        }
    flat: JsonObject = {}
    _flatten(object_in(raw), "", flat)
    return flat


def _flatten(value: JsonObject, prefix: str, into: JsonObject) -> None:
    for key, one in value.items():
        name = f"{prefix}{key}"
        if isinstance(one, dict) and (name in _NAMESPACES or prefix.startswith(_NUMBERED)):
            _flatten(one, f"{name}.", into)
        elif isinstance(one, list) and f"{name}.".startswith(_NUMBERED) and objects_in(one):
            for at, each in enumerate(objects_in(one)):
                _flatten(each, f"{name}.{at}.", into)
        else:
            into[name] = one


_NAMESPACES = frozenset(
    ("gen_ai", "gen_ai.request", "gen_ai.response", "gen_ai.usage", "llm", "llm.token_count",
     "openinference", "openinference.span", "input", "output", "gen_ai.tool", "gen_ai.operation",
     "llm.token_count.prompt_details", "llm.token_count.completion_details")
)  # fmt: skip
"""Attributes that some exporters nest."""

_NUMBERED = ("llm.input_messages.", "llm.output_messages.", "llm.tools.")
"""Attributes that hold lists, which some exporters do not take apart."""


def _otlp_value(value: JsonObject) -> Json:
    """A value of OTLP's JSON, which says its type."""
    for key, one in value.items():
        if key in ("arrayValue", "array_value"):
            return [_otlp_value(each) for each in objects_in(object_in(one).get("values"))]
        if key in ("kvlistValue", "kvlist_value"):
            listed = objects_in(object_in(one).get("values"))
            return {text_at(each, "key"): _otlp_value(object_in(each.get("value")))
                    for each in listed}  # fmt: skip
        if key in ("intValue", "int_value"):
            return int(one) if isinstance(one, str) and is_count(one.removeprefix("-")) else one
        return one
    return None


def expand_span(span: Span) -> JsonObject:
    """What was said in a span, with the attributes that are messages as objects and lists.

    It is counted, and held against what was read.
    """
    events: list[Json] = []
    for one in span.events:
        name = text_at(one, "name")
        fields = {
            key: parse_value(value) for key, value in object_in(one.get("attributes")).items()
        }
        if name.startswith("gen_ai.") and name.endswith(".message"):
            fields["role"] = name.split(".")[1]
        events.append(fields)
    whole: JsonObject = {"events": events}
    for name, value in span.attributes.items():
        if name.startswith(_SAID):
            _put(whole, name.split("."), parse_text(value))
    return whole


_SAID = (
    "llm.input_messages", "llm.output_messages", "gen_ai.input.messages", "gen_ai.output.messages",
    "gen_ai.prompt", "gen_ai.completion", "langsmith.inputs", "langsmith.outputs",
    "mlflow.spanInputs", "mlflow.spanOutputs", "openai.span", "events", "all_messages_events",
    "request_data", "response_data", "ai.prompt.messages", "ai.response.toolCalls",
    "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response", "weave.inputs",
    "weave.output", "braintrust.input", "braintrust.output",
)  # fmt: skip
"""How the names begin of attributes that hold what was said."""


def _put(into: JsonObject, path: list[str], value: Json) -> None:
    key, *rest = path
    if not rest:
        into[key] = value
        return
    below = into.setdefault(key, {})
    if isinstance(below, dict):
        _put(below, rest, value)


# --- rows of what was asked and answered


class Flavour(NamedTuple):
    """How one kind of traces names what a model was asked and what it answered."""

    name: str
    kind: Callable[[Span], str]
    """`model`, `tool`, or what else the span is; empty where it is not of this kind."""
    row: Callable[[Span], JsonObject]
    """Messages, tools, options, model, answers and usage of a span in which a model was asked."""
    about: str


def kind_of_span(span: Span) -> str:
    """`model`, `tool`, or what else a span is to an agent; empty where it is nothing to one."""
    return next((kind for flavour in FLAVOURS if (kind := flavour.kind(span))), "")


_CONVERSATIONS = (
    "gen_ai.conversation.id", "session.id", "langfuse.session.id", "gcp.vertex.agent.session_id",
    "traceloop.association.properties.session_id", "langsmith.metadata.thread_id",
)  # fmt: skip


def conversation_of(span: Span) -> str:
    """The conversation that a span says it belongs to."""
    return _text_of(_first(span.attributes, *_CONVERSATIONS))


def agent_of_span(span: Span) -> str:
    """The agent that a span names, as a name that agents of ours may have; empty for none."""
    own = object_in(span.attributes.get("openai.span"))
    named = _first(span.attributes, "gen_ai.agent.name", "agent.name")
    if not named and own.get("type") == "agent":
        named = own.get("name")
    if not named and text_at(span.attributes, "openinference.span.kind").upper() == "AGENT":
        named = span.name
    return _spell_agent(_text_of(named))


class GraphSpan(NamedTuple):
    """A span of LangGraph: the graph it is, or the node in one."""

    node: str
    """The name of the node, if it is one."""
    agent: str
    """What the graph is called, as a name that agents of ours may have; empty for none."""


def graph_of_span(span: Span) -> GraphSpan | None:
    """What a span of LangGraph is; None for any other.

    Its exporter calls a node that asks a model an agent, and the name of the agent is the graph's.
    """
    metadata = object_in(parse_value(span.attributes.get("metadata")))
    if not str(metadata.get("ls_integration", "")).startswith("langgraph"):
        return None
    node = text_at(metadata, "langgraph_node")
    is_named = span.name not in ("", "LangGraph")
    return GraphSpan(node if node == span.name else "", _spell_agent(span.name) if is_named else "")


def _spell_agent(text: str) -> str:
    """A name as agents of ours may have it."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:64]
    return f"{name}_agent" if name == "user" or name[:1].isdigit() else name


def beginning_of_span(span: Span) -> str:
    """A hash of the first words of the user, by which two traces of one talk are found."""
    kind, row = row_of_span(span)[1:]
    messages = objects_in(object_in(row.get("input")).get("messages")) if kind == "model" else ()
    first = next((one for one in messages if one.get("role") in ("user", "human")), None)
    if first is None:
        return ""
    return blake2b(compact(first).encode("utf-8", "replace"), digest_size=16).hexdigest()


def row_of_span(span: Span) -> tuple[str, str, JsonObject]:
    """Whose span it is, what kind, and as a row what was asked and answered in it."""
    for flavour in FLAVOURS:
        kind = flavour.kind(span)
        if not kind:
            continue
        if kind != "model":
            return flavour.name, kind, {"name": _tool_name(span)}
        row: JsonObject = {
            "id": span.id, "traceId": span.trace, "parent": span.parent, "name": span.name,
            "startTime": _iso(span.start), "endTime": _iso(span.end), "error": span.error,
            "agent": agent_of_span(span), "cost": _cost_of(span.attributes),
        }  # fmt: skip
        return flavour.name, kind, {**row, **flavour.row(span)}
    return "", "span", {"name": span.name}


_COSTS = (
    "gen_ai.usage.cost", "gen_ai.usage.total_cost", "llm.cost.total", "operation.cost",
    "langsmith.total_cost",
)  # fmt: skip
"""Attributes that state what a call cost, in US dollars: of OpenLIT, OpenInference and Logfire."""

_COST_PARTS = ("llm.cost.prompt", "llm.cost.completion")

_COST_TABLES = ("langfuse.observation.cost_details", "mlflow.llm.cost")
"""Attributes that hold the costs of a call by kind, as JSON."""


def _cost_of(attributes: JsonObject) -> float | None:
    """What a span says its call cost, in US dollars; None where it says nothing."""
    tables = [object_in(parse_value(attributes.get(name))) for name in _COST_TABLES]
    listed = [attributes.get(name) for name in _COSTS]
    listed += [_first(table, "total", "total_cost") for table in tables]
    stated = next((cost for one in listed if (cost := _dollars(one)) is not None), None)
    if stated is not None:
        return stated
    parts = [_dollars(attributes.get(name)) for name in _COST_PARTS]
    parts += [_dollars(cost) for table in tables for cost in table.values()]
    known = [one for one in parts if one is not None]
    return sum(known) if known else None


def _dollars(value: Json) -> float | None:
    """An amount; some exporters write numbers as texts."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < math.inf else None


NOT_CAPTURED = (
    "its exporter left out what was said; most take it along with"
    " OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"
)
"""Why a call of a model cannot be shown."""


def has_words(row: JsonObject) -> bool:
    """Whether a row says what was asked or answered: exporters leave it out by default.

    Some write the author's instructions all the same.
    """
    asked = object_in(row.get("input"))
    messages = asked.get("messages")
    says = messages if isinstance(messages, list) else [messages]
    words = [one for one in says if object_in(one).get("role") not in ("system", "developer")]
    return bool((messages and words) or asked.get("contents") or asked.get("input")
                or row.get("output"))  # fmt: skip


def _tool_name(span: Span) -> str:
    named = _first(span.attributes, "gen_ai.tool.name", "tool.name", "logfire.tool_name")
    own = object_in(span.attributes.get("openai.span")).get("name")
    return str(named or own or span.name.removeprefix("execute_tool "))


def _iso(time: float | None) -> str | None:
    return None if time is None else datetime.fromtimestamp(time, UTC).isoformat()


def parse_value(value: Json) -> Json:
    """The JSON that a text is, where it is one."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return cast("Json", msgspec.json.decode(value))
    except (ValueError, RecursionError):
        return value


def _row(
    messages: Iterable[Json],
    answers: Iterable[Json],
    *,
    tools: Json = None,
    model: Json = None,
    options: Json = None,
    usage: Json = None,
) -> JsonObject:
    asked: JsonObject = {"messages": [*messages]}
    if isinstance(tools, list) and tools:
        asked["tools"] = [*map(_tool, objects_in(tools))]
    return {
        "input": asked,
        "output": [*answers],
        "model": model,
        "modelParameters": options if isinstance(options, dict) else {},
        "usageDetails": usage,
    }


def _tool(tool: JsonObject) -> JsonObject:
    """A tool as chat requests declare it; others name its schema otherwise."""
    if "function" in tool:
        return tool
    schema = _first(tool, "parameters", "input_schema", "inputSchema", "json_schema")
    return {
        "type": "function",
        "function": {
            "name": tool.get("name"),
            "description": tool.get("description") or "",
            "parameters": parse_value(schema) or {"type": "object", "properties": {}},
        },
    }


_OWN_FIELDS = frozenset(("contents", "input", "system", "instructions", "max_tokens"))
"""Fields of a request that only a provider's own has, next to its messages."""


def _row_of_call(inputs: JsonObject, outputs: Json, *, model: Json, usage: Json) -> JsonObject:
    """A call whose request and answer a platform keeps as the provider took and sent them."""
    return {
        "input": inputs,
        "output": outputs,
        "model": model or inputs.get("model"),
        "usageDetails": usage,
    }


# --- OpenInference


def _openinference_kind(span: Span) -> str:
    kind = text_at(span.attributes, "openinference.span.kind").upper()
    return {"LLM": "model", "TOOL": "tool"}.get(kind, kind.lower())


def _openinference_row(span: Span) -> JsonObject:
    attributes = span.attributes
    asked = _list_numbered(attributes, "llm.input_messages.", "message.")
    whole = object_in(parse_value(attributes.get("input.value")))
    listed = whole.get("messages")
    messages = [*map(_openinference_message, asked)]
    # an exporter cuts a span after some attributes: the request itself may have more
    if isinstance(listed, list) and len(listed) > len(messages):
        messages = [_plain_message(one) for one in objects_in(listed)]
    answered = [
        _openinference_message(one)
        for one in _list_numbered(attributes, "llm.output_messages.", "message.")
    ]
    if not answered and attributes.get("output.value"):
        answer = parse_value(attributes["output.value"])
        answered = [
            _plain_message(answer) if isinstance(answer, dict) and "role" in answer
            else {"role": "assistant", "content": attributes["output.value"]}
        ]  # fmt: skip
    _add_ids([*messages, *answered], attributes.get("output.value"))
    numbers = [*_numbers(attributes, "llm.input_messages.")]
    cut = max(numbers, default=-1) + 1 - len(messages)
    tools = [
        object_in(parse_value(one.get("json_schema")))
        for one in _list_numbered(attributes, "llm.tools.", "tool.")
    ]
    counts = {
        key.removeprefix("llm.token_count."): value
        for key, value in attributes.items()
        if key.startswith("llm.token_count.")
    }
    usage: JsonObject = {
        "input": _integer(counts.get("prompt")),
        "output": _integer(counts.get("completion")),
        "cached": _integer(counts.get("prompt_details.cache_read")),
    }
    row = _row(
        messages,
        answered,
        tools=[*tools],
        model=attributes.get("llm.model_name"),
        options=parse_value(attributes.get("llm.invocation_parameters")),
        usage={key: value for key, value in usage.items() if value is not None},
    )
    return {**row, "cut": max(0, cut)}


def _add_ids(messages: Sequence[JsonObject], answer: Json) -> None:
    """Name the calls whose ids were left out: as the results do, or the answer as it came.

    A call that nothing names has its number.
    """
    waiting: list[JsonObject] = []
    for message in messages:
        if message.get("role") == "tool":
            call = next((one for one in waiting if not one.get("id")), None)
            if call is not None and not any(
                one.get("id") == message.get("tool_call_id") for one in waiting
            ):
                call["id"] = message.get("tool_call_id")
        else:
            waiting = objects_in(message.get("tool_calls"))
    came = [*_list_calls(parse_value(answer))] if any(not one.get("id") for one in waiting) else []
    for at, call in enumerate(waiting):
        name = object_in(call.get("function")).get("name")
        if not call.get("id") and at < len(came) and came[at][0] == name:
            call["id"] = came[at][1]
    for message in messages:
        for at, call in enumerate(objects_in(message.get("tool_calls"))):
            call["id"] = call.get("id") or f"call_{at}"


def _list_calls(value: Json) -> Iterator[tuple[Json, Json]]:
    """The names and the ids of the calls in an answer, wherever they stand; of two copies, one."""
    if isinstance(value, list):
        for one in value:
            yield from _list_calls(one)
    elif isinstance(value, dict):
        calls = objects_in(value.get("tool_calls"))
        for call in calls:
            name = call.get("name") or object_in(call.get("function")).get("name")
            if call.get("id"):
                yield name, call["id"]
        for one in () if calls else value.values():
            yield from _list_calls(one)


def _integer(value: Json) -> Json:
    return int(value) if isinstance(value, str) and is_count(value) else value


def _list_numbered(attributes: JsonObject, prefix: str, inner: str) -> list[JsonObject]:
    """Attributes such as `prefix.3.inner.role` as a list of objects, in order."""
    listed: dict[int, JsonObject] = {number: {} for number in _numbers(attributes, prefix)}
    for key, value in attributes.items():
        number, _, rest = key.removeprefix(prefix).partition(".")
        if key.startswith(prefix) and is_count(number):
            listed[int(number)][rest.removeprefix(inner)] = value
    return [listed[number] for number in sorted(listed)]


def _numbers(attributes: JsonObject, prefix: str) -> Iterator[int]:
    for key in attributes:
        number = key.removeprefix(prefix).partition(".")[0] if key.startswith(prefix) else ""
        if is_count(number):
            yield int(number)


def _openinference_message(fields: JsonObject) -> JsonObject:
    message: JsonObject = {"role": _role(text_at(fields, "role") or "user")}
    contents = _list_numbered(fields, "contents.", "message_content.")
    pieces: list[Json] = []
    for one in contents:
        url = one.get("image.image.url")
        if url:
            pieces.append({"type": "image_url", "image_url": {"url": url}})
        elif one.get("text"):
            pieces.append({"type": "text", "text": one["text"]})
    message["content"] = pieces or fields.get("content") or ""
    calls = _list_numbered(fields, "tool_calls.", "tool_call.")
    if calls:
        message["tool_calls"] = [
            {
                "id": call.get("id"),
                "type": "function",
                "function": {
                    "name": call.get("function.name"),
                    "arguments": call.get("function.arguments") or "{}",
                },
            }
            for call in calls
        ]
    if fields.get("tool_call_id"):
        message |= {"role": "tool", "tool_call_id": fields["tool_call_id"]}
    return message


def _plain_message(message: JsonObject) -> JsonObject:
    """A message of a library's own as one of a chat."""
    fields = {key: message[key] for key in ("role", "content", "tool_calls", "tool_call_id", "name")
            if message.get(key) is not None}  # fmt: skip
    return {**fields, "role": _role(text_at(message, "role"))}


def _role(role: str) -> str:
    """A role as it is sent; some programs have roles of their own."""
    return {"tool-call": "assistant", "tool-response": "user"}.get(role, role)


# --- GenAI: attributes of today, events of yesterday


def _gen_ai_kind(span: Span) -> str:
    attributes = span.attributes
    operation = text_at(attributes, "gen_ai.operation.name")
    if operation in ("execute_tool",) or text_at(attributes, "gen_ai.tool.name"):
        return "tool"
    if operation in ("chat", "text_completion", "generate_content", "completion"):
        return "model"
    if "request_data" in attributes or _ADK_REQUEST in attributes:
        return "model"
    if not any(key.startswith("gen_ai.") for key in attributes):
        return ""
    asked = any(key in attributes for key in ("gen_ai.input.messages", "gen_ai.prompt.0.role"))
    return "model" if asked and operation in ("", "call_llm") else operation or "span"


_ADK_REQUEST = "gcp.vertex.agent.llm_request"
"""Where google-adk's own spans have the request of a model; the answer is next to it."""


def _adk_row(attributes: JsonObject, usage: JsonObject) -> JsonObject | None:
    """A call in a span of google-adk's own; None where it left out what was said."""
    asked = object_in(parse_value(attributes.get(_ADK_REQUEST)))
    body = adk_body(asked)
    if body is None:
        return None
    answer = parse_value(attributes.get("gcp.vertex.agent.llm_response"))
    return _row_of_call(body, answer, model=asked.get("model"), usage=usage)


def adk_body(asked: JsonObject) -> JsonObject | None:
    """A request as google-adk notes it, as the provider takes it; None where it has no contents."""
    if not asked.get("contents"):
        return None
    config = {**object_in(asked.get("config"))}
    body: JsonObject = {"model": asked.get("model"), "contents": asked["contents"]}
    instruction = config.pop("system_instruction", config.pop("systemInstruction", None))
    if isinstance(instruction, str) and instruction:
        part: JsonObject = {"text": instruction}
        parts: list[Json] = [part]
        instruction = cast("JsonObject", {"parts": parts})
    tools = config.pop("tools", None)
    for name in ("http_options", "httpOptions", "labels"):  # no part of the request's body
        config.pop(name, None)
    body["systemInstruction"] = instruction
    body["tools"] = tools
    body["generationConfig"] = cast("Json", config)
    return {key: value for key, value in body.items() if value}


def _logfire_row(attributes: JsonObject, usage: JsonObject) -> JsonObject | None:
    """A call in a span of Logfire's that keeps the request; None for one with messages apart."""
    asked = object_in(parse_value(attributes.get("request_data")))
    if not asked.keys() & {"messages", "contents", "input"}:
        return None
    answer = object_in(parse_value(attributes.get("response_data")))
    usage = usage or object_in(answer.get("usage"))
    message: JsonObject = object_in(answer.get("message"))
    if asked.keys() & _OWN_FIELDS:
        return _row_of_call(asked, message or answer, model=asked.get("model"), usage=usage)
    known = ("messages", "tools", "model")
    listed = asked.get("messages")
    streamed = text_at(answer, "combined_chunk_content")
    if streamed:  # a stream
        message = cast("JsonObject", {"role": "assistant", "content": streamed})
    return _row(
        listed if isinstance(listed, list) else [],
        list[Json]([message] if message else []),
        tools=asked.get("tools"),
        model=asked.get("model"),
        options={key: value for key, value in asked.items() if key not in known},
        usage=usage,
    )


_DETAILS = "gen_ai.client.inference.operation.details"
"""An event that has what was said in a call, where the span does not."""


def _gen_ai_row(span: Span) -> JsonObject:
    details = (object_in(one["attributes"]) for one in span.events if one.get("name") == _DETAILS)
    attributes = span.attributes
    for one in details:
        attributes = {**attributes, **one}
    messages = _gen_ai_messages(_first(attributes, "gen_ai.input.messages", "gen_ai.prompt"))
    answers = _gen_ai_messages(_first(attributes, "gen_ai.output.messages", "gen_ai.completion"))
    system = parse_value(attributes.get("gen_ai.system_instructions"))
    if isinstance(system, list):
        texts = [text_at(one, "content") for one in objects_in(system)]
        first: JsonObject = {"role": "system", "content": "\n\n".join(texts)}
        messages = [first, *messages]
    if not messages:
        messages = [*map(_traceloop_message, _list_numbered(attributes, "gen_ai.prompt.", ""))]
        answers = [*map(_traceloop_message, _list_numbered(attributes, "gen_ai.completion.", ""))]
    if not messages:
        messages, answers = _event_messages(span)
    options = {
        name.removeprefix("gen_ai.request."): value
        for name, value in attributes.items()
        if name.startswith("gen_ai.request.") and name != "gen_ai.request.model"
    }
    usage = {
        name.removeprefix("gen_ai.usage."): _integer(value)
        for name, value in attributes.items()
        if name.startswith("gen_ai.usage.")
    }
    for old, new in (("cache_read.input_tokens", "cached_tokens"),):
        if old in usage:
            usage[new] = usage.pop(old)
    # Logfire keeps the counts of the answer too, those of the cache among them
    counted = object_in(object_in(parse_value(attributes.get("response_data"))).get("usage"))
    usage = usage | counted if "cached_tokens" not in usage else usage
    if not messages:
        whole = _adk_row(attributes, usage) or _logfire_row(attributes, usage)
        if whole is not None:
            return whole
    return _row(
        messages,
        answers,
        tools=parse_value(attributes.get("gen_ai.tool.definitions")),
        model=_first(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        options=options,
        usage=usage,
    )


def _gen_ai_messages(raw: Json) -> list[JsonObject]:
    """Messages with parts, each of which says its type."""
    return [message for one in objects_in(parse_value(raw)) for message in messages_of_parts(one)]


def messages_of_parts(message: JsonObject) -> Iterator[JsonObject]:
    """A message of parts as those of a chat: results are messages of their own."""
    if "parts" not in message:
        yield _plain_message(message)
        return
    pieces: list[Json] = []
    calls: list[Json] = []
    thoughts: list[str] = []
    for part in objects_in(message.get("parts")):
        kind = text_at(part, "type")
        if kind == "tool_call":
            calls.append(_chat_call(part))
        elif kind == "tool_call_response":
            yield {
                "role": "tool",
                "tool_call_id": _id_of_call(part),
                "content": _text_of(_first(part, "response", "result")),
            }
        elif kind in ("thinking", "reasoning"):
            thoughts.append(text_at(part, "content"))
        elif kind == "blob":
            url = f"data:{text_at(part, 'mime_type')};base64,{text_at(part, 'content')}"
            pieces.append({"type": "image_url", "image_url": {"url": url}})
        elif kind == "uri":
            pieces.append({"type": "image_url", "image_url": {"url": part.get("uri")}})
        else:
            text = _first(part, "content", "text")
            pieces.append({"type": "text", "text": _text_of(text) or compact(part)})
    if pieces or calls or thoughts:
        chat: JsonObject = {"role": message.get("role") or "user", "content": pieces or None}
        if len(pieces) == 1 and text_at(object_in(pieces[0]), "type") == "text":
            chat["content"] = object_in(pieces[0]).get("text")
        if thoughts:
            chat["reasoning_content"] = "\n\n".join(thoughts)
        yield {**chat, "tool_calls": calls} if calls else chat


def _text_of(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else compact(value)


def _chat_call(part: JsonObject) -> JsonObject:
    function = object_in(part.get("function")) or part
    return {
        "id": _id_of_call(part),
        "type": "function",
        "function": {
            "name": function.get("name"),
            "arguments": _text_of(function.get("arguments")) or "{}",
        },
    }


def _id_of_call(part: JsonObject) -> str:
    """The id of a call; agent-framework writes that of its run before it."""
    id = part.get("id") or part.get("tool_call_id")
    last = next(reversed(id), "") if isinstance(id, list) else id
    return last if isinstance(last, str) else ""


def _traceloop_message(fields: JsonObject) -> JsonObject:
    """A message whose fields are attributes: `gen_ai.prompt.0.content`."""
    content = parse_value(fields.get("content"))
    message: JsonObject = {"role": fields.get("role") or "assistant", "content": ""}
    message["content"] = content if isinstance(content, str | list) else compact(content)
    calls = _list_numbered(fields, "tool_calls.", "")
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in calls]
    if fields.get("tool_call_id"):
        message |= {"role": "tool", "tool_call_id": fields["tool_call_id"]}
    return message


def _event_messages(span: Span) -> tuple[list[JsonObject], list[JsonObject]]:
    """Messages that stand in events: one an event, or all in the attributes of one."""
    listed: list[JsonObject] = [*span.events]
    for name in ("events", "all_messages_events"):  # as Logfire and pydantic-ai keep them
        listed += objects_in(parse_value(span.attributes.get(name)))
    messages: list[JsonObject] = []
    answers: list[JsonObject] = []
    for one in listed:
        fields = {**one, **object_in(one.get("attributes")), **object_in(one.get("body"))}
        name = text_at(fields, "event.name") or text_at(one, "name")
        for key, into in (("gen_ai.input.messages", messages), ("gen_ai.output.messages", answers)):
            into += _gen_ai_messages(fields.get(key))
        if name == "gen_ai.choice":
            answer = object_in(parse_value(fields.get("message"))) or fields
            answers.append(_event_message({"role": "assistant", **answer}, "assistant"))
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            messages.append(_event_message(fields, name.split(".")[1]))
    return messages, answers


def _event_message(fields: JsonObject, role: str) -> JsonObject:
    message: JsonObject = {"role": role, "content": _text_of(fields.get("content"))}
    calls = objects_in(parse_value(fields.get("tool_calls")))
    if calls:
        message["tool_calls"] = [*map(_chat_call, calls)]
    if role == "tool":
        message["tool_call_id"] = fields.get("id")
    return message


# --- LangSmith, MLflow, openai-agents


def _langsmith_kind(span: Span) -> str:
    kind = text_at(span.attributes, "langsmith.run_type")
    return {"llm": "model"}.get(kind, kind)


def _langsmith_row(span: Span) -> JsonObject:
    inputs = object_in(span.attributes.get("langsmith.inputs"))
    outputs = object_in(span.attributes.get("langsmith.outputs"))
    extra = object_in(span.attributes.get("langsmith.extra"))
    options = object_in(extra.get("invocation_params"))
    if "messages" not in inputs or inputs.keys() & _OWN_FIELDS:
        own = _langsmith_call(inputs, outputs)
        if own is not None:
            return own
    asked = inputs.get("messages")
    if isinstance(asked, list) and asked and isinstance(asked[0], list):
        asked = asked[0]
    generations = outputs.get("generations")
    if isinstance(generations, list) and generations and isinstance(generations[0], list):
        generations = generations[0]
    answers: list[Json] = [
        one["message"] for one in objects_in(generations) if isinstance(one.get("message"), dict)
    ]
    choices = objects_in(outputs.get("choices"))
    answers = answers or [object_in(one.get("message")) for one in choices]
    answers = answers or [*objects_in(outputs.get("messages"))]
    if not answers and outputs.get("role"):
        answers = [outputs]
    metadata = object_in(extra.get("metadata"))
    model = _first(options, "model", "model_name") or metadata.get("ls_model_name")
    usage = _first(outputs, "usage_metadata", "usage") or object_in(outputs.get("llm_output")).get(
        "token_usage"
    )
    rest = {key: value for key, value in options.items() if key not in ("tools", "functions")}
    messages = asked if isinstance(asked, list) else []
    tools = _first(options, "tools") or inputs.get("tools")
    return _row(messages, answers, tools=tools, model=model, options=rest, usage=usage)


def _langsmith_call(inputs: JsonObject, outputs: JsonObject) -> JsonObject | None:
    """A call that a wrapper of a provider's client traced: what the client was given."""
    if not inputs.keys() & _OWN_FIELDS:
        return None
    asked = {**inputs}
    if isinstance(asked.get("input"), str):
        asked["input"] = [{"role": "user", "content": asked["input"]}]
    usage = _first(outputs, "usage_metadata", "usage")
    answer: Json = object_in(outputs.get("message")) or outputs
    return _row_of_call(asked, answer, model=inputs.get("model"), usage=usage)


def _mlflow_kind(span: Span) -> str:
    kind = str(parse_text(span.attributes.get("mlflow.spanType"))).upper()
    if kind == "NONE":
        return ""
    return {"CHAT_MODEL": "model", "LLM": "model", "TOOL": "tool"}.get(kind, kind.lower())


def parse_text(value: Json) -> Json:
    """A value that is written as JSON, also where it is a text in quotes."""
    if isinstance(value, str) and value[:1] == '"':
        try:
            return cast("Json", msgspec.json.decode(value))
        except ValueError:
            return value
    return parse_value(value)


def _mlflow_row(span: Span) -> JsonObject:
    attributes = span.attributes
    raw = parse_text(attributes.get("mlflow.spanInputs"))
    inputs, outputs = object_in(raw), parse_text(attributes.get("mlflow.spanOutputs"))
    body = object_in(outputs)
    if isinstance(raw, list):  # what LangChain was given: batches of messages
        inputs = {"messages": raw[0] if raw and isinstance(raw[0], list) else raw}
    elif inputs.keys() & _OWN_FIELDS:
        counted = parse_text(attributes.get("mlflow.chat.tokenUsage"))
        return _row_of_call(inputs, outputs, model=inputs.get("model"), usage=counted)
    answers: list[Json] = [object_in(one.get("message")) for one in objects_in(body.get("choices"))]
    generations = body.get("generations")
    for one in generations if isinstance(generations, list) else ():
        generation = one[0] if isinstance(one, list) and one else one
        answers.append(object_in(object_in(generation).get("message")))
    if not answers and body.get("content") is not None:
        answers = [{**body, "role": "assistant"}]
    if not answers and isinstance(outputs, str):
        answers = [{"role": "assistant", "content": outputs}]
    messages = inputs.get("messages")
    usage = _first(body, "usage") or parse_text(attributes.get("mlflow.chat.tokenUsage"))
    known = ("messages", "tools", "model")
    named = parse_text(attributes.get("mlflow.llm.model"))
    params = object_in(parse_text(attributes.get("invocation_params")))
    invoked = {
        key: value for key, value in params.items()
        if key not in ("tools", "model", "model_name", "_type") and value is not None
    }  # fmt: skip
    return _row(
        messages if isinstance(messages, list) else [],
        answers,
        tools=inputs.get("tools") or parse_text(attributes.get("mlflow.chat.tools")),
        model=inputs.get("model") or body.get("model") or named,
        options={**invoked, **{key: value for key, value in inputs.items() if key not in known}},
        usage=usage,
    )


def _openai_agents_kind(span: Span) -> str:
    kind = text_at(object_in(span.attributes.get("openai.span")), "type")
    return {"generation": "model", "response": "model", "function": "tool"}.get(kind, kind)


def _openai_agents_row(span: Span) -> JsonObject:
    data = object_in(span.attributes.get("openai.span"))
    response = object_in(data.get("response"))
    asked = data.get("input")
    messages: list[Json] = asked if isinstance(asked, list) else []
    if isinstance(asked, str):
        messages = [{"role": "user", "content": asked}]
    answers = data.get("output", response.get("output"))
    usage = data.get("usage") or response.get("usage")
    return _row(
        messages,
        answers if isinstance(answers, list) else [],
        tools=response.get("tools"),
        model=data.get("model") or response.get("model"),
        options=data.get("model_config"),
        usage=usage,
    )


# --- Weave and Braintrust


def _weave_kind(span: Span) -> str:
    name = text_at(span.attributes, "weave.op_name")
    if not name:
        return ""
    called = re.sub(r"^.*/op/|:[^:/]*$", "", name)
    return "model" if _CLIENT_CALL.search(called) else f"call of {called}"


_CLIENT_CALL = re.compile(
    r"chat\.completions\.|\bMessages\.(?:create|stream)|\bmessages\.create|responses\.create"
    r"|generate_content|\bcompletion\b|chat\.complete|\bLlm\.|\.converse",
    re.IGNORECASE,
)
"""How the functions of clients are called in which a model is asked."""


def _weave_row(span: Span) -> JsonObject:
    inputs = {**object_in(span.attributes.get("weave.inputs"))}
    inputs.pop("self", None)
    outputs = object_in(span.attributes.get("weave.output"))
    counted = object_in(object_in(span.attributes.get("weave.summary")).get("usage"))
    usage = outputs.get("usage") or next((one for one in counted.values() if one), None)
    if inputs.keys() & _OWN_FIELDS:
        own = _langsmith_call(inputs, outputs)
        if own is not None:
            return {**own, "usageDetails": usage}
    messages = inputs.get("messages")
    answers = [object_in(one.get("message")) for one in objects_in(outputs.get("choices"))]
    known = ("messages", "tools", "model")
    return _row(
        messages if isinstance(messages, list) else [],
        answers or ([outputs] if outputs.get("role") else []),
        tools=inputs.get("tools"),
        model=outputs.get("model") or inputs.get("model"),
        options={key: value for key, value in inputs.items() if key not in known and value},
        usage=usage,
    )


def _braintrust_kind(span: Span) -> str:
    kind = text_at(object_in(span.attributes.get("braintrust.span_attributes")), "type")
    if "braintrust.span_attributes" not in span.attributes:
        return ""
    return {"llm": "model"}.get(kind, kind or "span")


def _braintrust_row(span: Span) -> JsonObject:
    asked, answer = (span.attributes.get(f"braintrust.{name}") for name in ("input", "output"))
    metadata = object_in(span.attributes.get("braintrust.metadata"))
    metrics = object_in(span.attributes.get("braintrust.metrics"))
    if isinstance(asked, dict):
        asked = asked.get("messages", asked.get("input", asked.get("contents")))
    if isinstance(asked, list) and len(asked) == 1 and isinstance(asked[0], list):
        asked = asked[0]
    messages: list[Json] = asked if isinstance(asked, list) else []
    if isinstance(asked, str):
        messages = [{"role": "user", "content": asked}]
    answers: list[Json] = []
    listed = object_in(answer).get("choices", answer)
    for one in listed if isinstance(listed, list) else [listed]:
        message = object_in(object_in(one).get("message")) or object_in(one)
        if message:
            answers.append(message)
        elif isinstance(one, str):
            answers.append({"role": "assistant", "content": one})
    inner = object_in(metadata.get("invocation_params"))
    apart = ("model", "tools", "provider", "metadata", "invocation_params", "braintrust", "tags",
             "serialized", "run_id", "options", "batch_size")  # fmt: skip
    return _row(
        messages,
        answers,
        tools=metadata.get("tools") or inner.get("tools"),
        model=metadata.get("model") or inner.get("model"),
        options={key: value for key, value in metadata.items() if key not in apart},
        usage={
            "input": metrics.get("prompt_tokens"),
            "output": metrics.get("completion_tokens"),
            "cached": metrics.get("prompt_cached_tokens"),
        },
    )


# --- Vercel's AI SDK


def _vercel_kind(span: Span) -> str:
    name = text_at(span.attributes, "ai.operationId")
    if not name:
        return ""
    return {"doGenerate": "model", "doStream": "model", "ai.toolCall": "tool"}.get(
        name if name == "ai.toolCall" else name.rpartition(".")[2], name
    )


def _vercel_row(span: Span) -> JsonObject:
    attributes = span.attributes
    messages = parse_value(attributes.get("ai.prompt.messages"))
    parts: list[Json] = []
    thought = text_at(attributes, "ai.response.reasoning")
    if thought:
        parts.append({"type": "reasoning", "text": thought})
    text = _first(attributes, "ai.response.text", "ai.response.object")
    if text:
        parts.append({"type": "text", "text": _text_of(text)})
    for call in objects_in(parse_value(attributes.get("ai.response.toolCalls"))):
        arguments = parse_value(_first(call, "input", "args"))
        parts.append({"type": "tool-call", **call, "input": arguments})
    tools = attributes.get("ai.prompt.tools")
    declared = [parse_value(one) for one in tools] if isinstance(tools, list) else []
    usage = {
        name: _integer(_first(attributes, *names))
        for name, names in (
            ("input", ("ai.usage.inputTokens", "ai.usage.promptTokens",
                       "gen_ai.usage.input_tokens")),
            ("output", ("ai.usage.outputTokens", "ai.usage.completionTokens",
                        "gen_ai.usage.output_tokens")),
            ("cached", ("ai.usage.cachedInputTokens",)),
        )
    }  # fmt: skip
    row = _row(
        messages if isinstance(messages, list) else [],
        [{"role": "assistant", "content": parts}] if parts else [],
        tools=declared,
        model=_first(attributes, "ai.response.model", "gen_ai.response.model", "ai.model.id"),
        options={
            name.removeprefix("ai.settings."): value
            for name, value in attributes.items()
            if name.startswith("ai.settings.")
        },
        usage={key: value for key, value in usage.items() if value is not None},
    )
    first = _first(attributes, "ai.response.msToFirstChunk", "ai.stream.msToFirstChunk")
    if isinstance(first, int | float) and span.start is not None:
        row["completionStartTime"] = _iso(span.start + first / 1000)
    return row


_OPENAI_AGENTS = "sessions and traces of openai-agents"

FLAVOURS: tuple[Flavour, ...] = (
    Flavour("openinference", _openinference_kind, _openinference_row, "OpenInference spans"),
    Flavour("langsmith", _langsmith_kind, _langsmith_row, "runs as LangSmith exports them"),
    Flavour("mlflow", _mlflow_kind, _mlflow_row, "traces of MLflow"),
    Flavour("weave", _weave_kind, _weave_row, "calls as Weave exports them"),
    Flavour("braintrust", _braintrust_kind, _braintrust_row, "spans as Braintrust exports them"),
    Flavour("openai-agents", _openai_agents_kind, _openai_agents_row, _OPENAI_AGENTS),
    Flavour("ai-sdk", _vercel_kind, _vercel_row, "spans of Vercel's AI SDK"),
    Flavour(
        "gen-ai", _gen_ai_kind, _gen_ai_row, "spans with GenAI attributes or events, Logfire's too"
    ),
)
"""The first that knows a span says what it is."""
