"""`weft check` finds what is wrong, says where, and mends what is only misspelt."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.run import environment, refusal, weft

TRIPS = '''\
from weft import Agent, C, Route

classifier = Agent("classifier").instruct("Classify the request.").writes("intent")
booker = Agent(
    "booker",
    instruction="""Help book.
The intent is: {intnet}""",
)
flow = classifier >> booker
clean = classifier >> Agent("helper").instruct("Help: {intent}")
topical = Agent("writer").instruct("Write on {topic}.")
noted = Agent("reader").instruct("Read.") >> Agent("other").instruct("Edit: {summary}")
lost = classifier >> Agent("other").instruct("Help.")
route = classifier >> Route("intnt").eq("a", Agent("a")).otherwise(Agent("b"))
twice = classifier >> Agent("seer").instruct("{intent}").sees(  # weft: allow WEFT206
    C.default().keep_duplicates()
)
'''


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    (tmp_path / "trips.py").write_text(TRIPS)
    return tmp_path


def test_a_finding_has_its_file_and_line_and_the_exit_code_is_1(trips: Path) -> None:
    done = weft(trips, "check", "trips:flow")
    assert done.returncode == 1
    first, hint = done.stdout.splitlines()[:2]
    assert first.startswith("trips.py:7: booker.instruction:26: error[WEFT105] the template reads")
    assert hint == "  hint: did you mean `intent`?"


def test_nothing_wrong_is_0(trips: Path) -> None:
    done = weft(trips, "check", "trips:clean")
    assert (done.returncode, done.stdout) == (0, "2 agents, nothing to say\n")


def test_a_note_alone_is_0_and_strict_makes_it_1(trips: Path) -> None:
    assert weft(trips, "check", "trips:noted").returncode == 0
    assert weft(trips, "check", "trips:noted", "--strict").returncode == 1
    assert weft(trips, "check", "trips:lost").returncode == 1


def test_inputs_and_allowed_codes(trips: Path) -> None:
    assert weft(trips, "check", "trips:topical").returncode == 1
    assert weft(trips, "check", "trips:topical", "--input", "topic=str").returncode == 0
    assert weft(trips, "check", "trips:topical", "--allow", "WEFT105").returncode == 0


def test_a_comment_at_the_declaration_accepts_a_finding(trips: Path) -> None:
    assert weft(trips, "check", "trips:twice").returncode == 0
    text = (trips / "trips.py").read_text().replace("  # weft: allow WEFT206", "")
    (trips / "trips.py").write_text(text)
    assert weft(trips, "check", "trips:twice").returncode == 1


def test_json_has_the_findings_and_what_each_agent_sees(trips: Path) -> None:
    done = weft(trips, "check", "trips:flow", "--format", "json")
    said = json.loads(done.stdout)
    assert said["findings"][0]["file"] == "trips.py"
    assert said["findings"][0]["line"] == 7
    assert [one["agent"] for one in said["agents"]] == ["classifier", "booker"]


def test_sarif_names_rules_levels_and_places(trips: Path) -> None:
    said = json.loads(weft(trips, "check", "trips:flow", "--format", "sarif").stdout)
    assert said["version"] == "2.1.0"
    run = said["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "trips.py"}
    assert place["region"]["startLine"] == 7


def test_annotations_for_github(trips: Path) -> None:
    done = weft(trips, "check", "trips:flow", "--format", "github")
    start = "::error file=trips.py,line=7,col=17,title=WEFT105 booker.instruction%3A26::"
    assert done.stdout.startswith(start)
    assert "%0Ahint: did you mean `intent`?" in done.stdout.splitlines()[0]


def test_what_each_agent_sees(trips: Path) -> None:
    done = weft(trips, "check", "trips:clean", "--explain")
    assert "  template      intent from classifier" in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("flow", "old", "new"), [("flow", "{intnet}", "{intent}"), ("route", '"intnt"', '"intent"')]
)
def test_fix_mends_what_is_misspelt_and_shows_it(
    trips: Path, flow: str, old: str, new: str
) -> None:
    done = weft(trips, "check", f"trips:{flow}", "--fix")
    assert done.returncode == 0
    assert old in done.stdout
    assert "+++ trips.py" in done.stdout
    assert (trips / "trips.py").read_text() == TRIPS.replace(old, new)


def test_fix_leaves_alone_what_stands_there_twice(trips: Path) -> None:
    (trips / "trips.py").write_text(f"{TRIPS}# {{intnet}}\n")
    done = weft(trips, "check", "trips:flow", "--fix")
    assert done.returncode == 1
    assert (trips / "trips.py").read_text() == f"{TRIPS}# {{intnet}}\n"


def test_bad_arguments_are_2(trips: Path) -> None:
    assert "WEFT999" in refusal(weft(trips, "check", "trips:flow", "--allow", "WEFT999"))[0]
    assert "watches" in refusal(weft(trips, "check", "trips:flow", "--watch", "--fix"))[0]
    assert "no `flw`" in refusal(weft(trips, "check", "trips:flw"))[0]


def test_watch_checks_again_when_a_file_changes(trips: Path) -> None:
    out = trips / "out.txt"
    with out.open("w") as file:
        child = subprocess.Popen(
            [sys.executable, "-m", "weft", "check", "trips:flow", "--watch"],
            cwd=trips, env=environment(PYTHONDONTWRITEBYTECODE=""), stdout=file,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        _wait_for(out, "WEFT105")
        text = TRIPS.replace("{intnet}", "{intent}")
        (trips / "trips.py").write_text(text)
        _wait_for(out, "nothing to say")
        # bytecode does not tell two states of a file that was saved twice in a second apart
        assert not [*trips.glob("__pycache__/trips.*")]
    finally:
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(600) == 0


def _wait_for(file: Path, words: str) -> None:
    for _ in range(6_000):
        if words in file.read_text():
            return
        time.sleep(0.1)
    raise AssertionError(f"{words!r} never came: {file.read_text()}")


PLACES = r'''
from weft import Agent, Route, S, until

writer = Agent("writer").instruct(
    "First line.\nSecond line.\n"
    "Third \
    and {plann} here."  # 7
).writes("draft")
critic = Agent("critic").instruct("""Look.
\nAt {drat}
""").writes("ok")
EXTRA = """
One.
Two {thre}.
"""
third = Agent("third").instruct(EXTRA)
flow = (
    S.set(plan="x")
    >> (writer >> critic) * until(
        lambda state: state["okk"] == "yes",
        max=3,
    )
    >> third
    >> (
        lambda state: {"size": len(state["dratft"])}
    )
    >> S.rename(
        dratf="text"
    )
    >> S.compute(
        n=lambda state: state["siz"] + 1
    )
    >> S.require("nothng")
    >> S.guard(
        lambda state: state["guardd"]
    )
    >> Route().when(
        lambda state: state["kin"] == "a", Agent("x").instruct("x")
    ).otherwise(Agent("y").instruct("y"))
)
'''


@pytest.mark.parametrize(
    ("key", "at"),
    [("plann", "{plann}"), ("drat", "{drat}"), ("thre", "{thre}"), ("okk", '"okk"'),
     ("dratft", '"dratft"'), ("dratf", "S.rename("), ("siz", '"siz"'), ("nothng", '"nothng"'),
     ("guardd", '"guardd"'), ("kin", '"kin"')],
)  # fmt: skip
def test_every_finding_has_the_line_that_its_author_wrote(
    tmp_path: Path, key: str, at: str
) -> None:
    (tmp_path / "places.py").write_text(PLACES)
    done = weft(tmp_path, "check", "places:flow", "--no-infer", "--format", "json")
    found = json.loads(done.stdout)["findings"]
    about = (f"`{key}`", f"`{{{key}}}`")
    lines = {one["line"] for one in found if any(word in one["message"] for word in about)}
    wanted = [number for number, line in enumerate(PLACES.splitlines(), 1) if at in line]
    assert lines == {*wanted}


def test_a_wrong_choice_is_told_in_plain_words(folder: Path) -> None:
    done = weft(folder, "check", "agents:weather_bot", "--format", "xml")
    assert done.returncode == 2
    assert "invalid value for '--format': 'xml' is not one of 'text', 'json'" in done.stderr
