"""Models by name: who is asked when an agent says `model="claude-sonnet-5"`.

A name is one of

    gemini-*, claude-*, gpt-*, o3, codex-*     a vendor's own models
    provider/model                             groq/..., openrouter/vendor/..., ollama/...
    http://host/v1#model                       any server that speaks the chat format
    local, local:NAME, local:PATH.gguf         the model in the box, or any weights

Nothing is opened or imported before a model is asked for. The models of a process are shared, so
that their connections and circuits are.
"""

from typing import Literal

from weft.dialects import facts_for
from weft.dialects.facts import require_model_name
from weft.errors import UsageError
from weft.models.base import Model
from weft.models.services import SERVICES, Service, address_of

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
    return _served(name, SERVICES[_ALIASES.get(provider, provider)])


def _vendors_own(name: str) -> Model:
    services = {"gemini": "gemini", "anthropic": "anthropic"}
    return _served(name, SERVICES[services.get(facts_for(name).dialect, "openai")])


def _served(name: str, service: Service) -> Model:
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
