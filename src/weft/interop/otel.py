"""OpenTelemetry: spans and metrics of runs, under the names of the GenAI conventions.

`Runner(agent, plugins=[Telemetry()])`. A run is a span, and so is each agent's turn, each compiled
request, each question to a model, each call of a tool and each writing to the store. What people
said is not part of it, unless `content=True`; keys and passwords of a known form never are.

Only the API of OpenTelemetry is used: which SDK sends the spans where is the application's
business. Without an SDK nothing is recorded.
"""

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextvars import Token
from typing import TYPE_CHECKING

from weft.compiler import Compilation
from weft.content import Content, FunctionCall
from weft.declare import CallbackContext
from weft.detect import mask_secrets
from weft.errors import DeclarationError
from weft.interop import genai
from weft.ir import Block, CallBlock, ModelResponse, ResultBlock, TextBlock, ThoughtBlock
from weft.runtime.place import NodeFailed, Place, Suspended, paths_around
from weft.runtime.plugins import RunOutcome
from weft.runtime.program import Plugin
from weft.runtime.tool_call import Outcome
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanKind, TracerProvider
    from opentelemetry.util.types import AttributeValue

_SCOPE = "weft"


class Telemetry(Plugin):
    """Tells OpenTelemetry about runs: spans, tokens, seconds.

    `content` adds what was said, called and returned. The providers are OpenTelemetry's global ones
    unless others are given.
    """

    name = "telemetry"

    def __init__(
        self,
        *,
        content: bool = False,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            raise DeclarationError(
                "opentelemetry is not installed",
                where="Telemetry",
                hint="pip install 'weft[otel]'",
            ) from None
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._tokens = meter.create_histogram(genai.TOKEN_USAGE, unit="{token}")
        self._seconds = meter.create_histogram(genai.DURATION, unit="s")
        self._first = meter.create_histogram(genai.FIRST_CHUNK, unit="s")
        self._content = content
        self._has_meters = meter_provider is not None
        self._runs: dict[str, _Trace] = {}

    def trace_run(self, ctx: CallbackContext) -> "_Trace | None":
        """The spans of a run that begins; None where nobody hears of them."""
        run = _Trace(self, ctx)
        if not run.is_heard and not self._is_measured():
            return None
        self._runs[ctx.invocation_id] = run
        return run

    def _is_measured(self) -> bool:
        """Whether an SDK takes the metrics: the API's own providers drop them."""
        if self._has_meters:
            return True
        from opentelemetry import metrics

        provider = type(metrics.get_meter_provider())
        return not provider.__module__.startswith("opentelemetry.metrics")

    def after_run(self, ctx: CallbackContext, outcome: RunOutcome) -> None:
        """End the span of the run."""
        run = self._runs.pop(ctx.invocation_id, None)
        if run is not None:
            run.close(outcome)

    def carry_trace(self) -> str:
        """The span of a turn that is put into a queue, as a `traceparent`; empty without an SDK."""
        from opentelemetry.trace import SpanKind, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier: dict[str, str] = {}
        span = self._tracer.start_span("put turn", kind=SpanKind.PRODUCER)
        TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span))
        span.end()
        return carrier.get("traceparent", "")

    def continue_trace(self, carried: str) -> None:
        """Go on with the trace of a `traceparent` in this task."""
        from opentelemetry.context import attach
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        attach(TraceContextTextMapPropagator().extract({"traceparent": carried}))

    def start(
        self,
        name: str,
        parent: "Context | None",
        kind: "SpanKind",
        attributes: "Mapping[str, AttributeValue]",
    ) -> "Span":
        """A span that has begun."""
        return self._tracer.start_span(name, parent, kind, attributes)

    def measure(
        self, attributes: "Mapping[str, AttributeValue]", seconds: float, first: float | None
    ) -> None:
        """Count a question to a model."""
        self._seconds.record(seconds, attributes)
        if first is not None:
            self._first.record(first, attributes)

    def count(self, kind: str, tokens: int, attributes: "Mapping[str, AttributeValue]") -> None:
        """Count tokens."""
        self._tokens.record(tokens, {**attributes, genai.TOKEN_TYPE: kind})

    @property
    def tells_content(self) -> bool:
        """Whether spans say what was said."""
        return self._content


