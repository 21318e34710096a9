"""A coding agent's recorded run through the proxy, request by request."""

import json

import httpx2

from tests.compaction.recorded import coding_run
from tests.server.proxy.talks import ANTHROPIC
from tests.server.proxy.upstream import Reply, Seen, proxying
from weft.dialects import refusals


def test_a_recorded_run_gets_its_answers_and_each_request_begins_with_the_one_before() -> None:
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
        for request in map(json.loads, sent):
            assert not refusals(ANTHROPIC.name, request)
            assert request["messages"][: len(before)] == before
            before = request["messages"]
