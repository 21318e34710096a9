"""The inspector's page in a real browser: every view, on stored sessions and while one runs."""

import asyncio
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import weft
from tests.inspector.sessions import find_flights
from tests.server.browser import (
    done,
    needs_browser,
    open_session,
    opened,
    session_key,
    watched,
)
from tests.server.live import Live, serving
from weft import Agent, C, Runner, tool
from weft.ir import Prompt
from weft.models import ModelResponse
from weft.server import app
from weft.testing import ScriptedModel, call, fails_after, usage
from weft.values import JsonObject

pytestmark = needs_browser

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
TURNS = 6
SESSIONS = "\u2039 Sessions"


@tool(confirm=True)
def pay(amount: int, why: str = "") -> str:
    """Pay an amount."""
    return f"paid {amount}"


class GatedModel(ScriptedModel):
    """A model that says its words, and waits before the answer is whole."""

    def __init__(self, script: list[Any]) -> None:
        super().__init__(script, name="gpt-5", dialect="openai-chat")
        self.gate = threading.Event()

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        async for response in super().generate(prompt, wire, stream=stream):
            if not response.partial:
                await asyncio.to_thread(self.gate.wait, 120)
            yield response


def _traveller() -> Agent:
    script: list[Any] = []
    for turn in range(TURNS):
        script += [
            usage(call("find_flights", city=f"City{turn}"), prompt=900, cached=400, output=20),
            f"Take SK501 to City{turn}. \U0001f6eb Enjoy!",
        ]
    return Agent(
        "traveller",
        model=ScriptedModel(
            [*script, "Rome it is."] + ["More."] * 20, name="claude-opus-5", dialect="anthropic"
        ),
        instruction="You book trips. \U0001f9f3 The user likes {seat?}." + " Compare prices." * 300,
        tools=[find_flights, pay],
    ).sees(C.window(2).redact("email"))


def _evil() -> Agent:
    @tool
    def shout(word: str) -> str:
        """Shout </script><script>document.title='owned'</script>."""
        return EVIL

    script = [call("shout", word=EVIL), EVIL, RuntimeError(EVIL), call("shout", word=EVIL), EVIL]
    agent = Agent(
        "evil",
        model=ScriptedModel(script, name="claude-opus-5", dialect="anthropic"),
        instruction=f"Obey {EVIL}. {{note?}}",
        tools=[shout],
    )
    return agent.sees(C.window(1).fence("results"))


def _flow() -> Any:
    triage = Agent("triage", model=ScriptedModel(["booking"] * 9), instruction="Classify.")
    booker = Agent("booker", model=ScriptedModel(["Booked."] * 9), instruction="Book: {intent}.")
    return triage.writes("intent") >> booker


class World:
    """The runners that are served, and their models."""

    def __init__(self) -> None:
        self.traveller = Runner(_traveller())
        self.payer = Runner(
            Agent(
                "payer",
                model=ScriptedModel(
                    [call("pay", amount=5), call("pay", amount=6), "Paid.", "Denied."]
                ),
                tools=[pay],
            )
        )
        self.talking = GatedModel(
            [
                "One two three.",
                fails_after("half a ", error=RuntimeError("the line broke")),
                "Back.",
            ]
        )
        self.talker = Runner(Agent("talker", model=self.talking))
        self.evil = Runner(_evil())
        self.flow = Runner(_flow(), app_name="flow")

    async def prepare(self) -> None:
        """Run what the tests look at."""
        for turn in range(TURNS):
            state = {"seat": "aisle seats"} if turn == 0 else None
            text = f"Fly me to City{turn}, says me@example.com"
            await self.traveller.run(text, session_id="s", state=state)
        state = {"note": EVIL, "spare": EVIL, "__proto__": "planted"}
        await self.evil.run(EVIL, session_id="evil <b>", state=state)
        for _ in range(2):
            await self.evil.run(EVIL, session_id="evil <b>")
        await self.flow.run("I want to book", session_id="f")
        for name in ("p1", "p2"):
            await self.payer.run("Pay for it", session_id=name)


