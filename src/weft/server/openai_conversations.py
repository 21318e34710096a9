"""Conversations of OpenAI's clients: sessions under a name, and what is said in them as items.

The items are read from the log. A response has its input and its output, with the ids that it had
when it was made. What is posted without a response becomes events that nobody is asked to answer.
A log forgets no single message, so an item can only be deleted while it is the last one: that is a
rewind, by which no later request has it.

Top to bottom: conversations, their items, what is posted and deleted, the endpoints.
"""

import time
from collections.abc import Sequence
from functools import partial

from weft.errors import SessionBusy
from weft.runtime import Runner
from weft.runtime.earlier import is_unfinished
from weft.server.endpoints import Answer, Body, Call, Endpoint, respond
from weft.server.openai import show_response
from weft.server.openai_requests import posted_items
from weft.server.openai_sessions import as_events
from weft.server.openai_stored import (
    PAGE_QUERIES,
    ItemGroup,
    Items,
    RequestNote,
    as_posts,
    find_conversation,
    groups_of,
    input_of,
    list_of,
    merged_groups,
    page_of,
    runners_of,
    show_conversation,
    write_note,
)
from weft.server.problems import Problem, invalid
from weft.session import Event, Session, SessionKey
from weft.session.event import new_id
from weft.session.store import key_of, lease_session
from weft.stores import create_filled
from weft.values import Json, JsonObject


class NewConversation(Body, frozen=True):
    """A conversation that is to be made."""

    metadata: JsonObject | None = None
    items: list[Json] | None = None


class ConversationUpdate(Body, frozen=True):
    """What a conversation is to have instead."""

    metadata: JsonObject | None


class NewItems(Body, frozen=True):
    """Items that are added to a conversation without a response."""

    items: list[Json]


async def create_conversation(call: Call) -> Answer:
    """A session under a name; responses of any app go on in it."""
    body = await call.body(NewConversation, empty=NewConversation())
    runner = runners_of(call)[0]  # which app it is for is only said by its first response
    id, created = f"conv_{new_id()}", int(time.time())
    events = [RequestNote(created_at=created, metadata=body.metadata or {}).event()]
    if body.items:
        events += as_posts(runner, as_events(posted_items(body.items), runner))
    key = SessionKey(runner.app_name, call.user(), id)
    return respond(show_conversation(id, [await create_filled(runner.store, key, events)]))


async def get_conversation(call: Call) -> Answer:
    """A conversation."""
    known = await find_conversation(call, call.path("conversation"))
    sessions = [session for _, session in known]
    return respond(show_conversation(call.path("conversation"), sessions))


async def update_conversation(call: Call) -> Answer:
    """Give a conversation other metadata."""
    body = await call.body(ConversationUpdate)
    runner, session = (await find_conversation(call, call.path("conversation")))[0]
    key = key_of(session)
    await write_note(runner, key, RequestNote(renews=True, metadata=body.metadata or {}))
    return await get_conversation(call)


async def delete_conversation(call: Call) -> Answer:
    """Forget a conversation: its session, and all responses in it."""
    id = call.path("conversation")
    for runner, session in await find_conversation(call, id):
        await runner.delete(user_id=session.user_id, session_id=id)
    return respond({"id": id, "object": "conversation.deleted", "deleted": True})


async def list_items(call: Call) -> Answer:
    """What is said in a conversation, in pages."""
    known = await find_conversation(call, call.path("conversation"))
    return respond(await page_of(call, [_items_of(one) for one in merged_groups(known)]))


async def get_item(call: Call) -> Answer:
    """One item of a conversation."""
    known = await find_conversation(call, call.path("conversation"))
    return respond(await _find_item(call, merged_groups(known)))


async def _find_item(call: Call, groups: Sequence[ItemGroup]) -> JsonObject:
    id = call.path("item")
    for one in reversed(groups):
        for item in await _items_of(one)():
            if item["id"] == id:
                return item
    raise Problem(404, "unknown-item", f"there is no item `{id[:100]}` in this conversation")


