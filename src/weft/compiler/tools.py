"""The tools that a request offers besides those its agent declares: recall, transfer, toolsets.

`recall` gets back what a handle stands for. It stands before everything else in a request, so a
late declaration makes the provider read all of it again. Where the policy in force can make handles
it is offered from the first request on; under `C.auto()` only if that is cheaper than to wait for
the first handle.

Toolsets are asked by the runtime, which gives the agent their tools. Whoever rebuilds a request
from the log gives the agent the declarations that the log has, which is all that a request is made
of.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import msgspec

from weft.content import Part
from weft.declare import Agent, Effect, Node, Policy, RunConfig, Tool
from weft.declare.agent import EVERYTHING
from weft.declare.policy import Stage
from weft.declare.policy_parts import Auto, Compact, Label
from weft.declare.provider_tools import HostedTool
from weft.diagnostics import Origin
from weft.errors import DeclarationError
from weft.ir import ToolDecl
from weft.ir.block import RECALL
from weft.media import SCHEME, data_at
from weft.session import Event
from weft.session.branches import branches_of
from weft.session.provenance import OfferedTools
from weft.session.strand import Strand
from weft.values import Json, JsonObject, canonical, handle_of

DEFAULT = RunConfig()


def policy_of(agent: Agent, config: RunConfig = DEFAULT) -> Policy:
    """What the agent sees in this run: its own policy, else the run's.

    Where a tool asks that its results become handles, so it is, whatever the policy.
    """
    policy = declared_policy(agent, config)
    if not any(tool.compact for tool in agent.tools) or all(map(_compacts, policy.stages)):
        return policy
    return replace(policy, stages=tuple(map(_compacting, policy.stages)))


def declared_policy(agent: Agent, config: RunConfig) -> Policy:
    """The same as it was written, whatever tools ask for."""
    return agent.context or config.context or EVERYTHING


def _compacts(stage: Stage) -> bool:
    return isinstance(stage.selector, Auto) or any(isinstance(s, Compact) for s in stage.steps)


def _compacting(stage: Stage) -> Stage:
    if _compacts(stage):
        return stage
    only_tools = Compact(results=None, texts=None, media=None)
    return msgspec.structs.replace(stage, steps=(only_tools, *stage.steps))


def recall_tool(agent: Agent) -> ToolDecl:
    """The one tool; a tool of the agent's own that has its name is refused."""
    if any(tool.name == RECALL for tool in agent.tools):
        raise DeclarationError(
            f"the tool name `{RECALL}` is Weft's own while large values become handles",
            where=f"{agent.name}.tools",
            hint='rename the tool: @tool(name="remember"), or leave out .compact()',
        )
    return ToolDecl(
        name=RECALL,
        description="Get back what a handle stands for, or part of it.",
        parameters={
            "type": "object",
            "properties": {
                "handle": {"type": "string"},
                "lines": {"type": "string"},
                "query": {"type": "string"},
                "field": {"type": "string"},
                "page": {"type": "integer"},
            },
            "required": ["handle"],
        },
        origin=Origin("field", "context", agent.name),
    )


class Held(NamedTuple):
    """A value and where it came from: a tool, a state key, an artifact, or somebody's words.

    `media` is the part, where the value is none that can be read. `labels` were noted with it.
    `position` is that of its event in the log, -1 where it is of none.
    """

    handle: str
    value: Json
    branch: str
    tool: str = ""
    key: str = ""
    media: Part | None = None
    labels: tuple[str, ...] = ()
    file: str = ""
    position: int = -1
    call: str = ""
    """The id of the call whose arguments or result it is."""


def standing_values(
    state: Mapping[str, Json], artifacts: Mapping[str, str] | None = None
) -> Iterator[Held]:
    """What the state and the artifacts hold, which no event of the log need have."""
    for key, value in state.items():
        if value is not None:
            yield Held(handle_of(value), value, "", key=key)
    for name, text in (artifacts or {}).items():
        yield Held(handle_of(text), text, "", file=name)


def values_of(log: Strand[Event]) -> Sequence[Held]:
    """All values that a handle may stand for, in log order; worked out once an event."""
    return log.derive(_Recallable).after(log.tail).values


class _Recallable(msgspec.Struct, frozen=True):
    """The values of a log's first `length` events."""

    length: int = 0
    values: tuple[Held, ...] = ()

    def after(self, events: Sequence[Event]) -> "_Recallable":
        """The values once these events follow."""
        fresh = tuple(
            one._replace(position=position)
            for position, event in enumerate(events, self.length)
            for one in _values(event)
        )
        return _Recallable(self.length + len(events), self.values + fresh)


