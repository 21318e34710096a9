"""A model that says what a script says, and checks what it is asked.

It stands where a provider would in tests: it records every request as it was really sent, and
refuses one that a provider would refuse.
"""

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import msgspec

from weft.content import Content, FunctionCall, Part, PartProvenance, require_content, thought_part
from weft.dialects import DIALECTS, dialect_named
from weft.dialects.strict import RequestChecker
from weft.errors import DeclarationError, ScriptExhausted, SessionError, describe_kind
from weft.ir import ModelResponse, Prompt
from weft.ir.prompt import show_block
from weft.misuse import explain_calls
from weft.session import Usage
from weft.values import Json, JsonObject, compact, require_object

_SHOWN_ITEMS = 3

_SHOWN_LETTERS = 160

Said: TypeAlias = str | Part

Failure: TypeAlias = BaseException | type[BaseException]


class Chunks(msgspec.Struct, frozen=True):
    """An answer that streams in exactly these deltas; make it with `chunks`."""

    deltas: tuple[Said, ...]


class Delayed(msgspec.Struct, frozen=True):
    """An entry that takes its time; make it with `delayed`."""

    seconds: float
    entry: "Entry"


class Cut(msgspec.Struct, frozen=True):
    """An entry that never completes; make it with `cut` or `fails_after`."""

    entry: "Entry"
    error: Failure | None = None


class Metered(msgspec.Struct, frozen=True):
    """An entry with what it cost; make it with `usage`."""

    entry: "Entry"
    usage: Usage


Entry: TypeAlias = (
    str
    | Part
    | Content
    | ModelResponse
    | Sequence[Said]
    | Mapping[str, Json]
    | Failure
    | Callable[[Prompt], object]
    | Chunks
    | Delayed
    | Cut
    | Metered
    | None
)
"""What one answer of a script may be written as."""


def usage(
    entry: Entry,
    *,
    prompt: int,
    output: int,
    cached: int | None = None,
    thoughts: int | None = None,
) -> Metered:
    """An entry with the tokens it cost; `prompt` includes the cached ones."""
    return Metered(
        entry,
        Usage(
            prompt_token_count=prompt,
            candidates_token_count=output,
            total_token_count=prompt + output + (thoughts or 0),
            cached_content_token_count=cached,
            thoughts_token_count=thoughts,
        ),
    )


class Answer(NamedTuple):
    """An entry as it is told: the complete response, and what comes before or instead of it.

    `deltas` are those of `chunks`; without them, text is streamed word by word.
    """

    response: ModelResponse
    deltas: tuple[Part, ...] | None = None
    completes: bool = True
    error: Failure | None = None

    def partials(self) -> Iterator[ModelResponse]:
        """The deltas as partial responses: texts and thoughts, in the order they stand in."""
        for part in self._stream_parts():
            yield ModelResponse(content=Content(role="model", parts=(part,)), partial=True)

    def _stream_parts(self) -> Iterator[Part]:
        if self.deltas is not None:
            yield from self.deltas
        elif self.response.content is not None:
            for part in self.response.content.parts or ():
                if part.kind in ("text", "thought"):
                    for word in _WORDS.findall(part.text or ""):
                        yield Part(text=word, thought=part.thought)


class Later(NamedTuple):
    """An entry that is not an answer yet: it wants the prompt, or takes its time."""

    entry: Delayed | Cut | Metered | Callable[[Prompt], object]
    where: str


