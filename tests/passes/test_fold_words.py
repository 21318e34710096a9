"""Folds of agents that say their actions in words: what answers an action is a result.

What a user says is never taken for one, however it looks.
"""

import re
from itertools import pairwise

import pytest

from tests.support.build import says, user
from weft import Agent, C, Event, Session
from weft.compiler import Compilation, compile_request
from weft.compiler.tools import values_of
from weft.content import FunctionCall
from weft.digest.acts import find_action, frame_of
from weft.ir import TextBlock
from weft.ir.block import FOLDED
from weft.runtime.recall import found_among

WORDS = "the gauge rose over the weir and fell again in the wind " * 20
TASK = "Mend the gauge at the weir, and tell me which part was broken. " * 12

ACTIONS = {
    "a block of code": "I look.\n\n```bash\nprobe part_{n}.txt\n```",
    "a block and a mark": "Thought: I look.\nCode:\n```py\nshow('part_{n}.txt')\n```<end_code>",
    "a tag": "I look.\n<execute_bash>\nprobe part_{n}.txt\n</execute_bash>",
    "a word": "Thought: I look.\nAction: show\nAction Input: part_{n}.txt",
    "a call in words": "Calling:\n[{{'name': 'show', 'arguments': {{'path': 'part_{n}.txt'}}}}]",
}
FRAMES = {
    "tags": "<returncode>0</returncode>\n<output>\n{words} bolt_{n}\n</output>",
    "a word": "Observation: {words} bolt_{n}",
    "an id": "Call id: call_{n}\nObservation:\n{words} bolt_{n}",
    "logs": "Execution logs:\n{words} bolt_{n}",
    "a prompt": "{words} bolt_{n}\n(Open file: n/a)\nbash-$",
}
WORDS_OF_A_USER = (
    "Why is that so?",
    "The output is <output>wet</output>, I think.",
    "I made an observation: it rains.",
    "It costs 20$",
    "Results: two of them. What now?",
)


def session_of(action: str, frame: str, steps: int, *, first: str = TASK) -> list[Event]:
    events = [user(first, inv="i0")]
    for n in range(steps):
        events.append(says("bot", action.format(n=n), inv=f"i{n}"))
        events.append(user(frame.format(n=n, words=WORDS), inv=f"i{n + 1}"))
    return events


def bot(policy: str = "fold") -> Agent:
    sees = C.default().fold() if policy == "fold" else C.auto()
    return Agent("bot", model="gpt-5", instruction="Be brief. " * 40).sees(sees)


def last_of(events: list[Event]) -> Compilation:
    return compile_request(bot(), session=Session("s", events=events))


def notes_in(compiled: Compilation) -> str:
    blocks = compiled.prompt.blocks
    return "\n".join(b.text for b in blocks if isinstance(b, TextBlock) and b.origin == FOLDED)


def shown_in(compiled: Compilation) -> list[str]:
    blocks = compiled.prompt.blocks
    return [b.text for b in blocks if isinstance(b, TextBlock) and b.origin != FOLDED]


@pytest.mark.parametrize(("action", "frame"), [*zip(ACTIONS, FRAMES, strict=True)])
def test_an_action_and_its_result_become_a_note_together(action: str, frame: str) -> None:
    events = session_of(ACTIONS[action], FRAMES[frame], 80)
    compiled = last_of(events)
    note = notes_in(compiled)
    folded = [int(one) for one in re.findall(r"^#(\d+) ", note, re.MULTILINE)]
    assert len(folded) > 80
    # an odd place is an action, and the next one its result
    assert {one for one in folded if one % 2} == {one - 1 for one in folded if one % 2 == 0}
    assert re.search(r"^#1 [^\n]*part_0\.txt", note, re.MULTILINE)
    assert re.search(r"^#2 result -> [^\n]*bolt_0", note, re.MULTILINE)
    assert TASK in shown_in(compiled)
    assert FRAMES[frame].format(n=79, words=WORDS) in shown_in(compiled)
    asked = FunctionCall(name="recall", args={"handle": "#2", "query": "bolt_0"})
    assert "bolt_0" in str(found_among(values_of(Session("s", events=events).events), asked))


