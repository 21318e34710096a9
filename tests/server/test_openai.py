"""OpenAI's own client against a served agent: every event in its order, not only those it needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.live import openai_client, serving
from tests.support.late import late
from weft import Agent, tool
from weft.server import app
from weft.testing import ScriptedModel, call, chunks, fails_after, usage

if TYPE_CHECKING:
    import openai
else:
    openai = late("openai")

TOOL = {
    "type": "function",
    "name": "look_up",
    "description": "Look something up.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
}
CHAT_TOOL = {"type": "function", "function": {k: v for k, v in TOOL.items() if k != "type"}}


@contextmanager
def client_of(model: ScriptedModel, tmp_path: Path, **options: object) -> "Iterator[openai.OpenAI]":
    agent = Agent("bot", model=model, instruction="Be kind.", **options)  # type: ignore[arg-type]
    with (
        serving(app(agent, store=f"sqlite:///{tmp_path}/weft.db")) as live,
        openai_client(live) as client,
    ):
        yield client


def test_models(tmp_path: Path) -> None:
    with client_of(ScriptedModel([]), tmp_path) as client:
        assert [model.id for model in client.models.list()] == ["bot"]
        assert client.models.retrieve("bot").owned_by == "weft"
        with pytest.raises(openai.NotFoundError, match="there is no app `gpt-9`"):
            client.models.retrieve("gpt-9")


def test_a_chat_in_one_piece(tmp_path: Path) -> None:
    model = ScriptedModel([usage("Hello.", prompt=20, output=3, cached=8, thoughts=2)])
    with client_of(model, tmp_path) as client:
        got = client.chat.completions.create(
            model="bot",
            temperature=0.5,
            max_tokens=50,
            messages=[
                {"role": "system", "content": "Talk like a pirate."},
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": "1"},
                {"role": "user", "content": "two"},
            ],
        )
    choice = got.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Hello.", "stop")
    assert got.usage is not None
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (20, 5)
    assert got.usage.prompt_tokens_details is not None
    assert got.usage.prompt_tokens_details.cached_tokens == 8
    (wire,) = model.wires
    assert wire["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 50}
    said = [(turn["role"], part["text"]) for turn in wire["contents"] for part in turn["parts"]]  # type: ignore[index, union-attr, call-overload]
    assert said == [
        ("user", "Talk like a pirate."),
        ("user", "one"),
        ("model", "1"),
        ("user", "two"),
    ]


def test_a_chat_is_streamed(tmp_path: Path) -> None:
    model = ScriptedModel([usage(chunks("He", "llo."), prompt=5, output=2)])
    with client_of(model, tmp_path) as client:
        got = list(
            client.chat.completions.create(
                model="bot",
                messages=[{"role": "user", "content": "hi"}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    deltas = [chunk.choices[0].delta.to_dict() for chunk in got[:-1]]
    assert deltas == [
        {"role": "assistant", "content": ""}, {"content": "He"}, {"content": "llo."}, {},
    ]  # fmt: skip
    assert [c.choices[0].finish_reason for c in got[:-1]] == [None, None, None, "stop"]
    assert got[-1].choices == []
    assert got[-1].usage is not None
    assert got[-1].usage.total_tokens == 7


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_tools_of_the_client_are_passed_on(tmp_path: Path, stateful: bool, streamed: bool) -> None:
    own: list[str] = []

    @tool
    def own_tool() -> str:
        """Own."""
        own.append("ran")
        return "own result"

    model = ScriptedModel([call("own_tool"), call("look_up", q="weft"), "It is a yarn."])
    with client_of(model, tmp_path, tools=[own_tool]) as client:
        headers = {"x-weft-session": "s"} if stateful else {}
        messages: list[object] = [{"role": "user", "content": "What is weft?"}]
        options = {"model": "bot", "tools": [CHAT_TOOL], "extra_headers": headers}
        if streamed:
            with client.chat.completions.stream(messages=messages, **options) as stream:  # type: ignore[arg-type]
                stream.until_done()
                first = stream.get_final_completion().choices[0]
        else:
            first = client.chat.completions.create(messages=messages, **options).choices[0]  # type: ignore[call-overload]
        assert first.finish_reason == "tool_calls"
        (made,) = first.message.tool_calls
        assert (made.function.name, made.function.arguments) == ("look_up", '{"q":"weft"}')
        messages.append({"role": "assistant", "content": None, "tool_calls": [made.model_dump()]})
        messages.append({"role": "tool", "tool_call_id": made.id, "content": '{"found": "yarn"}'})
        answer = client.chat.completions.create(messages=messages, **options)  # type: ignore[call-overload]
        assert answer.choices[0].message.content == "It is a yarn."
    assert own == ["ran"]
    last = model.wires[-1]["contents"][-1]  # type: ignore[index, call-overload]
    assert last["parts"][0]["functionResponse"]["response"] == {"found": "yarn"}


def test_every_event_of_a_response_in_its_order(tmp_path: Path) -> None:
    model = ScriptedModel([usage(chunks("It ", "is 5."), prompt=9, output=4, cached=2)])
    with (
        client_of(model, tmp_path) as client,
        client.responses.stream(model="bot", input="2 + 3?") as stream,
    ):
        kinds = [(event.type, event.sequence_number) for event in stream]
        final = stream.get_final_response()
    assert [kind for kind, _ in kinds] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.completed",
    ]  # fmt: skip
    assert [number for _, number in kinds] == [*range(len(kinds))]
    assert final.output_text == "It is 5."
    assert final.usage is not None
    assert final.usage.input_tokens_details.cached_tokens == 2
    assert final.usage.output_tokens == 4


def test_every_event_of_a_response_that_calls_the_client(tmp_path: Path) -> None:
    model = ScriptedModel([call("look_up", q="x"), "Found."])
    with client_of(model, tmp_path) as client:
        with client.responses.stream(model="bot", input="look", tools=[TOOL]) as stream:  # type: ignore[list-item]
            kinds = [event.type for event in stream]
            first = stream.get_final_response()
        assert kinds == [
            "response.created", "response.in_progress", "response.output_item.added",
            "response.function_call_arguments.delta", "response.function_call_arguments.done",
            "response.output_item.done", "response.completed",
        ]  # fmt: skip
        (made,) = first.output
        assert made.type == "function_call"
        second = client.responses.create(
            model="bot",
            previous_response_id=first.id,
            tools=[TOOL],  # type: ignore[list-item]
            input=[{"type": "function_call_output", "call_id": made.call_id, "output": "yes"}],
        )
        assert second.output_text == "Found."
        assert second.previous_response_id == first.id


def test_previous_responses_go_on_or_fork(tmp_path: Path) -> None:
    model = ScriptedModel(["1", "2", "other 2"])
    with client_of(model, tmp_path) as client:
        first = client.responses.create(model="bot", input="one")
        client.responses.create(model="bot", input="two", previous_response_id=first.id)
        client.responses.create(model="bot", input="again", previous_response_id=first.id)
        said = [_texts(wire) for wire in model.wires]
        assert said == [["one"], ["one", "1", "two"], ["one", "1", "again"]]
        with pytest.raises(openai.NotFoundError, match="there is no response"):
            client.responses.create(model="bot", input="x", previous_response_id="resp_nope")


def test_a_conversation_is_a_session(tmp_path: Path) -> None:
    model = ScriptedModel(["1", "2"])
    with client_of(model, tmp_path) as client:
        conversation = client.conversations.create()
        for text in ("one", "two"):
            client.responses.create(model="bot", input=text, conversation=conversation.id)
        assert _texts(model.wires[-1]) == ["one", "1", "two"]


def _texts(wire: object) -> list[str]:
    return [part["text"] for turn in wire["contents"] for part in turn["parts"]]  # type: ignore[index]


def test_what_is_wrong_is_told_as_the_client_reads_it(tmp_path: Path) -> None:
    with client_of(ScriptedModel([RuntimeError("no luck")]), tmp_path) as client:
        chat = client.chat.completions.create
        user = [{"role": "user", "content": "hi"}]
        with pytest.raises(openai.NotFoundError, match="there is no app"):
            chat(model="nobody", messages=user)  # type: ignore[call-overload]
        for options in (
            {"n": 2},
            {"modalities": ["text", "audio"]},
            {"extra_body": {"made_up": 1}},
            {"messages": []},
            {"messages": [{"role": "robot", "content": "x"}]},
            {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
            {"tools": [{"type": "code_interpreter"}]},
            {"temperature": "hot"},
        ):
            with pytest.raises(openai.UnprocessableEntityError):
                chat(**{"model": "bot", "messages": user, **options})  # type: ignore[call-overload]
        with pytest.raises(openai.InternalServerError, match="no luck"):
            chat(model="bot", messages=user)  # type: ignore[call-overload]
        with pytest.raises(openai.AuthenticationError, match="shows no valid token"):
            client.with_options(api_key="wrong").models.list()


def test_a_model_that_fails_in_mid_stream(tmp_path: Path) -> None:
    script = [fails_after("Half an", error=RuntimeError("boom")) for _ in range(2)]
    with client_of(ScriptedModel(script), tmp_path) as client:
        user = [{"role": "user", "content": "hi"}]
        with pytest.raises(openai.APIError, match="boom"):
            list(client.chat.completions.create(model="bot", messages=user, stream=True))  # type: ignore[call-overload]
        events = list(client.responses.create(model="bot", input="hi", stream=True))
        assert events[-1].type == "response.failed"
