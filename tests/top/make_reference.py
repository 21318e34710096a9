"""Make `docs/reference.md` from the docstrings of the package.

    make reference

Everything on the page is read from the sources: names, signatures, docstrings, the tables of
commands, options and codes. A test makes the text again and compares it with the file.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

from typer.models import ArgumentInfo

import weft
from weft.cli.commands import COMMANDS, Command, CommandGroup, function_of
from weft.codes import CODES
from weft.declare.config import OPTIONS
from weft.declare.policy import Verbs

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"

MODULES = (
    "weft.errors",
    "weft.testing",
    "weft.models",
    "weft.tools",
    "weft.plugins",
    "weft.instructions",
    "weft.session",
    "weft.stores",
    "weft.detect",
    "weft.passes",
    "weft.graph",
    "weft.recordings",
    "weft.replay",
    "weft.evals",
    "weft.server",
    "weft.turns",
    "weft.load",
    "weft.inspector",
    "weft.interop.adk",
)
"""Modules that the pages import from, apart from `weft` itself."""

ELSEWHERE = {
    "WeftPlugin": "A plugin of google-adk, made where that is installed: see [google-adk](adk.md)."
}
"""Names that need a package which the environment of the tests does not have."""

HEAD = """# Reference

Every public name, the words of `C` and `S`, the options, the commands and the diagnostic codes.
`make reference` makes this page from the docstrings; do not edit it. The [index](index.md) leads to
pages that explain how to use them.

