"""The vendors' own clients as carriers: their credentials and addresses, our request."""

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

import weft
from tests.models.answers import events, whole
from tests.models.server import Server, Turn, page, says, streams
from tests.support.late import late
from weft import Agent, RunConfig
from weft.errors import DeclarationError
from weft.models import Anthropic, Gemini, OpenAI, Retry
from weft.models.remote import Remote

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai
else:
    anthropic, openai = late("anthropic"), late("openai")
    genai = late("google.genai")

ONCE = Retry(attempts=1)
KEY = "their-key"


Made = Callable[[str, Server], Remote]


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    """Makes models that are carried by a kind of client, and closes the clients at the end."""
    async with AsyncExitStack() as stack:

        def make(kind: str, server: Server) -> Remote:
            client = CLIENTS[kind](server.url)
            if isinstance(client, openai.OpenAI | anthropic.Anthropic):
                stack.callback(client.close)
            elif isinstance(client, genai.Client):
                stack.callback(client.close)
                stack.push_async_callback(client.aio.aclose)
            else:
                stack.push_async_callback(client.close)
            if kind.startswith("google"):
                return Gemini("x", client=client, retries=ONCE)
            if kind.startswith("anthropic"):
                return Anthropic("x", client=client, retries=ONCE)
            api = "chat" if kind == "azure" else None
            return OpenAI("x", client=client, api=api, retries=ONCE)  # type: ignore[arg-type]

        yield make


CLIENTS: dict[str, Callable[[str], Any]] = {
    "google": lambda url: genai.Client(api_key=KEY, http_options={"base_url": url}),
    "anthropic": lambda url: anthropic.AsyncAnthropic(api_key=KEY, base_url=url),
    "anthropic, waiting": lambda url: anthropic.Anthropic(api_key=KEY, base_url=url),
    "openai": lambda url: openai.AsyncOpenAI(api_key=KEY, base_url=url),
    "openai, waiting": lambda url: openai.OpenAI(api_key=KEY, base_url=url),
    "azure": lambda url: openai.AsyncAzureOpenAI(
        api_key=KEY, azure_endpoint=url, api_version="2026-01-01"
    ),
}
PLAIN = ["google", "anthropic", "anthropic, waiting", "openai", "openai, waiting"]
ALL = [*PLAIN, "azure"]


@pytest.mark.parametrize("kind", PLAIN)
async def test_a_client_sends_our_bytes_with_its_key(kind: str, made: Made) -> None:
    with Server() as server:
        model = made(kind, server)
        server.script = (says(whole(model.dialect)),)
        agent = Agent("bot", model=model, instruction="Grüße")
        wire = weft.compile(agent, message="hi").wire
        assert (await weft.run(agent, "hi")).text == "Hello there"
        (sent,) = server.received
    assert sent.body == json.dumps(wire, ensure_ascii=False, separators=(",", ":")).encode()
    assert "their-key" in str(sent.headers)


@pytest.mark.parametrize("kind", ALL)
async def test_a_client_streams(kind: str, made: Made) -> None:
    with Server() as server:
        model = made(kind, server)
        server.script = (streams(events(model.dialect)),)
        shown = [event async for event in weft.stream(Agent("bot", model=model), "hi")]
    assert [event.content.text for event in shown if event.partial] == ["Hello", " there"]  # type: ignore[union-attr]
    assert shown[-1].content.text == "Hello there"  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (says({"error": {"message": "no"}}, 401), "auth"),
        (says({"error": {"message": "wait"}}, 429), "rate_limited"),
        (says({"error": {"message": "down"}}, 503), "overloaded"),
        (page(), "bad_response"),
        (Turn(reset=True), "connection"),
    ],
    ids=["401", "429", "503", "html", "reset"],
)
async def test_a_clients_errors_are_ours_and_it_asks_once(
    kind: str, turn: Turn, code: str, made: Made
) -> None:
    with Server(turn) as server:
        model = made(kind, server)
        result = await weft.run(Agent("bot", model=model), "hi")
        assert result.events[-1].error_code == code
        assert "their-key" not in (result.events[-1].error_message or "")
        assert len(server.received) == 1
        server.script = (says(whole(model.dialect)),)
        again = await weft.run(Agent("bot", model=model), "again", session=result.session)
        assert again.text == "Hello there"


@pytest.mark.parametrize("kind", ALL)
async def test_cancelling_hangs_up_through_a_client(kind: str, made: Made) -> None:
    with Server() as server:
        model = made(kind, server)
        server.script = (streams(events(model.dialect)[:3], hold=True),)

        async def ask() -> None:
            async for event in weft.stream(Agent("bot", model=model), "hi"):
                if event.partial:
                    shown.set()

        shown = asyncio.Event()
        task = asyncio.create_task(ask())
        await asyncio.wait_for(shown.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.wait_for_hang_up)


