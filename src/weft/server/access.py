"""Who may ask: hosts, origins, tokens, users, and how much at once.

A server on the loopback interface is reached by every page that the browser on that machine
opens, and by any name that is made to point there. So every request must name a host of ours, a
page must be our own, and the request must carry a secret of this start.

Top to bottom: who asks, the ways to authenticate, the limits, the gate that each request passes.
"""

import hashlib
import hmac
import inspect
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.errors import UsageError
from weft.server.problems import Problem, problem_of

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""The names under which a server on this machine is asked."""

OPEN_PATHS = frozenset(("/health", "/ready"))
"""What may be asked without a token: whether the server lives says nothing of anybody."""


_ASKER = (b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode")
"""The headers that say which server is meant, and which page asks."""

_MOST_ASKERS = 1_000

_SAFE = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
"""Headers of every answer."""


class Identity(NamedTuple):
    """Who asks. `user` is None for the operator, who sees the sessions of all users."""

    user: str | None
    name: str


OPERATOR = Identity(None, "operator")

Authenticate: TypeAlias = Callable[[HTTPConnection], str | Awaitable[str | None] | None]
"""A function of the application: the user of a request, or None where there is none."""


class Tokens:
    """Bearer tokens of users. Only their hashes are kept."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """Tokens by user: `Tokens({"ann": "a long secret"})`."""
        self._users: list[tuple[bytes, Identity]] = []
        for user, token in users.items():
            # a header takes printable ASCII only, and a short token can be guessed
            if len(token) < 16 or not re.fullmatch(r"[\x21-\x7e]+", token):
                raise UsageError(
                    f"the token of `{user}` is too short, or has spaces or other odd characters",
                    where="tokens",
                    hint='make one: python -c "import secrets; print(secrets.token_urlsafe())"',
                )
            self._users.append((_hash(token), Identity(user, user)))
        if not self._users:
            raise UsageError("there are no tokens", where="tokens", hint="write user=token lines")

    @staticmethod
    def read(source: str) -> "Tokens":
        """Tokens from a file, or from a variable written `env:NAME`; a line `user=token` each."""
        if source.startswith("env:"):
            text = os.environ.get(source[4:])
            if text is None:
                raise UsageError(
                    f"the variable {source[4:]} is not set", where="--tokens", hint="set it"
                )
        else:
            try:
                text = Path(source).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"the tokens cannot be read: {error}",
                    where=source,
                    hint="name a file with a line user=token for each user, or env:NAME",
                ) from None
        users: dict[str, str] = {}
        for number, line in enumerate(re.split(r"[\n;]", text), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            user, separator, token = line.strip().partition("=")
            if not separator or not user or user in users:
                raise UsageError(
                    f"line {number} is not user=token, or names a user twice",
                    where=source,
                    hint="a line for each user: ann=some-long-secret",
                )
            users[user] = token.strip()
        return Tokens(users)

    def __call__(self, connection: HTTPConnection) -> Identity | None:
        """The user whose token the request has."""
        return self.identify(connection.scope)

    def identify(self, scope: Scope) -> Identity | None:
        """The user whose token a request of this scope has."""
        token = shown_token(scope)
        if token is None:
            return None
        hashed, who = _hash(token), None
        for known, identity in self._users:  # all of them: time says nothing of which
            if hmac.compare_digest(hashed, known):
                who = identity
        return who


class StartToken:
    """The token of one start: its holder may see everything, as on a machine of one's own."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._hashed = _hash(token)
        self._header = f"Bearer {token}".encode()

    def identify(self, scope: Scope) -> Identity | None:
        """The operator, if the request shows the token."""
        header = headers_of(scope).get(b"authorization", b"")
        if hmac.compare_digest(header, self._header):  # as nearly all clients write it
            return OPERATOR
        token = shown_token(scope)
        fits = token is not None and hmac.compare_digest(_hash(token), self._hashed)
        return OPERATOR if fits else None


def shown_token(scope: Scope) -> str | None:
    """The token of a request: a bearer token, or the cookie that the printed address sets."""
    headers = headers_of(scope)
    scheme, _, value = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    cookie_header = headers.get(b"cookie")
    if cookie_header is None:
        return None
    try:
        cookies = SimpleCookie(cookie_header.decode("latin-1"))
    except CookieError:
        return None
    cookie = cookies.get(cookie_name(scope))
    return cookie.value if cookie is not None else None


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request by their names in small letters; of two of a name the first.

    They are looked at a dozen times, so they are made into a table once.
    """
    headers: dict[bytes, bytes] | None = scope.get("weft.headers")
    if headers is None:
        # reversed: a dict keeps the last of a name, and the first is wanted
        headers = scope["weft.headers"] = dict(reversed([*scope["headers"]]))
    return headers


def cookie_name(scope: Scope) -> str:
    """The cookie's name, with the port in it: cookies do not tell servers of one host apart."""
    server = scope.get("server")
    return f"weft-{server[1] if server else 0}"


