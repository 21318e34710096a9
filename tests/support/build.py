"""Short ways to write events in tests, and a tool that keeps a run under way."""

import asyncio
import threading
from collections.abc import Mapping

from weft import Actions, Agent, Content, Event, Part, Session, Tool, tool
from weft.content import call_part, result_part
from weft.testing import ScriptedModel
from weft.values import Json, JsonObject


def user(text: str, *, inv: str = "1", **more: object) -> Event:
    """The user says something."""
    return make_event("user", text, inv=inv, **more)


def says(author: str, text: str, *, inv: str = "1", **more: object) -> Event:
    """An agent says something; `writes="key"` also stores it."""
    key = more.pop("writes", None)
    delta: dict[str, Json] | None = {str(key): text} if key is not None else None
    return make_event(author, text, role="model", inv=inv, writes=delta, **more)


def calls(
    author: str, name: str, args: JsonObject, id: str | None, *, inv: str = "1", **more: object
) -> Event:
    """An agent calls a tool."""
    return make_event(author, call_part(name, args, id=id), role="model", inv=inv, **more)


def returns(
    author: str, name: str, response: JsonObject, id: str | None, *, inv: str = "1", **more: object
) -> Event:
    """A tool returns."""
    return make_event(author, result_part(name, response, id=id), role="user", inv=inv, **more)


def make_event(
    author: str,
    *parts: str | Part,
    role: str = "",
    inv: str = "1",
    writes: Mapping[str, Json] | None = None,
    **more: object,
) -> Event:
    """Somebody says something, in texts and other parts, and writes to the state."""
    content = Content(
        role=role or ("user" if author == "user" else "model"),
        parts=tuple(Part(text=part) if isinstance(part, str) else part for part in parts),
    )
    if writes is not None:
        more["actions"] = Actions(state_delta=dict(writes))
    return Event(author=author, content=content if parts else None, invocation_id=inv, **more)  # type: ignore[arg-type]


def scripted_agent(*script: object, name: str = "bot", **options: object) -> Agent:
    """An agent that answers with the entries of a script."""
    return Agent(name, model=ScriptedModel([*script]), **options)  # type: ignore[arg-type]


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
