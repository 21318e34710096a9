"""Effects: the one place where a model or a toolset is asked for what a request is made of.

Passes leave wants. Here a model is asked for each, what it says is checked, and the outcome, or
why there is none, becomes an event with the fingerprint of what was asked. The request is then
compiled again and finds it. So one input is asked about once: in a session, in a run that goes
on after a crash, and in every later run; and a stored session gives the same bytes offline.

Toolsets are asked here too, which tools there are: once in an invocation, and it is in the log. A
resumed run asks again, for the functions: what it offers to the model is what the log has. A
toolset that raises, or no longer has what it offered, ends the run with an error event.
"""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import msgspec

from weft.compiler import Compilation, ReadonlyContext, compile_request
from weft.compiler.plan import Plan
from weft.compiler.tools import changes_between, declared_by, equip, offered_in, tools_in
from weft.content import Part
from weft.declare import Agent, C, Raw, RunConfig, Tool
from weft.declare.agent import labels_of, unite_labels
from weft.declare.config import merge
from weft.declare.functions import misfit
from weft.declare.policy import Policy
from weft.declare.policy_parts import MemoryScorer, Redact
from weft.declare.template import to_text
from weft.declare.tool import ToolListing, ToolSource
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.digest.keeping import find_invented, marks_in, missing, normal
from weft.errors import DeclarationError, ModelError, SchemaError, WeftError
from weft.ir import ModelResponse, ResultBlock, TextBlock, Want
from weft.late import late_pattern
from weft.runtime.costs import charge_for_effect
from weft.runtime.flow import add_label
from weft.runtime.invocation import Invocation
from weft.runtime.labels import labelled_texts, part_of
from weft.runtime.place import Place, cancel_and_wait
from weft.runtime.program import ToolsetChanged, ToolsetError, await_value, chosen_model
from weft.runtime.result import is_empty, parse, spell_out_answer
from weft.session import Actions, Event, Session
from weft.session.event import EMPTY_ACTIONS
from weft.session.flow import TRUSTED, TrustLabel
from weft.session.lookback import effects_of
from weft.session.provenance import OfferedTools, Provenance
from weft.values import Json, JsonObject

_log = logging.getLogger("weft")

AT_ONCE = 4
"""How many models are asked side by side."""

NAMES = {
    "summary": "summarizer",
    "relevance": "judge",
    "extract": "extractor",
    "distill": "distiller",
    "contradictions": "checker",
    "memory": "memory",
}
"""Under which name a model is asked; a script by agent has its entries there."""

_OPTIONS = ("extra", "service_tier", "thinking", "user")
"""Options that are about the provider, not about the agent's answer."""


async def perform(
    invocation: Invocation, place: Place, plan: Plan, compiled: Compilation
) -> list[Event] | None:
    """Ask for what the request wants and the log does not have; None if nothing came of it.

    Else the events that it left in the log: none, where another branch of the run asked.
    """
    known = effects_of(invocation.log.view(place.scope).events)
    wants = [want for want in compiled.prompt.wants if _is_due(want, known)]
    if not wants or not invocation.config.effects:
        return None
    room, stored = asyncio.Semaphore(AT_ONCE), list[Event]()
    asking = _Asking(invocation, place, plan, compiled, stored)
    aside = asking.aside()
    if len(wants) == 1:
        return stored if await asking.one(wants[0], aside) else None

    async def one(want: Want) -> bool:
        async with room:
            return await asking.one(want, aside)

    tasks = [asyncio.create_task(one(want)) for want in wants]
    try:
        return stored if any(await asyncio.gather(*tasks)) else None
    finally:
        await cancel_and_wait(tasks)


def _is_due(want: Want, known: Mapping[str, JsonObject]) -> bool:
    """Whether the log has no answer, or one whose outcome lasted only as long as its run."""
    effect = known.get(want.fingerprint)
    return effect is None or (want.key.startswith("temp:") and "outcome" in effect)


class _Instruction(NamedTuple):
    """What a model is told to do, as it is: no template."""

    text: str

    def provide(self, context: ReadonlyContext) -> Raw:
        return Raw(self.text)


class Accepted(NamedTuple):
    """An outcome, or an error; `more` is what else the effect says."""

    outcome: Json = None
    error: str = ""
    more: JsonObject = {}


