"""Plugins that are ready to use: pass them to a runner, `Runner(agent, plugins=[Logging()])`.

Each is a plain class with the callbacks it needs, and an example of how to write another.
"""

import asyncio
import base64
import binascii
import inspect
import logging
import mimetypes
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, NamedTuple, TextIO, TypeAlias, cast

import msgspec

from weft.content import Content, Part, text_part
from weft.declare import CallbackContext, Tool, ToolContext
from weft.detect import mask_secrets
from weft.errors import DeclarationError, RunError, describe_kind
from weft.ir import ModelResponse, Prompt
from weft.jsonschema import shorten
from weft.runtime.plugins import RunOutcome
from weft.runtime.program import Plugin, callback_name
from weft.session import Event
from weft.values import Json, JsonObject, compact, digest

__all__ = ["GlobalInstruction", "Guardrail", "Logging", "ReflectAndRetry", "SaveMedia"]


class GlobalInstruction(Plugin):
    """A text before the instruction of every agent of the run, with `{variables}` of the state."""

    name = "global_instruction"

    def __init__(self, text: str) -> None:
        if not isinstance(cast("object", text), str) or not text.strip():
            raise DeclarationError(
                f"{text!r} is not a text",
                where="GlobalInstruction",
                hint='write GlobalInstruction("Answer in {language}.")',
            )
        self.global_instruction = text


Check: TypeAlias = Callable[[str], "str | Awaitable[str | None] | None"]
"""A function that reads a text and says what is wrong with it, or None."""


class _Objection(NamedTuple):
    """What a check found wrong."""

    check: str
    reason: str

    def __str__(self) -> str:
        return f"the guardrail `{self.check}` objects: {self.reason}"


class Guardrail(Plugin):
    """Checks what a user says and what agents answer; where a check objects, the run ends.

    A check takes a text and returns None, or what is wrong with it; it may be async, and may ask a
    model. Checks of `input` begin with the run and work while the model does: its answer is not
    stored, and no tool runs, before they are done. With `wait=True` the model is not asked before.
    Checks of `output` read each answer without calls before it is stored. If one objects, the
    run ends with an error event `guardrail`, or, where there is a `reply`, with those words. A
    check that raises ends the run too.
    """

    name = "guardrail"

    def __init__(
        self,
        *,
        input: Check | tuple[Check, ...] = (),
        output: Check | tuple[Check, ...] = (),
        reply: str = "",
        wait: bool = False,
    ) -> None:
        self._input = _read_checks("input", input)
        self._output = _read_checks("output", output)
        if not self._input and not self._output:
            raise DeclarationError(
                "there is nothing to check",
                where="Guardrail",
                hint="pass a function: Guardrail(input=is_about_orders)",
            )
        if not isinstance(cast("object", reply), str):
            raise DeclarationError(f"reply={reply!r}", where="Guardrail", hint="pass a text")
        if not isinstance(cast("object", wait), bool):
            raise DeclarationError(f"wait={wait!r}", where="Guardrail", hint="pass True or False")
        self._reply = reply
        self._wait = wait
        self._running: dict[str, asyncio.Task[_Objection | None]] = {}

    async def before_run(self, ctx: CallbackContext) -> Content | None:
        """Begin to check what the user said; the answer, where a reply takes the run's place."""
        message = ctx.user_content
        if not self._input or message is None or not message.text:
            return None
        task = asyncio.create_task(_find_objection(self._input, message.text))
        if self._reply:
            return _spell_reply(self._reply) if await task is not None else None
        self._running[ctx.invocation_id] = task
        return None

    async def before_model(self, ctx: CallbackContext, prompt: Prompt) -> ModelResponse | None:
        """The refusal, where the model is not to be asked before the checks are done."""
        task = self._running.get(ctx.invocation_id)
        objection = await task if task is not None and (self._wait or task.done()) else None
        return None if objection is None else _refuse(objection)

    async def after_model(
        self, ctx: CallbackContext, response: ModelResponse
    ) -> ModelResponse | None:
        """The refusal in place of an answer, or its reply."""
        task = self._running.get(ctx.invocation_id)
        objection = await task if task is not None else None
        parts = (response.content.parts or ()) if response.content is not None else ()
        answers = not any(part.function_call is not None for part in parts)
        if objection is None and self._output and answers and response.text:
            objection = await _find_objection(self._output, response.text)
        if objection is None:
            return None
        if self._reply:
            return msgspec.structs.replace(response, content=_spell_reply(self._reply))
        return msgspec.structs.replace(_refuse(objection), usage=response.usage)

    async def after_run(self, ctx: CallbackContext, outcome: RunOutcome) -> None:
        """The end of a run that asked no model: what a check objects to is raised."""
        task = self._running.pop(ctx.invocation_id, None)
        if task is None:
            return
        if outcome.status != "done":
            task.cancel()
        elif (objection := await task) is not None:
            raise RunError(str(objection), where="Guardrail", hint="change what is asked")