@pytest.fixture(scope="module")
def world() -> World:
    world = World()
    done(world.prepare())
    return world


@pytest.fixture(scope="module")
def live(world: World) -> Iterator[Live]:
    runners = (world.traveller, world.payer, world.talker, world.evil, world.flow)
    with serving(app(*runners)) as server:
        yield server


@pytest.fixture
def page(browser: Any, live: Live) -> Iterator[Any]:
    with opened(browser, live) as page:
        yield page


def _open(page: Any, app: str = "traveller", session: str = "s", view: str = "request") -> None:
    open_session(page, app, session, view)


def _ask(
    server: Live, path: str, app: str = "traveller", session: str = "s", **params: object
) -> Any:
    with server.client() as client:
        answer = client.get(
            f"/inspect/api/{path}", params={"session": session_key(app, session), **params}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()


VIEWS = (
    ("Request", "messages"),
    ("Left out", "left-out"),
    ("Cache", "cache"),
    ("What if", "whatif"),
    ("Bisect", "bisect"),
    ("Dead weight", "weight"),
    ("Graph", "graph"),
    ("Trust", "trust"),
    ("Receipt", "receipt"),
    ("Events", "events"),
    ("Chat", "chat"),
)


def _every_view(page: Any, views: tuple[tuple[str, str], ...] = VIEWS) -> Iterator[str]:
    for title, name in views:
        page.click(f"nav >> text='{title}'")
        page.wait_for_selector(f"[data-testid={name}]")
        yield name


def test_every_view_says_what_it_is_for(page: Any, live: Live) -> None:
    _open(page)
    page.wait_for_selector("[data-testid=messages]")
    assert page.get_attribute("[data-testid=film]", "data-frames") == "12"
    assert page.text_content("[data-testid=step]") == "12 / 12"
    page.wait_for_selector(".film .ghost[d^=M]", state="attached")
    assert page.locator(".film path[data-source=cached][d^=M]").count() == 1
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("text='11 / 12'")
    page.keyboard.press("End")
    page.click("text=Left out")
    page.click("text=force in >> nth=0")
    page.wait_for_selector("[data-testid=compared]")
    page.click("nav >> text=Cache")
    page.wait_for_selector("text=First difference")
    assert page.locator(".cliff").count() == 2
    page.click("nav >> text=Bisect")
    page.fill("input[placeholder^='a sentence']", "DY522 to City1")
    page.click("form >> text=find")
    page.wait_for_selector("text=It vanished from the requests of traveller at call 7")
    page.wait_for_selector("text=select_window")
    page.click("nav >> text=Dead weight")
    page.wait_for_selector("text=never called")
    page.click("nav >> text=Trust")
    page.wait_for_selector("text=redact_values")
    assert "me@example.com" not in page.text_content("[data-testid=trust]")
    page.click("nav >> text=Events")
    page.click("text='all of it' >> nth=0")
    page.wait_for_selector('text=/"invocationId"/')


def test_hovering_any_character_names_its_origin_and_back(page: Any, live: Live) -> None:
    _open(page)
    page.wait_for_selector("[data-testid=messages]")
    page.wait_for_selector(".film .ghost[d^=M]", state="attached")  # or the text moves later
    view = _ask(live, "request", step=12)
    page.click("text=Raw JSON")
    page.wait_for_selector("[data-testid=raw] .line")
    shown = page.evaluate(
        """async () => {
            const box = document.querySelector("[data-testid=raw]"), spans = new Map();
            for (let top = 0; top <= box.scrollHeight; top += 900) {
                box.scrollTop = top;
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
                for (const s of box.querySelectorAll("[data-at]"))
                    spans.set(+s.dataset.at, s.textContent);
            }
            return [...spans].sort((a, b) => a[0] - b[0]).map(([, text]) => text).join("");
        }"""
    )
    assert shown == view["text"], "the spans that are shown are the whole request"
    assert "\U0001f9f3" in shown
    ends = [end for end, _, _ in view["segments"]]
    rng = random.Random(3)
    for at in sorted(rng.sample(range(len(shown)), 200)):
        known = next(row for row, end in zip(view["segments"], ends, strict=True) if at < end)
        units = at + sum(1 for one in shown[:at] if ord(one) > 0xFFFF)
        spot = page.evaluate(_SPOT, units)
        page.mouse.move(spot["x"], spot["y"])
        lit = page.evaluate("[...document.querySelectorAll('.lit')].map((s) => s.dataset.o)")
        assert {*lit} == {str(known[1])}, shown[at : at + 20]
    here = page.text_content("[data-testid=here]")
    assert view["pointers"][known[2]] in here
    for origin in rng.sample(range(len(view["origins"])), 8):
        button = page.locator(f"[data-origin='{origin}']")
        if button.count():
            button.hover()
            assert page.evaluate(_LIT, origin), "all that came from it is lit, and nothing else"


_SPOT = """async (at) => {
    const box = document.querySelector("[data-testid=raw]");
    const find = () => [...box.querySelectorAll("[data-at]")]
        .find((s) => +s.dataset.at <= at && at < +s.dataset.at + s.textContent.length);
    for (let tries = 0, top = box.scrollTop; !find(); tries++, top += 700) {
        if (tries > 300) throw new Error(`character ${at} is nowhere`);
        if (top > box.scrollHeight) top = 0;
        box.scrollTop = top;
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
    }
    const span = find(), range = document.createRange(), from = at - span.dataset.at;
    span.scrollIntoView({ block: "center", inline: "nearest" });
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const now = find(), wide = now.textContent.codePointAt(from) > 0xffff ? 2 : 1;
    range.setStart(now.firstChild, from);
    range.setEnd(now.firstChild, from + wide);
    const frame = box.getBoundingClientRect(), place = () => range.getBoundingClientRect();
    if (place().right > frame.right - 20) box.scrollLeft += place().right - frame.right + 60;
    if (place().left < frame.left) box.scrollLeft = 0;
    const rect = place();
    return { x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 };
}"""

_LIT = """(origin) => {
    const spans = [...document.querySelectorAll("[data-testid=raw] [data-o]")];
    const colour = (span) => getComputedStyle(span).backgroundColor;
    const mine = spans.filter((span) => span.dataset.o === String(origin));
    const others = spans.filter((span) => span.dataset.o !== String(origin));
    const mark = mine.length ? colour(mine[0]) : "none in view";
    return mine.every((s) => colour(s) === mark) && others.every((s) => colour(s) !== mark);
}"""


def test_messages_hold_every_row_and_the_chain_of_passes(page: Any, live: Live) -> None:
    _open(page)
    page.wait_for_selector("[data-testid=messages][data-whole=true]")
    view = _ask(live, "request", step=12)
    rows = page.eval_on_selector_all("[data-row] .text", "all => all.map((one) => one.textContent)")
    in_order = sorted(view["rows"], key=lambda row: row["source"] == "tools")
    assert rows == [row["text"] for row in in_order]
    page.click("[data-row] .event >> nth=0")
    page.wait_for_selector("[data-testid=origin] .chain >> text=redact_values")
    assert "stays hidden" in page.text_content("[data-testid=origin]")
    assert "me@example.com" not in page.text_content("main")


def test_what_if_is_what_the_compiler_makes_of_it(browser: Any, live: Live, world: World) -> None:
    with opened(browser, live, forgiven=("422",)) as page:
        _compare_what_if(page, live, world)


def _compare_what_if(page: Any, live: Live, world: World) -> None:
    _open(page, view="whatif")
    page.fill("input[aria-label='only the last turns']", "1")
    page.wait_for_selector("text=sees(C.window(1).redact('email'))")
    page.wait_for_selector("[data-testid=messages][data-whole=true]")
    session = done(world.traveller.session(session_id="s"))
    place = _ask(live, "film")["frames"][-1]["event"]
    index = [event.id for event in session.events].index(place)
    policy = C.window(1).redact("email")  # what the agent redacts stays so under any policy
    own = weft.compile(world.traveller.root.sees(policy), session=session.before(index))
    page.wait_for_function(
        "(n) => document.querySelectorAll('[data-row]').length === n", arg=len(own.explain().sent)
    )
    rows = page.eval_on_selector_all("[data-row] .text", "all => all.map((one) => one.textContent)")
    in_order = sorted(own.explain().sent, key=lambda row: row.source == "tools")
    assert rows == [row.text for row in in_order]
    assert f"{own.tokens:,}" in page.text_content("[data-testid=compared]")
    with page.expect_download() as saved:
        page.click("text=save as test")
    assert "request.hash" in Path(saved.value.path()).read_text()
    page.click("text=the whole session")
    page.wait_for_selector("[data-testid=both]")
    assert page.locator("[data-testid=both] [data-testid=film]").count() == 2
    page.fill("input[list=policies]", "open('x')")
    page.wait_for_selector("[role=alert]")


def test_questions_are_answered_in_the_list_of_sessions(page: Any, live: Live) -> None:
    row = page.locator("tr.pick", has_text="p1")
    row.locator("text=waiting: answer").click()
    page.wait_for_selector(".answers >> text=May pay be called")
    page.click(".answers >> text=approve")
    page.wait_for_function("() => document.querySelectorAll('.badge').length === 2")
    page.fill("[aria-label='search sessions']", "p2")
    page.wait_for_function("() => document.querySelectorAll('tr.pick').length === 1")
    page.click("text=waiting: answer")
    page.fill(".answers [aria-label=reason]", "too dear")
    page.click(".answers >> text=deny")
    page.wait_for_function("() => !document.querySelector('.answers')")
    page.wait_for_function("() => !document.querySelector('button.badge')")


def test_who_approves_sees_the_characters_that_turn_others_around(browser: Any) -> None:
    paid: list[str] = []

    @tool(confirm=True)
    def transfer(to: str) -> str:
        """Send money."""
        paid.append(to)
        return "sent"

    hidden = "ann\u202egro.live\u2066\u200b\U000e0041"
    script = [call("transfer", to=hidden), "Sent."]
    payer = Runner(Agent("payer", model=ScriptedModel(script), tools=[transfer]))
    done(payer.run("Pay ann", session_id="p"))
    with serving(app(payer)) as server, opened(browser, server) as page:
        open_session(page, "payer", "p", "chat")
        question = page.wait_for_selector(".question").inner_text()
        bubbles = page.inner_text("[role=log] .calls")
        for text in (question, bubbles):
            assert r"ann\u{202e}gro.live\u{2066}\u{200b}\u{e0041}" in text
            assert not {*"\u202e\u2066\u200b\U000e0041"} & {*text}
        page.click("text='approve'")
        page.wait_for_selector("[role=log] >> text=Sent.")
    assert paid == [hidden]


def test_an_answer_streams_fails_and_goes_on(browser: Any, live: Live, world: World) -> None:
    with opened(browser, live) as page:
        page.select_option("select", "talker")
        page.click("text=New session")
        page.wait_for_selector("[data-testid=chat]")
        page.keyboard.type("Count")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-testid=partial] >> text=One two three.")
        assert page.locator("text='working…'").count() == 1
        world.talking.gate.set()
        page.wait_for_selector("[role=log] .bubble:not(.partial) >> text=One two three.")
        page.wait_for_selector("text='1 / 1'")
        page.wait_for_selector("[data-testid=partial]", state="detached")
        page.fill("textarea", "And now?")
        page.click("text='send'")
        page.wait_for_selector("[role=log] >> text=the line broke")
        page.fill("textarea", "Again")
        page.click("text='send'")
        page.wait_for_selector("[role=log] >> text=Back.")
        page.click("nav >> text=Request")
        page.wait_for_selector("[data-testid=messages] >> text=Again")


