"""Passes that make the log a conversation: results next to their calls, other agents by name.

Below them those at the edges of a request: its opening, its close, the order of its system parts.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from weft.diagnostics import Diagnostic, Origin, report
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Feature,
    Item,
    MediaBlock,
    Note,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    Stability,
    TextBlock,
)
from weft.passes.env import Env, opening_of
from weft.passes.rewrite import prepend_items, rewrite_items
from weft.session.strand import Strand
from weft.session.talk import Utterance
from weft.values import compact

REPLACED = "a later result replaced its placeholder"

_PENDING = {"status": "pending: this call is still running"}

_LOST = {"error": "no result was recorded for this call"}


class _Exchange:
    """A model item with calls, and the results found for them so far."""

    def __init__(self, item: Item, calls: list[CallBlock]) -> None:
        self.item = item
        self.calls = calls
        self.results: dict[str, ResultBlock] = {}
        self.last = item.last


_Waiting = tuple[_Exchange, CallBlock]


class _Index:
    """Calls by the id the log gives them, and by name for results that have no id."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[_Waiting]] = {}
        self._by_name: dict[str, list[_Waiting]] = {}

    def add(self, exchange: _Exchange, ids: list[str]) -> None:
        """Note the calls of an exchange under the ids they had before any was renamed."""
        for call_id, call in zip(ids, exchange.calls, strict=True):
            self._by_id.setdefault(call_id, []).append((exchange, call))
            self._by_name.setdefault(call.name, []).append((exchange, call))

    def find(self, result: ResultBlock) -> _Waiting | None:
        """The call a result answers: of the newest exchange, unanswered ones first."""
        index = self._by_id if result.call_id else self._by_name
        key = result.call_id or result.name
        # an id may come again in a later answer: the newest exchange with it has the call
        calls = index.get(key, [])
        waiting = [(e, call) for e, call in calls if call.id not in e.results]
        # without ids, results answer calls of their name in order: answered ones are done with
        if not result.call_id:
            index[key] = waiting
        if waiting:
            newest = waiting[-1][0]
            return next(pair for pair in waiting if pair[0] is newest)
        # all are answered: a second result under the same id replaces a placeholder
        return calls[-1] if calls and result.call_id else None


def pair_results(prompt: Prompt, env: Env) -> Prompt:
    """Make a call and its results one item: adjacent, in call order, none missing.

    A late result moves to its call and the placeholder it replaces goes; nothing in between is
    lost. A call without a result gets a synthetic one that says so, a result without a call
    becomes text, each with a diagnostic; a long-running call is answered as pending.

    Before:  model calls a, b | results b | user "and?" | results a
    After:   model calls a, b + results a, b | user "and?"
    """
    if not prompt.features & Feature.CALLS:
        return prompt
    out: list[Item | _Exchange] = []
    waiting = _Index()
    notes: list[Note] = []
    diagnostics: list[Diagnostic] = []
    seen: set[str] = set()
    for item in prompt.items:
        if item.kind == "calls":
            calls = [block for block in item.blocks if isinstance(block, CallBlock)]
            ids = [call.id for call in calls]
            if item.author == env.agent:
                renamed = _rename_calls(item, calls, seen, env.thread.used_ids)
            else:  # what another agent called is told without ids
                renamed = _rename_calls(item, calls, set(), frozenset())
            if renamed is not item:
                calls = [block for block in renamed.blocks if isinstance(block, CallBlock)]
            exchange = _Exchange(renamed, calls)
            out.append(exchange)
            waiting.add(exchange, ids)
        elif item.kind == "results":
            rest = _attach(item, waiting, out, notes)
            if rest:
                out.append(_orphans(item, rest, diagnostics))
        else:
            out.append(item)
    items = [
        _close_exchange(entry, diagnostics) if isinstance(entry, _Exchange) else entry
        for entry in out
    ]
    passing: Strand[Item] = Strand()  # nothing of it is final
    paired = prompt.with_strand(passing.with_tail(items), notes)
    if not diagnostics:
        return paired
    return msgspec.structs.replace(paired, diagnostics=(*prompt.diagnostics, *diagnostics))


