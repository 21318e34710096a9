"""The recipe "Add a queue" of CONTRIBUTING, played place by place."""

from pathlib import Path
from typing import get_type_hints

from tests.support.recipes import ROOT, Insertion, Place, Recipe, read_recipe
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

OPENER = """def _open_toy(address, worker):
    from weft.turns.toy_queue import open_toy

    return open_toy(address, worker)


"""

OPENED = """
from weft.turns import open_turns

queue = open_turns("postgresql://localhost/none", "toy")
assert type(queue).__name__ == "ToyTurns", queue
"""

RECIPE = Recipe(
    ("Add a queue",),
    (
        Place("src/weft/turns/toy_queue.py", QUEUE),
        Place(
            "src/weft/turns/opening.py",
            (
                Insertion(OPENER, before="SERVER_QUEUES: "),
                Insertion('    "toy": _open_toy,\n', after='    "inbox": _open_inbox,\n'),
            ),
            "SERVER_QUEUES",
        ),
    ),
    (OPENED, ("tests/turns/test_conformance.py", "-k", "toy or inbox", "--collect-only")),
)


def test_a_queue_made_by_the_recipe_is_tested_on_every_bad_day(tmp_path: Path) -> None:
    assert not RECIPE.find_unnamed()
    played = RECIPE.play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert played.whole.output.count("[toy") == played.whole.output.count("[inbox") > 5
    assert not played.unnoticed


def test_every_queue_is_at_all_places_of_the_recipe() -> None:
    recipe = read_recipe("Add a queue")
    for place in ("`--engine`", "`_QUEUES`", "docs/workers.md"):
        assert place in recipe
    [option] = get_type_hints(CommandOptions, include_extras=True)["engine"].__metadata__
    page = (ROOT / "docs/workers.md").read_text()
    for engine in ENGINES:
        assert engine in option.help
        assert f"| `{engine}` |" in page
        # a user is erased from its tables
        assert any(place.endswith(f" {engine}") for place in PLACES)
