"""A compiled request: everything there is to know about it, worked out when asked for."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING

from weft.compiler.caching import Ending, Prediction, Reader, Tokens, predict
from weft.compiler.costs import announced, new_folds
from weft.compiler.count import Scale
from weft.compiler.incremental import Woven
from weft.compiler.plan import Plan
from weft.compiler.prefix import (
    Prefix,
    PrefixBreak,
    SharedPrefix,
    SourceMap,
    compare,
    refused,
    require_accepted,
)
from weft.compiler.protected import require_cleared, require_protected
from weft.declare import RunConfig
from weft.diagnostics import Diagnostic, Origin
from weft.dialects import Lowered, Track, dialect_named
from weft.dialects.track import earlier_hash, new_hash, track_of
from weft.errors import BudgetExceeded
from weft.ir import Block, Item, Note, Prompt, Stability, TextBlock
from weft.ir.prompt import ItemsLabel, sources_of
from weft.misuse import unknown_name
from weft.passes import Step
from weft.session import Event, Usage
from weft.session.flow import TRUSTED, TrustLabel
from weft.session.log_labels import key_labels, label_of_log
from weft.session.strand import Strand
from weft.values import JsonObject, canonical

if TYPE_CHECKING:
    from weft.compiler.diff import Diff
    from weft.compiler.report import Report
    from weft.passes.labels import Labelled


class Compiled:
    """One request: what is sent, what it costs, and where everything came from.

    Each answer is worked out when it is first asked for.
    """

    __slots__ = ("_request",)

    def __init__(self, request: "Compilation") -> None:
        self._request = request

    @property
    def system(self) -> str:
        """The system instruction as it holds now, one string, however it is delivered."""
        return self._request.system

    @property
    def prompt(self) -> Prompt:
        """The prompt in Weft's own form; printed, it is a stable, readable text."""
        return self._request.prompt

    @property
    def tools(self) -> list[str]:
        """The names of the tools, in the order they are sent."""
        return self._request.tools

    @property
    def dialect(self) -> str:
        """The dialect of the agent's model."""
        return self._request.dialect

    @property
    def wire(self) -> JsonObject:
        """The provider's JSON for the agent's model.

        It shares its turns and its head with the session's next requests: copy it, deeply, before
        you change it.
        """
        return self._request.wire

    def lower(self, dialect: str) -> JsonObject:
        """The request in any dialect."""
        return self._request.lower(dialect)

    @property
    def tokens(self) -> int:
        """Tokens of the whole request, as `count_tokens` finds them in `wire`."""
        return self._request.tokens

    @property
    def uncounted(self) -> tuple[str, ...]:
        """What the provider adds that nobody else can count; then `tokens` is the least."""
        return self._request.uncounted

    @property
    def cached(self) -> Prediction:
        """How many of its tokens the provider has read before, as far as that can be told."""
        return self._request.cached

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the compiler has to say, without what the agent allows."""
        return self._request.diagnostics

    @property
    def hash(self) -> str:
        """A content hash: equal inputs give an equal hash, in every process."""
        return self._request.hash

    @property
    def provided(self) -> Mapping[str, str]:
        """What instruction providers said; give it to `compile(recorded=)` to rebuild this."""
        return self._request.provided

    def explain(self) -> "Report":
        """The report: a row a pass, a row a block, and why anything was left out."""
        return self._request.explain()

    @property
    def label(self) -> TrustLabel:
        """Whose text the request was made from: the label that its answer will have."""
        return self._request.label

    def origin(self, pointer: str, offset: int = 0, *, dialect: str | None = None) -> Origin:
        """Where a place of the request came from: a JSON pointer, and an offset in a string."""
        return self._request.origin(pointer, offset, dialect=dialect)

    @property
    def stable_prefix(self) -> Prefix:
        """What this request shares with the previous one of the session."""
        return self._request.stable_prefix

    @property
    def prefix_break(self) -> PrefixBreak | None:
        """What broke the prefix, or None."""
        return self._request.prefix_break

    def diff(self, other: "Compiled") -> "Diff":
        """What changed from this compilation to another, in words and tokens."""
        return self._request.diff(other._request)

    def __repr__(self) -> str:
        return repr(self._request)

    def _repr_html_(self) -> str:
        from weft.compiler.page import report_fragment

        return report_fragment(self.explain())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what the parts of a request are called here."""
            if name.startswith("_"):  # asked for by copy, pickle and notebooks, not by people
                raise AttributeError(f"'Compiled' object has no attribute {name!r}")
            raise unknown_name(f"a compiled request has no `{name}`", name, Compiled, _WORDS)


