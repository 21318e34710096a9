"""What a policy changed of a request, written into the caller's own JSON.

The passes say what becomes of each item. What they left alone is the caller's object, or his bytes.
Of a part that they changed, only the fields are written anew that say something else now. What they
dropped goes with its message, and what they added is a message of its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import NamedTuple, TypeAlias, cast

import msgspec

from weft.compaction.reading import PartPlace, Path, ReadHistory
from weft.content import Part
from weft.dialects import Dialect
from weft.dialects.base import result_text
from weft.dialects.caching import MARKS
from weft.dialects.track import LoweringReport
from weft.dialects.wire import deep_update, difference, object_in
from weft.ir import Block, CallBlock, Item, ResultBlock, TextBlock
from weft.values import Json, JsonObject, compact

Key: TypeAlias = tuple[int, int]
"""A part in the log: the number of its event, and its own in it."""

PatchedField: TypeAlias = "tuple[Path, Json]"
"""A place in a message, and what stands there now."""


class PartChange(msgspec.Struct):
    """A part that says something else now.

    By the bytes of its message, in which marks for the cache may have moved since, it knows the
    fields by which it does, and the bytes after them where it is the first change of the message.
    """

    path: Path
    before: Block
    after: Block
    fields: tuple[bytes, tuple[PatchedField, ...]] = (b"", ())
    spliced: tuple[bytes, bytes] = (b"", b"")

    @property
    def words(self) -> tuple[Path, str]:
        """What tells it from another change of the same message."""
        return self.path, spell_block(self.after)


class Insertion(NamedTuple):
    """An item that stands nowhere in what came, and the message before which it goes."""

    message: int
    item: Item


class RequestEdit(NamedTuple):
    """What a policy did to a request: by message what changed and what goes, and what is new.

    A message whose drops are the empty path goes as a whole. `plain` and `seen` are the items
    without the policy and with it; `reaches` has, for each of both, the highest message that it or
    an item before it stands in: a late result stands far from its call. In an earlier request that
    this one begins with, the first `stable` messages were the same.
    """

    changes: Mapping[int, list[PartChange]] = {}
    drops: Mapping[int, list[Path]] = {}
    insertions: Sequence[Insertion] = ()
    plain: Sequence[Item] = ()
    seen: Sequence[Item] = ()
    reaches: tuple[Sequence[int], Sequence[int]] = ((), ())
    stable: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the request stays as it came."""
        return not (self.changes or self.drops or self.insertions)


def compare_items(
    plain: Sequence[Item],
    seen: Sequence[Item],
    history: ReadHistory,
    earlier: RequestEdit,
    length: int,
    *,
    hides: bool,
) -> RequestEdit:
    """What a policy did, from the items without it and those with it.

    A result that every request bounds stays bounded only if the policy `hides`: whoever cannot ask
    for it gets it whole. `earlier` is what the policy did to a request of `length` messages that
    this one begins with: the items that are the same need no second look.
    """
    places = _Places(history)
    ends = [places.count_common(plain, earlier.plain), places.count_common(seen, earlier.seen)]
    gone = (*earlier.plain[ends[0] :], *earlier.seen[ends[1] :])
    reaches = (
        places.reaches_of(plain, earlier.reaches[0][: ends[0]]),
        places.reaches_of(seen, earlier.reaches[1][: ends[1]]),
    )
    first = _first_message((plain, seen), reaches, ends, gone, places, history.length)
    changes = {at: listed for at, listed in earlier.changes.items() if at < first}
    drops = {at: listed for at, listed in earlier.drops.items() if at < first}
    insertions, changed = _keep_insertions(earlier, seen, ends[1], first)
    before = {key: block for item in plain[ends[0] :] for key, block in places.keys(item)}
    after = {key: block for item in seen[ends[1] :] for key, block in places.keys(item)}
    stays: set[int] = set()
    for key, block in before.items():
        place = places.at(key)
        now = after.get(key)
        if now is None:
            drops.setdefault(place.message, []).append((place.path or ())[:2])
            continue
        stays.add(place.message)
        if not places.is_told_as_it_came(key, block):
            continue  # what it is told in now has no place in what came
        if hides and isinstance(block, ResultBlock) and block.handle:
            block = places.read_whole(key, block)
        if place.path is not None and not _says_the_same(block, now):
            changes.setdefault(place.message, []).append(PartChange(place.path, block, now))
    for at in drops.keys() - stays:
        if at >= first:
            drops[at] = [()]  # nothing of it is left, so what nobody read of it goes too
    waiting: list[Item] = []
    for item in seen[ends[1] :]:
        messages = places.messages_of(item)
        if messages:
            insertions += [Insertion(messages[0], one) for one in waiting]
            waiting = []
        elif item not in plain:  # every request may have it, policy or not
            waiting.append(item)
    insertions += [Insertion(history.length, one) for one in waiting]
    edit = RequestEdit(changes, drops, insertions, plain, seen, reaches)
    return edit._replace(stable=_count_stable(edit, earlier, changed, length))


