"""A prompt as text: stable, readable, one line a block, the form fixtures are written in."""

from typing import assert_never

from weft.ir.block import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    MediaBlock,
    OpaqueBlock,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.ir.prompt import Prompt
from weft.values import compact


def show(prompt: Prompt) -> str:
    """The whole prompt, a line a block; text that has lines is indented below its first."""
    lines = [f"# {prompt.agent} -> {prompt.model}"]
    lines += [f"option: {name} = {compact(value)}" for name, value in sorted(prompt.config.items())]
    lines += [f"tool: {tool.name} {compact(tool.parameters)}" for tool in prompt.tools]
    if prompt.output is not None:
        lines.append(f"output: {prompt.output.how} {compact(prompt.output.schema)}")
    lines += [show_block(block) for block in prompt.blocks]
    return "\n".join(lines)


def show_block(block: Block) -> str:
    """One block: role, kind where it is not text, and what it holds."""
    match block:
        case TextBlock():
            return f"{block.role}: {_indented(block.text)}"
        case ThoughtBlock():
            signed = " [signed]" if block.signature else ""
            return f"{block.role} thought{signed}: {_indented(block.text)}"
        case CallBlock():
            return f"{block.role} call {block.id}: {block.name}({compact(block.args)})"
        case ResultBlock():
            made_up = " [synthetic]" if block.synthetic else ""
            with_media = f" [+{len(block.media)} media]" if block.media else ""
            return (
                f"{block.role} result {block.call_id}{made_up}{with_media}:"
                f" {block.name} -> {compact(block.response)}"
            )
        case MediaBlock():
            value = block.uri if block.uri is not None else f"{len(block.data or '')} base64 chars"
            return f"{block.role} media: {block.mime_type} {value}"
        case CodeBlock():
            return f"{block.role} code {block.language}: {_indented(block.code)}"
        case CodeResultBlock():
            return f"{block.role} code result {block.outcome}: {_indented(block.output)}"
        case OpaqueBlock():
            return f"{block.role} opaque {block.provider}: {compact(block.payload)}"
        case _:
            assert_never(block)


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")
