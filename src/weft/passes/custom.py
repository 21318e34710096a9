"""Passes that users write: what helps to write one, and what each is held to.

A user's pass has the form of our own: `fn(prompt, env) -> Prompt`. It runs after what an agent sees
is selected, and before that is protected and fitted into a budget. A mistake in it would be sent
to a provider, or would change a request that was sent; so it is found here, by the pass's name.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from weft.declare.config import check_generate_config
from weft.diagnostics import Origin
from weft.errors import CompileError, DeclarationError, InvalidPrompt, describe_kind
from weft.ir import (
    CallBlock,
    Feature,
    Item,
    Note,
    Prompt,
    ResultBlock,
    Stability,
    TextBlock,
    ToolDecl,
    verify,
)
from weft.passes.env import Env
from weft.passes.rewrite import rewrite_items
from weft.session.strand import Strand
from weft.values import JsonObject


def add_system(
    prompt: Prompt, text: str, *, step: str, stability: Stability = Stability.STATIC
) -> Prompt:
    """The prompt with one more system text.

    Texts that change less often are sent first, whatever the order of the passes is, so that the
    provider can reuse them. `step` names the pass.
    """
    if not text:
        return prompt
    block = TextBlock(
        role="system", origin=Origin("pass", step), text=text, stability=stability, priority=1
    )
    return msgspec.structs.replace(prompt, system=(*prompt.system, block))


def add_turn(prompt: Prompt, text: str, *, step: str, reason: str = "") -> Prompt:
    """The prompt with a text after the conversation, as the user's.

    Nothing that was sent before changes. The next request does not have it, unless the pass adds
    it again.
    """
    if not text:
        return prompt
    newest = prompt.items.tip
    place = newest.last if newest is not None else 0
    block = TextBlock(role="user", origin=Origin("pass", step), text=text)
    item = Item(
        kind="user",
        blocks=(block,),
        author="",
        invocation=newest.invocation if newest is not None else "",
        position=place,
        last=place,
        event="",
    )
    note = Note(step, reason or "the pass adds it", item, item)
    return prompt.with_strand(prompt.items.with_tail([item]), (note,))


def drop_items(
    prompt: Prompt, test: Callable[[Item], bool], *, step: str, reason: str = ""
) -> Prompt:
    """The prompt without the items for which `test` is true.

    The answer is kept for each item, so `test` may look at nothing but the item.
    """

    def change(item: Item, _: None) -> Item | Note:
        return Note(step, reason or _DROPPED, item) if test(item) else item

    return rewrite_items(prompt, step, change)


_DROPPED, _CHANGED, _ADDED = "the pass leaves it out", "the pass rewrites it", "the pass adds it"


class CustomPass:
    """A user's pass, held to the laws of a prompt each time it runs.

    `where` says where it was declared. One that belongs to a tool runs while that tool is offered.
    """

    def __init__(self, function: Callable[..., object], name: str, where: str, tool: str = ""):
        self.__name__ = name
        self.function = function
        self.where = where
        self.tool = tool

    def __call__(self, prompt: Prompt, env: Env) -> Prompt:
        """Run it twice, first on a copy: the same prompt must give the same prompt.

        O(n) once a request, for agents with passes of their users.
        """
        # its tool is not offered in this request
        if self.tool and all(tool.name != self.tool for tool in prompt.tools):
            return prompt
        # later requests share the items: a pass that changes them in place must reach only a copy
        trial = _copy_prompt(prompt)
        before = _spell_prompt(trial)
        expected = self._run(trial, env)
        if _spell_prompt(trial) != before:
            raise self._broken_pass_error(
                "it changes the prompt that it is given in place",
                "return a changed copy: msgspec.structs.replace(...), or rewrite_items",
            )
        after = self._run(prompt, env)
        self._require_same(after, expected)
        if after is prompt:
            return prompt
        self._verify(after, prompt, env)
        return _with_notes(_in_order(after, prompt, self.__name__), prompt, self.__name__)

    def _run(self, prompt: Prompt, env: Env) -> Prompt:
        try:
            after = self.function(prompt, env)
        except Exception as error:
            raise CompileError(
                f"the pass `{self.__name__}` raised {type(error).__name__}: {error}",
                where=self.where,
                hint=f"mend the pass, or leave it out of {self.where}",
            ) from error
        if isinstance(after, Prompt):
            return after
        if inspect.iscoroutine(after):
            after.close()  # nobody will wait for it
        raise self._broken_pass_error(
            f"it returns {describe_kind(after)}, not a Prompt",
            "return the prompt it was given, or a changed copy of it",
        )

    def _require_same(self, after: Prompt, expected: Prompt) -> None:
        """Refuse a pass that gave something else for the same prompt."""
        pairs = (
            ("system text", after.system, expected.system),
            ("tools", after.tools, expected.tools),
            ("options", after.config, expected.config),
            ("conversation", after.items.since(0), expected.items.since(0)),
        )
        for what, one, other in pairs:
            if one != other:
                raise self._broken_pass_error(
                    f"it is not pure: the same prompt gave two, which differ in the {what}",
                    "use no clock, randomness, counter or network: read env (env.now,"
                    " env.session.state), and name all that a change depends on in key=",
                )

    def _verify(self, after: Prompt, before: Prompt, env: Env) -> None:
        for field, one, other in (
            ("model", after.model, before.model),
            ("agent", after.agent, before.agent),
            ("output", after.output, before.output),
            ("wants", after.wants, before.wants),
        ):
            if one != other:
                raise self._broken_pass_error(
                    f"it changes `{field}`, which no pass may",
                    "declare that on the agent, or pass it in RunConfig(...)",
                )
        self._verify_tools(after.tools, before.tools)
        if after.config != before.config:
            self._verify_options(after.config)
        try:
            verify(after, step=self.__name__, before=before)
        except InvalidPrompt as error:
            raise self._broken_pass_error(
                error.message, "drop, move or rewrite whole items: a call and its results are one"
            ) from None
        known = {id(item) for item in before.items}
        self._verify_items(after.items, known)
        self._verify_protected(after.items, before.items, env)

    def _verify_tools(self, after: tuple[ToolDecl, ...], before: tuple[ToolDecl, ...]) -> None:
        offered = {tool.name for tool in before}
        added = next((tool.name for tool in after if tool.name not in offered), None)
        if added is not None:
            raise self._broken_pass_error(
                f"it adds the tool `{added}`, which nobody would run",
                "declare it on the agent; a pass may take tools away, or describe them anew",
            )

    def _verify_options(self, config: JsonObject) -> None:
        try:
            check_generate_config(config, where=self.where)
        except DeclarationError as error:
            raise self._broken_pass_error(error.message, error.hint) from None

    def _verify_items(self, items: Iterable[Item], known: set[int]) -> None:
        calls: set[str] = set()
        for item in items:
            call_ids = [block.id for block in item.blocks if isinstance(block, CallBlock)]
            twice = next((call for call in call_ids if call in calls), None)
            if twice is not None:
                raise self._broken_pass_error(
                    f"the call `{twice}` stands in two items", "keep each item once"
                )
            calls.update(call_ids)
            if id(item) in known:
                continue
            if not item.blocks:
                raise self._broken_pass_error(
                    f"it leaves an item without blocks ({item.event or item.kind})",
                    "leave the item out instead",
                )
            paired = item.kind in ("exchange", "hidden")
            if not paired and any(isinstance(b, CallBlock | ResultBlock) for b in item.blocks):
                raise self._broken_pass_error(
                    f"a call or a result stands alone in an item of kind `{item.kind}`",
                    "put a call and its results into one item of kind `exchange`",
                )

    def _verify_protected(self, after: Strand[Item], before: Strand[Item], env: Env) -> None:
        """What is asked now, and what stays whatever it costs, must still be there."""
        remaining = {item.key for item in after} | {(item.position, item.event) for item in after}
        for item in before:
            if item.key in remaining or (item.position, item.event) in remaining:
                continue
            if env.is_asked(item):
                raise self._broken_pass_error(
                    "it drops what the user asks now",
                    "keep items for which env.is_asked(item) is true; it may rewrite them",
                )
            if item.priority == 1:
                raise self._broken_pass_error(
                    f"it drops an item of priority 1 ({item.event or item.kind})",
                    "keep items whose priority is 1: a policy says that they stay",
                )
            if item.open:
                raise self._broken_pass_error(
                    f"it drops a call that waits for its result ({item.event})",
                    "keep items that are open",
                )

    def _broken_pass_error(self, what: str, hint: str) -> InvalidPrompt:
        return InvalidPrompt(f"the pass `{self.__name__}`: {what}", where=self.where, hint=hint)


def _copy_prompt(prompt: Prompt) -> Prompt:
    """The same prompt, sharing nothing that can be changed in place, and no outcome of a pass."""
    items, tools, config = prompt.items.since(0), prompt.tools, prompt.config
    try:
        copies = msgspec.msgpack.decode(msgspec.msgpack.encode((items, tools, config)), type=_Parts)
    except OverflowError:  # only JSON has whole numbers of any size
        copies = msgspec.json.decode(msgspec.json.encode((items, tools, config)), type=_Parts)
    items, tools, config = copies
    return msgspec.structs.replace(
        prompt, items=Strand(items), tools=tools, config=config,
        config_origins={**prompt.config_origins},
    )  # fmt: skip


_Parts: TypeAlias = tuple[list[Item], tuple[ToolDecl, ...], JsonObject]


def _spell_prompt(prompt: Prompt) -> bytes:
    """All of a prompt that a pass could change in place."""
    parts = (prompt.items.since(0), prompt.tools, prompt.config)
    try:
        return msgspec.msgpack.encode(parts)
    except OverflowError:
        return msgspec.json.encode(parts)


def _in_order(after: Prompt, before: Prompt, name: str) -> Prompt:
    """The prompt, marked where its system texts must be sorted; new options say who set them."""
    features, origins = after.features, after.config_origins
    if after.system is not before.system:
        features |= Feature.UNORDERED
    if after.config is not before.config and after.config != before.config:
        changed = {k: v for k, v in after.config.items() if before.config.get(k) != v}
        origins = {**origins, **dict.fromkeys(changed, Origin("pass", name))}
    if features == after.features and origins is after.config_origins:
        return after
    return msgspec.structs.replace(after, features=features, config_origins=origins)


def _with_notes(after: Prompt, before: Prompt, name: str) -> Prompt:
    """The prompt with a note on each item that the pass changed without a word, under its name."""
    own: Sequence[Note] = tuple(after.notes.since(before.notes))
    notes = [
        note if note.step == name else msgspec.structs.replace(note, step=name) for note in own
    ]
    if after.items.memo is not before.items.memo or after.items.tail != before.items.tail:
        noted = {id(note.before) for note in own} | {id(note.after) for note in own}
        now = {item.key: item for item in after.items}
        then = {item.key: item for item in before.items}
        for key, item in then.items():
            other = now.get(key)
            if other is item or id(item) in noted or (other is not None and other == item):
                continue
            notes.append(Note(name, _CHANGED if other is not None else _DROPPED, item, other))
        notes += [
            Note(name, _ADDED, item, item)
            for key, item in now.items()
            if key not in then and id(item) not in noted
        ]
    return msgspec.structs.replace(after, notes=before.notes.plus(notes))
