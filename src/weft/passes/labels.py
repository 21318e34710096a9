"""Withhold what carries a label that the agent's model is not cleared for."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import NamedTuple, TypeVar, cast

import msgspec

from weft.declare.policy_parts import Label
from weft.diagnostics import Diagnostic, Origin, report
from weft.ir import (
    Block,
    Item,
    MediaBlock,
    Note,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    Span,
    TextBlock,
    ThoughtBlock,
)
from weft.passes.copies import Copies, Hit, mark_of, values_in
from weft.passes.env import Env
from weft.passes.rewrite import PassFold, fold_items, map_fields
from weft.session import Event
from weft.session.event import written_by
from weft.session.flow import TRUSTED
from weft.session.strand import Strand
from weft.values import Json, JsonObject

_STEP = "withhold_labelled"


def withhold_labelled(prompt: Prompt, env: Env, options: tuple[Label, ...]) -> Prompt:
    """Put a mark in place of what comes from labelled keys, tools and artifacts.

    It is known by where it comes from, and by its value wherever that was copied: in the system
    text, in anybody's words, in arguments and results, in tools, schemas and options. A label
    holds for the whole tree, whoever declared it.

    Before:  system "The key is s3cr3t-99." | user "Is s3cr3t-99 valid?"   (label on state "key")
    After:   system "The key is [withheld: secret]." | user "Is [withheld: secret] valid?"
    """
    known = withheld_from(env, options)
    if known is None:
        return prompt
    diagnostics: list[Diagnostic] = []
    system = tuple(_system(block, known, env, diagnostics) for block in prompt.system)
    after, on_items = _withhold_items(prompt, known, env)
    diagnostics += on_items
    changed = _mask_surroundings(prompt, known, env, diagnostics)
    if system != prompt.system:
        changed["system"] = system
    if not changed and after is prompt:
        return prompt
    new = [one for one in dict.fromkeys(diagnostics) if one not in prompt.diagnostics]
    return msgspec.structs.replace(after, diagnostics=(*prompt.diagnostics, *new), **changed)


class Labelled(NamedTuple):
    """What carries labels, as names to labels, and the values that came from there."""

    keys: Mapping[str, tuple[str, ...]]
    tools: Mapping[str, tuple[str, ...]]
    artifacts: Mapping[str, tuple[str, ...]]
    names: frozenset[str]
    follows: frozenset[str]
    """Those that all carries which was made from them."""
    copies: Copies
    clean: dict[int, object]
    """Turns that were looked through and carry nothing, by their identity."""
    identity: object
    """Stands for all of this as a key: what carries a label has changed where this has."""

    @property
    def all(self) -> tuple[Mapping[str, tuple[str, ...]], ...]:
        """All that depends on the session: the keys, the artifacts and the values."""
        return self.keys, self.artifacts, self.copies.values

    def is_clean(self, thing: object) -> bool:
        """Whether this very thing was looked through before."""
        return self.clean.get(id(thing)) is thing

    def found_clean(self, thing: object) -> None:
        """Remember that there is nothing in it; it must never change."""
        if len(self.clean) >= _MOST:
            self.clean.clear()
        self.clean[id(thing)] = thing

    def of_state(self, name: str) -> tuple[str, ...]:
        """The labels of a state key, or of a path into its value."""
        labels = self.keys.get(name)
        if labels is not None:
            return labels
        for at, char in enumerate(name):
            if char in ".[" and (labels := self.keys.get(name[:at])) is not None:
                return labels
        return _NO_LABELS

    def of_event(self, event: Event) -> tuple[str, ...]:
        """The labels that were recorded on an event when it was stored."""
        labels = event.provenance.labels or ()
        return tuple(name for name in labels if name in self.names)


def _system(
    block: TextBlock, known: Labelled, env: Env, diagnostics: list[Diagnostic]
) -> TextBlock:
    """A system block: what was inserted from labelled places, and copies of values."""
    hits = list(known.copies.hits(block.text))
    start = 0
    for span in block.spans:
        labels = _of_place(span.origin, known)
        whole = block.text[start : span.end]
        # the pass runs twice, on new items and on the request: a mark stays as it is
        if labels and whole and whole != mark_of(labels):
            # the whole span is withheld, so values inside it need no mark of their own
            hits = [hit for hit in hits if hit.end <= start or hit.start >= span.end]
            hits.append(Hit(start, span.end, labels))
        start = span.end
    if not hits:
        return block
    diagnostics += _withheld_diagnostics(
        env, block.origin, (name for hit in hits for name in hit.labels)
    )
    return covered_spans(block, tuple(sorted(hits)))


_REPORTED: PassFold[list[Diagnostic]] = PassFold(list[Diagnostic], list[Diagnostic].copy)
"""What was reported on the items so far."""


def _withhold_items(
    prompt: Prompt, known: Labelled, env: Env
) -> tuple[Prompt, Sequence[Diagnostic]]:
    """The prompt with its items without what is labelled, and what there is to say about them."""

    def change(item: Item, reported: list[Diagnostic]) -> Item | Note:
        blocks = _cover_labelled(item, known, env)
        if blocks == item.blocks:
            return item
        after = msgspec.structs.replace(item, blocks=blocks) if blocks else None
        names = sorted({name for block in blocks for name in block.labels} or known.names)
        reported += _withheld_diagnostics(env, item.blocks[0].origin, names)
        return Note(_STEP, f"it carries the label {', '.join(names)}", item, after)

    key = (known.identity, env.agent, env.model.name)
    return fold_items(prompt, _STEP, change, key=key, fold=_REPORTED)


def _cover_labelled(item: Item, known: Labelled, env: Env) -> tuple[Block, ...]:
    """An item's blocks without what carries a label."""
    noted: set[str] = set()
    covered = {block.origin.name for block in item.blocks if block.origin.kind == "event"}
    for event in _events(item, env):
        # labels of an event stand in its metadata, and most events have none
        if event.custom_metadata is not None and event.id in covered:
            noted.update(known.of_event(event))
    blocks: list[Block] = []
    for texts, run in groupby(item.blocks, lambda block: isinstance(block, TextBlock)):
        event_labels = [_by_place(block, item, known, env) for block in run]
        if texts:
            some = tuple(block for block in event_labels if isinstance(block, TextBlock))
            blocks += covered_texts(some, known.copies)
        else:
            hits = (covered_block(block, known.copies) for block in event_labels)
            blocks += [block for block in hits if block is not None]
    # the event is labelled and no value is found in it: nobody knows which words, so all go
    if noted and (tuple(blocks) == item.blocks or not known.follows.isdisjoint(noted)):
        blocks = [_wholly(block, tuple(sorted(noted))) for block in blocks]
    # thoughts that held a value are gone; an item without blocks cannot be sent
    if not blocks and item.blocks:
        first, labels = item.blocks[0], tuple(sorted(known.names))
        blocks = [TextBlock(role=first.role, origin=first.origin, text=mark_of(labels))]
    return tuple(blocks)


