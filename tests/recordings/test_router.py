"""A router and its agents, as google-adk's spans have them: each call once, and whose it is."""

import json
from itertools import count
from pathlib import Path
from typing import Any

from weft import C
from weft.inspector import Inspection, Variant
from weft.recordings import Recording, read_file, recording_of
from weft.recordings.read import read_recordings
from weft.replay.evidence import uses_of
from weft.replay.replay import replay, requests_of

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
    # two traces of one session are one recording, with a lane for each agent
    (frames,) = [one.film()["frames"] for one in inspections]
    lanes = [(one["agent"], one["scope"]) for one in frames]
    flights, billing = ("flights", "conversation 2"), ("billing", "conversation 3")
    assert lanes == [("router", ""), *[flights] * 3, *[billing] * 2]
    assert [one["invocation"] for one in frames] == ["i1"] * 3 + ["i2"] * 3


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


class Traced:
    """Spans as an exporter writes them, in the order in which they end."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Value]] = []
        self._ticks = count(1_790_000_000)
        self._ids = count(1)

    def span(self, name: str, parent: str = "", trace: str = "t1", **attributes: Value) -> str:
        """A span that has begun; it ends with its last call."""
        id = f"s{next(self._ids)}"
        now = next(self._ticks)
        self.lines.append(
            {
                "name": name,
                "context": {"trace_id": trace, "span_id": id},
                "parent_id": parent,
                "start_time": now * 10**9,
                "end_time": now * 10**9 + 5 * 10**8,
                "attributes": {key.replace("__", "."): one for key, one in attributes.items()},
            }
        )
        return id

    def agent(self, name: str, parent: str = "", trace: str = "t1") -> str:
        """The span of an agent."""
        return self.span(f"invoke_agent {name}", parent, trace, gen_ai__agent__name=name)

    def ask(self, messages: list[dict[str, Value]], answer: dict[str, Value], parent: str,
            trace: str = "t1") -> None:  # fmt: skip
        """The span of a model's call."""
        kinds = {
            "gen_ai__operation__name": "chat",
            "gen_ai__request__model": "gpt-5",
            "gen_ai__input__messages": json.dumps([*map(in_parts, messages)]),
            "gen_ai__output__messages": json.dumps([in_parts(answer)]),
        }
        self.span("chat gpt-5", parent, trace, **kinds)

    def read(self) -> list[Recording]:
        """The spans as a file of them is read; the last that began may stand first."""
        data = "\n".join(json.dumps(one) for one in reversed(self.lines))
        return [*read_recordings(data.encode(), name="spans.jsonl")]


def in_parts(message: dict[str, Value]) -> dict[str, Value]:
    """A message as GenAI conventions write it."""
    if "call" in message:
        id, task = message["call"]
        call = {"type": "tool_call", "id": id, "name": "ask_flights", "arguments": {"task": task}}
        return {"role": "assistant", "parts": [call]}
    if "result" in message:
        id, text = message["result"]
        part = {"type": "tool_call_response", "id": id, "response": text}
        return {"role": "tool", "parts": [part]}
    return {"role": message["role"], "parts": [{"type": "text", "content": message["text"]}]}


def say(role: str, text: str) -> dict[str, Value]:
    return {"role": role, "text": text}


def run_router(traced: Traced, words: str, parent: str = "", *, named: bool = True) -> None:
    """A router that asks another agent twice, as a tool, and both times is told the same."""
    router = traced.agent("router", parent) if named else traced.span("step", parent)
    said = [say("system", "You route."), say("user", words)]
    for number in (1, 2):
        id, task = f"{words}-{number}", f"Find flights for {words}, day {number}."
        asks: dict[str, Value] = {"call": (id, task)}
        traced.ask(said, asks, router)
        tool = traced.span("execute_tool ask_flights", router)
        flights = traced.agent("flights", tool) if named else traced.span("step", tool)
        traced.ask(
            [say("system", "You fly."), say("user", task)], say("assistant", "WF 1"), flights
        )
        said += [asks, {"result": (id, "WF 1")}]
    traced.ask(said, say("assistant", "Take WF 1."), router)


def lanes_of(recording: Recording) -> list[tuple[str, str]]:
    """The agent and the lane of each call."""
    frames = Inspection.of_recording(recording).film()["frames"]
    return [(one["agent"], one["scope"]) for one in frames]


def requests_in(recording: Recording) -> list[tuple[str, list[str]]]:
    """What was said first in each request, and what kinds of words follow."""
    steps = Inspection.of_recording(recording).steps
    prompts = [step.request.prompt for step in steps if step.request is not None]
    return [(str(one.items[0].blocks), [item.kind for item in one.items]) for one in prompts]


