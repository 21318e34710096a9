"""What a server refuses: wrong tokens, hosts, origins, bodies, users, and too much of anything."""

import json
import socket
import time
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.server.live import serving
from tests.support.build import scripted_agent
from weft.errors import UsageError
from weft.server import Limits, Tokens, app
from weft.testing import chunks

ONE = "/api/apps/bot/sessions/s"
ANN, BOB = "ann-has-a-long-secret", "bob-has-a-long-secret"


def client_of(application: object, token: str | None, **headers: str) -> TestClient:
    shown = {"authorization": f"Bearer {token}"} if token is not None else {}
    return TestClient(
        application,  # type: ignore[arg-type]
        base_url="http://127.0.0.1:8000",
        headers={**shown, **headers},
        raise_server_exceptions=False,
        follow_redirects=False,
    )


def problem(response: object) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"  # type: ignore[attr-defined]
    body = response.json()  # type: ignore[attr-defined]
    assert {"type", "title", "status", "detail"} <= set(body)
    return response.status_code, body["type"].rpartition(":")[2]  # type: ignore[attr-defined]


def test_nothing_is_told_without_the_token_of_this_start() -> None:
    application = app(scripted_agent())
    for token in (None, "", "wrong", "Bearer", application.token[:-1]):  # type: ignore[index]
        for path in (
            "/api/apps",
            "/metrics",
            "/openapi.json",
            ONE,
            "/",
            "/list-apps",
            "/v1/models",
        ):
            assert problem(client_of(application, token).get(path)) == (401, "unauthenticated")
    assert client_of(application, None).get("/health").json() == {"status": "ok"}
    assert client_of(application, application.token).get("/api/apps").status_code == 200
    assert app(scripted_agent()).token != application.token


def test_the_printed_address_sets_a_cookie_that_only_this_site_sends() -> None:
    application = app(scripted_agent())
    client = client_of(application, None)
    assert problem(client.get("/?token=wrong")) == (401, "unauthenticated")
    led = client.get(f"/api/apps?token={application.token}&x=1")
    assert (led.status_code, led.headers["location"]) == (303, "/api/apps?x=1")
    cookie = led.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/api/apps").status_code == 200


def test_another_host_is_another_server() -> None:
    application = app(scripted_agent())
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "",
        "localhost.evil",
        "192.168.0.1:8000",
    ):
        client = client_of(application, application.token, host=host)
        assert problem(client.get("/api/apps")) == (421, "host")
        hint = client.get("/api/apps").json()["hint"]
        assert "--allow-host" in hint
        assert "app(..., hosts=" in hint, "who mounts it has no command line"
    for host in ("localhost", "127.0.0.1:9", "[::1]:8000", "LOCALHOST:1"):
        client = client_of(application, application.token, host=host)
        assert client.get("/api/apps").status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://[", "null", "http://127.0.0.1:9", "file://"]
)
def test_a_page_of_another_origin_may_not_ask(origin: str) -> None:
    application = app(scripted_agent())
    client = client_of(application, application.token, origin=origin)
    assert problem(client.get("/api/apps")) == (403, "origin")
    assert problem(client.post(f"{ONE}/runs", json={"message": "x"})) == (403, "origin")
    own = client_of(application, application.token, origin="http://127.0.0.1:8000")
    assert own.get("/api/apps").status_code == 200
    answer = own.get("/api/apps")
    assert not [name for name in answer.headers if name.startswith("access-control")]
    crossed = client_of(application, application.token, **{"sec-fetch-site": "cross-site"})
    assert problem(crossed.get("/api/apps")) == (403, "origin")