def _by_place(block: Block, item: Item, known: Labelled, env: Env) -> Block:
    """The block as it may be seen, going by where it comes from."""
    if isinstance(block, ResultBlock):
        labels = known.tools.get(block.name, ())
        if block.synthetic:
            return block
        for event in _events(item, env):
            if event.custom_metadata is not None and event.id == block.origin.name:
                labels = _of_result(event, block.call_id, labels, known.names)
        return _wholly(block, labels) if labels else block
    if not isinstance(block, TextBlock):
        return block
    labels = _of_place(block.origin, known)
    if labels:
        return _covered_item(block, labels)
    if block.origin.kind != "event" or item.kind not in ("foreign", "summary"):
        return block
    return _told_by(block, item, known, env)


def _of_result(
    event: Event, call_id: str, labels: tuple[str, ...], names: AbstractSet[str]
) -> tuple[str, ...]:
    """The labels of a result: those of its tool, and those of what its code was given."""
    derived = event.provenance.derived if event.custom_metadata is not None else None
    more = [name for name in (derived or {}).get(call_id, ()) if name in names]
    return tuple(sorted({*labels, *more})) if more else labels


def _told_by(block: TextBlock, item: Item, known: Labelled, env: Env) -> TextBlock:
    """What was told of another agent's result, or summed up, where that is labelled."""
    events = list(_events(item, env))
    if item.kind == "summary":
        last = events[-1] if events else None
        # only a summary in the log tells of the events before it
        if last is None or last.id != block.origin.name or last.actions.compaction is None:
            return block
        names = {name for event in events for name in _labelled_results(event, known)}
        return _covered_item(block, tuple(sorted(names))) if names else block
    for event in events:
        parts = event.content.parts if event.content is not None else None
        if event.id == block.origin.name and parts and 0 <= block.origin.part < len(parts):
            result = parts[block.origin.part].function_response
            labels: tuple[str, ...] = ()
            if result is not None:
                labels = known.tools.get(result.name or "", ())
                labels = _of_result(event, result.id or "", labels, known.names)
            return _covered_item(block, labels, f"[{item.author}] ") if labels else block
    return block


