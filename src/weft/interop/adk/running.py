"""Code of google-adk's users, run by Weft: callbacks, tools and instructions.

Each gets what google-adk would hand it: a context over Weft's own, the request, the answer, the
tool. What it did with them is carried back, so that the log and the request say what happened.
Callbacks of one moment run one after the other on the same objects, as they do there.
"""

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import NamedTuple, TypeVar, cast

import msgspec

from weft.compiler import ReadonlyContext
from weft.content import Content, Part
from weft.declare import CallbackContext, Tool, ToolContext
from weft.dialects import dialect_named
from weft.errors import UsageError
from weft.interop.adk.objects import as_list, field, is_a, object_name, text
from weft.ir import ModelResponse, Prompt
from weft.recordings.requests import read_request
from weft.session import Event, Usage
from weft.values import Json, JsonObject, require_json

Made = TypeVar("Made")

CONTEXT = {
    "before_agent": "callback_context",
    "after_agent": "callback_context",
    "before_model": "callback_context",
    "after_model": "callback_context",
    "on_model_error": "callback_context",
    "before_tool": "tool_context",
    "after_tool": "tool_context",
    "on_tool_error": "tool_context",
}
"""By moment: the argument that google-adk hands the context in."""

_BESIDE = ("systemInstruction", "tools", "toolConfig", "safetySettings", "cachedContent", "labels")
"""What a request of Gemini has in addition to its options; google-adk keeps all in one config."""

_RESPONSE = (
    ("content", "content"),
    ("finish_reason", "finishReason"),
    ("error_code", "errorCode"),
    ("error_message", "errorMessage"),
    ("usage", "usageMetadata"),
    ("model_version", "modelVersion"),
    ("custom_metadata", "customMetadata"),
    ("grounding_metadata", "groundingMetadata"),
    ("citation_metadata", "citationMetadata"),
    ("logprobs_result", "logprobsResult"),
    ("avg_logprobs", "avgLogprobs"),
)
"""The fields of an answer, and what they are called in google-adk's JSON."""


class RawResult(NamedTuple):
    """A tool's return value before it was wrapped in an object."""

    value: object


