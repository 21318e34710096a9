"""Real requests over real sockets: what is sent, what is read, and what goes wrong on the way."""

import asyncio
import json
import logging
import subprocess
import sys

import pytest

import weft
from tests.models.answers import DIALECTS, chat_message, events, whole
from tests.models.server import Server, Turn, page, says, streams
from weft import Agent, Result, RunConfig, tool
from weft.errors import DeclarationError, ModelError
from weft.models import Anthropic, Gemini, OpenAI, Retry, Timeouts
from weft.models.remote import Remote

ONCE = Retry(attempts=1)


def model_of(dialect: str, server: Server, **more: object) -> Remote:
    more = {"base_url": server.url, "api_key": "secret-key", "retries": ONCE, **more}
    if dialect == "gemini":
        return Gemini("x", **more)  # type: ignore[arg-type]
    if dialect == "anthropic":
        return Anthropic("x", **more)  # type: ignore[arg-type]
    return OpenAI("x", api=dialect.removeprefix("openai-"), **more)  # type: ignore[arg-type]


def bot(model: Remote, **more: object) -> Agent:
    return Agent("bot", model=model, instruction="Be kind.", **more)  # type: ignore[arg-type]


def failed(result: Result) -> tuple[str | None, str]:
    event = result.events[-1]
    return event.error_code, event.error_message or ""


@tool
def look(city: str) -> str:
    """Look at the weather."""
    return f"rain in {city} \ud83d"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_bytes_at_the_socket_are_the_compiled_wire(dialect: str) -> None:
    with Server(says(whole(dialect))) as server:
        agent = bot(model_of(dialect, server), tools=[look])
        compiled = weft.compile(agent, message="Grüße 🌍")
        result = await weft.run(agent, "Grüße 🌍")
        assert result.text == "Hello there"
        (sent,) = server.received
        assert (
            sent.body
            == json.dumps(compiled.wire, ensure_ascii=False, separators=(",", ":")).encode()
        )
        assert sent.headers["content-type"] == "application/json"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stream_adds_only_what_streaming_needs(dialect: str) -> None:
    with Server(streams(events(dialect))) as server:
        agent = bot(model_of(dialect, server))
        wire = dict(weft.compile(agent, message="hi").wire)
        shown = [event async for event in weft.stream(agent, "hi")]
        assert [event.content.text for event in shown if event.partial] == ["Hello", " there"]  # type: ignore[union-attr]
        assert shown[-1].content.text == "Hello there"  # type: ignore[union-attr]
        sent = server.received[0]
    if dialect == "gemini":
        assert sent.json == wire
        assert sent.path == "/v1beta/models/x:streamGenerateContent?alt=sse"
    else:
        more = {"stream": True}
        if dialect == "openai-chat":
            more["stream_options"] = {"include_usage": True}  # type: ignore[assignment]
        assert sent.json == {**wire, **more}
        assert list(sent.json)[: len(wire)] == list(wire)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_whole_and_streamed_answers_give_the_same_event(dialect: str) -> None:
    with Server(says(whole(dialect)), streams(events(dialect))) as server:
        agent = bot(model_of(dialect, server))
        one = (await weft.run(agent, "hi")).events[-1]
        two = (await weft.run(agent, "hi", config=RunConfig(stream=True))).events[-1]
    assert one.content == two.content
    assert one.usage == two.usage
    assert one.usage is not None
    assert one.usage.prompt_token_count == 9
    assert one.finish_reason == two.finish_reason == "STOP"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stream_may_come_byte_by_byte(dialect: str) -> None:
    text = b"".join(events(dialect, "Grüße", " 🌍"))
    with Server(streams([text[at : at + 1] for at in range(len(text))])) as server:
        result = await weft.run(bot(model_of(dialect, server)), "hi", config=RunConfig(stream=True))
    assert result.text == "Grüße 🌍"


