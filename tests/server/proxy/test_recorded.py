"""A coding agent's recorded run through the proxy, request by request."""

import json

import httpx2

from tests.compaction.recorded import coding_run
from tests.server.proxy.talks import ANTHROPIC
from tests.server.proxy.upstream import Reply, Seen, proxying
from weft.dialects import refusals
from weft.passes.notes import HEADING, MORE

_NOTE = "olded steps"
"""In the heading of each note."""
assert _NOTE in HEADING
assert _NOTE in MORE


def test_a_recorded_run_gets_its_answers_and_requests_begin_with_each_other_but_at_a_fold() -> None:
    run = coding_run(steps=40)
    answers = [one["content"] for one in run.messages if one["role"] == "assistant"]

    def script(seen: Seen, number: int) -> Reply:
        return ANTHROPIC.answer(*answers[number])

    for policy in ("C.auto()", "C.default()"):
        with proxying(script, policy) as proxy, httpx2.Client(timeout=60) as client:
            came = [json.dumps(request).encode() for request in run.requests()]
            for request, answer in zip(came, answers, strict=True):
                body = client.post(proxy.url + ANTHROPIC.path, content=request).json()
                assert body["content"] == answer  # thinking with its signature too
            sent = [seen.body for seen in proxy.upstream.seen]
            assert not proxy.faults
        if policy == "C.default()":
            assert sent == came
            continue
        assert sum(map(len, sent)) < 0.95 * sum(map(len, came))
        before: list[object] = []
        notes: list[str] = []
        for request in map(json.loads, sent):
            assert not refusals(ANTHROPIC.name, request)
            messages = request["messages"]
            written = [text for text in map(json.dumps, messages) if _NOTE in text]
            if messages[: len(before)] != before:  # a note more, after the task and older notes
                assert messages[0] == before[0]
                assert written[:-1] == notes
            else:
                assert written == notes
            before, notes = messages, written
