"""Findings of a check: printed in four forms, located in files, mended where that is sure."""

import ast
import difflib
import io
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from types import CodeType
from typing import NamedTuple, cast

import weft
from weft.checker.agents import functions_in
from weft.checker.functions import keys_of
from weft.checker.sources import unwrap_function
from weft.cli.load import relative_path
from weft.codes import CODES
from weft.declare import Agent, Expect, Loop, Node, Route, Step, Tap
from weft.declare.agent import agents_of, walk_nodes
from weft.declare.changes import OWN_CODE
from weft.declare.checks import CALLBACKS
from weft.declare.visit import DefaultVisitor
from weft.diagnostics import Diagnostic, Severity
from weft.values import Json, JsonObject

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


class SourcePlace(NamedTuple):
    """A place in a file; `last` is the last line of the declaration."""

    file: Path
    line: int
    column: int
    last: int


class LocatedFinding(NamedTuple):
    """A diagnostic and its place in the user's files, if there is one."""

    diagnostic: Diagnostic
    place: SourcePlace | None


def as_text(finding: LocatedFinding) -> str:
    """The diagnostic, with its file and line before it."""
    where = (
        f"{relative_path(finding.place.file)}:{finding.place.line}: "
        if finding.place is not None
        else ""
    )
    return f"{where}{finding.diagnostic}"


def as_json(located: Iterable[LocatedFinding], agents: Json) -> JsonObject:
    """All findings, and what each agent will see."""
    findings: list[Json] = []
    for one in located:
        diagnostic = one.diagnostic
        entry: JsonObject = {
            "code": diagnostic.code,
            "severity": str(diagnostic.severity),
            "message": diagnostic.message,
            "hint": diagnostic.hint,
            "origin": str(diagnostic.origin),
        }
        if one.place is not None:
            entry |= {
                "file": relative_path(one.place.file),
                "line": one.place.line,
                "column": one.place.column,
            }
        findings.append(entry)
    return {"findings": findings, "agents": agents}


def as_sarif(located: Iterable[LocatedFinding]) -> JsonObject:
    """One run in the format that code scanners exchange."""
    findings = list(located)
    codes = sorted({one.diagnostic.code for one in findings})
    rules: list[Json] = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].title},
            "fullDescription": {"text": CODES[code].page.strip()},
            "help": {"text": f"weft rule {code}"},
            "defaultConfiguration": {"level": _LEVELS[CODES[code].severity]},
        }
        for code in codes
    ]
    results: list[Json] = [_result(one, codes.index(one.diagnostic.code)) for one in findings]
    driver: JsonObject = {"name": "weft", "version": weft.__version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(finding: LocatedFinding, index: int) -> JsonObject:
    diagnostic = finding.diagnostic
    location: JsonObject = {"logicalLocations": [{"fullyQualifiedName": str(diagnostic.origin)}]}
    if finding.place is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": Path(relative_path(finding.place.file)).as_posix()},
            "region": {"startLine": finding.place.line, "startColumn": finding.place.column},
        }
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": _with_hint(diagnostic)},
        "locations": [location],
    }


def as_annotation(finding: LocatedFinding) -> str:
    """A line that GitHub shows at the place in a change."""
    diagnostic = finding.diagnostic
    options = [f"title={_property(f'{diagnostic.code} {diagnostic.origin}')}"]
    if finding.place is not None:
        options.insert(0, f"file={_property(Path(relative_path(finding.place.file)).as_posix())}")
        options.insert(1, f"line={finding.place.line},col={finding.place.column}")
    words = _data(_with_hint(diagnostic))
    return f"::{_COMMANDS[diagnostic.severity]} {','.join(options)}::{words}"


def _with_hint(diagnostic: Diagnostic) -> str:
    hint = f"\nhint: {diagnostic.hint}" if diagnostic.hint else ""
    return f"{diagnostic.message}{hint}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# --- located in files, and mended

_MEANT = re.compile(r'^did you mean [`"]([^`"]+)[`"]\?$')

_VARIABLE = re.compile(r"`\{([^}?.\[]+)")

_KEY = re.compile(r"(?:decides by|shows|goes over|names the agent) `([^`.\[]+)")

