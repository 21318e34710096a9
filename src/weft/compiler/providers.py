"""Instruction providers: text, or something that is called once to make it."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, cast

from weft.codes import report
from weft.compiler.context import ReadonlyContext
from weft.declare import Raw
from weft.declare.template import value_positions
from weft.diagnostics import Diagnostic, Origin

_log = logging.getLogger("weft")


class Provided(NamedTuple):
    """What a provider gave: text, whether it is to be templated, and what went wrong.

    `values` are the positions of braces in it that came from what the provider read.
    """

    text: str
    raw: bool
    dynamic: bool
    problem: Diagnostic | None = None
    values: tuple[int, ...] = ()


def provide(
    provider: object, context: ReadonlyContext | None, origin: Origin, *, on_error: str = "log"
) -> Provided:
    """Call the provider, once. One that raises is logged and gives no text, unless told so."""
    if provider is None:
        return Provided("", False, False)
    if isinstance(provider, str):
        return Provided(provider, False, False)
    handed = context.apart() if context is not None else None
    try:
        value = _call(provider, handed)
    except Exception as error:
        if on_error == "raise":
            raise
        _log.warning("%s: the instruction provider raised", origin, exc_info=True)
        problem = report(
            "WEFT102",
            origin,
            f"the provider raised {type(error).__name__}: {error}",
            'mend it, or set on_provider_error="raise" to stop the run',
        )
        return Provided("", False, True, problem)
    if isinstance(value, Raw):
        return Provided(str(value.text), True, True)
    text = "" if value is None else str(value)
    return Provided(text, False, True, values=values_in(text, handed))


def values_in(text: str, context: ReadonlyContext | None) -> tuple[int, ...]:
    """Where a provider's text has braces that came from what it was handed."""
    return value_positions(text, context.texts()) if context is not None and "{" in text else ()


def _call(provider: object, context: ReadonlyContext | None) -> object:
    if isinstance(provider, Raw):
        return provider
    function, extra = target_of(provider)
    value = function(context, *extra)
    return _awaited(cast("Awaitable[object]", value)) if inspect.isawaitable(value) else value


def target_of(provider: object) -> tuple[Callable[..., object], Sequence[object]]:
    """The function behind a provider, and the arguments it takes beside the context."""
    if not isinstance(provider, tuple):
        return cast("Callable[..., object]", provider), ()
    owner, name, *rest = cast("tuple[object, ...]", provider)
    extra = rest[0] if rest else ()
    if isinstance(extra, str) or not isinstance(extra, (list, tuple)):
        extra = (extra,)
    return getattr(owner, cast("str", name)), cast("Sequence[object]", extra)


def _awaited(value: Awaitable[object]) -> object:
    """The result of an async provider, also when a loop already runs in this thread."""
    import asyncio

    async def wait() -> object:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()
