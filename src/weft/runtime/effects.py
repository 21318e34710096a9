"""Effects: the one place where a model is asked for what a request is made of.

Passes leave wants. Here a model is asked for each, what it says is checked, and the outcome, or
why there is none, becomes an event with the fingerprint of what was asked. The request is then
compiled again and finds it. So one input is asked about once: in a session, in a run that goes
on after a crash, and in every later run; and a stored session gives the same bytes offline.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from weft.compiler import Compiled, compile
from weft.compiler.context import ReadonlyContext
from weft.compiler.effects import effects_of
from weft.declare import Agent, C, Raw, RunConfig
from weft.declare.config import merge
from weft.declare.policy import Policy
from weft.declare.policy.transforms import Redact
from weft.errors import ModelError, WeftError
from weft.ir import ModelResponse, Want
from weft.runtime.accepting import Accepted, accepted
from weft.runtime.chosen import chosen_model
from weft.runtime.clearance import labelled_texts, part_of
from weft.runtime.unbroken import stopped
from weft.session import Actions, Session
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.runtime.agent_run import AgentRun

_log = logging.getLogger("weft")

ROUNDS = 4
"""How often a request is compiled again because of what its effects brought."""
AT_ONCE = 4
"""How many models are asked side by side."""

NAMES = {
    "summary": "summarizer",
    "relevance": "judge",
    "extract": "extractor",
    "distill": "distiller",
    "contradictions": "checker",
}
"""Under which name a model is asked; a script by agent has its entries there."""

_OPTIONS = ("extra", "service_tier", "thinking", "user")
"""Options that are about the provider, not about the agent's answer."""


async def perform(run: "AgentRun", compiled: Compiled) -> bool:
    """Ask for what the request wants and the log does not have; whether anything came of it."""
    invocation = run.invocation
    log = invocation.view(run.place.scope).events
    known = effects_of(log)
    wants = [want for want in compiled.prompt.wants if _is_due(want, known)]
    if not wants or not invocation.config.effects:
        return False
    if len(wants) == 1:
        return await _performed(run, compiled, wants[0], _aside(run))
    room, aside = asyncio.Semaphore(AT_ONCE), _aside(run)

    async def one(want: Want) -> bool:
        async with room:
            return await _performed(run, compiled, want, aside)

    tasks = [asyncio.create_task(one(want)) for want in wants]
    try:
        return any(await asyncio.gather(*tasks))
    finally:
        await stopped(tasks)


def _is_due(want: Want, known: Mapping[str, JsonObject]) -> bool:
    """Whether the log has no answer, or one whose outcome lasted only as long as its run."""
    held = known.get(want.fingerprint)
    return held is None or (want.key.startswith("temp:") and "outcome" in held)


async def _performed(run: "AgentRun", compiled: Compiled, want: Want, aside: Session) -> bool:
    """Perform one want, unless another branch of the run does so at this moment."""
    invocation, place = run.invocation, run.place
    lock = invocation.asked.setdefault((place.scope, want.fingerprint), asyncio.Lock())
    async with lock:
        held = effects_of(invocation.view(place.scope).events).get(want.fingerprint)
        if held is not None:
            lost = want.key not in invocation.state_at(place)
            if lost and _is_due(want, {want.fingerprint: held}):
                await _stored(run, want, held, None)
            return True
        if invocation.llm_calls >= invocation.config.max_llm_calls:
            return False
        spending = invocation.spending
        if spending is not None and spending.exhausted(invocation.llm_calls):
            return False
        invocation.llm_calls += 1
        outcome, response, model = await _asked(run, compiled, want, aside)
        if outcome.error:
            _log.warning("%s: no %s: %s", run.agent.name, want.kind, outcome.error)
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
            effect["error"] = outcome.error
        else:
            effect["outcome"] = outcome.outcome
        await _stored(run, want, effect, response)
        return True


async def _stored(
    run: "AgentRun", want: Want, effect: JsonObject, response: ModelResponse | None
) -> None:
    """Keep an effect, with what it writes, as one event."""
    delta: JsonObject = {}
    if want.key and "outcome" in effect:
        delta = {want.key: _written(run, want, effect["outcome"])}
    weft: JsonObject = {"effect": effect}
    spending = run.invocation.spending
    if spending is not None and response is not None:
        weft |= spending.effect(f"{want.instruction}\n{want.text}", response, effect["model"])
    event = run.invocation.event(
        run.agent.name, run.place, actions=Actions(state_delta=delta), weft=weft
    )
    event = msgspec.structs.replace(
        event,
        audience="internal",
        usage=response.usage if response is not None else None,
        model_version=response.model_version if response is not None else None,
    )
    stored = await run.invocation.commit(event)
    run.progress.note(stored)
    run.performed.append(stored)


def _written(run: "AgentRun", want: Want, outcome: Json) -> Json:
    """What stands under the key then: the outcome, or the facts so far and the new ones."""
    if want.kind != "distill" or not isinstance(outcome, list):
        return outcome
    held = run.invocation.state_at(run.place).get(want.key)
    before: list[Json] = list(held) if isinstance(held, list) else []
    return [*before, *(fact for fact in outcome if fact not in before)]


class _Instruction(NamedTuple):
    """What a model is told to do, as it is: no template."""

    text: str

    def said(self, context: ReadonlyContext) -> Raw:
        return Raw(self.text)


async def _asked(
    run: "AgentRun", compiled: Compiled, want: Want, aside: Session
) -> tuple[Accepted, ModelResponse | None, str]:
    """What the model answers, as far as it is accepted, and the name of the model."""
    own = want.model is None
    chosen = run.plan.model if want.model is None else want.model
    agent = Agent(
        NAMES[want.kind],
        model=chosen,
        instruction=(_Instruction(want.instruction), "said"),
        output_schema=want.schema,
        context=_guarded(compiled),
        cleared=run.agent.cleared if own else (),
    )
    model = chosen_model(run.invocation.services, agent, chosen)
    request = compile(
        agent,
        session=aside,
        state=run.invocation.state_at(run.place),
        message=want.text,
        artifacts=await labelled_texts(run.invocation, agent.cleared),
        config=RunConfig(generate_config=_options(run) if own else {"cache": False}),
        part_of=part_of(run.invocation),
    )
    response: ModelResponse | None = None
    try:
        async for answer in model.generate(request.prompt, request.wire, stream=False):
            if not answer.partial:
                response = answer
    except Exception as error:
        if isinstance(error, WeftError) and not isinstance(error, ModelError):
            raise  # something is set up wrong: that is not the model's
        words = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
        return Accepted(error=f"the model failed: {words}"), None, request.prompt.model
    return accepted(want, response, request, agent), response, request.prompt.model


def _guarded(compiled: Compiled) -> Policy:
    """The current turn only, redacted as the request is that this is for."""
    redactions = tuple(one for one in compiled.policy.protections if isinstance(one, Redact))
    return replace(C.none(), protections=redactions)


def _aside(run: "AgentRun") -> Session:
    """The session as it is, to be compiled for somebody who is no part of it."""
    whole = run.invocation.view(run.place.scope)
    return Session(whole.id, app_name=whole.app_name, user_id=whole.user_id, events=whole.events)


def _options(run: "AgentRun") -> JsonObject:
    merged = merge(run.agent.generate_config, run.invocation.config.generate_config)
    return {**{name: merged[name] for name in _OPTIONS if name in merged}, "cache": False}
