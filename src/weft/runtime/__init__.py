"""Run what was declared: loop, tools, callbacks and flows over a log that loses nothing."""

from weft.runtime.around import RunOutcome
from weft.runtime.callbacks import Plugin
from weft.runtime.once import run, run_sync, stream
from weft.runtime.result import Result
from weft.runtime.runner import Runner
from weft.runtime.running import Running

__all__ = ["Plugin", "Result", "RunOutcome", "Runner", "Running", "run", "run_sync", "stream"]
