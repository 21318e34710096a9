"""The JSON API: sessions, runs, events, state, artifacts, questions, rewind, fork."""

import asyncio
import base64
import inspect
import json
import threading
from pathlib import Path

import httpx2
import pytest

from tests.server.live import read_events, serving
from tests.support.build import scripted_agent
from weft import Agent, ToolContext, tool
from weft.content import Blob, Part
from weft.server import Limits, app, sessions, watching
from weft.server.application import ENDPOINTS
from weft.testing import call, chunks, delayed, usage

ONE = "/api/apps/bot/sessions/s"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/weft.db"


def texts(client: httpx2.Client, path: str = ONE) -> list[str]:
    parts = [e.get("content", {}).get("parts", [{}]) for e in events(client, path)]
    return [one[0].get("text", "") for one in parts]


def events(client: httpx2.Client, path: str = ONE) -> list[dict[str, object]]:
    return client.get(f"{path}/events").json()["events"]  # type: ignore[no-any-return]


def test_the_page_shows_every_endpoint() -> None:
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")
    for row in (*watching.ENDPOINTS, *sessions.ENDPOINTS):
        path = row.path.replace("/api/apps/{app}/sessions/{session}/", ".../")
        path = path.replace("{session}", "{id}").replace(":path", "")
        assert f"`{path}" in page, "docs/serving.md has a table of them"


def test_every_function_of_a_chapter_has_its_row() -> None:
    handlers = {row.handler for row in ENDPOINTS}
    for chapter in {inspect.getmodule(one) for one in handlers}:
        assert chapter is not None
        for name, function in vars(chapter).items():
            if inspect.iscoroutinefunction(function) and function.__module__ == chapter.__name__:
                takes_call = list(inspect.signature(function).parameters) == ["call"]
                if takes_call and not name.startswith("_"):
                    assert function in handlers, f"{name} has no row in ENDPOINTS"


def test_a_session_from_beginning_to_end(store: str) -> None:
    with (
        serving(app(scripted_agent("Hello.", "Bye."), store=store)) as live,
        live.client() as client,
    ):
        assert client.get("/api/apps").json()[0]["name"] == "bot"
        made = client.post("/api/apps/bot/sessions", json={"id": "s", "state": {"topic": "x"}})
        assert (made.status_code, made.json()["status"]) == (201, "new")
        again = client.post("/api/apps/bot/sessions", json={"id": "s"})
        assert (again.status_code, again.json()["type"]) == (409, "urn:weft:problem:exists")
        started = client.post(f"{ONE}/runs", json={"message": "hi", "create": True})
        assert started.status_code == 202
        assert started.json()["after"] == 0
        with client.stream("GET", f"{ONE}/events", headers={"accept": "text/event-stream"}) as got:
            told = list(read_events(got.iter_lines()))
        assert [e.get("id") for e in told if "partial" not in e["data"]][:2] == ["1", "2"]
        assert told[-1] == {"event": "end", "data": '{"sequence":2}'}
        assert texts(client) == ["hi", "Hello."]
        shown = client.get(ONE).json()
        assert (shown["status"], shown["state"], shown["events"]) == ("done", {"topic": "x"}, 2)
        assert client.patch(f"{ONE}/state", json={"delta": {"topic": None, "n": 1}}).json() == {
            "n": 1
        }
        assert client.get(f"{ONE}/state").json() == {"n": 1}
        assert client.get(ONE).json()["status"] == "done"
        client.post(f"{ONE}/runs", json={"message": "bye"})
        with client.stream("GET", f"{ONE}/events", headers={"accept": "text/event-stream"}) as got:
            list(got.iter_lines())
        forked = client.post(f"{ONE}/fork", json={"upto": 2, "id": "t"})
        assert (forked.status_code, forked.json()["events"]) == (201, 2)
        invocation = events(client)[3]["invocationId"]
        rewound = client.post(f"{ONE}/rewind", json={"invocation_id": invocation})
        assert rewound.status_code == 200
        listed = client.get("/api/apps/bot/sessions").json()
        assert listed["total"] == 2
        assert client.delete(ONE).status_code == 204
        gone = client.get(ONE)
        assert (gone.status_code, gone.headers["content-type"]) == (404, "application/problem+json")


