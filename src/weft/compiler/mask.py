"""Texts of a session without what its agents' policies redact or withhold.

A request that is compiled has no such value in it. What stands next to requests has: events,
state, questions, and requests of agents whose policy has no such rule. Whoever shows those to
people applies the same rules, with the same placeholders.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from weft.declare import Node, Policy, RunConfig
from weft.declare.agent import every_agent, labels_of
from weft.declare.policy import policies_in
from weft.declare.policy_parts import Label, Redact
from weft.detect.redaction import Redaction, TextCut, move_positions, replace_cuts, resolve_targets
from weft.passes.redact import restored_values
from weft.session import Session
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:  # few programs label anything
    from weft.passes.labels import Labelled

Path = tuple[str, ...]
"""The names of the fields that lead to a value."""

_ROUNDS = 4
"""How often several rules look through a text, each at what the others have made of it."""

_TRIES = 64
"""How many braces of one text are tried as the beginning of JSON."""


class MaskRules(msgspec.Struct, frozen=True):
    """What may not be shown: what is redacted, and what carries a label."""

    redactions: tuple[Redact, ...] = ()
    labels: tuple[Label, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.redactions or self.labels)

    def __add__(self, other: "MaskRules") -> "MaskRules":
        return MaskRules(
            tuple(dict.fromkeys((*self.redactions, *other.redactions))),
            tuple(dict.fromkeys((*self.labels, *other.labels))),
        )

    @property
    def words(self) -> list[str]:
        """The rules by name, each once. A pattern is not spelled: it may be the value itself."""
        words: list[str] = []
        for rule in self.redactions:
            words += rule.kinds
            words += [f"the field {field}" for field in rule.fields]
            if rule.patterns:
                words.append("patterns" if len(rule.patterns) > 1 else "a pattern")
        words += [f"the label {label.name}" for label in self.labels]
        return list(dict.fromkeys(words))


def rules_of(node: Node, config: RunConfig | None = None) -> MaskRules:
    """What the policies of a program redact or withhold, whichever agent has the rule."""
    redactions: list[Redact] = []
    for agent in every_agent(node):
        if agent.context is not None:
            redactions += redactions_in(agent.context)
    if config is not None and config.context is not None:
        redactions += redactions_in(config.context)
    plain = (msgspec.structs.replace(one, restore=()) for one in redactions)
    return MaskRules(tuple(dict.fromkeys(plain)), labels_of(node, config))


def redactions_in(policy: Policy) -> Iterator[Redact]:
    """What a policy redacts, also under a condition: a value is the same at any time."""
    for one in policies_in(policy):
        yield from (step for step in one.protections if isinstance(step, Redact))


class Mask:
    """Replaces in any text of a session what the rules find, as requests do.

    A text that was masked before costs a look into a table.
    """

    def __init__(
        self, rules: MaskRules, session: Session, artifacts: Mapping[str, str] | None = None
    ) -> None:
        self.rules = rules
        self._stages: list[_Stage] = []
        self._labelled: Labelled | None = None
        if rules.labels:
            from weft.passes.labels import labelled_in

            self._labelled = labelled_in(
                rules.labels,
                session.events,
                state=session.state,
                initial=session.initial,
                artifacts=artifacts or {},
            )
            self._stages.append(_Withholding(self._labelled))
        put_back = [
            (value, placeholder) for value, placeholder, _ in restored_values(session.events)
        ]
        for rule in rules.redactions:
            what = resolve_targets(rule.kinds, rule.patterns, rule.fields)
            self._stages.append(Redaction(what, session.id, {}, put_back))
        self._texts: dict[str, tuple[TextCut, ...]] = {}
        self._wires: dict[tuple[str, Path], tuple[TextCut, ...]] = {}

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        return replace_cuts(text, self.cuts(text))

    def with_ends(self, text: str, ends: Sequence[int]) -> tuple[str, list[int]]:
        """A text as it may be shown, and where some of its places are then."""
        cuts = self.cuts(text)
        return replace_cuts(text, cuts), move_positions(ends, cuts)

    def cuts(self, text: str) -> tuple[TextCut, ...]:
        """What is cut out of a text. JSON in it is read field by field."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = self._find_cuts(text)
        return known

    def wire_cuts(self, text: str, value: Json, path: Path = ()) -> tuple[TextCut, ...]:
        """What is cut out of `text`, which is a value of a request as compact JSON."""
        known = self._wires.get((text, path))
        if known is None:
            rounds = _Rounds(text)
            for stage in self._until_settled(lambda: rounds.text):
                cuts: list[TextCut] = []
                _walk(stage, value, 0, path, cuts)
                if cuts:
                    rounds.add(cuts)
                    # the next rule counts places in the text as it is now
                    value = cast("Json", json.loads(rounds.text))
            known = self._wires[text, path] = rounds.cuts
        return known

    def value(self, value: Json, path: Path = ()) -> Json:
        """A JSON value as it may be shown; the very same where nothing is hidden."""
        for _ in range(_ROUNDS):
            before = value
            for stage in self._stages:
                value = stage.value(value, path)
            if len(self._stages) == 1 or value is before:
                break
        return value

    def state(self, values: JsonObject) -> JsonObject:
        """Values of the state as they may be shown."""
        masked: JsonObject = {}
        for key, value in values.items():
            labels = self._labelled.of_state(key) if self._labelled is not None else ()
            masked[self.text(key)] = _mark(labels) if labels else self.value(value, (key,))
        return masked

    def answer(self, value: Json) -> Json:
        """An answer of the inspector: every text of it as it may be shown.

        The names of its fields are ours and say nothing about what stands in them.
        """
        if isinstance(value, str):
            return self.identity(value)
        if isinstance(value, dict):
            return self.fields(value)
        if isinstance(value, list):
            return [self.answer(each) for each in value]
        return value

    def fields(self, answer: JsonObject) -> JsonObject:
        """The same of an answer that has fields; words of ours stay what they are."""
        return {
            name: each if name in _OWN_WORDS else self.answer(each) for name, each in answer.items()
        }

    def identity(self, text: str) -> str:
        """An id or a name as it may be shown: the same wherever it stands."""
        return text if _is_own_id(text) else self.text(text)

    def _find_cuts(self, text: str) -> tuple[TextCut, ...]:
        rounds = _Rounds(text)
        for stage in self._until_settled(lambda: rounds.text):
            rounds.add(_cuts_in_objects(stage, rounds.text))
            for one in stage.rounds(rounds.text):
                rounds.add(one)
        return rounds.cuts

    def _until_settled(self, text: Callable[[], str]) -> Iterator["_Stage"]:
        """The rules one after the other, and again: what one cuts can uncover a value for another.

        `text` says what has become of the text so far.
        """
        for _ in range(_ROUNDS):
            before = text()
            yield from self._stages
            if len(self._stages) == 1 or text() == before:
                return


