"""A plugin that compiles the requests of a google-adk Runner with Weft.

    Runner(app_name="trips", agent=root_agent, session_service=sessions, plugins=[WeftPlugin()])

Each request is compiled from the session that it was made of: a value that the instruction
carries is not repeated, other agents are attributed in a line, the user's message stays, and a
policy of `C` may say more. A request that holds anything else is left as it is.
"""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from weft.compiler import Compiled, compile
from weft.compiler.recall import Held, is_withheld, values_of
from weft.declare import Agent, C, Node, RunConfig, tree
from weft.declare.policy import Policy
from weft.declare.policy.transforms import Budget, Label
from weft.declare.roles import inner_agents
from weft.declare.walk import walk_nodes
from weft.dialects.measure import count_request
from weft.errors import DeclarationError, UsageError
from weft.interop.adk.accounting import difference, reaching_back
from weft.interop.adk.agents import DELEGATED, imported
from weft.interop.adk.events import Seen, Views, state_of, turn
from weft.interop.adk.objects import field, is_a, listed, text
from weft.interop.adk.requests import body, offer_recall, put
from weft.interop.adk.systems import joined_system
from weft.ir.handle import RECALL
from weft.values import Json, JsonObject

_log = logging.getLogger("weft")

TRIES = 4
"""How often a policy's budget is made smaller for what only google-adk's request has."""

FORMAT = "gemini"
"""The dialect that google-adk's requests are written in, whichever model they are for."""


class _Target(NamedTuple):
    """A model by its name, spoken to in google-adk's format."""

    name: str
    dialect: str = FORMAT


class Request(NamedTuple):
    """What replaces a request: its contents, and its system instruction where that is known."""

    contents: list[Json]
    system: str | None
    recalls: tuple[Held, ...] | None = None
    """What handles in it may stand for, where there can be any."""


