"""From options to a request: the program, the session and the state that they name."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from weft.checker.check import declared_inputs
from weft.cli.load import app_of, load_node
from weft.cli.options import DEFAULT_STORE, CommandOptions
from weft.cli.printing import hint_names
from weft.compiler import Compilation, compile_request
from weft.compiler.protected import Whole
from weft.declare import Agent, C, Node, RunConfig
from weft.declare.agent import labels_of
from weft.declare.config import shape_of
from weft.declare.policy_parts import Redact, is_pattern
from weft.declare.words import policy_from
from weft.diagnostics import Severity
from weft.dialects import dialect_named
from weft.errors import DeclarationError, SessionError, UsageError
from weft.replay.steps import (
    at_step,
    config_in_dialect,
    homes_of,
    index_of,
    model_events,
    texts_at,
    under_policy,
)
from weft.session import Session, SessionInfo, Store, read_session
from weft.stores import beside_store, open_artifacts, open_store
from weft.values import Json

if TYPE_CHECKING:
    from weft.turns import Turns


def request(options: CommandOptions, *, policy: str | None = None) -> Compilation:
    """Compile what the options ask for; with `step`, the request of that model event.

    `policy` is laid over those of the agents, as it is written in code.
    """
    if options.dialect is not None:
        dialect_named(options.dialect)
    config = RunConfig(
        generate_config=pairs("--option", options.generation or ()),
        model=options.model,
        strict=options.strict,
    )
    session = _read_session_file(options) if options.store is None else None
    artifacts: dict[str, str] | None = None
    root = load_node(options.target)
    state = state_of(root, options.state or ())
    if policy is not None:
        laid_over = policy_from(policy)
        root = under_policy(root, lambda agent: laid_over)
    if options.store is not None:
        session, artifacts = asyncio.run(_load_stored_session(options, options.store, root))
    if options.step is not None:
        if session is None or options.message is not None or state:
            raise UsageError(
                "a step is rebuilt from the session alone",
                where="--step",
                hint="give --session, and neither --message nor --state",
            )
        return at_step(
            root,
            session,
            options.step,
            agent=options.agent,
            dialect=options.dialect,
            config=config,
            artifacts=artifacts,
        )
    home, name = home_of(root, options.agent, where=options.target)
    branch = _branch(session, name or home.name)
    labels = labels_of(root, config)
    part_of = Whole(labels, session or Session()) if labels else None
    compile_with = partial(
        compile_request,
        home,
        state=state or None,
        message=options.message,
        session=session,
        agent=name,
        branch=branch,
        artifacts=artifacts,
        part_of=part_of,
    )
    compiled = compile_with(config=config)
    if options.dialect is None or options.dialect == compiled.dialect:
        return compiled
    spoken = config_in_dialect(options.dialect, compiled, config)
    return compile_with(config=spoken, recorded=compiled.provided)


def last_step(options: CommandOptions) -> int:
    """The number of the last step: how many model events the session, or one agent in it, has."""
    if options.store is None:
        session = _read_session_file(options)
    else:
        session, _ = asyncio.run(
            _load_stored_session(options, options.store, load_node(options.target))
        )
    if session is None:
        raise UsageError(
            "which session?", where="--session", hint="--session FILE, or --store and --session ID"
        )
    return len(model_events(session, options.agent))


def exit_code(compiled: Compilation, *, strict: bool) -> int:
    """1 under `strict` where a diagnostic is an error, else 0."""
    errors = any(diagnostic.severity is Severity.ERROR for diagnostic in compiled.diagnostics)
    return 1 if strict and errors else 0


def pairs(name: str, texts: Sequence[str]) -> dict[str, Json]:
    """`k=v` arguments as values: JSON where they are JSON, else text."""
    values: dict[str, Json] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                f"`{text}` is not a key and a value", where=name, hint=f"{name} key=value"
            )
        values[key.strip()] = value_of(value, where=f"{name} {key.strip()}")
    return values


def state_of(root: Node, texts: Sequence[str]) -> dict[str, Json]:
    """`--state k=v` for a program: an input that it declares as text is taken as it was typed."""
    state = pairs("--state", texts)
    declared = declared_inputs(root)
    for text in texts:
        key, _, value = text.partition("=")
        key = key.strip()
        shape = shape_of(declared.get(key), where=f"inputs.{key}")
        if shape is not None and shape.get("type") == "string":
            state[key] = value
    return state


def value_of(text: str, *, where: str) -> Json:
    """Read a typed value: JSON where it is JSON, else text."""
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text
    except RecursionError:
        raise UsageError(
            "the value nests too deep", where=where, hint="give it as text, or in a --session file"
        ) from None
    return value


def _read_session_file(options: CommandOptions) -> Session | None:
    """The session in a file."""
    if options.session is None:
        return None
    try:
        return read_session(Path(options.session), trusted=options.trusted)
    except SessionError as error:
        if Path(options.session).exists():
            raise
        raise SessionError(
            error.message,
            where=error.where,
            hint=f"name a file; the id of a stored session needs --store, such as"
            f" --store sqlite:///weft.db --session {options.session}",
        ) from None


async def _load_stored_session(
    options: CommandOptions, address: str, root: Node
) -> tuple[Session, dict[str, str]]:
    """The session in a store, and the texts of its artifacts at the step that is asked for."""
    if options.session is None:
        raise UsageError(
            "which session?",
            where="--store",
            hint=f"--session ID; `weft sessions list --store {address}` lists them",
        )
    async with open_existing_store(address) as store:
        app: str | None = options.app or app_of(root, options.target)
        if options.app is None and app != root.name and app not in await store.apps():
            app = None  # a program that runs the flow elsewhere has given it another name
        session = await find_session(store, options.session, app=app, user=options.only_user)
        index = len(session.events)
        if options.step is not None:
            index = index_of(session, options.step, options.agent)
        return session, await texts_at(open_artifacts(beside_store(store)), session, index)


def _branch(session: Session | None, agent: str) -> str | None:
    """The branch an agent stood on when it last spoke."""
    if session is None:
        return None
    return next((e.branch for e in reversed(session.events) if e.author == agent), None)


def home_of(root: Node, name: str | None, *, where: str) -> tuple[Agent, str | None]:
    """The tree that an agent belongs to, and its name there. A flow of several needs a name."""
    if name is None and isinstance(root, Agent):
        return root, None
    homes = homes_of(root)
    if name is None:
        # a flow around one agent: there is nothing to choose
        if len(homes) == 1:
            return next(iter(homes.values())), None
        raise UsageError(
            "this is a flow, and each of its agents has a request of its own",
            where=where,
            hint=f"add --agent NAME: {', '.join(homes)}" if homes else "there is no agent in it",
        )
    if name not in homes:
        if isinstance(root, Agent):
            return root, name  # the compiler says what the tree has
        raise UsageError(
            f"there is no agent `{name}` in this flow",
            where=where,
            hint=hint_names("agents", name, list(homes)),
        )
    return homes[name], name


def read_redactions(texts: Sequence[str]) -> tuple[Redact, ...]:
    """What --redact names, as a policy would have it."""
    names = [
        name.strip() for one in texts for name in ([one] if is_pattern(one) else one.split(","))
    ]
    if not names:
        return ()
    try:
        policy = C.default().redact(*names)
    except DeclarationError as error:
        raise UsageError(error.message, where="--redact", hint=error.hint) from None
    return tuple(one for one in policy.protections if isinstance(one, Redact))


@asynccontextmanager
async def open_existing_store(address: str) -> AsyncGenerator[Store]:
    """Open a store that exists, and close it at the end. Looking for a store makes none."""
    require_existing(address)
    store = open_store(address)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_queue(options: CommandOptions) -> AsyncGenerator[tuple[Store, "Turns"], None]:
    """The store and its queue, while the block runs."""
    from weft.turns import open_turns  # few commands need the queue

    async with open_existing_store(options.address) as store:
        turns = open_turns(store, options.engine)
        try:
            await turns.open()
            yield store, turns
        finally:
            await turns.close()


def require_existing(address: str) -> None:
    """Refuse a store that would be empty: one in memory, or a file that is not there."""
    if address.startswith("memory:"):
        raise UsageError(
            "a store in memory has no sessions when a command starts",
            where="--store",
            hint=f"name a file or a server: --store {DEFAULT_STORE}",
        )
    path = Path(address.removeprefix("sqlite:///"))
    if address.startswith("sqlite:///") and not path.exists():
        near = sorted(file.name for file in path.parent.glob("*.db"))[:6]
        raise UsageError(
            "there is no such file",
            where=str(path),
            hint=f"files there: {', '.join(near)}"
            if near
            else "`weft chat TARGET` makes one; --store sqlite:///FILE names another",
        )


def without_password(address: str) -> str:
    """The address without the passwords it may have, before the host or among the options."""
    address = _PASSWORD_OPTION.sub(r"\1***", address)
    parts = urlsplit(address)
    if parts.password is None:
        return address
    return address.replace(f":{parts.password}@", ":***@", 1)


_PASSWORD_OPTION = re.compile(r"(?i)([?&][a-z_]*password=)[^&#]*")


async def list_sessions(
    store: Store, *, app: str | None, user: str | None, queued: Sequence[str] = ()
) -> list[SessionInfo]:
    """The sessions of one app or of all, the latest first; an error if that is nobody's.

    `queued` are apps for which the user has turns in a queue, and perhaps no session.
    """
    apps = sorted({*await store.apps(), *queued})
    if app is not None and app not in apps:
        raise SessionError(
            f"there is no app `{app}` in this store",
            where="--app",
            hint=hint_names("apps", app, apps),
        )
    infos = [info for name in ([app] if app else apps) for info in await store.sessions(name)]
    infos.sort(key=lambda info: info.last_update_time, reverse=True)
    if user is None:
        return infos
    users = sorted({info.key.user_id for info in infos})
    if user not in users and not ({app} if app else {*apps}) & {*queued}:
        raise SessionError(
            f"the user `{user}` has no session here",
            where="--user",
            hint=hint_names("users", user, users),
        )
    return [info for info in infos if info.key.user_id == user]


async def find_session(
    store: Store,
    id: str,
    *,
    app: str | None,
    user: str | None,
    skip_unreadable: bool = False,
    recent: int | None = None,
) -> Session:
    """Find the session of that id, of any user; an error lists the ids there are."""
    infos = await list_sessions(store, app=app, user=user)
    keys = [info.key for info in infos if info.key.id == id]
    if len(keys) > 1:
        choices = " or ".join(f"--app {key.app_name} --user {key.user_id}" for key in keys[:6])
        raise SessionError(
            f"{len(keys)} sessions are named `{id}`", where="--session", hint=f"add {choices}"
        )
    session = None
    if keys:
        session = await store.get(keys[0], skip_unreadable=skip_unreadable, recent=recent)
    if session is None:
        ids = [info.key.id for info in infos]
        raise SessionError(
            f"there is no session `{id}`",
            where=" ".join(filter(None, (app, user))) or "store",
            hint=hint_names("sessions", id, ids),
        )
    return session