def open_telemetry() -> Telemetry:
    """Telemetry with an SDK that sends it by HTTP, as OpenTelemetry's variables say.

    One of them, `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`, adds what was said.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise DeclarationError(
            "there is no SDK of OpenTelemetry that sends anything",
            where="--telemetry",
            hint="pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
        ) from None
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
    content = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower()
    return Telemetry(
        content=content in ("true", "1", "span_only", "span_and_event"),
        tracer_provider=tracers,
        meter_provider=meters,
    )


class _Trace:
    """The spans of one run."""

    def __init__(self, telemetry: Telemetry, ctx: CallbackContext) -> None:
        from opentelemetry.trace import SpanKind

        self.telemetry = telemetry
        self.about: dict[str, AttributeValue] = {genai.CONVERSATION: ctx.session_id}
        self._open: dict[tuple[str, str], Context] = {}
        """The turn that an agent has, by the call that it runs inside and its path."""
        self._calls: dict[str, Context] = {}
        """The calls of tools that are under way, by their ids."""
        self._root = _Span(
            self,
            f"{genai.INVOKE_WORKFLOW} {ctx.app_name}",
            None,
            SpanKind.INTERNAL,
            {
                genai.OPERATION: genai.INVOKE_WORKFLOW,
                genai.WORKFLOW: ctx.app_name,
                "weft.invocation.id": ctx.invocation_id,
            },
        )
        self._steps: set[_Span] = set()
        """The spans that have not ended."""
        self.is_heard = self._root.is_heard
        """Whether an SDK or a trace from elsewhere is there."""

    def begin_agent(self, agent: str, place: Place) -> "_Span":
        """An agent has its turn."""
        attributes = {genai.OPERATION: genai.INVOKE_AGENT, genai.AGENT: agent}
        parent = self._find_context(place)
        span = self._begin(f"{genai.INVOKE_AGENT} {agent}", parent, attributes)
        key = (place.scope, place.path)
        before = self._open.get(key)
        self._open[key] = span.context

        def leave() -> None:
            if before is not None:
                self._open[key] = before
            else:
                self._open.pop(key, None)

        span.leave = leave
        return span

    def begin_compile(self, agent: str, place: Place) -> "_Span":
        """A request is compiled."""
        return self._begin("compile", self._find_context(place), {genai.AGENT: agent})

    def begin_model(self, agent: str, place: Place, compiled: Compilation) -> "_Span":
        """A model is asked."""
        from opentelemetry.trace import SpanKind

        model = compiled.prompt.model
        attributes: dict[str, AttributeValue] = {
            genai.OPERATION: genai.CHAT,
            genai.PROVIDER: genai.PROVIDERS.get(compiled.dialect, compiled.dialect),
            genai.REQUEST_MODEL: model,
            genai.AGENT: agent,
        }
        span = self._begin(
            f"{genai.CHAT} {model}", self._find_context(place), attributes, SpanKind.CLIENT
        )
        span.measured = {
            key: attributes[key] for key in (genai.OPERATION, genai.PROVIDER, genai.REQUEST_MODEL)
        }
        if self.telemetry.tells_content and span.is_recording:
            prompt = compiled.prompt
            span.tell(genai.INSTRUCTIONS, [_spell_block(block) for block in prompt.system])
            span.tell(genai.INPUT, [*_spell_messages(item.blocks for item in prompt.items)])
        return span

    def begin_tool(self, agent: str, place: Place, call: FunctionCall) -> "_Span":
        """A tool is called. What it starts itself, in its own task, is below it."""
        from opentelemetry.context import attach, detach

        name, id = call.name or "", call.id or ""
        attributes = {
            genai.OPERATION: genai.EXECUTE_TOOL,
            genai.TOOL: name,
            genai.TOOL_CALL: id,
            genai.AGENT: agent,
        }
        span = self._begin(f"{genai.EXECUTE_TOOL} {name}", self._find_context(place), attributes)
        if self.telemetry.tells_content:
            span.tell(genai.TOOL_ARGUMENTS, call.args or {})
        self._calls[id] = span.context
        token: Token[Context] = attach(span.context)

        def leave() -> None:
            self._calls.pop(id, None)
            detach(token)

        span.leave = leave
        return span

    def begin_store(self, place: Place, count: int) -> "_Span":
        """Events are stored."""
        return self._begin("store", self._find_context(place), {"weft.store.events": count})

    def close(self, outcome: RunOutcome) -> None:
        """The run is over, and all that it left open with it."""
        for step in [*self._steps]:
            step.end()
        self._root.set("weft.run.status", outcome.status)
        if outcome.event is not None:
            self._root.fail(outcome.event.error_code or "error", outcome.event.error_message or "")
        elif outcome.error is not None:
            self._root.fail(type(outcome.error).__name__, str(outcome.error))
        self._root.end()

    def forget(self, step: "_Span") -> None:
        """A step that has ended."""
        self._steps.discard(step)

    def _find_context(self, place: Place) -> "Context":
        """The innermost step that a place stands in."""
        for path in paths_around(place.path):
            turn = self._open.get((place.scope, path))
            if turn is not None:
                return turn
        if place.scope:
            return self._calls.get(place.scope, self._root.context)
        return self._open.get(("", ""), self._root.context)

    def _begin(
        self,
        name: str,
        parent: "Context",
        attributes: "Mapping[str, AttributeValue]",
        kind: "SpanKind | None" = None,
    ) -> "_Span":
        from opentelemetry.trace import SpanKind

        span = _Span(self, name, parent, kind or SpanKind.INTERNAL, attributes)
        self._steps.add(span)
        return span


class _Span:
    """A span that has begun, as a step of a run."""

    def __init__(
        self,
        trace: _Trace,
        name: str,
        parent: "Context | None",
        kind: "SpanKind",
        attributes: "Mapping[str, AttributeValue]",
    ) -> None:
        from opentelemetry.trace import set_span_in_context

        self._trace = trace
        self._span = trace.telemetry.start(name, parent, kind, {**trace.about, **attributes})
        self._begun = time.perf_counter()
        self._first: float | None = None
        self._is_over = False
        self.context = set_span_in_context(self._span, parent)
        self.is_recording = self._span.is_recording()
        self.is_heard = self.is_recording or self._span.get_span_context().is_valid
        self.leave: Callable[[], None] | None = None
        """What is to be done when it ends."""
        self.measured: dict[str, AttributeValue] = {}
        """What is said of it in metrics, if it counts there."""

    def set(self, name: str, value: "AttributeValue | None") -> None:
        """Say something of it, if there is something to say."""
        if value is not None:
            self._span.set_attribute(name, value)

    def tell(self, name: str, value: Json) -> None:
        """Say what was said, without keys and passwords."""
        if self.is_recording:
            self._span.set_attribute(name, mask_secrets(compact(value)))

    def fail(self, kind: str, words: str) -> None:
        """It has failed."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute(genai.ERROR, kind)
        self._span.set_status(Status(StatusCode.ERROR, mask_secrets(words)))
        if self.measured:
            self.measured[genai.ERROR] = kind

    def note_chunk(self) -> None:
        """A piece of an answer has come."""
        if self._first is None:
            self._first = time.perf_counter() - self._begun
            self.set(genai.REQUEST_STREAM, value=True)
            self.set(genai.RESPONSE_FIRST_CHUNK, self._first)

    async def follow(self, answers: AsyncIterator[ModelResponse]) -> AsyncIterator[ModelResponse]:
        """The answers of a model; while one is waited for, this is the span at work."""
        from opentelemetry.context import attach, detach

        stream = aiter(answers)
        try:
            while True:
                # never while the consumer has the word: this task is the consumer's
                token = attach(self.context)
                try:
                    answer = await anext(stream)
                except StopAsyncIteration:
                    return
                finally:
                    detach(token)
                yield answer
        finally:
            if isinstance(answers, AsyncGenerator):
                await answers.aclose()

    def end(
        self, outcome: "Compilation | ModelResponse | Outcome | BaseException | None" = None
    ) -> None:
        """It is over, with what came of it."""
        if self._is_over:
            return
        self._is_over = True
        if isinstance(outcome, Compilation):
            self._note_request(outcome)
        elif isinstance(outcome, ModelResponse):
            self._note_answer(outcome)
        elif isinstance(outcome, Outcome):
            self._note_result(outcome)
        elif isinstance(outcome, Suspended):
            self.set("weft.waits", value=True)
        elif isinstance(outcome, NodeFailed):
            self.fail(outcome.event.error_code or "error", outcome.event.error_message or "")
        elif isinstance(outcome, BaseException):
            self.fail(type(outcome).__name__, str(outcome))
        if self.measured:
            seconds = time.perf_counter() - self._begun
            self._trace.telemetry.measure(self.measured, seconds, self._first)
        if self.leave is not None:
            self.leave()
        self._trace.forget(self)
        self._span.end()

    def _note_request(self, compiled: Compilation) -> None:
        if not self.is_recording:
            return
        prompt = compiled.prompt
        self.set(genai.REQUEST_MODEL, prompt.model)
        self.set("weft.compile.tokens", compiled.tokens)
        self.set("weft.compile.items", len(prompt.items))
        self.set("weft.compile.left_out", len(prompt.notes))
        codes = sorted({one.code for one in prompt.diagnostics})
        self.set("weft.compile.diagnostics", codes or None)

    def _note_answer(self, response: ModelResponse) -> None:
        if response.error_code is not None:
            self.fail(response.error_code, response.error_message or "")
        self.set(genai.RESPONSE_MODEL, response.model_version)
        if response.finish_reason:
            self.set(genai.FINISH_REASONS, [response.finish_reason])
        usage, count = response.usage, self._trace.telemetry.count
        if usage is not None:
            self.set(genai.INPUT_TOKENS, usage.prompt_token_count)
            self.set(genai.OUTPUT_TOKENS, usage.candidates_token_count)
            self.set(genai.CACHED_TOKENS, usage.cached_content_token_count)
            count("input", usage.prompt_token_count or 0, self.measured)
            count("output", usage.candidates_token_count or 0, self.measured)
        if self._trace.telemetry.tells_content and response.content is not None:
            self.tell(genai.OUTPUT, [_spell_answer(response.content, response.finish_reason)])

    def _note_result(self, outcome: Outcome) -> None:
        response = outcome.response
        if outcome.raised is not None:
            self.fail(type(outcome.raised).__name__, str(outcome.raised))
        elif response is None:
            self.set("weft.waits", value=True)
        elif "error" in response:
            self.fail("tool_error", str(response["error"]))
        if response is not None and self._trace.telemetry.tells_content:
            self.tell(genai.TOOL_RESULT, response)