def test_a_run_is_streamed_where_the_client_accepts_it(store: str) -> None:
    with (
        serving(app(scripted_agent(chunks("He", "llo.")), store=store)) as live,
        live.client() as client,
    ):
        accept = {"accept": "text/event-stream"}
        with client.stream(
            "POST", f"{ONE}/runs", json={"message": "hi", "create": True}, headers=accept
        ) as got:
            told = list(read_events(got.iter_lines()))
    data = [json.loads(e["data"]) for e in told[:-1]]
    words = [one["content"]["parts"][0]["text"] for one in data]
    assert [*zip([e.get("id") for e in told[:-1]], words, strict=True)] == [
        ("1", "hi"), (None, "He"), (None, "llo."), ("2", "Hello."),
    ]  # fmt: skip


def waiting_bot() -> tuple[Agent, threading.Event]:
    """An agent whose tool waits until it is let go."""
    go = threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        go.wait(600)
        return "ok"

    agent = scripted_agent(call("wait"), "Done.", tools=[wait])
    return agent, go


def test_who_comes_back_misses_nothing(store: str) -> None:
    agent, go = waiting_bot()
    with serving(app(agent, store=store)) as live, live.client() as client:
        client.post(f"{ONE}/runs", json={"message": "hi", "create": True})
        accept = {"accept": "text/event-stream"}
        with client.stream("GET", f"{ONE}/events", headers=accept) as got:
            first = next(read_events(got.iter_lines()))
        go.set()
        back = {**accept, "last-event-id": first["id"]}
        with client.stream("GET", f"{ONE}/events", headers=back) as got:
            rest = [e["id"] for e in read_events(got.iter_lines()) if "id" in e]
        assert [int(id) for id in (first["id"], *rest)] == [*range(1, len(rest) + 2)]
        assert texts(client)[-1] == "Done."


def test_busy_unknown_and_invalid_are_told_before_the_stream(store: str) -> None:
    agent = scripted_agent(delayed(60, "never"))
    with serving(app(agent, store=store)) as live, live.client() as client:
        accept = {"accept": "text/event-stream"}

        def refused(method: str, path: str, **options: object) -> tuple[int, str]:
            got = client.request(method, path, headers=accept, **options)  # type: ignore[arg-type]
            assert got.headers["content-type"] == "application/problem+json"
            return got.status_code, got.json()["type"].rpartition(":")[2]

        client.post(f"{ONE}/runs", json={"message": "hi", "create": True})
        assert refused("POST", f"{ONE}/runs", json={"message": "me too"}) == (409, "busy")
        assert refused("POST", "/api/apps/nobody/sessions/s/runs", json={"message": "x"}) == (
            404, "unknown-app",
        )  # fmt: skip
        assert refused("GET", "/api/apps/bot/sessions/t/events") == (404, "unknown-session")
        for run in ({}, {"message": "hi"}, {"answers": {"c1": True}}):
            unknown = refused("POST", "/api/apps/bot/sessions/t/runs", json=run)
            assert unknown == (404, "unknown-session")
        assert refused("POST", f"{ONE}/runs", json={"message": ""}) == (422, "invalid")
        assert refused("POST", f"{ONE}/runs", json={"mesage": "x"}) == (422, "invalid")
        assert refused("POST", f"{ONE}/runs", json={"message": 7}) == (422, "invalid")
        assert refused("POST", f"{ONE}/runs", json=["x"]) == (422, "invalid")
        assert refused("GET", f"{ONE}/events?after=99") == (422, "invalid")
        assert refused("GET", f"{ONE}/events?after=-1") == (422, "invalid")
        assert client.post(f"{ONE}/cancel").json() == {"cancelled": True}
        assert client.get(ONE).json()["status"] == "cancelled"
        assert client.post(f"{ONE}/cancel").json() == {"cancelled": False}


