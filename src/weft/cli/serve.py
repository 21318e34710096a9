"""`weft serve`, agents over HTTP until Ctrl-C; `weft worker`, which takes turns from a queue."""

import asyncio
import importlib.util
import ipaddress
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import TYPE_CHECKING, TextIO, cast

import msgspec

from weft.cli.inputs import without_password
from weft.cli.load import app_of, load_node, require_folder
from weft.cli.options import CommandOptions, LogForm
from weft.declare import RunConfig
from weft.errors import UsageError, describe_kind
from weft.runtime import Runner
from weft.runtime.program import Plugin
from weft.stores import open_store

if TYPE_CHECKING:
    from weft.server.access import Authenticate, Limits, Tokens
    from weft.server.application import Application
    from weft.server.quotas import Quotas


_STORE = "WEFT_STORE"
"""The variable that tells workers which the server's store is."""


def serve_command(options: CommandOptions) -> int:
    """Serve the targets; the exit code is 0 after Ctrl-C or SIGTERM."""
    auth = _auth(options)
    require_known_callers(
        options,
        hint="add --tokens FILE (a line user=token each) or --auth MODULE:FUNCTION;"
        " or leave --host out",
    )
    application = _application(options, auth)
    names = ", ".join(application.served.runners)
    what = f"{names} from {without_password(options.address)}"
    if not options.workers:
        run_application(application, options, what=what)
        return 0
    workers = WorkerProcesses(
        _worker_command(options),
        options.workers,
        grace=options.grace,
        # not as an argument: a list of processes shows those
        environment={_STORE: options.address},
        form=options.log_form,
    )
    with workers:
        run_application(application, options, what=f"{what} with {options.workers} workers")
    return 0


def _worker_command(options: CommandOptions) -> list[str]:
    """The command of a worker that runs what this server serves."""
    command = [sys.executable, "-m", "weft", "worker", *options.targets]
    command += ["--store", f"env:{_STORE}", "--engine", options.engine]
    command += ["--slots", str(options.slots), "--grace", str(options.grace)]
    command += ["--log-format", options.log_form]
    if options.model is not None:
        command += ["--model", options.model]
    if options.telemetry:
        command.append("--telemetry")
    if options.max_llm_calls is not None:
        command += ["--max-llm-calls", str(options.max_llm_calls)]
    return command


