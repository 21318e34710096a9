"""Transforms: what a policy does with the items it lets through, and what it writes or guards."""

from typing import ClassVar, Literal, TypeAlias

from weft.declare.policy.written import Written

DedupeHow = Literal["exact", "superseded"]
Keep = Literal["head", "tail", "bookend"]
Stale = Literal["drop", "warn", "compact"]
Strategy = Literal["append", "replace", "merge", "checklist"]
Overflow = Literal["degrade", "drop", "summarize", "error"]
Quality = Literal["completeness", "contradictions", "density"]
Untrusted = Literal["results", "files", "agents"]
Restore = Literal["tools", "answer"]
Scope = Literal["all", "results", "agents"]

# COMPRESS


class Compact(Written, frozen=True):
    """Large results, texts and media become a handle with a digest of at most `to` tokens.

    `results`, `texts` and `media` are the tokens from which on that is done; None leaves them as
    they are. Media, and what the user and the agent said, wait until their turn is over.
    """

    word: ClassVar[str] = "compact"
    results: int | None = 800
    texts: int | None = 4000
    media: int | None = 2000
    to: int = 300


class Dedupe(Written, frozen=True):
    """The same large value once: an exact copy, or the newest of what superseded each other."""

    word: ClassVar[str] = "dedupe"
    placed: ClassVar[int] = 1
    how: DedupeHow = "exact"


class Project(Written, frozen=True):
    """Only these fields of JSON results, or all but those."""

    word: ClassVar[str] = "project"
    fields: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Truncate(Written, frozen=True):
    """At most so many tokens of each text and result."""

    word: ClassVar[str] = "truncate"
    tokens: int
    keep: Keep = "head"


class Summarize(Written, frozen=True):
    """What lies before the last `before` turns as a summary that a model writes.

    One summary stands for `every` so many turns; None is as many as stay, where those are a few.
    """

    word: ClassVar[str] = "summarize"
    before: int = 5
    every: int | None = None
    scope: Scope = "all"
    schema: object = None
    prompt: str | None = None
    model: object = None


# BUDGET


class Priority(Written, frozen=True):
    """Who survives a budget: 1 always, 4 first to go."""

    word: ClassVar[str] = "priority"
    placed: ClassVar[int] = 1
    tier: int


class Fit(Written, frozen=True):
    """So many tokens of these items, the best first, else the newest."""

    word: ClassVar[str] = "fit"
    placed: ClassVar[int] = 1
    tokens: int


# PROTECT


class Fresh(Written, frozen=True):
    """Results that are older than so many turns or seconds are stale."""

    word: ClassVar[str] = "fresh"
    turns: int | None = None
    seconds: float | None = None
    stale: Stale = "drop"


class Redact(Written, frozen=True):
    """What detectors, patterns and field names find is replaced in all that is sent."""

    word: ClassVar[str] = "redact"
    placed: ClassVar[int] = 1
    kinds: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    restore: tuple[Restore, ...] = ()


class Validate(Written, frozen=True):
    """What is to be found out about a request before it is sent; `model` looks too, if given."""

    word: ClassVar[str] = "validate"
    placed: ClassVar[int] = 1
    what: tuple[Quality, ...] = ("completeness",)
    model: object = None


class Label(Written, frozen=True):
    """A label on state keys, tools' results and artifacts that only who is cleared may see."""

    word: ClassVar[str] = "label"
    placed: ClassVar[int] = 2
    name: str
    keys: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()


class Fence(Written, frozen=True):
    """Text that nobody vouches for stands between marks that it cannot close."""

    word: ClassVar[str] = "fence"
    placed: ClassVar[int] = 1
    what: tuple[Untrusted, ...] = ("results", "files", "agents")


# WRITE


class Capture(Written, frozen=True):
    """The user's message goes into state."""

    word: ClassVar[str] = "capture"
    placed: ClassVar[int] = 1
    key: str


class NoteDown(Written, frozen=True):
    """The agent's answer is noted under a key."""

    word: ClassVar[str] = "note"
    placed: ClassVar[int] = 1
    key: str
    strategy: Strategy = "append"


class Extract(Written, frozen=True):
    """What a schema asks for is read out of the conversation into state, by a model."""

    word: ClassVar[str] = "extract"
    placed: ClassVar[int] = 2
    schema: object
    key: str
    model: object = None


class Distill(Written, frozen=True):
    """The conversation as single facts with their sources, in state, by a model."""

    word: ClassVar[str] = "distill"
    placed: ClassVar[int] = 1
    key: str
    model: object = None


class Budget(Written, frozen=True):
    """The tokens of the whole request, with a reserve for the answer, and what gives way."""

    word: ClassVar[str] = "budget"
    placed: ClassVar[int] = 1
    tokens: int
    overflow: Overflow = "degrade"
    reserve: int | None = None


Reduction: TypeAlias = Compact | Dedupe | Project | Truncate | Summarize | Priority | Fit | Fresh
Protection: TypeAlias = Redact | Validate | Label | Fence
Writing: TypeAlias = Capture | NoteDown | Extract | Distill
Transform: TypeAlias = Reduction | Protection | Writing
