"""The providers' own clients through a proxy: they see the same as without it, and no recall."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.proxy.talks import LONG, TALKS, Talk
from tests.server.proxy.test_recall import POLICY, recall
from tests.server.proxy.upstream import Proxied, Reply, Seen, proxying
from tests.support.late import late
from weft.dialects.answers import answer_form

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai
    from google.genai import types
else:
    anthropic, openai = late("anthropic"), late("openai")
    genai, types = late("google.genai"), late("google.genai.types")

CHAT, RESPONSES, ANTHROPIC, GEMINI = TALKS
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


class Provider:
    """Reads with a tool, then recalls, then calls two tools at once, then answers."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.recalled = False

    def __call__(self, seen: Seen, number: int) -> Reply:
        talk, form = self.talk, answer_form(self.talk.name)
        stream = b'"stream":true' in seen.body or "streamGenerate" in seen.path
        turns = talk.turns(seen.json)
        called = [
            form.call_name(one) for one in form.open_turns([t for t in turns if form.is_model(t)])
        ]
        names = [name for name in called if name]
        if "read" not in names:
            pieces = [talk.piece("call", "c1", ("read", {}))]
        elif "recall" not in names:
            pieces = [talk.piece("text", "t1", "Let me see. "), recall(talk, seen, "r1")]
        elif "look" not in names:
            pieces = [
                talk.piece("call", "c2", ("look", {"at": 1})),
                talk.piece("call", "c3", ("look", {"at": 2})),
            ]
        else:
            pieces = [talk.piece("text", "t2", "Worker 1.")]
        return talk.answer(*pieces, stream=stream)


def result_of(name: str) -> str:
    """What the client's tools return."""
    return LONG if name == "read" else "ok"


TOOLS = ("read", "look")


def run_chat(client: "openai.OpenAI", *, stream: bool) -> str:
    messages: list[Any] = [{"role": "user", "content": [
        {"type": "text", "text": "Which worker was slow?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    ]}]  # fmt: skip
    tools: list[Any] = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in TOOLS
    ]
    said = ""
    for _ in range(4):
        if stream:
            with client.chat.completions.stream(
                model="gpt-5",
                messages=messages,
                tools=tools,
                stream_options={"include_usage": True},
            ) as events:
                for _event in events:
                    pass
                message = events.get_final_completion().choices[0].message
        else:
            answer = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
            message = answer.choices[0].message
        said += message.content or ""
        if not message.tool_calls:
            return said
        messages.append(message.model_dump(exclude_none=True, exclude={"parsed", "audio"}))
        for call in message.tool_calls:
            name = call.function.name  # type: ignore[union-attr]
            result = result_of(name)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            for one in messages[-2].get("tool_calls", ()):
                one["function"].pop("parsed_arguments", None)
    return said


def run_responses(client: "openai.OpenAI", *, stream: bool) -> str:
    items: list[Any] = [{"role": "user", "content": "Which worker was slow?"}]
    tools: list[Any] = [
        {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}
        for name in TOOLS
    ]
    said = ""
    for _ in range(4):
        if stream:
            with client.responses.stream(model="gpt-5", input=items, tools=tools) as events:
                for _event in events:
                    pass
                answer: Any = events.get_final_response()
        else:
            answer = client.responses.create(model="gpt-5", input=items, tools=tools)
        said += answer.output_text
        calls = [one for one in answer.output if one.type == "function_call"]
        if not calls:
            return said
        items += [one.model_dump(exclude_none=True, exclude={"parsed_arguments"})
                  for one in answer.output]  # fmt: skip
        items += [
            {"type": "function_call_output", "call_id": one.call_id, "output": result_of(one.name)}
            for one in calls
        ]
    return said


def run_anthropic(client: "anthropic.Anthropic", *, stream: bool) -> str:
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    mark = {"type": "ephemeral"}
    messages: list[Any] = [{"role": "user", "content": [
        {"type": "image", "source": source},
        {"type": "text", "text": "Which worker was slow?", "cache_control": mark}]}]  # fmt: skip
    tools: list[Any] = [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS]
    asked: Any = {"model": "claude-sonnet-5", "max_tokens": 99, "tools": tools}
    said = ""
    for _ in range(4):
        if stream:
            with client.messages.stream(messages=messages, **asked) as events:
                for _event in events:
                    pass
                answer = events.get_final_message()
        else:
            answer = client.messages.create(messages=messages, **asked)
        said += "".join(one.text for one in answer.content if one.type == "text")
        calls = [one for one in answer.content if one.type == "tool_use"]
        if not calls:
            return said
        content = [one.model_dump(exclude_none=True) for one in answer.content]
        messages.append({"role": "assistant", "content": content})
        messages.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": one.id, "content": result_of(one.name)}
                    for one in calls
                ],
            }
        )
    return said


