"""C6: what a policy redacts is in no request, comes back where it may, and stays in the log."""

import asyncio
import json
import random
import re
from collections.abc import Callable
from itertools import pairwise

import pytest

import weft
from weft import Agent, Content, Part, Runner, Session
from weft.content import Blob, call_part, result_part
from weft.declare import C, CallbackContext, Tool
from weft.detect import PLACEHOLDER
from weft.dialects import DIALECTS
from weft.errors import DeclarationError, ProtectionError
from weft.ir import Prompt, TextBlock
from weft.models.scripted import Entry
from weft.testing import ScriptedModel, call, make_session
from weft.values import JsonObject

JANE = "jane.roe@example.org"
BOSS = "boss@corp.example.com"


def says_mail(prompt: Prompt) -> str:
    """The last placeholder of an address that the model was shown."""
    return re.findall(r"<EMAIL_[0-9a-f]{10}>", str(prompt))[-1]


def sent(model: ScriptedModel) -> str:
    return json.dumps(model.wires, ensure_ascii=False)


def mailing(got: list[str]) -> Callable[[str], JsonObject]:
    def send(to: str) -> JsonObject:
        """Send a mail; ask ops@corp.example.com if it fails."""
        got.append(to)
        return {"sent": to, "log": f"queued for {to}, cc {BOSS}"}

    return send


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_c6_no_channel_carries_an_address_to_the_model(dialect: str) -> None:
    got: list[str] = []
    script: list[Entry] = [lambda prompt: call("send", to=says_mail(prompt)), "done"]
    model = ScriptedModel(script, dialect=dialect)
    bot = Agent(
        "bot",
        model=model,
        instruction="You write for {owner}.",
        tools=[mailing(got)],
        context=C.default().redact("email"),
    )
    session = Session("s1", state={"owner": BOSS})
    result = weft.run_sync(bot, f"I am {JANE}, write to me", session=session)
    assert result.text == "done"
    assert "@example.org" not in sent(model)
    assert "@corp.example.com" not in sent(model)
    assert len(set(PLACEHOLDER.findall(sent(model)))) == 3


def test_c6_a_value_that_is_split_over_parts_is_found() -> None:
    model = ScriptedModel(["ok"])
    bot = Agent("bot", model=model, context=C.default().redact("email"))
    parts = (Part(text="mail jane.roe@exa"), Part(text="mple.org now"))
    message = Content(parts=parts, role="user")
    weft.run_sync(bot, message)
    assert "jane" not in sent(model)
    assert "mple.org" not in sent(model)
    assert PLACEHOLDER.search(sent(model)) is not None


def test_c6_another_agents_words_are_redacted_too() -> None:
    writer = Agent("writer", model=ScriptedModel([f"The customer is {JANE}."]))
    model = ScriptedModel(["noted"])
    reader = Agent("reader", model=model, context=C.default().redact("email"))
    weft.run_sync(writer >> reader, "who is it?")
    assert JANE not in sent(model)
    assert "<EMAIL_" in sent(model)


def test_the_same_value_is_the_same_placeholder_for_every_agent_and_window() -> None:
    first = ScriptedModel(["one"])
    second = ScriptedModel(["two", "three"])
    flow = Agent("a", model=first, context=C.default().redact("pii")) >> Agent(
        "b", model=second, context=C.window(1).redact("email", "card")
    )
    weft.run_sync(flow, f"from {JANE}", session=Session("same"))
    one = set(PLACEHOLDER.findall(sent(first)))
    assert one == set(PLACEHOLDER.findall(sent(second)))
    assert len(one) == 1


def test_another_session_has_other_placeholders() -> None:
    found: set[str] = set()
    for name in ("s1", "s2", "s3"):
        model = ScriptedModel(["ok"])
        bot = Agent("bot", model=model, context=C.default().redact("email"))
        weft.run_sync(bot, f"from {JANE}", session=Session(name))
        found.update(PLACEHOLDER.findall(sent(model)))
    assert len(found) == 3


