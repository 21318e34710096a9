"""Another provider, or another model, in the middle of a session: what is sent is still legal."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import permutations

import pytest

import weft
from tests.dialects.test_conformance import misfits_of
from tests.models.answers import DIALECTS, whole
from tests.models.rich import MODELS, SEALS, rich
from tests.models.server import Server, says
from weft import Agent, Event
from weft.dialects.strict import RequestChecker
from weft.ir import ModelResponse, Prompt
from weft.models import Anthropic, FallbackModel, Gemini, OpenAI, Retry
from weft.models.remote import Remote
from weft.values import JsonObject

ONCE = Retry(attempts=1)
PAIRS = list(permutations(DIALECTS, 2))
BUSY = {"error": {"message": "no capacity", "type": "overloaded_error"}}


def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


def served(dialect: str, server: Server, name: str = "") -> Remote:
    """A model of that dialect, by a name its provider has, at the server."""
    name = name or MODELS[dialect].removeprefix("openai-chat/")
    if dialect == "gemini":
        return Gemini(name, api_key="any", base_url=server.url, retries=ONCE)
    if dialect == "anthropic":
        return Anthropic(name, api_key="any", base_url=server.url, retries=ONCE)
    api = "chat" if dialect == "openai-chat" else "responses"
    return OpenAI(name, api=api, api_key="any", base_url=server.url, retries=ONCE)  # type: ignore[arg-type]


class Checked:
    """A model whose requests are held against the provider's laws and types before they go."""

    def __init__(self, model: Remote) -> None:
        self.model = model
        self.name = model.name
        self.dialect = model.dialect
        self._checker = RequestChecker(model.dialect)

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Check, then ask."""
        self._checker.check(prompt, wire)
        assert [
            each for each in misfits_of(wire, self.dialect) if "reasoning_content" not in each
        ] == []
        async for response in self.model.generate(prompt, wire, stream=stream):
            yield response


def diagnosed(event: Event) -> str:
    """What the event says was left out."""
    held = (event.custom_metadata or {}).get("weft")
    return json.dumps(held.get("lost", []) if isinstance(held, dict) else [])


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_the_next_question_can_go_to_another_provider(first: str, second: str) -> None:
    with (
        Server(says(rich(first)), says(whole(first))) as one,
        Server(says(rich(second)), says(whole(second))) as two,
    ):
        agent = Agent("bot", model=served(first, one), tools=[lookup], instruction="Be kind.")
        begun = await weft.run(agent, "Look a and b up.")
        assert begun.text == "Hello there"
        other = replace(agent, model=Checked(served(second, two)))
        went_on = await weft.run(other, "And again.", session=begun.session)
        assert went_on.error is None
        assert went_on.text == "Hello there"
        sent = two.received[0].body.decode()
        assert "value of a" in sent
        assert "value of b" in sent
        assert not [seal for seal in SEALS if seal in sent]
        compiled = weft.compile(other, session=begun.session, message="And again.")
        assert "WEFT704" in {each.code for each in compiled.diagnostics}
        back = replace(agent, model=Checked(served(first, one)))
        again = await weft.run(back, "Once more.", session=went_on.session)
        assert again.error is None
        mine = one.received[-1].body.decode()
        assert [seal in mine for seal in SEALS] == [
            seal in json.dumps(rich(first)) for seal in SEALS
        ]


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_another_model_can_finish_what_the_first_began(first: str, second: str) -> None:
    with (
        Server(says(rich(first)), says(BUSY, 503)) as one,
        Server(says(whole(second))) as two,
    ):
        model = FallbackModel(Checked(served(first, one)), Checked(served(second, two)))
        agent = Agent("bot", model=model, tools=[lookup], instruction="Be kind.")
        result = await weft.run(agent, "Look a and b up.")
        assert result.error is None
        assert result.text == "Hello there"
        sent = two.received[0].body.decode()
        assert not [seal for seal in SEALS if seal in sent]
        assert "value of b" in sent
        assert "WEFT704" in diagnosed(result.events[-1])


OTHER = {
    "openai-chat": "gpt-5-mini",
    "openai-responses": "gpt-5-mini",
    "anthropic": "claude-opus-4-5",
    "gemini": "gemini-2.5-flash",
}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_another_model_of_the_same_provider_gets_a_legal_request(dialect: str) -> None:
    with Server(says(rich(dialect)), says(whole(dialect))) as server:
        first = Checked(served(dialect, server))
        agent = Agent("bot", model=first, tools=[lookup], instruction="Be kind.")
        begun = await weft.run(agent, "Look a and b up.")
        second = replace(agent, model=Checked(served(dialect, server, OTHER[dialect])))
        went_on = await weft.run(second, "And again.", session=begun.session)
        assert went_on.text == "Hello there"
        sent = server.received[-1].body.decode()
        assert "value of b" in sent
        compiled = weft.compile(second, session=begun.session, message="And again.")
        left_out = [each for each in compiled.diagnostics if each.code == "WEFT704"]
        sealed = [seal for seal in SEALS if seal in json.dumps(rich(dialect)) and seal not in sent]
        assert bool(left_out) or not sealed
