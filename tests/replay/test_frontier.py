"""The frontier: policies between plain history and an oracle that knows the future."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.run import weft
from tests.support.recorded import coding_run, service_run, write_lines
from weft import C, Content, Event, Part, Session
from weft.content import call_part, result_part
from weft.recordings import Recording
from weft.replay.frontier import frontier_lines, frontier_svg, keep_used_lines, oracle_trials
from weft.replay.replay import Trial, replay, uses_of


def recording() -> Recording:
    lines = "\n".join(f"line {n} has value_{n:03}" for n in range(80))
    rows: list[dict[str, object]] = [{"flight": f"HAT{n:03}", "price_eur": n} for n in range(30)]
    said = (
        ("user", "user", Part(text="Find it in task_file_1.")),
        ("bot", "model", call_part("look", {"q": "a"}, id="c0")),
        ("bot", "user", result_part("look", {"result": lines}, id="c0")),
        ("bot", "model", call_part("look", {"q": "value_017"}, id="c1")),
        ("bot", "user", result_part("look", {"rows": rows, "note": "of no use"}, id="c1")),  # type: ignore[dict-item]
        ("bot", "model", Part(text="Take HAT012 with value_017, and value_044.")),
        ("user", "user", Part(text="Thanks.\nAnd note_number_5?")),
        ("bot", "model", Part(text="note_number_5 is fine, task_file_1 too.")),
    )
    events = [
        Event(
            author=author,
            content=Content(role=role, parts=(part,)),
            invocation_id="i0",
            id=f"e{number}",
            timestamp=float(number),
        )
        for number, (author, role, part) in enumerate(said)
    ]
    return Recording("r", Session("s", events=events), {"bot": "Be brief."})


def test_the_oracle_keeps_the_lines_and_leaves_that_are_used_later() -> None:
    one = recording()
    events = keep_used_lines(one, uses_of(one.session.events)).session.events
    first, second = (
        event.content.parts[0].function_response.response  # type: ignore[union-attr,index]
        for event in (events[2], events[4])
    )
    assert first == {"result": "line 17 has value_017\nline 44 has value_044"}
    assert second == {"rows": [{"flight": "HAT012"}]}
    assert events[0] == one.session.events[0]
    assert events[5] == one.session.events[5]
    assert events[6].text == "And note_number_5?"


def test_the_oracle_has_all_in_view_and_costs_least() -> None:
    one = recording()
    uses = uses_of(one.session.events)
    plain = replay(one, C.default(), uses=uses)
    all_of_it, *rest = oracle_trials(one, uses)
    assert all_of_it.in_view == 1
    assert all_of_it.cost < plain.cost / 2
    assert all(trial.cost <= all_of_it.cost for trial in rest)
    assert all(trial.in_view >= 0.9 for trial in rest[-1:])


@pytest.mark.parametrize("make", [coding_run, service_run])
def test_no_usual_policy_beats_the_oracle(tmp_path: Path, make: object) -> None:
    assert callable(make)
    write_lines(tmp_path / "runs.jsonl", make())
    done = weft(tmp_path, "replay", "runs.jsonl", "--frontier", "plot.svg")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[-1] == "wrote plot.svg"
    *_, listed = done.stdout.partition("* is not beaten\n")
    rows = [line.lstrip("* ").split(maxsplit=2) for line in listed.splitlines()[:-1]]
    points = {name: (float(cost.rstrip("x")), view) for cost, view, name in rows}
    bound, _ = points["oracle, at least 100%"]
    whole = [cost for cost, view in points.values() if view == "100.0%"]
    assert len(whole) > 3
    assert min(whole) == bound
    drawn = ET.fromstring((tmp_path / "plot.svg").read_text())
    named = " ".join(drawn.itertext())
    assert "C.auto()" in named
    assert "oracle, at least 90%" in named


def test_a_panel_for_each_model_and_json_beside_it(tmp_path: Path) -> None:
    write_lines(tmp_path / "runs.jsonl", service_run())
    done = weft(
        tmp_path, "replay", "runs.jsonl", "--json", "--policy", "C.window(1)",
        "--model", "gpt-5", "--model", "claude-opus-5", "--frontier", "plot.svg",
    )  # fmt: skip
    rows = json.loads(done.stdout)["rows"]
    assert [row["policy"] for row in rows] == ["C.default()", "C.window(1)"] * 2
    drawn = " ".join(ET.fromstring((tmp_path / "plot.svg").read_text()).itertext())
    assert "gpt-5" in drawn
    assert "claude-opus-5" in drawn


def test_a_folder_that_is_not_there_is_named_before_anything_is_replayed(tmp_path: Path) -> None:
    write_lines(tmp_path / "runs.jsonl", service_run())
    done = weft(tmp_path, "replay", "runs.jsonl", "--frontier", "nowhere/plot.svg")
    assert done.returncode == 2
    assert "--frontier" in done.stderr
    assert done.stdout == ""


def trial(policy: str, cost: float, present: int) -> Trial:
    return Trial(
        policy=policy, model="", runs=1, cost=cost, with_recalls=cost, used=100, present=present
    )


def test_what_another_beats_in_both_is_not_on_the_frontier() -> None:
    trials = [
        trial("plain", 10, 100),
        trial("good <&>", 5, 90),
        trial("beaten", 6, 80),
        trial("cheap", 2, 40),
        trial("oracle, at least 100%", 1, 100),
    ]
    marks = {line.split("%  ", 1)[1]: line[0] for line in [*frontier_lines(trials)][1:]}
    assert marks == {
        "plain": "*",
        "good <&>": "*",
        "beaten": " ",
        "cheap": "*",
        "oracle, at least 100%": " ",
    }
    assert "good &lt;&amp;&gt;: 0.50x, 90.0%" in frontier_svg(trials)
