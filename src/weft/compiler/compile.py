"""The front door: a declaration and a session become a compiled request.

Pure and synchronous: no model, no network. What the declaration alone decides comes from its
plan, what the log decides from its threads, so one more step costs what it added. Everything
that may not be needed (lowering, counting, hashing, the report) is done when it is asked for.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, cast

import msgspec
from msgspec.structs import replace

from weft.compiler.caching import ending_of
from weft.compiler.changes import deliver, first_instructions, is_long, recorded_by
from weft.compiler.compiled import Compilation, Compiled
from weft.compiler.count import Scale
from weft.compiler.incremental import (
    WHOLE,
    Basis,
    LateResult,
    Slot,
    Woven,
    note_late,
    skipped_talk,
    weave,
)
from weft.compiler.instruction import (
    Instructions,
    ReadonlyContext,
    Scope,
    Wording,
    decide_condition,
    resolve_instructions,
)
from weft.compiler.items import WireTarget
from weft.compiler.plan import SET_RESPONSE, ModelLike, Plan, output_for, plan_for
from weft.compiler.protected import Whole, require_valid, shown_item, withheld_by, without_labelled
from weft.compiler.tools import DEFAULT, equip, offered_in, tools_in
from weft.content import ContentLike, require_posted, to_content
from weft.declare import Agent, Node, Policy, RunConfig, TokenBudget
from weft.declare.agent import find_path
from weft.declare.config import find_missing_inputs
from weft.declare.hints import RUN_WORDS
from weft.declare.policy_parts import Budget
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin, report
from weft.dialects.wire import is_encodable, scrub_surrogates
from weft.errors import CompileError, MissingVariable, describe_kind
from weft.ir import Feature, Prompt, TextBlock
from weft.ir.prompt import NO_NOTES
from weft.misuse import wrong_call
from weft.passes import Env, Passes, Step, passes_of, run
from weft.passes.env import (
    NO_INSTRUCTION,
    NO_SESSION,
    NO_TOKENS,
    InstructionFacts,
    SessionFacts,
    TokenFacts,
)
from weft.session import Event, Session
from weft.session.event import seen_from
from weft.session.lookback import LogFacts, effects_of, facts_of, start_of, user_content
from weft.session.strand import Strand, skim_of
from weft.values import Json, JsonObject, require_object

if TYPE_CHECKING:
    from weft.passes.labels import Labelled

__all__ = ["SET_RESPONSE", "ModelLike", "compile", "compile_request", "output_for"]


def compile_request(
    root: Agent,
    /,
    *,
    state: Mapping[str, Json] | None = None,
    message: ContentLike | None = None,
    session: Session | None = None,
    agent: str | None = None,
    config: RunConfig | None = None,
    branch: str | None = None,
    artifacts: Mapping[str, str] | None = None,
    recorded: Mapping[str, str] | None = None,
    within: int | None = None,
    part_of: Whole | None = None,
    deps: object = None,
    brief: bool = False,
) -> Compilation:
    """Compile one request for `root`, or for the agent of its tree named by `agent`.

    `state` is laid over the session's. `message` is what the user says now. `branch` is where in
    a parallel flow the agent stands. `artifacts` has the newest text of each. `recorded` is what
    instruction providers said before, so that a request is rebuilt without asking them. `within`
    is the most tokens, whatever the agent's own budget allows. `part_of` has the labels and the
    session of the program, where `root` and `session` are only a part of it. `deps` is handed to
    instruction providers. `brief` says that nobody will ask why an event is not in the request,
    so events that no request can show need not be read.
    """
    # the runtime passes the right kinds at every step: the checks run only where one may be wrong
    if (
        type(session) is not Session
        or (config is not None and type(config) is not RunConfig)
        or (branch is not None and type(branch) is not str)
        or artifacts is not None
        or recorded is not None
    ):
        _require_kinds(session, config, branch, artifacts, recorded)
    call = _Call(
        root,
        session if session is not None else _new_session(),
        config if config is not None else DEFAULT,
        state,
        agent,
        branch or "",
        artifacts or {},
        recorded or {},
        within,
        part_of,
        deps,
        brief,
    )
    inputs = _gather_inputs(call, message)
    instructions = _write_instructions(call, inputs)
    view = _look_at_log(call, inputs, instructions)
    return _make_request(call, inputs, instructions, view)


def _new_session() -> Session:
    """A session of which nothing is known, for a request without one."""
    return Session.restored(
        "",
        app_name="",
        user_id="",
        initial={},
        state={},
        events=Strand(),
        last_update_time=0.0,
    )


class _Call(msgspec.Struct, frozen=True):
    """What `compile` was called with."""

    root: Agent
    session: Session
    config: RunConfig
    state: Mapping[str, Json] | None
    agent: str | None
    branch: str
    artifacts: Mapping[str, str]
    recorded: Mapping[str, str]
    within: int | None
    part_of: Whole | None
    deps: object
    brief: bool = False


class _Inputs(msgspec.Struct, frozen=True):
    """Step 1: the plan of the declaration, the log, and the state that the agent sees."""

    plan: Plan
    events: Strand[Event]
    """The log, and after it what the user says now."""
    invocation: str
    state: JsonObject
    facts: LogFacts
    lacks: tuple[Diagnostic, ...]
    """What is said of declared inputs that the state does not hold."""


_NO_FACTS = LogFacts()


class _InstructionDelivery(msgspec.Struct, frozen=True):
    """Step 2: the instructions, and how they are sent."""

    instructions: Instructions
    system: tuple[TextBlock, ...]
    features: int
    inserted: JsonObject
    """The state values that the system text inserts."""
    changes: tuple[TextBlock, ...] = ()
    """What is said after the conversation, because it has changed."""


class _View(msgspec.Struct, frozen=True):
    """Step 3: what the agent sees of the log, and with what the passes on it were run."""

    policy: Policy
    passes: Passes
    env: Env
    scale: Scale | None
    """Counts tokens; None in a plain request, where nothing asks for that."""
    labelled: "Labelled | None"
    woven: Woven


def _gather_inputs(call: _Call, message: ContentLike | None) -> _Inputs:
    """Find the plan, and what the log and the state hold for it."""
    session, config = call.session, call.config
    labels = call.part_of.labels if call.part_of is not None else ()
    log = session.events
    # tools that a toolset gave are in the log: a request compiled again offers the same ones
    facts = facts_of(log) if log.length else _NO_FACTS
    offered = _with_offered(call.root, call.agent, log)
    plan = plan_for(offered, call.agent, config, labels, facts.untrusted)
    events = log if message is None else _with_message(log, message)
    newest = events.tip
    invocation = newest.invocation_id if newest is not None else ""
    # `temp:` keys belong to one invocation, and a new message begins another
    state = session.state if message is None else session.state_for(invocation)
    # what parallel branches write is not seen by each other until they join
    if call.branch and facts.forks:
        state = seen_from(state, facts.forks, call.branch)
    if call.state is not None:
        state = {**state, **require_object(call.state, where="state")}
    lacks = _lacking(plan, state, strict=config.strict) if plan.inputs else ()
    return _Inputs(plan, events, invocation, state, facts, lacks)


def _with_offered(root: Agent, agent: str | None, events: Strand[Event]) -> Agent:
    """The root in which the agent that is asked has the tools that the log says it was offered."""
    if type(root) is not Agent and not isinstance(cast("object", root), Agent):
        return root  # whoever makes the plan says what is wrong, also with the name
    path: tuple[Node, ...] = (root,)
    if isinstance(agent, str) and agent != root.name:
        # most programs have no toolsets, and this is asked at every step
        path = find_path(root, agent) if root.has_tool_sources else ()
    asked = path[-1] if path else None
    if not isinstance(asked, Agent) or not asked.tool_sources:
        return root
    offered = offered_in(events, asked.name)
    return root if offered is None else equip(root, asked.name, tools_in(offered), source="log")


def _write_instructions(call: _Call, inputs: _Inputs) -> _InstructionDelivery:
    """Write the system text, or take it from the request before where nothing in it changed."""
    plan, config, log = inputs.plan, call.config, call.session.events
    asked, volatile = plan.agent, inputs.facts.volatile
    instructions = None
    # recorded texts rebuild an old request: the newest one's instructions are not its own
    if not call.recorded:
        instructions = _reuse_instructions(plan, log, inputs.state, call.artifacts, volatile)
    if instructions is None:
        context = partial(
            _context,
            asked.name,
            inputs.state,
            inputs.events,
            inputs.invocation,
            call.artifacts,
            call.deps,
        )
        scope = Scope(
            inputs.state,
            call.artifacts,
            context,
            "error" if config.strict else config.on_missing or asked.on_missing,
            config.on_provider_error or asked.on_provider_error,
            volatile,
            call.recorded,
        )
        instructions = _resolve_instructions(
            plan, inputs.events, scope, _provided_key(call, inputs.events)
        )
    # too short for a provider to reuse: then the system text itself may change
    if not plan.appends or not is_long(log, plan.append_from):
        return _InstructionDelivery(
            instructions, instructions.system, instructions.features, instructions.carried
        )
    first = first_instructions(
        plan.wording,
        call.session,
        asked.name,
        call.branch,
        state=call.state or {},
        artifacts=call.artifacts,
        on_missing=config.on_missing or asked.on_missing,
        least=plan.append_from,
    )
    sent = deliver(instructions, first, plan.appends)
    return _InstructionDelivery(
        instructions, sent.system, sent.features, sent.carried, sent.changes
    )


def _look_at_log(call: _Call, inputs: _Inputs, delivered: _InstructionDelivery) -> _View:
    """Run the passes on what is new in the log; the rest is as the request before had it."""
    plan, events = inputs.plan, inputs.events
    policy, passes = plan.policy, plan.passes
    if policy.facts.is_conditional:
        # a condition may hold now and not in the next request, so its passes cannot be the plan's
        policy = policy.resolved(inputs.state, decide_condition)
        passes = passes_of(policy, plan.agent.name, plan.custom)
    carried, captured = _find_carried_values(call, inputs, delivered, policy)
    budget = _budget(plan.budget, call.within)
    # Decided once: no pass of a plain request counts tokens, or asks where its turn begins.
    plain = passes.plain and policy.limit is None and budget is None
    instruction = NO_INSTRUCTION
    if carried or delivered.changes or not plain:
        instruction = InstructionFacts(
            carried=carried,
            captured=captured,
            inserted=delivered.inserted,
            changes=delivered.changes,
        )
    scale, session, tokens = None, NO_SESSION, NO_TOKENS
    if not plain:
        session = SessionFacts(
            id=call.session.id,
            state=inputs.state,
            artifacts=call.artifacts,
            effects=effects_of(call.session.events),
            whole=call.part_of.session if call.part_of is not None else call.session,
        )
        scale = plan.shared.scale
        if scale is None:
            scale = plan.shared.scale = Scale(plan.target.dialect, plan.target.model)
        counter = scale.counter
        tokens = TokenFacts(count=counter.count, margin=counter.margin, budget=budget)
    # nothing depends on where the turn begins: the thread grows from one turn to the next
    whole = plain and policy.facts.view == "default"
    env = Env(
        agent=plan.agent.name,
        policy=policy,
        branch=call.branch,
        invocation=inputs.invocation,
        turn=0 if whole else start_of(events, inputs.invocation),
        log=events,
        session=session,
        model=plan.facts,
        tokens=tokens,
        tools=plan.tool_facts,
        instruction=instruction,
    )
    labelled = withheld_by(policy, env) if policy.protections else None
    slot = plan.slot
    # another branch, or another outcome of the conditions, sees other items: another thread
    if call.branch or policy is not plan.policy:
        same = passes.plain is plan.passes.plain
        large = plan.slot.measure if same else plan.measure
        spelled = plan.slot.view if policy is plan.policy else str(policy)
        slot = Slot(plan.agent.name, call.branch, spelled, large)
    basis = _basis(env, inputs.facts, labelled)
    start = skipped_talk(events, env, basis) if call.brief and not call.branch else 0
    if start:
        try:
            # the start of a long log is left unread, if the window drops all of it anyway
            brief = msgspec.structs.replace(basis, start=start, skim=skim_of(events))
            woven = weave(events, inputs.facts, slot, brief, env, passes)
            return _View(policy, passes, env, scale, labelled, woven)
        except LateResult:
            # something in view refers to a call that was not read: from now on all of it is
            note_late(events)
    # Nobody looks at the items of a plain request that is only to be sent.
    sends = call.brief and whole and labelled is None and not call.config.strict
    target = WireTarget(plan.target.dialect, plan.target.model) if sends else None
    woven = weave(events, inputs.facts, slot, basis, env, passes, target)
    return _View(policy, passes, env, scale, labelled, woven)


def _find_carried_values(
    call: _Call, inputs: _Inputs, delivered: _InstructionDelivery, policy: Policy
) -> tuple[JsonObject, frozenset[str]]:
    """State values that the instruction inserts and the log also has; which are the user's words.

    The passes leave such a turn out of the conversation: the model would read it twice.
    """
    facts, state = inputs.facts, inputs.state
    inserted = delivered.inserted
    # the common case: no answer was stored under a key, so nothing can be said twice
    if not facts.produced and not facts.captured and call.state is None:
        return {}, facts.captured
    if policy.facts.state_keys:
        inserted = {**{k: state[k] for k in policy.facts.state_keys if k in state}, **inserted}
    captured = facts.captured
    # a `temp:` key that was captured is not in the log: it is known by its text
    if call.state is not None and any(key.startswith("temp:") for key in inserted):
        content = user_content(inputs.events, inputs.invocation)
        captured |= {k for k, v in inserted.items() if content is not None and v == content.text}
    if not facts.produced and not captured:
        return {}, captured
    carried = {k: v for k, v in inserted.items() if k in facts.produced or k in captured}
    if not is_encodable(carried):  # items have their texts as they are sent
        carried = {key: scrub_surrogates(value) for key, value in carried.items()}
    return carried, frozenset(captured & carried.keys())


def _basis(env: Env, facts: LogFacts, labelled: "Labelled | None") -> Basis:
    """What the items of a thread depend on besides the log."""
    start = 0 if env.policy.facts.view == "default" else env.turn
    carried = env.instruction.carried
    if not start and not carried and facts.reaches_back < 0 and labelled is None:
        return WHOLE
    return Basis(
        start,
        tuple(sorted([(k, v if type(v) is str else to_text(v)) for k, v in carried.items()])),
        facts.reaches_back,
        # what the user says now stays in view, whatever a summary stands for
        env.invocation if facts.reshaped >= 0 else "",
        labelled.all if labelled is not None else (),
    )


def _make_request(
    call: _Call, inputs: _Inputs, delivered: _InstructionDelivery, view: _View
) -> Compilation:
    """Put the request together, and run the passes that look at all of it."""
    plan, woven, env = inputs.plan, view.woven, view.env
    instructions, policy = delivered.instructions, view.policy
    tools = plan.tools
    # a long result was shortened: the model gets the tool that shows the rest
    if woven.features & Feature.BOUNDED and plan.recall is not None:
        tools = (*tools, plan.recall)
    prompt = Prompt(
        plan.target.model,
        plan.agent.name,
        delivered.system,
        woven.items,
        tools,
        {**plan.config},
        plan.origins,
        plan.output,
        woven.features | delivered.features,
        NO_NOTES,
        plan.diagnostics + inputs.lacks + instructions.diagnostics + woven.diagnostics,
        plan.cache,
    )
    if view.scale is not None:
        measure = partial(view.scale.measure, changes=delivered.changes)
        tokens = msgspec.structs.replace(env.tokens, measure=measure)
        env = msgspec.structs.replace(env, tokens=tokens)
    steps: Sequence[Step] = ()
    # most requests of a tool loop need no pass at all
    if view.scale is not None or not is_ready(prompt, env):
        prompt, steps = run(prompt, env, view.passes.request)
        if call.config.strict:
            require_valid(prompt)
    ending = None
    if prompt.cache:
        ending = ending_of(plan, policy, prompt, inputs.events, inputs.invocation)
        if ending is not None:
            prompt = msgspec.structs.replace(prompt, keeps=ending.keeps)
    previous = partial(_previous, call, plan.agent)
    compiled = Compilation(prompt, plan, call.config, woven, steps, instructions.provided, previous)
    compiled.policy, compiled.passes, compiled.ending = policy, view.passes, ending
    compiled.log = call.session.events
    if instructions.reads:
        compiled.observed = instructions.reads
    if delivered.changes:
        compiled.instructions = instructions.system
    compiled.labelled = view.labelled
    if policy.protections:
        compiled.presentable = partial(shown_item, policy=policy, env=env)
    if view.labelled is not None and delivered.changes:
        compiled.instructions = without_labelled(instructions.system, prompt, policy, env)
    newest = inputs.events.tip
    if newest is not None:
        compiled.asked = newest.timestamp
    return compiled


def is_ready(prompt: Prompt, env: Env) -> bool:
    """Whether no pass that every request has would change it, so that none need be called."""
    last = prompt.items.tip
    return (
        not prompt.features & Feature.UNORDERED
        and env.tokens.budget is None
        and (env.model.picks_tools or not prompt.tools)
        and not (
            prompt.features & Feature.CALLS and env.model.calls_need_tools and not prompt.tools
        )
        and not env.instruction.changes
        and last is not None
        and last.blocks[-1].role == "user"
    )


def _lacking(plan: Plan, state: JsonObject, *, strict: bool) -> tuple[Diagnostic, ...]:
    """What is said of declared inputs that the state does not hold, or holds in another type."""
    lacks = [*find_missing_inputs(plan.inputs, state)]
    if lacks and strict:
        raise MissingVariable(lacks[0].problem, where=plan.agent.name, hint=lacks[0].hint)
    origin = Origin("field", "inputs", plan.agent.name)
    return tuple(report("WEFT117", origin, lack.problem, lack.hint) for lack in lacks)


def _budget(own: Budget | None, within: int | None) -> Budget | None:
    """The tighter of the agent's own budget and the one it is given now."""
    if within is None or (own is not None and own.tokens <= within):
        return own
    return replace(own if own is not None else TokenBudget(within).limit, tokens=within)


