"""The recipes of CONTRIBUTING for a pass and for a verb, followed to the letter on a copy.

Each step of a recipe is one place. With all of them the new thing works; with any one left out
something says so, and nothing is slow or ignored in silence.
"""

from pathlib import Path

import pytest

from tests.support.recipes import Insertion, Place, Recipe

IMPORTED = Insertion("    Shout,\n", before="    Truncate,\n")

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

DATA = """class Shout(PolicyWord, frozen=True):
    \"\"\"What others said in capitals.\"\"\"

    word: ClassVar[str] = "shout"


"""

METHOD = """    @hinted
    def shout(self) -> Changed:
        \"\"\"What others said in capitals.\"\"\"
        return self._then(Shout())

"""

ENTRY = """    Shout: Verb(
        Nature("rewrites", "item", spares=True), "reduce", at_birth="shout_items"
    ),
"""

WITHOUT_ENTRY = "the table is VERBS in passes/verbs.py"

WITHOUT_FIXTURE = "a pass has its fixture in tests/passes/<name>.md"


def verb_places(*, entry: str = ENTRY, function: str = PASS) -> tuple[Place, ...]:
    return (
        Place(
            "src/weft/declare/policy_parts.py",
            (Insertion(DATA, before="class Truncate(PolicyWord"),),
            "PolicyWord",
            "Shout",
        ),
        Place(
            "src/weft/declare/policy_parts.py",
            (Insertion("Shout | ", after="Reduction: TypeAlias = "),),
            "Reduction",
            WITHOUT_ENTRY,
        ),
        Place(
            "src/weft/declare/policy.py",
            (IMPORTED, Insertion(METHOD, before="    @hinted\n    def truncate(")),
            missed="shout",
        ),
        Place(
            "src/weft/passes/verbs.py",
            (IMPORTED, Insertion(entry, before="    Truncate: Verb(")),
            "VERBS",
            WITHOUT_ENTRY,
        ),
        Place(
            "src/weft/passes/reduce.py",
            (
                Insertion("Shout, ", after="import Compact, Project, ", before="Truncate"),
                Insertion("map_texts, ", after="import map_blocks, ", before="rewrite_items"),
                Insertion(function),
            ),
            missed="shout_items",
        ),
        Place("tests/passes/shout_items.md", FIXTURE, missed=WITHOUT_FIXTURE),
        Place(
            "tests/passes/test_growth.py",
            (
                IMPORTED,
                Insertion("    Shout: C.window(2).shout(),\n", before="    Truncate: C."),
            ),
            "EXAMPLES",
            "give it a policy in EXAMPLES",
        ),
    )


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

SYSTEM_PASS = """

def shout_system(prompt: Prompt, env: Env) -> Prompt:
    \"\"\"Put the system text into capitals.

    Before:  system "be brief"
    After:   system "BE BRIEF"
    \"\"\"
    loud = tuple(
        msgspec.structs.replace(one, text=one.text.upper(), spans=())
        for one in prompt.system
    )
    if loud == prompt.system:
        return prompt
    return msgspec.structs.replace(prompt, system=loud)
"""

SYSTEM_FIXTURE = """# shout_system

## The system text is loud

```before
system: be brief
user: Hi
```

```after
system: BE BRIEF
user: Hi
```
"""

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


VERB_TITLES = ("Add a pass", "Add a verb of a policy")

VERB = Recipe(VERB_TITLES, verb_places(), (CHECK_VERB,))

EVERY_REQUEST = Recipe(
    ("Add a pass",),
    (
        Place("src/weft/passes/history.py", (Insertion(SYSTEM_PASS),), missed="shout_system"),
        Place(
            "src/weft/passes/verbs.py",
            (
                Insertion("    shout_system,\n", before="    pair_results,\n"),
                Insertion(", shout_system", after="order_system, close_turn", before=")"),
            ),
            "_EDGES",
            "has no place in passes/verbs.py",
        ),
        Place(
            "src/weft/compiler/compile.py",
            (
                Insertion(
                    "        and all(block.text.isupper() for block in prompt.system)\n",
                    before="        and env.tokens.budget is None\n",
                ),
            ),
            "is_ready",
            "no pass has made it loud",
        ),
        Place("tests/passes/shout_system.md", SYSTEM_FIXTURE, missed=WITHOUT_FIXTURE),
    ),
    (CHECK_EVERY_REQUEST,),
)


@pytest.mark.parametrize("recipe", [VERB, EVERY_REQUEST], ids=["verb", "pass"])
def test_a_recipe_names_every_file_that_is_touched(recipe: Recipe) -> None:
    assert not recipe.find_unnamed()


@pytest.mark.parametrize("recipe", [VERB, EVERY_REQUEST], ids=["verb", "pass"])
def test_a_recipe_works_and_a_place_that_is_left_out_is_missed(
    recipe: Recipe, tmp_path: Path
) -> None:
    played = recipe.play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert not played.unnoticed


def test_an_entry_without_a_nature_is_refused_at_import(tmp_path: Path) -> None:
    bare = '    Shout: Verb(chapter="reduce", at_birth="shout_items"),\n'
    recipe = Recipe(VERB_TITLES, verb_places(entry=bare), ("import weft.passes",))
    outcome = recipe.play_whole(tmp_path)
    assert not outcome.passed
    assert "Missing required argument 'nature'" in outcome.output


def test_a_pass_that_looks_at_everything_at_every_step_is_noticed(tmp_path: Path) -> None:
    slow = PASS.replace(
        '    return rewrite_items(prompt, "shout_items", change, key=env.agent)\n',
        "    items = [change(item, None) for item in prompt.items.since(0)]\n"
        "    after = [one.after or one.before if isinstance(one, Note) else one for one in items]\n"
        "    notes = [one for one in items if isinstance(one, Note)]\n"
        "    return prompt.with_items(after, notes) if notes else prompt\n",
    )
    assert slow != PASS
    recipe = Recipe(VERB_TITLES, verb_places(function=slow), (CHECK_VERB,))
    outcome = recipe.play_whole(tmp_path)
    assert not outcome.passed
    assert "in a log of an eighth" in outcome.output
