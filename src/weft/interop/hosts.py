"""What the adapters for other agent libraries share: requests made cheaper, and `recall`.

An adapter turns the messages of its host into those of a dialect, lets them be compacted, and puts
what changed back into copies of the host's own objects. A run that works without the adapter works
with it: where anything fails, the messages go out as they were.
"""

import inspect
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import is_dataclass, replace
from functools import cache
from importlib import import_module
from typing import NamedTuple, cast

import msgspec

from weft.compaction import Compacted, compact
from weft.compaction.compact import protects, require_stateless, spell_recall
from weft.declare import C
from weft.declare.policy import Policy
from weft.dialects import CHAT, dialect_named
from weft.errors import UsageError
from weft.interop.adk.objects import member
from weft.ir.block import RECALL
from weft.values import Json, JsonObject

_log = logging.getLogger("weft")

_REMEMBERED = 32
"""How many conversations can still be asked for what their newest request left out."""


class HostCompactor:
    """Compacts the requests of a host, and answers `recall` for them.

    `context` is the policy. Where none is given it is `C.auto()`, or `C.auto(lossless=True)` for a
    request without the tool `recall`. `compacted` counts the requests that were made cheaper,
    `skipped` those that were left as they are, by the reason. `tokens` and `tokens_before` add up.
    """

    def __init__(self, context: Policy | None = None, *, where: str = "weft") -> None:
        if context is not None:
            require_stateless(context, where=where)
        self.context = context
        self.compacted = self.tokens = self.tokens_before = 0
        self.skipped: Counter[str] = Counter()
        self._recent: deque[_Sent] = deque(maxlen=_REMEMBERED)

    def compact(
        self,
        messages: list[JsonObject],
        *,
        dialect: str = CHAT,
        model: str = "",
        recalls: bool,
        head: JsonObject | None = None,
        fixed: str = "",
        conversation: str = "",
    ) -> Compacted | None:
        """The messages after the policy; None where they are to be sent as they are.

        `fixed` is what goes out beside them as it is, such as instructions and thoughts: where it
        has what a policy keeps away from the model, the request is refused.

        `conversation` names it, where the host says of a call of `recall` which one it is from.
        Where the rest of the request is known it is `head`. Then the outcome says whether `recall`
        is to be declared; without, a request that `recalls` has it.
        """
        policy = self.context if self.context is not None else C.auto(lossless=not recalls)
        target = dialect_named(dialect)
        _newest.set((self, None))
        request: JsonObject = {**(head or {}), target.traits.turns: cast("Json", messages)}
        if model:
            request["model"] = model
        if recalls and head is None:
            request["tools"] = [spell_recall(target, model)]
        try:
            if fixed and protects(policy):
                lone: list[Json] = [spell_user(fixed, "system"), spell_user("-")]
                compact({"model": model, "messages": lone}, policy, dialect=CHAT)
            outcome = compact(request, policy, dialect=dialect)
            self.tokens += outcome.tokens
            self.tokens_before += outcome.tokens_before
        except Exception as error:
            if protects(policy):
                raise  # what a policy keeps away from the model is never sent
            _log.warning("a request is left as it is", exc_info=True)
            self.skipped[f"{type(error).__name__}: {error}"] += 1
            return None
        sent = _Sent(conversation, outcome)
        self._remember(sent)
        _newest.set((self, sent))
        if cast("JsonObject", outcome.request)[target.traits.turns] is not messages:
            self.compacted += 1
            return outcome
        self.skipped["there is nothing to leave out"] += 1
        return outcome if outcome.request is not request else None  # a tool may be all that is new

    def _remember(self, sent: "_Sent") -> None:
        """Keep a request in place of those that it goes on from: it has all that they had."""
        before = [one for one in self._recent if not sent.outcome.continues(one.outcome)]
        self._recent = deque((*before, sent), maxlen=_REMEMBERED)

    def recall(self, conversation: str = "", /, **arguments: Json) -> str:
        """What a handle stands for, in the newest request that knows it.

        A number of a folded step means another one in each conversation. Where the host does not
        say which `conversation` asks, it is the one whose request went out in this task. Where none
        did, a number is answered only if no two of them answer differently.
        """
        wishes = {key: value for key, value in arguments.items() if value not in (None, "")}
        named = wishes.get("handle")
        is_step = not (isinstance(named, str) and _HASH.fullmatch(named.strip()))
        recent = [*reversed(self._recent)]
        own = [one for one in recent if conversation and one.conversation == conversation]
        # where a request went out without a name, nobody knows whose it was
        others = [one for one in recent if not (conversation and one.conversation)]
        by, newest = _newest.get()
        if by is self and not conversation:
            own = [newest] if newest is not None else []
            others = [] if is_step else others
        answers: dict[str, None] = {}
        missing = "there is no handle yet"
        for one in (*own, *others):
            if is_step and None not in one.outcome.sources:
                continue  # nothing is folded in it
            text = one.outcome.look_up(wishes)
            if "there is no handle" in text or "there is no step" in text:
                missing = text
                continue
            answers[text] = None
            if one in own or not is_step:
                break
        if len(answers) > 1:
            return (
                f"{len(answers)} conversations have something under {named!r}, and nobody says"
                " which one asks; what it stands for cannot be got back here"
            )
        return next(iter(answers), missing)