def test_questions_are_listed_and_answered(store: str) -> None:
    paid: list[int] = []

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    agent = scripted_agent(call("pay", amount=5), "It is paid.", tools=[pay])
    with serving(app(agent, store=store)) as live, live.client() as client:
        accept = {"accept": "text/event-stream"}
        with client.stream(
            "POST", f"{ONE}/runs", json={"message": "go", "create": True}, headers=accept
        ) as got:
            list(got.iter_lines())
        (pending,) = client.get("/api/apps/bot/pending").json()
        question = pending["question"]
        assert (pending["session"], question["kind"], question["args"]) == (
            "s", "confirm", {"amount": 5},
        )  # fmt: skip
        assert client.get(ONE).json()["status"] == "waiting"
        wrong = client.post(f"{ONE}/answers", json={"answers": {"nope": True}})
        assert wrong.status_code == 422
        answers = {"answers": {question["id"]: True}}
        with client.stream("POST", f"{ONE}/answers", json=answers, headers=accept) as got:
            list(got.iter_lines())
        assert (paid, texts(client)[-1]) == ([5], "It is paid.")
        assert client.get(f"{ONE}/questions").json() == []


def test_artifacts_are_read_and_never_shown_as_pages(store: str) -> None:
    data = bytes(range(250, 256)) * 3 + b"!"
    media = {
        "plain.bin": base64.b64encode(data).decode(),
        # as google-adk writes it, with padding and without
        "url.bin": base64.urlsafe_b64encode(data).decode(),
        "bare.bin": base64.urlsafe_b64encode(data).decode().rstrip("="),
        "odd.bin": "%",
    }

    @tool
    async def save(ctx: ToolContext) -> str:
        """Save."""
        await ctx.save_artifact("page.html", Part(text="<script>alert(1)</script>"))
        for name, data in media.items():
            await ctx.save_artifact(name, Part(inline_data=Blob(mime_type="x/y", data=data)))
        return "saved"

    agent = scripted_agent(call("save"), "Saved.", tools=[save])
    with serving(app(agent, store=store)) as live, live.client() as client:
        accept = {"accept": "text/event-stream"}
        with client.stream(
            "POST", f"{ONE}/runs", json={"message": "go", "create": True}, headers=accept
        ) as got:
            list(got.iter_lines())
        listed = client.get(f"{ONE}/artifacts").json()
        assert listed == [{"name": name, "versions": [0]} for name in sorted((*media, "page.html"))]
        for name in ("plain.bin", "url.bin", "bare.bin"):
            assert client.get(f"{ONE}/artifacts/{name}?raw=1").content == data
        assert client.get(f"{ONE}/artifacts/odd.bin?raw=1").status_code == 422
        part = client.get(f"{ONE}/artifacts/page.html").json()
        assert part == {"text": "<script>alert(1)</script>"}
        raw = client.get(f"{ONE}/artifacts/page.html?raw=1")
        assert raw.headers["content-type"] == "application/octet-stream"
        assert client.get(f"{ONE}/artifacts/none").status_code == 404
        for trick in ("../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/x"):
            assert client.get(f"{ONE}/artifacts/{trick}").status_code in (404, 422)


def test_metrics_and_description(store: str) -> None:
    agent = scripted_agent(usage("Hi.", prompt=100, output=7, cached=50))
    with serving(app(agent, store=store)) as live, live.client() as client:
        accept = {"accept": "text/event-stream"}
        with client.stream(
            "POST", f"{ONE}/runs", json={"message": "go", "create": True}, headers=accept
        ) as got:
            list(got.iter_lines())
        lines = client.get("/metrics").text.splitlines()
        assert 'weft_runs_total{app="bot",outcome="done"} 1' in lines
        own = 'app="bot",agent="bot",model="scripted"'
        assert f'weft_tokens_total{{{own},kind="cached"}} 50' in lines
        assert any(line.startswith("weft_http_requests_total{") for line in lines)
        described = client.get("/openapi.json").json()
        assert described["openapi"] == "3.1.0"
        assert "/api/apps/{app}/sessions/{session}/runs" in described["paths"]
        assert client.get("/ready").json() == {"status": "ready"}


