"""The reference is made from the sources, and it is complete."""

from collections.abc import Iterator

import weft
from tests.top.make_reference import MODULES, PAGE, page_text
from weft.cli.commands import COMMANDS, CommandGroup
from weft.codes import CODES
from weft.declare.config import OPTIONS


def public_words(letter: object) -> set[str]:
    return {name for name in dir(letter) if not name.startswith("_")}


def list_commands() -> Iterator[str]:
    for entry in COMMANDS:
        yield f"weft {entry.name}"
        if isinstance(entry, CommandGroup):
            yield from (f"weft {entry.name} {command.name}" for command in entry.commands)


def test_the_reference_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text("utf-8") == page_text(), "run `make reference`"


def test_the_reference_has_every_name_option_command_and_code() -> None:
    page = PAGE.read_text("utf-8")
    titles = {line.lstrip("# ") for line in page.splitlines() if line.startswith("##")}
    names = {title.strip("`").partition("(")[0] for title in titles}
    values = {name for name in weft.__all__ if name not in ("C", "S", "instructions", "plugins")}
    assert values <= names
    assert set(MODULES) <= names
    assert {f"C.{word}" for word in public_words(weft.C)} <= names
    assert {f"S.{word}" for word in public_words(weft.S)} <= names
    assert set(list_commands()) <= names
    assert {f"{code.code}: {code.title}" for code in CODES.values()} <= titles
    assert not [name for name in OPTIONS if f"| `{name}` |" not in page]


def test_nothing_in_the_reference_is_silent() -> None:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line]
    after = zip(lines, [*lines[1:], "#"], strict=True)
    silent = [
        line
        for line, below in after
        if line.startswith(("### `", "#### ")) and below.startswith("##")
    ]
    assert not silent, "write a docstring"
