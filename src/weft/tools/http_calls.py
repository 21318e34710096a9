"""Calls of HTTP services: one client with limits on where it goes and how much it takes.

A call reaches the hosts that were named, by addresses that were looked up and checked first, so
that a name cannot lead into the network of whoever runs the agent. Redirects stay on their host.
"""

import asyncio
import base64
import ipaddress
import json
import socket
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast
from urllib.parse import quote

import httpx2

from weft.content import Part
from weft.media import type_by_content
from weft.tools.remote import ArgumentPlace, Credential, HttpCallError, Operation
from weft.values import Json, JsonObject, compact, text_or_json

QueryValue: TypeAlias = str | int | float | bool | None

MOST_REDIRECTS = 5


class _Draft:
    """A request that is being made."""

    def __init__(self, path: str, headers: Mapping[str, str]) -> None:
        self.path = path
        self.query: list[tuple[str, QueryValue]] = []
        self.headers = {**headers}
        self.cookies: list[str] = []


class HttpCaller:
    """Makes the calls of one service."""

    def __init__(
        self,
        address: str,
        *,
        schemes: JsonObject,
        auth: Mapping[str, Credential],
        headers: Mapping[str, str],
        hosts: frozenset[str],
        private: bool,
        seconds: float,
        largest: int,
    ) -> None:
        self._address = address.rstrip("/")
        self._schemes = schemes
        self._auth = auth
        self._headers = headers
        self._hosts = hosts
        self._private = private
        self._seconds = seconds
        self._largest = largest

    async def call(self, operation: Operation, args: JsonObject) -> object:
        """What the service answers, as the result of a tool."""
        draft = _Draft(operation.path, self._headers)
        for one in operation.placed:
            if args.get(one.argument) is not None:
                _put(draft, one, args[one.argument])
        if "{" in draft.path:
            raise HttpCallError(f"a part of the path is missing: {draft.path}")
        self._sign(operation, draft)
        if draft.cookies:
            draft.headers["cookie"] = "; ".join(draft.cookies)
        body = _encode(operation.body, args.get("body"), draft.headers)
        url = httpx2.URL(f"{self._address}{draft.path}")
        if draft.query:
            url = url.copy_merge_params(httpx2.QueryParams(draft.query))
        try:
            async with asyncio.timeout(self._seconds):
                return await self._send(operation.method, url, draft.headers, body)
        except TimeoutError:
            raise HttpCallError(f"{url.host} took longer than {self._seconds:g} s") from None
        except httpx2.HTTPError as error:
            words = str(error) or type(error).__name__
            raise HttpCallError(f"{url.host} cannot be reached: {words}") from None

    async def _send(
        self, method: str, url: httpx2.URL, headers: dict[str, str], body: bytes | None
    ) -> object:
        for _ in range(MOST_REDIRECTS + 1):
            pinned = await self._pin(url)
            async with httpx2.AsyncClient(timeout=self._seconds) as client:
                request = client.build_request(
                    method,
                    pinned,
                    headers={**headers, "host": _authority(url)},
                    content=body,
                    extensions={"sni_hostname": url.host},
                )
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    target = response.headers.get("location")
                    if response.status_code not in (301, 302, 303, 307, 308) or not target:
                        return await self._read(response)
                finally:
                    await response.aclose()
            following = url.join(target)
            if (following.scheme, following.host, following.port) != (
                url.scheme,
                url.host,
                url.port,
            ):
                raise HttpCallError(
                    f"{url.host} redirects to {following.host}, and calls stay where they were sent"
                )
            if response.status_code in (301, 302, 303) and method not in ("GET", "HEAD"):
                method, body = "GET", None
            url = following
        raise HttpCallError(f"{url.host} redirects more than {MOST_REDIRECTS} times")

    async def _pin(self, url: httpx2.URL) -> httpx2.URL:
        """The address of a host that may be called, so that no other can be had in between."""
        if url.host not in self._hosts:
            raise HttpCallError(f"{url.host} is not one of the hosts that may be called")
        port = url.port or (443 if url.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise HttpCallError(f"{url.host} cannot be found: {error}") from None
        addresses = [str(one[4][0]) for one in infos]
        if not self._private and not all(map(_is_public, addresses)):
            raise HttpCallError(
                f"{url.host} is a private address; whoever declares the tools allows those with"
                " private=True"
            )
        return url.copy_with(host=addresses[0])

    async def _read(self, response: httpx2.Response) -> object:
        """The answer, as far as it is taken."""
        data = bytearray()
        is_cut = False
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > self._largest:
                is_cut = True
                break
        value = _decode(bytes(data[: self._largest]), response.headers.get("content-type", ""))
        result: dict[str, object] = {"result": value}
        if isinstance(value, dict):
            result = cast("dict[str, object]", {**value})
        if response.status_code >= 400:
            result = {"error": f"{response.status_code} {response.reason_phrase}", "answer": value}
        if is_cut:
            result["note"] = f"the answer was longer than {self._largest:,} bytes, and is cut"
        return result

    # --- keys

    def _sign(self, operation: Operation, draft: _Draft) -> None:
        """Add the keys that the operation needs: the first set of schemes that is given whole."""
        if not operation.security:
            return
        for schemes in operation.security:
            if all(scheme in self._auth for scheme in schemes):
                for scheme in schemes:
                    self._add_key(scheme, self._auth[scheme], draft)
                return
        needed = " or ".join(" and ".join(schemes) for schemes in operation.security)
        raise HttpCallError(f"it needs keys that nobody gave: {needed}; auth={{...}} has them")

    def _add_key(self, scheme: str, credential: Credential, draft: _Draft) -> None:
        rules = self._schemes.get(scheme)
        about = rules if isinstance(rules, dict) else {}
        if not isinstance(credential, str) and not callable(credential):
            user, password = credential
            text = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
            draft.headers["authorization"] = f"Basic {text}"
            return
        key = credential() if callable(credential) else credential
        if about.get("type") == "apiKey":
            name = str(about.get("name"))
            match about.get("in"):
                case "query":
                    draft.query.append((name, key))
                case "cookie":
                    draft.cookies.append(f"{name}={quote(key)}")
                case _:
                    draft.headers[name] = key
            return
        word = str(about.get("scheme", "bearer"))
        word = "Bearer" if about.get("type") != "http" or word.lower() == "bearer" else word
        draft.headers["authorization"] = f"{word} {key}"


def _is_public(address: str) -> bool:
    one = ipaddress.ip_address(address.partition("%")[0])
    mapped = one.ipv4_mapped if isinstance(one, ipaddress.IPv6Address) else None
    return (mapped or one).is_global and not one.is_multicast


def _authority(url: httpx2.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port}" if url.port is not None else host


# --- how arguments are spelled


def _put(draft: _Draft, one: ArgumentPlace, value: Json) -> None:
    """Put an argument where it belongs."""
    if one.is_json:
        value = compact(value)
    match one.place:
        case "path":
            text = _join(value, ",")
            if text in (".", "..") or not text:
                raise HttpCallError(f"{one.name}={text!r} cannot be a part of a path")
            draft.path = draft.path.replace(f"{{{one.name}}}", quote(text, safe=""))
        case "query":
            draft.query += _spell_query(one, value)
        case "header":
            draft.headers[one.name] = _join(value, ",")
        case "cookie":
            draft.cookies.append(f"{one.name}={quote(_join(value, ','))}")
        case _:
            raise HttpCallError(f"{one.name} stands in {one.place!r}, which is not a place")


def _spell_query(one: ArgumentPlace, value: Json) -> Iterable[tuple[str, str]]:
    name, explode = one.name, one.explode if one.explode is not None else True
    if isinstance(value, dict):
        if one.style == "deepObject":
            return [(f"{name}[{key}]", _text(each)) for key, each in value.items()]
        if explode:
            return [(key, _text(each)) for key, each in value.items()]
    if isinstance(value, list):
        if one.style in ("", "form") and explode:
            return [(name, _text(each)) for each in value]
        between = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(one.style, ",")
        return [(name, between.join(map(_text, value)))]
    return [(name, _join(value, ","))]


def _join(value: Json, between: str) -> str:
    if isinstance(value, list):
        return between.join(map(_text, value))
    if isinstance(value, dict):
        return between.join(f"{key}{between}{_text(each)}" for key, each in value.items())
    return _text(value)


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return text_or_json(value)


def _encode(kind: str, value: Json, headers: dict[str, str]) -> bytes | None:
    """A body as bytes, with the header that says what it is."""
    if not kind or value is None:
        return None
    if kind == "application/x-www-form-urlencoded" and isinstance(value, dict):
        headers["content-type"] = kind
        fields: list[tuple[str, QueryValue]] = [*_fields(value)]
        return str(httpx2.QueryParams(fields)).encode()
    if kind == "multipart/form-data" and isinstance(value, dict):
        parts = [(name, (None, text)) for name, text in _fields(value)]
        request = httpx2.Request("POST", "http://x", files=parts)
        headers["content-type"] = request.headers["content-type"]
        return request.read()
    headers["content-type"] = kind
    return (
        value.encode()
        if isinstance(value, str) and "json" not in kind
        else json.dumps(value).encode()
    )


def _fields(value: JsonObject, within: str = "") -> Iterable[tuple[str, str]]:
    """The fields of a form; what is nested stands in brackets."""
    for key, each in value.items():
        name = f"{within}[{key}]" if within else key
        if isinstance(each, dict):
            yield from _fields(each, name)
        elif isinstance(each, list):
            yield from ((f"{name}[]" if within else name, _text(one)) for one in each)
        elif each is not None:
            yield name, _text(each)


def _decode(data: bytes, kind: str) -> object:
    """An answer as JSON, text, or a file."""
    plain = kind.partition(";")[0].strip().lower()
    if plain == "application/json" or plain.endswith("+json"):
        try:
            return cast("object", json.loads(data)) if data else ""
        except (ValueError, RecursionError):
            return data.decode("utf-8", "replace")
    if plain.startswith(("image/", "audio/", "video/")) or plain == "application/pdf":
        return Part.from_bytes(data, plain)
    if plain.startswith("text/") or not type_by_content(data):
        return data.decode("utf-8", "replace")
    return Part.from_bytes(data)
