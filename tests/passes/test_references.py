"""What is said by reference can always be read: one run, its source, its lines, its handle."""

import json
import random
import re
from itertools import pairwise
from typing import cast

import pytest

import weft
from tests.passes.test_auto import working_session
from weft import Agent, C, RunConfig, Session, TokenBudget
from weft.compiler import Compiled, compile_request
from weft.content import call_part, result_part
from weft.declare import Policy
from weft.errors import BudgetExceeded
from weft.recordings import recording_of
from weft.replay.evidence import KeptEvidence, rebuild_texts
from weft.replay.replay import requests_of
from weft.testing import ScriptedModel, call, make_session
from weft.values import Json, handle_of

A = [f"alpha {n}: {n * 7919} of the first kind of thing" for n in range(1, 6)]
B = [f"beta {n}: {n * 6007} of the other kind of thing" for n in range(1, 6)]
NUMBERED = "\n".join(f"line {n} says {n * 7919} and so on" for n in range(1, 19))
REFERENCE = re.compile(r"\[as lines (\d+)-(\d+) of .*?, handle ([0-9a-f]{12})\]")


def shown(compiled: Compiled) -> list[str]:
    """The results as they are sent."""
    messages = cast("list[dict[str, str]]", compiled.lower("openai-chat")["messages"])
    return [str(one["content"]) for one in messages if one["role"] == "tool"]


def reading(*texts: str, turns: bool = False, task: str = "Go") -> Session:
    """An agent that reads one text after the other, each in a turn of its own if asked for."""
    said: list[tuple[str, object]] = [("user", task)]
    for number, text in enumerate(texts):
        said.append(("bot", [call_part("read", {"n": number}, id=f"c{number}")]))
        said.append(("bot", [result_part("read", {"result": text}, id=f"c{number}")]))
        if turns and number < len(texts) - 1:
            said += [("bot", "Read."), ("user", f"And now {number}?")]
    return make_session(*said)  # type: ignore[arg-type]


def compiled(policy: Policy, session: Session) -> Compiled:
    def read(n: int) -> str:
        """Read."""
        return str(n)

    return weft.compile(Agent("bot", model="gpt-5", tools=[read]).sees(policy), session=session)


def lost(made: Compiled, session: Session) -> tuple[str, ...]:
    return rebuild_texts(made, KeptEvidence(session.events)).lost


def test_lines_of_two_results_in_another_order_are_never_one_reference() -> None:
    mixed = [B[3], A[0], B[1], A[4], A[2]]
    session = reading("\n".join(A), "\n".join(B), "\n".join(mixed))
    made = compiled(C.auto(), session)
    assert shown(made)[2] == "\n".join(mixed)


def test_a_reference_names_one_run_its_source_its_lines_and_a_handle_that_recall_resolves() -> None:
    texts = {"a": "\n".join(A), "b": "\n".join(B), "c": "\n".join([*B, "new", *A[1:]])}

    def read(name: str) -> str:
        """Read a text."""
        return texts[name]

    def ask(prompt: object) -> object:
        (found, *_) = REFERENCE.findall(str(prompt))
        return call("recall", handle=found[2], lines=f"{found[0]}-{found[1]}")

    steps = [call("read", name=name) for name in "abc"]
    model = ScriptedModel([*steps, ask, "Done."], dialect="openai-chat")
    weft.run_sync(Agent("bot", model=model, tools=[read]).sees(C.auto()), "Go").check()
    messages = cast("list[dict[str, str]]", model.wires[-1]["messages"])
    *_, folded, recalled = [one["content"] for one in messages if one["role"] == "tool"]
    first, middle, last = folded.split("\n")
    assert middle == "new"
    assert first.startswith('[as lines 1-5 of read({"name":"b"}), the result above, handle ')
    assert last.startswith('[as lines 2-5 of read({"name":"a"}), 2 results above, handle ')
    assert recalled == "\n".join(["[lines 1-5 of 5]", *B])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("2-3", "[lines 2-3 of 5]\nalpha 2"),
        ("4", "[lines 4-4 of 5]\nalpha 4"),
        (4, "[lines 4-4 of 5]\nalpha 4"),
        ("4-90", "[lines 4-5 of 5]\nalpha 4"),
        ("9-12", "there is no line 9; "),
        ("3-2", "there are no lines 3-2"),
        ("0-2", "there are no lines 0-2"),
        ("some", "pass the first and the last"),
    ],
)
def test_recall_gives_the_lines_that_are_asked_for(lines: Json, words: str) -> None:
    def read() -> str:
        """Read."""
        return "\n".join(A)

    def ask(prompt: object) -> object:
        return call("recall", handle=handle_of({"result": "\n".join(A)}), lines=lines)

    model = ScriptedModel([call("read"), ask, "Done."], dialect="openai-chat")
    weft.run_sync(Agent("bot", model=model, tools=[read]).sees(C.auto()), "Go")
    assert words in json.loads(json.dumps(model.wires[-1]["messages"][-1]["content"]))  # type: ignore[index]


