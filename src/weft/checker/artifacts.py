"""Artifacts: which names the code of a program saves, and which its texts and policies read."""

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, cast

from weft.checker.scope import definition, names_of, text_of, unwrap_function
from weft.declare import Agent, Policy, template
from weft.declare.checks import CALLBACKS
from weft.declare.policy_parts import ArtifactText, When
from weft.diagnostics import Origin

_SAVES = "save_artifact"


class Saved(NamedTuple):
    """The names that a function saves artifacts under, and whether those are all."""

    names: frozenset[str] = frozenset()
    complete: bool = False


def saved_names(agents: Iterable[Agent]) -> tuple[frozenset[str], bool]:
    """The names of artifacts that the code of these agents saves, and whether those are all."""
    saves = [saved_by(function) for agent in agents for function in _code_of(agent)]
    names = frozenset[str]().union(*(one.names for one in saves))
    return names, all(one.complete for one in saves)


def saved_by(function: Callable[..., object]) -> Saved:
    """What one function saves; its source is read, nothing is run."""
    try:
        return _saved(function)
    except TypeError:  # unhashable
        return Saved()


@functools.lru_cache(maxsize=1024)
def _saved(function: Callable[..., object]) -> Saved:
    called, _, _ = unwrap_function(function)
    source = definition(called)
    if source is None:
        return Saved()
    names = names_of(called, {})
    saved: set[str] = set()
    complete = True
    for node in ast.walk(source):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr != _SAVES:
            continue
        named = [one.value for one in node.keywords if one.arg in ("name", "filename")]
        text = text_of(next(iter((*node.args[:1], *named)), None), names)
        complete = complete and text is not None
        if text is not None:
            saved.add(text.removeprefix("user:"))
    return Saved(frozenset(saved), complete)


def _code_of(agent: Agent) -> Iterator[Callable[..., object]]:
    """The functions of its tools and callbacks that may save something."""
    for tool in agent.tools:
        if tool.function is not None and tool.context_parameter is not None:
            yield tool.function
    for name in CALLBACKS:
        callbacks = cast("object", vars(agent).get(name))
        for one in cast(
            "tuple[object, ...]", callbacks if isinstance(callbacks, tuple) else (callbacks,)
        ):
            if callable(one):
                yield one


def files_read_by(agent: Agent) -> Iterator[tuple[str, Origin]]:
    """The artifacts that an agent's texts and policy name, with their places."""
    for field in ("instruction", "global_instruction"):
        text = agent.instruction if field == "instruction" else agent.global_instruction
        for one in template.parse(text).variables if isinstance(text, str) else ():
            if one.artifact:
                yield one.artifact, Origin("field", field, agent.name, one.start, one.end)
    yield from (
        (name, Origin("field", "context", agent.name)) for name in _artifacts_in(agent.policy)
    )


def _artifacts_in(policy: Policy) -> Iterator[str]:
    for stage in policy.stages:
        if isinstance(stage.selector, ArtifactText):
            yield stage.selector.name
        elif isinstance(stage.selector, When):
            yield from _artifacts_in(stage.selector.policy)
