"""References: words that stand for another value, or lines of it, while that is in view.

Who refers to a value says which it is, how far up it stands, which lines of it are meant, and its
handle. When the value goes, or is cut, what referred to it says again what it says without
references; where there is no room for that, the handle alone stays.
"""

import base64
import functools
import json
import re
import unicodedata
import urllib.parse
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import msgspec

from weft.digest.repeats import LineSource, Stretch
from weft.ir import Block, CallBlock, Item, Note, Prompt, Reference, ResultBlock, TextBlock
from weft.late import late_pattern
from weft.passes.env import Env
from weft.passes.handles import logged, sole_text
from weft.passes.rewrite import PassFold, fold_items
from weft.values import Json, compact, handle_of, has_lone_surrogate, scrub

ARGS = 40
"""How many letters of arguments a reference repeats; longer arguments are left out."""

ROUNDS = 3
"""How often a budget is tried: what is said again takes room, and then more may have to go."""

_Place: TypeAlias = tuple[str, int]
"""Where the log has a value: the event and the part."""


def call_words(block: ResultBlock, item: Item) -> str:
    """The call of a result in words."""
    for one in item.blocks:
        if isinstance(one, CallBlock) and one.id == block.call_id:
            args = compact(one.args) if one.args else ""
            return f"{block.name}({args if len(args) <= ARGS else '…'})"
    return f"{block.name}()"


def back_words(back: int) -> str:
    """How far up a result stands."""
    return f"{back} results above" if back > 1 else "the result above"


def logged_text(block: ResultBlock, item: Item, env: Env) -> str:
    """The one text of a result as the log has it; nothing where it has more, or none."""
    whole = logged(block, item, env)
    return sole_text(whole) if isinstance(whole, dict) else ""


def source_of(block: ResultBlock, item: Item, number: int, whole: Json) -> LineSource:
    """A result to refer to: `whole` is what the log has, `number` counts the agent's own."""
    return LineSource(
        sole_text(whole).split("\n") if isinstance(whole, dict) else [""],
        event=block.origin.name,
        part=block.origin.part,
        words=call_words(block, item),
        handle=handle_of(whole),
        number=number,
    )


def reference_to(one: Stretch, number: int) -> Reference:
    """What stands for a stretch of lines in the agent's own result of this number."""
    source, back = one.source, number - one.source.number
    where = f"{source.words}, {back_words(back)}, handle {source.handle}"
    return _reference(f"[as lines {one.line + 1}-{one.line + one.size} of {where}]", one, back)


def reference_to_end(one: Stretch, number: int) -> Reference:
    """The same in fewer words, where the stretch is the end of both texts."""
    back = number - one.source.number
    where = f"{'in ' if back == 1 else ''}{back_words(back)}"
    return _reference(f"[last {one.size} lines as {where}]", one, back)


def _reference(words: str, one: Stretch, back: int) -> Reference:
    source, end = one.source, one.line + one.size
    return Reference(words, source.event, source.part, source.handle, one.line + 1, end, back)


def own_results(item: Item, agent: str) -> Iterator[ResultBlock]:
    """The results in an item that are sent as results, which are the agent's own."""
    if item.author == agent and item.kind == "exchange":
        yield from (block for block in item.blocks if isinstance(block, ResultBlock))


def restore_references(prompt: Prompt, env: Env) -> Prompt:
    """Say again what refers to something that is not in view any more, or not as it was.

    A policy may drop, cut or replace the result that others refer to. The next one that has its
    lines then says them in full, and the others refer to that one. What a budget will leave out
    is known before, by trying it, so that nothing refers to that either.

    Before:  call open(a) -> "[dropped: ...]" | call edit(a) -> "[as lines 1-40 of open(a) ...]"
    After:   call open(a) -> "[dropped: ...]" | call edit(a) -> 40 lines
    """
    if env.tokens.measure is None or (env.policy.limit is None and env.tokens.budget is None):
        return _restore_in_order(prompt, env) or _restore_at_once(prompt, env)
    return _restore_at_once(prompt, env)


_REASON = "what it refers to is not in view as it was"