def test_a_model_that_fails_in_mid_stream_leaves_the_stream_whole(store: str) -> None:
    from weft.testing import fails_after

    agent = scripted_agent(fails_after("Half an", error=RuntimeError("boom")))
    with serving(app(agent, store=store)) as live, live.client() as client:
        accept = {"accept": "text/event-stream"}
        with client.stream(
            "POST", f"{ONE}/runs", json={"message": "go", "create": True}, headers=accept
        ) as got:
            told = list(read_events(got.iter_lines()))
        assert told[-1]["event"] == "end"
        assert any("errorCode" in json.loads(e["data"]) for e in told if "id" in e)
        assert client.get(ONE).json()["status"] == "error"


def test_a_session_deleted_while_it_is_followed_ends_the_stream(store: str) -> None:
    with serving(app(scripted_agent("Hi."), store=store)) as live, live.client() as client:
        client.post(f"{ONE}/runs", json={"message": "hi", "create": True})
        accept = {"accept": "text/event-stream"}
        with client.stream("GET", f"{ONE}/events?follow=1", headers=accept) as got:
            told = read_events(got.iter_lines())
            while "id" not in (event := next(told)) or event["id"] != "2":
                pass
            with live.client() as other:
                assert other.delete(ONE).status_code == 204
            assert next(told)["event"] == "problem"


async def test_a_thousand_streams_are_open_at_once(store: str) -> None:
    application = app(scripted_agent(), store=store, limits=Limits(burst=5_000, rate=5_000))
    with serving(application) as live, live.client() as client:

        def change(n: int) -> None:
            client.patch(f"{ONE}/state", json={"delta": {"n": n}})

        async def read() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
            writer.write(
                f"GET {ONE}/events?follow=1 HTTP/1.1\r\nhost: 127.0.0.1\r\n"
                f"authorization: Bearer {live.token}\r\naccept: text/event-stream\r\n\r\n".encode()
            )
            await reader.readuntil(b"id: 1\n")
            at_one.release()
            await reader.readuntil(b"id: 2\n")
            writer.close()

        client.post("/api/apps/bot/sessions", json={"id": "s"})
        await asyncio.to_thread(change, 1)
        at_one = asyncio.Semaphore(0)
        readers = [asyncio.create_task(read()) for _ in range(1_000)]
        for _ in readers:
            await at_one.acquire()
        assert "weft_streams_open 1000" in (await asyncio.to_thread(client.get, "/metrics")).text
        await asyncio.to_thread(change, 2)
        await asyncio.gather(*readers)


def test_a_message_that_comes_twice_is_one_run(store: str) -> None:
    agent, go = waiting_bot()
    body = {"message": "hi", "create": True}
    with serving(app(agent, store=store)) as live, live.client() as client:
        first = client.post(f"{ONE}/runs", json=body, headers={"idempotency-key": "r1"})
        # while it runs it is no second run, and not refused as one
        again = client.post(f"{ONE}/runs", json={**body, "request_id": "r1"})
        assert (first.status_code, again.status_code) == (202, 202)
        assert (first.json()["repeated"], again.json()["repeated"]) == (False, True)
        assert again.json() == {**first.json(), "repeated": True}
        assert client.post(f"{ONE}/runs", json=body).json()["type"] == "urn:weft:problem:busy"
        go.set()
        streamed = {"accept": "text/event-stream", "idempotency-key": "r1"}
        for _ in range(2):  # once while it ends, perhaps, and once when it has
            with client.stream("POST", f"{ONE}/runs", json=body, headers=streamed) as got:
                told = list(read_events(got.iter_lines()))
            assert told[-1]["event"] == "end"
            assert "Done." in told[-2]["data"]
        assert texts(client).count("hi") == 1
        assert len(events(client)) == 4
        other = client.post(f"{ONE}/runs", json={"message": "ho", "request_id": "r1"})
        assert (other.status_code, other.json()["type"]) == (409, "urn:weft:problem:request-taken")
        for wrong, headers in (("", {}), ("a", {"idempotency-key": "b"}), ("x" * 300, {})):
            refused = client.post(
                f"{ONE}/runs", json={**body, "request_id": wrong}, headers=headers
            )
            assert (refused.status_code, refused.json()["where"]) == (422, "/request_id")