def run_application(
    application: "Application",
    options: CommandOptions,
    *,
    what: str,
    ready: Callable[[str, Callable[[], None]], None] | None = None,
    pass_signal: Callable[[int], bool] | None = None,
) -> None:
    """Listen and answer until Ctrl-C or SIGTERM; `what` is said to be served.

    `ready` is called once it answers, with its address and a function that stops it. `pass_signal`
    says whether somebody else takes a signal, so that it does not stop the server.
    """
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise UsageError(
            "the server needs uvicorn", where="serve", hint='pip install "weft[serve]"'
        ) from None
    from weft.server.http import LARGEST_HEAD, guarded_protocol
    from weft.server.watching import watch_pages
    from weft.turns.health import HealthServer, LoopPulse, listen

    # before the server: the port is known when it is announced
    listening = listen(options.host, options.port)
    watching = None
    if options.metrics_port is not None:
        watching = listen(options.metrics_host, options.metrics_port, option="--metrics-port")
    host, port = listening.getsockname()[:2]

    class Server(uvicorn.Server):
        """A server that ends its streams before it waits for the connections."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Begin to answer, also on the port for those who watch."""
            await super().startup(sockets)
            if watching is not None:
                pages = watch_pages(application.served, LoopPulse())
                self.watcher = HealthServer(pages, watching)
            if ready is not None:
                ready(f"http://{_shown_host(str(host))}:{port}", self.leave)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Stop, unless somebody else takes the signal."""
            if pass_signal is None or not pass_signal(sig):
                super().handle_exit(sig, frame)

        def leave(self) -> None:
            """Stop as soon as what is under way has ended."""
            self.should_exit = True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Stop."""
            application.stop_streams()
            await super().shutdown(sockets)

    # clients only learn that the server failed; the log says why
    begin_logs(options.log_form)
    config = uvicorn.Config(
        application,
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(options.grace) + 5,
        http=guarded_protocol(),
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    form = options.log_form
    if watching is not None:
        at = f"http://{_shown_host(options.metrics_host)}:{watching.getsockname()[1]}/metrics"
        say(f"numbers at {at}", form, sys.stderr)
    _announce(application, what, f"{_shown_host(str(host))}:{port}", form)
    Server(config).run(sockets=[listening])


def _application(options: CommandOptions, auth: "Authenticate | Tokens | None") -> "Application":
    from weft.server import app

    limits = _limits(options)
    runners = load_runners(options)
    turns = None
    if options.queue or options.workers:
        from weft.turns import open_turns

        turns = open_turns(runners[0].store, options.engine)
    return app(
        *runners,
        auth=auth,
        hosts=listening_hosts(options),
        grace=options.grace,
        turns=turns,
        limits=limits,
        quotas=_quotas(options),
        mcp=options.mcp,
        a2a=options.a2a,
    )


async def mcp_command(options: CommandOptions) -> int:
    """Serve the targets on stdin and stdout; the exit code is 0 once the client is gone."""
    _require_sdk("mcp", "the MCP SDK")
    from weft.server.mcp import serve_runners

    begin_logs(LogForm.TEXT)  # to stderr: stdout is the client's
    async with serve_runners(load_runners(options)) as service:
        await service.run_stdio()
    return 0


async def acp_command(options: CommandOptions) -> int:
    """Serve the target to an editor; the exit code is 0 once the editor is gone."""
    _require_sdk("acp", "the SDK of ACP")
    from weft.server.acp import run_stdio, serve_editor

    begin_logs(LogForm.TEXT)  # to stderr: stdout is the editor's
    (runner,) = load_runners(replace(options, targets=[options.target]))
    async with serve_editor(runner) as agent:
        await run_stdio(agent)
    return 0


def _require_sdk(module: str, name: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise UsageError(
            f"{name} is not installed", where=module, hint=f"pip install 'weft[{module}]'"
        )


def _limits(options: CommandOptions) -> "Limits":
    """What the server takes at all; a limit that would limit nothing is refused."""
    from weft.server import Limits

    is_queued = bool(options.queue or options.workers)
    if options.max_runs is not None and is_queued:
        raise UsageError(
            "the runs are those of workers, which have --slots",
            where="--max-runs",
            hint="limit what waits for them: --max-waiting 1000",
        )
    if options.max_waiting is not None and not is_queued:
        raise UsageError(
            "no turns wait without a queue",
            where="--max-waiting",
            hint="add --queue or --workers N, or limit the runs: --max-runs 200",
        )
    limits = Limits()
    if options.max_runs is not None:
        limits = replace(limits, runs=options.max_runs)
    if options.max_waiting is not None:
        limits = replace(limits, waiting=options.max_waiting)
    return limits


def _quotas(options: CommandOptions) -> "Quotas":
    from weft.server import Quota, Quotas

    return Quotas(
        user=Quota(
            turns_per_minute=options.turns_per_minute,
            open_runs=options.open_runs,
            tokens_per_day=options.tokens_per_day,
        ),
        app=Quota(
            turns_per_minute=options.app_turns_per_minute,
            open_runs=options.app_open_runs,
            tokens_per_day=options.app_tokens_per_day,
        ),
    )


def _auth(options: CommandOptions) -> "Authenticate | Tokens | None":
    """Who may ask, as the command says it."""
    from weft.server import Tokens

    if options.tokens is not None and options.auth is not None:
        raise UsageError("there are two of them", where="--auth", hint="--tokens or --auth")
    if options.tokens is not None:
        return Tokens.read(options.tokens)
    if options.auth is None:
        return None
    hint = "name a function from a request to the user's id: --auth package.module:function"
    # the module may lie in the working folder, which a script's path does not have
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function: object = resolve_name(options.auth)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"`{options.auth}` cannot be loaded: {error}", where="--auth", hint=hint
        ) from None
    if not callable(function):
        raise UsageError(
            f"{options.auth} is {describe_kind(function)}, not a function",
            where="--auth",
            hint=hint,
        )
    return cast("Authenticate", function)


def require_known_callers(
    options: CommandOptions,
    *,
    hint: str = "add --tokens FILE (a line user=token each); clients send it as X-Weft-Token",
) -> None:
    """Refuse to listen to other machines without knowing who asks."""
    if not is_loopback(options.host) and options.tokens is None and options.auth is None:
        raise UsageError(
            f"{options.host} can be reached from other machines, and nothing says who may ask",
            where="--host",
            hint=hint,
        )


def listening_hosts(options: CommandOptions) -> list[str]:
    """The names that a server answers to."""
    from weft.server.access import LOOPBACK

    hosts = [*LOOPBACK, *(options.allow_host or ())]
    # these two stand for all addresses, and no client asks for them by name
    if not is_loopback(options.host) and options.host not in ("0.0.0.0", "::"):
        hosts.append(options.host)
    return hosts


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _announce(application: "Application", what: str, place: str, form: LogForm) -> None:
    """Say what is served, and the address to open."""
    say(f"serving {what}", form, sys.stderr)
    address = f"http://{place}{application.page}"
    if application.token is not None:
        address += f"?token={application.token}"
    say(address, form, sys.stdout)


# --- a worker, which takes turns from a queue

PARENT = "WEFT_WORKER_OF"
"""The variable that names the process of the server that started a worker."""

_PARENT_EVERY = 1.0
"""Seconds between two looks whether that server lives."""


def worker_command(options: CommandOptions) -> int:
    """Work; the exit code is 0 after SIGTERM or Ctrl-C, and 3 after being declared dead."""
    from weft.turns.worker import Worker

    begin_logs(options.log_form)
    runners = load_runners(options)
    names = ", ".join(runner.app_name for runner in runners)

    async def work() -> int:
        worker = Worker(
            *runners,
            engine=options.engine,
            slots=options.slots,
            grace=options.grace,
            attempts=options.attempts,
            hung=options.hung,
            keep=options.keep,
            stuck=options.stuck,
        )
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, worker.stop)

        def ready(port: int | None) -> None:
            at = f", health at http://{options.host}:{port}/health" if port is not None else ""
            words = f"ready: {worker.name} takes turns of {names}{at}"
            say(words, options.log_form, sys.stdout)

        watching = asyncio.create_task(_watch_parent(worker.stop))
        say(f"worker on {without_password(options.address)}", options.log_form, sys.stderr)
        try:
            return await worker.run(host=options.host, port=options.health_port, ready=ready)
        finally:
            watching.cancel()

    return asyncio.run(work())


