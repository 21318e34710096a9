"""What a notebook shows of Weft's values: tables, and never a tag that a text brought along."""

import pytest

import weft
from weft import Agent, C
from weft.testing import ScriptedModel, make_session

EVIL = "<img src=x onerror=alert(1)>"


def _values() -> dict[str, object]:
    agent = Agent("bot", model=ScriptedModel([f"answer {EVIL}"]), instruction="Use {missing}.")
    session = make_session(("user", EVIL), ("bot", "fine", {"key": EVIL}))
    compiled = weft.compile(Agent("bot", model="gpt-5").sees(C.window(1)), session=session)
    return {
        "result": weft.run_sync(agent.sees(C.default()), EVIL, state={"missing": "x"}),
        "session": session,
        "compiled": compiled,
        "report": compiled.explain(),
        "findings": weft.check(Agent("bot", model="gpt-5", instruction="Use {missing}.")),
    }


@pytest.mark.parametrize("name", ["result", "session", "compiled", "report", "findings"])
def test_a_value_shows_itself_as_html(name: str) -> None:
    shown = _values()[name]._repr_html_()  # type: ignore[attr-defined]
    assert shown.startswith("<div")
    assert "<style>" in shown
    assert EVIL not in shown
    assert "<script" not in shown
    if name in ("result", "session"):
        assert "&lt;img src=x" in shown


def test_findings_are_a_list() -> None:
    findings = weft.check(Agent("bot", model="gpt-5"))
    assert isinstance(findings, list)
    assert findings == []
    assert "no findings" in findings._repr_html_()


def test_a_long_text_is_cut_and_says_so() -> None:
    session = make_session(("user", "x" * 5000))
    assert "3,000 more characters" in session._repr_html_()
