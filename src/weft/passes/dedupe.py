"""Passes that say the same thing once."""

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from weft.declare.policy_parts import Dedupe
from weft.diagnostics import Origin
from weft.ir import (
    Block,
    CallBlock,
    Feature,
    Item,
    Note,
    Prompt,
    Reference,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.ir.block import RECALL
from weft.passes.env import Env
from weft.passes.handles import media_words, read_logged, result_tokens, with_media_words
from weft.passes.references import back_words, call_words
from weft.passes.rewrite import PassFold, rewrite_items
from weft.values import Json, JsonObject, canonical, compact, handle_of, spells

LETTERS = 200
"""In letters. A shorter value takes hardly more than the words that would stand for it."""

STALE = 400
"""In letters. For a shorter one it does not pay to change what was sent."""

ALIKE = 0.5
"""A later result with this share of an older one's lines, or more, is a newer version of it."""

_SUBJECT = re.compile(r"^(?:path|file|filename|file_?path|uri|url|key|name|id)$|_(?:path|file|id)$")


def dedupe_items(prompt: Prompt, env: Env, options: Dedupe) -> Prompt:
    """Replace copies of a large value by a word about where it stands.

    "exact": a result, or another agent's text, that stands further up word for word. The new copy
    gives way, so nothing that was sent changes. "superseded": a result of a call that was made
    again, or another version of the same file or key. There the older one gives way, since it
    says what is no longer so; that changes what was sent, and is reported as such. Where a later
    one failed, or gives only a part of it, the older one stays.

    Before:  call read(a) -> 90 lines | call read(a) -> the same 90 lines
    After:   call read(a) -> 90 lines | call read(a) -> "[the same as read(a) gave, ..., handle h]"
    """
    if options.how == "superseded":
        return _replace_superseded(prompt, env)
    return _exact(prompt, env)


def _exact(prompt: Prompt, env: Env) -> Prompt:
    def change(item: Item, seen: _LargeValues) -> Item | Note:
        own = item.author == env.agent and item.kind == "exchange"
        blocks: list[Block] = []
        for block in item.blocks:
            blocks.append(_once(block, item, seen.results if own else -1, seen.first, env))
            seen.results += own and isinstance(block, ResultBlock)
        if all(new is old for new, old in zip(blocks, item.blocks, strict=True)):
            return item
        short = msgspec.structs.replace(item, blocks=tuple(blocks))
        return Note("dedupe_items", "the same stands further up", item, short)

    key = (env.agent, env.model.dialect, env.model.name)
    return rewrite_items(prompt, "dedupe_items", change, key=key, fold=_SEEN)


class _LargeValues:
    """Where each large value stands first, and how many results of the agent there are."""

    __slots__ = ("first", "results")

    def __init__(self, first: "MutableMapping[object, _FirstCopy] | None" = None) -> None:
        self.first: MutableMapping[object, _FirstCopy] = {} if first is None else first
        self.results = 0

    def over(self) -> "_LargeValues":
        """A passing copy for items that may still change."""
        copy = _LargeValues(ChainMap({}, self.first))
        copy.results = self.results
        return copy


_SEEN = PassFold(_LargeValues, _LargeValues.over)


class _FirstCopy(NamedTuple):
    """Where a value stands first: its block, the number of the agent's own result, and words."""

    block: Block
    handle: str
    number: int
    words: str


def _once(
    block: Block, item: Item, number: int, seen: MutableMapping[object, _FirstCopy], env: Env
) -> Block:
    """The block, or where its value stands already; what is new is remembered.

    Others are told in other words, with their quotes escaped: their calls have no arguments here.
    """
    if isinstance(block, ResultBlock):
        text = compact(block.response)
        if len(text) < LETTERS or block.synthetic or block.media or block.name == RECALL:
            return block
        if block.refers:
            return block  # what it says depends on where it stands
        key = canonical(block.response)
        words = f"{call_words(block, item) if number >= 0 else f'{block.name}()'} gave"
    elif isinstance(block, TextBlock) and item.author not in ("user", env.agent):
        if len(block.text) < LETTERS or item.kind in ("summary", "state", "system"):
            return block
        key, words = block.text.encode("utf-8", "surrogatepass"), f"{item.author} said"
    else:
        return block
    first = seen.get(key)
    if first is None:
        seen[key] = _FirstCopy(block, handle_of(read_logged(block, item, env)), number, words)
        return block
    back = number - first.number if number >= 0 and first.number >= 0 else 0
    where = back_words(back) if back else "above"
    refers = Reference(
        f"[the same as {first.words}, {where}, handle {first.handle}]",
        first.block.origin.name,
        first.block.origin.part,
        first.handle,
        back=back,
    )
    if isinstance(block, TextBlock):
        return msgspec.structs.replace(
            block, text=refers.words, spans=(), kept=None, refers=(refers,), whole=block.text
        )
    short = _in_place_of(block.response, refers.words)
    # letters are a rough measure: the handle and the arguments may take as many tokens
    if result_tokens(short, env) >= result_tokens(block.response, env):
        return block
    return msgspec.structs.replace(block, response=short, refers=(refers,), whole=block.response)


def _in_place_of(response: JsonObject, words: str) -> JsonObject:
    """The words in place of a result; a failure stays one."""
    return {"error" if list(response) == ["error"] else "result": words}


class _LongResult(NamedTuple):
    """A long result in its place, and what it is about."""

    item: int
    block: int
    name: str
    call: bytes
    subject: str
    text: str
    fails: bool


def _replace_superseded(prompt: Prompt, env: Env) -> Prompt:
    """O(n) once a request: what comes last decides about all before it."""
    items = list(prompt.items)
    results = [one for index, item in enumerate(items) for one in _results_of(index, item)]
    gone: dict[int, dict[int, _LongResult]] = {}
    calls: dict[bytes, _LongResult] = {}
    subjects: dict[str, list[_LongResult]] = {}
    # from the newest on: what is met first stands for all that came before it
    for one in reversed(results):
        versions = subjects.get(one.subject, []) if one.subject else []
        newest = calls.get(one.call) or next((v for v in versions if _is_version(v, one)), None)
        if newest is not None:
            if len(one.text) >= STALE:
                gone.setdefault(one.item, {})[one.block] = newest
        # a later call that failed says nothing about the thing
        elif not one.fails:
            calls[one.call] = one
            subjects.setdefault(one.subject, []).append(one)
    notes: list[Note] = []
    for index, places in sorted(gone.items()):
        item = items[index]
        blocks = tuple(
            _name_newer_result(block, places[at], item, prompt, env)
            if at in places and isinstance(block, ResultBlock)
            else block
            for at, block in enumerate(item.blocks)
        )
        items[index] = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note("dedupe_items", "a later result supersedes it", item, items[index]))
    return prompt.with_items(items, notes) if notes else prompt


