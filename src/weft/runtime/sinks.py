"""Consequential calls: who vouches for them, and what is asked or refused where nobody does.

A call of a tool with `consequential=True` or `requires=` is made at once only if no untrusted text
had influence on the reply that made it, and somebody vouches for each argument that needs it: the
value stands as a whole word in trusted text, or is the whole value of a field that is named. Never
a part of a value, never after normalising.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache

import msgspec

from weft.compiler.plan import Plan
from weft.declare import Tool
from weft.diagnostics import Diagnostic, Origin, report
from weft.late import late_pattern
from weft.runtime.flow import free_names
from weft.runtime.invocation import Invocation
from weft.runtime.labels import cleared_of
from weft.runtime.place import Place
from weft.runtime.planned import find_step
from weft.session import Event
from weft.session.flow import (
    OWN_RESULTS,
    FlowNote,
    Leaf,
    TrustLabel,
    flow_of,
    is_field_name,
    read_leaves,
    trust_in,
)
from weft.session.log_labels import key_labels
from weft.session.lookback import hidden_in
from weft.values import Json, JsonObject, canonical, compact, digest


class Doubt(msgspec.Struct, frozen=True):
    """Why a call is not made before a person says yes."""

    tool: str
    agent: str
    arguments: dict[str, str]
    """The arguments that nobody vouches for, each with the source that it stands in."""
    label: TrustLabel
    """Of the reply that made the call."""
    secrets: tuple[str, ...] = ()
    """What the reply was made from, and the tool is not cleared for."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the untrusted text came from."""
        named = {*self.label.taint, *(name for name in self.arguments.values() if name)}
        return tuple(sorted(named))

    @property
    def paths(self) -> list[str]:
        """The ways of the text: `read_file -> bot -> send_money.recipient`."""
        read = _and(map(_tool_of, self.label.taint))
        ways = [
            f"{_tool_of(source) or read or 'somebody'} -> {self.agent} -> {self.tool}.{name}"
            for name, source in self.arguments.items()
        ]
        if not ways:
            ways = [f"{_tool_of(one)} -> {self.agent} -> {self.tool}" for one in self.sources]
        return ways + [f"secret {name} -> {self.agent} -> {self.tool}" for name in self.secrets]

    def question(self, args: JsonObject) -> str:
        """What the user is asked."""
        return f"May {self.tool} be called with {compact(args)}? {self._why()}."

    def refusal(self) -> str:
        """What the model is reasons."""
        return f"refused: {self._why()}; use a value the user named, or ask the user"

    def diagnostic(self, what: str) -> Diagnostic:
        """What the run says of the call: that it was asked about, refused, or made."""
        return report(
            "WEFT612",
            Origin("tool", self.tool, self.agent),
            f"the call of {self.tool} was {what}: {', '.join(self.paths)}",
            "name who vouches for the argument in requires=, hide the text with"
            " .sees(C.default().hide()), or let a person decide",
        )

    def fingerprint(self, args: JsonObject) -> str:
        """What a yes holds for: this call with these arguments, made from these sources."""
        return digest(canonical([self.tool, args, [*self.label.taint], self.arguments]))

    def _why(self) -> str:
        reasons: list[str] = []
        for name, source in self.arguments.items():
            where = f"stands only in {_in_words(source)}" if source else "stands in no trusted text"
            reasons.append(f"`{name}` {where}")
        if not reasons and self.label.taint:
            reasons.append(f"it was decided on after {_and(map(_in_words, self.label.taint))}")
        if self.secrets:
            reasons.append(f"it was made from what carries the label {_and(self.secrets)}")
        return ", and ".join(reasons)


def _in_words(source: str) -> str:
    kind, colon, name = source.partition(":")
    if colon and kind in ("file", "agent", "state"):
        return f"the {kind} {name}"
    tool = _tool_of(source)
    return f"what {tool} returned" if "." in source else f"what came from {tool}"


def _tool_of(source: str) -> str:
    return source.partition(".")[0] if ":" not in source else source


def _and(words: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(words))


class ArgumentSource(msgspec.Struct, frozen=True):
    """Where the text of an argument came from that a handle stood for."""

    name: str
    """The field of a result: `tool.field`; empty where the text is only a part of the value."""
    label: TrustLabel
    text: str = ""