def _keep_insertions(
    earlier: RequestEdit, seen: Sequence[Item], end: int, first: int
) -> tuple[list[Insertion], int]:
    """The insertions whose items are still seen before `end`, and the first message that changed.

    An item that stands nowhere may be gone although what follows it is as it was.
    """
    known = [one for one in earlier.insertions if one.message < first]
    same = {id(item) for item in seen[:end]} if known else set[int]()
    insertions = [one for one in known if id(one.item) in same]
    return insertions, min([first, *(one.message for one in known if id(one.item) not in same)])


def _first_message(
    both: tuple[Sequence[Item], Sequence[Item]],
    reaches: tuple[Sequence[int], Sequence[int]],
    ends: list[int],
    gone: Sequence[Item],
    places: "_Places",
    length: int,
) -> int:
    """The first message that must be looked at again; `ends` are moved back to its items.

    `gone` are items of the earlier request that this one has no more.
    """
    first = length
    fresh = (item for items, end in zip(both, ends, strict=True) for item in items[end:])
    waiting = [places.messages_of(item) for item in (*gone, *fresh)]
    while True:
        first = min((first, *(min(one) for one in waiting if one)))
        waiting = list[list[int]]()
        for side, items in enumerate(both):
            while ends[side]:
                messages = places.messages_of(items[ends[side] - 1])
                # what stands nowhere goes with what follows it
                if messages and reaches[side][ends[side] - 1] < first:
                    break
                ends[side] -= 1
                waiting.append(messages)
        if not any(waiting):
            return first


def _count_stable(edit: RequestEdit, earlier: RequestEdit, first: int, length: int) -> int:
    """How many messages of the earlier request are in this one in the same words."""
    for at in range(first, length):
        same = _inserted_at(edit, at) == _inserted_at(earlier, at)
        if not same or not _is_same_edit(at, edit, earlier):
            return at
    return length


def _inserted_at(edit: RequestEdit, message: int) -> list[tuple[Block, ...]]:
    return [one.item.blocks for one in edit.insertions if one.message == message]


class Joined(NamedTuple):
    """System texts of several messages that stand as one now."""

    messages: tuple[int, ...]


Place: TypeAlias = "int | Item | Joined"

MessageOrder: TypeAlias = "Sequence[Place]"
"""The messages of a request after an edit: which one of those that came, or what was made."""


def place_system(order: list[Place], messages: list[Json], length: int) -> int:
    """Put system texts where a provider takes them; how many messages stay at the beginning.

    One in mid-conversation must follow the user, and the model must speak after it. Where a policy
    took the neighbours of one away it goes to the next such place, and joins what stands there.
    `length` is that of the request as it came.
    """
    waiting: list[tuple[Place, Json]] = []
    placed: list[tuple[Place, Json]] = []
    for at, (place, message) in enumerate(zip(order, messages, strict=True)):
        if _is_displaced(order, messages, at, length):
            waiting.append((place, message))
            continue
        follows = bool(waiting and placed) and _is_said_by(placed[-1][1], "user")
        if follows and _is_said_by(message, "system"):
            placed += _join_texts([*waiting, (place, message)])
            waiting = []
            continue
        if follows and _is_said_by(message, "assistant"):
            placed += _join_texts(waiting)
            waiting = []
        placed.append((place, message))
    placed += _join_texts(waiting)
    same = sum(
        takewhile(bool, (old is new for old, (_, new) in zip(messages, placed, strict=False)))
    )
    order[:] = [place for place, _ in placed]
    messages[:] = [message for _, message in placed]
    return same


def _is_displaced(order: list[Place], messages: list[Json], at: int, length: int) -> bool:
    """Whether a system text has lost a neighbour that it came with."""
    place = order[at]
    if not isinstance(place, int) or not _is_said_by(messages[at], "system"):
        return False
    before = order[at - 1] if at else -1
    after = order[at + 1] if at + 1 < len(order) else length
    # one that says nothing is a setting, which may stand anywhere
    return (before, after) != (place - 1, place + 1) and object_in(messages[at]).get(
        "content"
    ) != []


