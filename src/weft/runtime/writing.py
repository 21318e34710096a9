"""What a policy writes into state as an agent runs: what the user said, what it answered."""

from typing import TYPE_CHECKING

from weft.compiler.conditions import decided
from weft.declare.noting import noted
from weft.declare.policy.transforms import Capture, NoteDown, Writing
from weft.runtime.answer import Answer
from weft.values import JsonObject

if TYPE_CHECKING:
    from weft.runtime.agent_run import AgentRun


def captured_by(run: "AgentRun") -> JsonObject:
    """What the user said, under each key that gets it and does not have it already."""
    keys = [one.key for one in _writings(run) if isinstance(one, Capture)]
    if not keys:
        return {}
    said, state = run.invocation.said(run.place), run.invocation.state_at(run.place)
    return {key: said for key in keys if said and state.get(key) != said}


def noted_by(run: "AgentRun", answer: Answer) -> JsonObject:
    """The notes with the answer among them, under each key it is noted down under."""
    notes = [one for one in _writings(run) if isinstance(one, NoteDown)]
    if not notes or answer.problem or answer.held is None:
        return {}
    state = run.invocation.state_at(run.place)
    found: JsonObject = {}
    for one in notes:
        held = found[one.key] if one.key in found else state.get(one.key)
        value = noted(held, answer.held, one.strategy)
        if value is not None and value != held:
            found[one.key] = value
    return found


def _writings(run: "AgentRun") -> tuple[Writing, ...]:
    """What the policy writes as the state is now."""
    policy = run.plan.policy
    if policy.is_conditional:
        policy = policy.resolved(run.invocation.state_at(run.place), decided)
    return policy.writings