def test_a_fork_goes_on_with_another_message_and_state(page: Any, live: Live) -> None:
    _open(page, view="events")
    page.click("text='fork here' >> nth=0")
    page.wait_for_selector("dialog[open] textarea:not([disabled])")
    assert "says me@example.com" in page.input_value("dialog textarea"), "all of the message"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.textContent") == "fork here", "the focus returns"
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] textarea:not([disabled])")
    page.fill("dialog textarea", "Fly me to Rome")
    page.fill("dialog input", "no json")
    page.click("text=fork and go on")
    page.wait_for_selector("dialog [role=alert]")
    page.fill("dialog input", '{"seat": "a window"}')
    page.click("text=fork and go on")
    page.wait_for_selector("[data-testid=beside] >> text=Fly me to Rome")
    page.wait_for_selector("[data-testid=beside] >> text=Rome it is.")
    page.click("text=open it")
    page.wait_for_selector("text='1 / 1'")
    page.wait_for_selector("[data-testid=messages] >> text=a window")


def test_the_graph_shows_who_speaks_and_what_went_along(page: Any) -> None:
    _open(page, "flow", "f", "graph")
    page.wait_for_selector("[data-testid=graph] svg")
    page.wait_for_selector("text.value:has-text('booking')")
    assert (
        page.evaluate("document.querySelector('.graph .now').parentElement.textContent")
        .strip()
        .startswith("booker")
    )
    page.keyboard.press("Home")
    page.wait_for_selector("text=At call 1")
    assert (
        page.evaluate("document.querySelector('.graph .now').parentElement.textContent")
        .strip()
        .startswith("triage")
    )
    assert page.locator(".graph .value").count() == 0, "nothing was written before the first step"


