"""Tools that a provider runs: declared once, spelled by each dialect, kept and sent again."""

from typing import Any

import pytest

import weft
from weft import (
    Agent,
    CodeExecution,
    FileSearch,
    ProviderTool,
    RunConfig,
    Session,
    Thinking,
    WebFetch,
    WebSearch,
)
from weft.dialects import dialect_named
from weft.errors import DeclarationError, LoweringError
from weft.testing import ScriptedModel, call
from weft.values import JsonObject

ALL = (WebSearch(), WebFetch(), CodeExecution(), FileSearch(["stores/a"], max_results=4))

SPELLED: dict[str, list[JsonObject]] = {
    "gemini-3.5-flash": [
        {"googleSearch": {}},
        {"urlContext": {}},
        {"codeExecution": {}},
        {"fileSearch": {"fileSearchStoreNames": ["stores/a"], "topK": 4}},
    ],
    "claude-sonnet-5": [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "web_fetch_20250910", "name": "web_fetch"},
        {"type": "code_execution_20250825", "name": "code_execution"},
    ],
    "gpt-5": [
        {"type": "web_search"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "file_search", "vector_store_ids": ["stores/a"], "max_num_results": 4},
    ],
}

MISSING = {
    "gemini-3.5-flash": set[str](),
    "claude-sonnet-5": {"file_search"},
    "gpt-5": {"web_fetch"},
    "openai-chat/gpt-5": {"web_search", "web_fetch", "code_execution", "file_search"},
}


@pytest.mark.parametrize("model", MISSING)
def test_a_provider_gets_those_it_has_and_the_others_are_refused_by_name(model: str) -> None:
    agent = Agent("bot", model=model, tools=ALL)
    compiled = weft.compile(agent, message="hi")
    assert compiled.wire.get("tools", []) == SPELLED.get(model, [])
    refused = {one.origin.name: one for one in compiled.diagnostics if one.code == "WEFT709"}
    assert refused.keys() == MISSING[model]
    assert all(one.hint and one.severity == "error" for one in refused.values())
    checked = {one.origin.name for one in weft.check(agent) if one.code == "WEFT709"}
    assert checked == MISSING[model]
    if refused:
        with pytest.raises(LoweringError, match="WEFT709"):
            _ = weft.compile(agent, message="hi", config=RunConfig(strict=True)).wire
    assert "tools" not in str(compiled.explain()).partition("sent,")[0] or compiled.wire


