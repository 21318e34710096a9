"""What Weft keeps on an event: one struct, stored under `customMetadata.weft`.

ADK ignores what stands there. Only this module reads and writes that JSON. Keys that it does not
know stay as they are. What Weft keeps on a part is `weft.content.PartProvenance`.
"""

import msgspec

from weft.content import KEY, MetadataNotes, notes_in, read_notes
from weft.session.flow import has_only_flow
from weft.values import Json, JsonObject


class BranchDelta(msgspec.Struct, frozen=True):
    """A change of state that belongs to one branch until the branch is closed."""

    branch: str
    delta: JsonObject


class JoinedBranch(msgspec.Struct, frozen=True):
    """A branch whose events count as said on the branch around it."""

    path: str
    branch: str


class LaterTags(msgspec.Struct, frozen=True):
    """Tags for an earlier event."""

    event: str
    tags: list[str] = []


class YieldedEvent(msgspec.Struct, frozen=True):
    """An event that the code of a custom agent yielded."""

    step: int
    """Which of the steps that the code took."""
    digest: str
    """What tells it from other events."""


class CodeStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of code that a model wrote, which ends with the calls of the event."""

    number: int
    snapshot: str | None = None
    """What the code goes on from after a crash, in base64; None where it was too large."""


class OfferedTools(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the toolsets of an agent answered in one invocation: declarations, no code."""

    agent: str
    tools: list[JsonObject]
    as_before: bool = False
    """Whether it is what the log has already; `tools` is empty then."""

    def find_untrusted(self) -> set[str]:
        """The names of tools whose results nobody vouches for."""
        return {str(one["name"]) for one in self.tools if one.get("untrusted") is True}


class AskedByTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question that a tool asked the user: its key in the call, and what the tool noted."""

    key: str
    notes: JsonObject = {}


class Charge(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one answer of a model cost, in a run that counts it."""

    model: str | None = None
    """The model that was asked."""
    tokens: int | None = None
    """Tokens of the request and its answer."""
    seconds: float | None = None
    """How long the run had lasted when the answer came."""
    money: float | None = None
    """US dollars."""
    prompt: int | None = None
    """Tokens of the request alone, where they were counted here: the provider reported none."""