def run_gemini(client: "genai.Client", *, stream: bool) -> str:
    contents: list[Any] = [
        types.Content(role="user", parts=[types.Part(text="Which worker was slow?")])
    ]
    declared = [types.FunctionDeclaration(name=name) for name in TOOLS]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    said = ""
    for _ in range(4):
        parts: list[types.Part] = []
        asked: Any = {"model": "gemini-2.5-flash", "contents": contents, "config": config}
        if stream:
            for chunk in client.models.generate_content_stream(**asked):
                parts += chunk.candidates[0].content.parts or []  # type: ignore[index,union-attr]
        else:
            answer = client.models.generate_content(**asked)
            parts += answer.candidates[0].content.parts or []  # type: ignore[index,union-attr]
        said += "".join(one.text or "" for one in parts)
        calls = [one.function_call for one in parts if one.function_call is not None]
        if not calls:
            return said
        contents.append(types.Content(role="model", parts=[one for one in parts if one.text != ""]))
        responses = [
            types.Part.from_function_response(name=name, response={"result": result_of(name)})
            for name in (one.name or "" for one in calls)
        ]
        contents.append(types.Content(role="user", parts=responses))
    return said


RUNS: dict[str, Callable[..., str]] = {
    "openai-chat": run_chat,
    "openai-responses": run_responses,
    "anthropic": run_anthropic,
    "gemini": run_gemini,
}


def open_client(talk: Talk, proxy: Proxied, *, retries: int = 0) -> Any:
    """The provider's own client, which is to be closed."""
    if talk is ANTHROPIC:
        return anthropic.Anthropic(base_url=proxy.url, api_key="sk-x", max_retries=retries)
    if talk is GEMINI:
        return genai.Client(api_key="x", http_options=types.HttpOptions(base_url=proxy.url))
    return openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-x", max_retries=retries)


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_a_run_of_the_own_client_ends_with_the_same_words(talk: Talk, tmp_path: Path) -> None:
    for stream in (False, True):
        with (
            proxying(Provider(talk), POLICY, path=tmp_path / f"{stream}.db") as proxy,
            open_client(talk, proxy) as client,
        ):
            assert RUNS[talk.name](client, stream=stream) == "Let me see. Worker 1."
            assert not proxy.faults
            seen = [one.json for one in proxy.upstream.seen]
            assert len(seen) == 4  # read, recall, look twice, answer
            turns = [talk.turns(one) for one in seen]
            for before, after in itertools.pairwise(turns):
                marked = json.dumps(after[: len(before)])
                assert marked == json.dumps(before)  # the prefix holds


def test_errors_retries_and_cancelling_are_the_clients_own() -> None:
    answers: Iterator[Reply] = iter(
        (
            Reply(b'{"error":{"message":"slow"}}', 429, {"retry-after": "0"}),
            CHAT.answer("Hi."),
            Reply(b'{"error":{"message":"no such model"}}', 404),
        )
    )
    with (
        proxying(lambda *_: next(answers)) as proxy,
        open_client(CHAT, proxy, retries=1) as client,
    ):
        asked: Any = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
        assert client.chat.completions.create(**asked).choices[0].message.content == "Hi."
        with pytest.raises(openai.NotFoundError, match="no such model"):
            client.chat.completions.create(**asked)
        assert len(proxy.upstream.seen) == 3


def test_structured_output_and_signed_thinking_pass() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "EqQB=="}
    said = ANTHROPIC.piece("text", "t", '{"a": 1}')
    with (
        proxying(lambda *_: ANTHROPIC.answer(thought, said)) as proxy,
        open_client(ANTHROPIC, proxy) as client,
    ):
        answer = client.messages.create(
            model="claude-sonnet-5",
            max_tokens=2000,
            thinking={"type": "enabled", "budget_tokens": 1024},
            messages=[
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [thought, said]},
                {"role": "user", "content": "again"},
            ],
            extra_body={"output_config": {"format": {"type": "json_schema", "schema": {}}}},
        )
        assert answer.content[0].model_dump() == thought
        assert proxy.upstream.seen[0].json["messages"][1]["content"][0] == thought
        assert proxy.upstream.seen[0].json["output_config"]["format"]["type"] == "json_schema"


def test_counting_tokens_goes_through() -> None:
    with (
        proxying(lambda *_: Reply(b'{"input_tokens": 7}'), POLICY) as proxy,
        open_client(ANTHROPIC, proxy) as client,
    ):
        request = ANTHROPIC.request()
        counted = client.messages.count_tokens(
            model="claude-sonnet-5", messages=request["messages"]
        )
        assert counted.input_tokens == 7
        assert len(proxy.upstream.seen[0].body) < len(json.dumps(request)) / 2
        assert not proxy.lines
