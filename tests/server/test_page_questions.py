"""The questions people bring to the inspector, each answered by clicks, in a real browser.

One browser walks them all, at the widths of a desk and of a phone, in light and dark; axe looks at
every view.
"""

import base64
import itertools
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.inspector.sessions import book_hotel, find_flights
from tests.server.browser import done, needs_browser, open_session, opened
from tests.server.live import Live, serving
from weft import Agent, Runner
from weft.content import Blob, Content, Part
from weft.server import app
from weft.testing import ScriptedModel, call, usage

pytestmark = needs_browser

MARKDOWN = (
    "## Flights\n\n- take **SK401**\n- gate `B`\n\n| flight | price |\n|---|---|\n| SK401 | 95 |\n"
    "\n"
    "<img src=x onerror=alert(1)> [site](javascript:alert(1)) ![x](http://evil.example/p.png)"
    " \u202egnihton\u202c \x1b[31mred"
)


def _picture() -> str:
    """A red point as PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b"")).decode()


def _model(*script: Any) -> ScriptedModel:
    return ScriptedModel([*script], name="claude-opus-5", dialect="anthropic")


class World:
    """The runners that are served."""

    def __init__(self) -> None:
        minutes = itertools.count(10)
        script = [
            usage(call("find_flights", city="Oslo"), prompt=3000, cached=0, output=20),
            usage(MARKDOWN, prompt=3300, cached=2000, output=90),
            "It is a point.",
            call("find_flights", city="Oslo"),
            "Cheap: SK401.",
            call("book_hotel", name="Grand"),
        ]
        self.traveller = Runner(
            Agent(
                "traveller",
                model=_model(*script),
                instruction=lambda _: f"{'Rules. ' * 900}\nNow: 10:{next(minutes)} o'clock",
                tools=[find_flights, book_hotel],
            )
        )
        finder = Agent("finder", model=_model(call("find_flights", city="Rome"), "Found."))
        writer = Agent("writer", model=_model("Written."), instruction="Write.")
        self.flow = Runner(finder.uses(find_flights) >> writer, app_name="flow")

    async def prepare(self) -> None:
        """Run what the page shows."""
        await self.traveller.run("Fly me to **Oslo**", session_id="s")
        picture = Part(inline_data=Blob(mime_type="image/png", data=_picture()))
        message = Content(role="user", parts=(Part(text="What is this?"), picture))
        await self.traveller.run(message, session_id="s")
        await self.flow.run("Plan a holiday in Rome", session_id="f")


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    world = World()
    done(world.prepare())
    with serving(app(world.traveller, world.flow)) as server:
        yield server


def test_every_question_is_answered_by_clicks(browser: Any, live: Live) -> None:
    with opened(browser, live) as page:
        # which session was it: by the words that were said or returned
        assert "Fly me to **Oslo**" in page.text_content("[data-testid=sessions]")
        page.fill("[aria-label='search sessions']", "holiday")
        page.wait_for_selector("text='1 session'")
        page.fill("[aria-label='search sessions']", "")
        page.wait_for_selector("text='2 sessions'")
        page.select_option("[aria-label=agent]", "writer")
        page.wait_for_selector("text='1 session'")
        # who made which call: a lane for each agent, by call or by time
        page.click("tr.pick >> text=f")
        page.wait_for_selector(".film text:has-text('finder')")
        assert page.locator(".film text:has-text('writer')").count() == 1
        page.click("text='by time'")
        page.wait_for_selector("[aria-pressed=true]:has-text('by time')")
        page.click("text='by call'")
        # what stands out: the clock in the instruction; the link leads to the cache
        open_session(page, "traveller", "s")
        line = page.locator("[data-testid=diagnosis] li.cache")
        assert "10:10" in line.text_content()
        line.locator("button").click()
        page.wait_for_selector("text=First difference")
        assert page.text_content("[data-testid=step]") == "2 / 3"
        # what was answered, how long it took, what it cost: next to the request
        page.click("nav >> text='Request'")
        answer = page.locator("[data-testid=answer]")
        answer.locator(".prose b:has-text('Flights')").wait_for()
        assert answer.locator("table.grid td").count() == 2
        assert answer.locator("a").count() == 0
        assert "gnihton" in answer.text_content()
        assert "\u202e" not in answer.text_content()
        assert "\x1b" not in answer.text_content()
        assert "3,300" in answer.locator("table.bill").text_content()
        assert "took" in answer.text_content()
        # as it was written, by a key; tools are one line that opens
        page.keyboard.press("m")
        page.wait_for_selector("[data-testid=answer] .text:has-text('## Flights')")
        page.keyboard.press("m")
        assert page.locator("details.row:not([open])").count() == 2
        # what a tool was called with and returned
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("[data-testid=answer] details.call:has-text('Oslo')")
        page.click("nav >> text='Events'")
        page.wait_for_selector("pre.results:has-text('SK401')")
        # the picture that was sent
        picture = page.locator("[data-testid=events] img.media")
        picture.wait_for()
        assert picture.evaluate("(one) => one.decode().then(() => one.naturalWidth)") == 1
        # where two sessions part, and what would have been said otherwise
        page.click("nav >> text='Compare'")
        page.select_option("[data-testid=compare] form select >> nth=0", index=1)
        page.click("text='compare'")
        page.wait_for_selector("[data-testid=difference] >> text=They part at")
        page.fill("[aria-label='new instruction']", "Be brief.")
        page.click("text=run it again")
        page.wait_for_selector("[data-testid=parted]:has-text('book_hotel')")
        page.set_viewport_size({"width": 390, "height": 900})
        page.reload()
        page.wait_for_selector("[data-testid=step]")
        # on a phone the strip is folded away
        assert page.locator(".film").count() == 0
        page.click("text=show the strip")
        page.wait_for_selector(".film")
        page.evaluate("for (const one of document.querySelectorAll('img.media')) one.remove()")


def test_a_browser_without_the_token_is_told_what_to_open(browser: Any, live: Live) -> None:
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(live.url)
    assert answer.status == 401
    page.wait_for_selector("h1:has-text('This page needs its token')")
    assert live.token not in page.content()
    page.fill("input[name=token]", live.token)
    page.click("button")
    page.wait_for_selector("tr.pick")
    context.close()
    with live.client() as client:
        client.headers.pop("authorization", None)
        client.cookies.clear()
        refused = client.get("/inspect/api/sessions")
    assert refused.headers["content-type"].startswith("application/problem+json")
