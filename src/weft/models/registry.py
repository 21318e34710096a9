"""Models by name: who is asked when an agent says `model="claude-sonnet-5"`.

A name is one of

    gemini-*, claude-*, gpt-*, o3, codex-*     a vendor's own models
    provider/model                             groq/..., openrouter/vendor/..., ollama/...
    http://host/v1#model                       any server that speaks the chat format
    local, local:NAME, local:PATH.gguf         the model in the box, or any weights

Nothing is opened or imported before a model is asked for. The models of a process are shared, so
that their connections and circuits are.

Several of them may stand in for one another: where one gives no answer, the next is asked.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Literal

import msgspec

from weft.compiler.instruction import schema_reminder
from weft.dialects import dialect_named, facts_for
from weft.dialects.facts import require_model_name
from weft.errors import DeclarationError, ModelError, UsageError, WeftError
from weft.ir import ModelResponse, Prompt
from weft.models import Model
from weft.models.services import SERVICES, Service, address_of
from weft.session.provenance import Provenance
from weft.values import JsonObject

_log = logging.getLogger("weft")

AT_ADDRESS = Service("http", "", ("WEFT_API_KEY",), open=True)
"""A server that is named by its address; no vendor's key is sent to it."""

_ALIASES = {
    "google": "gemini",
    "openai-chat": "openai",
    "openai-responses": "openai",
}

_VERTEX = ("vertex", "vertex_ai")

_models: dict[str, Model] = {}


def model_for(name: str, *, where: str) -> Model:
    """The model of that name, or an error that says how to get one."""
    model = _models.get(name)
    if model is None:
        # shared, so that all agents use the same connections and the same circuit
        model = _models.setdefault(name, _create_model(name, where))
    return model


def _create_model(name: str, where: str) -> Model:
    if name == "local" or name.startswith("local:"):
        from weft.models.local import LocalModel

        return LocalModel(name)
    if name.startswith(("http://", "https://")):
        return _at_address(name, where)
    require_model_name(name, where=where)
    provider, slash, bare = name.partition("/")
    if not slash:
        return _vendors_own(name)
    # a name alone has no project and no login
    if provider in _VERTEX:
        raise UsageError(
            f"`{name}` needs a Vertex project and a login",
            where=where,
            hint=f'pass weft.models.Gemini("{bare}", client=google.genai.Client(vertexai=True))',
        )
    return _model_at(name, SERVICES[_ALIASES.get(provider, provider)])


def _vendors_own(name: str) -> Model:
    services = {"gemini": "gemini", "anthropic": "anthropic"}
    return _model_at(name, SERVICES[services.get(facts_for(name).dialect, "openai")])


def _model_at(name: str, service: Service) -> Model:
    """The model at a service, in the dialect that its requests are compiled to."""
    dialect = facts_for(name).dialect
    if dialect == "gemini":
        from weft.models.gemini import Gemini

        return Gemini(name)
    if dialect == "anthropic":
        from weft.models.anthropic import Anthropic

        return Anthropic(name)
    from weft.models.openai import OpenAI

    api: Literal["responses", "chat"] = "chat"
    if dialect == "openai-responses":
        api = "responses"
    return OpenAI(name, api=api, service=service)


def _at_address(name: str, where: str) -> Model:
    address = address_of(name)
    model = address.fragment
    if address.login or address.query:  # names are shown, and kept in the log
        raise UsageError(
            f"the name `{address.base}#{model}` was written with a login or a query in it",
            where=where,
            hint=f'pass weft.models.OpenAI("{model}", base_url="..."), or set WEFT_API_KEY',
        )
    if not model or not address.host:
        example = address.base if address.host else f"{address.base.partition(':')[0]}://host/v1"
        raise UsageError(
            f"`{name}` does not say which model it is, or where",
            where=where,
            hint=f"write {example}#{model or 'MODEL'}",
        )
    from weft.models.openai import OpenAI

    return OpenAI(name, api="chat", service=AT_ADDRESS, base_url=address.base)


# --- models that stand in for one another

FALLS = (
    "rate_limited",
    "overloaded",
    "unavailable",
    "connection",
    "timeout",
    "cut_stream",
    "bad_response",
    "auth",
    "not_found",
    "model_error",
)
"""Codes after which the next model is asked.

Not among them: `bad_request` and `context_overflow`, which say that the request is wrong, and
what a model says about the conversation itself, such as `refusal` or `safety`.
"""


