"""Recordings are read as they were made, and compiled again under other policies."""

import gzip
import json

import pytest

from tests.support.recorded import coding_run, service_run
from weft import Agent, Approve, C, Runner, tool
from weft.content import call_part, result_part
from weft.declare import Policy
from weft.declare.words import policy_from
from weft.digest.names import short_values_in, telling_names
from weft.errors import DeclarationError, SessionError
from weft.recordings import Recording, read_recordings, recording_of
from weft.replay.evidence import SearchedText, evidence_in
from weft.replay.page import (
    as_json,
    lines,
    recorded_facts,
    replay_page,
    savings,
    shares,
    ways_to_get,
)
from weft.replay.replay import Trial, replay, requests_of, total, uses_of
from weft.session.store import SessionKey
from weft.testing import ScriptedModel, call, make_session


def read(*runs: object) -> list[Recording]:
    data = "\n".join(json.dumps(run) for run in runs).encode()
    return list(read_recordings(data, name="runs.jsonl"))


def trial(recording: Recording, policy: Policy, model: str | None = None) -> Trial:
    return replay(recording, policy, uses=uses_of(recording.session.events), model=model)


# reading


def test_what_a_coding_agents_commands_printed_becomes_results() -> None:
    (recording,) = read(coding_run(steps=2))
    events = recording.session.events
    assert [event.author for event in events] == [
        "user", "agent", "agent", "agent", "agent", "agent",
    ]  # fmt: skip
    first, result = events[1], events[2]
    assert first.text.startswith("I look at the file.")
    assert [call.name for call in first.calls] == ["run"]
    assert [one.id for one in result.results] == [first.calls[0].id]
    assert events[-1].calls == []
    assert recording.instructions["agent"].startswith("You fix programs.")


def test_a_chat_keeps_its_calls_and_results() -> None:
    (recording,) = read(service_run(looks=1))
    call = next(event for event in recording.session.events if event.calls).calls[0]
    assert call.name == "get_reservation"
    assert call.args == {"reservation_id": "RES0QX"}
    result = next(event for event in recording.session.events if event.results).results[0]
    assert result.id == call.id
    assert json.loads(str((result.response or {})["result"]))["status"] == "booked"


def test_a_session_of_ours_is_a_recording_too_alone_or_a_line_each() -> None:
    session = make_session(("user", "Hi"), ("bot", "Hello"))
    data = session.to_json()
    assert [one.session for one in read_recordings(data, name="s")] == [session]
    lined = data + b"\n" + data + b"\n"
    assert len(list(read_recordings(lined, name="s"))) == 2
    pretty = json.dumps(json.loads(data), indent=2).encode()
    assert [one.session for one in read_recordings(pretty, name="s")] == [session]
    listed = json.dumps([json.loads(data)] * 3, indent=2).encode()
    assert len(list(read_recordings(listed, name="s"))) == 3


def test_a_packed_file_is_unpacked() -> None:
    data = gzip.compress(json.dumps(service_run()).encode())
    assert len(list(read_recordings(data, name="runs.jsonl.gz"))) == 1


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b"", "f", "there is no recording in it"),
        (
            b'{"messages": [{"role": "user", "content": "x"}]}\nnot json\n',
            "f:2",
            "this is not JSON",
        ),
        (
            b'{"messages": [{"role": "user", "content": "x"}]}\n{"turns": []}\n',
            "f:2",
            "this is not a recording",
        ),
        (b'{"messages": []}', "f:1", "there is no message in it"),
        (b'{"messages": [{"role": "robot", "text": "x"}]}', "messages[0]", "is not a role"),
        (b'{"messages": ["x"]}', "f:1: messages[0]", "a message is an object"),
        (b'{"messages": [{"role": "user", "content": 7}]}', "messages[0]", "an int is not content"),
        (
            b'{"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}',
            "tool_calls[0]",
            "a call has no function name",
        ),
        (b'{"events": [{"author": 1}]}', "f:1: events[0]", "this is not an event"),
        (b"\x1f\x8bbroken", "f", "it cannot be unpacked"),
        (b"plain words\n", "f:1", "this is not JSON"),
    ],
)
def test_a_bad_line_is_named(data: bytes, where: str, message: str) -> None:
    with pytest.raises(SessionError) as caught:
        list(read_recordings(data, name="f"))
    assert where in caught.value.where
    assert message in caught.value.message


