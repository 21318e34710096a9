"""K: every code has its page, its hint, and a fixture of clean and flagged programs."""

import pytest

import weft
from tests.checker.programs import Edit, Made, Program, edited, made, programs
from tests.checker.test_corpus import serious
from tests.support.laws import all_laws
from weft.codes import CODES
from weft.codes.checking import CHECKING

PROGRAMS = programs("rules")
BOTH = {"WEFT103", "WEFT301"}
"""What the compiler says of one request, and the checker before there is any."""
FLAGGED = [(program, edit) for program in PROGRAMS for edit in program.edits]


def test_every_code_of_the_checker_has_a_fixture_and_a_page() -> None:
    codes = {code.code for code in CHECKING} | BOTH
    flagged = {edit.code for _, edit in FLAGGED}
    assert codes == flagged, sorted(codes ^ flagged)
    for code in codes:
        assert "Why it matters:" in CODES[code].page
        assert "Use instead:" in CODES[code].page


def the_clean_program_is_clean(program: Program) -> None:
    clean = made(program.source)
    found = weft.check(clean.flow, inputs=clean.inputs)
    assert not serious(found)
    assert program.name.partition(":")[0] not in {one.code for one in found}


def the_flagged_program_is_flagged_where_it_is_wrong(flagged: Made, edit: Edit) -> None:
    found = [d for d in weft.check(flagged.flow, inputs=flagged.inputs) if d.code == edit.code]
    assert any(str(one.origin).startswith(edit.origin) for one in found), found
    assert all(one.hint for one in found)


def a_code_that_is_allowed_is_not_reported(flagged: Made, edit: Edit) -> None:
    found = weft.check(flagged.flow, inputs=flagged.inputs, allow=[edit.code])
    assert edit.code not in {one.code for one in found}


FLAGGED_LAWS = [
    the_flagged_program_is_flagged_where_it_is_wrong,
    a_code_that_is_allowed_is_not_reported,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_a_rule_leaves_the_clean_program_alone_and_flags_the_others(program: Program) -> None:
    with all_laws() as laws:
        laws.check(program.name, [the_clean_program_is_clean], program)
        for edit in program.edits:
            fault = f"{program.name}: `{edit.old}` -> `{edit.new}`"
            laws.check(fault, FLAGGED_LAWS, made(edited(program, edit)), edit)
