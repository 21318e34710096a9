"""OpenAI's client and runs that wait: the answer asks, the next message replies."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.live import openai_client, serving
from tests.support.late import late
from weft import Agent, Gate, ToolContext, tool
from weft.declare import Node
from weft.server import app
from weft.testing import ScriptedModel, call

if TYPE_CHECKING:
    import openai
else:
    openai = late("openai")

paid: list[int] = []


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return f"paid {amount}"


@tool(long_running=True)
def order(what: str, ctx: ToolContext) -> None:
    """Order."""


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


@contextmanager
def client_of(root: Node, tmp_path: Path) -> "Iterator[openai.OpenAI]":
    with (
        serving(app(root, store=f"sqlite:///{tmp_path}/weft.db")) as live,
        openai_client(live) as client,
    ):
        yield client


def payer(*script: object) -> Agent:
    return Agent("bot", model=ScriptedModel([*script]), tools=[pay, order])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_says_what_it_waits_for(tmp_path: Path, streamed: bool) -> None:
    with client_of(payer(call("pay", amount=90), "Paid."), tmp_path) as client:
        if streamed:
            with client.responses.stream(model="bot", input="pay 90") as stream:
                kinds = [event.type for event in stream]
                first = stream.get_final_response()
            assert kinds == [
                "response.created", "response.in_progress", "response.output_item.added",
                "response.content_part.added", "response.output_text.delta",
                "response.output_text.done", "response.content_part.done",
                "response.output_item.done", "response.completed",
            ]  # fmt: skip
        else:
            first = client.responses.create(model="bot", input="pay 90")
        assert first.output_text.startswith('Waiting for approval: `pay` with {"amount":90}.')
        assert 'Reply "approve", or "deny: why not".' in first.output_text
        assert paid == []
        second = client.responses.create(
            model="bot", input="approve", previous_response_id=first.id
        )
        assert (second.output_text, paid) == ("Paid.", [90])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_chat_without_a_session_finds_its_question(tmp_path: Path, streamed: bool) -> None:
    model = ScriptedModel([call("pay", amount=90), "As you wish."])
    agent = Agent("bot", model=model, tools=[pay])
    with client_of(agent, tmp_path) as client:
        messages: list[object] = [{"role": "user", "content": "pay 90"}]

        def say() -> str:
            if streamed:
                chunks = client.chat.completions.create(
                    model="bot",
                    messages=messages,  # type: ignore[arg-type]
                    stream=True,
                )
                return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            got = client.chat.completions.create(model="bot", messages=messages)  # type: ignore[arg-type]
            assert got.choices[0].finish_reason == "stop"
            return got.choices[0].message.content or ""

        asked = say()
        assert asked.startswith("Waiting for approval: `pay`")
        messages.append({"role": "assistant", "content": asked})
        messages.append({"role": "user", "content": "Deny: over the limit"})
        assert say() == "As you wish."
    assert paid == []
    (result,) = model.wires[-1]["contents"][-1]["parts"]  # type: ignore[index, call-overload]
    assert "over the limit" in str(result["functionResponse"]["response"])


def test_what_is_no_answer_is_a_message(tmp_path: Path) -> None:
    agent = payer(call("pay", amount=90), "It is for the rent.", "Paid.")
    with client_of(agent, tmp_path) as client:
        first = client.responses.create(model="bot", input="pay 90")
        why = client.responses.create(
            model="bot", input="Yes? What for?", previous_response_id=first.id
        )
        assert (why.output_text, paid) == ("It is for the rent.", [])
        done = client.responses.create(model="bot", input="ok.", previous_response_id=why.id)
        assert (done.output_text, paid) == ("Paid.", [90])


def test_a_result_of_the_call_answers(tmp_path: Path) -> None:
    agent = payer(call("order", what="tea"), "It comes on Monday.")
    with client_of(agent, tmp_path) as client:
        first = client.responses.create(model="bot", input="order tea")
        assert "Waiting for the result of `order`" in first.output_text
        call_id = first.output_text.partition("the call ")[2].partition(".")[0]
        second = client.responses.create(
            model="bot",
            input=[{"type": "function_call_output", "call_id": call_id, "output": '"Monday"'}],
            previous_response_id=first.id,
        )
        assert second.output_text == "It comes on Monday."


def test_several_questions_are_answered_by_their_ids(tmp_path: Path) -> None:
    agent = payer([call("pay", amount=1), call("pay", amount=2)], "Paid one.")
    with client_of(agent, tmp_path) as client:
        headers = {"x-weft-session": "s"}

        def say(text: str) -> str:
            got = client.chat.completions.create(
                model="bot", messages=[{"role": "user", "content": text}], extra_headers=headers
            )
            return got.choices[0].message.content or ""

        asked = say("pay both").splitlines()
        ids = [line.partition('"approve ')[2].partition('"')[0] for line in asked[:2]]
        left = say(f"approve {ids[1]}")
        assert paid == [2]
        assert left.startswith('Waiting for approval: `pay` with {"amount":1}')
        assert say("no") == "Paid one."
    assert paid == [2]


def test_a_gate_takes_the_next_message(tmp_path: Path) -> None:
    model = ScriptedModel(["A draft.", "Sent."])
    writer, sender = Agent("writer", model=model), Agent("sender", model=model)
    flow = writer >> Gate("check", question="Send it?", choices=["Send", "Drop"]) >> sender
    with client_of(flow, tmp_path) as client:
        name = next(iter(client.models.list())).id
        first = client.responses.create(model=name, input="write")
        assert first.output_text.startswith("A draft.")
        assert "Waiting for an answer: Send it? (Send, Drop)" in first.output_text
        with pytest.raises(openai.UnprocessableEntityError, match="one of"):
            client.responses.create(model=name, input="Perhaps", previous_response_id=first.id)
        second = client.responses.create(model=name, input="send", previous_response_id=first.id)
        assert second.output_text.endswith("Sent.")


def test_an_unknown_conversation_is_refused(tmp_path: Path) -> None:
    with client_of(payer("Hello."), tmp_path) as client:
        with pytest.raises(openai.NotFoundError, match="there is no conversation"):
            client.responses.create(model="bot", input="hi", conversation="conv_of_yesterday")
        made = client.conversations.create()
        got = client.responses.with_raw_response.create(
            model="bot", input="hi", conversation=made.id
        )
        assert got.headers["x-weft-session"] == made.id
