"""OpenAI's own client reads, lists and deletes what it made: the log answers, not the process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.live import Live, openai_client, serving
from tests.server.test_openai import TOOL
from tests.support.build import wait_for
from tests.support.late import late
from weft import Agent, tool
from weft.server import Tokens, app
from weft.testing import ScriptedModel, call, chunks, fails_after, usage

if TYPE_CHECKING:
    import openai
else:
    openai = late("openai")


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@contextmanager
def live_with(tmp_path: Path, *script: object, **options: object) -> Iterator[Live]:
    model = ScriptedModel([*script])  # type: ignore[list-item]
    agent = Agent("bot", model=model, tools=[pay])
    with serving(app(agent, store=f"sqlite:///{tmp_path}/weft.db", **options)) as live:  # type: ignore[arg-type]
        yield live


def create(client: "openai.OpenAI", streamed: bool, **options: object) -> Any:
    if not streamed:
        return client.responses.create(model="bot", **options)  # type: ignore[call-overload]
    *_, last = client.responses.create(model="bot", stream=True, **options)  # type: ignore[call-overload]
    return last.response


def plain(response: Any) -> object:
    """A response as the JSON that was sent."""
    return response.to_dict()


@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_retrieved_is_what_was_made(tmp_path: Path, streamed: bool) -> None:
    script = (
        usage(chunks("Hel", "lo."), prompt=20, output=3, cached=8, thoughts=2),
        call("look_up", q="weft"),
        "A yarn.",
        call("pay", amount=9),
        "Paid.",
    )
    with live_with(tmp_path, *script) as live, openai_client(live) as client:
        first = create(client, streamed, input="hi", metadata={"case": "7"}, instructions="Short.")
        asking = create(
            client, streamed, input="weft?", tools=[TOOL], previous_response_id=first.id
        )
        (made,) = asking.output
        output = {"type": "function_call_output", "call_id": made.call_id, "output": "yarn"}
        found = create(
            client, streamed, input=[output], tools=[TOOL], previous_response_id=asking.id
        )
        question = create(client, streamed, input="pay 9", previous_response_id=found.id)
        paid = create(client, streamed, input="approve", previous_response_id=question.id)
        made_so_far = [first, asking, found, question, paid]
        assert len({one.id for one in made_so_far}) == 5
        for one in made_so_far:
            assert plain(client.responses.retrieve(one.id)) == plain(one)
        assert first.usage is not None
        assert (first.usage.input_tokens, first.usage.output_tokens) == (20, 5)
        assert (first.status, first.metadata, first.instructions) == (
            "completed", {"case": "7"}, "Short.",
        )  # fmt: skip
        assert (found.output_text, paid.output_text) == ("A yarn.", "Paid.")
        assert question.output_text.startswith("Waiting for approval")
        inputs: list[list[dict[str, Any]]] = [
            [item.to_dict() for item in client.responses.input_items.list(one.id)]
            for one in made_so_far
        ]
    texts = [
        [part["text"] for item in items for part in item.get("content", [])] for items in inputs
    ]
    assert texts == [["hi"], ["weft?"], [], ["pay 9"], ["approve"]]
    assert [(item["type"], item["output"]) for item in inputs[2]] == [
        ("function_call_output", "yarn")
    ]
    with live_with(tmp_path) as live, openai_client(live) as client:  # another process, as it were
        for one in made_so_far:
            assert plain(client.responses.retrieve(one.id)) == plain(one)


def test_a_response_that_was_cut_says_so_both_times(tmp_path: Path) -> None:
    with live_with(tmp_path, _cut("It is")) as live, openai_client(live) as client:
        made = client.responses.create(model="bot", input="hi")
        assert made.status == "incomplete"
        assert made.incomplete_details is not None
        assert made.incomplete_details.reason == "max_output_tokens"
        assert plain(client.responses.retrieve(made.id)) == plain(made)


def _cut(text: str) -> object:
    from weft.content import Content, Part
    from weft.models import ModelResponse

    return ModelResponse(
        content=Content(role="model", parts=(Part(text=text),)), finish_reason="MAX_TOKENS"
    )


def test_input_items_come_in_pages(tmp_path: Path) -> None:
    history = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
        {"role": "user", "content": "and three"},
    ]
    with live_with(tmp_path, "2, 3") as live, openai_client(live) as client:
        made = client.responses.create(model="bot", input=history, instructions="Count.")  # type: ignore[arg-type]
        items = client.responses.input_items
        every = items.list(made.id, order="asc").data
        said = [(item.role, item.content[0].text) for item in every]  # type: ignore[union-attr, index]
        assert said == [
            ("user", "one"), ("assistant", "1"), ("user", "two"), ("user", "and three"),
        ]  # fmt: skip
        ids = [item.id for item in every]
        assert len({*ids}) == 4
        assert [item.id for item in items.list(made.id, limit=1)] == ids[::-1]  # page by page
        page = items.list(made.id, limit=2, order="asc", after=str(ids[0]))
        assert [item.id for item in page.data] == ids[1:3]
        assert page.has_more
        for wrong in ({"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": "msg_nope"}):
            with pytest.raises(openai.UnprocessableEntityError):
                items.list(made.id, **wrong)


def test_a_deleted_response_is_gone_and_others_go_on(tmp_path: Path) -> None:
    with live_with(tmp_path, "1", "2", "3") as live, openai_client(live) as client:
        first = client.responses.create(model="bot", input="one")
        second = client.responses.create(model="bot", input="two", previous_response_id=first.id)
        client.responses.delete(first.id)
        for gone in (
            lambda: client.responses.retrieve(first.id),
            lambda: client.responses.delete(first.id),
            lambda: client.responses.input_items.list(first.id),
            lambda: client.responses.create(model="bot", input="x", previous_response_id=first.id),
        ):
            with pytest.raises(openai.NotFoundError, match="there is no response"):
                gone()
        assert plain(client.responses.retrieve(second.id)) == plain(second)
        third = client.responses.create(model="bot", input="three", previous_response_id=second.id)
        assert third.output_text == "3"
        with live.client() as http:
            (session,) = http.get("/api/apps/bot/sessions").json()["sessions"]
        assert session["id"].startswith("chat-")  # a mark is no reason for a copy
    with live_with(tmp_path) as live, openai_client(live) as client:
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)
        assert client.responses.retrieve(third.id).output_text == "3"


def test_ids_that_nobody_made(tmp_path: Path) -> None:
    import base64

    def named(text: str) -> str:
        return "resp_" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    with live_with(tmp_path, "1") as live, openai_client(live) as client:
        made = client.responses.create(model="bot", input="one")
        wrong = [
            "x", "resp_", "resp_nope", "resp_%FF", "resp_😀", made.id[:-3], f"{made.id}AAAA",
            made.id.removeprefix("resp_"), named("\n\n"), named("s\nr"), named("s\nr\n-1"),
            named("s\nr\n99999999999999999999"), named("s\nr\n²"), named("\x00\nr\n0"),
            named("s" * 2000 + "\nr\n0"), "resp_" + "A" * 5000,
        ]  # fmt: skip
        for id in wrong:
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(id)
            with pytest.raises(openai.NotFoundError):
                client.responses.delete(id)
            with pytest.raises(openai.NotFoundError):
                client.conversations.retrieve(id)
        with pytest.raises(openai.ConflictError, match="in the background"):
            client.responses.cancel(made.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.cancel("resp_nope")
        with pytest.raises(openai.UnprocessableEntityError, match="not streamed"):
            list(client.responses.retrieve(made.id, stream=True))


def test_nobody_sees_what_is_anothers(tmp_path: Path) -> None:
    tokens = Tokens({"ann": "a" * 40, "bob": "b" * 40})
    with (
        live_with(tmp_path, "1", auth=tokens) as live,
        openai.OpenAI(base_url=f"{live.url}/v1", api_key="a" * 40, max_retries=0) as ann,
        openai.OpenAI(base_url=f"{live.url}/v1", api_key="b" * 40, max_retries=0) as bob,
    ):
        talk = ann.conversations.create(metadata={"topic": "x"})
        made = ann.responses.create(model="bot", input="one", conversation=talk.id)
        for foreign in (
            lambda: bob.responses.retrieve(made.id),
            lambda: bob.responses.delete(made.id),
            lambda: bob.responses.input_items.list(made.id),
            lambda: bob.responses.cancel(made.id),
            lambda: bob.conversations.retrieve(talk.id),
            lambda: bob.conversations.delete(talk.id),
            lambda: bob.responses.create(model="bot", input="x", conversation=talk.id),
        ):
            with pytest.raises(openai.NotFoundError):
                foreign()
        assert ann.responses.retrieve(made.id).output_text == "1"
        assert ann.conversations.retrieve(talk.id).metadata == {"topic": "x"}


def test_a_conversation_is_retrieved_and_deleted(tmp_path: Path) -> None:
    with live_with(tmp_path, "1") as live, openai_client(live) as client:
        made = client.conversations.create(metadata={"topic": "x"})
        assert client.conversations.retrieve(made.id) == made
        answer = client.responses.create(model="bot", input="one", conversation=made.id)
        assert answer.conversation is not None
        assert answer.conversation.id == made.id
        assert client.conversations.retrieve(made.id) == made
        assert plain(client.responses.retrieve(answer.id)) == plain(answer)
    with live_with(tmp_path) as live, openai_client(live) as client:
        assert client.conversations.retrieve(made.id) == made
        gone = client.conversations.delete(made.id)
        assert (gone.id, gone.deleted, gone.object) == (made.id, True, "conversation.deleted")
        for lost in (
            lambda: client.conversations.retrieve(made.id),
            lambda: client.conversations.delete(made.id),
            lambda: client.responses.retrieve(answer.id),
            lambda: client.responses.create(model="bot", input="x", conversation=made.id),
        ):
            with pytest.raises(openai.NotFoundError):
                lost()


def test_a_conversation_may_be_with_any_app(tmp_path: Path) -> None:
    bots = [Agent(name, model=ScriptedModel([name])) for name in ("one", "two")]
    with (
        serving(app(*bots, store=f"sqlite:///{tmp_path}/weft.db")) as live,
        openai_client(live) as client,
    ):
        talk = client.conversations.create()
        made = client.responses.create(model="two", input="hi", conversation=talk.id)
        assert (made.output_text, made.model) == ("two", "two")
        assert plain(client.responses.retrieve(made.id)) == plain(made)
        client.conversations.delete(talk.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)


def test_the_note_of_a_request_that_was_refused_is_not_anothers(tmp_path: Path) -> None:
    with live_with(tmp_path, "1", "2") as live, openai_client(live) as client:
        headers = {"x-weft-session": "s"}
        client.responses.create(model="bot", input="one", extra_headers=headers)
        wrong: Any = {"type": "function_call_output", "call_id": "nope", "output": "x"}
        with pytest.raises(openai.UnprocessableEntityError):
            client.responses.create(
                model="bot",
                input=[wrong],
                metadata={"a": "b"},
                extra_headers=headers,
            )
        made = client.responses.create(model="bot", input="two", extra_headers=headers)
        assert (made.output_text, made.metadata) == ("2", {})
        assert plain(client.responses.retrieve(made.id)) == plain(made)


def test_a_response_that_failed_is_retrieved_as_failed(tmp_path: Path) -> None:
    script = fails_after("It is", error=RuntimeError("no more"))
    with live_with(tmp_path, script) as live, openai_client(live) as client:
        made = create(client, True, input="hi")
        assert (made.status, made.usage) == ("failed", None)
        got = client.responses.retrieve(made.id)
        assert (got.status, got.id, got.usage) == ("failed", made.id, None)
        assert got.error is not None
        assert got.error.message == made.error.message


def test_a_response_under_way_is_in_progress(tmp_path: Path) -> None:
    go = threading.Event()
    agent = Agent("bot", model=ScriptedModel([call("wait"), "Done."]), tools=[wait_for(go)])
    with (
        serving(app(agent, store=f"sqlite:///{tmp_path}/weft.db")) as live,
        openai_client(live) as client,
    ):
        events = client.responses.create(model="bot", input="hi", stream=True)
        begun: Any = next(iter(events))
        early = client.responses.retrieve(begun.response.id)
        assert (early.status, early.output, early.usage) == ("in_progress", [], None)
        with pytest.raises(openai.ConflictError):
            client.responses.delete(early.id)
        go.set()
        *_, last = events
        assert last.type == "response.completed"
        assert plain(client.responses.retrieve(early.id)) == plain(last.response)


def test_a_response_that_is_not_stored_is_not_there(tmp_path: Path) -> None:
    with live_with(tmp_path, "1") as live, openai_client(live) as client:
        made = client.responses.create(model="bot", input="one", store=False)

        def retrieve() -> None:
            for _ in range(3000):  # its session is forgotten behind the answer
                client.responses.retrieve(made.id)
                time.sleep(0.02)

        with pytest.raises(openai.NotFoundError):
            retrieve()


def test_the_description_lists_the_routes(tmp_path: Path) -> None:
    with live_with(tmp_path) as live, live.client() as http:
        paths = http.get("/openapi.json").json()["paths"]
    assert {*paths["/v1/responses/{response}"]} == {"get", "delete"}
    assert {*paths["/v1/conversations/{conversation}"]} == {"get", "post", "delete"}
    assert {*paths["/v1/conversations/{conversation}/items"]} == {"get", "post"}
    assert {*paths["/v1/conversations/{conversation}/items/{item}"]} == {"get", "delete"}
    listed = paths["/v1/responses/{response}/input_items"]["get"]["parameters"]
    assert [one["name"] for one in listed] == ["response", "limit", "after", "order"]
    listed = paths["/v1/conversations/{conversation}/items"]["get"]["parameters"]
    assert [one["name"] for one in listed] == ["conversation", "limit", "after", "order"]
