"""Nothing is lost in silence: a reader that drops a call, a result, media or words is refused."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.run import weft
from tests.recordings.shapes import MORE_SHAPES
from tests.recordings.test_calls import Said, message
from tests.support.strategies import PNG
from weft import Session
from weft.errors import LostContent, SessionError
from weft.recordings import FORMATS, Recording
from weft.recordings.read import read_recordings
from weft.values import Json, JsonObject

CALLS = 8


def talk() -> list[Said]:
    """A question, eight calls with their results, and the answer."""
    said = [Said("user", "the question")]
    for number in range(CALLS):
        said += [
            Said("call", f"asked {number}", f"call-{number}"),
            Said("result", f"came back {number}", f"call-{number}"),
        ]
    return [*said, Said("answer", "the answer")]


def in_dialect(dialect: str) -> list[Json]:
    return [message(one, dialect) for one in talk()]


def converse() -> list[Json]:
    """Bedrock's messages, with an image."""
    messages: list[Json] = [
        {
            "role": "user",
            "content": [
                {"text": "the question"},
                {"image": {"format": "png", "source": {"bytes": PNG}}},
            ],
        }
    ]
    for one in talk()[1:]:
        if one.who == "call":
            use = {"toolUseId": one.id, "name": "look", "input": {"q": one.text}}
            messages.append({"role": "assistant", "content": [{"toolUse": use}]})
        elif one.who == "result":
            back = {"toolUseId": one.id, "content": [{"text": one.text}], "status": "success"}
            messages.append({"role": "user", "content": [{"toolResult": back}]})
        else:
            messages.append({"role": "assistant", "content": [{"text": one.text}]})
    return messages


def vercel() -> list[Json]:
    """The AI SDK's model messages."""
    messages: list[Json] = []
    for one in talk():
        named = {"toolCallId": one.id, "toolName": "look"}
        if one.who == "call":
            part = {"type": "tool-call", **named, "input": {"q": one.text}}
            messages.append({"role": "assistant", "content": [part]})
        elif one.who == "result":
            output = {"type": "json", "value": {"found": one.text}}
            part = {"type": "tool-result", **named, "output": output}
            messages.append({"role": "tool", "content": [part]})
        else:
            role = "user" if one.who == "user" else "assistant"
            messages.append({"role": role, "content": [{"type": "text", "text": one.text}]})
    return messages


def vercel_page() -> list[Json]:
    """The AI SDK's UI messages: all steps in one, results within their calls."""
    image = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{PNG}"}
    parts: list[Json] = []
    said = talk()
    for call, result in zip(said[1:-1:2], said[2:-1:2], strict=True):
        state = {"state": "output-available", "output": {"found": result.text}}
        parts.append({"type": "step-start"})
        parts.append(
            {"type": "tool-look", "toolCallId": call.id, "input": {"q": call.text}, **state}
        )
    parts += [{"type": "step-start"}, {"type": "text", "text": "the answer"}]
    asked = [{"type": "text", "text": "the question"}, image]
    return [{"id": "1", "role": "user", "parts": asked},
            {"id": "2", "role": "assistant", "parts": parts}]  # fmt: skip


def vercel_oldest() -> list[Json]:
    """The AI SDK's messages before they had parts."""
    said = talk()
    calls = [
        {"state": "result", "toolCallId": call.id, "toolName": "look", "args": {"q": call.text},
         "result": result.text}
        for call, result in zip(said[1:-1:2], said[2:-1:2], strict=True)
    ]  # fmt: skip
    asked = {"id": "1", "role": "user", "content": "the question"}
    return [asked, {"id": "2", "role": "assistant", "content": "the answer",
                    "toolInvocations": calls}]  # fmt: skip


def opencode() -> JsonObject:
    """What `opencode export` writes."""
    messages: list[Json] = []
    said = talk()
    time = {"created": 1_776_105_641_982}
    question = [{"type": "text", "text": "the question"}]
    messages.append({"info": {"role": "user", "time": time}, "parts": question})
    tokens = {"input": 100, "output": 5, "reasoning": 1, "cache": {"read": 50, "write": 10}}
    facts = {"role": "assistant", "modelID": "claude-sonnet-4-5", "tokens": tokens, "time": time}
    for call, result in zip(said[1:-1:2], said[2:-1:2], strict=True):
        state = {"status": "completed", "input": {"q": call.text}, "output": result.text}
        tool = {"type": "tool", "callID": call.id, "tool": "look", "state": state}
        messages.append(
            {"info": facts, "parts": [{"type": "step-start"}, tool, {"type": "step-finish"}]}
        )
    messages.append({"info": facts, "parts": [{"type": "text", "text": "the answer"}]})
    return {"info": {"id": "ses_1", "title": "t"}, "messages": messages}


def langfuse(dialect: str) -> JsonObject:
    """A generation as Langfuse exports it."""
    *asked, answer = in_dialect(dialect)
    return {
        "id": "o1", "traceId": "t1", "type": "GENERATION", "model": "gpt-4o",
        "startTime": "2026-01-01T10:00:00Z", "input": asked, "output": answer,
        "usageDetails": {"input": 100, "output": 5, "input_cached_tokens": 40},
    }  # fmt: skip


