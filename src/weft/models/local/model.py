"""The local model: it asks the engine in this process, and needs no key.

Weights whose template has a place for tools get the request as it is. The templates of small
models drop tools silently. For them the tools stand in the system text. A call is JSON under the
schema of its tool, and stands in the history exactly as the model wrote it. So the engine never
reads the same text twice.
"""

import asyncio
import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from weft.dialects import lift, stream_of
from weft.dialects.wire import drop_fields, object_at, objects_in, text_in
from weft.errors import DeclarationError, ModelError, UsageError
from weft.ir import ModelResponse, Prompt
from weft.models.local.engine import (
    SLOTS,
    WINDOW,
    Conversation,
    Engine,
    Setup,
    TokenTrace,
    conversation_of,
    engine_for,
)
from weft.models.local.weights import (
    DEFAULT,
    KNOWN,
    WeightsFile,
    find,
    get,
    progress_bar,
    read_file,
    weights_named,
)
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject, compact

_DIALECT = "openai-chat"
_LIMIT = 256
"""How many tokens an answer may have: a small model that has lost its way finds no end."""
_DISCLAIMER = (
    "answers come from %s, a very small model for trying the plumbing: expect no sense from it"
    " (for real answers, set model= or WEFT_MODEL)"
)
_NEXT: JsonObject = {"role": "user", "content": "?"}
"""Some next message: how much of the history the engine knows again does not depend on it."""

_log = logging.getLogger("weft.models.local")
_disclaimed: set[str] = set()
"""The weights whose disclaimer was logged in this process."""


