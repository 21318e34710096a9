"""Responses as they stand in the log: where one begins and ends, and what was asked with it.

The id of a response names a session, a run in it, and how many events came before. What the log
has no place for (metadata, tools of the client, which response came before) is a note: an event
without content right before the response. A request that has none of it writes no note.

Top to bottom: the id, the note, a response in its session, a conversation, the items of an input,
pages of them.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, cast

import msgspec

from weft.content import FunctionCall, FunctionResponse, Part
from weft.declare import Agent
from weft.inspector.words import parts_of
from weft.runtime import Runner
from weft.runtime.place import root_place
from weft.server.asking import call_arguments, find_session, read_place, write_place
from weft.server.endpoints import Call
from weft.server.problems import Problem, invalid, require_id
from weft.session import Actions, Event, Session, SessionKey
from weft.session.event import new_id
from weft.session.lookback import hidden_in
from weft.session.store import key_of, lease_session
from weft.stores import create_filled
from weft.values import Json, JsonObject, compact, unwrap_result

_KEY = "openai"
"""Where the metadata of an event has the note."""

LARGEST_LIST = 100
"""Items of one page."""


def response_id(session: str, run: str, after: int) -> str:
    """An id that says where the response stands: session, run, and how many events came before.

    A run that goes on with a result of the client's tool is the same run and another response.
    """
    return write_place("resp_", session, run, after)


def unknown_response(id: str) -> Problem:
    """The problem of a response that is not there, or is another user's."""
    return Problem(404, "unknown-response", f"there is no response `{id[:100]}`")


def unknown_conversation(id: str) -> Problem:
    """The problem of a conversation that is not there, or is another user's."""
    return Problem(
        404,
        "unknown-conversation",
        f"there is no conversation `{id[:100]}`",
        hint="POST /v1/conversations makes one",
    )


def is_minted(id: str) -> bool:
    """Whether the id of a session is one that was made for a conversation."""
    return re.fullmatch(r"conv_[0-9a-f]{32}", id) is not None


# --- notes


class RequestNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a log has no place for: of a response, of a conversation, or of a deletion."""

    previous: str | None = None
    conversation: str | None = None
    instructions: str | None = None
    metadata: JsonObject = {}
    tools: list[Json] = []
    format: JsonObject = {}
    """The form that the answer was asked for in; empty for plain text."""
    history: int = 0
    """How many events right before the note the client brought along."""
    lengths: list[int] = []
    """How many parts each of several messages has; the log has them as one."""
    reply: list[Part] | None = None
    """What the client said, where it was read as the answer to a question."""
    created_at: int | None = None
    """When the conversation was made."""
    deleted: tuple[str, int] | None = None
    """The run and the first event of a response that is deleted."""
    renews: bool = False
    """Whether the metadata takes the place of what the conversation had."""
    posted: int = 0
    """How many events right before the note were added to the conversation without a response."""

    @property
    def is_of_request(self) -> bool:
        """Whether it was written for the response that comes after it."""
        return not (self.created_at is not None or self.deleted or self.renews or self.posted)

    def event(self) -> Event:
        """The note as an event, of an invocation that is not a run."""
        written: JsonObject = msgspec.to_builtins(self)
        return Event(author="user", invocation_id=new_id(), custom_metadata={_KEY: written})


_NOTHING = RequestNote()


def _note_in(event: Event) -> RequestNote | None:
    """The note that an event is; None for any other event."""
    if event.content is not None or not event.custom_metadata or _KEY not in event.custom_metadata:
        return None
    try:
        return msgspec.convert(event.custom_metadata[_KEY], RequestNote)
    except msgspec.ValidationError:
        return None  # somebody else's key of this name


def request_note(session: Session, after: int) -> RequestNote | None:
    """What was noted for the response that comes after the first `after` events."""
    note = _note_in(session.events[after - 1]) if 0 < after <= len(session.events) else None
    return note if note is not None and note.is_of_request else None


def ends_in_note(session: Session) -> bool:
    """Whether a response was noted that never began: the next one must not be taken for it."""
    return request_note(session, len(session.events)) is not None


async def write_note(runner: Runner, key: SessionKey, note: RequestNote) -> bool:
    """Put a note into a session, which is made if there is none; and whether it was made.

    A session with a run under way is refused: the run alone writes to it.
    """
    require_id(key.id)
    async with lease_session(runner.store, key, busy="reject"):
        session = await runner.store.get(key)
        if session is None:
            await create_filled(runner.store, key, [note.event()])
        else:
            await runner.store.append(session, note.event())
    return session is None


# --- a response in its session


class StoredResponse(NamedTuple):
    """The events of a session that are one response: from what was said to how it ended."""

    id: str
    runner: Runner
    session: Session
    run: str
    begin: int
    end: int
    note: RequestNote
    goes_on: bool
    """Whether its run had a response before, and goes on with what the user brought."""

    @property
    def key(self) -> SessionKey:
        """The session that it stands in."""
        return key_of(self.session)

    @property
    def events(self) -> list[Event]:
        """Its own events."""
        log = self.session.events  # one by one: a slice copies the log
        between = (log[at] for at in range(self.begin, self.end))
        return [event for event in between if event.invocation_id == self.run]

    @property
    def may_wait(self) -> bool:
        """Whether a call of it may have waited for somebody when it ended."""
        events = self.events
        answered = {one.id for event in events for one in event.results}
        return any(
            event.long_running_tool_ids
            or event.provenance.pending
            or any(one.id not in answered for one in event.calls)
            for event in events
        )

    @property
    def is_last(self) -> bool:
        """Whether nothing but notes came after it."""
        log = self.session.events
        return all(_note_in(log[at]) is not None for at in range(self.end, len(log)))


async def find_response(call: Call, id: str, runners: Iterable[Runner]) -> StoredResponse:
    """A response of the user's in one of the apps, or a problem that says nothing of others'."""
    place = read_place("resp_", id)
    if place is None:
        raise unknown_response(id)
    name, run, after = place
    for runner in runners:
        session = await find_session(runner, call.user(), name)
        bounds = _bounds(session, run, after) if session is not None else None
        if session is None or bounds is None:
            continue
        # the events stay in the log, where later responses build on them
        if any(_is_deletion(event, run, bounds[0]) for event in session.events[bounds[1] :]):
            break
        note = request_note(session, after) or _NOTHING
        goes_on = any(event.invocation_id == run for event in session.events[: bounds[0]])
        return StoredResponse(id, runner, session, run, *bounds, note, goes_on)
    raise unknown_response(id)


def _bounds(session: Session, run: str, after: int) -> tuple[int, int] | None:
    """Where a response begins and ends: it ends where its run goes on with what the user brings."""
    begin = end = 0
    has_spoken = False
    for at, event in enumerate(session.events[after:], after):
        if event.invocation_id != run:
            continue
        if not end:
            # a response begins with what was said to it: another place is not an id of ours
            if event.author != "user":
                return None
            begin = at
        elif has_spoken and event.author == "user" and event.results:
            break
        has_spoken = has_spoken or event.author != "user"
        end = at + 1
    return (begin, end) if end else None


def _is_deletion(event: Event, run: str, begin: int) -> bool:
    note = _note_in(event)
    return note is not None and note.deleted == (run, begin)


async def find_conversation(call: Call, id: str) -> list[tuple[Runner, Session]]:
    """The sessions of a conversation, one in each app that had a part in it; or a problem."""
    sessions = [(one, await find_session(one, call.user(), id)) for one in runners_of(call)]
    known = [(runner, session) for runner, session in sessions if session is not None]
    if not known:
        raise unknown_conversation(id)
    return known


def runners_of(call: Call) -> list[Runner]:
    """All apps that are served."""
    return [*call.served.runners.values()]


def show_conversation(id: str, sessions: Iterable[Session]) -> JsonObject:
    """A conversation as OpenAI's clients read it."""
    created: list[float] = []
    metadata: JsonObject = {}
    written = 0.0
    for session in sessions:
        first = session.events[0] if len(session.events) else None
        note = (_note_in(first) if first is not None else None) or _NOTHING
        begun = first.timestamp if first is not None else session.last_update_time
        created.append(begun if note.created_at is None else note.created_at)
        for event in session.events:
            own = _note_in(event)
            if own is None or not (own.renews or own.created_at is not None):
                continue
            if event.timestamp >= written:
                metadata, written = own.metadata, event.timestamp
    return {
        "id": id,
        "object": "conversation",
        "created_at": int(min(created)),
        "metadata": metadata,
    }


