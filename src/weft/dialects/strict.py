"""Check every request as strictly as the strictest server would, at the cost of what is new.

A scripted model stands where a provider would; it must not be more patient. The laws of the
prompt are `weft.ir.prompt`'s, those of the wire `weft.dialects.legality`'s, and the law of the
prefix is Weft's own: what was sent once is sent again.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

from weft.diagnostics import Diagnostic, Origin, report
from weft.dialects import dialect_named, refusals
from weft.dialects.caching import without_marks
from weft.dialects.legality import REQUEST, Finding, Findings, TurnRules, model_name
from weft.errors import IllegalRequest
from weft.ir import Feature, Item, Prompt, verify
from weft.ir.prompt import show_block
from weft.values import Json, JsonObject, compact


def check_request(dialect: str, wire: JsonObject, model: str = "") -> tuple[Diagnostic, ...]:
    """What the provider would answer with a 400, each with its place as a JSON pointer.

    `model` is for dialects whose requests do not name it. Nothing is said of what is not known.
    """
    return tuple(
        report(one.code, Origin("dialect", one.pointer or "/"), one.message, one.hint)
        for one in refusals(dialect, wire, model)
    )


class RequestChecker:
    """The strict rules of one dialect, held against each request in the order they come.

    Turns that the request before had are known by identity, which is how requests of one session
    share them. So a turn that somebody changed in place is not seen, nor an equal one with its
    keys in another order if shared turns follow it.
    """

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect_named(dialect)
        self._trails: dict[View, _Trail] = {}

    def check(self, prompt: Prompt, wire: JsonObject) -> None:
        """Raise IllegalRequest, or InvalidPrompt, at the first rule that is broken."""
        traits = self._dialect.traits
        turns = _turns(wire, traits.turns)
        view = view_of(prompt)
        # taken out: a request that is refused leaves no trail to compare the next one with
        known = self._trails.pop(view, None) if view is not None else None
        model = model_name(wire, prompt.model)
        trail = known or _Trail()
        if trail.model != model:  # another model may have other rules
            trail.begin(model, self._dialect.strict_turns(model))
        # at the cost of the items that are new: those that were verified once are not looked at
        verify(prompt, step="model request")
        head = {**wire}
        del head[traits.turns]
        changed = head != trail.head
        if changed:
            _require_none(self._dialect.refuse_form(wire))
        before = trail.prompt
        goes_on = before is not None and self._goes_on(trail, head if changed else None, turns)
        start = trail.shared(turns)
        # taken before `read`, which puts the new turns in their place
        sent = trail.turns[start:]
        trail.read(turns, start, wire, f"/{traits.turns}")
        if sent and goes_on and before is not None:
            # only a dialect that merges turns may add to the last one
            parts = traits.parts if traits.merges_turns else ""
            check_prefix(before, sent, prompt, turns, start=start, key=traits.turns, parts=parts)
        trail.prompt, trail.head = prompt, head
        if view is not None:
            self._trails[view] = trail

    def _goes_on(
        self, trail: "_Trail", head: JsonObject | None, turns: Sequence[JsonObject]
    ) -> bool:
        """Whether system text and tools are as they were, so that the turns are read on them."""
        system = self._dialect.form.system
        keys = (system, "tools")
        if head is not None and any(trail.head.get(key) != head.get(key) for key in keys):
            return False
        if system or trail.turns[0] is turns[0]:
            return True
        first, now = trail.turns[0], turns[0]
        return first == now or "system" not in (first.get("role"), now.get("role"))


class _Trail:
    """The turns of a view's last request, and the rules as they stand after those that stay."""

    def __init__(self) -> None:
        self.prompt: Prompt | None = None
        self.head: JsonObject = {}
        self.turns: list[JsonObject] = []
        self.model: str | None = None

    def begin(self, model: str, rules: TurnRules) -> None:
        """Hold these rules against the turns, from the first on."""
        self.model = model
        self._fresh = rules
        self._settled = self._ahead = rules.fork()
        """The rules after all turns but the last, which may yet grow, and after all of them."""
        self._length = 0
        """How many turns the rules that are ahead have read."""

    def shared(self, turns: Sequence[JsonObject]) -> int:
        """How many turns the request repeats.

        Shared turns are the same objects, and comparing lists looks at that first.
        """
        start = min(len(self.turns), len(turns))
        while start and self.turns[start - 1] is not turns[start - 1]:
            start -= 1
        # turns before a shared one may still be new objects
        if self.turns[:start] != turns[:start]:
            pairs = enumerate(zip(self.turns, turns, strict=False))
            start = next(index for index, (old, new) in pairs if old != new)
        return start

    def read(self, turns: Sequence[JsonObject], start: int, wire: JsonObject, above: str) -> None:
        """Hold the rules against the turns that are new, and against the end."""
        if start >= self._length:
            rules, length = self._ahead, self._length
        elif start == self._length - 1 < len(turns):  # the last turn grew, or was said once
            rules, length = self._settled, start
        else:  # something was taken back: read all of it again
            rules, length = self._fresh.fork(), 0
        self.turns[start:] = turns[start:]
        for index in range(length, len(turns) - 1):
            _read(rules, turns[index], f"{above}/{index}")
        if length < len(turns):
            self._settled, rules = rules, rules.fork()
            _read(rules, turns[-1], f"{above}/{len(turns) - 1}")
        self._ahead, self._length = rules, len(turns)
        _require_none(rules.end(wire))


