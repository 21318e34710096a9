"""Tools and callbacks are read: what they take, set and take away of their context's state."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Agent, C, ToolContext, tool
from weft.checker.functions import StateUses, uses_of
from weft.diagnostics import Diagnostic, Severity
from weft.tools import exit_loop

CART = "cart"


def by_names(ctx: Any) -> None:
    state = ctx.state
    state[CART] = [state["sku"], state.get("size", "m")]
    state.update({"total": 3}, paid=True)
    state.setdefault("log", []).append("sold")


def taking_away(ctx: Any) -> None:
    if ctx.state.get("again"):
        del ctx.state["plan"]
    ctx.state["draft"] = None
    ctx.state["kept"] = ctx.state.pop("text")


def on_its_own(ctx: Any) -> str:
    ctx.actions.escalate = True
    return str(ctx.agent_name) + ctx.call_id


def handing_on(ctx: Any) -> None:
    by_names(ctx)


def handing_the_state_on(ctx: Any) -> None:
    Visits.keep(ctx.state)


def by_what_it_is_told(ctx: Any, key: str) -> None:
    ctx.state[key] = 1


def past_the_state(ctx: Any) -> None:
    ctx.actions.state_delta["x"] = 1


def handing_to_a_stranger(ctx: Any) -> None:
    functools.reduce(lambda one, other: other, [1], ctx)


def keeping(ctx: Any) -> None:
    CONTEXTS.append(ctx)


def by_itself(ctx: Any) -> None:
    ctx.state["n"] = 1
    by_itself(ctx)


CONTEXTS: list[Any] = []


async def renaming(callback_context: Any) -> None:
    ctx = callback_context
    await _deeper(1, held=ctx)
    ctx.session.state.get("seen")


async def _deeper(number: int, *, held: Any) -> None:
    held.state["deep"] = held._invocation_context.session.state["given"]


class Visits:
    """Counts under a key of its own."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, ctx: Any) -> None:
        ctx.state[self.key] = ctx.state.get(self.key, 0) + 1

    @staticmethod
    def keep(state: Any) -> None:
        """Keep something."""


def counted(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def around(ctx: Any) -> None:
        ctx.state["calls"] = 1
        function(ctx)

    return around


def test_keys_are_known_by_their_names_in_whatever_way_they_are_written() -> None:
    found = uses_of(by_names)
    assert found.reads == ("sku",)
    assert set(found.asks) == {"log", "size"}
    assert set(found.writes) == {"cart", "log", "paid", "total"}
    assert found.known
    assert not found.escalates


def test_only_what_is_gone_on_every_path_is_taken_away() -> None:
    found = uses_of(taking_away)
    assert set(found.drops) == {"draft", "text"}
    assert found.writes == ("kept",)
    assert found.known


def test_what_a_context_has_beside_the_state_changes_no_key() -> None:
    assert uses_of(on_its_own) == StateUses(reads_all=True, known=True, escalates=True)


@pytest.mark.parametrize(
    "function",
    [handing_to_a_stranger, keeping, by_what_it_is_told, by_itself, counted(by_names), len],
    ids=lambda function: function.__name__,
)
def test_code_that_may_do_more_than_can_be_seen_may_do_anything(function: Any) -> None:
    assert not uses_of(function).known


@pytest.mark.parametrize(
    ("function", "writes"),
    [(handing_on, {"cart", "log", "paid", "total"}), (handing_the_state_on, set()),
     (past_the_state, {"x"}), (renaming, {"deep"}),
     (functools.partial(_deeper, 1), {"deep"})],
    ids=["context", "state", "delta", "renamed", "partial"],
)  # fmt: skip
def test_what_gets_the_context_from_another_function_is_read_too(
    function: Any, writes: set[str]
) -> None:
    found = uses_of(function, "held" if isinstance(function, functools.partial) else "")
    assert {*found.writes} == writes
    assert found.known


def test_an_object_is_read_with_what_it_holds() -> None:
    assert uses_of(Visits("visits")).writes == ("visits",)
    assert uses_of(Visits("calls")).writes == ("calls",)


class Unhashable(Visits):
    """An object that cannot be the key of a cache."""

    __hash__ = None  # type: ignore[assignment]


def test_an_object_without_a_hash_is_read_too() -> None:
    assert uses_of(Unhashable("visits")).writes == ("visits",)


def serious(found: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(one.code, str(one.origin)) for one in found if one.severity is not Severity.INFO]


def look(query: str, ctx: ToolContext) -> str:
    """Look something up."""
    ctx.state["last"] = query
    return query


def note(query: str, ctx: ToolContext) -> str:
    """Note it."""
    ctx.state["last"] = query
    return query


def test_one_tool_in_two_branches_is_no_quarrel_and_two_tools_are() -> None:
    end = Agent("end").instruct("{last}")
    one = (Agent("a", tools=[look]) | Agent("b", tools=[look])) >> end
    assert not serious(weft.check(one))
    two = (Agent("a", tools=[look]) | Agent("b", tools=[note])) >> end
    assert serious(weft.check(two)) == [("WEFT110", "b.tools.note")]


def test_what_a_tool_declares_counts_and_not_what_its_source_shows() -> None:
    declared = tool(writes=["found"])(look)
    end = Agent("end").instruct("{found}")
    assert not serious(weft.check(Agent("a", tools=[declared]) >> end))
    wrong = Agent("a", tools=[declared]) >> Agent("end").instruct("{last}")
    assert serious(weft.check(wrong)) == [("WEFT105", "end.instruction:0")]


def spend(ctx: ToolContext) -> str:
    """Spend."""
    return "spent " + str(ctx.state["pin"])


def test_code_may_look_at_a_secret_that_its_model_may_not() -> None:
    view = C.default().label("secret", "pin")
    payer = Agent("payer", tools=[spend]).instruct("Pay.").sees(view)
    assert not serious(weft.check(payer, inputs={"pin": str}))
    told = payer.instruct("Pay with {pin}.")
    assert serious(weft.check(told, inputs={"pin": str})) == [("WEFT608", "payer.instruction:9")]


def test_a_loop_that_may_be_left_early_leaves_what_was_written_up_to_there() -> None:
    checker = Agent("checker", tools=[exit_loop]).instruct("Check.")
    fixer = Agent("fixer").instruct("Fix.").writes("fixed")
    end = Agent("end").instruct("{fixed}")
    assert serious(weft.check((checker >> fixer) * 3 >> end)) == [("WEFT106", "end.instruction:0")]
    assert not serious(weft.check((fixer >> checker) * 3 >> end))