async def test_half_a_character_is_sent_escaped() -> None:
    with Server(says(whole("openai-chat"))) as server:
        await weft.run(bot(model_of("openai-chat", server)), "half \ud83d a pair")
        assert server.received[0].json["messages"][-1]["content"]
        assert b"\\ud83d" in server.received[0].body or b"\xef\xbf\xbd" in server.received[0].body


@pytest.mark.parametrize(
    ("dialect", "header", "value", "path"),
    [
        ("openai-chat", "authorization", "Bearer secret-key", "/chat/completions"),
        ("openai-responses", "authorization", "Bearer secret-key", "/responses"),
        ("anthropic", "x-api-key", "secret-key", "/v1/messages"),
        ("gemini", "x-goog-api-key", "secret-key", "/v1beta/models/x:generateContent"),
    ],
)
async def test_each_vendor_gets_its_key_and_its_path(
    dialect: str, header: str, value: str, path: str
) -> None:
    with Server(says(whole(dialect))) as server:
        model = model_of(dialect, server, headers={"X-Team": "blue"})
        await weft.run(bot(model), "hi")
        sent = server.received[0]
    assert sent.headers[header] == value
    assert sent.headers["x-team"] == "blue"
    assert sent.path == path
    assert "secret-key" not in repr(model)


async def test_the_api_version_and_betas_go_as_headers() -> None:
    extra = {
        "anthropic": {
            "context_management": {"edits": []},
            "tools": [{"type": "computer_20250124", "name": "computer"}],
        }
    }
    with Server(says(whole("anthropic"))) as server:
        model = model_of("anthropic", server, headers={"anthropic-beta": "mine-2026-01-01"})
        await weft.run(bot(model, generate_config={"extra": extra}), 'say "thread":')
        sent = server.received[0]
    assert sent.headers["anthropic-version"]
    assert sent.headers["anthropic-beta"].split(",") == [
        "context-management-2025-06-27",
        "computer-use-2025-01-24",
        "mine-2026-01-01",
    ]


async def test_requests_share_one_connection() -> None:
    with Server(says(whole("openai-chat"))) as server:
        for _ in range(3):
            await weft.run(bot(model_of("openai-chat", server)), "hi")
        assert server.connections == 1


def test_every_fresh_loop_has_connections_of_its_own_and_leaves_none_behind() -> None:
    with Server(says(whole("openai-chat"))) as server:
        agent = bot(model_of("openai-chat", server))
        assert [weft.run_sync(agent, "hi").text for _ in range(3)] == ["Hello there"] * 3
        assert server.connections == 3
        from weft.models.http import _pools

        assert not [loop for loop in _pools if loop.is_closed()]


def test_a_script_ends_without_a_warning() -> None:
    with Server(says(whole("openai-chat"))) as server:
        script = (
            "import weft, gc; from weft.models import OpenAI\n"
            f"a = weft.Agent('bot', model=OpenAI('x', base_url={server.url!r}, api_key='k'))\n"
            "print(weft.run_sync(a, 'hi').text); print(weft.run_sync(a, 'hi').text); gc.collect()"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert done.stdout == "Hello there\nHello there\n"
    assert done.stderr == ""


async def test_cancelling_closes_the_connection_at_once() -> None:
    with Server(streams(events("openai-chat")[:1], hold=True)) as server:
        agent = bot(model_of("openai-chat", server))

        async def ask() -> None:
            async for _ in weft.stream(agent, "hi"):
                pass

        task = asyncio.create_task(ask())
        assert await asyncio.to_thread(server.wait_for_request)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.wait_for_hang_up)


async def test_a_reader_who_stops_early_closes_the_connection() -> None:
    with Server(streams(events("openai-chat")[:1], hold=True)) as server:
        running = weft.stream(bot(model_of("openai-chat", server)), "hi")
        async for event in running:
            if event.partial:
                break
        await running.aclose()
        assert await asyncio.to_thread(server.wait_for_hang_up)


