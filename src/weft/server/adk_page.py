"""What google-adk's page shows next to a conversation: graphs, traces, and the page itself.

The page is served from a google-adk that is installed here; none of it is part of Weft.

Top to bottom: graphs, traces, the page.
"""

import importlib.util
import os
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from weft.compiler.compile import compile as compile_request
from weft.declare import Agent, Node
from weft.declare.agent import find_path
from weft.declare.tool import to_tools
from weft.dialects.wire import objects_in
from weft.errors import WeftError
from weft.replay.steps import model_events
from weft.runtime import Runner
from weft.server.endpoints import Answer, ApiRoute, Call, Endpoint, respond
from weft.server.problems import Problem
from weft.session import Session, SessionKey
from weft.values import Json, JsonObject, digest

BROWSER_VARIABLE = "WEFT_ADK_BROWSER"
"""A folder with the page, where google-adk is installed elsewhere."""

_TRACED = 100
"""Of how many model calls a trace shows the requests."""


async def get_nothing(call: Call) -> Answer:
    """An empty list: evaluations are not made here."""
    call.runner()
    return respond([])


async def get_metrics_info(call: Call) -> Answer:
    """No metrics of evaluations."""
    call.runner()
    return respond({"metricsInfo": []})


async def build_graph(call: Call) -> Answer:
    """The agents and tools of an app as a tree."""
    runner = call.runner()
    return respond({"name": runner.app_name, "root_agent": _describe_node(runner.root)})


def _describe_node(node: Node) -> JsonObject:
    if not isinstance(node, Agent):
        return {
            "name": node.name,
            "description": type(node).__name__,
            "sub_agents": [_describe_node(child) for child in node.children],
            "tools": [],
        }
    return {
        "name": node.name,
        "description": node.description,
        "model": node.model if isinstance(node.model, str) else "",
        "instruction": node.instruction if isinstance(node.instruction, str) else "",
        "sub_agents": [_describe_node(child) for child in node.sub_agents],
        "tools": [{"name": name, "type": "tool"} for name in _tool_names(node)],
    }


def _tool_names(agent: Agent) -> list[str]:
    try:
        return [tool.name for tool in to_tools(agent.tools, where=agent.name)]
    except WeftError:  # a toolset that is asked for its tools in a run only
        return []


async def build_graph_image(call: Call) -> Answer:
    """The same as a drawing, which the page makes."""
    return respond({"": {"dotSrc": dot_of(call.runner().root)}})


async def event_graph(call: Call) -> Answer:
    """The drawing with what an event was about."""
    user = call.user(call.path("user"))
    session = await call.served.session(call.runner(), user, call.path("session"))
    event = next((one for one in session.events if one.id == call.path("event")), None)
    if event is None:
        raise Problem(404, "unknown-event", "there is no such event")
    lit = {event.author, *(one.name for one in event.calls), *(one.name for one in event.results)}
    return respond({"dotSrc": dot_of(call.runner().root, frozenset(n for n in lit if n))})


def dot_of(root: Node, lit: frozenset[str] = frozenset()) -> str:
    """Agents, flows and tools in the language of Graphviz."""
    lines = ["digraph {", "rankdir=LR; node [shape=box, style=rounded]"]
    seen: set[str] = set()

    def name_of(name: str, shape: str) -> str:
        quoted = msgspec.json.encode(name).decode()
        if name not in seen:
            seen.add(name)
            fill = ', style="rounded,filled", fillcolor="#0f5223"' if name in lit else ""
            lines.append(f"{quoted} [shape={shape}{fill}]")
        return quoted

    def draw(node: Node) -> str:
        mine = name_of(node.name, "box")
        if isinstance(node, Agent):
            lines.extend(f"{mine} -> {name_of(tool, 'ellipse')}" for tool in _tool_names(node))
            lines.extend(f"{mine} -> {draw(child)}" for child in node.sub_agents)
        else:
            lines.extend(f"{mine} -> {draw(child)}" for child in node.children)
        return mine

    draw(root)
    return "\n".join([*lines, "}"])


async def session_trace(call: Call) -> Answer:
    """The runs of a session as spans, with the request of each answer of a model."""
    runner, id = call.runner(), call.path("session")
    user = call.user(call.query("user") or None)
    key = SessionKey(runner.app_name, user, id)
    # the page asks without the user, who may not be the default one
    is_anybody = call.identity.user is None and not call.query("user")
    if is_anybody and key not in await runner.store.lengths([key]):
        infos = await runner.store.sessions(runner.app_name)
        user = next((info.key.user_id for info in infos if info.key.id == id), user)
    session = await call.served.session(runner, user, id)
    return respond([*_spans(runner, session)])


