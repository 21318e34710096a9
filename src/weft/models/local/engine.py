"""The engine that runs weights in this process, one for each file, and its slots and tokens.

The engine is the `xllamacpp` package: a server as a module. Requests are handed to it directly.
It also listens on a loopback port, for clients that only speak HTTP. Every process has a key of
its own for that port.
"""

import http.client
import importlib.util
import os
import secrets
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol, cast
from urllib.parse import urlsplit

import msgspec

from weft.compiler.caching import common
from weft.dialects import CHAT, dialect_named
from weft.dialects.wire import drop_fields, object_in, objects_in, text_at
from weft.errors import ModelError
from weft.ir import Prompt
from weft.values import Json, JsonObject

SLOTS = 4
"""How many requests are answered at once. Each slot remembers its last conversation."""

WINDOW = 4096
"""How many tokens a request with its answer may have by default."""

_BATCH = 128
"""How many tokens the engine reads before it looks whether anybody still waits."""

_CACHE_MEGABYTES = 512
"""How much memory the engine uses for conversations that are in no slot."""

_READ_FIELDS = (
    "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format",
    "chat_template_kwargs",
)  # fmt: skip
"""The fields of a request that become text for the model."""

_MOST_READINGS = 64
"""How many requests are remembered with their tokens."""

_PATIENCE = 60
"""Seconds to wait for an answer that takes no slot."""


class Setup(NamedTuple):
    """The settings of an engine. Equal setups share an engine."""

    path: Path
    window: int = WINDOW
    slots: int = SLOTS
    threads: int = 0
    """0 means one fewer than the machine has cores: with all of them, a busy machine crawls."""


class _File(Protocol):
    path: str


class _EngineThreads(Protocol):
    n_threads: int


class _Params(Protocol):
    """The settings of the engine that are used here."""

    model: _File
    cpuparams: _EngineThreads
    cpuparams_batch: _EngineThreads
    model_alias: set[str]
    api_keys: list[str]
    n_ctx: int
    n_parallel: int
    n_batch: int
    cache_ram_mib: int
    cache_idle_slots: bool
    verbosity: int
    warmup: bool
    ui: bool
    endpoint_slots: bool


class _Server(Protocol):
    listening_address: str

    def handle_chat_completions(
        self, prompt: JsonObject, callback: Callable[[JsonObject], bool]
    ) -> None: ...


class _Package(Protocol):
    def CommonParams(self) -> _Params: ...

    def Server(self, params: _Params) -> _Server: ...


class Conversation(NamedTuple):
    """The agent and the events of a request, and whether the model has not answered yet."""

    agent: str
    events: tuple[str, ...]
    is_new: bool

    def follows(self, earlier: "Conversation | None") -> bool:
        """Whether it continues an earlier one, even where its beginning was left out."""
        if earlier is None or earlier.agent != self.agent or not self.events:
            return False
        return self.events[0] in earlier.events


