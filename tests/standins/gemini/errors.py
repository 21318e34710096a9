"""How Gemini says no: an HTTP status, its name, one message and details."""

from weft.values import Json, JsonObject

_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TYPES = "type.googleapis.com/google.rpc"


class Refused(Exception):
    """A request that gets an error body instead of an answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        details: list[Json] | None = None,
        seconds: float | None = None,
    ) -> None:
        self.message = message
        self.status = status
        self.details = details or []
        self.seconds = seconds
        super().__init__(message)

    def body(self) -> JsonObject:
        """The body that is sent."""
        error: JsonObject = {
            "code": self.status,
            "message": self.message,
            "status": _NAMES.get(self.status, "UNKNOWN"),
        }
        if self.details:
            error["details"] = self.details
        return {"error": error}


def refused_field(place: str, message: str) -> Refused:
    """The error for one field that is wrong, which its details name."""
    violation: JsonObject = {"description": message}
    if place:
        violation["field"] = place
    detail: JsonObject = {"@type": f"{_TYPES}.BadRequest", "fieldViolations": [violation]}
    return Refused(message, details=[detail])


def refused_key() -> Refused:
    """The error for a key that is none."""
    detail: JsonObject = {
        "@type": f"{_TYPES}.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }
    return Refused("API key not valid. Please pass a valid API key.", details=[detail])


def refused_for_now(message: str, *, status: int, seconds: float | None) -> Refused:
    """The error that asks to try again, after so many seconds where it says so."""
    details: list[Json] = []
    if seconds is not None:
        details.append({"@type": f"{_TYPES}.RetryInfo", "retryDelay": f"{seconds:g}s"})
    return Refused(message, status=status, details=details, seconds=seconds)
