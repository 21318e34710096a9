"""Objects of google-adk, read by the names of their classes and fields.

Nothing is imported for it: who has such an object has imported google-adk already.
"""

from collections.abc import Iterable, Mapping
from typing import cast

HOME = "google.adk."
"""Where the classes live; one of the user's that is derived from them has them above it."""

AGENTS = frozenset(("BaseAgent", "BaseNode"))


def kinds(value: object) -> tuple[str, ...]:
    """The names of the google-adk classes that the object's own class is made of."""
    return tuple(
        kind.__name__ for kind in type(value).__mro__ if f"{kind.__module__}.".startswith(HOME)
    )


def is_a(value: object, name: str) -> bool:
    """Whether the object is of a google-adk class of that name, or of one derived from it."""
    return name in kinds(value)


def is_adk(value: object) -> bool:
    """Whether this is an agent, a workflow or an app of google-adk."""
    return not isinstance(value, type) and not {*kinds(value)}.isdisjoint((*AGENTS, "App"))


def field(value: object, name: str) -> object:
    """A field of the object, None where it has none."""
    return cast("object", getattr(value, name, None))


def text(value: object, name: str) -> str:
    """A field that holds text; "" where it does not."""
    string = field(value, name)
    return string if isinstance(string, str) else ""


def flag(value: object, name: str) -> bool:
    """A field that is True or not."""
    return field(value, name) is True


def listed(value: object, name: str) -> list[object]:
    """A field that holds several things; one thing is a list of it, None an empty one."""
    values = field(value, name)
    if values is None:
        return []
    if not isinstance(values, (list, tuple, set, frozenset)):
        return [values]
    return list(cast("Iterable[object]", values))


def overrides(value: object, method: str) -> bool:
    """Whether a class of the user's says itself what google-adk's would do."""
    for kind in type(value).__mro__:
        if f"{kind.__module__}.".startswith(HOME):
            return False
        if method in vars(kind):
            return True
    return False


def is_own(value: object) -> bool:
    """Whether the object's class is one of google-adk's, and not derived from it."""
    return f"{type(value).__module__}.".startswith(HOME)


def fields_of(value: object) -> tuple[str, ...]:
    """The names of the fields that an object of a model class has."""
    return tuple(cast("Mapping[str, object]", getattr(type(value), "model_fields", {})))


def named(value: object) -> str:
    """The object's own name, or the name of its class."""
    return text(value, "name") or type(value).__name__