class _Sent(NamedTuple):
    """A request, and the conversation that it is of; empty where the host does not say."""

    conversation: str
    outcome: Compacted


_newest: ContextVar[tuple[HostCompactor | None, _Sent | None]] = ContextVar(
    "newest request", default=(None, None)
)
"""The newest request of this task, and who compacted it: a host calls tools where it has asked."""


_HASH = re.compile(r"[0-9a-f]{12}")
"""The handle of a value; every other one is the number of a step."""


def make_recall(compactor: HostCompactor, conversation: str = "") -> Callable[..., str]:
    """The tool `recall` as a function with the signature that hosts read."""

    def recall(
        handle: str, lines: str = "", query: str = "", field: str = "", page: int = 1
    ) -> str:
        """Get back what a handle stands for, or part of it.

        Args:
            handle: The handle that stands in its place, or several.
            lines: Only these lines, as 12-40.
            query: Only what fits these words.
            field: Only this field of JSON, as rows[].id.
            page: Which part of a long value.
        """
        return compactor.recall(
            conversation, handle=handle, lines=lines, query=query, field=field, page=page
        )

    return recall


def make_recall_in(
    compactor: HostCompactor, name: str, kind: object, find: Callable[[object], str]
) -> Callable[..., str]:
    """The same for a host that passes its own context: `find` reads the conversation in it.

    `name` is the argument by which the host passes it, and `kind` its type, by which it knows that
    the argument is none of the model's.
    """
    plain = make_recall(compactor)

    def recall(*context: object, **arguments: str | int) -> str:
        own = context[0] if context else arguments.pop(name, None)
        return make_recall(compactor, find(own))(**arguments)

    signature = inspect.signature(plain)
    own = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
    signature = signature.replace(parameters=[own, *signature.parameters.values()])
    setattr(recall, "__signature__", signature)  # noqa: B010  hosts read it
    recall.__doc__, recall.__annotations__ = plain.__doc__, {name: kind, **plain.__annotations__}
    return recall


