"""Thought signatures that can be told from forged, changed or misplaced ones.

A signature is a number and what is computed from it and from the call that it belongs to, so any
server knows one when it comes back, also one that was started later.
"""

import base64
import hashlib
from typing import TYPE_CHECKING

from weft.dialects.gemini import FOREIGN_SIGNATURE
from weft.values import Json, JsonObject, canonical

if TYPE_CHECKING:
    from google.genai import types

_FOREIGN = (FOREIGN_SIGNATURE, "context_engineering_is_the_way_to_go")
"""What the provider documents for calls that it did not make."""

_NUMBER = 8
_ROUNDS = 3


def signature(number: int, part: JsonObject) -> str:
    """The signature of a part of an answer, as its JSON carries it."""
    call = part.get("functionCall")
    told = _told(call.get("name"), call.get("args")) if isinstance(call, dict) else b""
    return base64.b64encode(_signed(number.to_bytes(_NUMBER, "big"), told)).decode("ascii")


def genuine(part: "types.Part") -> bool:
    """Whether a part came back with the signature it was given, or with one that is documented."""
    given = part.thought_signature or b""
    if given in _FOREIGN_BYTES:
        return True
    call = part.function_call
    told = _told(call.name, call.args) if call is not None else b""
    return given == _signed(given[:_NUMBER], told)


def _told(name: Json, args: Json) -> bytes:
    return canonical([name, args or {}])


def _signed(number: bytes, told: bytes) -> bytes:
    """As long as real ones are when little was thought: some 200 bytes."""
    pieces = [number]
    for _ in range(_ROUNDS):
        pieces.append(hashlib.blake2b(pieces[-1] + told, person=b"weft signature").digest())
    return b"".join(pieces)


_FOREIGN_BYTES = {
    found
    for text in _FOREIGN
    for found in (text.encode("ascii"), base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
}
"""They are text that is read as base64; a client may also have encoded them properly."""
