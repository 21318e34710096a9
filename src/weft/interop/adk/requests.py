"""Requests of google-adk: what stands in one, and how it is changed."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import cast

import msgspec

from weft.compiler import Compilation
from weft.compiler.tools import Held
from weft.content import FunctionCall
from weft.interop.adk.events import parts_of
from weft.interop.adk.objects import field, flag, listed, text
from weft.interop.adk.templates import filled
from weft.ir import ToolDecl
from weft.ir.block import RECALL
from weft.runtime.recall import found_among
from weft.values import Json, JsonObject, require_json


def body(
    request: object, contents: list[Json], system: str | None, added: Iterable[ToolDecl] = ()
) -> JsonObject:
    """The whole request as it would be sent with these, and with tools beside its own."""
    config = field(request, "config")
    words = system if system is not None else field(config, "system_instruction")
    wire: JsonObject = {"contents": contents}
    if isinstance(words, str) and words:
        wire["systemInstruction"] = {"parts": [{"text": words}]}
    tools = [_dumped(tool) for tool in listed(config, "tools")]
    for tool in added:
        declaration: JsonObject = {"name": tool.name, "description": tool.description}
        tools.append({"functionDeclarations": [{**declaration, "parameters": tool.parameters}]})
    if tools:
        wire["tools"] = tools
    return wire


def put(request: object, contents: list[Json], system: str | None) -> None:
    """Let the request say this."""
    content = import_module("google.genai.types").Content
    objects = [content.model_validate_json(msgspec.json.encode(one)) for one in contents]
    setattr(request, "contents", objects)  # noqa: B010  a field of a foreign object
    if system is not None:
        setattr(field(request, "config"), "system_instruction", system)  # noqa: B010


def refusal(why: str) -> object:
    """The answer that google-adk gets for a request that is not sent."""
    response = cast("Callable[..., object]", import_module("google.adk.models").LlmResponse)
    return response(error_code="PROTECTED", error_message=f"the request was not sent: {why}")


def offer_recall(request: object, known: Sequence[Held]) -> None:
    """Add the tool that gets back what a handle in the request stands for, of what is known."""

    def recall(
        handle: str, lines: str = "", query: str = "", field: str = "", page: int = 1
    ) -> dict[str, object]:
        """Get back a value that was shortened.

        Args:
            handle: The handle that stands in its place, or several.
            lines: Only these lines, as 12-40.
            query: Only what fits these words.
            field: Only this field of JSON, as rows[].id.
            page: Which part of a long value.
        """
        asked = FunctionCall(
            name=RECALL,
            args={
                "handle": handle,
                "lines": lines,
                "query": query or None,
                "field": field or None,
                "page": page,
            },
        )
        return {**(found_among(known, asked).response or {})}

    append = field(request, "append_tools")
    if callable(append) and RECALL not in cast("dict[str, object]", field(request, "tools_dict")):
        tool = cast("Callable[..., object]", import_module("google.adk.tools").FunctionTool)
        append([tool(recall)])


def _dumped(tool: object) -> Json:
    dump = field(tool, "model_dump")
    dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else tool
    return require_json(dumped, where="tools")


_HANDING_OVER = re.compile(
    r"\n?You have a list of other agents to transfer to:\n.*?"
    r"\*\*NOTE\*\*: the only available agents for `\w+` function are\n(?P<names>[^\n]*)\.\n"
    r"(?:\nIf neither you nor the other agents are best[^\n]*\n)?",
    re.DOTALL,
)


def joined_system(
    instruction: str, compiled: Compilation, agent: object, root: object, state: JsonObject
) -> str | None:
    """Weft's instruction, and behind it what others have added; None where that is in doubt."""
    rest = instruction
    for part in _written(agent, root, state):
        # a text that stands there twice cannot be told from what others added
        if part is None or rest.count(part) != 1:
            return None
        rest = rest.replace(part, "", 1)
    targets = next((_targets(t) for t in compiled.prompt.tools if t.name == _TRANSFER), ())
    match = _HANDING_OVER.search(rest)
    if bool(match) != bool(targets):
        return None
    if match is not None:
        if not all(f"`{name}`" in match["names"] for name in targets):
            return None
        rest = rest[: match.start()] + rest[match.end() :]
    added = [piece.strip("\n") for piece in rest.split("\n\n")]
    return "\n\n".join(piece for piece in (compiled.system, *added) if piece.strip())


