"""What every log obeys, whatever was run and whatever went wrong."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable

import weft
from weft import Agent, Event, Runner, Session
from weft.declare import Node
from weft.declare.agent import walk_nodes, walk_tree
from weft.dialects.strict import RequestChecker
from weft.session.event import apply_delta
from weft.session.lookback import CONFIRMATION, waiting_in
from weft.session.strand import Strand
from weft.values import JsonObject

PENDING = "pending"


def check_laws(session: Session, root: Node, *, may_hang: bool = False) -> None:
    """Raise AssertionError at the first law the log breaks.

    `may_hang` allows calls without a result: those of a run that was killed, or of a branch that
    was cancelled because another one failed.
    """
    events = list(session.events)
    ids = [event.id for event in events]
    assert len(set(ids)) == len(ids), "two events have one id"
    assert not any(event.partial for event in events), "a partial event is stored"
    assert all(event.invocation_id and event.author for event in events)
    assert session.state == folded(session), "the state is not the fold of the log"
    assert not any(key.startswith("temp:") for e in events for key in e.actions.state_delta)
    _check_calls(events, may_hang=may_hang)
    again = Session.from_json(session.to_json(), trusted=True)
    assert again == session, "the log does not survive JSON"
    for top, name in requests_of(root):
        check_request(top, name, session)


def folded(session: Session) -> dict[str, object]:
    """The state as the deltas of the log add up to it."""
    state = dict(session.initial)
    for event in session.events:
        state = apply_delta(state, event.actions.state_delta)
    return dict(state)


def _check_calls(events: list[Event], *, may_hang: bool) -> None:
    made: dict[str, str] = {}
    final: dict[str, int] = {}
    for event in events:
        for call in event.calls:
            assert call.id, "a call has no id"
            assert call.name, "a call has no name"
            assert call.id not in made, f"two calls have the id {call.id}"
            made[call.id] = call.name
            final[call.id] = 0
        waits = _pending(event)
        for result in event.results:
            assert result.id in made, f"a result of {result.name} answers no call"
            assert result.name == made[result.id]
            assert not final[result.id], f"the call {result.id} is answered twice"
            final[result.id] += result.id not in waits
    waiting = waiting_in(Strand(events))
    for call_id, count in final.items():
        if call_id in waiting or made[call_id] == CONFIRMATION:
            continue
        assert count == 1 or may_hang, f"the call {call_id} of {made[call_id]} has no result"


def _pending(event: Event) -> list[object]:
    weft = (event.custom_metadata or {}).get("weft")
    pending = weft.get(PENDING) if isinstance(weft, dict) else None
    return pending if isinstance(pending, list) else []


def requests_of(root: Node) -> Iterable[tuple[Agent, str]]:
    """Every agent that may be asked: the tree it is compiled in, and its name."""
    for top, _ in walk_nodes(root):
        if isinstance(top, Agent):
            for below, _ in walk_tree(top):
                if isinstance(below, Agent):
                    yield top, below.name
                else:
                    yield from requests_of(below)


DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")


def check_request(
    root: Agent, name: str, session: Session, *, dialects: Iterable[str] = DIALECTS
) -> None:
    """Compile the agent's next request on the log, as the strictest provider reads it."""
    for dialect in dialects:
        compiled = weft.compile(root, session=session, agent=name)
        RequestChecker(dialect).check(compiled.prompt, compiled.lower(dialect))


async def goes_on(runner: Runner, says: str = "fine") -> weft.Session:
    """Run the session once more: the log is sound before and after, and the answer comes."""
    check_laws(await runner.session(session_id="s"), runner.root, may_hang=True)
    result = await runner.run(session_id="s", message="and now?")
    assert result.error is None
    assert result.text == says
    check_laws(result.session, runner.root, may_hang=True)
    assert await runner.session(session_id="s") == result.session
    return result.session


def runs(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a test's coroutine, for no longer than a hang would need to show."""
    asyncio.run(asyncio.wait_for(test(), 120))


def responses(result: weft.Result) -> list[JsonObject]:
    """What the calls of a run returned."""
    return [r.response or {} for event in result.events for r in event.results]
