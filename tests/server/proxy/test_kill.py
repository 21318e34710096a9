"""A proxy that is killed between any two calls: the requests after it are the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

from tests.server.proxy.talks import ANTHROPIC, LONG
from tests.server.proxy.test_recall import recall
from tests.server.proxy.upstream import Reply, Seen, Upstream, listening

POLICY = "C.default().compact()"

CALLS = int(os.environ.get("WEFT_KILLS", "0")) or 3
"""How many calls the run has; between each two the proxy is killed."""


class Provider:
    """Every answer recalls; every second one next to a call of the client's."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, seen: Seen, number: int) -> Reply:
        messages = seen.json["messages"]
        last = messages[-1]["content"]
        results = last if isinstance(last, list) else []
        if len(results) == 1 and str(results[0].get("tool_use_id")).startswith("r"):
            found = ANTHROPIC.piece("text", "t", f"Found {len(messages)}. ")
            return ANTHROPIC.answer(found, self._own(messages))
        self.asked += 1
        asked = recall(ANTHROPIC, seen, f"r{len(messages)}")
        if self.asked % 2:
            return ANTHROPIC.answer(asked)
        return ANTHROPIC.answer(asked, self._own(messages))

    def _own(self, messages: list[Any]) -> Any:
        return ANTHROPIC.piece("call", f"c{len(messages)}", ("read", {"part": len(messages)}))


class Killable:
    """A proxy in a process of its own."""

    def __init__(self, upstream: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", "weft", "proxy", "--port", "0", "--policy", POLICY]
        self._command += ["--upstream", f"anthropic={upstream}"]
        self._command += ["--store", f"sqlite:///{folder / 'p.db'}"]
        self._folder = folder
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._folder,
            text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().partition("/weft/")[0]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def run(folder: Path, *, kills: bool) -> list[bytes]:
    """The requests of a run, as they came to the provider."""
    folder.mkdir()
    upstream = Upstream(Provider())
    with listening(upstream) as address, httpx2.Client(timeout=120) as client:
        proxy = Killable(address, folder)
        try:
            messages = ANTHROPIC.request()["messages"]
            for number in range(CALLS):
                request = {**ANTHROPIC.request(), "messages": messages}
                answer = client.post(f"{proxy.url}{ANTHROPIC.path}", json=request)
                content = answer.json()["content"]
                assert "recall" not in answer.text
                own = [one for one in content if one["type"] == "tool_use"]
                text = f"{number} " + LONG[: 9_000 + number]
                results = [
                    {"type": "tool_result", "tool_use_id": one["id"], "content": text}
                    for one in own
                ]
                said: list[Any] = [
                    {"role": "assistant", "content": content},
                    {"role": "user", "content": results},
                ]
                messages = [*messages, *said]
                if kills and number < CALLS - 1:
                    proxy.kill()
                    proxy.start()
        finally:
            proxy.kill()
    return [seen.body for seen in upstream.seen]


def test_requests_after_a_kill_are_the_same_bytes(tmp_path: Path) -> None:
    whole, killed = (run(tmp_path / str(kills), kills=kills) for kills in (False, True))
    assert killed == whole
    assert len(whole) > CALLS  # recalls were answered inside
    # no recall is lost: the last request has one for each answer
    assert whole[-1].count(b'"name":"recall"') + whole[-1].count(b'"name": "recall"') >= CALLS
