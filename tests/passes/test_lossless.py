"""C.auto(lossless=True): forms that stay in view, and no tool to get anything back."""

from typing import cast

import pytest

import weft
from tests.compaction.talks import TALKS, long_text, talk_in
from weft import Agent, C, Session
from weft.errors import DeclarationError

LOSSLESS = C.auto(lossless=True)


def test_it_is_written_as_it_is_read() -> None:
    assert str(LOSSLESS) == "C.auto(lossless=True)"
    with pytest.raises(DeclarationError, match="lossless=1"):
        C.auto(lossless=cast("bool", 1))
    with pytest.raises(DeclarationError, match="never does"):
        C.auto(careful=True, lossless=True)


def test_what_stands_above_is_said_by_reference_and_everything_else_stays() -> None:
    talk = TALKS["openai-chat"]
    messages = talk.messages(talk_in("openai-chat", steps=3, same=True))
    messages += talk.step("other", "read", {"path": "elsewhere"}, long_text(7))
    agent = Agent(
        "agent",
        model="gpt-5",
        tools=[weft.Tool(name="read", description="Read.", parameters={"type": "object"})],
    )
    compiled = weft.compile(agent.sees(LOSSLESS), session=Session.from_messages(messages))
    sent = str(compiled.wire)
    assert compiled.tools == ["read"]
    assert "as lines 1-260 of" in sent
    assert "handle" not in sent
    for line in (*long_text(0).split("\n"), *long_text(7).split("\n")):
        assert sent.count(line) == 1
