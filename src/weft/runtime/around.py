"""The plugins' first and last word on a run.

What they write to the state is kept in events of the run itself, apart from what agents did.
"""

from collections.abc import AsyncGenerator

import msgspec

from weft.content import Content
from weft.declare import Agent, CallbackContext, Node
from weft.runtime.callbacks import plugin_methods, wrong_answer
from weft.runtime.invocation import Invocation
from weft.runtime.kit import settled
from weft.runtime.place import Place
from weft.runtime.record import Record
from weft.session import Event
from weft.session.event import NO_ACTIONS

RUN = Place("run")
"""Where a run keeps what belongs to none of its nodes."""


def root_place(root: Node) -> Place:
    """Where the root stands: an agent at the empty path, a flow under its name."""
    return Place() if isinstance(root, Agent) else Place(root.name)


async def with_plugins(
    invocation: Invocation, root: Node, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """The events of a run, between what the plugins have to say before it and after it."""
    plugins = invocation.services.plugins
    answer = None if _is_over(invocation, root) else await _before(invocation, root)
    if answer is not None:
        yield answer
    else:
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
    for callback in plugin_methods(plugins, "after_run"):
        context = invocation.context(root.name, RUN)
        await settled(callback(context))
        await _keep(invocation, root, context)


async def _before(invocation: Invocation, root: Node) -> Event | None:
    """The answer of the first plugin that answers for the whole run."""
    for callback in plugin_methods(invocation.services.plugins, "before_run"):
        context = invocation.context(root.name, RUN)
        answer = await settled(callback(context))
        if answer is None:
            await _keep(invocation, root, context)
            continue
        if not isinstance(answer, Content):
            raise wrong_answer("before_run", callback, answer, "Content")
        actions = msgspec.structs.replace(context.actions.to_actions(), end_of_agent=True)
        said = msgspec.structs.replace(answer, role="model")
        event = invocation.event(root.name, root_place(root), said, actions=actions)
        return await invocation.commit(event)
    return None


async def _keep(invocation: Invocation, root: Node, context: CallbackContext) -> None:
    actions = context.actions.to_actions()
    if actions != NO_ACTIONS:
        await invocation.commit(invocation.event(root.name, RUN, actions=actions))


def _is_over(invocation: Invocation, root: Node) -> bool:
    """Whether the log has the root's answer already: then nobody answers in its stead."""
    if isinstance(root, Agent):
        progress = invocation.progress(Place())
        return progress.ended or progress.answered is not None
    return Record.read(invocation, root_place(root)).ended