class _Asking(NamedTuple):
    """Who asks, for which request, and what that has left in the log so far."""

    invocation: Invocation
    place: Place
    plan: Plan
    compiled: Compilation
    stored: list[Event]

    def aside(self) -> Session:
        """The session as it is, to be compiled for somebody who is not part of it."""
        whole = self.invocation.log.view(self.place.scope)
        return Session(
            whole.id, app_name=whole.app_name, user_id=whole.user_id, events=whole.events
        )

    async def one(self, want: Want, aside: Session) -> bool:
        """Perform one want, unless another branch of the run does so at this moment."""
        invocation, place = self.invocation, self.place
        lock = invocation.asked.setdefault((place.scope, want.fingerprint), asyncio.Lock())
        async with lock:
            known = effects_of(invocation.log.view(place.scope).events).get(want.fingerprint)
            # another branch asked while this one waited for the lock
            if known is not None:
                lost = want.key not in invocation.forks.state_at(place)
                if lost and _is_due(want, {want.fingerprint: known}):
                    await self._store(want, known, None)
                return True
            if want.kind == "memory":
                await self._search(want)
                return True
            # these calls count too; without them the request is sent as it is
            spending = invocation.spending
            if spending.steps >= invocation.config.max_llm_calls:
                return False
            if spending.explain_exhaustion():
                return False
            spending.steps += 1
            outcome, response, model = await self._ask(want, aside)
            if outcome.error:
                _log.warning("%s: no %s: %s", self.plan.agent.name, want.kind, outcome.error)
            effect: JsonObject = {
                "kind": want.kind,
                "fingerprint": want.fingerprint,
                "model": model,
                **outcome.more,
            }
            if want.key:
                effect["key"] = want.key
            if want.through >= 0:
                effect["through"] = want.through
            if outcome.error:
                # a failure is stored as well: it is not asked again at every step
                effect["error"] = outcome.error
            else:
                effect["outcome"] = outcome.outcome
            await self._store(want, effect, response)
            return True

    async def _search(self, want: Want) -> None:
        """Search the user's memory; what it gives, or why nothing, goes into the log.

        The key takes it out of sight again when its turn is rewound. It is not a state key.
        """
        effect: JsonObject = {
            "kind": want.kind,
            "fingerprint": want.fingerprint,
            "key": want.kind,
            "query": want.text,
            "options": want.options,
            "through": want.through,
        }
        top_k, scorer = want.options["top_k"], want.options["scorer"]
        try:
            memories = await self.invocation.surroundings.find_memories(
                want.text, top_k=cast("int", top_k), scorer=cast("MemoryScorer", scorer)
            )
        except Exception as error:  # the run goes on without; the request says so
            _log.info("%s: no memories", self.plan.agent.name, exc_info=True)
            effect["error"] = f"{type(error).__name__}: {error}"
        else:
            effect["outcome"] = cast("Json", msgspec.to_builtins(memories))
        await self._store(want, effect, None)

    async def _store(self, want: Want, effect: JsonObject, response: ModelResponse | None) -> None:
        """Store an effect, with what it writes, as one event."""
        delta: JsonObject = {}
        if want.key and "outcome" in effect:
            delta = {want.key: self._merge_outcome(want, effect["outcome"])}
        notes = Provenance(effect=effect)
        config = self.invocation.config
        counts = config.budget is not None or config.count_tokens
        if counts and response is not None:
            asked = f"{want.instruction}\n{want.text}"
            charge = charge_for_effect(asked, response, str(effect["model"]))
            notes = Provenance(effect=effect, spent=charge)
        label = want.label
        if want.kind == "distill":
            label |= self.invocation.flow.of_names((want.key,))
        event = self.invocation.event(
            self.plan.agent.name,
            self.place,
            actions=Actions(state_delta=delta),
            notes=notes,
            label=label,
        )
        event = msgspec.structs.replace(
            event,
            audience="internal",
            usage=response.usage if response is not None else None,
            model_version=response.model_version if response is not None else None,
        )
        self.stored.append(await self.invocation.commit(event))

    def _merge_outcome(self, want: Want, outcome: Json) -> Json:
        """What stands under the key then: the outcome, or the facts so far and the new ones."""
        if want.kind != "distill" or not isinstance(outcome, list):
            return outcome
        facts = self.invocation.forks.state_at(self.place).get(want.key)
        before: list[Json] = list(facts) if isinstance(facts, list) else []
        return [*before, *(fact for fact in outcome if fact not in before)]

    async def _ask(self, want: Want, aside: Session) -> tuple[Accepted, ModelResponse | None, str]:
        """What the model answers, as far as it is accepted, and the name of the model."""
        own = want.model is None
        chosen = self.plan.model if want.model is None else want.model
        agent = Agent(
            NAMES[want.kind],
            model=chosen,
            instruction=(_Instruction(want.instruction), "provide"),
            output_schema=want.schema,
            context=_redacting_policy(self.compiled),
            # another model than the agent's own sees nothing that is labelled
            cleared=self.plan.agent.cleared if own else (),
        )
        model = chosen_model(self.invocation.services.models, agent, chosen)
        request = compile_request(
            agent,
            session=aside,
            state=self.invocation.forks.state_at(self.place),
            message=want.text,
            artifacts=await labelled_texts(self.invocation, agent.cleared),
            config=RunConfig(generate_config=self._options() if own else {"cache": False}),
            part_of=part_of(self.invocation),
        )
        response: ModelResponse | None = None
        try:
            async for answer in model.generate(request.prompt, request.wire, stream=False):
                if not answer.partial:
                    response = answer
        except Exception as error:
            if isinstance(error, WeftError) and not isinstance(error, ModelError):
                raise  # something is set up wrong: that is not the model's
            words = (
                str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
            )
            return Accepted(error=f"the model failed: {words}"), None, request.prompt.model
        return check_outcome(want, response, request, agent), response, request.prompt.model

    def _options(self) -> JsonObject:
        merged = merge(self.plan.agent.generate_config, self.invocation.config.generate_config)
        return {**{name: merged[name] for name in _OPTIONS if name in merged}, "cache": False}


