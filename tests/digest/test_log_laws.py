"""A digest of a log keeps what fails, and a line of every kind; it says how many are like it."""

import json
import random
import re
from collections import Counter

import pytest

from tests.digest.log_styles import FAILING, OTHERS, QUIET, TUNED, LogStyle
from weft import C
from weft.content import call_part, result_part
from weft.declare import Policy
from weft.digest import reduced, shape_of
from weft.digest.alike import kinds_of, troubles_in
from weft.recordings import recording_of
from weft.replay.replay import replay, requests_of, uses_of
from weft.testing import make_session
from weft.tokens import counter_for
from weft.values import Json, compact

COUNT = counter_for("gpt-5").count
STYLES = (*TUNED, *OTHERS)


def digest(value: Json, limit: int = 400, *, most: int | None = 1_000_000) -> str:
    short = reduced(value, limit_tokens=limit, count=COUNT, most=most).value
    return short if isinstance(short, str) else compact(short)


def planted(style: LogStyle, seed: object) -> tuple[str, str]:
    """A log, and the head of the rare line that stands somewhere in it."""
    chance = random.Random(f"{style.name} {seed}")
    level, messages = chance.choice([("ERROR", FAILING), ("INFO", QUIET)])
    line = style.rare_line(chance, level, chance.choice(messages))
    text = style.text(chance, chance.choice([80, 300]), [line])
    head = line.split("\n")[0]
    # of a record its message is what tells it apart
    return text, json.loads(head)["msg"] if shape_of(text) == "json" else head


@pytest.mark.parametrize("style", STYLES, ids=[style.name for style in STYLES])
def test_the_only_line_of_its_kind_stays(style: LogStyle) -> None:
    for seed in range(5):
        text, rare = planted(style, seed)
        short = digest(text)
        assert rare in short
        assert COUNT(short) < 0.5 * COUNT(text)


@pytest.mark.parametrize("style", STYLES, ids=[style.name for style in STYLES])
def test_every_kind_has_a_line_and_all_lines_are_accounted_for(style: LogStyle) -> None:
    text, _ = planted(style, "kinds")
    if shape_of(text) in ("json", "table"):
        return  # rows are the matter of tables
    short = digest(text)
    lines, kinds = text.splitlines(), kinds_of(text.splitlines())
    shown = Counter(re.sub(r" \(\+[\d,]+ alike\)$", "", line) for line in short.split("\n"))
    for kind, size in enumerate(kinds.sizes):
        mine = [line for line, one in zip(lines, kinds.of, strict=True) if one == kind]
        here = [*dict.fromkeys(line for line in mine if line in shown)]
        assert here, mine[0]
        more = re.search(rf"^{re.escape(here[0])} \(\+([\d,]+) alike\)$", short, re.MULTILINE)
        hidden = int(more[1].replace(",", "")) if more else 0
        assert size == hidden + sum(shown[line] for line in here)
    for line, trouble in zip(lines, kinds.troubles, strict=True):
        assert not trouble or line in shown


@pytest.mark.parametrize("limit", [100, 200, 400])
def test_within_a_firm_limit_what_fails_stays_before_all_else(limit: int) -> None:
    missing = 0
    for style in STYLES:
        chance = random.Random(style.name)
        line = style.rare_line(chance, "ERROR", "connection refused by db-7").split("\n")[0]
        short = digest(style.text(chance, 200, [line]), limit, most=None)
        assert COUNT(short) <= limit
        missing += line not in short and "refused" not in short
    # of a record, or a page of stack, there may be no room
    assert missing <= (4 if limit == 100 else 2)


def test_a_clock_is_not_the_place_of_a_hit() -> None:
    lines = [
        f"10:{n // 60:02}:{n % 60:02} INFO request {n} served in {n % 7} ms" for n in range(480)
    ]
    lines[211] = "10:03:31 ERROR cannot reach the payment service"
    short = digest("\n".join(lines))
    assert lines[211] in short
    assert "(+" in short


