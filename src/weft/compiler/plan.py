"""A plan: what a declaration alone decides about its requests, worked out once.

Agents are frozen, so the path to the one that is asked, its model, tools, options, schema and
the wording of its instruction are the same at every step. They are kept with the root.
"""

import os
import sys
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from operator import is_
from typing import Literal, NamedTuple, Protocol, cast, get_args, runtime_checkable

import msgspec

from weft import schema
from weft.compiler.costs import lasting_cliffs, shares_of, window_of
from weft.compiler.count import Scale
from weft.compiler.incremental import Slot
from weft.compiler.instruction import Instructions, Source, Wording, wording_of
from weft.compiler.tools import DEFAULT, policy_of, recall_tool, transfer_targets, transfer_tool
from weft.declare import Agent, Node, Policy, RunConfig, Tool
from weft.declare.agent import find_path, labels_of, unite_labels, walk_tree
from weft.declare.code import describe_functions
from weft.declare.config import merge
from weft.declare.functions import PassFunction, name_of
from weft.declare.policy_parts import Auto, Budget, Fence, Label, Untrusted
from weft.declare.provider_tools import ProviderTool
from weft.diagnostics import Diagnostic, Origin, report
from weft.dialects import DIALECTS, Facts, dialect_named, facts_for
from weft.dialects.facts import SECONDS, Cache, require_model_name
from weft.dialects.measure import Meter, WeighedTool
from weft.dialects.schema_subset import wrap_root
from weft.dialects.track import Head
from weft.errors import CompileError, DeclarationError, UsageError, describe_kind
from weft.ir import Output, ToolDecl
from weft.ir.block import RECALL
from weft.passes import PLAIN, Pass, Passes, passes_of
from weft.passes.custom import CustomPass
from weft.passes.env import ModelFacts, ToolFacts
from weft.values import Json, JsonObject, compact

SET_RESPONSE = "set_model_response"

LETTERS = 4
"""How many letters a token has, roughly."""

MOST_PLANS = 256
"""How many plans a root keeps: a server may give every request options of its own."""


@runtime_checkable
class ModelLike(Protocol):
    """A model object: all the compiler needs is its name and the dialect it speaks."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def dialect(self) -> str:
        """The dialect it speaks."""
        ...


class NamedModel(NamedTuple):
    """A model by its name, spoken to in a dialect that need not be its own."""

    name: str
    dialect: str


class Target(msgspec.Struct, frozen=True):
    """The model a request is for: its name, the dialect it is spoken to in, and what it can do."""

    model: str
    dialect: str
    facts: Facts


class SharedParts:
    """What the requests of all sessions share under one plan, once the first of them was made."""

    __slots__ = ("heads", "instructions", "scale")

    def __init__(self) -> None:
        self.instructions: Instructions | None = None
        """Instructions that read nothing from the session."""
        self.heads: dict[tuple[str, bool], Head] = {}
        """By dialect, and whether it was strict: everything but the turns."""
        self.scale: Scale | None = None
        """What counts for the model; None until a policy needs it."""


class Plan(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What is known of an agent's requests before there is a session.

    `run_policy` is the policy of the run. `measure` says by what things are found large: the
    model's tokens, and from how many on for each tool that has a say in it.
    `model` is what was chosen, a name or an object to call; `fixed` says that somebody wrote down
    a name, for the run or in the tree, so that no other can be chosen. `cache` is what
    `Prompt.cache` is, `appends` in whose name an instruction that changed is sent after the
    conversation; empty where it is rewritten in its place. A conversation of fewer than
    `append_from` letters gives requests too short to be reused. `inputs` are what the agent and
    its root declare.
    """

    run_policy: Policy | None
    path: tuple[Agent, ...]
    agent: Agent
    policy: Policy
    passes: Passes
    slot: Slot
    measure: str
    key: str
    model: str | ModelLike
    fixed: bool
    target: Target
    output: Output | None
    transfers: tuple[Node, ...]
    facts: ModelFacts
    tools: tuple[ToolDecl, ...]
    own: dict[str, Tool]
    recall: ToolDecl | None
    tool_facts: ToolFacts
    config: JsonObject
    origins: dict[str, Origin]
    cache: str
    appends: Literal["", "system", "user"]
    append_from: int
    wording: Wording
    inputs: dict[str, object]
    diagnostics: tuple[Diagnostic, ...]
    custom: tuple[Pass, ...]
    """The passes of the agent, of its tools and of the run."""
    run_passes: tuple[PassFunction, ...]
    budget: Budget | None
    """What `context_compressor` allows, besides the policy."""
    shared: SharedParts = msgspec.field(default_factory=SharedParts)