def test_a_short_action_does_not_keep_its_large_result() -> None:
    action, frame = ACTIONS["a call in words"], FRAMES["a word"].format(n="{n}", words=WORDS * 4)
    events = session_of(action, frame, 30)
    compiled = compile_request(bot("auto"), session=Session("s", events=events))
    assert "#1 " in notes_in(compiled)
    assert len(shown_in(compiled)) < 30


def test_requests_that_grow_are_those_of_a_cold_log_and_their_notes_append() -> None:
    events = session_of(ACTIONS["a block of code"], FRAMES["tags"], 90)
    grown, agent, notes = Session("s", events=events[:1]), bot(), [""]
    for at in range(1, len(events)):
        grown = grown.append(events[at])
        if at % 2 == 0:
            compiled = compile_request(agent, session=grown)
            if notes_in(compiled) != notes[-1]:
                notes.append(notes_in(compiled))
                cold = compile_request(bot(), session=Session("s", events=events[: at + 1]))
                assert cold.wire == compiled.wire
    assert len(notes) > 2
    assert all(after.startswith(before) for before, after in pairwise(notes))


@pytest.mark.parametrize("words", WORDS_OF_A_USER)
def test_what_a_user_asks_stays_however_many_results_follow(words: str) -> None:
    action, frame = ACTIONS["a block of code"], FRAMES["tags"]
    first = session_of(action, frame, 10)
    after = session_of(action, frame, 70, first=words)
    asked = [*first, says("bot", action.format(n=10), inv="i10"), *after]
    compiled = last_of(asked)
    assert notes_in(compiled)
    assert words in shown_in(compiled)
    asked.append(says("bot", "So.", inv="i71"))
    later = last_of([*asked, *session_of(action, frame, 30, first="And now?")])
    assert words in "\n".join((*shown_in(later), notes_in(later)))
    assert "And now?" in shown_in(later)


@pytest.mark.parametrize(
    ("action", "frame"),
    [
        ("I would look at part_{n}.", FRAMES["tags"]),  # nothing is to be run
        (ACTIONS["a block of code"], "{words} bolt_{n}. Why?"),  # in no frame
    ],
)
def test_words_that_answer_no_action_or_have_no_frame_are_the_users(
    action: str, frame: str
) -> None:
    compiled = last_of(session_of(action, frame, 80))
    note = notes_in(compiled)
    assert "result ->" not in note
    for step in re.findall(r"^#\d*[02468] .*$", note, re.MULTILINE):
        assert re.match(r"#\d+ user: (<returncode>|the gauge rose over the weir)", step)


def test_a_frame_that_came_twice_may_be_what_a_user_pasted() -> None:
    action, frame = ACTIONS["a block of code"], FRAMES["tags"]
    chat = [user(TASK, inv="i0")]
    for n in range(80):
        said = frame if n in (2, 5) else FRAMES["a word"]
        chat.append(says("bot", action.format(n=n), inv=f"i{n}"))
        chat.append(user(said.format(n=n, words=WORDS), inv=f"i{n + 1}"))
    compiled = last_of(chat)
    assert notes_in(compiled)
    for n in (2, 5):
        assert frame.format(n=n, words=WORDS) in shown_in(compiled)


@pytest.mark.parametrize(
    "words",
    [
        "Here is how:\n```py\nprint(1)\n```\nDoes that help?",
        "Use `ls`.",
        "Inline ```ls``` is code, too.",
        "I am done.",
        "",
    ],
)
def test_words_without_an_action_at_their_end_only_speak(words: str) -> None:
    assert find_action(words) == ""


@pytest.mark.parametrize("words", [*WORDS_OF_A_USER, "", "bash-$ is what I see.\nWhy?"])
def test_what_a_user_says_has_no_frame(words: str) -> None:
    assert frame_of(words) == ""