# policies as text


@pytest.mark.parametrize(
    "text",
    ["C.default()", "C.auto()", "C.window(5)", "C.user('last')", "C.default().compact(to=100)"],
)
def test_a_typed_policy_is_the_policy(text: str) -> None:
    assert str(policy_from(text)) == text


def test_typed_policies_unite_and_pipe() -> None:
    assert policy_from("C.user() + C.window(2)") == C.user() + C.window(2)
    assert policy_from("C.default() | C.compact()") == C.default().compact()
    assert policy_from("C.select(kind=['user'])") == C.select(kind=["user"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C.windw(5)", "windw"),
        ("C.window(n=5, wide=True)", "wide"),
        ("C.window(", "not an expression"),
        ("C.window(x)", "`x` cannot stand in a policy"),
        ("__import__('os').system('true')", "cannot stand in a policy"),
        ("C.default().__class__()", "cannot stand in a policy"),
        ("C.window(**{})", "cannot stand in a policy"),
        ("[C.default()]", "cannot stand in a policy"),
        ("C", "is not a policy"),
        ("C.compact()", "is not a policy"),
        ("C.window(0)", "0"),
    ],
)
def test_a_wrong_policy_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        policy_from(text)
    assert message in str(caught.value)


def test_a_word_that_is_nearly_right_is_named() -> None:
    with pytest.raises(DeclarationError) as caught:
        policy_from("C.default().truncat(5)")
    assert caught.value.hint == "did you mean `truncate`?"


# evidence


def test_names_paths_and_numbers_are_evidence_and_plain_words_are_not() -> None:
    text = "Then open parts/module_3.py at line 12, HAT028 or parseText, 2024-05-21, surely."
    assert telling_names(text) == ["parts/module_3.py", "HAT028", "parseText", "2024-05-21"]


def test_a_use_counts_only_of_what_was_told_before() -> None:
    session = make_session(
        ("user", "Look at value_one."), ("bot", "value_one and value_two"),
        ("user", "Why? See value_three and value_two."), ("bot", "value_two, value_three again"),
    )  # fmt: skip
    assert uses_of(session.events).by_event == {3: ("value_three",)}
    assert uses_of(session.events, "Begin with value_three.").by_event == {}


@pytest.mark.parametrize(
    ("told", "said", "used"),
    [
        ('{"price": 158.00}', "That is $158.", ["158"]),
        ('{"price":1234,"seats":9}', "$1,234.00 for 9 seats", ["1234"]),
        ("seat 12A, gate B4", "You have 12A, at gate B4.", ["12A", "B4"]),
        ("[20,50,112,438]", "Economy is $112.", ["112"]),
        ("a.py:335: def run", "open 335", ["335"]),
        ("leaves 07:45", "at 07:45", ["07:45"]),
        ("up 12%", "12% more", ["12"]),
        ("order 41123", "the 12th, 1 or 2", []),
        ("version 3.12.4", "one of 4", []),
    ],
)
def test_short_values_are_evidence_where_they_stand_by_themselves(
    told: str, said: str, used: list[str]
) -> None:
    text = SearchedText(told)
    assert [one for one in evidence_in(said) if text.has(one)] == used


def test_a_short_value_is_no_part_of_a_longer_one() -> None:
    assert short_values_in("HAT112 and 2024-05-21, a/12, x@12") == []
    assert not SearchedText("x158y 1158 15.8").has("158")
    session = make_session(
        ("user", "Book 42 of them."),
        ("bot", [call_part("find", {}, id="c1")]),
        ("bot", [result_part("find", {"result": '{"price": 77, "left": 42}'}, id="c1")]),
        ("bot", "77 each, and 42 are left; 99 in all"),
        ("user", "So 99?"),
        ("bot", "99"),
    )
    assert uses_of(session.events).by_event == {3: ("77",)}  # 42 was asked, 99 is made up


# replay


def test_append_only_repeats_every_request_and_keeps_all() -> None:
    (recording,) = read(coding_run())
    got = trial(recording, C.default())
    assert got.requests == 9
    assert got.broken == 0
    assert got.in_view == got.kept_share == 1
    assert got.used > 5
    assert got.with_recalls == got.cost
    assert got.largest == got.curve[-1] == max(got.curve)
    written = got.curve[-1] * 1.25 + sum(got.curve[:-1]) * 0.10
    assert got.cost == pytest.approx(written, rel=0.01)


