"""Where a stranger looks first, and finds it: the answers of one guess each."""

import importlib

import pytest

ANSWERS = {
    "where is all of Anthropic?": "weft.dialects.anthropic:Anthropic",
    "where is the table of verbs?": "weft.passes.verbs",
    "where is .truncate()?": "weft.passes.reduce:truncate_items",
    "and what does it do to the past?": "weft.passes.reduce:truncate_past",
    "what happens in a turn?": "weft.runtime.turn:Turn",
    "what does compile do, first?": "weft.compiler.compile:_gather_inputs",
    "what does compile do, second?": "weft.compiler.compile:_write_instructions",
    "what does compile do, third?": "weft.compiler.compile:_look_at_log",
    "what does compile do, last?": "weft.compiler.compile:_make_request",
    "what runs for a Map?": "weft.runtime.flows:NodeRun",
    "what does Weft keep on an event?": "weft.session.provenance:Provenance",
    "what does Weft keep on a part?": "weft.content:PartProvenance",
}


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_has_its_answer_in_one_guess(question: str) -> None:
    home, _, name = ANSWERS[question].partition(":")
    module = importlib.import_module(home)
    assert module.__doc__, "a chapter says what it is"
    if name:
        answer = vars(module)[name]
        assert answer.__module__ == home, "it is written there, not passed on"
        assert answer.__doc__, "it says what it is"
