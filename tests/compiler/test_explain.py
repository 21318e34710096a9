"""The report adds up, accounts for everything, and can be shown anywhere."""

import json
import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.build import calls, returns, says, session, user
from tests.support.strategies import logs
from weft import Agent, C, Content, Event, Part, RunConfig, Session, TokenBudget
from weft.compiler import Compilation
from weft.compiler import compile_request as compile
from weft.compiler.report import Report, clip, columns
from weft.content import call_part, thought_part
from weft.declare.policy import Policy
from weft.diagnostics import safe
from weft.ir import CallBlock
from weft.passes import ON_FRESH, ON_REQUEST


def look(city: str = "", q: str = "") -> dict[str, str]:
    """Look something up."""
    return {city: q}


MODELS = (
    "gemini-flash-latest",
    "gemini-2.5-pro",
    "claude-sonnet-4-5",
    "claude-3-haiku",
    "gpt-5",
    "gpt-4-turbo",
    "o4-mini",
    "ollama/unknown",
)
BOT = Agent(
    "bot",
    model="gemini-flash-latest",
    instruction="The intent is {intent?}. You live in {city}.",
    tools=[look],
    generate_config={"temperature": 0.3},
)


def value_at(wire: object, pointer: str) -> object:
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        wire = wire[int(step)] if isinstance(wire, list) else wire[step]  # type: ignore[index]
    return wire


def turn_overheads(compiled: Compilation) -> int:
    """Counted from the turns and blocks, independently of how the report gets it."""
    over, lowered = compiled.scale.overheads, compiled.lowered()
    system_is_a_turn = bool(lowered.lead) or "instructions" in lowered.wire
    sealed = sum(entry.wire.get("type") == "reasoning" for entry in lowered.entries)
    total = over.turn * (len(lowered.entries) - sealed + system_is_a_turn)
    total += over.text * bool(compiled.prompt.system)
    if compiled.dialect == "openai-responses":  # calls are turns there, none is parallel
        return total
    for item in compiled.prompt.items:
        total += over.parallel * (sum(isinstance(b, CallBlock) for b in item.blocks) > 1)
    return total


def overheads(report: Report) -> dict[str, int]:
    return {row.text.split(" of ")[0]: row.tokens for row in report.sent if row.kind == "overhead"}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(
    events=logs(),
    model=st.sampled_from(MODELS),
    view=st.sampled_from([C.default(), C.none(), C.nothing()]),
    schema=st.sampled_from([None, int, {"type": "object", "properties": {"a": {}}}]),
    thinking=st.booleans(),
    budget=st.sampled_from([None, 2_000]),
)
def test_the_rows_of_any_request_add_up_to_its_tokens(
    events: list[Event],
    model: str,
    view: object,
    schema: object,
    thinking: bool,
    budget: int | None,
) -> None:
    agent = Agent(
        "bot",
        model=model,
        instruction=BOT.instruction,
        tools=[look],
        output_schema=schema,
        context=view,  # type: ignore[arg-type]
        generate_config={"thinking": {"budget": 1024}} if thinking else {},
        context_compressor=TokenBudget(budget) if budget else None,
    )
    compiled = compile(agent, session=Session("s", state={"city": "Oslo"}, events=events))
    report = compiled.explain()
    assert sum(row.tokens for row in report.sent) == compiled.tokens == report.tokens
    assert sum(report.by_source.values()) == compiled.tokens
    assert overheads(report).get("roles and limits", 0) == turn_overheads(compiled)
    assert all(row.tokens >= 0 for row in report.sent)
    shown = [row for row in report.sent if row.kind != "overhead"]
    blocks = len(compiled.prompt.blocks) + len(compiled.prompt.tools)
    native = compiled.prompt.output is not None and compiled.prompt.output.how == "native"
    assert len(shown) == blocks + native
    for row in shown:
        if row.pointer:
            value_at(compiled.wire, row.pointer)
    unsaid = [row for row in shown if not row.pointer]
    assert len(unsaid) == sum(row.step == "lower" for row in report.left_out)
    json.dumps(report.to_dict(), allow_nan=False)
    assert all(columns(line) <= 100 for line in str(report).splitlines())


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(events=logs())
def test_every_event_is_sent_or_accounted_for(events: list[Event]) -> None:
    complete = [event for event in events if not event.partial]
    compiled = compile(BOT, session=Session("s", state={"city": "Oslo"}, events=complete))
    report = compiled.explain()
    rows = [*report.sent, *report.left_out]
    named = {row.origin.name for row in rows if row.origin.kind == "event"}
    assert {event.id for event in complete} <= named


