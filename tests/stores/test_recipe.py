"""The recipe "Add a store" of CONTRIBUTING, played place by place."""

import re
from pathlib import Path

from tests.support.recipes import ROOT, Insertion, Place, Recipe, read_recipe
from weft.stores import STORES

STORE = '''"""Sessions in memory, under an address of their own."""

from weft.session import MemoryStore


class ToyStore(MemoryStore):
    """A store."""


def open_toy(address: str) -> ToyStore:
    """The store at an address."""
    return ToyStore()
'''

HINT = """
import weft.stores

try:
    weft.stores.open_store("toi://shelf")
except Exception as error:
    assert "toy://shelf" in str(error), error
else:
    raise AssertionError("it was opened")
"""

RECIPE = Recipe(
    ("Add a store",),
    (
        Place("src/weft/stores/toy.py", STORE),
        Place(
            "src/weft/stores/__init__.py",
            (
                Insertion("from weft.stores.toy import open_toy\n\n", before="STORES = (\n"),
                Insertion(
                    '    StoreKind(("toy",), "toy://shelf", open_toy),\n', after="STORES = (\n"
                ),
            ),
            "STORES",
        ),
        Place(
            "tests/conftest.py",
            (
                Insertion('"toy", ', after="params=(", before='"memory", '),
                Insertion(
                    '    if request.param == "toy":\n        return "toy://shelf"\n',
                    before='    if request.param == "memory":\n',
                ),
            ),
            "address",
        ),
    ),
    (("tests/stores/test_conformance.py", "-k", "toy and (S1 or S2)", "-x"), HINT),
)


def test_a_store_made_by_the_recipe_runs_every_test_and_one_without_a_place_does_not(
    tmp_path: Path,
) -> None:
    assert not RECIPE.find_unnamed()
    played = RECIPE.play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert int(re.findall(r"(\d+) passed", played.whole.output)[0]) > 5
    assert not played.unnoticed


def test_every_store_is_at_all_places_of_the_recipe() -> None:
    assert "docs/stores.md" in read_recipe("Add a store")
    parameters = re.search(r"params=\((.*?)\)", (ROOT / "tests/conftest.py").read_text())
    assert parameters is not None
    page = (ROOT / "docs/stores.md").read_text()
    for kind in STORES:
        assert any(f'"{scheme}"' in parameters[1] for scheme in kind.schemes), kind
        assert f"{kind.schemes[0]}://" in page, kind