def test_tools_get_real_values_where_the_policy_lets_them() -> None:
    got: list[str] = []
    script: list[Entry] = [lambda prompt: call("send", to=says_mail(prompt)), "done"]
    model = ScriptedModel(script)
    bot = Agent(
        "bot",
        model=model,
        tools=[mailing(got)],
        context=C.default().redact("email", restore="tools"),
    )
    result = weft.run_sync(bot, f"I am {JANE}")
    assert got == [JANE]
    assert JANE not in sent(model)
    assert JANE in json.dumps(result.events[1].results[0].response)
    calls = result.events[0].calls
    assert PLACEHOLDER.fullmatch(str((calls[0].args or {})["to"])), "the log has what was said"


def test_without_restore_a_tool_gets_the_placeholder() -> None:
    got: list[str] = []
    script: list[Entry] = [lambda prompt: call("send", to=says_mail(prompt)), "done"]
    bot = Agent(
        "bot",
        model=ScriptedModel(script),
        tools=[mailing(got)],
        context=C.default().redact("email", restore="answer"),
    )
    weft.run_sync(bot, f"I am {JANE}")
    assert PLACEHOLDER.fullmatch(got[0])


def test_an_answer_is_restored_and_goes_back_to_the_model_as_it_was_said() -> None:
    script: list[Entry] = [lambda prompt: f"I wrote to {says_mail(prompt)}.", "bye"]
    model = ScriptedModel(script)
    bot = Agent("bot", model=model, context=C.default().redact("email", restore="answer"))
    result = weft.run_sync(bot, f"I am {JANE}", session=Session("s"))
    assert result.text == f"I wrote to {JANE}."
    again = weft.run_sync(bot, "thanks", session=result.session)
    assert again.text == "bye"
    assert JANE not in sent(model)
    assert says_mail(model.prompts[0]) in json.dumps(model.wires[1])


def test_a_name_that_no_detector_finds_in_the_answer_does_not_come_back_to_the_model() -> None:
    def greets(prompt: Prompt) -> str:
        made = PLACEHOLDER.search(str(prompt))
        assert made is not None
        return f"qux {made.group()} qux"

    model = ScriptedModel([greets, "bye"])
    bot = Agent("bot", model=model, context=C.default().redact("name", restore="answer"))
    result = weft.run_sync(bot, "My name is Zyxwvut", session=Session("s"))
    assert result.text == "qux Zyxwvut qux"
    weft.run_sync(bot, "thanks", session=result.session)
    assert "Zyxwvut" not in sent(model)


def test_restored_values_go_on_in_another_process() -> None:
    script: list[Entry] = [lambda prompt: f"I wrote to {says_mail(prompt)}."]
    bot = Agent("bot", model=ScriptedModel(script), context=C.default().redact("email"))
    result = weft.run_sync(bot, f"I am {JANE}", session=Session("s"))
    copy = Session.from_json(result.session.to_json())
    second = ScriptedModel([result.text])
    other = Agent("bot", model=second, context=C.default().redact("email", restore="answer"))
    assert JANE in weft.run_sync(other, "what did you do?", session=copy).text


def test_fields_are_replaced_whatever_they_hold() -> None:
    def lookup(id: int) -> JsonObject:
        """Look a customer up."""
        customer: JsonObject = {"note": "n", "pin": 7, "address": {"city": "Oslo", "lines": ["x"]}}
        return {"customer": customer, "raw": json.dumps({"pin": "zzz"}), "pin": None}

    model = ScriptedModel([call("lookup", id=1), "done"])
    policy = C.default().redact(fields=["pin", "customer.address"])
    weft.run_sync(Agent("bot", model=model, tools=[lookup], context=policy), "who?")
    text = sent(model)
    assert "Oslo" not in text
    assert "zzz" not in text
    assert '"pin": 7' not in text
    assert "<PIN_" in text
    assert "<ADDRESS_" in text


