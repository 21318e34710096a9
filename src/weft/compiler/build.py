"""Build: events become items, each exactly once.

Nothing is dropped here: what must not reach the model becomes a hidden item with its reason,
so that a pass can drop it and the report can say why.
"""

from collections.abc import Iterable

import msgspec

from weft.codes import report
from weft.content import Content, FunctionResponse, Part
from weft.diagnostics import Diagnostic, Origin
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Feature,
    Item,
    ItemKind,
    MediaBlock,
    OpaqueBlock,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
)
from weft.session import Event
from weft.values import JsonObject, compact, has_lone_surrogate, scrub, spells

INTERNAL_CALLS = frozenset(
    ("adk_framework", "adk_request_credential", "adk_request_confirmation", "adk_request_input")
)
"""Calls a framework makes to itself or to its client; no model ever made or reads them."""


class Built(msgspec.Struct):
    """Items of a stretch of the log, what occurs in it, and what had to be said."""

    items: list[Item]
    features: int
    diagnostics: list[Diagnostic]


def build_items(
    events: Iterable[Event], start: int, agent: str, hidden: dict[int, str] | None = None
) -> Built:
    """An item for every event, in log order; `hidden` gives reasons by log index."""
    items: list[Item] = []
    diagnostics: list[Diagnostic] = []
    features = Feature.NONE
    for position, event in enumerate(events, start):
        author = event.author
        branch = event.branch or ""
        actions = event.actions
        why = "it is partial" if event.partial else ""
        if hidden is not None and position in hidden:
            why = hidden[position]
        elif actions.compaction is not None:
            if branch:
                features |= Feature.BRANCHED
            items.append(_summary(event, position))
            continue
        blocks: tuple[Block, ...] = ()
        role: Role = "user" if author == "user" else "model"
        content = event.content
        if content is not None and content.parts:
            if content.role == "user":
                role = "user"
            parts = content.parts
            if len(parts) == 1 and (text := parts[0].text) and not _odd(parts[0]):
                if not text.isascii() and has_lone_surrogate(text):
                    text = _mended(text, event, diagnostics)
                origin = Origin("event", event.id, author, -1, -1, 0)
                blocks = (TextBlock(role=role, origin=origin, text=text),)
            else:
                blocks = _blocks(event, position, role, diagnostics)
        if not blocks or why:
            why = why or ("it only changes state" if actions.state_delta else "it is empty")
            features |= Feature.HIDDEN
            items.append(
                Item(
                    "hidden", blocks, author, event.invocation_id, position, position, event.id,
                    branch, why=why,
                )
            )  # fmt: skip
            continue
        if branch:
            features |= Feature.BRANCHED
        if author != agent and author != "user":
            features |= Feature.FOREIGN
        kind: ItemKind = "user" if role == "user" else "model"
        waits = False
        if type(blocks[0]) is not TextBlock or len(blocks) > 1:
            for block in blocks:
                if isinstance(block, CallBlock):
                    features |= Feature.CALLS
                    kind = "calls"
                    waits = waits or block.waits
                elif isinstance(block, ResultBlock):
                    features |= Feature.CALLS
                    kind = "results"
        wrote: tuple[str, ...] = ()
        if actions.state_delta and author != "user":
            wrote = wrote_keys(event)
            if wrote:
                features |= Feature.WROTE
        items.append(
            Item(
                kind, blocks, author, event.invocation_id, position, position, event.id, branch,
                wrote, waits,
            )
        )  # fmt: skip
    return Built(items, features, diagnostics)