def _restore_in_order(prompt: Prompt, env: Env) -> Prompt | None:
    """The prompt as `_restore_at_once` has it, item by item; None where that does not do.

    Nearly all references point back, so that the items before one decide what becomes of it.
    """

    def change(item: Item, view: _ReferenceView) -> Item | Note:
        view.env = env
        view.expect(item)
        after = view.restored(item)
        view.add(after)
        return item if after is item else Note("restore_references", _REASON, item, after)

    key = (env.agent, env.model.dialect, env.model.name)
    fold = PassFold(lambda: _ReferenceView(env), lambda view: view.over(env), _ReferenceView.back)
    after = fold_items(prompt, "restore_references", change, key=key, fold=fold)
    return after.prompt if after.state.in_order else None


def _restore_at_once(prompt: Prompt, env: Env) -> Prompt:
    """O(n) once a request: a budget takes from all items, or something refers to a later one."""
    items = prompt.items.since(0)
    # the usual case
    if not any(_refers(block) for item in items for block in item.blocks):
        return prompt
    remaining: _Left | None = None
    after = prompt
    for _ in range(ROUNDS):
        restored = _restored(items, remaining, env)
        notes = [
            Note("restore_references", _REASON, old, new)
            for old, new in zip(items, restored, strict=True)
            if new is not old
        ]
        after = prompt.with_items(restored, notes) if notes else prompt
        now_remaining = _left_by_budget(after, env)
        if now_remaining is None or now_remaining == remaining:
            break
        # what went in one round does not come back in the next
        remaining = (
            now_remaining
            if remaining is None
            else _Left(remaining.there & now_remaining.there, remaining.same & now_remaining.same)
        )
    return after


class _Left(NamedTuple):
    """The keys of items that a budget leaves, and of those that it leaves as they are."""

    there: frozenset[object]
    same: frozenset[object]


def _left_by_budget(prompt: Prompt, env: Env) -> _Left | None:
    """What the budget will leave of a request; None where it all stays."""
    if env.tokens.measure is None or (env.policy.limit is None and env.tokens.budget is None):
        return None
    # that chapter imports this one
    from weft.passes.budget import fit_budget

    fitted = fit_budget(prompt, env)
    if fitted is prompt:
        return None
    before = {item.key: item for item in prompt.items}
    there = {item.key: item for item in fitted.items}
    same = [key for key, item in there.items() if before.get(key) is item]
    return _Left(frozenset(there), frozenset(same))


def _restored(items: Sequence[Item], remaining: _Left | None, env: Env) -> list[Item]:
    """The items, in which nothing refers to what is not in view."""
    view = _ReferenceView(env)
    for item in items:
        if remaining is None or item.key in remaining.there:
            view.expect(item)
    restored: list[Item] = []
    for item in items:
        if remaining is not None and item.key not in remaining.there:
            restored.append(item)
            continue
        item = view.restored(item)
        restored.append(item)
        if remaining is None or item.key in remaining.same:
            view.add(item)
    return restored


def repointed(items: Sequence[Item], before: Sequence[Item], env: Env) -> list[Item]:
    """The items, in which a reference to something that has gone becomes its handle."""
    if not any(_refers(block) for item in items for block in item.blocks):
        return list(items)
    view = _ReferenceView(env, {id(block) for item in before for block in item.blocks})
    for item in items:
        view.expect(item)
        view.add(item)
    repointed_items: list[Item] = []
    for item in items:
        blocks = tuple(map(view.repointed, item.blocks))
        new = any(one is not other for one, other in zip(blocks, item.blocks, strict=True))
        repointed_items.append(msgspec.structs.replace(item, blocks=blocks) if new else item)
    return repointed_items


def notes_on_repointed(after: Sequence[Item], before: Sequence[Item]) -> list[Note]:
    """A note on each item that names only a handle by now."""
    reason = "what it refers to has gone, so its handle stands for it"
    return [
        Note("fit_budget", reason, old, new)
        for new, old in zip(after, before, strict=True)
        if new is not old
    ]


