"""Two sessions side by side, and one run again with something changed.

Two sides are two sessions, or one session as it was and as it would be under another policy or
model. They part at the first block of a request that differs. To run a session again means to ask
models: tools do not run, they answer what was recorded, up to the first call that was not.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.compiler.compiled import Compilation
from weft.compiler.report import block_kind, block_text
from weft.declare import Agent, Flow, Node, RunConfig, ToolContext
from weft.declare.tool import RESERVED, Tool
from weft.declare.visit import rebuild_program
from weft.errors import UsageError, WeftError
from weft.inspector.inspection import Inspection, Variant
from weft.inspector.words import MaskedTexts, label_calls
from weft.ir.block import RECALL
from weft.replay.evidence import KeptEvidence, Texts, View, uses_of
from weft.replay.steps import homes_of
from weft.runtime import Runner
from weft.session import Event, Session
from weft.values import Json, JsonObject, canonical, compact

MOST_ANSWERS = 200
"""How many answers are listed side by side."""

_NEAR = 300
"""Characters that are shown before and after the first difference of two blocks."""


def set_side_by_side(one: Inspection, other: Inspection) -> JsonObject:
    """Two sides: what each took, what it kept in view, where they part, and their answers."""
    return {
        "sides": [_describe_side(one), _describe_side(other)],
        "parting": _find_parting(one, other),
        "answers": [*_pair_answers(one, other)],
    }


def _describe_side(inspection: Inspection) -> JsonObject:
    models = dict.fromkeys(
        step.request.prompt.model for step in inspection.steps if step.request is not None
    )
    known = (inspection.timings.get(step.event.id) for step in inspection.steps)
    seconds = [one.seconds for one in known if one is not None and one.seconds is not None]
    return {
        **inspection.summary(),
        "models": list[Json](models),
        "seconds": sum(seconds) if seconds else None,
        "evidence": measure_evidence(inspection)._asdict(),
    }


class Evidence(NamedTuple):
    """What answers used of what was said before: how much was in view, or one recall away."""

    used: int = 0
    present: int = 0
    recallable: int = 0


def measure_evidence(inspection: Inspection) -> Evidence:
    """How much of what the answers used was in the requests, as they are compiled here."""
    events = inspection.session.events
    uses, texts, records = uses_of(events), Texts(), KeptEvidence(events)
    used = present = recallable = 0
    for step in inspection.steps:
        strings = uses.by_event.get(step.place, ())
        if step.request is None or not strings:
            continue
        view = View(step.request, texts, records)
        for string in strings:
            is_seen = view.has(string)
            used, present = used + 1, present + is_seen
            recallable += not is_seen and view.handle_of(string) is not None
    return Evidence(used, present, recallable)


class _ComparedBlock(NamedTuple):
    """A block as it is compared: who says it, what it is, its text."""

    role: str
    kind: str
    text: str


def _blocks_of(request: Compilation) -> list[_ComparedBlock]:
    """The blocks of a request in the order in which it is read: tools, system, conversation."""
    tools = [
        _ComparedBlock("", "tool", compact([tool.name, tool.description, tool.parameters]))
        for tool in request.prompt.tools
    ]
    blocks = (
        *request.prompt.system,
        *(one for item in request.prompt.items for one in item.blocks),
    )
    return tools + [
        _ComparedBlock(block.role, block_kind(block), block_text(block)) for block in blocks
    ]


def _find_parting(one: Inspection, other: Inspection) -> JsonObject | None:
    """The first block in which the requests of two sides differ; None where none does."""
    for before, right in zip(one.steps, other.steps, strict=False):
        if before.request is None or right.request is None:
            continue
        if before.request.hash == right.request.hash:
            continue
        old, new = _blocks_of(before.request), _blocks_of(right.request)
        if old == new:
            continue  # only the model or an option is another
        both = zip(old, new, strict=False)
        least = min(len(old), len(new))
        at = next((at for at, (was, now) in enumerate(both) if was != now), least)
        was, now = (_text_at(blocks, at) for blocks in (old, new))
        start = max(0, _first_difference(was, now) - _NEAR)
        sides: list[Json] = [
            MaskedTexts(side.mask).text(text[start : start + 2 * _NEAR])
            for side, text in ((one, was), (other, now))
        ]
        block = (old + new)[at] if at < len(old) else new[at]
        words = f"{block.role} {block.kind}".strip()
        return {"step": before.number, "block": at + 1, "kind": words, "texts": sides}
    return None


def _text_at(blocks: Sequence[_ComparedBlock], at: int) -> str:
    return blocks[at].text if at < len(blocks) else ""


def _first_difference(old: str, new: str) -> int:
    both = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(both) if a != b), min(len(old), len(new)))


def _pair_answers(one: Inspection, other: Inspection) -> Iterator[Json]:
    """The answers of two sides, by their numbers; of one log under two policies, nothing."""
    if one.session is other.session:
        return
    for number in range(1, min(MOST_ANSWERS, max(len(one.steps), len(other.steps))) + 1):
        rows = [
            _answer_row(side.steps[number - 1].event, MaskedTexts(side.mask))
            if number <= len(side.steps)
            else None
            for side in (one, other)
        ]
        yield {"number": number, "rows": list[Json](rows), "same": _is_alike(*rows)}


def _answer_row(event: Event, show: MaskedTexts) -> JsonObject:
    return {
        "agent": show.text(event.author),
        "text": show.text(event.text, 600),
        "error": show.text(event.error_code or ""),
        "calls": label_calls(event, show)["calls"],
    }


def _is_alike(one: JsonObject | None, other: JsonObject | None) -> bool:
    if one is None or other is None:
        return False
    named = [
        [(call["name"], call["text"]) for call in calls if isinstance(call, dict)]
        for calls in (one["calls"], other["calls"])
        if isinstance(calls, list)
    ]
    return (one["agent"], one["text"]) == (other["agent"], other["text"]) and named[0] == named[1]


class ChangedRun(NamedTuple):
    """What is changed before a session is run again: an agent's instruction, policy, model."""

    agent: str = ""
    instruction: str = ""
    policy: str = ""
    model: str = ""


