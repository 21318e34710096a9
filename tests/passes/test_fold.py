"""Folds: final, appending, legal, the same cold and grown; everything in them can be recalled."""

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec
import pytest

from tests.support.build import calls, returns, says, user
from tests.support.laws import all_laws
from weft import (
    Actions,
    Agent,
    C,
    Content,
    Event,
    Part,
    RunConfig,
    Session,
    TokenBudget,
    tool,
)
from weft.compiler import Compilation, compile_request
from weft.compiler.costs import break_of
from weft.compiler.receipt import expect
from weft.compiler.tools import values_of
from weft.content import FunctionCall, call_part, result_part
from weft.declare import Policy
from weft.dialects.caching import without_marks
from weft.dialects.strict import check_request
from weft.errors import DeclarationError
from weft.inspector.inspection import Inspection
from weft.ir import CallBlock, Item, ResultBlock, TextBlock
from weft.ir.block import FOLDED
from weft.runtime.recall import found_among
from weft.values import JsonObject

MODELS = ("claude-opus-5", "gpt-5", "gpt-5.6", "gemini-2.5-flash", "http://host/v1#m")

SECRET = "jane.doe@example.org"

WORDS = ("wind", "river", "gauge", "rose", "over", "the", "weir", "and", "fell", "again")


@tool
def read(path: str, lines: str = "") -> str:
    """Read a file."""
    return path


@tool
def ask_back(what: str) -> str:
    """Ask somebody, who answers later."""
    return what


class Scene(NamedTuple):
    """An agent and the log of a session."""

    agent: Agent
    events: list[Event]


def text_of(chance: random.Random, step: int) -> str:
    """A result: prose, code with numbered lines, a list of paths, or a failure."""
    lines = chance.randrange(20, 220)
    match chance.randrange(4):
        case 0:
            body = [" ".join(chance.choices(WORDS, k=12)) for _ in range(lines)]
        case 1:
            body = [
                f"{n:5}\tpart_{n % 7}({' '.join(chance.choices(WORDS, k=8))})"
                for n in range(1, lines)
            ]
        case 2:
            body = [f"src/pkg_{step}/{' '.join(chance.choices(WORDS, k=6))}" for _ in range(lines)]
        case _:
            body = ["Traceback:", *chance.choices(WORDS, k=lines), f"ValueError: bad_key_{step}"]
    return "\n".join((*body, f"owner {SECRET}, ticket T-{step:04}"))


def events_of(seed: int, steps: int = 45) -> list[Event]:
    """A session with long results, several at once, other agents, turns, and an open call."""
    chance = random.Random(seed)
    inv = "i0"
    events = [user(f"Mend module_{seed}, please.", inv=inv)]
    for step in range(steps):
        dice = chance.random()
        if dice < 0.08:
            events.append(says("bot", f"Done with part {step}: it was bad_key_{step}.", inv=inv))
            inv = f"i{step + 1}"
            events.append(user(f"Now go on with number_{step}. " + "Why? " * 40, inv=inv))
        elif dice < 0.16:
            events.append(says("helper", f"I would look at pkg_{step}/module_1.py first.", inv=inv))
        elif dice < 0.26:
            both = (f"c{step}a", f"c{step}b")
            parts = tuple(call_part("read", {"path": f"src/pkg/{one}.py"}, id=one) for one in both)
            results = (result_part("read", {"result": text_of(chance, step)}, id=o) for o in both)
            events.append(Event("bot", Content(role="model", parts=parts), invocation_id=inv))
            events.append(
                Event("bot", Content(role="user", parts=tuple(results)), invocation_id=inv)
            )
        else:
            args = {"path": f"src/pkg_{step % 9}/module_{step}.py"}
            result: JsonObject = {"result": text_of(chance, step)}
            if dice > 0.93:
                result = {"error": f"there is no module_{step}.py, says {SECRET}"}
            events.append(calls("bot", "read", args, f"c{step}", inv=inv))
            events.append(returns("bot", "read", result, f"c{step}", inv=inv))
    return [
        msgspec.structs.replace(event, id=f"e{at}", timestamp=float(at))
        for at, event in enumerate(events)
    ]


def scene(seed: int, model: str, policy: Policy, **more: object) -> Scene:
    agent = Agent("bot", model=model, tools=[read, ask_back], instruction="Be brief. " * 40)
    return Scene(agent.sees(policy), events_of(seed))


