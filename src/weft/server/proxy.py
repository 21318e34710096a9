"""`weft proxy`: requests of any agent on their way to its provider, made cheaper.

The same application as `weft serve`, with other routes: the inspector is below `/weft/`, and all
other paths go to the providers. What is not read goes on as it comes. If anything fails here, the
client's bytes go upstream as they came, the fault is counted, and the agent never notices.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from weft.compaction.compact import (
    Compacted,
    ask_to_keep,
    compact_body,
    protects,
    require_stateless,
    without_handles,
)
from weft.compaction.reading import RequestBody, read_body
from weft.compaction.splicing import encode
from weft.declare import C
from weft.declare.policy import Policy
from weft.declare.policy_parts import Redact
from weft.dialects import CHAT
from weft.dialects.answers import AnswerShape, answer_form
from weft.dialects.weave import AnswerWeave
from weft.dialects.wire import objects_in
from weft.errors import ModelError, ProtectionError, UsageError
from weft.ir.block import RECALL
from weft.models.http import Timeouts, pass_on
from weft.models.routing import ProxyTarget, find_target
from weft.models.services import Address
from weft.server.access import LOOPBACK, Gatekeeper, Limits, Tokens
from weft.server.application import Application
from weft.server.otlp import SpanReceiver
from weft.server.problems import Problem
from weft.server.proxy_history import (
    HistoryDigests,
    fingerprint,
    read_json,
    replace_messages,
    restore_recalls,
)
from weft.server.proxy_records import CallLog, ProxyCall, SpendLimit
from weft.server.proxy_redaction import ValueRestorer, redact_body
from weft.server.proxy_relay import (
    AnswerReader,
    ClientRelay,
    UpstreamRequest,
    describe_refusal,
    forwarded_headers,
    has_body,
    packing_of,
    raw_path,
    read_whole,
    reply_pieces,
    returned_headers,
    unpack_body,
)
from weft.server.proxy_store import ProxyStore, RecallLeg, RecallRecord, RefusedPair
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger("weft")

PAGE = "/weft"
"""Where the inspector is."""

TOKEN_HEADER = b"x-weft-token"
"""The header that says who asks, where other machines may: the usual ones are for the provider."""

_MOST_RECALLS = 8
"""How often one answer may recall before the request goes as it came."""


_READABLE = ("identity", "gzip", "x-gzip", "deflate")
"""How an answer may be packed that is read here."""


class PolicyRule(NamedTuple):
    """The policy of some models or paths, by patterns such as `claude-*`."""

    policy: Policy
    model: str = "*"
    path: str = "*"


class ProxySettings(NamedTuple):
    """How a proxy is to work."""

    rules: tuple[PolicyRule, ...] = ()
    """The first that fits is taken; `C.auto()` where none does."""
    upstreams: Mapping[str, Address] = {}
    strict: bool = False
    """Whether a fault of ours is an error for the client."""
    cache: bool = False
    """Whether to ask providers to keep what they read, for clients that mark nothing."""
    redact: tuple[Redact, ...] = ()
    limits: tuple[SpendLimit, ...] = ()
    timeouts: Timeouts = Timeouts()

    def policy_for(self, model: str, path: str) -> Policy:
        """The policy of a request."""
        for rule in self.rules:
            if fnmatchcase(model, rule.model) and fnmatchcase(path, rule.path):
                return rule.policy
        return C.auto()

    def protects(self, path: str) -> bool:
        """Whether something is kept away from the models that are asked at a path."""
        fitting = (rule.policy for rule in self.rules if fnmatchcase(path, rule.path))
        return bool(self.redact) or any(map(protects, fitting))


class ProxyApplication(Application):
    """The application of `weft serve`, with a proxy around its inspector."""

    page = f"{PAGE}/"

    def __init__(
        self,
        settings: ProxySettings,
        log: CallLog,
        *,
        tokens: Tokens | None = None,
        hosts: Sequence[str] = LOOPBACK,
    ) -> None:
        for rule in settings.rules:
            require_stateless(rule.policy, where="weft proxy")
        super().__init__([], hosts=hosts, source=lambda request: log.source)
        self.log = log
        self.exchanges = Exchanges(settings, log)
        self._tokens = tokens
        largest = Limits(body=1 << 50, rate=1e6, burst=1 << 30)
        self.receiver = SpanReceiver(log.source)
        self._passage = Gatekeeper(
            self.receiver.around(self.exchanges),
            authenticate=self._identify,
            hosts=hosts,
            origins=(),
            limits=largest,
            answered=self._count,
            shape=_shape_refusal,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        path: str = scope.get("path", "")
        if scope["type"] == "http" and path == PAGE:
            await RedirectResponse(self.page)(scope, receive, send)
        elif scope["type"] == "http" and not path.startswith(self.page):
            await self._passage(scope, receive, send)
        else:
            root = scope.get("root_path", "") + PAGE
            await super().__call__({**scope, "root_path": root}, receive, send)

    def _identify(self, connection: HTTPConnection) -> str | None:
        """Who asks: anybody on this machine, or who shows a token."""
        if self._tokens is None:
            return "local"
        token = connection.headers.get(TOKEN_HEADER.decode(), "")
        headers = {b"authorization": b"Bearer " + token.encode("latin-1")}
        who = self._tokens.identify({**connection.scope, "weft.headers": headers})
        return who.name if token and who is not None else None

    async def close(self) -> None:
        """End what is under way, and close the store."""
        await super().close()
        self.exchanges.close()


def _shape_refusal(scope: Scope, problem: Problem) -> Response:
    hint = f": {problem.hint}" if problem.hint else ""
    return _failure(scope, problem.status, f"weft proxy: {problem.detail}{hint}")


def _failure(scope: Scope, status: int, message: str) -> Response:
    """An error of ours, as the clients of that path read it."""
    target = find_target(scope["path"], "", dict(scope["headers"]), {})
    form = answer_form(target.dialect or CHAT)
    body = form.limit_body(message) if status == 429 else form.error_event(message)
    return JSONResponse(body, status, headers={"x-weft-error": "1"})


class PreparedRequest(NamedTuple):
    """A request on its way: as it came, whole again, and as it goes."""

    call: ProxyCall
    form: AnswerShape
    original: bytes
    """What goes where the other is refused: the client's own bytes, or those with placeholders.

    Under a policy that protects they are those without what it keeps away.
    """
    sent: bytes
    body: RequestBody | None = None
    """With all that the client did not see."""
    compacted: Compacted | None = None
    policy: Policy | None = None
    known: Mapping[str, Json] = {}
    """What the placeholders in it stand for."""

    @property
    def recalls(self) -> bool:
        """Whether the model may recall."""
        return self.compacted is not None and self.compacted.tool is not None


class Exchanges:
    """Passes requests on, and their answers back."""

    def __init__(self, settings: ProxySettings, log: CallLog) -> None:
        self.settings = settings
        self.log = log
        self.store: ProxyStore = log.store
        self.faults: Counter[str] = Counter()
        """What went wrong here, by kind; the client noticed none of it."""
        self._digests = HistoryDigests()
        # one thread: what was worked out before is shared by all requests
        self.thread = ThreadPoolExecutor(1, "weft proxy")

    def close(self) -> None:
        """Let go of the thread and the store."""
        self.thread.shutdown()
        self.log.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        query: str = scope["query_string"].decode("latin-1")
        target = find_target(raw_path(scope), query, headers, self.settings.upstreams)
        relay = ClientRelay(scope, receive, send)
        try:
            if target.dialect and scope["method"] == "POST":
                came = await relay.read_body()
                await relay.until_gone(self._exchange(relay, target, query, came))
            elif has_body(headers):
                await self._pass(relay, target.url(query), relay.body_pieces())
            else:
                await relay.until_gone(self._pass(relay, target.url(query), b""))
        except ModelError as error:
            if relay.is_started:  # the client sees that its stream was cut
                _log.warning("weft proxy: %s", error.message)
                return
            message = f"weft proxy: {error.message}"
            await _failure(scope, _status_of(error), message)(scope, receive, send)
        except Problem:
            raise
        except Exception as error:  # under --strict, or where a request cannot be redacted
            self.faults["strict"] += 1
            _log.warning("weft proxy: a request was not passed on", exc_info=error)
            if not relay.is_started:
                message = f"weft proxy: the request was not passed on: {type(error).__name__}"
                await _failure(scope, 500, message)(scope, receive, send)

    # What goes.

    async def _pass(
        self, relay: "ClientRelay", url: str, content: "bytes | AsyncIterator[bytes]"
    ) -> None:
        """Pass on what nobody reads, streamed both ways."""
        headers = forwarded_headers(relay.scope["headers"], reads=False)
        method: str = relay.scope["method"]
        reply = await pass_on(method, url, headers, content, self.settings.timeouts)
        await relay.pass_reply(reply)

    async def _exchange(
        self, relay: "ClientRelay", target: ProxyTarget, query: str, came: bytes
    ) -> None:
        scope = relay.scope
        headers: dict[bytes, bytes] = dict(scope["headers"])
        loop = asyncio.get_running_loop()
        prepared = await loop.run_in_executor(self.thread, self._prepare, came, target, headers)
        call = prepared.call
        refusal = self.log.find_limit(call, self.settings.limits)
        if refusal:
            await _failure(scope, 429, refusal)(scope, relay.receive, relay.send)
            return
        unpacked = prepared.original is not came
        asking = UpstreamRequest(
            target.url(query),
            forwarded_headers(
                scope["headers"],
                packed=not unpacked and prepared.sent is came,
                plain=prepared.recalls or bool(prepared.known),
            ),
            self.settings.timeouts,
        )
        try:
            await self._ask(relay, asking, prepared)
        except ModelError as error:
            call.note_failure(_status_of(error), describe_refusal(error))
            raise
        except asyncio.CancelledError:
            call.note_failure(_GONE, "cancelled: the client went away before an answer came")
            raise
        finally:
            await self._finish(prepared)

    def _prepare(
        self, came: bytes, target: ProxyTarget, headers: Mapping[bytes, bytes]
    ) -> PreparedRequest:
        """Read, redact, make whole and compact; what fails leaves the request as it came."""
        form = answer_form(target.dialect)
        call = ProxyCall(
            target.dialect, target.path, target.service, model=target.model, counts=target.counts
        )
        raw = came
        try:
            raw = unpack_body(came, headers.get(b"content-encoding", b""))
            body = read_body(raw, target.dialect)
            if body.is_list:
                raise UsageError("the request is a list", where="weft proxy")
        except UsageError as error:
            self._require_no_rules(error, target)
            return PreparedRequest(call, form, came, came)
        call.read(body)
        known: dict[str, Json] = {}
        if self.settings.redact:
            # a failure here goes to the client: what is not looked through is not sent
            body = redact_body(body, self.settings.redact, self.store.secret, known)
            raw = _bytes_of(body)
        original = raw if known else came
        plain = PreparedRequest(call, form, original, original, known=known)
        policy = self.settings.policy_for(call.model, target.path)
        is_protected = protects(policy)
        try:
            chain = self._digests.chain(body)
            self.log.place(call, chain, body.wire, headers)
            if is_protected:
                bare = without_handles(policy)
                original = _bytes_of(compact_body(body, bare, model=target.model))
                plain = plain._replace(original=original, sent=original)
            if not _takes_recall(body, form, target):
                policy = without_handles(policy)
            if self.settings.cache and not target.counts:
                body = ask_to_keep(body, target.model)
            whole = restore_recalls(body, form, chain, self.store)
            compacted = compact_body(whole, policy, model=target.model)
            if target.counts and form.list_field == "parts":  # tools stand elsewhere there
                return plain
            call.compacted = compacted
            sent = compacted.request
            assert isinstance(sent, bytes)
        except Exception as error:
            if is_protected:
                raise _refuse_unprotected(error) from error
            if self.settings.strict:
                raise
            self.note_fault("compact", error, call)
            return plain
        if sent is raw or sent == original:
            sent = original
        return PreparedRequest(call, form, original, sent, whole, compacted, policy, known)

    def _require_no_rules(self, error: UsageError, target: ProxyTarget) -> None:
        if self.settings.protects(target.path):
            raise Problem(
                400, "unreadable", f"what cannot be read cannot be redacted: {error.message}"
            )
        self.faults["unreadable"] += 1

    def note_fault(self, kind: str, error: Exception, call: ProxyCall) -> None:
        """Count what went wrong here; the client does not notice."""
        self.faults[kind] += 1
        call.fault = f"{kind}: {type(error).__name__}"
        _log.warning(
            "weft proxy: a fault that the client does not notice: %s", kind, exc_info=error
        )

    # What comes back.

    async def _ask(
        self, relay: "ClientRelay", asking: "UpstreamRequest", prepared: PreparedRequest
    ) -> None:
        call = prepared.call
        reply = await asking.send(prepared.sent)
        if reply.status_code == 400 and prepared.sent is not prepared.original:
            answer = await _read_refusal(reply)
            self.faults["refused"] += 1
            call.fault = "refused: 400"
            pair = RefusedPair(
                call.dialect,
                read_json(prepared.original),
                read_json(prepared.sent),
                answer,
            )
            reply = await asking.send(prepared.original)
            if reply.status_code < 400:  # else the original is not legal either
                self.store.add_refused(pair)
            prepared = prepared._replace(sent=prepared.original, compacted=None)
            call.compacted = None
        call.status = reply.status_code
        changes = prepared.recalls or bool(prepared.known)
        # asked for a plain answer, it packed one as nobody here can unpack: it goes on as it is
        if reply.status_code >= 400 or packing_of(reply) not in _READABLE or not changes:
            observer = AnswerReader(prepared.form, reply)

            async def finish() -> None:
                call.answer = observer.body()
                call.refusal = observer.refusal(call.dialect, call.status)
                await self._finish(prepared)

            await relay.pass_reply(reply, observer, finish)
            return
        if "event-stream" in reply.headers.get("content-type", ""):
            await self._weave(relay, asking, prepared, reply)
        else:
            await self._join(relay, asking, prepared, reply)

    async def _weave(
        self,
        relay: "ClientRelay",
        asking: "UpstreamRequest",
        prepared: PreparedRequest,
        reply: "httpx2.Response",
    ) -> None:
        """Pass a stream on, and answer recalls within it."""
        form, restorer = prepared.form, None
        if prepared.known:
            restorer = ValueRestorer(form, prepared.known).event
        weave = AnswerWeave(form, RECALL if prepared.recalls else "", restorer)
        await relay.start(reply.status_code, returned_headers(reply, changed=True))
        turn = _AnswerRecalls(self, prepared)
        while True:
            async with aclosing(reply_pieces(reply)) as pieces:
                async for piece in pieces:
                    out = weave.feed(piece)
                    if weave.is_over and not weave.is_changed:
                        prepared.call.answer = weave.read_answer()
                        await self._finish(prepared)
                    if out:
                        await relay.send_piece(out)
            await reply.aclose()
            rest, body = weave.end_leg()
            if rest:
                await relay.send_piece(rest)
            following = await turn.take(body)
            if following is None or body is None:
                break
            weave.begin_leg(body)
            reply = await turn.go_on(asking, following)
            if reply.status_code >= 400 or packing_of(reply) not in _READABLE:
                message = await _read_refusal(reply)
                await relay.send_piece(weave.spell_error(f"{reply.status_code}: {message[:500]}"))
                await relay.end()
                return
        prepared.call.answer = turn.end(body)
        if body is None and weave.is_readable:
            return  # upstream cut it, and so do we
        await self._finish(prepared)
        await relay.send_piece(weave.close(body))
        await relay.end()

    async def _join(
        self,
        relay: "ClientRelay",
        asking: "UpstreamRequest",
        prepared: PreparedRequest,
        reply: "httpx2.Response",
    ) -> None:
        """Read a whole answer, and answer recalls before it goes on."""
        turn = _AnswerRecalls(self, prepared)
        while True:
            raw = await read_whole(reply)
            value = read_json(_unpack_answer(reply, raw))
            body = value if isinstance(value, dict) and reply.status_code < 400 else None
            following = await turn.take(body)
            if following is None or body is None:
                break
            reply = await turn.go_on(asking, following)
        visible = turn.end(body)
        prepared.call.answer = visible
        prepared.call.status = reply.status_code
        length: int | None = None
        if visible is not None and (turn.is_changed or prepared.known):
            restored = visible
            if prepared.known:
                restored = ValueRestorer(prepared.form, prepared.known).body(visible)
            raw = encode(restored)
            length = len(raw)
        await self._finish(prepared)
        headers = returned_headers(reply, changed=length is not None, length=length)
        await relay.start(reply.status_code, headers)
        await relay.send_piece(raw)
        await relay.end()

    async def _finish(self, prepared: PreparedRequest) -> None:
        """Put the call on the receipt and in the recording, before the client sees its end."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.thread, self._log_call, prepared)

    def _log_call(self, prepared: PreparedRequest) -> None:
        call = prepared.call
        if call.is_logged:
            return
        call.is_logged = True
        try:
            self.log.add(call, prepared.original)
        except Exception as error:
            self.note_fault("record", error, call)


