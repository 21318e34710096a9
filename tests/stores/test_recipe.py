"""The recipe "Add a store" of CONTRIBUTING, played place by place."""

import re
from pathlib import Path

import pytest

from tests.support.played_tree import ROOT, PlayedTree, read_recipe
from weft.stores import STORES

STORE = '''"""Sessions in memory, under an address of their own."""

from weft.session import MemoryStore


class ToyStore(MemoryStore):
    """A store."""


def open_toy(address: str) -> ToyStore:
    """The store at an address."""
    return ToyStore()
'''

ROW = (
    "src/weft/stores/__init__.py",
    "STORES = (\n",
    "from weft.stores.toy import open_toy\n\n"
    'STORES = (\n    StoreKind(("toy",), "toy://shelf", open_toy),\n',
)
WORD = (
    "tests/conftest.py",
    '    if request.param == "memory":\n',
    '    if request.param == "toy":\n        return "toy://shelf"\n'
    '    if request.param == "memory":\n',
)
PARAMETER = ("tests/conftest.py", 'params=("memory", ', 'params=("toy", "memory", ')
PLACES = {"the row": (ROW,), "the word": (WORD, PARAMETER)}


@pytest.mark.parametrize("missing", ["", *PLACES])
def test_a_store_made_by_the_recipe_runs_every_test_and_one_without_a_place_does_not(
    tmp_path: Path, missing: str
) -> None:
    tree = PlayedTree(tmp_path, "stores")
    tree.write("src/weft/stores/toy.py", STORE)
    for name, edits in PLACES.items():
        for file, before, after in edits:
            if name != missing:
                tree.edit(file, before, after)
    played = tree.test("tests/stores/test_conformance.py", "toy and (S1 or S2)", "-x")
    assert (played.returncode == 0) == (not missing), played.stdout + played.stderr
    if not missing:
        assert int(re.findall(r"(\d+) passed", played.stdout)[0]) > 5
        hint = tree.run("-c", "import weft.stores as s; s.open_store('toi://shelf')")
        assert "toy://shelf" in hint.stderr


def test_every_store_is_at_all_places_of_the_recipe() -> None:
    recipe = read_recipe("Add a store")
    for place in ("`STORES`", "src/weft/stores/__init__.py", "`address`", "docs/stores.md"):
        assert place in recipe
    parameters = re.search(r"params=\((.*?)\)", (ROOT / "tests/conftest.py").read_text())
    assert parameters is not None
    page = (ROOT / "docs/stores.md").read_text()
    for kind in STORES:
        assert any(f'"{scheme}"' in parameters[1] for scheme in kind.schemes), kind
        assert f"{kind.schemes[0]}://" in page, kind
