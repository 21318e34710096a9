"""The memory of a user in runs: as a policy, as tools; searched once, kept in the log."""

import logging
from collections.abc import Sequence

import pytest

import weft
from weft import Agent, C, Content, Memory, Part, Runner
from weft.errors import DeclarationError, UsageError
from weft.testing import ScriptedModel, call
from weft.tools import load_memory, remember

VIEW = C.default() + C.memory(top_k=2)


async def seeded() -> Memory:
    memory = Memory()
    await memory.remember("bot", "ada", "Ada lives in Oslo.")
    await memory.remember("bot", "ada", "Ada drinks green tea.")
    await memory.remember("bot", "bob", "Bob lives in Rome.")
    return memory


def texts(model: ScriptedModel, at: int) -> list[str]:
    return [block.text for block in model.prompts[at].blocks if block.role != "system"]  # type: ignore[union-attr]


async def test_memories_are_shown_where_they_were_asked_for_and_stay() -> None:
    model = ScriptedModel(["In Oslo.", "Green tea.", "Yes."])
    bot = Agent("bot", model=model, context=VIEW)
    runner = Runner(bot, memory=await seeded())
    for message in ("Where does Ada live?", "What tea?", "Where does she live, and what tea?"):
        await runner.run(message, user_id="ada", session_id="s")
    (oslo, tea) = (text for text in texts(model, 2) if text.startswith("[memory]"))
    assert oslo.endswith(", user: Ada lives in Oslo.")
    assert tea.endswith(", user: Ada drinks green tea.")
    assert texts(model, 2) == [
        "Where does Ada live?", oslo, "In Oslo.",
        "What tea?", tea, "Green tea.",
        "Where does she live, and what tea?",
    ]  # fmt: skip
    # each request begins with all of the one before
    for at in (1, 2):
        assert texts(model, at)[: len(texts(model, at - 1))] == texts(model, at - 1)
    assert "Rome" not in str(model.prompts)


async def test_a_stored_session_gives_the_same_request_without_the_memory() -> None:
    model = ScriptedModel([call("look"), "In Oslo."])

    def look() -> str:
        """Look."""
        return "nothing"

    bot = Agent("bot", model=model, context=VIEW, tools=[look])
    memory = await seeded()
    runner = Runner(bot, memory=memory)
    await runner.run("Where does Ada live?", user_id="ada", session_id="s")
    await memory.forget("bot", "ada")
    session = await runner.session(user_id="ada", session_id="s")
    effects = [event for event in session.events if event.provenance.effect is not None]
    assert len(effects) == 1  # once a turn, not once a step
    upto = session.events[:2]
    before = weft.Session("s", app_name="bot", user_id="ada", events=list(upto))
    compiled = weft.compile(bot, session=before)
    assert compiled.wire == model.wires[0]
    pointers = [row for row in compiled.explain().sent if row.origin.kind == "memory"]
    assert [str(row.origin) for row in pointers] == [
        f"memory {one['id']}"
        for one in effects[0].provenance.effect["outcome"]  # type: ignore[index,union-attr]
    ]


async def test_a_compilation_alone_searches_nothing_and_says_so() -> None:
    compiled = weft.compile(Agent("bot", context=VIEW), message="Where?")
    (diagnostic,) = [one for one in compiled.diagnostics if one.code == "WEFT504"]
    assert "the memory was not searched yet" in diagnostic.message


async def test_a_rewind_takes_its_memories_along() -> None:
    model = ScriptedModel(["In Oslo.", "Fine."])
    runner = Runner(Agent("bot", model=model, context=VIEW), memory=await seeded())
    first = await runner.run("Where does Ada live?", user_id="ada", session_id="s")
    await runner.rewind(user_id="ada", session_id="s", invocation_id=first.invocation_id)
    await runner.run("Hello", user_id="ada", session_id="s")
    assert texts(model, 1) == ["Hello"]


