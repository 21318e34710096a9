"""Blocks: what the parts of an event become, each with the place it came from."""

import msgspec

from weft.codes import report
from weft.content import Content, FunctionResponse, Part
from weft.diagnostics import Diagnostic, Origin
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    MediaBlock,
    OpaqueBlock,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
)
from weft.session import Event
from weft.values import JsonObject, compact, has_lone_surrogate, scrub

INTERNAL_CALLS = frozenset(
    ("adk_framework", "adk_request_credential", "adk_request_confirmation", "adk_request_input")
)
"""Calls a framework makes to itself or to its client; no model ever made or reads them."""


def blocks_of(
    event: Event, position: int, role: Role, diagnostics: list[Diagnostic]
) -> tuple[Block, ...]:
    """The blocks of an event's parts, in their order."""
    assert event.content is not None
    blocks: list[Block] = []
    content = _sendable(event.content, event, diagnostics)
    posted = event.author == "user" or (not event.author and content.role == "user")
    for index, part in enumerate(content.parts or ()):
        origin = Origin("event", event.id, event.author, part=index)
        if part.part_metadata is not None and is_untrusted(part.part_metadata):
            diagnostics.append(
                report(
                    "WEFT609",
                    origin,
                    "what a provider is said to have kept with this part is not sent",
                    "read the session with trusted=True if a Weft of yours wrote it",
                )
            )
        if posted and _speaks_for_others(part):
            part = _as_posted(part, origin, diagnostics)
        block = _block(part, origin, role, event, position)
        if block is not None:
            blocks.append(block)
    return tuple(blocks)


def is_untrusted(metadata: JsonObject) -> bool:
    """Whether something was set aside when the log was read from outside."""
    held = metadata.get("weft")
    return isinstance(held, dict) and "untrusted" in held


def _speaks_for_others(part: Part) -> bool:
    """Whether a part of the user's says more than a user can."""
    return bool(
        part.part_metadata
        or part.thought
        or part.thought_signature
        or part.function_call
        or part.tool_call
        or part.tool_response
    )


def _as_posted(part: Part, origin: Origin, diagnostics: list[Diagnostic]) -> Part:
    """What of a user's part is data; the rest is a model's, or a provider's, to say.

    A log may hold such parts: another program let its clients write what they liked.
    """
    own = (part.part_metadata or {}).get("weft")
    if not part.part_metadata or own or part.thought or part.function_call is not None:
        diagnostics.append(
            report(
                "WEFT609",
                origin,
                "a part of the user's message says what only a model or a provider can",
                "let clients post text, media and answers to open calls, nothing else",
            )
        )
    return Part(
        text=part.text,
        function_response=part.function_response,
        inline_data=part.inline_data,
        file_data=part.file_data,
        executable_code=part.executable_code,
        code_execution_result=part.code_execution_result,
    )


def heard(event: Event, diagnostics: list[Diagnostic]) -> tuple[Block, ...]:
    """What was said aloud, where only its transcript is kept."""
    sides: tuple[tuple[Role, JsonObject | None], ...] = (
        ("user", event.input_transcription),
        ("model", event.output_transcription),
    )
    blocks: list[Block] = []
    for role, transcript in sides:
        text = (transcript or {}).get("text")
        if isinstance(text, str) and text:
            if has_lone_surrogate(text):
                text = mended(text, event, diagnostics)
            origin = Origin("event", event.id, event.author)
            blocks.append(TextBlock(role=role, origin=origin, text=text))
    return tuple(blocks[:1])