class LocalModel:
    """A model of weights on this machine: `local`, `local:qwen-1.5b` or `local:PATH.gguf`.

    The engine starts with the first request, once for each file in a process. `window` is how
    many tokens a request with its answer may have. `max_output_tokens` is how long an answer may
    be where the request does not say. `fetch` says whether missing weights are fetched: None
    means only at a terminal, so that no program downloads by surprise.
    """

    dialect = _DIALECT

    def __init__(
        self,
        name: str = "local",
        *,
        window: int | None = None,
        max_output_tokens: int = _LIMIT,
        slots: int = SLOTS,
        threads: int = 0,
        fetch: bool | None = None,
    ) -> None:
        for field, value, least in (
            ("window", window, 1),
            ("max_output_tokens", max_output_tokens, 1),
            ("slots", slots, 1),
            ("threads", threads, 0),
        ):
            if value is not None and (type(value) is not int or value < least):
                raise DeclarationError(
                    f"{value!r} is not a number of {field}",
                    where=f"LocalModel.{field}",
                    hint=f"write a whole number from {least} on",
                )
        self.name = name
        self._weights, self._path = _weights_or_path(name)
        self._window = window
        self._limit = max_output_tokens
        self._slots = slots
        self._threads = threads
        self._fetch = fetch
        self._ready: tuple[WeightsFile, Engine] | None = None

    def __repr__(self) -> str:
        return f"LocalModel({self.name!r})"

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Answer the request. Closing the generator stops the engine."""
        running = self._running()
        file, engine = running if running is not None else await asyncio.to_thread(self.start)
        request = request_for(wire, takes_tools=file.takes_tools, limit=self._limit)
        trace = TokenTrace(engine, request.body)
        answer = stream_of(_DIALECT)
        begun = ""
        pieces = _pieces(engine, trace, conversation_of(prompt))
        try:
            async for piece in pieces:
                delta = answer.feed("", piece)
                if stream and delta is not None:
                    begun = begun or delta.text
                    # what may be a call is held back until it is complete
                    if request.shows(begun):
                        yield delta
            body = request.read(answer.body())
            known = await asyncio.to_thread(self._count_known, wire, body, trace)
            yield _with_known_tokens(lift(_DIALECT, body), known)
        except ModelError as error:
            raise self._under_own_name(error, engine) from error
        finally:
            # the engine stops with its next piece
            await pieces.aclose()

    def tokens(self, wire: JsonObject) -> tuple[int, ...] | None:
        """The tokens of a request as the model reads it; None while the engine does not run."""
        running = self._running()
        if running is None:
            return None
        file, engine = running
        return engine.tokens(request_for(wire, takes_tools=file.takes_tools, limit=1).body)

    def _count_known(self, wire: JsonObject, body: JsonObject, trace: TokenTrace) -> int | None:
        """How many tokens of the request and its answer the next request will not read again."""
        answers = [choice.get("message") for choice in objects_in(body.get("choices"))]
        turns: list[Json] = [*objects_in(wire.get("messages")), *answers, _NEXT]
        file, _ = self.start()
        repeated = request_for({**wire, "messages": turns}, takes_tools=file.takes_tools, limit=1)
        try:
            return trace.count_known(repeated.body)
        except ModelError:
            return None  # the template rejects such turns, so no request can have them

    def _running(self) -> tuple[WeightsFile, Engine] | None:
        """The weights and their engine, if it runs in this process. A fork has none."""
        ready = self._ready
        return ready if ready is not None and ready[1].process == os.getpid() else None

    def start(self) -> tuple[WeightsFile, Engine]:
        """Find the weights and start the engine. It blocks; a second call does nothing."""
        running = self._running()
        if running is None:
            file = read_file(self._path if self._path is not None else self._fetch_weights())
            window = self._window or min(WINDOW, file.window or WINDOW)
            if file.window and window > file.window:
                raise DeclarationError(
                    f"{window} tokens are more than the {file.window} these weights can look at",
                    where="LocalModel.window",
                    hint=f"write window={file.window} or less",
                )
            setup = Setup(file.path.resolve(), window, self._slots, self._threads)
            running = self._ready = file, engine_for(setup)
            self._log_disclaimer()
        return running

    def _log_disclaimer(self) -> None:
        """Log what the default weights are good for, once in a process; commands print it."""
        if self._weights == DEFAULT and self._weights not in _disclaimed:
            _disclaimed.add(self._weights)
            _log.info(_DISCLAIMER, self._weights)

    def _fetch_weights(self) -> Path:
        """The path of the named weights; fetches them if that is wanted."""
        path = find(self._weights)
        if path is not None:
            return path
        watched = sys.stderr is not None and sys.stderr.isatty()
        if not (watched if self._fetch is None else self._fetch):
            raise ModelError(
                f"the weights {self._weights} are not on this machine",
                code="not_found",
                where=self.name,
                hint=f"weft model get {self._weights}",
            )
        with progress_bar() as progress:
            return get(self._weights, progress)

    def _under_own_name(self, error: ModelError, engine: Engine) -> ModelError:
        """The error under this model's name, with a fix that fits it."""
        hint = error.hint
        if error.code == "context_overflow":
            hint = (
                f"give it a larger window than {engine.setup.window}: LocalModel(window=...),"
                " or set context_compressor=TokenBudget(...) to less"
            )
        return ModelError(
            error.message, code=error.code, provider="local", model=self.name,
            status=error.status, hint=hint,
        )  # fmt: skip


def _with_known_tokens(response: ModelResponse, known: int | None) -> ModelResponse:
    """The answer with the number of tokens that the engine will know again, if there is one."""
    if known is None:
        return response
    metadata = Provenance(known=known).onto(response.custom_metadata)
    return msgspec.structs.replace(response, custom_metadata=metadata)


async def _pieces(
    engine: Engine, trace: TokenTrace, conversation: Conversation
) -> AsyncGenerator[JsonObject]:
    """The pieces of an answer, as the engine writes them in another thread."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[JsonObject | None] = asyncio.Queue()
    gone = False

    def tell(piece: JsonObject) -> bool:
        # the reports of progress only serve to stop an answer that nobody waits for
        if not gone and "prompt_progress" not in piece:
            loop.call_soon_threadsafe(queue.put_nowait, trace.note(piece))
        return gone

    def work() -> None:
        # it waited for a free worker, and its reader has left
        if gone:
            return
        try:
            engine.answer(trace.body, tell, conversation)
        finally:
            if not gone:
                loop.call_soon_threadsafe(queue.put_nowait, None)

    working = loop.run_in_executor(engine.workers, work)
    try:
        while (piece := await queue.get()) is not None:
            yield piece
        await working
    finally:
        gone = True


def _weights_or_path(name: str) -> tuple[str, Path | None]:
    """The name of known weights, or the path of a file. The other one is empty."""
    kind, colon, which = name.partition(":")
    if kind != "local" or (colon and not which):
        raise UsageError(
            f"`{name}` is not a local model",
            where="LocalModel",
            hint=f"write local, local:PATH.gguf, or local:NAME with {', '.join(KNOWN)}",
        )
    if not which or which in KNOWN:
        return which or DEFAULT, None
    path = Path(which).expanduser()
    if path.suffix != ".gguf" and not path.exists():
        # neither a file nor a name: this raises the error that lists the names
        weights_named(which)
    return "", path


class LocalServer(NamedTuple):
    """The engine's address for HTTP clients, and the key it expects."""

    url: str
    api_key: str
    model: str

    @property
    def base_url(self) -> str:
        """The address for clients that add `/chat/completions` or `/responses` to it."""
        return f"{self.url}/v1"


