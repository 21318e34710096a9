"""Spans and metrics, as a collector receives them."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.server.live import serving
from weft import Agent, Approve, Content, Part, RunConfig, Runner, tool
from weft.interop import otel
from weft.interop.otel import Telemetry
from weft.ir import ModelResponse, Prompt
from weft.server import app
from weft.session import Usage
from weft.stores import open_store
from weft.testing import ScriptedModel, call
from weft.turns import Worker, open_turns

KEY = "sk-" + "a1B2" * 12


class Received(NamedTuple):
    """A span that a collector was sent."""

    name: str
    id: str
    parent: str
    trace: str
    attributes: dict[str, Any]
    failed: bool


class Collector:
    """An OTLP endpoint, and what programs sent it."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.metrics: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.tracers = TracerProvider()
        exporter = OTLPSpanExporter(f"{self.url}/v1/traces")
        self.tracers.add_span_processor(SimpleSpanProcessor(exporter))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{self.url}/v1/metrics"))
        self.meters = MeterProvider([reader])

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource.scope_metrics:
                    self.metrics |= {metric.name for metric in scope.metrics}
            return
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {one.key: _read_value(one.value) for one in span.attributes}
                    self.spans.append(
                        Received(
                            span.name,
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.trace_id.hex(),
                            values,
                            span.status.code == 2,
                        )
                    )

    def telemetry(self, **options: Any) -> Telemetry:
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def tree(self, *, stores: bool = False) -> list[str]:
        """The names of all spans, each below its parent, in the order in which they began."""
        known = {span.id for span in self.spans}
        lines: list[str] = []

        def draw(parent: str, depth: int) -> None:
            for span in self.spans:
                above = span.parent if span.parent in known else ""
                if above == parent and (stores or span.name != "store"):
                    lines.append("  " * depth + span.name)
                    draw(span.id, depth + 1)

        draw("", 0)
        return lines

    def named(self, name: str) -> Received:
        return next(span for span in self.spans if span.name == name)


def _read_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.tracers.shutdown()
    collector.meters.shutdown()
    collector.server.shutdown()
    collector.server.server_close()


@tool
async def weigh(what: str) -> str:
    """Weigh something."""
    with trace.get_tracer("mine").start_as_current_span("mine"):
        return f"{what} weighs 2 kg; key {KEY}"


def _answer(words: str) -> ModelResponse:
    paid = Usage(prompt_token_count=90, candidates_token_count=4, cached_content_token_count=60)
    return ModelResponse(
        content=Content(parts=(Part(text=words),), role="model"), usage=paid, finish_reason="STOP"
    )


async def test_a_run_is_a_tree_of_spans_with_tokens_and_without_what_was_said(
    collector: Collector,
) -> None:
    model = ScriptedModel([call("weigh", what="a cat"), _answer("2 kg, says Ann")])
    bot = Agent("bot", model=model, tools=[weigh])
    runner = Runner(bot, app_name="shop", plugins=[collector.telemetry()])
    await runner.run("How heavy is it?", session_id="s1")
    collector.meters.force_flush()
    assert collector.tree() == [
        "invoke_workflow shop",
        "  invoke_agent bot",
        "    compile",
        "    chat scripted",
        "    execute_tool weigh",
        "    compile",
        "    chat scripted",
    ]
    chats = [span for span in collector.spans if span.name.startswith("chat")]
    assert chats[1].attributes | {"gen_ai.provider.name": ""} == {
        "gen_ai.conversation.id": "s1",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "",
        "gen_ai.request.model": "scripted",
        "gen_ai.agent.name": "bot",
        "gen_ai.response.finish_reasons": ["STOP"],
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 60,
    }
    assert collector.named("compile").attributes["weft.compile.tokens"] > 0
    assert {span.trace for span in collector.spans} == {collector.spans[0].trace}
    assert sum(span.name == "store" for span in collector.spans) >= 3
    assert "Ann" not in str(collector.spans)
    assert "heavy" not in str(collector.spans)
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= collector.metrics


