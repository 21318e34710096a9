"""Names of models that look like one that does not exist."""

import difflib
from collections.abc import Sequence

_KNOWN_AS = {"gemini": "google", "xai": "x-ai"}


def near_names(services: Sequence[str], model: str) -> list[str]:
    """Up to three names the price list has for these services that are near to the name."""
    from genai_prices.data_snapshot import get_snapshot

    named = {_KNOWN_AS.get(service, service) for service in services}
    known = [
        each.id
        for provider in get_snapshot().providers
        if provider.id in named
        for each in provider.models
    ]
    return difflib.get_close_matches(model, known, n=3, cutoff=0.6)
