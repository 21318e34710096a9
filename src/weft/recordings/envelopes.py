"""What programs write around requests, spans and messages: each is opened to what is inside.

A proxy's log, a cassette of a test, a page of a platform's API or a saved state holds what the
readers know, under names of its own. Here it becomes that, as JSON. What holds no call of a model
is named.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from weft.dialects import DIALECTS
from weft.dialects.wire import object_in, objects_in, text_at
from weft.recordings.providers import bedrock_model
from weft.recordings.recording import seconds
from weft.recordings.spans import parse_value
from weft.recordings.traces import is_observation
from weft.values import Json, JsonObject


class Opened(NamedTuple):
    """What stood inside, and what was left out of it: what it is, and its place."""

    value: Json
    omitted: Sequence[tuple[str, str]] = ()


def open_envelope(raw: JsonObject) -> Opened | None:
    """What is in an envelope; None where an object is none."""
    return next((opened for look in _ENVELOPES if (opened := look(raw)) is not None), None)


# --- one call: a request, its answer and its times


def _open_bedrock(raw: JsonObject) -> Opened | None:
    """A line of Bedrock's own log of invocations."""
    if raw.get("schemaType") != "ModelInvocationLog":
        return None
    asked, answer = object_in(raw.get("input")), object_in(raw.get("output"))
    body = object_in(asked.get("inputBodyJson"))
    model = bedrock_model(text_at(raw, "modelId"))
    return Opened(
        {
            "id": raw.get("requestId"),
            "request": {"model": model, **body, "modelId": model},
            "response": answer.get("outputBodyJson"),
            "timestamp": raw.get("timestamp"),
        }
    )


def _open_helicone(raw: JsonObject) -> Opened | None:
    """A row of Helicone's export, in each of its two spellings."""
    row = {_snake(key): value for key, value in raw.items()} if "requestBody" in raw else raw
    request = parse_value(row.get("request_body"))
    if not isinstance(request, dict):
        return None
    if "model" not in request and isinstance(row.get("model"), str):
        request = {"model": row["model"], **request}
    started = seconds(row.get("request_created_at"))
    first = row.get("time_to_first_token")
    return Opened(
        {
            "id": row.get("request_id") or row.get("id"),
            "request": request,
            "response": parse_value(row.get("response_body")),
            "status": row.get("response_status"),
            "started": row.get("request_created_at"),
            "first_token": started + first / 1000
            if started is not None and isinstance(first, int | float)
            else None,
            "ended": row.get("response_created_at"),
            "latency_ms": row.get("delay_ms"),
        }
    )


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: f"_{match[1].lower()}", name)


def _open_litellm(raw: JsonObject) -> Opened | None:
    """What LiteLLM hands to those that log its calls."""
    if not isinstance(raw.get("call_type"), str) or "messages" not in raw or "response" not in raw:
        return None
    request = {
        "model": raw.get("model"),
        **object_in(raw.get("model_parameters")),
        "messages": raw["messages"],
    }
    names = {"startTime": "started", "endTime": "ended", "completionStartTime": "first_token"}
    times = {name: raw.get(key) for key, name in names.items()}
    return Opened(
        {"id": raw.get("id"), "request": request, "response": raw["response"],
         "error": raw.get("error_str"), **times}
    )  # fmt: skip


def _open_answered_chat(raw: JsonObject) -> Opened | None:
    """Messages with their answer next to them, as OpenHands and other users of LiteLLM log calls.

    Where calls were written as text, the messages before that stand next to them.
    """
    answer = object_in(raw.get("response"))
    messages = raw.get("messages")
    if "request" in raw or not isinstance(messages, list):
        return None
    if not any(isinstance(answer.get(key), list) for key in ("choices", "candidates", "output")):
        return None
    options = {**object_in(raw.get("kwargs"))}
    for name in ("extra_body", "extra_headers", "metadata"):  # settings of the client
        options.pop(name, None)
    named = (raw.get("model"), raw.get("backing_model"), answer.get("model"))
    request: JsonObject = {"model": next(filter(None, named), ""), **options, "messages": messages}
    if isinstance(raw.get("tools"), list) and raw["tools"]:
        request["tools"] = raw["tools"]
    took = raw.get("latency_sec")
    ended = seconds(raw.get("timestamp"))
    call: JsonObject = {"request": request, "response": answer}
    if ended is not None and isinstance(took, int | float):
        call |= {"started": ended - took, "ended": ended}
    elif ended is not None:
        call["timestamp"] = ended
    return Opened(call)


