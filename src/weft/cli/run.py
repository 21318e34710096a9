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
from typing import Annotated, NamedTuple, TextIO, TypeVar

import msgspec
import typer

from weft.cli import options as given
from weft.cli.inputs import pairs, require_existing, shown, state_of
from weft.cli.load import app_of, blame, load_node
from weft.cli.options import DEFAULT_STORE
from weft.cli.screen import (
    Question,
    Screen,
    answer_to,
    error_words,
    find_question,
    how_to_go_on,
    open_questions,
)
from weft.declare import Node, RunBudget, RunConfig
from weft.errors import UsageError, WeftError
from weft.runtime import Result, Runner
from weft.runtime.run import Running
from weft.session import Event
from weft.session.event import new_id
from weft.values import Json


def run_command(
    target: given.TARGET,
    message: Annotated[
        str | None, typer.Argument(help="What the user says.", show_default=False)
    ] = None,
    session: given.SESSION = None,
    store: given.STORE = None,
    user: given.USER = "user",
    app: given.APP = None,
    state: given.STATE = None,
    model: given.MODEL = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Events as ADK's JSON, one a line.")
    ] = False,
    max_llm_calls: given.CALLS = None,
    budget_tokens: given.BUDGET_TOKENS = None,
    budget_seconds: given.BUDGET_SECONDS = None,
    budget_money: given.BUDGET_MONEY = None,
    strict: given.STRICT = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the session stopped.")
    ] = False,
    answer: Annotated[
        list[str] | None,
        typer.Option("--answer", help="Answer an open call, by id or name.", metavar="ID=VALUE"),
    ] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option("--retry", help="Run a call again that may have run.", metavar="ID"),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show calls and results on stderr.")
    ] = False,
) -> int:
    """Ask one question; the answer streams to stdout."""
    goes_on = resume or bool(answer) or bool(retry)
    if goes_on and (message is not None or state):
        raise UsageError(
            "a run goes on without a message and without state",
            where="--resume",
            hint="leave out --resume, --answer and --retry, or the message and --state",
        )
    if goes_on and session is None:
        raise UsageError(
            "which session?", where="--resume", hint="--session ID; `weft sessions list` lists them"
        )
    if not goes_on and not message:
        raise UsageError(
            "there is no message", where="run", hint=f'weft run {target} "What is new?"'
        )
    # imported above

    return run_once(
        Asked(
            target=target,
            message=message or "",
            session=session,
            store=store,
            user=user,
            app=app,
            state=state or [],
            model=model,
            as_json=as_json,
            max_llm_calls=max_llm_calls,
            budget=(budget_tokens, budget_seconds, budget_money),
            strict=strict,
            goes_on=goes_on,
            answers=answer or [],
            retries=retry or [],
            notes=verbose or sys.stderr.isatty(),
        )
    )


class Asked(NamedTuple):
    """What `weft run` was given."""

    target: str
    message: str
    session: str | None
    store: str | None
    user: str
    app: str | None
    state: list[str]
    model: str | None
    as_json: bool
    max_llm_calls: int | None
    budget: tuple[int | None, float | None, float | None]
    strict: bool
    goes_on: bool
    answers: list[str]
    retries: list[str]
    notes: bool


def run_once(asked: Asked) -> int:
    """Run, show, and return the exit code: 0 answered or waiting, 1 an error, 130 cancelled."""
    answers = pairs("--answer", asked.answers)
    config = run_config(asked.model, asked.max_llm_calls, strict=asked.strict)
    tokens, seconds, money = asked.budget
    if asked.budget != (None, None, None):
        budget = RunBudget(tokens=tokens, seconds=seconds, money=money)
        config = msgspec.structs.replace(config, budget=budget)
    address = asked.store or (DEFAULT_STORE if asked.session is not None else "memory://")
    if asked.goes_on:
        require_existing(address)
    root = load_node(asked.target)
    state = state_of(root, asked.state)
    once = _Once(asked, root, address, asked.session or new_id(), config)
    with answers_only() as answer, asyncio.Runner() as loop:
        try:
            ending = carry_out(loop, once.run(state, answers, answer))
        except KeyboardInterrupt:
            once.say_cancelled()
            return 130
    tell_ending(ending)
    once.say_waiting(ending)
    return 1 if ending.error is not None else 0


def run_config(model: str | None, max_llm_calls: int | None, *, strict: bool) -> RunConfig:
    """The config of a run that is shown as it streams."""
    if max_llm_calls is None:
        return RunConfig(model=model, strict=strict, stream=True)
    return RunConfig(model=model, strict=strict, stream=True, max_llm_calls=max_llm_calls)


class Ending(NamedTuple):
    """How a run ended: with a result, perhaps an error, perhaps waiting for somebody."""

    result: Result
    events: list[Event]
    error: Event | None
    cause: Exception | None
    questions: list[Question]


