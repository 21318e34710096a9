"""The front door: a declaration and a session become a compiled request.

Pure and synchronous: no model, no network. What the declaration alone decides comes from its
plan, what the log decides from its threads, so one more step costs what it added. Everything
that may not be needed (lowering, counting, hashing, the report) is done when it is asked for.
"""

from collections.abc import Mapping
from functools import partial
from typing import cast

import msgspec

from weft.codes import report
from weft.compiler.caching import known_by
from weft.compiler.changes import deliver, first_instructions, is_long, recorded_by
from weft.compiler.compiled import Compiled
from weft.compiler.costs import shares_of
from weft.compiler.count import Scale
from weft.compiler.incremental import WHOLE, Basis, Slot, facts_of, weave
from weft.compiler.inputs import ReadonlyContext, decided, effects_of, start_of, user_content
from weft.compiler.instruction import Instructions, Scope, Wording, resolve_instructions
from weft.compiler.plan import SET_RESPONSE, ModelLike, Plan, output_for, plan_for
from weft.compiler.protected import Whole, require_valid, shown_item, withheld_by, without_labelled
from weft.content import ContentLike, require_posted, to_content
from weft.declare import Agent, RunConfig, TokenBudget
from weft.declare.inputs import lacking
from weft.declare.policy_parts import RUN_WORDS
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin
from weft.errors import CompileError, MissingVariable
from weft.ir import Feature, Prompt, TextBlock
from weft.misuse import explained
from weft.passes import Env, Step, is_ready, passes_of, run
from weft.session import Event, Session
from weft.session.state import seen_from
from weft.values import Json, JsonObject, Strand, require_object

__all__ = ["SET_RESPONSE", "ModelLike", "compile", "output_for"]

_DEFAULT = RunConfig()


