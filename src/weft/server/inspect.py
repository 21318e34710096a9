"""The inspector over HTTP: its page, and the JSON that the page draws.

Every answer is computed from the log; only `say`, `answer` and `fork` change something, and only
where the sessions have a runner. The gate of the application decides who may ask.
"""

import asyncio
import itertools
import json
import mimetypes
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Protocol, Unpack, runtime_checkable

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from weft import markup
from weft.declare.agent import every_agent
from weft.errors import SessionBusy, SessionError, UsageError, WeftError
from weft.inspector import Inspection, Variant, questions
from weft.inspector.answer import describe_answer, read_media
from weft.inspector.comparing import ChangedRun, run_again, set_side_by_side
from weft.inspector.diagnosis import diagnose, find_saving
from weft.inspector.export import LIBRARY, PAGE, SCRIPTS, STYLE, export_parts
from weft.inspector.inspection import REHEARSED
from weft.inspector.request import RequestView
from weft.inspector.sources import SessionSource, StoredSessions, key_text
from weft.inspector.trust import describe_trust
from weft.runtime import Runner
from weft.runtime.approvals import Approve, Deny
from weft.runtime.earlier import is_unfinished
from weft.server.access import Identity
from weft.server.endpoints import ApiRoute, Call
from weft.server.problems import problem_of
from weft.server.queued import RunWords
from weft.server.served import ServedApps
from weft.server.stream import EventStream
from weft.session import Actions, Event, SessionKey, Store
from weft.session.event import new_id
from weft.values import Json, JsonObject

PULSE = 0.5
"""Seconds between two looks at whether a session has grown."""

SILENCE = 15.0
"""Seconds after which a stream says that it is alive."""

REHEARSED_AFTER = 1.0
"""Seconds that a session must be quiet, with somebody looking, before it is rehearsed."""

_SLICE = 0.004
"""Seconds that a rehearsal works at a time; then it rests as long, and while anything runs."""

_LONGEST = 30.0
"""Seconds of work that a rehearsal of one session may take."""

LETTING_GO = 2.0
"""Seconds that a message waits for the session. A reader sees the last event of a run a moment
before the run lets go of its session, and may answer at once."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self';"
    " img-src 'self' data:; media-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""What the page may load: its own files, and nothing else."""

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@runtime_checkable
class Talk(Protocol):
    """Sessions that can be talked to: what a source with a runner also offers."""

    async def say(self, key: str, text: str) -> None:
        """Give the agent a message; the run goes on without a reader."""
        ...

    async def answer(self, key: str, call_id: str, answer: object) -> None:
        """Answer a question that is open."""
        ...

    async def fork(self, key: str, event: int, text: str, state: JsonObject) -> JsonObject:
        """Make a session of what came before an event, and go on with other words or state."""
        ...

    async def rerun(self, key: str, change: ChangedRun) -> JsonObject:
        """Run a session again with something changed, on recorded results; nothing is stored."""
        ...


