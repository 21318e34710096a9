"""Shorter forms of an item: the same item with less in it, never a part of a pair.

What a provider signed, calls and thoughts stay as they are: only texts, results and media that
nobody has sealed are shortened.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate, chain
from typing import NamedTuple, TypeAlias

import msgspec

from weft.diagnostics import Origin
from weft.digest import cut_text, reduced
from weft.ir import Block, Item, MediaBlock, Reference, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.fences import ClosingFence, fence_text, read_fence
from weft.passes.handles import (
    HandleLimits,
    compact_media,
    compact_result,
    compact_text,
    in_words,
    media_words,
    read_logged,
    sole_text,
    with_media_words,
)
from weft.values import JsonObject, compact, handle_of

COMPACTED = HandleLimits(over=240, to=160)
"""Under a budget: from how many tokens on a value becomes a handle, and how many that takes."""

TRUNCATED = 96
"""How many tokens are left of a text or result that is cut."""

REPEATED = 200
"""In letters. Shorter results are not compared: a reference would take as much."""

MARK = " […] "


def compact_item(item: Item, env: Env) -> Item:
    """The item with handles and digests for its large values, which `recall` gets back."""
    return _change_item(
        item,
        [
            _shorten_in_fence(block, env, lambda one: _compact_block(one, item, env))
            for block in item.blocks
        ],
    )


def truncate_item(item: Item, env: Env) -> Item:
    """The item with its texts and results cut to both ends; itself where they are short."""
    blocks = [
        _shorten_in_fence(block, env, lambda one: _cut_block(one, item, env))
        for block in item.blocks
    ]
    return _change_item(item, blocks)


def _change_item(item: Item, blocks: list[Block]) -> Item:
    same = all(new is old for new, old in zip(blocks, item.blocks, strict=True))
    return item if same else msgspec.structs.replace(item, blocks=tuple(blocks))


def _shorten_in_fence(block: Block, env: Env, shorten: Callable[[Block], Block]) -> Block:
    """The block shortened. What stands in a fence is shortened inside it, and fenced again."""
    if isinstance(block, TextBlock):
        inside = read_fence(block.text)
        return (
            shorten(block) if inside is None else _shorten_fenced_text(block, inside, env, shorten)
        )
    if isinstance(block, ResultBlock) and len(block.response) == 1:
        value = next(iter(block.response.values()))
        inside = read_fence(value) if isinstance(value, str) else None
        return (
            shorten(block)
            if inside is None
            else _shorten_fenced_result(block, inside, env, shorten)
        )
    return shorten(block)


def _shorten_fenced_text(
    block: TextBlock, inside: ClosingFence, env: Env, shorten: Callable[[Block], Block]
) -> TextBlock:
    """A text whose inside is shortened, in a fence of its own again."""
    bare = msgspec.structs.replace(block, text=inside.inner, spans=())
    short = shorten(bare)
    if short is bare or not isinstance(short, TextBlock):
        return block
    text = inside.before + fence_text(short.text, inside.source, env.session.id).text
    return msgspec.structs.replace(short, text=text)


def _shorten_fenced_result(
    block: ResultBlock, inside: ClosingFence, env: Env, shorten: Callable[[Block], Block]
) -> ResultBlock:
    """A result whose inside is shortened, in a fence of its own again."""
    key = next(iter(block.response))
    bare = msgspec.structs.replace(block, response={key: inside.inner})
    short = shorten(bare)
    if short is bare or not isinstance(short, ResultBlock):
        return block
    value = short.response.get(key)
    alone = isinstance(value, str) and len(short.response) == 1
    text = value if alone and isinstance(value, str) else compact(short.response)
    response: JsonObject = {key: fence_text(text, inside.source, env.session.id).text}
    return msgspec.structs.replace(short, response=response)


def refer_item(item: Item, places: Mapping[int, Origin], env: Env) -> Item:
    """The item, in which the results at these places refer to the same results further down."""
    blocks: list[Block] = list(item.blocks)
    for place, later in places.items():
        again = partial(_refer_to_later, later=later, item=item, env=env)
        blocks[place] = _shorten_in_fence(item.blocks[place], env, again)
    return _change_item(item, blocks)


def _refer_to_later(block: Block, later: Origin, item: Item, env: Env) -> Block:
    """A result that says where the same one stands further down."""
    if not isinstance(block, ResultBlock):
        return block
    handle = handle_of(read_logged(block, item, env))
    words = f"[the same result stands further down, handle {handle}]"
    return msgspec.structs.replace(
        block,
        response={"result": words},
        refers=(Reference(words, later.name, later.part, handle),),
        whole=block.response,
    )


def find_repeats(items: list[Item], env: Env) -> dict[int, dict[int, Origin]]:
    """By item: its long results that a later item repeats, where that one does not go first."""
    places: dict[int, dict[int, Origin]] = {}
    later: dict[str, tuple[int, Origin]] = {}
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item.kind != "exchange":
            continue
        tier, texts = item.priority, long_results(item, env)
        again = {
            place: later[text][1]
            for place, text in texts.items()
            if text in later and later[text][0] <= tier
        }
        if again:
            places[index] = again
        for place, text in texts.items():
            # of several the one that goes last
            if text not in later or tier < later[text][0]:
                later[text] = (tier, item.blocks[place].origin)
    return places


class _Results(msgspec.Struct, frozen=True):
    """The long results of an item by their place, as text."""

    item: Item
    texts: dict[int, str]


def long_results(item: Item, env: Env) -> dict[int, str]:
    """The results of an item that are worth comparing, kept with the log."""
    known = env.log.memo[_LongResults]
    results = known.get(item.key)
    if results is None or (results.item is not item and results.item != item):
        texts = {
            place: compact(block.response)
            for place, block in enumerate(item.blocks)
            if isinstance(block, ResultBlock) and not block.media
        }
        results = _Results(item, {at: text for at, text in texts.items() if len(text) >= REPEATED})
        known[item.key] = results
    return results.texts


class _LongResults(dict[object, _Results]):
    """The long results of a log's items, by their keys."""


