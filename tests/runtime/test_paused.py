"""A turn that the provider broke off goes back to it as it is, and goes on."""

import weft
from weft import Agent, Content, ModelResponse, Part
from weft.content import opaque_part
from weft.testing import ScriptedModel


def _paused(*parts: Part) -> ModelResponse:
    return ModelResponse(content=Content(parts=parts, role="model"), finish_reason="CONTINUATION")


async def test_a_paused_turn_is_sent_back_and_the_answer_is_what_follows() -> None:
    searching = opaque_part(
        "anthropic", {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    )
    model = ScriptedModel(
        [_paused(Part(text="Let me look."), searching), "It is Oslo."], dialect="anthropic"
    )
    agent = Agent("a", model=model, output_key="answer")
    result = await weft.run(agent, "What is the capital of Norway?")
    assert result.text == "It is Oslo."
    assert result.state == {"answer": "It is Oslo."}
    messages = model.wires[1]["messages"]
    assert isinstance(messages, list)
    last = messages[-1]
    assert isinstance(last, dict)
    assert last["role"] == "assistant"
    content = last["content"]
    assert isinstance(content, list)
    assert [part["type"] for part in content if isinstance(part, dict)] == [
        "text",
        "server_tool_use",
    ]


async def test_a_model_that_pauses_for_ever_reaches_its_last_step() -> None:
    model = ScriptedModel([_paused(Part(text=f"step {n}")) for n in range(5)])
    result = await weft.run(Agent("a", model=model, max_steps=3), "go")
    assert result.error is not None
    assert result.error.error_code == "max_steps"
