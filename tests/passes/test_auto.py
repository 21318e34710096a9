"""C.auto(): append-only, reduced when it arrives, and folded once that pays, never silently."""

import json
import random
from typing import cast

import msgspec
import pytest

import weft
from tests.support.recorded import coding_run
from weft import Agent, C, RunConfig, Session
from weft.compiler import Compilation, compile_request
from weft.compiler.costs import break_of, read_again
from weft.content import call_part, result_part
from weft.declare import Policy
from weft.recordings import Recording, read_recordings, recording_of
from weft.replay.replay import replay, requests_of, uses_of
from weft.testing import ScriptedModel, call, make_session

POLICIES = (
    C.auto(),
    C.none(),
    C.window(2),
    C.window(4),
    C.user("bookend") + C.window(2),
    C.default().compact(),
    C.default().truncate(60),
    C.user(),
)


def turns_of(compiled: Compilation) -> list[object]:
    return cast("list[object]", compiled.wire["messages"])


def working_session(seed: int, steps: int, *, lines: int = 60) -> Session:
    """An agent that reads things of all kinds, now and then the same again."""
    chance = random.Random(seed)
    turns: list[tuple[str, object]] = [
        ("user", f"Mend parts/module_{seed}.py, ticket 2024-{seed}.")
    ]
    shown: list[str] = []
    for step in range(steps):
        kind = chance.randrange(6)
        rows = chance.randrange(1, lines)
        if kind == 0 and shown:
            text = chance.choice(shown).replace("value", f"value{step}", 3)
        elif kind == 1:
            text = json.dumps(
                [{"id": f"R{step}-{n}", "sum": n * 1.5} for n in range(rows)], indent=2
            )
        elif kind == 2:
            text = "\n".join(
                f"2024-05-{n % 28:02} ERROR worker_{n}: 失敗しました 🚧" for n in range(rows)
            )
        elif kind == 3:
            text = "QUJD" * rows * 4
        else:
            text = "\n".join(f"{n}:    value_{n} = part_{step % 4}({n})" for n in range(1, rows))
        shown.append(text)
        turns.append(("bot", [f"Step {step}.", call_part("look", {"at": step}, id=f"c{step}")]))
        turns.append(("bot", [result_part("look", {"result": text}, id=f"c{step}")]))
        if chance.random() < 0.15:
            turns += [("bot", f"So far {step}."), ("user", f"Go on with {step}.")]
    turns.append(("bot", "Done."))
    return make_session(*turns)  # type: ignore[arg-type]


def costs(recording: Recording, policy: Policy) -> tuple[float, int, int]:
    got = replay(recording, policy, uses=uses_of(recording.session.events))
    return got.cost, got.broken, got.announced


def test_a_large_result_is_a_handle_in_the_very_next_request_and_stays_what_it_was() -> None:
    def read(path: str) -> str:
        """Read a file."""
        rows = "\n".join(f"{n}: {path}_{n} = {n * 7919}" for n in range(1, 300))
        return f"[File: {path} (900 lines total)]\n{rows}\n(601 more lines below)"

    model = ScriptedModel(
        [call("read", path="a"), call("read", path="b"), "Done."], dialect="openai-chat"
    )
    agent = Agent("bot", model=model, instruction="Read.", tools=[read]).sees(C.auto())
    weft.run_sync(agent, "Go").check()
    second, third = (cast("list[dict[str, object]]", w["messages"]) for w in model.wires[1:])
    assert str(second[-1]["content"]).startswith("[handle ")
    assert len(str(second[-1]["content"])) < 1_500
    assert third[: len(second)] == second
    for wire, offered in zip(model.wires, (False, True, True), strict=True):
        tools = cast("list[dict[str, dict[str, object]]]", wire["tools"])
        assert ("recall" in {tool["function"]["name"] for tool in tools}) is offered


@pytest.mark.parametrize("seed", range(8))
def test_every_request_extends_the_one_before_or_says_what_it_costs(seed: int) -> None:
    recording = recording_of(working_session(seed, 30))
    before: list[object] = []
    for _, _, compiled in requests_of(recording, C.auto()):
        turns = [compiled.wire.get("tools"), *turns_of(compiled)]
        announced = [d for d in compiled.diagnostics if d.code == "WEFT502"]
        assert (turns[: len(before)] == before) == (not announced)
        before = turns


