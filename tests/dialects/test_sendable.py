"""Whatever a log holds, a provider can take what is sent: texts, names, ids, and who begins."""

import decimal
import random
import re
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

import weft
from weft import Actions, Agent, C, Content, Event, Part, Session, TokenBudget, WeftError
from weft.content import Blob, call_part, result_part
from weft.dialects.legality import ANYTHING_BUT, Spelling
from weft.errors import SchemaError
from weft.schema import validate_value
from weft.session import Compaction
from weft.testing import ScriptedModel, call

HALF = "half \ud800 x"
NAMES = {
    "gemini-3-pro": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    "claude-sonnet-5": r"[a-zA-Z0-9_-]{1,128}",
    "gpt-5": r"[a-zA-Z0-9_-]{1,64}",
    "http://host/v1#m": r"[a-zA-Z0-9_-]{1,64}",
}
IDS = {
    "gemini-3-pro": r"(?s).+",
    "claude-sonnet-5": r"[a-zA-Z0-9_-]{1,64}",
    "gpt-5": r"[!-~]{1,64}",
    "http://host/v1#m": r"[!-~]{1,40}",
}


def said(number: int, author: str, *parts: Part, role: str = "", **more: Any) -> Event:
    content = Content(parts=parts, role=role or ("user" if author == "user" else "model"))
    return Event(
        author=author, content=content, id=f"e{number}", invocation_id="i",
        timestamp=float(number), **more,
    )  # fmt: skip


def compacted(text: str) -> Event:
    content = Content(parts=(Part(text=text),), role="model")
    held = Compaction(start_timestamp=0.0, end_timestamp=1.5, compacted_content=content)
    return Event(author="bot", id="c", timestamp=2.0, actions=Actions(compaction=held))


def exchange(names_and_ids: list[tuple[str, str]], key: str = "a") -> list[Event]:
    return [
        said(1, "user", Part(text="hi")),
        said(2, "bot", *(call_part(name, {key: name}, id=id) for name, id in names_and_ids)),
        said(3, "bot", *(result_part(name, {key: id}, id=id) for name, id in names_and_ids),
             role="user"),
    ]  # fmt: skip


HALVES: dict[str, list[Event]] = {
    "compaction": [said(1, "user", Part(text="hi")), compacted(HALF), said(3, "user", Part("go"))],
    "ids": exchange([("look", HALF), ("look", "other\udfff")]),
    "names": exchange([(f"look{HALF}", "c1")]),
    "arguments": exchange([("look", "c1")], key=HALF),
    "author": [said(1, "user", Part(text="hi")), said(2, f"ann{HALF}", Part(text="hello"))],
    "text": [said(1, "user", Part(text=HALF))],
    "media": [
        said(
            1,
            "user",
            Part(inline_data=Blob(mime_type="text/plain", data="aGk=", display_name=HALF)),
        )
    ],
    "branch": [said(1, "user", Part(text="hi"), branch=HALF)],
    "invocation": [
        Event(author="user", id=HALF, invocation_id=HALF, content=Content((Part("x"),), "user"))
    ],
}


@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize("name", HALVES)
def test_no_half_character_reaches_the_wire(name: str, model: str) -> None:
    for policy in (C.default(), C.auto()):
        session = Session("s", events=HALVES[name])
        compiled = weft.compile(Agent("bot", model=model, context=policy), session=session)
        msgspec.json.encode(compiled.wire)
        grown = session.append(said(9, "user", Part(text="more")))
        cold = Session("s", events=grown.events)
        wire = weft.compile(Agent("bot", model=model, context=policy), session=grown).wire
        assert wire == weft.compile(Agent("bot", model=model, context=policy), session=cold).wire


@pytest.mark.parametrize("model", NAMES)
def test_no_half_character_of_a_value_reaches_the_wire(model: str) -> None:
    bot = Agent("b", model=model, description="d\ud800", instruction="{k} {artifact.a} {d.x}")
    state = {"k": HALF, "d": {"x": [HALF]}}
    compiled = weft.compile(bot, state=state, artifacts={"a": HALF}, message=HALF)
    msgspec.json.encode(compiled.wire)


