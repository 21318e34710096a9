"""A dialect is one file: a toy one compiles, lowers, lifts, streams, counts, refuses and runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.dialects.toy import DIALECT, NAME
from weft import Agent
from weft.compiler import compile_request
from weft.dialects import DIALECTS, count_request, dialect_named, lift, refusals, stream_of
from weft.dialects.strict import RequestChecker
from weft.errors import IllegalRequest, ModelError, UsageError
from weft.recordings.requests import read_request
from weft.testing import ScriptedModel, call

BUILT_IN = tuple(DIALECTS)


def look(city: str) -> str:
    """Look at a city."""
    return f"{city} is fine"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    DIALECTS.register(DIALECT)
    yield
    DIALECTS.forget(NAME)


def agent(*script: Any, **more: Any) -> Agent:
    model = ScriptedModel(list(script), dialect=NAME)
    return Agent("guide", model=model, instruction="Be brief.", tools=[look], **more)


def test_it_is_found_by_its_name() -> None:
    assert dialect_named(NAME) is DIALECT
    assert list(DIALECTS) == [*BUILT_IN, NAME]
    DIALECTS.forget(NAME)
    with pytest.raises(UsageError, match="`toy` is not a dialect"):
        dialect_named(NAME)
    DIALECTS.register(DIALECT)


def test_it_compiles_and_lowers() -> None:
    compiled = weft.compile(agent(generate_config={"temperature": 0.5}), message="Oslo?")
    takes = compiled.prompt.tools[0].parameters
    assert compiled.wire == {
        "model": "scripted",
        "heat": 0.5,
        "rules": "You are guide.\n\nBe brief.",
        "tools": [{"name": "look", "about": "Look at a city.", "takes": takes}],
        "talk": [{"who": "me", "says": [{"words": "Oslo?"}]}],
    }
    assert str(compiled.origin("/talk/0/says/0/words")) == "event message#0"
    assert not compiled.diagnostics
    assert weft.compile(agent(), message="Oslo?").lower("openai-chat")["messages"]


def test_a_run_speaks_it() -> None:
    guide = agent(call("look", city="Oslo"), "Fine.")
    assert weft.run_sync(guide, "Oslo?").text == "Fine."
    assert isinstance(guide.model, ScriptedModel)
    asked, called, answered = guide.model.wires[1]["talk"]  # type: ignore[misc]
    assert asked["says"] == [{"words": "Oslo?"}]
    assert called["says"][0]["use"] == "look"
    assert answered["says"] == [{"got": "Oslo is fine", "ticket": called["says"][0]["ticket"]}]


def test_it_lifts_answers_whole_and_streamed() -> None:
    body = {"says": [{"words": "Hm."}, {"use": "look", "with": {"city": "Oslo"}, "ticket": "t1"}]}
    content = lift(NAME, body).content
    assert content is not None
    said, called = content.parts or ()
    assert said.text == "Hm."
    assert called.function_call is not None
    assert called.function_call.args == {"city": "Oslo"}
    with pytest.raises(ModelError, match="not an object"):
        lift(NAME, [])  # type: ignore[arg-type]
    stream = stream_of(NAME)
    for words in ("Hel", "lo"):
        assert stream.feed("", {"words": words}) is not None
    with pytest.raises(ModelError, match="cut off"):
        stream.body()
    assert stream.feed("", {"over": True}) is None
    assert stream.body() == {"says": [{"words": "Hello"}]}
    with pytest.raises(ModelError) as caught:
        stream.feed("", {"error": {"type": "authentication_error", "message": "who?"}})
    assert "TOY_API_KEY" in caught.value.hint


def test_it_counts_and_reads_requests_back() -> None:
    wire = weft.compile(agent(generate_config={"temperature": 0.5}), message="Oslo?").wire
    longer = {**wire, "talk": [{"who": "me", "says": [{"words": "Oslo? " * 50}]}]}
    assert count_request(wire, dialect=NAME, model="gpt-5") > 0
    assert count_request(longer, dialect=NAME, model="gpt-5") > 50
    prompt = read_request(NAME, wire)
    assert prompt.config == {"temperature": 0.5}
    assert DIALECT.lower(prompt).wire == wire


def test_it_refuses() -> None:
    wire = weft.compile(agent(generate_config={"temperature": 2}), message="Oslo?").wire
    assert [one.pointer for one in refusals(NAME, wire)] == ["/heat"]
    assert [one.pointer for one in refusals(NAME, {**wire, "heat": 1, "rules": "x" * 2000})] == [
        "/rules"
    ]
    compiled = compile_request(agent(generate_config={"temperature": 2}), message="Oslo?")
    assert [one.code for one in compiled.refused] == ["WEFT702"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"messages": []}, "/messages"),
        ({"model": ""}, "/model"),
        ({"tools": [{"name": "look", "takes": []}]}, "/tools/0/takes"),
        ({"talk": [{"who": "you", "says": [{"words": "Hi."}]}]}, "/talk/0/who"),
        ({"talk": [{"who": "me", "says": []}]}, "/talk/0/says"),
        ({"talk": [{"who": "bot", "says": [{"words": "Hi."}]}]}, "/talk/0"),
        ({"talk": [{"who": "me", "says": [{"got": "1", "ticket": "t"}]}]}, "/talk/0/says/0"),
    ],
)
def test_a_scripted_model_is_as_strict_with_it(change: dict[str, Any], where: str) -> None:
    compiled = weft.compile(agent(), message="Oslo?")
    RequestChecker(NAME).check(compiled.prompt, compiled.wire)
    with pytest.raises(IllegalRequest) as caught:
        RequestChecker(NAME).check(compiled.prompt, {**compiled.wire, **change})
    assert caught.value.where == where


def test_the_fields_that_tell_dialects_apart_are_known() -> None:
    DIALECTS.forget(NAME)
    fields = {field for name in BUILT_IN for field in DIALECTS[name].own_fields()}
    assert fields == DIALECTS.fields(), "the table is at the end of dialects/facts.py"
    DIALECTS.register(DIALECT)
    assert {"rules", "talk"} <= DIALECTS.fields()


def test_every_file_of_a_dialect_is_in_the_table() -> None:
    folder = Path(weft.__file__).parent / "dialects"
    files = {path.stem for path in folder.glob("*.py") if "\nDIALECT = " in path.read_text("utf-8")}
    built_in = {type(DIALECTS[name]).__module__.rpartition(".")[2] for name in BUILT_IN}
    assert files == built_in, "the table is at the end of dialects/facts.py"