def _read_checks(where: str, checks: object) -> tuple[Check, ...]:
    several = cast("tuple[object, ...]", checks) if isinstance(checks, (tuple, list)) else (checks,)
    for check in several:
        if not callable(check):
            raise DeclarationError(
                f"{describe_kind(check)} is not a check",
                where=f"Guardrail.{where}",
                hint="pass a function that takes a text and returns what is wrong with it, or None",
            )
    return cast("tuple[Check, ...]", tuple(several))


async def _find_objection(checks: tuple[Check, ...], text: str) -> _Objection | None:
    """What the first check that objects says; all work at the same time."""
    for check, reason in zip(
        checks, await asyncio.gather(*(_ask_check(check, text) for check in checks)), strict=True
    ):
        if reason:
            return _Objection(callback_name(check), reason)
    return None


async def _ask_check(check: Check, text: str) -> str | None:
    reason: object = check(text)
    if inspect.isawaitable(reason):
        reason = await cast("Awaitable[object]", reason)
    if reason is None or isinstance(reason, str):
        return reason
    raise RunError(
        f"`{callback_name(check)}` returned {describe_kind(reason)}",
        where="Guardrail",
        hint="return what is wrong with the text, or None",
    )


def _spell_reply(words: str) -> Content:
    return Content(parts=(text_part(words),), role="model")


def _refuse(objection: _Objection) -> ModelResponse:
    return ModelResponse(error_code="guardrail", error_message=str(objection))