def is_seen(one: Held, log: Strand[Event], branch: str) -> bool:
    """Whether a value is of no branch, of this one, of one above it, or of one that has joined."""
    if not one.branch or branch == one.branch or branch.startswith(f"{one.branch}."):
        return True
    if one.position < 0:
        return False
    with log.lock:
        branches = branches_of(log)
    return branches.sees(branch, one.position, log[one.position])


def is_withheld(one: Held, labels: Iterable[Label], cleared: Iterable[str]) -> bool:
    """Whether a value carries a label that the agent is not cleared for."""
    names = {*one.labels}
    for label in labels:
        if (one.tool and one.tool in label.tools) or (one.key and one.key in label.keys):
            names.add(label.name)
    return not names <= {*cleared}


def _values(event: Event) -> Iterator[Held]:
    branch = event.branch or ""
    labels = tuple(event.provenance.labels or ())
    for part in (event.content.parts or ()) if event.content is not None else ():
        result = part.function_response
        if result is not None:
            name = result.name or ""
            # what recall gave is held under the handle it was asked by
            if name == RECALL:
                continue
            response: JsonObject = result.response or {}
            id = result.id or ""
            yield Held(handle_of(response), response, branch, tool=name, labels=labels, call=id)
            for raw in result.parts or ():
                yield from _media(msgspec.convert(raw, Part), branch, name, labels)
        elif part.text and not part.thought:
            yield Held(handle_of(part.text), part.text, branch, labels=labels)
        elif part.function_call is not None:  # others are told of it, in short where it is long
            args, id = part.function_call.args or {}, part.function_call.id or ""
            yield Held(handle_of(args), args, branch, labels=labels, call=id)
        elif part.executable_code is not None or part.code_execution_result is not None:
            code, ran = part.executable_code, part.code_execution_result
            text = code.code if code is not None else ran.output if ran is not None else None
            if text:
                yield Held(handle_of(text), text, branch, labels=labels)
        else:
            yield from _media(part, branch, "", labels)
    for key, value in event.actions.state_delta.items():
        if value is not None:
            yield Held(handle_of(value), value, branch, key=key, labels=labels)


def _media(part: Part, branch: str, tool: str, labels: tuple[str, ...]) -> Iterator[Held]:
    blob, file = part.inline_data, part.file_data
    data = blob.data if blob is not None else None
    if blob is None and file is not None and (file.file_uri or "").startswith(SCHEME):
        data = data_at(file.file_uri or "")  # a large file is kept outside the log
    if data:
        data = data.replace("-", "+").replace("_", "/")  # as blocks have it
        yield Held(handle_of(data), None, branch, tool=tool, media=part, labels=labels)


# --- transfer to other agents

TRANSFER = "transfer_to_agent"

_GUIDANCE = "You can delegate tasks to the following agents using the transfer_to_agent tool:"


def transfer_targets(path: tuple[Agent, ...]) -> tuple[Node, ...]:
    """Children, the parent, then peers, as far as the agent allows; `path` starts at the root."""
    agent = path[-1]
    targets: list[Node] = list(agent.sub_agents)
    if len(path) > 1:
        parent = path[-2]
        if not agent.disallow_transfer_to_parent:
            targets.append(parent)
        if not agent.disallow_transfer_to_peers:
            # an agent that hands over to itself would go on for ever
            targets += [peer for peer in parent.sub_agents if peer.name != agent.name]
    return tuple(targets)


def transfer_text(targets: tuple[Node, ...]) -> str:
    """One line of guidance and one line a target."""
    if not targets:
        return ""
    return "\n".join((_GUIDANCE, *map(_line, targets)))


def _line(target: Node) -> str:
    """The target in one line, however its description is broken."""
    about = " ".join(target.description.split())
    return f"- {target.name}: {about}" if about else f"- {target.name}"


def transfer_tool(agent: Agent, targets: tuple[Node, ...]) -> ToolDecl:
    """The one tool, its argument an enum in stable order."""
    return ToolDecl(
        name=TRANSFER,
        description="Hand the conversation over to another agent.",
        parameters={
            "type": "object",
            "properties": {
                "agent_name": {
                    "type": "string",
                    "enum": [target.name for target in targets],
                    "description": "Name of the agent to hand over to.",
                }
            },
            "required": ["agent_name"],
        },
        origin=Origin("field", "sub_agents", agent.name),
    )


# --- what toolsets answered


