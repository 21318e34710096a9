"""What goes through a proxy unchanged, and what a client and a provider do not notice."""

import gzip
import json
import re
import socket
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.server.proxy.upstream import Reply, Seen, proxying
from weft.models.http import Timeouts
from weft.server.proxy_relay import LARGEST_BODY

EVENTS = b"\n".join(
    (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m1",'
        b'"role":"assistant","content":[],"usage":{"input_tokens":9}}}\n',
        b": a comment\n",
        b'event: ping\ndata: {"type":"ping"}\n',
        b'event: unheard_of\ndata: {"type":"unheard_of","recall":1}\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"I recall \\u00e9t\\u00e9."}}\n',
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n',
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
        b'"usage":{"output_tokens":5}}\n',
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    )
)

LONG = "\n".join(f"12:{n % 60:02} worker {n} finished in {n * 7 % 90} ms" for n in range(900))

REQUESTS: dict[str, tuple[str, Any]] = {
    "chat": (
        "/v1/chat/completions",
        {"model": "gpt-5", "messages": [{"role": "user", "content": "été"}], "x_new": {"a": 1.50}},
    ),
    "responses": ("/v1/responses", {"input": "hi", "model": "gpt-5"}),
    "anthropic": (
        "/v1/messages?beta=true",
        {
            "max_tokens": 9,
            "model": "claude-sonnet-5",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi", "unknown": None}]}
            ],
        },
    ),
    "count": (
        "/v1/messages/count_tokens",
        {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "hi"}]},
    ),
    "gemini": (
        "/v1beta/models/gemini-3-flash:generateContent?key=AIza-hidden",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
    "gemini count": (
        "/v1beta/models/gemini-3-flash:countTokens",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}


@pytest.mark.parametrize("policy", ["C.default()", "C.auto()"])
def test_bytes_go_as_they_came_both_ways(policy: str) -> None:
    pieces = [EVENTS[at : at + 41] for at in range(0, len(EVENTS), 41)]

    def script(seen: Seen, number: int) -> Reply:
        if b'"stream": true' in seen.body:
            return Reply(pieces, headers={"content-type": "text/event-stream"})
        return Reply(b'{"odd" :  [1.0, null]}', 201, {"content-type": "application/json"})

    with proxying(script, policy) as proxy, httpx2.Client(timeout=60) as client:
        for path, request in REQUESTS.values():
            body = json.dumps(request, indent=1).encode()
            answer = client.post(proxy.url + path, content=body)
            assert proxy.upstream.seen[-1].body == body
            assert proxy.upstream.seen[-1].path == path.partition("?")[0]
            assert proxy.upstream.seen[-1].query == path.partition("?")[2]
            assert (answer.status_code, answer.content) == (201, b'{"odd" :  [1.0, null]}')
        path, request = REQUESTS["anthropic"]
        body = json.dumps({**request, "stream": True}).encode()
        answer = client.post(proxy.url + path, content=body)
        assert answer.content == EVENTS
        assert proxy.upstream.seen[-1].body == body
        assert not proxy.faults


def test_what_nobody_reads_is_streamed_both_ways() -> None:
    released = threading.Event()

    def script(seen: Seen, number: int) -> Reply:
        headers = {"x-own": "1", "connection": "x-gone", "x-gone": "1"}
        return Reply([b"first", seen.body], 418, headers, wait=released)

    with proxying(script) as proxy, httpx2.Client(timeout=60) as client:
        headers = {
            "connection": "x-hop",
            "x-hop": "1",
            "x-api-key": "sk-secret",
            "x-weft-session": "s",
        }
        sent = client.stream(
            "PUT", f"{proxy.url}/v1/files/a%2Fb?x=%20y", content=iter([b"a", b"b"]), headers=headers
        )
        with sent as answer:
            pieces = answer.iter_raw()
            assert next(pieces) == b"first"  # before the provider has said the rest
            released.set()
            assert b"".join(pieces) == b"ab"
            assert (answer.status_code, answer.headers["x-own"]) == (418, "1")
            assert "x-gone" not in answer.headers
        seen = proxy.upstream.seen[0]
        assert (seen.method, seen.path, seen.query) == ("PUT", "/v1/files/a%2Fb", "x=%20y")
        assert seen.headers["x-api-key"] == "sk-secret"
        assert not {"x-hop", "x-weft-session"} & seen.headers.keys()
        cookie = {"cookie": "weft-8787=token", "accept-encoding": "br"}
        assert client.get(f"{proxy.url}/favicon.ico", headers=cookie).status_code == 418
        assert "cookie" not in proxy.upstream.seen[-1].headers
        assert proxy.upstream.seen[-1].headers["accept-encoding"] == "br"
        assert client.head(f"{proxy.url}/").status_code == 418


def _talk_with_a_log() -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return {
        "model": "gpt-5",
        "odd": [1.0],
        "messages": [
            {"role": "user", "content": "Which worker was slow?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": LONG},
        ],
    }


def test_large_results_are_compacted_and_the_rest_stays() -> None:
    request = _talk_with_a_log()
    with (
        proxying(lambda *_: Reply(), "C.default().compact()") as proxy,
        httpx2.Client(timeout=60) as client,
    ):
        client.post(f"{proxy.url}/v1/chat/completions", json=request)
        sent = proxy.upstream.seen[0].json
        assert len(proxy.upstream.seen[0].body) < len(json.dumps(request)) / 3
        assert sent["messages"][:2] == request["messages"][:2]
        assert sent["odd"] == [1.0]
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["recall"]
        assert proxy.line(0).tokens < proxy.line(0).tokens_before / 2


def _hostile_bodies() -> list[tuple[str, bytes, dict[str, str]]]:
    deep = b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    packed = gzip.compress(json.dumps(REQUESTS["chat"][1]).encode())
    return [
        ("not JSON", b"\xff\xfe{", {}),
        ("empty", b"", {}),
        ("a list", b'[{"role":"user","content":"hi"}]', {}),
        ("a number", b"1e999", {}),
        ("too deep", deep, {}),
        ("odd messages", b'{"messages": {"a": 1}, "model": 5}', {}),
        ("broken pieces", b'{"model":"m","messages":[null, 5, {"role": 7, "content": {}}]}', {}),
        ("half a character", b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}', {}),
        ("twice a key", b'{"messages":[],"messages":[{"role":"user","content":"x"}]}', {}),
        ("gzip", packed, {"content-encoding": "gzip"}),
        ("not gzip", b"{}", {"content-encoding": "gzip"}),
        ("gzip and more", packed + gzip.compress(b" "), {"content-encoding": "gzip"}),
        ("a cut gzip", packed[:-9], {"content-encoding": "gzip"}),
        ("a bomb", gzip.compress(b" " * (LARGEST_BODY + 1)), {"content-encoding": "gzip"}),
        ("another packing", b"\x28\xb5\x2f\xfd", {"content-encoding": "zstd"}),
    ]


def test_what_cannot_be_read_goes_on_as_it_came() -> None:
    with proxying(lambda *_: Reply(b"no", 400)) as proxy, httpx2.Client(timeout=60) as client:
        for name, body, headers in _hostile_bodies():
            for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
                answer = client.post(proxy.url + path, content=body, headers=headers)
                assert (answer.status_code, answer.content) == (400, b"no"), name
                seen = proxy.upstream.seen[-1]
                assert seen.body == body, name
                packing = headers.get("content-encoding")
                assert seen.headers.get("content-encoding") == packing, name


def test_an_answer_that_is_packed_unasked_goes_on_as_it_came() -> None:
    headers = {"content-type": "application/json", "content-encoding": "zstd"}
    with (
        proxying(lambda *_: Reply(b"sealed", headers=headers), "C.default().compact()") as proxy,
        httpx2.Client(timeout=60) as client,
    ):
        url = f"{proxy.url}/v1/chat/completions"
        with client.stream("POST", url, json=_talk_with_a_log()) as answer:
            assert answer.headers["content-encoding"] == "zstd"
            assert b"".join(answer.iter_raw()) == b"sealed"
        assert [one["function"]["name"] for one in proxy.upstream.seen[0].json["tools"]] == [
            "recall"
        ]


def _recalls_first(then: Reply) -> Callable[[Seen, int], Reply]:
    """A provider whose model recalls, and that then answers something."""

    def script(seen: Seen, number: int) -> Reply:
        if number:
            return then
        handle = re.search(rb"handle ([0-9a-f]{12})", seen.body)
        assert handle is not None
        arguments = json.dumps({"handle": handle[1].decode()})
        call = {"id": "r", "type": "function", "function": {"name": "recall"}}
        call["function"] = {"name": "recall", "arguments": arguments}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return Reply(json.dumps({"choices": [{"index": 0, "message": message}]}).encode())

    return script


def test_an_answer_that_nobody_can_unpack_goes_on_as_it_came_with_its_headers() -> None:
    for packing in ("br", "zstd", "gzip", "deflate", "gzip, br", "nonsense"):
        sealed = Reply(b"sealed", headers={"content-encoding": packing})
        for script in (lambda *_, reply=sealed: reply, _recalls_first(sealed)):
            with (
                proxying(script, "C.default().compact()") as proxy,
                httpx2.Client(timeout=60) as client,
                client.stream(
                    "POST", f"{proxy.url}/v1/chat/completions", json=_with_result("")
                ) as answer,
            ):
                assert answer.status_code == 200, packing
                assert answer.headers["content-encoding"] == packing
                assert b"".join(answer.iter_raw()) == b"sealed"
                assert not proxy.faults


PACKINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("GZIP", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", lambda body: zlib.compress(body)[2:-4]),  # without its head, as some send it
]


def test_a_packed_answer_that_recalls_is_answered() -> None:
    fine = Reply(b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}]}')
    for packing, pack in PACKINGS:
        plain = _recalls_first(fine)

        def script(
            seen: Seen, number: int, plain: Any = plain, packing: str = packing, pack: Any = pack
        ) -> Reply:
            reply = plain(seen, number)
            return Reply(pack(reply.body), headers={"content-encoding": packing})

        with proxying(script, "C.default().compact()") as proxy, httpx2.Client() as client:
            answer = client.post(f"{proxy.url}/v1/chat/completions", json=_with_result(""))
            assert answer.json()["choices"][0]["message"]["content"] == "hi", packing
            assert len(proxy.upstream.seen) == 2