_LABEL = re.compile(r'^(?:eq|ne)\("(.+)"\)$')


class TextChange(NamedTuple):
    """A text that is replaced, and the finding that says so."""

    file: Path
    old: str
    new: str
    finding: Diagnostic


class Sources:
    """The files a target was declared in, and the functions that are handed to its nodes."""

    def __init__(self, files: list[Path], flow: Node) -> None:
        self._flow = flow
        self._texts_by_name: dict[str, list[tuple[Path, ast.Constant]]] = {}
        self.texts = {file: file.read_text(encoding="utf-8") for file in files}
        self._calls: list[tuple[Path, ast.Call]] = []
        self._calls_by_name: dict[str, list[tuple[Path, ast.Call]]] = {}
        self._functions: list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]] = []
        self._lambdas: list[tuple[Path, ast.Lambda]] = []
        for file, text in self.texts.items():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    self._calls.append((file, node))
                    for name in {*_names(node)}:
                        self._calls_by_name.setdefault(name, []).append((file, node))
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._functions.append((file, node))
                elif isinstance(node, ast.Lambda):
                    self._lambdas.append((file, node))
                elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                    for target in node.targets:
                        if isinstance(target, ast.Name):
                            named = self._texts_by_name.setdefault(target.id, [])
                            named.append((file, node.value))

    def locate(self, diagnostics: Iterable[Diagnostic]) -> list[LocatedFinding]:
        """Give the diagnostics their places, without those that a comment there accepts."""
        pairs = [LocatedFinding(one, self.place(one)) for one in diagnostics]
        return [one for one in pairs if not self._is_allowed(one)]

    def place(self, diagnostic: Diagnostic) -> SourcePlace | None:
        """The place in the files that a diagnostic is about, or None."""
        origin = diagnostic.origin
        if origin.kind == "tool":
            return self._function(origin.name) or self._find_declaration(origin.agent)
        if origin.kind != "field":
            return None
        if origin.name in ("instruction", "global_instruction", "question") and origin.start >= 0:
            return self._template(diagnostic) or self._find_declaration(origin.agent)
        return (
            self._find_handed_function(diagnostic)
            or self._find_declaration(origin.agent)
            or self._change(diagnostic)
        )

    def _is_allowed(self, finding: LocatedFinding) -> bool:
        """Whether a comment at its place, or at the declaration, accepts the finding."""
        code, agent = finding.diagnostic.code, finding.diagnostic.origin.agent
        for place in (finding.place, self._find_declaration(agent)):
            if place is None:
                continue
            lines = self.texts[place.file].splitlines()[place.line - 1 : place.last]
            if any(code in match[1] for line in lines for match in ALLOW.finditer(line)):
                return True
        return False

    def _find_declaration(self, name: str) -> SourcePlace | None:
        """The call that makes what has this name: Agent("name"), Route(..., name="name")."""
        named = self._calls_by_name.get(name)
        if named:
            # `.writes("name")` gives the same text: a call that makes a node comes first
            return _place(*max(named, key=lambda one: _is_maker(one[1])))
        kinds = [one for one in self._calls if _called_name(one[1]).lower() == name]
        # a flow without a name is called by its kind: it can be placed if there is one of them
        if len(kinds) == 1:
            return _place(*kinds[0])
        return self._function(name)

    def _function(self, name: str) -> SourcePlace | None:
        functions = [one for one in self._functions if one[1].name == name]
        return _place(*functions[0]) if len(functions) == 1 else None

    def _find_handed_function(self, diagnostic: Diagnostic) -> SourcePlace | None:
        """The function that a node was handed for a field: a predicate, a step, a callback."""
        origin = diagnostic.origin
        several = [
            one
            for one in self._node_functions
            if one.node == origin.agent and one.field == origin.name
        ]
        named = {*_QUOTED.findall(diagnostic.message)}
        fits = [one for one in several if len(several) == 1 or not named.isdisjoint(one.keys)]
        for one in fits or several:
            place = self._find_definition(one.function)
            if place is not None:
                return place
        return None

    @cached_property
    def _node_functions(self) -> list["_NodeFunction"]:
        return [*_code_in(self._flow)]

    def _find_definition(self, function: Callable[..., object]) -> SourcePlace | None:
        """Where a function stands, if that is in one of the files."""
        code: object = getattr(unwrap_function(function)[0], "__code__", None)
        if not isinstance(code, CodeType):
            return None
        file = Path(code.co_filename).resolve()
        for other, node in (*self._lambdas, *self._functions):
            first = min((node.lineno, *(one.lineno for one in _decorators(node))))
            if other == file and first == code.co_firstlineno:
                return _place(file, node)
        return None

    def _change(self, diagnostic: Diagnostic) -> SourcePlace | None:
        """The call of `S` that made a step: S.set(plan="x") made `set_plan`."""
        name = diagnostic.origin.agent
        calls = [one for one in self._calls if _name_of_change(one[1]) == name]
        if not calls:  # S.guard, S.require and S.log are named by the verb alone
            calls = [
                one for one in self._calls if _called_name(one[1]) == name and _is_change(one[1])
            ]
            words = {*_QUOTED.findall(diagnostic.message)}
            calls = [one for one in calls if not words.isdisjoint(_texts(one[1]))] or calls
        return _place(*calls[0]) if calls else None

    def _template(self, diagnostic: Diagnostic) -> SourcePlace | None:
        """The line of a variable in the text of an agent, where the text stands in a file."""
        origin = diagnostic.origin
        within = self._find_expression(origin.agent)
        if within is None:
            return None
        for file, node in self._texts(*within):
            value = str(node.value)
            typed = value[origin.start : origin.end]
            if typed.startswith("{") and typed.endswith("}"):
                line = node.lineno + self._lines_before(file, node, origin.start)
                return SourcePlace(file, line, node.col_offset + 1, node.end_lineno or line)
        typed = next(iter(_TYPED.findall(diagnostic.message)), "")
        for file, node in self._texts(*within):  # the text was changed: dedent, strip, a join
            if typed and str(node.value).count(typed) == 1:
                at = str(node.value).index(typed)
                line = node.lineno + self._lines_before(file, node, at)
                return SourcePlace(file, line, node.col_offset + 1, node.end_lineno or line)
        return None

    def _texts(self, file: Path, chain: ast.AST) -> Iterator[tuple[Path, ast.Constant]]:
        """The texts in an expression, and those that names in it stand for."""
        pieces = {
            id(piece)
            for node in ast.walk(chain)
            if isinstance(node, ast.JoinedStr)
            for piece in ast.walk(node)
        }
        for node in ast.walk(chain):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                # the pieces of an f-string are not the text that was sent
                if id(node) not in pieces:
                    yield file, node
            elif isinstance(node, ast.Name | ast.Attribute):
                named = self._texts_by_name.get(
                    node.id if isinstance(node, ast.Name) else node.attr, []
                )
                own = [one for one in named if one[0] == file] or named
                if len(own) == 1 and isinstance(own[0][1].value, str):
                    yield own[0]

    def _lines_before(self, file: Path, node: ast.Constant, position: int) -> int:
        """How many lines of the file the text takes up to a position in it."""
        source = ast.get_source_segment(self.texts[file], node)
        return 0 if source is None else lines_before(source, position)

    def _find_expression(self, name: str) -> tuple[Path, ast.AST] | None:
        """The whole expression that makes an agent, with the verbs after it."""
        makers = [one for one in self._calls_by_name.get(name, ()) if _is_maker(one[1])]
        if len(makers) != 1:
            return None
        file, call = makers[0]
        chain: ast.Call = call
        for other_file, other in self._calls:
            receiver: ast.AST = other
            while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
                receiver = receiver.func.value
            longer = (other.end_lineno or 0, other.end_col_offset or 0)
            reach = (chain.end_lineno or 0, chain.end_col_offset or 0)
            if other_file == file and receiver is call and longer > reach:
                chain = other
        return file, chain


