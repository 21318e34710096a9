"""The laws of `weft.compact` on a conversation, however odd it is.

Nothing raises but what a budget or a protection refuses. A request is not more illegal than it
came, by the judge of `judge.py` and by Weft's own rules; what was not changed is the caller's own
object; a request begins with the one before it where the conversation did, unless a fold says so;
what was left out can be recalled; and the bytes are those of a process that saw nothing before.
"""

import json
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any

import weft
from tests.compaction.hostile import Case, draw_case
from tests.compaction.judge import is_legal, new_problems
from tests.compaction.talks import TALKS, Wire
from tests.support.fuzz_laws import Fault
from weft import C
from weft.compaction.compact import forget
from weft.dialects import refusals
from weft.errors import BudgetExceeded, ProtectionError


def faults_of(seed: int) -> tuple[int, list[Fault]]:
    """How many requests a seed gave, and what is wrong with them."""
    case = draw_case(seed)
    return len(case.requests), [*dict.fromkeys(_faults(seed, case))]


def _faults(seed: int, case: Case) -> Iterator[Fault]:
    forget()
    before: tuple[Wire, weft.Compacted] | None = None
    for number, request in enumerate(case.requests):
        at = f"request {number} under {case.policy} with {case.damages}"
        came = json.dumps(request)
        try:
            compacted = weft.compact(request, case.policy, dialect=case.dialect)
            _ = compacted.tokens, compacted.cost, compacted.cost_before, compacted.expected
            after: Any = compacted.request
            for fault in _faults_of_one(case, request, compacted):
                yield Fault(fault.kind, f"{at}: {fault.seen}")
            if json.dumps(request) != came:
                yield Fault("the caller's request was changed", at)
            if before is not None:
                for fault in _faults_of_growth(case, *before, request, compacted):
                    yield Fault(fault.kind, f"{at}: {fault.seen}")
            if number % 3 == seed % 3 or number == len(case.requests) - 1:
                raw = json.dumps(request, indent=1 if seed % 2 else None).encode()
                forget()
                spliced = weft.compact(raw, case.policy, dialect=case.dialect).request
                assert isinstance(spliced, bytes)
                if json.loads(spliced) != json.loads(json.dumps(after)):
                    yield Fault("bytes and objects differ, or cold and warm", at)
            before = request, compacted
        except (BudgetExceeded, ProtectionError) as error:
            if case.policy.limit is None and not case.policy.protections:
                yield Fault("a policy that refuses nothing refused", f"{at}: {error}")
            before = None
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} in {where.name}"
            yield Fault(kind, f"{at}: {error}\n{traceback.format_exc()}")
            before = None


def _faults_of_one(case: Case, request: Wire, compacted: weft.Compacted) -> Iterator[Fault]:
    after: Any = compacted.request
    limit = case.policy.limit
    if limit is not None and compacted.tokens > limit.tokens - (limit.reserve or 0):
        yield Fault("a request is above its budget", f"{compacted.tokens} tokens")
    if after is request:
        return
    # what is illegal may become so in another way, where a policy leaves out a part of it
    if case.policy in _AUTO or is_legal(case.dialect, request):
        for one in new_problems(case.dialect, request, after):
            yield Fault("a request is illegal that was legal", one)
        own = Counter(one.message for one in refusals(case.dialect, after))
        own -= Counter(one.message for one in refusals(case.dialect, request))
        for one in own:
            yield Fault("Weft's own rules refuse it", one)
    talk = TALKS[case.dialect]
    came, went = talk.messages(request), talk.messages(after)
    if len(went) != len(compacted.sources):
        yield Fault("sources do not tell of each message", "")
    changed = {one.pointer.split("/")[2] for one in compacted.left_out}
    for source, message in zip(compacted.sources, went, strict=True):
        if source is not None and str(source) not in changed and message is not came[source]:
            yield Fault("a message is another object and not listed", f"message {source}")
    for one in compacted.left_out:
        if one.handle and "there is no handle" in compacted.look_up({"handle": one.handle}):
            yield Fault("what was left out cannot be recalled", one.pointer)
    if not case.policy.protections and _signed(went) - _signed(came):
        yield Fault("a signed thought was changed", "")
    newest = _newest(came)
    if case.policy in _AUTO and json.dumps(newest)[1:-1] not in json.dumps(went):
        yield Fault("the newest words of the user were changed", "")
    if case.policy in _AUTO and _told(went) != _told(came):
        yield Fault("a system text was lost", "")
    if after.get("system") is not request.get("system"):
        yield Fault("the system text was changed", "")


_AUTO = (C.auto(), C.auto(lossless=True), C.auto(fold=False))
"""Policies that change nothing that the user says now."""


def _told(messages: list[Any]) -> list[str]:
    """The system texts of a conversation, wherever they stand."""
    said = [one.get("content") for one in messages if _is_system(one)]
    texts = [
        str(one.get("text"))
        for content in said
        for one in ([{"text": content}] if isinstance(content, str) else _list(content))
        if isinstance(one, dict)
    ]
    return sorted(texts)


def _is_system(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "system"


def _signed(messages: list[Any]) -> Counter[str]:
    """Every piece with a signature, or that only its provider reads."""
    pieces = [
        piece
        for one in messages
        if isinstance(one, dict)
        for piece in (one, *_list(one.get("content")), *_list(one.get("parts")))
        if isinstance(piece, dict)
        and any(piece.get(key) for key in ("signature", "thoughtSignature", "encrypted_content"))
    ]
    return Counter(json.dumps(one, sort_keys=True) for one in pieces)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _newest(messages: list[Any]) -> str:
    """What the user said last, beside results or alone."""
    for one in reversed(messages):
        if not isinstance(one, dict) or one.get("role") != "user":
            continue
        said = one.get("content") or one.get("parts")
        pieces = [{"text": said}] if isinstance(said, str) else _list(said)
        for piece in reversed(pieces):
            if isinstance(piece, dict) and piece.get("text"):
                return str(piece["text"])
    return ""


def _faults_of_growth(
    case: Case, request: Wire, earlier: weft.Compacted, longer: Wire, compacted: weft.Compacted
) -> Iterator[Fault]:
    # results that come one request after the other are one result to what reads them
    if case.policy not in _AUTO or not all(
        is_legal(case.dialect, one) for one in (request, longer)
    ):
        return
    talk = TALKS[case.dialect]
    came, now = talk.messages(request), talk.messages(longer)
    head = {key: one for key, one in request.items() if key != talk.turns}
    if now[: len(came)] != came or head != {k: v for k, v in longer.items() if k != talk.turns}:
        return
    went: Any = talk.messages(earlier.request)
    goes: Any = talk.messages(compacted.request)
    edited = any(one.code == "WEFT502" for one in compacted.diagnostics)
    # of the requests in between, one may have been folded
    folded = compacted.sources.count(None) > earlier.sources.count(None)
    if goes[: len(went)] != went and not edited and not folded:
        yield Fault("a request does not begin with the one before it", "")