class FallbackModel:
    """Asks the first model, and the next one where that gives no answer.

    Models are names or objects, of any dialect: `FallbackModel("claude-sonnet-5", "gpt-5")`.
    The request is written anew for each. Once a piece of an answer was shown, no other model is
    asked. `on` are the codes that count as no answer. The event of the answer says in
    its provenance whose it is, and under `fallback` who failed before.
    """

    def __init__(self, *models: str | Model, on: Iterable[str] = FALLS) -> None:
        if not models:
            raise DeclarationError(
                "there are no models to ask",
                where="FallbackModel",
                hint='write FallbackModel("claude-sonnet-5", "gpt-5")',
            )
        self.models = tuple(_resolve_model(model, at) for at, model in enumerate(models))
        self.on = frozenset([on] if isinstance(on, str) else on)
        self.name = self.models[0].name
        self.dialect = self.models[0].dialect

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Ask one model after the other until one answers."""
        failed: list[tuple[Model, ModelError]] = []
        for model in self.models:
            lost: list[str] = []
            if model is not self.models[0]:
                prompt, wire, lost = _rewrite_prompt(prompt, model)
            has_streamed = False
            answers = model.generate(prompt, wire, stream=stream)
            try:
                async for response in answers:
                    if response.partial:
                        has_streamed = True
                        yield response
                    # an error may also come as a response; words that came with it are an answer
                    elif (
                        response.error_code in self.on
                        and not has_streamed
                        and response.content is None
                    ):
                        raise ModelError(response.error_message or "", code=response.error_code)
                    else:
                        yield _with_fallback_notes(response, model, failed, lost)
                return
            except Exception as error:
                failure = self._failure(error, model)
                failed.append((model, failure))
                # what was shown cannot be taken back by another model's answer
                if has_streamed or failure.code not in self.on:
                    raise
                if model is not self.models[-1]:
                    _log.warning("%s [%s]: asking the next model", failure, failure.code)
            finally:
                if isinstance(answers, AsyncGenerator):
                    await answers.aclose()
        raise _all_failed_error(failed)

    def _failure(self, error: Exception, model: Model) -> ModelError:
        """The error as a model's; what Weft raises about anything else is not one."""
        if isinstance(error, ModelError):
            return error
        if isinstance(error, WeftError):
            raise error
        return ModelError(f"{type(error).__name__}: {error}", model=model.name)

    def __repr__(self) -> str:
        return f"FallbackModel({', '.join(repr(model.name) for model in self.models)})"


def _resolve_model(model: object, at: int) -> Model:
    where = f"FallbackModel[{at}]"
    if isinstance(model, str):
        return model_for(model, where=where)
    if isinstance(model, Model):
        return model
    raise DeclarationError(
        f"{model!r} is not a model", where=where, hint="pass a model's name, or a Model"
    )


def _rewrite_prompt(prompt: Prompt, model: Model) -> tuple[Prompt, JsonObject, list[str]]:
    """The prompt for another model, its wire, and what could not be carried over."""
    other = _with_schema(msgspec.structs.replace(prompt, model=model.name), model)
    lowered = dialect_named(model.dialect).lower(other)
    return other, lowered.wire, [str(each) for each in lowered.diagnostics]


def _with_schema(prompt: Prompt, model: Model) -> Prompt:
    """The prompt with its output schema in words, for a model that takes it no other way."""
    output = prompt.output
    if output is None or output.how != "native":
        return prompt
    facts = facts_for(model.name)
    takes = facts.native_schema and dialect_named(model.dialect).takes_schema(output.schema)
    # some models take a schema or tools, but not both
    if takes and (facts.schema_with_tools or not prompt.tools):
        return prompt
    asked = msgspec.structs.replace(output, how="text")
    reminder = schema_reminder(asked)
    assert reminder is not None
    return msgspec.structs.replace(prompt, output=asked, system=(*prompt.system, reminder))


def _with_fallback_notes(
    response: ModelResponse, model: Model, failed: list[tuple[Model, ModelError]], lost: list[str]
) -> ModelResponse:
    """The response, with its model, the models that failed before it, and what was lost."""
    maker = Provenance(provider=model.dialect, model=model.name)
    codes: list[JsonObject] = [{"model": each.name, "code": error.code} for each, error in failed]
    how = Provenance(fallback=codes or None, lost=lost or None)
    metadata = how.onto(maker.beneath(response.custom_metadata))
    return msgspec.structs.replace(response, custom_metadata=metadata)


def _all_failed_error(failed: list[tuple[Model, ModelError]]) -> ModelError:
    """The error where nobody answered: the last one's code, and what each of them said."""
    last = failed[-1][1]
    if len(failed) == 1:
        return last
    reasons = "; ".join(f"{model.name} [{error.code}]: {error.message}" for model, error in failed)
    return ModelError(
        f"none of {len(failed)} models answered: {reasons}",
        code=last.code,
        provider=last.provider,
        model=last.model,
        status=last.status,
        retry_after=last.retry_after,
        hint=next((error.hint for _, error in failed if error.hint), ""),
    )
