"""`weft.compact` on requests of four dialects: what it changes, and what it leaves as it came."""

import json
import random
from functools import partial
from itertools import pairwise

import pytest

import weft
from tests.compaction.talks import DIALECTS, TALKS, Talk, Wire, long_text, talk_in
from tests.support.linear import calls
from weft import C, Policy
from weft.compaction.compact import ask_to_keep, forget
from weft.compaction.reading import HistoryReader, ReadHistory, read_body, unmarked_bytes
from weft.compaction.splicing import replace_fields
from weft.dialects import refusals
from weft.errors import DeclarationError, ProtectionError, UsageError
from weft.values import Json

DIGESTS = C.default().compact(results=300)
"""A policy under which large results become digests, whatever they cost."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_policy_that_changes_nothing_gives_back_what_came(dialect: str) -> None:
    request = talk_in(dialect, steps=6)
    raw = json.dumps(request, indent=1).encode()
    # the second goes all the way through the passes
    for policy in (C.default(), C.default().truncate(10**9)):
        assert weft.compact(request, policy).request is request
        assert weft.compact(raw, policy).request is raw
        messages = TALKS[dialect].messages(request)
        assert weft.compact(messages, policy).request is messages


@pytest.mark.parametrize("dialect", DIALECTS)
def test_large_results_become_digests_in_their_place(dialect: str) -> None:
    request = talk_in(dialect, steps=6)
    before = json.dumps(request)
    compacted = weft.compact(request, DIGESTS)
    assert json.dumps(request) == before, "the caller's request was changed"
    assert compacted.tokens < compacted.tokens_before
    assert compacted.cost < compacted.cost_before
    assert compacted.left_out
    assert all(one.tokens_after for one in compacted.left_out)
    old, new = TALKS[dialect].messages(request), TALKS[dialect].messages(compacted.request)
    assert compacted.sources == tuple(range(len(old)))
    changed = {int(one.pointer.split("/")[2]) for one in compacted.left_out}
    for index, (one, other) in enumerate(zip(old, new, strict=True)):
        assert (one is other) is (index not in changed)
    assert not refusals(dialect, compacted.request)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["functionDeclarations", "function_declarations"])
def test_recall_joins_the_functions_that_gemini_was_told_of(key: str) -> None:
    request = talk_in("gemini", steps=6)
    (tool,) = request["tools"]
    hosted = {"googleSearch": {}}
    request["tools"] = [{key: tool["functionDeclarations"]}, hosted]
    for sent in (request, json.dumps(request, indent=1).encode()):
        answer = weft.compact(sent, DIGESTS).request
        after = json.loads(answer) if isinstance(answer, bytes) else answer
        assert isinstance(after, dict)
        names = [[one["name"] for one in group.get(key, ())] for group in after["tools"]]
        assert names == [[*(one["name"] for one in tool["functionDeclarations"]), "recall"], []]
        assert after["tools"][1] == hosted


@pytest.mark.parametrize("dialect", DIALECTS)
def test_bytes_are_replaced_only_where_something_changed(dialect: str) -> None:
    request = talk_in(dialect, steps=6)
    request["odd"] = {"b": 1.50, "a": "\u00e9"}
    raw = json.dumps(request, indent=2).replace('"b": 1.5', '"b" :  1.50').encode()
    compacted = weft.compact(raw, DIGESTS)
    assert isinstance(compacted.request, bytes)
    assert json.loads(compacted.request) == weft.compact(request, DIGESTS).request
    assert b'"b" :  1.50' in compacted.request
    assert b"\\u00e9" in compacted.request
    # messages that did not change are the same to the byte, and so is what stands between them
    key = TALKS[dialect].turns.encode()
    start, end = raw.index(b'"' + key + b'": ['), raw.index(long_text(0)[:20].encode())
    assert raw[start:end] in compacted.request


@pytest.mark.parametrize("dialect", DIALECTS)
def test_recall_gives_back_what_was_left_out(dialect: str) -> None:
    request = talk_in(dialect, steps=6)
    compacted = weft.compact(request, DIGESTS)
    handles = [one.handle for one in compacted.left_out if one.handle]
    assert handles
    assert compacted.tool is not None
    for handle in handles:
        call = TALKS[dialect].call("r1", "recall", {"handle": handle})
        answer = json.dumps(compacted.recall(call))
        assert "error" not in answer
        assert "r1" in answer or dialect == "gemini"
        assert compacted.look_up({"handle": handle, "lines": "1-2"}).startswith("[lines 1-2")


def test_a_giant_result_is_bounded_where_it_can_be_recalled() -> None:
    request = talk_in("anthropic", steps=1)
    giant = "\n".join(f"gauge {number} shows {number * 37 % 101} bar" for number in range(4000))
    messages = TALKS["anthropic"].messages(request)
    messages[-1]["content"][0]["content"] = giant  # type: ignore[index]
    compacted = weft.compact(request, C.auto())
    assert len(json.dumps(compacted.request)) < 25_000
    assert giant.endswith(
        compacted.look_up({"handle": compacted.left_out[0].handle, "lines": "4000-4000"})[-20:]
    )
    assert weft.compact(request, C.window(2)).request is request
    assert weft.compact(request, C.auto(lossless=True)).request is request


def test_the_lossless_grade_hides_nothing_and_needs_no_tool() -> None:
    request = talk_in("openai-chat", steps=4, same=True)
    compacted = weft.compact(request, C.auto(lossless=True))
    assert compacted.tool is None
    assert compacted.request["tools"] is request["tools"]  # type: ignore[index,call-overload]
    assert compacted.tokens < compacted.tokens_before
    texts = json.dumps(compacted.request)
    assert "as lines 1-" in texts
    assert "handle" not in texts
    for line in long_text(0).split("\n"):
        assert line in texts


def test_a_tool_of_the_callers_that_is_called_recall_stays_his() -> None:
    request = talk_in("openai-chat", steps=6)
    request["tools"][0]["function"]["name"] = "recall"  # type: ignore[index,call-overload]
    compacted = weft.compact(request, C.auto())
    assert compacted.tool is None
    assert [one.code for one in compacted.diagnostics] == ["WEFT711"]


def test_a_request_that_may_not_have_tools_gets_none() -> None:
    request = talk_in("openai-chat", steps=6)
    request |= {"model": "gpt-5.6", "reasoning_effort": "high"}  # it thinks, or it calls functions
    del request["tools"]
    compacted = weft.compact(request, C.auto())
    assert "tools" not in compacted.request  # type: ignore[operator]
    assert "WEFT711" in [one.code for one in compacted.diagnostics]


@pytest.mark.parametrize("policy", [C.auto(), C.auto(lossless=True), DIGESTS], ids=str)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_begins_with_the_one_before_it(dialect: str, policy: Policy) -> None:
    request = talk_in(dialect, steps=12)
    messages = TALKS[dialect].messages(request)
    answers = [at for at, one in enumerate(messages) if TALKS[dialect].is_answer(one)]
    before: list[object] = []
    for answer in answers:
        part = TALKS[dialect].with_messages(request, messages[:answer])
        compacted = weft.compact(part, policy)
        after = TALKS[dialect].messages(compacted.request)
        codes = [one.code for one in compacted.diagnostics]
        # an edit of what was sent before is made on purpose, once, and says what it costs
        assert after[: len(before)] == before or (codes == ["WEFT502"] and policy == C.auto())
        before = after


def test_messages_that_are_dropped_and_notes_that_are_added_keep_their_order() -> None:
    request = talk_in("anthropic", steps=3, turns=3)
    compacted = weft.compact(request, C.window(1))
    messages = TALKS["anthropic"].messages(compacted.request)
    kept = [one for one in compacted.sources if one is not None]
    assert kept == sorted(kept)
    assert 0 < len(kept) < len(TALKS["anthropic"].messages(request))
    assert len(messages) == len(compacted.sources)
    assert not refusals("anthropic", compacted.request)  # type: ignore[arg-type]


def test_the_answer_is_the_same_in_a_process_that_knows_nothing() -> None:
    from weft.compaction.compact import forget

    request = talk_in("anthropic", steps=8)
    messages = TALKS["anthropic"].messages(request)
    for end in range(1, len(messages), 2):
        weft.compact(TALKS["anthropic"].with_messages(request, messages[:end]), C.auto())
    grown = weft.compact(request, C.auto())
    forget()
    cold = weft.compact(request, C.auto())
    assert cold.request == grown.request
    assert (cold.tokens, cold.cost, cold.cost_before) == (
        grown.tokens,
        grown.cost,
        grown.cost_before,
    )


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"{", "not JSON"),
        (3, "an int is not a request"),
        ({"prompt": "hi"}, "not a request"),
        ([{"role": "user", "content": object()}], "not JSON"),
    ],
)
def test_what_is_not_a_request_is_refused(request_: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        weft.compact(request_, C.auto())  # type: ignore[arg-type]


def test_a_policy_that_needs_a_session_is_refused() -> None:
    with pytest.raises(DeclarationError, match="needs one"):
        weft.compact(talk_in("gemini"), C.default().capture("x"))
    with pytest.raises(UsageError, match="is not a dialect"):
        weft.compact(talk_in("gemini"), C.auto(), dialect="klingon")


def test_a_report_does_not_guess_at_the_last_step_of_an_agent_that_is_not_ours() -> None:
    compacted = weft.compact(talk_in("anthropic", steps=24), C.auto())
    assert "last of" not in str(compacted.explain())


def test_what_came_before_does_not_decide_for_a_request_with_other_options() -> None:
    plain = talk_in("openai-responses")
    stateful = {**plain, "previous_response_id": "resp_1"}  # the provider holds a part of it
    for first, second in ((plain, stateful), (stateful, plain)):
        forget()
        outcomes = {id(one): weft.compact(one, DIGESTS).request is one for one in (first, second)}
        assert outcomes == {id(plain): False, id(stateful): True}
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    form = {"type": "json_schema", "name": "answer", "schema": schema}
    formed = {**plain, "text": {"format": form}}
    forget()
    alone = weft.compact(formed, DIGESTS).tokens
    forget()
    weft.compact(plain, DIGESTS).tokens  # noqa: B018
    assert weft.compact(formed, DIGESTS).tokens == alone > weft.compact(plain, DIGESTS).tokens


@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("dialect", TALKS)
def test_a_request_that_grew_costs_what_is_new_also_where_marks_for_the_cache_move_on(
    dialect: str, marks: bool
) -> None:
    talk, counts = TALKS[dialect], list[int]()
    for steps in (32, 128):
        request = talk_in(dialect, steps=steps)
        messages = talk.messages(request)
        ends = [end for end, one in enumerate(messages) if end and talk.is_answer(one)]
        bodies = [_body_of(talk, request, end, marks) for end in ends[-6:]]
        forget()
        known = [calls(partial(weft.compact, raw, C.auto())) for raw in bodies]
        counts.append(min(known[1:]))  # some try whether a note pays, which looks at all steps
    assert counts[1] < 2 * counts[0], counts


def _body_of(talk: Talk, request: Wire, end: int, marks: bool) -> bytes:
    """The first messages, of which the last one and the one before its answer are marked."""
    messages: list[Wire] = json.loads(json.dumps(talk.messages(request)[:end]))
    for message in messages[end - 3 :: 2] if marks else ():
        content = message.get("content")
        for part in content[-1:] if isinstance(content, list) else ():
            part["cache_control"] = {"type": "ephemeral"}
    return json.dumps(talk.with_messages(request, messages)).encode()


def test_fields_are_replaced_and_left_out_in_any_layout() -> None:
    chance = random.Random(4)
    for _ in range(500):
        value = {name: chance.choice([1, "a,}", [2, {"b": "}"}], {}, None]) for name in "abcd"}
        value = {name: value[name] for name in chance.sample("abcd", chance.randint(0, 4))}
        indent, apart = chance.choice([None, 2]), chance.choice([(",", ":"), (" , ", " : ")])
        raw = json.dumps(value, indent=indent, separators=apart).encode()
        gone = {name for name in value if chance.random() < 0.4}
        new = {name: "x" for name in "abe" if chance.random() < 0.4 and name not in gone}
        replaced = replace_fields(raw, dict.fromkeys(new, b'"x"'), gone)
        rest = {name: one for name, one in value.items() if name not in gone}
        assert json.loads(replaced) == {**rest, **new}, (raw, gone, new)
        if not gone and not new:
            assert replaced == raw
        marked = json.dumps({**value, "gone": 1}, separators=apart).encode()
        if indent is None and value:  # as if it had never stood there
            assert replace_fields(marked, {}, {"gone"}) == raw


@pytest.mark.parametrize("apart", [(",", ":"), (", ", ": ")])
def test_a_message_is_known_by_its_bytes_without_marks_for_the_cache(
    apart: tuple[str, str],
) -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    data = {"cache_control": {"type": "what a tool is asked for"}}
    for parts in (
        [{"type": "text", "text": "a"}, {"type": "text", "text": '"cache_control": {}'}],
        [{"type": "tool_use", "id": "c", "name": "n", "input": data}],
        [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "b"}]}],
    ):
        plain = {"role": "user", "content": parts}
        marked = {"role": "user", "content": [*parts[:-1], {**parts[-1], **mark}]}
        key = json.dumps(plain, separators=apart).encode()
        assert unmarked_bytes(json.dumps(marked, separators=apart).encode()) == key
        assert unmarked_bytes(key) is key
        first = {"role": "user", "content": [{**mark, **parts[0]}, *parts[1:]]}
        assert json.loads(unmarked_bytes(json.dumps(first).encode())) == plain


@pytest.mark.parametrize("knows", [False, True])
def test_a_request_after_one_that_was_refused_shares_nothing_with_it(knows: bool) -> None:
    talk, policy = TALKS["anthropic"], C.none().redact("email")
    thought = {"type": "thinking", "thinking": "ask a@b.example", "signature": "c2ln"}
    step = talk.step("call_1", "read", {"path": "x"}, "fine")
    step[0]["content"] = [thought, *step[0]["content"]]
    messages = [talk.user("Look."), *step, talk.say("It is fine."), talk.user("And now?")]
    forget()
    if knows:
        with pytest.raises(ProtectionError):
            weft.compact(talk.with_messages(talk.head, messages[:3]), policy)
    compacted = weft.compact(talk.with_messages(talk.head, messages), policy)
    assert compacted.expected.load.cached == 0
    assert compacted.cost > 0


_LEAD = '{"model":"gpt-5","messages":['
_ONE, _TWO, _NEW = (json.dumps({"role": "user", "content": text}) for text in ("a", "b", "c"))


@pytest.mark.parametrize(
    "raw",
    [
        f"{_LEAD}{_ONE},{_TWO},{_NEW}]}}",
        f'{_LEAD}{_ONE},{_TWO}\n,\t{_NEW} ] , "stream" : true}}',
        f"{_LEAD}{_ONE},{_TWO}]}}",
        f"{_LEAD}{_ONE},{_NEW}]}}",
        f"{_LEAD}{_ONE}]}}",
        f'{_LEAD}{_ONE},{_TWO},{_NEW}],"model":"gpt-4"}}',
        f'{_LEAD}{_ONE},{_TWO},{_NEW}],"messages":[{_NEW}]}}',
        f'{_LEAD}{_ONE},{_TWO},{_NEW}],"messages":[{_ONE},{_TWO}]}}',
        f'{_LEAD}{_ONE},{_TWO},{_NEW}],"input":[{_NEW}]}}',
        f'{{"metadata":{{"messages":[{_ONE},{_TWO}]}},"messages":[{_ONE},{_TWO}]}}',
        f'{{"metadata":{{"messages":[{_ONE},{_TWO}]}},"messages":[{_ONE},{_TWO},{_NEW}]}}',
    ],
)
def test_bytes_that_go_on_from_others_are_read_as_json_reads_them(raw: str) -> None:
    for known in (f"{_LEAD}{_ONE},{_TWO}]}}", raw):
        read_body(known.encode(), "openai-chat")
    body = read_body(raw.encode(), "openai-chat")
    assert body.wire == json.loads(raw)
    assert [*body.wire] == [*json.loads(raw)]
    assert [json.loads(key) for key in body.keys] == body.messages == body.wire["messages"]
    assert {name: json.loads(bytes(span)) for name, span in body.fields.items()} == body.wire


@pytest.mark.parametrize(
    "raw",
    [f"{_LEAD}{_ONE},{_TWO}1]}}", f"{_LEAD}{_ONE},{_TWO},{_NEW}", f"{_LEAD}{_ONE},{_TWO}]]}}"],
)
def test_bytes_that_go_on_as_no_json_does_are_refused(raw: str) -> None:
    read_body(f"{_LEAD}{_ONE},{_TWO}]}}".encode(), "openai-chat")
    with pytest.raises(UsageError, match="this is not JSON"):
        read_body(raw.encode(), "openai-chat")


WORDS = ["wind", "river", "gauge", "rose", "over", "the", "weir", "and", "fell"]


def test_what_a_program_says_beside_results_is_not_what_the_user_asks() -> None:
    talk = TALKS["anthropic"]
    task = talk.user("Now repair the weir. " + " ".join(f"Mind bolt {n}." for n in range(99)))
    messages = [talk.user("Read the first gauges."), talk.say("Done."), task]
    for step in range(40):
        text = "\n".join(f"{WORDS[line % 9]} of {WORDS[step % 9]}" for line in range(900))
        call, results = talk.step(f"c{step}", "read", {"path": f"{step}"}, text)
        told = "\n".join(f"task {step}.{n} is not done" for n in range(40))
        reminder = {"type": "text", "text": f"<system-reminder>{told}</system-reminder>"}
        messages += [call, {**results, "content": [*results["content"], reminder]}]
    compacted = weft.compact(talk.with_messages(talk.head, messages), C.default().fold())
    sent = talk.messages(compacted.request)
    assert task in sent
    assert json.dumps(sent).count("</system-reminder>") < 20


PICTURE = "iVBORw0KGgo="


@pytest.mark.parametrize("dialect", ["openai-chat", "gemini", "anthropic"])
def test_a_picture_beside_results_is_not_what_the_user_asks(dialect: str) -> None:
    talk = TALKS[dialect]
    task = talk.user("Now repair the weir. " + " ".join(f"Mind bolt {n}." for n in range(99)))
    messages = [talk.user("Read the first gauges."), talk.say("Done."), task]
    for step in range(40):
        text = "\n".join(f"{WORDS[line % 9]} of {WORDS[step % 9]}" for line in range(900))
        call, results = talk.step(f"c{step}", "read", {"path": f"{step}"}, text)
        shown: Wire = {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{PICTURE}"},
        }
        if dialect == "gemini":
            shown = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
            results = {**results, "parts": [*results["parts"], shown]}
        elif dialect == "anthropic":
            source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            shown = {"type": "image", "source": source}
            results = {**results, "content": [*results["content"], shown]}
        messages += [call, results]
        messages += [{"role": "user", "content": [shown]}] if dialect == "openai-chat" else []
    request = talk.with_messages(talk.head, messages)
    compacted = weft.compact(request, C.default().fold())
    sent = talk.messages(compacted.request)
    assert len(sent) < len(messages)
    assert task in sent


def test_words_between_answers_that_stay_do_too() -> None:
    talk = TALKS["gemini"]
    messages = [talk.user("Read the gauges.")]
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    for step in range(60):
        messages += talk.step("", "read", {"path": f"{step}"}, long_text(step))
        if step % 5 == 1:
            messages.append({"role": "model", "parts": [code, ran, {"text": "It ran."}]})
            messages.append(talk.user(f"Go on with {step}, and mind the weir." * 30))
    compacted = weft.compact(talk.with_messages(talk.head, messages), C.default().fold())
    roles = [one["role"] for one in talk.messages(compacted.request)]
    assert len(roles) < len(messages) // 2
    assert ("model", "model") not in pairwise(roles)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_first_request_costs_is_known_without_reading_it_twice(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    extend = HistoryReader.extend

    def counting(
        reader: HistoryReader, history: ReadHistory, messages: list[Json]
    ) -> ReadHistory | None:
        read.append(len(messages) - history.length)
        return extend(reader, history, messages)

    monkeypatch.setattr(HistoryReader, "extend", counting)
    request = talk_in(dialect, steps=12, turns=2)
    forget()
    compacted = weft.compact(request, C.auto())
    assert compacted.cost > 0
    assert sum(read) == len(TALKS[dialect].messages(request))
    first = compacted.request
    assert weft.compact(request, C.auto()).request == first


CLAUDE_CODE: Wire = {
    "model": "claude-opus-4-8",
    "metadata": {"user_id": "{}"},
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "stream": True,
}

CODEX: Wire = {
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"turn_id": "t1"},
    "text": {"verbosity": "medium"},
    "stream": True,
}

OPENCODE: Wire = {
    "max_tokens": 32000,
    "reasoning_effort": "medium",
    "tool_choice": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
}

GEMINI_CLI: Wire = {
    "generationConfig": {
        "temperature": 1, "topP": 0.95, "topK": 64,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192},
    },
}  # fmt: skip

TOOL_CLEARING: Wire = {
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"value": 9}}]}
}


@pytest.mark.parametrize(
    ("dialect", "options"),
    [
        ("anthropic", CLAUDE_CODE),
        ("anthropic", TOOL_CLEARING),
        ("openai-responses", CODEX),
        ("openai-chat", OPENCODE),
        ("gemini", GEMINI_CLI),
    ],
)
def test_what_coding_agents_ask_of_a_provider_stops_no_policy(dialect: str, options: Wire) -> None:
    request = talk_in(dialect, steps=40)
    model = {key: options[key] for key in ("model",) if key in options}
    bare = weft.compact({**request, **model}, C.auto())
    with_options = weft.compact({**request, **options}, C.auto())
    assert with_options.tokens < 0.7 * with_options.tokens_before
    assert talk_of(with_options, dialect) == talk_of(bare, dialect)


def talk_of(compacted: weft.Compacted, dialect: str) -> list[Wire]:
    return TALKS[dialect].messages(compacted.request)


def test_a_provider_that_sums_up_the_conversation_itself_gets_it_as_it_came() -> None:
    request = talk_in("anthropic", steps=40)
    request["context_management"] = {"edits": [{"type": "compact_20260112"}]}
    assert weft.compact(request, C.auto()).request is request


def test_system_texts_in_mid_conversation_stand_where_a_provider_takes_them() -> None:
    talk = TALKS["anthropic"]
    messages: list[Wire] = [talk.user("Fix it."), {"role": "system", "content": "Two agents."}]
    sizes: list[int] = []
    for step in range(40):
        messages += talk.step(f"c{step}", "read", {"path": f"p/{step}"}, long_text(step))
        if step % 3 == 1:
            messages.append({"role": "system", "content": f"Reminder {step}."})
        grown = talk.with_messages({**talk.head, "model": "claude-opus-4-8"}, messages)
        raw = json.dumps(grown).encode()
        compacted = weft.compact(raw, C.auto())
        request = json.loads(bytes(compacted.request))  # type: ignore[arg-type]
        assert not refusals("anthropic", request)
        roles = [one["role"] for one in request["messages"]]
        pairs = {*pairwise([*roles, "assistant"])}
        assert not {("assistant", "system"), ("system", "user"), ("system", "system")} & pairs
        said = json.dumps(request["messages"])
        assert all(f"Reminder {at}." in said for at in range(step) if at % 3 == 1)
        sizes.append(len(roles))
    assert sizes[-1] < 0.6 * len(messages), "steps were folded"
    forget()
    assert weft.compact(raw, C.auto()).request == compacted.request


SECRET = "ann@example.com"

SECRETIVE: list[tuple[Wire, bool]] = [
    # a request, and whether what is redacted can be replaced in it
    ({"model": "gpt-5", "input": f"Write to {SECRET}."}, True),
    ({"model": "gpt-5", "input": f"Write to {SECRET}.", "previous_response_id": "r"}, True),
    ({"model": "gpt-5", "conversation": "c", "input": [{"role": "user", "content": SECRET}]}, True),
    ({"model": "gpt-5", "messages": [{"role": "system", "content": SECRET}]}, False),
    ({"model": "claude-sonnet-5", "max_tokens": 9, "system": SECRET, "messages": []}, False),
    ({"model": "gpt-5", "input": "hi", "prompt": {"id": "p", "variables": {"to": SECRET}}}, False),
    (
        {
            "model": "gpt-5",
            "input": [{"type": "function_call_output", "call_id": "c", "output": SECRET}],
            "previous_response_id": "r",
        },
        False,
    ),
]


@pytest.mark.parametrize("policy", [C.default(), C.auto()], ids=str)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_what_a_policy_redacts_is_in_no_form_of_request(policy: Policy, as_bytes: bool) -> None:
    for request, is_replaced in SECRETIVE:
        came = json.dumps(request).encode() if as_bytes else request
        if not is_replaced:
            with pytest.raises(ProtectionError):
                weft.compact(came, policy.redact("email"))
            continue
        compacted = weft.compact(came, policy.redact("email")).request
        sent = json.loads(compacted) if isinstance(compacted, bytes) else compacted
        assert SECRET not in json.dumps(sent)
        assert "<EMAIL_" in json.dumps(sent["input"])
        assert {**sent, "input": 0} == {**request, "input": 0}


def test_words_that_are_one_text_stay_one_where_nothing_is_redacted() -> None:
    request = {"model": "gpt-5", "input": "Hello.", "previous_response_id": "r"}
    raw = json.dumps(request, indent=1).encode()
    for policy in (C.auto().redact("email"), C.default().redact("email").fence()):
        assert weft.compact(request, policy).request is request
        assert weft.compact(raw, policy).request is raw


def test_what_the_provider_keeps_is_what_the_caller_asks_it_to_keep() -> None:
    talk, mark = TALKS["anthropic"], {"type": "ephemeral"}
    request = {**talk_in("anthropic", steps=12), "model": "claude-sonnet-4-5"}
    request["system"] = [{"type": "text", "text": "Mind the gauges. " * 900}]
    messages = talk.messages(request)
    marked = json.loads(json.dumps(messages))
    marked[-1]["content"][-1]["cache_control"] = mark
    head = [{**request["system"][0], "cache_control": mark}]
    nothing, alone, all_by_place, all_by_itself = (
        weft.compact({**request, **fields}, C.default()).cost
        for fields in (
            {},
            {"system": head},
            {"messages": marked},
            {"cache_control": mark},
        )
    )
    assert all_by_itself == pytest.approx(all_by_place, rel=0.01)
    assert all_by_place < 0.5 * alone < 0.5 * nothing


def long_work(steps: int) -> dict[str, Json]:
    """A long run of an agent with Claude, whose client marks nothing."""
    request = {**talk_in("anthropic", steps=steps), "model": "claude-sonnet-4-5"}

    def unmarked(one: dict[str, Json]) -> dict[str, Json]:
        return {key: value for key, value in one.items() if key != "cache_control"}

    return json.loads(json.dumps(request), object_hook=unmarked)  # type: ignore[no-any-return]


def test_a_conversation_that_nobody_asks_to_keep_is_folded_sooner() -> None:
    request = long_work(40)
    messages = TALKS["anthropic"].messages(request)
    answered = [at for at, one in enumerate(messages) if one["role"] == "user"]
    sums = {"unmarked": 0, "marked": 0, "plain": 0}
    for at in answered:
        sent = {**request, "messages": messages[: at + 1]}
        sums["plain"] += weft.compact(sent, C.default()).tokens
        sums["unmarked"] += weft.compact(sent).tokens
        marked = {**sent, "cache_control": {"type": "ephemeral"}}
        sums["marked"] += weft.compact(marked).tokens
    assert sums["unmarked"] < 0.7 * sums["marked"] < sums["plain"]


@pytest.mark.parametrize("first", [False, True])
def test_a_client_that_begins_or_ends_to_mark_gets_what_a_cold_reader_gets(first: bool) -> None:
    request, mark = long_work(30), {"cache_control": {"type": "ephemeral"}}
    messages = TALKS["anthropic"].messages(request)
    grown: list[Json] = []
    for at in range(1, len(messages) + 1, 2):
        is_marked = first if at < len(messages) // 2 else not first
        sent = {**request, **(mark if is_marked else {}), "messages": messages[:at]}
        grown.append(weft.compact(sent).request)
    for at, before in zip(range(1, len(messages) + 1, 2), grown, strict=True):
        is_marked = first if at < len(messages) // 2 else not first
        forget()
        sent = {**request, **(mark if is_marked else {}), "messages": messages[:at]}
        assert weft.compact(sent).request == before


def test_openai_keeps_what_it_reads_unless_only_marks_are_to_count() -> None:
    request = {**talk_in("openai-responses", steps=12), "model": "gpt-5.6"}
    explicit = {**request, "prompt_cache_options": {"mode": "explicit"}}
    assert weft.compact(request, C.default()).cost < 0.5 * weft.compact(explicit, C.default()).cost


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_request_is_marked_only_where_nothing_would_be_kept(as_bytes: bool) -> None:
    request, mark = long_work(4), {"type": "ephemeral"}

    def marked(request: Wire) -> object:
        came = json.dumps(request, indent=1).encode() if as_bytes else request
        body = ask_to_keep(read_body(came, None))
        if body.raw is not None:
            assert json.loads(body.raw) == body.wire
            assert read_body(body.raw, None).fields.keys() == body.fields.keys()
        return body.wire

    assert marked(request) == {**request, "cache_control": mark}
    system = [{"type": "text", "text": "Mind the gauges.", "cache_control": {**mark, "ttl": "1h"}}]
    for kept in (
        {**request, "cache_control": {**mark, "ttl": "1h"}},
        {**request, "system": system},
        talk_in("openai-chat", steps=4),
        talk_in("gemini", steps=4),
        {**talk_in("openai-chat", steps=4), "model": "claude-sonnet-4-5"},
    ):
        assert marked(kept) == kept


@pytest.mark.parametrize(
    ("thought", "path"),
    [
        ({}, None),
        ({"reasoning_content": "Two files."}, ("reasoning_content",)),
        ({"reasoning": "Two files."}, ("reasoning",)),
        (
            {"reasoning_details": [{"type": "reasoning.text", "text": "Two files."}]},
            ("reasoning_details",),
        ),
    ],
)
@pytest.mark.parametrize("words", [None, "I look at both."])
def test_calls_next_to_a_thought_have_a_place_each(
    thought: Wire, path: tuple[str, ...] | None, words: str | None
) -> None:
    talk = TALKS["openai-chat"]
    calls = [talk.call(f"call_{number}", "read", {"number": number}) for number in range(2)]
    answer = {"role": "assistant", "content": words, **thought, "tool_calls": calls}
    body = read_body([{"role": "user", "content": "Go."}, answer], "openai-chat")
    history = HistoryReader(body.dialect, "gpt-5").extend(ReadHistory(), body.messages)
    assert history is not None
    expected = [path] if path else []
    expected += [("content",)] if words else []
    expected += [("tool_calls", 0), ("tool_calls", 1)]
    found = [place.path for place in history.places[1]]
    # words that nothing stands next to are an object made of the message
    assert found[-2:] == expected[-2:]
    assert not path or found == expected
