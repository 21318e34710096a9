"""A large result goes out as a handle with a digest, and comes back when it is asked for."""

import asyncio
import base64
import re
from collections.abc import Callable

import pytest

import weft
from weft import Agent, C, RunConfig, Runner, Session, ToolContext, tool
from weft.content import media_part
from weft.declare.policy import Policy
from weft.dialects import DIALECTS
from weft.errors import DeclarationError
from weft.ir import Prompt, ResultBlock
from weft.testing import ScriptedModel, call
from weft.tokens import counter_for
from weft.values import JsonObject, compact, handle_of

LINES = [f"line {n}: gauge_{n} rose to {n * 3} cm" for n in range(600)]
REPORT = "\n".join(LINES)
COUNT = counter_for("scripted").count


def read_report(station: str) -> str:
    """Read the report of a station."""
    return REPORT


def handle_in(prompt: Prompt) -> str:
    found = re.findall(r"handle ([0-9a-f]{12})", str(prompt))
    assert found, str(prompt)
    return str(found[-1])


def asks(**more: object) -> Callable[[Prompt], object]:
    return lambda prompt: call("recall", handle=handle_in(prompt), **more)


def results(prompt: Prompt) -> list[ResultBlock]:
    return [block for block in prompt.blocks if isinstance(block, ResultBlock)]


def bot(model: ScriptedModel, policy: Policy | None = None, *tools: object) -> Agent:
    return Agent("bot", model=model, tools=list(tools) or [read_report], context=policy)


COMPACT = C.default().compact()


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_a_large_result_is_a_handle_and_recall_brings_its_lines(dialect: str) -> None:
    script = [call("read_report", station="S"), asks(query="gauge_417"), "It rose to 1251 cm."]
    model = ScriptedModel(script, dialect=dialect)
    done = weft.run_sync(bot(model, COMPACT), "How far did gauge 417 rise?")
    assert done.text == "It rose to 1251 cm."
    first, second, third = model.wires
    assert "recall" in compact(first)
    assert COUNT(REPORT) > 5_000
    (digest,) = results(model.prompts[1])
    shown = str(digest.response["result"])
    assert shown.startswith(f"[handle {handle_in(model.prompts[1])}: ")
    assert COUNT(shown) <= 300
    assert "line 0: gauge_0 rose to 0 cm" in shown
    assert "line 599: gauge_599 rose to 1797 cm" in shown
    assert "gauge_417 rose" not in compact(second)
    assert "line 417: gauge_417 rose to 1251 cm" in compact(third)
    assert results(model.prompts[2])[-1].name == "recall"
    assert COUNT(compact(third)) - COUNT(compact(second)) < 300
    logged = [e for e in done.events if e.content and e.content.parts]
    kept = [p.function_response for e in logged for p in e.content.parts or () if e.content]
    assert any(r is not None and r.response == {"result": REPORT} for r in kept)


def test_without_a_query_the_whole_value_comes_back_page_by_page() -> None:
    script = [call("read_report", station="S"), asks(), asks(page=2), asks(page=99), "done"]
    model = ScriptedModel(script)
    weft.run_sync(bot(model, COMPACT), "Read all of it")
    pages = [str(one.response.get("result")) for one in results(model.prompts[-1])[1:3]]
    assert pages[0].startswith("[page 1 of ")
    assert "page=2)" in pages[0]
    assert pages[0].split("]\n", 1)[1].startswith("line 0: ")
    first = pages[0].split("]\n", 1)[1].splitlines()
    second = pages[1].split("]\n", 1)[1].splitlines()
    assert first + second == LINES[: len(first) + len(second)]
    assert all(COUNT(page) <= 2_300 for page in pages)
    assert "there is no page 99" in str(results(model.prompts[-1])[3].response["error"])


def test_a_result_that_fits_one_page_comes_back_as_it_was() -> None:
    def find() -> dict[str, object]:
        """Find orders."""
        return {"total": 40, "rows": [{"id": f"A-{n}", "state": "open"} for n in range(90)]}

    model = ScriptedModel([call("find"), asks_key, "done"])
    weft.run_sync(bot(model, C.default().compact(results=400), find), "Find them")
    short, whole = results(model.prompts[-1])
    assert short.response["total"] == 40
    assert whole.response == find()


