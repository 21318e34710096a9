"""Everything that the providers' own clients do, once without a proxy and once through it.

A row of the table is something that a client asks, and what its provider answers. The client must
get the same, the provider must be asked as often, and without a policy by the same bytes.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import pytest

from tests.server.proxy.talks import ANTHROPIC, CHAT, GEMINI, GEMINI_TALK, LONG, RESPONSES, Talk
from tests.server.proxy.test_recall import POLICY
from tests.server.proxy.upstream import Reply, Seen, Upstream, listening, proxying
from tests.support.late import late

if TYPE_CHECKING:
    import anthropic
    import openai
    import pydantic
    from google import genai
    from google.genai import types
else:
    anthropic, openai = late("anthropic"), late("openai")
    pydantic = late("pydantic")
    genai, types = late("google.genai"), late("google.genai.types")

SSE = {"content-type": "text/event-stream"}
WORKER = '{"name": "worker 1", "slow": true}'


def client_of(talk: Talk, url: str, *, retries: int = 0) -> Any:
    """The provider's own client."""
    if talk is ANTHROPIC:
        return anthropic.Anthropic(base_url=url, api_key="sk-x", max_retries=retries)
    if talk is GEMINI_TALK:
        again = types.HttpRetryOptions(attempts=retries + 1, initial_delay=0.001, max_delay=0.01)
        return genai.Client(
            api_key="x", http_options=types.HttpOptions(base_url=url, retry_options=again)
        )
    return openai.OpenAI(base_url=f"{url}/v1", api_key="sk-x", max_retries=retries)


def events(*listed: dict[str, Any], named: bool = True) -> Reply:
    """A stream of events."""
    lines = (
        (f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one)}\n\n"
        for one in listed
    )
    return Reply([*map(str.encode, lines)], headers=SSE)


# --- what is asked


def asked(talk: Talk, **more: Any) -> dict[str, Any]:
    """A request with a large result in its history, and what else it says."""
    request: dict[str, Any] = {**talk.request(), **more}
    if talk is CHAT:
        function = {"name": "read", "parameters": {"type": "object", "properties": {}}}
        request.setdefault("tools", [{"type": "function", "function": function}])
    if talk is RESPONSES:
        tool = {"type": "function", "name": "read", "strict": False,
                "parameters": {"type": "object", "properties": {}}}  # fmt: skip
        request.setdefault("tools", [tool])
    if talk is ANTHROPIC:
        request.setdefault("tools", [{"name": "read", "input_schema": {"type": "object"}}])
    return request


def worker() -> Any:
    """The type of an answer."""
    return pydantic.create_model("Worker", name=(str, ...), slow=(bool, ...))


def parse_chat(client: Any) -> Any:
    return client.chat.completions.parse(**asked(CHAT, tools=[]), response_format=worker())


def parse_chat_stream(client: Any) -> Any:
    request = asked(CHAT, tools=[], stream_options={"include_usage": True})
    with client.chat.completions.stream(**request, response_format=worker()) as stream:
        kinds = [one.type for one in stream]
        return kinds, stream.get_final_completion()


def parse_responses(client: Any) -> Any:
    return client.responses.parse(**asked(RESPONSES), text_format=worker())


def parse_claude(client: Any) -> Any:
    return client.messages.parse(**asked(ANTHROPIC), output_format=worker())


def parse_gemini(client: Any) -> Any:
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_schema=worker()
    )
    answer = client.models.generate_content(
        model="gemini-2.5-flash", contents=gemini_turns(), config=config
    )
    return answer.parsed, answer


def gemini_turns(*more: Any) -> list[Any]:
    """The history of a request in the client's own types."""
    return [types.Content.model_validate(one) for one in GEMINI_TALK.request()["contents"]] + [
        *more
    ]


def several_answers(client: Any) -> Any:
    return client.chat.completions.create(**asked(CHAT, n=2, logprobs=True))


