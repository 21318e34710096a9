"""The API of google-adk's web server, so that its page and its clients work unchanged.

What that API has beyond sessions, runs, traces, graphs and artifacts is left out on purpose: it
writes agents to the disk and deploys them.

Top to bottom: sessions, runs, artifacts; `adk_page.py` has graphs, traces and the page.
"""

import platform
import re
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from weft import __version__
from weft.content import Content
from weft.declare import Agent
from weft.recordings import from_messages
from weft.runtime import Runner
from weft.runtime.earlier import is_unfinished
from weft.server.adk_page import PAGE_ENDPOINTS
from weft.server.endpoints import (
    Answer,
    Body,
    Call,
    Endpoint,
    decode_json,
    respond,
    respond_raw,
    whole_number,
)
from weft.server.problems import Problem, invalid, require_id, unknown_artifact
from weft.server.served import ServedRun
from weft.server.sessions import write_state
from weft.server.stream import stream_problem
from weft.session import Actions, Event, Session, SessionKey
from weft.session.event import new_id, without_temp
from weft.session.flow import mark_imported
from weft.session.lookback import RESERVED
from weft.session.provenance import without_acts
from weft.session.store import key_of
from weft.stores import create_filled
from weft.values import Json, JsonObject

_NAMED = 200
"""Of how many sessions, the newest first, a list says the state."""

_AHEAD = 86_400.0
"""Seconds by which the clock of a client may be ahead."""


class NewAdkSession(Body, frozen=True, rename="camel"):
    """A session that is to be made."""

    session_id: str | None = None
    state: JsonObject | None = None
    events: list[JsonObject] | None = None
    """What was said elsewhere: the page imports a session with it."""
    options: JsonObject | None = None


class AdkRun(Body, frozen=True, rename="camel"):
    """A run that is to be started."""

    user_id: str
    session_id: str
    app_name: str | None = None
    new_message: Content | None = None
    streaming: bool = False
    state_delta: JsonObject | None = None
    invocation_id: str | None = None
    function_call_event_id: str | None = None
    """Which event an answer is to: the answer itself names its call."""
    custom_metadata: JsonObject | None = None
    service_tier: str | None = None


class AdkStateDelta(Body, frozen=True, rename="camel"):
    """What is to be written to a session."""

    state_delta: JsonObject


async def list_apps(call: Call) -> Answer:
    """The names of the apps, or what each of them is."""
    if call.query("detailed").lower() not in ("true", "1"):
        return respond([*call.served.runners])
    return respond({"apps": [_about_app(runner) for runner in call.served.runners.values()]})


def _about_app(runner: Runner) -> JsonObject:
    root = runner.root
    return {
        "name": runner.app_name,
        "rootAgentName": root.name,
        "description": root.description if isinstance(root, Agent) else "",
        "language": "python",
        "isComputerUse": False,
    }


async def list_sessions(call: Call) -> Answer:
    """The sessions of a user, without their events."""
    runner, user = call.runner(), call.user(call.path("user"))
    listed: list[JsonObject] = []
    for place, info in enumerate(await runner.store.sessions(runner.app_name, user)):
        # the page shows sessions by a name that it keeps in their state
        session = await runner.store.get(info.key, recent=0) if place < _NAMED else None
        listed.append(
            {
                "id": info.key.id,
                "appName": runner.app_name,
                "userId": user,
                "state": without_temp(session.state) if session is not None else {},
                "events": [],
                "lastUpdateTime": info.last_update_time,
            }
        )
    return respond(listed)


async def create_session(call: Call) -> Answer:
    """Make a session; the page sends `null` where it has nothing to say."""
    body = await _body(call, NewAdkSession, NewAdkSession())
    _refuse_given(options=body.options)
    return await _create_session(call, body.session_id, body.state, body.events or ())


async def create_named_session(call: Call) -> Answer:
    """Make a session of this name; the body is its state."""
    data = await call.raw_body(needed=False)
    # clients send either the state itself, or an object whose only key is `state`
    state = decode_json(data, dict[str, Json]) if data.strip() not in (b"", b"null") else {}
    inner = state.get("state")
    if len(state) == 1 and isinstance(inner, dict):
        state = inner
    return await _create_session(call, call.path("session"), state)


async def _create_session(
    call: Call, id: str | None, state: JsonObject | None, listed: Sequence[JsonObject] = ()
) -> Answer:
    runner, user = call.runner(), call.user(call.path("user"))
    key = SessionKey(runner.app_name, user, require_id(id or new_id()))
    state = call.allowed_state(state)
    events = _read_posted_events(call, runner, listed) if listed else ()
    # the store's own refusal would read as a store that cannot be used
    if await runner.store.lengths([key]):
        raise Problem(409, "exists", f"the session `{key.id[:100]}` exists already")
    return _respond_session(await create_filled(runner.store, key, events, state=state))