async def test_content_is_told_where_it_is_wanted_and_keys_never(collector: Collector) -> None:
    model = ScriptedModel([call("weigh", what="a cat"), _answer("2 kg, says Ann")])
    bot = Agent("bot", model=model, tools=[weigh], instruction="Be brief.")
    await Runner(bot, plugins=[collector.telemetry(content=True)]).run("How heavy is it?")
    chat = [span for span in collector.spans if span.name.startswith("chat")][-1]
    asked = json.loads(chat.attributes["gen_ai.input.messages"])
    assert [one["role"] for one in asked] == ["user", "assistant", "tool"]
    assert asked[0]["parts"] == [{"type": "text", "content": "How heavy is it?"}]
    assert "Be brief." in chat.attributes["gen_ai.system_instructions"]
    (answer,) = json.loads(chat.attributes["gen_ai.output.messages"])
    assert answer["parts"] == [{"type": "text", "content": "2 kg, says Ann"}]
    result = collector.named("execute_tool weigh").attributes["gen_ai.tool.call.result"]
    assert "weighs 2 kg" in result
    assert KEY not in str(collector.spans)


class SpanHandler(logging.Handler):
    """Writes down the span of each log line, as OpenTelemetry's handlers find it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: set[tuple[str, str, str]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        span = trace.get_current_span().get_span_context()
        self.lines.add((record.getMessage(), f"{span.trace_id:032x}", f"{span.span_id:016x}"))


async def test_what_a_tool_logs_belongs_to_its_span(collector: Collector) -> None:
    log, handler = logging.getLogger("tests.shop"), SpanHandler()

    def look(where: str) -> str:
        """Look somewhere."""
        log.warning("looked in %s", where)
        return "a cat"

    async def listen(where: str) -> str:
        """Listen somewhere."""
        await asyncio.sleep(0)
        log.warning("listened in %s", where)
        return "miaow"

    calls = [call("look", where="A"), call("listen", where="B")]
    bot = Agent("bot", model=ScriptedModel([calls, "done"]), tools=[look, listen])
    log.addHandler(handler)
    try:
        await Runner(bot, plugins=[collector.telemetry()]).run("Where?")
    finally:
        log.removeHandler(handler)
    spans = [collector.named(f"execute_tool {name}") for name in ("look", "listen")]
    words = ("looked in A", "listened in B")
    assert handler.lines == {
        (line, span.trace, span.id) for line, span in zip(words, spans, strict=True)
    }
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_model_logs_belongs_to_its_span(collector: Collector, streamed: bool) -> None:
    log, handler = logging.getLogger("tests.shop"), SpanHandler()

    async def reply(prompt: Prompt) -> str:
        await asyncio.sleep(0)
        log.warning("asked about %s", prompt.agent)
        return "one two three"

    first, second = (Agent(name, model=ScriptedModel([reply])) for name in ("first", "second"))
    runner = Runner(first | second, plugins=[collector.telemetry()])
    log.addHandler(handler)
    try:
        async for event in runner.run("Where?", config=RunConfig(stream=streamed)):
            assert not trace.get_current_span().get_span_context().is_valid, event
    finally:
        log.removeHandler(handler)
    chats = [span for span in collector.spans if span.name.startswith("chat")]
    agents = {span.id: span.attributes["gen_ai.agent.name"] for span in chats}
    assert {(line, agents[id]) for line, _, id in handler.lines} == {
        ("asked about first", "first"),
        ("asked about second", "second"),
    }


async def test_agents_of_every_shape_stand_where_they_run(collector: Collector) -> None:
    def agent(name: str, *answers: Any, **more: Any) -> Agent:
        return Agent(name, model=ScriptedModel([*answers]), **more)

    inner = agent("inner", "4", description="Adds.")
    desk = agent("desk", call("inner", request="2+2"), "four", tools=[inner])
    flow = agent("first", "a") >> (agent("left", "l") | agent("right", "r")) >> desk
    await Runner(flow, app_name="shop", plugins=[collector.telemetry()]).run("go")
    lines = [line for line in collector.tree() if "compile" not in line and "chat" not in line]
    assert lines[:2] == ["invoke_workflow shop", "  invoke_agent first"]
    assert {"  invoke_agent left", "  invoke_agent right"} == {*lines[2:4]}
    assert lines[4:] == [
        "  invoke_agent desk",
        "    execute_tool inner",
        "      invoke_agent inner",
    ]


async def test_what_fails_waits_or_is_handed_over_says_so(collector: Collector) -> None:
    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        raise ValueError("the bank is closed")

    helper = Agent("helper", model=ScriptedModel([call("pay", amount=3), "sorry"]), tools=[pay])
    desk = Agent(
        "desk",
        model=ScriptedModel([call("transfer_to_agent", agent_name="helper")]),
        sub_agents=[helper],
    )
    runner = Runner(desk, plugins=[collector.telemetry()])
    result = await runner.run("pay", session_id="s")
    assert collector.named("invoke_agent helper").attributes["weft.waits"] is True
    assert (
        collector.named("invoke_agent desk").parent == collector.named("invoke_agent helper").parent
    )
    (waiting,) = result.waiting
    await runner.resume(session_id="s", answers={waiting: Approve()})
    failed = [span for span in collector.spans if span.failed]
    assert [span.name for span in failed] == ["execute_tool pay"]
    assert failed[0].attributes["error.type"] == "tool_error"


async def test_a_run_that_is_cancelled_ends_its_spans(collector: Collector) -> None:
    class Slow(ScriptedModel):
        async def generate(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]
            await asyncio.sleep(30)
            yield _answer("late")

    running = asyncio.ensure_future(
        Runner(Agent("bot", model=Slow([])), plugins=[collector.telemetry()]).run("go")
    )
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [line.split()[0] for line in collector.tree()] == [
        "invoke_workflow", "invoke_agent", "compile", "chat",
    ]  # fmt: skip


async def test_without_an_sdk_no_step_is_traced(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def begin(trace: otel._Trace, name: str, *more: Any, **options: Any) -> Any:
        steps.append(name)
        return begin_span(trace, name, *more, **options)

    begin_span = otel._Trace._begin
    monkeypatch.setattr(otel._Trace, "_begin", begin)
    for telemetry, names in (
        (Telemetry(), []),
        (Telemetry(meter_provider=collector.meters), ["invoke_agent bot", "compile", "chat m"]),
    ):
        bot = Agent("bot", model=ScriptedModel([_answer("hi")], name="m"))
        assert (await Runner(bot, plugins=[telemetry]).run("hello")).text == "hi"
        assert [name for name in steps if name != "store"] == names
    collector.meters.force_flush()
    assert "gen_ai.client.token.usage" in collector.metrics
    assert collector.spans == []


async def test_a_collector_that_is_down_costs_the_run_nothing() -> None:
    tracers = TracerProvider()
    exporter = OTLPSpanExporter("http://127.0.0.1:9/v1/traces", timeout=1)
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    tracers.add_span_processor(BatchSpanProcessor(exporter))
    bot = Agent("bot", model=ScriptedModel(["hi"]))
    result = await Runner(bot, plugins=[Telemetry(tracer_provider=tracers)]).run("hello")
    assert result.text == "hi"


async def test_one_trace_goes_through_server_queue_and_worker(
    collector: Collector, tmp_path: Path
) -> None:
    def runner() -> Runner:
        bot = Agent("bot", model=ScriptedModel(["hi"]))
        return Runner(bot, app_name="shop", store=store, plugins=[collector.telemetry()])

    store = open_store(f"sqlite:///{tmp_path}/weft.db")
    sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with serving(app(runner(), turns=open_turns(store))) as live, live.client() as client:
        posted = client.post(
            "/api/apps/shop/sessions/s/runs",
            json={"message": "hello", "create": True, "request_id": "r"},
            headers={"traceparent": sent},
        )
        assert posted.status_code == 202
    worker = Worker(runner(), turns=open_turns(store))
    working = asyncio.create_task(worker.run())
    while not any(span.name == "invoke_workflow shop" for span in collector.spans):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    worker.stop()
    await working
    put, run = collector.named("put turn"), collector.named("invoke_workflow shop")
    assert (put.trace, put.parent) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert (run.trace, run.parent) == (put.trace, put.id)
