"""The garbage collector, while much is read that stays: a long log, or Weft's own modules.

There is no garbage in it. Python would walk over all that was read so far, again and again: a fifth
of the time.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_pausing = Lock()
_pauses = 0
_was_enabled = False
_others_freeze = False
"""Whether somebody else has frozen objects. To count them takes long: that is done until then."""


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """Keep Python from looking for garbage while much is read that stays."""
    global _pauses
    with _pausing:
        _pauses += 1
        # pauses may overlap in threads: only the last one to end resumes
        was_enabled = gc.isenabled()
        gc.disable()
    try:
        yield
    finally:
        with _pausing:
            _pauses -= 1
            _resume(was_enabled)


def _resume(was_enabled: bool) -> None:
    """Let the collector work again after the last pause, if it did before the first."""
    global _was_enabled, _others_freeze
    _was_enabled = _was_enabled or was_enabled
    if not _pauses and _was_enabled:
        _was_enabled = False
        # Its first look would be at all that was read, and stop every thread for it: so that
        # counts as old at once. Whoever has frozen objects of their own keeps them frozen.
        _others_freeze = _others_freeze or gc.get_freeze_count() > 0
        if not _others_freeze:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
