"""Spans of any exporter, taken over OTLP/HTTP: what `weft inspect --listen` shows.

`/v1/traces` takes spans and `/v1/logs` the events of GenAI conventions that are sent by themselves,
each as protobuf or JSON, packed or not. `/v1/traces/ingest` takes what the exporter of
openai-agents sends. Numbers, `/v1/metrics`, are taken and dropped: an exporter that sends them too
should not fail. Spans in which nothing was said to a model are dropped and counted.
"""

import asyncio
import base64
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from weft.dialects.wire import objects_in, text_at
from weft.inspector.live import LiveSessions
from weft.recordings.spans import (
    beginning_of_span,
    conversation_of,
    kind_of_span,
    list_raw_spans,
    list_records,
    list_spans,
    read_attributes,
)
from weft.server.access import headers_of
from weft.server.problems import Problem
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan

LARGEST = 64_000_000
"""Bytes of a body, unpacked."""

_AT_ONCE = 4
"""How many bodies may arrive at a time; others wait."""

_KNOWN = 20_000
"""How many traces are remembered with the group that they are in."""

_LONGEST = 1_000
"""Spans of a group from which on others join it only where they say that they belong to it."""

_PROTOBUF = ("application/x-protobuf", "application/protobuf", "application/octet-stream")


class SpanReceiver:
    """Takes what exporters send, and puts it into sessions."""

    def __init__(self, sessions: LiveSessions) -> None:
        self._sessions = sessions
        self._groups: OrderedDict[str, str] = OrderedDict()
        """The group of a trace, and of a conversation's beginning."""
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._reading = asyncio.Lock()
        self.dropped = 0
        """How many spans had nothing to do with a model."""
        self._readers: Mapping[str, Callable[[bytes, str], Response]] = {
            "/v1/traces": self._read_traces,
            "/v1/logs": self._read_logs,
            "/v1/traces/ingest": self._read_ingested,
            "/v1/metrics": lambda body, kind: _accept(kind),
        }

    def around(self, inner: ASGIApp) -> ASGIApp:
        """An application that takes what is sent here, and leaves the rest to another."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            reader = self._readers.get(scope["path"])
            if reader is None or scope["type"] != "http":
                await inner(scope, receive, send)
                return
            try:
                response = await self._take(scope, receive, reader)
            except Problem as problem:
                response = problem.response()
            await response(scope, receive, send)

        return answer

    async def _take(
        self, scope: Scope, receive: Receive, reader: Callable[[bytes, str], Response]
    ) -> Response:
        if scope["method"] != "POST":
            raise Problem(405, "method", f"{scope['path']} takes POST", headers={"allow": "POST"})
        headers = headers_of(scope)
        kind = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        if kind != "application/json" and kind not in _PROTOBUF:
            raise Problem(
                415,
                "media-type",
                f"the body is {kind[:100] or 'of no type'}",
                hint="send application/x-protobuf or application/json: OTLP over HTTP, not gRPC",
            )
        async with self._places:
            raw = await _read_body(receive)
            packing = headers.get(b"content-encoding", b"").decode("latin-1").lower()
            # in a thread: ten thousand spans take a while, and the page is answered meanwhile
            body = await asyncio.to_thread(_unpack, raw, packing)
            async with self._reading:
                return await asyncio.to_thread(reader, body, kind)

    # What is sent

    def _read_traces(self, body: bytes, kind: str) -> Response:
        if kind == "application/json":
            return self._keep(list_raw_spans(_read_json(body)), kind)
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        sent = ExportTraceServiceRequest()
        _parse(sent.ParseFromString, body)
        spans = (
            _json_of_span(span)
            for resource in sent.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        )
        return self._keep(spans, kind)

    def _read_ingested(self, body: bytes, kind: str) -> Response:
        """What openai-agents sends: traces and spans in one list."""
        listed = objects_in(_read_json(body).get("data"))
        for trace in listed:
            named = text_at(trace, "group_id")
            if trace.get("object") == "trace" and named:
                self._place(text_at(trace, "id"), named, "")
        return self._keep((one for one in listed if one.get("object") == "trace.span"), kind)

    def _read_logs(self, body: bytes, kind: str) -> Response:
        if kind == "application/json":
            for record in list_records(_read_json(body)):
                fields = read_attributes(record.get("attributes"))
                name = text_at(record, "eventName") or text_at(fields, "event.name")
                value = read_attributes([{"key": "body", "value": record.get("body")}])["body"]
                trace, span = text_at(record, "traceId"), text_at(record, "spanId")
                self._keep_event(name, trace, span, fields, value)
            return _accept(kind)
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        sent = ExportLogsServiceRequest()
        _parse(sent.ParseFromString, body)
        for resource in sent.resource_logs:
            for scope in resource.scope_logs:
                for sent_record in scope.log_records:
                    self._keep_record(sent_record)
        return _accept(kind)

    def _keep_record(self, record: "LogRecord") -> None:
        fields = _json_of_pairs(record.attributes)
        name = record.event_name or text_at(fields, "event.name")
        trace, span = record.trace_id.hex(), record.span_id.hex()
        self._keep_event(name, trace, span, fields, _json_of_value(record.body))

    # Where it belongs

    def _keep(self, spans: Iterable[JsonObject], kind: str) -> Response:
        unread = 0
        for raw in spans:
            listed = list_spans(raw)
            if not listed or not listed[0].trace:
                unread += 1
                continue
            (span, *_) = listed
            if not kind_of_span(span):
                self.dropped += 1
                continue
            begins = beginning_of_span(span)
            group = self._place(span.trace, conversation_of(span), begins)
            self._sessions.add(group, msgspec.json.encode(raw), id=span.id)
        return _accept(kind, unread)

    def _keep_event(self, name: str, trace: str, span: str, fields: JsonObject, body: Json) -> None:
        if not name.startswith("gen_ai.") or not span:
            return
        event: JsonObject = {"name": name, "attributes": fields, "body": body}
        group = self._place(trace, text_at(fields, "gen_ai.conversation.id"), "")
        self._sessions.add_event(group, span, msgspec.json.encode(event))

    def _place(self, trace: str, conversation: str, beginning: str) -> str:
        """The group of a trace: that of its conversation, where one is named or found.

        A span that names the conversation may come after others of its trace.
        """
        known = self._groups.get(trace)
        group = f"conversation {conversation}" if conversation else known or trace
        if not conversation and beginning and not group.startswith("conversation "):
            # one trace a turn: the next turn begins as the one before did
            other = self._groups.get(beginning, "")
            if other and self._sessions.count_lines(other) < _LONGEST:
                group = other
        if known is not None and known != group:
            self._sessions.merge(known, group)
        if conversation:
            self._sessions.name_group(group, conversation)
        for key in (trace, beginning):
            if key and (key == trace or not conversation):
                self._groups[key] = group
                self._groups.move_to_end(key)
        while len(self._groups) > _KNOWN:
            self._groups.popitem(last=False)
        return group


async def _read_body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "disconnected", "the client left")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > LARGEST:
            raise _too_large()
        more = message.get("more_body", False)
    return b"".join(pieces)


def _too_large() -> Problem:
    return Problem(
        413,
        "too-large",
        f"the body has more than {LARGEST:,} bytes, unpacked",
        hint="send fewer spans at once: OTEL_BSP_MAX_EXPORT_BATCH_SIZE=64",
    )


def _unpack(raw: bytes, packing: str) -> bytes:
    if packing in ("", "identity"):
        return raw
    if packing not in ("gzip", "deflate"):
        raise Problem(415, "encoding", f"the body is packed as {packing[:40]}", hint="send gzip")
    unpacker = zlib.decompressobj(47)
    try:
        body = unpacker.decompress(raw, LARGEST + 1)
    except zlib.error as error:
        raise Problem(400, "malformed", f"the body cannot be unpacked: {error}") from None
    if len(body) > LARGEST:
        raise _too_large()
    if not unpacker.eof:
        raise Problem(400, "malformed", "the body cannot be unpacked: it is torn")
    return body


def _read_json(body: bytes) -> JsonObject:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "malformed", f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Problem(400, "malformed", "the body is not an object", hint="send OTLP's JSON")
    return cast("JsonObject", value)


def _parse(parse: Callable[[bytes], int], body: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        parse(body)
    except DecodeError:
        raise Problem(
            400,
            "malformed",
            "the body is not the protobuf of OTLP",
            hint="send an ExportTraceServiceRequest or ExportLogsServiceRequest, or JSON with"
            " Content-Type: application/json",
        ) from None


def _accept(kind: str, unread: int = 0) -> Response:
    """The answer that all was taken, but for spans without a trace."""
    words = f"{unread} spans have no trace, so nobody can say where they belong"
    if kind == "application/json":
        partial = {"partialSuccess": {"rejectedSpans": str(unread), "errorMessage": words}}
        return Response(msgspec.json.encode(partial if unread else {}), media_type=kind)
    if not unread:
        return Response(b"", media_type=kind)
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTracePartialSuccess,
        ExportTraceServiceResponse,
    )

    partly = ExportTracePartialSuccess(rejected_spans=unread, error_message=words)
    answer = ExportTraceServiceResponse(partial_success=partly)
    return Response(answer.SerializeToString(), media_type=kind)


# --- protobuf as the JSON that the reader of files reads


def _json_of_span(span: "SentSpan") -> JsonObject:
    events: list[Json] = [
        {"name": one.name, "attributes": _json_of_pairs(one.attributes)} for one in span.events
    ]
    raw: JsonObject = {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "startTimeUnixNano": span.start_time_unix_nano,
        "endTimeUnixNano": span.end_time_unix_nano,
        "attributes": _json_of_pairs(span.attributes),
    }
    if events:
        raw["events"] = events
    if span.status.code:
        raw["status"] = {"code": span.status.code, "message": span.status.message}
    return raw


def _json_of_pairs(pairs: "Iterable[KeyValue]") -> JsonObject:
    return {pair.key: _json_of_value(pair.value) for pair in pairs}


def _json_of_value(value: "AnyValue") -> Json:
    match value.WhichOneof("value"):
        case "array_value":
            return [_json_of_value(one) for one in value.array_value.values]
        case "kvlist_value":
            return _json_of_pairs(value.kvlist_value.values)
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode("ascii")
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bool_value":
            return value.bool_value
        case _:
            return None