@pytest.mark.parametrize("seed", range(8))
def test_what_was_decided_at_one_step_is_found_again_from_the_log_alone(seed: int) -> None:
    session = working_session(seed, 25, lines=90)
    recording = recording_of(session)
    for index, _, compiled in requests_of(recording, C.auto()):
        if index % 5 == 0:
            alone = Session(session.id, events=list(session.events)[:index])
            model = RunConfig(model=compiled.prompt.model)
            again = compile_request(compiled.plan.path[0], session=alone, config=model)
            assert again.wire == compiled.wire


def test_a_long_session_is_folded_when_that_pays_and_says_so() -> None:
    recording = recording_of(working_session(3, 140))
    base, _, _ = costs(recording, C.default())
    auto, broken, announced = costs(recording, C.auto())
    assert 0 < broken == announced <= 24
    assert auto < 0.6 * base
    requests = [compiled for _, _, compiled in requests_of(recording, C.auto())]
    found = [(c, d) for c in requests if (d := break_of(c))]
    for compiled, fold in found:
        if fold.passes == ("offer_recall",):
            continue  # the first handle brings the tool that gets it back
        assert fold.passes in (("fold_steps",), ("fold_steps", "restore_references"))
        assert fold.tokens == read_again(compiled)
        assert fold.removed > 0
        (said,) = [d for d in compiled.diagnostics if d.code == "WEFT502"]
        assert f"{fold.tokens:,} tokens are read again" in said.message
    # A fold takes only what is old; what stays keeps its order.
    last = requests[-1]
    *_, (_, _, whole) = requests_of(recording, C.default())
    order = [item.key for item in whole.prompt.items]
    stay = [item.key for item in last.prompt.items if item.kind != "summary"]
    assert stay == [key for key in order if key in stay]
    assert stay[-4:] == order[-4:]


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_costs_more_than_append_only_without_an_announced_break(seed: int) -> None:
    recording = recording_of(working_session(seed, 20))
    base, _, _ = costs(recording, C.default())
    for policy in POLICIES:
        cost, broken, announced = costs(recording, policy)
        assert broken == announced, policy
        assert cost <= base * 1.02 or announced, policy


@pytest.mark.parametrize("seed", range(6))
def test_nothing_that_is_used_later_is_further_than_a_handle_away(seed: int) -> None:
    session = working_session(seed, 20)
    got = replay(recording_of(session), C.auto(), uses=uses_of(session.events))
    assert got.kept_share == 1.0


def test_windows_that_are_shown_again_cost_what_changed() -> None:
    (recording,) = read_recordings(json.dumps(coding_run(steps=12)).encode(), name="run")
    base, _, _ = costs(recording, C.default())
    auto, broken, _ = costs(recording, C.auto())
    assert auto < 0.5 * base
    assert broken == 0


def test_a_fold_is_free_once_the_provider_has_let_go_of_what_it_kept() -> None:
    def folded_after(pause: float) -> int:
        session = working_session(5, 9, lines=200)
        late = len(session.events) - 3
        events = [
            msgspec.structs.replace(event, timestamp=1e9 + at + (pause if at > late else 0.0))
            for at, event in enumerate(session.events)
        ]
        recording = recording_of(Session("s", events=events))
        *_, (_, _, last) = requests_of(recording, C.auto(), model="claude-opus-5")
        return sum(len(step.notes) for step in last.steps if step.name == "fold_steps")

    assert folded_after(3_600.0) > 0 == folded_after(1.0)


def test_a_model_that_takes_more_tokens_for_a_window_sees_as_many_of_its_lines() -> None:
    body = [f"        part_{n} = self.load_part({n}, '{n * 7919:x}')" for n in range(400)]
    window = "\n".join(
        f"{n}:{line}"
        for n, line in enumerate(["class Store:", "    def load_all(self):", *body], 1)
    )
    window += "\n(900 more lines below)"
    session = make_session(
        ("user", "Mend it. " + "The wind rose over the river. " * 1_500),
        ("bot", ["I go there.", call_part("goto", {"line": 30}, id="c1")]),
        ("bot", [result_part("goto", {"result": window}, id="c1")]),
    )

    def goto(line: int) -> str:
        """Show the lines around one."""
        return window

    def lines_sent(model: str) -> int:
        agent = Agent("bot", model=model, tools=[goto]).sees(C.auto())
        request = json.dumps(weft.compile(agent, session=session).wire)
        assert "recall" in request
        return request.count("self.load_part(")

    few = lines_sent("gpt-5")
    assert few < len(body)
    assert lines_sent("claude-opus-5") >= 0.9 * few
    assert lines_sent("gemini-2.5-flash") >= 0.9 * few
