"""The engine that runs weights in this process: one for each file, started when first asked.

It is the `xllamacpp` package: a server as a module. Requests are handed to it directly. It
also listens on a loopback port, behind a key that is made anew in every process, so that
clients that only speak HTTP can be pointed at it.
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

from weft.dialects import CHAT, dialect_named
from weft.errors import ModelError
from weft.ir import Prompt
from weft.values import Json, JsonObject

SLOTS = 4
"""How many requests are answered at once; each slot keeps the conversation it read last."""

WINDOW = 4096
"""How many tokens a request with its answer may have, unless somebody says otherwise."""

_BATCH = 128
"""How many tokens are read between two looks at whether anybody still waits."""

_KEPT = 512
"""Megabytes of conversations that are kept beside those in the slots."""

_SPELLED = (
    "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format",
    "chat_template_kwargs",
)  # fmt: skip
"""The fields of a request that the model gets to read."""

_MOST_READINGS = 64

_PATIENCE = 60


class Setup(NamedTuple):
    """What an engine is started with; equal ones share an engine."""

    path: Path
    window: int = WINDOW
    slots: int = SLOTS
    threads: int = 0
    """0 means one fewer than there are cores: with all of them, a busy machine crawls."""


class _File(Protocol):
    path: str


class _Threads(Protocol):
    n_threads: int


class _Params(Protocol):
    """The settings of the engine that are used here."""

    model: _File
    cpuparams: _Threads
    cpuparams_batch: _Threads
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
    """Whose conversation it is, what happened in it, and whether nothing was answered yet."""

    agent: str
    events: tuple[str, ...]
    is_new: bool

    def follows(self, held: "Conversation | None") -> bool:
        """Whether it goes on from what a slot holds, even where its beginning was left out."""
        if held is None or held.agent != self.agent or not self.events:
            return False
        return self.events[0] in held.events


class Engine:
    """Weights in memory, with slots for requests that are answered at the same time."""

    def __init__(self, setup: Setup) -> None:
        package = _package()
        params = package.CommonParams()
        params.model.path = str(setup.path)
        threads = setup.threads or max(1, (os.cpu_count() or 2) - 1)
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        params.n_ctx = setup.window * setup.slots
        params.n_parallel = setup.slots
        params.n_batch = _BATCH
        params.cache_ram_mib = _KEPT
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
        """Where it runs: its threads do not come along into a fork."""
        self.busy = 0
        """How many requests are being answered."""
        self._counting = threading.Lock()
        self._slots = Slots(setup.slots)
        self._readings: dict[bytes, tuple[int, ...]] = {}

    @property
    def url(self) -> str:
        """Where the engine listens, for clients that only speak HTTP."""
        return self._server.listening_address

    def answer(
        self,
        body: JsonObject,
        tell: Callable[[JsonObject], bool],
        asked: Conversation | None = None,
    ) -> None:
        """Answer a chat request: `tell` gets each piece, and stops it by saying True.

        Without a conversation, the engine itself looks where it belongs. This blocks until the
        answer is complete, so it belongs in one of the `workers`.
        """
        used: int | None = None

        def told(piece: JsonObject) -> bool:
            nonlocal used
            said = piece.pop("__verbose", None)
            slot = said.get("id_slot") if isinstance(said, dict) else None
            used = slot if isinstance(slot, int) else used
            return tell(piece)

        taken = self._slots.take(asked) if asked is not None else None
        placed: JsonObject = {"verbose": True} if taken is None else {"id_slot": taken}
        with self._counting:
            self.busy += 1
        try:
            self._server.handle_chat_completions({**body, **placed}, told)
        except (ValueError, RuntimeError) as error:
            tell({"error": {"code": 400, "type": "invalid_request_error", "message": str(error)}})
        finally:
            with self._counting:
                self.busy -= 1
            self._slots.leave(taken if taken is not None else used, asked)

    def tokens(self, body: JsonObject) -> tuple[int, ...]:
        """A request as the model reads it: its template filled in, and cut into tokens."""
        spelled: JsonObject = {key: body[key] for key in _SPELLED if key in body}
        key = msgspec.json.encode(spelled)
        held = self._readings.get(key)
        if held is None:
            held = self._cut(self._asked("/apply-template", key)["prompt"], whole=True)
            while len(self._readings) >= _MOST_READINGS:
                self._readings.pop(next(iter(self._readings), b""), None)
            self._readings[key] = held
        return held

    def cut(self, text: str) -> tuple[int, ...]:
        """A stretch of plain text as tokens."""
        return self._cut(text, whole=False)

    def _cut(self, text: Json, *, whole: bool) -> tuple[int, ...]:
        body: JsonObject = {"content": text, "add_special": whole, "parse_special": whole}
        read = self._asked("/tokenize", msgspec.json.encode(body)).get("tokens")
        return msgspec.convert(read, tuple[int, ...])

    def _asked(self, path: str, body: bytes) -> JsonObject:
        """What the engine says to something that takes no slot."""
        at = urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        with closing(http.client.HTTPConnection(at.hostname or "", at.port, _PATIENCE)) as line:
            line.request("POST", path, body, headers)
            answer = line.getresponse()
            told: Json = msgspec.json.decode(answer.read())
        if answer.status != 200 or not isinstance(told, dict):
            held = told if isinstance(told, dict) else None
            raise dialect_named(CHAT).errors.failure(answer.status, held, str(told))
        return told


_engines: dict[Setup, Engine] = {}

_starting = threading.Lock()

_left_behind = False


def _leave_behind() -> None:
    """In a fork, note that the engines' threads did not come along, and that none can start.

    The engines stay where they are: to end one is to wait for its threads.
    """
    global _starting, _left_behind
    _left_behind = _left_behind or bool(_engines)
    _starting = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_behind)


def engine_for(setup: Setup) -> Engine:
    """The engine of this process with that setup; it is started where there is none yet."""
    if _left_behind:
        raise ModelError(
            "this process was forked from one in which local models already ran",
            code="bad_request",
            where="local",
            hint='start it anew: multiprocessing.get_context("spawn"), or fork before the first',
        )
    with _starting:
        held = _engines.get(setup)
        if held is None:
            held = _engines[setup] = Engine(setup)
        return held


def is_installed() -> bool:
    """Whether the package that runs weights is there."""
    return importlib.util.find_spec("xllamacpp") is not None


def _package() -> _Package:
    """The engine's package; its threads must not spin while they wait, or all others starve."""
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
    """The slots by number, the one that was used longest ago first."""

    def __init__(self, count: int) -> None:
        self._held: dict[int, Conversation | None] = dict.fromkeys(reversed(range(count)))
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, asked: Conversation) -> int | None:
        """The slot for a request; None where the engine may choose."""
        with self._lock:
            free = [slot for slot in self._held if slot not in self._taken]
            found = next((slot for slot in free if asked.follows(self._held[slot])), None)
            if found is None and asked.is_new and free:
                found = free[0]
            if found is not None:
                self._taken.add(found)
            return found

    def leave(self, slot: int | None, asked: Conversation | None) -> None:
        """Note what stands in a slot that was used, and that it is free again."""
        if slot is None:
            return
        with self._lock:
            self._taken.discard(slot)
            self._held.pop(slot, None)
            self._held[slot] = asked
