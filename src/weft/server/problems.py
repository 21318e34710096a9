"""The answer to a client when something is wrong: a problem document (RFC 9457).

An error of Weft keeps its sentence, its place and its hint. An error that nobody foresaw says
nothing of what it is: that stands in the server's log.
"""

import logging

import msgspec
from starlette.responses import Response

from weft.errors import (
    CompileError,
    Conflict,
    DeclarationError,
    ModelError,
    RequestTaken,
    SchemaError,
    SessionBusy,
    SessionError,
    SessionFull,
    StoreError,
    UsageError,
    WeftError,
)
from weft.values import JsonObject

_log = logging.getLogger("weft.server")

MEDIA_TYPE = "application/problem+json"

_TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Content too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Unprocessable content",
    429: "Too many requests",
    431: "Request header fields too large",
    500: "Internal error",
    502: "The model failed",
    503: "Not available",
}


class Problem(Exception):
    """An answer that is an error: its status, a word for programs, and a sentence for people."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        hint: str = "",
        where: str = "",
        headers: dict[str, str] | None = None,
        members: JsonObject | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.hint = hint
        self.where = where
        self.headers = headers or {}
        self.members = members or {}
        """More members of the document, for programs."""

    @property
    def title(self) -> str:
        """What its status means."""
        return _TITLES.get(self.status, "Error")

    def document(self) -> JsonObject:
        """The JSON of the problem."""
        document: JsonObject = {
            "type": f"urn:weft:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.hint:
            document["hint"] = self.hint
        if self.where:
            document["where"] = self.where
        return {**document, **self.members}

    def response(self, *, extra: JsonObject | None = None) -> Response:
        """The answer that says it."""
        return Response(
            msgspec.json.encode({**self.document(), **(extra or {})}),
            status_code=self.status,
            media_type=MEDIA_TYPE,
            headers=self.headers,
        )


def problem_of(error: BaseException) -> Problem:
    """The problem document of an error."""
    match error:
        case Problem():
            return error
        case SessionBusy():
            return Problem(
                409,
                "busy",
                "another run has the session",
                hint='wait for it, cancel it, or send "busy": "queue" or "interrupt"',
            )
        case RequestTaken():
            return _problem(409, "request-taken", error)
        case SessionFull():
            return Problem(
                429,
                "session-full",
                error.message,
                hint="send it again when some of them are answered",
                headers={"retry-after": "5"},
            )
        case Conflict():
            return _problem(409, "conflict", error)
        case ModelError():
            return _problem(502, f"model-{error.code.replace('_', '-')}", error)
        # a name that no store would take
        case StoreError() if error.where in ("session key", "state"):
            return _problem(422, "invalid", error)
        case StoreError():
            # its own words may name a file or a host: they are for the log
            _log.error("the store failed: %s", error)
            return Problem(503, "store", "the store cannot be used now")
        case SessionError() | UsageError() | DeclarationError() | CompileError() | SchemaError():
            return _problem(422, "invalid", error)
        case WeftError():
            return _problem(500, "failed", error)
        case _:
            _log.error("a request failed", exc_info=error)
            return Problem(500, "internal", "the server failed; its log says why")


def invalid(detail: str, *, hint: str = "", where: str = "") -> Problem:
    """The problem of a request that says what cannot be meant."""
    return Problem(422, "invalid", detail, hint=hint, where=where)


def _problem(status: int, kind: str, error: WeftError) -> Problem:
    return Problem(status, kind, error.message, hint=error.hint, where=error.where)


def unknown_app(name: str) -> Problem:
    """The problem of an app that is not served here."""
    return Problem(404, "unknown-app", f"there is no app `{name[:100]}`", hint="GET /api/apps")


def unknown_session(id: str, hint: str = "") -> Problem:
    """The problem of a session that does not exist, or is another user's: nobody learns which."""
    return Problem(404, "unknown-session", f"there is no session `{id[:100]}`", hint=hint)


def unknown_artifact(name: str) -> Problem:
    """The problem of an artifact, or a version of one, that does not exist."""
    return Problem(404, "unknown-artifact", f"there is no artifact `{name[:100]}`")


def require_user(user: str) -> str:
    """The id of a user, which must be one that a list and a terminal can show."""
    if not user.strip() or not user.isprintable() or len(user.encode()) > 800:
        raise invalid(
            f"{user[:100]!r} cannot be the id of a user",
            hint="use a short, printable name",
            where="/user",
        )
    return user


def require_id(id: str) -> str:
    """The id of a new session, which must be one that an address and a terminal can show."""
    if id in (".", "..") or "/" in id or "\\" in id or not id.strip() or not id.isprintable():
        raise invalid(
            f"the id {id[:100]!r} cannot stand in an address",
            hint="use letters, digits, `-`, `_` and `.`",
            where="/id",
        )
    return id
