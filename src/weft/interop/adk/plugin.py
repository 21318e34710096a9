"""A plugin that compiles the requests of a google-adk Runner with Weft.

    Runner(app_name="trips", agent=root_agent, session_service=sessions, plugins=[WeftPlugin()])

Each request is compiled from the session that it was made of: a value that the instruction
carries is not repeated, other agents are attributed in a line, the user's message stays, and a
policy of `C` may say more. A request that holds anything else is not changed.

Top to bottom: the plugin, what stands in a request, how it is changed.
"""

import functools
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from weft.compiler import Compilation, compile_request
from weft.compiler.plan import NamedModel
from weft.compiler.tools import Held, is_withheld, standing_values, values_of
from weft.content import FunctionCall
from weft.declare import Agent, C, Node, RunConfig
from weft.declare.agent import walk_nodes, walk_tree
from weft.declare.policy import Policy
from weft.declare.policy_parts import Budget, Label, Redact
from weft.declare.visit import inner_agents
from weft.dialects import count_request
from weft.errors import DeclarationError, UsageError
from weft.interop.adk.agents import DELEGATED, imported
from weft.interop.adk.objects import (
    MOST_VIEWS,
    EventReader,
    EventViews,
    SeenEvents,
    as_list,
    field,
    fill_template,
    flag,
    is_a,
    state_of,
    text,
    turn_of,
)
from weft.ir import ToolDecl
from weft.ir.block import RECALL
from weft.runtime.recall import found_among
from weft.values import Json, JsonObject, require_json

_log = logging.getLogger("weft")

TRIES = 4
"""How often a policy's budget is made smaller for what only google-adk's request has."""

WATCHED = (
    "name", "description", "instruction", "global_instruction", "include_contents", "output_key",
    "mode", "disallow_transfer_to_parent", "disallow_transfer_to_peers",
)  # fmt: skip
"""The fields of an agent that a request is made of."""

FORMAT = "gemini"
"""The dialect that google-adk's requests are written in, whichever model they are for."""


class AdkRequest(NamedTuple):
    """The replacement for a request: its contents, and its system instruction if known."""

    contents: list[Json]
    system: str | None
    recalls: tuple[Held, ...] | None = None
    """What handles in it may stand for, where there can be any."""


