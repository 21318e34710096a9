"""The parts of a policy, as data: what selects items, what changes them, and what guards them.

Each class is one word of `C` with its options, and prints as its author wrote it. Behind them stand
the checks that the options of several words share.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

import msgspec

from weft.declare.functions import StateFunction, is_model, name_of, require_state_key
from weft.errors import DeclarationError
from weft.jsonschema import shorten
from weft.late import late_pattern

if TYPE_CHECKING:
    from weft.declare.policy import Policy

Which = Literal["all", "first", "last", "bookend"]

Scorer = Literal["bm25", "embedding", "model"]

MemoryScorer = Literal["bm25", "embedding"]

NotesFormat = Literal["list", "text", "checklist", "json"]

Kind = Literal["user", "model", "results", "foreign", "summary", "state"]
"""What an item is to an author: the user's words, the agent's, a call with its results, ..."""


class PolicyWord(msgspec.Struct, frozen=True):
    """One word of a policy with its options; the first `placed` are written without a name."""

    word: ClassVar[str] = ""
    placed: ClassVar[int] = 0

    def __str__(self) -> str:
        return f"{self.word}({', '.join(spell_options(self, self.placed))})"

    __repr__ = __str__


def spell_options(word: msgspec.Struct, placed: int) -> list[str]:
    """What stands between the parentheses; an option with its default value is not written."""
    options: list[str] = []
    names, defaults = word.__struct_fields__, word.__struct_defaults__
    required = len(names) - len(defaults)
    for index, name in enumerate(names):
        value: object = getattr(word, name)
        if index >= required and value == defaults[index - required]:
            continue
        if index < placed and isinstance(value, tuple):
            options += map(spell_value, cast("tuple[object, ...]", value))
        elif index < placed:
            options.append(spell_value(value))
        else:
            options.append(f"{name}={spell_value(value)}")
    return options


def spell_value(value: object) -> str:
    """An option as its author wrote it; a function by its name."""
    if value is None or isinstance(value, str | int | float | bool | PolicyWord):
        return repr(value)
    if isinstance(value, dict):
        return repr(cast("dict[object, object]", value))
    if isinstance(value, tuple):
        return "[" + ", ".join(spell_value(one) for one in cast("tuple[object, ...]", value)) + "]"
    if callable(value):
        return name_of(value)
    name = cast("object", getattr(value, "name", None))
    return repr(name) if isinstance(name, str) else repr(value)


class Everything(PolicyWord, frozen=True):
    """The whole visible log; without `data`, not the words of agents whose output is data."""

    word: ClassVar[str] = "default"
    data: bool = True


class ThisTurn(PolicyWord, frozen=True):
    """The current turn: the user's message and the agent's own traffic of this invocation."""

    word: ClassVar[str] = "none"


class Nothing(PolicyWord, frozen=True):
    """No conversation at all, not even the user's message."""

    word: ClassVar[str] = "nothing"


class Auto(PolicyWord, frozen=True):
    """The whole log, reduced at birth, and folded when that pays, unless `fold` is False.

    If `careful`, a result is shown whole once, and reduced when the next one arrives. If
    `lossless`, it only gets forms that stay in view: references to what stands above, and tables.
    """

    word: ClassVar[str] = "auto"
    careful: bool = False
    lossless: bool = False
    fold: bool = True


class UserWords(PolicyWord, frozen=True):
    """What the user said: all of it, the first, the last, or both ends."""

    word: ClassVar[str] = "user"
    placed: ClassVar[int] = 1
    which: Which = "all"


class Window(PolicyWord, frozen=True):
    """The last turns; a turn is a user's message with all that follows it."""

    word: ClassVar[str] = "window"
    placed: ClassVar[int] = 1
    turns: int


class FromAgents(PolicyWord, frozen=True):
    """What these agents said and did."""

    word: ClassVar[str] = "agents"
    placed: ClassVar[int] = 1
    names: tuple[str, ...]


class WithoutAgents(PolicyWord, frozen=True):
    """Everything but what these agents said and did."""

    word: ClassVar[str] = "without_agents"
    placed: ClassVar[int] = 1
    names: tuple[str, ...]


class Matching(PolicyWord, frozen=True):
    """Items by author, kind and tag; each that is given must fit."""

    word: ClassVar[str] = "select"
    author: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()


class Recent(PolicyWord, frozen=True):
    """Items whose worth, which fades with every turn, is still at least `min_score`."""

    word: ClassVar[str] = "recent"
    half_life: float | None = None
    decay: float | None = None
    min_score: float = 0.1


class Relevant(PolicyWord, frozen=True):
    """Items that have to do with a query: given, in state, or what the user said last."""

    word: ClassVar[str] = "relevant"
    query: str | None = None
    from_state: str | None = None
    top_k: int | None = None
    scorer: Scorer = "bm25"
    model: object = None


