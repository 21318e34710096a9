"""Every pass does what its fixtures show, once and the same the second time."""

import re
from pathlib import Path

import pytest

from tests.passes.language import parse_env, parse_prompt, show_prompt
from weft.ir import verify
from weft.passes import ON_FRESH, ON_REQUEST

HERE = Path(__file__).parent
PASSES = {one.__name__: one for one in (*ON_FRESH, *ON_REQUEST)}
IDEMPOTENT = set(PASSES) - {"pair_results", "attribute_foreign", "select_branch"}


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
    before = parse_prompt(fences["before"])
    env = parse_env(fences.get("env", ""))
    after = PASSES[name](before, env)
    verify(after, step=name)
    assert show_prompt(after) == fences["after"].strip(), title
    said = "\n".join([note.reason for note in after.notes] + [d.code for d in after.diagnostics])
    if "said" in fences:
        assert said == fences["said"].strip()
    if show_prompt(after) == show_prompt(before):
        assert after is before, "a pass that changes nothing returns the very prompt it was given"
    if name in IDEMPOTENT:
        assert show_prompt(PASSES[name](after, env)) == show_prompt(after)


def test_every_pass_has_a_fixture() -> None:
    assert {name for name, _, _ in cases()} == set(PASSES)
