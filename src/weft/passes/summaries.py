"""Summaries: what a model is asked for them, what it must not leave out, and what stands in.

Whoever needs a summary looks here for it: the outcome of an effect where the log has one, else
an extract, with the want that gets the outcome made.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from weft import schema as schemas
from weft.codes import report
from weft.declare.policy.transforms import Summarize
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin
from weft.digest import reduced
from weft.digest.extractive import Entry, extract
from weft.digest.keeping import must_keep
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    ResultBlock,
    TextBlock,
    Want,
)
from weft.ir.want import fingerprint
from weft.passes.env import Env
from weft.values import Json, JsonObject, compact

INSTRUCTION = (
    "Sum up this part of a conversation for the one who goes on with it. Keep what was decided,"
    " found out and promised, and what is still open. Names, numbers, dates, identifiers, paths"
    " and addresses stay as they are written. Add nothing that is not there. Answer with the"
    " summary only."
)
HEADING = "[summary of earlier turns]: "
NOT_ASKED = "the model was not asked yet"

SHORTEST = 1000
"""How many letters a summary may always have."""
_EXTRACT = (64, 600)
"""How few and how many tokens an extract has that stands in for a summary."""
_RESULT = 400
"""How many tokens of one result or text the model is shown."""


class Summed(NamedTuple):
    """A summary: its text, the want where nobody was asked yet, and why no model wrote it."""

    text: str
    want: Want | None = None
    problem: str = ""


def summed_up(
    entries: Sequence[Entry],
    env: Env,
    options: Summarize,
    *,
    questions: Sequence[str] = (),
    beside: Callable[[], tuple[Sequence[str], Sequence[str]]] | None = None,
) -> Summed:
    """A summary of the entries, by the model if it was asked, else an extract of them.

    `questions` are those among them that nobody has answered. `beside` gives what was said behind
    them, and what is pinned: both decide what the model must not leave out, but not whether it
    has to be asked again, nor what an extract says, so that this stays the same from turn to turn.
    """
    text = "\n".join(map(str, entries))
    schema = _schema(env, options) if options.schema is not None else None
    named = name_of_model(options.model)
    found = fingerprint("summary", options.prompt, cast("Json", schema), named, text)
    effect = env.effects.get(found)
    if effect is not None and "outcome" in effect:
        return Summed(to_text(effect["outcome"]))
    short = _extracted(entries, env, found, questions)
    if effect is not None:
        return Summed(short, problem=str(effect.get("error") or "there is no outcome"))
    later, pinned = beside() if beside is not None else ((), ())
    said = [entry.text for entry in entries]
    wanted = must_keep(said, later, pinned=pinned, questions=questions)
    longest = max(SHORTEST, len(text) // 2)
    want = Want(
        "summary",
        found,
        _instruction(options.prompt, wanted, longest),
        text,
        schema,
        options.model,
        must_keep=wanted,
        longest=longest,
    )
    return Summed(short, want, NOT_ASKED)


class _Asked(NamedTuple):
    """The schema of a summary as JSON."""

    options: Summarize
    schema: JsonObject


def _schema(env: Env, options: Summarize) -> JsonObject:
    """The schema that is asked for, worked out once a session."""
    held = env.log.memo.get("summary schema")
    if not isinstance(held, _Asked) or held.options is not options:
        schema = schemas.of_type(options.schema, where="C.summarize.schema")
        held = env.log.memo["summary schema"] = _Asked(options, schema)
    return held.schema


def _extracted(entries: Sequence[Entry], env: Env, found: str, questions: Sequence[str]) -> str:
    """An extract, made once and kept with the log."""
    key = ("extract", found, env.model)
    held = env.log.memo.get(key)
    if isinstance(held, str):
        return held
    least, most = _EXTRACT
    limit = min(most, max(least, sum(env.count(str(entry)) for entry in entries) // 3))
    wanted = must_keep([entry.text for entry in entries], questions=questions)
    short = extract(entries, wanted=wanted, limit=limit, count=env.count)
    env.log.memo[key] = short
    return short


def _instruction(prompt: str | None, wanted: tuple[str, ...], longest: int) -> str:
    words = f"Use at most {longest // 6} words."
    if not wanted:
        return f"{prompt or INSTRUCTION} {words}"
    listed = "\n".join(f"- {one}" for one in wanted)
    return f"{prompt or INSTRUCTION} {words}\n\nIt must say all of these:\n{listed}"


def done_without(env: Env, what: str, problem: str) -> Diagnostic:
    """That something was done without the model, and why."""
    hint = "ask another model with model=, or mend what it answers"
    if problem == NOT_ASKED:
        hint = "run the agent, so that the model is asked"
    return report("WEFT504", Origin("field", "context", env.agent), f"{what}: {problem}", hint)


def name_of_model(model: object) -> str:
    """The name a model goes by; empty for the agent's own."""
    if model is None or isinstance(model, str):
        return model or ""
    return str(cast("object", getattr(model, "name", "")))


def summary_item(text: str, items: Sequence[Item], name: str) -> Item:
    """The item that stands for others, at the place of the first of them."""
    first, last = items[0], items[-1]
    labels = {label for item in items for block in item.blocks for label in block.labels}
    block = TextBlock(
        role="user",
        origin=Origin("pass", name),
        text=HEADING + text,
        priority=min(item.priority for item in items),
        labels=tuple(sorted(labels)),
    )
    return Item(
        "summary", (block,), "", first.invocation, first.position, last.last, first.event,
        first.branch,
    )  # fmt: skip


def entries_of(items: Sequence[Item], env: Env) -> list[Entry]:
    """What was said and done, in words, an entry an item; nothing for what only thought."""
    found = [entry_of(item, env) for item in items]
    return [entry for entry in found if entry is not None]


class _Told(NamedTuple):
    """An item in words."""

    item: Item
    entry: Entry | None


def entry_of(item: Item, env: Env) -> Entry | None:
    """What was said and done in an item, in words; kept with the log, for it does not change."""
    key = ("entry", env.model, item.key)
    held = env.log.memo.get(key)
    if isinstance(held, _Told) and held.item is item:
        return held.entry
    texts = [text for block in item.blocks if (text := _told(block, env))]
    told = item.kind in ("foreign", "summary", "state")
    entry = Entry("" if told else item.author or "user", "\n".join(texts)) if texts else None
    env.log.memo[key] = _Told(item, entry)
    return entry


def _told(block: Block, env: Env) -> str:
    match block:
        case TextBlock():
            return _short(block.text, env)
        case CallBlock():
            return f"called {block.name}({_short(compact(block.args), env)})"
        case ResultBlock():
            media = "".join(f" [{one.mime_type} {one.name}]" for one in block.media)
            return f"{block.name} returned {_short(_plain(block.response), env)}{media}"
        case CodeBlock():
            return f"ran code:\n{_short(block.code, env)}"
        case CodeResultBlock():
            return f"code gave {block.outcome}:\n{_short(block.output, env)}"
        case MediaBlock():
            return f"[{block.mime_type} {block.name}]".replace(" ]", "]")
        case _:
            return ""


def _plain(response: JsonObject) -> str:
    """A result without the wrapping that a single text has."""
    held = response.get("result") if len(response) == 1 else None
    return held if isinstance(held, str) else compact(response)


def _short(text: str, env: Env) -> str:
    if len(text) <= _RESULT:
        return text
    held = reduced(text, limit_tokens=_RESULT, count=env.count).value
    return held if isinstance(held, str) else compact(held)