SHAPES: dict[str, Callable[[], Json]] = {
    "chat": lambda: in_dialect("openai-chat"),
    "anthropic": lambda: in_dialect("anthropic"),
    "responses": lambda: in_dialect("openai-responses"),
    "gemini": lambda: in_dialect("gemini"),
    "converse": converse,
    "converse request": lambda: {"modelId": "anthropic.claude-x-v1:0", "messages": converse()},
    "vercel": vercel,
    "vercel page": vercel_page,
    "vercel oldest": vercel_oldest,
    "opencode": opencode,
    "langfuse chat": lambda: langfuse("openai-chat"),
    "langfuse anthropic": lambda: langfuse("anthropic"),
    "langfuse text": lambda: {
        **langfuse("openai-chat"),
        "input": json.dumps({"messages": in_dialect("openai-chat")[:-1]}),
        "output": json.dumps(in_dialect("openai-chat")[-1]),
    },
    "trace": lambda: {"id": "t1", "observations": [langfuse("openai-chat")]},
    "unknown": lambda: {"steps": in_dialect("openai-chat")},
    **{name: partial(make, talk()) for name, make in MORE_SHAPES.items()},
}


def read(value: Json, **options: object) -> list[Recording]:
    return [*read_recordings(json.dumps(value).encode(), name="f.json", **options)]  # type: ignore[arg-type]


def require_whole(recordings: list[Recording]) -> None:
    """All eight calls with their arguments, and all eight results."""
    (recording,) = recordings
    events = recording.session.events
    calls = {call.id: call.args for event in events for call in event.calls}
    results = {
        result.id: json.dumps(result.response) for event in events for result in event.results
    }
    assert calls == {f"call-{n}": {"q": f"asked {n}"} for n in range(CALLS)}
    assert all(f"came back {n}" in results[f"call-{n}"] for n in range(CALLS))
    texts = [event.text for event in events if event.text]
    assert texts[0] == "the question"
    assert texts[-1] == "the answer"


@pytest.mark.parametrize("shape", sorted({*SHAPES} - {"unknown"}))
def test_every_shape_is_read_whole(shape: str) -> None:
    require_whole(read(SHAPES[shape]()))
    require_whole(read([SHAPES[shape]()] if isinstance(SHAPES[shape](), dict) else SHAPES[shape]()))


WITHOUT_SHAPE = {
    "adk", "aider", "claude-code", "codex", "plain", "pydantic-ai", "weft",
}  # fmt: skip
"""Formats whose samples are all that is tried of them."""


def test_every_other_format_has_a_shape() -> None:
    shapes = [make() for name, make in SHAPES.items() if name != "unknown"]
    assert {one.format for shape in shapes for one in read(shape)} == {*FORMATS} - WITHOUT_SHAPE


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_under_any_format_all_is_read_or_it_is_refused(shape: str) -> None:
    for format in FORMATS:
        try:
            recordings = read(SHAPES[shape](), format=format)
        except SessionError:
            continue
        require_whole(recordings)


def _renamed(value: Json, old: str, new: str) -> Json:
    """The value with another name for a field, or for a kind of part."""
    if isinstance(value, dict):
        return {new if key == old else key: _renamed(one, old, new) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, old, new) for one in value]
    return new if value == old else value


WORDS = (
    "tool_calls", "toolCalls", "function", "tool_use", "tool_result", "functionCall",
    "functionResponse", "function_call", "function_call_output", "toolUse", "toolResult",
    "tool-call", "tool-result", "tool", "callID", "call_id", "tool_call_id", "toolCallId", "role",
    "assistant", "content", "parts", "messages", "type", "input", "output", "state", "name",
)  # fmt: skip


