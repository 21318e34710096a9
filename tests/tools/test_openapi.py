"""OpenAPI documents as tools, against a stand-in of the services that they describe."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import weft
from tests.standins.mcp_server import PIXEL
from weft import Agent, Session
from weft.compiler import compile_request
from weft.errors import DeclarationError
from weft.testing import ScriptedModel, call
from weft.tools import OpenAPI
from weft.values import compact

DOCUMENTS = Path(__file__).parent / "openapi"


class Service(http.server.BaseHTTPRequestHandler):
    """Answers what it was asked, and does what some paths say."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        seen: dict[str, Any] = {
            "method": self.command,
            "path": parts.path,
            "query": parse_qs(parts.query),
            "body": body,
            "type": self.headers.get("content-type"),
            "authorization": self.headers.get("authorization"),
            "lang": self.headers.get("lang"),
        }
        if parts.path.endswith(".png"):
            return self.send(200, PIXEL, "image/png")
        if parts.path.endswith("/away"):
            return self.send(302, b"", "text/plain", location="http://other.example/")
        if parts.path.endswith("/home"):
            return self.send(307, b"", "text/plain", location="/there")
        if parts.path.endswith("/huge"):
            return self.send(200, b"x" * 5_000_000, "text/plain")
        if parts.path.endswith("/wrong"):
            return self.send(404, b'{"message": "no such thing"}', "application/json")
        return self.send(200, json.dumps(seen).encode(), "application/json")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def send(self, status: int, data: bytes, kind: str, location: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


async def ask(tools: OpenAPI, *calls: object) -> list[Any]:
    model = ScriptedModel([*calls, "done"])  # type: ignore[list-item]
    done = await weft.run(Agent("bot", model=model, tools=[tools]), "Go.")
    return [one for event in done.session.events for one in event.results]


async def test_paths_queries_and_json_bodies(service: str) -> None:
    tools = OpenAPI(
        DOCUMENTS / "issues.json",
        server=service,
        private=True,
        auth={"token": "secret"},
        only=["issues/list-for-repo", "issues/create"],
    )
    names = {one.source[1]: one for one in tools.get_tools()}
    listing, create = names["issues/list-for-repo"], names["issues/create"]
    assert (listing.effect, create.effect) == ("pure", "unsafe")
    body = create.parameters["$defs"]["new-issue"]  # type: ignore[index, call-overload]
    assert body["required"] == ["title"]  # type: ignore[index, call-overload]
    assert "id" not in body["properties"]  # type: ignore[index, call-overload, operator]
    assert body["properties"]["body"] == {"type": ["string", "null"]}  # type: ignore[index, call-overload]
    assert body["properties"]["milestone"] == {"type": "integer", "exclusiveMinimum": 0}  # type: ignore[index, call-overload]
    first, second = await ask(
        tools,
        call(listing.name, owner="a/b", repo="c", labels=["x", "y"]),
        call(create.name, owner="a", repo="c", body={"title": "T", "parent": {"title": "P"}}),
    )
    seen = first.response
    assert seen["path"] == "/repos/a%2Fb/c/issues"
    assert seen["query"] == {"labels": ["x,y"]}
    assert seen["authorization"] == "Bearer secret"
    assert json.loads(second.response["body"]) == {"title": "T", "parent": {"title": "P"}}
    assert second.response["type"] == "application/json"


async def test_forms_deep_objects_and_basic_auth(service: str) -> None:
    tools = OpenAPI(
        DOCUMENTS / "payments.yaml",
        server=f"{service}/v1",
        private=True,
        auth={"basicAuth": ("key", "")},
    )
    first, second = await ask(
        tools,
        call("PostCharges", body={"amount": 5, "currency": "nok", "metadata": {"order": "7"}}),
        call("GetCharges", created={"gte": 3}, expand=["a", "b"]),
    )
    assert first.response["body"] == "amount=5&currency=nok&metadata%5Border%5D=7"
    assert first.response["authorization"] == "Basic a2V5Og=="
    assert second.response["query"] == {"created[gte]": ["3"], "expand": ["a", "b"]}
    assert OpenAPI(DOCUMENTS / "payments.yaml")._address == "https://api.payments.example/v1"


async def test_a_document_with_one_bad_operation_keeps_the_others(service: str) -> None:
    tools = OpenAPI(
        DOCUMENTS / "chat.json", server=service, private=True, auth={"BotToken": "Bot secret"}
    )
    listed = {one.name: one for one in tools.get_tools()}
    assert [*listed] == ["list_messages", "create_message"]
    named = compact(listed["create_message"].parameters["$defs"])
    assert '"target":{"type":"string"}' in named, "two references that end alike are two"
    assert '"target_2":{"type":"integer"}' in named
    assert '"items":{"$ref":"#/$defs/Filter"}' in named
    body = {"content": "Hi", "filter": {"all": [{"all": []}]}}
    model = ScriptedModel([call("create_message", channel_id="7", body=body), "done"])
    done = await weft.run(Agent("bot", model=model, tools=[tools]), "Go.")
    (sent,) = [one.response for event in done.session.events for one in event.results]
    assert sent["path"] == "/channels/7/messages"
    assert sent["authorization"] == "Bot secret"
    assert json.loads(sent["body"]) == body
    (warning,) = [one for one in done.diagnostics if one.code == "WEFT307"]
    assert "the operation 'broken' is left out" in warning.message


async def test_keys_in_queries_headers_and_pictures(service: str) -> None:
    tools = OpenAPI(
        DOCUMENTS / "weather.json", server=service, private=True, auth={"appid": lambda: "k"}
    )
    names = [one.name for one in tools.get_tools()]
    first, second = await ask(
        tools, call("currentWeather", q="Oslo", lang="no"), call(names[1], layer="rain")
    )
    assert first.response["query"] == {"q": ["Oslo"], "appid": ["k"]}
    assert first.response["lang"] == "no"
    assert second.parts[0]["inlineData"]["mimeType"] == "image/png"
    keyless = OpenAPI(DOCUMENTS / "weather.json", server=service, private=True)
    (refused,) = await ask(keyless, call("currentWeather", q="Oslo"))
    assert "it needs keys that nobody gave: appid" in refused.response["error"]


async def test_requests_are_rebuilt_and_results_fenced(service: str) -> None:
    tools = OpenAPI(DOCUMENTS / "weather.json", server=service, private=True, auth={"appid": "k"})
    model = ScriptedModel([call("currentWeather", q="Oslo"), "done"])
    agent = Agent("bot", model=model, tools=[tools])
    done = await weft.run(agent, "Go.")
    at = next(i for i, event in enumerate(done.session.events) if event.text == "done")
    log = Session.from_json(done.session.before(at).to_json())
    assert compile_request(agent, session=log).wire == model.wires[-1]
    assert "<untrusted-" in str(model.prompts[-1])


def document(*paths: str, **more: object) -> dict[str, object]:
    operations = {
        path: {"get": {"operationId": path.strip("/"), "responses": {}}} for path in paths
    }
    return {"openapi": "3.1.0", "info": {"title": "t"}, "paths": operations, **more}


async def test_calls_stay_where_they_may_go(service: str) -> None:
    open_document = document("/away", "/home", "/huge", "/wrong", "/there")
    tools = OpenAPI(open_document, server=service, private=True)
    calls = [call(name) for name in ("away", "home", "huge", "wrong")]
    away, home, huge, wrong = [one.response for one in await ask(tools, *calls)]
    assert "redirects to other.example" in away["error"]
    assert home["path"] == "/there"
    assert huge["note"] == "the answer was longer than 500,000 bytes, and is cut"
    assert wrong == {"error": "404 Not Found", "answer": {"message": "no such thing"}}
    for address, words in (
        (service, "is a private address"),
        (service.replace("127.0.0.1", "localhost"), "is a private address"),
        ("http://169.254.169.254/latest", "is a private address"),
        ("http://[::1]:1", "is a private address"),
        ("http://no-such-host.invalid", "cannot be found"),
    ):
        (refused,) = await ask(OpenAPI(open_document, server=address), call("there"))
        assert words in refused.response["error"]
    (down,) = await ask(
        OpenAPI(open_document, server="http://127.0.0.1:1", private=True), call("there")
    )
    assert "cannot be reached" in down.response["error"]


async def test_a_path_cannot_be_climbed(service: str) -> None:
    climbing = document()
    climbing["paths"] = {
        "/pets/{id}": {
            "get": {
                "operationId": "pet",
                "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}],
            }
        }
    }
    tools = OpenAPI(climbing, server=service, private=True)
    first, second = await ask(tools, call("pet", id=".."), call("pet", id="../admin?x=1#y"))
    assert "cannot be a part of a path" in first.response["error"]
    assert second.response["path"] == "/pets/..%2Fadmin%3Fx%3D1%23y"
    assert second.response["query"] == {}


async def test_operations_that_cannot_be_tools_are_left_out_with_a_warning() -> None:
    tools = OpenAPI(DOCUMENTS / "issues.json", auth={"token": "x"})
    done = await weft.run(Agent("bot", model=ScriptedModel(["ok"]), tools=[tools]), "Go.")
    (warning,) = done.diagnostics
    assert "'issues/update' is left out: there is nothing at #/components/schemas/missing" in (
        warning.message
    )
    circle = document(components={"parameters": {"a": {"$ref": "#/components/parameters/a"}}})
    circle["paths"] = {"/x": {"get": {"parameters": [{"$ref": "#/components/parameters/a"}]}}}
    elsewhere = document()
    elsewhere["paths"] = {"/x": {"$ref": "other.json#/x"}}
    for bad in (circle, elsewhere):
        assert OpenAPI(bad, server="https://x.example").get_tools() == []
        assert len(OpenAPI(bad, server="https://x.example")._problems) == 1


async def test_two_thousand_operations_are_searched(service: str) -> None:
    many = document(*(f"/op{n}" for n in range(2000)))
    tools = OpenAPI(many, server=service, private=True, only=None)
    large = [one for one in tools.get_tools() if one.deferred]
    assert len(large) == 2000
    model = ScriptedModel([call("call_tool", name="op1234", arguments={}), "ok"])
    done = await weft.run(Agent("bot", model=model, tools=[tools]), "Go.")
    assert [one.name for one in model.prompts[0].tools] == ["find_tools", "call_tool"]
    (seen,) = [one.response for event in done.session.events for one in event.results]
    assert seen is not None
    assert seen["path"] == "/op1234"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: OpenAPI(path / "none.json"), "it cannot be read"),
        (lambda path: OpenAPI({"swagger": "2.0"}), "it is Swagger 2.0"),
        (lambda path: OpenAPI({"openapi": "4.0"}), "it is of OpenAPI 4.0"),
        (lambda path: OpenAPI(document("/a")), "which is not an address"),
        (lambda path: OpenAPI(document("/a"), server="ftp://x"), "which is not an address"),
        (
            lambda path: OpenAPI(DOCUMENTS / "issues.json", only=["issue/create"]),
            "has no operation",
        ),
        (lambda path: OpenAPI(DOCUMENTS / "issues.json", auth={"tok": "x"}), "no security scheme"),
        (lambda path: OpenAPI(DOCUMENTS / "issues.json", only="x"), "one string"),
        (
            lambda path: OpenAPI(
                DOCUMENTS / "issues.json", guards={"issues/creat": {"consequential": True}}
            ),
            "has no operation 'issues/creat'",
        ),
    ],
)
def test_a_wrong_declaration_says_what_to_write(make: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=words) as error:
        make(tmp_path)
    assert error.value.hint