def changes_for(diagnostics: Iterable[Diagnostic], sources: Sources) -> list[TextChange]:
    """The changes that mend diagnostics. One that fits in two places is left out."""
    changes: list[TextChange] = []
    for one in diagnostics:
        pair = _pair(one)
        if pair is None:
            continue
        old, new = pair
        places = [file for file, text in sources.texts.items() for _ in range(text.count(old))]
        # two places, or two findings for one text: nobody can say which is meant
        if len(places) == 1 and all(change.old != old for change in changes):
            changes.append(TextChange(places[0], old, new, one))
    return changes


def apply_fixes(changes: Iterable[TextChange], sources: Sources) -> dict[Path, str]:
    """The files that change, with their new text."""
    texts: dict[Path, str] = {}
    for change in changes:
        text = texts.get(change.file, sources.texts[change.file])
        texts[change.file] = text.replace(change.old, change.new)
    return texts


def difference(file: Path, before: str, after: str) -> str:
    """What changes in a file, as a unified diff."""
    name = relative_path(file)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name, n=1
    )
    return "".join(lines)


def _pair(diagnostic: Diagnostic) -> tuple[str, str] | None:
    """The text in the file, and the text that was meant."""
    meant = _MEANT.match(diagnostic.hint)
    if meant is None:
        return None
    variable = _VARIABLE.search(diagnostic.message)
    if diagnostic.code == "WEFT105" and variable is not None:
        return f"{{{variable[1]}", f"{{{meant[1]}"
    key = _KEY.search(diagnostic.message)
    if key is not None:
        return f'"{key[1]}"', f'"{meant[1]}"'
    label = _LABEL.match(diagnostic.origin.name)
    if diagnostic.code == "WEFT403" and label is not None:
        return f'"{label[1]}"', f'"{meant[1]}"'
    return None


