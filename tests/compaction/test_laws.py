"""Laws of `weft.compact`, over random conversations and policies.

`WEFT_HISTORIES` sets another number of them.
"""

import json
import os
import random
from collections.abc import Iterator
from hashlib import sha256
from typing import cast

import pytest

import weft
from tests.compaction.histories import random_policy, random_request
from tests.compaction.spices import SPICES
from tests.compaction.talks import TALKS, Wire
from weft import C
from weft.compaction.compact import forget
from weft.compaction.reading import chain_hashes, read_body
from weft.dialects import refusals
from weft.errors import BudgetExceeded, ProtectionError

HISTORIES = int(os.environ.get("WEFT_HISTORIES", "48"))
START = int(os.environ.get("WEFT_FIRST_HISTORY", "0"))


@pytest.mark.parametrize("first", range(START, START + HISTORIES, 12))
def test_any_policy_leaves_a_request_legal_and_what_it_hides_can_be_recalled(first: int) -> None:
    for seed in range(first, first + 12):
        dialect, request = random_request(seed)
        policy, before = random_policy(seed), json.dumps(request)
        try:
            compacted = weft.compact(request, policy)
        except (BudgetExceeded, ProtectionError):
            continue  # it does not fit, or a signed thought has what may not be sent
        context = f"history {seed} under {policy}"
        assert json.dumps(request) == before, f"{context}: the caller's request was changed"
        after = cast("Wire", compacted.request)
        assert not refusals(dialect, request), context
        assert not refusals(dialect, after), context
        assert len(TALKS[dialect].messages(after)) == len(compacted.sources), context
        for index, source in enumerate(compacted.sources):
            message = TALKS[dialect].messages(after)[index]
            known = source is not None and f"/{source}/" in f"{_pointers(compacted)}/"
            if source is not None and not known:
                assert message is TALKS[dialect].messages(request)[source], context
        for one in compacted.left_out:
            if one.handle:
                answer = compacted.look_up({"handle": one.handle})
                assert "there is no handle" not in answer, context
        assert compacted.tokens, context
        raw = json.dumps(request, indent=1 if seed % 2 else None).encode()
        spliced = weft.compact(raw, policy).request
        assert json.loads(cast("bytes", spliced)) == after, context


def test_every_spice_of_the_random_histories_is_taken_by_its_provider() -> None:
    changed = set[tuple[str, str]]()
    for seed in range(24):
        dialect, request = random_request(seed)
        plain = json.dumps(request)
        for spice in (one for one in SPICES if dialect in one.dialects):
            spiced = cast("Wire", json.loads(plain))
            spice.put(spiced, TALKS[dialect].messages(spiced), random.Random(seed))
            assert not refusals(dialect, spiced), f"{spice.name}, history {seed}"
            changed |= {(spice.name, dialect)} if spiced != request else set()
    assert changed == {(one.name, dialect) for one in SPICES for dialect in one.dialects}


def _pointers(compacted: weft.Compacted) -> str:
    return " ".join(one.pointer + "/" for one in compacted.left_out)


