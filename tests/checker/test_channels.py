"""The incoherences between the three channels: conversation, state and templates."""

import weft
from weft import Agent, C, Route
from weft.diagnostics import Diagnostic, Severity

CLASSIFIER = Agent("classifier").instruct("Classify the request.")
BOOKER = Agent("booker").instruct("Help book. The intent is: {intent}")


def only(found: list[Diagnostic], code: str) -> Diagnostic:
    """The one finding with a code."""
    kept = [one for one in found if one.code == code]
    assert len(kept) == 1, found
    return kept[0]


def test_a_template_that_nothing_upstream_fills() -> None:
    flow = CLASSIFIER.writes("kind") >> BOOKER
    found = only(weft.check(flow), "WEFT105")
    assert str(found.origin) == "booker.instruction:26"
    assert "the template reads `{intent}` from the state" in found.message
    assert found.severity is Severity.ERROR


def test_what_is_said_feeds_the_template_that_follows_unless_that_is_switched_off() -> None:
    found = only(weft.check(CLASSIFIER >> BOOKER), "WEFT113")
    assert "`classifier` writes `intent` to the state" in found.message
    assert found.severity is Severity.INFO
    off = only(weft.check(CLASSIFIER >> BOOKER, infer=False), "WEFT105")
    assert str(off.origin) == "booker.instruction:26"


def test_a_value_in_the_template_and_in_the_conversation() -> None:
    both = CLASSIFIER.writes("intent") >> BOOKER.sees(C.default().keep_duplicates())
    found = only(weft.check(both), "WEFT206")
    assert "in its template as {intent} and in the conversation" in found.message
    assert not weft.check(CLASSIFIER.writes("intent") >> BOOKER)


def test_words_that_reach_the_next_through_no_channel() -> None:
    flow = CLASSIFIER >> Agent("booker").instruct("Help book.").sees(C.none())
    found = only(weft.check(flow), "WEFT207")
    assert "it writes no key to the state" in found.message
    assert "sees its words in the conversation" in found.message
    assert str(found.origin) == "classifier.name"


def test_a_route_on_what_is_not_in_the_state() -> None:
    route = Route("intent").eq("booking", Agent("booker")).otherwise(Agent("helper"))
    found = only(weft.check(CLASSIFIER >> route, infer=False), "WEFT108")
    assert "the route decides by `intent` of the state" in found.message
    assert str(found.origin) == "route.key"
    assert only(weft.check(CLASSIFIER >> route), "WEFT113").origin.agent == "classifier"


def test_the_message_of_the_user_that_is_lost() -> None:
    route = Route("intent").eq("booking", BOOKER.sees(C.nothing())).otherwise(Agent("helper"))
    found = only(weft.check(CLASSIFIER.writes("intent") >> route), "WEFT208")
    assert "C.nothing() leaves the conversation out" in found.message
    assert "it reads only `intent` from the state" in found.message
    assert str(found.origin) == "booker.context"
    kept = Route("intent").eq("booking", BOOKER.sees(C.none())).otherwise(Agent("helper"))
    assert not weft.check(CLASSIFIER.writes("intent") >> kept)
