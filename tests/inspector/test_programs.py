"""What if, ghosts, force-in and diffs hold for every agent of a program, wherever it stands."""

import asyncio
import collections.abc
import json
import re
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from tests.cli.run import weft
from tests.inspector.programs import Programmer, Shape, every_shape, ran, shapes
from tests.support.receipts import require_sums
from weft import Agent, C, RunConfig, Sequence
from weft.compiler.compile import compile_request
from weft.compiler.mask import rules_of
from weft.compiler.tools import declared_policy
from weft.declare import Node
from weft.declare.words import policy_from
from weft.errors import UsageError
from weft.inspector import Inspection, Variant, questions
from weft.inspector.comparing import set_side_by_side
from weft.inspector.diagnosis import Ledger
from weft.inspector.request import RequestView
from weft.recordings import recording_of
from weft.replay.evidence import Uses
from weft.replay.replay import replay
from weft.replay.steps import at_step, homes_of, is_answer, speaker_of, under_policy
from weft.session import Session, Usage
from weft.testing import make_session
from weft.values import JsonObject, compact

POLICIES = ("C.default()", "C.none()", "C.window(1)", "C.auto()")


def require_laws(
    shape: Shape, dialect: str = "anthropic", policies: collections.abc.Sequence[str] = POLICIES
) -> None:
    """All laws on the session that a program of this shape runs."""
    root, session, sent = asyncio.run(ran(shape, dialect=dialect))
    inspection = Inspection(root, session)
    assert not [event.error_message for event in session.events if event.error_code]
    assert inspection.steps
    rebuilt = [compact(step.request.wire) for step in inspection.steps if step.request is not None]
    assert sorted(rebuilt) == sorted(map(compact, sent)), "what is shown is what was sent"
    require_identity(root, session)
    require_what_ifs(shape, root, session, dialect, policies)
    require_ghosts(root, session)
    require_forced(inspection)
    require_receipt(root, session)


def require_identity(root: Node, session: Session) -> None:
    """Under its own policy each agent is sent the same; the parts of a request are all of it."""
    inspection = Inspection(root, session)
    own = under_policy(root, lambda agent: declared_policy(agent, RunConfig()))
    again = Inspection(own, session)
    for step, same in zip(inspection.steps, again.steps, strict=True):
        assert step.request is not None
        assert same.request is not None
        assert compact(same.request.wire) == compact(step.request.wire)
        answer = questions.what_if(inspection, step.number, Variant())
        assert answer["view"]["text"] == compact(step.request.wire)
        assert (answer["tokens"], answer["cost"]) == (answer["tokens_now"], answer["cost_now"])
    assert set_side_by_side(inspection, again)["parting"] is None
    frames = inspection.film()["frames"]
    for frame in frames:
        assert sum(frame["sources"].values()) == frame["tokens"]
    ledger = Ledger(inspection.steps)
    assert sum(row.cost for row in ledger.parts.values()) == pytest.approx(ledger.total)
    assert ledger.total == pytest.approx(sum(frame["cost"] for frame in frames))
    asked = questions.bisect(inspection, "You are agent")
    gone = {(one["agent"], one["number"]) for one in asked["vanished"]}
    held: dict[object, bool] = {}
    for step, row in zip(inspection.steps, asked["steps"], strict=True):
        speaker = speaker_of(step.event)
        was = held.get(speaker, False)
        assert ((step.event.author, step.number) in gone) == (was and not row["in_view"])
        held[speaker] = row["in_view"]


def require_receipt(root: Node, session: Session) -> None:
    """Each answer has one line on the receipt, with its own request and its bill."""
    events = [
        msgspec.structs.replace(
            event, usage=Usage(prompt_token_count=1_000 + place, candidates_token_count=5)
        )
        if is_answer(event)
        else event
        for place, event in enumerate(session.events)
    ]
    inspection = Inspection(root, Session(session.id, events=events, state=session.initial))
    receipt = inspection.receipt()
    assert [line.event for line in receipt.lines] == [one.id for one in events if is_answer(one)]
    for line, step in zip(receipt.comparable_lines, inspection.steps, strict=True):
        assert step.request is not None
        assert line.call.expected is not None
        assert line.call.expected.total == step.request.tokens
    require_sums(receipt)


