"""The result of a run: the answer, what it cost, and the session that it leaves.

Below it the agent's final answer: what it must be, what is kept of it, what is wrong with it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec

from weft import schema
from weft.compiler.plan import SET_RESPONSE
from weft.content import Content, Part
from weft.declare import Agent, Node, RunConfig
from weft.declare.agent import AnswerT
from weft.diagnostics import Diagnostic
from weft.errors import CallError, RunError, SchemaError
from weft.ir import Output
from weft.markup import text_line, titled_fragment
from weft.misuse import explain_mistakes, unknown_name
from weft.runtime.costs import usage_of, warning_in
from weft.runtime.invocation import Invocation
from weft.session import Event, Session, Usage
from weft.session.event import without_temp
from weft.session.flow import TRUSTED, TrustLabel
from weft.session.log import events_table
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    from weft.replay.receipt import Receipt

WORDS_OF_RESULTS = {
    **dict.fromkeys(
        (
            "output", "final_output", "content", "answer", "response", "message", "output_text",
            "final_text", "raw", "result", "final_answer", "completion", "generated_text",
        ),
        "result.text, or result.value for an answer with a schema",
    ),
    **dict.fromkeys(
        ("data", "parsed", "structured_output", "pydantic", "json_dict", "final_output_as"),
        "result.value",
    ),
    **dict.fromkeys(("tokens", "token_usage", "usage_metadata"), "result.usage"),
    **dict.fromkeys(("last_agent", "agent", "author"), "result.events[-1].author"),
    **dict.fromkeys(("to_dict", "model_dump", "json", "to_json"), "result.session.to_json()"),
    "tasks_output": "result.events for this run",
    "interrupts": "result.waiting",
    **dict.fromkeys(
        ("messages", "new_messages", "all_messages", "new_items", "history", "steps"),
        "result.events for this run, result.session.events for all",
    ),
    **dict.fromkeys(
        ("raise_for_error", "raise_for_status", "raise_error", "unwrap", "ok", "is_error"),
        "result.check(), which raises what ended the run, or look at result.error",
    ),
    "session_id": "result.session.id",
    **dict.fromkeys(
        ("cost", "price", "bill", "total_cost", "total_cost_usd", "cost_usd"),
        "result.receipt.total, in US dollars where the model has a price",
    ),
}  # fmt: skip
"""What others call the parts of a result."""


class RunSource(msgspec.Struct, frozen=True):
    """What the requests of a run are compiled from, in addition to its session."""

    root: Node
    config: RunConfig
    artifacts: Mapping[str, str]


@explain_mistakes("", change="keep what you make of it in a variable of your own")
class Result(msgspec.Struct, Generic[AnswerT], frozen=True, eq=False):
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
    waiting: dict[str, str] = {}
    truncated: bool = False
    """Whether an answer of the invocation was cut off at the token limit, and kept as it was."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is wrong with what models were asked, and that the run neared its budget."""
    repeated: bool = False
    """Whether the log had the `request_id` already: this is what came of it then."""
    _source: RunSource | None = None

    @property
    def receipt(self) -> "Receipt":
        """What each model call of the run was expected to cost, and what its provider billed.

        The requests are compiled again from the log each time this is asked for.
        """
        from weft.replay.receipt import receipt_of_run

        if self._source is None:
            raise CallError(
                "this result has no program, so its requests cannot be compiled again",
                where="Result.receipt",
                hint="weft receipt SESSION --store ADDRESS reads a stored session",
            )
        source = self._source
        return receipt_of_run(
            source.root,
            self.session,
            self.invocation_id,
            config=source.config,
            artifacts=source.artifacts,
        )

    def _repr_html_(self) -> str:
        show = self._mask()
        tokens = self.usage.total_token_count or 0
        parts = [text_line(show(self.text))] if self.text else []
        if self.error is not None:
            error = f"{self.error.error_code}: {self.error.error_message}"
            parts.append(text_line(show(error), "error"))
        waiting = self.waiting.values()
        parts += [text_line(f"waits for an answer: {name}", "warning") for name in waiting]
        parts += [text_line(str(one), str(one.severity)) for one in self.diagnostics]
        return titled_fragment(f"{tokens:,} tokens", *parts, events_table(self.events, show))

    def _mask(self) -> Callable[[str], str]:
        """What shows a text without what the run's requests had redacted: notebooks are sent on."""
        from weft.passes.redact import applied_rules

        rules = applied_rules(self.session.events, self.session.id)
        if not rules:
            return str
        from weft.compiler.mask import Mask, MaskRules

        return Mask(MaskRules(rules), self.session).text

    @property
    def label(self) -> TrustLabel:
        """Whose text had influence on the answer: an interface may mark it."""
        spoken = (event for event in reversed(self.events) if event.text and event.author != "user")
        return next((event.label for event in spoken), TRUSTED)

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

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in _RESULT_FIELDS]
        return f"Result({', '.join(fields)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        theirs = cast("Result[object]", other)
        return all(getattr(self, name) == getattr(theirs, name) for name in _RESULT_FIELDS)

    __hash__ = None  # type: ignore[assignment]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what the answer is called here."""
            raise unknown_name(f"a result has no `{name}`", name, Result, WORDS_OF_RESULTS)

        def __getitem__(self, key: object) -> object:
            """Say that it is not a dict, as the state of others is."""
            raise CallError(
                "a result is not a dict, nor a list",
                where="Result",
                hint=_word_for(key),
            )

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


