"""The language of pass fixtures: a line a block, as `print(prompt)` writes it.

system: text                         a system block; [turn] or [session] says how stable
user: text                           an item with one text block
model(planner)@fan.left: text        another author, in a branch
model[wrote=intent, inv=2]: text     item attributes
model call c1: name({"a": 1})        a call; `user result c1: name -> {...}` its result
model thought: text                  a thought
user media: image/png 400 base64     media with so many characters of base64
hidden(it is partial): text          a hidden item and why
+ model call c2: ...                 one more block of the same item
tool pay(amount, to): text           a tool; `choice: ...` what was chosen among them
"""

import re
from functools import partial
from typing import Any, cast

import msgspec

from weft.declare import C, Policy, TokenBudget
from weft.declare.examples import Example
from weft.diagnostics import Origin
from weft.ir import (
    Block,
    CallBlock,
    Feature,
    Item,
    MediaBlock,
    Prompt,
    ResultBlock,
    Stability,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.ir.prompt import NO_NOTES, show_block
from weft.passes import (
    ON_FRESH,
    ON_REQUEST,
    Env,
    Pass,
    Sizes,
    Views,
    name_of,
    passes_of,
)  # fmt: skip
from weft.passes.env import (
    InstructionFacts,
    ModelFacts,
    SessionFacts,
    ThreadFacts,
    TokenFacts,
)
from weft.passes.history import pair_results
from weft.passes.state_items import insert_examples, spell_examples
from weft.session.flow import FlowNote, describe_fields
from weft.session.strand import Strand
from weft.values import JsonObject, compact

_LINE = re.compile(
    r"(?P<more>\+ )?(?P<role>system|user|model|hidden)(?:\((?P<author>[^)]*)\))?"
    r"(?:@(?P<branch>[\w.]+))?(?:\[(?P<attributes>[^\]]*)\])?"
    r"(?: (?P<kind>call|result|thought|media) ?(?P<id>[\w.]*))?: ?(?P<rest>.*)"
)
_TOOL = re.compile(r"tool (?P<name>\w+)\((?P<names>[^)]*)\): (?P<about>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<args>.*)\)$")
_RESULT = re.compile(r"(?P<name>\w+) -> (?P<response>.*)$")


EXAMPLES = spell_examples([Example("2 euros?", "EUR 2.00")], "bot", wrapped=False, as_turns=True)
"""What `insert_examples` inserts."""


def pass_named(name: str, policy: Policy) -> Pass:
    """The pass of this name, with its options where the policy gives them."""
    found = [*ON_FRESH, *ON_REQUEST]
    custom = (cast("Pass", partial(insert_examples, options=EXAMPLES)),)
    passes = passes_of(policy, "bot", custom)
    for one in (*passes.fresh, *passes.request):
        inner = [view.passes for view in one.branches] if isinstance(one, Views) else [(one,)]
        found += [each for branch in inner for each in branch]
    with_name = [one for one in found if name_of(one) == name]
    assert with_name, f"`{name}` has no place in passes/verbs.py, or its policy does not mean it"
    return with_name[0]


def parse_prompt(text: str, agent: str = "bot", *, paired: bool = False) -> Prompt:
    """The prompt a fixture describes, with calls and results paired if asked for."""
    system: list[TextBlock] = []
    items: list[Item] = []
    tools: list[ToolDecl] = []
    for line in text.strip().splitlines():
        if tool := _TOOL.fullmatch(line):
            tools.append(_tool(tool))
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, f"not a line of the fixture language: {line!r}"
        if match["role"] == "system":
            stability = Stability[(match["attributes"] or "static").upper()]
            origin = Origin("field", "instruction", agent)
            system.append(
                TextBlock(role="system", origin=origin, text=match["rest"], stability=stability)
            )
            continue
        position = len(items) - 1 if match["more"] else len(items)
        block = _block(match, position)
        if match["more"]:
            held = items[-1]
            calls = held.kind == "model" and match["kind"] == "call"
            items[-1] = msgspec.structs.replace(
                held, blocks=(*held.blocks, block), kind="calls" if calls else held.kind
            )
        else:
            items.append(_item(match, block, position, agent))
    prompt = Prompt(
        model="m", agent=agent, system=tuple(system), items=Strand(items), features=Feature.ALL,
        tools=tuple(tools),
    )  # fmt: skip
    if not paired:
        return prompt
    return msgspec.structs.replace(pair_results(prompt, Env(agent=agent)), notes=NO_NOTES)


def _tool(match: re.Match[str]) -> ToolDecl:
    names = [name.strip() for name in match["names"].split(",") if name.strip()]
    properties: JsonObject = {name: {"type": "string"} for name in names}
    schema: JsonObject = {"type": "object", "properties": properties}
    return ToolDecl(match["name"], match["about"], schema, Origin("tool", match["name"]))


def _item(match: re.Match[str], block: Block, position: int, agent: str) -> Item:
    attributes = dict(
        pair.strip().split("=") for pair in (match["attributes"] or "").split(",") if "=" in pair
    )
    if "tier" in attributes:
        block = msgspec.structs.replace(block, priority=int(attributes["tier"]))
    hidden = match["role"] == "hidden"
    author = "user" if match["role"] == "user" and not match["author"] else match["author"] or agent
    kinds = {"result": "results", "call": "calls"}
    kind = "hidden" if hidden else kinds.get(match["kind"] or "", match["role"])
    return Item(
        kind=kind,  # type: ignore[arg-type]
        blocks=(block,),
        author=attributes.get("author", agent if hidden or kind == "results" else author),
        invocation=attributes.get("inv", "1"),
        position=position,
        last=position,
        event=f"e{position}",
        branch=match["branch"] or "",
        wrote=tuple(filter(None, [attributes.get("wrote")])),
        open="open" in attributes,
        why=match["author"] or "" if hidden else "",
        data="data" in attributes,
    )


def _block(match: re.Match[str], position: int) -> Block:
    role = "user" if match["role"] == "user" else "model"
    origin = Origin("event", f"e{position}")
    rest = match["rest"]
    if match["kind"] == "call":
        call = _CALL.match(rest)
        assert call is not None, rest
        args = msgspec.json.decode(call["args"])
        return CallBlock(
            role="model",
            origin=origin,
            id=match["id"],
            name=call["name"],
            args=args,
            waits="open" in (match["attributes"] or ""),
        )
    if match["kind"] == "result":
        result = _RESULT.match(rest)
        assert result is not None, rest
        response = msgspec.json.decode(result["response"])
        return ResultBlock(
            role="user",
            origin=origin,
            call_id=match["id"],
            name=result["name"],
            response=response,
            # nobody vouches for what a tool says, unless it is declared
            label=FlowNote(results={result["name"]: describe_fields(response)}).label,
        )
    if match["kind"] == "media":
        mime_type, size = rest.split()[:2]
        return MediaBlock(role=role, origin=origin, mime_type=mime_type, data="A" * int(size))  # type: ignore[arg-type]
    if match["kind"] == "thought":
        return ThoughtBlock(role="model", origin=origin, text=rest)
    return TextBlock(role=role, origin=origin, text=rest)  # type: ignore[arg-type]


def parse_env(text: str) -> Env:
    """The inputs of a pass: `key = value` lines, JSON values."""
    values: dict[str, object] = {}
    for line in text.strip().splitlines():
        key, _, value = line.partition("=")
        values[key.strip()] = msgspec.json.decode(value.strip())
    written = str(values.pop("policy", "C.default()"))
    policy: Policy = eval(written if "C." in written else f"C.{written}()", {"C": C})
    if values.pop("keep_duplicates", False):
        policy = policy.keep_duplicates()
    size = values.pop("item_tokens", 0)
    budget = values.pop("budget", None)
    changes = msgspec.convert(values.pop("changes", []), list[str])
    told = Origin("field", "instruction", "bot")
    assert isinstance(size, int)
    limit = msgspec.convert(budget, TokenBudget).limit if budget is not None else None
    changed = tuple(TextBlock(role="system", origin=told, text=text) for text in changes)
    return Env(
        agent=str(values.pop("agent", "bot")),
        policy=policy,
        invocation=str(values.pop("invocation", "1")),
        tokens=TokenFacts(budget=limit, measure=lambda p: _sizes(p, size)),
        instruction=InstructionFacts(
            changes=changed,
            inserted=msgspec.convert(values.pop("told", {}), dict[str, str]),
            **_some(values, InstructionFacts),
        ),
        model=ModelFacts(**_some(values, ModelFacts)),
        session=SessionFacts(id=str(values.pop("session", "")), **_some(values, SessionFacts)),
        thread=ThreadFacts(**_some(values, ThreadFacts)),
        **values,  # type: ignore[arg-type]
    )


def _some(values: dict[str, object], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The values that belong to a part of the inputs, taken out of all."""
    return {name: values.pop(name) for name in kind.__struct_fields__ if name in values}


def _sizes(prompt: Prompt, size: int) -> Sizes:
    """So many tokens for each item; one for each word where none is said."""

    def one(item: Item) -> int:
        return size or sum(len(show_block(block).split()) for block in item.blocks)

    return Sizes(sum(map(one, prompt.items)), lambda: (0, list(map(one, prompt.items))), one)


def show_prompt(prompt: Prompt) -> str:
    """A prompt in the fixture language, as far as a pass can change it."""
    lines = [
        f"tool {tool.name}({', '.join(tool.parameters.get('properties') or ())}):"  # type: ignore[arg-type]
        f" {tool.description}"
        for tool in prompt.tools
    ]
    lines += [f"system: {block.text}" for block in prompt.system]
    for item in prompt.items:
        for index, block in enumerate(item.blocks):
            lines.append(("+ " if index else "") + show_block(block))
    if "tool_choice" in prompt.config:
        lines.append(f"choice: {compact(prompt.config['tool_choice'])}")
    return "\n".join(lines)
