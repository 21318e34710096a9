"""Writes the samples of other libraries with those libraries themselves.

Not run by the tests: the libraries are in environments of their own. Each sample has a request
beside it, which is what the library itself would send next.

    .venv-bench/bin/python tests/recordings/make_samples.py langchain pydantic_ai openai_agents
    .venv-adk/bin/python tests/recordings/make_samples.py adk      # needs sqlalchemy, aiosqlite
    .venv-adk/bin/python tests/recordings/make_samples.py adk_router
"""

# pyright: basic
# mypy: ignore-errors

import asyncio
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent / "samples"
SYSTEM = "You help with weather."
ASKED, ANSWERED, AGAIN, LAST = "Weather in Oslo?", "It rains.", "And Bergen?", "It rains there too."


def write(name: str, value: object) -> None:
    (HERE / name).write_text(json.dumps(value, indent=1, default=str) + "\n")


def langchain() -> None:
    from langchain_core.load import dumpd
    from langchain_core.messages import (
        AIMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        convert_to_openai_messages,
        messages_to_dict,
    )

    call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}
    usage = {"input_tokens": 40, "output_tokens": 8, "total_tokens": 48}
    messages = [
        SystemMessage(SYSTEM),
        HumanMessage(ASKED),
        AIMessage("", tool_calls=[call], usage_metadata=usage,
                  response_metadata={"model_name": "gpt-4o-mini", "model_provider": "openai"}),
        ToolMessage('{"sky": "rain"}', tool_call_id="call_1", name="get_weather"),
        AIMessage(ANSWERED),
        HumanMessage([{"type": "text", "text": AGAIN}]),
    ]  # fmt: skip
    write("langchain.json", messages_to_dict(messages))
    write("langchain-flat.json", [one.model_dump(mode="json") for one in messages])
    write("langchain-lc.json", [dumpd(one) for one in messages])
    write("langchain.request.json", {"messages": convert_to_openai_messages(messages)})


def pydantic_ai() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    answers = iter([
        ModelResponse([ToolCallPart("get_weather", {"city": "Oslo"}, "call_1")]),
        ModelResponse([TextPart(ANSWERED)]),
        ModelResponse([TextPart(LAST)]),
    ])  # fmt: skip
    agent = Agent(FunctionModel(lambda messages, info: next(answers)), system_prompt=SYSTEM)

    @agent.tool_plain
    def get_weather(city: str) -> dict[str, str]:
        """Current weather for a city."""
        return {"sky": "rain"}

    first = agent.run_sync(ASKED)
    second = agent.run_sync(AGAIN, message_history=first.all_messages())
    messages = second.all_messages()
    write("pydantic-ai.json", ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
    target = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(api_key="none"))
    parameters = ModelRequestParameters()
    wire = asyncio.run(target._map_messages(messages[:-1], parameters))
    write("pydantic-ai.request.json", {"messages": wire})


def openai_agents() -> None:
    from agents import (
        Agent,
        ModelResponse,
        Runner,
        SQLiteSession,
        Usage,
        function_tool,
        set_tracing_disabled,
    )
    from agents.models.interface import Model
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    set_tracing_disabled(True)

    def said(text):
        part = ResponseOutputText(text=text, type="output_text", annotations=[])
        return ResponseOutputMessage(
            id="msg_1", content=[part], role="assistant", status="completed", type="message"
        )

    outputs = iter([
        [ResponseFunctionToolCall(arguments='{"city":"Oslo"}', call_id="call_1",
                                  name="get_weather", type="function_call", id="fc_1")],
        [said(ANSWERED)],
        [said(LAST)],
    ])  # fmt: skip
    sent = []

    class Scripted(Model):
        async def get_response(self, system_instructions, input, *args, **kwargs):
            sent.append((system_instructions, input))
            return ModelResponse(output=next(outputs), usage=Usage(), response_id=None)

        def stream_response(self, *args, **kwargs):
            raise NotImplementedError

    @function_tool
    def get_weather(city: str) -> str:
        """Current weather for a city."""
        return "rain"

    agent = Agent("weather", instructions=SYSTEM, tools=[get_weather], model=Scripted())
    first = Runner.run_sync(agent, ASKED)
    second = Runner.run_sync(agent, [*first.to_input_list(), {"role": "user", "content": AGAIN}])
    write("openai-agents.json", second.to_input_list())
    database = HERE / "openai-agents.db"
    database.unlink(missing_ok=True)
    session = SQLiteSession("trip", database)
    asyncio.run(session.add_items(second.to_input_list()))
    session.close()
    write("openai-agents.request.json", {"input": sent[-1][1]})


def adk() -> None:
    asyncio.run(_adk())