def plan_for(
    root: Agent,
    agent: str | None,
    config: RunConfig,
    labels: tuple[Label, ...] = (),
    untrusted: frozenset[str] = frozenset(),
) -> Plan:
    """The plan for `root`, or for the agent of its tree named by `agent`, under this config.

    `labels` hold for a program of which `root` is only a part. `untrusted` are tools of the whole
    program whose results are fenced.

    It is kept with the root, under what it was made from. The environment may come to name
    another model, and a model object another name: then the plan is made again.
    """
    if type(root) is not Agent and not isinstance(cast("object", root), Agent):
        raise CompileError(
            f"{describe_kind(root)} is not an agent",
            where="compile",
            hint="pass a weft.Agent",
        )
    if agent is not None and type(agent) is not str and not isinstance(cast("object", agent), str):
        raise _unknown_agent(root, agent)
    model = config.model
    key: object = agent
    if (
        model is not None
        or config.generate_config
        or config.context is not None
        or labels
        or untrusted
        or config.passes
        or config.global_instruction
    ):
        # an id may be used again: `_fits` looks whether it is the same model
        chosen = model if model is None or isinstance(model, str) else id(model)
        seen = str(config.context) if config.context is not None else ""
        key = (
            agent, chosen, compact(config.generate_config), seen, labels,
            tuple(map(id, config.passes)), config.global_instruction, untrusted,
        )  # fmt: skip
    known = root.memo.get(key)
    if (
        isinstance(known, Plan)
        and (known.run_policy is config.context or known.run_policy == config.context)
        # functions are keyed by id, which another may have by now
        and (not config.passes or all(map(is_, known.run_passes, config.passes)))
        and (known.fixed or _fits(known))
    ):
        return known
    plan = _make_plan(root, agent, config, labels, untrusted)
    # all at once: what is needed is made again, and counting uses would cost every request
    if len(root.memo) >= MOST_PLANS:
        root.memo.clear()
    root.memo[key] = plan
    return plan


def _measure(agent: Agent, target: Target) -> str:
    own = [f"{tool.name}={tool.compact}" for tool in agent.tools if tool.compact is not None]
    return " ".join([target.dialect, target.model, *own])


def _list_unbounded_tools(agent: Agent) -> str:
    """The tools whose results are sent as they are, however long."""
    return " ".join(tool.name for tool in agent.tools if tool.compact is False)


def output_for(path: tuple[Agent, ...]) -> Output | None:
    """How the agent's output schema is asked for, by what its model can do."""
    chosen = _find_declared_model(path, DEFAULT)
    target = _target_of(chosen if chosen is not None else default_model(), path[-1])
    return _output_of(path, target, recalls=_recalls(path, policy_of(path[-1]), target))


def _recalls(path: tuple[Agent, ...], policy: Policy, target: Target) -> bool:
    """Whether every request offers `recall`, so that its head never changes.

    Where nothing returns anything there may never be a handle; then it waits for the first one,
    unless a schema that is asked for without tools rules that out. Under `C.auto()` prices decide.
    """
    if not policy.facts.makes_handles or not target.facts.tools:
        return False
    agent = path[-1]
    alone = agent.output_schema is not None and not target.facts.schema_with_tools
    if _is_priced(agent, policy):
        return alone
    return alone or bool(agent.tools or transfer_targets(path))


def _is_priced(agent: Agent, policy: Policy) -> bool:
    """Whether prices decide what is said in short: under `C.auto()`, and nothing besides it."""
    alone = policy.stages[0] if len(policy.stages) == 1 else None
    return (
        alone is not None
        and isinstance(alone.selector, Auto)
        and not alone.steps
        and policy.limit is None
        and agent.token_budget is None
    )


def _tool_facts(
    plan_tools: tuple[ToolDecl, ...],
    own: dict[str, Tool],
    recall: ToolDecl | None,
    wording: Wording,
    target: Target,
    *,
    priced: bool,
    folds: bool,
) -> ToolFacts:
    """The agent's tools, and where prices decide how much stands before the conversation.

    That is counted from the declaration alone, so that it never changes.
    """
    # only `C.auto()` and folds ask what the head costs
    if not priced and not folds:
        return ToolFacts(own=own, recall=recall)
    meter = dialect_named(target.dialect).meter(target.model)
    count, over = meter.counter.count, meter.overheads
    words = sum(map(count, map(_wording_text, wording.sources)))
    # the first tool costs something once, whichever it is
    first, later = (over.tools, 0) if plan_tools else (0, over.tools)
    return ToolFacts(
        own=own,
        recall=recall,
        priced=priced,
        recall_tokens=_declared_tokens(recall, meter) + later if recall is not None else 0,
        head=over.request + words + sum(_declared_tokens(one, meter) for one in plan_tools) + first,
    )