def _compact_block(block: Block, item: Item, env: Env) -> Block:
    """The block as a handle with a digest, where it is long and may be one."""
    if isinstance(block, TextBlock):
        return compact_text(block, item, env, COMPACTED)
    if isinstance(block, MediaBlock):
        return compact_media(block, env, COMPACTED.over) or block
    if not isinstance(block, ResultBlock):
        return block
    if block.name in env.tools.own and env.tools.own[block.name].compact is False:
        return block
    short = compact_result(block, item, env, COMPACTED)
    words_by_place = {
        place: media_words(one, env, COMPACTED.over) for place, one in enumerate(short.media)
    }
    words = [text for text in words_by_place.values() if text is not None]
    if not words:
        return short
    stay = tuple(one for place, one in enumerate(short.media) if words_by_place[place] is None)
    response = with_media_words(short.response, words)
    return msgspec.structs.replace(short, response=response, media=stay)


def _shown_in_short(block: TextBlock, item: Item, env: Env) -> TextBlock:
    """A text as a handle with a digest, as short as a cut one."""
    head, _, rest = block.text.partition("\n")
    # a digest of a digest names its handle once
    text = rest if block.handle and head.startswith("[handle ") and rest else block.text
    bare = block if text is block.text else msgspec.structs.replace(block, text=text)
    short = compact_text(bare, item, env, HandleLimits(TRUNCATED, TRUNCATED))
    return block if short is bare else short


def _headless(block: ResultBlock) -> ResultBlock:
    """A result without the line that names its handle, which it gets again."""
    text = sole_text(block.response)
    if not text.startswith("[handle ") or "\n" not in text:
        return block
    return msgspec.structs.replace(
        block, response=dict.fromkeys(block.response, text.partition("\n")[2])
    )


def _cut_block(block: Block, item: Item, env: Env) -> Block:
    """The block cut to a few words: with a handle where the policy makes handles, else without."""
    if isinstance(block, TextBlock) and block.signature is None:
        if env.policy.facts.makes_handles and block.origin.kind == "event":
            return _shown_in_short(block, item, env)
        text = cut_text(
            block.text, limit=TRUNCATED, count=env.tokens.count, keep="bookend", mark=MARK
        )
        if text == block.text:
            return block
        return msgspec.structs.replace(block, text=text, spans=(), kept=None)
    if isinstance(block, ResultBlock):
        if (
            env.policy.facts.makes_handles
            and not block.media
            and not (block.name in env.tools.own and env.tools.own[block.name].compact is False)
        ):
            bare = _headless(block)
            short = compact_result(bare, item, env, HandleLimits(TRUNCATED, TRUNCATED))
            return block if short is bare else short
        shorter = reduced(block.response, limit_tokens=TRUNCATED, count=env.tokens.count).value
        if shorter == block.response and not block.media:
            return block
        response = shorter if isinstance(shorter, dict) else {"result": shorter}
        if block.media:
            response = {**response, "left_out": _media_words(block.media)}
        return msgspec.structs.replace(block, response=response, media=())
    if isinstance(block, MediaBlock) and block.signature is None:
        return in_words(block, f"[{_media_words((block,))}, left out]")
    return block