def test_planted_tags_stay_texts_in_every_view(browser: Any, live: Live) -> None:
    with opened(browser, live, forgiven=("422",)) as page:
        page.wait_for_selector("tr.pick >> text=evil <b>")
        _open(page, "evil", "evil <b>")
        for name in _every_view(page):
            if name == "messages":
                page.click(".chunk [data-o] >> nth=0")
                page.wait_for_selector("[data-testid=origin]")
            if name == "left-out":
                page.click("text=force in >> nth=0")
                page.wait_for_selector("[data-testid=compared]")
                page.click("text='the request'")
            if name == "whatif":
                page.fill("input[list=policies]", EVIL)
                page.wait_for_selector("[role=alert]")
            if name == "bisect":
                page.fill("input[placeholder^='a sentence']", EVIL)
                page.click("form >> text=find")
                page.wait_for_selector("text=It is in")
            if name == "events":
                page.click("text='all of it' >> nth=1")
                page.wait_for_selector("pre.card")
            if name == "graph":
                page.wait_for_selector("aside tr:has-text('__proto__') >> text=planted")
            assert page.title() == "Weft inspector", name
            assert page.locator("main img").count() == 0, name


_FOCUS = """(() => {
    const e = document.activeElement, style = getComputedStyle(e);
    const name = e.dataset.testid || e.getAttribute("aria-label") || e.textContent.trim();
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    return { name: name.slice(0, 40), visible: e === document.body || outlined };
})()"""