async def test_cancelling_while_nothing_has_come_closes_the_connection() -> None:
    with Server(Turn(wait=30)) as server:
        task = asyncio.create_task(weft.run(bot(model_of("anthropic", server)), "hi"))  # type: ignore[arg-type]
        assert await asyncio.to_thread(server.wait_for_request)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.wait_for_hang_up)


GOOGLE_ERROR = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down"}}

BAD: list[tuple[str, Turn, str, str]] = [
    ("html", page(), "bad_response", "web page"),
    ("html with 404", page(404), "bad_response", "web page"),
    ("html with 502", page(502), "overloaded", "502"),
    ("no json", Turn(body=b"upstream hiccup"), "bad_response", "a JSON object: upstream hiccup"),
    ("json but no object", says(["a", "b"]), "bad_response", "not a JSON object"),
    ("empty", Turn(), "bad_response", "nothing"),
    ("cut json", Turn(body=b'{"choices": [{"mess'), "bad_response", "not a JSON object"),
    (
        "short body",
        Turn(body=b'{"choices"', headers={"content-length": "999"}),
        "connection",
        "broke",
    ),
    ("an error in a 200", says({"error": {"message": "no credit", "type": "server_error"}}),
     "overloaded", "no credit"),
    ("another object", says({"hello": "world"}), "bad_response", ""),
    ("wrong key", says({"error": {"message": "bad secret-key"}}, 401), "auth", "bad [key]"),
    ("moved", Turn(308, headers={"location": "https://other/v1"}), "bad_response", "other/v1"),
    ("unknown model", says({"error": {"message": "no model x"}}, 404), "not_found", "no model x"),
    ("refused", says({"error": {"message": "bad option"}}, 400), "bad_request", "bad option"),
    ("too long", says({"error": {"code": "context_length_exceeded", "message": "m"}}, 400),
     "context_overflow", "m"),
    ("busy", says({"error": {"message": "wait"}}, 429), "rate_limited", "wait"),
    ("down", says({"error": {"message": "oh"}}, 503), "overloaded", "oh"),
    ("overloaded", says({"error": {"type": "overloaded_error", "message": "oh"}}, 529),
     "overloaded", "oh"),
    ("reset", Turn(reset=True), "connection", "broke"),
    ("no http", Turn(raw=b"SSH-2.0-OpenSSH_9\r\n\r\n"), "connection", "broke"),
    ("no gzip", Turn(body=b"oops", headers={"content-encoding": "gzip"}),
     "bad_response", "unpacked"),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "code", "words"), [each[1:] for each in BAD],
                         ids=[each[0] for each in BAD])  # fmt: skip
async def test_a_failure_is_an_event_that_says_what_to_do_and_the_session_goes_on(
    turn: Turn, code: str, words: str
) -> None:
    with Server(turn, says(whole("openai-chat"))) as server:
        agent = bot(model_of("openai-chat", server))
        result = await weft.run(agent, "hi")
        told, message = failed(result)
        assert told == code
        assert words in message
        assert "openai/x: " in message
        assert "secret-key" not in message
        assert "hint: " in message or code in ("bad_request", "model_error")
        again = await weft.run(agent, "again", session=result.session)
        assert again.text == "Hello there"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_status_is_the_same_in_every_dialect(dialect: str, streamed: bool) -> None:
    with Server(says(GOOGLE_ERROR, 429), says(whole(dialect))) as server:
        agent = bot(model_of(dialect, server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=streamed))
        code, message = failed(result)
        assert code == "rate_limited"
        assert "slow down" in message
        again = await weft.run(agent, "again", session=result.session)
        assert again.text == "Hello there"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("ends", [True, False], ids=["ended", "broken off"])
