"""Instruction providers that must be waited for: asked once, on the loop, before compiling."""

import inspect
import logging
from collections.abc import Awaitable
from typing import cast

from weft.compiler import ReadonlyContext
from weft.compiler.instruction import VALUES
from weft.compiler.plan import Plan
from weft.compiler.providers import target_of, values_in
from weft.declare import Raw
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.session import Session

_log = logging.getLogger("weft")


def must_wait(provider: object) -> bool:
    """Whether the instruction comes from a coroutine function."""
    if provider is None or isinstance(provider, (str, Raw)):
        return False
    function, _ = target_of(provider)
    called = cast("object", getattr(function, "__call__", None))  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


async def provided_texts(
    plan: Plan,
    session: Session,
    invocation: Invocation,
    place: Place,
    artifacts: dict[str, str] | None,
) -> dict[str, str] | None:
    """What the async providers of this request say, under the names `compile(recorded=)` knows."""
    agent, root = plan.agent, plan.path[0]
    found: dict[str, str] = {}
    for field, provider in (
        ("global_instruction", root.global_instruction),
        ("instruction", agent.instruction),
    ):
        if not must_wait(provider):
            continue
        context = ReadonlyContext(
            agent_name=agent.name,
            state=invocation.state_at(place),
            events=session.events,
            invocation_id=invocation.id,
            user_content=invocation.context(agent.name, Place()).user_content,
            artifacts=artifacts,
        ).apart()
        function, extra = target_of(provider)
        try:
            value = await cast("Awaitable[object]", function(context, *extra))
        except Exception:
            if (invocation.config.on_provider_error or agent.on_provider_error) == "raise":
                raise
            _log.warning("%s.%s: the provider raised", agent.name, field, exc_info=True)
            value = ""
        if isinstance(value, Raw):
            found[f"{field}.raw"] = value.text
        else:
            text = found[field] = "" if value is None else str(value)
            if values := values_in(text, context):
                found[f"{field}{VALUES}"] = " ".join(map(str, values))
    return found or None
