"""What a provider would refuse is said on compile, check and run, before anything is spent."""

import random
from pathlib import Path

import pytest

import weft
from tests.cli.run import weft as shell
from tests.support.linear import calls
from weft import Agent, Event, RunConfig, Session
from weft.compiler import compile_request
from weft.compiler.prefix import refused
from weft.content import Content, Part, call_part, media_part, result_part
from weft.dialects import DIALECTS, dialect_named, refusals
from weft.errors import LoweringError, UsageError
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, make_session

BEYOND = {"extra": {"anthropic": {"temperature": 3}}}
SONNET = "claude-sonnet-4-5"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)


def scripted(*answers: str, dialect: str = "anthropic", name: str = SONNET) -> ScriptedModel:
    return ScriptedModel(list(answers), name=name, dialect=dialect)


def test_a_run_says_what_its_provider_would_refuse_and_once() -> None:
    def look() -> str:
        """Look around."""
        return "a door"

    model = ScriptedModel([call("look"), "two"], name=SONNET, dialect="anthropic")
    agent = Agent("bot", model=model, generate_config=BEYOND, tools=[look])
    result = weft.run_sync(agent, "Hi")
    assert [found.code for found in result.diagnostics] == ["WEFT702"]
    assert "`temperature` is 3" in result.diagnostics[0].message
    assert (result.text, model.calls) == ("two", 2)


def test_under_strict_nothing_is_sent() -> None:
    model = scripted("never said")
    agent = Agent("bot", model=model, generate_config=BEYOND)
    with pytest.raises(LoweringError, match=r"outside of 0 to 1 \[WEFT702\]"):
        weft.run_sync(agent, "Hi", config=RunConfig(strict=True))
    assert model.wires == []
    with pytest.raises(LoweringError, match="WEFT702"):
        compile_request(agent, message="Hi", config=RunConfig(strict=True)).wire  # noqa: B018


def test_what_the_agent_allows_is_sent_even_under_strict() -> None:
    model = scripted("said")
    agent = Agent("bot", model=model, generate_config=BEYOND, allow="WEFT702")
    result = weft.run_sync(agent, "Hi", config=RunConfig(strict=True))
    assert (result.text, result.diagnostics) == ("said", ())


def test_what_a_callback_made_of_the_request_is_looked_at_too() -> None:
    def warmer(context: weft.CallbackContext, prompt: Prompt) -> Prompt:
        return Prompt(
            prompt.model, prompt.agent, items=prompt.items, config={**prompt.config, **BEYOND}
        )

    model = scripted("said")
    agent = Agent("bot", model=model, before_model=warmer)
    assert [one.code for one in weft.run_sync(agent, "Hi").diagnostics] == ["WEFT702"]
    with pytest.raises(LoweringError, match="WEFT702"):
        weft.run_sync(agent, "Hi", config=RunConfig(strict=True))
    assert len(model.wires) == 1


def test_the_shell_says_it_on_compile_and_on_check(tmp_path: Path) -> None:
    (tmp_path / "bots.py").write_text(
        "from weft import Agent\n"
        f'hot = Agent("hot", model="{SONNET}", instruction="Hi.", generate_config={BEYOND!r})\n'
        'typo = Agent("typo", model="gpt-5.2-proo", instruction="Hi.")\n'
    )
    for command in ("compile", "check"):
        told = shell(tmp_path, command, "bots:hot")
        assert "WEFT702" in told.stdout
        assert "`temperature` is 3" in told.stdout
    told = shell(tmp_path, "check", "bots:typo")
    assert "there is no model `gpt-5.2-proo`" in told.stdout
    assert "did you mean `gpt-5.2-pro`" in told.stdout
    assert told.returncode == 1


# --- names of models


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt5", "did you mean `gpt-5`"),
        ("claud-opus-5", "did you mean `claude-opus-5`"),
        ("no-such-model-anywhere", "the forms are:"),
        ("groqq/llama", "did you mean `groq/...`?"),
        ("openai:gpt-5", "write openai/gpt-5"),
        ("google-gla:gemini-2.5-pro", "write gemini/gemini-2.5-pro"),
        ("openai/", "write openai/MODEL"),
    ],
)
def test_a_name_nobody_knows_is_the_same_error_everywhere(
    name: str, hint: str, tmp_path: Path
) -> None:
    agent = Agent("bot", model=name, instruction="Hi.")
    told: set[str] = set()
    for ask in (
        lambda: compile_request(agent, message="Hi"),
        lambda: compile_request(Agent("bot"), message="Hi", config=RunConfig(model=name)),
        lambda: weft.run_sync(agent, "Hi"),
    ):
        with pytest.raises(UsageError) as caught:
            ask()
        assert hint in caught.value.hint
        told.add(str(caught.value))
    assert len(told) == 1
    found = weft.check(agent)
    assert [(one.code, str(one.severity)) for one in found] == [("WEFT706", "error")]
    assert hint in found[0].hint