RUN = [("router", ""), ("flights", "conversation 2"), ("router", ""),
       ("flights", "conversation 3"), ("router", "")]  # fmt: skip


def test_an_agent_that_is_called_as_a_tool_has_a_lane_for_each_call() -> None:
    traced = Traced()
    run_router(traced, "Oslo")
    (recording,) = traced.read()
    assert lanes_of(recording) == RUN
    assert [one.source.partition(": ")[0] for one in recording.exchanges] == [
        f"spans.jsonl:{len(traced.lines) - at}"
        for at, one in enumerate(traced.lines)
        if one["name"] == "chat gpt-5"
    ]
    inspection = Inspection.of_recording(recording)
    # a what-if under plain history is what was sent: no lane sees another one's words
    other = inspection.under(Variant(policy=str(C.default())))
    pairs = zip(inspection.steps, other.steps, strict=True)
    assert all(
        one.request and two.request and one.request.wire == two.request.wire for one, two in pairs
    )
    assert not any(step.request.prefix_break for step in inspection.steps if step.request)


def test_commands_count_the_calls_of_lanes_as_the_page_does() -> None:
    traced = Traced()
    run_router(traced, "Oslo")
    (recording,) = traced.read()
    inspection = Inspection.of_recording(recording)
    assert [(line.number, line.agent) for line in inspection.receipt().lines] == [
        (number, agent) for number, (agent, _) in enumerate(RUN, 1)
    ]
    trial = replay(recording, C.default(), uses=uses_of(recording.session.events))
    assert trial.requests == 5
    explained = [one for *_, one in requests_of(recording, C.default(), as_recorded=True)]
    systems = [one.prompt.system[0].text for one in explained]
    assert systems == ["You route.", "You fly.", "You route.", "You fly.", "You route."]
    # stored and read again, it has the lanes and what each request held
    stored = recording_of(recording.for_store())
    assert lanes_of(stored) == RUN
    kinds = [kinds for _, kinds in requests_in(recording)]
    assert [kinds for _, kinds in requests_in(stored)] == kinds
    assert [len(one) for one in kinds] == [1, 1, 3, 1, 5]
    for words, (first, _) in zip(
        ("Oslo", "day 1", "Oslo", "day 2", "Oslo"), requests_in(stored), strict=True
    ):
        assert words in first


def test_runs_side_by_side_in_one_trace_stay_apart_and_keep_their_lanes() -> None:
    traced = Traced()
    evaluation = traced.span("evaluation")
    for words in ("Oslo", "Rome", "Bergen"):
        run_router(traced, words, traced.span(f"case {words}", evaluation))
    recordings = traced.read()
    assert [lanes_of(one) for one in recordings] == [RUN] * 3
    firsts = [one.session.events[0].text for one in recordings]
    assert firsts == ["Oslo", "Rome", "Bergen"]


def test_conversations_that_share_a_trace_and_no_names_stay_apart() -> None:
    traced = Traced()
    run_router(traced, "Oslo", named=False)
    recordings = traced.read()
    assert sorted(len(lanes_of(one)) for one in recordings) == [1, 1, 3]
    assert {scope for one in recordings for _, scope in lanes_of(one)} == {""}


def test_an_agent_of_langgraph_is_called_as_its_graph_is() -> None:
    traced = Traced()

    def graph(name: str, parent: str, inside: str = "") -> str:
        """The span of a graph, and in it that of the node which asks its model."""
        of_node = {"ls_integration": "langgraph", "langgraph_node": inside}
        own = traced.span(name, parent, metadata=json.dumps(of_node))
        node = {"ls_integration": "langgraph", "langgraph_node": "agent"}
        kinds = {"openinference__span__kind": "AGENT", "metadata": json.dumps(node)}
        return traced.span("agent", own, **kinds)

    node = graph("router", "")
    router = traced.lines[0]["context"]["span_id"]
    said = [say("system", "You route."), say("user", "Oslo")]
    traced.ask(said, say("assistant", "flights"), node)
    # a graph that is a node of another one, and one that a tool calls
    task = [say("system", "You fly."), say("user", "Fly to Oslo.")]
    traced.ask(task, say("assistant", "WF 1"), graph("flights", router, inside="flights"))
    task = [say("system", "You quote."), say("user", "Quote Oslo.")]
    traced.ask(task, say("assistant", "10"), graph("billing", router, inside="tools"))
    (recording,) = traced.read()
    flights, billing = ("flights", "conversation 2"), ("billing", "conversation 3")
    assert lanes_of(recording) == [("router", ""), flights, billing]
