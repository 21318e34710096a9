"""What a person sees of a run: the answer as it streams, and next to it, dim, what happens.

The answer goes to one stream and the notes to another, which are often the same screen. So a
note waits until the text under way is whole, and of agents that speak at once one is shown as
it streams, the others when they are done.
"""

import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO

from weft.compiler.report import clip
from weft.compiler.tools import TRANSFER
from weft.content import FunctionResponse
from weft.declare import Node, agents_of
from weft.declare.route import same
from weft.declare.template import to_text
from weft.declare.visit import inner_agents
from weft.diagnostics import safe
from weft.errors import SessionError, UsageError
from weft.runtime.approvals import Approve, Deny, Pending, QuestionKind
from weft.runtime.flows import choices_of
from weft.runtime.result import is_piece
from weft.session import Event, Session
from weft.session.event import without_temp
from weft.session.lookback import CONFIRMATION, INPUT, hidden_by_rewind
from weft.values import Json, JsonObject, compact, unwrap_result

Voice = tuple[str, str]
"""Who speaks: the agent, and the branch it stands on."""


class Screen:
    """Shows the events of runs, one after the other."""

    def __init__(self, root: Node, answer: TextIO, notes: TextIO | None) -> None:
        agents = agents_of(root)
        self._answer = answer
        self._notes = notes
        self._marks = marks_for(notes if notes is not None else answer)
        self._width = max(20, shutil.get_terminal_size((100, 24)).columns - 1)
        self._inner = inner_agents(root)
        self._whole = {agent.name for agent in agents if agent.output_schema is not None}
        self._several = len(agents) > 1
        self._speaker = ""
        self._live: Voice | None = None
        self._streamed = ""
        self._waiting: list[Event] = []
        self._failed: Event | None = None

    def show(self, event: Event) -> None:
        """Show an event, partial or whole, at once or as soon as its turn comes."""
        if is_piece(event):
            return  # it was streamed, and the whole answer follows
        voice = (event.author, event.branch or "")
        if self._live not in (None, voice) and not _run_beside(self._live[1], voice[1]):
            self._close()  # it was cut off, and this is what came next
            self._catch_up()
        if event.partial and event.void and self._live == voice:
            self._close()  # what was streamed is void
            self._catch_up()
        if event.partial:
            self._stream(event, voice)
        elif self._live not in (None, voice):
            self._waiting.append(event)
        else:
            self._whole_event(event, voice)
            self._catch_up()

    def end(self) -> None:
        """Close the line that is open, and show what still waits; the command tells the error."""
        self._close()
        self._catch_up()
        self._failed = None

    def say(self, text: str) -> None:
        """Show an answer that was given before."""
        self._write(text)
        self._close()

    def note(self, text: str) -> None:
        """Show a line next to the answer."""
        if self._notes is None:
            return
        if self._notes.isatty():
            from rich.console import Console
            from rich.text import Text

            console = Console(file=self._notes, highlight=False, soft_wrap=True)
            console.print(Text(text, style="dim"))
        else:
            print(text, file=self._notes, flush=True)

    def _catch_up(self) -> None:
        """Show what waited for the line that was open."""
        # only when no line is open: text of two agents must not mix in it
        while self._live is None and self._waiting:
            event = self._waiting.pop(0)
            self._whole_event(event, (event.author, event.branch or ""))

    def _stream(self, event: Event, voice: Voice) -> None:
        if not event.text or not self._is_answer(event) or event.author in self._whole:
            return
        if self._live is None:
            self._introduce(event.author)
            self._live, self._streamed = voice, ""
        if self._live == voice:
            self._streamed += event.text
            self._write(event.text)

    def _whole_event(self, event: Event, voice: Voice) -> None:
        """Show what an event adds to what was streamed of it."""
        streamed = self._streamed if self._live == voice else ""
        text = event.text if event.content is not None and event.content.role != "user" else ""
        self._tell_failure()
        if text and not self._is_answer(event):
            self._close()
            line = f"{self._marks.agent} {event.author}: {' '.join(text.split())}"
            self.note(clip(safe(line), self._width))
        elif text.startswith(streamed):
            if text and not streamed:
                self._introduce(event.author)
            self._write(text[len(streamed) :])
            self._close()
        else:  # what was streamed did not become the answer: cut off, replaced
            self._close()
            self._write(text)
            self._close()
        for line in deeds(event, self._marks, self._width):
            self._introduce(event.author)
            self.note(line)
        if event.error_code:
            # printed only if something follows: the command prints the error that ends a run
            self._failed = event

    def _is_answer(self, event: Event) -> bool:
        return event.audience != "internal" and event.author not in self._inner

    def _tell_failure(self) -> None:
        """Tell of an error that did not end the run: something came after it."""
        if self._failed is not None:
            words = error_words(self._failed).splitlines()[0]
            self.note(clip(f"{self._marks.problem} {self._failed.author}: {words}", self._width))
            self._failed = None

    def _introduce(self, agent: str) -> None:
        """Say that another agent is at work."""
        if self._several and agent != self._speaker:
            self._tell_failure()
            self.note(f"{self._marks.agent} {agent}")
        self._speaker = agent

    def _write(self, text: str) -> None:
        if text:
            # only a terminal can be steered: a pipe gets the bytes as they are
            self._answer.write(safe(text) if self._answer.isatty() else text)
            self._answer.flush()
            self._at_start = text.endswith("\n")

    def _close(self) -> None:
        """End the line that is open."""
        if not self._at_start:
            self._answer.write("\n")
            self._answer.flush()
            self._at_start = True
        self._live, self._streamed = None, ""

    _at_start = True


