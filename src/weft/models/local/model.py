"""The local model: it asks the engine in this process, and needs no key."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from weft.dialects import lift, stream_of
from weft.errors import DeclarationError, ModelError, UsageError
from weft.ir import ModelResponse, Prompt
from weft.models.local.chat import objects, request_for
from weft.models.local.engine import (
    SLOTS,
    WINDOW,
    Conversation,
    Engine,
    Setup,
    TokenTrace,
    conversation_of,
    engine_for,
)
from weft.models.local.weights import (
    DEFAULT,
    KNOWN,
    WeightsFile,
    find,
    get,
    known,
    progress_bar,
    read_file,
)
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject

_DIALECT = "openai-chat"
_LIMIT = 256
"""How many tokens an answer may have: a small model that has lost its way finds no end."""
_DISCLAIMER = (
    "answers come from %s, a very small model for trying the plumbing: expect no sense from it"
    " (for real answers, set model= or WEFT_MODEL)"
)
_NEXT: JsonObject = {"role": "user", "content": "?"}
"""Some next message: how much of the history the engine knows again does not depend on it."""

_log = logging.getLogger("weft.models.local")
_disclaimed: set[str] = set()
"""The weights whose disclaimer was logged in this process."""


class LocalModel:
    """A model of weights on this machine: `local`, `local:qwen-1.5b` or `local:PATH.gguf`.

    The engine starts with the first request, once for each file in a process. `window` is how
    many tokens a request with its answer may have. `max_output_tokens` is how long an answer may
    be where the request does not say. `fetch` says whether missing weights are fetched: None
    means only at a terminal, so that no program downloads by surprise.
    """

    dialect = _DIALECT

    def __init__(
        self,
        name: str = "local",
        *,
        window: int | None = None,
        max_output_tokens: int = _LIMIT,
        slots: int = SLOTS,
        threads: int = 0,
        fetch: bool | None = None,
    ) -> None:
        for field, value, least in (
            ("window", window, 1),
            ("max_output_tokens", max_output_tokens, 1),
            ("slots", slots, 1),
            ("threads", threads, 0),
        ):
            if value is not None and (type(value) is not int or value < least):
                raise DeclarationError(
                    f"{value!r} is no number of {field}",
                    where=f"LocalModel.{field}",
                    hint=f"write a whole number from {least} on",
                )
        self.name = name
        self._weights, self._path = _weights_or_path(name)
        self._window = window
        self._limit = max_output_tokens
        self._slots = slots
        self._threads = threads
        self._fetch = fetch
        self._ready: tuple[WeightsFile, Engine] | None = None

    def __repr__(self) -> str:
        return f"LocalModel({self.name!r})"

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Answer the request. Closing the generator stops the engine."""
        running = self._running()
        file, engine = running if running is not None else await asyncio.to_thread(self.start)
        request = request_for(wire, takes_tools=file.takes_tools, limit=self._limit)
        trace = TokenTrace(engine, request.body)
        answer = stream_of(_DIALECT)
        begun = ""
        pieces = _pieces(engine, trace, conversation_of(prompt))
        try:
            async for piece in pieces:
                delta = answer.feed("", piece)
                if stream and delta is not None:
                    begun = begun or delta.text
                    # what may be a call is held back until it is complete
                    if request.shows(begun):
                        yield delta
            body = request.read(answer.body())
            known = await asyncio.to_thread(self._known, wire, body, trace)
            yield _noted(lift(_DIALECT, body), known)
        except ModelError as error:
            raise self._under_own_name(error, engine) from error
        finally:
            # the engine stops with its next piece
            await pieces.aclose()

    def tokens(self, wire: JsonObject) -> tuple[int, ...] | None:
        """The tokens of a request as the model reads it; None while the engine does not run."""
        running = self._running()
        if running is None:
            return None
        file, engine = running
        return engine.tokens(request_for(wire, takes_tools=file.takes_tools, limit=1).body)

    def _known(self, wire: JsonObject, body: JsonObject, trace: TokenTrace) -> int | None:
        """How many tokens of the request and its answer the next request will not read again."""
        answers = [choice.get("message") for choice in objects(body.get("choices"))]
        turns: list[Json] = [*objects(wire.get("messages")), *answers, _NEXT]
        file, _ = self.start()
        repeated = request_for({**wire, "messages": turns}, takes_tools=file.takes_tools, limit=1)
        try:
            return trace.known(repeated.body)
        except ModelError:
            return None  # the template rejects such turns, so no request can have them

    def _running(self) -> tuple[WeightsFile, Engine] | None:
        """The weights and their engine, if it runs in this process. A fork has none."""
        ready = self._ready
        return ready if ready is not None and ready[1].process == os.getpid() else None

    def start(self) -> tuple[WeightsFile, Engine]:
        """Find the weights and start the engine. It blocks; a second call does nothing."""
        running = self._running()
        if running is None:
            file = read_file(self._path if self._path is not None else self._fetched())
            window = self._window or min(WINDOW, file.window or WINDOW)
            if file.window and window > file.window:
                raise DeclarationError(
                    f"{window} tokens are more than the {file.window} these weights can look at",
                    where="LocalModel.window",
                    hint=f"write window={file.window} or less",
                )
            setup = Setup(file.path.resolve(), window, self._slots, self._threads)
            running = self._ready = file, engine_for(setup)
            self._log_disclaimer()
        return running

    def _log_disclaimer(self) -> None:
        """Log what the default weights are good for, once in a process; commands print it."""
        if self._weights == DEFAULT and self._weights not in _disclaimed:
            _disclaimed.add(self._weights)
            _log.info(_DISCLAIMER, self._weights)

    def _fetched(self) -> Path:
        """The path of the named weights; fetches them if that is wanted."""
        path = find(self._weights)
        if path is not None:
            return path
        watched = sys.stderr is not None and sys.stderr.isatty()
        if not (watched if self._fetch is None else self._fetch):
            raise ModelError(
                f"the weights {self._weights} are not on this machine",
                code="not_found",
                where=self.name,
                hint=f"weft model get {self._weights}",
            )
        with progress_bar() as progress:
            return get(self._weights, progress)

    def _under_own_name(self, error: ModelError, engine: Engine) -> ModelError:
        """The error under this model's name, with a fix that fits it."""
        hint = error.hint
        if error.code == "context_overflow":
            hint = (
                f"give it a larger window than {engine.setup.window}: LocalModel(window=...),"
                " or set context_compressor=TokenBudget(...) to less"
            )
        return ModelError(
            error.message, code=error.code, provider="local", model=self.name,
            status=error.status, hint=hint,
        )  # fmt: skip