async def event_trace(call: Call) -> Answer:
    """Where an event stands in the trace."""
    call.runner()
    return respond({"gcp.vertex.agent.event_id": call.path("event")})


def _spans(runner: Runner, session: Session) -> Iterator[JsonObject]:
    """A span for each invocation, and below it one for each answer of a model or a tool.

    The page rejects the whole trace for one null or one unknown kind of part.
    """
    events = list(session.events)
    by_run: dict[str, list[int]] = {}
    for index, event in enumerate(events):
        by_run.setdefault(event.invocation_id, []).append(index)
    spoken = model_events(session)
    # each traced answer costs a compilation
    answers, traced = {*spoken}, {*spoken[-_TRACED:]}
    for id, indexes in by_run.items():
        first, last = events[indexes[0]], events[indexes[-1]]
        trace = digest(id.encode())[:32]
        agents = [events[i].author for i in indexes if events[i].author != "user"]
        yield _span(
            f"invoke_agent {agents[0] if agents else runner.root.name}",
            first.timestamp,
            last.timestamp,
            trace,
            trace[:16],
            None,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": agents[0] if agents else runner.root.name,
                "gen_ai.conversation.id": session.id,
                "gcp.vertex.agent.invocation_id": id,
            },
        )
        # the first event is what the user said; each later one took from the event before it
        for before, index in pairwise(indexes):
            event = events[index]
            span = digest(event.id.encode())[:16]
            start = events[before].timestamp
            own: JsonObject = {
                "gcp.vertex.agent.event_id": event.id,
                "gcp.vertex.agent.invocation_id": id,
                "gen_ai.conversation.id": session.id,
            }
            if index in answers:
                logs = [log] if index in traced and (log := _log_of(runner, session, index)) else []
                own |= {"gen_ai.operation.name": "generate_content"}
                own |= {"gen_ai.request.model": event.model_version or "model"}
                name = f"generate_content {event.author}"
                yield _span(name, start, event.timestamp, trace, span, trace[:16], own, logs)
            for result in event.results:
                own |= {"gen_ai.operation.name": "execute_tool"}
                own |= {"gen_ai.tool.name": result.name or "tool"}
                name = f"execute_tool {result.name}"
                yield _span(name, start, event.timestamp, trace, span, trace[:16], own)


def _span(
    name: str,
    start: float,
    end: float,
    trace: str,
    span: str,
    parent: str | None,
    attributes: JsonObject,
    logs: list[JsonObject] | None = None,
) -> JsonObject:
    return {
        "name": name,
        "span_id": span,
        "trace_id": trace,
        "parent_span_id": parent,
        "start_time": int(start * 1e9),
        # a clock that was set back must not give a span of negative length
        "end_time": int(max(start, end) * 1e9),
        "attributes": attributes,
        "logs": [*(logs or ())],
    }


def _log_of(runner: Runner, session: Session, index: int) -> JsonObject | None:
    """The request of an answer, compiled again, and the answer; None where it cannot be."""
    event = session.events[index]
    home = next((one for one in _homes(runner.root) if find_path(one, event.author)), None)
    if home is None:
        return None
    try:
        compiled = compile_request(
            home,
            session=session.before(index),
            agent=event.author,
            config=runner.config,
            branch=event.branch,
        )
        wire = compiled.lower("gemini")
    except WeftError:
        # the app may have changed since: its agents no longer compile to what was asked
        return None
    system = wire.get("systemInstruction")
    instruction = _parts(system) if isinstance(system, dict) else []
    turns: list[Json] = []
    for turn in objects_in(wire.get("contents")):
        turns.append({"role": str(turn.get("role", "user")), "parts": [*_parts(turn)]})
    tools: list[Json] = []
    for group in objects_in(wire.get("tools")):
        for tool in objects_in(group.get("functionDeclarations")):
            parameters = tool.get("parametersJsonSchema", tool.get("parameters"))
            tools.append(
                {
                    "type": "function",
                    "name": str(tool.get("name", "")),
                    "description": str(tool.get("description", "")),
                    "parameters": parameters if isinstance(parameters, dict) else {},
                }
            )
    answer: JsonObject = msgspec.to_builtins(event.content)
    output: JsonObject = {
        "role": "model",
        "parts": [*_parts(answer)],
        "finish_reason": (event.finish_reason or "stop").lower(),
    }
    usage = event.usage
    return {
        "event_name": "gen_ai.client.inference.operation.details",
        "body": "",
        "attributes": {
            "gen_ai.system_instructions": [*instruction],
            "gen_ai.input.messages": turns,
            "gen_ai.output.messages": [output],
            "gen_ai.tool.definitions": tools,
            "gen_ai.usage.input_tokens": (usage.prompt_token_count if usage else None) or 0,
            "gen_ai.usage.output_tokens": (usage.candidates_token_count if usage else None) or 0,
        },
    }