def test_the_page_is_driven_by_keyboard_alone(page: Any) -> None:
    press = page.keyboard.press

    def focus() -> str:
        return page.evaluate(_FOCUS)["name"]

    def tab_to(name: str, most: int = 60) -> None:
        for _ in range(most):
            press("Tab")
            seen = page.evaluate(_FOCUS)
            assert seen["visible"], f"no focus to be seen on {seen['name']}"
            if seen["name"] == name:
                return
        raise AssertionError(f"Tab never comes to {name}")

    tab_to("search sessions")
    page.keyboard.type("flow")
    press("Control+A")
    press("Delete")
    tab_to("I want to book")
    press("ArrowUp")
    press("ArrowDown")
    assert focus() == "I want to book"
    press("?")
    page.wait_for_selector("dialog[open] >> text=find in the request")
    press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert focus() == "I want to book", "the focus returns from the help"
    for _ in range(40):
        if focus().startswith("Fly me to City0"):
            break
        press("ArrowDown")
    else:
        for _ in range(40):
            press("ArrowUp")
            if focus().startswith("Fly me to City0"):
                break
    press("Enter")
    page.wait_for_selector("[data-testid=messages][data-whole=true]")
    order = [
        SESSIONS,
        "Export as one file",
        "call before",
        "keys",
        "Request",
        "film",
        "Messages",
        "Raw JSON",
        "find in this request",
        "messages",
    ]
    for name in order:
        tab_to(name)
    press("ArrowDown")
    press("ArrowDown")
    assert page.locator(".caret").count() == 1
    assert page.text_content("[data-testid=here] b")
    press("Enter")
    page.wait_for_selector("[data-testid=origin]")
    press("ArrowLeft")
    page.wait_for_selector("text='11 / 12'")
    press("Home")
    page.wait_for_selector("text='1 / 12'")
    press("Shift+ArrowRight")
    page.wait_for_selector("text='11 / 12'")
    press("End")
    page.wait_for_selector("text='12 / 12'")
    page.wait_for_selector("[role=tabpanel] > [aria-busy=false]")
    press("/")
    assert focus() == "find in this request"
    page.keyboard.insert_text("City5")
    page.wait_for_selector("[data-testid=hits] >> text=/1 of/")
    press("Enter")
    page.wait_for_selector("[data-testid=hits] >> text=/2 of/")
    press("Escape")
    # the receipt is the eleventh view, and there are ten digits
    for number, name in enumerate((name for _, name in VIEWS[:-1] if name != "receipt"), 1):
        press(str(number))
        page.wait_for_selector(f"[data-testid={name}]")
    press("1")
    page.wait_for_selector("[data-testid=messages]")
    page.evaluate("document.activeElement.blur()")
    tab_to("Request")
    press("ArrowRight")
    page.wait_for_selector("[data-testid=left-out]")
    assert focus() == "Left out"
    tab_to("force in")
    press("Enter")
    page.wait_for_selector("[data-testid=compared]")
    press("2")
    tab_to(SESSIONS, 400)
    press("Enter")
    page.wait_for_selector("[data-testid=sessions]")