def pairs(model: str, wire: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """The names and ids of the calls in a request, and the ids of the results."""
    calls: list[tuple[str, str]] = []
    results: list[str] = []
    for turn in wire.get("contents") or wire.get("messages") or wire.get("input"):
        if model.startswith("gemini"):
            for part in turn["parts"]:
                if "functionCall" in part:
                    calls.append((part["functionCall"]["name"], part["functionCall"]["id"]))
                if "functionResponse" in part:
                    results.append(part["functionResponse"]["id"])
        elif model.startswith("claude"):
            for part in turn["content"]:
                if part["type"] == "tool_use":
                    calls.append((part["name"], part["id"]))
                if part["type"] == "tool_result":
                    results.append(part["tool_use_id"])
        elif model == "gpt-5":
            if turn.get("type") == "function_call":
                calls.append((turn["name"], turn["call_id"]))
            if turn.get("type") == "function_call_output":
                results.append(turn["call_id"])
        else:
            calls += [(c["function"]["name"], c["id"]) for c in turn.get("tool_calls") or ()]
            results += [turn["tool_call_id"]] if turn["role"] == "tool" else []
    return calls, results


ODD = [
    ("my tool/ü", "a"), ("my tool.ü", "b"), ("my_tool_u", "c"), ("n" * 90, "d"), ("n" * 91, "e"),
    ("n" * 200, "f"), ("3x", "e:1 2"), ("", "g"), ("fine", "x" * 80), ("fine", "x" * 81),
    ("fine", "x" * 79 + "y"), ("fine", "ü" * 50), ("fine", "a b"), ("fine", "a_b"), ("\n", "h\0"),
    ("multi_tool_use.parallel", "i"),
]  # fmt: skip


@pytest.mark.parametrize("model", NAMES)
def test_names_and_ids_of_any_log_become_legal_and_stay_apart(model: str) -> None:
    session = Session("s", events=exchange(ODD))
    compiled = weft.compile(Agent("bot", model=model), session=session)
    calls, results = pairs(model, compiled.wire)
    assert [id for _, id in calls] == results
    assert len(set(results)) == len(ODD)
    assert len({name for name, _ in calls}) == len({name for name, _ in ODD})
    for name, id in calls:
        assert re.fullmatch(NAMES[model], name), name
        assert re.fullmatch(IDS[model], id), id
    assert "WEFT611" in {found.code for found in compiled.diagnostics}
    assert ("my_tool_u", "c") in calls


async def test_an_id_that_the_server_gave_goes_back_to_it() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    for dialect in ("openai-chat", "openai-responses", "anthropic", "gemini"):
        long = f"call_{'x' * 80}"
        model = ScriptedModel([call_part("look", {}, id=long), "done"], dialect=dialect)
        await weft.run(Agent("bot", model=model, tools=[look]), "hi")
        assert str(model.wires[1]).count(long) == 2


def test_a_spelling_is_of_the_text_alone() -> None:
    short = Spelling(ANYTHING_BUT, 20)
    assert short.legal("fine-id_1") == "fine-id_1"
    assert short.legal("x" * 40) == short.legal("x" * 40) != short.legal("x" * 41)
    assert all(len(short.legal("ü" * n)) <= 20 for n in range(40))


@pytest.mark.parametrize("model", NAMES)
def test_under_a_small_budget_the_user_begins(model: str) -> None:
    dice = random.Random(3)
    for _ in range(60):
        events: list[Event] = []
        for number in range(dice.randint(1, 12)):
            kind = dice.choice(["user", "bot", "other", "bot"])
            text = f"{kind} {number} " + "word " * dice.choice([1, 5, 60])
            turn = f"i{sum(e.author == 'user' for e in events)}"
            event = said(number, kind, Part(text=text))
            events.append(msgspec.structs.replace(event, invocation_id=turn))
        tokens = dice.choice([60, 100, 150, 250])
        options: dict[str, Any] = dice.choice(
            [
                {"context": C.default().budget(tokens, overflow="drop")},
                {"context": C.default().budget(tokens)},
                {"context": C.window(2).budget(tokens, overflow="drop")},
                {"context": C.default().fit(tokens)},
                {"context_compressor": TokenBudget(tokens)},
            ]
        )
        bot = Agent("bot", model=model, **options)
        try:
            message = dice.choice([None, "now?"])
            compiled = weft.compile(bot, session=Session("s", events=events), message=message)
        except WeftError:  # what must stay does not fit
            continue
        wire: Any = compiled.wire
        turns = wire.get("contents") or wire.get("messages") or wire.get("input")
        spoken = [turn for turn in turns if turn.get("role") != "system"]
        assert spoken[0]["role"] == "user"


def test_the_turn_that_lets_the_user_begin_counts() -> None:
    talk = [("other", 40), ("other", 40), ("bot", 3), ("user", 3)]
    events = [said(n, a, Part(text="word " * size)) for n, (a, size) in enumerate(talk)]
    for tokens in range(60, 140, 4):
        bot = Agent("bot", model="gpt-5", context=C.default().budget(tokens, overflow="drop"))
        try:
            compiled = weft.compile(bot, session=Session("s", events=events), message="now?")
        except WeftError:
            continue
        assert compiled.tokens <= tokens
        assert compiled.wire["input"][0]["role"] == "user"  # type: ignore[index,call-overload]


class Point(BaseModel):
    x: float


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-Infinity", "1e999", " nan "])
@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        (float, lambda t: t),
        (float | None, lambda t: t),
        (list[float], lambda t: [1, t]),
        (dict[str, float], lambda t: {"a": t}),
        (decimal.Decimal, lambda t: t),
        (Point, lambda t: {"x": t}),
        (list[Point], lambda t: [{"x": t}]),
    ],
)
def test_what_is_no_number_passes_for_none(kind: object, wrap: Any, text: str) -> None:
    if kind is decimal.Decimal and text == "1e999":
        return  # as a decimal it is a number
    with pytest.raises(SchemaError):
        validate_value(kind, wrap(text), where="x")


