"""K: correct code is not complained about, and what is said names the path, the key and the fix."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import weft
from weft import Agent, CallbackContext, Map, Parallel, Route, S, Step, until
from weft.diagnostics import Diagnostic
from weft.testing import ScriptedModel


class Bill(BaseModel):
    """What an agent extracts."""

    total: float
    lines: list[str]


def tried(state: dict[str, Any]) -> None:
    while True:
        state["plan"] = "x"
        if random.random() > 0.5:
            break


def skipped(state: dict[str, Any]) -> None:
    while True:
        try:
            number = int("3")
        except ValueError:
            continue
        state["plan"] = number
        break


def several(state: dict[str, Any]) -> dict[str, Any] | None:
    count = 0
    while True:
        count += 1
        if count > 3:
            state["plan"] = "a"
            break
        elif count > 2:
            return {"plan": "b"}
    return None


def inner(state: dict[str, Any]) -> None:
    while True:
        for one in (1, 2):
            if one > 1:
                break
        state["plan"] = 1
        if random.random() > 0.5:
            break


def returning(state: dict[str, Any]) -> None:
    while 1:
        state["plan"] = 1
        return


def counted(state: dict[str, Any]) -> None:
    attempts = 0
    while attempts < 3:
        state["plan"] = attempts
        attempts += 1


def flagged(state: dict[str, Any]) -> None:
    done = False
    while not done:
        state["plan"] = 1
        done = random.random() > 0.5


def retried(state: dict[str, Any]) -> None:
    for attempt in range(3):
        state["plan"] = attempt
        if attempt:
            break


def searched(state: dict[str, Any]) -> None:
    for one in state["lines"]:
        if one:
            state["plan"] = one
            break
    else:
        state["plan"] = "none"


def summed(state: dict[str, Any]) -> None:
    state["plan"] = 0
    for _ in state["lines"]:
        state["plan"] += 1


def broken(state: dict[str, Any]) -> None:
    while True:
        if random.random() > 0.5:
            break
        state["plan"] = 1


def perhaps(state: dict[str, Any]) -> None:
    while random.random() > 0.5:
        state["plan"] = 1


def unmatched(state: dict[str, Any]) -> None:
    for one in state["lines"]:
        if one:
            break
    else:
        state["plan"] = "none"


def taken(state: dict[str, Any]) -> None:
    state["plan"] = 1
    while True:
        if random.random() > 0.5:
            break
        del state["plan"]


def found(flow: Any, **options: Any) -> list[Diagnostic]:
    """All that is said of a flow."""
    return weft.check(flow, **options)


def one(flow: Any, code: str) -> Diagnostic:
    """The one finding with a code."""
    (said,) = [each for each in found(flow) if each.code == code]
    return said


@pytest.mark.parametrize(
    "function",
    [tried, skipped, several, inner, returning, counted, flagged, retried, searched, summed],
)
def test_a_loop_of_a_function_writes_what_every_way_out_of_it_wrote(
    function: Callable[..., object],
) -> None:
    flow = Step(function) >> Agent("doer").instruct("Do {plan}.")
    assert not found(flow, inputs={"lines": list[str]})


@pytest.mark.parametrize("function", [broken, perhaps, unmatched, taken])
def test_a_loop_that_may_be_left_before_it_wrote_is_found(function: Callable[..., object]) -> None:
    flow = Step(function) >> Agent("doer").instruct("Do {plan}.")
    said = found(flow, inputs={"lines": list[str]})
    assert [each.code for each in said] in (["WEFT106"], ["WEFT107"])


def measure(state: dict[str, Any]) -> None:
    state["length"] = len(state["item"])
    state["words"] = len(state["item"].split())


BODIES = [
    Step(measure),
    Step(measure) >> S.set(done=True),
    Route("item").eq("x", Step(measure, name="a")).otherwise(Step(measure, name="b")),
    Parallel(Step(measure, name="a"), S.set(done=True)),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_what_a_silent_run_of_a_map_wrote_is_its_output(body: Any) -> None:
    model = ScriptedModel(["done"])
    doer = Agent("doer", model=model).instruct("Use {sizes}.")
    flow = Map("lines", body, into="sizes") >> doer
    assert not found(flow, inputs={"lines": list[str]})
    weft.run_sync(S.set(lines=["a b"]) >> flow, "go")
    assert "length" in str(model.wires[0]) or "done" in str(model.wires[0])


def test_what_a_map_with_a_speaker_wrote_beside_is_still_for_nobody() -> None:
    body = Agent("each").instruct("Say {item}.") >> S.set(done=True)
    flow = Map("lines", body, into="said") >> Agent("doer").instruct("Use {said}.")
    said = found(flow, inputs={"lines": list[str]})
    assert [(each.code, each.origin.agent) for each in said] == [("WEFT112", "set_done")]


def once(ctx: CallbackContext) -> None:
    if "greeted" not in ctx.state:
        ctx.state["greeted"] = True


def once_in_a_step(state: dict[str, Any]) -> None:
    if "greeted" not in state:
        state["greeted"] = True


def test_a_key_that_code_asks_for_is_for_the_next_turn() -> None:
    last = Agent("last").instruct("End.")
    assert not found(Agent("a", after_agent=once).instruct("Go.") >> last)
    assert not found(Agent("a", before_agent=once).instruct("Go.") >> last)
    assert not found(Step(once_in_a_step) >> Agent("a").instruct("Go.") >> last)
    unasked = S.set(greeted=True) >> Agent("a").instruct("Go.") >> last
    assert [each.code for each in found(unasked)] == ["WEFT112"]


def plan_of(name: str) -> Agent:
    return Agent(name).instruct("Plan.").writes("plan")


def test_a_key_on_some_paths_names_the_path_that_lacks_it() -> None:
    reader = Agent("doer").instruct("Do {plan}.")
    route = (
        Route("kind")
        .eq("a", plan_of("x"))
        .eq("b", Agent("y").instruct("Y."))
        .otherwise(plan_of("z"))
    )
    said = [each for each in found(route >> reader, inputs=["kind"]) if each.code == "WEFT106"]
    assert 'not through `route.eq("b")`, which runs `y`' in said[0].message
    loop = Agent("w").instruct("Mend {notes}.").writes("draft") >> Agent("c").instruct(
        "Judge {draft}."
    ).writes("notes")
    assert "not in the first round of `loop`" in one(loop * 3, "WEFT106").message
    choice = plan_of("first") // Agent("second").instruct("Hm.")
    assert "which runs `second`" in one(choice >> reader, "WEFT106").message
    code = Step(perhaps) >> reader
    assert "not on every path through `perhaps`" in one(code, "WEFT106").message
    change = S.when(lambda state: state.get("x"), S.set(plan="a")) >> reader
    assert "S.when(" in one(change, "WEFT106").message


def test_a_misspelt_field_or_condition_says_what_was_meant() -> None:
    bill = Agent("extract").instruct("E.").returns(Bill).writes("bill")
    for reader in (
        Agent("doer").instruct("Pay {bill.totl}."),
        Route("bill.totl").gt(1, Agent("a").instruct("A.")).otherwise(Agent("b").instruct("B.")),
        Step(lambda state: {"x": state["bill"]["totl"]}) >> Agent("c").instruct("{x}"),
    ):
        assert one(bill >> reader, "WEFT109").hint == "did you mean `total`?"
    loop = Agent("w").instruct("W.").writes("approved") * until(
        lambda state: state.get("approvd") == "yes", max=3
    )
    assert one(loop, "WEFT404").hint == "did you mean `approved`?"


def test_a_key_that_is_gone_is_named_as_it_was_typed() -> None:
    bill = Agent("extract").instruct("E.").returns(Bill).writes("bill")
    renamed = one(
        bill >> S.rename(bill="invoice") >> Agent("d").instruct("Pay { bill.total }."), "WEFT107"
    )
    assert '`{ bill.total }` was renamed to `invoice` by `S.rename(bill="invoice")`' in str(renamed)
    assert renamed.hint == "read `{invoice.total}`"
    step = bill >> S.rename(bill="invoice") >> (lambda state: {"x": state["bill"]})
    assert one(step >> Agent("d").instruct("{x}"), "WEFT107").hint == "read `invoice`"
    dropped = bill >> S.drop("bill") >> Agent("d").instruct("Pay {bill}.")
    assert 'dropped by `S.drop("bill")`' in one(dropped, "WEFT107").message
