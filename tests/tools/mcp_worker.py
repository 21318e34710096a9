"""A process that runs an agent with an MCP server, to be killed.

It is started with a store, the address, a revision, a tool and a session. The revision "a2a" is
a remote agent, which is told the name of the tool.

It prints how the run ended. `ANSWER` in the environment is JSON for `resume`: answers and retry.
"""

import asyncio
import json
import os
import sys

from weft import Agent, Runner
from weft.testing import ScriptedModel, call
from weft.tools import A2A, MCP


async def main(store: str, url: str, revision: str, tool: str, session_id: str) -> None:
    args: dict[str, object] = {"amount": 5} if tool == "pay_slowly" else {}
    source: object = (
        MCP(url, name="toy", revision=revision) if revision != "a2a" else A2A(url, name="toy")
    )
    if revision == "a2a":
        args, tool = {"message": tool}, "toy"
    # the log has the reply that made the call: a run that is resumed asks for what comes after
    resumed = json.loads(os.environ.get("ANSWER", "null"))
    model = ScriptedModel(["done"] if resumed is not None else [call(tool, **args), "done"])
    agent = Agent("bot", model=model, tools=[source])
    runner = Runner(agent, app_name="mcp-kill", store=store)
    if resumed is None:
        await runner.run(message="Go.", session_id=session_id)
    else:
        await runner.resume(session_id=session_id, **resumed)
    waiting = await runner.pending()
    questions = [one for one in waiting if one.key.id == session_id]
    session = await runner.session(session_id=session_id)
    results = [one.response for event in session.events for one in event.results]
    pending = [(one.call_id, one.kind) for one in questions]
    print(json.dumps({"pending": pending, "results": results}), flush=True)
    if questions and resumed is None:
        await asyncio.sleep(3600)  # until somebody kills it


asyncio.run(main(*sys.argv[1:]))