class _ReferenceView:
    """What is in view, as references name it; `same` blocks are as they were when referred to."""

    def __init__(self, env: Env, same: set[int] | None = None) -> None:
        self.env = env
        self._same = same
        self._blocks: MutableMapping[_Place, tuple[Block, Item]] = {}
        self._numbers: MutableMapping[_Place, int] = {}
        self._counted = 0
        self._there: set[_Place] = set()
        self._own: list[tuple[ResultBlock, Item, int]] = []
        self._before: Sequence[tuple[ResultBlock, Item, int]] = ()
        self._items: list[Item] = []
        self.in_order = True
        """Whether items can be taken in one by one: no result came twice, nothing points ahead."""
        self._unique = True
        """Whether no place came twice, so that it can be taken out again."""

    def back(self, length: int) -> "_ReferenceView":
        """What was in view after the first items."""
        view = _ReferenceView(self.env)
        if not self.in_order:  # items are restored at once then, so that it is not looked at
            view.in_order = False
            return view
        # a place that came twice cannot be taken out: the view is made anew
        if not self._unique:
            for item in self._items[:length]:
                view.expect(item)
                view.add(item)
            return view
        view._items = self._items[:length]
        view._blocks, view._numbers = dict(self._blocks), dict(self._numbers)
        gone = 0
        for item in self._items[length:]:
            for block in item.blocks:
                view._blocks.pop((block.origin.name, block.origin.part), None)
            for result in own_results(item, self.env.agent):
                del view._numbers[result.origin.name, result.origin.part]
                gone += 1
        view._own = self._own[: len(self._own) - gone]
        view._counted = len(view._numbers)
        return view

    def over(self, env: Env) -> "_ReferenceView":
        """A passing copy, for items that may still change."""
        copy = _ReferenceView(env)
        copy._blocks = ChainMap({}, self._blocks)
        copy._numbers = ChainMap({}, self._numbers)
        copy._counted, copy.in_order = self._counted, self.in_order
        copy._before = self._own
        return copy

    def expect(self, item: Item) -> None:
        """Count an item that will be in view, in whichever form."""
        self._there.update((block.origin.name, block.origin.part) for block in item.blocks)
        for result in own_results(item, self.env.agent):
            place = (result.origin.name, result.origin.part)
            # results that were made up for calls without one all have the same place
            again = place in self._numbers
            self._numbers[place] = self._counted
            self._counted += not again
            if again:  # nothing refers to a result that stands for one that never came
                self._unique = False
                self.in_order = self.in_order and result.synthetic

    def restored(self, item: Item) -> Item:
        """The item, in which nothing refers to what is not in view."""
        if not any(map(self.lacks, item.blocks)):
            return item
        blocks = tuple(
            self.said_again(block, item) if self.lacks(block) else block for block in item.blocks
        )
        return msgspec.structs.replace(item, blocks=blocks)

    def add(self, item: Item) -> None:
        """Take in an item as it is sent."""
        self._items.append(item)
        for block in item.blocks:
            if isinstance(block, ResultBlock | TextBlock):
                place = (block.origin.name, block.origin.part)
                if place in self._blocks and self._blocks[place][1] is not item:
                    self._unique = False
                self._blocks[place] = (block, item)
        for result in own_results(item, self.env.agent):
            number = self._numbers.get((result.origin.name, result.origin.part), 0)
            self._own.append((result, item, number))

    def lacks(self, block: Block) -> bool:
        """Whether something that the block refers to is not there."""
        return _refers(block) and any(not self._holds(one, block) for one in _standing(block))

    def said_again(self, block: Block, item: Item) -> Block:
        """The block without references, or with others, to what is in view."""
        if isinstance(block, TextBlock) and block.whole is not None:
            return msgspec.structs.replace(block, text=block.whole, refers=(), whole=None)
        if not isinstance(block, ResultBlock) or block.whole is None:
            return block
        lines = any(one.last for one in block.refers)
        block = msgspec.structs.replace(block, response=block.whole, refers=(), whole=None)
        if not lines:
            return block
        # that chapter imports this one
        from weft.passes.auto import referring

        number = self._numbers[block.origin.name, block.origin.part]
        return referring(block, item, number, [*self._before, *self._own], self.env)

    def repointed(self, block: Block) -> Block:
        """The block with a handle in place of a reference to what is not there."""
        if not isinstance(block, ResultBlock | TextBlock) or not block.refers:
            return block
        gone = [one for one in _standing(block) if not self._holds(one, block)]
        if not gone:
            return block
        standing = tuple(one for one in block.refers if one not in gone)
        if isinstance(block, TextBlock):
            return msgspec.structs.replace(
                block, text=_renamed(block.text, gone), spans=(), kept=None, refers=standing
            )
        key = next(iter(block.response))
        text = _renamed(sole_text(block.response), gone)
        return msgspec.structs.replace(block, response={key: text}, refers=standing)

    def _holds(self, one: Reference, block: Block) -> bool:
        """Whether what the words of a block stand for is in view, where they say it is."""
        source, item = self._blocks.get((one.event, one.part), (None, None))
        if one.newer:
            self.in_order = False
            return (one.event, one.part) in self._there
        if source is None or item is None:
            return False
        if one.back:
            # the words count results back: with one fewer in between they would name another
            own = self._numbers.get((block.origin.name, block.origin.part), 0)
            if own - self._numbers.get((one.event, one.part), own) != one.back:
                return False
        # the very block that was referred to
        if self._same is not None and id(source) in self._same:
            return True
        if isinstance(source, TextBlock):
            return isinstance(block, TextBlock) and source.text == block.whole
        if not isinstance(source, ResultBlock):
            return False
        if not one.last:
            return isinstance(block, ResultBlock) and source.response == block.whole
        lines = logged_text(source, item, self.env).split("\n")[one.first - 1 : one.last]
        # line ends around both: a run must not match within a line
        wanted = "\n".join(lines)
        return f"\n{wanted}\n" in f"\n{sole_text(source.response)}\n"


