"""Keep only the fields of results that are asked for."""

import msgspec

from weft.declare.policy.transforms import Project
from weft.digest.shape import parsed_json
from weft.ir import Block, Item, Note, Prompt, ResultBlock
from weft.passes.env import Env
from weft.values import Json, JsonObject, compact

Tree = dict[str, "Tree"]
"""Field paths as a tree; an empty one means all that is below."""


def project_results(prompt: Prompt, env: Env, options: Project) -> Prompt:
    """Keep these fields of JSON results, or all but those; a path goes through lists.

    `"rows[].id"` and `"rows.id"` mean the id of every row. Errors, texts that are no JSON and
    results that have none of the fields stay as they are.

    Before:  result {"id": 1, "status": "ok", "trace": "..."}   (C.default().project(fields=["id"]))
    After:   result {"id": 1}
    """
    tree = _tree(options.fields or options.exclude)
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        blocks = tuple(_projected(block, tree, options) for block in item.blocks)
        if all(new is old for new, old in zip(blocks, item.blocks, strict=True)):
            kept.append(item)
            continue
        short = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note("project_results", "only some of its fields are asked for", item, short))
        kept.append(short)
    return prompt.with_items(kept, notes) if notes else prompt


def _tree(paths: tuple[str, ...]) -> Tree:
    """The paths as a tree; one that is below another adds nothing to it."""
    tree: Tree = {}
    split = [[step for step in path.replace("[]", "").split(".") if step] for path in paths]
    for steps in sorted(split, key=len):
        at = tree
        for step in steps:
            if step in at and not at[step]:
                break
            at = at.setdefault(step, {})
    return tree


def _projected(block: Block, tree: Tree, options: Project) -> Block:
    if not isinstance(block, ResultBlock) or block.synthetic or block.is_error:
        return block
    if options.tools and block.name not in options.tools:
        return block
    response = _response(block.response, tree, keep=bool(options.fields))
    if response is None or response == block.response:
        return block
    return msgspec.structs.replace(block, response=response)


def _response(response: JsonObject, tree: Tree, *, keep: bool) -> JsonObject | None:
    """The projected result; the one value of a result that has only one is looked into."""
    if len(response) == 1 and next(iter(response)) not in tree:
        ((key, held),) = response.items()
        if isinstance(held, str):
            parsed = parsed_json(held)
            if parsed is None:
                return None
            inner = _part(parsed, tree, keep=keep)
            return None if inner is None else {key: compact(inner)}
        inner = _part(held, tree, keep=keep)
        return None if inner is None else {key: inner}
    whole = _part(response, tree, keep=keep)
    return whole if isinstance(whole, dict) else None


def _part(value: Json, tree: Tree, *, keep: bool) -> Json:
    """What is left of a value; None where none of the fields that are to stay is in it."""
    if isinstance(value, list):
        rows = [_part(row, tree, keep=keep) for row in value]
        if keep and all(row is None for row in rows) and rows:
            return None
        return [{} if row is None and keep else row for row in rows]
    if not isinstance(value, dict):
        return None if keep else value
    kept: JsonObject = {}
    for key, held in value.items():
        below = tree.get(key)
        if below is None:
            if not keep:
                kept[key] = held
        elif not below:
            if keep:
                kept[key] = held
        elif (inner := _part(held, below, keep=keep)) is not None or not keep:
            kept[key] = inner
    return kept if kept or not keep else None