class ItemGroup(NamedTuple):
    """What is said in a conversation at one time: a response with its input, or what was posted."""

    event: Event
    """The first event of it."""
    response: StoredResponse | None
    instructions: str | None = None
    """What the client's history begins with, and is not an item of it."""

    def list_items(self) -> list[JsonObject]:
        """The items of a message that the client brought along."""
        return _without_instructions(_items_in(self.event), self.instructions)


def groups_of(runner: Runner, session: Session) -> list[ItemGroup]:
    """All that is said in a session and that no rewind took back, in its order."""
    events, hidden = session.events, hidden_in(session.events)
    brought: dict[int, str | None] = {}
    for at, event in enumerate(events):
        note = _note_in(event)
        count = min(at, note.posted or note.history) if note is not None else 0
        for place in range(at - count, at):
            is_first = note is not None and place == at - count
            brought[place] = note.instructions if note is not None and is_first else None
    groups: list[ItemGroup] = []
    latest: dict[str, int] = {}
    """By run: which group its last response is."""
    silent: set[str] = set()
    """Runs in which nobody but the user has spoken since the last response began."""
    for at, event in enumerate(events):
        if at in hidden:
            continue
        if at in brought:
            groups.append(ItemGroup(event, None, brought[at]))
            continue
        run, is_user = event.invocation_id, event.author == "user"
        goes_on = run in latest and not (is_user and event.results and run not in silent)
        if goes_on:
            group = groups[latest[run]]
            assert group.response is not None
            groups[latest[run]] = group._replace(response=group.response._replace(end=at + 1))
            silent -= set() if is_user else {run}
        elif is_user and event.content is not None:
            note = msgspec.structs.replace(request_note(session, at) or _NOTHING, history=0)
            id = response_id(session.id, run, at)
            response = StoredResponse(
                id, runner, session, run, at, at + 1, note, goes_on=run in latest
            )
            latest[run] = len(groups)
            silent.add(run)
            groups.append(ItemGroup(event, response))
    return groups


def merged_groups(known: Iterable[tuple[Runner, Session]]) -> list[ItemGroup]:
    """All that is said in a conversation. What was posted is in the session of each app: once."""
    by_session = [groups_of(runner, session) for runner, session in known]
    if len(by_session) == 1:
        return by_session[0]
    every = [one for groups in by_session for one in groups]
    every.sort(key=lambda group: group.event.timestamp)
    seen: set[str] = set()
    merged: list[ItemGroup] = []
    for one in every:
        if one.response is not None or one.event.id not in seen:
            merged.append(one)
        seen.add(one.event.id)
    return merged


def speaker_of(runner: Runner) -> str:
    """The author of what a client says an app has said."""
    return runner.root.name if isinstance(runner.root, Agent) else "assistant"


def as_posts(runner: Runner, events: Sequence[Event]) -> list[Event]:
    """Events that a client posts, as they go into the session of an app, and what ends them.

    Nobody asked for an answer: the last event says that nothing of it is to be gone on with.
    """
    speaker, path = speaker_of(runner), root_place(runner.root).path
    own = [
        event if event.author == "user" else msgspec.structs.replace(event, author=speaker)
        for event in events
    ]
    end = msgspec.structs.replace(
        RequestNote(posted=len(own)).event(),
        author=runner.root.name,
        invocation_id=own[-1].invocation_id,
        actions=Actions(end_of_agent=True),
        node_info={"path": path} if path else None,
    )
    return [*own, end]


def posts_for(runner: Runner, known: Iterable[tuple[Runner, Session]]) -> list[Event]:
    """What was posted to a conversation, for the session of an app that has no part in it yet."""
    posts = [one.event for one in merged_groups(known) if one.response is None]
    return as_posts(runner, posts) if posts else []


# --- the items of its input