def test_numbers_are_looked_at_by_their_digits() -> None:
    def lookup(id: int) -> JsonObject:
        """Look a card up."""
        return {"card": 4111111111111111 + 0, "count": 1234567}

    model = ScriptedModel([call("lookup", id=1), "done"])
    bot = Agent("bot", model=model, tools=[lookup], context=C.default().redact("card"))
    weft.run_sync(bot, "which?")
    assert "4111111111111111" not in sent(model)
    assert "1234567" in sent(model)


def test_patterns_of_the_author_are_found() -> None:
    model = ScriptedModel(["ok"])
    bot = Agent("bot", model=model, context=C.default().redact(patterns=[r"\bEMP-\d{4}\b"]))
    weft.run_sync(bot, "ask EMP-1234 about it")
    assert "EMP-1234" not in sent(model)
    assert "<PATTERN_" in sent(model)


def test_a_pattern_that_takes_too_long_withholds_the_text_and_says_so() -> None:
    model = ScriptedModel(["ok"])
    bot = Agent("bot", model=model, context=C.default().redact(patterns=[r"(a|aa)+$"]))
    compiled = weft.compile(bot, message="a" * 60 + "!")
    assert "WEFT607" in [one.code for one in compiled.diagnostics]
    assert "aaaa" not in json.dumps(compiled.wire)
    assert "<WITHHELD_" in json.dumps(compiled.wire)
    assert weft.run_sync(bot, "a" * 60 + "!").text == "ok"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: C.default().redact("emial"), "no detector named 'emial'"),
        (lambda: C.default().redact(patterns=["a(b"]), "cannot be read at position 1"),
        (lambda: C.default().redact(patterns=["a*"]), "matches the empty text"),
        (lambda: C.default().redact(), "nothing to look for"),
        (lambda: C.default().redact("email", restore="logs"), "logs"),  # type: ignore[arg-type]
    ],
)
def test_a_policy_that_cannot_be_right_is_refused_where_it_is_written(
    made: Callable[[], object], words: str
) -> None:
    with pytest.raises(DeclarationError, match=words):
        made()


def test_c6_a_callback_that_adds_a_value_is_stopped_before_the_model() -> None:
    def adds(ctx: CallbackContext, prompt: Prompt) -> Prompt:
        import msgspec

        block = TextBlock(role="system", origin=prompt.system[0].origin, text=f"cc {JANE}")
        return msgspec.structs.replace(prompt, system=(*prompt.system, block))

    model = ScriptedModel(["never"])
    bot = Agent("bot", model=model, before_model=adds, context=C.default().redact("email"))
    seen: list[weft.Event] = []

    async def run() -> None:
        async for event in Runner(bot).run(message="hello"):
            seen.append(event)

    with pytest.raises(ProtectionError, match="email"):
        asyncio.run(run())
    assert [event.error_code for event in seen] == ["protect"]
    assert JANE not in str(seen[0].error_message)
    assert model.wires == []


def test_c6_an_option_with_a_value_in_it_is_not_sent() -> None:
    policy = C.default().redact("email")
    bot = Agent("bot", model="gpt-5", generate_config={"user": JANE}, context=policy)
    with pytest.raises(ProtectionError, match="email"):
        _ = weft.compile(bot, message="hello").wire


def test_media_and_signatures_are_no_text() -> None:
    data = "QUtJQUlPU0ZPRE5ON0VYQU1QTEU0MTExMTExMTExMTExMTEx" * 4
    image = Part(inline_data=Blob(mime_type="image/png", data=data))
    message = Content(parts=(Part(text="see"), image), role="user")
    bot = Agent("bot", model="gemini-2.5-flash", context=C.default().redact("pii", "secrets"))
    assert data in json.dumps(weft.compile(bot, message=message).wire)


def test_nothing_to_redact_changes_nothing() -> None:
    plain = weft.compile(Agent("bot", model="gpt-5"), message="the weather in May")
    policy = C.default().redact("structured", "secrets")
    bot = Agent("bot", model="gpt-5", context=policy)
    guarded = weft.compile(bot, message="the weather in May")
    assert guarded.wire == plain.wire


