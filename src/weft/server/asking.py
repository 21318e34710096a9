"""What every protocol of the server shares: sessions by id, places in them, questions in words.

Clients of chats know no questions, only text. A run that stops for an approval, an input or a
result says so in its answer, with what to reply, and the reply is read from the next message.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import cast

import msgspec

from weft.content import FunctionCall, Part
from weft.errors import StoreError
from weft.runtime import Runner
from weft.runtime.approvals import Approve, Deny, Pending, pending_in
from weft.runtime.flows import choices_of
from weft.server.problems import Problem, invalid
from weft.session import Session, SessionKey
from weft.values import JsonObject, compact, text_or_json, unwrap_result


def write_place(prefix: str, session: str, run: str, after: int = 0) -> str:
    """An id from which `read_place` reads what it was made of."""
    name = f"{session}\n{run}\n{after}".encode()
    return f"{prefix}{base64.urlsafe_b64encode(name).decode().rstrip('=')}"


def read_place(prefix: str, id: str) -> tuple[str, str, int] | None:
    """The session, the run and the place that an id names."""
    name = id.removeprefix(prefix)
    # any client can send any id: it is read as data, with a bound on each step
    if name == id or len(id) > 4_000:
        return None
    try:
        text = base64.b64decode(name + "=" * (-len(name) % 4), altchars=b"-_", validate=True)
        session, run, *after = text.decode().split("\n")
    except (binascii.Error, ValueError):
        return None
    if not session or not run or len(after) > 1:
        return None
    number = after[0] if after else "0"  # ids of older servers name no place
    if len(number) > 9 or not number.isascii() or not number.isdigit():
        return None
    return session, run, int(number)


async def find_session(runner: Runner, user: str, id: str) -> Session | None:
    """A session of the user's; None too for an id that no session can have."""
    try:
        return await runner.store.get(SessionKey(runner.app_name, user, id))
    except StoreError as error:
        if error.where == "session key":
            return None
        raise


def call_arguments(call: FunctionCall) -> str:
    """The arguments of a call as the text that clients read."""
    return msgspec.json.encode(call.args or {}).decode()


_LONGEST = 1_000
"""Characters of a call's arguments that a question shows."""


_YES = frozenset(("approve", "approved", "yes", "y", "ok"))


_NO = frozenset(("deny", "denied", "no", "n", "reject"))


def open_questions(session: Session, run: str, tools: frozenset[str]) -> list[Pending]:
    """What a run of the session waits for, other than calls of the client's own tools."""
    if not session.waiting:
        return []
    calls = {
        call.id for event in session.events if event.invocation_id == run for call in event.calls
    }
    return [one for one in pending_in(session) if one.call_id in calls and one.name not in tools]


def in_words(questions: Sequence[Pending]) -> str:
    """The questions, and what to reply."""
    lines = [_question(one, is_only=len(questions) == 1) for one in questions]
    return "\n".join([*lines, f"[weft session {questions[0].session_id}]"])


def _question(one: Pending, *, is_only: bool) -> str:
    suffix = "" if is_only else f" {one.call_id}"
    call = f"`{one.name}` with {_shorten_text(compact(one.args))}"
    match one.kind:
        case "confirm":
            words = "" if one.question == f"May {one.name} be called?" else f" {one.question}"
            reply = f'Reply "approve{suffix}", or "deny{suffix}: why not".'
            return f"Waiting for approval: {call}.{words} {reply}"
        case "input":
            choices = choices_of(one.args)
            listed = f" ({', '.join(map(text_or_json, choices))})" if choices else ""
            how = f'"answer{suffix}: ..."' if not is_only else "with the answer"
            return f"Waiting for an answer: {one.question}{listed} Reply {how}."
        case "result":
            return (
                f"Waiting for the result of {call}. It comes from elsewhere; whoever has it"
                f" sends it as the result of the call {one.call_id}."
            )
        case _:
            return (
                f"The process died while {call} ran, and nobody knows whether it did."
                f" Whoever finds out sends the result of the call {one.call_id}."
            )


def _shorten_text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def replies(session: Session, parts: Sequence[Part]) -> dict[str, object] | None:
    """Answers to open questions in what the client says; None where it says something else."""
    questions = {one.call_id: one for one in pending_in(session)}
    results = [part.function_response for part in parts if part.function_response is not None]
    if results:
        if not all(result.id in questions for result in results):
            return None  # the runtime says which call is not open
        return {
            cast("str", result.id): _value(questions[cast("str", result.id)], result.response or {})
            for result in results
        }
    asking = [one for one in questions.values() if one.kind in ("confirm", "input")]
    text = "".join(part.text or "" for part in parts).strip()
    if not asking or not text or any(part.text is None for part in parts):
        return None
    if len(asking) == 1:
        answer = _reply(asking[0], text)
        return {asking[0].call_id: answer} if answer is not None else None
    return _named_replies(asking, text)


def _value(question: Pending, response: JsonObject) -> object:
    """The answer that a tool's result is: a decision in words, or the value itself."""
    inner = unwrap_result(response)
    if isinstance(inner, str) and question.kind in ("confirm", "input"):
        answer = _reply(question, inner)
        if answer is None:
            raise _unreadable(question)
        return answer
    return inner


def _reply(question: Pending, text: str) -> object:
    """What a text answers to a question; None where it does not."""
    if question.kind == "input":
        fitting = [
            one for one in choices_of(question.args) if text_or_json(one).lower() == text.lower()
        ]
        return fitting[0] if fitting else text
    word, _, rest = re.sub(r"[\s:,.!]+", " ", text, count=1).partition(" ")
    if word.lower() in _NO:
        return Deny(text[len(word) :].lstrip(" :,.!\n"))
    # a yes with more after it may mean anything: nothing runs on a guess
    return Approve() if word.lower() in _YES and not rest.strip() else None


def _named_replies(asking: list[Pending], text: str) -> dict[str, object] | None:
    """Answers to several questions: a line for each, with the id of its call."""
    answers: dict[str, object] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        named, _, more = rest.partition(":")
        question = next((one for one in asking if one.call_id == named.strip()), None)
        if question is None:
            return None
        reply = more.strip() if question.kind == "input" else f"{word}: {more}".rstrip(": ")
        answer = _reply(question, reply)
        if answer is None:
            return None
        answers[question.call_id] = answer
    return answers


def _unreadable(question: Pending) -> Problem:
    return invalid(
        f"this is not an answer to the call {question.call_id[:100]}",
        hint='reply "approve", or "deny: why not"',
    )
