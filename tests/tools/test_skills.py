"""Skills in folders, and AGENTS.md as an instruction."""

from pathlib import Path

import pytest
from skills_ref import to_prompt, validate

import weft
from weft import Agent, Session
from weft.compiler import compile_request
from weft.errors import DeclarationError
from weft.testing import ScriptedModel, call
from weft.tools import AgentsFile, PythonTool, Skills


def make_skill(
    folder: Path, name: str, about: str = "Makes invoices.", body: str = "Do it."
) -> Path:
    skill = folder / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {about}\n---\n{body}\n")
    return skill


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    invoices = make_skill(folder, "invoices", body="# Invoices\nRun scripts/sum.py.")
    (invoices / "scripts").mkdir()
    (invoices / "scripts" / "sum.py").write_text("print(1 + 2)")
    (invoices / "out").symlink_to("/etc/hostname")
    make_skill(folder, "letters", "Writes letters.")
    (folder / "notes").mkdir()
    return folder


async def ask(tools: list[object], *calls: object) -> tuple[list[object], ScriptedModel]:
    model = ScriptedModel([*calls, "done"])  # type: ignore[list-item]
    done = await weft.run(Agent("bot", model=model, tools=tools), "Go.")
    return [one.response for event in done.session.events for one in event.results], model


async def test_the_catalogue_stays_and_the_body_is_loaded(skills: Path) -> None:
    assert validate(skills / "invoices") == []
    (loaded, unknown), model = await ask(
        [Skills(skills)], call("load_skill", name="invoices"), call("load_skill", name="taxes")
    )
    assert loaded == {
        "skill": "invoices",
        "instructions": "# Invoices\nRun scripts/sum.py.",
        "files": ["scripts/sum.py"],
    }
    assert "error" in unknown  # type: ignore[operator]
    declarations = {str(prompt.tools) for prompt in model.prompts}
    assert len(declarations) == 1
    catalogue = model.prompts[0].tools[0].description
    assert "- invoices: Makes invoices.\n- letters: Writes letters." in catalogue
    assert "scripts/sum.py" not in catalogue
    assert "Makes invoices." in to_prompt([skills / "invoices"])


async def test_files_are_read_inside_the_folder_only(skills: Path) -> None:
    paths = [
        "../letters/SKILL.md",
        "out",
        "/etc/hostname",
        "scripts",
        "scripts/../../letters/SKILL.md",
    ]
    results, _ = await ask(
        [Skills(skills)],
        call("read_skill_file", name="invoices", path="scripts/sum.py"),
        *(call("read_skill_file", name="invoices", path=path) for path in paths),
    )
    assert results[0] == {"result": "print(1 + 2)"}
    for result in results[1:]:
        assert "invoices has no file" in str(result)


async def test_a_script_runs_only_through_a_code_tool(skills: Path) -> None:
    code = "exec_text = open('invoices/scripts/sum.py').read()\nprint(exec_text)"
    results, _ = await ask(
        [Skills(skills), PythonTool()],
        call("read_skill_file", name="invoices", path="scripts/sum.py", keep=True),
        call("run_python", code=code, files=["invoices/scripts/sum.py"]),
    )
    assert results[0] == {"artifact": "invoices/scripts/sum.py"}
    assert "print(1 + 2)" in str(results[1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no header", "frontmatter"),
        ("---\nname: Other\ndescription: x\n---\n", "lowercase"),
        ("---\nname: bad\n---\n", "description"),
    ],
)
def test_a_skill_that_is_not_sound_is_refused(tmp_path: Path, text: str, words: str) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "SKILL.md").write_text(text)
    with pytest.raises(DeclarationError, match=words):
        Skills(tmp_path)


def test_what_is_wrong_with_a_folder_of_skills(skills: Path, tmp_path: Path) -> None:
    for make, words in (
        (lambda: Skills(tmp_path / "none"), "there is no such folder"),
        (lambda: Skills(skills / "notes"), "there is no SKILL.md"),
        (lambda: Skills(skills, only=["invoice"]), "there is no skill 'invoice'"),
    ):
        with pytest.raises(DeclarationError, match=words):
            make()
    make_skill(tmp_path / "far", "away")
    (skills / "away").symlink_to(tmp_path / "far" / "away")
    with pytest.raises(DeclarationError, match="leads out of the folder"):
        Skills(skills)


async def test_agents_md_is_an_instruction_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("Use tabs. {not_a_variable}")
    inner = tmp_path / "web"
    inner.mkdir()
    (inner / "AGENTS.md").write_text("Use spaces here.")
    model = ScriptedModel(["one", "two"])
    agent = Agent(
        "bot", instruction="Help.\n{artifact.AGENTS.md}", model=model, tools=[AgentsFile(inner)]
    )
    first = await weft.run(agent, "Go.")
    sent = str(model.prompts[0])
    assert "Use tabs. {not_a_variable}\n" in sent
    assert sent.index("Use tabs") < sent.index("Use spaces here.")
    compiled = compile_request(agent, session=first.session, artifacts={"AGENTS.md": "Use tabs."})
    origins = {str(one.origin) for one in compiled.source_map().segments()}
    assert "artifact AGENTS.md" in origins
    (inner / "AGENTS.md").write_text("Use both.")
    await weft.run(agent, "Again.", session=first.session)
    assert "Use both." in str(model.prompts[1])


async def test_a_project_without_rules_is_a_warning(tmp_path: Path) -> None:
    agent = Agent(
        "bot", instruction="{artifact.AGENTS.md}", model=ScriptedModel(["ok"]),
        tools=[AgentsFile(tmp_path)],
    )  # fmt: skip
    done = await weft.run(agent, "Go.")
    assert [one.code for one in done.diagnostics] == ["WEFT307"]
    with pytest.raises(DeclarationError, match="there is no folder"):
        AgentsFile(tmp_path / "none")


def test_a_session_is_not_needed_to_declare(skills: Path) -> None:
    agent = Agent("bot", tools=[Skills(skills)])
    assert [tool.name for tool in agent.tools] == ["load_skill", "read_skill_file"]
    assert compile_request(agent, session=Session()).wire
