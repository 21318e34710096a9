"""Options that a model would refuse are replaced or left out, and said."""

import base64

import pytest

from weft import Agent, RunConfig, Session, compile
from weft.content import Blob, Content, Part
from weft.dialects.facts import facts_for
from weft.dialects.options import EFFORT_TOKENS, EFFORTS, effort_for, nearest
from weft.dialects.strict import check_request
from weft.errors import LoweringError
from weft.session import Event
from weft.testing import ScriptedModel
from weft.values import Json, JsonObject


def look(city: str) -> str:
    """The weather of a city."""
    return city


def lowered(model: str, **options: Json) -> tuple[JsonObject, list[str]]:
    """The request of an agent with these options, and what was said of it."""
    agent = Agent("bot", model=model, tools=[look], generate_config=options)
    compiled = compile(agent, message="Hi")
    return compiled.wire, [str(one).partition(": ")[2] for one in compiled.diagnostics]


@pytest.mark.parametrize(
    ("model", "asked", "given"),
    [
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-opus-4-8", "xhigh", "xhigh"),
        ("claude-opus-5-5", "none", "low"),
        ("claude-opus-5", "minimal", "low"),
    ],
)
def test_an_effort_that_a_model_lacks_becomes_the_nearest(
    model: str, asked: str, given: str
) -> None:
    wire, said = lowered(model, thinking={"effort": asked})
    assert wire["output_config"] == {"effort": given}
    words = f"warning[WEFT702] {model} has no effort `{asked}`: `{given}` is asked for"
    assert [one.partition("\n")[0] for one in said] == ([] if asked == given else [words])


@pytest.mark.parametrize(
    ("model", "asked", "given"),
    [("gpt-5", "none", "minimal"), ("gpt-5.6", "minimal", "low"), ("gpt-5.2", "max", "xhigh"),
     ("o3", "minimal", "low")],
)  # fmt: skip
def test_efforts_of_another_provider_are_fitted_too(model: str, asked: str, given: str) -> None:
    wire, said = lowered(model, thinking={"effort": asked})
    assert wire["reasoning"] == {"effort": given}
    assert "WEFT702" in said[0]


@pytest.mark.parametrize(
    ("model", "asked", "field", "given", "words"),
    [
        # an effort where only a number of tokens is taken
        ("claude-sonnet-4-5", {"effort": "high"}, "thinking",
         {"type": "enabled", "budget_tokens": 24_576}, "`high` is sent as 24,576"),
        ("gemini-2.5-flash", {"effort": "low"}, "generationConfig",
         {"thinkingConfig": {"thinkingBudget": 1_024}}, "`low` is sent as 1,024"),
        # a number of tokens where only an effort is taken
        ("gpt-5", {"budget": 2_048}, "reasoning", {"effort": "medium"},
         "2,048 is sent as `medium`"),
        ("openai-chat/gpt-5", {"budget": 500}, "reasoning_effort", "low", "500 is sent as `low`"),
        ("claude-sonnet-5", {"budget": 20_000}, "output_config", {"effort": "high"},
         "20,000 is sent as `high`"),
        ("gpt-5.2", {"budget": 0}, "reasoning", {"effort": "none"}, "0 is sent as `none`"),
        # both, where one is taken
        ("gpt-5", {"budget": 2_048, "effort": "low"}, "reasoning", {"effort": "low"},
         "takes an effort for thinking, and no number of tokens"),
        ("claude-sonnet-4-5", {"budget": 2_048, "effort": "low"}, "thinking",
         {"type": "enabled", "budget_tokens": 2_048},
         "takes a number of tokens for thinking, and no effort"),
        ("gemini-3.5-flash", {"budget": 2_048, "effort": "low"}, "generationConfig",
         {"thinkingConfig": {"thinkingLevel": "low"}}, "`low` is sent"),
    ],
)  # fmt: skip
def test_effort_and_budget_stand_for_each_other(
    model: str, asked: JsonObject, field: str, given: Json, words: str
) -> None:
    wire, said = lowered(model, thinking=asked)
    assert wire[field] == given
    assert len(said) == 1
    assert said[0].startswith("info[WEFT702]")
    assert words in said[0]
    agent = Agent("bot", model=model, generate_config={"thinking": asked})
    strict = compile(agent, message="Hi", config=RunConfig(strict=True))
    assert strict.wire[field] == given  # it means the same, so strict has nothing against it
    assert words in " ".join(str(strict.explain()).split())


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-4-5", "claude-opus-4-5"])
def test_no_effort_is_a_kind_of_thinking_where_there_is_a_word_for_it(model: str) -> None:
    wire, said = lowered(model, thinking={"effort": "none"})
    assert wire["thinking"] == {"type": "disabled"}
    assert said == []


