"""A model that cannot choose among tools is told which to call, or to answer without one."""

from collections.abc import Callable

import pytest

import weft
from tests.passes.tool_requests import ANSWERED, CHAT, NEAR, TOOLS, is_held_back
from weft import Agent
from weft.declare import Tool, tool
from weft.meaning import is_installed

needs_vectors = pytest.mark.skipif(not is_installed(), reason="needs weft[local]")


def agent_for(kind: str) -> Agent:
    def declared(name: str, about: str) -> Tool:
        def act() -> str:
            return "done"

        act.__name__ = name
        return tool(description=about)(act)

    return Agent("bot", model="local", tools=[declared(*one) for one in TOOLS[kind].items()])


AGENTS = {kind: agent_for(kind) for kind in TOOLS}


def chosen(kind: str, request: str) -> str:
    """The tool that is to be called; empty where the model is to answer by itself."""
    compiled = weft.compile(AGENTS[kind], message=request)
    choice = compiled.wire["tool_choice"]
    if choice == "none":
        return ""
    assert isinstance(choice, dict)
    function = choice["function"]
    assert isinstance(function, dict)
    return str(function["name"])


def forced(requests: dict[str, list[str]]) -> float:
    asked = [(kind, one) for kind in requests for one in requests[kind] if is_held_back(one)]
    return sum(bool(chosen(*one)) for one in asked) / len(asked)


@needs_vectors
def test_what_no_tool_answers_is_answered_without_one() -> None:
    assert forced(CHAT) <= 0.10
    assert forced(NEAR) <= 0.25


@needs_vectors
def test_what_another_program_s_tools_answer_is_no_reason_to_call_one() -> None:
    others = {
        kind: [one for other in TOOLS if other != kind for one, _ in ANSWERED[other]]
        for kind in TOOLS
    }
    assert forced(others) <= 0.25


@needs_vectors
def test_what_a_tool_answers_still_calls_it() -> None:
    asked = [(kind, *one) for kind in TOOLS for one in ANSWERED[kind] if is_held_back(one[0])]
    right = sum(chosen(kind, request) == name for kind, request, name in asked)
    assert right / len(asked) >= 0.65


def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    never: Callable[[], bool] = lambda: False  # noqa: E731
    monkeypatch.setattr("weft.passes.tools.is_installed", never)


def test_without_vectors_a_general_question_calls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    words_only(monkeypatch)
    assert chosen("bank", "Who invented paper money?") == ""
    assert chosen("bank", "List my recent transactions") == "list_transactions"
