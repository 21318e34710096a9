"""What operators ask a server for: open questions, whether it is ready, its numbers."""

import asyncio
import json
import os
import subprocess
import sys
import threading
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
from weft.testing import ScriptedModel, call, usage
from weft.turns import Worker, open_turns

ROOT = Path(__file__).parents[2]

BOTS = """
from weft import Agent
from weft.testing import ScriptedModel

bot = Agent("bot", model=ScriptedModel([RuntimeError("no luck")] * 9))
"""


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


# --- numbers


@contextmanager
def working_on(runner: Runner, **options: int) -> Iterator[tuple[Live, str]]:
    """A server over a queue, a worker for it, and where that answers."""
    loop = asyncio.new_event_loop()
    worker = Worker(runner, slots=2, **options)  # type: ignore[arg-type]
    ready, ports = threading.Event(), list[int]()

    def begin(port: int | None) -> None:
        ports.append(port or 0)
        ready.set()

    thread = threading.Thread(
        target=lambda: loop.run_until_complete(worker.run(port=0, ready=begin))
    )
    thread.start()
    assert ready.wait(60)
    store = open_store(f"sqlite:///{runner.store.path}")  # type: ignore[attr-defined]
    served = Runner(runner.root, app_name=runner.app_name, store=store)
    try:
        with serving(app(served, turns=open_turns(store))) as live:
            yield live, f"http://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(worker.stop)
        thread.join(60)
        loop.close()


def numbers(text: str) -> dict[str, float]:
    """The series of a scrape: their names with labels, and their values."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def priced(name: str, *script: object, **options: object) -> Agent:
    """An agent on a model that has a price."""
    dialect = "anthropic" if name == "clerk" else "openai-responses"
    model = {"clerk": "claude-sonnet-4-5"}.get(name, "gpt-5")
    scripted = ScriptedModel([*script], name=model, dialect=dialect)  # type: ignore[list-item]
    return Agent(name, model=scripted, **options)  # type: ignore[arg-type]


def office() -> Agent:
    """A desk that hands over to a clerk, waits for a yes, and fails in the end."""
    clerk = priced(
        "clerk",
        usage("Done.", prompt=1000, output=100, cached=800),
        usage(call("pay", amount=5), prompt=500, output=50, cached=100),
        tools=[pay],
    )
    go = usage(call("transfer_to_agent", agent_name="clerk"), prompt=400, output=20)
    script = (go, go, RuntimeError("no luck"), "No usage here.")
    return priced("desk", *script, sub_agents=[clerk])


def ask_office(client: httpx2.Client) -> None:
    for session in "abcd":
        body = {"message": "Hi", "create": True}
        with client.stream(
            "POST",
            f"/api/apps/office/sessions/{session}/runs",
            json=body,
            headers={"accept": "text/event-stream"},
        ) as got:
            list(got.iter_lines())


def require_office(found: dict[str, float]) -> None:
    """What a scrape must say after these four runs."""

    def of(name: str, agent: str, **more: str) -> float:
        model = "claude-sonnet-4-5" if agent == "clerk" else "gpt-5"
        labels = {"app": "office", "agent": agent, "model": model, **more}
        inner = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return found[f"{name}{{{inner}}}"]

    assert of("weft_tokens_total", "clerk", kind="prompt") == 1500
    assert of("weft_tokens_total", "clerk", kind="cached") == 900
    assert of("weft_tokens_total", "clerk", kind="output") == 150
    assert of("weft_cached_share", "clerk") == 0.6
    # 600 at 3, 900 at 0.30 and 150 at 15 dollars a million
    assert of("weft_cost_dollars_total", "clerk") == pytest.approx(0.00432)
    assert of("weft_agent_runs_total", "clerk") == 2
    assert of("weft_agent_waits_total", "clerk") == 1
    assert of("weft_agent_waits_total", "desk") == 0
    assert of("weft_model_answers_total", "desk") == 3
    assert of("weft_tokens_total", "desk", kind="prompt") > 800, "the last was counted here"
    assert of("weft_agent_runs_total", "desk") == 4
    assert of("weft_agent_failures_total", "desk", code="model_error") == 1
    assert found['weft_runs_total{app="office",outcome="done"}'] == 2
    assert found['weft_runs_total{app="office",outcome="waiting"}'] == 1
    assert found['weft_runs_total{app="office",outcome="error"}'] == 1


def test_numbers_by_agent_and_model() -> None:
    runner = Runner(office(), app_name="office")
    with serving(app(runner)) as live, live.client() as client:
        ask_office(client)
        require_office(numbers(client.get("/metrics").text))


def test_a_worker_has_the_numbers_of_its_runs_and_the_server_those_of_the_queue(
    tmp_path: Path,
) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    runner = Runner(office(), app_name="office", store=open_store(address))
    with working_on(runner, attempts=1) as (live, worker), live.client() as client:
        ask_office(client)
        queue = numbers(client.get("/metrics").text)
        # three are over, and the one whose model failed is a dead letter
        assert queue['weft_queue_turns{app="office",status="done"}'] == 3
        assert queue['weft_queue_turns{app="office",status="failed"}'] == 1
        assert queue['weft_queue_oldest_seconds{app="office"}'] == 0
        assert queue['weft_turns_needing_person{app="office"}'] == 0
        assert queue["weft_queue_readable"] == 1
        own = numbers(httpx2.get(f"{worker}/metrics").text)
        require_office(own)
        assert own['weft_turns_total{app="office",outcome="done"}'] == 3
        assert own['weft_queue_turns{app="office",status="failed"}'] == 1


def start(folder: Path, *options: str) -> tuple[subprocess.Popen[str], str, list[str]]:
    """A server as a process, its address, and what it says of itself on stderr."""
    (folder / "bots.py").write_text(BOTS)
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "serve", "bots:bot", "--port", "0", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    address = process.stdout.readline().strip()
    lines = 2 if "--metrics-port" in options else 1
    return process, address, [process.stderr.readline() for _ in range(lines)]


def test_numbers_on_a_port_of_their_own_need_no_token(tmp_path: Path) -> None:
    process, address, said = start(tmp_path, "--metrics-port", "0", "--store", "memory://")
    try:
        url = next(line for line in said if line.startswith("numbers at ")).split()[-1]
        port = url.removesuffix("/metrics")
        assert "weft_apps 1" in httpx2.get(url).text
        assert httpx2.get(f"{port}/ready").text == "ready\n"
        assert httpx2.get(f"{port}/health").text == "ok\n"
        for path in ("/api/apps", "/", "/openapi.json", "/metrics/x"):
            assert httpx2.get(port + path).status_code == 404, "nothing else is answered there"
        assert httpx2.post(url).status_code == 404
        assert httpx2.get(address.partition("?")[0] + "metrics").status_code == 401
    finally:
        process.terminate()
        process.communicate()


def test_a_server_logs_json_on_request(tmp_path: Path) -> None:
    process, said, before = start(tmp_path, "--log-format", "json", "--store", "memory://")
    address = json.loads(said)["message"]
    url, _, token = address.partition("?token=")
    headers = {"authorization": f"Bearer {token}"}
    body = {"model": "bot", "input": "Hi"}
    assert httpx2.post(f"{url}v1/responses", json=body, headers=headers).status_code == 502
    process.terminate()
    _, rest = process.communicate()
    lines = [json.loads(line) for line in (*before, *rest.splitlines())]
    assert lines[0]["message"].startswith("serving bot")
    assert all(set(one) >= {"time", "level", "logger", "message"} for one in lines)
    assert any("no luck" in one["message"] for one in lines)
