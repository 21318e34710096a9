"""Other processes that take turns in a session: `python -m tests.runtime.turn_worker`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import weft.stores.postgres
import weft.stores.sqlite  # noqa: F401
from weft import Agent, Content, ModelResponse, Part, RunConfig, Runner, tool
from weft.content import call_part
from weft.errors import SessionBusy
from weft.ir import Prompt
from weft.session import Busy
from weft.values import JsonObject

APP = "turns"


class Echo:
    """A model that calls a tool about what the user said last, and then says it back."""

    name, dialect = "echo", "gemini"

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        said = [block.text for i in prompt.items if i.kind == "user" for block in i.blocks]  # type: ignore[union-attr]
        await asyncio.sleep(0.001)
        asked = prompt.items[-1].kind == "user"
        part = call_part("note", {"what": said[-1]}) if asked else Part(text=f"re {said[-1]}")
        yield ModelResponse(content=Content(parts=(part,), role="model"))


@tool
async def note(what: str) -> str:
    """Take note."""
    await asyncio.sleep(0.001)
    return what


def bot(*tools: object) -> Agent:
    """The agent of all these processes."""
    return Agent("bot", model=Echo(), tools=[note, *tools])


async def turns(address: str, session: str, count: int, busy: Busy) -> None:
    """So many turns; under "reject" each is tried until it is not refused."""
    config = RunConfig(busy=busy)
    async with Runner(bot(), app_name=APP, store=address) as runner:
        for n in range(count):
            message = f"{os.getpid()} {n}"
            while True:
                try:
                    result = await runner.run(session_id=session, message=message, config=config)
                    assert result.check().text == f"re {message}"
                    break
                except SessionBusy:
                    await asyncio.sleep(0.005)


async def hold(address: str, session: str) -> None:
    """One turn that does not end before somebody writes a line, or it is interrupted."""

    @tool(name="note")
    async def wait(what: str) -> str:
        """Wait for a line."""
        print("running", flush=True)
        loop, read = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin, read.set)
        try:
            await read.wait()
        finally:
            loop.remove_reader(sys.stdin)
        return what

    root = Agent("bot", model=Echo(), tools=[wait])
    async with Runner(root, app_name=APP, store=address) as runner:
        result = await runner.run(session_id=session, message="held")
        print(result.error.error_code if result.error else result.text, flush=True)


def main(action: str, address: str, session: str, *more: str) -> None:
    """Hold the session in this process, or take turns in several."""
    if action == "hold":
        asyncio.run(hold(address, session))
        return
    processes, count, busy = more
    children: list[int] = []
    for _ in range(int(processes)):
        child = os.fork()
        if not child:
            try:
                asyncio.run(turns(address, session, int(count), busy))  # type: ignore[arg-type]
                os._exit(0)
            finally:
                sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
                os._exit(1)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(codes))


if __name__ == "__main__":
    main(*sys.argv[1:])
