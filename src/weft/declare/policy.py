"""Policies: what an agent may see of the log. `Verbs` are the methods that change one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

import msgspec

from weft import schema as schemas
from weft.declare.functions import check_choice
from weft.declare.hints import explain_policy_calls, no_such_word
from weft.declare.policy_parts import (
    ArtifactText,
    Auto,
    Budget,
    Capture,
    Compact,
    Dedupe,
    DedupeHow,
    Distill,
    Everything,
    Extract,
    Fence,
    Fit,
    Folding,
    Fresh,
    Hide,
    Keep,
    Label,
    NoteDown,
    Notes,
    Nothing,
    Overflow,
    Priority,
    Project,
    Protection,
    Quality,
    Redact,
    Reduction,
    Restore,
    Scope,
    Selector,
    Stale,
    StateKeys,
    Strategy,
    Summarize,
    ThisTurn,
    Transform,
    Truncate,
    Untrusted,
    Validate,
    When,
    Writing,
    is_pattern,
    require_amount,
    require_count,
    require_key,
    require_model,
    require_names,
)
from weft.errors import DeclarationError, describe_kind
from weft.misuse import ByFields, DeclaredStruct, explain_mistakes, late_dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weft.values import Json

View = Literal["default", "none", "nothing"]

Part = TypeVar("Part")


class Stage(msgspec.Struct, frozen=True):
    """One selector, and what is done with the items it lets through, in that order."""

    selector: Selector = Everything()
    steps: tuple[Reduction, ...] = ()

    def __str__(self) -> str:
        return ".".join(["C", str(self.selector), *map(str, self.steps)])


_WHOLE = (Stage(),)

Changed = TypeVar("Changed")


class Verbs(Generic[Changed]):
    """What can be done with items; each verb gives a new value with one more step."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say which verb is meant; type checkers know better."""
            from weft.declare.words import Vocabulary

            if name.startswith("_"):
                raise AttributeError(name)
            if name in vars(Vocabulary):
                words = f"`{name}` chooses items: begin with C.{name}(...), or add + C.{name}(...)"
                raise AttributeError(words, name=name, obj=self)
            verbs = [verb for verb in vars(Verbs) if not verb.startswith("_")]
            raise no_such_word("policy", name, verbs)

    def _then(self, step: Transform | Budget) -> Changed:
        raise NotImplementedError

    @explain_policy_calls
    def compact(
        self,
        *,
        results: int | None = 800,
        texts: int | None = 4000,
        media: int | None = 2000,
        to: int | None = None,
    ) -> Changed:
        """Large results, texts and media become a handle with a digest; `recall` gets them back.

        `results`, `texts` and `media` are the tokens from which on that is done (None: never),
        `to` the most tokens of a digest with its handle: 300, or half of a lower limit.
        """
        for name, value, least in (
            ("results", results, 64),
            ("texts", texts, 64),
            ("media", media, 1),
        ):
            if value is not None:
                require_count("compact", name, value, least)
        # a digest must be well below the limit that it is made for
        if to is None:
            to = max(64, min(300, (results or 600) // 2, (texts or 600) // 2))
        require_count("compact", "to", to, 64)
        for name, value in (("results", results), ("texts", texts)):
            if value is not None and to > value:
                raise DeclarationError(
                    f"a digest of {to} tokens for {name} of {value} saves nothing",
                    where="C.compact",
                    hint=f"write to={value // 2 or 1} or less, or {name}={to * 2}",
                )
        return self._then(Compact(results=results, texts=texts, media=media, to=to))

    @explain_policy_calls
    def dedupe(self, how: DedupeHow = "exact") -> Changed:
        """The same large value once; "superseded": only the newest of the same call or file."""
        check_choice("C.dedupe", "how", how, DedupeHow)
        return self._then(Dedupe(how))

    @explain_policy_calls
    def project(
        self,
        *,
        fields: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        tools: str | Iterable[str] = (),
    ) -> Changed:
        """Only these fields of JSON results, or all but those; `tools` narrows whose."""
        names = require_names("project", fields, "field names", least=0)
        gone = require_names("project", exclude, "field names", least=0)
        if bool(names) == bool(gone):
            raise DeclarationError(
                "it needs fields= or exclude=, and only one of them",
                where="C.project",
                hint='write C.default().project(fields=["id", "status"])',
            )
        for path in (*names, *gone):
            if not re.fullmatch(r"(?:\[\]\.?)*[^.\[\]]+(?:\[\])*(?:\.[^.\[\]]+(?:\[\])*)*", path):
                raise DeclarationError(
                    f"{path!r} is not a path of fields",
                    where="C.project",
                    hint='write "status", "order.id" or "rows[].id"',
                )
        whose = require_names("project", tools, "tool names", least=0)
        return self._then(Project(fields=names, exclude=gone, tools=whose))

    @explain_policy_calls
    def truncate(self, tokens: int, *, keep: Keep = "head") -> Changed:
        """At most `tokens` tokens of each text and result: its head, its tail, or both ends."""
        require_count("truncate", "tokens", tokens)
        check_choice("C.truncate", "keep", keep, Keep)
        return self._then(Truncate(tokens=tokens, keep=keep))

    @explain_policy_calls
    def summarize(
        self,
        *,
        before: int = 5,
        every: int | None = None,
        scope: Scope = "all",
        schema: object = None,
        prompt: str | None = None,
        model: object = None,
    ) -> Changed:
        """What lies before the last `before` turns as a summary that a model writes, once.

        One summary covers `every` turns: the more, the less often what was sent
        before changes. `scope` narrows it to "results" or to what other "agents" said.
        """
        require_count("summarize", "before", before, 0)
        if every is not None:
            require_count("summarize", "every", every)
        check_choice("C.summarize", "scope", scope, Scope)
        if schema is not None:
            schemas.of_type(schema, where="C.summarize.schema")
        require_model("summarize", model)
        if prompt is not None and not (isinstance(cast("object", prompt), str) and prompt.strip()):
            raise DeclarationError(
                f"prompt={prompt!r} is not a text", where="C.summarize", hint="pass what to ask for"
            )
        step = Summarize(
            before=before, every=every, scope=scope, schema=schema, prompt=prompt, model=model
        )
        return self._then(step)

    @explain_policy_calls
    def priority(self, tier: int) -> Changed:
        """Who survives a budget: 1 always, 2 is usual, 4 is the first to go."""
        if type(cast("object", tier)) is not int or tier not in (1, 2, 3, 4):
            raise DeclarationError(
                f"tier={tier!r} is none of 1, 2, 3, 4", where="C.priority", hint="pass 1 to 4"
            )
        return self._then(Priority(tier))

    @explain_policy_calls
    def fit(self, tokens: int) -> Changed:
        """At most `tokens` tokens of these items, the best first, else the newest."""
        require_count("fit", "tokens", tokens)
        return self._then(Fit(tokens))

    @explain_policy_calls
    def fold(self, *, keep: int = 3) -> Changed:
        """Steps that are over become one note, when reading them has cost what the note costs.

        The note has the user's words, a line for each step and the names in its results; `recall`
        gets any step back by its number. The newest `keep` steps, what is asked now, what waits for
        a result and tier 1 stay as they are. A note is never written again, and the next one
        follows it.
        """
        require_count("fold", "keep", keep)
        return self._then(Folding(keep=keep))

    @explain_policy_calls
    def budget(
        self,
        tokens: int,
        *,
        overflow: Overflow = "degrade",
        reserve: int | None = None,
        keep_recent: int | None = None,
    ) -> Changed:
        """The whole request within `limit` tokens, `reserve` of them for the answer; the last.

        With `keep_recent` age alone decides, whatever their tiers: that many of the newest items
        stay, and the oldest go first.
        """
        require_count("budget", "tokens", tokens)
        if keep_recent is not None:
            require_count("budget", "keep_recent", keep_recent, 0)
        check_choice("C.budget", "overflow", overflow, Overflow)
        if reserve is not None:
            require_count("budget", "reserve", reserve, 0)
            if reserve >= tokens:
                raise DeclarationError(
                    f"a reserve of {reserve} leaves nothing of {tokens} tokens",
                    where="C.budget",
                    hint=f"pass less than {tokens}",
                )
        return self._then(
            Budget(tokens, overflow=overflow, reserve=reserve, keep_recent=keep_recent)
        )

    @explain_policy_calls
    def fresh(
        self,
        *,
        turns: int | None = None,
        seconds: float | None = None,
        stale: Stale = "drop",
    ) -> Changed:
        """Results older than a number of turns or seconds are dropped, marked, or compacted."""
        check_choice("C.fresh", "stale", stale, Stale)
        if turns is None and seconds is None:
            raise DeclarationError(
                "it needs an age", where="C.fresh", hint="write C.default().fresh(turns=3)"
            )
        if turns is not None:
            require_count("fresh", "turns", turns)
        if seconds is not None:
            require_amount("fresh", "seconds", seconds)
        return self._then(Fresh(turns=turns, seconds=seconds, stale=stale))

    @explain_policy_calls
    def redact(
        self,
        *kinds: "str | re.Pattern[str]",
        patterns: str | Iterable[str] = (),
        fields: str | Iterable[str] = (),
        restore: Literal["tools", "answer"] | Iterable[Literal["tools", "answer"]] | bool = (),
    ) -> Changed:
        """What these detectors, patterns and field names find is replaced in all that is sent.

        A regular expression, compiled or as text, may stand among the detectors.
        `restore` puts it back where it is safe: in "tools" arguments, in the "answer", or True.
        """
        from weft.detect import check_kinds, check_patterns, spell_pattern

        written = tuple(
            spell_pattern(kind) if isinstance(kind, re.Pattern) else kind
            for kind in kinds
            if is_pattern(kind)
        )
        plain = tuple(kind for kind in kinds if not is_pattern(kind))
        detectors = require_names("redact", plain, "detectors", least=0)
        regexes = (*require_names("redact", patterns, "regular expressions", least=0), *written)
        named = require_names("redact", fields, "field names", least=0)
        if not (detectors or regexes or named):
            raise DeclarationError(
                "it says nothing to look for",
                where="C.redact",
                hint='write C.default().redact("email", "card"), or .redact("pii")',
            )
        check_kinds(detectors, where="C.redact")
        check_patterns(regexes, where="C.redact")
        wanted: object = ("tools", "answer") if restore is True else restore or ()
        back = require_names("redact", wanted, "places", least=0)
        for place in back:
            check_choice("C.redact", "restore", place, Restore)
        places = cast("tuple[Restore, ...]", back)
        return self._then(Redact(detectors, patterns=regexes, fields=named, restore=places))

    @explain_policy_calls
    def validate(self, *what: Quality, model: object = None) -> Changed:
        """Look whether a request is complete, contradicts itself, or says little in many words.

        Contradictions are found by rules, and by a model if one is given.
        """
        for one in what:
            check_choice("C.validate", "what", one, Quality)
        require_model("validate", model)
        if model is not None and "contradictions" not in what:
            raise DeclarationError(
                f"model={model!r} is asked by nobody",
                where="C.validate.model",
                hint='write .validate("contradictions", model="NAME")',
            )
        return self._then(Validate(tuple(dict.fromkeys(what)) or ("completeness",), model=model))

    @explain_policy_calls
    def label(
        self,
        name: str,
        *keys: str,
        tools: str | Iterable[str] = (),
        artifacts: str | Iterable[str] = (),
        follow: bool = False,
    ) -> Changed:
        """A label on state keys, tools' results and artifacts; only who is cleared sees them.

        With `follow`, all that an agent says or does after it has seen one of them carries the
        label too, in whatever words.
        """
        if not isinstance(cast("object", name), str) or not re.fullmatch(r"[A-Za-z][\w-]*", name):
            raise DeclarationError(
                f"{name!r} is not a label",
                where="C.label",
                hint='write C.default().label("secret")',
            )
        marked = require_names("label", keys, "state keys", least=0)
        whose = require_names("label", tools, "tool names", least=0)
        files = require_names("label", artifacts, "artifact names", least=0)
        if not (marked or whose or files):
            raise DeclarationError(
                f"the label `{name}` is on nothing",
                where="C.label",
                hint=f'write .label("{name}", "state_key", tools=["lookup"])',
            )
        if not isinstance(cast("object", follow), bool):
            raise DeclarationError(f"follow={follow!r}", where="C.label", hint="pass True or False")
        return self._then(Label(name, keys=marked, tools=whose, artifacts=files, follow=follow))

    @explain_policy_calls
    def fence(self, *what: Untrusted) -> Changed:
        """Results, files and other agents' words stand between marks that they cannot close."""
        for one in what:
            check_choice("C.fence", "what", one, Untrusted)
        return self._then(Fence(tuple(dict.fromkeys(what)) or ("results", "files", "agents")))

    @explain_policy_calls
    def hide(self, *, reader: object = None) -> Changed:
        """Handles stand for text that nobody vouches for, in every request of the agent.

        `reader` is the agent that is asked what a hidden text says; by default it is the agent's
        own model. It has no tools, and its words are hidden again.
        """
        check_reader(reader)
        return self._then(Hide(reader))

    @explain_policy_calls
    def capture(self, key: str) -> Changed:
        """The user's message goes into state under `key` before the agent runs."""
        return self._then(Capture(require_key("capture", key)))

    @explain_policy_calls
    def note(self, key: str, *, strategy: Strategy = "append") -> Changed:
        """The agent's answer is noted under `key`; `C.notes(key)` shows it later."""
        check_choice("C.note", "strategy", strategy, Strategy)
        return self._then(NoteDown(require_key("note", key), strategy=strategy))

    @explain_policy_calls
    def extract(self, schema: object, key: str, *, model: object = None) -> Changed:
        """What the schema asks for is read out of the conversation into state, by a model."""
        schemas.of_type(schema, where="C.extract.schema")
        require_model("extract", model)
        return self._then(Extract(schema, require_key("extract", key), model=model))

    @explain_policy_calls
    def distill(self, key: str, *, model: object = None) -> Changed:
        """The conversation as single facts with their sources, in state, by a model."""
        require_model("distill", model)
        return self._then(Distill(require_key("distill", key), model=model))


@late_dataclass(frozen=True, repr=False, eq=False)
class Transforms(ByFields, Verbs["Transforms"]):
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
        return reduce(Transforms._then, _verbs_of(other), self)

    def __add__(self, other: object) -> "Policy":
        raise _lone(self)

    def __radd__(self, other: object) -> "Policy":
        raise _lone(self)

    def __repr__(self) -> str:
        return ".".join(["C", *map(str, _verbs_of(self))])

    __str__ = __repr__


def _verbs_of(transforms: Transforms) -> tuple[Transform | Budget, ...]:
    """Its verbs in the order they were written: nothing follows a budget."""
    limit = transforms.limit
    return transforms.steps if limit is None else (*transforms.steps, limit)


@explain_mistakes(
    "", change="write policy = policy.budget(8000), or another verb: each returns a copy"
)
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
    folding: Folding | None = None

    def keep_duplicates(self) -> "Policy":
        """A copy that lets a value arrive through the template and the conversation."""
        return replace(self, duplicates=True)

    def _then(self, step: Transform | Budget) -> "Policy":
        if self.limit is not None:
            raise _after_budget(step)
        match step:
            case Budget():
                return replace(self, limit=step)
            case Folding():
                return replace(self, folding=step)
            case Redact() | Validate() | Label() | Fence() | Hide():
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
        return reduce(Policy._then, _verbs_of(other), self)

    def __add__(self, other: object) -> "Policy":
        if isinstance(other, Transforms):
            raise _lone(other)
        if not isinstance(other, Policy):
            raise DeclarationError(
                f"{other!r} is not a policy", where="C", hint="write C.user() + C.window(3)"
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
            _unite_stages(self.stages, other.stages),
            None,
            self.duplicates or other.duplicates,
            protections,
            writings,
            _keep_more(self.folding, other.folding),
        )

    @cached_property
    def facts(self) -> "PolicyFacts":
        """What its words mean for a request; every step asks, so they are read once."""
        selectors = [stage.selector for stage in self.stages]
        steps = [step for stage in self.stages for step in stage.steps]
        kinds = {*map(type, selectors)}
        # what may hold under a condition is reckoned with
        inner = [one.policy.facts for one in selectors if isinstance(one, When)]
        folding = self.folding or next((one.folding for one in inner if one.folding), None)
        if folding is None and any(
            isinstance(one, Auto) and one.fold and not one.lossless for one in selectors
        ):
            folding = Folding()
        return PolicyFacts(
            view=(
                "nothing" if kinds == {Nothing}
                else "none" if kinds <= {Nothing, ThisTurn}
                else "default"
            ),
            state_keys=_shown_keys(selectors),
            shows_artifacts=ArtifactText in kinds
            or any(isinstance(one, Label) and one.artifacts for one in self.protections)
            or any(one.shows_artifacts for one in inner),
            refers=Auto in kinds
            or any(isinstance(step, Dedupe) for step in steps)
            or any(one.refers for one in inner),
            makes_handles=any(isinstance(one, Auto) and not one.lossless for one in selectors)
            or folding is not None
            or (self.limit is not None and self.limit.overflow == "degrade")
            or any(makes_handles(step) for step in steps)
            or any(one.makes_handles for one in inner),
            is_lossless=all(isinstance(one, Auto) and one.lossless for one in selectors),
            is_conditional=When in kinds,
            folding=folding,
        )  # fmt: skip

    def resolved(
        self, state: "Mapping[str, Json]", decide: "Callable[[When, Mapping[str, Json]], bool]"
    ) -> "Policy":
        """The policy as it holds for this state: `decide` says which conditions are met."""
        if not self.facts.is_conditional:
            return self
        stages: tuple[Stage, ...] = ()
        # protections and writings of conditions that hold count for the whole request
        whole = replace(self, stages=(Stage(ThisTurn()),), limit=None)
        for stage in self.stages:
            selector = stage.selector
            if not isinstance(selector, When):
                stages = _unite_stages(stages, (stage,))
            elif decide(selector, state):
                inner = selector.policy.resolved(state, decide)
                for step in stage.steps:
                    inner = inner._then(step)
                stages = _unite_stages(stages, inner.stages)
                whole = whole + replace(inner, stages=(Stage(ThisTurn()),))
        return replace(whole, stages=stages or (Stage(ThisTurn()),), limit=self.limit)

    def _words(self) -> "Iterator[str]":
        if self.folding is not None:
            yield str(self.folding)
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


def selectors_in(policy: Policy) -> "Iterator[Selector]":
    """Every selector of a policy, also those under a condition."""
    for stage in policy.stages:
        yield stage.selector
        if isinstance(stage.selector, When):
            yield from selectors_in(stage.selector.policy)


def policies_in(policy: Policy) -> "Iterator[Policy]":
    """The policy, and every policy under a condition in it."""
    yield policy
    yield from (one.policy for one in selectors_in(policy) if isinstance(one, When))


class PolicyFacts(msgspec.Struct, frozen=True):
    """What a policy means for a request."""

    view: View
    """How much of the log is looked at: all, the current turn, or not even that."""
    state_keys: tuple[str, ...]
    """The state keys whose values are shown as items."""
    shows_artifacts: bool
    """Whether the text of an artifact is shown, or guarded."""
    refers: bool
    """Whether something in view may be said by a reference to something else in view."""
    makes_handles: bool
    """Whether something in view may stand as a handle that `recall` gets back."""
    is_lossless: bool
    """Whether nothing is hidden, so that references need not say how to get back what they name."""
    is_conditional: bool
    """Whether a predicate decides about a part of it."""
    folding: Folding | None
    """How steps that are over become notes; None where they stay as they are."""


def _keep_more(one: Folding | None, other: Folding | None) -> Folding | None:
    """Of two ways to fold the one that keeps more, so that `a + b == b + a`."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda fold: fold.keep)


def _shown_keys(selectors: Iterable[Selector]) -> tuple[str, ...]:
    keys: list[str] = []
    for selector in selectors:
        if isinstance(selector, StateKeys):
            keys += selector.keys
        elif isinstance(selector, Notes):
            keys.append(selector.key)
    return tuple(dict.fromkeys(keys))


def makes_handles(step: Reduction) -> bool:
    """Whether a verb replaces something by a handle that `recall` gets back."""
    return isinstance(step, Compact) or (isinstance(step, Fresh) and step.stale == "compact")


def _once(steps: tuple[Part, ...], step: Part) -> tuple[Part, ...]:
    return steps if step in steps else (*steps, step)


def _unite_stages(first: tuple[Stage, ...], second: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The stages of both, each once; what lets nothing through adds nothing."""
    stages = list(first)
    stages += [stage for stage in second if stage not in stages]
    if len(stages) > 1:
        # nothing together with something adds nothing
        loud = [stage for stage in stages if not isinstance(stage.selector, Nothing)]
        stages = loud or stages[:1]
    return tuple(stages)


def _after_budget(step: object) -> DeclarationError:
    return DeclarationError(
        f"a budget is the last word of a policy, and `{step}` comes after it",
        where="C.budget",
        hint="write the budget last: policy.compact().budget(8000)",
    )


def _no_transform(other: object) -> DeclarationError:
    return DeclarationError(
        f"{other!r} is not a transform", where="C", hint="write policy | C.compact()"
    )


def _lone(transforms: Transforms) -> DeclarationError:
    return DeclarationError(
        f"{transforms} selects nothing: it is a transform",
        where="C",
        hint="write C.default() before it, or hand it items with |",
    )


_WORDS: dict[str, str] = dict.fromkeys(("tokens", "max_tokens", "budget", "limit"), "token_budget")


@explain_mistakes("TokenBudget(token_budget=4096, keep_recent=3)", words=_WORDS)
class TokenBudget(DeclaredStruct, frozen=True, forbid_unknown_fields=True):
    """Keep the whole request within `token_budget`, dropping the oldest items first.

    It is short for `C.budget(token_budget, overflow="drop", reserve=0, keep_recent=keep_recent)`,
    in addition to what the agent's policy says. System text, tools, schema and history all count.
    The last `keep_recent` items and the message that started the invocation are never dropped.
    """

    token_budget: int
    keep_recent: int = 1

    def __post_init__(self) -> None:
        for name, number, least in (
            ("token_budget", self.token_budget, 1),
            ("keep_recent", self.keep_recent, 0),
        ):
            value = cast("object", number)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise DeclarationError(
                    f"{name}={value!r} is not a whole number of at least {least}",
                    where="TokenBudget",
                    hint="write TokenBudget(token_budget=4096, keep_recent=3)",
                )

    @property
    def limit(self) -> Budget:
        """The same as a budget of a policy."""
        return Budget(
            # at least the newest item: a request without it asks nothing
            self.token_budget,
            overflow="drop",
            reserve=0,
            keep_recent=max(self.keep_recent, 1),
        )


def check_reader(reader: object) -> None:
    """Refuse a reader that could do more than answer."""
    if reader is None:
        return
    hint = 'pass an agent without tools: C.default().hide(reader=Agent("reader", model="..."))'
    if not hasattr(reader, "tools") or not hasattr(reader, "sub_agents"):
        raise DeclarationError(
            f"{describe_kind(reader)} cannot read", where="C.hide.reader", hint=hint
        )
    for field in ("tools", "tool_sources", "sub_agents", "output_key"):
        if getattr(reader, field, None):
            raise DeclarationError(
                f"the reader has {field}: a text that it reads could use them",
                where="C.hide.reader",
                hint=hint,
            )
