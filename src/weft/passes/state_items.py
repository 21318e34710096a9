"""Turns that nobody took: values of the state, notes, artifacts, and at the end examples.

Examples stand before everything else in a request.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.declare.examples import Example
from weft.declare.policy_parts import ArtifactText, Notes, Priority, StateKeys
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin, report
from weft.ir import (
    CallBlock,
    Feature,
    Item,
    ItemKind,
    Note,
    Prompt,
    ResultBlock,
    Stability,
    TextBlock,
)
from weft.ir.prompt import LateSequence
from weft.passes.env import Env
from weft.passes.rewrite import prepend_items, rewrite_items
from weft.session import Event
from weft.session.strand import Strand
from weft.values import Json, compact, handle_of


def insert_state(prompt: Prompt, env: Env, options: StateKeys | Notes | ArtifactText) -> Prompt:
    """Put values after what happened before they were written, each as an item of its own.

    There a value stays until it is written again, so that what was sent before keeps its place.
    A value that the instruction carries is not repeated.

    Before:  user "Fly me to Oslo" | user "Today"   (C.state("intent"), written in between)
    After:   user "[state] intent: booking"
    """
    notes: list[Note] = []
    missing: list[Diagnostic] = []
    staying: list[Item] = []
    for name, text, origin in _values_of(env, options):
        if text is None:
            word = type(options).word
            missing.append(
                report(
                    "WEFT101",
                    Origin("field", "context", env.agent),
                    f"C.{word} shows `{name}`, which has no value",
                    f"write `{name}` before this agent runs, or leave it out",
                )
            )
            continue
        item = _item(env, name, text, origin)
        # the instruction has it as `{name}`; `duplicates` asks for both
        if name in env.instruction.inserted and not env.policy.duplicates:
            notes.append(Note("insert_state", f"the instruction carries it as {{{name}}}", item))
        else:
            notes.append(Note("insert_state", "the policy shows it", item, item))
            staying.append(item)
    after = drop_all(prompt, "insert_state", "the policy shows values only")
    return after.with_items(staying, notes, missing)


def drop_all(prompt: Prompt, step: str, reason: str) -> Prompt:
    """The prompt without its items; the notes on them are made when somebody reads them."""
    items = prompt.items
    notes = LateSequence(lambda: (Note(step, reason, item) for item in items), len(items))
    return prompt.with_strand(Strand(), notes)


def _values_of(
    env: Env, options: StateKeys | Notes | ArtifactText
) -> Iterator[tuple[str, str | None, Origin]]:
    match options:
        case StateKeys():
            for key in options.keys:
                value = env.session.state.get(key)
                text = None if value is None else f"[state] {key}: {to_text(value)}"
                yield key, text, Origin("state", key)
        case Notes():
            note_value = env.session.state.get(options.key)
            text = "" if note_value is None else _spell_notes(note_value, options)
            if text:
                yield options.key, f"[notes] {options.key}:\n{text}", Origin("state", options.key)
        case ArtifactText():
            name = options.name
            note_value = env.session.artifacts.get(name)
            text = None if note_value is None else f"[artifact] {name}:\n{note_value}"
            yield name, text, Origin("artifact", name)


def _item(env: Env, name: str, text: str, origin: Origin) -> Item:
    position = _written_at(env, name, origin.kind)
    block = TextBlock(role="user", origin=origin, text=text)
    return Item("state", (block,), "", "", position, position, f"{origin.kind} {name}")


def _written_at(env: Env, name: str, kind: str) -> int:
    """The log index at which it was last written; -1 where the log does not know.

    What was read for a request before is not read again.
    """
    log = env.log
    # the tail first: it may still change, so it is never kept
    newest = _last_writing(log, log.settled, len(log), name, kind)
    if newest >= 0:
        return newest
    with log.lock:
        places = log.memo[_Writings]
        read, place = places.get((kind, name), (0, -1))
        if read > log.settled:  # an older snapshot is read by itself
            return _last_writing(log, 0, log.settled, name, kind)
        newest = _last_writing(log, read, log.settled, name, kind)
        places[kind, name] = log.settled, max(newest, place)
        return max(newest, place)


def _last_writing(log: Strand[Event], start: int, end: int, name: str, kind: str) -> int:
    for index in range(end - 1, start - 1, -1):
        actions = log[index].actions
        if name in (actions.state_delta if kind == "state" else actions.artifact_delta):
            return index
    return -1


class _Writings(dict[tuple[str, str], tuple[int, int]]):
    """How far a log was read for each value and artifact, and where it was last written."""


def _spell_notes(notes: Json, options: Notes) -> str:
    """Notes in the format they are asked for in."""
    if options.format == "json":
        return compact(notes)
    listed: list[Json] = [*notes] if isinstance(notes, list) else [notes]
    # an object as a checklist: its keys, done where the value is true
    if isinstance(notes, dict) and options.format == "checklist":
        listed = [{"text": key, "done": value is True} for key, value in notes.items()]
    elif isinstance(notes, dict):
        listed = [f"{key}: {to_text(value)}" for key, value in notes.items()]
    lines = [_line(one, options) for one in listed]
    return ("\n\n" if options.format == "text" else "\n").join(line for line in lines if line)


def _line(note: Json, options: Notes) -> str:
    done = False
    if isinstance(note, dict) and isinstance(note.get("text"), str):
        done, note = note.get("done") is True, note["text"]
    elif isinstance(note, dict) and isinstance(note.get("fact"), str):
        note = note["fact"]
    text = to_text(note)
    if options.format == "checklist":
        return f"- [{'x' if done else ' '}] {text}"
    mark = " (done)" if done else ""
    return f"- {text}{mark}" if options.format == "list" else text + mark


def set_priority(prompt: Prompt, env: Env, options: Priority) -> Prompt:
    """Put the items into a tier: 1 stays whatever it costs, 4 is the first to go.

    Before:  user "[state] intent: booking"   (C.state("intent").priority(1))
    After:   the same, in tier 1
    """

    def change(item: Item, _: None) -> Item | Note:
        if all(block.priority == options.tier for block in item.blocks):
            return item
        blocks = (msgspec.structs.replace(block, priority=options.tier) for block in item.blocks)
        tiered = msgspec.structs.replace(item, blocks=tuple(blocks))
        return Note("set_priority", f"it is in tier {options.tier}", item, tiered)

    return rewrite_items(prompt, "set_priority", change, key=options)


# --- examples


class SpelledExamples(NamedTuple):
    """Examples as turns, or as a system text for a model that cannot be told of calls."""

    items: tuple[Item, ...] = ()
    text: TextBlock | None = None
    key: str = ""


def insert_examples(prompt: Prompt, env: Env, *, options: SpelledExamples) -> Prompt:
    """Put examples before the conversation, as turns or as a system text.

    They are the same in every request, so a provider reuses them. A budget never takes them.

    Before:  user "5 euros?"
    After:   user "2 euros?" | model "EUR 2.00" | user "5 euros?"
    """
    if options.text is not None:
        if options.text in prompt.system:
            return prompt
        features = prompt.features | Feature.UNORDERED
        system = (*prompt.system, options.text)
        return msgspec.structs.replace(prompt, system=system, features=features)
    if not options.items or (len(prompt.items) and prompt.items[0] == options.items[0]):
        return prompt
    return prepend_items(prompt, options.items, step="insert_examples", key=options.key)


def spell_examples(
    examples: Sequence[Example], agent: str, *, wrapped: bool, as_turns: bool
) -> SpelledExamples:
    """The examples of an agent; `wrapped` says that its answers stand under `result`."""
    # a model that cannot be told of calls reads them as text
    if not as_turns and any(example.calls for example in examples):
        return SpelledExamples(text=_as_text(examples, agent, wrapped=wrapped))
    items = [
        item
        for number, example in enumerate(examples)
        for item in _turns(example, number, agent, wrapped=wrapped)
    ]
    spelled: list[Json] = [msgspec.to_builtins(item) for item in items]
    return SpelledExamples(tuple(items), key=handle_of(spelled))


def _turns(example: Example, number: int, agent: str, *, wrapped: bool) -> list[Item]:
    origin = Origin("field", f"examples[{number}]", agent)

    def item(kind: ItemKind, author: str, *blocks: TextBlock | CallBlock | ResultBlock) -> Item:
        # -1: it stands in no log, and before all that does
        return Item(kind, blocks, author, "", -1, -1, f"example {number}")

    def text(role: "str", words: str) -> TextBlock:
        return TextBlock(
            role="user" if role == "user" else "model",
            origin=origin,
            text=words,
            stability=Stability.STATIC,
            priority=1,
        )

    items = [item("user", "", text("user", example.user))]
    for at, call in enumerate(example.calls):
        call_id = f"example_{number}_{at}"
        called = CallBlock(
            role="model", origin=msgspec.structs.replace(origin, part=2 * at + 1), id=call_id,
            name=call.name, args=call.args, given=False, stability=Stability.STATIC, priority=1,
        )  # fmt: skip
        result = ResultBlock(
            role="user", origin=msgspec.structs.replace(origin, part=2 * at + 2), call_id=call_id,
            name=call.name, response=call.response, given=False, stability=Stability.STATIC,
            priority=1,
        )  # fmt: skip
        items.append(item("exchange", agent, called, result))
    items.append(item("model", agent, text("model", _answer(example, wrapped=wrapped))))
    return items


def _answer(example: Example, *, wrapped: bool) -> str:
    """The answer as the model would say it."""
    if wrapped:
        return compact({"result": example.answer})
    return example.answer if isinstance(example.answer, str) else compact(example.answer)


def _as_text(examples: Sequence[Example], agent: str, *, wrapped: bool) -> TextBlock:
    lines = ["Examples:"]
    for example in examples:
        lines.append(f"\nUser: {example.user}")
        lines += [
            f"Call: {call.name}({compact(call.args)}) -> {compact(call.result)}"
            for call in example.calls
        ]
        lines.append(f"Answer: {_answer(example, wrapped=wrapped)}")
    return TextBlock(
        role="system",
        origin=Origin("field", "examples", agent),
        text="\n".join(lines),
        stability=Stability.STATIC,
        priority=1,
    )
