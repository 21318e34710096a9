"""What every stock program must show, with and without the one line that adds Weft.

A program is a function that gets what the line adds, runs to its end against a scripted model, and says
what it answered and what the model was sent, message by message as JSON.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from weft import C
from weft.dialects import refusals
from weft.interop.hosts import HostCompactor
from weft.values import Json, JsonObject

GAUGES = {
    place: "\n".join(f"{place} gauge {number}: {number * 37 % 101} bar" for number in range(400))
    for place in ("north", "south", "east", "west")
}
"""What the tool of the programs returns: large, and the same for the same place."""


class Played(NamedTuple):
    """What a program answered, and its requests: the messages of each as JSON, and as a chat."""

    answers: list[str]
    requests: list[list[Json]]
    chats: list[list[JsonObject]]


Program = Callable[[object], Awaitable[Played]]


async def check_program(
    program: Program,
    add: Callable[[object], object],
    compactor_of: Callable[[object], HostCompactor],
) -> None:
    """Run a program without Weft, under `C.default()`, and under the adapter's own policy."""
    plain = await program(None)
    untouched = await program(add(C.default()))
    assert untouched.requests == plain.requests
    assert untouched.answers == plain.answers
    added = add(None)
    cheaper = await program(added)
    assert cheaper.answers == plain.answers
    assert len(cheaper.requests) == len(plain.requests)
    large = any("gauge 399" in str(request) for request in plain.requests)
    assert (compactor_of(added).compacted > 0) is large
    for before, after in zip(plain.chats, cheaper.chats, strict=True):
        problems = refusals("openai-chat", {"model": "gpt-5", "messages": after})
        known = refusals("openai-chat", {"model": "gpt-5", "messages": before})
        assert {one.message for one in problems} <= {one.message for one in known}
    _check_prefixes(cheaper.requests)
    sizes = [len(str(one)) for one in (plain.requests, cheaper.requests)]
    assert sizes[1] < sizes[0] / 2 if large else sizes[1] == sizes[0]


def _check_prefixes(requests: list[list[Json]]) -> None:
    """Each request of a conversation begins with the one before it."""
    for before, after in zip(requests, requests[1:], strict=False):
        if len(after) > len(before):
            assert after[: len(before)] == before
