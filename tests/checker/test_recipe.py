"""CONTRIBUTING's recipes "Add a rule" and "Add a diagnostic code", followed to the letter."""

from pathlib import Path

from tests.support.recipes import Insertion, Place, Recipe

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

PLACES = (
    Place(
        "src/weft/checker/rules/flows.py",
        (
            Insertion(RULE, before="def likely_precedence("),
            Insertion("    Tap,\n", after="from weft.declare import (\n"),
        ),
    ),
    Place(
        "src/weft/checker/rules/__init__.py",
        (
            Insertion("    lone_tap,\n", after="    impossible_case,\n    likely_precedence,\n"),
            Insertion("    lone_tap,\n", after="    torn_read,\n    likely_precedence,\n"),
        ),
    ),
    Place("src/weft/codes/checking.py", (Insertion(PAGE, after="CHECKING = (\n"),)),
)

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

HAS_A_FIXTURE = ("tests/checker/test_rules.py", "-k", "every_code_of_the_checker_has_a_fixture")

RECIPE = Recipe(("Add a rule", "Add a diagnostic code"), PLACES, (FIRES,))


def test_the_recipes_name_every_place() -> None:
    assert not RECIPE.find_unnamed()


def test_a_rule_made_by_the_recipes_works_and_a_forgotten_place_is_noticed(tmp_path: Path) -> None:
    played = RECIPE.play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert "Use instead:  tap(look) >> agent" in played.whole.output
    assert not played.unnoticed


def test_a_code_without_programs_that_it_must_and_must_not_flag_is_noticed(tmp_path: Path) -> None:
    outcome = RECIPE._replace(checks=(HAS_A_FIXTURE,)).play_whole(tmp_path)
    assert not outcome.passed
    assert "WEFT410" in outcome.output, outcome.output
