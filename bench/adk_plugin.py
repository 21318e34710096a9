"""Tokens of a five-step google-adk pipeline, as google-adk sends it and with WeftPlugin.

.venv-bench/bin/python bench/adk_plugin.py [turns]
"""

import asyncio
import logging
import sys
import time
import warnings
from collections.abc import AsyncIterator

import weft
from weft import C
from weft.interop.adk import WeftPlugin, check_adk

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from google.adk.agents import LlmAgent, SequentialAgent  # noqa: E402
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import InMemorySessionService  # noqa: E402
from google.genai import types  # noqa: E402

MODEL = "gemini-2.5-flash"
ASKED = "We want to move our billing from monthly invoices to prepaid credits. What do we need?"
STEPS = {
    "planner": ("Plan the work on the request.", "plan"),
    "researcher": ("Find facts for this plan:\n{plan}", "facts"),
    "writer": ("Write a report by the plan.\n\nPlan:\n{plan}\n\nFacts:\n{facts}", "draft"),
    "critic": ("Criticise the report.\n\n{draft}", "criticism"),
    "editor": ("Mend the report.\n\nReport:\n{draft}\n\nCriticism:\n{criticism}", "report"),
}
LENGTHS = {"planner": 12, "researcher": 40, "writer": 60, "critic": 15, "editor": 60}


def answer(agent: str, turn: int) -> str:
    """A made-up answer of a few hundred words, the same in every run."""
    line = "Step {0} of turn {1}: {2} found that point {0} needs an owner, a date and a budget."
    return "\n".join(line.format(n, turn, agent) for n in range(1, LENGTHS[agent] + 1))


class Scripted(BaseLlm):
    """A model that answers by who asks, and keeps what it was asked."""

    model: str = MODEL
    asked: list[dict[str, object]] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        """Keep the request, and answer."""
        agent = (llm_request.config.labels or {})["adk_agent_name"]
        self.asked.append(
            {
                "systemInstruction": {"parts": [{"text": llm_request.config.system_instruction}]},
                "contents": [
                    content.model_dump(mode="json", by_alias=True, exclude_none=True)
                    for content in llm_request.contents
                ],
            }
        )
        said = types.Part(text=answer(agent, len(self.asked) // len(STEPS)))
        yield LlmResponse(content=types.Content(role="model", parts=[said]))


def pipeline(model: BaseLlm) -> SequentialAgent:
    """Five agents, each of which reads what those before it wrote."""
    return SequentialAgent(
        name="report",
        sub_agents=[
            LlmAgent(name=name, model=model, instruction=instruction, output_key=key)
            for name, (instruction, key) in STEPS.items()
        ],
    )


async def run(turns: int, plugins: list[object]) -> tuple[list[dict[str, object]], float]:
    """The requests of so many turns, and the seconds they took."""
    model = Scripted(asked=[])
    sessions = InMemorySessionService()
    runner = Runner(
        app_name="bench", agent=pipeline(model), session_service=sessions, plugins=plugins
    )
    await sessions.create_session(app_name="bench", user_id="u", session_id="s")
    start = time.perf_counter()
    for turn in range(turns):
        message = types.Content(role="user", parts=[types.Part(text=f"{ASKED} ({turn + 1})")])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
    return model.asked, time.perf_counter() - start


def main(turns: int) -> int:
    """Run three ways, and print each request's tokens."""
    asyncio.run(run(1, [WeftPlugin()]))  # what is done only once
    plain, seconds = asyncio.run(run(turns, []))
    plugin = WeftPlugin()
    compiled, slower = asyncio.run(run(turns, [plugin]))
    by_key, _ = asyncio.run(run(turns, [WeftPlugin(context=C.default(data=False))]))
    before, after, keyed = counted(plain), counted(compiled), counted(by_key)
    print(
        f"{'turn':>4}  {'agent':<12}{'google-adk':>12}{'WeftPlugin()':>14}{'saved':>7}"
        f"{'data=False':>12}{'saved':>7}"
    )
    for index, (one, other, key) in enumerate(zip(before, after, keyed, strict=True)):
        turn, agent = index // len(STEPS) + 1, [*STEPS][index % len(STEPS)]
        print(
            f"{turn:>4}  {agent:<12}{one:>12,}{other:>14,}{1 - other / one:>7.0%}"
            f"{key:>12,}{1 - key / one:>7.0%}"
        )
    total, less, least = sum(before), sum(after), sum(keyed)
    print(f"\n{len(before)} requests of google-adk: {total:,} tokens")
    print(f"WeftPlugin(), each value once: {less:,}, {1 - less / total:.0%} less")
    print(f"C.default(data=False), data by its key: {least:,}, {1 - least / total:.0%} less")
    print(f"compiled {plugin.compiled}, left as they are {dict(plugin.left)}")
    print(f"seconds of the whole run: {seconds:.2f}, with WeftPlugin() {slower:.2f}")
    twice = [one for one in check_adk(pipeline(Scripted(asked=[]))) if one.code == "WEFT206"]
    print(f"check_adk finds {len(twice)} values that are seen twice")
    whole = all(_keeps(request) for request in (*compiled, *by_key))
    print(f"every request holds the user's message: {whole}")
    return 0 if plugin.compiled == len(before) and less < total and whole else 1


def counted(requests: list[dict[str, object]]) -> list[int]:
    """The tokens of each request."""
    return [weft.count_tokens(one, model=MODEL) for one in requests]


def _keeps(request: dict[str, object]) -> bool:
    return ASKED in str(request["contents"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2))