def requests(scene: Scene) -> Iterator[tuple[int, Compilation]]:
    """Each request of the agent, as the log grows."""
    grown = Session("s", events=scene.events[:1])
    for at, event in enumerate(scene.events[1:], 1):
        if event.author == "bot" and event.content is not None and event.content.role == "model":
            yield at, compile_request(scene.agent, session=grown)
        grown = grown.append(event)
    yield len(scene.events), compile_request(scene.agent, session=grown)


def notes_in(compiled: Compilation) -> list[str]:
    return [
        block.text
        for item in compiled.prompt.items
        for block in item.blocks
        if isinstance(block, TextBlock) and block.origin == FOLDED
    ]


def steps_in(notes: list[str]) -> list[int]:
    return [int(one) for note in notes for one in re.findall(r"^#(\d+) ", note, re.MULTILINE)]


POLICIES = {
    "fold": C.default().fold(),
    "fold keeps more": C.default().fold(keep=9),
    "auto": C.auto(),
    "careful": C.auto(careful=True),
    "redacted": C.auto().redact("email"),
    "redacted and labelled": C.default().fold().redact("email").label("private", "plan"),
    "with a step": C.auto().fresh(turns=4, stale="compact"),
    "union": C.auto() + C.state("plan"),
    "fenced": C.default().fold().fence(),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_fold_is_final_legal_and_whole(name: str) -> None:
    folded = 0
    with all_laws() as laws:
        # each policy on some of the models, so that each has its turn
        for seed, model in [*enumerate(MODELS)][[*POLICIES].index(name) % 2 :: 2]:
            one = scene(seed, model, POLICIES[name])
            before: list[str] = []
            for at, compiled in requests(one):
                notes = notes_in(compiled)
                session = Session("s", events=one.events[:at])
                scenery = (one, compiled, session, before)
                laws.check(f"{model} at {at}", LAWS, *scenery)
                if notes != before or at == len(one.events):
                    laws.check(f"{model} at {at}", SLOW_LAWS, *scenery)
                before = notes
            folded += len(before)
    assert folded > 1, "nothing was folded"


def the_notes_before_stay_as_they_are(
    one: Scene, compiled: Compilation, session: Session, before: list[str]
) -> None:
    assert notes_in(compiled)[: len(before)] == before


def the_provider_takes_it(
    one: Scene, compiled: Compilation, session: Session, before: list[str]
) -> None:
    assert compiled.wire
    assert [d for d in compiled.diagnostics if d.severity.name == "ERROR"] == []


def every_step_is_in_view_or_in_a_note(
    one: Scene, compiled: Compilation, session: Session, before: list[str]
) -> None:
    whole = compile_request(one.agent.sees(C.default()), session=session)
    shown = [item for item in compiled.prompt.items if item.kind != "summary"]
    folded = folded_items(compiled)
    named, shown_pieces = pieces_of(folded), pieces_of(shown)
    assert len(named) == len({*named}), "a step stands in two notes"
    assert not {*shown_pieces} & {*named}, "a step is in view and in a note"
    assert {*pieces_of(whole.prompt.items)} <= {*shown_pieces, *named}
    assert {item.position for item in folded} == {*steps_in(notes_in(compiled))}


def folded_items(compiled: Compilation) -> list[Item]:
    """The items that went into notes, or what of them did."""
    notes = (note for step in compiled.steps for note in step.notes if note.after is None)
    return [note.before for note in notes if note.step == FOLDED.name]


def pieces_of(items: Iterable[Item]) -> list[tuple[int, str]]:
    """Each step by its place in the log; of one with calls each of them by its id."""
    return [(item.position, call) for item in items for call in call_ids(item) or [""]]


def call_ids(item: Item) -> list[str]:
    """The calls of an item, each of which has one result."""
    made = [block.id for block in item.blocks if isinstance(block, CallBlock)]
    answered = [block.call_id for block in item.blocks if isinstance(block, ResultBlock)]
    assert item.open or sorted(made) == sorted(answered), "a call is apart from its result"
    return made


def what_is_asked_now_stays(
    one: Scene, compiled: Compilation, session: Session, before: list[str]
) -> None:
    asked = [event for event in session.events if event.author == "user"][-1]
    assert asked.content is not None
    shown = [text for item in compiled.prompt.items if item.kind == "user" for text in texts(item)]
    assert any(asked.content.text in text for text in shown)


def nothing_to_be_replaced_is_in_a_note(
    one: Scene, compiled: Compilation, session: Session, before: list[str]
) -> None:
    redacts = any(type(each).__name__ == "Redact" for each in compiled.policy.protections)
    if redacts:
        for note in notes_in(compiled):
            assert "jane" not in note
            assert "example.org" not in note


def texts(item: Item) -> list[str]:
    return [block.text for block in item.blocks if isinstance(block, TextBlock)]


def a_cold_log_gives_the_same_request(
    one: Scene, compiled: Compilation, session: Session, before: list[str]
) -> None:
    assert compile_request(one.agent, session=session).wire == compiled.wire


def every_folded_step_can_be_recalled(
    one: Scene, compiled: Compilation, session: Session, before: list[str]
) -> None:
    assert not notes_in(compiled) or any(t.name == "recall" for t in compiled.prompt.tools)
    known = values_of(session.events)
    for step in steps_in(notes_in(compiled))[:6]:
        said = recalled(known, step)
        for text in said_in(session, step):
            assert text in said


def said_in(session: Session, step: int) -> list[str]:
    """What a step said, called and returned, line by line."""
    event = session.events[step]
    parts = list((event.content.parts if event.content else None) or ())
    ids = {part.function_call.id for part in parts if part.function_call}
    for later in session.events.since(step + 1):
        for part in (later.content.parts if later.content else None) or ():
            if part.function_response and part.function_response.id in ids:
                parts.append(part)
    lines: list[str] = []
    for part in parts:
        if part.text:
            lines += part.text.split("\n")
        if part.function_call and part.function_call.args:
            lines += map(str, part.function_call.args.values())
        if part.function_response and part.function_response.response:
            lines += str(next(iter(part.function_response.response.values()))).split("\n")
    return lines


def recalled(known: object, step: int) -> str:
    """All pages of a step."""
    pages: list[str] = []
    for page in range(1, 50):
        asked = FunctionCall(name="recall", args={"handle": f"#{step}", "page": page})
        response = found_among(known, asked).response or {}  # type: ignore[arg-type]
        if "error" in response:
            break
        pages.append(str(response["result"]))
        if "more: recall" not in pages[-1]:
            break
    return "\n".join(pages)


LAWS = (
    the_notes_before_stay_as_they_are,
    what_is_asked_now_stays,
    nothing_to_be_replaced_is_in_a_note,
)
SLOW_LAWS = (
    the_provider_takes_it,
    every_step_is_in_view_or_in_a_note,
    a_cold_log_gives_the_same_request,
    every_folded_step_can_be_recalled,
)


def last_of(policy: Policy, events: list[Event], model: str = "gpt-5") -> Compilation:
    agent = Agent("bot", model=model, tools=[read, ask_back]).sees(policy)
    return compile_request(agent, session=Session("s", events=events))


def test_what_is_pinned_or_waited_for_is_not_folded() -> None:
    events = events_of(3, steps=60)
    waits = [
        Event(
            "bot", Content(role="model", parts=(call_part("ask_back", {"what": "x"}, id="w"),)),
            invocation_id="i0", long_running_tool_ids=("w",), id="w0", timestamp=0.5,
        )
    ]  # fmt: skip
    compiled = last_of(C.default().fold(), [*events[:1], *waits, *events[1:]])
    assert notes_in(compiled)
    calls_in_view = [
        block.name
        for item in compiled.prompt.items
        for block in item.blocks
        if isinstance(block, CallBlock)
    ]
    assert "ask_back" in calls_in_view
    pinned = last_of(C.default().priority(1).fold(), events)
    assert notes_in(pinned) == []


@pytest.mark.parametrize("lines", [40, 90, 220])
@pytest.mark.parametrize("model", ["claude-opus-5", "gpt-5"])
def test_who_reads_one_file_after_the_other_is_folded_whatever_their_size(
    model: str, lines: int
) -> None:
    events: list[Event] = []
    for number in range(26):
        path = f"src/module_{number}.py"
        text = "\n".join(f"{n}: value_{n} = compute({n}, of={path!r})" for n in range(lines))
        inv = f"i{number}"
        events += [
            user(f"Look at {path}", inv=inv),
            calls("bot", "read", {"path": path}, id=f"c{number}", inv=inv),
            returns("bot", "read", {"result": text}, id=f"c{number}", inv=inv),
            says("bot", "I have seen it.", inv=inv),
        ]
    compiled = last_of(C.auto(), [*events, user("What now?", inv="i26")], model)
    plain = last_of(C.default(), [*events, user("What now?", inv="i26")], model)
    assert compiled.tokens < 0.6 * plain.tokens


def test_a_labelled_result_never_gets_into_a_note() -> None:
    events = events_of(4, steps=60)
    policy = C.default().fold().label("private", tools=["read"])
    compiled = last_of(policy, events)
    assert "module_1" not in "\n".join(notes_in(compiled))
    assert SECRET not in str(compiled.wire)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("begins", ["", "words", "thought", "signed"])
def test_of_several_calls_at_once_those_that_are_over_are_folded(model: str, begins: str) -> None:
    events = [*read_at_once(model, begins), *reread("src/file_2.py", times=60)]
    compiled = last_of(C.default().fold(), events, model)
    first = next(item for item in compiled.prompt.items if item.kind == "exchange")
    folded = {call for item in folded_items(compiled) for call in call_ids(item)}
    # the first call stays where its signature does
    stays = {"at0", "at2"} if is_signed(first) else {"at2"}
    assert {*call_ids(first)} == stays
    assert {"at0", "at1", "at2", "at3"} - stays <= folded
    words = [block for block in first.blocks if not isinstance(block, CallBlock | ResultBlock)]
    assert bool(words) == (begins in ("words", "thought"))
    assert check_request(compiled.dialect, compiled.wire, model) == ()
    assert "line 7 of file_3" in recalled(values_of(Session("s", events=events).events), 1)


@pytest.mark.parametrize("model", MODELS)
def test_of_several_calls_at_once_all_are_folded_in_the_end(model: str) -> None:
    events = [*read_at_once(model, "thought"), *reread("src/file_2.py", times=60)]
    events += reread("src/other.py", times=60, start=60)
    compiled = last_of(C.default().fold(), events, model)
    assert 1 not in [item.position for item in compiled.prompt.items if item.kind != "summary"]
    named = [call for item in folded_items(compiled) for call in call_ids(item)]
    assert sorted(one for one in named if one.startswith("at")) == ["at0", "at1", "at2", "at3"]


def read_at_once(model: str, begins: str) -> list[Event]:
    """What the user asks, and four files that are read in one step."""
    dialect = compile_request(Agent("bot", model=model), session=Session("s")).dialect
    mine = {"weft": {"provider": dialect}}
    parts = [call_part("read", {"path": f"src/file_{n}.py"}, id=f"at{n}") for n in range(4)]
    if begins == "words":
        parts.insert(0, Part(text="I read them all."))
    elif begins == "thought":
        thought = Part(text="Four files.", thought=True, thought_signature="c2ln")
        parts.insert(0, msgspec.structs.replace(thought, part_metadata=mine))
    elif begins == "signed":
        signed = {"thought_signature": "c2ln", "part_metadata": mine}
        parts[0] = msgspec.structs.replace(parts[0], **signed)
    texts = ["\n".join(f"{k:5}\tline {k} of file_{n}" for k in range(1, 90)) for n in range(4)]
    results = [result_part("read", {"result": text}, id=f"at{n}") for n, text in enumerate(texts)]
    return [
        user("Mend it, please.", inv="i0"),
        Event("bot", Content(role="model", parts=tuple(parts)), invocation_id="i0"),
        Event("bot", Content(role="user", parts=tuple(results)), invocation_id="i0"),
    ]


def reread(path: str, times: int, start: int = 0) -> list[Event]:
    """Steps that name a file again and again."""
    events: list[Event] = []
    for n in range(start, start + times):
        said = {"path": path, "lines": f"{n}-{n + 1}"}
        events.append(calls("bot", "read", said, f"r{n}", inv="i0"))
        words = " ".join(f"word_{n}" for _ in range(160))
        events.append(returns("bot", "read", {"result": words}, f"r{n}", inv="i0"))
    return events


def is_signed(item: Item) -> bool:
    return any(isinstance(block, CallBlock) and block.signature for block in item.blocks)


def events_before(events: list[Event], invocation: str) -> int:
    return next(at for at, event in enumerate(events) if event.invocation_id == invocation)


def test_a_rewind_into_a_fold_takes_its_steps_out_of_the_note() -> None:
    events = events_of(5, steps=60)
    turns = [event.invocation_id for event in events if event.author == "user"]
    last = last_of(C.default().fold(), events)
    assert max(steps_in(notes_in(last))) > events_before(events, turns[-2])
    rewound = Event(
        "user", invocation_id="r", id="r", timestamp=900.0,
        actions=Actions(rewind_before_invocation_id=turns[-2]),
    )  # fmt: skip
    after = [user("And now?", inv="z", id="z", timestamp=901.0)]
    compiled = last_of(C.default().fold(), [*events, rewound, *after])
    first = events_before(events, turns[-2])
    assert all(step < first for step in steps_in(notes_in(compiled)))
    assert compiled.wire
    cold = last_of(C.default().fold(), [*events, rewound, *after])
    assert cold.wire == compiled.wire


def test_a_step_that_is_not_there_gets_a_clear_answer() -> None:
    events = events_of(6, steps=60)
    session = Session("s", events=events)
    for handle, words in (
        ("#9999", "there is no step #9999 to get back; steps #0 to"),
        ("abcdefabcdef", "there is no handle 'abcdefabcdef' in this session"),
    ):
        asked = FunctionCall(name="recall", args={"handle": handle})
        response = found_among(values_of(session.events), asked).response or {}
        assert words in str(response["error"])
    # the text of a step that retention took out of the log
    erased = msgspec.structs.replace(events[0], content=None)
    asked = FunctionCall(name="recall", args={"handle": "#0"})
    left = Session("s", events=[erased, *events[1:]])
    response = found_among(values_of(left.events), asked).response or {}
    assert "there is no step #0" in str(response["error"])


def test_lines_and_queries_get_a_part_of_a_step() -> None:
    text = "\n".join(f"line {n}: gauge_{n} rose" for n in range(1, 401))
    events = [
        user("Go", id="u"),
        calls("bot", "read", {"path": "a.py"}, "c1"),
        returns("bot", "read", {"result": text}, "c1"),
    ]
    known = values_of(Session("s", events=events).events)

    def get(**args: object) -> str:
        asked = FunctionCall(name="recall", args={"handle": "#1", **args})  # type: ignore[dict-item]
        return str((found_among(known, asked).response or {})["result"])

    assert get(lines="12-14").endswith("line 12: gauge_12 rose\nline 13: gauge_13 rose\n"
                                       "line 14: gauge_14 rose")  # fmt: skip
    assert "gauge_217 rose" in get(query="gauge_217")
    assert len(get(query="gauge_217")) < 600
    assert "path: a.py" in get()


def test_what_cannot_be_folded_is_said_and_the_request_is_legal() -> None:
    events = events_of(3, steps=60)
    pins, head = C.default().priority(1).fold(), "Write well. " * 4_000
    for model, policy, instruction, words in (
        ("gpt-5", pins, "", "info[WEFT509] none of 68 steps may be folded: all are in tier 1"),
        ("gpt-4", pins, "", "of them stand before the conversation; none of 68 steps"),
        ("gpt-4", C.auto(), head, "write a shorter instruction, or fewer tools"),
    ):
        agent = Agent("bot", model=model, tools=[read, ask_back], instruction=instruction)
        compiled = compile_request(agent.sees(policy), session=Session("s", events=events))
        (found,) = [str(one) for one in compiled.diagnostics if one.code == "WEFT509"]
        assert words in found, found
        assert check_request(compiled.dialect, compiled.wire, model) == ()
    few = compile_request(
        Agent("bot", model="gpt-4", instruction=head).sees(C.auto()),
        session=Session("s", events=events[:1]),
    )
    assert [one.code for one in few.diagnostics] == ["WEFT509"]


@pytest.mark.parametrize("policy", [C.auto(), C.default().fold(), C.default()])
def test_what_a_union_pins_is_not_folded(policy: Policy) -> None:
    united = C.user().priority(1) + policy
    for pinned in (united.budget(60_000), united if policy != C.default() else united.fold()):
        compiled = last_of(pinned, events_of(3, steps=60))
        words = [text for item in compiled.prompt.items for text in texts(item)]
        assert [
            one for one in events_of(3, 60) if one.author == "user" and one.text not in words
        ] == []


def test_a_budget_folds_nothing_that_its_agent_does_not_see() -> None:
    for policy in (C.window(2), C.relevant(top_k=2), C.select(kind="user")):
        assert notes_in(last_of(policy.budget(16_000), events_of(3, steps=60))) == []


def test_each_fold_is_explained_where_it_is_made_with_its_price_and_gain() -> None:
    one = scene(1, "gpt-5", C.default().fold())
    before = folds = 0
    for at, compiled in requests(one):
        if len(notes_in(compiled)) == before:
            continue
        before, folds = len(notes_in(compiled)), folds + 1
        report, film = (
            compiled.explain(),
            Inspection(one.agent, Session("s", events=one.events[: at + 1])).film(),
        )
        reasons = [row.reason for row in report.left_out if row.action == "added"]
        said = re.sub(r"\s+", " ", str(report))
        assert all(reason in said for reason in reasons)
        price = reasons[-1].partition(";")[0]
        assert re.fullmatch(
            r"\d+ steps became a note of [\d,]+ tokens, which costs [\d,]+ fresh tokens"
            r" and saves [\d,]+ at each later request", price
        )  # fmt: skip
        assert compiled.prefix_break is not None
        assert price in compiled.prefix_break.reason
        assert compiled.prefix_break.lost_tokens <= compiled.tokens
        assert price in expect(compiled).blame
        assert price in str(film["frames"][-1])  # type: ignore[index, call-overload]
        broken = break_of(compiled)
        assert broken is not None
        assert broken.passes == ("fold_steps",)
    assert folds > 2


BUDGETS = {
    "budget": (C.default().budget(20_000), None),
    "auto": (C.auto().budget(20_000), None),
    "token budget": (C.default(), TokenBudget(20_000, keep_recent=3)),
    "small": (C.default().budget(6_000), None),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_is_kept_by_folds_in_batches(name: str) -> None:
    policy, compressor = BUDGETS[name]
    limit = compressor.token_budget if compressor is not None else policy.limit.tokens  # type: ignore[union-attr]
    for seed, model in enumerate(MODELS[1:]):
        one = scene(seed, model, policy)
        one = one._replace(agent=replace(one.agent, context_compressor=compressor))
        broken, before, count = 0, list[object](), 0
        for at, compiled in requests(one):
            assert compiled.tokens <= limit
            turns = [item.key for item in compiled.prompt.items]
            broken += turns[: len(before)] != before
            before, count = turns, count + 1
            if at % 9 == 0:
                cold = compile_request(one.agent, session=Session("s", events=one.events[:at]))
                assert cold.wire == compiled.wire
        # where the newest steps alone exceed a budget, each request gives something up
        assert name == "small" or broken <= count / 3, model


def test_a_fold_leaves_no_thought_after_it_that_is_bound_to_what_was_before() -> None:
    chance = random.Random(8)
    events = [user("Go", inv="i0", id="u", timestamp=0.0)]
    for step in range(90):
        thought = Part(text="hm", thought=True, thought_signature="c2ln")
        parts = (thought, call_part("read", {"path": f"f{step}.py"}, id=f"c{step}"))
        made = {"weft": {"provider": "anthropic", "model": "claude-opus-5-5"}}
        asked = Event(
            "bot", Content(role="model", parts=parts), invocation_id="i0", custom_metadata=made
        )
        text = text_of(chance, step)
        events += [asked, returns("bot", "read", {"result": text}, f"c{step}", inv="i0")]
    events = [
        msgspec.structs.replace(event, id=f"e{at}", timestamp=float(at))
        for at, event in enumerate(events)
    ]
    for model, folds in (("claude-opus-5-5", False), ("claude-opus-5", True)):
        assert bool(notes_in(last_of(C.default().fold(), events, model))) is folds
    binding: JsonObject = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    config = RunConfig(generate_config={"extra": {"anthropic": {"thinking": binding}}})
    agent = Agent("bot", model="claude-opus-5-5", tools=[read]).sees(C.default().fold())
    grown, sent, folded = Session("s"), dict[str, list[object]](), False
    for event in events:
        if event.author == "bot" and event.content is not None and event.content.role == "model":
            compiled = compile_request(agent, session=grown, config=config)
            folded = folded or bool(notes_in(compiled))
            turns = [without_marks(turn) for turn in compiled.wire["messages"]]
            for at, turn in enumerate(turns):
                parts = turn["content"]
                if any(part["type"] == "thinking" for part in parts):
                    assert turns[:at] == sent[parts[-1]["id"]]
            call = event.content.parts[-1].function_call
            assert call is not None
            sent[str(call.id)] = turns
        grown = grown.append(event)
    assert folded
    done = [
        *events,
        says("bot", "Done.", inv="i0", id="d", timestamp=800.0),
        user("And now?", inv="i1", id="n", timestamp=801.0),
    ]
    compiled = last_of(C.default().fold(), done, "claude-opus-5-5")
    assert notes_in(compiled)
    assert "thinking" not in str(compiled.wire["messages"])


@pytest.mark.parametrize(
    "model", ["gpt-5", "openai-chat/gpt-5", "claude-opus-5", "gemini-3-pro-preview"]
)
def test_a_result_that_comes_late_or_never_leaves_a_legal_request_with_notes(model: str) -> None:
    events = events_of(3, steps=60)
    late = [at for at, event in enumerate(events) if returns_in(event)][5]
    without = [*events[:late], *events[late + 1 :]]
    for log, codes in (([*without, events[late]], False), (without, True)):
        compiled = last_of(C.default().fold(), log, model)
        assert notes_in(compiled)
        assert check_request(compiled.dialect, compiled.wire, model) == ()
        assert ("WEFT201" in [one.code for one in compiled.diagnostics]) is codes


def desk_events(harm: str) -> list[Event]:
    """Two agents of a desk work one after the other, a third one as a tool; then harm is done."""
    events = [user("Mend the gate, please.", inv="i0")]
    for name, steps in (("bot", 40), ("helper", 40), ("bot", 6)):
        events.append(calls("desk", "transfer_to_agent", {"agent_name": name}, f"t{name}{steps}"))
        events.append(returns("desk", "transfer_to_agent", {"result": None}, f"t{name}{steps}"))
        if steps < 40:
            events.append(user("Now the weir, please.", inv="i1"))
        for step in range(steps):
            call = f"{name}{steps}_{step}"
            text = "\n".join(f"{call} line {at}: {' '.join(WORDS)}" for at in range(60))
            events.append(calls(name, "read", {"path": f"src/{call}.py"}, call, inv="i0"))
            events.append(returns(name, "read", {"result": text}, call, inv="i0"))
        inside = {"isolation_scope": f"t{name}", "branch": "desk.aside"}
        events.append(says("aside", f"Aside of {name}.", inv="i0", **inside))
    events = [
        msgspec.structs.replace(event, id=f"e{at}", timestamp=float(at))
        for at, event in enumerate(events)
    ]
    if harm == "late":
        events.append(events.pop(8))
    elif harm == "never":
        del events[8]
    elif harm == "erased":
        events[7:11] = [msgspec.structs.replace(event, content=None) for event in events[7:11]]
    elif harm == "deleted":
        del events[7:11]
    elif harm == "rewound":
        back = Actions(rewind_before_invocation_id="i1")
        events.append(Event("user", invocation_id="r", id="r", timestamp=900.0, actions=back))
        events.append(user("Go on.", inv="i2", id="z", timestamp=901.0))
    return events


@pytest.mark.parametrize("harm", ["none", "late", "never", "erased", "deleted", "rewound"])
@pytest.mark.parametrize("model", ["claude-opus-5", "gemini-2.5-flash", "openai-chat/o3"])
def test_a_harmed_session_of_several_agents_gives_legal_requests_whose_notes_can_be_got_back(
    model: str, harm: str
) -> None:
    workers = [
        Agent(name, tools=[read], description=name).sees(C.default().fold())
        for name in ("bot", "helper")
    ]
    desk = Agent("desk", model=model, sub_agents=workers)
    session = Session("s", events=desk_events(harm))
    known = values_of(session.events)
    for name in ("bot", "helper"):
        compiled = compile_request(desk, session=session, agent=name)
        assert check_request(compiled.dialect, compiled.wire, model) == ()
        steps = steps_in(notes_in(compiled))
        assert len(steps) > 10
        assert "Aside of" not in str(compiled.wire)
        for step in steps:
            asked = FunctionCall(name="recall", args={"handle": f"#{step}"})
            assert "error" not in (found_among(known, asked).response or {"error": ""}), step
        codes = {one.code for one in compiled.diagnostics}
        assert ("WEFT201" in codes) is (harm == "never")


def returns_in(event: Event) -> bool:
    parts = event.content.parts if event.content is not None else ()
    return any(part.function_response is not None for part in parts)


def test_a_file_that_was_read_stays_longer_than_other_results() -> None:
    shown = "\n".join(f"{n:5}\t{' '.join(WORDS)}" for n in range(1, 60))
    prose = "\n".join(f"{'-' * 6} {' '.join(WORDS)}" for _ in range(1, 60))
    head = "Be brief. " * 40_000  # what is read with each recall counts for its price
    agent = Agent("bot", model="gpt-5", tools=[read], instruction=head).sees(C.default().fold())
    events = [user("Go", id="u")]
    for step in range(50):
        args, text = ({"path": f"src/part_{step}.py"}, shown) if step % 2 else ({}, prose)
        events.append(calls("bot", "read", args, f"c{step}"))
        events.append(returns("bot", "read", {"result": text}, f"c{step}"))
    files = others = 0
    for _, compiled in requests(Scene(agent, events)):
        results = results_in(compiled)
        files, others = files + results.count(shown), others + results.count(prose)
    assert notes_in(compiled)
    assert files > 1.3 * others


@pytest.mark.parametrize("asked", ["first", "in a later turn"])
def test_a_file_that_the_user_names_stays_until_it_was_changed(asked: str) -> None:
    shown = "\n".join(f"{n:5}\t{' '.join(WORDS)}" for n in range(1, 60))
    prose = "\n".join(" ".join(WORDS) for _ in range(30))
    words = "Mend src/gate.py and lib/weir.py, please."

    def files_in_view(*changed: str) -> set[str]:
        """The files that can be read in the end, if those were changed."""
        events = [user(words if asked == "first" else "Hello", inv="i0", id="u")]
        if asked != "first":
            events += [says("bot", "Hello.", inv="i0"), user(words, inv="i1")]
        steps: list[JsonObject] = [{"path": f"src/{name}.py"} for name in ("gate", "weir", "other")]
        steps += [{"path": f"src/{name}.py", "old_str": "wind", "new_str": ""} for name in changed]
        steps += [{"path": f"src/notes_{n}.txt"} for n in range(60)]
        for at, args in enumerate(steps):
            text = f"{shown}\n   60\t{args['path']}" if at < 3 else prose
            events.append(calls("bot", "read", args, f"c{at}", inv="i1"))
            events.append(returns("bot", "read", {"result": text}, f"c{at}", inv="i1"))
        # what is read with each recall counts for its price
        agent = Agent("bot", model="gpt-5", tools=[read], instruction="Be brief. " * 60_000)
        compiled = compile_request(
            agent.sees(C.default().fold()), session=Session("s", events=events)
        )
        assert notes_in(compiled)
        return {*re.findall(r"60\tsrc/(\w+)\.py", "\n".join(map(str, results_in(compiled))))}

    assert files_in_view() == {"gate", "weir"}
    assert files_in_view("gate") == {"weir"}


def test_all_that_was_read_of_a_file_is_used_by_an_edit_that_quotes_it() -> None:
    """An agent that changes a file goes on with its other lines, wherever it read them."""
    prose = "\n".join(" ".join(WORDS) for _ in range(30))
    words = " ".join(WORDS)
    windows = ["\n".join(f"{n:5}\t{words}" for n in range(at, at + 60)) for at in (1, 90)]
    head = "Be brief. " * 60_000  # what is read with each recall counts for its price

    def windows_in_view(**edit: str) -> list[int]:
        """Which windows can be read in the end, if the file is named again and again."""
        events = [user("Go", id="u")]
        for step in range(60):
            args: JsonObject = {"path": "src/gate.py"} if step < 2 else {"path": f"n{step}"}
            if step > 2 and step % 4 == 3:
                args = {"path": "src/gate.py", **edit}
            text = windows[step] if step < 2 else prose
            events.append(calls("bot", "read", args, f"c{step}"))
            events.append(returns("bot", "read", {"result": text}, f"c{step}"))
        agent = Agent("bot", model="gpt-5", tools=[read], instruction=head)
        compiled = compile_request(
            agent.sees(C.default().fold()), session=Session("s", events=events)
        )
        assert notes_in(compiled)
        return [at for at, text in enumerate(windows) if text in results_in(compiled)]

    assert windows_in_view(old_str="wind", new_str="rain") == [0, 1]
    assert windows_in_view(oldText="wind", newText="rain") == [0, 1]
    assert windows_in_view(query="wind") == [1]


def results_in(compiled: Compilation) -> list[object]:
    """The results in a request."""
    return [
        block.response["result"]
        for item in compiled.prompt.items
        for block in item.blocks
        if isinstance(block, ResultBlock)
    ]


@pytest.mark.parametrize("wrong", [0, -1, True, 2.5, "4"])
def test_a_wrong_number_of_steps_to_keep_is_refused(wrong: object) -> None:
    with pytest.raises(DeclarationError, match="keep="):
        C.default().fold(keep=wrong)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="fold="):
        C.auto(fold=wrong if wrong is not True else 1)  # type: ignore[arg-type]


def test_folding_prints_as_it_is_written_and_can_be_switched_off() -> None:
    assert str(C.default().fold(keep=6)) == "C.default().fold(keep=6)"
    assert str(C.auto(fold=False)) == "C.auto(fold=False)"
    assert C.auto(fold=False).facts.folding is None
    assert (C.auto() + C.user()).facts.folding == C.auto().facts.folding
    assert notes_in(last_of(C.auto(fold=False), events_of(7, steps=60))) == []
