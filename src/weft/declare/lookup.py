"""Looking a key up in the state, as a template does."""

from collections.abc import Mapping

from weft.declare import template
from weft.values import Json


def looked_up(key: str, state: Mapping[str, Json]) -> Json:
    """The value of the key, read as `{key}` in a template is; None if it is missing."""
    found = state.get(key)
    if found is None:
        for variable in template.parse(f"{{{key}}}").variables:
            return template.lookup(variable, state, {})
    return found