class _Stage(Protocol):
    """One rule, as it is applied to texts and values."""

    def rounds(self, text: str) -> Iterator[list[TextCut]]: ...

    def leaf_rounds(self, text: str, path: Path) -> Iterator[list[TextCut]]: ...

    def is_replaced(self, value: Json, path: Path) -> bool: ...

    def value(self, value: Json, path: Path = ()) -> Json: ...


class _Withholding:
    """Labels as a rule: a mark stands in place of what was copied from a labelled place."""

    def __init__(self, labelled: "Labelled") -> None:
        self._copies = labelled.copies

    def rounds(self, text: str) -> Iterator[list[TextCut]]:
        cuts = [TextCut(hit.start, hit.end, _mark(hit.labels)) for hit in self._copies.hits(text)]
        if cuts:
            yield cuts

    def leaf_rounds(self, text: str, path: Path) -> Iterator[list[TextCut]]:
        return self.rounds(text)

    def is_replaced(self, value: Json, path: Path) -> bool:
        return False

    def value(self, value: Json, path: Path = ()) -> Json:
        from weft.passes.labels import covered_json

        return covered_json(value, self._copies)


class _Rounds:
    """Cuts that are made one round after the other, told as cuts of the text as it was."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.cuts: tuple[TextCut, ...] = ()
        self._whole = text

    def add(self, cuts: Sequence[TextCut]) -> None:
        """Make some cuts of the text as it is now."""
        if not cuts:
            return
        self.text = replace_cuts(self.text, cuts)
        if not self.cuts:
            self.cuts = tuple(cuts)
            return
        before = _before_cuts(cuts, self.cuts)
        if before is not None:
            self.cuts = tuple(sorted((*self.cuts, *before)))
        else:  # a value around a placeholder: all from the first cut to the last is one
            self.cuts = (_difference(self._whole, self.text),)


def _before_cuts(cuts: Iterable[TextCut], earlier: Sequence[TextCut]) -> list[TextCut] | None:
    """Cuts in places of the text before earlier ones; None where one touches what was put there."""
    before: list[TextCut] = []
    shift = done = 0
    for cut in cuts:
        while done < len(earlier):
            one = earlier[done]
            if one.start + shift + len(one.placeholder) > cut.start:
                break
            shift += len(one.placeholder) - (one.end - one.start)
            done += 1
        if done < len(earlier) and earlier[done].start + shift < cut.end:
            return None
        before.append(cut._replace(start=cut.start - shift, end=cut.end - shift))
    return before


def _difference(before: str, after: str) -> TextCut:
    """The one cut that makes a text another."""
    most = min(len(before), len(after))
    head = next((at for at in range(most) if before[at] != after[at]), most)
    tail = next((at for at in range(most - head) if before[-1 - at] != after[-1 - at]), most - head)
    return TextCut(head, len(before) - tail, after[head : len(after) - tail])


def _walk(stage: _Stage, value: Json, at: int, path: Path, cuts: list[TextCut]) -> int:
    """Find the cuts in a value's compact JSON, which begins at `at`; where it ends."""
    if stage.is_replaced(value, path):
        end = at + len(compact(value))
        cuts.append(TextCut(at, end, compact(stage.value(value, path))))
        return end
    if isinstance(value, dict):
        for name, each in value.items():
            at = _walk_text(stage, name, at + 1, (), cuts) + 1
            at = _walk(stage, each, at, (*path, name), cuts)
        return at + 1 if value else at + 2
    if isinstance(value, list):
        for each in value:
            at = _walk(stage, each, at + 1, path, cuts)
        return at + 1 if value else at + 2
    if isinstance(value, str):
        return _walk_text(stage, value, at, path, cuts)
    end, after = at + len(compact(value)), stage.value(value, path)
    if after is not value:
        cuts.append(TextCut(at, end, compact(after)))
    return end


