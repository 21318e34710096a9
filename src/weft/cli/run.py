"""`weft run`: one question, answered on stdout as the answer comes."""

import asyncio
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import NamedTuple, TextIO, TypeVar

import msgspec

from weft.cli.inputs import pairs, require_existing, state_of, without_password
from weft.cli.load import app_of, blame, load_node
from weft.cli.options import DEFAULT_STORE, CommandOptions
from weft.cli.screen import (
    Screen,
    answer_to,
    describe_question,
    error_words,
    find_question,
    how_to_go_on,
)
from weft.declare import Node, RunBudget, RunConfig
from weft.errors import UsageError, WeftError
from weft.runtime import Result, Runner
from weft.runtime.approvals import Pending, ToolResult, pending_in
from weft.runtime.run import Running
from weft.session import Event
from weft.session.event import new_id
from weft.values import Json


def run_command(options: CommandOptions) -> int:
    """Ask one question; the answer streams to stdout.

    The exit code is 0 where the run answered or waits, 1 after an error, 130 if cancelled.
    """
    _require_sense(options)
    answers = pairs("--answer", options.answers or ())
    config = run_config(options)
    address = options.store or (DEFAULT_STORE if options.session is not None else "memory://")
    if options.goes_on:
        require_existing(address)
    root = load_node(options.target)
    state = state_of(root, options.state or ())
    once = _Once(options, root, address, options.session or new_id(), config)
    with answers_only() as answer, asyncio.Runner() as loop:
        try:
            ending = carry_out(loop, once.run(state, answers, answer))
        except KeyboardInterrupt:
            once.say_cancelled()
            return 130
    tell_ending(ending)
    once.say_waiting(ending)
    return 1 if ending.error is not None else 0


def _require_sense(options: CommandOptions) -> None:
    """Refuse a run that is both new and old, or neither."""
    if options.goes_on and options.message is not None:
        raise UsageError(
            "a run goes on without a message",
            where="--resume",
            hint="leave out --resume, --answer and --retry, or the message",
        )
    if options.goes_on and options.state and len(options.answers or ()) != 1:
        raise UsageError(
            "a run goes on without state, but for what an answered call would have written",
            where="--state",
            hint="write it with one --answer ID=VALUE, or leave out --state",
        )
    if options.goes_on and options.session is None:
        raise UsageError(
            "which session?", where="--resume", hint="--session ID; `weft sessions list` lists them"
        )
    if not options.goes_on and not options.message:
        raise UsageError(
            "there is no message", where="run", hint=f'weft run {options.target} "What is new?"'
        )


def run_config(options: CommandOptions) -> RunConfig:
    """The config of a run that is shown as it streams."""
    config = RunConfig(model=options.model, strict=options.strict, stream=True)
    if options.max_llm_calls is not None:
        config = msgspec.structs.replace(config, max_llm_calls=options.max_llm_calls)
    limits = (options.budget_tokens, options.budget_seconds, options.budget_money)
    if limits != (None, None, None):
        tokens, seconds, money = limits
        budget = RunBudget(tokens=tokens, seconds=seconds, money=money)
        config = msgspec.structs.replace(config, budget=budget)
    return config


class RunEnding(NamedTuple):
    """How a run ended: with a result, perhaps an error, perhaps waiting for somebody."""

    result: Result
    events: list[Event]
    error: Event | None
    cause: Exception | None
    questions: list[Pending]


class _Once:
    """One run of `weft run`."""

    def __init__(
        self, options: CommandOptions, root: Node, address: str, session: str, config: RunConfig
    ) -> None:
        self._options = options
        self._root = root
        self._address = address
        self._session = session
        self._config = config
        self._is_said = False

    async def run(
        self, state: dict[str, Json], answers: dict[str, Json], answer: TextIO
    ) -> RunEnding:
        options = self._options
        screen = Screen(
            self._root, answer, sys.stderr if options.verbose or sys.stderr.isatty() else None
        )
        inner: Callable[[Event], None] = _printer(answer) if options.as_json else screen.show

        def show(event: Event) -> None:
            self._say_where()
            inner(event)

        app = options.app or app_of(self._root, options.target)
        async with Runner(self._root, app_name=app, store=self._address) as runner:
            try:
                if not options.goes_on:
                    running = runner.run(
                        message=options.message or "",
                        user_id=options.user,
                        session_id=self._session,
                        state=state or None,
                        config=self._config,
                    )
                    return await play_run(running, show)
                ending = await self._go_on(runner, answers, state, show)
                if not ending.events and not options.as_json:
                    screen.say(ending.result.text)
                return ending
            finally:
                screen.end()

    async def _go_on(
        self,
        runner: Runner,
        answers: dict[str, Json],
        state: dict[str, Json],
        show: Callable[[Event], None],
    ) -> RunEnding:
        """Give each open call its answer, one after the other, or go on without any."""
        user, id, config = self._options.user, self._session, self._config
        questions = pending_in(await runner.session(user_id=user, session_id=id))
        replies: list[dict[str, object]] = []
        for name, value in answers.items():
            question = find_question(questions, name, where="--answer")
            reply = answer_to(question, value)
            replies.append({question.call_id: ToolResult(reply, state) if state else reply})
        retries = [
            find_question(questions, name, where="--retry").call_id
            for name in self._options.retries or ()
        ]
        # one after the other: each goes on until it waits for the next
        for one in replies[:-1]:
            ending = await play_run(
                runner.resume(user_id=user, session_id=id, answers=one, config=config), show
            )
            if ending.error is not None:
                return ending
        return await play_run(
            runner.resume(
                user_id=user,
                session_id=id,
                answers=replies[-1] if replies else None,
                retry=retries,
                config=config,
            ),
            show,
        )

    def _say_where(self) -> None:
        """Say once where the session is kept, unless the command named both session and store."""
        options, was_said = self._options, self._is_said
        self._is_said = True
        chosen = options.session is not None and options.store is not None
        if self._address != "memory://" and not (was_said or chosen or options.goes_on):
            print(f"session {self._session} in {without_password(self._address)}", file=sys.stderr)

    def say_cancelled(self) -> None:
        """Say that the run was stopped, and how it goes on."""
        print("cancelled", file=sys.stderr)
        if self._address != "memory://":
            print(f"  go on with: {how_to_go_on((), self._command())}", file=sys.stderr)

    def say_waiting(self, ending: RunEnding) -> None:
        """Say what the run waits for, and what to type then."""
        for question in ending.questions:
            print(describe_question(question), file=sys.stderr)
        if not ending.questions:
            return
        if self._address == "memory://":
            print("  the session ends with this command: --session ID keeps it", file=sys.stderr)
        else:
            words = how_to_go_on(ending.questions, self._command())
            print(f"  go on with: {words}", file=sys.stderr)

    def _command(self) -> list[str]:
        options = self._options
        words = ["weft", "run", options.target, "--session", self._session]
        if options.store is not None:
            words += ["--store", without_password(options.store)]
        if options.user != "user":
            words += ["--user", options.user]
        if options.app is not None:
            words += ["--app", options.app]
        return [*words, "--resume"]


