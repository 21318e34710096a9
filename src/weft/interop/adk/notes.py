"""What an import could not look into, said as diagnostics."""

from typing import NamedTuple

from weft.codes import report
from weft.declare.functions import Foreign
from weft.diagnostics import Diagnostic, Origin


class Place(NamedTuple):
    """A field of an agent of google-adk."""

    agent: str
    field: str

    @property
    def origin(self) -> Origin:
        """The place, for a diagnostic."""
        return Origin("field", self.field, self.agent)


def opaque(place: Place, what: str, *, silent: bool) -> Diagnostic:
    """Say that something is not looked into; `silent` where rules behind it say nothing."""
    behind = ", so nothing is said about the keys behind it" if silent else ""
    return report(
        "WEFT490",
        place.origin,
        f"{what} is not looked into{behind}",
        "nothing to do; what it writes can be declared: --input KEY=TYPE" if silent else "",
    )


def closed(place: Place, what: str, *, opaque: bool = True) -> Foreign:
    """Code that is looked at from outside: named, and never called; `opaque` may do anything."""
    return Foreign(str(place.origin), what, opaque=opaque)
