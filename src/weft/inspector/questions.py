"""Questions to a session that only the compiler can answer.

What if the policy were another, when did a sentence vanish, what is paid for and never used: each
is answered by compiling again, without a model.
"""

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Sequence

import msgspec

from weft.checker.check import check
from weft.collector import collector_paused
from weft.compiler.compiled import Compilation
from weft.compiler.costs import cost_of, rates_for
from weft.compiler.explain import notes_of, weigh_tools
from weft.compiler.report import block_text
from weft.compiler.tools import declared_policy
from weft.declare import Agent, C, Node, RunConfig
from weft.declare.agent import walk_tree
from weft.declare.visit import rebuild_program
from weft.diagnostics import Diagnostic
from weft.errors import UsageError
from weft.graph import graph_of, to_svg
from weft.inspector.comparing import set_side_by_side
from weft.inspector.inspection import CacheCount, Inspection, Variant
from weft.inspector.request import RequestView, declarations_of
from weft.ir import Block, Item, OpaqueBlock, TextBlock
from weft.replay.steps import AnsweredStep, homes_of, speaker_of
from weft.session import Event, Session
from weft.values import Json, JsonObject, compact

FORCED = "weft:forced"
"""The tag of an event that the inspector puts back."""


def what_if(inspection: Inspection, number: int, variant: Variant) -> JsonObject:
    """One step compiled otherwise: the request, and how it compares with the one that was sent."""
    with collector_paused():  # a look for garbage in all that is open takes longer than the answer
        return _what_if(inspection, number, variant)


def _what_if(inspection: Inspection, number: int, variant: Variant) -> JsonObject:
    there = _at(inspection, number, variant)
    request = there.request
    now = inspection.request(number)
    cost, was = cost_of(request), cost_of(now)
    agent = _agent(inspection.root, now.prompt.agent)
    return {
        "view": there.to_json(raw=False),
        "code": variant.code(agent, inspection.config),
        "tokens": request.tokens,
        "tokens_now": now.tokens,
        "cached": CacheCount.of(request).cached,
        "cached_now": CacheCount.of(now).cached,
        "prefix": request.stable_prefix.tokens,
        "prefix_now": now.stable_prefix.tokens,
        "cost": cost.total,
        "cost_now": was.total,
        "money": cost.rates.money,
        "money_now": was.rates.money,
        "remark": _unread_words(now, request) if inspection.recorded is not None else "",
    }


def _unread_words(now: Compilation, request: Compilation) -> str:
    """What to say of parts that only a provider reads, and that are not in a log."""
    before, after = (
        sum(isinstance(block, OpaqueBlock) for item in one.prompt.items for block in item.blocks)
        for one in (now, request)
    )
    if before <= after:
        return ""
    parts = "1 part" if before - after == 1 else f"{before - after:,} parts"
    return (
        f"{parts} of the request that was sent can only be read by its provider, such as a file"
        " that was uploaded there. No policy can keep what it cannot read, so it is missing here."
    )


def compare(inspection: Inspection, variant: Variant) -> JsonObject:
    """The whole session as it was and as it would be: two film strips, and what each costs."""
    other = inspection.under(variant)
    asked = dict.fromkeys(
        step.request.prompt.agent for step in inspection.steps if step.request is not None
    )
    agents = (_agent(inspection.root, name) for name in asked)
    return {
        "now": inspection.film(),
        "then": other.film(),
        "difference": set_side_by_side(inspection, other),
        "code": "\n".join(variant.code(agent, inspection.config) for agent in agents),
    }


def force_in(inspection: Inspection, number: int, events: Sequence[str]) -> JsonObject:
    """One step with events put back whole that were left out or reduced."""
    step = inspection.step(number)
    before = inspection.session.before(step.place)
    wanted = set(events)
    unknown = sorted(wanted - {event.id for event in before.events})
    if unknown:
        raise UsageError(
            f"before step {number} there is no event {unknown[0][:60]!r}",
            where="force in",
            hint="name events by their ids, as the view of what was left out lists them",
        )
    groups = [_partners(before.events, event) for event in events]
    forced_in = set[str]().union(*groups)
    tagged = [
        _tag_forced(event) if event.id in forced_in else event
        for event in inspection.session.events
    ]
    session = Session(
        before.id,
        app_name=before.app_name,
        user_id=before.user_id,
        state=inspection.session.initial,
        events=tagged,
    )
    config = inspection.config
    root = rebuild_program(inspection.root, lambda agent: _with_forced(agent, config))
    forced = inspection.with_forced(session, root, forced_in)
    forced.shared.declarations = declarations_of(inspection)
    forced.rebuild_only(step)
    view, now = RequestView(forced, number), inspection.request(number)
    for group in groups:
        _require_sent(view, group)
    cost, was = cost_of(view.request), cost_of(now)
    agent = _with_forced(_agent(inspection.root, now.prompt.agent), config)
    return {
        "view": view.to_json(raw=False),
        "code": f"{agent.name}.sees({agent.context})",
        "tokens": view.request.tokens,
        "tokens_now": now.tokens,
        "cost": cost.total,
        "cost_now": was.total,
        "money": cost.rates.money,
        "money_now": was.rates.money,
    }