def _printer(answer: TextIO) -> Callable[[Event], None]:
    """Print whole events as ADK's JSON, one a line."""

    def show(event: Event) -> None:
        if not event.partial:
            answer.write(event.to_json().decode() + "\n")
            answer.flush()

    return show


async def play_run(running: Running, show: Callable[[Event], None]) -> RunEnding:
    """Run to the end and show every event. An error that is not an event of the log is raised."""
    events: list[Event] = []
    cause: Exception | None = None
    iterator = aiter(running)
    try:
        while True:
            try:
                event = await anext(iterator)
            except StopAsyncIteration:
                break
            except Exception as raised:
                if not events or not events[-1].error_code:
                    raise
                cause = raised
                break
            show(event)
            if not event.partial:
                events.append(event)
    finally:  # cancelled, or nobody reads the answer any more
        await running.aclose()
    result = await running  # it has run: this only says how it ended
    error = result.error
    if error is None and events and (events[-1].interrupted or _is_open(events[-1])):
        error = events[-1]
    questions = pending_in(result.session)
    return RunEnding(result, events, error, cause, questions)


def _is_open(event: Event) -> bool:
    """Whether the run stopped because nobody knows what a call did."""
    return event.error_code == "unknown_outcome"


def tell_ending(ending: RunEnding) -> None:
    """Print the diagnostics of the requests, and `error: code: message`, each with its hint."""
    for diagnostic in ending.result.diagnostics:
        print(diagnostic, file=sys.stderr)
    if ending.error is None:
        return
    line, _, hint = error_words(ending.error).partition("\n")
    cause = ending.cause
    if cause is not None and not isinstance(cause, WeftError):
        place = blame(cause)
        line = line if place.startswith("internal error") else f"{line} ({place})"
    print(f"error: {line}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)


@contextmanager
def answers_only() -> Generator[TextIO]:
    """The real stdout; while this lasts, whatever else is printed goes to stderr.

    Not only Python's prints: a program that a tool starts writes to the descriptor itself.
    """
    printed = sys.stdout
    printed.flush()
    try:
        number, aside = printed.fileno(), sys.stderr.fileno()
    except (io.UnsupportedOperation, AttributeError):  # captured: there is no descriptor
        with redirect_stdout(sys.stderr):
            yield printed
        return
    ours = os.dup(number)
    answer = open(  # noqa: SIM115  # closed below, where its reader may be gone
        ours, "w", encoding=printed.encoding, errors="backslashreplace"
    )
    os.dup2(aside, number)
    try:
        with redirect_stdout(sys.stderr):
            yield answer
    finally:
        with suppress(OSError):
            printed.flush()
        os.dup2(ours, number)
        with suppress(BrokenPipeError):
            answer.close()


T = TypeVar("T")


def carry_out(runner: asyncio.Runner, work: Coroutine[object, object, T]) -> T:
    """The result of the work; cancelled by Ctrl-C, it ends first, then KeyboardInterrupt is raised.

    The second Ctrl-C is the system's own: it ends the process whatever that is doing. It stays so
    until `listen_again`, for a tool may go on in its thread, and nothing but that can stop it.
    """
    if threading.current_thread() is not threading.main_thread():
        return runner.run(work)
    loop = runner.get_loop()
    task: asyncio.Task[T] | None = None
    asked = False

    def cancel(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.stderr.isatty():
            os.write(2, b"\ncancelling; Ctrl-C again kills\n")
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    async def run_cancellable() -> T:
        nonlocal task
        task = asyncio.current_task()
        if asked and task is not None:
            task.cancel()
        return await work

    earlier = signal.signal(signal.SIGINT, cancel)
    try:
        return runner.run(run_cancellable())
    except asyncio.CancelledError:
        if asked:
            raise KeyboardInterrupt from None
        raise
    finally:
        if not asked:
            signal.signal(signal.SIGINT, earlier)


def listen_again() -> None:
    """Let the next Ctrl-C raise KeyboardInterrupt, as it does where nothing was cancelled."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def listen_no_more() -> None:
    """From here on Ctrl-C ends the process at once: all that is left is a tool that still runs."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