def test_bodies_that_are_too_long_malformed_or_of_another_type() -> None:
    application = app(scripted_agent(), limits=Limits(body=1_000))
    client = client_of(application, application.token)
    path = f"{ONE}/runs"
    big = json.dumps({"message": "x" * 2_000}).encode()
    typed = {"content-type": "application/json"}
    assert problem(client.post(path, content=big, headers=typed)) == (413, "too-large")
    chunked = (big[i : i + 100] for i in range(0, len(big), 100))
    assert problem(client.post(path, content=chunked, headers=typed)) == (413, "too-large")
    assert problem(client.post(path, content=b"{", headers=typed)) == (400, "malformed")
    assert problem(client.post(path, content=b"\xff\xfe", headers=typed)) == (400, "malformed")
    deep = b"[" * 900
    assert problem(client.post(path, content=deep, headers=typed))[0] in (400, 422)
    assert problem(client.post(path, data={"message": "x"})) == (415, "media-type")
    foreign = client.post(path, json={"message": "x", "code": "import os"})
    assert problem(foreign) == (422, "invalid")
    assert "code" in foreign.json()["detail"]
    assert problem(client.get("/etc/passwd")) == (404, "unknown-path")
    assert problem(client.get("/dev-ui/../../../etc/passwd"))[0] == 404


def test_a_hundred_megabytes_are_refused_before_they_arrive() -> None:
    with (
        serving(app(scripted_agent())) as live,
        socket.create_connection(("127.0.0.1", live.port)) as plain,
    ):
        plain.sendall(
            f"POST {ONE}/runs HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {live.token}\r\n"
            "content-type: application/json\r\ncontent-length: 100000000\r\n\r\n{".encode()
        )
        assert b" 413 " in plain.recv(1_000)


def test_users_see_only_their_own_sessions() -> None:
    application = app(scripted_agent("Hi Ann."), auth=Tokens({"ann": ANN, "bob": BOB}))
    assert application.token is None
    ann, bob = client_of(application, ANN), client_of(application, BOB)
    with ann, bob:
        assert ann.post(f"{ONE}/runs", json={"message": "hi", "create": True}).status_code == 202
        assert ann.get(ONE).json()["user"] == "ann"
        assert problem(bob.get(ONE)) == (404, "unknown-session")
        assert problem(bob.get(f"{ONE}?user=ann")) == (403, "another-user")
        assert problem(bob.post(f"{ONE}/runs", json={"message": "x", "user": "ann"})) == (
            403, "another-user",
        )  # fmt: skip
        assert bob.get("/api/apps/bot/sessions").json() == {"sessions": [], "total": 0}
        assert problem(bob.get("/apps/bot/users/ann/sessions")) == (403, "another-user")
        missing = bob.get("/api/apps/bot/sessions/none")
        assert "ann" not in missing.text
        for path in (f"{ONE}/events", f"{ONE}/state", f"{ONE}/questions", f"{ONE}/artifacts"):
            assert problem(bob.get(path)) == (404, "unknown-session")
        assert problem(bob.delete(ONE)) == (404, "unknown-session")
        assert ann.get(ONE).status_code == 200


def test_a_function_of_the_application_says_who_asks() -> None:
    async def who(connection: HTTPConnection) -> str | None:
        return connection.headers.get("x-user")

    application = app(scripted_agent("Hi."), auth=who, hosts=["*"])
    outer = Starlette(routes=[Mount("/agents", application)])
    assert problem(client_of(outer, None).get("/agents/api/apps")) == (401, "unauthenticated")
    client = client_of(outer, None, **{"x-user": "cy"})
    assert client.get("/agents/api/apps").json()[0]["name"] == "bot"
    assert client.get("/agents/health").status_code == 200
    assert client.get("/agents/openapi.json").json()["servers"] == [{"url": "/agents"}]
    with pytest.raises(UsageError, match="auth is a str"):
        app(scripted_agent(), auth="secret")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="nothing to serve"):
        app()


def test_a_function_that_fails_lets_nobody_in_and_says_nothing_of_why() -> None:
    def who(connection: HTTPConnection) -> str | None:
        raise ConnectionError("the directory at 10.0.0.7 is down")

    client = client_of(app(scripted_agent("Hi."), auth=who, hosts=["*"]), None)
    refused = client.get("/api/apps")
    assert problem(refused) == (500, "internal")
    assert "10.0.0.7" not in refused.text


