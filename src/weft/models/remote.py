"""A model that is reached over HTTP: what all providers have in common.

Each provider's class says where a request goes and who asks; sending, reading, asking again and
giving up are the same for all.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import ClassVar, NamedTuple, cast

import msgspec

from weft.dialects import wire_name
from weft.dialects.facts import near_names
from weft.errors import DeclarationError, ModelError, UsageError
from weft.ir import ModelResponse, Prompt
from weft.misuse import explain_calls
from weft.models import Model
from weft.models.clients import carrier_for, client_keys
from weft.models.http import Carrier, Reading, Sending, Timeouts, require_answer, timeouts_of
from weft.models.retry import Breaker, Circuit, Retry, Trail, breaker_of, circuit_of, retry_of
from weft.models.services import (
    Address,
    Service,
    address_of,
    is_secret_name,
    spellings,
    without_keys,
)
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject, encode

_log = logging.getLogger("weft")

_AGENT = "weft/0.1"

_LONG = 8
"""How long a key is that is looked for in answers too; a shorter one is there by chance."""


class Remote:
    """A model that answers over HTTP; the base of the provider classes."""

    vendor: ClassVar[str]
    """The package whose clients can carry its requests."""
    service: Service
    """Who is asked."""
    dialect: str

    def __init_subclass__(cls) -> None:
        # a wrong option is explained by those that there are: each class lists them by name
        right = explain_calls(f'{cls.__name__}("NAME")')
        type.__setattr__(cls, "__init__", right(cast("Callable[..., None]", cls.__init__)))

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | Timeouts | None = None,
        retries: int | Retry | None = None,
        breaker: Breaker | None = None,
        client: object = None,
    ) -> None:
        where = type(self).__name__
        self._base_url = _require_url(base_url, f"{where}.base_url")
        self.name = _require_name(name, self._base_url, where)
        self._given_key = _require_text(api_key, f"{where}.api_key")
        self._headers = _require_headers(headers, f"{where}.headers")
        self._timeouts = timeouts_of(timeout, f"{where}.timeout")
        self._retry = retry_of(retries, f"{where}.retries")
        self._breaker = breaker_of(breaker, f"{where}.breaker")
        self._carrier: Carrier = carrier_for(
            client, self.vendor, self._headers, where=f"{where}.client"
        )
        self._client = client
        self._lent: dict[str, str] = {}

    @property
    def address(self) -> str:
        """The server's address without the path; "" if none is set."""
        return self._locate().base

    def _locate(self) -> Address:
        return self._base_url if self._base_url is not None else self.service.locate()

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Send the request, again where that may help, and give what comes back."""
        model = wire_name(prompt.model)
        trail = Trail(self._retry)
        try:
            sending = await self._sending(wire, model, stream=stream)
        except ModelError as error:
            raise self._with_provider(error, model) from None
        # a client has an address of its own, which we do not know
        place = self.address if self._client is None else f"client {id(self._client)}"
        circuit = circuit_of(place, model, self._breaker)
        trial = self._enter(circuit, model)
        outcome = ""
        try:
            has_streamed = False
            while True:
                trail.begin()
                reading: Reading | None = None
                failed: ModelError | None = None
                try:
                    reading = await self._ask(sending, trail, stream=stream)
                    while (pieces := await reading.more()) is not None:
                        if stream:
                            for partial in pieces:
                                has_streamed = True
                                yield self._discreet(partial)
                        self._require_time(trail)
                    response = reading.response()
                except ModelError as error:
                    failed = error
                else:
                    outcome = "ok"
                    yield _with_attempts(self._discreet(response), trail)
                    return
                finally:
                    if reading is not None:
                        await reading.close()
                failed = await self._with_advice(failed, model)
                pause = trail.note_failure(failed, has_streamed=has_streamed)
                # a trial is one attempt: the circuit decides whether there is another
                if pause is None or trial:
                    outcome = failed.code
                    raise self._end_attempts(failed, trail)
                place, words = failed.where, failed.message
                _log.warning(
                    "%s: %s [%s], trying again in %.1f s", place, words, failed.code, pause
                )
                if has_streamed:  # the next attempt says everything again
                    yield ModelResponse(partial=True, error_code=failed.code)
                    has_streamed = False
                await self._retry.sleep(pause)
        finally:
            # also when the reader left: else the circuit would wait for its trial for ever
            circuit.leave(outcome, trial=trial)

    async def ask_beside(
        self, model: str, body: JsonObject, *, path: tuple[str, str]
    ) -> JsonObject:
        """Ask something about a request, once: `path` is how its path ends, and how this one."""
        own, other = path

        def change_address(sending: Sending) -> Sending:
            return sending._replace(
                url=sending.url.removesuffix(own) + other,
                path=sending.path.removesuffix(own) + other,
            )

        return await self._ask_once(model, body, change_address)

    async def _ask_once(
        self, model: str, body: JsonObject, change_address: Callable[[Sending], Sending]
    ) -> JsonObject:
        """Ask for something other than an answer, once, at another address."""
        try:
            sending = change_address(await self._sending(body, model, stream=False))
            reading = await self._ask(sending, Trail(self._retry), stream=False)
            try:
                await reading.more()
                return reading.body
            finally:
                await reading.close()
        except ModelError as error:
            raise await self._with_advice(error, model) from None

    def _require_time(self, trail: Trail) -> None:
        if trail.remaining <= 0:
            words = f"the answer is not complete after {self._retry.within:g} s"
            raise ModelError(words, code="timeout", hint="allow more: Retry(within=7200)")

    def _end_attempts(self, error: ModelError, trail: Trail) -> ModelError:
        asked = error.retry_after
        if asked is not None and asked > self._retry.longest:
            error.hint = f"wait {asked:.0f} s, or give a fallback model"
        error.message += trail.words()
        error.args = (error.message, error.where, error.hint)
        return error

    async def _sending(self, wire: JsonObject, model: str, *, stream: bool) -> Sending:
        """The request as it goes over the line."""
        located = self._locate()
        if not located.base and self._client is None:
            variable = self.service.url_variables[0]
            raise ModelError(
                f"there is no address for {self.service.name}",
                code="bad_request",
                hint=f"export {variable}=https://..., or pass base_url=",
            )
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            # a packed stream arrives in large pieces
            "accept-encoding": "identity" if stream else "gzip, deflate",
            "user-agent": _AGENT,
        }
        if self._client is None:
            self._lent = await self._credentials() | located.credentials()
            headers |= self._lent
        body = encode(self._body(wire, stream=stream), where=self.name)
        headers |= self._headers
        # last: it merges the caller's headers with what this request needs
        headers |= self._own_headers(wire, body)
        _require_plain(headers)
        path = self._path(model, stream=stream)
        query = located.query
        return Sending(f"{located.base}{path}", path, headers, body, self._timeouts, query)

    async def _credentials(self) -> dict[str, str]:
        """The headers that identify the caller."""
        headers = self.service.credentials(self._given_key)
        if headers is None:
            if self._asks_without_key():
                return {}
            raise ModelError(
                f"there is no key for {self.service.name}", code="auth", hint=self.service.hint
            )
        return headers

    def _asks_without_key(self) -> bool:
        """Whether a server may be asked without a key: one at an address of its own may."""
        return self._base_url is not None or not _CREDENTIALS.isdisjoint(self._headers)

    def _path(self, model: str, *, stream: bool) -> str:
        """The path of a request, after the address."""
        raise NotImplementedError

    def _body(self, wire: JsonObject, *, stream: bool) -> JsonObject:
        """The wire, with what only streaming needs."""
        return {**wire, "stream": True} if stream else wire

    def _own_headers(self, wire: JsonObject, body: bytes) -> dict[str, str]:
        """Headers that this provider wants for this request."""
        return {}

    async def _ask(self, sending: Sending, trail: Trail, *, stream: bool) -> Reading:
        remaining, usual = max(trail.remaining, 0.001), sending.timeouts
        # no attempt may last longer than the call as a whole
        if remaining < max(usual.first_byte, usual.read):
            shorter = Timeouts(
                connect=min(usual.connect, remaining),
                first_byte=min(usual.first_byte, remaining),
                read=min(usual.read, remaining),
            )
            sending = sending._replace(timeouts=shorter)
        reply = await self._carrier.send(sending)
        try:
            await require_answer(reply, self.dialect, sending.url)
            return Reading(reply, self.dialect, sending.url, stream=stream)
        except BaseException:
            # else the connection stays taken
            await reply.close()
            raise

    def _enter(self, circuit: Circuit, model: str) -> bool:
        try:
            return circuit.enter()
        except ModelError as error:
            raise self._with_provider(error, model) from None

    async def _with_advice(self, error: ModelError, model: str) -> ModelError:
        """The error with what to type, as far as it depends on who was asked."""
        if error.code == "auth" and error.status != 402 and "credit" not in error.hint:
            error.hint = f"check the key: {self.service.hint}"
            if self._client is not None:
                error.hint = "check the key or the credentials of the client you passed"
        elif error.code == "not_found" and self._base_url is None:
            # the list of known names is large, and read for this hint only
            near = await asyncio.to_thread(near_names, (self.service.name,), model)
            if near:
                error.hint = f"did you mean {' or '.join(near)}? else check base_url"
        return self._with_provider(error, model)

    def _with_provider(self, error: ModelError, model: str) -> ModelError:
        """The error with who was asked, and without the key."""
        error.provider = self.service.name
        error.model = model
        error.where = f"{self.service.name}/{model}"
        hidden = (*self._secrets(), *_bare(self._lent.values()), *self._locate().secrets())
        error.message = without_keys(error.message, hidden)
        error.hint = without_keys(error.hint, hidden)
        error.args = (error.message, error.where, error.hint)
        _forget_causes(error, hidden)
        return error

    def _discreet(self, response: ModelResponse) -> ModelResponse:
        """The answer without a key that the server repeats in it: the log must not keep one."""
        keys = (*self._secrets(), *_bare(self._lent.values()), *self._locate().keys())
        long = [each for each in dict.fromkeys(keys) if len(each) >= _LONG]
        if not long:
            return response
        # one search through the JSON finds a key in any field
        written = encode(response, where=self.name).decode()
        if not any(form in written for each in long for form in spellings(each)):
            return response
        plain = cast("object", json.loads(without_keys(written, long)))
        return msgspec.convert(plain, ModelResponse)

    def _secrets(self) -> list[str]:
        own_headers = self.service.credentials(self._given_key) or {}
        secret_headers = [text for name, text in self._headers.items() if is_secret_name(name)]
        return [*_bare((*own_headers.values(), *secret_headers)), *client_keys(self._client)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.dialect}, {self.address or 'nowhere'})"


def _with_attempts(response: ModelResponse, trail: Trail) -> ModelResponse:
    """The response with the attempts it took, where it took more than one."""
    attempts = trail.list_attempts()
    return response if attempts is None else with_notes(response, Provenance(attempts=attempts))


def with_notes(response: ModelResponse, more: Provenance) -> ModelResponse:
    """The response with more that its event is to say of it."""
    metadata = more.onto(response.custom_metadata)
    return msgspec.structs.replace(response, custom_metadata=metadata)


_CREDENTIALS = frozenset(("authorization", "x-api-key", "x-goog-api-key", "api-key"))


def _forget_causes(error: ModelError, hidden: Iterable[str]) -> None:
    """Cut off what led to the error where that shows a key: a traceback prints all of it."""
    cause: BaseException | None = error
    while cause is not None:
        cause = cause.__cause__ or cause.__context__
        if cause is not None:
            text = f"{cause} {cause!r}"
            # the whole chain goes: a traceback prints it to the end
            if without_keys(text, hidden) != text:
                error.__cause__ = error.__context__ = None
                return


def _bare(headers: Iterable[str]) -> list[str]:
    """The keys in headers, without the word that says of which kind they are."""
    # "Bearer KEY": the word before it is not secret
    return [text.rpartition(" ")[2] for text in headers]


def _require_plain(headers: Mapping[str, str]) -> None:
    """Refuse what cannot stand in a header, without showing it: it may be a key."""
    for name, text in headers.items():
        if not (text.isascii() and text.isprintable()):
            raise ModelError(
                f"the header `{name}` would hold a character that cannot stand in a header",
                code="bad_request",
                hint="write keys and headers on one line, in plain letters",
            )


def _require_name(name: object, base_url: Address | None, where: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError(
            f"{name!r} is not a model's name", where=where, hint=f'write {where}("NAME")'
        )
    if (
        base_url is not None and "://" not in name and wire_name(name) != name
    ):  # the server's own name looks like provider/model
        return f"{base_url.base}#{name}"
    return name


def _require_text(value: object, where: str) -> str | None:
    if value is None or (isinstance(value, str) and value.strip()):
        return value.strip() if isinstance(value, str) else None
    raise DeclarationError("this is not a text", where=where, hint="pass a string, or leave it out")


def _require_url(value: object, where: str) -> Address | None:
    if value is None:
        return None
    address = address_of(value) if isinstance(value, str) else Address("")
    if not address.base.startswith(("http://", "https://")) or not address.host:
        shown_address = address.base or type(value).__name__
        raise DeclarationError(
            f"`{shown_address}` is not an address",
            where=where,
            hint='write base_url="https://host/v1"',
        )
    if address.fragment:
        raise DeclarationError(
            f"what follows `#` is not part of the address `{address.base}`",
            where=where,
            hint=f'write base_url="{address.base}", and the model as the name',
        )
    return address


def _require_headers(value: object, where: str) -> dict[str, str]:
    headers = cast("Mapping[object, object]", value if value is not None else {})
    if not isinstance(cast("object", headers), Mapping) or not all(
        isinstance(each, str) for pair in headers.items() for each in pair
    ):
        raise DeclarationError(
            "these are not headers", where=where, hint='write headers={"x-name": "value"}'
        )
    return {str(name).lower(): str(text) for name, text in headers.items()}


# --- the tokens of a request, as the provider itself counts them


class CountEndpoint(NamedTuple):
    """Which fields a provider's token count takes, and where its answer holds the number."""

    takes: frozenset[str] | None
    """The fields it takes; None for a request in whole."""
    path: tuple[str, str]
    """How the path of a request ends, and how that of a count."""
    tells: str


