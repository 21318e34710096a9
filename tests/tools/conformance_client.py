"""An agent with one MCP server, as the conformance suite starts it: `PROGRAM ADDRESS`.

The suite names its scenario in the environment. The agent calls every tool that the server lists
once, with arguments made from its schema, and answers what it is asked with the form's defaults.
"""

import asyncio
import json
import os
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from weft import Agent, Runner
from weft.testing import ScriptedModel, call
from weft.tools import MCP
from weft.values import Json, JsonObject

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
REDIRECT = "http://localhost:3030/callback"


class Tokens:
    """Keeps what an authorization server gave."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        if "client_id" in CONTEXT:
            self.client = OAuthClientInformationFull(
                client_id=CONTEXT["client_id"],
                client_secret=CONTEXT.get("client_secret"),
                redirect_uris=[REDIRECT],  # type: ignore[list-item]
                token_endpoint_auth_method="client_secret_basic",
            )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def provider(address: str) -> OAuthClientProvider:
    """The SDK's own provider, with a user who agrees at once."""
    answered: list[str] = []

    async def open_page(url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        answered.append(response.headers["location"])

    async def wait_for_code() -> object:
        from mcp.client.auth import AuthorizationCodeResult

        query = parse_qs(urlsplit(answered[-1]).query)
        state, issuer = query.get("state", [None])[0], query.get("iss", [None])[0]
        return AuthorizationCodeResult(code=query["code"][0], state=state, iss=issuer)

    return OAuthClientProvider(
        server_url=address,
        client_metadata=OAuthClientMetadata(
            client_name="weft",
            redirect_uris=[REDIRECT],  # type: ignore[list-item]
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        storage=Tokens(),
        redirect_handler=open_page,
        callback_handler=wait_for_code,  # type: ignore[arg-type]
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )


async def choose_provider(address: str) -> httpx2.Auth:
    """The provider of the SDK that fits the scenario."""
    match SCENARIO:
        case "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(
                address, Tokens(), CONTEXT["client_id"], CONTEXT["client_secret"]
            )
        case "auth/client-credentials-jwt":
            signing = SignedJWTParameters(
                issuer=CONTEXT["client_id"],
                subject=CONTEXT["client_id"],
                signing_key=CONTEXT["private_key_pem"],
                signing_algorithm=CONTEXT["signing_algorithm"],
            )
            return PrivateKeyJWTOAuthProvider(
                address, Tokens(), CONTEXT["client_id"], signing.create_assertion_provider()
            )
        case "auth/enterprise-managed-authorization":
            origin = "{0.scheme}://{0.netloc}".format(urlsplit(address))
            resource = f"{origin}/.well-known/oauth-protected-resource/mcp"
            async with httpx2.AsyncClient() as client:
                (issuer,) = (await client.get(resource)).json()["authorization_servers"]
            return IdentityAssertionOAuthProvider(
                address,
                Tokens(),
                CONTEXT["client_id"],
                CONTEXT["client_secret"],
                issuer=issuer,
                assertion_provider=exchange_identity,
                token_endpoint_auth_method="client_secret_basic",
            )
        case _:
            return provider(address)


async def exchange_identity(audience: str, resource: str) -> str:
    """What the company's identity provider gives for the user's identity, for one server."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": CONTEXT["idp_id_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": CONTEXT["idp_client_id"],
        "audience": audience,
        "resource": resource,
    }
    async with httpx2.AsyncClient() as client:
        answer = await client.post(CONTEXT["idp_token_endpoint"], data=form)
    return str(answer.json()["access_token"])


def example(schema: Json) -> Json:
    """A value that fits a schema."""
    rules = schema if isinstance(schema, dict) else {}
    if "default" in rules:
        return rules["default"]
    choices = rules.get("enum")
    if isinstance(choices, list):
        return choices[0]
    properties = rules.get("properties")
    if isinstance(properties, dict):
        return {name: example(one) for name, one in properties.items()}
    kinds: JsonObject = {"integer": 5, "number": 3, "boolean": True, "array": [], "object": {}}
    kind = rules.get("type")
    return kinds.get(kind, "text") if isinstance(kind, str) else "text"


def calls_in(scenario: str, tools: list[JsonObject]) -> list[tuple[str, JsonObject]]:
    """The calls to make: those that the suite asks for, else every tool once."""
    wanted = CONTEXT.get("toolCalls") or []
    if wanted:
        return [(one["name"], one.get("arguments", {})) for one in wanted]
    calls: list[tuple[str, JsonObject]] = []
    for one in tools:
        args = example(one["parameters"])
        assert isinstance(args, dict)
        if one["name"] == "json_schema_echo":  # what came of the other tool's schema
            args = {next(iter(args)): tools[0]["parameters"]}
        calls.append((str(one["name"]), args))
    return calls


async def main(address: str) -> None:
    auth = await choose_provider(address) if SCENARIO.startswith("auth/") else None
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    revision = "legacy" if version and version < "2026" else "auto"
    mcp = MCP(address, auth=auth, required=True, revision=revision, seconds=20, effect="pure")
    listed = await mcp.get_tools()
    tools: list[JsonObject] = [{"name": one.name, "parameters": one.parameters} for one in listed]
    print("tools:", [one["name"] for one in tools], file=sys.stderr)
    script: list[object] = [call(name, **args) for name, args in calls_in(SCENARIO, tools)]
    model = ScriptedModel([*script, "done"])  # type: ignore[list-item]
    runner = Runner(Agent("bot", model=model, tools=[mcp]))
    done = await runner.run(message="Go.", session_id="s")
    for _ in range(10):
        questions = await runner.pending()
        if not questions:
            break
        payload = questions[0].args["payload"]
        assert isinstance(payload, dict)
        content = example(payload.get("schema"))
        answer: Json = {"action": "accept", "content": content}
        done = await runner.resume(session_id="s", answers={questions[0].call_id: answer})
    for event in done.session.events:
        for result in event.results:
            print(result.name, result.response, file=sys.stderr)


asyncio.run(main(sys.argv[-1]))
