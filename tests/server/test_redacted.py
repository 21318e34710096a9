"""What agents redact or withhold, over HTTP and in a browser: no view that explains shows it."""

import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.secrets import PLANTED, guarded_agent, leaks, talk
from tests.server.browser import done, needs_browser, watched
from tests.server.live import Live, Rehearsals, serving
from weft import Runner
from weft.inspector.inspection import REHEARSED, Variant
from weft.server import app
from weft.server.inspect import inspector_routes
from weft.values import compact

KEY = compact(["bot", "user", "s"])


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    runner = Runner(guarded_agent())
    done(talk(runner))
    with serving(app(runner)) as server:
        yield server


def _routes(live: Live) -> list[str]:
    """The questions that the page may ask of a session."""
    routes = inspector_routes(live.application.served, lambda request: None)  # type: ignore[arg-type,return-value]
    prefix = "/inspect/api/"
    return [
        route.path.removeprefix(prefix)
        for route in routes
        if route.path.startswith(prefix) and "GET" in (route.methods or ())
    ]


def test_no_route_but_that_of_one_event_shows_a_value(live: Live) -> None:
    asked: set[str] = set()
    with live.client() as client:
        film = client.get("/inspect/api/film", params={"session": KEY}).json()
        steps = len(film["frames"])
        for route in _routes(live):
            # numbers only; and the log as it is stored, of one event or one of its files
            if route in ("live", "event", "media"):
                continue
            asked.add(route)
            for policy in ("", *REHEARSED, "C.default()"):
                for step in (1, steps // 2, steps):
                    params = {
                        "session": KEY,
                        "step": step,
                        "policy": policy,
                        "text": "I am and so on",
                        "events": film["events"][0]["id"],
                    }
                    answer = client.get(f"/inspect/api/{route}", params=params)
                    assert answer.status_code == 200, answer.text
                    assert leaks(answer.text) == [], (route, params)
                    if route in ("sessions", "film", "ghosts", "export", "trust", "picture"):
                        break
                else:
                    continue
                break
        stored = client.get("/inspect/api/event", params={"session": KEY, "index": 0})
    assert "jane@example.org" in stored.text, "the log itself, for who may read it"
    assert asked >= {"film", "request", "cache", "what-if", "compare", "force", "bisect", "export"}


def test_a_file_is_redacted_unless_somebody_asks_for_all(live: Live) -> None:
    with live.client() as client:
        answer = client.get("/inspect/api/export", params={"session": KEY})
        whole = client.get("/inspect/api/export", params={"session": KEY, "raw": "true"})
        wrong = client.get("/inspect/api/export", params={"session": KEY, "raw": "yes please"})
    assert leaks(answer.text) == []
    assert 'filename="s.html"' in answer.headers["content-disposition"]
    assert "jane@example.org" in whole.text
    assert wrong.status_code == 422
    assert "neither true nor false" in wrong.json()["detail"]


def test_what_is_compiled_ahead_goes_when_the_last_page_leaves(
    live: Live, rehearsals: Rehearsals
) -> None:
    inspections = rehearsals.inspections
    variant = Variant(policy=REHEARSED[0])
    with live.client() as client, live.client() as other:
        length = len(client.get("/inspect/api/film", params={"session": KEY}).json()["events"])
        params = {"session": KEY, "after": length}
        with client.stream("GET", "/inspect/api/live", params=params):
            with other.stream("GET", "/inspect/api/live", params=params):
                _until(lambda: any(one._watchers == 2 for one in inspections))
                assert rehearsals.ended.wait(60)
            (inspection,) = inspections
            _until(lambda: inspection._watchers == 1)
            assert not rehearsals.forgotten.is_set()
            assert variant in inspection._rehearsed
        assert rehearsals.forgotten.wait(60)
    assert variant not in inspection._rehearsed


def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to be")


VIEWS = (
    ("Request", "messages"),
    ("Left out", "left-out"),
    ("Cache", "cache"),
    ("Dead weight", "weight"),
    ("Graph", "graph"),
    ("Trust", "trust"),
    ("Receipt", "receipt"),
    ("Events", "events"),
)


def _look_through(page: Any, steps: int) -> None:
    """Every view of some steps, with all that the page has on it."""
    for _ in range(steps):
        for title, name in VIEWS:
            page.click(f"nav >> text='{title}'")
            page.wait_for_selector(f"[data-testid={name}]")
            assert leaks(page.content()) == [], name
        page.click("[aria-label='call before']")


@needs_browser
def test_the_page_shows_no_value_and_offers_both_files(
    browser: Any, live: Live, tmp_path: Path
) -> None:
    with watched(browser) as page:
        page.goto(f"{live.url}/?token={live.token}")
        page.wait_for_selector("tr.pick")
        page.goto(f"{live.url}/#{urllib.parse.quote(KEY, safe='')}/last/request")
        page.wait_for_selector("[data-testid=messages][data-whole=true]")
        _look_through(page, 2)
        page.click("nav >> text='What if'")
        page.click("text='C.default()'")
        page.wait_for_selector("text=sees(C.default().redact('email'")
        page.wait_for_selector("[data-testid=messages][data-whole=true]")
        assert leaks(page.content()) == []
        page.click("nav >> text='Chat'")
        page.wait_for_selector(".question >> text=ask jane@example.org")  # who decides sees it
        assert page.get_by_text("Export as one file").get_attribute("title") == (
            "without what the agents hide: email, api_key, the field pin, a pattern,"
            " the label secret"
        )
        for words, is_clean in (("Export as one file", True), ("as stored", False)):
            with page.expect_download() as saved:
                page.get_by_text(words, exact=True).click()
            text = Path(saved.value.path()).read_text()
            assert (leaks(text) == []) is is_clean, words
            (tmp_path / f"{is_clean}.html").write_text(text)
    for is_clean, words in ((True, "Redacted file."), (False, "File as stored.")):
        with watched(browser) as page:
            page.goto((tmp_path / f"{is_clean}.html").as_uri())
            page.wait_for_selector("[data-testid=messages][data-whole=true]")
            kind = page.text_content("[data-testid=file]")
            assert kind.startswith(words)
            assert "email, api_key, the field pin, a pattern, the label secret" in kind
            if is_clean:
                _look_through(page, 3)
                assert page.locator("[role=alert]").count() == 0


def test_everything_planted_is_in_the_log(live: Live) -> None:
    with live.client() as client:
        log = client.get("/api/apps/bot/sessions/s/events").text
        state = client.get("/api/apps/bot/sessions/s/state").text
    assert [one for one in PLANTED if one not in log + state] == []