def _is_said_by(message: Json, role: str) -> bool:
    return isinstance(message, dict) and message.get("role") == role


def _join_texts(texts: list[tuple[Place, Json]]) -> Iterator[tuple[Place, Json]]:
    """System texts as one; each alone if something comes with one that is not for the others."""
    if len(texts) < 2 or any({*object_in(one)} != {"role", "content"} for _, one in texts):
        yield from texts
        return
    sources: list[int] = []
    blocks: list[Json] = []
    for place, message in texts:
        sources += place.messages if isinstance(place, Joined) else (cast("int", place),)
        content = object_in(message)["content"]
        words: list[Json] = [{"type": "text", "text": content}]
        blocks += content if isinstance(content, list) else words
    yield Joined(tuple(sources)), {"role": "system", "content": blocks}


def count_common(
    edit: RequestEdit, order: MessageOrder, earlier: RequestEdit, earlier_order: MessageOrder
) -> int:
    """How many messages two edited requests begin with in the same words."""
    common = 0
    for one, other in zip(order, earlier_order, strict=False):
        if isinstance(one, Item):
            is_same = isinstance(other, Item) and one.blocks == other.blocks
        elif isinstance(one, Joined):
            is_same = one == other
        else:
            is_same = one == other and _is_same_edit(one, edit, earlier)
        if not is_same:
            break
        common += 1
    return common


def _is_same_edit(message: int, edit: RequestEdit, earlier: RequestEdit) -> bool:
    now, before = edit.changes.get(message, ()), earlier.changes.get(message, ())
    same = now is before or [one.words for one in now] == [one.words for one in before]
    return same and edit.drops.get(message) == earlier.drops.get(message)


class _Places:
    """Where the blocks of items stand."""

    def __init__(self, history: ReadHistory) -> None:
        self._places = history.places.since(0)
        self._events = history.session.events

    def at(self, key: Key) -> PartPlace:
        """The place of a part."""
        return self._places[key[0] - 1][key[1]]

    def _part(self, key: Key) -> Part:
        content = self._events[key[0] - 1].content
        return ((content.parts if content is not None else None) or ())[key[1]]

    def is_told_as_it_came(self, key: Key, block: Block) -> bool:
        """Whether a block is of the kind of its part: a result without its call is not."""
        part = self._part(key)
        if isinstance(block, TextBlock):
            return part.function_call is None and part.function_response is None
        return True

    def read_whole(self, key: Key, block: ResultBlock) -> ResultBlock:
        """A result as it came, in place of the digest that every request has of it."""
        result = self._part(key).function_response
        if result is None:
            return block
        return msgspec.structs.replace(block, response=result.response or {}, handle="")

    def keys(self, item: Item) -> Iterator[tuple[Key, Block]]:
        """The parts that an item was made of; none for one that a pass made."""
        if item.kind in _MADE:
            return
        for block in item.blocks:
            origin = block.origin
            if origin.kind != "event" or origin.part < 0:
                continue
            if isinstance(block, ResultBlock) and block.synthetic:
                continue
            number = int(origin.name[1:])
            if origin.part < len(self._places[number - 1]):
                yield (number, origin.part), block

    def messages_of(self, item: Item) -> list[int]:
        """The messages that an item stands in."""
        return [self.at(key).message for key, _ in self.keys(item)]

    def reaches_of(self, items: Sequence[Item], known: Sequence[int]) -> Sequence[int]:
        """For each item the highest message that it or one before it stands in.

        It is `known` of the first ones.
        """
        reaches = [*known]
        highest = reaches[-1] if reaches else -1
        for item in islice(items, len(reaches), None):
            highest = max(highest, *self.messages_of(item), -1)
            reaches.append(highest)
        return reaches

    def count_common(self, items: Sequence[Item], earlier: Sequence[Item]) -> int:
        """How many of the first items are the same."""
        common = 0
        for one, other in zip(items, earlier, strict=False):
            if one is not other:
                break
            common += 1
        return common


_MADE = frozenset(("summary", "system", "state"))
"""Kinds of items that stand for nothing that came, even if they say of which event they tell."""


def _says_the_same(before: Block, after: Block) -> bool:
    """Whether a model reads the same in both: ids and what is only known of them do not count."""
    match before, after:
        case ResultBlock(), ResultBlock():
            same = before.response is after.response or before.response == after.response
            return same and len(before.media) == len(after.media)
        case TextBlock(), TextBlock():
            return before.text == after.text
        case CallBlock(), CallBlock():
            return before.args is after.args or before.args == after.args
        case _:
            return type(before) is type(after)