def _items_of(group: ItemGroup) -> Items:
    """The items of a response with its input, or of what was posted."""

    async def items() -> list[JsonObject]:
        response = group.response
        if response is None:
            return group.list_items()
        output = (await show_response(response))["output"]
        assert isinstance(output, list)
        return [*input_of(response), *(one for one in output if isinstance(one, dict))]

    return items


async def create_items(call: Call) -> Answer:
    """Add items to a conversation: the next response is asked with them."""
    body = await call.body(NewItems)
    messages = posted_items(body.items)
    known = await find_conversation(call, call.path("conversation"))
    events = as_events(messages, known[0][0])
    for runner, session in known:  # whichever app is asked next has them
        await _post(runner, session, events)
    items = [item for one in events for item in ItemGroup(one, None).list_items()]
    return respond(list_of(items))


async def _post(runner: Runner, session: Session, events: Sequence[Event]) -> None:
    """Append what a client posts to the session."""
    key = key_of(session)
    async with lease_session(runner.store, key, busy="reject"):
        newest = await runner.session(user_id=key.user_id, session_id=key.id)
        if is_unfinished(runner.root, newest):
            raise Problem(
                409,
                "unfinished",
                "a run of the conversation was cut off, and goes on first",
                hint=f"POST /api/apps/{key.app_name}/sessions/{key.id}/runs without a message goes"
                " on with it",
            )
        known = {one.id for event in newest.events for one in event.calls}
        for one in (one for event in events for one in event.calls):
            if one.id in known:
                raise invalid(
                    f"the conversation has a call `{(one.id or '')[:100]}` already",
                    where="items",
                    hint="give each call a `call_id` of its own",
                )
        await runner.store.append(newest, *as_posts(runner, events))


async def delete_item(call: Call) -> Answer:
    """Take the last item back; one that others follow stays, for they were said after it."""
    known = await find_conversation(call, call.path("conversation"))
    item = await _find_item(call, merged_groups(known))
    rewinds: list[tuple[Runner, Session, str]] = []
    for runner, session in known:
        key = key_of(session)
        if await call.served.is_running(runner, key):
            raise SessionBusy("another run has the session", where=str(key))
        groups = groups_of(runner, session)
        run = groups[-1].event.invocation_id if groups else ""
        last = [one for group in groups if group.event.invocation_id == run
                for one in await _items_of(group)()]  # fmt: skip
        if item not in last and not await _has_item(groups, item):
            continue
        if item not in last or len(last) > 1 or item["type"] != "message":
            app, id = session.app_name, session.id
            raise Problem(
                409,
                "not-last",
                "a log forgets no single item, unless nothing was said with it or after it",
                hint=f"POST /api/apps/{app}/sessions/{id}/rewind takes back all from a run on;"
                " DELETE /v1/conversations/... forgets the conversation",
            )
        rewinds.append((runner, session, run))
    for runner, session, run in rewinds:
        await runner.rewind(user_id=session.user_id, session_id=session.id, invocation_id=run)
    return await get_conversation(call)


async def _has_item(groups: Sequence[ItemGroup], item: JsonObject) -> bool:
    for one in groups:
        if item in await _items_of(one)():
            return True
    return False


_ONE = "/v1/conversations/{conversation}"

_row = partial(Endpoint, tag="openai")

ENDPOINTS = (
    _row(
        "POST", "/v1/conversations", create_conversation, "A session under a name.",
        NewConversation,
    ),
    _row("GET", _ONE, get_conversation, "A conversation."),
    _row(
        "POST", _ONE, update_conversation, "Give a conversation other metadata.",
        ConversationUpdate,
    ),
    _row("DELETE", _ONE, delete_conversation, "Forget a conversation."),
    _row(
        "GET", f"{_ONE}/items", list_items, "What is said in a conversation, in pages.",
        queries=PAGE_QUERIES,
    ),
    _row("POST", f"{_ONE}/items", create_items, "Add items to a conversation.", NewItems),
    _row("GET", f"{_ONE}/items/{{item}}", get_item, "One item of a conversation."),
    _row(
        "DELETE", f"{_ONE}/items/{{item}}", delete_item,
        "Take the last item back; one that others follow is refused.",
    ),
)  # fmt: skip
