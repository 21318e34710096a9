"""What the inspector costs on the server: opening a session, a what-if, the page; CPU time.

    .venv/bin/python bench/inspector.py

A session of 501 calls of one agent, and sessions of 480 calls of four: a router with those that it
hands over to, four at once, and agents that others call as tools.

A what-if is asked of the last step, the first time after the session was opened: what is worked
out once for many is cold. Each session has 1,000 events; they differ in what its tools gave. While
somebody looks at a session, the server rehearses it under two policies: the last lines say how long
that takes, in the background, and what the first what-if under them costs then.
"""

import asyncio
import gzip
import json
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import serving

import weft.inspector
from weft import Agent, C, Content, Event, Parallel, Part, RunConfig, Sequence, Session
from weft.content import call_part, result_part
from weft.declare import Node
from weft.inspector import Inspection
from weft.inspector.export import export, export_parts
from weft.inspector.inspection import REHEARSED, Variant
from weft.inspector.questions import what_if
from weft.inspector.request import RequestView
from weft.values import JsonObject

EVENTS = 1_000
POLICIES = (
    "C.default()",
    "C.auto()",
    "C.window(10)",
    "C.default().compact()",
    "C.default().budget(20_000)",
)
WORDS = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi
omicron""".split()  # noqa: SIM905


def weather(n: int) -> object:
    return {"t": n, "text": "sunny with some clouds and a light breeze from the west"}


def log_lines(n: int) -> object:
    lines = [
        f"2026-03-{n % 28 + 1:02} 12:{k:02}:07 INFO [{n * 31 + k}] request {n * 97 + k}: {k * 7} ms"
        for k in range(30)
    ]
    return "\n".join([*lines, f"ERROR: disk {n} is full at /var/data/{n}"])


def rows(n: int) -> object:
    return {
        "rows": [
            {
                "id": n * 100 + k,
                "name": f"user{n}-{k}",
                "city": WORDS[(n + k) % 15],
                "ok": k % 3 == 0,
            }
            for k in range(40)
        ]
    }


def prose(n: int) -> object:
    return " ".join(
        f"{WORDS[(n * k) % 15]}{(n * k) % 97}" + "." * (k % 12 == 0) for k in range(8_000)
    )


def page(n: int) -> object:
    body = "".join(f"<li><a href='/x/{n}/{k}'>{WORDS[k % 15]} {k * n}</a></li>" for k in range(60))
    return f"<html><body><h1>Page {n}</h1><ul>{body}</ul></body></html>"


SHAPES: dict[str, tuple[Callable[[int], object], int, int]] = {
    "small": (weather, 80, 1),
    "log": (log_lines, 2_000, 1),
    "json": (rows, 3_000, 1),
    "html": (page, 2_500, 1),
    "large": (prose, 60_000, 20),
}
"""What tools gave, about how many characters each, and one of so many results that is like this."""


def get_weather(city: str, day: int) -> dict[str, str]:
    """Weather of a city on a day."""
    return {"city": city, "day": str(day)}


BOT = Agent("bot", model="gpt-5", instruction="You help with {topic?}.", tools=[get_weather])

GUARDED = BOT.sees(C.default().redact("email", "api_key", "phone"))
"""The same, with rules that look through all of it."""


def session(shape: str, *, turns: int = EVENTS // 4, calls: int = 1) -> Session:
    """A session of turns, each a question, calls with results, and an answer."""
    give, _, every = SHAPES[shape]
    events: list[Event] = []
    n = 0

    def say(author: str, role: str, part: Part, turn: int) -> None:
        content = Content(role=role, parts=(part,))
        events.append(Event(author=author, invocation_id=f"i{turn}", content=content))

    for turn in range(turns):
        say(
            "user",
            "user",
            Part(text=f"Question {turn} about {WORDS[turn % 15]}: what is it?"),
            turn,
        )
        for _ in range(calls):
            n += 1
            result = give(n) if n % every == 0 else weather(n)
            say(
                "bot",
                "model",
                call_part("get_weather", {"city": "Oslo", "day": n}, id=f"c{n}"),
                turn,
            )
            say("bot", "user", result_part("get_weather", {"result": result}, id=f"c{n}"), turn)
        say("bot", "model", Part(text=f"It is {WORDS[turn % 7]} {turn}."), turn)
    return Session("s", app_name="bench", events=events)


def long_session(calls: int) -> Session:
    """One turn of so many calls, in requests of 200 kB and more."""
    one = session("small", turns=1, calls=calls)
    text = " ".join(f"{WORDS[n % 15]}{n}" for n in range(22_000))
    page = Event(
        author="user", invocation_id="i0", content=Content(role="user", parts=(Part(text=text),))
    )
    return Session("s", app_name="bench", events=[page, *one.events])


TEAM = ("finder", "writer", "checker", "mender")


def team(shape: str) -> tuple[Node, Session]:
    """Four agents with 480 calls of models, in one of three shapes, and their session."""
    instruction = "You are one of four. " + "Work as the others expect it. " * 40
    members = [
        Agent(name, model="gpt-5", instruction=instruction, tools=[get_weather]) for name in TEAM
    ]
    if shape == "router":
        root: Node = replace(members[0], sub_agents=tuple(members[1:]))
    elif shape == "parallel":
        root = Parallel(*members, name="all")
    else:
        inner = Sequence(members[2], members[3], name="pair", description="Check and mend.")
        root = Sequence(members[0].uses(inner), members[1], name="line")
    events: list[Event] = []
    n = 0
    for turn in range(20):
        said = Content(role="user", parts=(Part(text=f"Question {turn}: {prose(turn)[:2_000]}"),))
        events.append(Event(author="user", invocation_id=f"i{turn}", content=said))
        for number, name in enumerate(TEAM):
            branch = f"all.{name}" if shape == "parallel" else None
            is_inner = shape == "nested" and number > 1
            scope = f"scope-{turn}" if is_inner else None
            place: JsonObject = {"branch": branch, "isolation_scope": scope}

            def say(
                role: str, part: Part, name: str = name, place: JsonObject = place, turn: int = turn
            ) -> None:
                content = Content(role=role, parts=(part,))
                event = Event(author=name, invocation_id=f"i{turn}", content=content)
                events.append(msgspec.structs.replace(event, **place))

            for _ in range(5):
                n += 1
                args: JsonObject = {"city": "Oslo", "day": n}
                say("model", call_part("get_weather", args, id=f"c{n}"))
                say("user", result_part("get_weather", {"result": rows(n)}, id=f"c{n}"))
            say("model", Part(text=f"{name} is done with {turn}."))
    return root, Session("team", app_name="bench", events=events)


def measure_team() -> None:
    """Sessions of four agents: opened, one what-if, one file."""
    for shape in ("router", "parallel", "nested"):
        root, session = team(shape)
        inspection = Inspection(root, session, files=(__file__,))
        opening = timed(lambda i=inspection: json.dumps(i.film()))
        last = len(inspection.steps)
        variant = Variant(policy="C.auto()")
        cold = timed(lambda i=inspection, n=last, v=variant: what_if(i, n, v))
        rehearse(inspection, variant)
        warm = timed(lambda i=inspection, n=last - 1, v=variant: what_if(i, n, v))
        size = 0

        def write(one: Inspection = inspection) -> None:
            nonlocal size
            size = sum(map(len, export_parts(one, key="s")))

        took = timed(write)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"{last} calls of four agents, {shape}: opened in {opening:.0f} ms of CPU, what-if"
            f" {cold:.0f} ms, after a rehearsal {warm:.0f} ms, exported in {took / 1e3:.1f} s,"
            f" {size / 1e6:.1f} MB, {most:.0f} MB of memory at most so far"
        )


def rehearse(inspection: Inspection, variant: Variant) -> None:
    """What the page has done once somebody has looked at it for a while."""
    for steps in (inspection.rehearse(variant), inspection.explain_last(variant)):
        for _ in steps:
            pass


def timed(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1e3


def opened(session: Session, agent: Agent = BOT) -> Inspection:
    inspection = Inspection(agent, session, config=RunConfig(), files=(__file__,))
    inspection.film()
    return inspection


def measure_what_if() -> None:
    print(f"what-if on the last step of {EVENTS} events, ms of CPU (first time; again)")
    print(f"  {'':18}" + "".join(f"{shape:>16}" for shape in (*SHAPES, "one turn")))
    sessions = {shape: session(shape) for shape in SHAPES}
    sessions["one turn"] = session("log", turns=1, calls=EVENTS // 2 - 1)
    for policy in POLICIES:
        cells: list[str] = []
        for one in sessions.values():
            fresh = Session("s", app_name="bench", events=[*one.events])
            inspection = opened(fresh)
            last = len(inspection.steps)
            variant = Variant(policy=policy)
            first = timed(lambda i=inspection, v=variant, n=last: what_if(i, n, v))
            again = timed(lambda i=inspection, v=variant, n=last: what_if(i, n, v))
            cells.append(f"{first:9.1f}; {again:5.1f}")
        print(f"  {policy:18}" + "".join(f"{cell:>16}" for cell in cells))


def measure_rehearsed() -> None:
    print("after a rehearsal, ms of CPU (the first what-if; the rehearsal of all steps before)")
    print(f"  {'':18}" + "".join(f"{shape:>16}" for shape in (*SHAPES, "one turn")))
    sessions = {shape: session(shape) for shape in SHAPES}
    sessions["one turn"] = session("log", turns=1, calls=EVENTS // 2 - 1)
    for policy in REHEARSED:
        cells: list[str] = []
        for one in sessions.values():
            inspection = opened(Session("s", app_name="bench", events=[*one.events]))
            last, variant = len(inspection.steps), Variant(policy=policy)
            before = timed(lambda i=inspection, v=variant: rehearse(i, v))
            first = timed(lambda i=inspection, v=variant, n=last: what_if(i, n, v))
            cells.append(f"{first:9.1f}; {before:5.0f}")
        print(f"  {policy:18}" + "".join(f"{cell:>16}" for cell in cells))


def measure_open() -> None:
    """A session of 500 calls with requests of 200 kB and more, as the page opens it."""
    for agent, words in ((BOT, ""), (GUARDED, ", with redaction")):
        inspection = Inspection(agent, long_session(500), files=(__file__,))
        opening = timed(lambda i=inspection: json.dumps(i.film()))
        last = len(inspection.steps)
        view = RequestView(inspection, last)
        request = timed(lambda v=view: json.dumps(v.to_json()))
        sizes = [len(RequestView(inspection, number).text) / 1e3 for number in (1, last)]
        print(f"{last} calls{words}, requests of {sizes[0]:.0f} to {sizes[1]:.0f} kB:", end=" ")
        print(f"opened in {opening:.0f} ms of CPU, the last request shown in {request:.0f} ms")


def measure_export() -> None:
    """The same session as one file, with all its requests, and half of it."""
    for calls, agent, words in ((250, BOT, ""), (500, BOT, ""), (500, GUARDED, ", redacted,")):
        inspection = Inspection(agent, long_session(calls), files=(__file__,))
        inspection.film()
        pages: list[str] = []
        took = timed(lambda i=inspection, p=pages: p.append(export(i, key="s")))
        size = len(pages[0]) / 1e6
        print(f"exported {calls} calls{words} in {took / 1e3:.1f} s of CPU, {size:.1f} MB")


def measure_page() -> None:
    """The page and what it loads."""
    home = Path(weft.inspector.__file__).parent / "page"
    files = [file for file in home.rglob("*") if file.is_file() and file.suffix != ".md"]
    packed = sum(len(gzip.compress(file.read_bytes())) for file in files)
    print(f"the page: {packed / 1e3:.0f} kB compressed, in {len(files)} files")


def main() -> None:
    """The page, a session, what-ifs; then a turn and an event of the server."""
    measure_page()
    measure_open()
    measure_team()
    measure_export()
    measure_what_if()
    measure_rehearsed()
    asyncio.run(serving.main())


if __name__ == "__main__":
    main()