def test_equal_requests_give_equal_reports() -> None:
    log = [user("Hi", id="a", timestamp=1.0), says("bot", "Hello", id="b", timestamp=2.0)]
    one = compile(BOT, session=session(*log, city="Oslo"), message="And?").explain()
    two = compile(BOT, session=session(*log, city="Oslo"), message="And?").explain()
    assert one == two
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
    assert one.to_html() == two.to_html()
    with pytest.raises(AttributeError):
        one.tokens = 0  # type: ignore[misc]


def test_passes_stand_in_the_order_they_run() -> None:
    report = compile(BOT, message="Hi").explain()
    names = [row.name for row in report.passes]
    assert names == [*dict.fromkeys(one.__name__ for one in (*ON_FRESH, *ON_REQUEST))]


def test_what_passes_did_is_counted_and_told() -> None:
    log = session(
        user("Fly me to Oslo"),
        says("triage", "booking", writes="intent"),
        says("helper", "On it."),
        calls("bot", "look", {"city": "Oslo"}, "c1"),
        user("and?"),
        returns("bot", "look", {"sky": "clear"}, "c1"),
        Event(author="bot", invocation_id="1", id="empty"),
        city="Oslo",
    )
    report = compile(BOT, session=log).explain()
    by_name = {row.name: row for row in report.passes}
    assert by_name["dedupe_state"].dropped == 1
    assert by_name["dedupe_state"].after == 0 < by_name["dedupe_state"].before
    assert by_name["attribute_foreign"].changed == 1
    assert by_name["pair_results"].moved == 1
    assert by_name["pair_results"].before == by_name["pair_results"].after
    assert by_name["drop_hidden"].dropped == 1
    assert by_name["drop_hidden"].before == 0
    told = {(row.step, row.action): row for row in report.left_out}
    assert told["dedupe_state", "dropped"].reason == "the instruction carries it as {intent}"
    assert told["pair_results", "moved"].origin.kind == "event"
    assert "dedupe_state dropped" in str(report)


def test_a_turn_that_a_pass_made_is_added_not_dropped() -> None:
    report = compile(BOT, session=session(says("bot", "Welcome!"), city="Oslo")).explain()
    added = [(row.step, row.before, str(row.origin)) for row in report.left_out]
    assert added == [("open_turn", 0, "pass open_turn"), ("close_turn", 0, "pass close_turn")]


def test_what_the_budget_drops_is_listed_with_its_tokens() -> None:
    log = [event for n in range(40) for event in (user(f"{n} " * 30), says("bot", "ok " * 30))]
    agent = Agent("bot", model="gpt-5", context_compressor=TokenBudget(600, keep_recent=2))
    report = compile(agent, session=session(*log), message="now").explain()
    fit = next(row for row in report.passes if row.name == "fit_budget")
    assert fit.dropped > 0
    assert fit.before > 0 == fit.after
    assert report.tokens <= 600


def test_a_thought_the_dialect_does_not_take_back_is_told() -> None:
    foreign = thought_part("hm", signature="c2ln", provider="anthropic")
    content = Content(role="model", parts=(foreign, Part(text="so")))
    log = session(user("Hi"), Event(author="bot", content=content, invocation_id="1", id="e9"))
    report = compile(BOT, session=log, state={"city": "x"}, message="?").explain()
    (row,) = [row for row in report.left_out if row.step == "lower"]
    assert (row.origin.name, row.action) == ("e9", "dropped")
    assert "gemini" in row.reason


def test_the_first_request_says_so_and_the_next_shares_it() -> None:
    first = compile(BOT, session=session(city="Oslo"), message="Hi").explain()
    assert first.prefix.first
    assert "first request" in str(first)
    log = session(user("Hi"), says("bot", "Hello"), city="Oslo")
    second = compile(BOT, session=log, message="And?").explain()
    assert not second.prefix.first
    assert second.prefix.tokens == first.tokens
    assert second.prefix.broken == ""
    shared = [row for row in second.sent if row.shared]
    assert [row.text for row in shared if row.role == "user"] == ["Hi"]
    assert {row.kind for row in shared} == {"tool", "text", "overhead"}
    assert sum(row.tokens for row in shared) == second.prefix.tokens