async def test_a_budget_drops_memories_before_what_matters_more() -> None:
    model = ScriptedModel(["In Oslo."])
    view = C.default() + C.memory(top_k=5).fit(14)
    runner = Runner(Agent("bot", model=model, context=view), memory=await seeded())
    await runner.run("Where does Ada live, and which tea?", user_id="ada", session_id="s")
    assert len([text for text in texts(model, 0) if text.startswith("[memory]")]) <= 1


async def test_a_given_query_and_one_in_state() -> None:
    model = ScriptedModel(["ok", "ok"])
    memory = await seeded()
    given = Agent("bot", model=model, context=C.default() + C.memory("tea"))
    await Runner(given, memory=memory).run("Hi", user_id="ada")
    kept = Agent("bot", model=model, context=C.default() + C.memory(from_state="topic"))
    await Runner(kept, memory=memory).run("Hi", user_id="ada", state={"topic": "Oslo"})
    assert "green tea" in texts(model, 0)[1]
    assert "Oslo" in texts(model, 1)[1]


async def test_the_model_remembers_and_loads() -> None:
    model = ScriptedModel(
        [call("remember", fact="Ada likes jazz."), "Noted.", call("load_memory", query="jazz"),
         "You like jazz.", call("load_memory", query="jazz"), "I do not know."]
    )  # fmt: skip
    bot = Agent("bot", model=model, tools=[remember, load_memory])
    runner = Runner(bot, memory=Memory())
    await runner.run("I like jazz", user_id="ada", session_id="one")
    known = await runner.run("What do I like?", user_id="ada", session_id="two")
    (found,) = [one.response for event in known.events for one in event.results]
    assert found is not None
    assert [one["text"] for one in found["memories"]] == ["Ada likes jazz."]  # type: ignore[index,union-attr,call-overload]
    other = await runner.run("What do I like?", user_id="bob", session_id="three")
    (found,) = [one.response for event in other.events for one in event.results]
    assert found == {"memories": [], "note": "nothing fits the query"}


async def test_without_a_memory_the_stored_sessions_are_searched() -> None:
    model = ScriptedModel(["Noted.", "In the shed."])
    runner = Runner(Agent("bot", model=model, context=VIEW))
    await runner.run("The kettle is in the shed.", session_id="one")
    await runner.run("Where is the kettle?", session_id="two")
    assert texts(model, 1)[1].endswith(", user: The kettle is in the shed.")


class Broken:
    """A memory that fails."""

    async def search(self, app_name: str, user_id: str, query: str) -> Sequence[Content]:
        raise OSError("disk on fire")


class Own:
    """A memory of the user's own."""

    async def search(self, app_name: str, user_id: str, query: str) -> Sequence[Content]:
        return [Content(parts=(Part(text=f"{user_id} asked {query}"),), role="user")]


async def test_a_memory_of_ones_own_is_searched_and_one_that_fails_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel(["ok", "ok", call("remember", fact="x"), "sorry"])
    bot = Agent("bot", model=model, context=VIEW, tools=[remember])
    await Runner(bot, memory=Own()).run("Hi", user_id="ada")
    assert texts(model, 0)[1] == "[memory] user: ada asked Hi"
    with caplog.at_level(logging.WARNING, logger="weft"):
        result = await Runner(bot, memory=Broken()).run("Hi", user_id="ada")
    assert result.text == "ok"
    assert any("disk on fire" in one.message for one in result.diagnostics)
    result = await Runner(bot, memory=Own()).run("Hi", user_id="ada")
    assert "cannot be written" in str([one.response for e in result.events for one in e.results])


def test_what_cannot_be_right_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be searched"):
        Runner(Agent("bot"), memory="sqlite:///weft.db")  # type: ignore[arg-type]
    for make, message in (
        (lambda: C.memory(top_k=0), "top_k"),
        (lambda: C.memory("a", from_state="b"), "both given and in state"),
        (lambda: C.memory(""), "is not a text"),
        (lambda: C.memory(scorer="model"), "scorer"),  # type: ignore[arg-type]
    ):
        with pytest.raises(DeclarationError, match=message):
            make()