def _redacting_policy(compiled: Compilation) -> Policy:
    """The current turn only, redacted as the request is that this is for."""
    redactions = tuple(one for one in compiled.policy.protections if isinstance(one, Redact))
    return replace(C.none(), protections=redactions)


_KEPT = 4000
"""How many letters of an answer that is not accepted are kept."""

_EXCUSE = late_pattern(
    r"\W*(?:(?:error|exception|failure|fatal)\s*(?:[:!(\d]|$)|traceback\b"
    r"|(?:internal server error|bad gateway|service unavailable|too many requests)\b"
    r"|(?:rate|token|context|quota)[\w ]{0,20} (?:limit|exceeded)\b"
    r"|(?:i(?:['\u2019]m| am) )?(?:very |so )?sorry\b"
    r"|i (?:can(?:['\u2019]t|not)|am unable|could not)\b"
    r"|i['\u2019]m (?:unable|not able)\b|as an ai\b|unable to (?:summar|process|complete)"
    r"|<!doctype html|<html)",
    re.IGNORECASE,
)

_NAME = late_pattern(r"(?<=[a-z,;] )[A-Z][a-z]{2,}")

_WORD = late_pattern(r"[^\W_]{4,}")

_NUMBER = late_pattern(r"\d+")


def check_outcome(
    want: Want, response: ModelResponse | None, asked: Compilation, agent: Agent
) -> Accepted:
    """The outcome of an answer, or what is wrong with it."""
    if response is None:
        return Accepted(error="the model returned nothing")
    if response.error_code:
        reason = f": {response.error_message}" if response.error_message else ""
        return Accepted(error=f"{response.error_code}{reason}")
    content = response.content
    if content is None or is_empty(content):
        return Accepted(error="the model returned nothing")
    text = spell_out_answer(content, asked.plan.output).text.strip()
    if not text:
        return Accepted(error="the model returned no text")
    if want.schema is None:
        outcome: Json = text
    else:
        output = asked.plan.output
        try:
            outcome, _ = parse(agent, text, wrapped=output is not None and output.wrapped)
        except SchemaError as error:
            return _refuse(error.message, text)
    if response.finish_reason == "MAX_TOKENS":
        return _refuse("the answer was cut off", text)
    if want.kind == "distill":
        return _facts(want, outcome, text)
    problem = _problem(want, outcome, _text_sent(asked))
    return _refuse(problem, text) if problem else Accepted(outcome)


def _refuse(problem: str, text: str) -> Accepted:
    return Accepted(error=problem, more={"rejected": text[:_KEPT]})


def _text_sent(asked: Compilation) -> str:
    """What the model was shown. It cannot repeat what was redacted or withheld."""
    texts: list[str] = []
    for item in asked.prompt.items:
        for block in item.blocks:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            elif isinstance(block, ResultBlock):
                texts.append(to_text(block.response))
    return "\n".join(texts)


