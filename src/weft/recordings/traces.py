"""What tools that watch agents export: a row for each call of a model, with input and output."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import msgspec

from weft.dialects import CHAT, dialect_named, dialect_of
from weft.dialects.wire import object_in, objects_in, text_at
from weft.errors import SessionError
from weft.recordings.exchanges import ExchangeRecord
from weft.recordings.recording import (
    Aside,
    RecordedCall,
    Recording,
    read_cost,
    read_counts,
    seconds,
    with_counts,
    with_events,
)
from weft.recordings.spans import adk_body, messages_of_parts, parse_value
from weft.session import Event
from weft.values import Json, JsonObject, compact

# --- Langfuse

ReadList = Callable[[list[Json], str, str], Recording]
"""Reads messages of any form."""


def is_observation(row: JsonObject) -> bool:
    """Whether an object is one of Langfuse's: a step of a trace."""
    return ("traceId" in row or "trace_id" in row) and "input" in row and "messages" not in row


def is_trace(row: JsonObject) -> bool:
    """Whether an object is a trace with its observations."""
    listed = row.get("observations")
    return isinstance(listed, list) and any(map(is_observation, objects_in(listed)))


def is_trace_head(row: JsonObject) -> bool:
    """Whether an object is what openai-agents writes of a trace before its spans."""
    return row.get("object") == "trace" and "workflow_name" in row


def asks_model(observation: JsonObject) -> bool:
    """Whether a model was asked in it; others are functions, tools and events."""
    return text_at(observation, "type").upper() in ("", "GENERATION", "LLM")  # the last is Opik's


def runs_tool(observation: JsonObject) -> bool:
    """Whether a tool ran in it."""
    return text_at(observation, "type").upper() == "TOOL"


def find_wrappers(rows: Iterable[JsonObject]) -> set[str]:
    """The ids of the generations around another one, such as a library's step around its call."""
    asked = {
        text_at(row, "id"): row for row in rows
        if is_observation(row) and asks_model(row) and row.get("id")
    }  # fmt: skip
    parents = (
        _first(row, "parentObservationId", "parent_observation_id") for row in asked.values()
    )
    return {parent for parent in parents if isinstance(parent, str) and parent in asked}


def tools_of_observation(row: JsonObject) -> Json:
    """The tools that were declared in its input; LangChain's handler has them as messages."""
    asked = parse_value(row.get("input"))
    if isinstance(asked, list):
        return [object_in(one.get("content")) for one in objects_in(asked) if _declares_tool(one)]
    return object_in(asked).get("tools")


def _declares_tool(message: JsonObject) -> bool:
    content = message.get("content")
    return isinstance(content, dict) and "function" in content and content.get("type") == "function"


def read_observation(
    row: JsonObject, id: str, where: str, read_list: ReadList, *, format: str = "langfuse"
) -> Recording:
    """The call that a generation is: its input, its output, and what was counted."""
    asked, answer = parse_value(row.get("input")), parse_value(row.get("output"))
    messages: list[Json] = _chat_of([*_asked(asked)])
    answers: list[Json] = _chat_of([*_answers(answer)])
    if any("role" in one for one in objects_in([*messages, *answers])):
        messages = [*map(_with_role, objects_in(messages))]  # an answer may be in another form
        answers = [*map(_with_role, objects_in(answers))]
    if not messages and not answers:
        raise SessionError(
            "the input of this generation has no messages",
            where=where,
            hint="Weft reads a list of messages, an object with `messages`, or a text",
        )
    recording = read_list([*messages, *answers], text_at(row, "id") or id, where)
    started = seconds(row.get("startTime", row.get("start_time")))
    call = RecordedCall(time=started or 0.0, failed=bool(row.get("error")) and not answers)
    events = [*recording.session.events]
    if not events:
        raise SessionError(
            "this generation has instructions, and nothing that was said",
            where=where,
            hint="let the exporter take messages along",
        )
    if answers:
        events[-1] = _with_facts(events[-1], row)
    model = _model_of(row) or recording.model
    cut = row.get("cut")
    if isinstance(cut, int) and cut:
        why = "the exporter keeps a number of attributes of a span, and drops the oldest"
        aside = Aside("message that was cut off", why, cut, (where,))
        recording = recording._replace(aside=(*recording.aside, aside))
    return recording._replace(
        session=with_events(recording.session, events),
        format=format,
        model=model,
        call=call,
        exchanges=(_exchange(row, asked, messages, answers, model=model, where=where),),
        asks="" if answers else recording.asks or events[-1].author,
    )


def _asked(asked: Json) -> Iterator[Json]:
    """The messages of an input: a list of them, an object that has them, or a text."""
    if isinstance(asked, list):
        yield from asked
    elif isinstance(asked, dict):
        listed = next((asked[key] for key in ("messages", "prompt", "args", "kwargs")
                       if asked.get(key)), None)  # fmt: skip
        if isinstance(listed, dict) or listed is None:
            listed = [listed or asked]
        yield from listed if isinstance(listed, list) else [listed]
    elif asked not in (None, ""):
        yield asked