class ServedSessions(StoredSessions):
    """The sessions of served apps that one user may see, and talk to."""

    def __init__(self, served: ServedApps, store: Store, identity: Identity) -> None:
        runners = [runner for runner in served.runners.values() if runner.store is store]
        super().__init__(
            store,
            {runner.app_name: runner.root for runner in runners},
            artifacts=runners[0].artifacts,
            files=tuple(dict.fromkeys(file for one in runners for file in _source_files(one))),
            configs={runner.app_name: runner.config for runner in runners},
            user=identity.user,
        )
        self._served = served

    async def say(self, key: str, text: str) -> None:
        """Give the agent a message; the run goes on without a reader."""
        await self._start(key, text, create=False)

    async def answer(self, key: str, call_id: str, answer: object) -> None:
        """Answer a question that is open."""
        await self._start(key, None, answers={call_id: answer})

    async def _start(self, key: str, text: str | None, **asked: Unpack[RunWords]) -> None:
        """Start a run, in a moment if another one is about to let go of the session."""
        place = self.key_of(key)
        runner = self._served.runner(place.app_name)
        until = time.monotonic() + LETTING_GO
        while True:
            try:
                await self._served.start(
                    runner, text, user=place.user_id, session=place.id, **asked
                )
                return
            except SessionBusy:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(0.02)

    async def fork(self, key: str, event: int, text: str, state: JsonObject) -> JsonObject:
        """Make a session of what came before an event, and go on with other words or state.

        Without words the run that was under way at that event goes on.
        """
        place = self.key_of(key)
        runner = self._served.runner(place.app_name)
        # before the copy is made: a fork that cannot be run leaves no session behind
        await self._served.require_room(place.app_name, place.user_id)
        session = await runner.fork(user_id=place.user_id, session_id=place.id, upto=event)
        # no run takes the state with a message, so it is written by itself
        if not text and state:
            last = session.events.tip
            written = Event(
                author="user",
                invocation_id=last.invocation_id if last is not None else new_id(),
                actions=Actions(state_delta=state),
            )
            session = await runner.store.append(session, written)
        if text or is_unfinished(runner.root, session):
            await self._served.start(
                runner,
                text or None,
                user=place.user_id,
                session=session.id,
                state=state if text and state else None,
            )
        new = SessionKey(place.app_name, place.user_id, session.id)
        return {"key": key_text(new), "id": session.id}

    async def rerun(self, key: str, change: ChangedRun) -> JsonObject:
        """Run a session again with something changed, on recorded results; nothing is stored."""
        place, inspection = self.key_of(key), await self.inspection(key)
        # a run costs what a message costs
        await self._served.require_room(place.app_name, place.user_id)
        root, session, parted = await run_again(
            inspection.root, inspection.session, change, config=inspection.config
        )

        def draw() -> JsonObject:
            with inspection.lock:
                other = inspection.anew(session, root=root)
                difference = set_side_by_side(inspection, other)
                films = {"now": inspection.film(), "then": other.film()}
            return {**films, "difference": difference, "parted": parted}

        return await asyncio.to_thread(draw)


class ServedSources:
    """The sources of a server: one for each store and user, kept with what they rebuilt."""

    def __init__(self, served: ServedApps) -> None:
        self._served = served
        self._sources: dict[Identity, SessionSource | SeveralStores] = {}

    def __call__(self, request: Request) -> "SessionSource | SeveralStores":
        """The sessions that the caller may see."""
        identity: Identity = request.scope["weft.identity"]
        source = self._sources.get(identity)
        if source is None:
            stores = self._served.stores
            parts = [ServedSessions(self._served, store, identity) for store in stores]
            source = parts[0] if len(parts) == 1 else SeveralStores(parts)
            # the oldest goes: rebuilt sessions take memory
            while len(self._sources) >= _USERS:
                self._sources.pop(next(iter(self._sources)))
            self._sources[identity] = source
        return source


class SeveralStores:
    """Sessions in several stores; the app of a session says which store has it."""

    def __init__(self, parts: Sequence[ServedSessions]) -> None:
        self._parts = parts

    async def sessions(self, search: str = "") -> list[Json]:
        """Those of all stores."""
        return [row for part in self._parts for row in await part.sessions(search)]

    def notices(self) -> list[str]:
        """What the lists do not have."""
        return [one for part in self._parts for one in part.notices()]

    def part(self, key: str) -> ServedSessions:
        """The store that has the session of that key."""
        app = self._parts[0].key_of(key).app_name if key else ""
        return next((part for part in self._parts if app in part.programs), self._parts[0])


_USERS = 64
"""For how many users rebuilt sessions are kept."""


def _source_files(runner: Runner) -> list[str]:
    """The sources in which the agents of a runner may be declared: those of its tools' modules."""
    modules = {
        getattr(tool.function, "__module__", "")
        for agent in every_agent(runner.root)
        for tool in agent.tools
        if tool.function is not None
    }
    files = [getattr(sys.modules.get(name), "__file__", None) for name in sorted(modules)]
    return [file for file in files if isinstance(file, str)]