@contextmanager
def serve(model: LocalModel | str = "local") -> Generator[LocalServer]:
    """Serve the engine of a local model on a loopback port, for the rest of the process.

    Clients talk to the engine itself: no tool is chosen for the model, and no text is bounded.
    """
    served = model if isinstance(model, LocalModel) else LocalModel(model)
    _, engine = served.start()
    yield LocalServer(engine.url, engine.key, served.name)


# --- the request as the engine gets it, and the answer as every other model gives it

_CALL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
_HEADING = "Tools:"
_JSON_BEGINS = ("{", "`")
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
_RESULT_QUESTION = "Answer in one sentence."
_VARIED: JsonObject = {"repeat_penalty": 1.1, "dry_multiplier": 0.8, "dry_allowed_length": 3}
"""Settings that keep a small model from repeating one sentence without end.

Only plain text gets them: a call must repeat names, and a result its own words.
"""
_PROSE = r"root ::= [^{\[] [^{]*"
"""The grammar of text that is not a call: a small model repeats the calls it has seen."""
_SENTENCE = r'root ::= [A-Z] [^{"\n]* [.!]'
"""The grammar of what a small model says about a result: without it, the model finds no end."""
_LONGEST_TEXT = 400
_MOST_ITEMS = 8
_NOTES = ("description", "title", "examples", "default")
"""Keywords that constrain nothing. A small model copies examples out of them."""
_GRAMMAR = "%llguidance {}\nstart: %json "
_SPELLING: JsonObject = {
    "whitespace_flexible": False,
    "item_separator": ",",
    "key_separator": ":",
    "lenient": True,
}
"""JSON without spaces, as it stands in the history: so that no call is read twice."""


class ChatRequest(NamedTuple):
    """The engine's request. `calls` are the tools that an answer may call in its text, as JSON."""

    body: JsonObject
    calls: tuple[str, ...] = ()
    by_grammar: bool = False
    """Whether a grammar allows nothing but a call or a reply in JSON."""

    def shows(self, text: str) -> bool:
        """Whether an answer that begins so can be streamed: it is not a call."""
        return not self.calls or (
            not self.by_grammar and not text.lstrip().startswith(_JSON_BEGINS)
        )

    def read(self, body: JsonObject) -> JsonObject:
        """The answer with its calls where calls belong."""
        return _with_calls(body, self.calls, by_grammar=self.by_grammar) if self.calls else body


def request_for(wire: JsonObject, *, takes_tools: bool, limit: int) -> ChatRequest:
    """The engine's request: streamed, and greedy and bounded unless the wire says otherwise."""
    base: JsonObject = {
        "temperature": 0,
        "max_tokens": limit,
        **drop_fields(wire, "model"),
        "stream": True,
        "stream_options": {"include_usage": True},
        # pieces come while the request is still read, so it can be stopped then
        "return_progress": True,
    }
    tools = [object_at(tool, "function") for tool in objects_in(wire.get("tools"))]
    if not tools and wire.get("response_format") is None:
        base = {**_VARIED, **base}
    if takes_tools:
        return ChatRequest(_bounded_format(base), _names(tools))
    messages = objects_in(wire.get("messages"))
    body = drop_fields(base, *_CALL_FIELDS)
    body["messages"] = _plain(messages, tools)
    allowed, may_reply = _allowed_tools(wire.get("tool_choice"), tools)
    if allowed:
        schemas = [call_schema(tool) for tool in allowed]
        if may_reply:
            schemas.append(_reply_schema())
        chosen: JsonObject = schemas[0] if len(schemas) == 1 else {"anyOf": [*schemas]}
        body["grammar"] = _grammar(chosen)
        return ChatRequest(body, _names(allowed), by_grammar=True)
    schema = _answer_schema(wire)
    if schema is not None:
        body["grammar"] = _grammar(schema)
    elif tools:
        tells_result = bool(messages) and messages[-1].get("role") == "tool"
        body["grammar"] = _SENTENCE if tells_result else _PROSE
        body = body if tells_result else {**_VARIED, **body}
    return ChatRequest(body)