def _homes(node: Node) -> Iterator[Agent]:
    """The agents that stand for themselves in a flow."""
    if isinstance(node, Agent):
        yield node
    else:
        for child in node.children:
            yield from _homes(child)


def _parts(turn: JsonObject) -> list[Json]:
    """Parts as the page knows them: text, blob, file, call and result; thoughts are text to it."""
    parts: list[Json] = []
    for part in objects_in(turn.get("parts")):
        match part:
            case {"functionCall": dict(call)}:
                args = call.get("args")
                parts.append(
                    {
                        "type": "tool_call",
                        "id": str(call.get("id", "")),
                        "name": str(call.get("name", "")),
                        "arguments": args if isinstance(args, dict) else {},
                    }
                )
            case {"functionResponse": dict(got)}:
                response = got.get("response")
                parts.append(
                    {
                        "type": "tool_call_response",
                        "id": str(got.get("id", "")),
                        "response": response if isinstance(response, dict) else {},
                    }
                )
            case {"inlineData": dict(blob)}:
                kind, data = str(blob.get("mimeType", "")), blob.get("data", "")
                parts.append({"type": "blob", "mime_type": kind, "data": data})
            case {"fileData": dict(file)}:
                kind, uri = str(file.get("mimeType", "")), str(file.get("fileUri", ""))
                parts.append({"type": "file_data", "mime_type": kind, "uri": uri})
            case {"text": str(text)}:
                parts.append({"type": "text", "content": text})
            case _:
                parts.append({"type": "text", "content": msgspec.json.encode(part).decode()})
    return parts


def browser_folder() -> Path | None:
    """The folder of ADK's page: in an installed google-adk, or where the variable says."""
    named = os.environ.get(BROWSER_VARIABLE)
    if named:
        return Path(named) if Path(named).is_dir() else None
    try:
        spec = importlib.util.find_spec("google.adk")
    except ModuleNotFoundError:
        # find_spec imports the package above, and there may be no `google` at all
        return None
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "cli" / "browser"
        if folder.is_dir():
            return folder
    return None


def page_routes() -> list[Route | Mount]:
    """The page, where google-adk is installed."""
    folder = browser_folder()
    if folder is None:
        return []
    return [
        # the folder has no such file: google-adk's own server answers for it too
        ApiRoute("/dev-ui/assets/config/runtime-config.json", _runtime_config, methods=["GET"]),
        Mount("/dev-ui", StaticFiles(directory=folder, html=True), name="dev-ui"),
    ]


async def _runtime_config(request: object) -> JSONResponse:
    return JSONResponse({"backendUrl": ""})


_DEV = "/dev/apps/{app}"

_SESSION = "/apps/{app}/users/{user}/sessions/{session}"

_row = partial(Endpoint, "GET", tag="google-adk")
_TRACE = f"{_DEV}/debug/trace"

PAGE_ENDPOINTS = (
    _row(f"{_DEV}/build_graph", build_graph, "The agents as a tree."),
    _row(f"{_DEV}/build_graph_image", build_graph_image, "The agents drawn."),
    _row(f"/dev{_SESSION}/events/{{event}}/graph", event_graph, "An event drawn."),
    _row(f"{_DEV}/eval_sets", get_nothing, "No evaluations."),
    _row(f"{_DEV}/eval_results", get_nothing, "No evaluations."),
    _row(f"{_DEV}/metrics-info", get_metrics_info, "No evaluations."),
    _row(f"{_TRACE}/session/{{session}}", session_trace, "A trace."),
    _row(f"{_TRACE}/{{event}}", event_trace, "One event's trace."),
)
"""What the page asks for in addition to the API of sessions and runs."""
