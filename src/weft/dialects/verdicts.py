"""What a provider would refuse of a request: its head is read once, its turns as they come.

A dialect says what is wrong with one head and with one turn. Here that is asked of whole requests,
at the cost of what is new in them.
"""

import functools
from threading import Lock

import msgspec

from weft.dialects.base import Dialect, model_name
from weft.dialects.facts import is_own
from weft.dialects.legality import MODEL, Finding, Findings, TurnRules
from weft.dialects.names import is_misspelt, suggestion
from weft.dialects.track import Lowered
from weft.dialects.wire import placed_objects
from weft.ir import Prompt
from weft.values import JsonObject


def refusals_of(dialect: Dialect, wire: JsonObject, model: str = "") -> tuple[Finding, ...]:
    """What would be refused of a wire; `model` where the request does not name it."""
    wire = dialect.spell(wire)
    rules = dialect.turn_rules(model_name(wire, model))
    findings = list(_refused_head(dialect, wire, model))
    key = dialect.traits.turns
    for at, turn in placed_objects(wire.get(key), f"/{key}"):
        findings += rules.read(turn, at)
    return (*findings, *rules.end(wire))


def findings_in(dialect: Dialect, lowered: Lowered, model: str) -> tuple[Finding, ...]:
    """What would be refused of a lowered request; what stays of it is read once."""
    head = judged_head(dialect, lowered, model)
    # a request without turns is looked at in any case: most providers refuse it
    if not head.judges_turns and (lowered.final or lowered.rest):
        return head.findings
    return (*head.findings, *_refused_turns(dialect, lowered, head.name))


class JudgedHead(msgspec.Struct, frozen=True):
    """What is wrong with a head, kept with it; and whether turns behind it are looked at."""

    findings: tuple[Finding, ...]
    name: str
    """The name that the provider is given for the model."""
    judges_turns: bool


def judged_head(dialect: Dialect, lowered: Lowered, model: str) -> JudgedHead:
    """What would be refused of everything but the conversation."""
    head = lowered.head
    slot = (JudgedHead, dialect.traits.name, model)
    judged = head.memo.of(slot)
    if judged is None:
        name = model_name(head.wire, model)
        findings = _wrong_with_head(dialect, lowered, model, name)
        judged = head.memo[slot] = JudgedHead(findings, name, dialect.judges_turns(name))
    return judged


def _wrong_with_head(
    dialect: Dialect, lowered: Lowered, model: str, name: str
) -> tuple[Finding, ...]:
    head, of = lowered.head, lowered.head.of
    if not (of.tools or of.config or of.output or head.lead) and _is_sound(dialect, model):
        return ()  # nothing in it is the author's but the model and a text
    findings = [*_refused_head(dialect, head.wire, model)]
    turns = dialect.turn_rules(name)
    for index, entry in enumerate(head.lead):
        findings += turns.read(entry.wire, f"/{lowered.turns}/{index}")
    return tuple(findings)


@functools.lru_cache(maxsize=256)
def _is_sound(dialect: Dialect, model: str) -> bool:
    """Whether a head that asks for nothing but the model is taken."""
    head = dialect.lower(Prompt(model, "")).head
    return not any(True for _ in _refused_head(dialect, head.wire, model))


def _refused_head(dialect: Dialect, wire: JsonObject, model: str) -> Findings:
    """What would be refused of everything but the turns, the model's name included."""
    name = model_name(wire, model)
    if is_own(model) and is_misspelt(name):  # other servers name models as they like
        hint = suggestion(name) or "check the name in the provider's list of models"
        yield Finding(MODEL, "/model", f"there is no model `{name}`", hint)
    yield from dialect.refuse_head(wire, name)


class _JudgedTurns:
    """The rules after the turns that stay, and what is wrong with those."""

    def __init__(self, rules: TurnRules) -> None:
        self.lock = Lock()
        self.rules = rules
        self.length = 0
        self.findings: list[Finding] = []
        self.earlier: _JudgedTurns | None = None
        """The same after fewer turns, for requests that are asked about after later ones."""


def _refused_turns(dialect: Dialect, lowered: Lowered, name: str) -> tuple[Finding, ...]:
    """What would be refused of the conversation; turns that stay are read once."""
    track, final = lowered.track, lowered.final
    first, above = len(lowered.lead), f"/{lowered.turns}"
    slot = (_JudgedTurns, dialect.traits.name, name, first)
    judged = track.memo.of(slot)
    if judged is None:
        judged = track.memo[slot] = _JudgedTurns(dialect.turn_rules(name))
    with judged.lock:  # to the end: what a fork was made of must not grow meanwhile
        if judged.length > final:  # an older request, asked about after a newer one
            earlier = judged.earlier
            if earlier is None or earlier.length > final:
                earlier = judged.earlier = _JudgedTurns(dialect.turn_rules(name))
            judged = earlier
        for wire in track.wires[judged.length : final]:
            judged.findings += judged.rules.read(wire, f"{above}/{first + judged.length}")
            judged.length += 1
        rules, later = judged.rules.fork(), list[Finding]()
        for index, entry in enumerate(lowered.rest, start=first + judged.length):
            later += rules.read(entry.wire, f"{above}/{index}")
        later += rules.end(lowered.wire)
        return (*judged.findings, *later)
