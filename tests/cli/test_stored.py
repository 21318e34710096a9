"""What was sent in a stored session is shown again, by agent and by step."""

import asyncio
import base64
import json
from pathlib import Path
from typing import cast

import pytest

from tests.cli.run import refusal, weft
from weft import Agent, Flow, Part, Runner, compile
from weft.cli.load import load_node
from weft.testing import ScriptedModel

STORE = "sqlite:///weft.db"
Wire = dict[str, object]


def ran(folder: Path, target: str, *messages: str) -> list[tuple[str, Wire]]:
    """Run a target of the folder in this process; the requests that were really sent."""
    root = load_node(f"{folder}/bots.py:{target}")

    async def go() -> None:
        async with Runner(root, store=f"sqlite:///{folder}/weft.db") as runner:
            for message in messages:
                await runner.run(session_id="s", message=message)

    asyncio.run(go())
    model = _model(root)
    assert all(prompt.agent for prompt in model.prompts)
    sent = zip(model.prompts, model.wires, strict=True)
    return [(prompt.agent, cast("Wire", wire)) for prompt, wire in sent]


def _model(node: Agent | Flow) -> ScriptedModel:
    while not isinstance(node, Agent):
        node = node.children[0]
    assert isinstance(node.model, ScriptedModel)
    return node.model


def compiled(folder: Path, target: str, *arguments: str) -> Wire:
    given = ("--store", STORE, "--session", "s", "--json", *arguments)
    done = weft(folder, "compile", f"bots:{target}", *given)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "target", ["weather", "echoer", "trip", "desk", "shaped", "outer", "noter"]
)
def test_every_step_of_a_stored_session_is_the_request_that_was_sent(
    bots: Path, target: str
) -> None:
    sent = ran(bots, target, "Hello", *(["More"] if target == "noter" else []))
    found = [compiled(bots, target, "--step", str(n)) for n in range(1, len(sent) + 1)]
    assert sorted(map(json.dumps, found)) == sorted(json.dumps(wire) for _, wire in sent)


def test_steps_of_one_agent_are_counted_by_themselves(bots: Path) -> None:
    sent = [wire for agent, wire in ran(bots, "trip", "Fly me") if agent == "booker"]
    assert compiled(bots, "trip", "--agent", "booker", "--step", "2") == sent[1]


def test_a_question_to_the_user_is_no_step(bots: Path) -> None:
    ran(bots, "payer", "Pay")
    given = ("--store", STORE, "--session", "s", "--step", "2")
    said, _ = refusal(weft(bots, "explain", "bots:payer", *given))
    assert "there is no step 2; the session has 1 model events" in said


def test_a_stored_session_and_its_export_are_explained_alike(bots: Path) -> None:
    ran(bots, "echoer", "Hello", "Again")
    weft(bots, "sessions", "export", "s", "-o", "s.json")
    stored = weft(bots, "explain", "bots:echoer", "--store", STORE, "--session", "s", "-m", "Now")
    filed = weft(bots, "explain", "bots:echoer", "--session", "s.json", "-m", "Now")
    assert stored.returncode == 0, stored.stderr
    assert stored.stdout == filed.stdout
    assert "Again" in stored.stdout
    assert "Now" in stored.stdout
    page = ("--store", STORE, "--session", "s", "--step", "1", "--html", "page.html")
    assert weft(bots, "explain", "bots:echoer", *page).stdout == "wrote page.html\n"


def test_an_agent_of_a_flow_is_compiled_by_name(bots: Path) -> None:
    done = weft(
        bots, "compile", "bots:trip", "-m", "Hi", "--agent", "booker", "--state", "intent=x"
    )
    assert done.stdout.startswith("booker -> scripted (gemini)")
    assert "Intent: x" in done.stdout


def test_large_files_of_a_stored_session_are_in_its_requests(tmp_path: Path) -> None:
    (tmp_path / "bots.py").write_text(
        "from weft import Agent\nfrom weft.testing import ScriptedModel\n"
        'eye = Agent("eye", model=ScriptedModel(["A photo.", "Yes."], dialect="anthropic"))\n'
    )
    photo = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 1200
    encoded = base64.b64encode(photo).decode()
    root = load_node(f"{tmp_path}/bots.py:eye")

    async def go() -> list[Wire]:
        async with Runner(root, store=f"sqlite:///{tmp_path}/weft.db") as runner:
            await runner.run(["Look", Part.from_bytes(photo)], session_id="s")
            await runner.run("Is it nice?", session_id="s")
            session = await runner.session(session_id="s")
        assert encoded in json.dumps(compile(root, session=session, message="And?").wire)
        return cast("list[Wire]", _model(root).wires)

    sent = asyncio.run(go())
    for number, wire in enumerate(sent, 1):
        rebuilt = compiled(tmp_path, "eye", "--step", str(number))
        assert json.dumps(rebuilt) == json.dumps(wire)
    assert encoded in json.dumps(compiled(tmp_path, "eye", "-m", "And?"))
    stored = ("--store", STORE, "--session", "s")
    report = weft(tmp_path, "explain", "bots:eye", *stored, "--step", "2")
    assert report.returncode == 0, report.stderr
    assert "WEFT703" not in report.stdout + report.stderr
    replayed = weft(tmp_path, "replay", *stored, "--model", "claude-sonnet-5", "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["rows"][0]["tokens"] > 1000


def test_an_agent_behind_a_tool_is_compiled_by_name(bots: Path) -> None:
    done = weft(bots, "compile", "bots:outer", "-m", "Hi", "--agent", "inner")
    assert done.stdout.startswith("inner -> scripted (gemini)")


@pytest.mark.parametrize(
    ("target", "arguments", "line", "hint"),
    [
        ("trip", ("-m", "Hi"), "this is a flow", "--agent NAME: triage, left, right, booker"),
        ("trip", ("--agent", "boker"), "no agent `boker` in this flow", "did you mean `booker`?"),
        ("outer", ("--agent", "nobody"), "there is no agent `nobody`", "outer"),
        ("echoer", ("--store", STORE), "--store: which session?", "weft sessions list"),
        ("echoer", ("--store", STORE, "--session", "t"), "no session `t`", "sessions there: s"),
        ("echoer", ("--store", "sqlite:///x.db", "--session", "s"), "x.db: there is no", "weft.db"),
        ("echoer", ("--store", STORE, "--session", "s", "--user", "bob"), "has no session", "user"),
        ("weather", ("--store", STORE, "--session", "s"), "no app `weather`", "apps there: echoer"),
        (
            "echoer",
            ("--session", "s"),
            "the session cannot be read",
            f"--store {STORE} --session s",
        ),
        (
            "weather",
            ("--store", STORE, "--session", "s", "--app", "echoer", "--step", "1"),
            "made by `echoer`, which is not here",
            "this one has: weather",
        ),
    ],
)
def test_what_cannot_be_compiled_is_one_line(
    bots: Path, target: str, arguments: tuple[str, ...], line: str, hint: str
) -> None:
    ran(bots, "echoer", "Hello")
    said, fix = refusal(weft(bots, "explain", f"bots:{target}", *arguments))
    assert line in said
    assert hint in fix
