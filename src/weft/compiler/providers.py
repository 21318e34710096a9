"""Instruction providers: text, or something that is called once to make it."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, cast

from weft.codes import report
from weft.compiler.context import ReadonlyContext
from weft.declare import Raw
from weft.diagnostics import Diagnostic, Origin

_log = logging.getLogger("weft")


class Provided(NamedTuple):
    """What a provider gave: text, whether it is to be templated, and what went wrong."""

    text: str
    raw: bool
    dynamic: bool
    problem: Diagnostic | None = None


def provide(
    provider: object, context: ReadonlyContext | None, origin: Origin, *, on_error: str = "log"
) -> Provided:
    """Call the provider, once. One that raises is logged and gives no text, unless told so."""
    if provider is None:
        return Provided("", False, False)
    if isinstance(provider, str):
        return Provided(provider, False, False)
    try:
        value = _call(provider, context)
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
    return Provided("" if value is None else str(value), False, True)


def _call(provider: object, context: ReadonlyContext | None) -> object:
    if isinstance(provider, Raw):
        return provider
    function, extra = target_of(provider)
    value = function(context.apart() if context is not None else None, *extra)
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