def asks_key(prompt: Prompt) -> object:
    return call("recall", handle=results(prompt)[0].response["handle"])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"handle": "ffffffffffff"}, "there is no handle 'ffffffffffff' in this session"),
        ({"handle": 7}, "handle is 7, not a text"),
        ({}, "handle is null, not a text"),
        ({"handle": "ffffffffffff", "query": 3}, "query is 3"),
        ({"handle": "ffffffffffff", "page": "two"}, 'page is "two"'),
    ],
)
def test_a_wrong_call_gets_a_word_about_it_and_the_handles_there_are(
    args: JsonObject, says: str
) -> None:
    script = [call("read_report", station="S"), call("recall", **args), "done"]
    model = ScriptedModel(script)
    done = weft.run_sync(bot(model, COMPACT), "Read it")
    assert done.text == "done"
    said = str(results(model.prompts[-1])[-1].response["error"])
    assert says in said
    if "handle" in says:
        assert f"{handle_in(model.prompts[1])} (read_report)" in said


async def test_a_handle_of_another_session_stands_for_nothing_here() -> None:
    script = [call("read_report", station="S"), "ok", asks_first(), "done"]
    model = ScriptedModel(script)
    runner = Runner(bot(model, COMPACT))
    for session in ("one", "two"):
        async for _ in runner.run(user_id="u", session_id=session, message="Go"):
            pass
    assert "there is no handle" in str(results(model.prompts[-1])[-1].response["error"])
    assert "none yet" in str(results(model.prompts[-1])[-1].response["error"])


def asks_first() -> Callable[[Prompt], object]:
    from weft.values import handle_of

    return lambda _: call("recall", handle=handle_of({"result": REPORT}))


def test_what_nothing_fits_is_said() -> None:
    model = ScriptedModel([call("read_report", station="S"), asks(query="zzzyyyx"), "done"])
    weft.run_sync(bot(model, COMPACT), "Read it")
    assert "nothing in it fits 'zzzyyyx'" in str(results(model.prompts[-1])[-1].response)


def test_the_tool_is_there_from_the_first_request_on_and_only_then_when_handles_can_be() -> None:
    for policy, offered in ((COMPACT, True), (None, False), (C.window(3), False)):
        model = ScriptedModel(["hello"])
        weft.run_sync(bot(model, policy), "Hi")
        assert ("recall" in [t.name for t in model.prompts[0].tools]) is offered


@pytest.mark.parametrize(("words", "offered"), [(1, False), (3_000, True)])
def test_under_auto_the_tool_is_there_at_once_only_beside_a_long_request(
    words: int, offered: bool
) -> None:
    def find() -> dict[str, object]:
        """Find orders."""
        return {"rows": [{"id": f"A-{n}", "note": f"call {n} first"} for n in range(200)]}

    model = ScriptedModel([call("find"), "high"])
    weft.run_sync(bot(model, C.auto(), find), "word " * words)
    first, second = ("recall" in [t.name for t in p.tools] for p in model.prompts)
    assert (first, second) == (offered, True)


def test_a_chat_under_auto_that_hides_nothing_is_sent_as_plain_history() -> None:
    def look(at: int) -> str:
        """Look."""
        return f"nothing at {at}"

    wires = []
    for policy in (None, C.auto()):
        model = ScriptedModel([call("look", at=1), "nothing"])
        weft.run_sync(bot(model, policy, look), "Look")
        wires.append(model.wires)
    assert wires[0] == wires[1]


def test_several_handles_come_back_at_once_and_a_field_alone() -> None:
    def find() -> dict[str, object]:
        """Find orders."""
        return {"rows": [{"id": f"A-{n}", "note": "call first " * 9} for n in range(90)]}

    def both(prompt: Prompt) -> object:
        handles = re.findall(r"[0-9a-f]{12}", str(results(prompt)[0].response))
        handles += re.findall(r"handle ([0-9a-f]{12})", str(results(prompt)[1].response))
        return call("recall", handle=", ".join(dict.fromkeys(handles)), query="gauge_417")

    def ids(prompt: Prompt) -> object:
        return call("recall", handle=results(prompt)[0].response["handle"], field="rows[].id")

    def wrong(prompt: Prompt) -> object:
        return call("recall", handle=results(prompt)[0].response["handle"], field="cols")

    script = [[call("find"), call("read_report", station="S")], both, ids, wrong, "done"]
    model = ScriptedModel(script)
    # a report is a text, which is sent whole unless its tool says otherwise
    weft.run_sync(bot(model, C.auto(), find, tool(compact=True)(read_report)), "Go")
    short, report, two, fields, none = results(model.prompts[-1])
    assert "recall by field" in str(short.response["left_out"])
    assert "recall by lines or query]" in str(report.response["result"])
    assert len(two.response) == 2
    assert "gauge_417 rose to 1251 cm" in str(two.response[handle_of({"result": REPORT})])
    assert fields.response == {"rows": [{"id": f"A-{n}"} for n in range(90)]}
    assert "has no field 'cols'" in str(none.response["error"])


