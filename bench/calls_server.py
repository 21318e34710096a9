"""A stub that answers every dialect with fixed bytes, in a process of its own.

    python bench/calls_server.py          prints its port, and serves until its input ends

Connections are kept alive, every event of a stream is an HTTP chunk of its own, and nothing is
read but what is needed to answer. The address says how many deltas: `/d200/v1/messages`.
"""

import asyncio
import re
import sys

from calls_answers import streamed, whole

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TARGET = re.compile(rb"POST /d(\d+)(/\S*)")
_DIALECTS = (
    (b"/messages", "anthropic"),
    (b"/chat/completions", "openai-chat"),
    (b"/responses", "openai-responses"),
    (b"enerateContent", "gemini"),
)


class Stub(asyncio.Protocol):
    """One connection."""

    answers: dict[tuple[str, int], list[bytes]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.held = b""

    def data_received(self, data: bytes) -> None:
        self.held += data
        head, blank, rest = self.held.partition(b"\r\n\r\n")
        if not blank:
            return
        found = _LENGTH.search(head)
        length = int(found[1]) if found else 0
        if len(rest) >= length:
            self.held = rest[length:]
            for piece in self._answer(head, rest[:length]):
                self.transport.write(piece)

    def _answer(self, head: bytes, body: bytes) -> list[bytes]:
        target = _TARGET.match(head)
        dialect = next((d for mark, d in _DIALECTS if target and mark in target[2]), None)
        if target is None or dialect is None:
            return [b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"]
        asked = b'"stream":true' in body or b'"stream": true' in body
        deltas = int(target[1]) if asked or b":streamG" in target[2] else -1
        if (dialect, deltas) not in self.answers:
            made = _chunked(dialect, deltas) if deltas >= 0 else [_plain(dialect)]
            self.answers[dialect, deltas] = made
        return self.answers[dialect, deltas]


def _plain(dialect: str) -> bytes:
    body = whole(dialect)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def _chunked(dialect: str, deltas: int) -> list[bytes]:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    events = streamed(dialect, deltas)
    return [head, *(b"%x\r\n%s\r\n" % (len(event), event) for event in events), b"0\r\n\r\n"]


async def main() -> None:
    """Serve until the parent closes our input."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Stub, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
