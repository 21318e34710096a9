"""`weft inspect --listen`: spans and requests that arrive are sessions on the page."""

import asyncio
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.server.browser import needs_browser, watched
from tests.server.listening import get, listen, talks_on_page
from tests.server.live import Live
from tests.server.proxy.talks import TALKS
from tests.server.proxy.upstream import Upstream, listening
from weft import Agent, Runner
from weft.inspector import live as arriving
from weft.inspector.live import LiveSessions
from weft.interop.otel import Telemetry
from weft.server import otlp
from weft.server.access import Tokens
from weft.testing import ScriptedModel, call
from weft.values import Json, JsonObject

PROTOBUF = "application/x-protobuf"


def span(
    number: int, messages: Sequence[tuple[str, str]], answer: str, **others: Any
) -> JsonObject:
    """A span of a model's call, as OTLP's JSON has it."""

    def spell(said: Sequence[tuple[str, str]]) -> str:
        parts = [{"role": who, "parts": [{"type": "text", "content": text}]} for who, text in said]
        return json.dumps(parts)

    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.input.messages": spell(messages),
        "gen_ai.output.messages": spell([("assistant", answer)]),
        **others.pop("attributes", {}),
    }
    return {
        "traceId": f"{others.pop('trace', 1):032x}",
        "spanId": f"{number:016x}",
        "name": "chat gpt-5",
        "startTimeUnixNano": str(1_790_000_000_000_000_000 + number * 1_000_000_000),
        "endTimeUnixNano": str(1_790_000_000_500_000_000 + number * 1_000_000_000),
        "attributes": attributes_of(attributes),
        **others,
    }  # fmt: skip


def attributes_of(values: dict[str, str]) -> list[Json]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def in_body(spans: Sequence[JsonObject]) -> JsonObject:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [*spans]}]}]}