def _media_words(media: tuple[MediaBlock, ...]) -> str:
    return ", ".join(
        f"{one.name} ({one.mime_type})" if one.name else one.mime_type for one in media
    )


LEAST = 8
"""How many tokens a shorter form must save to be used."""


class _Shorter(NamedTuple):
    """A shorter form of an item, and the tokens it saves."""

    item: Item
    form: Item
    saved: int


class _Forms(dict[object, _Shorter]):
    """Shorter forms by the key of their item, kept with the log."""


class _ReferringItem(NamedTuple):
    """An item, where its results stand again, its form that refers to them, and what that saves."""

    item: Item
    later: tuple[Origin, ...]
    form: Item
    saved: int


class _Referring(dict[object, _ReferringItem]):
    """Forms that refer to later results, by item and place, kept with the log."""


class ItemChange(NamedTuple):
    """What becomes of an item; None where it goes."""

    at: int
    form: Item | None
    why: str


class ShorteningStep(NamedTuple):
    """Changes that belong together, and the tokens they save at least.

    `surely` says that it is all that goes in any case, with what is sealed.
    """

    changes: tuple[ItemChange, ...]
    saved: int
    surely: bool = False


class ShortenedForms:
    """What was given up so far: the form of each item that changed, the last change last."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        """What each item takes now; the list that phases look at."""
        self.changes: dict[int, ItemChange] = {}
        self.steps = 0
        self.surely: set[int] = set()
        """The items that go in any case."""
        self.whole = [*sizes]
        self.folded = self.referred = self.whole
        """What each item took at first, with digests, and with references to later results."""

    def take(self, step: ShorteningStep) -> int:
        """Give up one step more; the tokens that saves."""
        saved = step.saved
        self.steps += 1
        if step.surely:
            self.surely.update(change.at for change in step.changes)
        for change in step.changes:
            self.changes.pop(change.at, None)
            self.changes[change.at] = change
        # one item got shorter; else all of these went
        if len(step.changes) == 1 and step.changes[0].form is not None:
            self.sizes[step.changes[0].at] -= saved
            return saved
        for change in step.changes:
            self.sizes[change.at] = 0
        return saved


class Shortening:
    """The ways in which the items of a request can be shorter."""

    def __init__(
        self, items: list[Item], giving: ShortenedForms, env: Env, size: Callable[[Item], int]
    ) -> None:
        self.giving = giving
        self.items = items
        self._env = env
        self._size = size
        self._whole = frozenset(
            name for name, tool in env.tools.own.items() if tool.compact is False
        )
        self._again: dict[int, dict[int, Origin]] | None = None

    def fold(self, index: int) -> ShorteningStep | None:
        """Handles and digests for its large values."""
        # so small an item has no value that is large
        if self.giving.sizes[index] <= COMPACTED.over:
            return None
        return self._step_to_form(index, compact_item, "a digest stands for it, to fit the budget")

    def cut(self, index: int) -> ShorteningStep | None:
        """Both ends of its texts and results."""
        # it would not get shorter
        if self.giving.sizes[index] <= TRUNCATED:
            return None
        return self._step_to_form(index, truncate_item, "it is cut to fit the budget")

    def refer(self, index: int) -> ShorteningStep | None:
        """A word instead of results that a later item gives again."""
        if not self._env.policy.facts.makes_handles:
            return None  # nobody could get it back, once the later one goes too
        places, item = self.places_again(index), self._now(index)
        if not places or item is None:
            return None
        form, saved = self.referring(item, places)
        return _step(index, form, saved, "a later result is the same")

    def referring(self, item: Item, places: Mapping[int, Origin]) -> tuple[Item, int]:
        """The item with references at these places, and the tokens that saves."""
        known = self._env.log.memo[_Referring, self._slot()]
        key = (item.key, tuple(places))
        known_form = known.get(key)
        if (
            known_form is None
            or known_form.item is not item
            or known_form.later != tuple(places.values())
        ):
            form = refer_item(item, places, self._env)
            saved = self._size(item) - self._size(form)
            known_form = known[key] = _ReferringItem(item, tuple(places.values()), form, saved)
        return known_form.form, known_form.saved

    def later_results(self) -> dict[str, Origin]:
        """The long results of all items, as text, with where each stands."""
        return {
            text: item.blocks[place].origin
            for item in self.items
            if item.kind == "exchange"
            for place, text in long_results(item, self._env).items()
        }

    def places_again(self, index: int) -> Mapping[int, Origin]:
        """Where the item has results that a later one gives again."""
        if self._again is None:
            self._again = find_repeats(self.items, self._env)
        return self._again.get(index, {})

    def form_of(self, index: int) -> Item:
        """The item as it was folded, if it was."""
        shorter = self._forms(compact_item).get(self.items[index].key)
        folded = self.giving.folded[index] < self.giving.whole[index]
        return shorter.form if folded and shorter is not None else self.items[index]

    def _step_to_form(
        self, index: int, make: Callable[[Item, Env], Item], why: str
    ) -> ShorteningStep | None:
        """The step that puts a shorter form in an item's place; None where the item is gone."""
        item = self._now(index)
        if item is None:
            return None
        shorter = self._form_of(make, item)
        return _step(index, shorter.form, shorter.saved, why)

    def _now(self, index: int) -> Item | None:
        change = self.giving.changes.get(index)
        return self.items[index] if change is None else change.form

    def _form_of(self, make: Callable[[Item, Env], Item], item: Item) -> _Shorter:
        """The shorter form of an item and what it saves, worked out once for each item."""
        forms = self._forms(make)
        shorter = forms.get(item.key)
        if shorter is None or (shorter.item is not item and shorter.item != item):
            form = make(item, self._env)
            saved = 0 if form is item else self._size(item) - self._size(form)
            shorter = forms[item.key] = _Shorter(item, form, saved)
        return shorter

    def _slot(self) -> tuple[Hashable, ...]:
        env = self._env
        return env.agent, env.model.dialect, env.model.name, self._whole, env.session.id

    def _forms(self, make: Callable[[Item, Env], Item]) -> _Forms:
        return self._env.log.memo[_Forms, make, self._slot()]


