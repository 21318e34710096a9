"""Show values of the state, notes and artifacts among the turns."""

from collections.abc import Iterator

import msgspec

from weft.declare.policy_parts import ArtifactText, Notes, Priority, StateKeys
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin, report
from weft.ir import Item, Note, Prompt, TextBlock
from weft.ir.prompt import LateNotes
from weft.passes.env import Env
from weft.passes.rewrite import rewrite_items
from weft.session import Event
from weft.session.strand import Strand
from weft.values import Json, compact


def insert_state(prompt: Prompt, env: Env, options: StateKeys | Notes | ArtifactText) -> Prompt:
    """Put values behind what happened before they were written, each as an item of its own.

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
    notes = LateNotes(lambda: (Note(step, reason, item) for item in items), len(items))
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
            text = "" if note_value is None else _noted(note_value, options)
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
        places = log.memo[_Writings].places
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


class _Writings:
    """How far a log was read for each value and artifact, and where it was last written."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], tuple[int, int]] = {}


def _noted(notes: Json, options: Notes) -> str:
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
