"""Trust in a session: where untrusted text went, and what became of the calls that it reached.

Labels say so where agents have them: every way to an argument was recorded. Without labels it is
found by words: those of results that stand in the arguments of later calls.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from weft.compiler.explain import notes_of
from weft.compiler.mask import Mask
from weft.compiler.report import block_text
from weft.content import FunctionCall
from weft.declare import Agent, Node
from weft.declare.tool import RESERVED
from weft.declare.visit import every_node
from weft.inspector.inspection import Inspection
from weft.inspector.words import MaskedTexts
from weft.session import Event
from weft.session.flow import TRUSTED, FlowNote, TrustLabel, flow_in, flow_of
from weft.session.lookback import CONFIRMATION, QUESTION
from weft.session.talk import INTERNAL_CALLS
from weft.values import Json, JsonObject, compact


def describe_trust(inspection: Inspection) -> JsonObject:
    """What is fenced, labelled or redacted, and into which calls untrusted text went.

    Redacted and labelled values are recognised by their placeholders, in words and in arguments.
    """
    mask, show = inspection.mask, MaskedTexts(inspection.mask)
    guards: dict[tuple[str, str], JsonObject] = {}
    times: Counter[tuple[str, str]] = Counter()
    fenced: dict[str, str] = {}
    for step in inspection.steps:
        if step.request is None:
            continue
        for note in notes_of(step.request):
            if note.step.startswith(("redact", "fence", "label", "withhold")):
                key = (note.step, note.reason)
                row = guards.setdefault(
                    key, {"pass": note.step, "reason": note.reason, "events": []}
                )
                times[key] += 1
                listed = row["events"]
                if isinstance(listed, list) and note.before.event not in listed:
                    listed.append(note.before.event)
                if note.step.startswith("fence"):
                    fenced[note.before.event] = show.text(
                        "\n".join(block_text(block) for block in note.before.blocks)
                    )
    for event in inspection.session.events:
        # what the runtime itself answers, such as a hand-over, comes from nobody outside
        foreign = [one for one in event.results if one.name not in (*RESERVED, *INTERNAL_CALLS)]
        if foreign:
            whole: Json = [result.response for result in foreign]
            masked = mask.value(whole) if mask is not None else whole
            fenced.setdefault(event.id, compact(masked))
    return {
        "guards": [{**row, "steps": times[key]} for key, row in guards.items()],
        "flows": list[Json](
            _flows(inspection.session.events, fenced, mask, _fixed_words(inspection))
        ),
        "calls": [_describe_call(one, show) for one in trace_calls(inspection.session.events)],
        "hidden": list[Json](inspection.rules.words),
    }


def _describe_call(call: "TracedCall", show: MaskedTexts) -> JsonObject:
    return {
        "agent": call.agent,
        "call": call.tool,
        "event": call.event,
        "paths": [show.text(one) for one in call.paths],
        "outcome": call.outcome,
        "why": show.text(call.why),
    }


# --- by labels

CallOutcome = Literal["made", "asked", "refused", "open"]


class TracedCall(msgspec.Struct, frozen=True):
    """A call that untrusted text had influence on: its sources, its ways, and what became of it."""

    event: str
    agent: str
    tool: str
    call_id: str
    args: JsonObject
    sources: tuple[str, ...]
    """Whose text had influence: `read_file.result`."""
    paths: tuple[str, ...]
    """The ways of the text: `read_file -> bot -> send_money.recipient`."""
    outcome: CallOutcome
    why: str = ""


def trace_calls(events: Sequence[Event]) -> list[TracedCall]:
    """The calls of a session that untrusted text had influence on, in the order of the log."""
    questions: dict[str, JsonObject] = {}
    results: dict[str, JsonObject] = {}
    for event in events:
        for call in event.calls:
            if call.name == CONFIRMATION:
                questions[(call.id or "").removeprefix(QUESTION)] = _untrusted_in(call)
        for result in event.results:
            results[result.id or ""] = result.response or {}
    return [
        _trace(event, label, call, questions, results)
        for event, label in zip(events, _labels_of(events), strict=True)
        for call in event.calls
        if call.name != CONFIRMATION and (label.taint or questions.get(call.id or ""))
    ]


def _labels_of(events: Sequence[Event]) -> Iterator[TrustLabel]:
    """The label of each event; where nobody kept any, of all that was said before it.

    An agent of another program, such as one that a proxy listens to, was sent that.
    """
    is_foreign = all(
        flow_in(event.custom_metadata) in (None, FlowNote(taint=("imported",))) for event in events
    )
    before = TRUSTED
    for event in events:
        # of what was imported, the tools are named that it came from
        bare = msgspec.structs.replace(event, custom_metadata=None) if is_foreign else event
        note = flow_of(bare)
        yield before | note.base if is_foreign and event.author != "user" else note.base
        before |= note.label


def _trace(
    event: Event,
    label: TrustLabel,
    call: FunctionCall,
    questions: dict[str, JsonObject],
    results: dict[str, JsonObject],
) -> TracedCall:
    call_id, asked = call.id or "", questions.get(call.id or "", {})
    sources = (*label.taint, *_texts(asked, "sources"))
    error = results.get(call_id, {}).get("error")
    refused = isinstance(error, str) and error.startswith(("refused: ", "the user refused"))
    outcome: CallOutcome = "refused" if refused else "made"
    if call_id not in results:
        outcome = "asked" if asked else "open"
    ways = tuple(_texts(asked, "paths")) or tuple(
        dict.fromkeys(  # several fields of one tool take the same way
            f"{source.partition('.')[0]} -> {event.author} -> {call.name}" for source in sources
        )
    )
    why = error if refused and isinstance(error, str) else ""
    return TracedCall(
        event.id, event.author, call.name or "", call_id, call.args or {},
        tuple(dict.fromkeys(sources)), ways, outcome, why,
    )  # fmt: skip


def _untrusted_in(question: FunctionCall) -> JsonObject:
    """What a question says about untrusted text."""
    confirmation = (question.args or {}).get("toolConfirmation")
    payload = confirmation.get("payload") if isinstance(confirmation, dict) else None
    untrusted = payload.get("untrusted") if isinstance(payload, dict) else None
    return untrusted if isinstance(untrusted, dict) else {}


def _texts(value: JsonObject, name: str) -> Iterator[str]:
    listed = value.get(name)
    yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, str))


# --- by words

_WORDS = re.compile(r"<[A-Z][A-Z0-9_]{1,40}_[0-9a-f]{10}>|[A-Za-z0-9_][\w./:@-]{5,}[A-Za-z0-9_]")
"""Words that hardly two texts have by chance, and placeholders."""


def _declared_words(root: Node) -> set[str]:
    """The words that the program's author wrote: who repeats them repeats no result."""
    texts: list[str] = []
    for node in every_node(root):
        texts += (node.name, node.description)
        if isinstance(node, Agent):
            texts += [text for text in (node.instruction,) if isinstance(text, str)]
            for tool in node.tools:
                texts += (tool.name, tool.description, compact(tool.parameters))
    return set(_WORDS.findall("\n".join(texts)))


