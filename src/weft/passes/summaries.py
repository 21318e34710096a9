"""What a model is asked to write of the conversation: summaries, and values and facts into state.

Whoever needs a summary looks here for it: the outcome of an effect where the log has one, else
an extract, with the want that gets the outcome made.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import msgspec

from weft import schema as schemas
from weft.declare.policy_parts import Distill, Extract, Summarize
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin, report
from weft.digest import cut_text, reduced
from weft.digest.keeping import ExtractEntry, extract, must_keep
from weft.ir import (
    Block,
    Item,
    MediaBlock,
    Note,
    Prompt,
    ResultBlock,
    TextBlock,
    Want,
)
from weft.ir.block import fingerprint
from weft.ir.prompt import label_of_items
from weft.passes.env import Env, turn_numbers
from weft.passes.history import act_in_words
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
"""The fewest and the most tokens of an extract that stands in for a summary."""

_RESULT = 400
"""How many tokens of one result or text the model is shown."""


class WrittenSummary(NamedTuple):
    """A summary: its text, the want where nobody was asked yet, and why no model wrote it."""

    text: str
    want: Want | None = None
    problem: str = ""


def sum_up(
    entries: Sequence[ExtractEntry],
    env: Env,
    options: Summarize,
    *,
    questions: Sequence[str] = (),
    beside: Callable[[], tuple[Sequence[str], Sequence[str]]] | None = None,
) -> WrittenSummary:
    """A summary of the entries, by the model if it was asked, else an extract of them.

    `questions` are those among them that nobody has answered. `beside` gives what was said behind
    them, and what is pinned: both decide what the model must not leave out, but not whether it
    has to be asked again, nor what an extract says, so that this stays the same from turn to turn.
    """
    text = "\n".join(map(str, entries))
    schema = _schema(env, options) if options.schema is not None else None
    named = name_of_model(options.model)
    summed = fingerprint("summary", options.prompt, cast("Json", schema), named, text)
    effect = env.session.effects.get(summed)
    if effect is not None and "outcome" in effect:
        return WrittenSummary(to_text(effect["outcome"]))
    short = _extract_entries(entries, env, summed, questions)
    if effect is not None:
        return WrittenSummary(short, problem=str(effect.get("error") or "there is no outcome"))
    later, pinned = beside() if beside is not None else ((), ())
    diagnostics = [entry.text for entry in entries]
    wanted = must_keep(diagnostics, later, pinned=pinned, questions=questions)
    longest = max(SHORTEST, len(text) // 2)
    want = Want(
        "summary",
        summed,
        _instruction(options.prompt, wanted, longest),
        text,
        schema,
        options.model,
        must_keep=wanted,
        longest=longest,
    )
    return WrittenSummary(short, want, NOT_ASKED)


class _SummarySchema(NamedTuple):
    """The schema of a summary as JSON."""

    options: Summarize
    schema: JsonObject


def _schema(env: Env, options: Summarize) -> JsonObject:
    """The schema that is asked for, worked out once a session."""
    asked = env.log.memo.of(_SummarySchema)
    if asked is None or asked.options is not options:
        schema = schemas.of_type(options.schema, where="C.summarize.schema")
        asked = env.log.memo.keep(_SummarySchema(options, schema))
    return asked.schema


def _extract_entries(
    entries: Sequence[ExtractEntry], env: Env, fields: str, questions: Sequence[str]
) -> str:
    """An extract, made once and kept with the log."""
    known = env.log.memo.of((_Extract, fields, env.model.name))
    if known is not None:
        return known.text
    least, most = _EXTRACT
    limit = min(most, max(least, sum(env.tokens.count(str(entry)) for entry in entries) // 3))
    wanted = must_keep([entry.text for entry in entries], questions=questions)
    short = extract(entries, wanted=wanted, limit=limit, count=env.tokens.count)
    env.log.memo.keep(_Extract(short), fields, env.model.name)
    return short


class _Extract(NamedTuple):
    """An extract of some entries."""

    text: str


def _instruction(prompt: str | None, wanted: tuple[str, ...], longest: int) -> str:
    # a word has about six letters
    words = f"Use at most {longest // 6} words."
    if not wanted:
        return f"{prompt or INSTRUCTION} {words}"
    listed = "\n".join(f"- {one}" for one in wanted)
    return f"{prompt or INSTRUCTION} {words}\n\nIt must say all of these:\n{listed}"


def done_without(env: Env, what: str, problem: str) -> Diagnostic:
    """A diagnostic: something was done without the model, and why."""
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
        label=label_of_items(items),
    )
    return Item(
        "summary", (block,), "", first.invocation, first.position, last.last, first.event,
        first.branch,
    )  # fmt: skip


def entries_of(items: Sequence[Item], env: Env) -> list[ExtractEntry]:
    """What was said and done, in words, an entry an item; nothing for what only thought."""
    entries = [entry_of(item, env) for item in items]
    return [entry for entry in entries if entry is not None]


class _ItemInWords(NamedTuple):
    """An item in words."""

    item: Item
    entry: ExtractEntry | None


def entry_of(item: Item, env: Env) -> ExtractEntry | None:
    """What was said and done in an item, in words; kept with the log, for it does not change."""
    known = env.log.memo.of((_ItemInWords, env.model.name, item.key))
    if known is not None and known.item is item:
        return known.entry
    texts = [text for block in item.blocks if (text := _narrate_block(block, env))]
    narrated = item.kind in ("foreign", "summary", "state")
    entry = (
        ExtractEntry("" if narrated else item.author or "user", "\n".join(texts)) if texts else None
    )
    env.log.memo.keep(_ItemInWords(item, entry), env.model.name, item.key)
    return entry


def _narrate_block(block: Block, env: Env) -> str:
    match block:
        case TextBlock():
            return _short(block.text, env)
        case ResultBlock():
            media = "".join(f" [{one.mime_type} {one.name}]" for one in block.media)
            return f"{block.name} returned {_short(_plain(block.response), env)}{media}"
        case MediaBlock():
            return f"[{block.mime_type} {block.name}]".replace(" ]", "]")
        case _:
            return act_in_words(block, lambda text: _short(text, env))


def _plain(response: JsonObject) -> str:
    """A result without the wrapping that a single text has."""
    value = response.get("result") if len(response) == 1 else None
    return value if isinstance(value, str) else compact(response)


def _short(text: str, env: Env) -> str:
    # fewer letters than tokens allowed: nothing to count
    if len(text) <= _RESULT:
        return text
    value = reduced(text, limit_tokens=_RESULT, count=env.tokens.count).value
    return value if isinstance(value, str) else compact(value)


FOLD = 8
"""How many summaries in a row become one."""

_WIDE = 4
"""If at least this many turns stay, one summary covers as many as stay; else it covers one."""


class _Block(NamedTuple):
    """Turns that one summary stands for."""

    first: int
    last: int
    items: tuple[Item, ...]
    summed: WrittenSummary


def summarize_items(prompt: Prompt, env: Env, options: Summarize) -> Prompt:
    """Put a summary in the place of what lies before the last turns.

    A summary covers a fixed block of turns and is never written again, so what was sent keeps its
    bytes until the next block is due; many in a row become one. What is in tier 1, what waits for
    a result and what the policy shows of the state stays as it is. Until the model has been
    asked, or where it failed, an extract stands there.

    Before:  user "Fly me to Oslo" | model "On which day?" | user "Today"   (before=1, not asked)
    After:   user "[summary of earlier turns]: user: Fly me to Oslo ..." | user "Today"
    """
    numbers = turn_numbers(prompt.items)
    stays = max(1, options.before)
    every = options.every or (stays if stays >= _WIDE else 1)
    covered = max(0, (numbers[-1] if numbers else 0) - stays) // every * every
    old: dict[int, list[Item]] = {}
    for item, number in zip(prompt.items, numbers, strict=True):
        if number <= covered and _may_go(item, env, options):
            old.setdefault(max(0, number - 1) // every, []).append(item)
    if not old:
        return prompt
    # a question is open if nobody said anything in its invocation
    answered = frozenset(
        item.invocation for item in prompt.items if item.author not in ("", "user")
    )
    blocks = [
        _Block(
            number * every + 1,
            (number + 1) * every,
            tuple(items),
            _sum_up(items, prompt, env, options, answered),
        )
        for number, items in sorted(old.items())
    ]
    return _with_summaries(prompt, env, *_fold_blocks(blocks, env, options))


def _may_go(item: Item, env: Env, options: Summarize) -> bool:
    if item.open or item.priority == 1 or env.is_current(item):
        return False
    if item.kind in ("summary", "state", "system"):
        return False
    if options.scope == "results":
        return item.kind == "exchange"
    if options.scope == "agents":
        return item.author not in ("", "user", env.agent)
    return True


def _sum_up(
    items: list[Item], prompt: Prompt, env: Env, options: Summarize, answered: frozenset[str]
) -> WrittenSummary:
    entries = entries_of(items, env)

    def beside() -> tuple[list[str], list[str]]:
        behind = [item for item in prompt.items if item.position > items[-1].last]
        pinned = [item for item in prompt.items if item.priority == 1]
        later, item_beside = entries_of(behind, env), entries_of(pinned, env)
        return [entry.text for entry in later], [entry.text for entry in item_beside]

    questions = _open_questions(items, answered)
    return sum_up(entries, env, options, questions=questions, beside=beside)


def _open_questions(items: list[Item], answered: frozenset[str]) -> list[str]:
    """What the user asked after which nobody has said anything."""
    ids: list[str] = []
    for item in items:
        if item.kind == "user" and item.invocation not in answered:
            texts = [block.text for block in item.blocks if isinstance(block, TextBlock)]
            ids += [text for text in texts if text.rstrip().endswith(("?", "\uff1f"))]
    return ids


def _fold_blocks(
    blocks: list[_Block], env: Env, options: Summarize
) -> tuple[list[_Block], list[WrittenSummary]]:
    """The blocks, each full row of them as one once that is summed up, and what is not yet."""
    due: list[WrittenSummary] = []
    while len(blocks) >= FOLD:
        folded: list[_Block] = []
        for at in range(0, len(blocks), FOLD):
            row = blocks[at : at + FOLD]
            summed = _fold_summaries(row, env, options) if len(row) == FOLD else None
            if summed is not None and not summed.problem:
                items = tuple(item for block in row for item in block.items)
                folded.append(_Block(row[0].first, row[-1].last, items, summed))
                continue
            folded += row
            due += [summed] if summed is not None else []
        # nothing was folded in this round: no more rows are due
        if len(folded) == len(blocks):
            break
        blocks = folded
    return blocks, due


def _fold_summaries(row: list[_Block], env: Env, options: Summarize) -> WrittenSummary | None:
    """One summary of several, as soon as a model has written all of them."""
    # a summary of extracts would be asked for again once the real ones are there
    if any(block.summed.problem or not block.summed.text for block in row):
        return None
    return sum_up([ExtractEntry("", block.summed.text) for block in row], env, options)


def _with_summaries(
    prompt: Prompt, env: Env, blocks: list[_Block], due: list[WrittenSummary]
) -> Prompt:
    places: dict[object, Item] = {}
    gone: set[object] = set()
    notes: list[Note] = []
    diagnostics: list[Diagnostic] = []
    wants: list[Want] = [summed.want for summed in due if summed.want is not None]
    for block in blocks:
        summed, turns, stay = block.summed, f"turns {block.first} to {block.last}", "stay"
        if block.first == block.last:
            turns, stay = f"turn {block.first}", "stays"
        if summed.want is not None:
            wants.append(summed.want)
        if summed.problem:
            saves = _saves(summed.text, block.items, env)
            what = f"an extract stands for {turns}" if saves else f"{turns} {stay} as said"
            diagnostics.append(done_without(env, what, summed.problem))
            # short turns: an extract with its heading would take more than they do
            if not saves:
                continue
        if summed.text:
            summaries = summary_item(summed.text, block.items, "summarize_items")
            places[block.items[0].key] = summaries
            notes.append(Note("summarize_items", f"it stands for {turns}", summaries, summaries))
        gone.update(item.key for item in block.items)
        notes += [
            Note("summarize_items", f"the summary of {turns} stands for it", item)
            for item in block.items
        ]
    known = {want.fingerprint for want in prompt.wants}
    # the same text in two blocks is asked for once
    wants = list({want.fingerprint: want for want in reversed(wants)}.values())[::-1]
    wants = [want for want in wants if want.fingerprint not in known]
    if not (gone or wants or diagnostics):
        return prompt
    items: list[Item] = []
    for item in prompt.items:
        if item.key in places:
            items.append(places[item.key])
        if item.key not in gone:
            items.append(item)
    after = prompt.with_items(items, notes) if gone else prompt
    return msgspec.structs.replace(
        after, diagnostics=(*prompt.diagnostics, *diagnostics), wants=(*prompt.wants, *wants)
    )


def _saves(text: str, items: tuple[Item, ...], env: Env) -> bool:
    """Whether an extract is shorter than what it was taken from; counted once a log."""
    key = (env.model.name, items[0].key, len(items), text)
    known = env.log.memo.of((_Saving, *key))
    # a result that came late changes an item, and may leave the extract as it was
    if known is None or known.items != items:
        whole = "\n".join(map(str, entries_of(items, env)))
        tokens = env.tokens.count(whole) - env.tokens.count(HEADING + text)
        known = env.log.memo.keep(_Saving(items, tokens), *key)
    return known.tokens > 0


class _Saving(NamedTuple):
    """How many tokens fewer an extract takes than the items it was taken from."""

    items: tuple[Item, ...]
    tokens: int


LEAST, MOST = 48, 1024
"""The fewest and the most tokens that a budget gives a summary."""

_OPTIONS = Summarize(before=0)


def allowance_for(room: int) -> int:
    """How many tokens of a budget a summary may take: an eighth, within bounds."""
    return min(MOST, max(LEAST, room // 8))


def blocks_of(items: Sequence[Item], sizes: Sequence[int], stride: int) -> list[list[Item]]:
    """The items in the order they went, in blocks of a stride; each ends where the next begins."""
    blocks: list[list[Item]] = []
    end, taken = 0, 0
    for item, size in zip(items, sizes, strict=True):
        if not blocks or taken >= end:
            blocks.append([])
            # blocks end at multiples of the stride: they stay the same when more goes
            end = (taken // stride + 1) * stride
        blocks[-1].append(item)
        taken += size
    return blocks


def summary_of(
    blocks: Sequence[Sequence[Item]], staying: Sequence[Item], env: Env
) -> WrittenSummary:
    """The summary of all blocks, by a model as far as it was asked, else an extract of the rest.

    `staying` are the items that stay in the request: what they speak of again, a summary must not
    leave out.
    """
    entries: list[ExtractEntry] = []
    summed = WrittenSummary("")
    for block in blocks:
        entries += entries_of(sorted(block, key=lambda item: item.position), env)
        if not entries:
            continue
        summed = sum_up(entries, env, _OPTIONS, beside=lambda: _beside(staying, env))
        if not summed.problem:
            entries = [ExtractEntry("", summed.text)]
    return summed


def _beside(staying: Sequence[Item], env: Env) -> tuple[list[str], list[str]]:
    first = [item for item in staying if item.priority == 1]
    texts = ([entry.text for entry in entries_of(items, env)] for items in (staying, first))
    later, pinned = texts
    return later, pinned


def fit_summary(
    text: str, items: Sequence[Item], env: Env, room: int, size: Callable[[Item], int]
) -> Item | None:
    """The summary as an item of at most `room` tokens; None where there is no room for it."""
    if not text or not items:
        return None
    summary = summary_item(text, sorted(items, key=lambda item: item.position), "fit_budget")
    limit = room
    while size(summary) > room:
        limit -= max(4, size(summary) - room)
        short = cut_text(text, limit=limit, count=env.tokens.count) if limit >= LEAST // 2 else ""
        if not short:
            return None
        block = summary.blocks[0]
        assert isinstance(block, TextBlock)
        summary = msgspec.structs.replace(
            summary, blocks=(msgspec.structs.replace(block, text=HEADING + short),)
        )
    return summary


# --- values and facts that a model writes into the state

EXTRACT = (
    "Read out of this conversation what the schema asks for. Take only what was said; leave out"
    " or set to null what was not, as the schema allows."
)

DISTILL = (
    "Take the facts out of this conversation: each a short sentence that stands by itself and"
    " says one thing, in the words of its source, with every name, number and date as written."
    " Give each the number of the entry it is from. Leave out greetings and guesses; add nothing."
)

FACTS: JsonObject = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"fact": {"type": "string"}, "source": {"type": "integer"}},
                "required": ["fact", "source"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}


def want_writings(prompt: Prompt, env: Env, options: Extract | Distill) -> Prompt:
    """Leave a want for what is to be written, where the log has no outcome for this input.

    The input is what is in view up to the user's last words: what the agent does about them does
    not change it, so the model is asked once a turn. The outcome is in the state already, for
    the event that has it carries it. Facts are distilled of what is new only.

    Before:  user "Fly me to Oslo"   (C.default().distill("facts"))
    After:   the same, and a want of kind "distill" for `facts`
    """
    seen = _view_until_now(prompt, env)
    if isinstance(options, Extract):
        want, diagnostic = _want_extract(seen, env, options)
    else:
        want, diagnostic = _want_distill(seen, env, options)
    known = want is None or want in prompt.wants
    if known and diagnostic in (None, *prompt.diagnostics):
        return prompt
    return msgspec.structs.replace(
        prompt,
        wants=prompt.wants if known else (*prompt.wants, cast("Want", want)),
        diagnostics=prompt.diagnostics if diagnostic is None else (*prompt.diagnostics, diagnostic),
    )


def _view_until_now(prompt: Prompt, env: Env) -> list[Item]:
    """What is in view up to what the agent did in the current turn."""
    items: list[Item] = []
    for item in prompt.items:
        # from here on the input would change with every step, and be asked for again
        if item.position >= env.turn and item.author == env.agent and item.kind != "summary":
            break
        if item.kind not in ("state", "system"):
            items.append(item)
    return items


def _want_extract(
    seen: Sequence[Item], env: Env, options: Extract
) -> tuple[Want | None, Diagnostic | None]:
    entries = [entry for item in seen if (entry := entry_of(item, env)) is not None]
    if not entries:
        return None, None
    text = "\n".join(map(str, entries))
    schema = schemas.of_type(options.schema, where="C.extract.schema")
    named = name_of_model(options.model)
    key = fingerprint("extract", schema, options.key, named, text)
    effect = env.session.effects.get(key)
    # a `temp:` key is gone with its invocation: then it is read out again
    if effect is not None and not _is_lost(effect, env, options.key):
        return None, _failure_diagnostic(effect, env, f"`{options.key}` is not extracted")
    want = Want(
        "extract", key, EXTRACT, text, schema, options.model, options.key,
        label=label_of_items(seen),
    )  # fmt: skip
    return want, done_without(env, f"`{options.key}` is not extracted", NOT_ASKED)


def _want_distill(
    seen: Sequence[Item], env: Env, options: Distill
) -> tuple[Want | None, Diagnostic | None]:
    done, last = _distilled_through(env, options.key)
    fresh = [item for item in seen if item.position > done]
    entries = [(item, entry) for item in fresh if (entry := entry_of(item, env)) is not None]
    if not entries:
        return None, _left_out(last, env, options.key)
    lines = [f"[{number}] {entry}" for number, (_, entry) in enumerate(entries, 1)]
    text = "\n".join(lines)
    key = fingerprint("distill", options.key, name_of_model(options.model), text)
    effect = env.session.effects.get(key)
    if effect is not None:
        return None, _failure_diagnostic(
            effect, env, f"nothing new is distilled into `{options.key}`"
        )
    want = Want(
        "distill",
        key,
        DISTILL,
        text,
        FACTS,
        options.model,
        options.key,
        sources=tuple((item.event, entry.text) for item, entry in entries),
        through=max(item.last for item, _ in entries),
        label=label_of_items(fresh),
    )
    return want, done_without(env, f"nothing new is distilled into `{options.key}`", NOT_ASKED)


def _distilled_through(env: Env, key: str) -> tuple[int, JsonObject | None]:
    """The log index up to which facts are in state under the key, and the effect that says so."""
    done, last = -1, None
    for effect in env.session.effects.values():
        through = effect.get("through")
        same = effect.get("kind") == "distill" and effect.get("key") == key
        # one that failed has distilled nothing, so its entries are still due
        if same and "outcome" in effect and isinstance(through, int) and through > done:
            done, last = through, effect
    return done, last


def _is_lost(effect: JsonObject, env: Env, key: str) -> bool:
    """Whether an outcome was kept only as long as its invocation lasted."""
    return key.startswith("temp:") and "outcome" in effect and key not in env.session.state


def _failure_diagnostic(effect: JsonObject, env: Env, what: str) -> Diagnostic | None:
    error: Json = effect.get("error")
    return done_without(env, what, str(error)) if "outcome" not in effect else None


def _left_out(effect: JsonObject | None, env: Env, key: str) -> Diagnostic | None:
    dropped = effect.get("dropped") if effect is not None else None
    if not isinstance(dropped, list) or not dropped:
        return None
    words = f"{len(dropped)} of the facts for `{key}` are left out"
    return done_without(env, words, "their sources do not say them")