def test_a_deleted_session_leaves_the_page_alive(browser: Any, live: Live, world: World) -> None:
    with opened(browser, live, forgiven=("404",)) as page:
        _open(page, "payer", "p1", "events")
        page.wait_for_selector("[data-testid=events]")
        with live.client() as client:
            assert client.delete("/api/apps/payer/sessions/p1").status_code in (200, 204)
        page.wait_for_selector("text=This session is gone")
        page.click("text=all sessions")
        page.wait_for_selector("[data-testid=sessions]")


def test_the_page_says_that_the_server_is_gone_and_finds_it_again(browser: Any) -> None:
    runner = Runner(Agent("bot", model=ScriptedModel(["Hello."] * 5)))
    done(runner.run("Hi", session_id="s"))
    application = app(runner)
    port = _Port()
    forgiven = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_EMPTY", "ERR_CONNECTION_RESET")
    with watched(browser, forgiven=forgiven) as page:
        with port.listening(application):
            page.goto(f"http://127.0.0.1:{port.number}/?token={application.token}")
            page.wait_for_selector("tr.pick")
            _open(page, "bot", "s")
            page.wait_for_selector("[data-testid=messages]")
        page.wait_for_selector(".trouble >> text=does not answer")
        assert page.locator("[data-testid=messages]").count() == 1, "what is there stays"
        page.click("nav >> text=Trust")
        page.wait_for_selector("[data-testid=trust], [role=tabpanel] [role=alert]")
        with port.listening(application):
            page.wait_for_selector(".trouble", state="detached")
            page.wait_for_selector("[data-testid=trust]")
            page.wait_for_selector("[role=tabpanel] [role=alert]", state="detached")
    port.close()