def declared_by(tools: Iterable[Tool]) -> list[JsonObject]:
    """The declarations of tools as the log keeps them: all that decides about a request."""
    declarations: list[JsonObject] = []
    for tool in tools:
        declaration: JsonObject = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        if tool.compact is not None:
            declaration["compact"] = tool.compact
        if tool.labels:
            declaration["labels"] = [*tool.labels]
        if tool.writes:
            declaration["writes"] = [*tool.writes]
        if tool.hosted is not None:
            declaration["hosted"] = msgspec.json.decode(msgspec.json.encode(tool.hosted))
        if tool.extra:
            declaration["extra"] = {**tool.extra}
        if tool.runs_code:
            declaration["runs_code"] = True
            declaration["functions"] = None if tool.functions is None else [*tool.functions]
        if tool.source:
            declaration["source"] = [*tool.source]
            declaration["effect"] = tool.effect
        flags = {
            "untrusted": tool.untrusted, "deferred": tool.deferred, "dispatches": tool.dispatches
        }  # fmt: skip
        declaration.update({flag: True for flag, is_set in flags.items() if is_set})
        declarations.append(declaration)
    return declarations


def offered_in(events: Strand[Event], agent: str) -> OfferedTools | None:
    """What the toolsets of an agent answered last, by a log."""
    answers = events.memo[_Answers]
    known = answers.known
    if known.read > events.settled:  # an older snapshot
        known = _Answer(0, {})
    if known.read < events.settled:
        offered = dict(known.offered)
        for index in range(known.read, events.settled):
            event = events[index]
            one = event.provenance.offered if event.is_noted else None
            if one is not None and not one.as_before:
                offered[one.agent] = one
        known = answers.known = _Answer(events.settled, offered)
    return known.offered.get(agent)


class _Answer(msgspec.Struct, frozen=True):
    """By agent: what its toolsets answered last, as of the first `read` events of a log."""

    read: int
    offered: dict[str, OfferedTools]


class _Answers:
    """The newest answers of a log; put there in one piece, as threads may look at it at once."""

    def __init__(self) -> None:
        self.known = _Answer(0, {})


class _EquippedRoot(msgspec.Struct, frozen=True):
    """A root whose agent has the tools that its toolsets answered."""

    tools: tuple[Tool, ...]
    root: Agent


def equip(root: Agent, agent: str, tools: tuple[Tool, ...], *, source: str = "run") -> Agent:
    """The root in which the agent of that name has these tools, besides its own.

    The last one from each source is kept with the root: toolsets mostly answer the same.
    """
    last = root.memo.of((_EquippedRoot, agent, source))
    # the same object again, as plans are kept by identity
    if last is not None and last.tools == tools:
        return last.root
    equipped = cast("Agent", _equip_node(root, agent, tools))
    root.memo.keep(_EquippedRoot(tools, equipped), agent, source)
    return equipped


def _equip_node(node: Node, name: str, tools: tuple[Tool, ...]) -> Node:
    if not isinstance(node, Agent):
        return node
    children = tuple(_equip_node(child, name, tools) for child in node.sub_agents)
    if node.name == name:
        # no sources any more: they have answered
        return replace(node, sub_agents=children, tools=(*node.tools, *tools), tool_sources=())
    if all(new is old for new, old in zip(children, node.sub_agents, strict=True)):
        return node
    return replace(node, sub_agents=children)


class _Declaration(msgspec.Struct, frozen=True):
    """A tool as the log has it."""

    name: str
    description: str
    parameters: JsonObject
    compact: bool | int | None = None
    labels: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hosted: HostedTool | None = None
    extra: dict[str, JsonObject] = {}
    runs_code: bool = False
    functions: tuple[str, ...] | None = None
    source: tuple[str, ...] = ()
    untrusted: bool = False
    deferred: bool = False
    dispatches: bool = False
    effect: Effect = "idempotent"


def tools_in(offered: OfferedTools) -> tuple[Tool, ...]:
    """The tools that the log tells of; nobody can call them."""
    declarations = msgspec.convert(offered.tools, list[_Declaration])
    return tuple(
        Tool(
            name=one.name,
            description=one.description,
            parameters=one.parameters,
            compact=one.compact,
            labels=one.labels,
            writes=one.writes,
            hosted=one.hosted,
            extra=one.extra,
            runs_code=one.runs_code,
            functions=one.functions,
            source=one.source,
            untrusted=one.untrusted,
            deferred=one.deferred,
            dispatches=one.dispatches,
            # a log has no functions: whoever restores the tool gives it its probe again
            effect="unsafe" if one.effect == "probe" else one.effect,
        )
        for one in declarations
    )


def changes_between(before: Sequence[JsonObject], now: Sequence[JsonObject]) -> list[str]:
    """What is wrong with what toolsets answer now, if they answered something else before.

    More tools than before do not matter: the run goes on with those that it began with.
    """
    current = {str(one["name"]): one for one in now}
    problems: list[str] = []
    for one in before:
        name = str(one["name"])
        if name not in current:
            problems.append(f"`{name}` is gone")
        elif canonical(current[name]) != canonical(one):
            parts = [part for part in one if current[name].get(part) != one[part]]
            problems.append(f"`{name}` has another {' and '.join(parts) or 'declaration'}")
    return problems