@explained('weft.compile(agent, message="...")', words=RUN_WORDS)
def compile(
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
) -> Compiled:
    """Compile one request for `root`, or for the agent of its tree named by `agent`.

    `state` is laid over the session's, `message` is what the user says now, `branch` where in a
    parallel flow the agent stands, `artifacts` the newest text of each, `recorded` what
    instruction providers said before, so that a request can be rebuilt without asking them,
    `within` the tokens it must not exceed, whatever the agent's own budget allows, `part_of` the
    labels and the session of a program of which `root` and `session` are only a part.
    """
    if (
        type(session) is not Session
        or (config is not None and type(config) is not RunConfig)
        or (branch is not None and type(branch) is not str)
        or artifacts is not None
        or recorded is not None
    ):
        _require_kinds(session, config, branch, artifacts, recorded)
    config = config if config is not None else _DEFAULT
    session = session if session is not None else Session()
    plan = plan_for(root, agent, config, part_of.labels if part_of is not None else ())
    asked, log = plan.agent, session.events
    events = log if message is None else _with_message(log, message)
    newest = events.tip
    invocation = newest.invocation_id if newest is not None else ""
    known = session.state if message is None else session.state_for(invocation)
    facts = facts_of(log)
    if branch and facts.forks:
        known = seen_from(known, facts.forks, branch)
    if state is not None:
        known = {**known, **require_object(state, where="state")}
    lacks = _lacking(plan, known, strict=config.strict) if plan.inputs else ()
    instructions = None if recorded else _kept(plan, log, known, artifacts, facts.volatile)
    if instructions is None:
        scope = Scope(
            known,
            artifacts or {},
            partial(_context, asked.name, known, events, invocation, artifacts),
            "error" if config.strict else config.on_missing or asked.on_missing,
            config.on_provider_error or asked.on_provider_error,
            facts.volatile,
            recorded or {},
        )
        instructions = _resolved(plan, events, scope)
    system, features, inserted = instructions.system, instructions.features, instructions.carried
    changes: tuple[TextBlock, ...] = ()
    if plan.appends and is_long(log, plan.append_from):
        first = first_instructions(
            plan.wording,
            session,
            asked.name,
            branch or "",
            state=state or {},
            artifacts=artifacts or {},
            on_missing=config.on_missing or asked.on_missing,
            least=plan.append_from,
        )
        system, features, changes, inserted = deliver(instructions, first, plan.appends)
    policy, passes = plan.policy, plan.passes
    if policy.is_conditional:
        policy = policy.resolved(known, decided)
        passes = passes_of(policy, asked.name)
    carried: JsonObject = {}
    shown: JsonObject = inserted
    if policy.state_keys:
        shown = {**{k: known[k] for k in policy.state_keys if k in known}, **inserted}
    captured = facts.captured
    if state is not None and any(k.startswith("temp:") for k in shown):
        said = user_content(events, invocation)
        captured |= {k for k, v in shown.items() if said is not None and v == said.text}
    if facts.produced or captured:
        carried = {k: v for k, v in shown.items() if k in facts.produced or k in captured}
    view = policy.view
    whole = passes.plain and view == "default" and policy.limit is None
    turn = 0 if whole else start_of(events, invocation)
    start = 0 if view == "default" else turn
    env = Env(
        agent=asked.name,
        dialect=plan.target.dialect,
        branch=branch or "",
        invocation=invocation,
        turn=turn,
        policy=policy,
        carried=carried,
        captured=captured & carried.keys() if captured else captured,
        budget=_budget(asked, within),
        changes=changes,
        picks_tools=plan.target.facts.picks_tools,
        log=events,
        tools=plan.own,
        recall=plan.recall,
    )
    budgeted = env.budget is not None or policy.limit is not None
    scale = Scale(plan.target.dialect, plan.target.model) if budgeted or not passes.plain else None
    if scale is not None:
        shares = shares_of(plan.target.facts.cache, kept=plan.cache)
        env = msgspec.structs.replace(
            env,
            told=inserted,
            count=scale.counter.count,
            margin=scale.counter.margin,
            session=session.id,
            state=known,
            artifacts=artifacts or {},
            effects=effects_of(log),
            cleared=frozenset(asked.cleared),
            model=plan.target.model,
            window=plan.target.facts.window,
            read=shares.read,
            write=shares.write,
            widest=partial(_window, plan.target.model),
            whole=part_of.session if part_of is not None else session,
        )
    labelled = withheld_by(policy, env)
    basis = WHOLE
    if start or carried or facts.reaches_back >= 0 or labelled is not None:
        basis = Basis(
            start,
            tuple(sorted((k, to_text(v)) for k, v in carried.items())),
            facts.reaches_back,
            invocation if facts.reaches_back >= 0 else "",
            labelled.all if labelled is not None else (),
        )
    slot = plan.slot
    if branch or policy is not plan.policy:
        same = passes.plain is plan.passes.plain
        large = plan.slot.measure if same else plan.measure
        spelled = plan.slot.view if policy is plan.policy else str(policy)
        slot = Slot(asked.name, branch or "", spelled, large)
    thread, woven = weave(events, slot, basis, env, passes)
    tools = plan.tools
    if woven.features & Feature.BOUNDED and plan.recall is not None:
        tools = (*tools, plan.recall)
    prompt = Prompt(
        plan.target.model,
        asked.name,
        system,
        woven.items,
        tools,
        {**plan.config},
        plan.origins,
        plan.output,
        woven.features | features,
        (),
        plan.diagnostics + lacks + instructions.diagnostics + woven.diagnostics,
        plan.cache,
    )
    if scale is not None:
        measure = partial(scale.measure, thread=thread, changes=changes)
        env = msgspec.structs.replace(env, measure=measure)
    steps: list[Step] = []
    if not passes.plain or policy.limit is not None or not is_ready(prompt, env):
        prompt, steps = run(prompt, env, passes.request)
        if config.strict:
            require_valid(prompt)
    previous = partial(_previous, root, asked, session, state, config, branch, artifacts, part_of)
    made = Compiled(prompt, plan, config, woven, steps, instructions.provided, thread, previous)
    made.policy, made.passes = policy, passes
    if changes:
        made.instructions = instructions.system
    made.labelled = labelled
    if policy.protections:
        made.shown = partial(shown_item, policy=policy, env=env)
    if labelled is not None and changes:
        made.instructions = without_labelled(instructions.system, prompt, policy, env)
    if newest is not None:
        made.asked = newest.timestamp
    return made


def _lacking(plan: Plan, state: JsonObject, *, strict: bool) -> tuple[Diagnostic, ...]:
    """What is said of declared inputs that the state does not hold, or holds in another type."""
    lacks = [*lacking(plan.inputs, state)]
    if lacks and strict:
        raise MissingVariable(lacks[0].problem, where=plan.agent.name, hint=lacks[0].hint)
    origin = Origin("field", "inputs", plan.agent.name)
    return tuple(report("WEFT117", origin, lack.problem, lack.hint) for lack in lacks)


def _budget(agent: Agent, within: int | None) -> TokenBudget | None:
    """The tighter of the agent's own budget and the one it is given now."""
    own = agent.context_compressor
    if within is None or (own is not None and own.token_budget <= within):
        return own
    return TokenBudget(within, keep_recent=own.keep_recent if own is not None else 1)


def _window(model: str) -> int:
    """The model's window from the list of prices, loaded for a request that may not fit it."""
    from weft.compiler.costs import window_of

    return window_of(model)


class _Said(msgspec.Struct, frozen=True):
    """The instructions of the newest request, and what they were made of.

    `texts` are the state keys they read with what these held, where all of that was text.
    """

    wording: Wording
    read: tuple[object, ...]
    texts: tuple[tuple[str, object], ...] | None
    volatile: frozenset[str]
    instructions: Instructions


