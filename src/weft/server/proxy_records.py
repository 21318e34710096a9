"""The calls that went through a proxy: whose they are, what they cost, and what was said.

A conversation is found by the hashes of its messages, so its requests come together without a word
from the client. What forks from it, and what runs next to it, is a lane of its own.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from weft.compaction import Compacted
from weft.compaction.reading import RequestBody
from weft.compiler.receipt import Comparison, Expectation, compare_bill
from weft.declare.policy_parts import Redact
from weft.dialects import lift
from weft.dialects.wire import object_in, text_in
from weft.errors import ModelError, UsageError
from weft.inspector.inspection import Inspection
from weft.inspector.live import LiveSessions
from weft.replay.receipt import Receipt, ReceiptLine
from weft.server.proxy_store import BilledCall, ProxyStore
from weft.session.event import new_id
from weft.session.provenance import provenance_in
from weft.values import JsonObject

DAY = 86_400.0


class SpendLimit(NamedTuple):
    """How much may be spent, in US dollars, a day or a session."""

    dollars: float
    per: Literal["day", "session"]


def read_limit(text: str) -> SpendLimit:
    """The limit that a text says, such as `5USD/day`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*USD\s*/\s*(day|session)\s*", text, re.IGNORECASE)
    if match is None:
        raise UsageError(
            f"`{text}` is not a limit", where="--limit", hint="write 5USD/day, or 2USD/session"
        )
    return SpendLimit(float(match[1]), "day" if match[2].lower() == "day" else "session")


class ProxyCall:
    """One request and its answer, as they go through."""

    def __init__(self, dialect: str, path: str, service: str, *, model: str, counts: bool) -> None:
        self.dialect = dialect
        self.path = path
        self.service = service
        self.model = model
        self.counts = counts
        self.session = ""
        self.lane = 0
        self.history = b""
        self.earlier: frozenset[bytes] = frozenset()
        """Where its lane could be gone on with before it."""
        self.compacted: Compacted | None = None
        self.answer: JsonObject | None = None
        self.status = 0
        self.recalls = 0
        self.fault = ""
        self.refusal = ""
        """Why there is no answer, in words."""
        self.is_logged = False
        self.time = time.time()

    def read(self, body: RequestBody) -> None:
        """Take the model from a request that names it."""
        self.model = text_in(body.wire.get("model")) or self.model

    def note_failure(self, status: int, words: str) -> None:
        """Note that no answer came, or not all of it."""
        self.status = self.status or status
        if self.answer is None:
            self.refusal = words


class CallLine(NamedTuple):
    """A call in one line: for the terminal."""

    model: str
    tokens: int
    tokens_before: int
    cached: int
    cost: float
    saved: float
    """What was saved so far in all."""
    money: bool
    recalls: int
    status: int
    fault: str
    lacks_mark: bool = False
    """Whether nothing is cached only because the client marks nothing."""

    def __str__(self) -> str:
        words = [
            self.model or "?",
            f"in {self.tokens:,} of {self.tokens_before:,}",
            f"cached {self.cached:,}",
            f"cost {self._price(self.cost)}",
            f"saved {self._price(self.saved)}",
        ]
        words += [f"recalls {self.recalls}"] if self.recalls else []
        words += [f"status {self.status}"] if self.status != 200 else []
        words += [self.fault] if self.fault else []
        words += ["the client marks nothing for the cache: try --cache"] if self.lacks_mark else []
        return "  ".join(words)

    def _price(self, cost: float) -> str:
        return f"${cost:.4f}" if self.money else f"{cost:,.0f} tokens"