def _open_autogen_call(raw: JsonObject) -> Opened | None:
    """A call in AutoGen's log of events."""
    if raw.get("type") not in ("LLMCall", "LLMStreamEnd") or "response" not in raw:
        return None
    answer = object_in(raw["response"])
    request: JsonObject = {"model": answer.get("model"), "messages": raw.get("messages")}
    if raw.get("tools"):
        request["tools"] = raw["tools"]
    return Opened({"request": request, "response": answer})


def _open_vertex(raw: JsonObject) -> Opened | None:
    """A row of Vertex's log of requests and responses."""
    if not isinstance(raw.get("full_request"), dict):
        return None
    model = text_at(raw, "model").rpartition("/")[2]
    return Opened(
        {
            "request": {"model": model, **object_in(raw["full_request"])},
            "response": raw.get("full_response"),
            "timestamp": raw.get("logging_time"),
        }
    )


def _open_batch(raw: JsonObject) -> Opened | None:
    """What LangSmith's client sends: runs as they began, and what was added when they ended."""
    if not any(isinstance(raw.get(name), list) for name in ("post", "patch")):
        return None
    runs: dict[str, JsonObject] = {}
    for one in (*objects_in(raw.get("post")), *objects_in(raw.get("patch"))):
        id = text_at(one, "id")
        filled = {key: value for key, value in one.items() if value not in (None, "", [], {})}
        runs[id] = {**runs.get(id, {}), **filled}
    spans = [{"inputs": {}, **one} for one in runs.values() if "run_type" in one]
    return Opened({"spans": [*spans]}) if spans else None


# --- recorded HTTP


def _open_har(raw: JsonObject) -> Opened | None:
    """What a browser or a proxy recorded of its HTTP traffic."""
    entries = object_in(raw.get("log")).get("entries")
    if not isinstance(entries, list):
        return None
    return _http_calls(
        (f"log.entries[{at}]", _call_of_har(one)) for at, one in enumerate(objects_in(entries))
    )


def _call_of_har(entry: JsonObject) -> JsonObject:
    asked, answer = object_in(entry.get("request")), object_in(entry.get("response"))
    content = object_in(answer.get("content"))
    text = text_at(content, "text")
    if content.get("encoding") == "base64":
        text = _decode_base64(text)
    return {
        "request": parse_value(object_in(asked.get("postData")).get("text")),
        "response": text,
        "path": asked.get("url"),
        "method": asked.get("method"),
        "status": answer.get("status"),
        "started": entry.get("startedDateTime"),
        "duration_ms": entry.get("time"),
    }


def _decode_base64(text: str) -> str:
    import base64

    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except ValueError:
        return text


def _open_cassette(raw: JsonObject) -> Opened | None:
    """A cassette of VCR.py: what a test asked over HTTP, and what came back."""
    listed = raw.get("interactions", raw.get("http_interactions"))
    asked, answers = raw.get("requests"), raw.get("responses")
    if isinstance(asked, list) and isinstance(answers, list):  # as LangChain's tests keep them
        pairs = zip(asked, answers, strict=False)
        listed = list[Json]({"request": one, "response": answer} for one, answer in pairs)
    if not isinstance(listed, list):
        return None
    return _http_calls(
        (f"interactions[{at}]", _call_of_cassette(one)) for at, one in enumerate(objects_in(listed))
    )


def _call_of_cassette(one: JsonObject) -> JsonObject:
    asked, answer = object_in(one.get("request")), object_in(one.get("response"))
    status = answer.get("status")
    return {
        "request": parse_value(_cassette_body(asked)),
        "response": _cassette_body(answer),
        "path": asked.get("uri"),
        "method": asked.get("method"),
        "status": object_in(status).get("code") if isinstance(status, dict) else status,
        "timestamp": one.get("recorded_at"),
    }