class Host(NamedTuple):
    """A library that has an adapter: what is installed for it, and what the user writes."""

    extra: str
    adapter: str

    def find(self, module: str, name: str) -> Callable[..., object]:
        """A class or a function of the host; an error says what to install for it."""
        try:
            loaded = import_module(module)
        except ImportError as error:
            raise UsageError(
                f"{self.extra} is not installed",
                where=self.adapter,
                hint=f"pip install 'weft[{self.extra}]'",
            ) from error
        return cast("Callable[..., object]", getattr(loaded, name))

    def offer(self, own: type[object], module: str, base: str) -> Callable[[str], object]:
        """What the adapter's module answers for a name: its own part as a class of the host's.

        The class is made when it is asked for, so that nothing is imported before.
        """

        @cache
        def make_class() -> type[object]:
            body = {"__doc__": own.__doc__, "__module__": own.__module__}
            return type(self.adapter, (own, cast("type", self.find(module, base))), body)

        def look_up(name: str) -> object:
            if name == self.adapter:
                return make_class()
            raise AttributeError(f"module {own.__module__!r} has no attribute {name!r}")

        return look_up


# --- a host's messages as those of a chat


FIXED: JsonObject = {"role": "system", "content": ""}
"""What stands for a message that nothing is known about, and that no policy is to touch."""


class HostCall(NamedTuple):
    """A call that the model made."""

    id: str
    name: str
    arguments: object


def spell_user(text: str, role: str = "user") -> JsonObject:
    """What the user or the author says."""
    return {"role": role, "content": text}


def spell_answer(text: str, calls: Sequence[HostCall]) -> JsonObject:
    """What the model says and calls."""
    message: JsonObject = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": spell_arguments(call.arguments)},
            }
            for call in calls
        ]
    return message


def spell_result(id: str, text: str) -> JsonObject:
    """What a tool returned."""
    return {"role": "tool", "tool_call_id": id, "content": text}


def spell_message(
    role: str, text: str, *, calls: Sequence[HostCall] = (), id: str = ""
) -> JsonObject:
    """A message of one of the roles of a chat; of any other one nothing is known."""
    if role == "user":
        return spell_user(text or "[media]")
    if role == "tool":
        return spell_result(id, text)
    if role == "assistant" and (text or calls):
        return spell_answer(text, calls)
    return spell_user(text, "system") if role == "system" else FIXED


def spell_arguments(arguments: object) -> str:
    """Arguments as the JSON text that a chat has."""
    if isinstance(arguments, str):
        return arguments
    return msgspec.json.encode(arguments or {}, enc_hook=str).decode()


def text_of(message: Json) -> str:
    """The text of a message that came back."""
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


class HostCalls(NamedTuple):
    """How a host writes calls: the fields that have the id, the tool's name and its arguments.

    Among other pieces of a message a call is known by what the field `kind` says.
    """

    id: str
    name: str
    arguments: str
    kind: tuple[str, str] | None = None

    def read(self, pieces: Iterable[object]) -> list[HostCall]:
        """The calls among the pieces."""
        return [
            HostCall(self.id_of(one), str(member(one, self.name)), member(one, self.arguments))
            for one in pieces
            if self._is_call(one)
        ]

    def rebuild(self, pieces: Iterable[object], wire: JsonObject) -> list[object]:
        """The pieces with the arguments that came back, in copies where they are others."""
        calls = cast("list[dict[str, dict[str, str]]]", wire.get("tool_calls") or [])
        now = {str(call["id"]): call["function"]["arguments"] for call in calls}
        return [
            self._with_arguments(one, now.get(self.id_of(one))) if self._is_call(one) else one
            for one in pieces
        ]

    def id_of(self, call: object) -> str:
        """The id of a call; empty where it has none."""
        id = member(call, self.id)
        return id if isinstance(id, str) else ""

    def _is_call(self, piece: object) -> bool:
        return self.kind is None or member(piece, self.kind[0]) == self.kind[1]

    def _with_arguments(self, call: object, now: str | None) -> object:
        old = member(call, self.arguments)
        if now is None or now == spell_arguments(old):
            return call
        new: object = now if isinstance(old, str) else msgspec.json.decode(now)
        return copy_with(call, **{self.arguments: new})