def _refers(block: Block) -> bool:
    return isinstance(block, ResultBlock | TextBlock) and bool(block.refers)


def _standing(block: Block) -> list[Reference]:
    """The references that a block still has in its text, whatever was done to it since."""
    if isinstance(block, TextBlock):
        return [one for one in block.refers if one.words in block.text]
    if isinstance(block, ResultBlock):
        text = sole_text(block.response)
        return [one for one in block.refers if one.words in text]
    return []


def _renamed(text: str, gone: Sequence[Reference]) -> str:
    """The text with handles in place of the words of some references."""
    for one in gone:
        lines = f"lines {one.first}-{one.last} of " if one.last else ""
        text = text.replace(one.words, f"[left out: {lines}handle {one.handle}]")
    return text


LEAST = 4
"""How many characters a value must have to be looked for; a shorter one occurs by chance."""

_ALONE = 8
"""From how many characters on a value is found inside words too."""

_ENCODED = 6
"""From how many characters on its encodings are looked for."""

_KEPT = 8192
"""For how many texts the hits are remembered."""

_WORDS = late_pattern(r"""[^\s"'<>()\[\]{},;=]{6,}""")

_SOLID = late_pattern(r"[\W_]+")

_DATE = late_pattern(
    r"(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})?T?(?:\d\d?:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"
)

_QUOTED = late_pattern(
    r""""([^"\n]{6,200})"|'([^'\n]{6,200})'|`([^`\n]{6,200})`"""
    r"""|\[([^\[\]\n]{6,200})\]|\(([^()\n]{6,200})\)|<([^<>\n]{6,200})>"""
)

_SAID_BY_ALL = frozenset(
    (
        "true", "false", "null", "none", "success", "failed", "failure", "error", "errors",
        "active", "inactive", "pending", "done", "okay", "yes", "unknown", "open", "closed",
        "enabled", "disabled", "found", "missing", "valid", "invalid", "string", "object", "number",
        "integer", "boolean", "array", "user", "model", "system", "assistant", "result", "results",
        "value", "type", "name", "status", "code", "message", "text", "data", "list", "item",
        "items", "id",
    )
)  # fmt: skip
"""Words that every result has: they say nothing about anybody."""


class Hit(NamedTuple):
    """A stretch of a text in which values stand, and their labels."""

    start: int
    end: int
    labels: tuple[str, ...]


