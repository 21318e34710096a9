"""What a server or a worker says while it runs: lines for people, or JSON for machines."""

import json
import logging
import sys
import time
from typing import TextIO

from weft.cli.options import LogForm


class JsonLines(logging.Formatter):
    """Each record as one line of JSON: time, level, logger, message, and the error if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = {
            "time": _utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def begin_logs(form: LogForm) -> None:
    """Have what Weft and its server log written to stderr, in this form."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if form is LogForm.JSON else text)
    logging.basicConfig(handlers=[handler])
    logging.getLogger("weft").setLevel(logging.INFO)
    logging.captureWarnings(True)


def say(words: str, form: LogForm, stream: TextIO) -> None:
    """Say something that is not logged, such as the address of a server."""
    if form is LogForm.JSON:
        line = {"time": _utc(time.time()), "level": "INFO", "logger": "weft", "message": words}
        words = json.dumps(line, ensure_ascii=False)
    print(words, file=stream, flush=True)


def _utc(seconds: float) -> str:
    """A moment as machines read it: 2026-11-17T09:30:00.125Z."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"