_TEXTS = frozenset((str,))


class _InstructionRecord(msgspec.Struct, frozen=True):
    """The instructions of the newest request, and what they were made of.

    `texts` are the state keys they read with what these held, where all of that was text.
    """

    wording: Wording
    read: tuple[object, ...]
    texts: tuple[tuple[str, object], ...] | None
    volatile: frozenset[str]
    instructions: Instructions


def _reuse_instructions(
    plan: Plan,
    log: Strand[Event],
    state: JsonObject,
    artifacts: Mapping[str, str],
    volatile: frozenset[str],
) -> Instructions | None:
    """The instructions of the request before, if nothing that they read has changed."""
    known = log.memo.of((_InstructionRecord, plan.key))
    # the log is new, or the agent has changed; a text without variables is the plan's own
    if known is None or known.wording is not plan.wording:
        return plan.shared.instructions
    # a key that an agent wrote since makes its block less stable, and blocks are in that order
    if known.volatile is not volatile and known.volatile != volatile:
        return None
    if known.texts is None:
        same = known.read == known.wording.read(state, artifacts)
        return known.instructions if same else None
    for key, text in known.texts:
        if state.get(key) != text:
            return None
    return known.instructions


def _resolve_instructions(
    plan: Plan, events: Strand[Event], scope: Scope, key: tuple[str, int] | None
) -> Instructions:
    """The instructions now, kept with the log for the request that follows.

    What a provider says is kept only to rebuild this very request; where a variable must be
    reported as missing, nothing is.
    """
    wording = plan.wording
    instructions = resolve_instructions(wording, scope)
    if instructions.provided:
        if key is not None and events.memo.of((_ProviderTexts, plan.agent.name, *key)) is None:
            events.memo.keep(_ProviderTexts(instructions.provided), plan.agent.name, *key)
        return instructions
    read = wording.read(scope.state, scope.artifacts)
    if read is not None:
        texts = None
        if wording.keys is not None and _TEXTS.issuperset(map(type, read)):
            texts = tuple(zip(wording.keys, read, strict=True))
            # it reads nothing at all: every session of the plan has the same instructions
            if not texts and not wording.asks:
                plan.shared.instructions = instructions
        resolved = _InstructionRecord(wording, read, texts, scope.volatile, instructions)
        events.memo[_InstructionRecord, plan.key] = resolved
    return instructions