def require_what_ifs(
    shape: Shape,
    root: Node,
    session: Session,
    dialect: str,
    policies: collections.abc.Sequence[str],
) -> None:
    """A what-if is the request of the program that has the policy written into each agent."""
    for text in policies:
        variant, policy = Variant(policy=text), policy_from(text)
        asked = Inspection(root, session)
        written = Programmer(policy, dialect=dialect).program(shape)
        expected = Inspection(written, session)
        homes = homes_of(written)
        for step in asked.steps:
            answer = questions.what_if(asked, step.number, variant)
            own = expected.request(step.number)
            assert answer["view"]["text"] == compact(own.wire), (shape, text, step.number)
            assert answer["tokens"] == own.tokens
            if step.number % 3:
                continue
            at = at_step(
                under_policy(root, lambda agent, policy=policy: policy),
                session,
                step.number,
                agent=None,
                dialect=None,
                config=RunConfig(),
            )
            assert compact(at.wire) == compact(own.wire), "`weft diff --policy` compares this one"
            if not step.event.isolation_scope and not rules_of(root):
                alone = compile_request(
                    homes[step.event.author],
                    session=session.before(step.place),
                    agent=step.event.author,
                    branch=step.event.branch,
                )
                assert compact(alone.wire) == compact(own.wire)
        both = questions.compare(asked, variant)
        assert both["then"]["frames"] == expected.film()["frames"], "A/B over the whole session"


def require_ghosts(root: Node, session: Session) -> None:
    """The ghost of a session is what `weft replay` says of plain history."""
    model = "claude-opus-5"
    ghosts = Inspection(root, session, config=RunConfig(model=model)).ghosts()
    trial = replay(
        recording_of(session),
        C.default(),
        uses=Uses({}),
        model=model,
        agents=homes_of(root),
    )
    assert [ghost["tokens"] for ghost in ghosts] == [*trial.curve]
    assert sum(ghost["cached"] for ghost in ghosts) == trial.cached
    assert sum(ghost["cost"] for ghost in ghosts) == pytest.approx(trial.cost)


def require_forced(inspection: Inspection) -> None:
    """An event that was left out of a request is in it when it is forced in."""
    for step in inspection.steps:
        view = RequestView(inspection, step.number)
        gone = {
            row.origin.name: row.step
            for row in view.left_out()
            if row.action == "dropped" and row.origin.kind == "event" and row.text
        }
        for event, by in list(gone.items())[:2]:
            answer = forced_in(inspection, step.number, event)
            if isinstance(answer, str):  # an agent's place in the program hides it from all
                assert re.search("drop_hidden|select_branch|attribute_foreign", answer)
                continue
            assert by not in ("drop_hidden", "select_branch")
            origins = [answer["view"]["origins"][row["origin"]] for row in answer["view"]["rows"]]
            assert event in [origin["name"] for origin in origins]
            assert answer["tokens"] > answer["tokens_now"]


def forced_in(inspection: Inspection, number: int, event: str) -> JsonObject | str:
    """The answer, or why there is none."""
    try:
        return questions.force_in(inspection, number, [event])
    except UsageError as error:
        return error.message


def test_every_kind_of_node_in_every_other_kind() -> None:
    failed = []
    for number, shape in enumerate(every_shape()):
        try:
            require_laws(shape, policies=POLICIES[number % len(POLICIES) :][:1])
        except AssertionError as error:
            failed.append(f"{shape}: {str(error)[:300]}")
    assert not failed, "\n".join(failed)


@settings(max_examples=12)
@given(shapes)
def test_programs_nested_to_any_depth(shape: Shape) -> None:
    require_laws(shape)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "gemini"])