def _events(item: Item, env: Env) -> Iterator[Event]:
    """The events an item was made of, and those between them."""
    for index in range(max(0, item.position), min(item.last + 1, env.log.length)):
        yield env.log[index]


def _labelled_results(event: Event, known: Labelled) -> Iterable[str]:
    for result in event.results:
        labels = known.tools.get(result.name or "", ())
        yield from _of_result(event, result.id or "", labels, known.names)


def _covered_item(block: TextBlock, labels: tuple[str, ...], head: str = "") -> TextBlock:
    """A text of which only its heading is left: `[state] key:` or `[summary of ...]:`."""
    mark = mark_of(labels)
    # it was covered when the item was new
    if block.text.endswith(mark):
        return block
    opening, colon, _ = block.text.partition(":")
    if not head and block.text.startswith("[") and colon and "\n" not in opening:
        head = f"{opening}: "
    return msgspec.structs.replace(
        block,
        text=f"{head}{mark}",
        spans=(),
        labels=labels,
        label=TRUSTED,
        signature=None,
        kept=None,
    )


def _wholly(block: Block, labels: tuple[str, ...]) -> Block:
    """A mark in place of all that a block says; a call keeps its name, a result its call."""
    mark = mark_of(labels)
    if isinstance(block, ResultBlock):
        if set(labels) <= set(block.labels):
            return block
        response = {"error" if block.is_error else "result": mark}
        return msgspec.structs.replace(
            block, response=response, media=(), labels=labels, label=TRUSTED, kept=None
        )
    if isinstance(block, TextBlock):
        return _covered_item(block, labels) if block.text != mark else block
    return block


def _of_place(origin: Origin, known: Labelled) -> tuple[str, ...]:
    if origin.kind == "state":
        return known.of_state(origin.name)
    return known.artifacts.get(origin.name, ()) if origin.kind == "artifact" else ()


def _mask_surroundings(
    prompt: Prompt, known: Labelled, env: Env, diagnostics: list[Diagnostic]
) -> "dict[str, object]":
    """What changes besides the texts: tools, schemas, options, what other models are asked."""
    copies = known.copies
    changed: dict[str, object] = {}
    tools = tuple(
        msgspec.structs.replace(
            tool,
            description=covered_text(tool.description, copies),
            parameters=covered_schema(tool.parameters, copies),
            kept=covered_json(tool.kept, copies) if tool.kept is not None else None,
            own=covered_json(tool.own, copies) if tool.own is not None else None,
        )
        for tool in prompt.tools
    )
    for before, after in zip(prompt.tools, tools, strict=True):
        if before != after:
            changed["tools"] = tools
            diagnostics += _withheld_diagnostics(env, before.origin, known.names)
    if prompt.output is not None:
        schema = covered_schema(prompt.output.schema, copies)
        if schema is not prompt.output.schema:
            changed["output"] = msgspec.structs.replace(prompt.output, schema=schema)
            diagnostics += _withheld_diagnostics(env, prompt.output.origin, known.names)
    config = covered_json(prompt.config, copies)
    if config is not prompt.config:
        changed["config"] = config
        diagnostics += _withheld_diagnostics(
            env, Origin("config", "generate_config", env.agent), known.names
        )
    wants = tuple(
        msgspec.structs.replace(
            want,
            text=covered_text(want.text, copies),
            instruction=covered_text(want.instruction, copies),
            must_keep=tuple(one for one in want.must_keep if not copies.hits(one)),
        )
        for want in prompt.wants
    )
    if wants != prompt.wants:
        changed["wants"] = wants
    return changed