def _read_posted_events(
    call: Call, runner: Runner, listed: Sequence[JsonObject]
) -> Sequence[Event]:
    """Events of another session, as a client may post them: what was said and called, no more.

    Nobody makes a server go on with a run by posting half of one: its calls would be made. For
    the same reason no note of a runtime counts. Times lie in the past: how long something is kept
    is counted from them.
    """
    try:
        recorded = from_messages(listed, format="adk", agent=runner.root.name).for_store()
    except RecursionError:
        raise invalid("something in these events is nested too deeply", where="/events") from None
    session = Session(
        recorded.id,
        app_name=recorded.app_name,
        user_id=recorded.user_id,
        state=recorded.initial,
        events=[_without_acts(event) for event in recorded.events],
    )
    latest = time.time() + _AHEAD
    for at, event in enumerate(session.events):
        call.allowed_state(event.actions.state_delta)
        rest = msgspec.structs.replace(event.actions, state_delta={})
        names = [one.name or "" for one in event.calls]
        names += [one.name or "" for one in event.results]
        if rest != Actions():
            claim = "it has actions other than `stateDelta`"
        elif event.long_running_tool_ids:
            claim = "it has calls that wait for an answer"
        elif any(name.startswith(RESERVED) for name in names):
            claim = "it has calls that only a runtime makes"
        elif not 0 <= event.timestamp <= latest:
            claim = "its time is before 1970 or to come"
        else:
            continue
        raise invalid(f"this event cannot be imported: {claim}", where=f"/events/{at}")
    if is_unfinished(runner.root, session):
        raise invalid(
            "the last turn of these events has no answer",
            hint="post whole turns; `weft sessions import` takes everything",
            where="/events",
        )
    return session.events


def _without_acts(event: Event) -> Event:
    metadata = event.custom_metadata
    known = without_acts(metadata) if metadata is not None else None
    return msgspec.structs.replace(event, custom_metadata=mark_imported(known))


def _refuse_given(**fields: JsonObject | str | None) -> None:
    """Refuse what google-adk's clients may send and nothing here would use; null is nothing."""
    for name, value in fields.items():
        if value:
            raise invalid(f"`{name}` has no meaning here", hint="leave it out")


async def get_session(call: Call) -> Answer:
    """A session with its events."""
    return _respond_session(await _session(call))


async def _session(call: Call) -> Session:
    return await call.served.session(
        call.runner(), call.user(call.path("user")), call.path("session")
    )


def _respond_session(session: Session) -> Answer:
    """A session as ADK's clients read it."""
    around: JsonObject = {
        "id": session.id,
        "appName": session.app_name,
        "userId": session.user_id,
        "state": without_temp(session.state),
        "lastUpdateTime": session.last_update_time,
    }
    events = [msgspec.Raw(event.to_json()) for event in session.events]
    return respond_raw(msgspec.json.encode({**around, "events": events}))


async def patch_session(call: Call) -> Answer:
    """Write to the state of a session."""
    body = await _body(call, AdkStateDelta)
    return _respond_session(await write_state(call, call.user(call.path("user")), body.state_delta))


async def delete_session(call: Call) -> Answer:
    """Delete a session."""
    runner, key = await call.find_session(call.path("user"))
    await runner.delete(user_id=key.user_id, session_id=key.id)
    return respond(None)


async def run(call: Call) -> Answer:
    """Run, and answer with all events."""
    started = await _start_run(call, await _body(call, AdkRun), stream=False)
    events = [
        msgspec.Raw(_plain(event)) async for event in started.events() if event.author != "user"
    ]
    return respond_raw(msgspec.json.encode(events))


async def run_sse(call: Call) -> Answer:
    """Run, and stream the events: a line of JSON each, partial ones if the client asks for them."""
    body = await _body(call, AdkRun)
    started = await _start_run(call, body, stream=body.streaming)
    return call.served.run_stream(call.identity, started, _lines(started))


async def _start_run(call: Call, body: AdkRun, *, stream: bool) -> ServedRun:
    _refuse_given(customMetadata=body.custom_metadata, serviceTier=body.service_tier)
    runners = call.served.runners
    # google-adk's clients may leave the app out where a server has only one
    only = next(iter(runners)) if len(runners) == 1 else ""
    runner = call.served.runner(body.app_name or only)
    user = call.user(body.user_id)
    return await call.served.start(
        runner,
        body.new_message,
        user=user,
        session=body.session_id,
        state=call.allowed_state(body.state_delta) or None,
        # with a message the id would name a new run, and these clients mean an old one
        invocation_id=body.invocation_id if body.new_message is None else None,
        stream=stream,
        follow=True,
        create=False,
    )


async def _lines(started: ServedRun) -> AsyncGenerator[bytes, None]:
    """One event a chunk, and each with an id of its own: the page drops an id that it has seen."""
    number = 0
    try:
        async for event in started.events():
            if event.author == "user":
                continue
            if event.partial:
                number += 1
                event = msgspec.structs.replace(event, id=f"{event.id}-{number}")
            yield b"data: %b\n\n" % _plain(event)
    except Exception as error:
        # the status is sent already: the error can only be one more line
        yield b"data: %b\n\n" % msgspec.json.encode({"error": stream_problem(error).detail})