WRAPPERS = {
    "numbered": lambda text: "\n".join(
        f"{n:6}\u2192{line}" for n, line in enumerate(text.splitlines(), 1)
    ),
    "found by grep": lambda text: "\n".join(
        f"logs/app.log:{n}:{line}" for n, line in enumerate(text.splitlines(), 1)
    ),
    "in a field": lambda text: {"stdout": text, "exit_code": 0},
    "a list of lines": lambda text: {"page": 1, "lines": text.splitlines()},
    "a list of records": lambda text: {"log": [{"line": one, "n": 1} for one in text.splitlines()]},
    "with line ends of Windows": lambda text: text.replace("\n", "\r\n"),
    "in colours": lambda text: text.replace("INFO", "\x1b[32mINFO\x1b[0m"),
    "in the words of a harness": lambda text: (
        f"<returncode>0</returncode>\n<output>\n{text}\n</output>"
    ),
}


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_log_is_one_however_it_is_handed_over(wrap: str) -> None:
    for style in TUNED[:3]:
        chance = random.Random(style.name)
        rare = style.rare_line(chance, "DEBUG", "leader is now node-seven, elected by quorum")
        whole = WRAPPERS[wrap](style.text(chance, 250, [rare]))
        short = digest(whole)
        told = rare.split("node-seven")[0] if style is TUNED[1] else "leader is now node-seven"
        assert (told if style is not TUNED[1] else "PROPFIND") in short, style.name
        size = COUNT(whole if isinstance(whole, str) else compact(whole))
        assert COUNT(short) < 0.6 * size


def test_statements_by_the_hundred_are_a_log_too() -> None:
    lines = [f"INSERT INTO orders VALUES ({n}, 'a{n * 7}', {n * 3});" for n in range(300)]
    lines[123] = "ROLLBACK TO SAVEPOINT before_import;"
    assert lines[123] in digest("\n".join(lines))


def test_a_program_that_was_run_after_it_was_shown_tells_how_it_ended() -> None:
    code = "\n\n".join(f"def part_{n}(value):\n    return value * {n}" for n in range(90))
    trace = "Traceback (most recent call last):\n  File 'a.py', line 3\nKeyError: 'id'"
    text = f"{code}\n\n{trace}\n{code}"
    short = digest(text, 300)
    assert "KeyError: 'id'" in short


def test_a_failure_far_into_a_long_line_is_shown() -> None:
    lines = [f"10:00:{n:02} INFO payload {'x=1 ' * 300}" for n in range(60)]
    lines[31] = (
        f"10:00:31 INFO payload {'x=1 ' * 200}status: quota exhausted for tenant 9 {'x=1 ' * 90}"
    )
    short = digest("\n".join(lines), 600)
    assert "quota exhausted for tenant 9" in short


def test_prose_has_no_kinds_and_is_still_short() -> None:
    words = ["river", "boat", "harbour", "winter", "summer", "captain", "sailor", "letter"]
    words += ["garden", "window", "candle", "mountain", "shepherd", "village", "market", "orchard"]
    chance = random.Random(4)
    text = "\n".join(
        f"The {' '.join(chance.choices(words, k=chance.randrange(6, 16)))}, and so on."
        for _ in range(300)
    )
    assert COUNT(digest(text, 300)) <= 300


@pytest.mark.parametrize(
    "line",
    [
        "all 214 tests passed, 0 failed, 0 errors",
        "errors=0 warnings=0 elapsed=3.2s",
        '{"level":"info","error":null,"status":200}',
        "no errors found in 12 files",
        '1.2.3.4 - - "GET / HTTP/1.1" 200 512',
        "process exited with code 0",
        "<returncode>0</returncode>",
        "exit status: 0",
        "Tests run: 9, Failures: 0, Errors: 0, Skipped: 0",
    ],
)
def test_what_went_well_is_no_failure(line: str) -> None:
    assert troubles_in([line]) == [0.0]