async def run_again(
    root: Node, session: Session, change: ChangedRun, *, config: RunConfig, most: int = 60
) -> tuple[Node, Session, JsonObject | None]:
    """Run a session's messages again with something changed; tools answer what was recorded.

    Returns the changed program, the new session, and the first call that nobody recorded, where
    it ended; None where every message was answered. At most `most` calls of models are made.
    """
    variant = Variant(policy=change.policy, model=change.model)
    changed = _with_instruction(variant.laid_over(root, config), change)
    changed = rebuild_program(changed, _without_questions)
    recorded = RecordedResults(session, most)
    plugins = (recorded,)
    settings = msgspec.structs.replace(variant.config(config), budget=None)
    assert isinstance(changed, Agent | Flow)
    runner = Runner(changed, app_name=session.app_name, plugins=plugins, config=settings)
    state: JsonObject | None = {
        key: value for key, value in session.initial.items() if not key.startswith("temp:")
    }
    for event in session.events:
        if event.author != "user" or event.content is None or event.results:
            continue
        whole_state = {**(state or {}), **event.actions.state_delta}
        try:
            await runner.run(
                event.content,
                user_id=session.user_id,
                session_id=session.id,
                state={key: value for key, value in whole_state.items() if value is not None}
                or None,
            )
        except _Divergence:
            break
        state = None
    again = await runner.session(user_id=session.user_id, session_id=session.id)
    return changed, again, recorded.parted


def _with_instruction(root: Node, change: ChangedRun) -> Node:
    if not change.instruction:
        return root
    homes = homes_of(root)
    name = change.agent or next(iter(homes), "")
    if name not in homes:
        raise UsageError(
            f"there is no agent {name[:60]!r}", where="agent", hint=f"one of: {', '.join(homes)}"
        )
    return rebuild_program(
        root,
        lambda agent: (
            dataclasses.replace(agent, instruction=change.instruction)
            if agent.name == name
            else agent
        ),
    )


def _without_questions(agent: Agent) -> Agent:
    """The agent with tools that ask nobody: what was recorded was allowed."""
    tools = tuple(
        msgspec.structs.replace(tool, confirm=False, long_running=False) for tool in agent.tools
    )
    return dataclasses.replace(agent, tools=tools)


class _Divergence(WeftError):
    """The run asks for a result that was not recorded, or has made all calls that it may."""


class RecordedResults:
    """Answers calls with the results of a log: each once, by the tool's name and arguments."""

    def __init__(self, session: Session, most: int) -> None:
        self.parted: JsonObject | None = None
        """The call that was not recorded."""
        self._steps_left = most
        self._results: dict[tuple[str, bytes], list[JsonObject]] = {}
        asked = {call.id: call for event in session.events for call in event.calls if call.id}
        for event in session.events:
            for result in event.results:
                call = asked.get(result.id or "")
                if call is not None:
                    key = (call.name or "", canonical(call.args or {}))
                    self._results.setdefault(key, []).append(result.response or {})

    def before_model(self, context: object, prompt: object) -> None:
        """Count the calls of models."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise _Divergence("the session made more calls than a second run may", where="rerun")

    def before_tool(self, context: ToolContext, tool: Tool, args: JsonObject) -> JsonObject | None:
        """The recorded result of a call; agents that run as tools run."""
        if tool.agent is not None or tool.name in RESERVED or tool.name == RECALL:
            return None
        results = self._results.get((tool.name, canonical(args)))
        if not results:
            known = [key[1].decode() for key in self._results if key[0] == tool.name]
            self.parted = {
                "agent": context.agent_name,
                "call": tool.name,
                "args": compact(args),
                "recorded": list[Json](known[:5]),
            }
            raise _Divergence(f"`{tool.name}` was not called like this", where="rerun")
        return results.pop(0) if len(results) > 1 else results[0]
