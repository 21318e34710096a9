"""What carries a label reaches nobody who is not cleared for it, by whatever way it goes."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import weft
from weft import Agent, C, Part, Runner, Session, Step, tool
from weft.content import Blob, FunctionCall, FunctionResponse
from weft.declare.context import ToolContext
from weft.errors import ProtectionError
from weft.ir import Prompt
from weft.testing import ScriptedModel, call
from weft.values import handle_of

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")
KEY = "zx-91-KQ77-opal"
MARK = "[withheld: secret]"


def _sent(model: ScriptedModel) -> str:
    return json.dumps(model.wires, ensure_ascii=False)


@tool(labels=["secret"])
def vault(name: str) -> dict[str, object]:
    """Look something up."""
    if name == "broken":
        raise ValueError(f"cannot open {KEY}")
    return {"owner": {"name": "Ada Q. Lovelace", "code": KEY}, "tries": [4711, 2], "well": True}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_value_of_the_state_is_withheld_in_the_template_and_everywhere_else(
    dialect: str,
) -> None:
    model = ScriptedModel(["fine"], dialect=dialect)
    agent = Agent("a", model=model, instruction="Use {key}.").sees(
        (C.default() + C.state("copy")).label("secret", "key")
    )
    state = {"key": KEY, "copy": f"it is {KEY.upper()}"}
    result = await weft.run(agent, f"is {KEY} right?", state=state)
    assert result.text == "fine"
    assert KEY.lower() not in _sent(model).lower()
    assert _sent(model).count(MARK) == 3


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_labelled_tools_result_and_its_error_are_withheld(dialect: str) -> None:
    script = [call("vault", name="x"), call("vault", name="broken"), "done"]
    model = ScriptedModel(script, dialect=dialect)
    result = await weft.run(Agent("a", model=model, tools=[vault]), "look")
    assert result.text == "done"
    for value in (KEY, "Lovelace", "4711", '"well"'):
        assert value not in _sent(model)
    assert MARK in _sent(model)


async def test_who_is_cleared_gets_it() -> None:
    model = ScriptedModel([call("vault", name="x"), "done"])
    await weft.run(Agent("a", model=model, tools=[vault], cleared=["secret"]), "look")
    assert KEY in _sent(model)
    assert MARK not in _sent(model)


async def test_another_agent_of_the_tree_that_declares_nothing_does_not_get_it() -> None:
    first = ScriptedModel([call("vault", name="x"), call("transfer_to_agent", agent_name="b")])
    second = ScriptedModel(["over to me", "still me"])
    peer = Agent("b", model=second, instruction="Help.")
    root = Agent("a", model=first, tools=[vault], cleared=["secret"], sub_agents=[peer])
    runner = Runner(root)
    async for _ in runner.run(user_id="u", session_id="s", message="look"):
        pass
    async for _ in runner.run(user_id="u", session_id="s", message="again"):
        pass
    assert len(second.wires) == 2
    assert KEY not in _sent(second)
    assert "true" not in _sent(second).lower()


async def test_a_step_of_a_flow_does_not_get_what_an_earlier_one_said() -> None:
    first = ScriptedModel([call("vault", name="x"), f"The code is {KEY}, owner Ada Q. Lovelace."])
    second = ScriptedModel(["sorry"])
    flow = Agent("a", model=first, tools=[vault], cleared=["secret"]).writes("found") >> Agent(
        "b", model=second, instruction="Say: {found}"
    )
    await weft.run(flow, "look")
    assert KEY not in _sent(second)
    assert "Lovelace" not in _sent(second)
    assert f"Say: The code is {MARK}, owner {MARK}." in _sent(second)


async def test_a_call_that_carries_it_to_a_tool_that_is_not_cleared_is_refused() -> None:
    mailed: list[str] = []

    def mail(body: str) -> str:
        """Send a mail."""
        mailed.append(body)
        return "sent"

    @tool(cleared=["secret"])
    def archive(body: str) -> str:
        """Keep a text."""
        mailed.append(body)
        return "kept"

    encoded = base64.b64encode(f"x{KEY}".encode()).decode()
    script = [
        call("vault", name="x"),
        [call("mail", body=f"it is {KEY}"), call("mail", body=encoded), call("mail", body="hi")],
        call("archive", body=KEY),
        "done",
    ]
    model = ScriptedModel(script)
    agent = Agent("a", model=model, tools=[vault, mail, archive], cleared=["secret"])
    result = await weft.run(agent, "look")
    assert result.text == "done"
    assert mailed == ["hi", KEY]
    refused = "the argument `body` carries the label `secret`, which mail is not cleared for"
    assert _sent(model).count(refused) >= 2


async def test_an_agent_that_is_called_as_a_tool_neither_gets_it_nor_sees_it() -> None:
    inner = ScriptedModel(["inner said", "inner again"])
    helper = Agent("helper", model=inner, instruction="The state: {note?}", description="Helps.")
    script = [
        call("vault", name="x"),
        call("helper", request=f"look at {KEY}"),
        call("helper", request="no secret here"),
        "done",
    ]
    model = ScriptedModel(script)
    agent = Agent("a", model=model, tools=[vault, helper], cleared=["secret"])
    await weft.run(agent, "look", state={"note": f"noted {KEY}"})
    assert len(inner.wires) == 1
    assert KEY not in _sent(inner)
    assert f"noted {MARK}" in _sent(inner)


async def test_an_artifact_and_the_template_that_inserts_it(tmp_path: Path) -> None:
    async def keep(ctx: ToolContext) -> str:
        """Keep a file."""
        await ctx.save_artifact("plan.txt", f"Line one\nThe code word is {KEY} today\n")
        return "kept"

    model = ScriptedModel([call("keep"), f"quoting: The code word is {KEY} today", "last"])
    agent = Agent("a", model=model, tools=[keep], instruction="Plan: {artifact.plan.txt?}").sees(
        C.default().label("secret", artifacts="plan.txt")
    )
    runner = Runner(agent, store=f"sqlite:///{tmp_path / 'weft.db'}")
    for message in ("go", "and?"):
        async for _ in runner.run(user_id="u", session_id="s", message=message):
            pass
    assert len(model.wires) == 3
    assert KEY not in _sent(model)
    assert "code word" not in _sent(model)
    assert "Line one" not in _sent(model)


async def test_a_stored_session_that_goes_on_in_another_process(tmp_path: Path) -> None:
    def runner(model: ScriptedModel, **options: object) -> Runner:
        agent = Agent("a", model=model, tools=[vault], instruction="Hi.", **options)  # type: ignore[arg-type]
        return Runner(agent, store=f"sqlite:///{tmp_path / 'weft.db'}")

    first = ScriptedModel([call("vault", name="x"), f"It is {KEY}."])
    async for _ in runner(first, cleared=["secret"]).run(
        user_id="u", session_id="s", message="look"
    ):
        pass
    second = ScriptedModel(["what was it?"])
    async for _ in runner(second).run(user_id="u", session_id="s", message="say it again"):
        pass
    assert KEY in _sent(first)
    assert KEY not in _sent(second)


async def test_what_was_in_temporary_state_is_still_withheld_when_that_is_gone() -> None:
    @tool
    def remember(ctx: ToolContext) -> str:
        """Remember something for now."""
        ctx.state["temp:key"] = KEY
        return "ok"

    first = ScriptedModel([call("remember"), f"It is {KEY}."])
    second = ScriptedModel(["hm"])
    policy = C.default().label("secret", "temp:key")
    runner = Runner(Agent("a", model=first, tools=[remember], cleared=["secret"]).sees(policy))
    async for _ in runner.run(user_id="u", session_id="s", message="go"):
        pass
    session = await runner.session(user_id="u", session_id="s")
    later = Agent("a", model=second, tools=[remember]).sees(policy)
    await weft.run(later, "and?", session=session)
    assert KEY not in _sent(second)
    assert MARK in _sent(second)


async def test_tools_schemas_options_and_names_of_files() -> None:
    def pay(amount: int) -> str:
        """Pay with the account."""
        return "ok"

    told = tool(description=f"Pay from {KEY}.")(pay)
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": [KEY, "other"], "description": KEY}},
    }
    for dialect in DIALECTS:
        model = ScriptedModel(['{"kind": "other"}'], dialect=dialect)
        agent = Agent(
            "a",
            model=model,
            tools=[told],
            output_schema=schema,
            generate_config={"stop_sequences": [KEY], "user": f"u-{KEY}"},
        ).sees(C.default().label("secret", "key"))
        picture = Part(inline_data=Blob(mime_type="image/png", data="aGk=", display_name=KEY))
        text = base64.b64encode(f"a file with {KEY}".encode()).decode()
        file = Part(inline_data=Blob(mime_type="text/plain", data=text))
        await weft.run(agent, [Part(text="see"), picture, file], state={"key": KEY})
        assert KEY not in _sent(model), dialect
        assert text not in _sent(model), dialect


async def test_a_value_that_is_cut_in_two_parts_is_found() -> None:
    model = ScriptedModel(["hm"])
    agent = Agent("a", model=model).sees(C.default().label("secret", "key"))
    parts = [Part(text=f"it is {KEY[:6]}"), Part(text=f"{KEY[6:]} is it")]
    await weft.run(agent, parts, state={"key": KEY})
    assert KEY[6:] not in _sent(model)
    assert f"it is {MARK}" in _sent(model)


async def test_a_callback_that_puts_it_back_is_stopped_before_anything_is_sent() -> None:
    def spill(ctx: object, prompt: Prompt) -> Prompt:
        block = msgspec.structs.replace(prompt.system[0], text=f"psst {KEY}", spans=())
        return msgspec.structs.replace(prompt, system=(block,))

    model = ScriptedModel(["never"])
    agent = Agent("a", model=model, before_model=spill).sees(C.default().label("secret", "key"))
    with pytest.raises(ProtectionError, match="carries the label `secret`"):
        await weft.run(agent, "hi", state={"key": KEY})
    assert model.wires == []
    runner = Runner(agent)
    with pytest.raises(ProtectionError):
        await runner.run(user_id="u", session_id="s", message="hi", state={"key": KEY})
    last = (await runner.session(user_id="u", session_id="s")).events[-1]
    assert last.error_code == "protect"
    assert KEY not in (last.error_message or "")


def test_labels_are_told_and_a_request_is_the_same_every_time() -> None:
    agent = Agent("a", instruction="Use {key}.").sees(C.default().label("secret", "key"))
    made = weft.compile(agent, state={"key": KEY}, message=f"is {KEY} right?")
    again = weft.compile(agent, state={"key": KEY}, message=f"is {KEY} right?")
    assert [d.code for d in made.diagnostics if d.code == "WEFT601"] == ["WEFT601"] * 2
    assert made.hash == again.hash
    assert made.origin("/messages/0/content", 20).name == "key"
    assert "withhold_labelled" in str(made.explain())


def test_a_key_that_a_labelled_tool_wrote_is_labelled_until_somebody_else_writes_it() -> None:
    def result(value: str) -> weft.Event:
        response = FunctionResponse(name="vault", response={"result": "x"}, id="c1")
        return weft.Event(
            author="a",
            content=weft.Content(parts=(Part(function_response=response),), role="user"),
            actions=weft.Actions(state_delta={"out": value}),
        )

    called = weft.Event(
        author="a",
        content=weft.Content(
            parts=(Part(function_call=FunctionCall(name="vault", args={"name": "x"}, id="c1")),),
            role="model",
        ),
    )
    agent = Agent("a", tools=[vault], instruction="It: {out}.")
    session = Session("s", events=[called, result("no")])
    assert f"It: {MARK}." in weft.compile(agent, session=session, message="hi").system
    session = session.append(
        weft.Event(author="b", actions=weft.Actions(state_delta={"out": "ok"}))
    )
    assert "It: ok." in weft.compile(agent, session=session, message="hi").system


@pytest.mark.parametrize("policy", ["label", "fence"])
async def test_each_request_extends_the_one_before(policy: str) -> None:
    script = [call("vault", name="x"), "one", "two", call("vault", name="y"), "three"]
    model = ScriptedModel(script, dialect="openai-chat")
    agent = Agent("a", model=model, tools=[vault], cleared=["secret"] if policy == "fence" else [])
    seen = C.default().fence() if policy == "fence" else C.default().label("secret", "key")
    runner = Runner(agent.sees(seen))
    for message in ("first", "second", "third"):
        async for _ in runner.run(user_id="u", session_id="s", message=message, state={"key": KEY}):
            pass
    for before, after in zip(model.wires, model.wires[1:], strict=False):
        assert isinstance(before["messages"], list)
        assert isinstance(after["messages"], list)
        assert after["messages"][: len(before["messages"])] == before["messages"]


async def test_a_handle_of_something_labelled_gives_nothing_to_who_is_not_cleared() -> None:
    @tool(labels=["secret"], compact=64)
    def dump() -> str:
        """A long text."""
        return "\n".join(f"line {index} of the secret {KEY}-{index}" for index in range(60))

    first = ScriptedModel([call("dump"), "done"])
    keeper = Agent("keeper", model=first, tools=[dump], cleared=["secret"])
    second = ScriptedModel([lambda _: call("recall", handle=handles[0]), "nothing"])
    clerk = Agent("clerk", model=second, instruction="Go on.").sees(C.default().compact())
    runner = Runner(keeper >> clerk)
    handles: list[str] = []
    async for event in runner.run(user_id="u", session_id="s", message="go"):
        handles += [handle_of(result.response or {}) for result in event.results]
    assert "[handle " in _sent(first)
    assert KEY not in _sent(second)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_half_a_character_in_a_value_hides_it_from_nobody(dialect: str) -> None:
    """A lone surrogate is sent as U+FFFD: the value is found as it is, and as it is sent."""
    secret = f"{KEY} \ud83d of the house"
    agent = Agent("bot", model="gpt-5", instruction="Plan: {plan}")
    agent = agent.sees(C.default().label("secret", "plan"))
    compiled = weft.compile(agent, state={"plan": secret}, message=f"Is it {secret}?")
    sent = json.dumps(compiled.lower(dialect), ensure_ascii=False)
    assert KEY not in sent
    assert "of the house" not in sent
    assert sent.count(MARK) == 2


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text[::-1],
        " ".join,
        lambda text: base64.b32encode(text.encode()).decode(),
        lambda text: "the flu, of the second kind",
    ],
    ids=["reversed", "spelled out", "base32", "other words"],
)
async def test_a_label_that_follows_withholds_a_secret_in_any_words(
    spell: Callable[[str], str],
) -> None:
    sent: list[str] = []

    @tool(effect="pure")
    def read_record() -> str:
        """Read a record."""
        return "influenza-B-7731"

    @tool
    def post(text: str) -> str:
        """Post a text."""
        sent.append(text)
        return "posted"

    words = spell("influenza-B-7731")

    async def read_by_others(*, follows: bool) -> bool:
        """Whether agents that are not cleared for it were shown what the cleared one said."""
        policy = C.default().label("medical", tools="read_record", follow=follows)
        script = [call("read_record"), call("post", text=words), words]
        doctor = Agent(
            "doctor", model=ScriptedModel(script), tools=[read_record, post], cleared=["medical"]
        )
        models = [ScriptedModel(["Fine."]), ScriptedModel(["Fine."])]
        clerk = Agent("clerk", model=models[0], instruction="Write: {finding}")
        copier = Step(lambda state: {"copy": f"({state['finding']})"}, name="copier")
        last = Agent("last", model=models[1], instruction="Write: {copy}").sees(C.none())
        flow = doctor.writes("finding").sees(policy) >> clerk >> copier >> last
        await Runner(flow).run("How is Ann?")
        return any(words in _sent(model) for model in models)

    assert not await read_by_others(follows=True)
    assert sent == []
    if words != " ".join("influenza-B-7731"):  # found by its value anyway
        assert await read_by_others(follows=False)
        assert sent == [words]
