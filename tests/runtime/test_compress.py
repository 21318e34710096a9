"""What a policy reduces is reduced in the request that is really sent, and nowhere else."""

import re

import pytest

import weft
from weft import Agent, C
from weft.declare.policy import Policy
from weft.dialects import DIALECTS
from weft.digest import reduced
from weft.ir import Prompt, ResultBlock, TextBlock
from weft.testing import ScriptedModel, call
from weft.tokens import counter_for
from weft.values import Json, JsonObject, compact

COUNT = counter_for("scripted").count
ROWS = [{"id": f"A-{n}", "status": "open", "blob": "x" * 60} for n in range(30)]
PAGE = "\n".join(f"paragraph {n} tells about station_{n}" for n in range(80))


def orders() -> dict[str, object]:
    """List the orders."""
    return {"total": len(ROWS), "rows": ROWS, "took_ms": 31}


def read(path: str) -> str:
    """Read a page."""
    return PAGE


def responses(prompt: Prompt) -> list[JsonObject]:
    return [block.response for block in prompt.blocks if isinstance(block, ResultBlock)]


def ran(policy: Policy | None, *script: object) -> ScriptedModel:
    model = ScriptedModel([*script, "done"])  # type: ignore[list-item]
    agent = Agent("bot", model=model, tools=[orders, read], context=policy)
    assert weft.run_sync(agent, "Go").text == "done"
    return model


def test_only_the_fields_that_are_asked_for_are_sent() -> None:
    model = ran(C.default().project(fields=["total", "rows[].id"]), call("orders"))
    ids = [{"id": row["id"]} for row in ROWS]
    assert responses(model.prompts[1]) == [{"total": 30, "rows": ids}]
    assert "blob" not in compact(model.wires[1])


def test_each_result_has_at_most_so_many_tokens() -> None:
    for keep, begins, ends in (
        ("head", "paragraph 0", "[…]"),
        ("tail", "[…]", "station_79"),
        ("bookend", "paragraph 0", "station_79"),
    ):
        model = ran(C.default().truncate(50, keep=keep), call("read", path="a"))  # type: ignore[arg-type]
        (response,) = responses(model.prompts[1])
        text = str(response["result"])
        assert COUNT(text) <= 50
        assert text.startswith(begins)
        assert text.endswith(ends)


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_something_is_left_of_each_turn_however_little_that_is(dialect: str, tokens: int) -> None:
    model = ScriptedModel([call("read", path="a"), "It is a long page.", "ok"], dialect=dialect)
    agent = Agent("bot", model=model, tools=[read], context=C.default().truncate(tokens))
    first = weft.run_sync(agent, "Read the page to me")
    weft.run_sync(agent, "And now?", session=first.session)
    texts = [block.text for block in model.prompts[2].blocks if isinstance(block, TextBlock)]
    assert "" not in texts
    assert len(texts) == 4


def test_a_shorter_form_may_give_way_to_a_still_shorter_one() -> None:
    script = [call("read", path="a"), "read", call("read", path="a"), "again", "done"]
    model = ScriptedModel(script, dialect="anthropic")
    agent = Agent("bot", model=model, tools=[read], context=C.default().budget(2000))
    session = None
    for message in ("Read", "Once more", "Well?"):
        session = weft.run_sync(agent, message, session=session).session
    assert len(model.wires) == 5


@pytest.mark.parametrize("selector", [C.window(5), C.agents("bot"), C.default()])
def test_a_digest_is_made_once(selector: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def counted(value: Json, **more: object) -> object:
        made.append(value)
        return reduced(value, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("weft.passes.handles.reduced", counted)
    model = ScriptedModel([call("read", path="a"), "ok", "fine", "well"])
    policy = selector.compact(results=200, to=100)
    agent = Agent("bot", model=model, tools=[read], context=policy)
    session = weft.run_sync(agent, "Read").session
    before = len(made)
    assert before > 0
    for message in ("And?", "So?"):
        session = weft.run_sync(agent, message, session=session).session
    assert len(made) == before


def test_the_same_page_is_sent_once() -> None:
    model = ran(C.default().dedupe(), call("read", path="a"), call("read", path="b"))
    first, second = responses(model.prompts[2])
    assert first == {"result": PAGE}
    assert isinstance(second, dict)
    words = r'\[the same as read\({"path":"a"}\) gave, the result above, handle [0-9a-f]{12}\]'
    assert re.fullmatch(words, str(second["result"]))
    assert compact(model.wires[2]).count("station_41") == 1
    assert responses(model.prompts[1]) == [first]


def test_the_older_of_two_results_of_one_call_gives_way() -> None:
    model = ran(C.default().dedupe("superseded"), call("read", path="a"), call("read", path="a"))
    first, second = responses(model.prompts[2])
    assert isinstance(first, dict)
    words = r"\[superseded: read gives it as it is now, further down; handle [0-9a-f]{12}\]"
    assert re.fullmatch(words, str(first["result"]))
    assert second == {"result": PAGE}


def test_one_after_the_other_they_work_together() -> None:
    policy = C.default().project(exclude="rows.blob").compact(results=200, to=150).dedupe()
    model = ran(policy, call("orders"), call("orders"))
    first, second = responses(model.prompts[2])
    assert first["total"] == 30
    assert COUNT(compact(first)) <= 150
    assert "the same as orders() gave, the result above, handle" in compact(second)


def test_a_handle_costs_little_and_keeps_the_prefix() -> None:
    calls = [call("read", path=str(n)) for n in range(2)] + [call("orders")]
    whole, short = ran(None, *calls), ran(C.default().compact(results=300, to=120), *calls)
    sizes = [COUNT(compact(model.wires[-1])) for model in (whole, short)]
    assert sizes[1] < 0.5 * sizes[0]
    for before, after in zip(short.prompts, short.prompts[1:], strict=False):
        sent = [item.blocks for item in before.items]
        assert [item.blocks for item in after.items][: len(sent)] == sent


def test_what_the_user_says_now_is_never_cut() -> None:
    message = "word " * 500
    model = ScriptedModel(["done"])
    agent = Agent("bot", model=model, context=C.default().truncate(20).compact(texts=64, to=64))
    weft.run_sync(agent, message)
    assert message in compact(model.wires[0])
