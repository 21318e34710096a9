"""Every exception Weft raises on purpose.

    WeftError
    ├── DeclarationError      an Agent, tool, schema or option that cannot be right
    │   ├── CallError         a call with an unknown keyword, or with arguments missing or too many
    │   └── FrozenError       an assignment to a value that never changes
    ├── CompileError          a declaration and a log that give no legal request
    │   ├── MissingVariable   a template variable nobody wrote, under on_missing="error"
    │   ├── BudgetExceeded    what must stay is larger than the budget
    │   ├── LoweringError     a dialect cannot express the prompt, under strict
    │   ├── InvalidPrompt     a pass broke a law of the IR (a bug, or a callback's doing)
    │   └── ProtectionError   a request that still holds what its policy keeps away from the model
    ├── SessionError          a session or an event that cannot be read
    │   ├── RequestTaken      a request_id that came with another message before
    │   ├── LostContent       a recording of which something would be lost
    │   └── RunUnfinished     a message after a run that was cut off, under unfinished="reject"
    ├── StoreError            a store that cannot be opened, read or written
    │   ├── Conflict          a write from a session value that the store has moved past
    │   │   └── LeaseLost     a write of a run that another one has taken the session from
    │   ├── SessionBusy       another run has the session, under busy="reject"
    │   ├── SessionFull       a turn for a session in whose line too many wait already
    │   └── StoreUnreachable  a server that is away: it may be back soon
    ├── RunError              an invocation that ended with an error event
    ├── ModelError            a model that gave no answer, with a code that says why
    ├── IllegalRequest        a request that a provider would refuse, found by a test
    ├── ScriptExhausted       a scripted model that was asked more often than its script says
    ├── SchemaError           a value that does not fit its schema
    └── UsageError            a command, path or name the user typed wrong
        ├── UnknownName       an attribute that is not there, or not yet
        └── UnknownImport     a name that is imported and is not there

CallError is a UsageError and a TypeError too, FrozenError a FrozenInstanceError, UnknownName an
AttributeError, UnknownImport an ImportError: what Python raises in these places.

An error says what is wrong, where, and what to type instead: `message` is one
sentence without the fix, `where` the place, `hint` the fix.
"""

from dataclasses import FrozenInstanceError


def describe_kind(value: object) -> str:
    """What a value is, as a message says it: "an int", "a list", "None"."""
    return "None" if value is None else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """The noun with its article, by its first letter: "an agent", "a list", "a user"."""
    start = noun.lstrip("_").lower()
    is_vowel = start[:1] in tuple("aeio") or (start[:2] == "un" and start[:3] != "uni")
    return f"{'an' if is_vowel else 'a'} {noun}"


class WeftError(Exception):
    """Base of everything raised on purpose."""

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        self.message = message
        self.where = where
        self.hint = hint
        super().__init__(message, where, hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.message, self.where, self.hint)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def _again(kind: type[WeftError], message: str, where: str, hint: str) -> WeftError:
    """The error as it was, after a pickle carried it to another process."""
    return kind(message, where=where, hint=hint)


class DeclarationError(WeftError):
    """An Agent, tool, schema or option that cannot be right."""


class CompileError(WeftError):
    """A declaration and a log that give no legal request."""


class MissingVariable(CompileError):
    """A template variable nobody wrote, under `on_missing="error"`."""


class BudgetExceeded(CompileError):
    """What must stay is larger than the budget."""


class LoweringError(CompileError):
    """A dialect cannot express the prompt, under strict."""


class InvalidPrompt(CompileError):
    """A pass broke a law of the IR."""


class ProtectionError(CompileError):
    """A request that still holds what its policy keeps away from the model; it is not sent."""


class SessionError(WeftError):
    """A session or an event that cannot be read."""


class RequestTaken(SessionError):
    """A request id that came with another message before."""

    def __init__(self, request_id: str, *, where: str) -> None:
        super().__init__(
            f"the request `{request_id}` came with another message before",
            where=where,
            hint="give every message a request_id of its own, and repeat a message unchanged",
        )


class LostContent(SessionError):
    """A recording of which a call, a result, media or words would be lost."""


class RunUnfinished(SessionError):
    """A message after a run that was cut off, under `unfinished="reject"`."""

    def __init__(
        self, message: str, *, where: str = "", hint: str = "", invocation_id: str = ""
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.invocation_id = invocation_id
        """The run that was cut off; a copy from another process does not name it."""


class StoreError(WeftError):
    """A store that cannot be opened, read or written."""


class Conflict(StoreError):
    """A write from a session value that the store has moved past."""


class LeaseLost(Conflict):
    """A write of a run that another one has taken the session from, because it seemed dead."""


class SessionBusy(StoreError):
    """Another run has the session, under `busy="reject"`."""


class SessionFull(StoreError):
    """A turn for a session in whose line too many wait already; the queue has not taken it."""


class StoreUnreachable(StoreError):
    """A server that is away: it is not there, does not answer, or stops; it may be back soon."""


class RunError(WeftError):
    """An invocation that ended with an error event."""


class ModelError(WeftError):
    """A model that gave no answer; `code` says why, in one word that never changes.

    The codes: `auth`, `not_found`, `bad_request`, `context_overflow`, `rate_limited`,
    `overloaded`, `timeout`, `connection`, `bad_response`, `cut_stream`, `unavailable` (the
    circuit is open) and `model_error`. `retry_after` is how many seconds the provider asks to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "model_error",
        provider: str = "",
        model: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        where: str = "",
        hint: str = "",
    ) -> None:
        self.code = code
        self.provider = provider
        self.model = model
        self.status = status
        self.retry_after = retry_after
        super().__init__(message, where=where or f"{provider}/{model}".strip("/"), hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _model_error, (self.message, self.__dict__)


def _model_error(message: str, fields: dict[str, object]) -> ModelError:
    """The error as it was, after a pickle carried it to another process."""
    error = ModelError(message)
    error.__dict__.update(fields)
    return error


class IllegalRequest(WeftError):
    """A request that a provider would refuse, or that changes what was sent before."""


class ScriptExhausted(WeftError):
    """A scripted model that was asked more often than its script says."""


class UnrecordedRequest(WeftError):
    """A recorded model that was asked what is not in its recording."""


class SchemaError(WeftError):
    """A value that does not fit its schema."""


class UsageError(WeftError):
    """A command, path or name the user typed wrong."""


class UnknownName(UsageError, AttributeError):
    """An attribute that is not there, or not yet."""


class UnknownImport(UsageError, ImportError):
    """A name that is imported and is not there."""


class CallError(DeclarationError, UsageError, TypeError):
    """A call with an unknown keyword, or with arguments missing or too many."""


class FrozenError(DeclarationError, FrozenInstanceError):
    """An assignment to a value that never changes."""
