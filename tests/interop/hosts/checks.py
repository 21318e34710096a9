"""What every stock program must show, with and without the one line that adds Weft.

A program is a function that gets what the line adds, runs to its end against a scripted model, and
says what it answered and what the model was sent, message by message as JSON.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, cast

from weft import C, Policy
from weft.dialects import refusals
from weft.interop.hosts import HostCompactor
from weft.values import Json, JsonObject

GAUGES = {
    place: "\n".join(f"{place} gauge {number}: {number * 37 % 101} bar" for number in range(400))
    for place in ("north", "south", "east", "west")
}
"""What the tool of the programs returns: large, and the same for the same place."""

ROUND = ("north", "south", "north", "west")
"""The places that a program looks at one after the other."""


class Played(NamedTuple):
    """What a program answered, and its requests: the messages of each as JSON, and as a chat."""

    answers: list[str]
    requests: list[list[Json]]
    chats: list[list[JsonObject]]


class WithCompactor(Protocol):
    """What the one line adds: an adapter."""

    compactor: HostCompactor


Program = Callable[[WithCompactor | None], Awaitable[Played]]


DIGESTS = C.default().compact(results=300)
"""A policy under which large results become digests, whatever they cost."""


async def check_program(
    program: Program, add: Callable[[Policy | None], WithCompactor], *, hides: bool = True
) -> None:
    """Run a program without Weft, under `C.default()`, under the adapter's own policy and digests.

    An adapter that `hides` nothing only sends in fewer words what is read twice.
    """
    plain = await program(None)
    untouched = await program(add(C.default()))
    assert untouched.requests == plain.requests
    assert untouched.answers == plain.answers
    shown = max(str(chat).count("north gauge 399") for chat in plain.chats)
    for policy in (None, DIGESTS):
        added = add(policy)
        cheaper = await program(added)
        assert cheaper.answers == plain.answers
        assert len(cheaper.requests) == len(plain.requests)
        for before, after in zip(plain.chats, cheaper.chats, strict=True):
            assert _problems(after) <= _problems(before)
        _check_prefixes(plain.requests, cheaper.requests)
        sizes = [len(str(one)) for one in (plain.requests, cheaper.requests)]
        if shown and policy is not None:
            assert sizes[1] < sizes[0] / 2
        elif shown > 1 and not hides:
            assert sizes[1] < sizes[0]
        else:
            assert sizes[1] <= sizes[0]
        assert (added.compactor.compacted > 0) is (sizes[1] < sizes[0])


def _problems(chat: list[JsonObject]) -> set[str]:
    """What a provider would refuse of a conversation."""
    wire: JsonObject = {"model": "gpt-5", "messages": cast("Json", chat)}
    return {one.message for one in refusals("openai-chat", wire)}


def _check_prefixes(plain: list[list[Json]], requests: list[list[Json]]) -> None:
    """Each request begins with the one before it in its conversation, if it did so without Weft.

    Only a fold writes again what was sent.
    """
    for number, request in enumerate(plain):
        for earlier in range(number - 1, -1, -1):
            length = len(plain[earlier])
            if length < len(request) and request[:length] == plain[earlier]:
                begun, now = requests[earlier], requests[number]
                folds = str(now).count("olded steps") > str(begun).count("olded steps")
                assert folds or now[: len(begun)] == begun
                break