def _problem(want: Want, outcome: Json, sent: str) -> str:
    """Why an outcome cannot be used, or nothing."""
    words = _leaves(outcome)
    if want.kind == "summary":
        if isinstance(outcome, str) and _EXCUSE.match(outcome[:200]):
            return "the answer is an error or an excuse"
        if want.longest and len(words) > want.longest:
            return f"it has {len(words)} letters, and {want.longest} are the most"
        if made_up := find_invented(words, sent):
            return f"it says what was not said: {', '.join(made_up[:5])}"
    # what was redacted before it was sent cannot be asked back
    must_keep = [one for one in want.must_keep if not missing(sent, [one])]
    if gone := missing(words, must_keep):
        return f"it leaves out: {', '.join(gone[:5])}"
    return ""


def _leaves(value: Json) -> str:
    """All texts and numbers of a value, a line each."""
    match value:
        case dict():
            return "\n".join(_leaves(each) for each in value.values())
        case list():
            return "\n".join(_leaves(each) for each in value)
        case _:
            return "" if value is None else to_text(value)


def _facts(want: Want, outcome: Json, text: str) -> Accepted:
    """The facts that their sources support; the others are listed as dropped."""
    listed = outcome.get("facts") if isinstance(outcome, dict) else None
    facts: list[Json] = []
    dropped: list[Json] = []
    for one in cast("list[JsonObject]", listed if isinstance(listed, list) else []):
        fact, number = str(one.get("fact") or "").strip(), one.get("source")
        source = None
        if isinstance(number, int) and 1 <= number <= len(want.sources):
            source = want.sources[number - 1]
        if fact and source is not None and _says(source[1], fact):
            entry: JsonObject = {"fact": fact, "source": source[0]}
            facts += [entry] if entry not in facts else []
        elif fact:
            dropped.append(fact)
    if dropped and not facts:
        return _refuse("none of its facts is in the source it names", text)
    return Accepted(facts, more={"dropped": dropped} if dropped else {})


def _says(source: str, fact: str) -> bool:
    """Whether a source may say a fact: it has its numbers and names, else a word of it."""
    spoken = normal(source)
    marks = marks_in(fact)
    names = [name.casefold() for name in _NAME.findall(fact)]
    numbers = _NUMBER.findall(normal(fact))
    if missing(source, marks) or any(one not in spoken for one in (*names, *numbers)):
        return False
    words = _WORD.findall(normal(fact))
    # five letters of a word: endings differ
    return bool(marks or names or numbers or not words) or any(word[:5] in spoken for word in words)


# --- toolsets


async def equipped_root(invocation: Invocation, place: Place, root: Agent, agent: Agent) -> Agent:
    """The root in which the agent has the tools that its toolsets answer, stored before use."""
    offers = invocation.offers
    async with offers.lock:
        tools, listing = offers.tools.get(agent.name), ToolListing(())
        if tools is None:
            listing = await _ask(invocation, place, agent)
            tools = listing.tools
        try:
            equipped = equip(root, agent.name, tools)
        except DeclarationError as error:
            raise ToolsetError(error.message, where=error.where, hint=error.hint) from error
        offers.tools[agent.name] = tools
        if any(tool.labels for tool in tools):
            invocation.labels = unite_labels((*invocation.labels, *labels_of(equipped)))
        warnings = [one for one in listing.warnings if one.code not in agent.allow]
        for one in warnings:
            invocation.findings[str(one)] = one
            if one.severity is not Severity.INFO:
                _log.warning("%s %s: %s", one.code, one.origin, one.message)
        if (agent.name, place.scope) not in offers.stored:
            offers.stored.add((agent.name, place.scope))
            delta = await _keep_artifacts(invocation, listing.artifacts)
            declared = declared_by(tools)
            earlier = offered_in(invocation.log.view(place.scope).events, agent.name)
            is_same = earlier is not None and earlier.tools == declared
            notes = Provenance(
                offered=OfferedTools(agent.name, [] if is_same else declared, as_before=is_same),
                diagnostics=[*map(str, warnings)] or None,
            )
            actions = Actions(artifact_delta=delta) if delta else EMPTY_ACTIONS
            event = invocation.event(agent.name, _place(place), actions=actions, notes=notes)
            texts = {f"artifact:{name}": TrustLabel((f"file:{name}",)) for name in delta}
            await invocation.commit(add_label(event, TRUSTED, texts))
    return equipped


async def _keep_artifacts(invocation: Invocation, texts: Mapping[str, str]) -> dict[str, int]:
    """Keep texts of toolsets as artifacts, where they are new; gives their versions."""
    versions: dict[str, int] = {}
    around = invocation.surroundings
    for name, text in texts.items():
        known = await around.load_artifact(name, None)
        if known is None or known.text != text:
            versions[name] = await around.save_artifact(name, Part(text=text))
    return versions


