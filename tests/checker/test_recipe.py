"""CONTRIBUTING's recipes "Add a rule" and "Add a diagnostic code", followed to the letter."""

from pathlib import Path

import pytest

from tests.support.copied_package import copy_package, find_unnamed, read_recipe, run_in_copy

RULE = '''def lone_tap(record: WalkRecord) -> Iterator[Diagnostic]:
    """A flow that is nothing but a tap."""
    if isinstance(record.survey.root, Tap):
        name = record.survey.root.name
        yield report("WEFT410", Origin("field", "function", name), f"`{name}` is all", "add a node")


'''

PAGE = '''    Code(
        "WEFT410",
        _W,
        "flow without work",
        """A flow is nothing but a tap.

Why it matters: it does nothing.

Flagged:      tap(look)
Use instead:  tap(look) >> agent
""",
    ),
'''

FIRST_PAGE = "CHECKING = (\n"

EDITS = {
    "checker/rules/flows.py": [
        ("def likely_precedence(", RULE + "def likely_precedence("),
        ("from weft.declare import (\n", "from weft.declare import (\n    Tap,\n"),
    ],
    "checker/rules/__init__.py": [
        (
            "    impossible_case,\n    likely_precedence,\n",
            "    impossible_case,\n    likely_precedence,\n    lone_tap,\n",
        ),
        (
            "    torn_read,\n    likely_precedence,\n",
            "    torn_read,\n    likely_precedence,\n    lone_tap,\n",
        ),
    ],
    "codes/checking.py": [(FIRST_PAGE, FIRST_PAGE + PAGE)],
}

FIRES = """
import weft
from weft import Agent, tap
from weft.cli import main

flagged = [one for one in weft.check(tap(print)) if one.code == "WEFT410"]
assert [(one.severity, str(one.origin), one.hint) for one in flagged] == [
    ("warning", "print.function", "add a node")
], flagged
assert not [one for one in weft.check(tap(print) >> Agent("a")) if one.code == "WEFT410"]
assert not [one for one in weft.check(tap(print), allow=["WEFT410"]) if one.code == "WEFT410"]
assert main(["rule", "WEFT410"]) == 0
"""

HAS_A_FIXTURE = """
from tests.checker.test_rules import test_every_code_of_the_checker_has_a_fixture_and_a_page as look

look()
"""


def test_the_recipes_name_every_place_and_a_rule_made_by_them_works(tmp_path: Path) -> None:
    recipes = read_recipe("Add a rule") + read_recipe("Add a diagnostic code")
    assert not find_unnamed(recipes, EDITS)
    copy_package(tmp_path, EDITS)
    done = run_in_copy(tmp_path, FIRES)
    assert done.returncode == 0, done.stderr
    assert "Use instead:  tap(look) >> agent" in done.stdout


@pytest.mark.parametrize("place", EDITS)
def test_a_place_that_was_forgotten_is_noticed(tmp_path: Path, place: str) -> None:
    copy_package(tmp_path, {path: edits for path, edits in EDITS.items() if path != place})
    assert run_in_copy(tmp_path, FIRES).returncode != 0


def test_a_code_without_programs_that_it_must_and_must_not_flag_is_noticed(tmp_path: Path) -> None:
    copy_package(tmp_path, EDITS)
    done = run_in_copy(tmp_path, HAS_A_FIXTURE)
    assert "WEFT410" in done.stderr, done.stderr
