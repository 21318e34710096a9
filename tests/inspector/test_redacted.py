"""What an agent's policy redacts or withholds is in no view that explains, and in no file."""

import json

import pytest

import weft
from tests.inspector.secrets import PLANTED, guarded_agent, leaks, open_agent, talked
from tests.inspector.test_inspection import _exported, _named, _unpacked
from weft import Agent, C, Sequence, Session
from weft.compiler.mask import rules_of
from weft.declare.policy_parts import Redact
from weft.inspector import Inspection, Variant, questions
from weft.inspector.export import export
from weft.inspector.request import RequestView
from weft.inspector.trust import describe_trust
from weft.recordings import recording_of
from weft.testing import ScriptedModel, make_session
from weft.values import compact

VARIANTS = (
    Variant(policy="C.default()"),
    Variant(policy="C.auto().compact()"),
    Variant(window=1),
    Variant(budget=6_000),
    Variant(model="gpt-5"),
)


@pytest.fixture(scope="module")
def session() -> Session:
    return talked(guarded_agent())


@pytest.fixture(scope="module")
def inspection(session: Session) -> Inspection:
    return Inspection(guarded_agent(), session)


def _answers(inspection: Inspection) -> dict[str, object]:
    """Everything that the page asks, but for single events."""
    last = len(inspection.steps)
    answers: dict[str, object] = {
        "film": inspection.film(),
        "ghosts": inspection.ghosts(),
        "dead weight": questions.dead_weight(inspection),
        "trust": describe_trust(inspection),
        "picture": questions.picture(inspection),
        "test": questions.as_test(inspection, last, VARIANTS[0], target="a:b"),
        "force": questions.force_in(inspection, last, [inspection.session.events[0].id]),
    }
    for number in range(1, last + 1):
        view = RequestView(inspection, number)
        answers[f"request {number}"], answers[f"cache {number}"] = view.to_json(), view.cache()
    for variant in VARIANTS:
        answers[f"what if {variant}"] = questions.what_if(inspection, last, variant)
        answers[f"compare {variant}"] = questions.compare(inspection, variant)
    for text in ("I am and so on", *PLANTED):
        answer = questions.bisect(inspection, text)
        answer.pop("text")  # what was asked
        answers[f"bisect {text}"] = answer
    return answers


def test_no_view_that_explains_shows_a_value(inspection: Inspection, session: Session) -> None:
    assert leaks(session.to_json().decode()), "nothing is planted"
    for name, answer in _answers(inspection).items():
        assert leaks(json.dumps(answer, ensure_ascii=False)) == [], name


def test_views_tell_values_by_their_placeholders(inspection: Inspection) -> None:
    film = inspection.film()
    assert film["hidden"] == ["email", "api_key", "the field pin", "a pattern", "the label secret"]
    owner = film["events"][0]["state"]["owner"]
    assert owner.startswith('"<EMAIL_')
    assert owner[1:-1] in RequestView(inspection, 1).to_json()["text"]
    assert film["events"][0]["state"]["code"] == '"[withheld: secret]"'
    assert film["waiting"][0]["args"]["who"].startswith("ask <EMAIL_")
    flows = describe_trust(inspection)["flows"]
    assert flows[0]["words"][0].startswith("<EMAIL_"), "a result's address in a later call"


def test_requests_are_shown_as_they_were_sent(inspection: Inspection, session: Session) -> None:
    agent = guarded_agent()
    for step in inspection.steps:
        view = RequestView(inspection, step.number).to_json()
        sent = weft.compile(agent, session=session.before(step.place))
        assert view["text"] == compact(sent.wire)
        assert view["tokens"] == sent.tokens
        assert view["segments"][-1][0] == len(view["text"])


@pytest.mark.parametrize("variant", VARIANTS[:4])
def test_a_what_if_never_takes_a_protection_away(
    inspection: Inspection, session: Session, variant: Variant
) -> None:
    last = inspection.steps[-1]
    answer = questions.what_if(inspection, last.number, variant)
    assert ".redact('email', 'api_key'" in answer["code"]
    assert ".label('secret', 'code')" in answer["code"]
    policy = eval(answer["code"].partition(".sees(")[2][:-1], {"C": C})
    own = weft.compile(guarded_agent().sees(policy), session=session.before(last.place))
    assert answer["view"]["text"] == compact(own.wire)
    assert answer["tokens"] == own.tokens


def test_an_export_has_no_value_in_any_place(inspection: Inspection) -> None:
    key = '["bot","jane@example.org","s"]'
    page = export(inspection, key=key, command="weft inspect jane@example.org.json")
    assert leaks(page) == []
    assert export(inspection, key=key, command="weft inspect jane@example.org.json") == page
    data, _, _ = _exported(page)
    film = next(json for name, json in data.items() if name.startswith("film?"))
    assert film["file"] == {"redacted": True, "rules": film["hidden"]}


def test_an_export_can_keep_all_and_says_so(inspection: Inspection) -> None:
    page = export(inspection, key="s", raw=True)
    assert {"jane@example.org", "boss@example.net", "EMP-1234"} <= {*leaks(page)}
    film = _exported(page)[0]["film?session=s"]
    assert film["file"]["redacted"] is False
    assert "email" in film["file"]["rules"]


