"""The plugins' first and last word on a run.

What they write to the state is kept in events of the run itself, apart from what agents did. The
last word comes exactly once to whoever had the first, however the run ended.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Literal, NamedTuple

import msgspec

from weft.content import Content
from weft.declare import Agent, Callback, CallbackContext, Node
from weft.declare.functions import misfit
from weft.runtime.callbacks import plugin_methods, wrong_answer
from weft.runtime.invocation import Invocation
from weft.runtime.kit import settled
from weft.runtime.place import Place
from weft.runtime.record import Record
from weft.session import Event
from weft.session.event import NO_ACTIONS

_log = logging.getLogger("weft")

RUN = Place("run")
"""Where a run keeps what belongs to none of its nodes."""


class RunOutcome(NamedTuple):
    """How a run ended, as plugins are told.

    `event` is the error event that ended it, where one did; `error` what was raised. A run that
    waits for an answer goes on in another run. One that was closed or interrupted by a later
    one counts as cancelled.
    """

    status: Literal["done", "waiting", "error", "cancelled"]
    event: Event | None = None
    error: BaseException | None = None


def root_place(root: Node) -> Place:
    """Where the root stands: an agent at the empty path, a flow under its name."""
    return Place() if isinstance(root, Agent) else Place(root.name)


class Around:
    """The plugins of one run: whom the run was announced to, and who hears of its end."""

    __slots__ = ("_begun", "_invocation", "_root")

    def __init__(self, invocation: Invocation, root: Node) -> None:
        self._invocation = invocation
        self._root = root
        self._begun: list[object] = []

    async def events(self, inner: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """The events of a run, unless a plugin answers in its stead."""
        answer = await self._before()
        if answer is not None:
            yield answer
            return
        try:
            async for event in inner:
                yield event
        finally:
            await inner.aclose()

    async def _before(self) -> Event | None:
        """The answer of the first plugin that answers for the whole run, if it is not over."""
        invocation, root = self._invocation, self._root
        over = _is_over(invocation, root)
        for plugin in invocation.services.plugins:
            for callback in plugin_methods((plugin,), "before_run"):
                context = invocation.context(root.name, RUN)
                answer = await settled(callback(context))
                if answer is not None and not isinstance(answer, Content):
                    raise wrong_answer("before_run", callback, answer, "Content")
                if answer is not None and not over:
                    self._begun.append(plugin)
                    return await self._answered(answer, context)
                await self._keep(context)
            self._begun.append(plugin)
        return None

    async def _answered(self, answer: Content, context: CallbackContext) -> Event:
        root = self._root
        actions = msgspec.structs.replace(context.actions.to_actions(), end_of_agent=True)
        said = msgspec.structs.replace(answer, role="model")
        event = self._invocation.event(root.name, root_place(root), said, actions=actions)
        return await self._invocation.commit(event)

    async def after(self, outcome: RunOutcome) -> None:
        """Tell the plugins how the run ended, each once.

        What one of them raises is raised when all were told, unless the run ended badly: then
        that is what matters, and the plugin's trouble is logged.
        """
        begun, self._begun = self._begun, []
        raised: Exception | None = None
        cancelled: asyncio.CancelledError | None = None
        for callback in plugin_methods(begun, "after_run"):
            context = self._invocation.context(self._root.name, RUN)
            try:
                await settled(_told(callback, context, outcome))
                await self._keep(context)
            except asyncio.CancelledError as error:  # the others are to hear of it all the same
                cancelled = error
            except Exception as error:
                if raised is not None or outcome.status in ("error", "cancelled"):
                    _log.warning("a plugin failed after the run", exc_info=True)
                raised = raised or error
        if cancelled is not None:
            raise cancelled
        if raised is not None and outcome.status in ("done", "waiting"):
            raise raised

    async def _keep(self, context: CallbackContext) -> None:
        actions = context.actions.to_actions()
        if actions != NO_ACTIONS:
            await self._invocation.store(
                self._invocation.event(self._root.name, RUN, actions=actions)
            )


def _told(callback: Callback, context: CallbackContext, outcome: RunOutcome) -> object:
    """Call a plugin's last word, with how the run ended if it wants to know."""
    return callback(context, outcome) if misfit(callback, 2) is None else callback(context)


def _is_over(invocation: Invocation, root: Node) -> bool:
    """Whether the log has the root's answer already: then nobody answers in its stead."""
    if isinstance(root, Agent):
        progress = invocation.progress(Place())
        return progress.ended or progress.answered is not None
    return Record.read(invocation, root_place(root)).ended