def _noted(response: ModelResponse, known: int | None) -> ModelResponse:
    """The answer with the number of tokens that the engine will know again, if there is one."""
    if known is None:
        return response
    metadata = Provenance(known=known).onto(response.custom_metadata)
    return msgspec.structs.replace(response, custom_metadata=metadata)


async def _pieces(
    engine: Engine, trace: TokenTrace, conversation: Conversation
) -> AsyncGenerator[JsonObject]:
    """The pieces of an answer, as the engine writes them in another thread."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[JsonObject | None] = asyncio.Queue()
    gone = False

    def tell(piece: JsonObject) -> bool:
        # the reports of progress only serve to stop an answer that nobody waits for
        if not gone and "prompt_progress" not in piece:
            loop.call_soon_threadsafe(queue.put_nowait, trace.note(piece))
        return gone

    def work() -> None:
        # it waited for a free worker, and its reader has left
        if gone:
            return
        try:
            engine.answer(trace.body, tell, conversation)
        finally:
            if not gone:
                loop.call_soon_threadsafe(queue.put_nowait, None)

    working = loop.run_in_executor(engine.workers, work)
    try:
        while (piece := await queue.get()) is not None:
            yield piece
        await working
    finally:
        gone = True


def _weights_or_path(name: str) -> tuple[str, Path | None]:
    """The name of known weights, or the path of a file. The other one is empty."""
    kind, colon, which = name.partition(":")
    if kind != "local" or (colon and not which):
        raise UsageError(
            f"`{name}` is no local model",
            where="LocalModel",
            hint=f"write local, local:PATH.gguf, or local:NAME with {', '.join(KNOWN)}",
        )
    if not which or which in KNOWN:
        return which or DEFAULT, None
    path = Path(which).expanduser()
    if path.suffix != ".gguf" and not path.exists():
        known(which)  # neither a file nor a name: this raises the error that lists the names
    return "", path


class LocalServer(NamedTuple):
    """The engine's address for HTTP clients, and the key it expects."""

    url: str
    api_key: str
    model: str

    @property
    def base_url(self) -> str:
        """The address for clients that add `/chat/completions` or `/responses` to it."""
        return f"{self.url}/v1"


@contextmanager
def serve(model: LocalModel | str = "local") -> Generator[LocalServer]:
    """Serve the engine of a local model on a loopback port, for the rest of the process.

    Clients talk to the engine itself: no tool is chosen for the model, and no text is bounded.
    """
    served = model if isinstance(model, LocalModel) else LocalModel(model)
    _, engine = served.start()
    yield LocalServer(engine.url, engine.key, served.name)