@settings(max_examples=150)
@given(st.sampled_from(sorted(SHAPES)), st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_a_form_that_nobody_knows_is_read_whole_or_refused(shape: str, old: str, new: str) -> None:
    value = _renamed(SHAPES[shape](), old, new)
    try:
        recordings = read(value)
    except SessionError:
        return
    spoken = json.dumps([json.loads(one.session.to_json()) for one in recordings])
    written = json.dumps(value)
    for marker in (
        f"{word} {number}" for word in ("came back", "asked") for number in range(CALLS)
    ):
        assert marker in spoken or marker not in written, (shape, old, new)


def test_a_loss_is_named_with_its_place_and_lenient_reads_on(tmp_path: Path) -> None:
    odd = {"role": "assistant", "content": "more", "toolInvocations": [
        {"toolCallId": "z", "toolName": "look", "args": {}}]}  # fmt: skip
    messages = [*in_dialect("openai-chat"), odd]
    with pytest.raises(LostContent) as error:
        read({"messages": messages}, format="openai-chat")
    assert error.value.message.startswith("1 call would be lost: the first is call `look` at")
    assert "messages[18].toolInvocations[0]" in error.value.message
    (recording,) = read({"messages": messages}, format="openai-chat", lenient=True)
    (lost,) = [one for one in recording.aside if one.what == "lost call"]
    assert lost.count == 1
    with pytest.raises(LostContent):
        Session.from_messages(messages, format="openai-chat")
    assert Session.from_messages(messages, format="openai-chat", lenient=True).events
    (tmp_path / "odd.json").write_text(json.dumps({"messages": messages}))
    page = ("--html", "x.html")
    for command, more in (
        ("replay", ()),
        ("explain", ()),
        ("inspect", page),
        ("sessions import", ()),
    ):
        arguments = (*command.split(), "odd.json", "--format", "openai-chat", *more)
        refused = weft(tmp_path, *arguments)
        assert refused.returncode == 1, command
        assert "1 call would be lost" in refused.stderr
        done = weft(tmp_path, *arguments, "--lenient")
        assert done.returncode == 0, done.stderr
    replayed = weft(tmp_path, "replay", "odd.json", "--format", "openai-chat", "--lenient")
    assert "1 x lost call" in replayed.stdout


def test_media_and_words_that_a_reader_drops_are_lost_too() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    chat = [{"role": "user", "content": [{"type": "text", "text": "See"}, image]}]
    with pytest.raises(LostContent, match="1 medium would be lost"):
        read({"messages": chat}, format="openai-chat")
    choices = [{"message": {"role": "assistant", "content": text}} for text in ("One.", "Two.")]
    asked = {"model": "gpt-4o", "n": 2, "messages": [{"role": "user", "content": "Say"}]}
    with pytest.raises(LostContent, match=r"1 text would be lost: the first is 'Two\.'"):
        read({"request": asked, "response": {"choices": choices}})


def test_a_tool_that_ran_in_a_trace_is_a_call_of_its_models() -> None:
    ran = [
        {"id": f"s{n}", "traceId": "t1", "type": "TOOL", "name": "look", "input": {"q": n},
         "output": "found"}
        for n in range(CALLS)
    ]  # fmt: skip
    called = langfuse("openai-chat")
    require_whole(read([called, *ran]))
    require_whole(read({"id": "t1", "observations": [*ran, called]}))
    told = {**called, "input": "the question", "output": "the answer"}
    for value in ([told, *ran], {"id": "t1", "observations": [told, *ran]}, ran):
        with pytest.raises(LostContent, match="8 calls and 8 results would be lost"):
            read(value)
    (recording,) = read([told, *ran], lenient=True)
    assert [one.count for one in recording.aside if one.what == "lost call"] == [CALLS]


@pytest.mark.parametrize(
    ("output", "text"), [({"text": "Done."}, "Done."), ({"city": "Oslo"}, '{"city":"Oslo"}')]
)
def test_an_answer_that_is_not_a_message_is_kept(output: JsonObject, text: str) -> None:
    (recording,) = read({**langfuse("openai-chat"), "output": output})
    assert recording.session.events[-1].text == text


def test_what_no_model_is_sent_is_not_lost_in_any_form_of_an_export() -> None:
    path = Path(__file__).parent / "samples" / "opencode.json"
    export = json.loads(path.read_text())
    messages = export["messages"]
    summary = {"role": "assistant", "summary": True, "time": {"created": 1_776_105_641_982}}
    parts = [{"type": "reasoning", "text": "Sum up."}, {"type": "text", "text": "The sum."}]
    messages.append({"info": summary, "parts": parts})
    lines = "\n".join(map(json.dumps, messages)).encode()
    whole = len(read(export)[0].session.events)
    assert [len(one.session.events) for one in read([export, export])] == [whole, whole]
    assert len(read(messages)[0].session.events) == whole
    (recording,) = read_recordings(lines, name="f.jsonl")
    assert len(recording.session.events) == whole


def test_a_call_that_was_denied_has_the_result_that_the_model_read() -> None:
    denied = {"type": "tool-look", "toolCallId": "a", "state": "output-denied", "input": {"q": 1}}
    asked = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Go."}]}
    (recording,) = read([asked, {"id": "2", "role": "assistant", "parts": [denied]}])
    (result,) = [one for event in recording.session.events for one in event.results]
    assert result.response == {"error": "Tool execution denied."}


def test_lenient_is_refused_where_there_is_nothing_to_lose(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from weft import Agent\nagent = Agent('a', model='gpt-5')\n")
    for arguments in (
        ("explain", "a:agent", "--lenient"),
        ("replay", "--store", "sqlite:///x.db", "--lenient"),
        ("inspect", "a:agent", "--lenient"),
    ):
        done = weft(tmp_path, *arguments)
        assert done.returncode == 2
        assert "--lenient" in done.stderr


def test_a_file_that_nests_too_deep_is_an_error() -> None:
    deep = '{"a":[' * 900 + "]}" * 900
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": deep}}
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call]}]
    with pytest.raises(SessionError, match="it nests too deep"):
        read({"messages": messages})