def test_a_long_session_draws_only_what_can_be_seen(browser: Any) -> None:
    agent = Agent("long", model=ScriptedModel(["unused"], name="gpt-5", dialect="openai-chat"))
    turns: list[Any] = []
    for number in range(240):
        turns += [
            ("user", f"Question {number}? " + "word " * 60),
            ("long", f"Answer {number}. " + "text " * 20),
        ]
    turns.append(("user", "x" * 100_000 + " needle\nin the hay"))
    turns.append(("long", "Found."))
    runner = Runner(agent)

    async def store() -> None:
        made = weft.testing.make_session(*turns)
        from weft.session import SessionKey

        session = await runner.store.create(SessionKey("long", "user", "s"))
        await runner.store.append(session, *made.events)

    done(store())
    with serving(app(runner)) as server, watched(browser) as page:
        page.goto(f"{server.url}/?token={server.token}")
        page.wait_for_selector("tr.pick")
        _open(page, "long", "s")
        page.wait_for_selector("[data-testid=messages][data-whole=true]")
        assert page.get_attribute("[data-testid=film]", "data-frames") == "241"
        assert page.locator(".film svg *").count() < 200
        page.click("text=Raw JSON")
        page.wait_for_selector("[data-testid=raw] .line")
        assert int(page.get_attribute("[data-testid=raw]", "data-lines")) > 1500
        for top in (0, 20_000, 50_000):
            page.evaluate(
                "(top) => document.querySelector('[data-testid=raw]').scrollTop = top", top
            )
            assert page.locator("[data-testid=raw] .line").count() <= 160
        page.keyboard.press("Control+f")
        page.keyboard.type("needle")
        page.wait_for_selector("[data-testid=hits] >> text='1 of 1'")
        page.wait_for_function(
            "() => [...CSS.highlights.get('hit-now')].some((r) => r.toString() === 'needle')"
        )
        page.keyboard.press("Escape")
        page.click("text='Messages'")
        page.keyboard.press("/")
        page.fill("[data-find]", "Question 120?")
        page.wait_for_selector("[data-testid=hits] >> text='1 of 1'")
        page.wait_for_function(_HIT_IS_SEEN)
        page.keyboard.press("Escape")
        page.click("[aria-label='wider bars']")
        page.fill("[aria-label='go to call']", "40")
        page.keyboard.press("Enter")
        page.wait_for_selector("text='40 / 241'")
        page.wait_for_function(_BAR_IS_SEEN)


_HIT_IS_SEEN = """() => {
    const hit = [...CSS.highlights.get("hit-now")][0], box = hit && hit.getBoundingClientRect();
    return hit && box.top > 0 && box.bottom < innerHeight;
}"""

_BAR_IS_SEEN = """() => {
    const bar = document.querySelector(".film .now").getBoundingClientRect();
    return bar.left >= 0 && bar.right <= innerWidth;
}"""