class Delivery:
    """The plugin's own part, without what google-adk wants of a plugin.

    `context` is the policy for every agent, `contexts` for those it names. `compiled` counts the
    requests that were compiled, `left` those that were not changed, by the reason.
    """

    def __init__(
        self,
        *,
        context: Policy | None = None,
        contexts: Mapping[str, Policy] | None = None,
        name: str = "weft",
    ) -> None:
        del name  # google-adk's part keeps it
        for one in (context, *(contexts or {}).values()):
            if one is not None:
                _check(one)
        self.context = context if context is not None else C.default()
        self.contexts = dict(contexts or {})
        self.compiled = 0
        self.left: Counter[str] = Counter()
        self._views = EventViews()
        self._trees: dict[int, _Tree] = {}

    async def before_model_callback(
        self, *, callback_context: object, llm_request: object
    ) -> object:
        """Compile the request again; do not change it where there is any doubt.

        A request with what a policy keeps away from the model is never sent, doubt or not.
        """
        try:
            outcome = self.request(callback_context, llm_request)
            if isinstance(outcome, AdkRequest):
                if outcome.recalls is not None:
                    offer_recall(llm_request, outcome.recalls)
                fill_request(llm_request, outcome.contents, outcome.system)
        except Exception as error:
            # a run that works without the plugin must work with it
            _log.warning("a request of google-adk is left as it is", exc_info=True)
            outcome = f"{type(error).__name__}: {error}"
        if isinstance(outcome, str):
            self.left[outcome] += 1
            _log.info("a request of google-adk is left as it is: %s", outcome)
            policy = self._policy(text(callback_context, "agent_name"))
            return refusal(outcome) if _withholds(policy) else None
        self.compiled += 1
        return None

    def _policy(self, agent: str) -> Policy:
        return self.contexts.get(agent, self.context)

    def request(self, context: object, request: object) -> AdkRequest | str:
        """The request to send instead, or the reason to leave it unchanged."""
        running = field(context, "_invocation_context")
        agent, session = field(running, "agent"), field(running, "session")
        if not is_a(agent, "LlmAgent") or session is None:
            return "the agent is not one that Weft knows"
        if field(agent, "mode") in DELEGATED or field(running, "isolation_scope") is not None:
            return "the agent does a task that was delegated to it"
        if field(request, "previous_interaction_id") is not None:
            return "the provider keeps the conversation"
        name = text(agent, "name")
        known = self._tree(_root(agent))
        home = known.homes.get(name)
        if home is None:
            return "the agent is not one that Weft knows"
        if flag(field(running, "run_config"), "include_thoughts_from_other_agents"):
            return "the agents see what others thought"
        reader = EventReader(
            text(running, "branch"),
            text(running, "node_path"),
            known.inner,
            name if _thinks_aloud(agent) else "",
        )
        whole = self._views.whole(session, reader)
        if reaching_back(whole.events):
            return "events of the session are summed up or taken back"
        visible = seen = whole
        if name in known.bare:
            visible, seen = turn_of(whole, name, text(running, "invocation_id"), reader)
        contents = as_list(request, "contents")
        why = difference(contents, visible.events, name)
        if why:
            return why
        return self._compile_request(home, agent, seen, request, state_of(context, session))

    def _compile_request(
        self, home: Agent, agent: object, seen: SeenEvents, request: object, state: JsonObject
    ) -> AdkRequest | str:
        name = text(agent, "name")
        model = NamedModel(text(request, "model") or str(home.model or name), FORMAT)
        policy = own = self._policy(name)
        for _ in range(TRIES):
            config = RunConfig(model=model, context=policy)
            compiled = compile_request(
                home, agent=name, session=seen.session, state=state, config=config
            )
            outcome = self._request_from(compiled, agent, request, state)
            if isinstance(outcome, str):
                return outcome
            room = _room(outcome, own, request, compiled)
            if room is None:
                break
            policy = replace(own, limit=room)
        else:
            return "the rest of the request leaves too little of the budget"
        # google-adk's own part of the request may hold what the policy keeps away
        if _withholds(own):
            whole = _whole(outcome, request, compiled)
            compiled.require_protected(compiled.prompt, whole)
            compiled.require_cleared(whole)
        if RECALL not in compiled.tools:
            return outcome
        labels = [one for one in policy.protections if isinstance(one, Label)]
        standing = standing_values({**seen.session.state, **state})
        values = (*standing, *values_of(seen.session.events))
        return outcome._replace(
            recalls=tuple(one for one in values if not is_withheld(one, labels, home.cleared))
        )

    def _request_from(
        self, compiled: Compilation, agent: object, request: object, state: JsonObject
    ) -> AdkRequest | str:
        contents = cast("list[Json]", msgspec.convert(compiled.wire.get("contents"), list[object]))
        before = as_list(request, "contents")
        if not contents or _role(contents[-1]) != (text(before[-1], "role") if before else "user"):
            return "the compiled request would end with another turn"
        mended = _with_ids(contents, _ids(before))
        if mended is None:
            return "calls would be paired by other ids"
        return AdkRequest(mended, self._system(compiled, agent, request, state))

    def _system(
        self, compiled: Compilation, agent: object, request: object, state: JsonObject
    ) -> str | None:
        instruction = field(field(request, "config"), "system_instruction")
        if not isinstance(instruction, str):
            return None
        return joined_system(instruction, compiled, agent, _root(agent), state)

    def _tree(self, root: object) -> "_Tree":
        now = (*_fingerprint_tree(root),)
        # taken out and put in again: the oldest stands first
        cached = self._trees.pop(id(root), None)
        if cached is None or cached.declared != now:  # an agent may be changed while it is used
            tree = imported(root, for_requests=True)
            cached = _Tree(root, now, homes_of(tree.node), inner_agents(tree.node), tree.bare)
        self._trees[id(root)] = cached
        while len(self._trees) > MOST_VIEWS:
            self._trees.pop(next(iter(self._trees)))
        return cached


