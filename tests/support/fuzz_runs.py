"""Random runs: models that babble, tools that return anything, and the logs that come of it.

No exception but a WeftError reaches whoever runs a program, and the log that a run leaves keeps
the laws of compiling.
"""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import itertools
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import msgspec
import pydantic

from tests.support.fuzz_cases import Call, Dice, Word, draw_policy, draw_text, write
from tests.support.fuzz_laws import NAMES, Fault, evaluate, faults_in, raised
from weft import Content, Part, Runner, ToolContext, tool
from weft.content import call_part, media_part, thought_part
from weft.errors import ModelError, WeftError
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, malformed

# --- what tools return


class Colour(enum.Enum):
    """A choice."""

    RED = "r"


class Row(pydantic.BaseModel):
    """A record with a value that is not JSON."""

    price: float = float("nan")


@dataclasses.dataclass
class Place:
    """A record."""

    city: str = "\ud83d"
    inner: object = None


class Rude:
    """An object that cannot even be printed."""

    def __repr__(self) -> str:
        raise ValueError("no")

    __str__ = __repr__


def cycle() -> list[object]:
    """A list that holds itself."""
    value: list[object] = []
    value.append(value)
    return value


def nest(depth: int) -> list[object]:
    """A list in a list, and so on."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def counting() -> Iterator[int]:
    """A generator."""
    yield from range(3)


RETURNS: tuple[Callable[[], object], ...] = (
    lambda: float("nan"), lambda: [float("inf")], lambda: {"x": -float("inf")}, lambda: 10**5000,
    lambda: {"n": [10**5000]}, lambda: 2**80, lambda: b"\x00\xff", lambda: {"data": b"abc"},
    lambda: "\ud83d", lambda: {"\udc00": 1}, lambda: "\x00", cycle, lambda: nest(150),
    lambda: nest(5_000), counting, lambda: (n for n in ()), Rude, lambda: [Rude()],
    lambda: {Rude(): 1}, lambda: {1: 2, "1": 3}, lambda: {(1, 2): 3}, lambda: {None: 1},
    lambda: {1, 2}, lambda: frozenset("ab"), lambda: Colour.RED, Row, lambda: [Row(price=1)],
    Place, lambda: Place(inner=Place(inner=cycle())), lambda: datetime.datetime(2026, 1, 1),
    lambda: datetime.timedelta(1), lambda: decimal.Decimal("NaN"), lambda: decimal.Decimal("1.5"),
    lambda: uuid.UUID(int=1), lambda: Path("a"), lambda: object(), lambda: print, lambda: Rude,
    lambda: threading.Lock(), lambda: 1 + 2j, lambda: range(3), lambda: deque([1]),
    lambda: OrderedDict(a=1), lambda: MappingProxyType({"a": 1}), lambda: memoryview(b"ab"),
    lambda: bytearray(b"ab"), lambda: None, lambda: "", list, dict, lambda: "x" * 300_000,
    lambda: ["y" * 50] * 5_000, lambda: Part(text="part"),
    lambda: Content(parts=(Part(text="a"),)), lambda: media_part("image/png", "!!"),
    lambda: [Part(text="a"), 3], lambda: Part(),
    lambda: Part(function_call=None, inline_data=None, text="\ud83d"),
    lambda: ValueError("returned"), lambda: iter([1]), lambda: itertools.count(),
    lambda: msgspec.UNSET, lambda: NotImplemented, lambda: ..., lambda: {"result": float("nan")},
    lambda: {"error": 10**5000},
)  # fmt: skip


def _raise(error: BaseException) -> None:
    raise error


RAISES: tuple[Callable[[], object], ...] = (
    lambda: _raise(ValueError("\ud83d")), lambda: _raise(KeyError(10**5000)),
    lambda: _raise(RecursionError()), lambda: _raise(MemoryError()),
    lambda: _raise(StopIteration(1)),
    lambda: _raise(ExceptionGroup("several", [ValueError("a")])),
    lambda: _raise(Exception(Rude())),
    lambda: _raise(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")),
    lambda: _raise(OSError(2, "x")), lambda: _raise(AssertionError),
    lambda: _raise(NotImplementedError()), lambda: 1 / 0, lambda: _raise(TimeoutError()),
    lambda: _raise(StopAsyncIteration()),
)  # fmt: skip


@tool
def odd(kind: int = 0) -> object:
    """Return something odd."""
    return RETURNS[kind % len(RETURNS)]()


@tool
async def late(kind: int = 0) -> object:
    """Return something odd, later."""
    await asyncio.sleep(0)
    return RETURNS[kind % len(RETURNS)]()


@tool
def fall(kind: int = 0) -> object:
    """Fail in some way."""
    return RAISES[kind % len(RAISES)]()


@tool
def keep(ctx: ToolContext, kind: int = 0) -> str:
    """Write something odd to the state."""
    ctx.state["intent"] = RETURNS[kind % len(RETURNS)]()  # type: ignore[assignment]
    return "kept"


@tool(confirm=True)
def pay(amount: int = 1) -> str:
    """Pay."""
    return str(amount)


@tool(compact=64)
def dump(kind: int = 0) -> object:
    """Return something large and odd."""
    return {"rows": [RETURNS[kind % len(RETURNS)]()], "text": "line\n" * 400}


TOOLS = ("odd", "late", "fall", "keep", "pay", "dump")


# --- what models say


def babble(seed: int, dialect: str) -> ScriptedModel:
    """A model that says anything."""
    dice = Dice(seed)

    def answer(prompt: Prompt) -> object:
        return _draw_answer(dice, prompt)

    return ScriptedModel([answer] * 400, dialect=dialect)


def _draw_answer(dice: Dice, prompt: Prompt) -> object:
    names = [one.name for one in prompt.tools if one.hosted is None]
    if names and dice.maybe(0.55) and prompt.config.get("tool_choice") != "none":
        calls = [_draw_call(dice, names) for _ in range(dice.one(1, 1, 1, 2, 3))]
        return [*([str(_said(dice))] if dice.maybe(0.2) else []), *calls]
    if dice.maybe(0.03):
        return dice.one(ValueError("no answer"), ModelError("refused"), None, "", [])
    if dice.maybe(0.1):
        return [thought_part("hm", signature="c2ln"), str(_said(dice))]
    if prompt.output is not None and dice.maybe(0.6):
        return '{"city": "Oslo", "days": 1}'
    return str(_said(dice))


def _said(dice: Dice) -> object:
    text = draw_text(dice)
    return NAMES[text] if isinstance(text, Word) else text


def _draw_call(dice: Dice, names: list[str]) -> Part:
    name = dice.one(*names) if not dice.maybe(0.05) else "no_such_tool"
    if name == "transfer_to_agent":
        return call(name, agent_name=dice.one("bot", "helper", "writer", "nobody"))
    if dice.maybe(0.05):
        return malformed(name, "{not json")
    if dice.maybe(0.05):
        return call_part(name, {"kind": dice.one("x", None, 10**30, "\ud83d", [])}, id="same")
    return call(name, kind=dice.randrange(200)) if name != "pay" else call(name, amount=1)


# --- programs


def draw_run(seed: int) -> Call:
    """The program and the messages of a seed."""
    dice = Dice(seed)
    first = _draw_speaker(dice, "bot", seed)
    program: object = first
    kind = dice.random()
    if kind < 0.3:
        child = _draw_speaker(dice, "helper", seed + 1)
        program = first._replace(options={**first.options, "sub_agents": [child]})
    elif kind < 0.6:
        others = [_draw_speaker(dice, name, seed + 2) for name in ("helper", "writer")]
        function = dice.one("Sequence", "Parallel", "Fallback", "Loop", "race")
        options: dict[str, object] = {"max": 2} if function == "Loop" else {}
        program = Call(function, (first, *others), options)
    elif kind < 0.7:
        expert = _draw_speaker(dice, "expert", seed + 3)
        tools = [*(first.options.get("tools") or ()), expert]  # type: ignore[misc]
        program = first._replace(options={**first.options, "tools": tools})
    messages = [str(_said(dice)) or "go" for _ in range(dice.one(1, 2, 3))]
    return Call("Case", (), {"program": program, "looks": messages})


def _draw_speaker(dice: Dice, name: str, seed: int) -> Call:
    dialect = dice.one("gemini", "anthropic", "openai-chat", "openai-responses")
    options: dict[str, object] = {"model": Call("babble", (seed, dialect)), "max_steps": 5}
    if tools := dice.some(TOOLS, 4):
        options["tools"] = [Word(one) for one in tools]
    if dice.maybe(0.3):
        options["context"] = draw_policy(dice)
    if dice.maybe(0.2):
        options["output_key"] = dice.one("draft", "intent")
    if dice.maybe(0.1):
        options["output_schema"] = Word("Trip")
    options["instruction"] = dice.one("Be brief.", "Intent: {intent?} {draft?}")
    return Call("Agent", (name,), options)


NAMES.update({name: globals()[name] for name in (*TOOLS, "babble")})


def run_faults(case: Call) -> list[Fault]:
    """What goes wrong when the program of a case is run, and with the log that it leaves."""
    try:
        drawn = evaluate(write(case))
    except WeftError:
        return []
    return asyncio.run(_run(drawn.program, drawn.looks, case))  # type: ignore[arg-type]


async def _run(program: object, messages: list[str], case: Call) -> list[Fault]:
    faults: list[Fault] = []
    try:
        runner = Runner(program, app_name="fuzz")  # type: ignore[arg-type]
    except WeftError:
        return []
    for message in messages:
        try:
            await asyncio.wait_for(runner.run(message, session_id="s"), 60)
        except WeftError:
            pass
        except Exception as error:
            faults.append(raised("running", error))
    try:
        session = await runner.session(session_id="s")
    except WeftError:
        return faults
    events = [Word(repr(event)) for event in session.events]
    options = {"program": case.options["program"], "state": {}, "events": events}
    return [*faults, *faults_in(write(Call("Case", (), options)))]