async def test_a_cut_stream_is_told_as_one(dialect: str, ends: bool) -> None:
    told = events(dialect)
    shown = {"openai-responses": 3, "anthropic": 3}.get(dialect, 1)
    cut = [*told[:shown], told[shown][:25]]
    with Server(streams(cut, ends=ends), says(whole(dialect))) as server:
        agent = bot(model_of(dialect, server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=True))
        assert failed(result)[0] == "cut_stream"
        again = await weft.run(agent, "again", session=result.session)
        assert again.text == "Hello there"


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini"])
@pytest.mark.parametrize("mark", [b"data: [DONE]\n\n", b"data:[DONE]"], ids=["whole", "no line"])
async def test_a_server_that_says_it_is_done_needs_no_reason(dialect: str, mark: bytes) -> None:
    said = {"anthropic": 3}.get(dialect, 1)
    with Server(streams([*events(dialect, "Hello there", "!")[:said], mark])) as server:
        agent = bot(model_of(dialect, server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=True))
    assert result.text == "Hello there"
    assert result.events[-1].error_code is None


async def test_garbage_in_a_stream_is_a_bad_response() -> None:
    with Server(streams([b"data: {oops\n\n", *events("openai-chat")])) as server:
        agent = bot(model_of("openai-chat", server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=True))
    assert failed(result)[0] == "bad_response"
    assert "{oops" in failed(result)[1]


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (Turn(body=json.dumps(whole("openai-chat")).encode()), None),
        (Turn(body=b'{"error": {"message": "no"}}', headers={"content-type": "text/event-stream"}),
         "model_error"),
        (Turn(body=b"<html><body>hi", headers={"content-type": "text/plain"}), "bad_response"),
    ],
    ids=["json", "error", "html"],
)  # fmt: skip
async def test_what_only_says_that_it_streams_is_read_as_what_it_is(
    turn: Turn, code: str | None
) -> None:
    with Server(turn) as server:
        agent = bot(model_of("openai-chat", server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=True))
    assert result.events[-1].error_code == code


@pytest.mark.parametrize("more", [{"api_key": "schlüssel"}, {"headers": {"x-a": "ü\n"}}])
async def test_what_cannot_stand_in_a_header_is_told(more: dict[str, object]) -> None:
    with Server(says(whole("openai-chat"))) as server:
        result = await weft.run(bot(model_of("openai-chat", server, **more)), "hi")
        assert failed(result)[0] == "bad_request"
        assert "schlüssel" not in failed(result)[1]
        assert not server.received


async def test_a_connection_that_breaks_after_the_last_event_loses_nothing() -> None:
    with Server(streams(events("anthropic"), ends=False)) as server:
        agent = bot(model_of("anthropic", server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=True))
    assert result.text == "Hello there"


async def test_a_server_that_does_not_stream_is_read_whole() -> None:
    with Server(says(whole("openai-chat"))) as server:
        agent = bot(model_of("openai-chat", server))
        result = await weft.run(agent, "hi", config=RunConfig(stream=True))
    assert result.text == "Hello there"


async def test_a_server_that_streams_unasked_is_read_as_a_stream() -> None:
    with Server(streams(events("openai-chat"))) as server:
        result = await weft.run(bot(model_of("openai-chat", server)), "hi")
    assert result.text == "Hello there"


@pytest.mark.parametrize(
    ("turn", "limit", "words"),
    [
        (Turn(wait=30), Timeouts(first_byte=0.1), "within 0.1 s"),
        (Turn(wait=30), 0.1, "in time"),
        (streams(events("openai-chat")[:1], hold=True), Timeouts(read=0.1), "in time"),
    ],
    ids=["first byte", "all", "between pieces"],
)
async def test_what_takes_too_long_is_a_timeout(
    turn: Turn, limit: float | Timeouts, words: str
) -> None:
    with Server(turn) as server:
        hasty = bot(model_of("openai-chat", server, timeout=limit))
        result = await weft.run(hasty, "hi", config=RunConfig(stream=True))
        code, message = failed(result)
        assert code == "timeout"
        assert words in message
        server.script = (says(whole("openai-chat")),)
        patient = bot(model_of("openai-chat", server))
        assert (await weft.run(patient, "again", session=result.session)).text == "Hello there"


