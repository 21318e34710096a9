"""What a tool says of the trust of its fields is held against what its function returns."""

import datetime
from typing import Annotated, Literal, Optional, TypedDict

import msgspec
import pytest

from weft import Agent, Tool, check, tool
from weft.declare.return_fields import read_return_fields
from weft.errors import DeclarationError
from weft.values import JsonObject

Code = Annotated[str, msgspec.Meta(pattern="[A-Z]+-[0-9]+")]


class Order(TypedDict):
    id: str
    code: Code
    total: float
    status: Literal["open", "closed"]
    day: datetime.date
    notes: list[str]


def find_order(order: str) -> Order:
    """Find an order."""
    raise NotImplementedError


def find_orders(order: str) -> list[Order | None]:
    """Find orders."""
    raise NotImplementedError


def find_anything(order: str) -> JsonObject:
    """Find anything."""
    raise NotImplementedError


def find_text(order: str) -> Optional[str]:  # noqa: UP045
    """Find a text."""
    raise NotImplementedError


def find_nowhere(order: str) -> "Missing":  # type: ignore[name-defined]  # noqa: F821
    """Find something."""
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "trust", "message"),
    [
        (find_order, {"id": "typed"}, "`id` is typed, and any text may stand there"),
        (find_orders, {"notes": "typed"}, "`notes` is typed, and any text may stand there"),
        (find_order, "typed", "`id` is typed"),
        (find_text, "typed", "`result` is typed"),
        (find_orders, {"statsu": "typed"}, "names `statsu`"),
    ],
)
def test_a_field_that_claims_to_be_typed_and_is_free_text_is_refused(
    function: Tool, trust: object, message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        tool(trust=trust)(function)  # type: ignore[call-overload]


def test_fields_that_cannot_hold_an_order_may_be_typed() -> None:
    fields = {"code", "total", "status", "day"}
    for function in (find_order, find_orders):
        tool(trust={**dict.fromkeys(fields, "typed"), "id": "trusted"})(function)  # type: ignore[call-overload]
    for function in (find_anything, find_nowhere):  # what is not known is judged value by value
        tool(trust={"id": "typed"})(function)  # type: ignore[call-overload]


def test_members_of_an_enumeration_are_known() -> None:
    assert read_return_fields(find_orders).members == {"open", "closed"}


def test_a_voucher_that_is_no_field_is_found_before_a_run() -> None:
    @tool(requires={"order": ["find_order.ordr"]})
    def cancel(order: str) -> str:
        """Cancel an order."""
        return order

    bot = Agent("bot", model="gpt-4o", tools=[tool(find_order), cancel])
    (found,) = [one for one in check(bot) if one.code == "WEFT615"]
    assert "no field ordr" in found.message
