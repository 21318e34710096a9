"""One call to run an agent: for scripts, notebooks, and whoever needs no runner yet."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from weft.content import ContentLike
from weft.declare import Node, RunConfig
from weft.declare.elsewhere import RUN_WORDS
from weft.errors import UsageError
from weft.misuse import explained
from weft.runtime.result import Result
from weft.runtime.runner import Runner
from weft.runtime.running import Running
from weft.session import Session, Store
from weft.values import Json


@explained('weft.stream(agent, "message")', words=RUN_WORDS)
def stream(
    root: Node,
    message: ContentLike,
    *,
    state: Mapping[str, Json] | None = None,
    session: Session | None = None,
    config: RunConfig | None = None,
    store: str | Store = "memory://",
    user_id: str = "user",
    session_id: str | None = None,
    plugins: Sequence[object] = (),
) -> Running:
    """Run one invocation and give its events: partial ones as the model speaks, then whole ones."""
    config = msgspec.structs.replace(config if config is not None else RunConfig(), stream=True)
    return _running(root, message, state, session, config, store, user_id, session_id, plugins)


@explained('await weft.run(agent, "message")', words=RUN_WORDS)
def run(
    root: Node,
    message: ContentLike,
    *,
    state: Mapping[str, Json] | None = None,
    session: Session | None = None,
    config: RunConfig | None = None,
    store: str | Store = "memory://",
    user_id: str = "user",
    session_id: str | None = None,
    plugins: Sequence[object] = (),
) -> Running:
    """Run one invocation: await it for its result.

    `session` goes on with an earlier result's: `await run(bot, "And then?", session=r.session)`.
    """
    return _running(root, message, state, session, config, store, user_id, session_id, plugins)


@explained('weft.run_sync(agent, "message")', words=RUN_WORDS)
def run_sync(
    root: Node,
    message: ContentLike,
    *,
    state: Mapping[str, Json] | None = None,
    session: Session | None = None,
    config: RunConfig | None = None,
    store: str | Store = "memory://",
    user_id: str = "user",
    session_id: str | None = None,
    plugins: Sequence[object] = (),
) -> Result:
    """`run` for scripts and notebooks; also where an event loop runs already."""
    return _waited(
        run(
            root,
            message,
            state=state,
            session=session,
            config=config,
            store=store,
            user_id=user_id,
            session_id=session_id,
            plugins=plugins,
        )
    )


def _waited(work: Running) -> Result:
    kept: list[Result] = []

    async def wait() -> None:  # what a loop's first task returns, asyncio spells out twice
        kept.append(await work)

    if not _is_looping():
        asyncio.run(wait())
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, wait()).result()
    return kept[0]


def _is_looping() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _running(
    root: Node,
    message: ContentLike,
    state: Mapping[str, Json] | None,
    session: Session | None,
    config: RunConfig | None,
    store: str | Store,
    user_id: str,
    session_id: str | None,
    plugins: Sequence[object],
) -> Running:
    app_name = None
    _check_session(session)
    if session is not None:
        app_name = session.app_name or None
        user_id = session.user_id or user_id
        session_id = session_id or session.id or None
    runner = Runner(root, app_name=app_name, store=store, plugins=plugins)
    running = runner.run(
        message=message, user_id=user_id, session_id=session_id, state=state, config=config
    )
    return running.alone(session, owned=isinstance(store, str))


def _check_session(session: object) -> None:
    """Refuse what looks like a session but is none: its id, its messages, the result it is in."""
    if session is None or isinstance(session, Session):
        return
    kind = type(session).__name__
    hint = "pass the session of an earlier result: session=result.session"
    if isinstance(session, Result):
        hint = "write session=result.session"
    elif isinstance(session, str):
        hint = f'write session_id="{session}", with the store it is in: store="sqlite:///weft.db"'
    elif isinstance(session, Iterable):
        hint += "; weft.Session(events=[...]) is one of events"
    raise UsageError(f"a {kind} is not a session", where="session", hint=hint)