def _plain(event: Event) -> bytes:
    # google-adk's events have no such field
    return msgspec.structs.replace(event, sequence=None).to_json()


BodyT = TypeVar("BodyT", bound=Body)


async def _body(call: Call, kind: type[BodyT], empty: BodyT | None = None) -> BodyT:
    """A body in either spelling, camelCase or snake_case; `null` is not one."""
    data = await call.raw_body(needed=empty is None)
    if data.strip() in (b"", b"null") and empty is not None:
        return empty
    fields = decode_json(data, dict[str, msgspec.Raw])
    names = {one.name: one.encode_name for one in msgspec.structs.fields(kind)}
    spelled = {names.get(name, name): value for name, value in fields.items()}
    # the later spelling would win in silence
    if len(spelled) < len(fields):
        twice = next(one for one in names if one in fields and names[one] in fields)
        raise invalid(f"`{twice}` and `{names[twice]}` are one field, which is there twice")
    return decode_json(msgspec.json.encode(spelled), kind)


async def list_artifacts(call: Call) -> Answer:
    """The names of a session's artifacts."""
    session = await _session(call)
    return respond(await call.runner().artifacts.names(*key_of(session)))


async def get_artifact(call: Call) -> Answer:
    """An artifact, or one version of it, or the list of its versions; or what is known of them."""
    session, store = await _session(call), call.runner().artifacts
    name = call.path("name")
    asked = _OF_VERSIONS.fullmatch(name)
    if asked is None:
        version = call.number("version", 0) if call.query("version") else None
    elif (text := asked["version"]) is None:
        versions = await store.versions(*key_of(session), asked["name"])
        if not asked["about"]:
            return respond(versions)
        return respond([await _about_version(call, session, asked["name"], v) for v in versions])
    else:
        version = None if text == "latest" else whole_number(text)
        if version is None and text != "latest":
            raise invalid(f"{text[:40]!r} is not a version")
        name = asked["name"]
        if asked["about"]:
            if version is None:
                version = max(await store.versions(*key_of(session), name), default=0)
            return respond(await _about_version(call, session, name, version))
    part = await store.load(*key_of(session), name, version)
    if part is None:
        raise unknown_artifact(name)
    return respond(part)


_OF_VERSIONS = re.compile(
    r"(?P<name>.+)/versions(?:/(?P<version>[^/]+))??(?P<about>/metadata)?", re.DOTALL
)
"""What google-adk's clients write after the name of an artifact, which may have slashes too."""


async def _about_version(call: Call, session: Session, name: str, version: int) -> JsonObject:
    """What is known of a version of an artifact, other than its content."""
    part = await call.runner().artifacts.load(*key_of(session), name, version)
    if part is None:
        raise unknown_artifact(name)
    app, user, id = key_of(session)
    # what begins with `user:` is that of all sessions of the user
    home = "" if name.startswith("user:") else f"/sessions/{id}"
    media = part.inline_data or part.file_data
    about: JsonObject = {
        "version": version,
        "canonicalUri": f"artifact://apps/{app}/users/{user}{home}/artifacts/{name}"
        f"/versions/{version}",
        "customMetadata": {},
        "mimeType": (media.mime_type if media is not None else None) or "text/plain",
    }
    for event in session.events:
        if (event.actions.artifact_delta or {}).get(name) == version:
            about["createTime"] = event.timestamp
    return about


async def get_version(call: Call) -> Answer:
    """What the page shows next to its title."""
    version = ".".join(platform.python_version_tuple()[:2])
    return respond(
        {"version": f"weft {__version__}", "language": "python", "language_version": version}
    )


async def get_telemetry(call: Call) -> Answer:
    """No: with any other answer the page covers itself with a question about it."""
    return respond({"telemetry": False})


_SESSIONS = "/apps/{app}/users/{user}/sessions"
_ONE = f"{_SESSIONS}/{{session}}"

_row = partial(Endpoint, tag="google-adk")

ENDPOINTS = (
    _row("GET", "/list-apps", list_apps, "The names of the apps.", queries=("detailed",)),
    _row("GET", "/version", get_version, "The version."),
    _row("GET", "/config/telemetry", get_telemetry, "Telemetry of the page: none."),
    _row("GET", _SESSIONS, list_sessions, "The sessions of a user."),
    _row("POST", _SESSIONS, create_session, "Make a session.", NewAdkSession),
    _row("GET", _ONE, get_session, "A session with its events."),
    _row("POST", _ONE, create_named_session, "Make a session of this name."),
    _row("PATCH", _ONE, patch_session, "Write to the state.", AdkStateDelta),
    _row("DELETE", _ONE, delete_session, "Delete a session."),
    _row("POST", "/run", run, "Run, and answer with all events.", AdkRun),
    _row("POST", "/run_sse", run_sse, "Run, and stream the events.", AdkRun),
    _row("GET", f"{_ONE}/artifacts", list_artifacts, "The artifacts."),
    _row("GET", f"{_ONE}/artifacts/{{name:path}}", get_artifact, "One artifact."),
    *PAGE_ENDPOINTS,
)