_WORDS = {
    **dict.fromkeys(("messages", "contents", "text"), "print(request.prompt), or request.wire"),
    **dict.fromkeys(("json", "body", "request", "payload", "to_json", "to_dict"), "request.wire"),
    **dict.fromkeys(("cost", "price", "report"), "request.explain()"),
    "token_count": "request.tokens",
}
"""What others call the parts of a request."""


class Compilation:
    """A compiled request with all that the runtime, the report and the next request read of it."""

    previous_problem = ""
    asked = 0.0
    """When the newest event in it happened."""
    usage: Usage | None = None
    """What its answer cost, for a request that was answered."""
    answered = 0.0
    known: int | None = None
    """How many tokens of it and its answer a model that runs here will know again."""
    reads: Tokens | None = None
    """How its model reads a request, where the model runs here."""
    labelled: "Labelled | None" = None
    """What the model may not see of all that carries a label; None where it may see all."""
    presentable: "Callable[[Item], Item] | None" = None
    """What a report may show of an item, where the policy keeps something from the model."""
    log: Strand[Event] | None = None
    """The log that it was made from."""
    observed: frozenset[str] = frozenset()
    """The keys and artifacts that providers of the instruction were seen to read."""
    instructions: tuple[TextBlock, ...] | None = None
    """The instruction as it holds now, where a part of it is said after the conversation."""

    def __init__(
        self,
        prompt: Prompt,
        plan: Plan,
        config: RunConfig,
        woven: Woven,
        steps: Sequence[Step],
        provided: Mapping[str, str],
        previous: "Callable[[], Compilation | None]",
    ) -> None:
        self.prompt = prompt
        self.plan = plan
        self.dialect = plan.target.dialect
        self.provided = provided
        """What instruction providers said; give it to `compile(recorded=)` to rebuild this."""
        self.woven = woven
        self.steps = steps
        self._strict = config.strict
        self._find_previous = previous
        self._lowered: dict[str, Lowered] = {}
        self.policy = plan.policy
        """The policy as it held, with its conditions decided."""
        self.passes = plan.passes
        """The passes it was made with."""
        self.ending: Ending | None = None
        """Why this is likely the last request of its conversation, if it is."""

    @property
    def label(self) -> TrustLabel:
        """Whose text the request was made from: the label that its answer will have."""
        made_of = sources_of(self.prompt)
        return made_of.label | self._label_of_names({*made_of.names, *self.observed})

    def label_of(self, block: Block) -> TrustLabel:
        """Whose text had influence on a block."""
        made_of = ItemsLabel().with_blocks((block,))
        return made_of.label | self._label_of_names(made_of.names)

    def _label_of_names(self, names: AbstractSet[str]) -> TrustLabel:
        if not names or self.log is None:
            return TRUSTED
        label = key_labels(self.log, names).of(names)
        return label | label_of_log(self.log) if "session" in names else label

    @property
    def system(self) -> str:
        """The system instruction as it holds now, one string, however it is delivered."""
        if self.instructions is None:
            return self.prompt.system_text
        ordered = sorted(self.instructions, key=lambda block: block.stability)
        return "\n\n".join(block.text for block in ordered)

    @property
    def tools(self) -> list[str]:
        """The names of the tools, in the order they are sent."""
        return [tool.name for tool in self.prompt.tools]

    @property
    def wire(self) -> JsonObject:
        """The provider's JSON for the agent's model.

        It shares its turns and its head with the session's next requests: copy it, deeply, before
        you change it.
        """
        return self.lowered().wire

    def lower(self, dialect: str) -> JsonObject:
        """The request in any dialect."""
        return self.lowered(dialect).wire

    def lowered(self, dialect: str | None = None) -> Lowered:
        """The request in a dialect with its source map's material and diagnostics."""
        name = dialect if dialect is not None else self.dialect
        lowered = self._lowered.get(name)
        if lowered is None:
            heads, slot = self.plan.shared.heads, (name, self._strict)
            lowered = dialect_named(name).lower_on(
                self.prompt, strict=self._strict, head=heads.get(slot)
            )
            heads[slot] = lowered.head
            # checked before it is kept: asking again must be refused again
            if self.policy.protections:
                self.require_protected(self.prompt, lowered.wire, lowered)
            if self.labelled is not None:
                self.require_cleared(lowered.wire, lowered)
            if self._strict and name == self.dialect:
                require_accepted(lowered, self.prompt.model, self.plan.agent.allow)
            self._lowered[name] = lowered
        return lowered

    @cached_property
    def refused(self) -> tuple[Diagnostic, ...]:
        """What the model's provider would answer with an error, as far as that can be told."""
        return refused(self.lowered(), self.prompt.model)

    def require_protected(
        self, prompt: Prompt, wire: JsonObject, lowered: Lowered | None = None
    ) -> None:
        """Refuse a request that still holds something that its policy redacts."""
        if self.policy.protections:
            notes = self.woven.notes
            require_protected(prompt, wire, self.policy, lowered, self.prompt, notes)

    def require_cleared(self, wire: JsonObject, lowered: Lowered | None = None) -> None:
        """Refuse a request that still holds something that the model may not see."""
        if self.labelled is not None:
            require_cleared(wire, self.prompt, self.labelled, lowered)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the compiler has to say, without what the agent allows."""
        reported = (
            *self.prompt.diagnostics,
            *self.lowered().diagnostics,
            *self.refused,
            *announced(self),
        )
        unique = dict.fromkeys(str(d) for d in reported)
        # reversed: of equal ones the first stays
        by_text = {str(d): d for d in reversed(reported)}
        allowed = self.plan.agent.allow
        return tuple(by_text[text] for text in unique if by_text[text].code not in allowed)

    @cached_property
    def scale(self) -> Scale:
        """The counter for this request's model."""
        return Scale(self.dialect, self.prompt.model)

    @cached_property
    def tokens(self) -> int:
        """Tokens of the whole request, as `count_tokens` finds them in `wire`."""
        return self.scale.request(self.lowered())

    @cached_property
    def log_notes(self) -> list[Note]:
        """What was done to the events of the log, in its order; who explains asks several times."""
        notes = (*self.woven.notes, *self.woven.beside())
        # sorted: grown step by step or read at once, the same rows
        return sorted(notes, key=lambda note: (note.before.position, note.step))

    @cached_property
    def uncounted(self) -> tuple[str, ...]:
        """What the provider adds that nobody else can count; then `tokens` is the least."""
        return self.scale.list_uncounted(self.lowered())

    @cached_property
    def hash(self) -> str:
        """A content hash: equal inputs give an equal hash, in every process."""
        lowered = self.lowered()
        turns = lowered.entries
        track = self._track(self.dialect)
        done, hasher = 0, new_hash()
        with track.lock:
            if track.of is self.prompt.items.lock and track.items == self.prompt.items.settled:
                done, hasher = track.settled_hash()
        if not done and turns.settled:
            done, hasher = earlier_hash(turns)
        for entry in turns.since(done):
            hasher.update(canonical(entry.wire))
        head: JsonObject = {k: v for k, v in lowered.wire.items() if k != lowered.turns}
        lead = [entry.wire for entry in lowered.lead]
        hasher.update(canonical([self.dialect, self.prompt.model, head, lead]))
        return hasher.hexdigest()

    def explain(self) -> "Report":
        """The report: a row a pass, a row a block, and why anything was left out."""
        from weft.compiler.explain import explain

        return explain(self)

    def origin(self, pointer: str, offset: int = 0, *, dialect: str | None = None) -> Origin:
        """Where a place of the request came from: a JSON pointer, and an offset in a string."""
        return self.source_map(dialect).origin(pointer, offset)

    def source_map(self, dialect: str | None = None) -> SourceMap:
        """The map from places of the request to origins."""
        return SourceMap(self.lowered(dialect))

    @cached_property
    def previous(self) -> "Compilation | None":
        """The request that led to this agent's last answer, if there was one.

        One that cannot be rebuilt, because the budget does not allow it, is none;
        `previous_problem` then says so.
        """
        try:
            return self._find_previous()
        except BudgetExceeded as error:
            self.previous_problem = error.message
            return None

    @property
    def stable_prefix(self) -> Prefix:
        """What this request shares with the previous one of the session."""
        static = [b.text for b in self.prompt.system if b.stability is Stability.STATIC]
        text = "\n\n".join(static)
        shared = self.shared
        if shared is None:
            return Prefix(0, 0, 0, text)
        return Prefix(self._shared_tokens(shared), shared.bytes, shared.turns, text)

    @property
    def prefix_break(self) -> PrefixBreak | None:
        """What broke the prefix, or None."""
        shared, before = self.shared, self.previous
        if shared is None or before is None or shared.broken is None:
            return None
        pointer, origin, reason, line = shared.broken
        reason = ", as ".join((reason, *(why.partition(";")[0] for why in new_folds(self))))
        # what was folded or taken back is not read again
        lost = max(0, min(before.tokens, self.tokens) - self._shared_tokens(shared))
        return PrefixBreak(pointer, origin, reason, line, lost)

    def diff(self, other: "Compilation") -> "Diff":
        """What changed from this compilation to another, in words and tokens."""
        from weft.compiler.diff import diff

        return diff(self, other)

    @property
    def priced(self) -> "Compilation":
        """The request as its provider was asked to keep it: what it costs is worked out of that."""
        return self

    @cached_property
    def cached(self) -> Prediction:
        """How many of its tokens the provider has read before, as far as that can be told."""
        model = self.plan.model
        reads = model.tokens if isinstance(model, Reader) else None
        return predict(self, self.reads or reads)

    def follows(self, before: "Compilation | None") -> None:
        """Take this as the request before, which need not be rebuilt; None: this is the first."""
        # where `cached_property` keeps it
        self.__dict__["previous"] = before

    def settle(self, usage: Usage, answered: float, known: int | None = None) -> None:
        """Note what its answer cost and when it came, and let go of the request before."""
        self.usage, self.answered, self.known = usage, answered, known
        # otherwise each request would hold all those before it
        self._find_previous = _no_previous
        for name in ("previous", "shared", "cached"):
            self.__dict__.pop(name, None)

    @cached_property
    def shared(self) -> SharedPrefix | None:
        """How far it agrees with the request before; None where there is none."""
        before = self.previous
        if before is None:
            return None
        return compare(before.lowered(self.dialect), self.lowered())

    def _shared_tokens(self, shared: SharedPrefix) -> int:
        # providers read tools first, then the system text, then turns
        if not shared.tools:
            return 0
        lowered, scale = self.lowered(), self.scale
        if not shared.system:
            head = scale.head(lowered)
            return head.request + head.preamble + sum(head.tools) + head.others
        return scale.count_fixed(lowered) + scale.count_shared(lowered.entries, shared.turns)

    def _track(self, dialect: str) -> Track:
        """Turns lowered before, which are kept with the items."""
        return track_of(self.prompt.items, dialect, self.prompt.model, strict=self._strict)

    def __repr__(self) -> str:
        return f"Compiled({self.prompt.agent!r}, {self.dialect}, {len(self.prompt.items)} items)"


def _no_previous() -> Compilation | None:
    return None
