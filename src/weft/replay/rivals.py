"""What people use instead of a policy, measured with the same count.

Each is a pass over plain history, as other programs do it: results cut to a length, old results
cleared or masked, a window of messages, a summary when the window fills. None leaves a handle, so
what a step misses is paid as a call that is made again. The summary is made of what the user and
the agent said, shortened, in place of a model's; the call that would write it is paid: it reads all
that is sent, and its answer costs what answers cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from weft.compiler.compiled import Compilation
from weft.compiler.costs import Load
from weft.declare import Agent, C
from weft.ir import Block, Item, Prompt, ResultBlock, TextBlock
from weft.passes import Env, map_blocks
from weft.passes.env import text_in
from weft.recordings import Recording
from weft.replay.evidence import Uses, spell_value
from weft.replay.replay import Trial, replay
from weft.values import JsonObject

CAP, KEPT, BATCH, MASKED, WINDOW, TAIL = 2_000, 3, 10, 10, 10, 10
"""Characters of a result that stay; results that are not cleared, and how many are cleared at once;
results that are not masked; messages in the window; messages that a summary leaves as they are."""

LIMIT, SUMMED = 64_000, 1_000
"""The window that a summary is made for, at 80% of it, and the tokens of a summary."""

CLEARED, SUMMARY = "[old result cleared]", "[summary of the conversation so far]"


class Rival(NamedTuple):
    """A way to shorten requests: its name, and the items that it sends instead of all."""

    name: str
    shorten: Callable[[Sequence[Item], Env], list[Item]]

    def run_pass(self, prompt: Prompt, env: Env) -> Prompt:
        """The prompt as it would be sent."""
        items = [*prompt.items]
        shorter = self.shorten(items, env)
        same = len(shorter) == len(items) and all(map(_is_same, shorter, items))
        return prompt if same else prompt.with_items(shorter)


def _is_same(one: object, other: object) -> bool:
    return one is other


def _cap_results(items: Sequence[Item], env: Env) -> list[Item]:
    """Each result with its first characters only."""
    return [_with_results(item, _cut_text) for item in items]


def _cut_text(text: str) -> str:
    return text if len(text) <= CAP else f"{text[:CAP]}\n[cut]"


def _clear_results(items: Sequence[Item], env: Env) -> list[Item]:
    """Old results cleared, some at once, so that what was sent changes seldom."""
    results = sum(map(_has_results, items))
    return _hide_results(items, max(0, (results - KEPT) // BATCH * BATCH))


def _mask_results(items: Sequence[Item], env: Env) -> list[Item]:
    """All but the newest results hidden, anew at each step."""
    return _hide_results(items, sum(map(_has_results, items)) - MASKED)


def _hide_results(items: Sequence[Item], count: int) -> list[Item]:
    """The items with the first `count` results hidden."""
    shorter: list[Item] = []
    for item in items:
        is_hidden = count > 0 and _has_results(item)
        count -= is_hidden
        shorter.append(_with_results(item, lambda text: CLEARED) if is_hidden else item)
    return shorter


def _keep_newest(items: Sequence[Item], env: Env) -> list[Item]:
    """The task, what the user asks now, and the newest messages."""
    task = _task_length(items)
    start = max(task, len(items) - WINDOW)
    return [*items[:task], *filter(env.is_asked, items[task:start]), *items[start:]]


def _sum_up(items: Sequence[Item], env: Env) -> list[Item]:
    """The task, a summary of the middle, and the newest messages; again when it is full."""
    folds = _summaries(items, env)
    if not folds:
        return [*items]
    task, end = _task_length(items), folds[-1]
    words = [text_in(item) for item in items[task:end]]
    first = items[task]
    origin = first.blocks[0].origin
    text = f"{SUMMARY}\n{_fit_words(words)}"
    summary = msgspec.structs.replace(
        first,
        kind="user",
        author="user",
        blocks=(TextBlock(role="user", origin=origin, text=text),),
    )
    # no program leaves out the question that it answers
    return [*items[:task], summary, *filter(env.is_asked, items[task:end]), *items[end:]]


def _summaries(items: Sequence[Item], env: Env) -> list[int]:
    """Up to which item each summary so far reaches.

    Where the task and the newest messages fill the window by themselves, a summary that removes
    little would be made at each step. Nobody does that, so one removes a quarter of the window.
    """
    sizes = [_size(item, env) for item in items]
    task, ends = _task_length(items), list[int]()
    size = 0
    for place in range(len(items)):
        size += sizes[place]
        last, end = ends[-1] if ends else task, place + 1 - TAIL
        if size > 0.8 * LIMIT and sum(sizes[last : max(last, end)]) >= LIMIT / 4:
            ends.append(end)
            size = sum(sizes[:task]) + SUMMED + sum(sizes[end : place + 1])
    return ends


def _fit_words(words: Sequence[str]) -> str:
    """The beginnings of all that was said, as many letters of each as fit."""
    spoken = [one for one in words if one]
    room = max(40, SUMMED * 4 // max(1, len(spoken)))
    return "\n".join(one[:room] for one in spoken)[: SUMMED * 4]


def _size(item: Item, env: Env) -> int:
    return sum(
        env.tokens.count(
            block.text if isinstance(block, TextBlock) else spell_value(block.response)
        )
        for block in item.blocks
        if isinstance(block, TextBlock | ResultBlock)
    )


def _task_length(items: Sequence[Item]) -> int:
    """How many items come before the agent's first word."""
    return next((at for at, item in enumerate(items) if item.kind != "user"), len(items))


