"""Prompts for the conformance suite: real agents and real sessions, each with one difficulty."""

import base64
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, cast

import msgspec

from weft import (
    Agent,
    CodeExecution,
    Event,
    FileSearch,
    Origin,
    RunConfig,
    Session,
    Tool,
    WebFetch,
    WebSearch,
)
from weft.compiler import Compilation, compile_request
from weft.content import (
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FunctionResponse,
    Part,
    PartProvenance,
    call_part,
    file_part,
    media_part,
    opaque_part,
    result_part,
    text_part,
    thought_part,
    to_content,
)
from weft.dialects import dialect_named
from weft.ir import TextBlock
from weft.values import Json, JsonObject

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")

MODELS = {
    "gemini": "gemini-3-flash",
    "anthropic": "claude-sonnet-4-6",
    "openai-chat": "openai-chat/gpt-4.1",
    "openai-responses": "gpt-5.4",
}
NEWEST = {**MODELS, "anthropic": "claude-opus-5-5", "openai-chat": "groq/llama-4"}
WITHOUT_SCHEMA = {
    "gemini": "gemini-2.5-flash",
    "anthropic": "claude-3-5-haiku-latest",
    "openai-chat": "openai-chat/gpt-4-turbo",
    "openai-responses": "openai-responses/gpt-4-turbo",
}
WITHOUT_TOOLS = dict.fromkeys(DIALECTS, "gemma-3-27b-it")

PNG = media_part("image/png", b"\x89PNG\r\n\x1a\n0000")
PDF = media_part("application/pdf", b"%PDF-1.7 0000")
WAV = media_part("audio/wav", b"RIFF0000WAVE")
MP4 = media_part("video/mp4", b"0000ftyp")
NOTE = media_part("text/markdown", "# Größe\n\nSehr groß.".encode())
SIGNATURE = base64.b64encode(b"signed, sealed").decode()


class Scene(NamedTuple):
    """One prompt: an agent, what happened so far, and what is said now."""

    name: str
    agent: Agent
    events: tuple[Event, ...] = ()
    message: "str | Part | list[str | Part] | None" = None
    models: Mapping[str, str] = MODELS

    def compile(self, dialect: str) -> Compilation:
        """The request as the dialect's own model would get it."""
        return compile_request(
            self.agent,
            session=Session("s", events=self.events),
            message=self.message,
            config=RunConfig(model=self.models[dialect]),
        )


def lookup(key: str) -> str:
    """Look a key up.

    Args:
        key: What to look up.
    """
    return key


def ping() -> str:
    """Answer."""
    return "pong"


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclass
class Place:
    """Where."""

    city: str
    country: str = "NO"


@dataclass
class Tree:
    """A tree."""

    label: str
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class Forecast:
    """What the weather will be."""

    place: Place
    unit: Unit
    degrees: float
    rain: bool | None = None
    hours: list[int] = field(default_factory=list)


@dataclass
class Person:
    """Who."""

    name: str
    age: int


class Pair(TypedDict):
    left: str
    right: NotRequired[int]


def weather(
    place: Place,
    unit: Unit = Unit.CELSIUS,
    days: int = 1,
    detail: Literal["short", "long"] = "short",
    at: int | str | None = None,
    tags: list[str] | None = None,
    limits: dict[str, float] | None = None,
) -> str:
    """Say what the weather will be."""
    return ""


def plant(tree: Tree) -> str:
    """Plant a tree."""
    return ""


BOUNDED: JsonObject = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
        "code": {"type": "string", "pattern": "^[A-Z]+$", "minLength": 2},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
        "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]},
    },
    "required": ["score"],
    "additionalProperties": False,
}

BOT = Agent("bot", instruction="Be brief.")
TOOLED = BOT.uses(lookup, ping)
HOSTED = (WebSearch(), WebFetch(), CodeExecution(), FileSearch(("stores/a",)))
EXAMPLES: tuple[Any, ...] = (("b?", "It is 2."), ("c?", ("lookup", {"key": "c"}, "3"), "It is 3."))


def event(index: int, author: str, *parts: "str | Part", **more: object) -> Event:
    """The event at that place of the log."""
    role = "user" if author == "user" or any(_is_result(part) for part in parts) else "model"
    content = to_content(list(parts), role=role)
    return Event(
        author=author,
        content=content,
        invocation_id=f"i{index}",
        id=f"e{index}",
        timestamp=float(index),
        **more,  # type: ignore[arg-type]
    )


