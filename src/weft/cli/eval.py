"""`weft eval`: an agent on the cases of a file, as a table, and compared with an earlier time."""

import asyncio
import sys
import warnings
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from weft.cli.load import load_node, require_folder
from weft.cli.options import CommandOptions
from weft.cli.printing import is_terminal, print_json, print_table
from weft.cli.run import carry_out
from weft.compiler.report import clip
from weft.declare import RunConfig
from weft.diagnostics import safe
from weft.errors import UsageError
from weft.values import JsonObject, require_object

if TYPE_CHECKING:
    from weft.evals.task import CaseOutcome, Outcomes, Regression

_REASON = 160
"""Characters of a reason in the table."""


def eval_command(options: CommandOptions) -> int:
    """Run the cases: 0 if all is well, 1 if a case fails, or got worse than the baseline."""
    from weft.evals import compare, evaluate, outcomes_of, read_cases, read_outcomes

    file = options.cases
    if file is None:
        raise UsageError(
            "which cases?", where="eval", hint=f"weft eval {options.target} cases.yaml"
        )
    if options.save is not None:
        # before anything is paid for
        require_folder(options.save, "--save")
    before = read_outcomes(options.baseline) if options.baseline is not None else None
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always", UserWarning)
        cases = read_cases(file)
    for remark in remarks:
        print(safe(f"warning: {remark.message}"), file=sys.stderr)
    root = load_node(options.target)
    work = evaluate(
        root,
        cases,
        repeat=options.repeat,
        parallel=options.parallel,
        config=RunConfig(model=options.model, strict=options.strict),
        progress=sys.stderr.isatty(),
    )
    # what tools print, and the progress bar, must not stand between the rows
    with redirect_stdout(sys.stderr), asyncio.Runner() as loop:
        report = carry_out(loop, work)
    outcomes = outcomes_of(report)
    worse = compare(outcomes, before, tolerance=options.tolerance) if before is not None else []
    fails = bool(worse) if before is not None else _fails(outcomes, options.tolerance)
    if options.as_json:
        print_json(_as_json(outcomes, worse, before))
    else:
        _print(outcomes, worse, before)
    _save(outcomes, options, fails=fails)
    return 1 if fails else 0


def _fails(outcomes: "Outcomes", tolerance: float) -> bool:
    return any(case.rate < 1 - tolerance for case in outcomes.cases.values())


def _save(outcomes: "Outcomes", options: CommandOptions, *, fails: bool) -> None:
    """Keep the outcomes, but never put worse ones in the place of the baseline they are held to."""
    if options.save is None:
        return
    same = options.baseline is not None and options.baseline.resolve() == options.save.resolve()
    if same and fails:
        print(f"{options.save} stays as it is: the cases got worse", file=sys.stderr)
        return
    outcomes.save(options.save)
    print(f"wrote {options.save}", file=sys.stderr)


def _as_json(
    outcomes: "Outcomes", worse: "list[Regression]", before: "Outcomes | None"
) -> JsonObject:
    import msgspec

    value = require_object(msgspec.to_builtins(outcomes), where="eval")
    value["failing"] = [*outcomes.failing]
    if before is not None:
        value["regressions"] = [
            {"case": one.case, "check": one.check, "before": one.before, "after": one.after}
            for one in worse
        ]
    return value


_TITLES = ("case", "passed", "tokens", "cost", "cached", "why not")
_NUMBERS = ("tokens", "cost", "cached")


def _print(outcomes: "Outcomes", worse: "list[Regression]", before: "Outcomes | None") -> None:
    rows = [_cells(name, case, before) for name, case in outcomes.cases.items()]
    if is_terminal():
        _print_table(outcomes, rows)
    else:
        print_table(_TITLES, rows, right=_NUMBERS)
    passed = len(outcomes.cases) - len(outcomes.failing)
    money = outcomes.money
    words = f"{passed} of {len(outcomes.cases)} cases passed, {outcomes.tokens:,.0f} tokens"
    print(f"{words}, ${money:.4f}" if money is not None else words)
    if before is not None:
        for one in worse:
            print(safe(f"worse: {one}"))
        gone = [name for name in before.cases if name not in outcomes.cases]
        if gone:
            print(safe(f"not in this file any more: {', '.join(gone)}"))
        growth = outcomes.tokens / before.tokens - 1 if before.tokens else 0.0
        print(f"against the baseline: {len(worse)} worse, tokens {growth:+.0%}")


def _cells(name: str, case: "CaseOutcome", before: "Outcomes | None") -> tuple[str, ...]:
    old = before.cases.get(name) if before is not None else None
    passed = f"{case.passed}/{case.runs}"
    if old is not None and (old.passed, old.runs) != (case.passed, case.runs):
        passed += f" (was {old.passed}/{old.runs})"
    return (
        safe(name),
        passed,
        f"{case.tokens:,.0f}" if case.tokens is not None else "-",
        f"${case.money:.4f}" if case.money is not None else "-",
        f"{case.cached:.0%}" if case.cached is not None else "-",
        clip(safe(case.reasons[0]), _REASON) if case.reasons else "",
    )


def _print_table(outcomes: "Outcomes", rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim")
    for title in _TITLES:
        table.add_column(title, justify="right" if title in _NUMBERS else "left")
    for row, case in zip(rows, outcomes.cases.values(), strict=True):
        style = "green" if case.passed == case.runs else "red" if case.passed == 0 else "yellow"
        name, passed, *rest = row
        table.add_row(Text(name), Text(passed, style=style), *map(Text, rest))
    Console(highlight=False).print(table)