class CallbackCode:
    """The callbacks of one agent: as google-adk's user wrote them, and as Weft calls them."""

    def __init__(self, agent: object, results: dict[str, RawResult]) -> None:
        self._agent = agent
        self._results = results
        self._answered: dict[int, ModelResponse] = {}
        """Answers that stand for the model's: nobody is asked about them afterwards."""

    def at(self, moment: str, functions: Sequence[Callable[..., object]]) -> Callable[..., object]:
        """One callback for Weft that calls all these functions."""

        async def run(ctx: CallbackContext, *arguments: object) -> object:
            return await self._run(moment, functions, ctx, arguments)

        run.__name__ = f"{object_name(self._agent)}.{moment}_callback"
        return run

    async def _run(
        self,
        moment: str,
        functions: Sequence[Callable[..., object]],
        ctx: CallbackContext,
        arguments: Sequence[object],
    ) -> object:
        match moment, arguments:
            case "before_agent" | "after_agent", _:
                return _content(await self._answer(functions, ctx))
            case "before_model", [Prompt() as prompt]:
                return await self._before_model(functions, ctx, prompt)
            case "after_model", [ModelResponse() as response]:
                return await self._after_model(functions, ctx, response)
            case "on_model_error", [Prompt() as prompt, error]:
                asked = request_of(prompt, self._tools())
                answer = await self._answer(functions, ctx, llm_request=asked, error=error)
                return None if answer is None else response_from(answer)
            case _, [tool, args, *rest] if isinstance(tool, Tool):
                called, call_args = cast("Tool", tool), cast("JsonObject", args)
                return await self._tool(moment, functions, ctx, called, call_args, rest)
            case _:
                raise AssertionError(moment)

    async def _answer(
        self, functions: Sequence[Callable[..., object]], ctx: CallbackContext, **fields: object
    ) -> object:
        """The first answer of the functions, which take a context and these fields."""
        with_ctx = BorrowedContext(ctx, self._agent)
        answer = await _first(functions, bool, callback_context=with_ctx.context, **fields)
        with_ctx.give_back()
        return answer

    async def _before_model(
        self, functions: Sequence[Callable[..., object]], ctx: CallbackContext, prompt: Prompt
    ) -> object:
        asked = request_of(prompt, self._tools())
        before = wire_of(asked)
        reply = await self._answer(functions, ctx, llm_request=asked)
        if reply is not None:
            answer = response_from(reply)
            if isinstance(answer, ModelResponse):
                # the value keeps its id from being given again before it is asked for
                self._answered[id(answer)] = answer
            return answer
        if field(asked, "model") not in (prompt.model, None):
            raise UsageError(
                f"the callback asks for the model {field(asked, 'model')!r}",
                where=f"{object_name(self._agent)}.before_model_callback",
                hint="give the agent that model: a callback cannot change it here",
            )
        return apply_changes(prompt, before, wire_of(asked))

    async def _after_model(
        self,
        functions: Sequence[Callable[..., object]],
        ctx: CallbackContext,
        response: ModelResponse,
    ) -> object:
        if self._answered.pop(id(response), None) is not None:
            return None
        theirs = response_of(response)
        before = _dump_model(theirs)
        reply = await self._answer(functions, ctx, llm_response=theirs)
        if reply is not None and not is_a(reply, "LlmResponse"):
            return reply
        after = _dump_model(reply if reply is not None else theirs)
        return None if after == before else _replace_fields(response, before, after)

    async def _tool(
        self,
        moment: str,
        functions: Sequence[Callable[..., object]],
        ctx: CallbackContext,
        tool: Tool,
        args: JsonObject,
        rest: Sequence[object],
    ) -> object:
        assert isinstance(ctx, ToolContext)
        with_ctx = BorrowedContext(ctx, self._agent)
        theirs = self._tools().get(tool.name) or _named_tool(tool)
        arguments: dict[str, object] = {
            "tool": theirs,
            "args": args,
            "tool_context": with_ctx.context,
        }
        before: object = None
        if moment == "after_tool":
            raw = self._results.pop(ctx.call_id, None)
            arguments["tool_response"] = rest[0] if raw is None else raw.value
            # a callback may return nothing and change the result in place
            before = copy.deepcopy(arguments["tool_response"])
        elif moment == "on_tool_error":
            arguments["error"] = rest[0]
        answer = await _first(functions, lambda answer: answer is not None, **arguments)
        with_ctx.give_back()
        if answer is None and moment == "after_tool" and arguments["tool_response"] != before:
            answer = arguments["tool_response"]
        if answer is None or isinstance(answer, dict):
            return cast("object", answer)
        return {"result": answer}

    def _tools(self) -> dict[str, object]:
        """The agent's tools as google-adk has them, by name."""
        tools: dict[str, object] = {}
        for one in as_list(self._agent, "tools"):
            tool = one
            if callable(one) and not is_a(one, "BaseTool"):
                tool = _theirs("google.adk.tools", "FunctionTool")(one)
            if is_a(tool, "BaseTool"):
                tools[text(tool, "name")] = tool
        return tools


def tool_call(
    agent: object, tool: object, parameter: str, results: dict[str, RawResult]
) -> Callable[..., object]:
    """A function of google-adk's user that takes a context, as Weft calls it."""

    async def run(**arguments: object) -> object:
        ctx = arguments.pop(parameter)
        assert isinstance(ctx, ToolContext)
        with_ctx = BorrowedContext(cast("ToolContext[object]", ctx), agent)
        theirs = tool
        if not is_a(tool, "BaseTool"):
            theirs = _theirs("google.adk.tools", "FunctionTool")(tool)
        call = cast("Callable[..., Awaitable[object]]", field(theirs, "run_async"))
        result = await call(args=arguments, tool_context=with_ctx.context)
        with_ctx.give_back()
        if as_list(agent, "after_tool_callback"):  # they see it before it is made an object
            results[ctx.call_id] = RawResult(result)
        return result

    return run


def instruction_context(ours: object, agent: object) -> object:
    """The context of an instruction provider; without google-adk, Weft's own has to do."""
    if not _is_installed() or not isinstance(ours, ReadonlyContext):
        return cast("object", ours)  # type: ignore[redundant-cast, unused-ignore]
    context = cast("ReadonlyContext[object]", ours)
    session = SimpleNamespace(
        id="", app_name="", user_id="", events=context.events, state=context.state
    )
    around = _invocation(
        session, context.invocation_id, "", context.user_content, agent, services=None
    )
    return _theirs("google.adk.agents.readonly_context", "ReadonlyContext")(around)


