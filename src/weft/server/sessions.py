"""The API of Weft: apps, sessions, runs, events, state, artifacts, questions, rewind and fork.

Nothing here writes files or runs code of the caller: what a run may do is what the declared
agent may do.
"""

import binascii

from starlette.responses import Response

from weft.content import Content
from weft.declare import Agent
from weft.declare.agent import walk_tree
from weft.errors import SessionBusy, StoreError, UsageError
from weft.media import base64_bytes
from weft.runtime import Runner
from weft.runtime.approvals import Pending, pending_in
from weft.runtime.earlier import LONGEST_ID, is_unfinished, require_request_id
from weft.server.endpoints import Answer, Body, Call, Endpoint, respond, respond_raw, whole_number
from weft.server.problems import Problem, invalid, require_id, unknown_artifact
from weft.server.served import Busy, ServedRun
from weft.server.stream import Frames
from weft.session import Actions, Event, Session, SessionKey
from weft.session.event import new_id, scope_of, without_temp
from weft.session.store import lease_session
from weft.values import Json, JsonObject

LARGEST_PAGE = 10_000
"""How many events or sessions one answer lists at most."""


class NewSession(Body, frozen=True):
    """A session that is to be made."""

    id: str | None = None
    user: str | None = None
    state: JsonObject = {}


class NewRun(Body, frozen=True):
    """A run that is to be started: with a message, with answers, or to go on."""

    message: str | Content | None = None
    user: str | None = None
    state: JsonObject | None = None
    answers: JsonObject | None = None
    retry: list[str] = []
    invocation_id: str | None = None
    request_id: str | None = None
    busy: Busy = "reject"
    stream: bool = True
    create: bool = False
    """Whether a session that does not exist is made."""


class Answers(Body, frozen=True):
    """Answers to questions by the ids of the calls."""

    answers: JsonObject
    user: str | None = None


class StateDelta(Body, frozen=True):
    """What is to be written to the state; null deletes a key."""

    delta: JsonObject
    user: str | None = None


class RewindTo(Body, frozen=True):
    """The invocation that is taken back, with all after it."""

    invocation_id: str
    user: str | None = None


class NewFork(Body, frozen=True):
    """A session that begins with the first events of another."""

    upto: int | None = None
    id: str | None = None
    user: str | None = None


async def list_apps(call: Call) -> Answer:
    """The apps that are served."""
    return respond([describe_app(runner) for runner in call.served.runners.values()])


def describe_app(runner: Runner) -> JsonObject:
    """What an app is."""
    root = runner.root
    return {
        "name": runner.app_name,
        "kind": "agent" if isinstance(root, Agent) else type(root).__name__.lower(),
        "description": root.description if isinstance(root, Agent) else "",
        "agents": [node.name for node, _ in walk_tree(root) if isinstance(node, Agent)],
    }


async def list_sessions(call: Call) -> Answer:
    """The sessions of an app, the latest first: of one user, or of all for the operator."""
    runner = call.runner()
    user = call.user_or_all()
    infos = await runner.store.sessions(runner.app_name, user)
    first, limit = call.number("first", 0), call.number("limit", 100, most=LARGEST_PAGE)
    active = {*runner.active}
    listed: list[JsonObject] = [
        {
            "id": info.key.id,
            "user": info.key.user_id,
            "events": info.events,
            "updated": info.last_update_time,
            "running": info.key in active,
        }
        for info in infos[first : first + limit]
    ]
    return respond({"sessions": listed, "total": len(infos)})


async def create_session(call: Call) -> Answer:
    """Make a session."""
    body = await call.body(NewSession, empty=NewSession())
    runner = call.runner()
    key = SessionKey(runner.app_name, call.user(body.user), require_id(body.id or new_id()))
    state = call.allowed_state(body.state)
    try:
        session = await runner.store.create(key, state=state)
    except StoreError as error:
        # the id is the client's: a store that works well refuses it
        if "exists" in error.message:
            raise Problem(409, "exists", f"the session `{key.id}` exists already") from None
        if error.where == "session key":
            raise invalid(error.message, hint=error.hint, where="/id") from None
        raise
    return respond(show_session(runner, session), 201)


async def get_session(call: Call) -> Answer:
    """One session: its state, what it waits for, and whether it is run."""
    runner, user, id = call.runner(), call.user(), call.path("session")
    # before it is read: a run that ends in between must not look cut off
    running = await call.served.is_running(runner, SessionKey(runner.app_name, user, id))
    session = await call.served.session(runner, user, id)
    return respond(show_session(runner, session, running=running))


