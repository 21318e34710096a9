"""The stand-in against the provider's own client: what it answers, whole and streamed."""

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import httpx2
import msgspec
import pydantic
import pytest

from tests.standins.gemini import GeminiModel, GeminiRequest, GeminiServer
from tests.support.late import late
from weft import ModelResponse
from weft.errors import DeclarationError, ModelError, UsageError
from weft.testing import (
    call,
    chunks,
    cut,
    fails_after,
    malformed,
    thought,
    usage,
)

MODEL = "gemini-3-flash-preview"
OLDER = "gemini-2.5-flash"
LONG = "The quick brown fox jumps over the lazy dog near the river bank. " * 400

if TYPE_CHECKING:
    from google import genai
    from google.genai import errors, types
else:
    genai = late("google.genai")
    errors, types = late("google.genai.errors"), late("google.genai.types")

OPEN: "list[genai.Client]" = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Clients live as long as their test: one that nobody holds closes its connections."""
    yield
    while OPEN:
        OPEN.pop().close()


@cache
def look() -> "types.Tool":
    """A tool that looks at a city."""
    return types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name="look",
                description="Look at a city.",
                parameters_json_schema={
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                },
            )
        ]
    )


def client(server: GeminiServer) -> "genai.Client":
    address = types.HttpOptions(base_url=server.url)
    OPEN.append(genai.Client(api_key="any", http_options=address))
    return OPEN[-1]


def post(server: GeminiServer, action: str, body: object, model: str = MODEL) -> httpx2.Response:
    return httpx2.post(
        f"{server.url}/v1beta/models/{model}:{action}",
        content=body if isinstance(body, bytes) else json.dumps(body).encode(),
        headers={"x-goog-api-key": "any"},
    )


@pytest.fixture
def hello() -> Iterator[GeminiServer]:
    with GeminiServer(lambda request: "Hello there, how are you?") as server:
        yield server


def test_the_official_client_chats_and_what_came_is_kept() -> None:
    with GeminiServer(["Hello.", "Still here."]) as server:
        chat = client(server).chats.create(model=MODEL)
        assert chat.send_message("Hi").text == "Hello."
        assert chat.send_message("And now?").text == "Still here."
        assert server.remaining == 0
        first, second = server.requests
        assert first.method == "POST"
        assert first.path.endswith(f"/models/{MODEL}:generateContent")
        assert first.headers["x-goog-api-key"] == "any"
        assert first.body == json.loads(first.raw)
        assert second.body is not None
        assert [turn["role"] for turn in second.body["contents"]] == ["user", "model", "user"]


def test_an_answer_has_everything_a_service_adds(hello: GeminiServer) -> None:
    answer = client(hello).models.generate_content(model=MODEL, contents="Hi")
    assert answer.model_version == MODEL
    assert answer.response_id
    assert answer.candidates is not None
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    assert answer.usage_metadata is not None
    prompt = client(hello).models.count_tokens(model=MODEL, contents="Hi").total_tokens
    assert answer.usage_metadata.prompt_token_count == prompt
    said = answer.usage_metadata.candidates_token_count
    assert said is not None
    assert said > 3
    assert answer.usage_metadata.total_token_count == (prompt or 0) + said


def test_a_streamed_answer_comes_in_pieces_that_add_up_to_the_whole(hello: GeminiServer) -> None:
    whole = client(hello).models.generate_content(model=MODEL, contents="Hi")
    pieces = list(client(hello).models.generate_content_stream(model=MODEL, contents="Hi"))
    assert len(pieces) == 5
    assert "".join(piece.text or "" for piece in pieces) == whole.text
    assert [bool(p.candidates and p.candidates[0].finish_reason) for p in pieces] == [
        False, False, False, False, True,
    ]  # fmt: skip
    counts = [p.usage_metadata.candidates_token_count or 0 for p in pieces if p.usage_metadata]
    assert counts == sorted(counts)
    assert whole.usage_metadata is not None
    assert counts[-1] == whole.usage_metadata.candidates_token_count


def test_a_stream_without_sse_is_one_array(hello: GeminiServer) -> None:
    asked = {"contents": [{"parts": [{"text": "Hi"}]}]}
    plain = post(hello, "streamGenerateContent", asked)
    assert plain.headers["content-type"] == "application/json"
    events = post(hello, "streamGenerateContent?alt=sse", asked)
    assert events.headers["content-type"].startswith("text/event-stream")
    listed = [line.removeprefix("data: ") for line in events.text.splitlines() if line]
    texts = [
        [body["candidates"][0]["content"]["parts"][0]["text"] for body in bodies]
        for bodies in (plain.json(), map(json.loads, listed))
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 5


async def test_the_async_client_streams_too() -> None:
    async with GeminiServer([chunks("It ", "rains.")]) as server:
        google = client(server).aio
        stream = await google.models.generate_content_stream(model=MODEL, contents="?")
        assert [piece.text async for piece in stream] == ["It ", "rains."]
        await google.aclose()


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool_round_trip_needs_the_signature_back(streams: bool) -> None:
    script = ["Let me see.", call("look", city="Oslo"), call("look", city="Bergen")]
    with GeminiServer([script, [call("look", city="Rome")], "Sunny."]) as server:
        chat = client(server).chats.create(
            model=MODEL, config=types.GenerateContentConfig(tools=[look()])
        )

        def say(message: object) -> "list[types.FunctionCall]":
            if not streams:
                return chat.send_message(message).function_calls or []  # type: ignore[arg-type]
            pieces = chat.send_message_stream(message)  # type: ignore[arg-type]
            return [found for piece in pieces for found in piece.function_calls or []]

        calls = say("How is Oslo, and Bergen?")
        assert [found.args for found in calls] == [{"city": "Oslo"}, {"city": "Bergen"}]
        assert len({found.id for found in calls}) == 2
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    name=found.name, id=found.id, response={"result": "sun"}
                )
            )
            for found in calls
        ]
        last = say(parts)
        assert [found.args for found in last] == [{"city": "Rome"}]
        result = types.FunctionResponse(name="look", id=last[0].id, response={"result": "hot"})
        say(types.Part(function_response=result))
        assert not server.refusals
        signed = [
            "thoughtSignature" in part
            for turn in server.requests[-1].body["contents"]  # type: ignore[index]
            for part in turn["parts"]
            if "functionCall" in part
        ]
        assert signed == [True, False, True]


def _turns(server: GeminiServer) -> list[dict[str, object]]:
    """A question, the call that answered it as it came, and its result."""
    asked = {"role": "user", "parts": [{"text": "How is Oslo?"}]}
    body = {"contents": [asked], "tools": [msgspec.json.decode(look().model_dump_json(
        exclude_none=True, by_alias=True))]}  # fmt: skip
    answer = post(server, "generateContent", body).json()
    content = answer["candidates"][0]["content"]
    found = content["parts"][0]["functionCall"]
    result = {"name": "look", "id": found["id"], "response": {"result": "sun"}}
    return [asked, content, {"role": "user", "parts": [{"functionResponse": result}]}]


def test_a_signature_that_is_lost_changed_or_moved_is_refused() -> None:
    with GeminiServer(lambda request: call("look", city="Oslo")) as server:
        turns = _turns(server)
        assert post(server, "generateContent", {"contents": turns}).status_code == 200
        part = turns[1]["parts"][0]  # type: ignore[index]
        signature = part["thoughtSignature"]
        changed = ("B" if signature[40] == "A" else "A").join((signature[:40], signature[41:]))
        for what, expected in (
            ({"functionCall": part["functionCall"]}, "missing a thought_signature"),
            ({**part, "thoughtSignature": changed}, "Corrupted thought signature"),
            (
                {**part, "functionCall": {**part["functionCall"], "args": {"city": "Rome"}}},
                "Corrupted thought signature",
            ),
        ):
            spoilt = [turns[0], {"role": "model", "parts": [what]}, turns[2]]
            refused = post(server, "generateContent", {"contents": spoilt})
            assert refused.status_code == 400
            assert expected in refused.json()["error"]["message"]
        foreign = {**part, "thoughtSignature": "skip_thought_signature_validator"}
        told = [turns[0], {"role": "model", "parts": [foreign]}, turns[2]]
        assert post(server, "generateContent", {"contents": told}).status_code == 200


def test_a_signature_is_needed_in_the_current_turn_only_and_by_newer_models_only() -> None:
    with GeminiServer(lambda request: call("look", city="Oslo")) as server:
        asked, said, result = _turns(server)
        bare = {"role": "model", "parts": [{"functionCall": said["parts"][0]["functionCall"]}]}  # type: ignore[index]
        current = [asked, bare, result]
        earlier = [*current, {"role": "model", "parts": [{"text": "Sun."}]}, asked]
        assert post(server, "generateContent", {"contents": current}).status_code == 400
        assert post(server, "generateContent", {"contents": earlier}).status_code == 200
        assert post(server, "generateContent", {"contents": current}, OLDER).status_code == 200


def test_older_models_give_neither_ids_nor_signatures() -> None:
    with GeminiServer([call("look", city="Oslo")]) as server:
        answer = client(server).models.generate_content(model=OLDER, contents="Oslo?")
        assert answer.candidates is not None
        assert answer.candidates[0].content is not None
        part = (answer.candidates[0].content.parts or [])[0]
        assert part.thought_signature is None
        assert part.function_call is not None
        assert part.function_call.id is None


def test_structured_output_is_parsed_by_the_official_client() -> None:
    class City(pydantic.BaseModel):
        name: str
        people: int

    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_schema=City
    )
    with GeminiServer([{"name": "Oslo", "people": 700_000}]) as server:
        models = client(server).models
        answer = models.generate_content(model=MODEL, contents="?", config=config)
        assert answer.parsed == City(name="Oslo", people=700_000)


def test_thoughts_are_shown_to_who_asks_and_counted_for_all() -> None:
    entry = [thought("Oslo is in Norway, so it may rain."), "It may rain."]
    config = types.GenerateContentConfig(
        thinking_config=types.ThinkingConfig(include_thoughts=True)
    )
    with GeminiServer([entry, entry]) as server:
        models = client(server).models
        hidden = models.generate_content(model=MODEL, contents="?")
        shown = models.generate_content(model=MODEL, contents="?", config=config)
    for answer, texts in ((hidden, ["It may rain."]), (shown, [entry[0].text, entry[1]])):  # type: ignore[union-attr]
        assert answer.candidates is not None
        assert answer.candidates[0].content is not None
        assert [part.text for part in answer.candidates[0].content.parts or []] == texts
        assert answer.usage_metadata is not None
        assert answer.usage_metadata.thoughts_token_count == 11


def test_an_answer_stops_where_its_tokens_end() -> None:
    config = types.GenerateContentConfig(max_output_tokens=3)
    with GeminiServer(["one two three four five"]) as server:
        answer = client(server).models.generate_content(model=MODEL, contents="?", config=config)
    assert answer.text == "one two three"
    assert answer.candidates is not None
    assert answer.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


def test_a_malformed_call_a_refusal_and_nothing_at_all_end_as_the_provider_says() -> None:
    blocked = {"weft": {"rest": {"promptFeedback": {"blockReason": "SAFETY"}}}}
    script = [
        malformed("look", '{"city": '),
        ModelResponse(finish_reason="SAFETY"),
        None,
        ModelResponse(custom_metadata=blocked),
    ]
    with GeminiServer(script) as server:
        models = client(server).models
        answers = [models.generate_content(model=MODEL, contents="?") for _ in script]
    found = [a.candidates[0].finish_reason for a in answers if a.candidates]
    assert found == ["MALFORMED_FUNCTION_CALL", "SAFETY", "STOP"]
    assert [answer.text for answer in answers] == [None] * 4
    assert answers[3].prompt_feedback is not None
    assert answers[3].prompt_feedback.block_reason == "SAFETY"


def test_a_beginning_that_was_read_before_is_counted_as_cached() -> None:
    with GeminiServer(lambda request: "Yes.") as server:
        models = client(server).models
        head = types.GenerateContentConfig(system_instruction=LONG)
        said = [types.Content(role="user", parts=[types.Part(text="First?")])]
        cold = models.generate_content(model=MODEL, contents=said, config=head).usage_metadata
        more = [
            *said,
            types.Content(role="model", parts=[types.Part(text="Yes.")]),
            types.Content(role="user", parts=[types.Part(text="Second?")]),
        ]
        warm = models.generate_content(model=MODEL, contents=more, config=head).usage_metadata
        other = types.GenerateContentConfig(system_instruction="!" + LONG)
        broken = models.generate_content(model=MODEL, contents=more, config=other).usage_metadata
        small = models.generate_content(model=MODEL, contents="Hi").usage_metadata
        again = models.generate_content(model=MODEL, contents="Hi").usage_metadata
    assert cold is not None
    assert warm is not None
    assert broken is not None
    assert small is not None
    assert again is not None
    assert cold.cached_content_token_count is None
    assert warm.cached_content_token_count == cold.prompt_token_count
    assert broken.cached_content_token_count is None
    assert again.cached_content_token_count is None


def test_a_cached_content_is_made_used_changed_and_deleted() -> None:
    with GeminiServer(["From the cache."]) as server:
        google = client(server)
        made = google.caches.create(
            model=MODEL,
            config=types.CreateCachedContentConfig(
                system_instruction=LONG, tools=[look()], ttl="60s", display_name="fox"
            ),
        )
        assert made.name is not None
        assert made.usage_metadata is not None
        kept = made.usage_metadata.total_token_count
        answer = google.models.generate_content(
            model=MODEL, contents="Hi", config=types.GenerateContentConfig(cached_content=made.name)
        )
        assert answer.usage_metadata is not None
        assert answer.usage_metadata.cached_content_token_count == kept
        assert (answer.usage_metadata.prompt_token_count or 0) > (kept or 0)
        longer = google.caches.update(
            name=made.name, config=types.UpdateCachedContentConfig(ttl="600s")
        )
        assert longer.expire_time is not None
        assert made.expire_time is not None
        assert longer.expire_time > made.expire_time
        assert [found.display_name for found in google.caches.list()] == ["fox"]
        google.caches.delete(name=made.name)
        with pytest.raises(errors.ClientError, match="CachedContent not found"):
            google.caches.get(name=made.name)


def test_a_cached_content_that_is_small_or_sent_twice_is_refused() -> None:
    with GeminiServer(["never"]) as server:
        google = client(server)
        with pytest.raises(errors.ClientError, match="min_total_token_count=4096"):
            google.caches.create(
                model=MODEL, config=types.CreateCachedContentConfig(system_instruction="Short.")
            )
        made = google.caches.create(
            model=MODEL, config=types.CreateCachedContentConfig(system_instruction=LONG)
        )
        twice = types.GenerateContentConfig(cached_content=made.name, system_instruction="Again.")
        with pytest.raises(errors.ClientError, match="can not be used with"):
            google.models.generate_content(model=MODEL, contents="Hi", config=twice)
        elsewhere = types.GenerateContentConfig(cached_content=made.name)
        with pytest.raises(errors.ClientError, match="has to be the same"):
            google.models.generate_content(model=OLDER, contents="Hi", config=elsewhere)


def test_models_are_listed_and_told_about(hello: GeminiServer) -> None:
    models = client(hello).models
    about = models.get(model=MODEL)
    assert about.input_token_limit == 1_048_576
    assert about.output_token_limit == 65_536
    assert f"models/{MODEL}" in [model.name for model in models.list()]
    with pytest.raises(errors.ClientError, match="models/gemini-0 is not found"):
        models.get(model="gemini-0")


@pytest.mark.parametrize(
    ("headers", "status", "name"),
    [
        ({}, 403, "PERMISSION_DENIED"),
        ({"x-goog-api-key": "wrong"}, 400, "INVALID_ARGUMENT"),
        ({"authorization": "Bearer wrong"}, 401, "UNAUTHENTICATED"),
        ({"authorization": "Bearer right"}, 200, None),
        ({"x-goog-api-key": "right"}, 200, None),
    ],
)
def test_a_key_is_needed_and_must_be_the_right_one(
    headers: dict[str, str], status: int, name: str | None
) -> None:
    with GeminiServer(["Hello."], key="right") as server:
        body = {"contents": [{"parts": [{"text": "Hi"}]}]}
        address = f"{server.url}/v1beta/models/{MODEL}:generateContent"
        answer = httpx2.post(address, json=body, headers=headers)
    assert answer.status_code == status
    error = answer.json().get("error", {})
    assert error.get("status") == name
    if headers == {"x-goog-api-key": "wrong"}:
        assert error["details"][0]["reason"] == "API_KEY_INVALID"


def test_an_error_of_the_script_is_told_with_its_status_and_when_to_come_back() -> None:
    script = [
        ModelError("slow down", code="rate_limited", retry_after=7.0),
        ModelError("busy", status=503),
        RuntimeError("odd"),
        "Hello.",
    ]
    with GeminiServer(script) as server:
        body = {"contents": [{"parts": [{"text": "Hi"}]}]}
        answers = [post(server, "generateContent", body) for _ in script]
    assert [answer.status_code for answer in answers] == [429, 503, 500, 200]
    assert answers[0].headers["retry-after"] == "7"
    told = answers[0].json()["error"]
    assert told["status"] == "RESOURCE_EXHAUSTED"
    assert told["details"][0]["retryDelay"] == "7s"


@pytest.mark.parametrize("action", ["generateContent", "streamGenerateContent?alt=sse"])
@pytest.mark.parametrize("entry", [cut("It rains."), OSError("reset")])
def test_an_answer_that_is_cut_breaks_its_connection(action: str, entry: object) -> None:
    with GeminiServer([entry, "Hello."]) as server:  # type: ignore[list-item]
        body = {"contents": [{"parts": [{"text": "Hi"}]}]}
        with pytest.raises(httpx2.RemoteProtocolError):
            post(server, action, body)
        assert post(server, "generateContent", body).status_code == 200


def test_a_stream_that_fails_says_so_after_what_it_had_said() -> None:
    entry = fails_after("It ", error=ModelError("busy", status=503))
    with GeminiServer([entry]) as server:
        body = {"contents": [{"parts": [{"text": "Hi"}]}]}
        answer = post(server, "streamGenerateContent?alt=sse", body)
    first, second = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    assert first["candidates"][0]["content"]["parts"] == [{"text": "It "}]
    assert second["error"]["code"] == 503


async def test_a_client_that_goes_away_ends_the_stream() -> None:
    async with GeminiServer([" ".join(["word"] * 1_000), "Hello."], pace=0.01) as server:
        google = client(server)
        stream = await google.aio.models.generate_content_stream(model=MODEL, contents="?")
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        answer = await google.aio.models.generate_content(model=MODEL, contents="?")
        assert answer.text == "Hello."
        await asyncio.wait_for(google.aio.aclose(), 60)


def test_usage_of_a_script_and_callables_of_the_request_are_followed() -> None:
    def echo(request: GeminiRequest) -> object:
        assert request.body is not None
        return usage(request.body["contents"][0]["parts"][0]["text"], prompt=50, output=2, cached=9)

    with GeminiServer(["One.", echo]) as server:
        models = client(server).models
        assert models.generate_content(model=MODEL, contents="Say two.").text == "One."
        answer = models.generate_content(model=MODEL, contents="Say two.")
    assert answer.text == "Say two."
    assert answer.usage_metadata is not None
    assert answer.usage_metadata.cached_content_token_count == 9


def test_a_script_that_is_told_and_a_request_that_is_too_long_are_refused() -> None:
    tiny = GeminiModel("gemini-3-tiny", input_limit=20)
    with GeminiServer(["Hello."], models=[tiny]) as server:
        models = client(server).models
        assert models.generate_content(model="gemini-3-tiny", contents="Hi").text == "Hello."
        with pytest.raises(errors.ClientError, match="all are told"):
            models.generate_content(model="gemini-3-tiny", contents="Hi")
        with pytest.raises(errors.ClientError, match="exceeds the maximum number of tokens"):
            models.generate_content(model="gemini-3-tiny", contents=LONG)


def test_a_server_must_run_and_a_script_must_be_one() -> None:
    server = GeminiServer(["Hello."])
    with pytest.raises(UsageError, match="not running"):
        server.url  # noqa: B018
    with server, pytest.raises(UsageError, match="running already"):
        server.start()
    with pytest.raises(DeclarationError, match="is no script"):
        GeminiServer("Hello.")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=r"script\[0\]"):
        GeminiServer([object()])  # type: ignore[list-item]


def test_any_other_address_is_answered_with_a_page(hello: GeminiServer) -> None:
    lost = httpx2.get(f"{hello.url}/v2/models", headers={"x-goog-api-key": "any"})
    assert lost.status_code == 404
    assert lost.headers["content-type"].startswith("text/html")