class Engine:
    """Weights in memory, with slots for requests that are answered at the same time."""

    def __init__(self, setup: Setup) -> None:
        package = _package()
        params = package.CommonParams()
        params.model.path = str(setup.path)
        threads = setup.threads or max(1, (os.cpu_count() or 2) - 1)
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        # the engine shares its window out among the slots
        params.n_ctx = setup.window * setup.slots
        params.n_parallel = setup.slots
        params.n_batch = _BATCH
        params.cache_ram_mib = _CACHE_MEGABYTES
        params.cache_idle_slots = False
        params.verbosity = -1
        params.warmup = False
        params.ui = False
        params.endpoint_slots = False
        self.key = secrets.token_urlsafe(24)
        params.api_keys = [self.key]
        self.setup = setup
        try:
            self._server = package.Server(params)
        except RuntimeError as error:
            raise ModelError(
                f"the engine cannot load these weights: {error}",
                code="bad_request",
                where=str(setup.path),
                hint="use a GGUF file of a chat model, with memory to spare",
            ) from error
        self.workers = ThreadPoolExecutor(setup.slots, thread_name_prefix="weft-local")
        self.process = os.getpid()
        """The process it runs in: a fork does not get its threads."""
        self.busy = 0
        """How many requests are being answered."""
        self._counting = threading.Lock()
        self._slots = Slots(setup.slots)
        self._readings: dict[bytes, tuple[int, ...]] = {}

    @property
    def url(self) -> str:
        """The engine's address, for clients that only speak HTTP."""
        return self._server.listening_address

    def answer(
        self,
        body: JsonObject,
        tell: Callable[[JsonObject], bool],
        conversation: Conversation | None = None,
    ) -> None:
        """Answer a chat request. `tell` gets each piece, and returns True to stop the answer.

        Without a conversation, the engine itself chooses the slot. This blocks until the answer
        is complete, so call it in one of the `workers`.
        """
        used: int | None = None

        def note_slot(piece: JsonObject) -> bool:
            nonlocal used
            # asked for only to learn which slot the engine chose
            details = piece.pop("__verbose", None)
            slot = details.get("id_slot") if isinstance(details, dict) else None
            used = slot if isinstance(slot, int) else used
            return tell(piece)

        taken = self._slots.take(conversation) if conversation is not None else None
        placed: JsonObject = {"verbose": True} if taken is None else {"id_slot": taken}
        with self._counting:
            self.busy += 1
        try:
            self._server.handle_chat_completions({**body, **placed}, note_slot)
        except (ValueError, RuntimeError) as error:
            tell({"error": {"code": 400, "type": "invalid_request_error", "message": str(error)}})
        finally:
            with self._counting:
                self.busy -= 1
            self._slots.release(taken if taken is not None else used, conversation)

    def tokens(self, body: JsonObject) -> tuple[int, ...]:
        """The tokens of a request as the model reads it, with its template filled in."""
        fields: JsonObject = {key: body[key] for key in _READ_FIELDS if key in body}
        key = msgspec.json.encode(fields)
        tokens = self._readings.get(key)
        if tokens is None:
            tokens = self._cut(self._post("/apply-template", key)["prompt"], whole=True)
            while len(self._readings) >= _MOST_READINGS:
                # with defaults: another thread may have emptied it
                self._readings.pop(next(iter(self._readings), b""), None)
            self._readings[key] = tokens
        return tokens

    def cut(self, text: str) -> tuple[int, ...]:
        """The tokens of a stretch of plain text."""
        return self._cut(text, whole=False)

    def _cut(self, text: Json, *, whole: bool) -> tuple[int, ...]:
        body: JsonObject = {"content": text, "add_special": whole, "parse_special": whole}
        read = self._post("/tokenize", msgspec.json.encode(body)).get("tokens")
        return msgspec.convert(read, tuple[int, ...])

    def _post(self, path: str, body: bytes) -> JsonObject:
        """The engine's answer to a question that takes no slot."""
        at = urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        with closing(http.client.HTTPConnection(at.hostname or "", at.port, _PATIENCE)) as line:
            line.request("POST", path, body, headers)
            answer = line.getresponse()
            value: Json = msgspec.json.decode(answer.read())
        if answer.status != 200 or not isinstance(value, dict):
            error = value if isinstance(value, dict) else None
            raise dialect_named(CHAT).errors.failure(answer.status, error, str(value))
        return value


_engines: dict[Setup, Engine] = {}

_starting = threading.Lock()

_is_fork = False
"""Whether this process was forked from one with engines."""


def _note_fork() -> None:
    """After a fork: mark all engines as stopped, and refuse to start new ones.

    The engines stay in memory: ending one means waiting for its threads.
    """
    global _starting, _is_fork
    _is_fork = _is_fork or bool(_engines)
    # the lock may have been held by a thread that the child does not have
    _starting = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_note_fork)


def engine_for(setup: Setup) -> Engine:
    """This process's engine for that setup; it is started on first use."""
    if _is_fork:
        raise ModelError(
            "this process was forked from one in which local models already ran",
            code="bad_request",
            where="local",
            hint='start it anew: multiprocessing.get_context("spawn"), or fork before the first',
        )
    with _starting:
        engine = _engines.get(setup)
        if engine is None:
            engine = _engines[setup] = Engine(setup)
        return engine


