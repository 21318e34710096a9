"""google-adk trees as strangers write them: nothing breaks, and nobody is accused without cause."""

from pathlib import Path
from typing import Any

import pytest

import weft
from tests.interop.kit import REAL, find_homes

if not REAL:
    pytest.skip("google-adk is not installed", allow_module_level=True)

from google.adk.plugins import LoggingPlugin
from google.adk.workflow import Workflow

from tests.interop.kit import (
    AgentTool,
    App,
    BaseAgent,
    BasePlugin,
    GenerateContentConfig,
    LlmAgent,
    LoopAgent,
    SequentialAgent,
)
from tests.interop.shapes import get_weather, llm
from weft import Severity, WeftError
from weft.cli import main
from weft.declare import agents_of
from weft.interop.adk import check_adk, from_adk

pytestmark = pytest.mark.filterwarnings("ignore")


def bad(source: Any) -> list[str]:
    """What a check finds of warning or above, with its place."""
    found = check_adk(source)
    return [f"{d.code} {d.origin}" for d in found if d.severity is not Severity.INFO]


def notes(source: Any) -> list[str]:
    return [f"{d.origin}: {d.message}" for d in check_adk(source) if d.code == "WEFT490"]


def names(source: Any) -> set[str]:
    """The agents that can be compiled."""
    homes = find_homes(from_adk(source))
    for name, home in homes.items():
        assert weft.compile(home, agent=name, message="Hi").tokens
    return set(homes)


class Own(BasePlugin):
    """A plugin of the application's."""

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        raise AssertionError("nothing is run")


def test_a_plugin_of_ones_own_may_write_any_key() -> None:
    app = App(name="app", root_agent=llm("bot", "Use {fact}."), plugins=[Own(name="own")])
    assert not bad(app)
    assert "own.plugins: the plugin `own` is not looked into, so" in notes(app)[0]


def test_a_plugin_of_google_adk_writes_none() -> None:
    app = App(name="app", root_agent=llm("bot", "Use {fact}."), plugins=[LoggingPlugin()])
    assert bad(app) == ["WEFT105 bot.instruction:4"]


def test_a_plugin_of_ones_own_may_end_a_loop() -> None:
    loop = LoopAgent(name="rounds", sub_agents=[llm("worker")])
    assert bad(loop) == ["WEFT404 rounds.max_iterations"]
    again = LoopAgent(name="rounds", sub_agents=[llm("worker")])
    assert not bad(App(name="app", root_agent=again, plugins=[Own(name="own")]))


def test_of_two_tools_with_one_name_the_last_counts() -> None:
    def made(text: str) -> Any:
        def look_up(word: str) -> str:
            return text

        return look_up

    agent = llm("bot", tools=[made("first"), made("second")])
    assert bad(agent) == ["WEFT490 bot.tools"]
    node = from_adk(agent)
    assert isinstance(node, weft.Agent)
    assert [tool.function("x") for tool in node.tools if tool.function] == ["second"]
    assert not bad(llm("bot", tools=[get_weather, get_weather]))


def test_what_the_caller_writes_is_there_on_the_next_turn() -> None:
    inner = AgentTool(agent=llm("inner", "On {paper} and {nothing}."))
    outer = AgentTool(agent=llm("outer", tools=[inner]))
    root = llm("root", output_key="paper", tools=[outer])
    assert bad(root) == ["WEFT105 inner.instruction:15"]
    told = [d for d in check_adk(root) if d.severity is Severity.INFO and d.code == "WEFT105"]
    assert [str(d.origin) for d in told] == ["inner.instruction:3"]
    assert "from the next turn on" in told[0].hint


def test_agents_that_call_each_other_are_read_once() -> None:
    one = llm("one")
    two = llm("two", tools=[AgentTool(agent=one)])
    one.tools.append(AgentTool(agent=two))
    assert not bad(one)
    assert notes(one)[0].startswith("two.tools: `one`, which is called from within itself,")
    assert names(one) == {"one"}


def test_what_weft_does_not_take_is_left_out_and_said() -> None:
    def suche_für(wort: str) -> str:
        """Sucht."""
        return wort

    config = GenerateContentConfig(max_output_tokens=-1, temperature=0.5)
    agent = llm("bot", tools=[suche_für], generate_content_config=config)
    assert not bad(agent)
    said = "\n".join(notes(agent))
    assert "bot.tools: the signature of `suche_für`" in said
    assert "bot.generate_content_config: the option `max_output_tokens` (-1" in said
    node = from_adk(agent)
    assert isinstance(node, weft.Agent)
    assert node.generate_config == {"temperature": 0.5}


def test_agents_that_do_tasks_are_tools_once() -> None:
    root = llm("root", sub_agents=[llm("task", mode="task"), llm("single", mode="single_turn")])
    node = from_adk(root)
    assert isinstance(node, weft.Agent)
    assert [tool.name for tool in node.tools] == ["task", "single"]
    assert not node.sub_agents
    assert not bad(root)


class Story(BaseAgent):
    """Runs what it holds, in an order of its own."""

    writer: Any
    critic: Any

    async def _run_async_impl(self, ctx: Any) -> Any:
        raise AssertionError("nothing is run")
        yield


def test_agents_in_the_fields_of_an_own_class_are_found() -> None:
    bare = llm("critic", "Criticise {draft}.", include_contents="none")
    story = Story(name="story", writer=llm("writer", output_key="draft"), critic=bare)
    assert names(story) == {"writer", "critic"}
    assert not bad(story)


