"""Skills, and the rules of a project: folders and files that tell an agent how things are done.

A skill is a folder with a `SKILL.md`. The names and descriptions of all skills stand in one tool's
declaration, so they are the same in every request; what a skill says is read when it is needed.
`AGENTS.md` files become an artifact, for `{artifact.AGENTS.md}` in an instruction.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import msgspec

from weft.content import Part
from weft.declare.context import ToolContext
from weft.declare.tool import Tool, ToolListing, ToolSource, check_names, tool
from weft.diagnostics import Origin, report
from weft.errors import DeclarationError
from weft.misuse import explain_mistakes, join_few, suggest_names
from weft.values import Json, JsonObject


class _Properties(Protocol):
    name: str
    description: str


class _Reader(Protocol):
    """What `skills_ref.parser` has; it comes without types."""

    def find_skill_md(self, folder: Path) -> Path | None: ...
    def parse_frontmatter(self, text: str) -> tuple[JsonObject, str]: ...
    def read_properties(self, folder: Path) -> _Properties: ...


class _Validator(Protocol):
    def validate(self, folder: Path) -> list[str]: ...


def _reader() -> _Reader:
    return cast("_Reader", import_module("skills_ref.parser"))


LARGEST_FILE = 500_000
"""How many bytes of a file are read."""

MOST_FILES = 100
"""How many files of a skill are listed."""

AGENTS_FILE = "AGENTS.md"


class Skill(NamedTuple):
    """One skill: its name, what it is for, and its folder."""

    name: str
    about: str
    folder: Path

    def body(self) -> str:
        """What it says, without its header."""
        reader = _reader()
        path = reader.find_skill_md(self.folder)
        text = path.read_text("utf-8") if path is not None else ""
        return reader.parse_frontmatter(text)[1].strip()

    def files(self) -> list[str]:
        """The other files of its folder; what leads out of the folder is not one of them."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        inside = [path for path in files if _is_inside(path, self.folder)]
        names = [path.relative_to(self.folder).as_posix() for path in inside]
        return [name for name in names if name.lower() != "skill.md"]


@explain_mistakes('Skills("skills/", only=["name"])')
@dataclass(frozen=True)
class Skills:
    """The skills in a folder, or one skill: `Agent("bot", tools=[Skills("skills/")])`.

    The model loads a skill by its name, and reads the files of its folder. Nothing in it is run:
    `read_skill_file(..., keep=True)` makes a script an artifact, which a code tool can be given.
    """

    folder: str | Path
    only: Sequence[str] | None = None

    def __post_init__(self) -> None:
        where = f"Skills {self.folder}"
        if importlib.util.find_spec("skills_ref") is None:
            raise DeclarationError(
                "what reads skills is not installed", where=where, hint="pip install 'weft[skills]'"
            )
        if self.only is not None:
            check_names("only", self.only, where=where)
        names = [*self._skills]
        for wanted in self.only or ():
            if wanted not in names:
                near = suggest_names(wanted, names, most=1, quote="'")
                raise DeclarationError(
                    f"there is no skill {wanted!r}",
                    where=where,
                    hint=near or f"there are: {join_few(names)}",
                )

    @cached_property
    def _skills(self) -> dict[str, Skill]:
        return {one.name: one for one in read_skills(Path(self.folder))}

    def get_tools(self) -> list[Tool]:
        """The tool that loads a skill, and the one that reads its files."""
        skills = {
            name: one
            for name, one in self._skills.items()
            if self.only is None or name in self.only
        }

        def find(name: str) -> Skill | JsonObject:
            known = skills.get(name)
            return (
                known if known is not None else {"error": f"there is no skill {name!r}; {listed}"}
            )

        async def load_skill(name: str) -> JsonObject:
            skill = find(name)
            if not isinstance(skill, Skill):
                return skill
            files = skill.files()
            loaded: JsonObject = {"skill": skill.name, "instructions": skill.body()}
            if files:
                some: list[Json] = [*files[:MOST_FILES]]
                loaded["files"] = some
            return loaded

        async def read_skill_file(
            name: str, path: str, ctx: ToolContext, keep: bool = False
        ) -> object:
            skill = find(name)
            if not isinstance(skill, Skill):
                return skill
            return await _read_file(skill, path, ctx, keep=keep)

        listed = "skills: " + ", ".join(skills)
        catalogue = "\n".join(
            f"- {one.name}: {' '.join(one.about.split())}" for one in skills.values()
        )
        about = (
            "Load a skill before you do what it is for: it says how that is done here."
            f" The skills are:\n{catalogue}"
        )
        load = tool(name="load_skill", description=about, effect="pure")(load_skill)
        reads = (
            "Read a file of a skill that you loaded. With keep, it becomes an artifact of the same"
            " path, below the name of the skill, which a tool that runs code can be given."
        )
        read = tool(name="read_skill_file", description=reads, effect="idempotent")(read_skill_file)
        choices: JsonObject = {"type": "string", "enum": [*skills]}
        return [_with_choices(load, choices), _with_choices(read, choices)]


