"""`weft sessions` looks into a store without making one, and takes invocations back."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.cli.run import refusal, weft
from tests.support.build import calls, returns, says, user
from weft import Event, Session
from weft.session import Actions, SessionKey
from weft.stores import open_store

TALK = (
    user("Is it\nraining?", inv="first-of-all"),
    calls("bot", "look", {"city": "Oslo"}, "c1", inv="first-of-all"),
    returns("bot", "look", {"sky": "rain"}, "c1", inv="first-of-all"),
    says("bot", "It rains.", inv="first-of-all"),
    user("And now?", inv="second"),
    Event(
        author="bot", invocation_id="second", error_code="model_error", error_message="503\nagain"
    ),
    Event(
        author="step", invocation_id="second", actions=Actions(state_delta={"n": 7, "who": "Ann"})
    ),
)


def fill(folder: Path, *keys: tuple[str, str, str], events: tuple[Event, ...] = TALK) -> str:
    """A store with these sessions."""

    async def go() -> None:
        store = open_store(f"sqlite:///{folder}/weft.db")
        for key in keys:
            session = await store.create(SessionKey(*key), state={"start": True})
            await store.append(session, *events)
        await store.close()

    asyncio.run(go())
    return "sqlite:///weft.db"


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_sessions_are_listed_with_their_users_and_lengths(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"), ("app", "bob", "two"))
    done = weft(tmp_path, "sessions", "list")
    assert done.returncode == 0
    head, *body = rows(done.stdout)
    assert head == ["id", "user", "events", "last change"]
    assert sorted(row[:3] for row in body) == [["one", "ann", "7"], ["two", "bob", "7"]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", row[3]) for row in body)
    assert [row[0] for row in rows(weft(tmp_path, "sessions", "list", "--user", "bob").stdout)] == [
        "id", "two"
    ]  # fmt: skip


def test_the_sessions_of_several_apps_say_whose_they_are(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"), ("other", "ann", "one"))
    head, *body = rows(weft(tmp_path, "sessions", "list").stdout)
    assert head[-1] == "app"
    assert sorted(row[-1] for row in body) == ["app", "other"]
    assert rows(weft(tmp_path, "sessions", "list", "--app", "other").stdout)[1][0] == "one"


def test_the_list_is_json_if_asked_for(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"))
    (row,) = json.loads(weft(tmp_path, "sessions", "list", "--json").stdout)
    assert row.pop("lastUpdateTime") > 0
    assert row == {"appName": "app", "userId": "ann", "id": "one", "events": 7}


def test_a_conversation_is_shown_in_short_lines(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"))
    done = weft(tmp_path, "sessions", "show", "one")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("session one of ann in app, 7 events, last change ")
    assert lines[1:] == [
        "",
        "invocation first-of-all",
        "  user  Is it raining?",
        '  bot   → look(city="Oslo")',
        '  bot   ← {"sky":"rain"}',
        "  bot   It rains.",
        "",
        "invocation second",
        "  user  And now?",
        "  bot   ! model_error: 503 again",
        "  step  = n: 7",
        '  step  = who: "Ann"',
        "",
        "state",
        "  start = true",
        "  n = 7",
        '  who = "Ann"',
    ]


def test_a_log_cannot_steer_the_terminal(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"), events=(user("\x1b[31mred\x07", inv="\x1b[2Ji"),))
    for command in ("show", "list"):
        done = weft(tmp_path, "sessions", command, *(["one"] if command == "show" else []))
        assert done.returncode == 0
        assert "\x1b" not in done.stdout


def test_an_export_is_the_session(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"))
    done = weft(tmp_path, "sessions", "export", "one")
    session = Session.from_json(done.stdout)
    assert (session.id, session.app_name, session.user_id) == ("one", "app", "ann")
    assert list(session.events) == list(TALK)
    assert session.state == {"start": True, "n": 7, "who": "Ann"}
    filed = weft(tmp_path, "sessions", "export", "one", "-o", "one.json")
    assert (filed.stdout, filed.stderr) == ("", "wrote one.json\n")
    assert (tmp_path / "one.json").read_text("utf-8") == done.stdout
    weft(tmp_path, "sessions", "export", "one", "-o", "again.json")
    said, _ = refusal(weft(tmp_path, "sessions", "export", "one", "-o", "no/such/x.json"))
    assert said == "--output: there is no folder no/such"


def test_an_export_is_imported_as_whose_somebody_says(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"))
    weft(tmp_path, "sessions", "export", "one", "-o", "one.json")
    again = weft(tmp_path, "sessions", "import", "one.json")
    assert "a session `one` is in the store already" in again.stderr
    done = weft(tmp_path, "sessions", "import", "one.json", "--app", "other", "--user", "bob")
    assert done.returncode == 0, done.stderr
    listed = json.loads(weft(tmp_path, "sessions", "list", "--json").stdout)
    owners = {(one["appName"], one["userId"], one["id"]) for one in listed}
    assert owners == {("app", "ann", "one"), ("other", "bob", "one")}


def test_an_export_that_is_imported_is_the_same_session_at_every_place(tmp_path: Path) -> None:
    events = (
        user("Hi", inv="1", actions=Actions(state_delta={"start": False, "user:name": "Ann"})),
        says("bot", "an emoji cut in half: \ud83d", inv="1"),
        says("bot", "done", inv="2", actions=Actions(state_delta={"start": None})),
    )
    fill(tmp_path, ("app", "ann", "one"), events=events)
    assert weft(tmp_path, "sessions", "export", "one", "-o", "one.json").returncode == 0
    done = weft(tmp_path, "sessions", "import", "one.json", "--store", "sqlite:///other.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert "half a character" in done.stdout

    async def both() -> list[Session]:
        sessions: list[Session] = []
        for name in ("weft", "other"):
            store = open_store(f"sqlite:///{tmp_path}/{name}.db")
            session = await store.get(SessionKey("app", "ann", "one"))
            assert session is not None
            sessions.append(session)
            await store.close()
        return sessions

    one, other = asyncio.run(both())
    assert [other.before(at).state for at in range(4)] == [one.before(at).state for at in range(4)]
    assert [other.before(at).state.get("start") for at in range(4)] == [True, False, False, None]
    assert [event.id for event in other.events] == [event.id for event in one.events]
    # what is damaged is still told from what is mended
    text = (tmp_path / "one.json").read_text("utf-8").replace('"Hi"', '"Ho"')
    (tmp_path / "two.json").write_text(text, "utf-8")
    damaged = weft(tmp_path, "sessions", "import", "two.json", "--store", "sqlite:///third.db")
    assert damaged.returncode == 1
    assert "the event is damaged" in damaged.stderr


def test_s4_the_last_invocation_is_taken_back_and_nothing_deleted(tmp_path: Path) -> None:
    fill(tmp_path, ("app", "ann", "one"))
    done = weft(tmp_path, "sessions", "rewind", "one", "--last")
    assert (done.returncode, done.stdout) == (0, 'taken back from invocation second: "And now?"\n')
    shown = weft(tmp_path, "sessions", "show", "one").stdout.splitlines()
    assert "invocation second  (taken back)" in shown
    assert shown[0].startswith("session one of ann in app, 8 events")
    assert shown[shown.index("state") :] == ["state", "  start = true"]
    again = weft(tmp_path, "sessions", "rewind", "one", "--last")
    assert "first-of-all" in again.stdout
    assert refusal(weft(tmp_path, "sessions", "rewind", "one", "--last"))[0].endswith(
        "there is no invocation to take back"
    )


@pytest.mark.parametrize("name", ["first-of-all", "first"])
def test_s4_all_from_an_invocation_on_is_taken_back(tmp_path: Path, name: str) -> None:
    fill(tmp_path, ("app", "ann", "one"))
    done = weft(tmp_path, "sessions", "rewind", "one", "--before", name)
    assert done.stdout == 'taken back from invocation first-of-all: "Is it raining?"\n'
    shown = weft(tmp_path, "sessions", "show", "one").stdout
    assert shown.count("(taken back)") == 2


@pytest.mark.parametrize(
    ("arguments", "line", "hint"),
    [
        (("show", "on"), "there is no session `on`", "did you mean `one`? sessions there: "),
        (("export", "nine"), "there is no session `nine`", "sessions there: "),
        (("rewind", "nine", "--last"), "there is no session `nine`", "sessions there: "),
        (("show", "one", "--app", "ap"), "there is no app `ap`", "did you mean `app`?"),
        (("list", "--app", "ap"), "there is no app `ap`", "apps there: app, other"),
        (("list", "--user", "cat"), "the user `cat` has no session", "users there: ann, bob"),
        (("show", "one", "--user", "cat"), "the user `cat` has no session", "ann, bob"),
        (("show", "two"), "2 sessions are named `two`", "--app app --user bob or --app other"),
        (("rewind", "one"), "rewind: how far back?", "--last, or --before"),
        (("rewind", "one", "--last", "--before", "x"), "say two things", "--last"),
        (("rewind", "one", "--before", "x"), "there is no invocation `x`", "first-of-all, second"),
        (("show",), "sessions show: missing argument", "weft sessions show --help"),
        (("shwo", "one"), "no such command", "weft sessions --help"),
        (("list", "--store", "nonsense"), "`nonsense` is not the address", "sqlite:///"),
        (("list", "--store", "memory://"), "a store in memory has no sessions", "--store sqlite"),
        (("list", "--store", "sqlite:///no.db"), "no.db: there is no such file", "weft.db"),
        (("show", "one", "--store", "sqlite:///no/x.db"), "there is no such file", "weft chat"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    tmp_path: Path, arguments: tuple[str, ...], line: str, hint: str
) -> None:
    fill(
        tmp_path, ("app", "ann", "one"), ("app", "bob", "two"), ("other", "bob", "two"),
    )  # fmt: skip
    said, fix = refusal(weft(tmp_path, "sessions", *arguments))
    assert line in said
    assert hint in fix
    assert {path.suffix for path in tmp_path.iterdir()} <= {
        ".db",
        ".db-wal",
        ".db-shm",
        ".db-lease",
    }
    assert not (tmp_path / "no.db").exists()


def test_a_database_server_is_looked_into_the_same_way(bots: Path, postgres_url: str) -> None:
    kept = ("--store", postgres_url)
    first = weft(bots, "run", "bots:echoer", "Hello", "--session", "cli", *kept)
    assert (first.returncode, first.stdout) == (0, "1: Hello\n"), first.stderr
    again = weft(bots, "chat", "bots:echoer", "--session", "cli", *kept, typed="Again\n")
    assert again.stdout == "3: Again\n"
    assert "cli" in weft(bots, "sessions", "list", "--app", "echoer", *kept).stdout
    shown = weft(bots, "sessions", "show", "cli", "--app", "echoer", *kept)
    assert "  echoer  3: Again\n" in shown.stdout
    done = weft(bots, "explain", "bots:echoer", "--session", "cli", "--step", "2", *kept)
    assert done.returncode == 0, done.stderr
    assert "1: Hello" in done.stdout


@pytest.mark.parametrize(
    "command", [("list",), ("show", "x"), ("export", "x"), ("rewind", "x", "--last")]
)
def test_looking_makes_no_store(tmp_path: Path, command: tuple[str, ...]) -> None:
    said, _ = refusal(weft(tmp_path, "sessions", *command))
    assert said == "weft.db: there is no such file"
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weft.db").write_text("no database at all, but long enough to be read as one" * 9)
    said, _ = refusal(weft(tmp_path, "sessions", "list"))
    assert "this is not a SQLite database" in said
