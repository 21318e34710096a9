"""Whoever follows CONTRIBUTING adds a kind of value that is found; a forgotten place is noticed."""

from pathlib import Path

from tests.support.recipes import Insertion, Place, Recipe

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

TRIED = """
import weft

agent = weft.Agent("desk", model="gpt-5").sees(weft.C.default().redact("parcel"))
text = str(weft.compile(agent, message="Where is PCL-123456, and PCL-12?").prompt)
assert "PCL-123456" not in text
assert "PCL-12?" in text
"""

KIND = Recipe(
    ("Add a kind of value to detect",),
    (
        Place("src/weft/detect/contact.py", (Insertion(FINDER, before="def look_for_emails"),)),
        Place("src/weft/detect/kinds.py", (Insertion(ROW, before='    Kind("zip"'),), "ALL_KINDS"),
        Place("tests/detect/test_kinds.py", (Insertion(EXAMPLE, before="def cases("),)),
        Place(
            "docs/redact.md",
            (Insertion("| `parcel` | numbers of parcels |\n", before="| `birth_date`"),),
        ),
    ),
    (("tests/detect/test_kinds.py", "-k", "every_kind or parcel"), TRIED),
)


def test_the_recipe_names_every_place() -> None:
    assert not KIND.find_unnamed()


def test_a_kind_made_by_the_recipe_is_redacted_and_a_forgotten_place_is_noticed(
    tmp_path: Path,
) -> None:
    played = KIND.play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert not played.unnoticed