@pytest.mark.parametrize(
    "line",
    [
        "panic: assignment to entry in nil map",
        "process exited with code 137",
        "<returncode>1</returncode>",
        "app.service: Main process exited, code=exited, status=203/EXEC",
        '1.2.3.4 - - "GET / HTTP/1.1" 502 512',
        "status=503 upstream=api",
        "E0612 10:00:00.000000       1 pool.go:88] lease gone",
        "06-11 23:50:01.000  1202  1737 E PowerUI: battery gone",
        "tests/test_a.py ..F.                 [ 40%]",
        "not ok 3 - parses dates",
        "npm ERR! code ELIFECYCLE",
        "Out of memory: Killed process 811 (java)",
        "3 errors, 2 warnings",
        "Fehler: Verbindung verweigert",
        "\u9519\u8bef: \u6587\u4ef6\u4e0d\u5b58\u5728",
        "\u043e\u0448\u0438\u0431\u043a\u0430 \u0447\u0442\u0435\u043d\u0438\u044f",
        "jobs-0badc0ffe   0/1   CrashLoopBackOff   977   3m",
    ],
)
def test_a_sign_of_failure_is_seen(line: str) -> None:
    assert troubles_in([line])[0] > 0


@pytest.mark.parametrize(
    "lines",
    [
        ["Mon, 05 Jan 2024 10:03:31 up", "Tue, 16 Feb 2024 11:13:01 up"],
        ["lun. 5 f\u00e9vr. 2024 10:03:31 up", "mar. 16 mars 2024 11:13:01 up"],
        [
            "2024\u5e745\u67083\u65e5 10:00:01 \u8d77\u52a8",
            "2023\u5e7411\u670813\u65e5 22:10:59 \u8d77\u52a8",
        ],
        ["10:03:31 AM up", "01:13:01 PM up"],
        ["took 12ms at 10.0.0.1:80", "took 1.5s at 192.168.7.12:8080"],
        ["id 3fa4c1d2-dead-4abc-8def-aabbccddeeff", "id 00000000-0000-4000-8000-00000000beef"],
        ["link aa:bb:cc:dd:ee:ff", "link 00:11:22:33:44:55"],
        ["block deadbeef", "block 00ff12ab"],
        ["version 1.2.3-rc1", "version 10.0.0"],
    ],
)
def test_lines_that_differ_in_times_numbers_and_ids_are_alike(lines: list[str]) -> None:
    assert len(set(kinds_of(lines).of)) == 1


# in requests


def session_with(text: str, *, command: str = "cat app.log") -> object:
    steps: list[tuple[str, object]] = [("user", "Why is it slow?")]
    for step, result in enumerate(["ok", text, "ok", text[: len(text) // 2]]):
        arguments = {"command": command if step % 2 else f"true {step}"}
        steps.append(("bot", [call_part("bash", arguments, id=f"c{step}")]))
        steps.append(("bot", [result_part("bash", {"result": result}, id=f"c{step}")]))
    return make_session(*steps, ("bot", "It was that."))  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [C.auto(), C.default().compact()], ids=["auto", "compact"])
@pytest.mark.parametrize("command", ["cat app.log", "grep -n job app.log"])
def test_the_model_sees_it_and_gets_the_rest_back(policy: Policy, command: str) -> None:
    for style in STYLES:
        text, rare = planted(style, "request")
        session = session_with(text, command=command)
        recording = recording_of(session)  # type: ignore[arg-type]
        grown = [compiled for _, _, compiled in requests_of(recording, policy)]
        sent = "\n".join(
            str(value)
            for item in grown[2].prompt.items
            for block in item.blocks
            for value in getattr(block, "response", {}).values()
        )
        spelled = rare if shape_of(text) != "json" else json.dumps(rare, ensure_ascii=False)[1:-1]
        assert spelled in sent or spelled.replace('"', '\\"') in sent, style.name
        trial = replay(recording, policy, uses=uses_of(recording.session.events))
        assert trial.restorable == 1.0
        assert trial.broken == trial.announced
