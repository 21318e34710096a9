"""Headroom's `compress` for bench/side_by_side.py, in an environment of its own.

A line of stdin has messages, a model and options. A line of stdout has the messages after it, and
of each one that it changed whether its store gives the original back.
"""

import json
import logging
import os
import re
import sys

os.environ["HEADROOM_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
logging.disable(logging.CRITICAL)

from headroom import compress  # noqa: E402
from headroom.cache.compression_store import get_compression_store  # noqa: E402

HANDLE = re.compile(r"hash=([0-9a-f]{6,})")


def is_rebuilt(before: dict[str, object], after: dict[str, object]) -> bool:
    """Whether what a handle in the message stands for is the text that stood there."""
    for handle in HANDLE.findall(str(after.get("content"))):
        entry = get_compression_store().retrieve(handle)
        if entry is not None and entry.original_content == before.get("content"):
            return True
    return False


answers = sys.stdout
sys.stdout = sys.stderr  # what it prints itself is nothing that was asked for
for line in sys.stdin:
    asked = json.loads(line)
    before = asked["messages"]
    after = compress(before, model=asked["model"], **asked["options"]).messages
    pairs = zip(before, after, strict=len(before) == len(after))
    rebuilt = [is_rebuilt(*pair) for pair in pairs if pair[0] != pair[1]]
    answers.write(json.dumps({"messages": after, "rebuilt": rebuilt}) + "\n")
    answers.flush()