def find_doubt(
    invocation: Invocation,
    place: Place,
    plan: Plan,
    tool: Tool,
    args: JsonObject,
    label: TrustLabel,
    opened: Mapping[str, tuple[ArgumentSource, ...]],
    call_id: str = "",
) -> Doubt | None:
    """Why a call of a sink needs a yes; None where it may be made.

    `label` is that of the reply, `opened` says which arguments hold texts that were hidden. A plan
    that the agent committed to before it read anything untrusted vouches for the call.
    """
    if not tool.is_sink:
        return None
    secrets = tuple(name for name in label.secrets if name not in cleared_of(tool))
    if label.is_trusted and not opened and not secrets:
        return None
    vouchers: Vouchers | None = None
    unvouched: dict[str, str] = {}
    for name, sources in tool.requires.items():
        value = args.get(name)
        doubtful = [one for one in opened.get(name, ()) if one.name not in sources]
        if doubtful:
            unvouched[name] = doubtful[0].name
            continue
        if label.is_trusted:
            continue  # whole values of named fields, and what a reply of trusted text alone says
        vouchers = vouchers or Vouchers.of(invocation, place, plan)
        whole = {one.text for one in opened.get(name, ())}
        for text in texts_of_argument(value, tool):
            if text in whole or vouchers.vouch(text, sources, is_tainted=bool(label.taint)):
                continue
            unvouched[name] = vouchers.find_source(text)
            break
    if not unvouched and not label.taint and not secrets:
        return None
    step = find_step(invocation.log.view(place.scope).events, tool.name, args, call_id)
    if step is not None and not secrets:
        unvouched = {name: source for name, source in unvouched.items() if name in step.leaves_open}
        if not unvouched:
            return None
    return Doubt(tool.name, plan.agent.name, unvouched, label, secrets)


def _texts_of(value: Json) -> Iterator[str]:
    """The values in an argument as somebody would write them."""
    for leaf in read_leaves(value, "untrusted"):
        one = leaf.value
        if isinstance(one, str):
            if one:
                yield one
        elif one is not None and not isinstance(one, bool):
            yield str(int(one)) if isinstance(one, float) and one.is_integer() else str(one)


def texts_of_argument(value: Json, tool: Tool) -> Iterator[str]:
    """The values in an argument; names that its schema does not fix are chosen as values are."""
    yield from _texts_of(value)
    yield from (name for name in free_names(value, tool.parameters) if is_field_name(name))


class Vouchers(msgspec.Struct, frozen=True):
    """What an agent's log has that may vouch for a value, and what may not."""

    texts: list[str]
    """Trusted texts: of the user, of the author, of trusted fields."""
    leaves: list[tuple[str, Leaf]]
    """Values of results that nobody vouches for, each with its source."""

    @staticmethod
    def of(invocation: Invocation, place: Place, plan: Plan) -> "Vouchers":
        """What the log has, as it is seen from a place."""
        log = invocation.log.view(place.scope).events
        hidden = hidden_in(log)
        vouchers = Vouchers([], [])
        for index, event in enumerate(log):
            if index not in hidden and not event.partial:
                vouchers.read(event)
        if isinstance(plan.agent.instruction, str):
            vouchers.texts.append(plan.agent.instruction)
        labels = key_labels(invocation.log.session.events)
        for key, value in invocation.forks.state_at(place).items():
            if invocation.flow.of_names((key,)).is_trusted and labels.of_name(key).is_trusted:
                vouchers.texts.extend(_texts_of(value))
        return vouchers

    def read(self, event: Event) -> None:
        """Take in what an event says."""
        note = flow_of(event)
        if note.base.is_trusted and event.text:
            self.texts.append(event.text)
        for result in event.results:
            name = result.name or ""
            if name not in OWN_RESULTS:
                self._read_result(name, result.response or {}, note)

    def _read_result(self, tool: str, response: JsonObject, note: FlowNote) -> None:
        for leaf in read_leaves(response, trust_in(note, tool)):
            # a value of somebody's whom the author trusts, whoever chose it by a number or a date
            if leaf.trust == "trusted" and not note.base.taint:
                self.texts.extend(_texts_of(leaf.value))
            else:
                self.leaves.append((f"{tool}.{leaf.field}", leaf))

    def vouch(self, text: str, sources: Iterable[str], *, is_tainted: bool) -> bool:
        """Whether somebody vouches for a value of a reply.

        A reply without taint wrote it itself, unless it is a value of a field that is not named.
        """
        if any(stands_in(text, one) for one in self.texts):
            return True
        named = frozenset(sources)
        for source, leaf in self.leaves:
            if source in named and any(is_same(text, one) for one in _texts_of(leaf.value)):
                return True
        return not is_tainted and not self._find_value(text)

    def find_source(self, text: str) -> str:
        """The source of untrusted text in which a value stands; empty where there is none."""
        for source, leaf in self.leaves:
            if text in str(leaf.value):
                return source
        return self._find_value(text)

    def _find_value(self, text: str) -> str:
        """The source whose whole value a text has, however it is spelled."""
        spelled = _spell(text)
        for source, leaf in self.leaves:
            for one in _texts_of(leaf.value):
                if is_same(text, one) or _is_made_of(text, spelled, one):
                    return source
        return ""


