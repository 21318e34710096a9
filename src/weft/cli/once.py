"""Run one invocation for `weft run`, and say how it ended."""

import asyncio
import sys
from collections.abc import Callable
from typing import NamedTuple, TextIO

import msgspec

from weft.cli.inputs import pairs, state_of
from weft.cli.interrupts import carry_out
from weft.cli.load import app_of, load_node
from weft.cli.options import DEFAULT_STORE
from weft.cli.outlet import answers_only
from weft.cli.screen import Screen
from weft.cli.stored import require_existing, shown
from weft.cli.turn import Ending, played, tell_ending
from weft.cli.waiting import answer_to, find_question, how_to_go_on, open_questions
from weft.declare import Node, RunBudget, RunConfig
from weft.runtime import Runner
from weft.session import Event
from weft.session.event import new_id
from weft.values import Json


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