_RESULT_FIELDS = Result.__struct_fields__[:-1]
"""The fields of a result that say what came of the run: where it came from is not compared."""


def find_part(name: str) -> str:
    """The part of a result that a name stands for, here or in other libraries; "" for none."""
    if name in Result.__struct_fields__ or name in ("state", "check", "receipt"):
        return name
    word = WORDS_OF_RESULTS.get(name, "")
    return word.removeprefix("result.").partition(",")[0].partition(" ")[0]


def _word_for(key: object) -> str:
    """What to write instead of `result["key"]`."""
    if isinstance(key, str) and key in WORDS_OF_RESULTS:
        return f"write {WORDS_OF_RESULTS[key]}"
    if isinstance(key, str):
        return f'write result.state["{key}"], or result.text for the answer'
    return "write result.text for the answer, result.events for what happened"


def total_usage(events: Iterable[Event]) -> Usage:
    """What all answers together cost, as their providers counted."""
    used: list[Usage] = []
    for event in events:
        if event.usage is not None:
            used.append(event.usage)
    return _sum_up(used) if used else _NO_USAGE


def counted_usage(events: Iterable[Event]) -> Usage:
    """What all answers together cost, as their providers counted or as it was counted here."""
    return _sum_up([used for event in events if (used := usage_of(event)) is not None])


