"""A process that runs an agent with an MCP server, to be killed.

It is started with a store, the address, a revision, a tool and a session. The revision "a2a" is
a remote agent, which is told the name of the tool.

It reads lines of JSON and prints for each how the run ended: `null` begins a run, an object holds
the answers and retries for `resume`, which begins it where nothing is stored yet.
"""

import asyncio
import json
import sys

from weft import Agent, Runner
from weft.errors import SessionError
from weft.ir import Prompt, ResultBlock
from weft.testing import ScriptedModel, call
from weft.tools import A2A, MCP


async def main(store: str, url: str, revision: str, tool: str, session_id: str) -> None:
    args: dict[str, object] = {"amount": 5} if tool.startswith("pay") else {}
    source: object = (
        MCP(url, name="toy", revision=revision) if revision != "a2a" else A2A(url, name="toy")
    )
    if revision == "a2a":
        args, tool = {"message": tool}, "toy"

    def reply(prompt: Prompt) -> object:
        answered = any(isinstance(one, ResultBlock) for item in prompt.items for one in item.blocks)
        return "done" if answered else call(tool, **args)

    agent = Agent("bot", model=ScriptedModel([reply] * 20), tools=[source])
    runner = Runner(agent, app_name="mcp-kill", store=store)
    while line := await asyncio.to_thread(sys.stdin.readline):
        resumed = json.loads(line)
        if resumed is not None and await is_stored(runner, session_id):
            await runner.resume(session_id=session_id, **resumed)
        else:
            await runner.run(message="Go.", session_id=session_id)
        waiting = await runner.pending()
        pending = [(one.call_id, one.kind) for one in waiting if one.key.id == session_id]
        session = await runner.session(session_id=session_id)
        results = [one.response for event in session.events for one in event.results]
        print(json.dumps({"pending": pending, "results": results}), flush=True)


async def is_stored(runner: Runner, session_id: str) -> bool:
    """Whether a run of the session began."""
    try:
        return bool((await runner.session(session_id=session_id)).events)
    except SessionError:
        return False


asyncio.run(main(*sys.argv[1:]))
