"""The recipe "Add a queue" of CONTRIBUTING, played place by place."""

from pathlib import Path
from typing import get_type_hints

import pytest

from tests.support.played_tree import ROOT, PlayedTree, read_recipe
from tests.turns.test_forgetting import PLACES
from weft.cli.options import CommandOptions
from weft.turns import ENGINES

QUEUE = '''"""A queue under a name of its own."""

from weft.turns.databases import ServerDatabase
from weft.turns.inbox import InboxTurns


class ToyTurns(InboxTurns):
    """A queue."""


def open_toy(address, worker):
    """The queue in a database."""
    return ToyTurns(ServerDatabase(address, worker))
'''

OPENER = (
    "src/weft/turns/opening.py",
    "SERVER_QUEUES: ",
    "def _open_toy(address, worker):\n    from weft.turns.toy_queue import open_toy\n\n"
    "    return open_toy(address, worker)\n\n\nSERVER_QUEUES: ",
)
ROW = (
    "src/weft/turns/opening.py",
    '    "inbox": _open_inbox,\n',
    '    "inbox": _open_inbox,\n    "toy": _open_toy,\n',
)


@pytest.mark.parametrize("missing", [False, True])
def test_a_queue_made_by_the_recipe_is_tested_on_every_bad_day(
    tmp_path: Path, missing: bool
) -> None:
    tree = PlayedTree(tmp_path, "turns")
    tree.write("src/weft/turns/toy_queue.py", QUEUE)
    if not missing:
        tree.edit(*OPENER)
        tree.edit(*ROW)
    opened = tree.run(
        "-c",
        "from weft.turns import open_turns;"
        "print(type(open_turns('postgresql://localhost/none', 'toy')).__name__)",
    )
    assert (opened.stdout.strip() == "ToyTurns") == (not missing), opened.stderr
    listed = tree.test("tests/turns/test_conformance.py", "toy", "--collect-only")
    assert (listed.returncode == 0) == (not missing), listed.stdout
    if not missing:
        inbox = tree.test("tests/turns/test_conformance.py", "inbox", "--collect-only")
        assert listed.stdout.count("[toy") == inbox.stdout.count("[inbox") > 5


def test_every_queue_is_at_all_places_of_the_recipe() -> None:
    recipe = read_recipe("Add a queue")
    for place in ("`SERVER_QUEUES`", "`--engine`", "`_QUEUES`", "docs/workers.md"):
        assert place in recipe
    [option] = get_type_hints(CommandOptions, include_extras=True)["engine"].__metadata__
    page = (ROOT / "docs/workers.md").read_text()
    for engine in ENGINES:
        assert engine in option.help
        assert f"| `{engine}` |" in page
        # a user is erased from its tables
        assert any(place.endswith(f" {engine}") for place in PLACES)