def _run_beside(one: str, other: str) -> bool:
    """Whether two branches run at the same time: both stand in a parallel, neither in the other."""
    return bool(one and other) and not (
        f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
    )


class LineMarks(NamedTuple):
    """How a line begins: a mark for each kind of line."""

    call: str = "→"
    result: str = "←"
    transfer: str = "⇒"
    agent: str = "·"
    problem: str = "!"


PLAIN = LineMarks("->", "<-", "=>", "-", "!")
"""Marks for a stream that can carry ASCII only."""


def marks_for(stream: TextIO) -> LineMarks:
    """The marks that a stream can carry."""
    try:
        "".join(LineMarks()).encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return LineMarks()


def call_words(name: str | None, args: JsonObject | None) -> str:
    """A call as it would be written: `get_weather(city="Oslo")`."""
    arguments = ", ".join(f"{key}={compact(value)}" for key, value in (args or {}).items())
    return f"{name}({arguments})"


def result_words(result: FunctionResponse) -> str:
    """A result as compact JSON; one that is only a value, as that value."""
    return compact(unwrap_result(result.response or {}))


def error_words(event: Event) -> str:
    """An error event in one line: `code: message`, then a hint, if there is one."""
    message, _, hint = (event.error_message or "").partition("\n  hint: ")
    code = "" if event.error_code == "error" else f"{event.error_code}: "
    line = f"{code}{' '.join(message.split())}"
    return safe(f"{line}\n  hint: {' '.join(hint.split())}" if hint else line)


def deeds(event: Event, marks: LineMarks, width: int) -> Iterator[str]:
    """A line for each thing that an event does: calls, results, a transfer, a rejected answer."""
    for call in event.calls:
        if call.name not in (TRANSFER, CONFIRMATION, INPUT):
            yield _line(marks.call, call_words(call.name, call.args), width)
    results = [one for one in event.results if one.name not in (TRANSFER, CONFIRMATION)]
    for result in results:
        name = f"{result.name}: " if len(results) > 1 else ""
        yield _line(marks.result, f"{name}{result_words(result)}", width)
    for result in event.results:
        if result.name == TRANSFER and "error" in (result.response or {}):
            yield _line(marks.problem, result_words(result), width)
        elif result.name == CONFIRMATION:
            yes = (result.response or {}).get("confirmed") is True
            yield _line(marks.result, "yes" if yes else "no", width)
    if event.actions.transfer_to_agent:
        yield _line(marks.transfer, event.actions.transfer_to_agent, width)
    why = rejection_of(event)
    if why:
        yield _line(marks.problem, f"the answer was rejected: {why}", width)


def rejection_of(event: Event) -> str:
    """Why an answer was returned to its model, if it was."""
    return event.provenance.rejected or ""


def _line(mark: str, text: str, width: int) -> str:
    return clip(safe(f"{mark} {' '.join(text.split())}"), width)


SHORT = 8
"""Letters of an invocation's id that are shown, and enough to name it by."""

_WIDEST = 20


class ListedInvocation(NamedTuple):
    """The events of one invocation, and whether a rewind took them back."""

    id: str
    events: list[Event]
    live: bool


def invocations_of(session: Session) -> list[ListedInvocation]:
    """The session's invocations in the order they began; a rewind itself is not one."""
    hidden = hidden_by_rewind(session.events)
    invocations: dict[str, ListedInvocation] = {}
    for index, event in enumerate(session.events):
        if event.actions.rewind_before_invocation_id:
            continue
        id = event.invocation_id
        invocation = invocations.setdefault(id, ListedInvocation(id, [], index not in hidden))
        invocation.events.append(event)
    return list(invocations.values())


