"""A recorded model asks once, replays for ever, and says what is new in a request it has not."""

import json
from pathlib import Path

import pytest

import weft
from tests.models.answers import events, whole
from tests.models.server import Server, says, streams
from weft import Agent, RunConfig
from weft.errors import DeclarationError, SessionError, UnrecordedRequest
from weft.models import OpenAI
from weft.testing import RecordedModel, ScriptedModel, call

KEY = "sk-proj-Zk3Jq8Vb2Nw7Xc5Rt1Yp9Lm4"


def get_weather(city: str) -> str:
    """Current weather."""
    return f"rain in {city}"


def bot(model: object, instruction: str = "Help.") -> Agent:
    return Agent("bot", instruction=instruction, tools=[get_weather], model=model)


def script() -> ScriptedModel:
    return ScriptedModel([call("get_weather", city="Oslo"), "It rains."])


def test_the_first_run_asks_and_later_ones_ask_nobody(tmp_path: Path) -> None:
    path = tmp_path / "in" / "trip.jsonl"
    real = script()
    first = weft.run_sync(bot(RecordedModel(real, path)), "Oslo?")
    assert first.text == "It rains."
    assert len(real.wires) == 2
    nobody = ScriptedModel([])
    for _ in range(2):
        replayed = RecordedModel(nobody, path)
        again = weft.run_sync(bot(replayed), "Oslo?")
        assert again.text == "It rains."
        assert [event.text for event in again.events] == [event.text for event in first.events]
        assert replayed.unused == []
    assert nobody.wires == []
    head, *lines = path.read_text().splitlines()
    assert json.loads(head) == {"recorded": "scripted", "version": 1}
    assert [sorted(json.loads(line)) for line in lines] == [["model", "request", "responses"]] * 2


def test_an_unknown_request_shows_the_difference_to_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "trip.jsonl"
    weft.run_sync(bot(RecordedModel(script(), path)), "Oslo?")
    changed = bot(RecordedModel(ScriptedModel([]), path), "Help politely.")
    with pytest.raises(UnrecordedRequest) as caught:
        weft.run_sync(changed, "Oslo?")
    text = str(caught.value)
    assert "exchange 1 of 2 is the nearest" in text
    assert "/systemInstruction/parts/0/text" in text
    assert 'Help.", sent' in text
    assert "Help politely." in text
    assert 'mode="new"' in caught.value.hint
    assert str(path) in caught.value.where


async def test_an_unknown_request_fails_a_stream_and_a_fallback_too(tmp_path: Path) -> None:
    path = tmp_path / "trip.jsonl"
    await weft.run(bot(RecordedModel(script(), path)), "Oslo?")
    with pytest.raises(UnrecordedRequest):
        async for _ in weft.stream(bot(RecordedModel(script(), path)), "Bergen?"):
            pass


def test_new_records_what_is_missing_and_replays_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "trip.jsonl"
    weft.run_sync(bot(RecordedModel(script(), path)), "Oslo?")
    real = ScriptedModel(["Dry."])
    model = RecordedModel(real, path, mode="new")
    assert weft.run_sync(bot(model), "Oslo?").text == "It rains."
    assert weft.run_sync(bot(model), "Rome?").text == "Dry."
    assert len(real.wires) == 1
    replay = RecordedModel("scripted-by-name", path, mode="replay")
    assert len(replay.exchanges) == 3


def test_the_same_question_twice_has_both_its_answers(tmp_path: Path) -> None:
    path = tmp_path / "dice.jsonl"
    recording = bot(RecordedModel(ScriptedModel(["four", "six"]), path))
    assert [weft.run_sync(recording, "Roll").text for _ in range(2)] == ["four", "six"]
    replayed = bot(RecordedModel(ScriptedModel([]), path))
    assert [weft.run_sync(replayed, "Roll").text for _ in range(3)] == ["four", "six", "four"]


async def said(agent: Agent) -> list[str]:
    return [
        event.text
        async for event in weft.stream(agent, "Say hello")
        if event.partial and event.text
    ]


