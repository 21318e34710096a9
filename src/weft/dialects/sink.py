"""What a lowering has to say about a request it could not spell in full."""

from collections.abc import Sequence

import msgspec

from weft.codes import report
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.dialects.accepted import Loss
from weft.errors import LoweringError


class Sink(msgspec.Struct, kw_only=True):
    """Where a lowering says what it could not express; under strict it stops there."""

    dialect: str
    strict: bool
    model: str = ""
    held: bool = False
    """Whether the provider holds what was said, so that the id of something means it."""
    own_ids: frozenset[str] = frozenset()
    """Ids of the calls at hand that the provider itself gave."""
    diagnostics: list[Diagnostic] = []

    def taken(self) -> tuple[Diagnostic, ...]:
        """What was said since it was last taken."""
        if not self.diagnostics:
            return ()
        said = tuple(self.diagnostics)
        self.diagnostics.clear()
        return said

    def lost(self, code: str, origin: Origin, message: str, hint: str = "") -> None:
        """Report a loss, or refuse it under strict."""
        if self.strict:
            raise LoweringError(f"{message} [{code}]", where=str(origin), hint=hint)
        self.diagnostics.append(report(code, origin, message, hint))

    def said(
        self,
        code: str,
        origin: Origin,
        message: str,
        hint: str = "",
        *,
        severity: Severity | None = None,
    ) -> None:
        """Report something that loses nothing the author asked for."""
        self.diagnostics.append(report(code, origin, message, hint, severity=severity))

    def schema_losses(self, losses: Sequence[Loss], origin: Origin) -> None:
        """Report what a schema had to give up."""
        for loss in losses:
            message = (
                f"{self.dialect} cannot express `{loss.keyword}` at"
                f" {loss.pointer or 'the root'}: {loss.message}"
            )
            if loss.kind == "changed":
                self.said("WEFT701", origin, message, severity=Severity.INFO)
            else:
                hint = "validate it in the tool, or say it in the description"
                self.lost("WEFT701", origin, message, hint)