class StateKeys(PolicyWord, frozen=True):
    """The values of state keys, as items of their own."""

    word: ClassVar[str] = "state"
    placed: ClassVar[int] = 1
    keys: tuple[str, ...]


class Notes(PolicyWord, frozen=True):
    """What was noted under a key."""

    word: ClassVar[str] = "notes"
    placed: ClassVar[int] = 1
    key: str
    format: NotesFormat = "list"


class ArtifactText(PolicyWord, frozen=True):
    """The newest text of an artifact."""

    word: ClassVar[str] = "artifact"
    placed: ClassVar[int] = 1
    name: str


class Memories(PolicyWord, frozen=True):
    """What the user's memory has on a query: given, in state, or what the user said last."""

    word: ClassVar[str] = "memory"
    placed: ClassVar[int] = 1
    query: str | None = None
    from_state: str | None = None
    top_k: int = 5
    scorer: "MemoryScorer" = "bm25"


class When(PolicyWord, frozen=True):
    """What a policy selects, while a predicate of the state holds."""

    word: ClassVar[str] = "when"
    placed: ClassVar[int] = 2
    predicate: StateFunction
    policy: "Policy"


Selector: TypeAlias = (
    Everything
    | ThisTurn
    | Nothing
    | Auto
    | UserWords
    | Window
    | FromAgents
    | WithoutAgents
    | Matching
    | Recent
    | Relevant
    | StateKeys
    | Notes
    | ArtifactText
    | Memories
    | When
)

DedupeHow = Literal["exact", "superseded"]

Keep = Literal["head", "tail", "bookend"]

Stale = Literal["drop", "warn", "compact"]

Strategy = Literal["append", "replace", "merge", "checklist"]

Overflow = Literal["degrade", "drop", "summarize", "error"]

Quality = Literal["completeness", "contradictions", "density"]

Untrusted = Literal["results", "files", "agents"]

Restore = Literal["tools", "answer"]

Scope = Literal["all", "results", "agents"]


class Compact(PolicyWord, frozen=True):
    """Large results, texts and media become a handle with a digest of at most `to` tokens.

    `results`, `texts` and `media` are the tokens from which on that is done; None leaves them as
    they are. Media, and what the user and the agent said, wait until their turn is over.
    """

    word: ClassVar[str] = "compact"
    results: int | None = 800
    texts: int | None = 4000
    media: int | None = 2000
    to: int = 300


class Dedupe(PolicyWord, frozen=True):
    """The same large value once: an exact copy, or the newest of what superseded each other."""

    word: ClassVar[str] = "dedupe"
    placed: ClassVar[int] = 1
    how: DedupeHow = "exact"


class Project(PolicyWord, frozen=True):
    """Only these fields of JSON results, or all but those."""

    word: ClassVar[str] = "project"
    fields: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Truncate(PolicyWord, frozen=True):
    """At most a number of tokens of each text and result."""

    word: ClassVar[str] = "truncate"
    tokens: int
    keep: Keep = "head"


class Summarize(PolicyWord, frozen=True):
    """What lies before the last `before` turns as a summary that a model writes.

    One summary covers `every` turns; None is as many as stay, where those are a few.
    """

    word: ClassVar[str] = "summarize"
    before: int = 5
    every: int | None = None
    scope: Scope = "all"
    schema: object = None
    prompt: str | None = None
    model: object = None


class Priority(PolicyWord, frozen=True):
    """Who survives a budget: 1 always, 4 first to go."""

    word: ClassVar[str] = "priority"
    placed: ClassVar[int] = 1
    tier: int


class Fit(PolicyWord, frozen=True):
    """At most `tokens` tokens of these items, the best first, else the newest."""

    word: ClassVar[str] = "fit"
    placed: ClassVar[int] = 1
    tokens: int


class Fresh(PolicyWord, frozen=True):
    """Results that are older than a number of turns or seconds are stale."""

    word: ClassVar[str] = "fresh"
    turns: int | None = None
    seconds: float | None = None
    stale: Stale = "drop"


class Folding(PolicyWord, frozen=True):
    """Steps that are over become one note, when that pays; the newest `keep` stay as they are."""

    word: ClassVar[str] = "fold"
    keep: int = 3


class Redact(PolicyWord, frozen=True):
    """What detectors, patterns and field names find is replaced in all that is sent."""

    word: ClassVar[str] = "redact"
    placed: ClassVar[int] = 1
    kinds: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    restore: tuple[Restore, ...] = ()


class Validate(PolicyWord, frozen=True):
    """What is to be found out about a request before it is sent; `model` looks too, if given."""

    word: ClassVar[str] = "validate"
    placed: ClassVar[int] = 1
    what: tuple[Quality, ...] = ("completeness",)
    model: object = None


