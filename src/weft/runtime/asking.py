"""Asking the model: compile, let callbacks in, carry the request, take the answer."""

import logging
import time
from collections.abc import AsyncIterator
from typing import cast

import msgspec

from weft.compiler import Compiled, compile
from weft.compiler.caching import Miss, Reader, known_by, watch
from weft.content import Content
from weft.declare import Agent, CallbackContext
from weft.dialects import dialect_named
from weft.errors import BudgetExceeded, ModelError, UsageError, WeftError
from weft.ir import ModelResponse, Prompt, verify
from weft.models import Model
from weft.models.registry import model_for
from weft.runtime.agent_run import AgentRun
from weft.runtime.call_ids import identified
from weft.runtime.overflow import tighter
from weft.runtime.providers import provided_texts
from weft.session import Event
from weft.values import JsonObject

_log = logging.getLogger("weft")


class Asking:
    """One request to the model, from the compiled prompt to the reply as an event."""

    __slots__ = (
        "_compiled",
        "_context",
        "_prompt",
        "_refused",
        "_run",
        "_spoke",
        "_wire",
        "_within",
        "response",
        "stream",
    )

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._compiled: Compiled
        self._prompt: Prompt
        self._wire: JsonObject | None = None
        self._context: CallbackContext | None = None
        self._spoke = False
        self._refused = False
        self._within: int | None = None
        self.stream = run.invocation.config.stream
        self.response: ModelResponse | None = None

    async def prepare(self) -> bool:
        """Compile, and let the callbacks in; whether the model is still to be asked."""
        run = self._run
        callbacks = run.kit.callbacks
        self._within = run.invocation.services.limits.get(run.plan.target.model)
        try:
            self._compiled = compiled = await _compiled(run, self._within)
        except BudgetExceeded:
            if self._within is None:
                raise
            # a limit that was learned is a guess: let the provider decide
            self._within = None
            self._compiled = compiled = await _compiled(run, None)
        self._prompt = prompt = compiled.prompt
        run.context = None
        if callbacks.before_model or callbacks.after_model or callbacks.on_model_error:
            run.context = self._context = run.new_context()
        if self._context is not None and callbacks.before_model:
            kinds = (Prompt, ModelResponse)
            answer = await callbacks.before_model.first(kinds, self._context, prompt)
            if isinstance(answer, Prompt):
                verify(answer, step="before_model")
                self._prompt = answer
                self._wire = dialect_named(compiled.dialect).lower(answer, strict=False).wire
            elif isinstance(answer, ModelResponse):
                self.response = answer
        return self.response is None

    def answers(self) -> AsyncIterator[ModelResponse]:
        """What the model says, as it says it."""
        wire = self._wire if self._wire is not None else self._compiled.wire
        return _model(self._run).generate(self._prompt, wire, stream=self.stream)

    def partial(self, response: ModelResponse) -> Event:
        """A piece of the answer, for display."""
        self._spoke = True
        place = self._run.place
        return Event(
            author=self._run.agent.name,
            content=response.content,
            invocation_id=self._run.invocation.id,
            partial=True,
            branch=place.branch or None,
            node_info=place.node_info,
            isolation_scope=place.scope or None,
        )

    async def recover(self, error: Exception) -> bool:
        """What to do about an error of the model; whether it is to be asked once more.

        A request that was too long is compiled again, shorter. Else the callbacks are asked, or
        the error is told as an event. What Weft itself raises says that something is set up
        wrong; it is not the model's.
        """
        if isinstance(error, WeftError) and not isinstance(error, ModelError):
            raise error
        if isinstance(error, ModelError) and await self._shorten(error):
            return True
        chain = self._run.kit.callbacks.on_model_error
        self.response = None
        if self._context is not None and chain:
            self.response = await chain.first((ModelResponse,), self._context, self._prompt, error)
        if self.response is None:
            if isinstance(error, ModelError):
                _log.warning("%s: %s [%s]", self._run.agent.name, error, error.code)
                self.response = ModelResponse(error_code=error.code, error_message=str(error))
                return False
            _log.warning("%s: the model raised", self._run.agent.name, exc_info=error)
            words = f"{type(error).__name__}: {error}"
            self.response = ModelResponse(error_code="model_error", error_message=words)
        return False

    async def _shorten(self, error: ModelError) -> bool:
        """Compile a request that was too long again, within what the provider takes, once."""
        run, refused = self._run, self._compiled
        if error.code != "context_overflow" or self._refused or self._spoke or self._wire:
            return False
        self._refused = True
        within = tighter(refused, error)
        try:
            compiled = await _compiled(run, within)
        except BudgetExceeded as too_much:
            _log.warning("%s: %s; and %s", run.agent.name, error, too_much)
            return False
        if len(compiled.prompt.items) == len(refused.prompt.items):
            return False
        _log.warning(
            "%s: the request of %d tokens is too long for %s; it is sent again with %d of %d items,"
            " within %d tokens",
            run.agent.name,
            refused.tokens,
            refused.prompt.model,
            len(compiled.prompt.items),
            len(refused.prompt.items),
            within,
        )
        run.invocation.services.limits[run.plan.target.model] = within
        self._within, self._compiled, self._prompt = within, compiled, compiled.prompt
        return True

    async def reply(self) -> Event:
        """The answer as an event that is not stored yet; changes of state are in `run.context`."""
        response, chain = self.response, self._run.kit.callbacks.after_model
        if response is None:
            code, words = "empty_response", "the model returned nothing"
            if self._spoke:
                code, words = "cut_stream", "the model's answer was cut off before its end"
            response = ModelResponse(error_code=code, error_message=words)
        if self._context is not None and chain:
            response = await chain.replaced(ModelResponse, response, self._context)
        watched = self._watched(response)
        return _reply(self._run, response, self._compiled, self._within, watched)

    def _watched(self, response: ModelResponse) -> Miss | None:
        """What was not reused of the request though it could have been, where the answer says."""
        usage = response.usage
        if usage is None or usage.cached_content_token_count is None or self._wire is not None:
            return None
        run, place, model = self._run, self._run.place, _model(self._run)
        exact = run.plan.target.facts.cache.exact
        miss = watch(
            self._compiled,
            usage,
            run.invocation.session.events,
            branch=place.branch or "",
            scope=place.scope or "",
            now=time.time(),
            known=known_by(response.custom_metadata),
            tokens=model.tokens if exact and isinstance(model, Reader) else None,
        )
        told = (response.custom_metadata or {}).get("weft")
        named = isinstance(told, dict) and "cachedContent" in told
        return None if named else miss  # what is kept by name is all that is reused


