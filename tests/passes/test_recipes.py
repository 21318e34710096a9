"""The recipes of CONTRIBUTING for a pass and for a verb, followed to the letter on a copy.

Each step of a recipe is one place. With all of them the new thing works; with any one left out
something says so, and nothing is slow or ignored in silence.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Edit = Callable[[str], str]


class Place:
    """A place that a recipe names: the file, what is written there, what is said without it."""

    def __init__(self, name: str, path: str, edit: Edit, missed: str) -> None:
        self.name = name
        self.path = path
        self.edit = edit
        self.missed = missed


def insert_before(mark: str, text: str) -> Edit:
    """Put a text before a mark that occurs once."""

    def edit(source: str) -> str:
        assert source.count(mark) == 1, (mark, source.count(mark))
        return source.replace(mark, text + mark)

    return edit


def append(text: str) -> Edit:
    """Put a text at the end of a file, which may be new."""
    return lambda source: source + text


PASS = '''

def shout_items(prompt: Prompt, env: Env, options: Shout) -> Prompt:
    """Put what others said into capitals.

    Before:  model(scout) "it rains"
    After:   model(scout) "IT RAINS"
    """

    def change(item: Item, _: None) -> Item | Note:
        if item.author in ("user", env.agent):
            return item
        loud = map_texts(item, str.upper)
        return item if loud is item else Note("shout_items", "others are loud", item, loud)

    return rewrite_items(prompt, "shout_items", change, key=env.agent)
'''

FIXTURE = """# shout_items

## What others said is loud

```env
agent = "bot"
policy = "C.default().shout()"
```

```before
user: Hi
model(scout): it rains
```

```after
user: Hi
model: IT RAINS
```
"""

VERB = [
    Place(
        "its data",
        "src/weft/declare/policy_parts.py",
        insert_before(
            "class Truncate(PolicyWord",
            "class Shout(PolicyWord, frozen=True):\n"
            '    """What others said in capitals."""\n\n'
            '    word: ClassVar[str] = "shout"\n\n\n',
        ),
        "Shout",
    ),
    Place(
        "its union",
        "src/weft/declare/policy_parts.py",
        lambda source: source.replace("Reduction: TypeAlias = ", "Reduction: TypeAlias = Shout | "),
        "the table is VERBS in passes/verbs.py",
    ),
    Place(
        "its method",
        "src/weft/declare/policy.py",
        lambda source: insert_before(
            "    @hinted\n    def truncate(",
            "    @hinted\n    def shout(self) -> Changed:\n"
            '        """What others said in capitals."""\n'
            "        return self._then(Shout())\n\n",
        )(source.replace("    Truncate,\n", "    Shout,\n    Truncate,\n", 1)),
        "shout",
    ),
    Place(
        "its entry",
        "src/weft/passes/verbs.py",
        lambda source: insert_before(
            "    Truncate: Verb(",
            '    Shout: Verb(Nature("rewrites", "item", spares=True), "reduce",'
            ' at_birth="shout_items"),\n',
        )(source.replace("    Truncate,\n", "    Shout,\n    Truncate,\n", 1)),
        "the table is VERBS in passes/verbs.py",
    ),
    Place(
        "its pass",
        "src/weft/passes/reduce.py",
        lambda source: (
            source.replace("    Truncate,\n", "    Shout,\n    Truncate,\n", 1)
            .replace(
                "import Compact, Project, Truncate", "import Compact, Project, Shout, Truncate"
            )
            .replace(
                "import map_blocks, rewrite_items", "import map_blocks, map_texts, rewrite_items"
            )
            + PASS
        ),
        "shout_items",
    ),
    Place(
        "its fixture",
        "tests/passes/shout_items.md",
        append(FIXTURE),
        "a pass has its fixture in tests/passes/<name>.md",
    ),
    Place(
        "its example",
        "tests/passes/test_growth.py",
        lambda source: source.replace(
            "    Truncate: C.", "    Shout: C.window(2).shout(),\n    Truncate: C.", 1
        ).replace("    Truncate,\n", "    Shout,\n    Truncate,\n", 1),
        "give it a policy in EXAMPLES",
    ),
]

CHECK_VERB = """
from tests.passes import test_fixtures as fixtures, test_growth as growth
from weft import Agent, C, Session
from weft.declare.policy_parts import Shout

