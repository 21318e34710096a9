"""WeftPlugin in a google-adk Runner: what it leaves alone, and what it lets nobody send."""

from typing import Any

import pytest

import weft
from tests.interop.kit import REAL

if not REAL:
    pytest.skip("google-adk is not installed", allow_module_level=True)

from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.genai import types

from tests.interop.kit import BasePlugin, LlmAgent, PlanReActPlanner, SequentialAgent
from tests.interop.test_adk_plugin import both, call, contents, ran
from weft import C
from weft.interop.adk import WeftPlugin

pytestmark = pytest.mark.filterwarnings("ignore")


class Adding(BasePlugin):
    """Puts something into every request."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        part = types.Part(text="Write to zoe@corp.example too.")
        llm_request.contents.append(types.Content(role="user", parts=[part]))


def provided(model: Any) -> Any:
    return LlmAgent(name="bot", model=model, instruction=lambda _: "Write to bob@corp.example.")


def described(model: Any) -> Any:
    def send(text: str) -> str:
        """Send it to bob@corp.example."""
        return text

    return LlmAgent(name="bot", model=model, instruction="Help.", tools=[send])


def plain(model: Any) -> Any:
    return LlmAgent(name="bot", model=model, instruction="Write to bob@corp.example.")


def test_what_is_redacted_is_redacted_in_what_google_adk_sends() -> None:
    found = ran(plain, {"bot": ["ok"]}, WeftPlugin(context=C.default().redact("email")))
    sent = found.asked("bot")
    assert "Write to <EMAIL_" in str(sent.config.system_instruction)
    assert "@corp.example" not in sent.model_dump_json()


@pytest.mark.parametrize(
    ("build", "before"), [(provided, []), (described, []), (plain, [Adding(name="adding")])]
)
def test_a_request_that_may_tell_what_is_redacted_is_not_sent(build: Any, before: Any) -> None:
    plugin = WeftPlugin(context=C.default().redact("email"))
    found = ran(build, {"bot": ["ok"]}, *before, plugin)
    assert not found.model.asked
    assert found.events[-1].error_code == "PROTECTED"
    assert "not sent" in found.events[-1].error_message
    assert "@corp.example" not in found.events[-1].error_message


def test_without_such_a_policy_it_is_sent_as_it_is() -> None:
    found = ran(plain, {"bot": ["ok"]}, Adding(name="adding"), WeftPlugin())
    assert "zoe@corp.example" in contents(found.asked("bot"))


def test_a_label_is_kept_where_another_plugin_adds_the_value() -> None:
    class Telling(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            llm_request.append_instructions(["The code is tulip-4711-x."])

    plugin = WeftPlugin(context=C.default().label("secret", "code"))
    found = ran(
        plain, {"bot": ["ok"]}, Telling(name="telling"), plugin, state={"code": "tulip-4711-x"}
    )
    assert not found.model.asked
    assert found.events[-1].error_code == "PROTECTED"


@pytest.mark.parametrize(
    "policy",
    [
        C.default().capture("message"),
        C.default().note("seen"),
        C.default().redact("email", restore=True),
    ],
)
def test_what_a_request_alone_cannot_do_is_refused(policy: Any) -> None:
    with pytest.raises(weft.WeftError, match="does nothing for"):
        WeftPlugin(context=policy)
    with pytest.raises(weft.WeftError, match="does nothing for"):
        WeftPlugin(contexts={"bot": policy})


def test_a_fault_of_wefts_leaves_the_request_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("weft.interop.adk.plugin.fill_request", fail)
    plugin = WeftPlugin()
    found = ran(plain, {"bot": ["ok"]}, plugin)
    assert found.text == "ok"
    assert dict(plugin.left) == {"RuntimeError: broken": 1}


def test_a_filter_is_not_undone_where_the_words_are_the_same() -> None:
    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, instruction="Talk.")

    for plugins in (
        [ContextFilterPlugin(num_invocations_to_keep=1), WeftPlugin()],
        [WeftPlugin(), ContextFilterPlugin(num_invocations_to_keep=1)],
    ):
        found = ran(build, {"bot": ["yes"] * 3}, *plugins, messages=["again"] * 3)
        assert contents(found.asked("bot", 2)) == "user: again"


def test_an_agent_that_is_changed_while_it_runs_says_what_it_says_now() -> None:
    class Changing(BasePlugin):
        turns = 0

        async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
            self.turns += agent.name == "flow"
            if agent.name == "bot":
                agent.instruction = f"This is turn {self.turns}."

    def build(model: Any) -> Any:
        bot = LlmAgent(name="bot", model=model, instruction="Help.")
        return SequentialAgent(name="flow", sub_agents=[bot])

    plugin, changing = WeftPlugin(), Changing(name="changing")
    found = ran(build, {"bot": ["ok"] * 2}, changing, plugin, messages=["one", "two"])
    systems = [str(request.config.system_instruction) for _, request in found.model.asked]
    assert systems == ["You are bot.\n\nThis is turn 1.", "You are bot.\n\nThis is turn 2."]
    assert plugin.compiled == 2


def test_an_agent_that_was_called_has_its_answer_in_the_result_only() -> None:
    def build(model: Any) -> Any:
        expert = LlmAgent(name="expert", model=model, instruction="Know.", mode="single_turn")
        return LlmAgent(name="desk", model=model, instruction="Ask.", sub_agents=[expert])

    script = {"desk": [call("expert", request="why?"), "So."], "expert": ["because of forty-two"]}
    before, after, plugin = both(build, script)
    assert contents(after.asked("desk", 1)) == contents(before.asked("desk", 1))
    assert contents(after.asked("desk", 1)).count("because of forty-two") == 1
    assert plugin.compiled == 2


def test_a_plan_stays_in_view_where_the_planner_wants_it() -> None:
    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, planner=PlanReActPlanner())

    planned = "/*PLANNING*/ look it up first /*FINAL_ANSWER*/ found"
    script = {"bot": [planned, "/*PLANNING*/ alone", "/*FINAL_ANSWER*/ again"]}
    before, after, plugin = both(build, script, messages=("one", "two", "three"))
    assert "look it up first" in contents(after.asked("bot", 2))
    for index in range(3):
        assert contents(after.asked("bot", index)) == contents(before.asked("bot", index))
    assert not plugin.left


def test_words_that_google_adk_does_not_show_are_not_shown() -> None:
    class Hiding(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            llm_request.contents = [
                content for content in llm_request.contents if "hush" not in str(content)
            ]

    def build(model: Any) -> Any:
        first, second = (
            LlmAgent(name=name, model=model, instruction="Talk.") for name in ("first", "second")
        )
        return SequentialAgent(name="talk", sub_agents=[first, second])

    script = {"first": ["hush now"], "second": ["ok"]}
    plugin = WeftPlugin()
    found = ran(build, script, Hiding(name="hiding"), plugin)
    assert contents(found.asked("second")) == "user: Fly me to Oslo"
    assert dict(plugin.left) == {"the request lacks a text that its session holds": 1}
