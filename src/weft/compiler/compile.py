"""The front door: a declaration and a session become a compiled request.

Pure and synchronous: no model, no network. Everything that costs and may not be needed
(lowering, counting, hashing, the report) is done when it is asked for, once.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import Literal, NamedTuple, Protocol, cast, runtime_checkable

import msgspec

from weft import schema
from weft.codes import report
from weft.compiler.compiled import Compiled
from weft.compiler.context import ReadonlyContext
from weft.compiler.count import Scale
from weft.compiler.instruction import Scope, resolve_instructions
from weft.compiler.thread import ThreadKey, facts_of, weave
from weft.compiler.transfer import transfer_targets, transfer_tool
from weft.content import Content, ContentLike, to_content
from weft.declare import Agent, RunConfig, tree
from weft.declare.config import merge
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin
from weft.dialects import DIALECTS, Facts, dialect_named, facts_for
from weft.dialects.subset import wrap_root
from weft.errors import CompileError
from weft.ir import Output, Prompt, ToolDecl
from weft.passes import ON_REQUEST, Env, run
from weft.session import Event, Session
from weft.values import Json, JsonObject, Strand, require_object

SET_RESPONSE = "set_model_response"
_DEFAULT = RunConfig()


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


class Target(NamedTuple):
    """The model a request is for."""

    model: str
    facts: Facts

    @property
    def dialect(self) -> str:
        """The dialect it is spoken to in."""
        return self.facts.dialect


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
) -> Compiled:
    """Compile one request for `root`, or for the agent of its tree named by `agent`.

    `state` is laid over the session's, `message` is what the user says now, `branch` where in a
    parallel flow the agent stands, `artifacts` the newest text of each, `recorded` what
    instruction providers said before, so that a request can be rebuilt without asking them.
    """
    path = _path(root, agent)
    _require_kinds(session, config, branch, artifacts, recorded)
    asked = path[-1]
    config = config if config is not None else _DEFAULT
    session = session if session is not None else Session()
    events = _with_message(session.events, message)
    invocation = events[-1].invocation_id if len(events) else ""
    target = _target(path, config)
    output = _output(path, target)
    facts = facts_of(session.events)
    instructions = resolve_instructions(
        path,
        output,
        Scope(
            ReadonlyContext(
                agent_name=asked.name,
                state=_state(session, state, invocation),
                events=events,
                invocation_id=invocation,
                user_content=_user_content(events, invocation),
                artifacts=artifacts,
            ),
            on_missing="error" if config.strict else config.on_missing or asked.on_missing,
            on_provider_error=config.on_provider_error or asked.on_provider_error,
            volatile=facts.volatile,
            recorded=recorded or {},
        ),
    )
    carried = {k: v for k, v in instructions.carried.items() if k in facts.produced}
    start = _start(events, asked, invocation)
    env = Env(
        agent=asked.name,
        branch=branch or "",
        invocation=invocation,
        turn=start,
        policy=asked.policy,
        carried=carried,
        budget=asked.context_compressor,
    )
    key = ThreadKey(
        asked.name,
        env.branch,
        asked.policy,
        start,
        tuple(sorted((k, to_text(v)) for k, v in carried.items())),
        facts.reaches_back,
        invocation if facts.reaches_back >= 0 else "",
    )
    thread, woven = weave(events, key, env)
    generate, origins = _config(asked, config)
    prompt = Prompt(
        model=target.model,
        agent=asked.name,
        system=tuple(part.block for part in instructions.parts),
        items=woven.items,
        tools=_tools(path, output),
        config=generate,
        config_origins=origins,
        output=output,
        features=woven.features,
        diagnostics=(
            *_declared(asked, target, root=len(path) == 1),
            *instructions.diagnostics,
            *woven.diagnostics,
        ),
    )
    if env.budget is not None:
        scale = Scale(target.dialect, target.model)
        env = msgspec.structs.replace(env, measure=partial(scale.measure, thread=thread))
    prompt, steps = run(prompt, env, ON_REQUEST)
    if instructions.provided:
        kept = ("provided", asked.name, len(events))
        session.events.memo.setdefault(kept, instructions.provided)
    return Compiled(
        prompt,
        dialect=target.dialect,
        strict=config.strict,
        woven=woven,
        steps=steps,
        provided=instructions.provided,
        thread=thread,
        allow=asked.allow,
        previous=lambda: _previous(root, asked, session, state, config, branch, artifacts),
    )


def _previous(
    root: Agent,
    asked: Agent,
    session: Session,
    state: Mapping[str, Json] | None,
    config: RunConfig,
    branch: str | None,
    artifacts: Mapping[str, str] | None,
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
            return compile(
                root,
                state={
                    key: held for key, held in (state or {}).items() if key not in session.state
                },
                session=session.before(index),
                agent=asked.name,
                config=lenient,
                branch=branch,
                artifacts=artifacts,
                recorded=_recorded(event) or _provided(session, asked.name, index),
            )
    return None


def _provided(session: Session, asked: str, length: int) -> dict[str, str]:
    """What providers said when this process compiled the log at that length."""
    held = session.events.memo.get(("provided", asked, length))
    return cast("dict[str, str]", held) if isinstance(held, dict) else {}


def _recorded(event: Event) -> dict[str, str]:
    """What instruction providers said for the request that led to this event."""
    held = (event.custom_metadata or {}).get("weft")
    texts = held.get("instructions") if isinstance(held, dict) else None
    return {k: v for k, v in texts.items() if isinstance(v, str)} if isinstance(texts, dict) else {}


def _path(root: Agent, name: str | None) -> tuple[Agent, ...]:
    if not isinstance(cast("object", root), Agent):
        raise CompileError(
            f"a {type(root).__name__} is not an agent",
            where="compile",
            hint="pass a weft.Agent",
        )
    path = tree.find(root, name) if name is not None else (root,)
    if not path:
        known = ", ".join(found.name for found, _ in tree.walk(root))
        raise CompileError(
            f"there is no agent `{name}` below `{root.name}`",
            where="compile",
            hint=f"the tree has: {known}",
        )
    return path


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
        content=to_content(message),
        invocation_id=f"message@{len(events)}",
        id="message",
        timestamp=0.0,
    )
    return events.with_tail([said])


def _state(session: Session, state: Mapping[str, Json] | None, invocation: str) -> JsonObject:
    held = session.state_for(invocation)
    return held if state is None else {**held, **require_object(state, where="state")}


def _user_content(events: Strand[Event], invocation: str) -> Content | None:
    """What the user said to start the invocation."""
    found: Content | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.invocation_id != invocation:
            break
        if event.author == "user" and not event.results:
            found = event.content
            if not invocation:
                break
    return found


def _start(events: Strand[Event], agent: Agent, invocation: str) -> int:
    """The log index an agent's view begins at: the current turn, for one that sees no more.

    A turn begins where its invocation does, with what the user asked. A result that comes in a
    later invocation continues the turn of its call.
    """
    if agent.policy.view == "default":
        return 0
    for follow in (True, False):  # a result that answers no call at all leads nowhere
        begins = _begins(events, invocation, follow)
        if begins is not None:
            return begins
    index = len(events)
    while index > 0 and events[index - 1].invocation_id == invocation:
        index -= 1
    return index


def _begins(events: Strand[Event], invocation: str, follow: bool) -> int | None:
    """Where the turn begins, going back to the calls of late results if `follow`."""
    asked = False
    sought: set[str | None] = set()
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if asked and not sought and not (invocation and event.invocation_id == invocation):
            return index + 1
        results = event.results
        if follow:
            sought -= {call.id for call in event.calls}
            sought |= {result.id for result in results if result.id}
        if event.author == "user" and event.content is not None and not results and not sought:
            asked = True
    return 0 if asked and not sought else None


def _target(path: tuple[Agent, ...], config: RunConfig) -> Target:
    chosen: object = config.model
    for agent in reversed(path):
        chosen = chosen if chosen is not None else agent.model
    if chosen is None:
        chosen = os.environ.get("WEFT_MODEL") or "local"
    if isinstance(chosen, str):
        facts = facts_for(chosen)
        return Target(chosen, facts)
    if isinstance(chosen, ModelLike):
        facts = facts_for(chosen.name)._replace(dialect=chosen.dialect, known=True)
        return Target(chosen.name, facts)
    raise CompileError(
        f"{chosen!r} is not a model",
        where=f"{path[-1].name}.model",
        hint="pass a model's name, or an object with `name` and `dialect`",
    )


def output_for(path: tuple[Agent, ...]) -> Output | None:
    """How the agent's output schema is asked for, by what its model can do."""
    return _output(path, _target(path, _DEFAULT))