def test_the_system_text_is_sent_as_it_was_recorded() -> None:
    (recording,) = read(coding_run(steps=1))
    (_, _, first), *_ = requests_of(recording, C.default())
    assert first.system == "You fix programs. Use {braces} as {{they}} come."
    assert all(found.code != "WEFT101" for found in first.diagnostics)


def test_a_window_costs_more_and_says_so_each_time() -> None:
    (recording,) = read(service_run(looks=12))
    base, window = trial(recording, C.default()), trial(recording, C.window(4))
    assert window.tokens < base.tokens
    assert window.cost > base.cost
    assert window.broken > 3
    assert window.announced == window.broken
    assert window.kept_share < 1


def test_requests_that_fit_no_budget_are_counted_apart() -> None:
    (recording,) = read(coding_run(steps=4))
    base, tight = trial(recording, C.default()), trial(recording, C.default().budget(120))
    assert tight.refused > 0
    assert tight.requests + tight.refused == base.requests
    assert any(f"refused {tight.refused} requests" in line for line in lines([base, tight]))


def test_a_model_brings_its_prices_and_its_cache_rules() -> None:
    (recording,) = read(coding_run())
    got = trial(recording, C.default(), "gpt-5")
    assert got.money
    assert got.cached % 128 == 0
    assert 0 < got.cost < 0.1


def test_trials_add_up() -> None:
    one, other = read(coding_run("a", steps=3), coding_run("b", steps=5))
    both = total([trial(one, C.default()), trial(other, C.default())])
    assert both.runs == 2
    assert both.requests == 10
    assert both.reached == (2, 2, 2, 2, 1, 1)
    assert sum(both.curve) == both.tokens


def test_declared_agents_are_replayed_with_what_they_declare() -> None:
    session = make_session(("user", "Hi"), ("bot", "Hello"), ("user", "Go"), ("bot", "Gone"))
    recording = recording_of(session)
    told = Agent("bot", instruction="A long instruction. " * 50)
    uses = uses_of(session.events)
    bare = replay(recording, C.default(), uses=uses)
    full = replay(recording, C.default(), uses=uses, agents={"bot": told})
    assert full.tokens > bare.tokens + 2 * 150


async def test_a_question_to_the_user_is_no_answer_of_a_model() -> None:
    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel([call("pay", amount=5), "It is paid."])
    async with Runner(Agent("shop", model=model, tools=[pay])) as runner:
        await runner.run("Pay 5", session_id="s")
        (asked,) = await runner.pending()
        await runner.resume(session_id="s", answers={asked.call_id: Approve()})
        session = await runner.store.get(SessionKey("shop", "user", "s"))
    assert session is not None
    recording = recording_of(session)
    requests = [compiled for _, _, compiled in requests_of(recording, C.default())]
    assert len(requests) == len(model.prompts) == 2
    assert {name for one in requests for name in one.tools} == {"pay"}
    assert recorded_facts([recording]).answers == 2


def test_the_page_needs_nothing_beside_itself_and_escapes() -> None:
    (recording,) = read(coding_run(steps=3))
    trials = [trial(recording, C.default()), trial(recording, C.window(1))]
    page = replay_page(trials, source="<script>alert(1)</script>")
    assert "<script" not in page
    assert "http" not in page
    assert page.count("<svg") == 2
    assert page.count("<polyline") == 2
    assert page.count("<circle") == 4


def test_rows_are_relative_to_the_first_policy() -> None:
    (recording,) = read(coding_run(steps=3))
    trials = [trial(recording, C.default()), trial(recording, C.none())]
    first, second = as_json(trials)
    assert first["cost_ratio"] == 1.0
    assert second["policy"] == "C.none()"
    table = list(lines(trials))
    assert table[0].startswith("yardstick (read 0.10, write 1.25): 1 runs, 4 requests")
    assert table[2].split()[2] == "1.00x"


# requests with their tools

_SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "A town, by its name in the local tongue."},
        "day": {"type": "string", "description": "Today or a weekday, never a date."},
    },
    "required": ["place"],
}
_ABOUT = "The weather of a place, with wind and rain, hour by hour and day by day. " * 4
REQUESTS: dict[str, dict[str, object]] = {
    "openai-chat": {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Oslo?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"place":"Oslo"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": _ABOUT, "parameters": _SCHEMA},
            }
        ],
    },
    "openai-responses": {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Oslo?"},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "weather",
                "arguments": '{"place":"Oslo"}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": "Rain."},
        ],
        "tools": [
            {"type": "function", "name": "weather", "description": _ABOUT, "parameters": _SCHEMA}
        ],
    },
    "anthropic": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Oslo?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "weather", "input": {"place": "Oslo"}}
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Rain."}],
            },
        ],
        "tools": [{"name": "weather", "description": _ABOUT, "input_schema": _SCHEMA}],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Oslo?"}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "weather", "args": {"place": "Oslo"}}}],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "weather", "response": {"result": "Rain."}}}
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "weather", "description": _ABOUT, "parameters": _SCHEMA}
                ]
            }
        ],
    },
}


@pytest.mark.parametrize("dialect", REQUESTS)
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "with its answer"])
def test_a_recorded_request_brings_its_tools(dialect: str, wrapped: bool) -> None:
    request = REQUESTS[dialect]
    bare = {key: value for key, value in request.items() if key != "tools"}
    if wrapped:
        (recording,) = read({"id": "x1", "request": request, "status": 200})
        (without,) = read({"id": "x1", "request": bare, "status": 200})
    else:
        (recording,), (without,) = read(request), read(bare)
    assert [tool.name for tool in recording.tools] == ["weather"]
    assert recording.instructions == {"agent": "Be brief."}
    made = [compiled for _, _, compiled in requests_of(recording, C.default())]
    assert len(made) == 1
    declared = made[-1].prompt.tools[0]
    assert declared.description.strip() == _ABOUT.strip()
    assert "place" in json.dumps(declared.parameters)
    assert trial(recording, C.default()).tokens > trial(without, C.default()).tokens + 60


def test_a_chat_with_tools_counts_them_and_makes_up_no_other() -> None:
    run = service_run(looks=1)
    chat = REQUESTS["openai-chat"]["tools"]
    (recording,) = read({**run, "tools": chat})
    *_, (_, _, last) = requests_of(recording, C.default())
    assert last.tools == ["weather"]


def test_tools_that_cannot_be_declared_again_are_left_out() -> None:
    request = {**REQUESTS["openai-responses"]}
    odd = {"type": "function", "name": "recall", "description": "", "parameters": _SCHEMA}
    request["tools"] = [{"type": "web_search"}, odd, odd]
    (recording,) = read(request)
    assert recording.tools == ()
    assert trial(recording, C.auto()).requests == 1


def test_a_request_that_cannot_be_read_is_named() -> None:
    with pytest.raises(SessionError) as caught:
        read({"system": "x", "messages": [{"role": "robot", "content": "x"}]})
    assert "runs.jsonl:1: messages/0/role" in caught.value.where
    assert "robot" in caught.value.message


# what can be read


def digest_session(*, used: str) -> Recording:
    names = [f"helper_{n}_of_part" for n in range(400)]
    text = "\n".join(f"{n}: {name} = {n * 7919}" for n, name in enumerate(names))
    return recording_of(
        make_session(
            ("user", "Look for task_name_one."),
            ("bot", [call_part("look", {}, id="c1")]),
            (
                "bot",
                [
                    result_part(
                        "look", {"result": text + "\ntask_name_one\n(9 more lines)"}, id="c1"
                    )
                ],
            ),
            ("bot", f"It is {used}."),
        )
    )


def test_a_bare_name_behind_a_digest_is_not_in_view() -> None:
    recording = digest_session(used="helper_199_of_part")
    *_, (_, _, last) = requests_of(recording, C.auto())
    sent = str(last.prompt)
    assert "also: " in sent
    listed = sent.partition("also: ")[2].split(",")[0].strip()
    got = trial(digest_session(used=listed), C.auto())
    assert (got.used, got.present, got.behind) == (1, 0, 1)
    assert got.lost == 0
    assert got.recalls == 1


def test_what_the_task_says_is_no_evidence() -> None:
    got = trial(digest_session(used="task_name_one"), C.auto())
    assert got.used == 0


def test_what_nothing_leads_to_is_lost() -> None:
    got = trial(digest_session(used="helper_399_of_part"), C.default().truncate(60))
    assert (got.used, got.present, got.behind) == (1, 0, 0)
    assert got.lost == 1
    assert got.restorable < 1
    (row,) = as_json([got])
    assert (row["lost_share"], row["rebuilt_share"]) == (1.0, got.restorable)


