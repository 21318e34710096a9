"""The last look before sending: nothing that the policy redacts may stand in the request.

Passes can have bugs, callbacks can change a prompt, and options can carry text of their own. So
the very JSON that would be sent is looked through once more. What is found there both in its
text and in a line or field of it alone is held to be real: what a text says only together with
another that happens to stand next to it is not.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, assert_never, cast

import msgspec

from weft.declare import Policy
from weft.declare.policy_parts import Hide, Label, Redact
from weft.dialects import Lowered
from weft.errors import CompileError, ProtectionError
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    Note,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.ir.prompt import show_block, sources_of
from weft.passes import Env
from weft.session import Event, Session
from weft.session.strand import Strand
from weft.values import Json, JsonObject

if TYPE_CHECKING:  # few policies protect anything, and what finds values takes long to load
    from weft.detect.redaction import RedactionTargets
    from weft.passes.labels import Labelled

_MOST_SEEN = 20_000


def require_protected(
    prompt: Prompt,
    wire: JsonObject,
    policy: Policy,
    lowered: Lowered | None = None,
    original: Prompt | None = None,
    notes: Iterable[Note] = (),
) -> None:
    """Refuse a request that still holds something the policy takes out.

    `original` is the prompt as passes left it, where somebody has changed it since, and `notes`
    what they noted.

    `lowered` is the request as it was spelled, where nobody has changed it since: then only the
    turns that are new in it are looked at.

    Raises:
        ProtectionError: says where it stands and of which kind it is, not what it is.
    """
    from weft.detect.redaction import resolve_targets

    for step in policy.protections:
        if isinstance(step, Hide):
            original = original if original is not None else prompt
            is_changed = lowered is None or prompt is not original
            _require_hidden(prompt, wire if is_changed else None, original, notes)
        if not isinstance(step, Redact):
            continue
        what = resolve_targets(step.kinds, step.patterns, step.fields)
        pieces = _unread_pieces(prompt, wire, what, lowered)
        texts = (one for pointer, piece in pieces for one in _strings(piece, pointer))
        for place, text, kind in _values_left(texts, what):
            if not _is_exempt(text, prompt):
                raise _refusal(kind, place, prompt.agent)
        if what.fields:
            _require_no_fields(prompt, what)


_SHORT = 16
"""A hidden text with fewer letters may stand in a request by chance."""


def _require_hidden(
    prompt: Prompt, wire: JsonObject | None, original: Prompt, notes: Iterable[Note]
) -> None:
    """Refuse a request that holds untrusted text: by its label, and by its letters on the wire.

    A request that nobody has changed (`wire` is None) is spelled from blocks with labels, so that
    only those are searched which a pass wrote, and which are new.
    """
    from weft.passes.hide import is_hidden

    if is_hidden(sources_of(prompt).label):
        leaks = [str(block.origin) for block in prompt.blocks if is_hidden(block.label)]
        raise _report_leak(leaks[0], prompt.agent)
    if wire is not None:
        visible = "\n".join(map(show_block, original.blocks))
        _require_no_hidden_text(original, json.dumps(wire, ensure_ascii=False), visible, notes)
        return
    items = prompt.items
    known = items.memo[_CleanItems, Hide]
    fresh = [
        block for item in items.since(min(known.items, items.settled)) for block in item.blocks
    ]
    written = {
        block.text
        for block in fresh
        if isinstance(block, TextBlock) and block.origin.kind == "pass"
    } - known.texts
    if written:
        _require_no_hidden_text(original, "\n".join(written), "", notes)
    known.texts |= written
    known.items = max(known.items, items.settled)


def _require_no_hidden_text(prompt: Prompt, sent: str, visible: str, notes: Iterable[Note]) -> None:
    from weft.passes.hide import hidden_values

    for text in hidden_values((*notes, *prompt.notes)):
        # what stands in the request by right as well, as the user's word, is not news
        spelled = json.dumps(text, ensure_ascii=False)[1:-1]
        if (
            len(text) >= _SHORT
            and (spelled in sent or text in sent)
            and text not in visible
            and spelled not in visible
        ):
            raise _report_leak("the request", prompt.agent)


def _report_leak(where: str, agent: str) -> ProtectionError:
    return ProtectionError(
        "the request holds untrusted text, which the policy hides",
        where=f"{agent}: {where}",
        hint="look for a callback, a pass or an option that adds it",
    )


class _CleanItems:
    """What of a strand of items was looked through for some values and found clean."""

    def __init__(self, items: int = 0) -> None:
        self.items = items
        self.turns: dict[int, Json] = {}
        """Turns of requests, by their identity."""
        self.texts: set[str] = set()
        """Texts of passes."""

    def fork(self, length: int) -> "_CleanItems":
        return _CleanItems(min(self.items, length))


def _require_no_fields(prompt: Prompt, what: "RedactionTargets") -> None:
    """Refuse a field that the policy takes out; settled items are looked at once."""
    items = prompt.items
    known = items.memo[_CleanItems, what]
    fresh = (
        block for item in items.since(min(known.items, items.settled)) for block in item.blocks
    )
    for block in (*prompt.system, *fresh):
        name = _field_left(block, what)
        if name:
            raise _refusal(f"the field `{name}`", str(block.origin), prompt.agent)
    known.items = max(known.items, items.settled)


def _unread_pieces(
    prompt: Prompt, wire: JsonObject, what: "RedactionTargets", lowered: Lowered | None
) -> Iterator[tuple[str, Json]]:
    """The pieces of the request, without turns that were looked through in an earlier one.

    Requests of a session share their turns, so the next one costs what it adds.
    """
    seen = prompt.items.memo[_CleanItems, what].turns
    if len(seen) > _MOST_SEEN:
        seen.clear()
    for name, piece in wire.items():
        if not isinstance(piece, list):
            yield f"/{name}", piece
            continue
        lead, final = len(piece), 0
        if lowered is not None and name == lowered.turns:  # final turns are counted, not compared
            lead, final = len(lowered.lead), min(lowered.track.checked.get(what, 0), lowered.final)
        for index in (*range(lead), *range(lead + final, len(piece))):
            each = piece[index]
            # a turn that was looked through in an earlier request, and is the same object
            if isinstance(each, dict) and seen.get(id(each)) is each:
                continue
            yield f"/{name}/{index}", each
            if isinstance(each, dict):
                seen[id(each)] = each
        if lowered is not None and name == lowered.turns:
            lowered.track.checked[what] = max(final, lowered.final)


def _refusal(kind: str, where: str, agent: str) -> ProtectionError:
    return ProtectionError(
        f"the request still holds what the policy redacts ({kind})",
        where=f"{agent}: {where}",
        hint="look for a callback or an option that adds it; passes replace all that is in the log",
    )


def _strings(value: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Every text of the request with its place."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _strings(each, f"{pointer}/{name}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _strings(each, f"{pointer}/{index}")


def _values_left(
    texts: Iterable[tuple[str, str]], what: "RedactionTargets"
) -> Iterator[tuple[str, str, str]]:
    """The places and texts in which a value is still, and its kind."""
    # once a request: an import in a function takes longer than looking at a text seen before
    from weft.detect.find import PatternTimeout
    from weft.detect.redaction import found_in

    for place, text in texts:
        try:
            hits = found_in(text, what)
            if not hits:
                continue
            # two harmless lines may look like a value where they meet: it must stand in one of them
            alone = {each.value for piece in _pieces(text) for each in found_in(piece, what)}
        except PatternTimeout:
            # what could not be searched is not let through
            yield place, text, "a pattern that did not finish"
            continue
        for each in hits:
            if any(one in each.value or each.value in one for one in alone):
                yield place, text, each.kind
                break


def _pieces(text: str) -> Iterator[str]:
    """The lines of a text, or the texts of the JSON that it is."""
    if text[:1] in {"{", "["}:
        try:
            value = cast("Json", json.loads(text))
        except (ValueError, RecursionError):
            pass
        else:
            yield from (each for _, each in _strings(value, ""))
            return
    yield from text.splitlines()


def _is_exempt(text: str, prompt: Prompt) -> bool:
    """Whether it is data, a signature, an id or a name, not text; or the address form of data."""
    exempt = _exempt(prompt)
    head, comma, data = text.partition(",")
    return text in exempt or (bool(comma) and head.startswith("data:") and data in exempt)


def _exempt(prompt: Prompt) -> frozenset[str]:
    """What is not text: media, signatures, ids, names, and what only its provider can read."""
    texts: set[str] = {prompt.model, prompt.agent}
    texts.update(tool.name for tool in prompt.tools)
    for tool in prompt.tools:
        texts.update(each for _, each in _strings(tool.own or {}, ""))
    for block in prompt.blocks:
        texts.update(_own(block))
        if block.kept is not None:
            texts.update(each for _, each in _strings(block.kept, ""))
    return frozenset(texts)


def _own(block: Block) -> Iterator[str]:
    match block:
        case TextBlock() | ThoughtBlock():
            yield block.signature or ""
        case CallBlock():
            yield from (block.id, block.name, block.signature or "")
        case ResultBlock():
            yield from (block.call_id, block.name)
            for media in block.media:
                yield from _own(media)
        case MediaBlock():
            yield from (block.data or "", block.uri or "", block.name, block.signature or "")
        case CodeBlock() | CodeResultBlock():
            yield from (block.signature or "", block.id or "")
        case OpaqueBlock():
            yield from (each for _, each in _strings(block.payload, ""))
        case _:
            assert_never(block)


def _field_left(block: Block, what: "RedactionTargets") -> str:
    """The name of a field whose value is still there."""
    value: JsonObject = {}
    if isinstance(block, CallBlock):
        value = block.args
    elif isinstance(block, ResultBlock):
        value = block.response
    return _find_named_field(value, (), what)


def _is_gone(text: str) -> bool:
    """Whether it is a placeholder, or stands in a fence, which is put around what was replaced."""
    from weft.detect import PLACEHOLDER
    from weft.passes.fences import read_fence

    return PLACEHOLDER.fullmatch(text) is not None or read_fence(text) is not None


def _find_named_field(value: Json, path: tuple[str, ...], what: "RedactionTargets") -> str:
    is_field = bool(path) and any(path[-len(field) :] == field for field in what.fields)
    if is_field and value is not None and not (isinstance(value, str) and _is_gone(value)):
        return ".".join(path)
    if isinstance(value, dict):
        names = (_find_named_field(each, (*path, name), what) for name, each in value.items())
        return next(filter(None, names), "")
    if isinstance(value, list):
        return next(filter(None, (_find_named_field(each, path, what) for each in value)), "")
    return ""


_OWN = frozenset(
    (
        "role", "type", "model", "id", "call_id", "tool_call_id", "tool_use_id", "mimeType",
        "media_type", "mime_type", "effort", "detail", "status", "language", "outcome", "format",
    )
)  # fmt: skip
"""Fields in which a provider's own words stand, or ids: nobody's value."""

_SEALED = frozenset(
    (
        "data", "file_data", "thoughtSignature", "signature", "encrypted_content", "image_url",
        "redacted_thinking", "thought_signature",
    )
)  # fmt: skip
"""Fields that hold what is not text."""

_MOST_KINDS = 32
"""For how many kinds of things it is known how far the turns were looked through."""

_STRONG = 8
"""From how many characters on a value with a digit in it is one even as a name."""


def require_cleared(
    wire: JsonObject, prompt: Prompt, labelled: "Labelled", lowered: Lowered | None = None
) -> None:
    """Refuse a request in which something stands that its model is not cleared for.

    Turns are shared with the requests before. With `lowered`, whose wire this is, those that are
    final and were looked through are not even counted.
    """
    calls = prompt.items.derive(_CallNames).after(prompt.items.tail).names
    names = calls.union(tool.name for tool in prompt.tools)
    for key, piece in wire.items():
        if not isinstance(piece, list):
            _require({key: piece}, "", names, prompt, labelled)
            continue
        _require({key: None}, "", names, prompt, labelled)
        lead, final = len(piece), 0
        is_turns = lowered is not None and key == lowered.turns
        if lowered is not None and is_turns:
            checked = lowered.track.checked.get(labelled.identity, 0)
            lead, final = len(lowered.lead), min(checked, lowered.final)
        for index in (*range(lead), *range(lead + final, len(piece))):
            turn = piece[index]
            if labelled.is_clean(turn):
                continue
            _require(turn, f"/{key}/{index}", names, prompt, labelled)
            if isinstance(turn, dict):
                labelled.found_clean(turn)
        if lowered is not None and is_turns:
            done = lowered.track.checked
            if len(done) >= _MOST_KINDS:  # what carries a label may change at every step
                done.clear()
            done[labelled.identity] = max(final, lowered.final)


class _CallNames(msgspec.Struct, frozen=True):
    """The names of the tools that some items call."""

    names: frozenset[str] = frozenset()

    def after(self, items: Sequence[Item], /) -> "_CallNames":
        """The names once these items follow."""
        called = {
            block.name
            for item in items
            if item.kind == "exchange"
            for block in item.blocks
            if isinstance(block, CallBlock)
        }
        return self if called <= self.names else _CallNames(self.names | called)


def _require(
    piece: Json, pointer: str, names: AbstractSet[str], prompt: Prompt, labelled: "Labelled"
) -> None:
    for place, text, named in _texts(piece, pointer):
        labels = _labels(text, labelled, named=named or text in names)
        if labels:
            words = " and ".join(f"`{label}`" for label in labels)
            raise ProtectionError(
                f"the request holds at {place} what carries the label {words}",
                where=prompt.agent,
                hint=f'clear the agent: Agent("{prompt.agent}", cleared=["{labels[0]}"]),'
                " or take the value out of what a callback adds and out of names",
            )


def _labels(text: Json, labelled: "Labelled", *, named: bool) -> tuple[str, ...]:
    """The labels of what stands in a text; in a name only a value that nobody writes by chance."""
    copies = labelled.copies
    if not isinstance(text, str):
        number = isinstance(text, int | float) and not isinstance(text, bool)
        return copies.in_number(text) if number else ()  # type: ignore[arg-type]
    labels = {
        label
        for hit in copies.hits(text)
        if not named or _is_strong(text[hit.start : hit.end])
        for label in hit.labels
    }
    return tuple(sorted(labels))


def _is_strong(text: str) -> bool:
    return len(text) >= _STRONG and any(map(str.isdigit, text))


def _texts(value: Json, pointer: str) -> Iterator[tuple[str, Json, bool]]:
    """Every text and number with its place, and whether it is a name: a key, or an own word."""
    if isinstance(value, dict):
        for key, inner in value.items():
            place = f"{pointer}/{key}"
            if key in _SEALED and isinstance(inner, str):
                continue
            yield place, key, True
            if key in _OWN and isinstance(inner, str):
                yield place, inner, True
            else:
                yield from _texts(inner, place)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{pointer}/{index}")
    elif value is not None and not isinstance(value, bool):
        yield pointer, value, False


class Whole(msgspec.Struct, frozen=True):
    """What a request is a part of: the labels of the whole program, and the whole session."""

    labels: tuple[Label, ...]
    session: Session

    def before(self, event: Event) -> "Whole":
        """The same before an event happened."""
        for index in range(len(self.session.events) - 1, -1, -1):
            if self.session.events[index].id == event.id:
                return Whole(self.labels, self.session.before(index))
        return self


def withheld_by(policy: Policy, env: Env) -> "Labelled | None":
    """What the policy withholds from the agent's model; None where it withholds nothing."""
    labels = labels_in(policy)
    if not labels:
        return None
    from weft.passes.labels import withheld_from

    return withheld_from(env, labels)