class _Tree(NamedTuple):
    """A tree that was imported: where its agents are at home, and who is shown what."""

    source: object
    declared: tuple[object, ...]
    homes: dict[str, Agent]
    inner: frozenset[str]
    bare: frozenset[str]


def _fingerprint_tree(agent: object) -> Iterator[object]:
    """A fingerprint of a tree's agents, to notice a changed tree."""
    yield id(agent)
    yield from (field(agent, name) for name in WATCHED)
    for child in as_list(agent, "sub_agents"):
        yield from _fingerprint_tree(child)


def homes_of(node: Node) -> dict[str, Agent]:
    """Every agent that speaks in the conversation by name, with the root of its tree."""
    homes: dict[str, Agent] = {}
    for flow, _ in walk_nodes(node):
        if not isinstance(flow, Agent):
            continue
        for member, _ in walk_tree(flow):
            if isinstance(member, Agent):
                homes.setdefault(member.name, flow)
            else:
                homes = {**homes_of(member), **homes}
    return homes


@functools.cache
def plugin_class() -> type[Delivery]:
    """The plugin as google-adk wants it: of its own class."""
    try:
        module = import_module("google.adk.plugins.base_plugin")
    except ImportError as error:
        raise UsageError(
            "google-adk is not installed", where="WeftPlugin", hint="pip install 'weft[adk]'"
        ) from error
    base = cast("type", module.BasePlugin)
    begin = cast("Callable[..., None]", vars(base)["__init__"])

    def start(
        self: Delivery,
        *,
        context: Policy | None = None,
        contexts: Mapping[str, Policy] | None = None,
        name: str = "weft",
    ) -> None:
        begin(self, name=name)
        Delivery.__init__(self, context=context, contexts=contexts)

    body = {"__init__": start, "__doc__": Delivery.__doc__, "__module__": "weft.interop.adk"}
    return cast("type[Delivery]", type("WeftPlugin", (Delivery, base), body))


if TYPE_CHECKING:
    WeftPlugin = Delivery


def _room(
    delivery: AdkRequest, policy: Policy, request: object, compiled: Compilation
) -> Budget | None:
    """The tokens left next to google-adk's own part of the request; None if everything fits."""
    limit = policy.limit
    if limit is None:
        return None
    whole = _whole(delivery, request, compiled)
    tokens = count_request(whole, dialect=FORMAT, model=compiled.prompt.model)
    if tokens <= limit.tokens - (limit.reserve or 0):
        return None
    beside = tokens - compiled.tokens
    return msgspec.structs.replace(limit, tokens=max(limit.tokens - beside, 1))


def _whole(delivery: AdkRequest, request: object, compiled: Compilation) -> JsonObject:
    """All that would be sent."""
    added = [tool for tool in compiled.prompt.tools if tool.name == RECALL]
    return request_body(request, delivery.contents, delivery.system, added)


def _check(policy: object) -> None:
    """Refuse what is not a policy, and what a request alone cannot do."""
    if not isinstance(policy, Policy):
        raise DeclarationError(
            f"{policy!r} is not a policy", where="WeftPlugin", hint="write context=C.window(5)"
        )
    idle = [f".{one.word}()" for one in policy.writings]
    idle += [
        ".redact(restore=...)"
        for one in policy.protections
        if isinstance(one, Redact) and one.restore
    ]
    if idle:
        raise DeclarationError(
            f"the plugin compiles requests, and does nothing for `{idle[0]}`",
            where="WeftPlugin",
            hint="leave it out; a callback of google-adk can do it",
        )


def _withholds(policy: Policy) -> bool:
    """Whether it keeps something away from the model."""
    return any(isinstance(one, Redact | Label) for one in policy.protections)


def _thinks_aloud(agent: object) -> bool:
    """Whether its planner shows it what it thought; google-adk's own leaves that to the model."""
    planner = field(agent, "planner")
    return planner is not None and not is_a(planner, "BuiltInPlanner")


def _root(agent: object) -> object:
    while (above := field(agent, "parent_agent")) is not None:
        agent = above
    return agent


def _role(content: Json) -> object:
    return content.get("role") if isinstance(content, dict) else None


