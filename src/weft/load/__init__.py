"""Load on a server, a queue or a Runner, with faults, and a verdict from the stored logs."""

from weft.load.plan import ENGINES, FAULTS, LoadPlan
from weft.load.report import LoadReport
from weft.load.site import run_load

__all__ = ["ENGINES", "FAULTS", "LoadPlan", "LoadReport", "run_load"]