class BorrowedContext:
    """A context of google-adk's over one of Weft's; what is done to it is given back."""

    def __init__(self, ctx: CallbackContext, agent: object) -> None:
        self._ctx = ctx
        self._agent = agent
        session = SimpleNamespace(
            id=ctx.session.id,
            app_name=ctx.app_name,
            user_id=ctx.user_id,
            events=ctx.session.events,
            state={key: require_json(ctx.state[key], where=key) for key in ctx.state},
        )
        # a copy: code may change a value in place
        self._before = copy.deepcopy(session.state)
        around = _invocation(
            session, ctx.invocation_id, ctx.branch, ctx.user_content, agent, services=ctx
        )
        self._session = field(around, "session")
        context_type = _theirs("google.adk.agents.callback_context", "CallbackContext")
        call = ctx.call_id if isinstance(ctx, ToolContext) else None
        confirmed = ctx.confirmed if isinstance(ctx, ToolContext) else None
        confirmation: object = None
        if confirmed is not None:
            theirs = _theirs("google.adk.tools.tool_confirmation", "ToolConfirmation")
            confirmation = theirs(confirmed=True, payload=confirmed.get("payload"))
        self.context = context_type(around, function_call_id=call, tool_confirmation=confirmation)

    def give_back(self) -> None:
        """Do to Weft's context what was done to this one."""
        actions = field(self.context, "actions")
        after = cast("dict[str, object]", field(self._session, "state"))
        for key, value in after.items():
            if key not in self._before or self._before[key] != value:
                self._ctx.state[key] = cast("Json", value)
        for key in self._before.keys() - after.keys():
            del self._ctx.state[key]
        ours = self._ctx.actions
        for name in ("escalate", "transfer_to_agent", "skip_summarization"):
            if field(actions, name) is not None:
                setattr(ours, name, field(actions, name))
        for name in ("requested_auth_configs", "requested_tool_confirmations"):
            if field(actions, name):
                raise UsageError(
                    f"the code sets {name}, which Weft has no answer to",
                    where=object_name(self._agent),
                    hint="set require_confirmation on the tool, or run it with google-adk",
                )


def _invocation(
    session: SimpleNamespace,
    invocation: str,
    branch: str,
    message: Content | None,
    agent: object,
    *,
    services: CallbackContext | None,
) -> object:
    """google-adk's invocation, as far as code can look at it."""
    theirs = _theirs("google.adk.sessions", "Session")(
        id=session.id or "session",
        app_name=session.app_name or "weft",
        user_id=session.user_id or "user",
        state=copy.deepcopy(dict(session.state)),
    )
    setattr(theirs, "events", AdkEvents(session.events))  # noqa: B010  a field of a foreign object
    return _theirs("google.adk.agents.invocation_context", "InvocationContext")(
        session=theirs,
        session_service=_theirs("google.adk.sessions", "InMemorySessionService")(),
        artifact_service=_artifacts(services) if services is not None else None,
        memory_service=_memory(services) if services is not None else None,
        invocation_id=invocation,
        branch=branch or None,
        agent=agent,
        user_content=_to_genai("google.genai.types", "Content", message),
        run_config=_theirs("google.adk.agents.run_config", "RunConfig")(),
    )


class AdkEvents(list[object]):
    """The events of a session as google-adk has them, made when somebody looks at them.

    Few callbacks do, and a long session would cost each of them its whole length.
    """

    def __init__(self, ours: Iterable[Event]) -> None:
        super().__init__()
        self._ours: Iterable[Event] | None = ours

    def _all(self) -> "AdkEvents":
        if self._ours is not None:
            ours, self._ours = self._ours, None
            super().extend(_event(one) for one in ours)
        return self

    def __len__(self) -> int:
        self._all()
        return super().__len__()

    def __iter__(self) -> Iterator[object]:
        self._all()
        return super().__iter__()

    def __reversed__(self) -> Iterator[object]:
        self._all()
        return super().__reversed__()

    def __getitem__(self, key: object) -> object:  # type: ignore[override]
        self._all()
        return super().__getitem__(cast("int", key))

    def __contains__(self, one: object) -> bool:
        self._all()
        return super().__contains__(one)

    def __eq__(self, other: object) -> bool:
        return [*self] == other

    __hash__ = None

    def append(self, one: object) -> None:
        """Append an event."""
        self._all()
        super().append(one)


