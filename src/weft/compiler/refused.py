"""What the provider would refuse in a lowered request, with where it came from."""

from weft.codes import report
from weft.compiler.sourcemap import SourceMap
from weft.diagnostics import Diagnostic, Origin
from weft.dialects import Lowered
from weft.dialects.refuse import refusals
from weft.errors import UsageError


def refused(lowered: Lowered, model: str) -> tuple[Diagnostic, ...]:
    """One diagnostic for each place that would be answered with a 400."""
    places = SourceMap(lowered)
    return tuple(
        report(found.code, _origin(places, found.pointer), found.message, found.hint)
        for found in refusals(lowered.dialect, lowered.wire, model)
    )


def _origin(places: SourceMap, pointer: str) -> Origin:
    """Where the place came from; for something that is missing, where it would stand."""
    while True:
        try:
            return places.origin(pointer)
        except UsageError:
            pointer = pointer.rpartition("/")[0]
