"""Say the same large value once."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from weft.declare.policy.transforms import Dedupe
from weft.ir import Block, CallBlock, Item, Note, Prompt, ResultBlock, TextBlock
from weft.ir.handle import RECALL
from weft.passes.env import Env
from weft.passes.handles import result_tokens
from weft.values import JsonObject, canonical, compact

LETTERS = 200
"""Shorter values are not worth a word about them."""

STALE = 400
"""How long an older version must be that its place is worth a change of what was sent."""

ALIKE = 0.5
"""The share of an older version's lines that another must have to be one of the same thing."""

_SUBJECT = re.compile(r"^(?:path|file|filename|file_?path|uri|url|key|name|id)$|_(?:path|file|id)$")


def dedupe_items(prompt: Prompt, env: Env, options: Dedupe) -> Prompt:
    """Replace copies of a large value by a word about where it stands.

    "exact": a result, or another agent's text, that stands further up word for word. The new copy
    gives way, so nothing that was sent changes. "superseded": a result of a call that was made
    again, or another version of the same file or key. There the older one gives way, since it
    says what is no longer so; that changes what was sent, and is reported as such. Where a later
    one failed, or gives only a part of it, the older one stays.

    Before:  call read(a) -> 90 lines | call read(a) -> the same 90 lines
    After:   call read(a) -> 90 lines | call read(a) -> "[the same as read({...}) gave above]"
    """
    if options.how == "superseded":
        return _superseded(prompt, env)
    return _exact(prompt, env)


def _exact(prompt: Prompt, env: Env) -> Prompt:
    seen: dict[object, str] = {}
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        calls = {block.id: block for block in item.blocks if isinstance(block, CallBlock)}
        blocks = tuple(_once(block, item, calls, seen, env) for block in item.blocks)
        if all(new is old for new, old in zip(blocks, item.blocks, strict=True)):
            kept.append(item)
            continue
        short = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note("dedupe_items", "the same stands further up", item, short))
        kept.append(short)
    return prompt.with_items(kept, notes) if notes else prompt


def _once(
    block: Block, item: Item, calls: dict[str, CallBlock], seen: dict[object, str], env: Env
) -> Block:
    """The block, or where its value stands already; what is new is remembered."""
    if isinstance(block, ResultBlock):
        text = compact(block.response)
        if len(text) < LETTERS or block.synthetic or block.media or block.name == RECALL:
            return block
        key = canonical(block.response)
        where = _called(block, calls)
    elif isinstance(block, TextBlock) and item.author not in ("user", env.agent):
        if len(block.text) < LETTERS or item.kind in ("summary", "state", "system"):
            return block
        key, where = block.text.encode("utf-8", "surrogatepass"), f"{item.author} said"
    else:
        return block
    first = seen.setdefault(key, where)
    if first is where:
        return block
    words = f"[the same as {first} above]"
    if isinstance(block, TextBlock):
        return msgspec.structs.replace(block, text=words, spans=(), kept=None)
    short = _said(block.response, words)
    if result_tokens(short, env) >= result_tokens(block.response, env):
        return block
    return msgspec.structs.replace(block, response=short)


def _called(block: ResultBlock, calls: dict[str, CallBlock]) -> str:
    """A call in words."""
    call = calls.get(block.call_id)
    args = compact(call.args) if call is not None and call.args else ""
    shown = args if len(args) <= 40 else ""
    return f"{block.name}({shown}) gave"


def _said(response: JsonObject, words: str) -> JsonObject:
    """The words in place of a result; a failure stays one."""
    return {"error" if list(response) == ["error"] else "result": words}


class _Told(NamedTuple):
    """A long result in its place, and what it is about."""

    item: int
    block: int
    name: str
    call: bytes
    subject: str
    text: str
    fails: bool


def _superseded(prompt: Prompt, env: Env) -> Prompt:
    items = list(prompt.items)
    told = [one for index, item in enumerate(items) for one in _told(index, item)]
    gone: dict[int, dict[int, str]] = {}
    calls: dict[bytes, _Told] = {}
    subjects: dict[str, list[_Told]] = {}
    for one in reversed(told):
        versions = subjects.get(one.subject, []) if one.subject else []
        newest = calls.get(one.call) or next((v for v in versions if _is_version(v, one)), None)
        if newest is not None:
            if len(one.text) >= STALE:
                words = f"[superseded: {newest.name} gives it as it is now, further down]"
                gone.setdefault(one.item, {})[one.block] = words
        elif not one.fails:
            calls[one.call] = one
            subjects.setdefault(one.subject, []).append(one)
    notes: list[Note] = []
    for index, places in gone.items():
        item = items[index]
        blocks = tuple(
            msgspec.structs.replace(block, response=_said(block.response, places[at]), media=())
            if at in places and isinstance(block, ResultBlock)
            else block
            for at, block in enumerate(item.blocks)
        )
        items[index] = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note("dedupe_items", "a later result supersedes it", item, items[index]))
    return prompt.with_items(items, notes) if notes else prompt


def _told(index: int, item: Item) -> Iterator[_Told]:
    calls = {block.id: block for block in item.blocks if isinstance(block, CallBlock)}
    for at, block in enumerate(item.blocks):
        if not isinstance(block, ResultBlock) or block.synthetic or block.name == RECALL:
            continue
        call = calls.get(block.call_id)
        if call is not None:
            yield _Told(
                index,
                at,
                block.name,
                canonical([block.name, call.args]),
                _subject(call.args),
                compact(block.response),
                block.is_error,
            )


def _subject(args: JsonObject) -> str:
    """What a call is about: the file, the address or the key among its arguments."""
    for key, held in args.items():
        if _SUBJECT.search(key) and isinstance(held, str | int) and not isinstance(held, bool):
            return str(held)
    return ""


def _is_version(later: _Told, older: _Told) -> bool:
    """Whether a later result has most of what an older one said about the same thing."""
    if later.subject != older.subject:
        return False
    lines = _lines(older.text)
    return len(lines & _lines(later.text)) >= ALIKE * len(lines) and len(lines) > 1


def _lines(text: str) -> set[str]:
    return set(re.split(r"\\n|,\"", text))