def test_without_handles_recall_is_an_unknown_tool() -> None:
    model = ScriptedModel([call("recall", handle="x"), "done"])
    weft.run_sync(bot(model), "Hi")
    assert "there is no tool 'recall'" in compact(results(model.prompts[1])[0].response)


def test_a_tool_of_the_same_name_is_refused_while_handles_can_be() -> None:
    def recall(topic: str) -> str:
        """Recall a topic."""
        return "I do"

    model = ScriptedModel([call("recall", topic="x"), "done"])
    assert weft.run_sync(bot(model, None, recall), "Hi").text == "done"
    assert results(model.prompts[-1])[0].response == {"result": "I do"}
    with pytest.raises(DeclarationError, match="is Weft's own") as refused:
        weft.compile(bot(ScriptedModel([]), COMPACT, recall), message="Hi")
    assert "rename" in refused.value.hint


def test_a_tool_may_keep_its_results_whole() -> None:
    model = ScriptedModel([call("whole", station="S"), "done"])
    whole = tool(compact=False, name="whole")(read_report)
    weft.run_sync(bot(model, COMPACT, whole), "Hi")
    assert results(model.prompts[1])[0].response == {"result": REPORT}


@pytest.mark.parametrize(("given", "most"), [(True, 300), (200, 200), (1_000, 300)])
def test_a_tool_alone_may_ask_that_its_results_become_handles(given: bool | int, most: int) -> None:
    script = [call("asked", station="S"), asks(query="gauge_9"), "done"]
    model = ScriptedModel(script)
    asked = tool(compact=given, name="asked")(read_report)
    weft.run_sync(bot(model, None, asked), "Hi")
    digest = str(results(model.prompts[1])[0].response["result"])
    assert digest.startswith("[handle ")
    assert COUNT(digest) <= most
    assert "gauge_9 rose" in str(results(model.prompts[2])[1].response)


def test_bad_numbers_are_refused_where_they_are_written() -> None:
    for wrong in (0, 10, -1, "many"):
        with pytest.raises(DeclarationError, match="compact"):
            tool(compact=wrong)(read_report)  # type: ignore[call-overload]
    with pytest.raises(DeclarationError, match="saves nothing"):
        C.default().compact(results=100, to=200)
    with pytest.raises(DeclarationError, match="at least 64"):
        C.default().compact(to=10)
    with pytest.raises(DeclarationError, match="did you mean `results`"):
        C.default().compact(result=100)  # type: ignore[call-arg]


def test_the_run_may_bring_the_policy() -> None:
    model = ScriptedModel([call("read_report", station="S"), asks(query="gauge_3"), "done"])
    weft.run_sync(bot(model), "Hi", config=RunConfig(context=COMPACT))
    assert "gauge_3 rose" in str(results(model.prompts[2])[1].response)


async def test_media_is_seen_once_and_is_a_handle_in_the_next_turn() -> None:
    data = bytes(range(256)) * 2_000
    model = ScriptedModel(["A contract", "Two people", asks(), "I see it again"])
    agent = bot(model, C.default().compact(media=1_000))
    runner = Runner(agent)
    messages = [["Read this", media_part("application/pdf", data)], "Who signs?", "Look again"]
    for message in messages:
        async for _ in runner.run(user_id="u", session_id="s", message=message):  # type: ignore[arg-type]
            pass
    encoded = base64.b64encode(data).decode()
    assert encoded in compact(model.wires[0])
    assert encoded not in compact(model.wires[1])
    assert "application/pdf, 512,000 bytes" in compact(model.wires[1])
    assert encoded in compact(model.wires[3])
    assert model.prompts[3].blocks[-1].media  # type: ignore[union-attr]