def find_invocation(session: Session, name: str | None) -> ListedInvocation:
    """The invocation whose id is, or begins with, that name; without one, the last."""
    live = [one for one in invocations_of(session) if one.live and one.id]
    if name is None and live:
        return live[-1]
    matches = [one for one in live if one.id == name]
    # a whole id wins over those that begin with it
    matches = matches or [one for one in live if name and one.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(one.id[: SHORT * 2] for one in live[-8:]) or "none"
    problem = f"{len(matches)} invocations begin with" if matches else "there is no invocation"
    raise SessionError(
        f"{problem} `{name}`" if name is not None else "there is no invocation to take back",
        where=f"session {session.id}",
        hint=f"it has: {listed}",
    )


def session_lines(session: Session, marks: LineMarks, width: int) -> Iterator[str]:
    """The whole session: its owner, its events, and the state at the end."""
    owner = safe(f"session {session.id} of {session.user_id} in {session.app_name}")
    yield f"{owner}, {len(session.events)} events, last change {moment(session.last_update_time)}"
    for one in invocations_of(session):
        yield ""
        taken = "" if one.live else "  (taken back)"
        yield f"invocation {safe(one.id[: SHORT * 2]) or '?'}{taken}"
        yield from event_lines(one.events, marks, width)
    yield ""
    yield "state"
    yield from state_lines(session, width)


def event_lines(events: list[Event], marks: LineMarks, width: int) -> Iterator[str]:
    """A line for all that an event says or does; bookkeeping has none."""
    column = min(max((len(event.author) for event in events), default=0), _WIDEST)
    for event in events:
        for line in _lines(event, marks, width):
            author = clip(safe(event.author), column)
            yield clip(f"  {author:<{column}}  {line}", width)


def state_lines(session: Session, width: int) -> Iterator[str]:
    """The state, a key a line."""
    state = without_temp(session.state)
    for key, value in state.items():
        yield clip(safe(f"  {key} = {compact(value)}"), width)
    if not state:
        yield "  empty"


def moment(timestamp: float) -> str:
    """A time of day as the reader's clock shows it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(timestamp))


def _lines(event: Event, marks: LineMarks, width: int) -> Iterator[str]:
    if event.text and not rejection_of(event):
        # cut first: no line shows more
        yield " ".join(safe(event.text[: width * 4]).split())
    yield from deeds(event, marks, width)
    if event.error_code:
        yield f"{marks.problem} {error_words(event).splitlines()[0]}"
    if event.content is None:
        for key, value in event.actions.state_delta.items():
            yield f"= {key}: {compact(value)}"


_YES = ("y", "yes", "true")

_NO = ("n", "no", "false")


_WAITS: Mapping[QuestionKind, str] = {
    "confirm": "waits for a yes or no",
    "unknown": "may have run or not",
    "result": "waits for an answer",
}


def describe_question(question: Pending) -> str:
    """What is asked in a line: a gate's question with its choices, or which call waits for what."""
    if question.kind == "input":
        offered = ", ".join(map(to_text, choices_of(question.args)))
        words = safe(question.question)
        return f"{question.name} asks: {words}{f' ({offered})' if offered else ''}"
    return f"{_WAITS[question.kind]}: {safe(call_words(question.name, question.args))}"


def find_question(questions: Sequence[Pending], name: str, *, where: str) -> Pending:
    """The open call of that id, or the only one of that name."""
    matches = [one for one in questions if one.call_id == name]
    matches = matches or [one for one in questions if one.name == name]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(f"{one.call_id} ({one.name})" for one in questions) or "none"
    raise UsageError(
        f"{len(matches)} open calls are named `{name}`" if matches else f"no open call is `{name}`",
        where=where,
        hint=f"calls that wait: {listed}",
    )


def answer_to(question: Pending, value: Json) -> object:
    """The answer as the call takes it: one of the choices, a yes or no, or any value.

    A no may be followed by its reason, and an object is a yes with these arguments.
    """
    choices = choices_of(question.args) if question.kind == "input" else []
    if choices and not any(same(value, choice) for choice in choices):
        meant = next((c for c in choices if same(to_text(c), to_text(value))), None)
        if meant is None:
            raise UsageError(
                f"{value!r} is not one of the choices",
                where=question.name,
                hint=f"say one of: {', '.join(map(to_text, choices))}",
            )
        return meant
    if question.kind != "confirm":
        return value
    if isinstance(value, dict):
        return value if "confirmed" in value else Approve(args=value)
    word, _, reason = str(value).strip().partition(" ")
    if word.lower().rstrip(":,") in _NO:
        return Deny(reason.strip())
    if word.lower() in _YES and not reason:
        return True
    raise UsageError(
        f"this wants a yes or no, not {value!r}",
        where=question.name,
        hint="say yes or no",
    )


def how_to_go_on(questions: Sequence[Pending], command: Sequence[str]) -> str:
    """The command that answers all of them."""
    words = [shlex.quote(word) for word in command]
    for one in questions:
        # two calls of one tool are told apart by their ids only
        alone = sum(other.name == one.name for other in questions) == 1
        key = shlex.quote(one.name if alone else one.call_id)
        if one.kind == "unknown":
            words.append(f"--retry {key}")
            continue
        word = "true" if one.kind == "confirm" else "JSON"
        if one.kind == "input":
            choices = choices_of(one.args)
            word = shlex.quote(to_text(choices[0])) if choices else "ANSWER"
        words.append(f"--answer {key}={word}")
    return " ".join(words)
