"""The A2A server, asked by the client of the official SDK; both versions of the protocol."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.client.card_resolver import A2ACardResolver
from a2a.helpers import new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError

from tests.server.live import Live, serving
from tests.server.test_restart import PROGRAM, start
from tests.support.forked import ForkedProgram
from weft import Agent, Runner, ToolContext, tool
from weft.server import Tokens, app
from weft.testing import ScriptedModel, call, chunks

DONE = TaskState.TASK_STATE_COMPLETED
WAITS = TaskState.TASK_STATE_INPUT_REQUIRED


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def note(text: str, ctx: ToolContext) -> str:
    """Note."""
    await ctx.save_artifact("note.txt", text)
    return "noted"


@asynccontextmanager
async def connected(
    live: Live | str, version: str = "1.0", token: str = ""
) -> AsyncIterator[Client]:
    url, own = (live, "") if isinstance(live, str) else (live.url, live.token)
    headers = {"authorization": f"Bearer {token or own}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        kept = [one for one in card.supported_interfaces if one.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(kept)
        async with await create_client(card, ClientConfig(httpx_client=http)) as client:
            yield client


def message(text: str, **more: Any) -> SendMessageRequest:
    said = new_text_message(text, role=Role.ROLE_USER)
    for name, value in more.items():
        setattr(said, name, value)
    return SendMessageRequest(message=said)


async def ask(client: Client, request: SendMessageRequest) -> tuple[str, list[Any]]:
    """The id of the task, and the updates after it."""
    updates = [one async for one in client.send_message(request)]
    first = updates[0].task
    return first.id, updates[1:]


def texts(task: Task) -> list[str]:
    return ["".join(part.text for part in one.parts) for one in task.artifacts]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_task_streams_waits_for_a_yes_and_ends(version: str, tmp_path: Path) -> None:
    answers = [call("note", text="rain"), call("pay", amount=3), chunks("It ", "is paid.")]
    model = ScriptedModel(answers)
    bot = Agent("bot", description="Pays.", model=model, tools=[pay, note])
    application = app(bot, store=f"sqlite:///{tmp_path}/w.db", a2a=True)
    with serving(application) as live:
        async with connected(live, version) as client:
            id, updates = await ask(client, message("Pay 3."))
            words = [
                one.status_update.status.message.parts[0].text
                for one in updates
                if one.HasField("status_update") and one.status_update.status.message.parts
            ]
            assert words[:2] == ["calls note", "note returned"]
            (saved,) = [one.artifact_update for one in updates if one.HasField("artifact_update")]
            assert [saved.artifact.name, saved.artifact.parts[0].text] == ["note.txt", "rain"]
            last = updates[-1].status_update.status
            assert last.state == WAITS
            assert 'Reply "approve", or "deny: why not".' in last.message.parts[0].text
            asked = last.message.parts[1].data.struct_value["questions"][0]
            assert [asked["name"], asked["kind"], asked["args"]["amount"]] == ["pay", "confirm", 3]
            waiting = await client.get_task(GetTaskRequest(id=id))
            assert waiting.status.state == WAITS
            # what is not an answer is refused, and nothing is lost
            with pytest.raises(A2AError, match="this is not an answer"):
                await ask(client, message("hm, maybe", task_id=id))
            with pytest.raises(A2AError, match="belongs to the context"):
                await ask(client, message("approve", task_id=id, context_id="other"))
            again, updates = await ask(client, message("approve", task_id=id))
            assert again == id
            pieces = [one.artifact_update for one in updates if one.HasField("artifact_update")]
            assert [one.artifact.parts[0].text for one in pieces[:2]] == ["It ", "is paid."]
            assert [one.append for one in pieces] == [False, True, True]
            assert pieces[-1].last_chunk
            assert updates[-1].status_update.status.state == DONE
            task = await client.get_task(GetTaskRequest(id=id, history_length=9))
            assert (task.status.state, texts(task)) == (DONE, ["rain", "It is paid."])
            assert task.history[0].parts[0].text == "Pay 3."
            with pytest.raises(A2AError):
                await client.cancel_task(CancelTaskRequest(id=id))
            with pytest.raises(A2AError):
                await client.get_task(GetTaskRequest(id="task_none"))
    assert "paid 3" in str(model.prompts[-1])


async def test_a_message_that_comes_twice_is_answered_once_and_a_data_part_answers() -> None:
    model = ScriptedModel(["One.", call("pay", amount=1), "Denied.", "Two."])
    with serving(app(Agent("bot", model=model, tools=[pay]), a2a=True)) as live:
        async with connected(live) as client:
            first = message("Hi.")
            id, _ = await ask(client, first)
            same, updates = await ask(client, first)
            assert (same, updates[-1].status_update.status.state) == (id, DONE)
            assert len(model.prompts) == 1
            task = await client.get_task(GetTaskRequest(id=id))
            other, _ = await ask(client, message("Pay.", context_id=task.context_id))
            no = Message(message_id="no", role=Role.ROLE_USER, task_id=other)
            no.parts.add().data.bool_value = False
            _, updates = await ask(client, SendMessageRequest(message=no))
            assert updates[-1].status_update.status.state == DONE
            listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id))
            assert [one.id for one in listed.tasks] == [other, id]
            page = await client.list_tasks(ListTasksRequest(page_size=1))
            assert (len(page.tasks), page.total_size, page.next_page_token) == (1, 2, "1")
            one = ListTasksRequest(status=WAITS)
            assert not (await client.list_tasks(one)).tasks
            image = Part(raw=b"\x89PNG\r\n\x1a\n", media_type="image/png")
            said = Message(message_id="picture", role=Role.ROLE_USER, parts=[image])
            await ask(client, SendMessageRequest(message=said))
            assert "image/png" in str(model.wires[-1])
            said = Message(message_id="x" * 201, role=Role.ROLE_USER, parts=[image])
            with pytest.raises(A2AError):
                await ask(client, SendMessageRequest(message=said))


async def test_users_have_their_own_tasks_which_are_followed_and_cancelled() -> None:
    begun, stopped = threading.Event(), threading.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()
        return "never"

    def brain(prompt: object) -> object:
        return call("wait") if "Wait" in str(prompt) else call("pay", amount=1)

    bot = Agent("bot", model=ScriptedModel([brain] * 9), tools=[wait, pay])
    tokens = {"ann": "a-long-secret-of-ann", "bob": "a-long-secret-of-bob"}
    with serving(app(Runner(bot), auth=Tokens(tokens), a2a=True)) as live:
        async with httpx.AsyncClient() as stranger:
            assert (await stranger.post(f"{live.url}/a2a/bot", json={})).status_code == 401
        async with connected(live, token=tokens["ann"]) as ann:
            request = message("Wait.")
            request.configuration.return_immediately = True
            ann._config.streaming = False  # type: ignore[attr-defined]
            (sent,) = [one async for one in ann.send_message(request)]
            assert sent.task.status.state == TaskState.TASK_STATE_WORKING
            id = sent.task.id
            assert await asyncio.to_thread(begun.wait, 60)
            async with connected(live, token=tokens["bob"]) as bob:
                with pytest.raises(TaskNotFoundError):
                    await bob.get_task(GetTaskRequest(id=id))
                assert not (await bob.list_tasks(ListTasksRequest())).tasks
            ann._config.streaming = True  # type: ignore[attr-defined]
            followed = ann.subscribe(SubscribeToTaskRequest(id=id))
            assert (await anext(followed)).task.id == id
            told = await anext(followed)
            assert told.status_update.status.message.parts[0].text == "calls wait"
            task = await ann.cancel_task(CancelTaskRequest(id=id))
            assert task.status.state == TaskState.TASK_STATE_CANCELED
            assert stopped.is_set()
            rest = [one async for one in followed]
            assert rest[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED
            with pytest.raises(TaskNotCancelableError):
                await ann.cancel_task(CancelTaskRequest(id=id))


async def test_a_task_that_runs_while_the_server_is_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    said = message("Go.", context_id="s")
    server, url, token = start_server(tmp_path)
    async with connected(url, token=token) as client:
        with suppress(A2AError):
            async for update in client.send_message(said):
                if "note returned" in str(update):
                    server.close()
    server, url, token = start_server(tmp_path)
    try:
        async with connected(url, token=token) as client:
            # the client that was cut off sends its message once more, and joins the same task
            id, updates = await ask(client, said)
            assert updates[-1].status_update.status.state == DONE
            task = await client.get_task(GetTaskRequest(id=id))
            assert texts(task)[-1] == "All noted."
            assert len((await client.list_tasks(ListTasksRequest())).tasks) == 1
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
        server.close()
    noted = (tmp_path / "journal").read_text().split()
    assert sorted(set(noted)) == ["0", "1", "2", "3", "4"]
    # a call that was killed while it ran may be made again: its effect is idempotent
    assert len(noted) <= 6


def start_server(folder: Path) -> tuple[ForkedProgram, str, str]:
    server, client = start(folder, "--a2a")
    token = client.headers["authorization"].removeprefix("Bearer ")
    client.close()
    return server, str(client.base_url).rstrip("/"), token