def _hash(token: str) -> bytes:
    # of the strong hashes the one that begins fastest: every request needs it
    return hashlib.blake2s(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one server takes."""

    body: int = 8_000_000
    """Bytes of a request."""
    rate: float = 100.0
    """Requests a second that one user may make for long."""
    burst: int = 400
    """Requests that one user may make at once."""
    streams: int = 2_000
    """Streams that are open at once, of all users."""
    streams_of_user: int = 2_000
    """Streams that one user has open."""
    stalled: float = 60.0
    """Seconds after which a stream is closed whose client does not read."""
    runs: int = 1_000
    """Runs that are under way at once in this process; more are refused with 503."""
    waiting: int = 10_000
    """Turns that wait in the queue, where there is one; more are refused with 503."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise UsageError(
                    f"{name}={value!r}", where="Limits", hint=f"pass a number above 0: {name}=100"
                )


class RequestRates:
    """How many requests each user may still make: a bucket that fills at a steady rate."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take one; the seconds to wait where there is none."""
        now, limits = time.monotonic(), self._limits
        level, then = self._buckets.get(name, (float(limits.burst), now))
        level = min(level + (now - then) * limits.rate, float(limits.burst))
        if level < 1:
            self._buckets[name] = (level, now)
            return (1 - level) / limits.rate
        if len(self._buckets) > 10_000:  # full buckets are as good as new ones
            self._buckets.clear()
        self._buckets[name] = (level - 1, now)
        return 0.0


