"""A model that says what a script says, and checks what it is asked.

It stands where a provider would in tests: it records every request as it was really sent, and
refuses one that a provider would refuse.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import cast

from weft.dialects import DIALECTS, dialect_named
from weft.errors import DeclarationError, ScriptExhausted
from weft.ir import ModelResponse, Prompt
from weft.ir.show import show_block
from weft.misuse import explained
from weft.models.check_request import RequestChecker
from weft.models.script import Answer, Entry, Later, prepare, resolve
from weft.values import JsonObject

_SHOWN_ITEMS = 3
_SHOWN_LETTERS = 160


class ScriptedModel:
    """Answers one request after the other with the entries of its script.

    Use it as `Agent(model=ScriptedModel([...]))`. A script that is a dict has entries for each
    agent by name, so that agents that run side by side get the same answers every time.

    `prompts` and `wires` are the requests in the order they came. A wire shares its turns with
    the requests after it; what is kept is a copy of its own fields and of its list of turns, so
    it stays as it was sent as long as nobody changes a turn in place.
    """

    @explained('ScriptedModel(["an answer", call("tool", x=1)])')
    def __init__(
        self,
        script: Sequence[Entry] | Mapping[str, Sequence[Entry]],
        *,
        name: str = "scripted",
        dialect: str = "gemini",
    ) -> None:
        if dialect not in DIALECTS:
            raise DeclarationError(
                f"{dialect!r} is no dialect",
                where="ScriptedModel.dialect",
                hint=f"write one of: {', '.join(DIALECTS)}",
            )
        if not isinstance(cast("object", name), str) or not name.strip():
            raise DeclarationError(
                f"{name!r} is no name", where="ScriptedModel.name", hint='write name="scripted"'
            )
        self.name = name
        self.dialect = dialect
        self.prompts: list[Prompt] = []
        self.wires: list[JsonObject] = []
        self._turns = dialect_named(dialect).traits.turns
        self._checker = RequestChecker(dialect)
        self._keyed = isinstance(script, Mapping)
        self._scripts: dict[str, _Script] = (
            {agent: _Script(each, f"script[{agent!r}]") for agent, each in script.items()}
            if isinstance(script, Mapping)
            else {"": _Script(script, "script")}
        )

    @property
    def calls(self) -> int:
        """How many requests there were."""
        return len(self.prompts)

    @property
    def remaining(self) -> int:
        """How many entries nobody asked for yet."""
        return sum(len(script.entries) - script.used for script in self._scripts.values())

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Record the request, check it, and answer with the next entry."""
        kept = {**wire}
        turns = kept.get(self._turns)
        if isinstance(turns, list):
            kept[self._turns] = turns[:]
        self.prompts.append(prompt)
        self.wires.append(kept)
        self._checker.check(prompt, wire)
        entry = self._next(prompt)
        answer = entry if isinstance(entry, Answer) else await resolve(entry, prompt)
        if stream:
            for partial in answer.partials():
                yield partial
        if answer.error is not None:
            raise answer.error
        if answer.completes:
            yield answer.response

    def _next(self, prompt: Prompt) -> Answer | Later:
        script = self._scripts.get(prompt.agent if self._keyed else "")
        if script is None:
            raise ScriptExhausted(
                f"the script has nothing for agent `{prompt.agent}`",
                where=f"request {self.calls}",
                hint=f"it has entries for: {', '.join(self._scripts) or 'nobody'}",
            )
        if script.used == len(script.entries):
            raise ScriptExhausted(
                f"agent `{prompt.agent}` asks once more, and all {script.used} entries of"
                f" {script.where} are told",
                where=f"request {self.calls}",
                hint=f"add an entry that answers\n{_told(prompt)}",
            )
        script.used += 1
        return script.entries[script.used - 1]

    def __repr__(self) -> str:
        return (
            f"ScriptedModel({self.name!r}, {self.dialect},"
            f" {self.calls} asked, {self.remaining} remaining)"
        )


class _Script:
    """The entries of a script, and how many of them were told."""

    def __init__(self, entries: object, where: str) -> None:
        if isinstance(entries, str) or not isinstance(entries, Sequence):
            raise DeclarationError(
                f"a {type(entries).__name__} is no script",
                where=where,
                hint='write ScriptedModel(["an answer", "another"])',
            )
        listed = cast("Sequence[object]", entries)
        self.entries = [
            prepare(entry, where=f"{where}[{index}]") for index, entry in enumerate(listed)
        ]
        self.used = 0
        self.where = where


def _told(prompt: Prompt) -> str:
    """The end of a request in words."""
    start = max(0, len(prompt.items) - _SHOWN_ITEMS)
    lines = [
        show_block(block).replace("\n", " ")
        for index in range(start, len(prompt.items))
        for block in prompt.items[index].blocks
    ]
    return "\n".join(
        f"    {line if len(line) <= _SHOWN_LETTERS else line[: _SHOWN_LETTERS - 1] + '…'}"
        for line in (["..."] if start else []) + lines
    )