def _artifacts(ctx: CallbackContext) -> object:
    """google-adk's service for artifacts, over the store of the run."""
    base = cast("type", _theirs("google.adk.artifacts", "BaseArtifactService"))

    async def save_artifact(_: object, *, filename: str, artifact: object, **__: object) -> int:
        return await ctx.save_artifact(filename, _to_weft(artifact, Part))

    async def load_artifact(
        _: object, *, filename: str, version: int | None = None, **__: object
    ) -> object:
        part = await ctx.load_artifact(filename, version)
        return _to_genai("google.genai.types", "Part", part)

    async def list_artifact_keys(_: object, **__: object) -> list[str]:
        return await ctx.list_artifacts()

    async def refuse(_: object, **__: object) -> object:
        raise UsageError(
            "Weft keeps every version of an artifact and lists none of them",
            where="artifacts",
            hint="run it with google-adk",
        )

    body: dict[str, object] = {
        "save_artifact": save_artifact,
        "load_artifact": load_artifact,
        "list_artifact_keys": list_artifact_keys,
    }
    missing = cast("Iterable[str]", getattr(base, "__abstractmethods__", ()))
    return type("Artifacts", (base,), {**dict.fromkeys(missing, refuse), **body})()


def _memory(ctx: CallbackContext) -> object:
    """google-adk's service for memory, over what Weft searches."""
    base = cast("type", _theirs("google.adk.memory", "BaseMemoryService"))
    entry = _theirs("google.adk.memory.memory_entry", "MemoryEntry")
    answer = _theirs("google.adk.memory.base_memory_service", "SearchMemoryResponse")

    async def search_memory(_: object, *, query: str, **__: object) -> object:
        hits = await ctx.search_memory(query)
        contents = [_to_genai("google.genai.types", "Content", one) for one in hits]
        return answer(memories=[entry(content=one) for one in contents])

    async def add_session_to_memory(_: object, session: object) -> None:
        """Sessions are searched as they are stored: there is nothing to add."""

    body = {"search_memory": search_memory, "add_session_to_memory": add_session_to_memory}
    return type("Memories", (base,), body)()


async def _first(
    functions: Sequence[Callable[..., object]], ends: Callable[[object], bool], **arguments: object
) -> object:
    """The first answer that ends the chain; google-adk calls with names, whatever the order."""
    for function in functions:
        answer = function(**arguments)
        if inspect.isawaitable(answer):
            answer = await cast("Awaitable[object]", answer)
        if ends(answer):
            return answer
    return None


def request_of(prompt: Prompt, tools: Mapping[str, object]) -> object:
    """The request as google-adk has it."""
    wire = dialect_named("gemini").lower(prompt, strict=False).wire
    config = wire.get("generationConfig")
    options: JsonObject = {**config} if isinstance(config, dict) else {}
    options |= {key: wire[key] for key in _BESIDE if key in wire}
    system = wire.get("systemInstruction")
    if isinstance(system, dict):
        options["systemInstruction"] = prompt.system_text
    kind = _theirs("google.genai.types", "GenerateContentConfig")
    known = _aliases(kind)
    validate = cast("Callable[..., object]", field(kind, "model_validate"))
    contents = wire.get("contents")
    return _theirs("google.adk.models", "LlmRequest")(
        model=prompt.model,
        contents=contents if isinstance(contents, list) else [],
        config=validate({key: value for key, value in options.items() if key in known}),
        tools_dict=dict(tools),
    )


def wire_of(request: object) -> JsonObject:
    """A request of google-adk as one of Gemini."""
    config = cast("JsonObject", _dump_model(field(request, "config")))
    wire: JsonObject = {"contents": [_dump_model(one) for one in as_list(request, "contents")]}
    system = config.pop("systemInstruction", None)
    if system:
        parts = [{"text": system}] if isinstance(system, str) else system
        wire["systemInstruction"] = cast(
            "Json", parts if isinstance(parts, dict) else {"parts": parts}
        )
    options: JsonObject = {}
    for key, value in config.items():
        if key in _BESIDE:
            wire[key] = value
        else:
            options[key] = value
    if options:
        wire["generationConfig"] = options
    return wire


def apply_changes(prompt: Prompt, before: JsonObject, after: JsonObject) -> Prompt | None:
    """The prompt with what a callback changed in the request; None where it changed nothing."""
    if before == after:
        return None
    was = read_request("gemini", before, prompt.model)
    now = read_request("gemini", after, prompt.model)
    if before.get("contents") != after.get("contents"):
        features = prompt.features | now.features
        prompt = msgspec.structs.replace(prompt, items=now.items, features=features)
    if before.get("systemInstruction") != after.get("systemInstruction"):
        prompt = msgspec.structs.replace(prompt, system=now.system)
    if before.get("tools") != after.get("tools"):
        old = {tool.name: tool for tool in was.tools}
        own = {tool.name: tool for tool in prompt.tools}
        tools = tuple(
            own[tool.name] if tool.name in own and old.get(tool.name) == tool else tool
            for tool in now.tools
        )
        prompt = msgspec.structs.replace(prompt, tools=tools)
    if was.config != now.config:
        config = {
            key: value
            for key, value in prompt.config.items()
            if key in now.config or (key not in was.config)
        }
        new = {key: now.config[key] for key in now.config if now.config[key] != was.config.get(key)}
        prompt = msgspec.structs.replace(prompt, config={**config, **new})
    return prompt