class _Value(NamedTuple):
    """One way a value may be spelled, and how it is found: `exact` minds upper and lower case."""

    needle: str
    labels: tuple[str, ...]
    exact: bool = False
    squeezed: bool = False


class Copies:
    """Values with their labels, to be found in texts; what was looked through is remembered."""

    def __init__(self, values: Mapping[str, tuple[str, ...]]) -> None:
        self.values = values
        spelled = list(_spellings(values))
        self._squeezed = [one for one in spelled if one.squeezed]
        self._exact = [one for one in spelled if one.exact]
        self._folded = [one for one in spelled if not (one.squeezed or one.exact)]
        names = {name for labels in values.values() for name in labels}
        self._marks = _marks_of(names)
        self._seen: dict[str, tuple[Hit, ...]] = {}

    def hits(self, text: str) -> tuple[Hit, ...]:
        """Where values stand in the text, in order, without overlaps."""
        hits = self._seen.get(text)
        if hits is None:
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            hits = self._seen[text] = self._find_hits(text)
        return hits

    def in_number(self, number: float) -> tuple[str, ...]:
        """The labels of a value that is this number."""
        return self.values.get(compact(number), ())

    def _find_hits(self, text: str) -> tuple[Hit, ...]:
        """Look for every spelling of every value; a pattern is made only where its letters are."""
        if len(text) < LEAST:
            return ()
        folded = text.casefold()
        solid = _SOLID.sub("", folded)
        # a search by `in` is fast: patterns are made only for what is there
        there = [one for one in self._folded if one.needle in folded]
        there += [one for one in self._exact if one.needle in text]
        there += [one for one in self._squeezed if one.needle in solid]
        if not there:
            return ()
        marks = [match.span() for match in self._marks.finditer(text)]
        hits: list[Hit] = []
        for one in there:
            places = [match.span() for match in _pattern_of(one).finditer(text)]
            if not places and not _by_chance(one, text):
                places = [(0, len(text))]  # it is there, in letters that cannot be told apart
            for start, end in places:
                if not any(rest <= start and end <= right for rest, right in marks):
                    hits.append(Hit(start, end, one.labels))
        return _merge_hits(hits)


def _by_chance(one: _Value, text: str) -> bool:
    """Whether the letters are there without being the value: in a longer word, or far apart."""
    if one.squeezed:
        return True
    short = len(one.needle) < _ALONE
    return short and re.search(re.escape(one.needle), text, re.IGNORECASE) is not None


def mark_of(labels: Iterable[str]) -> str:
    """What stands in place of something that carries these labels."""
    return f"[withheld: {', '.join(sorted(labels))}]"