async def test_azure_puts_the_deployment_in_the_address(made: Made) -> None:
    with Server(says(whole("openai-chat"))) as server:
        agent = Agent("bot", model=made("azure", server))
        wire = weft.compile(agent, message="hi").wire
        assert (await weft.run(agent, "hi")).text == "Hello there"
        (sent,) = server.received
    assert sent.path == "/openai/deployments/x/chat/completions?api-version=2026-01-01"
    assert sent.headers["api-key"] == "their-key"
    assert sent.json == wire


async def test_vertex_through_anthropics_client() -> None:
    with Server(says(whole("anthropic"))) as server:
        client = anthropic.AsyncAnthropicVertex(
            base_url=server.url, project_id="p", region="r", access_token="t0"
        )
        model = Anthropic("claude-sonnet-5", client=client)
        assert (await weft.run(Agent("bot", model=model), "hi")).text == "Hello there"
        (sent,) = server.received
        await client.close()
    end = "/projects/p/locations/r/publishers/anthropic/models/claude-sonnet-5:rawPredict"
    assert sent.path == end
    assert sent.headers["authorization"] == "Bearer t0"


async def test_googles_client_can_be_its_async_half_and_streams_by_address() -> None:
    with Server(streams(events("gemini"))) as server:
        client = genai.Client(api_key=KEY, http_options={"base_url": server.url}).aio
        model = Gemini("gemini-3-pro", client=client)
        result = await weft.run(Agent("bot", model=model), "hi", config=RunConfig(stream=True))
        assert result.text == "Hello there"
        path = server.received[0].path
        await client.aclose()
    assert path.endswith("/models/gemini-3-pro:streamGenerateContent?alt=sse")


async def test_a_clients_retries_are_ours() -> None:
    down = says({"error": {"message": "down"}}, 503, retry_after_ms="1")
    with Server(down, down, says(whole("anthropic"))) as server:
        client = anthropic.AsyncAnthropic(api_key="k", base_url=server.url)
        result = await weft.run(Agent("bot", model=Anthropic("x", client=client)), "hi")
        assert result.text == "Hello there"
        assert len(server.received) == 3
        await client.close()
    weft_note = (result.events[-1].custom_metadata or {})["weft"]
    assert len(weft_note["attempts"]) == 3


def test_a_client_of_another_vendor_is_refused() -> None:
    client = openai.AsyncOpenAI(api_key="k")
    with pytest.raises(DeclarationError, match="cannot carry") as caught:
        Anthropic("x", client=client)
    assert "anthropic.AsyncAnthropic()" in caught.value.hint


def framed(event: dict[str, object]) -> bytes:
    """An event in the framing of Amazon's streams."""
    named = {":message-type": "event", ":event-type": "chunk", ":content-type": "application/json"}
    head = b"".join(
        struct.pack(">B", len(name)) + name.encode() + b"\x07"
        + struct.pack(">H", len(text)) + text.encode()
        for name, text in named.items()
    )  # fmt: skip
    body = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return message + struct.pack(">I", zlib.crc32(message))


async def test_bedrock_through_anthropics_client() -> None:
    pytest.importorskip("botocore", reason="Bedrock's streams need botocore")
    told = b"".join(events("anthropic")).decode().split("\n\n")[:-1]
    pieces = [framed(json.loads(event.partition("data: ")[2])) for event in told]
    unread = streams(pieces)._replace(
        headers={"content-type": "application/vnd.amazon.eventstream"}
    )
    with Server(says(whole("anthropic")), unread) as server:
        client = anthropic.AsyncAnthropicBedrock(
            base_url=server.url, aws_access_key="a", aws_secret_key="s", aws_region="us-east-1"
        )
        agent = Agent("bot", model=Anthropic("anthropic.claude-x-v1:0", client=client))
        assert (await weft.run(agent, "hi")).text == "Hello there"
        shown = [event async for event in weft.stream(agent, "hi")]
        await client.close()
    assert [event.content.text for event in shown if event.partial] == ["Hello", " there"]  # type: ignore[union-attr]
    assert [received.path for received in server.received] == [
        "/model/anthropic.claude-x-v1:0/invoke",
        "/model/anthropic.claude-x-v1:0/invoke-with-response-stream",
    ]
    assert server.received[0].headers["authorization"].startswith("AWS4-HMAC-SHA256")


@pytest.mark.parametrize(
    ("address", "dialect"),
    [("https://api.openai.com/v1", "openai-responses"), ("http://host/v1", "openai-chat")],
)
async def test_a_client_for_a_server_that_only_speaks_the_format_speaks_chat(
    address: str, dialect: str
) -> None:
    async with openai.AsyncOpenAI(api_key=KEY, base_url=address) as client:
        assert OpenAI("gpt-5", client=client).dialect == dialect
