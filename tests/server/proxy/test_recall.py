"""Recalls inside an answer: the client never sees one, and the conversation stays whole."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.proxy.talks import TALKS, Talk
from tests.server.proxy.upstream import Reply, Seen, proxying
from weft.dialects import stream_of
from weft.dialects.answers import answer_form
from weft.dialects.stream import Events
from weft.recordings.providers import body_of

POLICY = "C.default().compact()"


def handle_in(body: bytes) -> str:
    """A handle that stands in a request."""
    match = re.search(rb'handle=?\\?"?:? ?\\?"?([\w-]+)', body) or re.search(rb"#(\w+)", body)
    assert match is not None, body[:2000]
    return match[1].decode()


def recall(talk: Talk, seen: Seen, id: str) -> Any:
    """A call of recall for the second line of the result."""
    return talk.piece("call", id, ("recall", {"handle": handle_in(seen.body), "lines": "2-2"}))


def read_body(talk: Talk, answer: httpx2.Response) -> dict[str, Any]:
    """The whole answer, also of a stream."""
    value = answer.text
    return dict(body_of(value, talk.name))


def pieces_of(talk: Talk, body: dict[str, Any]) -> list[Any]:
    form = answer_form(talk.name)
    return [*form.open_turns(form.turns_of(body))]


def texts(talk: Talk, body: dict[str, Any]) -> str:
    from weft.dialects import lift

    return lift(talk.name, body).content.text  # type: ignore[union-attr]


def path_of(talk: Talk, *, stream: bool) -> str:
    return talk.stream_path if stream else talk.path


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_a_recall_is_answered_inside_and_comes_back_at_its_place(
    talk: Talk, tmp_path: Path
) -> None:
    for stream in (False, True):

        def script(seen: Seen, number: int, stream: bool = stream) -> Reply:
            if number == 0:
                asked = recall(talk, seen, "r1")
                return talk.answer(talk.piece("text", "t1", "Let me see. "), asked, stream=stream)
            if number == 1:
                return talk.answer(talk.piece("text", "t2", "Worker 1."), stream=stream)
            return talk.answer(talk.piece("text", "t3", "Bye."), stream=stream)

        file = tmp_path / f"{talk.name}-{stream}.db"
        with proxying(script, POLICY, path=file) as proxy, httpx2.Client(timeout=60) as client:
            request = talk.request(stream=stream)
            url = proxy.url + path_of(talk, stream=stream)
            body = read_body(talk, client.post(url, json=request))
            first, second = (seen.json for seen in proxy.upstream.seen)
            assert texts(talk, body) == "Let me see. Worker 1."
            assert "recall" not in json.dumps(pieces_of(talk, body))
            assert _total(talk, body) == (200, 20)
            # what was sent stays, and the recall and its result follow it
            before, after = talk.turns(first), talk.turns(second)
            assert after[: len(before)] == before
            assert "12:01 worker 1 finished in 7 ms" in json.dumps(after[len(before) :])
            assert first["tools"] == second["tools"]
            # the client goes on with what it saw
            form = answer_form(talk.name)
            said = [{"role": "user", **_words(talk, "Thanks.")}]
            again = talk.request(*form.turns_of(body), *said, stream=stream)
            client.post(url, json=again)
            third = talk.turns(proxy.upstream.seen[2].json)
            assert third[: len(after)] == after
            assert "Worker 1." in json.dumps(third[len(after) :])
            assert "Let me see" not in json.dumps(third[len(after) :])
            assert not proxy.faults
            sent = proxy.upstream.seen[2].body
        # another process, with nothing but the file
        with proxying(script, POLICY, path=file) as proxy, httpx2.Client(timeout=60) as client:
            client.post(proxy.url + path_of(talk, stream=stream), json=again)
            assert proxy.upstream.seen[0].body == sent


def _words(talk: Talk, text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]} if talk.name == "gemini" else {"content": text}


def _total(talk: Talk, body: dict[str, Any]) -> tuple[int, int]:
    from weft.dialects import lift

    usage = lift(talk.name, body).usage
    assert usage is not None
    return usage.prompt_token_count or 0, usage.candidates_token_count or 0


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_a_recall_next_to_a_tool_of_the_client_comes_with_its_results(
    talk: Talk, tmp_path: Path
) -> None:
    for stream in (False, True):

        def script(seen: Seen, number: int, stream: bool = stream) -> Reply:
            if number == 0:
                own = talk.piece("call", "own", ("look", {"x": 1}))
                return talk.answer(recall(talk, seen, "r1"), own, stream=stream)
            return talk.answer(talk.piece("text", "t", "Done."), stream=stream)

        file = tmp_path / f"{talk.name}-{stream}.db"
        with proxying(script, POLICY, path=file) as proxy, httpx2.Client(timeout=60) as client:
            url = proxy.url + path_of(talk, stream=stream)
            body = read_body(talk, client.post(url, json=talk.request(stream=stream)))
            assert len(proxy.upstream.seen) == 1
            form = answer_form(talk.name)
            turns = form.turns_of(body)
            assert [form.call_name(one) for one in form.open_turns(turns)] == ["look"]
            result = form.result_turns([_result(talk)])
            again = talk.request(*turns, *result, stream=stream)
            client.post(url, json=again)
            sent = proxy.upstream.seen[1]
            new = talk.turns(sent.json)[3:]
            names = [
                form.call_name(one) for one in form.open_turns([t for t in new if form.is_model(t)])
            ]
            assert names == ["recall", "look"]
            assert "12:01 worker 1 finished" in json.dumps(new)
            assert not proxy.faults
        with proxying(script, POLICY, path=file) as proxy, httpx2.Client(timeout=60) as client:
            client.post(proxy.url + path_of(talk, stream=stream), json=again)
            assert proxy.upstream.seen[0].body == sent.body


def _result(talk: Talk) -> dict[str, Any]:
    match talk.name:
        case "openai-chat":
            return {"role": "tool", "tool_call_id": "own", "content": "seen"}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": "own", "output": "seen"}
        case "anthropic":
            return {"type": "tool_result", "tool_use_id": "own", "content": "seen"}
        case _:
            return {"functionResponse": {"name": "look", "response": {"result": "seen"}}}


def events_of(text: str) -> Iterator[dict[str, Any]]:
    reader = Events()
    for _, data in (*reader.feed(text.encode()), *reader.end()):
        yield json.loads(data)


def test_two_clients_with_the_same_history_keep_their_own_recalls() -> None:
    talk = TALKS[0]

    def script(seen: Seen, number: int) -> Reply:
        if number in (0, 2):
            return talk.answer(recall(talk, seen, f"r{number}"))
        return talk.answer(talk.piece("text", "t", f"Answer {number}."))

    with proxying(script, POLICY) as proxy, httpx2.Client(timeout=60) as client:
        url = proxy.url + talk.path
        bodies = [client.post(url, json=talk.request()).json() for _ in range(2)]
        for body, id in zip(bodies, ("r0", "r2"), strict=True):
            said = [body["choices"][0]["message"], {"role": "user", "content": "And?"}]
            client.post(url, json=talk.request(*said))
            assert f'"{id}"' in proxy.upstream.seen[-1].body.decode()


def test_a_store_that_is_full_costs_nothing_but_the_restart(tmp_path: Path) -> None:
    talk = TALKS[2]

    def script(seen: Seen, number: int) -> Reply:
        return talk.answer(
            recall(talk, seen, "r1") if number == 0 else talk.piece("text", "t", "A")
        )

    with (
        proxying(script, POLICY, path=tmp_path / "p.db") as proxy,
        httpx2.Client(timeout=60) as client,
    ):
        connection = proxy.application.log.store._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}")
        # what fits into the last pages is written, so they are filled first
        store, number = proxy.application.log.store, 0
        while not store.faults:
            number += 1
            store._write("INSERT INTO facts VALUES (?, ?)", f"{number}" + "x" * 900, "")
        url = proxy.url + talk.path
        body = client.post(url, json=talk.request()).json()
        said = [{"role": "assistant", "content": body["content"]}, {"role": "user", "content": "?"}]
        client.post(url, json=talk.request(*said))
        assert "r1" in proxy.upstream.seen[-1].body.decode()
        assert client.post(url, json=talk.request()).status_code == 200


def test_a_model_that_recalls_for_ever_gets_the_whole_request() -> None:
    talk = TALKS[2]

    def script(seen: Seen, number: int) -> Reply:
        if b"recall" not in seen.body:
            return talk.answer(talk.piece("text", "t", "At last."))
        return talk.answer(recall(talk, seen, f"r{number}"))

    with proxying(script, POLICY) as proxy, httpx2.Client(timeout=60) as client:
        body = client.post(proxy.url + talk.path, json=talk.request()).json()
        assert texts(talk, body) == "At last."
        assert proxy.upstream.seen[-1].json == talk.request()
        assert proxy.faults == {"recall": 1}


def test_a_second_answer_that_fails_is_told_in_the_stream() -> None:
    talk = TALKS[2]

    def script(seen: Seen, number: int) -> Reply:
        if number:
            return Reply(b'{"type":"error","error":{"type":"overloaded_error"}}', 529)
        asked = recall(talk, seen, "r1")
        return talk.answer(talk.piece("text", "t1", "Let me see."), asked, stream=True)

    with proxying(script, POLICY) as proxy, httpx2.Client(timeout=60) as client:
        answer = client.post(proxy.url + talk.path, json=talk.request(stream=True))
        *_, last = events_of(answer.text)
        assert last["type"] == "error"
        assert "529" in last["error"]["message"]


def test_streams_keep_the_order_that_clients_rely_on() -> None:
    for talk in TALKS[1:3]:

        def script(seen: Seen, number: int, talk: Talk = talk) -> Reply:
            text = talk.piece("text", f"t{number}", "Hm. ")
            if number == 0:
                return talk.answer(text, recall(talk, seen, "r1"), stream=True)
            return talk.answer(text, talk.piece("call", "own", ("look", {})), stream=True)

        with proxying(script, POLICY) as proxy, httpx2.Client(timeout=60) as client:
            answer = client.post(proxy.url + talk.path, json=talk.request(stream=True))
        events = [*events_of(answer.text)]
        kinds = [event["type"] for event in events]
        stream = stream_of(talk.name)
        for event in events:
            stream.feed("", event)
        assert len(pieces_of(talk, dict(stream.body()))) == 3
        key = "index" if talk.name == "anthropic" else "output_index"
        begun = [event[key] for event in events if event["type"].endswith(("_start", ".added"))
                 and key in event]  # fmt: skip
        assert sorted(set(begun)) == [0, 1, 2]
        assert kinds.count(kinds[0]) == kinds.count(kinds[-1]) == 1
        if talk.name == "openai-responses":
            assert [event["sequence_number"] for event in events] == [*range(len(events))]