class Label(PolicyWord, frozen=True):
    """A label on state keys, tools' results and artifacts that only who is cleared may see."""

    word: ClassVar[str] = "label"
    placed: ClassVar[int] = 2
    name: str
    keys: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    follow: bool = False
    """Whether what was said or written after seeing them carries it too, whatever the words."""


class Fence(PolicyWord, frozen=True):
    """Text that nobody vouches for stands between marks that it cannot close."""

    word: ClassVar[str] = "fence"
    placed: ClassVar[int] = 1
    what: tuple[Untrusted, ...] = ("results", "files", "agents")
    tools: tuple[str, ...] = ()
    """Tools whose results are fenced whatever `what` says."""


class Hide(PolicyWord, frozen=True):
    """Handles stand for text that nobody vouches for; a reader says what it says."""

    word: ClassVar[str] = "hide"
    reader: object = None
    """The agent that reads it; None: the agent's own model, without tools."""


HANDLE_FORM = r"\$h[0-9a-f]{8}"
"""What stands for a hidden text, as an expression."""

HANDLE = late_pattern(HANDLE_FORM)


class Capture(PolicyWord, frozen=True):
    """The user's message goes into state."""

    word: ClassVar[str] = "capture"
    placed: ClassVar[int] = 1
    key: str


class NoteDown(PolicyWord, frozen=True):
    """The agent's answer is noted under a key."""

    word: ClassVar[str] = "note"
    placed: ClassVar[int] = 1
    key: str
    strategy: Strategy = "append"


class Extract(PolicyWord, frozen=True):
    """What a schema asks for is read out of the conversation into state, by a model."""

    word: ClassVar[str] = "extract"
    placed: ClassVar[int] = 2
    schema: object
    key: str
    model: object = None


class Distill(PolicyWord, frozen=True):
    """The conversation as single facts with their sources, in state, by a model."""

    word: ClassVar[str] = "distill"
    placed: ClassVar[int] = 1
    key: str
    model: object = None


class Budget(PolicyWord, frozen=True):
    """The tokens of the whole request, with a reserve for the answer, and what gives way."""

    word: ClassVar[str] = "budget"
    placed: ClassVar[int] = 1
    tokens: int
    overflow: Overflow = "degrade"
    reserve: int | None = None
    keep_recent: int | None = None
    """With it age alone decides: that many of the newest stay, and the oldest go first."""


Reduction: TypeAlias = Compact | Dedupe | Project | Truncate | Summarize | Priority | Fit | Fresh

Protection: TypeAlias = Redact | Validate | Label | Fence | Hide

Writing: TypeAlias = Capture | NoteDown | Extract | Distill

Transform: TypeAlias = Reduction | Folding | Protection | Writing


_MARKS = late_pattern(r"[\\()\[\]{}^$*+?|]")


def is_pattern(kind: object) -> bool:
    """Whether it is a regular expression: no detector's name has any of its marks."""
    return isinstance(kind, re.Pattern) or (isinstance(kind, str) and bool(_MARKS.search(kind)))


def require_key(word: str, key: object) -> str:
    """The state key that a verb writes, or an error."""
    return require_state_key(key, where=f"C.{word}", example=f'write C.default().{word}("key")')


def require_model(word: str, model: object) -> None:
    """Refuse what is neither a model nor None."""
    if model is not None and not is_model(model):
        raise DeclarationError(
            f"{model!r} is not a model",
            where=f"C.{word}.model",
            hint='write model="NAME", or pass an object with `name` and `dialect`',
        )


def require_names(word: str, values: object, what: str, *, least: int = 1) -> tuple[str, ...]:
    """Names as a tuple: one, or several."""
    listed = (values,) if isinstance(values, str) else values
    if isinstance(listed, Iterable):
        names = tuple(cast("Iterable[object]", listed))
        if len(names) >= least and all(isinstance(one, str) and one for one in names):
            return cast("tuple[str, ...]", names)
    spelling = shorten(repr(values), 60)
    within = cast("tuple[object, ...]", values)[:1] if isinstance(values, tuple) else ()
    one_by_one = " one by one" if within and isinstance(within[0], list | tuple) else ""
    raise DeclarationError(
        f"{spelling} is not a list of {what}",
        where=f"C.{word}",
        hint=f'pass {what}{one_by_one}: "name"',
    )


def require_count(word: str, name: str, value: object, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise DeclarationError(
            f"{name}={value!r} is not a whole number of at least {least}",
            where=f"C.{word}",
            hint=f"pass {least} or more",
        )


def require_amount(word: str, name: str, value: object, *, most: float = float("inf")) -> None:
    """Refuse what is not a number above 0 and at most `most`."""
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 < cast("float", value) <= most:
        limit = "" if most == float("inf") else f" and at most {most:g}"
        raise DeclarationError(
            f"{name}={value!r} is not a number above 0{limit}",
            where=f"C.{word}",
            hint=f"pass a number above 0{limit}",
        )
