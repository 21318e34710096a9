"""The system instruction on its own: four functions over an agent and an environment.

The environment is what a run would know: a mapping (the state), a session, or a
ReadonlyContext; None is an empty one.
"""

from collections.abc import Mapping
from typing import cast

from weft.compiler.instruction import (
    Instructions,
    ReadonlyContext,
    Scope,
    provide,
    resolve_instructions,
    wording_of,
)
from weft.compiler.plan import output_for
from weft.declare import Agent
from weft.declare.agent import find_path
from weft.declare.template import parse, render
from weft.diagnostics import Origin
from weft.errors import CompileError, describe_kind
from weft.ir import Stability
from weft.session import Session
from weft.values import Json, require_object

Environment = Mapping[str, Json] | Session | ReadonlyContext | None

_STATIC = ("global", "identity", "transfer")

__all__ = ["compile", "compile_split", "resolve_provider", "substitute_vars"]


def substitute_vars(text: str, mapping: Mapping[str, Json]) -> str:
    """The text with its variables replaced; missing ones are left as they are.

    >>> substitute_vars("Hello {name}!", {"name": "World"})
    'Hello World!'
    >>> substitute_vars("Hello {name}!", {})
    'Hello {name}!'
    >>> substitute_vars("No vars here", {})
    'No vars here'
    """
    if not isinstance(cast("object", text), str):
        raise CompileError(
            f"{describe_kind(text)} is not text", where="substitute_vars", hint="pass a string"
        )
    if not isinstance(cast("object", mapping), Mapping):
        raise CompileError(
            f"{describe_kind(mapping)} is not a mapping",
            where="substitute_vars",
            hint='pass {"key": value}',
        )
    return "".join(piece.text for piece in render(parse(text), mapping))


def resolve_provider(provider: object, env: Environment = None) -> str:
    """The provider's text before templating; one that raises is logged and gives ""."""
    return provide(provider, _context(env, ""), Origin("field", "instruction")).text


def compile(agent: Agent, env: Environment = None, *, root: Agent | None = None) -> str:
    """The whole system instruction, its parts in the order they are written."""
    resolved = _resolve(agent, env, root)
    return "\n\n".join(part.block.text for part in resolved.parts)


def compile_split(
    agent: Agent, env: Environment = None, *, root: Agent | None = None
) -> tuple[str, str]:
    """The instruction as (static, dynamic): what a cache may keep, and what may change.

    Static are the global, identity and transfer parts; one that contains variables is dynamic.
    """
    static: list[str] = []
    dynamic: list[str] = []
    for part in _resolve(agent, env, root).parts:
        stays = part.name in _STATIC and part.block.stability is Stability.STATIC
        (static if stays else dynamic).append(part.block.text)
    return "\n\n".join(static), "\n\n".join(dynamic)


def _resolve(agent: Agent, env: Environment, root: Agent | None) -> Instructions:
    for declared in (agent, root):
        if declared is not None and not isinstance(cast("object", declared), Agent):
            raise CompileError(
                f"{describe_kind(declared)} is not an agent",
                where="instructions.compile",
                hint="pass a weft.Agent",
            )
    agents = find_path(root, agent.name) if root is not None else (agent,)
    path = tuple(node for node in agents if isinstance(node, Agent))
    if not path:
        raise CompileError(
            f"`{agent.name}` is not an agent of that root's tree",
            where="instructions.compile",
            hint="pass the root that has it among its sub_agents",
        )
    context = _context(env, agent.name)
    scope = Scope(
        context.state,
        context.artifacts,
        lambda: context,
        on_missing=agent.on_missing,
        on_provider_error=agent.on_provider_error,
    )
    return resolve_instructions(wording_of(path, output_for(path)), scope)


def _context(env: Environment, name: str) -> ReadonlyContext:
    if isinstance(env, ReadonlyContext):
        return env
    if isinstance(env, Session):
        return ReadonlyContext(agent_name=name, state=env.state, events=env.events)
    state = require_object(env, where="env") if env is not None else None
    return ReadonlyContext(agent_name=name, state=state)
