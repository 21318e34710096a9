"""Words by which a line says that something went wrong."""

import re

TROUBLE = re.compile(
    r"(?:\w*(?:Error|Exception|Warning)\b|\b(?:error|errors|fatal|failed|failure|failures|exception"
    r"|traceback|warning|warnings|denied|refused|invalid|missing|undefined|panic|abort|aborted"
    r"|cannot|timeout|FAIL|FAILED|ERROR|WARN|CRITICAL)\b)",
)
GRAVE = re.compile(
    r"(?:\w+(?:Error|Exception)\b|\b(?:fatal|panic|FATAL|ERROR|FAILED|CRITICAL|Traceback)\b)"
)

GRAVE_WEIGHT = 12.0

_STEMS = (
    "err", "exce", "fatal", "fail", "warn", "trace", "denied", "refused", "invalid", "missing",
    "undefined", "panic", "abort", "cannot", "timeout", "critical",
)  # fmt: skip
"""A line without any of these is not looked at closely."""


def trouble_in(line: str) -> float:
    """The weight of a line that tells of trouble; 0.0 where it does not."""
    near = line[:400]
    lowered = near.lower()
    if not any(stem in lowered for stem in _STEMS):
        return 0.0
    if GRAVE.search(near) is not None:
        return GRAVE_WEIGHT
    return 5.0 if TROUBLE.search(near) is not None else 0.0
