"""Let a summary stand for what lies back."""

from typing import NamedTuple

import msgspec

from weft.declare.policy.transforms import Summarize
from weft.diagnostics import Diagnostic
from weft.digest.extractive import Entry
from weft.ir import Item, Note, Prompt, TextBlock, Want
from weft.passes.env import Env
from weft.passes.summaries import (
    HEADING,
    Summed,
    done_without,
    entries_of,
    summary_item,
    summed_up,
)
from weft.passes.turns import turn_numbers

FOLD = 8
"""How many summaries in a row become one."""

_WIDE = 4
"""From so many turns on that stay, summaries cover as many at once."""


class _Block(NamedTuple):
    """Turns that one summary stands for."""

    first: int
    last: int
    items: tuple[Item, ...]
    summed: Summed


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
    answered = frozenset(
        item.invocation for item in prompt.items if item.author not in ("", "user")
    )
    blocks = [
        _Block(
            number * every + 1,
            (number + 1) * every,
            tuple(items),
            _summed(items, prompt, env, options, answered),
        )
        for number, items in sorted(old.items())
    ]
    return _with_summaries(prompt, env, *_folded(blocks, env, options))


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


def _summed(
    items: list[Item], prompt: Prompt, env: Env, options: Summarize, answered: frozenset[str]
) -> Summed:
    entries = entries_of(items, env)

    def beside() -> tuple[list[str], list[str]]:
        behind = [item for item in prompt.items if item.position > items[-1].last]
        pinned = [item for item in prompt.items if item.priority == 1]
        later, held = entries_of(behind, env), entries_of(pinned, env)
        return [entry.text for entry in later], [entry.text for entry in held]

    questions = _unanswered(items, answered)
    return summed_up(entries, env, options, questions=questions, beside=beside)


def _unanswered(items: list[Item], answered: frozenset[str]) -> list[str]:
    """What the user asked that nobody has said anything behind."""
    found: list[str] = []
    for item in items:
        if item.kind == "user" and item.invocation not in answered:
            texts = [block.text for block in item.blocks if isinstance(block, TextBlock)]
            found += [text for text in texts if text.rstrip().endswith(("?", "\uff1f"))]
    return found


def _folded(
    blocks: list[_Block], env: Env, options: Summarize
) -> tuple[list[_Block], list[Summed]]:
    """The blocks, each full row of them as one once that is summed up, and what is not yet."""
    due: list[Summed] = []
    while len(blocks) >= FOLD:
        made: list[_Block] = []
        for at in range(0, len(blocks), FOLD):
            row = blocks[at : at + FOLD]
            summed = _fold(row, env, options) if len(row) == FOLD else None
            if summed is not None and not summed.problem:
                items = tuple(item for block in row for item in block.items)
                made.append(_Block(row[0].first, row[-1].last, items, summed))
                continue
            made += row
            due += [summed] if summed is not None else []
        if len(made) == len(blocks):
            break
        blocks = made
    return blocks, due


def _fold(row: list[_Block], env: Env, options: Summarize) -> Summed | None:
    """One summary of several, as soon as a model has written all of them."""
    if any(block.summed.problem or not block.summed.text for block in row):
        return None
    return summed_up([Entry("", block.summed.text) for block in row], env, options)


def _with_summaries(prompt: Prompt, env: Env, blocks: list[_Block], due: list[Summed]) -> Prompt:
    places: dict[object, Item] = {}
    gone: set[object] = set()
    notes: list[Note] = []
    said: list[Diagnostic] = []
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
            said.append(done_without(env, what, summed.problem))
            if not saves:
                continue
        if summed.text:
            made = summary_item(summed.text, block.items, "summarize_items")
            places[block.items[0].key] = made
            notes.append(Note("summarize_items", f"it stands for {turns}", made, made))
        gone.update(item.key for item in block.items)
        notes += [
            Note("summarize_items", f"the summary of {turns} stands for it", item)
            for item in block.items
        ]
    known = {want.fingerprint for want in prompt.wants}
    wants = list({want.fingerprint: want for want in reversed(wants)}.values())[::-1]
    wants = [want for want in wants if want.fingerprint not in known]
    if not (gone or wants or said):
        return prompt
    items: list[Item] = []
    for item in prompt.items:
        if item.key in places:
            items.append(places[item.key])
        if item.key not in gone:
            items.append(item)
    after = prompt.with_items(items, notes) if gone else prompt
    return msgspec.structs.replace(
        after, diagnostics=(*prompt.diagnostics, *said), wants=(*prompt.wants, *wants)
    )


def _saves(text: str, items: tuple[Item, ...], env: Env) -> bool:
    """Whether an extract is shorter than what it was taken from; counted once a log."""
    key = ("saves", env.model, items[0].key, len(items), text)
    held = env.log.memo.get(key)
    if isinstance(held, bool):
        return held
    whole = "\n".join(map(str, entries_of(items, env)))
    saves = env.count(HEADING + text) < env.count(whole)
    env.log.memo[key] = saves
    return saves