def spell_block(block: Block) -> str:
    """What a model reads of a text, a result or a call."""
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ResultBlock):
        return result_text(block)
    return compact(block.args) if isinstance(block, CallBlock) else ""


# --- in objects


class Patcher:
    """Writes edits into messages of one dialect."""

    def __init__(self, dialect: Dialect, model: str) -> None:
        self.dialect = dialect
        self.model = model

    def patch_message(
        self, message: Json, key: bytes, changes: Sequence[PartChange], drops: Sequence[Path]
    ) -> Json:
        """The message with its changes and without the parts that are dropped.

        `key` are its bytes.
        """
        patched = message
        for change in changes:
            known, fields = change.fields
            if known != key:
                fields = (*self._fields(message, change),)
                change.fields = key, fields
            for path, value in fields:
                patched = _put(patched, path, value)
        return _without(patched, drops) if drops else patched

    def spell_item(self, item: Item) -> list[JsonObject]:
        """The messages of an item that stands nowhere in what came."""
        return [entry.wire for entry in self.dialect.turns_of(item, self.model)]

    def _fields(self, message: Json, change: PartChange) -> Iterator[PatchedField]:
        """The fields of a message by which a part says what it says now."""
        path, before, after = change.path, change.before, change.after
        old = _value_at(message, path)
        if not isinstance(old, dict):  # a text that stands alone
            yield path, spell_block(after)
            return
        for name, value in difference(self._spell(before), self._spell(after)).items():
            key = name if name in old else _snake(name)
            key = key if key in old else name
            inner = old.get(key)
            if isinstance(inner, list) and isinstance(value, str | list):
                value = _with_text(inner, value, keeps_media=_keeps_media(before, after))
            elif isinstance(inner, dict) and isinstance(value, dict):
                below: JsonObject = {**inner}
                deep_update(below, value)
                value = below
            yield (*path, key), value

    def _spell(self, block: Block) -> JsonObject:
        report = LoweringReport(dialect=self.dialect.traits.name, strict=False, model=self.model)
        return self.dialect.part(block, report) or {}


def _keeps_media(before: Block, after: Block) -> bool:
    if not isinstance(before, ResultBlock) or not isinstance(after, ResultBlock):
        return False
    return len(before.media) == len(after.media)


def _with_text(pieces: list[Json], value: str | list[Json], *, keeps_media: bool) -> Json:
    """Pieces that say another text: in their first text, or alone where there are none."""
    text = value if isinstance(value, str) else "\n\n".join(_texts(value))
    rest = [one for one in pieces if keeps_media and not _is_text(one)]
    spoken = [cast("JsonObject", one) for one in pieces if _is_text(one)]
    if not text:
        return rest
    marks: JsonObject = {key: one[key] for one in spoken for key in MARKS if key in one}
    if spoken:
        return [{**spoken[0], "text": text, **marks}, *rest]
    if isinstance(value, str) and not rest:
        return value
    pieces_now = [one for one in value if _is_text(one)] if isinstance(value, list) else []
    kinds = [one.get("type") for one in pieces if isinstance(one, dict)]
    kind = "input_text" if any(str(one).startswith("input_") for one in kinds) else "text"
    return [*(pieces_now or [{"type": kind, "text": text}]), *rest]


def _is_text(piece: Json) -> bool:
    return isinstance(piece, dict) and isinstance(piece.get("text"), str)


def _texts(pieces: list[Json]) -> Iterator[str]:
    for one in pieces:
        text = one.get("text") if isinstance(one, dict) else None
        if isinstance(text, str):
            yield text


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


def _value_at(value: Json, path: Path) -> Json:
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
    return value


def _put(value: Json, path: Path, new: Json) -> Json:
    """A copy of the value with something else at the end of a path, or nothing for None."""
    if not path:
        return new
    key, below = path[0], path[1:]
    if isinstance(value, dict) and isinstance(key, str):
        if new is None and not below:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: _put(value.get(key), below, new)}
    if isinstance(value, list) and isinstance(key, int):
        return [*value[:key], _put(value[key], below, new), *value[key + 1 :]]
    return value


def _without(message: Json, drops: Sequence[Path]) -> Json:
    """The message without what stands at these places."""
    gone = {*drops}
    if not isinstance(message, dict):
        return message
    rest: JsonObject = {}
    for key, value in message.items():
        if (key,) in gone:
            continue
        if isinstance(value, list) and any(path[:1] == (key,) for path in gone):
            value = [one for index, one in enumerate(value) if (key, index) not in gone]
        rest[key] = value
    return rest
