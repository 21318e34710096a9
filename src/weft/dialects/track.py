"""Lowered turns, kept from one request to the next."""

import hashlib
from threading import RLock
from typing import TypeAlias

import msgspec

from weft.diagnostics import Diagnostic
from weft.ir import Block
from weft.values import JsonObject, Strand, canonical

Wire: TypeAlias = JsonObject


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One element of the request's turns, and which block each part of it came from.

    Where several blocks were joined to one text, `joined` has them with the offset each ends at.
    """

    wire: Wire
    role: str
    blocks: tuple[tuple[str, Block], ...]
    joined: tuple[tuple[int, Block], ...] = ()


class Track:
    """Turns already lowered for the items that will not change any more.

    The last turn is kept apart: the next item may still be merged into it. `of` says whose
    items they are: the memo their snapshots share.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.of: object = None
        self.items = 0
        self.entries: Strand[Entry] = Strand()
        self.wires: list[Wire] = []
        self.open: Entry | None = None
        self.diagnostics: list[Diagnostic] = []
        self.hashed = 0
        self.hasher = hashlib.blake2b(digest_size=16)

    def settled_hash(self) -> "tuple[int, hashlib.blake2b]":
        """How many turns are final, and a hash over them, continued each time."""
        for wire in self.wires[self.hashed :]:
            self.hasher.update(canonical(wire))
        self.hashed = len(self.wires)
        return self.hashed, self.hasher.copy()