class Logging(Plugin):
    """Writes a line for each run, model call, tool call and error, with tokens and seconds.

    `to` is a logger, its name, or a stream such as `sys.stdout`. Texts are cut after `texts`
    letters, and left out with 0. Keys and passwords that have a known form are never written.
    """

    name = "logging"

    def __init__(
        self,
        to: str | logging.Logger | TextIO = "weft.run",
        *,
        texts: int = 80,
        level: int = logging.INFO,
    ) -> None:
        if not isinstance(cast("object", texts), int) or texts < 0:
            raise DeclarationError(
                f"texts={texts!r}", where="Logging", hint="pass how many letters, or 0"
            )
        logger = logging.getLogger(to) if isinstance(to, str) else to
        if not isinstance(logger, logging.Logger) and not callable(getattr(logger, "write", None)):
            raise DeclarationError(
                f"nothing can be written to {describe_kind(to)}",
                where="Logging",
                hint='pass a logger, the name of one, or a stream: Logging("weft"), '
                "Logging(sys.stdout)",
            )
        self._to: logging.Logger | TextIO = logger
        self._texts = texts
        self._level = level
        self._begun: dict[tuple[str, ...], float] = {}

    def before_run(self, ctx: CallbackContext) -> None:
        """A line for the run and what was said to it."""
        self._begin(ctx, "run")
        message = ctx.user_content
        words = self._quote_text(message.text) if message is not None else ""
        self._write(f"run {_short(ctx.invocation_id)} of {ctx.session_id} begins{words}")

    def after_run(self, ctx: CallbackContext, outcome: RunOutcome) -> None:
        """A line for how the run ended, and what it took."""
        total = sum(
            event.usage.total_token_count or 0
            for event in ctx.session.events
            if event.invocation_id == ctx.invocation_id and event.usage is not None
        )
        took = self._end(ctx, "run")
        self._write(f"run {_short(ctx.invocation_id)} {outcome.status}, {total} tokens{took}")
        error = outcome.error or (outcome.event.error_message if outcome.event else None)
        if error is not None and outcome.status == "error":
            kind = f"{type(error).__name__}: " if isinstance(error, BaseException) else ""
            self._write(f"  error {kind}{error}", level=logging.ERROR)
        self._begun = {k: at for k, at in self._begun.items() if k[0] != ctx.invocation_id}

    def before_model(self, ctx: CallbackContext, prompt: Prompt) -> None:
        """A line for a request."""
        self._begin(ctx, "model")
        self._write(
            f"  {ctx.agent_name} asks {prompt.model}: {len(prompt.items)} items,"
            f" {len(prompt.tools)} tools"
        )

    def after_model(self, ctx: CallbackContext, response: ModelResponse) -> None:
        """A line for an answer: what it says or calls, and its tokens."""
        if response.error_code is not None:
            return  # `on_model_error` had a line for it
        parts = (response.content.parts or ()) if response.content is not None else ()
        calls = [part.function_call.name or "?" for part in parts if part.function_call is not None]
        what = f" calls {', '.join(calls)}" if calls else f" says{self._quote_text(response.text)}"
        usage = response.usage
        tokens = ""
        if usage is not None:
            cached = usage.cached_content_token_count
            tokens = f", {usage.prompt_token_count or 0} tokens in"
            tokens += f" ({cached} cached)" if cached else ""
            tokens += f", {usage.candidates_token_count or 0} out"
        self._write(f"  {ctx.agent_name}{what}{tokens}{self._end(ctx, 'model')}")

    def on_model_error(self, ctx: CallbackContext, prompt: Prompt, error: Exception) -> None:
        """A line for a model that gave no answer."""
        words = f"  {ctx.agent_name} got no answer from {prompt.model}: {type(error).__name__}"
        self._write(f"{words}: {error}{self._end(ctx, 'model')}", level=logging.ERROR)

    def before_tool(self, ctx: ToolContext, tool: Tool, args: Mapping[str, Json]) -> None:
        """A line for a call."""
        self._begin(ctx, "tool", ctx.call_id)
        words = f"({shorten(compact(dict(args)), self._texts)})" if self._texts else ""
        self._write(f"    {tool.name}{words} is called")

    def after_tool(
        self, ctx: ToolContext, tool: Tool, args: Mapping[str, Json], result: JsonObject
    ) -> None:
        """A line for a result."""
        words = f": {shorten(compact(result), self._texts)}" if self._texts else ""
        level = logging.WARNING if "error" in result else self._level
        took = self._end(ctx, "tool", ctx.call_id)
        self._write(f"    {tool.name} returned{took}{words}", level=level)

    def on_tool_error(
        self, ctx: ToolContext, tool: Tool, args: Mapping[str, Json], error: Exception
    ) -> None:
        """A line for a tool that failed."""
        words = f"    {tool.name} failed: {type(error).__name__}: {error}"
        self._write(f"{words}{self._end(ctx, 'tool', ctx.call_id)}", level=logging.ERROR)

    def _begin(self, ctx: CallbackContext, *key: str) -> None:
        self._begun[(ctx.invocation_id, ctx.agent_name, ctx.branch, *key)] = time.monotonic()

    def _end(self, ctx: CallbackContext, *key: str) -> str:
        begun = self._begun.pop((ctx.invocation_id, ctx.agent_name, ctx.branch, *key), None)
        return f", {time.monotonic() - begun:.1f} s" if begun is not None else ""

    def _quote_text(self, text: str) -> str:
        return f': "{shorten(" ".join(text.split()), self._texts)}"' if self._texts else ""

    def _write(self, line: str, *, level: int | None = None) -> None:
        line = mask_secrets(line)
        if isinstance(self._to, logging.Logger):
            self._to.log(self._level if level is None else level, "%s", line)
        else:
            self._to.write(line + "\n")


def _short(name: str) -> str:
    return name[:8]


