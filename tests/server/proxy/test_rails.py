"""Limits, redaction, recordings, lanes and the page of a proxy."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.live import serving
from tests.server.proxy.talks import TALKS, Talk
from tests.server.proxy.test_recall import POLICY
from tests.server.proxy.upstream import Reply, Seen, Upstream, listening, proxying
from weft.cli.inputs import read_redactions
from weft.compaction.reading import read_body
from weft.models.routing import read_upstreams
from weft.recordings.providers import body_of
from weft.recordings.read import read_files
from weft.server.access import Tokens
from weft.server.proxy import ProxyApplication, ProxySettings
from weft.server.proxy_history import replace_messages
from weft.server.proxy_records import CallLog, receipts_of
from weft.server.proxy_redaction import redact_body
from weft.server.proxy_store import ProxyStore, RecallRecord
from weft.values import Json

CHAT, RESPONSES, ANTHROPIC, GEMINI = TALKS


def test_a_limit_that_is_reached_is_an_error_that_clients_know(tmp_path: Path) -> None:
    for talk in TALKS:
        file = tmp_path / f"{talk.name}.db"

        def script(seen: Seen, number: int, talk: Talk = talk) -> Reply:
            return talk.answer(talk.piece("text", "t", "Hi."))

        limits = ("0.00001USD/session", "1USD/day")
        with (
            proxying(script, path=file, limits=limits) as proxy,
            httpx2.Client(timeout=60) as client,
        ):
            headers = {"x-weft-session": "one"}
            url = proxy.url + talk.path
            assert client.post(url, json=talk.request(), headers=headers).status_code == 200
            proxy.line(0)
            refused = client.post(url, json=talk.request(), headers=headers)
            assert refused.status_code == 429
            assert "0.00001 USD" not in refused.text
            assert "1e-05 USD a session" in json.dumps(refused.json()["error"]["message"])
            other = {"x-weft-session": "two"}
            assert client.post(url, json=talk.request(), headers=other).status_code == 200
            assert len(proxy.upstream.seen) == 2
    # the bill of the day is known to the next process
    again = proxying(script, path=file, limits=("0.0000001USD/day",))
    with again as proxy, httpx2.Client(timeout=60) as client:
        assert client.post(proxy.url + talk.path, json=talk.request()).status_code == 429


REDACT = read_redactions(["email"])


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_values_never_leave_and_are_in_the_answer(talk: Talk) -> None:
    def script(seen: Seen, number: int) -> Reply:
        text = seen.body.decode()
        at = text.index("<EMAIL_")
        mark = text[at : text.index(">", at) + 1]
        stream = b'"stream": true' in seen.body or "streamGenerate" in seen.path
        said = talk.piece("text", "t", f"I wrote to {mark}, not <EMAIL_ or {mark}.")
        own = talk.piece("call", "own", ("mail", {"to": mark, "note": f'"{mark}"'}))
        return talk.answer(said, own, stream=stream)

    words: Any = "Write to jane@example.com"
    turn = {"role": "user", "content": words}
    if talk.name == "gemini":
        turn = {"role": "user", "parts": [{"text": words}]}
    with (
        proxying(script, "C.default()", redact=REDACT) as proxy,
        httpx2.Client(timeout=60) as client,
    ):
        for stream in (False, True):
            request = talk.request(turn, stream=stream)
            path = talk.stream_path if stream else talk.path
            content = json.dumps(request).encode()
            answer = client.post(proxy.url + path, content=content)
            assert b"jane@example.com" not in proxy.upstream.seen[-1].body
            body = json.dumps(body_of(answer.text, talk.name))
            assert "I wrote to jane@example.com, not <EMAIL_ or jane@example.com." in body
            assert body.count("jane@example.com") == 4
            assert '\\"jane@example.com\\"' in body
        first, second = (len(seen.body) for seen in proxy.upstream.seen)
        assert abs(first - second) < 100  # the same placeholder each time
        assert client.post(proxy.url + talk.path, content=b"jane@example.com").status_code == 400
        assert len(proxy.upstream.seen) == 2


@pytest.mark.parametrize("words", ["jane@example.com", "jane@example.com \ud800", "\ud800", "-"])
@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_a_request_put_together_again_is_read_as_if_it_had_come(talk: Talk, words: str) -> None:
    turn: Any = {"role": "user", "content": words}
    if talk.name == "gemini":
        turn = {"role": "user", "parts": [{"text": words}]}
    layouts: tuple[Any, ...] = ({}, {"separators": (",", ":")}, {"indent": 1})
    for layout in layouts:
        body = read_body(json.dumps(talk.request(turn), **layout).encode(), talk.name)
        known: dict[str, Json] = {}
        redacted = redact_body(body, REDACT, "secret", known)
        assert bool(known) == ("jane" in words)
        longer = replace_messages(redacted, [*redacted.messages, *redacted.messages[1:3]])
        for made in (redacted, longer):
            assert made == read_body(made.request, talk.name)


def test_what_a_policy_redacts_never_leaves_whatever_goes_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = 'C.auto().redact("email")'
    chat = {"model": "gpt-5", "messages": [{"role": "user", "content": "jane@example.com"}]}
    system = {"role": "system", "content": "You work for jane@example.com."}
    count = "/v1beta/models/gemini-3-flash:countTokens"
    contents = {"contents": [{"role": "user", "parts": [{"text": "jane@example.com"}]}]}
    with (
        # a provider that refuses all: what went is not sent again as it came
        proxying(lambda *_: Reply(b"{}", 400), policy) as proxy,
        httpx2.Client(base_url=proxy.url, timeout=60) as client,
    ):
        client.post("/v1/chat/completions", json=chat)
        client.post(count, json=contents)
        assert len(proxy.upstream.seen) == 2
        assert all(b"jane" not in seen.body for seen in proxy.upstream.seen)
        # where it cannot be replaced, nothing is sent
        refused = [
            client.post("/v1/chat/completions", json={**chat, "messages": [system]}),
            client.post("/v1/chat/completions", content=b"jane@example.com"),
            client.post(
                "/v1/chat/completions", content=b"\x28\xb5", headers={"content-encoding": "zstd"}
            ),
        ]
        monkeypatch.setattr("weft.server.proxy.compact_body", None)
        refused.append(client.post("/v1/chat/completions", json=chat))
        assert len(proxy.upstream.seen) == 2
        assert [one.status_code for one in refused] == [400] * 4
        assert all("weft proxy" in one.json()["error"]["message"] for one in refused)
        assert "jane" not in "".join(one.text for one in refused)


def test_half_a_character_is_redacted_too() -> None:
    turn = {"role": "user", "content": "jane@example.com \ud800"}
    content = json.dumps(ANTHROPIC.request(turn)).encode()
    said = ANTHROPIC.answer(ANTHROPIC.piece("text", "t", "Hi."))
    with proxying(lambda *_: said, redact=REDACT) as proxy, httpx2.Client(timeout=60) as client:
        for sent in (content, content.replace(b"jane@example.com", b"nobody")):
            answer = client.post(proxy.url + ANTHROPIC.path, content=sent)
            assert answer.status_code == 200
            assert b"jane@example.com" not in proxy.upstream.seen[-1].body
            assert b"\\ud800" in proxy.upstream.seen[-1].body
        assert not proxy.faults


def test_what_is_recorded_is_read_by_inspect_and_replay(tmp_path: Path) -> None:
    def script(seen: Seen, number: int) -> Reply:
        return ANTHROPIC.answer(ANTHROPIC.piece("text", "t", f"Answer {number}."), stream=True)

    folder = tmp_path / "recorded"
    with proxying(script, POLICY, record=folder) as proxy, httpx2.Client(timeout=60) as client:
        url = proxy.url + ANTHROPIC.path
        client.post(url, json=ANTHROPIC.request(stream=True))
        said = [
            {"role": "assistant", "content": "Answer 0."},
            {"role": "user", "content": "And then?"},
        ]
        client.post(url, json=ANTHROPIC.request(*said, stream=True))
        proxy.line(1)
        token = proxy.application.token
        headers = {"authorization": f"Bearer {token}"}
        rows = client.get(f"{proxy.url}/weft/inspect/api/sessions", headers=headers).json()
        assert len(rows) == 1
        page = client.get(f"{proxy.url}/weft/", headers=headers)
        assert page.status_code == 200
        film, receipt = (
            client.get(
                f"{proxy.url}/weft/inspect/api/{name}",
                params={"session": rows[0]["key"]},
                headers=headers,
            )
            for name in ("film", "receipt")
        )
        assert "And then?" in film.text
        # of the requests as they were sent: as they came, each has 15,000 tokens
        assert [0 < one["expected"]["total"] < 3_000 for one in receipt.json()["calls"]] == [
            True
        ] * 2
    (recording,) = read_files(sorted(folder.iterdir()))
    assert [event.content.text for event in recording.session.events if event.content][-1] == (
        "Answer 1."
    )
    assert not recording.aside
    with proxying(script, records=False) as proxy, httpx2.Client(timeout=60) as client:
        client.post(proxy.url + ANTHROPIC.path, json=ANTHROPIC.request(stream=True))
        proxy.line(0)
        headers = {"authorization": f"Bearer {proxy.application.token}"}
        assert client.get(f"{proxy.url}/weft/inspect/api/sessions", headers=headers).json() == []


def test_a_recording_has_a_line_of_json_for_each_call_that_is_json(tmp_path: Path) -> None:
    bodies = [
        b'{"model": "gpt-5", "messages": [{"role": "us',
        b"\x7fELF\n\r\n",
        b"[1,\r\n2]",
        json.dumps(CHAT.request(), indent=1).replace("\n", "\r\n").encode(),
    ]

    def script(seen: Seen, number: int) -> Reply:
        return CHAT.answer(CHAT.piece("text", "t", "Hi."))

    folder = tmp_path / "recorded"
    with proxying(script, record=folder) as proxy, httpx2.Client(timeout=60) as client:
        for at, body in enumerate(bodies):
            kind = {"content-type": "application/json"}
            assert client.post(proxy.url + CHAT.path, content=body, headers=kind).is_success
            proxy.line(at)
    lines = [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
    assert (folder / "unread.jsonl").is_file()
    assert [len(one) for line in lines if isinstance(one := json.loads(line)["request"], list)] == [
        2
    ]
    assert len(lines) == 2


def test_conversations_are_found_without_a_word_from_the_client(tmp_path: Path) -> None:
    def script(seen: Seen, number: int) -> Reply:
        return CHAT.answer("Yes.")

    def turn(*words: str) -> dict[str, Any]:
        roles = ("user", "assistant")
        messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(words)]
        return {"model": "gpt-5", "messages": messages}

    requests = [
        turn("a"),
        turn("a", "Yes.", "b"),
        turn("a", "Yes.", "b", "Yes.", "c"),
        turn("a", "Yes.", "b", "Yes.", "c"),  # a retry
        turn("a", "Yes.", "x"),  # a fork
        turn("title"),  # somebody else
        {**turn("sub"), "prompt_cache_key": "k"},
        {**turn("other sub"), "prompt_cache_key": "k"},
    ]
    with proxying(script, path=tmp_path / "p.db") as proxy, httpx2.Client(timeout=60) as client:
        for number, request in enumerate(requests):
            client.post(proxy.url + CHAT.path, json=request)
            proxy.line(number)
        calls = proxy.application.log.store.list_calls()
        files = [one.stat().st_mode & 0o777 for one in tmp_path.iterdir()]
        assert files == [0o600] * 3  # with the journal
    places = [(call.session, call.lane) for call in calls]
    assert places[0] == places[1] == places[2] == places[3]
    assert places[4] == (places[0][0], 2)
    assert places[5][0] != places[0][0]
    assert places[6][0] == places[7][0]
    assert places[6][1] != places[7][1]
    receipts = receipts_of(calls)
    assert [len(one.lines) for one in receipts] == [5, 1, 2]
    assert all(one.total > 0 for one in receipts)


def test_other_machines_need_a_token() -> None:
    upstream = Upstream(lambda *_: Reply(b"{}"))
    with listening(upstream) as address:
        upstreams = read_upstreams({"openai": address})
        tokens = Tokens({"ann": "some-quite-long-token"})
        application = ProxyApplication(
            ProxySettings(upstreams=upstreams), CallLog(ProxyStore()), tokens=tokens
        )
        with serving(application) as live, httpx2.Client(base_url=live.url) as client:
            for headers in ({}, {"x-weft-token": "wrong"}, {"authorization": "Bearer sk-own"}):
                answer = client.post("/v1/chat/completions", json=CHAT.request(), headers=headers)
                assert answer.status_code == 401
                assert "token" in answer.json()["error"]["message"]
                assert client.get("/v1/models", headers=headers).status_code == 401
            assert not upstream.seen
            mine = {"x-weft-token": "some-quite-long-token", "authorization": "Bearer sk-own"}
            assert client.get("/v1/models", headers=mine).status_code == 200
            assert upstream.seen[0].headers["authorization"] == "Bearer sk-own"
            assert "x-weft-token" not in upstream.seen[0].headers


@pytest.mark.parametrize("policy", ["C.default()", POLICY])
def test_a_streamed_call_is_billed_before_the_client_sees_its_end(
    policy: str, tmp_path: Path
) -> None:
    waits = threading.Event()

    def script(seen: Seen, number: int) -> Reply:
        talk = next(one for one in TALKS if one.path == seen.path)
        reply = talk.answer(talk.piece("text", "t", "Hi."), stream=True)
        assert isinstance(reply.body, list)
        # the line stays open after the last event
        return replace(reply, body=[b"".join(reply.body), b": ping\n\n"], wait=waits)

    ends = (b"[DONE]", b"response.completed", b"message_stop")
    with proxying(script, policy, path=tmp_path / "p.db") as proxy:
        for number, (talk, end) in enumerate(zip(TALKS[:3], ends, strict=True), 1):
            request = talk.request(stream=True)
            with httpx2.stream("POST", proxy.url + talk.path, json=request, timeout=60) as answer:
                assert any(end in piece for piece in answer.iter_raw())
                bills = proxy.application.log.store.list_calls()
                assert [bill.usage is not None for bill in bills] == [True] * number
        waits.set()


def test_a_stream_is_passed_on_piece_by_piece() -> None:
    for policy in ("C.default()", "C.default().compact()"):
        released = threading.Event()

        def script(seen: Seen, number: int, released: threading.Event = released) -> Reply:
            reply = ANTHROPIC.answer(ANTHROPIC.piece("text", "t", "Hi."), stream=True)
            assert isinstance(reply.body, list)
            whole = b"".join(reply.body)
            cut = whole.index(b"event: content_block_stop")
            return Reply([whole[:cut], whole[cut:]], headers=reply.headers, wait=released)

        with proxying(script, policy) as proxy, httpx2.Client(timeout=60) as client:
            sent = client.stream(
                "POST", proxy.url + ANTHROPIC.path, json=ANTHROPIC.request(stream=True)
            )
            with sent as answer:
                pieces = answer.iter_raw()
                text = b""
                while b"Hi." not in text:
                    text += next(pieces)
                released.set()
                assert b"message_stop" in text + b"".join(pieces)


def test_a_recall_with_half_a_character_outlives_the_proxy(tmp_path: Path) -> None:
    record = RecallRecord("seen", [], [{"arguments": "\ud83d"}], [0], [{"content": "a\udc00b"}])
    store = ProxyStore(tmp_path / "weft-proxy.db")
    store.add_recall(b"history", record)
    store.close()
    assert ProxyStore(tmp_path / "weft-proxy.db").find_recalls(b"history") == [record]
    assert not store.faults