class CallLog:
    """What is known of all calls: in the store, in a folder of recordings, and in memory."""

    def __init__(
        self,
        store: ProxyStore,
        *,
        folder: Path | None = None,
        records: bool = True,
        show: Callable[[CallLine], None] | None = None,
        redact: tuple[Redact, ...] = (),
        model: str | None = None,
    ) -> None:
        self.store = store
        self.source = ProxySessions(store, model=model, redact=redact)
        self._folder = folder
        self._records = records
        self._show = show
        self._latest: dict[tuple[str, int], frozenset[bytes]] = {}
        """Where a lane may be gone on with: after its last call, and after those that failed."""
        self._lanes: defaultdict[str, int] = defaultdict(int)
        self._day: tuple[int, float] = (0, 0.0)
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._saved = 0.0
        self._is_limited = False
        midnight = time.time() // DAY * DAY
        for call in store.list_calls():
            cost = _money_of(bill_call(call))
            self._spent[call.session] += cost
            self._lanes[call.session] = max(self._lanes[call.session], call.lane)
            if call.time >= midnight:
                self._spend_today(cost)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for file in sorted(folder.glob("*.jsonl")):
                for line in file.read_bytes().splitlines():
                    self.source.add(file.stem, line)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    # Whose call it is.

    def place(
        self,
        call: ProxyCall,
        chain: Sequence[bytes],
        wire: JsonObject,
        headers: Mapping[bytes, bytes],
    ) -> None:
        """Find the session and the lane of a call."""
        call.history = chain[-1]
        if call.counts:
            return
        named = _named_session(wire, headers)
        earlier = _key(text_in(wire.get("previous_response_id")))
        known = self.store.find_head(earlier) if earlier else None
        head = earlier
        if known is None:
            for head in reversed(chain[1:]):
                known = self.store.find_head(head)
                if known is not None:
                    break
        if known is not None and (not named or known[0] == named):
            call.session, call.lane = known
            # it went on elsewhere already: a fork
            if known in self._latest and head not in self._latest[known]:
                call.lane = self._new_lane(call.session)
        else:
            begun = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
            call.session = named or f"{begun}-{new_id()[:4]}"
            call.lane = self._new_lane(call.session)
        call.earlier = self._latest.get((call.session, call.lane), frozenset())
        self._latest[call.session, call.lane] = frozenset((call.history,))
        self.store.add_head(call.history, call.session, call.lane)

    def _new_lane(self, session: str) -> int:
        self._lanes[session] += 1
        return self._lanes[session]

    # What it may cost.

    def find_limit(self, call: ProxyCall, limits: Iterable[SpendLimit]) -> str:
        """What to say where a limit is reached; "" where none is."""
        if call.counts:
            return ""
        for limit in limits:
            self._is_limited = True
            spent = self._spent[call.session]
            if limit.per == "day":
                spent = self._day[1] if self._day[0] == _today() else 0.0
            if spent >= limit.dollars:
                return (
                    f"weft proxy: the limit of {limit.dollars:g} USD a {limit.per} is reached:"
                    f" {spent:.4f} USD are spent"
                )
        return ""

    def _spend_today(self, cost: float) -> None:
        day = _today()
        self._day = (day, cost + (self._day[1] if self._day[0] == day else 0.0))

    # What it was.

    def add(self, call: ProxyCall, request: bytes) -> None:
        """Put a call on the receipt, in the recording and on the terminal."""
        if call.counts or not call.status:
            return
        billed = self._bill(call)
        comparison = bill_call(billed)
        if self._is_limited and not comparison.money:
            call.fault = call.fault or "no price is known, so no limit holds for it"
        cost = _money_of(comparison)
        self._spent[call.session] += cost
        self._spend_today(cost)
        answered = text_in((call.answer or {}).get("id"))
        if answered:
            self.store.add_head(_key(answered), call.session, call.lane)
            self._latest[call.session, call.lane] = frozenset((call.history,))
        elif call.answer is None:  # the client may go on as if it had not asked
            self._latest[call.session, call.lane] = call.earlier | {call.history}
        self.store.add_call(billed)
        try:
            if self._records:
                self._record(call, request)
        except OSError as error:
            call.fault = call.fault or f"not recorded: {error.strerror}"
            raise
        finally:
            if self._show is not None:
                self._show(self._line(call, comparison))

    def _bill(self, call: ProxyCall) -> BilledCall:
        usage, written, version = None, 0, ""
        if call.answer is not None:
            try:
                response = lift(call.dialect, call.answer)
                usage, version = response.usage, response.model_version or ""
                written = provenance_in(response.custom_metadata).cache_write or 0
            except ModelError:  # an answer that only its provider understands has no bill
                usage = None
        compacted = call.compacted
        return BilledCall(
            call.session,
            call.lane,
            call.time,
            call.dialect,
            call.model,
            expected=compacted.expected.load if compacted is not None else None,
            before=compacted.expected_before.load if compacted is not None else None,
            usage=usage,
            written=written,
            answered_by=version,
            recalls=call.recalls,
            status=call.status,
            fault=call.fault,
        )

    def _line(self, call: ProxyCall, comparison: Comparison) -> CallLine:
        compacted = call.compacted
        before, now = 0, 0
        if compacted is not None:
            before, now = compacted.tokens_before, compacted.tokens
            self._saved += compacted.cost_before - compacted.cost
        billed = comparison.billed
        return CallLine(
            call.model,
            billed.total if billed is not None and not compacted else now,
            before,
            billed.cached if billed is not None else 0,
            comparison.billed_cost + comparison.answer,
            self._saved,
            comparison.money,
            call.recalls,
            call.status,
            call.fault,
            compacted is not None and compacted.lacks_mark,
        )

    def _record(self, call: ProxyCall, request: bytes) -> None:
        """Write the exchange as `weft inspect` and `weft replay` read it: without any header.

        What nobody could read belongs to no session. It is written only if it is JSON.
        """
        if not call.session:
            try:
                msgspec.json.decode(request, type=msgspec.Raw)
            except ValueError:
                return
        envelope = {
            "id": lane_name(call.session, call.lane),
            "dialect": call.dialect,
            "path": call.path,
            "time": call.time,
            "status": call.status,
        }
        if call.refusal:
            envelope["error"] = call.refusal
        line = msgspec.json.encode(envelope)[:-1] + b',"request":'
        line += request.translate(_ONE_LINE)
        line += b',"response":' + msgspec.json.encode(call.answer) + b"}"
        self.source.add(call.session, line)
        if self._folder is not None:
            name = re.sub(r"[^\w.-]", "-", call.session)[:80] or "unread"
            _append_line(self._folder / f"{name}.jsonl", line)