def test_too_many_requests_and_streams_are_refused() -> None:
    application = app(scripted_agent(), limits=Limits(rate=0.001, burst=3))
    client = client_of(application, application.token)
    assert [client.get("/api/apps").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/api/apps")
    assert problem(refused) == (429, "rate")
    assert int(refused.headers["retry-after"]) > 0
    with serving(app(scripted_agent(), limits=Limits(streams=1))) as live, live.client() as one:
        one.post("/api/apps/bot/sessions", json={"id": "s"})
        accept = {"accept": "text/event-stream"}
        with one.stream("GET", f"{ONE}/events?follow=1", headers=accept), live.client() as two:
            assert problem(two.get(f"{ONE}/events", headers=accept)) == (429, "streams")


def test_a_client_that_never_reads_does_not_hold_up_the_run() -> None:
    words = [f"{'x' * 1_000} {n} " for n in range(1_500)]
    application = app(scripted_agent(chunks(*words)), limits=Limits(stalled=1))
    with (
        serving(application) as live,
        live.client() as client,
        socket.create_connection(("127.0.0.1", live.port)) as lazy,
    ):
        body = b'{"message": "go", "create": true}'
        head = (
            f"POST {ONE}/runs HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {live.token}\r\n"
            "accept: text/event-stream\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        lazy.sendall(head.encode() + body)
        while client.get(ONE).json().get("status") != "done":
            time.sleep(0.05)
        assert client.get(ONE).json()["events"] == 2
        while client.get("/metrics").text.partition("\nweft_streams_open ")[2][0] != "0":
            time.sleep(0.05)  # it is closed, and holds nothing any more


def test_a_body_that_does_not_arrive_is_refused_in_the_end() -> None:
    application = app(scripted_agent("never asked"), limits=Limits(stalled=0.3))
    head = (
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
        "content-type: application/json\r\ncontent-length: 400\r\n\r\n{{"
    )
    with serving(application) as live:
        for path in (f"{ONE}/runs", "/v1/chat/completions", "/run"):
            with socket.create_connection(("127.0.0.1", live.port)) as slow:
                slow.settimeout(60)
                slow.sendall(head.format(path=path, token=live.token).encode())
                answer = b""
                while b"in time" not in answer:
                    piece = slow.recv(10_000)
                    assert piece, answer
                    answer += piece
                assert answer.startswith(b"HTTP/1.1 408")


def test_scripts_and_escapes_stay_text() -> None:
    planted = "<script>alert(1)</script>\x1b[2J\u202e"
    application = app(scripted_agent(planted))
    with client_of(application, application.token) as client:
        client.post(f"{ONE}/runs", json={"message": planted, "create": True})
        got = client.get(f"{ONE}/events")
        assert got.headers["content-type"] == "application/json"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert b"\x1b" not in got.content
        assert got.json()["events"][0]["content"]["parts"][0]["text"] == planted


def test_tokens_are_read_from_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# users\nann={ANN}\n\nbob={BOB}\n")
    for source in (str(file), "env:WEFT_TEST_TOKENS"):
        monkeypatch.setenv("WEFT_TEST_TOKENS", f"ann={ANN};bob={BOB}")
        assert (
            client_of(app(scripted_agent(), auth=Tokens.read(source)), BOB)
            .get("/api/apps")
            .status_code
            == 200
        )
    for text, words in (("ann", "line 1"), ("ann=short", "too short"), ("", "no tokens")):
        file.write_text(text)
        with pytest.raises(UsageError, match=words):
            Tokens.read(str(file))
    with pytest.raises(UsageError, match="is not set"):
        Tokens.read("env:WEFT_NO_SUCH_VARIABLE")
    with pytest.raises(UsageError, match="cannot be read"):
        Tokens.read(str(tmp_path / "none"))


def test_a_wrong_field_method_or_app_is_told_what_there_is() -> None:
    application = app(scripted_agent())
    client = client_of(application, application.token)
    near = client.post("/api/apps/bot/sessions", json={"stat": {}})
    assert problem(near) == (422, "invalid")
    assert near.json()["hint"] == "did you mean `state`?"
    far = client.post("/api/apps/bot/sessions", json={"foo": 1})
    assert far.json()["hint"] == "the fields are: id, user, state"
    client.post("/api/apps/bot/sessions", json={"id": "s"})
    lacking = client.post("/api/apps/bot/sessions/s/rewind", json={})
    assert "missing required field `invocation_id`" in lacking.json()["detail"]
    assert lacking.json()["hint"] == "the fields are: invocation_id, user"
    assert client.get("/api/apps/nope/sessions").json()["hint"] == "served here: bot"
    for path in ("/api/apps/bot/sessions", "/", "/inspector.js", "/v1/models"):
        refused = client.put(path)
        assert problem(refused) == (405, "method")
        assert "GET" in refused.headers["allow"]
    assert client.put("/api/apps/bot/sessions").headers["allow"] == "GET, HEAD, POST"
    assert client.put("/api/apps/bot/sessions/s").headers["allow"] == "DELETE, GET, HEAD"
    outer = Starlette(routes=[Mount("/agents", application)])
    inside = client_of(outer, application.token)
    assert problem(inside.put("/agents/")) == (405, "method")
    assert inside.put("/agents/api/apps/bot/sessions").headers["allow"] == "GET, HEAD, POST"


def test_state_that_could_not_be_kept_is_refused_and_nothing_is_written() -> None:
    application = app(scripted_agent())
    client = client_of(application, application.token)
    client.post("/api/apps/bot/sessions", json={"id": "s"})
    for key in ("", "temp:x"):
        refused = client.patch("/api/apps/bot/sessions/s/state", json={"delta": {key: 1, "a": 1}})
        assert problem(refused) == (422, "invalid")
    assert client.get("/api/apps/bot/sessions/s/state").json() == {}


@pytest.mark.parametrize("number", ["\N{SUPERSCRIPT TWO}", "9" * 5_000, "-1", "1.5", "0x1"])
def test_what_only_looks_like_a_number_is_refused(number: str) -> None:
    application = app(scripted_agent("Hi."))
    with client_of(application, application.token) as client:
        client.post("/api/apps/bot/sessions", json={"id": "s"})
        assert problem(client.get(f"{ONE}/events", params={"after": number})) == (422, "invalid")
        stream = {"accept": "text/event-stream", "last-event-id": number.encode()}
        assert problem(client.get(f"{ONE}/events", headers=stream)) == (422, "invalid")  # type: ignore[arg-type]


@pytest.mark.parametrize("id", ["a/b", "..", " ", "\x1b[31m", "a\u202eb", "a\\b"])
def test_an_id_that_no_address_can_name_is_refused_before_a_session_has_it(id: str) -> None:
    application = app(scripted_agent("Hi."))
    with client_of(application, application.token) as client:
        assert problem(client.post("/api/apps/bot/sessions", json={"id": id})) == (422, "invalid")
        new = {"session_id": id}
        assert problem(client.post("/apps/bot/users/u/sessions", json=new))[0] == 422
        client.post("/api/apps/bot/sessions", json={"id": "s"})
        assert problem(client.post(f"{ONE}/fork", json={"id": id})) == (422, "invalid")
        assert client.get("/api/apps/bot/sessions").json()["total"] == 1


def test_a_user_cannot_write_the_state_that_all_users_share() -> None:
    application = app(scripted_agent("Hi."), auth=Tokens({"ann": ANN, "bob": BOB}))
    ann, bob = client_of(application, ANN), client_of(application, BOB)
    with ann, bob:
        shared, refused = {"app:rules": "none"}, (403, "shared-state")
        sessions = "/api/apps/bot/sessions"
        assert problem(ann.post(sessions, json={"state": shared})) == refused
        assert problem(ann.post("/apps/bot/users/ann/sessions/s", json=shared)) == refused
        ann.post(sessions, json={"id": "s", "state": {"user:name": "Ann"}})
        run = {"message": "hi", "state": shared}
        assert problem(ann.post(f"{ONE}/runs", json=run)) == refused
        assert problem(ann.patch(f"{ONE}/state", json={"delta": shared})) == refused
        adk = {"stateDelta": shared}
        assert problem(ann.patch("/apps/bot/users/ann/sessions/s", json=adk)) == refused
        asked = {"appName": "bot", "userId": "ann", "sessionId": "s", "stateDelta": shared}
        asked["newMessage"] = {"role": "user", "parts": [{"text": "hi"}]}  # type: ignore[assignment]
        assert problem(ann.post("/run", json=asked)) == refused
        assert bob.post(sessions, json={"id": "s"}).json()["state"] == {}
    operator = app(scripted_agent())
    with client_of(operator, operator.token) as client:
        created = client.post(sessions, json={"state": shared})
        assert created.json()["state"] == shared