def _rename_calls(
    item: Item, calls: list[CallBlock], seen: set[str], used: AbstractSet[str]
) -> Item:
    """The item with call ids that no other call of the request has."""
    clash = False
    fresh: dict[int, str] = {}
    for index, call in enumerate(calls):
        if call.id in seen or call.id in used:
            clash = True
            fresh[index] = f"{call.id}_{item.position}_{index}"
        seen.add(fresh.get(index, call.id))
    if not clash:
        return item
    blocks: list[Block] = []
    index = 0
    for block in item.blocks:
        if isinstance(block, CallBlock):
            if index in fresh:
                block = msgspec.structs.replace(block, id=fresh[index], given=False)
            index += 1
        blocks.append(block)
    return msgspec.structs.replace(item, blocks=tuple(blocks))


def _attach(
    item: Item,
    waiting: _Index,
    out: Sequence[Item | _Exchange],
    notes: list[Note],
) -> list[Block]:
    """Give each result to its call; return what is left over."""
    rest: list[Block] = []
    for block in item.blocks:
        waiting_call = waiting.find(block) if isinstance(block, ResultBlock) else None
        if waiting_call is None or not isinstance(block, ResultBlock):
            rest.append(block)
            continue
        exchange, call = waiting_call
        earlier = exchange.results.get(call.id)
        if earlier is not None:
            placeholder = msgspec.structs.replace(
                item, blocks=(earlier,), event=earlier.origin.name
            )
            notes.append(Note("pair_results", REPLACED, placeholder))
        elif out[-1] is not exchange:
            notes.append(Note("pair_results", "a late result moved to its call", item))
        # providers compare id and name, and the call may have been renamed
        if (block.call_id, block.name, block.given) != (call.id, call.name, call.given):
            block = msgspec.structs.replace(
                block, call_id=call.id, name=call.name, given=call.given
            )
        exchange.results[call.id] = block
        exchange.last = max(exchange.last, item.last)
    return rest


def _orphans(item: Item, rest: list[Block], diagnostics: list[Diagnostic]) -> Item:
    """What belongs to no call, as the user-side text it can legally be."""
    blocks: list[Block] = []
    for block in rest:
        if not isinstance(block, ResultBlock):
            blocks.append(block)
            continue
        diagnostics.append(
            report(
                "WEFT202",
                block.origin,
                f"the result of `{block.name}` answers no visible call",
                "keep call and result in one branch, under one id",
            )
        )
        text = f"[{block.name} returned] {compact(block.response)}"
        blocks.append(TextBlock(role="user", origin=block.origin, text=text, label=block.label))
        blocks.extend(block.media)
    return msgspec.structs.replace(item, kind="user", blocks=tuple(blocks))


def _close_exchange(exchange: _Exchange, diagnostics: list[Diagnostic]) -> Item:
    """The exchange as one item, with a result for every call."""
    item = exchange.item
    results: list[Block] = []
    waits = False
    for call in exchange.calls:
        result = exchange.results.get(call.id)
        if result is None:
            waits = True
            result = ResultBlock(
                role="user",
                origin=Origin("pass", "pair_results"),
                call_id=call.id,
                name=call.name,
                response=dict(_PENDING if call.waits else _LOST),
                given=call.given,
                synthetic=True,
            )
            if not call.waits:
                diagnostics.append(
                    report(
                        "WEFT201",
                        call.origin,
                        f"the call {call.id} of `{call.name}` has no result",
                        "append its result, or mark the call long-running",
                    )
                )
        results.append(result)
    return Item(
        "exchange",
        (*item.blocks, *results),
        item.author,
        item.invocation,
        item.position,
        exchange.last,
        item.event,
        item.branch,
        item.wrote,
        waits,
    )