def _partners(events: Sequence[Event], wanted: str) -> set[str]:
    """An event, and those with the other side of its calls: they are sent together."""
    sides = {
        event.id: {one.id for one in event.calls} | {one.id for one in event.results}
        for event in events
    }
    mine = sides[wanted] - {None}
    return {wanted, *(event for event, ids in sides.items() if not ids.isdisjoint(mine))}


def _require_sent(view: RequestView, events: Collection[str]) -> None:
    """Refuse to show a request as if it held events that no policy can put into it."""
    if any(row.origin.kind == "event" and row.origin.name in events for row in view.report.sent):
        return
    rows = (row for row in view.report.left_out if row.origin.name in events)
    why = next((f": {row.step} leaves it out, because {row.reason}" for row in rows), "")
    raise UsageError(
        f"no policy puts this event into the request{why}",
        where="force in",
        hint="force in what a policy left out",
    )


def bisect(inspection: Inspection, text: str) -> JsonObject:
    """In which steps a text was in view, and where it vanished from an agent's requests.

    A request is compared with the one before it of the same agent, in the same branch and call:
    what another agent never saw has not vanished.
    """
    seen = _TextSearch(text)
    requests = [step.request for step in inspection.steps if step.request is not None]
    is_loose = not any(map(seen.in_request, requests)) and _find_event(inspection, seen) is None
    if is_loose:
        # who copied it from the page has it without the signs of Markdown
        loose = _TextSearch(text, is_loose=True)
        if _find_event(inspection, loose) is not None:
            seen = loose
        else:
            is_loose = False
    in_view: dict[tuple[str, str | None, str | None], bool] = {}
    rows: list[tuple[AnsweredStep, bool]] = []
    vanished: list[Json] = []
    for step in inspection.steps:
        here = step.request is not None and seen.in_request(step.request)
        rows.append((step, here))
        if step.request is None:
            continue
        speaker = speaker_of(step.event)
        if in_view.get(speaker) and not here:
            vanished.append(
                {
                    "number": step.number,
                    "agent": step.event.author,
                    "because": list[Json](_reasons(inspection, step.request, seen)),
                }
            )
        in_view[speaker] = here
    return {
        "text": _mask_text(inspection, text),
        "loosely": is_loose,
        "steps": [
            {"number": step.number, "agent": step.event.author, "in_view": here}
            for step, here in rows
        ],
        "born": _find_event(inspection, seen),
        "vanished": vanished,
    }


def _find_event(inspection: Inspection, seen: "_TextSearch") -> int | None:
    """The first event that holds a text."""
    events = enumerate(inspection.session.events)
    return next((index for index, event in events if seen.in_event(event)), None)


def dead_weight(inspection: Inspection) -> JsonObject:
    """Tools that were offered and never called, and state that nothing ever showed a model."""
    called = {
        (event.author, call.name) for event in inspection.session.events for call in event.calls
    }
    tools: dict[tuple[str, str], JsonObject] = {}
    seen = _StateSearch()
    for step in inspection.steps:
        request = step.request
        if request is None:
            continue
        head = request.scale.head(request.lowered())
        rates = rates_for(request.prompt.model, tokens=request.tokens)
        read = request.cached.cached > sum(head.tools)
        for tool, tokens in weigh_tools(request):
            key = (request.prompt.agent, tool.name)
            row = tools.setdefault(
                key,
                {
                    "agent": key[0],
                    "tool": key[1],
                    "called": key in called,
                    "tokens": tokens,
                    "requests": 0,
                    "cost": 0.0,
                    "money": rates.money,
                },
            )
            row["requests"] = _number(row["requests"]) + 1
            if rates.money and not row["money"]:  # dollars are not added to fresh tokens
                row |= {"money": True, "cost": 0.0}
            if rates.money == row["money"]:
                row["cost"] = _number(row["cost"]) + tokens * (rates.read if read else rates.fresh)
        seen.add(request)
    written: dict[str, Json] = {}
    for event in inspection.session.events:
        written.update(event.actions.state_delta)
    unread: list[Json] = [
        {"key": _mask_text(inspection, key), "size": len(compact(value))}
        for key, value in written.items()
        if key not in seen.keys and value is not None
    ]
    rows = sorted(tools.values(), key=lambda row: (bool(row["called"]), -_number(row["cost"])))
    return {"tools": list[Json](rows), "state": unread}