def _is_result(part: "str | Part") -> bool:
    return isinstance(part, Part) and part.function_response is not None


def log(*turns: "tuple[str | Part, ...]") -> tuple[Event, ...]:
    """Events from turns: the first piece is the author, the others what is said."""
    return tuple(event(index, str(author), *parts) for index, (author, *parts) in enumerate(turns))


def by(provider: str, part: Part) -> Part:
    """The part as that provider signed it."""
    return Part(
        text=part.text,
        thought=part.thought,
        function_call=part.function_call,
        thought_signature=SIGNATURE,
        part_metadata={"weft": {"provider": provider}},
    )


def shown(*parts: Part, said: str = "see") -> Part:
    """A result of lookup that shows media."""
    raw: list[JsonObject] = []
    for part in parts:
        if part.inline_data is not None:
            blob = part.inline_data
            raw.append({"inlineData": {"mimeType": blob.mime_type, "data": blob.data}})
        elif part.file_data is not None:
            file = part.file_data
            raw.append({"fileData": {"mimeType": file.mime_type, "fileUri": file.file_uri}})
    response = FunctionResponse(name="lookup", response={"result": said}, id="c1", parts=raw)
    return Part(function_response=response)


ASK = ("user", "Look up a.")
CALL = call_part("lookup", {"key": "a"}, id="c1")
RESULT = result_part("lookup", {"result": "1"}, id="c1")
LOOP = log(ASK, ("bot", CALL), ("bot", RESULT))


def bot_with(**options: Json) -> Agent:
    """The bot with tools and options."""
    return Agent("bot", instruction="Be brief.", tools=(lookup,), generate_config=options)  # type: ignore[arg-type]


def option(name: str, value: Json) -> Scene:
    """A prompt with one option."""
    return Scene(f"option {name} = {value}", bot_with(**{name: value}), message="Hi")


def many_tools(count: int) -> list[Tool]:
    """As many tools as that."""
    parameters: JsonObject = {"type": "object", "properties": {"key": {"type": "string"}}}
    return [
        Tool(name=f"tool_{index}", description=f"Tool {index}.", parameters=parameters)
        for index in range(count)
    ]


def _signed(provider: str) -> tuple[Event, ...]:
    thought = by(provider, thought_part("Let me look."))
    return log(ASK, ("bot", thought, by(provider, CALL)), ("bot", RESULT))


EXTRA: JsonObject = {
    "gemini": {"safetySettings": [], "generationConfig": {"candidateCount": 1}},
    "anthropic": {"inference_geo": "eu", "metadata": {"user_id": "u"}},
    "openai-chat": {"verbosity": "low", "metadata": {"k": "v"}},
    "openai-responses": {"truncation": "auto", "text": {"verbosity": "low"}},
}
EXTRA_TOOLS: JsonObject = {
    "gemini": {"tools": [{"googleSearch": {}}]},
    "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "openai-chat": {},
    "openai-responses": {"tools": [{"type": "web_search"}]},
}

OPAQUE = {
    "gemini": {"text": "hm", "thought": True, "thoughtSignature": SIGNATURE},
    "anthropic": {"type": "redacted_thinking", "data": "c2VhbGVk"},
    "openai-chat": {"refusal": "I would rather not."},
    "openai-responses": {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "c2VhbGVk",
    },
}


def with_opaque(provider: str) -> Scene:
    """A prompt whose model left something only its provider reads."""
    payload: JsonObject = OPAQUE[provider]  # type: ignore[assignment]
    call = CALL
    if "id" in payload:  # what reasoning led to has an id of its own
        notes = PartProvenance(provider=provider, fields={"id": "fc_1"})
        call = msgspec.structs.replace(CALL, part_metadata=notes.onto(None))
    turns = log(ASK, ("bot", opaque_part(provider, payload), call), ("bot", RESULT))
    return Scene(f"opaque part of {provider}", TOOLED, turns)


