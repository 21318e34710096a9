"""The limit against hanging, for tests of many steps."""

import faulthandler

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key


def begin_limit_again(config: pytest.Config) -> None:
    """Let the limit count from now on: each step of a long test may take as much as a test.

    A run of 100 kills takes minutes of CPU. On a machine that others use, too, it is longer than
    the limit of one test, and hangs nowhere.
    """
    faulthandler.dump_traceback_later(
        float(config.getini("faulthandler_timeout")),
        file=config.stash[fault_handler_stderr_fd_key],
        exit=True,
    )