_TRANSFER = "transfer_to_agent"


def _written(agent: object, root: object, state: JsonObject) -> list[str | None]:
    """The text that google-adk itself adds; None if that cannot be known."""
    name, description = text(agent, "name"), text(agent, "description")
    identity = f'You are an agent. Your internal name is "{name}".'
    if description:
        identity += f' The description about you is "{description}".'
    pieces: list[str | None] = [identity]
    if field(agent, "static_instruction"):
        return [None]
    for owner, kind in ((agent, "instruction"), (root, "global_instruction")):
        instruction = field(owner, kind)
        if callable(instruction):
            return [None]
        if isinstance(instruction, str) and instruction:
            pieces.append(filled(instruction, state) or None)
    return pieces


def _targets(tool: ToolDecl) -> tuple[str, ...]:
    """The agents that Weft lets it hand over to."""
    properties = tool.parameters.get("properties")
    asked = properties.get("agent_name") if isinstance(properties, dict) else None
    names = asked.get("enum") if isinstance(asked, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


QUOTED = "For context:"
"""How google-adk begins what another agent said."""

PAYLOADS = (
    "function_call", "function_response", "inline_data", "file_data", "executable_code",
    "code_execution_result",
)  # fmt: skip


def difference(contents: list[object], events: tuple[object, ...], agent: str) -> str:
    """Why the contents are not what the events say; "" where they are."""
    texts = Counter(text(part, "text") for part in _parts(events))
    payloads = {kind for part in _parts(events) for kind in _payloads(part)}
    sent: Counter[str] = Counter()
    quoted: list[str] = []
    for content in contents:
        parts = parts_of(content)
        if parts and text(parts[0], "text").startswith(QUOTED):
            quoted += [text(part, "text") for part in parts]
            continue
        for part in parts:
            words = text(part, "text")
            sent[words] += 1
            if words and sent[words] > texts[words]:
                return "the request holds a text that its session does not"
            if not payloads.issuperset(_payloads(part)):
                return "the request holds something that its session does not"
    mine = Counter(_words(event for event in events if text(event, "author") in ("user", agent)))
    theirs = _words(event for event in events if text(event, "author") not in ("user", agent))
    if mine - sent or not _in_order([*theirs], "\n".join(quoted)):
        return "the request lacks a text that its session holds"
    return ""


def _words(events: Iterable[object]) -> Iterator[str]:
    """The text of events, without thoughts."""
    for part in _parts(events):
        words = text(part, "text")
        if words.strip() and not flag(part, "thought"):
            yield words


def _in_order(pieces: list[str], whole: str) -> bool:
    """Whether all pieces stand in the whole; quick where they stand in their order."""
    at = 0
    for piece in pieces:
        place = whole.find(piece, at)
        if place < 0:
            place = whole.find(piece)
        if place < 0:
            return False
        at = place + len(piece)
    return True


def reaching_back(events: Iterable[object]) -> bool:
    """Whether an event takes back or sums up others."""
    names = ("compaction", "rewind_before_invocation_id")
    return any(field(field(event, "actions"), name) for event in events for name in names)


def _parts(events: Iterable[object]) -> Iterator[object]:
    for event in events:
        yield from parts_of(field(event, "content"))


def _payloads(part: object) -> Iterator[tuple[str, str]]:
    for kind in PAYLOADS:
        payload = field(part, kind)
        if payload is not None:
            yield (
                kind,
                text(payload, "name") or text(payload, "file_uri") or text(payload, "mime_type"),
            )