def _kept(
    plan: Plan,
    log: Strand[Event],
    state: JsonObject,
    artifacts: Mapping[str, str] | None,
    volatile: frozenset[str],
) -> Instructions | None:
    """The instructions of the request before, if nothing that they read has changed."""
    held = log.memo.get(plan.key)
    if not isinstance(held, _Said) or held.wording is not plan.wording:
        return plan.shared.instructions
    if held.volatile is not volatile and held.volatile != volatile:
        return None
    if held.texts is None:
        same = held.read == held.wording.read(state, artifacts or {})
        return held.instructions if same else None
    for key, text in held.texts:
        if state.get(key) != text:
            return None
    return held.instructions


def _resolved(plan: Plan, events: Strand[Event], scope: Scope) -> Instructions:
    """The instructions now, kept with the log for the request that follows.

    What a provider says is kept only to rebuild this very request; where a variable must be
    reported as missing, nothing is.
    """
    wording = plan.wording
    instructions = resolve_instructions(wording, scope)
    if instructions.provided:
        said = ("provided", plan.agent.name, len(events))
        events.memo.setdefault(said, instructions.provided)
        return instructions
    read = wording.read(scope.state, scope.artifacts)
    if read is not None:
        texts = None
        if wording.keys is not None and all(isinstance(held, str) for held in read):
            texts = tuple(zip(wording.keys, read, strict=True))
            if not texts and not wording.asks:
                plan.shared.instructions = instructions
        events.memo[plan.key] = _Said(wording, read, texts, scope.volatile, instructions)
    return instructions


def _context(
    agent: str,
    state: JsonObject,
    events: Strand[Event],
    invocation: str,
    artifacts: Mapping[str, str] | None,
) -> ReadonlyContext:
    """What an instruction provider is handed."""
    return ReadonlyContext(
        agent_name=agent,
        state=state,
        events=events,
        invocation_id=invocation,
        user_content=user_content(events, invocation),
        artifacts=artifacts,
    )


def _previous(
    root: Agent,
    asked: Agent,
    session: Session,
    state: Mapping[str, Json] | None,
    config: RunConfig,
    branch: str | None,
    artifacts: Mapping[str, str] | None,
    part_of: Whole | None,
) -> Compiled | None:
    """The request that led to this agent's last answer, rebuilt from the log.

    It was sent, so a variable that has no value in it is no reason to refuse it; what `state`
    adds to the session's now, it had then.
    """
    lenient = msgspec.structs.replace(
        config,
        strict=False,
        on_missing="empty" if (config.on_missing or asked.on_missing) == "empty" else "keep",
        on_provider_error="log",
    )
    for index in range(len(session.events) - 1, -1, -1):
        event = session.events[index]
        spoke = event.content is not None and event.content.role != "user"
        if event.author == asked.name and spoke and (event.branch or "") == (branch or ""):
            found = compile(
                root,
                state={
                    key: held for key, held in (state or {}).items() if key not in session.state
                },
                session=session.before(index),
                agent=asked.name,
                config=lenient,
                branch=branch,
                artifacts=artifacts,
                recorded=recorded_by(event) or _provided(session, asked.name, index),
                within=_within(event),
                part_of=part_of.before(event) if part_of is not None else None,
            )
            found.usage, found.answered = event.usage, event.timestamp
            found.known = known_by(event.custom_metadata)
            return found
    return None


def _provided(session: Session, asked: str, length: int) -> dict[str, str]:
    """What providers said when this process compiled the log at that length."""
    held = session.events.memo.get(("provided", asked, length))
    return cast("dict[str, str]", held) if isinstance(held, dict) else {}


def _within(event: Event) -> int | None:
    """The tokens that the request which led to this event had to stay within."""
    held = (event.custom_metadata or {}).get("weft")
    within = held.get("within") if isinstance(held, dict) else None
    return within if isinstance(within, int) else None


def _require_kinds(
    session: object, config: object, branch: object, artifacts: object, recorded: object
) -> None:
    """Refuse what is no session, no config, no branch or no mapping."""
    for name, value, kind, hint in (
        ("session", session, Session, "pass a weft.Session; Session.from_json reads JSON"),
        ("config", config, RunConfig, "pass weft.RunConfig(...)"),
        ("branch", branch, str, 'pass text, such as "fan.left"'),
        ("artifacts", artifacts, Mapping, 'pass {"name": "text"}'),
        ("recorded", recorded, Mapping, "pass what Compiled.provided holds"),
    ):
        if value is not None and not isinstance(value, kind):
            raise CompileError(f"{name} is a {type(value).__name__}", where="compile", hint=hint)
    for held, text in cast("Mapping[object, object]", artifacts or {}).items():
        if not isinstance(text, str):
            raise CompileError(
                f"the artifact `{held}` is a {type(text).__name__}",
                where="compile",
                hint="pass its newest text",
            )


def _with_message(events: Strand[Event], message: ContentLike | None) -> Strand[Event]:
    if message is None:
        return events
    said = Event(
        author="user",
        content=require_posted(to_content(message), where="message"),
        invocation_id=f"message@{len(events)}",
        id="message",
        timestamp=0.0,
    )
    return events.with_tail([said])
