"""Findings of a check as text, JSON, SARIF 2.1.0 and annotations of GitHub."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import weft
from weft.cli.placing import Place
from weft.codes import CODES
from weft.diagnostics import Diagnostic, Severity
from weft.values import Json, JsonObject

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


class Found(NamedTuple):
    """A diagnostic, and where in the files that is, if it can be said."""

    diagnostic: Diagnostic
    place: Place | None


def as_text(found: Found) -> str:
    """The diagnostic, with its file and line before it."""
    where = f"{shown(found.place.file)}:{found.place.line}: " if found.place is not None else ""
    return f"{where}{found.diagnostic}"


def as_json(found: Iterable[Found], agents: Json) -> JsonObject:
    """All findings, and what each agent will see."""
    findings: list[Json] = []
    for one in found:
        said = one.diagnostic
        entry: JsonObject = {
            "code": said.code,
            "severity": str(said.severity),
            "message": said.message,
            "hint": said.hint,
            "origin": str(said.origin),
        }
        if one.place is not None:
            entry |= {
                "file": shown(one.place.file),
                "line": one.place.line,
                "column": one.place.column,
            }
        findings.append(entry)
    return {"findings": findings, "agents": agents}


def as_sarif(found: Iterable[Found]) -> JsonObject:
    """One run in the format that code scanners exchange."""
    kept = list(found)
    codes = sorted({one.diagnostic.code for one in kept})
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
    results: list[Json] = [_result(one, codes.index(one.diagnostic.code)) for one in kept]
    driver: JsonObject = {"name": "weft", "version": weft.__version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(found: Found, index: int) -> JsonObject:
    said = found.diagnostic
    location: JsonObject = {"logicalLocations": [{"fullyQualifiedName": str(said.origin)}]}
    if found.place is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": Path(shown(found.place.file)).as_posix()},
            "region": {"startLine": found.place.line, "startColumn": found.place.column},
        }
    text = f"{said.message}\nhint: {said.hint}" if said.hint else said.message
    return {
        "ruleId": said.code,
        "ruleIndex": index,
        "level": _LEVELS[said.severity],
        "message": {"text": text},
        "locations": [location],
    }


def as_annotation(found: Found) -> str:
    """A line that GitHub shows at the place in a change."""
    said = found.diagnostic
    options = [f"title={_property(f'{said.code} {said.origin}')}"]
    if found.place is not None:
        options.insert(0, f"file={_property(Path(shown(found.place.file)).as_posix())}")
        options.insert(1, f"line={found.place.line},col={found.place.column}")
    text = f"{said.message}\nhint: {said.hint}" if said.hint else said.message
    return f"::{_COMMANDS[said.severity]} {','.join(options)}::{_data(text)}"


def shown(file: Path) -> str:
    """A file below the working folder by its relative path."""
    with contextlib.suppress(ValueError):
        return str(file.relative_to(Path.cwd().resolve()))
    return str(file)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
