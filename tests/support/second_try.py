"""A plugin of pytest that names the tests which passed only at their second try.

`make test` runs the tests that failed once more, alone, with `-p tests.support.second_try`. A test
that passes then depends on timing. The run is green, and its last lines say which test to mend.
"""

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that failed before and passes now."""
    if report.when == "call" and report.passed:
        _PASSED.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name them after everything else."""
    if not _PASSED:
        return
    count = f"{len(_PASSED)} test{'s' if len(_PASSED) > 1 else ''}"
    terminalreporter.section(f"{count} PASSED ONLY AT THE SECOND TRY", yellow=True, bold=True)
    for name in _PASSED:
        terminalreporter.line(f"SECOND TRY {name}", yellow=True)
    terminalreporter.line("A test that depends on timing hides mistakes: mend it next.")


_PASSED: list[str] = []
