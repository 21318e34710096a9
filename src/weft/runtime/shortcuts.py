"""`weft.run`, `weft.stream` and `weft.run_sync`: one run, without a Runner of one's own."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from weft.content import ContentLike
from weft.declare import Agent, Flow, RunConfig
from weft.declare.agent import T
from weft.declare.hints import RUN_WORDS
from weft.errors import UsageError, describe_kind
from weft.misuse import explain_calls
from weft.runtime.result import Result
from weft.runtime.run import Running
from weft.runtime.runner import Runner
from weft.session import Session, Store
from weft.values import Json


@explain_calls('weft.stream(agent, "message")', words=RUN_WORDS)
def stream(
    root: Agent[T] | Flow,
    message: ContentLike,
    *,
    state: Mapping[str, Json] | None = None,
    session: Session | None = None,
    config: RunConfig | None = None,
    store: str | Store = "memory://",
    user_id: str = "user",
    session_id: str | None = None,
    request_id: str | None = None,
    plugins: Sequence[object] = (),
    deps: object = None,
) -> Running[T]:
    """Run one invocation and give its events: partial ones as the model speaks, then whole ones."""
    config = msgspec.structs.replace(config if config is not None else RunConfig(), stream=True)
    return _running(
        root, message, state, session, config, store, user_id, session_id, request_id, plugins, deps
    )


@explain_calls('await weft.run(agent, "message")', words=RUN_WORDS)
def run(
    root: Agent[T] | Flow,
    message: ContentLike,
    *,
    state: Mapping[str, Json] | None = None,
    session: Session | None = None,
    config: RunConfig | None = None,
    store: str | Store = "memory://",
    user_id: str = "user",
    session_id: str | None = None,
    request_id: str | None = None,
    plugins: Sequence[object] = (),
    deps: object = None,
) -> Running[T]:
    """Run one invocation: await it for its result.

    `session` goes on with an earlier result's: `await run(bot, "And then?", session=r.session)`.
    """
    return _running(
        root, message, state, session, config, store, user_id, session_id, request_id, plugins, deps
    )


@explain_calls('weft.run_sync(agent, "message")', words=RUN_WORDS)
def run_sync(
    root: Agent[T] | Flow,
    message: ContentLike,
    *,
    state: Mapping[str, Json] | None = None,
    session: Session | None = None,
    config: RunConfig | None = None,
    store: str | Store = "memory://",
    user_id: str = "user",
    session_id: str | None = None,
    request_id: str | None = None,
    plugins: Sequence[object] = (),
    deps: object = None,
) -> Result[T]:
    """`run` for scripts and notebooks; also where an event loop runs already."""
    work = _running(
        root, message, state, session, config, store, user_id, session_id, request_id, plugins, deps
    )
    return _wait_for(work)


def _wait_for(work: Running) -> Result[T]:
    results: list[Result] = []

    async def wait() -> None:  # what a loop's first task returns, asyncio spells out twice
        results.append(await work)

    if not _is_looping():
        asyncio.run(wait())
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, wait()).result()
    return results[0]


def _is_looping() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _running(
    root: Agent[T] | Flow,
    message: ContentLike,
    state: Mapping[str, Json] | None,
    session: Session | None,
    config: RunConfig | None,
    store: str | Store,
    user_id: str,
    session_id: str | None,
    request_id: str | None,
    plugins: Sequence[object],
    deps: object,
) -> Running[T]:
    app_name = None
    _check_session(session)
    if session is not None:
        app_name = session.app_name or None
        user_id = session.user_id or user_id
        session_id = session_id or session.id or None
    runner = Runner(root, app_name=app_name, store=store, plugins=plugins)
    running = runner.run(
        message=message,
        user_id=user_id,
        session_id=session_id,
        state=state,
        request_id=request_id,
        config=config,
        deps=deps,
    )
    return running.alone(session, owned=isinstance(store, str))


def _check_session(session: object) -> None:
    """Refuse what looks like a session but is none: its id, its messages, the result it is in."""
    if session is None or isinstance(session, Session):
        return
    what = describe_kind(session)
    hint = "pass the session of an earlier result: session=result.session"
    if isinstance(session, Result):
        hint = "write session=result.session"
    elif isinstance(session, str):
        hint = f'write session_id="{session}", with the store it is in: store="sqlite:///weft.db"'
    elif isinstance(session, Iterable):
        hint += "; weft.Session(events=[...]) is one of events"
    raise UsageError(f"{what} is not a session", where="session", hint=hint)
