"""Withhold what carries a label that the agent's model is not cleared for."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from weft.codes import report
from weft.declare.policy.transforms import Label
from weft.diagnostics import Diagnostic, Origin
from weft.ir import Block, Item, Note, Prompt, ResultBlock, TextBlock
from weft.passes.copies import Hit, mark_of
from weft.passes.cover import (
    covered_block,
    covered_json,
    covered_schema,
    covered_spans,
    covered_text,
    covered_texts,
)
from weft.passes.env import Env
from weft.passes.labelled import Labelled, withheld_from
from weft.session import Event
from weft.values import Strand

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
    said: list[Diagnostic] = []
    system = tuple(_system(block, known, env, said) for block in prompt.system)
    items, notes = _items(prompt, known, env, said)
    changed = _around(prompt, known, env, said)
    if system != prompt.system:
        changed["system"] = system
    if items is not None:
        changed["items"] = items
    if not changed:
        return prompt
    new = [one for one in dict.fromkeys(said) if one not in prompt.diagnostics]
    return msgspec.structs.replace(
        prompt,
        notes=(*prompt.notes, *notes),
        diagnostics=(*prompt.diagnostics, *new),
        **changed,
    )


def _system(block: TextBlock, known: Labelled, env: Env, said: list[Diagnostic]) -> TextBlock:
    """A system block: what was inserted from labelled places, and copies of values."""
    hits = list(known.copies.hits(block.text))
    start = 0
    for span in block.spans:
        labels = _of_place(span.origin, known)
        whole = block.text[start : span.end]
        if labels and whole and whole != mark_of(labels):
            hits = [hit for hit in hits if hit.end <= start or hit.start >= span.end]
            hits.append(Hit(start, span.end, labels))
        start = span.end
    if not hits:
        return block
    said += _told(env, block.origin, (name for hit in hits for name in hit.labels))
    return covered_spans(block, tuple(sorted(hits)))


def _items(
    prompt: Prompt, known: Labelled, env: Env, said: list[Diagnostic]
) -> tuple[Strand[Item] | None, list[Note]]:
    """The items without what is labelled, or None where nothing is."""
    kept: list[Item] = []
    notes: list[Note] = []
    changed = False
    for item in prompt.items:
        if known.is_clean(item):
            kept.append(item)
            continue
        blocks = _covered(item, known, env)
        if blocks == item.blocks:
            known.found_clean(item)
            kept.append(item)
            continue
        changed = True
        after = msgspec.structs.replace(item, blocks=blocks) if blocks else None
        names = sorted({name for block in blocks for name in block.labels} or known.names)
        said += _told(env, item.blocks[0].origin, names)
        notes.append(Note(_STEP, f"it carries the label {', '.join(names)}", item, after))
        if after is not None:
            kept.append(after)
    return (Strand(kept) if changed else None), notes


def _covered(item: Item, known: Labelled, env: Env) -> tuple[Block, ...]:
    """An item's blocks without what carries a label."""
    noted: set[str] = set()
    made = {block.origin.name for block in item.blocks if block.origin.kind == "event"}
    for event in _events(item, env):
        if event.custom_metadata is not None and event.id in made:
            noted.update(known.of_event(event))
    blocks: list[Block] = []
    for texts, run in groupby(item.blocks, lambda block: isinstance(block, TextBlock)):
        held = [_by_place(block, item, known, env) for block in run]
        if texts:
            some = tuple(block for block in held if isinstance(block, TextBlock))
            blocks += covered_texts(some, known.copies)
        else:
            found = (covered_block(block, known.copies) for block in held)
            blocks += [block for block in found if block is not None]
    if noted and tuple(blocks) == item.blocks:
        blocks = [_wholly(block, tuple(sorted(noted))) for block in blocks]
    if not blocks and item.blocks:
        first, labels = item.blocks[0], tuple(sorted(known.names))
        blocks = [TextBlock(role=first.role, origin=first.origin, text=mark_of(labels))]
    return tuple(blocks)


