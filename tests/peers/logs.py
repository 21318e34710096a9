"""Short ways to write a log, and to read what a model would get of it."""

from typing import cast

import weft
from tests.support.build import make_event
from weft import Agent, Event, Session
from weft.content import call_part, result_part
from weft.values import Json, JsonObject

BOT = Agent("bot", model="gemini-2.5-flash")


def asks(*names: str, author: str = "bot", inv: str = "1", **more: object) -> Event:
    """An agent calls tools; a tool's name is its call id too."""
    return make_event(author, *(call_part(name, {}, id=name) for name in names), inv=inv, **more)


def gets(*names: str, author: str = "bot", value: Json = 1, inv: str = "1") -> Event:
    """Tools return."""
    parts = (result_part(name, {"r": value}, id=name) for name in names)
    return make_event(author, *parts, role="user", inv=inv)


def turns(agent: Agent, *events: Event, **how: object) -> list[str]:
    """The contents of a Gemini request, each `role: part | part`."""
    compiled = weft.compile(agent, session=Session("s", events=events), **how)  # type: ignore[arg-type]
    contents = cast("list[JsonObject]", compiled.wire["contents"])
    return [
        f"{c['role']}: {' | '.join(map(_part, cast('list[JsonObject]', c['parts'])))}"
        for c in contents
    ]


def _part(part: JsonObject) -> str:
    if "functionCall" in part:
        return f"{cast('JsonObject', part['functionCall'])['name']}()"
    if "functionResponse" in part:
        held = cast("JsonObject", part["functionResponse"])
        return f"{held['name']} = {weft.values.compact(held['response'])}"
    return str(part["text"]) if "text" in part else next(iter(part))


def codes(agent: Agent, *events: Event) -> list[str]:
    """The diagnostics of a compilation."""
    return [d.code for d in weft.compile(agent, session=Session("s", events=events)).diagnostics]
