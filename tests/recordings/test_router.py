"""A router and its agents, as google-adk's spans have them: each call once, and whose it is."""

import json
from pathlib import Path
from typing import Any

from weft.inspector import Inspection
from weft.recordings import read_file

PATH = Path(__file__).parent / "router.jsonl"

Value = Any
"""JSON of a stranger."""


def spans_of_models() -> list[dict[str, Value]]:
    """The calls of models in the file, in the order of time, each with its attributes alone."""
    spans = [json.loads(line) for line in PATH.read_text("utf-8").splitlines()]
    calls = [
        one for one in spans if one["attributes"]["gen_ai.operation.name"] == "generate_content"
    ]
    return [one["attributes"] for one in sorted(calls, key=lambda one: one["start_time"])]


def texts_in(value: Value) -> list[str]:
    """All that is said, called and returned in messages, in order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in texts_in(one)]
    keys = ("parts", "content", "name", "arguments", "response", "agent_name", "city", "flights")
    inner = value.items() if isinstance(value, dict) else ()
    return [text for key, one in inner if key in keys for text in texts_in(one)]


def test_each_call_is_read_once_with_the_agent_that_made_it() -> None:
    inspections = [Inspection.of_recording(one) for one in read_file(PATH)]
    calls = [call for one in inspections for call in one.exchanges]
    calls.sort(key=lambda call: call.started or 0.0)
    own = spans_of_models()
    assert [call.agent for call in calls] == [one["gen_ai.agent.name"] for one in own]
    assert [call.model for call in calls] == [one["gen_ai.request.model"] for one in own]
    assert [call.usage.prompt_token_count for call in calls if call.usage] == [
        one["gen_ai.usage.input_tokens"] for one in own
    ]
    lanes = [[frame["agent"] for frame in one.film()["frames"]] for one in inspections]
    assert lanes == [["router"], ["flights"] * 3, ["billing"] * 2]


def test_the_requests_are_what_the_models_were_sent() -> None:
    inspections = [Inspection.of_recording(one) for one in read_file(PATH)]
    calls = [call for one in inspections for call in one.exchanges]
    calls.sort(key=lambda call: call.started or 0.0)
    for call, own in zip(calls, spans_of_models(), strict=True):
        sent = json.dumps(call.body, ensure_ascii=False)
        for text in texts_in(json.loads(own["gen_ai.input.messages"])):
            assert json.dumps(text, ensure_ascii=False)[1:-1] in sent
        tools = {one["name"] for one in json.loads(own["gen_ai.tool.definitions"])}
        declared = {str(one.get("function", one)["name"]) for one in call.tools}
        assert declared == tools


def test_a_transfer_is_the_call_that_the_agent_made() -> None:
    recordings = [*read_file(PATH)]
    made = [
        (call.name, call.args)
        for one in recordings
        for event in one.session.events
        if one.is_recorded(event)
        for call in event.calls
    ]
    assert made == [
        ("transfer_to_agent", {"agent_name": "flights"}),
        ("find_flights", {"city": "Oslo"}),
        ("transfer_to_agent", {"agent_name": "billing"}),
        ("quote", {"city": "Oslo"}),
    ]
    # each agent goes on with what the one before it had said
    assert [one.parent for one in recordings] == ["", recordings[0].id, recordings[1].id]
