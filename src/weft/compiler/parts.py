"""The parts of an event as blocks: texts, calls, results, files, thoughts and code.

What only its maker can read keeps the name of who made it. Of a user's part only the data counts:
the rest is a model's, or a provider's, to say. What cannot be sent is mended, and the report says
so.
"""

import msgspec

from weft.content import (
    NO_PART_NOTES,
    Blob,
    Content,
    FunctionResponse,
    Part,
    PartProvenance,
    notes_in,
)
from weft.diagnostics import Diagnostic, Origin, report
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
from weft.media import SCHEME, data_at
from weft.session import Event
from weft.session.flow import TRUSTED, TrustLabel, flow_of
from weft.session.provenance import NOTHING, Provenance
from weft.session.talk import INTERNAL_CALLS
from weft.values import JsonObject, compact, has_half_character, has_lone_surrogate, scrub


def is_internal(event: Event) -> bool:
    """Whether no model made the event: all its calls are to Weft or its client, or code's."""
    if event.is_noted and event.provenance.code is not None:
        return True
    calls = event.calls
    return bool(calls) and all(call.name in INTERNAL_CALLS for call in calls)


def blocks_of(
    event: Event, position: int, role: Role, diagnostics: list[Diagnostic]
) -> tuple[Block, ...]:
    """The blocks of an event's parts, in their order."""
    assert event.content is not None
    blocks: list[Block] = []
    content = _sendable(event.content, event, diagnostics)
    maker = event.provenance if event.is_noted else NOTHING
    flow = flow_of(event)
    posted = event.author == "user" or (not event.author and content.role == "user")
    for index, part in enumerate(content.parts or ()):
        origin = Origin("event", event.id, event.author, part=index)
        notes = part.provenance if part.part_metadata is not None else NO_PART_NOTES
        if notes.untrusted is not None:
            diagnostics.append(
                report(
                    "WEFT609",
                    origin,
                    "what a provider is said to have kept with this part is not sent",
                    "read the session with trusted=True if a Weft of yours wrote it",
                )
            )
        # a client must not put words, calls or signatures into the model's mouth
        if posted and _speaks_for_others(part):
            part = _as_posted(part, origin, diagnostics)
            notes = part.provenance
        block = _block_of(part, notes, maker, origin, role, event, position)
        if block is not None:
            label = flow.of_result(block.name) if isinstance(block, ResultBlock) else flow.base
            blocks.append(_label_block(block, label) if label is not TRUSTED else block)
    return tuple(blocks)


def _label_block(block: Block, label: TrustLabel) -> Block:
    """The block with a label; media of a result has that of the result."""
    if isinstance(block, ResultBlock) and block.media:
        media = tuple(msgspec.structs.replace(one, label=label) for one in block.media)
        return msgspec.structs.replace(block, label=label, media=media)
    return msgspec.structs.replace(block, label=label)


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
    own = notes_in(part.part_metadata)
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
                text = mend_text(text, event, diagnostics)
            origin = Origin("event", event.id, event.author)
            label = flow_of(event).base
            blocks.append(TextBlock(role=role, origin=origin, text=text, label=label))
    # an item has one role: of a transcript of both sides the user's is taken
    return tuple(blocks[:1])


def _block_of(
    part: Part,
    notes: PartProvenance,
    maker: Provenance,
    origin: Origin,
    role: Role,
    event: Event,
    position: int,
) -> Block | None:
    """The block of one part, as its kind has it; None for calls that only Weft makes."""
    signature = part.thought_signature
    provider, model, extra = (
        notes.provider or maker.provider or "",
        maker.model or "",
        notes.fields,
    )
    if (call := part.function_call) is not None:
        if call.name in INTERNAL_CALLS:
            return None
        return CallBlock(
            role="model",
            origin=origin,
            # made from the place in the log, so that the same log gives the same id
            id=call.id or f"call_{position}_{origin.part}",
            name=call.name or "",
            args=call.args or {},
            given=call.id is not None and not call.id.startswith("adk-"),
            waits=call.id in (event.long_running_tool_ids or ()),
            signature=signature,
            provider=provider,
            model=model,
            kept=extra,
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
            provider=provider if extra else "",
            kept=extra,
        )
    if (payload := notes.payload) is not None and notes.provider is not None:
        return OpaqueBlock(
            role=role, origin=origin, provider=provider, model=model, payload=payload
        )
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
            kept=extra,
        )
    if part.text:
        return TextBlock(
            role=role,
            origin=origin,
            text=part.text,
            signature=signature,
            provider=provider,
            model=model,
            kept=extra,
        )
    if (media := media_block(part, origin, role)) is not None:
        return msgspec.structs.replace(media, provider=provider, model=model, kept=extra)
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
            kept=extra,
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
            kept=extra,
        )
    return None


def media_block(part: Part, origin: Origin, role: Role) -> MediaBlock | None:
    """The block of a file, with its bytes at hand or by its address; None for any other part."""
    blob, file = part.inline_data, part.file_data
    value = blob if blob is not None else file
    if value is None:
        return None
    if blob is None and file is not None and (file.file_uri or "").startswith(SCHEME):
        data = data_at(file.file_uri or "")  # its digest is in the address: it can be no other
        if data is not None:
            blob = Blob(mime_type=file.mime_type, data=data)
    return MediaBlock(
        role=role,
        origin=origin,
        mime_type=value.mime_type or "application/octet-stream",
        data=_standard_base64(blob.data or "") if blob is not None else None,
        uri=file.file_uri or "" if blob is None and file is not None else None,
        name=value.display_name or "",
        signature=part.thought_signature,
    )


def _result_media(result: FunctionResponse, origin: Origin) -> tuple[MediaBlock, ...]:
    media = (media_block(msgspec.convert(raw, Part), origin, "user") for raw in result.parts or ())
    return tuple(block for block in media if block is not None)


def _standard_base64(data: str) -> str:
    """ADK writes URL-safe base64; providers want the standard alphabet."""
    return data.replace("-", "+").replace("_", "/")


def _sendable(content: Content, event: Event, diagnostics: list[Diagnostic]) -> Content:
    """The content as it can be sent; only a lone surrogate ever changes it."""
    try:
        # only a lone surrogate cannot be encoded: trying is cheaper than looking at every text
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        whole = mend_text(compact(msgspec.to_builtins(content)), event, diagnostics)
        return msgspec.json.decode(whole, type=Content)
    return content


def mend_text(text: str, event: Event, diagnostics: list[Diagnostic]) -> str:
    """The text without its lone surrogates, and a word about it; two halves are a character."""
    if has_half_character(text):
        diagnostics.append(
            report(
                "WEFT204",
                Origin("event", event.id, event.author),
                "a lone surrogate was replaced by U+FFFD",
                "mend the text where it is made; it is often an emoji cut in half",
            )
        )
    return scrub(text)
