"""`weft rule`: the page of a diagnostic code, or the list of all codes."""

from weft.cli.options import CommandOptions
from weft.codes import CODES
from weft.errors import UsageError
from weft.misuse import close


def rule_command(options: CommandOptions) -> int:
    """Explain a diagnostic code; without one, list them all."""
    if options.code is None:
        width = max(len(one.severity) for one in CODES.values())
        for one in CODES.values():
            print(f"{one.code}  {one.severity:<{width}}  {one.title}")
        return 0
    number = _written_out(options.code)
    code = CODES.get(number)
    if code is None:
        near = _nearest(number, list(CODES))
        raise UsageError(
            f"there is no code `{options.code}`",
            where="rule",
            hint=f"the nearest is {near} ({CODES[near].title}); `weft rule` lists them all",
        )
    print(f"{code.code}: {code.title} ({code.severity})\n\n{code.page.strip()}")
    return 0


def _written_out(code: str) -> str:
    """`weft101` and `101` mean WEFT101."""
    upper = code.strip().upper()
    return f"WEFT{upper}" if upper.isdigit() else upper


def _nearest(code: str, codes: list[str]) -> str:
    """The code of the nearest number, else of the nearest spelling."""
    number = code.removeprefix("WEFT").replace("O", "0").replace("I", "1").replace("L", "1")
    if number.isascii() and number.isdigit():
        return min(codes, key=lambda one: abs(int(one.removeprefix("WEFT")) - int(number[:9])))
    return close(code, codes, cutoff=0.0)[0]