_GONE = 499
"""The status of a call whose client left, as other proxies have it."""


def _status_of(error: ModelError) -> int:
    """The status of a call that no provider answered."""
    return 504 if error.code == "timeout" else 502


def _unpack_answer(reply: "httpx2.Response", raw: bytes) -> bytes:
    """A whole answer, unpacked; nothing where that cannot be done: it goes on as it came."""
    try:
        return unpack_body(raw, packing_of(reply).encode())
    except UsageError:
        return b""


async def _read_refusal(reply: "httpx2.Response") -> str:
    """What a provider says of a request that it refuses, as far as it came."""
    try:
        raw = await read_whole(reply)
    except ModelError as error:
        return error.message
    return _unpack_answer(reply, raw).decode("utf-8", "replace")


def _refuse_unprotected(error: Exception) -> Problem:
    """What a client is told of a request that would have taken along what is kept away."""
    reason = error.message if isinstance(error, ProtectionError) else type(error).__name__
    hint = "--redact replaces it in instructions, tools and all other fields, too"
    return Problem(400, "protected", f"the request was not passed on: {reason}", hint=hint)


class _AnswerRecalls:
    """The recalls of one answer: what was asked, what was found, and what the client sees."""

    def __init__(self, exchanges: Exchanges, prepared: PreparedRequest) -> None:
        self._exchanges = exchanges
        self._prepared = prepared
        self._body = prepared.body
        self._compacted = prepared.compacted
        self._legs: list[RecallLeg] = []
        self._mixed = RecallRecord("")
        self._visible: JsonObject | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the client sees something else than what came."""
        return bool(self._legs or self._mixed.calls)

    async def take(self, body: JsonObject | None) -> bytes | None:
        """Take an answer; the request that is to follow it, None where it is the last."""
        prepared, form = self._prepared, self._prepared.form
        if body is None or self._compacted is None or not prepared.recalls:
            return None
        turns = form.turns_of(body)
        pieces = form.open_turns(turns)
        calls = [one for one in pieces if form.call_name(one) == RECALL]
        if not calls:
            return None
        prepared.call.recalls += len(calls)
        loop = asyncio.get_running_loop()
        thread = self._exchanges.thread
        try:
            results = await loop.run_in_executor(thread, self._answer_all, calls)
            if any(name not in ("", RECALL) for name in map(form.call_name, pieces)):
                self._mixed = RecallRecord("", [], calls, _places(form, pieces), results)
                return None
            if len(self._legs) >= _MOST_RECALLS:
                raise UsageError("the model recalls again and again", where="weft proxy")
            leg = RecallLeg(turns, form.result_turns(results))
            following = await loop.run_in_executor(thread, self._follow, leg)
        except Exception as error:
            self._exchanges.note_fault("recall", error, prepared.call)
            self.give_up()
            self._see(body)
            return prepared.original
        self._see(body)
        self._legs.append(leg)
        return following

    async def go_on(self, asking: UpstreamRequest, following: bytes) -> "httpx2.Response":
        """Ask with what follows an answer; where that is refused, with the request as it came."""
        reply = await asking.send(following)
        if reply.status_code == 400:
            await reply.aclose()
            self.give_up()
            reply = await asking.send(self._prepared.original)
        return reply

    def give_up(self) -> None:
        """The request goes as it came: nothing more is recalled."""
        self._compacted = None

    def _answer_all(self, calls: Sequence[JsonObject]) -> list[JsonObject]:
        assert self._compacted is not None
        return [self._compacted.recall(call) for call in calls]

    def _follow(self, leg: RecallLeg) -> bytes:
        prepared = self._prepared
        assert self._body is not None
        assert prepared.policy is not None
        messages: list[Json] = [*self._body.messages, *leg.turns, *leg.results]
        self._body = replace_messages(self._body, messages)
        self._compacted = compact_body(self._body, prepared.policy, model=prepared.call.model)
        return _bytes_of(self._compacted)

    def _see(self, body: JsonObject) -> None:
        form = self._prepared.form
        visible = form.hide_calls(body, RECALL) if self._prepared.recalls else body
        self._visible = visible if self._visible is None else form.join(self._visible, visible)

    def end(self, body: JsonObject | None) -> JsonObject | None:
        """What the client sees of all answers; remembered before it sees the end of it."""
        if body is None:
            return None
        self._see(body)
        visible, prepared, form = self._visible, self._prepared, self._prepared.form
        if visible is not None and self.is_changed:
            seen = fingerprint(form, form.turns_of(visible))
            record = msgspec.structs.replace(self._mixed, seen=seen, legs=self._legs)
            self._exchanges.store.add_recall(prepared.call.history, record)
        return visible


def _places(form: AnswerShape, pieces: Sequence[JsonObject]) -> list[int]:
    """For each recall, how many calls of the client's tools stand before it."""
    places: list[int] = []
    others = 0
    for name in map(form.call_name, pieces):
        if name == RECALL:
            places.append(others)
        others += name not in ("", RECALL)
    # each is put back before the next, so those that are back count too
    return [place + at for at, place in enumerate(places)]


def _bytes_of(request: Compacted | RequestBody) -> bytes:
    sent = request.request
    assert isinstance(sent, bytes)
    return sent


def _takes_recall(body: RequestBody, form: AnswerShape, target: ProxyTarget) -> bool:
    """Whether a recall can be answered within the answer."""
    wire = body.wire
    several = wire.get("n"), _option(wire, "candidateCount")
    if any(isinstance(one, int) and one > 1 for one in several):
        return False
    if form.list_field == "parts" and target.path.endswith(":streamGenerateContent"):
        return target.streams  # else one JSON list comes piece by piece
    return not (body.messages and form.is_model(body.messages[-1]))


def _option(wire: JsonObject, name: str) -> Json:
    for holder in objects_in([wire.get("generationConfig"), wire.get("generation_config")]):
        if name in holder:
            return holder[name]
    return None