ALLOW = re.compile(r"#\s*weft:\s*allow\s+((?:WEFT\d+[,\s]*)+)")
"""How a line says that a finding is accepted: `# weft: allow WEFT106`."""

_QUOTED = re.compile(r"`\{?([^`{}?.\[]+)")

_TYPED = re.compile(r"`(\{[^`]*\})`")

_OPENING = re.compile(r"""([a-zA-Z]*)('''|\"\"\"|'|")""")

_LETTER = re.compile(r"\\(?:\n|N\{[^}]*\}|x..|u.{4}|U.{8}|[0-7]{1,3}|.)|.", re.DOTALL)

_PLAIN = re.compile(r".", re.DOTALL)


def lines_before(source: str, position: int) -> int:
    """Count the line ends of a literal before a position in its text.

    An escaped newline is a letter of the text and not a line of the file; the end of a line after a
    backslash, or between two literals, is a line and no letter.
    """
    read = 0
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(f"({source})").readline)]
    except (tokenize.TokenError, SyntaxError):
        return 0
    for token in tokens:
        if token.type != tokenize.STRING:
            continue
        opening = _OPENING.match(token.string)
        if opening is None:
            return 0
        quotes = len(opening[2])
        body = token.string[opening.end() : -quotes]
        letters = _LETTER if "r" not in opening[1].lower() else _PLAIN
        line = token.start[0] - 1
        for letter in letters.finditer(body):
            if read >= position and letter[0] != "\\\n":
                return line
            line += letter[0].count("\n")
            read += letter[0] != "\\\n"
    return 0


def sources_of(target: str, flow: Node) -> Sources:
    """The files that a target was loaded from: its own, and others below the working folder."""
    place = target.rpartition(":")[0]
    own = Path(place) if place.endswith(".py") else None
    here = (Path(target) if Path(target).is_dir() else Path.cwd()).resolve()
    ours = Path(weft.__file__).parent.resolve()
    files: list[Path] = [own.resolve()] if own is not None else []

    @cache  # hundreds of modules are loaded, from a few dozen folders
    def may_hold(folder: str) -> bool:
        """Whether files of the program may lie in a folder."""
        path = Path(folder).resolve()
        return path.is_relative_to(here) and not _is_installed(path.relative_to(here))

    for name, module in [*sys.modules.items()]:
        file = vars(module).get("__file__")
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        if name != place and not may_hold(os.path.dirname(file)):
            continue
        path = Path(file).resolve()
        # in a checkout of Weft itself nobody declares agents
        if path not in files and not path.is_relative_to(ours):
            files.append(path)
    return Sources([file for file in files if file.is_file()], flow)


def _is_installed(path: Path) -> bool:
    return any(part == "site-packages" or part.startswith(".") for part in path.parts)