# what it costs that something is missing


def priced_session(*, rows: int = 300) -> Recording:
    text = "\n".join(f"flight HAT{n:03} costs {n + 100}" for n in range(rows))
    return recording_of(
        make_session(
            ("user", "Which one?"),
            ("bot", [call_part("find", {}, id="c1")]),
            ("bot", [result_part("find", {"result": text}, id="c1")]),
            ("bot", "It costs $250."),
            ("user", "And now?"),
            ("bot", "Still $250."),
        )
    )


def test_a_miss_without_a_handle_costs_a_call_made_again_once() -> None:
    recording = priced_session()
    base, cut = trial(recording, C.default()), trial(recording, C.default().truncate(60))
    assert (base.short, base.short_present, base.repeats) == (2, 2, 0)
    assert (cut.short, cut.short_present, cut.recalls, cut.repeats) == (2, 0, 0, 1)
    whole = base.largest - cut.largest
    assert cut.with_recalls - cut.cost > 1.25 * whole  # all of it is brought again, and kept
    handled = trial(recording, C.default().compact())
    assert (handled.recalls, handled.repeats) == (1, 0)


def test_numbers_that_a_digest_adds_are_not_in_view() -> None:
    recording = priced_session(rows=400)
    *_, (_, _, last) = requests_of(recording, C.default().compact())
    digest = str(last.prompt)
    assert "alike)" in digest
    assert "of 400 lines" in digest
    assert trial(recording, C.default().compact()).in_view_short == 0


def test_the_bill_has_the_answers_and_both_shares_are_told() -> None:
    (recording,) = read(coding_run())
    base, auto = trial(recording, C.default()), trial(recording, C.auto())
    assert base.output > 0
    assert base.output_cost == pytest.approx(5 * base.output)
    assert base.bill == base.with_recalls + base.output_cost
    paid = trial(recording, C.default(), "gpt-5")
    assert paid.output_cost == pytest.approx(paid.output * 10 / 1_000_000)
    (line,) = savings([base, auto])
    ratio = auto.with_recalls / base.cost
    assert f"input {ratio:.2f}x" in line
    assert f"the bill with the answers {auto.bill / base.bill:.2f}x" in line
    assert auto.bill / base.bill > ratio
    (row, other) = as_json([base, auto])
    assert (row["bill_ratio"], other["bill_ratio"]) == (1.0, auto.bill / base.bill)
    priced = priced_session()
    (line,) = shares([trial(priced, C.default()), trial(priced, C.default().truncate(60))])
    assert "short values 0.0% of 2" in line


def test_an_answer_counts_as_its_provider_counted_it() -> None:
    answer = {"role": "assistant", "content": "Oslo is calm."}
    usage = {"prompt_tokens": 20, "completion_tokens": 77, "total_tokens": 97}
    request = {"model": "gpt-5", "messages": [{"role": "user", "content": "Oslo?"}]}
    response = {"model": "gpt-5", "choices": [{"index": 0, "message": answer}], "usage": usage}
    (recording,) = read({"id": "x", "request": request, "response": response, "status": 200})
    assert trial(recording, C.default()).output == 77


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("weft", "agent.sees(C.auto())"),
        ("adk", "plugins=[WeftPlugin(context=C.auto())]"),
        ("langchain", "middleware=[WeftMiddleware(C.auto())]"),
        ("openai-agents", "call_model_input_filter=WeftFilter(C.auto())"),
        ("pydantic-ai", "capabilities=[WeftCapability(C.auto())]"),
        ("claude-code", "weft proxy --policy 'C.auto()' -- COMMAND"),
    ],
)
def test_it_ends_with_what_to_write(format: str, words: str) -> None:
    (recording,) = read(coding_run())
    recording = recording._replace(format=format)
    trials = [trial(recording, C.default()), trial(recording, C.auto())]
    (line,) = ways_to_get(trials, recorded_facts([recording]))
    assert line.startswith("to get this: ")
    assert words in line
    assert "C.auto()" in line
    dearer = [trial(recording, C.default()), trial(recording, C.window(1))]
    assert [*ways_to_get(dearer, recorded_facts([recording]))] == []
