"""The UI message stream of Vercel's AI SDK, version 1: a chat that `useChat` shows.

A chat is a session. Its last message is new: what the user says, or the word on a call that asked
for approval. The id of the user's message is the id of the run, so a message that comes twice is
answered once.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence

import msgspec

from weft.content import Content, Part
from weft.media import base64_bytes
from weft.runtime.approvals import Approve, Deny
from weft.runtime.earlier import LONGEST_ID
from weft.server.asking import find_session, replies
from weft.server.endpoints import Answer, Call, Endpoint, decode_json
from weft.server.problems import invalid, require_id
from weft.server.run_pieces import (
    ArtifactPiece,
    CallPiece,
    EndPiece,
    ResultPiece,
    RunPiece,
    StatePiece,
    TextEnd,
    TextPiece,
    pieces_of_run,
)
from weft.server.served import ServedRun
from weft.session import Session
from weft.values import JsonObject, unwrap_result

HEADER = (b"x-vercel-ai-ui-message-stream", b"v1")
"""What tells the client which protocol the stream is of."""


class Approval(msgspec.Struct, frozen=True):
    """The user's word on a call."""

    id: str
    approved: bool | None = None
    reason: str | None = None


class UiPart(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a message, as far as it is read; the client's other fields are its own."""

    type: str
    text: str = ""
    url: str = ""
    media_type: str = ""
    tool_call_id: str = ""
    state: str = ""
    approval: Approval | None = None


class UiMessage(msgspec.Struct, frozen=True):
    """A message of a chat."""

    role: str
    parts: list[UiPart]
    id: str = ""


class UiChatRequest(msgspec.Struct, frozen=True, rename="camel"):
    """What the client sends: its whole chat, and why."""

    id: str
    messages: list[UiMessage]
    trigger: str = "submit-message"


async def run_chat(call: Call) -> Answer:
    """Answer the last message of a chat, as a stream of UI message chunks."""
    chat = decode_json(await call.raw_body(), UiChatRequest)
    if chat.trigger != "submit-message":
        raise invalid(
            f"the trigger {chat.trigger[:100]!r} is not taken",
            where="/trigger",
            hint="a log is not written anew: POST /api/apps/APP/sessions/SESSION/rewind, then send",
        )
    if not chat.messages:
        raise invalid("there are no messages", where="/messages")
    runner, user, last = call.runner(), call.user(), chat.messages[-1]
    session = await find_session(runner, user, require_id(chat.id))
    parts = tuple(_read_parts(last)) if last.role == "user" else ()
    answers = replies(session, parts) if session is not None and session.waiting else None
    if last.role != "user":
        answers = _read_approvals(last, session)
    is_named = 0 < len(last.id) <= LONGEST_ID and last.id.isprintable()
    run = await call.served.start(
        runner,
        None if answers else Content(role="user", parts=parts),
        user=user,
        session=chat.id,
        answers=answers,
        request_id=last.id if is_named and not answers else None,
        follow=True,
    )
    # an approved call goes on in the message that asked for it
    id = last.id if last.role != "user" else run.id
    return call.served.run_stream(call.identity, run, _stream(run, id), [HEADER])


def _read_parts(message: UiMessage) -> Iterator[Part]:
    for at, part in enumerate(message.parts):
        if part.type == "text":
            yield Part(text=part.text)
        elif part.type == "file":
            where = f"/messages/-1/parts/{at}/url"
            head, _, data = part.url.partition(";base64,")
            if not head.startswith("data:"):
                raise invalid("a file is not in the message itself", where=where)
            try:
                yield Part.from_bytes(base64_bytes(data), part.media_type or head[5:])
            except ValueError:
                raise invalid("the data is not base64", where=where) from None


def _read_approvals(message: UiMessage, session: Session | None) -> dict[str, object]:
    waiting = session.waiting if session is not None else {}
    answers: dict[str, object] = {}
    for part in message.parts:
        approval = part.approval
        if approval is None or approval.approved is None or part.tool_call_id not in waiting:
            continue
        answer = Approve() if approval.approved else Deny(approval.reason or "")
        answers[part.tool_call_id] = answer
    if not answers:
        raise invalid(
            "the last message is not the user's, and approves no call that waits",
            where="/messages",
            hint="send what the user says, or the answer to an approval request",
        )
    return answers


async def _stream(run: ServedRun, message: str) -> AsyncGenerator[bytes, None]:
    yield _encode({"type": "start", "messageId": message})
    begun: set[tuple[str, bool]] = set()
    async for piece in pieces_of_run(run.events(), run.final_session, run.id):
        for chunk in _write_piece(piece, begun):
            yield _encode(chunk)
    yield b"data: [DONE]\n\n"


def _encode(chunk: JsonObject) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(chunk)


def _write_piece(piece: RunPiece, begun: set[tuple[str, bool]]) -> Sequence[JsonObject]:
    match piece:
        case TextPiece():
            kind, key = _kind_of(piece), (piece.message, piece.is_thought)
            start: list[JsonObject] = []
            if key not in begun:
                begun.add(key)
                start = [{"type": f"{kind}-start", "id": piece.message}]
            return [*start, {"type": f"{kind}-delta", "id": piece.message, "delta": piece.delta}]
        case TextEnd():
            begun.discard((piece.message, piece.is_thought))
            return [{"type": f"{_kind_of(piece)}-end", "id": piece.message}]
        case CallPiece():
            call = piece.call
            return [
                {
                    "type": "tool-input-available",
                    "toolCallId": call.id,
                    "toolName": call.name,
                    "input": call.args or {},
                    "dynamic": True,
                }
            ]
        case ResultPiece():
            return [_write_result(piece)]
        case StatePiece():
            return [{"type": "data-state", "data": piece.delta}]
        case ArtifactPiece():
            data: JsonObject = {"name": piece.name, "version": piece.version}
            return [{"type": "data-artifact", "data": data}]
        case EndPiece():
            return [*_write_end(piece)]


def _kind_of(piece: TextPiece | TextEnd) -> str:
    return "reasoning" if piece.is_thought else "text"


def _write_result(piece: ResultPiece) -> JsonObject:
    result, response = piece.result, piece.result.response or {}
    if [*response] == ["error"]:
        text = str(response["error"])
        return {"type": "tool-output-error", "toolCallId": result.id, "errorText": text,
                "dynamic": True}  # fmt: skip
    return {"type": "tool-output-available", "toolCallId": result.id,
            "output": unwrap_result(response), "dynamic": True}  # fmt: skip


def _write_end(piece: EndPiece) -> Iterator[JsonObject]:
    for one in piece.questions:
        if one.kind == "confirm":
            yield {"type": "tool-approval-request", "approvalId": one.call_id,
                   "toolCallId": one.call_id}  # fmt: skip
        else:
            data: JsonObject = {"id": one.call_id, "kind": one.kind, "question": one.question}
            yield {"type": "data-question", "data": data}
    if piece.outcome == "cancelled":
        yield {"type": "abort"}
    elif piece.outcome == "failed":
        yield {"type": "error", "errorText": piece.words}
    else:
        yield {"type": "finish"}


ENDPOINTS = (
    Endpoint(
        "POST", "/ai/{app}", run_chat, "Answer a chat of Vercel's AI SDK, as a stream.", tag="ai"
    ),
)
