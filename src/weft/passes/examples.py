"""Examples before the conversation, where they never change."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from weft.declare.examples import Example
from weft.diagnostics import Origin
from weft.ir import CallBlock, Feature, Item, ItemKind, Prompt, ResultBlock, Stability, TextBlock
from weft.passes.env import Env
from weft.passes.rewrite import prepend_items
from weft.values import Json, compact, handle_of


class SpelledExamples(NamedTuple):
    """Examples as turns, or as a system text for a model that cannot be told of calls."""

    items: tuple[Item, ...] = ()
    text: TextBlock | None = None
    key: str = ""


def insert_examples(prompt: Prompt, env: Env, *, options: SpelledExamples) -> Prompt:
    """Put examples before the conversation, as turns or as a system text.

    They are the same in every request, so a provider reuses them. A budget never takes them.

    Before:  user "5 euros?"
    After:   user "2 euros?" | model "EUR 2.00" | user "5 euros?"
    """
    if options.text is not None:
        if options.text in prompt.system:
            return prompt
        features = prompt.features | Feature.UNORDERED
        system = (*prompt.system, options.text)
        return msgspec.structs.replace(prompt, system=system, features=features)
    if not options.items or (len(prompt.items) and prompt.items[0] == options.items[0]):
        return prompt
    return prepend_items(prompt, options.items, step="insert_examples", key=options.key)


def spell_examples(
    examples: Sequence[Example], agent: str, *, wrapped: bool, as_turns: bool
) -> SpelledExamples:
    """The examples of an agent; `wrapped` says that its answers stand under `result`."""
    # a model that cannot be told of calls reads them as text
    if not as_turns and any(example.calls for example in examples):
        return SpelledExamples(text=_as_text(examples, agent, wrapped=wrapped))
    items = [
        item
        for number, example in enumerate(examples)
        for item in _turns(example, number, agent, wrapped=wrapped)
    ]
    spelled: list[Json] = [msgspec.to_builtins(item) for item in items]
    return SpelledExamples(tuple(items), key=handle_of(spelled))


def _turns(example: Example, number: int, agent: str, *, wrapped: bool) -> list[Item]:
    origin = Origin("field", f"examples[{number}]", agent)

    def item(kind: ItemKind, author: str, *blocks: TextBlock | CallBlock | ResultBlock) -> Item:
        # -1: it stands in no log, and before all that does
        return Item(kind, blocks, author, "", -1, -1, f"example {number}")

    def text(role: "str", words: str) -> TextBlock:
        return TextBlock(
            role="user" if role == "user" else "model",
            origin=origin,
            text=words,
            stability=Stability.STATIC,
            priority=1,
        )

    items = [item("user", "", text("user", example.user))]
    for at, call in enumerate(example.calls):
        call_id = f"example_{number}_{at}"
        called = CallBlock(
            role="model", origin=msgspec.structs.replace(origin, part=2 * at + 1), id=call_id,
            name=call.name, args=call.args, given=False, stability=Stability.STATIC, priority=1,
        )  # fmt: skip
        result = ResultBlock(
            role="user", origin=msgspec.structs.replace(origin, part=2 * at + 2), call_id=call_id,
            name=call.name, response=call.response, given=False, stability=Stability.STATIC,
            priority=1,
        )  # fmt: skip
        items.append(item("exchange", agent, called, result))
    items.append(item("model", agent, text("model", _answer(example, wrapped=wrapped))))
    return items


def _answer(example: Example, *, wrapped: bool) -> str:
    """The answer as the model would say it."""
    if wrapped:
        return compact({"result": example.answer})
    return example.answer if isinstance(example.answer, str) else compact(example.answer)


def _as_text(examples: Sequence[Example], agent: str, *, wrapped: bool) -> TextBlock:
    lines = ["Examples:"]
    for example in examples:
        lines.append(f"\nUser: {example.user}")
        lines += [
            f"Call: {call.name}({compact(call.args)}) -> {compact(call.result)}"
            for call in example.calls
        ]
        lines.append(f"Answer: {_answer(example, wrapped=wrapped)}")
    return TextBlock(
        role="system",
        origin=Origin("field", "examples", agent),
        text="\n".join(lines),
        stability=Stability.STATIC,
        priority=1,
    )