def test_the_laws_hold_in_every_dialect(dialect: str) -> None:
    inner: Shape = ("caller", ("custom", ("agent",), ("agent",)), ("agent",))
    require_laws(("router", ("sequence", inner, ("agent",)), ("agent",)), dialect)


def test_what_a_policy_hides_stays_hidden_under_any_other() -> None:
    hidden = C.when(lambda state: True, C.default().label("secret", "pin").redact("email"))
    clerk = Agent("clerk").sees(hidden + C.window(2))
    for root in (
        clerk,
        Agent("router", sub_agents=[clerk]),
        Agent("caller", tools=[clerk]),
        Sequence(Agent("before"), Agent("after", sub_agents=[clerk >> Agent("last")])),
    ):
        assert rules_of(under_policy(root, lambda agent: C.default())) == rules_of(root)
    run = RunConfig(context=C.window(1).redact("email"))
    laid_over = under_policy(Agent("bare"), lambda agent: C.default(), run)
    assert rules_of(laid_over) == rules_of(Agent("bare"), run)


def test_the_code_of_a_custom_agent_is_not_a_request() -> None:
    root, session, _ = asyncio.run(ran(("custom", ("agent",), ("agent",))))
    inspection = Inspection(root, session)
    assert any(event.text == "Code speaks." for event in session.events)
    assert not [step.problem for step in inspection.steps if step.problem]
    assert "custom_5" not in inspection.film()["session"]["agents"]


def test_a_budget_alone_leaves_the_view_of_an_agent_without_a_policy() -> None:
    notes = Agent("notes", model="gpt-5").writes("notes")
    last = Agent("last", model="gpt-5", instruction="Go on.")
    said = [("user", "Go."), ("notes", "Data for others.", {"notes": "Data for others."})]
    session = make_session(*said, ("last", "Done."))
    inspection = Inspection(notes >> last, session)
    large = questions.what_if(inspection, 2, Variant(budget=100_000))
    assert large["tokens"] == large["tokens_now"]


PROGRAM = """
from weft import Agent, C, Runner
from weft.testing import ScriptedModel, call

KIND = {"name": "claude-opus-5", "dialect": "anthropic"}
answers = ScriptedModel([f"Answer {n}. " * 40 for n in range(9)], **KIND)
helper = Agent("helper", model=answers, instruction="Help. " * 300).sees(C.none())
script = [call("helper", request=f"Look {n}") if n % 2 == 0 else f"Done {n}." for n in range(9)]
desk_model = ScriptedModel(script, **KIND)
desk = Agent("desk", model=desk_model, tools=[helper], instruction="Serve. " * 300)
desk = desk.sees(C.window(1))
hand_over = ScriptedModel([call("transfer_to_agent", agent_name="desk")], **KIND)
router = Agent("router", model=hand_over, sub_agents=[desk])


def run(store):
    import asyncio

    async def talk():
        runner = Runner(router, store=store, app_name="router")
        for turn in range(4):
            await runner.run(f"Question {turn}? " * 20, session_id="s")
        return await runner.session(session_id="s")

    return asyncio.run(talk())
"""


def test_the_ghost_is_what_the_command_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "team.py").write_text(PROGRAM, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    team = import_module("team")
    session = team.run(f"sqlite:///{tmp_path / 'weft.db'}")
    done = weft(
        tmp_path, "replay", "--store", "sqlite:///weft.db", "--session", "s", "--target",
        "team:router", "--model", "claude-opus-5", "--policy", "C.default()", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (plain,) = json.loads(done.stdout)["rows"]
    ghosts = Inspection(team.router, session).ghosts()
    assert plain["requests"] == len(ghosts) == 13
    assert plain["tokens"] == sum(ghost["tokens"] for ghost in ghosts)
    assert plain["cost"] == pytest.approx(sum(ghost["cost"] for ghost in ghosts))