def _walk_text(stage: _Stage, text: str, at: int, path: Path, cuts: list[TextCut]) -> int:
    """The cuts in a text as places of its JSON, which begins at `at`; where it ends."""
    rounds = _Rounds(text)
    rounds.add(_cuts_in_objects(stage, text))
    for one in stage.leaf_rounds(rounds.text, path):
        rounds.add(one)
    done, place = 0, at + 1
    for cut in rounds.cuts:
        # less the quotes that each of these texts has as JSON
        start = place + len(compact(text[done : cut.start])) - 2
        done, place = cut.end, start + len(compact(text[cut.start : cut.end])) - 2
        cuts.append(TextCut(start, place, compact(cut.placeholder)[1:-1]))
    return at + len(compact(text))


def _cuts_in_objects(stage: _Stage, text: str) -> list[TextCut]:
    """The cuts in JSON objects that stand in a text, such as the arguments of a call."""
    cuts: list[TextCut] = []
    at = text.find("{")
    for _ in range(_TRIES):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        # places are counted in compact JSON
        if compact(value) == text[at:end]:
            _walk(stage, value, at, (), cuts)
        elif (masked := stage.value(value)) is not value:  # in another spelling, so all of it
            cuts.append(TextCut(at, end, json.dumps(masked, ensure_ascii=False)))
        at = text.find("{", end)
    return cuts


_DECODER = json.JSONDecoder()

_OWN_WORDS = frozenset(
    ("kind", "source", "role", "stability", "pass", "when", "action", "severity", "svg")
)
"""Fields of the inspector's answers whose words are ours, and a picture, which has its own way."""


def _mark(labels: Iterable[str]) -> str:
    from weft.passes.copies import mark_of

    return mark_of(labels)


def _is_own_id(text: str) -> bool:
    """Whether it is an id that Weft makes: no value, whatever digits a pattern looks for."""
    return len(text) == 32 and all(one in "0123456789abcdef" for one in text)
