"""Random programs under random treatment, held against an independent reading of them."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.runtime.interpreter import Interpreter
from tests.runtime.laws import check_request, folded, requests_of
from tests.runtime.programs import WORDS, Program, Speaker, built, programs
from weft import Event, Result, Runner, Session
from weft.errors import StoreError, WeftError
from weft.session import SessionKey, Store, Transaction
from weft.session.store import Busy, Lease, SessionInfo
from weft.stores import open_store
from weft.values import Json, JsonObject

KEY = SessionKey("app", "user", "s")
PROGRAMS_OWN = (WeftError, ArithmeticError)
"""What comes out of a run because the program, the store or the user is wrong."""

deltas = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(WORDS),
        "trip": st.sampled_from([True, None]),
        "temp:x": st.integers(0, 3),
        "user:u": st.integers(0, 3),
        "app:a": st.integers(0, 3),
    },
)
answers = st.sampled_from([True, False, "yes", {"n": 1}, [1, None], "", None])


class Frail:
    """A store that breaks once, at a given append: before it has stored the events, or after."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.left = 0
        self.keeps = False
        self.writing: set[asyncio.Future[Session]] = set()

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        return await self.inner.create(key, state=state)

    async def get(
        self, key: SessionKey, *, recent: int | None = None, after: float | None = None
    ) -> Session | None:
        return await self.inner.get(key, recent=recent, after=after)

    async def append(self, session: Session, *events: Event) -> Session:
        self.left -= 1
        if self.left == 0 and not self.keeps:
            await self.settled()
            raise StoreError("the disk is full")
        breaks = self.left == 0
        writing = asyncio.ensure_future(self.inner.append(session, *events))
        self.writing.add(writing)
        writing.add_done_callback(self.writing.discard)
        stored = await asyncio.shield(writing)
        if breaks:
            raise StoreError("the connection is lost")
        return stored

    async def settled(self) -> None:
        """Wait for what is being written, also by those who were cancelled meanwhile."""
        if self.writing:
            await asyncio.wait(self.writing)

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        return await self.inner.sessions(app_name, user_id)

    async def delete(self, key: SessionKey) -> None:
        await self.inner.delete(key)

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        return await self.inner.lease(key, busy=busy, interrupt=interrupt)

    def transaction(self, session: Session) -> AbstractAsyncContextManager[Transaction]:
        return self.inner.transaction(session)

    async def close(self) -> None:
        await self.inner.close()