def test_a_broken_prefix_names_the_place_the_cause_and_the_cost() -> None:
    log = session(user("Hi"), says("bot", "Hello"), city="Oslo")
    report = compile(BOT, session=log, state={"city": "Bergen"}, message="And?").explain()
    assert report.prefix.broken == "the system text changed"
    assert str(report.prefix.broken_by) == "state city"
    assert report.prefix.lost_tokens > 0
    assert "by state city" in str(report)
    assert not any(row.shared for row in report.sent if row.role)


def test_a_previous_request_that_cannot_be_rebuilt_is_no_reason_to_fail() -> None:
    tight = Agent("bot", model="gpt-5", context_compressor=TokenBudget(60, keep_recent=0))
    log = session(user("long " * 200), says("bot", "ok"), user("hi", inv="2"))
    report = compile(tight, session=log).explain()
    assert "budget" in report.prefix.problem
    assert "cannot be rebuilt" in str(report)


def test_options_say_who_set_them_and_whether_they_are_sent() -> None:
    config = RunConfig(generate_config={"temperature": 0.1, "top_k": 3})
    claude = Agent("bot", model="gpt-4.1", generate_config={"temperature": 0.7, "seed": 1})
    report = compile(claude, message="Hi", config=config).explain()
    rows = {row.name: row for row in report.options}
    assert (rows["temperature"].value, str(rows["temperature"].origin)) == (
        0.1,
        "config temperature",
    )
    assert str(rows["seed"].origin) == "bot.generate_config"
    assert rows["temperature"].pointer == "/temperature"
    assert not rows["top_k"].sent
    assert any(found.code == "WEFT702" for found in report.diagnostics)


def test_a_long_history_is_summarised_in_text_only() -> None:
    log = [event for n in range(500) for event in (user(f"q{n}"), says("bot", f"a{n}"))]
    report = compile(BOT, session=session(*log, city="Oslo"), message="now").explain()
    text = str(report)
    assert re.search(r"\.\.\.and 976 more of the history, [\d,]+ tokens \(--all", text)
    assert "a499" in text
    assert "q0" not in text
    assert len(text.splitlines()) < 80
    whole = report.to_text(everything=True)
    assert "more of the history" not in whole
    assert all(f"q{n}" in whole for n in range(500))
    rows = report.to_dict()["sent"]
    assert isinstance(rows, list)
    assert len(rows) == len(report.sent) > 1000


def test_text_cannot_steer_a_terminal_or_break_a_row() -> None:
    nasty = "\x1b[31mred\x00\r\x9b2J\u202e\nsecond line\u2028third"
    compiled = compile(BOT, session=session(user(nasty), city=nasty))
    text = str(compiled.explain())
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "\\x1b[31mred" in text


def test_wide_text_is_cut_by_columns() -> None:
    assert columns("東京") == 4
    assert clip("東京タワー", 5) == "東京…"
    assert clip("abcdef", 4, keep="end") == "…def"
    assert clip("abc", 3) == "abc"
    assert safe("a\tb\nc") == "a\tb\nc"


