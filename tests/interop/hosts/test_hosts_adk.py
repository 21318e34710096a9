"""google-adk: programs of its documentation, with and without the plugin."""

import re
import warnings
from collections.abc import AsyncIterator
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

pytest.importorskip("google.adk.plugins", reason="google-adk is not installed")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.adk.agents import LlmAgent, RunConfig, SequentialAgent
    from google.adk.agents.run_config import StreamingMode
    from google.adk.apps import App
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
    from google.adk.models import BaseLlm, LlmRequest, LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
    from google.adk.plugins.logging_plugin import LoggingPlugin
    from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.adk.tools.agent_tool import AgentTool
    from google.adk.workflow import START, Workflow
    from google.genai import types

from pydantic import BaseModel

from tests.interop.hosts.checks import (
    DIGESTS,
    GAUGES,
    NO_EMAIL,
    ROUND,
    SECRET,
    WEIRS,
    Played,
    Program,
    check_program,
    check_protected,
    check_reread,
    look,
    reread,
)
from weft import Policy, Session
from weft.compaction.compact import forget
from weft.interop.adk import WeftPlugin

pytestmark = pytest.mark.filterwarnings("ignore")


class Script(BaseLlm):
    """A model that says what is written down, and keeps what it was sent."""

    model: str = "gemini-2.5-flash"
    steps: list[Any] = []
    requests: list[list[Any]] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        sent = [one.model_dump(mode="json", exclude_none=True) for one in llm_request.contents]
        self.requests.append(sent)
        step = self.steps[len(self.requests) - 1]
        step = step(spell_chat(sent)) if callable(step) else step
        parts = [spell_part(one) for one in ([step] if isinstance(step, str) else step)]
        if stream and isinstance(step, str):
            for words in step.split():
                piece = types.Content(role="model", parts=[types.Part(text=words)])
                yield LlmResponse(content=piece, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class Thought(NamedTuple):
    """What a model thinks, which its provider signs."""

    text: str


def spell_part(said: Any) -> types.Part:
    """A part of an answer: words, a thought or a call."""
    if isinstance(said, str):
        return types.Part(text=said)
    if isinstance(said, Thought):
        return types.Part(text=said.text, thought=True, thought_signature=b"signed")
    return types.Part(function_call=types.FunctionCall(name=said[0], args=said[1]))


def spell_chat(sent: list[Any]) -> list[Any]:
    """The contents of a request as the messages of a chat."""
    return Session.from_messages({"contents": sent}, format="gemini").to_messages("openai-chat")


def read_gauges(place: str) -> str:
    """Read the gauges of a place."""
    return GAUGES[place]


def watcher(script: Script, name: str = "watcher", **options: Any) -> LlmAgent:
    """An agent with the tool of the programs, unless it says what it has."""
    return LlmAgent(
        name=name,
        model=script,
        **{"instruction": "You watch gauges.", "tools": [read_gauges], **options},
    )


async def play(
    added: Any,
    script: Script,
    agent: Any,
    *messages: Any,
    plugins: list[Any] | None = None,
    service: Any = None,
    summaries: Any = None,
    streams: bool = False,
) -> Played:
    """Run a program to its end, in its session or in a new one."""
    app = App(
        name="gauges",
        root_agent=agent,
        plugins=[*([added] if added else []), *(plugins or [])],
        events_compaction_config=summaries,
    )
    service = service or InMemorySessionService()
    runner = Runner(app=app, session_service=service)
    named = {"app_name": "gauges", "user_id": "u", "session_id": "s"}
    if await service.get_session(**named) is None:
        await service.create_session(**named)
    options = RunConfig(streaming_mode=StreamingMode.SSE if streams else StreamingMode.NONE)
    answers: list[str] = []
    for message in messages:
        pieces = [message] if isinstance(message, str) else message
        parts = [types.Part(text=one) if isinstance(one, str) else one for one in pieces]
        async for event in runner.run_async(
            user_id="u",
            session_id="s",
            new_message=types.Content(role="user", parts=parts),
            run_config=options,
        ):
            parts = event.content.parts if event.content is not None else None
            answers += [part.text for part in parts or () if part.text]
    return Played(answers, script.requests, [spell_chat(one) for one in script.requests])


def write_script(*steps: object) -> Script:
    """A model for one run."""
    return Script(steps=[*steps], requests=[])


async def _question(added: object) -> Played:
    script = write_script("All is well.")
    return await play(added, script, watcher(script), "How are you?")


async def _tool_loop(added: object) -> Played:
    calls = [[("read_gauges", {"place": place})] for place in ROUND]
    script = write_script(*calls, "Read them all.")
    return await play(added, script, watcher(script), "Read all places.")


async def _parallel_calls(added: object) -> Played:
    calls = [("read_gauges", {"place": place}) for place in GAUGES]
    script = write_script(calls, "All at once.")
    return await play(added, script, watcher(script), "Read all places.")


class Reading(BaseModel):
    """What came of it."""

    place: str
    pressure: int


async def _structured_output(added: object) -> Played:
    answer = [("set_model_response", {"place": "north", "pressure": 37})]
    script = write_script([("read_gauges", {"place": "north"})], answer)
    return await play(
        added, script, watcher(script, output_schema=Reading), "What is the pressure?"
    )


async def _session(added: object) -> Played:
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, "Fine.", call, "As I said.")
    return await play(added, script, watcher(script), "Look north.", "And now?")


