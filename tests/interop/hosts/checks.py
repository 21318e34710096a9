"""What every stock program must show, with and without the one line that adds Weft.

A program is a function that gets what the line adds, runs to its end against a scripted model, and
says what it answered and what the model was sent, message by message as JSON.
"""

import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
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
        assert _count_untouchable(cheaper) == _count_untouchable(plain)
        sizes = [len(str(one)) for one in (plain.requests, cheaper.requests)]
        if shown and policy is not None:
            assert sizes[1] < sizes[0] / 2
        elif shown > 1 and not hides:
            assert sizes[1] < sizes[0]
        else:
            assert sizes[1] <= sizes[0]
        assert (added.compactor.compacted > 0) is (sizes[1] < sizes[0])


# --- a model that needs again what it read long ago

WEIRS = tuple(f"weir {number}" for number in range(40))
"""The places of a long run: so many that `C.auto()` folds the first of them."""


def look(place: str) -> str:
    """Look at a place."""
    return "\n".join(f"{place} line {line}: wind {line * 41 % 97} and river" for line in range(90))


_NEXT = re.compile(r"more: recall\(handle='[^']*', lines='(\d+-\d+)'\)")


def reread(chat: list[JsonObject], place: str = WEIRS[2]) -> str | list[tuple[str, JsonObject]]:
    """What a model says that needs all of an earlier result: the hash of it, to the letter.

    Where the result is not in view, it asks for it by the handle or the number in its place.
    """
    results = {
        str(one["tool_call_id"]): str(one["content"]) for one in chat if "tool_call_id" in one
    }
    if look(place) in results.values():
        return _hash_text(look(place))
    pieces = [one for one in results.values() if re.match(r"\[lines \d+-\d+ of 90", one)]
    lines = "1-90"
    if pieces:
        more = _NEXT.search(pieces[-1])
        if more is None:
            return _hash_text("\n".join(one.partition("\n")[2] for one in pieces))
        lines = more[1]
    return [("recall", {"handle": _find_handle(chat, place), "lines": lines})]


def _hash_text(text: str) -> str:
    return f"It says {sha256(text.encode()).hexdigest()}."


def _find_handle(chat: list[JsonObject], place: str) -> str:
    """What stands for a result: the number of its folded step, or the handle of its digest."""
    step = re.search(rf"(#\d+) look {place}\b", str(chat))
    if step is not None:
        return step[1]
    at = next(at for at, one in enumerate(chat) if f'"{place}"' in str(one.get("tool_calls")))
    handle = re.search(r"\[handle ([0-9a-f]{12})", str(chat[at + 1]["content"]))
    assert handle is not None, chat[at + 1]
    return handle[1]


async def check_reread(program: Program, add: Callable[[Policy | None], WithCompactor]) -> None:
    """Run a program whose model looks at `WEIRS` one by one and then does what `reread` says."""
    plain = await program(None)
    assert plain.answers == [_hash_text(look(WEIRS[2]))]
    assert (await program(add(C.default()))).requests == plain.requests
    for policy in (C.auto(), DIGESTS):
        cheaper = await program(add(policy))
        assert cheaper.answers == plain.answers
        assert len(cheaper.requests) > len(plain.requests)
        assert len(str(cheaper.requests[-1])) < len(str(plain.requests[-1])) / 2
        assert all(not _problems(chat) for chat in cheaper.chats)
        for begun, now in zip(cheaper.requests, cheaper.requests[1:], strict=False):
            folds = str(now).count("olded steps") > str(begun).count("olded steps")
            assert folds or now[: len(begun)] == begun


SECRET = "ann@example.com"

NO_EMAIL = C.default().redact("email")


async def check_protected(program: Program, add: Callable[[Policy | None], WithCompactor]) -> None:
    """Run a program that has `SECRET` in words, arguments and results, beside pictures."""
    plain = await program(None)
    assert all(SECRET in text for text in map(str, plain.requests))
    for policy in (NO_EMAIL, NO_EMAIL.compact(results=300)):
        played = await program(add(policy))
        assert SECRET not in str(played.requests)
        assert played.answers == plain.answers
        assert _count_untouchable(played) == _count_untouchable(plain)
        assert [len(one) for one in played.chats] == [len(one) for one in plain.chats]
        assert "<EMAIL_" in str(played.requests[-1])


def _count_untouchable(played: Played) -> list[list[int]]:
    """For each request, how often it has what no words may take the place of."""
    listed = map(str, played.requests)
    return [[one.count(kind) for kind in ("image/png", "signature")] for one in listed]


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
