"""Names of models: which there can be, whether a vendor has one, which are near to it.

A name that nobody can be asked by is refused alike by compiling, replaying and running. Other
names are told by their words first. Only one with a word that no vendor's model has is looked up
in the list of prices, which is loaded for that.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.dialects.facts import PROVIDERS, facts_for
from weft.errors import UsageError
from weft.misuse import close

if TYPE_CHECKING:
    from weft.dialects.price_list import PriceList

FORMS = "gemini-*, claude-*, gpt-*, provider/model, http://host/v1#model, local"

_ELSEWHERE = {
    "google-gla": "gemini",
    "google_genai": "gemini",
    "google-vertex": "vertex",
    "mistralai": "mistral",
    "grok": "xai",
}
"""Providers by the names that other libraries have for them."""

_VENDORS = (
    (r"claude-", "anthropic"),
    (r"gemini-", "google"),
    (r"gpt-|chatgpt-|o\d(-|$)", "openai"),
)

_WORDS = frozenset((
    "argon", "astra", "audio", "chat", "chatgpt", "claude", "codex", "computer", "cyber", "deep",
    "diarize", "embedding", "exp", "fable", "flare", "flash", "gemini", "gpt", "haiku", "image",
    "instant", "instruct", "it", "large", "latest", "lite", "live", "luna", "maas", "max",
    "mini", "mythos", "nano", "native", "omni", "opus", "oss", "preview", "pro", "realtime",
    "research", "robotics", "safeguard", "search", "small", "sol", "sonnet", "terra", "thinking",
    "transcribe", "translate", "tts", "turbo", "use", "vision",
))  # fmt: skip
"""Words in the names of vendors' models; what holds a digit is a version, a size or a date."""

_LISTED_AS = {"gemini": "google", "xai": "x-ai"}
"""Services that the list of prices has under another name."""


def require_model_name(name: str, *, where: str) -> None:
    """Refuse a name that no model can be found by, with what to write instead."""
    provider, slash, bare = name.partition("/")
    if slash and not bare and provider in PROVIDERS:
        raise UsageError(
            f"`{name}` does not say which model it is", where=where, hint=f"write {provider}/MODEL"
        )
    if facts_for(name).known:
        return
    before, colon, after = name.partition(":")
    before = _ELSEWHERE.get(before, before)
    if colon and before in PROVIDERS and not slash:
        raise UsageError(
            f"there is no client for the model `{name}`: a slash stands behind the provider",
            where=where,
            hint=f"write {before}/{after or 'MODEL'}",
        )
    known = f"the forms are: {FORMS}"
    if slash:
        near = close(provider, PROVIDERS, cutoff=0.6)
        also = f"did you mean `{near[0]}/...`? " if near else ""
        raise UsageError(
            f"there is no client for the model `{name}`: nobody knows the provider `{provider}`",
            where=where,
            hint=f"{also}known: {', '.join(_listed_providers())}; {known}",
        )
    names = near_names(("openai", "anthropic", "gemini"), name)
    also = f"did you mean {' or '.join(f'`{each}`' for each in names)}? " if names else ""
    raise UsageError(
        f"there is no client for the model `{name}`",
        where=where,
        hint=f"{also}{known}; or pass a model object",
    )


def _listed_providers() -> list[str]:
    """The providers, the vendors of most models first, without other names for the same."""
    vendors = ["gemini", "anthropic", "openai"]
    others = (name for name in PROVIDERS if facts_for(f"{name}/x").dialect == "openai-chat")
    return [*vendors, *(name for name in others if name != "openai-chat")]


def is_misspelt(name: str) -> bool:
    """Whether the name claims to be a vendor's, and the vendor has no model of that name.

    New versions of known families pass, since they come out all the time.
    """
    vendor = _vendor(name)
    if not vendor:
        return False
    words = re.split(r"[-:@]", name.lower())
    versioned = any(word in ("preview", "latest") or re.search(r"\d", word) for word in words)
    known = all(word in _WORDS or re.search(r"\d", word) for word in words)
    if known and (versioned or vendor != "anthropic"):
        return False
    return _prices().find(name, vendor) is None


def near_names(services: Sequence[str], model: str) -> list[str]:
    """Up to three names the price list has for these services that are near to the name."""
    named = {_LISTED_AS.get(service, service) for service in services}
    listed = [
        each.id for seller in _prices().sellers if seller.id in named for each in seller.listings
    ]
    return close(model, dict.fromkeys(listed), most=3, cutoff=0.6)


def suggestion(name: str) -> str:
    """The names near to a vendor's model that there is not, as a question; empty for none."""
    names = near_names((_vendor(name) or "openai",), name)
    return f"did you mean {' or '.join(f'`{each}`' for each in names)}?" if names else ""


def _vendor(name: str) -> str:
    return next((vendor for shape, vendor in _VENDORS if re.match(shape, name)), "")


def _prices() -> "PriceList":
    from weft.dialects.price_list import price_list

    return price_list()
