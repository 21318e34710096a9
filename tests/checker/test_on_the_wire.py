"""What the checker warns of is what is really sent: each fault is run, and each fix."""

import json
from typing import Literal

import pytest

import weft
from weft import Agent, C, Parallel, Route, RunConfig, Severity, ToolContext, tool, until
from weft.declare import Node
from weft.errors import BudgetExceeded
from weft.testing import ScriptedModel, call


def serious(node: Node) -> list[str]:
    return [one.code for one in weft.check(node) if one.severity is not Severity.INFO]


def test_a_label_on_a_misspelt_key_lets_the_secret_through() -> None:
    def bank(key: str) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(["done"])
        guard = C.default().label("secret", key)
        agent = Agent("bank", model=model, inputs={"iban": str}).instruct("Pay to {iban}.")
        return agent.sees(guard), model

    wrong, model = bank("ibn")
    assert "WEFT620" in serious(wrong)
    weft.run_sync(wrong, "Go.", state={"iban": "DE00 1234 5678"})
    assert "DE00 1234 5678" in json.dumps(model.wires)
    right, model = bank("iban")
    assert serious(right) == ["WEFT608"]
    weft.run_sync(right, "Go.", state={"iban": "DE00 1234 5678"})
    assert "DE00 1234 5678" not in json.dumps(model.wires)


@tool(labels=["medical"])
def record(patient: str) -> str:
    """A patient's record."""
    return "influenza B, 38.9 degrees"


@pytest.mark.parametrize("cleared", [(), ("medcal",), ("legal",), ("medical",)])
def test_a_labelled_result_reaches_only_who_is_cleared(cleared: tuple[str, ...]) -> None:
    model = ScriptedModel([call("record", patient="Ann"), "done"])
    doctor = Agent("doctor", model=model, tools=[record], cleared=cleared).instruct("Examine.")
    weft.run_sync(doctor, "How is Ann?")
    sees = "influenza" in json.dumps(model.wires[1])
    assert sees == ("WEFT608" not in serious(doctor))
    assert ("WEFT621" in serious(doctor)) == (cleared == ("medcal",))


@pytest.mark.parametrize(
    "text", ["{plan-x}", "{plan!}", "{usr:plan}", "$plan", "{state['plan']}", "{{ plan }}", "{plan"]
)
def test_what_looks_like_a_placeholder_is_sent_as_text(text: str) -> None:
    def flow(text: str) -> tuple[Node, ScriptedModel]:
        model = ScriptedModel({"planner": ["first the sea"], "worker": ["done"]})
        planner = Agent("planner", model=model).instruct("Plan.").writes("plan")
        return planner >> Agent("worker", model=model).instruct(f"Carry out {text}."), model

    wrong, model = flow(text)
    assert "WEFT114" in serious(wrong)
    weft.run_sync(wrong, "Go.")
    assert f"Carry out {text}." in model.prompts[1].system_text
    assert "first the sea" not in json.dumps(model.wires[1])
    right, model = flow("{plan}")
    assert not serious(right)
    weft.run_sync(right, "Go.")
    assert "Carry out first the sea." in model.prompts[1].system_text


def test_a_branch_that_fails_leaves_its_placeholder_in_the_text() -> None:
    model = ScriptedModel({"web": [RuntimeError("503")], "own": ["thoughts"], "writer": ["done"]})
    web = Agent("web", model=model).instruct("Search.").writes("web")
    own = Agent("own", model=model).instruct("Think.").writes("own")
    writer = Agent("writer", model=model).instruct("Combine {web?} and {own?}.")
    fine = Parallel(web, own, on_error="collect") >> writer
    assert not serious(fine)
    wrong = Parallel(web, own, on_error="collect") >> writer.instruct("Combine {web} and {own?}.")
    assert serious(wrong) == ["WEFT106"]
    weft.run_sync(wrong, "Go.")
    assert "Combine {web} and thoughts." in model.prompts[-1].system_text


def test_an_agent_that_hands_over_stores_no_answer() -> None:
    model = ScriptedModel({"desk": [call("transfer_to_agent", agent_name="solve")], "solve": ["x"]})
    solve = Agent("solve", model=model, description="solves", instruction="So far: {summary}")
    desk = Agent("desk", model=model, output_key="summary", instruction="Ask.", sub_agents=[solve])
    assert serious(desk) == ["WEFT106"]
    weft.run_sync(desk, "Help.")
    assert "So far: {summary}" in model.prompts[1].system_text


def test_a_helper_that_nobody_turned_to_wrote_nothing() -> None:
    model = ScriptedModel({"desk": ["I can do that myself."], "end": ["done"]})
    book = Agent("book", model=model, description="books", output_key="booking")
    desk = Agent("desk", model=model, instruction="Help.", sub_agents=[book])
    flow = desk >> Agent("end", model=model).instruct("Confirm {booking}.")
    assert serious(flow) == ["WEFT106"]
    weft.run_sync(flow, "Help.")
    assert "Confirm {booking}." in model.prompts[1].system_text


