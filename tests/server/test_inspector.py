"""The inspector over HTTP: its answers are the compiler's, and its refusals say why."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection

from tests.inspector.sessions import find_flights
from tests.server.live import Live, Rehearsals, serving
from weft import Agent, C, tool
from weft.inspector.inspection import REHEARSED
from weft.server import app, inspect
from weft.server.access import OPERATOR, Identity
from weft.testing import ScriptedModel, call
from weft.values import compact

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount} {EVIL}"


def _agent() -> Agent:
    script = []
    for turn in range(6):
        script += [call("find_flights", city=f"City{turn}"), f"Take SK501 to City{turn}. {EVIL}"]
    script += [call("pay", amount=5), "Paid.", "And a last word."]
    return Agent(
        "traveller",
        model=ScriptedModel(script, name="claude-opus-5", dialect="anthropic"),
        instruction="You book trips. The user likes {seat?}.",
        tools=[find_flights, pay],
    ).sees(C.window(2))


@pytest.fixture
def live() -> Iterator[Live]:
    with serving(app(_agent())) as server:
        with server.client() as client:
            for turn in range(6):
                body = {
                    "message": f"Fly me to City{turn}",
                    "state": {"seat": "aisle seats"},
                    "create": True,
                }
                answer = client.post("/api/apps/traveller/sessions/s/runs", json=body)
                assert answer.status_code in (200, 202), answer.text
                _settle(client)
        yield server


def _settle(client) -> None:
    for _ in range(3000):
        shown = client.get("/api/apps/traveller/sessions/s").json()
        if shown.get("status") != "running":
            return
        time.sleep(0.02)
    raise AssertionError("the run does not end")


KEY = '["traveller","user","s"]'

_NOBODY = urllib.parse.quote('["traveller","user","no"]')


def _ask(server: Live, path: str, **params: object) -> object:
    with server.client() as client:
        answer = client.get(f"/inspect/api/{path}", params={"session": KEY, **params})
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_the_page_says_what_the_compiler_says(live: Live) -> None:
    film = _ask(live, "film")
    assert len(film["frames"]) == 12
    assert film["can_chat"]
    runner = live.application.served.runners["traveller"]
    with live.client() as client:
        log = client.get("/api/apps/traveller/sessions/s/events").json()
    assert log
    view = _ask(live, "request", step=12)
    sent = runner.root.model.wires[11]
    assert view["text"] == compact(sent)
    changed = _ask(live, "what-if", step=12, window=1)
    assert changed["tokens"] < changed["tokens_now"]


def test_what_is_not_there_is_a_problem_document(live: Live) -> None:
    with live.client() as client:
        for path, status in (
            ("film?session=nobody", 404),
            (f"film?session={_NOBODY}", 404),
            (f"request?session={urllib.parse.quote(KEY)}&step=99", 422),
            (f"request?session={urllib.parse.quote(KEY)}&step=-1", 422),
            (f"what-if?session={urllib.parse.quote(KEY)}&step=1&policy=open('x')", 422),
            (f"force?session={urllib.parse.quote(KEY)}&step=1&events=nothing", 422),
            (f"test?session={urllib.parse.quote(KEY)}&step=1&target=os;evil:x", 422),
            ("film", 422),
            (f"live?session={_NOBODY}", 404),
        ):
            answer = client.get(f"/inspect/api/{path}")
            assert answer.status_code == status, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]
        assert client.get("/vendor/../../../etc/passwd").status_code == 404
    with live.client("wrong") as stranger:
        assert stranger.get("/inspect/api/sessions").status_code == 401
        assert stranger.get("/").status_code == 401


def test_what_is_said_on_the_page_is_bounded_and_json(live: Live) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(90):
            yield b"x" * 100_000

    with live.client() as client:
        for content, kind, status in (
            (parts(), "application/json", 413),
            (b'{"text": ' + b"[" * 100_000, "application/json", 400),
            (b"[1]", "application/json", 422),
            (b'{"text": "hi"}', "text/plain", 415),
        ):
            answer = client.post(
                "/inspect/api/say",
                params={"session": KEY},
                content=content,
                headers={"content-type": kind},
            )
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"


def test_users_see_only_their_own_sessions() -> None:
    from weft.server import Tokens

    application = app(_agent(), auth=Tokens({"ann": "a" * 24, "bob": "b" * 24}))
    with serving(application) as server:
        with server.client("a" * 24) as ann:
            ann.post("/api/apps/traveller/sessions/s/runs", json={"message": "hi", "create": True})
            rows = []
            for _ in range(100):
                rows = ann.get("/inspect/api/sessions").json()
                if rows:
                    break
            assert [row["user"] for row in rows] == ["ann"]
        with server.client("b" * 24) as bob:
            assert bob.get("/inspect/api/sessions").json() == []
            key = '["traveller","ann","s"]'
            assert bob.get("/inspect/api/film", params={"session": key}).status_code == 404


def test_a_session_that_was_deleted_is_not_shown_in_place_of_a_new_one(tmp_path: Path) -> None:
    agent = Agent("traveller", model=ScriptedModel(["The old word.", "The new word."]))
    path = "/api/apps/traveller/sessions/s"
    with (
        serving(app(agent, store=f"sqlite:///{tmp_path}/weft.db")) as live,
        live.client() as client,
    ):
        films: list[str] = []
        for _ in range(2):
            run = {"message": "Hi", "create": True}
            client.post(f"{path}/runs", json=run, headers={"accept": "text/event-stream"})
            films.append(client.get("/inspect/api/event", params={"session": KEY, "index": 1}).text)
            client.delete(path).raise_for_status()
    assert ["old" in film for film in films] == [True, False]


def test_a_user_with_the_name_of_the_operator_is_not_the_operator() -> None:
    def who(connection: HTTPConnection) -> Identity:
        user = connection.headers["x-user"]
        return OPERATOR if user == "root" else Identity(user, user)

    agent = Agent("traveller", model=ScriptedModel(["Hello."]))
    with serving(app(agent, auth=who)) as live, live.client("unused") as client:  # type: ignore[arg-type]
        run = {"message": "Hi", "create": True}
        own = {"x-user": "ann", "accept": "text/event-stream"}
        client.post("/api/apps/traveller/sessions/s/runs", json=run, headers=own)
        listed = [
            len(client.get("/inspect/api/sessions", headers={"x-user": user}).json())
            for user in ("root", OPERATOR.name, "ann")
        ]
    assert listed == [1, 0, 1]


def test_weft_inspect_shows_recordings_without_their_program(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Where is Oslo?"},
        {"role": "assistant", "content": "In Norway."},
    ]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({"model": "gpt-5", "messages": messages}))
    page = tmp_path / "chat.html"
    done = subprocess.run(
        [sys.executable, "-m", "weft", "inspect", str(file), "--html", str(page)],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"In Norway", page.read_text())


def test_a_message_waits_for_a_run_that_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        gate.wait(60)
        return "done"

    script = [call("wait"), "First.", "Second."]
    agent = Agent("bot", model=ScriptedModel(script), tools=[wait])
    params = {"session": '["bot","user","s"]'}
    with serving(app(agent)) as server, server.client() as client:

        def say() -> int:
            answer = client.post("/inspect/api/say", params=params, json={"text": "Hi"})
            return answer.status_code

        client.post("/api/apps/bot/sessions", json={"id": "s"})
        assert say() == 200
        monkeypatch.setattr(inspect, "LETTING_GO", 0.1)
        assert say() == 409
        monkeypatch.setattr(inspect, "LETTING_GO", 60)
        opening = threading.Timer(0.3, gate.set)
        opening.start()
        assert say() == 200
        opening.join()


def test_many_questions_at_once_get_the_answers_of_one(live: Live) -> None:
    from concurrent.futures import ThreadPoolExecutor

    asked = [("film", {}), ("ghosts", {}), ("request", {"step": 12}), ("dead-weight", {})] * 6
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda one: _ask(live, one[0], **one[1]), asked))
    assert answers[:4] * 6 == answers
    assert len(answers[0]["frames"]) == 12


def test_to_look_and_to_rehearse_writes_nothing_and_calls_nothing(
    tmp_path: Path, rehearsals: Rehearsals
) -> None:
    calls: list[str] = []

    @tool
    def note(word: str) -> str:
        """Note a word."""
        calls.append(word)
        return f"noted {word}"

    model = ScriptedModel([call("note", word="one"), call("note", word="two"), "Both."])
    agent = Agent("traveller", model=model, instruction="Note.", tools=[note])
    file = tmp_path / "weft.db"

    def stored() -> list[str]:
        connection = sqlite3.connect(file)
        rows = [*connection.iterdump()]
        connection.close()
        return rows

    with serving(app(agent, store=f"sqlite:///{file}")) as live, live.client() as client:
        body = {"message": "Go", "create": True}
        assert client.post("/api/apps/traveller/sessions/s/runs", json=body).status_code == 202
        _settle(client)
        before, asked = stored(), len(model.prompts)
        assert (calls, asked) == (["one", "two"], 3)
        with client.stream("GET", "/inspect/api/live", params={"session": KEY}):
            assert rehearsals.ended.wait(120)
            for policy in (*REHEARSED, "C.window(1)"):
                _ask(live, "what-if", step=3, policy=policy, budget=4000)
                _ask(live, "compare", policy=policy)
            _ask(live, "bisect", text="noted one")
            for path in ("film", "ghosts", "dead-weight", "trust", "picture"):
                _ask(live, path)
            for path in ("request", "cache", "test"):
                _ask(live, path, step=2)
        assert rehearsals.forgotten.wait(120)
        assert client.get("/inspect/api/export", params={"session": KEY}).status_code == 200
        assert stored() == before
    assert (calls, len(model.prompts)) == (["one", "two"], asked)


def test_a_session_is_rehearsed_while_somebody_looks(live: Live, rehearsals: Rehearsals) -> None:
    cold = {policy: _ask(live, "what-if", step=9, policy=policy) for policy in REHEARSED}
    length = len(_ask(live, "film")["events"])
    with live.client() as client:
        params = {"session": KEY, "after": length}
        with client.stream("GET", "/inspect/api/live", params=params) as stream:
            assert stream.status_code == 200
            assert rehearsals.ended.wait(60)
            for policy in REHEARSED:
                assert _ask(live, "what-if", step=9, policy=policy) == cold[policy]
            assert not rehearsals.forgotten.is_set()
    assert rehearsals.forgotten.wait(60)