def input_of(response: StoredResponse) -> list[JsonObject]:
    """What a response was asked with: its own messages, and a history that came with them."""
    note, events = response.note, response.session.events
    before = response.begin - 1
    items: list[JsonObject] = []
    # the note stands right before the response, and the history before the note
    for event in events[max(0, before - note.history) : before] if note.history else ():
        items += _items_in(event)
    own = [event for event in response.events if event.author == "user"]
    if note.reply is not None:
        items += _items(note.reply, own[0], "user")
    else:
        for event in own:
            items += _split_items(parts_of(event), event, note.lengths)
    return _without_instructions(items, note.instructions)


def _split_items(parts: Sequence[Part], event: Event, lengths: list[int]) -> list[JsonObject]:
    """The items of several messages that the log has as one."""
    if sum(lengths) != len(parts):
        return _items(parts, event, "user")
    items: list[JsonObject] = []
    start = 0
    for at, length in enumerate(lengths):
        items += _items(parts[start : start + length], event, "user", suffix=f"_{at}")
        start += length
    return items


def _items_in(event: Event) -> list[JsonObject]:
    return _items(parts_of(event), event, "user" if event.author == "user" else "assistant")


def _items(parts: Sequence[Part], event: Event, role: str, *, suffix: str = "") -> list[JsonObject]:
    """Parts as items: what is said is one message, each call and each result an item."""
    items: list[JsonObject] = []
    content = [piece for part in parts if (piece := _piece(part, role)) is not None]
    if content:
        items.append(
            {
                "id": f"msg_{event.id}{suffix}",
                "type": "message",
                "role": role,
                "status": "completed",
                "content": cast("list[Json]", content),
            }
        )
    for part in parts:
        if part.function_call is not None:
            items.append(call_item(part.function_call, "completed"))
        elif part.function_response is not None:
            items.append(_result_item(part.function_response))
    return items


def _piece(part: Part, role: str) -> JsonObject | None:
    if part.text:
        if role == "assistant":
            return {"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}
        return {"type": "input_text", "text": part.text}
    media, file = part.inline_data, part.file_data
    if media is not None:
        address = f"data:{media.mime_type};base64,{media.data}"
    elif file is not None and file.file_uri:
        address = file.file_uri
    else:
        return None
    return {"type": "input_image", "image_url": address, "detail": "auto"}


def call_item(call: FunctionCall, status: str) -> JsonObject:
    """A call of one of the client's tools."""
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call_arguments(call),
        "status": status,
    }


def _result_item(result: FunctionResponse) -> JsonObject:
    value = unwrap_result(result.response or {})
    return {
        "id": f"fco_{result.id}",
        "type": "function_call_output",
        "call_id": result.id,
        "output": value if isinstance(value, str) else compact(value),
        "status": "completed",
    }


def _without_instructions(items: list[JsonObject], text: str | None) -> list[JsonObject]:
    """The items without instructions: they are read as the user's, and are not part of an input."""
    content = [{"type": "input_text", "text": text}]
    return items[1:] if text is not None and items and items[0].get("content") == content else items


PAGE_QUERIES = ("limit", "after", "order")
"""What a page of a list is asked for with."""

Items = Callable[[], Awaitable[list[JsonObject]]]
"""Some items of a list, in its order; they are made when they are needed."""


async def page_of(call: Call, pieces: Sequence[Items]) -> JsonObject:
    """The page of a list that the request asks for: the last first, if it does not say."""
    order, after = call.query("order", "desc"), call.query("after")
    if order not in ("asc", "desc"):
        raise invalid(f"order={order[:40]!r} is not asc or desc", where="order")
    limit = call.number("limit", 20, most=LARGEST_LIST)
    if not limit:
        raise invalid(f"limit=0 is not a number from 1 to {LARGEST_LIST}")
    step = 1 if order == "asc" else -1
    page: list[JsonObject] = []
    is_after = not after
    for piece in pieces[::step]:
        for item in (await piece())[::step]:
            if is_after:
                page.append(item)
            is_after = is_after or item["id"] == after
        if len(page) > limit:
            break
    if not is_after:
        raise invalid(
            f"there is no item `{after[:100]}` in this list",
            where="after",
            hint="pass the last_id of the page before",
        )
    return list_of(page[:limit], has_more=len(page) > limit)


def list_of(items: list[JsonObject], *, has_more: bool = False) -> JsonObject:
    """Items as OpenAI's clients read a list of them."""
    return {
        "object": "list",
        "data": cast("list[Json]", items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
