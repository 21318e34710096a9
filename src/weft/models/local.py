"""The model in the box: weights on this machine, run in this process, without a key."""

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
from weft.models.local_chat import objects, request_for
from weft.models.local_engine import (
    SLOTS,
    WINDOW,
    Conversation,
    Engine,
    Setup,
    conversation_of,
    engine_for,
)
from weft.models.local_file import WeightsFile, read_file
from weft.models.local_reading import Reading
from weft.models.weights import DEFAULT, KNOWN, find, get, known
from weft.values import Json, JsonObject

_DIALECT = "openai-chat"
_LIMIT = 256
"""How long an answer may be: a small model that has lost its way does not find an end."""
_HONEST = (
    "answers come from %s, a very small model for trying the plumbing: expect no sense from it"
    " (for real answers, set model= or WEFT_MODEL)"
)
_NEXT: JsonObject = {"role": "user", "content": "?"}


_log = logging.getLogger("weft.models.local")
_spoken: set[str] = set()
"""The weights of which it was said in this process what they are good for."""


class LocalModel:
    """A model of weights on this machine: `local`, `local:qwen-1.5b` or `local:PATH.gguf`.

    The engine is started when it is first asked, once for each file in a process. `window` is
    how many tokens a request with its answer may have, `max_output_tokens` how long an answer
    may be where the request does not say, `fetch` whether missing weights are fetched: None
    means only where a person watches, so that no program downloads by surprise.
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
        self._weights, self._path = _place(name)
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
        """Answer the request; whoever stops listening stops the engine."""
        held = self._running()
        file, engine = held if held is not None else await asyncio.to_thread(self.start)
        request = request_for(wire, takes_tools=file.takes_tools, limit=self._limit)
        reading = Reading(engine, request.body)
        answer = stream_of(_DIALECT)
        begun = ""
        pieces = _pieces(engine, reading, conversation_of(prompt))
        try:
            async for piece in pieces:
                shown = answer.feed("", piece)
                if stream and shown is not None:
                    begun = begun or shown.text
                    if request.shows(begun):
                        yield shown
            body = request.read(answer.body())
            known = await asyncio.to_thread(self._known, wire, body, reading)
            yield _noted(lift(_DIALECT, body), known)
        except ModelError as error:
            raise self._told(error, engine) from error
        finally:
            await pieces.aclose()

    def tokens(self, wire: JsonObject) -> tuple[int, ...] | None:
        """A request as the model reads it, in tokens; None while the engine does not run."""
        held = self._running()
        if held is None:
            return None
        file, engine = held
        return engine.tokens(request_for(wire, takes_tools=file.takes_tools, limit=1).body)

    def _known(self, wire: JsonObject, body: JsonObject, reading: Reading) -> int | None:
        """How much of the request and its answer the engine knows again in the next request."""
        said = [choice.get("message") for choice in objects(body.get("choices"))]
        turns: list[Json] = [*objects(wire.get("messages")), *said, _NEXT]
        file, _ = self.start()
        repeated = request_for({**wire, "messages": turns}, takes_tools=file.takes_tools, limit=1)
        try:
            return reading.known(repeated.body)
        except ModelError:
            return None  # its template refuses such turns, so no request can have them

    def _running(self) -> tuple[WeightsFile, Engine] | None:
        """The weights and their engine, if it was started, and in this process."""
        held = self._ready
        return held if held is not None and held[1].process == os.getpid() else None

    def start(self) -> tuple[WeightsFile, Engine]:
        """Find the weights and start the engine; it blocks, and does nothing the second time."""
        held = self._running()
        if held is None:
            file = read_file(self._path if self._path is not None else self._fetched())
            window = self._window or min(WINDOW, file.window or WINDOW)
            if file.window and window > file.window:
                raise DeclarationError(
                    f"{window} tokens are more than the {file.window} these weights can look at",
                    where="LocalModel.window",
                    hint=f"write window={file.window} or less",
                )
            setup = Setup(file.path.resolve(), window, self._slots, self._threads)
            held = self._ready = file, engine_for(setup)
            self._say_honestly()
        return held

    def _say_honestly(self) -> None:
        """Log once in a process what the default weights are good for; commands print it."""
        if self._weights == DEFAULT and self._weights not in _spoken:
            _spoken.add(self._weights)
            _log.info(_HONEST, self._weights)

    def _fetched(self) -> Path:
        """Where the named weights lie, fetched now if that is wanted."""
        found = find(self._weights)
        if found is not None:
            return found
        watched = sys.stderr is not None and sys.stderr.isatty()
        if not (watched if self._fetch is None else self._fetch):
            raise ModelError(
                f"the weights {self._weights} are not on this machine",
                code="not_found",
                where=self.name,
                hint=f"weft model get {self._weights}",
            )
        from weft.models.weights import progress_bar

        with progress_bar() as progress:
            return get(self._weights, progress)

    def _told(self, error: ModelError, engine: Engine) -> ModelError:
        """The error under this model's own name, with a fix that fits it."""
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
    """The answer with how much of it will be known again, where that can be told."""
    if known is None:
        return response
    metadata = dict(response.custom_metadata or {})
    held = metadata.get("weft")
    metadata["weft"] = {**(held if isinstance(held, dict) else {}), "known": known}
    return msgspec.structs.replace(response, custom_metadata=metadata)


async def _pieces(
    engine: Engine, reading: Reading, asked: Conversation
) -> AsyncGenerator[JsonObject]:
    """The pieces of an answer as the engine makes them, in another thread."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[JsonObject | None] = asyncio.Queue()
    gone = False

    def tell(piece: JsonObject) -> bool:
        if not gone and "prompt_progress" not in piece:
            loop.call_soon_threadsafe(queue.put_nowait, reading.note(piece))
        return gone

    def work() -> None:
        if gone:
            return
        try:
            engine.answer(reading.body, tell, asked)
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


def _place(name: str) -> tuple[str, Path | None]:
    """The name of known weights, or the path of a file."""
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
        known(which)
    return "", path


class LocalServer(NamedTuple):
    """Where the engine listens for clients that speak HTTP, and the key it wants."""

    url: str
    api_key: str
    model: str

    @property
    def base_url(self) -> str:
        """The address for clients that add `/chat/completions` or `/responses` to it."""
        return f"{self.url}/v1"


@contextmanager
def serve(model: LocalModel | str = "local") -> Generator[LocalServer]:
    """The engine of a local model as a server on a loopback port, for the rest of the process.

    It is the engine itself: no tools are narrowed, and no text is bounded.
    """
    held = model if isinstance(model, LocalModel) else LocalModel(model)
    _, engine = held.start()
    yield LocalServer(engine.url, engine.key, held.name)