def _wording_text(source: Source) -> str:
    """A part of the instruction as it is declared; what a function will say is not known."""
    if source.block is not None:
        return source.block.text
    agent = source.agent
    text: object = agent.instruction if source.field == "instruction" else agent.global_instruction
    return text if isinstance(text, str) else ""


def _declared_tokens(tool: ToolDecl | Tool, meter: Meter) -> int:
    """What a tool takes as it is declared, as a request that has it is counted."""
    return meter.tool(WeighedTool(tool.name, tool.description, tool.parameters))


def _late_recall(
    path: tuple[Agent, ...], output: Output | None, target: Target, *, priced: bool
) -> ToolDecl | None:
    """`recall` for a request in which a handle stands, where that can have one more tool.

    A schema that a provider takes only without tools rules it out, and so does a tool of the
    agent's own that has its name; where handles are the rule, that is refused.
    """
    agent = path[-1]
    taken = not priced and any(tool.name == RECALL for tool in agent.tools)
    if not target.facts.tools or taken:
        return None
    alone = output is not None and output.how == "native" and not target.facts.schema_with_tools
    return None if alone else recall_tool(agent)


def _fits(plan: Plan) -> bool:
    """Whether the model is still the one that would be chosen, under the name it had."""
    model = plan.model
    if isinstance(model, str):
        return model == default_model()
    return model.name == plan.target.model and model.dialect == plan.target.dialect


def _make_plan(
    root: Agent,
    name: str | None,
    config: RunConfig,
    labels: tuple[Label, ...],
    untrusted: frozenset[str],
) -> Plan:
    """Work out a plan: whom it is for first, then what is sent, then which passes run."""
    nodes = find_path(root, name) if name is not None and name != root.name else (root,)
    path = tuple(node for node in nodes if isinstance(node, Agent))
    if not path or path[-1] is not nodes[-1]:
        raise _unknown_agent(root, name)
    agent = path[-1]
    declared = labels_of(root, config)
    if labels:
        declared = unite_labels((*declared, *labels))
    policy = _guard_policy(policy_of(agent, config), declared, agent.cleared)
    own_untrusted = {tool.name for tool in agent.tools if tool.untrusted}
    policy = _fence_untrusted(policy, untrusted | own_untrusted)
    words, facts, limit = str(policy), policy.facts, agent.token_budget
    # the run's model first, then the agent's, then those above it
    written = _find_declared_model(path, config)
    chosen = written if written is not None else default_model()
    target = _target_of(chosen, agent)
    recalls = _recalls(path, policy, target)
    output = _output_of(path, target, recalls=recalls)
    generate, origins = _config(agent, config)
    cache, problems = _cache(generate.pop("cache", True), target, origins)
    changes = generate.pop("instruction_changes", None)
    wording = wording_of(path, output, config.global_instruction or "")
    tools = _tools_of(path, output, target.dialect, recalls=recalls)
    custom = (*_custom(agent, config), *_examples(agent, output, target))
    passes = PLAIN if facts.is_conditional else passes_of(policy, agent.name, custom)
    measure = _measure(agent, target)
    own = {tool.name: tool for tool in agent.tools}
    priced = not recalls and _is_priced(agent, policy)
    hides = not (priced and facts.is_lossless)
    late = hides and not recalls
    recall = _late_recall(path, output, target, priced=priced) if late else None
    return Plan(
        run_policy=config.context,
        path=path,
        agent=agent,
        policy=policy,
        passes=passes,
        slot=Slot(agent.name, "", words, _list_unbounded_tools(agent) if passes.plain else measure),
        measure=measure,
        key=f"instructions of {agent.name}",
        model=chosen,
        fixed=isinstance(written, str),
        target=target,
        output=output,
        transfers=transfer_targets(path),
        tools=tools,
        facts=_model_facts(agent, target, cache, generate),
        own=own,
        recall=recall,
        tool_facts=_tool_facts(
            tools,
            own,
            recall,
            wording,
            target,
            priced=priced and (recall is not None or not hides),
            folds=facts.folding is not None or policy.limit is not None or limit is not None,
        ),
        config=generate,
        origins=origins,
        cache=cache,
        appends=_appends(changes, target, wording),
        append_from=0 if changes == "append" else _append_from(target, wording, tools),
        wording=wording,
        inputs={**path[0].inputs, **agent.inputs},
        diagnostics=(*_check_declaration(agent, target, root=len(path) == 1), *problems),
        custom=custom,
        run_passes=tuple(config.passes),
        budget=limit.limit if limit is not None else None,
    )