class Page(HTMLParser):
    """What a page holds: its tags, its outside references, its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.titles: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "data", "action") or name.startswith("on"):
                self.outside.append(f"{tag} {name}={value}")
            if name == "title" and value is not None:
                self.titles.append(value)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_self_contained_and_shows_origins() -> None:
    report = compile(BOT, state={"city": "Oslo"}, message="Hi").explain()
    html = report.to_html()
    page = Page(html)
    assert not page.outside
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not re.search(r"url\(|@import|https?:", html)
    assert "prefers-color-scheme" in html or "light-dark(" in html
    assert "state city" in page.titles
    assert "bot.tools.look" in page.titles
    assert any(title.startswith("system: ") for title in page.titles)
    assert "details" in page.tags


@pytest.mark.parametrize("where", ["message", "state", "tool", "result"])
def test_nothing_from_outside_becomes_markup(where: str) -> None:
    attack = "</pre></details><script>alert(1)</script><img src=x onerror='a' \"q\" & {x}"
    log = session(
        user(attack if where == "message" else "Hi"),
        calls("bot", "look", {"q": attack if where == "result" else "x"}, "c1"),
        returns("bot", "look", {"text": attack if where == "result" else "x"}, "c1"),
        city=attack if where == "state" else "Oslo",
    )
    look.__doc__ = attack if where == "tool" else "Look something up."
    agent = Agent("bot", model="gpt-5", instruction="In {city}.", tools=[look])
    page = Page(compile(agent, session=log).explain().to_html())
    assert not page.outside
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "<script>alert(1)</script>" in "".join(page.text)


def test_a_page_of_two_thousand_blocks_is_made_in_seconds() -> None:
    log = [event for n in range(1000) for event in (user(f"q{n}"), says("bot", "word " * 40))]
    huge = Content(role="user", parts=(Part(text="x" * 1_000_000),))
    log.append(Event(author="user", content=huge, invocation_id="9"))
    report = compile(BOT, session=session(*log, city="Oslo")).explain()
    started = time.thread_time()
    html = report.to_html()
    assert time.thread_time() - started < 60
    assert len(html) < 3_000_000
    assert "980,000 more characters" in html
    assert Page(html).tags.count("tr") > 2000


def test_a_made_up_result_is_marked() -> None:
    lost = Content(role="model", parts=(call_part("look", {}, id="c1"),))
    log = session(user("Hi"), Event(author="bot", content=lost, invocation_id="1"), city="x")
    report = compile(BOT, session=log).explain()
    assert [row.kind for row in report.sent if row.source == "results"] == ["made-up"]
    assert [found.code for found in report.diagnostics] == ["WEFT201"]


def test_what_was_inferred_is_said() -> None:
    agent = Agent("bot", model="claude-3-haiku", output_schema=int)
    told = " ".join(compile(agent, message="Hi").explain().inferred)
    assert "spoken to in anthropic" in told
    assert "estimated" in told
    assert "through a tool that takes it, under `result`" in told


@pytest.mark.parametrize("model", MODELS)
def test_rows_of_a_templated_instruction_keep_their_place_in_later_requests(model: str) -> None:
    bot = Agent("bot", model=model, instruction="You live in {city}.")
    first = session(user("hi"), city="Oslo")
    places = [
        [row.pointer for row in compile(bot, session=log).explain().sent if row.source == "system"]
        for log in (first, first.append(says("bot", "ho"), user("and?")))
    ]
    assert all(places[0])
    assert places[0] == places[1]


@pytest.mark.parametrize(
    "policy", [None, C.window(3), C.default().dedupe(), C.default().truncate(40)], ids=str
)
def test_history_is_what_belongs_to_earlier_turns_whatever_a_pass_did(
    policy: Policy | None,
) -> None:
    log = [
        event
        for turn in "12"
        for event in (user(f"q{turn}", inv=turn), says("bot", f"a{turn}", inv=turn))
    ]
    bot = Agent("bot", model="gpt-5", instruction="Help.", context=policy)
    rows = compile(bot, session=session(*log), message="now").explain().sent
    assert [row.text for row in rows if row.history] == ["q1", "a1", "q2", "a2"]
    rows = compile(bot, session=session(*log)).explain().sent
    assert [row.text for row in rows if row.history] == ["q1", "a1"]


def test_a_long_turn_is_summarised_as_a_long_history_is() -> None:
    log = [user("go")]
    for number in range(100):
        log.append(calls("bot", "look", {}, f"c{number}"))
        log.append(returns("bot", "look", {"n": number}, f"c{number}"))
    text = str(compile(BOT, session=session(*log, city="Oslo")).explain())
    assert "more of the history" in text
    assert len(text.splitlines()) < 120


def test_a_pass_that_left_the_head_alone_is_not_said_to_have_changed_it() -> None:
    agent = Agent("bot", model="gpt-5", instruction="Be brief.").sees(C.default().priority(3))
    compiled = compile(agent, session=session(user("Hi"), says("bot", "Yes?")), message="Go")
    assert {row.remark for row in compiled.explain().passes} == {""}