async def _transfer(added: object) -> Played:
    """One agent hands over to another one, which hands back."""
    call = [("read_gauges", {"place": "north"})]
    script = write_script(
        call,
        [("transfer_to_agent", {"agent_name": "second"})],
        call,
        [("transfer_to_agent", {"agent_name": "watcher"})],
        call,
        "All is well.",
    )
    second = watcher(script, "second", description="Looks again.")
    agent = watcher(script, sub_agents=[second])
    return await play(added, script, agent, "Look north, both.")


async def _sequence(added: object) -> Played:
    """One agent after the other, the second with the answer of the first in its instruction."""
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, call, "It is high.", call, "Close the weir.")
    steps = [
        watcher(script, "first", output_key="seen"),
        watcher(script, "second", instruction="They saw: {seen}"),
    ]
    return await play(added, script, SequentialAgent(name="both", sub_agents=steps), "Look north.")


async def _workflow(added: object) -> Played:
    """A graph of two agents, the second of which sees nothing of the first."""
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, call, "It is high.", call, call, "Close the weir.")
    first = watcher(script, "first")
    second = watcher(script, "second", include_contents="none")
    graph = Workflow(name="both", edges=[(START, first), (first, second)])
    return await play(added, script, graph, "Look north.")


async def _agent_as_tool(added: object) -> Played:
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, call, "All is well.")
    boss_script = write_script([("watcher", {"request": "Look north, twice."})], "Good.")
    boss = watcher(boss_script, "boss", tools=[AgentTool(watcher(script))])
    played = await play(added, boss_script, boss, "How is north?")
    return Played(
        played.answers,
        [*played.requests, *script.requests],
        [*played.chats, *map(spell_chat, script.requests)],
    )


async def _streamed(added: object) -> Played:
    calls = [[("read_gauges", {"place": place})] for place in ROUND]
    script = write_script(*calls, "Read them all.")
    return await play(added, script, watcher(script), "Read all places.", streams=True)


async def _failing_tool(added: object) -> Played:
    """A tool that raises: google-adk's own plugin tells the model, and it tries again."""

    def open_weir(place: str) -> str:
        """Open a weir."""
        raise ValueError(GAUGES[place])

    script = write_script(
        [("open_weir", {"place": "north"}), ("read_gauges", {"place": "north"})],
        [("open_weir", {"place": "north"})],
        "It stays shut.",
    )
    agent = watcher(script, tools=[read_gauges, open_weir])
    retries = ReflectAndRetryToolPlugin(max_retries=3)
    return await play(added, script, agent, "Open it.", plugins=[retries])


async def _callbacks(added: object) -> Played:
    """Callbacks of the agent, and plugins before and after, which write into requests too."""

    def say_time(callback_context: object, llm_request: LlmRequest) -> None:
        llm_request.append_instructions(["It is noon."])

    def trim_result(tool: object, args: object, tool_context: object, tool_response: Any) -> Any:
        return {
            "result": tool_response["result"] if isinstance(tool_response, dict) else tool_response
        }

    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, "Fine.", call, "As I said.", call, call, "Still.")
    agent = watcher(script, before_model_callback=say_time, after_tool_callback=trim_result)
    plugins = [ContextFilterPlugin(num_invocations_to_keep=2), LoggingPlugin()]
    words = ("Look north.", "And now?", "And now?")
    return await play(added, script, agent, *words, plugins=plugins)