ENDPOINTS = {
    "anthropic": CountEndpoint(
        frozenset(("model", "messages", "system", "tools", "tool_choice", "thinking",
                   "output_config", "cache_control")),
        ("/messages", "/messages/count_tokens"),
        "input_tokens",
    ),
    "openai-responses": CountEndpoint(
        frozenset(("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning",
                   "parallel_tool_calls", "truncation", "conversation", "previous_response_id")),
        ("/responses", "/responses/input_tokens"),
        "input_tokens",
    ),
    "gemini": CountEndpoint(None, (":generateContent", ":countTokens"), "totalTokens"),
}  # fmt: skip


async def count(model: Model, prompt: Prompt, wire: JsonObject) -> int:
    """The provider's own count of this request; nothing is generated."""
    endpoint = ENDPOINTS.get(model.dialect)
    if endpoint is None or not isinstance(model, Remote):
        raise UsageError(
            f"nobody counts requests for `{model.name}`",
            where="--count",
            hint=f"a provider does that speaks one of: {', '.join(ENDPOINTS)}",
        )
    name, body = wire_name(prompt.model), _body(endpoint, prompt, wire)
    answer = await model.ask_beside(name, body, path=endpoint.path)
    counted: Json = answer.get(endpoint.tells)
    if not isinstance(counted, int) or isinstance(counted, bool):
        raise ModelError(
            f"the count has no `{endpoint.tells}`",
            code="bad_response",
            provider=model.service.name,
            model=model.name,
            hint="check that the base URL is this provider's API",
        )
    return counted


def _body(endpoint: CountEndpoint, prompt: Prompt, wire: JsonObject) -> JsonObject:
    if endpoint.takes is None:
        name = wire_name(prompt.model)
        # Gemini counts a whole request only inside this field, and wants the model named again
        return {"generateContentRequest": {"model": f"models/{name}", **wire}}
    return {key: value for key, value in wire.items() if key in endpoint.takes}
