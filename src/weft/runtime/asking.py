"""Asking the model: compile, let callbacks in, carry the request, take the answer."""

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

import msgspec

from weft.compiler import Compiled, compile
from weft.content import Content, FunctionCall, Part
from weft.dialects import dialect_named
from weft.errors import UsageError, WeftError
from weft.ir import Prompt, verify
from weft.models import Model, ModelResponse
from weft.models.registry import model_for
from weft.runtime.agent_run import AgentRun
from weft.runtime.providers import provided_texts
from weft.session import Event
from weft.session.event import new_id
from weft.values import JsonObject

_log = logging.getLogger("weft")


async def ask(run: AgentRun) -> AsyncIterator[Event]:
    """The model's reply: partial events while it speaks, if streamed, then the whole of it.

    The last event is not stored yet; its changes of state are in `run.context`.
    """
    callbacks = run.kit.callbacks
    compiled = await _compiled(run)
    prompt = compiled.prompt
    run.context = context = None
    if callbacks.before_model or callbacks.after_model or callbacks.on_model_error:
        run.context = context = run.new_context()
    response: ModelResponse | None = None
    wire: JsonObject | None = None
    if context is not None and callbacks.before_model:
        answer = await callbacks.before_model.first((Prompt, ModelResponse), context, prompt)
        if isinstance(answer, Prompt):
            verify(answer, step="before_model")
            prompt = answer
            wire = dialect_named(compiled.dialect).lower(prompt, strict=False).wire
        elif isinstance(answer, ModelResponse):
            response = answer
    if response is None:
        stream = run.invocation.config.stream
        model = _model(run)
        partial = False
        try:
            answers = model.generate(prompt, wire or compiled.wire, stream=stream)
            async with aclosing(answers):  # type: ignore[type-var]
                async for got in answers:
                    if not got.partial:
                        response = got
                    elif stream:
                        partial = True
                        yield _partial(run, got)
        except WeftError:
            raise
        except Exception as error:
            if context is not None and callbacks.on_model_error:
                chain = callbacks.on_model_error
                response = await chain.first((ModelResponse,), context, prompt, error)
            if response is None:
                _log.warning("%s: the model raised", run.agent.name, exc_info=True)
                words = f"{type(error).__name__}: {error}"
                response = ModelResponse(error_code="model_error", error_message=words)
        if response is None and partial:
            words = "the model's answer was cut off before its end"
            response = ModelResponse(error_code="cut_stream", error_message=words)
    if response is None:
        words = "the model returned nothing"
        response = ModelResponse(error_code="empty_response", error_message=words)
    if context is not None and callbacks.after_model:
        response = await callbacks.after_model.replaced(ModelResponse, response, context)
    yield _reply(run, response, compiled)


async def _compiled(run: AgentRun) -> Compiled:
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
    )


def _model(run: AgentRun) -> Model:
    """The model to ask: the one declared or given as an object, or found by its name."""
    chosen = run.plan.model
    models = run.invocation.services.models
    key: object = chosen if isinstance(chosen, str) else id(chosen)
    held = models.get(key)
    if held is not None:
        return held
    if isinstance(chosen, Model):
        models[key] = chosen
        return chosen
    if not isinstance(chosen, str):
        raise UsageError(
            f"a {type(chosen).__name__} cannot be asked: it has no `generate`",
            where=f"{run.agent.name}.model",
            hint="pass a weft.models.Model, or weft.testing.ScriptedModel([...])",
        )
    found = models[key] = model_for(chosen, where=f"{run.agent.name}.model")
    return found


def _partial(run: AgentRun, response: ModelResponse) -> Event:
    return Event(
        author=run.agent.name,
        content=response.content,
        invocation_id=run.invocation.id,
        partial=True,
        branch=run.place.branch or None,
        node_info=run.place.node_info,
        isolation_scope=run.place.scope or None,
    )


def _reply(run: AgentRun, response: ModelResponse, compiled: Compiled) -> Event:
    """The answer as an event: every call has an id, and signatures know whose they are."""
    content = response.content
    signed = False
    if content is not None and content.parts:
        unnamed = False
        for part in content.parts:
            signed = signed or part.thought_signature is not None
            call = part.function_call
            unnamed = unnamed or (call is not None and not call.id)
        if unnamed:
            content = Content(parts=tuple(map(_named, content.parts)), role="model")
        elif content.role != "model":
            content = msgspec.structs.replace(content, role="model")
    metadata = response.custom_metadata
    if signed or compiled.provided:
        metadata = dict(metadata or {})
        held = metadata.get("weft")
        weft: JsonObject = {**held} if isinstance(held, dict) else {}
        if signed:
            weft.setdefault("provider", compiled.dialect)
        if compiled.provided:
            weft["instructions"] = cast("JsonObject", dict(compiled.provided))
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


def _named(part: Part) -> Part:
    """The part with an id on its call: ours, where the provider gave none."""
    call = part.function_call
    if call is None or call.id:
        return part
    made = FunctionCall(name=call.name, args=call.args, id=f"adk-{new_id()}")
    return msgspec.structs.replace(part, function_call=made)