def _by_place(block: Block, item: Item, known: Labelled, env: Env) -> Block:
    """The block as it may be seen, going by where it comes from."""
    if isinstance(block, ResultBlock):
        labels = known.tools.get(block.name, ())
        if not labels or block.synthetic:
            return block
        return _wholly(block, labels)
    if not isinstance(block, TextBlock):
        return block
    labels = _of_place(block.origin, known)
    if labels:
        return _shown(block, labels)
    if block.origin.kind != "event" or item.kind not in ("foreign", "summary"):
        return block
    return _told_by(block, item, known, env)


def _told_by(block: TextBlock, item: Item, known: Labelled, env: Env) -> TextBlock:
    """What was told of another agent's result, or summed up, where that is labelled."""
    events = list(_events(item, env))
    if item.kind == "summary":
        last = events[-1] if events else None
        if last is None or last.id != block.origin.name or last.actions.compaction is None:
            return block
        names = {name for event in events for name in _returned(event, known)}
        return _shown(block, tuple(sorted(names))) if names else block
    for event in events:
        parts = event.content.parts if event.content is not None else None
        if event.id == block.origin.name and parts and 0 <= block.origin.part < len(parts):
            result = parts[block.origin.part].function_response
            labels = known.tools.get(result.name or "", ()) if result is not None else ()
            return _shown(block, labels, f"[{item.author}] ") if labels else block
    return block


def _events(item: Item, env: Env) -> Iterator[Event]:
    """The events an item was made of, and those between them."""
    for index in range(max(0, item.position), min(item.last + 1, len(env.log))):
        yield env.log[index]


def _returned(event: Event, known: Labelled) -> Iterable[str]:
    for result in event.results:
        yield from known.tools.get(result.name or "", ())


def _shown(block: TextBlock, labels: tuple[str, ...], head: str = "") -> TextBlock:
    """A text of which only its heading is left: `[state] key:` or `[summary of ...]:`."""
    mark = mark_of(labels)
    if block.text.endswith(mark):
        return block
    opening, colon, _ = block.text.partition(":")
    if not head and block.text.startswith("[") and colon and "\n" not in opening:
        head = f"{opening}: "
    return msgspec.structs.replace(
        block, text=f"{head}{mark}", spans=(), labels=labels, signature=None, kept=None
    )


def _wholly(block: Block, labels: tuple[str, ...]) -> Block:
    """A mark in place of all that a block says; a call keeps its name, a result its call."""
    mark = mark_of(labels)
    if isinstance(block, ResultBlock):
        if set(labels) <= set(block.labels):
            return block
        response = {"error" if block.is_error else "result": mark}
        return msgspec.structs.replace(block, response=response, media=(), labels=labels, kept=None)
    if isinstance(block, TextBlock):
        return _shown(block, labels) if block.text != mark else block
    return block


def _of_place(origin: Origin, known: Labelled) -> tuple[str, ...]:
    if origin.kind == "state":
        return known.of_state(origin.name)
    return known.artifacts.get(origin.name, ()) if origin.kind == "artifact" else ()


def _around(
    prompt: Prompt, known: Labelled, env: Env, said: list[Diagnostic]
) -> "dict[str, object]":
    """What changes beside the texts: tools, schemas, options, what other models are asked."""
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
            said += _told(env, before.origin, known.names)
    if prompt.output is not None:
        schema = covered_schema(prompt.output.schema, copies)
        if schema is not prompt.output.schema:
            changed["output"] = msgspec.structs.replace(prompt.output, schema=schema)
            said += _told(env, prompt.output.origin, known.names)
    config = covered_json(prompt.config, copies)
    if config is not prompt.config:
        changed["config"] = config
        said += _told(env, Origin("config", "generate_config", env.agent), known.names)
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


def _told(env: Env, origin: Origin, names: Iterable[str]) -> list[Diagnostic]:
    return [
        report(
            "WEFT601",
            origin,
            f"what carries the label `{name}` is withheld from the model of {env.agent}",
            f'clear it, Agent("{env.agent}", cleared=["{name}"]), or keep the value away from it',
        )
        for name in sorted(set(names))
    ]