def _names(tools: list[JsonObject]) -> tuple[str, ...]:
    return tuple(text_in(tool.get("name")) for tool in tools)


def _allowed_tools(choice: Json, tools: list[JsonObject]) -> tuple[list[JsonObject], bool]:
    """The tools that may be called now, and whether the answer may be something else."""
    if choice == "none":
        return [], True
    if isinstance(choice, dict):
        name = object_at(choice, "function").get("name")
        return [tool for tool in tools if tool.get("name") == name], False
    return tools, choice != "required"


# --- the turns, as text


def _plain(messages: list[JsonObject], tools: list[JsonObject]) -> list[Json]:
    """The turns as text only: tools in the system text, calls and results as spoken text."""
    turns: list[Json] = []
    names: dict[str, str] = {}
    lines = [_HEADING, *map(_line, tools)] if tools else []
    first = bool(messages) and messages[0].get("role") in ("system", "developer")
    # there is no system text to put the tools into
    if lines and not first:
        turns.append({"role": "system", "content": "\n".join(lines)})
    for index, message in enumerate(messages):
        role, text = message.get("role"), _words(message.get("content"))
        if index == 0 and first and lines:
            text = "\n".join((text, "", *lines))
        for call in objects_in(message.get("tool_calls")):
            function = object_at(call, "function")
            names[text_in(call.get("id"))] = text_in(function.get("name"))
            text = f"{text}\n{_spell_call(function)}" if text else _spell_call(function)
        if role == "tool":
            name = names.get(text_in(message.get("tool_call_id")), "the tool")
            result = f"{name} returned: {_flat(text)}\n{_RESULT_QUESTION}"
            turns.append({"role": "user", "content": result})
        else:
            turns.append({"role": "system" if role == "developer" else role, "content": text})
    return turns


def _flat(text: str) -> str:
    """A result in words: an object as a list of its fields, which the model reads better."""
    fields = [
        f"{key}: {value if isinstance(value, str) else compact(value)}"
        for key, value in _decode_object(text).items()
    ]
    return ", ".join(fields) or text


def _line(tool: JsonObject) -> str:
    """A tool in one line: no examples, which a small model would copy."""
    schema = tool.get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = ", ".join(properties) if isinstance(properties, dict) else ""
    about = " ".join(text_in(tool.get("description")).split())
    return f"{text_in(tool.get('name'))}({names}): {about}"


def _spell_call(call: JsonObject) -> str:
    """A call as the grammar spells it."""
    arguments = text_in(call.get("arguments")) or "{}"
    return f'{{"name":{compact(text_in(call.get("name")))},"arguments":{arguments}}}'


# --- schemas: decoding under one makes an answer well formed, and bounds give it an end


def call_schema(tool: JsonObject) -> JsonObject:
    """The schema of a call of this tool."""
    arguments = bound_schema(tool.get("parameters"))
    return _object({"name": {"const": tool.get("name")}, "arguments": arguments})


