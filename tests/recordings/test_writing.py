"""A session goes out as messages of four providers, and comes back as it was."""

import json
from pathlib import Path

import pytest

from tests.compaction.talks import DIALECTS, TALKS, talk_in
from weft import Session
from weft.errors import UsageError

SAMPLES = Path(__file__).parent / "samples"


def _spoken(session: Session) -> list[tuple[object, ...]]:
    """What was said, called and returned, whoever spells it."""
    spoken: list[tuple[object, ...]] = []
    for event in session.events:
        for part in (event.content.parts if event.content is not None else None) or ():
            if part.function_call is not None:
                spoken.append(("call", part.function_call.name, part.function_call.args))
            elif part.function_response is not None:
                response = part.function_response.response or {}
                spoken.append(("result", part.function_response.name, [*response.values()]))
            elif part.text and not part.thought:
                spoken.append((event.author == "user", part.text))
    return spoken


@pytest.mark.parametrize("after", DIALECTS)
@pytest.mark.parametrize("before", DIALECTS)
def test_what_is_read_in_one_dialect_goes_out_in_another(before: str, after: str) -> None:
    talk = talk_in(before, steps=2, turns=2)
    session = Session.from_messages(TALKS[before].messages(talk))
    messages = session.to_messages(after)
    again = Session.from_messages(messages, format=after)
    assert _spoken(again) == _spoken(session)
    assert _spoken(session)


@pytest.mark.parametrize("dialect", ["openai-chat", "gemini"])
def test_messages_come_back_letter_for_letter(dialect: str) -> None:
    messages = TALKS[dialect].messages(talk_in(dialect, steps=3, turns=2))
    session = Session.from_messages(messages)
    assert json.loads(json.dumps(session.to_messages(dialect))) == messages


def test_an_answer_is_the_last_word_and_a_very_long_result_is_whole() -> None:
    result = "\n".join(f"line {number} of a very long result" for number in range(20_000))
    talk = TALKS["openai-chat"]
    messages = [talk.user("read it"), *talk.step("c1", "read", {"path": "a"}, result)]
    messages.append(talk.say("Done."))
    assert Session.from_messages(messages).to_messages("openai-chat") == messages


def test_a_dialect_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a dialect"):
        Session("s").to_messages("klingon")
    assert Session("s").to_messages("gemini") == []
