"""What each agent will see, said before anything runs."""

from weft import Agent, C
from weft.checker.check import sights


def test_channels_keys_sources_tokens_and_room() -> None:
    flow = (
        Agent("finder").instruct("Find.")
        >> Agent("planner").instruct("Plan.").writes("plan")
        >> Agent("doer").instruct("Do {plan} for {who?}.").sees(C.default().budget(500))
    )
    finder, planner, doer = sights(flow)
    assert (finder.conversation, finder.keys, finder.user) == ((), (), True)
    assert planner.conversation == ("finder",)
    assert planner.writes == "plan"
    assert doer.conversation == ("finder", "planner")
    assert [(k.key, k.channel, k.writers, k.sure) for k in doer.keys] == [
        ("plan", "template", ("planner",), True),
        ("who", "template", (), False),
    ]
    assert 0 < doer.tokens < 20
    assert (doer.budget, doer.headroom) == (500, 500 - doer.tokens)
    assert doer.to_dict()["headroom"] == 500 - doer.tokens
    assert "template      plan from planner" in str(doer)


def test_an_inferred_key_and_a_hidden_message() -> None:
    flow = Agent("a").instruct("A.") >> Agent("b").instruct("{x}").sees(C.nothing())
    a, b = sights(flow)
    assert (a.writes, a.inferred) == ("x", True)
    assert b.user is False
    assert "conversation  nothing" in str(b)
