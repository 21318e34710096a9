"""What strangers do to a model: odd addresses, keys, answers and servers; nothing is lost by it."""

import asyncio
import base64
import gzip
import json
import logging
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

import weft
from tests.models.answers import DIALECTS, events, whole
from tests.models.rich import rich
from tests.models.server import Server, Turn, page, says, streams
from tests.models.test_http import ONCE, bot, failed, model_of
from tests.models.test_switching import Checked, lookup, served
from weft import Agent, RunConfig, Runner
from weft.errors import CompileError, DeclarationError, ModelError, UsageError
from weft.models import Breaker, Gemini, OpenAI, Retry, Timeouts
from weft.models.registry import model_for
from weft.models.services import spellings

SECRET = "sk-never-show-this"
JSON = {"content-type": "application/json"}


def other(dialect: str) -> str:
    """A dialect that the model does not speak."""
    return DIALECTS[DIALECTS.index(dialect) - 1]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What Weft itself put into the log."""
    return [each.getMessage() for each in caplog.records if each.name.startswith("weft")]


def swapped(dialect: str, old: bytes, new: bytes) -> Turn:
    """An answer in which a piece of JSON is something else."""
    body = json.dumps(whole(dialect)).encode()
    assert old in body
    return Turn(200, body.replace(old, new), JSON)


BAD: dict[str, tuple[str, Callable[[str], Turn]]] = {
    "a page": ("bad_response", lambda _: page()),
    "a proxy's page": ("overloaded", lambda _: page(502)),
    "an error with 200": (
        "overloaded",
        lambda _: says({"error": {"message": "boom", "code": 500, "type": "server_error"}}),
    ),
    "an error as a word": ("model_error", lambda _: says({"error": "boom"})),
    "a stream that is an error": (
        "overloaded",
        lambda _: streams([b'data: {"error":{"message":"boom","type":"overloaded_error"}}\n\n']),
    ),
    "an empty object": ("bad_response", lambda _: says({})),
    "null": ("bad_response", lambda _: says(None)),
    "a text": ("bad_response", lambda _: says("hello")),
    "nothing": ("bad_response", lambda _: Turn(raw=b"HTTP/1.1 204 No Content\r\n\r\n")),
    "JSON without end": (
        "bad_response",
        lambda d: Turn(200, json.dumps(whole(d)).encode()[:50], JSON),
    ),
    "a stream cut in JSON": ("cut_stream", lambda d: streams([b"".join(events(d))[:150]])),
    "JSON without bottom": (
        "bad_response",
        lambda _: Turn(200, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, JSON),
    ),
    "JSON too deep for a log": (
        "bad_response",
        lambda d: says({**whole(d), "x": json.loads("[" * 190 + "]" * 190)}),
    ),
    "another provider": ("bad_response", lambda d: says(whole(other(d)))),
    "a wrong key": (
        "auth",
        lambda _: says({"error": {"message": f"bad key {SECRET}", "code": "invalid_api_key"}}, 401),
    ),
    "no such model": ("not_found", lambda _: says({"detail": "Not Found"}, 404)),
    "a parameter that is refused": (
        "bad_request",
        lambda _: says({"error": {"message": "Unsupported parameter: 'x'"}}, 400),
    ),
    "a status nobody knows": ("bad_request", lambda _: Turn(418, b"teapot")),
    "bytes": ("overloaded", lambda _: Turn(500, b"\x00\xff\xfe")),
    "another way to": ("bad_response", lambda _: Turn(307, b"", {"location": f"/?k={SECRET}"})),
    "a proxy that wants a login": ("bad_request", lambda _: Turn(407, b"")),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_answer_is_an_event_that_helps_and_the_stored_session_goes_on(
    kind: str, dialect: str, streamed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code, turn = BAD[kind]
    caplog.set_level(logging.DEBUG)
    config = RunConfig(stream=streamed)
    with Server(turn(dialect), says(whole(dialect))) as server:
        agent = bot(model_of(dialect, server, api_key=SECRET))
        async with Runner(agent, store=f"sqlite:///{tmp_path}/log.db") as runner:
            first = await runner.run(message="one", user_id="u", session_id="s", config=config)
            assert first.error is not None
            assert first.error.error_code == code
            words = first.error.error_message or ""
            assert f"{agent.model.service.name}/x: " in words  # type: ignore[union-attr]
            assert "\n  hint: " in words
            second = await runner.run(message="two", user_id="u", session_id="s", config=config)
            assert second.text == "Hello there"
        sent = server.received[-1].body.decode()
        assert "one" in sent
        assert "two" in sent
    assert SECRET not in f"{first}{second}{told(caplog)}"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Hello", b"He\xff\xfe"),
        (b": 9", b": NaN"),
        (b": 9", b": 1e999"),
        (b": 9", b": 9.5"),
        (b": 9", b': "9"'),
        (b": 9", b": " + b"9" * 40),
        (b"Hello", b"\\ud83d"),
        (b"Hello", b"\\u0000"),
    ],
)
async def test_an_answer_that_is_nearly_json_is_an_answer(
    dialect: str, old: bytes, new: bytes, tmp_path: Path
) -> None:
    with Server(swapped(dialect, old, new), says(whole(dialect))) as server:
        agent = bot(model_of(dialect, server))
        async with Runner(agent, store=f"sqlite:///{tmp_path}/log.db") as runner:
            first = await runner.run(message="one", user_id="u", session_id="s")
            assert first.error is None
            assert first.text.endswith(" there")
            second = await runner.run(message="two", user_id="u", session_id="s")
            assert second.text == "Hello there"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["look up!", "functions.lookup", "x" * 200, ""])
async def test_a_tool_name_that_a_model_made_up_does_not_close_the_session(
    dialect: str, name: str
) -> None:
    body = json.dumps(rich(dialect)).replace('"lookup"', json.dumps(name))
    with Server(Turn(200, body.encode(), JSON), says(whole(dialect))) as server:
        model = Checked(served(dialect, server))
        result = await weft.run(Agent("bot", model=model, tools=[lookup]), "hi")
        assert result.text == "Hello there"
        sent = server.received[-1].body.decode()
    assert name not in ("", "x" * 200) or f'"name":"{name}"' not in sent
    for call in (call for event in result.events for call in event.calls):
        assert (call.name or "").replace("_", "").isalnum()
        assert len(call.name or "") <= 64


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_address_may_have_a_login_a_query_and_slashes(dialect: str) -> None:
    with Server(says(whole(dialect))) as server:
        address = server.url.replace("://", f"://ann:{SECRET}@")
        model = model_of(dialect, server, base_url=f"{address}/deep/v1//?key={SECRET}&v=7")
        await weft.run(bot(model), "hi")
        path, _, query = server.received[0].path.partition("?")
        assert path.startswith("/deep/v1/")
        assert path.endswith(("/chat/completions", "/responses", "/messages", ":generateContent"))
        assert query == f"key={SECRET}&v=7"
        assert server.received[0].headers["authorization"].startswith("Basic ")
    assert SECRET not in repr(model)
    assert SECRET not in model.name


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_no_error_shows_what_is_secret_in_an_address(
    dialect: str, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(page()) as server:
        address = server.url.replace("://", f"://ann:{SECRET}@")
        model = model_of(dialect, server, base_url=f"{address}/v1?key={SECRET}")
        result = await weft.run(bot(model), "hi", config=RunConfig(stream=streamed))
    assert failed(result)[0] == "bad_response"
    assert SECRET not in f"{result}{told(caplog)}"


def test_an_address_from_the_environment_is_read_the_same_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"https://ann:{SECRET}@host/?api-version=7")
    model = model_for("azure/gpt-5", where="test")
    assert isinstance(model, OpenAI)
    assert model.address == "https://host/openai/v1"
    assert SECRET not in repr(model)


@pytest.mark.parametrize("secret", [f"http://ann:{SECRET}@h/v1#m", f"http://h/v1?key={SECRET}#m"])
def test_a_name_holds_no_secret(secret: str) -> None:
    with pytest.raises(UsageError) as by_name:
        model_for(secret, where="test")
    with pytest.raises(CompileError) as compiled:
        weft.compile(Agent("bot", model=secret), message="hi")
    for caught in (by_name, compiled):
        assert SECRET not in str(caught.value)
        assert "base_url=" in caught.value.hint


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("key", [f"{SECRET}\nmore", f"{SECRET}ü", f"{SECRET}\x00"])
async def test_a_key_that_cannot_be_sent_is_not_shown(
    dialect: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Server(says(whole(dialect))) as server:
        result = await weft.run(bot(model_of(dialect, server, api_key=key)), "hi")
        assert not server.received
    code, words = failed(result)
    assert code == "bad_request"
    assert "on one line" in words
    assert SECRET not in f"{result}{caplog.text}"


async def test_a_token_that_was_lent_is_not_shown() -> None:
    stale = {"error": {"message": f"the token {SECRET} is stale"}}
    with Server(says(stale, 401)) as server:
        model = Gemini("x", base_url=server.url, project="p", token=lambda: SECRET, retries=ONCE)
        assert SECRET not in failed(await weft.run(bot(model), "hi"))[1]


KEY = "sk-live/4+2=abc"


@pytest.mark.parametrize(
    "told",
    [
        f"x{KEY}y",
        f"Incorrect API key provided: {KEY}z.",
        f"https://host/v1?key={quote(KEY, safe='')}&x=1",
        f"Authorization: Bearer_{KEY}",
        base64.b64encode(KEY.encode()).decode(),
        base64.b64encode(f"ann:{KEY}".encode()).decode(),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_key_inside_other_text_is_not_shown(
    dialect: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for status in (401, 500):
        with Server(says({"error": {"message": told}}, status)) as server:
            login = f"://ann:{quote(KEY, safe='')}@"
            address = f"{server.url.replace('://', login)}/v1?key={quote(KEY, safe='')}"
            model = model_of(dialect, server, api_key=KEY, base_url=address)
            result = await weft.run(bot(model), "hi")
        shown = f"{result}{caplog.text}{result.session.to_json()!r}{model!r}"
        for spelled in spellings(KEY):
            assert spelled not in shown
        assert "[key]" in failed(result)[1]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_key_in_the_address_is_in_no_log_of_the_transport(
    dialect: str, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Server(says(whole(dialect))) as server:
        address = f"{server.url.replace('://', f'://ann:{SECRET}@')}/v1?key={SECRET}&sig={KEY}"
        model = model_of(dialect, server, base_url=address)
        await weft.run(bot(model), "hi", config=RunConfig(stream=streamed))
        assert SECRET in server.received[0].path
    assert "HTTP Request" in caplog.text
    assert SECRET not in caplog.text
    assert KEY not in caplog.text


async def test_an_answer_that_repeats_the_key_is_kept_without_it() -> None:
    body = json.loads(json.dumps(whole("openai-chat")).replace("Hello", f"Hello {SECRET}{KEY}"))
    body["debug"] = {"authorization": f"Bearer {KEY}"}
    with Server(says(body)) as server:
        model = model_of("openai-chat", server, api_key=KEY)
        result = await weft.run(bot(model), "hi")
    assert KEY not in f"{result}{result.session.to_json()!r}"
    assert result.text.startswith(f"Hello {SECRET}[key]")


async def test_what_led_to_an_error_shows_no_key() -> None:
    def token() -> str:
        raise ValueError(f"x{KEY}y")

    model = Gemini("x", base_url="http://127.0.0.1:9", project="p", token=token, retries=ONCE,
                   headers={"x-my-key": KEY})  # fmt: skip
    prompt = weft.compile(bot(model), message="hi").prompt
    with pytest.raises(ModelError) as caught:
        async for _ in model.generate(prompt, {}, stream=False):
            pass
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None or KEY not in str(caught.value.__context__)


@pytest.mark.parametrize("key", ["a", "any"])
async def test_a_short_key_leaves_words_alone(key: str) -> None:
    with Server(says({"error": {"message": "a company has many problems"}}, 400)) as server:
        words = failed(await weft.run(bot(model_of("openai-chat", server, api_key=key)), "hi"))[1]
    assert "company has many problems" in words


async def test_an_empty_credential_leaves_words_alone() -> None:
    with Server(page()) as server:
        model = OpenAI("x", base_url=server.url, headers={"authorization": ""}, retries=ONCE)
        assert "[key]" not in failed(await weft.run(bot(model), "hi"))[1]


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: OpenAI("x", base_url="http://h/v1#m"), 'base_url="http://h/v1"'),
        (lambda: OpenAI("x", base_url="http://"), "https://host/v1"),
        (lambda: OpenAI("x", base_url="http:///v1"), "https://host/v1"),
        (lambda: OpenAI("x", breaker=5), "Breaker("),  # type: ignore[arg-type]
        (lambda: OpenAI("x", breaker=Breaker(failures=0)), "Breaker("),
        (lambda: OpenAI("x", timeout=0), "timeout=60"),
        (lambda: OpenAI("x", timeout=Timeouts(read=0)), "timeout=60"),
        (lambda: OpenAI("x", timeout=Timeouts(read=True)), "timeout=60"),
        (lambda: Agent("bot", model=OpenAI), 'OpenAI("NAME")'),  # type: ignore[arg-type]
        (lambda: Agent("bot", model=" gpt-5\n"), 'model="gpt-5"'),
        (lambda: Agent("bot", model=""), "pass a name"),
        (lambda: RunConfig(model="gpt-5 "), 'model="gpt-5"'),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_at_once(make: Callable[[], object], hint: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        make()
    assert hint in caught.value.hint


async def test_a_server_may_be_at_an_address_of_version_six() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    body = json.dumps(whole("openai-chat")).encode()
    head = b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n"

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)
        writer.close()

    try:
        server = await asyncio.start_server(met, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = server.sockets[0].getsockname()[1]
    result = await weft.run(Agent("bot", model=f"http://[::1]:{port}/v1#a/b"), "hi")
    assert result.text == "Hello there"
    server.close()


def odd_servers() -> dict[str, Turn]:
    """Ways to send a stream that are unusual, and right."""
    said = b"".join(events("openai-chat"))
    packed = gzip.compress(said)
    kind = {"content-type": "text/event-stream"}
    head = b"content-type: text/event-stream\r\n"
    return {
        "packed": Turn(headers={**kind, "content-encoding": "gzip"}, pieces=[packed]),
        "packed and cut anywhere": Turn(
            headers={**kind, "content-encoding": "gzip"},
            pieces=[packed[at : at + 3] for at in range(0, len(packed), 3)],
        ),
        "until it hangs up": Turn(raw=b"HTTP/1.0 200 OK\r\n" + head + b"\r\n" + said),
        "without saying what": Turn(raw=b"HTTP/1.1 200 OK\r\n\r\n" + said),
        "with a head before": Turn(
            raw=b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + head + b"\r\n" + said
        ),
    }


@pytest.mark.parametrize("how", odd_servers())
async def test_an_unusual_stream_is_read_as_any_other(how: str) -> None:
    with Server(odd_servers()[how]) as server:
        agent = bot(model_of("openai-chat", server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=True))
    assert result.text == "Hello there"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_ten_thousand_pieces_and_twenty_megabytes_are_read(dialect: str) -> None:
    words = ["w "] * 10_000
    large = "x" * 20_000_000
    config = RunConfig(stream=True)
    with Server(
        streams([b"".join(events(dialect, *words))]), says(whole(dialect, large))
    ) as server:
        agent = bot(model_of(dialect, server))
        pieces = [event async for event in weft.stream(agent, "hi", config=config) if event.partial]
        assert "".join(event.text for event in pieces) == "".join(words)
        assert (await weft.run(agent, "hi", config=config)).text == large


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_closing_a_stream_hangs_up(dialect: str) -> None:
    begun = events(dialect, *"abcdefgh")[:-6]
    with Server(streams(begun, hold=True)) as server:
        running = weft.stream(bot(model_of(dialect, server)), "hi", config=RunConfig(stream=True))
        async for event in running:
            if event.partial:
                break
        await running.aclose()
        assert await asyncio.to_thread(server.wait_for_hang_up)


async def test_an_hour_to_wait_is_told_and_not_waited() -> None:
    with Server(says({"error": {"message": "slow"}}, 429, retry_after="3600")) as server:
        model = model_of("openai-chat", server, retries=Retry(attempts=4))
        words = failed(await weft.run(bot(model), "hi"))[1]
        assert len(server.received) == 1
    assert "wait 3600 s" in words


NAMELESS = {
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "tool_use", "id": "t1", "name": None, "input": {}}],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "gemini": {
        "candidates": [
            {"content": {"role": "model", "parts": [{"functionCall": {"args": {"a": 1}}}]}}
        ]
    },
    "openai-chat": {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"arguments": "{}"}}
                    ],
                },
            }
        ]
    },
    "openai-responses": {
        "id": "r",
        "object": "response",
        "status": "completed",
        "output": [
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": None, "arguments": "{}"}
        ],
    },
}


@pytest.mark.parametrize("dialect", NAMELESS)
async def test_a_call_without_a_name_is_answered_and_the_session_goes_on(dialect: str) -> None:
    with Server(says(NAMELESS[dialect]), says(whole(dialect, "Sorry."))) as server:
        checked = Checked(model_of(dialect, server))
        result = await weft.run(Agent("a", model=checked, tools=[lookup]), "Hi")
    assert result.error is None
    assert "Sorry." in result.text
    assert len(server.received) == 2
