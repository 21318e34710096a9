"""An agent as a tool: it runs in the same log, in a scope of its own, and its answer is the result.

It sees the request it was called with, not the conversation; nobody else sees its turns.
"""

from contextlib import aclosing

from weft.compiler.beside import branches_of
from weft.compiler.undone import hidden_by_undoing
from weft.content import Content, FunctionCall, Part
from weft.declare import Agent, Flow
from weft.runtime.answer import is_cut, parse
from weft.runtime.invocation import Invocation
from weft.runtime.kit import Kit
from weft.runtime.place import Place
from weft.runtime.results import Returned
from weft.runtime.signals import NodeFailed
from weft.session import Event
from weft.values import JsonObject, compact


async def run_agent_tool(
    invocation: Invocation, place: Place, kit: Kit, call: FunctionCall, args: JsonObject
) -> Returned:
    """Run the tool's agent on the arguments; an agent that fails is an error result."""
    from weft.runtime.flows import run_node

    declared = kit.tools[call.name or ""].tool.agent
    assert isinstance(declared, Agent | Flow)
    node = invocation.heir(declared, kit.model)
    call_id = call.id or ""
    inner = place.child(node.name, call_id)._replace(scope=call_id, branch="")
    if not len(invocation.view(call_id).events):
        request = args.get("request") if set(args) == {"request"} else None
        text = request if isinstance(request, str) else compact(args)
        asked = Content(parts=(Part(text=text),), role="user")
        await invocation.commit(invocation.event("user", inner, asked))
    invocation.shelter(inner)
    try:
        async with aclosing(run_node(invocation, inner, node)) as events:
            async for _ in events:
                pass
    except NodeFailed as failure:
        code, words = failure.event.error_code, failure.event.error_message
        return Returned({"error": f"{node.name} failed: {code}: {words}"})
    answers = _answers(invocation, call_id)
    if not answers:
        return Returned({"result": ""})
    if isinstance(node, Agent) and node.output_schema is not None:
        held, _ = parse(node, answers[-1].text, wrapped=True)
        return Returned(held if isinstance(held, dict) else {"result": held})
    said = answers[0].text if len(answers) == 1 else None
    if said is None:
        said = "\n\n".join(f"[{one.author}]: {one.text}" for one in answers)
    if any(map(is_cut, answers)):
        return Returned({"result": said, "note": "this was cut off at the token limit"})
    return Returned({"result": said})


def _answers(invocation: Invocation, scope: str) -> list[Event]:
    """The last thing said in the scope, and not taken back; several if it ended with branches."""
    log = invocation.view(scope).events
    undone = hidden_by_undoing(log)

    def spoke(index: int) -> bool:
        event = log[index]
        if index in undone or event.author == "user" or not event.text:
            return False
        return event.is_final_response()

    with log.lock:
        return [log[index] for index in branches_of(log).last_words(spoke)]