class _NodeFunction(NamedTuple):
    """A function that a node was handed, with the field it is in and the keys that it names."""

    node: str
    field: str
    function: Callable[..., object]

    @property
    def keys(self) -> frozenset[str]:
        use = keys_of(self.function)
        changed = use.writes | use.maybe | use.drops | use.may_drop
        return use.reads | use.optional | use.guarded | changed


def _code_in(flow: Node) -> Iterator[_NodeFunction]:
    """The functions of all nodes of a flow."""
    nodes, agents = walk_nodes(flow), agents_of(flow)
    inside = [node for node, _ in nodes if not isinstance(node, Agent)]
    for node in (*inside, *agents):
        for field, value in _function_fields(node):
            yield from (_NodeFunction(node.name, field, one) for one in functions_in(value))


class _FunctionFields(DefaultVisitor[Iterable[tuple[str, object]]]):
    """The fields of a node that may hold functions of the user's."""

    __slots__ = ()

    def visit_other(self, node: Node) -> Iterable[tuple[str, object]]:
        return ()

    def visit_step(self, node: Step) -> Iterable[tuple[str, object]]:
        own_code = node.change is OWN_CODE
        return [("function", (node.function,) if own_code else node.change.asks)]

    def visit_loop(self, node: Loop) -> Iterable[tuple[str, object]]:
        return [("until", node.until), ("while_", node.while_)]

    def visit_route(self, node: Route) -> Iterable[tuple[str, object]]:
        own = [("key", None if isinstance(node.key, str) else node.key)]
        return [*own, *((case.label, case.predicate) for case in node.cases)]

    def visit_tap(self, node: Tap) -> Iterable[tuple[str, object]]:
        return [("function", node.function)]

    def visit_expect(self, node: Expect) -> Iterable[tuple[str, object]]:
        return [("predicate", () if node.reads else (node.predicate,))]

    def visit_agent(self, node: Agent) -> Iterable[tuple[str, object]]:
        code = [(name, cast("object", getattr(node, name))) for name in CALLBACKS]
        theirs = [(f"{name}_callback", callback) for name, callback in code]  # of google-adk
        return [("instruction", node.instruction), *code, *theirs]


_function_fields = _FunctionFields().visit


def _decorators(node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    return [] if isinstance(node, ast.Lambda) else node.decorator_list


def _is_change(call: ast.Call) -> bool:
    """Whether it is a call of `S`."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name == "S"
        case _:
            return False


def _name_of_change(call: ast.Call) -> str:
    """The name of the step that a call of `S` makes."""
    if not _is_change(call):
        return ""
    verb = _called_name(call)
    if verb == "when":
        inner = call.args[1] if len(call.args) > 1 else None
        return f"when_{_name_of_change(inner)}" if isinstance(inner, ast.Call) else ""
    about = [] if verb in _ABOUT_KEYS else [one.arg or "" for one in call.keywords]
    first = call.args[:1] if verb == "set" else call.args
    about = [*(text for one in first for text in _about(one)), *about]
    return re.sub(r"\W+", "_", f"{verb}_{'_'.join(about)}").strip("_")


_ABOUT_KEYS = ("merge", "accumulate", "counter", "flatten", "zip", "group_by", "transform")
"""Changes whose options do not appear in the name of the step."""


def _about(node: ast.expr) -> Iterator[str]:
    """What an argument adds to the name of a step."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.Dict(keys=keys):
            for key in keys:
                yield from _about(key) if key is not None else ()
        case ast.Lambda():
            yield "<lambda>"
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case _:
            return


def _texts(node: ast.AST) -> set[str]:
    return {
        one.value
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }


def _names(call: ast.Call) -> Iterator[str]:
    """The names that a call gives: its first argument, and `name=`."""
    values = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "name")]
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def _called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_maker(call: ast.Call) -> bool:
    """Whether the call makes a node, and is not a verb such as .writes("name")."""
    return _called_name(call)[:1].isupper() or _called_name(call) in (
        "race",
        "timeout",
        "tap",
        "expect",
    )


def _place(file: Path, node: ast.expr | ast.stmt) -> SourcePlace:
    return SourcePlace(file, node.lineno, node.col_offset + 1, node.end_lineno or node.lineno)