def show_session(runner: Runner, session: Session, *, running: bool = False) -> JsonObject:
    """A session without its events."""
    return {
        "app": session.app_name,
        "user": session.user_id,
        "id": session.id,
        "events": len(session.events),
        "updated": session.last_update_time,
        "state": without_temp(session.state),
        "running": running,
        "status": _status(runner, session, running=running),
        "questions": questions_of(session),
    }


def _status(runner: Runner, session: Session, *, running: bool) -> str:
    """How the session's last run stands, in one word."""
    if running:
        return "running"
    if session.waiting:
        return "waiting"
    last = session.events[-1] if len(session.events) else None
    if last is None:
        return "new"
    if last.error_code:
        return last.error_code if last.error_code in ("cancelled", "interrupted") else "error"
    return "unfinished" if is_unfinished(runner.root, session) else "done"


async def delete_session(call: Call) -> Answer:
    """Stop the session's run, and forget the session."""
    runner, key = await call.find_session()
    await runner.delete(user_id=key.user_id, session_id=key.id)
    return Response(status_code=204)


async def start_run(call: Call) -> Answer:
    """Start a run, and answer at once; or stream its events, where the client accepts a stream."""
    body = await call.body(NewRun)
    runner, user, id = call.runner(), call.user(body.user), call.path("session")
    streams = call.wants_stream()
    if body.message is not None and (body.answers or body.retry):
        raise invalid("a run has either a message or answers", where="/answers")
    try:
        run = await call.served.start(
            runner,
            body.message,
            user=user,
            session=id,
            state=call.allowed_state(body.state) or None,
            answers=body.answers,
            retry=body.retry,
            invocation_id=_invocation_id(body),
            request_id=_request_id(call, body),
            busy=body.busy,
            stream=body.stream,
            follow=streams,
            create=body.create,
        )
    except Problem as problem:
        if problem.kind == "unknown-session" and body.message is not None:
            problem.hint = 'make it with POST /api/apps/APP/sessions, or send "create": true'
        raise
    return _answer_started_run(call, run, streams=streams)


def _invocation_id(body: NewRun) -> str | None:
    """The id of the run: of one to go on with, or the client's own for a new one."""
    id = body.invocation_id or None
    if id is not None and (not id.isprintable() or len(id) > LONGEST_ID):
        raise invalid(
            f"the id {id[:100]!r} cannot be shown",
            hint=f"use up to {LONGEST_ID} printable characters, or leave it out",
            where="/invocation_id",
        )
    return id


def _request_id(call: Call, body: NewRun) -> str | None:
    """The client's own id of the message, in the body or the header."""
    header = call.header(b"idempotency-key")
    id = body.request_id if body.request_id is not None else header
    if id is None:
        return None
    if header not in (None, id):
        raise invalid(
            "Idempotency-Key and request_id differ", hint="send one of them", where="/request_id"
        )
    try:
        return require_request_id(id, where="/request_id")
    except UsageError as error:
        raise invalid(error.message, hint=error.hint, where="/request_id") from None


def _answer_started_run(call: Call, run: ServedRun, *, streams: bool) -> Answer:
    if streams:
        return call.served.run_stream(call.identity, run, Frames(run.batches()))
    return respond(
        {
            "id": run.id,
            "session": run.session_id,
            "user": run.user_id,
            "after": run.after,
            "repeated": run.repeated,
        },
        202,
    )


async def cancel_run(call: Call) -> Answer:
    """Stop the session's run, in whichever process it is; a queued one is taken back."""
    runner, key = await call.find_session()
    return respond({"cancelled": await call.served.cancel(runner, key)})


async def get_events(call: Call) -> Answer:
    """Stored events after the first `after`; as a stream also those that come.

    A stream ends with the run that is under way; with `follow=true` it goes on for ever.
    """
    runner, user, id = call.runner(), call.user(), call.path("session")
    length = await call.served.require_session(runner, user, id)
    if not call.wants_stream():
        limit = call.number("limit", 1000, most=LARGEST_PAGE)
        key = SessionKey(runner.app_name, user, id)
        events = await runner.store.events(key, after=call.number("after", 0), limit=limit)
        data = b",".join([event.to_json() for event in events or ()])
        return respond_raw(b'{"events":[%b],"length":%d}' % (data, length))
    after = last_event_id(call)
    # a client that waits for an event which never comes would wait for ever
    if after > length:
        raise invalid(
            f"there is no event {after}: the session has {length}",
            hint="it was deleted and begun anew, perhaps: read from 0",
        )
    follow = call.query("follow") in ("true", "1")
    return call.stream(
        Frames(runner.batches(user_id=user, session_id=id, after=after, follow=follow))
    )