def _guard_policy(policy: Policy, labels: tuple[Label, ...], cleared: tuple[str, ...]) -> Policy:
    """The policy with every label that its agent is not cleared for, and no other."""
    declared_label = [one for one in policy.protections if isinstance(one, Label)]
    hidden = tuple(label for label in labels if label.name not in cleared)
    if not hidden and not declared_label:
        return policy
    # labels come from the whole program: those of the agent alone would hide too little
    others = (one for one in policy.protections if not isinstance(one, Label))
    return replace(policy, protections=(*hidden, *others))


def _fence_untrusted(policy: Policy, untrusted: AbstractSet[str]) -> Policy:
    """The policy with a fence around the results of tools that nobody vouches for."""
    if not untrusted:
        return policy
    fences = [one for one in policy.protections if isinstance(one, Fence)]
    if any("results" in one.what and "agents" in one.what for one in fences):
        return policy
    what: tuple[Untrusted, ...] = tuple(
        each for each in get_args(Untrusted) if any(each in one.what for one in fences)
    )
    others = (one for one in policy.protections if not isinstance(one, Fence))
    fence = Fence(what, tools=tuple(sorted(untrusted)))
    return replace(policy, protections=(*others, fence))


def _custom(agent: Agent, config: RunConfig) -> tuple[Pass, ...]:
    """The passes of an agent, of its tools and of the run, in this order."""
    own = f"{agent.name}.passes"
    functions = [(one, own, "") for one in agent.passes]
    if agent.context_compressor is not None and agent.token_budget is None:
        compress = cast("PassFunction", agent.context_compressor)
        functions.append((compress, f"{agent.name}.context_compressor", ""))
    functions += [
        (tool.prepare, f"{agent.name}.tools.{tool.name}.prepare", tool.name)
        for tool in agent.tools
        if tool.prepare is not None
    ]
    functions += [(one, "RunConfig.passes", "") for one in config.passes]
    if not functions:
        return ()
    return tuple(CustomPass(one, name_of(one), where, tool) for one, where, tool in functions)


def _examples(agent: Agent, output: Output | None, target: Target) -> tuple[Pass, ...]:
    """The pass that puts the agent's examples before the conversation."""
    if not agent.examples:
        return ()
    from weft.passes.state_items import insert_examples, spell_examples

    wrapped = output is not None and output.wrapped
    spelled = spell_examples(
        agent.examples, agent.name, wrapped=wrapped, as_turns=target.facts.tools
    )
    return (cast("Pass", partial(insert_examples, options=spelled)),)


def _model_facts(agent: Agent, target: Target, cache: str, config: JsonObject) -> ModelFacts:
    """What passes may know of the model."""
    shares = shares_of(target.facts.cache, lifetime=cache)
    keeps = bool(cache) or not target.facts.cache.breakpoints
    # a provider that is not asked keeps nothing, however long the request is
    minimum = target.facts.cache.minimum if keeps else sys.maxsize
    return ModelFacts(
        name=target.model,
        dialect=target.dialect,
        window=target.facts.window,
        # from the list of prices, which is loaded for a request that may not fit
        widest=partial(window_of, target.model),
        cliffs=partial(lasting_cliffs, target.model),
        read=shares.read,
        write=shares.write,
        minimum=minimum,
        lifetime=_lifetime(cache, target),
        finds_any=not target.facts.cache.breakpoints,
        marks=bool(cache) and bool(target.facts.cache.lookback),
        picks_tools=target.facts.picks_tools,
        calls_need_tools=dialect_named(target.dialect).traits.calls_need_tools,
        cleared=frozenset(agent.cleared),
        binds=target.facts.binds,
        forgives=target.facts.binds and dialect_named(target.dialect).drops_thoughts(config),
    )


def _lifetime(cache: str, target: Target) -> float:
    """For how many seconds the provider is asked to keep what it reads; 0 where nobody knows."""
    ttls = target.facts.cache.ttls
    return SECONDS.get(cache if cache in ttls else "".join(ttls[:1]), 0.0)