def _withheld_diagnostics(env: Env, origin: Origin, names: Iterable[str]) -> list[Diagnostic]:
    """One diagnostic for each label that keeps something from the model."""
    return [
        report(
            "WEFT601",
            origin,
            f"what carries the label `{name}` is withheld from the model of {env.agent}",
            f'clear it, Agent("{env.agent}", cleared=["{name}"]), or keep the value away from it',
        )
        for name in sorted(set(names))
    ]


_NO_LABELS: tuple[str, ...] = ()

_MOST = 100_000
"""How many things are remembered as clean."""


def withheld_from(env: Env, labels: tuple[Label, ...]) -> Labelled | None:
    """What carries labels that the agent's model is not cleared for; None if it is for all."""
    hidden = tuple(label for label in labels if label.name not in env.model.cleared)
    if not hidden:
        return None
    whole = env.session.whole
    return labelled_in(
        hidden,
        whole.events if whole is not None else env.log,
        state=env.session.state,
        initial=whole.initial if whole is not None else {},
        artifacts=env.session.artifacts,
    )


class _Read(NamedTuple):
    """What the first `upto` events say: labels that were passed on, and values."""

    upto: int
    keys: dict[str, tuple[str, ...]]
    artifacts: dict[str, tuple[str, ...]]
    values: dict[str, tuple[str, ...]]


def labelled_in(
    labels: tuple[Label, ...],
    log: Strand[Event],
    *,
    state: Mapping[str, Json],
    initial: Mapping[str, Json],
    artifacts: Mapping[str, str],
) -> Labelled:
    """What carries the labels in this session; what was read of the log is kept with it."""
    tools = _labels_by_name(labels, lambda label: label.tools)
    declared = _labels_by_name(labels, lambda label: label.keys)
    files = _labels_by_name(labels, lambda label: label.artifacts)
    read = _read(labels, tools, declared, log)
    keys = {**read.keys, **declared}
    named = {**read.artifacts, **files}
    values = dict(read.values)
    for known_values in (initial, state):
        for key, value in known_values.items():
            if key in keys:
                _add_labels(values, value, keys[key], common=True)
    for name, text in artifacts.items():
        if name in named:
            _add_labels(values, text, named[name], common=True)
    # the same object as before where nothing changed: what was found clean stays clean
    known = log.memo.of((Labelled, labels))
    if (
        known is not None
        and known.copies.values == values
        and known.keys == keys
        and known.artifacts == named
    ):
        return known
    names = frozenset(label.name for label in labels)
    follows = frozenset(label.name for label in labels if label.follow)
    return log.memo.keep(
        Labelled(keys, tools, named, names, follows, Copies(values), {}, object()), labels
    )


def _read(
    labels: tuple[Label, ...],
    tools: Mapping[str, tuple[str, ...]],
    keys: Mapping[str, tuple[str, ...]],
    log: Strand[Event],
) -> _Read:
    """What the log says, from where it was read the last time."""
    known = log.memo.of((_Read, labels))
    # an older snapshot is read by itself
    if known is None or known.upto > log.settled:
        known = _Read(0, {}, {}, {})
    # nothing new since the last request
    if known.upto == len(log):
        return known
    reading = _Read(len(log), dict(known.keys), dict(known.artifacts), dict(known.values))
    names = {label.name for label in labels}
    follows = {label.name for label in labels if label.follow}
    for event in log.since(known.upto):
        _read_event(event, tools, keys, names, reading)
        if follows and event.custom_metadata is not None:
            _read_followed(event, follows, reading)
    # a tail may still change: it is read again
    if log.settled == len(log):
        log.memo.keep(reading, labels)
    return reading


