"""The loop: compile, ask, answer the calls, ask again; one loop, streamed or not.

Every complete event is in the log before anything is built on it, so this loop may start
anywhere: it looks at what its place has done, and does what is left.
"""

from collections.abc import AsyncGenerator

import msgspec

from weft.compiler.plan import plan_for
from weft.declare import Agent, Flow, Node, tree
from weft.errors import CompileError, ProtectionError, StoreError
from weft.runtime.agent_run import AgentRun
from weft.runtime.asking import Asking
from weft.runtime.callbacks import CallbackError
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.runtime.signals import Interrupted, NodeFailed, Suspended
from weft.session import Event


async def run_agent(
    invocation: Invocation, place: Place, root: Agent, start: str
) -> AsyncGenerator[Event, None]:
    """Run the agent tree at a place until it has an answer, waits, or fails.

    `start` is the agent the turn goes to, unless the log says it was handed on.
    """
    progress = invocation.progress(place)
    run: AgentRun | None = None
    if progress.failed is not None and invocation.sheltered(place):
        raise NodeFailed(progress.failed)
    try:
        while not progress.ended:
            name = progress.agent or start
            path = (root,) if name == root.name else tree.find(root, name) or (root,)
            target = path[-1]
            if isinstance(target, Flow):
                from weft.runtime.flows import run_node

                flow = invocation.heir(target, _model_above(path))
                events = run_node(invocation, place.child(target.name, 0), flow)
                try:
                    async for event in events:
                        yield event
                finally:
                    await events.aclose()
                progress.ended = True
                return
            plan = plan_for(root, target.name, invocation.config, invocation.labels)
            run = AgentRun(invocation, place, root, target, progress, plan)
            turn = run_turn(run)
            try:
                async for event in turn:
                    yield event
            finally:
                await turn.aclose()
    except (NodeFailed, Suspended, Interrupted, StoreError):
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        failed = invocation.event(progress.agent or start, place, error=(_code(error), words))
        if run is not None and run.streaming:  # what was streamed has come to this
            failed = msgspec.structs.replace(failed, id=run.streaming)
        event = await invocation.commit(failed)
        yield event
        raise NodeFailed(event, error) from error


async def run_turn(run: AgentRun) -> AsyncGenerator[Event, None]:
    """Everything one agent does until it has answered or handed over."""
    progress = run.progress
    if not progress.begun:
        for event in await run.begin():
            yield event
        if progress.agent != run.agent.name:
            return
    reply: Event | None = None
    while progress.answered is None:
        if progress.due(run.invocation.retry):
            made = await run.answer_calls(reply)
        elif progress.pending:
            raise Suspended
        else:
            failure = await run.refuse_step()
            if failure is not None:
                yield failure.event
                raise failure
            run.performed = []
            asking = Asking(run)
            asks = await asking.prepare()
            for event in run.performed:
                yield event
            while asks:
                asks = False
                answers = asking.answers()
                try:
                    async for response in answers:
                        if not response.partial:
                            asking.response = response
                        elif response.error_code:
                            asking.begins_anew = True
                        elif asking.stream:
                            yield asking.partial(response)
                except Exception as error:
                    asks = await asking.recover(error)
                finally:
                    if isinstance(answers, AsyncGenerator):
                        await answers.aclose()
            made = await run.take(await asking.reply())
            reply = made.events[0]
        for event in made.events:
            yield event
        if made.ending is not None:
            raise made.ending
        if progress.agent != run.agent.name:
            return
    if not progress.ended:
        for event in await run.end():
            yield event


def _model_above(path: tuple[Node, ...]) -> object:
    """The model that a flow at the end of the path inherits."""
    agents = (node for node in reversed(path) if isinstance(node, Agent))
    return next((agent.model for agent in agents if agent.model is not None), None)


def _code(error: Exception) -> str:
    """The code of the error event for what user code, or a declaration, raised."""
    if isinstance(error, ProtectionError):
        return "protect"
    if isinstance(error, CompileError):
        return "compile_error"
    return "callback_error" if isinstance(error, CallbackError) else "error"