def test_a_model_that_always_thinks_says_so() -> None:
    wire, said = lowered("gemini-2.5-pro", thinking={"effort": "none"})
    assert wire["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 128}}
    assert any(one.startswith("warning[WEFT702] gemini-2.5-pro always thinks") for one in said)


def test_every_effort_has_its_tokens_in_one_table() -> None:
    assert set(EFFORT_TOKENS) == set(EFFORTS)
    assert [effort_for(EFFORT_TOKENS[one]) for one in ("none", "low", "medium", "high")] == [
        "none", "low", "medium", "high",
    ]  # fmt: skip


@pytest.mark.parametrize("model", ["gpt-4o"])
def test_an_effort_is_left_out_where_none_can_be_told(model: str) -> None:
    wire, said = lowered(model, thinking={"effort": "high"})
    assert "high" not in str(wire)
    assert len(said) == 1
    assert "left out" in said[0]


def test_under_strict_such_an_effort_is_an_error() -> None:
    agent = Agent("bot", model="claude-opus-4-6", generate_config={"thinking": {"effort": "xhigh"}})
    with pytest.raises(LoweringError, match="no effort `xhigh`"):
        _ = compile(agent, message="Hi", config=RunConfig(strict=True)).wire


def test_the_authors_own_word_is_not_touched() -> None:
    own: JsonObject = {"anthropic": {"output_config": {"effort": "xhigh"}}}
    wire, said = lowered("claude-opus-4-6", extra=own)
    assert wire["output_config"] == {"effort": "xhigh"}
    assert any("has no effort `xhigh`" in one for one in said)


@pytest.mark.parametrize("model", ["ollama/my-own", "openrouter/anthropic/claude-sonnet-4-5"])
def test_a_model_of_which_nothing_is_known_gets_what_was_asked_for(model: str) -> None:
    wire, _ = lowered(model, thinking={"effort": "xhigh"}, tool_choice="any", temperature=0.1)
    assert wire["reasoning_effort"] == "xhigh"
    assert wire["tool_choice"] == "required"
    assert wire["temperature"] == 0.1


@pytest.mark.parametrize("choice", ["any", "required", {"name": "look"}])
def test_a_call_that_cannot_be_forced_is_left_to_the_model(choice: Json) -> None:
    wire, said = lowered("claude-opus-5-5", tool_choice=choice)
    assert wire["tool_choice"] == {"type": "auto"}
    assert "cannot be made to call a tool" in said[0]
    assert lowered("claude-opus-5", tool_choice="any")[0]["tool_choice"] == {"type": "any"}


def test_no_call_is_forced_beside_a_budget_for_thinking() -> None:
    wire, said = lowered("claude-sonnet-4-5", tool_choice="any", thinking={"budget": 2048})
    assert wire["tool_choice"] == {"type": "auto"}
    assert len(said) == 1
    assert "while thinking" in said[0]
    free, said = lowered("claude-sonnet-4-5", tool_choice="none", thinking={"budget": 2048})
    assert free["tool_choice"] == {"type": "none"}
    assert said == []


def test_a_model_is_kept_from_thinking_as_far_as_it_can_be() -> None:
    idle: JsonObject = {"budget": 0}
    assert lowered("claude-opus-5", thinking=idle)[0]["thinking"] == {"type": "disabled"}
    assert lowered("claude-sonnet-5-5", thinking=idle)[0]["thinking"] == {"type": "between_tools"}
    wire, said = lowered("claude-opus-5-5", thinking=idle)
    assert "thinking" not in wire
    assert wire["output_config"] == {"effort": "low"}
    assert "always thinks" in said[0]


def test_a_model_that_does_not_think_is_not_told_to() -> None:
    wire, said = lowered("claude-3-5-haiku-latest", thinking={"budget": 2048, "include": True})
    assert "thinking" not in wire
    assert "does not think" in said[0]
    assert lowered("claude-3-5-haiku-latest", thinking={"budget": 0})[1] == []
    wire, _ = lowered("gpt-4o", thinking={"include": True})
    assert "include" not in wire


def test_an_answer_is_not_asked_to_be_longer_than_the_model_can() -> None:
    assert lowered("claude-3-opus-latest")[0]["max_tokens"] == 4_096
    assert lowered("claude-opus-4-1", thinking={"budget": 30_000})[0]["max_tokens"] == 32_000
    assert lowered("claude-sonnet-4-5", thinking={"budget": 2_000})[0]["max_tokens"] == 10_192


@pytest.mark.parametrize("model", ["gpt-5", "openai-chat/gpt-5-mini"])
def test_sampling_is_left_out_where_thinking_shuts_it_out(model: str) -> None:
    wire, said = lowered(model, temperature=0.2, top_p=0.5)
    assert "temperature" not in wire
    assert "top_p" not in wire
    assert len(said) == 2
    assert lowered(model, temperature=1)[0]["temperature"] == 1


def test_sampling_stays_where_the_model_is_told_not_to_think() -> None:
    assert lowered("gpt-5.2", temperature=0.2)[0]["temperature"] == 0.2
    assert lowered("gpt-5.5", temperature=0.2, thinking={"effort": "none"})[1] == []
    assert "temperature" not in lowered("gpt-5.2", temperature=0.2, thinking={"effort": "low"})[0]


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("openai-chat/gpt-5-mini", "audio/mpeg"),
        ("openai-chat/o3-mini", "image/png"),
        ("o3-mini", "application/pdf"),
        ("gemini-3.5-flash", "image/gif"),
        ("gemini-3.5-flash", "application/vnd.ms-excel"),
    ],
)
def test_media_that_a_model_does_not_read_is_named_instead(model: str, kind: str) -> None:
    data = base64.b64encode(b"bytes").decode()
    parts = (Part("See this."), Part(inline_data=Blob(mime_type=kind, data=data)))
    session = Session(id="s", events=[Event(author="user", content=Content(parts, "user"))])
    compiled = compile(Agent("bot", model=model), session=session)
    assert f"[{kind}: not carried]" in str(compiled.wire)
    assert data not in str(compiled.wire)
    assert [one.code for one in compiled.diagnostics] == ["WEFT703"]


