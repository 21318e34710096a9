"""What `compile` and `explain` are given, and the request it makes."""

from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from weft.cli.load import load_agent
from weft.compiler import Compiled, compile
from weft.declare import Agent, RunConfig
from weft.diagnostics import Severity
from weft.dialects import dialect_named, wire_name
from weft.errors import UsageError
from weft.session import Event, Session, read_session
from weft.values import Json

TARGET = Annotated[
    str, typer.Argument(help="pkg.module:object or path/to/file.py:object", show_default=False)
]
MESSAGE = Annotated[
    str | None, typer.Option("-m", "--message", help="What the user says now.", metavar="TEXT")
]
STATE = Annotated[
    list[str] | None,
    typer.Option("--state", help="A state value; JSON where it is JSON, else text.", metavar="K=V"),
]
SESSION = Annotated[
    Path | None, typer.Option("--session", help="A session as ADK's JSON.", metavar="FILE")
]
AGENT = Annotated[
    str | None, typer.Option("--agent", help="Another agent of the tree.", metavar="NAME")
]
DIALECT = Annotated[
    str | None, typer.Option("--dialect", help="Speak another dialect.", metavar="NAME")
]
MODEL = Annotated[str | None, typer.Option("--model", help="Ask another model.", metavar="NAME")]
OPTION = Annotated[
    list[str] | None,
    typer.Option("--option", help="A generation option, such as temperature=0.3.", metavar="K=V"),
]
STRICT = Annotated[bool, typer.Option("--strict", help="Missing variables and losses are errors.")]


class Inputs(NamedTuple):
    """The arguments a request is compiled from."""

    target: str
    message: str | None
    state: list[str]
    session: Path | None
    agent: str | None
    dialect: str | None
    model: str | None
    options: list[str]
    strict: bool


def request(inputs: Inputs, step: int | None = None) -> Compiled:
    """Compile what the arguments ask for; with `step`, the request behind that model event."""
    if inputs.dialect is not None:
        dialect_named(inputs.dialect)
    state = pairs("--state", inputs.state)
    config = RunConfig(
        generate_config=pairs("--option", inputs.options), model=inputs.model, strict=inputs.strict
    )
    session = read_session(inputs.session) if inputs.session is not None else None
    root = load_agent(inputs.target)
    if step is not None:
        return _at_step(root, inputs, step, session, config)
    made = compile(
        root,
        state=state or None,
        message=inputs.message,
        session=session,
        agent=inputs.agent,
        config=config,
    )
    if inputs.dialect is None or inputs.dialect == made.dialect:
        return made
    return compile(
        root,
        state=state or None,
        message=inputs.message,
        session=session,
        agent=inputs.agent,
        config=_speaking(inputs.dialect, made, config),
        recorded=made.provided,
    )


def exit_code(compiled: Compiled, *, strict: bool) -> int:
    """1 where strict found an error, else 0."""
    errors = any(found.severity is Severity.ERROR for found in compiled.diagnostics)
    return 1 if strict and errors else 0


def pairs(name: str, given: list[str]) -> dict[str, Json]:
    """`k=v` arguments as values: JSON where they are JSON, else text."""
    values: dict[str, Json] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                f"`{text}` is not a key and a value", where=name, hint=f"{name} key=value"
            )
        values[key.strip()] = _value(value, where=f"{name} {key.strip()}")
    return values


def _value(text: str, *, where: str) -> Json:
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text
    except RecursionError:
        raise UsageError(
            "the value nests too deep", where=where, hint="give it as text, or in a --session file"
        ) from None
    return value


def _speaking(dialect: str, made: Compiled, config: RunConfig) -> RunConfig:
    """The run's config with the same model in another dialect."""
    return msgspec.structs.replace(config, model=f"{dialect}/{wire_name(made.prompt.model)}")


def _at_step(
    root: Agent, inputs: Inputs, step: int, session: Session | None, config: RunConfig
) -> Compiled:
    """The request that led to the session's n-th model event, rebuilt from the log before it."""
    if session is None or inputs.message is not None or inputs.state:
        raise UsageError(
            "a step is rebuilt from the session alone",
            where="--step",
            hint="give --session FILE, and neither --message nor --state",
        )
    spoken = [
        index
        for index, event in enumerate(session.events)
        if _spoke(event) and inputs.agent in (None, event.author)
    ]
    if not 1 <= step <= len(spoken):
        of = f" of `{inputs.agent}`" if inputs.agent else ""
        raise UsageError(
            f"there is no step {step}; the session has {len(spoken)} model events{of}",
            where="--step",
            hint=f"steps count from 1 to {len(spoken)}" if spoken else "nothing was answered yet",
        )
    event = session.events[spoken[step - 1]]
    after = compile(
        root,
        session=session.before(spoken[step - 1] + 1),
        agent=event.author,
        config=config,
        branch=event.branch,
    )
    if inputs.dialect is not None and inputs.dialect != after.dialect:
        after = compile(
            root,
            session=session.before(spoken[step - 1] + 1),
            agent=event.author,
            config=_speaking(inputs.dialect, after, config),
            branch=event.branch,
            recorded=after.provided,
        )
    assert after.previous is not None
    return after.previous


def _spoke(event: Event) -> bool:
    """Whether a model said this."""
    said = event.content is not None and event.content.role != "user"
    return said and event.author != "user" and not event.partial