def _read(rules: TurnRules, turn: Json, at: str) -> None:
    if not isinstance(turn, dict):
        raise _illegal(Finding(REQUEST, at, "this turn is no object", "send turns as objects"))
    _require_none(rules.read(turn, at))


def _require_none(findings: Findings) -> None:
    """Refuse the request at the first finding."""
    for finding in findings:
        raise _illegal(finding)


def _illegal(finding: Finding) -> IllegalRequest:
    return IllegalRequest(finding.message, where=finding.pointer, hint=finding.hint)


def _turns(wire: JsonObject, key: str) -> list[JsonObject]:
    turns = wire.get(key)
    if not isinstance(turns, list) or not turns:
        raise _illegal(Finding(REQUEST, f"/{key}", "there are no turns", "say something"))
    return cast("list[JsonObject]", turns)


View = tuple[str, str, str]
"""Whose view of which session: agent, the session's first event, and the branch it is in."""

_PREFIX = (
    "begin with the turns of the request before; two sessions whose events have the same ids need"
    " a model each"
)

_UNLOGGED = ("", "message")
"""Events of items that are in no log: what a pass put there, what `compile(message=)` was given."""


def view_of(prompt: Prompt) -> View | None:
    """Whose request this is, or None where nothing of it is in a log yet."""
    for item in prompt.items.between(0, 2):  # a pass may have put an opening before the first
        if item.event not in _UNLOGGED:
            return prompt.agent, item.event, _branch(prompt)
    return None


def _branch(prompt: Prompt) -> str:
    """The deepest branch in view, which is the agent's own as soon as it has spoken there."""
    if not prompt.features & Feature.BRANCHED:
        return ""
    return prompt.items.derive(_DeepestBranch).after(prompt.items.tail).branch


class _DeepestBranch(NamedTuple):
    """The longest branch of some items."""

    branch: str = ""

    def after(self, items: Sequence[Item]) -> "_DeepestBranch":
        """The longest once these items follow."""
        return _DeepestBranch(max((self.branch, *(item.branch for item in items)), key=len))


def check_prefix(
    before: Prompt,
    sent: Sequence[JsonObject],
    after: Prompt,
    turns: Sequence[JsonObject],
    *,
    start: int,
    key: str,
    parts: str,
) -> None:
    """Refuse turns that differ from those the request before had: `sent`, from `start` on.

    `parts` is where a turn's parts stand if the dialect merges turns: the last one may then have
    grown. A request that is shorter was rewound, summed up or cut to a budget.
    """
    if len(turns) < start + len(sent):
        return
    last = len(sent) - 1
    for index, old in enumerate(sent):
        new = turns[start + index]
        if _same(old, new) or (index == last and parts and _grown(old, new, parts)):
            continue
        if not _taken_back(before, after):
            message = "this turn was sent before and reads differently now"
            raise _illegal(Finding(REQUEST, f"/{key}/{start + index}", message, _PREFIX))
        return


def _same(old: Json, new: Json) -> bool:
    """Whether the turns are compared as equal: where to keep them is no part of them."""
    return old is new or compact(without_marks(old)) == compact(without_marks(new))


def _grown(old: JsonObject, new: JsonObject, parts: str) -> bool:
    """Whether the turn is the old one with more parts at its end."""
    sent, more = old.get(parts), new.get(parts)
    if not isinstance(sent, list) or not isinstance(more, list):
        return False
    return _same({**old, parts: sent}, {**new, parts: more[: len(sent)]})


def _taken_back(before: Prompt, after: Prompt) -> bool:
    """Whether the log gives a reason to change what was sent.

    A call got a later result, what closed the request was in no log, a value of the state that a
    policy shows was written again, a summary or a budget took the place of older items, a policy
    says that it edits them from now on, or no longer, as its condition says, or they were
    rewound: then nothing is left of them from there on.
    """
    if _left_out(before) != _left_out(after):
        return True
    late = False
    edited = {event for event, _ in _edited(after) ^ _edited(before)}
    olds, news = list(before.items), list(after.items)
    for index, (old, new) in enumerate(zip(olds, news, strict=False)):
        if old is new or (old.event == new.event and _item_texts(old) == _item_texts(new)):
            continue
        if old.event in _UNLOGGED or "summary" in (old.kind, new.kind) or old.kind == "state":
            return True
        if new.event in edited or _labels(new) - _labels(old):
            return True
        if old.event != new.event or new.last <= old.last:
            remaining = {item.event for item in news[index:]}
            return not any(item.event in remaining for item in olds[index:])
        late = True
    return late or len(news) < len(olds)


def _item_texts(item: Item) -> list[str]:
    """What an item says, whatever it counts for."""
    return [show_block(block) for block in item.blocks]


def _left_out(prompt: Prompt) -> set[str]:
    return {note.before.event for note in prompt.notes if note.after is None}


def _labels(item: Item) -> set[str]:
    return {label for block in item.blocks for label in block.labels}


def _edited(prompt: Prompt) -> set[tuple[str, str]]:
    """The events of items that a policy rewrote in this request, and why."""
    return {(note.before.event, note.reason) for note in prompt.notes if note.after is not None}
