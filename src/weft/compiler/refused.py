"""What the provider would refuse in a lowered request, with where it came from.

The head is read once for all requests that have it, and so is every turn that stays: what is
known after the settled turns is kept with them. So one more step costs what is new in it.
"""

import functools
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple

from weft.codes import report
from weft.compiler.plan import plan_for
from weft.compiler.sourcemap import SourceMap
from weft.declare import Agent, RunConfig
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.dialects import Lowered, dialect_named
from weft.dialects.refuse import RULES, Finding, Turns, model_name, refused_head
from weft.errors import LoweringError, UsageError
from weft.ir import Prompt


class _HeadFindings(NamedTuple):
    """What is wrong with a head, kept with it."""

    diagnostics: tuple[Diagnostic, ...]


class _Settled:
    """What is known after the turns that stay, and what is wrong with them."""

    def __init__(self, turns: Turns) -> None:
        self.lock = Lock()
        self.turns = turns
        self.length = 0
        self.diagnostics: list[Diagnostic] = []


def refused(lowered: Lowered, model: str) -> tuple[Diagnostic, ...]:
    """One diagnostic for each place that would be answered with a 400."""
    places = SourceMap(lowered)
    name = model_name(lowered.wire, model)
    head = _of_head(lowered, model, name, places)
    return (*head, *_of_turns(lowered, name, places))


def refused_declaration(agent: Agent) -> tuple[Diagnostic, ...]:
    """What would be refused of what an agent declares, whatever is said to it."""
    plan = plan_for(agent, None, RunConfig())
    model, dialect = plan.target.model, plan.target.dialect
    prompt = Prompt(
        model,
        agent.name,
        tools=plan.tools,
        config=plan.config,
        config_origins=plan.origins,
        output=plan.output,
    )
    lowered = dialect_named(dialect).lower(prompt)
    return _of_head(lowered, model, model_name(lowered.wire, model), SourceMap(lowered))


def require_accepted(lowered: Lowered, model: str, allow: Iterable[str]) -> None:
    """Refuse, under strict, what the provider would refuse."""
    for found in refused(lowered, model):
        if found.severity is not Severity.INFO and found.code not in allow:
            raise LoweringError(
                f"{found.message} [{found.code}]", where=str(found.origin), hint=found.hint or ""
            )


def _of_head(lowered: Lowered, model: str, name: str, places: SourceMap) -> tuple[Diagnostic, ...]:
    """What is wrong with everything but the conversation, read once for each head."""
    head, slot = lowered.head, ("refused", lowered.dialect, model)
    kept = head.memo.get(slot)
    if isinstance(kept, _HeadFindings):
        return kept.diagnostics
    of = head.of
    if not (of.tools or of.config or of.output or head.lead) and _is_sound(lowered.dialect, model):
        head.memo[slot] = _HeadFindings(())
        return ()  # nothing in it is the author's but the model and a text
    found = list(refused_head(lowered.dialect, head.wire, model))
    turns = RULES[lowered.dialect].turns(name)
    for index, entry in enumerate(head.lead):
        found += turns.read(entry.wire, f"/{lowered.turns}/{index}")
    diagnostics = _placed(found, places, lowered.head.of.agent)
    head.memo[slot] = _HeadFindings(diagnostics)
    return diagnostics


@functools.lru_cache(maxsize=256)
def _is_sound(dialect: str, model: str) -> bool:
    """Whether a head that asks for nothing but the model is taken."""
    lowered = dialect_named(dialect).lower(Prompt(model, ""))
    return not refused_head(dialect, lowered.head.wire, model)


def _of_turns(lowered: Lowered, name: str, places: SourceMap) -> tuple[Diagnostic, ...]:
    """What is wrong with the conversation; turns that stay are read once."""
    entries, first, rules = lowered.entries, len(lowered.lead), RULES[lowered.dialect]
    slot = ("refused", lowered.dialect, name, first)
    kept = entries.memo.setdefault(slot, _Settled(rules.turns(name)))
    assert isinstance(kept, _Settled)
    with kept.lock:  # to the end: a fork looks at what is settled, which must not grow meanwhile
        if kept.length > entries.settled:  # an older request, asked about after a newer one
            kept = _Settled(rules.turns(name))
        for entry in entries.since(kept.length)[: entries.settled - kept.length]:
            found = list(kept.turns.read(entry.wire, f"/{rules.key}/{first + kept.length}"))
            kept.length += 1
            if found:
                kept.diagnostics += _placed(found, places, lowered.head.of.agent)
        turns, later = kept.turns.fork(), list[Finding]()
        for index, entry in enumerate(entries.since(kept.length), start=first + kept.length):
            later += turns.read(entry.wire, f"/{rules.key}/{index}")
        later += turns.end(lowered.wire)
        return (*kept.diagnostics, *_placed(later, places, lowered.head.of.agent))


def _placed(found: Iterable[Finding], places: SourceMap, agent: str) -> tuple[Diagnostic, ...]:
    return tuple(
        report(each.code, _origin(places, each.pointer, agent), each.message, each.hint)
        for each in found
    )


def _origin(places: SourceMap, pointer: str, agent: str) -> Origin:
    """Where the place came from; for something that is missing, where it would stand."""
    if pointer == "/model":  # of some dialects it is in the address
        return Origin("field", "model", agent)
    while True:
        try:
            return places.origin(pointer)
        except UsageError:
            pointer = pointer.rpartition("/")[0]
