"""What an import could not look into, said as diagnostics."""

from typing import NamedTuple

from weft.codes import report
from weft.diagnostics import Diagnostic, Origin


class Opaque:
    """Code of google-adk's user that Weft looks at from outside: it is named, and never called.

    Rules that would have to know what it does stay silent behind it.
    """

    def __init__(self, name: str, what: str) -> None:
        self.__name__ = name
        self.what = what

    def __call__(self, *given: object) -> object:
        """Refuse to run."""
        from weft.errors import UsageError

        raise UsageError(
            f"{self.what} was imported to be looked at, not to be run",
            where=self.__name__,
            hint="run it with google-adk, and add weft.interop.adk.WeftPlugin() to the plugins",
        )

    def __repr__(self) -> str:
        return f"<{self.what}>"


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
