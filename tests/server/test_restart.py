"""A server that is killed in the middle of a run: the next one goes on, and nothing is repeated."""

import json
import signal
import time
from pathlib import Path

import httpx2

from tests.server.live import read_events, serving
from tests.support.forked import ForkedProgram
from weft import Agent
from weft.server import app
from weft.testing import ScriptedModel, delayed

PROGRAM = '''
"""An agent that makes five notes and then answers."""

import pathlib, time
from weft import Agent, tool
from weft.testing import ScriptedModel, call

JOURNAL = pathlib.Path(__file__).with_name("journal")


@tool
def note(n: int) -> str:
    """Note."""
    with JOURNAL.open("a") as file:
        file.write(f"{n}\\n")
    return f"noted {n}"


def say(prompt):
    """The next call, by what the request has: killed or not, the model says the same."""
    done = sum("noted" in str(item) for item in prompt.items)
    time.sleep(0.15)
    return call("note", n=done) if done < 5 else "All noted."


bot = Agent("bot", model=ScriptedModel([say] * 20), tools=[note])
'''

ONE = "/api/apps/bot/sessions/s"


def start(folder: Path, *more: str) -> tuple[ForkedProgram, httpx2.Client]:
    server = ForkedProgram("weft", "serve", "program:bot", "--port", "0", *more, cwd=folder)
    address = server.stdout.readline().strip()
    url, _, token = address.partition("/?token=")
    return server, httpx2.Client(
        base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=120
    )


def test_a_killed_server_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    server, client = start(tmp_path)
    accept = {"accept": "text/event-stream"}
    seen: list[int] = []
    with client:
        assert client.post(f"{ONE}/runs", json={"message": "go", "create": True}).status_code == 202
        try:
            with client.stream("GET", f"{ONE}/events", headers=accept) as got:
                for event in read_events(got.iter_lines()):
                    if "id" in event:
                        seen.append(int(event["id"]))
                    if len(seen) == 4:
                        server.send_signal(signal.SIGKILL)
        except httpx2.HTTPError:
            pass
    server.wait()
    server.close()
    assert len(seen) >= 4
    server, client = start(tmp_path)
    try:
        with client:
            back = {**accept, "last-event-id": str(seen[-1])}
            last: list[str] = []
            deadline = time.monotonic() + 300
            while not any("All noted." in text for text in last) and time.monotonic() < deadline:
                with client.stream("GET", f"{ONE}/events", headers=back) as got:
                    for event in read_events(got.iter_lines()):
                        if "id" in event:
                            seen.append(int(event["id"]))
                            last.append(event["data"])
                back["last-event-id"] = str(seen[-1])
            assert client.get(ONE).json()["status"] == "done"
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) in (0, -signal.SIGTERM)
        server.close()
    assert seen == [*range(1, len(seen) + 1)]
    # a tool that was killed while it ran may be run again: its effect is declared idempotent
    noted = (tmp_path / "journal").read_text().split()
    assert sorted(set(noted)) == ["0", "1", "2", "3", "4"]
    assert len(noted) <= 6


def test_a_run_of_another_server_is_seen_here_and_not_waited_for(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    slow = Agent("bot", model=ScriptedModel([delayed(600, "Slow.")]))
    one = "/api/apps/bot/sessions/s"
    with (
        serving(app(slow, store=address, recover=0, grace=0)) as here,
        serving(app(Agent("bot", model=ScriptedModel([])), store=address, recover=0)) as there,
        here.client() as ours,
        there.client() as theirs,
    ):
        run = ours.post(f"{one}/runs", json={"message": "Hi", "create": True}).json()
        for client in (ours, theirs):
            session = client.get(one).json()
            assert (session["running"], session["status"]) == (True, "running")
            # it would be answered when the run has ended, in ten minutes
            refused = client.post(f"{one}/rewind", json={"invocation_id": run["id"]})
            assert refused.status_code == 409
        assert theirs.post(f"{one}/cancel").json() == {"cancelled": True}
        assert theirs.get(one).json()["running"] is False


OSLO = '{"city": "Oslo"}'
FORMED = PROGRAM.replace('"All noted."', f'{OSLO!r} if prompt.output else "All noted."')
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_a_response_has_its_form_and_its_tools_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FORMED)
    server, client = start(tmp_path)
    tool = {"type": "function", "name": "mine", "parameters": {"type": "object"}}
    body = {
        "model": "bot",
        "input": "go",
        "stream": True,
        "tools": [tool],
        "text": {"format": {"type": "json_schema", "name": "city", "schema": CITY}},
    }
    with client, client.stream("POST", "/v1/responses", json=body) as got:
        id = json.loads(next(read_events(got.iter_lines()))["data"])["response"]["id"]
        journal = tmp_path / "journal"
        while not journal.exists() or len(journal.read_text().split()) < 2:
            time.sleep(0.01)
        server.send_signal(signal.SIGKILL)
        server.close()
    server, client = start(tmp_path)
    with client:
        while (response := client.get(f"/v1/responses/{id}").json())["status"] == "in_progress":
            time.sleep(0.05)
        server.send_signal(signal.SIGTERM)
        server.wait()
        server.close()
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == OSLO