def _append_line(path: Path, line: bytes) -> None:
    """Write a line at the end of a file, or nothing: half of one would spoil the next."""
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        rest = memoryview(line + b"\n")
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(end)
            raise


_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""JSON has breaks between its values only, where blanks say the same."""


def _today() -> int:
    return int(time.time() // DAY)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() if text else b""


def _named_session(wire: JsonObject, headers: Mapping[bytes, bytes]) -> str:
    """The session that a client names, if it does."""
    header = headers.get(b"x-weft-session", b"").decode("latin-1")
    user = text_in(object_in(wire.get("metadata")).get("user_id"))
    named = header or user or text_in(wire.get("prompt_cache_key"))
    # what clients write there may tell who they are
    return header or (_key(named).hex()[:12] if named else "")


# --- the receipt


def bill_call(call: BilledCall) -> Comparison:
    """What a call was promised to cost, and what was billed."""
    expected = None
    if call.expected is not None:
        expected = Expectation(call.model, call.expected)
    by = call.answered_by or ("" if expected is not None else call.model)
    return compare_bill(expected, call.usage, written=call.written, answered_by=by)


def _money_of(comparison: Comparison) -> float:
    return comparison.billed_cost + comparison.answer if comparison.money else 0.0


def receipts_of(calls: Iterable[BilledCall]) -> list[Receipt]:
    """A receipt for each session."""
    by_session: defaultdict[str, list[BilledCall]] = defaultdict(list)
    for call in calls:
        by_session[call.session].append(call)
    return [_make_receipt(session, listed) for session, listed in by_session.items()]


def find_receipt(calls: Iterable[BilledCall], name: str) -> Receipt | None:
    """The receipt of a session, or of one of its lanes by the name that a recording has for it."""
    listed = [call for call in calls if name in (call.session, lane_name(call.session, call.lane))]
    return _make_receipt(name, listed) if listed else None


def lane_name(session: str, lane: int) -> str:
    """What a lane of a session is called in recordings and on the page."""
    return f"{session}-{lane}"


def _make_receipt(name: str, calls: Iterable[BilledCall]) -> Receipt:
    numbers = count(1)
    lines = (
        ReceiptLine(
            next(numbers) if call.usage is not None else 0,
            "",
            "",
            f"lane {call.lane}",
            call.time,
            bill_call(call),
            recalls=call.recalls,
        )
        for call in calls
    )
    return Receipt(name, tuple(lines))


def count_saved(calls: Iterable[BilledCall]) -> tuple[float, float]:
    """What the requests would have cost as they came, and as they went, by the price list."""
    before = now = 0.0
    for call in calls:
        if call.expected is None or call.before is None:
            continue
        for load, is_now in ((call.before, False), (call.expected, True)):
            expectation = Expectation(call.model, load)
            cost = expectation.rates.cost(expectation.load)
            before, now = (before, now + cost) if is_now else (before + cost, now)
    return before, now


class ProxySessions(LiveSessions):
    """The sessions that went through, for the inspector, with their bills."""

    def __init__(
        self, store: ProxyStore, *, model: str | None = None, redact: tuple[Redact, ...] = ()
    ) -> None:
        super().__init__(model=model, redact=redact)
        self._store = store

    async def inspection(self, key: str) -> Inspection:
        """The conversation of that key, with its bill.

        What was expected is what the proxy sent: the recording has what the client sent.
        """
        inspection = await super().inspection(key)
        inspection.bill = find_receipt(self._store.list_calls(), inspection.session.id)
        return inspection
