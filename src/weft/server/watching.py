"""What the machines that watch a server ask: whether it lives, whether it is ready, its numbers.

The API answers them like anything else, the numbers to those who show a token. On a port of their
own they answer everybody who can reach it, in a thread, so also while a tool blocks the server.
"""

from functools import partial

from starlette.responses import Response

from weft.misuse import join_few
from weft.runtime.metrics import MEDIA_TYPE, Metrics
from weft.server.endpoints import Answer, Call, Endpoint, respond
from weft.server.problems import Problem, problem_of
from weft.server.served import ServedApps
from weft.session import SessionKey
from weft.turns.health import HealthAnswer, LoopPulse, Pages
from weft.turns.worker import gauge_queue

_LIMIT = 5.0
"""Seconds in which a page must have its answer from the event loop."""


async def get_health(call: Call) -> Answer:
    """Whether the process answers."""
    return respond({"status": "ok"})


async def get_ready(call: Call) -> Answer:
    """Whether runs can be started."""
    await require_ready(call.served)
    return respond({"status": "ready"})


async def get_metrics(call: Call) -> Answer:
    """Numbers in Prometheus' text format; for the operator, or any user of the server."""
    return Response(await read_numbers(call.served), media_type=MEDIA_TYPE)


async def require_ready(served: ServedApps) -> None:
    """Refuse while the server stops, a store does not answer, or nobody would take a turn."""
    if served.is_stopping:
        raise Problem(503, "stopping", "the server is stopping")
    for store in served.stores:
        # any question shows that a store answers, also one about a session that is not there
        await store.lengths([SessionKey("ready", "ready", "ready")])
    if without := await served.apps_without_worker():
        raise Problem(
            503,
            "no-worker",
            f"no worker serves {join_few(without)}: turns wait until one does",
            hint="start one: weft worker TARGET --store ADDRESS",
            members={"apps": [*without]},
        )


async def read_numbers(served: ServedApps) -> str:
    """The numbers of a server, and of the queue that it puts turns into."""
    text = _own_numbers(served)
    if served.turns is None:
        return text
    queue = Metrics()
    await gauge_queue(queue, served.turns)
    return text + queue.text({})


def _own_numbers(served: ServedApps) -> str:
    return served.metrics.text(
        {
            "weft_runs_active": served.active,
            "weft_streams_open": served.open_streams,
            "weft_apps": len(served.runners),
        }
    )


def watch_pages(served: ServedApps, pulse: LoopPulse) -> Pages:
    """The same for a port of its own; `pulse` is of the loop that the server runs in."""

    async def is_ready() -> HealthAnswer:
        try:
            await require_ready(served)
        except Exception as error:
            return HealthAnswer(503, f"{problem_of(error).detail}\n")
        return HealthAnswer(200, "ready\n")

    def ready() -> HealthAnswer:
        answer = pulse.ask(is_ready, _LIMIT)
        return answer or HealthAnswer(503, "the event loop stands still\n")

    def metrics() -> HealthAnswer:
        text = pulse.ask(partial(read_numbers, served), _LIMIT)
        # nothing changes them while the loop stands still
        return HealthAnswer(200, text if text is not None else _own_numbers(served), MEDIA_TYPE)

    return {"/health": pulse.health, "/ready": ready, "/metrics": metrics}


ENDPOINTS = (
    Endpoint("GET", "/health", get_health, "Whether the process answers.", tag="server"),
    Endpoint("GET", "/ready", get_ready, "Whether runs can be started.", tag="server"),
    Endpoint(
        "GET", "/metrics", get_metrics, "Numbers for Prometheus.", answers="text/plain",
        tag="server",
    ),
)  # fmt: skip