def _fixed_words(inspection: Inspection) -> set[str]:
    """The words that nobody brought in: the author's, and those that every result of a tool has."""
    common: dict[str, set[str]] = {}
    times: Counter[str] = Counter()
    for event in inspection.session.events:
        for result in event.results:
            name, words = result.name or "", set(_WORDS.findall(_values_of(result.response or {})))
            common[name] = common[name] & words if times[name] else words
            times[name] += 1
    fixed = (words for name, words in common.items() if times[name] > 1)
    return _declared_words(inspection.root).union(*fixed)


def _flows(
    events: Sequence[Event], untrusted: dict[str, str], mask: Mask | None, declared: set[str]
) -> Iterator[JsonObject]:
    """Words of results and fenced texts that stand in the arguments of later calls."""
    known: dict[str, str] = {}
    for event in events:
        for call in event.calls:
            if call.name in INTERNAL_CALLS:  # the runtime asks with the arguments of a call
                continue
            args: Json = call.args or {}
            args = mask.value(args) if mask is not None else args
            words = sorted((set(_WORDS.findall(_values_of(args))) & known.keys()) - declared)
            if words:
                yield {
                    "agent": event.author,
                    "call": call.name,
                    "id": call.id,
                    "event": event.id,
                    "words": list[Json](words[:12]),
                    "from": list[Json](dict.fromkeys(known[word] for word in words)),
                }
        if event.id in untrusted:
            for word in set(_WORDS.findall(untrusted[event.id])):
                known.setdefault(word, event.id)


def _values_of(value: Json) -> str:
    """The values in some arguments, without their names: those stand in the tool's schema."""
    if isinstance(value, dict):
        return "\n".join(map(_values_of, value.values()))
    if isinstance(value, list):
        return "\n".join(map(_values_of, value))
    return value if isinstance(value, str) else compact(value)