@pytest.mark.parametrize("policy", [C.auto(), C.auto(lossless=True)], ids=str)
def test_requests_of_a_run_begin_with_each_other_and_are_the_same_cold(policy: weft.Policy) -> None:
    for seed in range(START, START + HISTORIES // 4):
        dialect, request = random_request(seed)
        talk, before, notes = TALKS[dialect], list[Wire](), 0
        messages = talk.messages(request)
        for end, message in enumerate(messages):
            if not end or not talk.is_answer(message) or talk.is_answer(messages[end - 1]):
                continue
            compacted = weft.compact(talk.with_messages(request, messages[:end]), policy)
            after = talk.messages(compacted.request)
            edited = "WEFT502" in [one.code for one in compacted.diagnostics]
            assert after[: len(before)] == before or edited, f"history {seed}, message {end}"
            before = after
            # only a fold costs more in its own request, and all later ones cost less
            folded, notes = compacted.sources.count(None) > notes, compacted.sources.count(None)
            dearer = compacted.cost > compacted.cost_before * 1.000001
            assert not dearer or folded or _misses_minimum(compacted), f"history {seed}"
        grown = weft.compact(request, policy)
        forget()
        cold = weft.compact(request, policy)
        assert cold.request == grown.request, f"history {seed}"
        assert cold.tokens == grown.tokens, f"history {seed}"


def _misses_minimum(compacted: weft.Compacted) -> bool:
    """Whether a few tokens less are too few for the provider to keep the request before."""
    now, before = compacted.expected.load, compacted.expected_before.load
    return now.cached == 0 < before.cached and compacted.tokens < compacted.tokens_before


@pytest.mark.parametrize("seed", range(START, START + HISTORIES // 4))
def test_any_policy_gives_the_same_to_a_request_that_grew(seed: int) -> None:
    dialect, request = random_request(seed)
    talk, policy = TALKS[dialect], random_policy(seed)
    messages = talk.messages(request)
    starts = [end for end, one in enumerate(messages) if end and talk.is_answer(one)]
    for end in (*starts, len(messages)):
        start = max(0, end - 3)
        newest = [_with_mark(one) if seed % 3 else one for one in messages[start:end]]
        wire = talk.with_messages(request, [*messages[:start], *newest])
        part = wire if seed % 2 else json.dumps(wire).encode()
        outcomes = list[object]()
        for known in (True, False):
            if not known:
                forget()
            try:
                compacted = weft.compact(part, policy)
                outcomes.append((compacted.request, compacted.tokens, compacted.cost))
            except (BudgetExceeded, ProtectionError) as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1], f"message {end} under {policy}"


def _with_mark(message: Wire) -> Wire:
    """A message with a mark for the cache at its last part, as programs set it: it moves on."""
    parts = message.get("content")
    if not isinstance(parts, list) or not parts or not isinstance(parts[-1], dict):
        return message
    mark = {"cache_control": {"type": "ephemeral"}}
    return {**message, "content": [*parts[:-1], {**parts[-1], **mark}]}


@pytest.mark.parametrize("seed", range(START, START + HISTORIES // 4))
def test_recall_gives_back_every_letter_that_was_left_out(seed: int) -> None:
    _, request = random_request(seed)
    compacted = weft.compact(request, C.default().compact(results=64))
    texts = [*_texts(request)]
    # a result of two texts is one to a model
    originals = {_bare(one) for one in (*texts, *(one + one for one in texts))}
    for one in compacted.left_out:
        pages, more = list[str](), True
        while more:
            page = compacted.look_up({"handle": one.handle, "page": len(pages) + 1})
            head, _, rest = page.partition("\n")
            more = "; more: recall(" in head
            pages.append(rest if head.startswith("[page ") else page)
        got = "".join(pages)
        if not got.startswith("{"):  # an object is shown field by field
            assert _bare(got) in originals, one


def _texts(value: object) -> Iterator[str]:
    """Every text in a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _bare(text: str) -> str:
    """A text without breaks: very long lines are shown in pieces."""
    return text.replace("\n", "")


def test_a_request_is_read_as_if_none_had_been_read_before() -> None:
    chance = random.Random(7)
    requests = [random_request(seed) for seed in range(24)]
    for _ in range(200):  # grown, cut, changed and forked ones, and more than are remembered
        dialect, request = chance.choice(requests)
        talk = TALKS[dialect]
        part = talk.messages(request)[: chance.randint(0, len(talk.messages(request)))]
        if part and chance.random() < 0.3:
            part[-1] = {**part[-1], "odd": chance.randint(1, 3)}
        layout = chance.choice([None, 1])
        raw = json.dumps(talk.with_messages(request, part), indent=layout).encode()
        body = read_body(raw, chance.choice([dialect, None]))
        assert body.wire == json.loads(raw)
        assert [json.loads(key) for key in body.keys] == body.messages == part
        assert body.raw is None or all(key in raw for key in body.keys)
        chain, hashed = list[bytes](), sha256(b"start").digest()
        for key in body.keys:
            hashed = sha256(hashed + key).digest()
            chain.append(hashed)
        assert chain_hashes(body.keys, b"start") == chain
