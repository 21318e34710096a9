"""A server that runs nothing itself: it puts turns, workers run them, it follows their logs."""

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.server.live import read_events, serving
from tests.support.forked import ForkedProgram
from tests.turns.desk import desk
from weft import Runner
from weft.content import Content, Part
from weft.server import app
from weft.session import Holder, SessionKey
from weft.stores import open_store
from weft.turns import QueuedTurn, TurnInfo, open_turns
from weft.turns.turn import MOST_WAITING

ROOT = Path(__file__).parents[2]


@contextmanager
def server(
    *options: str, target: str = "tests.turns.desk:desk"
) -> Iterator[tuple[ForkedProgram, httpx2.Client]]:
    """`weft serve` in a process of its own, and a client of it."""
    process = ForkedProgram("weft", "serve", target, "--port", "0", *options)
    try:
        address = urlsplit(process.stdout.readline().strip())
        token = parse_qs(address.query)["token"][0]
        base = f"{address.scheme}://{address.netloc}"
        headers = {"authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=base, headers=headers, timeout=120) as client:
            yield process, client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.close()


def texts_of_run(client: httpx2.Client, session: str, message: str, **more: object) -> list[str]:
    """What a run says, as its stream tells it."""
    with client.stream(
        "POST",
        f"/api/apps/desk/sessions/{session}/runs",
        json={"message": message, "create": True, **more},
        headers={"accept": "text/event-stream"},
    ) as answer:
        if answer.status_code != 200:
            raise AssertionError(answer.read())
        events = [json.loads(one["data"]) for one in read_events(answer.iter_lines())]
    return [
        part["text"]
        for event in events
        if not event.get("partial")
        for part in event.get("content", {}).get("parts", ())
        if "text" in part
    ]


def worker_processes(file: Path) -> list[int]:
    """The workers that live, as the store has them."""
    connection = sqlite3.connect(file)
    rows = connection.execute("SELECT worker FROM turn_workers").fetchall()
    connection.close()
    return [int(str(name).split(":")[-2]) for (name,) in rows]


def test_a_server_with_workers_answers_also_when_one_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "weft.db"
    options = ("--store", f"sqlite:///{file}", "--workers", "1", "--grace", "5")
    with server(*options) as (process, client):
        client.post("/api/apps/desk/sessions", json={"id": "s"}).raise_for_status()
        connection = sqlite3.connect(file)
        connection.execute("CREATE TABLE bookings (item text)")
        connection.commit()
        assert texts_of_run(client, "s", "lamp", request_id="r1") == ["lamp", "done lamp"]
        assert texts_of_run(client, "s", "lamp", request_id="r1") == ["lamp", "done lamp"]
        assert connection.execute("SELECT item FROM bookings").fetchall() == [("lamp",)]
        (killed,) = worker_processes(file)
        assert killed != process.pid, "the server runs no turns itself"
        os.kill(killed, signal.SIGKILL)
        assert texts_of_run(client, "s", "chair") == ["chair", "done chair"]
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert {*worker_processes(file)} <= {killed}, "its workers ended with it"


@pytest.fixture
def queue_address(tmp_path: Path) -> str:
    """A store with a queue that nobody works on."""
    return f"sqlite:///{tmp_path}/weft.db"


def test_a_session_in_whose_line_too_many_wait_answers_429(queue_address: str) -> None:
    store = open_store(queue_address)
    application = app(Runner(desk, store=store), turns=open_turns(store))
    with serving(application) as live, live.client() as client:

        def post(session: str, request: str) -> httpx2.Response:
            body = {"message": "lamp", "create": True, "request_id": request, "busy": "queue"}
            return client.post(f"/api/apps/desk/sessions/{session}/runs", json=body)

        statuses = [post("s", f"r{n}").status_code for n in range(MOST_WAITING)]
        assert {*statuses} == {202}
        refused = post("s", "one more")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "5"
        assert refused.json()["detail"] == f"{MOST_WAITING} turns of the session wait already"
        assert "some of them are answered" in refused.json()["hint"]
        assert post("s", "r0").json()["repeated"], "what is known is refused to nobody"
        assert post("t", "r0").status_code == 202, "another session has its own line"


def test_what_is_wrong_with_a_request_is_said_and_what_is_right_waits(queue_address: str) -> None:
    store = open_store(queue_address)
    application = app(Runner(desk, store=store), turns=open_turns(store))
    with serving(application) as live, live.client() as client:
        posted = client.post(
            "/api/apps/desk/sessions/s/runs",
            json={"message": "lamp", "create": True, "request_id": "r1"},
        )
        assert posted.status_code == 202
        again = client.post(
            "/api/apps/desk/sessions/s/runs", json={"message": "lamp", "request_id": "r1"}
        )
        assert (posted.json()["repeated"], again.json()["repeated"]) == (False, True)
        assert posted.json()["id"] == again.json()["id"] == "r1"
        unknown = client.post("/api/apps/desk/sessions/t/runs", json={"message": "lamp"})
        assert unknown.status_code == 404
        refused = client.post(
            "/v1/chat/completions",
            json={
                "model": "desk",
                "messages": [{"role": "user", "content": "hi"}],
                "temperature": "warm",
            },
        )
        assert refused.status_code == 422, "before it is put"
        assert "temperature" in refused.text
        body = {"message": "lamp", "state": {"user:\0": 1}}
        refused = client.post("/api/apps/desk/sessions/s/runs", json=body)
        assert refused.status_code == 422, "no worker could store it"
        assert client.get("/api/apps/desk/sessions/s").json()["events"] in (0, []), "it waits"


def test_options_and_tools_of_a_request_go_with_its_turn(tmp_path: Path) -> None:
    """OpenAI's clients behind a queue: the worker asks the model as the request says."""
    options = ("--store", f"sqlite:///{tmp_path}/weft.db", "--workers", "1", "--grace", "5")
    tool = {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    with server(*options, target="tests.turns.teller:echo") as (_, client):

        def ask(messages: list[dict[str, object]], **more: object) -> dict[str, object]:
            answer = client.post(
                "/v1/chat/completions", json={"model": "echo", "messages": messages, **more}
            )
            assert answer.status_code == 200, answer.text
            message: dict[str, object] = answer.json()["choices"][0]["message"]
            return message

        noted = {"metadata": {"case": "7"}, "tools": [{"type": "function", **tool["function"]}]}  # type: ignore[dict-item]
        made = client.post("/v1/responses", json={"model": "echo", "input": "hi", **noted}).json()
        assert made["metadata"] == {"case": "7"}
        assert client.get(f"/v1/responses/{made['id']}").json() == made
        plain = ask([{"role": "user", "content": "hi"}])
        assert plain["content"] == "temperature None, tools []"
        warm = ask([{"role": "user", "content": "hi"}], temperature=0.3)
        assert warm["content"] == "temperature 0.3, tools []"
        asked: list[dict[str, object]] = [{"role": "user", "content": "call the tool"}]
        called = ask(asked, tools=[tool], temperature=0.5)
        (wanted,) = called["tool_calls"]  # type: ignore[misc]
        assert wanted["function"]["name"] == "weather"  # type: ignore[index]
        result = {"role": "tool", "tool_call_id": wanted["id"], "content": "rain"}  # type: ignore[index]
        answered = ask([*asked, called, result], tools=[tool], temperature=0.5)
        assert answered["content"] == "temperature 0.5, tools ['weather']"


def test_a_message_that_comes_twice_at_once_is_not_refused_for_its_own_run(
    queue_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(queue_address)
    turns = open_turns(store)
    application = app(Runner(desk, store=store), turns=turns)
    path, body = "/api/apps/desk/sessions/s/runs", {"message": "lamp", "request_id": "r1"}
    find = turns.find
    looks: list[str] = []

    async def finding(key: SessionKey, request_id: str) -> TurnInfo | None:
        looks.append(request_id)
        return await find(key, request_id) if len(looks) > 1 else None

    async def holder(key: SessionKey) -> Holder | None:
        return Holder("a worker")

    with serving(application) as live, live.client() as client:
        assert client.post(path, json={**body, "create": True}).json()["repeated"] is False
        # when this one looked first, the other was not in the queue; now a worker has it
        looks.clear()
        monkeypatch.setattr(turns, "find", finding)
        monkeypatch.setattr(store, "holder", holder)
        again = client.post(path, json=body)
        assert (again.status_code, again.json()["repeated"]) == (202, True)
        other = client.post(path, json={**body, "request_id": "r2"})
        assert other.status_code == 409


def test_a_turn_that_waits_is_cancelled_as_a_run_is(queue_address: str) -> None:
    store = open_store(queue_address)
    turns = open_turns(store)
    application = app(Runner(desk, store=store), turns=turns)
    one = "/api/apps/desk/sessions/s"
    body = {"message": "lamp", "create": True, "request_id": "r1"}

    async def put(session: str, **how: float) -> None:
        turn = QueuedTurn(
            key=SessionKey("desk", "user", session),
            request_id=f"own-{how}",
            message=Content(parts=(Part(text="lamp"),)),
            every=how.get("every"),
        )
        queue = open_turns(queue_address)
        await queue.open()
        assert await queue.put(turn, delay=how.get("delay", 0.0))
        await queue.close()

    with serving(application) as live, live.client() as client:
        assert client.post(f"{one}/runs", json=body).status_code == 202
        # what is for later, of a schedule, or of another session is none of this run
        asyncio.run(put("s", delay=3600.0))
        asyncio.run(put("s", every=3600.0))
        asyncio.run(put("t"))
        assert client.post(f"{one}/cancel").json() == {"cancelled": True}
        assert client.post(f"{one}/cancel").json() == {"cancelled": False}, "it is no longer there"
        # who follows it is told that no answer comes
        with client.stream(
            "POST", f"{one}/runs", json=body, headers={"accept": "text/event-stream"}
        ) as stream:
            (last,) = read_events(stream.iter_lines())
        assert last["event"] == "problem"
        assert json.loads(last["data"])["type"] == "urn:weft:problem:run-cancelled"

    async def statuses() -> list[tuple[str, str]]:
        queue = open_turns(queue_address)
        await queue.open()
        listed = [(one.turn.key.id, one.status) for one in await queue.list()]
        await queue.close()
        return listed

    assert asyncio.run(statuses()) == [
        ("s", "cancelled"), ("s", "waiting"), ("s", "waiting"), ("t", "waiting"),
    ]  # fmt: skip