def picture(inspection: Inspection) -> JsonObject:
    """The graph as SVG, the problems of the program, and who has spoken how often."""
    counts: dict[str, int] = {}
    for step in inspection.steps:
        author = _mask_text(inspection, step.event.author)
        counts[author] = counts.get(author, 0) + 1
    state = inspection.session.state
    # the agents of a recording are made up from its log: what is wrong with them is not its fault
    is_known = inspection.recorded is None
    checks = check(inspection.root, inputs=_given_keys(inspection.session)) if is_known else []
    return {
        "svg": _mask_svg(inspection, checks),
        "checks": [
            {
                "code": one.code,
                "severity": str(one.severity),
                "message": one.message,
                "where": str(one.origin),
                "hint": one.hint,
            }
            for one in checks
        ],
        "steps": dict[str, Json](counts),
        "state": state if inspection.mask is None else inspection.mask.state(state),
    }


def _given_keys(session: Session) -> set[str]:
    """The state keys that the newest run found, and those that no agent wrote.

    What an agent of the run writes is the program's own: an agent before it that reads the key
    does so too early.
    """
    events = session.events
    newest = events.tip.invocation_id if events.tip is not None else ""
    written = {key for event in events for key in event.actions.state_delta}
    # another session of the user may have written some
    keys = {key for key in session.state if key not in written} | session.initial.keys()
    for event in events:
        for key, value in event.actions.state_delta.items():
            if event.invocation_id != newest or event.author == "user":
                keys = keys - {key} if value is None else keys | {key}
    return keys


def as_test(inspection: Inspection, number: int, variant: Variant, *, target: str) -> str:
    """A test that compiles this step again and holds its size, to be saved."""
    view = _at(inspection, number, variant)
    module, _, name = target.partition(":")
    # the words become code in a file: nothing else may get into it
    if not all(word.isidentifier() for word in (*(module or "m").split("."), name or "m")):
        raise UsageError(
            f"{target[:60]!r} names no agent of a module",
            where="target",
            hint="write pkg.module:agent",
        )
    root = name or (inspection.root.name if inspection.root.name.isidentifier() else "program")
    changes = ", ".join(f"{key}={value!r}" for key, value in variant._asdict().items() if value)
    identifier = re.sub(r"\W", "_", inspection.session.id)
    return "\n".join(
        (
            "from pathlib import Path",
            "",
            "from weft import Session",
            "from weft.inspector import Inspection, Variant",
            f"from {module or 'my_module'} import {root}",
            "",
            "",
            f"def test_step_{number}_of_{identifier}():",
            "    # written by: weft sessions export, or session.to_json()",
            f"    data = Path({json.dumps(inspection.session.id + '.json')}).read_bytes()",
            f"    inspection = Inspection({root}, Session.from_json(data))",
            f"    request = inspection.under(Variant({changes})).request({number})",
            f"    assert request.tokens <= {view.request.tokens}",
            f"    assert request.hash == {view.request.hash!r}",
            "",
        )
    )


def _at(inspection: Inspection, number: int, variant: Variant) -> RequestView:
    """One step under a variant. Only it and the request before it are compiled."""
    declarations_of(inspection)  # the sources are read once for all variants
    alone = inspection.alone(number, variant)
    known = alone.shared.last_view
    if isinstance(known, RequestView) and known.number == number:
        return known  # who goes to and fro between variants asks again
    view = alone.shared.last_view = RequestView(alone, number)
    return view


def _agent(root: Node, name: str) -> Agent:
    """The agent of that name in a program."""
    home = homes_of(root)[name]
    return next(
        member for member, _ in walk_tree(home) if isinstance(member, Agent) and member.name == name
    )


