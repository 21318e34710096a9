"""A log of calls is read as the conversations that were held: a request for each call, no more."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.run import weft
from weft import C
from weft.inspector import Inspection
from weft.recordings import Recording, recording_of
from weft.recordings.read import files_in, read_files, read_recordings
from weft.replay.evidence import Uses
from weft.replay.replay import replay, requests_of
from weft.values import Json, JsonObject

DIALECTS = ("openai-chat", "anthropic", "openai-responses", "gemini")


@dataclass(frozen=True)
class Said:
    """Something in a conversation: the user's words, an answer, a call, or its result."""

    who: str
    text: str
    id: str = ""


@dataclass
class Talk:
    """A conversation on its way."""

    system: str
    said: list[Said] = field(default_factory=list)


def message(said: Said, dialect: str) -> JsonObject:
    """As a client sends it."""
    args = {"q": said.text}
    match dialect, said.who:
        case "openai-chat", "call":
            function = {"name": "look", "arguments": json.dumps(args)}
            calls = [{"id": said.id, "type": "function", "function": function}]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        case "openai-chat", "result":
            return {"role": "tool", "tool_call_id": said.id, "content": said.text}
        case "anthropic", "call":
            block = {"type": "tool_use", "id": said.id, "name": "look", "input": args}
            return {"role": "assistant", "content": [block]}
        case "anthropic", "result":
            block = {"type": "tool_result", "tool_use_id": said.id, "content": said.text}
            return {"role": "user", "content": [block]}
        case "openai-responses", "call":
            named = {"call_id": said.id, "name": "look", "arguments": json.dumps(args)}
            return {"type": "function_call", **named}
        case "openai-responses", "result":
            return {"type": "function_call_output", "call_id": said.id, "output": said.text}
        case "gemini", "call":
            call = {"functionCall": {"id": said.id, "name": "look", "args": args}}
            return {"role": "model", "parts": [call]}
        case "gemini", "result":
            back = {"id": said.id, "name": "look", "response": {"result": said.text}}
            return {"role": "user", "parts": [{"functionResponse": back}]}
        case "gemini", who:
            return {"role": "user" if who == "user" else "model", "parts": [{"text": said.text}]}
        case _, who:
            return {"role": "user" if who == "user" else "assistant", "content": said.text}


def row(talk: Talk, answer: Said | None, dialect: str) -> JsonObject:
    """A line of the log: the request, and what the provider answered."""
    messages: list[Json] = [message(one, dialect) for one in talk.said]
    request: JsonObject
    match dialect:
        case "openai-chat":
            request = {"messages": [{"role": "system", "content": talk.system}, *messages]}
        case "anthropic":
            request = {"system": talk.system, "max_tokens": 9, "messages": messages}
        case "openai-responses":
            request = {"instructions": talk.system, "input": messages}
        case _:
            request = {"systemInstruction": {"parts": [{"text": talk.system}]}}
            request["contents"] = messages
    line: JsonObject = {"dialect": dialect, "request": {"model": "m-1", **request}}
    if answer is not None:
        line["response"] = response(answer, dialect)
    return line