def _context(
    agent: str,
    state: JsonObject,
    events: Strand[Event],
    invocation: str,
    artifacts: Mapping[str, str],
    deps: object,
) -> ReadonlyContext:
    """What an instruction provider is handed."""
    return ReadonlyContext(
        agent_name=agent,
        state=state,
        events=events,
        invocation_id=invocation,
        user_content=user_content(events, invocation),
        artifacts=artifacts,
        deps=deps,
    )


def _previous(call: _Call, asked: Agent) -> Compilation | None:
    """The request that led to this agent's last answer, rebuilt from the log.

    It was sent, so a variable that has no value in it is not a reason to refuse it; what `state`
    adds to the session's now, it had then.
    """
    session, config, part_of = call.session, call.config, call.part_of
    lenient = msgspec.structs.replace(
        config,
        strict=False,
        on_missing="empty" if (config.on_missing or asked.on_missing) == "empty" else "keep",
        on_provider_error="log",
    )
    # from the end: the agent's last answer is rarely far back
    for index in range(len(session.events) - 1, -1, -1):
        event = session.events[index]
        spoke = event.content is not None and event.content.role != "user"
        if event.author == asked.name and spoke and (event.branch or "") == call.branch:
            before = compile_request(
                call.root,
                # a key of the session had its own value then, which `before` gives
                state={k: v for k, v in (call.state or {}).items() if k not in session.state},
                session=session.before(index),
                agent=asked.name,
                config=lenient,
                branch=call.branch or None,
                artifacts=call.artifacts,
                recorded=recorded_by(event) or _recall_provider_texts(call, asked.name, index),
                within=event.provenance.within,
                part_of=part_of.before(event) if part_of is not None else None,
                deps=call.deps,
            )
            before.usage, before.answered = event.usage, event.timestamp
            before.known = event.provenance.known
            return before
    return None


