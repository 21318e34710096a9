"""WeftPlugin in a google-adk Runner: what it leaves alone, and what it lets nobody send."""

from typing import Any

import pytest

import weft
from tests.interop.kit import REAL

if not REAL:
    pytest.skip("google-adk is not installed", allow_module_level=True)

from google.genai import types

from tests.interop.kit import BasePlugin, LlmAgent
from tests.interop.test_adk_plugin import contents, ran
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


def test_what_is_redacted_is_redacted_in_the_conversation() -> None:
    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, instruction="Help.")

    plugin = WeftPlugin(context=C.default().redact("email"))
    found = ran(build, {"bot": ["ok"]}, Adding(name="adding"), plugin)
    assert "Write to <EMAIL_" in contents(found.asked("bot"))
    assert "@corp.example" not in found.asked("bot").model_dump_json()


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


@pytest.mark.parametrize(
    "policy",
    [
        C.default().capture("message"),
        C.default().note("seen"),
        C.default().redact("email", restore=True),
    ],
)
def test_what_a_request_alone_cannot_do_is_refused(policy: Any) -> None:
    with pytest.raises(weft.WeftError, match="needs one"):
        WeftPlugin(context=policy)
    with pytest.raises(weft.WeftError, match="needs one"):
        WeftPlugin(contexts={"bot": policy})


def test_a_fault_of_wefts_leaves_the_request_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **more: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("weft.interop.hosts.compact", fail)
    plugin = WeftPlugin()
    found = ran(plain, {"bot": ["ok"]}, plugin)
    assert found.text == "ok"
    assert dict(plugin.compactor.skipped) == {"RuntimeError: broken": 1}