SCENES: tuple[Scene, ...] = (
    Scene("plain text", BOT, message="Hi"),
    Scene("no system text", Agent("bot", instruction=""), message="Hi"),
    Scene("nothing said yet", BOT),
    Scene("several turns", BOT, log(("user", "Hi"), ("bot", "Hello."), ("user", "And?"))),
    Scene("two user turns in a row", BOT, log(("user", "Hi"), ("user", "Anybody?"))),
    Scene("two model turns in a row", BOT, log(("user", "Hi"), ("bot", "A."), ("bot", "B.")), "C?"),
    Scene("the model speaks first", BOT, log(("bot", "Welcome.")), "Hi"),
    Scene("the model spoke last", BOT, log(("user", "Hi"), ("bot", "Hello."))),
    Scene("texts in several parts", BOT, message=["One.", "Two.", "Three."]),
    Scene("model text in several parts", BOT, log(("user", "Hi"), ("bot", "A.", "B.")), "C?"),
    Scene(
        "blank text",
        BOT,
        log(("user", "Hi"), ("bot", " ", CALL), ("bot", RESULT), ("bot", "\n")),
        "?",
    ),
    Scene("the user says nothing", BOT, log(("user", " "), ("bot", "Yes?"), ("user", "\n"))),
    Scene("unicode", BOT.instruct("Größe 🧵 \u2028 \x00"), message="日本語 👩‍👩‍👧 \u200b é"),
    Scene("lone surrogate", BOT, log(("user", "cut \ud83d here")), "Hi"),
    Scene("foreign agent", BOT, log(("user", "Hi"), ("other", "I am other.")), "Go on"),
    Scene("tool loop", TOOLED, LOOP),
    Scene("provider tools", BOT.uses(*HOSTED), message="What is new?"),
    Scene("provider tools beside functions", TOOLED.uses(*HOSTED), LOOP),
    Scene(
        "provider tools with options",
        BOT.uses(
            WebSearch(max_uses=2, allowed_domains=("a.example",), location={"country": "NO"}),
            WebFetch(blocked_domains=("b.example",)),
            CodeExecution(files=("file_1",)),
        ),
        message="What is new?",
    ),
    Scene("examples", replace(TOOLED, examples=EXAMPLES), LOOP),
    Scene("examples without tools", replace(TOOLED, examples=EXAMPLES), LOOP, models=WITHOUT_TOOLS),
    Scene("tool loop with an answer", TOOLED, (*LOOP, event(3, "bot", "It is 1.")), "Thanks"),
    Scene(
        "parallel calls",
        TOOLED,
        log(
            ASK,
            ("bot", "Looking.", CALL, call_part("ping", {}, id="c2")),
            ("bot", RESULT, result_part("ping", {"output": "pong"}, id="c2")),
        ),
    ),
    Scene(
        "parallel results in two events, out of order",
        TOOLED,
        log(
            ASK,
            ("bot", CALL, call_part("ping", {}, id="c2")),
            ("bot", result_part("ping", {"output": "pong"}, id="c2")),
            ("bot", RESULT),
        ),
        "So?",
    ),
    Scene(
        "sequential calls",
        TOOLED,
        (
            *LOOP,
            event(3, "bot", call_part("lookup", {"key": "b"}, id="c2")),
            event(4, "bot", result_part("lookup", {"result": {"b": [1, None]}}, id="c2")),
        ),
    ),
    Scene(
        "call without arguments",
        TOOLED,
        log(
            ASK, ("bot", call_part("ping", {}, id="c1")), ("bot", result_part("ping", {}, id="c1"))
        ),
    ),
    Scene(
        "call without an id",
        TOOLED,
        log(ASK, ("bot", call_part("ping", {})), ("bot", result_part("ping", {"result": "x"}))),
    ),
    Scene(
        "call with an id of another alphabet",
        TOOLED,
        log(
            ASK,
            ("bot", call_part("ping", {}, id="adk:1/é.2"), call_part("ping", {}, id="adk:1/é_2")),
            (
                "bot",
                result_part("ping", {"result": "x"}, id="adk:1/é_2"),
                result_part("ping", {"result": "y"}, id="adk:1/é.2"),
            ),
        ),
    ),
    Scene("one id used twice", TOOLED, (*LOOP, event(3, "bot", CALL), event(4, "bot", RESULT))),
    Scene(
        "late result",
        TOOLED,
        (*LOOP[:2], event(2, "user", "Well?"), event(3, "bot", RESULT)),
        "And?",
    ),
    Scene("call without a result", TOOLED, LOOP[:2], "Well?"),
    Scene(
        "long-running call",
        TOOLED,
        (LOOP[0], event(1, "bot", CALL, long_running_tool_ids=("c1",))),
        "Well?",
    ),
    Scene("result without a call", TOOLED, (LOOP[0], LOOP[2]), "Well?"),
    Scene(
        "failed call",
        TOOLED,
        log(ASK, ("bot", CALL), ("bot", result_part("lookup", {"error": "no such key"}, id="c1"))),
    ),
    Scene(
        "empty result text",
        TOOLED,
        log(ASK, ("bot", CALL), ("bot", result_part("lookup", {"result": ""}, id="c1"))),
    ),
    Scene(
        "result and words in one event", TOOLED, log(ASK, ("bot", CALL), ("user", RESULT, "There."))
    ),
    Scene("words before the result", TOOLED, log(ASK, ("bot", CALL), ("user", "There.", RESULT))),
    Scene("image", BOT, message=["What is this?", PNG]),
    Scene("image alone", BOT, message=PNG),
    Scene("image under an old name", BOT, message=media_part("image/jpg; q=1", b"jpeg")),
    Scene("empty document", BOT, message=media_part("text/plain", b" ")),
    Scene("image of a rare type", BOT, message=["?", media_part("image/heic", b"heic")]),
    Scene("pdf", BOT, message=["Sum up.", PDF]),
    Scene("audio", BOT, message=["Write down.", WAV, media_part("audio/mpeg", b"ID3")]),
    Scene("video", BOT, message=["Describe.", MP4]),
    Scene("text document", BOT, message=["Read.", NOTE, media_part("application/json", b"{}")]),
    Scene(
        "bytes that only claim to be text",
        BOT,
        message=["Read.", media_part("text/plain", b"\xff\xfe\x00")],
    ),
    Scene(
        "image at an address",
        BOT,
        message=["?", file_part("https://example.com/a.png", "image/png")],
    ),
    Scene(
        "pdf at an address",
        BOT,
        message=["?", file_part("https://example.com/a.pdf", "application/pdf")],
    ),
    Scene("file in a bucket", BOT, message=["?", file_part("gs://bucket/a.png", "image/png")]),
    Scene("image the model made", BOT, log(("user", "Draw."), ("bot", "Here.", PNG)), "Again"),
    Scene("image in a result", TOOLED, log(ASK, ("bot", CALL), ("bot", shown(PNG)))),
    Scene(
        "pdf, video and address in a result",
        TOOLED,
        log(
            ASK,
            ("bot", CALL),
            ("bot", shown(PDF, MP4, file_part("https://example.com/a.png", "image/png"))),
        ),
        "So?",
    ),
    Scene(
        "image in a result without words",
        TOOLED,
        log(ASK, ("bot", CALL), ("bot", shown(PNG, said=""))),
    ),
    Scene(
        "image in one of two results",
        TOOLED,
        log(
            ASK,
            ("bot", CALL, call_part("ping", {}, id="c2")),
            ("bot", shown(PNG), result_part("ping", {}, id="c2")),
        ),
    ),
    Scene(
        "thought without signature",
        TOOLED,
        log(ASK, ("bot", thought_part("Hm."), CALL), ("bot", RESULT)),
    ),
    Scene("only a thought", BOT, log(("user", "Hi"), ("bot", thought_part("Hm."))), "Well?"),
    Scene(
        "signature of nobody",
        TOOLED,
        log(ASK, ("bot", thought_part("Hm.", signature=SIGNATURE), CALL), ("bot", RESULT)),
    ),
    *(Scene(f"thought signed by {name}", TOOLED, _signed(name)) for name in DIALECTS),
    Scene(
        "signed text", BOT, log(("user", "Hi"), ("bot", by("gemini", text_part("Hello.")))), "And?"
    ),
    *(with_opaque(name) for name in OPAQUE),
    Scene(
        "executed code",
        BOT,
        (
            event(0, "user", "Compute."),
            Event(
                author="bot",
                id="e1",
                content=Content(
                    role="model",
                    parts=(
                        Part(text="Computing."),
                        Part(executable_code=ExecutableCode(code="print(1)", language="PYTHON")),
                        Part(
                            code_execution_result=CodeExecutionResult(
                                outcome="OUTCOME_OK", output="1"
                            )
                        ),
                        Part(text="One."),
                    ),
                ),
            ),
        ),
        "Thanks",
    ),
    Scene("many tools", BOT.uses(*many_tools(64)), message="Hi"),
    Scene("nested types, unions, enums and literals", BOT.uses(weather), message="Hi"),
    Scene("recursive type", BOT.uses(plant), message="Hi"),
    Scene("sub-agents", BOT.delegates_to(Agent("helper", description="Helps.")), message="Hi"),
    Scene("answer as a dataclass", BOT.returns(Forecast), message="Hi"),
    Scene("answer as a record", BOT.returns(Person), message="Hi"),
    Scene("answer as a typed dict", BOT.returns(Pair), message="Hi"),
    Scene("answer that is a list", BOT.returns(list[Pair]), message="Hi"),
    Scene("answer with bounds", BOT.returns(BOUNDED), message="Hi"),
    Scene("answer that recurs", BOT.returns(Tree), message="Hi"),
    Scene("answer with a name no provider takes", BOT.returns(dict[str, int]), message="Hi"),
    Scene("answer beside tools", TOOLED.returns(Person), LOOP),
    Scene("answer by a tool", TOOLED.returns(Person), LOOP, models=WITHOUT_SCHEMA),
    Scene("answer in text", BOT.returns(Person), message="Hi", models=WITHOUT_TOOLS),
    option("temperature", 0.5),
    option("temperature", 0),
    option("top_p", 0.9),
    option("top_k", 40),
    option("max_output_tokens", 100),
    option("stop_sequences", ["END"]),
    option("seed", 7),
    option("presence_penalty", 0.1),
    option("frequency_penalty", -0.1),
    option("logprobs", True),
    option("logprobs", 3),
    option("thinking", {"budget": 2048}),
    option("thinking", {"budget": 20000}),
    option("thinking", {"budget": 0}),
    option("thinking", {"budget": 0, "include": True}),
    option("thinking", {"effort": "low", "include": True}),
    option("thinking", {"effort": "max"}),
    option("tool_choice", "auto"),
    option("tool_choice", "any"),
    option("tool_choice", "none"),
    option("tool_choice", {"name": "lookup"}),
    option("parallel_tool_calls", False),
    option("service_tier", "auto"),
    option("user", "u1"),
    option("extra", EXTRA),
    option("extra", EXTRA_TOOLS),
    Scene("choice and parallel together", bot_with(parallel_tool_calls=False, tool_choice="any")),
    Scene("no choice, nothing parallel", bot_with(parallel_tool_calls=False, tool_choice="none")),
    Scene(
        "choice without tools", Agent("bot", generate_config={"tool_choice": "any"}), message="Hi"
    ),
    Scene(
        "sampling for the newest models",
        bot_with(temperature=0.5, max_output_tokens=9),
        message="Hi",
        models=NEWEST,
    ),
    Scene(
        "thinking for the newest models",
        bot_with(thinking={"budget": 2048}),
        message="Hi",
        models=NEWEST,
    ),
)

