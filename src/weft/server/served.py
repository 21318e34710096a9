"""What a server serves: its apps with their runners, the runs under way, and the open streams."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Literal, Unpack

import msgspec

from weft.content import Content, ContentLike
from weft.declare import RunConfig
from weft.declare.tool import Tool
from weft.errors import SessionError, UsageError, WeftError
from weft.misuse import join_few, suggest_names
from weft.runtime import Runner
from weft.runtime.background import RunEnd, StartedRun
from weft.runtime.costs import tokens_of
from weft.runtime.metrics import Metrics, end_of_wait, model_names
from weft.runtime.runner import RunExtension
from weft.server.access import Identity, Limits
from weft.server.problems import Problem, invalid, require_id, unknown_app, unknown_session
from weft.server.queued import QueuedRun, RunWords, cancel_waiting, queue_run
from weft.server.quotas import (
    QueueDepth,
    QuotaBook,
    Quotas,
    Reservation,
    overload_problem,
    stored_tokens,
)
from weft.server.stream import ChunkStream, DeadlineWatch, EventStream
from weft.session import Session, SessionKey, Store
from weft.session.event import new_id
from weft.turns import Turns
from weft.turns.databases import QueueDatabase
from weft.turns.turn import ClientTool, left_to_the_client
from weft.turns.worker import queue_database, served_apps, worker_name
from weft.values import Json, JsonObject

_log = logging.getLogger("weft.server")

Busy = Literal["queue", "reject", "interrupt"]

ServedRun = StartedRun | QueuedRun
"""A run of this process, or one that a worker has."""


class ServedApps:
    """The runners of an application by the name of their app."""

    def __init__(
        self,
        runners: Sequence[Runner],
        *,
        limits: Limits,
        recover: float,
        turns: Turns | None = None,
        quotas: Quotas | None = None,
        extend: Callable[[Session], RunExtension] | None = None,
    ) -> None:
        self.runners: dict[str, Runner] = {}
        for runner in runners:
            if runner.app_name in self.runners:
                raise UsageError(
                    f"two apps are called `{runner.app_name}`",
                    where="app",
                    hint='give one another name: Runner(agent, app_name="...")',
                )
            self.runners[runner.app_name] = runner
        self._models = {
            app: model_names(runner.root, runner.config) for app, runner in self.runners.items()
        }
        self.limits = limits
        self.turns = turns
        """The queue of turns, where workers run them and not this process."""
        stores = [runner.store for runner in self.runners.values()]
        self.quotas = QuotaBook(quotas if quotas is not None else Quotas(), stores)
        self.quotas.quotas.require_apps(self.runners)
        self.queue_depth = QueueDepth(turns, self.runners) if turns is not None else None
        self.metrics = Metrics()
        self.is_stopping = False
        self.watch = DeadlineWatch()
        """The streams that are open, and the bodies that arrive."""
        self.open_streams = 0
        self.streams: dict[str, int] = {}
        """Open streams by user."""
        self._configs: dict[tuple[int, Busy, bool], tuple[RunConfig, RunConfig]] = {}
        self._recover = recover
        self._extend = extend
        """What a run that is gone on with had for itself, from the notes in its log."""
        self._runs: set[StartedRun] = set()
        self.starting = 0
        """Runs that were let in, and are not open yet."""
        self._watched: set[QueuedRun] = set()
        self._counting: set[asyncio.Task[None]] = set()
        self._recovering: asyncio.Task[None] | None = None
        self._workers: QueueDatabase | None = None
        """Where workers say that they live, once somebody has asked."""

    def start_up(self) -> None:
        """Go on with what an earlier process left unfinished; once."""
        # with a queue the workers go on with what was cut off
        if self._recovering is None and self._recover and self.turns is None:
            self._recovering = asyncio.get_running_loop().create_task(self._recover_all())

    def stop_streams(self) -> None:
        """End all streams, and refuse new runs."""
        self.is_stopping = True
        self.watch.stop()

    async def shut_down(self, grace: float) -> None:
        """Let runs end for `grace` seconds, and leave the others to the next process."""
        self.stop_streams()
        if self._recovering is not None:
            self._recovering.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*self._runs, return_exceptions=True)
        for queued in self._watched:
            queued.stop_watching()
        # what runs used is counted before the stores are closed
        if self._counting:
            await asyncio.wait(self._counting)
        await self.quotas.close()
        if self.turns is not None:
            await self.turns.close()
        if self._workers is not None:
            await self._workers.close()
        closed: set[int] = set()
        for runner in self.runners.values():
            # two apps may share one runner
            if id(runner) not in closed:
                closed.add(id(runner))
                await runner.close()

    @property
    def active(self) -> int:
        """How many runs are under way."""
        return len(self._runs)

    def runner(self, app: str) -> Runner:
        """The runner of an app, or a problem."""
        runner = self.runners.get(app)
        if runner is None:
            problem = unknown_app(app)
            problem.hint = (
                suggest_names(app, self.runners) or f"served here: {join_few(self.runners)}"
            )
            raise problem
        return runner

    @property
    def stores(self) -> list[Store]:
        """The stores of the apps, each once."""
        return list({id(r.store): r.store for r in self.runners.values()}.values())

    async def apps_without_worker(self) -> list[str]:
        """The apps whose turns wait in a queue, and that no living worker has."""
        if self.turns is None:
            return []
        if self._workers is None:
            store = self.stores[0]
            self._workers = queue_database(store, worker_name(store))
            await self._workers.open()
        apps = await served_apps(self._workers)
        return [app for app in self.runners if app not in apps]

    async def session(self, runner: Runner, user: str, id: str) -> Session:
        """A session, or a problem that says nothing of those of others."""
        session = await runner.store.get(SessionKey(runner.app_name, user, id))
        if session is None:
            raise unknown_session(id)
        return session

    async def require_session(self, runner: Runner, user: str, id: str) -> int:
        """How many events a session has, or a problem."""
        key = SessionKey(runner.app_name, user, id)
        length = (await runner.store.lengths([key])).get(key)
        if length is None:
            raise unknown_session(id)
        return length

    async def is_running(self, runner: Runner, key: SessionKey) -> bool:
        """Whether a run has the session, in whichever process: a worker's, or another server's."""
        return key in runner.active or await runner.store.holder(key) is not None

    async def cancel(self, runner: Runner, key: SessionKey) -> bool:
        """Stop the session's run in whichever process it is, or take it out of the queue."""
        if await runner.cancel(user_id=key.user_id, session_id=key.id):
            return True
        return self.turns is not None and await cancel_waiting(
            self.turns, key, most=self.limits.waiting
        )

    async def start(
        self,
        runner: Runner,
        message: ContentLike | None,
        *,
        user: str,
        session: str | None,
        tools: Sequence[object] = (),
        output_schema: JsonObject | None = None,
        config: RunConfig | None = None,
        busy: Busy = "reject",
        stream: bool = True,
        **asked: Unpack[RunWords],
    ) -> ServedRun:
        """Start a run; what is wrong with it is raised here, before any of it is streamed."""
        if self.is_stopping:
            raise Problem(503, "stopping", "the server is stopping", headers={"retry-after": "5"})
        await self._require_capacity(runner.app_name)
        async with self._admit_run(runner.app_name, user) as reservation:
            # only a new session must have a name that is fit for addresses
            if message is not None and session and asked.get("create", True):
                require_id(session)
            if isinstance(message, Content):
                _require_media(message)
            if self.turns is not None:
                if tools or output_schema is not None:
                    # what is wrong with them is said before they are put
                    runner.extended(tools, output_schema)
                queued = await queue_run(
                    self.turns,
                    runner,
                    message,
                    SessionKey(runner.app_name, user, session or new_id()),
                    busy=busy,
                    options=_queued_options(runner.config, config),
                    tools=_queued_tools(tools),
                    output_schema=output_schema,
                    stream=stream,
                    **asked,
                )
                self._follow(queued, reservation)
                return queued
            chosen = config if config is not None else runner.config
            try:
                run = await runner.start(
                    message,
                    user_id=user,
                    session_id=session,
                    tools=tools,
                    output_schema=output_schema,
                    config=self._make_config(chosen, busy, stream=stream),
                    **asked,
                )
            except SessionError as error:
                # the runtime's hint names other sessions and users: a client must not see those
                if error.message.startswith("there is no session"):
                    raise unknown_session(session or "") from None
                raise
            self.note(runner, run, reservation)
            return run

    async def require_room(self, app: str, user: str) -> None:
        """Refuse a run while the server has too much to do, or a quota leaves no room.

        `start` asks too. Who writes to the store before it asks here first.
        """
        await self._require_capacity(app)
        problem = await self.quotas.problem_of(app, user)
        if problem is not None:
            self._count_refusal(app, problem)
            raise problem

    async def _require_capacity(self, app: str) -> None:
        """Refuse a run while the server has too much to do for anybody."""
        limits, problem = self.limits, None
        if self.queue_depth is not None:
            if (waiting := await self.queue_depth.waiting()) >= limits.waiting:
                problem = overload_problem(
                    "waiting", limits.waiting, waiting, f"{waiting} turns wait in the queue"
                )
        elif (busy := len(self._runs) + self.starting) >= limits.runs:
            problem = overload_problem("runs", limits.runs, busy, f"{busy} runs are under way")
        if problem is not None:
            self._count_refusal(app, problem)
            raise problem

    @asynccontextmanager
    async def _admit_run(self, app: str, user: str) -> AsyncGenerator[Reservation, None]:
        """The room of a run that begins in the block; it is given back if none begins."""
        depth = self.queue_depth
        self.starting += 1  # first: others ask while this one waits for the store
        if depth is not None:
            depth.add(1)
        reservation: Reservation | None = None
        try:
            reservation = await self.quotas.admit(app, user)
            yield reservation
        except BaseException as error:
            if depth is not None:
                depth.add(-1)
            if reservation is not None:
                reservation.give_back()
            elif isinstance(error, Problem):
                self._count_refusal(app, error)
            raise
        finally:
            self.starting -= 1

    def _count_refusal(self, app: str, problem: Problem) -> None:
        """Count that somebody was sent away."""
        limit, holder = str(problem.members["limit"]), str(problem.members["of"])
        self.metrics.count("weft_refusals_total", app=app, limit=limit, of=holder)

    def _follow(self, run: QueuedRun, reservation: Reservation) -> None:
        """Keep the room of a run in the queue until a worker has ended it."""
        if run.repeated:
            reservation.give_back()
            if self.queue_depth is not None:
                self.queue_depth.add(-1)
            return
        # nobody counts its tokens or its end: it need not be watched
        if not reservation.needs_end:
            reservation.end(0)
            return
        self._watched.add(run)

        def note_end(_: RunEnd | BaseException) -> None:
            self._watched.discard(run)
            reservation.end(run.tokens)

        run.when_done(note_end)

    def _make_config(self, config: RunConfig, busy: Busy, *, stream: bool) -> RunConfig:
        """The config of a run; that of all runs is made once."""
        key = (id(config), busy, stream)
        known = self._configs.get(key)
        if known is not None and known[0] is config:
            return known[1]
        # a quota and a client want the tokens, whether or not the provider counts them
        changed = msgspec.structs.replace(config, busy=busy, stream=stream, count_tokens=True)
        # a config made for one request must not stay in the table
        if any(config is runner.config for runner in self.runners.values()):
            self._configs[key] = (config, changed)
        return changed

    def note(self, runner: Runner, run: StartedRun, reservation: Reservation) -> None:
        """Count a run that was started, and again when it is over."""
        if run.repeated:  # the message was counted when it came first
            reservation.give_back()
        self._runs.add(run)
        run.when_done(partial(self._note_end, runner, run, reservation, time.monotonic()))

    def _note_end(
        self,
        runner: Runner,
        run: StartedRun,
        reservation: Reservation,
        begun: float,
        end: RunEnd | BaseException,
    ) -> None:
        self._runs.discard(run)
        seconds = time.monotonic() - begun
        if not isinstance(end, RunEnd):
            handed_over = isinstance(end, asyncio.CancelledError)
            if handed_over or not reservation.needs_end:
                reservation.end(0)  # handed over: the next process counts the rest
            else:
                self._end_from_log(runner, run, reservation)
            word = "handed_over" if handed_over else "failed"
            self.metrics.note_run(runner.app_name, seconds, word)
            return
        error = end.error
        reservation.end(tokens_of(end.usage) or 0 if reservation.needs_end else 0)
        if error is None:
            word = end_of_wait(end.events) if end.is_waiting else "done"
        elif error.error_code in ("cancelled", "interrupted"):
            word = error.error_code
        else:
            word = "error"
        models = self._models[runner.app_name]
        self.metrics.note_run(runner.app_name, seconds, word, end.events, models)

    def _end_from_log(self, runner: Runner, run: StartedRun, reservation: Reservation) -> None:
        """End the reservation of a run without a result: what it used stands in its log."""

        async def count() -> None:
            tokens = 0
            try:
                tokens = await stored_tokens(runner.store, run.key, run.id, run.after)
            except WeftError as error:
                _log.warning("the tokens of the run %s are not counted: %s", run.id, error)
            finally:
                reservation.end(tokens)

        task = asyncio.get_running_loop().create_task(count())
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)

    def run_stream(
        self,
        identity: Identity,
        run: ServedRun,
        chunks: ChunkStream,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> EventStream:
        """The answer that streams the events of a run."""
        try:
            return self.event_stream(identity, chunks, headers)
        except Problem:
            # too many streams: the run goes on, but nobody reads it
            run.unfollow()
            raise

    def event_stream(
        self, identity: Identity, chunks: ChunkStream, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> EventStream:
        """The answer that streams, unless too many are open."""
        name, limits = identity.name, self.limits
        own = self.streams.get(name, 0)
        if self.open_streams >= limits.streams:
            raise Problem(
                429, "streams", f"{limits.streams} streams are open", headers={"retry-after": "1"}
            )
        if own >= limits.streams_of_user:
            raise Problem(
                429,
                "streams",
                f"you have {limits.streams_of_user} open streams",
                hint="close one",
                headers={"retry-after": "1"},
            )
        self.streams[name] = own + 1
        self.open_streams += 1
        closed = partial(self._note_closed, name)
        return EventStream(
            chunks, headers=headers, watch=self.watch, stalled=limits.stalled, closed=closed
        )

    def _note_closed(self, name: str) -> None:
        self.open_streams -= 1
        self.streams[name] -= 1
        if not self.streams[name]:
            del self.streams[name]

    async def _recover_all(self) -> None:
        since = time.time() - self._recover
        for runner in self.runners.values():
            try:
                counting = msgspec.structs.replace(runner.config, count_tokens=True)
                runs = await runner.recover(since=since, config=counting, extend=self._extend)
            except WeftError as error:
                _log.error("unfinished runs of %s were not resumed: %s", runner.app_name, error)
                continue
            for run in runs:
                _log.warning("the run %s of %s goes on after a restart", run.id, run.key)
                self.note(runner, run, self.quotas.resume(runner.app_name, run.user_id))


def _queued_options(usual: RunConfig, config: RunConfig | None) -> Mapping[str, Json]:
    """What a request asks of the model, as it goes with a turn; the rest is its worker's."""
    if config is None or config == usual:
        return {}
    # a worker has the config of its own runner, so another one would be dropped in silence
    if msgspec.structs.replace(config, generate_config=usual.generate_config) != usual:
        raise invalid(
            "of a single request, only options of the model can go through a queue",
            hint="leave the others out, or serve without --queue and --workers",
        )
    return config.generate_config


def _queued_tools(tools: Sequence[object]) -> tuple[ClientTool, ...]:
    """The tools of a request that its client runs, as they go with a turn."""
    queued: list[ClientTool] = []
    for tool in tools:
        if not isinstance(tool, Tool) or tool.function is not left_to_the_client:
            raise invalid(
                "a function cannot go through a queue to be run by a worker",
                hint="give the tool to the agent, or serve without --queue and --workers",
            )
        queued.append(ClientTool(tool.name, tool.description, dict(tool.parameters or {})))
    return tuple(queued)


_BASE64 = re.compile(r"[A-Za-z0-9+/_\s-]*={0,2}\s*")


def _require_media(message: Content) -> None:
    """Refuse media that cannot be decoded: a provider would, later and in other words."""
    for at, part in enumerate(message.parts or ()):
        media = part.inline_data
        if media is not None and not _BASE64.fullmatch(media.data or ""):
            raise invalid("the data is not base64", where=f".message.parts[{at}].inlineData.data")
