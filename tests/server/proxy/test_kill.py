"""A proxy that is killed between any two calls: the requests after it are the same bytes.

Set WEFT_KILLS for a longer run: `WEFT_KILLS=100` makes 100 calls, and kills between all of them.
"""

import json
import os
import resource
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Queue
from typing import Any

import httpx2
import pytest

from tests.server.proxy.talks import ANTHROPIC, LONG
from tests.server.proxy.test_recall import POLICY, recall
from tests.server.proxy.upstream import Reply, Seen, Upstream, listening, proxying
from tests.support.forked import FORKS
from tests.support.limits import begin_limit_again
from weft.cli import main
from weft.recordings.providers import body_of
from weft.server.proxy_store import ProxyStore

CALLS = int(os.environ.get("WEFT_KILLS", "0")) or 3
"""How many calls the run has; between each two the proxy is killed."""


class Provider:
    """Every answer recalls; every second one next to a call of the client's."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, seen: Seen, number: int) -> Reply:
        messages, stream = seen.json["messages"], seen.json.get("stream", False)
        last = messages[-1]["content"]
        results = last if isinstance(last, list) else []
        if len(results) == 1 and str(results[0].get("tool_use_id")).startswith("r"):
            found = ANTHROPIC.piece("text", "t", f"Found {len(messages)}. ")
            return ANTHROPIC.answer(found, self._own(messages), stream=stream)
        self.asked += 1
        asked = recall(ANTHROPIC, seen, f"r{len(messages)}")
        if self.asked % 2:
            return ANTHROPIC.answer(asked, stream=stream)
        return ANTHROPIC.answer(asked, self._own(messages), stream=stream)

    def _own(self, messages: list[Any]) -> Any:
        return ANTHROPIC.piece("call", f"c{len(messages)}", ("read", {"part": len(messages)}))


def serve(command: list[str], writer: Connection, largest: int) -> None:
    """Run the proxy, and say there what it prints; no file may have more than `largest` bytes."""
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    with (
        open(writer.fileno(), "w", buffering=1, closefd=False) as said,
        redirect_stdout(said),
        redirect_stderr(said),
    ):
        main(command)


class Killable:
    """A proxy in a process of its own, which has imported the package already when it starts.

    It says itself where it listens. A port chosen here and used again could be anybody's in
    between: of a connection that somebody else makes, or even of the one that looks for the proxy.
    """

    def __init__(self, upstream: str, folder: Path, *more: str, largest: int = 0) -> None:
        self._largest = largest
        self.lines: list[str] = []
        self._command = ["proxy", "--port", "0", "--policy", POLICY]
        self._command += ["--upstream", f"anthropic={upstream}"]
        self._command += ["--store", f"sqlite:///{folder / 'p.db'}"]
        self._command += more
        self._process: BaseProcess | None = None

    def start(self) -> str:
        """The address of a new process, as soon as it listens."""
        reader, writer = FORKS.Pipe(duplex=False)
        settings = (self._command, writer, self._largest)
        self._process = FORKS.Process(target=serve, args=settings)
        self._process.start()
        writer.close()
        address: Queue[str] = Queue()
        threading.Thread(target=self._listen, args=(reader, address), daemon=True).start()
        url = address.get()
        assert url, "the proxy ended before it listened"
        return url

    def _listen(self, reader: Connection, address: "Queue[str]") -> None:
        with reader, open(reader.fileno(), closefd=False) as said:
            for line in said:
                self.lines.append(line)
                if line.startswith("http://"):
                    address.put(line.partition("/weft/")[0])
        address.put("")

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def ask(url: str, request: dict[str, Any]) -> list[Any]:
    """What an answer says, as soon as its last event or its last byte came."""
    raw = b""
    with httpx2.stream("POST", url, json=request, timeout=120) as answer:
        for piece in answer.iter_raw():
            raw += piece
            if b"message_stop" in raw:
                break
    assert answer.status_code == 200, raw
    assert b"recall" not in raw
    return list(dict[str, Any](body_of(raw.decode(), ANTHROPIC.name))["content"])


def run(
    start: Callable[[], str],
    end: Callable[[], object],
    config: pytest.Config,
    calls: int = CALLS,
) -> None:
    """A run that reads with a tool again and again; every other answer streams."""
    messages = ANTHROPIC.request()["messages"]
    for number in range(calls):
        begin_limit_again(config)
        request = {**ANTHROPIC.request(stream=number % 2 == 1), "messages": messages}
        content = ask(f"{start()}{ANTHROPIC.path}", request)
        end()
        text = f"{number} " + LONG[: 9_000 + number]
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": text}
            for one in content
            if one["type"] == "tool_use"
        ]
        said: list[Any] = [
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ]
        messages = [*messages, *said]


def test_requests_after_a_kill_are_the_same_bytes(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    with proxying(Provider(), POLICY) as proxied:
        run(lambda: proxied.url, lambda: None, pytestconfig)
        whole = [seen.body for seen in proxied.upstream.seen]
    upstream = Upstream(Provider())
    with listening(upstream) as address:
        proxy = Killable(address, tmp_path)
        try:
            run(proxy.start, proxy.kill, pytestconfig)
        finally:
            proxy.kill()
    assert [seen.body for seen in upstream.seen] == whole
    assert len(whole) > CALLS  # recalls were answered inside
    # no recall is lost: the last request has one for each answer
    assert whole[-1].count(b'"name":"recall"') + whole[-1].count(b'"name": "recall"') >= CALLS
    # and no bill, although each kill came with the last byte of an answer
    store = ProxyStore(tmp_path / "p.db")
    bills = store.list_calls()
    store.close()
    assert len(bills) == CALLS
    assert all(bill.usage is not None for bill in bills)


def test_a_full_disk_is_not_noticed_by_the_agent(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    with proxying(Provider(), POLICY) as proxied:
        run(lambda: proxied.url, lambda: None, pytestconfig, calls=6)
        whole = [seen.body for seen in proxied.upstream.seen]
    upstream, folder = Upstream(Provider()), tmp_path / "recorded"
    with listening(upstream) as address:
        # the tables have room, and the first calls
        proxy = Killable(address, tmp_path, "--record", str(folder), largest=130_000)
        try:
            url = proxy.start()
            run(lambda: url, lambda: None, pytestconfig, calls=6)
        finally:
            proxy.kill()
    assert [seen.body for seen in upstream.seen] == whole
    store = ProxyStore(tmp_path / "p.db")
    assert 0 < len(store.list_calls()) < 6, "the disk was not full, or nothing could be kept"
    store.close()
    shown = [line for line in proxy.lines if line.startswith("claude")]
    assert len(shown) == 6
    assert "not recorded: File too large" in shown[-1]
    assert any("the proxy's store" in line for line in proxy.lines)
    lines = [one for file in folder.iterdir() for one in file.read_bytes().splitlines()]
    assert lines
    assert [type(json.loads(one)) for one in lines] == [dict] * len(lines)  # none is half
