"""Pictures of every view of the inspector, for the docs.

Usage: python bench/screenshots.py [FOLDER]

Runs a travel agent with a scripted model, serves it, and photographs the page in Chromium.
"""

import asyncio
import shutil
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from weft import Agent, C, Runner, tool
from weft.declare import Node
from weft.inspector import Inspection
from weft.server import app
from weft.testing import ScriptedModel, call, usage

CITIES = ("Oslo", "Bergen", "Tromso", "Rome", "Lisbon", "Porto", "Vienna", "Graz")

FLIGHTS = "\n".join(
    f"{carrier}{number} {time} {seats} seats left, {price} EUR, gate {gate}"
    for number, (carrier, time, seats, price, gate) in enumerate(
        (("SK", "07:1", 9, 180, "A"), ("DY", "12:4", 2, 95, "B"), ("LH", "18:0", 31, 240, "C")) * 9,
        100,
    )
)


@tool
def find_flights(city: str) -> str:
    """Find flights to a city, with times, seats and prices."""
    return f"Flights to {city}:\n{FLIGHTS}"


@tool
def find_hotels(city: str, nights: int) -> str:
    """Find hotels in a city."""
    return f"{nights} nights in {city}: Grand, Plaza, Old Mill"


@tool(confirm=True)
def book(offer: str) -> str:
    """Book an offer and pay for it."""
    return f"booked {offer}"


def build_agent(counted: Sequence[tuple[int, int]] = ()) -> Agent:
    """A travel agent that follows a script; `counted` are the tokens that its provider reports."""
    script = []
    for city in CITIES:
        script += [call("find_flights", city=city), f"The cheapest to {city} is DY101 for 95 EUR."]
    script += [call("book", offer="DY101"), *["Fine. The window seat it is."] * 9]
    script[: len(counted)] = [
        usage(entry, prompt=tokens, cached=cached, output=30)
        for entry, (tokens, cached) in zip(script, counted, strict=False)
    ]
    return Agent(
        "traveller",
        model=ScriptedModel(script, name="claude-opus-5", dialect="anthropic"),
        instruction="You book trips for {name}. They like {seat?}. Compare prices first.",
        tools=[find_flights, find_hotels, book],
    ).sees(C.window(4).redact("email"))


@tool
def read_file(path: str) -> str:
    """Read a file of the project."""
    lines = (f"    {n}: value_{n} = compute(part={n}, of={path!r})" for n in range(220))
    return f"# {path}\n" + "\n".join(lines)


@tool
def run_tests(name: str) -> str:
    """Run some tests."""
    return f"{name}: 12 passed, 1 failed: expected 95, got 59"


FILES = ("prices.py", "fares.py", "seats.py", "tax.py", "orders.py") * 3
"""Each is read three times, as agents do."""


def build_coder(counted: Sequence[tuple[int, int]] = ()) -> Agent:
    """An agent that reads long files and mends one; old results are shortened."""
    script = []
    for file in FILES:
        script += [
            call("read_file", path=file),
            call("run_tests", name=f"test_{file}"),
            f"**{file}** is read.\n\n- `compute` takes the part\n- one test fails: 59 for 95",
        ]
    script[: len(counted)] = [
        usage(entry, prompt=tokens, cached=cached, output=40)
        for entry, (tokens, cached) in zip(script, counted, strict=False)
    ]
    return Agent(
        "coder",
        model=ScriptedModel(script, name="claude-opus-5", dialect="anthropic"),
        instruction="You mend a project in Python. Read before you write.",
        tools=[read_file, run_tests],
    ).sees(C.auto())


def build_desk() -> Node:
    """Two agents in a row: the first says what it is about, the second acts on it."""
    triage = Agent(
        "triage",
        model=ScriptedModel(["refund"], name="gpt-5", dialect="openai-chat"),
        instruction="Say in one word what the user wants.",
    )
    clerk = Agent(
        "clerk",
        model=ScriptedModel(["You get your 95 EUR back."], name="gpt-5", dialect="openai-chat"),
        instruction="The user wants: {intent}. Help.",
    )
    return triage.writes("intent") >> clerk.writes("answer")


async def mend(runner: Runner) -> None:
    """Say the user's part to the coder."""
    for file in FILES:
        await runner.run(f"Why does the test of {file} fail?", session_id="a failing test")


async def talk(runner: Runner, desk: Runner) -> None:
    """Say the user's part."""
    await desk.run("I was charged twice for DY101", session_id="charged twice")
    state = {"name": "Ada", "seat": "aisle seats"}
    for city in CITIES:
        message = f"I want to go to {city}. My address is ada@example.com."
        await runner.run(message, session_id="trip to the north", state=state)
        state = None
    await runner.run("Book it", session_id="trip to the north")


