"""A page in a real browser, as the tests use it: what goes wrong on it fails the test."""

import asyncio
import shutil
import urllib.parse
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.live import Live
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


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser, for as many pages as one likes."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=BROWSER,
            timeout=180_000,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine; the browser's driver has the loop of this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@contextmanager
def watched(browser: Any, *, forgiven: tuple[str, ...] = (), **options: object) -> Iterator[Any]:
    """A page that must log no error, ask nobody outside, and run no planted script.

    `forgiven` are words of console errors that the test itself provokes.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    page = context.new_page()
    page.set_default_timeout(120_000)
    problems: list[str] = []
    outside: list[str] = []
    page.on("console", lambda m: m.type == "error" and problems.append(m.text))
    page.on("pageerror", lambda error: problems.append(str(error)))

    def look(route: Any) -> None:
        place = urllib.parse.urlsplit(route.request.url)
        if place.hostname != "127.0.0.1" and place.scheme not in ("file", "data", "blob"):
            outside.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    page.route("**/*", look)
    yield page
    title = page.title()
    planted = page.locator("img, iframe, body script:not([src]):not([type=module])").count()
    context.close()
    assert [one for one in problems if not any(word in one for word in forgiven)] == []
    assert outside == []
    assert title == "Weft inspector", "a planted script ran"
    assert planted == 0, "a planted tag is an element"


AXE = Path(__file__).parents[2] / ".venv-clients" / "node_modules" / "axe-core" / "axe.min.js"
"""Where `make test` puts what looks whether everybody can use a page."""


def find_serious(page: Any) -> list[str]:
    """What axe finds that matters; nothing where it is not installed."""
    if not AXE.exists():
        return []
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    return page.evaluate(
        "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations"
        ".filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`)"
    )


@contextmanager
def opened(browser: Any, live: Live, **options: Any) -> Iterator[Any]:
    """A page with the list of sessions of a server."""
    with watched(browser, **options) as page:
        page.goto(f"{live.url}/?token={live.token}")
        page.wait_for_selector("tr.pick")
        yield page


def session_key(app: str, session: str) -> str:
    """How the page calls a session."""
    return compact([app, "user", session])


def open_session(page: Any, app: str, session: str, view: str = "request") -> None:
    """Go to a view of a session."""
    address = f"#{urllib.parse.quote(session_key(app, session), safe='')}/last/{view}"
    page.evaluate(
        "(to) => { history.pushState(null, '', to); dispatchEvent(new Event('popstate')); }",
        address,
    )
    page.wait_for_selector("[data-testid=step]")


class Held:
    """Requests of a page that are held back on their way, until the test lets them go."""

    def __init__(self, page: Any, pattern: str) -> None:
        self._page = page
        self._pattern = pattern
        self._routes: list[Any] = []
        page.route(pattern, lambda route: self._routes.append(route))

    def next(self) -> Any:
        """The first that is still held; it may be on its way here."""
        for _ in range(3000):
            if self._routes:
                return self._routes.pop(0)
            self._page.wait_for_timeout(20)
        raise AssertionError(f"nobody asked for {self._pattern}")

    def let_go(self) -> None:
        """Let the first that is held arrive, and its answer too."""
        route = self.next()
        with self._page.expect_response(lambda one: one.request == route.request) as answer:
            route.continue_()
        answer.value.finished()
        settle(self._page)

    def __len__(self) -> int:
        return len(self._routes)

    def stop(self) -> None:
        """Hold nothing more."""
        self._page.unroute(self._pattern)


def settle(page: Any) -> None:
    """Let the page do what it does with what has arrived."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")


CONTRAST = """() => {
    const rgb = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const over = ([r, g, b, a = 1], [x, y, z]) =>
        [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
    const light = (c) => c.slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) {
            const c = rgb(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] > 0) layers.push(c);
            if (c.length === 3 || c[3] === 1) break;
        }
        return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const bad = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        const element = node.parentElement;
        if (!node.data.trim() || !element.checkVisibility()) continue;
        if (element.closest(":disabled")) continue;
        if (/^(SCRIPT|STYLE|OPTION|TITLE|title)$/.test(element.tagName)) continue;
        const style = getComputedStyle(element), svg = element instanceof SVGElement;
        if (svg && !element.closest(".film")) continue;
        if (svg && element.classList.contains("call")) continue;
        const back = behind(element), ink = over(rgb(svg ? style.fill : style.color), back);
        const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) bad.push(`${node.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
    }
    return bad;
}"""
"""Texts of the page with less contrast than 4.5 to what is behind them."""