async def test_nobody_at_the_address_is_a_connection_error() -> None:
    with Server(says({})) as server:
        model = model_of("gemini", server)
    result = await weft.run(bot(model), "hi")
    code, message = failed(result)
    assert code == "connection"
    assert "check the base URL" in message


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (Gemini("gemini-3-pro"), "export GEMINI_API_KEY=..."),
        (Anthropic("claude-sonnet-5"), "export ANTHROPIC_API_KEY=..."),
        (OpenAI("gpt-5"), "export OPENAI_API_KEY=..."),
        (OpenAI("groq/llama", service="groq"), "export GROQ_API_KEY=..."),
    ],
    ids=["gemini", "anthropic", "openai", "groq"],
)
async def test_no_key_is_told_before_anything_is_sent(
    model: Remote, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(says({})) as server:
        for name in (*model.service.keys, *model.service.tokens):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(model.service.url_variables[0], server.url)
        result = await weft.run(bot(model), "hi")
        assert failed(result)[0] == "auth"
        assert hint in failed(result)[1]
        assert 'api_key="..."' in failed(result)[1]
        assert 'model="local"' in failed(result)[1]
        assert not server.received
        monkeypatch.setenv(model.service.keys[0], "found-later")
        server.script = (says(whole(model.dialect)),)
        again = await weft.run(bot(model), "again", session=result.session)
        assert again.text == "Hello there"
        assert "found-later" in str(server.received[0].headers)


async def test_a_token_goes_as_a_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "t0")
    with Server(says(whole("anthropic"))) as server:
        await weft.run(bot(Anthropic("x", base_url=server.url)), "hi")
        assert server.received[0].headers["authorization"] == "Bearer t0"
        assert "x-api-key" not in server.received[0].headers


async def test_vertex_takes_a_token_function() -> None:
    async def token() -> str:
        return "ya29"

    model = Gemini("gemini-3-pro", project="p", location="europe-west1", token=token)
    place = "/v1/projects/p/locations/europe-west1/publishers/google"
    assert model.address == f"https://europe-west1-aiplatform.googleapis.com{place}"
    with Server(says(whole("gemini"))) as server:
        model = Gemini("gemini-3-pro", project="p", token=token, base_url=server.url + place)
        await weft.run(bot(model), "hi")
        assert server.received[0].path == f"{place}/models/gemini-3-pro:generateContent"
        assert server.received[0].headers["authorization"] == "Bearer ya29"


