"""The recipes for what faces the outside, played: a dialect, a command, an endpoint, a page.

Followed to the letter they lead to something that works; with any one place left out, a test fails.
"""

from pathlib import Path

import pytest

from tests.support.recipes import ROOT, Insertion, Place, Recipe

ECHO = (ROOT / "tests/dialects/toy.py").read_text("utf-8").replace('NAME = "toy"', 'NAME = "echo"')

ECHO_ROW = """    "echo": ListedDialect("weft.dialects.echo", "talk", ("rules",)),
"""

ECHO_CASE = """        case "echo":
            return EchoRequest
"""

ECHO_TYPE = """class EchoTurn(typing_extensions.TypedDict):
    who: typing.Literal["me", "bot"]
    says: list[object]


class EchoRequest(typing_extensions.TypedDict):
    model: str
    rules: typing_extensions.NotRequired[str]
    tools: typing_extensions.NotRequired[list[object]]
    heat: typing_extensions.NotRequired[float]
    talk: list[EchoTurn]


"""

ECHO_PAIRS = """def echo_pairs(turns: list[Wire]) -> Iterator[tuple[list[str], list[str]]]:
    for turn, following in zip(turns, [*turns[1:], {"says": []}], strict=True):
        yield (
            [part["ticket"] for part in turn["says"] if "use" in part],
            [part["ticket"] for part in following["says"] if "got" in part],
        )


"""

ECHO_CONFORMANCE = """    "echo": Conformance(("/with", "/takes", "/says"), echo_pairs),
"""

GREET = '''"""`weft greet`: say hello."""

from weft.cli.options import CommandOptions


def greet_command(options: CommandOptions) -> int:
    """Say hello."""
    print(f"hello, {options.greeted}")
    return 0
'''

GREET_ROW = """    Command("greet", "greet:greet_command", ("greeted",), "Say hello."),
"""

GREETED = """    greeted: Annotated[str, Option(help="Who is greeted.")] = "you"
"""

GREET_SHOWN = """
## Say hello

```console
$ weft greet --greeted Ada
hello, Ada
```
"""

GREETING = '''async def get_greeting(call: Call) -> Answer:
    """Say hello to whoever asks."""
    return respond({"hello": call.user()})


'''

GREETING_ROW = """    Endpoint("GET", "/api/greeting", get_greeting, "Hello.", tag="apps"),
"""

DIALECT = Recipe(
    ("Add a dialect",),
    (
        Place("src/weft/dialects/echo.py", ECHO),
        Place(
            "src/weft/dialects/facts.py",
            (
                Insertion(ECHO_ROW, before='        "gemini": Listed'),
                Insertion('    "echo": "echo",\n', before='    "google": _GEMINI'),
            ),
            "DIALECTS",
        ),
        Place(
            "tests/dialects/prompts.py",
            (
                Insertion('"echo", ', before='"gemini", "anthropic", "openai-chat"'),
                Insertion('    "echo": "echo/one",\n', before='    "gemini": "gemini-3'),
                Insertion('    "echo": "echo/one",\n', before='    "gemini": "gemini-2'),
            ),
            "WITHOUT_SCHEMA",
        ),
        Place(
            "tests/dialects/shapes.py",
            (
                Insertion(ECHO_TYPE, before="@functools.cache\n"),
                Insertion(ECHO_CASE, before="        case _:\n            raise ValueError"),
            ),
        ),
        Place(
            "tests/dialects/test_conformance.py",
            (
                Insertion(ECHO_PAIRS, before="CONFORMANCE: "),
                Insertion(ECHO_CONFORMANCE, before='    "gemini": Conformance'),
            ),
            "CONFORMANCE",
        ),
    ),
    (
        (
            "tests/dialects/test_toy.py",
            "tests/dialects/test_conformance.py",
            "-k",
            "test_the_fields or every_file_of_a_dialect or held_to_the_suite or torn_pair"
            " or (echo and (loop or begins_with))",
        ),
    ),
)

COMMAND = Recipe(
    ("Add a command",),
    (
        Place("src/weft/cli/greet.py", GREET),
        Place(
            "src/weft/cli/commands.py",
            (Insertion(GREET_ROW, before='    Command(\n        "run",'),),
        ),
        Place(
            "src/weft/cli/options.py",
            (Insertion(GREETED, before="    name: Annotated[str | None, Argument"),),
            "CommandOptions",
        ),
        Place("docs/cli.md", (Insertion(GREET_SHOWN, before="\n## "),)),
    ),
    (
        (
            "tests/cli/test_commands.py",
            "-k",
            "shows_every_command or every_command_and_none",
        ),
    ),
)

ENDPOINT = Recipe(
    ("Add an endpoint",),
    (
        Place("src/weft/server/sessions.py", (Insertion(GREETING, before="_ONE = "),)),
        Place(
            "src/weft/server/sessions.py",
            (Insertion(GREETING_ROW, before='    Endpoint("GET", "/api/runs"'),),
            "ENDPOINTS",
        ),
        Place(
            "docs/serving.md",
            (
                Insertion(
                    "| `/api/greeting` | GET | hello |\n", before="| `/api/apps`, `/api/runs`"
                ),
            ),
        ),
    ),
    (
        (
            "tests/server/test_api.py",
            "-k",
            "shows_every_endpoint or has_its_row",
        ),
    ),
)

PAGE = Recipe(
    ("Add a page",),
    (
        Place("docs/greeting.md", "# Say hello\n\n```python\nprint('hello')\n#> hello\n```\n"),
        Place(
            "docs/index.md",
            (Insertion("| say hello | [greeting](greeting.md) |\n", before="| choose a model"),),
        ),
    ),
    (
        (
            "tests/test_docs.py",
            "-p",
            "pytest_examples",
            "-k",
            "greeting or index_leads or (every_link and index)",
        ),
    ),
)

RECIPES = {one.titles[0]: one for one in (DIALECT, COMMAND, ENDPOINT, PAGE)}


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_names_every_place(title: str) -> None:
    assert not RECIPES[title].find_unnamed(), "CONTRIBUTING must name them under this heading"


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_works_and_a_place_that_is_left_out_is_noticed(title: str, tmp_path: Path) -> None:
    played = RECIPES[title].play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert not played.unnoticed
