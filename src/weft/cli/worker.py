"""`weft worker`: take turns from the queue of a store until SIGTERM."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from weft.cli.inputs import require_folder, without_password
from weft.cli.load import app_of, load_node
from weft.cli.options import CommandOptions
from weft.declare import RunConfig
from weft.runtime import Runner
from weft.stores import open_store

PARENT = "WEFT_WORKER_OF"
"""The variable that names the process of the server that started a worker."""

_PARENT_EVERY = 1.0
"""Seconds between two looks whether that server lives."""


def worker_command(options: CommandOptions) -> int:
    """Work; the exit code is 0 after SIGTERM or Ctrl-C, and 3 after being declared dead."""
    from weft.turns.worker import Worker

    logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("weft").setLevel(logging.INFO)
    runners = load_runners(options)
    names = ", ".join(runner.app_name for runner in runners)

    async def work() -> int:
        worker = Worker(
            *runners,
            engine=options.engine,
            slots=options.slots,
            grace=options.grace,
            attempts=options.attempts,
            hung=options.hung,
            keep=options.keep,
        )
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, worker.stop)

        def ready(port: int | None) -> None:
            at = f", health at http://{options.host}:{port}/health" if port is not None else ""
            print(f"ready: {worker.name} takes turns of {names}{at}", flush=True)

        watching = asyncio.create_task(_watch_parent(worker.stop))
        print(f"worker on {without_password(options.address)}", file=sys.stderr)
        try:
            return await worker.run(host=options.host, port=options.health_port, ready=ready)
        finally:
            watching.cancel()

    return asyncio.run(work())


async def _watch_parent(stop: Callable[[], None]) -> None:
    """Stop when the server has died that started this worker."""
    parent = os.environ.get(PARENT)
    while parent is not None:
        # a process whose parent died gets another
        if str(os.getppid()) != parent:
            stop()
            return
        await asyncio.sleep(_PARENT_EVERY)


def load_runners(options: CommandOptions) -> list[Runner]:
    """A runner for each target, all over one store."""
    config = RunConfig(model=options.model)
    if options.max_llm_calls is not None:
        config = msgspec.structs.replace(config, max_llm_calls=options.max_llm_calls)
    if options.address.startswith("sqlite:///"):
        require_folder(Path(options.address.removeprefix("sqlite:///")), "--store")
    store = open_store(options.address)
    runners: list[Runner] = []
    for target in options.targets:
        root = load_node(target)
        runners.append(Runner(root, app_name=app_of(root, target), store=store, config=config))
    return runners