def _chat_of(messages: list[Json]) -> list[Json]:
    """Messages as readers know them: an exporter writes some in a form of its own."""
    chat: list[Json] = []
    for one in messages:
        if not isinstance(one, dict):
            text = one if isinstance(one, str) else compact(one)
            chat.append({"role": "user", "content": text})
        elif _declares_tool(one):
            continue
        elif _is_gen_ai(one):
            chat += messages_of_parts(one)
        elif one.keys() & _SPOKEN:
            chat.append(_chat_message(one))
        elif one:  # an object that a program was asked with
            chat.append({"role": "user", "content": compact(one)})
    return chat


def _with_role(message: JsonObject) -> JsonObject:
    """A message of LangChain's as one of the chat that it stands in."""
    kind = text_at(message, "type").removesuffix("Chunk").removesuffix("Message").lower()
    role = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}.get(kind)
    if "role" in message or role is None or not message.keys() & {"content", "tool_calls"}:
        return message
    known = ("content", "tool_calls", "tool_call_id", "name")
    return {"role": role, **{key: message[key] for key in known if message.get(key)}}


_SPOKEN = frozenset(
    ("role", "content", "parts", "type", "lc", "kind", "tool_calls", "author", "text")
)


def _chat_message(message: JsonObject) -> JsonObject:
    """A message with its calls where a chat has them, and the role of a result."""
    calls = object_in(message.get("additional_kwargs")).get("tool_calls")
    if "role" not in message:
        return {"role": "user", **message} if message.keys() == {"content"} else message
    if calls and not message.get("tool_calls"):
        message = {**message, "tool_calls": calls}
    role, content = message.get("role"), message.get("content")
    if role not in _CHAT_ROLES and role != "model" and (message.get("tool_call_id") or
                                                        isinstance(content, str)):  # fmt: skip
        # LangGraph's handler has the name of the tool here
        message = {**message, "role": "tool", "name": role}
    is_value = isinstance(content, list) and role == "tool" and not any(
        one.get("type") for one in objects_in(content)
    )  # fmt: skip
    if is_value or (isinstance(content, dict) and "type" not in content):
        message = {**message, "content": compact(content)}
    return message


def _is_gen_ai(message: JsonObject) -> bool:
    """Whether a message has parts as OpenTelemetry's GenAI conventions write them."""
    parts = message.get("parts")
    if not isinstance(parts, list) or not parts:
        return False
    return all("type" in one and (one.keys() & {"content", "response", "result", "uri"}
               or one.get("type") in ("tool_call", "tool_call_response"))
               for one in objects_in(parts))  # fmt: skip


def request_of_row(row: JsonObject) -> tuple[str, JsonObject, JsonObject | None] | None:
    """The dialect, the request and the answer of a call that was recorded as a provider takes it.

    None where it is a list of messages, which any library may have written.
    """
    listed, whole = parse_value(row.get("input")), object_in(parse_value(row.get("output")))
    if isinstance(listed, list | str) and listed and whole.get("object") == "response":
        # the answer repeats what was asked with it
        fields = ("model", "instructions", "tools", "temperature", "top_p", "tool_choice")
        beside: JsonObject = {key: whole[key] for key in fields if whole.get(key)}
        return "openai-responses", {**beside, "input": listed}, whole
    asked = object_in(listed)
    adk = adk_body(asked) if "contents" in asked and "config" in asked else None
    asked = adk or asked
    model = text_at(row, "model")
    if not asked.keys() & {"contents", "input", "system", "instructions"} and not (
        "messages" in asked and "max_tokens" in asked
    ):
        return None
    request: JsonObject = {"model": model, **asked} if model else asked
    dialect = dialect_of(request)
    if not dialect or dialect == CHAT:
        return None
    if isinstance(request.get("contents"), str):
        part: JsonObject = {"text": request["contents"]}
        words: JsonObject = {"role": "user", "parts": [part]}
        request = {**request, "contents": [words]}
    return dialect, request, _body_of_answer(parse_value(row.get("output")), dialect, model)


def _body_of_answer(answer: Json, dialect: str, model: str) -> JsonObject | None:
    """An answer as the provider sends it, also where only its message was recorded."""
    if isinstance(answer, list) and len(answer) == 1 and dialect != "openai-responses":
        answer = answer[0]
    if isinstance(answer, str) and answer:
        answer = _body_of_text(answer, dialect)
    body = object_in(answer)
    if dialect == "openai-responses":
        items = answer if isinstance(answer, list) else body.get("output")
        listed: list[Json] = items if isinstance(items, list) else [body] if body else []
        return {"object": "response", **body, "output": listed} if listed else None
    if not body:
        return None
    if dialect == "gemini":
        body = dialect_named(dialect).spell(body)
        if "candidates" in body:
            return body
        turn = object_in(body.get("content")) or {"role": "model", "parts": body.get("parts")}
        candidate: JsonObject = {
            "content": turn,
            "finishReason": body.get("finishReason") or "STOP",
        }
        return {"candidates": [candidate], "usageMetadata": body.get("usageMetadata")}
    message = object_in(body.get("message")) or body
    content: Json = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    whole: JsonObject = {"type": "message", "role": "assistant", "model": model, **message}
    return {**whole, "content": content, "usage": body.get("usage") or message.get("usage")}