def response_of(response: ModelResponse) -> object:
    """An answer as google-adk has it."""
    fields: JsonObject = {}
    for ours, theirs in _RESPONSE:
        value = cast("object", getattr(response, ours))
        if value is not None:
            fields[theirs] = cast("Json", msgspec.to_builtins(value))
    kind = _theirs("google.adk.models", "LlmResponse")
    return cast("Callable[..., object]", field(kind, "model_validate"))(fields)


def response_from(answer: object) -> object:
    """Convert google-adk's answer to Weft's; anything else stays, and is refused later."""
    if not is_a(answer, "LlmResponse"):
        return answer
    return _replace_fields(ModelResponse(), {}, _dump_model(answer))


def _replace_fields(response: ModelResponse, before: Json, after: Json) -> ModelResponse:
    """The answer with the changed fields; the old usage stays where the new one is missing."""
    old = before if isinstance(before, dict) else {}
    new = after if isinstance(after, dict) else {}
    values: dict[str, object] = {}
    for ours, theirs in _RESPONSE:
        if new.get(theirs) == old.get(theirs) or (ours == "usage" and theirs not in new):
            continue
        value: object = new.get(theirs)
        if value is not None and ours in ("content", "usage"):
            value = msgspec.convert(value, Content if ours == "content" else Usage, strict=False)
        values[ours] = value
    return msgspec.structs.replace(response, **values)


def _content(answer: object) -> object:
    return _to_weft(answer, Content) if is_a_model(answer) else answer


def is_a_model(value: object) -> bool:
    """Whether it is an object of google-genai, which can be written as JSON."""
    return callable(field(value, "model_dump_json")) and not isinstance(value, type)


def _to_weft(value: object, kind: type[Made]) -> Made:
    """An object of google-genai as Weft's own of that kind."""
    dump = cast("Callable[..., str]", field(value, "model_dump_json"))
    return msgspec.json.decode(dump(by_alias=True, exclude_none=True), type=kind)


def _to_genai(module: str, name: str, value: object) -> object:
    """An object of Weft's as google-genai's; None stays None."""
    if value is None:
        return None
    validate = cast("Callable[..., object]", field(_theirs(module, name), "model_validate_json"))
    return validate(msgspec.json.encode(value))


def _event(event: Event) -> object:
    """An event as google-adk has it, without what only Weft writes."""
    kind = _theirs("google.adk.events", "Event")
    fields = cast("JsonObject", msgspec.json.decode(msgspec.json.encode(event)))
    known_fields = {key: value for key, value in fields.items() if key in _aliases(kind)}
    actions = fields.get("actions")
    if isinstance(actions, dict):
        known = _aliases(_theirs("google.adk.events.event_actions", "EventActions"))
        known_fields["actions"] = {key: value for key, value in actions.items() if key in known}
    validate = cast("Callable[..., object]", field(kind, "model_validate_json"))
    return validate(msgspec.json.encode(known_fields))


def _dump_model(value: object) -> Json:
    dump = cast("Callable[..., Json]", field(value, "model_dump"))
    return dump(mode="json", by_alias=True, exclude_none=True)


def _aliases(kind: object) -> set[str]:
    """The names of the fields of a class of pydantic's in JSON."""
    fields = cast("Mapping[str, object]", field(kind, "model_fields"))
    return {text(one, "alias") or name for name, one in fields.items()}


def _named_tool(tool: Tool) -> object:
    """A tool that only Weft has, by its name."""
    return SimpleNamespace(
        name=tool.name, description=tool.description, is_long_running=tool.long_running
    )


def _is_installed() -> bool:
    return find_spec("google") is not None and find_spec("google.adk") is not None


def _theirs(module: str, name: str) -> Callable[..., object]:
    """A class of google-adk's or google-genai's."""
    try:
        return cast("Callable[..., object]", getattr(import_module(module), name))
    except ImportError as error:
        raise UsageError(
            "google-adk is not installed", where=module, hint="pip install 'weft[adk]'"
        ) from error
