"""Selectors: which items of the conversation a policy lets through."""

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from weft.declare.functions import StateFunction
from weft.declare.policy.written import Written

if TYPE_CHECKING:
    from weft.declare.policy.policy import Policy

Which = Literal["all", "first", "last", "bookend"]
Scorer = Literal["bm25", "embedding", "model"]
NotesFormat = Literal["list", "text", "checklist", "json"]
Kind = Literal["user", "model", "results", "foreign", "summary", "state"]
"""What an item is to an author: the user's words, the agent's, a call with its results, ..."""


class Everything(Written, frozen=True):
    """The whole visible log; without `data`, not the words of agents whose output is data."""

    word: ClassVar[str] = "default"
    data: bool = True


class ThisTurn(Written, frozen=True):
    """The current turn: the user's message and the agent's own traffic of this invocation."""

    word: ClassVar[str] = "none"


class Nothing(Written, frozen=True):
    """No conversation at all, not even the user's message."""

    word: ClassVar[str] = "nothing"


class Auto(Written, frozen=True):
    """The whole log, reduced at birth, edited when that pays."""

    word: ClassVar[str] = "auto"


class UserWords(Written, frozen=True):
    """What the user said: all of it, the first, the last, or both ends."""

    word: ClassVar[str] = "user"
    placed: ClassVar[int] = 1
    which: Which = "all"


class Window(Written, frozen=True):
    """The last turns; a turn is a user's message with all that follows it."""

    word: ClassVar[str] = "window"
    placed: ClassVar[int] = 1
    turns: int


class FromAgents(Written, frozen=True):
    """What these agents said and did."""

    word: ClassVar[str] = "agents"
    placed: ClassVar[int] = 1
    names: tuple[str, ...]


class WithoutAgents(Written, frozen=True):
    """Everything but what these agents said and did."""

    word: ClassVar[str] = "without_agents"
    placed: ClassVar[int] = 1
    names: tuple[str, ...]


class Matching(Written, frozen=True):
    """Items by author, kind and tag; each that is given must fit."""

    word: ClassVar[str] = "select"
    author: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()


class Recent(Written, frozen=True):
    """Items whose worth, which fades with every turn, is still at least `min_score`."""

    word: ClassVar[str] = "recent"
    half_life: float | None = None
    decay: float | None = None
    min_score: float = 0.1


class Relevant(Written, frozen=True):
    """Items that have to do with a query: given, in state, or what the user said last."""

    word: ClassVar[str] = "relevant"
    query: str | None = None
    from_state: str | None = None
    top_k: int | None = None
    scorer: Scorer = "bm25"
    model: object = None


class StateKeys(Written, frozen=True):
    """The values of state keys, as items of their own."""

    word: ClassVar[str] = "state"
    placed: ClassVar[int] = 1
    keys: tuple[str, ...]


class Notes(Written, frozen=True):
    """What was noted under a key."""

    word: ClassVar[str] = "notes"
    placed: ClassVar[int] = 1
    key: str
    format: NotesFormat = "list"


class ArtifactText(Written, frozen=True):
    """The newest text of an artifact."""

    word: ClassVar[str] = "artifact"
    placed: ClassVar[int] = 1
    name: str


class When(Written, frozen=True):
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
    | When
)