async def test_a_stream_is_replayed_as_it_came(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "hello.jsonl"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Server(streams(events("openai-chat", "Hel", "lo ", "there"))) as server:
        model = OpenAI("gpt-4o-mini", api="chat", base_url=server.url)
        first = await said(bot(RecordedModel(model, path)))
        assert KEY in str(server.received[0].headers)
    assert first == ["Hel", "lo ", "there"]
    assert KEY not in path.read_text()
    monkeypatch.delenv("OPENAI_API_KEY")
    by_name = RecordedModel("openai-chat/gpt-4o-mini", path, mode="replay")
    assert await said(bot(by_name)) == first
    assert (await weft.run(bot(by_name), "Say hello")).text == "Hello there"


async def test_a_whole_answer_streams_too(tmp_path: Path) -> None:
    path = tmp_path / "hello.jsonl"
    with Server(says(whole("openai-chat", "Hello there"))) as server:
        model = OpenAI("gpt-4o-mini", api="chat", base_url=server.url, api_key=KEY)
        await weft.run(bot(RecordedModel(model, path)), "Say hello")
    replay = RecordedModel("openai-chat/gpt-4o-mini", path, mode="replay")
    assert await said(bot(replay)) == ["Hello there"]


def test_secrets_in_the_body_never_reach_the_file_and_come_back_in_answers(tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl"
    question = f"Log in with {KEY} please"
    real = ScriptedModel([call("get_weather", city=KEY), f"I used {KEY}."])
    weft.run_sync(bot(RecordedModel(real, path)), question)
    assert KEY not in path.read_text()
    assert KEY in json.dumps(real.wires[0])
    replayed = weft.run_sync(bot(RecordedModel(ScriptedModel([]), path)), question)
    assert replayed.text == f"I used {KEY}."
    assert any(KEY in str(event.calls) for event in replayed.events)


def test_another_machines_key_fits(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "key.jsonl"
    monkeypatch.setenv("DESK_API_KEY", "correct horse battery")
    weft.run_sync(bot(RecordedModel(ScriptedModel(["ok"]), path)), "Use correct horse battery")
    assert "correct horse" not in path.read_text()
    monkeypatch.setenv("DESK_API_KEY", "another staple here")
    replay = bot(RecordedModel(ScriptedModel([]), path))
    assert weft.run_sync(replay, "Use another staple here").text == "ok"


def test_a_failed_answer_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "trip.jsonl"
    real = ScriptedModel([RuntimeError("503"), "fine"])
    agent = bot(RecordedModel(real, path))
    assert weft.run_sync(agent, "Hi").events[-1].error_code
    assert not path.exists()
    assert weft.run_sync(agent, "Hi").text == "fine"
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "this is not a recorded exchange"),
        ("[]", "got a list"),
        ('{"request": {}}', "'responses' is missing"),
        ('{"recorded": "m", "version": 7}', "version 7 of a recording is not known"),
        ('{"model": "m", "request": {}, "responses": []}', "its whole answer"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"recorded": "m", "version": 1}\n' + line + "\n")
    with pytest.raises(SessionError) as caught:
        RecordedModel("gpt-5", path)
    assert message in caught.value.message
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_ids_that_weft_makes_up_are_no_difference(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "trip.jsonl"
    real = ScriptedModel([call("get_weather", city="Oslo"), "It rains."], dialect=dialect)
    weft.run_sync(bot(RecordedModel(real, path)), "Oslo?")
    nobody = ScriptedModel([], dialect=dialect)
    assert weft.run_sync(bot(RecordedModel(nobody, path)), "Oslo?").text == "It rains."


def test_bad_arguments_say_what_to_type(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    with pytest.raises(SessionError, match="no recording to replay"):
        RecordedModel("gpt-5", path, mode="replay")
    with pytest.raises(DeclarationError, match="is not a mode") as caught:
        RecordedModel("gpt-5", path, mode="replays")  # type: ignore[arg-type]
    assert "'replay'" in caught.value.hint
    with pytest.raises(DeclarationError, match="an int is not a model"):
        RecordedModel(7, path)  # type: ignore[arg-type]


def test_every_agent_of_a_run_may_share_it(tmp_path: Path) -> None:
    path = tmp_path / "flow.jsonl"
    flow = Agent("a", instruction="First.") >> Agent("b", instruction="Second.")
    model = RecordedModel(ScriptedModel(["one", "two"]), path)
    weft.run_sync(flow, "go", config=RunConfig(model=model))
    replayed = RecordedModel(ScriptedModel([]), path)
    assert weft.run_sync(flow, "go", config=RunConfig(model=replayed)).text == "two"