class HostText(NamedTuple):
    """How a host writes text among the pieces of a message, such as pictures and thoughts.

    `read` tells the text of a piece, or None where it is something else; `write` makes a piece of
    other words, like one that was text if there was any.
    """

    read: Callable[[object], str | None]
    write: Callable[[object, str], object]

    def join(self, pieces: Iterable[object]) -> str:
        """The text of all pieces."""
        return "\n".join(one for one in map(self.read, pieces) if one)

    def replace(self, pieces: Sequence[object], words: str) -> list[object]:
        """The pieces with other words in the place of the first text; what is not text stays."""
        if self.join(pieces) == words:
            return [*pieces]
        texts = [at for at, one in enumerate(pieces) if self.read(one) is not None]
        if not texts:
            return [self.write(None, words), *pieces]
        return [
            self.write(one, words) if at == texts[0] else one
            for at, one in enumerate(pieces)
            if at not in texts[1:]
        ]


_PROVIDERS_OWN = "raw_representation"


def offers_recall(tools: Iterable[object]) -> bool:
    """Whether one of a host's tools is `recall`."""
    return any(getattr(tool, "name", None) == RECALL for tool in tools)


def copy_with(value: object, **fields: object) -> object:
    """A copy of a host's object with other fields, without what the provider's own said."""
    if isinstance(value, Mapping):
        return {**cast("Mapping[str, object]", value), **fields}
    if hasattr(value, _PROVIDERS_OWN):
        fields = {**fields, _PROVIDERS_OWN: None}
    if is_dataclass(value):
        return cast("Callable[..., object]", replace)(value, **fields)
    copied = copy(value)
    for name, one in fields.items():
        setattr(copied, name, one)
    return copied


class HostPiece(NamedTuple):
    """A message of a chat, and which part of which of the host's messages it stands for."""

    wire: JsonObject
    message: int
    part: int = 0


class HostMessages(NamedTuple):
    """How a host writes messages.

    `spell` makes those of a chat out of them. `rebuild` gets a message, and by the numbers of the
    parts that stay what a chat says now in their place, or None for those that stay as they are.
    `note` makes a message of a new text.
    """

    spell: Callable[[list[object]], Iterable[HostPiece]]
    rebuild: Callable[[object, Mapping[int, JsonObject | None]], object]
    note: Callable[[str], object]

    def compact(
        self,
        messages: list[object],
        compactor: HostCompactor,
        *,
        model: str = "",
        recalls: bool = True,
        fixed: str = "",
        conversation: str = "",
    ) -> list[object]:
        """The messages after a policy, in copies where something changed; else the same list."""
        pieces = [*self.spell(messages)]
        outcome = compactor.compact(
            [piece.wire for piece in pieces],
            model=model,
            recalls=recalls,
            fixed=fixed,
            conversation=conversation,
        )
        return messages if outcome is None else self._put_back(messages, pieces, outcome)

    def _put_back(
        self, messages: Sequence[object], pieces: Sequence[HostPiece], outcome: Compacted
    ) -> list[object]:
        listed = cast("dict[str, list[Json]]", outcome.request)["messages"]
        rebuilt: list[object] = []
        whole = Counter(piece.message for piece in pieces)
        stays: dict[int, dict[int, JsonObject | None]] = {}
        order: list[int | str] = []
        for source, wire in zip(outcome.sources, listed, strict=True):
            if source is None:
                order.append(text_of(wire))
                continue
            piece = pieces[source]
            if piece.message not in stays:
                order.append(piece.message)
            parts = stays.setdefault(piece.message, {})
            parts[piece.part] = None if wire is piece.wire else cast("JsonObject", wire)
        for entry in order:
            if isinstance(entry, str):
                rebuilt.append(self.note(entry))
                continue
            parts, message = stays[entry], messages[entry]
            same = len(parts) == whole[entry] and not any(one is not None for one in parts.values())
            rebuilt.append(message if same else self.rebuild(message, parts))
        return rebuilt