def test_the_exported_file_opens_without_a_server(browser: Any, live: Live, tmp_path: Path) -> None:
    with live.client() as client:
        answer = client.get(
            "/inspect/api/export", params={"session": session_key("traveller", "s")}
        )
        request = {"session": session_key("traveller", "s"), "step": "12"}
        sent = client.get("/inspect/api/request", params=request).json()
    assert "attachment" in answer.headers["content-disposition"]
    said = max(sent["left_out"], key=lambda row: row["tokens"])["text"].splitlines()[0][:30]
    row = next(
        row for row in sent["rows"] if sent["origins"][row["origin"]]["name"] in sent["chains"]
    )
    number, (touched, *_) = row["origin"], sent["chains"][sent["origins"][row["origin"]]["name"]]
    file = tmp_path / "session.html"
    file.write_text(answer.text)
    with watched(browser) as page:
        page.goto(file.as_uri())
        page.wait_for_selector("[data-testid=messages]")
        assert page.get_attribute("[data-testid=film]", "data-frames") == "12"
        shown = ("messages", "left-out", "cache", "weight", "graph", "trust", "events")
        for name in _every_view(page, tuple(one for one in VIEWS if one[1] in shown)):
            assert page.locator("[role=alert]").count() == 0, name
            if name == "left-out":
                page.wait_for_selector(f"[data-testid=left-out] >> text={said}")
        page.click("nav >> text='Request'")
        page.locator(f"[data-testid=messages] [data-o='{number}']").first.click()
        page.wait_for_selector(f"[data-testid=origin] .chain >> text={touched['before'][:30]}")
        page.click("nav >> text=What if")
        page.wait_for_selector("text=An exported file cannot compile")
        for title, name in (("What if", "whatif"), ("Bisect", "bisect")):
            page.click(f"nav >> text={title}")
            view = page.wait_for_selector(f"[data-testid={name}]")
            assert "weft inspect pkg.module:object --store" in view.inner_text()
            assert "open the session s on" in view.inner_text()
            assert page.locator(f"[data-testid={name}] input").count() == 0, "a dead control"
        page.click("nav >> text=Chat")
        page.wait_for_selector("text=can only be looked at")


def test_a_recording_is_shown_in_every_view(browser: Any, tmp_path: Path) -> None:
    import json

    messages: list[JsonObject] = [{"role": "system", "content": "You help."}]
    for n in range(4):
        messages += [
            {"role": "user", "content": f"Where is {n}?"},
            {"role": "assistant", "content": f"In {n}."},
        ]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({"model": "gpt-5", "messages": messages}))
    command = [sys.executable, "-m", "weft", "inspect", str(file), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with watched(browser) as page:
            page.goto(address)
            page.click("tr.pick")
            page.wait_for_selector("[data-testid=messages]")
            assert page.get_attribute("[data-testid=film]", "data-frames") == "4"
            for _ in _every_view(page, VIEWS[:-1]):
                assert page.locator("[role=alert]").count() == 0
            page.click("nav >> text=Chat")
            page.wait_for_selector("text=can only be looked at")
    finally:
        process.terminate()
        process.communicate(timeout=60)


class _Port:
    """A port that nobody else gets, and on which a server listens only now and then."""

    def __init__(self) -> None:
        self._reserved = self._bound(0)
        self.number = int(self._reserved.getsockname()[1])

    def _bound(self, number: int) -> socket.socket:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind(("127.0.0.1", number))
        return one

    @contextmanager
    def listening(self, application: Any) -> Iterator[None]:
        """A server that is there for a while, and gone with its connections afterwards."""
        config = uvicorn.Config(
            application, log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        place = self._bound(self.number)
        place.listen(100)
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[place])), daemon=True
        )
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield
        server.should_exit = True
        thread.join(60)

    def close(self) -> None:
        """Let others have it."""
        self._reserved.close()


def test_the_page_is_small() -> None:
    import gzip

    from weft.inspector.export import LIBRARY, PAGE, SCRIPTS, STYLE

    files = ["index.html", STYLE, LIBRARY, *SCRIPTS]
    assert sum(len(gzip.compress((PAGE / name).read_bytes())) for name in files) < 150_000
    assert not re.search(
        r"https?://(?!www\.w3\.org)", "".join((PAGE / name).read_text() for name in SCRIPTS)
    )
