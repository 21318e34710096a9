"""Ask the toolsets of an agent which tools there are: once in an invocation, and it is in the log.

A resumed run asks again, for the functions: what it offers to the model is what the log has. A
toolset that raises, or no longer has what it offered, ends the run with an error event.
"""

from weft.compiler import ReadonlyContext
from weft.compiler.protected import labels_of, united
from weft.compiler.tools import changes_between, declared_by, equip
from weft.declare import Agent, Tool
from weft.declare.functions import misfit
from weft.declare.tool import ToolSource
from weft.errors import DeclarationError
from weft.runtime.bindings import settled
from weft.runtime.callbacks import ToolsetChanged, ToolsetError
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.session.provenance import OfferedTools, Provenance


async def equipped_root(invocation: Invocation, place: Place, root: Agent, agent: Agent) -> Agent:
    """The root in which the agent has the tools that its toolsets answer, stored before use."""
    offers = invocation.offers
    async with offers.lock:
        tools = offers.tools.get(agent.name)
        if tools is None:
            tools = await _ask(invocation, place, agent)
        try:
            equipped = equip(root, agent.name, tools)
        except DeclarationError as error:
            raise ToolsetError(error.message, where=error.where, hint=error.hint) from error
        offers.tools[agent.name] = tools
        if any(tool.labels for tool in tools):
            invocation.labels = united((*invocation.labels, *labels_of(equipped)))
        if (agent.name, place.scope) not in offers.stored:
            offers.stored.add((agent.name, place.scope))
            notes = Provenance(offered=OfferedTools(agent.name, declared_by(tools)))
            await invocation.commit(invocation.event(agent.name, _place(place), notes=notes))
    return equipped


def _place(place: Place) -> Place:
    """Where the log keeps what toolsets answered: at no node, so that none has begun with it."""
    return Place("toolsets", "", place.scope)


async def _ask(invocation: Invocation, place: Place, agent: Agent) -> tuple[Tool, ...]:
    """The tools that the toolsets of an agent have; as they were, where the run is resumed."""
    state, before = invocation.state_at(place), None
    for position, event in invocation.past.all() if invocation.resumed else ():
        offered = event.provenance.offered
        if offered is not None and offered.agent == agent.name:
            state, before = invocation.state_before(position, place), offered
            invocation.offers.stored.add((agent.name, event.isolation_scope or ""))
    context = ReadonlyContext(
        agent_name=agent.name,
        state=state,
        events=invocation.view(place.scope).events,
        invocation_id=invocation.id,
        user_content=invocation.context(agent.name, Place()).user_content,
        artifacts=await invocation.artifact_texts(),
        deps=invocation.request.deps,
    ).apart()
    tools: list[Tool] = []
    for source in agent.tool_sources:
        tools += await _answer(source, context, agent.name)
    if before is None:
        return tuple(tools)
    problems = changes_between(before.tools, declared_by(tools))
    if problems:
        names = ", ".join(f"`{source.name}`" for source in agent.tool_sources)
        raise ToolsetChanged(
            f"{names} answered something else when the run began: {'; '.join(problems)}",
            where=f"{agent.name}.tools",
            hint="let it answer the same to the same state and deps, then resume; or begin anew"
            " with another message",
        )
    by_name = {tool.name: tool for tool in tools}
    return tuple(by_name[str(one["name"])] for one in before.tools)


async def _answer(
    source: ToolSource, context: ReadonlyContext[object], agent: str
) -> tuple[Tool, ...]:
    """What one toolset answers, as tools."""
    where = f"{agent}.tools.{source.name}"
    try:
        takes_context = misfit(source.ask, 1) is None
        answer = await settled(source.ask(context) if takes_context else source.ask())
    except Exception as error:
        raise ToolsetError(
            f"the toolset `{source.name}` raised {type(error).__name__}: {error}",
            where=where,
            hint="mend it, and resume the run: nothing is lost",
        ) from error
    try:
        tools = source.tools_of(answer, where=where)
    except DeclarationError as error:
        raise ToolsetError(
            f"the toolset `{source.name}` answered what cannot be tools: {error.message}",
            where=where,
            hint=error.hint or "answer a list of functions or tools",
        ) from error
    preparing = next((tool.name for tool in tools if tool.prepare is not None), None)
    if preparing is not None:  # the log has no code, so such a request could not be rebuilt
        raise ToolsetError(
            f"the tool `{preparing}` of the toolset `{source.name}` prepares requests",
            where=where,
            hint=f"declare it with the agent: Agent(..., tools=[{preparing}, ...])",
        )
    return tools