# --- other agents' turns

_ELIDED = ("transfer_to_agent",)


def attribute_foreign(prompt: Prompt, env: Env) -> Prompt:
    """Turn another agent's items into user-side text under its name.

    Roles belong to the agent that is asked: a peer's turn sent as `model` would be taken for its
    own words. Calls and results are narrated; thoughts, and the hand-over itself, are left out.

    Before:  model(planner) thought "hm" | model(planner) "Take the train"
    After:   user "[planner]: Take the train"
    """
    if not prompt.features & Feature.FOREIGN:
        return prompt

    def change(item: Item, _: None) -> Item | Note:
        if item.author in ("user", env.agent) or item.kind in ("summary", "results", "state"):
            return item
        return tell_item(item)

    return rewrite_items(prompt, "attribute_foreign", change, key=env.agent)


def tell_item(item: Item) -> Note:
    """What becomes of another agent's item: text under its name, or nothing."""
    blocks = _narrate_item(item)
    if not blocks:
        reason = f"{item.author} only thought or handed over"
        return Note("attribute_foreign", reason, item)
    narrated = msgspec.structs.replace(item, kind="foreign", blocks=blocks)
    return Note("attribute_foreign", f"it is {item.author}'s", item, narrated)


def tell_utterance(one: Utterance) -> list[str]:
    """The texts of the blocks that `tell_item` makes of plain talk."""
    if one.text:
        return [_tell_text(one.author, one.text)]
    opening = _tell_act(one.author, "")
    acts: list[str] = []  # `list[str]()` takes as long as all the rest
    results: list[str] = []
    for call in one.calls:
        name = call.name
        if name not in _ELIDED:
            acts.append(opening + _call_in_words(name, compact(call.args)))
            results.append(opening + _result_in_words(name, compact(call.response)))
    acts += results
    return acts


def _narrate_item(item: Item) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for block in item.blocks:
        if isinstance(block, MediaBlock):
            blocks.append(msgspec.structs.replace(block, role="user"))
            continue
        line = _line(item.author, block)
        if line:
            blocks.append(
                TextBlock(
                    role="user",
                    origin=block.origin,
                    text=line,
                    stability=Stability.TURN,
                    priority=block.priority,
                    labels=block.labels,
                    label=block.label,
                    refers=block.refers if isinstance(block, TextBlock | ResultBlock) else (),
                    handle=block.handle if isinstance(block, TextBlock | ResultBlock) else "",
                )
            )
            if isinstance(block, ResultBlock):
                blocks.extend(block.media)
    return tuple(blocks)


def _line(author: str, block: Block) -> str:
    match block:
        case TextBlock():
            return _tell_text(author, block.text)
        case CallBlock() | ResultBlock() if block.name in _ELIDED:
            return ""
        case ResultBlock():
            if block.synthetic:
                return ""
            act = _result_in_words(block.name, compact(block.response))
        case _:
            act = act_in_words(block)
    return _tell_act(author, act) if act else ""


def act_in_words(block: Block, short: Callable[[str], str] = str) -> str:
    """That something was called or ran, and what code gave; nothing for any other block."""
    match block:
        case CallBlock():
            return _call_in_words(block.name, short(compact(block.args)))
        case CodeBlock():
            return f"ran code:\n{short(block.code)}"
        case CodeResultBlock():
            return f"code gave {block.outcome}:\n{short(block.output)}"
        case _:
            return ""


def _tell_text(author: str, text: str) -> str:
    return f"[{author}]: {text}"


def _tell_act(author: str, act: str) -> str:
    return f"[{author}] {act}"


def _call_in_words(name: str, arguments: str) -> str:
    return f"called {name}({arguments})"


def _result_in_words(name: str, response: str) -> str:
    return f"{name} returned {response}"


# --- the edges of a request


