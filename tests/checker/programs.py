"""The corpus: correct programs in Markdown, and below each the edits that plant one fault.

A program is Python that ends with `flow`; `inputs`, `state`, `answers`, `gates` and `message` say
what it is run with. An edit is a line

    - `old` -> `new`: WEFT105 at booker.instruction

where `old` stands in the program once. The finding must have that code, and an origin that begins
so. Agents that `answers` does not name say something of the right shape by themselves.
"""

import asyncio
import json
import linecache
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic

import weft
from weft import Event, Result, Runner, schema
from weft.checker.check import declared_inputs
from weft.declare import Agent, Node, Tool, agents_of
from weft.declare.compose import Composable
from weft.declare.visit import rebuild
from weft.testing import ScriptedModel, call

HERE = Path(__file__).parent
LINE = re.compile(r"^- `(?P<old>.+?)` -> `(?P<new>.*?)`: (?P<code>WEFT\d+) at (?P<origin>.+)$")


@dataclass(frozen=True)
class Edit:
    """One planted fault: what is replaced, by what, and what must be said about it."""

    old: str
    new: str
    code: str
    origin: str


@dataclass(frozen=True)
class Program:
    """A program as text, with the faults that can be planted in it."""

    name: str
    source: str
    edits: tuple[Edit, ...] = ()


@dataclass
class Made:
    """A program that was executed: its flow, and what it is checked and run with."""

    flow: Node
    inputs: dict[str, object] = field(default_factory=dict[str, object])
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    answers: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    gates: dict[str, Any] = field(default_factory=dict[str, Any])
    message: str = "Please help me with my trip to Oslo."


def programs(folder: str = "corpus") -> list[Program]:
    """All programs of the Markdown files in a folder, in order."""
    return [one for file in sorted((HERE / folder).glob("*.md")) for one in _programs(file)]


def _programs(file: Path) -> list[Program]:
    found: list[Program] = []
    for section in re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, _, rest = section.partition("\n")
        source = re.search(r"^```python\n(.*?)^```$", rest, flags=re.M | re.S)
        assert source is not None, f"{file.name}: `{name}` has no program"
        lines = [line for line in rest[source.end() :].splitlines() if line.startswith("- ")]
        edits: list[Edit] = []
        for line in lines:
            match = LINE.match(line)
            assert match is not None, f"{file.name}: this is no edit: {line}"
            edits.append(Edit(**match.groupdict()))
        found.append(Program(f"{file.stem}: {name.strip()}", source[1], tuple(edits)))
    return found


def edited(program: Program, edit: Edit) -> str:
    """The source with the fault in it."""
    assert program.source.count(edit.old) == 1, f"`{edit.old}` stands there not exactly once"
    return program.source.replace(edit.old, edit.new)


def made(source: str) -> Made:
    """Execute a program; its functions can be read as those of a file can."""
    name = f"<corpus {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {
        **{each: getattr(weft, each) for each in weft.__all__ if each != "instructions"},
        "BaseModel": pydantic.BaseModel, "Literal": Literal, "Annotated": Annotated,
        "call": call, "__name__": "program",
    }  # fmt: skip
    exec(compile(source, name, "exec"), space)
    kinds = ("inputs", "state", "answers", "gates", "message")
    return Made(space["flow"], **{kind: space[kind] for kind in kinds if kind in space})


def run(program: Made) -> tuple[Result, ScriptedModel, list[Event]]:
    """Run it with a scripted model, gates answered."""
    return asyncio.run(_run(program))


async def _run(program: Made) -> tuple[Result, ScriptedModel, list[Event]]:
    model = ScriptedModel(
        {
            agent.name: program.answers.get(agent.name) or _answers(agent)
            for agent in _everybody(program.flow)
        }
    )
    flow = _spoken_by(program.flow, model)
    inputs = {**declared_inputs(program.flow), **program.inputs}
    state = {**{k: sample(_shape(v), k) for k, v in inputs.items()}, **program.state}
    async with Runner(flow, store="memory://") as runner:
        result = await runner.run(session_id="s", message=program.message, state=state)
        errors = [event for event in result.events if event.error_code]
        for _ in range(10):
            if not result.waiting:
                break
            name = next(iter(result.waiting.values()))
            result = await runner.resume(session_id="s", answers={name: program.gates[name]})
            errors += [event for event in result.events if event.error_code]
    return result, model, errors


def _spoken_by(flow: Node, model: ScriptedModel) -> Node:
    def change(agent: Agent) -> Agent:
        tools = [
            msgspec.structs.replace(tool, agent=_spoken_by(tool.agent, model))  # type: ignore[arg-type]
            if isinstance(tool.agent, Composable)
            else tool
            for tool in agent.tools
        ]
        below = tuple(_spoken_by(child, model) for child in agent.sub_agents)
        return replace(agent, model=model, tools=tuple(tools), sub_agents=below)  # type: ignore[arg-type]

    return rebuild(flow, change)


def _everybody(node: Node) -> list[Agent]:
    found: list[Agent] = []
    for agent in agents_of(node):
        found.append(agent)
        for tool in agent.tools:
            if isinstance(tool.agent, Composable):
                found += _everybody(tool.agent)  # type: ignore[arg-type]
    return found


def _answers(agent: Agent) -> list[Any]:
    """Call each tool once, then speak; and again, in later rounds."""
    said: Any = f"the words of {agent.name}"
    if agent.output_schema is not None:
        shape = schema.of_type(agent.output_schema, where="answers")
        said = json.dumps(sample(shape, agent.name))
    calls = [call(tool.name, **_arguments(tool)) for tool in agent.tools]
    return [*calls, *[said] * 30]


def _arguments(tool: Tool) -> dict[str, Any]:
    value = sample(tool.parameters, tool.name)
    return value if isinstance(value, dict) else {}


def _shape(declared: object) -> Mapping[str, Any]:
    if declared in (None, object):
        return {"type": "string"}
    return schema.of_type(declared, where="inputs")


def sample(shape: Mapping[str, Any], name: str) -> Any:
    """A value of a schema: the first of an enumeration, else something plain."""
    if "enum" in shape:
        return shape["enum"][0]
    if "const" in shape:
        return shape["const"]
    if "anyOf" in shape:
        return sample(shape["anyOf"][0], name)
    match shape.get("type"):
        case "object":
            return {k: sample(v, f"{name} {k}") for k, v in shape.get("properties", {}).items()}
        case "array":
            return [sample(shape.get("items", {}), f"{name} {n}") for n in ("one", "two")]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return f"the {name}"
