"""What operators ask a server for: open questions, whether it is ready, its numbers."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from tests.server.live import Live, serving
from tests.server.test_openai_forms import working
from weft import Agent, Runner, tool
from weft.server import app
from weft.session import SessionKey
from weft.stores import open_store
from weft.testing import ScriptedModel, call
from weft.turns import open_turns


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


async def fill(address: str, name: str, sessions: int) -> None:
    """A session of each of two users that waits, and many later ones that do not."""
    script = [call("pay", amount=1), call("pay", amount=2)]
    agent = Agent("bot", model=ScriptedModel(script), tools=[pay])
    async with Runner(agent, app_name=name, store=address) as runner:
        for user in ("ann", "bob"):
            await runner.run("Pay.", user_id=user, session_id=f"old-{user}")
        for at in range(sessions):
            await runner.store.create(SessionKey(name, "ann", f"new-{at}"))


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_questions_of_old_sessions_are_listed_and_come_in_pages(address: str) -> None:
    name = f"app_{uuid4().hex}"
    asyncio.run(fill(address, name, 250))
    agent = Agent("bot", model=ScriptedModel([]), tools=[pay])
    application = app(Runner(agent, app_name=name, store=address), recover=0)
    with serving(application) as live, live.client() as client:
        path = f"/api/apps/{name}/pending"
        every = client.get(path)
        told = [(one["user"], one["question"]["args"]["amount"]) for one in every.json()]
        assert told == [("ann", 1), ("bob", 2)], "the oldest first"
        assert every.headers["x-total-count"] == "2"
        page = client.get(path, params={"first": 1, "limit": 1})
        assert [one["user"] for one in page.json()] == ["bob"]
        assert page.headers["x-total-count"] == "2", "there is more than the page"
        assert [one["user"] for one in client.get(path, params={"user": "bob"}).json()] == ["bob"]


def run(client: httpx2.Client, message: str, id: str) -> tuple[int, str]:
    """The status of a request, and the word for what is wrong with it."""
    body = {"message": message, "create": True, "request_id": id, "busy": "queue"}
    got = client.post("/api/apps/bot/sessions/s/runs", json=body)
    return got.status_code, got.json().get("type", "").rpartition(":")[2]


@contextmanager
def queued(address: str) -> Iterator[Live]:
    """A server over a queue that nobody works on."""
    runner = Runner(Agent("bot", model=ScriptedModel([])), app_name="bot", store=address)
    with serving(app(runner, turns=open_turns(runner.store))) as live:
        yield live


def test_a_request_id_with_another_message_is_a_conflict(tmp_path: Path) -> None:
    taken = (409, "request-taken")
    with serving(app(Agent("bot", model=ScriptedModel(["One."])))) as live, live.client() as client:
        assert run(client, "hi", "r") == (202, "")
        assert run(client, "hi", "r") == (202, "")
        assert run(client, "ho", "r") == taken
    address = f"sqlite:///{tmp_path}/weft.db"
    with queued(address) as live, live.client() as client:
        assert run(client, "hi", "r") == (202, "")
        assert run(client, "hi", "r") == (202, "")
        assert run(client, "ho", "r") == taken, "while it waits"
    with working(address, "One.") as live, live.client() as client:
        while client.get("/api/apps/bot/sessions/s/events").json()["length"] != 2:
            pass
        assert run(client, "ho", "r") == taken, "when it is done"

        async def prune() -> int:
            turns = open_turns(open_store(address))
            while not (count := await turns.prune(keep=0, most=10)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await turns.close()
            return count

        assert asyncio.run(prune()) == 1
        assert run(client, "ho", "r") == taken, "when the queue has forgotten it"


def test_a_server_is_ready_when_a_worker_serves_its_apps(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    with queued(address) as live, httpx2.Client(base_url=live.url) as client:
        got = client.get("/ready")
        assert (got.status_code, got.json()["type"]) == (503, "urn:weft:problem:no-worker")
        assert got.json()["detail"] == "no worker serves bot: turns wait until one does"
        assert got.json()["apps"] == ["bot"]
        assert client.get("/health").status_code == 200
    with working(address) as live, httpx2.Client(base_url=live.url) as client:
        assert client.get("/ready").json() == {"status": "ready"}
    # without a queue nobody else is needed
    application = app(Agent("bot", model=ScriptedModel([])))
    with serving(application) as live, httpx2.Client(base_url=live.url) as client:
        assert client.get("/ready").status_code == 200
