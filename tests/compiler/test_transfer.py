"""X1 and X2: whom an agent may hand over to, and how the model is told."""

import pytest

import weft
from weft import Agent, RunConfig
from weft.errors import CompileError, UsageError

MODEL = "gemini-flash-latest"


def tree(**flags: bool) -> Agent:
    """root > (left > (one, two > leaf), right)."""
    two = Agent("two", description="Second.", sub_agents=[Agent("leaf")], **flags)
    left = Agent("left", description="On the left.", sub_agents=[Agent("one"), two])
    return Agent("root", model=MODEL, sub_agents=[left, Agent("right")])


def targets(root: Agent, agent: str | None = None) -> list[str]:
    """The targets as the tool, the text and the wire name them: all three say the same."""
    compiled = weft.compile(root, agent=agent, message="Hi")
    declared = next((t for t in compiled.prompt.tools if t.name == "transfer_to_agent"), None)
    lines = compiled.system.split("using the transfer_to_agent tool:\n")[1:]
    told = [line[2:].split(":")[0] for text in lines for line in text.split("\n")]
    if declared is None:
        assert not told
        assert "transfer_to_agent" not in compiled.tools
        return []
    properties = declared.parameters["properties"]
    assert isinstance(properties, dict)
    argument = properties["agent_name"]
    assert isinstance(argument, dict)
    names = argument["enum"]
    assert isinstance(names, list)
    assert names == told
    assert compiled.tools.count("transfer_to_agent") == 1
    return [str(name) for name in names]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("root", ["left", "right"]),
        ("left", ["one", "two", "root", "right"]),
        ("right", ["root", "left"]),
        ("one", ["left", "two"]),
        ("two", ["leaf", "left", "one"]),
        ("leaf", ["two"]),
    ],
)
def test_X1_targets_are_children_then_the_parent_then_peers(
    agent: str, expected: list[str]
) -> None:
    assert targets(tree(), agent) == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"disallow_transfer_to_parent": True}, ["leaf", "one"]),
        ({"disallow_transfer_to_peers": True}, ["leaf", "left"]),
        (
            {"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True},
            ["leaf"],
        ),
    ],
)
def test_X1_flags_take_parent_and_peers_away(flags: dict[str, bool], expected: list[str]) -> None:
    assert targets(tree(**flags), "two") == expected
    assert targets(tree(**flags), "one") == ["left", "two"]


def test_X1_without_targets_there_is_neither_tool_nor_text() -> None:
    assert targets(Agent("alone", model=MODEL)) == []
    child = Agent("child", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    root = Agent("root", model=MODEL, sub_agents=[child, Agent("other")])
    assert targets(root, "child") == []


def test_X2_one_tool_with_an_enum_in_stable_order() -> None:
    compiled = weft.compile(tree(), message="Hi")
    (declared,) = compiled.prompt.tools
    assert declared.parameters == {
        "type": "object",
        "properties": {
            "agent_name": {
                "type": "string",
                "enum": ["left", "right"],
                "description": "Name of the agent to hand over to.",
            }
        },
        "required": ["agent_name"],
    }
    assert weft.compile(tree(), message="Hi").hash == compiled.hash


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
def test_X2_every_dialect_carries_the_enum(dialect: str) -> None:
    wire = weft.compile(tree(), agent="left", message="Hi").lower(dialect)
    assert "['one', 'two', 'root', 'right']" in str(wire["tools"])


def test_X2_own_tools_come_first() -> None:
    def look(word: str) -> str:
        """Look a word up."""
        return word

    root = Agent("root", tools=[look], sub_agents=[Agent("child", tools=[look])])
    assert weft.compile(root).tools == ["look", "transfer_to_agent"]
    assert weft.compile(root, agent="child").tools == ["look", "transfer_to_agent"]


def test_compiling_another_agent_of_the_tree_uses_its_own_declaration() -> None:
    compiled = weft.compile(tree(), agent="two", message="Hi")
    assert compiled.system.startswith("You are two. Second.")
    assert compiled.prompt.agent == "two"


def test_an_agent_that_is_not_in_the_tree_is_refused_by_name() -> None:
    with pytest.raises(CompileError) as caught:
        weft.compile(tree(), agent="tow")
    assert caught.value.message == "there is no agent `tow` below `root`"
    assert caught.value.hint == "the tree has: root, left, one, two, leaf, right"


@pytest.mark.parametrize("agent", ["root", "left", "one", "two", "leaf", "right"])
def test_a_model_is_inherited_from_the_nearest_ancestor(agent: str) -> None:
    assert weft.compile(tree(), agent=agent).prompt.model == MODEL
    middle = Agent("middle", model="claude-sonnet-4-5", sub_agents=[Agent("below")])
    root = Agent("root", model=MODEL, sub_agents=[middle])
    assert weft.compile(root, agent="below").dialect == "anthropic"


def test_the_run_decides_over_every_model() -> None:
    config = RunConfig(model="gpt-5")
    assert weft.compile(tree(), agent="leaf", config=config).prompt.model == "gpt-5"


def test_without_any_model_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Agent("root", sub_agents=[Agent("child")])
    monkeypatch.setenv("WEFT_MODEL", "claude-sonnet-4-5")
    compiled = weft.compile(root, agent="child", message="Hi")
    assert (compiled.prompt.model, compiled.dialect) == ("claude-sonnet-4-5", "anthropic")
    assert weft.compile(tree()).prompt.model == MODEL
    monkeypatch.setenv("WEFT_MODEL", "")
    assert weft.compile(root).prompt.model == "local"
    monkeypatch.delenv("WEFT_MODEL")
    assert weft.compile(root, message="Hi").diagnostics == ()


def test_a_model_object_brings_its_name_and_dialect() -> None:
    class Local:
        name = "tiny"
        dialect = "anthropic"

    compiled = weft.compile(Agent("bot", model=Local()), message="Hi")
    assert (compiled.prompt.model, compiled.dialect) == ("tiny", "anthropic")
    assert compiled.diagnostics == ()


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no client for the model `brand-new-9`"):
        weft.compile(Agent("bot", model="brand-new-9"), message="Hi")
