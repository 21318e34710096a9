"""Every pass does what its fixtures show, once and the same the second time."""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import weft.passes
from tests.passes.language import parse_env, parse_prompt, pass_named, show_prompt
from weft.declare.policy_parts import (
    Capture,
    Folding,
    NoteDown,
    Protection,
    Reduction,
    Selector,
    When,
    Writing,
)
from weft.ir import verify
from weft.passes import ON_FRESH, ON_REQUEST
from weft.passes.verbs import VERBS

HERE = Path(__file__).parent
PARTS_OF_FIT_BUDGET = {"keep_limit", "drop_oldest"}


def passes() -> set[str]:
    """Every public function `(prompt, env, ...) -> Prompt` in the room."""
    room = Path(str(weft.passes.__file__)).parent
    return {
        node.name
        for path in room.glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and [argument.arg for argument in node.args.args[:2]] == ["prompt", "env"]
        and node.returns is not None
        and ast.unparse(node.returns) == "Prompt"
    }


PASSES = passes() - PARTS_OF_FIT_BUDGET
IDEMPOTENT = PASSES - {"pair_results", "attribute_foreign", "select_branch"}


LATER = PASSES - {one.__name__ for one in (*ON_FRESH, *ON_REQUEST)}
"""Passes of policies, which see calls with their results."""


def cases() -> list[tuple[str, str, dict[str, str]]]:
    found: list[tuple[str, str, dict[str, str]]] = []
    for path in sorted(HERE.glob("*.md")):
        for section in path.read_text().split("\n## ")[1:]:
            title = section.splitlines()[0].strip()
            fences = dict(re.findall(r"```(\w+)\n(.*?)\n?```", section, re.DOTALL))
            found.append((path.stem, title, fences))
    return found


@pytest.mark.parametrize(
    ("name", "title", "fences"), cases(), ids=[f"{n}: {t}" for n, t, _ in cases()]
)
def test_a_pass_does_what_its_fixture_shows(name: str, title: str, fences: dict[str, str]) -> None:
    env = parse_env(fences.get("env", ""))
    before = parse_prompt(fences["before"], paired=name in LATER | {"fit_budget", "fold_to_fit"})
    one = pass_named(name, env.policy)
    after = one(before, env)
    verify(after, step=name)
    assert show_prompt(after) == fences["after"].strip(), title
    said = "\n".join([note.reason for note in after.notes] + [d.code for d in after.diagnostics])
    if "said" in fences:
        assert said == fences["said"].strip()
    quiet = after.diagnostics == before.diagnostics and after.wants == before.wants
    if quiet and show_prompt(after) == show_prompt(before) and name != "set_priority":
        assert after is before, "a pass that changes nothing returns the very prompt it was given"
    if name in IDEMPOTENT:
        assert show_prompt(one(after, env)) == show_prompt(after)


def test_every_pass_has_a_fixture() -> None:
    fixtures = {name for name, _, _ in cases()}
    assert fixtures == PASSES, "a pass has its fixture in tests/passes/<name>.md"


NO_PASS = {When, Capture, NoteDown}
"""Words that no pass is for: a condition is decided before, the runtime writes the others."""


def test_every_word_of_a_policy_has_its_entry_in_the_table_of_verbs() -> None:
    words = {
        word for union in (Selector, Reduction, Protection, Writing) for word in get_args(union)
    }
    assert {*VERBS} == (words | {Folding}) - NO_PASS, "the table is VERBS in passes/verbs.py"


def test_every_entry_names_passes_that_are_there() -> None:
    for word, verb in VERBS.items():
        for name in filter(None, (verb.at_birth, verb.past, verb.request)):
            assert name in PASSES, f"{word.__name__}: {name}"
            assert hasattr(import_module(f"weft.passes.{verb.chapter}"), name), word.__name__