def without_labelled(
    system: tuple[TextBlock, ...], prompt: Prompt, policy: Policy, env: Env
) -> tuple[TextBlock, ...]:
    """A system text of this prompt without what the policy withholds."""
    from weft.passes.labels import withhold_labelled

    alone = msgspec.structs.replace(prompt, system=system, items=Strand())
    return withhold_labelled(alone, env, labels_in(policy)).system


def labels_in(policy: Policy) -> tuple[Label, ...]:
    """The labels that a policy withholds."""
    return tuple(one for one in policy.protections if isinstance(one, Label))


def shown_item(item: Item, policy: Policy, env: Env) -> Item:
    """The item without what the policy withholds or replaces, whatever was done with it."""
    from weft.passes.labels import withhold_labelled
    from weft.passes.redact import redact_values

    alone = Prompt(model="", agent=env.agent, items=Strand([item]))
    if labels := labels_in(policy):
        alone = withhold_labelled(alone, env, labels)
    for step in policy.protections:
        if isinstance(step, Redact):
            alone = redact_values(alone, env, step)
    item_after = alone.items.tip
    return item_after if item_after is not None else item


_FOUND = ("WEFT603", "WEFT604")


def require_valid(prompt: Prompt) -> None:
    """Raise for what `.validate(...)` found missing or contradicting."""
    problems = [one for one in prompt.diagnostics if one.code in _FOUND]
    if problems:
        first, more = problems[0], len(problems) - 1
        rest = f", and {more} more of that kind" if more else ""
        raise CompileError(f"{first.message}{rest}", where=str(first.origin), hint=first.hint)
