"""`weft chat`: a conversation in the terminal."""

import asyncio
import importlib
import io
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import NamedTuple, TextIO, TypeVar

from weft.cli.inputs import state_of, value_of, without_password
from weft.cli.load import app_of, load_node
from weft.cli.options import CommandOptions
from weft.cli.render import print_report
from weft.cli.run import (
    RunEnding,
    answers_only,
    carry_out,
    listen_again,
    listen_no_more,
    play_run,
    run_config,
    tell_ending,
)
from weft.cli.screen import (
    Screen,
    answer_to,
    describe_question,
    event_lines,
    find_invocation,
    invocations_of,
    marks_for,
    state_lines,
)
from weft.cli.store import taken_back
from weft.declare import RunConfig
from weft.errors import SessionError, UsageError, WeftError
from weft.replay.steps import before_event, model_events, texts_at
from weft.runtime import Runner
from weft.runtime.approvals import Pending, QuestionKind, pending_in
from weft.runtime.run import Running
from weft.session import Session, SessionKey
from weft.session.event import new_id
from weft.values import Json


def chat_command(options: CommandOptions) -> int:
    """Talk in the terminal; the conversation is kept."""
    root = load_node(options.target)
    state = state_of(root, options.state or ())
    app = options.app or app_of(root, options.target)
    runner = Runner(root, app_name=app, store=options.address)
    with asyncio.Runner() as loop:
        conversation = Chat(
            runner,
            loop,
            user=options.user,
            session_id=options.session or new_id(),
            state=state,
            config=run_config(options),
        )
        try:
            conversation.open(options.address)
            return conversation.talk()
        finally:
            loop.run(runner.close())
            listen_no_more()


T = TypeVar("T")

RECALLED = 3
"""How many turns of an earlier conversation are shown when it goes on."""


class ChatCommand(NamedTuple):
    """A command of the conversation."""

    about: str
    do: Callable[["Chat"], None]