def _name_newer_result(
    block: ResultBlock, newest: _LongResult, item: Item, prompt: Prompt, env: Env
) -> ResultBlock:
    """A word about the later result in place of an older one, with the handle of the older."""
    later = prompt.items[newest.item].blocks[newest.block].origin
    handle = handle_of(read_logged(block, item, env))
    words = f"[superseded: {newest.name} gives it as it is now, further down; handle {handle}]"
    whole = block.whole if block.whole is not None else block.response
    if block.media:
        words_for_media = [media_words(one, env, -1) for one in block.media]
        whole = with_media_words(whole, [one for one in words_for_media if one is not None])
    return msgspec.structs.replace(
        block,
        response=_in_place_of(block.response, words),
        media=(),
        refers=(Reference(words, later.name, later.part, handle, newer=True),),
        whole=whole,
    )


def _results_of(index: int, item: Item) -> Iterator[_LongResult]:
    calls = {block.id: block for block in item.blocks if isinstance(block, CallBlock)}
    for at, block in enumerate(item.blocks):
        if not isinstance(block, ResultBlock) or block.synthetic or block.name == RECALL:
            continue
        call = calls.get(block.call_id)
        if call is not None:
            yield _LongResult(
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
    for key, value in args.items():
        if _SUBJECT.search(key) and isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
    return ""


def _is_version(later: _LongResult, older: _LongResult) -> bool:
    """Whether a later result has most of what an older one said about the same thing."""
    if later.subject != older.subject:
        return False
    lines = _lines(older.text)
    # a single line is the same or another, never a version
    return len(lines & _lines(later.text)) >= ALIKE * len(lines) and len(lines) > 1


def _lines(text: str) -> set[str]:
    # the text is compact JSON: its line ends are escaped, and fields part at a comma
    return set(re.split(r"\\n|,\"", text))


GIVEN = "(My message is given above.)"
"""The text of a user turn whose own words stand in the instruction."""


def dedupe_state(prompt: Prompt, env: Env) -> Prompt:
    """Remove an answer whose value was substituted into the instruction.

    An upstream answer stored under a key, or in the list of a map, reaches the next agent twice:
    as a turn and inside `{key}`. The instruction wins, because it is shorter and says what it is.
    The user's own words that were captured stay a turn of the user's, which only says where they
    are: a request needs one, and the next request has it in the same place.

    Before:  system "Intent: booking" | user "Fly me to Oslo" | model "booking"
    After:   system "Intent: booking" | user "Fly me to Oslo"
    """
    if env.policy.duplicates or not env.instruction.carried:
        return prompt
    # nobody's answer was stored, and none of the user's words: nothing can be there twice
    if not prompt.features & Feature.WROTE and not env.instruction.captured:
        return prompt
    carried = env.instruction.carried
    texts = _list_texts(carried)
    captured = env.instruction.captured

    def change(item: Item, _: None) -> Item | Note:
        if captured and item.kind == "user" and item.author == "user":
            return _referring(item, env)
        if not item.wrote or item.kind != "model":
            return item
        return _note_answer(item, carried, texts) or item

    # it runs on new items only, whose thread begins again when another value is carried
    return rewrite_items(prompt, "dedupe_state", change)


def _referring(item: Item, env: Env) -> Item | Note:
    """The user's message; a reference stands for its words where the instruction carries them."""
    text = "".join(block.text for block in item.blocks if isinstance(block, TextBlock))
    key = next(
        (
            key
            for key in sorted(env.instruction.captured)
            if spells(text, env.instruction.carried[key])
        ),
        "",
    )
    if not key or not text:
        return item
    others = [block for block in item.blocks if not isinstance(block, TextBlock)]
    origin = Origin("pass", "dedupe_state")
    referring = replace(item, blocks=(TextBlock(role="user", origin=origin, text=GIVEN), *others))
    return Note("dedupe_state", f"the instruction carries it as {{{key}}}", item, referring)


def find_told(notes: Iterable[Note], carried: Mapping[str, Json]) -> set[int]:
    """The answers that were told, and that the instruction carries: the identities of items."""
    texts = _list_texts(carried)
    values = carried.values()
    items: set[int] = set()
    for note in notes:
        item = note.before
        if item.wrote and item.kind == "model":
            blocks = item.blocks
            only = blocks[0] if len(blocks) == 1 else None
            # nearly every answer is one text, and stands in the instruction as it is
            same = texts is not None and type(only) is TextBlock and only.text in values
            if same or _note_answer(item, carried, texts) is not None:
                items.add(id(note.after))
    return items


def note_left_out(notes: Iterable[Note], carried: Mapping[str, Json]) -> Iterator[Note]:
    """The notes, where those on answers that the instruction carries say so."""
    texts = _list_texts(carried)
    for note in notes:
        item = note.before
        carries = item.wrote and item.kind == "model"
        yield (_note_answer(item, carried, texts) if carries else None) or note


def _list_texts(carried: Mapping[str, Json]) -> frozenset[str] | None:
    """The values as texts without space around them; None where one of them is not a text."""
    texts: list[str] = []
    for value in carried.values():
        if not isinstance(value, str):
            return None
        texts.append(value.strip())
    return frozenset(texts)


def _note_answer(
    item: Item, carried: Mapping[str, Json], texts: frozenset[str] | None
) -> Note | None:
    """Why an answer that was written to keys is left out, if the instruction carries it."""
    blocks = item.blocks
    text: str | None
    if len(blocks) == 1 and type(blocks[0]) is TextBlock:  # as nearly every answer
        text = blocks[0].text
    else:
        text = _answer_text(item)
    # most answers are not carried: for texts a look into the set tells
    if text is None or (texts is not None and text.strip() not in texts):
        return None
    return note_carried(item, text, carried)


def _answer_text(item: Item) -> str | None:
    """All that an answer says; None where there is more to it than words."""
    blocks = item.blocks
    if not all(isinstance(block, TextBlock | ThoughtBlock) for block in blocks):
        return None
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def note_carried(item: Item, text: str, carried: Mapping[str, Json]) -> Note | None:
    """Why an answer is left out, if the instruction carries what it says."""
    key = find_carried(item.wrote, text, carried)
    return Note("dedupe_state", f"the instruction carries it as {{{key}}}", item) if key else None


def find_carried(wrote: Sequence[str], text: str, carried: Mapping[str, Json]) -> str:
    """The key under which the instruction carries a text that was written to keys, if any."""
    for key in (*wrote, *carried):  # its own key first; it may have been renamed since
        value = carried.get(key)
        if value == text:  # nearly always, and the quickest to tell
            return key
        if value is not None and any(spells(text, one) for one in _each(value)):
            return key
    return ""


def _each(value: Json) -> list[Json]:
    """A value, and the elements of a list, such as a map collects."""
    return [value, *value] if isinstance(value, list) else [value]