def _spell_messages(rows: Iterable[tuple[Block, ...]]) -> Iterable[JsonObject]:
    """Messages as the conventions spell them: neighbours of one role are one."""
    for blocks in rows:
        role, parts = "", list[Json]()
        for block in blocks:
            named = "tool" if isinstance(block, ResultBlock) else genai.ROLES[block.role]
            if named != role and parts:
                yield {"role": role, "parts": parts}
                parts = []
            role = named
            parts.append(_spell_block(block))
        if parts:
            yield {"role": role, "parts": parts}


def _spell_block(block: Block) -> JsonObject:
    if isinstance(block, CallBlock):
        return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.args}
    if isinstance(block, ResultBlock):
        return {"type": "tool_call_response", "id": block.call_id, "response": block.response}
    if isinstance(block, ThoughtBlock):
        return {"type": "reasoning", "content": block.text}
    if isinstance(block, TextBlock):
        return {"type": "text", "content": block.text}
    return {"type": "blob", "content": f"[{type(block).__name__}]"}


def _spell_answer(content: Content, finish: str | None) -> JsonObject:
    parts: list[Json] = []
    for part in content.parts or ():
        if part.function_call is not None:
            call = part.function_call
            parts.append(
                {
                    "type": "tool_call",
                    "id": call.id or "",
                    "name": call.name or "",
                    "arguments": call.args or {},
                }
            )
        elif part.text:
            kind = "reasoning" if part.kind == "thought" else "text"
            parts.append({"type": kind, "content": part.text})
    return {"role": "assistant", "parts": parts, "finish_reason": (finish or "stop").lower()}