class Machine(RuleBasedStateMachine):
    """One session of one program, and what must be in its log."""

    address = "memory://"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.log: list[Event] = []
        self.hidden: set[int] = set()
        self.before: list[tuple[int, str, JsonObject]] = []
        """Where each invocation began, and the state it found."""
        self.asked = 0

    @initialize(program=programs())
    def start(self, program: Program) -> None:
        note(f"program: {program}")
        self.program = program
        self.model = Interpreter(program)
        self.store = Frail(open_store(self.address))
        self._restart()

    def _restart(self) -> None:
        """Begin anew with nothing but the log, as another process would."""
        self.root = built(self.program, self._stored)
        self.runner = Runner(self.root, app_name=KEY.app_name, store=self.store)

    def teardown(self) -> None:
        self.loop.run(self.runner.close())
        self.loop.close()

    async def _stored(self) -> list[Event]:
        await self.store.settled()
        session = await self.store.inner.get(KEY)
        return list(session.events) if session is not None else []

    # What can be done.

    @rule(delta=deltas, first=st.lists(answers, max_size=4))
    def say(self, delta: JsonObject, first: list[Json] | None = None) -> None:
        """The user says something, once what waits is answered, if they care."""
        if first and self._waiting():
            self._answer(0, first, times=1)
        result = self._run(message=self._message(), state=delta)
        self._follow_message(delta)
        if result is not None:
            self._check_result(result)

    @rule(delta=deltas, events=st.integers(1, 8))
    def say_and_leave(self, delta: JsonObject, events: int) -> None:
        """The user says something, and leaves after some events."""
        message = self._message()

        async def leave() -> None:
            run = self.runner.run(session_id="s", message=message, state=delta)
            left = events
            try:
                async for _ in run:
                    left -= 1
                    if not left:
                        break
            except PROGRAMS_OWN as error:
                note(f"raised {type(error).__name__}: {error}")
            await run.aclose()

        self._do(leave)
        self._follow_message(delta, may_end=True, cancelled=True)

    @rule(appends=st.integers(1, 12), keeps=st.booleans())
    def say_and_break(self, appends: int, keeps: bool) -> None:
        """The user says something, and the store breaks on the way."""
        self.store.left, self.store.keeps = appends, keeps
        self._run(message=self._message())
        self.store.left = 0
        self._follow_message({}, may_end=True)

    @rule(first=st.lists(answers, max_size=4))
    def resume(self, first: list[Json]) -> None:
        """Somebody asks to go on, once what waits is answered, if they care."""
        if first and self._waiting():
            self._answer(1, first, times=1)
        id = self._last()
        if id is None:
            return self.say({})
        ended = not self.model.invocations[id].failed and self._is_over(id)
        result = self._run(resume={})
        self._follow(id, self._new())
        if result is not None:
            assert result.invocation_id == id
            self._check_result(result)
        if ended:
            assert result is not None
            assert result.events == (), "a complete run is run again"

    @rule(appends=st.integers(1, 8), keeps=st.booleans())
    def resume_and_break(self, appends: int, keeps: bool) -> None:
        """Somebody asks to go on, and the store breaks on the way."""
        id = self._last()
        if id is None:
            return self.say_and_break(appends, keeps)
        self.store.left, self.store.keeps = appends, keeps
        self._run(resume={})
        self.store.left = 0
        self._follow(id, self._new(), may_end=True)

    @rule(which=st.integers(0, 11), values=st.lists(answers, min_size=1, max_size=4))
    def answer(self, which: int, values: list[Json]) -> None:
        """Somebody answers calls that wait."""
        self._answer(which, values, times=1)

    @rule(which=st.integers(0, 11), values=st.lists(answers, min_size=1, max_size=4))
    def answer_twice(self, which: int, values: list[Json]) -> None:
        """Somebody answers calls that wait, and says it again."""
        self._answer(which, values, times=2)

    def _answer(self, which: int, values: list[Json], *, times: int) -> None:
        groups = self._waiting()
        if not groups:
            return self.say({})
        id, ids = groups[which % len(groups)]
        questions = self.model.waiting(id)
        # A call that waits for a yes takes nothing but a yes or a no.
        given = {
            call: value if questions[call] == call else value is True
            for call, value in zip(ids, values, strict=False)
        }
        replies = {questions[call]: value for call, value in given.items()}
        result = self._run(resume={"answers": given})
        new = self._new()
        said = [event for _, event in new if event.author == "user" and event.results]
        assert [event for _, event in new[: len(said)]] == said
        assert {result.id for event in said for result in event.results} == set(replies)
        self.model.keep(id, self._since)
        self.model.answer(id, replies)
        self._follow(id, new[len(said) :])
        for _ in range(times - 1):
            result = self._run(resume={"answers": given})
            again = [event for _, event in self._new() if event.author == "user" and event.results]
            assert not again, "an answer is stored twice"
            self._follow(id, self._new())
        if result is not None:
            assert result.invocation_id == id
            self._check_result(result)

    @rule(which=st.integers(0, 5))
    def rewind(self, which: int) -> None:
        """The user takes something back."""
        begun = self._begun()
        if not begun:
            return self.say({})
        first, id, state = begun[which % len(begun)]
        self._do(lambda: self.runner.rewind(session_id="s", invocation_id=id))
        ((index, event),) = self._new()
        assert event.actions.rewind_before_invocation_id == id
        shared = {key: value for key, value in self.model.state.items() if ":" in key}
        own = {key: value for key, value in state.items() if ":" not in key}
        self.model.state = own | shared
        self.model.take_back(first)
        self.hidden.update(range(first, index + 1))
        self._restart()  # the model behind it was told things that are no longer true

    # How it is done.

    def _message(self) -> str:
        self.asked += 1
        return f"message {self.asked}"

    def _do(self, action: Callable[[], object]) -> object:
        async def limited() -> object:
            return await asyncio.wait_for(action(), 120)  # type: ignore[arg-type]

        try:
            return self.loop.run(limited())
        finally:
            self._read()

    def _run(
        self,
        *,
        message: str | None = None,
        state: JsonObject | None = None,
        resume: dict[str, object] | None = None,
    ) -> Result | None:
        """Run or resume; what the program itself raises comes out of a run."""

        async def go() -> Result:
            if resume is None:
                assert message is not None
                return await self.runner.run(session_id="s", message=message, state=state or {})
            return await self.runner.resume(session_id="s", **resume)  # type: ignore[arg-type]

        try:
            found = self._do(go)
        except PROGRAMS_OWN as error:
            note(f"raised {type(error).__name__}: {error}")
            return None
        assert isinstance(found, Result)
        return found

    def _read(self) -> None:
        """Read the log: what was there is there, unchanged."""
        now = self.loop.run(self._stored())
        was = len(self.log)
        assert now[:was] == self.log, "the log has changed"
        self._since = was
        self.log = now

    def _new(self) -> list[tuple[int, Event]]:
        return list(enumerate(self.log))[self._since :]

    def _follow_message(
        self, delta: JsonObject, *, may_end: bool = False, cancelled: bool = False
    ) -> None:
        new = self._new()
        if not new:
            assert may_end, "the message is not in the log"
            return
        (index, said), rest = new[0], new[1:]
        assert said.author == "user"
        assert said.text == f"message {self.asked}"
        kept = {k: v for k, v in delta.items() if not k.startswith("temp:")}
        assert said.actions.state_delta == kept
        self.before.append((index, said.invocation_id, dict(self.model.state)))
        self.model.begin(said.invocation_id, self._turn(index), delta)
        self._follow(said.invocation_id, rest, may_end=may_end, cancelled=cancelled)

    def _follow(
        self,
        id: str,
        events: list[tuple[int, Event]],
        *,
        may_end: bool = False,
        cancelled: bool = False,
    ) -> None:
        self.model.keep(id, self._since)
        self.model.follow(id, events, may_end=may_end, cancelled=cancelled)

    def _turn(self, index: int) -> str:
        """Whom a message goes to: the agent that spoke last, if it may hand back."""
        if not isinstance(self.program, Speaker):
            return ""
        for at in range(index - 1, -1, -1):
            event = self.log[at]
            way = self.program.find(event.author)
            if at in self.hidden or not way or event.isolation_scope:
                continue
            return event.author if not any(one.stays for one in way[1:]) else self.program.name
        return self.program.name

    def _last(self) -> str | None:
        """The invocation that is gone on with."""
        visible = [event for at, event in enumerate(self.log) if at not in self.hidden]
        return visible[-1].invocation_id if visible else None

    def _begun(self) -> list[tuple[int, str, JsonObject]]:
        return [one for one in self.before if one[0] not in self.hidden]

    def _waiting(self) -> list[tuple[str, list[str]]]:
        """The calls that wait, with their invocation, those of one reply together."""
        found: list[tuple[str, list[str]]] = []
        for _, id, _ in self._begun():
            waiting = self.model.waiting(id)
            for event in self.log:
                ids = [call.id or "" for call in event.calls if call.id in waiting]
                if event.invocation_id == id and ids:
                    found.append((id, ids))
            if len(waiting) > 1:
                found.append((id, [one for _, ids in found for one in ids if one in waiting]))
        return found

    def _is_over(self, id: str) -> bool:
        inv = self.model.invocations[id]
        if isinstance(self.program, Speaker):
            return inv.stands[()].answered
        return inv.stands[(self.program.name,)].ended

    # What must hold.

    def _check_result(self, result: Result) -> None:
        inv = self.model.invocations[result.invocation_id]
        assert (result.error is not None) == inv.failed
        if not inv.failed:
            assert result.text == inv.said[1]
        known = {event.id: at for at, event in enumerate(self.log)}
        for branch in {event.branch for event in result.events}:
            places = [known[event.id] for event in result.events if event.branch == branch]
            assert places == sorted(places), "events are given in another order than the log's"
        waiting = {call for _, id, _ in self._begun() for call in self.model.waiting(id)}
        assert set(result.waiting) == waiting
        assert list(result.session.events) == self.log
        stored = self.loop.run(self.store.inner.get(KEY))
        assert result.session == stored

    @invariant()
    def the_log_is_sound(self) -> None:
        session = self.loop.run(self.store.inner.get(KEY)) if self.log else None
        if session is None:
            return
        state = {k: v for k, v in session.state.items() if not k.startswith("temp:")}
        assert state == self.model.state, f"not {self.model.state}"
        assert state == folded(session)
        assert len({event.id for event in self.log}) == len(self.log)
        open_calls = self.model.open_calls(id for _, id, _ in self._begun())
        visible = [event for at, event in enumerate(self.log) if at not in self.hidden]
        assert _unanswered(visible) == open_calls, f"open: {open_calls}"
        assert Session.from_json(session.to_json(), trusted=True) == session

    @invariant()
    def every_agent_can_be_asked(self) -> None:
        session = self.loop.run(self.store.inner.get(KEY)) if self.log else None
        if session is not None:
            for top, name in requests_of(self.root):
                check_request(top, name, session, dialects=DIALECTS[len(self.log) % 4 :][:1])


DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")


def _unanswered(log: list[Event]) -> set[str]:
    """The calls without a result that the log does not say wait."""
    made: set[str] = set()
    for event in log:
        made.update(call.id or "" for call in event.calls if not (call.id or "").startswith("ask-"))
        made.difference_update(result.id or "" for result in event.results)
        weft = (event.custom_metadata or {}).get("weft")
        pending = weft.get("pending") if isinstance(weft, dict) else None
        made.difference_update(pending if isinstance(pending, list) else [])
    return made


class InMemory(Machine):
    """Sessions in memory."""


class InSqlite(Machine):
    """Sessions in a file."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.address = f"sqlite:///{Path(self.folder.name) / 'weft.db'}"
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


_patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(_patient, max_examples=60, stateful_step_count=10)
TestInSqlite = InSqlite.TestCase
TestInSqlite.settings = settings(_patient, max_examples=10, stateful_step_count=8)