class Gatekeeper:
    """Checks every request before the application gets it."""

    def __init__(
        self,
        inner: ASGIApp,
        *,
        authenticate: Authenticate | Tokens | StartToken,
        hosts: Sequence[str],
        origins: Sequence[str],
        limits: Limits,
        answered: Callable[[Scope, int], None],
        shape: Callable[[Scope, Problem], Response],
    ) -> None:
        self._inner = inner
        self._shape = shape
        self._authenticate = authenticate
        self._identify = (
            authenticate.identify if isinstance(authenticate, StartToken | Tokens) else None
        )
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)
        self._limits = limits
        self._rates = RequestRates(limits)
        self._answered = answered
        self._askers: set[tuple[bytes | None, ...]] = set()
        """Hosts and origins that were let in: most requests of a client name the same ones."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, and pass it on."""
        if scope["type"] == "websocket":  # nothing here speaks it
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        status = 500

        def note_status(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_SAFE]
            return send(message)

        try:
            identity = await self._admit(scope)
            if identity is None:
                await self._set_cookie(scope, receive, note_status)
                return
            scope["weft.identity"] = identity
            await self._inner(scope, receive, note_status)
        except HTTPException as refused:  # a file that is not there
            place = str(scope["path"])[:200]
            problem = Problem(refused.status_code, "unknown-path", f"there is nothing at {place}")
            await self._shape(scope, problem)(scope, receive, note_status)
        except Problem as problem:
            await self._shape(scope, problem)(scope, receive, note_status)
        finally:
            self._answered(scope, status)

    async def _admit(self, scope: Scope) -> Identity | None:
        """Who asks, or a problem; None for the printed address, which brings a token to keep."""
        headers = headers_of(scope)
        # fewer names than headers: one came twice
        if len(headers) < len(scope["headers"]):
            self._require_once(scope)
        method: str = scope["method"]
        asker = (method.encode(), *map(headers.get, _ASKER))
        if asker not in self._askers:
            self._require_origin(headers, self._require_host(headers), method)
            # clients choose these headers: the table must not grow with what they send
            if len(self._askers) < _MOST_ASKERS and sum(map(len, filter(None, asker))) < 500:
                self._askers.add(asker)
        self._require_small(headers)
        if inner_path(scope) in OPEN_PATHS:
            return Identity("", "")
        identify = self._identify
        identity = identify(scope) if identify is not None else await self._identity(scope)
        if identity is None:
            query = HTTPConnection(scope).query_params
            # the address that was printed at the start has the token in it
            if scope["method"] == "GET" and "token" in query:
                return None
            raise Problem(
                401,
                "unauthenticated",
                "the request shows no valid token",
                hint="send Authorization: Bearer TOKEN, or open the address that was printed",
                headers={"www-authenticate": "Bearer"},
            )
        pause = self._rates.take(identity.name)
        if pause:
            raise Problem(
                429,
                "rate",
                f"more than {self._limits.rate:g} requests a second",
                hint=f"wait {pause:.2f} seconds",
                headers={"retry-after": str(int(pause) + 1)},
            )
        return identity

    async def _identity(self, scope: Scope) -> Identity | None:
        """Whom the application's own function takes it to be."""
        assert not isinstance(self._authenticate, StartToken)
        try:
            answer = self._authenticate(HTTPConnection(scope))
            if inspect.isawaitable(answer):
                answer = await answer
        except (HTTPException, Problem):  # it has its own message for the client
            raise
        except Exception as error:
            raise problem_of(error) from error
        if answer is None or isinstance(answer, Identity):
            return answer
        if not isinstance(cast("object", answer), str) or not answer:
            raise problem_of(TypeError(f"the authentication returned {answer!r}, not a user's id"))
        return Identity(answer, answer)

    def _require_host(self, headers: dict[bytes, bytes]) -> str:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name, colon, port = host.rpartition(":")
        # an IPv6 address has colons of its own: `[::1]`
        if not colon or (port and not port.isdigit()):
            name = host
        if "*" not in self._hosts and name not in self._hosts and host not in self._hosts:
            raise Problem(
                421,
                "host",
                f"this server is not `{host[:100]}`",
                hint='say so where it is started: --allow-host NAME, or app(..., hosts=["NAME"])',
            )
        return host

    def _require_origin(self, headers: dict[bytes, bytes], host: str, method: str) -> None:
        """Refuse what a page of another origin makes the browser ask."""
        if b"origin" not in headers:
            foreign = headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin")
            # a link from elsewhere may open a page, but nothing else
            opens = headers.get(b"sec-fetch-mode") == b"navigate" and method in ("GET", "HEAD")
            if foreign and not opens:
                raise Problem(403, "origin", "the request comes from a page of another origin")
            return
        origin = headers[b"origin"].decode("latin-1")
        scheme, _, own = origin.partition("://")
        is_own = scheme in ("http", "https") and own.lower() == host
        if origin not in self._origins and not is_own:
            raise Problem(403, "origin", f"a page of `{origin[:100]}` may not ask this server")

    def _require_once(self, scope: Scope) -> None:
        """Refuse a header twice that decides who asks: a proxy may have read the other one."""
        names = [name for name, _ in scope["headers"]]
        for name in (*_ASKER, b"authorization", b"content-length", b"content-type"):
            if names.count(name) > 1:
                raise Problem(400, "headers", f"there are two headers `{name.decode()}`")

    def _require_small(self, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise Problem(400, "content-length", "the content-length is not a number")
        # a proxy may believe the one and we the other: what follows would be a request of its own
        if b"transfer-encoding" in headers and b"content-length" in headers:
            raise Problem(
                400,
                "headers",
                "there are a content-length and a transfer-encoding",
                hint="send one of them",
                headers={"connection": "close"},
            )
        # a number of that length is not even read
        if len(length) > 18 or int(length) > self._limits.body:
            raise too_large(self._limits)

    async def _set_cookie(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keep the token of the printed address in a cookie, and lead to the page without it."""
        connection = HTTPConnection(scope)
        token = connection.query_params["token"]
        # looked at as if it had come as a header, so that one check decides
        trial = {**scope, "weft.headers": {b"authorization": b"Bearer " + token.encode()}}
        if self._identify is None or not self._identify(trial):
            raise Problem(
                401, "unauthenticated", "the token in the address is not the one of this start"
            )
        rest = urlencode([pair for pair in parse_qsl(connection.url.query) if pair[0] != "token"])
        path = "/" + connection.url.path.lstrip("/")  # `//name` would be another server
        response = RedirectResponse(f"{path}{f'?{rest}' if rest else ''}", 303)
        response.set_cookie(
            cookie_name(scope),
            token,
            httponly=True,
            # no page of another origin can use it
            samesite="strict",
            secure=scope.get("scheme") == "https",
            path="/",
        )
        response.headers["cache-control"] = "no-store"
        await response(scope, receive, send)


def too_large(limits: Limits) -> Problem:
    """The problem of a body that is too long."""
    return Problem(413, "too-large", f"the request has more than {limits.body} bytes")


def inner_path(scope: Scope) -> str:
    """The path below where the application is mounted, as routes are matched with it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if not root or not path.startswith(root):
        return path
    below = path[len(root) :]
    # `/apiary` is not below a mount at `/api`
    return below if not below or below[0] == "/" else path