def _provided_key(call: _Call, events: Strand[Event]) -> tuple[str, int] | None:
    """Where what providers said is kept, after the agent's name; None where it is not kept.

    A message that is not stored, or a state that only the caller knows, is not in the log.
    """
    return None if events.tail or call.state else (call.branch, events.length)


def _recall_provider_texts(call: _Call, asked: str, length: int) -> dict[str, str]:
    """What providers said when this process compiled the log at that length."""
    key = _provided_key(call, call.session.events.first(length))
    provided = (
        call.session.events.memo.of((_ProviderTexts, asked, *key)) if key is not None else None
    )
    return dict(provided.texts) if provided is not None else {}


class _ProviderTexts(msgspec.Struct, frozen=True):
    """What instruction providers said for one request."""

    texts: Mapping[str, str]


def _require_kinds(
    session: object, config: object, branch: object, artifacts: object, recorded: object
) -> None:
    """Refuse what is not a session, a config, a branch or a mapping."""
    for name, value, kind, hint in (
        ("session", session, Session, "pass a weft.Session; Session.from_json reads JSON"),
        ("config", config, RunConfig, "pass weft.RunConfig(...)"),
        ("branch", branch, str, 'pass text, such as "fan.left"'),
        ("artifacts", artifacts, Mapping, 'pass {"name": "text"}'),
        ("recorded", recorded, Mapping, "pass what Compiled.provided holds"),
    ):
        if value is not None and not isinstance(value, kind):
            raise CompileError(f"{name} is {describe_kind(value)}", where="compile", hint=hint)
    for artifact, text in cast("Mapping[object, object]", artifacts or {}).items():
        if not isinstance(text, str):
            raise CompileError(
                f"the artifact `{artifact}` is {describe_kind(text)}",
                where="compile",
                hint="pass its newest text",
            )


def _with_message(events: Strand[Event], message: ContentLike) -> Strand[Event]:
    """The log, and after it what the user says now, which is not stored."""
    posted = Event(
        author="user",
        content=require_posted(to_content(message), where="message"),
        # no clock and no new id: the same log and message give the same bytes
        invocation_id=f"message@{events.length}",
        id="message",
        timestamp=0.0,
    )
    return events.with_tail([posted])


P = ParamSpec("P")


def _as_public(build: Callable[P, Compilation]) -> Callable[P, Compiled]:
    """The same function, with a result that has only public names; a wrong call says what to type.

    Both in one wrapper, because every step goes through it.
    """

    @wraps(build, assigned=("__doc__", "__module__"))
    def compile(*args: P.args, **kwargs: P.kwargs) -> Compiled:
        try:
            return Compiled(build(*args, **kwargs))
        except TypeError:
            example = 'weft.compile(agent, message="...")'
            wrong = wrong_call(inspect.signature(build), args, kwargs, example, RUN_WORDS)
            if wrong is None:  # the call is right: the error is from inside
                raise
            raise wrong from None

    return compile


compile = _as_public(compile_request)