@pytest.mark.parametrize("model", ["claude-opus-5", "gpt-5", "gemini-3-pro", "openai-chat/gpt-5"])
def test_an_export_hides_what_an_agent_was_sent_that_has_no_rule(model: str) -> None:
    def clerk() -> Agent:
        script = ["Noted for jane@example.org."] * 9
        return Agent("clerk", model=ScriptedModel(script, name=model), instruction="For {owner}.")

    session = talked(guarded_agent() >> clerk(), turns=3)
    root = guarded_agent() >> Agent("clerk", model=model, instruction="For {owner}.")
    inspection = Inspection(root, session)
    own = next(step for step in inspection.steps if step.event.author == "clerk")
    sent = RequestView(inspection, own.number).to_json()
    assert "jane@example.org" in sent["text"], "it is shown as it was sent"
    page = export(inspection, key="s")
    assert leaks(page) == []
    data, texts, parts = _exported(page)
    shown = inspection.for_file(raw=False)
    for step in inspection.steps:
        view = RequestView(shown, step.number)
        for name, drawn in (("request", view.to_json()), ("cache", view.cache())):
            packed = data[f"{name}?session=s&step={step.number}"]
            whole = _unpacked(packed, texts, parts)
            assert _named(whole) == _named(json.loads(json.dumps(drawn))), name
        drawn = view.to_json()
        json.loads(drawn["text"])
        ends = [end for end, _, _ in drawn["segments"]]
        assert ends == sorted(ends)
        assert ends[-1] == len(drawn["text"])
        assert drawn["tokens"] == view.request.tokens, "of the request that was sent"
        for row in drawn["rows"]:
            assert not row["pieces"] or row["pieces"][-1][0] == len(row["text"])
        ages = view.cache()["ages"]
        assert [end for end, _ in ages] == sorted(end for end, _ in ages)
        assert ages[-1][0] <= len(drawn["text"])


def test_origins_stand_at_the_characters_they_made_in_a_masked_request() -> None:
    agent = Agent("clerk", model="gpt-5", instruction="For {owner} and {other}: be brief.")
    rule = Redact(("email",))
    told = {"owner": "a@example.org", "other": "b@example.org"}
    session = make_session(("user", "hi"), ("clerk", "yes", told), ("user", "go on"), ("clerk", ""))
    inspection = Inspection(agent, session, redact=(rule,))
    for number in (1, 2):
        view = RequestView(inspection, number).to_json()
        start, made = 0, dict[str, str]()
        for end, origin, _ in view["segments"]:
            name = view["origins"][origin]["name"]
            made[name] = made.get(name, "") + view["text"][start:end]
            start = end
    assert made["owner"].startswith("<EMAIL_")
    assert made["other"].startswith("<EMAIL_")
    assert made["owner"] != made["other"]
    assert leaks(json.dumps(view)) == []


def test_rules_that_a_reader_names_hold_for_a_recording_in_every_view() -> None:
    recording = recording_of(talked(guarded_agent() >> open_agent()))
    rules = tuple(
        one
        for one in C.default().redact("email", "api_key", r"EMP-\d{4}", fields=["pin"]).protections
        if isinstance(one, Redact)
    )
    inspection = Inspection.of_recording(recording, model="gpt-5", redact=rules)
    plain = Inspection.of_recording(recording, model="gpt-5")
    for name, answer in {**_answers(inspection), "export": export(inspection, key="1")}.items():
        text = answer if isinstance(answer, str) else json.dumps(answer)
        assert {*leaks(text)} <= {"zebra-crossing-42", "zebra-c"}, name
    assert "jane@example.org" in export(plain, key="1")
    assert [frame["tokens"] for frame in inspection.film()["frames"]] == [
        frame["tokens"] for frame in plain.film()["frames"]
    ], "the tokens of what was sent"
    film = _exported(export(plain, key="1"))[0]["film?session=1"]
    assert film["file"] == {"redacted": False, "rules": []}


def test_a_result_in_a_notebook_shows_no_value() -> None:
    result = weft.run_sync(
        guarded_agent().sees(C.default().redact("email", "api_key", r"EMP-\d{4}", fields=["pin"])),
        "I am jane@example.org, EMP-1234",
        state={"owner": "boss@example.net", "code": "x"},
    )
    assert "jane@example.org" in result.text
    assert leaks(result._repr_html_()) == []
    assert "&lt;EMAIL_" in result._repr_html_()


def test_without_rules_nothing_is_looked_for() -> None:
    session = make_session(("user", "I am jane@example.org"), ("a", "Hello jane@example.org"))
    inspection = Inspection(Agent("a", model="gpt-5"), session)
    assert inspection.mask is None
    assert inspection.request_mask is None
    assert inspection.film()["events"][0]["text"] == "I am jane@example.org"


def test_rules_of_all_agents_count_also_under_a_condition() -> None:
    one = Agent("a", model="m").sees(C.when(lambda state: True, C.default().redact("card")))
    two = Agent("b", model="m").sees(C.window(2).redact("email", restore=True).redact("email"))
    root = Sequence(one, two)
    assert rules_of(root).words == ["card", "email"]