_ASKED: list[JsonObject] = [
    {"thinking": {"effort": effort}, "tool_choice": choice, "temperature": 0.2}
    for effort in EFFORTS
    for choice in ("any", "none")
]


@pytest.mark.parametrize(
    "model",
    ["claude-opus-4-5", "claude-opus-4-6", "claude-sonnet-4-5", "claude-opus-5", "claude-opus-5-5",
     "claude-sonnet-5-5", "claude-3-5-haiku-latest", "gpt-4o", "gpt-4.1", "gpt-5", "gpt-5.1",
     "gpt-5.4", "gpt-5.6", "o3", "o4-mini", "gemini-2.0-flash", "gemini-2.5-pro",
     "gemini-3.1-pro-preview", "gemini-3.5-flash"],
)  # fmt: skip
def test_whatever_is_asked_for_is_lowered_to_what_is_not_refused(model: str) -> None:
    facts = facts_for(model)
    for options in _ASKED:
        wire, _ = lowered(model, **options)
        assert check_request(facts.dialect, wire, model) == (), options


@pytest.mark.parametrize("effort", EFFORTS)
def test_the_nearest_effort_is_not_above_unless_nothing_is_below(effort: str) -> None:
    assert nearest(effort, EFFORTS) == effort
    assert nearest(effort, ("max",)) == "max"
    assert nearest(effort, ("none", "max")) == ("none" if effort == "none" else "max")


@pytest.mark.parametrize("thinking", [{"budget": 2048}, {"budget": 2048, "effort": "medium"}])
def test_a_level_that_stands_for_a_budget_goes_to_gemini_without_it(thinking: JsonObject) -> None:
    """The provider refuses both together, and the message blamed an author who gave one."""
    agent = Agent("a", model=ScriptedModel([]), generate_config={"thinking": thinking})
    compiled = compile(agent, message="x")
    config = compiled.wire["generationConfig"]
    assert isinstance(config, dict)
    assert config["thinkingConfig"] == {"thinkingLevel": "medium"}
    assert [one.severity for one in compiled.diagnostics] == ["info"]