def values_in(value: Json, *, common: bool) -> Iterator[str]:
    """The texts by which a value can be known again: its leaves, and what stands out in them.

    `common` says whether also words count that are in every result.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            # most keys are names of fields, and say nothing; an id as a key does
            if _stands_out(key):
                yield key
            yield from values_in(inner, common=common)
    elif isinstance(value, list):
        for inner in value:
            yield from values_in(inner, common=common)
    elif isinstance(value, str):
        yield from _texts_to_find(value, common=common)
    elif value is not None and not isinstance(value, bool):
        text = compact(value)
        if sum(char.isdigit() for char in text) >= LEAST:
            yield text
            if isinstance(value, int):
                yield f"{value:,}"


def _texts_to_find(text: str, *, common: bool) -> Iterator[str]:
    """What of a text is looked for: all of it, lines, what is quoted, words that stand out."""
    whole = text.strip()
    if len(whole) < LEAST:
        return
    if whole[0] in "{[" and (inner := _parse_json(whole)) is not None:
        yield from values_in(inner, common=common)
    if common or whole.casefold() not in _SAID_BY_ALL:
        yield whole
    # a single word: it has no lines, and no words of its own
    if whole.split(None, 1)[0] == whole:
        return
    for line in whole.splitlines():
        # shorter lines occur by chance
        if len(line.strip()) >= 12:
            yield line.strip()
    for match in _QUOTED.finditer(whole):
        yield match[match.lastindex or 0].strip()
    for match in _WORDS.finditer(whole):
        word = match[0].strip(".:!?*_`|")
        for one in dict.fromkeys((word, word.rpartition(":")[2])):
            if _stands_out(one):
                yield one


def _stands_out(word: str) -> bool:
    """Whether a word is one that nobody writes by chance: long enough, with digits in it."""
    return len(word) >= 6 and any(map(str.isdigit, word)) and _DATE.fullmatch(word) is None


def _parse_json(text: str) -> "dict[str, Json] | list[Json] | None":
    """The object or list that a text is; None where it is none."""
    try:
        parsed = cast("Json", msgspec.json.decode(text))
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _spellings(values: Mapping[str, tuple[str, ...]]) -> Iterator[_Value]:
    """Every way in which the values are looked for, each once."""
    seen: dict[tuple[str, bool, bool], list[str]] = {}
    for value, labels in values.items():
        for one in _spell_value(value):
            seen.setdefault(one, []).extend(labels)
    for (needle, exact, squeezed), names in seen.items():
        yield _Value(needle, tuple(sorted(set(names))), exact, squeezed)


def _spell_value(value: str) -> "Iterator[tuple[str, bool, bool]]":
    """Every way to write a value: the letters, whether case counts, whether gaps may be in it."""
    from html import escape  # only secrets are looked for in all spellings

    # half a character cannot be encoded
    if has_lone_surrogate(value):
        yield value.casefold(), False, False
        value = scrub(value)  # as it is sent
    plain = {value, unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)}
    plain.add(" ".join(value.split()))
    plain |= {
        compact(value)[1:-1],
        json.dumps(value)[1:-1],
        escape(value),
        urllib.parse.quote(value, safe=""),
    }
    plain |= {urllib.parse.quote_plus(value), value.encode("unicode_escape").decode("ascii")}
    for one in plain:
        if len(one) >= LEAST:
            yield one.casefold(), False, False
    if len(value) < _ENCODED:
        return
    data = value.encode("utf-8", "replace")
    yield data.hex(), False, False
    for core in _base64_cores(data):
        yield core, True, False
        if "+" in core or "/" in core:
            yield core.replace("+", "-").replace("/", "_"), True, False
    solid = _SOLID.sub("", value.casefold())
    if len(solid) >= _ALONE and any(map(str.isdigit, solid)):
        yield solid, False, True


def _base64_cores(data: bytes) -> Iterator[str]:
    """What of a value's base64 is the same wherever the value begins in what was encoded."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode("ascii").rstrip("=")
        # the first and the last letters also carry bits of what stands around the value
        spare = (before + len(data)) % 3
        core = text[(0, 2, 3)[before] : len(text) - (1 if spare else 0)]
        if len(core) >= _ALONE:
            yield core


@functools.lru_cache(maxsize=4096)
def _pattern_of(one: _Value) -> re.Pattern[str]:
    """The pattern for one spelling; a short one must stand alone, not inside a word."""
    source = re.escape(one.needle)
    if one.squeezed:
        source = r"[\W_]{0,3}".join(map(re.escape, one.needle))
    elif len(one.needle) < _ALONE:
        source = rf"(?<![^\W_]){source}(?![^\W_])"
    return re.compile(source, 0 if one.exact else re.IGNORECASE)


def _marks_of(names: Iterable[str]) -> re.Pattern[str]:
    """Marks that stand for what was withheld: a value that is a label's name is none in them."""
    some = "|".join(map(re.escape, sorted(names))) or r"(?!)"
    return re.compile(rf"\[withheld: (?:{some})(?:, (?:{some}))*\]")


def _merge_hits(hits: list[Hit]) -> tuple[Hit, ...]:
    """The hits in order; those that overlap are one, with the labels of both."""
    merged: list[Hit] = []
    for hit in sorted(hits):
        if merged and hit.start < merged[-1].end:
            last = merged[-1]
            labels = tuple(sorted({*last.labels, *hit.labels}))
            merged[-1] = Hit(last.start, max(last.end, hit.end), labels)
        else:
            merged.append(hit)
    return tuple(merged)