def _read_event(
    event: Event,
    tools: Mapping[str, tuple[str, ...]],
    keys: Mapping[str, tuple[str, ...]],
    names: AbstractSet[str],
    reading: _Read,
) -> None:
    """Take in what an event passes on: labelled results, with their keys and artifacts."""
    passed: set[str] = set()
    for result in event.results:
        labels = _of_result(event, result.id or "", tools.get(result.name or "", ()), names)
        if labels:
            passed.update(labels)
            _add_labels(reading.values, result.response, labels, common=False)
            reading.artifacts[f"result-{result.id}.json"] = labels  # where a large one is kept
    labels = tuple(sorted(passed))
    for key, value in written_by(event).items():
        if labels:
            reading.keys[key] = labels
        elif not event.partial:
            reading.keys.pop(key, None)  # somebody else wrote it since
        if carried := keys.get(key, labels):
            _add_labels(reading.values, value, carried, common=True)
    if labels:
        reading.artifacts.update(dict.fromkeys(event.actions.artifact_delta, labels))


def _read_followed(event: Event, follows: AbstractSet[str], reading: _Read) -> None:
    """Take in what an event writes that was made from what a label follows."""
    labels = tuple(sorted(follows & {*(event.provenance.labels or ())}))
    if not labels:
        return
    reading.keys.update(dict.fromkeys(written_by(event), labels))
    reading.artifacts.update(dict.fromkeys(event.actions.artifact_delta, labels))


def _add_labels(
    values: dict[str, tuple[str, ...]], value: Json, labels: tuple[str, ...], *, common: bool
) -> None:
    """Add labels to every text in a value by which it can be found again."""
    for text in values_in(value, common=common):
        known = values.get(text, _NO_LABELS)
        if known != labels:
            values[text] = tuple(sorted({*known, *labels}))