def _cassette_body(side: JsonObject) -> Json:
    """The body of a request or an answer; some recorders parse it."""
    if side.get("parsed_body") is not None:
        return side["parsed_body"]
    body = side.get("body")
    return body.get("string", body.get("base64_string")) if isinstance(body, dict) else body


_OTHER_ENDPOINT = re.compile(
    r"/(?:embeddings|moderations|rerank|count[-_]tokens|embed)\b|:embedContent|:countTokens"
)
"""Where no model is asked to answer."""

_BEDROCK_ENDPOINT = re.compile(r"/model/[^/]+/converse(?:-stream)?\b")
"""Where Bedrock's models are asked, in requests that may be of few fields."""


def _http_calls(calls: Iterator[tuple[str, JsonObject]]) -> Opened:
    """The requests to models among all that were made."""
    calls_found: list[Json] = []
    omitted: list[tuple[str, str]] = []
    for place, call in calls:
        request = call.get("request")
        path = text_at(call, "path")
        is_call = (
            isinstance(request, dict)
            and (any(DIALECTS[name].is_request(request) for name in DIALECTS)
                 or bool(_BEDROCK_ENDPOINT.search(path)))
            and not _OTHER_ENDPOINT.search(path)
        )  # fmt: skip
        if is_call:
            calls_found.append({**call, "method": None})
        else:
            host = urlsplit(text_at(call, "path")).hostname or "?"
            omitted.append((f"request to {host}", place))
    return Opened(calls_found, omitted)


# --- spans under other names


def _open_jaeger(raw: JsonObject) -> Opened | None:
    """Traces as Jaeger writes them: tags for attributes, logs for events, microseconds."""
    traces: Json = [raw] if "traceID" in raw and "spans" in raw else raw.get("data")
    spans = [
        span for trace in objects_in(traces) if "traceID" in trace
        for span in objects_in(trace.get("spans"))
    ]  # fmt: skip
    if not spans or not all("operationName" in span for span in spans):
        return None
    return Opened({"spans": [*map(_span_of_jaeger, spans)]})


def _span_of_jaeger(span: JsonObject) -> JsonObject:
    tags = {text_at(one, "key"): one.get("value") for one in objects_in(span.get("tags"))}
    events: list[Json] = []
    for log in objects_in(span.get("logs")):
        fields = {text_at(one, "key"): one.get("value") for one in objects_in(log.get("fields"))}
        events.append({"name": fields.pop("event", ""), "attributes": fields})
    parents = (text_at(one, "spanID") for one in objects_in(span.get("references")))
    start, took = span.get("startTime"), span.get("duration")
    return {
        "spanId": span.get("spanID"),
        "traceId": span.get("traceID"),
        "parentSpanId": next(parents, ""),
        "name": span.get("operationName"),
        "startTime": start,
        "endTime": start + took
        if isinstance(start, int | float) and isinstance(took, int | float)
        else None,
        "attributes": tags,
        "events": events,
        "error": tags.get("otel.status_description") if tags.get("error") else None,
    }


def _open_tempo(raw: JsonObject) -> Opened | None:
    """A trace as Tempo gives it: OTLP under another name."""
    inner = object_in(raw.get("trace"))
    batches = raw.get("batches", inner.get("resourceSpans", inner.get("batches")))
    listed = objects_in(batches)
    if not listed or not any(one.keys() & {"scopeSpans", "scope_spans"} for one in listed):
        return None
    return Opened({"resourceSpans": batches})


def _open_phoenix(raw: JsonObject) -> Opened | None:
    """A row of Phoenix's table of spans: each attribute is a column."""
    if "context.span_id" not in raw:
        return None
    attributes: JsonObject = {
        key.removeprefix("attributes."): value
        for key, value in raw.items()
        if key.startswith("attributes.") and value is not None
    }
    attributes.setdefault("openinference.span.kind", raw.get("span_kind"))
    context: JsonObject = {
        key.removeprefix("context."): value
        for key, value in raw.items()
        if key.startswith("context.")
    }
    names = ("name", "parent_id", "start_time", "end_time", "status_code", "status_message")
    fields: JsonObject = {name: raw.get(name) for name in names}
    return Opened({**fields, "context": context, "attributes": attributes})


