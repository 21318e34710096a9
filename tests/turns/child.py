"""A worker in a process of its own, which stops where a test wants it to.

A file `hold-STAGE` in its folder holds the worker up at that stage until it is gone: `before` a
turn is run, `model` while the model is asked, `after` the turn is over and not yet ticked off.
A file `poison-REQUEST` beside the folders has that turn end the process of whoever runs it, once
the worker is not held up at the stage `poison`.
What it does is in its journal. A worker is forked from a server that has loaded all modules.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import msgspec

from tests.support.forked import FORKS
from weft import Agent, Runner, ToolContext, tool
from weft.ir import ModelResponse, Prompt
from weft.load.program import EFFECTS, Journal, PacedModel
from weft.stores import open_store
from weft.turns import QueuedTurn, TurnEnd, TurnRunner, open_turns
from weft.values import Json

APP = "shop"


class Child:
    """A worker that a test starts, stops, wakes and kills."""

    def __init__(self, address: str, engine: str, folder: Path, name: str, slots: int = 4) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self._process = FORKS.Process(
            target=work, args=(address, engine, str(self.folder), name, slots), daemon=True
        )
        self.is_started = False

    def start(self) -> None:
        """Start it; it is there when it says `ready`."""
        self.is_started = True
        self._process.start()

    async def ready(self) -> None:
        """Wait until it takes turns."""
        await self.until("ready", "")

    def hold(self, stage: str) -> None:
        """Have it stop at a stage."""
        (self.folder / f"hold-{stage}").touch()

    def let_go(self, stage: str) -> None:
        """Let it go on."""
        (self.folder / f"hold-{stage}").unlink()

    async def until(self, what: str, request: str) -> None:
        """Wait until it has noted something of a turn."""
        await until(lambda: (what, request) in self.lines, f"{self.name}: {what} {request}")

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What it has noted."""
        lines: list[tuple[str, str]] = []
        for path in self.folder.glob("*.journal"):
            for line in path.read_bytes().split(b"\n")[:-1]:
                _, _, what, request = msgspec.json.decode(line)
                lines.append((what, request))
        return lines

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.is_alive()

    def end(self) -> None:
        """Kill it, whatever state it is in."""
        if self.is_started:
            self._process.kill()
            self._process.join()


async def until(is_so: "Callable[[], bool]", what: str, seconds: float = 300.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"it never came to be: {what}"
        await asyncio.sleep(0.02)


class HeldModel(PacedModel):
    """The model of `weft load`, which waits while a file is there."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        super().__init__(0.0, journal)
        self._folder = folder

    async def generate(
        self, prompt: Prompt, wire: Mapping[str, Json], *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Answer when the file is gone."""
        async for response in super().generate(prompt, wire, stream=stream):
            if (self._folder.parent / f"poison-{prompt.items[-1].invocation}").exists():
                await held(self._folder, "poison")
                os._exit(9)
            await held(self._folder, "model")
            yield response


async def held(folder: Path, stage: str) -> None:
    """Wait while the file of a stage is there."""
    while (folder / f"hold-{stage}").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def make_agent(folder: Path, journal: Journal) -> Agent:
    """An agent whose tool leaves a row for each turn."""

    @tool(effect="transactional")
    async def book(what: str, ctx: ToolContext) -> str:
        """Leave one row."""
        row = (ctx.session_id, ctx.invocation_id, ctx.call_id)
        await ctx.connection.execute(f"INSERT INTO {EFFECTS} VALUES (%s, %s, %s)", row)  # type: ignore[union-attr]
        return "booked"

    return Agent("shop", model=HeldModel(folder, journal), tools=[book])


def work(address: str, engine: str, folder: str, name: str, slots: int) -> None:
    """Take turns until somebody kills the process."""
    asyncio.run(_work(address, engine, Path(folder), name, slots))


async def _work(address: str, engine: str, folder: Path, name: str, slots: int) -> None:
    journal = Journal(str(folder))
    store = open_store(address)
    turns = open_turns(store, engine)
    runner = Runner(make_agent(folder, journal), app_name=APP, store=store)
    run = TurnRunner({APP: runner}, turns)

    async def run_turn(turn: QueuedTurn) -> TurnEnd:
        journal.note("taken", turn.request_id)
        await held(folder, "before")
        outcome = await run(turn)
        journal.note("ended", turn.request_id)
        await held(folder, "after")
        return outcome

    await turns.open()
    journal.note("ready", "")
    await turns.work(run_turn, apps=[APP], worker=name, slots=slots, stop=asyncio.Event())