def _place(place: Place) -> Place:
    """Where the log keeps what toolsets answered: at no node, so that none has begun with it."""
    return Place("toolsets", "", place.scope)


async def _ask(invocation: Invocation, place: Place, agent: Agent) -> ToolListing:
    """The tools that the toolsets of an agent have; as they were, where the run is resumed."""
    state, before = invocation.forks.state_at(place), None
    for position, event in invocation.log.past.all() if invocation.log.resumed else ():
        offered = event.provenance.offered
        if offered is not None and offered.agent == agent.name:
            state, before = invocation.forks.state_before(position, place), offered
            invocation.offers.stored.add((agent.name, event.isolation_scope or ""))
    events = invocation.log.view(place.scope).events
    if before is not None and before.as_before:
        before = offered_in(events, agent.name)
    context = ReadonlyContext(
        agent_name=agent.name,
        state=state,
        events=events,
        invocation_id=invocation.id,
        user_content=invocation.context(agent.name, Place()).user_content,
        artifacts=await invocation.surroundings.artifact_texts(),
        deps=invocation.request.deps,
    ).apart()
    known = tools_in(before) if before is not None else ()
    tools: list[Tool] = []
    warnings: list[Diagnostic] = []
    artifacts: dict[str, str] = {}
    for source in agent.tool_sources:
        if before is not None and source.restore is not None:  # the log has what it answered
            mine = (one for one in known if one.source[:1] == (source.name,))
            tools += [source.restore(one, context) for one in mine]
            continue
        listing = await _answer(source, context, agent.name)
        tools += listing.tools
        warnings += listing.warnings
        artifacts |= listing.artifacts
    if any(tool.deferred for tool in tools):
        from weft.tools.deferred import search_tools  # large listings are rare

        tools += search_tools(tools)
    if before is None:
        earlier = offered_in(events, agent.name)
        if earlier is not None:
            warnings += _changed_declarations(earlier.tools, declared_by(tools), agent.name)
        return ToolListing(tuple(tools), tuple(warnings), artifacts)
    problems = changes_between(before.tools, declared_by(tools))
    if problems:
        names = ", ".join(f"`{source.name}`" for source in agent.tool_sources)
        raise ToolsetChanged(
            f"{names} answered something else when the run began: {'; '.join(problems)}",
            where=f"{agent.name}.tools",
            hint="let it answer the same to the same state and deps, then resume; or begin anew"
            " with another message",
        )
    by_name = {tool.name: tool for tool in tools}
    return ToolListing(tuple(by_name[one.name] for one in known))


def _changed_declarations(
    before: Sequence[JsonObject], now: Sequence[JsonObject], agent: str
) -> Iterator[Diagnostic]:
    """Warnings about tools of servers that the session knows under another declaration."""
    known = {str(one["name"]): one for one in before}
    for one in now:
        name, server = str(one["name"]), one.get("source")
        if not isinstance(server, list) or name not in known:
            continue
        parts = [part for part in ("description", "parameters") if known[name][part] != one[part]]
        if parts:
            yield report(
                "WEFT306",
                Origin("tool", name, agent),
                f"the server `{server[0]}` has changed the {' and '.join(parts)} of `{name}` since"
                " this session saw it",
                "read it before you let the model go on: weft.compile(agent,"
                " session=result.session).tools; leave it out with only=",
            )


async def _answer(source: ToolSource, context: ReadonlyContext[object], agent: str) -> ToolListing:
    """What one toolset answers, as tools."""
    where = f"{agent}.tools.{source.name}"
    try:
        takes_context = misfit(source.ask, 1) is None
        answer = await await_value(source.ask(context) if takes_context else source.ask())
    except Exception as error:
        raise ToolsetError(
            f"the toolset `{source.name}` raised {type(error).__name__}: {error}",
            where=where,
            hint="mend it, and resume the run: nothing is lost",
        ) from error
    try:
        tools = source.tools_of(answer, where=where)
    except DeclarationError as error:
        raise ToolsetError(
            f"the toolset `{source.name}` answered what cannot be tools: {error.message}",
            where=where,
            hint=error.hint or "answer a list of functions or tools",
        ) from error
    preparing = next((tool.name for tool in tools if tool.prepare is not None), None)
    if preparing is not None:  # the log has no code, so such a request could not be rebuilt
        raise ToolsetError(
            f"the tool `{preparing}` of the toolset `{source.name}` prepares requests",
            where=where,
            hint=f"declare it with the agent: Agent(..., tools=[{preparing}, ...])",
        )
    return answer if isinstance(answer, ToolListing) else ToolListing(tools)