def inspector_routes(
    served: ServedApps, source: Callable[[Request], SessionSource | SeveralStores]
) -> list[Route]:
    """The routes of the inspector; `source` finds the sessions that a caller may see."""
    answers: dict[str, _Answer] = {
        "film": _film,
        "event": _event,
        "diagnosis": lambda inspection, _: diagnose(inspection),
        "answer": lambda inspection, asked: describe_answer(inspection, _count(asked, "step")),
        "media": lambda inspection, asked: read_media(
            inspection, _text(asked, "event"), _count(asked, "part")
        ),
        "ghosts": lambda inspection, _: inspection.ghosts(),
        "request": lambda inspection, asked: _view(inspection, asked).to_json(),
        "cache": lambda inspection, asked: _view(inspection, asked).cache(),
        "what-if": lambda inspection, asked: questions.what_if(
            inspection, _count(asked, "step"), _variant(asked)
        ),
        "compare": _compare,
        "force": lambda inspection, asked: questions.force_in(
            inspection, _count(asked, "step"), _text(asked, "events").split(",")
        ),
        "bisect": lambda inspection, asked: questions.bisect(inspection, _text(asked, "text")),
        "dead-weight": lambda inspection, _: questions.dead_weight(inspection),
        "trust": lambda inspection, _: describe_trust(inspection),
        "receipt": lambda inspection, _: inspection.receipt().to_json(),
        "picture": lambda inspection, _: questions.picture(inspection),
        "test": _test,
        "saving": _saving,
    }
    actions: dict[str, _Action] = {
        "say": _say,
        "answer": _answer,
        "fork": _fork,
        "rerun": _rerun,
    }
    asking = 0

    def is_busy() -> bool:
        return asking > 0 or served.active > 0

    def find_source(request: Request, name: str = "session") -> SessionSource:
        """The sessions among which the one is that the request names."""
        asked = source(request)
        if isinstance(asked, SeveralStores):
            return asked.part(request.query_params.get(name, ""))
        return asked

    async def sessions(request: Request) -> Response:
        words = request.query_params.get("search", "")[:200]
        return _json(await source(request).sessions(words))

    async def notices(request: Request) -> Response:
        return _json([*source(request).notices()])

    def bind_answer(answer: "_Answer") -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            nonlocal asking
            asked = find_source(request)
            asking += 1
            try:
                inspection = await asked.inspection(_text(request, "session"))
                if answer is _compare and (other := request.query_params.get("other")):
                    request.state.other = await find_source(request, "other").inspection(other)
                # Rebuilding a long session takes a while, and other requests go on meanwhile.
                # A saving is compiled step by step, and takes the lock itself.
                ask = answer if answer is _saving else _ask_locked(answer)
                value = await asyncio.to_thread(ask, inspection, request)
            finally:
                asking -= 1
            if answer is _film and isinstance(value, dict):
                value["can_chat"] = value["can_fork"] = isinstance(asked, Talk)
            return _json(value)

        return endpoint

    def bind_action(action: "_Action") -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            asked = find_source(request)
            if not isinstance(asked, Talk):
                raise UsageError(
                    "these sessions can only be looked at",
                    where="inspector",
                    hint="serve the agent: weft serve pkg.module:agent",
                )
            return _json(await action(asked, Call(served, request.scope, request.receive)))

        return endpoint

    async def export_session(request: Request) -> Response:
        key, raw = _text(request, "session"), _switch(request, "raw")
        inspection = await find_source(request).inspection(key)
        parts = export_parts(inspection, key=key, raw=raw)
        # the first part comes when all is drawn: what fails, fails before the answer begins
        first = await asyncio.to_thread(next, parts, "")
        id, mask = inspection.session.id, None if raw else inspection.mask
        id = mask.text(id) if mask is not None else id
        name = "".join(c if c.isalnum() else "-" for c in id)[:60]
        disposition = f'attachment; filename="{name}.html"'
        headers = {**_HEADERS, "Content-Disposition": disposition}
        return StreamingResponse(
            itertools.chain((first,), parts), media_type="text/html", headers=headers
        )

    async def live(request: Request) -> Response | EventStream:
        asked, key = find_source(request), _text(request, "session")
        after = _count(request, "after")
        if await asked.length(key) is None:
            raise SessionError(
                "there is no such session", where="inspector", hint="the list shows those there are"
            )
        identity: Identity = request.scope["weft.identity"]
        return served.event_stream(identity, _growth(asked, key, after, is_busy))

    api = "/inspect/api"
    routes: list[Route] = [
        ApiRoute("/", _page_file, methods=["GET"]),
        *(ApiRoute(f"/{name}", _page_file, methods=["GET"]) for name in (STYLE, LIBRARY, *SCRIPTS)),
        ApiRoute(f"{api}/sessions", sessions, methods=["GET"]),
        ApiRoute(f"{api}/notices", notices, methods=["GET"]),
        ApiRoute(f"{api}/export", export_session, methods=["GET"]),
        ApiRoute(f"{api}/live", live, methods=["GET"]),
        *(
            ApiRoute(f"{api}/{name}", bind_answer(one), methods=["GET"])
            for name, one in answers.items()
        ),
        *(
            ApiRoute(f"{api}/{name}", bind_action(one), methods=["POST"])
            for name, one in actions.items()
        ),
    ]
    for route in routes:
        route.app = _with_problems(route.app)
    return routes