def _block(part: Part, origin: Origin, role: Role, event: Event, position: int) -> Block | None:
    signature, kept = part.thought_signature, part.kept
    provider, model = _maker(event)
    provider = part.provider or provider
    if (call := part.function_call) is not None:
        if call.name in INTERNAL_CALLS:
            return None
        return CallBlock(
            role="model",
            origin=origin,
            id=call.id or f"call_{position}_{origin.part}",
            name=call.name or "",
            args=call.args or {},
            given=call.id is not None and not call.id.startswith("adk-"),
            waits=call.id in (event.long_running_tool_ids or ()),
            signature=signature,
            provider=provider,
            model=model,
            kept=kept,
        )
    if (result := part.function_response) is not None:
        if result.name in INTERNAL_CALLS:
            return None
        return ResultBlock(
            role="user",
            origin=origin,
            call_id=result.id or "",
            name=result.name or "",
            response=result.response or {},
            given=result.id is not None and not result.id.startswith("adk-"),
            media=_result_media(result, origin) if result.parts else (),
        )
    if (held := part.opaque) is not None:
        return OpaqueBlock(role=role, origin=origin, provider=held[0], model=model, payload=held[1])
    if part.tool_call is not None or part.tool_response is not None:
        bare = msgspec.structs.replace(part, part_metadata=None)  # it is the log's, no provider's
        raw: JsonObject = msgspec.json.decode(msgspec.json.encode(bare))
        return OpaqueBlock(role=role, origin=origin, provider="", model=model, payload=raw)
    if part.kind == "thought":
        text = part.text or ""
        return ThoughtBlock(
            role="model",
            origin=origin,
            text=text,
            signature=signature,
            provider=provider,
            model=model,
            kept=kept,
        )
    if part.text:
        return TextBlock(
            role=role,
            origin=origin,
            text=part.text,
            signature=signature,
            provider=provider,
            model=model,
            kept=kept,
        )
    if (media := _media(part, origin, role)) is not None:
        return msgspec.structs.replace(media, provider=provider, model=model, kept=kept)
    if (code := part.executable_code) is not None:
        return CodeBlock(
            role=role,
            origin=origin,
            code=code.code or "",
            language=code.language or "PYTHON",
            signature=signature,
            id=code.id,
            provider=provider,
            model=model,
            kept=kept,
        )
    if (ran := part.code_execution_result) is not None:
        return CodeResultBlock(
            role=role,
            origin=origin,
            outcome=ran.outcome or "OUTCOME_OK",
            output=ran.output or "",
            signature=signature,
            id=ran.id,
            provider=provider,
            model=model,
            kept=kept,
        )
    return None


def _maker(event: Event) -> tuple[str, str]:
    """Whose provider and which model made the event, where its metadata says so."""
    held = (event.custom_metadata or {}).get("weft")
    if not isinstance(held, dict):
        return "", ""
    provider, model = held.get("provider"), held.get("model")
    return (
        provider if isinstance(provider, str) else "",
        model if isinstance(model, str) else "",
    )


def _media(part: Part, origin: Origin, role: Role) -> MediaBlock | None:
    blob, file = part.inline_data, part.file_data
    held = blob if blob is not None else file
    if held is None:
        return None
    return MediaBlock(
        role=role,
        origin=origin,
        mime_type=held.mime_type or "application/octet-stream",
        data=_standard_base64(blob.data or "") if blob is not None else None,
        uri=file.file_uri or "" if blob is None and file is not None else None,
        name=held.display_name or "",
        signature=part.thought_signature,
    )


def _result_media(result: FunctionResponse, origin: Origin) -> tuple[MediaBlock, ...]:
    shown = (_media(msgspec.convert(raw, Part), origin, "user") for raw in result.parts or ())
    return tuple(block for block in shown if block is not None)


def _standard_base64(data: str) -> str:
    """ADK writes URL-safe base64; providers want the standard alphabet."""
    return data.replace("-", "+").replace("_", "/")


def _sendable(content: Content, event: Event, diagnostics: list[Diagnostic]) -> Content:
    """The content as it can be sent; only a lone surrogate ever changes it."""
    try:
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        whole = mended(compact(msgspec.to_builtins(content)), event, diagnostics)
        return msgspec.json.decode(whole, type=Content)
    return content


def mended(text: str, event: Event, diagnostics: list[Diagnostic]) -> str:
    """The text without its lone surrogates, and a word about it."""
    diagnostics.append(
        report(
            "WEFT204",
            Origin("event", event.id, event.author),
            "a lone surrogate was replaced by U+FFFD",
            "mend the text where it is made; it is often an emoji cut in half",
        )
    )
    return scrub(text)