async def _signed_thoughts(added: object) -> Played:
    """Thoughts with signatures, beside calls that have one too."""
    call = [Thought("Look."), ("read_gauges", {"place": "north"})]
    script = write_script(call, call, [Thought("Say it."), "Fine."], call, "As I said.")
    return await play(added, script, watcher(script), "Look north.", "And now?")


async def _picture(added: object) -> Played:
    """A picture from the user, and one turn after it."""
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, "A weir.", call, "As I said.")
    picture = types.Part.from_bytes(data=b"\x89PNG" + bytes(90), mime_type="image/png")
    return await play(added, script, watcher(script), ["What is it?", picture], "And now?")


async def _new_process(added: object) -> Played:
    """A session in a file, which goes on in a process that has seen nothing of it."""
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, call, "Fine.", call, "As I said.")
    with TemporaryDirectory() as folder:
        path = f"{folder}/sessions.db"
        first = await play(
            added, script, watcher(script), "Look.", service=SqliteSessionService(path)
        )
        forget()
        again: Any = WeftPlugin(context=added.compactor.context) if added is not None else None
        second = await play(
            again, script, watcher(script), "And now?", service=SqliteSessionService(path)
        )
    return second._replace(answers=[*first.answers, *second.answers])


async def _summarized(added: object) -> Played:
    """google-adk's own summaries of earlier turns."""
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, "Fine.", call, "As I said.", "A summary.", call, call, "Still.")
    summarizer = LlmEventSummarizer(llm=script)
    own = EventsCompactionConfig(summarizer=summarizer, compaction_interval=2, overlap_size=0)
    words = ("Look north.", "And now?", "And now?")
    return await play(added, script, watcher(script), *words, summaries=own)


async def _reread(added: object) -> Played:
    looks = [[("look", {"place": place})] for place in WEIRS]
    script = write_script(*looks, *[reread] * 9)
    return await play(added, script, watcher(script, tools=[look]), "Look around.")


PROGRAMS = [
    *(_question, _tool_loop, _parallel_calls, _structured_output, _session),
    *(_transfer, _sequence, _workflow, _agent_as_tool, _streamed, _failing_tool),
    *(_callbacks, _signed_thoughts, _picture, _new_process, _summarized),
]


def add(policy: Policy | None) -> Any:
    return WeftPlugin(context=policy)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
async def test_a_stock_program_runs_the_same_and_sends_less(program: Program) -> None:
    await check_program(program, add)


async def _secret(added: object) -> Played:
    def write_mail(to: str) -> str:
        """Write a mail."""
        return f"{GAUGES['north']}\nsent to {to}"

    script = write_script([("write_mail", {"to": SECRET})], "Sent.")
    picture = types.Part.from_bytes(data=b"\x89PNG" + bytes(90), mime_type="image/png")
    agent = watcher(script, tools=[write_mail])
    return await play(added, script, agent, [picture, f"Write to {SECRET}."])


async def test_what_a_policy_protects_is_in_no_content() -> None:
    await check_protected(_secret, add)
    script = write_script("Hello.")
    agent = watcher(script, instruction=SECRET)
    played = await play(add(NO_EMAIL), script, agent, "Hello?")
    assert not played.answers
    assert not script.requests


async def test_what_a_policy_protects_is_not_sent_where_the_provider_keeps_the_conversation() -> (
    None
):
    class GoingOn(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            llm_request.previous_interaction_id = "i1"

    for policy, answers in ((NO_EMAIL, []), (DIGESTS, ["Hello."])):
        script = write_script("Hello.")
        added = add(policy)
        played = await play(GoingOn("first"), script, watcher(script), SECRET, plugins=[added])
        assert played.answers == answers
        assert len(script.requests) == len(answers)


async def test_an_agent_gets_back_what_was_left_out() -> None:
    def ask(chat: object) -> object:
        handle = re.search(r"handle ([0-9a-f]{12})", str(chat))
        assert handle is not None
        return [("recall", {"handle": handle[1], "lines": "200-200"})]

    script = write_script([("read_gauges", {"place": "north"})], ask, "Got it.")
    played = await play(add(DIGESTS), script, watcher(script), "Look.")
    assert played.answers == ["Got it."]
    assert "north gauge 199: " in str(played.requests[-1])
    assert "north gauge 199: " not in str(played.requests[1])


async def test_a_model_reads_again_what_was_left_out_long_ago() -> None:
    await check_reread(_reread, add)