class ScriptedModel:
    """Answers one request after the other with the entries of its script.

    Use it as `Agent(model=ScriptedModel([...]))`. A script that is a dict has entries for each
    agent by name, so that agents that run side by side get the same answers every time.

    `prompts` and `wires` are the requests in the order they came. A wire shares its turns with
    the requests after it; what is kept is a copy of its own fields and of its list of turns, so
    it stays as it was sent as long as nobody changes a turn in place.
    """

    @explain_calls('ScriptedModel(["an answer", call("tool", x=1)])')
    def __init__(
        self,
        script: Sequence[Entry] | Mapping[str, Sequence[Entry]],
        *,
        name: str = "scripted",
        dialect: str = "gemini",
    ) -> None:
        if dialect not in DIALECTS:
            raise DeclarationError(
                f"{dialect!r} is not a dialect",
                where="ScriptedModel.dialect",
                hint=f"write one of: {', '.join(DIALECTS)}",
            )
        if not isinstance(cast("object", name), str) or not name.strip():
            raise DeclarationError(
                f"{name!r} is not a name", where="ScriptedModel.name", hint='write name="scripted"'
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
        sent = {**wire}
        turns = sent.get(self._turns)
        if isinstance(turns, list):
            # the list grows with the next request: a copy stays as it was sent
            sent[self._turns] = turns[:]
        self.prompts.append(prompt)
        self.wires.append(sent)
        # after the recording, so that a test can look at the request that was refused
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
                hint=f"add an entry that answers\n{_show_end(prompt)}",
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
                f"{describe_kind(entries)} is not a script",
                where=where,
                hint='write ScriptedModel(["an answer", "another"])',
            )
        listed = cast("Sequence[object]", entries)
        self.entries = [
            prepare(entry, where=f"{where}[{index}]") for index, entry in enumerate(listed)
        ]
        self.used = 0
        self.where = where


def _show_end(prompt: Prompt) -> str:
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


def call(name: str, /, **arguments: Json) -> Part:
    """A tool call, without an id: the runtime gives it one.

    Every keyword is an argument of the tool, also `id`. For a call that brings its own id, write
    `weft.content.call_part("look", {"city": "Oslo"}, id="c1")`.

    >>> call("get_weather", city="Oslo").function_call
    FunctionCall(name='get_weather', args={'city': 'Oslo'})
    """
    return Part(function_call=FunctionCall(name=name, args=arguments))


def malformed(name: str, text: str) -> Part:
    """A tool call whose arguments are not a JSON object, as a model may write them.

    The part has no arguments; the text is `part.provenance.malformed`.
    """
    metadata = PartProvenance(malformed=text).onto(None)
    return Part(function_call=FunctionCall(name=name), part_metadata=metadata)


def thought(text: str, *, signature: str | None = None, provider: str = "") -> Part:
    """A thought; one that is to go back has a signature and says whose dialect that is."""
    return thought_part(text, signature=signature, provider=provider)


def chunks(*deltas: Said) -> Chunks:
    """An answer that streams in exactly these deltas, and is joined otherwise.

    Texts and thoughts are streamed; a call among them comes with the complete response.
    """
    return Chunks(deltas)


def delayed(seconds: float, entry: Entry) -> Delayed:
    """An entry that comes after `seconds`."""
    return Delayed(seconds, entry)


def cut(entry: Entry) -> Cut:
    """An entry that is cut off: its deltas if it is streamed, and then no complete response."""
    return Cut(entry)


def fails_after(*deltas: Said, error: Failure) -> Cut:
    """These deltas if it is streamed, and then the error."""
    return Cut(Chunks(deltas), error)


_WORDS = re.compile(r"\s*\S+|\s+")


def prepare(entry: object, *, where: str) -> Answer | Later:
    """The entry as an answer where it is one already; an error says what is wrong with it."""
    if isinstance(entry, (Delayed, Cut, Metered)):
        inner = prepare(entry.entry, where=f"{where}.entry")
        if isinstance(entry, Delayed):
            seconds = cast("object", entry.seconds)
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
                raise DeclarationError(
                    f"{seconds!r} is not a delay", where=where, hint="write delayed(0.5, entry)"
                )
            return Later(entry, where)
        if isinstance(entry, Cut) and entry.error is not None:
            _require_failure(entry.error, where)
        return _change_answer(inner, entry) if isinstance(inner, Answer) else Later(entry, where)
    # a class is an exception to raise, not a function to call
    if callable(entry) and not isinstance(entry, type):
        return Later(cast("Callable[[Prompt], object]", entry), where)
    try:
        return _answer(entry, where)
    except SessionError as error:  # what is not JSON, or no content
        raise DeclarationError(error.message, where=error.where, hint=error.hint) from None


