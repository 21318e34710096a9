"""A mapping that is changed by making another one, which shares all but the page it touched.

A walk makes a world for every step of a flow. With a dict for each, a large flow would cost the
square of its size; with charts a step costs what it changed, and so does a comparison.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Generic, TypeVar, cast, overload

Held = TypeVar("Held")
Other = TypeVar("Other")

PAGE = 16
"""How many keys share a page."""


class Chart(Mapping[str, Held], Generic[Held]):
    """An immutable mapping, in pages; `_places` says on which page a key stands in all its kin."""

    __slots__ = ("_blank", "_pages", "_places")

    def __init__(self, items: Mapping[str, Held] | None = None) -> None:
        self._places: dict[str, int] = {}
        self._blank: tuple[dict[str, Held]] = ({},)
        self._pages: tuple[dict[str, Held], ...] = ()
        if items:
            self._pages = self.updated(items)._pages

    def with_item(self, key: str, value: Held) -> "Chart[Held]":
        """The chart with one more key, or another value for one."""
        at = self._place(key)
        pages = self._pages
        if at >= len(pages):
            return self._kin((*pages, *self._blank * (at - len(pages)), {key: value}))
        return self._kin((*pages[:at], {**pages[at], key: value}, *pages[at + 1 :]))

    def updated(self, items: Mapping[str, Held]) -> "Chart[Held]":
        """The chart with these keys, each as it is here."""
        if not items:
            return self
        changed: dict[int, dict[str, Held]] = {}
        for key, value in items.items():
            changed.setdefault(self._place(key), {})[key] = value
        length = len(self._pages)
        return self._replaced(
            {at: {**self._pages[at], **new} if at < length else new for at, new in changed.items()}
        )

    def without(self, keys: Iterable[str]) -> "Chart[Held]":
        """The chart without these keys; the same where it has none of them."""
        changed: dict[int, dict[str, Held]] = {}
        for key in keys:
            if key in self:
                at = self._places[key]
                changed.setdefault(at, {**self._pages[at]}).pop(key, None)
        return self._replaced(changed) if changed else self

    def since(self, other: "Chart[Held]") -> Iterator[tuple[str, Held]]:
        """The keys whose value is not the very same in the other one."""
        if self._places is not other._places:
            yield from ((k, v) for k, v in self.items() if k not in other or other[k] is not v)
            return
        for mine, held in zip_longest(self._pages, other._pages, fillvalue=self._blank[0]):
            if mine is not held:
                yield from ((k, v) for k, v in mine.items() if k not in held or held[k] is not v)

    def merged(
        self,
        others: "Iterable[Chart[Held]]",
        merge: Callable[[Sequence[dict[str, Held]]], dict[str, Held]],
    ) -> "Chart[Held]":
        """What it and others make together; `merge` is handed the pages that are not the same."""
        alike = [self]
        alike += [one if one._places is self._places else self._alike(one) for one in others]
        changed: dict[int, dict[str, Held]] = {}
        if any(one._pages is not self._pages for one in alike):
            columns = zip_longest(*(one._pages for one in alike), fillvalue=self._blank[0])
            for at, column in enumerate(columns):
                page = column[0]
                if any(one is not page for one in column):
                    made = merge(column)
                    if made != page:
                        changed[at] = made
        return self._replaced(changed) if changed else self

    def _alike(self, other: "Chart[Held]") -> "Chart[Held]":
        """The other one, with its keys on the pages where they stand here."""
        return self._kin(()).updated(other)

    def _place(self, key: str) -> int:
        return self._places.setdefault(key, len(self._places) // PAGE)

    def _replaced(self, changed: Mapping[int, dict[str, Held]]) -> "Chart[Held]":
        """The chart with other pages in some places."""
        pages = [*self._pages, *self._blank * (max(changed) + 1 - len(self._pages))]
        for at, page in changed.items():
            pages[at] = page
        return self._kin(tuple(pages))

    def _kin(self, pages: tuple[dict[str, Held], ...]) -> "Chart[Held]":
        made = object.__new__(self.__class__)
        made._places = self._places
        made._blank = self._blank
        made._pages = pages
        return made

    def __getitem__(self, key: str) -> Held:
        at = self._places[key]
        if at >= len(self._pages):
            raise KeyError(key)
        return self._pages[at][key]

    @overload
    def get(self, key: str, /) -> Held | None: ...
    @overload
    def get(self, key: str, /, default: Held | Other) -> Held | Other: ...
    def get(self, key: str, /, default: object = None) -> object:
        """The value of a key, or the default."""
        at = self._places.get(key)
        if at is None or at >= len(self._pages):
            return default
        return self._pages[at].get(key, default)

    def __contains__(self, key: object) -> bool:
        at = self._places.get(key) if isinstance(key, str) else None
        return at is not None and at < len(self._pages) and key in self._pages[at]

    def pairs(self) -> Iterator[tuple[str, Held]]:
        """The keys and their values, as `items` has them, without looking each up."""
        for page in self._pages:
            yield from page.items()

    def __iter__(self) -> Iterator[str]:
        for page in self._pages:
            yield from page

    def __len__(self) -> int:
        return sum(map(len, self._pages))

    def __bool__(self) -> bool:
        return any(self._pages)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chart):
            return NotImplemented
        other = cast("Chart[Held]", other)
        if self._places is not other._places:
            return dict(self) == dict(other)
        pages = zip_longest(self._pages, other._pages, fillvalue=self._blank[0])
        return all(mine is theirs or mine == theirs for mine, theirs in pages)

    __hash__ = None  # type: ignore[assignment]