def _has_results(item: Item) -> bool:
    return any(isinstance(block, ResultBlock) for block in item.blocks)


def _with_results(item: Item, change: Callable[[str], str]) -> Item:
    """The item with other words in its results."""

    def change_block(block: Block) -> Block:
        if not isinstance(block, ResultBlock):
            return block
        text = spell_value(block.response)
        shorter = change(text)
        if shorter == text:
            return block
        response: JsonObject = {"result": shorter}
        return msgspec.structs.replace(block, response=response)

    return map_blocks(item, change_block)


RIVALS = (
    Rival(f"clear old results, keep {KEPT}", _clear_results),
    Rival(f"cap {CAP:,} characters", _cap_results),
    Rival(f"mask older than {MASKED}", _mask_results),
    Rival(f"window of {WINDOW}", _keep_newest),
    Rival(f"summary at 80% of {LIMIT // 1000}k", _sum_up),
)

RIVAL_NAMES = frozenset(rival.name for rival in RIVALS)


def replay_rival(
    recording: Recording,
    rival: Rival,
    *,
    uses: Uses,
    model: str | None = None,
    agents: dict[str, Agent] | None = None,
    gap: float | None = None,
    sessions_per_hour: float = 0.0,
) -> Trial:
    """A recording as the rival would have sent it, counted as a policy is."""

    def run_rival(agent: Agent) -> Agent:
        """The agent, whose requests the rival changes."""
        return replace(agent, passes=(*agent.passes, rival.run_pass))

    known_summaries = {""}

    def summary_call(compiled: Compilation) -> Load | None:
        """The call that writes a summary, at the request that first has it."""
        texts = (text_in(item) for item in compiled.prompt.items)
        summary = next((text for text in texts if text.startswith(SUMMARY)), "")
        if summary in known_summaries:
            return None
        known_summaries.add(summary)
        return Load(int(0.8 * LIMIT), 0, 0, SUMMED)

    trial = replay(
        recording,
        C.default(),
        uses=uses,
        model=model,
        agents=agents,
        gap=gap,
        sessions_per_hour=sessions_per_hour,
        aside=summary_call,
        change=run_rival,
    )
    return msgspec.structs.replace(trial, policy=rival.name)