BY_NAME: dict[str, Scene] = {scene.name: scene for scene in SCENES}


def scene(name: str) -> Scene:
    """The prompt of that name."""
    return BY_NAME[name]


def body(name: str, dialect: str, *, model: str | None = None) -> dict[str, Any]:
    """The request of that prompt in that dialect."""
    return cast("dict[str, Any]", compiled(name, dialect, model=model).lower(dialect))


def compiled(name: str, dialect: str, *, model: str | None = None) -> Compilation:
    """That prompt, compiled for the dialect's model or for another one."""
    one = scene(name)
    if model is not None:
        one = one._replace(models={dialect: model})
    return one.compile(dialect)


def without_system(dialect: str) -> dict[str, Any]:
    """A request that has no system text at all, which only a callback can bring about."""
    prompt = msgspec.structs.replace(compiled("plain text", dialect).prompt, system=())
    return cast("dict[str, Any]", dialect_named(dialect).lower(prompt).wire)


def words_first(dialect: str) -> list[dict[str, Any]]:
    """The turns of a prompt whose user spoke before the result, as a callback may leave it."""
    prompt = compiled("tool loop", dialect).prompt
    *before, exchange = prompt.items
    words = TextBlock(role="user", origin=Origin("pass", "callback"), text="There.")
    blocks = (*exchange.blocks[:-1], words, exchange.blocks[-1])
    moved = msgspec.structs.replace(exchange, blocks=blocks)
    held = dialect_named(dialect).lower(prompt.with_items([*before, moved]))
    return cast("list[dict[str, Any]]", held.wire[held.turns])


def said(compiled: Compilation, dialect: str) -> list[str]:
    """What lowering had to say: severity, code and message."""
    found = compiled.lowered(dialect).diagnostics
    return [f"{one.severity}[{one.code}] {one.message}" for one in found]