def _unknown_agent(root: Agent, name: object) -> CompileError:
    """The error for a name that no agent below the root has."""
    known = ", ".join(node.name for node, _ in walk_tree(root) if isinstance(node, Agent))
    return CompileError(
        f"there is no agent `{name}` below `{root.name}`",
        where="compile",
        hint=f"the tree has: {known}",
    )


def _find_declared_model(path: tuple[Agent, ...], config: RunConfig) -> str | ModelLike | None:
    """The model somebody wrote down: for the run, for the agent, or for one above it."""
    for model in (config.model, *(agent.model for agent in reversed(path))):
        if isinstance(model, str | ModelLike):
            return model
        if model is not None:
            raise CompileError(
                f"{model!r} is not a model",
                where=f"{path[-1].name}.model",
                hint="pass a model's name, or an object with `name` and `dialect`",
            )
    return None


def default_model() -> str:
    """The model of agents for which nobody wrote one down."""
    return os.environ.get("WEFT_MODEL", "").strip() or "local"


def _require_public(name: str) -> None:
    """Refuse a name with a login or a query in it: names are shown, and kept in the log."""
    address, _, model = name.partition("#")
    _, there, rest = address.partition("://")
    host = rest.partition("/")[0]
    if there and ("@" in host or "?" in rest):
        raise CompileError(
            f"the name of the model `{model}` holds a login or a query in its address",
            where="model",
            hint="pass a model object of weft.models with base_url= and api_key=, or set"
            " WEFT_API_KEY",
        )


def _target_of(model: str | ModelLike, agent: Agent) -> Target:
    """Whom the request is for. A model object may speak another dialect than its name says."""
    if isinstance(model, str):
        _require_public(model)
        require_model_name(model, where=f"{agent.name}.model")
        facts = facts_for(model)
        return Target(model, facts.dialect, facts)
    facts = facts_for(model.name)
    # a model of one vendor on a server of another: its cache is that server's
    if facts.dialect.partition("-")[0] != model.dialect.partition("-")[0]:
        facts = facts._replace(cache=Cache(), late_system=False)
    return Target(model.name, model.dialect, facts._replace(dialect=model.dialect, known=True))


def _output_of(path: tuple[Agent, ...], target: Target, *, recalls: bool) -> Output | None:
    """The schema of the answer, and how this model is asked for it; None where there is none."""
    agent = path[-1]
    if agent.output_schema is None:
        return None
    declared, wrapped = wrap_root(
        schema.of_type(agent.output_schema, where=f"{agent.name}.output_schema")
    )
    facts = target.facts
    has_tools = bool(agent.tools) or bool(transfer_targets(path)) or recalls
    native = facts.native_schema and dialect_named(facts.dialect).takes_schema(declared)
    if native and (facts.schema_with_tools or not has_tools):
        how: Literal["native", "tool", "text"] = "native"
    else:
        how = "tool" if facts.tools else "text"
    name = getattr(agent.output_schema, "__name__", None) or f"{agent.name}_output"
    return Output(
        schema=declared,
        how=how,
        name=str(name),
        origin=Origin("field", "output_schema", agent.name),
        wrapped=wrapped,
    )


def _tools_of(
    path: tuple[Agent, ...], output: Output | None, dialect: str, *, recalls: bool
) -> tuple[ToolDecl, ...]:
    """All tools of a request: the agent's, then what hands over, recalls, and gives the answer."""
    agent = path[-1]
    for t in agent.tools:
        if isinstance(t.hosted, ProviderTool):
            _require_dialects(t.hosted, agent)
    offered = [t for t in agent.tools if not t.deferred]
    tools = [
        ToolDecl(
            t.name,
            describe_functions(t, offered) if t.runs_code else t.description,
            t.parameters,
            Origin("tool", t.name, agent.name),
            hosted=t.hosted,
            provider=dialect if dialect in t.extra else "",
            kept=t.extra.get(dialect),
            source=t.source[0] if t.source else "",
        )
        for t in offered
    ]
    targets = transfer_targets(path)
    if targets:
        tools.append(transfer_tool(agent, targets))
    if recalls:
        tools.append(recall_tool(agent))
    if output is not None and output.how == "tool":
        about = "Give the final answer. Call this once, when you are done, instead of replying."
        tools.append(ToolDecl(SET_RESPONSE, about, output.schema, output.origin))
    return tuple(tools)


