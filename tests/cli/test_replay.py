"""`weft replay` compares policies on what was recorded."""

import json
from pathlib import Path

import pytest

from tests.cli.run import weft
from tests.support.recorded import coding_run, service_run, write_lines
from weft.cli import main
from weft.testing import make_session

STORE = "sqlite:///weft.db"


def test_policies_are_compared_with_append_only(tmp_path: Path) -> None:
    write_lines(tmp_path / "runs.jsonl.gz", coding_run("a"), coding_run("b", steps=3))
    done = weft(tmp_path, "replay", "runs.jsonl.gz", "--policy", "C.window(1)")
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0] == "2 recordings (2 plain), 13 answers"
    assert lines[1].startswith("yardstick (read 0.10, write 1.25): 2 runs, 13 requests")
    assert lines[3].split()[0] == "C.default()"
    assert lines[4].split()[0] == "C.window(1)"
    assert done.stderr == ""


def test_the_rows_come_as_json_for_each_model(tmp_path: Path) -> None:
    write_lines(tmp_path / "runs.jsonl", service_run())
    done = weft(
        tmp_path, "replay", "runs.jsonl", "--json", "--policy", "C.none()",
        "--model", "gpt-5", "--model", "claude-opus-5",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert [(row["model"], row["policy"]) for row in told["rows"]] == [
        ("gpt-5", "C.default()"),
        ("gpt-5", "C.none()"),
        ("claude-opus-5", "C.default()"),
        ("claude-opus-5", "C.none()"),
    ]
    assert all(row["money"] for row in told["rows"])
    assert told["rows"][0]["cost_ratio"] == 1.0


def test_auto_is_what_is_tried_where_nobody_says(tmp_path: Path) -> None:
    write_lines(tmp_path / "runs.jsonl", coding_run())
    done = weft(tmp_path, "replay", "runs.jsonl", "--json")
    base, auto = json.loads(done.stdout)["rows"]
    assert auto["policy"] == "C.auto()"
    assert auto["cost"] < base["cost"]
    assert auto["kept_share"] >= 0.99
    assert auto["broken"] == auto["announced"]


def test_a_page_with_plots_is_written(tmp_path: Path) -> None:
    write_lines(tmp_path / "runs.jsonl", coding_run(), service_run())
    done = weft(
        tmp_path, "replay", "runs.jsonl", "--policy", "C.none()", "--html", "page.html",
        "--limit", "1",
    )  # fmt: skip
    assert done.returncode == 0, done
    assert done.stdout.endswith("wrote page.html\n")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<svg" in page
    assert "1 runs" in page


def test_a_session_of_ours_is_replayed_with_its_declaration(folder: Path) -> None:
    session = make_session(("user", "Hi"), ("weather_bot", "Hello"), ("user", "And now?"),
                           ("weather_bot", "Rain."))  # fmt: skip
    (folder / "s.json").write_bytes(session.to_json())
    bare = weft(folder, "replay", "s.json", "--policy", "C.none()", "--json")
    told = weft(
        folder, "replay", "s.json", "--policy", "C.none()", "--json",
        "--target", "agents:weather_bot",
    )  # fmt: skip
    assert told.returncode == 0, told
    small, large = (json.loads(done.stdout)["rows"][0]["tokens"] for done in (bare, told))
    assert large > small


def test_stored_sessions_are_replayed(bots: Path) -> None:
    assert weft(bots, "run", "bots:echoer", "Hi", "--store", STORE).returncode == 0
    done = weft(bots, "replay", "--store", STORE, "--policy", "C.none()", "--json")
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["rows"][0]["requests"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bad.jsonl"], "1 more could not be read, the next is bad.jsonl:2"),
        (["mute.jsonl"], "no model answers in it"),
        (["none.jsonl"], "there is no such file"),
        ([], "what is to be replayed?"),
        (["runs.jsonl", "--store", STORE], "name two sources"),
        (["runs.jsonl", "--policy", "C.windw(3)"], "windw"),
        (["runs.jsonl", "--policy", "import os"], "not an expression"),
        (["runs.jsonl", "--limit", "0"], "--limit"),
        (["runs.jsonl", "--target", "nowhere:bot"], "nowhere"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    write_lines(tmp_path / "runs.jsonl", coding_run(steps=1))
    (tmp_path / "bad.jsonl").write_text('{"messages": []}\n{"messages"\n', "utf-8")
    (tmp_path / "mute.jsonl").write_text('{"messages": [{"role": "user", "text": "x"}]}', "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["replay", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err.splitlines()[0]
    assert "Traceback" not in said.err
