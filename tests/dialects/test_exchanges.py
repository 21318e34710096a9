"""The command that holds recorded exchanges against Weft: what it counts, and when it fails."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

from weft.values import Json, JsonObject

ROOT = Path(__file__).parents[2]

_BODY: JsonObject = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
_STREAM = "".join(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    for event in (
        {"type": "message_start", "message": {**_BODY, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Grüße."},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
)


def _exchange(status: int = 200, stream: str = "", **fields: Json) -> JsonObject:
    request: JsonObject = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hi."}],
        **fields,
    }
    return {
        "id": "made/up#0",
        "dialect": "anthropic",
        "path": "/v1/messages",
        "request": request,
        "status": status,
        "response": None if stream else _BODY,
        "stream": stream or None,
    }


def _judged(tmp_path: Path, *exchanges: JsonObject) -> tuple[int, list[str]]:
    path = tmp_path / "exchanges.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(exchange) + "\n" for exchange in exchanges)
    command = [sys.executable, "bench/exchanges.py", str(path), "--splits", "20", "--show"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_answers_streams_and_requests_are_counted(tmp_path: Path) -> None:
    refused = _exchange(400, temperature=7)
    code, lines = _judged(tmp_path, _exchange(), _exchange(stream=_STREAM), refused)
    assert code == 0
    assert lines[1].split() == ["anthropic", "2/2", "2/2", "1/1", "3/3", "1/1", "0", "of", "2"]


def test_a_400_that_nobody_told_of_fails(tmp_path: Path) -> None:
    code, lines = _judged(tmp_path, _exchange(400))
    assert code == 1
    assert lines[-1] == "too low: 400s told"


def test_a_false_alarm_fails(tmp_path: Path) -> None:
    code, lines = _judged(tmp_path, _exchange(temperature=7))
    assert code == 1
    assert lines[-1] == "too low: false alarms"


def test_an_answer_that_cannot_be_read_fails(tmp_path: Path) -> None:
    code, lines = _judged(tmp_path, {**_exchange(), "response": {"type": "message"}})
    assert code == 1
    assert lines[-1] == "too low: answers"