def _output(path: tuple[Agent, ...], target: Target) -> Output | None:
    agent = path[-1]
    if agent.output_schema is None:
        return None
    declared, wrapped = wrap_root(
        schema.of_type(agent.output_schema, where=f"{agent.name}.output_schema")
    )
    facts = target.facts
    has_tools = bool(agent.tools) or bool(transfer_targets(path))
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


def _tools(path: tuple[Agent, ...], output: Output | None) -> tuple[ToolDecl, ...]:
    agent = path[-1]
    tools = [
        ToolDecl(t.name, t.description, t.parameters, Origin("tool", t.name, agent.name))
        for t in agent.tools
    ]
    targets = transfer_targets(path)
    if targets:
        tools.append(transfer_tool(agent, targets))
    if output is not None and output.how == "tool":
        about = "Give the final answer. Call this once, when you are done, instead of replying."
        tools.append(ToolDecl(SET_RESPONSE, about, output.schema, output.origin))
    return tuple(tools)


def _config(agent: Agent, config: RunConfig) -> tuple[JsonObject, dict[str, Origin]]:
    declared = Origin("field", "generate_config", agent.name)
    origins = dict.fromkeys(agent.generate_config, declared)
    origins.update({name: Origin("config", name) for name in config.generate_config})
    return merge(agent.generate_config, config.generate_config), origins


def _declared(agent: Agent, target: Target, *, root: bool) -> list[Diagnostic]:
    """What there is to say about the declaration itself."""
    found = [
        report(
            "WEFT301",
            Origin("tool", tool.name, agent.name),
            "the tool has no description, so the model has only its name to decide by",
            "give the function a docstring, or @tool(description=...)",
        )
        for tool in agent.tools
        if not tool.documented
    ]
    if not root and agent.global_instruction is not None:
        found.append(
            report(
                "WEFT103",
                Origin("field", "global_instruction", agent.name),
                "only the root's global_instruction is sent",
                "move it to the root, or into this agent's instruction",
            )
        )
    extra = agent.generate_config.get("extra")
    found += [
        report(
            "WEFT702",
            Origin("field", "generate_config", agent.name),
            f"`extra` is for `{name}`, which is no dialect",
            f"use one of {', '.join(DIALECTS)}",
        )
        for name in (extra if isinstance(extra, dict) else ())
        if name not in DIALECTS
    ]
    if not target.facts.known:
        found.append(
            report(
                "WEFT706",
                Origin("field", "model", agent.name),
                f"the model `{target.model}` is unknown; it is spoken to in {target.facts.dialect}",
                "write provider/model, such as openrouter/NAME",
            )
        )
    return found
