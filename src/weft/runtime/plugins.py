"""The plugins of a run: who is asked before it, and who is told how it ended."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Literal, NamedTuple

import msgspec

from weft.content import Content
from weft.declare import Agent, Callback, CallbackContext
from weft.declare.functions import misfit
from weft.runtime.invocation import Invocation
from weft.runtime.place import ROOT, Place, root_place
from weft.runtime.program import await_value, plugin_methods, wrong_answer
from weft.runtime.tracing import tracing_plugin
from weft.session import Event
from weft.session.event import NO_ACTIONS

RUN = Place("run")
"""Where the log keeps what belongs to a run and to none of its nodes."""

_log = logging.getLogger("weft")


class RunOutcome(NamedTuple):
    """How a run ended, as plugins are told.

    `event` is the error event that ended it, where one did; `error` what was raised. A run that
    waits for an answer goes on in another run. One that was closed or interrupted by a later
    one counts as cancelled.
    """

    status: Literal["done", "waiting", "error", "cancelled"]
    event: Event | None = None
    error: BaseException | None = None


async def unless_answered(
    invocation: Invocation, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """The events of a run, unless a plugin answers in its stead."""
    answer = await _before_run(invocation)
    if answer is not None:
        yield answer
        return
    try:
        async for event in events:
            yield event
    finally:
        await events.aclose()


async def _before_run(invocation: Invocation) -> Event | None:
    """The answer of the first plugin that answers for the whole run, if it is not over."""
    over = _is_over(invocation)
    tracing = tracing_plugin(invocation.services.plugins)
    if tracing is not None:
        invocation.trace = tracing.trace_run(invocation.context(invocation.root.name, RUN))
    for plugin in invocation.services.plugins:
        for callback in plugin_methods((plugin,), "before_run"):
            context = invocation.context(invocation.root.name, RUN)
            answer = await await_value(callback(context))
            if answer is not None and not isinstance(answer, Content):
                raise wrong_answer("before_run", callback, answer, "Content")
            # a run that is resumed after its answer has nothing left to answer for
            if answer is not None and not over:
                invocation.announced.append(plugin)
                return await _store_answer(invocation, answer, context)
            await _store_changes(invocation, context)
        invocation.announced.append(plugin)
    return None


async def _store_answer(invocation: Invocation, answer: Content, context: CallbackContext) -> Event:
    root = invocation.root
    actions = msgspec.structs.replace(context.actions.to_actions(), end_of_agent=True)
    content = msgspec.structs.replace(answer, role="model")
    event = invocation.event(root.name, root_place(root), content, actions=actions)
    return await invocation.commit(event)


async def after_run(invocation: Invocation, outcome: RunOutcome) -> None:
    """Tell the plugins that know of the run how it ended, each once.

    If a plugin raises, the others are told first. Its error is raised then, unless the run itself
    ended badly: that matters more, and the plugin's error is logged.
    """
    announced, invocation.announced = invocation.announced, []
    raised: Exception | None = None
    cancelled: asyncio.CancelledError | None = None
    for callback in plugin_methods(announced, "after_run"):
        context = invocation.context(invocation.root.name, RUN)
        try:
            await await_value(_call(callback, context, outcome))
            await _store_changes(invocation, context)
        except asyncio.CancelledError as error:  # the others are told all the same
            cancelled = error
        except Exception as error:
            if raised is not None or outcome.status in ("error", "cancelled"):
                _log.warning("a plugin failed after the run", exc_info=True)
            raised = raised or error
    if cancelled is not None:
        raise cancelled
    if raised is not None and outcome.status in ("done", "waiting"):
        raise raised


def _call(callback: Callback, context: CallbackContext, outcome: RunOutcome) -> object:
    """Call a plugin's `after_run`, with the outcome if it takes one."""
    return callback(context, outcome) if misfit(callback, 2) is None else callback(context)


async def _store_changes(invocation: Invocation, context: CallbackContext) -> None:
    actions = context.actions.to_actions()
    if actions != NO_ACTIONS:
        await invocation.store(invocation.event(invocation.root.name, RUN, actions=actions))


def _is_over(invocation: Invocation) -> bool:
    """Whether the log has the root's answer already: then nobody answers in its stead."""
    root = invocation.root
    if isinstance(root, Agent):
        progress = invocation.log.progress(ROOT)
        return progress.ended or progress.answered is not None
    return invocation.log.record(root_place(root)).ended