class Delivery:
    """The plugin's own part, without what google-adk wants of a plugin.

    `context` is the policy for every agent, `contexts` for those it names. `compiled` counts the
    requests that were compiled, `left` those that were left as they are, by the reason.
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
            if one is not None and not isinstance(cast("object", one), Policy):
                raise DeclarationError(
                    f"{one!r} is no policy", where="WeftPlugin", hint="write context=C.window(5)"
                )
        self.context = context if context is not None else C.default()
        self.contexts = dict(contexts or {})
        self.compiled = 0
        self.left: Counter[str] = Counter()
        self._views = Views()
        self._trees: dict[int, _Tree] = {}

    async def before_model_callback(self, *, callback_context: object, llm_request: object) -> None:
        """Compile the request anew; leave it as it is where there is any doubt."""
        try:
            made = self.request(callback_context, llm_request)
        except Exception as error:
            _log.warning("a request of google-adk is left as it is", exc_info=True)
            made = f"{type(error).__name__}: {error}"
        if isinstance(made, str):
            self.left[made] += 1
            _log.info("a request of google-adk is left as it is: %s", made)
        else:
            put(llm_request, made.contents, made.system)
            if made.recalls is not None:
                offer_recall(llm_request, made.recalls)
            self.compiled += 1

    def request(self, context: object, request: object) -> Request | str:
        """What to send in place of the request, or why it is to stay as it is."""
        running = field(context, "_invocation_context")
        agent, session = field(running, "agent"), field(running, "session")
        if not is_a(agent, "LlmAgent") or session is None:
            return "the agent is none that Weft knows"
        if field(agent, "mode") in DELEGATED or field(running, "isolation_scope") is not None:
            return "the agent does a task that was delegated to it"
        if field(request, "previous_interaction_id") is not None:
            return "the provider keeps the conversation"
        name = text(agent, "name")
        known = self._tree(_root(agent))
        home = known.homes.get(name)
        if home is None:
            return "the agent is none that Weft knows"
        whole = self._views.whole(session, text(running, "branch"), known.inner)
        if reaching_back(whole.events):
            return "events of the session are summed up or taken back"
        shown = seen = whole
        if name in known.bare:
            shown, seen = turn(whole, name, text(running, "invocation_id"), known.inner)
        contents = listed(request, "contents")
        why = difference(contents, shown.events, name)
        if why:
            return why
        return self._compiled(home, agent, seen, request, state_of(context, session))

    def _compiled(
        self, home: Agent, agent: object, seen: Seen, request: object, state: JsonObject
    ) -> Request | str:
        name = text(agent, "name")
        model = _Target(text(request, "model") or str(home.model or name))
        policy = own = self.contexts.get(name, self.context)
        for _ in range(TRIES):
            config = RunConfig(model=model, context=policy)
            compiled = compile(home, agent=name, session=seen.session, state=state, config=config)
            made = self._made(compiled, agent, request, state)
            if isinstance(made, str):
                return made
            room = _room(made, own, request, compiled)
            if room is None:
                break
            policy = replace(own, limit=room)
        else:
            return "the rest of the request leaves too little of the budget"
        if RECALL not in compiled.tools:
            return made
        labels = [one for one in policy.protections if isinstance(one, Label)]
        values = values_of(seen.session.events)
        return made._replace(
            recalls=tuple(one for one in values if not is_withheld(one, labels, home.cleared))
        )

    def _made(
        self, compiled: Compiled, agent: object, request: object, state: JsonObject
    ) -> Request | str:
        contents = cast("list[Json]", msgspec.convert(compiled.wire.get("contents"), list[object]))
        before = listed(request, "contents")
        if not contents or _role(contents[-1]) != (text(before[-1], "role") if before else "user"):
            return "the compiled request would end with another turn"
        mended = _with_ids(contents, _ids(before))
        if mended is None:
            return "calls would be paired by other ids"
        return Request(mended, self._system(compiled, agent, request, state))

    def _system(
        self, compiled: Compiled, agent: object, request: object, state: JsonObject
    ) -> str | None:
        held = field(field(request, "config"), "system_instruction")
        if not isinstance(held, str):
            return None
        return joined_system(held, compiled, agent, _root(agent), state)

    def _tree(self, root: object) -> "_Tree":
        held = self._trees.get(id(root))
        if held is None:
            made = imported(root, for_requests=True)
            held = _Tree(root, homes_of(made.node), inner_agents(made.node), made.bare)
            self._trees[id(root)] = held
        return held


class _Tree(NamedTuple):
    """A tree that was imported: where its agents are at home, and who is shown what."""

    source: object
    homes: dict[str, Agent]
    inner: frozenset[str]
    bare: frozenset[str]


def homes_of(node: Node) -> dict[str, Agent]:
    """Every agent that speaks in the conversation by name, with the root of its tree."""
    found: dict[str, Agent] = {}
    for flow, _ in walk_nodes(node):
        if not isinstance(flow, Agent):
            continue
        for member, _ in tree.walk(flow):
            if isinstance(member, Agent):
                found.setdefault(member.name, flow)
            else:
                found = {**homes_of(member), **found}
    return found


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


def _room(made: Request, policy: Policy, request: object, compiled: Compiled) -> Budget | None:
    """What the budget leaves beside google-adk's own part of the request; None where that fits."""
    limit = policy.limit
    if limit is None:
        return None
    added = [tool for tool in compiled.prompt.tools if tool.name == RECALL]
    whole = body(request, made.contents, made.system, added)
    tokens = count_request(whole, dialect=FORMAT, model=compiled.prompt.model)
    if tokens <= limit.tokens - (limit.reserve or 0):
        return None
    beside = tokens - compiled.tokens
    return msgspec.structs.replace(limit, tokens=max(limit.tokens - beside, 1))


def _root(agent: object) -> object:
    while (above := field(agent, "parent_agent")) is not None:
        agent = above
    return agent


def _role(content: Json) -> object:
    return content.get("role") if isinstance(content, dict) else None


def _ids(contents: list[object]) -> set[str]:
    """The ids by which calls and results of the request are paired."""
    return {
        found
        for content in contents
        for part in listed(content, "parts")
        for kind in ("function_call", "function_response")
        if (found := text(field(part, kind), "id"))
    }


def _with_ids(contents: list[Json], known: set[str]) -> list[Json] | None:
    """The contents with no other ids than the request had; None where some have none left."""
    made = cast("list[Json]", msgspec.json.decode(msgspec.json.encode(contents)))
    for content in made:
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            for kind in ("functionCall", "functionResponse"):
                held = part.get(kind) if isinstance(part, dict) else None
                if isinstance(held, dict) and held.get("id") not in (None, *known):
                    if known:
                        return None
                    held.pop("id")
    return made
