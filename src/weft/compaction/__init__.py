"""A provider's request made smaller in place: read, passed through a policy, patched.

`reading` makes a log of the caller's JSON that knows where everything stands in it, `patching`
writes what the passes changed back, `splicing` does so in bytes, and `compact` is the front door.
"""

from weft.compaction.compact import Compacted, compact

__all__ = ["Compacted", "compact"]