class Chat:
    """One session, talked to line by line."""

    def __init__(
        self,
        runner: Runner,
        loop: asyncio.Runner,
        *,
        user: str,
        session_id: str,
        state: dict[str, Json],
        config: RunConfig,
    ) -> None:
        self._runner = runner
        self._loop = loop
        self._key = SessionKey(runner.app_name, user, session_id)
        self._state = state
        self._config = config
        self._width = shutil.get_terminal_size((100, 24)).columns
        self._marks = marks_for(sys.stderr)
        self._postponed: set[str] = set()
        """The questions that the user did not want to answer now."""
        _prepare(sys.stdin)

    def open(self, address: str) -> None:
        """Say which session this is; show the end of one that goes on, and what it waits for."""
        session = self._session()
        place = f"session {self._key.id} in {without_password(address)}"
        _tell(f"{place} (/help for commands, Ctrl-D ends)")
        if session is None:
            return
        live = [one for one in invocations_of(session) if one.live]
        for one in live[-RECALLED:]:
            for line in event_lines(one.events, self._marks, self._width):
                _tell(line)
        self._settle(pending_in(session))

    def talk(self) -> int:
        """Read and answer until the input ends."""
        while True:
            try:
                line = _read_line("> ")
            except KeyboardInterrupt:
                # from a pipe nobody can go on after Ctrl-C
                if not sys.stdin.isatty():
                    raise
                _tell("")
                continue
            if line is None or line.strip() in ("/exit", "/quit"):
                return 0
            try:
                self._line(line.strip())
            except WeftError as error:
                _tell(f"error: {error}")

    def _line(self, line: str) -> None:
        if line.startswith("/"):
            command = COMMANDS.get(line)
            if command is None:
                known = ", ".join([*COMMANDS, "/exit"])
                raise UsageError(f"there is no command `{line}`", where="chat", hint=known)
            command.do(self)
        elif line:
            _, user, id = self._key
            # the state is given with the first message only
            state, self._state = self._state, {}
            running = self._runner.run(
                message=line, user_id=user, session_id=id, state=state, config=self._config
            )
            self._play(running)

    def _play(self, running: Running) -> None:
        """Run to the end, or until Ctrl-C; then ask what it waits for."""
        ending = self._play_run(running)
        if ending is not None:
            self._settle(ending.questions)

    def _play_run(self, running: Running) -> RunEnding | None:
        with answers_only() as answer:
            screen = Screen(self._runner.root, answer, sys.stderr)
            try:
                ending = carry_out(self._loop, play_run(running, screen.show))
            except KeyboardInterrupt:
                screen.end()
                # after the first Ctrl-C the next one would end the process
                listen_again()
                _tell("cancelled")
                return None
            finally:
                screen.end()
        tell_ending(ending)
        return ending

    def _settle(self, questions: list[Pending]) -> None:
        """Ask what the run waits for, and go on with each answer; an empty one leaves it open."""
        for question in questions:
            if (
                question.call_id in self._postponed
            ):  # it is listed until it is answered, not asked again
                _tell(describe_question(question))
        while open := [one for one in questions if one.call_id not in self._postponed]:
            question = open[0]
            _tell(describe_question(question))
            try:
                reply = _read_line(_PROMPTS[question.kind])
            except KeyboardInterrupt:
                _tell("")
                reply = None
            if reply is None:
                return
            if not reply.strip():
                self._postponed.add(question.call_id)
                continue
            try:
                ending = self._play_run(self._resume_with(question, reply.strip()))
            except (UsageError, SessionError) as error:  # a misfit, or too late: it is still open
                _tell(f"error: {error}")
                continue
            if ending is None:
                return
            questions = ending.questions

    def _resume_with(self, question: Pending, reply: str) -> Running:
        _, user, id = self._key
        if question.kind == "unknown" and reply in ("r", "retry"):
            return self._runner.resume(
                user_id=user, session_id=id, retry=[question.call_id], config=self._config
            )
        value = answer_to(question, value_of(reply, where=question.name))
        return self._runner.resume(
            user_id=user, session_id=id, answers={question.call_id: value}, config=self._config
        )

    def resume(self) -> None:
        """Go on with what was cancelled, failed or killed."""
        _, user, id = self._key
        self._play(self._runner.resume(user_id=user, session_id=id, config=self._config))

    def rewind(self) -> None:
        """Take back the last turn."""
        invocation = find_invocation(self._require_session(), None)
        _, user, id = self._key
        work = self._runner.rewind(user_id=user, session_id=id, invocation_id=invocation.id)
        self._wait(work)
        _tell(taken_back(invocation.events[0].text, invocation.id))

    def explain(self) -> None:
        """Print the report of the last request."""
        session = self._require_session()
        spoken = model_events(session)
        if not spoken:
            raise UsageError("no model has answered yet", where="/explain")
        compiled = before_event(
            self._runner.root,
            session,
            spoken[-1],
            dialect=None,
            config=self._config,
            artifacts=self._wait(texts_at(self._runner.artifacts, session, spoken[-1])),
        )
        print_report(compiled.explain())

    def events(self) -> None:
        """Print the log in short lines."""
        for one in invocations_of(self._require_session()):
            for line in event_lines(one.events, marks_for(sys.stdout), self._width):
                print(line if one.live else f"{line}  (taken back)")

    def state(self) -> None:
        """Print the session's state."""
        session = self._session()
        for line in state_lines(session or Session(state=self._state), self._width):
            print(line)

    def _session(self) -> Session | None:
        return self._wait(self._runner.store.get(self._key))

    def _require_session(self) -> Session:
        session = self._session()
        if session is None:
            raise UsageError("nothing was said yet", where="chat", hint="type a message first")
        return session

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        return carry_out(self._loop, work)


def _help(conversation: Chat) -> None:
    for name, command in COMMANDS.items():
        print(f"  {name:<9} {command.about}")
    print(f"  {'/exit':<9} end; so does Ctrl-D. Ctrl-C stops an answer")


COMMANDS = {
    "/state": ChatCommand("the session's state", Chat.state),
    "/events": ChatCommand("the log in short lines", Chat.events),
    "/explain": ChatCommand("where every token of the last request came from", Chat.explain),
    "/rewind": ChatCommand("take back the last turn", Chat.rewind),
    "/resume": ChatCommand("go on with what was cancelled or failed", Chat.resume),
    "/help": ChatCommand("this list", _help),
}


_PROMPTS: Mapping[QuestionKind, str] = {
    "input": "your answer, or Enter to leave it open: ",
    "confirm": "may it run? y/n, n REASON, other arguments as JSON, or Enter to leave it open: ",
    "unknown": "its result as JSON, r to run it again, or Enter to leave it open: ",
    "result": "its answer as JSON, or Enter to leave it open: ",
}


def _prepare(stream: TextIO) -> None:
    """Take bytes that are not text as they come; let a person edit and recall lines."""
    # a byte that is not text must not end the conversation
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    if stream.isatty():
        with suppress(ImportError):
            importlib.import_module("readline")


def _read_line(prompt: str) -> str | None:
    """A line of input, or None at its end."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    try:
        return input(prompt)
    except EOFError:
        _tell("")
        return None


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
