"""`weft chat`: a line is a turn, a slash begins a command, and everything is kept."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.run import environment, read_until, refusal, started, weft

HELLO = "session s in sqlite:///weft.db (/help for commands, Ctrl-D ends)"


def chat(
    folder: Path, target: str, *lines: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    typed = "".join(f"{line}\n" for line in lines)
    done = weft(folder, "chat", f"bots:{target}", "--session", "s", *options, typed=typed)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_line_is_a_turn_and_answers_go_to_stdout(bots: Path) -> None:
    done = chat(bots, "echoer", "Hello", "", "Again")
    assert done.stdout == "1: Hello\n3: Again\n"
    assert done.stderr == f"{HELLO}\n"


def test_calls_are_shown_as_they_happen(bots: Path) -> None:
    done = chat(bots, "weather", "Is it raining?")
    assert done.stdout == "It rains in Oslo.\n"
    assert done.stderr.splitlines()[1:] == [
        '→ get_weather(city="Oslo")',
        "the tool prints",
        "a child prints",
        '← {"sky":"rain"}',
    ]


def test_a_conversation_goes_on_and_shows_its_end(bots: Path) -> None:
    chat(bots, "echoer", "one", "two", "three", "four")
    done = chat(bots, "echoer", "five")
    assert done.stdout == "9: five\n"
    assert done.stderr.splitlines() == [
        HELLO,
        "  user    two",
        "  echoer  3: two",
        "  user    three",
        "  echoer  5: three",
        "  user    four",
        "  echoer  7: four",
    ]


def test_a_new_conversation_has_an_id_that_is_told(bots: Path) -> None:
    done = weft(bots, "chat", "bots:echoer", typed="Hello\n")
    found = re.match(r"session (\w+) in sqlite:///weft\.db ", done.stderr)
    assert found
    again = weft(bots, "chat", "bots:echoer", "--session", found[1], typed="Again\n")
    assert again.stdout == "3: Again\n"


def test_a_conversation_in_memory_leaves_nothing(bots: Path) -> None:
    done = chat(bots, "echoer", "Hello", "Again", options=("--store", "memory://"))
    assert done.stdout == "1: Hello\n3: Again\n"
    assert not (bots / "weft.db").exists()


def test_the_state_is_shown(bots: Path) -> None:
    done = chat(bots, "echoer", "/state", "Hi", "/state", options=("--state", "mood=sad"))
    assert done.stdout == '  mood = "sad"\n1: Hi\n  mood = "sad"\n'


def test_the_last_turn_is_taken_back(bots: Path) -> None:
    done = chat(bots, "echoer", "one", "two", "/rewind", "three", "/events")
    assert done.stdout.splitlines() == [
        "1: one",
        "3: two",
        "3: three",
        "  user    one",
        "  echoer  1: one",
        "  user    two  (taken back)",
        "  echoer  3: two  (taken back)",
        "  user    three",
        "  echoer  3: three",
    ]
    assert "taken back from invocation" in done.stderr
    assert '"two"' in done.stderr


def test_the_last_request_is_explained(bots: Path) -> None:
    done = chat(bots, "echoer", "Hello", "Again", "/explain")
    assert "echoer -> scripted (gemini)" in done.stdout
    assert "1: Hello" in done.stdout
    assert "Again" in done.stdout
    assert "3: Again" not in done.stdout.split("echoer -> scripted")[1]


def test_what_one_agent_of_a_flow_was_asked_is_explained(bots: Path) -> None:
    done = chat(bots, "trip", "Fly me", "/explain")
    assert "booker -> scripted (gemini)" in done.stdout
    assert "the instruction carries it as {intent}" in done.stdout


def test_help_lists_the_commands(bots: Path) -> None:
    done = chat(bots, "echoer", "/help", "/exit", "never said")
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    assert listed == {"/state", "/events", "/explain", "/rewind", "/resume", "/help", "/exit"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/nonsense", "error: chat: there is no command `/nonsense`"),
        ("/rewind", "error: chat: nothing was said yet"),
        ("/explain", "error: chat: nothing was said yet"),
        ("/events", "error: chat: nothing was said yet"),
        ("/resume", "error: session s of user in echoer: there is no session `s`"),
    ],
)
def test_a_command_that_cannot_be_done_is_told_and_the_chat_goes_on(
    bots: Path, line: str, problem: str
) -> None:
    done = chat(bots, "echoer", line, "Hello")
    assert done.stdout == "1: Hello\n"
    assert problem in done.stderr.splitlines()


def test_an_error_is_told_and_the_chat_goes_on(bots: Path) -> None:
    done = chat(bots, "strict", "Hi", "Ho", "/events", options=("--strict",))
    assert done.stderr.count("error: compile_error: MissingVariable: ") == 2
    assert "user    Hi" in done.stdout
    assert "! compile_error" in done.stdout


def test_f8_a_confirmation_is_asked_inline(bots: Path) -> None:
    done = chat(bots, "payer", "Pay", "perhaps", "y")
    assert done.stdout == "All done.\n"
    assert done.stderr.splitlines()[1:] == [
        "→ pay(amount=5)",
        "waits for a yes or no: pay(amount=5)",
        "error: pay: this wants a yes or no, not 'perhaps'",
        "  hint: say yes or no",
        "waits for a yes or no: pay(amount=5)",
        '← "paid 5"',
    ]


def test_f8_a_yes_may_have_other_arguments_and_a_no_its_reason(bots: Path) -> None:
    done = chat(bots, "payer", "Pay", '{"amount": "x"}', '{"amount": 3}')
    assert "error: answers[" in done.stderr
    assert "paid 3" in done.stderr
    assert done.stdout == "All done.\n"


def test_f8_what_waits_is_listed_and_a_no_may_have_its_reason(bots: Path) -> None:
    chat(bots, "payer", "Pay")
    listed = weft(bots, "sessions", "pending")
    assert 'May pay be called with {"amount":5}?' in listed.stdout
    rows = json.loads(weft(bots, "sessions", "pending", "--json").stdout)
    assert [(row["sessionId"], row["name"], row["kind"]) for row in rows] == [
        ("s", "pay", "confirm")
    ]
    done = chat(bots, "payer", "n over the limit")
    assert weft(bots, "sessions", "pending").stderr == "nothing waits\n"
    assert "the user refused this call: over the limit" in done.stderr


def test_f8_a_refusal_is_what_the_model_sees(bots: Path) -> None:
    done = chat(bots, "payer", "Pay", "n")
    assert '← {"error":"the user refused this call"}' in done.stderr
    assert done.stdout == "All done.\n"


def test_f8_a_long_running_call_is_answered_inline_or_left_open_for_later(bots: Path) -> None:
    first = chat(bots, "asker", "Go", "yes", "", "/state")
    assert first.stdout == "  empty\n"
    assert "waits for an answer: approve(amount=2)" in first.stderr
    second = chat(bots, "asker", '{"ok": true}')
    assert second.stdout == "All done.\n"
    assert "waits for an answer: approve(amount=2)" in second.stderr
    assert "waits for" not in chat(bots, "asker").stderr


def test_f8_an_input_that_ends_leaves_the_call_open(bots: Path) -> None:
    assert chat(bots, "payer", "Pay").stdout == ""
    assert "waits for a yes or no" in chat(bots, "payer").stderr


@contextmanager
def stopped(bots: Path) -> Iterator[subprocess.Popen[str]]:
    """A chat whose answer was stopped."""
    with started(bots, "chat", "bots:sleeper", "--session", "s", until=HELLO) as process:
        assert process.stdin is not None
        process.stdin.write("Go\n")
        process.stdin.flush()
        read_until(process, "waiting")
        process.send_signal(signal.SIGINT)
        read_until(process, "cancelled")
        yield process


def test_ctrl_c_stops_the_answer_and_returns_to_the_prompt(bots: Path) -> None:
    with stopped(bots) as process:
        out, err = process.communicate("/events\nMore\n", timeout=600)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines() == [
        "  user     Go",
        "  sleeper  → wait()",
        '  sleeper  ← {"error":"the run was cancelled"}',
        "  sleeper  ! cancelled: the run was cancelled",
        "Awake.",
    ]


def test_what_was_cancelled_can_go_on(bots: Path) -> None:
    with stopped(bots) as process:
        out, _ = process.communicate("/resume\n", timeout=600)
    assert out == "Awake.\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("bots:nobody",), "the module has no `nobody`"),
        (("bots:echoer", "--store", "nonsense"), "`nonsense` is not the address of a store"),
        (("bots:echoer", "--state", "x"), "--state: `x` is not a key and a value"),
        (("bots:echoer", "--max-llm-calls", "0"), "max_llm_calls=0"),
        (("bots:echoer", "--store", "sqlite:///no/such/x.db"), "no/such/x.db"),
    ],
)
def test_bad_arguments_are_one_line(bots: Path, arguments: tuple[str, ...], line: str) -> None:
    assert line in refusal(weft(bots, "chat", *arguments, typed="Hi\n"))[0]
    assert not (bots / "weft.db").exists()


def test_bytes_that_are_no_text_are_no_end(bots: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "chat", "bots:echoer"],
        cwd=bots,
        env=environment(),
        input=b"caf\xe9\n",
        capture_output=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (0, "1: caf\N{REPLACEMENT CHARACTER}\n".encode())


def test_a_terminal_has_a_prompt_and_dim_notes(bots: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "weft", "chat", "bots:weather", "--session", "s"],
        cwd=bots,
        env=environment(TERM="xterm-256color", COLUMNS="100"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = _shown(ours, "> ")
        os.write(ours, b"Is it raining?\n")
        shown += _shown(ours, "Oslo.\r\n> ")
        os.write(ours, b"\x04")
        assert process.wait(600) == 0
    os.close(ours)
    assert '\x1b[2m→ get_weather(city="Oslo")\x1b[0m\r\n' in shown
    assert "\r\nIt rains in Oslo.\r\n> " in shown


def _shown(terminal: int, wanted: str) -> str:
    """What the terminal shows, up to the text."""
    shown = b""
    while wanted.encode() not in shown:
        shown += os.read(terminal, 65536)
    return shown.decode()
