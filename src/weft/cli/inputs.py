"""What `compile` and `explain` are given, and the request it makes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from weft.checker.starting import declared_inputs
from weft.cli.artifacts import texts_at
from weft.cli.homes import home_of
from weft.cli.load import app_of, load_node
from weft.cli.steps import at_step, index_of, model_events, speaking
from weft.cli.stored import find_session, opened
from weft.compiler import Compiled, compile
from weft.compiler.labels import Whole, labels_of
from weft.compiler.policies import policy_from
from weft.declare import Node, Policy, RunConfig
from weft.declare.inputs import shape_of
from weft.declare.rebuild import rebuilt
from weft.diagnostics import Severity
from weft.dialects import dialect_named
from weft.errors import SessionError, UsageError
from weft.session import Session, read_session
from weft.stores import beside_store, open_artifacts
from weft.values import Json


class Inputs(NamedTuple):
    """The arguments a request is compiled from."""

    target: str
    message: str | None = None
    state: Sequence[str] = ()
    session: str | None = None
    store: str | None = None
    app: str | None = None
    user: str | None = None
    agent: str | None = None
    dialect: str | None = None
    model: str | None = None
    options: Sequence[str] = ()
    strict: bool = False
    step: int | None = None
    policy: str | None = None
    trusted: bool = False


def request(inputs: Inputs) -> Compiled:
    """Compile what the arguments ask for; with `step`, the request behind that model event."""
    if inputs.dialect is not None:
        dialect_named(inputs.dialect)
    config = RunConfig(
        generate_config=pairs("--option", inputs.options), model=inputs.model, strict=inputs.strict
    )
    session = _read(inputs) if inputs.store is None else None
    artifacts: dict[str, str] | None = None
    root = load_node(inputs.target)
    state = state_of(root, inputs.state)
    if inputs.policy is not None:
        root = seeing(root, policy_from(inputs.policy))
    if inputs.store is not None:
        session, artifacts = asyncio.run(_stored(inputs, inputs.store, root))
    if inputs.step is not None:
        if session is None or inputs.message is not None or state:
            raise UsageError(
                "a step is rebuilt from the session alone",
                where="--step",
                hint="give --session, and neither --message nor --state",
            )
        return at_step(
            root,
            session,
            inputs.step,
            agent=inputs.agent,
            dialect=inputs.dialect,
            config=config,
            artifacts=artifacts,
        )
    home, name = home_of(root, inputs.agent, where=inputs.target)
    branch = _branch(session, name or home.name)
    labels = labels_of(root, config)
    part_of = Whole(labels, session or Session()) if labels else None
    made = compile(
        home,
        state=state or None,
        message=inputs.message,
        session=session,
        agent=name,
        config=config,
        branch=branch,
        artifacts=artifacts,
        part_of=part_of,
    )
    if inputs.dialect is None or inputs.dialect == made.dialect:
        return made
    return compile(
        home,
        state=state or None,
        message=inputs.message,
        session=session,
        agent=name,
        config=speaking(inputs.dialect, made, config),
        branch=branch,
        artifacts=artifacts,
        recorded=made.provided,
        part_of=part_of,
    )


def last_step(inputs: Inputs) -> int:
    """How many model events the session has, or one agent's: the number of its last step."""
    if inputs.store is None:
        session = _read(inputs)
    else:
        session, _ = asyncio.run(_stored(inputs, inputs.store, load_node(inputs.target)))
    if session is None:
        raise UsageError(
            "which session?", where="--session", hint="--session FILE, or --store and --session ID"
        )
    return len(model_events(session, inputs.agent))


def seeing(root: Node, policy: Policy) -> Node:
    """The same agents, each of which sees what a policy lets it see."""
    return rebuilt(root, lambda agent: agent.sees(policy))


def exit_code(compiled: Compiled, *, strict: bool) -> int:
    """1 where strict found an error, else 0."""
    errors = any(found.severity is Severity.ERROR for found in compiled.diagnostics)
    return 1 if strict and errors else 0


def pairs(name: str, given: Sequence[str]) -> dict[str, Json]:
    """`k=v` arguments as values: JSON where they are JSON, else text."""
    values: dict[str, Json] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                f"`{text}` is not a key and a value", where=name, hint=f"{name} key=value"
            )
        values[key.strip()] = value_of(value, where=f"{name} {key.strip()}")
    return values


def state_of(root: Node, given: Sequence[str]) -> dict[str, Json]:
    """`--state k=v` for a program: an input that it declares as text is taken as it was typed."""
    state = pairs("--state", given)
    declared = declared_inputs(root)
    for text in given:
        key, _, value = text.partition("=")
        key = key.strip()
        shape = shape_of(declared.get(key), where=f"inputs.{key}")
        if shape is not None and shape.get("type") == "string":
            state[key] = value
    return state


def value_of(text: str, *, where: str) -> Json:
    """What somebody typed as a value: JSON where it is JSON, else text."""
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text
    except RecursionError:
        raise UsageError(
            "the value nests too deep", where=where, hint="give it as text, or in a --session file"
        ) from None
    return value


def _read(inputs: Inputs) -> Session | None:
    """The session in a file."""
    if inputs.session is None:
        return None
    try:
        return read_session(Path(inputs.session), trusted=inputs.trusted)
    except SessionError as error:
        if Path(inputs.session).exists():
            raise
        raise SessionError(
            error.message,
            where=error.where,
            hint=f"name a file; the id of a stored session needs --store, such as"
            f" --store sqlite:///weft.db --session {inputs.session}",
        ) from None


async def _stored(inputs: Inputs, address: str, root: Node) -> tuple[Session, dict[str, str]]:
    """The session in a store, and the texts of its artifacts at the step that is asked for."""
    if inputs.session is None:
        raise UsageError(
            "which session?",
            where="--store",
            hint=f"--session ID; `weft sessions list --store {address}` lists them",
        )
    async with opened(address) as store:
        app: str | None = inputs.app or app_of(root, inputs.target)
        if inputs.app is None and app != root.name and app not in await store.apps():
            app = None  # a program that runs the flow elsewhere has given it another name
        session = await find_session(store, inputs.session, app=app, user=inputs.user)
        index = len(session.events)
        if inputs.step is not None:
            index = index_of(session, inputs.step, inputs.agent)
        return session, await texts_at(open_artifacts(beside_store(store)), session, index)


def _branch(session: Session | None, agent: str) -> str | None:
    """The branch an agent stood on when it last spoke."""
    if session is None:
        return None
    return next((e.branch for e in reversed(session.events) if e.author == agent), None)