def _with_forced(agent: Agent, config: RunConfig) -> Agent:
    policy = declared_policy(agent, config)
    limit = policy.limit
    united = dataclasses.replace(policy, limit=None) + C.select(tag=FORCED)
    return agent.sees(dataclasses.replace(united, limit=limit))


def _tag_forced(event: Event) -> Event:
    notes = event.provenance
    tagged = msgspec.structs.replace(notes, tags=[*(notes.tags or ()), FORCED])
    return msgspec.structs.replace(event, custom_metadata=tagged.onto(event.custom_metadata))


class _TextSearch:
    """Whether requests hold a text; turns that requests share are searched once."""

    def __init__(self, text: str, *, is_loose: bool = False) -> None:
        self._is_loose = is_loose
        self._text = self._read(text)
        self._spelled = self._read(compact(text)[1:-1])
        self._turns: dict[int, tuple[object, bool]] = {}

    def in_request(self, request: Compilation) -> bool:
        """Whether the text stands anywhere in the request."""
        lowered = request.lowered()
        head = {key: value for key, value in lowered.wire.items() if key != lowered.turns}
        if self._spelled in self._read(compact(head)) or self.is_in(request.system):
            return True
        return any(self._in_turn(entry, entry.wire) for entry in (*lowered.lead, *lowered.entries))

    def _in_turn(self, entry: object, wire: Json) -> bool:
        known = self._turns.get(id(entry))
        if known is None:
            # the entry is kept, so that its id is not given to another
            known = self._turns[id(entry)] = (entry, self._spelled in self._read(compact(wire)))
        return known[1]

    def in_event(self, event: Event) -> bool:
        """Whether the text stands anywhere in the event."""
        return self.is_in(event.text) or self._spelled in self._read(
            compact(msgspec.to_builtins(event.content))
        )

    def is_in(self, text: str) -> bool:
        """Whether the text stands in another one."""
        return self._text in self._read(text)

    def _read(self, text: str) -> str:
        return _SIGNS.sub(" ", text) if self._is_loose else text


_SIGNS = re.compile(r"(?:\\n|[*_`#|>~\s])+")
"""The signs of Markdown, and what stands between words."""


def _reasons(
    inspection: Inspection, request: Compilation, seen: _TextSearch
) -> Iterator[JsonObject]:
    """The passes that dropped or changed an item which holds the text."""
    presentable, mask = request.presentable, inspection.request_mask
    for note in notes_of(request):
        after = _text(note.after) if note.after is not None else ""
        if seen.is_in(_text(note.before)) and not seen.is_in(after):
            before = presentable(note.before) if presentable is not None else note.before
            words = _text(before)
            yield {
                "pass": note.step,
                "reason": note.reason,
                "event": note.before.event,
                "text": (mask.text(words) if mask is not None else words)[:2000],
            }


class _StateSearch:
    """The state keys that stand in requests; blocks that requests share are looked at once."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._items: dict[int, Item] = {}

    def add(self, request: Compilation) -> None:
        """Take in one request more."""
        self._look(request.prompt.system)
        for item in request.prompt.items:
            if id(item) not in self._items:
                self._items[id(item)] = item
                self._look(item.blocks)

    def _look(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            spans = block.spans if isinstance(block, TextBlock) else ()
            for origin in (block.origin, *(span.origin for span in spans)):
                if origin.kind == "state":
                    self.keys.add(origin.name)


def _mask_text(inspection: Inspection, text: str) -> str:
    """A text as it may be shown."""
    return inspection.mask.text(text) if inspection.mask is not None else text


def _mask_svg(inspection: Inspection, checks: Sequence[Diagnostic]) -> str:
    """The graph as SVG, with its words as they may be shown."""
    from html import escape, unescape

    graph = graph_of(inspection.root, inputs=_given_keys(inspection.session), problems=checks)
    # boxes are marked; the list of what is wrong stands next to the drawing, once
    svg = to_svg(dataclasses.replace(graph, problems=()))
    if inspection.mask is None:
        return svg
    mask_text = inspection.mask.text
    return re.sub(r"(?<=>)[^<>]+(?=<)", lambda words: escape(mask_text(unescape(words[0]))), svg)


def _text(item: Item) -> str:
    return "\n".join(block_text(block) for block in item.blocks)


def _number(value: Json) -> float:
    return value if isinstance(value, int | float) else 0
