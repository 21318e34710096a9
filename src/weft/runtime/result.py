"""The result of a run: the answer, what it cost, and the session it leaves behind."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from weft.declare.agent import AnswerT
from weft.diagnostics import Diagnostic
from weft.errors import CallError, RunError, SchemaError
from weft.misuse import ByFields, declared, unknown_name
from weft.notebook import framed, line
from weft.runtime.answer import is_cut, parse
from weft.runtime.costs import warning_in
from weft.runtime.invocation import Invocation
from weft.session import Event, Session, Usage
from weft.session.log import events_table
from weft.session.state import without_temp
from weft.values import JsonObject

_WORDS = {
    **dict.fromkeys(
        ("output", "final_output", "content", "answer", "response", "message", "output_text"),
        "result.text, or result.value for an answer with a schema",
    ),
    **dict.fromkeys(("data", "parsed", "structured_output", "pydantic"), "result.value"),
    **dict.fromkeys(
        ("messages", "new_messages", "all_messages", "new_items", "history", "steps"),
        "result.events for this run, result.session.events for all",
    ),
    "session_id": "result.session.id",
    "cost": "result.usage, the tokens; weft replay counts money",
}
"""What others call the parts of a result."""


@declared("", change="keep what you make of it in a variable of your own")
@dataclass(frozen=True, slots=True, eq=False)
class Result(ByFields, Generic[AnswerT]):
    """What came of a run.

    `value` is the answer in its schema's own type, or its text. `error` is the event that ended
    the run, if one did. `waiting` are the calls of the session that wait for an answer from
    outside, whichever run asked: id -> name.
    """

    text: str
    value: AnswerT
    events: tuple[Event, ...]
    session: Session
    usage: Usage
    invocation_id: str
    error: Event | None = None
    waiting: dict[str, str] = field(default_factory=dict[str, str])
    truncated: bool = False
    """Whether an answer of the invocation was cut off at the token limit, and kept as it was."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is wrong with what models were asked, and that the run neared its budget."""
    repeated: bool = False
    """Whether the log had the `request_id` already: this is what came of it then."""

    def _repr_html_(self) -> str:
        show = self._mask()
        tokens = self.usage.total_token_count or 0
        parts = [line(show(self.text))] if self.text else []
        if self.error is not None:
            error = f"{self.error.error_code}: {self.error.error_message}"
            parts.append(line(show(error), "error"))
        parts += [line(f"waits for an answer: {name}", "warning") for name in self.waiting.values()]
        parts += [line(str(one), str(one.severity)) for one in self.diagnostics]
        return framed(f"{tokens:,} tokens", *parts, events_table(self.events, show))

    def _mask(self) -> Callable[[str], str]:
        """What shows a text without what the run's requests had redacted: notebooks are sent on."""
        from weft.passes.redact import applied_rules

        rules = applied_rules(self.session.events, self.session.id)
        if not rules:
            return str
        from weft.compiler.mask import Mask, MaskRules

        return Mask(MaskRules(rules), self.session).text

    @property
    def state(self) -> JsonObject:
        """The session's state after the run."""
        return without_temp(self.session.state)

    def check(self) -> "Result[AnswerT]":
        """This result, or a RunError if the run ended with an error event."""
        if self.error is not None:
            raise RunError(
                f"{self.error.error_code}: {self.error.error_message}", where=self.error.author
            )
        return self

    def __str__(self) -> str:
        return self.text

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what the answer is called here."""
            raise unknown_name(f"a result has no `{name}`", name, Result, _WORDS)

        def __await__(self) -> object:
            """Say that it is there already; `await weft.run_sync(...)` is an easy slip."""
            raise CallError(
                "this is the result already: there is nothing to wait for",
                where="Result",
                hint='write weft.run_sync(...) without await, or await weft.run(agent, "message")',
            )

        def __aiter__(self) -> object:
            """Say what to iterate instead."""
            raise CallError(
                "a result has no events to wait for any more",
                where="Result",
                hint='write async for event in weft.stream(agent, "message"), without await;'
                " or for event in result.events",
            )


def total_usage(events: Iterable[Event]) -> Usage:
    """What all answers together cost."""
    used = [event.usage for event in events if event.usage is not None]
    if not used:
        return _NO_USAGE
    return Usage(
        prompt_token_count=_total(one.prompt_token_count for one in used),
        candidates_token_count=_total(one.candidates_token_count for one in used),
        total_token_count=_total(one.total_token_count for one in used),
        cached_content_token_count=_total(one.cached_content_token_count for one in used),
        thoughts_token_count=_total(one.thoughts_token_count for one in used),
    )


_NO_USAGE = Usage()


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum of what was counted, or None if nothing was."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def result_of(invocation: Invocation, events: tuple[Event, ...]) -> Result[Any]:
    """The result of the run, once it is over."""
    failed = failure_of(invocation, events)
    session, mine = invocation.session, invocation.visible_events()
    answer, text = None, ""
    # a run that failed has no answer, whatever was said on the way
    for event in reversed(mine) if failed is None else ():
        if _is_for_user(event) and event.is_final_response() and (text := event.text):
            answer = event
            break
    waiting = session.waiting
    return Result(
        text,
        _value(invocation, answer, text),
        events,
        session,
        total_usage(events),
        invocation.id,
        failed,
        waiting,
        any(event.finish_reason and is_cut(event) for event in mine),
        (*invocation.findings.values(), *_warnings(events)),
        invocation.is_repeated,
    )


def failure_of(invocation: Invocation, events: tuple[Event, ...]) -> Event | None:
    """The event that ended the run, if one did."""
    if invocation.failure is not None:
        return invocation.failure.event
    last = events[-1] if events else None
    # a repeated request gives the failure of its first run again
    if last is not None and (last.interrupted or (invocation.is_settled and last.error_code)):
        return last
    return None


def _warnings(events: tuple[Event, ...]) -> list[Diagnostic]:
    """That the run neared its budget, where events say so."""
    noted = [warning_in(event) for event in events if event.custom_metadata is not None]
    return [warning for warning in noted if warning is not None]


def _is_for_user(event: Event) -> bool:
    """Whether the event may be what the run says to the user."""
    if event.author == "user" or event.audience == "internal" or event.error_code:
        return False
    return not event.isolation_scope


def _value(invocation: Invocation, answer: Event | None, text: str) -> object:
    """The answer in its schema's own type, or its text."""
    if answer is None:
        return None
    agent = invocation.program.with_schema.get(answer.author)
    if agent is not None:
        try:
            return parse(agent, text, wrapped=None)[1]
        except SchemaError:  # a callback or a plugin may answer with any text
            return text
    return text