def read_skills(folder: Path) -> list[Skill]:
    """The skills in a folder, in the order of their names; one that is not sound is an error."""
    reader, where = _reader(), f"Skills {folder}"
    if not folder.is_dir():
        raise DeclarationError("there is no such folder", where=where, hint="pass a path to skills")
    alone = reader.find_skill_md(folder) is not None
    folders = [folder] if alone else sorted(one for one in folder.iterdir() if one.is_dir())
    skills: list[Skill] = []
    for one in folders:
        if reader.find_skill_md(one) is None:
            continue
        if not _is_inside(one, folder):
            raise DeclarationError(
                f"{one.name} leads out of the folder", where=where, hint="copy the skill into it"
            )
        problems = cast("_Validator", import_module("skills_ref.validator")).validate(
            one.resolve() if alone else one
        )
        if problems:
            raise DeclarationError(
                f"{one.name}: {problems[0]}", where=where, hint="`skills-ref validate` says it too"
            )
        properties = reader.read_properties(one)
        skills.append(Skill(properties.name, properties.description, one))
    if not skills:
        raise DeclarationError(
            "there is no SKILL.md in it, nor in a folder of it",
            where=where,
            hint="write skills/NAME/SKILL.md with a name and a description",
        )
    return skills


def _with_choices(one: Tool, choices: JsonObject) -> Tool:
    """The tool, whose parameter `name` is one of the skills."""
    properties = one.parameters["properties"]
    assert isinstance(properties, dict)
    parameters: JsonObject = {**one.parameters, "properties": {**properties, "name": choices}}
    return msgspec.structs.replace(one, parameters=parameters)


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


async def _read_file(skill: Skill, path: str, ctx: ToolContext, *, keep: bool) -> object:
    """A file of a skill; what is outside of its folder does not exist."""
    files = skill.files()
    if path not in files:
        return {"error": f"{skill.name} has no file {path!r}; it has: {join_few(files) or 'none'}"}
    data = (skill.folder / path).read_bytes()[: LARGEST_FILE + 1]
    if len(data) > LARGEST_FILE:
        return {"error": f"{path} has more than {LARGEST_FILE:,} bytes"}
    try:
        part = Part(text=data.decode("utf-8"))
    except UnicodeDecodeError:
        part = Part.from_bytes(data, name=path)
    if not keep:
        return part.text if part.text is not None else part
    artifact = f"{skill.name}/{path}"
    await ctx.save_artifact(artifact, part)
    return {"artifact": artifact}


def _keep_tool(tool: Tool, context: object) -> Tool:
    return tool


@explain_mistakes('AgentsFile("."), with {artifact.AGENTS.md} in the instruction')
@dataclass(frozen=True)
class AgentsFile:
    """The `AGENTS.md` of a folder and of those above it, up to the root of the repository.

    It is an artifact of the session, read again in each run: `{artifact.AGENTS.md}` in an
    instruction shows it, and `explain` says which words come from there.
    """

    folder: str | Path = "."

    def __post_init__(self) -> None:
        if not Path(self.folder).is_dir():
            raise DeclarationError(
                f"there is no folder {str(self.folder)!r}",
                where="AgentsFile",
                hint='pass the folder of the project: AgentsFile(".")',
            )

    def as_source(self) -> ToolSource:
        """The files as a toolset without tools, which is asked in each run."""
        return ToolSource(AGENTS_FILE, self._ask, restore=_keep_tool)

    def _ask(self) -> ToolListing:
        files = self.files()
        if not files:
            warning = report(
                "WEFT307",
                Origin("artifact", AGENTS_FILE),
                f"there is no {AGENTS_FILE} in {Path(self.folder).resolve()}, nor above it",
                f"write one, or leave out AgentsFile({str(self.folder)!r})",
            )
            return ToolListing((), (warning,), {AGENTS_FILE: ""})
        texts = [path.read_text("utf-8", "replace")[:LARGEST_FILE].strip() for path in files]
        return ToolListing((), (), {AGENTS_FILE: "\n\n".join(texts)})

    def files(self) -> list[Path]:
        """The files that there are, the outermost first: what is nearer is read last."""
        folder = Path(self.folder).resolve()
        above = [folder]
        while not (above[-1] / ".git").exists() and above[-1].parent != above[-1]:
            above.append(above[-1].parent)
        if not (above[-1] / ".git").exists():
            above = [folder]  # no repository: nothing above it belongs to the project
        paths = (one / AGENTS_FILE for one in reversed(above))
        return [path for path in paths if path.is_file()]