def _labels_by_name(
    labels: Iterable[Label], names: Callable[[Label], tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The names of the labels on each key, tool or artifact, as `names` picks them."""
    label_names: dict[str, tuple[str, ...]] = {}
    for label in labels:
        for name in names(label):
            label_names[name] = tuple(sorted({*label_names.get(name, ()), label.name}))
    return label_names


_TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml", "application/csv")

Value = TypeVar("Value", bound=Json)


def covered_text(text: str, copies: Copies) -> str:
    """The text with marks in place of values; the same text if there are none."""
    hits = copies.hits(text)
    return _put_marks(text, hits) if hits else text


def covered_spans(block: TextBlock, hits: tuple[Hit, ...]) -> TextBlock:
    """A block with marks in place of these stretches, its spans moved along."""
    spans: list[Span] = []
    for span in block.spans:
        end = _shift_place(span.end, hits)
        if not spans or end > spans[-1].end:
            spans.append(Span(end, span.origin))
    return msgspec.structs.replace(
        block,
        text=_put_marks(block.text, hits),
        spans=tuple(spans),
        labels=_labels(block.labels, hits),
        signature=None,
        kept=None,
    )


def covered_json(value: Value, copies: Copies) -> Value:
    """JSON with marks in place of values, also in keys; the same object if there are none."""
    inner: Json = value
    match inner:
        case str():
            return cast("Value", covered_text(inner, copies))
        case dict():
            fields = {covered_text(k, copies): covered_json(v, copies) for k, v in inner.items()}
            return value if _same(fields, inner) else cast("Value", fields)
        case list():
            items = [covered_json(item, copies) for item in inner]
            same = all(one is other for one, other in zip(items, inner, strict=True))
            return value if same else cast("Value", items)
        # before numbers: in Python `True` is a number
        case bool() | None:
            return value
        case _:
            labels = copies.in_number(inner)
            return cast("Value", mark_of(labels)) if labels else value


def covered_schema(schema: JsonObject, copies: Copies) -> JsonObject:
    """A schema with marks in place of values in its texts; the names of properties stay."""
    fields: JsonObject = {}
    for key, inner in schema.items():
        # a call must use these names
        if key in ("properties", "$defs", "definitions") and isinstance(inner, dict):
            fields[key] = {
                name: covered_schema(one, copies) if isinstance(one, dict) else one
                for name, one in inner.items()
            }
        elif key in ("required", "type", "$ref"):
            fields[key] = inner
        elif isinstance(inner, dict):
            fields[key] = covered_schema(inner, copies)
        elif isinstance(inner, list):
            fields[key] = [
                covered_schema(one, copies) if isinstance(one, dict) else covered_json(one, copies)
                for one in inner
            ]
        else:
            fields[key] = covered_json(inner, copies)
    return schema if fields == schema else fields


def covered_texts(blocks: tuple[TextBlock, ...], copies: Copies) -> tuple[TextBlock, ...]:
    """Texts that follow each other, read as one: a value may begin in one and end in the next."""
    if len(blocks) == 1:
        hits = copies.hits(blocks[0].text)
        return (covered_spans(blocks[0], hits),) if hits else blocks
    whole = "".join(block.text for block in blocks)
    hits = copies.hits(whole)
    if not hits:
        return blocks
    covered: list[TextBlock] = []
    text, begun, start = _put_marks(whole, hits), 0, 0
    for block in blocks:
        end = start + len(block.text)
        moved = _shift_place(end, hits)
        touched = any(hit.start < end and start < hit.end for hit in hits)
        # a block without a value keeps its signature
        if not touched:
            covered.append(block)
        elif moved > begun:
            covered.append(
                msgspec.structs.replace(
                    block,
                    text=text[begun:moved],
                    spans=(),
                    labels=_labels(block.labels, hits),
                    signature=None,
                    kept=None,
                )
            )
        begun, start = moved, end
    return tuple(covered)


def covered_block(block: Block, copies: Copies) -> Block | None:
    """Any block but a text with marks in place of values; None for a thought that held one.

    What only its provider can read cannot be rewritten, so a mark stands for all of it.
    """
    match block:
        case TextBlock():
            return covered_texts((block,), copies)[0]
        case ThoughtBlock():
            return None if copies.hits(block.text) else block
        case MediaBlock():
            return covered_media(block, copies)
        case OpaqueBlock():
            if covered_json(block.payload, copies) is block.payload:
                return block
            return _in_place(block, tuple(sorted(_names(copies))))
        case _:
            covered = map_fields(
                block,
                lambda text: covered_text(text, copies),
                lambda value: covered_json(value, copies),
            )
    if isinstance(covered, ResultBlock):
        media = tuple(covered_media(one, copies) for one in covered.media)
        extra = tuple(one for one in media if isinstance(one, MediaBlock))
        if extra != covered.media:
            covered = msgspec.structs.replace(covered, media=extra)
    # what a provider sent besides the fields may hold the value too
    loose = block.kept is not None and covered_json(block.kept, copies) is not block.kept
    return msgspec.structs.replace(covered, kept=None) if loose or covered is not block else block


def covered_media(block: MediaBlock, copies: Copies) -> "MediaBlock | TextBlock":
    """Media under another name, or a mark where its address or its text holds a value."""
    hits = copies.hits(block.uri) if block.uri is not None else ()
    if not hits and block.data is not None and block.mime_type.startswith(_TEXTUAL):
        hits = copies.hits(block.data)
    if hits:
        return _in_place(block, _labels((), hits))
    name = covered_text(block.name, copies)
    return block if name == block.name else msgspec.structs.replace(block, name=name)


def _in_place(block: Block, labels: tuple[str, ...]) -> TextBlock:
    return TextBlock(role=block.role, origin=block.origin, text=mark_of(labels), labels=labels)


def _put_marks(text: str, hits: tuple[Hit, ...]) -> str:
    """The text with a mark in place of each hit."""
    pieces: list[str] = []
    at = 0
    for hit in hits:
        pieces += [text[at : hit.start], mark_of(hit.labels)]
        at = hit.end
    return "".join((*pieces, text[at:]))


def _shift_place(place: int, hits: tuple[Hit, ...]) -> int:
    """Where a place is once marks stand in the text; one inside a value is after its mark."""
    moved = place
    for hit in hits:
        if hit.start >= place:
            break
        moved += len(mark_of(hit.labels)) - (min(hit.end, place) - hit.start)
    return moved


def _labels(value: tuple[str, ...], hits: tuple[Hit, ...]) -> tuple[str, ...]:
    return tuple(sorted({*value, *(name for hit in hits for name in hit.labels)}))


def _names(copies: Copies) -> set[str]:
    return {name for labels in copies.values.values() for name in labels}


def _same(fields: dict[str, Json], mapping: dict[str, Json]) -> bool:
    return len(fields) == len(mapping) and all(
        key in mapping and mapping[key] is value for key, value in fields.items()
    )
