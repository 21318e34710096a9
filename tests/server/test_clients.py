"""Other people's clients of OpenAI's API against a served agent: openai-agents and llm.

They need other versions of packages than these tests, so they live in an environment of their own,
`.venv-clients`, which `make test` builds; here they run as programs of their own.
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.server.live import Live, serving
from weft import Agent
from weft.server import app
from weft.testing import ScriptedModel, call, chunks

BIN = Path(__file__).parents[2] / ".venv-clients" / ("Scripts" if os.name == "nt" else "bin")

if not (BIN / "llm").exists():
    warnings.warn("there is no .venv-clients: openai-agents and llm are not tested", stacklevel=1)
    pytestmark = pytest.mark.skip(reason="make .venv-clients/.made-clients builds the environment")

AGENTS = '''
import asyncio, json, sys
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner
from agents import function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
added = []

@function_tool
def add(a: int, b: int) -> int:
    """Add."""
    added.append((a, b))
    return a + b

async def main(url, token):
    client = AsyncOpenAI(base_url=url, api_key=token, max_retries=0)
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        agent = Agent(name="sums", instructions="Be brief.", tools=[add],
                      model=kind(model="bot", openai_client=client))
        whole = await Runner.run(agent, "2 and 3?")
        print(json.dumps([kind.__name__, "whole", whole.final_output]))
        streamed = Runner.run_streamed(agent, "2 and 3?")
        deltas = []
        async for event in streamed.stream_events():
            raw = event.data if event.type == "raw_response_event" else None
            if raw is not None and raw.type == "response.output_text.delta":
                deltas.append(raw.delta)
        print(json.dumps([kind.__name__, "streamed", streamed.final_output, deltas]))
    print(json.dumps(["added", added]))

asyncio.run(main(*sys.argv[1:]))
'''


def served(*script: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel([*script])  # type: ignore[list-item]
    return Agent("bot", model=model, instruction="You add."), model


def run(program: str, *arguments: str, **environment: str) -> str:
    """What a program of the clients' environment prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [BIN / program, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**kept, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_openai_agents_with_both_of_its_models(tmp_path: Path) -> None:
    answer = chunks("It ", "is 5.")
    agent, model = served(*[call("add", a=2, b=3), answer] * 4)
    with serving(app(agent, store=f"sqlite:///{tmp_path}/weft.db")) as live:
        printed = run(Path(sys.executable).name, "-c", AGENTS, f"{live.url}/v1", live.token)
    assert [json.loads(line) for line in printed.splitlines()] == [
        ["OpenAIChatCompletionsModel", "whole", "It is 5."],
        ["OpenAIChatCompletionsModel", "streamed", "It is 5.", ["It ", "is 5."]],
        ["OpenAIResponsesModel", "whole", "It is 5."],
        ["OpenAIResponsesModel", "streamed", "It is 5.", ["It ", "is 5."]],
        ["added", [[2, 3]] * 4],
    ]
    assert all(
        '"result":5' in json.dumps(wire, separators=(",", ":")) for wire in model.wires[1::2]
    )


@pytest.fixture
def llm_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "llm"
    folder.mkdir()
    return folder


def ask_llm(live: Live, folder: Path, *arguments: str) -> str:
    models = [{"model_id": "weft-bot", "model_name": "bot", "api_base": f"{live.url}/v1"}]
    models[0] |= {"supports_tools": True, "api_key_name": "weft"}  # type: ignore[dict-item]
    (folder / "extra-openai-models.yaml").write_text(json.dumps(models))
    return run("llm", "-m", "weft-bot", "--key", live.token, *arguments, LLM_USER_PATH=str(folder))


def test_llm_asks_goes_on_and_calls_its_tools(tmp_path: Path, llm_folder: Path) -> None:
    agent, model = served("Hello.", chunks("Again", "."), call("add", a=2, b=3), "It is 5.")
    with serving(app(agent, store=f"sqlite:///{tmp_path}/weft.db")) as live:
        assert ask_llm(live, llm_folder, "--no-stream", "hi").strip() == "Hello."
        assert ask_llm(live, llm_folder, "-c", "and again").strip() == "Again."
        functions = "def add(a: int, b: int) -> int:\n    return a + b\n"
        asked = ("--functions", functions, "2 and 3?")
        assert ask_llm(live, llm_folder, *asked).strip() == "It is 5."
    talk = json.loads(json.dumps(model.wires[1]["contents"]))
    said = [part["text"] for turn in talk for part in turn["parts"]]
    assert said == ["hi", "Hello.", "and again"]
    assert "functionResponse" in json.dumps(model.wires[-1])
