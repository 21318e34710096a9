"""What a run waits for: calls that somebody must confirm, or answer from outside."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from weft.cli.words import call_words
from weft.compiler.text import safe
from weft.content import FunctionCall
from weft.declare.compare import same
from weft.declare.template import to_text
from weft.errors import UsageError
from weft.runtime.gates import choices_of
from weft.runtime.rewind import visible_events
from weft.session import Session
from weft.session.waiting import CONFIRMATION, INPUT, pending_in
from weft.values import Json

_YES = ("y", "yes", "true")
_NO = ("n", "no", "false")


class Question(NamedTuple):
    """A call that is open: a yes or no is wanted, what it returned, or what a gate asks.

    A gate may offer `choices`. `unknown` says that nobody knows whether the call ran: the process
    died while it did.
    """

    id: str
    name: str
    call: str
    confirm: bool = False
    unknown: bool = False
    gate: bool = False
    choices: tuple[Json, ...] = ()

    def __str__(self) -> str:
        if self.gate:
            offered = ", ".join(map(to_text, self.choices))
            return f"{self.name} asks: {self.call}{f' ({offered})' if offered else ''}"
        if self.confirm:
            return f"waits for a yes or no: {self.call}"
        if self.unknown:
            return f"may have run or not: {self.call}"
        return f"waits for an answer: {self.call}"


def open_questions(session: Session) -> list[Question]:
    """The calls of a session that wait for somebody, in the order they came."""
    calls: dict[str, FunctionCall] = {}
    asked: dict[str, str] = {}
    found: dict[str, Question] = {}
    waiting = session.waiting
    if not waiting:
        return []
    for event in visible_events(session):
        for result in event.results:
            id = result.id or ""
            found.pop(asked.get(id, id), None)
        for call in event.calls:
            if call.name == CONFIRMATION:
                original = _original(call)
                asked[call.id or ""] = original.id or ""
                found[original.id or ""] = _question(original)._replace(confirm=True)
            else:
                calls[call.id or ""] = call
        for id in pending_in(event):
            if id in calls and calls[id].name == INPUT:
                found[id] = _asked_by(event.author, calls[id])
            elif id in calls:
                found[id] = _question(calls[id])
        if event.error_code == "unknown_outcome":
            said = event.error_message or ""
            found = {id: q._replace(unknown=q.unknown or id in said) for id, q in found.items()}
    return [question for id, question in found.items() if id in waiting]


def find_question(questions: Sequence[Question], name: str) -> Question:
    """The open call of that id, or the only one of that name."""
    found = [one for one in questions if one.id == name]
    found = found or [one for one in questions if one.name == name]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{one.id} ({one.name})" for one in questions) or "none"
    raise UsageError(
        f"{len(found)} open calls are named `{name}`" if found else f"no open call is `{name}`",
        where="--answer",
        hint=f"calls that wait: {listed}",
    )


def answer_to(question: Question, value: Json) -> object:
    """The answer as the call takes it: where a yes or no is wanted, one of them."""
    if question.choices and not any(same(value, choice) for choice in question.choices):
        said = next((c for c in question.choices if same(to_text(c), to_text(value))), None)
        if said is None:
            raise UsageError(
                f"{value!r} is none of the choices",
                where=question.name,
                hint=f"say one of: {', '.join(map(to_text, question.choices))}",
            )
        return said
    if not question.confirm:
        return value
    word = str(value).strip().lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise UsageError(
        f"this wants a yes or no, not {value!r}", where=question.name, hint="say yes or no"
    )


def how_to_go_on(questions: Sequence[Question], command: Sequence[str]) -> str:
    """The command that answers all of them."""
    words = [shlex.quote(word) for word in command]
    for one in questions:
        alone = sum(other.name == one.name for other in questions) == 1
        key = shlex.quote(one.name if alone else one.id)
        if one.unknown:
            words.append(f"--retry {key}")
        else:
            word = "true" if one.confirm else "JSON"
            if one.gate:
                word = shlex.quote(to_text(one.choices[0])) if one.choices else "ANSWER"
            words.append(f"--answer {key}={word}")
    return " ".join(words)


def _question(call: FunctionCall) -> Question:
    return Question(call.id or "", call.name or "", safe(call_words(call)))


def _asked_by(gate: str, call: FunctionCall) -> Question:
    """The question of a gate."""
    said = (call.args or {}).get("message")
    words = safe(said if isinstance(said, str) else "")
    return Question(call.id or "", gate, words, gate=True, choices=tuple(choices_of(call)))


def _original(call: FunctionCall) -> FunctionCall:
    """The call that a question to the user is about."""
    held = (call.args or {}).get("originalFunctionCall")
    try:
        return msgspec.convert(held, FunctionCall)
    except msgspec.ValidationError:
        return FunctionCall(name=CONFIRMATION, id=call.id)
