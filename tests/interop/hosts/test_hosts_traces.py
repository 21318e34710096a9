"""Agent libraries that send their traces to the inspector, by their own exporters.

Each runs a program with a tool and two turns on a scripted model. The page must have the requests
that the model got, the answers that it gave, and the results of the tool.
"""

import asyncio
import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="nothing can be sent")

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.server.listening import get, listen, talks_on_page
from tests.server.live import Live

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

pytestmark = pytest.mark.filterwarnings("ignore")

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def require(name: str) -> Any:
    """The library, or the test is skipped."""
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed")


def tracing(live: Live) -> TracerProvider:
    """Traces that are sent to the page in batches, as programs send them."""
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{live.url}/v1/traces")))
    return tracers


def look(city: str) -> str:
    """Look at the sky."""
    return f"sunny in {city}"


def check_page(live: Live, system: str, *, agent: str = "") -> None:
    """The page has one session with the calls that were made, each with its answer and results."""
    rows = get(live, "sessions")
    assert [(row["first"], row["steps"]) for row in rows] == [("Weather?", 3)], rows
    if agent:
        assert rows[0]["agents"] == [agent]
    (calls,) = talks_on_page(live)
    answers = [answer for _, answer in calls]
    assert answers[0].startswith("look "), answers
    assert "sunny in Oslo" in answers[0], answers
    assert answers[1:] == ["Sun.", "Bye."]
    requests = [said for said, _ in calls]
    assert all(system in said[0] for said in requests)
    assert [len(one) for one in requests] == [2, 3, 5]
    assert requests[0][1:] == ["Weather?"]
    assert "sunny in Oslo" in requests[1][2]
    assert requests[2][-2:] == ["Sun.", "Thanks"]


def test_pydantic_ai() -> None:
    require("pydantic_ai.capabilities")
    from pydantic_ai import Agent
    from pydantic_ai.capabilities.instrumentation import Instrumentation
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.models.instrumented import InstrumentationSettings

    answers = iter([ToolCallPart("look", {"city": "Oslo"}), TextPart("Sun."), TextPart("Bye.")])

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[next(answers)])

    with listen() as live:
        tracers = tracing(live)
        settings = InstrumentationSettings(tracer_provider=tracers)
        agent = Agent(
            FunctionModel(answer), name="sky", instructions="Be brief.", tools=[look],
            capabilities=[Instrumentation(settings=settings)],
        )  # fmt: skip

        async def talk() -> None:
            first = await agent.run("Weather?")
            await agent.run("Thanks", message_history=first.all_messages())

        asyncio.run(talk())
        tracers.shutdown()
        check_page(live, "Be brief.", agent="sky")


def test_openai_agents() -> None:
    require("agents.tracing")
    import httpx
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool, trace
    from agents.tracing import set_trace_processors
    from agents.tracing.processors import BackendSpanExporter, BatchTraceProcessor
    from openai import AsyncOpenAI

    function = {"name": "look", "arguments": '{"city": "Oslo"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    messages = iter([{"tool_calls": [call]}, {"content": "Sun."}, {"content": "Bye."}])

    def answer(request: httpx.Request) -> httpx.Response:
        message = {"role": "assistant", "content": None, **next(messages)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-5"}
        return httpx.Response(200, json={**body, "choices": [choice], "usage": usage})

    with listen() as live:
        exporter = BackendSpanExporter(api_key="k", endpoint=f"{live.url}/v1/traces/ingest")
        processor = BatchTraceProcessor(exporter)
        set_trace_processors([processor])
        client = AsyncOpenAI(
            api_key="k", http_client=httpx.AsyncClient(transport=httpx.MockTransport(answer))
        )
        model = OpenAIChatCompletionsModel("gpt-5", client)
        tools: list[Any] = [function_tool(look)]
        agent = Agent(name="sky", instructions="Be brief.", model=model, tools=tools)

        async def talk() -> None:
            with trace("sky"):
                config = RunConfig(tracing_disabled=False)
                first = await Runner.run(agent, "Weather?", run_config=config)
                said = [*first.to_input_list(), {"role": "user", "content": "Thanks"}]
                await Runner.run(agent, said, run_config=config)  # type: ignore[arg-type]

        asyncio.run(talk())
        processor.shutdown()
        set_trace_processors([])
        check_page(live, "Be brief.", agent="sky")
        row = get(live, "sessions")[0]
        assert (row["tokens"], row["models"]) == (90, ["gpt-5"])


def test_langchain() -> None:
    require("langchain.agents.middleware")
    instrumentation = require("openinference.instrumentation.langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage

    class Script(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

    call = {"name": "look", "args": {"city": "Oslo"}, "id": "call_1"}
    answers = [AIMessage("", tool_calls=[call]), AIMessage("Sun."), AIMessage("Bye.")]
    with listen() as live:
        tracers = tracing(live)
        instrumentor = instrumentation.LangChainInstrumentor()
        instrumentor.instrument(tracer_provider=tracers)
        try:
            agent = create_agent(
                Script(messages=iter(answers)), [look], system_prompt="Be brief.", name="sky"
            )
            said: list[BaseMessage] = [HumanMessage("Weather?")]
            said = agent.invoke({"messages": said})["messages"]
            agent.invoke({"messages": [*said, HumanMessage("Thanks")]})
        finally:
            instrumentor.uninstrument()
        tracers.shutdown()
        check_page(live, "Be brief.")


@pytest.mark.parametrize("captured", ["SPAN_ONLY", "EVENT_ONLY"])
def test_google_adk(captured: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("google.adk.plugins")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.adk.telemetry import tracing as own
    from google.genai import types
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    called = types.FunctionCall(name="look", args={"city": "Oslo"})
    parts = [types.Part(function_call=called), types.Part(text="Sun."), types.Part(text="Bye.")]
    answers = iter(parts)

    class Script(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(content=types.Content(role="model", parts=[next(answers)]))

    monkeypatch.setenv(CAPTURE, captured)
    with listen() as live:
        tracers, loggers = tracing(live), LoggerProvider()
        exporter = OTLPLogExporter(f"{live.url}/v1/logs")
        loggers.add_log_record_processor(BatchLogRecordProcessor(exporter))
        # a process has one of each, and this one has several tests
        monkeypatch.setattr(own, "tracer", tracers.get_tracer("google.adk"))
        monkeypatch.setattr(own, "otel_logger", loggers.get_logger("google.adk"))
        agent = LlmAgent(
            name="sky", model=Script(model="gemini-2.5-flash"), instruction="Be brief.",
            tools=[look],
        )  # fmt: skip

        async def talk() -> None:
            runner = InMemoryRunner(agent, app_name="app")
            session = await runner.session_service.create_session(app_name="app", user_id="u")
            for text in ("Weather?", "Thanks"):
                message = types.Content(role="user", parts=[types.Part(text=text)])
                run = runner.run_async(user_id="u", session_id=session.id, new_message=message)
                async for _ in run:
                    pass

        asyncio.run(talk())
        loggers.shutdown()
        tracers.shutdown()
        check_page(live, "Be brief.", agent="sky")
        assert json.dumps(get(live, "sessions")[0]["models"]) == '["gemini-2.5-flash"]'