async def _adk() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions.database_session_service import DatabaseSessionService
    from google.genai import types

    call = types.FunctionCall(name="get_weather", args={"city": "Oslo"}, id="call_1")
    parts = iter([types.Part(function_call=call), types.Part(text=ANSWERED), types.Part(text=LAST)])
    sent = []

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            sent.append(
                [
                    one.model_dump(mode="json", exclude_none=True, by_alias=True)
                    for one in llm_request.contents
                ]
            )
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=40, candidates_token_count=8, total_token_count=48
            )
            yield LlmResponse(
                content=types.Content(role="model", parts=[next(parts)]), usage_metadata=usage
            )  # fmt: skip

    def get_weather(city: str) -> dict[str, str]:
        """Current weather for a city."""
        return {"sky": "rain"}

    database = HERE / "adk.db"
    database.unlink(missing_ok=True)
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{database}")
    agent = LlmAgent(name="weather", model=Scripted(model="gemini-2.5-flash"), instruction=SYSTEM,
                     tools=[get_weather], output_key="answer")  # fmt: skip
    runner = Runner(app_name="desk", agent=agent, session_service=service)
    await service.create_session(
        app_name="desk",
        user_id="ann",
        session_id="trip",
        state={"city": "Oslo", "user:name": "Ann"},
    )
    for text in (ASKED, AGAIN):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in runner.run_async(user_id="ann", session_id="trip", new_message=message):
            pass
    session = await service.get_session(app_name="desk", user_id="ann", session_id="trip")
    events = [one.model_dump(mode="json", exclude_none=True, by_alias=True)
              for one in session.events]  # fmt: skip
    write("adk-events.json", events)
    await _adk_oldest(session)
    write("adk.request.json", {"contents": sent[-1]})


async def _adk_oldest(session) -> None:
    """The same session in the first schema, which pickles actions."""
    from google.adk.sessions.schemas import v0
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session as Connected

    database = HERE / "adk-v0.db"
    database.unlink(missing_ok=True)
    engine = create_engine(f"sqlite:///{database}")
    v0.Base.metadata.create_all(engine)
    with Connected(engine) as connected:
        connected.add(
            v0.StorageSession(app_name="desk", user_id="ann", id="trip", state={"city": "Oslo"})
        )
        for event in session.events:
            connected.add(v0.StorageEvent.from_event(session, event))
        connected.commit()


def adk_router() -> None:
    """A router with two agents, as OpenTelemetry's console exporter writes the spans of ADK.

    Set OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental and
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY: else they hold no words.
    """
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    with (HERE.parent / "router.jsonl").open("w") as out:
        tracers = TracerProvider()
        tracers.add_span_processor(
            SimpleSpanProcessor(
                ConsoleSpanExporter(out=out, formatter=lambda one: one.to_json(indent=None) + "\n")
            )
        )
        trace.set_tracer_provider(tracers)
        asyncio.run(_run_router())
        tracers.shutdown()


async def _run_router() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    class Scripted(BaseLlm):
        script: list

        async def generate_content_async(self, llm_request, stream=False):
            sent = 100 + len(llm_request.contents)
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=sent, candidates_token_count=9, total_token_count=sent + 9
            )
            content = types.Content(role="model", parts=[self.script.pop(0)])
            yield LlmResponse(content=content, usage_metadata=usage)

    def call(name, **arguments):
        return types.Part(function_call=types.FunctionCall(name=name, args=arguments))

    def find_flights(city: str) -> dict:
        """Flights to a city."""
        return {"flights": [f"WF 1 to {city}"]}

    def quote(city: str) -> dict:
        """The price of a trip."""
        return {"price": 120}

    flash, pro = "gemini-2.5-flash", "gemini-2.5-pro"
    looked = [
        call("find_flights", city="Oslo"),
        types.Part(text="WF 1 flies to Oslo."),
        call("transfer_to_agent", agent_name="billing"),
    ]
    quoted = [call("quote", city="Oslo"), types.Part(text="It costs 120.")]
    sent_on = [call("transfer_to_agent", agent_name="flights")]
    flights = LlmAgent(name="flights", description="Finds flights.", tools=[find_flights],
                       instruction="Find flights.",
                       model=Scripted(model=flash, script=looked))  # fmt: skip
    billing = LlmAgent(name="billing", description="Quotes prices.", instruction="Quote prices.",
                       model=Scripted(model=pro, script=quoted), tools=[quote])  # fmt: skip
    router = LlmAgent(name="router", instruction="Send the user to the right agent.",
                      model=Scripted(model=flash, script=sent_on),
                      sub_agents=[flights, billing])  # fmt: skip
    runner = InMemoryRunner(router, app_name="desk")
    await runner.session_service.create_session(app_name="desk", user_id="u", session_id="s")
    for text in ("A flight to Oslo, please.", "And what is the price?"):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name in sys.argv[1:]:
        globals()[name]()
