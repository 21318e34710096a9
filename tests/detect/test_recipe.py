"""Whoever follows CONTRIBUTING adds a kind of value that is found; a forgotten place is noticed."""

from pathlib import Path

import pytest

from tests.support.played import Copy, Insertion, Recipe, Step

FINDER = '''_PARCEL = re.compile(r"\\bPCL-\\d{6}\\b")


def look_for_parcels(text: str) -> Iterator[Span]:
    """Numbers of parcels."""
    for match in _PARCEL.finditer(text):
        yield Span(*match.span())


'''

ROW = """    Kind("parcel", _late("contact", "look_for_parcels"), "numbers of parcels"),
"""

EXAMPLE = """FOUND["parcel"] = [("It is PCL-123456.", "PCL-123456")]
LEFT["parcel"] = ["PCL-12"]


"""

KIND = Recipe(
    "Add a kind of value to detect",
    (
        Step("src/weft/detect/contact.py", (Insertion(FINDER, before="def look_for_emails"),)),
        Step("src/weft/detect/kinds.py", (Insertion(ROW, before='    Kind("zip"'),), "ALL_KINDS"),
        Step("tests/detect/test_kinds.py", (Insertion(EXAMPLE, before="def cases("),)),
        Step(
            "docs/redact.md",
            (Insertion("| `parcel` | numbers of parcels |\n", before="| `birth_date`"),),
        ),
    ),
    ("tests/detect/test_kinds.py", "-k", "every_kind or parcel"),
)

TRIED = """
import weft


def test_the_new_kind_is_redacted_from_a_request() -> None:
    agent = weft.Agent("desk", model="gpt-5").sees(weft.C.default().redact("parcel"))
    text = str(weft.compile(agent, message="Where is PCL-123456, and PCL-12?").prompt)
    assert "PCL-123456" not in text
    assert "PCL-12?" in text
"""


def test_the_recipe_names_every_place() -> None:
    assert not KIND.unnamed()


def test_a_kind_that_is_added_as_contributing_says_is_redacted(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy")
    done = KIND.play(copy)
    assert done.returncode == 0, done.stdout
    copy.write("tests/detect/test_tried.py", TRIED)
    done = copy.test("tests/detect/test_tried.py")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("number", range(len(KIND.steps)))
def test_a_forgotten_place_is_noticed(tmp_path: Path, number: int) -> None:
    assert KIND.play(Copy(tmp_path / "copy"), without=number).returncode == 1