def last_event_id(call: Call) -> int:
    """Where the client was: what its browser says after a lost connection, or the address."""
    header = call.header(b"last-event-id")
    if header:
        number = whole_number(header)
        if number is None:
            raise invalid(f"Last-Event-ID {header[:40]!r} is not a number")
        return number
    return call.number("after", 0)


async def get_state(call: Call) -> Answer:
    """The state of a session."""
    session = await call.served.session(call.runner(), call.user(), call.path("session"))
    return respond(without_temp(session.state))


async def change_state(call: Call) -> Answer:
    """Write to the state between two runs, as an event of its own."""
    body = await call.body(StateDelta)
    session = await write_state(call, call.user(body.user), body.delta)
    return respond(without_temp(session.state))


async def write_state(call: Call, user: str, delta: JsonObject) -> Session:
    """The session with one more event, which writes to its state."""
    runner, id = call.runner(), call.path("session")
    await call.served.require_session(runner, user, id)
    delta = call.allowed_state(delta)
    for name in delta:
        if not name or scope_of(name) == "temp":
            raise invalid(
                f"{name[:100]!r} cannot be written between two runs",
                hint="`temp:` lives in one run: send it as its `state`; a key is a non-empty text",
                where="/delta",
            )
    key = SessionKey(runner.app_name, user, id)
    # the run under way alone writes to its session
    async with lease_session(runner.store, key, busy="reject"):
        # it is read under the lease: a run may have ended since the check above
        session = await call.served.session(runner, user, id)
        event = Event(author="user", invocation_id=new_id(), actions=Actions(state_delta=delta))
        return await runner.store.append(session, event)


async def list_artifacts(call: Call) -> Answer:
    """The artifacts of a session and of its user, with their versions."""
    runner, key = await call.find_session()
    names = await runner.artifacts.names(*key)
    return respond(
        [{"name": one, "versions": await runner.artifacts.versions(*key, one)} for one in names]
    )


async def get_artifact(call: Call) -> Answer:
    """One version of an artifact as a part of content; the newest by default."""
    runner, key = await call.find_session()
    version = call.number("version", 0) if call.query("version") else None
    name = call.path("name")
    part = await runner.artifacts.load(*key, name, version)
    if part is None:
        raise unknown_artifact(name)
    if call.query("raw") not in ("true", "1"):
        return respond(part)
    if part.inline_data is not None:
        try:
            data = base64_bytes(part.inline_data.data or "")
        except binascii.Error:
            raise invalid(
                f"the data of `{name[:100]}` is not base64",
                where="raw",
                hint="read it without `raw`",
            ) from None
    else:
        data = (part.text or "").encode("utf-8", "replace")
    # never as a page of ours: the bytes are somebody else's
    return Response(
        data,
        media_type="application/octet-stream",
        headers={"content-disposition": "attachment", "content-security-policy": "sandbox"},
    )


def questions_of(session: Session) -> list[Json]:
    """What a session waits for: each call with its arguments, and what kind of answer it wants."""
    return [_as_question(question) for question in pending_in(session)]


def _as_question(pending: Pending) -> JsonObject:
    question: JsonObject = {
        "id": pending.call_id,
        "name": pending.name,
        "kind": pending.kind,
        "args": pending.args,
        "question": pending.question,
        "asked": pending.asked_at,
    }
    if pending.expires is not None:
        question |= {"expires": pending.expires, "expired": pending.is_expired}
    return question


async def list_questions(call: Call) -> Answer:
    """What one session waits for."""
    session = await call.served.session(call.runner(), call.user(), call.path("session"))
    return respond(questions_of(session))


async def list_pending(call: Call) -> Answer:
    """What the sessions of an app wait for, the oldest first: of one user, or of all."""
    first, limit = call.number("first", 0), call.number("limit", LARGEST_PAGE, most=LARGEST_PAGE)
    questions = await call.runner().pending(user_id=call.user_or_all())
    answer = respond(
        [
            {"session": one.key.id, "user": one.key.user_id, "question": _as_question(one)}
            for one in questions[first : first + limit]
        ]
    )
    # the body is a list: how long it would be without the limit stands before it
    answer.headers["x-total-count"] = str(len(questions))
    return answer