def response(answer: Said, dialect: str) -> JsonObject:
    """The answer as the provider writes it."""
    sent = message(answer, dialect)
    match dialect:
        case "openai-chat":
            usage = {"prompt_tokens": 100, "completion_tokens": 5}
            return {"choices": [{"message": sent, "finish_reason": "stop"}], "usage": usage}
        case "anthropic":
            usage = {"input_tokens": 100, "output_tokens": 5}
            content = sent["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            kind = {"type": "message", "role": "assistant", "stop_reason": "end_turn"}
            return {**kind, "content": blocks, "usage": usage}
        case "openai-responses":
            item = sent
            if "role" in sent:
                text = {"type": "output_text", "text": answer.text, "annotations": []}
                item = {"type": "message", "role": "assistant", "content": [text]}
            return {"object": "response", "status": "completed", "output": [item]}
        case _:
            candidate = {"content": sent, "finishReason": "STOP"}
            return {"candidates": [candidate]}


class Recorder:
    """Talks that go on, are retried, forked and interleaved, and the log of their calls."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.talks: list[Talk] = []
        self.lines: list[JsonObject] = []
        self.paths: list[list[str]] = []
        self.count = 0

    def _word(self, kind: str) -> str:
        self.count += 1
        return f"{kind} number {self.count}"

    def begin(self, system: str) -> None:
        """A user speaks to an agent."""
        self.talks.append(Talk(system, [Said("user", self._word("question"))]))
        self.ask(len(self.talks) - 1, "answer")

    def ask(self, which: int, kind: str, *, recorded: bool = True) -> None:
        """The model is asked, and the talk goes on with what it says."""
        talk = self.talks[which % len(self.talks)]
        if talk.said[-1].who == "answer":
            talk.said.append(Said("user", self._word("question")))
        elif talk.said[-1].who == "call":
            last = talk.said[-1]
            talk.said.append(Said("result", self._word("result"), last.id))
        said = Said(kind, self._word(kind), f"id-{self.count}" if kind == "call" else "")
        self._log(talk, said, recorded=recorded)
        talk.said.append(said)

    def retry(self, which: int, *, takes: bool) -> None:
        """The last request is sent once more; the talk goes on with one of the two answers."""
        talk = self.talks[which % len(self.talks)]
        before = Talk(talk.system, talk.said[:-1])
        said = Said("answer", self._word("answer"))
        self._log(before, said)
        if takes:
            talk.said[-1] = said

    def fork(self, which: int) -> None:
        """Somebody goes back, and asks something else."""
        talk = self.talks[which % len(self.talks)]
        users = [at for at, one in enumerate(talk.said) if one.who == "user"]
        said = [*talk.said[: users[-1]], Said("user", self._word("question"))]
        self.talks.append(Talk(talk.system, said))
        self.ask(len(self.talks) - 1, "answer")

    def _log(self, talk: Talk, answer: Said, *, recorded: bool = True) -> None:
        self.lines.append(row(talk, answer if recorded else None, self.dialect))
        self.paths.append([one.text for one in talk.said] + ([answer.text] if recorded else []))

    def read(self) -> list[Recording]:
        """The log as Weft reads it."""
        data = "\n".join(map(json.dumps, self.lines)).encode()
        return [*read_recordings(data, name="log.jsonl")]


def spoken(recording: Recording) -> list[str]:
    """The texts, arguments and results of a recording, in order."""
    texts: list[str] = []
    for event in recording.session.events:
        texts += [event.text] if event.text else []
        texts += [str((call.args or {})["q"]) for call in event.calls]
        texts += [str((result.response or {})["result"]) for result in event.results]
    return texts


def requests(recordings: list[Recording]) -> int:
    """How many requests a replay makes of them."""
    return sum(len([*requests_of(one, C.default())]) for one in recordings)


moves = st.lists(
    st.tuples(
        st.sampled_from(("answer", "answer", "call", "call", "begin", "retry", "take", "fork")),
        st.integers(0, 3),
    ),
    max_size=14,
)


@settings(max_examples=60)
@given(moves, st.sampled_from(DIALECTS), st.booleans())
def test_there_is_one_request_for_each_call(moves: list, dialect: str, recorded: bool) -> None:
    recorder = Recorder(dialect)
    recorder.begin("You help.")
    for move, which in moves:
        match move:
            case "begin":
                recorder.begin(f"You are agent {which}.")
            case "retry" | "take":
                recorder.retry(which, takes=move == "take")
            case "fork":
                recorder.fork(which)
            case kind:
                recorder.ask(which, kind, recorded=recorded or len(recorder.lines) % 3 > 0)
    read = recorder.read()
    assert requests(read) == len(recorder.lines)
    paths = [spoken(one) for one in read]
    for path in recorder.paths:
        assert any(one[: len(path)] == path for one in paths), "no call's words are lost"
    steps = [step for one in read for step in Inspection.of_recording(one).steps]
    assert len(steps) == len(recorder.lines)
    # and each as it was recorded
    sent = sorted(json.dumps(line.get("request", line), sort_keys=True) for line in recorder.lines)
    assert sorted(json.dumps(step.request.wire, sort_keys=True) for step in steps) == sent


@pytest.mark.parametrize("dialect", DIALECTS)
def test_fifteen_calls_are_fifteen_requests_at_the_cost_of_fifteen(dialect: str) -> None:
    recorder = Recorder(dialect)
    recorder.begin("You help. " * 400)
    for number in range(14):
        recorder.ask(0, "call" if number % 3 else "answer")
    (recording,) = recorder.read()
    assert requests([recording]) == 15
    conversation = recording._replace(answers=None)
    assert len(spoken(conversation)) == len(recorder.paths[-1])
    plain = [replay(one, C.default(), uses=Uses({})) for one in (recording, conversation)]
    assert plain[0].tokens == plain[1].tokens
    assert plain[0].cost == plain[1].cost


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_with_a_file_each_are_joined_too(dialect: str, tmp_path: Path) -> None:
    recorder = Recorder(dialect)
    recorder.begin("You help.")
    for number in range(14):
        recorder.ask(0, "call" if number % 3 else "answer")
    recorder.retry(0, takes=False)
    for number, line in enumerate(recorder.lines):
        (tmp_path / f"{number:03}.json").write_text(json.dumps(line))
    read = [*read_files(files_in([tmp_path]))]
    assert (len(read), requests(read)) == (2, 16)
    assert spoken(read[0]) == recorder.paths[-2]
    done = weft(tmp_path, "sessions", "import", ".", "--store", "sqlite:///a.sqlite")
    assert done.returncode == 0, done.stderr
    replayed = weft(tmp_path, "replay", "--store", "sqlite:///a.sqlite", "--model", "gpt-5")
    assert "2 runs, 16 requests" in replayed.stdout, replayed.stdout + replayed.stderr


def test_requests_that_do_not_go_on_with_each_other_stay_whole(tmp_path: Path) -> None:
    for number in range(2):
        recorder = Recorder("openai-chat")
        recorder.begin(f"You help {number}.")
        recorder.count = number * 100
        for _ in range(4):
            recorder.ask(0, "call")
        (tmp_path / f"{number}.json").write_text(json.dumps(recorder.lines[-1]))
    assert requests([*read_files(files_in([tmp_path]))]) == 2


def test_what_was_counted_stays_with_each_answer() -> None:
    recorder = Recorder("openai-chat")
    recorder.begin("You help.")
    recorder.ask(0, "call")
    recorder.ask(0, "answer")
    (recording,) = recorder.read()
    answered = [event for event in recording.session.events if event.id in recording.answers]
    assert [event.usage.prompt_token_count for event in answered] == [100, 100, 100]


def test_a_joined_log_keeps_its_calls_in_a_store() -> None:
    recorder = Recorder("anthropic")
    recorder.begin("You help.")
    recorder.ask(0, "answer")
    recorder.fork(0)
    read = recorder.read()
    again = [recording_of(one.for_store()) for one in read]
    assert [one.answers for one in again] == [one.answers for one in read]
    assert requests(again) == 3


def test_a_response_goes_on_from_the_one_that_it_names() -> None:
    first = {"model": "gpt-5", "input": [{"role": "user", "content": "First?"}]}
    lines = [
        {"request": first, "response": _responded("resp_1", "One.")},
        {"request": _following("resp_1", "Second?"), "response": _responded("resp_2", "Two.")},
        {"request": _following("resp_1", "Other?"), "response": _responded("resp_3", "Three.")},
        {"request": _following("resp_9", "Lost?"), "response": _responded("resp_4", "Four.")},
    ]
    data = "\n".join(map(json.dumps, lines)).encode()
    read = [*read_recordings(data, name="log.jsonl")]
    assert [[event.text for event in one.session.events] for one in read] == [
        ["First?", "One.", "Second?", "Two."],
        ["First?", "One.", "Other?", "Three."],
        ["Lost?", "Four."],
    ]
    assert requests(read) == 4
    (aside,) = [one for one in read[2].aside if one.what == "past of a conversation"]
    assert "resp_9" in aside.why


def _following(id: str, text: str) -> JsonObject:
    asked = [{"role": "user", "content": text}]
    return {"model": "gpt-5", "input": asked, "previous_response_id": id}


def _responded(id: str, text: str) -> JsonObject:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "role": "assistant", "content": content}
    return {"id": id, "object": "response", "status": "completed", "output": [item]}


_TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


def test_conversations_that_are_no_calls_stay_apart() -> None:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    data = "\n".join(json.dumps({"messages": talk}) for _ in range(3)).encode()
    assert len([*read_recordings(data, name="runs.jsonl")]) == 3


@pytest.mark.parametrize(
    ("fields", "made"), [({}, 2), ({"tools": [_TOOL]}, 2), ({"model": "gpt-5"}, 1)], ids=str
)
@pytest.mark.parametrize("count", [1, 3])
def test_chats_that_end_with_the_users_words_are_the_same_alone_and_with_others(
    count: int, fields: JsonObject, made: int
) -> None:
    """Of one with a model, the request is known; of others, what was answered."""
    chats = [
        {
            "messages": [
                {"role": role, "content": f"{number} {turn}"}
                for turn in range(3)
                for role in ("user", "assistant")
            ][:-1],
            **fields,
        }
        for number in range(count)
    ]
    read = [*read_recordings("\n".join(map(json.dumps, chats)).encode(), name="chats.jsonl")]
    assert [requests([one]) for one in read] == [made] * count


def test_a_call_that_failed_does_not_part_the_conversation_it_was_made_in() -> None:
    said: list[Json] = []
    lines: list[Json] = []

    def ask(text: str, response: Json, status: int) -> None:
        request: JsonObject = {"model": "gpt-5", "messages": [*said, user(text)]}
        row: JsonObject = {"request": request, "response": response, "status": status}
        lines.append({**row, "time": 1_790_000_000 + len(lines)})

    def user(text: str) -> JsonObject:
        return {"role": "user", "content": text}

    for number, text in enumerate(("One?", "Two?", "Three?")):
        if number:  # the program drops what was refused, and asks something else
            ask(f"Refused {number}?", {"error": {"message": "wait", "code": "overloaded"}}, 503)
            ask(f"Lost {number}?", None, 500)
        answer: JsonObject = {"role": "assistant", "content": f"Answer {number}."}
        choice: JsonObject = {"index": 0, "message": answer}
        ask(text, {"id": f"r{number}", "choices": [choice]}, 200)
        said += [user(text), answer]
    data = "\n".join(json.dumps(line) for line in lines).encode()
    (recording,) = read_recordings(data, name="log.jsonl")
    inspection = Inspection.of_recording(recording)
    frames = inspection.film()["frames"]
    words = ["", "overloaded: wait", "overloaded: the provider answered with status 500", ""]
    assert [one["error"] for one in frames] == [*words, *words[1:]]
    for number, line in enumerate(lines, 1):
        assert inspection.request(number).wire == line["request"]
    told = [event.text or event.error_code for event in inspection.session.events]
    assert told == [
        *("One?", "Answer 0.", "Refused 1?", words[1], "Lost 1?", words[2], "Two?", "Answer 1."),
        *("Refused 2?", words[1], "Lost 2?", words[2], "Three?", "Answer 2."),
    ]
    # what a provider keeps is the request before that was answered
    assert inspection.request(4).previous is inspection.request(1)