def talk_of(count: int, **others: Any) -> list[JsonObject]:
    """The calls of one talk, each with all that was said before it."""
    said: list[tuple[str, str]] = [("system", "Be brief.")]
    spans: list[JsonObject] = []
    for number in range(1, count + 1):
        said.append(("user", f"Question {number}?"))
        spans.append(span(number, [*said], f"Answer {number}.", **others))
        said.append(("assistant", f"Answer {number}."))
    return spans


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives is read when the page asks, also where the last reading took long."""
    monkeypatch.setattr("weft.inspector.live._RESTS", 0)


def post(live: Live, spans: Sequence[JsonObject]) -> None:
    answer = httpx2.post(f"{live.url}/v1/traces", json=in_body(spans), timeout=120, verify=False)
    assert (answer.status_code, answer.json()) == (200, {})


def test_what_weft_sends_by_its_exporter_is_what_ran() -> None:
    def look(city: str) -> str:
        """Look at the sky."""
        return f"sunny in {city}"

    model = ScriptedModel([call("look", city="Oslo"), "Sun.", "Bye."], name="gpt-5")
    agent = Agent("bot", model=model, tools=[look], instruction="Be brief.")
    with listen() as live:
        tracers = TracerProvider()
        exporter = OTLPSpanExporter(f"{live.url}/v1/traces", compression=Compression.Gzip)
        tracers.add_span_processor(SimpleSpanProcessor(exporter))

        async def talk() -> None:
            runner = Runner(agent, plugins=[Telemetry(content=True, tracer_provider=tracers)])
            await runner.run("Weather?", session_id="s1")
            await runner.run("Thanks", session_id="s1")

        asyncio.run(talk())
        (row,) = get(live, "sessions")
        assert (row["id"], row["first"], row["steps"]) == ("s1", "Weather?", 3)
        assert abs(row["updated"] - time.time()) < 60
        system, result = "You are bot.\n\nBe brief.", '{"result":"sunny in Oslo"}'
        wrapped = json.dumps({"result": result}, separators=(",", ":"))
        assert talks_on_page(live) == [
            [
                ([system, "Weather?"], "look " + wrapped),
                ([system, "Weather?", result], "Sun."),
                ([system, "Weather?", result, "Sun.", "Thanks"], "Bye."),
            ]
        ]


def test_an_exporter_of_grpc_is_told_what_to_set(caplog: pytest.LogCaptureFixture) -> None:
    with listen() as live:
        with socket.create_connection(("127.0.0.1", live.port), timeout=60) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            assert client.recv(1) == b""
        post(live, talk_of(1))
        assert len(get(live, "sessions")) == 1
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in caplog.text


def test_protobuf_and_json_packed_or_not_are_the_same_sessions() -> None:
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = talk_of(3)
    # in OTLP's JSON ids are hexadecimal, in that of protobuf they are base64
    import base64

    def mend(one: JsonObject) -> JsonObject:
        ids = {
            k: base64.b64encode(bytes.fromhex(str(one[k]))).decode() for k in ("traceId", "spanId")
        }
        return {**one, **ids}

    sent = ParseDict(in_body([*map(mend, spans)]), ExportTraceServiceRequest()).SerializeToString()
    shown: list[object] = []
    plain = json.dumps(in_body(spans)).encode()
    for kind, body, packing in (
        (PROTOBUF, sent, "identity"),
        (PROTOBUF, gzip.compress(sent), "gzip"),
        ("application/json", plain, "identity"),
    ):
        with listen() as live:
            headers = {"content-type": kind, "content-encoding": packing}
            answer = httpx2.post(f"{live.url}/v1/traces", content=body, headers=headers)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            shown.append(talks_on_page(live))
    assert shown[0] == shown[1] == shown[2]
    (calls,) = shown[0]  # type: ignore[misc]
    assert [answer for _, answer in calls] == ["Answer 1.", "Answer 2.", "Answer 3."]


def test_spans_may_come_late_twice_or_never() -> None:
    spans = talk_of(5)
    with listen() as live:
        post(live, [spans[4]])
        (row,) = get(live, "sessions")
        key = row["key"]
        assert row["steps"] == 1
        post(live, [spans[2], spans[2], spans[0]])  # one twice, as after a lost answer
        post(live, [spans[1]])
        (row,) = get(live, "sessions")
        assert (row["key"], row["steps"]) == (key, 4)
        # the fourth never comes: its words stand in the request after it
        (calls,) = talks_on_page(live)
        assert [answer for _, answer in calls] == [
            "Answer 1.",
            "Answer 2.",
            "Answer 3.",
            "Answer 5.",
        ]
        assert "Answer 4." in calls[3][0]


def test_traces_of_one_talk_are_one_session_and_others_are_not() -> None:
    with listen() as live:
        for number, one in enumerate(talk_of(3)):  # a trace a turn, and nothing names the talk
            post(live, [{**one, "traceId": f"{number + 7:032x}"}])
        named = {"attributes": {"gen_ai.conversation.id": "chat-1"}}
        post(live, [{**one, "traceId": f"{20:032x}"} for one in talk_of(2, **named)])
        rows = get(live, "sessions")
        assert [(row["id"], row["steps"]) for row in rows][:1] == [("chat-1", 2)]
        assert sorted(row["steps"] for row in rows) == [2, 3]


def test_agents_are_those_of_the_spans_around_a_call() -> None:
    def around(number: int, agent: str, parent: int = 0) -> JsonObject:
        named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
        fields = {"parentSpanId": f"{parent:016x}"} if parent else {}
        return {**span(number, [], "", **fields), "attributes": attributes_of(named)}

    first, second, third = (
        {**one, "parentSpanId": f"{parent:016x}"}
        for one, parent in zip(talk_of(3), (50, 51, 50), strict=True)
    )
    with listen() as live:
        # spans end, and are sent, after what happened in them
        post(live, [first, second, third])
        post(live, [around(51, "Billing desk", 50), around(50, "triage")])
        (row,) = get(live, "sessions")
        assert row["agents"] == ["triage", "Billing_desk"]
        film = get(live, "film", session=row["key"])
        assert [one["agent"] for one in film["frames"]] == ["triage", "Billing_desk", "triage"]
        other = get(live, "what-if", session=row["key"], step=2, policy="C.window(1)")
        assert other["tokens"] < other["tokens_now"]
        assert other["code"].startswith("Billing_desk = ")


def test_a_conversation_that_is_named_late_takes_what_came_before() -> None:
    first, second = talk_of(2)
    root: JsonObject = {
        **first, "spanId": f"{99:016x}",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
            {"key": "gen_ai.conversation.id", "value": {"stringValue": "c9"}},
        ],
    }  # fmt: skip
    with listen() as live:
        post(live, [first, second])
        post(live, [root])
        (row,) = get(live, "sessions")
        assert (row["id"], row["steps"]) == ("c9", 2)


def test_a_page_stays_with_an_agent_whose_router_comes_late() -> None:
    def of_agent(agent: str, conversation: str) -> dict[str, str]:
        return {"gen_ai.agent.name": agent, "gen_ai.conversation.id": conversation}

    flights = span(2, [("user", "Fly to Oslo.")], "WF 1", attributes=of_agent("flights", "c2"))
    billing = span(3, [("user", "Quote Oslo.")], "10", attributes=of_agent("billing", "c3"))
    router = span(1, [("user", "A trip")], "Soon.", attributes=of_agent("router", "c1"))
    keys: list[str] = []
    with listen() as live:
        # each agent's run has an id of its own, and the router's span ends last
        for count, one in enumerate((flights, billing, router), 1):
            post(live, [one])
            (row,) = get(live, "sessions")
            keys.append(row["key"])
            for key in keys:  # a page may show it since then
                frames = get(live, "film", session=key)["frames"]
                assert len(frames) == count
                assert len({frame["agent"] for frame in frames}) == count
        assert [frame["agent"] for frame in frames] == ["router", "flights", "billing"]
        post(live, [flights, router])  # twice
        assert len(get(live, "film", session=keys[0])["frames"]) == 3
    assert len({*keys}) == 3


def test_events_that_are_sent_as_logs_belong_to_their_span() -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

    def event(name: str, **fields: str) -> LogRecord:
        pairs = [
            KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in fields.items()
        ]
        body = AnyValue(kvlist_value=KeyValueList(values=pairs))
        trace, own = bytes.fromhex(f"{1:032x}"), bytes.fromhex(f"{1:016x}")
        return LogRecord(event_name=name, trace_id=trace, span_id=own, body=body)

    records = [
        event("gen_ai.system.message", content="Be brief."),
        event("gen_ai.user.message", content="Weather?"),
        event("gen_ai.choice", content="Sun."),
        event("other.event", content="noise"),
    ]
    logs = ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])]
    ).SerializeToString()
    bare = span(1, [], "")
    bare["attributes"] = bare["attributes"][:2]  # type: ignore[index]
    for logs_first in (True, False):
        with listen() as live:
            headers = {"content-type": PROTOBUF}
            if not logs_first:
                post(live, [bare])
            answer = httpx2.post(f"{live.url}/v1/logs", content=logs, headers=headers)
            assert answer.status_code == 200
            if logs_first:
                post(live, [bare])
            assert talks_on_page(live) == [[(["Be brief.", "Weather?"], "Sun.")]]


def test_what_openai_agents_sends_is_read() -> None:
    data: JsonObject = {
        "object": "trace.span", "id": "span_1", "trace_id": "trace_1", "parent_id": None,
        "started_at": "2026-01-01T00:00:00+00:00", "ended_at": "2026-01-01T00:00:01+00:00",
        "span_data": {
            "type": "generation", "model": "gpt-5",
            "usage": {"input_tokens": 7, "output_tokens": 2},
            "input": [{"role": "user", "content": "Weather?"}],
            "output": [{"role": "assistant", "content": "Sun."}],
        },
    }  # fmt: skip
    trace = {"object": "trace", "id": "trace_1", "workflow_name": "w", "group_id": "g1"}
    with listen() as live:
        answer = httpx2.post(f"{live.url}/v1/traces/ingest", json={"data": [trace, data]})
        assert answer.status_code == 200
        assert [row["id"] for row in get(live, "sessions")] == ["g1"]
        assert talks_on_page(live) == [[(["Weather?"], "Sun.")]]


def test_what_cannot_be_read_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "LARGEST", 100_000)
    bomb = zlib.compressobj(9, wbits=31)
    packed = bomb.compress(b"\0" * 10_000_000) + bomb.flush()
    body = json.dumps(in_body(talk_of(1))).encode()
    cases: list[tuple[bytes, dict[str, str], int, str]] = [
        (b"this is not protobuf", {"content-type": PROTOBUF}, 400, "not the protobuf of OTLP"),
        (body, {"content-type": PROTOBUF}, 400, "not the protobuf of OTLP"),
        (b"{torn", {"content-type": "application/json"}, 400, "not JSON"),
        (b"[1]", {"content-type": "application/json"}, 400, "not an object"),
        (b"[" * 90_000, {"content-type": "application/json"}, 400, "not JSON"),
        (b"x", {"content-type": "application/grpc"}, 415, "application/x-protobuf"),
        (b"x", {}, 415, "of no type"),
        (b"x" * 100_001, {"content-type": PROTOBUF}, 413, "100,000 bytes"),
        (packed, {"content-type": PROTOBUF, "content-encoding": "gzip"}, 413, "unpacked"),
        (packed[:50], {"content-type": PROTOBUF, "content-encoding": "gzip"}, 400, "torn"),
        (b"xx", {"content-type": PROTOBUF, "content-encoding": "gzip"}, 400, "unpacked"),
        (b"xx", {"content-type": PROTOBUF, "content-encoding": "br"}, 415, "send gzip"),
        (body, {"content-type": "application/json", "origin": "http://evil"}, 403, "evil"),
        (body, {"content-type": "application/json", "host": "evil"}, 421, "evil"),
    ]
    with listen() as live, httpx2.Client() as client:
        for content, headers, status, words in cases:
            answer = client.post(f"{live.url}/v1/traces", content=content, headers=headers)
            assert (answer.status_code, words in answer.text) == (status, True), answer.text
        assert client.get(f"{live.url}/v1/traces").status_code == 405
        without = {key: value for key, value in talk_of(1)[0].items() if key != "traceId"}
        partly = client.post(f"{live.url}/v1/traces", json=in_body([without])).json()
        assert partly["partialSuccess"]["rejectedSpans"] == "1"
        assert (
            client.post(f"{live.url}/v1/metrics", json={"resourceMetrics": []}).status_code == 200
        )
        assert get(live, "sessions") == []
        post(live, talk_of(1))
        assert len(get(live, "sessions")) == 1


def test_ten_thousand_spans_at_once_are_taken_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = {**span(1, [], ""), "attributes": attributes_of({"http.method": "GET"})}
    noise = [{**other, "spanId": f"{number:016x}"} for number in range(9_750)]
    calls = [
        {**one, "traceId": f"{100 + number:032x}", "spanId": f"{5_000 + number:016x}"}
        for number in range(250)
        for one in [span(1, [("user", f"Question {number}?")], "Yes.")]
    ]
    with listen() as live:
        post(live, [*noise, *calls])
        monkeypatch.setattr(arriving, "_READ_AT_ONCE", 0.0)
        assert len(get(live, "sessions")) < 250
        assert "are being read" in get(live, "notices")[0]
        monkeypatch.setattr(arriving, "_READ_AT_ONCE", 600.0)
        rows = get(live, "sessions")
        assert {one["first"] for one in rows} == {f"Question {number}?" for number in range(250)}
        assert rows[0]["first"] == "Question 249?"
        assert get(live, "notices") == []


def test_memory_is_bounded_and_a_session_says_what_is_gone() -> None:
    sessions = LiveSessions()
    sessions.MOST, sessions.LARGEST = 100, 400_000
    line = json.dumps(in_body([])["resourceSpans"][0]).encode()  # type: ignore[index]
    tracemalloc.start()
    for number in range(500):
        sessions.add(f"g{number}", line + b" " * 10_000, id=f"{number}")
        sessions.add_event(f"g{number}", "never", b"{}" + b" " * 1_000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 3_000_000

    async def ask() -> None:
        spans = talk_of(110)
        for one in spans:
            sessions.add("long", json.dumps(one).encode(), id=str(one["spanId"]))
        rows = await sessions.sessions()
        (row,) = [one for one in rows if isinstance(one, dict) and "long" in str(one["key"])]
        inspection = await sessions.inspection(str(row["key"]))
        assert len(inspection.steps) <= 100
        assert "were dropped from memory" in inspection.notice

    asyncio.run(ask())


@needs_browser
def test_a_page_grows_while_spans_arrive(browser: Any) -> None:
    spans = talk_of(3, attributes={"gen_ai.agent.name": "Sky Desk"})
    with listen() as live, watched(browser) as page:
        page.goto(f"{live.url}/weft/?token={live.token}")
        post(live, spans[:2])
        page.locator("tr.pick", has_text="Question 1?").click()
        page.wait_for_selector("[data-testid=step]")
        page.get_by_text("Sky_Desk").first.wait_for()
        page.get_by_text("Answer 2.").first.wait_for()
        post(live, spans[2:])
        page.locator("[data-testid=step]", has_text="/ 3").wait_for()
        if os.environ.get("WEFT_PICTURES"):
            page.screenshot(path=str(Path(os.environ["WEFT_PICTURES"]) / "listen.png"))


@needs_browser
def test_who_looks_at_an_earlier_call_stays_there_and_is_told_of_new_ones(browser: Any) -> None:
    spans = talk_of(6)
    with listen() as live, watched(browser) as page:
        page.goto(f"{live.url}/weft/?token={live.token}")
        post(live, spans[:2])
        page.locator("tr.pick").click()
        step, arrivals = page.locator("[data-testid=step]"), page.locator("[data-testid=arrivals]")
        page.locator("[data-testid=step]", has_text="2 / 2").wait_for()
        page.keyboard.press("Home")
        page.focus("[data-find]")
        post(live, spans[2:4])
        page.locator("[data-testid=arrivals]", has_text="2 new").wait_for()
        post(live, spans[4:5])
        page.locator("[data-testid=arrivals]", has_text="3 new").wait_for()
        assert step.inner_text() == "1 / 5"
        assert page.evaluate("document.activeElement.matches('[data-find]')")
        page.get_by_text("Answer 1.").first.wait_for()
        arrivals.click()
        page.locator("[data-testid=step]", has_text="5 / 5").wait_for()
        assert arrivals.count() == 0
        post(live, spans[5:])  # at the last call the page goes on with the session
        page.locator("[data-testid=step]", has_text="6 / 6").wait_for()
        assert arrivals.count() == 0


def test_another_machine_needs_a_token() -> None:
    with listen(Tokens({"ann": "a-long-secret-token"})) as live:
        assert httpx2.post(f"{live.url}/v1/traces", json=in_body([])).status_code == 401
        headers = {"x-weft-token": "a-long-secret-token"}
        answer = httpx2.post(f"{live.url}/v1/traces", json=in_body([]), headers=headers)
        assert answer.status_code == 200


def test_the_command_shows_spans_and_requests_on_one_page(tmp_path: Path) -> None:
    talk = TALKS[0]
    upstream = Upstream(lambda seen, number: talk.answer(talk.piece("text", "t", "Hi.")))
    with listening(upstream) as provider:
        command = [sys.executable, "-m", "weft", "inspect", "--listen", "--port", "0"]
        environment = {"PATH": "", "HOME": str(tmp_path), "OPENAI_BASE_URL": f"{provider}/v1"}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=environment,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            match = re.fullmatch(r"(http://127.0.0.1:\d+)/weft/\?token=(.+)", address)
            assert match is not None, address
            url, token = match.groups()
            request = talk.request()
            asked = httpx2.post(f"{url}{talk.path}", json=request)
            assert asked.status_code == 200
            assert json.loads(upstream.seen[0].body) == request
            assert httpx2.post(f"{url}/v1/traces", json=in_body(talk_of(2))).status_code == 200
            bearer = {"authorization": f"Bearer {token}"}
            rows = httpx2.get(f"{url}/weft/inspect/api/sessions", headers=bearer).json()
            assert sorted(row["steps"] for row in rows) == [1, 2]
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=20)
        assert f"OTEL_EXPORTER_OTLP_ENDPOINT={url}" in errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "--host", "0.0.0.0"], "nothing says who may ask"),
        (["--listen", "runs.jsonl"], "shows what arrives, and nothing else"),
        (["--tokens", "FILE"], "add --listen"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from weft.cli import main

    assert main(["inspect", *options]) == 2
    assert words in capsys.readouterr().err
