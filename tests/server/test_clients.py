"""Other people's clients of OpenAI's API against a served agent, each as a program of its own.

They need other versions of packages than these tests, so they live in an environment of their own,
`.venv-clients`, which `make test` builds. Every program in `clients/` prints a line for each check.
"""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.live import Live, serving
from tests.server.programs import BIN, HOME, PROGRAMS, checks, find_node, run
from weft import Agent
from weft.ir import Prompt, ResultBlock
from weft.server import app
from weft.testing import ScriptedModel, call, chunks

if not (BIN / "llm").exists():
    warnings.warn("there is no .venv-clients: other clients are not tested", stacklevel=1)
    pytestmark = pytest.mark.skip(reason="make .venv-clients/.made-clients builds the environment")

NODE = find_node()
TRIP = {"city": "Oslo", "days": 3}
PIECES = ("Hello ", "there.")
HELLO = "".join(PIECES)
FIVE = "It is 5."


def brain(prompt: Prompt) -> object:
    """Answer as a model would that is asked by one of the programs."""
    offered = {tool.name for tool in prompt.tools}
    last = prompt.items[-1].blocks[-1]
    if isinstance(last, ResultBlock):
        return FIVE
    said = "".join(block.text for block in prompt.items[-1].blocks if hasattr(block, "text"))
    if "add" in offered and "2 and 3?" in said:
        return call("add", a=2, b=3)
    for name in ("Trip", "final_result"):  # a form that is asked for as a call
        if name in offered:
            return call(name, **TRIP)
    if prompt.output is not None or "JSON" in said:
        return chunks('{"city": "Oslo"', ', "days": 3}')
    return chunks(*PIECES)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    agent = Agent("bot", model=ScriptedModel([brain] * 200), instruction="You add.")
    with serving(app(agent, store=f"sqlite:///{tmp_path}/weft.db")) as live:
        yield live


def expect(name: str, **more: object) -> dict[str, object]:
    """What every client must come to, over one endpoint."""
    common = {
        "plain": HELLO,
        "usage": [True, True],
        "streamed": [*PIECES],
        "tools": FIVE,
        "structured": TRIP,
        "structured streamed": TRIP,
    }
    every = {**common, **more}
    return {f"{name} {check}": value for check, value in every.items() if value is not None}


def python() -> Path:
    return BIN / Path(sys.executable).name


def test_openai(live: Live) -> None:
    told = checks(run(python(), PROGRAMS / "with_openai.py", f"{live.url}/v1", live.token))
    more = {
        "streamed usage": True,
        "errors": [
            ["NotFoundError", "model"],
            ["UnprocessableEntityError", "temperature"],
            ["UnprocessableEntityError", "x"],
        ],
    }
    assert told == {**expect("chat", **more), **expect("response", **more)}


def test_openai_agents(live: Live) -> None:
    told = checks(run(python(), PROGRAMS / "with_agents.py", f"{live.url}/v1", live.token))
    more = {"tools streamed": FIVE, "errors": "model"}
    assert told == {**expect("chat", **more), **expect("response", **more)}


def test_langchain(live: Live) -> None:
    told = checks(run(python(), PROGRAMS / "with_langchain.py", f"{live.url}/v1", live.token))
    ways = ("json_schema", "function_calling", "json_mode")
    more = {"structured": None, "errors": "model"} | {f"structured {way}": TRIP for way in ways}
    assert told == {**expect("chat", **more), **expect("response", **more)}


def test_pydantic_ai(live: Live) -> None:
    told = checks(run(python(), PROGRAMS / "with_pydantic_ai.py", f"{live.url}/v1", live.token))
    ways = ("NativeOutput", "ToolOutput", "PromptedOutput")
    more: dict[str, object] = {f"structured {way}": TRIP for way in ways}
    more |= dict.fromkeys(("structured", "structured streamed", "streamed"))
    assert told == {**expect("chat", **more, errors=404), **expect("response", **more, errors=404)}


@pytest.mark.skipif(
    NODE is None or not (HOME / "node_modules" / "ai").exists(),
    reason="needs node; make .venv-clients/.made-node installs the packages",
)
def test_vercel(live: Live, tmp_path: Path) -> None:
    # node looks for packages in the folders above a program
    program = HOME / "with_vercel.mjs"
    program.write_text((PROGRAMS / "with_vercel.mjs").read_text())
    told = checks(run(NODE or Path(), program, f"{live.url}/v1", live.token))
    more = {"streamed usage": True, "structured in pieces": True, "errors": 404}
    names = ("chat", "response", "compatible")
    assert told == {check: value for name in names for check, value in expect(name, **more).items()}


@pytest.fixture
def llm_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "llm"
    folder.mkdir()
    return folder


def ask_llm(live: Live, folder: Path, *arguments: str) -> str:
    model = {"model_id": "weft-bot", "model_name": "bot", "api_base": f"{live.url}/v1"}
    able = {"supports_tools": True, "supports_schema": True, "api_key_name": "weft"}
    (folder / "extra-openai-models.yaml").write_text(json.dumps([{**model, **able}]))
    asked = ("-m", "weft-bot", "--key", live.token, *arguments)
    return run(BIN / "llm", *asked, LLM_USER_PATH=str(folder)).strip()


def test_llm_asks_goes_on_calls_its_tools_and_takes_a_schema(live: Live, llm_folder: Path) -> None:
    assert ask_llm(live, llm_folder, "--no-stream", "hi") == HELLO
    assert ask_llm(live, llm_folder, "-c", "and again") == HELLO
    functions = "def add(a: int, b: int) -> int:\n    return a + b\n"
    assert ask_llm(live, llm_folder, "--functions", functions, "2 and 3?") == FIVE
    for more in ((), ("--no-stream",)):
        trip = ask_llm(live, llm_folder, "--schema", "city, days int", *more, "hi")
        assert json.loads(trip) == TRIP
    model = live.application.served.runners["bot"].root.model
    talk = json.loads(json.dumps(model.wires[1]["contents"]))
    assert [part["text"] for turn in talk for part in turn["parts"]] == ["hi", HELLO, "and again"]
