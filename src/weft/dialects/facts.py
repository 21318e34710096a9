"""Facts about models by name: which dialect they speak and how they take a schema.

One table, read top down: the first pattern that matches wins. What is not in it gets safe
defaults and is marked unknown.
"""

import functools
import re
from typing import NamedTuple


class Facts(NamedTuple):
    """What lowering must know of a model."""

    dialect: str
    native_schema: bool = True
    schema_with_tools: bool = True
    tools: bool = True
    sampling: bool = True
    """Whether it takes a temperature and its kin, and a budget for thinking."""
    known: bool = True


_GEMINI, _CLAUDE, _GPT = "gemini", "anthropic", "openai-responses"
_CHAT = "openai-chat"

_MODELS: tuple[tuple[str, Facts], ...] = (
    (r"gemini-(1|2)(\.|-|$)", Facts(_GEMINI, schema_with_tools=False)),
    (r"gemini-", Facts(_GEMINI)),
    (r"gemma", Facts(_GEMINI, native_schema=False, tools=False)),
    (r"claude-(instant|2|3)", Facts(_CLAUDE, native_schema=False)),
    (r"claude-(opus|sonnet)-4(-0|-1)?(-2025\d+)?$", Facts(_CLAUDE, native_schema=False)),
    (r"claude-(opus|sonnet|haiku)-4(-|$)(?![7-9](-|$))", Facts(_CLAUDE)),
    (r"claude-(opus|sonnet|haiku|fable|mythos)-", Facts(_CLAUDE, sampling=False)),
    (r"claude-", Facts(_CLAUDE)),
    (r"gpt-(3|4$|4-)", Facts(_CHAT, native_schema=False)),
    (r"(gpt-|chatgpt-|o\d|codex-|ft:gpt-)", Facts(_GPT)),
    (r"(local$|local:|https?://)", Facts(_CHAT)),
)

_PROVIDERS: dict[str, str] = {
    "google": _GEMINI,
    "gemini": _GEMINI,
    "vertex": _GEMINI,
    "vertex_ai": _GEMINI,
    "anthropic": _CLAUDE,
    "openai": _GPT,
    "openai-responses": _GPT,
    "openai-chat": _CHAT,
    **dict.fromkeys(
        ("azure", "openrouter", "ollama", "vllm", "groq", "together", "fireworks", "mistral",
         "deepseek", "xai", "cerebras", "litellm", "lmstudio", "llamacpp"),
        _CHAT,
    ),
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def facts_for(model: str) -> Facts:
    """The facts of a model; a `provider/` prefix decides the dialect."""
    if model.startswith(("http://", "https://")):
        return Facts(_CHAT)
    provider, slash, bare = model.rpartition("/")
    found = next((facts for pattern, facts in _MODELS if re.match(pattern, bare)), None)
    if slash:
        dialect = _PROVIDERS.get(provider.split("/")[0])
        if dialect is not None:
            base = found if found is not None else Facts(dialect)
            return base._replace(dialect=dialect)
        return Facts(_CHAT, known=False)
    return found if found is not None else Facts(_CHAT, known=False)


def same_model(one: str, other: str) -> bool:
    """Whether two names are one model's, as far as they tell: a date or an alias may differ."""
    return not one or not other or _undated(one) == _undated(other)


@functools.lru_cache(maxsize=1024)
def _undated(model: str) -> str:
    return re.sub(r"([-@](\d{8}|\d{4}-\d\d-\d\d)|-latest)$", "", wire_name(model))


def wire_name(model: str) -> str:
    """The name the provider knows the model by: without `provider/`, or after the `#`."""
    if model.startswith(("http://", "https://")):
        return model.partition("#")[2] or model
    provider, _, bare = model.partition("/")
    return bare if bare and provider in _PROVIDERS else model
