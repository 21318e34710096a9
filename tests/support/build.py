"""Short ways to write events in tests, and a tool that keeps a run under way."""

import asyncio
import threading

from weft import Actions, Content, Event, Part, Session, Tool, tool
from weft.content import call_part, result_part
from weft.values import JsonObject


def user(text: str, *, inv: str = "1", **more: object) -> Event:
    """The user says something."""
    return _event("user", "user", Part(text=text), inv, more)


def says(author: str, text: str, *, inv: str = "1", **more: object) -> Event:
    """An agent says something; `writes="key"` also stores it."""
    key = more.pop("writes", None)
    if key is not None:
        more["actions"] = Actions(state_delta={str(key): text})
    return _event(author, "model", Part(text=text), inv, more)


def calls(
    author: str, name: str, args: JsonObject, id: str | None, *, inv: str = "1", **more: object
) -> Event:
    """An agent calls a tool."""
    return _event(author, "model", call_part(name, args, id=id), inv, more)


def returns(
    author: str, name: str, response: JsonObject, id: str | None, *, inv: str = "1", **more: object
) -> Event:
    """A tool returns."""
    return _event(author, "user", result_part(name, response, id=id), inv, more)


def _event(author: str, role: str, part: Part, inv: str, more: dict[str, object]) -> Event:
    content = Content(role=role, parts=(part,))
    return Event(author=author, content=content, invocation_id=inv, **more)  # type: ignore[arg-type]


def session(*events: Event, **state: object) -> Session:
    """A session with these events, over this state."""
    return Session("s", state=state, events=events)  # type: ignore[arg-type]


def wait_for(go: threading.Event) -> Tool:
    """The tool `wait`, which returns once somebody sets the event; a run is under way till then."""

    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.to_thread(go.wait, 600)
        return "waited"

    return wait