def is_same(text: str, other: str) -> bool:
    """Whether two values are one: letter for letter; of numbers, by what they are."""
    if text == other:
        return True
    if not (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(other)):
        return False
    return _read_number(text) == _read_number(other)


_MOST_COMMON = 5
"""A value with no more letters than this stands in others by chance."""

_LONGEST = 200
"""A text with more letters than this is nobody's account or address."""


def _is_made_of(text: str, spelled: str, value: str) -> bool:
    """Whether a value stands in a text in other letters: apart from case, signs and blanks."""
    if len(value) > _LONGEST or (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(value)):
        return False  # 1.0 is not 10
    own = _spell(value)
    if own == spelled:
        return bool(own)
    return len(own) > _MOST_COMMON and own in spelled and any(map(str.isdigit, own))


@lru_cache(4096)
def _spell(text: str) -> str:
    """The letters and digits of a text, in one case."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(filter(str.isalnum, plain))


_BEFORE = frozenset("\"'([{<,;:=`*\u201c\u2018\u00ab")

_AFTER = frozenset("\"')]}>,;:!?`*\u201d\u2019\u00bb$\u20ac\u00a3\u00a5")

_SIGNS = frozenset("#@$\u20ac\u00a3\u00a5")
"""What people write before a name or an amount: #general, @bob, $20."""


def stands_in(word: str, text: str) -> bool:
    """Whether a value stands in a text as a whole word, letter for letter; a number, as a number.

    5.5 stands in "$5.50", 1000 in "1,000 euros", and 2 in "a table for two".
    """
    if _NUMBER.fullmatch(word):
        numbers = (one for one in _NUMBER.finditer(text) if _is_word(text, *one.span()))
        if any(_read_number(one.group()) == _read_number(word) for one in numbers):
            return True
        if word in _IN_WORDS and stands_in(_IN_WORDS[word], text.casefold()):
            return True
    start = text.find(word)
    while start >= 0:
        if _is_word(text, start, start + len(word)):
            return True
        start = text.find(word, start + 1)
    return False


_NUMBER = late_pattern(r"-?(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,15})?")


_WORDS = "two three four five six seven eight nine ten eleven twelve"

_IN_WORDS = {str(number): word for number, word in enumerate(_WORDS.split(), 2)}
"""Numbers as people write them; "one" is said of anything."""


def _read_number(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


def _is_word(text: str, start: int, end: int) -> bool:
    return _opens(text, start) and _closes(text, end)


def _opens(text: str, start: int) -> bool:
    if start and text[start - 1] in _SIGNS:
        start -= 1
    return start == 0 or text[start - 1].isspace() or text[start - 1] in _BEFORE


def _closes(text: str, end: int) -> bool:
    if end == len(text) or text[end].isspace():
        return True
    if text[end] in _AFTER:
        # 10:30 and 1,000 are one word each
        return end + 1 == len(text) or not (text[end] in ",:" and text[end + 1].isdigit())
    # the end of a sentence, not of a part of an address
    return text[end] == "." and (end + 1 == len(text) or text[end + 1].isspace())
