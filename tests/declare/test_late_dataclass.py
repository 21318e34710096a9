"""Nodes are dataclasses like others, of which an import compiles nothing."""

import inspect
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace

import pytest

from weft.declare import Map, Step
from weft.misuse import ByFields, late_dataclass

FIRST_TURN = """
import sys

compiled = []


def note(event, arguments):
    if event == "compile":
        caller = sys._getframe(1)
        while caller.f_code.co_name != "<module>":
            caller = caller.f_back
        if caller.f_globals["__name__"].startswith("weft"):
            compiled.append(caller.f_globals["__name__"])


sys.addaudithook(note)

import asyncio

from weft import Agent, Parallel, Runner, Sequence
from weft.testing import ScriptedModel

result = asyncio.run(Runner(Agent("bot", model=ScriptedModel(["Hi."]))).run("Hello"))
assert result.text == "Hi."
print(len(compiled))
"""


@late_dataclass(frozen=True, repr=False, eq=False)
class Late(ByFields):
    """Compiled for the first value."""

    first: int
    rest: tuple[int, ...] = field(default=(), kw_only=True)
    made: list[int] = field(default_factory=list[int], kw_only=True, compare=False)

    def __post_init__(self) -> None:
        """Add a number, as a node finishes its fields."""
        object.__setattr__(self, "rest", (*self.rest, 7))


@dataclass(frozen=True, repr=False, eq=False)
class Early(ByFields):
    """The same, as Python makes it."""

    first: int
    rest: tuple[int, ...] = field(default=(), kw_only=True)
    made: list[int] = field(default_factory=list[int], kw_only=True, compare=False)


def test_a_late_dataclass_is_what_python_makes() -> None:
    assert is_dataclass(Late)
    assert inspect.signature(Late) == inspect.signature(Early)
    assert [one.name for one in fields(Late)] == ["first", "rest", "made"]
    assert Late(1) == Late(1, made=[2]) != Late(2)
    assert Late(1).made is not Late(1).made
    assert replace(Late(1), first=3).rest == (7, 7)


def test_fields_cannot_be_assigned() -> None:
    late = Late(1)
    for name in ("first", "unknown"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(late, name, 2)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(late, name)


def test_a_subclass_has_attributes_of_its_own() -> None:
    class Own(Late):
        """Has a cache."""

    @dataclass(frozen=True)
    class More(Late):
        """Has a field."""

        last: int = 0

    own = Own(1)
    own.cache = 2  # type: ignore[attr-defined]
    del own.cache  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        own.first = 2  # type: ignore[misc]
    assert More(1, 5).last == 5


def test_a_wrong_call_says_what_to_type() -> None:
    with pytest.raises(TypeError, match="`into` is missing"):
        Map("items", Step(lambda state: None))  # type: ignore[call-arg]


def test_a_first_turn_compiles_little_from_text() -> None:
    """Each class that is made from text costs an import as much as a hundred that are not."""
    command = [sys.executable, "-c", FIRST_TURN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 145