def test_an_answer_that_breaks_off_is_told_as_the_providers_fault() -> None:
    cut = Reply([b'{"choices"', b""], headers={"content-type": "application/json"}, dies=True)
    for script, asked in ((lambda *_: cut, 1), (_recalls_first(cut), 2)):
        with (
            proxying(script, "C.default().compact()") as proxy,
            httpx2.Client(timeout=60) as client,
        ):
            answer = client.post(f"{proxy.url}/v1/chat/completions", json=_with_result(""))
            assert answer.status_code == 502
            assert "the answer broke off" in answer.json()["error"]["message"]
            assert len(proxy.upstream.seen) == asked
            assert not proxy.faults

    def refuse(seen: Seen, number: int) -> Reply:
        return Reply(b'{"fine":1}') if number else replace(cut, status=400)

    with proxying(refuse, "C.default().compact()") as proxy, httpx2.Client() as client:
        answer = client.post(f"{proxy.url}/v1/chat/completions", json=_with_result(""))
        assert answer.json() == {"fine": 1}


def test_odd_forms_of_http_go_through() -> None:
    path, request = REQUESTS["chat"]
    content = json.dumps(request).encode()
    line, length = f"POST {path} HTTP/1.1", f"content-length: {len(content)}"
    close = "connection: close"
    pieces = b"%x\r\n%s\r\n0\r\nx-digest: 1\r\n\r\n" % (len(content), content)
    with proxying(lambda *_: Reply(b"ok")) as proxy:
        for headers, sent in (
            ([length, "expect: 100-continue"], content),
            (["transfer-encoding: chunked", "trailer: x-digest"], pieces),
            ([length, f"x-long: {'x' * 60_000}"], content),
            ([length, "x-name: é"], content),
        ):
            head, body = _talk_raw(proxy.url, line, close, *headers, content=sent)
            assert "HTTP/1.1 200 OK" in head + body.decode(), headers[-1][:30]
            assert proxy.upstream.seen[-1].body == content
            assert not {"expect", "trailer"} & {*proxy.upstream.seen[-1].headers}
        for method in ("PROPFIND", "QUERY", "PATCH", "TRACE", "UNHEARD"):
            head, body = _talk_raw(proxy.url, f"{method} /v1/files HTTP/1.1", close)
            assert (head.partition("\r\n")[0], body) == ("HTTP/1.1 200 OK", b"ok"), method
            assert proxy.upstream.seen[-1].method == method
        count = len(proxy.upstream.seen)
        for broken in ("POST /v1/chat", "nonsense"):
            assert _talk_raw(proxy.url, broken)[0].startswith("HTTP/1.1 400 "), broken
        assert len(proxy.upstream.seen) == count


