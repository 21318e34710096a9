"""The page while answers travel: what arrives late changes nothing that the user did meanwhile."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.inspector.sessions import find_flights
from tests.server.browser import Held, done, needs_browser, open_session, opened, settle
from tests.server.live import Live, serving
from weft import Agent, C, Runner, tool
from weft.server import app
from weft.testing import ScriptedModel, call

pytestmark = needs_browser

ABORTED = ("ERR_FAILED",)


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


class World:
    """A session of six calls whose policy leaves things out, a flow, and questions."""

    def __init__(self) -> None:
        script: list[Any] = []
        for turn in range(3):
            script += [call("find_flights", city=f"City{turn}"), f"Take SK501 to City{turn}."]
        traveller = Agent(
            "traveller",
            model=ScriptedModel(script + ["More."] * 20, name="claude-opus-5", dialect="anthropic"),
            instruction="You book trips.",
            tools=[find_flights],
        )
        self.traveller = Runner(traveller.sees(C.window(1)))
        payments = [call("pay", amount=5)] * 3 + ["Paid."] * 9
        self.payer = Runner(Agent("payer", model=ScriptedModel(payments), tools=[pay]))
        triage = Agent("triage", model=ScriptedModel(["booking"] * 30), instruction="Classify.")
        booker = Agent("booker", model=ScriptedModel(["Booked."] * 30), instruction="{intent}.")
        self.flow = Runner(triage.writes("intent") >> booker, app_name="flow")

    async def prepare(self) -> None:
        """Run what the tests look at."""
        for turn in range(3):
            await self.traveller.run(f"Fly me to City{turn}", session_id="s")
        for name in ("f", "g", "grows"):
            await self.flow.run("I want to book", session_id=name)
        for name in ("p1", "p2", "p3"):
            await self.payer.run("Pay for it", session_id=name)


@pytest.fixture(scope="module")
def world() -> World:
    world = World()
    done(world.prepare())
    return world


@pytest.fixture(scope="module")
def live(world: World) -> Iterator[Live]:
    with serving(app(world.traveller, world.payer, world.flow)) as server:
        yield server


@pytest.fixture
def page(browser: Any, live: Live) -> Iterator[Any]:
    with opened(browser, live, forgiven=ABORTED) as page:
        yield page


def test_what_is_typed_while_a_message_travels_stays(page: Any) -> None:
    said = Held(page, "**/inspect/api/say?*")
    open_session(page, "flow", "f", "chat")
    page.fill("textarea", "First")
    page.keyboard.press("Enter")
    on_its_way = said.next()
    page.fill("textarea", "First, and more")
    on_its_way.continue_()
    page.wait_for_selector("text='send'")
    assert page.input_value("textarea") == "First, and more"
    page.click("text='send'")
    said.next().abort()
    page.wait_for_selector("[data-testid=chat] > [role=alert]")
    assert page.input_value("textarea") == "First, and more", "what did not arrive is kept"
    page.click("text='send'")
    said.next().continue_()
    page.wait_for_selector("textarea:placeholder-shown")


def test_a_message_that_fails_behind_another_view_is_still_there(page: Any) -> None:
    said = Held(page, "**/inspect/api/say?*")
    open_session(page, "flow", "g", "chat")
    page.fill("textarea", "Do not lose me")
    page.keyboard.press("Enter")
    on_its_way = said.next()
    page.click("nav >> text=Request")
    page.wait_for_selector("[data-testid=messages]")
    with page.expect_event("requestfailed"):
        on_its_way.abort()
    page.click("nav >> text=Chat")
    page.wait_for_selector("[data-testid=chat] > [role=alert]")
    assert page.input_value("textarea") == "Do not lose me"
    page.click("text='send'")
    on_its_way = said.next()
    page.click("nav >> text=Request")
    page.wait_for_selector("[data-testid=messages]")
    page.click("nav >> text=Chat")
    page.wait_for_selector("button:disabled >> text=…")
    page.keyboard.press("Enter")
    settle(page)
    assert len(said) == 0, "it is not sent twice"
    on_its_way.continue_()
    page.wait_for_selector("textarea:placeholder-shown")


def test_a_question_is_answered_once(page: Any) -> None:
    answered = Held(page, "**/inspect/api/answer?*")
    open_session(page, "payer", "p3", "chat")
    page.wait_for_selector("text=May pay be called")
    film = Held(page, "**/inspect/api/film?*")
    page.click("text='approve'")
    answered.let_go()
    assert page.is_disabled("text='approve'"), "the page has yet to see what came of it"
    film.stop()
    film.next().continue_()
    page.wait_for_selector("text='approve'", state="detached")
    page.wait_for_selector("[role=log] >> text=Paid.")


def test_an_answer_that_arrives_closes_no_other_question(page: Any) -> None:
    answered = Held(page, "**/inspect/api/answer?*")
    page.locator("tr.pick", has_text="p1").locator("text=waiting: answer").click()
    page.click(".answers >> text=approve")
    on_its_way = answered.next()
    page.locator("tr.pick", has_text="p2").locator("text=waiting: answer").click()
    page.wait_for_selector(".answers >> text=May pay be called")
    page.fill(".answers [aria-label=reason]", "too dear")
    on_its_way.continue_()
    first = page.locator("tr.pick", has_text="p1").locator(".badge")
    first.wait_for(state="detached")
    assert page.input_value(".answers [aria-label=reason]") == "too dear"
    row = page.locator("tr.answers")
    above = row.evaluate("(one) => one.previousElementSibling.textContent")
    assert "p2" in above, "what was typed is below its own session"


def test_a_session_that_begins_late_does_not_take_the_page_away(page: Any) -> None:
    begun = Held(page, "**/api/apps/*/sessions")
    page.click("text='New session'")
    assert page.is_disabled("text='New session'")
    on_its_way = begun.next()
    open_session(page, "traveller", "s")
    page.wait_for_selector("[data-testid=messages]")
    with page.expect_response("**/api/apps/*/sessions"):
        on_its_way.continue_()
    settle(page)
    assert page.text_content("header code.id") == "s"


def test_a_fork_that_is_made_late_leaves_the_next_dialog_alone(page: Any) -> None:
    forked = Held(page, "**/inspect/api/fork?*")
    open_session(page, "traveller", "s", "events")
    page.click("text='fork here' >> nth=0")
    page.wait_for_selector("dialog[open] textarea:not([disabled])")
    page.click("text=fork and go on")
    on_its_way = forked.next()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.click("text='fork here' >> nth=0")
    page.wait_for_selector("dialog[open] textarea:not([disabled])")
    page.fill("dialog textarea", "Fly me to Rome")
    with page.expect_response("**/inspect/api/fork?*"):
        on_its_way.continue_()
    settle(page)
    assert page.input_value("dialog[open] textarea") == "Fly me to Rome"
    page.keyboard.press("Escape")


def test_an_event_opens_and_shuts_with_the_last_click(page: Any) -> None:
    events = Held(page, "**/inspect/api/event?*")
    open_session(page, "traveller", "s", "events")
    first = page.locator("[data-event='0'] .acts button").first
    first.click()
    assert first.text_content() == "less"
    first.click()
    events.let_go()
    assert page.locator("pre.card").count() == 0
    first.click()
    events.let_go()
    page.wait_for_selector("pre.card >> text=invocationId")
    first.click()
    page.wait_for_selector("pre.card", state="detached")
    assert len(events) == 0, "to shut it asks nobody"


def test_of_two_forced_events_the_last_is_shown_and_none_at_another_step(page: Any) -> None:
    forced = Held(page, "**/inspect/api/force?*")
    open_session(page, "traveller", "s", "left")
    page.click("text=force in >> nth=0")
    first = forced.next()
    page.click("text=force in >> nth=1")
    forced.let_go()
    shown = page.text_content("section.card >> b >> nth=0")
    with page.expect_response(lambda one: one.request == first.request):
        first.continue_()
    settle(page)
    assert page.text_content("section.card >> b >> nth=0") == shown
    page.click("text=force in >> nth=0")
    late = forced.next()
    page.click("[aria-label='call before']")
    page.wait_for_selector("text='5 / 6'")
    page.wait_for_selector("section.card", state="detached")
    with page.expect_response(lambda one: one.request == late.request):
        late.continue_()
    settle(page)
    assert page.locator("section.card").count() == 0


def test_a_comparison_is_of_the_form_that_is_seen(page: Any) -> None:
    compared = Held(page, "**/inspect/api/compare?*")
    open_session(page, "traveller", "s", "whatif")
    page.fill("input[aria-label='only the last turns']", "1")
    page.wait_for_selector("text='the whole session'")
    page.fill("input[aria-label='only the last turns']", "2")
    page.click("text='the whole session'")
    first = compared.next()
    assert "window=2" in first.request.url, "what was typed a moment ago counts"
    page.fill("input[aria-label='only the last turns']", "3")
    with page.expect_response("**/inspect/api/compare?*"):
        first.continue_()
    settle(page)
    assert page.locator("[data-testid=both]").count() == 0
    page.click("text='the whole session'")
    second = compared.next()
    assert "window=3" in second.request.url
    second.continue_()
    page.wait_for_selector("[data-testid=both]")


def test_a_piece_picked_while_the_next_request_travels_is_none_of_it(page: Any) -> None:
    open_session(page, "traveller", "s")
    page.wait_for_selector("[data-testid=messages][data-whole=true]")
    requests = Held(page, "**/inspect/api/request?*")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("[aria-busy=true]")
    page.click("div.row .chunk [data-o] >> nth=-1")
    page.wait_for_selector("[data-testid=origin]")
    requests.let_go()
    page.wait_for_selector("[role=tabpanel] > [aria-busy=false]")
    page.wait_for_selector("[data-testid=origin]", state="detached")


def test_the_strip_grows_while_its_session_does(page: Any, live: Live) -> None:
    def say(text: str) -> None:
        with live.client() as client:
            body = {"message": text, "busy": "queue"}
            answer = client.post("/api/apps/flow/sessions/grows/runs", json=body)
            assert answer.status_code == 202, answer.text

    films = Held(page, "**/inspect/api/film?*")
    open_session(page, "flow", "grows", "chat")
    films.next().continue_()
    page.wait_for_selector("text='2 / 2'")
    say("Two")
    travelling = films.next()
    say("Three")
    page.wait_for_selector("[role=log] >> text=Three")
    page.wait_for_timeout(200)
    assert len(films) == 0, "one film is asked for at a time"
    travelling.continue_()
    page.wait_for_selector("text='6 / 6'")


def _piece(text: str, id: str = "one", **more: object) -> str:
    content = {"parts": [{"text": text}]} if text else None
    event = {"partial": True, "id": id, "author": "booker", "content": content, **more}
    return f"data: {json.dumps(event)}\n\n"


@pytest.mark.parametrize(
    ("first", "then", "shown"),
    [
        ([_piece("One two ")], [_piece("One two three.")], "One two three."),
        ([], [_piece("Dead "), _piece("", interrupted=True), _piece("Alive.")], "Alive."),
        ([], [_piece("Dead "), _piece("Alive.", id="two")], "Alive."),
    ],
    ids=["opened again", "taken back", "another answer"],
)
def test_pieces_of_an_answer_are_shown_once(
    page: Any, first: list[str], then: list[str], shown: str
) -> None:
    streams = Held(page, "**/api/apps/flow/sessions/f/events?*")
    open_session(page, "flow", "f", "chat")
    kind = {"content_type": "text/event-stream"}
    streams.next().fulfill(body="retry: 20\n\n" + "".join(first), **kind)
    streams.next().fulfill(body="retry: 600000\n\n" + "".join(then), **kind)
    page.wait_for_selector("[data-testid=partial] >> text=/[.]/")
    assert page.text_content("[data-testid=partial] .text") == shown


_KEYS = """async ([view, ...keys]) => {
    const drawn = async () => { for (let n = 0; n < 20; n++) await null; };
    const tab = [...document.querySelectorAll("[role=tab]")];
    if (view) { tab.find((one) => one.textContent === view).click(); await drawn(); }
    for (const [key, shiftKey] of keys) {
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true }));
        await drawn();
    }
    const now = document.querySelector(".graph .now");
    return {
        step: document.querySelector("[data-testid=step]").textContent,
        typing: document.activeElement.tagName === "TEXTAREA",
        speaks: now && now.parentElement.textContent.trim(),
    };
}"""
"""Press keys as fast as the page is drawn, and see what it shows before the next frame."""


def test_keys_start_from_the_step_that_is_shown(page: Any) -> None:
    open_session(page, "traveller", "s")
    page.wait_for_selector("[data-testid=messages]")
    seen = page.evaluate(_KEYS, ["", ["Home", False], ["ArrowRight", False]])
    assert seen["step"] == "2 / 6"


def test_the_field_of_the_chat_has_the_focus_as_soon_as_it_is_seen(page: Any) -> None:
    open_session(page, "flow", "f")
    page.wait_for_selector("[data-testid=messages]")
    assert page.evaluate(_KEYS, ["Chat"])["typing"]


def test_the_graph_is_drawn_with_the_words_above_it(page: Any) -> None:
    open_session(page, "flow", "f", "graph")
    page.wait_for_selector(".graph .now")
    assert page.evaluate(_KEYS, ["", ["Home", False]])["speaks"].startswith("triage")