def bound_schema(schema: Json) -> Json:
    """The schema with an end to every text and every list, and without its notes."""
    if isinstance(schema, list):
        return [bound_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    limited: JsonObject = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            limited[key] = {name: bound_schema(each) for name, each in value.items()}
        elif key in ("enum", "const", "required"):
            limited[key] = value
        elif key not in _NOTES:
            limited[key] = bound_schema(value)
    kinds = _kinds(limited)
    if "string" in kinds and not _is_bound(limited):
        limited.setdefault("maxLength", _LONGEST_TEXT)
    if "array" in kinds:
        limited.setdefault("maxItems", _MOST_ITEMS)
    if "object" in kinds and "properties" in limited:
        # an object with room for any field has no end
        limited.setdefault("additionalProperties", False)
    return limited


def _bounded_format(body: JsonObject) -> JsonObject:
    """The body with an end to every text in the answer's schema."""
    answer_format = body.get("response_format")
    inner = answer_format.get("json_schema") if isinstance(answer_format, dict) else None
    if not isinstance(answer_format, dict) or not isinstance(inner, dict):
        return body
    schema: JsonObject = {**inner, "schema": bound_schema(inner.get("schema"))}
    return {**body, "response_format": {**answer_format, "json_schema": schema}}


def _answer_schema(wire: JsonObject) -> JsonObject | None:
    answer_format = wire.get("response_format")
    if not isinstance(answer_format, dict):
        return None
    if answer_format.get("type") == "json_object":
        return {"type": "object"}
    inner = answer_format.get("json_schema")
    schema = bound_schema(inner.get("schema")) if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def _reply_schema() -> JsonObject:
    """The schema of a reply that stands where a call might."""
    return _object({"reply": {"type": "string", "maxLength": _LONGEST_TEXT}})


def _object(properties: JsonObject) -> JsonObject:
    names: list[Json] = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


def _grammar(schema: JsonObject) -> str:
    """The engine's grammar of compact JSON that fits the schema."""
    return _GRAMMAR + msgspec.json.encode({**schema, "x-guidance": _SPELLING}).decode()


def _kinds(schema: JsonObject) -> set[str]:
    kind = schema.get("type")
    listed = kind if isinstance(kind, list) else [kind]
    return {each for each in listed if isinstance(each, str)}


def _is_bound(schema: JsonObject) -> bool:
    """Whether a text's schema says more than that it is text."""
    return any(key in schema for key in ("enum", "const", "format", "pattern"))


# --- the answer


def _with_calls(body: JsonObject, allowed: tuple[str, ...], *, by_grammar: bool) -> JsonObject:
    """The answer with the call in its own place, where its text is a call in JSON."""
    choices = objects_in(body.get("choices"))
    message = choices[0].get("message") if choices else None
    if not isinstance(message, dict):
        return body
    text = text_in(message.get("content"))
    answer = _decode_object(_strip_fences(text))
    name, arguments = answer.get("name"), answer.get("arguments")
    changes: JsonObject
    if isinstance(name, str) and isinstance(arguments, dict) and name in allowed:
        changes = _calling(body, name, compact(arguments))
    elif not by_grammar:
        return body
    elif isinstance(reply := answer.get("reply"), str):
        changes = {"content": reply}
    elif len(allowed) == 1 and text:
        # the call was cut off: the runtime tells the model so
        changes = _calling(body, allowed[0], text)
    else:
        return body
    choice: JsonObject = {**choices[0], "message": {**message, **changes}}
    # an answer that was cut off keeps its reason
    if "tool_calls" in changes and choice.get("finish_reason") == "stop":
        choice["finish_reason"] = "tool_calls"
    return {**body, "choices": [choice, *choices[1:]]}


def _strip_fences(text: str) -> str:
    """The text between the fences that models like to put around JSON."""
    fenced = _FENCED.fullmatch(text.strip())
    return fenced[1] if fenced is not None else text


def _calling(body: JsonObject, name: str, arguments: str) -> JsonObject:
    identity = f"call_{text_in(body.get('id')).rpartition('-')[2][:24]}"
    function: JsonObject = {"name": name, "arguments": arguments}
    return {
        "content": None,
        "tool_calls": [{"id": identity, "type": "function", "function": function}],
    }


# --- JSON of unknown shape


def _decode_object(text: str) -> JsonObject:
    """The object that the text spells; empty where it spells none."""
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _words(content: Json) -> str:
    """A content's text: itself, or the texts of its parts."""
    if isinstance(content, list):
        return "\n".join(text_in(part.get("text")) for part in objects_in(content))
    return text_in(content)
