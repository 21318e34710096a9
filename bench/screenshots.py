"""Pictures of every view of the inspector, for the docs.

Usage: python bench/screenshots.py [FOLDER]

Runs a travel agent with a scripted model, serves it, and photographs the page in Chromium.
"""

import asyncio
import shutil
import socket
import sys
import threading
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from weft import Agent, C, Runner, tool
from weft.server import app
from weft.testing import ScriptedModel, call

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


def build_agent() -> Agent:
    """A travel agent that follows a script."""
    script = []
    for city in CITIES:
        script += [call("find_flights", city=city), f"The cheapest to {city} is DY101 for 95 EUR."]
    script += [call("book", offer="DY101")]
    return Agent(
        "traveller",
        model=ScriptedModel(script, name="claude-opus-5", dialect="anthropic"),
        instruction="You book trips for {name}. They like {seat?}. Compare prices first.",
        tools=[find_flights, find_hotels, book],
    ).sees(C.window(4).redact("email"))


async def talk(runner: Runner) -> None:
    """Say the user's part."""
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
    runner = Runner(build_agent())
    asyncio.run(talk(runner))
    application = app(runner)
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
        page = chrome.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        page.wait_for_selector("tr.pick")
        shoot(page, folder, "sessions")
        page.click("tr.pick")
        page.wait_for_selector("[data-testid=messages]")
        page.wait_for_timeout(800)
        page.locator("[data-testid=messages] .state").first.hover()
        shoot(page, folder, "request")
        page.click("text=Raw JSON")
        shoot(page, folder, "raw")
        for title, view in (
            ("Left out", "left-out"),
            ("Cache", "cache"),
            ("What if", "whatif"),
            ("Bisect", "bisect"),
            ("Dead weight", "weight"),
            ("Graph", "graph"),
            ("Trust", "trust"),
            ("Events", "events"),
            ("Chat", "chat"),
        ):
            page.click(f"nav >> text={title}")
            page.wait_for_selector(f"[data-testid={view}]")
            if view == "whatif":
                page.fill("input[placeholder^='C.auto']", "C.auto()")
                page.wait_for_selector("text=sees(C.auto())")
                page.click("text=the whole session")
                page.wait_for_selector("[data-testid=both]")
            if view == "bisect":
                page.fill("input[placeholder^='a sentence']", "I want to go to Rome")
                page.click("form >> text=find")
                page.wait_for_selector("text=It vanished")
            shoot(page, folder, view)
        page.emulate_media(color_scheme="dark")
        page.click("nav >> text=Request")
        page.wait_for_selector("[data-testid=messages]")
        shoot(page, folder, "dark")
        chrome.close()
    application.stop_streams()
    server.should_exit = True
    thread.join(5)
    return 0


def shoot(page, folder: Path, name: str) -> None:
    """One picture."""
    page.wait_for_timeout(300)
    file = folder / f"inspector-{name}.png"
    page.screenshot(path=file)
    print(f"{file}  {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    raise SystemExit(main())