class SaveMedia(Plugin):
    """Keeps the files that a user uploads as artifacts; the log and the model get a reference.

    Only media above `larger_than` bytes are taken out, 0 for all. The model reads a name and a
    type; a tool gets the file with `ctx.load_artifact(name)`.
    """

    name = "save_media"

    def __init__(self, *, larger_than: int = 0) -> None:
        if not isinstance(cast("object", larger_than), int) or larger_than < 0:
            raise DeclarationError(
                f"larger_than={larger_than!r}", where="SaveMedia", hint="pass bytes, 0 or more"
            )
        self._larger_than = larger_than

    async def on_event(self, ctx: CallbackContext, event: Event) -> Event | None:
        """The user's event with a reference for each file in it."""
        content = event.content
        if event.author != "user" or content is None:
            return None
        parts: list[Part] = []
        versions: dict[str, int] = {}
        for part in content.parts or ():
            data = _bytes(part)
            if data is None or len(data) <= self._larger_than:
                parts.append(part)
                continue
            name, kind = _file_name(part, data), part.inline_data.mime_type  # type: ignore[union-attr]
            versions[name] = await ctx.save_artifact(name, part)
            text = f"[uploaded file: artifact `{name}`, {kind}, {len(data)} bytes]"
            parts.append(Part(text=text))
        if not versions:
            return None
        delta = {**event.actions.artifact_delta, **versions}
        return msgspec.structs.replace(
            event,
            content=Content(parts=tuple(parts), role=content.role),
            actions=msgspec.structs.replace(event.actions, artifact_delta=delta),
        )


def _bytes(part: Part) -> bytes | None:
    """The file in a part, None where it has none."""
    blob = part.inline_data
    if blob is None or not blob.data:
        return None
    try:
        return base64.b64decode(blob.data.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return None


def _file_name(part: Part, data: bytes) -> str:
    """The name that the user gave the file, or one that is the same for the same file."""
    blob = part.inline_data
    assert blob is not None
    own_name = (blob.display_name or "").replace("\\", "/").rpartition("/")[2].strip()
    if own_name and own_name.isprintable() and not own_name.startswith("."):
        return own_name
    ending = mimetypes.guess_extension(blob.mime_type or "") or ".bin"
    return f"upload_{digest(data)[:12]}{ending}"


_GUIDANCE = (
    "The call failed. Read the error, say to yourself what was wrong with the call, and call the"
    " tool again with other arguments; or use another way. Do not repeat the same call."
)


class ReflectAndRetry(Plugin):
    """Lets a model think about a tool's error and try again, a number of times; then the run stops.

    The model gets the error with guidance as the result of its call. How often a tool failed in
    this invocation, since it last worked, is read from the log: a run that is resumed goes on
    counting. `when` says which errors are worth another try. After `retries` of them the run ends
    with an error event, or with `then="tell"` the model is told to stop calling the tool.
    """

    name = "reflect_and_retry"

    def __init__(
        self,
        retries: int = 3,
        *,
        guidance: str = _GUIDANCE,
        when: Callable[[Exception], bool] | None = None,
        then: Literal["stop", "tell"] = "stop",
    ) -> None:
        if not isinstance(cast("object", retries), int) or isinstance(retries, bool) or retries < 0:
            raise DeclarationError(
                f"retries={retries!r}", where="ReflectAndRetry", hint="pass 0 or more"
            )
        if then not in ("stop", "tell"):
            raise DeclarationError(
                f"then={then!r}", where="ReflectAndRetry", hint='pass "stop" or "tell"'
            )
        self._retries = retries
        self._guidance = guidance
        self._when = when
        self._then = then

    def on_tool_error(
        self, ctx: ToolContext, tool: Tool, args: Mapping[str, Json], error: Exception
    ) -> JsonObject | None:
        """What the model is told of the error, or the end of the run."""
        if self._when is not None and not self._when(error):
            return None
        attempt = _failures(ctx, tool.name) + 1
        words = f"{type(error).__name__}: {error}"
        if attempt <= self._retries:
            return {
                "error": words,
                "reflection": self._guidance,
                "attempt": attempt,
                "attempts_left": self._retries - attempt + 1,
            }
        if self._then == "tell":
            stop = f"`{tool.name}` failed {attempt} times. Do not call it again: go on without it."
            return {"error": words, "reflection": stop, "attempt": attempt, "attempts_left": 0}
        raise RunError(
            f"`{tool.name}` failed {attempt} times, the last time with {words}",
            where=f"tool {tool.name}",
            hint=f"mend the tool, or allow more: ReflectAndRetry({self._retries + 2})",
        ) from error


def _failures(ctx: ToolContext, tool: str) -> int:
    """How often the tool failed in this invocation since it last worked, as the log has it."""
    count = 0
    for event in ctx.session.events:
        if event.invocation_id != ctx.invocation_id or (event.branch or "") != ctx.branch:
            continue
        for result in event.results:
            if result.name == tool:
                count = count + 1 if "reflection" in (result.response or {}) else 0
    return count