# --- pages of an API, and saved states


def _open_ingestion(raw: JsonObject) -> Opened | None:
    """What Langfuse's clients send: events that make its observations, and that add to them."""
    events = objects_in(raw.get("batch"))
    named = [(text_at(one, "type"), object_in(one.get("body"))) for one in events]
    if not named or not all(kind.endswith(("-create", "-update")) for kind, _ in named):
        return None
    rows: dict[str, JsonObject] = {}
    omitted: list[tuple[str, str]] = []
    for at, (kind, body) in enumerate(named):
        what = kind.partition("-")[0]
        if what in ("generation", "span", "event", "observation"):
            id = text_at(body, "id") or str(at)
            fields = {key: value for key, value in body.items() if value is not None}
            rows[id] = {"type": what.upper(), "id": id, **rows.get(id, {}), **fields}
        else:
            omitted.append((f"event `{kind}`", f"batch[{at}]"))
    return Opened([*rows.values()], omitted) if rows else None


def _open_page(raw: JsonObject) -> Opened | None:
    """A page of a platform's API: a list of what it holds, and how to get the next page."""
    for name in (
        "data",
        "items",
        "runs",
        "traces",
        "results",
        "rows",
        "records",
        "list",
        "content",
    ):
        listed = raw.get(name)
        if isinstance(listed, list) and listed and len(objects_in(listed)) == len(listed):
            others = (value for key, value in raw.items() if key != name)
            if not any(isinstance(value, list) and value for value in others):
                return Opened(listed)
    return None


_STATES = (
    ("values", "messages"),
    ("channel_values", "messages"),
    ("checkpoint", "channel_values", "messages"),
    ("chat_message_store_state", "messages"),
    ("storeState", "messages"),
    ("state", "in_memory", "messages"),
    ("state", "messages"),
    ("llm_context", "messages"),
    ("agent_state", "llm_context", "messages"),
    ("output", "messages"),
    ("chatMessages",),
)
"""Where libraries keep the messages in what they save of a conversation: LangGraph's state and
checkpoints, agent-framework's threads, AutoGen's agents, older sessions of Copilot CLI."""


def _open_state(raw: JsonObject) -> Opened | None:
    """The saved state of a conversation."""
    if "messages" in raw or "request" in raw or is_observation(raw):
        return None
    for path in _STATES:
        inner: Json = raw
        for key in path:
            inner = object_in(inner).get(key)
        if isinstance(inner, list) and inner:
            return Opened({"id": raw.get("sessionId"), "messages": inner})
    return None


def _open_team(raw: JsonObject) -> Opened | None:
    """The saved state of AutoGen's teams: what all have said, or else what each agent knows."""
    agents = raw.get("agent_states")
    if not isinstance(agents, dict):
        return None
    states = [object_in(one) for one in agents.values()]
    threads = [objects_in(one.get("message_thread")) for one in states]
    longest = max(threads, key=len, default=list[JsonObject]())
    if longest:
        return Opened({"messages": [*longest]})
    opened = [one for state in states if (one := _open_state(state)) is not None]
    return Opened([one.value for one in opened])


def _open_steps(raw: JsonObject) -> Opened | None:
    """What Vercel's `generateText` returned."""
    messages = object_in(raw.get("response")).get("messages")
    if not isinstance(raw.get("steps"), list) or not isinstance(messages, list):
        return None
    return Opened({"messages": messages})


def _open_checkpoint(raw: JsonObject) -> Opened | None:
    """A conversation that Gemini CLI saved by name."""
    history = objects_in(raw.get("history"))
    if not history or not all(isinstance(one.get("parts"), list) for one in history):
        return None
    return Opened([*history])


def _open_evals(raw: JsonObject) -> Opened | None:
    """Cases of google-adk's evaluations: what was said and called, as events."""
    cases = raw.get("eval_cases", raw.get("evalCases"))
    if not isinstance(cases, list):
        return None
    return Opened([_session_of_case(one) for one in objects_in(cases)])