async def _watch_parent(stop: Callable[[], None]) -> None:
    """Stop when the server has died that started this worker."""
    parent = os.environ.get(PARENT)
    while parent is not None:
        # a process whose parent died gets another
        if str(os.getppid()) != parent:
            stop()
            return
        await asyncio.sleep(_PARENT_EVERY)


def load_runners(options: CommandOptions) -> list[Runner]:
    """A runner for each target, all over one store."""
    config = RunConfig(model=options.model)
    if options.max_llm_calls is not None:
        config = msgspec.structs.replace(config, max_llm_calls=options.max_llm_calls)
    if options.address.startswith("sqlite:///"):
        require_folder(Path(options.address.removeprefix("sqlite:///")), "--store")
    store = open_store(options.address)
    plugins: list[Plugin] = []
    if options.telemetry:
        from weft.interop.otel import open_telemetry

        plugins.append(open_telemetry())
    runners: list[Runner] = []
    for target in options.targets:
        root = load_node(target)
        name = app_of(root, target)
        runners.append(Runner(root, app_name=name, store=store, config=config, plugins=plugins))
    return runners


# --- the workers that a server starts

_FIRST_PAUSE = 0.5
"""Seconds before a worker that died is started again; twice as long each time it dies young."""

_LONGEST_PAUSE = 30.0

_YOUNG = 10.0
"""Seconds of life from which on a worker is not one that cannot start."""

_LOOK_EVERY = 0.2

_LAST_WAIT = 5.0
"""Seconds beyond the grace after which a worker that does not end is killed."""


class WorkerProcesses:
    """Keeps `count` processes of a command running, while the block runs."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        grace: float,
        environment: Mapping[str, str] = {},
        form: LogForm = LogForm.TEXT,
    ) -> None:
        self._command = [*command]
        self._environment = environment
        self._form = form
        self._places = [_WorkerPlace() for _ in range(count)]
        self._grace = grace
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="weft workers", daemon=True)

    def __enter__(self) -> "WorkerProcesses":
        # the server stops on SIGTERM and then raises it again, which must not end us before them
        signal.signal(signal.SIGTERM, _go_on)
        for place in self._places:
            self._start(place)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        # first: a worker that ends from here on must not be started again
        self._stopping.set()
        self._thread.join()
        running = [place.process for place in self._places if place.process is not None]
        for process in running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._grace + _LAST_WAIT
        for process in running:
            try:
                process.wait(timeout=max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                self._say(f"worker {process.pid} does not end: it is killed")
                process.kill()
                process.wait()

    def _start(self, place: "_WorkerPlace") -> None:
        place.begun = time.monotonic()
        # Ctrl-C reaches the whole group: the server itself tells the workers, once
        place.process = subprocess.Popen(
            self._command,
            env={**os.environ, **self._environment, PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            # the server's stdout has its address, for programs that read it
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _say(self, words: str) -> None:
        say(words, self._form, sys.stderr)

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY):
            now = time.monotonic()
            for place in self._places:
                if place.process is not None and (code := place.process.poll()) is not None:
                    is_young = now - place.begun < _YOUNG
                    place.pause = min(place.pause * 2, _LONGEST_PAUSE) if is_young else _FIRST_PAUSE
                    place.again = now + place.pause
                    place.process = None
                    self._say(f"a worker ended with {code}: the next starts in {place.pause:g} s")
                elif place.process is None and now >= place.again:
                    self._start(place)


def _go_on(number: int, frame: object) -> None:
    """Do nothing about a signal."""


class _WorkerPlace:
    """A place for one process, and when it is filled again."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.begun = 0.0
        self.again = 0.0
        self.pause = _FIRST_PAUSE / 2


# --- what both say while they run: lines for people, or JSON for machines


class JsonLines(logging.Formatter):
    """Each record as one line of JSON: time, level, logger, message, and the error if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = {
            "time": _utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def begin_logs(form: LogForm) -> None:
    """Have what Weft and its server log written to stderr, in this form."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if form is LogForm.JSON else text)
    logging.basicConfig(handlers=[handler])
    logging.getLogger("weft").setLevel(logging.INFO)
    logging.captureWarnings(True)


def say(words: str, form: LogForm, stream: TextIO) -> None:
    """Say something that is not logged, such as the address of a server."""
    if form is LogForm.JSON:
        line = {"time": _utc(time.time()), "level": "INFO", "logger": "weft", "message": words}
        words = json.dumps(line, ensure_ascii=False)
    print(words, file=stream, flush=True)


def _utc(seconds: float) -> str:
    """A moment as machines read it: 2026-11-17T09:30:00.125Z."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"