def test_fifty_megabytes_and_chunks_go_through() -> None:
    picture = {"url": "data:image/png;base64," + "A" * 50_000_000}
    content = [{"type": "image_url", "image_url": picture}]
    request = {"model": "gpt-5", "messages": [{"role": "user", "content": content}]}
    body = json.dumps(request).encode()
    with proxying(lambda *_: Reply(b'{"a":1}')) as proxy, httpx2.Client(timeout=120) as client:
        pieces = (body[at : at + 1_000_000] for at in range(0, len(body), 1_000_000))
        answer = client.post(f"{proxy.url}/v1/chat/completions", content=pieces)
        assert answer.json() == {"a": 1}
        assert proxy.upstream.seen[0].body == body


def test_a_packed_answer_comes_packed_and_is_counted() -> None:
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 5},
        "model": "gpt-5",
    }
    packed = gzip.compress(json.dumps(answer).encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    with proxying(lambda *_: Reply(packed, headers=headers), "C.default()") as proxy:
        with httpx2.Client(headers={"accept-encoding": "gzip, br"}) as client:
            path, request = REQUESTS["chat"]
            with client.stream("POST", proxy.url + path, json=request) as response:
                assert b"".join(response.iter_raw()) == packed
        assert proxy.upstream.seen[0].headers["accept-encoding"] == "gzip"
        assert proxy.line(0).cost > 0


def test_errors_of_the_provider_come_as_they_are() -> None:
    def script(seen: Seen, number: int) -> Reply:
        return Reply(b'{"error":"slow down"}', (429, 529)[number], {"retry-after": "7"})

    with proxying(script) as proxy, httpx2.Client(timeout=60) as client:
        for status in (429, 529):
            path, request = REQUESTS["anthropic"]
            answer = client.post(proxy.url + path, json=request)
            assert (answer.status_code, answer.headers["retry-after"]) == (status, "7")
            assert answer.content == b'{"error":"slow down"}'
        assert len(proxy.upstream.seen) == 2  # asked once each: the client decides about a retry


def _with_result(path: str) -> dict[str, Any]:
    del path
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return {
        "model": "gpt-5",
        "messages": [
            {"role": "user", "content": "Which worker was slow?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": LONG},
        ],
    }


def test_a_compacted_request_that_is_refused_goes_as_it_came_once() -> None:
    def script(seen: Seen, number: int) -> Reply:
        return Reply(b"bad", 400) if b"recall" in seen.body else Reply(b'{"fine":1}')

    with proxying(script, "C.default().compact()") as proxy, httpx2.Client(timeout=60) as client:
        request = _with_result("")
        answer = client.post(f"{proxy.url}/v1/chat/completions", json=request)
        assert answer.json() == {"fine": 1}
        assert [seen.json == request for seen in proxy.upstream.seen] == [False, True]
        assert proxy.faults == {"refused": 1}
    with proxying(lambda *_: Reply(b"bad", 400), "C.default().compact()") as proxy:
        with httpx2.Client(timeout=60) as client:
            answer = client.post(f"{proxy.url}/v1/chat/completions", json=_with_result(""))
        assert (answer.status_code, answer.content) == (400, b"bad")
        assert len(proxy.upstream.seen) == 2


def test_a_fault_of_ours_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("weft.server.proxy.compact_body", fail)
    with proxying(lambda *_: Reply(b'{"fine":1}')) as proxy, httpx2.Client(timeout=60) as client:
        answer = client.post(f"{proxy.url}/v1/chat/completions", json=_with_result(""))
        assert answer.json() == {"fine": 1}
        assert proxy.upstream.seen[0].json == _with_result("")
        assert proxy.faults == {"compact": 1}
        assert proxy.line(0).fault == "compact: RuntimeError"
    with (
        proxying(lambda *_: Reply(b'{"fine":1}'), strict=True) as proxy,
        httpx2.Client(timeout=60) as client,
    ):
        answer = client.post(f"{proxy.url}/v1/chat/completions", json=_with_result(""))
        assert (answer.status_code, len(proxy.upstream.seen)) == (500, 0)
        assert "weft proxy" in answer.json()["error"]["message"]


@pytest.mark.parametrize("policy", ["C.default()", "C.auto()"])
def test_requests_of_a_client_that_marks_nothing_are_marked_where_that_is_asked_for(
    policy: str,
) -> None:
    path, bare = REQUESTS["anthropic"]
    mark = {"cache_control": {"type": "ephemeral"}}
    own = {**bare, "system": [{"type": "text", "text": "Be brief.", **mark}]}
    sent = [(path, bare), (path, own), REQUESTS["chat"], ("/v1/messages/count_tokens", bare)]
    for cache in (True, False):
        with (
            proxying(lambda *_: Reply(b'{"fine":1}'), policy, cache=cache) as proxy,
            httpx2.Client(timeout=60) as client,
        ):
            for path, request in sent:
                assert client.post(proxy.url + path, json=request).json() == {"fine": 1}
            seen = [one.json for one in proxy.upstream.seen]
        expected = [request for _, request in sent]
        assert seen == ([{**bare, **mark}, *expected[1:]] if cache else expected)


@pytest.mark.parametrize("cache", [False, True])
def test_the_terminal_says_where_marks_would_save_money(cache: bool) -> None:
    path, bare = REQUESTS["anthropic"]
    mark = {"cache_control": {"type": "ephemeral"}}
    long = {**bare, "messages": [{"role": "user", "content": LONG}]}
    with (
        proxying(lambda *_: Reply(b'{"fine":1}'), cache=cache) as proxy,
        httpx2.Client(timeout=60) as client,
    ):
        for request in (bare, long, {**long, **mark}):
            client.post(proxy.url + path, json=request)
        said = ["try --cache" in str(proxy.line(number)) for number in range(3)]
    assert said == [False, not cache, False]


def test_a_request_that_is_refused_for_our_mark_goes_as_it_came() -> None:
    def script(seen: Seen, number: int) -> Reply:
        return Reply(b'{"fine":1}') if number else Reply(b"what is cache_control?", 400)

    path, request = REQUESTS["anthropic"]
    with proxying(script, cache=True) as proxy, httpx2.Client(timeout=60) as client:
        assert client.post(proxy.url + path, json=request).json() == {"fine": 1}
        assert [one.json == request for one in proxy.upstream.seen] == [False, True]


def test_a_provider_that_hangs_dies_or_is_not_there() -> None:
    never = threading.Event()

    def script(seen: Seen, number: int) -> Reply:
        if number == 0:
            return Reply(b"late", wait=never)
        return Reply([EVENTS[:300], b""], headers={"content-type": "text/event-stream"}, dies=True)

    path, request = REQUESTS["anthropic"]
    with proxying(script, timeouts=Timeouts(read=0.3, first_byte=0.3)) as proxy:
        with httpx2.Client(timeout=60) as client:
            answer = client.post(proxy.url + path, json=request)
            assert answer.status_code == 504
            assert answer.json()["type"] == "error"
            with pytest.raises(httpx2.RemoteProtocolError):
                client.post(proxy.url + path, json=request)
        never.set()
    with proxying(script) as proxy, httpx2.Client(timeout=60) as client:
        proxy.application.exchanges.settings = proxy.application.exchanges.settings._replace(
            upstreams={
                name: one._replace(base="http://127.0.0.1:9")
                for name, one in proxy.application.exchanges.settings.upstreams.items()
            }
        )
        answer = client.post(f"{proxy.url}/v1/chat/completions?key=AIza-hidden", json={"a": 1})
        assert answer.status_code == 502
        assert "AIza" not in answer.text


def test_calls_without_an_answer_are_recorded_with_why_and_do_not_part_a_conversation() -> None:
    answer = {"role": "assistant", "content": "Sun."}
    body = {"id": "r1", "choices": [{"index": 0, "finish_reason": "stop", "message": answer}]}
    refusal = {"error": {"message": "slow down: sk-" + "a1B2" * 8, "code": "rate_limit_exceeded"}}
    never = threading.Event()

    def script(seen: Seen, number: int) -> Reply:
        last = seen.json["messages"][-1]["content"]
        if last == "refused":
            return Reply(json.dumps(refusal).encode(), 429)
        if last in ("late", "left"):
            return Reply(b"", wait=never)
        return Reply(json.dumps(body).encode())

    said = [{"role": "user", "content": "Weather?"}]
    with proxying(script, timeouts=Timeouts(read=0.3, first_byte=0.3)) as proxy:

        def ask(*more: str, seconds: float = 60) -> int:
            words = [{"role": "user", "content": text} for text in more]
            request = {"model": "gpt-5", "messages": [*said, *words]}
            with httpx2.Client(timeout=seconds) as client:
                return client.post(f"{proxy.url}/v1/chat/completions", json=request).status_code

        assert ask() == 200
        said.append(answer)
        assert ask("refused") == 429
        assert ask("late") == 504
        exchanges = proxy.application.exchanges
        exchanges.settings = exchanges.settings._replace(timeouts=Timeouts())
        with pytest.raises(httpx2.ReadTimeout):
            ask("left", seconds=0.5)
        proxy.line(3)
        assert ask("More?") == 200
        never.set()
        headers = {"authorization": f"Bearer {proxy.application.token}"}
        with httpx2.Client(base_url=f"{proxy.url}/weft/inspect/api", headers=headers) as page:
            (row,) = page.get("sessions").json()
            film = page.get("film", params={"session": row["key"]}).json()
    errors = [frame["error"] for frame in film["frames"]]
    assert [bool(error) for error in errors] == [False, True, True, True, False]
    assert errors[1].startswith("rate_limited: slow down")
    assert "a1B2" not in errors[1]
    assert errors[2].startswith("timeout: ")
    assert errors[3].startswith("cancelled: ")
    assert [line.status for line in proxy.lines] == [200, 429, 504, 499, 200]


def test_a_client_that_leaves_ends_the_request_upstream() -> None:
    never = threading.Event()

    def script(seen: Seen, number: int) -> Reply:
        return Reply(
            [EVENTS[:300], b"rest"], headers={"content-type": "text/event-stream"}, wait=never
        )

    path, request = REQUESTS["anthropic"]
    with proxying(script) as proxy:
        with (
            httpx2.Client(timeout=60) as client,
            client.stream("POST", proxy.url + path, json=request) as answer,
        ):
            assert next(answer.iter_raw())
        assert proxy.upstream.gone.wait(60)
        never.set()


def test_keys_are_neither_stored_nor_shown(
    caplog: pytest.LogCaptureFixture, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recorded"
    proxied = proxying(lambda *_: Reply(b"{}"), path=tmp_path / "p.db", record=folder)
    with caplog.at_level("DEBUG"), httpx2.Client(timeout=60) as client, proxied as proxy:
        headers = {"authorization": "Bearer sk-one-hidden", "x-api-key": "sk-two-hidden"}
        for path, request in REQUESTS.values():
            mark = "&" if "?" in path else "?"
            client.post(f"{proxy.url}{path}{mark}key=AIza-hidden", json=request, headers=headers)
            assert proxy.upstream.seen[-1].headers["x-api-key"] == "sk-two-hidden"
    kept = b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    own = [one for one in caplog.records if not one.name.startswith(("httpx2", "httpcore2"))]
    shown = (
        " ".join(one.getMessage() for one in own).encode() + "".join(capsys.readouterr()).encode()
    )
    assert kept
    assert b"hidden" not in kept + shown


def test_pages_of_others_and_other_names_are_refused() -> None:
    tried: list[tuple[Callable[[], httpx2.Response], int]] = []
    with proxying(lambda *_: Reply(b"{}")) as proxy, httpx2.Client(timeout=60) as client:
        path, request = REQUESTS["chat"]
        url = proxy.url + path
        tried += [
            (
                lambda: client.post(url, json=request, headers={"origin": "http://evil.example"}),
                403,
            ),
            (lambda: client.post(url, json=request, headers={"host": "evil.example"}), 421),
            (lambda: client.get(f"{proxy.url}/weft/inspect/api/sessions"), 401),
        ]
        assert [ask().status_code == status for ask, status in tried] == [True] * 3
        assert not proxy.upstream.seen
        token = proxy.application.token
        answer = client.get(
            f"{proxy.url}/weft/inspect/api/sessions", headers={"authorization": f"Bearer {token}"}
        )
        assert answer.json() == []


def test_old_clients_and_requests_without_a_body_are_passed_on_as_they_came() -> None:
    reply = Reply(b"ok", headers={"content-type": "text/plain"})
    with proxying(lambda *_: reply, "C.default().compact()") as proxy:
        for method, path in (("HEAD", "/v1/models"), ("OPTIONS", "/v1/messages"), ("GET", "/odd")):
            head, body = _talk_raw(proxy.url, f"{method} {path}?a=b HTTP/1.1", "connection: close")
            assert head.startswith("HTTP/1.1 200 "), method
            assert body == (b"" if method == "HEAD" else b"ok"), method
            seen = proxy.upstream.seen[-1]
            assert (seen.method, seen.path, seen.query) == (method, path, "a=b")
        content = json.dumps(_talk_with_a_log()).encode()
        head, body = _talk_raw(
            proxy.url,
            "POST /v1/chat/completions HTTP/1.0",
            f"content-length: {len(content)}",
            content=content,
        )
        assert " 200 " in head
        assert body == b"ok"
        assert len(proxy.upstream.seen[-1].body) < len(content), "it was not compacted"


def test_a_websocket_gets_an_answer_and_no_silence() -> None:
    with proxying(lambda *_: Reply(b"ok")) as proxy:
        head, _ = _talk_raw(
            proxy.url,
            "GET /v1/realtime?model=gpt-realtime HTTP/1.1",
            "connection: Upgrade",
            "upgrade: websocket",
            "sec-websocket-version: 13",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        )
        assert head.startswith("HTTP/1.1 "), head
        assert " 101 " not in head


def test_two_clients_with_one_history_at_once_get_the_same_bytes_sent() -> None:
    answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": "hi"}}]}).encode()
    with (
        proxying(lambda *_: Reply(answer), "C.default().compact()") as proxy,
        httpx2.Client(timeout=60) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        url, talk = f"{proxy.url}/v1/chat/completions", _talk_with_a_log()
        waiting = [pool.submit(client.post, url, json=talk) for _ in range(16)]
        answers = [one.result().content for one in waiting]
        assert answers == [answer] * 16
        assert len({one.body for one in proxy.upstream.seen}) == 1


def _talk_raw(url: str, line: str, *headers: str, content: bytes = b"") -> tuple[str, bytes]:
    """Ask on a bare socket: the head of the answer and the rest, until the other side is done."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        lines = (line, f"host: {host}:{port}", *headers, "", "")
        connection.sendall("\r\n".join(lines).encode("latin-1") + content)
        pieces: list[bytes] = []
        while piece := connection.recv(65536):
            pieces.append(piece)
            if "upgrade: websocket" in headers:  # the line may stay open
                break
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    return head.decode(), body