def test_the_shell_refuses_an_unknown_model_on_compile_and_replay(tmp_path: Path) -> None:
    (tmp_path / "bots.py").write_text('from weft import Agent\nbot = Agent("bot")\n')
    session = make_session(("user", "Hi"), ("bot", "Hello"), ("user", "More"))
    (tmp_path / "s.json").write_text(session.to_json().decode())
    for words in (("compile", "bots:bot"), ("replay", "s.json")):
        done = shell(tmp_path, *words, "--model", "gpt5")
        assert done.returncode == 2, done.stdout
        assert "there is no client for the model `gpt5`" in done.stderr
        assert "did you mean `gpt-5`" in done.stderr


@pytest.mark.parametrize(
    "name",
    ["gpt-9", "gpt-7.3-mini", "claude-opus-7-2", "gemini-9-pro-preview", "azure/gpt-5-prod",
     "http://host/v1#gpt-proo", "openrouter/openai/gpt-proo", "gemini-flash-latest", "o9-mini"],
)  # fmt: skip
def test_new_versions_and_other_servers_names_raise_no_alarm(name: str) -> None:
    assert compile_request(Agent("bot", model=name), message="Hi").diagnostics == ()


# --- at the cost of what is new


def _log(chance: random.Random, turns: int) -> list[Event]:
    """A conversation in which some things are as no provider takes them."""
    events: list[Event] = []
    for at in range(turns):
        said = [Part(text=f"question {at}")]
        if chance.random() < 0.2:
            kind = chance.choice(["image/png", "image/jpeg", "audio/wav", "image/gif"])
            said.append(media_part(kind, PNG))
        events.append(Event("user", Content(tuple(said), "user"), invocation_id=f"i{at}"))
        if chance.random() < 0.5:
            asked = call_part("look", {"at": at}, id=f"c{at}")
            events.append(Event("bot", Content((asked,), "model"), invocation_id=f"i{at}"))
            answer = result_part("look", {"is": at}, id=f"c{at}")
            events.append(Event("bot", Content((answer,), "user"), invocation_id=f"i{at}"))
        events.append(
            Event("bot", Content((Part(text=f"answer {at}"),), "model"), invocation_id=f"i{at}")
        )
    return events


MODELS = ("gemini-3-flash-preview", SONNET, "openai-chat/gpt-5", "gpt-5")


@pytest.mark.parametrize("model", MODELS)
def test_step_by_step_the_same_is_said_as_all_at_once(model: str) -> None:
    agent = Agent("bot", model=model)
    for seed in range(8):
        session = Session("s")
        for event in _log(random.Random(seed), 6):
            session = session.append(event)
            compiled = compile_request(agent, session=session)
            whole = refusals(compiled.dialect, compiled.wire, compiled.prompt.model)
            assert [one.message for one in compiled.refused] == [one.message for one in whole]
            cold = compile_request(agent, session=Session("s", events=list(session.events)))
            assert cold.refused == compiled.refused
    older = compile_request(agent, session=session.before(3))
    assert (
        older.refused
        == compile_request(agent, session=Session("s", events=list(session.events)[:3])).refused
    )


@pytest.mark.parametrize("model", MODELS)
def test_one_more_step_costs_what_is_new(model: str) -> None:
    agent = Agent("bot", model=model)

    def step(turns: int) -> int:
        lines = [(who, f"{n} of {turns}") for n in range(turns) for who in ("user", "bot")]
        session = make_session(*lines)
        compile_request(agent, session=session).refused  # noqa: B018
        session = session.append(Event("user", Content((Part(text="on"),), "user")))
        compiled = compile_request(agent, session=session)
        compiled.lowered()
        return calls(lambda: refused(compiled.lowered(), compiled.prompt.model))

    assert step(400) <= step(20) * 1.5


def test_every_dialect_has_rules() -> None:
    for name in DIALECTS:
        prompt = Prompt("m", "bot")
        assert refused(dialect_named(name).lower(prompt), "m")  # a request that says nothing


# --- families that raised false alarms, or none where there should be one

USER = {"role": "user", "content": "Hi"}
FUNCTION = {"type": "function", "name": "look", "strict": False, "parameters": {"type": "object"}}


