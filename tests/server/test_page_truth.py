"""The page never contradicts itself: one number for one thing, and nothing that did not happen."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.server.browser import done, needs_browser, open_session, opened, session_key
from tests.server.live import Live, serving
from weft import Agent, C, Runner, tool
from weft.server import app
from weft.server.stream import frame
from weft.session import Event
from weft.testing import ScriptedModel, call, usage

pytestmark = needs_browser

LONG = "Compare all prices. " * 400


@tool
def look_up(city: str) -> str:
    """Look a city up, for billing_desk and others."""
    return f"{city}: ask billing_desk for order-4711"


class World:
    """A router and its desk, a flow that is given a topic, and an agent whose provider counts."""

    def __init__(self) -> None:
        desk = Agent(
            "billing_desk",
            model=ScriptedModel(["All paid."] * 20, name="claude-opus-5", dialect="anthropic"),
            instruction="Bill. " + LONG,
        )
        script = [
            call("look_up", city="Oslo"),
            call("transfer_to_agent", agent_name="billing_desk"),
        ]
        router = Agent(
            "router",
            model=ScriptedModel(script * 9, name="claude-opus-5", dialect="anthropic"),
            instruction="Route. The codeword is heather. " + LONG,
            tools=[look_up],
            sub_agents=[desk],
        )
        self.router = Runner(router, app_name="team")
        writer = Agent(
            "writer", model=ScriptedModel(["Done."] * 9), instruction="On {topic}, {tone}."
        )
        self.flow = Runner(
            Agent("first", model=ScriptedModel(["Yes."] * 9)) >> writer, app_name="flow"
        )
        counted = [usage(f"Answer {n}. " * 60, prompt=30_000, cached=9, output=7) for n in range(6)]
        metered = Agent(
            "metered",
            model=ScriptedModel(counted, name="claude-opus-5", dialect="anthropic"),
            instruction=LONG,
        )
        self.metered = Runner(metered.sees(C.window(1)))

    async def prepare(self) -> None:
        """Run what the tests look at."""
        await self.router.run("What do I owe?", session_id="t")
        await self.flow.run("Write", session_id="f", state={"topic": "moss", "tone": "dry"})
        for turn in range(5):
            await self.metered.run(f"Question {turn}?", session_id="m")


@pytest.fixture(scope="module")
def world() -> World:
    world = World()
    done(world.prepare())
    return world


@pytest.fixture(scope="module")
def live(world: World) -> Iterator[Live]:
    with serving(app(world.router, world.flow, world.metered)) as server:
        yield server


@pytest.fixture
def page(browser: Any, live: Live) -> Iterator[Any]:
    with opened(browser, live) as page:
        yield page


def _ask(server: Live, path: str, app: str, session: str, **params: object) -> Any:
    with server.client() as client:
        answer = client.get(
            f"/inspect/api/{path}", params={"session": session_key(app, session), **params}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_the_strip_and_the_cache_view_have_one_count(page: Any, live: Live) -> None:
    open_session(page, "metered", "m", "cache")
    page.wait_for_selector("[data-testid=cache]")
    frame = _ask(live, "film", "metered", "m")["frames"][-1]
    caption = page.text_content("[data-testid=caption]")
    shown = page.text_content("[data-testid=cache] .facts-row")
    assert f"{frame['tokens']:,} tokens, {frame['cached']:,} cached" in caption
    assert f"{frame['cached']:,} of {frame['tokens']:,} tokens" in shown
    assert f"{frame['possible']:,} of {frame['tokens']:,} tokens" in shown
    assert frame["cached"] < frame["possible"] <= frame["tokens"]
    # what the provider counted is another count, and is called so
    assert "the provider counted 30,000 tokens, 9 cached" in caption
    assert "9 of 30,000 tokens, as it counts" in shown


def test_the_list_has_tokens_and_cost_where_no_provider_counts(page: Any, live: Live) -> None:
    row = page.locator("tr.pick", has_text="team")
    row.locator(".of-tokens >> text=≈").wait_for()
    summary = _ask(live, "film", "team", "t")["session"]
    assert f"≈ {summary['tokens']:,}" in row.locator(".of-tokens").text_content()
    assert row.locator(".of-cost").text_content() == f"${summary['cost']:.4f}"
    metered = page.locator("tr.pick", has_text="metered").locator(".of-tokens").text_content()
    assert metered == "150,000 tok", "what the provider reported"
    open_session(page, "metered", "m")
    page.wait_for_selector(".totals >> text=reported: 150,000 tokens")


def test_the_graph_knows_the_state_and_lists_its_checks_once(page: Any, live: Live) -> None:
    open_session(page, "flow", "f", "graph")
    page.wait_for_selector("[data-testid=graph] svg")
    assert page.locator("[data-testid=graph] svg .problem").count() == 0, "`topic` was given"
    checks = _ask(live, "picture", "flow", "f")["checks"]
    assert "WEFT101" not in [one["code"] for one in checks]
    assert not [one for one in checks if one["severity"] == "error"]
    words = page.text_content("[data-testid=graph]")
    for one in checks:
        assert words.count(one["message"]) == 1


def test_a_hand_over_is_not_an_untrusted_word(page: Any, live: Live) -> None:
    open_session(page, "team", "t", "trust")
    page.wait_for_selector("[data-testid=trust]")
    page.wait_for_selector("text=No call uses words that came from a result.")


def test_nothing_vanishes_because_another_agent_speaks(page: Any, live: Live) -> None:
    open_session(page, "team", "t", "bisect")
    page.fill("input[placeholder^='a sentence']", "heather")
    page.click("form >> text=find")
    page.wait_for_selector("text=It never vanished.")
    assert "router 2 of 2, billing_desk 0 of 1" in page.text_content("[data-testid=bisect]")


def test_an_answer_is_shown_once_though_a_piece_of_it_comes_late(
    page: Any, live: Live, world: World
) -> None:
    events = [*done(world.flow.session(session_id="f")).events]
    last = next(event for event in reversed(events) if event.text == "Done.")
    stored = [replace(event, sequence=number) for number, event in enumerate(events, 1)]
    late = Event(author=last.author, id=last.id, content=last.content, partial=True)
    body = b"".join([*map(frame, stored), frame(late), *map(frame, stored[-2:])])

    def deliver(route: Any) -> None:
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    page.route(re.compile(r".*/sessions/f/events.*"), deliver)
    open_session(page, "flow", "f", "chat")
    page.wait_for_selector("[role=log] .bubble >> text=Done.")
    page.wait_for_timeout(300)  # what came behind it is read
    assert page.locator("[role=log] .bubble >> text=Done.").count() == 1
    assert page.locator("[role=log] .bubble >> text=Yes.").count() == 1