class _Once:
    """One run of `weft run`."""

    def __init__(
        self, asked: Asked, root: Node, address: str, session: str, config: RunConfig
    ) -> None:
        self._asked = asked
        self._root = root
        self._address = address
        self._session = session
        self._config = config
        self._told = False

    async def run(self, state: dict[str, Json], answers: dict[str, Json], answer: TextIO) -> Ending:
        asked = self._asked
        screen = Screen(self._root, answer, sys.stderr if asked.notes else None)
        inner: Callable[[Event], None] = _printer(answer) if asked.as_json else screen.show

        def show(event: Event) -> None:
            self._say_where()
            inner(event)

        app = asked.app or app_of(self._root, asked.target)
        async with Runner(self._root, app_name=app, store=self._address) as runner:
            try:
                if not asked.goes_on:
                    running = runner.run(
                        message=asked.message,
                        user_id=asked.user,
                        session_id=self._session,
                        state=state or None,
                        config=self._config,
                    )
                    return await played(running, show)
                ending = await self._go_on(runner, answers, show)
                if not ending.events and not asked.as_json:
                    screen.say(ending.result.text)
                return ending
            finally:
                screen.end()

    async def _go_on(
        self, runner: Runner, answers: dict[str, Json], show: Callable[[Event], None]
    ) -> Ending:
        """Give each open call its answer, one after the other, or go on without any."""
        user, id, config = self._asked.user, self._session, self._config
        questions = open_questions(await runner.session(user_id=user, session_id=id))
        given: list[dict[str, object]] = []
        for name, value in answers.items():
            question = find_question(questions, name)
            given.append({question.id: answer_to(question, value)})
        retries = [find_question(questions, name).id for name in self._asked.retries]
        for one in given[:-1]:
            ending = await played(
                runner.resume(user_id=user, session_id=id, answers=one, config=config), show
            )
            if ending.error is not None:
                return ending
        return await played(
            runner.resume(
                user_id=user,
                session_id=id,
                answers=given[-1] if given else None,
                retry=retries,
                config=config,
            ),
            show,
        )

    def _say_where(self) -> None:
        """Say where the session is kept now that it is, unless the command said it all."""
        asked, told = self._asked, self._told
        self._told = True
        chosen = asked.session is not None and asked.store is not None
        if self._address != "memory://" and not (told or chosen or asked.goes_on):
            print(f"session {self._session} in {shown(self._address)}", file=sys.stderr)

    def say_cancelled(self) -> None:
        """Say that the run was stopped, and how it goes on."""
        print("cancelled", file=sys.stderr)
        if self._address != "memory://":
            print(f"  go on with: {how_to_go_on((), self._command())}", file=sys.stderr)

    def say_waiting(self, ending: Ending) -> None:
        """Say what the run waits for, and what to type then."""
        for question in ending.questions:
            print(question, file=sys.stderr)
        if not ending.questions:
            return
        if self._address == "memory://":
            print("  the session ends with this command: --session ID keeps it", file=sys.stderr)
        else:
            words = how_to_go_on(ending.questions, self._command())
            print(f"  go on with: {words}", file=sys.stderr)

    def _command(self) -> list[str]:
        asked = self._asked
        words = ["weft", "run", asked.target, "--session", self._session]
        if asked.store is not None:
            words += ["--store", shown(asked.store)]
        if asked.user != "user":
            words += ["--user", asked.user]
        if asked.app is not None:
            words += ["--app", asked.app]
        return [*words, "--resume"]


def _printer(answer: TextIO) -> Callable[[Event], None]:
    """Print whole events as ADK's JSON, one a line."""

    def show(event: Event) -> None:
        if not event.partial:
            answer.write(event.to_json().decode() + "\n")
            answer.flush()

    return show


async def played(running: Running, show: Callable[[Event], None]) -> Ending:
    """Run to the end and show every event; what leaves no error event in the log is raised."""
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
    questions = open_questions(result.session)
    return Ending(result, events, error, cause, questions)


def _is_open(event: Event) -> bool:
    """Whether the run stopped because nobody knows what a call did."""
    return event.error_code == "unknown_outcome"


def tell_ending(ending: Ending) -> None:
    """What is wrong with what was asked, and `error: code: message`, each with its hint below."""
    for found in ending.result.diagnostics:
        print(found, file=sys.stderr)
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

    async def guarded() -> T:
        nonlocal task
        task = asyncio.current_task()
        if asked and task is not None:
            task.cancel()
        return await work

    held = signal.signal(signal.SIGINT, cancel)
    try:
        return runner.run(guarded())
    except asyncio.CancelledError:
        if asked:
            raise KeyboardInterrupt from None
        raise
    finally:
        if not asked:
            signal.signal(signal.SIGINT, held)


def listen_again() -> None:
    """Let the next Ctrl-C raise KeyboardInterrupt, as it does where nothing was cancelled."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def listen_no_more() -> None:
    """From here on Ctrl-C ends the process at once: all that is left is a tool that still runs."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