def _require_dialects(tool: ProviderTool, agent: Agent) -> None:
    """Refuse a spelling for a dialect that there is not: it would never be sent.

    It is told here and not where the tool is declared, since a dialect may be registered later.
    """
    for name in tool.spelled:
        try:
            dialect_named(name)
        except UsageError as error:
            raise DeclarationError(
                error.message, where=f"{agent.name}: ProviderTool {tool.name}", hint=error.hint
            ) from None


def _config(agent: Agent, config: RunConfig) -> tuple[JsonObject, dict[str, Origin]]:
    declared = Origin("field", "generate_config", agent.name)
    origins = dict.fromkeys(agent.generate_config, declared)
    origins.update({name: Origin("config", name) for name in config.generate_config})
    layers = (agent.generate_config, config.generate_config)
    return merge(*layers) if any(layers) else {}, origins


def _cache(asked: Json, target: Target, origins: dict[str, Origin]) -> tuple[str, list[Diagnostic]]:
    """Whether to ask the provider to keep what it reads, and what is wrong with how it was asked.

    A model that keeps things in another way, or not at all, is not asked.
    """
    cache = target.facts.cache
    if asked is False or not (cache.breakpoints or cache.keyed):
        return "", []
    if asked is True or asked in cache.ttls:
        return "on" if asked is True else str(asked), []
    known = " or ".join(f'"{ttl}"' for ttl in cache.ttls)
    return "on", [
        report(
            "WEFT702",
            origins.get("cache", Origin("config", "cache")),
            f"`{target.model}` cannot keep what it reads for {asked}",
            f"write cache={known}" if known else "leave it out: the model decides for itself",
        )
    ]


def _appends(asked: Json, target: Target, wording: Wording) -> Literal["", "system", "user"]:
    """In whose name an instruction that changed is sent after the conversation, if at all."""
    if asked == "rewrite" or all(source.finished for source in wording.sources):
        return ""
    if target.facts.late_system:
        return "system"
    return "user" if asked == "append" else ""


def _append_from(target: Target, wording: Wording, tools: tuple[ToolDecl, ...]) -> int:
    """How many letters must be said until a request is long enough to be reused, roughly.

    0 for an instruction that never changes: nothing is appended to its requests.
    """
    if all(source.finished for source in wording.sources):
        return 0
    # letters, not tokens: this decides roughly, and the same in every session
    head = sum(len(tool.description) + len(compact(tool.parameters)) for tool in tools)
    head += sum(len(_wording_text(one)) for one in wording.sources if one.block or one.field)
    return max(0, target.facts.cache.minimum * LETTERS - head)


def _check_declaration(agent: Agent, target: Target, *, root: bool) -> list[Diagnostic]:
    """What there is to say about the declaration itself."""
    diagnostics = [
        report(
            "WEFT301",
            Origin("tool", tool.name, agent.name),
            "the tool has no description, so the model has only its name to decide by",
            "give the function a docstring, or @tool(description=...)",
        )
        for tool in agent.tools
        if not tool.documented
    ]
    diagnostics += [
        report(
            "WEFT303",
            Origin("tool", source.name, agent.name),
            f"the toolset `{source.name}` is asked in a run, and the log has no answer of it",
            "pass the session of a run: weft.compile(agent, session=result.session)",
        )
        for source in agent.tool_sources
    ]
    deferred = [tool for tool in agent.tools if tool.deferred]
    if deferred:
        meter = dialect_named(target.dialect).meter(target.model)
        saved = sum(_declared_tokens(tool, meter) for tool in deferred)
        diagnostics.append(
            report(
                "WEFT305",
                Origin("field", "tools", agent.name),
                f"{len(deferred)} tools are found with `find_tools`: each request saves {saved:,}"
                " tokens",
                "declare all of them with defer=False, or a few with only=",
            )
        )
    if not root and agent.global_instruction is not None:
        diagnostics.append(
            report(
                "WEFT103",
                Origin("field", "global_instruction", agent.name),
                "only the root's global_instruction is sent",
                "move it to the root, or into this agent's instruction",
            )
        )
    extra = agent.generate_config.get("extra")
    diagnostics += [
        report(
            "WEFT702",
            Origin("field", "generate_config", agent.name),
            f"`extra` is for `{name}`, which is not a dialect",
            f"use one of {', '.join(DIALECTS)}",
        )
        for name in (extra if isinstance(extra, dict) else ())
        if name not in DIALECTS
    ]
    return diagnostics
