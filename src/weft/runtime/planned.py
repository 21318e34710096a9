"""Plans: calls that an agent committed to before it had read anything untrusted.

A reply that nothing untrusted had influence on may fix the consequential calls that are to come,
with `commit_plan`. Text that is read later cannot add one, nor change a value that the plan names.
"""

from collections.abc import Sequence

import msgspec

from weft.content import FunctionCall
from weft.declare.agent import COMMIT_PLAN
from weft.session import Event
from weft.session.flow import base_of
from weft.values import Json, JsonObject


class PlannedStep(msgspec.Struct, frozen=True):
    """One call of a plan; an argument with None in it is left open."""

    tool: str
    arguments: dict[str, Json] = {}

    @property
    def leaves_open(self) -> frozenset[str]:
        """The arguments whose values the plan does not name."""
        return frozenset(name for name, value in self.arguments.items() if value is None)

    def fits(self, tool: str, args: JsonObject) -> bool:
        """Whether a call is this one: with these values, and no argument that is not named."""
        if tool != self.tool or not args.keys() <= self.arguments.keys():
            return False
        return all(
            value is None or args.get(name) == value for name, value in self.arguments.items()
        )


def find_step(
    events: Sequence[Event], tool: str, args: JsonObject, call_id: str
) -> PlannedStep | None:
    """The step of the run's plan that a call is, and that no earlier call was; None without one."""
    run = next((event.invocation_id for event in reversed(events) if event.invocation_id), "")
    own = [event for event in events if event.invocation_id == run and not event.partial]
    failed = {one.id for event in own for one in event.results if "error" in (one.response or {})}
    steps: list[PlannedStep] = []
    for event in own:
        for call in event.calls:
            if call.name == COMMIT_PLAN and not base_of(event).taint:
                steps += _read_steps(call)
            if call.id == call_id:
                return next((one for one in steps if one.fits(tool, args)), None)
            if call.id not in failed:
                _use_up(steps, call)
    return None


def _use_up(steps: list[PlannedStep], call: FunctionCall) -> None:
    from weft.tools.deferred import CALL  # few agents plan

    name, args = call.name, call.args or {}
    if name == CALL and isinstance(inner := args.get("arguments"), dict):
        name, args = str(args.get("name")), inner
    for one in steps:
        if one.fits(name or "", args):
            steps.remove(one)
            return


def _read_steps(call: FunctionCall) -> list[PlannedStep]:
    try:
        return msgspec.convert((call.args or {}).get("steps"), list[PlannedStep])
    except msgspec.ValidationError:
        return []  # the schema of the tool has refused the call