async def test_no_tool_gets_what_is_no_number_in_a_key_a_decimal_or_a_long_text() -> None:
    seen: list[object] = []

    def weigh(
        named: dict[float, str] | None = None,
        exact: decimal.Decimal | None = None,
        plain: float | None = None,
    ) -> str:
        """Weigh."""
        seen.append((named, exact, plain))
        return "weighed"

    bad: list[Any] = [
        call("weigh", named={"nan": "a"}), call("weigh", named={"-inf": "a"}),
        call("weigh", exact="sNaN"), call("weigh", exact="nan12"), call("weigh", plain="1" * 500),
    ]  # fmt: skip
    fine = call("weigh", named={"1.5": "a"}, exact="1" * 500)
    model = ScriptedModel([*bad, fine, "done"])
    await weft.run(Agent("bot", model=model, tools=[weigh]), "go")
    assert seen == [({1.5: "a"}, decimal.Decimal("1" * 500), None)]


def test_a_text_may_still_say_nan() -> None:
    assert validate_value(str, "nan", where="x") == "nan"
    assert validate_value(str | float, "nan", where="x") == "nan"
    assert validate_value(float, "1.5", where="x") == 1.5


async def test_a_tool_is_not_called_with_what_is_no_number() -> None:
    seen: list[float] = []

    def pay(amount: float) -> str:
        """Pay."""
        seen.append(amount)
        return "paid"

    model = ScriptedModel([call("pay", amount="nan"), call("pay", amount="2.5"), "done"])
    await weft.run(Agent("bot", model=model, tools=[pay]), "pay")
    assert seen == [2.5]
    assert "expected number" in str(model.wires[1])