@pytest.mark.parametrize(
    "policy",
    [
        C.auto().budget(600, overflow="drop"),
        C.auto().fit(120),
        C.auto().fresh(turns=1),
        C.auto().fresh(turns=1, stale="compact"),
        C.auto().truncate(60),
        C.auto().dedupe("superseded"),
        C.default().dedupe().fit(120),
        C.default().dedupe().fresh(turns=1),
        C.default().dedupe().budget(700, overflow="drop"),
    ],
    ids=str,
)
def test_what_removes_the_source_restores_what_referred_to_it(policy: Policy) -> None:
    session = reading(NUMBERED, NUMBERED + "\nand one more", NUMBERED, turns=True)
    made = compiled(policy, session)
    sent = shown(made)
    assert not any("as before" in text for text in sent)
    for at, text in enumerate(sent):
        for first, last, handle in REFERENCE.findall(text):
            wanted = NUMBERED.split("\n")[int(first) - 1 : int(last)]
            assert any("\n".join(wanted) in other for other in sent[:at]), text
            assert handle
    if "truncate" not in str(policy):
        assert lost(made, session) == ()
        last_text = sent[-1]
        assert NUMBERED in last_text or "handle" in last_text


def test_the_newest_result_is_in_view_when_what_it_repeats_was_dropped() -> None:
    session = reading(NUMBERED, NUMBERED + "\nand one more", turns=True)
    for policy in (C.auto().fit(120), C.auto().fresh(turns=1)):
        sent = shown(compiled(policy, session))
        assert sent[-1] == NUMBERED + "\nand one more", policy


def test_a_token_budget_and_the_runs_own_limit_leave_no_reference_behind() -> None:
    session = reading(*[NUMBERED + f"\nand {n}" for n in range(6)], turns=True)
    agent = Agent("bot", model="gpt-5").sees(C.auto())
    for tokens in (400, 700, 1_000):
        tight = Agent("bot", model="gpt-5", context_compressor=TokenBudget(tokens)).sees(C.auto())
        for made in (
            weft.compile(tight, session=session),
            weft.compile(agent, session=session, within=tokens),
        ):
            assert made.tokens <= tokens
            assert lost(made, session) == ()


def test_nothing_changes_while_the_source_stays() -> None:
    # long enough to be kept from the first request on: below that nothing is shortened
    session = reading(*[NUMBERED + f"\nand {n}" for n in range(8)], task="Go " * 1_100)
    before: list[str] = []
    for length in range(3, len(session.events) + 1, 2):
        sent = shown(compiled(C.auto(), session.before(length)))
        assert sent[: len(before)] == before
        before = sent
    assert sum("[as lines" in text for text in before) == 7