fixtures.test_every_word_of_a_policy_has_its_entry_in_the_table_of_verbs()
fixtures.test_every_entry_names_passes_that_are_there()
fixtures.test_every_pass_has_a_fixture()
growth.test_every_verb_has_an_example()
for name, title, fences in fixtures.cases():
    if name == "shout_items":
        fixtures.test_a_pass_does_what_its_fixture_shows(name, title, fences)
agent = Agent("bot", model="gpt-4o", tools=[growth.look]).sees(growth.GROWING["Shout"])
small, large = (growth.snapshots(length, turns=False) for length in (200, 1_600))
small, large = growth.work_of_a_step(agent, small), growth.work_of_a_step(agent, large)
assert large < 1.5 * small, f"a step takes {large} calls, and {small} in a log of an eighth"
"""

EVERY_REQUEST = [
    Place(
        "its function",
        "src/weft/passes/history.py",
        append(
            "\n\ndef shout_system(prompt: Prompt, env: Env) -> Prompt:\n"
            '    """Put the system text into capitals.\n\n'
            '    Before:  system "be brief"\n    After:   system "BE BRIEF"\n    """\n'
            "    loud = tuple(\n"
            "        msgspec.structs.replace(one, text=one.text.upper(), spans=())\n"
            "        for one in prompt.system\n    )\n"
            "    if loud == prompt.system:\n        return prompt\n"
            "    return msgspec.structs.replace(prompt, system=loud)\n"
        ),
        "shout_system",
    ),
    Place(
        "its place",
        "src/weft/passes/verbs.py",
        lambda source: source.replace(
            "order_system, close_turn)", "order_system, close_turn, shout_system)"
        ).replace("    pair_results,\n)", "    pair_results,\n    shout_system,\n)"),
        "has no place in passes/verbs.py",
    ),
    Place(
        "where plain talk skips it",
        "src/weft/compiler/compile.py",
        insert_before(
            "        and env.tokens.budget is None\n",
            "        and all(block.text.isupper() for block in prompt.system)\n",
        ),
        "no pass has made it loud",
    ),
    Place(
        "its fixture",
        "tests/passes/shout_system.md",
        append(
            "# shout_system\n\n## The system text is loud\n\n"
            "```before\nsystem: be brief\nuser: Hi\n```\n\n"
            "```after\nsystem: BE BRIEF\nuser: Hi\n```\n"
        ),
        "a pass has its fixture in tests/passes/<name>.md",
    ),
]

CHECK_EVERY_REQUEST = """
from tests.passes import test_fixtures as fixtures
from weft import Agent, compile

fixtures.test_every_pass_has_a_fixture()
for name, title, fences in fixtures.cases():
    if name == "shout_system":
        fixtures.test_a_pass_does_what_its_fixture_shows(name, title, fences)
wire = compile(Agent("bot", model="gpt-4o", instruction="Be brief."), message="Hi").wire
assert "BE BRIEF" in str(wire), "no pass has made it loud"
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and of the tests that the recipes name."""
    copy = tmp_path_factory.mktemp("recipe")
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "weft", copy / "src" / "weft", ignore=skipped)
    for folder in ("passes", "support"):
        shutil.copytree(ROOT / "tests" / folder, copy / "tests" / folder, ignore=skipped)
    shutil.copy(ROOT / "tests" / "__init__.py", copy / "tests" / "__init__.py")
    return copy