- [Names of `weft`](#names-of-weft)
- [`C`: policies](#c-policies)
- [`S`: changes of the state](#s-changes-of-the-state)
- [Options of generation](#options-of-generation)
- [Other modules](#other-modules)
- [Commands](#commands)
- [Diagnostic codes](#diagnostic-codes)
"""

FAMILIES = {
    "1": "variables and state",
    "2": "visibility",
    "3": "tools and schemas",
    "4": "flows and transfers",
    "5": "budget",
    "6": "protect",
    "7": "lowering",
    "9": "internal",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def page_text() -> str:
    """The whole page."""
    parts = [
        HEAD,
        "## Names of `weft`\n",
        *(
            describe_name(weft, name)
            for name in weft.__all__
            if name not in ("C", "S") and not inspect.ismodule(getattr(weft, name))
        ),
        "## `C`: policies\n",
        "Words that begin a policy, such as `C.window(5)`, come first. Verbs that change a policy, "
        "such as `C.window(5).compact()` or `C.default() | C.compact()`, come after them.\n",
        *describe_words(type(weft.C), "C"),
        *describe_words(Verbs, "C"),
        "## `S`: changes of the state\n",
        *describe_words(type(weft.S), "S"),
        "## Options of generation\n",
        "Keys of `generate_config`, of an agent or a run.\n",
        table(("option", "takes"), ((f"`{name}`", text) for name, (_, text) in OPTIONS.items())),
        "## Other modules\n",
        *map(describe_module, MODULES),
        "## Commands\n",
        *describe_commands(),
        "## Diagnostic codes\n",
        "`weft rule CODE` prints the page of one.\n",
        *describe_codes(),
    ]
    lines = (line.rstrip() for line in "\n".join(parts).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def describe_name(module: object, name: str, *, level: str = "###") -> str:
    """One public name: its signature, its docstring, its fields and methods."""
    value = getattr(module, name)
    where = getattr(value, "__module__", "") or ""
    if inspect.isclass(value) and where.startswith("weft"):
        return describe_class(value, name, level)
    if inspect.isfunction(value) and where.startswith("weft"):
        node = find_node(value)
        text = f"{level} `{signature(node, name)}`\n\n{inspect.getdoc(value) or ''}\n"
        return text
    about = value.description if isinstance(value, weft.Tool) else find_comment(module, name)
    return f"{level} `{name}`\n\n{about}\n"


def describe_class(cls: type, name: str, level: str) -> str:
    """A class: how it is made, its docstring, its fields, its methods and those it inherits."""
    made = next((each for each in functions(cls) if each.name == "__init__"), None)
    lines = [f"{level} `{signature(made, name, returns=False) if made else name}`\n"]
    lines.append(f"{inspect.getdoc(cls) or ''}\n")
    if issubclass(cls, Enum):
        lines += [f"- `{each.name}` is `{each.value!r}`" for each in cls]
        return "\n".join((*lines, ""))
    seen = set[str]()
    for owner in cls.__mro__:
        if not owner.__module__.startswith("weft"):
            continue
        if owner is Verbs and cls is not Verbs:
            lines.append("- and every verb of [`C`](#c-policies)")
            continue
        for member, text in (*describe_fields(owner), *describe_methods(owner)):
            if member not in seen:
                seen.add(member)
                lines.append(text)
    return "\n".join((*lines, ""))


def describe_fields(cls: type) -> Iterator[tuple[str, str]]:
    """The fields of a class, each with its type, its default and the text under it."""
    body = class_node(cls).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name = node.target.id
        if name.startswith("_"):
            continue
        default = default_of(node.value)
        text = f"- `{name}: {annotation(node.annotation)}{default}`"
        yield name, text + said_under(after)


def describe_methods(cls: type) -> Iterator[tuple[str, str]]:
    """The public methods and properties of a class, each with the first paragraph on it."""
    for node in functions(cls):
        doc = ast.get_docstring(node)
        decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
        if node.name.startswith("_") or "overload" in decorators or not doc:
            continue
        if decorators & {"property", "cached_property"}:
            result = f": {annotation(node.returns)}" if node.returns else ""
            head = f"`.{node.name}{result}`"
        else:
            head = f"`.{signature(node, node.name)}`"
        yield node.name, f"- {head}: {first_paragraph(doc)}"


def describe_words(cls: type, letter: str) -> Iterator[str]:
    """The words of `C` or `S`, each with all that is said of it."""
    for node in functions(cls):
        if not node.name.startswith("_"):
            doc = ast.get_docstring(node) or ""
            yield f"### `{letter}.{signature(node, node.name)}`\n\n{doc}\n"


def describe_module(name: str) -> str:
    """A module: what it is for, and its public names."""
    module = import_module(name)
    about = inspect.getdoc(module) or ""
    parts = [f"### `{name}`\n\n{about}\n"]
    for each in public_names(module):
        if each in ELSEWHERE:
            parts.append(f"#### `{each}`\n\n{ELSEWHERE[each]}\n")
        elif each in weft.__all__ and getattr(weft, each) is getattr(module, each):
            parts.append(f"#### `{each}`\n\nSee [names of `weft`](#names-of-weft).\n")
        else:
            parts.append(describe_name(module, each, level="####"))
    return "\n".join(parts)


def public_names(module: object) -> list[str]:
    """What a module exports; without a list of it, the classes and functions written in it."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        node.name
        for node in tree_of(inspect.getfile(module)).body
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_")
    ]


def describe_commands() -> Iterator[str]:
    """The commands, each with its arguments and options."""
    for entry in COMMANDS:
        if isinstance(entry, CommandGroup):
            yield f"### `weft {entry.name}`\n\n{entry.about}\n"
            for command in entry.commands:
                yield describe_command(command, f"weft {entry.name} {command.name}", "####")
        else:
            yield describe_command(entry, f"weft {entry.name}", "###")


def describe_command(command: Command, words: str, level: str) -> str:
    """A command: what it does, and a row for each argument and option."""
    about = inspect.cleandoc(command.about)
    parameters = inspect.signature(
        function_of(command.takes, command.run, about=command.about)
    ).parameters.values()
    rows = [option_row(each) for each in parameters]
    options = table(("option", "default", "says"), rows) if rows else ""
    return f"{level} `{words}`\n\n{about}\n\n{options}"


def option_row(parameter: inspect.Parameter) -> tuple[str, str, str]:
    """A row: the flag or the place, the default, the help."""
    kind, info = get_args(parameter.annotation)
    if isinstance(info, ArgumentInfo):
        flag = info.metavar or parameter.name.upper()
    else:
        flag = ", ".join(info.param_decls or (f"--{parameter.name.replace('_', '-')}",))
        if kind is not bool:
            flag += f" {info.metavar or metavar_of(kind)}"
    default = parameter.default
    if default is inspect.Parameter.empty:
        shown = "required"
    elif default is None or default is False or default == "" or isinstance(default, Path):
        shown = ""
    else:
        shown = f"`{default.value if isinstance(default, Enum) else default}`"
    return f"`{flag}`", shown, info.help or ""


def metavar_of(kind: object) -> str:
    """What stands for the value of an option that names none."""
    kinds = [each for each in (get_args(kind) or (kind,)) if isinstance(each, type)]
    first = kinds[0] if kinds else str
    if issubclass(first, Enum):
        return "|".join(str(each.value) for each in first)
    return {int: "INTEGER", float: "NUMBER", Path: "PATH"}.get(first, "TEXT")


def describe_codes() -> Iterator[str]:
    """The codes by family, each with its page."""
    family = ""
    for code in CODES.values():
        if code.code[4] != family:
            family = code.code[4]
            yield f"### {family}xx: {FAMILIES[family]}\n"
        page = f"```text\n{code.page.strip()}\n```"
        yield f"#### {code.code}: {code.title}\n\nSeverity: {code.severity.value}.\n\n{page}\n"


def table(head: tuple[str, ...], rows: object) -> str:
    """A table of Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(escape_cell, row))} |\n" for row in lines)


def escape_cell(text: str) -> str:
    """A text as one cell."""
    return " ".join(text.split()).replace("|", "\\|")


@cache
def tree_of(path: str) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(Path(path).read_text("utf-8"))


@cache
def class_node(cls: type) -> ast.ClassDef:
    """Where a class is written."""
    body: list[ast.stmt] = tree_of(inspect.getfile(cls)).body
    for name in cls.__qualname__.split("."):
        found = next(
            node for node in ast.walk(ast.Module(body, [])) if is_named(node, ast.ClassDef, name)
        )
        body = found.body
    return found


def is_named(node: ast.AST, kind: type | tuple[type, ...], name: str) -> bool:
    """Whether a node defines this name."""
    return isinstance(node, kind) and getattr(node, "name", None) == name


def functions(cls: type) -> Iterator[Function]:
    """The functions in the body of a class; of several with one name, all."""
    return (node for node in class_node(cls).body if isinstance(node, Function))


def find_node(function: object) -> Function:
    """Where a function is written: of overloads, the implementation."""
    function = inspect.unwrap(function)
    nodes = [
        node
        for node in ast.walk(tree_of(inspect.getfile(function)))
        if is_named(node, (ast.FunctionDef, ast.AsyncFunctionDef), function.__name__)
    ]
    return nodes[-1]


def find_comment(module: object, name: str) -> str:
    """What is written under the definition of a value that is not a class or a function."""
    homes = [getattr(module, "__name__", ""), weft._HOMES.get(name, "")]
    for home in filter(None, homes):
        path = inspect.getfile(import_module(home))
        body = [each for node in tree_of(path).body for each in (node, *getattr(node, "body", ()))]
        for node, after in zip(body, [*body[1:], None], strict=True):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                value = getattr(node, "value", None)
                is_quoted = isinstance(value, ast.Constant) and isinstance(value.value, str)
                text = value.value if is_quoted else ast.unparse(value) if value else ""
                spelled = f"`{text}`" if 0 < len(text) < 400 else ""  # not a table
                return f"{said_under(after).removeprefix(': ')}\n\n{spelled}".strip()
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("weft"):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return find_comment(import_module(node.module), alias.name)
    return ""


def said_under(node: ast.stmt | None) -> str:
    """The text that stands under a field or a value, after a colon."""
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return f": {first_paragraph(inspect.cleandoc(node.value.value))}"
    return ""


def first_paragraph(text: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(text.split("\n\n")[0].split())


def default_of(value: ast.expr | None) -> str:
    """The default of a field as it is written, or nothing."""
    if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field":
        value = next((each.value for each in value.keywords if each.arg == "default"), None)
    return f" = {ast.unparse(value)}" if value is not None else ""


def signature(node: Function, name: str, *, returns: bool = True) -> str:
    """How a function is called: its parameters without `self`, and what it returns."""
    arguments = _Plain().visit(ast.parse(ast.unparse(node)).body[0].args)
    first = [*arguments.posonlyargs, *arguments.args][:1]
    if first and first[0].arg in ("self", "cls"):
        del (arguments.posonlyargs or arguments.args)[0]
    result = f" -> {annotation(node.returns)}" if returns and node.returns else ""
    return f"{name}({ast.unparse(arguments)}){result}"


def annotation(node: ast.expr) -> str:
    """A type as it is read, without the quotes of a forward reference."""
    return ast.unparse(_Plain().unquote(ast.parse(ast.unparse(node), mode="eval").body))


class _Plain(ast.NodeTransformer):
    """Takes the quotes off forward references."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if node.annotation is not None:
            node.annotation = self.unquote(node.annotation)
        return node

    def unquote(self, node: ast.expr) -> ast.expr:
        """A type without quotes, but for the values of a Literal."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return ast.parse(node.value, mode="eval").body
        if isinstance(node, ast.Subscript):
            if ast.unparse(node.value).rpartition(".")[2] != "Literal":
                node.slice = self.unquote(node.slice)
        elif isinstance(node, ast.BinOp):
            node.left, node.right = self.unquote(node.left), self.unquote(node.right)
        elif isinstance(node, ast.Tuple | ast.List):
            node.elts = [self.unquote(each) for each in node.elts]
        return node


if __name__ == "__main__":
    PAGE.write_text(page_text(), "utf-8")
    print(f"{PAGE.name}: {len(page_text().splitlines()):,} lines")