async def answer_questions(call: Call) -> Answer:
    """Answer open questions, and let the run go on."""
    body = await call.body(Answers)
    runner, key = await call.find_session(body.user)
    if not body.answers:
        raise invalid("there are no answers", where="/answers")
    run = await call.served.start(
        runner, None, user=key.user_id, session=key.id, answers=body.answers
    )
    return _answer_started_run(call, run, streams=call.wants_stream())


async def rewind_session(call: Call) -> Answer:
    """Take the session back to before an invocation; nothing is deleted."""
    body = await call.body(RewindTo)
    runner, key = await call.find_session(body.user)
    # the rewind itself would wait for the run, and the client with it
    if await call.served.is_running(runner, key):
        raise SessionBusy("another run has the session", where=str(key))
    session = await runner.rewind(
        user_id=key.user_id, session_id=key.id, invocation_id=body.invocation_id
    )
    return respond(show_session(runner, session))


async def fork_session(call: Call) -> Answer:
    """Make a session that begins with the first events of this one."""
    body = await call.body(NewFork, empty=NewFork())
    runner, key = await call.find_session(body.user)
    to = require_id(body.id) if body.id else ""
    session = await runner.fork(user_id=key.user_id, session_id=key.id, upto=body.upto, to=to)
    return respond(show_session(runner, session), 201)


async def list_runs(call: Call) -> Answer:
    """The runs that are under way in this process."""
    own = call.identity.user
    return respond(
        [
            {"app": key.app_name, "user": key.user_id, "session": key.id}
            for runner in call.served.runners.values()
            for key in runner.active
            if own in (None, key.user_id)
        ]
    )


_ONE = "/api/apps/{app}/sessions/{session}"

ENDPOINTS = (
    Endpoint("GET", "/api/apps", list_apps, "The apps that are served.", tag="apps"),
    Endpoint("GET", "/api/runs", list_runs, "The runs under way.", tag="runs"),
    Endpoint(
        "GET", "/api/apps/{app}/sessions", list_sessions, "The sessions of an app.",
        queries=("user", "first", "limit"),
    ),
    Endpoint(
        "POST", "/api/apps/{app}/sessions", create_session, "Make a session.", NewSession,
        status=201,
    ),
    Endpoint(
        "GET", "/api/apps/{app}/pending", list_pending, "What sessions wait for.",
        tag="questions", queries=("user", "first", "limit"),
    ),
    Endpoint("GET", _ONE, get_session, "One session.", queries=("user",)),
    Endpoint("DELETE", _ONE, delete_session, "Delete a session.", status=204, queries=("user",)),
    Endpoint(
        "POST", f"{_ONE}/runs", start_run, "Start a run, or stream it.", NewRun, status=202,
        tag="runs",
    ),
    Endpoint("POST", f"{_ONE}/cancel", cancel_run, "Stop the run.", tag="runs", queries=("user",)),
    Endpoint(
        "GET", f"{_ONE}/events", get_events, "Stored events, or a stream of them.",
        queries=("user", "after", "limit", "follow"), tag="events",
    ),
    Endpoint("GET", f"{_ONE}/state", get_state, "The state.", queries=("user",)),
    Endpoint("PATCH", f"{_ONE}/state", change_state, "Write to the state.", StateDelta),
    Endpoint("GET", f"{_ONE}/artifacts", list_artifacts, "The artifacts.", queries=("user",)),
    Endpoint(
        "GET", f"{_ONE}/artifacts/{{name:path}}", get_artifact, "One artifact.",
        queries=("user", "version", "raw"),
    ),
    Endpoint(
        "GET", f"{_ONE}/questions", list_questions, "What the session waits for.",
        tag="questions", queries=("user",),
    ),
    Endpoint(
        "POST", f"{_ONE}/answers", answer_questions, "Answer questions, and go on.", Answers,
        status=202, tag="questions",
    ),
    Endpoint("POST", f"{_ONE}/rewind", rewind_session, "Take the session back.", RewindTo),
    Endpoint("POST", f"{_ONE}/fork", fork_session, "Copy its beginning.", NewFork, status=201),
)  # fmt: skip