def test_redaction_keeps_what_was_sent() -> None:
    """C5: the next request begins with the bytes of the one before."""
    script: list[Entry] = [lambda p: f"hello {says_mail(p)}", "two", "three"]
    model = ScriptedModel(script)
    bot = Agent("bot", model=model, context=C.default().redact("pii", restore="answer"))
    session = Session("s")
    for message in (f"I am {JANE}", "and 555-123-4567 is my phone", f"mail {BOSS} too"):
        session = weft.run_sync(bot, message, session=session).session
    assert len(model.prompts) == 3
    shown = [str(prompt) for prompt in model.prompts]
    for before, after in pairwise(shown):
        assert after.startswith(before)


def test_planted_secrets_reach_no_wire() -> None:
    chosen = random.Random(5)
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789"
    for number in range(80):
        secret = "sk-ant-api03-" + "".join(chosen.choices(letters, k=40)) + str(number)
        places = chosen.sample(["message", "state", "result", "argument", "key", "about"], 3)
        around = "".join(chosen.choices("abc {}\"'\\\n=:,.é漢", k=chosen.randint(0, 12)))
        model = ScriptedModel(
            [call("fetch", query=secret if "argument" in places else "q"), "done"],
            dialect=chosen.choice(sorted(DIALECTS)),
        )
        bot = Agent(
            "bot",
            model=model,
            instruction="Note: {note}",
            tools=[_fetching(places, secret)],
            context=C.default().redact("secrets"),
        )
        said = f"{around} {secret} {around}" if "message" in places else "go"
        note = f"{around}{' ' * 2}{secret}" if "state" in places else "n"
        session = Session(f"s{number}", state={"note": note})
        assert weft.run_sync(bot, said, session=session).text == "done", places
        assert secret not in sent(model), places


@pytest.mark.parametrize("response", [{"result": "4711-abc"}, {"pin": "4711-abc", "n": 1}])
def test_a_field_stays_replaced_inside_a_fence_and_gets_its_own_value_back(
    response: JsonObject,
) -> None:
    got: list[str] = []

    def fetch() -> JsonObject:
        """Fetch."""
        return response

    def put(pin: str) -> str:
        """Put."""
        got.append(pin)
        return "ok"

    def says_pin(prompt: Prompt) -> object:
        return call("put", pin=re.findall(r"<(?:PIN|RESULT)_[0-9a-f]{10}>", str(prompt))[-1])

    policy = C.default().redact(fields=["pin", "result"], restore="tools").fence()
    model = ScriptedModel([call("fetch"), says_pin, "done"])
    bot = Agent("bot", model=model, tools=[fetch, put], context=policy)
    assert weft.run_sync(bot, "go").text == "done"
    assert got == ["4711-abc"]
    assert "4711-abc" not in sent(model)


def test_a_report_shows_no_more_than_the_model_sees() -> None:
    policy = C.window(1).redact("email").redact(fields=["pin"]).label("secret", "word")
    session = make_session(
        ("user", f"I am {JANE}, the word is open-sesame-77"),
        ("bot", [call_part("look", {"pin": 4711}, id="c1")]),
        ("bot", [result_part("look", {"pin": "9912", "mail": JANE}, id="c1")]),
        ("user", "And now?"),
        state={"word": "open-sesame-77"},
    )
    report = weft.compile(Agent("bot", model="gpt-5", context=policy), session=session).explain()
    assert "select_window" in {row.step for row in report.left_out}
    told = f"{report}{json.dumps(report.to_dict())}{report.to_html()}"
    for value in (JANE, "open-sesame-77", "4711", "9912"):
        assert value not in told


def _fetching(places: list[str], secret: str) -> Tool:
    def fetch(query: str) -> JsonObject:
        if "key" in places:
            return {secret: 1}
        return {"text": f"x {secret} y"} if "result" in places else {"ok": query}

    return weft.tool(fetch, description=f"Uses {secret}." if "about" in places else "Fetches.")
