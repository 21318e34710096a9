"""A policy: stages whose items are united, and a budget over all of it."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from weft.declare.policy.selectors import (
    ArtifactText,
    Auto,
    Everything,
    Notes,
    Nothing,
    Selector,
    StateKeys,
    ThisTurn,
    When,
)
from weft.declare.policy.transforms import (
    Budget,
    Capture,
    Compact,
    Dedupe,
    Distill,
    Extract,
    Fence,
    Fresh,
    Label,
    NoteDown,
    Protection,
    Redact,
    Reduction,
    Transform,
    Validate,
    Writing,
)
from weft.declare.policy.verbs import Verbs
from weft.errors import DeclarationError
from weft.misuse import declared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weft.values import Json

View = Literal["default", "none", "nothing"]
Kept = TypeVar("Kept")


class Stage(msgspec.Struct, frozen=True):
    """One selector, and what is done with the items it lets through, in that order."""

    selector: Selector = Everything()
    steps: tuple[Reduction, ...] = ()

    def __str__(self) -> str:
        return ".".join(["C", str(self.selector), *map(str, self.steps)])


_WHOLE = (Stage(),)


@dataclass(frozen=True, repr=False)
class Transforms(Verbs["Transforms"]):
    """Verbs without items to act on: `policy | C.compact()` is `policy.compact()`."""

    steps: tuple[Transform, ...] = ()
    limit: Budget | None = None

    def _then(self, step: Transform | Budget) -> "Transforms":
        if self.limit is not None:
            raise _after_budget(step)
        if isinstance(step, Budget):
            return replace(self, limit=step)
        return replace(self, steps=(*self.steps, step))

    def __or__(self, other: object) -> "Transforms":
        if not isinstance(other, Transforms):
            raise _no_transform(other)
        joined = self
        for step in (*other.steps, *((other.limit,) if other.limit is not None else ())):
            joined = joined._then(step)
        return joined

    def __add__(self, other: object) -> "Policy":
        raise _lone(self)

    def __radd__(self, other: object) -> "Policy":
        raise _lone(self)

    def __repr__(self) -> str:
        steps = [*self.steps, *((self.limit,) if self.limit is not None else ())]
        return ".".join(["C", *map(str, steps)])

    __str__ = __repr__


@declared("", change="write policy = policy.budget(8000), or another verb: each returns a copy")
@dataclass(frozen=True, repr=False)
class Policy(Verbs["Policy"]):
    """What an agent sees: frozen, comparable, and printed as it is written.

    `stages` select items and reduce them, and are united in log order; `protections` hold for
    the whole request and `writings` for the whole turn, whichever stage they were written on.
    """

    stages: tuple[Stage, ...] = _WHOLE
    limit: Budget | None = None
    duplicates: bool = False
    protections: tuple[Protection, ...] = ()
    writings: tuple[Writing, ...] = ()

    def keep_duplicates(self) -> "Policy":
        """A copy that lets a value arrive through the template and the conversation."""
        return replace(self, duplicates=True)

    def _then(self, step: Transform | Budget) -> "Policy":
        if self.limit is not None:
            raise _after_budget(step)
        match step:
            case Budget():
                return replace(self, limit=step)
            case Redact() | Validate() | Label() | Fence():
                return replace(self, protections=_once(self.protections, step))
            case Capture() | NoteDown() | Extract() | Distill():
                return replace(self, writings=_once(self.writings, step))
            case _:
                stages = tuple(
                    msgspec.structs.replace(stage, steps=(*stage.steps, step))
                    for stage in self.stages
                )
                return replace(self, stages=stages)

    def __or__(self, other: object) -> "Policy":
        if isinstance(other, Policy):
            raise DeclarationError(
                f"`|` hands items to a transform, and {other} is a policy",
                where="C",
                hint="unite two policies with +",
            )
        if not isinstance(other, Transforms):
            raise _no_transform(other)
        made = self
        for step in (*other.steps, *((other.limit,) if other.limit is not None else ())):
            made = made._then(step)
        return made

    def __add__(self, other: object) -> "Policy":
        if isinstance(other, Transforms):
            raise _lone(other)
        if not isinstance(other, Policy):
            raise DeclarationError(
                f"{other!r} is no policy", where="C", hint="write C.user() + C.window(3)"
            )
        for side in (self, other):
            if side.limit is not None:
                raise DeclarationError(
                    f"{side} has a budget, which covers the whole request",
                    where="C.budget",
                    hint="write (a + b).budget(8000)",
                )
        protections, writings = self.protections, self.writings
        for protection in other.protections:
            protections = _once(protections, protection)
        for writing in other.writings:
            writings = _once(writings, writing)
        return Policy(
            _united(self.stages, other.stages),
            None,
            self.duplicates or other.duplicates,
            protections,
            writings,
        )

    @cached_property
    def view(self) -> View:
        """How much of the log is looked at: all, the current turn, or not even that."""
        kinds = {type(stage.selector) for stage in self.stages}
        if kinds == {Nothing}:
            return "nothing"
        return "none" if kinds <= {Nothing, ThisTurn} else "default"

    @cached_property
    def state_keys(self) -> tuple[str, ...]:
        """The state keys whose values are shown as items."""
        found: list[str] = []
        for stage in self.stages:
            if isinstance(stage.selector, StateKeys):
                found += stage.selector.keys
            elif isinstance(stage.selector, Notes):
                found.append(stage.selector.key)
        return tuple(dict.fromkeys(found))

    @cached_property
    def shows_artifacts(self) -> bool:
        """Whether the text of an artifact is shown, or guarded."""
        labelled = any(isinstance(one, Label) and one.artifacts for one in self.protections)
        return labelled or any(
            isinstance(stage.selector, ArtifactText)
            or (isinstance(stage.selector, When) and stage.selector.policy.shows_artifacts)
            for stage in self.stages
        )

    @cached_property
    def refers(self) -> bool:
        """Whether something in view may be said by a reference to something else in view."""
        return any(
            isinstance(stage.selector, Auto)
            or (isinstance(stage.selector, When) and stage.selector.policy.refers)
            or any(isinstance(step, Dedupe) for step in stage.steps)
            for stage in self.stages
        )

    @cached_property
    def makes_handles(self) -> bool:
        """Whether something in view may stand as a handle that `recall` gets back."""
        degrades = self.limit is not None and self.limit.overflow == "degrade"
        return degrades or any(
            isinstance(stage.selector, Auto)
            or (isinstance(stage.selector, When) and stage.selector.policy.makes_handles)
            or any(
                isinstance(step, Compact) or (isinstance(step, Fresh) and step.stale == "compact")
                for step in stage.steps
            )
            for stage in self.stages
        )

    @cached_property
    def is_conditional(self) -> bool:
        """Whether a predicate decides about a part of it."""
        return any(isinstance(stage.selector, When) for stage in self.stages)

    def resolved(
        self, state: "Mapping[str, Json]", decide: "Callable[[When, Mapping[str, Json]], bool]"
    ) -> "Policy":
        """The policy as it holds for this state: `decide` says which conditions are met."""
        if not self.is_conditional:
            return self
        stages: tuple[Stage, ...] = ()
        whole = replace(self, stages=(Stage(ThisTurn()),), limit=None)
        for stage in self.stages:
            selector = stage.selector
            if not isinstance(selector, When):
                stages = _united(stages, (stage,))
            elif decide(selector, state):
                inner = selector.policy.resolved(state, decide)
                for step in stage.steps:
                    inner = inner._then(step)
                stages = _united(stages, inner.stages)
                whole = whole + replace(inner, stages=(Stage(ThisTurn()),))
        return replace(whole, stages=stages or (Stage(ThisTurn()),), limit=self.limit)

    def _words(self) -> "Iterator[str]":
        yield from map(str, self.protections)
        yield from map(str, self.writings)
        if self.duplicates:
            yield "keep_duplicates()"
        if self.limit is not None:
            yield str(self.limit)

    def __str__(self) -> str:
        union = " + ".join(map(str, self.stages))
        words = list(self._words())
        if words and len(self.stages) > 1:
            union = f"({union})"
        return ".".join([union, *words])

    __repr__ = __str__


def _once(held: tuple[Kept, ...], step: Kept) -> tuple[Kept, ...]:
    return held if step in held else (*held, step)


def _united(first: tuple[Stage, ...], second: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The stages of both, each once; what lets nothing through adds nothing."""
    stages = list(first)
    stages += [stage for stage in second if stage not in stages]
    if len(stages) > 1:
        loud = [stage for stage in stages if not isinstance(stage.selector, Nothing)]
        stages = loud or stages[:1]
    return tuple(stages)


def _after_budget(step: object) -> DeclarationError:
    return DeclarationError(
        f"a budget is the last word of a policy, and `{step}` stands behind it",
        where="C.budget",
        hint="write the budget last: policy.compact().budget(8000)",
    )


def _no_transform(other: object) -> DeclarationError:
    return DeclarationError(
        f"{other!r} is no transform", where="C", hint="write policy | C.compact()"
    )


def _lone(transforms: Transforms) -> DeclarationError:
    return DeclarationError(
        f"{transforms} selects nothing: it is a transform",
        where="C",
        hint="write C.default() before it, or hand it items with |",
    )