class Provenance(MetadataNotes, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Where an event comes from and what the runtime has to know of it; None: not noted."""

    # Who answered. Models and dialects write these on their responses.

    provider: str | None = None
    """The dialect that the event's signatures and opaque parts belong to."""
    model: str | None = None
    """The model that wrote them."""
    cache_write: int | None = None
    """Tokens that the provider wrote to its cache for this answer."""
    cache_lifetime: str | None = None
    """How long it keeps them, such as `1h`, where that is not the shortest time it has."""
    stated_cost: float | None = None
    """US dollars that a recording says the answer cost, with its request."""
    rest: JsonObject | None = None
    """Fields of the provider's answer that the event has no field for."""
    fallback: list[JsonObject] | None = None
    """Models that failed before this one answered: `model` and `code` of each."""
    lost: list[str] | None = None
    """What the model that answered could not be sent, in words."""
    attempts: list[Json] | None = None
    """The attempts that the answer took, where it took more than one."""
    unanswered: str | None = None
    """The model that was asked, on an error that stands where its answer would."""
    cached_content: str | None = None
    """The name under which the provider keeps the start of the request."""
    known: int | None = None
    """Tokens of request and answer that the model will not have to read again."""

    # What the request was. The runtime writes these on answers.

    instructions: dict[str, str] | None = None
    """What callable instructions returned for the request, by their place."""
    within: int | None = None
    """The tokens that the request had to stay within, after a longer one was refused."""
    first_piece: float | None = None
    """Seconds until the first piece of a streamed answer came."""
    cache_miss: JsonObject | None = None
    """What the provider should have read from its cache and did not (`Miss.to_dict`)."""
    effect: JsonObject | None = None
    """What a model was asked for to build a request, with its `fingerprint` and `outcome`."""
    spent: Charge | None = None
    """What the answer cost."""
    run_budget: JsonObject | None = None
    """The warning that the run nears its budget: `code` and `message`."""
    offered: OfferedTools | None = None
    """What the toolsets of an agent answered."""
    withheld: list[str] | None = None
    """Tools that the agent has and the request did not offer."""

    # What became of an answer.

    rejected: str | None = None
    """Why the answer was returned to the model."""
    cut: str | None = None
    """The text of an answer that was refused because it was cut off."""
    piece: bool | None = None
    """Set on a piece of an answer that comes in several."""
    pieces: list[str] | None = None
    """The events whose pieces this answer is put together from; they are hidden."""
    restored: JsonObject | None = None
    """Redacted values that were put back: placeholder -> value."""

    # Tool calls.

    pending: list[str] | None = None
    """The calls that wait for an answer from outside."""
    expired: list[str] | None = None
    """Calls for which a yes came too late: they stay refused, whatever the clock says later."""
    asked: AskedByTool | None = None
    """Set on a question that a tool asks the user."""
    unstarted: list[str] | None = None
    """Calls that ended with a question to the user: they are made again with the answer."""
    started: list[str] | None = None
    """Calls that are not safe to repeat and that began."""
    outcomes: dict[str, JsonObject] | None = None
    """Results of calls whose batch is not finished, by call id."""
    diagnostics: list[str] | None = None
    """Diagnostics of the step, as text."""

    code: CodeStep | None = None
    """Set on calls that code made, not a model."""
    derived: dict[str, list[str]] | None = None
    """By call: the labels of what its code was given, which all of its result carries."""

    # Flows.

    undone: list[str] | None = None
    """Paths of the nodes whose events are taken back."""
    joined: JoinedBranch | None = None
    """The branch that won and counts as said here."""
    forks: dict[str, JsonObject] | None = None
    """The state that each branch begins with, by branch."""
    branch_delta: BranchDelta | None = msgspec.field(default=None, name="held")
    """What the event wrote on its branch, instead of to the session."""
    closed: str | None = None
    """The branch below which the state of all branches ends here."""
    tags: list[str] | None = None
    """Tags of this event."""
    tagged: LaterTags | None = None
    """Tags for an earlier event."""

    yielded: YieldedEvent | None = None
    """Set on an event that the code of a custom agent yielded."""

    # Trust.

    labels: list[str] | None = None
    """Labels of the values in the event, recorded when it was stored."""
    untrusted: Json | None = None
    """Set when the log was read from outside: the notes that do not count."""

    @property
    def reaches_back(self) -> bool:
        """Whether the event changes how earlier ones are seen."""
        return self.undone is not None or self.joined is not None or self.pieces is not None

    @property
    def writes(self) -> bool:
        """Whether the event wrote to branches, apart from what it wrote to the session."""
        return self.branch_delta is not None or self.forks is not None


NOTHING = Provenance()


def provenance_in(metadata: JsonObject | None) -> Provenance:
    """What Weft keeps in an event's, or a response's, `custom_metadata`."""
    if metadata is None or has_only_flow(metadata):
        return NOTHING
    return read_notes(metadata, Provenance, NOTHING)


_RUNTIME_ONLY = ("undone", "joined", "pieces", "effect", "restored")
"""Notes that agents and flows write, and a user never."""


def without_trust(metadata: JsonObject, *, by_user: bool) -> JsonObject | None:
    """The metadata as it counts where nobody knows that Weft wrote it; None: as it is.

    What callable instructions returned would be system text again, so it is marked, and only
    somebody who rebuilds a request by hand reads it. A user's event takes nothing back and
    summarizes nothing, so such notes are set aside under `untrusted`. A snapshot is left out: an
    interpreter trusts what it loads, and the code goes on from the results in the log as well.
    """
    stored = notes_in(metadata)
    claims = {name: stored[name] for name in _RUNTIME_ONLY if by_user and name in stored}
    code = stored.get("code")
    if isinstance(code, dict) and "snapshot" in code:
        bare = {name: value for name, value in code.items() if name != "snapshot"}
        metadata = {**metadata, KEY: {**stored, "code": bare}}
    elif not claims and "instructions" not in stored:
        return None
    return _set_aside(metadata, claims) if claims or "instructions" in stored else metadata


_ACTS = (
    *("pending", "started", "outcomes", "offered", "yielded", "effect", "restored"),
    *("instructions", "forks", "held", "closed", "code"),
)
"""Notes, as they are stored, by which a runtime acts or writes state."""


def without_acts(metadata: JsonObject) -> JsonObject:
    """The metadata of an event that a client posts: by what it notes nothing is run or written.

    Such notes are set aside under `untrusted`. Those that only say who answered, or how the event
    is seen, stay.
    """
    stored = notes_in(metadata)
    claims = {name: stored[name] for name in _ACTS if name in stored}
    return _set_aside(metadata, claims) if claims else metadata


def _set_aside(metadata: JsonObject, claims: JsonObject) -> JsonObject:
    """The metadata with some of its notes under `untrusted`."""
    stored = notes_in(metadata)
    before = stored.get("untrusted")
    rest: JsonObject = {name: value for name, value in stored.items() if name not in claims}
    rest["untrusted"] = {**(before if isinstance(before, dict) else {}), **claims}
    return {**metadata, KEY: rest}
