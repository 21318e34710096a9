"""Run what was declared: loop, tools, callbacks and flows over a log that loses nothing."""

from weft.runtime.plugins import RunOutcome
from weft.runtime.program import Plugin
from weft.runtime.result import Result
from weft.runtime.run import Running
from weft.runtime.runner import Runner

__all__ = ["Plugin", "Result", "RunOutcome", "Runner", "Running"]