def think_and_go_on(client: Any) -> Any:
    """A thought comes in a stream, and goes back with the next request as it came."""
    request = asked(ANTHROPIC, max_tokens=2000)
    request["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    mark = {"cache_control": {"type": "ephemeral"}}
    request["system"] = [{"type": "text", "text": "You watch.", **mark}]
    request["tools"][0] |= mark
    with client.messages.stream(**request) as stream:
        kinds = [one.type for one in stream]
        said = stream.get_final_message()
    content = [one.model_dump(exclude_none=True) for one in said.content]
    use = content[-1]["id"]
    result = {"type": "tool_result", "tool_use_id": use, "content": LONG, **mark}
    request["messages"] += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result]},
    ]
    return kinds, said, client.messages.create(**request)


def thinking(seen: Seen, number: int) -> Reply:
    """A thought with a signature, a sealed one, and a call; then words."""
    if number % 2:
        return ANTHROPIC.answer(ANTHROPIC.piece("text", "t", "Worker 1."))
    begun = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-5",
             "content": [], "stop_reason": None, "stop_sequence": None,
             "usage": {"input_tokens": 9, "output_tokens": 1}}  # fmt: skip
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "Let me "},
                {"type": "thinking_delta", "thinking": "see."},
                {"type": "signature_delta", "signature": "EqQBCkYIBBgCKkAx=="},
            ],
        ),
        ({"type": "redacted_thinking", "data": "c2VhbGVk"}, []),
        (
            {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
            [{"type": "input_json_delta", "partial_json": "{}"}],
        ),
    ]
    listed: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        listed.append({"type": "content_block_start", "index": index, "content_block": block})
        listed += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        listed.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    listed += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    return events(*listed)


def reason_and_go_on(client: Any) -> Any:
    """Sealed reasoning before a call goes back with its result."""
    request = asked(RESPONSES, store=False, include=["reasoning.encrypted_content"])
    first = client.responses.create(**request)
    request["input"] += [one.model_dump(exclude_none=True) for one in first.output]
    request["input"].append({"type": "function_call_output", "call_id": "c2", "output": LONG})
    return first, client.responses.create(**request)


def reasoning(seen: Seen, number: int) -> Reply:
    if number % 2:
        return RESPONSES.answer(RESPONSES.piece("text", "t", "Worker 1."))
    sealed = {"type": "reasoning", "id": "rs1", "summary": [], "encrypted_content": "gAAAA="}
    return RESPONSES.answer(sealed, RESPONSES.piece("call", "c2", ("read", {})))


def follow_stored(client: Any) -> Any:
    """The second request names the answer before it, and says only what is new."""
    first = client.responses.create(**asked(RESPONSES, store=True))
    output = {"type": "function_call_output", "call_id": "c2", "output": LONG}
    return first, client.responses.create(
        model="gpt-5", previous_response_id=first.id, input=[output]
    )


def sign_in_gemini(client: Any) -> Any:
    """Parallel calls, of which the first has a signature, and their results."""
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="read")])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    request: dict[str, Any] = {"model": "gemini-2.5-flash", "config": config}
    chunks = [*client.models.generate_content_stream(contents=gemini_turns(), **request)]
    said = types.Content(
        role="model", parts=[p for c in chunks for p in c.candidates[0].content.parts]
    )
    results = [
        types.Part.from_function_response(name="read", response={"result": LONG + str(at)})
        for at in range(2)
    ]
    turns = gemini_turns(said, types.Content(role="user", parts=results))
    return chunks, client.models.generate_content(contents=turns, **request)


def signing(seen: Seen, number: int) -> Reply:
    if number % 2:
        return GEMINI_TALK.answer({"text": "Worker 1.", "thoughtSignature": "c2ln"})
    call = GEMINI_TALK.piece("call", "", ("read", {}))
    thought = {"text": "hm", "thought": True}
    return GEMINI_TALK.answer(thought, {**call, "thoughtSignature": "c2ln"}, call, stream=True)


def list_in_gemini(client: httpx2.Client) -> Any:
    """A stream that is one JSON list, as clients without server-sent events ask for it."""
    answer = client.post(f"{GEMINI}:streamGenerateContent", json=GEMINI_TALK.request())
    return answer.headers["content-type"], answer.json()