def _with_problems(inner: ASGIApp) -> ASGIApp:
    """An error as a problem document; a session that is not there is a 404."""

    async def answer_or_refuse(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await inner(scope, receive, send)
        except Exception as error:
            problem = problem_of(error)
            if isinstance(error, SessionError) and error.message.startswith("there is no"):
                problem.status, problem.kind = 404, "unknown-session"
            await problem.response()(scope, receive, send)

    return answer_or_refuse


_Answer = Callable[[Inspection, Request], Json]
_Action = Callable[[Talk, Call], Awaitable[Json]]


def _ask_locked(answer: _Answer) -> _Answer:
    """An answer that nobody else compiles meanwhile: answers are made in threads."""

    def ask(inspection: Inspection, request: Request) -> Json:
        with inspection.lock:
            return answer(inspection, request)

    return ask


def _compare(inspection: Inspection, request: Request) -> Json:
    """The session next to another one, or next to itself under a variant."""
    if not request.query_params.get("other"):
        return questions.compare(inspection, _variant(request))
    other: Inspection = request.state.other
    difference = set_side_by_side(inspection, other)
    return {"now": inspection.film(), "then": other.film(), "difference": difference, "code": ""}


def _saving(inspection: Inspection, request: Request) -> Json:
    return find_saving(inspection)


async def _page_file(request: Request) -> Response:
    """A file of the page. The routes name them one by one, so no path leads elsewhere."""
    name = request.url.path.removeprefix(request.scope.get("root_path", "")).lstrip("/")
    file = PAGE
    for part in (name or "index.html").split("/"):
        file = file / part
    kind = mimetypes.guess_type(name or "index.html")[0] or "text/html"
    headers = {**_HEADERS, "Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
    return Response(file.read_bytes(), media_type=kind, headers=headers)


def token_page() -> Response:
    """What a browser shows that was not opened at the printed address: where the token is."""
    body = (
        "<h1>This page needs its token</h1>",
        "<p>The command that started the server printed an address that ends with"
        " <code>?token=…</code>. Open that one. The browser then keeps the token.</p>",
        "<p>A server that was started again has a new token.</p>",
        '<form method="get"><label>Or paste the token here: <input name="token" type="password"'
        ' autocomplete="off" required></label> <button>open</button></form>',
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"
    headers = {
        **_HEADERS,
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "WWW-Authenticate": "Bearer",
    }
    return HTMLResponse(markup.page("Weft inspector: token", "", body), 401, headers=headers)


def _film(inspection: Inspection, request: Request) -> Json:
    return inspection.film()


def _event(inspection: Inspection, request: Request) -> Json:
    index, events = _count(request, "index"), inspection.session.events
    if index >= len(events):
        raise UsageError(
            f"there is no event {index}",
            where=f"session {inspection.session.id}",
            hint=f"events count from 0, and there are {len(events)}",
        )
    event = msgspec.json.decode(events[index].to_json(), type=JsonObject)
    # as it is stored: also what the agents hide, but not what the reader wants hidden
    return event if inspection.request_mask is None else inspection.request_mask.value(event)


def _view(inspection: Inspection, request: Request) -> RequestView:
    return RequestView(inspection, _count(request, "step"))


def _test(inspection: Inspection, request: Request) -> Json:
    step, variant = _count(request, "step"), _variant(request)
    target = request.query_params.get("target", "")
    return {"text": questions.as_test(inspection, step, variant, target=target)}


async def _say(talk: Talk, call: Call) -> Json:
    body = await call.body(JsonObject)
    text = body.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UsageError("there is no message", where="say", hint='send {"text": "..."}')
    await talk.say(_text(call.request, "session"), text)
    return {"said": True}


async def _answer(talk: Talk, call: Call) -> Json:
    body = await call.body(JsonObject)
    id, approve, reason = body.get("id"), body.get("approve"), body.get("reason", "")
    answer: object = body.get("value")
    if isinstance(approve, bool) and isinstance(reason, str):
        answer = Approve() if approve else Deny(reason)
    if not isinstance(id, str) or answer is None:
        raise UsageError(
            "this answers no question",
            where="answer",
            hint='send {"id": "...", "approve": true}, or false with a "reason", or a "value"',
        )
    await talk.answer(_text(call.request, "session"), id, answer)
    return {"answered": True}


async def _fork(talk: Talk, call: Call) -> Json:
    request, body = call.request, await call.body(JsonObject)
    text, state = body.get("text", ""), body.get("state") or {}
    if not isinstance(text, str) or not isinstance(state, dict):
        raise UsageError(
            "this forks nothing",
            where="fork",
            hint='send {"text": "...", "state": {"key": "value"}}; both may be left out',
        )
    key, event = _text(request, "session"), _count(request, "event")
    return await talk.fork(key, event, text, call.allowed_state(state))


async def _rerun(talk: Talk, call: Call) -> Json:
    body = await call.body(JsonObject)
    fields = {name: body.get(name, "") for name in ChangedRun._fields}
    words = {name: value for name, value in fields.items() if isinstance(value, str)}
    if len(words) < len(fields) or not (words["instruction"] or words["policy"] or words["model"]):
        raise UsageError(
            "nothing is changed",
            where="rerun",
            hint='send {"instruction": "...", "agent": "..."}, a "policy" or a "model"',
        )
    return await talk.rerun(_text(call.request, "session"), ChangedRun(**words))


async def _growth(
    source: SessionSource, key: str, after: int, is_busy: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Says `grown` when the session has more events, and `gone` when it is deleted.

    While somebody looks and nothing happens, the session is rehearsed.
    """
    quiet = 0.0
    rehearsal: asyncio.Task[None] | None = None
    try:
        while True:
            length = await source.length(key)
            if length is None:
                yield b"event: gone\ndata: {}\n\n"
                return
            if length != after:
                after, quiet = length, 0.0
                if rehearsal is not None:
                    rehearsal.cancel()
                    rehearsal = None
                yield f"id: {length}\nevent: grown\ndata: {length}\n\n".encode()
            elif quiet >= SILENCE:
                quiet = 0.0
                yield b": still here\n\n"
            if rehearsal is None and quiet >= REHEARSED_AFTER:
                rehearsal = asyncio.create_task(_rehearse(source, key, is_busy))
            await asyncio.sleep(PULSE)
            quiet += PULSE
    finally:
        if rehearsal is not None:
            rehearsal.cancel()


async def _rehearse(source: SessionSource, key: str, is_busy: Callable[[], bool]) -> None:
    """Compile a session under the policies that people try, so that the first to ask waits less.

    It works next to the loop, a little at a time, and waits while anybody asks or runs. It goes on
    until it is cancelled; what was made is kept as long as anybody else looks.
    """
    try:
        inspection = await source.inspection(key)
    except WeftError:
        return  # it was deleted meanwhile, or the store fails: the next request says so
    spent = 0.0
    with inspection.watch():
        for policy in REHEARSED:
            variant = Variant(policy=policy)
            walk = itertools.chain(inspection.rehearse(variant), inspection.explain_last(variant))
            done = False
            while not done and spent < _LONGEST:
                # nobody who asks or runs waits for a rehearsal
                if is_busy():
                    await asyncio.sleep(PULSE / 10)
                    continue
                begun = time.monotonic()
                done = await asyncio.to_thread(_walk_on, walk)
                took = time.monotonic() - begun
                spent += took
                # it rests as long as it worked: half of one core at most
                await asyncio.sleep(took)
        # what was rehearsed is kept until nobody looks any more
        await asyncio.Event().wait()


def _walk_on(walk: Iterator[object]) -> bool:
    """Take some steps of a rehearsal; whether it is at its end."""
    until = time.monotonic() + _SLICE
    try:
        for _ in walk:
            if time.monotonic() >= until:
                return False
    except WeftError:
        return True  # a program that cannot be compiled like this: the next request says so
    return True


def _variant(request: Request) -> Variant:
    get = request.query_params.get
    return Variant(
        get("policy", ""), _count(request, "window"), _count(request, "budget"), get("model", "")
    )


def _text(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if not text:
        raise UsageError(f"`{name}` is missing", where="inspector", hint=f"add ?{name}=...")
    return text


def _switch(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "") or "false"
    if text not in ("true", "false"):
        raise UsageError(
            f"`{name}` is neither true nor false: {text[:40]!r}",
            where="inspector",
            hint=f"write ?{name}=true, or leave it out",
        )
    return text == "true"


def _count(request: Request, name: str) -> int:
    text = request.query_params.get(name, "") or "0"
    # longer numbers are refused before they are read: no event has such a number
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"`{name}` is not a number: {text[:40]!r}", where="inspector")
    return int(text)


def _json(value: Json) -> Response:
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can write
        body = json.dumps(value).encode()
    return Response(body, media_type="application/json", headers=_HEADERS)
