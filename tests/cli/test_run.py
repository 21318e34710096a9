"""`weft run` answers on stdout, tells the rest on stderr, and can go on later."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.run import environment, read_until, refusal, started, weft
from weft import Session

Done = subprocess.CompletedProcess[str]


def log(folder: Path, session: str) -> Session:
    """A session of the default store."""
    done = weft(folder, "sessions", "export", session)
    assert done.returncode == 0, done.stderr
    return Session.from_json(done.stdout)


def told(done: Done) -> list[str]:
    return done.stderr.splitlines()


def test_the_answer_is_all_that_stdout_carries(bots: Path) -> None:
    done = weft(bots, "run", "bots:weather", "Is it raining?")
    assert (done.returncode, done.stdout) == (0, "It rains in Oslo.\n")
    assert told(done) == ["the tool prints", "a child prints"]
    assert not (bots / "weft.db").exists()


def test_calls_and_results_are_told_when_asked_for(bots: Path) -> None:
    done = weft(bots, "run", "bots:weather", "Is it raining?", "-v")
    assert done.stdout == "It rains in Oslo.\n"
    assert told(done) == [
        '→ get_weather(city="Oslo")',
        "the tool prints",
        "a child prints",
        '← {"sky":"rain"}',
    ]


def test_marks_are_plain_where_the_stream_is(bots: Path) -> None:
    done = weft(bots, "run", "bots:weather", "Hi", "-v", PYTHONIOENCODING="ascii")
    assert told(done)[0] == '-> get_weather(city="Oslo")'


def test_agents_that_speak_at_once_do_not_cut_into_each_other(bots: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "bots:trip", "Fly me", "-v"],
        cwd=bots,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    lines = [line for line in done.stdout.splitlines() if line and "prints" not in line]
    assert lines[0] == "· triage: booking"
    assert sorted(lines[1:5]) == ["left speaks on.", "right speaks too.", "· left", "· right"]
    assert lines[lines.index("· left") + 1] == "left speaks on."
    assert lines[5:] == [
        "· booker",
        '→ get_weather(city="Oslo")',
        '→ get_weather(city="Rome")',
        '← get_weather: {"sky":"rain"}',
        '← get_weather: {"sky":"rain"}',
        "Booked.",
    ]


def test_o2_the_text_of_an_agent_that_writes_for_another_is_not_the_answer(bots: Path) -> None:
    done = weft(bots, "run", "bots:trip", "Fly me")
    assert sorted(done.stdout.splitlines()) == ["Booked.", "left speaks on.", "right speaks too."]


def test_a_rejected_draft_never_reaches_stdout(bots: Path) -> None:
    done = weft(bots, "run", "bots:shaped", "Hi", "-v")
    assert json.loads(done.stdout) == {"ok": True}
    assert any("the answer was rejected: " in line for line in told(done))


def test_a_hand_over_is_told(bots: Path) -> None:
    done = weft(bots, "run", "bots:desk", "Hi", "-v")
    assert done.stdout == "Here.\n"
    assert told(done) == ["· desk", "⇒ clerk", "· clerk"]


def test_an_error_that_a_fallback_catches_is_only_told(bots: Path) -> None:
    done = weft(bots, "run", "bots:robust", "Hi", "-v")
    assert (done.returncode, done.stdout) == (0, "Backup.\n")
    assert told(done) == ["! failing: model_error: RuntimeError: 503", "· backup"]


def test_json_is_a_whole_event_a_line(bots: Path) -> None:
    done = weft(bots, "run", "bots:weather", "Hi", "--json", "--session", "s")
    events = [Session.from_json(f'{{"events":[{line}]}}').events[0] for line in _lines(done)]
    assert [e.author for e in events] == ["weather"] * 3
    assert not any(event.partial for event in events)
    assert events[-1].text == "It rains in Oslo."
    assert events == list(log(bots, "s").events)[1:]


def _lines(done: Done) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_state_is_written_with_the_message(bots: Path) -> None:
    arguments = ("--session", "s", "--state", "mood=sad", "--state", "n=7")
    weft(bots, "run", "bots:echoer", "Hi", *arguments)
    assert log(bots, "s").state == {"mood": "sad", "n": 7}


def test_a_session_is_kept_in_the_working_folder_and_goes_on(bots: Path) -> None:
    first = weft(bots, "run", "bots:echoer", "Hello", "--session", "s")
    assert (first.stdout, first.stderr) == ("1: Hello\n", "session s in sqlite:///weft.db\n")
    second = weft(bots, "run", "bots:echoer", "Again", "--session", "s")
    assert second.stdout == "3: Again\n"
    other = weft(bots, "run", "bots:echoer", "Again", "--session", "s", "--user", "bob")
    assert other.stdout == "1: Again\n"


def test_a_session_without_a_name_gets_one_that_is_told(bots: Path) -> None:
    done = weft(bots, "run", "bots:echoer", "Hello", "--store", "sqlite:///other.db")
    found = re.fullmatch(r"session (\w+) in sqlite:///other\.db\n", done.stderr)
    assert found
    more = ("--session", found[1], "--store", "sqlite:///other.db")
    again = weft(bots, "run", "bots:echoer", "Again", *more)
    assert (again.stdout, again.stderr) == ("3: Again\n", "")


@pytest.mark.parametrize(
    ("target", "arguments", "line", "hint"),
    [
        ("failing", (), "error: model_error: RuntimeError: 503", ""),
        ("strict", ("--strict",), "error: compile_error: MissingVariable: ", "{name?}"),
        ("looping", ("--max-llm-calls", "2"), "error: max_llm_calls: the invocation made 2", ""),
        ("looping", ("--budget-tokens", "2"), "error: run_budget: the run has spent its", ""),
        ("clients", (), "error: UsageError: clients.model: there is no client", "model"),
        ("echoer", ("--model", "nobody/has-this"), "there is no client for the model", "model"),
        ("raising", (), "no weather today (bots.py:", ""),
    ],
)
def test_a_run_that_ends_with_an_error_exits_with_1(
    bots: Path, target: str, arguments: tuple[str, ...], line: str, hint: str
) -> None:
    done = weft(bots, "run", f"bots:{target}", "Hi", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    lines = [each for each in told(done) if "prints" not in each]
    assert line in lines[0]
    assert "Traceback" not in done.stderr
    assert hint in (lines[1] if len(lines) > 1 else "")
    assert len(lines) == (2 if hint else 1)


@pytest.mark.parametrize(
    ("arguments", "line", "hint"),
    [
        ((), "run: there is no message", 'weft run bots:echoer "'),
        (("",), "run: there is no message", "weft run"),
        (("Hi", "--resume", "--session", "s"), "goes on without a message", "leave out"),
        (("--resume", "--session", "s", "--state", "a=1"), "goes on without", "leave out"),
        (("--resume",), "which session?", "--session ID"),
        (("--answer", "x=1"), "which session?", "--session ID"),
        (("--resume", "--session", "s"), "weft.db: there is no such file", "weft chat"),
        (("Hi", "--store", "mysql://x"), "`mysql://x` is not the address", "sqlite:///"),
        (("Hi", "--store", "sqlite:///no/such/x.db"), "no/such: the directory", "mkdir"),
        (("Hi", "--max-llm-calls", "0"), "max_llm_calls=0", "1 or more"),
        (("Hi", "--budget-tokens", "0"), "tokens=0 is not a whole number above 0", "RunBudget("),
        (("Hi", "--max-llm-calls", "x"), "run: invalid value for '--max-llm-calls'", "--help"),
        (("Hi", "--state", "x"), "--state: `x` is not a key and a value", "--state key=value"),
        (("Hi", "--user", ""), "user_id=''", "non-empty"),
        (("Hi", "--nonsense"), "no such option", "weft run --help"),
    ],
)
def test_bad_arguments_are_one_line(
    bots: Path, arguments: tuple[str, ...], line: str, hint: str
) -> None:
    said, fix = refusal(weft(bots, "run", "bots:echoer", *arguments))
    assert line in said
    assert hint in fix
    assert not (bots / "weft.db").exists()


def test_f8_what_a_run_waits_for_is_told_with_the_command_that_goes_on(bots: Path) -> None:
    done = weft(bots, "run", "bots:asker", "Go", "--session", "s")
    assert (done.returncode, done.stdout) == (0, "")
    assert told(done) == [
        "session s in sqlite:///weft.db",
        "waits for a yes or no: pay(amount=5)",
        "waits for an answer: approve(amount=2)",
        "  go on with: weft run bots:asker --session s --resume"
        " --answer pay=true --answer approve=JSON",
    ]
    again = weft(bots, "run", "bots:asker", "--session", "s", "--resume", "--answer", "pay=yes")
    assert again.stdout == ""
    assert told(again)[0] == "waits for an answer: approve(amount=2)"
    last = weft(
        bots, "run", "bots:asker", "--session", "s", "--answer", 'approve={"ok": true}', "-v"
    )
    assert (last.stdout, last.stderr) == ("All done.\n", "")
    results = {r.name: r.response for e in log(bots, "s").events for r in e.results}
    assert results["pay"] == {"result": "paid 5"}
    assert results["approve"] == {"ok": True}


def test_f8_several_answers_are_given_at_once(bots: Path) -> None:
    weft(bots, "run", "bots:asker", "Go", "--session", "s")
    both = ("--answer", "approve=fine", "--answer", "pay=false")
    done = weft(bots, "run", "bots:asker", "--session", "s", "--resume", *both)
    assert done.stdout == "All done.\n"
    results = {r.name: r.response for e in log(bots, "s").events for r in e.results}
    assert results["pay"] == {"error": "the user refused this call"}
    assert results["approve"] == {"result": "fine"}


def test_an_answer_is_given_by_the_id_of_the_call_too(bots: Path) -> None:
    weft(bots, "run", "bots:payer", "Go", "--session", "s")
    id = next(call.id for e in log(bots, "s").events for call in e.calls if call.name == "pay")
    done = weft(bots, "run", "bots:payer", "--session", "s", "--resume", "--answer", f"{id}=true")
    assert done.stdout == "All done.\n"


@pytest.mark.parametrize(
    ("arguments", "line", "hint"),
    [
        (("--answer", "pya=true"), "--answer: no open call is `pya`", "(pay)"),
        (("--answer", "pay=maybe"), "pay: this wants a yes or no, not 'maybe'", "yes or no"),
        (("--answer", "pay"), "--answer: `pay` is not a key and a value", "key=value"),
        (("--retry", "nothing"), "--retry: no open call is `nothing`", "(pay)"),
        (("--resume", "--session", "t"), "there is no session `t`", "the user has: s"),
        (("--resume", "--user", "bob"), "there is no session `s`", "users that have: user"),
        (("--resume", "--app", "other"), "there is no session `s`", "no sessions"),
    ],
)
def test_an_answer_that_fits_nothing_is_one_line(
    bots: Path, arguments: tuple[str, ...], line: str, hint: str
) -> None:
    weft(bots, "run", "bots:payer", "Go", "--session", "s")
    before = log(bots, "s")
    given = arguments if "--session" in arguments else ("--session", "s", *arguments)
    said, fix = refusal(weft(bots, "run", "bots:payer", *given))
    assert line in said
    assert hint in fix
    assert log(bots, "s") == before


def test_a_run_in_memory_that_waits_says_how_to_keep_it(bots: Path) -> None:
    done = weft(bots, "run", "bots:payer", "Go")
    assert told(done)[0] == "waits for a yes or no: pay(amount=5)"
    assert "--session ID keeps it" in told(done)[1]


def test_resuming_a_complete_run_gives_its_answer_again(bots: Path) -> None:
    weft(bots, "run", "bots:echoer", "Hello", "--session", "s")
    done = weft(bots, "run", "bots:echoer", "--session", "s", "--resume")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1: Hello\n", "")


def test_ctrl_c_cancels_the_run_and_leaves_the_log_in_order(bots: Path) -> None:
    asked = ("run", "bots:sleeper", "Go", "--session", "s")
    with started(bots, *asked, until="waiting") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines() == [
        "cancelled",
        "  go on with: weft run bots:sleeper --session s --resume",
    ]
    events = list(log(bots, "s").events)
    assert [call.id for e in events for call in e.calls] == [
        r.id for e in events for r in e.results
    ]
    assert (events[-1].error_code, events[-1].interrupted) == ("cancelled", True)


def test_a_second_ctrl_c_kills_what_cannot_be_stopped(bots: Path) -> None:
    asked = ("run", "bots:blocked", "Go", "--session", "s")
    with started(bots, *asked, until="waiting") as process:
        process.send_signal(signal.SIGINT)
        read_until(process, "go on with")
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        out, err = process.communicate(timeout=600)
    assert process.returncode in (-signal.SIGINT, 130)
    assert (out, err) == ("", "")
    assert log(bots, "s").events[-1].error_code == "cancelled"


def test_a_reader_that_leaves_ends_the_run_quietly(bots: Path) -> None:
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "bots:talker", "Go", "--session", "s"],
        cwd=bots,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        said = os.read(ours, 4)
        os.close(ours)
        _, err = process.communicate(timeout=600)
    assert said.startswith(b"w")
    assert (process.returncode, err) == (0, b"session s in sqlite:///weft.db\n")
    assert log(bots, "s").events[-1].error_code == "cancelled"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_that_is_closed_from_the_start_is_no_error(bots: Path, closed: str) -> None:
    done = subprocess.run(
        f'"{sys.executable}" -m weft run bots:weather "Oslo?" --session s {closed}',
        shell=True,
        cwd=bots,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stdout + done.stderr
    assert log(bots, "s").events[-1].author != "user"


def test_a_killed_run_says_what_nobody_knows_and_runs_it_again_if_told(bots: Path) -> None:
    asked = ("run", "bots:launcher", "Go", "--session", "s")
    with started(bots, *asked, until="waiting") as process:
        process.kill()
        process.communicate(timeout=600)
    done = weft(bots, "run", "bots:launcher", "--session", "s", "--resume")
    assert done.returncode == 1
    lines = told(done)
    assert lines[0].startswith("error: unknown_outcome: ")
    assert lines[1] == "may have run or not: launch()"
    assert lines[2].endswith("--session s --resume --retry launch")
    again = weft(bots, "run", "bots:launcher", "--session", "s", "--resume", "--retry", "launch")
    assert (again.returncode, again.stdout) == (0, "All done.\n")


def test_an_answer_brings_the_state_that_a_killed_call_would_have_written(bots: Path) -> None:
    asked = ("run", "bots:launcher", "Go", "--session", "s")
    with started(bots, *asked, until="waiting") as process:
        process.kill()
        process.communicate(timeout=600)
    resumed = ("run", "bots:launcher", "--session", "s", "--answer", "launch=launched")
    assert weft(bots, *resumed[:4], "--resume").returncode == 1
    done = weft(bots, *resumed, "--state", "pad=7")
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert log(bots, "s").state["pad"] == 7


def test_a_password_is_never_shown(bots: Path) -> None:
    done = weft(bots, "run", "bots:echoer", "Hi", "--store", "postgresql://me:secret@127.0.0.1:1/x")
    assert done.returncode == 2
    assert "secret" not in done.stdout + done.stderr