POLICIES = (
    C.auto(),
    C.auto().dedupe(),
    C.auto().compact(results=100, to=80),
    C.auto().fit(400),
    C.auto().fresh(turns=1),
    C.auto().fresh(turns=2, stale="compact"),
    C.auto().budget(1_500),
    C.auto().budget(1_500, overflow="drop"),
    C.auto().budget(3_000),
    C.auto() + C.window(2),
    C.default().compact(),
    C.default().dedupe(),
    C.default().dedupe("superseded"),
    C.default().dedupe().budget(2_000),
    C.default().dedupe().budget(2_000, overflow="drop"),
    C.default().budget(2_000),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_every_text_in_short_can_be_rebuilt_from_the_request_and_its_handles(
    policy: Policy, seed: int
) -> None:
    session = editing_session(seed, 14)
    recording = recording_of(session)
    kept = KeptEvidence(session.events)
    reduced = 0
    refused: list[BudgetExceeded] = []
    for _, _, made in requests_of(recording, policy, refused=refused):
        found = rebuild_texts(made, kept)
        assert found.lost == ()
        reduced += found.reduced
    if seed == 0 and "dedupe" not in str(policy):
        assert reduced


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "policy", [C.auto(), C.auto().redact("email"), C.auto().truncate(80)], ids=str
)
def test_a_request_is_the_same_cold_and_grown(policy: Policy, seed: int) -> None:
    session = editing_session(seed, 12)
    for index, _, grown in requests_of(recording_of(session), policy):
        if index % 3 == 0:
            alone = Session(session.id, events=list(session.events)[:index])
            config = RunConfig(model=grown.prompt.model)
            cold = weft.compile(grown.plan.path[0], session=alone, config=config)
            assert cold.wire == grown.wire


def editing_session(seed: int, steps: int) -> Session:
    """An agent that looks at files, edits them, and looks again; and at other things."""
    chance = random.Random(seed)
    files = [
        [f"def part_{f}_{n}(): return {n * 7919}  # ann{n}@example.com" for n in range(30)]
        for f in range(3)
    ]
    other = list(working_session(seed, steps).events)
    turns: list[tuple[str, object]] = [("user", f"Mend it, ticket {seed}.")]
    for step in range(steps):
        name = chance.randrange(3)
        file = files[name]
        kind = chance.randrange(5)
        if kind == 0:
            file[chance.randrange(len(file))] = f"changed_{step} = {step * 31}"
        elif kind == 1:
            file.insert(chance.randrange(len(file)), f"added_{step} = {step * 37}")
        first = chance.randrange(12)
        text = "\n".join(file[first : first + chance.randrange(6, 30)])
        if kind == 4:
            results = [one for event in other[step:] for one in event.results]
            text = str((results[0].response or {})["result"]) if results else text
        turns.append(("bot", [f"Step {step}.", call_part("look", {"at": name}, id=f"c{step}")]))
        turns.append(("bot", [result_part("look", {"result": text}, id=f"c{step}")]))
        if chance.random() < 0.3:
            turns += [("bot", f"So far {step}. " * 30), ("user", f"Go on with {step}.")]
    turns.append(("bot", "Done."))
    return make_session(*turns)  # type: ignore[arg-type]


def test_the_prefix_stays_between_two_cuts_of_a_budget() -> None:
    session = editing_session(1, 24)
    made = [one for _, _, one in requests_of(recording_of(session), C.auto().budget(3_000))]
    wires = [json.dumps(one.wire["messages"]) for one in made]
    extended = sum(after.startswith(before[:-1]) for before, after in pairwise(wires))
    assert extended > len(wires) // 3


def test_a_result_that_ends_like_an_earlier_one_says_so_and_can_be_rebuilt() -> None:
    prompt = "(Open file: /srv/project/module/parts.py)\n(Current directory: /srv/project)\nbash-$"

    def run(command: str) -> str:
        """Run a command."""
        return f"{command} was done, number {len(command) * 7919}.\n{prompt}"

    script = [call("run", command=one) for one in ("first", "second one", "the third")]
    model = ScriptedModel([*script, "Done."], dialect="openai-chat")
    agent = Agent("bot", model=model, tools=[run]).sees(C.auto())
    session = weft.run_sync(agent, "Go").check().session
    messages = cast("list[dict[str, str]]", model.wires[-1]["messages"])
    first, second, third = [one["content"] for one in messages if one["role"] == "tool"]
    assert first.endswith(prompt)
    assert second == "second one was done, number 79190.\n[last 3 lines as in the result above]"
    assert third == "the third was done, number 71271.\n[last 3 lines as 2 results above]"
    again = rebuild_texts(compile_request(agent, session=session), KeptEvidence(session.events))
    assert again.reduced == 2
    assert again.lost == ()