def play(copy: Path, places: list[Place], check: str) -> subprocess.CompletedProcess[str]:
    """Follow the steps on the copy, try what came of it, and put everything back."""
    before: dict[Path, str | None] = {}
    try:
        for place in places:
            path = copy / place.path
            source = path.read_text("utf-8") if path.exists() else ""
            before.setdefault(path, source if path.exists() else None)
            after = place.edit(source)
            assert after != source, f"{place.name}: nothing was written to {place.path}"
            path.write_text(after, "utf-8")
        return subprocess.run(
            [sys.executable, "-B", "-c", check],
            cwd=copy,
            env={"PYTHONPATH": f"{copy / 'src'}:{copy}", "PATH": ""},
            capture_output=True,
            text=True,
            timeout=300,
        )
    finally:
        for path, source in before.items():
            if source is None:
                path.unlink()
            else:
                path.write_text(source, "utf-8")


def sections(*titles: str) -> str:
    """Recipes of CONTRIBUTING by their titles."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    return "\n".join(text.split(f"\n### {title}\n")[1].split("\n##")[0] for title in titles)


def files_named(text: str) -> Iterator[str]:
    """The names of files that a recipe says, without their folders."""
    for name in re.findall(r"`([\w/<>.]+\.(?:py|md))`", text):
        yield name.rpartition("/")[2]


@pytest.mark.parametrize(
    ("titles", "places"),
    [(("Add a pass", "Add a verb of a policy"), VERB), (("Add a pass",), EVERY_REQUEST)],
    ids=["verb", "pass"],
)
def test_a_recipe_names_every_file_that_is_touched(
    titles: tuple[str, ...], places: list[Place]
) -> None:
    named = {*files_named(sections(*titles))}
    for place in places:
        file = place.path.rpartition("/")[2]
        assert {file, "<name>.md" if file.endswith(".md") else file} & named, place.path


@pytest.mark.parametrize("left_out", ["", *(place.name for place in VERB)])
def test_a_verb_is_added_as_its_recipe_says(copied: Path, left_out: str) -> None:
    _check_recipe(copied, VERB, left_out, CHECK_VERB)


@pytest.mark.parametrize("left_out", ["", *(place.name for place in EVERY_REQUEST)])
def test_a_pass_of_every_request_is_added_as_its_recipe_says(copied: Path, left_out: str) -> None:
    _check_recipe(copied, EVERY_REQUEST, left_out, CHECK_EVERY_REQUEST)


def _check_recipe(copy: Path, places: list[Place], left_out: str, check: str) -> None:
    done = play(copy, [place for place in places if place.name != left_out], check)
    if not left_out:
        assert done.returncode == 0, done.stderr
        return
    missed = next(place.missed for place in places if place.name == left_out)
    assert done.returncode, f"nobody missed {left_out}"
    assert missed in done.stderr, done.stderr


def test_an_entry_without_a_nature_is_refused_at_import(copied: Path) -> None:
    places = [place for place in VERB if place.name != "its entry"]
    bare = Place(
        "its entry",
        "src/weft/passes/verbs.py",
        lambda source: insert_before(
            "    Truncate: Verb(", '    Shout: Verb(chapter="reduce", at_birth="shout_items"),\n'
        )(source.replace("    Truncate,\n", "    Shout,\n    Truncate,\n", 1)),
        "",
    )
    done = play(copied, [*places, bare], "import weft.passes")
    assert "Missing required argument 'nature'" in done.stderr, done.stderr


def test_a_pass_that_looks_at_everything_at_every_step_is_noticed(copied: Path) -> None:
    slow = PASS.replace(
        '    return rewrite_items(prompt, "shout_items", change, key=env.agent)\n',
        "    items = [change(item, None) for item in prompt.items.since(0)]\n"
        "    after = [one.after or one.before if isinstance(one, Note) else one for one in items]\n"
        "    notes = [one for one in items if isinstance(one, Note)]\n"
        "    return prompt.with_items(after, notes) if notes else prompt\n",
    )
    places = [
        Place(one.name, one.path, lambda source, one=one: one.edit(source).replace(PASS, slow), "")
        for one in VERB
    ]
    done = play(copied, places, CHECK_VERB)
    assert "in a log of an eighth" in done.stderr, done.stderr