def main() -> int:
    """Write the pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("there is no Chromium here: apt-get install chromium", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    rehearsal = Runner(build_agent())
    asyncio.run(talk(rehearsal, Runner(build_desk(), app_name="desk")))
    session = asyncio.run(rehearsal.session(session_id="trip to the north"))
    frames = Inspection(rehearsal.root, session).film()["frames"]
    runner = Runner(build_agent([(frame["tokens"], frame["cached"]) for frame in frames]))
    desk = Runner(build_desk(), app_name="desk")
    asyncio.run(talk(runner, desk))
    drill = Runner(build_coder())
    asyncio.run(mend(drill))
    session = asyncio.run(drill.session(session_id="a failing test"))
    frames = Inspection(drill.root, session).film()["frames"]
    coder = Runner(build_coder([(frame["tokens"], frame["cached"]) for frame in frames]))
    asyncio.run(mend(coder))
    application = app(runner, desk, coder)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning"))
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True
    )
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/?token={application.token}"
    with sync_playwright() as play:
        chrome = play.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = chrome.new_page(viewport={"width": 1200, "height": 760})
        page.set_default_timeout(120_000)
        page.goto(address)
        page.click("text=waiting: answer")
        page.wait_for_selector(".answers >> text=approve")
        shoot(page, folder, "sessions")
        page.click("tr.pick >> text=charged twice")
        page.click("nav >> text=Graph")
        page.wait_for_selector("text.value")
        shoot(page, folder, "graph")
        page.click("text=Sessions")
        page.set_viewport_size({"width": 1280, "height": 900})
        page.click("tr.pick >> text=a failing test")
        page.wait_for_selector("[data-testid=answer] .prose")
        page.wait_for_selector("text=has saved")
        shoot(page, folder, "request")
        page.set_viewport_size({"width": 1200, "height": 760})
        page.click("text=Sessions")
        page.click("tr.pick >> text=trip to the north")
        page.wait_for_selector("[data-testid=messages]")
        page.wait_for_timeout(800)
        page.locator("[data-testid=messages] .state").first.hover()
        page.wait_for_selector("text=would save")
        shoot(page, folder, "findings")
        page.click("[data-testid=messages] .event >> nth=0")
        page.keyboard.press("/")
        page.keyboard.type("DY101")
        page.click("text=Raw JSON")
        page.keyboard.press("/")
        page.keyboard.type("Porto")
        shoot(page, folder, "raw")
        for title, view in VIEWS:
            page.click(f"nav >> text={title}")
            page.wait_for_selector(f"[data-testid={view}]")
            prepare(page, view)
            shoot(page, folder, view, of="[role=tabpanel]" if view in ALONE else "")
        page.click("nav >> text=Events")
        page.click("[data-event='0'] >> text=fork here")
        page.fill("dialog textarea", "I want to go to Oslo, at a window.")
        page.fill("dialog input", '{"seat": "a window seat"}')
        page.click("text=fork and go on")
        page.wait_for_selector("[data-testid=beside] >> text=window seat it is")
        page.evaluate("scrollTo(0, 150)")
        shoot(page, folder, "fork")
        page.click("nav >> text=Compare")
        page.select_option("[data-testid=compare] form select >> nth=0", index=1)
        page.click("text='compare'")
        page.wait_for_selector("[data-testid=difference]")
        shoot(page, folder, "compare", of="[role=tabpanel]")
        page.emulate_media(color_scheme="dark")
        page.click("nav >> text=Request")
        page.click("text='Messages'")
        page.wait_for_selector("[data-testid=messages]")
        shoot(page, folder, "dark")
        page.set_viewport_size({"width": 390, "height": 720})
        shoot(page, folder, "phone")
        chrome.close()
    application.stop_streams()
    server.should_exit = True
    thread.join(5)
    return 0


VIEWS = (
    ("Left out", "left-out"),
    ("Cache", "cache"),
    ("What if", "whatif"),
    ("Bisect", "bisect"),
    ("Dead weight", "weight"),
    ("Trust", "trust"),
    ("Events", "events"),
    ("Chat", "chat"),
)


ALONE = ("bisect", "weight", "trust")
"""Views that are photographed without the strip above them."""


def prepare(page, view: str) -> None:
    """Ask what a view is for."""
    if view == "left-out":
        page.click("text=force in >> nth=0")
        page.wait_for_selector("[data-testid=compared]")
    elif view == "whatif":
        page.click("text='C.auto()'")
        page.wait_for_selector("text=sees(C.auto()")
        page.click("text=the whole session")
        page.wait_for_selector("[data-testid=both]")
        page.evaluate("scrollTo(0, 300)")
    elif view == "bisect":
        page.fill("input[placeholder^='a sentence']", "I want to go to Rome")
        page.click("form >> text=find")
        page.wait_for_selector("text=It vanished")


def shoot(page, folder: Path, name: str, of: str = "") -> None:
    """One picture: of the page, or of one part of it."""
    page.wait_for_timeout(300)
    file = folder / f"inspector-{name}.png"
    (page.locator(of) if of else page).screenshot(path=file)
    print(f"{file}  {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    raise SystemExit(main())