def _session_of_case(case: JsonObject) -> JsonObject:
    events: list[Json] = []
    start = object_in(case.get("session_input", case.get("sessionInput")))

    def say(turn: str, author: str, content: Json) -> None:
        if content:
            at = len(events) + 1
            events.append({"id": f"e{at}", "invocation_id": turn, "author": author,
                           "timestamp": float(at), "content": content})  # fmt: skip

    for number, turn in enumerate(objects_in(case.get("conversation")), 1):
        id = _either(turn, "invocation_id", "invocationId") or f"i{number}"
        agent = text_at(start, "app_name") or text_at(start, "appName") or "agent"
        say(str(id), "user", _either(turn, "user_content", "userContent"))
        data = object_in(_either(turn, "intermediate_data", "intermediateData"))
        for one in objects_in(data.get("invocation_events")):
            say(str(id), text_at(one, "author") or agent, one.get("content"))
        uses = objects_in(_either(data, "tool_uses", "toolUses"))
        say(str(id), agent, _content(uses, "function_call", "model"))
        back = objects_in(_either(data, "tool_responses", "toolResponses"))
        say(str(id), agent, _content(back, "function_response", "user"))
        between = _either(data, "intermediate_responses", "intermediateResponses")
        for pair in between if isinstance(between, list) else []:
            if isinstance(pair, list) and len(pair) > 1:
                say(str(id), str(pair[0]), {"role": "model", "parts": pair[1]})
        say(str(id), agent, _either(turn, "final_response", "finalResponse"))
    label = _either(case, "eval_id", "evalId") or "case"
    app = _either(start, "app_name", "appName") or ""
    user = _either(start, "user_id", "userId") or ""
    return {"id": label, "app_name": app, "user_id": user, "events": events}


def _content(listed: Sequence[JsonObject], name: str, role: str) -> Json:
    return {"role": role, "parts": [{name: one} for one in listed]} if listed else None


def _either(value: JsonObject, *names: str) -> Json:
    return next((value[name] for name in names if value.get(name)), None)


_ENVELOPES: tuple[Callable[[JsonObject], Opened | None], ...] = (
    _open_bedrock, _open_helicone, _open_litellm, _open_answered_chat, _open_autogen_call,
    _open_batch, _open_vertex, _open_har, _open_cassette, _open_jaeger, _open_tempo, _open_phoenix,
    _open_ingestion,
    _open_team, _open_steps, _open_checkpoint, _open_evals, _open_state,
)  # fmt: skip
"""The first that finds something inside opens it."""


def open_page(raw: JsonObject, is_document: Callable[[JsonObject], bool]) -> Opened | None:
    """The list in a page of an API, if all that it lists is recordings."""
    opened = _open_page(raw)
    listed = objects_in(opened.value) if opened is not None else []
    return opened if listed and all(map(is_document, listed)) else None


def open_fields(
    raw: JsonObject,
    is_document: Callable[[JsonObject], bool],
    is_talk: Callable[[list[Json]], bool],
) -> dict[str, Json]:
    """What is recorded in an object that no format knows, by its field.

    Benchmarks and scripts keep a conversation, or a list of them, under names of their own.
    """
    recorded: dict[str, Json] = {}
    for name, value in raw.items():
        if isinstance(value, list) and is_talk(value):
            recorded[name] = {"messages": value}
        elif isinstance(value, dict | list):
            inside = objects_in([value] if isinstance(value, dict) else value)
            if inside and all(map(is_document, inside)):
                recorded[name] = value
    return recorded


def open_states(values: Sequence[JsonObject]) -> Opened | None:
    """The last of the states of each conversation: those before it are the same, cut short."""
    states = [object_in(one.get("values")).get("messages") for one in values]
    if not all("checkpoint" in one or "next" in one for one in values) or not states:
        return None
    longest: list[JsonObject] = []
    omitted: list[tuple[str, str]] = []
    listed = [one if isinstance(one, list) else [] for one in states]
    for at, (value, messages) in enumerate(zip(values, listed, strict=True)):
        longer = (
            other
            for number, other in enumerate(listed)
            if len(other) > len(messages) or (len(other) == len(messages) and number < at)
        )
        if any(other[: len(messages)] == messages for other in longer):
            omitted.append(("earlier state of the same conversation", f"[{at}]"))
        else:
            longest.append(value)
    return Opened([*longest], omitted) if omitted else None