def test_a_word_that_the_judge_never_says_ends_no_loop() -> None:
    def flow(word: str) -> tuple[Node, ScriptedModel]:
        model = ScriptedModel(['"finish"'] * 3)
        judge = Agent("judge", model=model).instruct("Judge.").returns(Literal["revise", "finish"])
        return judge.writes("next") * until(lambda s: s["next"] == word, max=3), model

    wrong, model = flow("finished")
    assert serious(wrong) == ["WEFT403"]
    weft.run_sync(wrong, "Go.")
    assert len(model.wires) == 3
    right, model = flow("finish")
    assert not serious(right)
    weft.run_sync(right, "Go.")
    assert len(model.wires) == 1


def test_more_rounds_than_a_run_may_take_end_in_an_error() -> None:
    model = ScriptedModel(["on"] * 600)
    loop = Agent("a", model=model).instruct("Go on.") * 501
    (finding,) = [one for one in weft.check(loop) if one.severity is Severity.ERROR]
    assert finding.code == "WEFT408"
    assert "max_llm_calls=501" in finding.hint
    assert weft.run_sync(loop, "Go.", config=RunConfig(max_llm_calls=501)).error is None
    assert not serious(Agent("a").instruct("Go on.") * 500)


def lookup(query: str, limit: int = 10) -> str:
    """Look something up in the archive of the house, as far back as it goes."""
    return query


@pytest.mark.parametrize("budget", [40, 60, 80, 100, 130, 160, 200, 260, 400])
def test_a_budget_is_too_small_for_the_checker_where_it_is_for_the_compiler(budget: int) -> None:
    helper = Agent("helper", description="helps with trips, bills and complaints")
    desk = Agent("desk", model="gpt-4o", tools=[lookup], description="a desk", sub_agents=[helper])
    desk = desk.instruct("Hand over.").sees(C.default().budget(budget))
    try:
        weft.compile(desk, message="?")
        fits = True
    except BudgetExceeded:
        fits = False
    assert fits == ("WEFT506" not in serious(desk))


def test_an_artifact_of_another_name_is_not_put_in() -> None:
    @tool
    async def draw(ctx: ToolContext) -> str:
        """Draw a chart."""
        await ctx.save_artifact("chart", "| a | b |")
        return "drawn"

    def flow(name: str) -> tuple[Node, ScriptedModel]:
        model = ScriptedModel({"drawer": [call("draw"), "drawn"], "writer": ["done"]})
        drawer = Agent("drawer", model=model, tools=[draw]).instruct("Draw.")
        text = f"Explain {{artifact.{name}}}."
        return drawer >> Agent("writer", model=model).instruct(text), model

    wrong, model = flow("chrt")
    assert serious(wrong) == ["WEFT115"]
    weft.run_sync(wrong, "Go.")
    assert "Explain {artifact.chrt}." in model.prompts[-1].system_text
    right, model = flow("chart")
    assert not serious(right)
    weft.run_sync(right, "Go.")
    assert "Explain | a | b |." in model.prompts[-1].system_text


def test_a_whole_answer_stands_where_a_name_should() -> None:
    model = ScriptedModel({"planner": ["First the sea, then the hills."] * 2, "mail": ["sent"] * 2})
    planner = Agent("planner", model=model).instruct("Plan the trip.")
    flow = planner >> Agent("mail", model=model).instruct("Dear {customer_name},")
    assert serious(flow) == ["WEFT116"]
    weft.run_sync(flow, "Go.")
    assert "Dear First the sea, then the hills.," in model.prompts[1].system_text
    given = flow.takes(customer_name=str)
    weft.run_sync(given, "Go.", state={"customer_name": "Ada"})
    assert not serious(given)
    assert "Dear Ada," in model.prompts[3].system_text


def test_what_the_compiler_says_of_a_declaration_the_checker_says_too() -> None:
    def plain(q: str) -> str:
        return q

    child = Agent("child", tools=[plain], global_instruction="Be brief.", instruction="Help.")
    root = Agent("root", model="gpt-4o", instruction="Route.", sub_agents=[child])
    made = weft.compile(root, agent="child", message="Hi")
    compiled = {(one.code, str(one.origin)) for one in made.diagnostics}
    checked = {(one.code, str(one.origin)) for one in weft.check(root)}
    assert {("WEFT301", "child.tools.plain"), ("WEFT103", "child.global_instruction")} <= compiled
    assert compiled <= checked
    assert ("WEFT302", "child.description") in checked


def test_an_output_that_is_wholly_lost_is_a_warning() -> None:
    classifier = Agent("classifier").instruct("Classify.").writes("intent")
    assert serious(classifier >> Agent("booker").instruct("Help book.")) == ["WEFT112"]
    assert not serious(classifier >> Agent("booker").instruct("Help book: {intent}"))
    assert not serious(classifier >> Agent("booker").instruct("Help.").sees(C.default()))
    searcher = Agent("searcher", tools=[lookup]).instruct("Search.")
    assert serious(searcher >> Agent("end").instruct("Close.").sees(C.none())) == ["WEFT207"]
    route = Route("intent").eq("x", Agent("x").instruct("X.")).otherwise(Agent("y").instruct("Y."))
    assert not serious(classifier >> route)