def _body_of_text(text: str, dialect: str) -> JsonObject:
    """An answer of which only the text was recorded, as a message of the provider's."""
    if dialect == "gemini":
        words: JsonObject = {"text": text}
        return {"role": "model", "parts": [words]}
    piece: JsonObject = {"type": "output_text", "text": text}
    if dialect == "openai-responses":
        return {"type": "message", "role": "assistant", "content": [piece]}
    return {"role": "assistant", "content": text}


def with_row(
    recording: Recording, exchange: ExchangeRecord, row: JsonObject, *, format: str
) -> Recording:
    """A call with what its trace says of it: times, tokens, agent and error."""
    recorded_row = _exchange(row, None, [], [], model=recording.model or exchange.model,
                     where=exchange.source)  # fmt: skip
    is_answered = bool(recording.call and recording.call.id) or not recording.asks
    events = [*recording.session.events]
    if is_answered and events and events[-1].usage is None:
        events[-1] = _with_facts(events[-1], row)
    return recording._replace(
        session=with_events(recording.session, events),
        format=format,
        model=recording.model or recorded_row.model,
        call=RecordedCall(
            recording.call.id if recording.call is not None else "",
            time=recorded_row.started or 0.0,
            failed=bool(recorded_row.error) and not is_answered,
        ),
        exchanges=(
            replace(
                exchange,
                started=recorded_row.started,
                ended=recorded_row.ended,
                first_token=recorded_row.first_token,
                usage=recorded_row.usage,
                error=recorded_row.error,
                agent=recorded_row.agent,
                parent=recorded_row.parent,
                trace=recorded_row.trace,
                cost=recorded_row.cost,
            ),
        ),
    )


def _exchange(
    row: JsonObject,
    asked: Json,
    messages: list[Json],
    answers: list[Json],
    *,
    model: str,
    where: str,
) -> ExchangeRecord:
    """The call as the trace has it; the body is in the form of a chat where its messages are."""
    options = object_in(parse_value(row.get("modelParameters") or row.get("model_parameters")))
    tools = objects_in(object_in(asked).get("tools"))
    body: JsonObject = {"model": model, **options, "messages": messages}
    if tools:
        body["tools"] = [*tools]
    is_chat = all(
        one.get("role") in _CHAT_ROLES and "parts" not in one and "lc" not in one
        for one in objects_in(messages)
    )
    error = _first(row, "error", "statusMessage", "status_message")
    return ExchangeRecord(
        dialect=CHAT if is_chat else "",
        model=model,
        body=body if is_chat else None,
        options=options,
        tools=tuple(tools),
        answer=answers[0] if len(answers) == 1 else answers or None,
        usage=read_counts(_counts(row)),
        started=seconds(_first(row, "startTime", "start_time")),
        ended=seconds(_first(row, "endTime", "end_time")),
        first_token=seconds(_first(row, "completionStartTime", "completion_start_time")),
        error=error if isinstance(error, str) else "",
        source=where,
        agent=text_at(row, "agent"),
        parent=text_at(row, "parent"),
        trace=text_at(row, "traceId"),
        cost=read_cost(row),
    )


_CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def _first(row: JsonObject, *names: str) -> Json:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _answers(output: Json) -> Iterator[Json]:
    """The message that a model answered with, in each form that integrations write."""
    if isinstance(output, str):
        if output:
            yield {"role": "assistant", "content": output}
    elif isinstance(output, list):
        called = objects_in(output)
        if called and all("toolName" in one and "toolCallId" in one for one in called):
            calls: list[Json] = [
                {
                    "type": "tool-call",
                    **one,
                    "input": parse_value(one.get("input", one.get("args"))),
                }
                for one in called
            ]
            yield {"role": "assistant", "content": calls}
        else:
            yield from output
    elif isinstance(output, dict):
        choices = objects_in(output.get("choices"))
        message = object_in(choices[0].get("message")) if choices else output
        if message.keys() & {"role", "content", "tool_calls", "type", "parts"}:
            yield message if "role" in message or "type" in message else {
                "role": "assistant", **message
            }  # fmt: skip
        elif message:  # an object that the model was asked for
            text = message.get("text") if len(message) == 1 else None
            content = text if isinstance(text, str) else compact(message)
            yield {"role": "assistant", "content": content}


def _with_facts(event: Event, row: JsonObject) -> Event:
    """The answer with what was counted."""
    model = _model_of(row) or None
    return msgspec.structs.replace(
        with_counts(event, _counts(row)), model_version=model or event.model_version
    )


def _model_of(row: JsonObject) -> str:
    names = ("model", "provided_model_name", "providedModelName", "internalModel")
    return next((name for key in names if (name := text_at(row, key))), "")


def _counts(row: JsonObject) -> JsonObject:
    named = (row.get(key) for key in ("usageDetails", "usage_details", "usage"))
    return object_in(parse_value(next(filter(None, named), None)))
