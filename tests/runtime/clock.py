"""Time that passes when a test says so, whatever the machine does meanwhile."""

import asyncio

import pytest


class LoopClock:
    """The clock of the running event loop, which a test can put forward."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real, self.ahead = loop.time, 0.0
        patch.setattr(loop, "time", lambda: real() + self.ahead)

    def pass_by(self, seconds: float) -> None:
        """Have so many seconds pass at once."""
        self.ahead += seconds
