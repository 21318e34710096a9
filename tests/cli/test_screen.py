"""What a run shows, event by event: no word is cut, nothing is shown twice, nothing is lost."""

import io

from tests.support.build import calls, returns, says
from weft import Agent, Content, Event, Parallel, Part
from weft.cli.screen import Screen
from weft.content import call_part


def agent(name: str) -> Agent:
    return Agent(name, model="local")


def delta(author: str, text: str, branch: str | None = None, *, thought: bool = False) -> Event:
    content = Content(role="model", parts=(Part(text=text, thought=thought or None),))
    return Event(author=author, content=content, partial=True, branch=branch)


def whole(author: str, text: str, branch: str | None = None) -> Event:
    content = Content(role="model", parts=(Part(text=text),))
    return Event(author=author, content=content, branch=branch)


def failed(author: str, branch: str | None = None) -> Event:
    return Event(author=author, branch=branch, error_code="model_error", error_message="503")


def screen(*names: str) -> tuple[Screen, io.StringIO]:
    """Both streams on one page, as a person sees them."""
    page = io.StringIO()
    root = agent(names[0]) if len(names) == 1 else Parallel(*map(agent, names))
    return Screen(root, page, page), page


def test_deltas_are_shown_as_they_come_and_the_whole_adds_the_rest() -> None:
    shown, page = screen("bot")
    shown.show(delta("bot", "It is "))
    assert page.getvalue() == "It is "
    shown.show(delta("bot", "let me see", thought=True))
    shown.show(whole("bot", "It is raining."))
    assert page.getvalue() == "It is raining.\n"


def test_an_answer_that_was_not_streamed_is_shown_whole() -> None:
    shown, page = screen("bot")
    shown.show(whole("bot", "Two\nlines\n"))
    shown.end()
    assert page.getvalue() == "Two\nlines\n"


def test_what_was_streamed_and_then_replaced_stays_apart_from_the_answer() -> None:
    shown, page = screen("bot")
    shown.show(delta("bot", "The code is 1234"))
    shown.show(whole("bot", "The code is hidden."))
    assert page.getvalue() == "The code is 1234\nThe code is hidden.\n"


def test_text_before_a_call_ends_its_line() -> None:
    shown, page = screen("bot")
    shown.show(delta("bot", "Looking"))
    parts = (Part(text="Looking"), call_part("look", {"at": 1}, id="c"))
    content = Content(role="model", parts=parts)
    shown.show(Event(author="bot", content=content))
    shown.show(returns("bot", "look", {"result": [1, 2]}, "c"))
    shown.show(says("bot", "Found."))
    assert page.getvalue() == "Looking\n→ look(at=1)\n← [1,2]\nFound.\n"


def test_branches_wait_for_the_one_that_streams() -> None:
    shown, page = screen("left", "right")
    for event in (
        delta("left", "left ", "parallel.left"),
        delta("right", "right ", "parallel.right"),
        calls("right", "look", {}, "c", branch="parallel.right"),
        delta("left", "speaks", "parallel.left"),
        whole("right", "right speaks", "parallel.right"),
    ):
        shown.show(event)
    assert page.getvalue() == "· left\nleft speaks"
    shown.show(whole("left", "left speaks", "parallel.left"))
    assert page.getvalue() == "· left\nleft speaks\n· right\n→ look()\nright speaks\n"


def test_a_branch_that_was_cut_off_holds_up_nobody() -> None:
    shown, page = screen("left", "right", "backup")
    shown.show(delta("left", "half a sen", "parallel.left"))
    shown.show(failed("right", "parallel.right"))
    shown.show(delta("backup", "From "))
    assert page.getvalue().splitlines() == [
        "· left",
        "half a sen",
        "! right: model_error: 503",
        "· backup",
        "From ",
    ]


def test_the_error_that_ends_the_run_is_left_to_the_command() -> None:
    shown, page = screen("bot")
    shown.show(delta("bot", "half a sen"))
    shown.show(failed("bot"))
    shown.end()
    assert page.getvalue() == "half a sen\n"


def test_long_notes_are_cut_and_cannot_steer_the_terminal() -> None:
    shown, page = screen("bot")
    shown.show(calls("bot", "look", {"at": "\x1b[31m" + "x" * 500}, "c"))
    (line,) = page.getvalue().splitlines()
    assert len(line) <= 100
    assert line.endswith("…")
    assert "\x1b" not in line