async def test_a_label_holds_for_what_is_recalled() -> None:
    secret = tool(labels=["secret"], name="vault")(read_report)
    model = ScriptedModel(
        {"inner": [call("vault", station="S"), "ok"], "outer": [asks_first(), "x"]}
    )
    inner = Agent("inner", model=model, tools=[secret], context=COMPACT, cleared=["secret"])
    outer = Agent("outer", model=model, tools=[secret], context=COMPACT)
    session = (await weft.run(inner, "Go")).session
    await weft.run(outer, "Go", session=session)
    assert "there is no handle" in str(results(model.prompts[-1])[-1].response)
    assert "gauge_5 rose" not in compact(model.wires[-1])


SHOWN = (C.none() + C.state("report", "user:report")).compact(texts=400)


@pytest.mark.parametrize("key", ["report", "user:report"])
@pytest.mark.parametrize(
    "policy", [SHOWN, (C.none() + C.state("report", "user:report")).budget(900)]
)
def test_what_was_in_the_state_from_the_start_comes_back_too(policy: Policy, key: str) -> None:
    model = ScriptedModel([asks(query="gauge_417"), "1251 cm"])
    started = Session("s", state={key: REPORT})
    weft.run_sync(Agent("bot", model=model, context=policy), "How far?", session=started)
    assert "gauge_417" not in compact(model.wires[0])
    assert "gauge_417 rose to 1251 cm" in str(results(model.prompts[1])[0].response)


async def test_what_a_file_holds_comes_back_too() -> None:
    async def save(ctx: ToolContext) -> str:
        """Save the report."""
        await ctx.save_artifact("report.txt", REPORT)
        return "saved"

    model = ScriptedModel([call("save"), "saved", asks(query="gauge_417"), "1251 cm"])
    policy = (C.none() + C.artifact("report.txt")).compact(texts=400)
    runner = Runner(bot(model, policy, save))
    for message in ("Save it", "How far?"):
        async for _ in runner.run(user_id="u", session_id="s", message=message):
            pass
    assert "gauge_417 rose to 1251 cm" in str(results(model.prompts[-1])[-1].response)


def test_what_a_label_hides_in_the_state_does_not_come_back() -> None:
    policy = SHOWN.label("secret", "report")
    model = ScriptedModel([call("recall", handle=handle_of(REPORT)), "x"])
    started = Session("s", state={"report": REPORT})
    weft.run_sync(Agent("bot", model=model, context=policy), "How far?", session=started)
    assert "there is no handle" in str(results(model.prompts[-1])[-1].response)


async def test_values_of_another_branch_are_not_given_while_it_runs() -> None:
    read = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for the other branch."""
        await read.wait()
        return "waited"

    @tool
    async def signal() -> str:
        """Say that the report was read."""
        read.set()
        return "said"

    handle = handle_of({"result": REPORT})
    model = ScriptedModel(
        {
            "left": [call("read_report", station="S"), call("signal"), "l"],
            "right": [call("wait"), call("recall", handle=handle), "r"],
        }
    )
    left = Agent("left", model=model, tools=[read_report, signal], context=COMPACT)
    right = Agent("right", model=model, tools=[wait], context=COMPACT)
    result = await weft.run(left | right, "Go")
    given = [r for e in result.events for r in e.results if r.name == "recall"]
    assert "there is no handle" in str(given[0].response)


async def test_values_of_a_branch_are_given_once_it_has_joined() -> None:
    script = {
        "left": [call("read_report", station="S"), "l"],
        "right": ["r"],
        "last": [asks_first(), "x"],
    }
    model = ScriptedModel(script)
    left = Agent("left", model=model, tools=[read_report], context=COMPACT)
    right = Agent("right", model=model, context=COMPACT)
    last = Agent("last", model=model, context=COMPACT)
    await weft.run((left | right) >> last, "Go")
    assert "gauge_1 rose" in str(results(model.prompts[-1])[-1].response)


async def test_a_session_that_was_stored_and_read_back_gives_the_same_bytes() -> None:
    script = [call("read_report", station="S"), asks(query="gauge_7"), "done", "again"]
    model = ScriptedModel(script)
    agent = bot(model, COMPACT)
    session = (await weft.run(agent, "Read it")).session
    again = Session.from_json(session.to_json())
    for held in (session, again):
        compiled = weft.compile(agent, session=held, message="And?")
        assert compact(compiled.wire)[: len(compact(model.wires[-1])) - 3] in compact(compiled.wire)
    one = weft.compile(agent, session=session, message="And?")
    other = weft.compile(agent, session=again, message="And?")
    assert compact(one.wire) == compact(other.wire)