def listing(seen: Seen, number: int) -> Reply:
    whole = json.loads(bytes(GEMINI_TALK.answer({"text": "Worker 1."}).body))  # type: ignore[arg-type]
    pieces = [b"[", json.dumps(whole).encode(), b"\n,\r\n", json.dumps(whole).encode(), b"]"]
    return Reply(pieces, headers={"content-type": "application/json"})


PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


def media(talk: Talk) -> Callable[[Any], Any]:
    """Pictures and files in the history, also as the result of a tool."""

    def ask(client: Any) -> Any:
        url = f"data:image/png;base64,{PICTURE}"
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        file = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
        match talk.name:
            case "openai-chat":
                parts: list[Any] = [
                    {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
                    {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=",
                                              "filename": "a.pdf"}},
                    {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
                ]  # fmt: skip
                more = {"role": "user", "content": parts}
                request = asked(talk)
                request["messages"].append(more)
                return client.chat.completions.create(**request)
            case "openai-responses":
                request = asked(talk)
                pieces = [{"type": "input_image", "image_url": url, "detail": "auto"}]
                request["input"] += [
                    {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c2", "output": pieces},
                ]
                return client.responses.create(**request)
            case "anthropic":
                request = asked(talk)
                image = {"type": "image", "source": source}
                use = {"type": "tool_use", "id": "c2", "name": "read", "input": {}}
                result = {"type": "tool_result", "tool_use_id": "c2",
                          "content": [image, {"type": "text", "text": LONG + "!"}]}  # fmt: skip
                request["messages"] += [
                    {"role": "assistant", "content": [use]},
                    {"role": "user", "content": [result, {"type": "document", "source": file}]},
                ]
                return client.messages.create(**request)
            case _:
                parts = [types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")]
                turns = gemini_turns(types.Content(role="user", parts=parts))
                return client.models.generate_content(model="gemini-2.5-flash", contents=turns)

    return ask


def say(talk: Talk, text: str = "Worker 1.") -> Callable[[Seen, int], Reply]:
    """An answer of one text, streamed where it is asked for so."""

    def script(seen: Seen, number: int) -> Reply:
        stream = (seen.body and seen.json.get("stream")) or "streamGenerate" in seen.path
        return talk.answer(talk.piece("text", "t", text), stream=bool(stream))

    return script


def ask_plainly(talk: Talk) -> Callable[[Any], Any]:
    def ask(client: Any) -> Any:
        match talk.name:
            case "openai-chat":
                return client.chat.completions.create(**asked(talk))
            case "openai-responses":
                return client.responses.create(**asked(talk))
            case "anthropic":
                return client.messages.create(**asked(talk))
            case _:
                return client.models.generate_content(
                    model="gemini-2.5-flash", contents=gemini_turns()
                )

    return ask


def failing(talk: Talk, *statuses: int) -> Callable[[Seen, int], Reply]:
    """Errors, each of which says when to ask again, and then an answer."""

    def script(seen: Seen, number: int) -> Reply:
        at = number % (len(statuses) + 1)
        if at == len(statuses):
            return say(talk)(seen, number)
        inner = {"type": "overloaded_error", "code": statuses[at], "status": "UNAVAILABLE"}
        error = {"type": "error", "error": {**inner, "message": "slow"}}
        headers = {"retry-after": "0", "content-type": "application/json", "x-should-retry": "true"}
        return Reply(json.dumps(error).encode(), statuses[at], headers)

    return script


def error_of(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What the client raises."""

    def fail(client: Any) -> Any:
        try:
            return ask(client)
        except Exception as error:
            return type(error).__name__, str(error)

    return fail


def refusing(status: int) -> Callable[[Seen, int], Reply]:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": f"no {status}",
                                       "code": status, "status": "INVALID"}}  # fmt: skip
    headers = {"content-type": "application/json", "request-id": "req_1"}
    return lambda seen, number: Reply(json.dumps(body).encode(), status, headers)


class Row(NamedTuple):
    """Something that a client asks, and what its provider says."""

    name: str
    talk: Talk
    ask: Callable[[Any], Any]
    script: Callable[[Seen, int], Reply]
    retries: int = 0
    shrinks: bool = True
    """Whether the request can have the tool `recall`, so that the result is left out."""


def _row_of_several() -> Row:
    def script(seen: Seen, number: int) -> Reply:
        whole = json.loads(bytes(CHAT.answer("One.").body))  # type: ignore[arg-type]
        (choice,) = whole["choices"]
        whole["choices"] = [choice, {**choice, "index": 1, "new_field": {"a": None}}]
        whole["unheard_of"] = [1.5]
        return Reply(json.dumps(whole).encode(), headers={"content-type": "application/json"})

    name = "several answers, with fields that nobody knows"
    return Row(name, CHAT, several_answers, script, shrinks=False)


ALL = (CHAT, RESPONSES, ANTHROPIC, GEMINI_TALK)

ROWS = [
    Row("a parsed answer", CHAT, parse_chat, say(CHAT, WORKER)),
    Row("a parsed stream", CHAT, parse_chat_stream, say(CHAT, WORKER)),
    Row("a parsed response", RESPONSES, parse_responses, say(RESPONSES, WORKER)),
    Row("a parsed message", ANTHROPIC, parse_claude, say(ANTHROPIC, WORKER)),
    Row("a parsed content", GEMINI_TALK, parse_gemini, say(GEMINI_TALK, WORKER), shrinks=False),
    _row_of_several(),
    Row("thoughts and marks", ANTHROPIC, think_and_go_on, thinking),
    Row("sealed reasoning", RESPONSES, reason_and_go_on, reasoning),
    Row("a stored response", RESPONSES, follow_stored, reasoning),
    Row("signed parallel calls", GEMINI_TALK, sign_in_gemini, signing),
    *(Row(f"media, {one.name}", one, media(one), say(one)) for one in ALL),
    *(
        Row(f"429 and 529, {one.name}", one, ask_plainly(one), failing(one, 429, 503), retries=3)
        for one in ALL
    ),
    Row("529 by Anthropic", ANTHROPIC, ask_plainly(ANTHROPIC), failing(ANTHROPIC, 529), retries=2),
    *(
        Row(f"{status}, {one.name}", one, error_of(ask_plainly(one)), refusing(status))
        for one in ALL
        for status in (401, 404, 413)
    ),
]


@contextmanager
def straight(script: Callable[[Seen, int], Reply]) -> Iterator[tuple[str, Upstream]]:
    """The provider alone."""
    upstream = Upstream(script)
    with listening(upstream) as url:
        yield url, upstream


def dump(value: Any) -> Any:
    """What a client has, as JSON."""
    if isinstance(value, tuple | list):
        return [dump(one) for one in value]
    if not hasattr(value, "model_dump"):
        return value
    # the headers of an answer have its time
    return value.model_dump(mode="json", exclude={"sdk_http_response"}, warnings=False)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_client_gets_through_a_proxy_what_it_gets_without(row: Row) -> None:
    with (
        straight(row.script) as (url, upstream),
        client_of(row.talk, url, retries=row.retries) as client,
    ):
        expected = dump(row.ask(client))
        whole = [(seen.method, seen.path, seen.query, seen.body) for seen in upstream.seen]
    for policy in ("C.default()", POLICY, "C.auto()"):
        with (
            proxying(row.script, policy) as proxy,
            client_of(row.talk, proxy.url, retries=row.retries) as client,
        ):
            assert dump(row.ask(client)) == expected, policy
            seen = [(one.method, one.path, one.query, one.body) for one in proxy.upstream.seen]
            assert [one[:3] for one in seen] == [one[:3] for one in whole], policy
            assert not proxy.faults, policy
            if policy == "C.default()":
                assert seen == whole
            elif policy == POLICY and row.shrinks:
                assert len(seen[0][3]) < len(whole[0][3]) / 2, "nothing was made smaller"


def test_a_list_that_comes_in_pieces_goes_on_piece_by_piece() -> None:
    with straight(listing) as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        expected = list_in_gemini(client)
    for policy in ("C.default()", POLICY):
        with (
            proxying(listing, policy) as proxy,
            httpx2.Client(base_url=proxy.url, timeout=60) as client,
        ):
            assert list_in_gemini(client) == expected
            assert not proxy.faults
            # nobody can answer a recall in the middle of a list
            assert b"recall" not in proxy.upstream.seen[0].body
            assert proxy.line(0).tokens_before


@pytest.mark.parametrize("policy", ["C.default()", POLICY])
@pytest.mark.parametrize("talk", ALL, ids=lambda talk: talk.name)
def test_a_client_that_stops_reading_ends_the_request_and_asks_again(
    talk: Talk, policy: str
) -> None:
    never = threading.Event()

    def script(seen: Seen, number: int) -> Reply:
        reply = talk.answer(talk.piece("text", "t", "Word " * 90), stream=True)
        assert isinstance(reply.body, list)
        if number:
            return reply
        whole = b"".join(reply.body)
        middle = whole.index(b"\n\n", len(whole) // 3) + 2
        return Reply([whole[:middle], whole[middle:]], headers=reply.headers, wait=never)

    def stream(client: Any) -> Any:
        match talk.name:
            case "openai-chat":
                return client.chat.completions.create(**asked(talk), stream=True)
            case "openai-responses":
                return client.responses.create(**asked(talk), stream=True)
            case "anthropic":
                return client.messages.create(**asked(talk), stream=True)
            case _:
                return client.models.generate_content_stream(
                    model="gemini-2.5-flash", contents=gemini_turns()
                )

    if talk is GEMINI_TALK:
        del script

        def script(seen: Seen, number: int) -> Reply:
            whole = talk.answer({"text": "Word "}, {"text": "Word "}, stream=True)
            assert isinstance(whole.body, list)
            first, _, rest = b"".join(whole.body).partition(b"\n\n")
            pieces = [first + b"\n\n", rest]
            return Reply(pieces, headers=whole.headers, wait=None if number else never)

    with proxying(script, policy) as proxy, client_of(talk, proxy.url) as client:
        answer = stream(client)
        assert next(iter(answer))
        answer.close()
        if talk is GEMINI_TALK:
            client.close()
        assert proxy.upstream.gone.wait(60)
        never.set()
        with client_of(talk, proxy.url) as again:
            assert len([*stream(again)]) > 1
        assert not proxy.faults


def test_many_calls_of_one_asynchronous_client_at_once_get_their_own_answers() -> None:
    def script(seen: Seen, number: int) -> Reply:
        words = seen.json["messages"][-1]["content"]
        return ANTHROPIC.answer(ANTHROPIC.piece("text", "t", f"To {words}"), stream=True)

    async def ask(client: Any, number: int) -> str:
        turn = {"role": "user", "content": f"number {number}"}
        request = asked(ANTHROPIC)
        request["messages"] = [*request["messages"], {"role": "assistant", "content": "So?"}, turn]
        async with client.messages.stream(**request) as stream:
            message = await stream.get_final_message()
        return str(message.content[0].text)

    async def ask_all(url: str) -> list[str]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(12)))

    for policy in (POLICY, "C.auto()"):
        with proxying(script, policy) as proxy:
            answers = asyncio.run(ask_all(proxy.url))
            assert answers == [f"To number {number}" for number in range(12)]
            assert not proxy.faults


def test_a_policy_redacts_also_where_nothing_can_be_recalled() -> None:
    turn = {"role": "user", "parts": [{"text": "Write to jane@example.com"}]}
    with (
        proxying(listing, 'C.auto().redact("email")') as proxy,
        httpx2.Client(base_url=proxy.url, timeout=60) as client,
    ):
        client.post(f"{GEMINI}:streamGenerateContent", json=GEMINI_TALK.request(turn))
        assert not proxy.faults
        assert b"jane@example.com" not in proxy.upstream.seen[0].body