async def _compiled(run: AgentRun, within: int | None) -> Compiled:
    invocation, place = run.invocation, run.place
    session = invocation.view(place.scope)
    state = invocation.state if place.scope else invocation.temp or None
    instructions = (run.agent.instruction, run.root.global_instruction)
    artifacts = recorded = None
    if any(not isinstance(text, str) or "artifact." in text for text in instructions if text):
        artifacts = await invocation.artifact_texts()
        recorded = await provided_texts(run.plan, session, invocation, artifacts)
    return compile(
        run.root,
        session=session,
        agent=run.agent.name,
        state=state,
        config=invocation.config,
        branch=place.branch or None,
        artifacts=artifacts,
        recorded=recorded,
        within=within,
    )


def _model(run: AgentRun) -> Model:
    """The model to ask: the one declared or given as an object, or found by its name."""
    chosen = run.plan.model
    if not isinstance(chosen, str):
        return _given(run.agent, chosen)
    models = run.invocation.services.models
    held = models.get(chosen)
    if held is None:
        held = models[chosen] = model_for(chosen, where=f"{run.agent.name}.model")
    return held


def _given(agent: Agent, model: object) -> Model:
    """The model object, once it is known to be one; the agent remembers that of the last."""
    held = agent.memo.get(Model)
    if held is model:
        return cast("Model", held)
    if not isinstance(model, Model):
        raise UsageError(
            f"a {type(model).__name__} cannot be asked: it has no `generate`",
            where=f"{agent.name}.model",
            hint="pass a weft.models.Model, or weft.testing.ScriptedModel([...])",
        )
    agent.memo[Model] = model
    return model


def _reply(
    run: AgentRun,
    response: ModelResponse,
    compiled: Compiled,
    within: int | None,
    miss: Miss | None,
) -> Event:
    """The answer as an event: every call has an id, and signatures know whose they are."""
    content = response.content
    signed = False
    if content is not None and content.parts:
        calls = False
        for part in content.parts:
            sealed = part.thought_signature is not None or part.part_metadata is not None
            signed = signed or sealed
            calls = calls or part.function_call is not None
        if calls:
            log, taken = run.invocation.session.events, run.invocation.call_ids
            content = Content(
                parts=identified(content.parts, log, taken, run.kit.tools), role="model"
            )
        elif content.role != "model":
            content = msgspec.structs.replace(content, role="model")
    metadata = response.custom_metadata
    if signed or compiled.provided or within is not None or miss is not None:
        metadata = dict(metadata or {})
        held = metadata.get("weft")
        weft: JsonObject = {**held} if isinstance(held, dict) else {}
        if signed:
            weft.setdefault("provider", compiled.dialect)
            weft.setdefault("model", compiled.prompt.model)
        if compiled.provided:
            weft["instructions"] = cast("JsonObject", dict(compiled.provided))
        if within is not None:
            weft["within"] = within
        if miss is not None:
            weft["cacheMiss"] = miss.to_dict()
        metadata["weft"] = weft
    place = run.place
    return Event(
        author=run.agent.name,
        content=content,
        invocation_id=run.invocation.id,
        branch=place.branch or None,
        node_info=place.node_info,
        isolation_scope=place.scope or None,
        usage=response.usage,
        finish_reason=response.finish_reason,
        error_code=response.error_code,
        error_message=response.error_message,
        model_version=response.model_version,
        custom_metadata=metadata,
        grounding_metadata=response.grounding_metadata,
        citation_metadata=response.citation_metadata,
        logprobs_result=response.logprobs_result,
        avg_logprobs=response.avg_logprobs,
    )
