"""C.auto(careful=True): each result whole once, in short from the next one on."""

import json
import re
from typing import cast

import pytest

import weft
from tests.passes.test_auto import turns_of, working_session
from weft import Agent, C, Content, Event, Part, RunConfig, Session
from weft.compiler import compile_request
from weft.compiler.tools import values_of
from weft.content import ExecutableCode, call_part, result_part, to_content
from weft.declare.words import policy_from
from weft.errors import WeftError
from weft.recordings import recording_of
from weft.replay.replay import replay, requests_of, uses_of
from weft.testing import ScriptedModel, call

CAREFUL = C.auto(careful=True)
CLAUDE = "claude-opus-5"


def read(path: str) -> str:
    """Read a file."""
    return "\n".join(f"{n}: {path}_{n} = {n * 7919}" for n in range(1, 300))


def ran(dialect: str) -> ScriptedModel:
    script = [*(call("read", path=name) for name in "abcdef"), "Done."]
    model = ScriptedModel(script, dialect=dialect)
    agent = Agent("bot", model=model, instruction="Read. " * 2_000, tools=[read]).sees(CAREFUL)
    weft.run_sync(agent, "Go").check()
    return model


def test_a_result_is_whole_in_the_next_request_and_in_short_behind_the_one_after() -> None:
    wires = ran("openai-chat").wires
    texts = [
        [str(turn["content"]) for turn in cast("list[dict[str, object]]", wire["messages"])]
        for wire in wires
    ]
    for name, request in zip("abcdef", texts[1:], strict=True):
        assert f"299: {name}_299" in request[-1]
        assert f"150: {name}_150" in request[-1]
    assert sum("[handle " in text for text in texts[-1]) >= 3
    assert not any("150: a_150 " in text for text in texts[-1])


def test_the_mark_stands_before_what_will_change() -> None:
    session = working_session(3, 24, lines=90)
    recording = recording_of(session)
    passing = 0
    for _, _, compiled in requests_of(recording, CAREFUL, model=CLAUDE):
        tip = compiled.prompt.items.tip
        turns = cast("list[dict[str, object]]", turns_of(compiled))
        if tip is None or not tip.passing or compiled.tokens < 4_000:
            continue
        passing += 1
        assert "cache_control" not in str(turns[-1])
        assert any("cache_control" in str(turn) for turn in turns[-2:])
    assert passing


def test_a_change_is_announced_where_the_provider_has_kept_it() -> None:
    recording = recording_of(working_session(3, 60, lines=90))
    trial = replay(recording, CAREFUL, uses=uses_of(recording.session.events))
    assert 0 < trial.broken == trial.announced
    assert trial.present_next == trial.used_next
    assert trial.rebuilt == trial.reduced


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("model", [None, CLAUDE])
def test_a_request_is_the_same_cold_and_grown(seed: int, model: str | None) -> None:
    session = working_session(seed, 20, lines=90)
    for index, _, compiled in requests_of(recording_of(session), CAREFUL, model=model):
        if index % 3 == 0:
            alone = Session(session.id, events=list(session.events)[:index])
            config = RunConfig(model=compiled.prompt.model)
            again = compile_request(compiled.plan.path[0], session=alone, config=config)
            assert again.wire == compiled.wire


def test_it_is_written_as_in_code() -> None:
    assert str(CAREFUL) == "C.auto(careful=True)"
    assert policy_from(str(CAREFUL)) == CAREFUL
    assert str(C.auto()) == "C.auto()"
    with pytest.raises(WeftError, match="careful=1"):
        C.auto(careful=cast("bool", 1))


def test_what_another_agent_did_can_be_got_back_by_its_handle() -> None:
    """Its calls and results are told in other words; the log has them as they were."""
    rows = "\n".join(f"row {number}: value {number * 7}" for number in range(1_200))
    events = [
        Event("user", to_content("go on"), invocation_id="i1", id="e1"),
        _by_helper(call_part("look", {"text": rows}, id="c1"), "model", "e2"),
        _by_helper(result_part("look", {"result": rows}, id="c1"), "user", "e3"),
        _by_helper(Part(executable_code=ExecutableCode(code=rows)), "model", "e4"),
        _by_helper(Part(text=rows), "model", "e5"),
        Event("user", to_content("and now?"), invocation_id="i2", id="e6"),
    ]
    session = Session("s", events=events)
    agent = Agent("bot", model="gpt-5").sees(CAREFUL)
    wire = json.dumps(compile_request(agent, session=session).wire)
    handles = re.findall(r"\[handle ([0-9a-f]{12})", wire)
    assert len(handles) == 4
    assert {*handles} <= {one.handle for one in values_of(session.events)}


def _by_helper(part: Part, role: str, id: str) -> Event:
    return Event("helper", Content(role=role, parts=(part,)), invocation_id="i1", id=id)