async def test_an_unknown_model_gets_names_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    error = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}
    with Server(says(error, 404)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        result = await weft.run(bot(Anthropic("claude-sonet-4-5")), "hi")
    assert failed(result)[0] == "not_found"
    assert "claude-sonnet-4-5" in failed(result)[1]


async def test_a_servers_own_name_with_a_slash_is_sent_as_it_is() -> None:
    with Server(says(whole("openai-chat"))) as server:
        model = OpenAI("openai/gpt-oss-20b", base_url=f"{server.url}/v1", api_key="k")
        await weft.run(bot(model), "hi")
        assert server.received[0].json["model"] == "openai/gpt-oss-20b"
        assert server.received[0].path == "/v1/chat/completions"


CALL = {"type": "function", "function": {"name": "look", "arguments": '{"city": "Oslo"}'}}


@pytest.mark.parametrize(
    "calls",
    [
        [{**CALL, "id": "same"}, {**CALL, "id": "same"}],
        [CALL, CALL],
        [{**CALL, "id": ""}, {**CALL, "id": None}],
    ],
    ids=["duplicated", "missing", "empty"],
)
async def test_odd_call_ids_are_made_right(calls: list[dict[str, object]]) -> None:
    with Server(says(chat_message(tool_calls=calls)), says(whole("openai-chat"))) as server:
        result = await weft.run(bot(model_of("openai-chat", server), tools=[look]), "hi")
        assert result.text == "Hello there"
        messages = server.received[1].json["messages"]
    asked = [call["id"] for call in messages[2]["tool_calls"]]
    assert len(set(asked)) == 2
    assert all(asked)
    assert [message["tool_call_id"] for message in messages[3:]] == asked


async def test_an_answer_in_the_wrong_role_is_the_models_or_a_bad_response() -> None:
    with Server(
        says(chat_message(role="user", content="hm")), says(whole("openai-chat"))
    ) as server:
        agent = bot(model_of("openai-chat", server))
        result = await weft.run(agent, "hi")
        event = result.events[-1]
        assert event.error_code == "bad_response" or event.content.role == "model"  # type: ignore[union-attr]
        assert (await weft.run(agent, "again", session=result.session)).text == "Hello there"


async def test_many_sessions_share_the_connections() -> None:
    with Server(says(whole("anthropic"))._replace(wait=0.05)) as server:
        agent = bot(model_of("anthropic", server))
        for _ in range(2):
            results = await asyncio.gather(*(weft.run(agent, f"hi {each}") for each in range(20)))
            assert [result.text for result in results] == ["Hello there"] * 20
        assert server.connections == 20


async def test_a_request_that_is_shown_shows_no_key() -> None:
    with Server(says(whole("gemini"))) as server:
        sending = await model_of("gemini", server)._sending({}, "x", stream=False)
    assert "secret-key" in str(sending.headers)
    assert "secret-key" not in repr(sending)


async def test_keys_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Server(says({"error": {"message": "no secret-key"}}, 401)) as server:
        await weft.run(bot(model_of("openai-chat", server)), "hi")
    assert "secret-key" not in caplog.text
    assert "[key]" in caplog.text


async def test_an_httpx2_client_can_carry_the_requests() -> None:
    import httpx2

    with Server(says(whole("gemini"))) as server:
        async with httpx2.AsyncClient() as client:
            model = Gemini("x", base_url=server.url, headers={"x-goog-api-key": "k"}, client=client)
            assert (await weft.run(bot(model), "hi")).text == "Hello there"


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: OpenAI(""), 'OpenAI("NAME")'),
        (lambda: OpenAI("x", api="completions"), 'api="chat"'),  # type: ignore[arg-type]
        (lambda: OpenAI("x", service="gemini"), "groq"),
        (lambda: OpenAI("x", base_url="localhost:80"), "https://host/v1"),
        (lambda: OpenAI("x", timeout=-1), "timeout=60"),
        (lambda: OpenAI("x", timeout=True), "timeout=60"),
        (lambda: OpenAI("x", retries=-1), "retries=2"),
        (lambda: OpenAI("x", retries=Retry(attempts=0)), "Retry(attempts=4)"),
        (lambda: OpenAI("x", headers={"a": 1}), "x-name"),  # type: ignore[dict-item]
        (lambda: OpenAI("x", api_key=""), "leave it out"),
        (lambda: Gemini("x", client=object()), "google.genai.Client()"),
        (lambda: Gemini("x", project="p"), "token="),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_when_the_model_is_made(make: object, hint: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        make()  # type: ignore[operator]
    assert hint in caught.value.hint


async def test_the_error_itself_names_code_provider_model_and_status() -> None:
    with Server(says({"error": {"message": "no"}}, 403)) as server:
        model = model_of("anthropic", server)
        compiled = weft.compile(bot(model), message="hi")
        with pytest.raises(ModelError) as caught:
            async for _ in model.generate(compiled.prompt, compiled.wire, stream=False):
                pass
    error = caught.value
    assert (error.code, error.provider, error.model, error.status) == (
        "auth",
        "anthropic",
        "x",
        403,
    )
