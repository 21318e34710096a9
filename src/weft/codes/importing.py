"""The codes of importing: what an agent of another framework has that Weft reads differently."""

from weft.codes.code import Code
from weft.diagnostics import Severity

_I = Severity.INFO

IMPORTING = (
    Code(
        "WEFT190",
        _I,
        "braces read differently",
        """google-adk and Weft read braces in an instruction differently.

Why it matters: google-adk fills in `{{name}}`, which is an escape elsewhere, and leaves a path
into a value, `{order.total}`, as text.

Use instead:  {name} for a variable; a key of its own for a part of a value.
""",
    ),
    Code(
        "WEFT490",
        _I,
        "not looked into",
        """A part of an imported agent is code, or done by the provider.

Why it matters: what it reads and writes is unknown. Where it could write any key, rules that
would have to know stay silent behind it. Weft does not run it: a run that would come to it is
refused before it begins, but for code that is only not understood. It is a warning where a tool
is hidden by another of its name: google-adk never calls it.

Use instead:  nothing to do; for a hidden tool, another name.
""",
    ),
)
