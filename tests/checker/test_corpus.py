"""K: correct programs are not complained about, and run; each planted fault is found."""

import json
import re
from collections import Counter

import pytest

import weft
from tests.checker.programs import Edit, Program, edited, made, programs, run
from tests.support.laws import all_laws
from weft.diagnostics import Diagnostic, Severity

PROGRAMS = programs()
MUTANTS = [(program, edit) for program in PROGRAMS for edit in program.edits]


def serious(found: list[Diagnostic]) -> list[str]:
    """The findings of warning and above, as text."""
    return [str(one) for one in found if one.severity is not Severity.INFO]


def test_the_corpus_is_as_large_as_it_must_be() -> None:
    assert len(PROGRAMS) >= 100
    assert len(MUTANTS) >= 200
    assert not [name for name, n in Counter(one.name for one in PROGRAMS).items() if n > 1]
    assert not [pair for pair, n in Counter(MUTANTS).items() if n > 1]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_correct_program_is_clean_and_runs_and_each_fault_planted_in_it_is_found(
    program: Program,
) -> None:
    with all_laws() as laws:
        laws.check(program.name, [a_correct_program_has_no_finding_and_runs], program)
        for edit in program.edits:
            fault = f"{program.name}: `{edit.old}` -> `{edit.new}`"
            laws.check(fault, FAULT_LAWS, program, edit)


def a_correct_program_has_no_finding_and_runs(program: Program) -> None:
    made_of = made(program.source)
    assert not serious(weft.check(made_of.flow, inputs=made_of.inputs))
    result, model, errors = run(made_of)
    assert not [f"{event.author}: {event.error_code} {event.error_message}" for event in errors]
    assert result.error is None
    assert not result.waiting
    missing = [d for prompt in model.prompts for d in prompt.diagnostics if d.code == "WEFT101"]
    assert not missing


def a_planted_fault_is_found_with_its_code_and_place(program: Program, edit: Edit) -> None:
    mutant = made(edited(program, edit))
    found = weft.check(mutant.flow, inputs=mutant.inputs)
    said = [(one.code, str(one.origin)) for one in found]
    assert any(code == edit.code and at.startswith(edit.origin) for code, at in said), said
    assert all(one.hint for one in found)


def what_is_said_to_be_seen_twice_is_in_the_wire_twice(program: Program, edit: Edit) -> None:
    if edit.code != "WEFT206":  # only that code says that something is seen twice
        return
    source = edited(program, edit)
    twice, once = made(source), made(source.replace(".keep_duplicates()", ""))
    found = [d for d in weft.check(twice.flow, inputs=twice.inputs) if d.code == "WEFT206"]
    assert "WEFT206" not in [d.code for d in weft.check(once.flow, inputs=once.inputs)]
    agent = edit.origin.partition(".")[0]
    for finding in found:
        said = re.match(r"what `(\w+)` said", finding.message)
        key = re.match(r"`(\w+)` reaches", finding.message)
        counts: list[int] = []
        for one in (twice, once):
            result, model, _ = run(one)
            words = str(result.state[key[1]]) if key else ""
            if said:
                words = one.answers.get(said[1], [f"the words of {said[1]}"])[0]
            asked = zip(model.prompts, model.wires, strict=True)
            wire = next(wire for prompt, wire in asked if prompt.agent == agent)
            counts.append(json.dumps(wire, ensure_ascii=False).count(words))
        assert counts == [2, 1]


FAULT_LAWS = [
    a_planted_fault_is_found_with_its_code_and_place,
    what_is_said_to_be_seen_twice_is_in_the_wire_twice,
]