async def resolve(prepared: Answer | Later, prompt: Prompt) -> Answer:
    """The answer to this prompt, once it is due."""
    if isinstance(prepared, Answer):
        return prepared
    entry, where = prepared
    if isinstance(entry, (Delayed, Cut, Metered)):
        if isinstance(entry, Delayed):
            await asyncio.sleep(entry.seconds)
        inner = await resolve(prepare(entry.entry, where=where), prompt)
        return inner if isinstance(entry, Delayed) else _change_answer(inner, entry)
    inner_entry = entry(prompt)
    if inspect.isawaitable(inner_entry):
        inner_entry = await cast("Awaitable[object]", inner_entry)
    return await resolve(prepare(inner_entry, where=f"what {where} gave"), prompt)


def _change_answer(answer: Answer, entry: Cut | Metered) -> Answer:
    if isinstance(entry, Metered):
        return answer._replace(response=msgspec.structs.replace(answer.response, usage=entry.usage))
    return answer._replace(completes=False, error=entry.error or answer.error)


def _answer(entry: object, where: str) -> Answer:
    if entry is None:
        return Answer(ModelResponse())
    if isinstance(entry, (BaseException, type)):
        return Answer(ModelResponse(), completes=False, error=_require_failure(entry, where))
    if isinstance(entry, ModelResponse):
        if entry.partial:
            raise DeclarationError(
                "a partial response is not an answer", where=where, hint='write chunks("He", "llo")'
            )
        if entry.content is not None:
            require_content(entry.content, where=where)
        return Answer(entry)
    if isinstance(entry, Content):
        return Answer(ModelResponse(content=require_content(entry, where=where)))
    if isinstance(entry, Mapping):
        value = require_object(cast("Mapping[object, object]", entry), where=where)
        return Answer(_response((Part(text=compact(value)),), where))
    if isinstance(entry, Chunks):
        deltas = _parts(entry.deltas, where)
        streamed = tuple(part for part in deltas if part.kind in ("text", "thought", "empty"))
        return Answer(_response(_join_deltas(deltas), where), streamed)
    return Answer(_response(_parts(entry, where), where))


def _response(parts: Sequence[Part], where: str) -> ModelResponse:
    filled = tuple(part for part in parts if part.kind != "empty")
    if not filled:
        return ModelResponse()
    return ModelResponse(content=require_content(Content(role="model", parts=filled), where=where))


def _parts(entry: object, where: str) -> tuple[Part, ...]:
    if isinstance(entry, (str, Part)):
        entry = (entry,)
    elif not isinstance(entry, (list, tuple)):
        raise DeclarationError(
            f"{describe_kind(entry)} is not an entry of a script", where=where, hint=_ENTRIES
        )
    parts: list[Part] = []
    for index, piece in enumerate(cast("Sequence[object]", entry)):
        if not isinstance(piece, (str, Part)):
            raise DeclarationError(
                f"{describe_kind(piece)} is not a part of an answer",
                where=f"{where}[{index}]",
                hint="write texts, call(...), thought(...) or Part values",
            )
        parts.append(Part(text=piece) if isinstance(piece, str) else piece)
    return tuple(parts)


_ENTRIES = (
    "write text, call(...), a list of both, a dict, a Content, a ModelResponse, an exception,"
    " None, or a callable of the prompt"
)


def _join_deltas(deltas: Sequence[Part]) -> list[Part]:
    """The deltas with stretches of plain text, or of plain thoughts, made one."""
    parts: list[Part] = []
    for part in deltas:
        last = parts[-1] if parts else None
        if last is not None and _plain(last) and _plain(part) and last.thought == part.thought:
            whole = (last.text or "") + (part.text or "")
            parts[-1] = Part(text=whole, thought=part.thought)
        else:
            parts.append(part)
    return parts


def _plain(part: Part) -> bool:
    return part == Part(text=part.text, thought=part.thought)


def _require_failure(error: object, where: str) -> Failure:
    if isinstance(error, BaseException):
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return error
    raise DeclarationError(f"{error!r} is not an exception", where=where, hint=_ENTRIES)