def test_deferred_tools_need_no_other_tool_once_one_was_loaded() -> None:
    tool = {"name": "look", "input_schema": {"type": "object"}, "defer_loading": True}
    wire = {"model": SONNET, "max_tokens": 9, "tools": [tool], "messages": [USER]}
    assert [one.message for one in refusals("anthropic", wire)] == ["every tool is loaded later"]
    reference = {"type": "tool_reference", "tool_name": "look"}
    turns = [
        USER,
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "find", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [reference]}]},
    ]  # fmt: skip
    assert refusals("anthropic", {**wire, "messages": turns}) == ()


def test_many_strict_tools_are_taken_if_they_are_loaded_later() -> None:
    def tool(at: int, *, later: bool) -> dict[str, object]:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        held = {"name": f"t{at}", "input_schema": schema, "strict": True}
        return {**held, "defer_loading": True} if later else held

    def wire(*, later: bool) -> dict[str, object]:
        search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
        tools = [search, *(tool(at, later=later) for at in range(25))]
        return {"model": SONNET, "max_tokens": 9, "tools": tools, "messages": [USER]}

    assert refusals("anthropic", wire(later=True)) == ()
    assert refusals("anthropic", wire(later=False))


def test_a_search_for_tools_may_be_answered_in_either_way() -> None:
    search = {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {}}
    answers = (
        {"type": "tool_search_output", "call_id": "s1", "tools": [FUNCTION]},
        {"type": "function_call_output", "call_id": "s1", "output": "none"},
    )
    for answer in answers:
        wire = {"model": "gpt-5.4", "input": [USER, search, answer, USER], "tools": [FUNCTION]}
        assert refusals("openai-responses", wire) == ()
    twice = [{**search, "id": "x1"}, {**answers[0], "id": "x1"}]
    wire = {"model": "gpt-5.4", "input": [USER, *twice, USER]}
    assert refusals("openai-responses", wire) == ()


@pytest.mark.parametrize("model", ["gpt-5.3-codex", "gpt-5.4-nano", "gpt-6-astra"])
def test_of_a_model_that_may_search_for_tools_nothing_is_said(model: str) -> None:
    wire = {"model": model, "input": "Hi", "tools": [{"type": "tool_search"}, FUNCTION]}
    assert refusals("openai-responses", wire) == ()
    assert refusals("openai-responses", {**wire, "model": "gpt-5"})


def test_a_model_that_paints_may_search_too() -> None:
    tools = [{"googleSearch": {}}, {"functionDeclarations": [{"name": "look"}]}]
    config = {
        "responseModalities": ["TEXT", "IMAGE"],
        "thinkingConfig": {"thinkingLevel": "MINIMAL"},
    }
    wire = {"contents": [{"role": "user", "parts": [{"text": "Paint."}]}], "tools": tools}
    painted = {**wire, "generationConfig": config}
    assert refusals("gemini", painted, "gemini-3-pro-image-preview") == ()
    assert refusals("gemini", wire, "gemini-3-pro-preview")


def test_a_signature_holds_for_the_calls_that_follow_it_in_the_answer() -> None:
    call = {"functionCall": {"name": "look", "args": {}}}
    result = {"functionResponse": {"name": "look", "response": {"output": "x"}}}

    def wire(*parts: dict[str, object]) -> dict[str, object]:
        return {
            "contents": [
                {"role": "user", "parts": [{"text": "Look."}]},
                {"role": "model", "parts": list(parts)},
                {"role": "user", "parts": [result]},
            ]
        }

    model = "gemini-3-flash-preview"
    seen = {"text": "So.", "thoughtSignature": "c2ln"}
    assert refusals("gemini", wire(seen, call), model) == ()
    assert refusals("gemini", wire({"text": "So."}, call), model)


def test_reasoning_whose_answer_was_changed_is_told() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    own = {"type": "message", "role": "assistant", "id": "msg_1", "content": [
        {"type": "output_text", "text": "42", "annotations": []}]}  # fmt: skip
    changed = {"role": "assistant", "content": "43"}
    for answer, told in ((own, 0), (changed, 1)):
        wire = {"model": "gpt-5", "input": [USER, reasoning, answer, USER]}
        assert len(refusals("openai-responses", wire)) == told
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    wire = {"model": "gpt-5", "input": [USER, sealed, changed, USER]}
    assert refusals("openai-responses", wire) == ()


def test_thinking_without_its_signature_is_told() -> None:
    def wire(**held: str) -> dict[str, object]:
        said = [{"type": "thinking", "thinking": "Hm.", **held}, {"type": "text", "text": "42"}]
        turns = [USER, {"role": "assistant", "content": said}, USER]
        return {"model": SONNET, "max_tokens": 9, "messages": turns}

    assert refusals("anthropic", wire(signature="sig")) == ()
    assert refusals("anthropic", wire())
    assert refusals("anthropic", wire(signature=""))