def _ids(contents: list[object]) -> set[str]:
    """The ids by which calls and results of the request are paired."""
    return {
        identity
        for content in contents
        for part in as_list(content, "parts")
        for kind in ("function_call", "function_response")
        if (identity := text(field(part, kind), "id"))
    }


def _with_ids(contents: list[Json], known: set[str]) -> list[Json] | None:
    """The contents with no other ids than the request had; None where some have none left."""
    copies = cast("list[Json]", msgspec.json.decode(msgspec.json.encode(contents)))
    for content in copies:
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            for kind in ("functionCall", "functionResponse"):
                block = part.get(kind) if isinstance(part, dict) else None
                if isinstance(block, dict) and block.get("id") not in (None, *known):
                    if known:
                        return None
                    block.pop("id")
    return copies


# --- what stands in a request, and how it is changed


def request_body(
    request: object, contents: list[Json], system: str | None, added: Iterable[ToolDecl] = ()
) -> JsonObject:
    """The whole request as it would be sent with these, and with tools in addition to its own."""
    config = field(request, "config")
    words = system if system is not None else field(config, "system_instruction")
    wire: JsonObject = {"contents": contents}
    if isinstance(words, str) and words:
        wire["systemInstruction"] = {"parts": [{"text": words}]}
    tools = [_dump_tool(tool) for tool in as_list(config, "tools")]
    for tool in added:
        declaration: JsonObject = {"name": tool.name, "description": tool.description}
        tools.append({"functionDeclarations": [{**declaration, "parameters": tool.parameters}]})
    if tools:
        wire["tools"] = tools
    return wire


def fill_request(request: object, contents: list[Json], system: str | None) -> None:
    """Let the request say this."""
    content = import_module("google.genai.types").Content
    objects = [content.model_validate_json(msgspec.json.encode(one)) for one in contents]
    setattr(request, "contents", objects)  # noqa: B010  a field of a foreign object
    if system is not None:
        setattr(field(request, "config"), "system_instruction", system)  # noqa: B010


def refusal(why: str) -> object:
    """The answer that google-adk gets for a request that is not sent."""
    response = cast("Callable[..., object]", import_module("google.adk.models").LlmResponse)
    return response(error_code="PROTECTED", error_message=f"the request was not sent: {why}")


def offer_recall(request: object, known: Sequence[Held]) -> None:
    """Add the tool that gets back what a handle in the request stands for, of what is known."""

    def recall(
        handle: str, lines: str = "", query: str = "", field: str = "", page: int = 1
    ) -> dict[str, object]:
        """Get back a value that was shortened.

        Args:
            handle: The handle that stands in its place, or several.
            lines: Only these lines, as 12-40.
            query: Only what fits these words.
            field: Only this field of JSON, as rows[].id.
            page: Which part of a long value.
        """
        asked = FunctionCall(
            name=RECALL,
            args={
                "handle": handle,
                "lines": lines,
                "query": query or None,
                "field": field or None,
                "page": page,
            },
        )
        return {**(found_among(known, asked).response or {})}

    append = field(request, "append_tools")
    if callable(append) and RECALL not in cast("dict[str, object]", field(request, "tools_dict")):
        tool = cast("Callable[..., object]", import_module("google.adk.tools").FunctionTool)
        append([tool(recall)])


def _dump_tool(tool: object) -> Json:
    dump = field(tool, "model_dump")
    dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else tool
    return require_json(dumped, where="tools")


_HANDING_OVER = re.compile(
    r"\n?You have a list of other agents to transfer to:\n.*?"
    r"\*\*NOTE\*\*: the only available agents for `\w+` function are\n(?P<names>[^\n]*)\.\n"
    r"(?:\nIf neither you nor the other agents are best[^\n]*\n)?",
    re.DOTALL,
)