def hidden_by_rewind(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes that a rewind took out of view, with the reason."""
    log = list(events)
    hidden: dict[int, str] = {}
    index = len(log) - 1
    while index >= 0:
        target = log[index].actions.rewind_before_invocation_id
        if target:
            first = next((i for i in range(index) if log[i].invocation_id == target), None)
            hidden[index] = "it is the rewind itself"
            if first is not None:
                for between in range(first, index):
                    hidden[between] = f"rewound to before invocation {target}"
                index = first
        index -= 1
    return hidden


def hidden_by_compaction(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes whose events a summary stands for, with the reason."""
    log = list(events)
    ranges = [
        (c.start_timestamp, c.end_timestamp, index)
        for index, event in enumerate(log)
        if (c := event.actions.compaction) is not None
    ]
    hidden: dict[int, str] = {}
    for start, end, index in ranges:
        if any(s <= start and end <= e and i != index and (e - s, i) > (end - start, index)
               for s, e, i in ranges):  # fmt: skip
            hidden[index] = "a wider summary covers it"
    for index, event in enumerate(log):
        covered = any(
            s <= event.timestamp <= e and index < i for s, e, i in ranges if i not in hidden
        )
        if covered and event.actions.compaction is None:
            hidden[index] = "a summary stands for it"
    return hidden


def wrote_keys(event: Event) -> tuple[str, ...]:
    """The state keys under which the event stored its own text."""
    text = event.text
    if not text:
        return ()
    return tuple(key for key, value in event.actions.state_delta.items() if spells(text, value))


def _odd(part: Part) -> bool:
    """Whether a part with text is more than text."""
    return bool(
        part.thought
        or part.thought_signature
        or part.function_call
        or part.function_response
        or part.part_metadata
        or part.tool_call
        or part.tool_response
    )


def _summary(event: Event, position: int) -> Item:
    compaction = event.actions.compaction
    assert compaction is not None
    text = compaction.compacted_content.text
    origin = Origin("event", event.id, event.author, part=0)
    block = TextBlock(role="user", origin=origin, text=f"[summary of earlier turns]: {text}")
    return Item(
        "summary", (block,), event.author, event.invocation_id, position, position, event.id,
        event.branch or "",
    )  # fmt: skip


def _blocks(
    event: Event, position: int, role: Role, diagnostics: list[Diagnostic]
) -> tuple[Block, ...]:
    """The blocks of an event's parts, in their order."""
    assert event.content is not None
    blocks: list[Block] = []
    for index, part in enumerate(_sendable(event.content, event, diagnostics).parts or ()):
        origin = Origin("event", event.id, event.author, part=index)
        block = _block(part, origin, role, event, position)
        if block is not None:
            blocks.append(block)
    return tuple(blocks)


def _block(part: Part, origin: Origin, role: Role, event: Event, position: int) -> Block | None:
    signature, provider = part.thought_signature, part.provider or _provider(event)
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
        return OpaqueBlock(role=role, origin=origin, provider=held[0], payload=held[1])
    if part.tool_call is not None or part.tool_response is not None:
        raw: JsonObject = msgspec.json.decode(msgspec.json.encode(part))
        return OpaqueBlock(role=role, origin=origin, provider="", payload=raw)
    if part.thought or (signature and not part.text and part.inline_data is None):
        text = part.text or ""
        return ThoughtBlock(
            role="model", origin=origin, text=text, signature=signature, provider=provider
        )
    if part.text:
        return TextBlock(
            role=role, origin=origin, text=part.text, signature=signature, provider=provider
        )
    if (media := _media(part, origin, role)) is not None:
        return media
    if (code := part.executable_code) is not None:
        return CodeBlock(
            role=role,
            origin=origin,
            code=code.code or "",
            language=code.language or "PYTHON",
            signature=signature,
            id=code.id,
        )
    if (ran := part.code_execution_result) is not None:
        return CodeResultBlock(
            role=role,
            origin=origin,
            outcome=ran.outcome or "OUTCOME_OK",
            output=ran.output or "",
            signature=signature,
            id=ran.id,
        )
    return None


def _provider(event: Event) -> str:
    """Who signed the event's parts, where its metadata says so."""
    held = (event.custom_metadata or {}).get("weft")
    provider = held.get("provider") if isinstance(held, dict) else None
    return provider if isinstance(provider, str) else ""


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
        mended = _mended(compact(msgspec.to_builtins(content)), event, diagnostics)
        return msgspec.json.decode(mended, type=Content)
    return content


def _mended(text: str, event: Event, diagnostics: list[Diagnostic]) -> str:
    diagnostics.append(
        report(
            "WEFT204",
            Origin("event", event.id, event.author),
            "a lone surrogate was replaced by U+FFFD",
            "mend the text where it is made; it is often an emoji cut in half",
        )
    )
    return scrub(text)
