"""How the items of an answer go back to Responses: with their ids, or loosened from them.

The provider ties an item to the reasoning before it by their ids, and refuses the one without
the other. So where the reasoning stays behind, the ids of what followed it stay behind too.
"""

from collections.abc import Sequence

import msgspec

from weft.dialects.track import Entry, Wire
from weft.ir import Block, CallBlock, OpaqueBlock, TextBlock, ThoughtBlock
from weft.values import Json, JsonObject

SEALED = frozenset(("reasoning", "compaction"))
"""Items that only the very model can read that made them."""

_NAMELESS = frozenset(
    ("tool_search_call", "tool_search_output", "shell_call", "shell_call_output",
     "apply_patch_call", "apply_patch_call_output", "additional_tools")
)  # fmt: skip
"""Items of the provider's own that it takes without an id."""


def is_reasoning(block: Block) -> bool:
    """Whether what follows may be tied to this block."""
    if isinstance(block, OpaqueBlock):
        return block.payload.get("type") == "reasoning"
    return isinstance(block, ThoughtBlock)


def is_readable(block: Block) -> bool:
    """Whether reasoning carries what was thought; an id alone means nothing where none is kept."""
    if isinstance(block, OpaqueBlock):
        return bool(block.payload.get("encrypted_content") or block.payload.get("content"))
    if not isinstance(block, ThoughtBlock) or block.kept is None:
        return False
    return bool(block.signature or block.kept.get("content"))


def loosened(block: Block) -> Block | None:
    """The block without the id that ties it to reasoning; None where it cannot be without."""
    kept = block.kept or {}
    if isinstance(block, TextBlock) and isinstance(envelope := kept.get("message"), dict):
        phase: JsonObject = {"phase": envelope["phase"]} if envelope.get("phase") else {}
        return msgspec.structs.replace(block, kept=phase or None)
    if isinstance(block, CallBlock) and "id" in kept:
        rest: JsonObject = {key: value for key, value in kept.items() if key != "id"}
        return msgspec.structs.replace(block, kept=rest)
    if isinstance(block, OpaqueBlock):
        if block.payload.get("type") not in _NAMELESS:
            return None
        payload: JsonObject = {key: value for key, value in block.payload.items() if key != "id"}
        return msgspec.structs.replace(block, payload=payload)
    return block


def reasoning(block: ThoughtBlock) -> Wire:
    """A reasoning item of a thought; fields it keeps of its own are not here."""
    wire: Wire = {"type": "reasoning", "summary": summary_of(block.text)}
    return {**wire, "encrypted_content": block.signature} if block.signature else wire


def summary_of(text: str) -> list[Json]:
    """A summary as the provider writes it, of one piece or of none."""
    return [{"type": "summary_text", "text": text}] if text else []


def message(text: str, kept: JsonObject) -> Wire:
    """The message a text came in, with this text alone; `kept` has what stood beside it."""
    envelope = kept["message"]
    assert isinstance(envelope, dict)
    piece: Wire = {"type": "output_text", "text": text}
    if kept.get("type") == "refusal":
        piece = {"type": "refusal", "refusal": text}
    piece |= {key: value for key, value in kept.items() if key != "message"}
    return {"type": "message", "role": "assistant", **envelope, "content": [piece]}


def gathered(entries: Sequence[Entry]) -> list[Entry]:
    """The items, the texts of one message in one."""
    made: list[Entry] = []
    for entry in entries:
        if made and (whole := _whole(made[-1], entry)) is not None:
            made[-1] = whole
        else:
            made.append(entry)
    return made


def _whole(first: Entry, second: Entry) -> Entry | None:
    """Two pieces of one message as one; None where they are not of one."""
    before, after = first.wire.get("content"), second.wire.get("content")
    if second.wire.get("type") != "message" or not (
        isinstance(before, list) and isinstance(after, list)
    ):
        return None
    if {**first.wire, "content": None} != {**second.wire, "content": None}:
        return None
    moved = tuple((f"/content/{len(before)}", block) for _, block in second.blocks)
    return Entry({**first.wire, "content": before + after}, first.role, first.blocks + moved)


def answered_by_kind(entries: list[Entry]) -> list[Entry]:
    """The items with each result in the form that its call asks for."""
    custom = [
        entry.wire["call_id"] for entry in entries if entry.wire.get("type") == "custom_tool_call"
    ]
    if not custom:
        return entries
    made: list[Entry] = []
    for entry in entries:
        wire = entry.wire
        if wire.get("type") == "function_call_output" and wire["call_id"] in custom:
            wire = {**wire, "type": "custom_tool_call_output"}
            entry = msgspec.structs.replace(entry, wire=wire)
        made.append(entry)
    return made
