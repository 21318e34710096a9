"""Remote agents for the tests: servers of the official SDK, and some that misbehave."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


class Remote(AgentExecutor):
    """An agent of the SDK: what it does depends on the first word that it is told."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.begun, self.go = threading.Event(), threading.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        task = context.current_task or new_task_from_user_message(context.message)
        if not context.current_task:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if context.current_task:  # an answer
            self.journal.append(f"answered {text}")
            await updater.add_artifact([new_text_part(f"Booked for {text}.")], name="answer")
            await updater.complete()
            return
        self.journal.append(text)
        await updater.start_work()
        match text.split()[0]:
            case "ask":
                await updater.requires_input(new_text_message("In which name?"))
            case "fail":
                await updater.failed(new_text_message("no luck"))
            case "wait":
                self.begun.set()
                await asyncio.to_thread(self.go.wait, 120)
                await updater.add_artifact([new_text_part("waited")])
                await updater.complete()
            case "large":
                await updater.add_artifact([new_text_part("x" * 9_000_000)])
                await updater.complete()
            case _:
                parts = [new_text_part("It is 5."), new_data_part({"sum": 5})]
                await updater.add_artifact(parts, name="answer")
                await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.journal.append("cancelled")
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()


def card_at(url: str, version: str = "1.0", **more: Any) -> AgentCard:
    fields: dict[str, Any] = {
        "name": "Adder Bot",
        "description": "Adds numbers.",
        "version": "1",
        "supported_interfaces": [
            AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version=version)
        ],
        "capabilities": AgentCapabilities(streaming=True),
        "default_input_modes": ["text/plain"],
        "default_output_modes": ["text/plain"],
        "skills": [AgentSkill(id="add", name="add", description="adds", tags=["math"])],
    }
    return AgentCard(**{**fields, **more})


@contextmanager
def listening(make: Any) -> Iterator[str]:
    """Serve what `make(url)` gives, until the block ends."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen(64)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    server = uvicorn.Server(
        uvicorn.Config(make(url), log_level="error", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[bound])), daemon=True
    )
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join(60)


@contextmanager
def remote(version: str = "1.0", **more: Any) -> Iterator[tuple[str, Remote]]:
    """A server of the SDK."""
    executor = Remote()

    def make(url: str) -> Starlette:
        card = card_at(url, version, **more)
        handler = DefaultRequestHandler(
            agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card
        )
        rpc = create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
        return Starlette(routes=[*create_agent_card_routes(card), *rpc])

    with listening(make) as url:
        yield url, executor


@contextmanager
def hostile(way: str) -> Iterator[str]:
    """A server whose card lies, or that hangs, dies or answers nonsense."""

    def make(url: str) -> Starlette:
        from a2a.server.request_handlers.response_helpers import agent_card_to_dict

        card = agent_card_to_dict(card_at(url))

        async def show(request: Request) -> Response:
            match way:
                case "hanging card":
                    await asyncio.sleep(3600)
                case "no json":
                    return Response(b"<html>\xff\xfe")
                case "a list":
                    return JSONResponse([1])
                case "another host":
                    text = JSONResponse(card).body.replace(url.encode(), b"http://evil.example")
                    return Response(text, media_type="application/json")
                case "no address":
                    return JSONResponse({**card, "supportedInterfaces": [], "url": None})
                case "large card":
                    return JSONResponse({**card, "description": "x" * 9_000_000})
                case _:
                    pass
            return JSONResponse(card)

        async def answer(request: Request) -> Response:
            async def stream() -> Any:
                match way:
                    case "hangs":
                        yield b": hello\n\n"
                        await asyncio.sleep(3600)
                    case "dies":
                        yield b"data: {"
                        raise RuntimeError("it dies")
                    case "endless":
                        for _ in range(1000):
                            yield b"data: " + b"x" * 100_000
                    case _:
                        yield b'data: {"jsonrpc": "2.0", "id": "1", "result": {"odd": 1}}\n\n'

            return StreamingResponse(stream(), media_type="text/event-stream")

        return Starlette(
            routes=[
                Route("/.well-known/agent-card.json", show),
                Route("/rpc", answer, methods=["POST"]),
            ]
        )

    with listening(make) as url:
        yield url