def test_who_speaks_in_an_own_class_is_not_guessed() -> None:
    inner = Story(name="story", writer=llm("writer", output_key="draft"), critic=llm("critic"))
    last = llm("last", "Sum up.", include_contents="none")
    assert not bad(SequentialAgent(name="both", sub_agents=[inner, last]))


def test_an_llm_agent_with_code_of_its_own_is_compiled_too() -> None:
    class Careful(LlmAgent):
        async def _run_async_impl(self, ctx: Any) -> Any:
            raise AssertionError("nothing is run")
            yield

    careful = Careful(name="careful", model="gemini-2.5-flash", instruction="Use {fact}.")
    assert names(careful) == {"careful"}
    assert not bad(careful)
    assert "careful.name: the agent `careful` of the class Careful" in notes(careful)[0]


def test_the_agents_of_a_graph_are_found_and_its_order_is_not_guessed() -> None:
    def count(node_input: str) -> int:
        raise AssertionError("nothing is run")

    graph = Workflow(
        name="graph",
        edges=[("START", llm("first", output_key="fact"), count, llm("second", "Use {fact}."))],
    )
    assert names(graph) == {"first", "second"}
    assert not bad(graph)
    said = "\n".join(notes(App(name="app", root_agent=graph)))
    assert "graph.name: the agent `graph` of the class Workflow" in said
    assert "count.name: the agent `count` of the class FunctionNode" in said


def test_two_agents_of_one_name_are_refused_in_the_words_of_google_adk() -> None:
    pair = SequentialAgent(name="pair", sub_agents=[llm("same"), llm("same", "Otherwise.")])
    with pytest.raises(WeftError, match=r"pair.sub_agents: two different agents") as caught:
        from_adk(pair)
    assert 'same.name = "same_2"' in caught.value.hint


def test_a_tree_that_is_too_deep_is_refused() -> None:
    deep = llm("leaf")
    for number in range(400):
        deep = SequentialAgent(name=f"level_{number}", sub_agents=[deep])
    with pytest.raises(WeftError, match="nested too deep"):
        check_adk(deep)


def test_hints_are_about_google_adk() -> None:
    from tests.interop.kit import ParallelAgent

    both = [llm("left", output_key="fact"), llm("right", "Use {fact}.")]
    found = check_adk(ParallelAgent(name="both", sub_agents=both))
    assert [d.hint for d in found if d.code == "WEFT111"] == [
        "let an agent after the ParallelAgent read it"
    ]


PACKAGE = {
    "__init__.py": "from . import agent\n",
    "prompts.py": 'CLASSIFY = "Classify."\n',
    "agent.py": """
from google.adk.agents import LlmAgent, SequentialAgent

from . import prompts
from .steps.booking import booker

classifier = LlmAgent(name="classifier", model="gemini-2.5-flash", instruction=prompts.CLASSIFY,
                      output_key="intent")
root_agent = SequentialAgent(name="trip", sub_agents=[classifier, booker])
""",
    "steps/__init__.py": "",
    "steps/booking.py": """
from google.adk.agents import LlmAgent

booker = LlmAgent(name="booker", model="gemini-2.5-flash", instruction="Intent: {intent}")
""",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("trip_a", "trip_a"),
        ("trip_b", "trip_b/"),
        ("trip_c", "trip_c:root_agent"),
        ("trip_d", "./trip_d:root_agent"),
        ("trip_e", "trip_e/agent.py:root_agent"),
        ("trip_f", "trip_f.agent:root_agent"),
        ("trip-g", "trip-g"),
        ("json", "json"),
    ],
)
def test_a_folder_as_google_adk_has_it_is_a_target(
    name: str,
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = PACKAGE
    if name == "json":  # a name that another module has
        files = {
            "agent.py": PACKAGE["agent.py"].replace("from .", "from "),
            "prompts.py": PACKAGE["prompts.py"],
            "steps/booking.py": PACKAGE["steps/booking.py"],
        }
        files["agent.py"] = files["agent.py"].replace("from  import", "import")
    written(tmp_path / name, files)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["check", target]) == 1
    found = capsys.readouterr().out
    assert f"{name}/steps/booking.py:4: booker.instruction:8: warning[WEFT206]" in found


def test_a_folder_without_a_root_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = written(tmp_path / "empty_folder", {"__init__.py": ""})
    assert main(["check", str(empty)]) == 2
    assert "the folder holds no `root_agent`" in capsys.readouterr().err


def test_agents_in_yaml_are_a_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(
        tmp_path / "yaml_trip",
        {
            "root_agent.yaml": "agent_class: LlmAgent\nname: bot\nmodel: gemini-2.5-flash\n"
            "instruction: Greet {user_name}.\n",
            "broken.yaml": "agent_class: NoSuchAgent\nname: bot\n",
        },
    )
    for target in (folder, folder / "root_agent.yaml"):
        assert main(["check", str(target)]) == 1
        assert "bot.instruction:6: error[WEFT105]" in capsys.readouterr().out
    assert main(["check", str(folder / "broken.yaml")]) == 2
    assert "google-adk makes no agent of it" in capsys.readouterr().err
    assert main(["check", str(folder / "missing.yaml")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_every_agent_of_a_graph_is_in_the_declarations() -> None:
    graph = Workflow(name="graph", edges=[("START", llm("first"), llm("second"))])
    assert {agent.name for agent in agents_of(from_adk(graph))} == {"first", "second"}