def test_an_option_that_a_provider_lacks_is_reported() -> None:
    tool = WebSearch(max_uses=2, blocked_domains=["a.example"], location={"city": "Oslo"})
    claude = weft.compile(Agent("bot", model="claude-sonnet-5", tools=[tool]), message="hi")
    assert not claude.diagnostics
    assert claude.wire["tools"] == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 2,
            "blocked_domains": ["a.example"],
            "user_location": {"type": "approximate", "city": "Oslo"},
        }
    ]
    gpt = weft.compile(Agent("bot", model="gpt-5", tools=[tool]), message="hi")
    assert [one.code for one in gpt.diagnostics] == ["WEFT702", "WEFT702"]
    assert "max_uses" in gpt.diagnostics[0].message


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_functions_beside_them_are_asked_for_by_a_flag_where_a_model_takes_both() -> None:
    new = weft.compile(Agent("b", model="gemini-3.5-flash", tools=[WebSearch, add]), message="?")
    assert new.wire["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert not new.diagnostics
    old = weft.compile(Agent("b", model="gemini-2.5-pro", tools=[WebSearch, add]), message="?")
    assert [one.code for one in old.diagnostics] == ["WEFT709"]
    assert "googleSearch" not in str(old.wire)
    alone = weft.compile(Agent("b", model="gemini-2.5-pro", tools=[WebSearch]), message="?")
    assert alone.wire["tools"] == [{"googleSearch": {}}]


def test_any_other_tool_is_written_in_the_providers_words() -> None:
    tool = ProviderTool("image_generation", {"openai-responses": {"type": "image_generation"}})
    agent = Agent("bot", model="gpt-5", tools=[tool])
    assert weft.compile(agent, message="hi").wire["tools"] == [{"type": "image_generation"}]
    other = weft.compile(Agent("bot", model="claude-sonnet-5", tools=[tool]), message="hi")
    assert [one.code for one in other.diagnostics] == ["WEFT709"]


ANSWERS: dict[str, tuple[str, JsonObject, str]] = {
    "anthropic": (
        "claude-sonnet-5",
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
                 "input": {"query": "news"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                    {"type": "web_search_result", "url": "https://a.example", "title": "A",
                     "encrypted_content": "Zm9v", "page_age": None}]},
                {"type": "text", "text": "It rains.", "citations": [
                    {"type": "web_search_result_location", "url": "https://a.example",
                     "title": "A", "encrypted_index": "YmFy", "cited_text": "rain"}]},
            ],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 9, "output_tokens": 4,
                      "server_tool_use": {"web_search_requests": 1}},
        },
        "messages",
    ),
    "openai-responses": (
        "gpt-5",
        {
            "object": "response",
            "status": "completed",
            "output": [
                {"type": "web_search_call", "id": "ws_1", "status": "completed",
                 "action": {"type": "search", "query": "news"}},
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                 "content": [{"type": "output_text", "text": "It rains.", "annotations": []}]},
            ],
            "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
        },
        "input",
    ),
    "gemini": (
        "gemini-3.5-flash",
        {
            "candidates": [{"content": {"role": "model", "parts": [
                {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                {"text": "It rains."}]}, "finishReason": "STOP",
                "groundingMetadata": {"webSearchQueries": ["news"]}}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4,
                              "totalTokenCount": 13},
        },
        "contents",
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", ANSWERS)
def test_what_the_provider_ran_is_kept_in_the_log_and_sent_again(dialect: str) -> None:
    name, body, turns = ANSWERS[dialect]
    lifted = dialect_named(dialect).lift(body)
    model = ScriptedModel([lifted, "Take an umbrella."], name=name, dialect=dialect)
    agent = Agent("bot", model=model, tools=[WebSearch, CodeExecution])
    first = weft.run_sync(agent, "Weather?")
    assert first.text == "It rains."
    stored = Session.from_json(first.session.to_json(), trusted=True)
    weft.run_sync(agent, "And?", session=stored)
    again: Any = model.wires[1][turns]
    spelled = str(again)
    wanted = {
        "anthropic": ("srvtoolu_1", "web_search_tool_result", "Zm9v", "encrypted_index"),
        "openai-responses": ("web_search_call", "ws_1"),
        "gemini": ("executableCode", "codeExecutionResult"),
    }[dialect]
    assert all(one in spelled for one in wanted), spelled
    assert weft.compile(agent, session=stored, message="And?").tokens > 0


def test_a_model_of_another_provider_is_told_only_what_was_said() -> None:
    name, body, _ = ANSWERS["anthropic"]
    model = ScriptedModel([dialect_named("anthropic").lift(body)], name=name, dialect="anthropic")
    first = weft.run_sync(Agent("bot", model=model, tools=[WebSearch]), "Weather?")
    other = weft.compile(
        Agent("bot", model="gpt-5", tools=[WebSearch]), session=first.session, message="And?"
    )
    assert "It rains." in str(other.wire)
    assert "srvtoolu_1" not in str(other.wire)
    assert other.diagnostics


def test_a_call_of_a_tool_that_the_provider_runs_is_answered_with_an_error() -> None:
    model = ScriptedModel([call("web_search", query="x"), "Sorry."])
    result = weft.run_sync(Agent("bot", model=model, tools=[WebSearch, add]), "?")
    assert result.text == "Sorry."
    assert "error" in str(model.prompts[1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WebSearch(max_uses=0), "max_uses=0"),
        (lambda: WebSearch(allowed_domains="a.example"), "is not a list"),
        (lambda: WebSearch(allowed_domains=["https://a.example"]), "is not a domain"),
        (lambda: WebSearch(allowed_domains=["a"], blocked_domains=["b"]), "allowed and blocked"),
        (lambda: WebSearch(location={"town": "Oslo"}), "is not a place"),
        (lambda: WebFetch(max_uses=True), "max_uses=True"),
        (lambda: FileSearch([]), "names no store"),
        (lambda: FileSearch("store"), "is not a list"),
        (lambda: ProviderTool("x", {}), "no dialect"),
        (lambda: Agent("b", tools=[WebSearch(), WebSearch()]), "two tools are named"),
        (lambda: Agent("b", tools=[FileSearch]), "cannot be made without arguments"),
        (lambda: Thinking(), "says nothing"),
        (lambda: Thinking(effort="huge"), "effort='huge'"),
        (lambda: Thinking(budget=-5), "budget=-5"),
        (lambda: Agent("b", generate_config={"thinking": {"efort": "low"}}), "`efort`"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_is_written(make: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        make()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("model", "place", "value"),
    [
        ("gemini-3.5-flash", "thinkingConfig", {"thinkingLevel": "low", "includeThoughts": True}),
        ("claude-sonnet-4-6", "output_config", {"effort": "low"}),
        ("gpt-5.4", "reasoning", {"effort": "low", "summary": "auto"}),
        ("openai-chat/gpt-5", "reasoning_effort", "low"),
    ],
)
def test_thinking_has_one_spelling_for_all(model: str, place: str, value: Any) -> None:
    thinking = Thinking(effort="low", include=True)
    agent = Agent("bot", model=model, generate_config={"thinking": thinking})
    wire: Any = weft.compile(agent, message="hi").wire
    assert (wire.get("generationConfig") or wire)[place] == value
    same = Agent("bot", generate_config={"thinking": {"effort": "low", "include": True}})
    assert agent.generate_config == same.generate_config


def test_a_model_that_cannot_think_is_said_to_and_refused_under_strict() -> None:
    agent = Agent("bot", model="gpt-4.1", generate_config={"thinking": Thinking(effort="low")})
    assert "does not think" in weft.compile(agent, message="hi").diagnostics[0].message
    with pytest.raises(LoweringError, match="does not think"):
        _ = weft.compile(agent, message="hi", config=RunConfig(strict=True)).wire


def test_a_toolset_may_answer_one_and_the_log_has_it() -> None:
    class Tools:
        async def get_tools(self) -> list[object]:
            return [WebSearch(max_uses=2)]

    model = ScriptedModel(["Yes."], name="claude-sonnet-5", dialect="anthropic")
    agent = Agent("bot", model=model, tools=[Tools()])
    session = weft.run_sync(agent, "?").session
    wanted = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]
    assert model.wires[0]["tools"] == wanted
    stored = Session.from_json(session.to_json(), trusted=True)
    assert weft.compile(agent, session=stored, message="And?").wire["tools"] == wanted


def test_a_spelling_for_a_dialect_that_there_is_not_is_refused_with_the_nearest_name() -> None:
    images = ProviderTool("images", {"antropic": {"type": "image_generation"}})
    agent = Agent("painter", model="claude-sonnet-5", tools=[images])
    with pytest.raises(DeclarationError) as caught:
        weft.compile(agent, message="Paint.")
    assert caught.value.message == "`antropic` is not a dialect"
    assert caught.value.where == "painter: ProviderTool images"
    assert "did you mean `anthropic`?" in caught.value.hint