def _step(index: int, form: Item, saved: int, why: str) -> ShorteningStep | None:
    return ShorteningStep((ItemChange(index, form, why),), saved) if saved >= LEAST else None


FADES = 8
"""How many of what goes next are shortened before the oldest of them goes."""

INDEPENDENT = ("state", "summary", "system", "hidden")
"""Kinds that neither ask nor answer."""


class Unit(NamedTuple):
    """Items that go together, in their tier."""

    tier: int
    indexes: tuple[int, ...]


Phase: TypeAlias = Callable[[int], Iterable[ShorteningStep]]
"""One round over the items, of which a number of tokens is wanted.

Its steps are worked out as far as they are needed. What must go anyway is one step.
"""

Shorten: TypeAlias = Callable[[int], ShorteningStep | None]
"""A shorter form of an item as a step, or None where it has none that saves anything."""


def stride_for(limit: int) -> tuple[int, int]:
    """The stride of a budget, an eighth to a quarter of it, and the tokens to come down to."""
    stride = 1 << max(0, (limit // 4).bit_length() - 1)
    return stride, min(limit, 7 * stride) if limit < 8 * stride else limit


def units_of(items: list[Item], tiers: list[int], stays: set[int]) -> list[Unit]:
    """What may go, the oldest first: answers one by one, a question with the last of its answers.

    So no answer stands without its question, and a question that matters more than its answers
    goes in its own tier. Nothing goes that something depends on which stays.
    """
    units: list[Unit] = []
    for asked, answers in _turns(items):
        loose = [index for index in answers if index not in stays]
        # the answer that goes last: of the highest tier, in it the newest
        last = max(loose, key=lambda index: (-tiers[index], index), default=None)
        free = len(loose) == len(answers) and not stays.intersection(asked)
        tier = min((tiers[index] for index in asked), default=0)
        joins = last is not None and tier >= tiers[last]
        for index in loose:
            goes = (*asked, index) if free and joins and index == last else (index,)
            units.append(Unit(tiers[index], goes))
        if asked and free and not joins:
            units.append(Unit(tier, tuple(asked)))
        if stays.intersection(asked):  # what was asked before that and never answered may go
            units += [Unit(tiers[index], (index,)) for index in asked if index not in stays]
    for index, item in enumerate(items):
        if item.kind in INDEPENDENT and index not in stays:
            units.append(Unit(tiers[index], (index,)))
    return sorted(units, key=lambda unit: unit.indexes[-1])


def questions_apart(items: list[Item], stays: set[int]) -> set[int]:
    """Questions that nobody answered before a later one that stays: each may go by itself."""
    apart = (asked for asked, _ in _turns(items) if stays.intersection(asked))
    return {index for asked in apart for index in asked if index not in stays}


def _turns(items: list[Item]) -> Iterator[tuple[list[int], list[int]]]:
    """What was asked, and what answers it, for every turn; the first may ask nothing."""
    asked: list[int] = []
    answers: list[int] = []
    for index, item in enumerate(items):
        if item.kind in INDEPENDENT:
            continue
        if item.kind != "user":
            answers.append(index)
            continue
        if answers:
            yield asked, answers
            asked, answers = [], []
        asked.append(index)
    if asked or answers:
        yield asked, answers


class SealBroken(Exception):
    """What was sealed does not surely go any more: all items have to be looked at."""


def shorten_items(indexes: Iterable[int], shorten: Shorten, sealed: int = 0) -> Phase:
    """Shorten the items, one by one; `sealed` tokens were saved in what is sealed."""
    first = (ShorteningStep((), sealed),) if sealed else ()
    steps = (step for index in indexes if (step := shorten(index)) is not None)
    return lambda _: chain(first, steps)


def drop_units(units: list[Unit], sizes: list[int], why: str, sealed: int | None = None) -> Phase:
    """Let the units go, one by one; first of all what is sealed, which has `sealed` tokens."""

    def steps(wanted: int) -> Iterator[ShorteningStep]:
        surely, first = _surely(units, sizes, why, wanted, 0, sealed)
        yield from first
        yield from (_drop(unit, sizes, why) for unit in units[surely:])

    return steps


def fade_units(
    units: list[Unit], sizes: list[int], why: str, shorten: Shorten, sealed: int | None = None
) -> Phase:
    """Let the units go, one by one, each after the ones that follow it were shortened."""

    def steps(wanted: int) -> Iterator[ShorteningStep]:
        ahead, first = _surely(units, sizes, why, wanted, FADES, sealed)
        yield from first
        for place, unit in enumerate(units[ahead:], ahead):
            while ahead < min(len(units), place + FADES):
                for index in units[ahead].indexes:
                    if (step := shorten(index)) is not None:
                        yield step
                ahead += 1
            yield _drop(unit, sizes, why)

    return steps


def _surely(
    units: list[Unit], sizes: list[int], why: str, wanted: int, spare: int, sealed: int | None
) -> tuple[int, tuple[ShorteningStep, ...]]:
    """How many units go in any case, with `spare` more not enough yet, and that as one step."""
    each = (sum(sizes[index] for index in unit.indexes) for unit in units)
    ends = list(accumulate(each, initial=sealed or 0))[1:]
    surely = bisect_left(ends, wanted) - spare - 1
    # less has to go than what is sealed
    if sealed is not None and surely < 0:
        raise SealBroken
    surely = max(0, surely)
    if not surely and sealed is None:
        return 0, ()
    gone = (index for unit in units[:surely] for index in unit.indexes)
    changes = tuple(ItemChange(index, None, why) for index in gone)
    saved = ends[surely - 1] if surely else sealed or 0
    return surely, (ShorteningStep(changes, saved, surely=True),)


def _drop(unit: Unit, sizes: list[int], why: str) -> ShorteningStep:
    changes = tuple(ItemChange(index, None, why) for index in unit.indexes)
    return ShorteningStep(changes, sum(sizes[index] for index in unit.indexes))


def give_up(
    phases: Iterable[Phase],
    excess: int,
    stride: int,
    giving: ShortenedForms,
    fits: Callable[[], bool],
    *,
    sealed: bool = False,
) -> bool:
    """Give up phase after phase until `excess` tokens are saved; whether it fits then.

    Within a phase whole strides are given up. Bounds are sums, and a whole may be a little more
    than those of its parts: so `fits` has the last word, and a step more is taken until it holds.
    What is `sealed` must go before that is asked.
    """
    enough = False
    for phase in phases:
        # whole strides: until the next one is full, later requests give up the same items
        wanted = -(-excess // stride) * stride
        saved = 0
        for step in phase(max(wanted, 0)):
            # from here on one step at a time, until it really fits
            if not enough and (saved >= wanted or excess <= 0):
                enough = True
            # it is enough before all that is sealed has gone
            if enough and sealed:
                raise SealBroken
            if enough and fits():
                return True
            saved += giving.take(step)
            sealed = sealed and not step.surely
        excess -= saved
        if excess <= 0 and sealed:
            raise SealBroken
        if excess <= 0 and fits():
            return True
        enough = enough or excess <= 0
    return fits()
