"""What is accepted of an answer to a want: an outcome, or why there is none.

A model may fail, say that it cannot, leave out what matters or make things up. None of that may
reach a later request as if it had been said; so what can be checked is checked here, once.
"""

import re
from typing import NamedTuple, cast

from weft.compiler import Compiled
from weft.declare import Agent
from weft.declare.template import to_text
from weft.digest.keeping import invented, marks_in, missing, normal
from weft.errors import SchemaError
from weft.ir import ModelResponse, ResultBlock, TextBlock, Want
from weft.runtime.answer import is_empty, parse, spoken
from weft.values import Json, JsonObject

_KEPT = 4000
"""How many letters of an answer that is not accepted are kept."""

_EXCUSE = re.compile(
    r"\W*(?:(?:error|exception|failure|fatal)\s*(?:[:!(\d]|$)|traceback\b"
    r"|(?:internal server error|bad gateway|service unavailable|too many requests)\b"
    r"|(?:rate|token|context|quota)[\w ]{0,20} (?:limit|exceeded)\b"
    r"|(?:i(?:['\u2019]m| am) )?(?:very |so )?sorry\b"
    r"|i (?:can(?:['\u2019]t|not)|am unable|could not)\b"
    r"|i['\u2019]m (?:unable|not able)\b|as an ai\b|unable to (?:summar|process|complete)"
    r"|<!doctype html|<html)",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}")
_WORD = re.compile(r"[^\W_]{4,}")
_NUMBER = re.compile(r"\d+")


class Accepted(NamedTuple):
    """An outcome, or an error; `more` is what else the effect says."""

    outcome: Json = None
    error: str = ""
    more: JsonObject = {}


def accepted(want: Want, response: ModelResponse | None, asked: Compiled, agent: Agent) -> Accepted:
    """The outcome of an answer, or what is wrong with it."""
    if response is None:
        return Accepted(error="the model returned nothing")
    if response.error_code:
        told = f": {response.error_message}" if response.error_message else ""
        return Accepted(error=f"{response.error_code}{told}")
    content = response.content
    if content is None or is_empty(content):
        return Accepted(error="the model returned nothing")
    text = spoken(content, asked.plan.output).text.strip()
    if not text:
        return Accepted(error="the model returned no text")
    if want.schema is None:
        outcome: Json = text
    else:
        output = asked.plan.output
        try:
            outcome, _ = parse(agent, text, wrapped=output is not None and output.wrapped)
        except SchemaError as error:
            return _refused(error.message, text)
    if response.finish_reason == "MAX_TOKENS":
        return _refused("the answer was cut off", text)
    if want.kind == "distill":
        return _facts(want, outcome, text)
    problem = _problem(want, outcome, _sent(asked))
    return _refused(problem, text) if problem else Accepted(outcome)


def _refused(problem: str, text: str) -> Accepted:
    return Accepted(error=problem, more={"rejected": text[:_KEPT]})


def _sent(asked: Compiled) -> str:
    """What the model was really shown: what was redacted or withheld, it cannot repeat."""
    texts: list[str] = []
    for item in asked.prompt.items:
        for block in item.blocks:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            elif isinstance(block, ResultBlock):
                texts.append(to_text(block.response))
    return "\n".join(texts)


def _problem(want: Want, outcome: Json, sent: str) -> str:
    """Why an outcome cannot be used, or nothing."""
    said = _leaves(outcome)
    if want.kind == "summary":
        if isinstance(outcome, str) and _EXCUSE.match(outcome[:200]):
            return "the answer is an error or an excuse"
        if want.longest and len(said) > want.longest:
            return f"it has {len(said)} letters, and {want.longest} are the most"
        if made_up := invented(said, sent):
            return f"it says what was not said: {', '.join(made_up[:5])}"
    shown = [one for one in want.must_keep if not missing(sent, [one])]
    if gone := missing(said, shown):
        return f"it leaves out: {', '.join(gone[:5])}"
    return ""


def _leaves(value: Json) -> str:
    """All texts and numbers of a value, a line each."""
    match value:
        case dict():
            return "\n".join(_leaves(held) for held in value.values())
        case list():
            return "\n".join(_leaves(held) for held in value)
        case _:
            return "" if value is None else to_text(value)


def _facts(want: Want, outcome: Json, text: str) -> Accepted:
    """The facts that their sources say; the others are told apart."""
    listed = outcome.get("facts") if isinstance(outcome, dict) else None
    kept: list[Json] = []
    dropped: list[Json] = []
    for one in cast("list[JsonObject]", listed if isinstance(listed, list) else []):
        fact, number = str(one.get("fact") or "").strip(), one.get("source")
        source = None
        if isinstance(number, int) and 1 <= number <= len(want.sources):
            source = want.sources[number - 1]
        if fact and source is not None and _says(source[1], fact):
            held: JsonObject = {"fact": fact, "source": source[0]}
            kept += [held] if held not in kept else []
        elif fact:
            dropped.append(fact)
    if dropped and not kept:
        return _refused("none of its facts is in the source it names", text)
    return Accepted(kept, more={"dropped": dropped} if dropped else {})


def _says(source: str, fact: str) -> bool:
    """Whether a source may say a fact: it has its numbers and names, else a word of it."""
    spoken = normal(source)
    marks = marks_in(fact)
    names = [name.casefold() for name in _NAME.findall(fact)]
    numbers = _NUMBER.findall(normal(fact))
    if missing(source, marks) or any(one not in spoken for one in (*names, *numbers)):
        return False
    words = _WORD.findall(normal(fact))
    return bool(marks or names or numbers or not words) or any(word[:5] in spoken for word in words)