def is_installed() -> bool:
    """Whether the package that runs weights is installed."""
    return importlib.util.find_spec("xllamacpp") is not None


def _package() -> _Package:
    """Import the engine's package. Its threads must not spin while they wait: others starve."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        return cast("_Package", importlib.import_module("xllamacpp"))
    except ImportError as error:
        raise ModelError(
            "the package that runs local models is not installed",
            code="not_found",
            where="local",
            hint='pip install "weft[local]"',
        ) from error


def conversation_of(prompt: Prompt) -> Conversation:
    """The conversation that a request belongs to."""
    items = list(prompt.items)
    whole = bool(items) and items[0].position == 0
    answered = any(block.role == "model" for item in items for block in item.blocks)
    events = tuple(item.event for item in items)
    return Conversation(prompt.agent, events, whole and not answered)


class Slots:
    """The slots by number, the least recently used first."""

    def __init__(self, count: int) -> None:
        self._conversations: dict[int, Conversation | None] = dict.fromkeys(reversed(range(count)))
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, asked: Conversation) -> int | None:
        """Take the slot for a request; None where the engine may choose."""
        with self._lock:
            free = [slot for slot in self._conversations if slot not in self._taken]
            chosen = next((slot for slot in free if asked.follows(self._conversations[slot])), None)
            # a new conversation takes the least recently used slot
            if chosen is None and asked.is_new and free:
                chosen = free[0]
            if chosen is not None:
                self._taken.add(chosen)
            return chosen

    def release(self, slot: int | None, asked: Conversation | None) -> None:
        """Free a slot, and note which conversation stands in it."""
        if slot is None:
            return
        with self._lock:
            self._taken.discard(slot)
            self._conversations.pop(slot, None)
            self._conversations[slot] = asked


_NAME_TOKENS: JsonObject = {"logprobs": True, "top_logprobs": 1}
"""Settings that make the engine name its tokens."""


class TokenTrace:
    """The tokens of one request and its answer, noted as the answer comes.

    The engine reuses the tokens that a request shares with what it read or wrote before. Its own
    answer can be cut into other tokens when it is read again: a grammar makes the engine take
    unusual ones, and a call or a reply in JSON stands in the history as something else.
    """

    def __init__(self, engine: Engine, body: JsonObject) -> None:
        self._engine = engine
        self._named = "tools" not in body
        """Whether the engine names its tokens: it does not where it looks for calls itself."""
        self._hidden = self._named and not body.get("logprobs")
        self.body: JsonObject = {**body, **_NAME_TOKENS} if self._hidden else body
        self._written: list[int] = []
        self._count = 0

    def note(self, piece: JsonObject) -> JsonObject:
        """Note the tokens that a piece names; returns the piece as the caller asked for it."""
        usage = piece.get("usage")
        count = usage.get("completion_tokens") if isinstance(usage, dict) else None
        self._count = count if isinstance(count, int) else self._count
        choices = piece.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or "logprobs" not in choice:
            return piece
        for token in objects_in(object_in(choice["logprobs"]).get("content")):
            self._written += self._whole(
                token.get("id"), text_at(object_in(choice.get("delta")), "content")
            )
        if not self._hidden:
            return piece
        return {**piece, "choices": [drop_fields(choice, "logprobs")]}

    def _whole(self, token: Json, text: str) -> tuple[int, ...]:
        """A token, with the ones before it that the engine held back until a letter was whole."""
        if not isinstance(token, int):
            return ()
        if text.isascii():
            return (token,)
        cut = self._engine.cut(text)
        return cut if cut[-1:] == (token,) else (token,)

    def count_known(self, repeated: JsonObject) -> int | None:
        """How many tokens the engine knows again in `repeated`: the request with its answer.

        None where nobody can say. The last token it wrote is never among them: the engine has
        not computed yet what follows it.
        """
        count = self._count - 1
        if not self._named or len(self._written) < count:
            return None
        cached = (*self._engine.tokens(self.body), *self._written[: max(0, count)])
        return common(cached, self._engine.tokens(repeated))