def open_turn(prompt: Prompt, env: Env) -> Prompt:
    """Put a user turn before a first item that speaks as the model.

    Providers want the user to begin. An agent that greets first would otherwise be refused.

    Before:  model "Welcome!" | user "Hi"
    After:   user "(The conversation begins.)" | model "Welcome!" | user "Hi"
    """
    # something is final before these items, so the request has begun already
    items = prompt.items
    if not env.thread.opening or not items.length:
        return prompt
    first = items[0] if items.settled else items.tail[0]
    if not first.blocks or first.blocks[0].role != "model":
        return prompt
    opening = opening_of(first)
    note = Note("open_turn", "the first turn must be the user's", first, opening)
    # all of it may still change, so nothing is kept
    if not items.settled:
        return prompt.with_strand(Strand[Item]().with_tail([opening, *items.tail]), (note,))
    return prepend_items(prompt, (opening,), step="open_turn", key=None, notes=(note,))


CONTINUE = "Continue."


def close_turn(prompt: Prompt, env: Env) -> Prompt:
    """Put a user turn after a last item that speaks as the model, or where there is no item.

    A request that ends with the model's own words is a prefill: some providers refuse it, the
    others go on in mid-sentence. It happens when a loop asks an agent again with nothing new.
    A turn that was paused at a part of the provider's own goes on from there.

    Before:  user "Write" | model "A draft"
    After:   user "Write" | model "A draft" | user "Continue."
    """
    last = prompt.items.tip
    if last is not None and last.blocks:
        block = last.blocks[-1]
        paused = (
            last.paused and isinstance(block, OpaqueBlock) and block.provider == env.model.dialect
        )
        # a paused answer goes back as it is: the provider goes on where it broke off
        if block.role == "user" or paused:
            return prompt
    origin = Origin("pass", "close_turn")
    closing = Item(
        kind="user",
        blocks=(TextBlock(role="user", origin=origin, text=CONTINUE),),
        author="",
        invocation=env.invocation,
        position=last.last if last is not None else 0,
        last=last.last if last is not None else 0,
        event="",
    )
    note = Note("close_turn", "a request ends with the user's turn", last or closing, closing)
    return prompt.with_strand(prompt.items.with_tail([closing]), (note,))


def append_changes(prompt: Prompt, env: Env) -> Prompt:
    """Put what changed in the instruction after the conversation, where nothing follows it.

    Providers reuse a request up to its first changed byte. So the system text stays as it was
    first sent, and a change costs its own words instead of everything after it. An answer that
    was paused goes on from its own last words; there the change waits for the next request.

    Before:  system "It is ten." | user "Hi" | model "Hello" | user "And now?"
    After:   system "It is ten." | user "Hi" | ... | user "And now?" | system "Now: It is eleven."
    """
    last = prompt.items.tip
    if (
        not env.instruction.changes
        or last is None
        or last.kind == "system"
        or last.blocks[-1].role == "model"
    ):
        return prompt
    change = Item(
        kind="system",
        blocks=env.instruction.changes,
        author="",
        invocation=env.invocation,
        position=last.last,
        last=last.last,
        event="",
    )
    reason = "the instruction changed; what was sent of it before stays as it was"
    note = Note("append_changes", reason, change, change)
    return prompt.with_strand(prompt.items.with_tail([change]), (note,))


def order_system(prompt: Prompt, env: Env) -> Prompt:
    """Order the system parts by how often they change, the given order within each class.

    Providers reuse a request up to its first changed byte. A part is volatile because it
    contains a variable or a provider, not because of its name; so an instruction without
    variables keeps the order it was written in.

    Before:  system "It is {time}."  | system "You are bot."
    After:   system "You are bot."   | system "It is {time}."
    """
    if not prompt.features & Feature.UNORDERED:
        return prompt
    ordered = tuple(sorted(prompt.system, key=lambda block: block.stability))
    if ordered == prompt.system:
        return prompt
    return msgspec.structs.replace(prompt, system=ordered)
