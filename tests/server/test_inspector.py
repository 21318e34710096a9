"""The inspector in a real browser: every view, on a stored session and while it runs."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inspector.sessions import find_flights
from tests.server.live import Live, serving
from weft import Agent, C, tool
from weft.server import app
from weft.testing import ScriptedModel, call
from weft.values import compact

BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
needs_browser = pytest.mark.skipif(
    BROWSER is None,
    reason="NO BROWSER: the inspector's page is not tested; apt-get install chromium",
)

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
    for _ in range(200):
        shown = client.get("/api/apps/traveller/sessions/s").json()
        if shown.get("status") != "running":
            return
        client.get("/health")
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


@pytest.fixture
def page(live: Live):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.problems = []
        page.outside = []
        page.on("console", lambda m: m.type == "error" and page.problems.append(m.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))

        def look(route):
            place = urllib.parse.urlsplit(route.request.url)
            if place.hostname != "127.0.0.1" and place.scheme not in ("file", "data"):
                page.outside.append(route.request.url)
                route.abort()
            else:
                route.continue_()

        page.route("**/*", look)
        page.goto(f"{live.url}/?token={live.token}")
        yield page
        assert page.problems == []
        assert page.outside == []
        assert page.title() == "Weft inspector"
        browser.close()


def _open(page) -> None:
    page.click("tr.pick")
    page.wait_for_selector("[data-testid=messages]")


@needs_browser
def test_every_view_in_a_browser(page, live: Live) -> None:
    _open(page)
    assert page.locator("rect.hit").count() == 12
    assert page.text_content("[data-testid=step]") == "12 / 12"
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("text='11 / 12'")
    page.keyboard.press("End")
    page.click("text=Left out")
    page.click("text=force in >> nth=0")
    page.wait_for_selector("[data-testid=compared]")
    page.click("nav >> text=Cache")
    page.wait_for_selector("[data-testid=cache]")
    page.click("nav >> text=What if")
    page.fill("input[type=number]", "1")
    page.wait_for_selector("text=sees(C.window(1))")
    page.click("text=the whole session")
    page.wait_for_selector("[data-testid=both]")
    page.click("nav >> text=Bisect")
    page.fill("input[placeholder^='a sentence']", "DY522 to City1")
    page.click("form >> text=find")
    page.wait_for_selector("text=It vanished at step 7")
    page.click("nav >> text=Dead weight")
    page.wait_for_selector("text=never")
    page.click("nav >> text=Graph")
    page.wait_for_selector("[data-testid=graph] svg")
    page.click("nav >> text=Trust")
    page.wait_for_selector("[data-testid=trust]")
    page.click("nav >> text=Events")
    page.wait_for_selector("[data-testid=events]")
    assert page.locator("text=document.title").count() > 0, "the planted tag is text"
    page.set_viewport_size({"width": 390, "height": 800})
    page.click("nav >> text=Request")
    page.wait_for_selector("[data-testid=messages]")
    assert page.evaluate("document.documentElement.scrollWidth <= 400")


@needs_browser
def test_hovering_a_character_lights_its_origin_and_back(page, live: Live) -> None:
    _open(page)
    view = _ask(live, "request", step=12)
    page.click("text=Raw JSON")
    page.wait_for_selector("[data-testid=raw] .line")
    shown = page.evaluate(
        """async () => {
            const box = document.querySelector("[data-testid=raw]"), spans = new Map();
            for (let top = 0; top <= box.scrollHeight; top += 1200) {
                box.scrollTop = top; box.dispatchEvent(new Event("scroll"));
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
                for (const s of box.querySelectorAll("[data-at]"))
                    spans.set(+s.dataset.at, [s.textContent, +s.dataset.o]);
            }
            return [...spans].sort((a, b) => a[0] - b[0]);
        }"""
    )
    text = "".join(piece for _, (piece, _) in shown)
    assert text == view["text"], "the spans that are shown are the whole request"
    rng = random.Random(3)
    for at in rng.sample(range(len(text)), 200):
        _, (_, origin) = next(row for row in reversed(shown) if row[0] <= at)
        known = next(row for row in view["segments"] if at < row[0])
        assert origin == known[1]
    page.evaluate("document.querySelector('[data-testid=raw]').scrollTop = 0")
    page.wait_for_timeout(100)
    for number in rng.sample(range(20), 5):
        span = page.locator("[data-testid=raw] [data-at]").nth(number)
        span.hover(force=True)
        origin = span.get_attribute("data-o")
        assert f'[data-o="{origin}"]' in page.evaluate("document.head.lastElementChild.textContent")
    page.hover(f"[data-origin='{len(view['origins']) - 1}']")
    assert page.evaluate("document.head.lastElementChild.textContent").startswith(
        f'[data-o="{len(view["origins"]) - 1}"]'
    )


@needs_browser
def test_chat_approvals_and_forks_live(page, live: Live) -> None:
    _open(page)
    page.click("nav >> text=Chat")
    page.fill("textarea", "Pay for it")
    page.click("button:has-text('send')")
    page.wait_for_selector("text=waits for an answer", timeout=15000)
    page.click("text=approve")
    page.wait_for_selector("text=Paid.", timeout=15000)
    page.wait_for_selector("text=/ 14", timeout=15000)
    page.click("nav >> text=Events")
    page.on("dialog", lambda dialog: dialog.accept("Fly me to Rome"))
    page.locator("button:has-text('fork here')").first.click()
    page.wait_for_selector("text=New session")
    page.click("text=open it")
    page.wait_for_selector("text=Rome", timeout=15000)


@needs_browser
def test_a_deleted_session_leaves_the_page_alive(page, live: Live) -> None:
    _open(page)
    with live.client() as client:
        assert client.delete("/api/apps/traveller/sessions/s").status_code in (200, 204)
    page.wait_for_selector("[role=alert]", timeout=15000)
    page.problems[:] = [one for one in page.problems if "404" not in one]
    page.click("text=Sessions")
    page.wait_for_selector("text=No session yet")
    page.problems[:] = [one for one in page.problems if "404" not in one]


@needs_browser
def test_the_exported_file_opens_without_a_server(page, live: Live, tmp_path: Path) -> None:
    with live.client() as client:
        answer = client.get("/inspect/api/export", params={"session": KEY})
    assert "attachment" in answer.headers["content-disposition"]
    file = tmp_path / "session.html"
    file.write_text(answer.text)
    page.goto(file.as_uri())
    page.wait_for_selector("[data-testid=messages]")
    assert page.locator("rect.hit").count() == 12
    page.click("nav >> text=Cache")
    page.wait_for_selector("[data-testid=cache]")


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


def test_many_questions_at_once_get_the_answers_of_one(live: Live) -> None:
    from concurrent.futures import ThreadPoolExecutor

    asked = [("film", {}), ("ghosts", {}), ("request", {"step": 12}), ("dead-weight", {})] * 6
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda one: _ask(live, one[0], **one[1]), asked))
    assert answers[:4] * 6 == answers
    assert len(answers[0]["frames"]) == 12