def _sum_up(used: list[Usage]) -> Usage:
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
    session, mine = invocation.log.session, invocation.log.visible_events()
    answer, text = None, ""
    # a run that failed has no answer, whatever was said on the way
    for event in reversed(mine) if failed is None else ():
        if _is_for_user(event) and event.is_final_response() and (text := event.text):
            answer = event
            break
    waiting = session.waiting
    truncated, warnings = False, list[Diagnostic]()
    for event in mine:
        truncated = truncated or (event.finish_reason == CUT and is_cut(event))
    for event in events:
        noted = event.custom_metadata and event.is_noted
        if noted and (warning := warning_in(event)) is not None:
            warnings.append(warning)
    return Result(
        text,
        _value(invocation, answer, text),
        events,
        session,
        total_usage(events),
        invocation.id,
        failed,
        waiting,
        truncated,
        (*invocation.findings.values(), *warnings),
        invocation.is_repeated,
        RunSource(invocation.root, invocation.config, invocation.surroundings.known_texts),
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


RETRIES = 2
"""How often a bad answer is returned to the model with what is wrong with it."""


CUT = "MAX_TOKENS"
"""The finish reason of an answer that has as many tokens as it may have."""

GO_ON = Content(
    parts=(
        Part(
            text="Your answer was cut off at the token limit. Go on exactly where it stopped:"
            " repeat nothing, and say nothing else."
        ),
    ),
    role="user",
)


class FinalAnswer(msgspec.Struct, frozen=True):
    """A checked answer: the state it writes, the value it stands for, or what is wrong with it.

    `stored` is the answer as it can be stored: its text, or JSON where it has a schema.
    """

    delta: JsonObject
    value: object = None
    problem: str = ""
    stored: Json = None


def spell_out_answer(content: Content, output: Output | None) -> Content:
    """The answer with a lone `set_model_response` call spelled out as the text it stands for.

    The tool is only the way a model without native schemas gives its answer: as text it is in
    the log once, and every other model can read it.
    """
    if output is None or output.how != "tool":
        return content
    calls = [part for part in content.parts or () if part.function_call is not None]
    if len(calls) != 1:
        return content
    call = calls[0].function_call
    if call is None or call.name != SET_RESPONSE or call.args is None:
        return content
    spelled = msgspec.structs.replace(calls[0], function_call=None, text=compact(call.args))
    parts = tuple(spelled if part is calls[0] else part for part in content.parts or ())
    # words next to the call do not belong to the answer: they would spoil its JSON
    parts_kept = tuple(part for part in parts if part is spelled or not part.text or part.thought)
    return Content(parts=parts_kept, role=content.role)


def check_answer(agent: Agent, content: Content, output: Output | None) -> FinalAnswer:
    """The answer against the agent's schema, and the state it is kept under."""
    text = content.text
    key = agent.output_key
    if agent.output_schema is None or output is None:
        return FinalAnswer({key: text} if key is not None and text else {}, stored=text or None)
    try:
        json_value, value = parse(agent, text, wrapped=output.wrapped)
    except SchemaError as error:
        return FinalAnswer(
            {}, problem=f"{error.message}; {error.hint}" if error.hint else error.message
        )
    return FinalAnswer({key: json_value} if key is not None else {}, value, stored=json_value)


def parse(agent: Agent, text: str, *, wrapped: bool | None) -> tuple[Json, object]:
    """The answer as JSON and as the schema's own type, or a SchemaError.

    `wrapped` says whether it was asked for under `result`; None: nobody knows any more.
    """
    where = f"{agent.name}.output_schema"
    try:
        json_value = cast("Json", msgspec.json.decode(_bare(text)))
    except (ValueError, RecursionError) as error:  # also halves of characters
        raise SchemaError(f"the answer is not JSON: {error}", where=where) from None
    if wrapped is not False and isinstance(json_value, dict) and set(json_value) == {"result"}:
        if wrapped is None:  # the schema may have one field of that name
            try:
                return json_value, schema.validate_value(
                    agent.output_schema, json_value, where=where
                )
            except SchemaError:
                pass
        # a schema that is not an object was asked for under this name
        json_value = json_value["result"]
    value = schema.validate_value(agent.output_schema, json_value, where=where)
    return json_value, value


def is_cut(event: Event) -> bool:
    """Whether the event is an answer that was cut off and is kept as it is."""
    if event.finish_reason != CUT or event.calls or event.void:
        return False
    return not is_piece(event)


def is_piece(event: Event) -> bool:
    """Whether the event belongs to an answer that comes in pieces, and is not all of it."""
    return event.provenance.piece is not None


def put_together(pieces: Iterable[Content], last: Content) -> Content:
    """The pieces of an answer and the last of them as one.

    Thoughts of the earlier ones are left out: they stand in the log where they were thought.
    """
    text = ""
    parts: list[Part] = []
    for piece in pieces:
        text += piece.text
        parts += [part for part in piece.parts or () if part.kind not in ("text", "thought")]
    rest = list(last.parts or ())
    for at, part in enumerate(rest):
        if part.kind == "text":
            rest[at] = Part(text=f"{text}{part.text}")
            break
    else:
        at = next((i for i, part in enumerate(rest) if part.function_call), len(rest))
        rest.insert(at, Part(text=text))
    return Content(parts=(*parts, *rest), role="model")


def _bare(text: str) -> str:
    """JSON without the code fence some models put around it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3].strip()
    return text


def correction(problem: str) -> Content:
    """What the model is told about a bad answer."""
    text = f"This answer does not fit the schema: {problem}. Answer again with JSON that does."
    return Content(parts=(Part(text=text),), role="user")


def is_empty(content: Content | None) -> bool:
    """Whether a model said nothing, whatever it thought."""
    for part in (content.parts or ()) if content is not None else ():
        # most parts are a text or a call, which need no look at what else a part may be
        if (part.text and not part.thought) or part.function_call is not None:
            return False
        if part.kind not in ("empty", "thought"):
            return False
    return True