def joined_system(
    instruction: str, compiled: Compilation, agent: object, root: object, state: JsonObject
) -> str | None:
    """Weft's instruction, then what others have added; None where that is in doubt."""
    rest = instruction
    for part in _find_added_text(agent, root, state):
        # a text that occurs twice cannot be distinguished from what others added
        if part is None or rest.count(part) != 1:
            return None
        rest = rest.replace(part, "", 1)
    targets = next((_targets(t) for t in compiled.prompt.tools if t.name == _TRANSFER), ())
    match = _HANDING_OVER.search(rest)
    if bool(match) != bool(targets):
        return None
    if match is not None:
        if not all(f"`{name}`" in match["names"] for name in targets):
            return None
        rest = rest[: match.start()] + rest[match.end() :]
    added = [piece.strip("\n") for piece in rest.split("\n\n")]
    return "\n\n".join(piece for piece in (compiled.system, *added) if piece.strip())


_TRANSFER = "transfer_to_agent"


def _find_added_text(agent: object, root: object, state: JsonObject) -> list[str | None]:
    """The text that google-adk itself adds; None if that cannot be known."""
    name, description = text(agent, "name"), text(agent, "description")
    identity = f'You are an agent. Your internal name is "{name}".'
    if description:
        identity += f' The description about you is "{description}".'
    pieces: list[str | None] = [identity]
    if field(agent, "static_instruction"):
        return [None]
    for owner, kind in ((agent, "instruction"), (root, "global_instruction")):
        instruction = field(owner, kind)
        if callable(instruction):
            return [None]
        if isinstance(instruction, str) and instruction:
            pieces.append(fill_template(instruction, state) or None)
    return pieces


def _targets(tool: ToolDecl) -> tuple[str, ...]:
    """The agents that Weft lets it hand over to."""
    properties = tool.parameters.get("properties")
    asked = properties.get("agent_name") if isinstance(properties, dict) else None
    names = asked.get("enum") if isinstance(asked, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


QUOTED = "For context:"
"""How google-adk begins what another agent said."""

PAYLOADS = (
    "function_call", "function_response", "inline_data", "file_data", "executable_code",
    "code_execution_result",
)  # fmt: skip


def difference(contents: list[object], events: tuple[object, ...], agent: str) -> str:
    """Why the contents are not what the events say; "" where they are."""
    texts = Counter(text(part, "text") for part in _parts(events))
    payloads = {kind for part in _parts(events) for kind in _payloads(part)}
    sent: Counter[str] = Counter()
    quoted: list[str] = []
    for content in contents:
        parts = as_list(content, "parts")
        if parts and text(parts[0], "text").startswith(QUOTED):
            quoted += [text(part, "text") for part in parts]
            continue
        for part in parts:
            words = text(part, "text")
            sent[words] += 1
            if words and sent[words] > texts[words]:
                return "the request holds a text that its session does not"
            if not payloads.issuperset(_payloads(part)):
                return "the request holds something that its session does not"
    mine = Counter(_words(event for event in events if text(event, "author") in ("user", agent)))
    theirs = _words(event for event in events if text(event, "author") not in ("user", agent))
    if mine - sent or not _in_order([*theirs], "\n".join(quoted)):
        return "the request lacks a text that its session holds"
    return ""


def _words(events: Iterable[object]) -> Iterator[str]:
    """The text of events, without thoughts."""
    for part in _parts(events):
        words = text(part, "text")
        if words.strip() and not flag(part, "thought"):
            yield words


def _in_order(pieces: list[str], whole: str) -> bool:
    """Whether all pieces stand in the whole; quick where they stand in their order."""
    at = 0
    for piece in pieces:
        place = whole.find(piece, at)
        if place < 0:
            place = whole.find(piece)
        if place < 0:
            return False
        at = place + len(piece)
    return True


def reaching_back(events: Iterable[object]) -> bool:
    """Whether an event takes back or sums up others."""
    names = ("compaction", "rewind_before_invocation_id")
    return any(field(field(event, "actions"), name) for event in events for name in names)


def _parts(events: Iterable[object]) -> Iterator[object]:
    for event in events:
        yield from as_list(field(event, "content"), "parts")


def _payloads(part: object) -> Iterator[tuple[str, str]]:
    for kind in PAYLOADS:
        payload = field(part, kind)
        if payload is not None:
            yield (
                kind,
                text(payload, "name") or text(payload, "file_uri") or text(payload, "mime_type"),
            )
