"""What people use instead of a policy is measured with the same count."""

import json

import pytest

from tests.support.recorded import coding_run, service_run
from weft import C
from weft.compiler.compiled import Compilation
from weft.ir import ResultBlock, TextBlock
from weft.recordings import Recording, read_recordings
from weft.replay import rivals
from weft.replay.evidence import spell_value
from weft.replay.page import SessionTrials, by_size, savings, size_lines
from weft.replay.replay import Trial, recorded_agents, replay, requests_of, uses_of
from weft.replay.rivals import CAP, CLEARED, RIVALS, SUMMARY, Rival, replay_rival


def _recording(run: dict[str, object]) -> Recording:
    [one] = read_recordings(json.dumps(run).encode(), name="runs")
    return one


LONG = _recording(coding_run(steps=30))


def _named(word: str) -> Rival:
    [one] = [rival for rival in RIVALS if rival.name.startswith(word)]
    return one


def _requests(recording: Recording, rival: Rival) -> list[Compilation]:
    """The requests that the rival sends."""
    from dataclasses import replace

    agents = {
        name: replace(agent, passes=(rival.run_pass,))
        for name, agent in recorded_agents(recording).items()
    }
    return [one for _, _, one in requests_of(recording, C.default(), agents=agents)]


def _results(compiled: Compilation) -> list[str]:
    blocks = (block for item in compiled.prompt.items for block in item.blocks)
    return [spell_value(block.response) for block in blocks if isinstance(block, ResultBlock)]


def _trial(recording: Recording, rival: Rival) -> Trial:
    return replay_rival(recording, rival, uses=uses_of(recording.session.events))


def test_a_cap_cuts_each_result_once_and_never_changes_what_was_sent() -> None:
    texts = [text for one in _requests(LONG, _named("cap")) for text in _results(one)]
    assert max(map(len, texts)) <= CAP + len("\n[cut]")
    assert _trial(LONG, _named("cap")).broken == 0


def test_old_results_are_cleared_some_at_once() -> None:
    cleared = [_results(one).count(CLEARED) for one in _requests(LONG, _named("clear"))]
    assert sorted(set(cleared)) == [0, 10, 20]
    last = _results(_requests(LONG, _named("clear"))[-1])
    assert CLEARED not in last[-3:]
    assert _trial(LONG, _named("clear")).broken == 2


def test_a_mask_moves_at_each_step() -> None:
    for one in _requests(LONG, _named("mask")):
        results = _results(one)
        assert results.count(CLEARED) == max(0, len(results) - 10)
    assert _trial(LONG, _named("mask")).broken > 15


def test_a_window_keeps_the_task() -> None:
    last = _requests(LONG, _named("window"))[-1]
    assert len(last.prompt.items) == 11
    assert "ISSUE" in str(last.prompt)


def test_no_rival_leaves_out_what_the_user_asks_now() -> None:
    run = service_run(looks=1)
    messages = run["messages"]
    assert isinstance(messages, list)
    # one turn with many calls, after the question that ends the chat's first part
    messages.pop()
    for n in range(40):
        function = {"name": "look", "arguments": "{}"}
        call = {"id": f"c{n}", "type": "function", "function": function}
        result = {"role": "tool", "tool_call_id": f"c{n}", "content": f"{n} seats, " * 1_200}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
    messages.append({"role": "assistant", "content": "All seen."})
    for rival in RIVALS:
        last = _requests(_recording(run), rival)[-1]
        assert "And the next?" in str(last.prompt)


def test_a_summary_is_paid_for_and_made_again_when_the_window_fills(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rivals, "LIMIT", 20_000)
    rival = _named("summary")
    sent = _requests(LONG, rival)
    summaries = [
        block.text
        for one in sent
        for item in one.prompt.items
        for block in item.blocks
        if isinstance(block, TextBlock) and block.text.startswith(SUMMARY)
    ]
    made = len(set(summaries))
    assert made >= 2
    assert max(one.tokens for one in sent) < 20_000
    trial, plain = _trial(LONG, rival), _trial(LONG, _named("window"))
    assert trial.with_recalls - trial.cost >= made * 0.8 * 20_000 * 0.1
    assert trial.output >= plain.output + made * rivals.SUMMED - 1_000


def test_a_miss_is_a_call_made_again_for_every_rival() -> None:
    run = _recording(service_run(looks=20))
    for rival in RIVALS:
        trial = _trial(run, rival)
        assert trial.behind == 0
        assert trial.recalls == 0
        assert (trial.present < trial.used) == bool(trial.repeats)
        assert trial.policy == rival.name


def test_what_others_do_is_not_recommended() -> None:
    base = replay(LONG, C.default(), uses=uses_of(LONG.session.events))
    auto = replay(LONG, C.auto(), uses=uses_of(LONG.session.events))
    cheap = _trial(LONG, _named("cap"))
    [line] = savings([base, auto, cheap])
    assert line.startswith("C.auto()")


def test_runs_are_told_apart_by_their_size() -> None:
    sessions = []
    for recording in (LONG, _recording(service_run(looks=2))):
        uses = uses_of(recording.session.events)
        trials = [replay(recording, policy, uses=uses) for policy in (C.default(), C.auto())]
        against = tuple(one.against(trials[0]) for one in trials)
        sessions.append(SessionTrials(recording.id, "", against))
    classes = by_size(sessions)
    assert [one.name for one in classes] == ["below 5k", "25k to 40k"]
    assert [one.trials[0].runs for one in classes] == [1, 1]
    assert sum(one.trials[1].requests for one in classes) == sum(
        one.trials[1].requests for one in sessions
    )
    table = "\n".join(size_lines(sessions))
    assert "below 5k" in table
    assert table.count("C.auto()") == 2
    assert [*size_lines(sessions[:1])] == []
